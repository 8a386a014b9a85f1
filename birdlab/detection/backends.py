"""Two COCO evaluators behind one call: numbers in as arrays, precision and recall arrays out.

hotcoco is the default (some hundred times faster, bit-equal results); pycocotools is the reference it is checked
against. Both get annotation ids that start at 1: an id of 0 is lost by the reference's matcher.
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Engine = Literal["hotcoco", "pycocotools"]
IouType = Literal["bbox", "segm"]


@dataclass(frozen=True)
class Side:
    """Boxes of one side, labels or detections, in order; equal scores and equal overlaps are settled by it.

    Args:
        image: int64 (n,), 1-based number of the frame.
        category: int64 (n,), 1-based number of the class.
        boxes: float64 (n, 4), x, y, w, h in px.
        extra: labels: bool (n,), is a crowd; detections: float64 (n,), score.
        masks: run-length objects, one per row; ``None`` where boxes are compared.
    """

    image: np.ndarray
    category: np.ndarray
    boxes: np.ndarray
    extra: np.ndarray
    masks: list[dict[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self.image)


@dataclass(frozen=True)
class Plan:
    """What to evaluate.

    Args:
        sizes: (height, width) of every frame in px, for images 1, 2, …
        n_categories: number of classes.
        iou_type: compare boxes or masks.
        max_dets: detections per frame and class, increasing.
        use_cats: match within classes.
    """

    sizes: list[tuple[int, int]]
    n_categories: int
    iou_type: IouType
    max_dets: tuple[int, ...]
    use_cats: bool

    def images(self) -> list[dict[str, int]]:
        """COCO images."""
        return [{"id": k, "height": h, "width": w} for k, (h, w) in enumerate(self.sizes, start=1)]

    def categories(self) -> list[dict[str, Any]]:
        """COCO categories."""
        return [{"id": k, "name": str(k)} for k in range(1, self.n_categories + 1)]


@dataclass(frozen=True)
class Arrays:
    """precision and scores (10 overlaps, 101 recalls, classes, areas, max_dets); recall (10, classes, areas, max_dets).

    -1 where there is no label; never shown as it is.
    """

    precision: np.ndarray
    recall: np.ndarray
    scores: np.ndarray


def mean_defined(values: np.ndarray) -> float | None:
    """Mean of the entries that are defined (not -1), or ``None`` where none is; rounded to 13 decimals.

    COCO's code adds 2^-52 to the denominator of precision, so a perfect detector gets 0.9999999999999998; the
    rounding takes that away and changes nothing else that is meant.

    >>> mean_defined(np.array([1.0, 0.5, -1.0])), mean_defined(np.array([-1.0]))
    (0.75, None)
    """
    defined = values[values > -1]
    return round(float(defined.mean()), 13) if defined.size else None


def accumulate(
    engine: Engine,
    plan: Plan,
    truth: Side,
    found: Side,
    areas: tuple[np.ndarray, np.ndarray],
    ranges: list[tuple[float, float]],
) -> Arrays:
    """Evaluate with one of the engines.

    Args:
        engine: which.
        plan: images, classes and limits.
        truth: labels.
        found: detections.
        areas: what counts as the size of each label and of each detection.
        ranges: sizes to look at, closed at both ends.
    """
    return (_hotcoco if engine == "hotcoco" else _pycocotools)(plan, truth, found, areas, ranges)


def _hotcoco(
    plan: Plan,
    truth: Side,
    found: Side,
    areas: tuple[np.ndarray, np.ndarray],
    ranges: list[tuple[float, float]],
) -> Arrays:
    import hotcoco

    gt = hotcoco.COCO.from_arrays(
        plan.images(),
        plan.categories(),
        truth.image,
        truth.category,
        truth.boxes,
        ids=np.arange(1, len(truth) + 1),
        area=areas[0],
        iscrowd=truth.extra.astype(np.int64),
        segmentation=truth.masks,
    )
    rows = np.column_stack([found.image, found.boxes, found.extra, found.category]).astype(np.float64)
    dt = gt.load_res(rows.reshape(-1, 7), segmentation=found.masks)
    if len(found):
        dt.update_anns(ids=np.arange(1, len(found) + 1), area=areas[1])
    run = hotcoco.COCOeval(gt, dt, plan.iou_type)
    run.params.area_rng = [list(r) for r in ranges]
    run.params.area_rng_lbl = [str(k) for k in range(len(ranges))]
    run.params.max_dets = list(plan.max_dets)
    run.params.use_cats = plan.use_cats
    run.evaluate()
    run.accumulate()
    return Arrays(*(np.asarray(run.eval[key]) for key in ("precision", "recall", "scores")))


def _pycocotools(
    plan: Plan,
    truth: Side,
    found: Side,
    areas: tuple[np.ndarray, np.ndarray],
    ranges: list[tuple[float, float]],
) -> Arrays:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):  # the reference prints its progress
        sides = []
        for side, area, key in ((truth, areas[0], "iscrowd"), (found, areas[1], "score")):
            coco = COCO()
            annotations = _annotations(side, area, key)
            coco.dataset = {"images": plan.images(), "categories": plan.categories(), "annotations": annotations}
            coco.createIndex()
            sides.append(coco)
        run = COCOeval(*sides, plan.iou_type)
        run.params.areaRng = [list(r) for r in ranges]
        run.params.areaRngLbl = [str(k) for k in range(len(ranges))]
        run.params.maxDets = list(plan.max_dets)
        run.params.useCats = int(plan.use_cats)
        run.evaluate()
        run.accumulate()
    return Arrays(run.eval["precision"], run.eval["recall"], run.eval["scores"])


def _annotations(side: Side, area: np.ndarray, key: str) -> list[dict[str, Any]]:
    columns = zip(
        side.image.tolist(),
        side.category.tolist(),
        side.boxes.tolist(),
        side.extra.tolist(),
        area.tolist(),
        strict=True,
    )
    rows = []
    for k, (image, category, box, extra, size) in enumerate(columns, start=1):
        row = {"id": k, "image_id": image, "category_id": category, "bbox": box, "area": size, "iscrowd": 0}
        row[key] = int(extra) if key == "iscrowd" else extra
        if side.masks is not None:
            row["segmentation"] = side.masks[k - 1]
        rows.append(row)
    return rows
