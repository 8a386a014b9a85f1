"""The tree of the taxa: one pinned list, with the names people use for its species."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import polars as pl

from birdlab import schemas
from birdlab.abstention.names import Match, NameIndex, Synonym, fold
from birdlab.errors import DataError, ParameterError, Problem
from birdlab.readers.files import Notice, at_most, nearest
from birdlab.schemas.constants import RANKS

RANK = pl.Enum(RANKS)
#: Columns of the table ``taxa``.
TAXA_SCHEMA = schemas.TABLES["taxa"].dtypes
SYNONYM_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "old_name": pl.String,
    "new_names": pl.String,
    "kind": pl.Enum(["rename", "split", "lump"]),
    "note": pl.String,
    "since": pl.Int32,
    "until": pl.Int32,
}
ALIAS_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "name": pl.String,
    "kind": pl.String,
    "taxon_ids": pl.List(pl.String),
}
RESOLVED_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "name": pl.String,
    "taxon_id": pl.String,
    "rank": RANK,
    "how": pl.String,
    "candidates": pl.List(pl.String),
    "flag": pl.String,
}


@dataclass(frozen=True)
class SpeciesRow:
    """One species as a list has it; ``line`` is its place in the file."""

    name: str
    genus: str | None = None
    family: str | None = None
    order: str | None = None
    common_name: str | None = None
    code: str | None = None
    line: int | None = None


@dataclass(frozen=True, eq=False)
class Taxonomy:
    """A pinned list of taxa and the names they go by.

    Args:
        taxa: table of taxon_id, rank, parent_id, scientific_name, common_name, code; every parent is in the table.
        synonyms: table of old_name, new_names (joined by ``|``), kind (rename, split, lump), note, since, until (years of
            lists).
        name: name of the list.
        version: its version; a year in it decides which synonyms hold.
        sha256: of the file that it was read from; ``None`` for a list made of names.
        aliases: further names (subspecies, slashes, hybrids, vernacular names) and the taxa that each stands for.
        notices: what the reader skipped or assumed.
    """

    taxa: pl.DataFrame
    synonyms: pl.DataFrame
    name: str
    version: str
    sha256: str | None = None
    aliases: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ALIAS_SCHEMA))
    notices: tuple[Notice, ...] = ()

    @classmethod
    def from_names(
        cls, binomials: Iterable[str], *, name: str = "names", synonyms: pl.DataFrame | None = None
    ) -> Taxonomy:
        """A tree from binomials alone: the genus is the first word, all genera hang under the class.

        Args:
            binomials: names of species, such as the labels of a model; repeats count once.
            name: what to call the list.
            synonyms: table of synonyms; none by default.

        Raises:
            DataError: a name has fewer than two words.

        >>> tree = Taxonomy.from_names(["Corvus corax", "Corvus corone", "Pica pica"])
        >>> tree.genus_sizes
        {'Corvus': 2, 'Pica': 1}
        """
        distinct = dict.fromkeys(" ".join(b.split()) for b in binomials)
        taxa, _ = taxa_table([SpeciesRow(b, line=None) for b in distinct], file=name)
        table = pl.DataFrame(schema=SYNONYM_SCHEMA) if synonyms is None else synonyms
        return cls(taxa, table, name, "names only")

    @cached_property
    def species(self) -> list[str]:
        """Taxon ids of all species, in the order of the list."""
        return self.taxa.filter(pl.col("rank") == "species")["taxon_id"].to_list()

    @cached_property
    def rank_of(self) -> dict[str, str]:
        """Rank of every taxon."""
        return dict(self.taxa.select("taxon_id", "rank").iter_rows())

    @cached_property
    def parent_of(self) -> dict[str, str | None]:
        """Parent of every taxon; ``None`` for the class."""
        return dict(self.taxa.select("taxon_id", "parent_id").iter_rows())

    @cached_property
    def common_of(self) -> dict[str, str]:
        """Common name of every taxon that has one."""
        named = self.taxa.filter(pl.col("common_name").is_not_null())
        return dict(named.select("taxon_id", "common_name").iter_rows())

    @cached_property
    def genus_of(self) -> dict[str, str]:
        """Genus of every species."""
        return self.ancestors("genus")

    @cached_property
    def genus_sizes(self) -> dict[str, int]:
        """Number of species of every genus, in the order of the list."""
        return dict(Counter(self.genus_of.values()))

    @cached_property
    def year(self) -> int | None:
        """Year of the list as its version says it."""
        found = re.search(r"(?<!\d)20\d\d(?!\d)", self.version)
        return int(found[0]) if found else None

    def ancestors(self, rank: str) -> dict[str, str]:
        """The taxon of one rank above every species; species without one are left out.

        Raises:
            ParameterError: ``rank`` is none of class, order, family, genus, species.

        >>> Taxonomy.from_names(["Corvus corax"]).ancestors("class")
        {'Corvus corax': 'Aves'}
        """
        if rank not in RANKS:
            raise ParameterError(Problem("bad_value", repr(rank), "one of " + ", ".join(RANKS), key="rank"))
        found: dict[str, str] = {}
        for species in self.species:
            taxon: str | None = species
            while taxon is not None and self.rank_of[taxon] != rank:
                taxon = self.parent_of[taxon]
            if taxon is not None:
                found[species] = taxon
        return found

    @cached_property
    def index(self) -> NameIndex:
        """Lookups over all names, built at first use."""
        rows = self.synonyms.select("old_name", "new_names", "kind", "since", "until").iter_rows()
        return NameIndex.build(
            self.taxa.select("taxon_id", "rank", "common_name").iter_rows(),
            self.genus_of,
            aliases=self.aliases.select("name", "kind", "taxon_ids").iter_rows(),
            synonyms=[Synonym(old, tuple(new.split("|")), kind, since, until) for old, new, kind, since, until in rows],
            year=self.year,
        )

    def resolve_one(self, name: str | None) -> Match:
        """:meth:`resolve` for one name.

        >>> Taxonomy.from_names(["Corvus corax"]).resolve_one("corvus_corax")
        Match(taxon_id='Corvus corax', how='case', candidates=(), flag=None)
        """
        return self.index.find(name)

    def resolve(self, names: Sequence[str | None]) -> pl.DataFrame:
        """The taxa that names stand for, by exact keys only: a name that is merely similar is not found.

        In this order: the scientific name as written (``exact``); without case, accents, hyphens, underscores and
        apostrophes (``case``); the table of synonyms (``synonym``); an English name that only one species has
        (``common``); names of subspecies, three words or an author (``trinomial``); slashes and hybrids (``slash``,
        ``hybrid``); a genus, alone or with "sp." (``genus``), a family or order (``higher``); else ``none``. Of
        ``Corvus corax (Common Raven)`` both parts are tried.

        Args:
            names: names of any kind; ``None`` and empty strings are not found.

        Returns:
            One row per name, in the order given: name, taxon_id, rank, how, candidates, flag. A name that stands for
            several species (a split, a slash, a shared English name) has them as ``candidates`` and the genus that
            they share, if any, as ``taxon_id``. A species that the list has narrowed is found with flag ``split``
            and what the name once covered as candidates.

        >>> tree = Taxonomy.from_names(["Turdus migratorius"])
        >>> tree.resolve(["Turdus migratorius migratorius", "Turdus sp.", "robin"])["how"].to_list()
        ['trinomial', 'genus', 'none']
        """
        cache = {name: self.index.find(name) for name in dict.fromkeys(names)}
        found = [cache[name] for name in names]
        return pl.DataFrame(
            {
                "name": list(names),
                "taxon_id": [m.taxon_id for m in found],
                "rank": [self.rank_of.get(m.taxon_id) if m.taxon_id else None for m in found],
                "how": [m.how for m in found],
                "candidates": [list(m.candidates) for m in found],
                "flag": [m.flag for m in found],
            },
            schema=RESOLVED_SCHEMA,
        )

    def subset(self, species: Collection[str]) -> Taxonomy:
        """The tree over some species and what is above them, in the order of the list.

        Raises:
            ParameterError: a taxon is no species of the list (naming the nearest).

        >>> Taxonomy.from_names(["Corvus corax", "Pica pica"]).subset(["Pica pica"]).taxa["taxon_id"].to_list()
        ['Aves', 'Pica', 'Pica pica']
        """
        wanted = set(species)
        unknown = sorted(wanted - set(self.species))
        if unknown:
            raise ParameterError(at_most([self._no_species(taxon) for taxon in unknown]))
        kept = set(wanted)
        for taxon in wanted:
            while (taxon := self.parent_of[taxon]) is not None and taxon not in kept:
                kept.add(taxon)
        ids = pl.element()
        aliases = self.aliases.with_columns(pl.col("taxon_ids").list.eval(ids.filter(ids.is_in(sorted(kept)))))
        return replace(
            self,
            taxa=self.taxa.filter(pl.col("taxon_id").is_in(sorted(kept))),
            aliases=aliases.filter(pl.col("taxon_ids").list.len() > 0),
        )

    def _no_species(self, taxon: str) -> Problem:
        genus = taxon.split()[0] if taxon.split() else ""
        pool = [species for species in self.species if species.startswith(genus + " ")] or self.species
        near = ", ".join(nearest(taxon, pool, 2)) if pool else "none"
        remedy = "resolve the name first; it must be a taxon_id of rank species"
        return Problem("unknown_species", repr(taxon), f"a species of {self.name}, e.g. {near}", remedy)


def taxa_table(rows: Sequence[SpeciesRow], *, file: str) -> tuple[pl.DataFrame, list[Notice]]:
    """The tree over a list of species: class Aves on top, then what is given of order, family and genus.

    Args:
        rows: one per species, in the order of the list.
        file: what to call the list in a problem.

    Returns:
        The table of taxa (parents before children, ranks from the top) and notices: species whose genus was taken from
        the first word of the name.

    Raises:
        DataError: no species; an empty name or one of a single word; a species twice, or in two genera; a genus in two
            families, a family in two orders; one name at two ranks. All of them, each with its line.
    """
    problems: list[Problem] = []
    lines: dict[str, SpeciesRow] = {}
    parents: dict[tuple[str, str], tuple[str | None, int | None]] = {}
    said: set[tuple[str, str]] = set()
    without_genus = 0
    for row in rows:
        bad = _bad_species(row, lines, file)
        if bad:
            problems.append(bad)
            continue
        without_genus += row.genus is None
        row = replace(row, genus=row.genus or row.name.split()[0])
        lines[row.name] = row
        problems += _join(parents, row, file, said)
    problems += _two_ranks(parents, lines, file)
    if not rows:
        problems.append(Problem("no_species", "no species", "at least one row of rank species", file=file))
    if problems:
        raise DataError(at_most(problems))
    what = "species without a genus: the first word of the name was taken"
    notices = [Notice("genus_from_name", what, without_genus, file)] if without_genus else []
    return _tree(lines, parents), notices


def _bad_species(row: SpeciesRow, lines: dict[str, SpeciesRow], file: str) -> Problem | None:
    place = {"file": file, "line": row.line}
    if len(row.name.split()) < 2:
        found = repr(row.name) if row.name else "an empty name"
        return Problem("no_binomial", found, "a species name of two words", **place)
    before = lines.get(row.name)
    if before is None:
        return None
    where = f"line {before.line}" if before.line else "an earlier row"
    if row.genus and before.genus != row.genus:
        found = f"{row.name} in genus {row.genus}, and in {before.genus} in {where}"
        return Problem("species_in_two_genera", found, "one genus per species", "keep one of the rows", **place)
    return Problem("duplicate_species", f"{row.name}, also in {where}", "one row per species", "remove one", **place)


def _join(
    parents: dict[tuple[str, str], tuple[str | None, int | None]],
    row: SpeciesRow,
    file: str,
    said: set[tuple[str, str]],
) -> list[Problem]:
    """Record what is above a species; a taxon below two others is a problem, said once for each second parent."""
    problems = []
    for rank, taxon, above, parent in (
        ("genus", row.genus, "family", row.family),
        ("family", row.family, "order", row.order),
    ):
        if not taxon:
            continue
        known, line = parents.get((rank, taxon), (None, None))
        if known and parent and known != parent:
            if (taxon, parent) in said:
                continue
            said.add((taxon, parent))
            found = f"{rank} {taxon} in {above} {parent}, and in {known}" + (f" in line {line}" if line else "")
            problem = Problem(f"{rank}_in_two_parents", found, f"one {above} per {rank}", file=file, line=row.line)
            problems.append(replace(problem, remedy=f"give every species of {taxon} the same {above}"))
        elif parent or (rank, taxon) not in parents:
            parents[rank, taxon] = (parent or known, line or row.line)
    if row.order:
        parents.setdefault(("order", row.order), (None, row.line))
    if row.genus and not row.family and row.order:
        # A list that gives order and genus but no family: the genus hangs under the order.
        known, line = parents["genus", row.genus]
        parents["genus", row.genus] = (known or row.order, line)
    return problems


def _two_ranks(parents: dict[tuple[str, str], tuple], lines: dict[str, SpeciesRow], file: str) -> list[Problem]:
    seen: dict[str, str] = {"Aves": "class"} | {name: "species" for name in lines}
    problems = []
    for (rank, taxon), (_, line) in parents.items():
        if taxon in seen:
            found = f"{taxon} as {rank} and as {seen[taxon]}"
            problems.append(Problem("name_at_two_ranks", found, "one rank per name", file=file, line=line))
        seen[taxon] = rank
    return problems


def _tree(lines: dict[str, SpeciesRow], parents: dict[tuple[str, str], tuple[str | None, int | None]]) -> pl.DataFrame:
    rows: list[tuple] = [("Aves", "class", None, "Aves", "Birds", None)]
    for wanted in ("order", "family", "genus"):
        rows += [
            (t, rank, parent or "Aves", t, None, None) for (rank, t), (parent, _) in parents.items() if rank == wanted
        ]
    rows += [(r.name, "species", r.genus, r.name, r.common_name, r.code) for r in lines.values()]
    return pl.DataFrame(rows, schema=TAXA_SCHEMA, orient="row")


def alignment(
    taxonomy: Taxonomy, labels: Sequence[str], *, not_taxa: Collection[str] = ("background",)
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """How the labels of a model align with a list, label by label and counted.

    Args:
        taxonomy: the list.
        labels: labels of the model, in the order of its outputs.
        not_taxa: labels that are no taxa (compared without case); their ``how`` is ``not_a_taxon``.

    Returns:
        Per label: index, label, taxon_id, rank, how, candidates, flag, genus (of the species or genus found) and shares
        (other labels on the same species). Summary: how, n, in falling order of n.

    >>> tree = Taxonomy.from_names(["Ardea herodias"])
    >>> each, count = alignment(tree, ["Ardea herodias", "Ardea herodias occidentalis", "background"])
    >>> each["shares"].to_list()
    [['Ardea herodias occidentalis'], ['Ardea herodias'], []]
    """
    skip = {fold(name) for name in not_taxa}
    found = taxonomy.resolve(labels).rename({"name": "label"}).with_row_index("index")
    found = found.with_columns(
        how=pl.when(pl.Series([fold(label) in skip for label in labels], dtype=pl.Boolean))
        .then(pl.lit("not_a_taxon"))
        .otherwise("how")
    )
    taxa, ranks = found["taxon_id"].to_list(), found["rank"].to_list()
    on: dict[str, list[int]] = {}
    for i, (taxon, rank) in enumerate(zip(taxa, ranks, strict=True)):
        if rank == "species":
            on.setdefault(taxon, []).append(i)
    shares = [[labels[j] for j in on.get(taxon, ()) if j != i] for i, taxon in enumerate(taxa)]
    genus = [t if r == "genus" else taxonomy.genus_of.get(t or "") for t, r in zip(taxa, ranks, strict=True)]
    found = found.with_columns(
        pl.Series("genus", genus, dtype=pl.String), pl.Series("shares", shares, dtype=pl.List(pl.String))
    )
    return found, found.group_by("how").agg(n=pl.len()).sort(["n", "how"], descending=[True, False])
