"""Which processor a detector runs on, how many cores there are, and what to call both in a report."""

from __future__ import annotations

import math
import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from birdlab.errors import ParameterError, Problem

EXPECTED = "auto, cpu, cuda, cuda:N (N from 0) or mps"


@dataclass(frozen=True)
class Device:
    """One processor: ``kind`` is cpu, cuda or mps; ``index`` counts the GPUs of a kind from 0."""

    kind: str
    index: int = 0

    @property
    def name(self) -> str:
        """As torch writes it (``cpu``, ``cuda:0``, ``mps``)."""
        return f"cuda:{self.index}" if self.kind == "cuda" else self.kind


def parse_device(text: str) -> Device | None:
    """The device a recipe asks for; ``None`` means the best there is.

    Raises:
        ParameterError: the text names no kind of device.

    >>> parse_device("cuda:1"), parse_device("auto")
    (Device(kind='cuda', index=1), None)
    """
    found = re.fullmatch(r"(auto|cpu|mps|cuda)(?::(\d+))?", text.strip().lower())
    if not found or (found[2] and found[1] != "cuda"):
        remedy = f"did you mean cuda:{text.strip()}?" if text.strip().isdigit() else ""
        raise ParameterError(Problem("unknown_device", repr(text), EXPECTED, remedy, key="device"))
    return None if found[1] == "auto" else Device(found[1], int(found[2] or 0))


def resolve_device(text: str) -> Device:
    """The device to use: the one asked for, or with ``auto`` CUDA, else MPS, else the CPU. Imports torch unless ``cpu``.

    Raises:
        ParameterError: the device that was asked for is not there; the error says which are.
    """
    asked = parse_device(text)
    if asked == Device("cpu"):
        return asked
    prepare_threads()
    import torch

    n_cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    there = [Device("cuda", i) for i in range(n_cuda)]
    if torch.backends.mps.is_available():
        there.append(Device("mps"))
    there.append(Device("cpu"))
    if asked is None:
        return there[0]
    if asked not in there:
        names = ", ".join(d.name for d in there)
        remedy = "set device: auto to take the best one there is"
        raise ParameterError(
            Problem(
                "no_such_device",
                f"{asked.name}, which this machine does not have",
                f"one of {names}",
                remedy,
                key="device",
            )
        )
    return asked


def onnx_providers(text: str) -> tuple[Device, list[Any], str]:
    """Device, onnxruntime providers and a remark for a bare ONNX model; the remark is empty when all is as asked.

    The usual onnxruntime package runs on the CPU only. A GPU that is there but that onnxruntime cannot use is no
    error: the model runs on the CPU, and the remark says so.

    Raises:
        ParameterError: the device that was asked for is not there at all.
    """
    asked = parse_device(text)
    if asked is not None and asked.kind != "cpu":
        asked = resolve_device(text)
    try:
        import onnxruntime

        there = onnxruntime.get_available_providers()
    except ImportError:
        there = []
    wanted = asked or Device("cuda" if "CUDAExecutionProvider" in there else "cpu")
    if wanted.kind == "cuda" and "CUDAExecutionProvider" in there:
        return wanted, [("CUDAExecutionProvider", {"device_id": wanted.index}), "CPUExecutionProvider"], ""
    if wanted.kind == "mps" and "CoreMLExecutionProvider" in there:
        return wanted, ["CoreMLExecutionProvider", "CPUExecutionProvider"], ""
    remark = (
        ""
        if wanted.kind == "cpu"
        else f"{wanted.name} was asked for, but this onnxruntime has no provider for it: ran on the CPU"
    )
    return Device("cpu"), ["CPUExecutionProvider"], remark


def onnx_errors() -> tuple[type[Exception], ...]:
    """What onnxruntime raises: exceptions of its own, with no common base; none where it is not installed."""
    try:
        from onnxruntime.capi import onnxruntime_pybind11_state as state
    except ImportError:
        return ()
    kinds = (getattr(state, name) for name in dir(state))
    return tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception))


def cores() -> int:
    """Cores this process may use: scheduling affinity and the control group's quota, at least 1."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return affinity
    return affinity if quota == "max" else max(1, min(affinity, math.ceil(int(quota) / int(period))))


def prepare_threads() -> None:
    """Say how many threads numerical libraries may use and that idle ones sleep; must come before torch is imported.

    Threads that spin while they wait take the cores from the thread that reads frames, and from everybody else: on two
    busy cores a network ran ten times slower for it. What the user has set is left alone.
    """
    if "torch" not in sys.modules:
        os.environ.setdefault("OMP_NUM_THREADS", str(cores()))
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def torch_threads() -> int:
    """Threads for torch on the CPU: ``OMP_NUM_THREADS``, or all cores; one less where waiting threads may spin."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    n = int(said) if said.isdigit() and int(said) > 0 else cores()
    return n if os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE" else max(1, min(n, cores() - 1))


def device_words(device: Device, threads: int) -> str:
    """The device as a reader knows it: ``CPU Intel Xeon Gold 6248, 8 threads`` or ``GPU NVIDIA A100``."""
    if device.kind == "cuda":
        import torch

        return f"GPU {torch.cuda.get_device_name(device.index)}"
    if device.kind == "mps":
        return f"GPU of {_cpu_name()} (MPS)"
    return f"CPU {_cpu_name()}, {threads} thread{'s' if threads != 1 else ''}"


def _cpu_name() -> str:
    if sys.platform.startswith("linux"):
        try:
            text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        found = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
        if found:
            return " ".join(found[1].replace("(R)", "").replace("(TM)", "").split())
    return platform.processor() or platform.machine() or "of unknown make"
