"""What an image may be called: its nodes from coarse to fine, each with probability, information and correctness.

Every convention of the information curve except the decision rule is settled here: depth or leaf information, which
species a path leads to, and what a species name is worth on a photograph whose species cannot be told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from birdlab.abstention.conventions import Conventions
from birdlab.errors import DataError, ParameterError, Problem
from birdlab.schemas.constants import RANKS

DEFAULT_RANKS = ("genus", "species")
LEAF = ("leaf_p", "leaf_info", "leaf_right")


@dataclass(frozen=True)
class Nodes:
    """L nodes for each of N images, coarse to fine, without the root (probability 1, information 0, always right).

    Args:
        p: probability, (L, N); NaN where the image has no such node.
        info: information in [0, 1], (L, N), rising along L: what a decision rule may look at.
        right: 1.0 where the node is right, else 0.0, (L, N).
        counted: information that counts on x, (L, N): ``info``, or less where ``ua`` truncates. A decision must not
            see it, for it knows which photographs are unanswerable.
    """

    p: np.ndarray
    info: np.ndarray
    right: np.ndarray
    counted: np.ndarray


def nodes(columns: pl.DataFrame, conventions: Conventions, *, ranks: Sequence[str] = DEFAULT_RANKS) -> Nodes:
    """The nodes of each image under the conventions ``info``, ``path`` and ``ua``.

    Args:
        columns: per-image columns of one model, (N rows).
        conventions: ``info``, ``path`` and ``ua`` are used.
        ranks: coarse to fine, with ``genus`` and ``species`` last. Ranks above are the most probable of their rank
            on either path; lists of nodes by information hold the ranks they were made with.

    Returns:
        Nodes. ``depth``: one per rank, information rank / number of ranks. ``leaf``: the images' own lists
        (``independent``), or genus and species with information (log2 S - log2 n) / log2 S (``top_down``). A null
        correctness is wrong; on an unanswerable photograph ``ua`` says what a species is worth.

    Raises:
        DataError: the columns that the conventions need are not there.
        ParameterError: the ranks are not an ordered choice that ends in genus and species.

    Deng, Krause, Berg and Fei-Fei (2012), §3; leaf information as in Valmadre (2022).
    """
    reason = nodes_reason(columns, conventions, ranks=ranks)
    if reason:
        raise DataError(Problem("not_applicable", reason, "columns for " + conventions.label("ig"), key="conventions"))
    if conventions.info == "leaf" and conventions.path == "independent":
        p, info, right, is_species = _listed(columns)
    else:
        p, info, right, is_species = _by_rank(columns, conventions, ranks)
    unanswerable = ~columns["is_answerable"].to_numpy()
    counted = info
    if conventions.ua != "exclude" and unanswerable.any():
        here = is_species & unanswerable
        right[here] = 0.0 if conventions.ua == "overspecific_wrong" else _species_in_genus(columns, conventions, here)
        if conventions.ua == "truncate":
            cap = _genus_information(columns, conventions, len(ranks))
            counted = np.where(unanswerable, np.minimum(info, cap), info)
    return Nodes(p, info, right, counted)


def nodes_reason(
    columns: pl.DataFrame, conventions: Conventions, *, ranks: Sequence[str] = DEFAULT_RANKS
) -> str | None:
    """Why these conventions cannot be used on these columns; ``None`` where they can."""
    _check_ranks(ranks)
    missing = [c for c in _needed(conventions, ranks) if c not in columns.columns]
    if missing:
        return f"no column {', '.join(missing)}"
    if conventions.info == "leaf" and conventions.path == "independent":
        named = columns.filter(pl.col("max_species").is_not_null() | pl.col("max_genus").is_not_null())
        without = named["leaf_p"].null_count()
        if without:
            return f"{without} images have no list of nodes by information"
    elif conventions.info == "leaf":
        if len(ranks) > 2:
            return "the best species inside the best genus is known, not the best genus inside the best of higher ranks"
        named = columns.filter(pl.col("max_genus").is_not_null())
        unknown = [c for c in ("top_genus_n", "n_species") if named[c].null_count()]
        if unknown:
            return f"{', '.join(unknown)} is not known for every image"
    return None


def _check_ranks(ranks: Sequence[str]) -> None:
    ordered = [r for r in RANKS if r in ranks]
    if list(ranks) != ordered or tuple(ranks[-2:]) != DEFAULT_RANKS:
        expected = "ranks from coarse to fine that end in genus, species; from " + ", ".join(RANKS)
        raise ParameterError(Problem("bad_value", repr(tuple(ranks)), expected, key="ranks"))


def _needed(conventions: Conventions, ranks: Sequence[str]) -> list[str]:
    """Columns that the conventions read."""
    needed = ["is_answerable", "genus", "max_genus", "genus_right"]
    top_down = conventions.path == "top_down"
    if conventions.info == "leaf" and not top_down:
        needed += ["max_species", *LEAF]
    else:
        needed += [f"{kind}{r}{end}" for r in ranks[:-2] for kind, end in (("max_", ""), ("", "_right"))]
        end = "_top_down" if top_down else ""
        needed += [f"max_species{end}", f"species_right{end}"]
    if conventions.info == "leaf" and top_down:
        needed += ["top_genus_n", "n_species"]
    if conventions.ua in ("genus_ok", "truncate") and not top_down:
        needed += ["top_species"]
    if conventions.info == "leaf" and conventions.ua == "truncate":
        needed += ["within_genus_n", *(["n_species"] if not top_down else [])]
    return list(dict.fromkeys(needed))


def _by_rank(
    columns: pl.DataFrame, conventions: Conventions, ranks: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One node per rank: (p, info, right, is_species), each (ranks, N)."""
    end = "_top_down" if conventions.path == "top_down" else ""
    names = [*ranks[:-1], "species" + end]
    p = np.stack([_floats(columns, f"max_{name}") for name in names])
    right = np.stack([_rights(columns, r, end) for r in ranks])
    if conventions.info == "depth":
        info = np.repeat(np.arange(1, len(ranks) + 1)[:, None] / len(ranks), columns.height, axis=1)
    else:
        leaves = _floats(columns, "top_genus_n")
        # A genus without a leaf in the vocabulary has no information: it is no node.
        p[0, leaves < 1] = np.nan
        genus = leaf_information(np.maximum(leaves, 1.0), _floats(columns, "n_species"))
        info = np.stack([genus, np.ones(columns.height)])
    is_species = np.zeros(p.shape, dtype=bool)
    is_species[-1] = True
    return p, info, right, is_species


def _listed(columns: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The images' lists of nodes by information, padded: (p, info, right, is_species), each (longest list, N)."""
    columns = columns.with_columns(pl.col(name).cast(pl.List(pl.Float64)) for name in LEAF)
    length = columns["leaf_p"].list.len().fill_null(0).to_numpy().astype(np.int64)
    image = np.repeat(np.arange(len(length)), length)
    place = np.arange(len(image)) - np.repeat(np.cumsum(length) - length, length)
    shape = (int(length.max(initial=0)), len(length))
    p, info, right = np.full(shape, np.nan), np.zeros(shape), np.zeros(shape)
    filled = columns.filter(pl.Series(length > 0, dtype=pl.Boolean))
    for array, name in zip((p, info, right), LEAF, strict=True):
        flat = filled[name].explode()
        if len(flat) != len(image):
            lengths = f"lists of {name} and leaf_p that differ in length"
            raise DataError(Problem("bad_list", lengths, "one entry per node", key=name))
        array[place, image] = flat.fill_null(0.0).to_numpy()
    # A genus of one species has information 1 as well: it is a species where a species is named.
    return p, info, right, (info >= 1.0) & columns["max_species"].is_not_null().to_numpy()


def _species_in_genus(columns: pl.DataFrame, conventions: Conventions, here: np.ndarray) -> np.ndarray:
    """1.0 where the most probable species is one of the true genus (the first word of its name), at ``here``."""
    if conventions.path == "top_down":
        inside = _rights(columns, "genus", "")
    else:
        if "top_species_genus" in columns.columns:
            genus = columns["top_species_genus"].cast(pl.String)
        else:
            genus = columns["top_species"].cast(pl.String).str.extract(r"^(\S+)")
        inside = (genus == columns["genus"].cast(pl.String)).fill_null(False).cast(pl.Float64).to_numpy()
    return np.broadcast_to(inside, here.shape)[here]


def _genus_information(columns: pl.DataFrame, conventions: Conventions, n_ranks: int) -> np.ndarray:
    """Information of the true genus, (N,): all that can be right about a photograph whose species cannot be told."""
    if conventions.info == "depth":
        return np.full(columns.height, (n_ranks - 1) / n_ranks)
    # A genus without a leaf in the vocabulary has no information of its own: nothing is cut off.
    leaves = np.maximum(_floats(columns, "within_genus_n"), 1.0)
    return np.nan_to_num(leaf_information(leaves, _floats(columns, "n_species")), nan=1.0)


def leaf_information(n: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Information of a node over n of S leaves, (log2 S - log2 n) / log2 S, in [0, 1]; 1 where S is 1.

    >>> leaf_information(np.array([1, 2, 4]), np.array([4, 4, 4])).tolist()
    [1.0, 0.5, 0.0]
    """
    n, whole = np.asarray(n, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    bits = np.log2(np.maximum(whole, 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        info = (bits - np.log2(n)) / bits
    return np.clip(np.where(bits > 0, info, 1.0), 0.0, 1.0)


def _floats(columns: pl.DataFrame, name: str) -> np.ndarray:
    """A column as float64, null as NaN."""
    return columns[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _rights(columns: pl.DataFrame, rank: str, end: str) -> np.ndarray:
    """Correctness at a rank as 1.0 or 0.0; null is wrong."""
    name = f"{rank}_right" + (end if rank == "species" else "")
    return columns[name].cast(pl.Float64).fill_null(0.0).to_numpy()
