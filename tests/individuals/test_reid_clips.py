"""Clips and lists as they are read: CHIRP's layout, plain tables, and everything odd in them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from birdlab import schemas
from birdlab.errors import DataError
from birdlab.readers.reid_clips import ReidData, read_clips
from birdlab.readers.reid_lists import read_candidates

HEAD = "Video,Tracklet,id,Territory,Year,img,UnqTrack,ClosedSetSplit,DisjointedSetSplit,OpenSetSplit,Date"
PLAIN = "clip_id,video_id,individual_id,date,closed,disjoint,open"


def chirp_row(
    video="v1", tracklet="Tracklet-001", bird="abcd", n=1, *, roles="Train,Query,Known_Train", **other
) -> str:
    at = {"territory": "ter", "year": "2021", "date": "2021-09-30", "track": f"{bird}-{video}-{tracklet}", **other}
    image = at.get("image", f"data/{bird}/{video}_{at['territory']}/{tracklet}/{video}_{n}.jpg")
    return f"{video},{tracklet},{bird},{at['territory']},{at['year']},{image},{at['track']},{roles},{at['date']}"


def read(tmp_path: Path, *lines: str, head: str = HEAD, **about) -> ReidData:
    path = tmp_path / "Annotation.csv"
    path.write_text("\n".join((head, *lines)) + "\n", encoding="utf-8")
    return read_clips(path, **about)


def codes(data: ReidData | pl.DataFrame) -> dict[str, int]:
    frame = data.notices if isinstance(data, ReidData) else data
    return dict(frame.select("code", "n").rows())


def problems(error: pytest.ExceptionInfo[DataError]) -> set[tuple[str, int | None]]:
    return {(p.code, p.line) for p in error.value.problems}


def test_chirp_layout_gives_clips_images_and_roles(tmp_path):
    rows = [chirp_row(n=n) for n in (10, 9, 2)]
    rows += [chirp_row("v2", "Tracklet-002", "efgh", n, roles="Test,Gallery,Unknown_Test", year=2020, date="2020-01-02")
             for n in (1, 2)]  # fmt: skip
    rows += [chirp_row("v3", "Tracklet-003", "abcd", roles="Test,Gallery,Known_Test")]
    data = read(tmp_path, *rows)
    assert data.clips.select("clip_id", "video_id", "individual_id", "n_images").rows() == [
        ("Tracklet-001", "v1", "abcd", 3),
        ("Tracklet-002", "v2", "efgh", 2),
        ("Tracklet-003", "v3", "abcd", 1),
    ]
    assert data.clips["date"][1] == dt.date(2020, 1, 2)
    assert data.clips["territory"].to_list() == ["ter"] * 3
    # Images in the order of the numbers of their names, not of the file and not of the alphabet.
    first = data.images.filter(clip_id="Tracklet-001")
    assert [Path(p).stem for p in first["image"]] == ["v1_2", "v1_9", "v1_10"]
    assert first["frame_index"].to_list() == [0, 1, 2]
    assert set(data.roles.cast(pl.String).rows()) == {
        ("closed", "Tracklet-001", "gallery", "true"),
        ("closed", "Tracklet-002", "query", "false"),
        ("closed", "Tracklet-003", "query", "true"),
        ("disjoint", "Tracklet-001", "query", "true"),
        ("disjoint", "Tracklet-002", "gallery", "true"),
        ("disjoint", "Tracklet-003", "gallery", "true"),
        ("open", "Tracklet-001", "gallery", "true"),
        ("open", "Tracklet-002", "query", "false"),
        ("open", "Tracklet-003", "query", "true"),
    }
    for table in ("clips", "images", "roles"):
        schemas.validate(f"reid_{table}", getattr(data, table))
    assert codes(data) == {"not_in_gallery_closed": 1}


def test_names_of_tracklets_recur_over_videos(tmp_path):
    data = read(tmp_path, chirp_row("v1"), chirp_row("v2"), chirp_row("v2", "Tracklet-002"))
    assert data.clips["clip_id"].to_list() == ["v1/Tracklet-001", "v2/Tracklet-001", "v2/Tracklet-002"]
    assert codes(data)["clip_names"] == 3
    assert set(data.roles["clip_id"]) == set(data.images["clip_id"]) == set(data.clips["clip_id"])


def test_names_of_tracklets_recur_over_birds_of_a_video(tmp_path):
    # Folders show that these are two clips, each with images 1 and 2.
    rows = [chirp_row(bird=bird, n=n) for bird in ("abcd", "efgh") for n in (1, 2)]
    data = read(tmp_path, *rows)
    assert data.clips["clip_id"].to_list() == ["v1/abcd/Tracklet-001", "v1/efgh/Tracklet-001"]
    assert data.clips["n_images"].to_list() == [2, 2]


def test_flat_folders_do_not_make_clips_one(tmp_path):
    rows = [
        chirp_row("v1", f"Tracklet-00{i}", bird, image=f"flat/{bird}_{i}.jpg", track="") for i, bird in enumerate("abc")
    ]
    rows += [chirp_row("v2", "Tracklet-000", "a", image="flat/a_9.jpg", track="")]
    data = read(tmp_path, *rows)
    assert data.clips["clip_id"].to_list() == [f"v1/Tracklet-00{i}" for i in range(3)] + ["v2/Tracklet-000"]


def test_one_slip_among_many_clips_is_called_what_it_is(tmp_path):
    rows = [chirp_row(f"v{v}", bird=bird, n=n) for v in range(30) for bird in ("abcd", "efgh") for n in (1, 2)]
    rows[7] = rows[7].replace(",efgh,", ",abce,", 1)
    with pytest.raises(DataError) as error:
        read(tmp_path, *rows)
    assert problems(error) == {("two_birds", 9)}
    assert "efgh (line 8), abce (line 9)" in str(error.value)


def test_two_birds_in_a_clip_are_an_error_that_names_the_rows(tmp_path):
    flat = {"image": "flat/a_1.jpg", "track": "7"}
    with pytest.raises(DataError) as error:
        read(tmp_path, chirp_row(**flat), chirp_row(bird="efgh", **flat))
    assert problems(error) == {("two_birds", 3)}
    assert "abcd (line 2), efgh (line 3)" in str(error.value)


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        ("c1,v1,a,2021-01-01,train,train,train", "c1,v2,a,2021-01-01,train,train,train", "two_videos"),
        ("c1,v1,a,2021-01-01,train,train,train", "c1,v1,a,2021-01-02,train,train,train", "two_days"),
        ("c1,v1,a,2021-01-01,train,train,train", "c1,v1,a,2021-01-01,test,train,train", "two_roles"),
        ("c1,v1,a,2021-01-01,train,train,train", "c1,v1,a,2021-01-01,train,train,", "two_roles"),
        ("c1,v1,a,2021-01-01,train,train,train", "c1,v1,b,2021-01-01,train,train,train", "two_birds"),
    ],
)
def test_a_clip_has_one_of_everything(tmp_path, first, second, code):
    with pytest.raises(DataError) as error:
        read(tmp_path, first, second, head=PLAIN)
    assert problems(error) == {(code, 3)}


def test_plain_table_in_any_dress(tmp_path):
    rows = ["q;v2;b 1;30.09.2021;Test;Query;known_test", "g;v1;b 1;01.02.2020;TRAIN;Gallery;Known-Train", "x;v3;c;;;;"]
    path = tmp_path / "clips.csv"
    path.write_bytes(("\ufeff" + PLAIN.replace(",", ";") + "\r\n" + "\r\n".join(rows)).encode("utf-8"))
    data = read_clips(path)
    assert data.clips["date"].to_list() == [dt.date(2021, 9, 30), dt.date(2020, 2, 1), None]
    assert data.clips["year"].to_list() == [2021, 2020, None]
    assert data.clips["n_images"].to_list() == [0, 0, 0]
    assert data.images.is_empty()
    assert data.roles.filter(clip_id="x").is_empty()
    assert data.roles["is_known"].all()
    assert codes(data) == {"no_date": 1}


def test_ids_keep_a_number_at_their_end_and_nobody_is_left_out(tmp_path):
    rows = ["c1,v1,jay_1,,,,", "c2,v1,jay_2,,,,", "c3,v1,Unknown,,,,", "c4,v2,unringed,,,,"]
    data = read(tmp_path, *rows, head=PLAIN)
    assert data.clips["individual_id"].to_list() == ["jay_1", "jay_2"]
    assert codes(data)["no_bird"] == 2
    assert codes(data)["no_protocol"] == 2


def test_the_day_stands_where_the_year_disagrees(tmp_path):
    data = read(tmp_path, chirp_row(year=2019))
    assert data.clips["year"].to_list() == [2021]
    assert codes(data)["year_differs"] == 1


@pytest.mark.parametrize(
    ("days", "read_as"),
    [
        (["2021-09-30", "2021-10-01"], dt.date(2021, 9, 30)),
        (["2021-09-30 14:05:00", "2021-10-01"], dt.date(2021, 9, 30)),
        (["20210930", "20211001"], dt.date(2021, 9, 30)),
        (["20210930.0", "20211001.0"], dt.date(2021, 9, 30)),
        (["2021/09/30", "2021/10/01"], dt.date(2021, 9, 30)),
        (["30.9.2021", "1.10.2021"], dt.date(2021, 9, 30)),
        (["30/09/2021", "01/10/2021"], dt.date(2021, 9, 30)),
        (["09/30/2021", "10/01/2021"], dt.date(2021, 9, 30)),
        (["03/03/2021", "04/04/2021"], dt.date(2021, 3, 3)),
    ],
)
def test_ways_to_write_a_day(tmp_path, days, read_as):
    data = read(tmp_path, *(f"c{i},v{i},a,{day},,," for i, day in enumerate(days)), head=PLAIN)
    assert data.clips["date"][0] == read_as


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (["2021-09-30", "30.09.2021"], ("bad_date", 3)),
        (["2021-02-30"], ("bad_date", 2)),
        (["soon"], ("bad_date", 2)),
        (["0021-02-03"], ("bad_date", 2)),
        (["03/04/2021", "05/06/2021"], ("ambiguous_date", 2)),
    ],
)
def test_days_that_cannot_be_read(tmp_path, days, expected):
    with pytest.raises(DataError) as error:
        read(tmp_path, *(f"c{i},v{i},a,{day},,," for i, day in enumerate(days)), head=PLAIN)
    assert problems(error) == {expected}


def test_everything_that_is_wrong_comes_in_one_error(tmp_path):
    rows = [
        "c1,v1,a,2021-01-01,trian,train,train",
        "c2,v1,a,2021-13-01,train,test,train",
        "c1,v1,b,2021-01-01,trian,train,train",
    ]
    with pytest.raises(DataError) as error:
        read(tmp_path, *rows, head=PLAIN)
    assert problems(error) == {("unknown_role", 2), ("unknown_role", 3), ("bad_date", 3), ("two_birds", 4)}
    assert "trian" in str(error.value)
    assert "known_train" not in str(error.value)


@pytest.mark.parametrize(
    ("lines", "head", "code"),
    [
        ([], HEAD, "no_rows"),
        (["a,b"], "Video,id", "no_column"),
        (["a,b"], "some,thing", "no_column"),
        ([",v1,a,,,,"], PLAIN, "bad_cell"),
        (["c1,,a,,,,"], PLAIN, "bad_cell"),
        (["c1,v1,,,,,"], PLAIN, "bad_cell"),
        (["c1,v1,unknown,,,,"], PLAIN, "no_rows"),
        (["c1,v1,a,../b.jpg"], "clip_id,video_id,individual_id,image", "bad_path"),
        (["c1,v1,a,/b.jpg"], "clip_id,video_id,individual_id,image", "bad_path"),
        (["c1,v1,a,C:\\b.jpg"], "clip_id,video_id,individual_id,image", "bad_path"),
        (["c1,v1,a,0", "c1,v1,a,0"], "clip_id,video_id,individual_id,frame_index", "bad_frame"),
        (["c1,v1,a,-1"], "clip_id,video_id,individual_id,frame_index", "bad_frame"),
        (["c1,v1,a,1", "c1,v1,a,"], "clip_id,video_id,individual_id,frame_index", "bad_frame"),
        (["c1,v1,a,one"], "clip_id,video_id,individual_id,frame_index", "bad_cell"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, lines, head, code):
    with pytest.raises(DataError) as error:
        read(tmp_path, *lines, head=head)
    assert {p.code for p in error.value.problems} == {code}


def test_an_empty_file_and_a_missing_one(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    for name in ("empty.csv", "none.csv"):
        with pytest.raises(DataError):
            read_clips(tmp_path / name)


def test_open_words_that_the_gallery_contradicts_are_counted(tmp_path):
    head = "clip_id,video_id,individual_id,open"
    rows = ["c1,v1,a,known_train", "c2,v2,a,unknown_test", "c3,v3,b,known_test", "c4,v4,c,unknown_test"]
    data = read(tmp_path, *rows, head=head)
    assert codes(data) == {"no_date": 4, "unknown_in_gallery": 1, "known_without_gallery": 1}
    assert dict(data.roles.select("clip_id", "is_known").rows()) == {"c1": True, "c2": True, "c3": False, "c4": False}


def test_frame_numbers_of_the_file_stand_and_images_are_looked_for(tmp_path):
    (tmp_path / "there.jpg").write_bytes(b"")
    head = "clip_id,video_id,individual_id,image,frame_index,start_frame"
    data = read(tmp_path, "c1,v1,a,.\\there.jpg,3,50", "c1,v1,a,there.jpg,1,50", "c2,v1,a,gone.jpg,1,60", head=head,
                images=tmp_path)  # fmt: skip
    assert data.images.rows() == [("c1", 3, "there.jpg"), ("c1", 1, "there.jpg"), ("c2", 1, "gone.jpg")]
    assert data.clips["start_frame"].to_list() == [50, 60]
    assert codes(data)["no_image"] == 1
    assert codes(data)["image_twice"] == 1


def test_disjointed_is_disjoint(tmp_path):
    data = read(tmp_path, "c1,v1,a,Train", "c2,v2,b,Query", head="clip_id,video_id,individual_id,disjointed")
    assert data.roles.cast(pl.String).rows() == [
        ("disjoint", "c1", "train", "false"),
        ("disjoint", "c2", "query", "false"),
    ]


def test_one_clip_in_two_tracks_is_counted(tmp_path):
    data = read(tmp_path, "c1,v1,a,t1", "c1,v1,a,t2", head="clip_id,video_id,individual_id,track_id")
    assert data.clips["track_id"].to_list() == ["t1"]
    assert codes(data)["two_tracks"] == 1


# Lists of candidates.


def lists(tmp_path: Path, text: str, *, clips: pl.DataFrame | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    path = tmp_path / "lists.csv"
    path.write_text(text, encoding="utf-8")
    return read_candidates(path, None, clips=clips)


def test_lists_in_both_ways_of_writing(tmp_path):
    text = "Video,PossibleBirds\nv1,\"['ab', 'cd', 'ab', 'unringed']\"\nv2,ef| gh\nv3,[]\nv4,\nv5,jay_1\n"
    frame, notices = lists(tmp_path, text)
    assert dict(frame.select("video_id", "candidates").rows()) == {
        "v1": ["ab", "cd"], "v2": ["ef", "gh"], "v3": [], "v4": [], "v5": ["jay_1"],
    }  # fmt: skip
    assert frame["gallery"].unique().to_list() == ["territory"]
    assert codes(notices) == {"list_nobody": 1, "list_empty": 2}


def test_lists_that_cannot_be_read(tmp_path):
    bad = ["['ab'", "[1, 2]", "{'a': 1}", "['a'] + ['b']", "[__import__('os')]"]
    text = "Video,PossibleBirds\n" + "".join(f'v{i},"{cell}"\n' for i, cell in enumerate(bad))
    text += "w,a|b\nw,a|c\n,a\n"
    with pytest.raises(DataError) as error:
        lists(tmp_path, text)
    assert problems(error) == {*(("bad_list", i + 2) for i in range(5)), ("two_lists", 8), ("bad_cell", 9)}


def test_lists_beside_clips(tmp_path):
    clips = pl.DataFrame({"video_id": ["v1", "v2"], "individual_id": ["ab", "cd"]})
    _, notices = lists(tmp_path, "Video,PossibleBirds\nv1,ab|xy\nv9,cd\nv9,cd\n", clips=clips)
    assert codes(notices) == {"list_twice": 1, "no_list": 1, "unused_list": 1, "listed_unseen": 1}


def test_a_territory_that_is_not_in_the_wider_list_is_counted(tmp_path):
    (tmp_path / "t.csv").write_text("Video,PossibleBirds\nv1,a|b\nv2,c\n")
    (tmp_path / "n.csv").write_text("video_id,candidates\nv1,a|c\nv2,c|d\n")
    frame, notices = read_candidates(tmp_path / "t.csv", tmp_path / "n.csv")
    assert frame.height == 4
    assert codes(notices) == {"narrow_list": 1}
    assert read_candidates(None, None)[0].is_empty()


def test_lists_without_their_columns(tmp_path):
    with pytest.raises(DataError) as error:
        lists(tmp_path, "Film,Birds\nv1,a\n")
    assert [p.key for p in error.value.problems] == ["Video", "PossibleBirds"]
