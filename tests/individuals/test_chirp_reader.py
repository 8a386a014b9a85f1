"""The published layout: what stands in the files comes back, what is odd is counted and named, what is wrong has its line."""

from __future__ import annotations

import csv
import json
import pickle
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from birdlab import schemas
from birdlab.errors import BirdlabError, DataError, ParameterError
from birdlab.readers.chirp import bird_expr, bird_of, read_colony
from birdlab.readers.chirp_names import name_files, track_of
from birdlab.readers.convert import convert_command, convert_folder, convert_pickle

REFSET = Path(__file__).parents[1] / "data" / "individuals" / "refset" / "data" / "ApplicationSpecific"
BOX = "Frame,ID,Xmin,Ymin,Xmax,Ymax\n"
EVENT = "ID,Behaviour,StartFrame,EndFrame\n"
V = "20210909_CFfo1Z"


class Made:
    """An application set of one video, in which single files can be written over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("MetaData.csv", f"Video,VideoLength,PossibleBirds,FPS\n{V},1500,\"['abcd', 'efgh']\",25\n")
        self.write(f"GroundTruth/{V}_BBox.csv", BOX + "0,abcd_1,0,0,10,10\n1,abcd_1,0,0,10,10\n")
        self.write(f"GroundTruth/{V}_PeckEvents.csv", EVENT + "abcd,peck,0,3\n")
        self.submit()

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def submit(self, tracker="BoTSORT", model="C3D", identity="CORVID", video=V) -> None:
        base = f"InferenceData/{video}_"
        self.write(f"{base}TrackedBBox_{tracker}.csv", BOX + "0,t1,0,0,10,10\n1,t1,0,0,10,10\n")
        self.write(f"{base}BehavDict_{model}_{tracker}.json", json.dumps({"t1": [[0, 25, "Peck"]]}))
        self.write(f"{base}{identity}_IDMatch_{tracker}.json", json.dumps({"t1": "abcd"}))

    def read(self, **how):
        return read_colony(self.folder, **how)

    def told(self, **how) -> dict[str, tuple[int, str]]:
        return {
            code: (n, text) for code, text, n in self.read(**how).notices.select("code", "message", "n").iter_rows()
        }

    def problems(self, **how):
        with pytest.raises(BirdlabError) as caught:
            self.read(**how)
        assert caught.value.problems
        return caught.value.problems

    def problem(self, **how):
        (problem,) = self.problems(**how)
        return problem


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "set")


def combos(colony) -> list[tuple[str, str, str]]:
    return colony.combinations.select("tracker", "model", "identity").rows()


# --- the reference set --------------------------------------------------------------------------------------------


def test_tables_of_refset_are_what_pandas_reads():
    colony = read_colony(REFSET)
    assert colony.videos.select("video_id", "n_frames").rows() == [("20210909_OiFHBq_1", 1500), (V, 1500)]
    assert colony.videos["possible"].to_list()[1] == ["asyb", "appb", "alwp", "awsr", "aypr"]
    for video in colony.videos["video_id"]:
        truth = pd.read_csv(REFSET / "GroundTruth" / f"{video}_BBox.csv")
        ours = colony.boxes.filter(pl.col("video_id") == video)
        assert ours["row"].to_list() == list(range(len(truth)))
        assert ours["visit_id"].to_list() == truth["ID"].tolist()
        assert (
            ours.select("frame", "xmin", "ymin", "xmax", "ymax").to_numpy().tolist()
            == truth[["Frame", "Xmin", "Ymin", "Xmax", "Ymax"]].to_numpy(dtype=float).tolist()
        )
        birds = [None if label.split("_")[0] == "unknown" else label.split("_")[0] for label in truth["ID"]]
        assert ours["individual_id"].to_list() == birds
        events = pd.read_csv(REFSET / "GroundTruth" / f"{video}_PeckEvents.csv")
        assert colony.events.filter(pl.col("video_id") == video).select(
            "label", "behaviour", "start", "end"
        ).rows() == [
            tuple(row) for row in events[["ID", "Behaviour", "StartFrame", "EndFrame"]].itertuples(index=False)
        ]
        for tracker in ("BoTSORT", "OCSORT"):
            tracks = pd.read_csv(REFSET / "InferenceData" / f"{video}_TrackedBBox_{tracker}.csv")
            ours = colony.tracks.filter((pl.col("video_id") == video) & (pl.col("tracker") == tracker))
            assert ours["track_id"].to_list() == tracks["ID"].astype(str).tolist()
            assert ours["xmax"].to_list() == tracks["Xmax"].tolist()


def test_dictionaries_and_codings_of_refset_are_what_the_files_say():
    colony = read_colony(REFSET)
    for path in sorted((REFSET / "InferenceData").glob("*.json")):
        raw = json.loads(path.read_text())
        video = next(v for v in colony.videos["video_id"] if path.name.startswith(f"{v}_"))
        tracker = path.stem.rpartition("_")[2]
        here = (pl.col("video_id") == video) & (pl.col("tracker") == tracker)
        if "IDMatch" in path.name:
            method = path.stem.removeprefix(f"{video}_").partition("_")[0]
            ours = colony.identities.filter(here & (pl.col("identity") == method))
            assert dict(ours.select("track_id", "label").rows()) == raw
            assert ours["individual_id"].to_list() == [
                None if b in ("unringed", "unknown") else b for b in raw.values()
            ]
        else:
            ours = colony.windows.filter(here).select("track_id", "start", "end", "label").rows()
            assert ours == [(track, *window) for track, windows in raw.items() for window in windows]
    coded = colony.human
    for path in (REFSET / "HumanBenchmarkBORIS").glob("*.tsv"):
        with path.open() as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        bird = path.stem.rpartition("_")[2]
        ours = coded.filter(pl.col("individual_id") == bird)
        assert ours.height == len(rows)
        assert ours["peck"].sum() == sum(int(row["Peck"]) for row in rows)
        assert ours["present"].to_list() == [row["Present"] == "1" for row in rows]


def test_tables_pass_their_contracts_and_combinations_are_whole():
    colony = read_colony(REFSET.parent)
    for part in ("videos", "boxes", "events", "tracks", "identities", "windows", "human"):
        frame = getattr(colony, part)
        assert frame.height and schemas.validate(f"colony_{part}", frame).height == frame.height
    expected = [(t, "C3D", i) for t in ("BoTSORT", "OCSORT") for i in ("CORVID", "MegaDesc")]
    assert combos(colony) == expected
    assert colony.combinations["complete"].all()
    told = dict(colony.notices.select("code", "n").rows())
    assert told["subfolder"] == 1
    assert told["fps_assumed"] == 2
    assert told["unknown_bird"] == colony.boxes["individual_id"].null_count() > 0
    assert "subfolder" not in read_colony(REFSET).notices["code"]


# --- birds, tracks, names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "bird"),
    [
        ("abcd_1", "abcd"), ("abcd_12", "abcd"), ("abcd", "abcd"), ("bird_A", "bird_A"), ("bird_A_3", "bird_A"),
        (" abcd_1 ", "abcd"), ("unknown", None), ("unknown_3", None), ("Unknown", None), ("UNRINGED", None),
        ("unringed", None), ("", None), ("unknowns", "unknowns"), ("a_1_2", "a_1"), ("_1", None), ("7", "7"),
    ],
)  # fmt: skip
def test_a_bird_is_its_label_without_a_number_at_the_end(label: str, bird: str | None):
    assert bird_of(label) == bird
    assert pl.DataFrame({"x": [label]}).select(bird_expr("x")).item() == bird


@given(st.lists(st.text("aABuUnkowrigeds_0123 ٣é²\t", max_size=12), min_size=1, max_size=20))
def test_the_expression_says_what_the_function_says(labels: list[str]):
    assert pl.DataFrame({"x": labels}).select(bird_expr("x")).to_series().to_list() == [bird_of(x) for x in labels]


NAME = st.text("aB1_", min_size=1, max_size=6)


@given(video=NAME, tracker=NAME, model=NAME, identity=NAME)
@settings(max_examples=300)
def test_names_with_underscores_are_read_against_known_names(video, tracker, model, identity):
    files = [
        Path(f"{video}_TrackedBBox_{tracker}.csv"), Path(f"{video}_BehavDict_{model}_{tracker}.p"),
        Path(f"{video}_{identity}_IDMatch_{tracker}.json"),
    ]  # fmt: skip
    named, problems, other = name_files(files, [video])
    assert not problems and not other
    assert {(n.kind, n.video, n.tracker, n.method) for n in named} == {
        ("tracks", video, tracker, ""), ("windows", video, tracker, model), ("identities", video, tracker, identity)
    }  # fmt: skip


@given(
    videos=st.lists(NAME, min_size=1, max_size=3, unique=True),
    trackers=st.lists(NAME, min_size=1, max_size=3, unique=True),
    methods=st.lists(NAME, min_size=1, max_size=2, unique=True),
)
@settings(max_examples=300)
def test_each_file_is_read_in_one_way_or_named_as_a_problem(videos, trackers, methods):
    truth = {}
    for video in videos:
        for tracker in trackers:
            truth[f"{video}_TrackedBBox_{tracker}.csv"] = ("tracks", video, tracker, "")
            for method in methods:
                truth[f"{video}_BehavDict_{method}_{tracker}.json"] = ("windows", video, tracker, method)
                truth[f"{video}_{method}_IDMatch_{tracker}.json"] = ("identities", video, tracker, method)
    named, problems, other = name_files([Path(n) for n in truth], videos)
    assert not other
    assert sorted([str(n.path) for n in named] + [p.file for p in problems]) == sorted(truth)
    if len(videos) == len(trackers) == 1:
        assert {n.path.name: (n.kind, n.video, n.tracker, n.method) for n in named} == truth
    for n in named:
        says = (
            f"{n.video}_TrackedBBox_{n.tracker}" if n.kind == "tracks"
            else f"{n.video}_BehavDict_{n.method}_{n.tracker}" if n.kind == "windows"
            else f"{n.video}_{n.method}_IDMatch_{n.tracker}"
        )  # fmt: skip
        assert n.path.stem == says


def test_a_name_with_two_readings_goes_with_the_other_files(made: Made):
    for tracker in ("Track", "Byte_Track"):
        made.submit(tracker=tracker)
    colony = made.read()
    assert combos(colony) == [(t, "C3D", "CORVID") for t in ("BoTSORT", "Byte_Track", "Track")]
    assert "two_readings" not in colony.notices["code"]
    # A model C3D_Byte of the tracker Track would have a file of the same name.
    made.submit(model="C3D_Byte")
    problem = made.problem()
    assert problem.code == "ambiguous_name"
    assert problem.file.endswith(f"{V}_BehavDict_C3D_Byte_Track.json")
    assert "C3D_Byte of tracker Track" in problem.found and "C3D of tracker Byte_Track" in problem.found


def test_a_name_with_two_readings_and_nothing_to_tell_goes_to_the_longest(tmp_path: Path):
    files = [tmp_path / f"{V}_TrackedBBox_{t}.csv" for t in ("Track", "Byte_Track")]
    named, problems, _ = name_files([*files, tmp_path / f"{V}_BehavDict_C3D_Byte_Track.json"], [V])
    assert not problems
    assert [(n.tracker, n.method, n.sure) for n in named if n.kind == "windows"] == [("Byte_Track", "C3D", False)]


# --- cases E of the conformance set, in `documented` --------------------------------------------------------------


def cut(folder: Path, *, videos: int = 2, rename: tuple[str, str] = ("", ""), keep=lambda name: True) -> Path:
    """A folder cut from refset: some files, renamed, with rows of MetaData.csv added."""
    shutil.copytree(REFSET, folder)
    for path in sorted((folder / "InferenceData").iterdir()):
        if not keep(path.name):
            path.unlink()
        elif rename[0]:
            path.rename(path.with_name(path.name.replace(*rename)))
    with (folder / "MetaData.csv").open("a") as file:
        file.writelines(f"more_{i},1500,\"['abcd']\"\n" for i in range(videos - 2))
    return folder


def test_e01_a_combination_with_one_of_twelve_videos_is_marked_with_the_missing_names(tmp_path: Path):
    folder = cut(tmp_path / "x", videos=12, keep=lambda name: name.startswith(V))
    colony = read_colony(folder)
    assert not colony.combinations["complete"].any()
    for present, missing in colony.combinations.select("videos", "missing_videos").rows():
        assert present == [V]
        assert missing == ["20210909_OiFHBq_1", *(f"more_{i}" for i in range(10))]
    told = {code: (n, text) for code, text, n in colony.notices.select("code", "message", "n").iter_rows()}
    assert told["incomplete"][0] == 4 and "20210909_OiFHBq_1" in told["incomplete"][1]
    assert told["no_truth"][0] == 10 and "more_9" in told["no_truth"][1]


@pytest.mark.parametrize(
    ("rename", "expected"),
    [
        (("BoTSORT", "Byte_Track"), ("Byte_Track", "C3D", "CORVID")),  # E02
        (("C3D", "C3D_v2"), ("BoTSORT", "C3D_v2", "CORVID")),  # E03
        (("CORVID", "Fine_Mega"), ("BoTSORT", "C3D", "Fine_Mega")),  # E04
    ],
)
def test_e02_e03_e04_names_with_underscores_are_scored(tmp_path: Path, rename, expected):
    folder = cut(tmp_path / "x", rename=rename, keep=lambda name: "OCSORT" not in name and "MegaDesc" not in name)
    colony = read_colony(folder)
    assert combos(colony) == [expected]
    assert colony.combinations["complete"].all()


def test_e06_a_video_without_a_row_in_metadata_is_named(tmp_path: Path):
    folder = cut(tmp_path / "x")
    meta = folder / "MetaData.csv"
    meta.write_text("\n".join(line for line in meta.read_text().splitlines() if not line.startswith(V)) + "\n")
    with pytest.raises(DataError) as caught:
        read_colony(folder)
    assert all(V in p.found and p.code == "unknown_video" for p in caught.value.problems)
    assert len(caught.value.problems) == 8


def test_e07_only_what_was_submitted_is_listed(tmp_path: Path):
    def keep(name: str) -> bool:
        return "MegaDesc" not in name

    folder = cut(tmp_path / "x", rename=("C3D_OCSORT", "SlowFast_OCSORT"), keep=keep)
    assert combos(read_colony(folder)) == [("BoTSORT", "C3D", "CORVID"), ("OCSORT", "SlowFast", "CORVID")]


def test_e08_one_bird_and_one_video_can_be_read(made: Made):
    colony = made.read()
    assert colony.boxes["individual_id"].unique().to_list() == ["abcd"]
    assert combos(colony) == [("BoTSORT", "C3D", "CORVID")]
    assert colony.notices.is_empty()


# --- forms of the same content ------------------------------------------------------------------------------------


def as_pickles(folder: Path, protocol: int = 4) -> None:
    """Dictionaries as the authors' pickles instead of JSON."""
    for path in (folder / "InferenceData").glob("*.json"):
        raw = json.loads(path.read_text())
        if "BehavDict" in path.name:
            raw = {track: {(s, e): label for s, e, label in windows} for track, windows in raw.items()}
        path.with_suffix(".p").write_bytes(pickle.dumps(raw, protocol))
        path.unlink()


def test_pickles_json_and_csv_of_the_same_content_are_the_same_colony(tmp_path: Path):
    expected = read_colony(REFSET)
    pickled, listed = cut(tmp_path / "p"), cut(tmp_path / "c")
    as_pickles(pickled)
    for path in (listed / "InferenceData").glob("*.json"):
        with path.with_suffix(".csv").open("w", newline="") as file:
            rows, raw = csv.writer(file), json.loads(path.read_text())
            if "BehavDict" in path.name:
                rows.writerow(["track_id", "start", "end", "label"])
                rows.writerows([t, *w] for t, windows in raw.items() for w in windows)
            else:
                rows.writerow(["track_id", "individual_id"])
                rows.writerows(raw.items())
        path.unlink()
    for folder in (pickled, listed):
        colony = read_colony(folder)
        assert colony.windows.equals(expected.windows)
        assert colony.identities.equals(expected.identities)
        assert colony.combinations.equals(expected.combinations)


def test_a_hostile_pickle_stops_the_reading_and_is_named(made: Made, tmp_path: Path):
    class Call:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    (made.folder / f"InferenceData/{V}_CORVID_IDMatch_BoTSORT.json").unlink()
    path = made.write(f"InferenceData/{V}_CORVID_IDMatch_BoTSORT.p", pickle.dumps({"t1": Call()}))
    problem = made.problem()
    assert (problem.code, problem.file) == ("not_plain", str(path))
    assert "pathlib" in problem.found
    assert not (tmp_path / "ran").exists()
    path.write_bytes(pickle.dumps({"t1": np.array(["abcd"], dtype=object)}))
    assert "numpy" in made.problem().found
    path.write_bytes(b"\0" * (100 * 2**20))
    assert made.problem().code == "too_large"


def test_a_pickle_beside_a_json_is_compared_with_it(made: Made):
    path = made.write(f"InferenceData/{V}_CORVID_IDMatch_BoTSORT.p", pickle.dumps({"t1": "abcd"}))
    assert made.told()["pickle_beside"][0] == 1
    path.write_bytes(pickle.dumps({"t1": "efgh"}))
    problem = made.problem()
    assert problem.code == "differ" and path.name in problem.found
    # One that is no plain pickle, which is why somebody wrote the JSON, is passed over.
    path.write_bytes(pickle.dumps({"t1": np.str_("efgh")}))
    assert made.read().identities["label"].to_list() == ["abcd"]
    made.write(f"InferenceData/{V}_CORVID_IDMatch_BoTSORT.csv", "track_id,individual_id\nt1,abcd\n")
    assert made.problem().code == "twice"


def test_numbers_and_text_as_tracks_are_one_track_and_the_difference_is_kept(made: Made):
    made.write(f"InferenceData/{V}_TrackedBBox_BoTSORT.csv", BOX + "0,1,0,0,10,10\n1,1.0,0,0,10,10\n2,2,0,0,9,9\n")
    made.write(f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", json.dumps({"1": [[0, 25, "Peck"]]}))
    (made.folder / f"InferenceData/{V}_CORVID_IDMatch_BoTSORT.json").unlink()
    made.write(f"InferenceData/{V}_CORVID_IDMatch_BoTSORT.p", pickle.dumps({1: "abcd", 2.0: "efgh"}))
    colony = made.read()
    assert colony.tracks["track_id"].to_list() == ["1", "1", "2"]
    assert colony.identities.select("track_id", "key_is_text").rows() == [("1", False), ("2", False)]
    assert colony.windows.select("track_id", "key_is_text").rows() == [("1", True)]
    assert "name_without_track" not in colony.notices["code"]
    made.write(f"InferenceData/{V}_CORVID_IDMatch_BoTSORT.p", pickle.dumps({1: "abcd", "1": "efgh"}))
    assert made.problem().code == "twice"
    assert [track_of(t) for t in (3, 3.0, "3.00", "3.5", "03", " a ")] == ["3", "3", "3", "3.5", "03", "a"]


@pytest.mark.parametrize("how", ["bom", "semicolon", "tab", "crlf", "cr", "utf16", "quoted", "blank"])
def test_tables_as_people_save_them(made: Made, how: str):
    text = "Frame,ID,Xmin,Ymin,Xmax,Ymax,Note\n0,abcd_1,0,0,10,10,\n1,abcd_1,0.5,0,10,10,x\n"
    raw = {
        "bom": b"\xef\xbb\xbf" + text.encode(), "semicolon": text.replace(",", ";").encode(),
        "tab": text.replace(",", "\t").encode(), "crlf": text.replace("\n", "\r\n").encode(),
        "cr": text.replace("\n", "\r").encode(), "utf16": text.encode("utf-16"),
        "quoted": text.replace("abcd_1", '"abcd_1"').replace("Frame", '"Frame"').encode(),
        "blank": text.replace("\n", "\n\n").encode() + b"\n\n",
    }[how]  # fmt: skip
    made.write(f"GroundTruth/{V}_BBox.csv", raw)
    boxes = made.read().boxes
    assert boxes.select("row", "frame", "visit_id", "xmin").rows() == [(0, 0, "abcd_1", 0.0), (1, 1, "abcd_1", 0.5)]


def test_latin_letters_of_old_files_are_the_same_birds(made: Made):
    made.write(f"GroundTruth/{V}_BBox.csv", (BOX + "0,mésange_1,0,0,10,10\n").encode("latin-1"))
    made.write(f"GroundTruth/{V}_PeckEvents.csv", EVENT + "mésange,peck,0,3\n")
    colony = made.read()
    assert colony.boxes["individual_id"].to_list() == colony.events["individual_id"].to_list() == ["mésange"]


def test_frame_rates_given_in_the_file_by_the_caller_or_assumed(made: Made):
    def rates(**how):
        return made.read(**how).videos.select("fps", "fps_given").rows()

    assert rates() == rates(fps=50) == [(25.0, True)]
    made.write("MetaData.csv", f"Video,VideoLength,PossibleBirds,FPS\n{V},1500,,29.97\n")
    assert rates() == [(29.97, True)]
    made.write("MetaData.csv", f"Video,VideoLength,PossibleBirds\n{V},1500,[]\n")
    assert rates(fps=30) == [(30.0, True)] and "fps_assumed" not in made.told(fps=30)
    assert rates() == [(25.0, False)] and made.told()["fps_assumed"][0] == 1
    for rate in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ParameterError):
            made.read(fps=rate)


# --- what is odd --------------------------------------------------------------------------------------------------


def test_what_is_odd_is_counted_and_named(made: Made):
    made.write(
        f"GroundTruth/{V}_BBox.csv",
        BOX + "0,abcd_1,0,0,10,10\n0,abcd_1,0,0,10,10\n1,abcd_1,10,0,0,10\n2,abcd_1,5,5,5,9\n1500,abcd_2,0,0,9,9\n"
        "3,unknown_1,0,0,9,9\n4,wxyz_1,0,0,9,9\n-1,abcd_1,0,0,9,9\n",
    )
    made.write(
        f"GroundTruth/{V}_PeckEvents.csv",
        EVENT + "abcd,peck,0,3\nabcd,peck,0,3\nabcd,peck,1490,1500\nunknown,peck,4,5\nabcd,peck,2000,2005\n",
    )
    made.write(
        f"InferenceData/{V}_TrackedBBox_BoTSORT.csv",
        BOX + "0,t1,0,0,10,10\n0,t1,0,0,10,10\n1,t1,9,9,1,1\n1600,t1,0,0,9,9\n3,t2,0,0,9,9\n",
    )
    made.write(
        f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json",
        json.dumps({"t1": [[0, 25, "Peck"], [25, 25, "Other"], [30, 20, "Other"], [50, 75, "peck"]],
                    "gone": [[0, 25, "PECK"]], "t2": []}),
    )  # fmt: skip
    made.write(f"InferenceData/{V}_CORVID_IDMatch_BoTSORT.json", json.dumps({"t1": "ABCD", "t9": "zzzz"}))
    told = made.told()
    expected = {
        "unknown_bird": 1, "unknown_event": 1, "duplicate_box": 1, "flat_box": 2, "flat_track_box": 1,
        "duplicate_track_box": 1, "frame_outside": 2, "track_frame_outside": 1, "event_outside": 2,
        "duplicate_event": 1, "empty_window": 2, "name_without_track": 1, "window_without_track": 1,
        "track_without_name": 1, "label_case": 1, "bird_case": 1, "not_possible": 1, "named_not_possible": 2,
    }  # fmt: skip
    assert {code: n for code, (n, _) in told.items()} == expected
    assert "track t9 of BoTSORT" in told["name_without_track"][1]
    assert "track t2" in told["track_without_name"][1]
    assert "wxyz in" in told["not_possible"][1]
    assert "ABCD" in told["bird_case"][1]
    codes = made.read().notices.filter(pl.col("code") == "label_case")["message"].to_list()
    assert ["'peck'" in codes[0], "'PECK'" in codes[1]] == [True, True]
    # Rows stay as they are given: what is left out is the protocol's affair.
    assert made.read().boxes.height == 8
    assert made.read().boxes["xmin"].to_list()[2] == 10.0


def test_empty_predictions_are_counted(made: Made):
    made.write(f"InferenceData/{V}_TrackedBBox_BoTSORT.csv", BOX)
    made.write(f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", "{}")
    made.write(f"InferenceData/{V}_CORVID_IDMatch_BoTSORT.json", "{}")
    colony = made.read()
    assert combos(colony) == [("BoTSORT", "C3D", "CORVID")]
    n, text = made.told()["empty_predictions"]
    assert n == 3 and "TrackedBBox" in text
    assert colony.tracks.schema["xmin"] == pl.Float64
    made.write(f"GroundTruth/{V}_BBox.csv", BOX)
    made.write(f"GroundTruth/{V}_PeckEvents.csv", EVENT)
    assert made.read().boxes.is_empty()


def test_files_that_fit_nothing_are_counted(made: Made):
    made.write("InferenceData/notes.txt", "x")
    made.write(f"InferenceData/{V}_BehavDict_C3D_BoTSORT.xlsx", "x")
    made.write("InferenceData/._hidden", "x")
    made.write("HumanBenchmarkBORIS/Random_PairData.csv", "x")
    made.write("HumanBenchmarkBORIS/else.tsv", "x")
    made.write(f"HumanBenchmarkBORIS/{V}_abcd.tsv", "time\tPresent\tPeck\n0\t1\t0\n0.04\t1\t1\n")
    told = made.told()
    assert told["other_files"][0] == 2
    assert told["human_random"][0] == 1 and "Random_PairData.csv" in told["human_random"][1]
    assert told["human_other"][0] == 1 and "else.tsv" in told["human_other"][1]
    colony = made.read()
    assert colony.human.rows() == [(V, "abcd", 0, True, False), (V, "abcd", 1, True, True)]
    assert made.read(human=False).human.is_empty()
    assert "human_random" not in made.told(human=False)
    made.write(f"HumanBenchmarkBORIS/{V}_abcd_1.tsv", "Present\tPeck\n1\t0\n")
    assert made.problem().code == "twice"


def test_parts_of_no_combination_are_named(made: Made):
    made.write(f"InferenceData/{V}_TrackedBBox_OCSORT.csv", BOX + "0,t1,0,0,10,10\n")
    made.write(f"InferenceData/{V}_BehavDict_C3D_OCSORT.json", "{}")
    n, text = made.told()["not_combined"]
    assert n == 1 and "OCSORT" in text
    for path in (made.folder / "InferenceData").glob("*IDMatch*"):
        path.unlink()
    assert {"no_combination", "not_combined"} <= set(made.told())
    assert made.read().combinations.is_empty()


def test_predictions_in_another_folder(made: Made, tmp_path: Path):
    (made.folder / "InferenceData").rename(tmp_path / "mine")
    assert made.problem().code == "no_folder"
    assert combos(read_colony(made.folder, tmp_path / "mine")) == [("BoTSORT", "C3D", "CORVID")]


# --- what is wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "line", "key"),
    [
        ("0,abcd_1,0,0,10,nan\n", 2, "Ymax"), ("0,abcd_1,0,0,10,\n", 2, "Ymax"), ("0,abcd_1,0,0,10,inf\n", 2, "Ymax"),
        ("0,abcd_1,0,0,9,9\nx,abcd_1,0,0,9,9\n", 3, "Frame"), ("0.5,abcd_1,0,0,9,9\n", 2, "Frame"),
        ("0,,0,0,9,9\n", 2, "ID"), ("1e12,abcd_1,0,0,9,9\n", 2, "Frame"), ("0,abcd_1,0,0,\"9,5\",9\n", 2, "Xmax"),
        ("\n\n0,abcd_1,0,0,9,9\n\n0,abcd_1,0,zero,9,9\n", 6, "Ymin"), ("0,abcd_1,0\n", 2, "Ymin"),
    ],
)  # fmt: skip
def test_a_bad_cell_has_its_file_line_and_column(made: Made, row: str, line: int, key: str):
    path = made.write(f"GroundTruth/{V}_BBox.csv", BOX + row)
    problem = made.problems()[0]
    assert (problem.file, problem.line, problem.key) == (str(path), line, key)


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        (f"GroundTruth/{V}_BBox.csv", "", "empty_file"),
        (f"GroundTruth/{V}_BBox.csv", "Frame,Bird,Xmin,Ymin,Xmax,Ymax\n", "no_column"),
        (f"GroundTruth/{V}_BBox.csv", BOX + "0,abcd_1,0,0,9,9,extra\n", "ragged_row"),
        (f"GroundTruth/{V}_BBox.csv", b"\x89PNG\r\n\x00\x00\x00", "binary"),
        (f"GroundTruth/{V}_PeckEvents.csv", EVENT + "abcd,peck,9,3\n", "reversed_event"),
        ("MetaData.csv", "Video,VideoLength\n", "no_videos"),
        ("MetaData.csv", f"Video,VideoLength\n{V},0\n", "bad_length"),
        ("MetaData.csv", f"Video,VideoLength\n{V},10\n{V},10\n", "video_twice"),
        ("MetaData.csv", f"Video,VideoLength,FPS\n{V},10,0\n", "bad_fps"),
        ("MetaData.csv", f"Video,VideoLength,PossibleBirds\n{V},10,\"__import__('os')\"\n", "bad_list"),
        ("MetaData.csv", f"Video,VideoLength,PossibleBirds\n{V},10,{'[' * 5000}\n", "bad_list"),
        ("MetaData.csv", f"Video,VideoLength,PossibleBirds\n{V},10,[1]\n", "bad_list"),
        (f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", "[]", "bad_shape"),
        (f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", "{", "not_json"),
        (f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", '{"a": ' * 5000, "not_json"),
        (f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", '{"t1": [], "t1": []}', "key_twice"),
        (f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", '{"t1": [[0, 25]]}', "bad_window"),
        (f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", '{"t1": [[0.5, 25, "Peck"]]}', "bad_window"),
        (f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", '{"t1": [[NaN, 25, "Peck"]]}', "bad_window"),
        (f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", '{"t1": [[0, 99999999999, "Peck"]]}', "bad_window"),
        (f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", '{"t1": [[0, true, "Peck"]]}', "bad_window"),
        (f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", '{"t1": [[0, 25, "\\ud800"]]}', "bad_window"),
        (f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", '{"t1": [[0, 25, "a"], [0, 25, "b"]]}', "twice"),
        (f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", '{"\\ud800": []}', "bad_track"),
        (f"InferenceData/{V}_BehavDict_C3D_BoTSORT.json", json.dumps({"x" * 300: []}), "bad_track"),
        (f"InferenceData/{V}_CORVID_IDMatch_BoTSORT.json", '{"t1": null}', "bad_name"),
        (f"InferenceData/{V}_CORVID_IDMatch_BoTSORT.json", '{"1": "a", "1.0": "b"}', "twice"),
        (f"InferenceData/{V}_CORVID_IDMatch_BoTSORT.json", b"\xff{}", "unreadable"),
        (f"InferenceData/{V}_BehavDict_C3D_Other.json", "{}", "unknown_tracker"),
        ("InferenceData/elsewhere_TrackedBBox_BoTSORT.csv", BOX, "unknown_video"),
        (f"HumanBenchmarkBORIS/{V}_abcd.tsv", "Present\tPeck\n1\t2\n", "not_binary"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_file(made: Made, name: str, text: str | bytes, code: str):
    path = made.write(name, text)
    problems = made.problems()
    assert [p.code for p in problems] == [code]
    assert problems[0].file == str(path)
    assert problems[0].found and problems[0].expected


def test_all_problems_come_at_once(made: Made):
    made.write(f"GroundTruth/{V}_BBox.csv", BOX + "x,abcd_1,0,0,9,9\n")
    made.write(f"GroundTruth/{V}_PeckEvents.csv", EVENT + "abcd,peck,9,3\nabcd,peck,8,3\n")
    made.write(f"InferenceData/{V}_CORVID_IDMatch_BoTSORT.json", "[]")
    made.write("InferenceData/elsewhere_TrackedBBox_BoTSORT.csv", BOX)
    assert sorted(p.code for p in made.problems()) == [
        "bad_cell", "bad_shape", "reversed_event", "reversed_event", "unknown_video"
    ]  # fmt: skip


def test_missing_truth_is_named(made: Made, tmp_path: Path):
    (made.folder / f"GroundTruth/{V}_PeckEvents.csv").unlink()
    problem = made.problem()
    assert problem.code == "no_truth" and V in problem.expected and problem.file.endswith("_PeckEvents.csv")
    (made.folder / f"GroundTruth/{V}_BBox.csv").unlink()
    assert [p.code for p in made.problems()] == ["no_truth", "no_truth"]
    shutil.rmtree(made.folder / "GroundTruth")
    assert made.problem().code == "no_folder"
    with pytest.raises(DataError, match=r"MetaData\.csv"):
        read_colony(tmp_path / "nowhere")


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_files_are_read_or_refused_never_worse(tmp_path: Path, data):
    made = Made(tmp_path / "set")
    path = data.draw(st.sampled_from(sorted(p for p in made.folder.rglob("*") if p.is_file())))
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        assume(raw)
    path.write_bytes(bytes(raw))
    try:
        made.read()
    except BirdlabError as error:
        assert error.problems


# --- from pickles to JSON -----------------------------------------------------------------------------------------


def test_converted_pickles_are_the_jsons_they_were_made_from(tmp_path: Path):
    folder = cut(tmp_path / "x")
    as_pickles(folder)
    done = convert_folder(folder)
    assert (len(done.written), done.numbers, done.problems) == (12, [], [])
    for path in done.written:
        assert json.loads(path.read_text()) == json.loads((REFSET / "InferenceData" / path.name).read_text())
        assert path.with_suffix(".p").exists()
    colony, expected = read_colony(folder), read_colony(REFSET)
    assert colony.windows.equals(expected.windows) and colony.identities.equals(expected.identities)
    assert colony.notices.filter(pl.col("code") == "pickle_beside")["n"].item() == 12
    for path in (folder / "InferenceData").glob("*.p"):
        path.unlink()
    assert read_colony(folder).windows.equals(expected.windows)
    assert not list(folder.rglob(".*tmp"))


def test_a_file_in_the_way_is_kept_unless_forced(tmp_path: Path):
    path = tmp_path / "v_CORVID_IDMatch_BoTSORT.p"
    path.write_bytes(pickle.dumps({1: "abcd", 2: "unringed"}))
    out, numbers = convert_pickle(path)
    assert numbers and json.loads(out.read_text()) == {"1": "abcd", "2": "unringed"}
    before = out.stat().st_mtime_ns
    assert convert_pickle(path)[0] == out and out.stat().st_mtime_ns == before
    out.write_text('{"1": "other"}')
    with pytest.raises(DataError) as caught:
        convert_pickle(path)
    assert caught.value.problems[0].code == "in_the_way" and out.read_text() == '{"1": "other"}'
    convert_pickle(path, force=True)
    assert json.loads(out.read_text())["1"] == "abcd"


def test_a_track_without_windows_is_kept_and_one_that_stands_twice_is_refused(tmp_path: Path):
    path = tmp_path / "v_BehavDict_C3D_BoTSORT.pkl"
    path.write_bytes(pickle.dumps({"a": {}, "b": {(0, 25): "Peck"}, 3: {}}))
    out, numbers = convert_pickle(path)
    assert numbers and json.loads(out.read_text()) == {"a": [], "b": [[0, 25, "Peck"]], "3": []}
    path.write_bytes(pickle.dumps({1: {}, "1": {}}))
    with pytest.raises(DataError, match="twice"):
        convert_pickle(path, force=True)


def test_bad_pickles_do_not_hold_up_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "v_A_IDMatch_T.p").write_bytes(pickle.dumps({"t": "abcd"}))
    bad = tmp_path / "v_B_IDMatch_T.p"
    bad.write_bytes(pickle.dumps({"t": np.array([1, "a"], dtype=object)}))
    (tmp_path / "model.pkl").write_bytes(b"weights of something else")
    args = SimpleNamespace(path=tmp_path, force=False, json=False)
    with pytest.raises(DataError) as caught:
        convert_command(args)
    assert [p.file for p in caught.value.problems] == [str(bad)] and "numpy" in caught.value.problems[0].found
    assert (tmp_path / "v_A_IDMatch_T.json").exists() and not (tmp_path / "v_B_IDMatch_T.json").exists()
    assert "1 of 2 pickles" in capsys.readouterr().out
    bad.unlink()
    assert convert_command(SimpleNamespace(path=tmp_path / "v_A_IDMatch_T.p", force=False, json=True)) == 0
    assert len(json.loads(capsys.readouterr().out)["written"]) == 1


def test_nothing_to_convert_is_said(tmp_path: Path):
    for path in (tmp_path, tmp_path / "no", tmp_path / "model.pkl", tmp_path / "v_BehavDict_C3D_T.p"):
        with pytest.raises(DataError):
            convert_command(SimpleNamespace(path=path, force=False, json=False))
