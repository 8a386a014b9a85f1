"""The scores of ``birdlab score detection`` as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_UNDEFINED = "–"
_POINT = ("conf", "tp", "fp", "fn", "precision", "recall", "f1")


def printed(result: dict[str, Any]) -> str:
    """Tables of all models one below the other: AP, counts, AP by size, masks, then what to know.

    Args:
        result: the object that ``--json`` prints.
    """
    models, settings = result["models"], result["settings"]
    parts = [_header(result)]
    keys = ("ap", "ap50", "ap75", "ar100", "n_detections")
    parts.append(_table(["model", *keys], ([m["name"], *(m[k] for k in keys)] for m in models)))
    parts.append(_counts(f"counts at overlap {settings['iou']:g}", models))
    parts.append(_sizes(models))
    if any(len(m["by_category"]) > 1 for m in models):
        parts.append(_classes(models))
    if any("mask" in m for m in models):
        parts.append(_masks([m for m in models if "mask" in m]))
    notes = [f"{m['name']}: {w}" for m in models for w in m["warnings"]]
    if notes:
        parts.append("to know\n" + "\n".join(f"  {note}" for note in notes))
    text = "\n\n".join(parts)
    if _UNDEFINED in text:
        text += f"\n\n{_UNDEFINED} is undefined: nothing to compute it from (--json gives the reasons)"
    return text


def _header(result: dict[str, Any]) -> str:
    truth, settings = result["ground_truth"], result["settings"]
    n = result["models"][0]["n_ground_truth"]
    text = f"{truth['file']}: {truth['n_images']} images ({truth['n_empty']} empty), {n} labelled birds"
    for key, word in (("n_crowd", "crowds"), ("n_ignored", "ignored")):
        if truth[key]:
            text += f", {truth[key]} {word}"
    classes = "any class may match" if settings["class_agnostic"] else "per class"
    return (
        f"{text}\nengine {settings['engine']}, at most {settings['max_dets']} detections per image and class, {classes}"
    )


def _counts(title: str, models: Sequence[dict[str, Any]]) -> str:
    rows: list[list[Any]] = []
    for model in models:
        rows.append([model["name"], *(model["fixed"][k] for k in _POINT)])
        rows.append(
            [f"{model['name']}, highest F1 ({model['max_f1']['chosen']})", *(model["max_f1"][k] for k in _POINT)]
        )
    return _table([title, *_POINT], rows)


def _sizes(models: Sequence[dict[str, Any]]) -> str:
    tables = []
    for definition, title in (("coco", "AP by area (COCO)"), ("relative", "AP by relative size √(wh/WH)")):
        rows = []
        for k, row in enumerate(models[0]["by_size"]):
            if row["definition"] == definition:
                rows.append([_level(row), row["n"], *(m["by_size"][k]["ap"] for m in models)])
        tables.append(_table([title, "n", *(m["name"] for m in models)], rows))
    return "\n\n".join(tables)


def _level(row: dict[str, Any]) -> str:
    if row["definition"] == "relative":
        return row["level"].replace("-", " – ")
    hi = "up" if row["hi"] is None else f"{row['hi']:g}"
    return f"{row['level']} ({row['lo']:g} – {hi} px²)"


def _classes(models: Sequence[dict[str, Any]]) -> str:
    names = sorted({row["category"] for m in models for row in m["by_category"]})
    by = [{row["category"]: row for row in m["by_category"]} for m in models]
    rows = []
    for name in names:
        n = max((side[name]["n"] for side in by if name in side), default=0)
        rows.append([name, n, *(side[name]["ap"] if name in side else None for side in by)])
    return _table(["AP by class", "n", *(m["name"] for m in models)], rows)


def _masks(models: Sequence[dict[str, Any]]) -> str:
    keys = ("ap", "ap50", "precision", "recall", "f1", "boundary_iou")
    rows: list[list[Any]] = [[m["name"], *(m["mask"][k] for k in keys)] for m in models]
    text = _table(["masks", *keys], rows)
    definitions = list(models[0]["mask"]["miou"])
    rows = [
        [f"{m['name']}, {what}", *(m["mask"][key][d] for d in definitions)]
        for m in models
        for key, what in (("miou", "mIoU"), ("dice", "Dice"))
    ]
    return text + "\n\n" + _table(["mean over", *definitions], rows)


def _cell(value: Any) -> str:
    if value is None:
        return _UNDEFINED
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns two blanks apart, the first to the left, the others to the right."""
    cells = [list(header), *([_cell(v) for v in row] for row in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    lines = []
    for row in cells:
        rest = "  ".join(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))
        lines.append(f"{row[0].ljust(widths[0])}  {rest}".rstrip())
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join(lines)
