"""The published matcher of colour rings (CORVID), with what it does that its text does not say.

Per frame, every two rings whose centres are less than 38 px apart give a matrix of pairs of colours, half the sum of
their probabilities, folded with its transpose; a frame with one ring pairs it with nothing. Matrices are summed over
the clip and divided by its frames; a bird's score is the mean of its two legs' pairs; the highest score names the bird.
Birds of tracks with common frames must differ, by a loop of its own.

Kept as the authors' script has it (codes of the cases in ``tests/data/reid/corvid.json``):

- V01, V02: what is summed is one number per colour. With T_c the sum over pairs of p1_c + p2_c, the entry of two
  colours is (T_a + T_b) / 2 and that of a doubled one T_a / 2. So a score tells neither upper from lower nor left from
  right, and not even which colours share a leg: codes of the same letters all tie, as long as no leg has a colour twice
  (rgab, ragb and bgra). The first of the list is named; the script's sums of ragb differ from those of rgab in the last
  digit, and there it is that digit that decides.
- V03: of two tracks that claim one bird the one with the *higher* score goes first, sees the other holding the bird,
  and moves on to its next best.
- V04: the last frame is not used; a clip of one frame is ``unringed``.
- V05: codes that are not four letters are never candidates; neither are those with ``?``.
- V06: it always names a bird if any pair of rings was seen: all scores 0 name the first of the list.
- V08: the sum is divided by all frames of the clip, with rings or not, and several pairs of a frame add up: a score is
  no probability.
- V09: 38 px is absolute, and strict.

V07, a colour outside the palette, which stops the script with ``'XX' is not in list``, is an error that names the bird.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab import schemas
from birdlab.individuals.rings.codes import ANY, Palette, parse_codes

Floats = npt.NDArray[np.float64]
#: Distance under which two rings are of one leg, px; frames that tracks must share, and more, to be kept apart.
PAIR_PX, COMMON_FRAMES = 38.0, 30
#: Scores nearer than this are one: sums of the same numbers in another order differ by less.
TIE = 1e-9
UNRINGED = "no pair of rings in the frames used (the published rule says unringed)"
NO_CODE = "no bird of the list has a code of four letters"
EMPTY = "the list of candidates is empty"


@dataclass(frozen=True)
class _Clips:
    """Clips in order, their birds and scores; ``start`` is each clip's first row in both, and one more at the end."""

    names: list[str]
    start: npt.NDArray[np.int64]
    birds: list[str]
    scores: Floats

    def of(self, clip: int) -> tuple[list[str], Floats]:
        part = slice(int(self.start[clip]), int(self.start[clip + 1]))
        return self.birds[part], self.scores[part]


def colour_sums(ring_colours: pl.DataFrame, frames: pl.DataFrame, *, pair_px: float = PAIR_PX) -> pl.DataFrame:
    """Evidence of each colour in each clip, T / n: all that the published rule uses of the rings.

    Args:
        ring_colours: table ``ring_colours``.
        frames: clip_id, frame_index of every frame of every clip, also those without a ring.
        pair_px: distance under which two rings are a pair, px.

    Returns:
        One row per clip of ``frames``, in order of first appearance: clip_id, n_frames, n_with_rings, n_pairs (of
        rings, and single rings, in the frames used), sums (per colour, null where no ring was used).
    """
    order = frames.group_by("clip_id", maintain_order=True).agg(
        pl.len().alias("n_frames"), pl.col("frame_index").max().alias("last")
    )
    seen = ring_colours.group_by("clip_id").agg(pl.col("frame_index").n_unique().alias("n_with_rings"))
    rings = ring_colours.select("clip_id", "frame_index", "ring", "x", "y", "probabilities")
    rings = rings.join(order.select("clip_id", "last"), on="clip_id").filter(pl.col("frame_index") < pl.col("last"))
    rings = rings.sort("clip_id", "frame_index", "ring")
    weight = _weights(rings, pair_px)
    k = len(rings["probabilities"][0]) if rings.height else 0
    chances = rings["probabilities"].explode().to_numpy().reshape(rings.height, k)
    counted = rings.select("clip_id").with_row_index("first").unique("clip_id", keep="first", maintain_order=True)
    first = counted["first"].to_numpy()
    sums = np.add.reduceat(chances * weight[:, None], first) if rings.height else chances
    pairs = np.add.reduceat(weight, first) if rings.height else weight
    found = counted.select("clip_id").with_columns(
        pl.Series("n_pairs", pairs, dtype=pl.Int64), pl.Series("sums", sums.tolist(), dtype=pl.List(pl.Float64))
    )
    joined = order.join(seen, on="clip_id", how="left", maintain_order="left").join(
        found, on="clip_id", how="left", maintain_order="left"
    )
    used = pl.col("n_pairs").fill_null(0) > 0
    share = pl.when(used).then(pl.col("sums").list.eval(pl.element()) / pl.col("n_frames")).alias("sums")
    return joined.select(
        "clip_id", "n_frames", pl.col("n_with_rings").fill_null(0), pl.col("n_pairs").fill_null(0), share
    )


def _weights(rings: pl.DataFrame, pair_px: float) -> npt.NDArray[np.int64]:
    """How often each ring is counted: once for every ring nearer than ``pair_px``, once if it is alone in its frame."""
    frame = rings.select(pl.struct("clip_id", "frame_index").rle_id()).to_series().to_numpy().astype(np.int64)
    x, y = rings["x"].to_numpy(), rings["y"].to_numpy()
    size = np.bincount(frame)
    weight = (size[frame] == 1).astype(np.int64)
    # Rows are by frame: the rings of a frame are at most its number of rings apart.
    for step in range(1, int(size.max(initial=1))):
        near = frame[step:] == frame[:-step]
        near &= np.hypot(x[step:] - x[:-step], y[step:] - y[:-step]) < pair_px
        weight[step:] += near
        weight[:-step] += near
    return weight


def published_scores(sums: pl.DataFrame, candidates: pl.DataFrame, palette: Palette) -> pl.DataFrame:
    """Score of every candidate of every clip, for rankings.

    Args:
        sums: from :func:`colour_sums`.
        candidates: clip_id, individual_id, code: as for :func:`match_published`.
        palette: colours, as long as the vectors of ``sums``.

    Returns:
        clip_id, individual_id, score: one row per clip and candidate, in the order of ``candidates``; scores are
        rounded to nine digits, so that sums of the same numbers in another order are equal. Null: the rule cannot score
        the bird (no code of four letters) or the clip (no pair of rings).

    Raises:
        DataError: a candidate with a colour outside the palette, or a code that is none.
    """
    clips = _scored(sums, candidates, palette)
    owner = np.repeat(np.array(clips.names, dtype=object), np.diff(clips.start))
    found = pl.DataFrame(
        {"clip_id": owner.tolist(), "individual_id": clips.birds, "score": np.round(clips.scores, 9)},
        schema={"clip_id": pl.String, "individual_id": pl.String, "score": pl.Float64},
    )
    listed = candidates.select("clip_id", "individual_id").unique(maintain_order=True)
    return listed.join(found, on=["clip_id", "individual_id"], how="left", maintain_order="left")


def match_published(
    ring_colours: pl.DataFrame,
    frames: pl.DataFrame,
    candidates: pl.DataFrame,
    palette: Palette,
    *,
    gallery: str = "territory",
    pair_px: float = PAIR_PX,
    together: pl.DataFrame | None = None,
    common_frames: int = COMMON_FRAMES,
) -> pl.DataFrame:
    """Name the bird of every clip by the published rule, each clip alone and with its loop for conflicts.

    Args:
        ring_colours: table ``ring_colours``.
        frames: clip_id, frame_index of every frame of every clip; clips are answered in their order of first
            appearance, which decides who goes first in a conflict of equal scores.
        candidates: clip_id, individual_id, code: the list of each clip, in order; a bird with several codes (a clip
            without a date) has the score of its best one.
        palette: colours, as long as the vectors of ``ring_colours``.
        gallery: which list it is; only written into the rows.
        pair_px: distance under which two rings are of one leg, px.
        together: clip_id, other_id, n_common: clips with common frames; ``None``: none. Either order will do.
        common_frames: clips with more common frames than this must differ (published: 30, which clips of 25 frames
            never have).

    Returns:
        Table ``ring_calls``, assignments argmax and joint for every clip. ``best``, ``score`` and ``second`` are the
        clip's own first and second; ``individual_id`` is who is named. A clip without candidates or pairs has a reason.

    Raises:
        DataError: a candidate with a colour outside the palette, or a code that is none.
    """
    evidence = colour_sums(ring_colours, frames, pair_px=pair_px)
    clips = _scored(evidence, candidates, palette)
    alone = [_first(clips, i) for i in range(len(clips.names))]
    joint = _resolve(clips, alone, together, common_frames)
    rows = []
    for assignment, named in (("argmax", alone), ("joint", joint)):
        for i, (bird, row) in enumerate(zip(named, evidence.iter_rows(named=True), strict=True)):
            own = _row(clips, i, row)
            rows.append(
                {"matcher": "published", "assignment": assignment, "gallery": gallery, "individual_id": bird} | own
            )
    lists = candidates.group_by("clip_id").agg(pl.col("individual_id").n_unique().alias("n_candidates"))
    table = schemas.TABLES["ring_calls"]
    if not rows:
        return table.empty()
    frame = pl.DataFrame(rows, infer_schema_length=None).join(lists, on="clip_id", how="left", maintain_order="left")
    reason = pl.when(pl.col("n_candidates").is_null()).then(pl.lit(EMPTY)).otherwise("reason").alias("reason")
    return table.validate(frame.with_columns(reason, pl.col("n_candidates").fill_null(0)))


def _scored(evidence: pl.DataFrame, candidates: pl.DataFrame, palette: Palette) -> _Clips:
    """Score of every bird that the rule can name, clip by clip, in the order of the lists."""
    codes = parse_codes(candidates.select("individual_id", "code").unique(maintain_order=True).rows(), palette)
    legs = {
        text: [palette.index(letter) for letter in code.letters]
        for text, code in codes.items()
        if len(code.letters) == 4 and ANY not in code.letters
    }
    numbers = {text: i for i, text in enumerate(legs)}
    place = np.array(list(legs.values()), dtype=np.int64).reshape(-1, 4)
    usable = evidence.with_row_index("clip").filter(pl.col("sums").is_not_null())
    sums = np.array(usable["sums"].to_list(), dtype=np.float64).reshape(usable.height, len(palette))
    rows = usable.select("clip_id", "clip").with_row_index("at")
    kept = candidates.filter(pl.col("code").is_in(list(numbers))).with_row_index("order")
    kept = kept.join(rows, on="clip_id", how="inner").sort("clip", "order")
    at, code = kept["at"].to_numpy(), kept["code"].replace_strict(numbers, return_dtype=pl.Int64).to_numpy()
    score = np.zeros(0)
    if kept.height:
        chosen = place[code]
        score = sum(_pair(sums, at, chosen[:, k], chosen[:, k + 1]) for k in (0, 2)) / 2
    best = (
        kept.select("clip", "individual_id")
        .with_columns(pl.Series("score", score))
        .group_by("clip", "individual_id", maintain_order=True)
        .agg(pl.col("score").max())
    )
    start = np.searchsorted(best["clip"].to_numpy(), np.arange(evidence.height + 1))
    return _Clips(evidence["clip_id"].to_list(), start, best["individual_id"].to_list(), best["score"].to_numpy())


def _pair(sums: Floats, at: npt.NDArray[np.int64], a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> Floats:
    """Entry of each pair in the folded sum: (T_a + T_b) / 2, and T_a / 2 on the diagonal."""
    return (sums[at, a] + np.where(a == b, 0.0, sums[at, b])) / 2


def _first(clips: _Clips, i: int) -> str | None:
    birds, scores = clips.of(i)
    return birds[int(np.argmax(scores >= scores.max() - TIE))] if birds else None


def _row(clips: _Clips, i: int, evidence: dict) -> dict:
    """What a clip's row says of its scores, whoever is named."""
    birds, scores = clips.of(i)
    ranked = np.sort(scores)[::-1]
    n_tied = int((scores >= ranked[0] - TIE).sum()) - 1 if len(scores) else 0
    reason = None
    if not birds:
        reason = UNRINGED if evidence["sums"] is None else NO_CODE
    return {
        "clip_id": clips.names[i],
        "best": _first(clips, i) if not n_tied else None,
        "score": float(ranked[0]) if len(scores) else None,
        "second": float(ranked[1]) if len(scores) > 1 else None,
        "n_tied": n_tied,
        "n_frames": evidence["n_frames"],
        "n_with_rings": evidence["n_with_rings"],
        "reason": reason,
    }


def _resolve(
    clips: _Clips, alone: list[str | None], together: pl.DataFrame | None, common_frames: int
) -> list[str | None]:
    """Birds after the published loop for conflicts.

    Clips that share their bird with another one in common frames are marked once, then gone through by their best
    score, highest first: each takes the best bird that no clip of common frames holds at that moment, or else keeps its
    own.
    """
    number = {name: i for i, name in enumerate(clips.names)}
    rivals: dict[int, set[int]] = {}
    if together is not None:
        for a, b in together.filter(pl.col("n_common") > common_frames).select("clip_id", "other_id").iter_rows():
            if a != b and a in number and b in number:
                rivals.setdefault(number[a], set()).add(number[b])
                rivals.setdefault(number[b], set()).add(number[a])
    named = list(alone)
    marked = [i for i, others in rivals.items() if named[i] is not None and any(named[i] == named[j] for j in others)]
    for i in sorted(marked, key=lambda i: (-clips.of(i)[1].max(), i)):
        birds, scores = clips.of(i)
        # Equal scores keep the order of the list, and sums that differ only in their last digit are equal.
        ranked = [birds[j] for j in np.argsort(-np.round(scores / TIE), kind="stable")]
        held = {named[j] for j in rivals[i]}
        named[i] = next((bird for bird in ranked if bird not in held), ranked[0])
    return named
