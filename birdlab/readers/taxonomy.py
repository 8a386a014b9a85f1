"""Lists of taxa: pinned ones of the package ``birdnames``, and a user's own file of eBird, iNaturalist or AviList shape."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import importlib.util
import re
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from birdlab.abstention.names import fold
from birdlab.abstention.taxonomy import ALIAS_SCHEMA, SYNONYM_SCHEMA, SpeciesRow, Taxonomy, taxa_table
from birdlab.errors import DataError, ManifestError, Problem
from birdlab.manifest import hash_file_or_error
from birdlab.readers.csvfile import CsvFile, read_rows
from birdlab.readers.files import Notice, at_most, shown_path

#: Lists that the package birdnames carries, and their files in it.
PINNED = {
    name: f"data/processed/{name}_taxonomy.csv"
    for name in ("ebird_2021", "ebird_2022", "ebird_2023", "ebird_2024", "avilist_2025")
}
#: Headers (lower case, words joined by _) under which a column is known.
COLUMNS: dict[str, tuple[str, ...]] = {
    "name": ("scientific_name", "scientificname", "sci_name", "binomial", "species"),
    "common": ("common_name", "primary_com_name", "english_name", "english_name_avilist", "english", "vernacularname"),
    "code": ("species_code", "ebird_code", "avibase_id", "code", "id"),
    "rank": ("category", "taxon_rank", "taxonrank", "rank"),
    "genus": ("genus",),
    "family": ("family_sci_name", "family"),
    "order": ("order", "order1"),
    "report_as": ("report_as",),
    "epithet": ("specificepithet", "specific_epithet", "epithet"),
}
#: Rows that lend their name to species but are no leaves.
ALIAS_KINDS = {
    "issf": "subspecies",
    "subspecies": "subspecies",
    "form": "form",
    "domestic": "domestic",
    "slash": "slash",
    "spuh": "spuh",
    "hybrid": "hybrid",
    "intergrade": "intergrade",
    "variety": "subspecies",
    "group (monotypic)": "subspecies",
    "group (polytypic)": "subspecies",
}
_PREFIX = re.compile(r"^(ebird|avilist|birdlife|ibp|bbl)_")
_HYBRID = re.compile(r"\s+[xX]\s+|\s*×\s*|\s*/\s*")


def read_taxonomy(
    source: str | Path,
    *,
    sha256: str | None = None,
    synonyms: Path | None = None,
    vernacular: Path | None = None,
    base: Path | None = None,
) -> Taxonomy:
    """A list of taxa by its pinned name or from a file.

    Args:
        source: ``ebird_2021`` ... ``ebird_2024`` or ``avilist_2025`` (files of the installed package birdnames), or a
            CSV or TSV whose header is eBird's, iNaturalist's (Darwin Core), AviList's, or genus, species[, family,
            order, common_name]. Delimiter ``,`` ``;`` tab or ``|``; UTF-8, UTF-16 or Latin-1; headers in any case.
        sha256: what the file must hash to.
        synonyms: table of the user's own (old_name, new_names joined by ``|``, kind, note, since, until); its rows come
            before those that birdlab carries.
        vernacular: file of further names (iNaturalist's: id, vernacularName, language; or scientific_name, name).
        base: folder that relative paths start from; the working directory by default.

    Returns:
        The list. Subspecies, slashes, spuhs, hybrids and forms lend their names and are counted in ``notices``; of a
        file with a column ``class`` only Aves is read.

    Raises:
        DataError: no such file or list, a header that is none of these shapes, rows that cannot be (see
            :func:`birdlab.abstention.taxonomy.taxa_table`).
        ManifestError: the file does not hash to ``sha256``.
    """
    root = Path.cwd() if base is None else Path(base)
    if str(source) in PINNED:
        path, name = _pinned(str(source)), str(source)
        version = f"{name[-4:]} (birdnames {importlib.metadata.version('birdnames')})"
    else:
        path = root / source
        name, version = path.stem, ""
        if not path.is_file():
            raise DataError(_no_file(path, source))
    digest = hash_file_or_error(path)
    if isinstance(digest, DataError):
        raise digest
    if sha256 and digest.lower() != sha256.lower():
        remedy = "use the version that was pinned, or pin the new one in the recipe"
        raise ManifestError(Problem("hash_differs", digest, sha256, remedy, file=shown_path(path, root), key="sha256"))
    year = re.search(r"(?<!\d)20\d\d(?!\d)", name)
    parsed = _parse(read_rows(path, shown=shown_path(path, root), only=("class", "Aves")))
    taxa, notices = taxa_table(parsed.species, file=parsed.file)
    table = read_synonyms(base=root) if synonyms is None else _own_first(read_synonyms(synonyms, base=root))
    aliases = parsed.alias_rows(taxa)
    if vernacular is not None:
        taxa, more, notice = _vernacular(read_rows(root / vernacular, shown=shown_path(root / vernacular, root)), taxa)
        aliases += more
        notices += notice
    version = version or (year[0] if year else f"sha256 {digest[:12]}")
    lent = pl.DataFrame(aliases, schema=ALIAS_SCHEMA, orient="row")
    return Taxonomy(taxa, table, name, version, digest, lent, (*parsed.notices(), *notices))


def _pinned(name: str) -> Path:
    """The file of a pinned list; found without importing the package, which would load pandas."""
    spec = importlib.util.find_spec("birdnames")
    folder = spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else None
    path = Path(folder) / PINNED[name] if folder else None
    if path is None or not path.is_file():
        found = "no package birdnames" if path is None else "a package birdnames without this list"
        remedy = "install birdnames (pip install birdnames), or give the path of a CSV with the list"
        raise DataError(Problem("no_taxonomy", found, f"the list {name} in the package birdnames", remedy))
    return path


def _no_file(path: Path, source: str | Path) -> Problem:
    found = "a folder" if path.is_dir() else "no such file"
    expected = "one of " + ", ".join(PINNED) + ", or a CSV file"
    return Problem("no_taxonomy", found, expected, "set the taxonomy in the recipe", file=str(source))


@dataclass
class _Parsed:
    """What a file of taxa holds, before it is checked."""

    file: str
    species: list[SpeciesRow] = field(default_factory=list)
    aliases: list[tuple[str, str, str | None, str | None]] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    encoding: str = "utf-8"

    def alias_rows(self, taxa: pl.DataFrame) -> list[tuple[str, str, list[str]]]:
        """(name, kind, taxon ids) of every row that is no leaf, English name and scientific name each."""
        rank = dict(taxa.select("taxon_id", "rank").iter_rows())
        codes = dict(taxa.filter(pl.col("code").is_not_null()).select("code", "taxon_id").iter_rows())
        rows = []
        for name, kind, common, report_as in self.aliases:
            ids = [codes[report_as]] if report_as in codes else _stands_for(name, kind, rank)
            if ids:
                rows += [(text, kind, ids) for text in (name, common) if text]
        return rows

    def notices(self) -> list[Notice]:
        """What was skipped, and which rows lend only their names."""
        kinds: dict[str, int] = {}
        for _, kind, _, _ in self.aliases:
            kinds[kind] = kinds.get(kind, 0) + 1
        notices = [
            Notice(f"names_of_{kind}", f"rows of kind {kind}: their names are known, they are no species", n, self.file)
            for kind, n in sorted(kinds.items())
        ]
        notices += [
            Notice("rows_skipped", f"{what}: skipped", n, self.file) for what, n in sorted(self.skipped.items())
        ]
        if self.encoding == "latin-1":
            notices.append(Notice("latin_1", "the file is not UTF-8; it was read as Latin-1", 1, self.file))
        return notices


def _stands_for(name: str, kind: str, rank: dict[str, str]) -> list[str]:
    """The taxa behind the scientific name of a row that is no species; none where they are not in the list."""
    text = re.sub(r"\s*\([^()]*\)\s*$", "", name)
    words = text.split()
    if kind == "spuh":
        return words[:1] if words and words[0] in rank else []
    if kind in ("slash", "hybrid", "intergrade"):
        parts = [part.split() for part in _HYBRID.split(text) if part]
        full = [" ".join(p[:2]) if len(p) > 1 and p[0][:1].isupper() else f"{words[0]} {p[0]}" for p in parts]
        return list(dict.fromkeys(full)) if all(rank.get(f) == "species" for f in full) else []
    binomial = " ".join(words[:2])
    return [binomial] if rank.get(binomial) == "species" else []


def _parse(table: CsvFile) -> _Parsed:
    place = _columns(table)
    parsed = _Parsed(table.file, encoding=table.encoding)
    if table.left_out:
        parsed.skipped["rows of another class than Aves"] = table.left_out

    def cell(row: list[str], key: str) -> str | None:
        return row[place[key]].strip() or None if key in place else None

    for line, row in table.rows:
        kind = (cell(row, "rank") or "species").casefold()
        if kind == "species":
            parsed.species.append(_species(line, row, cell))
        elif kind in ALIAS_KINDS:
            parsed.aliases.append(
                (_binomial(row, cell), ALIAS_KINDS[kind], cell(row, "common"), cell(row, "report_as"))
            )
        else:
            known = kind in ("class", "order", "family", "genus", "subfamily", "tribe", "superfamily", "suborder")
            _count(parsed.skipped, "rows of higher ranks" if known else f"rows of rank {kind[:40]!r}")
    return parsed


def _count(counts: dict[str, int], what: str) -> None:
    counts[what] = counts.get(what, 0) + 1


def _species(line: int, row: list[str], cell) -> SpeciesRow:
    family, order = cell(row, "family"), cell(row, "order")
    return SpeciesRow(
        _binomial(row, cell),
        cell(row, "genus"),
        # eBird writes "Struthionidae (Ostriches)".
        re.sub(r"\s*\(.*\)$", "", family) if family else None,
        order,
        cell(row, "common"),
        cell(row, "code"),
        line,
    )


def _binomial(row: list[str], cell) -> str:
    """The scientific name of a row; genus and epithet joined where the file keeps them apart."""
    name, genus, epithet = cell(row, "name") or "", cell(row, "genus"), cell(row, "epithet")
    name = " ".join(name.replace("_", " ").split())
    if not name and genus and epithet:
        return f"{genus} {epithet}"
    return f"{genus} {name}" if genus and name and " " not in name else name


def _columns(table: CsvFile) -> dict[str, int]:
    """Place of every known column; the first header that a column goes by wins."""
    heads: dict[str, int] = {}
    for i, head in enumerate(table.header):
        key = re.sub(r"[\s\-]+", "_", head.strip().casefold().lstrip("\ufeff"))
        heads.setdefault(_PREFIX.sub("", key), i)
    place = {
        key: next(heads[n] for n in names if n in heads) for key, names in COLUMNS.items() if set(names) & set(heads)
    }
    if "name" not in place and not {"genus", "epithet"} <= set(place):
        expected = "a column with the scientific name (scientific_name, SCI_NAME, scientificName, or genus and species)"
        found = "columns " + ", ".join(table.header[:8]) + (", ..." if len(table.header) > 8 else "")
        remedy = "give a list with the header of eBird, iNaturalist or AviList, or with genus,species"
        raise DataError(Problem("unknown_shape", found, expected, remedy, file=table.file, line=1))
    return place


def read_synonyms(path: Path | str | None = None, *, base: Path | None = None) -> pl.DataFrame:
    """The table of synonyms: old_name, new_names (joined by ``|``), kind[, note, since, until].

    Args:
        path: a CSV; ``None`` for the table that birdlab carries.
        base: folder that a relative path starts from.

    Raises:
        DataError: a column is missing, a kind is unknown, a rename or lump has several new names, a split has one, a
            year is no year. All of them, each with its line.

    >>> table = read_synonyms()
    >>> table.filter(pl.col("old_name") == "Accipiter cooperii")["new_names"].to_list()
    ['Astur cooperii']
    """
    if path is None:
        with importlib.resources.as_file(importlib.resources.files("birdlab.abstention") / "data/synonyms.csv") as own:
            return _synonym_table(read_rows(own, shown="synonyms.csv"))
    place = (base or Path.cwd()) / path
    return _synonym_table(read_rows(place, shown=shown_path(place, base or Path.cwd())))


def _synonym_table(table: CsvFile) -> pl.DataFrame:
    heads = {head.strip().casefold(): i for i, head in enumerate(table.header)}
    missing = [key for key in ("old_name", "new_names", "kind") if key not in heads]
    if missing:
        found = "columns " + ", ".join(table.header[:8])
        raise DataError(
            Problem("missing_column", found, "a column " + " and ".join(missing), "add it", file=table.file, line=1)
        )
    rows, problems = [], []
    for line, row in table.rows:
        cells = {key: row[i].strip() for key, i in heads.items()}
        new = [name.strip() for name in cells["new_names"].split("|") if name.strip()]
        years = [cells.get("since", ""), cells.get("until", "")]
        bad = _bad_synonym(cells, new, years)
        if bad:
            problems.append(Problem("bad_synonym", *bad, file=table.file, line=line))
            continue
        since, until = (int(year) if year else None for year in years)
        rows.append(
            (cells["old_name"], "|".join(new), cells["kind"].casefold(), cells.get("note") or None, since, until)
        )
    if problems:
        raise DataError(at_most(problems))
    return pl.DataFrame(rows, schema=SYNONYM_SCHEMA, orient="row")


def _bad_synonym(cells: dict[str, str], new: list[str], years: list[str]) -> tuple[str, str] | None:
    """What was found and what was expected, where a row cannot be used."""
    kind = cells["kind"].casefold()
    if not cells["old_name"]:
        return "no old name", "a name in old_name"
    if kind not in ("rename", "split", "lump"):
        return f"kind {cells['kind']!r}", "rename, split or lump"
    if (len(new) < 2) if kind == "split" else (len(new) != 1):
        return f"a {kind} into {len(new)} names", "two or more names joined by |" if kind == "split" else "one new name"
    if not all(re.fullmatch(r"(?:\d{4})?", year) for year in years):
        return f"since {years[0]!r}, until {years[1]!r}", "years of four digits, or nothing"
    return None


def _own_first(own: pl.DataFrame) -> pl.DataFrame:
    """A user's rows, then those birdlab carries for other names."""
    carried = read_synonyms()
    mine = pl.Series([fold(name) for name in own["old_name"]], dtype=pl.String)
    theirs = pl.Series([fold(name) for name in carried["old_name"]], dtype=pl.String)
    return pl.concat([own, carried.filter(~theirs.is_in(mine.implode()))])


def _vernacular(
    table: CsvFile, taxa: pl.DataFrame
) -> tuple[pl.DataFrame, list[tuple[str, str, list[str]]], list[Notice]]:
    """Names of a separate file: the first English one of a species without a common name becomes it."""
    heads = {re.sub(r"[\s_\-]+", "", head.strip().casefold()): i for i, head in enumerate(table.header)}
    who = next((heads[k] for k in ("id", "code", "speciescode", "scientificname", "taxonid") if k in heads), None)
    what = next((heads[k] for k in ("vernacularname", "name", "commonname") if k in heads), None)
    if who is None or what is None:
        found = "columns " + ", ".join(table.header[:8])
        raise DataError(Problem("missing_column", found, "columns id and vernacularName", file=table.file, line=1))
    species = taxa.filter(pl.col("rank") == "species")
    known = dict(species.filter(pl.col("code").is_not_null()).select("code", "taxon_id").iter_rows())
    known |= {taxon: taxon for taxon in species["taxon_id"]}
    english: dict[str, str] = {}
    rows, other = [], 0
    for _, row in table.rows:
        taxon, text = known.get(row[who].strip()), row[what].strip()
        if taxon is None or not text:
            other += 1
            continue
        rows.append((text, "vernacular", [taxon]))
        language = row[heads["language"]].strip().casefold() if "language" in heads else "en"
        if language[:2] in ("en", ""):
            english.setdefault(taxon, text)
    filled = pl.Series([english.get(taxon) for taxon in taxa["taxon_id"]], dtype=pl.String)
    notices = (
        [Notice("names_of_other_taxa", "names of taxa that the list does not have", other, table.file)] if other else []
    )
    return taxa.with_columns(common_name=pl.coalesce("common_name", filled)), rows, notices
