"""Fixtures shared by the rooms' tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

OWN_OPEN = Image.open
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def project() -> Path:
    """Root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real photographs, labels and detectors; the test is skipped where there is none."""
    folder = Path(os.environ.get("BIRDLAB_REAL_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "PROVENANCE.md").exists():
        pytest.skip("no folder of real data (set BIRDLAB_REAL_DATA)")
    return folder


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo study, run once through `birdlab run`: folder of the run."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    command = [sys.executable, "-m", "birdlab.cli", "run", str(ROOT / "reports" / "demo.yaml"), "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.fail(f"the demo did not run: {done.stderr[-3000:]}")
    return folder


@pytest.fixture(autouse=True)
def pillow_as_it_was():
    """A test that imports ultralytics itself leaves Pillow's ``Image.open`` replaced; the next test gets its own back."""
    Image.open = OWN_OPEN
    yield
    Image.open = OWN_OPEN
