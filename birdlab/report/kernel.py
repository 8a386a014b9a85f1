"""Executes notebooks through papermill: the process at the other end of :mod:`birdlab.report.worker`.

Papermill's own defaults let a wrong report look right; this engine differs in five things. The kernel is always this
interpreter, whatever kernelspec a notebook names or lacks. Only the start of a kernel is tried again. A dead kernel,
a timeout and ``sys.exit`` are failures of a named cell, with a banner, and what did not run is marked as not run.
Progress goes to a log. Nothing of this machine stays in the executed notebook. It is written once, at the end.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import queue
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from typing import IO, Any

import zmq
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode, reads
from papermill import execute_notebook
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, papermill_engines
from papermill.exceptions import PapermillExecutionError
from papermill.execute import remove_error_markers

from birdlab.report import clean
from birdlab.report.worker import START_ATTEMPTS, Outcome, Task, explain_exit

KERNEL_NAME = "python3"
NOTHING_TO_DO = "nothing to do"  #: how the message of a ``sys.exit`` begins that ends a notebook on purpose
_INJECTED = "injected-parameters"

Tell = Callable[[Mapping[str, Any]], None]


class ThisInterpreter(KernelSpecManager):
    """Knows one kernel, whatever it is called: the interpreter that runs birdlab."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """The kernel of this interpreter."""
        return KernelSpec(
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name=kernel_display_name(),
            language="python",
            # With a curve key the kernel's sockets are encrypted, and ipykernel has nothing to warn of.
            metadata={"supported_encryption": ["curve"]},
        )


class KernelManager(AsyncKernelManager):
    """A kernel manager that starts :class:`ThisInterpreter` only."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        encryption = "auto" if zmq.has("curve") else "disabled"
        super().__init__(*args, kernel_spec_manager=ThisInterpreter(), transport_encryption=encryption, **kwargs)


class Client(PapermillNotebookClient):
    """Runs the cells and stops at the first that fails; ``failure`` says which, ``stopped`` is the last one begun."""

    def __init__(self, nb_man: Any, *, tell: Tell, log: IO[str], **kwargs: Any) -> None:
        super().__init__(nb_man, kernel_manager_class=KernelManager, record_timing=False, **kwargs)
        # On a busy machine the last output can come late; that is no failure of the cell.
        self.iopub_timeout = 60
        self.tell, self.kernel_log = tell, log
        self.failure: dict[str, Any] | None = None
        self.stopped: int | None = -1
        self.note = ""
        self._told = 0.0

    def execute(self, **kwargs: Any) -> NotebookNode:
        """Start a kernel (three attempts), run the cells, stop the kernel."""
        self.reset_execution_trackers()
        with ExitStack() as stack:
            if self._start(stack):
                self._run_cells()
            # Waiting politely for a kernel that is stuck in a cell would take five seconds.
            self.shutdown_kernel = "immediate" if self.failure else "graceful"
        return self.nb

    def _start(self, stack: ExitStack) -> bool:
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                stack.enter_context(self.setup_kernel(stdout=self.kernel_log, stderr=self.kernel_log))
                return True
            except (RuntimeError, OSError, zmq.ZMQError) as error:
                self.kernel_log.write(f"birdlab: start of the kernel failed, attempt {attempt}: {error}\n")
                self.kernel_log.flush()
                self.km = self.kc = None
                reason = str(error)
            except KeyboardInterrupt:
                self.failure = _interrupted(None)
                return False
        self.failure = {"ename": "KernelStartError", "evalue": f"the kernel did not start: {reason}", "traceback": ""}
        return False

    def _run_cells(self) -> None:
        total = len(self.nb.cells)
        for index, cell in enumerate(self.nb.cells):
            self.stopped = index
            if cell.cell_type == "code":
                self.tell({"cell": index, "of": total})
            try:
                self.execute_cell(cell, index)
            except CellExecutionError as error:
                self._cell_error(error, cell)
                return
            except (DeadKernelError, CellTimeoutError, KeyboardInterrupt) as error:
                self.failure = self._no_answer(error)
                return
        self.stopped = None

    def _cell_error(self, error: CellExecutionError, cell: NotebookNode) -> None:
        name, value = error.ename, error.evalue
        if name == "SystemExit" and value.lower().startswith(NOTHING_TO_DO):
            self.note = value
            return
        if name == "SystemExit":
            value = f"the cell called sys.exit({value}); the cells after it did not run"
        lines = [line for output in cell.outputs if output.output_type == "error" for line in output.traceback]
        self.failure = {"ename": name, "evalue": value, "traceback": "\n".join(lines)}

    def _no_answer(self, error: BaseException) -> dict[str, Any]:
        if isinstance(error, KeyboardInterrupt):
            return _interrupted(self.stopped)
        if isinstance(error, CellTimeoutError):
            text = f"the cell ran longer than {self.timeout} s" if self.timeout else str(error)
            return {"ename": "Timeout", "evalue": text, "traceback": ""}
        process = getattr(getattr(self.km, "provisioner", None), "process", None)
        text = f"the kernel died: {explain_exit(process.poll() if process else None)}"
        return {"ename": "DeadKernel", "evalue": text, "traceback": ""}

    def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> NotebookNode | None:
        """Take a message of the kernel; tells about progress lines at most twice a second."""
        if msg["msg_type"] == "stream" and "\r" in msg["content"]["text"] and time.monotonic() - self._told > 0.5:
            _, states = clean.split_progress(msg["content"]["text"], drop=True)
            self._told = time.monotonic()
            if states:
                self.tell({"progress": states[-1]})
        return super().process_message(msg, cell, cell_index)


class BirdlabEngine(Engine):
    """The papermill engine called ``birdlab``."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **kwargs: Any) -> None:
        """Execute the cells; ``keep`` is given the client, which knows how it ended, and so the notebook."""
        client = Client(
            nb_man,
            tell=kwargs["tell"],
            log=kwargs["log"],
            timeout=kwargs["execution_timeout"],
            startup_timeout=kwargs["start_timeout"],
            kernel_name=kernel_name,
        )
        kwargs["keep"].append(client)
        client.execute()


def execute(task: Task, tell: Tell) -> Outcome:
    """Execute one notebook and write its executed copy, clean, to ``task.target``."""
    keep: list[Client] = []
    begun = time.monotonic()
    with open(task.log, "w", encoding="utf-8") as log:
        try:
            execute_notebook(
                _read(task.source),
                None,
                parameters=task.parameters,
                engine_name="birdlab",
                kernel_name=KERNEL_NAME,
                language="python",
                progress_bar=False,
                cwd=task.cwd,
                execution_timeout=task.timeout,
                autosave_cell_every=0,
                tell=tell,
                log=log,
                keep=keep,
            )
        except PapermillExecutionError:
            # The client knows already; papermill has only put its own marks into the notebook.
            remove_error_markers(keep[0].nb)
        client = keep[0]
        outcome = _finish(task, client, log)
    return Outcome(
        **{**asdict(outcome), "seconds": round(time.monotonic() - begun, 3), "kernel": kernel_display_name()}
    )


def kernel_display_name() -> str:
    """Name of the kernel as it is written into executed notebooks."""
    return f"Python {platform.python_version()}"


def _finish(task: Task, client: Client, log: IO[str]) -> Outcome:
    nb, failure = client.nb, client.failure
    if client.note:
        nb.cells[client.stopped].outputs = [o for o in nb.cells[client.stopped].outputs if o.output_type != "error"]
    progress, warnings = clean.tidy(nb, task.hidden)
    log.writelines(f"{line}\n" for line in progress)
    clean.label_cells(nb, stopped=client.stopped, failed=bool(failure))
    injected = next((i for i, cell in enumerate(nb.cells) if _INJECTED in cell.metadata.get("tags", [])), None)
    if injected is not None:
        # A random id would make every execution a different file.
        nb.cells[injected]["id"] = _INJECTED
        nb.cells[injected]["source"] = "\n".join(["# Parameters", *(f"{k} = {v!r}" for k, v in task.shown.items())])
    error = None
    if failure:
        error = _error(failure, client.stopped, injected, nb, task)
        # As code: a message may hold anything, HTML too.
        said = f"{error['ename']}: {error['evalue']}".replace("`", "'").replace("\n", " ")
        clean.add_banner(nb, f"{error['where'].capitalize()}: `{said}`")
    nb.metadata["papermill"] = {"parameters": task.shown, "exception": bool(failure)}
    nb.metadata["kernelspec"] = {"name": KERNEL_NAME, "display_name": kernel_display_name(), "language": "python"}
    nb.metadata["language_info"] = {
        "name": "python",
        "version": platform.python_version(),
        "pygments_lexer": "ipython3",
    }
    with open(task.target, "w", encoding="utf-8") as file:
        json.dump(nb, file, ensure_ascii=False, indent=1, sort_keys=True)
        file.write("\n")
    return Outcome("failed" if failure else "complete", error=error, note=client.note, warnings=warnings)


def _error(
    failure: Mapping[str, Any], stopped: int | None, injected: int | None, nb: Any, task: Task
) -> dict[str, Any]:
    """The error for the record: ``cell`` counts from 0 in the executed copy (with its banner), ``where`` names the source's cell."""
    if stopped is None or stopped < 0:
        place, where, source = None, "before the first cell", ""
    else:
        own = stopped - (injected is not None and stopped > injected)
        place, where, source = stopped + 1, f"cell {own + 1}", nb.cells[stopped].source
    text = {key: clean.shorten(str(failure[key]), task.hidden) for key in ("ename", "evalue", "traceback")}
    return {"cell": place, "where": where, **text, "source": source}


def _interrupted(cell: int | None) -> dict[str, Any]:
    where = "before its first cell" if cell is None else "while it ran"
    return {"ename": "Interrupted", "evalue": f"stopped {where}", "traceback": ""}


def _read(path: str) -> NotebookNode:
    with open(path, encoding="utf-8") as file:
        nb = reads(file.read(), as_version=4)
    nb.metadata.setdefault("kernelspec", {"name": KERNEL_NAME, "display_name": "Python 3", "language": "python"})
    nb.metadata.setdefault("papermill", {})
    nb.nbformat_minor = max(nb.nbformat_minor, 5)
    for index, cell in enumerate(nb.cells):
        cell.metadata.setdefault("tags", [])
        # Without ids of its own a notebook would be given random ones.
        cell.setdefault("id", f"cell-{index}")
    nb.cells = [cell for cell in nb.cells if _INJECTED not in cell.metadata.tags]
    return nb


def _watch(lines: Iterable[str], tasks: queue.Queue[str | None]) -> None:
    """Hand lines over as they come. When the runner is gone (even killed), stop the work that it asked for."""
    for line in lines:
        tasks.put(line)
    tasks.put(None)
    if tasks.unfinished_tasks > 1:
        os.kill(os.getpid(), signal.SIGINT)


def main() -> int:
    """Answer tasks (one JSON object a line) until the input ends."""
    logging.getLogger("papermill").setLevel(logging.ERROR)
    # Answers have a channel of their own: whatever a library prints goes to the log.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    tasks: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_watch, args=(sys.stdin, tasks), daemon=True).start()

    def tell(event: Mapping[str, Any]) -> None:
        answers.write(json.dumps(event) + "\n")
        answers.flush()

    with tempfile.TemporaryDirectory(prefix="birdlab-ipython-") as profile:
        # Start-up scripts and settings of the user's own IPython have no part in a report.
        os.environ["IPYTHONDIR"] = profile
        while (line := tasks.get()) is not None:
            outcome = execute(Task(**json.loads(line)), tell)
            tasks.task_done()
            tell({"outcome": asdict(outcome)})
    return 0


papermill_engines.register("birdlab", BirdlabEngine)

if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyboardInterrupt, BrokenPipeError):
        # The runner stopped us between two cells, or is gone itself.
        sys.exit(130)
