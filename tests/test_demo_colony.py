"""The made colony: what its files say, counted without birdlab's own readers, is what was planted."""

from __future__ import annotations

import ast
import csv
import hashlib
import json
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cv2")

from birdlab.demo import make
from birdlab.demo.colony import CODED_S, DELAY, write_colony
from birdlab.demo.colony_birds import FPS, Event, Video, Visit, make_videos
from birdlab.demo.colony_clips import DRAWN, FRAMES, LABELS, SIDE, draw
from birdlab.demo.colony_damage import STAGES, damage
from birdlab.demo.colony_tracks import TRACKERS, Followed, Track, Watched, follow, watch
from birdlab.readers.chirp import Colony, read_colony


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    out = tmp_path_factory.mktemp("colony")
    return out, write_colony(out)


@pytest.fixture(scope="module")
def folder(written: tuple[Path, list[str]]) -> Path:
    return written[0] / "individuals"


@pytest.fixture(scope="module")
def truth(folder: Path) -> dict:
    return json.loads((folder / "truth.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def colony(folder: Path) -> Colony:
    return read_colony(folder)


def _rows(path: Path, separator: str = ",") -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter=separator))


def _json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def _bird(label: str) -> str | None:
    bird = label.rpartition("_")[0] or label
    return None if bird == "unknown" else bird


def _box(row: dict[str, str]) -> np.ndarray:
    return np.array([float(row[c]) for c in ("Xmin", "Ymin", "Xmax", "Ymax")])


def _iou(a: np.ndarray, b: np.ndarray) -> float:
    size = np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0, None).prod()
    return float(size / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - size))


def test_the_same_bytes_every_time_and_small(written: tuple[Path, list[str]], tmp_path: Path) -> None:
    out, names = written
    assert write_colony(tmp_path) == names
    on_disk = sorted(p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file())
    assert on_disk == sorted(names) and len(set(names)) == len(names)

    def digest(base: Path, name: str) -> str:
        return hashlib.sha256((base / name).read_bytes()).hexdigest()

    assert all(digest(out, n) == digest(tmp_path, n) for n in names)
    assert sum((out / n).stat().st_size for n in names) < 6_000_000
    assert names[-1] == "individuals/truth.json"


def test_birds_and_pairs_are_as_the_truth_says(folder: Path, truth: dict) -> None:
    told = {(row["video"], row["bird"]): row for row in truth["birds"]}
    frames: dict[tuple[str, str], set[int]] = defaultdict(set)
    visits: dict[tuple[str, str], set[str]] = defaultdict(set)
    pecks, bows = Counter(), Counter()
    lengths = {row["Video"]: int(row["VideoLength"]) for row in _rows(folder / "MetaData.csv")}
    for video, n_frames in lengths.items():
        for row in _rows(folder / "GroundTruth" / f"{video}_BBox.csv"):
            box = _box(row)
            assert (box[2:] > box[:2]).all() and box.min() >= 0 and box[2] <= 1280 and box[3] <= 720
            assert 0 <= int(row["Frame"]) < n_frames
            if bird := _bird(row["ID"]):
                assert int(row["Frame"]) not in frames[video, bird]
                frames[video, bird].add(int(row["Frame"]))
                visits[video, bird].add(row["ID"])
        for row in _rows(folder / "GroundTruth" / f"{video}_PeckEvents.csv"):
            assert {int(row["StartFrame"]), int(row["EndFrame"])} <= frames[video, row["ID"]]
            (pecks if row["Behaviour"] == "peck" else bows)[video, row["ID"]] += 1
    assert set(told) == set(frames)
    for key, row in told.items():
        assert (row["frames"], row["visits"]) == (len(frames[key]), len(visits[key]))
        assert (row["pecks"], row["bows"]) == (pecks[key], bows[key])
    for row in truth["pairs"]:
        a, b = row["birds"]
        assert row["frames"] == len(frames[row["video"], a] & frames[row["video"], b])
    assert len(truth["pairs"]) == sum(len(v["birds"]) * (len(v["birds"]) - 1) // 2 for v in truth["videos"])


def test_special_birds(folder: Path, truth: dict) -> None:
    planted = truth["planted"]
    per_video = defaultdict(list)
    for row in truth["birds"]:
        per_video[row["bird"]].append(row["pecks"])
    mean = {bird: float(np.mean(n)) for bird, n in per_video.items()}
    others = [v for bird, v in mean.items() if bird != planted["greedy"]]
    assert mean[planted["greedy"]] > 1.8 * max(others)
    assert mean[planted["fasting"]] == 0 and sorted(mean.values())[1] > 0
    named = {bird for path in (folder / "InferenceData").glob("*_IDMatch_*.json") for bird in set(_json(path).values())}
    assert planted["nobody_names"] in mean and planted["nobody_names"] not in named
    assert planted["nobody_saw"] in named and planted["nobody_saw"] not in mean
    frames = {(row["video"], row["bird"]): row["frames"] for row in truth["birds"]}
    shares = defaultdict(list)
    for row in truth["pairs"]:
        either = sum(frames[row["video"], bird] for bird in row["birds"]) - row["frames"]
        shares[tuple(row["birds"])].append(row["frames"] / either)
    together = shares.pop(tuple(planted["together"]))
    assert min(together) > 0.85 and max(n for row in shares.values() for n in row) < 0.75
    possible = {row["Video"]: ast.literal_eval(row["PossibleBirds"]) for row in _rows(folder / "MetaData.csv")}
    assert all(set(v["birds"]) < set(possible[v["video"]]) for v in truth["videos"])
    assert len({bird for listed in possible.values() for bird in listed}) == 9
    assert all(3 <= len(v["birds"]) <= 5 for v in truth["videos"]) and len({v["feeder"] for v in truth["videos"]}) == 3


def test_trackers_and_names_go_wrong_as_often_as_planted(folder: Path, truth: dict) -> None:
    """Boxes matched one by one: every box of a tracker is held against all boxes of its frame."""
    for tracker, told in truth["planted"]["trackers"].items():
        missed, n_true, names, merged, false, tracks_seen = 0, 0, Counter(), 0, 0, 0
        for path in sorted((folder / "InferenceData").glob(f"*_TrackedBBox_{tracker}.csv")):
            video = path.name.partition("_TrackedBBox_")[0]
            by_frame = defaultdict(list)
            for row in _rows(folder / "GroundTruth" / f"{video}_BBox.csv"):
                by_frame[row["Frame"]].append((row["ID"], _box(row)))
            n_true += sum(len(v) for v in by_frame.values())
            owners: dict[str, Counter] = defaultdict(Counter)
            found = set()
            for row in _rows(path):
                box = _box(row)
                best = max(by_frame[row["Frame"]], key=lambda v, box=box: _iou(v[1], box), default=None)
                if best is not None and _iou(best[1], box) >= 0.5:
                    owners[row["ID"]][best[0]] += 1
                    found.add((row["Frame"], best[0]))
                else:
                    owners[row["ID"]][""] += 1
            missed += sum(len(v) for v in by_frame.values()) - len(found)
            tracks_seen += len(owners)
            said = _json(folder / "InferenceData" / f"{video}_rings_IDMatch_{tracker}.json")
            assert set(said) == set(owners)
            for track, shown in owners.items():
                visits = {v for v, n in shown.items() if v and n > 3}
                merged += max(len(visits) - 1, 0)
                false += not visits and shown[""] > 0
                birds = Counter({b: 0 for v in shown if v and (b := _bird(v))})
                for visit, n in shown.items():
                    if visit and (b := _bird(visit)):
                        birds[b] += n
                owner = birds.most_common(1)[0][0] if birds else None
                if owner is None:
                    names["named_nobody"] += said[track] != "unringed"
                else:
                    names[
                        "right" if said[track] == owner else "unringed" if said[track] == "unringed" else "wrong"
                    ] += 1
        assert tracks_seen == told["tracks"]
        assert missed == pytest.approx(told["boxes_missed"], abs=0.003 * n_true)
        assert merged == pytest.approx(told["tracks_merged"], abs=0.15 * told["tracks_merged"])
        assert abs(false - told["tracks_false"]) <= 1
        planted = truth["planted"]["identities"][f"rings · {tracker}"]
        assert sum(abs(planted[k] - names[k]) for k in planted) <= 2
    trackers = truth["planted"]["trackers"]
    assert trackers["heronsort"]["tracks_merged"] == 0 < trackers["wrentrack"]["tracks_merged"]
    assert trackers["heronsort"]["boxes_missed"] < 0.3 * trackers["wrentrack"]["boxes_missed"]


def test_windows_are_of_25_tracked_frames_and_as_many_as_planted(folder: Path, truth: dict) -> None:
    for key, told in truth["planted"]["models"].items():
        model, _, tracker = key.partition(" · ")
        n, n_peck = 0, 0
        for path in (folder / "InferenceData").glob(f"*_BehavDict_{model}_{tracker}.json"):
            video = path.name.partition("_BehavDict_")[0]
            frames = defaultdict(list)
            for row in _rows(folder / "InferenceData" / f"{video}_TrackedBBox_{tracker}.csv"):
                frames[row["ID"]].append(int(row["Frame"]))
            for track, windows in _json(path).items():
                parts = [frames[track][k : k + 25] for k in range(0, len(frames[track]), 25)]
                assert [(s, e) for s, e, _ in windows] == [(p[0], p[-1] + 1) for p in parts]
                assert {label for *_, label in windows} <= set(LABELS)
                n, n_peck = n + len(windows), n_peck + sum(label == "Peck" for *_, label in windows)
        assert (n, n_peck) == (told["windows"], told["peck_windows"])
    models = truth["planted"]["models"]
    assert models["eager · heronsort"]["invented"] > 10 * models["steady · heronsort"]["invented"]


def test_eight_combinations_are_complete_and_one_is_not(colony: Colony, truth: dict) -> None:
    told = {(c["tracker"], c["model"], c["identity"]): c for c in truth["combinations"]}
    read = {(c["tracker"], c["model"], c["identity"]): c for c in colony.combinations.to_dicts()}
    assert set(told) == set(read)
    assert all(read[k]["complete"] == c["complete"] for k, c in told.items())
    assert all(read[k]["missing_videos"] == c["missing_videos"] for k, c in told.items())
    assert Counter(c["complete"] for c in told.values()) == {True: 8, False: 1}
    for c in told.values():
        assert c["leading_stage"] == max(STAGES, key=lambda s, c=c: c["damage"][s])
    assert {c["leading_stage"] for c in told.values() if c["clear"] and c["complete"]} == {
        "identity", "behaviour", "tracks",
    }  # fmt: skip
    assert {c["leading_stage"] for c in told.values() if c["clear"]} == set(STAGES)


def test_reader_takes_it_and_remarks_what_was_planted(colony: Colony, truth: dict) -> None:
    assert colony.videos["fps"].unique().to_list() == [25.0] and colony.videos["fps_given"].all()
    assert {"unknown_bird", "incomplete"} <= set(colony.notices["code"].to_list())
    assert colony.notices["code"].is_in(["fps_assumed", "human_other", "other_files", "not_possible"]).sum() == 0
    seen = colony.boxes.drop_nulls("individual_id").group_by("video_id", "individual_id").len()
    assert {(v, b): n for v, b, n in seen.iter_rows()} == {(r["video"], r["bird"]): r["frames"] for r in truth["birds"]}
    assert colony.human["individual_id"].n_unique() == 8


def test_error_budget_finds_the_stage_that_was_planted(colony: Colony, truth: dict) -> None:
    from birdlab.individuals.budget import error_budget

    budget = error_budget(colony)
    held = 0
    for c in truth["combinations"]:
        about = {k: c[k] for k in ("tracker", "model", "identity")}
        rows = {r["stage"]: r["share"] for r in budget.filter(**about, measure="pecks_per_min").iter_rows(named=True)}
        order = sorted(rows, key=lambda s, rows=rows: -rows[s])
        if c["clear"]:
            assert order[0] == c["leading_stage"]
            assert rows[order[0]] > 1.2 * rows[order[1]]
            held += 1
    assert held >= 6


def test_damage_of_a_case_worked_by_hand() -> None:
    """Track 1 is a's visit and goes on over b's; b's second visit is track 3; track 2 is a leaf; c is never found."""
    boxes = np.zeros((100, 4), dtype=np.int64)
    visits = [Visit("a_1", "a", 0, 100, False, boxes), Visit("b_1", "b", 100, 150, False, boxes)]
    visits += [Visit("b_2", "b", 200, 250, False, boxes), Visit("c_1", "c", 0, 50, True, boxes)]
    at = ((0, "a", 10), (0, "a", 60), (0, "a", 80), (1, "b", 110), (2, "b", 210), (3, "c", 20))
    events = [Event(v, bird, "peck", start, start + 4) for v, bird, start in at]
    video = Video("v", "f", 0, 300, ("a", "b", "c"), visits, events)
    shown = np.repeat([0, 1], [100, 50])
    tracks = [
        Track(np.arange(150), np.zeros((150, 4)), shown, "1"),
        Track(np.arange(10), np.zeros((10, 4)), np.full(10, -1), "2"),
        Track(np.arange(200, 250), np.zeros((50, 4)), np.full(50, 2), "3"),
    ]
    followed = Followed(
        video, "t", tracks, ["a", None, "b"], [(0, 10), (0, 60), (0, 80), (0, 110), (2, 10), None], 50, 1
    )
    # Peck 2 is not told; the leaf and one window of a without a peck are called a peck.
    watched = Watched([(0, 25, 50, "Peck"), (1, 0, 10, "Peck")], {0, 1, 3, 4}, [0, 1])
    lost = damage(followed, ["a", "c", "unringed"], watched)
    assert lost == {"detection": 2, "tracks": 2, "identity": 1, "behaviour": 2}
    assert damage(followed, ["c", "unringed", "b"], watched) == {
        "detection": 1, "tracks": 2, "identity": 6, "behaviour": 2,
    }  # fmt: skip


def test_second_person_is_late_and_misses_a_few(folder: Path, truth: dict) -> None:
    shifts, n_true, n_coded = [], 0, 0
    for k, told in enumerate(truth["human"]["videos"]):
        video = told["video"]
        events, present = defaultdict(list), defaultdict(set)
        for row in _rows(folder / "GroundTruth" / f"{video}_PeckEvents.csv"):
            if row["Behaviour"] == "peck":
                events[row["ID"]].append(int(row["StartFrame"]))
        for row in _rows(folder / "GroundTruth" / f"{video}_BBox.csv"):
            present[_bird(row["ID"])].add(int(row["Frame"]))
        assert 60 <= told["n_frames"] / FPS <= 90 and told["n_frames"] == CODED_S[k] * FPS
        for bird, n_pecks in told["coded"].items():
            rows = _rows(folder / "HumanBenchmarkBORIS" / f"{video}_{bird}.tsv", "\t")
            assert len(rows) == told["n_frames"] and rows[29]["time"] == "1.16"
            pecks = [i for i, row in enumerate(rows) if row["Peck"] == "1"]
            assert len(pecks) == n_pecks
            assert told["pecks"][bird] == sum(f < told["n_frames"] for f in events[bird])
            near = [min(events[bird], key=lambda f, p=p: abs(p - DELAY - f)) for p in pecks]
            shifts += [p - f for p, f in zip(pecks, near, strict=True)]
            n_true, n_coded = n_true + told["pecks"][bird], n_coded + n_pecks
            seen = {i for i, row in enumerate(rows) if row["Present"] == "1"}
            assert len(seen ^ {f for f in present[bird] if f < told["n_frames"]}) <= 6 * truth["human"]["edge_frames"]
    assert np.median(shifts) == DELAY == truth["human"]["delay_s"] * FPS
    assert min(shifts) >= DELAY - 1 and max(shifts) <= DELAY + 1
    assert 0.9 < n_coded / n_true < 0.98


def test_actions_are_as_planted(folder: Path, truth: dict) -> None:
    told = truth["actions"]
    rows = _rows(folder / "actions" / "BehaviourAnnotations.csv")
    assert list(rows[0]) == ["AnnotID", "VideoPath", "Behaviour", "BBox", "Corrupted", "Split", "Date"]
    kept = {r["AnnotID"]: r for r in rows if r["Split"] == "Test" and r["Corrupted"] == "false"}
    assert (len(rows), len(kept)) == (told["n_clips"], told["n_scored"])
    counts = Counter(r["Behaviour"] for r in kept.values())
    assert dict(counts) == told["behaviours"] and counts["Other"] > len(kept) / 2
    accuracy = {}
    for model, confusion in told["confusion"].items():
        said = {r["clip_id"]: r["behaviour"] for r in _rows(folder / "actions" / f"{model}.csv")}
        pairs = Counter((kept[k]["Behaviour"], v) for k, v in said.items())
        assert [[pairs[t, p] for p in LABELS] for t in LABELS] == confusion and set(said) == set(kept)
        accuracy[model] = sum(confusion[i][i] for i in range(3)) / len(kept)
    majority = counts["Other"] / len(kept)
    assert accuracy["wader"] > 0.8 and abs(accuracy["diver"] - majority) < 0.05


def test_drawn_clips_can_be_played(folder: Path, truth: dict) -> None:
    av = pytest.importorskip("av")
    behaviour = {r["VideoPath"]: r["Behaviour"] for r in _rows(folder / "actions" / "BehaviourAnnotations.csv")}
    drawn = truth["actions"]["drawn"]
    assert Counter(behaviour[name.removeprefix("clips/")] for name in drawn) == dict.fromkeys(LABELS, DRAWN)
    for name in drawn[::5]:
        with av.open(str(folder / name)) as container:
            frames = [f.to_ndarray(format="bgr24") for f in container.decode(video=0)]
            assert float(container.streams.video[0].average_rate) == FPS
        assert len(frames) == FRAMES and frames[0].shape == (SIDE, SIDE, 3)
    for label in LABELS:
        frames = np.array(draw(label, "glgw", 3), dtype=int)
        moved = np.abs(frames - frames[0]).mean(axis=(1, 2, 3))
        # A peck is over before the clip is, a bow and a turn are not.
        assert moved.max() > 1 and (moved[-1] == 0) == (label == "Peck")


def test_keypoints_are_as_planted(folder: Path, truth: dict) -> None:
    told, coco = truth["keypoints"], _json(folder / "keypoints" / "truth.json")
    names = coco["categories"][0]["keypoints"]
    assert names == told["names"] and len(names) == 13
    scene = {image["id"]: image["scene"] for image in coco["images"]}
    assert set(scene.values()) == {"perch", "ground"} and len({image["video"] for image in coco["images"]}) == 6
    true = np.array([a["keypoints"] for a in coco["annotations"]], float).reshape(-1, 13, 3)
    assert (true[..., 2] > 0).sum() == told["n_visible"] and len(true) == told["n_birds"]
    boxes = np.array([a["bbox"] for a in coco["annotations"]])
    inside = (true[..., :2] >= boxes[:, None, :2]) & (true[..., :2] <= (boxes[:, :2] + boxes[:, 2:])[:, None])
    assert inside[true[..., 2] > 0].all()
    where = np.array([scene[a["image_id"]] for a in coco["annotations"]])
    for model, planted in told["models"].items():
        results = _json(folder / "keypoints" / f"{model}.json")
        assert [r["image_id"] for r in results] == [a["image_id"] for a in coco["annotations"]]
        found = np.array([r["keypoints"] for r in results], float).reshape(-1, 13, 3)
        both = (true[..., 2] > 0) & (found[..., 2] > 0)
        assert (true[..., 2] > 0).sum() - both.sum() == planted["missing"] > 0
        error = np.hypot(*np.moveaxis(found - true, -1, 0)[:2])
        for kind, mean in planted["mean_error_px"].items():
            # Points by hand have one decimal, and so have places: what remains is rounding.
            assert error[both & (where == kind)[:, None]].mean() == pytest.approx(mean, abs=1e-3)
        assert planted["mean_error_px"]["ground"] > 1.2 * planted["mean_error_px"]["perch"]
        tail = [names.index(n) for n in ("tail_base", "tail_tip")]
        shift = np.array([(found - true)[:, k, :2][both[:, k]].mean(0) for k in tail]).mean(0)
        assert shift == pytest.approx([-9, 5] if model == "dotterel" else [0, 0], abs=1.5)
    mean = {m: np.mean(list(p["mean_error_px"].values())) for m, p in told["models"].items()}
    assert mean["curlew"] == pytest.approx(4, abs=0.5) and mean["dotterel"] > 2 * mean["curlew"]


def test_visits_and_pecks_keep_their_rules() -> None:
    for video in make_videos():
        for v, visit in enumerate(video.visits):
            assert 0 <= visit.start < visit.end <= video.n_frames and len(visit.boxes) == visit.end - visit.start
            pecks = [e.start for e in video.events if e.visit == v and e.behaviour == "peck"]
            assert (np.diff(sorted(pecks)) > FPS).all()
        for bird in video.birds:
            spans = sorted((v.start, v.end) for v in video.visits if v.bird == bird)
            assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))


def test_a_perfect_tracker_would_lose_nothing() -> None:
    video = make_videos()[0]
    followed = follow(video, 0)
    assert all(track.id == f"track-{k + 1}" for k, track in enumerate(followed.tracks))
    rows = sum(int((track.visits >= 0).sum()) for track in followed.tracks)
    assert rows + followed.n_missed == sum(v.end - v.start for v in video.visits)
    seen = watch(followed, 0, 0).seen
    told = {e for e in seen if video.events[e].behaviour == "peck"}
    assert told == seen and len(told) <= sum(e.behaviour == "peck" for e in video.events)
    assert {t.name for t in TRACKERS} == {"heronsort", "wrentrack", "finchtrack"}


def test_study_lists_its_files_and_drops_those_of_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    monkeypatch.setattr(make, "SESSIONS", make.SESSIONS[:1])
    monkeypatch.setattr(make, "FRAMES_PER_SESSION", 1)
    old = tmp_path / "individuals" / "InferenceData" / "made_barn_1_TrackedBBox_oldtrack.csv"
    mine = tmp_path / "individuals" / "notes.txt"
    old.parent.mkdir(parents=True)
    old.write_text("Frame,ID,Xmin,Ymin,Xmax,Ymax\n", encoding="utf-8")
    mine.write_text("kept", encoding="utf-8")
    make.make_study(tmp_path)
    assert mine.exists() and not old.exists()
    made = [n for n in _json(tmp_path / "made.json")["bytes"] if n.startswith("individuals/")]
    package = _json(project / "data_manifests" / "demo" / "datapackage.json")
    listed = next(r for r in package["resources"] if r["name"] == "individuals")
    assert listed["data"]["n_files"] == len(made)
    (tmp_path / "individuals" / "MetaData.csv").unlink()
    make.make_study(tmp_path)
    assert (tmp_path / "individuals" / "MetaData.csv").exists()
