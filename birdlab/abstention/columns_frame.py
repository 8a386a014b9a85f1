"""Per-image columns: from arrays of indices and numbers to the table ``image_scores``."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.abstention.leaf import Fronts
from birdlab.abstention.tree import Tree

_F, _S, _B, _I = pl.Float64, pl.String, pl.Boolean, pl.Int32
#: Columns of the table ``image_scores``; a variant may have any name until a study keeps it.
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = schemas.TABLES["image_scores"].dtypes | {"variant": _S}


@dataclass(frozen=True)
class TruthArrays:
    """What is true of every item, as indices into the tree (-1: not in it) beside the names."""

    frame: pl.DataFrame
    answerable: np.ndarray
    species: np.ndarray
    genus: np.ndarray

    @classmethod
    def of(cls, truth: pl.DataFrame, tree: Tree) -> TruthArrays:
        """From columns item_id, is_answerable, genus, species."""
        return cls(
            truth,
            truth["is_answerable"].to_numpy(),
            _index(truth["species"], tree.species),
            _index(truth["genus"], tree.genera),
        )


@dataclass
class Collected:
    """The numbers of one variant, filled block by block in whatever order the rows come."""

    n: int
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    fronts: list[tuple[np.ndarray, Fronts]] = field(default_factory=list)

    def put(self, at: np.ndarray, found: dict[str, np.ndarray], fronts: Fronts | None) -> None:
        """Keep the numbers of the items ``at``."""
        for name, values in found.items():
            if name not in self.arrays:
                kind = (
                    np.float64 if values.dtype.kind == "f" else values.dtype if values.dtype.kind == "b" else np.int32
                )
                self.arrays[name] = np.zeros(self.n, kind)
            self.arrays[name][at] = values
        if fronts is not None:
            self.fronts.append((at.copy(), fronts))


def columns_frame(found: Collected, truth: TruthArrays, tree: Tree, *, model: str, variant: str) -> pl.DataFrame:
    """The table of one variant, one row per item in the order of the truth, with columns as in :data:`SCHEMA`.

    A row that abstains (``found.arrays["abstains"]``) names nothing: its probabilities and names are null and, where
    something is true, it is not right. A row without any probability on a leaf names nothing either, with probability 0.
    ``species_right`` is null where there is no species to be right about; a true
    species that the vocabulary lacks is wrong. Further ranks add ``max_family``, ``top_family``, ``top_family_n``,
    ``family_right``.
    """
    a, says = found.arrays, ~found.arrays["abstains"]
    named = says & (a["max_species"] > 0)
    missing = truth.answerable & (truth.species < 0)
    if "listed_truth" in a:
        missing |= truth.answerable & ~a["listed_truth"]
    numbers = {c: _number(a[c], says) for c in ("max_species", "max_genus", "max_species_top_down", "p_true_genus")}
    partial = a["partial"]
    p_true = _number(a["p_true_species"], says & truth.answerable & ~(partial & (a["p_true_species"] <= 0)))
    within = truth.answerable & (truth.genus >= 0) & (a["within_genus_n"] > 0) & ~(partial & (a["p_within"] <= 0))
    columns = {
        "model": pl.repeat(model, found.n, eager=True, dtype=_S),
        "variant": pl.repeat(variant, found.n, eager=True, dtype=_S),
        **{
            c: truth.frame[c].cast(t)
            for c, t in SCHEMA.items()
            if c in ("item_id", "is_answerable", "genus", "species")
        },
        **numbers,
        "p_true_species": p_true,
        "top_species": _names(a["species"], tree.species, named),
        "top_species_genus": _names(tree.genus_index[a["species"]], tree.genera, named),
        "top_genus": _names(a["top_genus"], tree.genera, named),
        "top_species_top_down": _names(a["species_top_down"], tree.species, named),
        "species_right": _flag(_same(a["species"], truth.species) & named, truth.answerable),
        "species_right_top_down": _flag(_same(a["species_top_down"], truth.species) & named, truth.answerable),
        "genus_right": pl.Series(_same(a["top_genus"], truth.genus) & named),
        "entropy": _number(a["entropy"], says & ~partial) if "entropy" in a else None,
        "missing_mass": pl.Series(a["missing_mass"]),
        "within_genus_right": _flag(_same(a["within"], truth.species) & named, within),
        **{c: pl.Series(a[c], dtype=_I) for c in ("within_genus_n", "top_genus_n", "n_species", "n_genera")},
        "is_missing_species": pl.Series(missing),
        "is_missing_genus": pl.Series(truth.genus < 0),
        **_leaf_lists(found, truth, says, named),
    }
    columns = {c: columns.get(c) for c in SCHEMA}
    frame = pl.DataFrame([_typed(c, v, found.n) for c, v in columns.items()])
    return frame.with_columns(_further(a, truth, tree, says, named))


def _further(
    a: dict[str, np.ndarray], truth: TruthArrays, tree: Tree, says: np.ndarray, named: np.ndarray
) -> list[pl.Series]:
    """Columns of ranks above the genus, and of top-k lists."""
    out = []
    for rank, group in tree.groups.items():
        top = a[f"top_{rank}"]
        true = truth.frame["genus"].replace_strict(dict(group.of_taxon), default=None, return_dtype=_S)
        names = _names(top, group.names, named)
        size = np.bincount(group.of_genus, weights=tree.genus_size, minlength=len(group.names)).astype(np.int32)
        out += [
            _number(a[f"max_{rank}"], says).alias(f"max_{rank}"),
            names.alias(f"top_{rank}"),
            (names == true).fill_null(False).alias(f"{rank}_right"),
            pl.Series(f"top_{rank}_n", size[top], dtype=_I),
        ]
    if "second_genus" in a:
        out.append(_number(a["second_genus"], says).alias("second_genus"))
    return out


def _leaf_lists(found: Collected, truth: TruthArrays, says: np.ndarray, named: np.ndarray) -> dict[str, pl.Series]:
    """The lists of nodes; the species node of an unanswerable item is neither right nor wrong (null)."""
    if not found.fronts:
        return {}
    at = np.concatenate([rows for rows, _ in found.fronts])
    length = np.concatenate([f.length for _, f in found.fronts])
    p, info, genus = (np.concatenate([getattr(f, c) for _, f in found.fronts]) for c in ("p", "info", "genus"))
    item = np.repeat(at, length)
    species_right = _same(found.arrays["species"], truth.species) & named
    right = np.where(genus >= 0, _same(genus, truth.genus[item]), species_right[item])
    known = (genus >= 0) | truth.answerable[item]
    keep = says[item]
    if not keep.all():
        item, p, info, right, known = (x[keep] for x in (item, p, info, right, known))
        length = np.where(says[at], length, 0)
    if np.any(at[1:] < at[:-1]):
        order = np.argsort(item, kind="stable")
        p, info, right, known = (x[order] for x in (p, info, right, known))
        length = length[np.argsort(at)]
    lists = {"leaf_p": _lists(p, length), "leaf_info": _lists(info, length)}
    return {**lists, "leaf_right": _lists(right, length, valid=known)}


def _lists(values: np.ndarray, length: np.ndarray, *, valid: np.ndarray | None = None) -> pl.Series:
    import pyarrow as pa

    offsets = np.concatenate(([0], np.cumsum(length))).astype(np.int64)
    flat = pa.array(values, mask=None if valid is None else ~valid)
    return pl.Series(pl.from_arrow(pa.LargeListArray.from_arrays(offsets, flat)))


def _same(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    return (found == true) & (true >= 0)


def _index(names: pl.Series, known: tuple[str, ...]) -> np.ndarray:
    place = pl.DataFrame({"name": known, "place": np.arange(len(known), dtype=np.int32)})
    joined = names.cast(_S).alias("name").to_frame().join(place, on="name", how="left", maintain_order="left")
    return joined["place"].fill_null(-1).to_numpy()


def _number(values: np.ndarray, known: np.ndarray) -> pl.Series:
    return pl.Series(values, dtype=_F) if known.all() else pl.Series(values, dtype=_F).set(pl.Series(~known), None)


def _flag(values: np.ndarray, known: np.ndarray) -> pl.Series:
    return pl.Series(values, dtype=_B).set(pl.Series(~known), None)


def _names(index: np.ndarray, names: tuple[str, ...], known: np.ndarray) -> pl.Series:
    found = pl.Series(names, dtype=_S).gather(pl.Series(index, dtype=pl.UInt32))
    return found if known.all() else pl.select(pl.when(pl.Series(known)).then(found)).to_series()


def _typed(name: str, values: pl.Series | None, n: int) -> pl.Series:
    kind = SCHEMA[name]
    if values is None:
        return pl.repeat(None, n, eager=True, dtype=kind).alias(name)
    return values.cast(kind).alias(name)
