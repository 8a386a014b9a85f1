"""Files that are no run files, or very odd ones: one clear message, bounded memory."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from birdlab.errors import DataError
from birdlab.readers.runfile import read_run
from birdlab.soundscapes.coded import Truth
from birdlab.soundscapes.truth import code_truth

LINE = "a;00:00:00-00:00:05;x;0.5\n"
#: Reads one file under a limit of the address space (MB), and prints its problems and its highest resident memory.
LIMITED = """
import resource, sys
from pathlib import Path
import polars as pl
from birdlab.errors import DataError
from birdlab.readers.runfile import read_run
from birdlab.soundscapes.truth import code_truth
truth = code_truth(pl.DataFrame({"media_id": ["a"], "class_id": ["x"], "start_s": [0]}))
pl.read_csv(b"a,1", has_header=False)
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = now + int(sys.argv[2]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    read_run(Path(sys.argv[1]), truth, name="r")
except DataError as error:
    print(len(error.problems), error.problems[0].code, error.problems[0].line, error.problems[-1].found)
"""


@pytest.fixture
def truth() -> Truth:
    return code_truth(pl.DataFrame({"media_id": ["a"], "class_id": ["x"], "start_s": [0]}))


def problem(path: Path, truth: Truth, **options):
    with pytest.raises(DataError) as error:
        read_run(path, truth, name="r", **options)
    assert len(error.value.problems) == 1
    return error.value.problems[0]


def limited(path: Path, mb: int) -> str:
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path), str(mb)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-800:]
    return run.stdout.strip()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_of_64_mb_needs_little_memory(tmp_path, packed):
    path = tmp_path / "long.txt"
    with gzip.open(path, "wb", 1) if packed else path.open("wb") as file:
        file.write(LINE.encode() * 2)
        for _ in range(64):
            file.write(b"x" * 2**20)
    found = limited(path, 512)
    assert found.startswith("1 line_length 3 ") and "more than 16 MB" in found and len(found) < 200


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_million_unknown_classes_need_little_memory(tmp_path):
    path = tmp_path / "many.txt"
    path.write_text("".join(f"a;00:00:00-00:00:05;c{i:07d};0.5\n" for i in range(1_000_000)))
    found = limited(path, 1024)
    assert found.startswith("21 class_unknown 1 and ") and "more problems" in found


def test_a_sparse_file_is_binary_at_its_first_byte(tmp_path, truth):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(300 << 20)
    found = problem(tmp_path / "sparse", truth)
    assert (found.code, found.line) == ("binary", 1)


def test_a_nul_after_good_lines_is_found(tmp_path, truth):
    (tmp_path / "run.txt").write_bytes(LINE.encode() + b"a;00:00:05-00:00:10;x;\0\n")
    assert problem(tmp_path / "run.txt", truth).line == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16(tmp_path, truth, encoding):
    (tmp_path / "run.txt").write_bytes(LINE.encode(encoding))
    found = problem(tmp_path / "run.txt", truth)
    assert found.code == ("encoding" if encoding == "utf-16" else "binary") and "UTF-8" in found.remedy


def test_a_line_that_is_not_utf8(tmp_path, truth):
    (tmp_path / "run.txt").write_bytes(LINE.encode() + "é;00:00:05-00:00:10;x;0.5\n".encode("latin-1"))
    found = problem(tmp_path / "run.txt", truth)
    assert (found.code, found.line) == ("encoding", 2) and r"\\xe9" in found.found


@pytest.mark.parametrize("name", ["missing.txt", "."])
def test_no_file(tmp_path, truth, name):
    assert problem(tmp_path / name, truth).code == "unreadable"


@pytest.mark.parametrize("cut", [10, 40])
def test_a_gzip_file_cut_short(tmp_path, truth, cut):
    packed = gzip.compress((LINE * 3).encode() + bytes(range(1, 200)) * 3)
    (tmp_path / "run.gz").write_bytes(packed[:cut])
    assert problem(tmp_path / "run.gz", truth).code == "damaged"


def test_reading_ends_where_nothing_is_a_prediction(tmp_path, truth):
    line = "a,00:00:00-00:00:05,x,0.5\n"
    (tmp_path / "run.csv").write_text(line * 1_400_000)
    with pytest.raises(DataError) as error:
        read_run(tmp_path / "run.csv", truth, name="r")
    first, last = error.value.problems[0], error.value.problems[-1]
    assert first.code == "fields" and "not by ','" in first.remedy and "where reading stopped" in last.found


@pytest.mark.parametrize("text", ["\n" * 70_000, ";;;\n" * 10, "\x01\x02", "PAR", "\x1f", "a", ";" * 100_000])
def test_odd_text_is_told(tmp_path, truth, text):
    (tmp_path / "run.txt").write_text(text)
    with pytest.raises(DataError) as error:
        read_run(tmp_path / "run.txt", truth, name="r")
    assert len(error.value.problems) <= 21 and max(len(str(p)) for p in error.value.problems) < 400


def test_control_characters_do_not_reach_the_terminal(tmp_path, truth):
    (tmp_path / "run.txt").write_text("a;00:00:00-00:00:05;\x1b[31m\u202egnorw;0.5\n")
    assert "\x1b" not in str(problem(tmp_path / "run.txt", truth))
