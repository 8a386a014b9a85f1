"""Recordings: tables, metadata, sound files; starts in UTC and on local clocks; lengths from headers."""

from __future__ import annotations

import json
import struct
import wave
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from birdlab.errors import DataError, Problem
from birdlab.readers.sound_length import sound_seconds
from birdlab.readers.soundscape_clock import Start, moment, start_of, zone_of
from birdlab.readers.soundscape_recordings import RECORDINGS, read_recordings


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def wav(path: Path, seconds: float, *, rate: int = 8000, channels: int = 2, width: int = 2) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(bytes(int(seconds * rate) * channels * width))
    return path


def test_table(tmp_path: Path) -> None:
    text = (
        "media_id,duration_s,recorder,site,start_utc,timezone,latitude,extra\n"
        "49846,3600,R1,S1,2017-03-25T23:00:16Z,UTC-5,42.5,x\n"
        "b,00:10:00,R2,,2017-07-01T04:30:00+00:00,America/New_York,,\n"
        "c,,,,,,,\n"
    )
    frame, notices = read_recordings(written(tmp_path, "r.csv", text))
    assert frame.columns == list(RECORDINGS.dtypes)
    assert frame["media_id"].to_list() == ["49846", "b", "c"]
    assert frame["duration_s"].to_list() == [3600, 600, None]
    assert frame["start_local"].to_list() == [datetime(2017, 3, 25, 18, 0, 16), datetime(2017, 7, 1, 0, 30), None]
    assert frame["start_utc"][0] == datetime(2017, 3, 25, 23, 0, 16)
    assert {n.code: n.n for n in notices} == {"columns_not_used": 1, "no_start": 1, "no_duration": 1}


def test_ids_stay_text_and_files_name_recordings(tmp_path: Path) -> None:
    frame, _ = read_recordings(written(tmp_path, "r.csv", "media_id,duration_s\n007,5\n1.0,5\n"))
    assert frame["media_id"].to_list() == ["007", "1.0"]
    frame, notices = read_recordings(written(tmp_path, "f.csv", "Filename,duration\ndeep/a_SWIFT07_x.wav,5\n"))
    assert frame.select("media_id", "file", "recorder").row(0) == ("a_SWIFT07_x", "deep/a_SWIFT07_x.wav", "SWIFT07")
    assert "media_from_file_name" in [n.code for n in notices]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("media_id,duration_s\na,5\na,6\n", "media_twice", 3),
        ("media_id,duration_s\na,0\n", "bad_duration", 2),
        ("media_id,duration_s\na,nan\n", "bad_duration", 2),
        ("media_id,duration_s\na,-3\n", "bad_duration", 2),
        ("media_id,duration_s\na,long\n", "bad_duration", 2),
        ("media_id,start_utc\na,yesterday\n", "bad_time", 2),
        ("media_id,timezone\na,Mars/Base\n", "bad_time", 2),
        ("media_id,latitude\na,95\n", "bad_value", 2),
        ("media_id,duration_s\n,5\n", "no_media", 2),
        ("name,duration_s\na,5\n", "missing_column", 1),
        ("media_id,duration_s\n", "no_recordings", None),
    ],
)
def test_wrong_tables(tmp_path: Path, text: str, code: str, line: int | None) -> None:
    with pytest.raises(DataError) as error:
        read_recordings(written(tmp_path, "r.csv", text))
    assert [(p.code, p.line) for p in error.value.problems] == [(code, line)]


def test_all_problems_of_a_table(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read_recordings(
            written(tmp_path, "r.csv", "media_id,duration_s,start_utc\na,x,y\nb,0,2017-01-01 00:00\na,1,\n")
        )
    assert [p.line for p in error.value.problems] == [2, 2, 3, 4]


def test_metadata(tmp_path: Path) -> None:
    meta = {
        "MediaId": "SSW0001", "FileName": "x.wav", "Date": "2017-03-26", "Time": "03:30 UTC", "Timezone": "UTC-5",
        "RecordingSite": 2, "RecordingUnit": 29, "Latitude": 42.5, "Longitude": -76.5, "Country": "United States",
    }  # fmt: skip
    written(tmp_path, "a.json", json.dumps(meta))
    written(tmp_path, "b.json", json.dumps({"MediaId": "49846", "Date": "2016-02-14", "Time": "12:40:00"}))
    wav(tmp_path / "x.wav", 12.5)
    frame, notices = read_recordings(tmp_path)
    assert frame["media_id"].to_list() == ["SSW0001", "49846"]
    # Half past three UTC is the evening before at the recorder.
    assert frame["start_local"].to_list() == [datetime(2017, 3, 25, 22, 30), datetime(2016, 2, 14, 12, 40)]
    assert frame["start_utc"].to_list() == [datetime(2017, 3, 26, 3, 30), None]
    assert frame.select("recorder", "site", "duration_s").row(0) == ("29", "2", 12.5)
    assert {n.code: n.n for n in notices} == {"no_zone": 1, "no_duration": 1}


def test_metadata_twice_and_broken(tmp_path: Path) -> None:
    for name in ("a", "b"):
        written(tmp_path, f"{name}.json", json.dumps({"MediaId": "1"}))
    written(tmp_path, "c.json", "{")
    with pytest.raises(DataError) as error:
        read_recordings(tmp_path)
    assert sorted(p.code for p in error.value.problems) == ["media_twice", "not_json"]
    assert "a.json" in str(error.value)


def test_sound_files_alone(tmp_path: Path) -> None:
    wav(tmp_path / "SSW_001_20170225_010000Z.wav", 7)
    wav(tmp_path / "HSN_001_20150708_061805.wav", 5)
    (tmp_path / "notes.txt").write_text("x")
    frame, notices = read_recordings(tmp_path)
    by = {row["media_id"]: row for row in frame.to_dicts()}
    assert by["SSW_001_20170225_010000Z"]["start_utc"] == datetime(2017, 2, 25, 1)
    assert by["SSW_001_20170225_010000Z"]["start_local"] is None
    assert by["HSN_001_20150708_061805"]["start_local"] == datetime(2015, 7, 8, 6, 18, 5)
    assert frame["duration_s"].sort().to_list() == [5, 7]
    assert {"from_sound_files", "start_from_name", "start_from_name_local"} <= {n.code for n in notices}
    with pytest.raises(DataError):
        read_recordings(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("held", "name", "utc", "local"),
    [
        ({"date": "2017-03-25", "time": "23:00 UTC", "timezone": "UTC-5"}, "", (25, 23), (25, 18)),
        ({"date": "2017-03-25", "time": "12:40:00"}, "", None, (25, 12)),
        ({"date": "2017-03-25", "time": "22:00", "timezone": "UTC-5"}, "", (26, 3), (25, 22)),
        ({"start_local": "2017-03-25T22:00:00-05:00"}, "", (26, 3), (25, 22)),
        ({"start_utc": "2017-03-25 22:00", "start_local": "2017-03-25 17:00"}, "", (25, 22), (25, 17)),
        ({"timezone": "UTC-5"}, "S1067SSW04_048K_S02_SWIFT29_20170325_230016Z", (25, 23), (25, 18)),
        ({"timezone": "UTC−5"}, "x_20170325_180016", (25, 23), (25, 18)),
        ({}, "SSW_001_20170325_010000Z", (25, 1), None),
        ({}, "x_20171399_010000Z", None, None),
        ({}, "nothing", None, None),
    ],
)  # fmt: skip
def test_starts(held: dict, name: str, utc: tuple | None, local: tuple | None) -> None:
    start = start_of(held, name)
    assert isinstance(start, Start)
    for found, expected in ((start.utc, utc), (start.local, local)):
        assert (found and (found.day, found.hour)) == expected
        assert found is None or found.tzinfo is None


def test_daylight_saving_of_a_named_zone() -> None:
    winter, summer = (
        start_of({"start_utc": f"2017-{m}-01 12:00", "timezone": "America/New_York"}, "") for m in ("01", "07")
    )
    assert winter.local.hour == 7 and summer.local.hour == 8


def test_times_that_are_none() -> None:
    assert moment("2017-03-25") is None and moment("25.3.2017 12:00") is None and zone_of("UTC+99") is None
    assert isinstance(start_of({"date": "2017-03-25", "time": "noon"}, ""), Problem)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_lengths_of_wav(tmp_path: Path, width: int) -> None:
    assert sound_seconds(wav(tmp_path / "a.wav", 1.5, width=width)) == 1.5


def test_lengths_of_odd_wav(tmp_path: Path) -> None:
    whole = wav(tmp_path / "a.wav", 2.0, channels=1).read_bytes()
    at = whole.index(b"data") + 4
    cases = {
        "cut": (whole[: at + 4 + 16000], 1.0),
        "zero": (whole[:at] + b"\0\0\0\0" + whole[at + 4 :], 2.0),
        "endless": (whole[:at] + b"\xff\xff\xff\xff" + whole[at + 4 :], 2.0),
        "float": (whole[:20] + struct.pack("<H", 3) + whole[22:], 2.0),
        "chunk": (whole[: at - 4] + b"LIST" + struct.pack("<I", 3) + b"abc\0" + whole[at - 4 :], 2.0),
    }
    for name, (raw, expected) in cases.items():
        path = tmp_path / f"{name}.wav"
        path.write_bytes(raw)
        assert sound_seconds(path) == expected, name
    for raw in (b"", b"RIFF", b"RIFF\0\0\0\0WAVE", b"nothing at all", whole[: at - 8]):
        path = tmp_path / "bad.wav"
        path.write_bytes(raw)
        assert sound_seconds(path) is None


def test_lengths_of_flac_by_its_header(tmp_path: Path) -> None:
    packed = (48_000 << 44) | (1 << 41) | (15 << 36) | (48_000 * 3600)
    info = bytes(10) + packed.to_bytes(8, "big") + bytes(16)
    path = tmp_path / "a.flac"
    path.write_bytes(b"fLaC" + bytes([0x80]) + len(info).to_bytes(3, "big") + info)
    assert sound_seconds(path) == 3600


@pytest.mark.real
def test_real_metadata(real_data: Path) -> None:
    folder = real_data / "soundscape_labels" / "perch_birdclef2019"
    frame, notices = read_recordings(folder)
    raw = {m["MediaId"]: m for m in (json.loads(p.read_text()) for p in folder.glob("*.json"))}
    assert set(frame["media_id"]) == set(raw) and frame.height == 3
    for row in frame.to_dicts():
        meta = raw[row["media_id"]]
        assert (row["latitude"], row["longitude"], row["country"], row["file"]) == tuple(
            meta[k] for k in ("Latitude", "Longitude", "Country", "FileName")
        )
    ithaca = frame.filter(pl.col("media_id") == "SSW0001").row(0, named=True)
    assert (ithaca["start_utc"], ithaca["start_local"]) == (datetime(2017, 3, 25, 23), datetime(2017, 3, 25, 18))
    assert (ithaca["recorder"], ithaca["site"]) == ("29", "2")
    local = frame.filter(pl.col("media_id") == "49847").row(0, named=True)
    assert (local["start_utc"], local["start_local"]) == (None, datetime(2016, 2, 14, 8, 10))
    assert {n.code: n.n for n in notices} == {"no_zone": 2, "no_duration": 3}


@pytest.mark.real
def test_real_wav(real_data: Path) -> None:
    path = real_data / "soundscape_labels" / "birds_10s.wav"
    with wave.open(str(path)) as file:
        assert sound_seconds(path) == file.getnframes() / file.getframerate() == 324263 / 32000
