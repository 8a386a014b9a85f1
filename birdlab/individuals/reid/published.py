"""Printed results of CHIRP's re-identification (Table 1) as reference rows beside computed ones."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from birdlab.metrics import metric_frame, metric_row

CHIRP, SOURCE = "chirp", "CHIRP, Table 1"
#: Protocol and list of the columns printed; all are Top-1.
_COLUMNS = (("closed", "territory"), ("closed", "all"), ("disjoint", "territory"), ("disjoint", "neighbours"))
_ROWS: dict[str, tuple[float, ...]] = {
    "CORVID": (0.66, 0.05, 0.69, 0.31),
    "MegaDescriptor, pre-trained": (0.28, 0.10, 0.31, 0.14),
    "MegaDescriptor, fine-tuned": (0.27, 0.10, 0.41, 0.13),
}
REMARK = "published, not computed here; averaging over queries or birds is not stated"
#: Mean length of the lists of a territory; guessing one bird of L is right 1/L of the time, whose mean is at least 1/mean.
MEAN_LIST = 2.92
BELOW_CHANCE = f"lists of a territory have {MEAN_LIST} birds on average, so guessing is right at least {1 / MEAN_LIST:.2f} of the time per query"


def published(names: Sequence[str] | str) -> pl.DataFrame:
    """Reference rows of the papers named.

    Args:
        names: recipe key ``reid.published`` (known: ``chirp``); unknown names give no rows.

    Returns:
        Table ``metrics``: ``group`` is the protocol, ``level`` the list, ``value`` null, ``published`` the printed Top-1;
        ``reason`` says what is known of it, also that a printed value lies below chance.

    >>> rows = published("chirp")
    >>> rows.filter(model="CORVID", group="closed", level="territory")["published"].to_list()
    [0.66]
    """
    wanted = (names,) if isinstance(names, str) else names
    rows = []
    for model, numbers in _ROWS.items() if CHIRP in wanted else ():
        for (split, gallery), number in zip(_COLUMNS, numbers, strict=True):
            below = gallery == "territory" and number < 1 / MEAN_LIST
            reason = f"{REMARK}; {BELOW_CHANCE}" if below else REMARK
            about = {"dataset": CHIRP, "model": model, "group": split, "level": gallery, "metric": "top1"}
            rows.append(metric_row(**about, method="published", published=number, source=SOURCE, reason=reason))
    return metric_frame(rows)
