"""BirdNET's tables of detections as predictions per segment of five seconds, its names as codes of the class list."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers import raven
from birdlab.readers.files import Notice, at_most, natural_key, walk
from birdlab.readers.soundscape_tables import Sheet, media_names, own_recording, read_sheet, seconds, some
from birdlab.soundscapes.coded import SEGMENT_S
from birdlab.soundscapes.truth import LATEST_S

#: Columns of predictions.
PREDICTIONS = {"media_id": pl.String, "start_s": pl.Int32, "class_id": pl.String, "probability": pl.Float64}
#: A window counts for a segment that it overlaps by at least this, s, or by half the window where that is shorter.
MIN_OVERLAP_S = 1.0
#: Lists of eBird whose codes are tried, in order: that of the first public class lists, then the newest.
EBIRD = ("ebird_2021", "ebird_2024")
#: Files that BirdNET writes beside its tables.
_ASIDE = ("birdnet_analysis_params.csv", "birdnet_error_log.txt")


@dataclass(frozen=True)
class Predictions:
    """What a file of another layout lists.

    Args:
        table: media_id, start_s (Int32, a multiple of 5), class_id, probability; a segment and class once.
        notices: what was mapped, left out or assumed.
    """

    table: pl.DataFrame
    notices: list[Notice] = field(default_factory=list)


def is_birdnet(heads: Sequence[str]) -> bool:
    """Whether a header is one of BirdNET's.

    >>> is_birdnet(["Start (s)", "End (s)", "Scientific name", "Common name", "Confidence"])
    True
    """
    sheet = Sheet("", pl.DataFrame(), tuple(heads))
    named = sheet.named("scientificname", "commonname", "speciescode")
    return named is not None and sheet.named("confidence") is not None and sheet.column("start") is not None


def read_birdnet(
    paths: Path | Iterable[Path],
    *,
    classes: Sequence[str] | None = None,
    label_map: Mapping[str, str] | None = None,
    recordings: pl.DataFrame | None = None,
    min_overlap_s: float = MIN_OVERLAP_S,
) -> Predictions:
    """Detections of BirdNET, its CSV, R or Raven table, one per recording or all in one, as predictions.

    A segment of 5 s takes the highest confidence of the windows that overlap it by at least ``min_overlap_s`` or half the
    window, whichever is shorter: every window counts for one segment or two. Segments without a detection are not listed.

    A species is looked up, first hit: in ``label_map`` by its scientific name, its common name or ``Scientific_Common``; in
    ``classes`` by its code or either name; the code that the table gives; eBird's code of its name, by exact keys only.

    Args:
        paths: a file, a folder, or several.
        classes: class list; species that are not in it are left out and counted.
        label_map: name → class_id.
        recordings: table ``soundscape_recordings``: names of files become its media_id; segments past an end are left out.
        min_overlap_s: see above, s.

    Raises:
        DataError: a file without these columns, times that are none, confidences outside [0, 1]. With their lines.
    """
    notices: list[Notice] = []
    frames: list[pl.DataFrame] = []
    problems: list[Problem] = []
    names: list[str] = []
    folders: dict[str, Path] = {}
    for path in _files([paths] if isinstance(paths, (str, os.PathLike)) else list(paths), notices):
        try:
            rows = _detections(path, notices, folders)
            names += rows["name"].unique(maintain_order=True).to_list()
            frames.append(rows)
        except DataError as error:
            problems += error.problems
    if problems:
        raise DataError(at_most(problems))
    rows = pl.concat(frames) if frames else pl.DataFrame(schema={"name": pl.String})
    if rows.is_empty():
        told = Notice("no_detections", "tables without a detection", len(frames))
        return Predictions(pl.DataFrame(schema=PREDICTIONS), [*notices, told])
    media = media_names(names, recordings, shown="BirdNET tables")
    notices += media.notices()
    rows, told = _named(rows, classes, label_map or {})
    rows = rows.with_columns(media_id=rows["name"].replace_strict(media.of, return_dtype=pl.String))
    table = to_segments(rows, min_overlap_s=min_overlap_s)
    table, past = within(table, recordings)
    rule = f"windows on segments of {SEGMENT_S} s: the highest of those that overlap it by {min_overlap_s:g} s or half a window"
    return Predictions(table, [*notices, *told, *past, Notice("windows_to_segments", rule, rows.height)])


def to_segments(windows: pl.DataFrame, *, min_overlap_s: float = MIN_OVERLAP_S) -> pl.DataFrame:
    """Scores of windows of any length as scores of segments of 5 s: see :func:`read_birdnet`.

    Args:
        windows: media_id, class_id, start_s, end_s, probability.

    Returns:
        Table of predictions, sorted by recording, segment, class.

    >>> w = pl.DataFrame({"media_id": "a", "class_id": "x", "start_s": [3.0, 6.0], "end_s": [6.0, 9.0],
    ...                   "probability": [0.5, 0.25]})
    >>> to_segments(w).select("start_s", "probability").rows()
    [(0, 0.5), (5, 0.5)]
    """
    first = (pl.col("start_s") / SEGMENT_S).floor().cast(pl.Int64)
    last = (pl.col("end_s") / SEGMENT_S).ceil().cast(pl.Int64)
    spread = windows.with_columns(k=pl.int_ranges(first, last)).explode("k")
    low, high = pl.col("k") * SEGMENT_S, (pl.col("k") + 1) * SEGMENT_S
    shared = pl.min_horizontal("end_s", high) - pl.max_horizontal("start_s", low)
    least = pl.min_horizontal(pl.lit(float(min_overlap_s)), (pl.col("end_s") - pl.col("start_s")) / 2)
    table = spread.filter(shared >= least - 1e-6).with_columns(start_s=(pl.col("k") * SEGMENT_S).cast(pl.Int32))
    key = ["media_id", "start_s", "class_id"]
    return table.group_by(key).agg(pl.col("probability").max()).sort(key).cast(PREDICTIONS)  # type: ignore[arg-type]


def within(table: pl.DataFrame, recordings: pl.DataFrame | None) -> tuple[pl.DataFrame, list[Notice]]:
    """Predictions without the segments that begin past the end of their recording; a last window is often padded."""
    if recordings is None or "duration_s" not in recordings.columns:
        return table, []
    ends = table.join(recordings.select("media_id", "duration_s"), on="media_id", how="left", maintain_order="left")
    past = (ends["start_s"] >= ends["duration_s"]).fill_null(False)
    n = int(past.sum())
    told = [Notice("window_past_end", "segments past the end of their recording, left out", n)] if n else []
    return table.filter(~past), told


def read_label_map(path: Path) -> dict[str, str]:
    """A table ``label,class_id`` as a mapping; a label without a class is left out.

    Raises:
        DataError: another header, a label with two classes.
    """
    sheet = read_sheet(path, shown=str(path))
    label, code = (
        sheet.named("label", "labels", "name", "scientificname"),
        sheet.named("classid", "class", "code", "ebirdcode"),
    )
    if label is None or code is None:
        raise DataError(sheet.missing("label", "columns label and class_id"))
    out: dict[str, str] = {}
    problems = []
    for name, to, line in zip(sheet.text(label), sheet.text(code), sheet.frame["line"], strict=True):
        if name is None or to is None:
            continue
        if out.setdefault(name, to) != to:
            found = f"{name!r} as {to} and as {out[name]}"
            problems.append(Problem("label_twice", found, "one class per label", file=sheet.file, line=line))
    if problems:
        raise DataError(at_most(problems))
    return out


def _files(paths: list[Path], notices: list[Notice]) -> list[Path]:
    out: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            out.append(path)
            continue
        found = [f for f in sorted(walk(path, "", []), key=natural_key) if f.lower().endswith((".csv", ".txt", ".tsv"))]
        aside = [f for f in found if Path(f).name.lower() in _ASIDE]
        if aside:
            notices.append(Notice("aside", f"files that BirdNET writes beside its tables ({some(aside)})", len(aside)))
        kept = [path / f for f in found if f not in aside and not Path(f).name.startswith(".")]
        if not kept:
            raise DataError(Problem("no_predictions", "no table", "BirdNET's CSV or Raven tables", file=str(path)))
        out += kept
    return out


def _detections(path: Path, notices: list[Notice], folders: dict[str, Path]) -> pl.DataFrame:
    """Rows of one table: name, scientific, common, code, start_s, end_s, probability."""
    sheet = read_sheet(path, shown=str(path))
    start, end, value = sheet.column("start"), sheet.column("end"), sheet.named("confidence", "probability", "score")
    named = [sheet.named(key) for key in ("scientificname", "commonname", "speciescode")]
    if start is None or end is None or value is None or not any(named):
        expected = "BirdNET's columns: Start (s), End (s), Scientific name or Common name, Confidence"
        raise DataError(sheet.missing("species" if not any(named) else "times or Confidence", expected))
    a, b = seconds(sheet.text(start)), seconds(sheet.text(end))
    scores = sheet.text(value).cast(pl.Float64, strict=False)
    expected = f"seconds, at most {LATEST_S:.0f}"
    problems = sheet.problems(a.is_null() | (a < 0) | (a > LATEST_S), start, "bad_time", expected)
    late = b.is_null() | (b <= a) | (b > LATEST_S)
    problems += sheet.problems(late, end, "bad_time", f"seconds, after the start, at most {LATEST_S:.0f}")
    problems += sheet.problems(
        scores.is_null() | (scores < 0) | (scores > 1),
        value,
        "prob_out_of_range",
        "a number from 0 to 1",
        "percents are divided by 100; logits go through a sigmoid",
    )
    if problems:
        raise DataError(at_most(problems))
    if raven.is_raven(sheet):
        a, b, told = raven.in_file(sheet, a, b)
        notices += told
    media = sheet.column("media")
    files = sheet.text(media)
    own = own_recording(path, folders) if files.null_count() else ""
    name = files.fill_null(own)
    scientific, common, code = (sheet.text(column) for column in named)
    columns = {"scientific": scientific, "common": common, "code": code}
    return pl.DataFrame({"name": name, **columns, "start_s": a, "end_s": b, "probability": scores})


def _named(
    rows: pl.DataFrame, classes: Sequence[str] | None, label_map: Mapping[str, str]
) -> tuple[pl.DataFrame, list[Notice]]:
    """Rows with their class, and how the names were found."""
    key = ["scientific", "common", "code"]
    species = rows.group_by(key, maintain_order=True).agg(n=pl.len())
    codes = SpeciesCodes(classes, label_map)
    found = [codes.find(*one) for one in species.select(key).iter_rows()]
    species = species.with_columns(
        class_id=pl.Series([c for c, _ in found], dtype=pl.String),
        how=pl.Series([h for _, h in found], dtype=pl.String),
    )
    notices = []
    told = {
        "by_label_map": "species found in the label map",
        "by_ebird": f"species whose names were turned into codes of eBird ({', '.join(EBIRD)})",
        "no_class": "species without a code, left out",
        "class_not_in_list": "species that are not in the class list, left out",
    }
    kinds = Counter(species["how"])
    for how, text in told.items():
        if kinds[how]:
            held = species.filter(pl.col("how") == how)
            names = held.select(pl.coalesce("common", "scientific", "code")).to_series().to_list()
            n_rows = f"; {int(held['n'].sum())} rows" if how in ("no_class", "class_not_in_list") else ""
            notices.append(Notice(how, f"{text} ({some(names)}{n_rows})", kinds[how]))
    kept = species.filter(pl.col("class_id").is_not_null() & (pl.col("how") != "class_not_in_list"))
    return rows.join(kept.select(*key, "class_id"), on=key, nulls_equal=True, maintain_order="left"), notices


class SpeciesCodes:
    """Codes of species; lists of eBird are read when the first name needs them."""

    def __init__(self, classes: Sequence[str] | None, label_map: Mapping[str, str]) -> None:
        self.classes = None if classes is None else frozenset(classes)
        self.label_map = label_map
        self._lists: list[tuple] | None = None

    def find(self, scientific: str | None, common: str | None, code: str | None) -> tuple[str | None, str]:
        """Class and how it was found."""
        both = f"{scientific}_{common}" if scientific and common else None
        names = [n for n in (code, scientific, common, both) if n]
        mapped = next((self.label_map[n] for n in (scientific, common, both, code) if n in self.label_map), None)
        if mapped is not None:
            return mapped, "by_label_map" if self._listed(mapped) else "class_not_in_list"
        if self.classes is not None:
            direct = next((n for n in names if n in self.classes), None)
            if direct:
                return direct, "direct"
        codes = [code] if code else []
        codes += [found for found in self._ebird(scientific, common)]
        if not codes:
            return None, "no_class"
        listed = next((c for c in codes if self._listed(c)), None)
        if listed is None:
            return codes[0], "class_not_in_list"
        return listed, "direct" if listed == code else "by_ebird"

    def _listed(self, code: str) -> bool:
        return self.classes is None or code in self.classes

    def _ebird(self, *names: str | None) -> list[str]:
        if self._lists is None:
            from birdlab.readers.taxonomy import read_taxonomy

            self._lists = []
            for name in EBIRD:
                tree = read_taxonomy(name)
                held = tree.taxa.filter((pl.col("rank") == "species") & pl.col("code").is_not_null())
                self._lists.append((tree, dict(held.select("taxon_id", "code").iter_rows())))
        out = []
        for tree, codes in self._lists:
            for name in filter(None, names):
                found = tree.resolve_one(name).taxon_id
                if found in codes:
                    out.append(codes[found])
                    break
        return list(dict.fromkeys(out))
