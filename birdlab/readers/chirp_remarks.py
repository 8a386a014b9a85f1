"""What is odd in an application set that can be read: counted, named and shown."""

from __future__ import annotations

import polars as pl

from birdlab.readers.files import Notice

_CORNERS = ["xmin", "ymin", "xmax", "ymax"]
_FLAT = (pl.col("xmax") <= pl.col("xmin")) | (pl.col("ymax") <= pl.col("ymin"))
_TRACK = ["tracker", "video_id", "track_id"]


def remarks(
    videos: pl.DataFrame, boxes: pl.DataFrame, events: pl.DataFrame, tracks: pl.DataFrame,
    names: pl.DataFrame, windows: pl.DataFrame, human: pl.DataFrame, combinations: pl.DataFrame,
) -> list[Notice]:  # fmt: skip
    """Notices about tables of :class:`birdlab.readers.chirp.Colony`; nothing that is 0 is one."""
    lengths = videos.select("video_id", "n_frames")
    outside = (pl.col("frame") < 0) | (pl.col("frame") >= pl.col("n_frames"))
    beyond = (pl.col("end") > pl.col("n_frames")) | (pl.col("start") < 0)
    late = (pl.col("end") >= pl.col("n_frames")) | (pl.col("start") < 0)
    empty = windows.filter(pl.col("end") <= pl.col("start"))
    counts = [
        ("unknown_bird", "boxes by hand of no known bird: left out", boxes["individual_id"].null_count()),
        ("unknown_event", "behaviours by hand of no known bird: left out (documented)",
         events["individual_id"].null_count()),
        ("duplicate_box", "boxes by hand that stand in the file twice: counted once (documented)",
         boxes.height - boxes.unique(["video_id", "frame", "visit_id", *_CORNERS]).height),
        ("flat_box", "boxes by hand without area, or with corners the wrong way round: not counted (documented)",
         boxes.filter(_FLAT).height),
        ("flat_track_box", "boxes of trackers without area, or with corners the wrong way round: match nothing",
         tracks.filter(_FLAT).height),
        ("duplicate_track_box", "boxes of trackers that stand in the file twice",
         tracks.height - tracks.unique([*_TRACK, "frame", *_CORNERS]).height),
        ("frame_outside", "boxes by hand outside the length of their video: not counted (documented)",
         boxes.join(lengths, on="video_id").filter(outside).height),
        ("track_frame_outside", "boxes of trackers outside the length of their video: not counted (documented)",
         tracks.join(lengths, on="video_id").filter(outside).height),
        ("event_outside",
         "behaviours by hand that reach outside the length of their video: clipped, or left out where all of it lies outside "
         "(documented)",
         events.join(lengths, on="video_id").filter(late).height),
        ("duplicate_event", "behaviours by hand that stand in the file twice: counted once (documented)",
         events.height - events.unique(["video_id", "label", "behaviour", "start", "end"]).height),
        ("empty_window", f"windows that end where they begin, or before: empty (documented){_first(empty, 'track')}", empty.height),
        ("window_beyond", "windows that reach outside the length of their video: only what lies inside counts (documented)",
         windows.join(lengths, on="video_id").filter(beyond).height),
        ("human_outside", "rows coded again outside the length of their video: not counted (documented)",
         human.join(lengths, on="video_id").filter(outside).height),
        ("peck_absent", "rows coded again as a peck of a bird that is coded as absent: counted as pecks",
         human.filter(pl.col("peck") & ~pl.col("present")).height),
    ]  # fmt: skip
    notices = [Notice(code, text, n) for code, text, n in counts if n]
    notices += [*_nothing(videos, boxes, events, windows), *_coded_again(boxes, events, human)]
    notices += [*_unnamed(tracks, names, windows), *_case(boxes, events, names, windows)]
    if combinations.is_empty():
        notices.append(Notice("no_combination", "no tracker has both behaviours and names of birds", 0))
    missing = combinations.filter(~pl.col("complete"))
    if missing.height:
        absent = sorted({video for videos in missing["missing_videos"].to_list() for video in videos})
        text = f"combinations that lack a video of MetaData.csv ({_some(absent)})"
        notices.append(Notice("incomplete", text, missing.height))
    return notices + _impossible(videos, boxes, names)


def _nothing(videos: pl.DataFrame, boxes: pl.DataFrame, events: pl.DataFrame, windows: pl.DataFrame) -> list[Notice]:
    """Truth and predictions in which there is nothing to find."""
    notices = []
    seen = boxes.drop_nulls("individual_id")["video_id"].unique().to_list()
    if empty := [video for video in videos["video_id"] if video not in seen]:
        notices.append(Notice("no_bird", f"videos without a box of a known bird by hand ({_some(empty)})", len(empty)))
    if events.filter(_peck("behaviour") & pl.col("individual_id").is_not_null()).is_empty():
        notices.append(Notice("no_peck", "no peck of a known bird by hand in any video: every true rate is 0", 0))
    for (model,), part in windows.group_by("model", maintain_order=True):
        if not part.select(_peck("label").any()).item():
            labels = _some(sorted(part["label"].unique()))
            notices.append(Notice("never_pecks", f"{model} calls no window Peck, only {labels}", part.height))
    return notices


def _coded_again(boxes: pl.DataFrame, events: pl.DataFrame, human: pl.DataFrame) -> list[Notice]:
    """Birds of coded videos that only one of the two people has."""
    key, notices = ["video_id", "individual_id"], []
    coded = human.select(key).unique()
    there = pl.concat([boxes.select(key), events.select(key)]).drop_nulls().unique()
    there = there.join(coded.select("video_id").unique(), on="video_id", how="semi")
    for code, text, lost in (
        ("human_missing", "birds by hand of videos coded again that have no coding: not in what a person reaches",
         there.join(coded, on=key, how="anti")),
        ("human_unseen", "birds coded again that are not in the truth by hand of their video",
         coded.join(there, on=key, how="anti")),
    ):  # fmt: skip
        if lost.height:
            names = _some([f"{bird} in {video}" for video, bird in lost.sort(key).rows()])
            notices.append(Notice(code, f"{text} ({names})", lost.height))
    return notices


def _unnamed(tracks: pl.DataFrame, names: pl.DataFrame, windows: pl.DataFrame) -> list[Notice]:
    """Names and windows of tracks without a box; tracks that a method leaves without a name."""
    followed = tracks.select(_TRACK).unique()
    notices = []
    for code, what, frame in (("name_without_track", "names", names), ("window_without_track", "windows", windows)):
        lost = frame.join(followed, on=_TRACK, how="anti")
        if lost.height:
            notices.append(Notice(code, f"{what} of tracks that have no box{_first(lost, 'track')}", lost.height))
    methods = names.select("identity", "tracker", "video_id").unique()
    lost = followed.join(methods, on=["tracker", "video_id"]).join(names, on=[*_TRACK, "identity"], how="anti")
    if lost.height:
        text = f"tracks that a method leaves without a name{_first(lost.sort(lost.columns), 'track')}: no bird"
        notices.append(Notice("track_without_name", text, lost.height))
    return notices


def _case(boxes: pl.DataFrame, events: pl.DataFrame, names: pl.DataFrame, windows: pl.DataFrame) -> list[Notice]:
    """Behaviours and birds that differ from the known ones in capitals only."""
    notices = []
    odd = windows.filter((pl.col("label").str.to_lowercase() == "peck") & (pl.col("label") != "Peck"))
    for (label,), part in odd.group_by("label", maintain_order=True):
        first = part.row(0, named=True)
        where = f"{first['video_id']}_BehavDict_{first['model']}_{first['tracker']}"
        text = f"windows called {label!r}, {where} first: counted as Peck (documented)"
        notices.append(Notice("label_case", text, part.height))
    truth = {bird for frame in (boxes, events) for bird in frame["individual_id"].drop_nulls().unique().to_list()}
    folded = {bird.casefold() for bird in truth}
    named = set(names["individual_id"].drop_nulls().unique().to_list())
    if odd_birds := sorted(b for b in named - truth if b.casefold() in folded):
        text = f"birds called as by hand but for capitals ({_some(odd_birds)}): another bird"
        notices.append(Notice("bird_case", text, len(odd_birds)))
    return notices


def _impossible(videos: pl.DataFrame, boxes: pl.DataFrame, names: pl.DataFrame) -> list[Notice]:
    """Birds that nobody said may occur in a video."""
    listed = videos.filter(pl.col("possible").list.len() > 0)
    pairs = listed.select("video_id", pl.col("possible").alias("individual_id")).explode("individual_id")
    notices = []
    for code, what, frame in (("not_possible", "birds by hand", boxes), ("named_not_possible", "birds named", names)):
        there = frame.select("video_id", "individual_id").drop_nulls().unique()
        there = there.join(listed.select("video_id"), on="video_id", how="semi")
        odd = there.join(pairs, on=["video_id", "individual_id"], how="anti").sort("video_id", "individual_id")
        if odd.height:
            shown = _some([f"{bird} in {video}" for video, bird in odd.rows()])
            text = f"{what} that are not among the possible birds of their video ({shown})"
            notices.append(Notice(code, text, odd.height))
    return notices


def _peck(column: str) -> pl.Expr:
    return pl.col(column).str.strip_chars().str.to_lowercase() == "peck"


def _some(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _first(frame: pl.DataFrame, what: str) -> str:
    if frame.is_empty():
        return ""
    row = frame.row(0, named=True)
    return f" ({what} {row['track_id']} of {row['tracker']} in {row['video_id']} first)"
