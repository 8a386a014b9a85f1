"""00_data_audit: what there is, whether the splits are clean, which labels deserve a second look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import count, num, pct, table_of, value
from birdlab.report.show import Panel
from birdlab.report.table import Col

_COUNTS = {
    "frames": Col("Frames", kind="int"),
    "labelled": Col("Labelled", kind="int"),
    "empty": Col("Empty", kind="int"),
    "unlabelled": Col("Not", "looked at", kind="int"),
    "birds": Col("Birds", kind="int"),
    "masks": Col("Masks", kind="int"),
    "birds_per_frame": Col("Per frame", "mean", digits=2),
    "max_birds": Col("Per frame", "most", kind="int"),
    "median_box_px": Col("Median box", "px²", kind="int"),
    "median_box_frac": Col("Median box", "% of frame", kind="percent", digits=2),
}
SPLIT_COLUMNS = {
    "split": Col("Split", kind="text"),
    "sites": Col("Sites", kind="int"),
    "sessions": Col("Sessions", kind="int"),
    **{name: column for name, column in _COUNTS.items() if name != "max_birds"},
}
SESSION_COLUMNS = {"video_id": Col("Session", kind="text"), **_COUNTS}
LEAK_COLUMNS = {
    "kind": Col("What", kind="text"),
    "what": Col("Which", kind="text"),
    "splits": Col("Splits", kind="text"),
}
AGREEMENT_COLUMNS = {
    "frames": Col("Frames labelled twice", kind="int"),
    "ap": Col("AP", "IoU .50–.95"),
    "ap50": Col("AP50", "IoU .50"),
    "recall": Col("Recall", "IoU .50"),
    "precision": Col("Precision", "IoU .50"),
    "mean_iou": Col("Mean IoU", "of pairs that agree"),
}
DOUBT_COLUMNS = {
    "kind": Col("What", kind="text"),
    "n": Col("How many", kind="int"),
    "examples": Col("Examples", kind="text"),
}
NOTICE_COLUMNS = {
    "message": Col("What", kind="text"),
    "n": Col("How many", kind="int"),
    "file": Col("File", kind="text"),
}
REASONS = {
    "birds_per_frame": "no frame is labelled",
    "max_birds": "no bird is labelled",
    "median_box_px": "no bird is labelled",
    "median_box_frac": "no bird is labelled",
    "file": "concerns no single file",
}


def answer(
    frames: pl.DataFrame, labels: pl.DataFrame, leaks: pl.DataFrame, doubtful: pl.DataFrame, *, made: bool
) -> tuple[str, str, str]:
    """Question, answer and detail."""
    birds = labels.filter(~pl.col("is_ignored") & ~pl.col("is_crowd")).height
    sessions, sites = frames["video_id"].n_unique(), frames["site_id"].drop_nulls().n_unique()
    strong = leaks.filter(~pl.col("kind").is_in(["site", "date"])).height
    if frames.filter(pl.col("label_state") != "unlabelled").is_empty():
        clean = "Nobody has labelled these frames: they can be shown, not scored."
    elif frames["split"].n_unique() == 1:
        clean = "One split, so nothing can leak between splits."
    elif strong:
        clean = (
            f"No: {count(strong, 'session, file or frame stands', 'sessions, files or frames stand')} in two splits."
        )
    else:
        clean = "Yes: the splits share no session, file or frame."
    place = f" at {count(sites, 'site', 'sites')}" if sites else ""
    detail = f"{count(frames.height, 'frame', 'frames')} with {count(birds, 'labelled bird', 'labelled birds')} from "
    detail += f"{count(sessions, 'session', 'sessions')}{place}."
    if doubtful.height:
        detail += f" {count(doubtful.height, 'label deserves', 'labels deserve')} a second look."
    return (
        "What data do we have, and are the splits clean?",
        clean,
        detail + (" The data are made, not recorded." if made else ""),
    )


def splits_title(by_split: pl.DataFrame) -> str:
    """What the table of splits shows."""
    birds = by_split.drop_nulls("median_box_frac")
    if birds.is_empty():
        return "No bird is labelled."
    row = birds.sort("birds", descending=True).row(0, named=True)
    return f"Half of the birds in {row['split']} take less than {100 * row['median_box_frac']:.2f} % of the frame."


def sessions_title(sessions: pl.DataFrame) -> str:
    """What the table of sessions shows."""
    most, fewest = sessions["birds"].max(), sessions["birds"].min()
    if sessions.height == 1:
        return f"One session with {count(int(most), 'bird', 'birds')}: nothing here says what another would bring."
    if not most:
        return f"{sessions.height} sessions, none with a labelled bird."
    return f"{sessions.height} sessions, with {fewest} to {most} birds each."


def size_bins(frames: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Labelled birds per bin of relative size; empty outer bins are left out.

    Returns:
        ``level``, ``lo``, ``hi`` (in s_r = √(wh/WH), Western Bluebird Eq. 1, half-open), ``n``.
    """
    from birdlab.detection.boxes import RELATIVE_BINS

    sizes = (
        labels.filter(~pl.col("is_ignored") & ~pl.col("is_crowd"))
        .join(frames.select("frame_id", "width_px", "height_px"), on="frame_id", how="inner")
        .select((pl.col("w") * pl.col("h") / (pl.col("width_px") * pl.col("height_px"))).sqrt().alias("s"))["s"]
    )
    rows = [
        {"level": b.level, "lo": b.lo, "hi": b.hi, "n": int(((sizes >= b.lo) & (sizes < b.hi)).sum())}
        for b in RELATIVE_BINS
    ]
    filled = [i for i, r in enumerate(rows) if r["n"]]
    kept = rows[max(0, filled[0] - 1) : filled[-1] + 2] if filled else []
    return pl.DataFrame(kept, schema={"level": pl.String, "lo": pl.Float64, "hi": pl.Float64, "n": pl.Int64})


def sizes_title(bins: pl.DataFrame) -> str:
    """What the figure of sizes shows."""
    if bins.is_empty():
        return "No bird is labelled."
    top = bins.sort("n", descending=True).row(0, named=True)
    share = 100 * top["n"] / bins["n"].sum()
    return f"{share:.0f} % of the birds are between {top['level'].replace('-', ' and ')} of the frame's side."


def sizes_alt(bins: pl.DataFrame) -> str:
    """The bars in words."""
    said = ", ".join(f"{r['n']} in {r['level'].replace('-', ' to ')}" for r in bins.to_dicts())
    return f"Birds by relative size: {said or 'none'}."


def samples_title(samples: Sequence[Panel], frames: pl.DataFrame, *, made: bool) -> str:
    """What the gallery of sessions shows."""
    sessions = frames["video_id"].n_unique()
    what = "made frame" if made else "frame"
    if len(samples) < sessions:
        return f"One {what} from {len(samples)} of {sessions} sessions."
    return (
        f"One {what} from each of {count(sessions, 'session', 'sessions')}."
        if sessions != 1
        else f"One {what} of the session."
    )


def anatomy_title(panels: Sequence[Panel]) -> str:
    """What the gallery of label kinds shows."""
    if not panels:
        return "No bird is labelled."
    return "What a label holds: a box and an outline." if len(panels) == 4 else "What a label holds: a box."


def leak_list(leaks: pl.DataFrame, differences: pl.DataFrame) -> pl.DataFrame:
    """Leaks and differences between splits in one list, most serious first."""
    differ = differences.select(
        pl.lit("differs").alias("kind"),
        pl.format("{}: {} against {}", "what", pl.col("value_a").round(4), pl.col("value_b").round(4)).alias("what"),
        pl.format("{}, {}", "a", "b").alias("splits"),
    )
    found = leaks.select("kind", pl.format("{} ({} frames)", "what", "n").alias("what"), "splits")
    return pl.concat([found, differ])


def leaks_title(found: pl.DataFrame, by_split: pl.DataFrame) -> str:
    """What the list of leaks shows."""
    if by_split.height < 2:
        return "There is one split, so there is nothing to compare."
    return (
        "No leak and no large difference was found."
        if found.is_empty()
        else f"{count(found.height, 'finding', 'findings')}."
    )


def agreement(metrics: pl.DataFrame) -> pl.DataFrame:
    """The second labelling against the first, one row; nulls where no frame was labelled twice."""
    why = metrics["reason"].drop_nulls().to_list()
    names = {
        "frames": "n_frames",
        "ap": "ap",
        "ap50": "ap50",
        "recall": "recall",
        "precision": "precision",
        "mean_iou": "mean_iou",
    }
    row: dict[str, Any] = {column: value(metrics, metric, "human") for column, metric in names.items()}
    reasons = {f"{c}_reason": why[0] if why else "no frame was labelled twice" for c, v in row.items() if v is None}
    return table_of([{"who": "second against first", **row, **reasons}], ["who", *names], text=("who",))


def agreement_title(metrics: pl.DataFrame) -> str:
    """What the table of agreement shows."""
    recall = value(metrics, "recall", "human")
    if recall is None:
        return "No frame was labelled twice: how far people agree is unknown."
    return f"The second observer boxed {pct(recall)} of the first one's birds, with AP {num(value(metrics, 'ap', 'human'))}."


def doubts(doubtful: pl.DataFrame, repeated: pl.DataFrame) -> pl.DataFrame:
    """Doubtful labels and repeated files by kind: how many, and up to ten examples."""
    by_kind = doubtful.group_by("kind", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("n"),
        pl.format("{} in {}", "label_id", "frame_id").head(10).str.join("; ").alias("examples"),
    )
    if repeated.height:
        files = repeated.select(
            pl.lit("the same file twice").alias("kind"),
            pl.len().cast(pl.Int64).alias("n"),
            pl.col("files").head(10).str.join(" | ").alias("examples"),
        ).head(1)
        by_kind = pl.concat([by_kind, files])
    return by_kind.select("kind", "n", "examples")


def doubts_title(found: pl.DataFrame) -> str:
    """What the table of doubtful labels shows."""
    return (
        "No label looks doubtful."
        if found.is_empty()
        else f"{count(int(found['n'].sum()), 'label or file', 'labels or files')} to look at."
    )


def notices_title(notices: pl.DataFrame) -> str:
    """What the table of notices shows."""
    return (
        "Nothing was skipped or assumed."
        if notices.is_empty()
        else f"{count(notices.height, 'thing', 'things')} to know about how the files were read."
    )
