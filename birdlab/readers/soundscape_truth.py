"""Who is heard where, as annotators save it: BirdCLEF's own file and metadata, Raven tables, tables of intervals.

Every layout becomes one table of annotations. Spans keep their times: rounding them to segments of five seconds is the
evaluation's work.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers import raven
from birdlab.readers.birdnet import SpeciesCodes, is_birdnet
from birdlab.readers.files import Notice, at_most, natural_key, walk
from birdlab.readers.soundscape_json import media_of, read_objects, spans_of
from birdlab.readers.soundscape_tables import (
    Sheet,
    key_of,
    media_names,
    own_recording,
    read_sheet,
    seconds,
    some,
    span_seconds,
)
from birdlab.readers.wide_submission import is_wide, read_wide_truth
from birdlab.schemas.soundscapes import TABLES
from birdlab.soundscapes.coded import NAMED_S, SEGMENT_S

ANNOTATIONS = next(t for t in TABLES if t.name == "annotations")
#: Name → first line of a file without a header, and its columns.
LAYOUTS = {
    "the official layout": (
        r"^[^;\t]*;[^;\t]*;[^;\t]*\d:\d[^;\t]*(;|$)",
        ("MediaId", "ClassId", "TC1-TC2", "Country"),
    ),
    **raven.LAYOUTS,
}
SUFFIXES = frozenset({".csv", ".tsv", ".txt", ".json", ".parquet", ".pq", ".feather", ".arrow"})
#: Codes (lower case) that say that no bird is heard.
NO_BIRD = frozenset({"nocall", "no_call", "no call", "no-call", "none", "nobird", "no_bird", "no bird", "silence"})
#: Codes (lower case) that say that a bird is heard and which is not known.
UNKNOWN = frozenset({"unknown", "unk", "unidentified", "unknown bird", "bird sp.", "bird1", "n/a", "na"})
_RUN_LINE = re.compile(r"^[^;]*;\s*\d+:\d+:\d+\s*-\s*\d+:\d+:\d+\s*;[^;]*;[^;]*$")
_RAW = {
    "name": pl.String,
    "class_id": pl.String,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
    "low_hz": pl.Float64,
    "high_hz": pl.Float64,
    "selection": pl.String,
    "view": pl.String,
    "source": pl.String,
    "row": pl.Int64,
}


@dataclass(frozen=True)
class Annotated:
    """What was read.

    Args:
        annotations: table ``annotations``: media_id, class_id, start_s, end_s, low_hz, high_hz, source, row.
        notices: what was skipped, merged or assumed.
        media: every recording that the files speak of, in order, also those without an annotation.
    """

    annotations: pl.DataFrame
    notices: list[Notice]
    media: tuple[str, ...] = ()


@dataclass
class _Gathered:
    """Rows and recordings of the files read so far."""

    frames: list[pl.DataFrame] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    folders: dict[str, Path] = field(default_factory=dict)
    n_json: int = 0
    codes: SpeciesCodes | None = None


def read_annotations(
    paths: Path | Iterable[Path], *, recordings: pl.DataFrame | None = None, classes: Sequence[str] | None = None
) -> Annotated:
    """Annotations of recordings from files, or folders of files, of any of these layouts.

    The official ``MediaId;ClassId;TC1-TC2;Country`` with a header or none; BirdCLEF metadata in JSON with ``ClassIds``; Raven
    selection tables, one per recording (its name is the file's) or with a column of files, with a header or (eight columns) none;
    tables with a file, start, end or length, and a species; ``fid,start_time_s,end_time_s,ebird_codes`` with several codes
    split at blanks and commas; tables of segments media_id, start_s, class_id; ``row_id,…,birds``, whose row_id ends in
    ``_<end of the segment>``; ``row_id`` and one column of 0 and 1 per class; BirdNET's tables, whose every row then counts,
    whatever its confidence. Text or parquet.

    Kept, and counted aloud: spans that are reversed, of length zero or past the end of their recording; repeated annotations.
    A start before 0 is set to 0. Left out and counted: spans before 0, codes that name no species (``????``, nocall, an
    empty cell), second views of a Raven selection.

    Args:
        paths: a file, a folder (searched with all below it), or several.
        recordings: table ``soundscape_recordings``; names of files become its media_id, and ends are compared with its lengths.
        classes: class list: in tables with common or scientific names, species become its codes where a name stands for one,
            see :func:`birdlab.readers.birdnet.read_birdnet`; the others keep the name that they have.

    Raises:
        DataError: a file that is none of these; times that are none; an ambiguous recording. All problems of a file, with lines.
    """
    recordings = recordings if recordings is None or recordings.height else None
    got = _Gathered(codes=None if classes is None else SpeciesCodes(classes, {}))
    problems: list[Problem] = []
    for path, shown in _files([paths] if isinstance(paths, (str, os.PathLike)) else list(paths)):
        try:
            _json(path, shown, got) if path.suffix.lower() == ".json" else _table(path, shown, got)
        except DataError as error:
            problems += error.problems
    if problems:
        raise DataError(at_most(problems))
    if got.without and len(got.without) == got.n_json and not got.frames:
        remedy = "the metadata of test recordings holds no truth: name the annotation file too"
        raise DataError(Problem("no_annotations", "no ClassIds", "metadata with ClassIds", remedy, got.without[0]))
    notices = list(got.notices)
    if got.without:
        told = f"recordings whose metadata have no ClassIds ({some(got.without)})"
        notices.append(Notice("no_class_ids", told, len(got.without)))
    rows = pl.concat(got.frames) if got.frames else pl.DataFrame(schema=_RAW)
    names = media_names([*got.names, *rows["name"].unique(maintain_order=True)], recordings, shown="annotations")
    notices += names.notices()
    media = tuple(dict.fromkeys(names.of.values()))
    rows = rows.with_columns(
        media_id=pl.Series(rows["name"]).replace_strict(names.of, return_dtype=pl.String) if rows.height else pl.lit("")
    )
    rows, told = _cleaned(rows)
    notices += told
    heard = set(rows["media_id"])
    silent = [m for m in media if m not in heard]
    if silent:
        notices.append(Notice("silent_recordings", f"recordings without an annotation ({some(silent)})", len(silent)))
    notices += _odd_spans(rows, recordings)
    table = ANNOTATIONS.validate(rows.drop("name", "selection", "view"), source="annotations")
    return Annotated(table, _merged(notices), media)


def _files(paths: list[Path]) -> list[tuple[Path, str]]:
    out, problems = [], []
    for path in map(Path, paths):
        if not path.is_dir():
            out.append((path, str(path)))
            continue
        found = sorted(walk(path, "", []), key=natural_key)
        kept = [f for f in found if Path(f).suffix.lower() in SUFFIXES and not Path(f).name.startswith(".")]
        if not kept:
            expected = "annotation files (" + ", ".join(sorted(SUFFIXES)) + ")"
            problems.append(Problem("no_annotations", f"{len(found)} files", expected, file=str(path)))
        out += [(path / f, str(path / f)) for f in kept]
    if problems:
        raise DataError(at_most(problems))
    return out


def _json(path: Path, shown: str, got: _Gathered) -> None:
    for meta in read_objects(path, shown):
        media, spans = media_of(meta, shown), spans_of(meta, shown)
        got.n_json += 1
        if spans is None:
            got.without.append(media)
            continue
        got.names.append(media)
        if not spans:
            continue
        heads = ("ClassId", "start", "end")
        columns = zip(*spans, strict=True)
        frame = pl.DataFrame([pl.Series(str(i), list(c), dtype=pl.String) for i, c in enumerate(columns)])
        frame = frame.with_columns(line=pl.int_range(1, pl.len() + 1, dtype=pl.Int64))
        sheet = Sheet(shown, frame, heads)
        got.frames.append(_rows(sheet, pl.Series([media] * frame.height, dtype=pl.String), got, where="ClassIds"))


def _table(path: Path, shown: str, got: _Gathered) -> None:
    sheet = read_sheet(path, shown=shown, layouts=LAYOUTS)
    got.notices += [n for n in sheet.notices if not (n.code == "no_header" and "official" in n.message)]
    if _RUN_LINE.match(";".join(sheet.heads)):
        remedy = "give the annotations first, then the runs"
        raise DataError(Problem("a_run", "a run file", "annotations", remedy, file=shown, line=sheet.header_line))
    media = sheet.column("media")
    if is_wide(sheet.heads) and media is None and sheet.column("class") is None:
        rows, names = read_wide_truth(path)
        got.names += names
        rows = rows.with_columns(source=pl.lit(shown))
        columns = [pl.col(c) if c in rows.columns else pl.lit(None).alias(c) for c in _RAW]
        got.frames.append(rows.select(columns).cast(_RAW))  # type: ignore[arg-type]
        return
    if media is None and sheet.column("row_id") is not None:
        name = sheet.text(sheet.column("row_id")).str.replace(r"_\d+$", "")
    elif media is None and (raven.is_raven(sheet) or sheet.column("start")):
        own = own_recording(path, got.folders)
        got.names.append(own)
        name = pl.Series([own] * sheet.frame.height, dtype=pl.String)
    elif media is None:
        raise DataError(_no_columns(sheet, "a column of recordings (MediaId, fid, file, Filename, …)", "media"))
    else:
        name = sheet.text(media)
        empty = sheet.problems(name.is_null(), media, "no_media", "a recording")
        if empty:
            raise DataError(at_most(empty))
    rows = _rows(sheet, name, got)
    if rows.height:
        got.frames.append(rows)


def _no_columns(sheet: Sheet, expected: str, role: str) -> Problem:
    first = sheet.heads[0] if sheet.heads else ""
    problem = sheet.missing(role, expected)
    if not re.match(r"^[\d.]+$", first):
        return problem
    remedy = "the header seems to be missing: add the line with the names of the columns"
    return Problem("no_header", problem.found, expected, remedy, sheet.file, 1, key=role)


def _rows(sheet: Sheet, name: pl.Series, got: _Gathered, *, where: str = "") -> pl.DataFrame:
    """Rows of one file with times in seconds."""
    what = sheet.column("class")
    if what is None:
        raise DataError(
            _no_columns(sheet, "a column of species (ClassId, Species, ebird_codes, Annotation, …)", "class")
        )
    start, end, problems = _spans(sheet)
    if raven.is_raven(sheet):
        start, end, told = raven.in_file(sheet, start, end)
        got.notices += told
    if problems:
        if where:
            problems = [replace(p, line=None, record=f"time {p.line} of {where}", key=None) for p in problems]
        raise DataError(at_most(problems))
    codes = sheet.text(what)
    # Codes of eBird hold no blanks; several of them stand in one cell.
    several = key_of(sheet.head_of(what)) in ("ebirdcodes", "ebirdcode", "speciesebirdcode", "birds")
    if not several:
        codes = _coded(sheet, codes, got)
    if is_birdnet(sheet.heads):
        told = "detections of BirdNET taken as annotations, whatever their confidence"
        got.notices.append(Notice("detections_as_truth", told, sheet.frame.height, sheet.file))
    lists = codes.str.replace_all(r"[\s,]+", " ").str.split(" ") if several else codes.str.split("\0")
    return pl.DataFrame(
        {
            "name": name,
            "class_id": lists,
            "start_s": start,
            "end_s": end,
            "low_hz": seconds(sheet.text(sheet.column("low_hz"))),
            "high_hz": seconds(sheet.text(sheet.column("high_hz"))),
            "selection": sheet.text(sheet.column("selection")),
            "view": sheet.text(sheet.column("view")),
            "source": [sheet.file] * sheet.frame.height,
            "row": sheet.frame["line"],
        },
        schema={**_RAW, "class_id": pl.List(pl.String)},
    ).explode("class_id")


def _coded(sheet: Sheet, given: pl.Series, got: _Gathered) -> pl.Series:
    """Names of species as codes of the class list, where they stand for one."""
    names = [sheet.named(key) for key in ("scientificname", "commonname")]
    if got.codes is None or not any(names):
        return given
    keys = ["scientific", "common", "given"]
    rows = pl.DataFrame(dict(zip(keys, [*map(sheet.text, names), given], strict=True)))
    species = rows.unique(maintain_order=True).filter(~pl.all_horizontal(pl.all().is_null()))
    found = [(one, *got.codes.find(*one)) for one in species.iter_rows()]
    of = {one: code for one, code, how in found if how in ("direct", "by_ebird") and code != one[2]}
    if of:
        told = f"species whose names were turned into codes of the class list ({some(one[1] or one[0] for one in of)})"
        got.notices.append(Notice("names_to_codes", told, len(of), sheet.file))
    return pl.Series([of.get(one, one[2]) for one in rows.iter_rows()], dtype=pl.String)


def _spans(sheet: Sheet) -> tuple[pl.Series, pl.Series, list[Problem]]:
    """Start and end, s, and what is no time."""
    span, start, end = sheet.column("span"), sheet.column("start"), sheet.column("end")
    length, row_id = sheet.column("length"), sheet.column("row_id")
    if start is None and span is not None:
        a, b = span_seconds(sheet.text(span))
        return a, b, sheet.problems(a.is_null(), span, "bad_time", "a time code hh:mm:ss-hh:mm:ss")
    if start is None and row_id is not None:
        b = sheet.text(row_id).str.extract(r"_(\d+)$", 1).cast(pl.Float64)
        wrong = b.is_null() | (b % SEGMENT_S != 0) | (b == 0)
        return b - SEGMENT_S, b, sheet.problems(wrong, row_id, "bad_row_id", "<recording>_<end of the segment, s>")
    if start is None:
        raise DataError(_no_columns(sheet, "a column of times (TC1-TC2, start_time_s, Begin Time (s), …)", "start"))
    a = seconds(sheet.text(start))
    problems = _no_time(sheet, a, start)
    if end is not None:
        b = seconds(sheet.text(end))
        problems += _no_time(sheet, b, end)
    elif length is not None:
        more = seconds(sheet.text(length))
        problems += _no_time(sheet, more, length)
        b = a + more
    else:
        off = (a % SEGMENT_S != 0) | (a < 0)
        expected = f"a multiple of {SEGMENT_S}: without an end or a length a row is a segment of {SEGMENT_S} s"
        problems += sheet.problems(off, start, "off_the_grid", expected)
        b = a + SEGMENT_S
    return a, b, problems


def _no_time(sheet: Sheet, value: pl.Series, column: str) -> list[Problem]:
    comma = sheet.frame[column].str.contains(r"^\s*\d+,\d+\s*$").fill_null(False).any()
    remedy = "write a decimal point" if comma else ""
    return sheet.problems(value.is_null(), column, "bad_time", "seconds or hh:mm:ss", remedy)


def _cleaned(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[Notice]]:
    """Rows that name a species at a time of the recording; what else there is, counted."""
    notices: list[Notice] = []
    code = pl.col("class_id").str.strip_chars().fill_null("")
    rows = rows.with_columns(class_id=code)
    low = pl.col("class_id").str.to_lowercase()
    kinds = {
        "empty_code": (pl.col("class_id") == "", "rows without a species, left out"),
        "nocall": (low.is_in(sorted(NO_BIRD)), "rows that say that no bird is heard, left out"),
        "unknown_code": (
            low.is_in(sorted(UNKNOWN)) | low.str.contains(r"^\?+$"),
            "rows whose species is not known, left out",
        ),
    }
    for name, (mask, told) in kinds.items():
        held = rows.filter(mask)
        if held.height:
            codes = held["class_id"].unique().sort().to_list()
            told += f" ({some(repr(c) for c in codes)}; in {some(held['media_id'].unique().sort(), 3)})"
            notices.append(Notice(name, told, held.height))
            rows = rows.filter(~mask)
    before = (pl.col("end_s") < 0) & (pl.col("start_s") < 0)
    n = rows.filter(before).height
    if n:
        told = f"spans before the start of the recording, left out ({_places(rows.filter(before))})"
        notices.append(Notice("before_start", told, n))
        rows = rows.filter(~before)
    early = rows.filter(pl.col("start_s") < 0)
    if early.height:
        told = f"spans that begin before the recording, taken from 0 s ({_places(early)})"
        notices.append(Notice("negative_start", told, early.height))
        rows = rows.with_columns(pl.col("start_s").clip(lower_bound=0), pl.col("end_s"))
    rows, told_views = raven.once(rows)
    rows, told_edges = raven.edges(rows)
    return rows, [*notices, *told_views, *told_edges]


def _odd_spans(rows: pl.DataFrame, recordings: pl.DataFrame | None) -> list[Notice]:
    """Spans that are kept and may be mistakes."""
    notices = []
    length = pl.col("end_s") - pl.col("start_s")
    past_a_day = "segments past 24 h: no run file can name them, so they are not found"
    kinds = {
        "past_a_day": ((pl.col("end_s") > NAMED_S) & (length > 0), past_a_day),
        "reversed_span": (length < 0, "spans that end before they start: they cover no segment"),
        "zero_length": (length == 0, "spans of length zero: one segment, or none where they lie on the grid of 5 s"),
    }
    for code, (mask, told) in kinds.items():
        held = rows.filter(mask)
        if held.height:
            notices.append(Notice(code, f"{told} ({_places(held)})", held.height))
    key = ["media_id", "class_id", "start_s", "end_s"]
    n = rows.height - rows.unique(key).height
    if n:
        notices.append(Notice("annotation_twice", "annotations that are there already, counted once in scores", n))
    if recordings is not None and "duration_s" in recordings.columns:
        past = rows.join(recordings.select("media_id", "duration_s"), on="media_id").filter(
            pl.col("end_s") > pl.col("duration_s") + 1e-3
        )
        if past.height:
            told = f"spans past the end of their recording ({_places(past)})"
            notices.append(Notice("past_the_end", told, past.height))
    return notices


def _places(rows: pl.DataFrame) -> str:
    """Where the first rows stand."""
    shown = rows.head(3).select("media_id", "class_id", "start_s", "end_s").rows()
    return some([f"{c} in {m} at {a:g}-{b:g} s" for m, c, a, b in shown] + [""] * (rows.height - len(shown)), 3)


def _merged(notices: list[Notice]) -> list[Notice]:
    """One notice per code and text; of a folder of tables not one per file."""
    out: dict[tuple[str, str], Notice] = {}
    files: dict[str, list[str | None]] = {}
    for notice in notices:
        files.setdefault(notice.code, []).append(notice.file)
    for notice in notices:
        many = notice.file is not None and len(set(files[notice.code])) > 1
        key = (notice.code, "" if many else notice.message)
        known = out.get(key)
        out[key] = (
            Notice(notice.code, known.message, known.n + notice.n, None)
            if known
            else Notice(notice.code, notice.message, notice.n, notice.file)
        )
    return list(out.values())
