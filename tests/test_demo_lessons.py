"""The made pictures that the demo's models learned from: the same tiles every time, labels and masks that fit them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

cv2 = pytest.importorskip("cv2")

from birdlab.demo import lessons as room  # noqa: E402
from birdlab.demo.frames import Camera, Labelled, timeline  # noqa: E402
from birdlab.demo.generators import data_version, make_data  # noqa: E402
from birdlab.demo.lessons import LESSONS, Lessons, make_lessons, tile_label, training_session  # noqa: E402
from birdlab.demo.scenes import SESSIONS, paint_background  # noqa: E402
from birdlab.errors import DataError, ParameterError  # noqa: E402
from birdlab.readers.coco import read_ground_truth  # noqa: E402
from birdlab.recipe import load_recipe  # noqa: E402
from birdlab.recipe.sections import GENERATORS  # noqa: E402

#: Boxes and mean colour of one training frame, and the corners of its tiles, as they were when the first weights were
#: trained.
BOXES = [(1713, 1081, 259, 172), (2648, 1824, 95, 215), (1815, 619, 253, 185)]
COLOUR = (95.68, 162.42, 143.96)


def _mask(segmentation: dict) -> np.ndarray:
    from pycocotools import mask

    return mask.decode(segmentation).astype(bool)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions of two frames each, as the short example has them."""
    folder = tmp_path_factory.mktemp("lessons")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(room.LESSONS, "demo_lessons", replace(LESSONS["demo_lessons"], n_sessions=2, n_frames=2))
        make_lessons("demo_lessons", folder, workers=2)
    return folder


def test_sessions_are_others_and_milder() -> None:
    for lessons in LESSONS.values():
        trained = [lessons.session(lessons.first + i) for i in range(lessons.n_sessions)]
        assert not {s.seed for s in trained} & {s.seed for s in SESSIONS}
        assert not {s.site for s in trained} & {s.site for s in SESSIONS}
        for name in ("blur", "haze", "clutter"):
            assert max(getattr(s, name) for s in trained) < max(getattr(s, name) for s in SESSIONS)
        assert min(s.exposure for s in trained) > min(s.exposure for s in SESSIONS)
        if lessons.name != "lessons":
            assert all(s.far == 0 for s in trained)


def test_the_short_example_shares_no_session_with_the_shipped_models() -> None:
    sites = {name: {k.session(k.first + i).site for i in range(k.n_sessions)} for name, k in LESSONS.items()}
    short = sites.pop("demo_lessons")
    assert len(short) == 6 and not any(short & other for other in sites.values())


def test_frames_are_what_the_weights_learned_from() -> None:
    """One training frame, coarsely: a change here means that the shipped weights can no longer be made again."""
    session = training_session(2)
    assert session.far == 0
    canvas = paint_background(session)
    birds = timeline(session, canvas.perches, 14)[3]
    image, labelled = Camera(session, canvas).shoot(birds, 3)
    assert [label.box for label in labelled] == BOXES
    assert image.mean((0, 1)) == pytest.approx(COLOUR, abs=0.2)


def test_models_of_one_stream_take_turns() -> None:
    birds = [Labelled(0, np.zeros((1, 1), bool), box, 1.0, "side") for box in BOXES]

    def corners(name: str, index: int) -> list[tuple[int, int]]:
        rng = room.stream(room.SEED, LESSONS[name].stream, index)
        return room._corners(rng, birds, LESSONS[name], index)

    heron, wren = corners("demo_lessons_heron", 2), corners("demo_lessons_wren", 2)
    assert len(heron) == len(wren) == 4
    # The places as the first tiles of session 2 had them: heron's first, then wren's from the same stream.
    rng = room.stream(room.SEED, 1, 2)
    for found, imgsz, tile in ((heron, 960, 256), (wren, 416, 96)):
        scale, size = imgsz / 3840, np.array([imgsz, imgsz * 9 // 16])
        centres = [(x + w / 2, y + h / 2) for x, y, w, h in BOXES]
        centres += [(float(rng.uniform(0, 3840)), float(rng.uniform(0, 2160)))]
        for corner, centre in zip(found, centres, strict=True):
            place = np.round(np.array(centre) * scale + rng.uniform(-0.4, 0.4, 2) * tile - tile / 2)
            assert corner == tuple(np.clip(place, 0, size - tile).astype(int))


def test_tiles_labels_and_masks_fit(small: Path) -> None:
    truth = json.loads((small / "labels.json").read_text(encoding="utf-8"))
    assert truth["info"]["made"] is True
    side = LESSONS["demo_lessons"].tile
    assert side % 32 == 0
    files = sorted(p.relative_to(small).as_posix() for p in small.rglob("*.png"))
    assert files == sorted(i["file_name"] for i in truth["images"])
    assert {(i["session"], i["site"]) for i in truth["images"]} == {
        ("train-100", "train-25"),
        ("train-101", "train-25"),
    }
    for image in truth["images"]:
        assert cv2.imread(str(small / image["file_name"])).shape == (side, side, 3)
    kept = [a for a in truth["annotations"] if not a["ignore"]]
    assert len(kept) >= 4
    for label in kept:
        rows, columns = np.nonzero(_mask(label["segmentation"]))
        x, y, w, h = label["bbox"]
        drawn = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert drawn == pytest.approx([x, y, x + w, y + h], abs=1.6)
    read = read_ground_truth(small / "labels.json")
    assert read.labels.height == len(truth["annotations"])
    assert {"session", "site"} <= set(read.images.columns)


def test_a_mask_in_a_tile_is_the_frames_mask_made_small() -> None:
    whole = np.zeros((2160, 3840), bool)
    whole[600:900, 1200:1500] = True
    whole[700:800, 1300:1400] = False
    label = tile_label(Labelled(0, whole, (1200, 600, 300, 300), 1.0, "side"), (180, 80), 1 / 6, 160)
    assert label is not None and label["ignore"] == 0
    assert label["bbox"] == pytest.approx([20, 20, 50, 50])
    expected = np.zeros((160, 160), bool)
    expected[20:70, 20:70] = True
    # 100 px hole from 1300 / 6 - 180 = 36.7 to 53.3, and from 700 / 6 - 80 = 36.7 to 53.3.
    expected[37:53, 37:53] = False
    got = _mask(label["segmentation"])
    assert (got & expected).sum() / (got | expected).sum() > 0.96
    rows, columns = np.nonzero(got)
    assert [columns.mean(), rows.mean()] == pytest.approx([44.5, 44.5], abs=0.3)


def test_a_bird_that_is_hardly_inside_is_ignored() -> None:
    def bird(*box: int) -> Labelled:
        mask = np.zeros((400, 1000), bool)
        mask[box[1] : box[1] + box[3], box[0] : box[0] + box[2]] = True
        return Labelled(0, mask, box, 1.0, "side")

    # Scale 1/4, tile of 100 px at (50, 20): the first box lies at 50..75, 30..60 of the frame's quarter.
    whole, partly, hardly, outside = (
        tile_label(bird(*box), (50, 20), 0.25, 100)
        for box in ((200, 120, 100, 120), (560, 100, 100, 100), (590, 100, 100, 100), (640, 100, 100, 100))
    )
    assert whole["bbox"] == [0, 10, 25, 30] and whole["ignore"] == 0
    assert whole["area"] == pytest.approx(25 * 30, rel=0.06)
    # The second is inside to 40 % (10 of 25 px), the third to 10 %.
    assert partly["bbox"] == [90, 5, 10, 25] and partly["ignore"] == 0
    assert hardly["ignore"] == 1 and outside is None


def test_whole_lessons_are_left_alone_and_stopped_ones_go_on(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(room.LESSONS, "demo_lessons", replace(LESSONS["demo_lessons"], n_sessions=2, n_frames=2))
    drawn: list[int] = []
    make_session = room._make_session

    def counted(lessons: Lessons, index: int, out: Path) -> dict:
        drawn.append(index)
        if len(drawn) == 2:
            raise OSError(28, "No space left on device")
        return make_session(lessons, index, out)

    monkeypatch.setattr(room, "_make_session", counted)
    with pytest.raises(DataError) as caught:
        make_lessons("demo_lessons", tmp_path, workers=1)
    assert [p.code for p in caught.value.problems] == ["cannot_write"]
    make_lessons("demo_lessons", tmp_path, workers=1)
    assert drawn == [100, 101, 101]
    make_lessons("demo_lessons", tmp_path, workers=1)
    assert drawn == [100, 101, 101]
    for file in [p.relative_to(small) for p in small.rglob("*.png")] + [Path("labels.json")]:
        assert (small / file).read_bytes() == (tmp_path / file).read_bytes()
    next(tmp_path.rglob("*.png")).unlink()
    make_lessons("demo_lessons", tmp_path, workers=1)
    assert len(drawn) == 4 and len(list(tmp_path.rglob("*.png"))) == len(list(small.rglob("*.png")))


def test_every_generator_of_the_recipe_is_there(tmp_path: Path) -> None:
    assert set(GENERATORS) == {"demo", "demo_lessons_ringlet", *LESSONS}
    assert all(data_version(name) for name in GENERATORS)
    with pytest.raises(ParameterError, match="demo_lessons_wren"):
        make_data("demo_lesson", tmp_path)


@pytest.mark.parametrize("name", ["heron", "wren", "dunlin"])
def test_recipes_hold_the_networks_of_the_shipped_models(project: Path, name: str) -> None:
    from birdlab.training.train import check_models

    recipe = load_recipe(project / "reports" / f"train_{name}.yaml")
    assert recipe.training is not None
    lessons = LESSONS[recipe.data.generator or ""]
    (model,) = recipe.training.models
    assert lessons.name == model.name == name and model.imgsz == lessons.tile
    assert recipe.data.made and [step for step, _ in recipe.steps()] == ["train_detector"]
    check_models([model], base=project / "reports")
    # The shipped file holds the network that the recipe describes; only its weights could be others.
    from birdlab.inference.checkpoint import load_checkpoint

    shipped = load_checkpoint(project / "birdlab" / "demo" / "weights" / f"{name}.pt")["model"].yaml
    told = yaml.safe_load((project / "reports" / model.architecture).read_text(encoding="utf-8"))
    assert [shipped[k] for k in ("backbone", "head")] == [told[k] for k in ("backbone", "head")]


def test_the_short_recipe_can_be_trained(project: Path) -> None:
    from birdlab.training.train import check_models

    recipe = load_recipe(project / "reports" / "train_demo.yaml")
    assert recipe.training is not None and recipe.data.generator == "demo_lessons"
    assert {m.task for m in recipe.training.models} == {"detect", "segment"}
    assert all(m.imgsz == LESSONS["demo_lessons"].tile for m in recipe.training.models)
    check_models(recipe.training.models, base=project / "reports")
