"""Reader of the items of an abstention study: which photographs, what they show, and whether they can be identified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, Problem
from birdlab.readers.files import Notice, at_most
from birdlab.readers.item_fields import (
    REASONS,
    date_of,
    heading,
    reasons_of,
    shown_list,
    split_list,
    tidy_name,
    truth_value,
)
from birdlab.readers.table_file import TableFile, as_text, read_table

#: Columns of the items table.
ITEM_SCHEMA = schemas.TABLES["items"].dtypes
#: Headings that are understood for each column, the first that is there wins.
_HEADINGS = {
    "item_id": ("item_id", "id", "image_id", "image"),
    "image": ("image", "image_path", "path", "file_name", "image_id"),
    "genus": ("genus",),
    "species": ("species", "scientific_name"),
    "is_answerable": ("is_answerable", "answerable"),
    "reasons": ("reasons", "reason"),
    "candidates": ("candidates",),
    "observation_id": ("observation_id",),
    "observer_id": ("observer_id",),
    "date": ("date", "observed_on"),
    "source": ("source", "collection"),
}


class NamesOfTaxa(Protocol):
    """What the reader needs of a taxonomy: names to taxa, and the genus of each species."""

    @property
    def genus_of(self) -> Mapping[str, str]: ...

    def resolve(self, names: Sequence[str]) -> pl.DataFrame: ...


@dataclass(frozen=True)
class _Name:
    """What one name in the file means: a taxon of a rank, how it was found, and what else it could be."""

    taxon_id: str | None
    rank: str | None
    how: str
    candidates: tuple[str, ...] = ()
    flag: str | None = None


@dataclass
class _Reading:
    """One file while it is read: its text columns, what names mean, and what is wrong where."""

    table: TableFile
    columns: dict[str, list[str | None]]
    names: dict[tuple[str, str], _Name]
    genus_of: Mapping[str, str] | None
    wrong: list[tuple[int, str, str, str, str, str]] = field(default_factory=list)
    counted: dict[str, list[str]] = field(default_factory=dict)

    def fault(self, row: int, key: str, code: str, found: str, expected: str, remedy: str = "") -> None:
        self.wrong.append((row, code, found, expected, remedy, key))

    def count(self, what: str, name: str) -> None:
        self.counted.setdefault(what, []).append(name)

    def genus(self, species: str) -> str:
        return species.split()[0] if self.genus_of is None else self.genus_of[species]


def read_items(
    path: Path, taxonomy: NamesOfTaxa | None = None, *, source: str = ""
) -> tuple[pl.DataFrame, list[Notice]]:
    """Read the items of an abstention study from CSV, TSV, parquet, feather or JSON lines.

    Args:
        path: the file; columns item_id, is_answerable, genus and species, and where known image, reasons, candidates,
            observation_id, observer_id, date, source. Lists in a text file are joined by ``|`` or ``;``.
        taxonomy: the pinned list its names are looked up in; without one a genus is the first word of its species.
        source: how problems name the file; its path where empty.

    Returns:
        The items table (:data:`ITEM_SCHEMA`), in the order of the file, and notices: synonyms followed, unanswerable
        items without a reason, candidates the taxonomy does not know, lists that drop the true species, columns passed
        over. ``reasons`` is empty for answerable items; ``candidates`` is null where no list is given.

    Raises:
        DataError: with every problem of the file (the first 20 and the number of the others): names that are not
            found, a species outside its genus, an answerable item without a species, an unanswerable one with a
            species, reasons that are none, ids that stand twice, dates that are none.
    """
    table = read_table(path, source)
    columns, passed_over = _columns(table)
    reading = _Reading(table, columns, _look_up(columns, taxonomy), None if taxonomy is None else taxonomy.genus_of)
    _check_ids(reading)
    rows = [_item(reading, row) for row in range(table.frame.height)]
    if reading.wrong:
        problems = [
            table.problem(row, code, found, expected, remedy=remedy, key=key)
            for row, code, found, expected, remedy, key in sorted(reading.wrong)[:20]
        ]
        more = len(reading.wrong) - len(problems)
        if more > 0:
            problems.append(
                Problem("more", f"{more} more problems, {len(reading.wrong)} in all", "none", file=table.shown)
            )
        raise DataError(problems)
    items = pl.DataFrame(rows, schema=ITEM_SCHEMA, orient="row")
    return items, _notices(reading, items, passed_over)


def _columns(table: TableFile) -> tuple[dict[str, list[str | None]], list[str]]:
    """The columns of the file by their name in the items table, as text, and the names of the others."""
    by_heading: dict[str, str] = {}
    problems: list[Problem] = []
    for name in table.frame.columns:
        if heading(name) in by_heading:
            problems.append(
                table.problem(None, "duplicate_column", name, f"one of {by_heading[heading(name)]!r} and {name!r}")
            )
        by_heading.setdefault(heading(name), name)
    chosen: dict[str, str] = {}
    for name, headings in _HEADINGS.items():
        free = [h for h in headings if h in by_heading and (h == "image" or by_heading[h] not in chosen.values())]
        if free:
            chosen[name] = by_heading[free[0]]
    has = "the columns " + ", ".join(table.frame.columns)[:150]
    for name in ("item_id", "is_answerable"):
        if name not in chosen:
            remedy = "1 where the species can be told, 0 where it cannot" if name == "is_answerable" else ""
            problems.append(table.problem(None, "missing_column", has, f"a column {name}", remedy=remedy, key=name))
    if not {"genus", "species"} & chosen.keys():
        problems.append(table.problem(None, "missing_column", has, "columns genus and species", key="genus"))
    if problems:
        raise DataError(at_most(problems))
    nothing = [None] * table.frame.height
    columns = {
        name: as_text(table.frame[chosen[name]], table.shown).to_list() if name in chosen else nothing
        for name in ITEM_SCHEMA
    }
    return columns, [name for name in table.frame.columns if name not in chosen.values()]


def _look_up(columns: dict[str, list[str | None]], taxonomy: NamesOfTaxa | None) -> dict[tuple[str, str], _Name]:
    """What each distinct name of the file means, by (``genus`` or ``species``, name)."""
    genera = {name for name in columns["genus"] if name}
    species = {name for name in columns["species"] if name}
    # One list often serves many photographs: each distinct list is taken apart once.
    species |= {name for text in set(columns["candidates"]) for name in split_list(text)}
    if taxonomy is None:
        plain = {("genus", name): _Name(tidy_name(name), "genus", "exact") for name in genera}
        return plain | {("species", name): _plain_species(name) for name in species}
    # Looked up first among the genera: Jabiru and Anhinga are English names of species as well.
    known = frozenset(taxonomy.genus_of.values())
    named = {("genus", name): _Name(tidy_name(name), "genus", "exact") for name in genera if tidy_name(name) in known}
    wanted = sorted(species | {name for name in genera if ("genus", name) not in named})
    found: dict[str, _Name] = {}
    if wanted:
        answer = taxonomy.resolve(wanted).select("taxon_id", "rank", "how", "candidates", "flag")
        for name, (taxon_id, rank, how, candidates, flag) in zip(wanted, answer.iter_rows(), strict=True):
            found[name] = _Name(taxon_id, rank, how, tuple(candidates or ()), flag)
    looked_up = {(rank, name): found[name] for rank in ("genus", "species") for name in wanted}
    return looked_up | named


def _plain_species(name: str) -> _Name:
    tidy = tidy_name(name)
    is_binomial = len(tidy.split()) >= 2 and tidy.split()[1].rstrip(".") not in ("sp", "spp")
    return _Name(tidy, "species", "exact") if is_binomial else _Name(None, None, "none")


def _check_ids(reading: _Reading) -> None:
    first: dict[str, int] = {}
    for row, item_id in enumerate(reading.columns["item_id"]):
        if item_id is None:
            reading.fault(row, "item_id", "empty_value", "nothing", "the id of the item")
        elif item_id in first:
            before = reading.table.problem(first[item_id], "", "", "")
            where = f"line {before.line}" if before.line else before.record
            reading.fault(row, "item_id", "duplicate_item", repr(item_id), f"every item once (first in {where})")
        else:
            first[item_id] = row


def _item(reading: _Reading, row: int) -> tuple[object, ...]:
    """One row of the items table; what is wrong with it goes to ``reading``."""
    cell = {name: column[row] for name, column in reading.columns.items()}
    answerable = _answerable(reading, row, cell["is_answerable"])
    genus, species = _taxa(reading, row, cell["genus"], cell["species"], answerable)
    reasons, unknown = reasons_of(cell["reasons"])
    if unknown:
        expected = ", ".join(REASONS) + ", several joined by |"
        reading.fault(row, "reasons", "unknown_reason", ", ".join(map(repr, unknown)), expected)
    elif reasons and answerable:
        found, remedy = f"{'|'.join(reasons)} for an answerable item", "empty the field, or mark the item unanswerable"
        reading.fault(row, "reasons", "reason_for_answerable", found, "reasons for unanswerable items only", remedy)
    elif answerable is False and not reasons:
        reading.count("no_reason", cell["item_id"] or "")
    day = date_of(cell["date"]) if cell["date"] else None
    if cell["date"] and day is None:
        reading.fault(row, "date", "bad_date", repr(cell["date"]), "a date as 2024-05-31", "or nothing")
    candidates = _candidates(reading, cell["candidates"])
    if candidates is not None and answerable and species is not None and species not in candidates:
        reading.count("species_not_in_list", cell["item_id"] or "")
    return (
        cell["item_id"],
        cell["image"],
        genus,
        species,
        answerable,
        reasons,
        candidates,
        cell["observation_id"],
        cell["observer_id"],
        day,
        cell["source"],
    )


def _answerable(reading: _Reading, row: int, text: str | None) -> bool | None:
    value = truth_value(text) if text else None
    if value is None:
        reading.fault(row, "is_answerable", "not_binary", repr(text) if text else "nothing", "1 or 0, yes or no")
    return value


def _taxa(
    reading: _Reading, row: int, genus_text: str | None, species_text: str | None, answerable: bool | None
) -> tuple[str | None, str | None]:
    """Genus and species of a row as taxa; ``None`` where wrong, which is then told."""
    if species_text and answerable is False:
        remedy = "empty the field, or mark the item answerable"
        found = f"{species_text!r} for an unanswerable item"
        reading.fault(row, "species", "species_for_unanswerable", found, "no species", remedy)
        return None, None
    if not species_text and answerable:
        remedy = "name the species, or mark the item unanswerable"
        reading.fault(row, "species", "no_species", "nothing", "the species of an answerable item", remedy)
    species = _taxon(reading, row, "species", species_text)
    if genus_text is None:
        if species is not None:
            reading.count("genus_from_species", species)
            return reading.genus(species), species
        if not species_text:
            reading.fault(row, "genus", "no_genus", "nothing", "the genus of the item")
        return None, species
    if species is not None and species_text:
        moved = reading.names["species", species_text].how == "synonym"
        if moved and tidy_name(genus_text) == tidy_name(species_text).split()[0]:
            return reading.genus(species), species  # the old genus of an old name goes with it
    genus = _taxon(reading, row, "genus", genus_text)
    if genus is not None and species is not None and reading.genus(species) != genus:
        found = f"{species} in the genus {genus}"
        reading.fault(row, "genus", "species_outside_genus", found, f"its genus, {reading.genus(species)}")
    return genus, species


def _taxon(reading: _Reading, row: int, rank: str, text: str | None) -> str | None:
    if not text:
        return None
    name = reading.names[rank, text]
    if name.taxon_id is not None and name.rank == rank:
        if name.how not in ("exact", "case", "genus"):
            reading.count(f"{rank}_by_{name.how}", f"{text} = {name.taxon_id}")
        if name.flag == "split":
            reading.count("split_name", text)
        return name.taxon_id
    expected = f"a {rank} of the taxonomy" if reading.genus_of is not None else "a species name of two words"
    remedy = (
        f"write one of {shown_list(list(name.candidates), 5)}" if name.candidates else "correct it, or add a synonym"
    )
    found = repr(text) if name.taxon_id is None else f"{text!r}, which is a {name.rank}"
    reading.fault(row, rank, f"unknown_{rank}", found, expected, remedy)
    return None


def _candidates(reading: _Reading, text: str | None) -> list[str] | None:
    if not text:
        return None
    known: dict[str, None] = {}
    for part in split_list(text):
        name = reading.names["species", part]
        if name.taxon_id is not None and name.rank == "species":
            known[name.taxon_id] = None
        else:
            reading.count("unknown_candidate", part)
    if not known:
        reading.count("list_without_species", text[:80])
    return list(known) or None


_SAID = {
    "no_reason": "unanswerable items without a reason",
    "species_not_in_list": "answerable items whose species is not in their own candidate list",
    "split_name": "species names that mean less since a split (check which list they were taken from)",
    "genus_from_species": "items without a genus: it was taken from the species",
    "unknown_candidate": "entries of candidate lists are no known species and were left out",
    "list_without_species": "candidate lists hold no known species and count as not given",
}


def _notices(reading: _Reading, items: pl.DataFrame, passed_over: list[str]) -> list[Notice]:
    notices = [_notice(what, names, reading.table.shown) for what, names in reading.counted.items()]
    if passed_over:
        message = f"columns were passed over: {shown_list(passed_over, 8)}"
        notices.append(Notice("other_columns", message, len(passed_over), reading.table.shown))
    for is_answerable, what in ((True, "answerable"), (False, "unanswerable")):
        if not (items["is_answerable"] == is_answerable).any():
            message = f"no item is {what}: what compares the two is undefined"
            notices.append(Notice(f"no_{what}", message, items.height, reading.table.shown))
    return sorted(notices, key=lambda notice: notice.code)


def _notice(what: str, names: Iterable[str], shown: str) -> Notice:
    names = list(names)
    rank, by, how = what.partition("_by_")
    said = f"{rank} names were read as {how} names" if by else _SAID[what]
    return Notice(what, f"{said}: {shown_list(list(dict.fromkeys(names)))}", len(names), shown)
