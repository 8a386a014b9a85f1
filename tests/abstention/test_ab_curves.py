"""The three curves: fixtures by hand, brute force from probability vectors, scikit-learn, what must always hold."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction as F
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import auc, roc_auc_score, roc_curve

from birdlab.abstention import conventions as choices
from birdlab.abstention.calibration import NO_SPECIES, calibration, calibrations, coverage_at_risk
from birdlab.abstention.conventions import Conventions
from birdlab.abstention.curves import ig_curve, thin, ua_a, ua_a_point
from birdlab.abstention.events import Events, ig_events
from birdlab.abstention.sweep import SWEEP_SCHEMA, conventions_sweep
from birdlab.abstention.uncertainty import uncertainty, uncertainty_reason
from birdlab.errors import DataError, ParameterError

COMBINATIONS = list(
    itertools.product(*(get_args(c) for c in (choices.Info, choices.Path_, choices.Decision, choices.Unanswerable)))
)
#: Genera and families of the made taxonomy: one genus of one species, sizes that differ.
GENERA = {"Aa": ["Aa a"], "Bb": ["Bb a", "Bb b"], "Cc": ["Cc a", "Cc b", "Cc c", "Cc d"], "Dd": ["Dd a", "Dd b"]}
FAMILIES = {"Fam": ["Aa", "Bb"], "Gam": ["Cc", "Dd"]}
SPECIES = [s for names in GENERA.values() for s in names]
S = len(SPECIES)
THREE = ("family", "genus", "species")


def table(**columns: list[Any]) -> pl.DataFrame:
    """Per-image columns of answerable images, as far as they matter."""
    n = len(columns["max_genus"])
    given = {"is_answerable": [True] * n, "genus": ["Aa"] * n, "top_species": ["Aa a"] * n, **columns}
    return pl.DataFrame(given)


# --- a brute force that knows only probability vectors and definitions ------------------------------------------------


def leaves(node: str) -> list[str]:
    """Species under a node."""
    if node in FAMILIES:
        return [s for g in FAMILIES[node] for s in GENERA[g]]
    return GENERA.get(node, [node])


def rank_of(node: str) -> str:
    return "family" if node in FAMILIES else "genus" if node in GENERA else "species"


def family_of(genus: str) -> str | None:
    return next((f for f, members in FAMILIES.items() if genus in members), None)


def made(seed: int, n: int) -> list[dict[str, Any]]:
    """Images with a probability vector of small fractions (heavy ties, zeros, certainty) and a truth."""
    rng = np.random.default_rng(seed)
    images = []
    for _ in range(n):
        support = rng.permutation(S)[: rng.integers(1, S + 1)]
        counts = np.zeros(S, dtype=int)
        np.add.at(counts, rng.choice(support, 12), 1)
        genus = str(rng.choice([*GENERA, "Ee"]))
        species = str(rng.choice([*GENERA.get(genus, []), f"{genus} z"]))
        answerable = bool(rng.random() < 0.6)
        p = {s: F(int(c), 12) for s, c in zip(SPECIES, counts, strict=True)}
        images.append({"p": p, "genus": genus, "species": species if answerable else None, "answerable": answerable})
    return images


def mass(image: dict[str, Any], node: str) -> F:
    return sum((image["p"][s] for s in leaves(node)), F(0))


def information(node: str, info: str, ranks: tuple[str, ...]) -> float:
    if info == "depth":
        return (ranks.index(rank_of(node)) + 1) / len(ranks)
    return (math.log2(S) - math.log2(len(leaves(node)))) / math.log2(S)


def judge(image: dict[str, Any], node: str | None, info: str, ua: str, ranks: tuple[str, ...]) -> tuple[float, float]:
    """(information, correctness) of saying a node; ``None`` is the root."""
    if node is None:
        return 0.0, 1.0
    value, rank, genus = information(node, info, ranks), rank_of(node), image["genus"]
    if rank == "genus" and info == "leaf" and len(leaves(node)) == 1 and not image["answerable"]:
        rank, node = "species", leaves(node)[0]  # by information a genus of one species is its species
    if rank == "family":
        right = node == family_of(genus)
    elif rank == "genus":
        right = node == genus
    elif image["answerable"]:
        right = node == image["species"]
    else:
        right = ua != "overspecific_wrong" and node.split()[0] == genus
    if not image["answerable"] and ua == "truncate":
        cap = (len(ranks) - 1) / len(ranks) if info == "depth" else information(genus, "leaf", ranks)
        value = min(value, cap)
    return value, float(right)


def best(image: dict[str, Any], nodes: list[str]) -> str:
    return max(sorted(nodes), key=lambda node: mass(image, node))


def candidates(image: dict[str, Any], path: str, info: str, ranks: tuple[str, ...]) -> list[str]:
    """Nodes that may be said, most informative first; ties by probability, species before genus, then by name."""
    everything = [*(FAMILIES if "family" in ranks else []), *GENERA, *SPECIES]
    if path == "top_down":
        genus = best(image, list(GENERA))
        everything = [best(image, list(FAMILIES))] if "family" in ranks else []
        everything += [genus, best(image, GENERA[genus])]
    key = lambda v: (-information(v, info, ranks), -mass(image, v), rank_of(v) != "species", v)  # noqa: E731
    return sorted(everything, key=key)


def area(states: list[list[tuple[float, float]]]) -> float:
    """Trapezoid through (0, 1) and the mean of the states, one list of states per threshold."""
    points = [(0.0, 1.0)] + [tuple(np.mean(state, axis=0)) for state in states]
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(points))


def lambdas(images: list[dict[str, Any]], lines: list[np.ndarray], lowest: float) -> list[float]:
    """One lambda inside every interval between breakpoints of any two nodes of any image, falling."""
    found = set()
    for line in lines:
        for (r, p), (q, o) in itertools.combinations([tuple(v) for v in line], 2):
            if p != o:
                found.add(round((q * o - r * p) / (p - o), 9))
    inside = sorted((b for b in found if b >= lowest), reverse=True)
    below = max((b for b in found if b < lowest), default=-1.0)
    ends = [inside[0] + 2.0, *inside, max(below, -1.0)]
    return [ends[0]] + [(a + b) / 2 for a, b in itertools.pairwise(ends[1:]) if (a + b) / 2 > -1.0]


def brute(images: list[dict[str, Any]], info: str, path: str, decision: str, ua: str, ranks: tuple[str, ...]) -> float:
    """IG by its definition: every threshold, every image, every node."""
    if ua == "exclude":
        images = [i for i in images if i["answerable"]]
    options = [candidates(i, path, info, ranks) for i in images]
    states = []
    if decision == "threshold":
        for t in sorted({mass(i, v) for i, nodes in zip(images, options, strict=True) for v in nodes}, reverse=True):
            said = [next((v for v in o if mass(i, v) >= t), None) for i, o in zip(images, options, strict=True)]
            states.append([judge(i, v, info, ua, ranks) for i, v in zip(images, said, strict=True)])
        return area(states)
    lines = [
        np.array([[information(v, info, ranks), float(mass(i, v))] for v in o] + [[0.0, 1.0]])
        for i, o in zip(images, options, strict=True)
    ]
    judged = [[*(judge(i, v, info, ua, ranks) for v in o), (0.0, 1.0)] for i, o in zip(images, options, strict=True)]
    for lam in lambdas(images, lines, 0.0 if decision == "darts" else -1.0):
        worth = [(line[:, 0] + lam) * line[:, 1] for line in lines]
        states.append(
            [j[int(np.argmax(np.where(w >= w.max() - 1e-12, 1, 0)))] for j, w in zip(judged, worth, strict=True)]
        )
    return area(states)


def as_columns(images: list[dict[str, Any]]) -> pl.DataFrame:
    """The per-image columns of these images."""
    rows = []
    for number, image in enumerate(images):
        species, genus, family = (best(image, list(nodes)) for nodes in (SPECIES, GENERA, FAMILIES))
        inside, known = best(image, GENERA[genus]), image["answerable"]
        pareto: list[str] = []
        everything = [*GENERA, *SPECIES]
        order = lambda v: (-mass(image, v), -information(v, "leaf", ()), rank_of(v) != "species", v)  # noqa: E731, B023
        for v in sorted(everything, key=order):
            if not pareto or information(v, "leaf", ()) > information(pareto[-1], "leaf", ()):
                pareto.append(v)
        truth = {"species": image["species"], "genus": image["genus"], "family": family_of(image["genus"])}
        rows.append(
            {
                "item_id": f"i{number}", "is_answerable": known, "genus": image["genus"],
                "max_species": float(mass(image, species)), "top_species": species,
                "species_right": species == image["species"] if known else None,
                "max_species_top_down": float(mass(image, inside)),
                "species_right_top_down": inside == image["species"] if known else None,
                "max_genus": float(mass(image, genus)), "genus_right": genus == image["genus"],
                "max_family": float(mass(image, family)), "family_right": family == truth["family"],
                "top_genus_n": len(GENERA[genus]), "within_genus_n": len(GENERA.get(image["genus"], [])), "n_species": S,
                "leaf_p": [float(mass(image, v)) for v in pareto],
                "leaf_info": [information(v, "leaf", ()) for v in pareto],
                "leaf_right": [None if rank_of(v) == "species" and not known else v == truth[rank_of(v)] for v in pareto],
            }
        )  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


@pytest.mark.parametrize(("info", "path", "decision", "ua"), COMBINATIONS)
def test_ig_equals_brute_force_for_every_convention(info: str, path: str, decision: str, ua: str) -> None:
    """Every combination on images with heavy ties, zeros, certainty, genera of one and genera without a leaf."""
    for seed, n in ((1, 24), (2, 9), (3, 2)):
        images = made(seed, n)
        columns = as_columns(images)
        fast = ig_curve(ig_events(columns, Conventions(info=info, path=path, decision=decision, ua=ua)))
        assert fast.area == pytest.approx(brute(images, info, path, decision, ua, ("genus", "species")), abs=1e-12)
        counted = columns.height if ua != "exclude" else int(columns["is_answerable"].sum())
        assert fast.n == counted and fast.n_ua == counted - int(columns["is_answerable"].sum())


@pytest.mark.parametrize(("info", "path", "decision", "ua"), [c for c in COMBINATIONS if c[0] == "depth"])
def test_ig_with_families_equals_brute_force(info: str, path: str, decision: str, ua: str) -> None:
    images = made(5, 20)
    options = Conventions(info=info, path=path, decision=decision, ua=ua)
    curve = ig_curve(ig_events(as_columns(images), options, ranks=THREE))
    assert curve.area == pytest.approx(brute(images, info, path, decision, ua, THREE), abs=1e-12)
    assert curve.method.endswith("ranks=family+genus+species")


def test_every_threshold_is_a_point_and_no_more() -> None:
    columns = as_columns(made(4, 40)).filter("is_answerable")
    curve = ig_curve(ig_events(columns))
    assert len(set(curve.threshold)) == len(curve.threshold)
    both = set(columns["max_species"]) | set(columns.filter(pl.col("max_genus") > pl.col("max_species"))["max_genus"])
    assert set(curve.threshold[1:]) == both and curve.threshold[0] == math.inf


# --- fixtures of the notes ---

IG_FIXTURES = {
    "two images": ([0.9, 0.6], [0.8, 0.3], [1, 1], [1, 0], [0, 0.25, 0.5, 0.75, 1], [1, 1, 1, 1, 0.5], F(15, 16)),
    "all right": ([0.9, 0.7], [0.8, 0.3], [1, 1], [1, 1], [0, 0.25, 0.5, 0.75, 1], [1, 1, 1, 1, 1], F(1)),
    "all wrong, levels apart": ([0.9, 0.8], [0.3, 0.2], [0, 0], [0, 0], [0, 0.25, 0.5, 0.75, 1], [1, 0.5, 0, 0, 0], F(1, 4)),
    "all wrong, images apart": ([0.9, 0.6], [0.8, 0.3], [0, 0], [0, 0], [0, 0.25, 0.5, 0.75, 1], [1, 0.5, 0.5, 0, 0], F(3, 8)),
    "genera of one, tied": ([0.5, 0.5], [0.5, 0.5], [1, 0], [1, 0], [0, 1], [1, 0.5], F(3, 4)),
    "species right, genus wrong": ([0.5, 0.9], [0.4, 0.8], [0, 1], [1, 1], [0, 0.25, 0.5, 0.75, 1], [1, 1, 1, 0.5, 1], F(7, 8)),
}  # fmt: skip


@pytest.mark.parametrize("name", IG_FIXTURES)
def test_ig_fixtures(name: str) -> None:
    genus, species, genus_right, species_right, x, y, expected = IG_FIXTURES[name]
    columns = table(
        max_genus=genus,
        max_species=species,
        genus_right=[bool(v) for v in genus_right],
        species_right=[bool(v) for v in species_right],
    )
    curve = ig_curve(ig_events(columns))
    assert (curve.x.tolist(), curve.y.tolist(), curve.area) == (x, y, float(expected))


def test_ig_leaf_fixture() -> None:
    """Four species; image 1 in a genus of one (m = M = .9), image 2 in a genus of two."""
    columns = table(max_genus=[0.9, 0.6], max_species=[0.9, 0.3], genus_right=[True, True]).with_columns(
        species_right=pl.Series([True, False]),
        max_species_top_down=pl.Series([0.9, 0.3]),
        species_right_top_down=pl.Series([True, False]),
        top_genus_n=pl.Series([1, 2]),
        n_species=pl.lit(4),
        leaf_p=pl.Series([[0.9], [0.6, 0.3]]),
        leaf_info=pl.Series([[1.0], [0.5, 1.0]]),
        leaf_right=pl.Series([[True], [True, False]]),
    )
    for path in ("independent", "top_down"):
        curve = ig_curve(ig_events(columns, Conventions(info="leaf", path=path)))
        assert curve.x.tolist() == [0, 0.5, 0.75, 1] and curve.y.tolist() == [1, 1, 1, 0.5]
        assert curve.area == float(F(15, 16))


@pytest.mark.parametrize(
    ("a", "ua", "expected"),
    [([0.1, 0.2], [0.8, 0.9], F(1)), ([0.8, 0.9], [0.1, 0.2], F(0)), ([0.5, 0.5], [0.5, 0.5], F(1, 2)), ([1, 0, 0, 0], [1, 0], F(5, 8))],
)  # fmt: skip
def test_ua_a_fixtures(a: list[float], ua: list[float], expected: F) -> None:
    answerable = [True] * len(a) + [False] * len(ua)
    assert ua_a(a + ua, answerable).area == float(expected)


def test_single_point() -> None:
    point = ua_a_point([True, False, False, False, True, False], [True] * 4 + [False] * 2)
    assert (point.x.tolist(), point.y.tolist(), point.area) == ([0.25], [0.5], float(F(5, 8)))
    assert point.method == "single point"
    assert ua_a_point([True], [True]).reason == "no unanswerable photograph"


@pytest.mark.parametrize(("rule", "expected"), [("mean", F(19, 24)), ("trapz", F(29, 36)), ("trapz_left", F(41, 48))])
def test_calibration_fixture(rule: str, expected: F) -> None:
    curve = calibration([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0], rule=rule)
    assert curve.area == pytest.approx(float(expected), abs=1e-15)
    assert curve.augrc == 0.125 and curve.aurc == pytest.approx(5 / 24, abs=1e-15)
    assert curve.y.tolist() == [1, 1, 2 / 3, 0.5] and curve.x.tolist() == [0.25, 0.5, 0.75, 1]


def test_calibration_ties() -> None:
    for order in itertools.permutations([1, 1, 0, 0]):
        assert calibration([0.5] * 4, order).area == 0.5
    for right in ([1, 1, 0, 0], [1, 0, 1, 0]):
        assert calibration([0.1, 0.5, 0.5, 0.9], right).area == pytest.approx(float(F(35, 48)), abs=1e-15)


def test_public_complaints() -> None:
    """Values that other tools once got wrong."""
    first_wrong = calibration([1 - c for c in (0.95, 0.9, 0.85, 0.8, 0.75)], [0, 1, 1, 1, 1])
    assert coverage_at_risk(first_wrong, 0.3) == 1.0 and coverage_at_risk(first_wrong, 0.1) is None
    one_class = ua_a([0.1, 0.2], [True, True])
    assert one_class.area is None and one_class.reason == "no unanswerable photograph" and not len(one_class.x)
    score, answerable = np.array([0.1, 0.4, 0.35, 0.8]), [True, True, False, False]
    for scale in (1, 1e-7, 1e-300, 1e300):
        assert ua_a(score * scale, answerable).area == 0.75
    logits = 98.095 + np.array([0.0004, 0.0, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006])
    assert ua_a(logits, [True] + [False] * 7).area == float(F(6, 7))
    assert calibration([0.9, 0.8, 0.2, 0.1], [0, 0, 1, 1]).area == pytest.approx(0.7916667, abs=1e-7)
    perfect = as_columns(made(1, 30)).with_columns(
        is_answerable=pl.int_range(30) < 20, max_species=pl.when(pl.int_range(30) < 20).then(0.9).otherwise(0.1)
    )
    assert ua_a(uncertainty(perfect), perfect["is_answerable"]).area == 1.0


# --- UA/A ---


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_ua_a_equals_scikit_learn_and_brute_force(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for n, levels in ((400, 8), (300, 100_000), (3, 2)):
        p = (rng.integers(0, levels, n) / levels).astype(dtype)
        answerable = np.append([True, False], rng.random(n - 2) < 0.7)
        u = uncertainty(pl.DataFrame({"max_species": p.astype(np.float64)}))
        curve = ua_a(u, answerable)
        assert curve.area == pytest.approx(roc_auc_score(~answerable, -p.astype(np.float64)), abs=1e-12)
        pairs = [F(int(b > a) * 2 + int(b == a), 2) for a in u[answerable] for b in u[~answerable]]
        assert curve.area == float(sum(pairs) / len(pairs))
        fpr, tpr, _ = roc_curve(~answerable, u, drop_intermediate=False)
        assert np.array_equal(curve.x, fpr) and np.array_equal(curve.y, tpr)
        assert auc(curve.x, curve.y) == pytest.approx(curve.area, abs=1e-12)


def test_inverted_constant_and_reversed() -> None:
    rng = np.random.default_rng(5)
    u, answerable = rng.integers(0, 9, 100), rng.random(100) < 0.5
    assert ua_a(-u, answerable).area == pytest.approx(1 - ua_a(u, answerable).area, abs=1e-15)
    assert ua_a(np.full(100, np.inf), answerable).area == 0.5
    assert ua_a(answerable, answerable).area == 0.0 and ua_a(~answerable, answerable).area == 1.0


@pytest.mark.parametrize("answerable", [[], [True] * 3, [False] * 3])
def test_one_kind_is_undefined(answerable: list[bool]) -> None:
    curve = ua_a([0.1] * len(answerable), answerable)
    assert curve.area is None and curve.reason and curve.n == len(answerable)


# --- IG: cases --------------------------------------------------------------------------------------------------------


def test_model_that_says_nothing_has_no_gain() -> None:
    columns = table(
        max_genus=[None, None], max_species=[None, None], genus_right=[False] * 2, species_right=[False] * 2
    )
    columns = columns.cast({"max_genus": pl.Float64, "max_species": pl.Float64})
    for decision in get_args(choices.Decision):
        curve = ig_curve(ig_events(columns, Conventions(decision=decision)))
        assert (curve.x.tolist(), curve.y.tolist(), curve.area, curve.n) == ([0.0], [1.0], 0.0, 2)


def test_answers_give_species_or_genus_or_nothing() -> None:
    """Right species, right genus only, nothing: x ends at (1 + .5) / 3 and nothing is extrapolated."""
    columns = table(
        max_genus=[1.0, 1.0, None], max_species=[1.0, None, None], genus_right=[True, True, None], species_right=[True, False, False]
    )  # fmt: skip
    curve = ig_curve(ig_events(columns))
    assert curve.x.tolist() == [0, 0.5] and curve.y.tolist() == [1, 1] and curve.area == 0.5


def test_a_genus_of_one_named_as_genus_is_no_species() -> None:
    """Leaf information 1 without a species named: right about an unanswerable photograph of that genus."""
    columns = table(
        max_genus=[1.0, None], max_species=[None, None], genus_right=[True, False], species_right=[None, None]
    )
    columns = columns.with_columns(
        is_answerable=pl.lit(False),
        top_species=pl.lit(None, pl.String),
        leaf_p=pl.Series([[1.0], []]),
        leaf_info=pl.Series([[1.0], []]),
        leaf_right=pl.Series([[True], []]),
    )
    for ua in ("genus_ok", "overspecific_wrong"):
        curve = ig_curve(ig_events(columns, Conventions(info="leaf", ua=ua)))
        assert curve.x.tolist() == [0, 0.5] and curve.y.tolist() == [1, 1]
    nothing = columns.filter(pl.col("max_genus").is_null()).with_columns(leaf_p=None, leaf_info=None, leaf_right=None)
    assert ig_curve(ig_events(nothing, Conventions(info="leaf", ua="genus_ok"))).area == 0.0


def test_a_genus_without_leaves_has_no_leaf_information() -> None:
    columns = table(max_genus=[0.5], max_species=[None], genus_right=[True], species_right=[False]).with_columns(
        max_species_top_down=pl.lit(None, pl.Float64),
        species_right_top_down=False,
        top_genus_n=pl.lit(0),
        n_species=pl.lit(8),
    )
    assert len(ig_events(columns, Conventions(info="leaf", path="top_down")).score) == 0
    assert ig_events(columns, Conventions(path="top_down")).d_info.tolist() == [0.5]


def test_truncating_is_not_seen_by_the_decision() -> None:
    """DARTS chooses alike for answerable and unanswerable photographs: only what counts is cut."""
    columns = table(max_genus=[0.75, 0.75], max_species=[0.5, 0.5], genus_right=[True] * 2, species_right=[True, None])
    columns = columns.with_columns(is_answerable=pl.Series([True, False]))
    events = ig_events(columns, Conventions(decision="darts", ua="truncate"))
    assert events.score.tolist() == [1.5, 1.5, 0.5] and sorted(events.item.tolist()) == [0, 0, 1]
    assert ig_curve(events).x.tolist() == [0, 0.5, 0.75]


def test_never_abstaining_wrong_answers() -> None:
    columns = table(max_genus=[1.0] * 4, max_species=[1.0] * 4, genus_right=[True] * 4, species_right=[False] * 4)
    curve = ig_curve(ig_events(columns))
    assert curve.x.tolist() == [0, 1] and curve.y.tolist() == [1, 0] and curve.area == 0.5


def test_no_answerable_image() -> None:
    columns = as_columns(made(1, 20)).filter(~pl.col("is_answerable"))
    curve = ig_curve(ig_events(columns))
    assert curve.area is None and curve.reason == "no image is counted"
    assert ig_curve(ig_events(columns, Conventions(ua="truncate"))).x[-1] == 0.5
    assert ig_curve(ig_events(columns, Conventions(ua="overspecific_wrong"))).y[-1] == 0.0
    assert calibrations(columns)["A-species"].reason == "no answerable photograph"


def test_darts_breakpoints() -> None:
    """M = 3/4, m = 1/2: genus at .5 M / (1 - M) = 3/2, species at (m - .5 M) / (M - m) = 1/2; M = m = 7/8: at 7."""
    columns = table(max_genus=[0.75, 0.875], max_species=[0.5, 0.875], genus_right=[True] * 2, species_right=[True] * 2)
    events = ig_events(columns, Conventions(decision="darts"))
    assert events.score.tolist() == [7.0, 1.5, 0.5] and events.item.tolist() == [1, 0, 0]
    assert events.d_info.tolist() == [1.0, 0.5, 0.5]


def test_darts_stops_at_nought_and_passes_over_a_genus() -> None:
    """M = .9, m = .1: species only below nought; M = .9, m = .875: species before the genus is ever best."""
    columns = table(
        max_genus=[0.9, 0.9, 1.0], max_species=[0.1, 0.875, 1.0], genus_right=[True] * 3, species_right=[False] * 3
    )
    stopped, every = (ig_events(columns, Conventions(decision=d)) for d in ("darts", "darts_all"))
    assert stopped.item.tolist() == [2, 1, 0] and stopped.d_info.tolist() == [1.0, 1.0, 0.5]
    assert stopped.score[0] == math.inf and stopped.score[1] == 7.0 and stopped.score[2] == pytest.approx(4.5)
    assert every.item.tolist() == [2, 1, 0, 0] and every.score[3] == pytest.approx(-0.35 / 0.8)
    assert ig_curve(stopped).x[-1] == pytest.approx(2.5 / 3) and ig_curve(every).x[-1] == 1.0


def test_events_name_their_rows() -> None:
    columns = as_columns(made(8, 30))
    events = ig_events(columns)
    assert events.rows.tolist() == np.flatnonzero(columns["is_answerable"].to_numpy()).tolist()
    assert events.item.max() < events.n == len(events.rows) and events.n_ua == 0
    assert ig_events(columns, Conventions(ua="genus_ok")).n_ua == int((~columns["is_answerable"]).sum())
    assert np.all(np.diff(events.score) <= 0)


def test_columns_that_do_not_fit_are_refused() -> None:
    columns = as_columns(made(8, 10))
    with pytest.raises(DataError, match="no column max_species_top_down"):
        ig_events(columns.drop("max_species_top_down"), Conventions(path="top_down"))
    with pytest.raises(DataError, match="no list of nodes"):
        ig_events(columns.with_columns(leaf_p=None), Conventions(info="leaf"))
    with pytest.raises(DataError, match="one model"):
        ig_events(columns.with_columns(model=pl.Series(["a", "b"] * 5)))
    with pytest.raises(DataError, match="inside the best of higher ranks"):
        ig_events(columns, Conventions(info="leaf", path="top_down"), ranks=THREE)
    with pytest.raises(DataError, match="not known for every image"):
        ig_events(columns.with_columns(top_genus_n=None), Conventions(info="leaf", path="top_down"))
    with pytest.raises(DataError, match="differ in length"):
        ig_events(columns.with_columns(leaf_info=pl.lit([0.5], pl.List(pl.Float64))), Conventions(info="leaf"))
    with pytest.raises(ParameterError, match="coarse to fine"):
        ig_events(columns, ranks=("species", "genus"))


# --- uncertainty ------------------------------------------------------------------------------------------------------


def test_uncertainty_kinds() -> None:
    columns = pl.DataFrame(
        {
            "max_species": [0.5, 0.25],
            "max_genus": [0.75, 0.5],
            "entropy": [0.7, 1.2],
            "stated": [0.75, None],
            "abstained": [False, True],
        }
    )
    expected = {
        "1-maxprob": [0.5, 0.75],
        "entropy": [0.7, 1.2],
        "1-genusmax": [0.25, 0.5],
        "1-within_genus": [pytest.approx(1 / 3), 0.5],
        "stated": [0.25, math.inf],
        "binary": [0.0, 1.0],
    }
    assert set(expected) == set(get_args(choices.Uncertainty))
    for kind, values in expected.items():
        assert uncertainty(columns, kind).tolist() == values
    assert uncertainty_reason(columns.drop("stated"), "stated") == "no column stated"
    assert uncertainty_reason(columns.with_columns(entropy=None), "entropy") == "entropy is empty"
    with pytest.raises(DataError, match="no column abstained"):
        uncertainty(columns.drop("abstained"), "binary")
    with pytest.raises(ParameterError, match="one of"):
        uncertainty(columns, "margin")  # type: ignore[arg-type]


@pytest.mark.parametrize("gap", [None, float("nan")])
def test_undefined_uncertainty(gap: float | None) -> None:
    columns = pl.DataFrame({"item_id": ["x", "y"], "max_species": [0.5, gap], "is_answerable": [True, False]})
    with pytest.raises(DataError, match="1 of 2 images, 'y' first"):
        uncertainty(columns)
    assert uncertainty(columns, nan="abstain").tolist() == [0.5, math.inf]
    assert ua_a(uncertainty(columns, nan="abstain"), columns["is_answerable"]).area == 1.0
    with pytest.raises(ParameterError, match="NaN"):
        ua_a([0.5, float("nan")], [True, False])


def test_tiny_probabilities_keep_their_order() -> None:
    """Products of many token probabilities: 1 - p would be 1 for all of them."""
    p = pl.DataFrame({"max_species": [4e-20, 1e-20, 3e-20, 2e-20]})
    assert ua_a(uncertainty(p), [True, True, False, False]).area == 0.5
    assert ua_a(uncertainty(p), [True, False, True, False]).area == 1.0


# --- calibration ------------------------------------------------------------------------------------------------------


def test_calibration_equals_every_order_of_ties() -> None:
    """Expected values over all orders, with fractions."""
    u, right = [0.2, 0.2, 0.2, 0.4, 0.6, 0.6], [1, 0, 0, 1, 1, 0]
    orders = [o for o in itertools.permutations(range(6)) if all(u[a] <= u[b] for a, b in itertools.pairwise(o))]
    accuracy = [sum((F(sum(right[i] for i in o[:k]), k) for o in orders), F(0)) / len(orders) for k in range(1, 7)]
    wrong = [sum((F(k - sum(right[i] for i in o[:k]), 6) for o in orders), F(0)) / len(orders) for k in range(7)]
    curve = calibration(u, right)
    assert curve.y == pytest.approx([float(a) for a in accuracy], abs=1e-15)
    assert curve.area == pytest.approx(float(sum(accuracy) / 6), abs=1e-15)
    assert curve.augrc == pytest.approx(float(sum(a + b for a, b in itertools.pairwise(wrong)) / 12), abs=1e-15)
    assert coverage_at_risk(curve, 0.5) == 1.0 and coverage_at_risk(curve, 0.3) is None


def test_augrc_equals_its_closed_form() -> None:
    """Traub et al.: (1 - AUROC) acc (1 - acc) + (1 - acc)² / 2, with ties."""
    rng = np.random.default_rng(2)
    u, right = rng.integers(0, 6, 200), rng.random(200) < 0.6
    share = right.mean()
    auroc = roc_auc_score(right, -u)
    expected = (1 - auroc) * share * (1 - share) + (1 - share) ** 2 / 2
    assert calibration(u, right).augrc == pytest.approx(expected, abs=1e-12)


def test_accuracy_at_abstention_rates() -> None:
    for n in (1, 3, 7, 10, 20):
        right = np.arange(n) % 3 != 1
        at = calibration(np.arange(n), right).accuracy_at
        assert list(at) == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
        for tenth, rate in enumerate(at):
            k = math.ceil((1 - F(tenth, 10)) * n)
            assert at[rate] == right[:k].mean()


def test_calibrations_of_a_model() -> None:
    columns = as_columns(made(6, 40))
    curves = calibrations(columns)
    assert curves["UA-species"].area is None and curves["UA-species"].reason == NO_SPECIES
    a = columns.filter("is_answerable")
    by_hand = calibration(1 - a["max_species"].to_numpy(), a["species_right"].to_numpy())
    assert curves["A-species"].area == by_hand.area and curves["A-species"].n_ua == 0
    assert curves["UA-genus"].n == curves["UA-genus"].n_ua == columns.height - a.height
    assert calibrations(columns, Conventions(uncertainty="stated"))["A-genus"].reason == "no column stated"
    assert calibration([], []).reason == "no image is counted"
    assert [calibration([0.3], [1], rule=r).area for r in get_args(choices.Rule)] == [1.0, 1.0, 1.0]
    with pytest.raises(ParameterError, match="one length"):
        calibration([0.1], [1, 0])


# --- what must always hold --------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(seed: int, n: int, random: Any) -> None:
    columns = as_columns(made(seed, n))
    order = random.sample(range(n), n)
    moved = columns[order]
    for info, path, decision, ua in COMBINATIONS[:: 1 + seed % 5]:
        options = Conventions(info=info, path=path, decision=decision, ua=ua)
        one, two = ig_curve(ig_events(columns, options)), ig_curve(ig_events(moved, options))
        assert np.array_equal(one.threshold, two.threshold)
        assert one.y == pytest.approx(two.y, abs=1e-12) and (one.area or 0) == pytest.approx(two.area or 0, abs=1e-12)
        assert np.all(np.diff(one.x) >= -1e-12) and (one.area is None or -1e-12 <= one.area <= 1 + 1e-12)
    assert (
        ua_a(uncertainty(columns), columns["is_answerable"]).area
        == ua_a(uncertainty(moved), moved["is_answerable"]).area
    )
    for name, curve in calibrations(columns).items():
        assert (curve.area or 0) == pytest.approx(calibrations(moved)[name].area or 0, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40))
def test_monotone_transforms_change_nothing(images: list[tuple[int, bool]]) -> None:
    u, flag = np.array([i[0] for i in images]), np.array([i[1] for i in images])
    for function in (np.exp, lambda v: 3.0 * v - 7, lambda v: -1.0 / (1 + v)):
        assert ua_a(u, flag).area == ua_a(function(u), flag).area
        assert calibration(u, flag).area == calibration(function(u), flag).area


# --- sweep, thinning --------------------------------------------------------------------------------------------------


def test_conventions_sweep() -> None:
    columns = as_columns(made(9, 40))
    found = conventions_sweep(columns)
    assert found.schema == pl.Schema(SWEEP_SCHEMA) and not found["choice"].is_null().any()
    assert found.filter((pl.col("delta") == 0) & (pl.col("choice") == "depth"))["measure"].to_list() == ["ig"]
    for choice in ("stated", "binary", "entropy"):
        rows = found.filter(choice=choice)
        assert rows.height == 4 and rows["area"].is_null().all() and rows["reason"].str.starts_with("no column").all()
    leaf = ig_curve(ig_events(columns, Conventions(info="leaf"))).area
    row = found.filter(measure="ig", choice="leaf").row(0, named=True)
    assert row["area"] == leaf and row["delta"] == leaf - ig_curve(ig_events(columns)).area
    assert found.filter(option="ranks")["choice"].to_list() == ["genus+species", "family+genus+species"]
    assert found.filter(option="ranks")["delta"].to_list()[0] == 0
    assert found.filter((pl.col("area").is_null()) != pl.col("reason").is_not_null()).is_empty()
    undefined = conventions_sweep(columns, Conventions(uncertainty="entropy"))
    assert "no difference" in undefined.filter(measure="ua_a", choice="1-maxprob")["reason"][0]
    gap = conventions_sweep(columns.with_columns(max_species=pl.when(pl.int_range(40) > 0).then("max_species")))
    assert "1 of 40 images" in gap.filter(measure="ua_a", choice="1-maxprob")["reason"][0]
    answerable = conventions_sweep(columns.filter("is_answerable"))
    assert answerable.filter(measure="ua_a")["reason"].is_not_null().all()
    with pytest.raises(DataError, match="one variant"):
        conventions_sweep(columns.with_columns(variant=pl.Series(["plain", "range_map"] * 20)))


def test_thin_keeps_ends_peaks_and_area() -> None:
    rng = np.random.default_rng(1)
    item = np.repeat(np.arange(3000), 2)
    score, right = rng.random(6000), rng.integers(-1, 2, 6000) / 3
    curve = ig_curve(Events(score, item, np.full(6000, 0.5), right, n=3000))
    short = thin(curve, 200)
    assert len(short.x) <= 200 and short.area == curve.area and short.n == curve.n
    assert (short.x[0], short.x[-1]) == (0.0, curve.x[-1]) and short.y[-1] == curve.y[-1]
    assert short.y.min() == curve.y.min() and short.y.max() == curve.y.max() and np.all(np.diff(short.x) >= 0)
    assert thin(short, 200) is short
    kept = thin(calibration(score, right > 0), 50)
    assert len(kept.x) <= 50 and kept.augrc == calibration(score, right > 0).augrc
    steps = replace(curve, x=np.zeros(6001))
    assert len(thin(steps, 10).x) <= 10
    with pytest.raises(ParameterError, match="at least 4"):
        thin(curve, 3)
