"""Printed results of BirdCLEF 2019 as reference rows beside computed ones."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from birdlab.metrics import metric_frame, metric_row

BIRDCLEF = "birdclef2019"
SOURCE = "BirdCLEF 2019, results"
#: Run, c-mAP and r-mAP as printed; null: not printed where it was read.
_ROWS: tuple[tuple[str, float, float | None], ...] = (
    ("best run", 0.356, 0.746),
    ("best run of the second team", 0.16, None),
)
REMARK = "published, not computed here; ties as the official evaluator sorts them; about 284 hours, read second-hand"


def published(names: Sequence[str] | str) -> pl.DataFrame:
    """Reference rows of the challenge.

    Args:
        names: recipe key ``soundscapes.published`` (known: ``birdclef2019``); unknown names give no rows.

    Returns:
        Table ``metrics``: ``value`` null, ``published`` the printed number.

    >>> published("birdclef2019").filter(metric="cmap")["published"].to_list()
    [0.356, 0.16]
    """
    wanted = (names,) if isinstance(names, str) else names
    rows = []
    for model, cmap, rmap in _ROWS if BIRDCLEF in wanted else ():
        for metric, number in (("cmap", cmap), ("rmap", rmap)):
            if number is not None:
                about = {"dataset": BIRDCLEF, "model": model, "metric": metric, "method": "published"}
                rows.append(metric_row(**about, published=number, source=SOURCE, reason=REMARK))
    return metric_frame(rows)
