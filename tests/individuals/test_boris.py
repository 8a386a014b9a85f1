"""Exports of BORIS: three layouts of old and new versions, times to frames, what is cut and what is refused."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from birdlab import schemas
from birdlab.errors import DataError, ParameterError
from birdlab.readers.boris import EVENTS, read_boris, video_name
from birdlab.readers.boris_frames import frame_of, presence, to_colony_events
from birdlab.readers.boris_table import seconds

OLD = """Observation id\tnest 4\t\t\t\t\t\t\t
\t\t\t\t\t\t\t\t
Media file(s)\t\t\t\t\t\t\t\t
\t\t\t\t\t\t\t\t
Player #1\tvideos/nest_04.mp4\t\t\t\t\t\t\t
\t\t\t\t\t\t\t\t
Observation date\t2021-05-03 06:10:00\t\t\t\t\t\t\t
Time offset (s)\t0.0\t\t\t\t\t\t\t
independent variables\t\t\t\t\t\t\t\t
variable\tvalue\t\t\t\t\t\t\t
coder\tmaria\t\t\t\t\t\t\t
\t\t\t\t\t\t\t\t
Time\tMedia file path\tTotal length\tFPS\tSubject\tBehavior\tBehavioral category\tComment\tStatus
1.160\tvideos/nest_04.mp4\t60.000\t25.0\tabcd_1\tpeck\t\t\tPOINT
2.000\tvideos/nest_04.mp4\t60.000\t25.0\t\tsit\t\t\tSTART
3.000\tvideos/nest_04.mp4\t60.000\t25.0\tabcd_1\tsit\t\t\tSTART
4.500\tvideos/nest_04.mp4\t60.000\t25.0\t\tsit\t\t\tSTOP
9.040\tvideos/nest_04.mp4\t60.000\t25.0\tabcd_1\tsit\t\t\tSTOP
"""
FLAT = """Observation id,Observation date,Description,Observation duration,Observation type,Source,Time offset (s),Subject,\
Observation duration by subject by observation,Behavior,Behavioral category,Modifier #1,Behavior type,Time,\
Media file name,Media duration (s),FPS (frame/s),Image index,Image file path,Comment
a,2024-05-01,,60,Media file(s),player #1:v/n1.mp4,0,abcd,60,peck,,hard,POINT,1.16,v/n1.mp4,60.0,25,29,NA,
a,2024-05-01,,60,Media file(s),player #1:v/n1.mp4,0,No focal subject,60,alarm,,NA,START,5,v/n1.mp4,60.0,25,125,NA,
b,2024-05-01,,30,Media file(s),player #1:v/n2.mp4,0,abcd,30,peck,,NA,POINT,0.5,v/n2.mp4,30.0,30,15,NA,
a,2024-05-01,,60,Media file(s),player #1:v/n1.mp4,0,No focal subject,60,alarm,,NA,STOP,6,v/n1.mp4,60.0,25,150,NA,
"""
AGGREGATED = """Observation id\tObservation date\tDescription\tMedia file\tTotal length\tFPS\tSubject\tBehavior\t\
Behavioral category\tModifiers\tBehavior type\tStart (s)\tStop (s)\tDuration (s)\tComment start\tComment stop
o1\t2021-05-03\t\tn1.mp4\t60.0\t25.0\tabcd\tsit\t\t\tSTATE\t1.800\t8.125\t6.325\t\t
o1\t2021-05-03\t\tn1.mp4\t60.0\t25.0\tNo focal subject\tpeck\t\t\tPOINT\t32.825\t32.825\tNA\t\t
"""


def written(folder, text: str, name: str = "events.tsv", encoding: str = "utf-8"):
    path = folder / name
    path.write_text(text, encoding=encoding)
    return path


def rows(boris) -> list[tuple]:
    return boris.events.select("video_id", "individual_id", "behaviour", "start_s", "end_s", "kind").rows()


def test_old_tabular_events_behind_a_block(tmp_path):
    read = read_boris(written(tmp_path, OLD))
    assert read.layout == "tabular"
    assert rows(read) == [
        ("nest_04", "abcd_1", "peck", 1.16, 1.16, "point"),
        ("nest_04", None, "sit", 2.0, 4.5, "state"),
        ("nest_04", "abcd_1", "sit", 3.0, 9.04, "state"),
    ]
    assert read.media.rows() == [("nest 4", "maria", "nest_04", 60.0, 25.0)]
    assert read.events["observer"].unique().to_list() == ["maria"]
    assert dict(read.events.schema) == EVENTS


def test_new_tabular_events_of_two_observations(tmp_path):
    read = read_boris(written(tmp_path, FLAT, "events.csv"), observer="ines")
    assert rows(read) == [
        ("n1", "abcd", "peck", 1.16, 1.16, "point"),
        ("n1", None, "alarm", 5.0, 6.0, "state"),
        ("n2", "abcd", "peck", 0.5, 0.5, "point"),
    ]
    assert read.events["modifiers"].to_list() == ["hard", "", ""]
    assert read.media.rows() == [("a", "ines", "n1", 60.0, 25.0), ("b", "ines", "n2", 30.0, 30.0)]


def test_aggregated_events(tmp_path):
    read = read_boris(written(tmp_path, AGGREGATED))
    assert read.layout == "aggregated"
    assert rows(read) == [("n1", "abcd", "sit", 1.8, 8.125, "state"), ("n1", None, "peck", 32.825, 32.825, "point")]


def test_newest_words_of_aggregated_events(tmp_path):
    text = AGGREGATED.replace("\tSTATE\t", "\tState event\t").replace("32.825\t32.825\tNA", "32.825\tNA\tNA")
    text = text.replace("\tPOINT\t", "\tPoint event\t")
    assert rows(read_boris(written(tmp_path, text))) == rows(read_boris(written(tmp_path, AGGREGATED)))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_and_encodings(tmp_path, delimiter, encoding):
    text = AGGREGATED.replace("\t", delimiter)
    read = read_boris(written(tmp_path, text, encoding=encoding))
    assert rows(read) == rows(read_boris(written(tmp_path, AGGREGATED, "other.tsv")))


def test_decimal_commas_and_clock_times(tmp_path):
    text = OLD.replace("1.160", "1,160").replace("9.040", "00:00:09.040").replace("60.000", "60,000")
    assert rows(read_boris(written(tmp_path, text))) == rows(read_boris(written(tmp_path, OLD, "other.tsv")))


@pytest.mark.parametrize(("cell", "value"), [("1:02:03.5", 3723.5), ("12", 12.0), ("1.000,5", None), ("inf", None)])
def test_seconds(cell, value):
    assert seconds(cell) == value


def test_british_columns(tmp_path):
    text = AGGREGATED.replace("Behavior\t", "Behaviour\t")
    assert len(read_boris(written(tmp_path, text)).events) == 2


def test_several_media_files_make_one_video(tmp_path):
    text = AGGREGATED.replace("n1.mp4", "n2.mp4", 1)
    read = read_boris(written(tmp_path, text))
    assert read.events["video_id"].unique().to_list() == ["o1"]
    assert "several_files" in read.notices["code"]


def test_unpaired_states_are_named_with_their_lines(tmp_path):
    text = OLD.replace("4.500\tvideos/nest_04.mp4\t60.000\t25.0\t\tsit\t\t\tSTOP\n", "")
    text += "20.000\tvideos/nest_04.mp4\t60.000\t25.0\twxyz\tsit\t\t\tSTOP\n"
    with pytest.raises(DataError) as caught:
        read_boris(written(tmp_path, text))
    found = {(p.code, p.line, p.found) for p in caught.value.problems}
    assert found == {
        ("unpaired_state", 18, "STOP of sit (wxyz) at 20 s alone"),
        ("unpaired_state", 15, "START of sit (no focal subject) at 2 s alone"),
    }


def test_a_state_is_paired_with_its_own_modifiers(tmp_path):
    head = "Observation id\tSubject\tBehavior\tModifiers\tBehavior type\tTime\n"
    text = head + "o\ta\tsit\tx\tSTART\t1\no\ta\tsit\ty\tSTART\t2\no\ta\tsit\tx\tSTOP\t3\no\ta\tsit\ty\tSTOP\t5\n"
    read = read_boris(written(tmp_path, text))
    assert read.events.select("modifiers", "start_s", "end_s").rows() == [("x", 1.0, 3.0), ("y", 2.0, 5.0)]
    assert read.media["length_s"].to_list() == [None]
    assert "no_length" in read.notices["code"]


def test_one_state_ends_when_the_next_begins(tmp_path):
    head = "Observation id\tSubject\tBehavior\tBehavior type\tTime\n"
    text = head + "o\ta\tsit\tSTART\t1\no\ta\tsit\tSTOP\t2\no\ta\tsit\tSTART\t2\no\ta\tsit\tSTOP\t3\n"
    assert read_boris(written(tmp_path, text)).events["end_s"].to_list() == [2.0, 3.0]


def test_past_the_end_is_cut_and_counted(tmp_path):
    text = AGGREGATED.replace("8.125", "61.5").replace("32.825\t32.825", "60.5\t60.5")
    read = read_boris(written(tmp_path, text))
    assert rows(read) == [("n1", "abcd", "sit", 1.8, 60.0, "state")]
    said = dict(read.notices.select("code", "n").rows())
    assert said == {"past_the_end": 1, "after_the_end": 1}
    assert "line 3" in read.notices.filter(pl.col("code") == "after_the_end")["message"][0]


def test_bad_cells_are_all_named(tmp_path):
    text = AGGREGATED.replace("1.800", "soon").replace("\tPOINT\t", "\tDOT\t")
    with pytest.raises(DataError) as caught:
        read_boris(written(tmp_path, text))
    assert [(p.line, p.key, p.found) for p in caught.value.problems] == [
        (2, "Start (s)", "'soon'"),
        (3, "Behavior type", "'DOT'"),
    ]


def test_reversed_times(tmp_path):
    with pytest.raises(DataError, match="end not before its start, 1.8"):
        read_boris(written(tmp_path, AGGREGATED.replace("8.125", "0.125")))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Subject,Behavior,Begin\na,peck,1\n", "found Subject, Behavior, Begin; expected columns Subject, Behavior"),
        ("Observation id,Subject,Behavior,Total number of occurences\no,a,peck,3\n", "A time budget holds sums"),
        ('{"observations": {}}', "a project file is no table"),
        ("", "found nothing"),
    ],
)
def test_other_tables_are_refused_in_words(tmp_path, text, part):
    with pytest.raises(DataError) as caught:
        read_boris(written(tmp_path, text, "x.csv"))
    assert part.casefold() in str(caught.value).casefold()


def test_a_quote_that_is_never_closed_swallows_no_rows(tmp_path):
    text = FLAT.replace("a,2024-05-01,,60", 'a,2024-05-01,"seen,60', 1)
    with pytest.raises(DataError, match="close the quote|Close the quote"):
        read_boris(written(tmp_path, text, "x.csv"))
    quoted = FLAT.replace("abcd", '"ab, ""cd"""')
    assert read_boris(written(tmp_path, quoted, "y.csv")).events["individual_id"][0] == 'ab, "cd"'


def test_a_missing_file(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_boris(tmp_path / "none.tsv")


def test_a_list_without_events(tmp_path):
    read = read_boris(written(tmp_path, AGGREGATED.splitlines()[0] + "\n"))
    assert read.events.is_empty()
    assert to_colony_events(read.events, 25).is_empty()


@pytest.mark.parametrize(("t", "fps", "frame"), [(1.16, 25, 29), (1.14, 25, 29), (0.0, 25, 0), (33.367, 29.97, 1000)])
def test_time_to_frame(t, fps, frame):
    assert frame_of(t, fps) == frame


@pytest.mark.parametrize("fps", [25, 29.97, 30, 50, 59.94])
def test_every_frame_comes_back_from_its_time_in_thousandths(fps):
    frames = range(0, 20_000, 7)
    assert [frame_of(round(f / fps, 3), fps) for f in frames] == list(frames)


def test_colony_events(tmp_path):
    read = read_boris(written(tmp_path, OLD))
    found = to_colony_events(read.events, 25)
    schemas.validate("colony_events", found)
    assert found.rows() == [
        ("nest_04", 0, "abcd_1", "abcd", "peck", 29, 29),
        ("nest_04", 1, "", None, "sit", 50, 113),
        ("nest_04", 2, "abcd_1", "abcd", "sit", 75, 226),
    ]
    assert found.schema == schemas.empty("colony_events").schema


def test_colony_events_need_a_frame_rate(tmp_path):
    read = read_boris(written(tmp_path, FLAT, "x.csv"))
    with pytest.raises(ParameterError, match="n2"):
        to_colony_events(read.events, {"n1": 25.0})


def binary(step: float, n: int, mark) -> str:
    lines = ["time,peck,sit"] + [f"{i * step:.3f},{mark(i)},0" for i in range(n)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("step", "n"), [(0.033, 18181), (0.033, 18182), (0.034, 17647), (0.034, 17648)])
def test_a_binary_table_has_as_many_frames_as_its_video(tmp_path, step, n):
    path = written(tmp_path, binary(step, n, lambda i: 1), "nest_04_abcd.csv")
    read = read_boris(path, length_s=600)
    found = presence(read.events, fps=30, n_frames=18000)
    assert len(found) == 18000
    assert found.all()
    assert (read.events["subject"][0], read.events["video_id"][0]) == ("abcd", "nest_04")


@pytest.mark.parametrize("step", [0.033, 0.034])
def test_no_marked_row_is_lost_between_frames(tmp_path, step):
    marked = {100, 5000, 17000}
    read = read_boris(written(tmp_path, binary(step, 17648, lambda i: int(i in marked)), "v_a.csv"), length_s=600)
    found = presence(read.events, fps=30, n_frames=18000)
    assert np.flatnonzero(found).tolist() == [frame_of(i * step, 30) for i in sorted(marked)]


def test_a_bin_is_presence_and_never_a_count(tmp_path):
    text = "time\tpeck\tsit\n0.0\t6\t1\n60.0\t0\t1\n120.0\t1\t0\n"
    read = read_boris(written(tmp_path, text, "v_No focal subject.tsv"), length_s=150)
    assert rows(read) == [
        ("v", None, "peck", 0.0, 60.0, "bins"),
        ("v", None, "sit", 0.0, 120.0, "bins"),
        ("v", None, "peck", 120.0, 150.0, "bins"),
    ]
    said = dict(read.notices.select("code", "n").rows())
    assert said["several_in_a_bin"] == 1
    assert "never how often" in read.notices["message"][0]


def test_bad_binary_tables(tmp_path):
    with pytest.raises(DataError) as caught:
        read_boris(written(tmp_path, "time,peck\n0,1\n1,yes\n1,-1\n", "v_a.csv"))
    assert [(p.line, p.key) for p in caught.value.problems] == [(3, "peck"), (4, "time"), (4, "peck")]
    with pytest.raises(DataError, match="no row"):
        read_boris(written(tmp_path, "time,peck\n", "v_a.csv"))


def test_video_names():
    assert video_name("player #2: a/b.c.mp4") == "b.c"
