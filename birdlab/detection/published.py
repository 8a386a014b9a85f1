"""Printed results of published papers, as reference rows beside computed ones.

Typed in as printed. They have no ``value`` (nothing here was computed from images), only ``published`` and ``source``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from birdlab.detection.mask_checks import possible_definitions
from birdlab.detection.mask_overlap import TITLES
from birdlab.detection.scores import ap50_bound, max_f1_warning
from birdlab.metrics import metric_frame, metric_row

BLUEBIRD = "western_bluebird"
_TEST = "1 test session, 1,006 frames"
_TABLE_1, _TABLE_2 = "Western Bluebird, Table 1", "Western Bluebird, Table 2"
_TABLE_1_METRICS = ("ap", "ap50", "precision", "recall", "f1", "fps_end_to_end")
#: Box AP (Table 1). ZS: zero-shot, FT: fine-tuned, no mark: supervised and fine-tuned.
_TABLE_1_ROWS: dict[str, tuple[float, ...]] = {
    "YOLOv8": (0.3804, 0.8428, 0.8977, 0.7338, 0.8076, 13.49),
    "YOLO26": (0.3633, 0.8772, 0.9704, 0.8852, 0.9259, 13.78),
    "Faster R-CNN": (0.4662, 0.9026, 0.4500, 0.8987, 0.5997, 7.36),
    "RT-DETR": (0.4170, 0.9340, 0.9120, 0.9210, 0.9170, 5.50),
    "OWL-ViT ZS": (0.0070, 0.0189, 0.0376, 0.4609, 0.0695, 3.34),
    "OWL-ViT FT": (0.1264, 0.2770, 0.2002, 0.2546, 0.2241, 4.18),
    "Grounding DINO ZS": (0.0230, 0.0880, 0.0880, 0.0920, 0.0900, 1.18),
    "YOLO-World ZS": (0.1560, 0.4540, 0.9000, 0.0080, 0.0170, 12.37),
    "YOLO-World FT": (0.4467, 0.9415, 0.9810, 0.8968, 0.9370, 5.19),
}
_TABLE_2_METRICS = (
    *(f"mask_{m}" for m in ("ap", "ap50", "precision", "recall", "f1", "miou", "dice")),
    "fps_end_to_end",
)
#: Mask AP (Table 2); the paper does not define its mIoU and Dice: what they can be is worked out from P, R and F1.
_TABLE_2_ROWS: dict[str, tuple[float, ...]] = {
    "YOLOv8-Seg": (0.1820, 0.6653, 0.7991, 0.7136, 0.7539, 0.6459, 0.7823, 13.83),
    "Mask R-CNN": (0.6398, 0.9154, 0.6701, 0.9441, 0.7838, 0.8488, 0.9166, 7.75),
    "Grounded-SAM": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.91),
    "SAM 3": (0.2229, 0.3186, 0.2282, 0.7252, 0.3472, 0.1793, 0.1931, 0.29),
}
#: Rows whose figures end in 0 throughout: rounded to three digits before they were printed with four.
_THREE_DIGITS = ("RT-DETR", "Grounding DINO ZS", "YOLO-World ZS")
#: What arithmetic on the printed figures says of single ones.
_REMARKS = {
    ("YOLO-World ZS", "recall"): "9 of 1,037 birds are 0.0087: the printed 0.0080 was cut, not rounded",
    ("YOLOv8", "precision"): "no whole counts give 0.8977 together with the printed recall and F1",
}
_NOT_COMPUTED = "published, not computed here"


def published(names: Sequence[str]) -> pl.DataFrame:
    """Reference rows of the papers named.

    Args:
        names: recipe key ``scoring.published`` (known: ``western_bluebird``); unknown names give no rows.

    Returns:
        Table ``metrics``: ``dataset`` is the paper, ``model`` as printed, ``value`` null, ``published`` the printed
        number, ``source`` the table, ``reason`` what is known of the figure. A row ``ap50_bound`` follows where the
        printed F1 cannot be the highest one of the same detections.

    >>> published(["western_bluebird"]).filter(metric="f1", model="YOLO26")["published"].to_list()
    [0.9259]
    """
    rows = []
    if BLUEBIRD in names:
        for model, numbers in _TABLE_1_ROWS.items():
            rows += _rows(model, dict(zip(_TABLE_1_METRICS, numbers, strict=True)), _TABLE_1)
        for model, numbers in _TABLE_2_ROWS.items():
            rows += _rows(model, dict(zip(_TABLE_2_METRICS, numbers, strict=True)), _TABLE_2)
    return metric_frame(rows)


def _rows(model: str, numbers: dict[str, float], source: str) -> list[dict[str, object]]:
    digits = 3 if model in _THREE_DIGITS else 4
    rows = []
    remarks = {metric: text for (name, metric), text in _REMARKS.items() if name == model}
    if "mask_miou" in numbers:
        remarks |= dict.fromkeys(("mask_miou", "mask_dice"), definition_remark(numbers, digits=digits))
    for metric, number in numbers.items():
        fps = metric.startswith("fps")
        method = f"published; {_TEST}; " + ("NVIDIA T4" if fps else f"printed to {digits} digits")
        remark = remarks.get(metric)
        rows.append(
            metric_row(
                dataset=BLUEBIRD,
                model=model,
                metric=metric,
                method=method,
                n_clusters=1,
                published=number,
                source=source,
                reason=f"{_NOT_COMPUTED}; {remark}" if remark else _NOT_COMPUTED,
            )
        )
    prefix = "mask_" if "mask_ap" in numbers else ""
    warning = max_f1_warning(numbers[f"{prefix}f1"], numbers[f"{prefix}ap50"])
    if warning:
        bound = ap50_bound(numbers[f"{prefix}f1"])
        about = {"metric": f"{prefix}ap50_bound", "method": "from the printed F1", "value": bound, "reason": warning}
        rows.append(metric_row(dataset=BLUEBIRD, model=model, source=source, **about))
    return rows


def definition_remark(numbers: Mapping[str, float], *, digits: int = 4) -> str:
    """In words, which definitions a printed row's mIoU and Dice can have and why not the others.

    Args:
        numbers: ``mask_precision``, ``mask_recall``, ``mask_f1``, ``mask_miou`` and ``mask_dice`` as printed.
        digits: decimals printed.

    The derivation is in :mod:`birdlab.detection.mask_checks`.
    """
    row = {key: numbers[f"mask_{key}"] for key in ("precision", "recall", "f1", "miou", "dice")}
    found = possible_definitions(row, digits=digits)
    can = [TITLES[name] for name, why in found.items() if why is None]
    cannot = [f"{TITLES[name]} ({why})" for name, why in found.items() if why is not None]
    said = f"not defined in the paper; with its precision and recall it can be {_listed(can, 'or')}"
    return f"{said}, not {_listed(cannot, 'nor')}" if cannot else said


def _listed(words: Sequence[str], last: str) -> str:
    if len(words) < 2:
        return "".join(words) or "none of the definitions known"
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
