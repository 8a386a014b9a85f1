"""The tables of birdlab: column names, types, units and meaning, in one place.

Every function that is not a reader or a writer takes and returns polars frames of these shapes. A column
that is unknown or undefined holds ``null``, never 0, -1 or NaN. Boxes are COCO ``x, y, w, h`` in pixels with
the origin at the top left; scores are in [0, 1]; times are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from birdlab.errors import DataError, Problem

SPLITS = ("train", "val", "test", "diagnostic", "application")
LABEL_STATES = ("labelled", "empty", "unlabelled")
OUTCOMES = ("tp", "fp", "fn", "ignored")

_S, _F, _I32, _I64, _B = pl.String, pl.Float64, pl.Int32, pl.Int64, pl.Boolean


@dataclass(frozen=True)
class Column:
    """One column: its name, polars type, meaning (with unit) and whether it may be null."""

    name: str
    dtype: pl.DataType | type[pl.DataType]
    doc: str
    nullable: bool = False


@dataclass(frozen=True)
class Table:
    """The contract of one table: key columns are unique together and never null."""

    name: str
    doc: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def dtypes(self) -> dict[str, pl.DataType]:
        """Column name to polars type, in order."""
        return {c.name: c.dtype for c in self.columns}

    def empty(self) -> pl.DataFrame:
        """A frame with no rows and these columns."""
        return pl.DataFrame(schema=self.dtypes)

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Cast to the declared types, add missing nullable columns as null, order the columns; extra ones stay last."""
        have = set(frame.columns)
        add = [pl.lit(None, dtype=c.dtype).alias(c.name) for c in self.columns if c.name not in have and c.nullable]
        frame = frame.with_columns(add)
        frame = frame.with_columns(pl.col(c.name).cast(c.dtype) for c in self.columns if c.name in frame.columns)
        declared = [c.name for c in self.columns if c.name in frame.columns]
        return frame.select(*declared, *[c for c in frame.columns if c not in set(declared)])

    def validate(self, frame: pl.DataFrame, *, source: str = "") -> pl.DataFrame:
        """Return ``frame`` conformed, or raise one :class:`DataError` that lists everything that is wrong.

        Checked: every declared column is there (nullable ones are added), types can be cast, no null and no NaN
        where none may be, the key is unique.
        """
        where = source or f"table {self.name}"
        problems = [
            Problem("missing_column", "no such column", f"{c.dtype} ({c.doc})", file=where, key=c.name)
            for c in self.columns
            if c.name not in frame.columns and not c.nullable
        ]
        if problems:
            raise DataError(problems)
        try:
            frame = self.conform(frame)
        except (pl.exceptions.PolarsError, TypeError) as error:
            detail = str(error).splitlines()[0]
            raise DataError(Problem("wrong_type", detail, f"the types of table {self.name}", file=where)) from error
        for c in self.columns:
            bad = frame[c.name].is_null()
            if c.dtype == pl.Float64:
                nan = frame[c.name].is_nan().fill_null(False)
                if nan.any():
                    problems.append(_at(frame, nan, "nan", "NaN", "a number or null", where, c.name))
            if not c.nullable and bad.any():
                problems.append(_at(frame, bad, "null", "null", c.doc, where, c.name))
        if self.key and frame.height:
            twice = frame.select(pl.struct(self.key).is_duplicated()).to_series()
            if twice.any():
                problems.append(
                    _at(frame, twice, "duplicate_key", "the same key twice", "unique rows", where, "+".join(self.key))
                )
        if problems:
            raise DataError(problems)
        return frame


def _at(frame: pl.DataFrame, mask: pl.Series, code: str, found: str, expected: str, where: str, key: str) -> Problem:
    first = int(mask.arg_true()[0])
    n = int(mask.sum())
    return Problem(code, f"{found} in {n} of {frame.height} rows", expected, file=where, record=f"row {first}", key=key)


def _table(name: str, doc: str, key: tuple[str, ...], *columns: Column) -> Table:
    return Table(name, doc, key, columns)


def _c(name: str, dtype: pl.DataType | type[pl.DataType], doc: str) -> Column:
    return Column(name, dtype, doc)


def _n(name: str, dtype: pl.DataType | type[pl.DataType], doc: str) -> Column:
    return Column(name, dtype, doc, nullable=True)


_BOX = (
    _c("x", _F, "left edge of the box, px"),
    _c("y", _F, "top edge of the box, px"),
    _c("w", _F, "width of the box, px"),
    _c("h", _F, "height of the box, px"),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        _table(
            "media",
            "One row per file that was recorded: a photograph, a video file, a sound file.",
            ("media_id",),
            _c("dataset", _S, "name of the data set"),
            _c("media_id", _S, "path relative to the data root, with forward slashes"),
            _c("kind", pl.Enum(["image", "video", "audio"]), "what the file is"),
            _c("path", _S, "where the file lies now"),
            _c("video_id", _S, "recording session the file belongs to"),
            _n("site_id", _S, "nest, feeder or place"),
            _n("camera_id", _S, "camera"),
            _n("sha256", _S, "hash of the file's bytes, hexadecimal"),
            _n("bytes", _I64, "size of the file, bytes"),
            _n("width_px", _I32, "width as displayed (orientation applied), px"),
            _n("height_px", _I32, "height as displayed (orientation applied), px"),
            _n("fps", _F, "mean frame rate, Hz"),
            _n("duration_s", _F, "length, s"),
            _n("sample_rate_hz", _I32, "sound samples per second, Hz"),
            _n("recorded_at", pl.Datetime("us", "UTC"), "start of the recording"),
            _n("start_s", _F, "start of the file on its session's clock, s"),
        ),
        _table(
            "frames",
            "One row per still image that can be looked at: a photograph or a frame of a video.",
            ("frame_id",),
            _c("frame_id", _S, "media_id of a photograph; media_id#frame_index of a video frame"),
            _c("media_id", _S, "file the frame comes from"),
            _c("video_id", _S, "recording session: the cluster of intervals and splits"),
            _n("site_id", _S, "nest, feeder or place"),
            _n("camera_id", _S, "camera"),
            _c("frame_index", _I32, "0-based position in its file (0 for a photograph)"),
            _n("time_s", _F, "time on the session's clock, s"),
            _n("width_px", _I32, "width, px; null when the file could not be read"),
            _n("height_px", _I32, "height, px; null when the file could not be read"),
            _c("split", pl.Enum(SPLITS), "which part of the study the frame belongs to"),
            _c(
                "label_state",
                pl.Enum(LABEL_STATES),
                "labelled, empty (looked at, no bird) or unlabelled (not looked at)",
            ),
        ),
        _table(
            "labels",
            "One row per labelled bird, or per region that is left out of scoring.",
            ("label_id",),
            _c("label_id", _S, "identifier, unique in the study"),
            _c("frame_id", _S, "frame"),
            _c("category", _S, "class name"),
            *_BOX,
            _n("area_px", _F, "area as the label file gives it (of the mask where there is one), px²"),
            _n("mask_rle", _S, 'COCO RLE as JSON text: {"size": [h, w], "counts": "…"} (compressed counts)'),
            _c("is_crowd", _B, "a group too dense to box one by one: absorbs any number of detections"),
            _c("is_ignored", _B, "left out of scoring: not a bird to be found, and nothing found there is an error"),
            _n("individual_id", _S, "which bird"),
            _n("track_id", _S, "track of the bird through the frames"),
            _n("source", _S, "label file"),
        ),
        _table(
            "predictions",
            "One row per detection.",
            ("model", "prediction_id"),
            _c("model", _S, "name of the model in the recipe"),
            _c("prediction_id", _S, "identifier, unique within the model"),
            _c("frame_id", _S, "frame"),
            _c("category", _S, "class name, after the recipe's class map"),
            _c("score", _F, "confidence in [0, 1]"),
            *_BOX,
            _n("mask_rle", _S, "COCO RLE as JSON text, as in labels"),
            _n("track_id", _S, "track of the bird through the frames"),
            _n("rank", _I32, "0-based rank by score within the frame, ties in prediction order"),
        ),
        _table(
            "failures",
            "One row per frame that a model could not be asked about: counted and shown, never an empty frame.",
            ("model", "frame_id"),
            _c("model", _S, "name of the model"),
            _c("frame_id", _S, "frame"),
            _c("stage", pl.Enum(["read", "predict"]), "what failed"),
            _c("message", _S, "why, in one line"),
        ),
        _table(
            "speed",
            "Frames per second, twice per model, warm-up excluded.",
            ("model", "stage"),
            _c("model", _S, "name of the model"),
            _c("stage", pl.Enum(["model", "end_to_end"]), "the network alone, or from file to boxes"),
            _n("fps", _F, "frames per second; null when nothing was timed"),
            _c("n_frames", _I32, "frames timed"),
            _c("n_warmup", _I32, "frames run before the clock started"),
            _c("seconds", _F, "wall time of the timed frames, s"),
            _c("device", _S, "device, in words"),
            _c("batch", _I32, "frames per call"),
            _c("imgsz", _I32, "longer side of the network's input, px"),
            _c("precision", _S, "fp32, fp16 or int8"),
        ),
        _table(
            "matches",
            "One row per labelled bird and per detection that was kept: what became of it.",
            (),
            _c("model", _S, "name of the model"),
            _c("frame_id", _S, "frame"),
            _c("video_id", _S, "recording session"),
            _c("category", _S, "class name"),
            _n("label_id", _S, "labelled bird (null for a false positive)"),
            _n("prediction_id", _S, "detection (null for a miss)"),
            _n("iou", _F, "overlap of the pair in [0, 1]"),
            _n("score", _F, "confidence of the detection"),
            _c("outcome", pl.Enum(OUTCOMES), "hit, false positive, miss, or not counted"),
            _c("iou_thr", _F, "overlap that counts as a hit"),
            _c("score_thr", _F, "confidence kept"),
            _c("protocol", pl.Enum(["greedy", "coco"]), "matcher"),
        ),
        _table(
            "factors",
            "One row per labelled bird of the scored splits (no crowd, no ignored region): what may make it hard to see.",
            ("label_id",),
            _c("label_id", _S, "labelled bird"),
            _c("frame_id", _S, "frame"),
            _c("video_id", _S, "recording session"),
            _n("brightness_global", _F, "mean gray of the frame, 0-255"),
            _n("brightness_local", _F, "mean gray of the crop (the pixels that the box touches), 0-255"),
            _n("contrast_global", _F, "RMS contrast of the frame: population SD of gray, 0-127.5"),
            _n("contrast_local", _F, "RMS contrast of the crop, 0-127.5"),
            _n("blur_local", _F, "sharpness of the crop: variance of its Laplacian, gray²; lower is blurrier"),
            _n("clutter_background", _F, "share of Canny edge pixels outside every bird's box, in [0, 1] (Eq. 2)"),
            _n("clutter_local", _F, "share of edge pixels in the crop, in [0, 1]"),
            _c("crowding", _I32, "labelled birds in the frame"),
            _n("rel_size", _F, "sqrt(wh / WH) of the whole box (Eq. 1)"),
            _n("border_px", _F, "from the box to the nearest side of the frame, px; 0 where it reaches it"),
            _n("occlusion", _F, "as the label file gives it; null where it does not"),
            _n("n_pixels", _I32, "pixels of the crop"),
            _n("clipped", _F, "share of the box outside the frame, in [0, 1]"),
            _n("reason", _S, "why values are null"),
        ),
        _table(
            "frame_facts",
            "One row per frame that was measured: those of the scored splits with a labelled bird.",
            ("frame_id",),
            _c("frame_id", _S, "frame"),
            _c("video_id", _S, "recording session"),
            _n("width_px", _I32, "width as measured, px; null when the frame could not be read"),
            _n("height_px", _I32, "height as measured, px"),
            _c("n_birds", _I32, "labelled birds in the frame"),
            _n("brightness_global", _F, "mean gray, 0-255"),
            _n("contrast_global", _F, "population SD of gray, 0-127.5"),
            _n("clutter_background", _F, "share of edge pixels outside every bird's box, in [0, 1]"),
            _n("edge_fraction", _F, "share of edge pixels in the whole frame, in [0, 1]"),
            _n("background_share", _F, "part of the frame that is background, in [0, 1]"),
            _n("colour_spread", _F, "root of var(Cb) + var(Cr), gray levels; of the last frame looked at for colour"),
            _n("is_infrared", _B, "no colour, though other frames of the session have; null where none has"),
            _n("shift_x_px", _F, "how far right the view lies from the session's background, px"),
            _n("shift_y_px", _F, "how far down, px"),
            _n("shift_px", _F, "length of that displacement, px; null where the session shows no one place"),
            _n("view", _I32, "1 for the session's main view, further ones where the camera was nudged"),
            _n("reason", _S, "why values are null"),
        ),
        _table(
            "metrics",
            "Every number the report prints, one row each.",
            ("dataset", "model", "group", "level", "metric", "method"),
            _c("dataset", _S, "name of the data set"),
            _c("model", _S, "model, 'human', or '' where none is concerned"),
            _c(
                "group",
                _S,
                "what the rows are sliced by ('all', 'session', 'site', 'relative_size', 'coco_size', 'split')",
            ),
            _c("level", _S, "the slice within the group ('all' for everything)"),
            _c("metric", _S, "name of the measure ('ap', 'ap50', 'recall', 'tp' …)"),
            _n("value", _F, "the number; null when it is undefined"),
            _n("lo", _F, "lower end of the 95 % interval"),
            _n("hi", _F, "upper end of the 95 % interval"),
            _n("n", _I64, "what the number rests on (birds, frames, …)"),
            _n("n_clusters", _I32, "clusters behind the interval"),
            _n("chance", _F, "what guessing would give"),
            _c(
                "method", _S, "settings and kind of interval ('within_sessions', 'new_sessions', 'conf=0.25 iou=0.5' …)"
            ),
            _n("published", _F, "the published number, where one stands beside it"),
            _n("source", _S, "paper and table of the published number"),
            _n("reason", _S, "why the value or the interval is null"),
        ),
        _table(
            "coefficients",
            "One row per model and factor of the joint model of recovery: log-odds per standard deviation, and their worth.",
            ("model", "factor"),
            _c("model", _S, "name of the model, '' where there is only one"),
            _c("factor", _S, "factor"),
            _c(
                "status",
                pl.Enum(["ok", "unstable", "infinite_pos", "infinite_neg", "aliased", "constant", "not_fitted"]),
                "what the coefficient is worth",
            ),
            _n("reason", _S, "why it is not ok, or what is null"),
            _n("is_bold", _B, "the most negative one, where that can be said"),
            _c("n", _I64, "birds behind the penalised estimate"),
            _n("sd", _F, "one pooled standard deviation, in the factor's unit"),
            _n("within_sd", _F, "one standard deviation within sessions, in the factor's unit"),
            _n("firth", _F, "Firth's penalised estimate, log-odds of recovery per pooled SD"),
            _n("firth_se", _F, "its model-based standard error"),
            _n("firth_lo", _F, "lower end of its 95 % profile interval"),
            _n("firth_hi", _F, "upper end of its 95 % profile interval"),
            _n("firth_within", _F, "the same estimate per SD within sessions"),
            _n("n_mle", _I64, "birds behind the columns mle, ame and the robust errors"),
            _n("mle", _F, "maximum-likelihood estimate, log-odds per pooled SD; null where infinite"),
            _n("mle_se", _F, "its model-based standard error"),
            _n("mle_within", _F, "the same estimate per SD within sessions"),
            _n("ame", _F, "average marginal effect on the probability of recovery per pooled SD, in [-1, 1]"),
            _n("ame_se", _F, "its standard error (delta method)"),
            _n("ame_within", _F, "the same effect per SD within sessions"),
            _n("se_session", _F, "standard error of mle clustered by session, CR1"),
            _n("se_frame", _F, "standard error of mle clustered by frame, CR1"),
            _n("se_cr2", _F, "standard error of mle clustered by session, CR2"),
            _n("cr2_df", _F, "its Satterthwaite degrees of freedom"),
            _n("cr2_p", _F, "two-sided p value of mle = 0 with se_cr2"),
            _n("loso_lo", _F, "smallest penalised estimate with one session left out"),
            _n("loso_hi", _F, "largest penalised estimate with one session left out"),
            _n("loso_lo_without", _S, "the session left out for loso_lo"),
            _n("loso_hi_without", _S, "the session left out for loso_hi"),
            _n("vif", _F, "variance inflation beside the other factors and the sessions; null where infinite"),
        ),
        _table(
            "artefacts",
            "Every table and figure of the report.",
            ("id",),
            _c("id", _S, "identifier, unique in the run ('tab-detection')"),
            _c("kind", pl.Enum(["table", "figure", "gallery"]), "what it is"),
            _c("notebook", _S, "notebook that made it"),
            _c("title", _S, "first sentence of the caption: the finding"),
            _c("caption", _S, "how to read it"),
            _n("alt", _S, "what a reader who cannot see it should know"),
            _c("path", _S, "file it was drawn from, relative to the run"),
            _c("sha256", _S, "hash of that file"),
        ),
    )
}


def validate(name: str, frame: pl.DataFrame, *, source: str = "") -> pl.DataFrame:
    """Validate ``frame`` against the table called ``name``; see :meth:`Table.validate`."""
    return TABLES[name].validate(frame, source=source)


def empty(name: str) -> pl.DataFrame:
    """An empty frame of the table called ``name``.

    >>> empty("frames").columns[:2]
    ['frame_id', 'media_id']
    """
    return TABLES[name].empty()


def documentation() -> str:
    """All tables as Markdown, for the README and for readers of a run's folder."""
    parts = []
    for table in TABLES.values():
        key = ", ".join(table.key) or "none"
        parts.append(f"### {table.name}\n\n{table.doc} Key: {key}.\n\n| column | type | meaning |\n|---|---|---|\n")
        parts.append(
            "".join(f"| {c.name} | {c.dtype}{' or null' if c.nullable else ''} | {c.doc} |\n" for c in table.columns)
        )
        parts.append("\n")
    return "".join(parts)
