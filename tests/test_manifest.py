"""Manifests: what is written is read back, and every way in which files can differ from it is named."""

from __future__ import annotations

import csv
import hashlib
import json
import string
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab.datapackage import bad_path, read_manifest, slug
from birdlab.errors import DataError, ManifestError, Problem
from birdlab.manifest import extra_files, hash_file, hash_files, resource, verify, write_manifest

#: Published SHA-256 test vectors (FIPS 180-4, NIST examples).
VECTORS = {
    b"abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    b"": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
}


def table(root: Path, names: list[str]) -> pl.DataFrame:
    rows = [(n, "photograph", (root / n).stat().st_size, f"sha256:{hash_file(root / n)}", 4, 3) for n in names]
    return pl.DataFrame(rows, schema=["path", "kind", "bytes", "hash", "width_px", "height_px"], orient="row")


@pytest.fixture
def study(tmp_path: Path) -> tuple[Path, Path]:
    root, folder = tmp_path / "data", tmp_path / "project" / "data_manifests" / "s"
    (root / "b").mkdir(parents=True)
    for name, body in (("b/10.jpg", b"abc"), ("b/9.jpg", b"de"), ("labels.json", b"{}")):
        (root / name).write_bytes(body)
    extra = resource("labels.json", bytes=2, sha256=hash_file(root / "labels.json"))
    licences, sources = [{"name": "CC0-1.0"}], [{"title": "made for a test"}]
    written = write_manifest(
        folder,
        name="My Study",
        files=table(root, ["b/10.jpg", "b/9.jpg"]),
        resources=[extra],
        licences=licences,
        sources=sources,
    )
    return written, root


@pytest.mark.parametrize("body", VECTORS)
def test_hashes_are_those_of_the_standard(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "f").write_bytes(body)
    assert hash_file(tmp_path / "f") == VECTORS[body]


def test_hashes_of_many_files_come_in_their_order(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}" for i in range(30)]
    for i, path in enumerate(paths):
        path.write_bytes(bytes([i]) * (1000 - i))
    steps: list[tuple[int, int]] = []
    assert hash_files(paths, progress=lambda a, b: steps.append((a, b))) == [
        hashlib.sha256(p.read_bytes()).hexdigest() for p in paths
    ]
    assert steps[-1] == (30, 30)


def test_unreadable_files_are_all_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    with pytest.raises(DataError) as error:
        hash_files([tmp_path / "a", tmp_path / "gone", tmp_path / "gone too"])
    assert [Path(p.file or "").name for p in error.value.problems] == ["gone", "gone too"]


def test_a_manifest_is_frictionless_and_says_what_it_rests_on(study: tuple[Path, Path]) -> None:
    written, root = study
    package = json.loads(written.read_text())
    assert (package["name"], package["licenses"], package["sources"]) == (
        "my-study",
        [{"name": "CC0-1.0"}],
        [{"title": "made for a test"}],
    )
    files, labels = package["resources"]
    assert labels["path"] == "labels.json" and labels["bytes"] == 2 and labels["mediatype"] == "application/json"
    assert labels["hash"] == "sha256:" + hashlib.sha256(b"{}").hexdigest()
    beside = written.parent / files["path"]
    assert (
        files["bytes"] == beside.stat().st_size
        and files["hash"] == "sha256:" + hashlib.sha256(beside.read_bytes()).hexdigest()
    )
    with beside.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [f["name"] for f in files["schema"]["fields"]] == list(rows[0])
    assert [r["path"] for r in rows] == ["b/10.jpg", "b/9.jpg"] and rows[0]["hash"] == f"sha256:{VECTORS[b'abc']}"


def test_the_same_content_gives_the_same_bytes(study: tuple[Path, Path], tmp_path: Path) -> None:
    written, root = study
    frame = table(root, ["b/9.jpg", "b/10.jpg"])
    a = write_manifest(tmp_path / "a", name="x", files=frame)
    b = write_manifest(tmp_path / "b", name="x", files=frame.reverse())
    assert (
        a.read_bytes() == b.read_bytes()
        and (a.parent / "files.csv").read_bytes() == (b.parent / "files.csv").read_bytes()
    )


def test_untouched_data_verify(study: tuple[Path, Path]) -> None:
    written, root = study
    assert verify(written, root) == []
    assert verify(written.parent, root) == []
    assert read_manifest(written).files.height == 4  # files.csv, labels.json, two photographs


def test_missing_changed_and_resized_files_are_told_apart(study: tuple[Path, Path]) -> None:
    written, root = study
    (root / "b/10.jpg").write_bytes(b"abd")
    (root / "b/9.jpg").unlink()
    (root / "labels.json").write_bytes(b"{} ")
    problems = {p.file: p for p in verify(written, root)}
    changed, gone, longer = problems["b/10.jpg"], problems["b/9.jpg"], problems["labels.json"]
    assert (changed.code, gone.code, longer.code) == ("hash_differs", "missing_file", "size_differs")
    assert (
        changed.expected == f"sha256:{VECTORS[b'abc']}"
        and changed.found == "sha256:" + hashlib.sha256(b"abd").hexdigest()
    )
    assert "files.csv row 2" in gone.expected and longer.found == "3 bytes" and longer.expected == "2 bytes"
    assert all(p.remedy for p in problems.values())


def test_a_changed_table_of_files_is_noticed(study: tuple[Path, Path]) -> None:
    written, root = study
    beside = written.parent / "files.csv"
    beside.write_text(beside.read_text().replace(",4,3", ",5,3", 1))
    assert [(p.code, p.file) for p in verify(written, root)] == [("hash_differs", "files.csv")]


def test_a_wrong_folder_is_one_problem_not_one_per_file(study: tuple[Path, Path], tmp_path: Path) -> None:
    written, _ = study
    frame = pl.DataFrame(
        {
            "path": [f"{i}.jpg" for i in range(500)],
            "kind": "photograph",
            "bytes": 3,
            "hash": f"sha256:{VECTORS[b'abc']}",
            "width_px": 1,
            "height_px": 1,
        }
    )
    many = write_manifest(tmp_path / "m", name="m", files=frame)
    (tmp_path / "empty").mkdir()
    [problem] = [p for p in verify(many, tmp_path / "empty")]
    assert problem.code == "missing_data" and "500" in problem.found and "data.root" in problem.remedy


def test_many_problems_of_a_kind_are_listed_up_to_twenty_and_counted(tmp_path: Path) -> None:
    (tmp_path / "0.jpg").write_bytes(b"abc")
    frame = pl.DataFrame(
        {
            "path": [f"{i}.jpg" for i in range(100)],
            "kind": "photograph",
            "bytes": 3,
            "hash": f"sha256:{VECTORS[b'abc']}",
            "width_px": 1,
            "height_px": 1,
        }
    )
    problems = verify(write_manifest(tmp_path / "m", name="m", files=frame), tmp_path)
    assert len(problems) == 21 and problems[-1].found == "79 more of the same kind"


def test_own_hasher_is_used_and_progress_told(study: tuple[Path, Path]) -> None:
    written, root = study
    asked: list[str] = []
    told: list[tuple[int, int]] = []

    def hasher(path: Path, algorithm: str) -> str:
        asked.append(f"{path.name} {algorithm}")
        return "0" * 64

    problems = verify(written, root, hasher=hasher, progress=lambda a, b: told.append((a, b)))
    assert sorted(asked) == ["10.jpg sha256", "9.jpg sha256", "files.csv sha256", "labels.json sha256"]
    assert told[-1] == (4, 4) and {p.code for p in problems} == {"hash_differs"}


def test_extra_files_are_those_not_listed(study: tuple[Path, Path]) -> None:
    manifest = read_manifest(study[0])
    assert extra_files(manifest, ["b/9.jpg", "b/11.jpg", "labels.json"]) == ["b/11.jpg"]


@pytest.mark.parametrize(
    ("package", "code", "key"),
    [
        ([], "not_a_manifest", None),
        ({"name": "x"}, "no_resources", "resources"),
        ({"resources": []}, "no_resources", "resources"),
        ({"resources": [3]}, "bad_value", None),
        ({"resources": [{"path": "a"}]}, "bad_value", "name"),
        ({"resources": [{"name": "a", "path": "a"}, {"name": "a", "path": "b"}]}, "duplicate_name", "name"),
        ({"resources": [{"name": "a"}]}, "bad_value", "path"),
        ({"resources": [{"name": "a", "path": "a", "data": []}]}, "bad_value", "path"),
        ({"resources": [{"name": "a", "path": "../a"}]}, "bad_path", "path"),
        ({"resources": [{"name": "a", "path": "b/../../a"}]}, "bad_path", "path"),
        ({"resources": [{"name": "a", "path": "/a"}]}, "bad_path", "path"),
        ({"resources": [{"name": "a", "path": "C:\\a"}]}, "bad_path", "path"),
        ({"resources": [{"name": "a", "path": 7}]}, "bad_path", "path"),
        ({"resources": [{"name": "a", "path": "a", "bytes": -1}]}, "bad_value", "bytes"),
        ({"resources": [{"name": "a", "path": "a", "bytes": True}]}, "bad_value", "bytes"),
        ({"resources": [{"name": "a", "path": "a", "hash": "sha256:ab"}]}, "bad_value", "hash"),
        ({"resources": [{"name": "a", "path": "a", "hash": "crc:" + "0" * 64}]}, "bad_value", "hash"),
        ({"resources": [{"name": "a", "path": "a", "schema": {"fields": [{}]}}]}, "bad_value", "schema"),
        ({"resources": [{"name": "a", "path": "a"}], "licenses": [{"title": "x"}]}, "bad_value", "licenses"),
        ({"resources": [{"name": "a", "path": "a"}], "sources": "me"}, "bad_value", "sources"),
        ({"resources": [{"name": "files", "path": "files.csv"}]}, "missing_file", None),
    ],
)
def test_descriptors_that_are_no_data_package(tmp_path: Path, package: object, code: str, key: str | None) -> None:
    path = tmp_path / "datapackage.json"
    path.write_text(json.dumps(package))
    with pytest.raises(ManifestError) as error:
        read_manifest(path)
    assert [(p.code, p.key) for p in error.value.problems] == [(code, key)]
    assert error.value.exit_code == 3 and [p.code for p in verify(path, tmp_path)] == [code]


def test_all_problems_of_a_descriptor_come_at_once(tmp_path: Path) -> None:
    path = tmp_path / "datapackage.json"
    path.write_text(json.dumps({"resources": [{"path": "/a"}, {"name": "b", "path": "b", "bytes": "x", "hash": 1}]}))
    with pytest.raises(ManifestError) as error:
        read_manifest(path)
    assert [p.key for p in error.value.problems] == ["name", "path", "bytes", "hash"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "empty_file"),
        (b'{"resources": [', "truncated_json"),
        (b"\xff\xfe{}", "not_utf8"),
        (b"{'a': 1}", "not_json"),
    ],
)
def test_broken_json(tmp_path: Path, body: bytes, code: str) -> None:
    path = tmp_path / "datapackage.json"
    path.write_bytes(body)
    with pytest.raises(ManifestError) as error:
        read_manifest(path)
    assert [p.code for p in error.value.problems] == [code]


@pytest.mark.parametrize(
    ("body", "code", "record"),
    [
        ("path,bytes\na,1\n", "missing_column", None),
        ("path,bytes,hash\n../a,1,sha256:" + "0" * 64 + "\n", "bad_path", "row 1"),
        ("path,bytes,hash\na,one,sha256:" + "0" * 64 + "\n", "bad_value", "row 1"),
        ("path,bytes,hash\na,1,\n", "bad_value", "row 1"),
        (f"path,bytes,hash\na,1,sha256:{'0' * 64}\na,1,sha256:{'0' * 64}\n", "duplicate_path", None),
    ],
)
def test_tables_of_files_that_cannot_be_used(tmp_path: Path, body: str, code: str, record: str | None) -> None:
    (tmp_path / "files.csv").write_text(body)
    (tmp_path / "datapackage.json").write_text(json.dumps({"resources": [{"name": "files", "path": "files.csv"}]}))
    with pytest.raises(ManifestError) as error:
        read_manifest(tmp_path)
    assert [(p.code, p.record) for p in error.value.problems] == [(code, record)]


def test_other_frictionless_packages_are_read(tmp_path: Path) -> None:
    """A Camtrap DP package: tables without hashes, inline data, a remote resource, MD5 without a prefix."""
    (tmp_path / "media.csv").write_bytes(b"abc")
    resources = [
        {
            "name": "media",
            "path": "media.csv",
            "hash": hashlib.md5(b"abc").hexdigest(),
            "schema": "https://example.org/s.json",
        },
        {"name": "inline", "data": [{"a": 1}]},
        {"name": "far", "path": "https://example.org/a.csv"},
        {"name": "parts", "path": ["a.csv", "b.csv"]},
    ]
    (tmp_path / "datapackage.json").write_text(json.dumps({"resources": resources}))
    manifest = read_manifest(tmp_path)
    assert manifest.remote == 1 and manifest.files["path"].to_list() == ["media.csv", "a.csv", "b.csv"]
    assert [(p.code, p.file) for p in verify(tmp_path, tmp_path)] == [
        ("missing_file", "a.csv"),
        ("missing_file", "b.csv"),
    ]


def test_nothing_is_written_that_cannot_be_read(tmp_path: Path) -> None:
    entry = resource("../up.json", bytes=1, sha256="0" * 64)
    with pytest.raises(ManifestError):
        write_manifest(tmp_path / "m", name="x", files=table(tmp_path, []), resources=[entry])
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("name", ['nest 7 "left"\'s,\n\n1.jpg', "Küste/Möwe.jpg", "  a.jpg ", "=1+1.jpg", "#.jpg"])
def test_odd_names_survive(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"abc")
    written = write_manifest(tmp_path / "m", name="odd", files=table(tmp_path, [name]))
    assert name in read_manifest(written).files["path"].to_list() and verify(written, tmp_path) == []


@given(
    st.dictionaries(
        st.text(string.ascii_letters + "_ äß,'\"\n", min_size=1, max_size=12).filter(lambda t: t.strip()),
        st.binary(max_size=40),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=25, deadline=None)
def test_whatever_is_written_verifies_and_any_changed_byte_is_found(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    root = tmp_path_factory.mktemp("root")
    files = {name.casefold(): body for name, body in files.items()}
    for name, body in files.items():
        (root / name).write_bytes(body)
    written = write_manifest(root / ".m", name="x", files=table(root, list(files)))
    assert verify(written, root) == []
    name, body = next(iter(files.items()))
    (root / name).write_bytes(bytes([body[0] ^ 1]) + body[1:] if body else b"x")
    assert [p.file for p in verify(written, root)] == [name]


def test_names_and_paths() -> None:
    assert slug("Ñandú № 7") == "nandu-no-7" and slug("???") == "data"
    assert bad_path("a/..b/c.jpg") is None and bad_path("") == "no path"


def test_a_file_without_permission_is_a_problem(study: tuple[Path, Path]) -> None:
    written, root = study

    def hasher(path: Path, algorithm: str) -> str | DataError:
        return DataError(Problem("unreadable", "Permission denied", "a file that can be read", file=path.name))

    assert {p.code for p in verify(written, root, hasher=hasher)} == {"unreadable"}


@pytest.mark.real
def test_a_published_camera_trap_package(real_data: Path) -> None:
    folder = real_data / "camtrap"
    assert verify(folder, folder) == [] and read_manifest(folder).files.height == 3
