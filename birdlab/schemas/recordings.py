"""What was recorded and what was labelled."""

from __future__ import annotations

import polars as pl

from birdlab.schemas.constants import LABEL_STATES, SPLITS
from birdlab.schemas.contract import I32, I64, B, F, S, may, must, table

BOX = (
    must("x", F, "left edge of the box, px"),
    must("y", F, "top edge of the box, px"),
    must("w", F, "width of the box, px"),
    must("h", F, "height of the box, px"),
)


TABLES = (
    table(
        "media",
        "One row per file that was recorded: a photograph, a video file, a sound file.",
        ("media_id",),
        must("dataset", S, "name of the data set"),
        must("media_id", S, "path relative to the data root, with forward slashes"),
        must("kind", pl.Enum(["image", "video", "audio"]), "what the file is"),
        must("path", S, "where the file lies now"),
        must("video_id", S, "recording session the file belongs to"),
        may("site_id", S, "nest, feeder or place"),
        may("camera_id", S, "camera"),
        may("sha256", S, "hash of the file's bytes, hexadecimal"),
        may("bytes", I64, "size of the file, bytes"),
        may("width_px", I32, "width as displayed (orientation applied), px"),
        may("height_px", I32, "height as displayed (orientation applied), px"),
        may("fps", F, "mean frame rate, Hz"),
        may("duration_s", F, "length, s"),
        may("sample_rate_hz", I32, "sound samples per second, Hz"),
        may("recorded_at", pl.Datetime("us", "UTC"), "start of the recording"),
        may("start_s", F, "start of the file on its session's clock, s"),
    ),
    table(
        "frames",
        "One row per still image that can be looked at: a photograph or a frame of a video.",
        ("frame_id",),
        must("frame_id", S, "media_id of a photograph; media_id#frame_index of a video frame"),
        must("media_id", S, "file the frame comes from"),
        must("video_id", S, "recording session: the cluster of intervals and splits"),
        may("site_id", S, "nest, feeder or place"),
        may("camera_id", S, "camera"),
        must("frame_index", I32, "0-based position in its file (0 for a photograph)"),
        may("time_s", F, "time on the session's clock, s"),
        may("width_px", I32, "width, px; null when the file could not be read"),
        may("height_px", I32, "height, px; null when the file could not be read"),
        must("split", pl.Enum(SPLITS), "which part of the study the frame belongs to"),
        must(
            "label_state",
            pl.Enum(LABEL_STATES),
            "labelled, empty (looked at, no bird) or unlabelled (not looked at)",
        ),
    ),
    table(
        "labels",
        "One row per labelled bird, or per region that is left out of scoring.",
        ("label_id",),
        must("label_id", S, "identifier, unique in the study"),
        must("frame_id", S, "frame"),
        must("category", S, "class name"),
        *BOX,
        may("area_px", F, "area as the label file gives it (of the mask where there is one), px²"),
        may("mask_rle", S, 'COCO RLE as JSON text: {"size": [h, w], "counts": "…"} (compressed counts)'),
        must("is_crowd", B, "a group too dense to box one by one: absorbs any number of detections"),
        must("is_ignored", B, "left out of scoring: not a bird to be found, and nothing found there is an error"),
        may("individual_id", S, "which bird"),
        may("track_id", S, "track of the bird through the frames"),
        may("source", S, "label file"),
    ),
)
