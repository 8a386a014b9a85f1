"""The error budget in words: one or two sentences, never stronger than the intervals."""

from __future__ import annotations

from typing import Any

import polars as pl

_WHAT = {
    "pecks_per_min": ("Feeding rates are off by {} pecks/min on average", 1.0),
    "co_occurrence_frac": (
        "The share of time that two birds are seen together is off by {} points on average",
        100.0,
    ),
}
_NOTHING = {
    "pecks_per_min": "Feeding rates are exactly right: there is no error to share out.",
    "co_occurrence_frac": "Who is seen together is exactly right: there is no error to share out.",
}
#: A stage is called the main reason from this share on.
MOST = 0.5


def budget_sentence(rows: pl.DataFrame) -> str:
    """Which stage a biological number is wrong because of, for the page that a field biologist reads.

    Args:
        rows: table ``error_budget`` of one combination and one measure (four rows).

    Returns:
        How large the error is and its leading stage with its share in percent. "Mostly" needs a share of at least half
        and, with several videos, an interval that lies above that of the runner-up; else both are named. Where the
        other shares are 0 in every video, nothing is uncertain: all is because of one stage. Shares below 0 and a
        single video are said. Without an error, or without rows, the sentence says that.

    >>> budget_sentence(pl.DataFrame(schema={"measure": pl.String}))
    'There is nothing to share out: no birds.'
    """
    if not rows.height or not rows["n"][0]:
        return "There is nothing to share out: no birds."
    measure = rows["measure"][0]
    ranked = rows.sort("share", descending=True, maintain_order=True).to_dicts()
    text, unit = _WHAT[measure]
    if ranked[0]["total"]:
        said = [text.format(_rounded(unit * ranked[0]["total"])) + ", " + _reason(ranked)]
        said += [_below(r) for r in ranked if (r["fraction"] or 0) < -0.005]
    else:
        said = [_NOTHING[measure]]
    if rows["n_clusters"].max() == 1:
        said.append("This is one video: nothing can be said about others.")
    return " ".join(said)


def _rounded(value: float) -> str:
    """Two digits, and never fewer than a whole number has.

    >>> [_rounded(v) for v in (0.0123, 1.68, 99.6, 250.0)]
    ['0.012', '1.7', '100', '250']
    """
    return f"{value:.2g}" if abs(value) < 99.5 else f"{value:.0f}"


def _reason(ranked: list[dict[str, Any]]) -> str:
    first, second = ranked[:2]
    if all(_never(r) for r in ranked[1:]):
        return f"all of it because of {first['stage']}."
    clear = _above(first, second)
    if first["fraction"] >= MOST and clear:
        return f"mostly because of {first['stage']} ({_percent(first)})."
    both = f"{first['stage']} ({_percent(first)})", f"{second['stage']} ({_percent(second)})"
    if clear:
        return f"more because of {both[0]} than of any other stage; next comes {both[1]}."
    return (
        f"with the largest share from {both[0]}, before {both[1]}; their intervals overlap: the order is not certain."
    )


def _never(row: dict[str, Any]) -> bool:
    """Whether a stage has no share in any video: 0, and the same everywhere."""
    return abs(row["share"]) < 1e-12 and row["lo"] is None and row["hi"] is None


def _above(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether the first stage's interval lies above the second's; without intervals, whether its share does."""
    lo = first["share"] if first["lo"] is None else first["lo"]
    hi = second["share"] if second["hi"] is None else second["hi"]
    return lo > hi


def _percent(row: dict[str, Any]) -> str:
    return f"{100 * row['fraction']:.0f} %".replace("-", "−")


def _below(row: dict[str, Any]) -> str:
    said = f"The share of {row['stage']} is below 0 ({_percent(row)}): its errors partly cancel those of other stages"
    if row["hi"] is not None and row["hi"] >= 0:
        said += ", though the interval holds 0"
    return said + ("; mending it alone makes the numbers worse." if row["alone"] > row["total"] else ".")
