"""Printed results on difficulty, as reference beside computed ones: Western Bluebird, Tables 3 to 9, typed in as printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.detection.published import BLUEBIRD
from birdlab.metrics import metric_frame, metric_row

Rows = list[dict[str, Any]]
TABLE_3 = "Western Bluebird, Table 3"
_ERROR_SET = "published; 4 sessions, 505 frames, 529 birds"
_NOT_COMPUTED = "published, not computed here"
#: Average precision by size: COCO medium and large, relative 1/32-1/16 and 1/16-1/8.
_SCALE: dict[str, tuple[float, ...]] = {
    "YOLO-World FT": (0.5692, 0.5311, 0.5206, 0.5329),
    "RT-DETR FT": (0.5028, 0.4304, 0.4404, 0.4313),
    "YOLO-World ZS": (0.0436, 0.1902, 0.1148, 0.2050),
    "Mask R-CNN FT": (0.7223, 0.7305, 0.7363, 0.6894),
    "SAM 3 ZS": (0.7373, 0.7504, 0.7341, 0.7159),
}
#: The bins of those columns, and the birds in them where the paper says.
_SCALE_BINS = (
    ("coco_size", "medium", None),
    ("coco_size", "large", None),
    ("relative_size", "1/32-1/16", 350),
    ("relative_size", "1/16-1/8", 179),
)
_MODELS = ("YOLO-World FT", "RT-DETR FT", "Mask R-CNN FT", "YOLO-World ZS", "SAM 3 ZS")
#: Factor, table, then per model in the order of _MODELS: worst bin, its recall in percent, Δ in points.
_WORST: tuple[tuple[str, int, str], ...] = (
    ("rel_size", 7, "Very small 78.3 21.1 | Very small 83.5 15.2 | Large 93.2 6.1 | Very small 17.4 33.4 | Very small 85.2 10.8"),
    ("brightness_local", 4, "Dark 77.7 20.6 | Dark 77.7 20.6 | Bright 95.6 2.7 | Dark 19.4 26.0 | Dark 86.3 8.0"),
    ("brightness_global", 4, "Neutral 85.6 12.1 | Dark 84.0 15.4 | Neutral 93.7 5.2 | Bright 22.8 24.7 | Neutral 83.9 11.6"),
    ("contrast_local", 5, "Low 86.9 7.0 | Low 85.7 9.3 | Low 93.7 5.7 | Low 17.7 38.4 | Low 81.1 13.9"),
    ("contrast_global", 5, "Medium 86.2 8.7 | Medium 84.5 10.9 | Low 94.3 4.0 | High 21.7 20.0 | Low 87.4 4.2"),
    ("blur_local", 6, "Medium 87.4 7.1 | Medium 85.1 11.6 | Blurred 93.7 6.3 | Blurred 20.0 30.6 | Blurred 84.6 10.4"),
    ("clutter_local", 8, "Cluttered 85.0 10.4 | Cluttered 81.7 14.3 | Clean 96.0 2.3 | Cluttered 16.1 31.0 | Clean 87.4 5.7"),
    ("clutter_background", 8, "Cluttered 79.4 18.3 | Cluttered 76.7 22.8 | Moderate 94.3 4.1 | Clean 23.4 24.3 | Cluttered 86.1 8.7"),
    ("crowding", 9, "2-3 72.9 19.4 | 2-3 87.5 3.1 | 2-3 89.6 7.9 | 2-3 10.4 23.3 | 2-3 87.5 2.9"),
)  # fmt: skip


def published_scale(names: Sequence[str]) -> pl.DataFrame:
    """The printed AP by size of the papers named (Western Bluebird, Table 3) as table ``metrics``.

    >>> rows = published_scale(["western_bluebird"]).filter(model="RT-DETR FT", level="1/16-1/8")
    >>> rows["published"].to_list(), rows["n"].to_list()
    ([0.4313], [179])
    """
    rows: Rows = []
    for model, numbers in _SCALE.items() if BLUEBIRD in names else ():
        for (group, level, n), number in zip(_SCALE_BINS, numbers, strict=True):
            about = {"dataset": BLUEBIRD, "model": model, "metric": "ap", "method": _ERROR_SET, "n_clusters": 4}
            about |= {"group": group, "level": level, "n": n, "source": TABLE_3, "reason": _NOT_COMPUTED}
            rows.append(metric_row(published=number, **about))
    return metric_frame(rows)


def tables_4_to_9() -> pl.DataFrame:
    """The printed worst bins of Western Bluebird: recall in the worst bin of each factor and the drop Δ from the best.

    Returns:
        ``model``, ``factor``, ``worst`` (name of the bin), ``recall`` and ``delta`` (shares), ``source``. Sizes of bins
        are not printed.

    >>> tables_4_to_9().filter(model="RT-DETR FT", factor="clutter_background")["delta"].item()
    0.228
    """
    rows = []
    for factor, number, cells in _WORST:
        for model, cell in zip(_MODELS, cells.split(" | "), strict=True):
            worst, recall, delta = cell.rsplit(" ", 2)
            shares = round(float(recall) / 100, 4), round(float(delta) / 100, 4)
            rows.append((model, factor, worst, *shares, f"Western Bluebird, Table {number}"))
    return pl.DataFrame(rows, schema=("model", "factor", "worst", "recall", "delta", "source"), orient="row")
