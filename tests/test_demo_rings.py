"""The made ringed birds: what is drawn is what is told, what is written is what was planted, and ringlet finds rings."""

from __future__ import annotations

import ast
import csv
import hashlib
import json
import pickletools
import re
import zipfile
from collections import Counter, defaultdict
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import yaml

cv2 = pytest.importorskip("cv2")

from birdlab.demo import ring_lessons as lessons  # noqa: E402
from birdlab.demo import ring_study as study  # noqa: E402
from birdlab.demo.ring_birds import (  # noqa: E402
    BGR,
    COLOURS,
    FACINGS,
    FRAMES,
    SIDE,
    RenderedClip,
    code_legs,
    render_clip,
)  # fmt: skip
from birdlab.demo.ring_colony import BIRDS, LEARNED, YEARS, clips, neighbours, possible, videos  # noqa: E402
from birdlab.errors import DataError  # noqa: E402
from birdlab.recipe import load_recipe  # noqa: E402

WEIGHTS = Path(study.__file__).parent / "weights"
SPLITS = ("ClosedSetSplit", "DisjointedSetSplit", "OpenSetSplit")


def _clip(seed: int, code: str = "oagw", **settings: object) -> RenderedClip:
    return render_clip(np.random.default_rng(seed), code, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def plain() -> list[RenderedClip]:
    return [_clip(seed, n_frames=8) for seed in range(40)]


def test_a_clip_is_the_same_again_and_another_seed_is_another() -> None:
    first, again, other = _clip(1, n_frames=3), _clip(1, n_frames=3), _clip(2, n_frames=3)
    assert first.frames.shape == (3, SIDE, SIDE, 3) and first.frames.dtype == np.uint8
    assert np.array_equal(first.frames, again.frames) and not np.array_equal(first.frames, other.frames)
    assert first.facing == again.facing
    for a, b in zip(first.rings, again.rings, strict=True):
        assert all(np.array_equal(p.polygon, q.polygon) for p, q in zip(a, b, strict=True))
    assert len(_clip(1).frames) == FRAMES and _clip(1, "", n_frames=2).rings == [[], []]


def test_rings_are_where_the_code_says(plain: list[RenderedClip]) -> None:
    worn = {("left", "upper"): "O", ("left", "lower"): "A", ("right", "upper"): "G", ("right", "lower"): "W"}
    assert {clip.facing for clip in plain} == set(FACINGS)
    n = 0
    for clip in plain:
        for rings in clip.rings:
            assert all(worn[ring.leg, ring.slot] == ring.letter for ring in rings)
            assert all(len(r.polygon) >= 3 and r.polygon.min() >= 0 and r.polygon.max() <= SIDE for r in rings)
            centre = {(r.leg, r.slot): r.polygon.mean(0) for r in rings}
            for leg in ("left", "right"):
                if {(leg, "upper"), (leg, "lower")} <= set(centre):
                    assert centre[leg, "upper"][1] < centre[leg, "lower"][1]
            if {("left", "lower"), ("right", "lower")} <= set(centre) and clip.facing in ("toward", "away"):
                # A bird that looks at us has its left leg on our right.
                to_the_right = centre["left", "lower"][0] - centre["right", "lower"][0]
                assert (to_the_right > 0) == (clip.facing == "toward")
                n += 1
    assert n > 60


def test_a_lone_ring_is_low_and_odd_codes_are_refused() -> None:
    seen = {(r.letter, r.leg, r.slot) for seed in range(6) for f in _clip(seed, "rg-a", n_frames=2).rings for r in f}
    assert seen == {("R", "left", "upper"), ("G", "left", "lower"), ("A", "right", "lower")}
    assert code_legs("rg") == ("R", "G")
    for code in ("oaoz", "ooooo", "-", "r?ga", "rgb-a"):
        with pytest.raises(ValueError, match="expected up to two letters"):
            code_legs(code)


def test_pixels_of_a_ring_are_near_its_colour() -> None:
    right = Counter()
    for k, letter in enumerate(COLOURS):
        for seed in range(5):
            clip = _clip(100 * k + seed, letter * 4, n_frames=1)
            for ring in clip.rings[0]:
                mask = np.zeros((SIDE, SIDE), np.uint8)
                cv2.fillPoly(mask, [np.int32(np.floor(ring.polygon))], 1)
                mean = clip.frames[0][mask > 0].mean(0)
                # Shade makes every colour darker by about a quarter.
                nearest = min(BGR, key=lambda other: np.abs(mean - 0.78 * np.array(BGR[other])).sum())
                right[letter] += nearest == letter
                right["n"] += 1
    assert right["n"] > 200 and sum(right[letter] for letter in COLOURS) / right["n"] > 0.8
    assert all(right[letter] for letter in COLOURS)


def test_settings_do_what_they_say() -> None:
    def mean(**settings: object) -> np.ndarray:
        return np.mean([_clip(seed, n_frames=2, **settings).frames.mean((0, 1, 2)) for seed in range(6)], axis=0)

    plain = mean()
    assert mean(light=0.5) == pytest.approx(plain / 2, rel=0.05) and (mean(light=1.4) > 1.15 * plain).all()
    blue, green, red = mean(white_balance=(1.2, 1.0, 0.8)) / plain
    assert blue > 1.12 and green == pytest.approx(1, abs=0.02) and red < 0.85

    def sharpness(**settings: object) -> float:
        return float(np.mean([cv2.Laplacian(_clip(s, n_frames=1, **settings).frames[0], 5).var() for s in range(6)]))

    assert sharpness(blur=1.5) < 0.4 * sharpness()

    def rings(**settings: object) -> float:
        return float(np.mean([len(f) for s in range(20) for f in _clip(s, n_frames=2, **settings).rings]))

    assert rings() > rings(occlusion=0.8) > 1.5 > 0.8 > rings(occlusion=1.0)
    for s in range(3):
        straight, oblique = (_clip(s, n_frames=1, perspective=p).frames.astype(int) for p in (0.0, 0.8))
        assert np.abs(oblique - straight).mean() > 3


def test_birds_move_within_a_clip(plain: list[RenderedClip]) -> None:
    for clip in plain[:10]:
        steps = np.abs(np.diff(clip.frames.astype(int), axis=0)).mean((1, 2, 3))
        assert (steps > 0.5).all() and (steps < 60).all()


# --- the study ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    out = tmp_path_factory.mktemp("rings")
    return out / "reid", study.write_reid(out)


@pytest.fixture(scope="module")
def truth(written: tuple[Path, list[str]]) -> dict:
    return _json(written[0] / "truth.json")


@pytest.fixture(scope="module")
def rows(written: tuple[Path, list[str]]) -> list[dict[str, str]]:
    return _rows(written[0] / "clips.csv")


def _json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_all_files_are_there_and_listed(written: tuple[Path, list[str]], rows: list[dict[str, str]]) -> None:
    folder, names = written
    there = {str(p.relative_to(folder.parent).as_posix()) for p in folder.rglob("*") if p.is_file()}
    assert there == set(names) and len(names) == len(set(names))
    assert {f"reid/{row['img']}" for row in rows} <= there and len(rows) == 240 * FRAMES
    assert sum((folder.parent / name).stat().st_size for name in names) < 25_000_000
    picture = cv2.imread(str(folder / rows[1234]["img"]))
    clip = next(c for c in clips() if c.name == rows[1234]["Tracklet"])
    drawn = study.draw_clip(clip).frames[int(Path(rows[1234]["img"]).stem)]
    assert picture.shape == (SIDE, SIDE, 3) and np.abs(picture.astype(int) - drawn).mean() < 6


def test_protocols_leak_nothing(rows: list[dict[str, str]], truth: dict) -> None:
    for split in SPLITS:
        roles = defaultdict(set)
        for row in rows:
            if row[split] and row["id"] != truth["query_without_gallery"]:
                roles[row["Video"]].add(row[split].replace("Unknown_Test", "Known_Test"))
            last = row["Year"] == str(YEARS[-1])
            assert row["Date"][:4] == row["Year"] and (not last or row[split] not in ("Gallery", "Known_Train"))
        assert all(len(found) == 1 for found in roles.values()), split
    one = {row["Tracklet"]: (row["id"], row["Video"], *(row[s] for s in SPLITS)) for row in rows}
    assert len(one) == len({(row["Tracklet"], *one[row["Tracklet"]]) for row in rows}) == 240
    count = Counter(v[2] for v in one.values())
    assert count["Test"] > 60 and count["Train"] > 140
    assert {v[0] for v in one.values() if v[4] == "Unknown_Test"} == set(truth["arrived_last_year"])
    gallery = {v[0] for v in one.values() if v[2] == "Train"}
    asked = {v[0] for v in one.values() if v[2] == "Test"}
    assert asked - gallery == {truth["query_without_gallery"]}
    by_bird = defaultdict(set)
    for row in rows:
        by_bird[row["id"]].add(row["DisjointedSetSplit"])
    assert all(not ("Train" in words and words & {"Query", "Gallery"}) for words in by_bird.values())
    assert {b.name for b in BIRDS if b.home in LEARNED} >= {b for b, words in by_bird.items() if "Train" in words}


def test_lists_and_codes_are_as_planted(
    written: tuple[Path, list[str]], rows: list[dict[str, str]], truth: dict
) -> None:
    folder, _ = written
    lists = {
        word: {r["Video"]: ast.literal_eval(r["PossibleBirds"]) for r in _rows(folder / f"PossibleBirds_{word}.csv")}
        for word in ("Territory", "Neighbours")
    }
    assert all(3 <= len(v) <= 5 for v in lists["Territory"].values())
    assert all(9 <= len(v) <= 16 for v in lists["Neighbours"].values())
    assert all(set(v) < set(lists["Neighbours"][video]) for video, v in lists["Territory"].items())
    for home in {v.territory for v in videos()}:
        assert all(home in neighbours(other) for other in neighbours(home))
    off = {row["Tracklet"] for row in rows if row["id"] not in lists["Territory"][row["Video"]]}
    assert off == set(truth["not_on_the_list"]) and 2 <= len(off) <= 12
    far = {row["id"] for row in rows if row["id"] not in lists["Neighbours"][row["Video"]]}
    assert far == set(truth["strangers"])

    roster = _rows(folder / "roster.csv")
    assert not set(truth["strangers"]) & {r["individual_id"] for r in roster}
    first, second = ([r for r in roster if r["individual_id"] == bird] for bird in truth["same_code_another_year"])
    assert first[0]["code"] == second[0]["code"] and first[0]["valid_to"] < second[0]["valid_from"]
    both = [v for v, names in lists["Territory"].items() if set(truth["same_code_another_year"]) <= set(names)]
    assert both == ["made_elm_2002"]
    lost = [r for r in roster if r["individual_id"] == truth["ring_lost"]]
    assert [len(r["code"].replace("-", "")) for r in lost] == [4, 3] and lost[0]["valid_to"] < lost[1]["valid_from"]
    assert [len(r["code"]) for r in roster if r["individual_id"] == truth["three_rings"]] == [4]
    codes = {b.name: b.code for b in BIRDS}
    for a, b in truth["look_alike"]:
        assert sum(x != y for x, y in zip(codes[a], codes[b], strict=True)) <= 2
    dates = {row["Tracklet"]: date.fromisoformat(row["Date"]) for row in rows}
    for told in truth["clips"]:
        day, bird = dates[told["clip_id"]], next(b for b in BIRDS if b.name == told["individual_id"])
        valid = [
            r["code"] for r in roster if r["individual_id"] == bird.name
            and (r["valid_from"] or "0") <= str(day) <= (r["valid_to"] or "9")
        ]  # fmt: skip
        assert valid == ([] if bird.stranger else [told["code"]])


def test_masks_agree_with_what_is_told(written: tuple[Path, list[str]], truth: dict) -> None:
    folder, _ = written
    learned, seen = _json(folder / "ring_masks" / "masks.json"), _json(folder / "instances.json")
    for file, base in ((learned, folder / "ring_masks"), (seen, folder)):
        assert [c["name"] for c in file["categories"]] == list(COLOURS.values())
        assert all((base / image["file_name"]).is_file() for image in file["images"])
        assert len({a["id"] for a in file["annotations"]}) == len(file["annotations"])
        assert all(a["area"] > 5 and len(a["segmentation"][0]) >= 6 for a in file["annotations"])
    letters = Counter(list(COLOURS)[a["category_id"] - 1] for a in learned["annotations"])
    assert dict(letters) == truth["learned_rings"] and min(letters.values()) >= 50
    assert (folder / "instances.json").stat().st_size < 1_500_000

    codes = {c["clip_id"]: c for c in truth["clips"]}
    clip_of = {i["id"]: i["file_name"].split("/")[2] for i in seen["images"]}
    worn, frames = defaultdict(Counter), defaultdict(set)
    for a in seen["annotations"]:
        worn[a["image_id"]][list(COLOURS)[a["category_id"] - 1]] += 1
        frames[clip_of[a["image_id"]]].add(a["image_id"])
    for image, letters in worn.items():
        assert not letters - Counter(codes[clip_of[image]]["code"].upper().replace("-", ""))
    bare = truth["without_visible_rings"]
    assert 0.01 < bare["share"] == round(len(bare["clips"]) / 240, 4) < 0.08
    assert not set(bare["clips"]) & set(frames)
    assert {c for c, told in codes.items() if told["n_with_rings"] == 0} == set(bare["clips"])


def test_two_birds_in_one_picture(rows: list[dict[str, str]], truth: dict) -> None:
    about = {row["Tracklet"]: row for row in rows}
    together = {tuple(pair) for pair in truth["together"]}
    spans = defaultdict(list)
    for name, row in about.items():
        spans[row["Video"]].append((int(row["start_frame"]), name))
    found = set()
    for listed in spans.values():
        listed.sort()
        for k, (start, name) in enumerate(listed):
            found |= {(name, other) for at, other in listed[k + 1 :] if at < start + FRAMES}
    assert found == together and len(together) == 48
    assert all(about[a]["id"] != about[b]["id"] and about[a]["UnqTrack"] != about[b]["UnqTrack"] for a, b in together)
    tracks = defaultdict(set)
    for row in rows:
        tracks[row["UnqTrack"]].add((row["Video"], row["id"]))
    assert all(len(v) == 1 for v in tracks.values()) and len(tracks) < 240


def test_the_made_network_is_weak(written: tuple[Path, list[str]], rows: list[dict[str, str]]) -> None:
    vectors = np.load(written[0] / "embeddings.npy", allow_pickle=False)
    order = [r["clip_id"] for r in _rows(written[0] / "rows.csv")]
    about = {row["Tracklet"]: row for row in rows}
    assert vectors.shape == (240, study.NUMBERS) and vectors.dtype == np.float32 and order == list(about)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    gallery = [k for k, c in enumerate(order) if about[c]["ClosedSetSplit"] == "Train"]
    asked = [k for k, c in enumerate(order) if about[c]["ClosedSetSplit"] == "Test"]
    birds = np.array([about[order[k]]["id"] for k in gallery])
    filmed = {v.name: v for v in videos()}
    right, chance = [], []
    for homes in (lambda home: [home], neighbours, lambda home: [v.territory for v in videos()]):
        named = guessed = 0.0
        for k in asked:
            row = about[order[k]]
            video = filmed[row["Video"]]
            listed = np.isin(birds, possible(video, homes(video.territory)))
            best = birds[listed][np.argmax(unit[[g for g, x in zip(gallery, listed, strict=True) if x]] @ unit[k])]
            named += best == row["id"]
            guessed += (row["id"] in birds[listed]) / len(set(birds[listed]))
        right.append(named / len(asked))
        chance.append(guessed / len(asked))
    assert right[0] > right[1] > right[2] > 0.3
    assert chance[0] + 0.15 < right[0] < 0.75


def test_birdlab_reads_it(written: tuple[Path, list[str]]) -> None:
    reader = pytest.importorskip("birdlab.readers.reid_clips")
    data = reader.read_clips(written[0] / "clips.csv", images=written[0])
    assert data.clips.height == 240 and data.images.height == 240 * FRAMES
    assert set(data.roles["split"].unique()) == {"closed", "disjoint", "open"}


# --- the segmenter's lessons and the segmenter ------------------------------------------------------------------------


def test_lessons_are_whole_or_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lessons, "SESSIONS", 2)
    lessons.make_ring_lessons(tmp_path)
    labels = _json(tmp_path / "labels.json")
    n = 2 * lessons.CLIPS * len(lessons.TAKEN)
    assert len(labels["images"]) == len(list(tmp_path.rglob("*.png"))) == n
    assert [c["name"] for c in labels["categories"]] == ["ring"]
    ids = [a["id"] for a in labels["annotations"]]
    assert len(set(ids)) == len(ids) > 2.2 * n and len({i["id"] for i in labels["images"]}) == n
    for a in labels["annotations"]:
        x, y, w, h = a["bbox"]
        assert 0 <= x and 0 <= y and x + w <= SIDE and y + h <= SIDE and 0 < a["area"] <= w * h
    before = (tmp_path / "labels.json").stat().st_mtime_ns
    lessons.make_ring_lessons(tmp_path)
    assert (tmp_path / "labels.json").stat().st_mtime_ns == before
    picture = next(tmp_path.rglob("*.png"))
    held = picture.read_bytes()
    picture.unlink()
    lessons.make_ring_lessons(tmp_path)
    assert picture.read_bytes() == held
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError) as caught:
        lessons.make_ring_lessons(tmp_path / "file")
    assert [p.code for p in caught.value.problems] == ["cannot_write"]


def test_ringlet_is_small_clean_and_as_the_card_says() -> None:
    path = WEIGHTS / "ringlet.pt"
    card = (WEIGHTS / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert path.stat().st_size <= 1_000_000 and f"{path.stat().st_size:,}" in card
    assert hashlib.sha256(path.read_bytes()).hexdigest() in card
    with zipfile.ZipFile(path) as archive:
        assert all(info.date_time == (1980, 0, 0, 0, 0, 0) for info in archive.infolist())
        pickle = next(archive.read(n) for n in archive.namelist() if n.endswith("data.pkl"))
    texts = [arg for _, arg, _ in pickletools.genops(pickle) if isinstance(arg, str)]
    assert "ring" in texts and len(texts) > 100
    unwanted = re.compile(r"[/\\\\]|\.ya?ml|\.pt$|\d{4}-\d\d|git|http|license|optimizer|user", re.IGNORECASE)
    assert [text for text in texts if unwanted.search(text)] == []
    assert not re.search(rb"/(root|home|tmp|work|Users)/", path.read_bytes())


def test_the_recipe_holds_the_network_of_ringlet(project: Path) -> None:
    pytest.importorskip("ultralytics")
    from birdlab.inference.checkpoint import load_checkpoint
    from birdlab.training.train import check_models

    recipe = load_recipe(project / "reports" / "train_ringlet.yaml")
    assert recipe.training is not None and recipe.data.generator == lessons.NAME and recipe.data.made
    (model,) = recipe.training.models
    assert (model.name, model.task, model.imgsz) == ("ringlet", "segment", 128)
    check_models([model], base=project / "reports")
    shipped = load_checkpoint(WEIGHTS / "ringlet.pt")["model"]
    told = yaml.safe_load((project / "reports" / str(model.architecture)).read_text(encoding="utf-8"))
    assert [shipped.yaml[k] for k in ("backbone", "head")] == [told[k] for k in ("backbone", "head")]


def test_ringlet_finds_rings_of_other_birds(tmp_path: Path) -> None:
    pytest.importorskip("ultralytics")
    from pycocotools import mask

    from birdlab.inference.predict import load_detector
    from birdlab.inference.weights import find_weights
    from birdlab.recipe import Model

    model = Model(name="ringlet", weights="birdlab:ringlet", imgsz=128, conf=0.25)
    loaded = load_detector(model, find_weights(model, tmp_path, tmp_path), "cpu", tmp_path)
    assert loaded.names == {0: "ring"}
    loaded.keep = [0]
    found = truth = said = 0
    for seed in range(30):
        clip = _clip(50_000 + seed, "oagw", n_frames=1, light=(0.6, 1.0, 1.3)[seed % 3], occlusion=0.3 * (seed % 2))
        boxes = loaded.predict([clip.frames[0]]).boxes[0]
        drawn = [mask.frPyObjects([r.polygon.astype(float).ravel().tolist()], SIDE, SIDE)[0] for r in clip.rings[0]]
        read = [json.loads(text) for text in boxes.masks or []]
        truth, said = truth + len(drawn), said + len(read)
        if drawn and read:
            overlap = mask.iou(read, drawn, [0] * len(drawn))
            found += int((overlap.max(0) >= 0.5).sum())
    assert truth > 90 and found / truth > 0.85 and found / said > 0.8
