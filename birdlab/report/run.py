"""``birdlab run``: executes a recipe's notebooks in order and writes the report.

Everything that can be wrong is checked first. Then notebooks whose key is unchanged are skipped, the others run in
processes of their own, and ``run.json`` is replaced at every change. After a failure the notebooks that need the
failed one are left out, what there is goes into the report, and the report says that it is incomplete.
"""

from __future__ import annotations

import json
import queue
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from birdlab.errors import (
    EXIT_DATA,
    EXIT_NOTEBOOK,
    EXIT_OK,
    EXIT_USAGE,
    DataError,
    ManifestError,
    ParameterError,
    Problem,
    RecipeError,
)
from birdlab.recipe import Recipe, load_recipe
from birdlab.report import record
from birdlab.report.clean import hidden_paths
from birdlab.report.console import Console, open_console, seconds_text
from birdlab.report.guard import input_digest, locked, make_folder, sigterm_as_interrupt
from birdlab.report.notebook import project_root
from birdlab.report.plan import Step, plan, with_keys
from birdlab.report.worker import Outcome, Task, Worker
from birdlab.shards import digest
from birdlab.study import Run

_DONE = ("complete", "unchanged")
_SCORING = "02_detection"  #: the notebook that scores the recipe's splits


def run_recipe(
    recipe: Path | str,
    *,
    out: Path | str | None = None,
    parameters: Sequence[str] = (),
    jobs: int = 1,
    only: str = "",
    force: bool = False,
    timeout: int | None = None,
) -> int:
    """Execute a recipe's notebooks and write ``report.html``; its path is the last line on stdout.

    Args:
        recipe: the recipe file.
        out: folder of the run (default: beside the recipe, named like it).
        parameters: ``NAME=VALUE`` or ``NOTEBOOK.NAME=VALUE``.
        jobs: notebooks at the same time, where they do not wait for each other.
        only: only these notebooks, by number or name, joined by commas.
        force: execute unchanged notebooks too.
        timeout: longest time for one cell, s.

    Returns:
        0 when every selected notebook is complete, 1 when one failed, 3 when one failed because data are missing or
        not as promised.

    Raises:
        ParameterError: recipe, notebook names or parameters are wrong (nothing was started).
        NotebookError: a notebook is not fit to run (nothing was started).
        DataError: files differ from their manifest (nothing was started).
        KeyboardInterrupt: stopped by the user or by SIGTERM; ``run.json`` says so.
    """
    if wrong := [
        Problem("bad_option", str(value), expected, key=key)
        for key, value, expected, bad in (
            ("--jobs", jobs, "at least 1", jobs < 1),
            ("--timeout", timeout, "at least 1 s", timeout is not None and timeout < 1),
        )
        if bad
    ]:
        raise ParameterError(wrong)
    recipe_path = Path(recipe).expanduser().resolve()
    study = load_recipe(recipe_path)
    steps = plan(study, recipe_path, assignments=parameters, only=only)
    run_dir = (Path(out).expanduser() if out else recipe_path.parent / study.name).resolve()
    make_folder(run_dir)
    with locked(run_dir), sigterm_as_interrupt():
        inputs = input_digest(Run(study, recipe_path, run_dir, ""))
        steps = with_keys(steps, study, inputs=inputs, package=record.package_digest())
        console = open_console()
        try:
            work = _Work(study, recipe_path, run_dir, steps, inputs, console, timeout=timeout)
            work.prepare(force=force)
            work.execute(jobs)
            page = work.publish()
        finally:
            console.close()
    sys.stdout.write(f"{_near(page)}\n")
    return work.exit_code()


@dataclass
class _Work:
    """One run while it goes: its steps, and the record that is written at every change (by this thread only)."""

    recipe: Recipe
    recipe_path: Path
    run_dir: Path
    steps: list[Step]
    inputs: str
    console: Console
    timeout: int | None = None
    doc: dict[str, Any] = field(default_factory=dict)
    todo: list[Step] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    last_start: float = 0.0  # of a notebook, in seconds since 1970

    @property
    def root(self) -> Path:
        """The project: the folder that has ``notebooks/``."""
        return project_root(self.recipe_path)

    @property
    def data_root(self) -> Path:
        """Folder of the recorded files."""
        return Run(self.recipe, self.recipe_path, self.run_dir, "").data_root.resolve()

    def entry(self, name: str) -> dict[str, Any]:
        """The record of one notebook."""
        return next(e for e in self.doc["notebooks"] if e["name"] == name)

    def prepare(self, *, force: bool) -> None:
        """Compare with what an earlier run left, decide what is to be done, and write the record."""
        before = record.read(self.run_dir)
        earlier = {e.get("name"): e for e in before.get("notebooks", [])}
        entries = []
        for step in self.steps:
            entry = record.entry(step.name, record.relative(step.path, self.root), step.key, step.parameters)
            old, executed = earlier.get(step.name, {}), self.executed(step.name)
            same = old.get("status") in _DONE and old.get("key") == step.key and executed.is_file()
            if same:
                entry = {**entry, **old, "status": "complete"}
            elif not step.selected and old.get("status") in _DONE:
                entry = {
                    **old,
                    "status": "pending",
                    "reason": "its inputs changed since it ran, and it is not among --only",
                }
            elif not step.selected:
                entry = {**entry, **old, "status": "pending" if old.get("status") != "failed" else "failed"}
                entry["reason"] = entry.get("reason") or "not among --only"
            if step.selected and same and not force:
                entry["status"] = "unchanged"
            elif step.selected:
                self.todo.append(step)
            entries.append({**entry, "style": step.style})
        kept = {key: before.get(key) for key in (*record.TIMES, "page")}
        described = record.describe(self.recipe, self.recipe_path, self.root)
        self.doc = {
            **described,
            "inputs": self.inputs,
            "scored": before.get("scored", {}),
            **kept,
            "notebooks": entries,
        }
        self.doc["device"] = record.used_device(self.run_dir, self.recipe.device)
        if self.todo:
            self.doc.update(started=record.now(), finished=None, seconds=None)
        self.write()
        self.console.line(f"{self.recipe.name}: {len(self.todo)} of {len(self.steps)} notebooks to execute")
        for step in self.steps:
            if self.entry(step.name)["status"] == "unchanged":
                self.console.line(f"{step.name}: unchanged")
            if step.style and step.selected:
                self.console.line(f"{step.name}: {step.style} notes on style; `birdlab check` lists them")

    def execute(self, jobs: int) -> None:
        """Run what is to be done, at most ``jobs`` notebooks at a time."""
        waiting, running = list(self.todo), {}
        idle = [Worker(self.run_dir / "logs" / f"worker-{n + 1}.log") for n in range(min(jobs, len(waiting)))]
        events: queue.Queue[tuple[str, Any]] = queue.Queue()
        everyone = list(idle)
        try:
            while waiting or running:
                for step in self.ready(waiting, running) if idle else []:
                    if idle:
                        waiting.remove(step)
                        running[step.name] = self.start(step, idle.pop(), events)
                if not running:
                    break
                try:
                    name, event = events.get(timeout=1.0)
                except queue.Empty:
                    self.tell_progress(running)
                    continue
                if isinstance(event, Outcome):
                    idle.append(running.pop(name))
                    self.end(name, event)
                else:
                    self.console.event(name, event)
        except KeyboardInterrupt:
            self.interrupted(running, events)
            raise
        finally:
            for worker in everyone:
                worker.stop()
        self.leave_out(waiting)
        self.conclude()

    def tell_progress(self, running: Iterable[str]) -> None:
        """Pass on how far the shards of the notebook that runs are; which one it is can be told only when it is alone."""
        path, names = self.run_dir / "progress.json", list(running)
        try:
            if len(names) == 1 and path.stat().st_mtime > self.last_start:
                text = "{label}: {done} of {total} {unit}".format(**json.loads(path.read_text(encoding="utf-8")))
                self.console.event(names[0], {"progress": text})
        except (OSError, ValueError, KeyError, TypeError):
            return

    def ready(self, waiting: Sequence[Step], running: dict[str, Worker]) -> list[Step]:
        """Steps whose needs have ended well, or are not part of this run."""
        mine = {step.name for step in self.todo}
        return [
            s
            for s in waiting
            if all(n not in mine or self.entry(n)["status"] == "complete" for n in s.needs) and s.name not in running
        ]

    def start(self, step: Step, worker: Worker, events: queue.Queue[tuple[str, Any]]) -> Worker:
        """Hand a step to a worker; what an earlier execution left of it is removed first."""
        self.clear(step.name)
        if step.name == _SCORING:
            for split in self.recipe.scoring.splits:
                self.doc["scored"][split] = self.doc["scored"].get(split, 0) + 1
        fresh = record.entry(step.name, record.relative(step.path, self.root), step.key, step.parameters)
        fresh.update(status="running", started=record.now(), log=f"logs/{step.name}.log", style=step.style)
        self.entry(step.name).update(fresh)
        self.write()
        self.console.begin(step.name)
        self.last_start = time.time()
        task = self.task(step)

        def work() -> None:
            events.put((step.name, worker.run(task, lambda event: events.put((step.name, event)))))

        threading.Thread(target=work, daemon=True).start()
        return worker

    def task(self, step: Step) -> Task:
        """What a worker needs to know of a step."""
        default_dir = self.run_dir == self.recipe_path.parent / self.recipe.name
        shown = {
            "recipe": record.relative(self.recipe_path, self.root),
            "run_dir": "" if default_dir else record.relative(self.run_dir, self.root),
        }
        return Task(
            name=step.name,
            source=str(step.path),
            target=str(self.unfinished(step.name)),
            log=str(self.run_dir / "logs" / f"{step.name}.log"),
            cwd=str(self.root),
            parameters={**step.given, "recipe": str(self.recipe_path), "run_dir": str(self.run_dir)},
            shown={**shown, **step.given},
            hidden=hidden_paths(self.root, self.run_dir, self.data_root),
            timeout=self.timeout,
        )

    def end(self, name: str, outcome: Outcome) -> None:
        """Write down how a notebook ended and put its executed copy in place."""
        if self.unfinished(name).is_file():
            self.unfinished(name).replace(self.executed(name))
        shown = record.shown(self.run_dir, name)
        entry = self.entry(name)
        entry.update(status=outcome.status, finished=record.now(), seconds=outcome.seconds, error=outcome.error)
        entry.update(warnings=outcome.warnings, kernel=outcome.kernel, artefacts=shown["artefacts"])
        entry["notes"] = shown["notes"] + ([outcome.note] if outcome.note else [])
        if outcome.interrupted:
            entry["reason"] = "interrupted"
        self.write()
        text = f"complete in {seconds_text(outcome.seconds)}" + (f" ({outcome.note})" if outcome.note else "")
        if error := outcome.error:
            where = f" in {error['where']}" if error.get("where") else ""
            text = f"failed{where}: {error['ename']}: {error['evalue']} (log: {_near(self.run_dir / 'logs' / f'{name}.log')})"
        self.console.end(name, text)

    def leave_out(self, waiting: Sequence[Step]) -> None:
        """Say of the steps that never started which failed notebook they wait for."""
        for step in waiting:
            lacking = [n for n in step.needs if self.entry(n)["status"] not in _DONE]
            self.clear(step.name)
            self.entry(step.name).update(
                status="pending", reason=f"waits for {', '.join(lacking)}, which did not end well", key=step.key
            )
            self.console.line(f"{step.name}: not run, {self.entry(step.name)['reason']}")

    def conclude(self) -> None:
        """Close the record; the times of the last run that executed something stay."""
        done = all(e["status"] in _DONE for e in self.doc["notebooks"])
        self.doc["state"] = "complete" if done else "incomplete"
        self.doc["device"] = record.used_device(self.run_dir, self.recipe.device)
        if self.recipe.training:
            self.doc["test_looks"] = record.test_looks(self.run_dir)
        if self.todo:
            self.doc.update(finished=record.now(), seconds=round(time.monotonic() - self.begun, 1))
        self.write()

    def interrupted(self, running: dict[str, Worker], events: queue.Queue[tuple[str, Any]]) -> None:
        """Stop the running notebooks in order, keep what they have, and say so in the record."""
        for worker in running.values():
            worker.interrupt()
        until = time.monotonic() + 15
        while running and time.monotonic() < until:
            try:
                name, event = events.get(timeout=max(0.1, until - time.monotonic()))
            except queue.Empty:
                break
            if isinstance(event, Outcome):
                running.pop(name)
                error = {**(event.error or {}), "ename": "Interrupted"} if event.error else None
                self.end(name, Outcome(event.status, event.seconds, error, event.note, event.warnings, event.kernel))
        for name in running:
            error = {
                "cell": None,
                "where": "",
                "ename": "Interrupted",
                "evalue": "stopped",
                "traceback": "",
                "source": "",
            }
            self.end(name, Outcome("failed", error=error))
        self.doc.update(state="interrupted", finished=record.now(), seconds=round(time.monotonic() - self.begun, 1))
        self.write()

    def publish(self) -> Path:
        """Render the report, unless the one that is there shows exactly this."""
        key = self.page_key()
        page, known = self.run_dir / "report.html", self.doc.get("page") or {}
        if known.get("key") == key and page.is_file() and record.files_digest([page]) == known.get("digest"):
            return page
        from birdlab.report.render import render_run

        page = render_run(self.run_dir)
        self.doc["page"] = {"key": key, "digest": record.files_digest([page])}
        self.write()
        return page

    def page_key(self) -> str:
        """Digest of everything that the page is made from."""
        names = [step.name for step in self.steps]
        files = [self.executed(n) for n in names] + [self.run_dir / "records" / f"{n}.json" for n in names]
        doc = {k: v for k, v in self.doc.items() if k not in (*record.TIMES, "page")}
        doc["notebooks"] = [
            {**e, "status": "complete" if e["status"] == "unchanged" else e["status"]} for e in doc["notebooks"]
        ]
        return digest([record.package_digest(page=True), record.files_digest(files), doc])

    def exit_code(self) -> int:
        """0, or what the failures of the selected notebooks amount to."""
        failed = [e for e in (self.entry(s.name) for s in self.steps if s.selected) if e["status"] == "failed"]
        if not failed:
            return EXIT_OK
        names = {(e["error"] or {}).get("ename") for e in failed}
        if not names <= {kind.__name__ for kind in (DataError, ManifestError, RecipeError)}:
            return EXIT_NOTEBOOK
        return EXIT_USAGE if RecipeError.__name__ in names else EXIT_DATA

    def executed(self, name: str) -> Path:
        """Where the executed copy of a notebook lies."""
        return self.run_dir / "notebooks" / f"{name}.ipynb"

    def unfinished(self, name: str) -> Path:
        """Where a worker writes it before it is put in place."""
        return self.run_dir / "notebooks" / f".{name}.ipynb.tmp"

    def clear(self, name: str) -> None:
        """Remove what an earlier execution of a notebook left: it must not pass for this one's."""
        for folder in ("notebooks", "records", "logs"):
            (self.run_dir / folder).mkdir(exist_ok=True)
        for path in (self.executed(name), self.unfinished(name), self.run_dir / "records" / f"{name}.json"):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.run_dir / "records" / f".{name}.parts", ignore_errors=True)

    def write(self) -> None:
        """Replace ``run.json``."""
        record.write(self.run_dir, self.doc)


def _near(path: Path) -> str:
    """A path as short as it can be typed from here."""
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)
