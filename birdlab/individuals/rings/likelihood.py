"""How likely the rings of a clip are if the bird wears a given code: the whole code at once, not a sum over pairs.

A frame is made like this. Each leg is hidden as a whole with probability ``leg_hidden``; on a leg in view every ring
shows with probability 1 - ``hidden``; each further, false ring has probability ``clutter`` and any colour. Which leg
is which is unknown unless the geometry tells, and so is the order of two rings. The rings of a frame are summed over
everything they may be and the frames of a clip are multiplied. Frames of one clip see the same light and are not so
many witnesses: the product of n frames is raised to the temperature 1 / (1 + (n - 1) ``dependence``), which makes them
worth as many independent frames as n correlated ones (Kish 1965).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.individuals.rings.codes import ANY, Code, Palette
from birdlab.individuals.rings.free import leg_strata
from birdlab.individuals.rings.geometry import Legs, find_legs

Floats = npt.NDArray[np.float64]
#: Frames that are worked on at once.
BLOCK = 2048
#: Rings of unknown colour of a code for which every colour is tried.
SPELLED_OUT = 2


@dataclass(frozen=True)
class Settings:
    """What the matcher assumes; every number is a default that was stated before looking at a study's own birds.

    Args:
        floor: share of a ring's colour probabilities that is spread over all colours: no colour is impossible.
        clutter: probability of a false ring per leg.
        hidden: probability that a ring of a leg in view is not found.
        leg_hidden: probability that a leg is not in view.
        order_error: probability that a clear upper ring is the lower one (a leg held up, a bird bent over).
        regroup: probability that two lone rings are of one leg, and that a lone pair is of two legs.
        dependence: of the frames of a clip, 0 or more; 0 = independent, 1 = a clip says as much as its mean frame, above
            1 = rings are surer of themselves than they should be. The default is that of drawn rings.
        unknown_prior: probability that the bird is none of the list, in [0, 1); 0 = it always is.
        min_posterior: below it no bird is named.
        pair, order: see :func:`birdlab.individuals.rings.geometry.find_legs`.

    Raises:
        ParameterError: a number outside its range.
    """

    floor: float = 0.05
    clutter: float = 0.02
    hidden: float = 0.2
    leg_hidden: float = 0.1
    order_error: float = 0.05
    regroup: float = 0.05
    dependence: float = 0.7
    unknown_prior: float = 0.05
    min_posterior: float = 0.8
    pair: float = 2.0
    order: float = 0.5

    def __post_init__(self) -> None:
        positive = ("floor", "clutter", "hidden", "pair", "order")
        problems = []
        for field in fields(self):
            value, low = getattr(self, field.name), "above 0" if field.name in positive else "0 or more"
            high = {"pair": None, "order": None, "dependence": None, "unknown_prior": "below 1"}.get(
                field.name, "at most 1"
            )
            fits = (value > 0 if low == "above 0" else value >= 0) and (
                high is None or (value < 1 if high == "below 1" else value <= 1)
            )
            if not fits:
                expected = low if high is None else f"{low} and {high}"
                problems.append(Problem("bad_setting", repr(value), expected, key=field.name))
        if problems:
            raise ParameterError(problems)


@dataclass(frozen=True)
class Evidence:
    """What the rings of each clip say, frames taken as independent.

    Args:
        clip_ids: clips in which at least one ring was found.
        names: codes, in the order given.
        log_likelihood: (n_clips, n_codes), natural logarithm, relative to rings of no colour at all.
        log_free: the same of free codes that stand for all codes of two rings per leg, (n_clips, n_free).
        free_share: share of all those codes that each stands for, (n_free,); sums to 1.
        n_with_rings: frames with a ring, (n_clips,).
        n_extra: rings that were in neither leg, (n_clips,).
        unseen: letters of codes that the colour forest never saw; they count as any colour.
    """

    clip_ids: tuple[str, ...]
    names: tuple[str, ...]
    log_likelihood: Floats
    log_free: Floats
    free_share: Floats
    n_with_rings: npt.NDArray[np.int64]
    n_extra: npt.NDArray[np.int64]
    unseen: tuple[str, ...] = ()


def temperatures(n_frames: npt.ArrayLike, dependence: float) -> Floats:
    """Power to which the product of n frames is raised, 1 / (1 + (n - 1) dependence), in (0, 1]; 1 for one frame.

    >>> temperatures([1, 11], 0.5).round(3).tolist()
    [1.0, 0.167]
    """
    return 1 / (1 + np.maximum(np.asarray(n_frames, dtype=np.float64) - 1, 0) * dependence)


def log_likelihoods(
    rings: pl.DataFrame,
    codes: Mapping[str, Code],
    *,
    palette: Palette,
    settings: Settings | None = None,
    unseen: Sequence[str] = (),
    prior: Sequence[float] | None = None,
) -> Evidence:
    """Log likelihood of every code for every clip.

    The likelihood of a ring given colour c is ((1 - floor) p_c + floor / K) / prior_c: the forest's probability
    turned round by Bayes' rule. ``?`` and a colour never seen in training are any one colour, the same in all frames:
    the mean over the colours for up to two such rings of a code; for further ones each frame may have another colour.

    Args:
        rings: table ``ring_colours``; ``probabilities`` in the order of the palette.
        codes: name -> code. A code that may be on the legs in two ways (three letters) has the mean of both.
        palette: colours that rings can have.
        settings: see :class:`Settings`.
        unseen: letters that the forest never learned.
        prior: share of each colour among what the forest learned from, (K,), default equal.

    Returns:
        Evidence; a clip without a ring is not in it.

    Raises:
        DataError: a code with a letter outside the palette (all of them); probabilities of another length than the
            palette, or not finite.

    >>> from birdlab.individuals.rings.codes import parse_code
    >>> from birdlab.individuals.rings.study_made import sure_rings
    >>> palette = Palette.of({letter: letter for letter in "ABGR"})
    >>> codes = {code: parse_code(code, palette, individual=code) for code in ("rgab", "rrab")}
    >>> found = log_likelihoods(sure_rings({"c": ["RR", "AB"]}, palette), codes, palette=palette)
    >>> found.names[found.log_likelihood[0].argmax()]
    'rrab'
    """
    settings = settings or Settings()
    letters = palette.letters
    unseen = tuple(sorted({u.upper() for u in unseen}))
    table = _LegTable.of(codes, letters, unseen)
    ratio = _ratios(rings, len(letters), settings, prior)
    legs = find_legs(rings, pair=settings.pair, order=settings.order)
    hypotheses = _Hypotheses.of(legs, settings.regroup)
    n = len(legs.clip_ids)
    share = leg_strata(len(table.free))[1]
    out, free = np.zeros((n, len(table.left))), np.zeros((n, len(share) ** 2))
    for clips, frames in _blocks(legs.clip, n):
        out[clips], free[clips] = _block(legs.clip, hypotheses, ratio, table, frames, settings)
    return Evidence(
        clip_ids=legs.clip_ids,
        names=tuple(codes),
        log_likelihood=table.merged(out),
        log_free=free,
        free_share=np.outer(share, share).ravel(),
        n_with_rings=np.bincount(legs.clip, minlength=n),
        n_extra=np.bincount(legs.clip, weights=legs.n_extra, minlength=n).astype(np.int64),
        unseen=tuple(u for u in unseen if any(u in c.letters for c in codes.values())),
    )


@dataclass(frozen=True)
class _LegTable:
    """Distinct legs (columns of ring likelihoods, -1: no lower ring) and the legs of every code."""

    upper: npt.NDArray[np.int64]
    lower: npt.NDArray[np.int64]
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    free: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]

    @classmethod
    def of(cls, codes: Mapping[str, Code], letters: Sequence[str], unseen: Sequence[str]) -> _LegTable:
        column = {c: len(letters) if c in unseen else i for i, c in enumerate(letters)} | {ANY: len(letters)}
        _check_codes(codes, column)
        seen = [i for c, i in column.items() if i < len(letters)] or [len(letters)]
        number = {leg: i for i, leg in enumerate((u, low) for u in seen for low in seen)}
        n_free_legs = len(number)
        pairs, first = [], []
        for code in codes.values():
            first.append(len(pairs))
            for left, right in _spelled_out(code, column, seen):
                pairs.append([number.setdefault((*leg, -1, -1)[:2], len(number)) for leg in (left, right)])
        legs, both = np.array(list(number), dtype=np.int64), np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return cls(
            upper=legs[:, 0],
            lower=legs[:, 1],
            left=both[:, 0],
            right=both[:, 1],
            free=np.arange(n_free_legs),
            first=np.array(first, dtype=np.int64),
        )

    def merged(self, values: Floats) -> Floats:
        """Codes that may be several: the mean of their likelihoods."""
        if len(self.first) == len(self.left):
            return values
        n = np.diff(np.append(self.first, len(self.left)))
        return np.logaddexp.reduceat(values, self.first, axis=1) - np.log(n)


def _spelled_out(
    code: Code, column: Mapping[str, int], seen: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Columns of every code that may be meant: both ways to split it, each colour for up to ``SPELLED_OUT`` unknown ones.

    A ring of unknown colour has one colour in all frames. Further ones are any colour in each frame.
    """
    every = column[ANY]
    for left, right in code.layouts:
        at = [column[letter] for letter in (*left, *right)]
        wild = [i for i, c in enumerate(at) if c == every][:SPELLED_OUT]
        for colours in itertools.product(seen, repeat=len(wild)):
            for i, c in zip(wild, colours, strict=True):
                at[i] = c
            yield tuple(at[: len(left)]), tuple(at[len(left) :])


def _check_codes(codes: Mapping[str, Code], column: Mapping[str, int]) -> None:
    expected = f"letters of the palette, {', '.join(c for c in column if c != ANY)}, or {ANY}"
    problems = [
        Problem("unknown_colour", f"letter {letter!r} in code {name!r}", expected, record=f"code {name}", key="code")
        for name, code in codes.items()
        for letter in dict.fromkeys(code.letters)
        if letter not in column
    ]
    if problems:
        raise DataError(problems)


def _ratios(rings: pl.DataFrame, k: int, settings: Settings, prior: Sequence[float] | None) -> Floats:
    """Likelihood of each ring for each colour, relative to any colour; last row: no ring, last column: any colour."""
    column = rings["probabilities"]
    wrong = column.list.len().fill_null(0) != k
    if wrong.any():
        found = f"{int(wrong.sum())} rings with another number of probabilities than the palette has colours"
        raise DataError(Problem("wrong_probabilities", found, f"{k} each", file="table ring_colours"))
    p = (
        column.explode(empty_as_null=False).cast(pl.Float64).to_numpy().reshape(-1, k)
        if len(column)
        else np.zeros((0, k))
    )
    if not np.isfinite(p).all() or (p < 0).any():
        found = "probabilities that are not finite or below 0"
        raise DataError(Problem("wrong_probabilities", found, "numbers in [0, 1]", file="table ring_colours"))
    share = np.full(k, 1 / k) if prior is None else np.asarray(prior, dtype=np.float64)
    share = np.where(share > 0, share, 1 / k)
    out = np.ones((len(p) + 1, k + 1))
    out[:-1, :k] = ((1 - settings.floor) * p + settings.floor / k) / share
    return out


@dataclass(frozen=True)
class _Hypotheses:
    """Ways to read each frame: rows of rings in two groups of up to two, with weights that sum to 1 per frame."""

    frame: npt.NDArray[np.int64]
    log_weight: Floats
    rings: npt.NDArray[np.int64]
    is_ordered: npt.NDArray[np.bool_]
    side: npt.NDArray[np.int64]

    @classmethod
    def of(cls, legs: Legs, regroup: float) -> _Hypotheses:
        """As grouped; and lone rings as a pair, a lone pair as two legs, with probability ``regroup``."""
        n = (legs.rings >= 0).sum(axis=2)
        lone, pair = (n == 1).all(axis=1), (n[:, 0] == 2) & (n[:, 1] == 0)
        other = np.flatnonzero((lone | pair) & (regroup > 0))
        rings = legs.rings[other].copy()
        for one, two in ((lone[other], (0, 1)), (pair[other], (1, 0))):
            source, target = ((1, 0), two) if two == (0, 1) else ((0, 1), two)
            rings[one, target[0], target[1]] = rings[one, source[0], source[1]]
            rings[one, source[0], source[1]] = -1
        first = np.zeros(len(n))
        first[other] = np.log1p(-regroup) if regroup < 1 else -np.inf
        frame = np.concatenate([np.arange(len(n)), other])
        order = np.argsort(frame, kind="stable")
        with np.errstate(divide="ignore"):
            weight = np.concatenate([first, np.full(len(other), np.log(regroup))])
        return cls(
            frame[order],
            weight[order],
            np.concatenate([legs.rings, rings])[order],
            np.concatenate([legs.is_ordered, np.zeros((len(other), 2), dtype=bool)])[order],
            np.concatenate([legs.side, np.zeros(len(other), dtype=np.int64)])[order],
        )


def _blocks(clip: npt.NDArray[np.int64], n: int) -> list[tuple[slice, slice]]:
    """Whole clips of about ``BLOCK`` frames: their slice and the slice of their frames."""
    ends = np.cumsum(np.bincount(clip, minlength=n)) if n else np.zeros(0, dtype=np.int64)
    out, clip_from, frame_from = [], 0, 0
    for i, end in enumerate(ends.tolist()):
        if end - frame_from >= BLOCK or i == n - 1:
            out.append((slice(clip_from, i + 1), slice(frame_from, end)))
            clip_from, frame_from = i + 1, end
    return out


def _block(
    clip: npt.NDArray[np.int64],
    hypotheses: _Hypotheses,
    ratio: Floats,
    table: _LegTable,
    frames: slice,
    settings: Settings,
) -> tuple[Floats, Floats]:
    """Log likelihoods of the codes and of the free codes for the clips of some frames."""
    lo, hi = np.searchsorted(hypotheses.frame, [frames.start, frames.stop])
    a, b = (
        _leg_likelihood(ratio, hypotheses.rings[lo:hi, g], hypotheses.is_ordered[lo:hi, g], table, settings)
        for g in (0, 1)
    )
    side, weight = hypotheses.side[lo:hi], np.exp(hypotheses.log_weight[lo:hi])
    straight = (weight * np.array([0.5, 1.0, 0.0])[side])[:, None]
    crossed = (weight * np.array([0.5, 0.0, 1.0])[side])[:, None]
    starts = np.searchsorted(hypotheses.frame[lo:hi], np.arange(frames.start, frames.stop))
    clips = clip[frames]
    of_clip = np.flatnonzero(np.diff(clips, prepend=-1))

    def pooled(left: npt.NDArray[np.int64] | tuple, right: npt.NDArray[np.int64] | tuple) -> Floats:
        p = straight * (a[left] * b[right]) + crossed * (a[right] * b[left])
        return np.add.reduceat(np.log(np.add.reduceat(p, starts, axis=0)), of_clip, axis=0)

    every = np.s_[:]
    codes = pooled((every, table.left), (every, table.right)) if len(table.left) else np.zeros((len(of_clip), 0))
    of_leg = np.log(np.add.reduceat(weight[:, None] * (a[:, table.free] + b[:, table.free]), starts, axis=0))
    score = np.add.reduceat(of_leg, of_clip, axis=0)
    best = np.argsort(-score, axis=1, kind="stable")[:, leg_strata(score.shape[1])[0]]
    one, two = (x.ravel() for x in np.meshgrid(*[np.arange(best.shape[1])] * 2, indexing="ij"))
    row = (np.cumsum(np.diff(clips, prepend=-1) > 0) - 1)[hypotheses.frame[lo:hi] - frames.start]
    at = np.arange(hi - lo)[:, None]
    return codes, pooled((at, best[row][:, one]), (at, best[row][:, two]))


def _leg_likelihood(
    ratio: Floats,
    rings: npt.NDArray[np.int64],
    is_ordered: npt.NDArray[np.bool_],
    table: _LegTable,
    settings: Settings,
) -> Floats:
    """Likelihood of one group of rings (H, 2) for every leg, (H, n_legs)."""
    v, hide, k = 1 - settings.hidden, settings.leg_hidden, settings.clutter
    n_rings = (rings >= 0).sum(axis=1)
    n_slots = (table.upper >= 0).astype(int) + (table.lower >= 0)
    miss = (1 - v) ** n_slots
    shows = v * (1 - v) ** np.maximum(n_slots - 1, 0)
    # A ring that the leg does not have (-1): the column of zeros behind the others.
    wide = np.concatenate([ratio, np.zeros((len(ratio), 1))], axis=1)
    upper, lower = table.upper, table.lower
    out = np.empty((len(rings), len(table.upper)))
    out[n_rings == 0] = hide + (1 - hide) * miss
    one = np.flatnonzero(n_rings == 1)
    x = wide[rings[one, 0]]
    out[one] = hide * k + (1 - hide) * (shows * (x[:, upper] + x[:, lower]) + k * miss)
    two = np.flatnonzero(n_rings == 2)
    x, y = wide[rings[two, 0]], wide[rings[two, 1]]
    xu, xl, yu, yl = x[:, upper], x[:, lower], y[:, upper], y[:, lower]
    wrong = np.where(is_ordered[two], settings.order_error, 0.5)[:, None]
    both = v * v * ((1 - wrong) * (xu * yl) + wrong * (xl * yu))
    single = 0.5 * k * shows * ((xu + xl) + (yu + yl))
    out[two] = hide * k * k + (1 - hide) * (both + single + k * k * miss)
    return out
