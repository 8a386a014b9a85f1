"""Annotations and class lists: every layout, what is odd in them, and the real files by an independent count."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import polars as pl
import pytest

from birdlab.errors import DataError
from birdlab.readers.class_list import read_classes
from birdlab.readers.soundscape_recordings import read_recordings
from birdlab.readers.soundscape_tables import media_names, seconds
from birdlab.readers.soundscape_truth import Annotated, read_annotations
from birdlab.soundscapes.truth import code_truth

OFFICIAL = "SSW0001;amecro;00:00:03-00:00:12;United States\nSITE_2;blujay;00:59:55-01:00:05;United States\n"
RAVEN = "Selection\tView\tChannel\tBegin Time (s)\tEnd Time (s)\tLow Freq (Hz)\tHigh Freq (Hz)\t{}\n"


def written(tmp_path: Path, name: str, text: str | bytes) -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def spans(read: Annotated) -> list[tuple]:
    return read.annotations.select("media_id", "class_id", "start_s", "end_s").rows()


def told(read: Annotated) -> dict[str, int]:
    return {n.code: n.n for n in read.notices}


def codes(error: pytest.ExceptionInfo[DataError]) -> list[tuple[str, int | None]]:
    return [(p.code, p.line) for p in error.value.problems]


@pytest.mark.parametrize(
    "text",
    [
        OFFICIAL,
        "MediaId;ClassId;TC1-TC2;Country\n" + OFFICIAL,
        OFFICIAL.replace("\n", "\r\n"),
        OFFICIAL.rstrip("\n"),
        "\ufeff" + OFFICIAL,
    ],
)
def test_official(tmp_path: Path, text: str) -> None:
    read = read_annotations(written(tmp_path, "gt.csv", text))
    assert spans(read) == [("SSW0001", "amecro", 3, 12), ("SITE_2", "blujay", 3595, 3605)]
    assert read.annotations["row"].to_list() == ([2, 3] if "MediaId" in text else [1, 2])
    assert not read.notices and read.media == ("SSW0001", "SITE_2")


def test_official_wrong_times_have_their_lines(tmp_path: Path) -> None:
    text = OFFICIAL + "a;b;00:00:05;X\na;b;00:61:00-00:62:00;X\n;b;00:00:00-00:00:05;X\n"
    with pytest.raises(DataError) as error:
        read_annotations(written(tmp_path, "gt.csv", text.replace(";b;00:00:00-", "a;b;00:00:00-", 1)))
    assert [c for c in codes(error) if c[0] == "bad_time"] == [("bad_time", 3), ("bad_time", 4)]
    assert "00:61:00" in str(error.value)


def test_official_without_a_recording(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read_annotations(written(tmp_path, "gt.csv", OFFICIAL + ";b;00:00:00-00:00:05;X\n"))
    assert codes(error) == [("no_media", 3)]


def test_a_run_is_no_truth(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read_annotations(written(tmp_path, "run.txt", "SSW0001;00:00:00-00:00:05;amecro;0.9\n"))
    assert codes(error) == [("a_run", 1)]


@pytest.mark.parametrize(
    "row",
    [
        {"ClassId": "amecro", "TC1-TC2": "00:00:03-00:00:12"},
        {"ClassId": "amecro", "TimeCodes": ["00:00:03-00:00:12"]},
        {"ClassId": "amecro", "Start": 3, "End": 12},
        {"ClassId": "amecro", "TC1": "00:00:03", "TC2": "00:00:12"},
        {"ClassId": "amecro", "timecode": [3, 12]},
        {"ClassId": "amecro", "Intervals": [{"start": 3, "end": 12}]},
        {"ClassId": "amecro", "Time": ["00:00:03", "00:00:12"]},
    ],
)
def test_metadata_with_class_ids(tmp_path: Path, row: dict) -> None:
    meta = {"MediaId": "SSW0001", "FileName": "x.wav", "ClassIds": [row]}
    written(tmp_path, "a.json", json.dumps(meta))
    written(tmp_path, "b.json", json.dumps({"MediaId": "SSW0002", "ClassIds": []}))
    written(tmp_path, "c.json", json.dumps({"MediaId": "SSW0003"}))
    read = read_annotations(tmp_path)
    assert spans(read) == [("SSW0001", "amecro", 3, 12)]
    assert read.media == ("SSW0001", "SSW0002")
    assert told(read) == {"no_class_ids": 1, "silent_recordings": 1}


def test_metadata_with_unknown_keys_names_them(tmp_path: Path) -> None:
    meta = {"MediaId": "SSW0001", "ClassIds": [{"ClassId": "amecro", "When": "00:00:03-00:00:12", "Who": 1}]}
    with pytest.raises(DataError) as error:
        read_annotations(written(tmp_path, "a.json", json.dumps(meta)))
    assert "When, Who" in str(error.value) and codes(error) == [("bad_class_ids", None)]
    with pytest.raises(DataError, match="time 1 of ClassIds.*hh:mm:ss"):
        read_annotations(written(tmp_path, "b.json", json.dumps({**meta, "ClassIds": [{"ClassId": "a", "TC": "5"}]})))


def test_metadata_of_test_recordings_is_no_truth(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read_annotations(written(tmp_path, "a.json", json.dumps({"MediaId": "SSW0001"})))
    assert codes(error) == [("no_annotations", None)]


@pytest.mark.parametrize("head", ["Species", "Annotation", "Species eBird Code", "Species Code", "label"])
def test_raven_species_columns(tmp_path: Path, head: str) -> None:
    text = RAVEN.format(head) + "1\tSpectrogram 1\t1\t1.5\t4.25\t100\t900\tWOTH"
    read = read_annotations(written(tmp_path, "x_1.Table.1.selections.txt", text))
    assert spans(read) == [("x_1", "WOTH", 1.5, 4.25)]
    assert read.annotations.select("low_hz", "high_hz").row(0) == (100, 900)


def test_raven_views_of_one_selection_count_once(tmp_path: Path) -> None:
    rows = [
        "1\tWaveform 1\t1\t1\t2\t0\t9\tWOTH",
        "1\tSpectrogram 1\t1\t1\t2\t5\t9\tWOTH",
        "2\tSpectrogram 1\t1\t1\t2\t5\t9\tWOTH",
        "3\tWaveform 1\t1\t7\t8\t5\t9\tEATO",
    ]
    read = read_annotations(written(tmp_path, "a.txt", RAVEN.format("Species") + "\n".join(rows)))
    assert read.annotations["row"].to_list() == [3, 4, 5]
    assert told(read) == {"redundant_view": 1, "annotation_twice": 1}


def test_raven_empty_and_headless(tmp_path: Path) -> None:
    read = read_annotations(written(tmp_path, "a.Table.1.selections.txt", RAVEN.format("Species").strip("\n")))
    assert read.annotations.is_empty() and read.media == ("a",) and told(read) == {"silent_recordings": 1}
    read = read_annotations(written(tmp_path, "b.selections.txt", "1\tSpectrogram 1\t1\t1.5\t4\t100\t900\tWOTH\n"))
    assert spans(read) == [("b", "WOTH", 1.5, 4)] and told(read) == {"no_header": 1}
    with pytest.raises(DataError) as error:
        read_annotations(written(tmp_path, "c.txt", "1\tSpectrogram 1\t2\t1.5\t4\t100\t900\t0.25\tWOTH\n"))
    assert codes(error) == [("no_header", 1)]
    read = read_annotations(written(tmp_path, "d.txt", "0.5\t3.0\tWOTH\n4\t5\tEATO\n"))
    assert spans(read) == [("d", "WOTH", 0.5, 3), ("d", "EATO", 4, 5)]


def test_raven_files_in_a_row_use_the_offset(tmp_path: Path) -> None:
    head = "Selection\tView\tBegin Time (s)\tEnd Time (s)\tBegin File\tFile Offset (s)\tSpecies\n"
    rows = "1\tSpectrogram 1\t3\t5\ta.wav\t3\tx\n2\tSpectrogram 1\t3607.5\t3609\tb.wav\t7.5\ty\n"
    read = read_annotations(written(tmp_path, "all.txt", head + rows))
    assert spans(read) == [("a", "x", 3, 5), ("b", "y", 7.5, 9)]
    plain = "".join(
        "\t".join(c for i, c in enumerate(line.split("\t")) if i != 5) + "\n" for line in (head + rows).splitlines()
    )
    assert told(read_annotations(written(tmp_path, "all2.txt", plain)))["no_file_offset"] == 2


@pytest.mark.parametrize("several", ["amecro blujay", '"amecro, blujay"', '"amecro,blujay"'])
def test_intervals_with_several_codes(tmp_path: Path, several: str) -> None:
    text = f"fid,start_time_s,end_time_s,ebird_codes\nx_1,0,5.5,{several}\nx_1,5,9,cangoo\n"
    read = read_annotations(written(tmp_path, "t.csv", text))
    assert spans(read) == [("x_1", "amecro", 0, 5.5), ("x_1", "blujay", 0, 5.5), ("x_1", "cangoo", 5, 9)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Filename,Start Time (s),End Time (s),Low Freq (Hz),High Freq (Hz),Species eBird Code\na.flac,1,2,3,4,x\n",
            (1, 2),
        ),
        ("file,type,class_name,species,start,length,label\r\na.wav,bird,X_song,x,4.0,0.25,4\r\n", (4, 4.25)),
        ("media_id,start_s,class_id\na,10,x\n", (10, 15)),
        ("row_id,seconds,birds\na_15,15,x\n", (10, 15)),
        ("Begin Time (s)\tEnd Time (s)\tBegin Path\tSpecies\n1\t2\tC:\\rec\\a.wav\tx\n", (1, 2)),
        ("fid;start_time_s;end_time_s;ebird_codes\na;00:10:00;00:10:04.5;x\n", (600, 604.5)),
    ],
)
def test_tables(tmp_path: Path, text: str, expected: tuple[float, float]) -> None:
    assert spans(read_annotations(written(tmp_path, "t.csv", text))) == [("a", "x", *expected)]


def test_parquet_segments(tmp_path: Path) -> None:
    pl.DataFrame({"media_id": ["49846", "b"], "start_s": [10, 0], "class_id": ["x", "y"]}).write_parquet(
        tmp_path / "s.parquet"
    )
    assert spans(read_annotations(tmp_path / "s.parquet")) == [("49846", "x", 10, 15), ("b", "y", 0, 5)]


def test_segments_off_the_grid_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read_annotations(written(tmp_path, "t.csv", "media_id,start_s,class_id\na,10,x\na,12,x\n"))
    assert codes(error) == [("off_the_grid", 3)]


def test_a_folder_of_tables_and_one_combined_table_say_the_same(tmp_path: Path) -> None:
    rows = {"a": [(1, 2, "x"), (3, 4, "y")], "b": [(0, 9, "x")], "c": []}
    for name, held in rows.items():
        body = "".join(f"{i}\tSpectrogram 1\t1\t{s}\t{e}\t1\t2\t{c}\n" for i, (s, e, c) in enumerate(held, 1))
        written(tmp_path, f"many/{name}.Table.1.selections.txt", RAVEN.format("Species") + body)
    one = "".join(f"{n}.wav,{s},{e},{c}\n" for n, held in rows.items() for s, e, c in held)
    combined = read_annotations(written(tmp_path, "one.csv", "Filename,Start Time (s),End Time (s),Species\n" + one))
    folder = read_annotations(tmp_path / "many")
    assert spans(folder) == spans(combined)
    assert folder.media == ("a", "b", "c") and combined.media == ("a", "b")


def test_tables_of_one_name_in_two_folders_are_not_merged(tmp_path: Path) -> None:
    for site in ("siteA", "siteB"):
        text = RAVEN.format("Species") + "1\tSpectrogram 1\t1\t1\t2\t1\t2\tx\n"
        written(tmp_path, f"{site}/0001.Table.1.selections.txt", text)
    with pytest.raises(DataError) as error:
        read_annotations(tmp_path)
    assert [c for c, _ in codes(error)] == ["same_file_name"]


def test_odd_spans_are_counted_and_named(tmp_path: Path) -> None:
    rows = [
        "a,-2,3,x",
        "a,-9,-4,x",
        "a,9,4,x",
        "a,5,5,x",
        "a,18,25,y",
        "a,0,5,????",
        "a,0,5,nocall",
        "b,0,5,",
        "a,18,25,y",
    ]
    text = "fid,start_time_s,end_time_s,ebird_codes\n" + "\n".join(rows) + "\n"
    recordings = pl.DataFrame({"media_id": ["a", "b"], "duration_s": [20.0, 20.0]})
    read = read_annotations(written(tmp_path, "t.csv", text), recordings=recordings)
    assert spans(read) == [("a", "x", 0, 3), ("a", "x", 9, 4), ("a", "x", 5, 5), ("a", "y", 18, 25), ("a", "y", 18, 25)]
    assert told(read) == {
        "empty_code": 1,
        "nocall": 1,
        "unknown_code": 1,
        "before_start": 1,
        "negative_start": 1,
        "silent_recordings": 1,
        "reversed_span": 1,
        "zero_length": 1,
        "annotation_twice": 1,
        "past_the_end": 2,
    }
    assert "y in a at 18-25 s" in next(n.message for n in read.notices if n.code == "past_the_end")


def test_names_of_files_through_the_recordings(tmp_path: Path) -> None:
    recordings = pl.DataFrame(
        {"media_id": ["SSW0001", "2"], "file": ["deep/x_1.flac", "y.wav"], "duration_s": [None, 1.0]}
    )
    names = media_names(["x_1.wav", "deep/x_1.flac", "x_1", "SSW0001", "new.wav"], recordings, shown="t")
    assert names.of == {
        "x_1.wav": "SSW0001",
        "deep/x_1.flac": "SSW0001",
        "x_1": "SSW0001",
        "SSW0001": "SSW0001",
        "new.wav": "new",
    }
    assert (names.by_stem, names.unknown) == (["new.wav"], ["new"])
    with pytest.raises(DataError, match="same|siteA"):
        media_names(["siteA/0.wav", "siteB/0.wav"], None, shown="t")
    two = pl.DataFrame({"media_id": ["p", "q"], "file": ["siteA/0.wav", "siteB/0.wav"]})
    assert media_names(["siteA/0.wav", "siteB/0.wav"], two, shown="t").of == {"siteA/0.wav": "p", "siteB/0.wav": "q"}
    with pytest.raises(DataError, match="p, q"):
        media_names(["0.wav"], two, shown="t")


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("a.csv", "", "empty_file"),
        ("a.csv", b"fid,start\n\x00\x01", "binary"),
        ("a.csv", "media_id,start_s\na,5\n", "missing_column"),
        ("a.csv", "media_id,class_id\na,x\n", "missing_column"),
        ("a.csv", "fid,start_time_s,end_time_s,ebird_codes\na,1,2\n", "ragged_row"),
        ("a.csv", "fid;start_time_s;end_time_s;ebird_codes\na;1,5;2;x\n", "bad_time"),
        ("a.csv", "fid,start_time_s,end_time_s,ebird_codes\na,nan,2,x\n", "bad_time"),
        ("a.csv", "fid,start_time_s,end_time_s,ebird_codes\na,1,inf,x\n", "bad_time"),
        ("a.json", "{", "not_json"),
        ("a.json", "[1]", "not_an_object"),
        ("a.json", "{}", "missing_key"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, name: str, text: str | bytes, code: str) -> None:
    with pytest.raises(DataError) as error:
        read_annotations(written(tmp_path, name, text))
    assert codes(error)[0][0] == code


def test_missing_file_and_folder_without_tables(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(DataError):
            read_annotations(path)


def test_seconds_past_a_day() -> None:
    assert seconds(pl.Series(["26:00:01.5", "1:2:3", "00:00:60", "inf", None])).to_list() == [
        93601.5,
        3723,
        None,
        None,
        None,
    ]


# --- the real files ---------------------------------------------------------------------------------------------------


def counted(path: Path) -> list[dict[str, str]]:
    delimiter = "\t" if path.suffix == ".txt" else ","
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file, delimiter=delimiter) if any(row.values())]


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "n", "n_left_out"),
    [
        ("perch_birdclef2019/birdclef2019_ssw.csv", 3, 0),
        ("perch_birdclef2019/birdclef2019_colombia.csv", 7, 0),
        ("perch_testdata/caples.csv", 6, 0),
        ("perch_testdata/coffee_farms.csv", 4, 0),
        ("perch_testdata/hawaii.csv", 5, 0),
        ("perch_testdata/high_sierras.csv", 6, 0),
        ("perch_testdata/peru.csv", 4, 1),
        ("perch_testdata/powdermill.csv", 5, 0),
        ("perch_testdata/sierras_kahl.csv", 4, 0),
        ("perch_testdata/ssw.csv", 4, 0),
        ("perch_testdata/powdermill_Recording_1_Segment_05.Table.1.selections.txt", 5, 0),
        ("raven_EmptyExample.Table.1.selections.txt", 0, 0),
        ("raven_MSD-0003_20180427_2minstart00.Table.1.selections.txt", 9, 1),
        ("raven_raven_with_Annotation_col.txt", 1, 0),
        ("nips4bplus_mod_bird_sps_train_files.csv", 3959, 0),
        ("nips4bplus_mod_bird_sps_test_files.csv", 1320, 0),
    ],
)
def test_real_files_are_read(real_data: Path, name: str, n: int, n_left_out: int) -> None:
    path = real_data / "soundscape_labels" / name
    rows = counted(path)
    read = read_annotations(path)
    assert read.annotations.height == n
    assert (
        len(rows) == n + n_left_out == n + sum(v for k, v in told(read).items() if k in ("unknown_code", "empty_code"))
    )
    starts = [k for k in (rows[0] if rows else ()) if k.casefold().startswith(("start", "begin time"))]
    if n_left_out == 0 and rows:
        assert math.isclose(sum(float(r[starts[0]]) for r in rows), read.annotations["start_s"].sum(), rel_tol=1e-12)


@pytest.mark.real
def test_real_nips4bplus_ends_are_start_plus_length(real_data: Path) -> None:
    for part, n_files in (("train", 528), ("test", 417)):
        path = real_data / "soundscape_labels" / f"nips4bplus_mod_bird_sps_{part}_files.csv"
        rows, read = counted(path), read_annotations(path)
        expected = [(Path(r["file"]).stem, r["species"], float(r["start"]) + float(r["length"])) for r in rows]
        assert read.annotations.select("media_id", "class_id", "end_s").rows() == expected
        assert len(read.media) == n_files and read.annotations["class_id"].n_unique() == 51


@pytest.mark.real
def test_real_2019_files_are_named_by_their_metadata(real_data: Path) -> None:
    folder = real_data / "soundscape_labels" / "perch_birdclef2019"
    recordings, _ = read_recordings(folder)
    paths = [folder / "birdclef2019_ssw.csv", folder / "birdclef2019_colombia.csv"]
    read = read_annotations(paths, recordings=recordings)
    assert set(read.media) == {"SSW0001", "49846", "49847"} == set(recordings["media_id"])
    classes, notices = read_classes(folder / "class_list_colombia.csv")
    assert len(classes) == 63 and classes[-1] == "ywcpar" and [n.code for n in notices] == ["class_list_header"]
    colombia = read.annotations.filter(pl.col("media_id") != "SSW0001")
    # The list has eBird's codes of 2021, the annotations one older code.
    with pytest.raises(DataError, match="'rufant1' in 1 annotations"):
        code_truth(colombia, recordings, classes)
    truth = code_truth(colombia, recordings, (*classes, "rufant1"))
    # 128-138: 125..140, three; 240-270: six; 98-99: one; 118-119: one; 102-103: one; 220-226: two; 59-66: 55..70, three.
    counts = {c: int(n) for c, n in zip(truth.classes, truth.n_rel, strict=True) if n}
    assert counts == {"rufant1": 3, "kebtou1": 6, "stbwre2": 2, "yeofly1": 1, "bubwre1": 2, "fepowl": 3}


@pytest.mark.real
def test_real_ssw_rows_on_the_grid(real_data: Path) -> None:
    read = read_annotations(real_data / "soundscape_labels" / "perch_testdata" / "ssw.csv")
    sizes = {}
    for row in read.annotations.iter_rows(named=True):
        one = read.annotations.filter((pl.col("start_s") == row["start_s"]) & (pl.col("media_id") == row["media_id"]))
        sizes[row["start_s"], row["end_s"]] = len(code_truth(one).seg)
    assert sizes == {(47.4, 51.3): 2, (846.0, 846.3): 1, (2445.4, 2445.6): 1, (2442.0, 2470.7): 7}


WIDE = "row_id,amecro,blujay,norcar\ncreek_1_5,1,0,0\ncreek_1_10,1,1.0,0\npond_5,0,0,0\n"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_one_column_per_class(tmp_path: Path, ending: str) -> None:
    path = written(tmp_path, "wide.csv", WIDE)
    if ending == "parquet":
        path = tmp_path / "wide.parquet"
        pl.read_csv(tmp_path / "wide.csv").write_parquet(path)
    read = read_annotations(path)
    assert spans(read) == [("creek_1", "amecro", 0, 5), ("creek_1", "amecro", 5, 10), ("creek_1", "blujay", 5, 10)]
    assert read.media == ("creek_1", "pond") and told(read) == {"silent_recordings": 1}


def test_one_column_per_class_with_empty_lines(tmp_path: Path) -> None:
    read = read_annotations(written(tmp_path, "wide.csv", "row_id,a,b\nr_5,1,0\n\nr_10,0,1\n\n"))
    assert spans(read) == [("r", "a", 0, 5), ("r", "b", 5, 10)] and read.annotations["row"].to_list() == [2, 4]


def test_one_column_per_class_says_where_it_is_no_truth(tmp_path: Path) -> None:
    text = WIDE.replace("creek_1_10,1,", "creek_1_10,0.7,").replace("pond_5,0,0,0", "pond_7,0,0,\npond_7,0,0,0")
    with pytest.raises(DataError) as error:
        read_annotations(written(tmp_path, "wide.csv", text))
    assert sorted(codes(error)) == [
        ("bad_row_id", 4),
        ("bad_row_id", 5),
        ("no_yes_or_no", 3),
        ("no_yes_or_no", 4),
        ("row_id_twice", 5),
    ]
    assert "Probabilities are a run" in str(error.value) and "0.7" in str(error.value)


def test_detections_of_birdnet_as_annotations(tmp_path: Path) -> None:
    text = "Start (s),End (s),Scientific name,Common name,Confidence\n"
    text += "0,3,Corvus brachyrhynchos,American Crow,0.9\n3,6,Cyanocitta cristata,Blue Jay,0.2\n6,9,Nullus nemo,Nobody,0.5\n"
    path = written(tmp_path, "creek.BirdNET.results.csv", text)
    named = read_annotations(path)
    assert spans(named) == [
        ("creek", "American Crow", 0, 3),
        ("creek", "Blue Jay", 3, 6),
        ("creek", "Nobody", 6, 9),
    ]
    coded = read_annotations(path, classes=("amecro", "Cyanocitta cristata"))
    assert [s[1] for s in spans(coded)] == ["amecro", "Cyanocitta cristata", "Nobody"]
    assert told(coded) == {"detections_as_truth": 3, "names_to_codes": 2}
