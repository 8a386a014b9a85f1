"""Reasons, prompts and answers as columns: counted by hand, beside loops, and what must always hold."""

from __future__ import annotations

import math
from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab.abstention.answer_columns import SCHEMA, answer_columns, answer_uncertainty
from birdlab.abstention.answered import SPECIES_LEVEL, answered
from birdlab.abstention.conventions import Conventions
from birdlab.abstention.events import ig_events
from birdlab.abstention.prompts import fragility, permission_contrast, prompt_rates
from birdlab.abstention.reasons import GIVEN, REST, abstention_by_reason, confusion, false_abstention
from birdlab.abstention.taxonomy import Taxonomy
from birdlab.abstention.uncertainty import uncertainty
from birdlab.errors import DataError, ParameterError

DECISIONS = ("species", "genus", "higher", "multiple", "abstain", "unparsed")
REASONS = ("vocalization", "angle", "quality", "other")
ANSWER_SCHEMA = {
    **{"model": pl.String, "prompt_id": pl.String, "permits_abstention": pl.Boolean, "item_id": pl.String},
    **{"decision": pl.Enum(DECISIONS), "taxon_id": pl.String, "candidates": pl.List(pl.String)},
    **{"reasons": pl.List(pl.String), "confidence": pl.Float64},
}
ITEM_SCHEMA = {
    **{"item_id": pl.String, "genus": pl.String, "species": pl.String, "is_answerable": pl.Boolean},
    **{"reasons": pl.List(pl.String), "date": pl.Date},
}
TAXA = ("Corvus corax", "Corvus corone", "Empidonax alnorum", "Empidonax traillii", "Empidonax minimus", "Pica pica")


def answer(item: str, decision: str, **values: object) -> dict[str, object]:
    row = {"model": "m", "prompt_id": "p", "permits_abstention": True, "item_id": item, "decision": decision}
    return {**row, "taxon_id": None, "candidates": [], "reasons": [], "confidence": None, **values}


def answers_of(*rows: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=ANSWER_SCHEMA)


def items_of(*rows: tuple[str, str | None, list[str]], genus: str = "Empidonax") -> pl.DataFrame:
    """(id, species, reasons); answerable where a species is given."""
    return pl.DataFrame(
        [(i, s.split()[0] if s else genus, s, s is not None, r, date(2024, 1, 1)) for i, s, r in rows],
        schema=ITEM_SCHEMA,
        orient="row",
    )


ITEMS = items_of(
    ("v1", None, ["vocalization"]),
    ("v2", None, ["vocalization"]),
    ("a1", None, ["angle"]),
    ("aq", None, ["angle", "quality"]),
    ("s1", "Corvus corax", []),
    ("s2", "Corvus corone", []),
    ("s3", "Pica pica", []),
    ("s4", "Empidonax minimus", []),
)
ANSWERS = answers_of(
    answer("v1", "abstain", reasons=["vocalization"]),
    answer("v2", "unparsed"),
    answer("a1", "genus", taxon_id="Empidonax", reasons=["quality", "angle"]),
    answer("aq", "abstain", reasons=["quality"]),
    answer("s1", "species", taxon_id="Corvus corax"),
    answer("s2", "abstain", reasons=["quality", "vocalization"]),
    answer("s3", "higher", taxon_id="Corvidae"),
    answer("s4", "species", taxon_id="Empidonax alnorum"),
)


def only(table: pl.DataFrame, **where: str) -> dict[str, object]:
    return table.filter(**where).row(0, named=True)


# ---- reasons ----


def test_rates_by_true_reason_by_hand() -> None:
    table = abstention_by_reason(ANSWERS, ITEMS)
    v = only(table, true_reason="vocalization")
    assert (v["n"], v["n_unparsed"], v["unparsed_share"], v["n_species_level"]) == (2, 1, 0.5, 1)
    assert (v["rate_species_level"], v["p_right_reason"], v["joint"], v["reason"]) == (0.5, 1.0, 0.5, None)
    # Wilson, n = 2, k = 1: centre 1/2, half width z / (1 + z²/2) · sqrt(1/8 + z²/16).
    z = 1.959963984540054
    half = z / (1 + z * z / 2) * math.sqrt(1 / 8 + z * z / 16)
    assert v["rate_species_level_lo"] == pytest.approx(0.5 - half, abs=1e-12)
    a = only(table, true_reason="angle")  # a1 names two reasons, one true; aq has two true ones
    assert (a["n"], a["n_abstained"], a["n_outright"], a["n_several"]) == (2, 2, 1, 1)
    assert (a["rate_outright"], a["p_right_reason"], a["p_right_reason_shared"]) == (0.5, 1.0, 0.75)
    q = only(table, true_reason="quality")
    assert (q["n"], q["p_right_reason"]) == (1, 1.0)
    every = only(table, true_reason="all")  # aq once
    assert (every["n"], every["n_judged"], every["n_abstained"], every["joint"]) == (4, 4, 3, 0.75)


def test_reason_without_photograph_is_null_with_a_reason() -> None:
    row = only(abstention_by_reason(ANSWERS, ITEMS), true_reason="other")
    assert row["n"] == 0 and "no unanswerable photograph" in row["reason"]
    assert [row[c] for c in ("rate_species_level", "rate_outright", "p_right_reason", "joint", "unparsed_share")] == [
        None
    ] * 5


def test_never_abstaining_has_rate_zero_and_no_right() -> None:
    row = only(
        abstention_by_reason(answers_of(answer("v1", "species", taxon_id="Pica pica")), ITEMS),
        true_reason="vocalization",
    )
    assert (row["rate_species_level"], row["joint"], row["p_right_reason"]) == (0.0, 0.0, None)
    assert "never abstained" in row["reason"]


def test_dropped_answers_leave_the_denominator_but_stay_counted() -> None:
    row = only(abstention_by_reason(ANSWERS, ITEMS, unparsed="drop"), true_reason="vocalization")
    assert (row["n"], row["n_unparsed"], row["unparsed_share"], row["rate_species_level"]) == (1, 1, 0.5, 1.0)


def test_outright_alone() -> None:
    row = only(abstention_by_reason(ANSWERS, ITEMS, abstained="outright"), true_reason="angle")
    assert (row["n_abstained"], row["p_right_reason"], row["joint"], row["rate_species_level"]) == (1, 1.0, 0.5, 1.0)


def test_reasons_that_nobody_recorded_are_not_judged() -> None:
    items = pl.concat([ITEMS, items_of(("u", None, []))])
    table = abstention_by_reason(pl.concat([ANSWERS, answers_of(answer("u", "abstain", reasons=["angle"]))]), items)
    u, every = only(table, true_reason="unknown"), only(table, true_reason="all")
    assert (u["n"], u["rate_species_level"], u["p_right_reason"], u["joint"]) == (1, 1.0, None, None)
    assert "no true reason" in u["reason"]
    assert (every["n"], every["n_judged"], every["n_species_level"], every["n_abstained"], every["joint"]) == (
        5,
        4,
        4,
        3,
        0.75,
    )
    assert "unknown" not in abstention_by_reason(ANSWERS, ITEMS)["true_reason"].to_list()


def test_confusion_by_hand() -> None:
    table = confusion(ANSWERS, ITEMS)
    shares = {t: part["share"].to_list() for (t,), part in table.group_by("true_reason", maintain_order=True)}
    assert shares == {
        "vocalization": [1.0, 0.0, 0.0, 0.0, 0.0],
        "angle": [0.0, 0.25, 0.75, 0.0, 0.0],
        "quality": [0.0, 0.0, 1.0, 0.0, 0.0],
        "other": [None] * 5,
    }
    assert table["given"].to_list()[:5] == list(GIVEN)
    full = confusion(ANSWERS, ITEMS, per="answered").filter(true_reason="vocalization")
    assert dict(full.select("given", "share").iter_rows()) == {
        **dict.fromkeys((*GIVEN, *REST), 0.0),
        "vocalization": 0.5,
        "unparsed": 0.5,
    }
    assert set(full["unparsed_share"]) == {0.5}


def test_false_abstention_by_hand() -> None:
    table = false_abstention(ANSWERS, ITEMS)
    assert dict(table.select("given", "rate").iter_rows()) == {
        **{"all": 0.5, "vocalization": 0.125, "angle": 0.0, "quality": 0.125, "other": 0.0, "none": 0.25}
    }
    assert only(table, given="all")["rate_outright"] == 0.25
    nothing = false_abstention(ANSWERS.head(1), ITEMS)
    assert set(nothing["reason"]) == {"no answerable photograph was answered"} and nothing["rate"].null_count() == 6


def test_published_kinds_of_numbers_are_two() -> None:
    """Abstains on 2 of 4, always says quality: the rate is 0.5 for every reason, right only for quality."""
    items = items_of(*((f"{r}{i}", None, [r]) for r in ("angle", "quality") for i in range(4)))
    rows = [
        answer(i, "abstain", reasons=["quality"]) if int(i[-1]) < 2 else answer(i, "species", taxon_id="Pica pica")
        for i in items["item_id"]
    ]
    table = abstention_by_reason(answers_of(*rows), items)
    for reason, right in (("angle", 0.0), ("quality", 1.0)):
        row = only(table, true_reason=reason)
        assert (row["rate_species_level"], row["p_right_reason"], row["joint"]) == (0.5, right, 0.5 * right)


REASON_LISTS = st.lists(st.sampled_from(REASONS), unique=True, max_size=3)


@st.composite
def studies(draw: st.DrawFn) -> tuple[pl.DataFrame, pl.DataFrame]:
    n = draw(st.integers(1, 12))
    items = [(f"i{k}", "Pica pica" if draw(st.booleans()) else None, draw(REASON_LISTS)) for k in range(n)]
    items = [(i, s, [] if s else r) for i, s, r in items]
    rows = []
    for prompt in ("p", "q"):
        for i, _, _ in items:
            decision = draw(st.sampled_from(DECISIONS))
            taxon = "Pica pica" if decision == "species" else None
            rows.append(
                answer(
                    i,
                    decision,
                    prompt_id=prompt,
                    permits_abstention=prompt == "p",
                    taxon_id=taxon,
                    reasons=draw(REASON_LISTS),
                )
            )
    return answers_of(*rows), items_of(*items)


@settings(max_examples=60, deadline=None)
@given(studies(), st.sampled_from(["wrong", "drop"]), st.sampled_from(["species_level", "outright"]))
def test_counts_equal_a_loop(study: tuple[pl.DataFrame, pl.DataFrame], unparsed: str, level: str) -> None:
    answers, items = study
    truth = {r["item_id"]: r for r in items.iter_rows(named=True)}
    gave_up = {"abstain"} if level == "outright" else set(SPECIES_LEVEL)
    by_reason = abstention_by_reason(answers, items, unparsed=unparsed, abstained=level)
    for row in by_reason.filter(pl.col("true_reason") != "unknown").iter_rows(named=True):
        mine = [
            a
            for a in answers.iter_rows(named=True)
            if a["prompt_id"] == row["prompt_id"]
            and not truth[a["item_id"]]["is_answerable"]
            and (row["true_reason"] == "all" or row["true_reason"] in truth[a["item_id"]]["reasons"])
        ]
        used = [a for a in mine if unparsed == "wrong" or a["decision"] != "unparsed"]
        k = [a for a in used if a["decision"] in gave_up and truth[a["item_id"]]["reasons"]]
        right = [a for a in k if set(a["reasons"]) & set(truth[a["item_id"]]["reasons"])]
        assert (row["n"], row["n_abstained"], row["n_right_reason"]) == (len(used), len(k), len(right))
        assert row["n_unparsed"] == sum(a["decision"] == "unparsed" for a in mine)
        if row["joint"] is not None and row["p_right_reason"] is not None:
            assert row["joint"] == pytest.approx(row["p_right_reason"] * len(k) / row["n_judged"])
    for per in ("abstained", "answered"):
        table = confusion(answers, items, per=per, abstained=level, unparsed=unparsed)
        sums = table.group_by("prompt_id", "true_reason").agg(
            pl.col("share").sum(), pl.col("n").first(), ok=pl.col("share").null_count()
        )
        for _, _, total, n, nulls in sums.iter_rows():
            assert (nulls > 0) == (n == 0) and (n == 0 or total == pytest.approx(1.0))
    # One true reason: the diagonal is p_right_reason_shared.
    single = items.filter(pl.col("is_answerable") | (pl.col("reasons").list.len() == 1))
    kept = answers.join(single.select("item_id"), on="item_id", how="semi")
    diagonal = confusion(kept, single, abstained=level).filter(pl.col("true_reason") == pl.col("given"))
    joined = diagonal.join(abstention_by_reason(kept, single, abstained=level), on=["prompt_id", "true_reason"])
    assert joined["share"].to_list() == pytest.approx(joined["p_right_reason_shared"].to_list())
    false = false_abstention(answers, items, unparsed=unparsed, abstained=level)
    for _, part in false.drop_nulls("rate").group_by("prompt_id"):
        assert part.filter(pl.col("given") != "all")["rate"].sum() == pytest.approx(
            part.filter(given="all")["rate"].item()
        )


@settings(max_examples=20, deadline=None)
@given(studies(), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(study: tuple[pl.DataFrame, pl.DataFrame], random: object) -> None:
    answers, items = study
    order = list(range(answers.height))
    random.shuffle(order)  # type: ignore[attr-defined]
    key = ["prompt_id", "true_reason"]
    one = abstention_by_reason(answers, items).sort(key)
    assert one.equals(abstention_by_reason(answers[order], items.reverse()).sort(key))


def test_answers_that_do_not_fit_are_refused_together() -> None:
    wrong = pl.concat([ANSWERS, ANSWERS.head(1), answers_of(answer("zz", "abstain"))])
    with pytest.raises(DataError) as error:
        answered(wrong, ITEMS)
    assert {p.code for p in error.value.problems} == {"unknown_item", "duplicate_answer"}
    both = answers_of(answer("v1", "abstain"), answer("v2", "abstain", permits_abstention=False))
    with pytest.raises(DataError, match="permits"):
        answered(both, ITEMS)
    with pytest.raises(ParameterError):
        abstention_by_reason(ANSWERS, ITEMS, unparsed="guess")  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        confusion(ANSWERS, ITEMS, per="all")  # type: ignore[arg-type]


def test_no_answer_at_all() -> None:
    nothing = ANSWERS.clear()
    for table in (abstention_by_reason, confusion, false_abstention, prompt_rates, fragility, permission_contrast):
        assert table(nothing, ITEMS).height == 0


# ---- prompts ----


def prompts(rates: dict[str, tuple[bool, list[int]]], ids: list[str]) -> pl.DataFrame:
    rows = [
        answer(
            i,
            "abstain" if hit else "species",
            prompt_id=p,
            permits_abstention=permits,
            taxon_id=None if hit else "Pica pica",
        )
        for p, (permits, hits) in rates.items()
        for i, hit in zip(ids, hits, strict=False)
    ]
    return answers_of(*rows)


def test_prompt_rates_and_fragility() -> None:
    ids = [f"i{k}" for k in range(4)]
    items = items_of(*((i, "Pica pica" if k < 2 else None, []) for k, i in enumerate(ids)))
    table = prompts({"a": (True, [0, 0, 1, 1]), "b": (True, [1, 1, 1, 1]), "c": (False, [0, 0, 0, 1])}, ids)
    rates = prompt_rates(table, items)
    assert rates.filter(among="all")["rate"].to_list() == [0.5, 1.0, 0.25]
    assert rates.filter(among="unanswerable")["rate"].to_list() == [1.0, 1.0, 0.5]
    assert rates.filter(among="answerable")["rate"].to_list() == [0.0, 1.0, 0.0]
    spread = fragility(table, items)
    on, off, both = (only(spread, prompts=p) for p in ("permitted", "not_permitted", "all"))
    assert (on["mean"], on["min"], on["max"], on["min_prompt"], on["max_prompt"]) == (0.75, 0.5, 1.0, "a", "b")
    assert on["sd"] == pytest.approx(math.sqrt(2 * 0.25**2)) and on["reason"] is None and on["same_items"]
    assert (off["sd"], off["n_prompts"], off["mean"]) == (None, 1, 0.25) and "one prompt" in off["reason"]
    assert both["sd"] == pytest.approx(np.std([0.5, 1.0, 0.25], ddof=1))


def test_unparsed_and_missing_answers_are_counted_per_prompt() -> None:
    table = answers_of(answer("v1", "unparsed"), answer("a1", "abstain"), answer("s1", "genus", taxon_id="Corvus"))
    row = only(prompt_rates(table, ITEMS), among="all")
    assert (row["n"], row["k"], row["k_outright"], row["n_unparsed"], row["n_no_answer"]) == (3, 2, 1, 1, 5)
    row = only(prompt_rates(table, ITEMS, unparsed="drop"), among="all")
    assert (row["n"], row["rate"], row["unparsed_share"]) == (2, 1.0, pytest.approx(1 / 3))
    only_bad = prompt_rates(answers_of(answer("v1", "unparsed")), ITEMS, unparsed="drop")
    assert only(only_bad, among="all")["rate"] is None and only(only_bad, among="all")["reason"]
    assert fragility(answers_of(answer("v1", "unparsed")), ITEMS, unparsed="drop")["mean"].to_list() == [None, None]


def test_prompts_on_different_photographs_are_told() -> None:
    table = answers_of(answer("v1", "abstain"), answer("a1", "abstain", prompt_id="q"))
    assert only(fragility(table, ITEMS), prompts="permitted")["same_items"] is False


def test_permission_is_compared_in_pairs() -> None:
    ids = [f"i{k}" for k in range(6)]
    genera = ["A", "A", "B", "B", "C", "C"]
    items = items_of(*((i, None, []) for i in ids)).with_columns(genus=pl.Series(genera))
    table = prompts(
        {"on1": (True, [1, 1, 1, 0, 0, 1]), "on2": (True, [1, 0, 1, 0, 0]), "off": (False, [0, 0, 1, 0, 0])}, ids
    )
    row = only(permission_contrast(table, items), model="m")
    # Item means 1, .5, 1, 0, 0 against 0, 0, 1, 0, 0; i5 has no answer without permission.
    d, n = np.array([1.5, 0.0, 0.0]), np.array([2, 2, 1])
    assert (row["n"], row["n_unpaired"], row["n_clusters"]) == (5, 1, 3)
    assert row["difference"] == pytest.approx(0.3)
    assert (row["rate_permitted"], row["rate_not_permitted"]) == (pytest.approx(0.5), pytest.approx(0.2))
    v = 3 / 2 * np.sum((d - 0.3 * n) ** 2) / 25
    assert row["hi"] - row["difference"] == pytest.approx(4.302652729911275 * math.sqrt(v))  # t(2)
    items_alone = only(permission_contrast(table, items, cluster="item_id"), model="m")
    assert items_alone["n_clusters"] == 5
    observers = items.with_columns(observer_id=pl.Series(["o", "o", None, None, "o", "o"]))
    assert only(permission_contrast(table, observers, cluster="observer_id"), model="m")["n_clusters"] == 3


def test_permission_without_two_kinds_is_null() -> None:
    row = only(permission_contrast(ANSWERS, ITEMS), model="m")
    assert row["difference"] is None and row["reason"].startswith("every prompt permits")
    apart = answers_of(answer("v1", "abstain"), answer("a1", "abstain", prompt_id="q", permits_abstention=False))
    row = only(permission_contrast(apart, ITEMS), model="m")
    assert row["difference"] is None and "both kinds" in row["reason"] and row["n_unpaired"] == 2
    with pytest.raises(ParameterError):
        permission_contrast(ANSWERS, ITEMS, cluster="colour")


# ---- answers as columns ----

TREE = Taxonomy.from_names(TAXA)
NAMED = answers_of(
    answer("s1", "species", taxon_id="Corvus corax", confidence=0.7),
    answer("s2", "species", taxon_id="Corvus corax", confidence=0.2),
    answer("s3", "abstain", confidence=0.9),
    answer("s4", "multiple", candidates=["Empidonax alnorum", "Empidonax traillii"], confidence=0.6),
    answer("v1", "genus", taxon_id="Empidonax"),
    answer("v2", "unparsed"),
    answer("a1", "higher", taxon_id="Tyrannidae"),
    answer("aq", "multiple", candidates=["Corvus corax", "Pica pica"]),
)


def test_columns_by_hand() -> None:
    table = answer_columns(NAMED, ITEMS, TREE)
    assert dict(table.schema) == {k: v if isinstance(v, pl.List) else v() for k, v in SCHEMA.items()}
    assert table["item_id"].to_list() == NAMED["item_id"].to_list()
    assert table["max_species"].to_list() == [0.7, 0.2, *[None] * 6]
    assert table["max_genus"].to_list() == [0.7, 0.2, None, 0.6, 1.0, None, None, None]
    assert table["top_genus"].to_list() == ["Corvus", "Corvus", None, "Empidonax", "Empidonax", None, None, None]
    assert table["species_right"].to_list() == [True, False, False, False, None, None, None, None]
    assert table["genus_right"].to_list() == [True, True, False, True, True, False, False, False]
    assert table["within_genus_right"].to_list() == [True, False, *[None] * 6]
    assert table["abstained"].to_list() == [False, False, True, True, True, False, True, True]
    assert table["stated"].to_list() == [0.7, 0.2, None, None, None, 1.0, None, None]
    assert table["top_genus_n"].to_list() == [2, 2, None, 3, 3, None, None, None]
    assert set(table["n_species"]) == {6} and set(table["n_genera"]) == {3}
    assert table["leaf_info"].to_list()[3] == [pytest.approx(1 - math.log(3) / math.log(6))]
    assert table["leaf_p"].list.len().to_list() == [1, 1, 0, 1, 1, 0, 0, 0]
    assert answer_uncertainty(table) == "stated"
    assert answer_columns(NAMED, ITEMS, TREE, unparsed="drop")["item_id"].to_list() == [
        i for i in NAMED["item_id"] if i != "v2"
    ]


def test_vocabulary_decides_what_is_missing() -> None:
    table = answer_columns(NAMED, ITEMS, TREE, vocabulary=["Corvus corax", "Pica pica"])
    missing = dict(table.select("item_id", "is_missing_species").iter_rows())
    assert [i for i, m in missing.items() if m] == ["s2", "s4"]
    assert table["leaf_p"].list.len().to_list()[3] == 0 and table["max_genus"][3] == 0.6
    assert table["leaf_info"].to_list()[0] == [1.0]


def test_answers_go_through_the_information_curve() -> None:
    """Depth, answerable only: s1 right species at .7, s4 right genus at .6, s2 wrong species of the right genus at .2."""
    events = ig_events(answer_columns(NAMED, ITEMS, TREE))
    assert events.n == 4
    assert events.score.tolist() == [0.7, 0.6, 0.2]
    assert events.d_info.tolist() == [1.0, 0.5, 1.0] and events.d_right.tolist() == [0.0, 0.0, -1.0]
    leaf = ig_events(answer_columns(NAMED, ITEMS, TREE), Conventions(info="leaf", ua="genus_ok"))
    assert leaf.n == 8 and leaf.score.tolist() == [1.0, 0.7, 0.6, 0.2]


def test_a_species_without_confidence_makes_uncertainty_binary() -> None:
    table = answer_columns(NAMED.with_columns(confidence=pl.lit(None, pl.Float64)), ITEMS, TREE)
    assert answer_uncertainty(table) == "binary" and table["max_species"].to_list()[:2] == [1.0, 1.0]
    assert answer_uncertainty(table.filter(pl.col("max_species").is_null())) == "binary"


def test_columns_refuse_what_they_cannot_use() -> None:
    with pytest.raises(ParameterError, match="prompt_id"):
        answer_columns(answers_of(answer("s1", "abstain"), answer("s2", "abstain", prompt_id="q")), ITEMS, TREE)
    with pytest.raises(DataError, match="Larus argentatus"):
        answer_columns(answers_of(answer("s1", "species", taxon_id="Larus argentatus")), ITEMS, TREE)
    assert answer_columns(NAMED.clear(), ITEMS, TREE).height == 0


def test_unparsed_answers_are_the_least_wish_to_abstain() -> None:
    table = answer_columns(NAMED, ITEMS, TREE)
    for kind in ("stated", "binary"):
        u = uncertainty(table, kind)
        assert u[5] == u.min() and (u[[2, 3, 4, 6, 7]] == u.max()).all() and u.max() > u[:2].max()
