"""What was once wrong in the chapter on abstention: conventions left unsaid, sentences that did not hold, rules kept twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from birdlab import schemas
from birdlab.abstention import answered, columns_frame, nodes, taxonomy
from birdlab.abstention.answers import policy
from birdlab.abstention.conventions import Conventions
from birdlab.abstention.differences import compare, paired_differences
from birdlab.abstention.evaluate import Draws, Evaluated, Number, evaluate
from birdlab.abstention.events import ig_events
from birdlab.chapters import abstention as chapter
from birdlab.chapters import abstention_answers as said
from birdlab.chapters import abstention_words as say
from birdlab.metrics import metric_frame, metric_row
from birdlab.recipe import load_recipe
from birdlab.report.provenance import provenance

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "09_abstention.ipynb"
DRAWS = Draws(np.arange(4), np.ones((3, 4), dtype=np.int32))
MADE: dict[str, list[Any]] = {
    "model": ["m"] * 4, "is_answerable": [True, True, False, False], "genus": ["Larus"] * 4,
    "max_species": [0.9, 0.4, None, 0.2], "max_genus": [0.9, 0.5, None, 0.3],
    "top_species": ["Larus canus", "Larus canus", None, "Larus canus"], "top_species_genus": ["Larus", "Larus", None, "Larus"],
    "species_right": [True, False, None, None], "genus_right": [True, True, False, True],
    "missing_mass": [0.0] * 4, "within_genus_right": [True, False, None, None],
    "within_genus_n": [3] * 4, "n_species": [9] * 4, "n_genera": [2] * 4, "is_missing_species": [False] * 4, "is_missing_genus": [False] * 4,
    "stated": [0.9, 0.4, None, 0.2], "abstained": [False, False, True, False],
}  # fmt: skip


def columns(**changed: list[Any]) -> pl.DataFrame:
    table = pl.DataFrame({**MADE, **changed}, schema_overrides={"stated": pl.Float64, "abstained": pl.Boolean})
    return table.with_columns(item_id=pl.Series(["a", "b", "c", "d"]))


def test_numbers_of_answers_say_what_an_unread_answer_counts_as() -> None:
    spoken = evaluate(columns(), Conventions(unparsed="drop"), DRAWS).numbers
    for name in ("ua_a", "ig", "auc_a_species", "auc_ua_genus", "a_species_accuracy_at_50"):
        assert spoken[name].method.endswith("unparsed=drop"), name
    assert "u=stated" in spoken["ua_a"].method
    silent = evaluate(columns(abstained=[None] * 4, max_species=[0.9, 0.4, 0.1, 0.2]), Conventions(), DRAWS).numbers
    assert not any("unparsed" in number.method for number in silent.values())


def test_area_and_curve_name_the_ranks_alike() -> None:
    table = columns(
        abstained=[None] * 4,
        max_species=[0.9, 0.4, 0.1, 0.2],
        max_genus=[0.9, 0.5, 0.2, 0.3],
        max_family=[1.0, 0.9, 0.8, 0.7],
        family_right=[True] * 4,
    )
    ranks = ("family", "genus", "species")
    number = evaluate(table, Conventions(), DRAWS, ranks=ranks).numbers["ig"]
    assert number.method == ig_events(table, ranks=ranks).method
    assert number.method.endswith("ranks=family+genus+species")


def test_lists_of_nodes_are_needed_only_of_what_is_counted() -> None:
    lists = {
        "leaf_p": [[0.9], [0.4], None, None],
        "leaf_info": [[1.0], [1.0], None, None],
        "leaf_right": [[True], [False], None, None],
    }
    table = columns(abstained=[None] * 4, max_species=[0.9, 0.4, 0.1, 0.2], **lists)
    leaf = evaluate(table, Conventions(info="leaf"), DRAWS).numbers["ig"]
    assert leaf.value == pytest.approx(0.875)  # by hand: (0, 1), (0.5, 1), (1, 0.5)
    assert "no list" in (evaluate(table, Conventions(info="leaf", ua="genus_ok"), DRAWS).numbers["ig"].reason or "")


def test_what_a_table_holds_is_declared_once() -> None:
    assert set(columns_frame.SCHEMA) == set(schemas.TABLES["image_scores"].dtypes)
    assert policy.ANSWER_SCHEMA == schemas.TABLES["answers"].dtypes
    assert taxonomy.TAXA_SCHEMA == schemas.TABLES["taxa"].dtypes
    assert nodes.RANKS is taxonomy.RANKS
    assert not hasattr(answered, "REASONS")


def number(value: float | None, drawn: list[float] | None) -> Number:
    return Number(value, drawn=None if drawn is None else np.array(drawn), n_clusters=20)


def test_models_without_a_measure_are_in_no_pair() -> None:
    rng = np.random.default_rng(3)
    drawn = {name: (rng.random(200) / 10 + shift).tolist() for name, shift in (("a", 0.5), ("b", 0.3), ("c", 0.4))}
    found = {
        "a": Evaluated("a", {"ig": number(0.55, drawn["a"]), "ua_a": number(0.5, drawn["b"])}),
        "b": Evaluated("b", {"ig": number(0.35, drawn["b"]), "ua_a": number(None, None)}),
        "c": Evaluated("c", {"ig": number(0.45, drawn["c"]), "ua_a": number(None, None)}),
    }
    table = compare(found, ("ig", "ua_a"))
    assert table["measure"].to_list() == ["ig"] * 3 and table["family"].to_list() == [3] * 3
    alone = paired_differences(drawn, {"a": 0.55, "b": 0.35, "c": 0.45}, n_clusters=20)
    assert table.drop("measure").equals(alone)
    assert compare({}, ("ig",)).columns == ["measure", *alone.columns]


def metrics(*rows: dict[str, Any]) -> pl.DataFrame:
    return metric_frame([metric_row(dataset="d", method="", **row) for row in rows])


@pytest.mark.parametrize(
    ("area", "words"), [(0.62, "lifts the mean species accuracy of {model:m} by 12 points."), (0.47, "does not lift")]
)
def test_declining_that_does_not_help_is_not_called_a_lift(area: float, words: str) -> None:
    table = metrics(
        {"model": "m", "metric": "auc_a_species", "value": area},
        {"model": "m", "metric": "a_species_accuracy", "value": 0.5},
    )
    assert words in say.calibration_title(table, ["m"])


def areas(ua_a: float, lo: float | None, *, model: str = "m") -> list[dict[str, Any]]:
    row = {"model": model, "metric": "ua_a", "value": ua_a, "lo": lo, "hi": None if lo is None else lo + 0.2}
    return [row, {"model": model, "metric": "ig", "value": 0.4}]


def test_nobody_knows_best_below_chance() -> None:
    table = metrics(*areas(0.47, 0.4), *areas(0.45, 0.3, model="n"))
    nobody = "No model is confirmed above chance at knowing when not to answer"
    assert say.tradeoff_title(table, ["m", "n"]) == nobody + "; {model:m} names best."
    assert say.verdict(table, ["m", "n"]) == say.areas_title(table, ["m", "n"]) == nobody + "."
    assert say.verdict(metrics(*areas(0.9, None)), ["m"]) == nobody + "."


def test_one_model_is_compared_with_no_other() -> None:
    table = metrics(*areas(0.8, 0.7))
    assert say.verdict(table, ["m"]) == "{model:m} is above chance at knowing when not to answer."
    assert say.verdict(metrics(*areas(0.8, 0.7), *areas(0.6, 0.55, model="n")), ["m", "n"]).endswith(
        "knows best when not to answer; not confirmed over every other model."
    )


def test_notes_are_sentences() -> None:
    notices = pl.DataFrame(
        {"model": ["", "m"], "code": ["x", "y"], "message": ["items without a date", "rows of nothing"], "n": [3, 4]}
    )
    alignment = pl.DataFrame(schema={"model": pl.String, "how": pl.String, "n": pl.Int64})
    notes = say.asked_notes(notices, alignment, ["m"])
    assert notes == ["Items without a date (3).", "{model:m}: rows of nothing (4)."]
    rows = {"model": "m", "metric": "ig", "value": 0.4, "lo": 0.3, "hi": 0.5, "reason": "few clusters (5)"}
    said_below = say.areas_notes(metrics(rows), ["m"], cluster="observer", n_resamples=100)
    assert "Few clusters (5)." in said_below


def test_the_family_of_the_correction_is_stated() -> None:
    rows = [
        {"model": f"{a} - {b}", "group": "pair", "metric": f"{k}_difference_confirmed", "value": 0.0, "n": 3}
        for a, b in (("a", "b"), ("a", "c"), ("b", "c"))
        for k in ("ua_a", "ig")
    ]
    notes = say.areas_notes(metrics(*rows), ["a", "b", "c"], cluster="genus", n_resamples=200)
    assert "Holm's correction: over 3 pairs of models in UA/A, and again in IG." in notes
    alone = say.areas_notes(
        metrics({"model": "a", "metric": "ua_a", "value": 0.6}), ["a"], cluster="genus", n_resamples=200
    )
    assert not any("Holm" in note for note in alone)


def test_negative_correlations_have_a_minus() -> None:
    reason = "r = -0.60 [-0.95, 0.41], n = 6: too few models to say"
    table = metrics({"model": "", "metric": "r_ig_ua_a", "group": "across", "value": -0.6, "reason": reason})
    assert say.across_title(table) == "IG and UA/A over models: r = −0.60 [−0.95, 0.41], n = 6: too few models to say."


def test_the_table_of_conventions_has_every_area() -> None:
    measures = ("ua_a", "ig", "calibration_a_species", "calibration_a_genus", "calibration_ua_genus")
    sweep = pl.DataFrame(
        [
            {"model": "m", "measure": k, "option": "o", "choice": c, "area": 0.5, "delta": d, "reason": None}
            for k in measures
            for c, d in (("base", 0.0), ("other", 0.1))
        ],
        schema_overrides={"reason": pl.String},
    )
    table = chapter.sweep_table(sweep, ["m"])
    assert table["measure"].unique(maintain_order=True).to_list() == ["UA/A", "IG", "A-species", "A-genus", "UA-genus"]
    assert table["choice"].to_list() == ["as printed", "o = other"] * 5


def test_how_answers_were_read_stands_under_them(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    model = {"name": "m", "answers": "m.jsonl"}
    about = {"items": "i.csv", "models": [model], "unparsed": "drop", "policy": {"hybrid": "unparsed"}}
    path.write_text(json.dumps({"name": "r", "data": {"root": "."}, "abstention": about}), encoding="utf-8")
    section = load_recipe(path).abstention
    empty = schemas.empty("answers")
    wrongly = pl.DataFrame(schema={"model": pl.String, "prompt_id": pl.String, "given": pl.String, "rate": pl.Float64})
    notes = said.read_notes(empty, wrongly, {"m": "p"}, section=section)
    assert notes[-1] == (
        "Reading: best_guess=species ambiguous_group=unparsed hybrid=unparsed trinomial=species split=genus "
        "unparsed=drop missing=error."
    )
    assert said.read_notes(empty, wrongly, {}, section=section) == []


def test_provenance_names_what_names_birds() -> None:
    models = [
        {"name": "flat", "scores": ["a/flat_1.npy", "a/flat_2.npy"]},
        {"name": "chat<b>", "answers": "a/chat.jsonl"},
        {"name": "mobile", "weights": "m.tflite", "sha256": "f" * 64},
    ]
    section = {"models": models, "cluster": "observer", "n_resamples": 700}
    hashes = {"data/a/chat.jsonl": "c" * 64, "data/a/flat_1.npy": "1" * 64, "data/a/flat_2.npy": "2" * 64}
    page = str(provenance({"recipe": {"models": [], "scoring": {"iou": 0.5}, "abstention": section}}, [], hashes))
    for told in ("flat: scores a/flat_1.npy, a/flat_2.npy", "chat&lt;b&gt;: answers a/chat.jsonl", "mobile: weights"):
        assert told in page
    for digit in "c12f":
        assert digit * 16 in page
    assert "700 resamples of whole clusters (observer)" in page
    assert "Matching" not in page and "CR1" not in page
    both = str(provenance({"recipe": {"models": [{"name": "heron"}], "abstention": section}}, []))
    assert "Matching" in both and "CR1" in both and "700 resamples" in both
    alone = str(provenance({"recipe": {"models": [], "scoring": {"iou": 0.5}}}, []))
    assert "Matching" in alone and "resamples" not in alone


def test_no_caption_uses_a_word_that_is_a_model_of_the_demo() -> None:
    names = {"flat", "hesitant", "cocksure", "chatty"}
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    words = " ".join("".join(cell["source"]) for cell in cells).casefold().replace(":", " ").split()
    assert not names & set(words)
