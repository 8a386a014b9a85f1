"""Photographs with boxes drawn on them: one frame per session, what a label holds, hits, misses and false alarms.

The pictures are cut and scaled before anything is drawn; boxes are kept as numbers beside the picture, so they stay sharp at
any size. Which examples are shown follows from the tables alone: the same run shows the same pictures.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from birdlab.report.show import Box, Panel, m

if TYPE_CHECKING:
    from birdlab.study import Run

#: Widths in pixels that pictures are saved at: enough for the column they stand in on a sharp screen.
SMALL, BIG, FULL = 360, 760, 1400
BOX = ("x", "y", "w", "h")


@dataclass(frozen=True)
class Cut:
    """A window of a frame: left, top, width, height in pixels of the frame."""

    x: float
    y: float
    w: float
    h: float


def session_samples(frames: pl.DataFrame, media: pl.DataFrame, labels: pl.DataFrame, *, most: int = 12) -> list[Panel]:
    """One frame per session with its labelled birds: the paper's Figure 2.

    The frame with the most birds is taken, the first of them on a tie. Sessions beyond ``most`` are left out; the caller says so.
    """
    birds = labels.filter(~pl.col("is_ignored")).group_by("frame_id").len("n_birds")
    chosen = (
        frames.join(birds, on="frame_id", how="left")
        .with_columns(pl.col("n_birds").fill_null(0))
        .filter(pl.col("width_px").is_not_null())
        .sort(["video_id", "n_birds", "frame_id"], descending=[False, True, False])
        .unique("video_id", keep="first", maintain_order=True)
        .head(most)
    )
    panels = []
    images = images_of(chosen, media)
    for row in chosen.to_dicts():
        image = images.get(row["frame_id"])
        if image is None:
            continue
        truth = _of(labels.filter(~pl.col("is_ignored")), row["frame_id"])
        looked = row["label_state"] != "unlabelled"
        said = _birds(row["n_birds"]) if looked else "not looked at"
        caption = f"{row['video_id']}" + (f", {row['site_id']}" if row["site_id"] else "") + f": {said}"
        alt = f"Frame of session {row['video_id']}{f' with {said} labelled' if looked else f', {said}'}"
        panels.append(panel_of(image, None, [_box(t, "label") for t in truth], caption, alt, "small", SMALL))
    return panels


def anatomy(frames: pl.DataFrame, media: pl.DataFrame, labels: pl.DataFrame) -> list[Panel]:
    """One frame four ways, as in the paper's Figure 3: raw, boxes, masks, both; without masks only the first two.

    The frame with the most masks is taken (then the most birds, then the first by name), cut to a window around its largest bird.
    """
    real = labels.filter(~pl.col("is_ignored"))
    if real.is_empty():
        return []
    counts = real.group_by("frame_id").agg(
        pl.col("mask_rle").is_not_null().sum().alias("masks"), pl.len().alias("birds")
    )
    best = counts.sort(["masks", "birds", "frame_id"], descending=[True, True, False])
    chosen = frames.join(best.head(1), on="frame_id", how="inner")
    image = images_of(chosen, media).get(best["frame_id"][0])
    if image is None:
        return []
    truth = _of(real, best["frame_id"][0])
    largest = max(truth, key=lambda t: float(t["w"]) * float(t["h"]))
    cut = window([largest], image.shape, margin=1.6)
    boxes = [_box(t, "label") for t in truth]
    outlines = [outline for t in truth if t["mask_rle"] for outline in outlines_of(t["mask_rle"])]
    said = _birds(len(truth))
    ways = [("raw", [], []), ("boxes", boxes, [])]
    if outlines:
        ways += [("masks", [], outlines), ("both", boxes, outlines)]
    return [panel_of(image, cut, b, name, f"{said}: {name}", "small", SMALL, outlines=o) for name, b, o in ways]


def outcomes(
    frames: pl.DataFrame,
    media: pl.DataFrame,
    labels: pl.DataFrame,
    predictions: pl.DataFrame,
    matches: pl.DataFrame,
    *,
    model: str,
    each: int = 2,
) -> list[Panel]:
    """What one model did, as in the paper's Figure 4: hits, misses, false alarms, over- and under-detection.

    The frame with the most birds comes first, whole, with everything that was found and missed. Then windows: hits of the smallest
    birds, misses of the largest, false alarms of the highest confidence, birds with several boxes, frames with the most misses;
    at most one of a kind per session before a second is taken.
    """
    view = View(
        frames, media, labels, predictions.filter(pl.col("model") == model), matches.filter(pl.col("model") == model)
    )
    wanted: list[tuple[str, str, dict[str, object] | None, str]] = []
    busiest = view.busiest()
    if busiest:
        wanted.append(("full", busiest, None, "The most birds in one frame"))
    for kind, title in (("tp", "Found"), ("fn", "Missed"), ("fp", "False alarm")):
        wanted += [("small", r["frame_id"], r, title) for r in view.examples(kind, each)]
    wanted += [("small", r["frame_id"], r, "Several boxes on one bird") for r in view.over(each)]
    wanted += [("big", r["frame_id"], None, "Fewer found than there are") for r in view.under(each, busiest)]
    wanted = _once(wanted)
    images = images_of(frames.filter(pl.col("frame_id").is_in([w[1] for w in wanted])), media)
    return [view.panel(images[f], f, size, focus, title) for size, f, focus, title in wanted if f in images]


def outcomes_of_all(run: Run, matches: pl.DataFrame, *, each: int = 2) -> list[Panel]:
    """:func:`outcomes` of every model of a run, one after the other, each caption opening with the model's name."""
    tables = [run.table(name) for name in ("frames", "media", "labels", "predictions")]
    shown = []
    for model in run.recipe.models:
        found = outcomes(*tables, matches, model=model.name, each=each)
        shown += [
            replace(panel, caption=f"{m(model.name)} {panel.caption}", alt=f"{model.name}: {panel.alt}")
            for panel in found
        ]
    return shown


@dataclass(frozen=True)
class View:
    """The outcomes of one model, looked at frame by frame."""

    frames: pl.DataFrame
    media: pl.DataFrame
    labels: pl.DataFrame
    predictions: pl.DataFrame
    matches: pl.DataFrame

    def boxed(self) -> pl.DataFrame:
        """Matches with the box they speak of: the label's for hits and misses, the detection's for false alarms."""
        truth = self.labels.select("label_id", *[pl.col(c).alias(f"t{c}") for c in BOX])
        found = self.predictions.select("prediction_id", *[pl.col(c).alias(f"p{c}") for c in BOX])
        joined = self.matches.join(truth, on="label_id", how="left").join(found, on="prediction_id", how="left")
        return joined.with_columns(pl.coalesce(f"t{c}", f"p{c}").alias(c) for c in BOX)

    def busiest(self) -> str | None:
        counts = (
            self.labels.filter(~pl.col("is_ignored"))
            .group_by("frame_id")
            .len("n")
            .sort(["n", "frame_id"], descending=[True, False])
        )
        counts = counts.filter(pl.col("frame_id").is_in(self.matches["frame_id"].implode()))
        return counts["frame_id"][0] if counts.height else None

    def examples(self, kind: str, n: int) -> list[dict[str, object]]:
        rows = self.boxed().filter(pl.col("outcome") == kind).with_columns((pl.col("w") * pl.col("h")).alias("area"))
        order = {"tp": ("area", False), "fn": ("area", True), "fp": ("score", True)}[kind]
        return spread(rows.sort([order[0], "frame_id"], descending=[order[1], False]), n)

    def over(self, n: int) -> list[dict[str, object]]:
        """Birds that a second box overlaps by IoU ≥ 0.1."""
        rows = self.boxed()
        hits = rows.filter(pl.col("outcome") == "tp")
        extra = rows.filter(pl.col("outcome") == "fp").select(
            "frame_id", *[pl.col(f"p{c}").alias(f"e{c}") for c in BOX]
        )
        pairs = hits.join(extra, on="frame_id", how="inner")
        iw = pl.min_horizontal(pl.col("x") + pl.col("w"), pl.col("ex") + pl.col("ew")) - pl.max_horizontal("x", "ex")
        ih = pl.min_horizontal(pl.col("y") + pl.col("h"), pl.col("ey") + pl.col("eh")) - pl.max_horizontal("y", "ey")
        inter = iw.clip(0) * ih.clip(0)
        iou = inter / (pl.col("w") * pl.col("h") + pl.col("ew") * pl.col("eh") - inter)
        several = pairs.filter(iou >= 0.1).group_by("label_id").len("extra")
        return spread(
            hits.join(several, on="label_id", how="inner").sort(["extra", "frame_id"], descending=[True, False]), n
        )

    def under(self, n: int, but: str | None) -> list[dict[str, object]]:
        """Frames with at least two birds and the most misses."""
        birds = self.matches.filter(pl.col("outcome").cast(pl.String).is_in(["tp", "fn"]))
        counts = birds.group_by("frame_id", "video_id").agg(
            pl.len().alias("n"), (pl.col("outcome") == "fn").sum().alias("missed")
        )
        counts = counts.filter((pl.col("n") > 1) & (pl.col("missed") > 0) & (pl.col("frame_id") != (but or "")))
        return spread(counts.sort(["missed", "frame_id"], descending=[True, False]), n)

    def panel(self, image: np.ndarray, frame_id: str, size: str, focus: dict[str, object] | None, title: str) -> Panel:
        rows = self.boxed().filter(pl.col("frame_id") == frame_id)
        boxes = []
        for r in rows.to_dicts():
            if r["outcome"] == "ignored":
                continue
            kind = {"tp": "hit", "fn": "miss", "fp": "fa"}[r["outcome"]]
            boxes.append(_box(r, kind, f"{r['score']:.2f}" if r["score"] is not None else ""))
        n = {k: sum(b.kind == k for b in boxes) for k in ("hit", "miss", "fa")}
        session = rows["video_id"][0]
        tally = f"{n['hit']} of {n['hit'] + n['miss']} found" + (f", {n['fa']} false" if n["fa"] else "")
        cut = (
            None
            if size == "full"
            else window([focus] if focus else [b.__dict__ for b in boxes], image.shape, margin=2.0 if focus else 0.6)
        )
        if size == "full" and image.shape[0] > 0.6 * image.shape[1]:
            cut = window([b.__dict__ for b in boxes], image.shape, margin=0.6, ratio=0.42)
        score = f", score {focus['score']:.2f}" if focus and focus.get("score") is not None else ""
        caption = f"{title}{score}. {session}" if focus else f"{title}: {tally}. {session}"
        width = {"full": FULL, "big": BIG, "small": SMALL}[size]
        return panel_of(image, cut, boxes, caption, f"{title}; in this frame {tally}", size, width)


def outlines_of(mask_rle: str) -> list[list[tuple[float, float]]]:
    """Outlines of a mask (COCO RLE as JSON text) as polygons in pixels of the frame, simplified to half a pixel."""
    import cv2
    from pycocotools import mask as coco_mask

    mask = coco_mask.decode(json.loads(mask_rle))
    found, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return [[(float(x), float(y)) for [[x, y]] in cv2.approxPolyDP(c, 0.5, True).tolist()] for c in found if len(c) > 2]


def images_of(frames: pl.DataFrame, media: pl.DataFrame) -> dict[str, np.ndarray]:
    from birdlab.readers.pixels import iter_frames

    return {frame_id: image for frame_id, image in iter_frames(frames, media) if isinstance(image, np.ndarray)}


def panel_of(
    image: np.ndarray,
    cut: Cut | None,
    boxes: list[Box],
    caption: str,
    alt: str,
    size: str,
    width: int,
    *,
    outlines: Iterable[list[tuple[float, float]]] = (),
) -> Panel:
    import cv2

    cut = cut or Cut(0, 0, image.shape[1], image.shape[0])
    x0, y0 = int(cut.x), int(cut.y)
    part = image[y0 : y0 + int(cut.h), x0 : x0 + int(cut.w)]
    # Tiny windows are enlarged without smoothing tricks: what is shown is what the model saw.
    scale = width / part.shape[1]
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    height = max(1, round(part.shape[0] * scale))
    small = cv2.resize(part, (width, height), interpolation=how)
    jpeg = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, 78])[1].tobytes()
    moved = [Box((b.x - x0) * scale, (b.y - y0) * scale, b.w * scale, b.h * scale, b.kind, b.text) for b in boxes]
    seen = [b for b in moved if b.x < width and b.y < height and b.x + b.w > 0 and b.y + b.h > 0]
    lines = [("mask", [((x - x0) * scale, (y - y0) * scale) for x, y in outline]) for outline in outlines]
    return Panel(jpeg, width, height, seen, caption, alt, size=size, polygons=lines)


def window(boxes: list[dict[str, object]], shape: tuple[int, ...], *, margin: float, ratio: float = 0.75) -> Cut:
    """The window around boxes: their hull, grown by ``margin`` of its longer side, at height/width = ``ratio``, within the frame."""
    height, width = shape[:2]
    if not boxes:
        return Cut(0, 0, width, height)
    x0 = min(float(b["x"]) for b in boxes)
    y0 = min(float(b["y"]) for b in boxes)
    x1 = max(float(b["x"]) + float(b["w"]) for b in boxes)
    y1 = max(float(b["y"]) + float(b["h"]) for b in boxes)
    side = max(x1 - x0, (y1 - y0) / ratio, 16.0) * (1 + margin)
    w = min(side, width, height / ratio)
    h = w * ratio
    x = min(max(0.0, (x0 + x1 - w) / 2), width - w)
    y = min(max(0.0, (y0 + y1 - h) / 2), height - h)
    return Cut(x, y, max(1.0, w), max(1.0, h))


def spread(rows: pl.DataFrame, n: int) -> list[dict[str, object]]:
    """The first ``n`` rows, but a session's second only after every session's first."""
    turn = pl.int_range(pl.len()).over("video_id").alias("turn")
    return rows.with_columns(turn).sort("turn", maintain_order=True).head(n).to_dicts()


def _once(
    wanted: list[tuple[str, str, dict[str, object] | None, str]],
) -> list[tuple[str, str, dict[str, object] | None, str]]:
    """Without windows that would show the same birds again: same frame and boxes that overlap."""
    kept: list[tuple[str, str, dict[str, object] | None, str]] = []
    for size, frame_id, focus, title in wanted:
        same = [k[2] for k in kept if k[1] == frame_id and k[2] is not None]
        if focus is None or not any(_touch(focus, other) for other in same):
            kept.append((size, frame_id, focus, title))
    return kept


def _touch(a: dict[str, object], b: dict[str, object]) -> bool:
    ax, ay, aw, ah, bx, by, bw, bh = (float(r[c]) for r in (a, b) for c in BOX)
    return ax < bx + bw and bx < ax + aw and ay < by + bh and by < ay + ah


def _of(labels: pl.DataFrame, frame_id: str) -> list[dict[str, object]]:
    return labels.filter(pl.col("frame_id") == frame_id).to_dicts()


def _box(row: dict[str, object], kind: str, text: str = "") -> Box:
    return Box(float(row["x"]), float(row["y"]), float(row["w"]), float(row["h"]), kind, text)


def _birds(n: int) -> str:
    return "no bird" if n == 0 else "1 bird" if n == 1 else f"{n} birds"
