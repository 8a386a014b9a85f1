"""``birdlab run`` on small studies: what papermill lets pass must fail loudly, and what is done is not done again."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tiny_notebooks import code, make, study, text, write

from birdlab.cli import main
from birdlab.errors import ParameterError
from birdlab.recipe import load_recipe
from birdlab.report import record
from birdlab.report.clean import hidden_paths, label_cells, shorten, split_progress, tidy
from birdlab.report.guard import input_digest
from birdlab.report.plan import Step
from birdlab.report.run import _Work, run_recipe
from birdlab.report.worker import Outcome, Task, Worker
from birdlab.study import Run

LEAK = "import birdlab\nbirdlab.__file__, str(Path.home() / 'secret'), str(Path.cwd())"


@pytest.fixture(autouse=True)
def one_package_state(monkeypatch):
    """The package's own source may be edited while these tests run: it counts as one state."""
    monkeypatch.setattr(record, "package_digest", lambda page=False: f"package {page}")


def notebook(run_dir: Path, name: str) -> dict:
    return json.loads((run_dir / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))


def entries(run_dir: Path) -> dict[str, dict]:
    return {e["name"]: e for e in record.read(run_dir)["notebooks"]}


def statuses(nb: dict) -> list[str]:
    return [c["metadata"]["papermill"]["status"] for c in nb["cells"]]


def streams(nb: dict) -> str:
    return "".join(o["text"] for c in nb["cells"] for o in c.get("outputs", []) if o["output_type"] == "stream")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """One run, three notebooks at a time, with every way to end."""
    root = tmp_path_factory.mktemp("mixed project {x}")  # a path that papermill alone would try to fill in
    books = root / "notebooks"
    make(
        books / "00_first.ipynb",
        "run.table('frames').height, conf",
        "from pathlib import Path\n" + LEAK,
        parameters="conf: None|float = None  # kept from",
        kernel="does-not-exist",
    )
    make(books / "02_detection.ipynb", "import os\nprint('before')", "os._exit(9)", "print('after')", kernel=None)
    make(books / "03_exit.ipynb", "import sys\nsys.exit(0)", "print('after')")
    make(
        books / "04_nothing.ipynb", "import sys\nsys.exit('nothing to do: the recipe has no videos')", "print('after')"
    )
    make(
        books / "05_progress.ipynb",
        "import sys, warnings\nwarnings.warn('old <b>API</b>')",
        "_ = [sys.stderr.write(f'\\r{i} %') for i in range(20)]\nsys.stderr.write('\\n')\nsys.stderr.write('kept\\n')\nprint('a\\rb')",
        "run.note('Two frames only.')",
    )
    make(books / "06_wrong.ipynb", "{}['no such key']")
    make(books / "10_summary.ipynb")
    names = ["00_first", "02_detection", "03_exit", "04_nothing", "05_progress", "06_wrong", "10_summary"]
    recipe = study(root, *names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "package_digest", lambda page=False: f"package {page}")
        patch.chdir(root.parent)
        code = run_recipe(recipe, jobs=3, parameters=["conf=1e-5"])
    return code, recipe.parent / "study", root


class TestEveryWayToEnd:
    def test_exit_code_and_states(self, mixed):
        exit_code, run_dir, _ = mixed
        assert exit_code == 1
        found = {name: e["status"] for name, e in entries(run_dir).items()}
        assert found == {
            "00_first": "complete",
            "02_detection": "failed",
            "03_exit": "failed",
            "04_nothing": "complete",
            "05_progress": "complete",
            "06_wrong": "failed",
            "10_summary": "pending",
        }
        assert record.read(run_dir)["state"] == "incomplete"

    def test_a_dead_kernel_is_a_failure_of_a_named_cell(self, mixed):
        _, run_dir, _ = mixed
        error = entries(run_dir)["02_detection"]["error"]
        assert (error["where"], error["ename"], error["evalue"]) == (
            "cell 5",
            "DeadKernel",
            "the kernel died: exit status 9",
        )
        nb = notebook(run_dir, "02_detection")
        assert nb["cells"][error["cell"]]["source"] == error["source"] == "os._exit(9)"
        assert nb["cells"][0]["metadata"]["tags"] == ["birdlab-failure"]
        assert "Cell 5: `DeadKernel: the kernel died" in nb["cells"][0]["source"]
        # banner, title, parameters, injected, start, print, _exit | print, limits, finish
        assert statuses(nb) == ["completed"] * 6 + ["failed"] + ["pending"] * 3
        assert streams(nb) == "before\n"

    def test_sys_exit_is_a_failure_unless_there_was_nothing_to_do(self, mixed):
        _, run_dir, _ = mixed
        found = entries(run_dir)
        assert found["03_exit"]["error"]["evalue"] == "the cell called sys.exit(0); the cells after it did not run"
        assert statuses(notebook(run_dir, "03_exit"))[-4:] == ["failed", "pending", "pending", "pending"]
        assert found["04_nothing"]["notes"] == ["nothing to do: the recipe has no videos"]
        nothing = notebook(run_dir, "04_nothing")
        assert statuses(nothing)[-4:] == ["completed", "pending", "pending", "pending"]
        assert not [o for c in nothing["cells"] for o in c.get("outputs", []) if o["output_type"] == "error"]

    def test_an_exception_keeps_its_code_and_no_path(self, mixed):
        _, run_dir, root = mixed
        error = entries(run_dir)["06_wrong"]["error"]
        assert (error["where"], error["ename"], error["evalue"], error["source"]) == (
            "cell 4",
            "KeyError",
            "'no such key'",
            "{}['no such key']",
        )
        assert str(root) not in json.dumps(notebook(run_dir, "06_wrong"))

    def test_what_waits_for_a_failed_notebook_is_not_run(self, mixed):
        _, run_dir, _ = mixed
        assert (
            entries(run_dir)["10_summary"]["reason"]
            == "waits for 02_detection, 03_exit, 06_wrong, which did not end well"
        )
        assert not (run_dir / "notebooks" / "10_summary.ipynb").exists()

    def test_the_report_is_there_and_says_that_it_is_incomplete(self, mixed):
        _, run_dir, _ = mixed
        page = (run_dir / "report.html").read_text(encoding="utf-8")
        assert "3 of 7 chapters complete" in page
        assert "os._exit(9)" in page
        assert "the kernel died" in page
        assert "<b>API</b>" not in page

    def test_the_kernel_is_this_interpreter_whatever_the_notebook_names(self, mixed):
        _, run_dir, _ = mixed
        for name in ("00_first", "02_detection"):
            spec = notebook(run_dir, name)["metadata"]["kernelspec"]
            assert spec == {"name": "python3", "display_name": f"Python {sys.version.split()[0]}", "language": "python"}

    def test_parameters_arrive_with_their_type(self, mixed):
        _, run_dir, _ = mixed
        nb = notebook(run_dir, "00_first")
        assert nb["cells"][2]["source"] == "# Parameters\nrecipe = 'reports/study.yaml'\nrun_dir = ''\nconf = 1e-05"
        assert nb["cells"][4]["outputs"][0]["data"]["text/plain"] == "(2, 1e-05)"
        assert entries(run_dir)["00_first"]["parameters"] == {"conf": 1e-5}

    def test_no_path_of_this_machine_is_left(self, mixed):
        _, run_dir, root = mixed
        nb = notebook(run_dir, "00_first")
        shown = nb["cells"][5]["outputs"][0]["data"]["text/plain"]
        assert shown == "('birdlab/__init__.py',\n '~/secret',\n '.')"
        for path in [*(run_dir / "notebooks").glob("*.ipynb"), run_dir / "report.html", run_dir / "run.json"]:
            found = path.read_text(encoding="utf-8")
            assert str(root) not in found, path.name
            assert "ipykernel_" not in found, path.name

    def test_progress_goes_to_the_log_and_warnings_stay(self, mixed):
        _, run_dir, _ = mixed
        nb = notebook(run_dir, "05_progress")
        shown = streams(nb)
        assert "cell:2: UserWarning: old <b>API</b>" in shown
        assert shown.endswith("b\nkept\n")
        assert "%" not in shown
        assert "19 %" in (run_dir / "logs" / "05_progress.log").read_text()
        assert entries(run_dir)["05_progress"]["warnings"] == 1
        assert entries(run_dir)["05_progress"]["notes"] == ["Two frames only."]

    def test_the_record_says_what_was_run(self, mixed):
        _, run_dir, _ = mixed
        doc = record.read(run_dir)
        assert doc["recipe"]["scoring"]["iou"] == 0.5  # a default, written back
        assert doc["recipe_file"] == "reports/study.yaml"
        assert doc["scored"] == {"test": 1}
        assert doc["versions"]["python"] == sys.version.split()[0]
        assert {"polars", "papermill", "birdlab"} <= set(doc["versions"])
        assert len(doc["inputs"]) == len(doc["recipe_sha256"]) == 64
        assert not list(run_dir.rglob("*.tmp"))


class TestAgain:
    def test_resume_then_nothing_to_do(self, tmp_path, capsys, monkeypatch):
        books, flag = tmp_path / "notebooks", tmp_path / "flag"
        count = "with open(trace, 'a') as f:\n    f.write(run.notebook + ' ')"
        trace = f"trace: str = {str(tmp_path / 'trace')!r}  # file"
        make(books / "00_first.ipynb", count, parameters=trace)
        make(
            books / "02_detection.ipynb",
            count,
            f"open({str(flag)!r}).read()",
            parameters=trace + "\nconf: float = 0.25  # kept from",
        )
        recipe = study(tmp_path, "00_first", "02_detection")
        run_dir = recipe.parent / "study"
        monkeypatch.chdir(tmp_path)

        assert main(["run", "reports/study.yaml"]) == 1
        error = capsys.readouterr().err
        assert "02_detection: failed in cell 5: FileNotFoundError" in error
        assert "reports/study/logs/02_detection.log" in error

        flag.write_text("")
        assert main(["run", "reports/study.yaml"]) == 0
        assert (tmp_path / "trace").read_text() == "00_first 02_detection 02_detection "
        assert [e["status"] for e in entries(run_dir).values()] == ["unchanged", "complete"]
        assert record.read(run_dir)["scored"] == {"test": 2}
        assert capsys.readouterr().out == "reports/study/report.html\n"

        before = (run_dir / "report.html").stat().st_mtime_ns
        assert main(["run", "reports/study.yaml"]) == 0
        assert (tmp_path / "trace").read_text().count(" ") == 3
        assert {e["status"] for e in entries(run_dir).values()} == {"unchanged"}
        assert record.read(run_dir)["state"] == "complete"
        assert (run_dir / "report.html").stat().st_mtime_ns == before
        assert record.read(run_dir)["scored"] == {"test": 2}

        # A changed input concerns all, and what is not asked for is not called complete any more.
        (tmp_path / "photos" / "1.jpg").unlink()
        assert main(["run", "reports/study.yaml", "--only", "02"]) == 0
        assert (tmp_path / "trace").read_text().split()[3:] == ["02_detection"]
        found = entries(run_dir)
        assert [e["status"] for e in found.values()] == ["pending", "complete"]
        assert "changed since it ran" in found["00_first"]["reason"]
        assert record.read(run_dir)["state"] == "incomplete"

    def test_a_damaged_record_means_execute_again(self, tmp_path):
        (tmp_path / "run.json").write_text("{")
        assert record.read(tmp_path) == {}
        assert record.read(tmp_path / "absent") == {}


class TestStops:
    @pytest.fixture
    def sleeping(self, tmp_path):
        make(
            tmp_path / "notebooks" / "00_first.ipynb",
            "import time, os\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(300)",
        )
        recipe = study(tmp_path, "00_first")
        process = subprocess.Popen(
            [sys.executable, "-m", "birdlab.cli", "run", str(recipe)], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        )
        until = time.monotonic() + 60
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.1)
        kernel = psutil.Process(int((tmp_path / "pid").read_text()))
        yield process, kernel, recipe.parent / "study"
        process.kill()
        process.wait()
        process.stderr.close()

    def test_ctrl_c(self, sleeping):
        process, kernel, run_dir = sleeping
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert "interrupted" in process.stderr.read()
        kernel.wait(timeout=10)
        doc = record.read(run_dir)
        assert doc["state"] == "interrupted"
        entry = doc["notebooks"][0]
        assert (entry["status"], entry["error"]["ename"], entry["error"]["where"]) == (
            "failed",
            "Interrupted",
            "cell 4",
        )
        assert statuses(notebook(run_dir, "00_first"))[-3:] == ["failed", "pending", "pending"]

    def test_a_killed_runner_leaves_no_kernel_and_no_lie(self, sleeping):
        process, kernel, run_dir = sleeping
        process.kill()
        process.wait()
        kernel.wait(timeout=20)
        assert record.read(run_dir)["notebooks"][0]["status"] == "running"
        assert not (run_dir / "notebooks" / "00_first.ipynb").exists()


@pytest.fixture
def task(tmp_path):
    """A task whose notebook has the given cells and does not need birdlab."""

    def build(*cells: str, timeout: int | None = None) -> Task:
        source = write(tmp_path / "a.ipynb", [code("x = 1", tags=["parameters"]), text("# T"), *map(code, cells)])
        paths = {"source": source, "target": tmp_path / "out.ipynb", "log": tmp_path / "a.log", "cwd": tmp_path}
        return Task(
            name="a",
            **{k: str(v) for k, v in paths.items()},
            parameters={"x": 2},
            shown={"x": 2},
            hidden=[],
            timeout=timeout,
        )

    return build


@pytest.fixture
def worker(tmp_path):
    made = Worker(tmp_path / "logs" / "worker.log")
    yield made
    made.stop()


class TestWorker:
    def test_timeout_then_the_next_notebook_and_a_killed_worker(self, task, worker, tmp_path):
        told = []
        slow = worker.run(task("print(x)", "import time; time.sleep(100)", "1", timeout=4), told.append)
        assert (slow.status, slow.error["ename"], slow.error["where"]) == ("failed", "Timeout", "cell 4")
        assert slow.error["evalue"] == "the cell ran longer than 4 s"
        assert {"cell": 3, "of": 6} in told
        nb = json.loads((tmp_path / "out.ipynb").read_text())
        assert streams(nb) == "2\n"

        good = worker.run(task("x"), told.append)
        assert (good.status, good.error) == ("complete", None)
        first = (tmp_path / "out.ipynb").read_bytes()
        worker.run(task("x"), told.append)
        assert (tmp_path / "out.ipynb").read_bytes() == first  # no random id, no time, no path

        dead = worker.run(task("import os, signal; os.kill(os.getppid(), signal.SIGKILL)"), told.append)
        assert (dead.status, dead.error["ename"]) == ("failed", "WorkerDied")
        assert "SIGKILL" in dead.error["evalue"]

    @pytest.mark.parametrize(("failures", "status"), [(2, "complete"), (3, "failed")])
    def test_only_the_start_of_a_kernel_is_tried_again(self, task, monkeypatch, failures, status):
        from birdlab.report import kernel

        starts = []

        def start(self):
            starts.append(1)
            if len(starts) <= failures:
                raise RuntimeError("Address already in use")
            return type(self).__mro__[1].start_new_kernel_client(self)

        monkeypatch.setattr(kernel.Client, "start_new_kernel_client", start)
        made = task("print('once')")
        outcome = kernel.execute(made, lambda event: None)
        assert (outcome.status, len(starts)) == (status, 3)
        nb = json.loads(Path(made.target).read_text())
        assert streams(nb) == ("once\n" if status == "complete" else "")
        if status == "failed":
            assert outcome.error["where"] == "before the first cell"
            assert "Address already in use" in outcome.error["evalue"]
            assert set(statuses(nb)[1:]) == {"pending"}


class TestRefused:
    """Nothing is started: no folder, no kernel."""

    def test_an_unknown_parameter(self, tmp_path, capsys):
        make(tmp_path / "notebooks" / "02_x.ipynb", parameters='model: str = "yolov8"  # which')
        recipe = study(tmp_path, "02_x")
        assert main(["run", str(recipe), "-p", "modle=rtdetr"]) == 2
        assert "did you mean model?" in capsys.readouterr().err.lower()
        assert not (recipe.parent / "study").exists()

    def test_a_notebook_without_its_parameters_cell(self, tmp_path, capsys):
        path = make(tmp_path / "notebooks" / "02_x.ipynb")
        path.write_text(path.read_text().replace('"parameters"', '"lost"'))
        assert main(["run", str(study(tmp_path, "02_x"))]) == 1
        assert "no code cell tagged parameters" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("options", "code_"),
        [({"jobs": 0}, "bad_option"), ({"timeout": 0}, "bad_option"), ({"only": "9"}, "unknown_notebook")],
    )
    def test_bad_options(self, tmp_path, options, code_):
        make(tmp_path / "notebooks" / "02_x.ipynb")
        with pytest.raises(ParameterError) as error:
            run_recipe(study(tmp_path, "02_x"), **options)
        assert [p.code for p in error.value.problems] == [code_]

    def test_a_folder_in_use(self, tmp_path):
        fcntl = pytest.importorskip("fcntl")
        make(tmp_path / "notebooks" / "02_x.ipynb")
        recipe = study(tmp_path, "02_x")
        (recipe.parent / "study").mkdir()
        with (recipe.parent / "study" / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(ParameterError, match="another run at work"):
                run_recipe(recipe)

    def test_files_that_are_not_what_their_manifest_says(self, tmp_path, capsys):
        make(tmp_path / "notebooks" / "02_x.ipynb")
        recipe = study(tmp_path, "02_x")
        recipe.write_text(recipe.read_text().replace("data:\n", "data:\n  manifest: datapackage.json\n"))
        photo = tmp_path / "photos" / "0.jpg"
        resource = {"name": "photo", "path": "0.jpg", "bytes": photo.stat().st_size, "hash": f"sha256:{'0' * 64}"}
        about = {
            "name": "study",
            "title": "Study",
            "licenses": [{"name": "CC0-1.0"}],
            "sources": [{"title": "Made"}],
            "resources": [resource],
        }
        (recipe.parent / "datapackage.json").write_text(json.dumps(about))
        assert main(["run", str(recipe)]) == 3
        assert "0.jpg" in capsys.readouterr().err
        assert not (recipe.parent / "study" / "run.json").exists()
        resource["hash"] = f"sha256:{hashlib.sha256(photo.read_bytes()).hexdigest()}"
        (recipe.parent / "datapackage.json").write_text(json.dumps(about))
        run = Run(load_recipe(recipe), recipe, recipe.parent / "study", "")
        assert len(input_digest(run)) == 64

    @pytest.mark.parametrize(
        ("enames", "exit_code"),
        [
            ([], 0),
            (["DataError"], 3),
            (["ManifestError", "DataError"], 3),
            (["DataError", "KeyError"], 1),
            (["RecipeError", "DataError"], 2),
            (["RecipeError", "ParameterError"], 1),
            (["DeadKernel"], 1),
        ],
    )
    def test_exit_code_after_failures(self, tmp_path, enames, exit_code):
        steps = [Step(f"0{i}", tmp_path, (), {}) for i in range(len(enames) + 1)]
        done = [
            {"name": s.name, "status": "failed", "error": {"ename": e}} for s, e in zip(steps, enames, strict=False)
        ]
        done.append({"name": steps[-1].name, "status": "complete"})
        work = _Work(None, tmp_path, tmp_path, steps, "", None, doc={"notebooks": done})
        assert work.exit_code() == exit_code

    def test_a_file_as_folder(self, tmp_path):
        make(tmp_path / "notebooks" / "02_x.ipynb")
        with pytest.raises(ParameterError, match="--out"):
            run_recipe(study(tmp_path, "02_x"), out=tmp_path / "photos" / "0.jpg")


class TestClean:
    def test_folders(self, tmp_path):
        hidden = hidden_paths(tmp_path / "p", tmp_path / "p" / "reports" / "s")
        home = str(Path.home())
        said = f"{tmp_path}/p/notebooks/a.py {tmp_path}/p {home}/x {home}x /tmp/ipykernel_12/34.py:3 \x1b[31mred\x1b[0m"
        assert shorten(said, hidden) == f"notebooks/a.py . ~/x {home}x cell:3 red"

    def test_a_run_elsewhere(self, tmp_path):
        hidden = hidden_paths(tmp_path / "p", tmp_path / "out" / "s")
        assert shorten(f"{tmp_path}/out/s/tables/a.csv", hidden) == "s/tables/a.csv"
        hidden = hidden_paths(tmp_path / "p", tmp_path / "p" / "s", tmp_path / "nest7")
        assert shorten(f"in '{tmp_path}/nest7/a b/1.jpg'", hidden) == "in 'nest7/a b/1.jpg'"

    @pytest.mark.parametrize(
        ("stream", "drop", "kept", "redrawn"),
        [
            ("a\nb", True, "a\nb", []),
            ("a\r\nb\r\n", True, "a\nb\n", []),
            ("\r 1%\r 2%\nc\n", True, "c\n", ["2%"]),
            ("\r 1%\r 2%\nc\n", False, "2%\nc\n", ["2%"]),
            ("\r 1%x.py:1: UserWarning: w\n", True, "1%x.py:1: UserWarning: w\n", ["1%x.py:1: UserWarning: w"]),
            ("\r\r\n", True, "", []),
        ],
    )
    def test_progress(self, stream, drop, kept, redrawn):
        assert split_progress(stream, drop=drop) == (kept, redrawn)

    def test_streams_do_not_depend_on_how_they_were_cut(self):
        def output(name, said):
            return {"output_type": "stream", "name": name, "text": said}

        pieces = [
            output("stderr", "\r 5"),
            output("stdout", "a"),
            output("stderr", "0 %"),
            output("stderr", "\nend\n"),
            output("stdout", "b\n"),
        ]
        nb = {"metadata": {}, "cells": [{"cell_type": "code", "source": "1", "metadata": {}, "outputs": pieces}]}
        assert tidy(nb, []) == (["50 %"], 0)
        assert nb["cells"][0]["outputs"] == [output("stdout", "ab\n"), output("stderr", "end\n")]

    def test_widgets_go_and_images_stay(self):
        view = {
            "output_type": "display_data",
            "metadata": {},
            "data": {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "0%"},
        }
        image = {
            "output_type": "display_data",
            "metadata": {},
            "data": {"image/png": "/opt/env/AAAA", "text/plain": "/opt/env/x"},
        }
        nb = {
            "metadata": {"widgets": {}},
            "cells": [{"cell_type": "code", "source": "1", "metadata": {}, "outputs": [view, image]}],
        }
        assert tidy(nb, [("/opt/env", "python")]) == ([], 0)
        assert nb["metadata"] == {}
        assert [o["data"] for o in nb["cells"][0]["outputs"]] == [
            {"image/png": "/opt/env/AAAA", "text/plain": "python/x"}
        ]

    def test_labels_of_cells(self):
        cells = [
            {"cell_type": "code", "source": "1", "metadata": {}, "outputs": [1], "execution_count": 1} for _ in range(3)
        ]
        nb = {"cells": cells, "metadata": {}}
        label_cells(nb, stopped=1, failed=True)
        assert statuses(nb) == ["completed", "failed", "pending"]
        assert [c["execution_count"] for c in cells] == [1, 1, None]
        label_cells(nb, stopped=None, failed=False)
        assert statuses(nb) == ["completed"] * 3


def test_progress_of_a_notebook_that_ended_is_not_told_as_the_next_ones(tmp_path):
    class Listener:
        said: list = []

        def line(self, text): ...
        def begin(self, name): ...
        def event(self, name, event):
            self.said.append((name, event["progress"]))

    class Idle:
        def run(self, task, tell):
            return Outcome("complete")

    steps = [Step(name, tmp_path / f"{name}.ipynb", (), {}) for name in ("01_inference", "02_detection")]
    recipe = load_recipe(study(tmp_path, "01_inference", "02_detection"))
    entries = [record.entry(s.name, s.name, "", {}) for s in steps]
    work = _Work(
        recipe,
        tmp_path / "reports/study.yaml",
        tmp_path,
        steps,
        "",
        Listener(),
        doc={"notebooks": entries, "scored": {}},
    )
    told, events = tmp_path / "progress.json", queue.Queue()
    work.start(steps[0], Idle(), events)
    time.sleep(0.05)  # file times are coarser than the clock
    told.write_text('{"label": "wren", "done": 2, "total": 2, "unit": "shards"}')
    work.tell_progress(["01_inference"])
    time.sleep(0.05)
    work.start(steps[1], Idle(), events)
    work.tell_progress(["02_detection"])
    assert Listener.said == [("01_inference", "wren: 2 of 2 shards")]


def test_record_is_strict_json(tmp_path):
    record.write(tmp_path, {"a": float("nan"), "b": [float("inf")], "c": 1.5})
    assert json.loads((tmp_path / "run.json").read_text(), parse_constant=pytest.fail) == {
        "a": "nan",
        "b": ["inf"],
        "c": 1.5,
    }


def test_an_outcome_from_outside_says_so():
    assert Outcome("failed", error={"ename": "Interrupted"}).interrupted
    assert not Outcome("failed", error={"ename": "KeyError"}).interrupted
    assert not Outcome("complete").interrupted
    assert os.name != "posix" or hasattr(signal, "SIGKILL")
