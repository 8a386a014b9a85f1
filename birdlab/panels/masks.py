"""Outlines on photographs: hits with the least overlap first, then missed birds and false outlines.

The label's outline and the detection's are drawn in the house's marks; no colour stands for a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from birdlab.detection.mask_checks import dice_of
from birdlab.detection.masks import has_masks, with_masks
from birdlab.detection.matching import match
from birdlab.panels.detection import BOX, SMALL, images_of, outlines_of, panel_of, spread, window
from birdlab.report.show import Panel, m

if TYPE_CHECKING:
    from birdlab.study import Run

Row = dict[str, object]
#: Marks of :data:`birdlab.style.MARKS` for the label's and for the detection's outline, by outcome.
_MARKS = {"tp": ("truth", "detection"), "fn": ("miss", None), "fp": (None, "fa")}
_ORDER = (("tp", "iou", False), ("fn", "area", True), ("fp", "score", True))


def mask_outcomes(
    frames: pl.DataFrame,
    media: pl.DataFrame,
    labels: pl.DataFrame,
    predictions: pl.DataFrame,
    matches: pl.DataFrame,
    *,
    model: str,
    each: int = 4,
) -> list[Panel]:
    """Outlines of one model over those of the labels: hits with the least overlap, missed birds, false outlines.

    Args:
        frames, media, labels, predictions: tables of the study.
        matches: table ``matches`` by mask overlap (``match(..., iou_type="segm")``), at the confidence shown.
        model: name of the model.
        each: pictures of a kind at most; a session's second only after every session's first.

    Returns:
        Panels: hits by overlap, the lowest first; missed birds by size, the largest first; false outlines by score,
        the highest first. The window holds the bird and its detection; other outlines that reach into it are drawn
        too. No panel for a row without a mask or a frame that cannot be read, so the list may be empty.
    """
    mine = matches.filter(pl.col("model") == model)
    rows = _outlined(mine, labels, predictions.filter(pl.col("model") == model))
    wanted: list[Row] = []
    for kind, by, down in _ORDER:
        at = rows.filter(pl.col("outcome") == kind).sort([by, "frame_id"], descending=[down, False])
        chosen = spread(at, each)
        wanted += sorted(chosen, key=lambda r: (-1 if down else 1) * float(r[by]))
    images = images_of(frames.filter(pl.col("frame_id").is_in([r["frame_id"] for r in wanted])), media)
    by_frame = {key[0]: part.to_dicts() for key, part in rows.partition_by("frame_id", as_dict=True).items()}
    panels = []
    for row in wanted:
        image = images.get(str(row["frame_id"]))
        if image is not None:
            panels.append(_panel(image, row, by_frame[row["frame_id"]]))
    return panels


def mask_outcomes_of_all(run: Run, *, each: int = 4) -> list[Panel]:
    """:func:`mask_outcomes` of every model of a run that draws outlines, each caption opening with the model's name.

    Scored as in the tables: the recipe's splits, overlap and confidence, a detection without a mask by its filled
    box; frames with a labelled bird that has no mask are left out.
    """
    from birdlab.detection.scored import scored

    study = scored(run)
    s, shown = study.settings, []
    for model in study.models:
        on = study.frames_of(model)
        near = study.labels.join(on.select("frame_id"), on="frame_id", how="semi", maintain_order="left")
        mine = study.predictions.filter(pl.col("model") == model)
        mine = mine.join(on.select("frame_id"), on="frame_id", how="semi", maintain_order="left")
        if not has_masks(near, mine):
            continue
        labels, found, frames, _ = with_masks(near, mine, on)
        options = {"iou": s.iou, "conf": s.conf, "class_agnostic": s.class_agnostic}
        matches = match(labels, found, frames, iou_type="segm", models=[model], **options)
        for panel in mask_outcomes(frames, run.table("media"), labels, found, matches, model=model, each=each):
            caption, alt = f"{m(model)} {panel.caption}", f"{model}: {panel.alt}"
            shown.append(replace(panel, caption=caption, alt=alt))
    return shown


def _outlined(matches: pl.DataFrame, labels: pl.DataFrame, predictions: pl.DataFrame) -> pl.DataFrame:
    """Hits, misses and false positives with the masks and the window they speak of."""
    sides = [
        table.select(key, *[pl.col(c).alias(f"{side}{c}") for c in (*BOX, "mask_rle")])
        for table, key, side in ((labels, "label_id", "t"), (predictions, "prediction_id", "p"))
    ]
    rows = matches.with_columns(pl.col("outcome").cast(pl.String)).filter(pl.col("outcome").is_in(list(_MARKS)))
    rows = rows.join(sides[0], on="label_id", how="left", maintain_order="left")
    rows = rows.join(sides[1], on="prediction_id", how="left", maintain_order="left")
    x, y = (pl.min_horizontal(f"t{c}", f"p{c}") for c in ("x", "y"))
    right = pl.max_horizontal(pl.col("tx") + pl.col("tw"), pl.col("px") + pl.col("pw"))
    low = pl.max_horizontal(pl.col("ty") + pl.col("th"), pl.col("py") + pl.col("ph"))
    rows = rows.with_columns(x=x, y=y, w=right - x, h=low - y, area=pl.coalesce("tw", "pw") * pl.coalesce("th", "ph"))
    return rows.filter(pl.coalesce("tmask_rle", "pmask_rle").is_not_null())


def _panel(image: object, row: Row, others: Sequence[Row]) -> Panel:
    cut = window([row], image.shape, margin=1.2)  # type: ignore[attr-defined]
    kinds, outlines = [], []
    for other in others:
        apart = (
            float(other["x"]) > cut.x + cut.w
            or float(other["y"]) > cut.y + cut.h
            or float(other["x"]) + float(other["w"]) < cut.x
            or float(other["y"]) + float(other["h"]) < cut.y
        )
        if apart:
            continue
        for side, kind in zip(("t", "p"), _MARKS[str(other["outcome"])], strict=True):
            text = other[f"{side}mask_rle"]
            found = outlines_of(str(text)) if kind and text else []
            kinds += [kind] * len(found)
            # Outlines run through the middles of pixels, and a pixel's middle lies half a pixel from its corner.
            outlines += [[(x + 0.5, y + 0.5) for x, y in outline] for outline in found]
    title = _title(row)
    score = "" if row["score"] is None else f", score {row['score']:.2f}"
    caption, alt = f"{title}{score}. {row['video_id']}", f"{title}{score}, outlines drawn on the photograph"
    panel = panel_of(image, cut, [], caption, alt, "small", SMALL, outlines=outlines)
    return replace(panel, polygons=[(k, points) for k, (_, points) in zip(kinds, panel.polygons, strict=True)])


def _title(row: Row) -> str:
    if row["outcome"] == "tp":
        return f"IoU {row['iou']:.2f}, Dice {dice_of(float(row['iou'])):.2f}"
    return "Missed" if row["outcome"] == "fn" else "False outline"
