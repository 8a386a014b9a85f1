"""What there is before anything is scored: hours, silence, species and what is odd, by recorder, month and hour."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from birdlab.soundscapes.coded import SEGMENT_S

#: Name of a count → what is counted.
COUNTS = {
    "recordings": "recordings",
    "hours": "hours recorded",
    "without_length": "recordings whose length is not known; they reach to their last annotation",
    "without_start": "recordings whose local start is not known; they are in no month and hour",
    "silent_recordings": "recordings without an annotation",
    "annotations": "annotations",
    "distinct_annotations": "annotations that differ in recording, species or times",
    "species": "species annotated",
    "segments": "segments of 5 s",
    "segments_with_species": "segments with a species, up to the ends of the recordings",
    "segment_species": "pairs of segment and species, past an end too, as scored",
    "past_the_end": "annotations past the end of their recording",
    "without_span": "annotations that cover no segment (reversed, or of length zero on the grid)",
    "outside_recordings": "annotations of recordings that are not in the table",
    "outside_classes": "annotations of species that are not in the class list",
    "classes": "species in the class list",
    "never": "species in the class list that never occur",
}


def audit_tables(
    recordings: pl.DataFrame, annotations: pl.DataFrame, *, classes: Sequence[str] | None = None
) -> dict[str, pl.DataFrame]:
    """Tables about a set of soundscapes.

    A segment is silent where no species is annotated; months and hours are those of the segment on local clocks, not of
    the start of its recording. Spans are rounded to segments as in the scores. A recording whose length is not known has the
    segments up to its last annotated one.

    Args:
        recordings: table ``soundscape_recordings``.
        annotations: table ``annotations``; of recordings that are not in the table they are counted and else left out.
        classes: class list.

    Returns:
        ``by_month``: recorder, month (``YYYY-MM``, null: not known), n_recordings, n_silent (recordings), n_segments, hours,
        silent_share (of segments; null without one), reason. ``by_hour``: hour (0–23), the same. ``counts``: name, label,
        value (null: cannot be said), reason. ``species``: class_id, n_annotations, n_segments, n_recordings, in_classes.
        ``never``: class_id of the list without an annotation. ``silent``: media_id of recordings without an annotation.
    """
    recordings = _whole(recordings)
    inside = annotations.join(recordings.select("media_id"), on="media_id", how="semi")
    heard = _heard(inside)
    segments = _segments(recordings, heard, inside)
    return {
        "by_month": _shares(segments, ["recorder", "month"]),
        "by_hour": _shares(segments, ["hour"]),
        "counts": _counts(recordings, annotations, heard, segments, classes),
        "species": _species(inside, heard, classes),
        "never": pl.DataFrame({"class_id": _never(inside, classes)}, schema={"class_id": pl.String}),
        "silent": recordings.join(inside, on="media_id", how="anti").select("media_id").sort("media_id"),
    }


def _whole(recordings: pl.DataFrame) -> pl.DataFrame:
    wanted = {"duration_s": pl.Float64, "recorder": pl.String, "start_local": pl.Datetime("us")}
    add = [pl.lit(None, dtype=kind).alias(name) for name, kind in wanted.items() if name not in recordings.columns]
    return recordings.with_columns(add).select("media_id", *wanted)


def _heard(annotations: pl.DataFrame) -> pl.DataFrame:
    """media_id, class_id, k: number of the segment in its recording; each once."""
    first = (pl.col("start_s").clip(lower_bound=0) / SEGMENT_S).floor().cast(pl.Int64)
    last = (pl.col("end_s").clip(lower_bound=0) / SEGMENT_S).ceil().cast(pl.Int64)
    spans = annotations.select("media_id", "class_id", first=first, last=last).filter(pl.col("first") < pl.col("last"))
    return spans.select("media_id", "class_id", k=pl.int_ranges("first", "last")).explode("k").unique()


def _segments(recordings: pl.DataFrame, heard: pl.DataFrame, annotations: pl.DataFrame) -> pl.DataFrame:
    """One row per segment: media_id, k, recorder, month, hour, seconds (the last may be shorter), heard.

    A recording without a segment has one row with k null: it is still a recording of its recorder.
    """
    reach = heard.group_by("media_id").agg(reach=pl.col("k").max() + 1)
    held = recordings.join(reach, on="media_id", how="left")
    n = pl.coalesce((pl.col("duration_s") / SEGMENT_S).ceil().cast(pl.Int64), pl.col("reach"), pl.lit(0))
    rows = held.with_columns(k=pl.int_ranges(pl.lit(0), n)).explode("k", empty_as_null=True)
    when = pl.col("start_local") + pl.duration(seconds=pl.col("k").fill_null(0) * SEGMENT_S)
    seconds = pl.min_horizontal(pl.lit(float(SEGMENT_S)), pl.col("duration_s") - pl.col("k") * SEGMENT_S)
    rows = rows.with_columns(
        month=when.dt.strftime("%Y-%m"),
        hour=when.dt.hour().cast(pl.Int32),
        seconds=pl.when(pl.col("k").is_null()).then(0.0).otherwise(seconds.fill_null(float(SEGMENT_S))),
    )
    some = heard.select("media_id", "k").unique().with_columns(heard=pl.lit(True))
    rows = rows.join(some, on=["media_id", "k"], how="left", maintain_order="left")
    silent = (
        recordings.join(annotations, on="media_id", how="anti").select("media_id").with_columns(silent=pl.lit(True))
    )
    rows = rows.join(silent, on="media_id", how="left", maintain_order="left")
    return rows.with_columns(pl.col("heard", "silent").fill_null(False))


def _shares(segments: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    n = pl.col("k").is_not_null().sum().cast(pl.Int64)
    none = pl.lit("no segment: length not known and nothing annotated")
    return (
        segments.group_by(by)
        .agg(
            n_recordings=pl.col("media_id").n_unique().cast(pl.Int64),
            n_silent=pl.col("media_id").filter("silent").n_unique().cast(pl.Int64),
            n_segments=n,
            hours=pl.col("seconds").sum() / 3600,
            silent_share=pl.when(n > 0).then(1 - pl.col("heard").sum() / n),
        )
        .with_columns(reason=pl.when(pl.col("n_segments") == 0).then(none))
        .sort(by, nulls_last=True)
    )


def _never(annotations: pl.DataFrame, classes: Sequence[str] | None) -> list[str]:
    held = set(annotations["class_id"])
    return [c for c in dict.fromkeys(classes or ()) if c not in held]


def _species(annotations: pl.DataFrame, heard: pl.DataFrame, classes: Sequence[str] | None) -> pl.DataFrame:
    each = annotations.group_by("class_id").agg(
        n_annotations=pl.len().cast(pl.Int64), n_recordings=pl.col("media_id").n_unique().cast(pl.Int64)
    )
    spans = heard.group_by("class_id").agg(n_segments=pl.len().cast(pl.Int64))
    listed = pl.lit(None, dtype=pl.Boolean) if classes is None else pl.col("class_id").is_in(list(classes))
    table = each.join(spans, on="class_id", how="left").with_columns(
        pl.col("n_segments").fill_null(0), in_classes=listed
    )
    columns = ("class_id", "n_annotations", "n_segments", "n_recordings", "in_classes")
    return table.select(columns).sort(["n_segments", "class_id"], descending=[True, False])


def _counts(
    recordings: pl.DataFrame,
    annotations: pl.DataFrame,
    heard: pl.DataFrame,
    segments: pl.DataFrame,
    classes: Sequence[str] | None,
) -> pl.DataFrame:
    inside = annotations.join(recordings, on="media_id", how="inner")
    spans = ((pl.col("end_s") / SEGMENT_S).ceil() - (pl.col("start_s").clip(lower_bound=0) / SEGMENT_S).floor()) > 0
    n_known = recordings["duration_s"].is_not_null().sum()
    values: dict[str, float | None] = {
        "recordings": recordings.height,
        "hours": segments["seconds"].sum() / 3600,
        "without_length": recordings.height - n_known,
        "without_start": recordings["start_local"].null_count(),
        "silent_recordings": recordings.height - inside["media_id"].n_unique(),
        "annotations": annotations.height,
        "distinct_annotations": annotations.select("media_id", "class_id", "start_s", "end_s").n_unique(),
        "species": annotations["class_id"].n_unique(),
        "segments": segments["k"].is_not_null().sum(),
        "segments_with_species": segments["heard"].sum(),
        "segment_species": heard.height,
        "past_the_end": inside.filter(pl.col("end_s") > pl.col("duration_s") + 1e-3).height if n_known else None,
        "without_span": annotations.filter(~spans).height,
        "outside_recordings": annotations.height - inside.height,
        "outside_classes": None,
        "classes": None,
        "never": None,
    }
    reasons: dict[str, str] = {} if n_known else {"past_the_end": "no length is known"}
    if classes is None:
        reasons |= dict.fromkeys(("outside_classes", "classes", "never"), "no class list")
    else:
        listed = annotations["class_id"].is_in(list(classes))
        values["outside_classes"] = int((~listed).sum())
        values["classes"] = len(set(classes))
        values["never"] = len(_never(inside.select("class_id"), classes))
    rows = [(name, label, values[name], reasons.get(name)) for name, label in COUNTS.items()]
    schema = {"name": pl.String, "label": pl.String, "value": pl.Float64, "reason": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row", strict=False)


__all__ = ["COUNTS", "audit_tables"]
