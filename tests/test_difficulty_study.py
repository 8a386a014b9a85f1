"""The difficulty chapter of a whole study: instances, impact, metrics, sentences, figures, and studies with little in them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import cv2
import nbformat
import numpy as np
import polars as pl
import pytest
import yaml

from birdlab import schemas, stats, style
from birdlab.chapters import difficulty, summary
from birdlab.chapters import difficulty_words as say
from birdlab.difficulty.arrays import arrange
from birdlab.difficulty.bins import bin_instances
from birdlab.difficulty.impact import impact_intervals
from birdlab.difficulty.printed import tables_4_to_9
from birdlab.difficulty.study import INSTANCES, analysed, arranged, instances
from birdlab.difficulty.univariate import recall_by_bin
from birdlab.errors import ParameterError
from birdlab.recipe import Difficulty, load_recipe, parse_recipe
from birdlab.study import Run

KEY = ["dataset", "model", "group", "level", "metric", "method"]


# a small study on disk


def write_study(root: Path, *, sessions: dict[str, int], found: dict[str, Any], birds: int = 1, **more: Any) -> Path:
    """Photographs of noise with a bird of its own brightness each; ``found`` says, by model, which birds are detected."""
    rng, images, rows = np.random.default_rng(11), [], []
    for session, n in sessions.items():
        (root / "data" / session).mkdir(parents=True)
        for i in range(n):
            level = 40 + 170 * (i % 5) / 4
            picture = rng.normal(120, 12, (96, 128))
            for b in range(birds):
                picture[20 : 44 + i % 4, 10 + 50 * b : 36 + 50 * b] = level + rng.normal(0, 6, (24 + i % 4, 26))
            name = f"{session}/{i:03d}.png"
            cv2.imwrite(str(root / "data" / name), picture.clip(0, 255).astype(np.uint8))
            images.append({"id": len(images) + 1, "file_name": name, "width": 128, "height": 96})
            for b in range(birds):
                box = [10 + 50 * b, 20, 26, 24 + i % 4]
                rows.append({"image_id": len(images), "bbox": box, "level": level, "session": session, "i": i})
    labels = [{"id": n, "category_id": 1, "iscrowd": 0, "area": 600, **r} for n, r in enumerate(rows, 1)]
    truth = {"images": images, "annotations": labels, "categories": [{"id": 1, "name": "bird"}]}
    (root / "labels.json").write_text(json.dumps(truth), encoding="utf-8")
    for name, which in found.items():
        hits = [{**{k: r[k] for k in ("image_id", "bbox")}, "category_id": 1, "score": 0.9} for r in rows if which(r)]
        (root / f"{name}.json").write_text(json.dumps(hits))
    recipe = {
        "name": "tiny",
        "data": {
            "root": "data",
            "media": [{"images": "*/*.png", "session": "([^/]+)/"}],
            "labels": [{"path": "labels.json", "format": "coco"}],
        },
        "models": [{"name": name, "predictions": f"{name}.json"} for name in found],
        "notebooks": ["03_difficulty", "10_summary"],
        **more,
    }
    (root / "tiny.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return root / "tiny.yaml"


def read_chapter(path: Path, project: Path) -> dict[str, Any]:
    """All cells of the notebook in this process; what it holds at its end, and ``record``: what it showed."""
    notebook = nbformat.read(project / "notebooks" / "03_difficulty.ipynb", 4)
    space: dict[str, Any] = {"recipe": str(path), "run_dir": str(path.parent / "run"), "n_examples": 2}
    for cell in notebook.cells:
        if cell.cell_type == "code" and "parameters" not in cell.metadata.get("tags", []):
            exec(cell.source, space)
    record = json.loads((path.parent / "run" / "records" / "03_difficulty.json").read_text(encoding="utf-8"))
    return {**space, "record": record["entries"] if isinstance(record, dict) else record}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are drawn and not saved: the layout of every picture is another test's."""
    blank = style.png_bytes
    pixel: list[bytes] = []

    def once(figure: Any, **options: Any) -> bytes:
        if not pixel:
            pixel.append(blank(figure, dpi=20))
        return pixel[0]

    monkeypatch.setattr(style, "png_bytes", once)
    monkeypatch.setattr(style, "save_vector", lambda figure, stem: [])


def answer_of(chapter: dict[str, Any]) -> tuple[str, str]:
    (entry,) = [e for e in chapter["record"] if e["kind"] == "answer"]
    return entry["answer"], entry["detail"]


def dark(row: dict[str, Any]) -> bool:
    return row["level"] < 90


# studies with little in them


def test_a_planted_factor_is_named_with_what_it_is_worth(tmp_path: Path, project: Path, quick: None) -> None:
    sessions = {"Wüste am See": 40, "b": 40, "c": 40}
    path = write_study(tmp_path, sessions=sessions, found={"jay": lambda r: not dark(r), "all": lambda r: True})
    chapter = read_chapter(path, project)
    factors = chapter["factors"].filter(model="jay")
    top = say.top_factor(factors, "jay")
    assert top["confirmed"] and top["factor"] == "brightness_local" and top["worst"] == "Dark"
    # Two of five levels of light are dark: 72 of 120 found, all of the bright third.
    assert (
        (top["k"], top["n"]) == (72, 120) and top["impact"] == pytest.approx(0.4) and top["birds"] == pytest.approx(48)
    )
    assert top["impact_lo"] < 0.4 < top["impact_hi"]
    metrics = chapter["metrics"].filter(model="jay")
    (_, said, why), (number,) = (
        say.answer(metrics, factors, ["jay"], unit="session"),
        say.headlines(metrics, factors, ["jay"]),
    )
    assert said == "Local brightness: {model:jay} misses dark birds."
    assert "as often as bright birds, that would be worth 40.0 points of recall [" in why and "48 birds of 120" in why
    assert number["value"] == pytest.approx(40) and (number["lo"], number["hi"]) == pytest.approx(
        (100 * top["impact_lo"], 100 * top["impact_hi"])
    )
    answer, _ = answer_of(chapter)
    assert answer == "{model:all} missed no bird."
    (number,) = [e for e in chapter["record"] if e["kind"] == "headline"]
    assert number["value"] is None and "no factor" in number["reason"]
    strip = chapter["birds"]
    assert set(strip["session"]) == set(sessions)
    whole = Run(load_recipe(path), path, tmp_path / "run", "x").table("metrics")
    assert whole.select(pl.struct(KEY).is_duplicated().any()).item() is False
    (row,) = [r for r in summary.key_numbers(whole, ["jay", "all"], conf=0.25).to_dicts() if "Worth" in r["measure"]]
    assert row["jay"] == pytest.approx(40) and row["all"] is None and row["measure_note"] == "jay: local brightness"
    assert row["all_reason"] == "no single factor is confirmed"


CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "nothing found": ({"sessions": {"a": 24, "b": 24}, "found": {"jay": lambda r: False}}, "found no bird", "All 48 birds were missed"),
    "everything found": ({"sessions": {"a": 24, "b": 24}, "found": {"jay": lambda r: True}}, "missed no bird", "All 48 birds were found"),
    "one session": ({"sessions": {"a": 90}, "found": {"jay": lambda r: not dark(r)}}, "misses dark birds", "a new session"),
    "one bird": ({"sessions": {"a": 1}, "found": {"jay": lambda r: True}}, "missed no bird", "only bird"),
    "few birds": ({"sessions": {"a": 9, "b": 9}, "found": {"jay": lambda r: not dark(r)}}, "cannot be said", "enough birds"),
    "no model": ({"sessions": {"a": 24}, "found": {}}, "cannot be said", "no model"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_little_to_see_is_said(name: str, tmp_path: Path, project: Path, quick: None) -> None:
    study, answer, detail = CASES[name]
    chapter = read_chapter(write_study(tmp_path, **study), project)
    assert answer in answer_of(chapter)[0] and detail in answer_of(chapter)[1]
    kinds = [e["kind"] for e in chapter["record"]]
    assert kinds.count("table") == 6 and kinds.count("figure") == 4 and kinds.count("gallery") == 1
    for entry in chapter["record"]:  # no number stands where there is none
        assert "nan" not in f"{entry.get('title')} {entry.get('alt')}".lower().split()
    if name == "one bird":
        titles = [str(e.get("title")) for e in chapter["record"]]
        assert "No factor varies." in titles and not any("In most sessions" in t for t in titles)
    if name == "one session":
        worst = chapter["factors"].filter(factor="brightness_local").row(0, named=True)
        assert worst["impact_new_lo"] is None and "one session" in worst["impact_new_reason"]
        assert "nothing can be said about a new session" in answer_of(chapter)[1]


def test_without_permutations_the_reason_is_said(tmp_path: Path, project: Path, quick: None) -> None:
    sessions, found = {"a": 30, "b": 30}, {"jay": lambda r: not dark(r)}
    path = write_study(tmp_path, sessions=sessions, found=found, difficulty={"n_permutations": 0})
    answer, detail = answer_of(read_chapter(path, project))
    assert answer == "No single factor is confirmed for {model:jay}."
    assert detail.endswith("but it could not be tested: no permutations were asked for.")


def test_titles_of_a_study_without_anything_to_compare() -> None:
    sheet = pl.DataFrame({"n": [1], "within": [None]}, schema={"n": pl.Int64, "within": pl.Float64})
    assert say.sheet_title(sheet) == "No factor varies."
    assert say.sheet_title(sheet.with_columns(n=pl.lit(0))) == "No factor could be measured."
    kinds = ("Cls", "Loc", "Both", "Dupe", "Bkg", "Miss")
    errors = pl.DataFrame({"model": ["jay"], **{kind: [0.0] for kind in kinds}})
    unknown = "What errors cost in average precision cannot be said."
    assert say.errors_title(errors) == "No kind of error costs average precision."
    assert say.errors_title(errors.with_columns(Miss=pl.lit(None, pl.Float64))) == unknown
    assert say.errors_title(errors.clear()) == unknown


def test_no_label_at_all(tmp_path: Path, project: Path, quick: None) -> None:
    path = write_study(tmp_path, sessions={"a": 4}, found={"jay": lambda r: False})
    truth = json.loads((tmp_path / "labels.json").read_text())
    (tmp_path / "labels.json").write_text(json.dumps({**truth, "annotations": []}))
    chapter = read_chapter(path, project)
    assert answer_of(chapter) == ("It cannot be said.", "No labelled bird could be measured.")
    assert not any("None" in f"{e.get('title')} {e.get('caption', '')}" for e in chapter["record"] if e.get("title"))


def test_an_unreadable_picture_is_a_missing_row_and_its_bird_counts(tmp_path: Path, project: Path, quick: None) -> None:
    path = write_study(tmp_path, sessions={"a": 30, "b": 30}, found={"jay": lambda r: not dark(r)})
    whole = (tmp_path / "data" / "a" / "000.png").read_bytes()
    (tmp_path / "data" / "a" / "000.png").write_bytes(whole[: len(whole) // 3])
    chapter = read_chapter(path, project)
    bins = chapter["bins"].filter(factor="brightness_local")
    assert bins["n"].sum() == 60 and bins.filter(level="missing")["n"].to_list() == [1]
    notes = say.sheet_notes(chapter["sheet"], chapter["factors"], chapter["notices"], chapter["bins"])
    assert any("could not be read" in n for n in notes) and any(
        "Local brightness: 1 bird has no value" in n for n in notes
    )
    assert chapter["sheet"].filter(factor="Local brightness")["n"].item() == 59
    assert chapter["sheet"].filter(factor="Birds in the frame")["n"].item() == 60


@pytest.mark.slow
def test_the_report_of_sessions_with_blanks_and_umlauts(tmp_path: Path) -> None:
    from birdlab.report.run import run_recipe

    sessions = {"Wüste am <See>": 24, "Übergang 2": 24}
    path = write_study(tmp_path, sessions=sessions, found={"jay": lambda r: not dark(r)}, birds=2)
    assert run_recipe(path) == 0
    page = (tmp_path / "tiny" / "report.html").read_text(encoding="utf-8")
    assert "Wüste am &lt;See&gt;" in page and "Wüste am <See>" not in page.replace("&lt;", "")
    assert "misses dark birds" in page and "Worth fixing" in page
    metrics = pl.read_parquet(tmp_path / "tiny" / "tables" / "metrics_difficulty.parquet")
    assert schemas.validate("metrics", metrics).height == metrics.height


# instances


def tables() -> dict[str, Any]:
    frames = pl.DataFrame(
        {"frame_id": ["v#0", "v#9", "p"], "media_id": ["v", "v", "p"], "video_id": ["s", "s", "t"], "site_id": None,
         "time_s": [0.0, 30.0, None]}, schema_overrides={"site_id": pl.String})  # fmt: skip
    base = {
        "label_id": ["1", "2", "3"],
        "frame_id": ["v#0", "v#9", "p"],
        "video_id": ["s", "s", "t"],
        "crowding": [1, 1, 1],
    }
    factors = schemas.TABLES["factors"].conform(pl.DataFrame(base))
    made = {"model": ["m", "m", "n"], "label_id": ["1", "2", "3"], "outcome": ["tp", "fn", "tp"]}
    stratum = pl.DataFrame({"frame_id": ["v#0", "v#9"], "stratum": ["s", "s · view 2"]})
    failures = pl.DataFrame({"model": ["m"], "frame_id": ["p"]})
    return {
        "factors": factors,
        "matches": pl.DataFrame(made),
        "frames": frames,
        "stratum": stratum,
        "failures": failures,
    }


def test_instances_say_what_each_model_made_of_each_bird() -> None:
    t = tables()
    got = instances(
        *(t[k] for k in ("factors", "matches", "frames", "stratum")), models=["m", "n"], failures=t["failures"]
    )
    assert dict(got.schema) == INSTANCES and got.height == 6
    assert got.filter(model="m").select("instance", "recovered").rows() == [("1", True), ("2", False), ("3", None)]
    assert got.filter(model="n")["recovered"].to_list() == [None, None, True]
    assert got.filter(model="m")["stratum"].to_list() == ["s", "s · view 2", "t"]
    blocks = got.filter(model="m")["block"].to_list()
    assert len(set(blocks)) == 3  # thirty seconds apart
    assert instances(t["factors"], t["matches"], t["frames"], t["stratum"], models=[]).is_empty()
    assert analysed(got) == ("crowding",)


def test_a_nudged_session_is_two_strata_and_still_one_recording() -> None:
    rows = made_birds().with_columns(
        stratum=pl.col("session") + pl.when(pl.col("session") == "s0").then(pl.lit(" · view 2")).otherwise(pl.lit(""))
    )
    half = pl.int_range(pl.len()) % 12 == 0
    rows = rows.with_columns(
        stratum=pl.when(half).then("stratum").otherwise("session"), block=pl.col("frame").cast(pl.Int64)
    )
    rows = rows.rename({"clutter": "clutter_local"})
    frames = pl.DataFrame({"site_id": [None]}, schema={"site_id": pl.String})
    split = arranged(rows, frames, Difficulty())
    assert split.unit == "recording" and len(split.birds.sessions) == 7 and len(set(split.birds.top)) == 6
    whole = arranged(rows, frames, Difficulty(split_strata=False))
    assert whole.unit == "session" and len(whole.birds.sessions) == 6
    assert split.factors == ("clutter_local",)


# impact


def made_birds(seed: int = 3) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    n = 240
    x = rng.normal(0, 1, n)
    p = 1 / (1 + np.exp(-(0.8 + x)))
    return pl.DataFrame(
        {
            "model": "m",
            "instance": [str(i) for i in range(n)],
            "session": [f"s{i % 6}" for i in range(n)],
            "frame": [str(i // 2) for i in range(n)],
            "clutter": x,
            "recovered": (rng.random(n) < p).astype(int),
        }
    )


def test_impact_interval_of_new_sessions_is_cr1_of_the_linearised_difference() -> None:
    birds = arrange(made_birds(), ["clutter"])
    binned = bin_instances(birds.table, ["clutter"])
    bins = recall_by_bin(birds, binned)
    got = impact_intervals(birds, binned, bins).row(0, named=True)
    from scipy.stats import t

    y, code, session = birds.outcome[:, 0], binned["clutter"].codes, birds.session
    ends = []
    for b in range(3):
        p_b, p = y[code == b].mean(), y.mean()
        total = 0.0
        for s in range(6):  # the sum over sessions written out
            e_b = sum(y[i] - p_b for i in range(len(y)) if session[i] == s and code[i] == b) / np.sum(code == b)
            e = sum(y[i] - p for i in range(len(y)) if session[i] == s) / len(y)
            total += (e_b - e) ** 2
        half = t.ppf(1 - 0.05 / 6, 5) * math.sqrt(6 / 5 * total)
        ends.append((p_b - p - half, p_b - p + half))
    assert got["impact_new_lo"] == pytest.approx(max(0, *(e[0] for e in ends)))
    assert got["impact_new_hi"] == pytest.approx(max(e[1] for e in ends))


def test_impact_interval_within_these_sessions_is_newcombe_of_bin_and_rest() -> None:
    birds = arrange(made_birds(), ["clutter"])
    binned = bin_instances(birds.table, ["clutter"])
    got = impact_intervals(birds, binned, recall_by_bin(birds, binned)).row(0, named=True)
    highs, lows = [], []
    for b in range(3):
        inside = binned["clutter"].codes == b
        pair = []
        for part in (inside, ~inside):
            y = birds.outcome[part, 0]
            k, n = np.bincount(birds.block[part], weights=y), np.bincount(birds.block[part])
            i = stats.within_sessions(k[n > 0], n[n > 0], confidence=1 - 0.05 / 3)
            pair.append((y.mean(), i.lo, i.hi))
        (p, pl_, pu), (q, ql, qu) = pair
        rest = np.mean(~inside)
        lows.append(rest * (p - q - math.sqrt((p - pl_) ** 2 + (qu - q) ** 2)))
        highs.append(rest * (p - q + math.sqrt((pu - p) ** 2 + (q - ql) ** 2)))
    assert (got["impact_lo"], got["impact_hi"]) == pytest.approx((max(0, *lows), max(highs)))


@pytest.mark.parametrize("recovered", [0, 1])
def test_impact_of_a_model_that_finds_all_or_nothing_has_ends(recovered: int) -> None:
    birds = arrange(made_birds().with_columns(recovered=pl.lit(recovered)), ["clutter"])
    binned = bin_instances(birds.table, ["clutter"])
    got = impact_intervals(birds, binned, recall_by_bin(birds, binned)).row(0, named=True)
    assert 0 == got["impact_lo"] < got["impact_hi"] < 1 and got["impact_new_hi"] is not None


def test_sessions_that_are_alike_do_not_make_the_impact_of_new_ones_certain() -> None:
    recovered = [1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1] * 4
    birds = pl.DataFrame({"model": "m", "instance": [str(i) for i in range(120)], "frame": [str(i) for i in range(120)],
                          "session": ["a"] * 60 + ["b"] * 60, "clutter": [i % 6 for i in range(60)] * 2,
                          "recovered": recovered * 2})  # fmt: skip
    arranged_birds = arrange(birds, ["clutter"])
    binned = bin_instances(arranged_birds.table, ["clutter"])
    got = impact_intervals(arranged_birds, binned, recall_by_bin(arranged_birds, binned)).row(0, named=True)
    assert got["impact_new_hi"] - got["impact_new_lo"] > 0.1


# printed numbers


def test_printed_worst_bins_are_those_of_the_counts(project: Path) -> None:
    counts = json.loads((project / "tests" / "data" / "difficulty" / "bluebird_tables_4_to_9_counts.json").read_text())
    names = {"YWFT": "YOLO-World FT", "RTD": "RT-DETR FT", "MRC": "Mask R-CNN FT"}
    printed = {(r["model"], r["factor"]): r for r in tables_4_to_9().iter_rows(named=True)}
    assert len(printed) == 45
    checked = 0
    for factor, cells in counts.items():
        name = {"blur": "blur_local"}.get(factor, factor)
        for short, cell in cells.items():
            row = printed.get((names.get(short, ""), name))
            if row is None or "k_example" not in cell:
                continue
            n = cells["n_per_bin"]
            recall = {level.replace(" ", "").lower(): k / n[level] for level, k in cell["k_example"].items()}
            assert row["worst"].replace(" ", "").lower() == cell["worst"].replace(" ", "").lower() and row[
                "recall"
            ] == pytest.approx(recall[cell["worst"].replace(" ", "").lower()], abs=6e-4)
            assert row["delta"] == pytest.approx(
                max(recall.values()) - recall[cell["worst"].replace(" ", "").lower()], abs=1.1e-3
            )
            checked += 1
    assert checked >= 21


def test_table_layouts_carry_marks_reasons_and_printed_rows() -> None:
    base = dict.fromkeys(("worst", "worst_recall", "delta", "worst_n"), None)
    rows = [
        {
            "model": "jay",
            "factor": "rel_size",
            "worst": "Very small",
            "worst_recall": 0.5,
            "delta": 0.25,
            "worst_n": 25,
        },
        {"model": "jay", "factor": "crowding", **base},
    ]
    marks = {"confirmed": True, "confounded": True, "reason": None}
    factors = pl.DataFrame([rows[0] | marks, rows[1] | marks | {"reason": "no variation"}])
    shown = difficulty.worst(factors, ["jay"]).row(0, named=True)
    assert shown["rel_size"].replace("\u00a0", " ") == "Very small: 50.0 %, Δ 25.0*† (n 25)"
    assert shown["crowding"] is None and shown["crowding_reason"] == "no variation"
    printed = difficulty.printed_worst(["western_bluebird"], factors)
    assert printed.height == 5 and printed["crowding"][0].replace("\u00a0", " ") == "2–3 objects: 72.9 %, Δ 19.4"
    assert difficulty.printed_worst([], factors) is None


def test_metrics_hold_the_chapter_only_where_the_recipe_lists_it(tmp_path: Path) -> None:
    found = {"jay": lambda r: True}
    path = write_study(tmp_path, sessions={"a": 4}, found=found, notebooks=["02_detection", "10_summary"])
    run = Run(load_recipe(path), path, tmp_path / "run", "x")
    assert not (set(run.table("metrics")["metric"]) & {"impact", "delta_ap"})
    assert not (tmp_path / "run" / "tables" / "factors.parquet").exists()  # no picture was looked at


def test_every_chapter_has_a_number_on_top_before_another_has_five() -> None:
    from birdlab.report.chapter import Chapter
    from birdlab.report.frame import _headlines

    def chapter(name: str, n: int) -> Chapter:
        return Chapter(name, 1, headlines=[{"label": f"{name} {i}"} for i in range(n)])

    shown = _headlines([chapter("02", 5), chapter("03", 1)])
    assert [e["label"] for _, e in shown] == ["02 0", "02 1", "02 2", "02 3", "03 0"]


def test_recipe_section_is_strict() -> None:
    raw = {"name": "a", "data": {"generator": "demo"}, "difficulty": {"preset": "bluebird", "min_n": 5}}
    assert parse_recipe(raw).difficulty.preset == "bluebird"
    with pytest.raises(ParameterError, match="Did you mean n_permutations"):
        parse_recipe({**raw, "difficulty": {"n_permutation": 3}})


# figures


def drawn() -> pl.DataFrame:
    cells = [("m", 0, "Dark", 0.25, 40), ("m", 1, "Neutral", 0.5, 40), ("m", 2, "Bright", 1.0, 40)]
    rows = [
        {"model": m, "factor": "brightness_local", "title": "Local brightness", "level": level, "order": o, "n": n,
         "k": int(r * n), "recall": r, "within_lo": r / 2, "within_hi": min(1.0, r * 1.2), "new_lo": None, "new_hi": None,
         "overall": 0.58, "is_worst": o == 0, "confirmed": True, "confounded": False, "reason": None}
        for m, o, level, r, n in cells
    ]  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"new_lo": pl.Float64, "new_hi": pl.Float64})


@pytest.mark.parametrize("narrow", [False, True])
def test_the_bins_are_drawn_where_they_are(narrow: bool) -> None:
    import matplotlib.pyplot as plt

    from birdlab.figures import difficulty as figures

    figure = figures.fig_bins(drawn(), models=["m"], narrow=narrow)
    axes = figure.axes[0]
    points = [line for line in axes.lines if line.get_marker() == "o"]
    assert [float(p.get_ydata()[0]) for p in points] == [0.25, 0.5, 1.0]
    assert [p.get_markerfacecolor() != "white" for p in points] == [True, False, False]
    texts = [t.get_text() for t in axes.texts]
    assert "25*" in texts and "m 58" in texts
    assert [t.get_text() for t in axes.get_xticklabels()] == ["n = 40\ndark", "40\nneutral", "40\nbright"]
    plt.close(figure)
    heat = figures.fig_heatmap(drawn(), models=["m"], narrow=narrow)
    assert {"25", "50", "100"} <= {t.get_text() for t in heat.axes[0].texts}
    plt.close(heat)


def test_words_on_the_grey_ramp_can_be_read() -> None:
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    from birdlab.figures.difficulty import RAMP, _ink

    def luminance(rgb: tuple[float, ...]) -> float:
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb[:3]]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

    ramp = LinearSegmentedColormap.from_list("ramp", RAMP)
    for share in np.linspace(0, 1, 101):
        pair = sorted((luminance(ramp(share)), luminance(to_rgb(_ink(ramp(share))))))
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5
