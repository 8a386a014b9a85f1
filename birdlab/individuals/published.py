"""Printed results of CHIRP (CVPR 2026) as reference rows beside computed ones.

Typed in as printed. They have no ``value``: nothing of them is computed here. Re-identification is not among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.metrics import metric_frame, metric_row

CHIRP = "chirp"
N_VIDEOS, N_INDIVIDUALS = 12, 35
_TASKS, _APPLICATION = "CHIRP, Table 2/3", "CHIRP, Table 4/5"
_NOT_COMPUTED = "published, not computed here"
_F1_REMARK = "averaging of F1 over classes not stated in the summary used"
_POSES = "errors in px of the annotated picture; which crops and sizes is not stated"
_PIPELINE = "detection YOLOv8, tracking BoTSORT, behaviour C3D"
_RANDOM = "how individuals were drawn is not published"
_HUMAN = "a person who coded the first minutes again; no frames are assigned"
_CLIPS: tuple[tuple[str, str, float, str], ...] = (
    ("C3D", "accuracy", 0.72, ""),
    ("C3D", "macro_f1", 0.684, _F1_REMARK),
    ("SlowFast/X3D", "macro_f1", 0.548, f"{_F1_REMARK}; one figure is printed for both"),
)
_POINTS = (("error_mean_px", 7.77), ("pck_10", 0.978), ("pck_5", 0.915))
_COLUMNS = (
    "frame_accuracy",
    "feeding_f1",
    "feeding_rate_mean_abs_error",
    "feeding_rate_r",
    "co_occurrence_r",
)
#: method that names birds: correct frames, feeding F1, mean error of feeding rate (pecks/min), r of it, r of co-occurrence.
_RESULTS: dict[str, tuple[float | None, ...]] = {
    "CORVID": (0.647, 0.537, 9.00, 0.582, 0.654),
    "MegaDescriptor": (0.617, 0.408, 13.14, 0.505, 0.557),
    "Random": (0.331, 0.327, 9.35, 0.437, 0.799),
    "Human": (None, None, 1.88, 0.910, 0.913),
}


def published(names: Sequence[str] | str) -> pl.DataFrame:
    """Reference rows of the papers named.

    Args:
        names: recipe key ``individuals.published`` (known: ``chirp``); unknown names give no rows.

    Returns:
        Table ``metrics``: ``dataset`` is the paper, ``model`` as printed, ``value`` null, ``published`` the printed
        number, ``source`` where it stands, ``reason`` what is known of it. A dash in print is a row without number.

    >>> published("chirp").filter(metric="feeding_rate_mean_abs_error", model="CORVID")["published"].to_list()
    [9.0]
    """
    wanted = (names,) if isinstance(names, str) else names
    return metric_frame(_rows() if CHIRP in wanted else [])


def _rows() -> list[dict[str, Any]]:
    rows = [_row(model, metric, number, _TASKS, remark) for model, metric, number, remark in _CLIPS]
    rows += [_row("ViTPose-large", metric, number, _TASKS, _POSES) for metric, number in _POINTS]
    for model, numbers in _RESULTS.items():
        remark = {"Human": _HUMAN, "Random": f"{_PIPELINE}; {_RANDOM}"}.get(model, _PIPELINE)
        for metric, number in zip(_COLUMNS, numbers, strict=True):
            text = f"{remark}; not printed" if number is None else remark
            rows.append(_row(model, metric, number, _APPLICATION, text, n_clusters=N_VIDEOS))
    rows.append(_row("", "n_videos", float(N_VIDEOS), _APPLICATION))
    rows.append(_row("", "n_individuals", float(N_INDIVIDUALS), _APPLICATION))
    return rows


def _row(model: str, metric: str, number: float | None, source: str, remark: str = "", **about: Any) -> dict[str, Any]:
    reason = f"{_NOT_COMPUTED}; {remark}" if remark else _NOT_COMPUTED
    values = {"dataset": CHIRP, "model": model, "metric": metric, "method": "published; protocol of the authors"}
    return metric_row(**values, published=number, source=source, reason=reason, **about)
