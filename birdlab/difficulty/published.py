"""The printed Table 10 of Western Bluebird, typed in."""

from __future__ import annotations

import polars as pl

from birdlab.difficulty.design import FACTORS

#: In 505 frames of 4 sessions.
N_BIRDS = 529
#: Recall in percent, then log-odds per pooled SD in the order of FACTORS (Table 10).
_TABLE_10: dict[str, tuple[float, ...]] = {
    "YOLO-World FT": (90.55, 0.24, -1.37, -0.63, -1.02, 0.39, -0.25),
    "RT-DETR FT": (90.36, -0.04, -2.95, -2.80, -0.01, 0.51, 0.14),
    "Mask R-CNN FT": (96.79, -0.00, -5.29, -3.93, -3.71, 0.19, -0.72),
    "YOLO-World ZS": (31.57, 0.64, -0.38, -0.19, -0.05, -0.62, -0.83),
    "SAM 3 ZS": (90.17, 0.08, -2.63, -2.30, -0.03, 0.25, 0.03),
}


def table_10() -> pl.DataFrame:
    """The printed coefficients: maximum likelihood with video fixed effects, log-odds per pooled SD.

    Returns:
        ``model``, ``recall`` (share), ``factor``, ``coefficient``, ``is_bold`` (the most negative of its model),
        ``source``. The paper prints neither intervals nor which of the global and local factors it used.

    >>> table_10().filter(model="Mask R-CNN FT", factor="brightness")["coefficient"].item()
    -5.29
    """
    rows = [
        (model, round(recall / 100, 4), factor, value, value == min(values), "Western Bluebird, Table 10")
        for model, (recall, *values) in _TABLE_10.items()
        for factor, value in zip(FACTORS, values, strict=True)
    ]
    names = ("model", "recall", "factor", "coefficient", "is_bold", "source")
    return pl.DataFrame(rows, schema=names, orient="row")
