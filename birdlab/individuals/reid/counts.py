"""What is in the clips, beside what was published about them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

CHIRP = "chirp"
PAPER, FILES = "CHIRP (CVPR 2026), text", "CHIRP, description of the data set"
EQUAL, DIFFERS, NOT_PUBLISHED, NOT_COMPUTED = "equal", "differs", "not published", "not computed"
COLUMNS = {
    "what": pl.String, "computed": pl.Float64, "published": pl.Float64, "verdict": pl.String, "source": pl.String,
    "reason": pl.String,
}  # fmt: skip
#: Number → what it counts.
WHAT = {
    "n_clips": "clips (tracklets)",
    "n_images": "images",
    "n_individuals": "individuals",
    "n_videos": "videos",
    "n_territories": "territories",
    "clips_per_individual": "clips per individual, mean",
    "n_several_years": "individuals filmed in more than one year",
    "share_several_years": "share of such individuals, in [0, 1]",
    "n_years": "years",
    "list_territory": "birds in the list of a territory, mean over videos",
    "list_territory_min": "birds in the shortest list of a territory",
    "list_territory_max": "birds in the longest list of a territory",
    "list_neighbours": "birds in the list with neighbours, mean over videos",
    "list_neighbours_min": "birds in the shortest list with neighbours",
    "list_neighbours_max": "birds in the longest list with neighbours",
}
#: As printed: number, decimals, where.
_PUBLISHED: dict[str, tuple[tuple[float, int, str], ...]] = {
    "n_clips": ((16190, 0, PAPER), (16110, 0, FILES)),
    "n_images": ((402750, 0, FILES),),
    "n_individuals": ((183, 0, PAPER), (182, 0, FILES)),
    "n_videos": ((443, 0, PAPER),),
    "n_years": ((9, 0, PAPER),),
    "clips_per_individual": ((89, 0, PAPER),),
    "n_several_years": ((59, 0, PAPER),),
    "share_several_years": ((0.3242, 4, PAPER),),
    "list_territory": ((2.92, 2, PAPER),),
    "list_territory_min": ((2, 0, PAPER),),
    "list_territory_max": ((4, 0, PAPER),),
    "list_neighbours": ((14.58, 2, PAPER),),
    "list_neighbours_min": ((9, 0, PAPER),),
    "list_neighbours_max": ((25, 0, PAPER),),
}
_NO_YEARS, _NO_LISTS = "years are not known", "there are no lists"


def counts(
    clips: pl.DataFrame, *, candidates: pl.DataFrame | None = None, published: Sequence[str] = ()
) -> pl.DataFrame:
    """Count clips, images, birds, videos, years and lists.

    Args:
        clips: table ``reid_clips``.
        candidates: table ``reid_candidates``; lists of videos that a clip is from are counted, empty ones too.
        published: papers to compare with (known: ``chirp``).

    Returns:
        what (:data:`WHAT` says what it counts), computed (null with its reason), published (null without the paper),
        verdict, source, reason: one row per number and source, since a paper and the description of its files can
        differ. A verdict compares at the printed decimals: equal, differs, not published, or not computed.

    >>> clips = pl.DataFrame({"video_id": ["v"], "individual_id": ["a"], "n_images": [25]})
    >>> counts(clips, published=["chirp"]).filter(what="n_individuals")["verdict"].to_list()
    ['differs', 'differs']
    """
    rows = []
    for what, (value, reason) in _computed(clips, candidates).items():
        printed = _PUBLISHED.get(what, ()) if CHIRP in published else ()
        for number, decimals, source in printed:
            rows.append((what, value, float(number), _verdict(value, number, decimals), source, reason))
        if not printed:
            rows.append((what, value, None, NOT_PUBLISHED, None, reason))
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def _verdict(value: float | None, number: float, decimals: int) -> str:
    if value is None:
        return NOT_COMPUTED
    # Half a unit of the last printed decimal: whichever way halves were rounded, it is the same number.
    return EQUAL if abs(value - number) <= 0.5 * 10**-decimals + 1e-12 else DIFFERS


def _computed(clips: pl.DataFrame, candidates: pl.DataFrame | None) -> dict[str, tuple[float | None, str | None]]:
    n_birds, n_images = clips["individual_id"].n_unique(), clips["n_images"].sum()
    territories = clips["territory"].drop_nulls().n_unique() if "territory" in clips.columns else 0
    out: dict[str, tuple[float | None, str | None]] = {
        "n_clips": (float(clips.height), None),
        "n_images": (float(n_images), None) if n_images else (None, "images are not known"),
        "n_individuals": (float(n_birds), None),
        "n_videos": (float(clips["video_id"].n_unique()), None),
        "n_territories": (float(territories), None) if territories else (None, "territories are not known"),
        "clips_per_individual": (clips.height / n_birds, None) if n_birds else (None, "there are no clips"),
    }
    out |= _years(clips, n_birds)
    for gallery in ("territory", "neighbours"):
        out |= _lists(clips, candidates, gallery)
    return out


def _years(clips: pl.DataFrame, n_birds: int) -> dict[str, tuple[float | None, str | None]]:
    names = ("n_several_years", "share_several_years", "n_years")
    known = clips.filter(pl.col("year").is_not_null()) if "year" in clips.columns else clips.clear()
    if known.is_empty():
        return dict.fromkeys(names, (None, _NO_YEARS))
    without = clips.height - known.height
    reason = f"{without} clips without a year are not counted" if without else None
    each = known.group_by("individual_id").agg(pl.col("year").n_unique())
    several = each.filter(pl.col("year") > 1).height
    values = (float(several), several / n_birds, float(known["year"].n_unique()))
    return {name: (value, reason) for name, value in zip(names, values, strict=True)}


def _lists(
    clips: pl.DataFrame, candidates: pl.DataFrame | None, gallery: str
) -> dict[str, tuple[float | None, str | None]]:
    names = (f"list_{gallery}", f"list_{gallery}_min", f"list_{gallery}_max")
    if candidates is None:
        return dict.fromkeys(names, (None, _NO_LISTS))
    lists = candidates.filter(pl.col("gallery").cast(pl.String) == gallery)
    lists = lists.join(clips.select("video_id").unique(), on="video_id", how="semi")
    if lists.is_empty():
        return dict.fromkeys(names, (None, _NO_LISTS))
    length = lists["candidates"].list.len().cast(pl.Float64)
    return {name: (value, None) for name, value in zip(names, (length.mean(), length.min(), length.max()), strict=True)}
