"""The result of ``birdlab score difficulty`` as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_UNDEFINED = "–"


def as_text(result: dict[str, Any]) -> str:
    """Counts, recall by bin, the joint model and what to know, one below the other.

    Args:
        result: the object that ``--json`` prints.
    """
    parts = [_header(result), _bins(result["bins"]), _coefficients(result)]
    if result["checks"]["messages"]:
        parts.append("to know\n" + "\n".join(f"  {message}" for message in result["checks"]["messages"]))
    why = {c["factor"]: result["reasons"].get(f"coefficients.{c['factor']}") for c in result["coefficients"]}
    lines = [f"  {factor}: {text}" for factor, text in why.items() if text]
    if result["model_fitted"] and lines:
        parts.append("about single coefficients\n" + "\n".join(lines))
    if not result["model_fitted"] and result["missed_instances"]:
        parts.append("missed: " + ", ".join(map(str, result["missed_instances"])))
    text = "\n\n".join(parts)
    if _UNDEFINED in text:
        text += f"\n\n{_UNDEFINED} is undefined (--json gives the reasons)"
    return text


def _header(result: dict[str, Any]) -> str:
    n, total = result["n"], result["n_total"]
    text = f"{result['file']}: {n} of {total} birds used, {result['misses']} missed"
    if result["recall"] is not None:
        lo, hi = result["recall_wilson"]
        text += (
            f", recall {_percent(result['recall'])} % ({_percent(lo)} to {_percent(hi)}, birds taken as independent)"
        )
    return text


def _bins(bins: Sequence[dict[str, Any]]) -> str:
    head = ["factor", "bin", "from", "to", "n", "sessions", "recall %", "within sessions", "new sessions"]
    rows = [
        [
            *(b["factor"], b["level"], _number(b["lo"]), _number(b["hi"]), str(b["n"]), str(b["sessions"])),
            *(_percent(b["recall"]), _range(b["ci_within_sessions"], 100, 1), _range(b["ci_new_sessions"], 100, 1)),
        ]
        for b in bins
    ]
    return _table(head, rows)


def _coefficients(result: dict[str, Any]) -> str:
    if not result["model_fitted"]:
        return f"joint model: not fitted ({result['reasons'].get('model_fitted', 'nothing to fit')})"
    head = ["factor", "status", "recall, points ± SE", "log-odds", "95 % profile", "per SD within", "MLE ± SE", "LOSO"]
    rows = [
        [
            *(c["factor"], c["status"], _plus_minus(c["ame"], c["ame_se"], 100, 1), _fixed(c["firth"])),
            *(_range(c["firth_ci"], 1, 2), _fixed(c["firth_within"])),
            *(_plus_minus(c["mle"], c["mle_se"], 1, 2), _range(c["loso"], 1, 2)),
        ]
        for c in result["coefficients"]
    ]
    note = (
        f"per +1 SD over all birds. Log-odds: Firth's estimate on {result['n']} birds; recall and MLE on "
        f"{result['n_used_for_slopes']}; one fixed effect per session; LOSO: range with one session left out. "
        "Associations, not causes."
    )
    return f"{_table(head, rows)}\n{note}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    left = 2
    lines = []
    for row in [head, *rows]:
        cells = [c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _percent(value: float | None) -> str:
    return _UNDEFINED if value is None else f"{100 * value:.1f}"


def _plus_minus(value: float | None, se: float | None, scale: float, digits: int) -> str:
    if value is None or se is None:
        return _UNDEFINED
    return f"{scale * value:.{digits}f} ± {scale * se:.{digits}f}"


def _fixed(value: float | None) -> str:
    return _UNDEFINED if value is None else f"{value:.2f}"


def _number(value: float | None) -> str:
    return _UNDEFINED if value is None else f"{value:.4g}"


def _range(pair: Sequence[float | None] | None, scale: float, digits: int) -> str:
    if pair is None:
        return _UNDEFINED
    lo, hi = (_UNDEFINED if end is None else f"{scale * end:.{digits}f}" for end in pair)
    return f"{lo} … {hi}"
