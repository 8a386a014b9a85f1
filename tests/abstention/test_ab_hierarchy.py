"""From probabilities to per-image columns: against plain loops, under permutation, and what is refused."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab.abstention.chance import chance
from birdlab.abstention.conventions import Conventions
from birdlab.abstention.curves import ig_curve
from birdlab.abstention.events import ig_events
from birdlab.abstention.hierarchy import Options, wide_columns
from birdlab.abstention.leaf import Levels, best_in, fronts, listed_fronts
from birdlab.abstention.observations import observations, pooled
from birdlab.abstention.score_columns import score_columns
from birdlab.abstention.taxonomy import Taxonomy
from birdlab.abstention.topk import missing_to, refuse_topk, topk_columns
from birdlab.abstention.tree import Tree
from birdlab.errors import DataError, ParameterError
from birdlab.readers.scores import read_scores

FAMILY = {"A": "F1", "B": "F2", "C": "F1", "D": "F3", "E": "F2"}
SPECIES = [*(f"A a{i}" for i in range(4)), "B b0", "B b1", "C c0", *(f"D d{i}" for i in range(3)), "E e0"]


class Stub:
    """A taxonomy as the rooms know it: names resolve to themselves, ``X (note)`` to X, one word to a genus."""

    genus_of = {s: s.split()[0] for s in [*SPECIES, "A missing", "G g0"]}

    def resolve(self, names: list[str]) -> pl.DataFrame:
        plain = [n.split(" (")[0] for n in names]
        rank = ["species" if n in self.genus_of else "genus" if n in FAMILY else None for n in plain]
        taxon = [n if r else None for n, r in zip(plain, rank, strict=True)]
        return pl.DataFrame({"name": names, "taxon_id": taxon, "rank": rank})

    def ancestors(self, rank: str) -> dict[str, str]:
        return {s: FAMILY.get(g, "F9") for s, g in self.genus_of.items()} if rank == "family" else {}


#: Two labels of one species, a genus, and a label that is nothing.
LABELS = [*SPECIES, "A a1 (again)", "A", "background"]


def blocks(matrix: np.ndarray, size: int = 7, *, backwards: bool = False):
    starts = range(0, len(matrix), size)
    for a in reversed(starts) if backwards else starts:
        yield np.arange(a, min(a + size, len(matrix))), matrix[a : a + size]


def make_truth(rng: np.random.Generator, n: int) -> pl.DataFrame:
    pool = [*SPECIES, "A missing", "G g0"]
    species = [pool[i] for i in rng.integers(0, len(pool), n)]
    answerable = rng.random(n) < 0.7
    return pl.DataFrame(
        {
            "item_id": [f"item{i}" for i in range(n)],
            "is_answerable": answerable,
            "genus": [s.split()[0] for s in species],
            "species": [s if a else None for s, a in zip(species, answerable, strict=True)],
        },
        schema_overrides={"species": pl.String},
    )


def make_matrix(rng: np.random.Generator, n: int, labels: list[str], dtype: str = "float64", *, coarse: int = 0):
    p = rng.dirichlet(np.full(len(labels), 0.5), n)
    if coarse:  # heavy ties
        counts = rng.multinomial(coarse, np.full(len(labels), 1 / len(labels)), n)
        p = counts / coarse
    return p.astype(dtype)


def reference(row: np.ndarray, labels: list[str], item: dict, allowed: set[str] | None = None) -> dict:
    """One image in plain Python: dictionaries, sums, maxima; ties go to the first by (genus, name)."""
    leaf: dict[str, float] = {}
    for p, label in zip(row.tolist(), labels, strict=True):
        name = label.split(" (")[0]
        if name in Stub.genus_of:
            leaf[name] = leaf.get(name, 0.0) + p
    scale = 1.0
    if allowed is not None and allowed & set(leaf):
        leaf = {s: p for s, p in leaf.items() if s in allowed}
        if sum(leaf.values()) == 0:
            leaf = dict.fromkeys(leaf, 1.0)
        scale = 1 / sum(leaf.values())
    leaf = {s: leaf[s] * scale for s in sorted(leaf, key=lambda s: (s.split()[0], s))}
    genus: dict[str, float] = {}
    for s, p in leaf.items():
        genus[s.split()[0]] = genus.get(s.split()[0], 0.0) + p
    size = {g: sum(s.split()[0] == g for s in leaf) for g in genus}

    def best(options: dict[str, float]) -> tuple[str, float]:
        top = max(options.values())
        return next(k for k, v in options.items() if abs(v - top) < 1e-12), top

    def inside(g: str) -> dict[str, float]:
        return {s: p for s, p in leaf.items() if s.split()[0] == g}

    top_species, m = best(leaf)
    top_genus, top = best(genus)
    down, p_down = best(inside(top_genus))
    is_a, true, g = item["is_answerable"], item["species"], item["genus"]
    bits = math.log2(len(leaf))
    nodes = sorted([(-p, -((bits - math.log2(size[x])) / bits), x) for x, p in genus.items() if size[x] > 1])
    listed, info = [], 0.0
    for p, i, x in [*nodes, (-m, -1.0, top_species)]:
        if -p > m + 1e-12 and -i > info + 1e-12 or x == top_species:
            listed.append((-p, -i, x))
            info = -i
    found = {
        "max_species": m,
        "top_species": top_species,
        "species_right": top_species == true if is_a else None,
        "max_genus": top,
        "top_genus": top_genus,
        "genus_right": top_genus == g,
        "top_species_top_down": down,
        "max_species_top_down": p_down,
        "species_right_top_down": down == true if is_a else None,
        "p_true_species": leaf.get(true, 0.0) if is_a else None,
        "p_true_genus": genus.get(g, 0.0),
        "entropy": -sum(p * math.log(p) for p in leaf.values() if p > 0),
        "within_genus_right": best(inside(g))[0] == true if is_a and g in genus else None,
        "within_genus_n": size.get(g, 0),
        "top_genus_n": size[top_genus],
        "n_species": len(leaf),
        "n_genera": len(genus),
        "is_missing_species": is_a and true not in leaf,
        "leaf_p": [p for p, _, _ in listed],
        "leaf_info": [i for _, i, _ in listed],
        "leaf_right": [x == g if x in genus else (x == true if is_a else None) for _, _, x in listed],
    }
    if m == 0:  # nothing on any leaf: nothing is named, nothing is right
        found |= dict.fromkeys(("top_species", "top_genus", "top_species_top_down"))
        found |= {
            k: v and False for k, v in found.items() if k.endswith(("_right", "_right_top_down")) and k != "leaf_right"
        }
        found["leaf_right"] = [False if is_a else None]
    return found


def assert_same(found: dict, wanted: dict, tolerance: float) -> None:
    for key, value in wanted.items():
        if isinstance(value, float) or (isinstance(value, list) and value and isinstance(value[0], float)):
            assert found[key] == pytest.approx(value, abs=tolerance), key
        else:
            assert found[key] == value, key


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 2e-6), ("float16", 2e-3)])
def test_against_plain_loops(dtype: str, tolerance: float) -> None:
    rng = np.random.default_rng(3)
    labels = [LABELS[i] for i in rng.permutation(len(LABELS))]
    matrix, truth = make_matrix(rng, 300, labels, dtype), make_truth(rng, 300)
    options = Options(tolerance=1e-2 if dtype == "float16" else 1e-3)
    table, _ = wide_columns(blocks(matrix), Tree.build(labels, Stub()), truth, options=options, model="m")
    assert table["item_id"].to_list() == truth["item_id"].to_list()
    for row, item, found in zip(matrix, truth.iter_rows(named=True), table.iter_rows(named=True), strict=True):
        # float16 sums in float32 here, and there: exact sums of what is stored.
        assert_same(found, reference(row.astype("float64"), labels, item), tolerance)


def test_against_plain_loops_with_heavy_ties() -> None:
    rng = np.random.default_rng(4)
    # Multiples of 1/16 are exact in float16: nothing is rounded, ties are real.
    matrix, truth = make_matrix(rng, 400, LABELS, "float16", coarse=16), make_truth(rng, 400)
    table, notices = wide_columns(blocks(matrix), Tree.build(LABELS, Stub()), truth)
    for row, item, found in zip(matrix, truth.iter_rows(named=True), table.iter_rows(named=True), strict=True):
        assert_same(found, reference(row.astype("float64"), LABELS, item), 1e-6)
    tied = {n.code: n.n for n in notices}["tied_uncertainty"]
    assert tied > 390


def test_range_map_against_plain_loops() -> None:
    rng = np.random.default_rng(5)
    labels = [LABELS[i] for i in rng.permutation(len(LABELS))]
    matrix, truth = make_matrix(rng, 300, labels, coarse=4), make_truth(rng, 300)
    pool = [*SPECIES, "A missing", "Z unknown"]
    lists = [
        None if rng.random() < 0.1 else [pool[j] for j in rng.integers(0, len(pool), rng.integers(1, 8))]
        for _ in range(300)
    ]
    lists[0], lists[1] = ["Z unknown"], []
    truth = truth.with_columns(candidates=pl.Series(lists, dtype=pl.List(pl.String)))
    options = Options(range_map=True)
    table, notices = wide_columns(blocks(matrix), Tree.build(labels, Stub()), truth, options=options)
    plain, listed = table.filter(variant="plain"), table.filter(variant="range_map")
    for i, item in enumerate(truth.iter_rows(named=True)):
        assert_same(plain.row(i, named=True), reference(matrix[i], labels, item), 1e-12)
        wanted = reference(matrix[i], labels, item, None if lists[i] is None else set(lists[i]))
        if lists[i] is not None and set(lists[i]) & set(SPECIES):
            within = set(lists[i]) & {s for s in SPECIES if s.split()[0] == item["genus"]}
            wanted["within_genus_right"] = wanted["within_genus_right"] if within else None
        assert_same(listed.row(i, named=True), wanted, 1e-12)
    counted = {n.code: n.n for n in notices}
    answerable = [i for i in range(300) if truth["is_answerable"][i] and lists[i] is not None]
    assert counted["range_map_drops_truth"] == sum(truth["species"][i] not in lists[i] for i in answerable)
    assert counted["range_map_no_list"] == sum(x is None for x in lists)
    assert counted["range_map_no_leaf"] == sum(x is not None and not set(x) & set(SPECIES) for x in lists)
    assert counted["range_map_uniform"] > 0


def test_range_map_does_not_change_the_plain_columns() -> None:
    rng = np.random.default_rng(6)
    matrix, truth = make_matrix(rng, 50, SPECIES), make_truth(rng, 50)
    truth = truth.with_columns(candidates=pl.Series([["A a0", "B b0"]] * 50))
    tree = Tree.build(SPECIES, Stub())
    alone, _ = wide_columns(blocks(matrix), tree, truth)
    both, _ = wide_columns(blocks(matrix), tree, truth, options=Options(range_map=True))
    assert both.filter(variant="plain").equals(alone)
    listed = both.filter(variant="range_map")
    assert listed["n_species"].unique().to_list() == [2]
    assert set(listed["top_species"]) == {"A a0", "B b0"}
    assert chance(listed, "species").value == 0.5


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), coarse=st.sampled_from([0, 3, 40]), dtype=st.sampled_from(["float32", "float64"]))
def test_order_of_rows_and_columns_changes_nothing(seed: int, coarse: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    matrix, truth = make_matrix(rng, 70, LABELS, dtype, coarse=coarse), make_truth(rng, 70)
    first, _ = wide_columns(blocks(matrix), Tree.build(LABELS, Stub(), ranks=("family", "genus", "species")), truth)
    columns, rows = rng.permutation(len(LABELS)), rng.permutation(70)
    labels = [LABELS[i] for i in columns]
    tree = Tree.build(labels, Stub(), ranks=("family", "genus", "species"))
    again, _ = wide_columns(
        blocks(np.ascontiguousarray(matrix[rows][:, columns]), int(rng.integers(1, 40)), backwards=bool(seed % 2)),
        tree,
        truth,
        rows=np.argsort(rows),
    )
    assert again.equals(first)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), coarse=st.sampled_from([0, 5]))
def test_what_always_holds(seed: int, coarse: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, truth = make_matrix(rng, 40, LABELS, "float32", coarse=coarse), make_truth(rng, 40)
    tree = Tree.build(LABELS, Stub(), ranks=("family", "genus", "species"))
    table, _ = wide_columns(blocks(matrix), tree, truth)
    assert (table["max_genus"] >= table["max_species"]).all()
    assert (table["max_family"] >= table["max_genus"]).all()
    assert (table["max_genus"] >= table["max_species_top_down"]).all()
    assert (table["max_species"] >= table["max_species_top_down"]).all()
    monotypic = table.filter(pl.col("top_genus_n") == 1)
    assert (monotypic["max_genus"] == monotypic["max_species"]).all()
    for p, info in zip(table["leaf_p"], table["leaf_info"], strict=True):
        assert p.is_sorted(descending=True) and (p.diff().drop_nulls() < 0).all()
        assert (info.diff().drop_nulls() > 0).all() and info[-1] == 1.0


def test_genus_sums_and_other_are_one() -> None:
    rng = np.random.default_rng(8)
    matrix = make_matrix(rng, 20, LABELS)
    tree = Tree.build(LABELS, Stub())
    total = np.zeros(20)
    for genus in tree.genera:
        truth = pl.DataFrame(
            {"item_id": [str(i) for i in range(20)], "is_answerable": False, "genus": genus, "species": None}
        )
        table, _ = wide_columns(blocks(matrix), tree, truth.with_columns(pl.col("species").cast(pl.String)))
        total += table["p_true_genus"].to_numpy()
    assert total + matrix[:, tree.other].sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert {n.code: n.n for n in tree.notices} == {"genus_labels": 1, "other_labels": 1, "merged_labels": 1}


def test_genus_with_one_probability_above_a_minimum() -> None:
    """A sum over a genus whose other species are (nearly) zero is a number like any other."""
    names = ["A a0", "A a1", "B b0"]
    truth = pl.DataFrame({"item_id": ["x"], "is_answerable": [True], "genus": ["B"], "species": ["B b0"]})
    matrix = np.array([[0.0001, 0.0002, 0.999]])
    options = Options(tolerance=1e-3)
    row = wide_columns(blocks(matrix), Tree.build(names, Stub()), truth, options=options)[0].row(0, named=True)
    assert row["max_genus"] == row["max_species"] == 0.999 and row["top_genus"] == "B"
    other = truth.with_columns(genus=pl.lit("A"), species=pl.lit("A a0"))
    row = wide_columns(blocks(matrix), Tree.build(names, Stub()), other)[0].row(0, named=True)
    assert row["p_true_genus"] == pytest.approx(0.0003, abs=1e-15)


def test_tiny_probabilities_keep_their_order() -> None:
    """Scores of any scale stay apart: nothing is thresholded or rounded on the way."""
    names = ["A a0", "A a1", "B b0", "C c0"]
    matrix = np.array([[0.1, 0.4, 0.35, 0.8]]) * 1e-7
    truth = pl.DataFrame({"item_id": ["x"], "is_answerable": [True], "genus": ["A"], "species": ["A a1"]})
    for scale in (1.0, 1e7):
        row = wide_columns(blocks(matrix * scale), Tree.build(names, Stub()), truth, options=Options(normalise=True))[0]
        assert row["top_species"][0] == "C c0" and row["top_genus"][0] == "C"
        assert row["max_species"][0] == pytest.approx(0.8 / 1.65, rel=1e-12)
        assert row["p_true_genus"][0] == pytest.approx(0.5 / 1.65, rel=1e-12)


def problems_of(matrix: np.ndarray, **options: object) -> list:
    truth = make_truth(np.random.default_rng(0), len(matrix))
    with pytest.raises(DataError) as caught:
        wide_columns(blocks(matrix), Tree.build(SPECIES, Stub()), truth, options=Options(**options))  # type: ignore[arg-type]
    return caught.value.problems


@pytest.mark.parametrize(
    ("value", "code"), [(math.nan, "nan"), (math.inf, "infinite"), (-math.inf, "infinite"), (-0.2, "negative")]
)
def test_values_that_are_no_probabilities(value: float, code: str) -> None:
    matrix = np.full((30, len(SPECIES)), 1 / len(SPECIES))
    matrix[11, 3] = value
    problems = problems_of(matrix)
    assert [(p.code, p.record) for p in problems] == [(code, "item item11")]
    assert "'A a3'" in problems[0].found


def test_logits_are_refused_with_their_number() -> None:
    matrix = np.random.default_rng(1).random((100, len(SPECIES))) * 5
    problems = problems_of(matrix)
    assert len(problems) == 21 and problems[-1].found == "100 rows in all"
    assert problems[0].code == "row_sum" and "softmax" in problems[0].remedy


def test_sums_of_half_precision_have_more_room() -> None:
    matrix = np.full((3, len(SPECIES)), 1 / len(SPECIES)) * 1.005
    assert problems_of(matrix)[0].code == "row_sum"
    truth = make_truth(np.random.default_rng(0), 3)
    table, _ = wide_columns(blocks(matrix), Tree.build(SPECIES, Stub()), truth, options=Options(tolerance=1e-2))
    assert table.height == 3


def test_normalised_rows_equal_divided_ones() -> None:
    rng = np.random.default_rng(12)
    matrix, truth = rng.random((60, len(LABELS))), make_truth(rng, 60)
    tree = Tree.build(LABELS, Stub())
    divided, _ = wide_columns(blocks(matrix / matrix.sum(axis=1, keepdims=True)), tree, truth)
    found, notices = wide_columns(blocks(matrix), tree, truth, options=Options(normalise=True))
    assert {n.code: n.n for n in notices}["normalised_rows"] == 60
    for name in ("max_species", "max_genus", "entropy", "p_true_genus", "max_species_top_down"):
        assert found[name].to_numpy() == pytest.approx(divided[name].to_numpy(), abs=1e-14, nan_ok=True)
    assert found["top_genus"].equals(divided["top_genus"])
    assert problems_of(np.zeros((1, len(SPECIES))), normalise=True)[0].code == "zero_row"


def test_nan_rows_may_abstain() -> None:
    rng = np.random.default_rng(13)
    matrix, truth = make_matrix(rng, 20, SPECIES), make_truth(rng, 20)
    matrix[4, 0] = math.nan
    truth = truth.with_columns(
        is_answerable=pl.Series([i != 5 for i in range(20)]), species=pl.lit("A a0"), genus=pl.lit("A")
    )
    tree = Tree.build(SPECIES, Stub())
    table, notices = wide_columns(blocks(matrix), tree, truth, options=Options(nan="abstain"))
    row = table.row(4, named=True)
    nothing = (
        "max_species",
        "top_species",
        "max_genus",
        "top_genus",
        "entropy",
        "p_true_species",
        "max_species_top_down",
    )
    assert all(row[c] is None for c in nothing) and row["leaf_p"] == []
    assert row["species_right"] is False and row["genus_right"] is False
    assert {n.code: n.n for n in notices}["nan_rows"] == 1
    clean, _ = wide_columns(blocks(np.nan_to_num(matrix, nan=0.0)), tree, truth, options=Options(normalise=True))
    others = [i for i in range(20) if i != 4]
    assert table[others].select("top_species", "top_genus").equals(clean[others].select("top_species", "top_genus"))
    assert problems_of(np.where(np.isnan(matrix), -1.0, matrix), nan="abstain")[0].code == "negative"


def test_nothing_on_a_leaf_names_nothing() -> None:
    names = ["A a0", "B b0", "background"]
    truth = pl.DataFrame({"item_id": ["x"], "is_answerable": [True], "genus": ["A"], "species": ["A a0"]})
    table, notices = wide_columns(blocks(np.array([[0.0, 0.0, 1.0]])), Tree.build(names, Stub()), truth)
    row = table.row(0, named=True)
    assert (row["top_species"], row["species_right"], row["genus_right"], row["max_species"]) == (
        None,
        False,
        False,
        0.0,
    )
    assert row["leaf_right"] == [False]
    assert "no_leaf_probability" in {n.code for n in notices}


def test_flat_softmax_is_told() -> None:
    rng = np.random.default_rng(2)
    truth = make_truth(rng, 40)
    flat = np.full((40, len(SPECIES)), 1 / len(SPECIES)) + rng.uniform(-1e-3, 1e-3, (40, len(SPECIES)))
    tree = Tree.build(SPECIES, Stub())
    codes = {n.code for n in wide_columns(blocks(flat), tree, truth, options=Options(normalise=True))[1]}
    assert codes == {"flat_softmax"} | ({"normalised_rows"} & codes)
    sharp = make_matrix(rng, 40, SPECIES)
    assert "flat_softmax" not in {n.code for n in wide_columns(blocks(sharp), tree, truth)[1]}


def test_missing_rows_and_widths_are_told() -> None:
    truth = make_truth(np.random.default_rng(0), 3)
    tree = Tree.build(SPECIES, Stub())
    matrix = np.full((2, len(SPECIES)), 1 / len(SPECIES))
    with pytest.raises(DataError, match="item item2"):
        wide_columns(blocks(matrix), tree, truth)
    with pytest.raises(DataError, match="11 numbers"):
        wide_columns(blocks(matrix[:, :3]), tree, truth)
    assert wide_columns([], tree, truth.head(0))[0].height == 0


def test_trees_that_cannot_be() -> None:
    with pytest.raises(DataError, match="every label once"):
        Tree.build(["A a0", "A a0"], Stub())
    with pytest.raises(DataError, match="none a species"):
        Tree.build(["background"], Stub())
    with pytest.raises(DataError, match="no order"):
        Tree.build(["A a0"], Stub(), ranks=("order", "genus", "species"))


def test_one_species_only() -> None:
    truth = pl.DataFrame({"item_id": ["x"], "is_answerable": [True], "genus": ["C"], "species": ["C c0"]})
    row = wide_columns(blocks(np.ones((1, 1))), Tree.build(["C c0"], Stub()), truth)[0].row(0, named=True)
    assert (row["max_species"], row["max_genus"], row["leaf_info"], row["entropy"]) == (1.0, 1.0, [1.0], 0.0)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), grid=st.sampled_from([4, 1000]))
def test_the_two_ways_to_list_nodes_agree(seed: int, grid: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, rng.integers(1, 9))
    names = [f"{'ABCDEFGHI'[g]} s{j}" for g, n in enumerate(sizes) for j in range(n)]
    taxonomy = SimpleNamespace(
        genus_of={n: n[0] for n in names},
        resolve=lambda labels: pl.DataFrame({"taxon_id": labels, "rank": ["species"] * len(labels)}),
    )
    tree = Tree.build(names, taxonomy)
    leaves = rng.integers(0, grid, (6, len(names))).astype(float)
    sums, best = np.add.reduceat(leaves, tree.genus_start, axis=1), leaves.max(axis=1)
    one = fronts(sums, best, Levels.of(tree))
    n = np.tile(tree.genus_size, (6, 1))
    two = listed_fronts(sums, best, n, n.sum(axis=1))
    for name in ("length", "p", "info", "genus"):
        assert np.allclose(getattr(one, name), getattr(two, name), atol=1e-12), name


def test_best_in_runs() -> None:
    values = np.array([[1.0, 5, 5, 2], [0, 0, 0, 0]])
    column, top = best_in(values, np.array([0, 0, 1]), np.array([0, 2, 1]), np.array([3, 2, 3]))
    assert column.tolist() == [1, 2, 1] and top.tolist() == [5, 5, 0]
    allowed = np.array([[True, False, False, True], [False] * 4])
    column, top = best_in(values, np.array([0, 1]), np.array([0, 0]), np.array([4, 4]), allowed)
    assert column[0] == 3 and top.tolist() == [2, -1]


# Observations ---------------------------------------------------------------------------------------------------------


class Matrix:
    """Scores as a reader gives them: positions ascending, whatever the order asked for."""

    model = "m"

    def __init__(self, matrix: np.ndarray, labels: list[str]) -> None:
        self.matrix, self.labels, self.dtype = matrix, tuple(labels), str(matrix.dtype)

    def chunks(self, rows: np.ndarray | None = None, size: int = 5):
        wanted = np.arange(len(self.matrix)) if rows is None else np.unique(rows)
        for a in range(0, len(wanted), size):
            yield wanted[a : a + size], self.matrix[wanted[a : a + size]]


@pytest.mark.parametrize("waiting", [1, 10_000_000])
def test_observations_are_means(monkeypatch: pytest.MonkeyPatch, waiting: int) -> None:
    monkeypatch.setattr("birdlab.abstention.observations.WAITING_BYTES", waiting)
    rng = np.random.default_rng(21)
    matrix = make_matrix(rng, 60, SPECIES)
    of = rng.integers(0, 20, 60)
    species = [SPECIES[i] for i in rng.integers(0, len(SPECIES), 20)]
    items = pl.DataFrame(
        {
            "item_id": [f"i{i}" for i in range(60)],
            "observation_id": [None if i >= 55 else f"o{of[i]}" for i in range(60)],
            "is_answerable": True,
            "genus": [species[o].split()[0] for o in of],
            "species": [species[o] for o in of],
        }
    )
    order = rng.permutation(60)
    tree = Tree.build(SPECIES, Stub())
    found, notices = pooled(Matrix(matrix[order], SPECIES), tree, items, rows=np.argsort(order))
    names = [*dict.fromkeys(f"o{of[i]}" for i in range(55)), *(f"i{i}" for i in range(55, 60))]
    groups = [[i for i in range(55) if f"o{of[i]}" == n] or [int(n[1:])] for n in names]
    means = np.array([matrix[g].mean(axis=0) for g in groups])
    truth = pl.DataFrame(
        {
            "item_id": names,
            "is_answerable": True,
            "genus": [species[of[g[0]]].split()[0] for g in groups],
            "species": [species[of[g[0]]] for g in groups],
        }
    )
    wanted, _ = wide_columns(blocks(means), tree, truth)
    assert found["variant"].unique().to_list() == ["observation"]
    assert found["item_id"].to_list() == names
    assert found["max_genus"].to_numpy() == pytest.approx(wanted["max_genus"].to_numpy(), abs=1e-14)
    assert found["top_species"].equals(wanted["top_species"])
    assert {n.code: n.n for n in notices}["pooled_observations"] == sum(len(g) > 1 for g in groups)


def test_observations_that_contradict_themselves() -> None:
    items = pl.DataFrame(
        {
            "item_id": ["a", "b", "c", "d", "e"],
            "observation_id": ["o", "o", "p", "p", "q"],
            "is_answerable": [True, True, True, False, True],
            "genus": ["A", "A", "A", "A", "B"],
            "species": ["A a0", "A a1", "A a0", None, "B b0"],
        }
    )
    with pytest.raises(DataError) as caught:
        observations(items)
    assert [p.record for p in caught.value.problems] == ["observation o", "observation p"]
    assert [p.key for p in caught.value.problems] == ["species", "is_answerable, species"]
    single = items.filter(pl.col("item_id").is_in(["a", "e"]))
    empty, notices = pooled(Matrix(np.ones((2, 11)) / 11, SPECIES), Tree.build(SPECIES, Stub()), single)
    assert empty.height == 0 and notices[0].code == "no_observations"


# Top-k ----------------------------------------------------------------------------------------------------------------


def topk(matrix: np.ndarray, k: int) -> SimpleNamespace:
    rows = [
        (f"item{i}", SPECIES[j], float(p[j])) for i, p in enumerate(matrix) for j in np.argsort(-p, kind="stable")[:k]
    ]
    return SimpleNamespace(
        model="m", frame=pl.DataFrame(rows, schema=["item_id", "label", "probability"], orient="row")
    )


def test_topk_bounds_hold_the_full_vector() -> None:
    rng = np.random.default_rng(31)
    matrix, truth = make_matrix(rng, 200, SPECIES), make_truth(rng, 200)
    tree = Tree.build(SPECIES, Stub())
    full, _ = wide_columns(blocks(matrix), tree, truth)
    part, notices = topk_columns(topk(matrix, 3), tree, truth)
    assert part["missing_mass"].to_numpy() == pytest.approx(1 - np.sort(matrix)[:, -3:].sum(axis=1), abs=1e-12)
    assert (part["max_genus"] <= full["max_genus"] + 1e-12).all()
    assert (part["max_genus_hi"] >= full["max_genus"] - 1e-12).all()
    assert part["top_species"].equals(full["top_species"]) and part["max_species"].equals(full["max_species"])
    sure = part["top_genus_certain"]
    assert part.filter(sure)["top_genus"].equals(full.filter(sure)["top_genus"]) and 0 < sure.sum() < 200
    assert part["entropy"].null_count() == 200
    assert "missing_mass" in {n.code for n in notices}
    both = part["p_true_species"].is_not_null()
    assert part.filter(both)["p_true_species"].equals(full.filter(both)["p_true_species"])
    known = part["within_genus_right"].is_not_null()
    assert part.filter(known)["within_genus_right"].equals(full.filter(known)["within_genus_right"])


def test_topk_of_everything_is_the_full_matrix() -> None:
    rng = np.random.default_rng(32)
    matrix, truth = make_matrix(rng, 50, SPECIES), make_truth(rng, 50)
    tree = Tree.build(SPECIES, Stub())
    full, _ = wide_columns(blocks(matrix), tree, truth, model="m")
    part, _ = topk_columns(topk(matrix, len(SPECIES)), tree, truth)
    same = [c for c in full.columns if c != "missing_mass"]
    assert part.select(same).equals(full.select(same)) and part["missing_mass"].max() < 1e-12


def test_topk_scenarios() -> None:
    truth = pl.DataFrame({"item_id": ["item0", "item1"], "is_answerable": True, "genus": "A", "species": "A a0"})
    rows = [("item0", "A a0", 0.6), ("item0", "B b0", 0.3), ("item1", "A a0", 0.4), ("item1", "B b0", 0.3)]
    lists = SimpleNamespace(
        model="m", frame=pl.DataFrame(rows, schema=["item_id", "label", "probability"], orient="row")
    )
    columns, _ = topk_columns(lists, Tree.build(SPECIES, Stub()), truth)
    assert columns["top_genus_certain"].to_list() == [True, False]
    best, worst = missing_to(columns, "for"), missing_to(columns, "against")
    assert best["max_genus"].to_list() == pytest.approx([0.7, 0.7]) and best["genus_right"].to_list() == [True, True]
    assert worst["max_genus"].to_list() == pytest.approx([0.6, 0.6]) and worst["genus_right"].to_list() == [True, False]
    assert worst["top_genus"].to_list() == ["A", None]


def test_topk_of_an_unknown_vocabulary_counts_nothing() -> None:
    rng = np.random.default_rng(33)
    matrix, truth = make_matrix(rng, 20, SPECIES), make_truth(rng, 20)
    lists = topk(matrix, 3)
    columns, _ = topk_columns(lists, Tree.build(SPECIES, Stub()), truth, whole_vocabulary=False)
    for name in ("n_species", "top_genus_n", "leaf_p", "is_missing_species"):
        assert columns[name].null_count() == 20
    assert chance(columns, "species").value is None and chance(columns, "within_genus").value is None
    assert columns["max_species"].null_count() == 0


def test_topk_is_refused_above_the_limit() -> None:
    assert refuse_topk(0.05) is None
    assert "32.0 %" in str(refuse_topk(0.32))
    tree, truth = Tree.build(SPECIES, Stub()), make_truth(np.random.default_rng(0), 1)
    over = SimpleNamespace(
        model="m", frame=pl.DataFrame({"item_id": ["item0"] * 2, "label": SPECIES[:2], "probability": 0.6})
    )
    with pytest.raises(DataError, match="at most 1"):
        topk_columns(over, tree, truth)
    with pytest.raises(ParameterError, match="range_map"):
        topk_columns(over, tree, truth, options=Options(range_map=True))


# Chance ---------------------------------------------------------------------------------------------------------------


def test_chance() -> None:
    truth = pl.DataFrame(
        {
            "item_id": ["a", "b", "c", "d", "e"],
            "is_answerable": [True, True, True, False, True],
            "genus": ["A", "D", "C", "B", "G"],
            "species": ["A a0", "D d1", "C c0", None, "G g0"],
        }
    )
    columns, _ = wide_columns(blocks(np.full((5, 11), 1 / 11)), Tree.build(SPECIES, Stub()), truth)
    species, genus, within = (chance(columns, level) for level in ("species", "genus", "within_genus"))
    assert (species.value, species.n, species.n_apart) == (pytest.approx(1 / 11), 4, 1)
    assert (genus.value, genus.n, genus.n_apart) == (pytest.approx(1 / 5), 5, 1)
    assert (within.value, within.n, within.n_apart) == (pytest.approx((1 / 4 + 1 / 3) / 2), 2, 1)
    assert chance(columns.head(0), "species").reason is not None


# From files -----------------------------------------------------------------------------------------------------------


def test_from_files_to_all_variants(tmp_path) -> None:
    taxonomy = Taxonomy.from_names([*SPECIES, "A missing", "G g0"])
    rng = np.random.default_rng(41)
    n = 90
    matrix, truth = make_matrix(rng, n, LABELS, "float16"), make_truth(rng, n)
    order = rng.permutation(n)
    np.save(tmp_path / "m.npy", matrix[order])
    (tmp_path / "m.ids.txt").write_text("\n".join(f"item{i}" for i in order))
    # "A" is a genus and "A a1 (again)" the same species for this taxonomy, too.
    (tmp_path / "m.labels.txt").write_text("\n".join(LABELS))
    items = truth.with_columns(
        observation_id=pl.when(pl.int_range(n) < 2).then(pl.lit("o")),
        candidates=pl.Series([["A a0", "A a1", "B b0"]] * n),
        species=pl.when(pl.int_range(n) < 2).then(pl.lit("A a0")).otherwise("species"),
        genus=pl.when(pl.int_range(n) < 2).then(pl.lit("A")).otherwise("genus"),
        is_answerable=pl.col("is_answerable") | (pl.int_range(n) < 2),
    )
    scores = read_scores(tmp_path / "m.npy", model="m")[0]
    table, notices = score_columns(scores, items, taxonomy, options=Options(range_map=True), observation=True)
    assert table["variant"].value_counts(sort=True).rows() == [("plain", n), ("range_map", n), ("observation", n - 1)]
    for i, found in enumerate(table.head(n).iter_rows(named=True)):
        assert found["item_id"] == f"item{i}"
        wanted = reference(matrix[i].astype("float64"), LABELS, items.row(i, named=True))
        assert found["max_genus"] == pytest.approx(wanted["max_genus"], abs=1e-6)
        assert found["top_genus"] == wanted["top_genus"]
    codes = [x.code for x in notices]
    assert len(codes) == len(set(codes)) and {"merged_labels", "pooled_observations"} <= set(codes)
    np.save(tmp_path / "m.npy", 2 * matrix[order])
    with pytest.raises(DataError, match=r"m\.npy, item item0, scores: found a sum of"):
        score_columns(read_scores(tmp_path / "m.npy", model="m")[0], items.reverse(), taxonomy)
    with pytest.raises(DataError, match="no scores for 1 of 91 items"):
        more = pl.concat([items, items.head(1).with_columns(item_id=pl.lit("new"))])
        score_columns(scores, more, taxonomy)


@pytest.mark.parametrize("info", ["depth", "leaf"])
@pytest.mark.parametrize("path", ["independent", "top_down"])
def test_columns_are_what_the_curves_read(info: str, path: str) -> None:
    """The two images of the leaf fixture: one in a genus of one species, one in a genus of two (S = 4)."""
    names = ["A a0", "A a1", "B b0", "C c0"]
    matrix = np.array([[0.05, 0.0, 0.05, 0.9], [0.3, 0.3, 0.2, 0.2]])
    truth = pl.DataFrame(
        {"item_id": ["x", "y"], "is_answerable": True, "genus": ["C", "A"], "species": ["C c0", "A a1"]}
    )
    table, _ = wide_columns(blocks(matrix), Tree.build(names, Stub()), truth)
    for ua in ("exclude", "genus_ok", "overspecific_wrong", "truncate"):
        curve = ig_curve(ig_events(table, Conventions(info=info, path=path, ua=ua)))
        assert curve.area == pytest.approx(0.9375, abs=1e-12)
