"""A session that is not one scene: the camera was nudged, or went from colour to infrared.

Both change every factor of the background at once, so a comparison inside the session is none. They are looked for in
thumbnails of the measured frames, flagged, and may split a session's stratum (:func:`strata`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from birdlab.readers.files import Notice

Thumb = NDArray[np.uint8]

#: Colour differs by less than this in a picture without colour, gray levels (a gray sky has more) …
COLOURLESS = 0.5
#: … and a session counts as having lost its colour only if its other frames reach this median.
COLOURED = 3.0
#: A view has moved when it lies this far from the session's background, px of the thumbnail.
MOVED_THUMB_PX = 1.0
#: Correlation of the overlapping parts, once moved into place, that makes a displacement believable.
SAME_PLACE = 0.6
#: Fewer frames than this are no background, and no stratum of their own.
MIN_FRAMES = 5
#: A camera that was nudged stays where it is: fewer frames than this at one place are no view.
MIN_VIEW = 3


def correlation(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Pearson correlation of two pictures of one shape, in [-1, 1]; 0 where one of them is flat.

    >>> correlation(np.array([[0, 1]]), np.array([[1, 3]]))
    1.0
    """
    x, y = a.astype(np.float64) - a.mean(), b.astype(np.float64) - b.mean()
    scale = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / scale if scale > 0 else 0.0


def displacement(background: NDArray[np.float32], thumb: Thumb) -> tuple[float, float] | None:
    """How far a picture lies from a background, (right, down) in px, by phase correlation (Kuglin and Hines 1975).

    Returns:
        ``None`` where they do not show the same place: moved onto each other they correlate below :data:`SAME_PLACE`.
    """
    import cv2

    height, width = thumb.shape
    if min(height, width) < 16:
        return None
    taper = cv2.createHanningWindow((width, height), cv2.CV_32F)
    # OpenCV tapers its inputs where they lie.
    (dx, dy), _ = cv2.phaseCorrelate(background.astype(np.float32), thumb.astype(np.float32), taper)
    as_is = correlation(background, thumb)
    right, down = round(dx), round(dy)
    if abs(right) >= width // 2 or abs(down) >= height // 2:
        moved = 0.0
    else:
        moved = correlation(*_overlap(background, thumb, right, down))
    if max(as_is, moved) < SAME_PLACE:
        return None
    # A bird that fills the picture moves the peak, not the place.
    return (float(dx), float(dy)) if moved > as_is or (right, down) == (0, 0) else (0.0, 0.0)


def _overlap(a: NDArray[Any], b: NDArray[Any], right: int, down: int) -> tuple[NDArray[Any], NDArray[Any]]:
    height, width = a.shape
    rows_b, columns_b = (
        slice(max(0, down), height + min(0, down)),
        slice(max(0, right), width + min(0, right)),
    )
    rows_a, columns_a = (
        slice(max(0, -down), height + min(0, -down)),
        slice(max(0, -right), width + min(0, -right)),
    )
    return a[rows_a, columns_a], b[rows_b, columns_b]


def spread_by_looking(thumbs: Sequence[Thumb], look: Callable[[int], float | None]) -> list[float | None]:
    """Colour spread of every frame of one session, from a look at few of them.

    Colour costs a second decoding of a JPEG, and a camera changes between colour and infrared for long: the first frame
    is looked at, the last, and the one least like the first; between two that disagree the change is found by halving.
    A frame that was not looked at has the value of the last one before it that was.

    Args:
        thumbs: gray thumbnails in order of time.
        look: gives the colour spread of the frame at a position; ``None`` where it cannot be had.

    >>> gray = [np.zeros((2, 2), np.uint8)] * 9
    >>> spread_by_looking(gray, lambda i: 20.0 if i < 5 else 0.2)
    [20.0, 20.0, 20.0, 20.0, 20.0, 0.2, 0.2, 0.2, 0.2]
    """
    if not thumbs:
        return []
    unlike = [_unlikeness(thumbs[0], thumb) for thumb in thumbs]
    seen = {i: look(i) for i in sorted({0, int(np.argmax(unlike)), len(thumbs) - 1})}
    todo = list(zip(sorted(seen), sorted(seen)[1:], strict=False))
    while todo:
        a, b = todo.pop()
        if b - a > 1 and _colourless(seen[a]) != _colourless(seen[b]):
            middle = (a + b) // 2
            seen[middle] = look(middle)
            todo += [(a, middle), (middle, b)]
    values, last = [], None
    for i in range(len(thumbs)):
        last = seen.get(i, last)
        values.append(last)
    return values


def _unlikeness(a: Thumb, b: Thumb) -> float:
    if a.shape != b.shape:
        return 1.0
    return float(np.abs(a.astype(np.int16) - b).mean()) / 255


def _colourless(value: float | None) -> bool | None:
    return None if value is None else value < COLOURLESS


def find_anomalies(facts: pl.DataFrame, thumbs: Sequence[Thumb | None]) -> pl.DataFrame:
    """Where each frame's view lies from its session's background, and which frames have lost their colour.

    Args:
        facts: one row per measured frame in order of time: ``frame_id``, ``video_id``, ``width_px``, ``colour_spread``.
        thumbs: thumbnail of each row; ``None`` where the frame could not be read.

    Returns:
        ``frame_id``; ``shift_x_px``, ``shift_y_px``, ``shift_px`` (px of the frame, from the median of the session's
        frames of the same size and kind of light; null for fewer than five such frames, and where they do not show
        one place); ``view`` (1 is the session's main one, further ones of at least three frames in order of
        appearance; null where the shift is, and for frames that lie elsewhere alone);
        ``is_infrared`` (no colour, though other frames of the session have; null where the session has none at all, or
        the frame could not be looked at).
    """
    index = facts.with_row_index("row")
    parts = [_session(part, [thumbs[i] for i in part["row"]]) for _, part in _sessions(index)]
    schema = {"frame_id": pl.String, "shift_x_px": pl.Float64, "shift_y_px": pl.Float64, "shift_px": pl.Float64}
    schema |= {"view": pl.Int32, "is_infrared": pl.Boolean}
    rows = [row for part in parts for row in part]
    found = pl.DataFrame(rows, schema=schema)
    return facts.select("frame_id").join(found, on="frame_id", how="left", maintain_order="left")


def _sessions(facts: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    for (name,), part in facts.partition_by("video_id", as_dict=True, maintain_order=True).items():
        yield str(name), part


def _session(part: pl.DataFrame, thumbs: list[Thumb | None]) -> list[dict[str, Any]]:
    spread = part["colour_spread"].to_list()
    infrared = _infrared(spread)
    rows = [
        {"frame_id": f, "shift_x_px": None, "shift_y_px": None, "shift_px": None, "view": None, "is_infrared": i}
        for f, i in zip(part["frame_id"], infrared, strict=True)
    ]
    widths = part["width_px"].to_list()
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, thumb in enumerate(thumbs):
        if thumb is not None:
            groups.setdefault((thumb.shape, widths[i], bool(infrared[i])), []).append(i)
    for members in groups.values():
        if len(members) < MIN_FRAMES:
            continue
        scale = widths[members[0]] / thumbs[members[0]].shape[1]  # type: ignore[union-attr]
        shifts = _shifts([thumbs[i] for i in members])  # type: ignore[misc]
        for i, shift, view in zip(members, shifts, _views(shifts), strict=True):
            if shift is not None:
                x, y = shift[0] * scale, shift[1] * scale
                rows[i] |= {"shift_x_px": x, "shift_y_px": y, "shift_px": float(np.hypot(x, y)), "view": view}
    return rows


def _infrared(spread: list[float | None]) -> list[bool | None]:
    known = [v for v in spread if v is not None]
    coloured = [v for v in known if v >= COLOURLESS]
    if not coloured:
        return [None] * len(spread)
    lost = len(coloured) < len(known) and float(np.median(coloured)) >= COLOURED
    return [None if v is None else bool(lost and v < COLOURLESS) for v in spread]


def _shifts(thumbs: list[Thumb]) -> list[tuple[float, float] | None]:
    # The median of a session that was nudged halfway is a blend of two views: take that of one frame's own view.
    typical = thumbs[_typical(thumbs)].astype(np.float32)
    near = [t for t in thumbs if np.hypot(*(displacement(typical, t) or (np.inf, 0.0))) < MOVED_THUMB_PX]
    background = np.median(np.stack(near or thumbs), axis=0).astype(np.float32)
    shifts = [displacement(background, thumb) for thumb in thumbs]
    # Frames that do not even agree with their own median show no one place.
    return shifts if sum(s is not None for s in shifts) * 2 > len(shifts) else [None] * len(shifts)


def _typical(thumbs: list[Thumb]) -> int:
    """The frame that is most like the others, of 25 spread over the session."""
    sample = np.unique(np.linspace(0, len(thumbs) - 1, 25).round().astype(int))
    flat = np.stack([thumbs[i].ravel() for i in sample]).astype(np.float64)
    flat -= flat.mean(axis=1, keepdims=True)
    flat /= np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12)
    return int(sample[np.argmax((flat @ flat.T).sum(axis=1))])


def _views(shifts: list[tuple[float, float] | None]) -> list[int | None]:
    """View of each frame: frames closer than :data:`MOVED_THUMB_PX` to a view's first are in it; null for stray frames."""
    centres, nearest = [(0.0, 0.0)], []
    for shift in shifts:
        if shift is None:
            nearest.append(-1)
            continue
        far = [float(np.hypot(shift[0] - x, shift[1] - y)) for x, y in centres]
        if min(far) >= MOVED_THUMB_PX:
            centres.append(shift)
            far.append(0.0)
        nearest.append(int(np.argmin(far)))
    kept = [v for v in range(len(centres)) if v == 0 or nearest.count(v) >= MIN_VIEW]
    number = {v: i for i, v in enumerate(kept, start=1)}
    return [number.get(v) for v in nearest]


def anomaly_notices(facts: pl.DataFrame) -> list[Notice]:
    """What the analysis must say about its sessions.

    Args:
        facts: table ``frame_facts``.

    Returns:
        ``camera_nudged`` (frames of further views) and ``colour_to_infrared`` (frames without colour in a session that
        has some) for each session concerned, and ``no_common_view``: frames whose session shows no one place, or that
        lie elsewhere alone, so that nothing can be said of their camera.
    """
    notices, unknown, where = [], 0, []
    for name, part in _sessions(facts.filter(pl.col("width_px").is_not_null())):
        away = part.filter(pl.col("view") > 1)
        if away.height:
            far = float(away["shift_px"].max() or 0)  # type: ignore[arg-type]
            text = f"session {name}: the camera was nudged, frames lie up to {far:.0f} px from the others"
            notices.append(Notice("camera_nudged", text, away.height))
        n = int(part["is_infrared"].fill_null(False).sum())
        if n:
            text = f"session {name}: frames without colour (infrared light) in a session that has colour"
            notices.append(Notice("colour_to_infrared", text, n))
        stray = part["view"].null_count()
        if stray and part.height >= MIN_FRAMES:
            unknown += stray
            where.append(name)
    if unknown:
        shown = ", ".join(where[:3]) + (f" and {len(where) - 3} more" if len(where) > 3 else "")
        text = f"frames that do not show their session's common view (the camera moves, or there is little to see): {shown}"
        notices.append(Notice("no_common_view", text, unknown))
    return notices


def strata(facts: pl.DataFrame, *, split: bool = True, min_frames: int = MIN_FRAMES) -> pl.DataFrame:
    """Stratum of each measured frame: its session, or the part of it with one view and one kind of light.

    Args:
        facts: table ``frame_facts``.
        split: whether sessions may be split at all.
        min_frames: a part with fewer frames stays with its session's main part, as do frames without a view.

    Returns:
        ``frame_id``, ``stratum`` (``video_id``, or ``video_id · view 2``, ``video_id · infrared``).
    """
    view = pl.when(pl.col("view") > 1).then(pl.format(" · view {}", "view")).otherwise(pl.lit(""))
    light = pl.when(pl.col("is_infrared").fill_null(False)).then(pl.lit(" · infrared")).otherwise(pl.lit(""))
    part = facts.select("frame_id", "video_id", view.alias("view"), light.alias("light"))
    if not split:
        return part.select("frame_id", pl.col("video_id").alias("stratum"))
    small = pl.len().over("video_id", "light", "view") < min_frames
    part = part.with_columns(pl.when(small).then(pl.lit("")).otherwise("view").alias("view"))
    small = pl.len().over("video_id", "light") < min_frames
    part = part.with_columns(pl.when(small).then(pl.lit("")).otherwise("light").alias("light"))
    return part.select("frame_id", pl.concat_str("video_id", "light", "view").alias("stratum"))
