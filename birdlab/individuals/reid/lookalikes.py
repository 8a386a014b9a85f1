"""Which birds are taken for which, how often each is found, and how far apart their ring codes are."""

from __future__ import annotations

import polars as pl

from birdlab.individuals.reid.measures import counted, mean_number, scored

_AT = ["model", "split", "gallery"]
PAIRS = {
    "model": pl.String,
    "split": pl.String,
    "gallery": pl.String,
    "individual_id": pl.String,
    "taken_for": pl.String,
    "n": pl.Int64,
    "n_queries": pl.Int64,
    "share": pl.Float64,
    "hamming": pl.Int32,
}
RECALL = {
    "model": pl.String,
    "split": pl.String,
    "gallery": pl.String,
    "individual_id": pl.String,
    "n": pl.Int64,
    "top1": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "chance": pl.Float64,
    "taken_for": pl.String,
    "n_taken_for": pl.Int64,
    "reason": pl.String,
}


def look_alikes(outcomes: pl.DataFrame, roster: pl.DataFrame | None = None) -> pl.DataFrame:
    """Pairs of birds of which one was named for the other, most often first.

    Args:
        outcomes: table ``reid_outcomes``. A tie for the first place names nobody and is no pair.
        roster: table ``ring_roster`` (individual_id, code), where the birds wear rings.

    Returns:
        :data:`PAIRS`: the true bird, the bird it was taken for, n times of its n_queries (share), and in how many rings
        their codes differ (the least over the codes of both birds; null without codes, or where they have not equally many
        rings).
    """
    rows = counted(outcomes).with_columns(pl.col("split", "gallery").cast(pl.String))
    asked = rows.group_by(*_AT, "individual_id").agg(n_queries=pl.len())
    wrong = rows.filter(pl.col("answer").is_not_null() & (pl.col("answer") != pl.col("individual_id")))
    pairs = wrong.group_by(*_AT, "individual_id", taken_for="answer").agg(n=pl.len())
    pairs = pairs.join(asked, on=[*_AT, "individual_id"]).with_columns(share=pl.col("n") / pl.col("n_queries"))
    codes: dict[str, list[str]] = {}
    if roster is not None:
        for bird, code in roster.select("individual_id", "code").iter_rows():
            codes.setdefault(bird, []).append(code)
    apart = [
        least_apart(codes.get(a, []), codes.get(b, []))
        for a, b in pairs.select("individual_id", "taken_for").iter_rows()
    ]
    pairs = pairs.with_columns(pl.Series("hamming", apart, dtype=pl.Int32))
    order = [*_AT, "n", "share", "individual_id", "taken_for"]
    descending = [False, False, False, True, True, False, False]
    return pairs.sort(order, descending=descending).select(pl.col(c).cast(t) for c, t in PAIRS.items())


def least_apart(first: list[str], second: list[str]) -> int | None:
    """Rings in which two birds differ, the least over their codes; None without codes of one length.

    >>> least_apart(["oaor"], ["OAro", "gaor"]), least_apart(["oa?r"], ["oabr"]), least_apart(["oaor"], ["oao"])
    (1, 0, None)
    """
    found = [d for a in first for b in second if (d := hamming(a, b)) is not None]
    return min(found, default=None)


def hamming(first: str, second: str) -> int | None:
    """Places in which two ring codes differ (upper and lower case are one, ``?`` is any colour); None: other lengths.

    >>> hamming("oaor", "OARO"), hamming("rg-a", "rga")
    (2, 0)
    """
    a, b = (code.casefold().replace("-", "").strip() for code in (first, second))
    if len(a) != len(b):
        return None
    return sum(x != y and "?" not in (x, y) for x, y in zip(a, b, strict=True))


def individual_recall(outcomes: pl.DataFrame) -> pl.DataFrame:
    """How often each bird is found at the first place, and whom it is most often taken for; the worst first.

    Returns:
        :data:`RECALL`: per method, protocol, gallery and bird its n queries, Top-1, an interval for new videos of it (lo,
        hi; null with the reason for fewer than two videos), chance, the commonest wrong name and how often it was given.
    """
    rows = scored(counted(outcomes), (1,)).with_columns(pl.col("split", "gallery").cast(pl.String))
    pairs = look_alikes(outcomes).group_by(*_AT, "individual_id", maintain_order=True).first()
    names = {tuple(r[:4]): (r[4], r[5]) for r in pairs.select(*_AT, "individual_id", "taken_for", "n").iter_rows()}
    out = []
    for key, part in rows.group_by(*_AT, "individual_id", maintain_order=True):
        number = mean_number(part, "top1", "chance_top1")
        ends = number.by_video
        taken, n = names.get(tuple(key), (None, 0))
        out.append((*key, number.n, number.value, ends.lo, ends.hi, number.chance, taken, n, ends.reason))
    frame = pl.DataFrame(out, schema=RECALL, orient="row")
    return frame.sort(*_AT, "top1", "n", "individual_id", descending=[False, False, False, False, True, False])
