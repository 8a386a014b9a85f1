"""Rings found by a segmenter become the same rings as given masks."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import polars as pl
import pytest

from birdlab.demo.ring_birds import COLOURS, render_clip
from birdlab.errors import DataError
from birdlab.individuals.rings.codes import Palette
from birdlab.individuals.rings.instances import forest_of, in_clips, ring_colours
from birdlab.individuals.rings.published import match_published
from birdlab.inference import ring_segments
from birdlab.inference.detector import Boxes, Prediction
from birdlab.inference.masks import crop_rle

RINGLET = Path(ring_segments.__file__).parents[1] / "demo" / "weights" / "ringlet.pt"


class RedFinder:
    """A detector that finds what is red; its masks are exact."""

    names, keep, imgsz, precision, device, remarks = {0: "ring"}, [0], 64, "fp32", "cpu", ["a remark"]

    def __init__(self, *, masks: bool = True) -> None:
        self.masks = masks
        self.sizes: list[int] = []

    def predict(self, images: list[np.ndarray]) -> Prediction:
        assert len({image.shape for image in images}) == 1
        self.sizes.append(len(images))
        return Prediction([self._boxes(image) for image in images], 0.0)

    def _boxes(self, image: np.ndarray) -> Boxes:
        n, parts = cv2.connectedComponents((image[..., 2] > 200).astype(np.uint8))
        masks, boxes = [], []
        for i in range(1, n):
            y, x = np.nonzero(parts == i)
            corner, crop = (int(x.min()), int(y.min())), parts[y.min() : y.max() + 1, x.min() : x.max() + 1] == i
            masks.append(crop_rle(crop, corner, image.shape[:2]))
            boxes.append([*corner, crop.shape[1], crop.shape[0]])
        # One detection without a pixel.
        masks.append(crop_rle(np.zeros((0, 0), bool), (0, 0), image.shape[:2]))
        boxes.append([0, 0, 1, 1])
        xywh = np.array(boxes, dtype=np.float64)
        return Boxes(xywh, np.full(len(xywh), 0.75), np.zeros(len(xywh), int), self.masks and masks or None)


@pytest.fixture
def pictures(tmp_path: Path) -> list[str]:
    names = []
    for i, shape in enumerate([(40, 50, 3), (40, 50, 3), (30, 60, 3)]):
        picture = np.zeros(shape, np.uint8)
        picture[5:12, 10 + i : 17 + i, 2] = 255
        picture[20:26, 30:40, 2] = 255
        names.append(f"{i}.png")
        cv2.imwrite(str(tmp_path / names[-1]), picture)
    return names


def test_masks_of_a_detector_become_rings(tmp_path: Path, pictures: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    finder = RedFinder()
    monkeypatch.setattr(ring_segments, "_detector", lambda *_: finder)
    rings, notices = ring_segments.segment_rings(
        [*pictures, pictures[0], "absent.png"], tmp_path, "w.pt", cache=tmp_path / "cache"
    )
    assert finder.sizes == [2, 1]
    assert rings.group_by("image", maintain_order=True).len().rows() == [("0.png", 2), ("1.png", 2), ("2.png", 2)]
    assert rings["ring"].to_list() == [0, 1] * 3
    outline = np.array(rings["outline"][2]).reshape(-1, 2)
    assert (outline.min(axis=0).tolist(), outline.max(axis=0).tolist()) == ([11, 5], [17, 11])
    assert rings["truth"].null_count() == 6
    assert set(rings["score"]) == {0.75}
    assert dict(notices.select("code", "n").rows()) == {"ring_image_unread": 1, "ring_no_pixel": 3, "segmenter": 1}


def test_a_model_of_boxes_and_images_that_are_not_there(
    tmp_path: Path, pictures: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring_segments, "_detector", lambda *_: RedFinder(masks=False))
    with pytest.raises(DataError, match="boxes alone"):
        ring_segments.segment_rings(pictures, tmp_path, "w.pt", cache=tmp_path / "cache")
    with pytest.raises(DataError, match="images of the clips"):
        ring_segments.segment_rings(["absent.png"], tmp_path, "w.pt", cache=tmp_path / "cache")
    with pytest.raises(DataError, match="no such file"):
        monkeypatch.undo()
        ring_segments.segment_rings(pictures, tmp_path, "absent.pt", cache=tmp_path / "cache")


@pytest.mark.skipif(not RINGLET.exists(), reason="the demo's segmenter of rings is not installed")
def test_from_raw_frames_to_birds(tmp_path: Path) -> None:
    palette = Palette.of(COLOURS)
    codes = ["rgab", "ywlm", "cpos", "bmyg", "wrca", "lgpo"]
    rows, masks = [], []
    rng = np.random.default_rng(11)
    for i, code in enumerate(codes * 5):
        clip = render_clip(rng, code, n_frames=8)
        for f, (frame, rings) in enumerate(zip(clip.frames, clip.rings, strict=True)):
            name = f"{i:02d}_{f}.png"
            cv2.imwrite(str(tmp_path / name), frame)
            rows.append((f"{i:02d}", f, name))
            masks += [(name, ring.polygon.ravel().tolist(), 1.0, ring.letter) for ring in rings]
    images = pl.DataFrame(rows, schema=["clip_id", "frame_index", "image"], orient="row")
    truth = pl.DataFrame(masks, schema=["image", "outline", "score", "truth"], orient="row")
    forest, _ = forest_of(truth.filter(pl.col("image") < "12"), tmp_path, palette, trees=60)
    asked = images.filter(pl.col("clip_id") >= "12")
    found, _ = ring_segments.segment_rings(
        asked["image"].to_list(), tmp_path, "birdlab:ringlet", cache=tmp_path / "cache"
    )
    placed, _ = in_clips(found, asked)
    table, _ = ring_colours(placed, forest, tmp_path)
    lists = pl.DataFrame(
        [(clip, code, code) for clip in asked["clip_id"].unique().sort() for code in codes],
        schema=["clip_id", "individual_id", "code"],
        orient="row",
    )
    calls = match_published(table, asked, lists, palette, pair_px=15).filter(assignment="argmax")
    right = [bird == codes[int(clip) % 6] for clip, bird in calls.select("clip_id", "individual_id").rows()]
    assert np.mean(right) > 0.6
