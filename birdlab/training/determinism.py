"""The same training twice: seeds that depend on seed and epoch alone, deterministic algorithms, hashes of networks."""

from __future__ import annotations

import hashlib
import os
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from birdlab.errors import ParameterError, Problem
from birdlab.shards import digest

#: What cuBLAS must be told before it computes the same sums twice (CUDA only; read when its handle is made).
_CUBLAS = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
_REFUSED = re.compile(r"^(\S+) does not have a deterministic implementation")


def epoch_seed(seed: int, epoch: int) -> int:
    """Seed of one epoch, in [0, 2³²): a run that was killed draws in epoch k + 1 what an uninterrupted one draws there.

    Args:
        seed: seed of the run, 0 or more.
        epoch: epoch, from 1; 0 stands for the first weights.

    >>> epoch_seed(0, 1) == epoch_seed(0, 1), epoch_seed(0, 1) == epoch_seed(0, 2), epoch_seed(0, 1) == epoch_seed(1, 1)
    (True, False, False)
    """
    return int(digest(["epoch", seed, epoch])[:8], 16)


def seed_all(seed: int) -> None:
    """Seed Python's, numpy's and torch's own generators (of every device)."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the libraries that are driven draw from numpy's old generator
    torch.manual_seed(seed)


@contextmanager
def own_randomness() -> Iterator[None]:
    """Give the process its generators back as they were, whatever was seeded and drawn inside."""
    import numpy as np
    import torch

    held = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(held[0])
        np.random.set_state(held[1])  # noqa: NPY002
        torch.set_rng_state(held[2])


@contextmanager
def deterministic(on: bool, *, model: str) -> Iterator[None]:
    """While this lasts, torch computes with deterministic algorithms only; afterwards all is as it was.

    Args:
        on: whether to ask for it at all.
        model: name of the model, for the error.

    Raises:
        ParameterError: the network uses an operation that torch cannot do deterministically; it is named.
    """
    import torch

    cudnn, fill = torch.backends.cudnn, torch.utils.deterministic.fill_uninitialized_memory
    held = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    held_cudnn, held_env = (cudnn.deterministic, cudnn.benchmark), os.environ.get(_CUBLAS[0])
    try:
        if on:
            insist()
        yield
    except RuntimeError as error:
        problem = refusal(error, model) if on else None
        if problem is None:
            raise
        raise ParameterError(problem) from error
    finally:
        torch.use_deterministic_algorithms(held[0], warn_only=held[1])
        torch.utils.deterministic.fill_uninitialized_memory = fill
        cudnn.deterministic, cudnn.benchmark = held_cudnn
        os.environ.pop(_CUBLAS[0], None)
        if held_env is not None:
            os.environ[_CUBLAS[0]] = held_env


def insist() -> None:
    """Deterministic algorithms from here on; an operation without one is an error, not a warning."""
    import torch

    os.environ.setdefault(*_CUBLAS)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False


def refusal(error: BaseException, model: str) -> Problem | None:
    """What torch says when an operation has no deterministic algorithm, as a problem; ``None`` for any other error.

    >>> text = "put_ does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'."
    >>> refusal(RuntimeError(text), "wren").found
    'the operation put_, which has no deterministic algorithm'
    """
    text = str(error)
    hit = _REFUSED.match(text)
    if hit is None and not text.startswith("Deterministic behavior was enabled"):
        return None
    operation = hit[1] if hit else "a matrix product of cuBLAS"
    remedy = "set deterministic: false for this model; two runs with one seed may then differ"
    found = f"the operation {operation}, which has no deterministic algorithm"
    expected = "a network that can be trained deterministically"
    return Problem("not_deterministic", found, expected, remedy, record=f"model {model}", key="deterministic")


def state_sha256(state: Mapping[str, Any]) -> str:
    """sha256 of the tensors of a network: name, type, shape and bytes, in order of the names.

    Args:
        state: what ``state_dict()`` gives. Entries that are no tensors do not count.

    >>> import torch
    >>> a, b = torch.zeros(2), torch.ones(1)
    >>> state_sha256({"a": a, "b": b}) == state_sha256({"b": b, "a": a})
    True
    """
    import torch

    total = hashlib.sha256()
    for name in sorted(state):
        value = state[name]
        if isinstance(value, torch.Tensor):
            flat = value.detach().cpu().contiguous()
            total.update(f"{name}\0{flat.dtype}\0{tuple(flat.shape)}\0".encode())
            total.update(flat.reshape(-1).view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return total.hexdigest()


@contextmanager
def kept_threads() -> Iterator[None]:
    """Give torch back the number of threads it had: ultralytics sets its own when a training or a prediction begins."""
    import torch

    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
