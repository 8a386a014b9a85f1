"""Readers of items and scores: every format says the same, ids meet by name, and what is wrong is told in full."""

from __future__ import annotations

import csv
import datetime
import json
import pickle
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from birdlab.errors import DataError, ParameterError
from birdlab.readers.items import ITEM_SCHEMA, read_items
from birdlab.readers.scores import align, read_scores
from birdlab.readers.scores_answers import AnswerScores
from birdlab.readers.scores_topk import TopKScores
from birdlab.readers.scores_wide import WideScores

SPECIES = ("Turdus merula", "Turdus pilaris", "Parus major", "Astur cooperii", "Empidonax alnorum", "Empidonax minimus")


class Names:
    """A taxonomy of six species, one synonym, one common name and one split."""

    genus_of = {name: name.split()[0] for name in SPECIES}

    def resolve(self, names):
        others = {
            "Accipiter cooperii": ("Astur cooperii", "species", "synonym", []),
            "Common Blackbird": ("Turdus merula", "species", "common", []),
            "Larus argentatus": (None, None, "synonym", ["Larus smithsonianus", "Larus vegae"]),
        }
        genera = {name.split()[0] for name in SPECIES}
        rows = []
        for name in names:
            found = (
                (name, "species", "exact", [])
                if name in SPECIES
                else (name, "genus", "genus", [])
                if name in genera
                else others.get(name, (None, None, "none", []))
            )
            rows.append((name, *found, None))
        schema = {
            "name": pl.String,
            "taxon_id": pl.String,
            "rank": pl.String,
            "how": pl.String,
            "candidates": pl.List(pl.String),
            "flag": pl.String,
        }
        return pl.DataFrame(rows, schema=schema, orient="row")


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def codes(excinfo) -> list[str]:
    return [problem.code for problem in excinfo.value.problems]


def refused(path, **options):
    with pytest.raises(DataError) as excinfo:
        read_scores(path, model="m", **options)
    return excinfo.value.problems


# Items

ITEMS = """item_id,image,genus,species,is_answerable,reasons,candidates,observation_id,observer_id,date
a,p/a.jpg,Turdus,Turdus merula,1,,Turdus merula|Turdus pilaris,7,u1,2024-05-31
b,p/b.jpg,Empidonax,,0,vocalization|quality,Empidonax alnorum;Empidonax minimus,8,u1,2024-06-01
c,p/c.jpg,Parus,Parus major,1,,,9,u2,
"""
ROWS = [
    ("a", "p/a.jpg", "Turdus", "Turdus merula", True, [], ["Turdus merula", "Turdus pilaris"], "7", "u1"),
    (
        "b",
        "p/b.jpg",
        "Empidonax",
        None,
        False,
        ["vocalization", "quality"],
        ["Empidonax alnorum", "Empidonax minimus"],
        "8",
        "u1",
    ),
    ("c", "p/c.jpg", "Parus", "Parus major", True, [], None, "9", "u2"),
]
DATES = [datetime.date(2024, 5, 31), datetime.date(2024, 6, 1), None]


def test_items_as_the_contract_says(tmp_path):
    items, notices = read_items(write(tmp_path / "items.csv", ITEMS), Names())
    assert dict(items.schema) == ITEM_SCHEMA
    assert items.drop("date", "source").rows() == ROWS
    assert items["date"].to_list() == DATES
    assert notices == []


@pytest.mark.parametrize("kind", ["tsv", "semicolon", "bom", "parquet", "feather", "jsonl", "typed"])
def test_items_are_the_same_in_every_format(tmp_path, kind):
    expected, _ = read_items(write(tmp_path / "items.csv", ITEMS), Names())
    text = pl.read_csv(tmp_path / "items.csv", infer_schema=False)
    path = tmp_path / f"other.{ {'semicolon': 'csv', 'bom': 'csv', 'typed': 'parquet'}.get(kind, kind) }"
    if kind == "tsv":
        text.write_csv(path, separator="\t")
    elif kind == "semicolon":
        text.write_csv(path, separator=";")
    elif kind == "bom":
        path.write_bytes(b"\xef\xbb\xbf" + ITEMS.replace("\n", "\r\n").encode())
    elif kind == "parquet":
        text.write_parquet(path)
    elif kind == "feather":
        text.write_ipc(path)
    elif kind == "jsonl":
        rows = [{name: value for name, value in row.items() if value is not None} for row in text.to_dicts()]
        rows[0] |= {"is_answerable": True, "observation_id": 7, "candidates": ["Turdus merula", "Turdus pilaris"]}
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    else:  # lists, booleans, dates and numbers as themselves; ids widened to floats as pandas does
        expected.with_columns(pl.col("observation_id").cast(pl.Float64)).write_parquet(path)
    items, _ = read_items(path, Names())
    assert items.equals(expected)


def test_spellings_of_columns_and_values(tmp_path):
    text = """ID,Genus,Species,Answerable,Reason,Observed On
a,Turdus,turdus_merula (Common Blackbird),Yes,n/a,2024-05-31T06:10:00
b,Empidonax,,no,Song;poor quality,
c,Parus,,FALSE,occlusion|angle/occlusion,
"""
    items, _ = read_items(write(tmp_path / "i.csv", text))
    assert items["species"].to_list() == ["Turdus merula", None, None]
    assert items["is_answerable"].to_list() == [True, False, False]
    assert items["reasons"].to_list() == [[], ["vocalization", "quality"], ["angle"]]
    assert items["date"].to_list() == [datetime.date(2024, 5, 31), None, None]


def test_an_image_names_the_item_where_there_is_no_id(tmp_path):
    path = write(tmp_path / "i.csv", "image,species,answerable\nx/1.jpg,Parus major,1\n")
    items, _ = read_items(path)
    assert items.row(0)[:4] == ("x/1.jpg", "x/1.jpg", "Parus", "Parus major")


def test_synonyms_are_followed_and_counted(tmp_path):
    text = """item_id,genus,species,is_answerable
a,Accipiter,Accipiter cooperii,1
b,Astur,Accipiter cooperii,1
c,,Common Blackbird,1
d,Turdus,,0
"""
    items, notices = read_items(write(tmp_path / "i.csv", text), Names())
    assert items["species"].to_list() == ["Astur cooperii", "Astur cooperii", "Turdus merula", None]
    assert items["genus"].to_list() == ["Astur", "Astur", "Turdus", "Turdus"]
    counted = {notice.code: notice.n for notice in notices}
    assert counted == {"genus_from_species": 1, "no_reason": 1, "species_by_common": 1, "species_by_synonym": 2}


def test_a_genus_that_is_an_english_name_too_and_a_split_name(tmp_path):
    class Anhingas(Names):
        genus_of = {**Names.genus_of, "Anhinga anhinga": "Anhinga"}

        def resolve(self, names):
            frame = super().resolve(names)
            is_bird = pl.col("name").is_in(["Anhinga", "Anhinga anhinga"])
            return frame.with_columns(
                taxon_id=pl.when(is_bird).then(pl.lit("Anhinga anhinga")).otherwise("taxon_id"),
                rank=pl.when(is_bird).then(pl.lit("species")).otherwise("rank"),
                flag=pl.when(pl.col("name") == "Parus major").then(pl.lit("split")).otherwise("flag"),
            )

    text = "item_id,genus,species,is_answerable,reasons\na,Anhinga,Anhinga anhinga,1,\nb,Parus,Parus major,1,\nc,Parus,,0,angle\n"
    items, notices = read_items(write(tmp_path / "i.csv", text), Anhingas())
    assert items["genus"].to_list() == ["Anhinga", "Parus", "Parus"]
    assert {n.code: n.n for n in notices}["split_name"] == 1


def test_candidates_unknown_ones_are_dropped_and_counted(tmp_path):
    text = """item_id,genus,species,is_answerable,reasons,candidates
a,Turdus,Turdus merula,1,,Turdus pilaris|Passer ignotus|Turdus pilaris
b,Parus,,0,angle,Passer ignotus|Turdus
"""
    items, notices = read_items(write(tmp_path / "i.csv", text), Names())
    assert items["candidates"].to_list() == [["Turdus pilaris"], None]
    assert {n.code: n.n for n in notices} == {
        "unknown_candidate": 3,
        "list_without_species": 1,
        "species_not_in_list": 1,
    }


def test_every_problem_of_an_items_file_at_once(tmp_path):
    text = """item_id,genus,species,is_answerable,reasons,date
a,Turdus,Parus major,1,,2024-05-31
b,Empidonax,,perhaps,,

b,Parus,,1,,31.5.2024
c,Parus,Parus major,0,angle,
d,Larus,Larus argentatus,1,,
e,Turdus,Turdus,1,,
,Turdus,,0,weather,
g,,,0,quality,
h,Turdus,Turdus merula,1,quality,
"""
    with pytest.raises(DataError) as excinfo:
        read_items(write(tmp_path / "i.csv", text), Names(), source="items.csv")
    told = {(p.line, p.key, p.code) for p in excinfo.value.problems}
    assert told == {
        (2, "genus", "species_outside_genus"),
        (3, "is_answerable", "not_binary"),
        (5, "item_id", "duplicate_item"),
        (5, "species", "no_species"),
        (5, "date", "bad_date"),
        (6, "species", "species_for_unanswerable"),
        (7, "species", "unknown_species"),
        (7, "genus", "unknown_genus"),
        (8, "species", "unknown_species"),
        (9, "item_id", "empty_value"),
        (9, "reasons", "unknown_reason"),
        (10, "genus", "no_genus"),
        (11, "reasons", "reason_for_answerable"),
    }
    assert all(p.file == "items.csv" for p in excinfo.value.problems)
    split = next(p for p in excinfo.value.problems if p.line == 7 and p.key == "species")
    assert "Larus smithsonianus, Larus vegae" in split.remedy


def test_many_problems_are_counted(tmp_path):
    rows = "\n".join(f"{i},Turdus,,1" for i in range(50))
    with pytest.raises(DataError) as excinfo:
        read_items(write(tmp_path / "i.csv", "item_id,genus,species,is_answerable\n" + rows))
    assert len(excinfo.value.problems) == 21
    assert excinfo.value.problems[-1].found == "30 more problems, 50 in all"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty_file"),
        (b"\xef\xbb\xbf\n", "empty_file"),
        (b"item_id,genus,species,is_answerable\n", "empty_file"),
        (ITEMS.encode("utf-16"), "refused_format"),
        (ITEMS.encode("utf-16-le"), "not_text"),
        (ITEMS.replace("u2", "Mirló").encode("latin-1"), "not_utf8"),
        (b"item_id,genus,species,is_answerable\na,b\nc,Turdus,,0,x\n", "wrong_fields"),
        (b"item_id,genus\na,Turdus\n", "missing_column"),
        (b"item_id,item_id,genus,is_answerable\na,a,Turdus,0\n", "duplicate_column"),
        (b"ID,id,genus,is_answerable\na,a,Turdus,0\n", "duplicate_column"),
        (b"PK\x03\x04rest", "refused_format"),
        (pickle.dumps({"a": 1}), "refused_format"),
        (b"PAR1 cut short", "damaged_file"),
    ],
)
def test_hostile_items_files(tmp_path, content, code):
    path = tmp_path / "items.csv"
    path.write_bytes(content)
    with pytest.raises(DataError) as excinfo:
        read_items(path, Names())
    assert set(codes(excinfo)) == {code}
    assert excinfo.value.exit_code == 3


def test_ragged_lines_and_the_line_of_a_bad_byte_are_named(tmp_path):
    with pytest.raises(DataError) as excinfo:
        read_items(write(tmp_path / "i.csv", 'item_id,genus,is_answerable\n"a\nb",Turdus,0\nc\n\nd,e,f,g\n'))
    assert [(p.line, p.found) for p in excinfo.value.problems] == [(4, "1 fields"), (6, "4 fields")]
    path = tmp_path / "j.csv"
    path.write_bytes(b"item_id,genus,is_answerable\na,Turdus,0\nb,T\xfcr,0\n")
    with pytest.raises(DataError) as excinfo:
        read_items(path)
    assert excinfo.value.problems[0].line == 3


def test_json_lines_that_are_none(tmp_path):
    path = write(tmp_path / "i.jsonl", '{"id": 1\n[1]\n' + "[" * 100_000 + "\n")
    with pytest.raises(DataError) as excinfo:
        read_items(path)
    assert codes(excinfo) == ["not_json", "not_an_object", "not_json"]


# Wide scores


def matrix(dtype, n=23, seed=0) -> np.ndarray:
    values = np.random.default_rng(seed).dirichlet(np.ones(len(SPECIES)), n)
    return values.astype(dtype)


def ids_of(n: int) -> list[str]:
    return [f"photo_{i:03d}.jpg" for i in range(n)]


def write_npy(path: Path, values: np.ndarray, ids=None, labels=SPECIES) -> Path:
    np.save(path, values)
    write(path.with_name(f"{path.stem}.ids.txt"), "\n".join(ids or ids_of(len(values))) + "\n")
    write(path.with_name(f"{path.stem}.labels.txt"), "\n".join(labels) + "\n\n")
    return path


def arrow_table(values: np.ndarray, ids=None, labels=SPECIES, id_name="item_id") -> pa.Table:
    columns = {id_name: pa.array(ids or ids_of(len(values)))}
    return pa.table(columns | {label: pa.array(values[:, j]) for j, label in enumerate(labels)})


def whole(scores: WideScores, rows=None, size=7) -> tuple[np.ndarray, np.ndarray]:
    chunks = list(scores.chunks(rows, size))
    assert all(len(positions) == len(values) <= size for positions, values in chunks)
    return np.concatenate([c[0] for c in chunks]), np.concatenate([c[1] for c in chunks])


def in_every_format(folder: Path, values: np.ndarray) -> dict[str, Path | list[Path]]:
    table = arrow_table(values)
    paths: dict[str, Path | list[Path]] = {"npy": write_npy(folder / "m.npy", values)}
    write_npy(folder / "f.npy", np.asfortranarray(values))
    paths["fortran"] = folder / "f.npy"
    write_npy(folder / "e.npy", values.astype(values.dtype.newbyteorder(">")))
    paths["big endian"] = folder / "e.npy"
    pq.write_table(table, folder / "m.parquet", row_group_size=5)
    paths["parquet"] = folder / "m.parquet"
    for name, compression, size in (("m.feather", "lz4", 6), ("m.arrow", "uncompressed", 100)):
        feather.write_feather(table, folder / name, compression=compression, chunksize=size)
        paths[name] = folder / name
    with (folder / "m.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", *SPECIES])
        writer.writerows(
            [name, *map(repr, map(float, row))] for name, row in zip(ids_of(len(values)), values, strict=True)
        )
    paths["csv"] = folder / "m.csv"
    parts = folder / "parts"
    parts.mkdir()
    for i, start in enumerate(range(0, len(values), 9)):
        part = table.slice(start, 9)
        # The second part has its columns in another order.
        part = part.select([part.column_names[0], *part.column_names[:0:-1]]) if i == 1 else part
        pq.write_table(part, parts / f"part-{i}.parquet")
    paths["parts"] = sorted(parts.iterdir())
    paths["folder"] = parts
    return paths


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_format_holds_the_same_matrix(tmp_path, dtype):
    values = matrix(dtype)
    for name, path in in_every_format(tmp_path, values).items():
        (scores,) = read_scores(path, model="m")
        assert isinstance(scores, WideScores)
        assert (scores.model, scores.n_items, scores.n_labels) == ("m", 23, 6), name
        assert scores.item_ids == tuple(ids_of(23)), name
        assert scores.labels == SPECIES, name
        assert scores.dtype == ("float64" if name == "csv" else dtype), name
        positions, found = whole(scores)
        assert found.dtype == (np.float64 if scores.dtype == "float64" else np.float32), name
        assert positions.tolist() == list(range(23)), name
        assert np.array_equal(found, values.astype(found.dtype)), name


@pytest.mark.parametrize("rows", [[22, 0, 4, 5], [], [11], [3, 3, 2]])
@pytest.mark.parametrize("size", [1, 4, 256])
def test_some_rows_of_every_format(tmp_path, rows, size):
    values = matrix("float32")
    for name, path in in_every_format(tmp_path, values).items():
        chunks = list(read_scores(path, model="m")[0].chunks(np.array(rows, dtype=int), size))
        positions = [int(p) for c in chunks for p in c[0]]
        assert positions == sorted(set(rows)), name
        assert all(np.array_equal(c[1], values[c[0]].astype(c[1].dtype)) for c in chunks), name


def test_chunks_are_read_only_and_stay_inside(tmp_path):
    for path in in_every_format(tmp_path, matrix("float64")).values():
        (scores,) = read_scores(path, model="m")
        for _, values in scores.chunks():
            with pytest.raises(ValueError, match="read-only"):
                values[0, 0] = 1
        with pytest.raises(IndexError):
            next(scores.chunks(np.array([23])))


@pytest.mark.parametrize("write_part", [pq.write_table, feather.write_feather])
def test_empty_parts_and_columns_of_several_widths(tmp_path, write_part):
    kinds = ["float32", "float64", "float32", "float32", "float64", "float32"]
    values = matrix("float32", n=4)
    ids = pa.array(ids_of(4))
    columns = {label: pa.array(values[:, j].astype(kinds[j])) for j, label in enumerate(SPECIES)}
    table = pa.table({"item_id": ids} | columns)
    write_part(table.slice(0, 0), tmp_path / "a.parquet")
    write_part(table, tmp_path / "b.parquet")
    (scores,) = read_scores([tmp_path / "a.parquet", tmp_path / "b.parquet"], model="m")
    assert scores.dtype == "float64"
    assert np.array_equal(whole(scores)[1], values.astype(float))
    assert refused(tmp_path / "a.parquet", kind="wide")[0].code == "empty_file"


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_order_of_rows_and_columns_does_not_matter(tmp_path, seed):
    rng = np.random.default_rng(seed)
    values = matrix("float32", n=11, seed=1)
    rows, columns = rng.permutation(11), rng.permutation(6)
    ids, labels = [ids_of(11)[i] for i in rows], [SPECIES[j] for j in columns]
    shuffled = values[np.ix_(rows, columns)]
    items = pl.DataFrame({"item_id": ids_of(11)})
    write_npy(tmp_path / "s.npy", shuffled, ids, labels)
    pq.write_table(arrow_table(shuffled, ids, labels), tmp_path / "s.parquet", row_group_size=4)
    for path in (tmp_path / "s.npy", tmp_path / "s.parquet"):
        (scores,) = read_scores(path, model="m")
        found = align(scores, items)
        _, read = whole(scores)
        aligned = read[found.rows][:, [scores.labels.index(name) for name in SPECIES]]
        assert np.array_equal(aligned, values)
        assert (found.missing, found.extra) == ((), ())


def test_wide_file_of_several_models(tmp_path):
    values = matrix("float64", n=6)
    table = arrow_table(values, ids=["a", "b", "a", "c", "b", "c"])
    table = table.append_column("model", pa.array(["x", "x", "y", "x", "y", "y"]))
    pq.write_table(table, tmp_path / "m.parquet", row_group_size=2)
    x, y = read_scores(tmp_path / "m.parquet")
    assert (x.model, x.item_ids, y.model, y.item_ids) == ("x", ("a", "b", "c"), "y", ("a", "b", "c"))
    assert np.array_equal(whole(x, size=2)[1], values[[0, 1, 3]])
    positions, found = whole(y, np.array([2, 0]), 2)
    assert positions.tolist() == [0, 2]
    assert np.array_equal(found, values[[2, 5]])


def test_labels_may_carry_common_names_and_ids_may_be_given(tmp_path):
    np.save(tmp_path / "m.npy", matrix("float32", n=2)[:, :2])
    labels = write(tmp_path / "l.txt", "Turdus merula (Common Blackbird)\nbackground\n")
    (scores,) = read_scores(tmp_path / "m.npy", ids=["a", "b"], labels=labels)
    assert scores.labels == ("Turdus merula (Common Blackbird)", "background")
    assert scores.model == "m"


def test_integers_need_a_scale(tmp_path):
    values = np.array([[255, 1], [64, 192]], dtype=np.uint8)
    write_npy(tmp_path / "q.npy", values, labels=SPECIES[:2])
    pq.write_table(arrow_table(values, labels=SPECIES[:2]), tmp_path / "q.parquet")
    write(tmp_path / "q.csv", "item_id,A a,B b\nphoto_000.jpg,255,1\nphoto_001.jpg,64,192\n")
    for name in ("q.npy", "q.parquet", "q.csv"):
        (problem,) = refused(tmp_path / name)
        assert problem.code == "integer_scores"
        assert "1/256" in problem.remedy
        (scores,) = read_scores(tmp_path / name, scale=1 / 256)
        assert whole(scores)[1].tolist() == [[255 / 256, 1 / 256], [0.25, 0.75]]
    write_npy(tmp_path / "f.npy", matrix("float32"))
    assert refused(tmp_path / "f.npy", scale=1 / 256)[0].code == "scaled_floats"
    with pytest.raises(ParameterError):
        read_scores(tmp_path / "q.npy", scale=0)


def test_wrong_shapes_and_names_of_a_npy_file(tmp_path):
    values = matrix("float32", n=4)
    write_npy(tmp_path / "m.npy", values.T, ids_of(4))
    turned = refused(tmp_path / "m.npy")
    assert [p.code for p in turned] == ["count_differs", "count_differs"]
    assert all("transposed" in p.remedy for p in turned)
    write_npy(tmp_path / "m.npy", values, ["a", "b", "a", "", "c"], [*SPECIES[:5], SPECIES[0]])
    told = refused(tmp_path / "m.npy")
    assert [(p.code, p.line, p.key) for p in told] == [
        ("duplicate_name", 3, "ids"),
        ("empty_value", 4, "ids"),
        ("duplicate_name", 6, "labels"),
    ]
    (tmp_path / "m.ids.txt").unlink()
    assert [p.code for p in refused(tmp_path / "m.npy")] == ["unreadable", "duplicate_name"]
    for array in (values[0], np.zeros((0, 3)), values[None]):
        np.save(tmp_path / "m.npy", array)
        assert refused(tmp_path / "m.npy")[0].code == "bad_shape"


@pytest.mark.parametrize("how", ["pickle", "npz", "pickled npy", "records", "text", "cut npy", "cut header", "bool"])
def test_hostile_npy_files(tmp_path, how):
    path = tmp_path / "m.npy"
    write_npy(path, matrix("float32"))
    whole_file = path.read_bytes()
    if how == "pickle":
        path.write_bytes(pickle.dumps(matrix("float32")))
    elif how == "npz":
        np.savez(tmp_path / "m.npz", matrix("float32"))
        path = tmp_path / "m.npz"
    elif how == "pickled npy":
        np.save(path, np.array([[{"a": 1}, 2.0]], dtype=object), allow_pickle=True)
    elif how == "records":
        np.save(path, np.zeros((2, 2), dtype=[("a", "f4")]))
    elif how == "text":
        np.save(path, np.array([["a", "b"]]))
    elif how == "bool":
        np.save(path, np.ones((2, 2), dtype=bool))
    else:
        path.write_bytes(whole_file[: 200 if how == "cut npy" else 20])
    expected = {"cut npy": "damaged_file", "cut header": "damaged_file", "pickle": "refused_format"}
    expected |= {"npz": "refused_format", "pickled npy": "refused_format"}
    (problem,) = refused(path)
    assert problem.code == expected.get(how, "not_numeric")


@pytest.mark.parametrize("name", ["m.parquet", "m.feather", "m.arrow"])
def test_damaged_columnar_files(tmp_path, name):
    in_every_format(tmp_path, matrix("float64", n=300))
    content = (tmp_path / name).read_bytes()
    for cut in (len(content) // 2, len(content) - 5, 10):
        (tmp_path / name).write_bytes(content[:cut])
        assert refused(tmp_path / name)[0].code == "damaged_file"
    # Damage in the middle shows only when the rows are read: then it is told, never a traceback.
    (tmp_path / name).write_bytes(content[:8] + b"\xff" * (len(content) // 3) + content[8 + len(content) // 3 :])
    try:
        for _ in read_scores(tmp_path / name, model="m")[0].chunks():
            pass
    except DataError:
        pass


def test_hostile_wide_csv_files(tmp_path):
    head = "item_id,A a,B b\n"
    path = write(tmp_path / "m.csv", head + "x,0.5,0.5\ny,0.5\nz,much,0.5\nu,0.1,0.2,0.3\n")
    assert [(p.code, p.line, p.key) for p in refused(path)] == [
        ("wrong_fields", 3, None),
        ("not_a_number", 4, "A a"),
        ("wrong_fields", 5, None),
    ]
    assert refused(write(path, head))[0].code == "empty_file"
    assert refused(write(path, head + "x,.5,.5\nx,.5,.5\n,.5,.5\n"))[0].code == "duplicate_item"
    assert refused(write(path, "A a,B b\n.5,.5\n"))[0].code == "missing_column"
    assert refused(write(path, "item_id,A a,A a\nx,.5,.5\n"))[0].code == "duplicate_column"
    assert refused(write(path, "item_id,,B b\nx,.5,.5\n"))[0].code == "no_column_name"
    assert refused(write(path, "item_id\nx\n"))[0].code == "no_labels"
    path.write_bytes((head + "x,.5,.5\n").encode("utf-16"))
    assert refused(path)[0].code == "refused_format"
    (comma,) = refused(write(path, "item_id;A a;B b\nx;0,5;0.5\n"))
    assert "decimal point" in comma.remedy
    path.write_bytes(b"\xef\xbb\xbf" + head.encode() + b"x,0.25,0.75\r\ny,,1\r\n")
    (scores,) = read_scores(path)
    assert scores.item_ids == ("x", "y")
    assert np.array_equal(whole(scores)[1], [[0.25, 0.75], [np.nan, 1]], equal_nan=True)


def test_columns_that_are_no_labels_and_parts_that_differ(tmp_path):
    values = matrix("float32", n=3)
    table = arrow_table(values).append_column("species", pa.array(["a", "b", "c"]))
    pq.write_table(table, tmp_path / "m.parquet")
    assert [(p.code, p.key) for p in refused(tmp_path / "m.parquet")] == [("not_numeric", "species")]
    pq.write_table(arrow_table(values), tmp_path / "a.parquet")
    pq.write_table(arrow_table(values[:, :5], labels=SPECIES[:5]), tmp_path / "b.parquet")
    assert refused([tmp_path / "a.parquet", tmp_path / "b.parquet"])[0].code == "labels_differ"
    assert {p.code for p in refused([tmp_path / "a.parquet", tmp_path / "a.parquet"])} == {"duplicate_item"}
    pq.write_table(arrow_table(values, id_name="name"), tmp_path / "c.parquet")
    assert refused(tmp_path / "c.parquet")[0].code == "missing_column"
    assert refused(tmp_path / "nowhere.parquet")[0].code == "unreadable"
    write(tmp_path / "m.xyz", "a,b\n")
    assert refused(tmp_path / "m.xyz")[0].code == "unknown_format"


def test_a_large_npy_is_never_held(tmp_path):
    values = np.lib.format.open_memmap(tmp_path / "m.npy", mode="w+", dtype=np.float32, shape=(15_000, 3_400))
    for start in range(0, 15_000, 1000):
        values[start : start + 1000] = 1 / 3400
    values.flush()
    del values
    (scores,) = read_scores(
        tmp_path / "m.npy", ids=[str(i) for i in range(15_000)], labels=[f"L {i}" for i in range(3_400)]
    )
    for rows in (None, np.arange(0, 15_000, 2)):
        peak, total, before = 0, 0.0, anonymous()
        for i, (_, chunk) in enumerate(scores.chunks(rows)):
            total += float(chunk.sum())
            peak = max(peak, anonymous()) if i % 8 == 0 else peak
        assert total == pytest.approx(15_000 if rows is None else 7_500, rel=1e-3)
        assert peak - before < 64 * 2**20
    before = anonymous()
    held = np.array(np.load(tmp_path / "m.npy", mmap_mode="r"))  # the measure does see a matrix that is held
    assert anonymous() - before > 0.9 * held.nbytes


def anonymous() -> int:
    """Bytes of this process that no file stands behind."""
    info = psutil.Process().memory_info()
    return info.rss - info.shared


# Top-k scores

LONG = """model,prompt_id,item_id,taxon_id,probability
x,1,a,Turdus merula,0.5
x,1,a,Parus major,0.25
x,1,b,Parus major,1.0004
y,,a,Turdus merula,0.125
x,2,a,Turdus merula,0
"""


def test_long_top_k_of_several_models_and_prompts(tmp_path):
    path = write(tmp_path / "s.csv", LONG)
    text = pl.read_csv(path)
    text.write_parquet(tmp_path / "s.parquet")
    text.write_ipc(tmp_path / "s.feather")
    text.write_ndjson(tmp_path / "s.jsonl")
    for name in ("s.csv", "s.parquet", "s.feather", "s.jsonl"):
        scores = read_scores(tmp_path / name)
        assert all(isinstance(one, TopKScores) for one in scores)
        assert [(s.model, s.prompt_id, s.item_ids) for s in scores] == [
            ("x", "1", ("a", "b")),
            ("y", None, ("a",)),
            ("x", "2", ("a",)),
        ], name
        assert scores[0].frame.rows()[1] == ("a", "Parus major", 0.25)
        assert scores[0].missing_mass.rows() == [("a", 0.25), ("b", 0.0)]
        assert [s.mean_missing_mass for s in scores] == [0.125, 0.875, 1.0]


def test_one_row_per_item_with_ranks(tmp_path):
    text = "image,top1_species,top1_prob,top2_species,top2_prob,note\na,X x,0.5,Y y,0.25,q\nb,Y y,0.75,,,\nc,,,,,\n"
    (scores,) = read_scores(write(tmp_path / "s.csv", text), model="m")
    assert scores.frame.rows() == [("a", "X x", 0.5), ("a", "Y y", 0.25), ("b", "Y y", 0.75)]
    assert scores.missing_mass.rows() == [("a", 0.25), ("b", 0.25), ("c", 1.0)]
    assert [(n.code, n.n) for n in scores.notices] == [("no_label", 1)]


def test_every_problem_of_top_k_scores(tmp_path):
    text = """item_id,label,probability
a,X x,-0.1
a,Y y,nan
b,,0.5
b,X x,
c,X x,much
,X x,0.5
d,X x,7.2
"""
    told = refused(write(tmp_path / "s.csv", text))
    assert [(p.line, p.code) for p in told] == [
        (2, "negative"),
        (3, "not_finite"),
        (4, "empty_value"),
        (5, "empty_value"),
        (6, "not_a_number"),
        (7, "empty_value"),
        (8, "above_one"),
    ]
    text = "item_id,label,probability\na,X x,0.6\na,Y y,0.5\nb,X x,0.1\nb,X x,0.2\n"
    told = refused(write(tmp_path / "s.csv", text))
    assert [(p.line, p.code) for p in told] == [(2, "sum_above_one"), (5, "duplicate_label")]
    pl.DataFrame({"item_id": ["a"], "label": ["X x"], "probability": [float("nan")]}).write_parquet(
        tmp_path / "s.parquet"
    )
    assert [(p.record, p.code) for p in refused(tmp_path / "s.parquet")] == [("row 1", "not_finite")]
    assert refused(write(tmp_path / "s.csv", "item_id,top1_species\na,X x\n"))[0].code == "missing_column"
    assert refused(write(tmp_path / "s.csv", "item_id,A a\na,0.5\n"), kind="topk")[0].code == "missing_column"


# Answers

ANSWERS = """model,prompt_id,item_id,answer,abstained,reason_given,uncertainty
v,1,a,Turdus merula,0,,0.25
v,1,b,,1,song,0.9
v,2,b,,yes,angle/occlusion|quality,
w,1,a,,no,,
"""


def test_answers_are_recognised(tmp_path):
    path = write(tmp_path / "s.csv", ANSWERS)
    pl.read_csv(path, schema_overrides={"abstained": pl.String}).write_parquet(tmp_path / "s.parquet")
    for name in ("s.csv", "s.parquet"):
        v, w = read_scores(tmp_path / name)
        assert isinstance(v, AnswerScores)
        assert (v.model, v.item_ids, w.model, w.n_items) == ("v", ("a", "b"), "w", 1)
        assert v.frame.rows() == [
            ("v", "1", "a", "Turdus merula", False, None, 0.25),
            ("v", "1", "b", None, True, "vocalization", 0.9),
            ("v", "2", "b", None, True, "angle|quality", None),
        ]
        assert [(n.code, n.n) for n in w.notices] == [("no_answer", 1)]


def test_every_problem_of_answers(tmp_path):
    text = "item_id,answer,abstained,reason,uncertainty\na,X x,0,,inf\na,X x,maybe,,\n,X x,,weather,x\n"
    told = refused(write(tmp_path / "s.csv", text))
    assert [(p.line, p.code) for p in told] == [
        (2, "not_finite"),
        (3, "duplicate_item"),
        (3, "not_binary"),
        (4, "empty_value"),
        (4, "not_binary"),
        (4, "unknown_reason"),
        (4, "not_finite"),
    ]
    (problem,) = refused(write(tmp_path / "s.csv", "item_id,answer\na,I think it is a gull\n"))
    assert (problem.code, problem.key) == ("missing_column", "abstained")


def test_probabilities_and_answers_in_one_file(tmp_path):
    text = """model,item_id,taxon_id,probability,answer,abstained
p,a,X x,0.5,,
q,a,,,X x,0
p,b,X x,0.75,,
q,b,,,,1
"""
    topk, answers = read_scores(write(tmp_path / "s.csv", text))
    assert topk.frame.rows() == [("a", "X x", 0.5), ("b", "X x", 0.75)]
    assert answers.frame["taxon"].to_list() == ["X x", None]
    told = refused(write(tmp_path / "s.csv", text.replace("q,b,,,,1", "q,b,,,,maybe")))
    assert [(p.line, p.code) for p in told] == [(5, "not_binary")]


# Alignment


def test_items_without_scores_are_an_error_unless_dropped(tmp_path):
    write_npy(tmp_path / "m.npy", matrix("float32", n=3), ["b", "c", "x.png"])
    (scores,) = read_scores(tmp_path / "m.npy", model="m")
    items = pl.DataFrame({"item_id": ["a", "c", "x.jpg", "b"]})
    with pytest.raises(DataError) as excinfo:
        align(scores, items)
    (problem,) = excinfo.value.problems
    assert problem.found == "no scores for 2 of 4 items: a, x.jpg"
    assert "'x.png'" in problem.remedy
    found = align(scores, items, missing="drop")
    assert (found.rows.tolist(), found.missing, found.extra) == ([1, 0], ("a", "x.jpg"), ("x.png",))
    with pytest.raises(DataError):
        align(scores, pl.DataFrame({"item_id": ["q"]}), missing="drop")
    with pytest.raises(ParameterError):
        align(scores, items, missing="ignore")
    with pytest.raises(ParameterError):
        read_scores(tmp_path / "m.npy", kind="long")


@pytest.mark.real
def test_the_real_classifier_table(real_data, tmp_path):
    path = real_data / "classifier" / "inat_bird_quant_on_imagenet_samples.csv"
    (scores,) = read_scores(path, model="mobilenet")
    assert isinstance(scores, TopKScores)
    assert (scores.n_items, scores.frame.height) == (40, 120)
    assert scores.mean_missing_mass == pytest.approx(0.32, abs=0.005)
    assert float(scores.missing_mass["missing_mass"].min()) >= 0
    truth = pl.read_csv(path).filter(pl.col("truth_rank_after_look") == "species")
    truth.select("image", pl.col("truth_after_look").alias("species"), pl.lit(1).alias("answerable")).write_csv(
        tmp_path / "items.csv"
    )
    items, notices = read_items(tmp_path / "items.csv")
    assert items.height == 35
    assert {n.code: n.n for n in notices} == {"genus_from_species": 35, "no_unanswerable": 35}
    found = align(scores, items)
    assert (len(found.rows), found.missing, len(found.extra)) == (35, (), 5)
    labels = (real_data / "classifier" / "inat_bird_labels.txt").read_text().splitlines()
    np.save(tmp_path / "m.npy", np.full((2, len(labels)), 1 / len(labels), dtype=np.float32))
    (wide,) = read_scores(tmp_path / "m.npy", ids=["a", "b"], labels=real_data / "classifier" / "inat_bird_labels.txt")
    assert (wide.n_labels, wide.labels[-1]) == (965, "background")
