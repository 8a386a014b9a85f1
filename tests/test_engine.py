"""AP engine: equal to pycocotools and to a plain implementation of the relative-scale rule."""

from __future__ import annotations

import contextlib
import io
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab import schemas
from birdlab.detection.backends import mean_defined
from birdlab.detection.boxes import RELATIVE_BINS
from birdlab.detection.engine import STATS, evaluate
from birdlab.detection.masks import evaluate_masks
from birdlab.errors import ParameterError

SIZES = [(3840, 2160), (1920, 1080), (640, 480), (4096, 3000)]


def frames_table(sizes: list[tuple[int, int]], states: list[str] | None = None) -> pl.DataFrame:
    n = len(sizes)
    frame = pl.DataFrame(
        {
            "frame_id": [f"f{k:03d}" for k in range(n)],
            "media_id": [f"f{k:03d}" for k in range(n)],
            "video_id": [f"s{k % 3}" for k in range(n)],
            "frame_index": [0] * n,
            "width_px": [w for w, _ in sizes],
            "height_px": [h for _, h in sizes],
            "split": ["test"] * n,
            "label_state": states or ["labelled"] * n,
        },
        schema_overrides={"width_px": pl.Int32, "height_px": pl.Int32},
    )
    return schemas.validate("frames", frame)


def labels_table(rows: list[dict]) -> pl.DataFrame:
    base = {"area_px": None, "mask_rle": None, "is_crowd": False, "is_ignored": False, "category": "bird"}
    full = [{"label_id": str(k), **base, **row} for k, row in enumerate(rows)]
    return schemas.validate("labels", pl.DataFrame(full, infer_schema_length=None)) if full else schemas.empty("labels")


def predictions_table(rows: list[dict]) -> pl.DataFrame:
    full = [
        {"model": "m", "prediction_id": str(k), "category": "bird", "mask_rle": None, **r} for k, r in enumerate(rows)
    ]
    table = "predictions"
    return schemas.validate(table, pl.DataFrame(full, infer_schema_length=None)) if full else schemas.empty(table)


def box(x: float, y: float, w: float, h: float) -> dict[str, float]:
    return {"x": float(x), "y": float(y), "w": float(w), "h": float(h)}


def random_study(seed: int, *, n_images: int = 25, classes: tuple[str, ...] = ("a", "b", "c"), masks: bool = False):
    """Mixed sizes, crowds, empty frames, several classes, tied scores."""
    from pycocotools import mask as coco_mask

    rng = np.random.default_rng(seed)
    sizes = [SIZES[k] if not masks else (160, 120) for k in rng.integers(0, 4, n_images)]
    labels, found = [], []

    def mask_of(b: dict[str, float], size: tuple[int, int]) -> str:
        w, h = size
        xs = b["x"] + b["w"] * (0.5 + 0.5 * np.cos(np.linspace(0, 2 * np.pi, 9)[:-1]))
        ys = b["y"] + b["h"] * (0.5 + 0.5 * np.sin(np.linspace(0, 2 * np.pi, 9)[:-1]))
        rle = coco_mask.merge(coco_mask.frPyObjects([np.column_stack([xs, ys]).ravel().tolist()], h, w))
        return json.dumps({"size": rle["size"], "counts": rle["counts"].decode()})

    for k, (w, h) in enumerate(sizes):
        for _ in range(int(rng.integers(0, 6)) if k % 5 else 0):
            scale = float(2.0 ** rng.uniform(-6, -0.5)) if not masks else float(rng.uniform(0.1, 0.6))
            bw, bh = scale * w * rng.uniform(0.7, 1.4), scale * h * rng.uniform(0.7, 1.4)
            b = box(*np.round([rng.uniform(0, w - bw) if w > bw else 0, rng.uniform(0, max(h - bh, 1)), bw, bh], 1))
            crowd = bool(rng.random() < 0.15)
            cls = str(rng.choice(list(classes)))
            area = b["w"] * b["h"] * (rng.uniform(0.5, 1) if rng.random() < 0.5 else 1)
            text = mask_of(b, (w, h)) if masks else None
            labels.append(
                {"frame_id": f"f{k:03d}", "category": cls, **b, "area_px": area, "is_crowd": crowd, "mask_rle": text}
            )
            for _ in range(int(rng.integers(0, 4))):
                j = rng.normal(0, 0.12, 4) * [b["w"], b["h"], b["w"], b["h"]]
                d = box(*np.round([b["x"] + j[0], b["y"] + j[1], max(b["w"] + j[2], 1), max(b["h"] + j[3], 1)], 1))
                name = cls if rng.random() < 0.85 else str(rng.choice(list(classes)))
                row = {"frame_id": f"f{k:03d}", "category": name, **d, "score": float(np.round(rng.random(), 1))}
                found.append(row | ({"mask_rle": mask_of(d, (w, h))} if masks else {}))
        for _ in range(int(rng.integers(0, 4))):
            d = box(
                *np.round(
                    [
                        rng.uniform(0, w * 0.8),
                        rng.uniform(0, h * 0.8),
                        rng.uniform(2, w * 0.2),
                        rng.uniform(2, h * 0.2),
                    ],
                    1,
                )
            )
            row = {
                "frame_id": f"f{k:03d}",
                "category": str(rng.choice(list(classes))),
                **d,
                "score": float(np.round(rng.random() * 0.8, 2)),
            }
            found.append(row | ({"mask_rle": mask_of(d, (w, h))} if masks else {}))
    order = rng.permutation(len(found))
    return labels_table(labels), predictions_table([found[k] for k in order]), frames_table(sizes)


def reference_stats(labels, predictions, frames, iou_type="bbox", max_dets=(1, 10, 100), use_cats=1) -> list[float]:
    """The twelve numbers from pycocotools' own loading, evaluation and summary."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    ids = {f: k + 1 for k, f in enumerate(frames["frame_id"])}
    names = {c: k + 7 for k, c in enumerate(sorted({*labels["category"], *predictions["category"]}))}
    coco = COCO()
    annotations = []
    for k, r in enumerate(labels.iter_rows(named=True), start=1):
        a = {
            "id": k,
            "image_id": ids[r["frame_id"]],
            "category_id": names[r["category"]],
            "iscrowd": int(r["is_crowd"]),
        }
        a |= {"bbox": [r["x"], r["y"], r["w"], r["h"]], "area": r["area_px"]}
        annotations.append(a | ({"segmentation": json.loads(r["mask_rle"])} if iou_type == "segm" else {}))
    results = []
    for r in predictions.iter_rows(named=True):
        a = {"image_id": ids[r["frame_id"]], "category_id": names[r["category"]], "score": r["score"]}
        # without a box, loadRes takes the mask's area
        a |= (
            {"segmentation": json.loads(r["mask_rle"])}
            if iou_type == "segm"
            else {"bbox": [r["x"], r["y"], r["w"], r["h"]]}
        )
        results.append(a)
    sizes = zip(ids.items(), frames["width_px"], frames["height_px"], strict=True)
    coco.dataset = {
        "images": [{"id": i, "file_name": f, "width": w, "height": h} for (f, i), w, h in sizes],
        "annotations": annotations,
        "categories": [{"id": i, "name": n} for n, i in names.items()],
    }
    with contextlib.redirect_stdout(io.StringIO()):
        coco.createIndex()
        run = COCOeval(coco, coco.loadRes(results), iou_type)
        run.params.maxDets = list(max_dets)
        run.params.useCats = use_cats
        run.evaluate()
        run.accumulate()
        run.summarize()
    return run.stats.tolist()


def assert_equal_stats(stats: dict[str, float | None], reference: list[float]) -> None:
    for name, expected in zip(STATS, reference, strict=True):
        if expected == -1:
            assert stats[name] is None, name
        else:
            assert stats[name] == pytest.approx(expected, abs=1e-12), name


@pytest.mark.parametrize("engine", ["hotcoco", "pycocotools"])
@pytest.mark.parametrize("seed", range(4))
def test_twelve_numbers_equal_pycocotools(engine, seed):
    labels, predictions, frames = random_study(seed)
    result = evaluate(labels, predictions, frames, engine=engine)
    assert_equal_stats(result.stats, reference_stats(labels, predictions, frames))
    assert result.n_ground_truth == labels.filter(~pl.col("is_crowd")).height
    assert result.stats["ap50"] > 0.2


@pytest.mark.parametrize("engine", ["hotcoco", "pycocotools"])
@pytest.mark.parametrize("seed", range(3))
def test_twelve_mask_numbers_equal_pycocotools(engine, seed):
    labels, predictions, frames = random_study(seed, masks=True)
    result = evaluate(labels, predictions, frames, engine=engine, iou_type="segm")
    assert_equal_stats(result.stats, reference_stats(labels, predictions, frames, "segm"))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(10, 10**6), n_images=st.integers(1, 8), n_classes=st.integers(1, 3))
def test_both_engines_agree_on_small_sets(seed, n_images, n_classes):
    labels, predictions, frames = random_study(seed, n_images=n_images, classes=tuple("abc"[:n_classes]))
    fast = evaluate(labels, predictions, frames)
    slow = evaluate(labels, predictions, frames, engine="pycocotools")
    for name in STATS:
        assert fast.stats[name] == (None if slow.stats[name] is None else pytest.approx(slow.stats[name], abs=1e-12))
    assert fast.by_size["n"].to_list() == slow.by_size["n"].to_list()
    for a, b in zip(fast.by_size["ap"], slow.by_size["ap"], strict=True):
        assert a == (None if b is None else pytest.approx(b, abs=1e-12))
    assert fast.curve.equals(slow.curve) or np.allclose(
        fast.curve.select("precision", "score").fill_null(0).to_numpy(),
        slow.curve.select("precision", "score").fill_null(0).to_numpy(),
        atol=1e-12,
    )


def test_class_agnostic_equals_pycocotools_without_categories():
    labels, predictions, frames = random_study(5)
    result = evaluate(labels, predictions, frames, class_agnostic=True)
    assert_equal_stats(result.stats, reference_stats(labels, predictions, frames, use_cats=0))
    assert result.by_category["ap"].null_count() == result.by_category.height
    assert result.curve["category"].unique().to_list() == ["all classes"]


def iou_of(d: list[float], g: list[float], crowd: bool) -> float:
    w = min(d[0] + d[2], g[0] + g[2]) - max(d[0], g[0])
    h = min(d[1] + d[3], g[1] + g[3]) - max(d[1], g[1])
    if w <= 0 or h <= 0:
        return 0.0
    return w * h / (d[2] * d[3] if crowd else d[2] * d[3] + g[2] * g[3] - w * h)


def relative_ap(labels, predictions, frames, lo: float, hi: float) -> float | None:
    """The USB rule in pixels, written out plainly: mean over classes and ten overlaps of the 101-point AP."""
    size = {f: (w, h) for f, w, h in frames.select("frame_id", "width_px", "height_px").iter_rows()}

    def outside(r) -> bool:
        w, h = size[r["frame_id"]]
        return not lo <= (r["w"] * r["h"] / (w * h)) ** 0.5 <= hi

    values = []
    for name in sorted({*labels["category"], *predictions["category"]}):
        gts = [r for r in labels.iter_rows(named=True) if r["category"] == name]
        n = sum(not r["is_crowd"] and not outside(r) for r in gts)
        if n == 0:
            continue
        for thr in np.linspace(0.5, 0.95, 10):
            flags = []
            for f in size:
                here = [g | {"off": g["is_crowd"] or outside(g)} for g in gts if g["frame_id"] == f]
                here.sort(key=lambda g: g["off"])
                dets = [r for r in predictions.iter_rows(named=True) if r["category"] == name and r["frame_id"] == f]
                dets = sorted(dets, key=lambda r: -r["score"])[:100]
                taken: set[int] = set()
                for d in dets:
                    best, m = min(thr, 1 - 1e-10), -1
                    for i, g in enumerate(here):
                        if i in taken and not g["is_crowd"]:
                            continue
                        if m > -1 and not here[m]["off"] and g["off"]:
                            break
                        value = iou_of([d[c] for c in "xywh"], [g[c] for c in "xywh"], g["is_crowd"])
                        if value >= best:
                            best, m = value, i
                    if m == -1:
                        flags.append((d["score"], None if outside(d) else False))
                    else:
                        taken.add(m)
                        flags.append((d["score"], None if here[m]["off"] else True))
            flags.sort(key=lambda x: -x[0])
            hits = np.array([f for _, f in flags if f is not None], dtype=bool)
            tp, fp = np.cumsum(hits), np.cumsum(~hits)
            precision = np.maximum.accumulate((tp / np.maximum(tp + fp, 1))[::-1])[::-1] if len(hits) else hits
            at = np.searchsorted(tp / n, np.linspace(0, 1, 101), side="left")
            values.append(np.mean([precision[i] if i < len(precision) else 0.0 for i in at]))
    return float(np.mean(values)) if values else None


@pytest.mark.parametrize("engine", ["hotcoco", "pycocotools"])
def test_relative_scale_equals_the_rule_in_pixels(engine):
    labels, predictions, frames = random_study(11, n_images=16, classes=("a", "b"))
    rows = evaluate(labels, predictions, frames, engine=engine).by_size.filter(pl.col("definition") == "relative")
    assert rows["level"].to_list() == [b.level for b in RELATIVE_BINS]
    for row in rows.iter_rows(named=True):
        expected = relative_ap(labels, predictions, frames, row["lo"], row["hi"])
        if row["n"]:
            assert row["ap"] == pytest.approx(expected, abs=1e-12), row["level"]
            assert row["reason"] is None
        else:
            assert row["ap"] is None and "no labelled bird" in row["reason"]
    assert rows["n"].sum() == labels.filter(~pl.col("is_crowd")).height
    assert rows.filter(pl.col("n") > 0).height >= 5


def test_a_box_on_an_edge_counts_in_the_upper_bin():
    # 180 x 180 px is exactly 1/16 of a 4K frame
    labels = labels_table([{"frame_id": "f000", **box(100, 100, 180, 180)}])
    found = predictions_table([{"frame_id": "f000", **box(100, 100, 180, 180), "score": 0.9}])
    rows = evaluate(labels, found, frames_table([(3840, 2160)])).by_size
    by = {r["level"]: r for r in rows.filter(pl.col("definition") == "relative").iter_rows(named=True)}
    assert (by["1/16-1/8"]["n"], by["1/16-1/8"]["ap"]) == (1, 1.0)
    assert (by["1/32-1/16"]["n"], by["1/32-1/16"]["ap"]) == (0, None)


def test_coco_sizes_use_the_area_of_the_file_and_else_the_box():
    given = labels_table([{"frame_id": "f000", **box(0, 0, 50, 50), "area_px": 900.0}])
    absent = labels_table([{"frame_id": "f000", **box(0, 0, 50, 50)}])
    found = predictions_table([{"frame_id": "f000", **box(0, 0, 50, 50), "score": 0.9}])
    frames = frames_table([(200, 200)])
    assert evaluate(given, found, frames).stats["ap_small"] == 1.0
    result = evaluate(absent, found, frames)
    assert (result.stats["ap_small"], result.stats["ap_medium"]) == (None, 1.0)
    assert result.reasons["ap_small"] == "no labelled bird of this size"
    large = result.by_size.filter(level="large").row(0, named=True)
    assert (large["lo"], large["hi"], large["n"]) == (9216.0, None, 0)


@pytest.mark.parametrize("engine", ["hotcoco", "pycocotools"])
def test_no_detection_is_zero_and_no_label_is_undefined(engine):
    frames = frames_table([(200, 200), (200, 200)])
    labels = labels_table([{"frame_id": "f000", **box(10, 10, 50, 50)}])
    found = predictions_table([{"frame_id": "f000", **box(10, 10, 50, 50), "score": 0.9}])
    nothing = evaluate(labels, predictions_table([]), frames, engine=engine)
    assert (nothing.stats["ap"], nothing.stats["ar100"], nothing.n_detections) == (0.0, 0.0, 0)
    assert "0 detections" in nothing.warnings
    blank = evaluate(labels_table([]), found, frames, engine=engine)
    assert set(blank.stats.values()) == {None}
    assert blank.reasons["ap"] == "no labelled bird"
    neither = evaluate(labels_table([]), predictions_table([]), frames, engine=engine)
    assert set(neither.stats.values()) == {None} and neither.curve.is_empty()


@pytest.mark.parametrize("engine", ["hotcoco", "pycocotools"])
def test_frames_of_unknown_size_have_no_relative_size(engine):
    labels = labels_table([{"frame_id": f, **box(10, 10, 50, 50)} for f in ("f000", "f001")])
    found = predictions_table([{"frame_id": f, **box(10, 10, 50, 50), "score": 0.9} for f in ("f000", "f001")])
    frames = frames_table([(200, 200)] * 2)
    none = evaluate(labels, found, frames.with_columns(width_px=pl.lit(None, pl.Int32)), engine=engine)
    relative = none.by_size.filter(definition="relative")
    assert none.stats["ap"] == 1.0 and relative["n"].sum() == 0 and relative["ap"].null_count() == 9
    assert relative["reason"].unique().to_list() == ["width and height of the frames are unknown"]
    first = pl.when(pl.col("frame_id") == "f000").then(pl.col("height_px"))
    some = evaluate(labels, found, frames.with_columns(height_px=first), engine=engine)
    assert some.by_size.filter(level="1/4-1/2").select("n", "ap").row(0) == (1, 1.0)
    assert some.warnings == ["1 labelled birds on frames of unknown width or height are in no bin of relative size"]


@pytest.mark.parametrize("engine", ["hotcoco", "pycocotools"])
def test_no_frame_at_all(engine):
    labels, predictions, frames = random_study(2, n_images=3)
    result = evaluate(labels, predictions, frames.with_columns(label_state=pl.lit("unlabelled")), engine=engine)
    assert (result.n_images, result.n_ground_truth, result.stats["ap"]) == (0, 0, None)
    assert result.by_category.is_empty()


def test_unlabelled_frames_and_ignored_regions_are_not_scored():
    frames = frames_table([(200, 200)] * 3, ["labelled", "unlabelled", "empty"])
    labels = labels_table(
        [
            {"frame_id": "f000", **box(10, 10, 40, 40)},
            {"frame_id": "f000", **box(100, 100, 80, 80), "is_ignored": True},
        ]
    )
    found = predictions_table(
        [
            {"frame_id": "f000", **box(110, 110, 30, 30), "score": 0.95},
            {"frame_id": "f001", **box(0, 0, 30, 30), "score": 0.9},
            {"frame_id": "f000", **box(10, 10, 40, 40), "score": 0.8},
        ]
    )
    result = evaluate(labels, found, frames)
    assert (result.stats["ap"], result.n_ground_truth, result.n_images, result.n_detections) == (1.0, 1, 2, 1)
    assert any("1 detections on frames that were not labelled" in w for w in result.warnings)
    assert any("1 detections on ignored regions" in w for w in result.warnings)


@pytest.mark.parametrize("engine", ["hotcoco", "pycocotools"])
def test_max_dets_other_than_100_still_gives_ap_and_says_when_it_is_too_low(engine):
    # cocodataset/cocoapi issues 558 and 584: stats[0] of -1, and more than 100 birds in a frame
    places = [box(12 * (k % 15), 12 * (k // 15), 10, 10) for k in range(150)]
    labels = labels_table([{"frame_id": "f000", **b} for b in places])
    found = predictions_table([{"frame_id": "f000", **b, "score": 0.9} for b in places])
    frames = frames_table([(200, 200)])
    low = evaluate(labels, found, frames, engine=engine)
    assert low.stats["ar100"] == pytest.approx(100 / 150)
    assert "raise max_dets" in low.warnings[0]
    high = evaluate(labels, found, frames, max_dets=1000, engine=engine)
    assert (high.stats["ap"], high.warnings) == (1.0, [])
    assert high.stats["ar100"] == pytest.approx(100 / 150)
    ten = evaluate(labels, found, frames, max_dets=50, engine=engine)
    # all found at precision 1 up to recall 50/150: the points 0 to .33, 34 of 101
    assert ten.stats["ap"] == pytest.approx(34 / 101, abs=1e-12)


def test_per_class_and_curve_by_hand():
    frames = frames_table([(200, 200)])
    labels = labels_table(
        [
            {"frame_id": "f000", "category": "tit", **box(0, 0, 20, 20)},
            {"frame_id": "f000", "category": "tit", **box(50, 50, 20, 20)},
            {"frame_id": "f000", "category": "wren", **box(100, 100, 20, 20)},
        ]
    )
    found = predictions_table(
        [
            {"frame_id": "f000", "category": "tit", **box(0, 0, 20, 20), "score": 0.9},
            {"frame_id": "f000", "category": "tit", **box(150, 0, 20, 20), "score": 0.8},
            {"frame_id": "f000", "category": "owl", **box(150, 0, 20, 20), "score": 0.7},
        ]
    )
    result = evaluate(labels, found, frames)
    by = {r["category"]: r for r in result.by_category.iter_rows(named=True)}
    assert by["tit"]["ap50"] == pytest.approx(51 / 101)  # recall 0.5 at precision 1: 51 of 101 points
    assert (by["wren"]["ap50"], by["wren"]["n_detections"]) == (0.0, 0)
    assert (by["owl"]["ap50"], by["owl"]["reason"]) == (None, "no labelled bird of this class")
    assert result.stats["ap50"] == pytest.approx((51 / 101 + 0) / 2)
    curve = result.curve.filter(category="tit")
    assert curve["precision"].to_list() == [1.0] * 51 + [0.0] * 50
    assert curve["score"].to_list() == [0.9] * 51 + [None] * 50


def test_evaluate_refuses_what_it_cannot_score():
    labels, predictions, frames = random_study(1, n_images=4)
    two = pl.concat([predictions, predictions.with_columns(model=pl.lit("other"))])
    with pytest.raises(ParameterError, match="one model"):
        evaluate(labels, two, frames)
    with pytest.raises(ParameterError, match="max_dets"):
        evaluate(labels, predictions, frames, max_dets=0)
    with pytest.raises(ParameterError, match="mask"):
        evaluate(labels, predictions, frames, iou_type="segm")
    with pytest.raises(ParameterError, match="engine"):
        evaluate(labels, predictions, frames, engine="coco")  # type: ignore[arg-type]


def test_mean_defined_leaves_out_sentinels():
    assert mean_defined(np.array([[1.0, -1.0], [0.0, -1.0]])) == 0.5


def square_mask(x: int, y: int, n: int, size: int = 40) -> str:
    from pycocotools import mask as coco_mask

    m = np.zeros((size, size), np.uint8, order="F")
    m[y : y + n, x : x + n] = 1
    rle = coco_mask.encode(m)
    return json.dumps({"size": rle["size"], "counts": rle["counts"].decode()})


def test_mask_definitions_by_hand():
    frames = frames_table([(40, 40)] * 3)
    labels = labels_table(
        [
            {"frame_id": "f000", **box(0, 0, 10, 10), "mask_rle": square_mask(0, 0, 10)},
            {"frame_id": "f001", **box(20, 20, 10, 10), "mask_rle": square_mask(20, 20, 10)},
        ]
    )
    found = predictions_table(
        [
            {"frame_id": "f000", **box(0, 0, 8, 8), "score": 0.9, "mask_rle": square_mask(0, 0, 8)},
            {"frame_id": "f001", **box(0, 0, 6, 6), "score": 0.8, "mask_rle": square_mask(0, 0, 6)},
            {"frame_id": "f001", **box(20, 20, 9, 9), "score": 0.1, "mask_rle": square_mask(20, 20, 9)},
        ]
    )
    result = evaluate_masks(labels, found, frames)
    assert (result.fixed.tp, result.fixed.fp, result.fixed.fn) == (1, 1, 1)
    # frame 0: I 64, P 64, T 100; frame 1 at confidence .25: I 0, P 36, T 100; frame 2 has neither
    assert result.miou == pytest.approx(
        {
            "matched_instances": 0.64,
            "all_truth": 0.32,
            "all_truth_and_false": 0.64 / 3,
            "per_frame": 0.32,
            "pooled_pixels": 64 / 236,
        }
    )
    assert result.dice == pytest.approx(
        {
            "matched_instances": 128 / 164,
            "all_truth": 64 / 164,
            "all_truth_and_false": 128 / 164 / 3,
            "per_frame": 64 / 164,
            "pooled_pixels": 128 / 300,
        }
    )
    assert result.ap50 == pytest.approx((51 * 1 + 50 * 2 / 3) / 101)
    assert result.as_dict()["precision"] == 0.5 and result.reasons == {}


@pytest.mark.parametrize("engine", ["hotcoco", "pycocotools"])
def test_more_masks_than_a_byte_counts(engine):
    frames = frames_table([(40, 40)])
    places = [(x, y) for x in range(0, 36, 2) for y in range(0, 36, 2)]
    assert len(places) > 255
    rows = [{"frame_id": "f000", **box(x, y, 2, 2), "mask_rle": square_mask(x, y, 2)} for x, y in places]
    labels = labels_table(rows)
    predictions = predictions_table([row | {"score": 0.9} for row in rows])
    assert evaluate_masks(labels, predictions, frames, engine=engine, max_dets=400).ap == pytest.approx(1)


def test_masks_that_are_missing():
    frames = frames_table([(40, 40)] * 2)
    labels = labels_table(
        [
            {"frame_id": "f000", **box(0, 0, 10, 10), "mask_rle": square_mask(0, 0, 10)},
            {"frame_id": "f001", **box(0, 0, 10, 10)},
        ]
    )
    found = predictions_table([{"frame_id": f, **box(0, 0, 10, 8), "score": 0.9} for f in ("f000", "f001")])
    none = evaluate_masks(labels, found, frames)
    assert none.ap is None and set(none.miou.values()) == {None}
    assert none.reasons["miou.all_truth"] == "no masks on both sides"
    one = pl.concat(
        [
            found,
            predictions_table(
                [
                    {
                        "frame_id": "f001",
                        **box(1, 1, 2, 2),
                        "score": 0.3,
                        "mask_rle": square_mask(1, 1, 2),
                        "prediction_id": "9",
                    }
                ]
            ),
        ]
    )
    result = evaluate_masks(labels, one, frames)
    assert (result.n_images, result.n_ground_truth, result.fixed.tp) == (1, 1, 1)
    assert result.miou["matched_instances"] == pytest.approx(0.8)  # the filled box of 10 x 8
    assert any("1 frames with birds that have no mask" in w for w in result.warnings)
    assert any("1 detections have no mask" in w for w in result.warnings)


def test_masks_when_nothing_is_hit():
    frames = frames_table([(40, 40)])
    labels = labels_table([{"frame_id": "f000", **box(0, 0, 10, 10), "mask_rle": square_mask(0, 0, 10)}])
    far = predictions_table(
        [{"frame_id": "f000", **box(20, 20, 5, 5), "score": 0.2, "mask_rle": square_mask(20, 20, 5)}]
    )
    result = evaluate_masks(labels, far, frames)
    zeros = ("all_truth", "all_truth_and_false", "per_frame", "pooled_pixels")
    assert result.miou == {"matched_instances": None, **dict.fromkeys(zeros, 0.0)}
    assert result.reasons == {
        "precision": "no detection",
        "miou.matched_instances": "no hit",
        "dice.matched_instances": "no hit",
        "boundary_iou": "no hit",
    }


def test_benchmark_compares_equal_numbers(project, tmp_path, monkeypatch):
    import importlib.util

    pytest.importorskip("faster_coco_eval")
    spec = importlib.util.spec_from_file_location("bench_detection", project / "benchmarks" / "bench_detection.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    tiny = {"n_images": 20, "size": (640, 480), "n_classes": 3, "n_labels": 60, "n_detections": 300, "crowd": 0.1}
    monkeypatch.setitem(bench.SETS, "b", tiny)
    bench.make(tmp_path, "b")
    ours = bench.birdlab_numbers(tmp_path)
    for tool in ("pycocotools", "faster-coco-eval"):
        assert bench.difference(ours, bench.reference_numbers(tmp_path, tool)) <= 1e-12
    assert ours[1] > 0.05
