"""What papermill alone lets pass, through ``birdlab run``: values that change on their way, cells that are ambiguous.

Dead kernels, timeouts, ``sys.exit``, resuming and the rest of these cases are in test_runner.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_notebooks import PARAMETERS, code, make, study, text, write

from birdlab.cli import main
from birdlab.report import record


@pytest.fixture(autouse=True)
def one_package_state(monkeypatch):
    """The package's own source may be edited while these tests run: it counts as one state."""
    monkeypatch.setattr(record, "package_digest", lambda page=False: f"package {page}")


def refused(recipe: Path, capsys, *options: str) -> tuple[int, str]:
    """Exit code and message of a run that must not start: no folder is made."""
    exit_code = main(["run", str(recipe), *options])
    assert not (recipe.parent / "study").exists()
    return exit_code, capsys.readouterr().err


def test_a_misspelt_parameter_in_the_recipe_names_the_nearest(tmp_path, capsys):
    make(tmp_path / "notebooks" / "02_x.ipynb", parameters='model: str = "yolov8"  # which')
    exit_code, said = refused(study(tmp_path, {"02_x": {"modle": "rtdetr"}}), capsys)
    assert exit_code == 2 and "modle" in said and "did you mean model?" in said.lower()


def test_a_second_parameters_cell(tmp_path, capsys):
    cells = [
        text("# T\n\nWhat."),
        code(PARAMETERS, tags=["parameters"]),
        code("conf: float = 0.5", tags=["parameters"]),
    ]
    write(tmp_path / "notebooks" / "02_x.ipynb", cells)
    exit_code, said = refused(study(tmp_path, "02_x"), capsys)
    assert exit_code == 1 and "cell 2, cell 3" in said and "exactly one" in said


def test_a_value_derived_in_the_parameters_cell(tmp_path, capsys):
    make(
        tmp_path / "notebooks" / "02_x.ipynb", parameters='root: str = "a"  # folder\nout: str = root + "/x"  # folder'
    )
    exit_code, said = refused(study(tmp_path, "02_x"), capsys, "-p", "root=b")
    assert exit_code == 1 and "out" in said and "next cell" in said


@pytest.mark.parametrize(
    ("declared", "typed"),
    [
        ("flag: bool = True", "flag=no"),
        ("flag: bool = True", "flag=0"),
        ("n: int = 1", "n=007"),
        ("n: int = 1", "n=1.5"),
        ("conf: float = 0.5", "conf=null"),
        ("names: list[str] = []", "names=a"),
    ],
)
def test_a_value_of_another_type(tmp_path, capsys, declared, typed):
    make(tmp_path / "notebooks" / "02_x.ipynb", parameters=f"{declared}  # for the test")
    exit_code, said = refused(study(tmp_path, "02_x"), capsys, "-p", typed)
    name, _, value = typed.partition("=")
    assert exit_code == 2 and name in said and value in said and "value of type" in said


DECLARED = r"""
flag: bool = True  # from the command line
code: str = ""  # digits that are a name
tiny: float = 1.0  # a number that YAML 1.1 reads as text
limit: None | float = 0.5  # a type papermill's own reader does not know
day: str = ""  # a date stays text
path: str = ""  # backslashes
said: str = ""  # quotes, line ends, letters
nested: dict = {}  # with what JSON has not
span: list[float] = []  # a list of numbers
"""


def test_values_arrive_as_they_were_given_and_a_figure_once(tmp_path, capsys):
    """Command line and recipe, in one run; the figure is the last expression of its cell and shown by the library too."""
    given = {
        "day": "2024-05-01",
        "path": "C:\\new\\table",
        "said": 'it\'s "ü"\n{x}',
        "nested": {"a": {"b": [1, None, True]}},
        "span": [1, 2.5],
    }
    make(
        tmp_path / "notebooks" / "02_x.ipynb",
        "import json\nprint(json.dumps([flag, code, tiny, limit, day, path, said, nested, span]))",
        "import polars as pl\nfrom birdlab.figures import detection as figures\nbins = pl.DataFrame({'level': ['a'], 'lo': [0.0], 'hi': [1.0], 'n': [3]})",
        "run.show_figure(figures.fig_sizes, bins, id='fig-once', title='T.', caption='C.', alt='Bars.', width_in=6.2)",
        parameters=DECLARED.strip(),
    )
    recipe = study(tmp_path, {"02_x": given})
    typed = ("flag=false", "code=007", "tiny=1e-5", "limit=null")
    assert main(["run", str(recipe), *(part for p in typed for part in ("-p", p))]) == 0
    run_dir = recipe.parent / "study"
    nb = json.loads((run_dir / "notebooks" / "02_x.ipynb").read_text(encoding="utf-8"))
    streams = [o["text"] for c in nb["cells"] for o in c.get("outputs", []) if o["output_type"] == "stream"]
    assert json.loads("".join(streams)) == [False, "007", 1e-5, None, *given.values()]
    assert record.read(run_dir)["notebooks"][0]["parameters"] == {
        "flag": False,
        "code": "007",
        "tiny": 1e-5,
        "limit": None,
        **given,
    }
    drawn = [len(c["outputs"]) for c in nb["cells"] if "show_figure" in c["source"] and c["cell_type"] == "code"]
    assert drawn == [1]
    page = run_dir / "report.html"
    first = page.read_bytes()
    assert first.count(b'id="fig-once"') == 1
    # Rendered again, by the command and from nothing: the same bytes.
    page.unlink()
    assert main(["report", str(run_dir)]) == 0
    assert page.read_bytes() == first
