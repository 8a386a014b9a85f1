#!/usr/bin/env python3
"""Set up birdlab's environment on a machine that has only Python 3.11 or newer, make and git.

    python3 .ci/environment.py DIR [--extra infer] [--extra test] [--system]

Makes a virtual environment in DIR, installs birdlab into it at the versions of constraints.txt and tries to import
OpenCV. Does nothing when nothing changed since the last time. ``--system`` also installs the Debian packages that the
tests use (a browser), where this user may. Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
#: System libraries that OpenCV's wheel expects, and the Debian package of each.
LIBRARIES = {
    "libGL.so": "libgl1",
    "libgthread": "libglib2.0-0",
    "libglib": "libglib2.0-0",
    "libxcb": "libxcb1",
    "libSM": "libsm6",
    "libXext": "libxext6",
    "libXrender": "libxrender1",
}


class Missing(Exception):
    """Something this machine lacks, said in one line."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--extra", action="append", default=[])
    parser.add_argument("--system", action="store_true")
    args = parser.parse_args()
    try:
        prepare(args.directory.absolute(), args.extra)
        if args.system:
            install_browser()
        check_opencv(args.directory.absolute(), may_install=args.system)
    except Missing as error:
        print(f"birdlab: {error}", file=sys.stderr)
        return 2
    return 0


def prepare(directory: Path, extras: list[str]) -> None:
    """Make the environment, or leave it alone when its stamp matches what it would be made from."""
    if sys.version_info < (3, 11):
        raise Missing(
            f"Python 3.11 or newer is needed, {sys.executable} is {sys.version.split()[0]} (make PYTHON=python3.12 …)"
        )
    if shutil.which("git") is None:
        raise Missing("git is needed (apt-get install git)")
    python = directory / "bin" / "python"
    extras = sorted(set(extras))
    if python.exists() and any(_made(directory, other) for other in _supersets(extras)):
        return
    moved, there = _was_moved(directory), directory.exists()
    if not python.exists() or moved:
        print(f"birdlab: making the environment in {directory.name}/ (a few minutes, once)", flush=True)
        command = [sys.executable, "-m", "venv", *(["--clear"] if moved else []), str(directory)]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            if not there:  # what lay there before is not ours to remove
                shutil.rmtree(directory, ignore_errors=True)
            raise Missing("Python's venv module does not work here (Debian and Ubuntu: apt-get install python3-venv)")
    _install(python, extras)
    _stamp(directory, extras).write_text(_state(extras))


def _was_moved(directory: Path) -> bool:
    """Whether this script made the environment in another place: its commands begin with the path they were made for."""
    if not any(directory.glob(".birdlab-*")) or not (directory / "pyvenv.cfg").exists():
        return False  # not ours to make anew
    said = re.search(r"^command = .* -m venv (?:--\S+ )*(.+)$", (directory / "pyvenv.cfg").read_text(), re.MULTILINE)
    return said is not None and Path(said.group(1)).resolve() != directory.resolve()


def _supersets(extras: list[str]) -> list[list[str]]:
    """The sets of extras that hold these: an environment made for more serves for less."""
    known = [[], ["infer"], ["infer", "test"]]
    return [extras, *[k for k in known if set(k) > set(extras)]]


def _stamp(directory: Path, extras: list[str]) -> Path:
    return directory / f".birdlab-{'-'.join(extras) or 'core'}"


def _made(directory: Path, extras: list[str]) -> bool:
    stamp = _stamp(directory, extras)
    return stamp.exists() and stamp.read_text() == _state(extras)


def _state(extras: list[str]) -> str:
    text = (ROOT / "pyproject.toml").read_text() + CONSTRAINTS.read_text() + sys.version + ",".join(extras) + str(ROOT)
    return hashlib.sha256(text.encode()).hexdigest()


def _install(python: Path, extras: list[str]) -> None:
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _run([*pip, "uv"])
    if "infer" in extras:
        # torch is most of the download. pip fetches it, since pip follows this machine's own pip settings (a mirror,
        # wheels on disk), which uv does not read; uv then finds it installed.
        pins = [line for line in CONSTRAINTS.read_text().splitlines() if re.match(r"(torch|torchvision)==", line)]
        _run([*pip, *pins])
    target = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    _run(
        [
            str(python),
            "-m",
            "uv",
            "pip",
            "install",
            "--quiet",
            "--python",
            str(python),
            "-c",
            str(CONSTRAINTS),
            "-e",
            target,
        ]
    )


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise Missing(
            f"the installation stopped: {lines[-1].strip() if lines else 'no message'} (ran: {' '.join(command[-6:])})"
        )


def install_browser() -> None:
    """Install Debian's Chromium for the browser tests where this user may; elsewhere those tests skip with a reason."""
    if shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome"):
        return
    apt_install("chromium")


def apt_install(package: str) -> bool:
    """Install one Debian package as root; False where that is not possible."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return False
    print(f"birdlab: installing Debian's {package}", flush=True)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package],
    ):
        done = subprocess.run(command, capture_output=True, text=True, env=env)
    return done.returncode == 0


def check_opencv(directory: Path, *, may_install: bool = False) -> None:
    """Import cv2 in the environment; a system library that is missing is named with the command that brings it."""
    for _ in range(4):
        tried = subprocess.run([str(directory / "bin" / "python"), "-c", "import cv2"], capture_output=True, text=True)
        if tried.returncode == 0:
            return
        found = re.search(r"(lib[\w.+-]+\.so[\w.+-]*): cannot open shared object file", tried.stderr)
        if not found:
            last = tried.stderr.strip().splitlines()[-1] if tried.stderr.strip() else "no message"
            raise Missing(f"OpenCV cannot be imported: {last}")
        library = found.group(1)
        package = next((deb for name, deb in LIBRARIES.items() if library.startswith(name)), None)
        if not (may_install and package and apt_install(package)):
            how = f"apt-get install {package}" if package else f"look for the package that holds {library}"
            raise Missing(f"OpenCV needs the system library {library}, which this machine lacks: {how}")


if __name__ == "__main__":
    sys.exit(main())
