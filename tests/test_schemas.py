"""Table contracts: conforming, refusing, naming the row."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from birdlab import schemas
from birdlab.errors import DataError

LABEL = {
    "label_id": "1",
    "frame_id": "a",
    "category": "bird",
    "x": 1,
    "y": 2,
    "w": 3,
    "h": 4,
    "is_crowd": False,
    "is_ignored": False,
}


def test_missing_nullable_columns_are_added_and_integers_become_floats():
    out = schemas.validate("labels", pl.DataFrame([LABEL]))
    assert out["x"].dtype == pl.Float64 and out["mask_rle"].to_list() == [None]
    assert out.columns == list(schemas.TABLES["labels"].dtypes)


@pytest.mark.parametrize(
    ("rows", "code", "key"),
    [
        ([{k: v for k, v in LABEL.items() if k != "w"}], "missing_column", "w"),
        ([LABEL, LABEL], "duplicate_key", "label_id"),
        ([LABEL, {**LABEL, "label_id": "2", "x": None}], "null", "x"),
        ([{**LABEL, "x": float("nan")}], "nan", "x"),
        ([{**LABEL, "x": "left"}], "wrong_type", None),
    ],
)
def test_refused_with_the_place(rows, code, key):
    with pytest.raises(DataError) as caught:
        schemas.validate("labels", pl.DataFrame(rows), source="labels.json")
    problem = caught.value.problems[0]
    assert (problem.code, problem.key) == (code, key) and problem.file == "labels.json"


def test_the_row_is_named():
    with pytest.raises(DataError, match="row 1, x: found null in 1 of 2 rows"):
        schemas.validate("labels", pl.DataFrame([LABEL, {**LABEL, "label_id": "2", "x": None}]))


def test_a_wrong_enum_value_is_refused():
    frame = pl.DataFrame(
        [{"frame_id": "a", "media_id": "a", "video_id": "v", "frame_index": 0, "split": "tset", "label_state": "empty"}]
    )
    with pytest.raises(DataError, match="tset"):
        schemas.validate("frames", frame)


@given(st.sampled_from(sorted(schemas.TABLES)))
def test_empty_tables_are_valid(name):
    assert schemas.validate(name, schemas.empty(name)).equals(schemas.empty(name))


def test_documentation_names_every_column():
    text = schemas.documentation()
    assert all(f"| {c.name} |" in text for t in schemas.TABLES.values() for c in t.columns)
