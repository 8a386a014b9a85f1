"""How alike a clip is to each bird of a gallery: cosines in blocks, and the best or the mean of a bird's clips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from birdlab.readers.embeddings import Embedded, SimilarityTable

Pooling = Literal["max", "mean"]
Floats = npt.NDArray[np.floating]
#: Bytes of one block of similarities, queries x clips of the gallery.
BLOCK_BYTES = 64 << 20


def score_individuals(
    query_matrix: Floats,
    gallery_matrix: Floats,
    gallery_individual_codes: npt.ArrayLike,
    n_individuals: int,
    pooling: Pooling = "max",
) -> npt.NDArray[np.float32]:
    """How alike each query is to each bird: the highest (or mean) dot product with the bird's clips.

    Args:
        query_matrix: unit vectors, (q, d).
        gallery_matrix: unit vectors, (g, d).
        gallery_individual_codes: bird of each clip of the gallery, 0 … n_individuals - 1, (g,).
        n_individuals: birds.
        pooling: ``max``, or ``mean`` over the clips of a bird.

    Returns:
        (q, n_individuals) float32; higher is more alike; -inf for a bird without a clip.

    >>> score_individuals(np.eye(2), np.array([[1.0, 0.0], [0.6, 0.8]]), [0, 0], 2).tolist()
    [[1.0, -inf], [0.800000011920929, -inf]]
    """
    codes = np.asarray(gallery_individual_codes, dtype=np.int64).reshape(-1)
    order = np.argsort(codes, kind="stable")
    query, gallery = np.asarray(query_matrix, np.float32), np.asarray(gallery_matrix, np.float32)[order]
    out = np.full((len(query), n_individuals), -np.inf, dtype=np.float32)
    for rows, block in cosine_blocks(query, gallery):
        out[rows] = pool(block, codes[order], n_individuals, pooling)
    return out


def pool(
    block: npt.NDArray[np.float32], codes: npt.NDArray[np.int64], n_individuals: int, pooling: Pooling = "max"
) -> npt.NDArray[np.float32]:
    """Similarities to clips as similarities to birds.

    Args:
        block: (q, g); what is not finite is not known and does not count.
        codes: bird of each column, in rising order, (g,).
        n_individuals: birds.
        pooling: ``max`` or ``mean`` over the columns of a bird.

    Returns:
        (q, n_individuals) float32; -inf where a bird has no column, or none that is known.
    """
    out = np.full((len(block), n_individuals), -np.inf, dtype=np.float32)
    if not len(codes) or not len(block):
        return out
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    known = np.isfinite(block)
    if known.all():
        if pooling == "max":
            out[:, codes[starts]] = np.maximum.reduceat(block, starts, axis=1)
        else:
            n = np.diff(np.append(starts, len(codes)))
            out[:, codes[starts]] = np.add.reduceat(block, starts, axis=1, dtype=np.float64) / n
        return out
    if pooling == "max":
        out[:, codes[starts]] = np.maximum.reduceat(np.where(known, block, -np.inf), starts, axis=1)
        return out
    total = np.add.reduceat(np.where(known, block, 0), starts, axis=1, dtype=np.float64)
    n = np.add.reduceat(known, starts, axis=1, dtype=np.int64)
    out[:, codes[starts]] = np.divide(total, n, out=np.full(total.shape, -np.inf), where=n > 0)
    return out


def cosine_blocks(
    query: npt.NDArray[np.float32], gallery: npt.NDArray[np.float32], *, block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[slice, npt.NDArray[np.float32]]]:
    """Dot products of queries and gallery, some rows at a time: (rows, (len(rows), g) float32).

    A vector that stands in the gallery several times is multiplied once, so that its copies tie to the last bit
    (products of equal columns differ in it, by where a library puts them).
    """
    unique, inverse = _distinct(gallery)
    columns = np.ascontiguousarray(gallery[unique].T)
    size = max(1, block_bytes // (4 * max(1, len(gallery))))
    for start in range(0, len(query), size):
        rows = slice(start, min(start + size, len(query)))
        block = query[rows] @ columns
        yield rows, block if inverse is None else block[:, inverse]


def similarity_blocks(
    source: Embedded | SimilarityTable, queries: Sequence[str], gallery: Sequence[str]
) -> Iterator[tuple[slice, npt.NDArray[np.float32]]]:
    """Similarities of clips to clips of the gallery in blocks of rows, from vectors or from a matrix on disk.

    Args:
        source: what was read; every clip named is one of its own.
        queries, gallery: clips, rows and columns of what is returned.
    """
    if isinstance(source, Embedded):
        place = {clip: i for i, clip in enumerate(source.clip_id)}
        query = source.matrix[[place[clip] for clip in queries]]
        yield from cosine_blocks(query, source.matrix[[place[clip] for clip in gallery]])
        return
    row_of = {clip: i for i, clip in enumerate(source.row_id)}
    column_of = {clip: i for i, clip in enumerate(source.column_id)}
    rows = np.array([row_of[clip] for clip in queries], dtype=np.int64)
    columns = np.array([column_of[clip] for clip in gallery], dtype=np.int64)
    size = max(1, BLOCK_BYTES // (4 * max(1, source.matrix.shape[1])))
    for start in range(0, len(rows), size):
        at = slice(start, min(start + size, len(rows)))
        yield at, np.asarray(source.matrix[rows[at]], dtype=np.float32)[:, columns]


def _distinct(gallery: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None]:
    """First of each distinct row, and which of them every row is (None where all are distinct)."""
    if len(gallery) < 2 or not gallery.shape[1]:
        return np.arange(len(gallery)), None
    whole = np.ascontiguousarray(gallery) + np.float32(0)  # -0 and 0 are one number
    as_bytes = whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).reshape(-1)
    _, first, inverse = np.unique(as_bytes, return_index=True, return_inverse=True)
    return (np.arange(len(gallery)), None) if len(first) == len(gallery) else (first, inverse)
