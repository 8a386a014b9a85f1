"""Printed results of Western Bluebird, §6 (Tables 4-10): reference rows beside computed ones, typed in as printed."""

from __future__ import annotations

import polars as pl

from birdlab.difficulty.design import FACTORS

PAPER = "western_bluebird"
MODELS = ("YOLO-World FT", "RT-DETR FT", "Mask R-CNN FT", "YOLO-World ZS", "SAM 3 ZS")
#: 529 birds in 505 frames of 4 sessions.
N_BIRDS, N_FRAMES, N_SESSIONS = 529, 505, 4
#: Recall in percent, then log-odds per pooled SD in the order of FACTORS (Table 10).
_TABLE_10: dict[str, tuple[float, ...]] = {
    "YOLO-World FT": (90.55, 0.24, -1.37, -0.63, -1.02, 0.39, -0.25),
    "RT-DETR FT": (90.36, -0.04, -2.95, -2.80, -0.01, 0.51, 0.14),
    "Mask R-CNN FT": (96.79, -0.00, -5.29, -3.93, -3.71, 0.19, -0.72),
    "YOLO-World ZS": (31.57, 0.64, -0.38, -0.19, -0.05, -0.62, -0.83),
    "SAM 3 ZS": (90.17, 0.08, -2.63, -2.30, -0.03, 0.25, 0.03),
}
#: Factor (as the table ``factors`` calls it), table, then per model: worst bin, its recall in percent, Δ in points.
_TABLES_4_TO_9: tuple[tuple[str, int, tuple[tuple[str, float, float], ...]], ...] = (
    (
        "brightness_global",
        4,
        (
            ("Neutral", 85.6, 12.1),
            ("Dark", 84.0, 15.4),
            ("Neutral", 93.7, 5.2),
            ("Bright", 22.8, 24.7),
            ("Neutral", 83.9, 11.6),
        ),
    ),
    (
        "brightness_local",
        4,
        (("Dark", 77.7, 20.6), ("Dark", 77.7, 20.6), ("Bright", 95.6, 2.7), ("Dark", 19.4, 26.0), ("Dark", 86.3, 8.0)),
    ),
    (
        "contrast_global",
        5,
        (("Medium", 86.2, 8.7), ("Medium", 84.5, 10.9), ("Low", 94.3, 4.0), ("High", 21.7, 20.0), ("Low", 87.4, 4.2)),
    ),
    (
        "contrast_local",
        5,
        (("Low", 86.9, 7.0), ("Low", 85.7, 9.3), ("Low", 93.7, 5.7), ("Low", 17.7, 38.4), ("Low", 81.1, 13.9)),
    ),
    (
        "blur_local",
        6,
        (
            ("Medium", 87.4, 7.1),
            ("Medium", 85.1, 11.6),
            ("Blurred", 93.7, 6.3),
            ("Blurred", 20.0, 30.6),
            ("Blurred", 84.6, 10.4),
        ),
    ),
    (
        "rel_size",
        7,
        (
            ("Very small", 78.3, 21.1),
            ("Very small", 83.5, 15.2),
            ("Large", 93.2, 6.1),
            ("Very small", 17.4, 33.4),
            ("Very small", 85.2, 10.8),
        ),
    ),
    (
        "clutter_background",
        8,
        (
            ("Cluttered", 79.4, 18.3),
            ("Cluttered", 76.7, 22.8),
            ("Moderate", 94.3, 4.1),
            ("Clean", 23.4, 24.3),
            ("Cluttered", 86.1, 8.7),
        ),
    ),
    (
        "clutter_local",
        8,
        (
            ("Cluttered", 85.0, 10.4),
            ("Cluttered", 81.7, 14.3),
            ("Clean", 96.0, 2.3),
            ("Cluttered", 16.1, 31.0),
            ("Clean", 87.4, 5.7),
        ),
    ),
    (
        "crowding",
        9,
        (("2-3", 72.9, 19.4), ("2-3", 87.5, 3.1), ("2-3", 89.6, 7.9), ("2-3", 10.4, 23.3), ("2-3", 87.5, 2.9)),
    ),
)


def table_10() -> pl.DataFrame:
    """The printed coefficients: maximum likelihood with video fixed effects, log-odds per pooled SD.

    Returns:
        ``model``, ``recall`` (share), ``factor``, ``coefficient``, ``is_bold`` (the most negative of its model),
        ``source``. The paper prints neither intervals nor which of the global and local factors it used.

    >>> table_10().filter(model="Mask R-CNN FT", factor="brightness")["coefficient"].item()
    -5.29
    """
    rows = [
        (model, recall / 100, factor, value, value == min(values), "Western Bluebird, Table 10")
        for model, (recall, *values) in _TABLE_10.items()
        for factor, value in zip(FACTORS, values, strict=True)
    ]
    names = ("model", "recall", "factor", "coefficient", "is_bold", "source")
    return pl.DataFrame(rows, schema=names, orient="row")


def tables_4_to_9() -> pl.DataFrame:
    """The printed worst bins: recall in the worst bin of each factor and the drop Δ from the best one.

    Returns:
        ``model``, ``factor``, ``worst`` (name of the bin), ``recall`` and ``delta`` (shares), ``source``. Sizes of bins
        are not printed.

    >>> tables_4_to_9().filter(model="RT-DETR FT", factor="clutter_background")["delta"].item()
    0.228
    """
    rows = [
        (model, factor, worst, round(recall / 100, 4), round(delta / 100, 4), f"Western Bluebird, Table {number}")
        for factor, number, cells in _TABLES_4_TO_9
        for model, (worst, recall, delta) in zip(MODELS, cells, strict=True)
    ]
    return pl.DataFrame(rows, schema=("model", "factor", "worst", "recall", "delta", "source"), orient="row")


def layout_10(coefficients: pl.DataFrame, summary: pl.DataFrame, *, with_published: bool = True) -> pl.DataFrame:
    """Table 10's layout: a row per model, recall and one column per factor, the published rows below.

    Args:
        coefficients: table ``coefficients``; the penalised estimate is shown.
        summary: :attr:`birdlab.difficulty.model.DifficultyModel.summary`.
        with_published: add the paper's rows.

    Returns:
        ``model``, ``recall`` (share), ``n``, ``misses``, one number per factor (null where there is none), ``source``
        (null for computed rows).
    """
    wide = coefficients.pivot("factor", index="model", values="firth", maintain_order=True)
    head = summary.select("model", "recall", "n", pl.col("n_misses").alias("misses"))
    mine = head.join(wide, on="model", how="left", maintain_order="left").with_columns(
        pl.lit(None, pl.String).alias("source")
    )
    if not with_published:
        return mine
    theirs = table_10()
    paper = theirs.pivot("factor", index=["model", "recall", "source"], values="coefficient", maintain_order=True)
    n = pl.lit(N_BIRDS, pl.Int64)
    paper = paper.with_columns(n.alias("n"), ((1 - pl.col("recall")) * N_BIRDS).round().cast(pl.Int64).alias("misses"))
    return pl.concat([mine, paper], how="diagonal_relaxed").select(mine.columns)
