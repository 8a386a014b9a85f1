"""Group names: what "gull", "scrub-jay" or "Herring Gull" can mean in one list of birds.

The last words of English names are group names. One stands for a taxon only where every bird that carries it belongs
there: one genus, one family or (outside the passerines) one order. A few that common use fixes are in ``OWN``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from birdlab.abstention.answers.fold import name_keys

#: Longest list of candidates that a group name carries.
MAX_CANDIDATES = 50
#: Group names whose taxon common use fixes although other birds carry the word, or no bird does.
OWN: dict[str, str] = {
    **{"gull": "Laridae", "seagull": "Laridae", "tern": "Laridae", "owl": "Strigiformes", "wren": "Troglodytidae"},
    **{"hummingbird": "Trochilidae", "woodpecker": "Picidae", "corvid": "Corvidae", "waterfowl": "Anatidae"},
    **{"shorebird": "Charadriiformes", "wader": "Charadriiformes", "songbird": "Passeriformes"},
    **{"passerine": "Passeriformes", "perching bird": "Passeriformes", "parrot": "Psittaciformes"},
    **{
        "penguin": "Spheniscidae",
        "duck": "Anatidae",
        "goose": "Anatidae",
        "geese": "Anatidae",
        "crow": "Corvus",
        "jay": "Corvidae",
        "magpie": "Corvidae",
        "heron": "Ardeidae",
        "egret": "Ardeidae",
    },
    **{"pigeon": "Columbidae", "dove": "Columbidae", "nightjar": "Caprimulgidae", "swift": "Apodidae"},
    **{"swallow": "Hirundinidae", "lark": "Alaudidae", "hawk": "Accipitridae", "kingfisher": "Alcedinidae"},
    **{"nuthatch": "Sittidae", "new world warbler": "Parulidae", "wood warbler": "Parulidae"},
    **{"old world flycatcher": "Muscicapidae", "tyrant flycatcher": "Tyrannidae", "new world sparrow": "Passerellidae"},
    **{"grouse": "Phasianidae", "pheasant": "Phasianidae", "falcon": "Falconidae", "thrush": "Turdidae"},
    **{"storm petrel": "Procellariiformes", "raptor": "Aves", "bird of prey": "Aves", "bird": "Aves"},
}
# What tells the parts of a split name apart: "American" and "European" Herring Gull.
_PLACES = frozenset(
    "american european african asian eurasian northern southern eastern western andean indian iberian australian siberian "
    "mediterranean amazonian pacific atlantic chinese japanese arctic californian mexican caribbean cuban puerto rican "
    "north south east west central oriental alpine saharan".split()
)


class Group(NamedTuple):
    """What a group name stands for: a taxon or null, the birds that carry it, and whether a split name left it."""

    taxon: str | None
    members: tuple[str, ...]
    is_split: bool


class Tree:
    """Parents and ranks of one list.

    Args:
        parents: parent of every taxon id.
        ranks: rank of every taxon id.
    """

    def __init__(self, parents: Mapping[str, str | None], ranks: Mapping[str, str]) -> None:
        self.parents, self.ranks = dict(parents), dict(ranks)

    def line(self, taxon: str) -> list[str]:
        """A taxon and what holds it, up to the top."""
        line: list[str] = []
        at: str | None = taxon
        while at is not None and at in self.ranks and len(line) < 12:
            line.append(at)
            at = self.parents.get(at)
        return line

    def at(self, taxon: str, rank: str) -> str | None:
        """The taxon of one rank that holds ``taxon``; null where the list has none."""
        return next((t for t in self.line(taxon) if self.ranks[t] == rank), None)

    def common(self, taxa: Iterable[str]) -> str | None:
        """The lowest taxon that holds all of ``taxa``; null where none does."""
        lines = [self.line(t) for t in taxa]
        if not lines:
            return None
        shared = set(lines[0]).intersection(*lines[1:])
        return next((t for t in lines[0] if t in shared), None)


def group_names(common: Mapping[str, str], tree: Tree) -> dict[str, Group]:
    """Every group name of a list.

    Args:
        common: species taxon of each English name.
        tree: the list.

    Returns:
        Group by key (keys of its words, joined by blanks). Tails of two words and more are group names only where at
        least two birds carry them.
    """
    tails: dict[str, set[str]] = {}
    heads: dict[str, set[str]] = {}
    for name, taxon in common.items():
        units = [name_keys(unit) for unit in name.split()]
        units = [unit for unit in units if unit]
        if not units:
            continue
        for k in range(1, len(units)):
            tail = " ".join(w for unit in units[k:] for w in unit)
            tails.setdefault(tail, set()).add(taxon)
            heads.setdefault(tail, set()).update(w for unit in units[:k] for w in unit)
        if len(units[-1]) > 1:
            tails.setdefault(units[-1][-1], set()).add(taxon)
        elif len(units) == 1:
            tails.setdefault(units[0][0], set()).add(taxon)
    groups = {}
    for key, members in tails.items():
        if " " in key and len(members) < 2:
            continue
        is_split = " " in key and len(members) <= 6 and heads[key] <= _PLACES
        groups[key] = Group(_taxon(key, members, tree), tuple(sorted(members)), is_split)
    for key, taxon in OWN.items():
        if taxon in tree.ranks:
            groups[key] = Group(taxon, groups[key].members if key in groups else (), False)
    return groups


def _taxon(key: str, members: set[str], tree: Tree) -> str | None:
    for rank in ("genus", "family", "order"):
        held = {tree.at(m, rank) for m in members}
        if len(held) == 1 and (only := held.pop()) is not None:
            return only if rank != "order" or only != "Passeriformes" else None
    return None
