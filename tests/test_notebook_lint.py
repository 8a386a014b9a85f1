"""Parameters of a notebook, and the rules that a chapter keeps."""

from __future__ import annotations

import datetime
import json
import math
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_notebooks import code, make, study, text, write

from birdlab.errors import NotebookError, ParameterError
from birdlab.report.notebook import check_notebook, find_notebook, fit_to_run, project_root, read_notebook
from birdlab.report.parameters import Parameter, bind, fit, from_text, parse_parameters, to_plain
from birdlab.report.plan import match, plan, with_keys


def parameters(source: str) -> list[Parameter]:
    return parse_parameters({"cells": [code(source, tags=["parameters"])]})


def problems(source: str) -> list[str]:
    with pytest.raises(NotebookError) as error:
        parameters(source)
    return [p.code for p in error.value.problems]


def p(declared: str, default: object = None) -> Parameter:
    return Parameter("x", declared, default, "", 1)


class TestParse:
    def test_names_types_defaults_comments(self):
        cell = 'recipe: str = "a.yaml"  # file\n# lowest score kept\nconf: float = 1\nnote: None | str = None\nn = 3  # panels\nbox = (1, 2)\n'
        assert [(q.name, q.type, q.default, q.comment, q.line) for q in parameters(cell)] == [
            ("recipe", "str", "a.yaml", "file", 1),
            ("conf", "float", 1.0, "lowest score kept", 3),
            ("note", "None | str", None, "", 4),
            ("n", "int", 3, "panels", 5),
            ("box", "list", [1, 2], "", 6),
        ]

    def test_a_derived_value_is_refused(self):
        with pytest.raises(NotebookError) as error:
            parameters('root = "a"\nout = root + "/x"')
        (problem,) = error.value.problems
        assert (problem.code, problem.key, problem.line) == ("not_literal", "out", 2)
        assert "next cell" in problem.remedy

    @pytest.mark.parametrize(
        ("source", "codes"),
        [
            ("import os\nx = 1", ["not_a_parameter"]),
            ("x = 1\nx = 2", ["set_twice"]),
            ("x: int = 'a'", ["bad_default"]),
            ("x: Tensor = 1", ["bad_default"]),
            ("x = {1, 2}\ny = b'a'\nz = f'{x}'", ["not_literal", "not_literal", "not_literal"]),
            ("x: int", ["not_a_parameter"]),
            ("a = b = 1", ["not_a_parameter"]),
            ("x = (", ["syntax_error"]),
        ],
    )
    def test_what_is_not_a_parameter(self, source, codes):
        assert problems(source) == codes

    def test_exactly_one_cell(self):
        with pytest.raises(NotebookError, match="no code cell tagged parameters"):
            parse_parameters({"cells": [code("x = 1")]})
        with pytest.raises(NotebookError, match="cell 1, cell 2"):
            parse_parameters({"cells": [code("x = 1", tags=["parameters"])] * 2})


class TestBind:
    def test_values_become_json_types(self):
        given_values = {
            "path": PurePosixPath("a/b"),
            "day": datetime.date(2026, 5, 1),
            "when": datetime.datetime(2026, 5, 1, 7, 30),
            "pair": (1, 2),
            "n": np.int64(3),
            "conf": np.float32(0.5),
            "flag": np.bool_(True),
        }
        declared = [Parameter(name, "Any", None, "", 1) for name in given_values]
        bound = bind(declared, given_values)
        assert bound == {
            "path": "a/b",
            "day": "2026-05-01",
            "when": "2026-05-01T07:30:00",
            "pair": [1, 2],
            "n": 3,
            "conf": 0.5,
            "flag": True,
        }
        assert [type(v) for v in bound.values()] == [str, str, str, list, int, float, bool]

    @pytest.mark.parametrize("value", [{1, 2}, b"x", np.zeros(3), object(), {1: "x"}])
    def test_the_rest_is_refused_by_name(self, value):
        with pytest.raises(ParameterError) as error:
            bind([p("Any")], {"x": value})
        assert error.value.problems[0].key == "x"

    def test_unknown_name_with_the_nearest(self):
        with pytest.raises(ParameterError) as error:
            bind(
                [Parameter("model", "str", "yolov8", "", 1), Parameter("conf", "float", 0.2, "", 1)],
                {"modle": "rtdetr"},
            )
        (problem,) = error.value.problems
        assert (problem.code, problem.expected, problem.remedy) == (
            "unknown_parameter",
            "one of model, conf",
            "did you mean model?",
        )

    @pytest.mark.parametrize(
        ("declared", "value", "result"),
        [
            ("float", 1, 1.0),
            ("float", math.inf, math.inf),
            ("int | None", None, None),
            ("Optional[int]", 4, 4),
            ("typing.Optional[int]", None, None),
            ("list[float]", [1, 2.5], [1.0, 2.5]),
            ("dict[str, int]", {"a": 1}, {"a": 1}),
            ("Literal['a', 'b']", "b", "b"),
            ("'None | str'", None, None),
            ("Path", "a/b", "a/b"),
            ("tuple[int, ...]", [1, 2], [1, 2]),
        ],
    )
    def test_types_that_fit(self, declared, value, result):
        assert fit(value, declared) == result

    @pytest.mark.parametrize(
        ("declared", "value"),
        [
            ("int", 1.5),
            ("int", True),
            ("float", True),
            ("float", "1"),
            ("str", None),
            ("bool", 1),
            ("list[int]", ["a"]),
            ("Literal['a']", "b"),
        ],
    )
    def test_types_that_do_not(self, declared, value):
        with pytest.raises(ValueError, match=r"\("):
            fit(value, declared)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda c: st.lists(c) | st.dictionaries(st.text(), c),
        )
    )
    def test_json_types_pass_unchanged(self, value):
        assert json.dumps(to_plain(value)) == json.dumps(value)


class TestText:
    @pytest.mark.parametrize(
        ("declared", "typed", "value"),
        [
            ("bool", "false", False),
            ("bool", "True", True),
            ("float", "1e-5", 1e-5),
            ("float", "3", 3.0),
            ("str", "007", "007"),
            ("str", "1e-5", "1e-5"),
            ("str", "", ""),
            ("str", '"null"', "null"),
            ("str", "a=b", "a=b"),
            ("int", "-7", -7),
            ("None | str", "null", None),
            ("None | str", "no", "no"),
            ("None | float", "~", None),
            ("int | str", "12", 12),
            ("int | str", "12a", "12a"),
            ("list[int]", "[1, 2]", [1, 2]),
            ("dict[str, float]", "{a: 1}", {"a": 1.0}),
            ("Path", "C:\\new\\table", "C:\\new\\table"),
            ("Literal['a', 'b']", "a", "a"),
        ],
    )
    def test_read_by_the_declared_type(self, declared, typed, value):
        read = from_text(p(declared), typed)
        assert (read, type(read)) == (value, type(value))

    @pytest.mark.parametrize(
        ("declared", "typed"),
        [
            ("bool", "no"),
            ("bool", "0"),
            ("int", "007"),
            ("int", "1.5"),
            ("int", ""),
            ("float", "null"),
            ("str", "null"),
            ("int", "[1"),
            ("list[int]", "1"),
        ],
    )
    def test_anything_else_is_an_error(self, declared, typed):
        with pytest.raises(ValueError, match="."):
            from_text(p(declared), typed)


def codes(path: Path) -> list[str]:
    return [problem.code for problem in check_notebook(path)]


class TestLint:
    def test_a_good_chapter(self, tmp_path):
        cells = [
            'run.show_table(run.table("frames"), id="tab-a", caption="C")',
            'run.show_figure(bl, run, id="fig-a", alt="A", caption="P/R/F1")',
        ]
        path = make(tmp_path / "02_detection.ipynb", *cells, parameters="conf: float = 0.25  # kept from")
        assert check_notebook(path) == []

    @pytest.mark.parametrize(
        ("cell", "code_"),
        [
            ("def f():\n    pass", "definition"),
            ("class A:\n    pass", "definition"),
            ("for x in run.table('frames'):\n    print(x)", "loop"),
            ("while True:\n    pass", "loop"),
            ("pl.read_csv('../data/x.csv')", "path"),
            ("pl.read_csv('x.csv')", "path"),
            ("open('/data/x')", "path"),
            ("!ls", "magic"),
            ("%matplotlib inline", "magic"),
            ("x = !ls", "magic"),
            ("x = (", "syntax_error"),
            ("\n".join(["1"] * 9), "long_cell"),
            ("run.show_table(t, caption='C')", "no_id"),
            ("run.show_table(t, id='tab-a')\nrun.show_table(t, id='tab-a')", "id_twice"),
            ("run.show_figure(d, t, id='fig-a')", "no_alt"),
            ("run.show_gallery(d, id='gal-a', alt=' ')", "no_alt"),
        ],
    )
    def test_one_thing_wrong_in_a_cell(self, tmp_path, cell, code_):
        (problem,) = check_notebook(make(tmp_path / "02_x.ipynb", cell))
        assert (problem.code, problem.record, problem.file) == (code_, "cell 4", str(tmp_path / "02_x.ipynb"))

    def test_text_that_only_looks_like_a_path(self, tmp_path):
        path = make(
            tmp_path / "02_x.ipynb",
            'run.note("Hits / misses per km/h, e.g. frames/min; see [[tab-a]].")',
            'x = "frames/min"',
        )
        assert check_notebook(path) == []

    def test_too_many_cells(self, tmp_path):
        assert codes(make(tmp_path / "a.ipynb", *["1"] * 13)) == ["too_many_cells"]
        assert codes(make(tmp_path / "a.ipynb", *["1"] * 12)) == []

    def test_frame(self, tmp_path):
        cells = [text("Just text"), code("x = 1  # one", tags=["parameters"]), text("### Deep"), code("1")]
        path = write(tmp_path / "a.ipynb", cells, kernel="birdlab-gpu")
        assert sorted(codes(path)) == sorted(
            ["no_run_parameters", "no_title", "heading_level", "no_limits", "no_start", "no_finish", "kernelspec"]
        )

    def test_own_name(self, tmp_path):
        path = make(tmp_path / "02_detection.ipynb")
        other = path.rename(tmp_path / "03_copy.ipynb")
        (problem,) = check_notebook(other)
        assert (problem.code, problem.expected) == ("wrong_name", 'notebook="03_copy", the file\'s name')

    def test_comments_and_order_of_parameters(self, tmp_path):
        assert codes(make(tmp_path / "a.ipynb", parameters="conf = 0.25")) == ["no_comment"]

    def test_stored_outputs_and_skipped_cells(self, tmp_path):
        path = make(tmp_path / "a.ipynb", "1")
        nb = json.loads(path.read_text())
        nb["cells"][3].update(execution_count=1, metadata={"tags": ["skip-execution"]})
        path.write_text(json.dumps(nb))
        assert codes(path) == ["skipped_cell", "stored_output"]

    def test_two_titles_and_code_fences(self, tmp_path):
        path = make(tmp_path / "a.ipynb")
        nb = json.loads(path.read_text())
        nb["cells"].insert(3, text("# Another title\n\n```\n# a comment\n```") | {"id": "z"})
        path.write_text(json.dumps(nb))
        assert codes(path) == ["heading_level"]

    @pytest.mark.parametrize(
        ("content", "code_"),
        [
            ("", "not_a_notebook"),
            ('{"cells": [1]}', "not_a_notebook"),
            ('{"nbformat": 3, "cells": []}', "not_a_notebook"),
            ("[]", "not_a_notebook"),
        ],
    )
    def test_files_that_are_no_notebooks(self, tmp_path, content, code_):
        path = tmp_path / "a.ipynb"
        path.write_text(content)
        assert codes(path) == [code_]
        assert codes(tmp_path / "absent.ipynb") == ["no_notebook"]

    def test_fit_to_run_refuses_only_what_would_mislead(self, tmp_path):
        _, style = fit_to_run(make(tmp_path / "a.ipynb", "for x in []:\n    pass"))
        assert [q.code for q in style] == ["loop"]
        with pytest.raises(NotebookError):
            fit_to_run(make(tmp_path / "b.ipynb", parameters="y: str = recipe + 'a'  # derived"))


class TestPlan:
    def names(self, tmp_path, *names, **options):
        for name in names:
            make(
                tmp_path / "notebooks" / f"{name}.ipynb",
                parameters="conf: float = 0.25  # kept from" if "2" in name else "",
            )
        recipe = study(tmp_path, *names)
        return plan(self.load(recipe), recipe, **options)

    def load(self, recipe):
        from birdlab.recipe import load_recipe

        return load_recipe(recipe)

    def test_what_waits_for_what(self, tmp_path):
        steps = self.names(tmp_path, "00_a", "01_b", "02_c", "03_d", "own", "10_summary")
        assert {s.name: s.needs for s in steps} == {
            "00_a": (),
            "01_b": ("00_a",),
            "02_c": ("00_a", "01_b"),
            "03_d": ("00_a", "01_b"),
            "own": ("00_a", "01_b", "02_c", "03_d"),
            "10_summary": ("00_a", "01_b", "02_c", "03_d", "own"),
        }

    def test_assignments(self, tmp_path):
        steps = self.names(tmp_path, "00_a", "02_c", assignments=["conf=1e-1"])
        assert [s.parameters for s in steps] == [{}, {"conf": 0.1}]
        assert self.names(tmp_path, "00_a", "02_c", assignments=["02.conf=1", "2.conf=0.3"])[1].given == {"conf": 0.3}

    @pytest.mark.parametrize(
        ("assignment", "code_", "remedy"),
        [
            ("cnof=1", "unknown_parameter", "did you mean conf?"),
            ("00_a.conf=1", "unknown_parameter", ""),
            ("03.conf=1", "unknown_notebook", ""),
            ("02_x.conf=1", "unknown_notebook", "did you mean 02_c?"),
            ("conf", "bad_assignment", ""),
            ("conf=high", "bad_parameter", ""),
            ("recipe=b.yaml", "reserved", "the recipe is given first, the folder with --out"),
        ],
    )
    def test_bad_assignments(self, tmp_path, assignment, code_, remedy):
        with pytest.raises(ParameterError) as error:
            self.names(tmp_path, "00_a", "02_c", assignments=[assignment])
        (problem,) = error.value.problems
        assert (problem.code, problem.remedy) == (code_, remedy)

    def test_parameters_of_the_recipe_and_all_problems_at_once(self, tmp_path):
        make(tmp_path / "notebooks" / "02_c.ipynb", parameters="conf: float = 0.25  # kept from")
        recipe = study(tmp_path, {"02_c": {"conf": "high", "n": 1, "run_dir": "x"}}, "03_absent")
        with pytest.raises(ParameterError) as error:
            plan(self.load(recipe), recipe)
        assert [(q.code, q.key) for q in error.value.problems] == [
            ("bad_parameter", "conf"),
            ("unknown_parameter", "n"),
            ("unknown_parameter", "run_dir"),
            ("no_notebook", "notebooks"),
        ]

    def test_only(self, tmp_path):
        steps = self.names(tmp_path, "00_a", "02_c", "03_d", only="2, 03_d")
        assert [s.selected for s in steps] == [False, True, True]
        with pytest.raises(ParameterError, match="one of 00_a, 02_c, 03_d"):
            self.names(tmp_path, "00_a", "02_c", "03_d", only="02,07")
        assert match("7", ["07_x"]) == "07_x"
        assert match("0_a", ["00_a"]) is None

    def test_keys_change_with_what_matters(self, tmp_path):
        def keys(inputs="i", package="p", **options):
            steps = self.names(tmp_path, "00_a", "02_c", **options)
            recipe = tmp_path / "reports" / "study.yaml"
            return [s.key for s in with_keys(steps, self.load(recipe), inputs=inputs, package=package)]

        first = keys()
        assert keys() == first
        assert keys(assignments=["conf=0.5"])[0] == first[0]
        assert keys(assignments=["conf=0.5"])[1] != first[1]
        for changed in (keys(inputs="j"), keys(package="q")):
            assert all(a != b for a, b in zip(changed, first, strict=True))

    def test_a_changed_text_concerns_its_own_chapter_only(self, tmp_path):
        steps = self.names(tmp_path, "00_a", "02_c")
        recipe = self.load(tmp_path / "reports" / "study.yaml")
        before = with_keys(steps, recipe, inputs="i", package="p")
        path = tmp_path / "notebooks" / "00_a.ipynb"
        path.write_text(path.read_text().replace("What it asks", "What it wonders"))
        after = with_keys(steps, recipe, inputs="i", package="p")
        assert [a.key == b.key for a, b in zip(after, before, strict=True)] == [False, True]
        path.write_text(path.read_text().replace("run.finish()", "run.finish() or 1"))
        again = with_keys(steps, recipe, inputs="i", package="p")
        assert [a.key == b.key for a, b in zip(again, before, strict=True)] == [False, False]

    def test_where_notebooks_are_found(self, tmp_path):
        inside = make(tmp_path / "notebooks" / "02_c.ipynb")
        beside = make(tmp_path / "reports" / "own.ipynb")
        deep = make(tmp_path / "reports" / "more" / "x.ipynb")
        recipe = study(tmp_path, "02_c")
        assert project_root(recipe) == tmp_path.resolve()
        found = [find_notebook(step, recipe) for step in ("02_c", "own", "more/x", "../notebooks/02_c")]
        assert found == [inside.resolve(), beside.resolve(), deep.resolve(), inside.resolve()]
        with pytest.raises(ParameterError, match="02_c"):
            find_notebook("02_d", recipe)


def test_the_projects_own_notebooks_keep_the_rules(project):
    paths = sorted((project / "notebooks").glob("*.ipynb"))
    assert {str(p): [str(q) for q in check_notebook(p)] for p in paths} == {str(p): [] for p in paths}


def test_sources_may_be_lists_of_lines(tmp_path):
    path = make(tmp_path / "a.ipynb")
    nb = json.loads(path.read_text())
    for cell in nb["cells"]:
        cell["source"] = cell["source"].splitlines(keepends=True)
    path.write_text(json.dumps(nb))
    assert check_notebook(path) == []
    assert read_notebook(path)["cells"][-1]["source"] == "run.finish()"
