"""Factors of birds: held against numpy and scikit-image, odd boxes and pictures, shards, cameras that change."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from videos import write_video

from birdlab import schemas
from birdlab.difficulty import anomalies, factors, measure
from birdlab.errors import DataError
from birdlab.readers.pixels import jpeg_channels, read_gray, read_image
from birdlab.recipe import parse_recipe
from birdlab.study import Run

KINDS = ("noise", "smooth", "shapes", "dark", "bright", "flat", "stripes")


def picture(kind: str, seed: int, size: tuple[int, int] = (210, 140)) -> np.ndarray:
    """A gray picture of one kind."""
    rng, (width, height) = np.random.default_rng(seed), size
    y, x = np.mgrid[:height, :width]
    if kind == "noise":
        return rng.integers(0, 256, (height, width), dtype=np.uint8)
    if kind == "smooth":
        return ((x * 200 / width + y * 50 / height) % 256).astype(np.uint8)
    if kind == "flat":
        return np.full((height, width), 90 + seed % 80, np.uint8)
    if kind == "stripes":
        return (((x + y) // (2 + seed % 5) % 2) * 255).astype(np.uint8)
    image = np.full((height, width), 120, np.uint8)
    for _ in range(60):
        at = tuple(int(v) for v in rng.integers(0, (width, height)))
        cv2.circle(image, at, int(rng.integers(2, 15)), int(rng.integers(0, 256)), -1)
    image = cv2.GaussianBlur(image, (0, 0), 0.3 + seed % 4)
    return {"dark": image // 8, "bright": 255 - image // 6}.get(kind, image)


def boxes_for(seed: int, size: tuple[int, int] = (210, 140)) -> np.ndarray:
    """One to five boxes, some of them across the border, all with at least 3 px a side inside."""
    rng = np.random.default_rng(1000 + seed)
    wh = rng.uniform(8, 60, (1 + seed % 5, 2))
    return np.hstack([rng.uniform(-4, np.array(size) - 8, (len(wh), 2)), wh])


def independent(gray: np.ndarray, boxes: np.ndarray) -> list[dict[str, Any]]:
    """The same by numpy and scikit-image, from the definitions; pixel by pixel where that is plain."""
    from skimage.filters import laplace

    height, width = gray.shape
    edges = cv2.Canny(gray, 100, 200) > 0
    background, rows = np.ones(gray.shape, bool), []
    inside = [(np.arange(width) + 1 > x) & (np.arange(width) < x + w) for x, _, w, _ in boxes]
    below = [(np.arange(height) + 1 > y) & (np.arange(height) < y + h) for _, y, _, h in boxes]
    for across, down in zip(inside, below, strict=True):
        background &= ~np.outer(down, across)
    for (x, y, w, h), across, down in zip(boxes, inside, below, strict=True):
        crop = gray[down][:, across].astype(np.float64)
        response = laplace(np.pad(crop, 1, mode="reflect"), ksize=3)[1:-1, 1:-1]
        seen = max(0, min(x + w, width) - max(x, 0)) * max(0, min(y + h, height) - max(y, 0))
        rows.append(
            {
                "brightness_global": gray.mean(),
                "brightness_local": crop.mean(),
                "contrast_global": gray.std(),
                "contrast_local": crop.std(),
                "blur_local": response.var(),
                "clutter_background": edges[background].mean(),
                "clutter_local": edges[down][:, across].mean(),
                "crowding": len(boxes),
                "rel_size": np.sqrt(w * h / (width * height)),
                "border_px": max(0.0, min(x, y, width - x - w, height - y - h)),
                "n_pixels": crop.size,
                "clipped": 1 - seen / (w * h),
            }
        )
    return rows


@pytest.mark.parametrize("seed", range(28))
def test_factors_are_those_of_numpy_and_scikit_image(seed: int) -> None:
    gray, boxes = picture(KINDS[seed % len(KINDS)], seed), boxes_for(seed)
    _, birds = measure.measure_frame(gray, boxes)
    for bird, expected in zip(birds, independent(gray, boxes), strict=True):
        assert bird["reason"] is None
        for name, value in expected.items():
            tolerance = {"abs": 1e-12} if name.startswith("clutter") else {"rel": 1e-6, "abs": 1e-9}
            assert bird[name] == pytest.approx(value, **tolerance), name


def test_relative_size_and_blur_by_hand() -> None:
    gray = np.zeros((100, 200), np.uint8)
    gray[10:13, 20:23] = [[0, 0, 0], [0, 9, 0], [0, 0, 0]]
    frame, (bird,) = measure.measure_frame(gray, np.array([[20.0, 10, 3, 3]]))
    # Mirrored at the crop's border the response is -36 in the middle and 18 at four pixels: variance 2592/9 - 4².
    assert bird["blur_local"] == pytest.approx(272)
    assert bird["rel_size"] == pytest.approx((9 / 20000) ** 0.5)
    assert bird["contrast_local"] == pytest.approx(np.sqrt(81 / 9 - 1))
    assert (bird["border_px"], bird["clipped"], bird["n_pixels"]) == (10, 0, 9)
    assert frame["background_share"] == 1 - 9 / 20000


def test_boxes_that_cannot_be_measured_say_why() -> None:
    gray = picture("noise", 1)
    boxes = np.array(
        [[-10.0, 20, 20, 20], [5, 5, 1, 1], [40, 40, 2, 9], [300, 10, 20, 20], [60, 60, 0, 8], [10.1, 30, 20.9, 5]]
    )
    _, (clipped, dot, thin, outside, flat, hair) = measure.measure_frame(gray, boxes)
    assert (clipped["clipped"], clipped["n_pixels"], clipped["border_px"]) == (0.5, 200, 0)
    assert clipped["rel_size"] == pytest.approx(20 / np.sqrt(210 * 140))
    assert dot["brightness_local"] == gray[5, 5] and dot["clutter_local"] in (0.0, 1.0)
    assert dot["contrast_local"] is None and dot["blur_local"] is None and "one pixel" in dot["reason"]
    assert thin["contrast_local"] == pytest.approx(gray[40:49, 40:42].std())
    assert thin["blur_local"] is None and "3 px" in thin["reason"]
    for bird, why in ((outside, "outside"), (flat, "without area")):
        assert all(bird[name] is None for name in measure.AT_BIRD) and why in bird["reason"]
        assert bird["n_pixels"] == 0 and bird["brightness_global"] == pytest.approx(gray.mean())
    assert outside["clipped"] == 1 and outside["border_px"] is None and outside["rel_size"] is not None
    assert flat["rel_size"] is None and flat["clipped"] is None
    assert hair["n_pixels"] == 21 * 5, "10.1 + 20.9 ends at 31"
    assert {bird["crowding"] for bird in (clipped, dot, flat)} == {6}


def test_background_is_what_no_box_and_no_ignored_region_covers() -> None:
    gray = picture("noise", 2)
    edges = cv2.Canny(gray, 100, 200) > 0
    boxes, others = np.array([[10.0, 10, 40, 40], [30, 30, 40, 40]]), np.array([[150.0, 20, 20, 20]])
    region = np.zeros(gray.shape, bool)
    region[90:130, 60:120] = np.tri(40, 60, dtype=bool)
    out = region.copy()
    for x, y, w, h in [*boxes, *others]:
        out[int(y) : int(y + h), int(x) : int(x + w)] = True
    frame, birds = measure.measure_frame(gray, boxes, others=others, regions=[region])
    assert frame["clutter_background"] == pytest.approx(edges[~out].mean(), abs=1e-12)
    assert frame["background_share"] == pytest.approx(1 - out.mean(), abs=1e-12)
    assert frame["edge_fraction"] == pytest.approx(edges.mean(), abs=1e-12)
    assert birds[1]["clutter_local"] == pytest.approx(edges[30:70, 30:70].mean()), "measured before it is masked"
    assert [bird["crowding"] for bird in birds] == [2, 2]
    whole, (bird,) = measure.measure_frame(gray, np.array([[-1.0, -1, 300, 300]]))
    assert whole["clutter_background"] is None and whole["reason"] == bird["reason"] == "no background left"
    assert bird["clutter_local"] == pytest.approx(edges.mean())


@given(st.lists(st.tuples(*[st.floats(-30, 60)] * 2, *[st.floats(0, 40)] * 2), max_size=6))
def test_pixels_of_boxes(boxes: list[tuple[float, float, float, float]]) -> None:
    painted, windows = np.zeros((30, 50), bool), [measure.window(box, 50, 30) for box in boxes]
    for found in windows:
        if found is not None:
            assert 0 <= found.left < found.right <= 50 and 0 <= found.top < found.bottom <= 30
            painted[found.top : found.bottom, found.left : found.right] = True
    assert measure.covered_px([w for w in windows if w]) == painted.sum()
    for box in boxes:
        about = measure.place(box, 50, 30)
        assert about["clipped"] is None or 0 <= about["clipped"] <= 1
        assert (about["border_px"] is None) == (about["reason"] is not None)


@pytest.mark.parametrize(
    "gray", [np.zeros((4, 4, 3), np.uint8), np.zeros((4, 4), np.uint16), np.zeros((0, 4), np.uint8)]
)
def test_a_frame_is_gray_and_8_bit(gray: np.ndarray) -> None:
    with pytest.raises(ValueError, match="uint8"):
        measure.measure_frame(gray, np.zeros((0, 4)))


# --- pictures of every kind


def colours(width: int = 60, height: int = 40) -> np.ndarray:
    """RGB without symmetry, smooth enough for a JPEG."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 4, y * 6, (x + y) * 2], axis=-1).astype(np.uint8)


def test_gray_of_every_kind_of_picture(tmp_path: Path) -> None:
    rgb, path = colours(), tmp_path / "p"
    luma = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    Image.fromarray(rgb).save(f"{path}.jpg", quality=92)
    assert np.array_equal(read_gray(f"{path}.jpg"), cv2.imread(f"{path}.jpg", cv2.IMREAD_GRAYSCALE))
    assert np.abs(read_gray(f"{path}.jpg").astype(int) - luma).max() <= 12
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(rgb).save(f"{path}_turned.jpg", quality=92, exif=exif)
    assert np.array_equal(read_gray(f"{path}_turned.jpg"), np.rot90(read_gray(f"{path}.jpg"), -1))
    Image.fromarray(luma).save(f"{path}_gray.jpg", quality=92)
    assert np.abs(read_gray(f"{path}_gray.jpg").astype(int) - luma).max() <= 6
    deep = luma.astype(np.uint16) * 257
    cv2.imwrite(f"{path}_16.png", deep)
    assert np.array_equal(read_gray(f"{path}_16.png"), luma), "65535 is 255"
    Image.fromarray(np.dstack([rgb, np.full(luma.shape, 255, np.uint8)])).save(f"{path}_rgba.png")
    Image.fromarray(np.dstack([rgb, np.zeros_like(luma)])).save(f"{path}_clear.png")
    assert np.array_equal(read_gray(f"{path}_rgba.png"), luma) and read_gray(f"{path}_clear.png").max() == 0
    Image.fromarray(rgb).convert("CMYK").save(f"{path}_cmyk.jpg", quality=95)
    as_read = cv2.cvtColor(read_image(f"{path}_cmyk.jpg"), cv2.COLOR_BGR2GRAY)
    assert np.array_equal(read_gray(f"{path}_cmyk.jpg"), as_read)
    assert np.abs(as_read.astype(int) - luma).max() <= 12


@pytest.mark.parametrize(
    ("name", "change", "found"),
    [
        ("cut.jpg", lambda raw: raw[: len(raw) // 2], "truncated"),
        ("head.jpg", lambda raw: raw[:10], "Truncated"),
        ("empty.jpg", lambda raw: b"", "empty"),
        ("text.jpg", lambda raw: b"not a picture", "no picture"),
    ],
)
def test_a_broken_picture_is_an_error_never_a_gray_half(tmp_path: Path, name: str, change: Any, found: str) -> None:
    Image.fromarray(colours()).save(tmp_path / "whole.jpg")
    (tmp_path / name).write_bytes(change((tmp_path / "whole.jpg").read_bytes()))
    with pytest.raises(DataError) as caught:
        read_gray(tmp_path / name)
    assert found in str(caught.value) and name in str(caught.value)
    with pytest.raises(DataError, match="no such file"):
        read_gray(tmp_path / "absent.jpg")


def test_channels_of_a_jpeg(tmp_path: Path) -> None:
    for mode, n in (("L", 1), ("RGB", 3), ("CMYK", 4)):
        for progressive in (False, True):
            Image.fromarray(colours()).convert(mode).save(tmp_path / "p.jpg", progressive=progressive)
            assert jpeg_channels((tmp_path / "p.jpg").read_bytes()) == n
    Image.fromarray(colours()).save(tmp_path / "p.png")
    assert jpeg_channels((tmp_path / "p.png").read_bytes()) is None
    assert jpeg_channels(b"\xff\xd8\xff") is None


# --- a whole study


def study(folder: Path, *, n: int = 7, shard_size: int = 2, unreadable: int = 3) -> Run:
    """A run over photographs of two sessions, one of them unreadable, with a crowd, an ignored box and a val frame."""
    images, annotations = [], []
    (folder / "data" / "nest ä").mkdir(parents=True)
    (folder / "data" / "b").mkdir()
    for i in range(n):
        name = f"{'nest ä' if i < 4 else 'b'}/{i}.{'jpg' if i == unreadable else 'png'}"
        cv2.imencode(name[-4:], picture("shapes", i))[1].tofile(folder / "data" / name)
        if i == unreadable:
            raw = (folder / "data" / name).read_bytes()
            (folder / "data" / name).write_bytes(raw[: len(raw) // 2])
        images.append({"id": i + 1, "file_name": name, "width": 210, "height": 140})
        for box in boxes_for(i).round(1).tolist() if i != 5 else []:
            annotations.append({"bbox": box, "image_id": i + 1, "iscrowd": 0})
    annotations.append({"bbox": [2, 2, 50, 50], "image_id": 1, "iscrowd": 1, "segmentation": []})
    annotations.append({"bbox": [100, 60, 40, 50], "image_id": 2, "iscrowd": 0, "ignore": 1})
    for i, annotation in enumerate(annotations, start=1):
        annotation |= {"id": i, "category_id": 1, "area": annotation["bbox"][2] * annotation["bbox"][3]}
    truth = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "bird"}]}
    (folder / "data" / "truth.json").write_text(json.dumps(truth))
    recipe = {
        "name": "s",
        "shard_size": shard_size,
        "data": {
            "root": "data",
            "media": [{"images": "**/*.{png,jpg}", "session": "folder"}],
            "labels": [{"path": "truth.json", "format": "coco"}],
        },
    }
    return Run(parse_recipe(recipe), folder / "r.yaml", folder / "s", "03_difficulty")


TABLES = ("factors", "frame_facts", "factor_settings", "factor_notices")


def test_tables_of_a_study(tmp_path: Path) -> None:
    run = study(tmp_path)
    table, facts = run.table("factors"), run.table("frame_facts")
    assert table.height == sum(len(boxes_for(i)) for i in range(7) if i != 5)
    assert facts["frame_id"].to_list() == ["b/4.png", "b/6.png", *(f"nest ä/{i}.png" for i in range(3)), "nest ä/3.jpg"]
    for i in (2, 4, 6):
        mine = table.filter(pl.col("frame_id").str.ends_with(f"/{i}.png"))
        gray = read_gray(tmp_path / "data" / mine["frame_id"][0])
        for row, expected in zip(mine.iter_rows(named=True), independent(gray, boxes_for(i).round(1)), strict=True):
            assert {k: row[k] for k in expected} == pytest.approx(expected, rel=1e-6, abs=1e-9)
    unread = table.filter(pl.col("frame_id") == "nest ä/3.jpg")
    assert unread["brightness_local"].null_count() == unread.height == 4
    assert unread["reason"].str.starts_with("frame cannot be read: found").all()
    assert not unread["reason"].str.contains(str(tmp_path), literal=True).any()
    assert unread["rel_size"].null_count() == 0 and unread["crowding"].unique().to_list() == [4]
    notices = dict(run.table("factor_notices").select("code", "n").iter_rows())
    assert notices["frame_unreadable"] == 1
    assert notices["box_clipped"] == table.filter((pl.col("clipped") > 0) & (pl.col("clipped") < 1)).height > 0
    settings = dict(run.table("factor_settings").iter_rows())
    assert settings["version of opencv-python"] == cv2.__version__ and "100 and 200" in settings["edges"]
    # The crowd and the ignored box are no background and no bird.
    edges = cv2.Canny(picture("shapes", 0), 100, 200) > 0
    out = np.zeros(edges.shape, bool)
    out[2:52, 2:52] = True
    for found in (measure.window(box, 210, 140) for box in boxes_for(0).round(1)):
        out[found.top : found.bottom, found.left : found.right] = True
    first = table.filter(pl.col("frame_id") == "nest ä/0.png")
    assert first["clutter_background"][0] == pytest.approx(edges[~out].mean(), abs=1e-12)


def test_killed_and_resumed_gives_the_same_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = study(tmp_path, shard_size=1)
    whole = factors.build(run)
    (parts,) = (run.dir / "shards").iterdir()
    names = sorted(path.name for path in parts.iterdir())
    for path in parts.iterdir():
        path.unlink()
    counted, honest = [], measure.measure_frame

    def killed(*args: Any, **options: Any) -> Any:
        counted.append(1)
        if len(counted) == 4:
            raise KeyboardInterrupt
        return honest(*args, **options)

    monkeypatch.setattr(measure, "measure_frame", killed)
    monkeypatch.setattr(factors, "_cores", lambda: 1)
    with pytest.raises(KeyboardInterrupt):
        factors.build(run)
    assert len(list(parts.glob("part-*"))) == 3, "what is done is kept"
    (parts / names[0]).write_bytes(b"PAR1 half")
    with ThreadPoolExecutor(2) as pool:
        again = factors.build(run, executor=pool)
    assert sorted(path.name for path in parts.iterdir()) == names
    done = len(counted)
    assert done == 4 + 3, "two frames that were left, and the damaged part; the unreadable frame has no pixels"
    once_more = factors.build(run)
    assert len(counted) == done, "nothing is measured twice"
    for name in TABLES:
        assert whole[name].equals(again[name]) and whole[name].equals(once_more[name])


def test_the_executor_changes_nothing(tmp_path: Path) -> None:
    run = study(tmp_path)
    alone = factors.build(run)
    for path in (run.dir / "shards").rglob("*.parquet"):
        path.unlink()
    with ProcessPoolExecutor(2) as pool:
        spread = factors.build(run, executor=pool)
    assert all(alone[name].equals(spread[name]) for name in TABLES)


def test_a_changed_box_is_measured_again(tmp_path: Path) -> None:
    run = study(tmp_path)
    frames, labels, media = (run.table(name) for name in ("frames", "labels", "media"))
    before = factors.frame_entries(frames, labels, media, run.data_root)
    labels = labels.with_columns(
        pl.when(pl.col("label_id") == labels["label_id"][0]).then(3.0).otherwise("x").alias("x")
    )
    after = factors.frame_entries(frames, labels, media, run.data_root)
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1
    assert all("/" not in entry["media"][:1] for entry in before), "no part depends on where the data lie"


def test_nothing_labelled_gives_empty_tables() -> None:
    tables = factors.tables_of(factors.PART.to_frame(), schemas.empty("frames"), schemas.empty("labels"))
    for name in ("factors", "frame_facts"):
        assert schemas.validate(name, tables[name]).is_empty()
    assert tables["factor_notices"].is_empty() and not tables["factor_settings"].is_empty()


def test_occlusion_is_taken_over_where_labels_carry_it() -> None:
    labels = pl.DataFrame({"label_id": ["a", "b"], "occlusion": [0.4, None]})
    part = pl.DataFrame([{"record": "bird", "frame_id": "f", "label_id": i, "crowding": 2} for i in "ab"])
    part = (
        pl.concat([factors.PART.to_frame(), part], how="diagonal_relaxed").select(list(factors.PART)).cast(factors.PART)
    )
    frames = pl.DataFrame({"frame_id": ["f"], "video_id": ["s"]})
    assert factors.tables_of(part, frames, labels)["factors"]["occlusion"].to_list() == [0.4, None]


def test_videos_are_measured_from_the_decoder(tmp_path: Path) -> None:
    write_video(tmp_path / "data" / "v.mp4", [0, 40, 80, 120, 160, 200])
    images = [{"id": 1, "file_name": "v.mp4#1"}, {"id": 2, "file_name": "v.mp4#4"}]
    labels = pl.DataFrame(
        [
            {"label_id": str(i), "frame_id": f"v.mp4#{k}", "category": "bird", "x": 20.0, "y": 20.0, "w": 10.0}
            | {"h": 8.0, "is_crowd": False, "is_ignored": False, "mask_rle": None}
            for i, k in enumerate((1, 4))
        ]
    )
    recipe = {"name": "v", "data": {"root": "data", "media": [{"videos": "*.mp4"}]}}
    run = Run(parse_recipe(recipe), tmp_path / "r.yaml", tmp_path / "v", "03_difficulty")
    entries = factors.frame_entries(run.table("frames"), labels, run.table("media"), run.data_root)
    part = factors.measure_shard(entries, root=str(run.data_root))
    birds = part.filter(pl.col("record") == "bird")
    assert birds["frame_id"].to_list() == [image["file_name"] for image in images]
    assert birds["brightness_local"].to_list() == pytest.approx([9, 36], abs=3)
    assert part.filter(pl.col("record") == "frame")["colour_spread"].max() < anomalies.COLOURLESS
    assert not list(tmp_path.rglob("*.jpg"))


# --- cameras that change inside a session


def scene(seed: int, *, right: int = 0, down: int = 0, gain: float = 1.0) -> np.ndarray:
    """A thumbnail of one place, seen from a camera turned by some pixels, with noise and a bird somewhere."""
    rng = np.random.default_rng(seed)
    wide = cv2.GaussianBlur(np.random.default_rng(7).normal(0, 1, (200, 300)).astype(np.float32), (0, 0), 2)
    view = wide[40 - down : 148 - down, 50 - right : 242 - right] * 250 + 120
    x, y = (int(v) for v in rng.integers(10, 90, 2))
    view[y : y + 12, x : x + 16] = rng.integers(0, 255)
    return np.clip(view * gain + rng.normal(0, 3, view.shape), 0, 255).astype(np.uint8)


def facts_of(n: int, spread: list[float | None] | None = None, session: str = "s") -> pl.DataFrame:
    rows = {"frame_id": [f"{session}{i}" for i in range(n)], "video_id": [session] * n, "width_px": [3840] * n}
    frame = pl.DataFrame(rows | {"colour_spread": spread or [12.0] * n}, schema_overrides={"colour_spread": pl.Float64})
    return frame


@pytest.mark.parametrize("moved", [3, 5, 6])
def test_a_nudged_camera_is_found_and_measured(moved: int) -> None:
    thumbs = [scene(i, right=4, down=-3) if i >= 12 - moved else scene(i) for i in range(12)]
    found = anomalies.find_anomalies(facts_of(12), thumbs)
    steady = found["view"][: 12 - moved]
    assert steady.n_unique() == 1 and found["view"][12 - moved :].n_unique() == 1
    assert steady[0] != found["view"][11], "two views"
    step = np.array(
        [found["shift_x_px"][11] - found["shift_x_px"][0], found["shift_y_px"][11] - found["shift_y_px"][0]]
    )
    assert step == pytest.approx([80, -60], abs=8), "4 and -3 px of the thumbnail, 20 px each in the frame"
    facts = facts_of(12).join(found, on="frame_id")
    (notice,) = anomalies.anomaly_notices(facts)
    assert notice.code == "camera_nudged" and notice.n == min(moved, 12 - moved) and "session s" in notice.message
    expected = 2 if moved >= anomalies.MIN_FRAMES else 1
    assert anomalies.strata(facts)["stratum"].n_unique() == expected
    assert anomalies.strata(facts, split=False)["stratum"].unique().to_list() == ["s"]


def test_a_steady_camera_is_not_flagged_by_birds_or_light() -> None:
    thumbs = [scene(i, gain=0.6 + 0.05 * i) for i in range(10)]
    found = anomalies.find_anomalies(facts_of(10), thumbs)
    assert found["view"].to_list() == [1] * 10 and found["shift_px"].max() < 10
    assert anomalies.anomaly_notices(facts_of(10).join(found, on="frame_id")) == []


def test_pictures_of_many_places_have_no_common_view() -> None:
    rng = np.random.default_rng(3)
    thumbs = [cv2.GaussianBlur(rng.integers(0, 256, (108, 192), dtype=np.uint8), (0, 0), 2) for _ in range(8)]
    found = anomalies.find_anomalies(facts_of(8), thumbs)
    assert found["shift_px"].null_count() == 8
    (notice,) = anomalies.anomaly_notices(facts_of(8).join(found, on="frame_id"))
    assert notice.code == "no_common_view" and notice.n == 8
    few = anomalies.find_anomalies(facts_of(3), thumbs[:3])
    assert few["view"].null_count() == 3 and anomalies.anomaly_notices(facts_of(3).join(few, on="frame_id")) == []


def test_infrared_is_lost_colour_not_a_gray_sky() -> None:
    def infrared(spread: list[float | None]) -> list[bool | None]:
        return anomalies.find_anomalies(facts_of(len(spread), spread), [None] * len(spread))["is_infrared"].to_list()

    assert infrared([9, 8, 0.1, 0, 9]) == [False, False, True, True, False]
    assert infrared([0.7, 1.0, 14.0, 0.9]) == [False] * 4, "little colour is not none"
    assert infrared([0.1, 0.0, 0.2]) == [None] * 3, "gray throughout: nothing was lost"
    assert infrared([None, 8.0, 0.0]) == [None, False, True]
    facts = facts_of(12, [9.0] * 6 + [0.0] * 6)
    facts = facts.join(anomalies.find_anomalies(facts, [scene(i) for i in range(12)]), on="frame_id")
    assert [n.code for n in anomalies.anomaly_notices(facts)] == ["colour_to_infrared"]
    assert anomalies.strata(facts)["stratum"].to_list() == ["s"] * 6 + ["s · infrared"] * 6


def test_colour_is_looked_at_rarely(tmp_path: Path) -> None:
    looked: list[int] = []

    def look(i: int) -> float:
        looked.append(i)
        return 12.0 if i < 20 else 0.1

    values = anomalies.spread_by_looking([np.full((4, 4), 90, np.uint8)] * 32, look)
    assert values == [12.0] * 20 + [0.1] * 12 and len(looked) <= 8
    assert len(looked) == len(set(looked))


def test_a_session_of_jpegs_that_turns_to_infrared(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    rgb = cv2.resize(np.random.default_rng(1).integers(0, 256, (9, 16, 3), dtype=np.uint8), (320, 180))
    for i in range(10):
        image = Image.fromarray(rgb)
        (image.convert("L").convert("RGB") if i >= 6 else image).save(tmp_path / "data" / f"{i}.jpg", quality=80)
    entry = {"video_id": "s", "kind": "image", "frame_index": 0, "sha256": "", "time_s": None, "size": [320, 180]}
    entry |= {"birds": [["b", 10, 10, 20, 20]], "others": [], "regions": []}
    payload = [entry | {"frame_id": f"{i}", "media": f"{i}.jpg"} for i in range(10)]
    part = factors.measure_shard(payload, root=str(tmp_path / "data")).filter(pl.col("record") == "frame")
    facts = part.with_columns(pl.lit("s").alias("video_id"))
    found = anomalies.find_anomalies(facts, [None] * 10)
    assert found["is_infrared"].to_list() == [False] * 6 + [True] * 4


# --- real photographs


@pytest.mark.real
def test_factors_of_real_birds_equal_an_independent_measurement(real_data: Path, tmp_path: Path) -> None:
    recipe = {
        "name": "crops",
        "data": {
            "root": str(real_data / "flying_birds" / "crops"),
            "media": [{"images": "images/*.jpg", "session": r"(V_BIRD_\d+)"}],
            "labels": [{"path": "coco.json", "format": "coco"}],
        },
    }
    run = Run(parse_recipe(recipe), tmp_path / "r.yaml", tmp_path / "crops", "03_difficulty")
    table, labels = run.table("factors"), run.table("labels")
    assert table.height == 165 and table["video_id"].n_unique() == 18 and table["reason"].null_count() == 165
    for (frame_id,), mine in table.partition_by("frame_id", as_dict=True, maintain_order=True).items():
        gray = cv2.imread(str(run.data_root / frame_id), cv2.IMREAD_GRAYSCALE)
        boxes = labels.filter(pl.col("frame_id") == frame_id).select("x", "y", "w", "h").to_numpy()
        for row, expected in zip(mine.iter_rows(named=True), independent(gray, boxes), strict=True):
            assert {k: row[k] for k in expected} == pytest.approx(expected, rel=1e-6, abs=1e-9)
    codes = run.table("factor_notices")["code"].to_list()
    assert "camera_nudged" not in codes and "colour_to_infrared" not in codes
    sizes = table["rel_size"]
    assert 0.016 < sizes.min() < sizes.max() < 0.13


@pytest.mark.real
def test_factors_of_real_photographs(real_data: Path) -> None:
    photos = sorted((real_data / "photos").rglob("*.jpg"))
    assert len(photos) >= 3
    for path in photos:
        gray = read_gray(path)
        assert np.array_equal(gray, cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)), path.name
        height, width = gray.shape
        boxes = np.array([[width * 0.3, height * 0.2, width * 0.2, height * 0.3], [-5.0, -5.0, 40.0, 40.0]])
        _, birds = measure.measure_frame(gray, boxes)
        for bird, expected in zip(birds, independent(gray, boxes), strict=True):
            assert {k: bird[k] for k in expected} == pytest.approx(expected, rel=1e-6, abs=1e-9), path.name
