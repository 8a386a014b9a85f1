"""Every committed notebook in JupyterLab itself: opened in a browser, Run All Cells, everything drawn, nothing failed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import browser
import nbformat
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NOTEBOOKS = (
    *("00_data_audit", "01_inference", "02_detection", "02b_comparison", "03_difficulty", "05_reidentification"),
    *("06_actions_keypoints_tracking", "07_application", "08_soundscapes", "09_abstention", "10_summary"),
)
TOKEN = "tests"
#: Seconds that the server may take to answer, and one notebook to run.
START_S, RUN_S = 60, 240
#: What the status bar says when the notebook's kernel has started; before that, Run All Cells asks for a kernel.
READY = "Python 3 (ipykernel) | Idle"
#: What stands in the brackets of every code cell.
PROMPTS = """() => [...document.querySelectorAll('.jp-Notebook .jp-CodeCell')]
    .map(cell => cell.querySelector('.jp-InputPrompt').textContent.trim())"""
#: What cells wrote on the error stream or failed with.
WRONG = """() => [...document.querySelectorAll('.jp-RenderedText')]
    .filter(said => /error|stderr/.test(said.dataset.mimeType)).map(said => said.textContent)"""
#: Pictures of the outputs that were not drawn: no size of their own.
BLANK = """() => [...document.querySelectorAll('.jp-OutputArea-output img')]
    .filter(image => !(image.complete && image.naturalWidth)).map(image => image.alt)"""


@dataclass
class Lab:
    """A JupyterLab server on a copy of the notebooks, with a browser to open it in."""

    folder: Path
    address: str
    browser: Any

    def notebook(self, name: str) -> Path:
        return self.folder / "notebooks" / f"{name}.ipynb"


@pytest.fixture(scope="module")
def started_browser() -> Iterator[Any]:
    """First of all, so that a machine without a browser does not make the demo study for nothing."""
    with browser.launch() as started:
        yield started


@pytest.fixture(scope="module")
def lab(started_browser, demo_run, project, tmp_path_factory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab") / "project"
    copy_project(project, folder, run_dir=demo_run)
    port = free_port()
    log = folder.parent / "lab.log"
    with log.open("w") as stream:
        server = subprocess.Popen(
            command(folder, port), cwd=folder, env=settings(folder.parent), stdout=stream, stderr=stream
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(f"{address}/api/status?token={TOKEN}", server, log)
        yield Lab(folder, address, started_browser)
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def copy_project(project: Path, folder: Path, *, run_dir: Path) -> None:
    """The notebooks and the demo's recipe as in the repository, with the run's folder given in the parameters cells."""
    (folder / "notebooks").mkdir(parents=True)
    (folder / "reports").mkdir()
    shutil.copy(project / "reports" / "demo.yaml", folder / "reports")
    for name in NOTEBOOKS:
        notebook = nbformat.read(project / "notebooks" / f"{name}.ipynb", 4)
        cell = next(c for c in notebook.cells if "parameters" in c.metadata.get("tags", []))
        assert 'run_dir: str = ""' in cell.source
        cell.source = cell.source.replace('run_dir: str = ""', f"run_dir: str = {str(run_dir)!r}")
        nbformat.write(notebook, folder / "notebooks" / f"{name}.ipynb")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def command(folder: Path, port: int) -> list[str]:
    """``jupyter lab`` as README says it, without the browser it would open and without what it would fetch from elsewhere."""
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "IdentityProvider.token": TOKEN,
        "ServerApp.root_dir": folder,
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        "LabApp.extension_manager": "readonly",
    }
    said = [f"--{key}={value}" for key, value in options.items()]
    return [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", *said]


def settings(folder: Path) -> dict[str, str]:
    """Jupyter's own folders away from the user's: neither their settings nor their open tabs take part."""
    own = {
        name: str(folder / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    own |= {name: str(folder / name.lower()) for name in ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")}
    return {**os.environ, **own}


def wait_for(address: str, server: subprocess.Popen, log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5) as reply:
                if reply.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    pytest.fail(f"JupyterLab did not start: {log.read_text()[-3000:]}")


def run_all_cells(page: Any) -> None:
    """Run > Run All Cells, as by hand, then wait until every cell has run or one said that something is wrong."""
    page.locator(".lm-MenuBar-item", has_text="Run").click()
    page.locator(".lm-Menu-itemLabel", has_text="Run All Cells").first.click()
    done = f"({PROMPTS})().every(prompt => /^\\[\\d+\\]:$/.test(prompt))"
    page.wait_for_function(f"() => {done} || ({WRONG})().length", timeout=1000 * RUN_S)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_runs_top_to_bottom_in_jupyterlab(lab, name):
    context = lab.browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(1000 * START_S)
    try:
        page.goto(f"{lab.address}/lab/tree/notebooks/{name}.ipynb?token={TOKEN}&reset")
        page.locator(".jp-StatusBar-TextItem", has_text=READY).wait_for()
        run_all_cells(page)
        check_page(page, lab.notebook(name))
        page.keyboard.press("Control+s")
        check_saved(wait_until_saved(lab.notebook(name)))
    finally:
        context.close()


def check_page(page: Any, path: Path) -> None:
    code = [c for c in nbformat.read(path, 4).cells if c.cell_type == "code"]
    assert page.evaluate(WRONG) == []
    assert page.evaluate(PROMPTS) == [f"[{i}]:" for i in range(1, len(code) + 1)]
    calls = sum(c.source.count(f"run.show_{kind}(") for c in code for kind in ("table", "figure", "gallery"))
    drawn = page.locator(".jp-OutputArea-output table, .jp-OutputArea-output figure").count()
    assert drawn >= calls > 0
    assert page.evaluate(BLANK) == []


def wait_until_saved(path: Path) -> nbformat.NotebookNode:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        notebook = nbformat.read(path, 4)
        if any(c.get("outputs") for c in notebook.cells):
            return notebook
        time.sleep(0.2)
    pytest.fail(f"{path.name} was not saved")


def check_saved(notebook: nbformat.NotebookNode) -> None:
    outputs = [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]
    assert [o for o in outputs if o.output_type in ("error", "stream")] == []
    assert all(c.execution_count for c in notebook.cells if c.cell_type == "code")
