"""The runner's hold on a process that executes notebooks, one at a time.

A worker is ``python -m birdlab.report.kernel``, started by this interpreter. Tasks go to it as lines of JSON, and it
answers with lines of JSON: which cell begins, what the last progress line says, how it ended. Notebooks that run at
the same time run in different workers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import birdlab

#: How often a kernel is started before the notebook counts as failed; a notebook whose cells ran is never repeated.
START_ATTEMPTS = 3


@dataclass(frozen=True)
class Task:
    """One notebook to execute; JSON types only.

    Args:
        name: name of the notebook.
        source: its file.
        target: where the executed copy goes.
        log: file for progress, the kernel's own messages and start-up warnings.
        cwd: working folder of the kernel.
        parameters: values to set.
        shown: the same, as they stand in the executed copy (no path of this machine).
        hidden: folders of this machine and what stands for them; see :func:`birdlab.report.clean.hidden_paths`.
        timeout: longest time for one cell, s; ``None`` for no limit.
    """

    name: str
    source: str
    target: str
    log: str
    cwd: str
    parameters: dict[str, Any]
    shown: dict[str, Any]
    hidden: list[tuple[str, str]]
    timeout: int | None = None


@dataclass(frozen=True)
class Outcome:
    """How a notebook ended: ``complete`` or ``failed``, wall seconds, the error, a note, and its warnings' number."""

    status: str
    seconds: float = 0.0
    error: dict[str, Any] | None = None
    note: str = ""
    warnings: int = 0
    kernel: str = ""

    @property
    def interrupted(self) -> bool:
        """Stopped from outside, so that nothing is known about the notebook itself."""
        return bool(self.error) and self.error["ename"] == "Interrupted"


@dataclass
class Worker:
    """A process for notebooks: started with its first task, kept for the next, replaced when it died."""

    log: Path
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def run(self, task: Task, tell: Callable[[Mapping[str, Any]], None]) -> Outcome:
        """Execute one notebook; blocks. ``tell`` gets ``{"cell", "of"}`` and ``{"progress"}`` as it goes."""
        process = self._alive()
        outcome: Outcome | None = None
        try:
            process.stdin.write(json.dumps(asdict(task)) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                event = json.loads(line)
                if "outcome" in event:
                    outcome = Outcome(**event["outcome"])
                    break
                tell(event)
        except BrokenPipeError:
            outcome = None
        if outcome is not None:
            return outcome
        code = process.wait()
        self._process = None
        text = f"the process that executed it ended ({explain_exit(code)})"
        return Outcome("failed", error={"cell": None, "ename": "WorkerDied", "evalue": text, "traceback": ""})

    def interrupt(self) -> None:
        """Ask for an early end: the kernel is stopped and what ran so far is written."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def stop(self) -> None:
        """End the process; a kernel that is still at work ends with it."""
        if self._process is None:
            return
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process = None

    def _alive(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a", encoding="utf-8") as log:
                # Its own session: Ctrl-C reaches the runner alone, which then stops its workers in order.
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "birdlab.report.kernel"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    encoding="utf-8",
                    env=environment(),
                    start_new_session=True,
                )
        return self._process


def environment() -> dict[str, str]:
    """The variables of a worker and its kernels: this very birdlab is the one that they import."""
    env = dict(os.environ)
    home = str(Path(birdlab.__file__).resolve().parents[1])
    if not home.endswith("site-packages"):
        env["PYTHONPATH"] = os.pathsep.join([home, *filter(None, [env.get("PYTHONPATH")])])
    env["PYTHONUTF8"] = "1"
    return env


def explain_exit(code: int | None) -> str:
    """An exit status in words.

    >>> explain_exit(-9), explain_exit(3)
    ('killed by SIGKILL, perhaps because memory ran out', 'exit status 3')
    """
    if code is None:
        return "exit status not known"
    if code >= 0:
        return f"exit status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}" + (", perhaps because memory ran out" if name == "SIGKILL" else "")
