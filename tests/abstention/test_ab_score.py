"""`birdlab score abstention`: files in, one JSON object out; every number worked out by hand."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from birdlab.abstention.evaluate import ACCURACIES, AREAS
from birdlab.abstention.said import confidences, read_said
from birdlab.abstention.taxonomy import Taxonomy
from birdlab.cli import main

A1, A2, B1, B2, C1, C2 = "Alpha prima", "Alpha secunda", "Beta prima", "Beta secunda", "Gamma prima", "Gamma secunda"
MANY = [f"Genus{chr(97 + i)} solus" for i in range(20)]
CONTRACT = (*AREAS, "a_species_accuracy", "a_genus_accuracy", "ua_genus_accuracy", "within_genus_accuracy")


class Files:
    """Items and scores of a small study, written as files."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def items(self, truth: dict[str, str], name: str = "items.csv", **columns: dict[str, str]) -> Path:
        """Items by their truth: a species, or a genus for an unanswerable one (reason angle)."""
        rows = []
        for item, taxon in truth.items():
            known = " " in taxon
            row = {"item_id": item, "genus": taxon.split()[0], "species": taxon if known else None}
            row |= {"is_answerable": int(known), "reasons": None if known else "angle"}
            rows.append(row | {key: values.get(item) for key, values in columns.items()})
        path = self.folder / name
        pl.DataFrame(rows, infer_schema_length=None).write_csv(path)
        return path

    def wide(self, rows: dict[str, dict[str, float]], species: list[str], name: str = "model.csv") -> Path:
        """A matrix; species that a row does not name have 0."""
        frame = pl.DataFrame(
            [{"item_id": item, **{s: float(p.get(s, 0)) for s in species}} for item, p in rows.items()]
        )
        path = self.folder / name
        if path.suffix == ".csv":
            frame.write_csv(path)
        elif path.suffix == ".parquet":
            frame.write_parquet(path)
        elif path.suffix == ".feather":
            frame.write_ipc(path, compression="uncompressed")
        else:
            np.save(path, frame.drop("item_id").to_numpy())
            path.with_name(f"{path.stem}.ids.txt").write_text("\n".join(frame["item_id"]), encoding="utf-8")
            path.with_name(f"{path.stem}.labels.txt").write_text("\n".join(species), encoding="utf-8")
        return path

    def text(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path


@pytest.fixture
def files(tmp_path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def score(capsys):
    """The command with ``--json``: its object."""

    def run(*arguments, code: int = 0):
        got = main(["score", "abstention", *map(str, arguments), "--json"])
        out = capsys.readouterr().out
        assert got == code, out
        return json.loads(out)

    return run


def one(result):
    (entry,) = result["models"]
    return entry


def sharp(m: float, index: int = 0) -> dict[str, float]:
    """A row over MANY whose largest probability is m, at one place."""
    rest = (1 - m) / (len(MANY) - 1)
    return {s: m if i == index else rest for i, s in enumerate(MANY)}


# Information gain: the fixtures, as files.
SIX = [A1, A2, B1, B2, C1, C2]
FIRST = {A1: 0.8, A2: 0.1, B1: 0.05, B2: 0.05}
SECOND = {B1: 0.3, B2: 0.3, A1: 0.2, A2: 0.2}


@pytest.mark.parametrize(
    ("species", "rows", "truth", "options", "ig"),
    [
        (SIX, [FIRST, SECOND], [A1, B2], [], 0.9375),
        (SIX, [FIRST, SECOND], [A1, B1], [], 1.0),
        (SIX, [FIRST, SECOND], [C1, C1], [], 0.375),
        ([A1, B1, C1], [{A1: 0.5, B1: 0.3, C1: 0.2}] * 2, [A1, B1], [], 0.75),
        (
            [A1, B1, B2, C1],
            [{A1: 0.9, B1: 0.05, B2: 0.05}, {B1: 0.3, B2: 0.3, A1: 0.2, C1: 0.2}],
            [A1, B2],
            ["--info", "leaf"],
            0.9375,
        ),
        (
            [A1, B1, B2, C1],
            [{A1: 0.4, B1: 0.25, B2: 0.25, C1: 0.1}, {B1: 0.8, B2: 0.1, A1: 0.05, C1: 0.05}],
            [A1, B1],
            [],
            0.875,
        ),
    ],
)
def test_information_gain(files, score, species, rows, truth, options, ig):
    items = files.items(dict(zip("ab", truth, strict=True)))
    scores = files.wide(dict(zip("ab", rows, strict=True)), species)
    entry = one(score(items, scores, *options))
    assert entry["ig"] == pytest.approx(ig, abs=1e-12)
    assert entry["ua_a"] is None and "no unanswerable" in entry["reasons"]["ua_a"]
    assert entry["ua_genus_accuracy"] is None and entry["reasons"]["ua_genus_accuracy"]


@pytest.mark.parametrize(
    ("m", "right", "rule", "area"),
    [
        ([0.9, 0.8, 0.2, 0.1], [1, 1, 0, 0], "mean", 0.7916666667),
        ([0.9, 0.8, 0.2, 0.1], [1, 1, 0, 0], "trapz", 0.8055555556),
        ([0.9, 0.8, 0.2, 0.1], [1, 1, 0, 0], "trapz_left", 0.8541666667),
        ([0.5, 0.5, 0.5, 0.5], [1, 0, 1, 0], "mean", 0.5),
        ([0.9, 0.5, 0.5, 0.1], [1, 0, 1, 0], "mean", 0.7291666667),
    ],
)
def test_calibration(files, score, m, right, rule, area):
    truth = {f"i{k}": MANY[0] if ok else MANY[1] for k, ok in enumerate(right)}
    rows = {f"i{k}": sharp(p) for k, p in enumerate(m)}
    entry = one(score(files.items(truth), files.wide(rows, MANY), "--rule", rule))
    assert entry["auc_a_species"] == pytest.approx(area, abs=1e-9)
    if m[1] == 0.8:
        assert entry["augrc_a_species"] == pytest.approx(0.125)
        assert entry["aurc_a_species"] == pytest.approx(1 - 0.7916666667)


@pytest.mark.parametrize(("m", "value"), [([0.9, 0.8, 0.2, 0.1], 1), ([0.2, 0.1, 0.9, 0.8], 0), ([0.5] * 4, 0.5)])
def test_ua_a_of_probabilities(files, score, m, value):
    truth = {"a": MANY[0], "b": MANY[0], "c": "Genusa", "d": "Genusb"}
    entry = one(score(files.items(truth), files.wide({k: sharp(p) for k, p in zip("abcd", m, strict=True)}, MANY)))
    assert entry["ua_a"] == value
    assert entry["ua_genus_accuracy"] == 0.5
    assert entry["chance"]["ua_a"] == 0.5
    assert entry["chance"]["a_species_accuracy"] == entry["chance"]["a_genus_accuracy"] == pytest.approx(0.05)
    assert entry["gain"]["a_species_accuracy"] == pytest.approx(0.95)


def test_no_answerable_item(files, score):
    entry = one(score(files.items({"a": "Alpha", "b": "Beta"}), files.wide({"a": FIRST, "b": SECOND}, SIX)))
    for name in ("ua_a", "a_species_accuracy", "a_genus_accuracy", "auc_a_species", "missing_species"):
        assert entry[name] is None and entry["reasons"][name], name
    assert entry["ua_genus_accuracy"] == 1.0
    assert entry["n_answerable"] == 0


@pytest.fixture
def small(files):
    """Six items of three genera, one unanswerable, and a matrix."""
    truth = {"a": A1, "b": B2, "c": C1, "d": A2, "e": B1, "f": "Gamma"}
    rows = {
        "a": FIRST,
        "b": SECOND,
        "c": {C1: 0.6, C2: 0.2, A1: 0.2},
        "d": {A1: 0.5, A2: 0.3, B1: 0.2},
        "e": {B1: 0.4, C1: 0.35, C2: 0.25},
        "f": {C2: 0.4, C1: 0.3, B2: 0.3},
    }
    return files.items(truth), files.wide(rows, SIX), truth, rows


def test_the_object(score, small):
    result = score(small[0], small[1])
    assert set(result) == {"models", "items", "alignment", "differences", "warnings"}
    entry = one(result)
    assert {"name", "prompt", *CONTRACT, "n_answerable", "n_unanswerable", "n_missing_species", "missing_mass"} <= set(
        entry
    )
    assert {"chance", "intervals", "conventions", "warnings", "reasons", "variants"} <= set(entry)
    assert entry["name"] == "model" and entry["variants"] == {}
    assert (entry["n_answerable"], entry["n_unanswerable"], entry["n_missing_species"]) == (5, 1, 0)
    # a and c and e right; b names the first of two tied; d names its neighbour. e's best genus is Gamma.
    assert entry["a_species_accuracy"] == pytest.approx(3 / 5)
    assert entry["a_genus_accuracy"] == pytest.approx(4 / 5)
    # Within the true genus: a, c, e right, d and b not.
    assert entry["within_genus_accuracy"] == pytest.approx(3 / 5)
    # m = .8 .3 .6 .5 .4 against .4: below 3 of 5 and level with one.
    assert entry["ua_a"] == pytest.approx(3.5 / 5)
    assert entry["chance"]["a_species_accuracy"] == pytest.approx(1 / 6)
    assert entry["chance"]["within_genus_accuracy"] == pytest.approx(1 / 2)
    used = entry["conventions"]
    assert used["uncertainty"] == "1-maxprob" and used["cluster"] == "genus"
    assert (used["resamples"], used["seed"]) == (1000, 1)
    assert used["taxonomy"] == {"name": "names", "version": "names only", "sha256": None}
    assert result["items"]["n"] == 6 and result["items"]["reasons"] == {"angle": 1}
    assert result["alignment"][0]["how"] == {"exact": 6}
    for name in CONTRACT:
        assert (entry[name] is None) == (name in entry["reasons"]), name
        ends = entry["intervals"][name]
        if entry[name] is not None:
            assert (ends is None) == (f"intervals.{name}" in entry["reasons"]), name
    assert any("no --taxonomy" in text for text in result["warnings"])
    assert any("few clusters (3)" in text for text in entry["warnings"])


def test_without_resamples(score, small):
    entry = one(score(*small[:2], "--resamples", 0))
    assert entry["intervals"] == {} and entry["reasons"]["intervals"]
    full = one(score(*small[:2]))
    for name in CONTRACT:
        assert entry[name] == pytest.approx(full[name], abs=1e-12)
    assert full["intervals"]["a_species_accuracy"][0] < full["a_species_accuracy"]


def test_the_same_seed_gives_the_same_intervals(score, small):
    first, again, other = (
        one(score(*small[:2], "--seed", seed, "--cluster", "item"))["intervals"]["ig"] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_the_order_of_rows_and_columns_does_not_matter(score, small, tmp_path):
    items, scores, truth, rows = small
    expected = one(score(items, scores))
    for seed in range(3):
        rng, other = random.Random(seed), Files(tmp_path / str(seed))
        names, species = rng.sample(sorted(rows), len(rows)), rng.sample(SIX, len(SIX))
        shuffled = rng.sample(sorted(truth), len(truth))
        got = one(score(other.items({k: truth[k] for k in shuffled}), other.wide({k: rows[k] for k in names}, species)))
        for name in CONTRACT:
            assert got[name] == pytest.approx(expected[name], abs=1e-12)
            assert got["intervals"][name] == pytest.approx(expected["intervals"][name], abs=1e-12)


@pytest.mark.parametrize("name", ["m.parquet", "m.feather", "m.npy"])
def test_every_format_says_the_same(files, score, small, name):
    got = one(score(small[0], files.wide(small[3], SIX, name)))
    expected = one(score(small[0], small[1]))
    assert [got[k] for k in CONTRACT] == pytest.approx([expected[k] for k in CONTRACT], abs=1e-12)


def test_names_of_a_matrix_from_elsewhere(files, score, small):
    npy = files.wide(small[3], SIX, "m.npy")
    ids, labels = (npy.with_name(f"m.{k}.txt").rename(npy.with_name(f"other_{k}.txt")) for k in ("ids", "labels"))
    score(small[0], npy, code=3)
    assert one(score(small[0], npy, "--ids", ids, "--labels", labels))["a_species_accuracy"] == pytest.approx(0.6)
    assert score(small[0], small[1], "--ids", ids, code=2)["errors"][0]["key"] == "--ids"
    assert score(small[0], small[1], "--labels", labels, code=2)["errors"][0]["key"] == "--labels"


def test_a_species_that_the_model_has_no_name_for_is_wrong(files, score):
    items = files.items({"a": A1, "b": "Alpha tertia", "c": "Delta prima"})
    entry = one(score(items, files.wide({k: FIRST for k in "abc"}, SIX)))
    assert entry["n_missing_species"] == 2
    assert entry["missing_species"] == pytest.approx(2 / 3)
    assert entry["a_species_accuracy"] == pytest.approx(1 / 3)
    assert entry["a_genus_accuracy"] == pytest.approx(2 / 3)


def test_range_map(files, score):
    """With A1 not on its list, the photograph of A2 is right; the other list drops the true species."""
    lists = {"a": f"{A2}|{B1}", "b": f"{A1}|{B1}"}
    items = files.items({"a": A2, "b": B2}, candidates=lists)
    scores = files.wide({"a": FIRST, "b": SECOND}, SIX)
    entry = one(score(items, scores))
    mapped = entry["variants"]["range_map"]
    assert (entry["a_species_accuracy"], mapped["a_species_accuracy"]) == (0.0, 0.5)
    assert (entry["n_missing_species"], mapped["n_missing_species"]) == (0, 1)
    assert mapped["chance"]["a_species_accuracy"] == 0.5
    assert set(CONTRACT) <= set(mapped)


def test_observations(files, score):
    """Of two photographs of one bird the mean is right where one alone is wrong; the third has no observation."""
    rows = {"a": {A1: 0.4, B1: 0.6}, "b": {A1: 0.9, B1: 0.1}, "c": {B1: 0.7, A1: 0.3}}
    items = files.items({"a": A1, "b": A1, "c": B1}, observation_id={"a": "o1", "b": "o1"})
    entry = one(score(items, files.wide(rows, SIX), "--cluster", "observation"))
    pooled = entry["variants"]["observation"]
    assert entry["a_species_accuracy"] == pytest.approx(2 / 3)
    assert (pooled["a_species_accuracy"], pooled["n"]) == (1.0, 2)


def test_observations_that_contradict_themselves_are_not_pooled(files, score):
    items = files.items({"a": A1, "b": "Alpha"}, observation_id={"a": "o", "b": "o"})
    result = score(items, files.wide({"a": FIRST, "b": FIRST}, SIX))
    assert one(result)["variants"] == {}
    assert any("not pooled" in text and "observation o" in text for text in result["warnings"])


# Lists of the most probable labels.
TOPK = "item_id,label,probability\na,Alpha prima,0.6\na,Beta prima,0.1\nb,Beta prima,0.5\nb,Alpha prima,0.3\n"


def test_lists_that_miss_much_are_refused(files, score):
    items, scores = files.items({"a": A1, "b": B1}), files.text("top.csv", TOPK)
    entry = one(score(items, scores))
    assert entry["missing_mass"] == pytest.approx(0.25)
    for name in ("ua_a", "ig", "auc_a_species"):
        assert entry[name] is None and "25.0 %" in entry["reasons"][name]
    assert entry["a_species_accuracy"] == 1.0 and "ig_bounds" not in entry
    # How many species the model knows is not in its lists.
    assert entry["n_missing_species"] is None and entry["reasons"]["n_missing_species"]
    assert entry["chance"]["a_species_accuracy"] is None and entry["reasons"]["chance.a_species_accuracy"]


def test_lists_by_force(files, score):
    """a: Beta can reach .1 + .3 < .6, so Alpha is sure. b: Alpha can reach .3 + .2 = .5, so Beta is not."""
    items, scores = files.items({"a": A1, "b": B1}), files.text("top.csv", TOPK)
    entry = one(score(items, scores, "--force"))
    assert entry["ig"] == 1.0
    # Against: b's genus is wrong at .5, and so at once with its species, which is right, at .5; a is right at .6.
    assert entry["ig_bounds"][1] == 1.0
    assert entry["ig_scenarios"]["as_listed"] == entry["ig_scenarios"]["for"] == 1.0
    assert entry["ig_scenarios"]["against"] == entry["ig_bounds"][0]
    assert entry["ua_a"] is None and "no unanswerable" in entry["reasons"]["ua_a"]
    assert entry["conventions"]["force"] is True
    leaf = one(score(items, scores, "--force", "--info", "leaf"))
    assert leaf["ig"] is None and leaf["reasons"]["ig"] and "ig_bounds" not in leaf


def test_lists_with_all_labels_of_the_model(files, score):
    labels = files.text("labels.txt", "\n".join([*(f"{s} (Some Bird)" for s in SIX), "background"]))
    items = files.items({"a": A1, "b": "Gamma tertia"})
    result = score(items, files.text("top.csv", TOPK), "--labels", labels)
    entry = one(result)
    assert entry["chance"]["a_species_accuracy"] == pytest.approx(1 / 6)
    assert entry["n_missing_species"] == 1
    assert result["alignment"][0]["how"]["not_a_taxon"] == 1


def test_full_lists_are_not_refused(files, score):
    text = "item_id,label,probability\na,Alpha prima,0.9\na,Beta prima,0.1\nb,Beta prima,1\n"
    entry = one(score(files.items({"a": A1, "b": B1}), files.text("top.csv", text)))
    assert entry["ig"] == 1.0 and entry["missing_mass"] == 0


# Answers.
def test_answers_that_abstain_or_not_are_one_point(files, score):
    """A abstains on 1 of 4, on 1 of 2 unanswerable: (1 + .5 - .25) / 2."""
    said = {"a": None, "b": A1, "c": A1, "d": A1, "u": None, "v": A1}
    rows = "\n".join(f"{k},{v or ''},{int(v is None)},{'angle' if v is None else ''}" for k, v in said.items())
    items = files.items({**{k: A1 for k in "abcd"}, "u": "Alpha", "v": "Beta"})
    entry = one(score(items, files.text("said.csv", f"item_id,answer,abstained,reason_given\n{rows}\n")))
    assert entry["ua_a"] == pytest.approx(0.625)
    assert entry["conventions"]["uncertainty"] == "binary"
    assert entry["a_species_accuracy"] == 0.75
    assert entry["decisions"] == {"abstain": 2, "species": 4}
    assert entry["kind"] == "answers"
    assert any("binary, not 1-maxprob" in text for text in entry["warnings"])


def test_answers_with_an_uncertainty(files, score):
    text = f"item_id,answer,abstained,uncertainty\na,{A1},0,-3\nb,{B1},0,7\nu,{C1},0,7.5\n"
    entry = one(score(files.items({"a": A1, "b": A2, "u": "Gamma"}), files.text("said.csv", text)))
    assert entry["conventions"]["uncertainty"] == "stated"
    assert entry["ua_a"] == 1.0
    assert entry["auc_a_species"] == pytest.approx((1 + 0.5) / 2)
    assert entry["ua_genus_accuracy"] == 1.0


def test_confidence_keeps_the_order_of_any_uncertainty():
    rng = np.random.default_rng(3)
    for u in (rng.random(50), rng.normal(0, 1e6, 50), rng.random(50) * 1e-20):
        c = np.array(confidences(pl.Series(u)))
        assert ((c >= 0) & (c <= 1)).all()
        assert np.array_equal(np.argsort(-c, kind="stable"), np.argsort(u, kind="stable"))
        assert len(np.unique(c)) == len(np.unique(u))
    assert confidences(pl.Series([None, None], dtype=pl.Float64)) == [None, None]


def test_what_is_said_in_columns():
    tree = Taxonomy.from_names(SIX)
    taxa = [A1, "Alpha", "Nonsense", None, None, A1]
    table = read_said(
        pl.DataFrame(
            {
                "model": ["m"] * 6,
                "prompt_id": [None] * 6,
                "item_id": list("abcdef"),
                "taxon": taxa,
                "abstained": [False, False, False, False, True, True],
                "reason": [None, None, None, None, "quality|angle", None],
                "uncertainty": [None] * 6,
            },
            schema_overrides={"prompt_id": pl.String, "uncertainty": pl.Float64},
        ),
        tree,
    )
    assert table["decision"].cast(pl.String).to_list() == [
        "species", "genus", "unparsed", "unparsed", "abstain", "abstain",
    ]  # fmt: skip
    assert table["reasons"].to_list()[4] == ["angle", "quality"]
    assert table["candidates"].to_list()[5] == [A1]


def test_answers_in_words(files, score):
    lines = [
        {"item_id": "a", "prompt_id": "may", "permits_abstention": True, "answer": "Common Raven <script>"},
        {"item_id": "b", "prompt_id": "may", "permits_abstention": True, "answer": "Corvus sp."},
        {"item_id": "u", "prompt_id": "may", "permits_abstention": True, "answer": "Too blurry to identify."},
        {"item_id": "a", "prompt_id": "must", "permits_abstention": False, "answer": "Corvus corax"},
        {"item_id": "b", "prompt_id": "must", "permits_abstention": False, "answer": "qwertz"},
        {"item_id": "u", "prompt_id": "must", "permits_abstention": False, "answer": "Pica pica"},
    ]
    items = files.items({"a": "Corvus corax", "b": "Corvus corone", "u": "Pica"})
    told = files.text("mllm.jsonl", "\n".join(map(json.dumps, lines)))
    result = score(items, told, "--taxonomy", "ebird_2024")
    may, must = result["models"]
    assert (may["name"], may["prompt"], must["prompt"]) == ("mllm", "may", "must")
    assert may["decisions"] == {"abstain": 1, "genus": 1, "species": 1}
    assert must["decisions"] == {"species": 2, "unparsed": 1}
    # may: abstains (at species) on b and u: A .5, UA 1. must: never, and the unread answer is no abstention.
    assert (may["ua_a"], must["ua_a"]) == (0.75, 0.5)
    assert (may["a_species_accuracy"], may["a_genus_accuracy"], may["ua_genus_accuracy"]) == (0.5, 1.0, 0.0)
    assert (must["a_species_accuracy"], must["a_genus_accuracy"], must["ua_genus_accuracy"]) == (0.5, 0.5, 1.0)
    assert any("could not be read" in text for text in must["warnings"])
    assert may["conventions"]["taxonomy"]["name"] == "ebird_2024" and may["conventions"]["taxonomy"]["sha256"]
    dropped = score(items, told, "--taxonomy", "ebird_2024", "--unparsed", "drop")["models"][1]
    assert (dropped["n"], dropped["a_species_accuracy"]) == (2, 1.0)


def test_no_answer_can_be_read(files, score):
    """Nothing is left to score: every number is null with its reason, none is 0."""
    items = files.items({"a": A1, "u": "Beta"})
    told = files.text("t.jsonl", "\n".join(json.dumps({"item_id": i, "response": "qwertz"}) for i in "au"))
    entry = one(score(items, told, "--unparsed", "drop"))
    assert entry["n"] == 0 and all(entry[name] is None and entry["reasons"][name] for name in CONTRACT)
    kept = one(score(items, told))
    assert (kept["n"], kept["a_species_accuracy"], kept["ua_a"]) == (2, 0.0, 0.5)


def test_several_models_and_prompts_in_one_file(files, score, small):
    frame = pl.read_csv(small[1])
    parts = [frame.with_columns(model=pl.lit(m), prompt_id=pl.lit(p)) for m in "xy" for p in ("1", "2")]
    path = files.folder / "all.parquet"
    pl.concat(parts).sample(fraction=1, shuffle=True, seed=0).write_parquet(path)
    result = score(small[0], path)
    assert sorted((m["name"], m["prompt"]) for m in result["models"]) == [
        ("x", "1"),
        ("x", "2"),
        ("y", "1"),
        ("y", "2"),
    ]
    assert {m["ua_a"] for m in result["models"]} == {0.7}


def test_several_models_are_compared(files, score, small):
    better = files.wide({k: ({t: 1.0} if " " in t else {C1: 0.2, B1: 0.8}) for k, t in small[2].items()}, SIX, "b.csv")
    result = score(small[0], small[1], better, "--cluster", "item")
    assert [m["name"] for m in result["models"]] == ["model", "b"]
    rows = {r["measure"]: r for r in result["differences"]}
    assert rows["a_species_accuracy"]["difference"] == pytest.approx(0.6 - 1)
    assert rows["ua_a"]["difference"] == pytest.approx(0.7 - 1)


def test_missing_items(files, score, small):
    items = files.items({**small[2], "z": A1}, "more.csv")
    problem = score(items, small[1], code=3)["errors"][0]
    assert problem["code"] == "items_without_scores" and problem["file"].endswith("model.csv")
    entry = one(score(items, small[1], "--missing", "drop"))
    assert entry["n"] == 6 and any("without scores" in text for text in entry["warnings"])


@pytest.mark.parametrize("value", ["nan", "-0.1", "2"])
def test_rows_that_are_no_probabilities(files, score, value):
    scores = files.text("m.csv", f"item_id,{A1},{B1}\na,0.5,0.5\nb,{value},0.5\n")
    items = files.items({"a": A1, "b": B1})
    problems = score(items, scores, code=3)["errors"]
    assert len(problems) == 1 and "b" in (problems[0]["found"] + problems[0].get("record", ""))
    assert problems[0]["file"].endswith("m.csv")


def test_a_row_of_nan_may_abstain(files, score):
    scores = files.text("m.csv", f"item_id,{A1},{B1}\na,0.5,0.5\nu,nan,nan\n")
    entry = one(score(files.items({"a": A1, "u": "Beta"}), scores, "--nan", "abstain"))
    assert entry["ua_a"] == 1.0


def test_rows_that_do_not_sum_to_one(files, score):
    scores = files.text("m.csv", f"item_id,{A1},{B1}\na,3,1\nb,0.2,0.6\n")
    items = files.items({"a": A1, "b": B1})
    assert "--normalise" in score(items, scores, code=3)["errors"][0]["remedy"]
    entry = one(score(items, scores, "--normalise"))
    assert entry["a_species_accuracy"] == 1.0 and entry["conventions"]["normalise"] is True


def test_every_problem_of_every_file(files, score):
    items = files.text("items.csv", "item_id,genus,species,is_answerable\na,Alpha,,1\nb,Alpha,Alpha prima,7\n")
    errors = score(items, files.folder / "nope.csv", files.text("e.csv", ""), code=3)["errors"]
    assert {Path(e["file"]).name for e in errors} == {"items.csv", "nope.csv", "e.csv"}
    assert {e.get("line") for e in errors if e["file"].endswith("items.csv")} == {2, 3}
    assert all({"code", "found", "expected"} <= set(e) for e in errors)


def test_labels_that_are_no_scientific_names(files, score):
    scores = files.text("m.csv", "item_id,American Robin,Common Raven\na,0.5,0.5\n")
    (problem,) = score(files.items({"a": A1}), scores, code=3)["errors"]
    assert problem["code"] == "no_species" and "--taxonomy" in problem["remedy"]
    items = files.items({"a": "Corvus corax"}, "corvus.csv")
    assert one(score(items, scores, "--taxonomy", "ebird_2024"))["a_species_accuracy"] == 1.0


def test_names_that_are_written_differently_meet(files, score):
    """Underscores, lower case and subspecies, without a list."""
    scores = files.text("m.csv", "item_id,turdus_merula,Corvus corax principalis\na,0.7,0.3\nb,0.2,0.8\n")
    entry = one(score(files.items({"a": "Turdus merula", "b": "Corvus corax"}), scores))
    assert entry["a_species_accuracy"] == 1.0


def test_options_that_cannot_be(files, score, small, capsys):
    assert score(*small[:2], "--resamples", -1, code=2)["errors"][0]["key"] == "--resamples"
    assert score(*small[:2], "--seed", -1, code=2)["errors"][0]["key"] == "--seed"
    unknown = score(*small[:2], "--taxonomy", "ebird_1999", code=3)["errors"][0]
    assert unknown["code"] == "no_taxonomy" and "--taxonomy" in unknown["remedy"]
    with pytest.raises(SystemExit) as stopped:
        main(["score", "abstention", *map(str, small[:2]), "--info", "width"])
    assert stopped.value.code == 2
    assert "width" in capsys.readouterr().err


def test_pickles_are_refused(files, score):
    path = files.folder / "m.npy"
    np.save(path, np.array([[{}]], dtype=object), allow_pickle=True)
    assert score(files.items({"a": A1}), path, code=3)["errors"][0]["code"] == "refused_format"


HOSTILE = "x\x1b[2J<img src=x onerror=alert(1)>\u202e"


def test_hostile_strings_leave_the_terminal_alone(files, capsys):
    lines = [{"item_id": f"{HOSTILE}{i}", "model": HOSTILE, "answer": HOSTILE} for i in range(2)]
    told = files.text("t.jsonl", "\n".join(map(json.dumps, lines)))
    items = files.text(
        "i.jsonl",
        "\n".join(json.dumps({"item_id": f"{HOSTILE}{i}", "species": A1, "is_answerable": 1}) for i in range(2)),
    )
    assert main(["score", "abstention", str(items), str(told)]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "\u202e" not in shown and "unparsed 2" in shown
    assert main(["score", "abstention", str(items), str(told), "--json"]) == 0
    assert one(json.loads(capsys.readouterr().out))["name"] == HOSTILE


@pytest.mark.parametrize(
    "content", [b"\0\0\0", b"\x80\x04pickle", b"{", b'{"answer": [[[', b"a,b\n1\n", b"\xff\xfea", b"item_id\n"]
)
@pytest.mark.parametrize("name", ["s.csv", "s.jsonl", "s.npy", "s.parquet", "s.feather", "s.zip"])
def test_broken_files_are_told(files, score, content, name):
    errors = score(files.items({"a": A1}), files.text(name, content), code=3)["errors"]
    assert errors and all(e["found"] and Path(e["file"]).name == name for e in errors)


def test_the_table(capsys, small, files):
    top = files.text("top.csv", TOPK)
    items = files.items({"a": A1, "b": B1, "u": "Alpha"}, "two.csv")
    assert main(["score", "abstention", str(small[0]), str(small[1])]) == 0
    text = capsys.readouterr().out
    for part in (
        "UA/A",
        "0.7000",
        "conventions: uncertainty=1-maxprob",
        "1000 resamples by genus",
        "to know",
        "few clusters",
    ):
        assert part in text
    assert "not above chance" in text and "RealBirdID-style" in text
    assert main(["score", "abstention", str(items), str(top), str(top), "--missing", "drop"]) == 0
    text = capsys.readouterr().out
    assert "– UA/A, IG" in text and "25.0 % of the probability" in text and "top (2)" in text


@pytest.mark.real
def test_the_real_table_of_a_classifier(real_data, files, score):
    """Top-3 of 40 photographs: refused without force, bounds with it; none is unanswerable."""
    source = real_data / "classifier" / "inat_bird_quant_on_imagenet_samples.csv"
    labels = real_data / "classifier" / "inat_bird_labels.txt"
    table = pl.read_csv(source)
    assert table.height == 40
    known = table.filter(pl.col("truth_rank") == "species")
    items = files.items(dict(known.select("image", "truth").iter_rows()))
    about = [items, source, "--taxonomy", "ebird_2024", "--labels", labels]
    result = score(*about)
    entry = one(result)
    assert entry["missing_mass"] == pytest.approx(0.32, abs=0.02)
    for name in ("ig", "ua_a"):
        assert entry[name] is None and "unseen" in entry["reasons"][name]
    assert entry["a_species_accuracy"] >= known["species_correct"].cast(pl.String).eq("true").mean() - 1e-9
    how = result["alignment"][0]["how"]
    assert how["not_a_taxon"] == 1 and sum(how.values()) == 965
    assert sum(how.get(k, 0) for k in ("exact", "case", "synonym", "trinomial", "common")) > 940
    forced = one(score(*about, "--force"))
    low, high = forced["ig_bounds"]
    assert 0 < low <= forced["ig"] <= high < 1
    assert forced["ua_a"] is None and "no unanswerable" in forced["reasons"]["ua_a"]


def test_the_contract_covers_what_is_measured():
    assert set(CONTRACT) == {*AREAS, *ACCURACIES}
