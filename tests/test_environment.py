"""Set-up: one list of dependencies, one line when something is missing, nothing done twice."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement


@pytest.fixture(scope="module")
def declared(project: Path) -> dict:
    return tomllib.loads((project / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def environment(project: Path):
    spec = importlib.util.spec_from_file_location("environment", project / ".ci" / "environment.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_environment_yml_and_pyproject_agree(project, declared):
    conda = yaml.safe_load((project / "environment.yml").read_text())
    names = [d for d in conda["dependencies"] if isinstance(d, str)]
    assert [re.split(r"[<>=]", n)[0] for n in names] == ["python", "pip"]
    assert "python" + declared["requires-python"] in names
    listed = next(d["pip"] for d in conda["dependencies"] if isinstance(d, dict))
    extras = (declared["optional-dependencies"][name] for name in ("infer", "audio", "test"))
    want = set(declared["dependencies"]).union(*extras)
    assert sorted(set(listed) - {"-e ."}) == sorted(want)
    assert "-e ." in listed


def test_constraints_hold_every_dependency_at_an_allowed_version_and_no_address(project, declared):
    lines = (project / ".ci" / "constraints.txt").read_text().split()
    pins = dict(line.split("==") for line in lines)
    pins = {re.sub(r"[-_.]+", "-", k).lower(): v for k, v in pins.items()}
    assert not [line for line in lines if "/" in line or "@" in line]
    for text in declared["dependencies"] + sum(declared["optional-dependencies"].values(), []):
        need = Requirement(text)
        assert need.specifier.contains(pins[need.name.lower()], prereleases=True), text


def test_one_opencv_only(project, declared):
    everything = declared["dependencies"] + sum(declared["optional-dependencies"].values(), [])
    assert [d for d in everything if d.startswith("opencv")] == ["opencv-python>=5.0,<5.1"]
    assert "opencv-python-headless" not in (project / ".ci" / "constraints.txt").read_text()


def test_core_imports_without_torch_and_quickly_needs_nothing_heavy(project):
    code = "import sys, birdlab, birdlab.cli; print([m for m in ('torch', 'polars', 'cv2', 'numpy', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=project)
    assert done.stdout.strip() == "[]"


def _script(project: Path, *args: str, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(project / ".ci" / "environment.py"), *args],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
    )


def test_a_missing_system_library_is_named_in_one_line(project, environment, tmp_path, monkeypatch, capsys):
    """A cv2 that asks the loader for a library which is not there fails just as OpenCV's own does."""
    fake = tmp_path / "site" / "cv2"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text(
        "import ctypes\ntry:\n    ctypes.CDLL('libGL.so.1.birdlab-test')\nexcept OSError as error:\n    raise ImportError(str(error))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    directory = tmp_path / "env"
    (directory / "bin").mkdir(parents=True)
    (directory / "bin" / "python").symlink_to(sys.executable)
    with pytest.raises(environment.Missing) as caught:
        environment.check_opencv(directory)
    assert (
        str(caught.value)
        == "OpenCV needs the system library libGL.so.1.birdlab-test, which this machine lacks: apt-get install libgl1"
    )
    monkeypatch.setattr(environment, "prepare", lambda *a: None)
    monkeypatch.setattr(sys, "argv", ["environment.py", str(directory), "--extra", "infer"])
    assert environment.main() == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "libGL.so.1" in err


def test_an_unchanged_environment_is_used_again(project, environment, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(environment, "_install", lambda python, extras: made.append(extras))
    environment.prepare(tmp_path / "env", ["infer"])
    environment.prepare(tmp_path / "env", ["infer"])
    assert made == [["infer"]]
    environment.prepare(tmp_path / "env", ["test", "infer"])
    environment.prepare(tmp_path / "env", ["infer"])  # part of what is there
    assert made == [["infer"], ["infer", "test"]]


def test_an_environment_that_was_moved_is_made_anew(environment, tmp_path, monkeypatch):
    """Its commands name the interpreter by path, so `.venv/bin/jupyter` would not start."""
    monkeypatch.setattr(environment, "_install", lambda python, extras: (python.parent / "tool").write_text("x"))
    environment.prepare(tmp_path / "a b" / "env", ["infer"])
    (tmp_path / "a b").rename(tmp_path / "b")
    monkeypatch.setattr(environment, "ROOT", tmp_path)  # the project moved with it
    for name in ("pyproject.toml", ".ci/constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "b/env/left").touch()
    (tmp_path / "link").symlink_to(tmp_path / "b/env")
    environment.prepare(tmp_path / "b" / "env", ["infer"])
    assert (tmp_path / "b/env/bin/tool").exists() and not (tmp_path / "b/env/left").exists()
    (tmp_path / "b/env/kept").touch()
    (tmp_path / "pyproject.toml").write_text("changed")
    environment.prepare(tmp_path / "link", ["infer"])
    assert (tmp_path / "b/env/kept").exists()


@pytest.mark.parametrize("works", [True, False])
def test_a_folder_with_other_files_in_it_keeps_them(environment, tmp_path, monkeypatch, works):
    """`make VENV=folder` on the wrong folder."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/a.jpg").touch()
    monkeypatch.setattr(environment, "_install", lambda python, extras: None)
    if works:
        environment.prepare(tmp_path / "photos", [])
    else:
        monkeypatch.setattr(environment.sys, "executable", shutil.which("false"))
        with pytest.raises(environment.Missing, match="venv module"):
            environment.prepare(tmp_path / "photos", [])
    assert (tmp_path / "photos/a.jpg").exists()


def test_an_old_python_is_refused_in_one_line(environment, tmp_path, monkeypatch):
    monkeypatch.setattr(environment.sys, "version_info", (3, 10, 4))
    with pytest.raises(environment.Missing, match=r"^Python 3\.11 or newer is needed"):
        environment.prepare(tmp_path / "env", [])
    assert not (tmp_path / "env").exists()


def test_make_says_in_one_line_that_python_is_missing(project):
    done = subprocess.run(["make", "-s", "report", "PYTHON="], capture_output=True, text=True, cwd=project)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].startswith("birdlab: Python 3.11 or newer is needed")


def test_ci_runs_make_test(project):
    assert (project / ".ci" / "run").read_text().rstrip().endswith("exec make test")


def test_an_installed_package_holds_the_notebooks_where_the_runner_looks(project, tmp_path, monkeypatch):
    """The wheel takes them in; a recipe in a folder without notebooks is then run with those."""
    import birdlab
    from birdlab.report.notebook import find_notebook

    settings = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert settings["force-include"] == {"notebooks": "birdlab/notebooks"}
    home = tmp_path / "site" / "birdlab"
    (home / "notebooks").mkdir(parents=True)
    (home / "notebooks" / "00_data_audit.ipynb").write_text("{}")
    monkeypatch.setattr(birdlab, "__file__", str(home / "__init__.py"))
    assert find_notebook("00_data_audit", tmp_path / "study.yaml").parent == home / "notebooks"


def test_hooks_before_a_commit_use_the_environment_and_fetch_nothing(project):
    hooks = [
        hook
        for repo in yaml.safe_load((project / ".pre-commit-config.yaml").read_text())["repos"]
        for hook in repo["hooks"]
    ]
    assert [hook["id"] for hook in hooks] == ["ruff-check", "ruff-format", "nbstripout", "birdlab-check"]
    assert {hook["language"] for hook in hooks} == {"system"}
    assert all(hook["entry"].startswith(".venv/bin/") for hook in hooks)
    checked = re.compile(hooks[-1]["files"])
    for name in ("notebooks/02_detection.ipynb", "reports/demo.yaml", "data_manifests/demo/datapackage.json"):
        assert checked.search(name) and (project / name).is_file()


def test_no_machine_path_or_host_in_tracked_text(project):
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=project).stdout.split("\n")
    bad = re.compile(
        "|".join(["/" + "work/", "/" + "root/", r"/" + r"home/[a-z]+/", "pypi" + r"\.org", "python" + r"hosted\.org"])
    )
    for name in listed:
        path = project / name
        if (
            path.suffix in {".py", ".md", ".toml", ".yaml", ".yml", ".ipynb", ".json", ".txt", ".cff", ""}
            and path.is_file()
        ):
            found = bad.search(path.read_text("utf-8", errors="ignore"))
            assert not found, f"{name}: {found.group(0)}"
