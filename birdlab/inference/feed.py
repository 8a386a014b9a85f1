"""Frames on their way to a detector: decoded ahead on a thread of their own, grouped into batches of one shape."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
#: Most bytes of decoded frames that wait.
WAITING_BYTES = 256 * 2**20


def ahead(source: Iterable[T], depth: int) -> Iterator[T]:
    """The items of ``source`` in order, up to ``depth`` of them made ahead on another thread.

    An error of ``source`` is raised where its item would have come.

    >>> list(ahead(iter("abc"), 2))
    ['a', 'b', 'c']
    """
    iterator, end = iter(source), object()
    with ThreadPoolExecutor(1, thread_name_prefix="birdlab-read") as pool:
        waiting: deque[Future[Any]] = deque(pool.submit(next, iterator, end) for _ in range(max(1, depth)))
        try:
            while (item := waiting.popleft().result()) is not end:
                waiting.append(pool.submit(next, iterator, end))
                yield item
        finally:
            for future in waiting:
                future.cancel()


def depth_for(batch: int, frame_bytes: int) -> int:
    """How many frames to decode ahead: two batches, fewer where frames are large, at least two.

    >>> depth_for(1, 100), depth_for(16, 64 * 2**20)
    (2, 4)
    """
    return max(2, min(2 * batch, WAITING_BYTES // max(1, frame_bytes)))


def batches(
    items: Iterable[tuple[str, np.ndarray]], size: int, *, one_shape: bool = True
) -> Iterator[list[tuple[str, np.ndarray]]]:
    """Consecutive items in groups of at most ``size``, whose images have one shape unless ``one_shape`` is false.

    >>> a, b = np.zeros((2, 2, 3)), np.zeros((3, 2, 3))
    >>> [[name for name, _ in group] for group in batches([("a", a), ("b", a), ("c", b)], 4)]
    [['a', 'b'], ['c']]
    """
    group: list[tuple[str, np.ndarray]] = []
    for name, image in items:
        if group and (len(group) == size or (one_shape and image.shape != group[0][1].shape)):
            yield group
            group = []
        group.append((name, image))
    if group:
        yield group
