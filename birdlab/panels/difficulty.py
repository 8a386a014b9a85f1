"""Photographs of missed birds, grouped by the conditions in which a model misses most, and whole frames with every outcome.

Which birds are shown follows from the tables alone, as in :mod:`birdlab.panels.detection`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab.chapters.difficulty import UNITS
from birdlab.chapters.difficulty_names import condition, predicate, title
from birdlab.detection.scored import scored
from birdlab.difficulty.bins import MISSING
from birdlab.difficulty.slices import birds_in
from birdlab.difficulty.study import Arranged, arranged
from birdlab.panels.detection import View, images_of, spread
from birdlab.report.show import Panel, m

if TYPE_CHECKING:
    from birdlab.study import Run


@dataclass(frozen=True)
class _Group:
    """Misses of one model under one condition: its name, the factors behind it, the birds."""

    model: str
    words: str
    factors: tuple[str, ...]
    birds: list[str]


def missed(run: Run, *, lead: str | None = None, each: int = 4, n_slices: int = 2) -> list[Panel]:
    """Missed birds of every model: the worst slices of two factors (or bins of one), then the frame with most misses.

    Args:
        run: the study; its tables ``instances``, ``difficulty_slices`` and ``difficulty_factors`` say which birds.
        lead: model whose frame is shown at full width.
        each: birds per slice; of different sessions before a second one of the same.
        n_slices: slices per model.

    Returns:
        Windows around the birds with what was labelled and detected there, factor values in the caption; no model, no
        miss or no readable picture gives an empty list.
    """
    study = scored(run)
    instances = run.table("instances")
    if instances.is_empty():
        return []
    rows = arranged(instances, study.frames, run.recipe.difficulty)
    groups = [g for name in study.models for g in _groups(run, rows, name, n_slices)]
    chosen = _chosen(instances, groups, each)
    frames = {str(r["frame"]) for _, some in chosen for r in some}
    views = {name: _view(run, name) for name in study.models}
    whole = {name: _fullest(views[name]) for name in study.models}
    frames |= {f for f in whole.values() if f}
    images = images_of(run.table("frames").filter(pl.col("frame_id").is_in(list(frames))), run.table("media"))
    panels = []
    for name in study.models:
        for group, some in chosen:
            if group.model == name:
                panels += [_bird(views[name], images[r["frame"]], r, group) for r in some if r["frame"] in images]
        frame = whole[name]
        if frame in images:
            size = "full" if name == lead else "big"
            panels.append(_frame(views[name], images[frame], str(frame), name, size))
    return panels


def _groups(run: Run, rows: Arranged, model: str, n_slices: int) -> list[_Group]:
    slices = run.table("difficulty_slices").filter((pl.col("model") == model) & (pl.col("k") < pl.col("n")))
    kind = [pl.col(c).str.split("_").list.first() for c in ("factor_a", "factor_b")]
    found = []
    for r in slices.filter(kind[0] != kind[1]).head(n_slices).iter_rows(named=True):
        where = {r["factor_a"]: r["level_a"], r["factor_b"]: r["level_b"]}
        words = ", ".join(predicate(*pair) for pair in where.items())
        found.append(_Group(model, words, tuple(where), birds_in(rows.birds, rows.binned, where).to_list()))
    if found:
        return found
    bins = run.table("difficulty_bins").filter((pl.col("model") == model) & (pl.col("level") != MISSING))
    some = bins.filter(
        (pl.col("k") < pl.col("n")) & pl.col("factor").is_in([f for f, b in rows.binned.items() if b.varies])
    )
    for r in some.sort("recall", maintain_order=True).head(n_slices).iter_rows(named=True):
        where = {r["factor"]: r["level"]}
        birds = birds_in(rows.birds, rows.binned, where).to_list()
        found.append(_Group(model, condition(r["factor"], r["level"]), (r["factor"],), birds))
    return found or [_Group(model, "birds", (), rows.birds.table["instance"].to_list())]


def _chosen(instances: pl.DataFrame, groups: Sequence[_Group], each: int) -> list[tuple[_Group, list[dict[str, Any]]]]:
    """Misses of each group, none twice for one model."""
    out, shown = [], set()
    for group in groups:
        inside = (pl.col("model") == group.model) & pl.col("instance").is_in(group.birds) & ~pl.col("recovered")
        rows = instances.filter(inside).with_columns(video_id="session")
        fresh = rows.filter(~pl.col("instance").is_in([i for name, i in shown if name == group.model]))
        some = spread(fresh.sort("instance"), each)
        shown |= {(group.model, str(r["instance"])) for r in some}
        out.append((group, some))
    return out


def _view(run: Run, model: str) -> View:
    tables = [run.table(name) for name in ("frames", "media", "labels")]
    mine = [run.table(name).filter(pl.col("model") == model) for name in ("predictions", "matches")]
    return View(*tables, *mine)


def _fullest(view: View) -> str | None:
    """The frame with the most misses, then the most outcomes of other kinds, then the first by name."""
    counts = view.matches.group_by("frame_id").agg(
        (pl.col("outcome") == "fn").sum().alias("missed"), pl.col("outcome").n_unique().alias("kinds")
    )
    counts = counts.filter(pl.col("missed") > 0).sort("missed", "kinds", "frame_id", descending=[True, True, False])
    return counts["frame_id"][0] if counts.height else None


def _bird(view: View, image: Any, row: dict[str, Any], group: _Group) -> Panel:
    box = view.boxed().filter(pl.col("label_id") == row["instance"]).row(0, named=True)
    shown = [f for f in ("rel_size", *group.factors) if row.get(f) is not None]
    values = ", ".join(f"{title(f).lower()} {_value(f, row[f])}" for f in dict.fromkeys(shown))
    panel = view.panel(image, row["frame"], "small", box, "Missed")
    words = group.words[:1].upper() + group.words[1:]
    caption = f"**{words}.** {m(group.model)} {row['session']}: {values}"
    return replace(panel, caption=caption, alt=f"{group.model} missed this bird of {row['session']}; {words}; {values}")


def _frame(view: View, image: Any, frame_id: str, model: str, size: str) -> Panel:
    panel = view.panel(image, frame_id, size, None, "The most misses in one frame")
    return replace(panel, caption=f"{m(model)} {panel.caption}", alt=f"{model}: {panel.alt}")


def _value(factor: str, value: float) -> str:
    scale, unit = UNITS.get(factor, (1, ""))
    number = f"{value * scale:.3g}" if abs(value * scale) < 1000 else f"{value * scale:,.0f}"
    return number + (" %" if unit.startswith("%") else "")
