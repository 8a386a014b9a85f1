"""Recipes: what is accepted, and what is said about what is not."""

from __future__ import annotations

import pytest

from birdlab.errors import ParameterError
from birdlab.recipe import Recipe, load_recipe, load_yaml_scalar, parse_range, parse_recipe

SMALL = {"name": "nest7", "data": {"media": [{"images": "*.jpg"}]}}


def test_every_default_is_written_out():
    full = parse_recipe(SMALL).model_dump(mode="json")
    assert full["scoring"]["conf"] == 0.25 and full["scoring"]["iou"] == 0.5 and full["scoring"]["engine"] == "hotcoco"
    assert full["data"]["media"][0]["chapters"] is True
    assert Recipe.model_validate(full) == parse_recipe(SMALL)


def test_all_problems_in_one_error_with_the_nearest_key():
    with pytest.raises(ParameterError) as caught:
        parse_recipe({**SMALL, "modles": [], "scoring": {"iou": 2, "cnof": 0.1}}, source="r.yaml")
    codes = {(p.code, p.key) for p in caught.value.problems}
    assert codes == {("unknown_key", "modles"), ("bad_value", "scoring.iou"), ("unknown_key", "scoring.cnof")}
    text = str(caught.value)
    assert "Did you mean models?" in text and "Did you mean conf?" in text and text.count("r.yaml") == 3


@pytest.mark.parametrize(
    "change",
    [
        {"name": "a/b"},
        {"data": {"media": []}},
        {"data": {"media": [{"images": "*.jpg", "videos": "*.mp4"}]}},
        {"data": {"media": [{"videos": "*.mp4", "stride": 5, "rate": 1}]}},
        {"data": {"media": [{"images": "*.jpg", "session": "(a)(b)"}]}},
        {"data": {"media": [{"videos": "*.mp4", "use": "07:00-00:00"}]}},
        {"models": [{"name": "a", "weights": "x.pt", "predictions": "y.json"}]},
        {"models": [{"name": "a"}]},
        {"models": [{"name": "a", "weights": "x"}, {"name": "a", "weights": "y"}]},
        {"notebooks": ["02_detection", {"02_detection": {}}]},
    ],
    ids=lambda c: str(c)[:60],
)
def test_refused(change):
    with pytest.raises(ParameterError):
        parse_recipe({**SMALL, **change})


@pytest.mark.parametrize(("value", "found"), [(None, "nothing under it"), ("bluebird", "'bluebird'")])
def test_a_heading_without_keys_is_said_in_words_of_a_recipe(value, found):
    with pytest.raises(ParameterError) as caught:
        parse_recipe({**SMALL, "difficulty": value})
    (problem,) = caught.value.problems
    assert (problem.key, problem.found) == ("difficulty", found)
    assert "a mapping with keys of factors, min_n" in problem.expected and "instance of" not in str(caught.value)


def test_notebooks_with_parameters_keep_their_order():
    recipe = parse_recipe(
        {**SMALL, "notebooks": ["00_data_audit.ipynb", {"02_detection": {"n_panels": 3}}, "10_summary"]}
    )
    assert recipe.steps() == [("00_data_audit", {}), ("02_detection", {"n_panels": 3}), ("10_summary", {})]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:00-07:00", (0, 420)),
        ("00:00–07:00", (0, 420)),
        ("1:00:30 - 1:01:00.5", (3630, 3660.5)),
        ("90:00-95:00", (5400, 5700)),
    ],
)
def test_ranges(text, seconds):
    assert parse_range(text) == seconds


@pytest.mark.parametrize("text", ["7:00", "a-b", "00:00-00:61", "-3:00-4:00"])
def test_bad_ranges(text):
    with pytest.raises(ValueError, match="range|ends"):
        parse_range(text)


def test_yaml_1_2_scalars():
    got = [
        load_yaml_scalar(t)
        for t in ("1e-5", "007", "0", "-12", "yes", "off", "True", "07:00", "1.", ".5", "2024-05-01", "~")
    ]
    assert got == [1e-5, "007", 0, -12, "yes", "off", True, "07:00", 1.0, 0.5, "2024-05-01", None]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, "no_recipe"),
        (b"\xff\xfe\x00", "unreadable"),
        (b"a: [1\nb: 2", "not_yaml"),
        (b"- 1", "not_a_recipe"),
        (b"", "not_a_recipe"),
        (b"name: a\nmodels: []\nmodels: []\n", "not_yaml"),
        (b"data: {root: a, root: b}\n", "not_yaml"),
        (b"[" * 5000, "not_yaml"),
        (b"seed: " + b"9" * 5000, "not_yaml"),
        (b'title: "a\0b"\n', "not_yaml"),
    ],
)
def test_files_that_are_no_recipe(tmp_path, content, code):
    path = tmp_path / "r.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ParameterError) as caught:
        load_recipe(path)
    assert caught.value.problems[0].code == code and str(path) in str(caught.value)


def test_a_python_object_tag_is_not_executed(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("name: !!python/object/apply:os.system ['touch " + str(tmp_path / "owned") + "']\n")
    with pytest.raises(ParameterError):
        load_recipe(path)
    assert not (tmp_path / "owned").exists()


def test_a_key_given_twice_names_itself_and_its_line(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("name: a\nscoring: {conf: 0.5}\nscoring: {iou: 0.5}\n")
    with pytest.raises(ParameterError, match="line 3: found the key scoring a second time; expected YAML"):
        load_recipe(path)
    path.write_text("x: &x {conf: 0.5}\nname: a\nscoring: {<<: *x, conf: 0.25}\n")
    with pytest.raises(ParameterError, match="x: found an unknown key"):
        load_recipe(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": [{"name": "..", "weights": "a.pt"}]}, "models.0.name: found '..'"),
        ({"models": [{"name": "a\nb", "weights": "a.pt"}]}, "models.0.name: found 'a.nb'"),
        ({"models": [{"name": " ", "weights": "a.pt"}]}, "models.0.name: found ' '"),
        ({"models": [{"name": "{model:a}", "weights": "a.pt"}]}, "models.0.name: found '.model:a.'"),
        (
            {"models": [{"name": "a", "weights": "a.pt"}] * 2},
            "r: found two models called a; expected a name of its own",
        ),
        ({"models": [{"name": "a"}]}, "models.0: found both or neither of weights and predictions; expected one of"),
        ({"notebooks": []}, "notebooks: found .*at least 1 item"),
        ({"scoring": {"splits": []}}, "scoring.splits: found .*at least 1 item"),
        ({"data": {"media": [{"images": "*"}], "categories": []}}, "data.categories: found .*at least 1 item"),
        ({"data": {"media": [{"images": "*", "session": "(a)(b)"}]}}, "with 2 groups; expected a pattern with one"),
        ({"seed": -1}, "seed: found -1; expected greater than or equal to 0"),
    ],
)
def test_what_would_fail_later_is_refused_here(change, message):
    raw = {"name": "r", "data": {"media": [{"images": "*"}]}} | change
    with pytest.raises(ParameterError, match=message):
        parse_recipe(raw, source="r")


@pytest.mark.parametrize("name", ["YOLO 26 (ours)", "a", "é", "<b>", "m.1", "a|b: c"])
def test_names_of_models_may_be_as_people_write_them(name):
    raw = {"name": "r", "data": {"media": [{"images": "*"}]}, "models": [{"name": name, "weights": "a.pt"}]}
    assert parse_recipe(raw).models[0].name == name


def test_a_folder_in_place_of_a_recipe_is_named_once(tmp_path):
    with pytest.raises(ParameterError) as caught:
        load_recipe(tmp_path)
    assert str(caught.value).count(str(tmp_path)) == 1 and "expected a recipe" in str(caught.value)
