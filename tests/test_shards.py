"""Sharded work: each piece once, whole or absent, the same whoever does it."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from birdlab.shards import Shard, clear_leftovers, digest, map_shards, split_evenly, write_atomic


def square(payload: dict) -> pl.DataFrame:
    return pl.DataFrame({"n": payload["ns"], "sq": [n * n for n in payload["ns"]]})


SHARDS = [Shard(str(i), {"ns": piece}) for i, piece in enumerate(split_evenly(list(range(10)), 3))]


@pytest.mark.parametrize(
    "make",
    [lambda: None, lambda: ThreadPoolExecutor(2), lambda: ProcessPoolExecutor(2)],
    ids=["here", "threads", "processes"],
)
def test_same_result_whoever_works(tmp_path, make):
    executor = make()
    paths = map_shards(square, SHARDS, tmp_path, executor)
    if executor:
        executor.shutdown()
    assert pl.concat([pl.read_parquet(p) for p in paths])["sq"].to_list() == [n * n for n in range(10)]


def test_finished_parts_are_not_made_again_and_a_failure_keeps_them(tmp_path):
    calls = []

    def work(payload: dict) -> pl.DataFrame:
        calls.append(payload["ns"][0])
        if payload["ns"][0] == 6 and len(calls) < 5:
            raise RuntimeError("power cut")
        return square(payload)

    with pytest.raises(RuntimeError):
        map_shards(work, SHARDS, tmp_path)
    times = {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("part-*")}
    assert calls == [0, 3, 6] and len(times) == 2
    seen = []
    map_shards(
        lambda p: (calls.append(9), work(p))[1], SHARDS, tmp_path, progress=lambda done, n: seen.append((done, n))
    )
    assert seen == [(2, 4), (3, 4), (4, 4)]
    assert all((tmp_path / name).stat().st_mtime_ns == t for name, t in times.items())


def test_another_payload_is_another_part(tmp_path):
    map_shards(square, [Shard("a", {"ns": [1]})], tmp_path)
    path = map_shards(square, [Shard("a", {"ns": [2]})], tmp_path)[0]
    assert pl.read_parquet(path)["sq"].to_list() == [4] and len(list(tmp_path.glob("part-*"))) == 2


def test_two_equal_shards_are_refused(tmp_path):
    with pytest.raises(ValueError, match="same id"):
        map_shards(square, [SHARDS[0], SHARDS[0]], tmp_path)


def test_nothing_half_written(tmp_path):
    target = tmp_path / "x.txt"
    target.write_text("old")

    def fail(path):
        path.write_text("ne")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomic(target, fail)
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()))
def test_digest_ignores_the_order_of_keys(d):
    assert digest(d) == digest(dict(reversed(list(d.items()))))


@given(st.lists(st.integers()), st.integers(1, 9))
def test_split_evenly_loses_nothing(items, size):
    pieces = split_evenly(items, size)
    assert [i for p in pieces for i in p] == items and all(len(p) <= size for p in pieces)


def test_a_refusal_of_the_system_names_the_file_that_was_to_be_written(tmp_path):
    def fail(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError) as caught:
        write_atomic(tmp_path / "x.txt", fail)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "x.txt"))
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        write_atomic(tmp_path / "file" / "x.txt", lambda path: path.write_text(""))


def test_leftovers_of_a_killed_run_go_and_whole_parts_stay(tmp_path):
    paths = map_shards(square, SHARDS, tmp_path)
    good, bad, other = paths[0], paths[1], paths[2]
    bad.write_bytes(bad.read_bytes()[:40])
    pl.DataFrame({"something": [1]}).write_parquet(other)
    dead = tmp_path / ".part-9-x.parquet.99999999.tmp"
    dead.write_bytes(b"half")
    alive = tmp_path / f".part-9-x.parquet.{os.getppid()}.tmp"
    alive.write_bytes(b"being written")
    clear_leftovers(tmp_path, pl.read_parquet_schema(good))
    assert good.exists() and not bad.exists() and not other.exists()
    assert not dead.exists() and alive.exists()
    assert map_shards(square, SHARDS, tmp_path) == paths and bad.exists()


def test_a_folder_that_is_not_there_has_no_leftovers(tmp_path):
    clear_leftovers(tmp_path / "nowhere", pl.Schema({"n": pl.Int64}))
    assert list(tmp_path.iterdir()) == []
