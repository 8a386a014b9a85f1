"""Loads a TFLite file and runs it once on nothing, in a process of its own that a broken file may take down.

Run by path, with the file and the side of its input (0: as the file says); imports nothing of birdlab.
"""

from __future__ import annotations

import sys
from typing import Any


def allocate(interpreter: Any, side: int) -> None:
    """Give every tensor its memory; sides of the input that the file leaves open become ``side``, where it is not 0."""
    for tensor in interpreter.get_input_details():
        shape = [int(n) for n in tensor["shape_signature"]]
        if side and -1 in shape[1:]:
            shape = [n if n > 0 else 1 if i == 0 else side for i, n in enumerate(shape)]
            interpreter.resize_tensor_input(tensor["index"], shape)
    interpreter.allocate_tensors()


def trial(path: str, side: int) -> None:
    """Load, allocate, run on zeros; an ordinary error is left to whoever loads the file next."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=path, num_threads=1)
    allocate(interpreter, side)
    interpreter.invoke()


if __name__ == "__main__":
    trial(sys.argv[1], int(sys.argv[2]))
