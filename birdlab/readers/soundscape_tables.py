"""Tables about recordings as people save them: which column is what, times in seconds, which recording a name means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.csvfile import DELIMITERS, decode, read_rows
from birdlab.readers.files import Notice, at_most
from birdlab.readers.table_file import as_text, read_table

#: What a column is, by its heading in lower case without blanks and marks; the first of a list that is there counts.
ROLES: dict[str, tuple[str, ...]] = {
    "media": (
        *("mediaid", "recordingid", "fid", "filename", "file", "filepath", "recording", "soundfile", "audiofile"),
        *("beginpath", "beginfile"),
    ),
    "row_id": ("rowid",),
    "span": ("tc1tc2", "timecode", "timecodes", "interval", "segment"),
    "start": ("starts", "starttimes", "begintimes", "starttime", "begintime", "start", "begin", "onset", "onsets"),
    "end": ("ends", "endtimes", "endtime", "end", "stop", "stops", "offset", "offsets"),
    "length": ("lengths", "length", "durations", "duration", "deltatimes"),
    "class": (
        *("classid", "speciesebirdcode", "ebirdcodes", "ebirdcode", "speciescode", "birds", "species", "annotation"),
        *("label", "code", "class", "commonname", "scientificname"),
    ),
    "low_hz": ("lowfreqhz", "lowhz", "minfreqhz", "lowfrequencyhz"),
    "high_hz": ("highfreqhz", "highhz", "maxfreqhz", "highfrequencyhz"),
    "selection": ("selection",),
    "view": ("view",),
    "file_offset": ("fileoffsets", "fileoffset"),
}
_PARQUET = frozenset({".parquet", ".pq", ".feather", ".arrow", ".ipc"})
_SOUND = re.compile(r"\.(wav|flac|mp3|ogg|oga|opus|m4a|aac|aiff?|wma)$", re.IGNORECASE)
_TABLE = re.compile(
    r"(\.birdnet)?(\.table\.\d+)?(\.selections?)?(\.(results|table))?(\.(csv|tsv|txt|parquet|pq|feather|arrow|ipc))$",
    re.IGNORECASE,
)
_CODE = r"\s*(\d+):([0-5]?\d):([0-5]?\d(?:\.\d+)?)\s*"
_SPAN = rf"^{_CODE}-{_CODE}$"


def key_of(head: str) -> str:
    """A heading as it is looked up.

    >>> key_of("Begin Time (s)"), key_of("TC1-TC2")
    ('begintimes', 'tc1tc2')
    """
    return re.sub(r"[^a-z0-9]", "", head.casefold())


@dataclass(frozen=True)
class Sheet:
    """One table as text cells, and the line of each row.

    Args:
        file: how problems name it.
        frame: String columns, named by number, and ``line``; an empty cell is null.
        heads: headings, in order.
        header_line: line of the header; 0: the file has none.
    """

    file: str
    frame: pl.DataFrame
    heads: tuple[str, ...]
    header_line: int = 1
    notices: tuple[Notice, ...] = ()
    keys: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for i, head in enumerate(self.heads):
            self.keys.setdefault(key_of(head), str(i))

    def column(self, role: str) -> str | None:
        """Column of a role, see :data:`ROLES`."""
        return next((self.keys[key] for key in ROLES[role] if key in self.keys), None)

    def named(self, *keys: str) -> str | None:
        """The first column with one of these headings (lower case, without blanks and marks)."""
        return next((self.keys[key] for key in keys if key in self.keys), None)

    def head_of(self, column: str) -> str:
        """Heading of a column as the file spells it."""
        return self.heads[int(column)].strip()

    def text(self, column: str | None) -> pl.Series:
        """Cells of a column; nulls where there is no such column."""
        return pl.Series([None] * self.frame.height, dtype=pl.String) if column is None else self.frame[column]

    def problems(self, mask: pl.Series, column: str, code: str, expected: str, remedy: str = "") -> list[Problem]:
        """One problem per row where ``mask`` holds."""
        rows = mask.fill_null(False).arg_true().to_list()
        found = [self.frame[column][i] for i in rows[:21]]
        lines = [int(self.frame["line"][i]) for i in rows]
        told = [
            Problem(
                code, repr(text)[:80] if text else "nothing", expected, remedy, self.file, line, None, self._key(column)
            )
            for text, line in zip(found, lines, strict=False)
        ]
        if len(rows) > 21:
            told.append(Problem(code, f"{len(rows) - 21} more", expected, file=self.file))
        return told

    def _key(self, column: str) -> str | None:
        return self.heads[int(column)] if column.isdecimal() and int(column) < len(self.heads) else None

    def missing(self, role: str, expected: str) -> Problem:
        """The problem that no column has a role."""
        has = "the columns " + ", ".join(self.heads)[:200]
        return Problem("missing_column", has, expected, file=self.file, line=self.header_line or None, key=role)


def read_sheet(path: Path, *, shown: str, layouts: Mapping[str, tuple[str, tuple[str, ...]]] | None = None) -> Sheet:
    """A CSV, TSV, Raven table, parquet or feather file as text cells.

    Args:
        path: the file. Text in UTF-8, UTF-16 or Latin-1, with a byte order mark or none. Files with tabs, and files
            without a header, hold no quotes: they are cut at every delimiter, and a row may lack empty cells at its end.
        shown: what to call it in a problem.
        layouts: name → pattern of the first line of a file without a header, and the headings it then has.

    Raises:
        DataError: the file is missing, empty, binary or ragged.
    """
    if path.suffix.lower() in _PARQUET:
        return _columnar(path, shown)
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        why = "no such file" if not path.exists() else "a folder" if path.is_dir() else type(error).__name__
        raise DataError(Problem("unreadable", why, "a table of text", "check the path", file=shown)) from error
    text, encoding = decode(raw, shown)
    first = text.lstrip("\r\n").partition("\n")[0].rstrip("\r")
    if not first.strip():
        raise DataError(Problem("empty_file", "nothing", "a header, with or without rows", file=shown))
    notices = [Notice("latin_1", "read as Latin-1: it is not UTF-8", 1, shown)] if encoding == "latin-1" else []
    for name, (pattern, heads) in (layouts or {}).items():
        if re.match(pattern, first):
            told = f"no header: read as {name}, columns {', '.join(heads)}"
            return _cut(text, shown, heads, [*notices, Notice("no_header", told, 1, shown)])
    if "\t" in first:
        return _cut(text, shown, None, notices)
    table = read_rows(path, shown=shown)
    width = len(table.header)
    frame = _frame([row for _, row in table.rows], [line for line, _ in table.rows], width)
    return Sheet(shown, frame, tuple(h.strip() for h in table.header), 1, tuple(notices))


def _cut(text: str, shown: str, heads: tuple[str, ...] | None, notices: list[Notice]) -> Sheet:
    """A table without quotes; without ``heads`` the first line is the header."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    held = [(i, line) for i, line in enumerate(lines, start=1) if line.strip()]
    start = 0 if heads else 1
    delimiter = "\t" if "\t" in held[0][1] else max(DELIMITERS, key=held[0][1].count)
    names = tuple(h.strip() for h in (heads or held[0][1].split(delimiter)))
    least = (1 if delimiter == "\t" else len(names)) if not heads else 3
    named = max((i + 1 for i, head in enumerate(names) if head), default=0)
    rows, numbers, problems, n_short = [], [], [], 0
    for i, line in held[start:]:
        cells = line.split(delimiter)
        while len(cells) > len(names) and not cells[-1].strip():
            cells.pop()
        if not least <= len(cells) <= len(names):
            found = f"{len(cells)} fields"
            expected = f"{len(names)}, as the {'layout' if heads else 'header'} has"
            problems.append(Problem("ragged_row", found, expected, file=shown, line=i))
            continue
        n_short += len(cells) < named and not heads
        rows.append([*cells, *[""] * (len(names) - len(cells))])
        numbers.append(i)
    if problems:
        raise DataError(at_most(problems))
    if n_short:
        notices = [
            *notices,
            Notice("short_rows", "rows shorter than the header, their last cells empty", n_short, shown),
        ]
    names_seen = [n.casefold() for n in names if n]
    twice = sorted({n for n in names_seen if names_seen.count(n) > 1})
    if twice:
        found = f"columns {', '.join(twice)} twice"
        raise DataError(Problem("column_twice", found, "each column once", file=shown, line=held[0][0]))
    return Sheet(shown, _frame(rows, numbers, len(names)), names, 0 if heads else held[0][0], tuple(notices))


def _frame(rows: list[list[str]], lines: list[int], width: int) -> pl.DataFrame:
    columns = list(zip(*rows, strict=True)) if rows else [()] * width
    frame = pl.DataFrame(
        [pl.Series(str(i), column, dtype=pl.String).str.strip_chars() for i, column in enumerate(columns)]
    )
    frame = frame.with_columns(pl.when(pl.all() != "").then(pl.all()))
    return frame.with_columns(pl.Series("line", lines, dtype=pl.Int64))


def _columnar(path: Path, shown: str) -> Sheet:
    table = read_table(path, shown)
    columns = [as_text(table.frame[name], shown).alias(str(i)) for i, name in enumerate(table.frame.columns)]
    lines = pl.int_range(1, table.frame.height + 1, dtype=pl.Int64, eager=True).alias("line")
    return Sheet(shown, pl.DataFrame([*columns, lines]), tuple(table.frame.columns))


def seconds(text: pl.Series) -> pl.Series:
    """Numbers, or times ``h:mm:ss[.fff]`` past an hour or a day, as seconds; null for what is neither.

    >>> seconds(pl.Series(["47.4", "01:00:05", "25:00:00", "x"])).to_list()
    [47.4, 3605.0, 90000.0, None]
    """
    number = text.cast(pl.Float64, strict=False)
    number = number.set(~number.is_finite().fill_null(True), None)
    if number.null_count() == text.null_count():
        return number
    part = [text.str.extract(rf"^{_CODE}$", i).cast(pl.Float64) for i in (1, 2, 3)]
    return number.zip_with(number.is_not_null(), part[0] * 3600 + part[1] * 60 + part[2]).alias(text.name)


def span_seconds(text: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Time codes ``hh:mm:ss-hh:mm:ss`` as start and end, s; null for what is none.

    >>> [s.to_list() for s in span_seconds(pl.Series(["00:59:55-01:00:00", "5-10"]))]
    [[3595.0, None], [3600.0, None]]
    """
    part = [text.str.extract(_SPAN, i).cast(pl.Float64) for i in range(1, 7)]
    return part[0] * 3600 + part[1] * 60 + part[2], part[3] * 3600 + part[4] * 60 + part[5]


def stem(name: str) -> str:
    """Name of a sound file without folder and ending; other dots stay.

    >>> stem("Recording_1/Recording_1_Segment_05.wav"), stem("site.A_001")
    ('Recording_1_Segment_05', 'site.A_001')
    """
    return _SOUND.sub("", PurePosixPath(name.replace("\\", "/")).name)


def table_stem(name: str) -> str:
    """The recording that a table of its own is about, by the table's file name.

    >>> table_stem("MSD-0003_2minstart00.Table.1.selections.txt"), table_stem("a_1.BirdNET.results.csv")
    ('MSD-0003_2minstart00', 'a_1')
    >>> table_stem("x.wav.BirdNET.selection.table.txt")
    'x'
    """
    return stem(_TABLE.sub("", PurePosixPath(name).name))


def own_recording(path: Path, folders: dict[str, Path]) -> str:
    """The recording that a table of its own is about; ``folders`` keeps where each was seen.

    Raises:
        DataError: tables of one recording in two folders: two sites may number alike.
    """
    name = table_stem(path.name)
    known = folders.setdefault(name, path.parent)
    if known != path.parent:
        remedy = "give one table with a column of files, or one folder"
        found = f"a table of {name!r}, as in {known}"
        raise DataError(Problem("same_file_name", found, "file names that differ", remedy, file=str(path)))
    return name


@dataclass(frozen=True)
class MediaNames:
    """Recordings that names stand for: ``of`` name → media_id; ``by_stem`` and ``unknown`` are counted aloud."""

    of: dict[str, str]
    by_stem: list[str]
    unknown: list[str]

    def notices(self) -> list[Notice]:
        """What was assumed."""
        out = []
        if self.by_stem:
            told = f"names of files taken as recordings without folder and ending ({some(self.by_stem)})"
            out.append(Notice("media_from_file_name", told, len(self.by_stem)))
        if self.unknown:
            told = f"recordings that are not in the table of recordings ({some(self.unknown)})"
            out.append(Notice("media_not_in_recordings", told, len(self.unknown)))
        return out


def media_names(names: Iterable[str], recordings: pl.DataFrame | None, *, shown: str) -> MediaNames:
    """The recording of each name: as it stands in the table of recordings (id, file, file without folder or ending), else
    its own without folder and ending.

    Raises:
        DataError: two files of one name in different folders, or a name that fits two recordings.
    """
    ids: dict[str, str] = {}
    loose: dict[str, set[str]] = {}
    if recordings is not None:
        files = recordings["file"] if "file" in recordings.columns else [None] * recordings.height
        for media, file in zip(recordings["media_id"], files, strict=True):
            ids[media] = media
            for name in (file, PurePosixPath((file or "").replace("\\", "/")).name, stem(file or ""), stem(media)):
                if name:
                    loose.setdefault(name, set()).add(media)
    of: dict[str, str] = {}
    by_stem, unknown, problems = [], [], []
    folders: dict[str, str] = {}
    for name in dict.fromkeys(names):
        bare = stem(name)
        base = PurePosixPath(name.replace("\\", "/")).name
        found = {ids[name]} if name in ids else next((loose[n] for n in (name, base, bare) if n in loose), set())
        if len(found) > 1:
            told = f"{name!r}, which fits {', '.join(sorted(found)[:5])}"
            problems.append(Problem("ambiguous_media", told, "a name that only one recording has", file=shown))
            continue
        folder = name[: len(name) - len(base)]
        if name not in ids and name not in loose and folder and folders.setdefault(base, folder) != folder:
            told = f"{base!r} in {folders[base]} and in {folder}"
            remedy = "give a table of recordings with media_id and file"
            problems.append(Problem("same_file_name", told, "file names that differ", remedy, file=shown))
            continue
        of[name] = found.copy().pop() if found else bare
        if not found and bare != name:
            by_stem.append(name)
        if not found and recordings is not None:
            unknown.append(bare)
    if problems:
        raise DataError(at_most(problems))
    return MediaNames(of, by_stem, unknown)


def some(names: Iterable[object], n: int = 5) -> str:
    """The first names, and how many more there are.

    >>> some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    held = [str(name)[:80] for name in names]
    return ", ".join(held[:n]) + (f" and {len(held) - n} more" if len(held) > n else "")
