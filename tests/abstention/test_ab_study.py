"""Studies of a handful of photographs, from the recipe to tables and page: numbers by hand, and everything that can be missing."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import polars as pl
import pytest
from abstention_cases import LIST, SPECIES, answers, cells_of, item, matrix, number, opened, study, write_study

from birdlab.errors import DataError, ManifestError, ParameterError
from birdlab.recipe import load_recipe
from birdlab.report.run import run_recipe
from birdlab.study import Run

BLURRED, GULL = "I cannot identify this bird: the image is too blurry.", "Herring Gull"
ITEMS = [
    item("a", SPECIES[0], observation_id="o1"),
    item("b", SPECIES[0], observation_id="o1"),
    item("c", SPECIES[3]),
    item("d", SPECIES[5], observation_id="o3"),
    item("u", genus="Larus", reasons="quality", observation_id="o4"),
    item("v", genus="Corvus", reasons=["angle", "quality"]),
]
IDS = [row["item_id"] for row in ITEMS]


def sure(species: str | None, p: float = 0.9) -> list[float]:
    """Probability ``p`` for one species, the rest shared."""
    rest = (1 - p) / (len(SPECIES) - 1)
    return [p if name == species else rest for name in SPECIES]


def good(items: list[dict[str, Any]] = ITEMS) -> pl.DataFrame:
    """Right where the species can be told, half as sure where it cannot."""
    return matrix({r["item_id"]: sure(r["species"] or SPECIES[2], 0.9 if r["species"] else 0.5) for r in items})


def top_two(items: list[dict[str, Any]] = ITEMS) -> pl.DataFrame:
    """A list of the two most probable species, which leaves 0.3 unseen."""
    n = len(items)
    names = {"item_id": [r["item_id"] for r in items], "top1_species": [SPECIES[0]] * n, "top1_prob": [0.5] * n}
    return pl.DataFrame({**names, "top2_species": [SPECIES[3]] * n, "top2_prob": [0.2] * n})


def silent(items: list[dict[str, Any]] = ITEMS) -> list[dict[str, Any]]:
    return answers({r["item_id"]: BLURRED for r in items})


def never(items: list[dict[str, Any]] = ITEMS) -> list[dict[str, Any]]:
    return answers({r["item_id"]: GULL for r in items}, permits=False)


def several(items: list[dict[str, Any]] = ITEMS) -> dict[str, Any]:
    return {"good": good(items), "silent": silent(items), "never": never(items)}


def shown(run: Run, name: str) -> list[dict[str, Any]]:
    return pl.read_parquet(run.dir / "tables" / f"{name}.parquet").to_dicts()


def notice(run: Run, code: str, model: str = "") -> dict[str, Any]:
    rows = run.table("abstention_notices").filter((pl.col("code") == code) & (pl.col("model") == model))
    assert rows.height == 1, (code, model, run.table("abstention_notices"))
    return rows.row(0, named=True)


# The whole of it, once


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe without media: four models, one of them a list of two; run with `birdlab run`'s own function."""
    recipe = write_study(tmp_path_factory.mktemp("whole"), ITEMS, {**several(), "short list": top_two()})
    assert run_recipe(recipe) == 0
    return recipe


def test_without_media_the_chapter_and_the_summary_are_run(whole: Path) -> None:
    assert [name for name, _ in load_recipe(whole).steps()] == ["09_abstention", "10_summary"]
    record = json.loads((whole.parent / "study" / "run.json").read_text(encoding="utf-8"))
    assert [(n["name"], n["status"]) for n in record["notebooks"]] == [
        ("09_abstention", "complete"),
        ("10_summary", "complete"),
    ]
    metrics = opened(whole).table("metrics")
    assert set(metrics["model"]) >= {"good", "silent", "never", "short list", ""}
    assert metrics.equals(opened(whole).table("metrics_abstention"))


def test_the_page_gives_dashes_with_reasons(whole: Path) -> None:
    page = (whole.parent / "study" / "report.html").read_text(encoding="utf-8")
    assert "the lists leave 30.0 % of the probability unseen (limit 5 %)" in re.sub("\u00a0|\u202f|&nbsp;", " ", page)
    assert "no species named for an answerable photograph of a genus with several" in page
    assert "one prompt: there is no spread" in page
    assert "how many names there are to guess from is not known" in page
    assert len(re.findall("List of birds: birds sha256 [0-9a-f]{16}\\.", page)) == 1
    assert "Traceback" not in page
    for kind in ("areas", "asked", "accuracy", "reasons", "prompts", "declined", "conventions", "summary-abstention"):
        assert f'id="tab-{kind}"' in page
    assert 'id="tab-summary"' not in page
    for notebook in (whole.parent / "study" / "notebooks").glob("*.ipynb"):
        outputs = [o for c in json.loads(notebook.read_text())["cells"] for o in c.get("outputs", [])]
        assert [o for o in outputs if o["output_type"] in ("stream", "error")] == []


def test_numbers_of_the_whole_study(whole: Path) -> None:
    run = opened(whole)
    # Everything declined: no better than chance at telling apart, no information, no within-genus answer.
    assert [number(run, k, "silent")["value"] for k in ("ua_a", "ig", "a_species_accuracy")] == [0.5, 0.0, 0.0]
    assert number(run, "within_genus_accuracy", "silent")["value"] is None
    # Nothing declined and two of four right: the curve falls straight from (0, 1) to (1, 1/2).
    assert [number(run, k, "never")["value"] for k in ("ua_a", "ig", "a_species_accuracy")] == [0.5, 0.75, 0.5]
    assert [number(run, k, "good")["value"] for k in ("ua_a", "ig", "a_species_accuracy")] == [1.0, 1.0, 1.0]
    for metric in ("ua_a", "ig", "auc_a_species", "auc_a_genus", "auc_ua_genus"):
        row = number(run, metric, "short list")
        assert row["value"] is None and row["reason"].startswith("the lists leave 30.0 %")
    assert number(run, "a_species_accuracy", "short list")["value"] == 0.5  # what is listed first is known
    assert number(run, "missing_species", "short list")["value"] is None
    rates = {r["level"]: r["value"] for r in run.table("metrics").filter(
        (pl.col("metric") == "abstention_rate") & (pl.col("model") == "silent") & (pl.col("group") == "true_reason")
    ).to_dicts()}  # fmt: skip
    assert rates["angle"] == rates["quality"] == 1.0 and rates["vocalization"] is None


def test_run_again_unchanged_nothing_is_executed_and_a_changed_answer_changes_what_it_should(
    whole: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_dir = whole.parent / "study"
    times = {p: p.stat().st_mtime_ns for p in (*run_dir.glob("notebooks/*"), *run_dir.glob("tables/*"))}
    assert run_recipe(whole) == 0
    assert "0 of 2 notebooks to execute" in capfd.readouterr().err
    assert {p: p.stat().st_mtime_ns for p in times} == times
    path = whole.parent / "data" / "m2.jsonl"
    before = path.read_text(encoding="utf-8")
    try:
        path.write_text(before.replace(GULL, "Common Raven"), encoding="utf-8")
        run = opened(whole)
        assert number(run, "a_species_accuracy", "never")["value"] == 0.25
        assert number(run, "ig", "never")["value"] == 0.625
        assert number(run, "ig", "good")["value"] == 1.0
    finally:
        path.write_text(before, encoding="utf-8")


def test_a_changed_answer_leaves_the_tables_of_the_media_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    cv2.imwrite(str(tmp_path / "data" / "p.png"), np.full((40, 60, 3), 90, np.uint8))
    media = {"data": {"root": "data", "media": [{"images": "*.png"}]}}
    recipe = write_study(tmp_path, ITEMS, {"never": never()}, recipe=media)
    run = opened(recipe)
    assert run.table("frames").height == 1 and number(run, "ig", "never")["value"] == 0.75
    tables = run.dir / "tables"
    times = {p.name: p.stat().st_mtime_ns for p in tables.iterdir()}
    path = tmp_path / "data" / "m0.jsonl"
    path.write_text(path.read_text().replace(GULL, "Common Raven"))
    again = opened(recipe)
    assert again.table("frames").height == 1 and number(again, "ig", "never")["value"] == 0.625
    now = {p.name: p.stat().st_mtime_ns for p in tables.iterdir()}
    changed = {name for name in times if now[name] != times[name]}
    assert {"frames.parquet", "media.parquet", "notices.parquet"}.isdisjoint(changed)
    assert {"answers.parquet", "image_scores.parquet", "metrics_abstention.parquet"} <= changed
    # And the other way round: a photograph more says nothing about the answers.
    cv2.imwrite(str(tmp_path / "data" / "q.png"), np.full((40, 60, 3), 120, np.uint8))
    third = opened(recipe)
    assert third.table("frames").height == 2 and number(third, "ig", "never")["value"] == 0.625
    assert (tables / "answers.parquet").stat().st_mtime_ns == now["answers.parquet"]


# What may be missing, through every cell of the chapter


def test_no_unanswerable_photograph(tmp_path: Path, project: Path) -> None:
    items = ITEMS[:4]
    run = cells_of(project, write_study(tmp_path, items, several(items)))
    for name in ("good", "silent", "never"):
        for metric in ("ua_a", "auc_ua_genus", "ua_genus_accuracy"):
            row = number(run, metric, name)
            assert row["value"] is None and "unanswerable" in row["reason"]
    assert number(run, "ig", "good")["value"] == 1.0 and number(run, "ig", "never")["value"] == 0.75
    assert {r["ua_a"] for r in shown(run, "tab-areas")} == {None}
    record = (run.dir / "records" / "09_abstention.json").read_text(encoding="utf-8")
    assert "Cannot be said here." in record and "UA/A is undefined: no unanswerable photograph" in record
    summary = cells_of(project, run.recipe_path, notebook="10_summary")
    rows = {r["measure"].split(":")[0]: r for r in shown(summary, "tab-summary-abstention")}
    assert rows["UA/A"]["good"] is None and "unanswerable" in rows["UA/A"]["good_reason"] and rows["IG"]["good"] == 1.0


def test_no_answerable_photograph(tmp_path: Path, project: Path) -> None:
    items = ITEMS[4:]
    run = cells_of(project, write_study(tmp_path, items, several(items)))
    for name in ("good", "silent", "never"):
        for metric in ("ua_a", "ig", "auc_a_species", "auc_a_genus", "a_species_accuracy", "within_genus_accuracy"):
            row = number(run, metric, name)
            assert row["value"] is None and row["reason"], metric
    assert [number(run, "ua_genus_accuracy", name)["value"] for name in ("good", "silent", "never")] == [0.5, 0, 0.5]
    record = (run.dir / "records" / "09_abstention.json").read_text(encoding="utf-8")
    assert "Nothing could be scored." in record
    assert not re.search(r"(?<![\w=])nan(?![\w=])", record, re.IGNORECASE)


def test_only_a_genus_of_one_species(tmp_path: Path, project: Path) -> None:
    items = [item("d", SPECIES[5]), item("w", genus="Icteria", reasons="quality")]
    scores = matrix({"d": sure(SPECIES[5]), "w": sure(SPECIES[5], 0.3)})
    run = cells_of(project, write_study(tmp_path, items, {"m": scores, "never": never(items)}))
    row = number(run, "within_genus_accuracy", "m")
    assert row["value"] is None and "several" in row["reason"]
    # The genus is the species: named together, at one threshold.
    assert number(run, "ig", "m")["value"] == 1.0 and number(run, "ua_a", "m")["value"] == 1.0
    assert number(run, "a_species_accuracy", "never")["value"] == 0.0


def test_only_models_that_answer_in_words(tmp_path: Path, project: Path) -> None:
    said = {"a": GULL, "b": "Larus sp.", "c": BLURRED, "d": "Yellow-breasted Chat", "u": BLURRED, "v": "Common Raven"}
    run = cells_of(project, write_study(tmp_path, ITEMS, {"m": answers(said)}))
    # Declined at species level: b and c of four, u of two.
    assert number(run, "ua_a", "m")["value"] == pytest.approx((1 + 1 / 2 - 2 / 4) / 2)
    assert number(run, "a_genus_accuracy", "m")["value"] == 0.75
    # (0, 1), then a and d to the species and b to the genus, all at once and all right: 0.625 of information at 1.
    assert number(run, "ig", "m")["value"] == pytest.approx(0.625)
    assert run.table("abstention_alignment").is_empty()


def test_one_photograph(tmp_path: Path, project: Path) -> None:
    run = cells_of(project, write_study(tmp_path, ITEMS[:1], several(ITEMS[:1])))
    row = number(run, "ig", "good")
    assert row["value"] == 1.0 and row["lo"] is None and row["reason"]


@pytest.mark.parametrize("cluster", ["species", "observer", "observation", "item"])
def test_every_cluster_with_ids_that_some_photographs_lack(tmp_path: Path, cluster: str) -> None:
    run = study(tmp_path, ITEMS, {"good": good(), "never": never()}, cluster=cluster)
    row = number(run, "a_species_accuracy", "never")
    of_answerable = {"species": 3, "observer": 4, "observation": 3, "item": 4}[cluster]
    assert row["n_clusters"] == of_answerable and f"{cluster} bootstrap" in row["method"]
    assert number(run, "a_species_accuracy", "good", group="variant", level="observation")["n"] == 3


# Numbers by hand


def test_range_map_by_hand(tmp_path: Path) -> None:
    items = [
        item("a", SPECIES[0], candidates=[SPECIES[0], SPECIES[3]]),
        item("b", SPECIES[3], candidates=[SPECIES[1], SPECIES[4]]),  # drops the raven it shows
        item("c", SPECIES[5], candidates=""),
    ]
    p = {"a": [0.2, 0.5, 0.1, 0.1, 0.1, 0], "b": [0, 0.1, 0, 0.6, 0.2, 0.1], "c": [0, 0, 0, 0, 0.3, 0.7]}
    run = study(tmp_path, items, {"m": matrix(p)})
    scores = run.table("image_scores").with_columns(pl.col("variant").cast(pl.String))
    with_map = {r["item_id"]: r for r in scores.filter(pl.col("variant") == "range_map").to_dicts()}
    assert [with_map[i]["max_species"] for i in "abc"] == pytest.approx([2 / 3, 2 / 3, 0.7])
    assert [with_map[i]["top_species"] for i in "abc"] == [SPECIES[0], SPECIES[4], SPECIES[5]]
    assert [with_map[i]["is_missing_species"] for i in "abc"] == [False, True, False]
    at = {"group": "variant", "level": "range_map"}
    assert number(run, "a_species_accuracy", "m")["value"] == pytest.approx(2 / 3)
    after = number(run, "a_species_accuracy", "m", **at)
    assert after["value"] == pytest.approx(2 / 3) and after["chance"] == pytest.approx((1 / 2 + 1 / 2 + 1 / 6) / 3)
    assert number(run, "a_species_accuracy_gain", "m", **at)["value"] == pytest.approx(2 / 3 - 7 / 18)
    assert number(run, "a_species_accuracy", "m")["chance"] == pytest.approx(1 / 6)
    assert number(run, "missing_species", "m", **at)["value"] == pytest.approx(1 / 3)
    drops = number(run, "list_drops_truth", "")
    assert drops["value"] == 0.5 and drops["n"] == 2


def test_observations_by_hand(tmp_path: Path) -> None:
    items = [
        item("a", SPECIES[0], observation_id="o"),
        item("b", SPECIES[0], observation_id="o"),
        item("c", SPECIES[3]),
    ]
    p = {"a": [0.6, 0.4, 0, 0, 0, 0], "b": [0.1, 0.5, 0.4, 0, 0, 0], "c": [0, 0, 0, 0.8, 0.2, 0]}
    run = study(tmp_path, items, {"m": matrix(p)})
    pooled = run.table("image_scores").filter(pl.col("variant").cast(pl.String) == "observation")
    by = {r["item_id"]: r for r in pooled.to_dicts()}
    assert set(by) == {"o", "c"}
    assert by["o"]["top_species"] == SPECIES[1] and by["o"]["max_species"] == pytest.approx(0.45)
    at = {"group": "variant", "level": "observation"}
    assert number(run, "a_species_accuracy", "m")["value"] == pytest.approx(2 / 3)
    assert number(run, "a_species_accuracy", "m", **at)["value"] == 0.5
    assert number(run, "a_genus_accuracy", "m", **at)["value"] == 1.0
    # o: genus at 1, species at 0.45 (wrong); c: genus at 1, species at 0.8 (right). From (0, 1) to (1/2, 1), (3/4, 1), (1, 1/2).
    assert number(run, "ig", "m", **at)["value"] == pytest.approx(0.5 + 0.25 + 0.25 * 0.75)


def test_rows_that_do_not_sum_to_one_are_refused_or_normalised(tmp_path: Path) -> None:
    half = good().with_columns(pl.col(s) / 2 for s in SPECIES)
    with pytest.raises(DataError) as refused:
        study(tmp_path / "as-it-is", ITEMS, {"m": half}).table("metrics_abstention")
    assert "sum" in str(refused.value)
    about = {"m": {"normalise": True}}
    run = study(tmp_path / "normalised", ITEMS, {"m": half, "good": good()}, about=about)
    for metric in ("ua_a", "ig", "auc_a_species", "a_species_accuracy"):
        assert number(run, metric, "m")["value"] == pytest.approx(number(run, metric, "good")["value"], abs=1e-12)


def test_a_list_of_few_with_force_has_bounds(tmp_path: Path) -> None:
    run = study(tmp_path, ITEMS, {"short": top_two(), "good": good()}, force=True)
    # As listed: Larus and its gull at 0.5, right for two of four: from (0, 1) straight to (1, 1/2). All unseen mass for Larus:
    # the genus at 0.8, to (1/2, 1/2), then the species. Against it: a rival genus as probable, and wrong, but gone with the
    # species at the same threshold.
    assert [number(run, f"ig{k}", "short")["value"] for k in ("", "_missing_for", "_missing_against")] == pytest.approx(
        [0.75, 0.375 + 0.25, 0.75]
    )
    assert number(run, "ua_a", "short")["value"] == 0.5  # all alike
    rows = run.table("metrics_abstention").filter(pl.col("metric").str.starts_with("ig_missing"))
    assert set(rows["model"]) == {"short"}


def test_pairs_are_corrected_over_the_family(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    items = [item(f"i{k}", SPECIES[k % 6]) for k in range(30)] + [
        item(f"u{k}", genus=("Larus", "Corvus", "Icteria")[k % 3], reasons="angle") for k in range(12)
    ]
    models = {
        name: matrix({r["item_id"]: sure((r["species"] or SPECIES[2]) if rng.random() < p else SPECIES[1], 0.4 + rng.random() / 2) for r in items})
        for name, p in (("one", 0.9), ("two", 0.5), ("three", 0.2))
    }  # fmt: skip
    run = study(tmp_path, items, models, cluster="item", n_resamples=500)
    pairs = run.table("abstention_pairs")
    assert pairs.group_by("measure").len()["len"].to_list() == [3, 3, 3]
    for (_,), part in pairs.group_by("measure"):
        assert set(part["family"]) == {3}
        ranked = part.sort("p").to_dicts()
        largest = 0.0
        for rank, row in enumerate(ranked):
            largest = max(largest, min(1.0, (3 - rank) * row["p"]))
            assert row["p_holm"] == pytest.approx(largest)
            assert row["confirmed"] == (row["p_holm"] <= 0.05)
    first = number(run, "a_species_accuracy_difference", "one - two", group="pair")
    plain = [number(run, "a_species_accuracy", name)["value"] for name in ("one", "two")]
    assert first["value"] == pytest.approx(plain[0] - plain[1])
    assert pairs.filter(pl.col("measure") == "a_species_accuracy")["confirmed"].any()


# Items that are missing, too many, or of no prompt


def test_items_that_a_model_says_nothing_of(tmp_path: Path) -> None:
    few = ITEMS[:5]
    models = {"words": never(few), "numbers": good(few)}
    with pytest.raises(DataError) as refused:
        study(tmp_path / "error", ITEMS, models).table("metrics_abstention")
    assert {p.record or "numbers" for p in refused.value.problems} >= {"words", "numbers"}
    assert "v" in str(refused.value)
    run = study(tmp_path / "drop", ITEMS, models, missing="drop")
    assert notice(run, "items_without_answers", "words")["n"] == 1
    assert notice(run, "items_without_scores", "numbers")["n"] == 1
    assert number(run, "ua_genus_accuracy", "numbers")["n"] == number(run, "ua_genus_accuracy", "words")["n"] == 1


def test_rows_of_no_item_are_counted_and_left_out(tmp_path: Path) -> None:
    more = [*ITEMS, item("stranger", SPECIES[1]), item("another", SPECIES[1])]
    run = study(tmp_path, ITEMS, {"words": never(more), "numbers": good(more)})
    assert notice(run, "answers_without_item", "words")["n"] == 2
    assert notice(run, "scores_without_item", "numbers")["n"] == 2
    assert number(run, "ig", "numbers")["n"] == 4
    assert "stranger" not in run.table("answers")["item_id"].to_list()


def test_answers_to_other_items_only(tmp_path: Path) -> None:
    run = study(tmp_path, ITEMS, {"m": answers({"elsewhere": GULL})}, missing="drop")
    with pytest.raises(DataError) as refused:
        run.table("metrics_abstention")
    (problem,) = refused.value.problems
    assert problem.code == "no_answers" and problem.record == "m" and "item_id" in problem.remedy


def test_everything_wrong_is_said_at_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    models = {
        "few": never(ITEMS[:3]),
        "good": good(),
        "asked": silent(),
        "half": good().with_columns(pl.col(SPECIES[0]) / 2),
    }
    recipe = write_study(tmp_path, ITEMS, models, about={"asked": {"prompt": "nobody"}})
    with pytest.raises(DataError) as refused:
        opened(recipe).table("image_scores")
    text = str(refused.value)
    assert refused.value.exit_code == 3
    assert len(refused.value.problems) >= 3 and all(part in text for part in ("few", "asked", "'nobody'", "sum"))
    assert run_recipe(recipe) == 3
    told = capfd.readouterr()
    assert "'nobody'" in told.err and "Traceback" not in told.err
    assert not (tmp_path / "study" / "tables" / "metrics_abstention.parquet").exists()


def test_a_prompt_without_answers(tmp_path: Path) -> None:
    run = study(tmp_path, ITEMS, {"m": silent()}, about={"m": {"prompt": "polite"}})
    with pytest.raises(ParameterError) as refused:
        run.table("metrics_abstention")
    (problem,) = refused.value.problems
    assert (problem.code, problem.record, problem.key, problem.expected) == (
        "unknown_prompt",
        "m",
        "prompt",
        "one of p",
    )


def test_the_prompt_that_is_scored(tmp_path: Path) -> None:
    said = [
        *answers(dict.fromkeys(IDS, GULL), prompt="bare", permits=False),
        *answers(dict.fromkeys(IDS, BLURRED), prompt="kind"),
    ]
    run = study(tmp_path, ITEMS, {"m": said, "n": said}, about={"n": {"prompt": "bare"}})
    # By default the first that permits abstention.
    assert [notice(run, "prompt", k)["message"] for k in "mn"] == ["scored prompt: kind", "scored prompt: bare"]
    assert [number(run, "ig", k)["value"] for k in "mn"] == [0.0, 0.75]
    gain = number(run, "abstention_rate_difference", "m", group="prompts", level="permission")
    assert gain["value"] == 1.0 and gain["n"] == 6


# A list of one's own


def test_own_list_and_its_hash(tmp_path: Path) -> None:
    digest = hashlib.sha256(LIST.encode()).hexdigest()
    run = study(tmp_path / "right", ITEMS, {"m": good()}, taxonomy_sha256=digest)
    told = notice(run, "taxonomy")
    assert told["message"].endswith(f"sha256={digest[:16]}") and "name=birds" in told["message"]
    assert digest[:16] in number(run, "n_items", "")["method"]
    with pytest.raises(ManifestError) as refused:
        study(tmp_path / "other", ITEMS, {"m": good()}, taxonomy_sha256="0" * 64).table("items")
    assert refused.value.exit_code == 3 and refused.value.problems[0].code == "hash_differs"


def test_labels_outside_the_list_are_told(tmp_path: Path) -> None:
    items = [item("a", SPECIES[0]), item("c", SPECIES[3])]
    with pytest.raises(DataError) as refused:
        study(tmp_path, [*items, {**items[0], "item_id": "x", "species": "Larus nemo"}], {"m": good()}).table("items")
    assert "Larus nemo" in str(refused.value)
    labels = ["Herring Gull", "Lesser Black-backed Gull", "Larus canus", "Corvus corax", "CORVUS CORONE", "background"]
    scores = matrix({"a": sure(SPECIES[0]), "c": sure(SPECIES[3])}, labels)
    run = study(tmp_path / "labels", items, {"m": scores})
    aligned = dict(run.table("abstention_alignment").select("how", "n").iter_rows())
    assert sum(aligned.values()) == 6 and aligned["common"] == 2 and aligned["exact"] == 2
    assert number(run, "a_species_accuracy", "m")["value"] == 1.0
