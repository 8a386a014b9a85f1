"""Which birds each clip may show, with the codes they wore that day; and which clips show two birds at once."""

from __future__ import annotations

import polars as pl

from birdlab.individuals.rings.roster import codes_by_date

CANDIDATES = {"gallery": pl.String, "clip_id": pl.String, "individual_id": pl.String, "code": pl.String}
TOGETHER = {"clip_id": pl.String, "other_id": pl.String, "n_common": pl.Int64}


def ring_candidates(
    clips: pl.DataFrame, lists: pl.DataFrame, roster: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Candidates of every clip in every gallery.

    Args:
        clips: clip_id, video_id, date of the clips that are asked for.
        lists: table ``reid_candidates``.
        roster: table ``ring_roster``.

    Returns:
        gallery, clip_id, individual_id, code, and the notices of :func:`codes_by_date`. ``territory`` and ``neighbours``:
        the list of the clip's video; a bird without a code on that day has a null code, an empty list is one row without a
        bird, a clip whose video has no list is not there. ``all``: every bird that wears a code on that day.
    """
    worn, notices = codes_by_date(roster, clips["date"])
    dated = clips.select("clip_id", "video_id", "date")
    listed = dated.join(lists.with_columns(pl.col("gallery").cast(pl.String)), on="video_id", maintain_order="left")
    rows = listed.explode("candidates", empty_as_null=True).rename({"candidates": "individual_id"})
    coded = rows.join(worn, on=["date", "individual_id"], how="left", nulls_equal=True, maintain_order="left")
    everyone = dated.join(worn, on="date", how="left", nulls_equal=True, maintain_order="left").with_columns(
        gallery=pl.lit("all")
    )
    return pl.concat([part.select(list(CANDIDATES)).cast(CANDIDATES) for part in (coded, everyone)]), notices


def together_of(clips: pl.DataFrame) -> pl.DataFrame:
    """Pairs of clips of one video that overlap in time: two birds were in view at once.

    Args:
        clips: clip_id, video_id, n_images and, where it is known, start_frame (first frame in the video).

    Returns:
        clip_id, other_id, n_common (frames); each pair once. No start_frame: no pair is known.

    >>> clips = pl.DataFrame({"clip_id": ["a", "b"], "video_id": "v", "n_images": [25, 25], "start_frame": [0, 20]})
    >>> together_of(clips).rows()
    [('a', 'b', 5)]
    """
    if "start_frame" not in clips.columns:
        return pl.DataFrame(schema=TOGETHER)
    at = clips.drop_nulls("start_frame").select("clip_id", "video_id", "start_frame", "n_images").with_row_index("row")
    pairs = at.join(at, on="video_id", suffix="_b").filter(pl.col("row") < pl.col("row_b"))
    starts, ends = (
        pl.max_horizontal("start_frame", "start_frame_b"),
        pl.min_horizontal(pl.col("start_frame") + pl.col("n_images"), pl.col("start_frame_b") + pl.col("n_images_b")),
    )
    pairs = pairs.with_columns(n_common=(ends - starts).cast(pl.Int64)).filter(pl.col("n_common") > 0)
    return (
        pairs.select("clip_id", pl.col("clip_id_b").alias("other_id"), "n_common")
        .cast(TOGETHER)
        .sort("clip_id", "other_id")
    )
