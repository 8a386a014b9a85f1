"""Pickles: plain values come back, everything else is refused by its name and nothing of it is executed."""

from __future__ import annotations

import collections
import datetime
import os
import pickle
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab.errors import DataError
from birdlab.readers import safe_pickle
from birdlab.readers.safe_pickle import load_plain, loads_plain

SCALARS = st.one_of(
    st.integers(-(2**63), 2**63), st.text(max_size=20), st.floats(allow_nan=False), st.integers(0, 3)
)  # fmt: skip
KEYS = st.one_of(SCALARS, st.tuples(st.integers(), st.integers()).filter(lambda t: max(map(abs, t)) < 2**60))
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.tuples(inner, inner), st.dictionaries(KEYS, inner, max_size=4), st.just(())
    ),
    max_leaves=25,
)


def refused(data: bytes, code: str = "not_plain") -> str:
    """What is told to be found in a pickle that must be refused."""
    with pytest.raises(DataError) as caught:
        loads_plain(data, "night_BehavDict_C3D_BoTSORT.p")
    (problem,) = caught.value.problems
    assert problem.code == code
    assert problem.file == "night_BehavDict_C3D_BoTSORT.p"
    return problem.found


class Call:
    """Pickles to a call of a function."""

    def __init__(self, function, *args) -> None:
        self.call = (function, args)

    def __reduce__(self):
        return self.call


class Held:
    """Pickles to an object with a state."""

    def __init__(self) -> None:
        self.x = 1


class WithIds(pickle.Pickler):
    def persistent_id(self, obj):
        return "elsewhere" if obj == "outside" else None


@given(PLAIN, st.integers(0, 5))
@settings(max_examples=200, deadline=None)
def test_plain_values_come_back_as_pickle_itself_reads_them(value, protocol):
    back = loads_plain(pickle.dumps(value, protocol), "x.p")
    assert back == pickle.loads(pickle.dumps(value, protocol))
    assert repr(back) == repr(value)


def test_a_value_that_stands_twice_is_one_value():
    key, windows = (0, 25), {(25, 50): "Peck"}
    value = {"a": {key: "Peck"}, "b": {key: "Other"}, "c": windows, "d": windows, "e": [], "f": [key, key]}
    for protocol in range(6):
        assert loads_plain(pickle.dumps(value, protocol), "x.p") == value


def test_os_system_is_refused_by_name_and_does_not_run(tmp_path: Path):
    trace = tmp_path / "ran"
    for protocol in range(6):
        data = pickle.dumps({"t1": Call(os.system, f"touch {trace}")}, protocol)
        assert refused(data) in ("posix.system", "nt.system", "os.system")
    assert refused(pickle.dumps(Call(eval, f"open({str(trace)!r}, 'w')"))) in ("builtins.eval", "__builtin__.eval")
    assert not trace.exists()


@pytest.mark.parametrize(
    "code", [b"cos\nsystem\n(S'true'\ntR.", b"(S'true'\nios\nsystem\n.", b"(cos\nsystem\nS'true'\no."]
)
def test_hand_written_calls_are_refused_by_name(code: bytes):
    assert refused(code) in ("os.system", "bytes")


def test_names_hidden_in_the_memo_are_refused():
    # The module and the name are remembered long before they are used.
    code = b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x8c\x04Peck\x94h\x00h\x01\x93."
    assert refused(code) == "os.system"


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (np.array([{}, []], dtype=object), "numpy"), (np.int64(3), "numpy"), (np.float32(3), "numpy"),
        ({np.int64(0): "a"}, "numpy"), (Held(), "Held"), (collections.OrderedDict(a=1), "OrderedDict"),
        (collections.defaultdict(dict), "defaultdict"), (datetime.date(2021, 9, 9), "date"), (len, "len"), (int, "int"),
        (None, "None"), (True, "bool"), ({"a": False}, "bool"), (b"x", "bytes"), (bytearray(b"x"), "bytearray"),
        ({1, 2}, "set"), (frozenset({1}), "frozenset"), (1j, "complex"), (range(3), "range"), (Ellipsis, "Ellipsis"),
    ],
)  # fmt: skip
def test_everything_else_is_refused_by_name(value, named: str):
    assert named in refused(pickle.dumps(value, 4))
    refused(pickle.dumps(value, 2))


def test_other_instructions_are_refused(tmp_path: Path):
    with (tmp_path / "ids.p").open("wb") as file:
        WithIds(file, 4).dump(["outside"])
    assert "PERSID" in refused((tmp_path / "ids.p").read_bytes())
    assert "PERSID" in refused(b"Pelsewhere\n.")
    assert refused(b"\x80\x02\x82\x01.") == "the instruction EXT1"
    assert refused(b"\x80\x05\x97.") == "the instruction NEXT_BUFFER"
    assert refused(b"](2e0.") in ("the instruction DUP",)
    assert refused(b"I01\n.") == "bool"


def test_deep_nesting_is_refused():
    deep = b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."
    assert "values in values" in refused(deep, "too_deep")
    refused(b"\x80\x02)" + b"\x85" * 100_000 + b".", "too_deep")
    refused(b"\x80\x02}K\x01)" + b"\x85" * 100_000 + b"s.", "too_deep")
    as_key = b"\x80\x02})" + b"\x85" * 100_000 + b"K\x01s."
    assert "key" in refused(as_key)
    # Sixteen deep is fine, seventeen not, also where a shorter way leads to the same value.
    value: list = []
    for _ in range(safe_pickle.MAX_DEPTH - 1):
        value = [value]
    assert loads_plain(pickle.dumps(value), "x.p") == value
    refused(pickle.dumps([value]), "too_deep")
    refused(pickle.dumps([value[0], [value]]), "too_deep")


def test_a_value_that_holds_itself_is_refused():
    for value in ([], {}):
        (value.append if isinstance(value, list) else lambda v, d=value: d.update(a=v))(value)
        assert "itself" in refused(pickle.dumps(value), "too_deep")


def test_small_programs_that_grow_are_refused_at_once():
    value: tuple = ("Peck",)
    for _ in range(15):
        value = (value,) * 50
    assert loads_plain(pickle.dumps({"t": value[0]}), "x.p")
    assert "key" in refused(b"\x80\x02}" + pickle.dumps(value, 2)[2:-1] + b"K\x01s.")
    one_more = (value,)
    for _ in range(30):
        one_more = (one_more, one_more)
    refused(pickle.dumps(one_more), "too_deep")
    # A memo at place four thousand million is a place in a dictionary here, and no array of that length.
    assert loads_plain(b"\x80\x02]r\xff\xff\xff\xff.", "x.p") == []


def test_numbers_and_text_of_no_measure_are_refused():
    assert "bits" in refused(pickle.dumps({"t": 1 << 100_000}))
    assert "bits" in refused(pickle.dumps({1 << 70: "a"}))
    refused(pickle.dumps("\ud800"), "bad_text")
    refused(b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"\x01.", "not_pickle")
    refused(b"\x80\x02\x8b" + struct.pack("<i", -1) + b".", "not_pickle")
    refused(b"L" + b"9" * 10_000 + b"L\n.", "not_pickle")


def test_broken_files_are_said_to_be_broken():
    whole = pickle.dumps({"t1": {(0, 25): "Peck", (25, 50): "Other"}}, 4)
    for end in range(len(whole)):
        refused(whole[:end], "not_pickle")
    frame = b"\x80\x04\x95" + struct.pack("<Q", 2**40) + b"}."
    assert "frame" in refused(frame, "not_pickle")
    for data in (b"", b".", b"(.", b"\x80\x09}.", b"}}.", b"a.", b"}s.", b"e.", b"]}K\x01s.", b"h\x05.", b"((a.", b"\x00", b"[]",
                 b"(q\x00.", b"](K\x01.", b"}K\x01u.", b"K\x01K\x02a.", b"}(K\x01u.", b"(\x85."):  # fmt: skip
        refused(data, "not_pickle")
    refused(bytes(1000), "not_pickle")


def test_any_bytes_are_a_plain_value_or_refused():
    rng = random.Random(6)
    whole = pickle.dumps({"t1": {(0, 25): "Peck"}, "t2": [1, 2.5, ("a", 3)]}, 2)
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            value = loads_plain(bytes(data), "x.p")
        except DataError:
            continue
        assert isinstance(value, (dict, tuple, list, str, int, float))


def test_a_large_file_is_refused_by_its_size_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "zeros_BehavDict_C3D_BoTSORT.p"
    with path.open("wb") as file:
        file.truncate(100 * 2**20)
    monkeypatch.setattr(Path, "open", lambda *_, **__: pytest.fail("the file was opened"))
    monkeypatch.setattr(Path, "read_bytes", lambda *_: pytest.fail("the file was read"))
    with pytest.raises(DataError) as caught:
        load_plain(path)
    assert caught.value.problems[0].file == str(path)
    assert caught.value.problems[0].found == "100 MiB"


def test_too_many_instructions_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(safe_pickle, "MAX_STEPS", 100)
    assert refused(pickle.dumps(list(range(300))), "too_large") == "too many values"


def test_files_that_are_not_there(tmp_path: Path):
    with pytest.raises(DataError, match="no such file"):
        load_plain(tmp_path / "none.p")
    with pytest.raises(DataError):
        load_plain(tmp_path)
    path = tmp_path / "x.p"
    path.write_bytes(pickle.dumps({"t": 1}))
    assert load_plain(path) == {"t": 1}


def test_nothing_is_handed_to_pickle(monkeypatch: pytest.MonkeyPatch):
    data = pickle.dumps({"t1": {(0, 25): "Peck"}})
    for name in ("load", "loads", "Unpickler", "_Unpickler", "_load", "_loads"):
        monkeypatch.setattr(pickle, name, lambda *_, **__: pytest.fail("pickle was asked to run it"))
    assert loads_plain(data, "x.p") == {"t1": {(0, 25): "Peck"}}
