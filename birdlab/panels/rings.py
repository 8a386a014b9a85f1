"""Strips of clips for colour rings: three pictures with the rings that were found, what was read, who was named, who it is."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from birdlab.panels.detection import Cut, spread, window
from birdlab.report.gallery import Box
from birdlab.report.show import Panel

if TYPE_CHECKING:
    from datetime import date

    from birdlab.study import Run

Picture = NDArray[np.uint8]
#: Pictures of a strip, saved width of one of half a page, px.
EACH, WIDTH_PX = 3, 760
#: A picture is cut around its rings: their hull, wider by this share, at this height / width.
_MARGIN, _RATIO = 1.2, 0.8
_LEAST = 0.45  #: of the picture's width, where the rings need less
#: An outline stands this much (share of the ring's size) outside the ring, which is to be seen.
_OUTSIDE = 0.12
_GAP_PX, _QUALITY = 4, 80
#: Words of the outcomes, in the order in which strips are shown.
OUTCOMES = {"wrong": "Wrong name", "unnamed": "Not named", "tied": "Several birds tie", "right": "Right"}
_NOBODY, _BLANK = "nobody", (222, 222, 222)


def with_truth(calls: pl.DataFrame, clips: pl.DataFrame, roster: pl.DataFrame | None = None) -> pl.DataFrame:
    """Calls beside who the bird is, as :func:`strip_panels` wants them.

    Args:
        calls: table ``ring_calls``.
        clips: table ``reid_clips``: ``clip_id``, ``individual_id``, and where known ``video_id`` and ``date``.
        roster: table ``ring_roster``: the codes.

    Returns:
        The calls of these clips with ``truth``, ``video_id``, ``truth_code`` and ``named_code`` (empty where the bird is not on
        the roster of that day; null without a roster, or where the day is not known and it wore several codes).
    """
    for column, dtype in (("video_id", pl.String), ("date", pl.Date)):
        if column not in clips.columns:
            clips = clips.with_columns(pl.lit(None, dtype=dtype).alias(column))
    told = clips.select("clip_id", "video_id", "date", pl.col("individual_id").alias("truth"))
    rows = calls.drop("truth", "video_id", "date", strict=False).join(
        told, on="clip_id", how="inner", maintain_order="left"
    )
    names = rows.select("truth", "individual_id", "date").rows()
    return rows.with_columns(
        pl.Series("truth_code", [_code(roster, truth, day) for truth, _, day in names], dtype=pl.String),
        pl.Series("named_code", [_code(roster, named, day) for _, named, day in names], dtype=pl.String),
    ).drop("date")


def _code(roster: pl.DataFrame | None, bird: str | None, day: date | None) -> str | None:
    """The code that a bird wears on a day; on a day that is not known its only one; empty where it is not on the roster."""
    if roster is None or bird is None:
        return None
    rows = roster.filter(pl.col("individual_id") == bird)
    if day is not None:
        rows = rows.filter(
            (pl.col("valid_from").is_null() | (pl.col("valid_from") <= day))
            & (pl.col("valid_to").is_null() | (pl.col("valid_to") >= day))
        )
    found = rows["code"].unique().to_list()
    return None if len(found) > 1 else found[0] if found else ""


def strips_of(run: Run, *, gallery: str, n: int = 6, matcher: str = "birdlab") -> list[Panel]:
    """Strips of a study: :func:`strip_panels` of its own tables; none where the recipe has no rings."""
    from birdlab.individuals.reid.inputs import image_folder

    section = run.recipe.reid
    if section is None or section.rings is None:
        return []
    called = with_truth(run.table("ring_calls"), run.table("reid_clips"), run.table("ring_roster"))
    tables = (run.table(name) for name in ("ring_reads", "ring_colours", "reid_images"))
    return strip_panels(called, *tables, image_folder(run, section), n=n, gallery=gallery, matcher=matcher)


def strip_panels(
    calls: pl.DataFrame,
    reads: pl.DataFrame,
    colours: pl.DataFrame,
    images: pl.DataFrame,
    folder: Path,
    *,
    n: int = 6,
    gallery: str = "territory",
    matcher: str = "birdlab",
) -> list[Panel]:
    """Strips of clips: wrong names first, then clips without a name, then ties, then right names.

    Within a kind the surest comes first (of clips without a name the least sure one), and a video's second clip after every
    video's first.

    Args:
        calls: of :func:`with_truth`, or of ``call_outcomes``; a clip that two ways of assigning name is shown once, as the
            first of its rows has it.
        reads, colours, images: tables ``ring_reads``, ``ring_colours``, ``reid_images``.
        folder: where the images lie.
        n: strips at most.
        gallery, matcher: which calls; the matcher also chooses the reads.

    Returns:
        Panels; a picture that is not there or cannot be read leaves a grey place, and the caption says so. Empty where there
        is no such call.
    """
    if n < 1 or calls.is_empty():
        return []
    mine = calls.filter(pl.col("matcher") == matcher, pl.col("gallery").cast(pl.String) == gallery)
    mine = mine.unique("clip_id", keep="first", maintain_order=True)
    read = reads.filter(pl.col("matcher") == matcher).sort("clip_id", "pair")
    panels = []
    for row in _wanted(mine)[:n]:
        of = pl.col("clip_id") == row["clip_id"]
        panels.append(
            clip_strip(
                row, read.filter(of).to_dicts(), colours.filter(of), images.filter(of).sort("frame_index"), folder
            )
        )
    return panels


def clip_strip(
    call: dict[str, Any], reads: Sequence[dict[str, Any]], rings: pl.DataFrame, images: pl.DataFrame, folder: Path
) -> Panel:
    """Three pictures of a clip with its rings outlined: of each third of the clip the one in which most rings were found.

    Args:
        call: a row of :func:`with_truth`.
        reads: the clip's rows of ``ring_reads``, the better read leg first.
        rings, images: the clip's rows of ``ring_colours`` and ``reid_images``, images in their order.
        folder: where the images lie.
    """
    chosen = _chosen(rings, images)
    views = [(_picture(folder, path), _rings_of(rings, frame)) for frame, path in chosen]
    cuts = [None if p is None else _cut(on, p.shape) for p, on in views]
    lost = sum(p is None for p, _ in views)
    strip, places = _side_by_side([None if c is None else _part(p, c) for (p, _), c in zip(views, cuts, strict=True)])
    boxes = []
    for (_, on), cut, place in zip(views, cuts, places, strict=True):
        boxes += [_box(ring, cut, place) for ring in on] if cut is not None else []
    caption, alt = _words(call, reads)
    if not chosen:
        caption, alt = f"{caption} The clip has no picture.", f"{alt}; it has no picture"
    elif lost:
        said = f"{lost} of {len(chosen)} pictures cannot be read"
        caption, alt = f"{caption} Grey: {said}.", f"{alt}; {said}"
    kept = [b for b in boxes if b is not None]
    return Panel(_jpeg(strip), strip.shape[1], strip.shape[0], kept, caption, alt, size="big")


# --- which clips ------------------------------------------------------------------------------------------------------


def outcome_of(call: dict[str, Any]) -> str:
    """A key of :data:`OUTCOMES`.

    >>> outcome_of({"individual_id": None, "truth": "a", "n_tied": 1})
    'tied'
    """
    if call["individual_id"] is not None:
        return "right" if call["individual_id"] == call["truth"] else "wrong"
    return "tied" if call["n_tied"] else "unnamed"


def _wanted(calls: pl.DataFrame) -> list[dict[str, Any]]:
    rows = calls.to_dicts()
    out: list[dict[str, Any]] = []
    for kind in OUTCOMES:
        sign = 1 if kind == "unnamed" else -1
        mine = sorted(
            (r for r in rows if outcome_of(r) == kind),
            key=lambda r: (r["score"] is None, sign * (r["score"] or 0.0), r["clip_id"]),
        )
        if mine and any(r.get("video_id") is not None for r in mine):
            names = pl.DataFrame({"video_id": [r.get("video_id") for r in mine], "at": range(len(mine))})
            mine = [mine[int(r["at"])] for r in spread(names, len(mine))]  # type: ignore[call-overload]
        out += mine
    return out


# --- what is said -----------------------------------------------------------------------------------------------------


def _words(call: dict[str, Any], reads: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """Caption and alt text."""
    kind, matcher = outcome_of(call), call["matcher"]
    named = _bird(call["individual_id"], call.get("named_code")) if call["individual_id"] else _NOBODY
    truth = _bird(call["truth"], call.get("truth_code"))
    read = read_text(reads, matcher)
    score = ""
    if call["score"] is not None:
        score = f", {'posterior' if matcher == 'birdlab' else 'score'} {_number(call['score'])}"
        if not call["individual_id"] and call.get("best"):
            score = f"; {call['best']} leads{score}"
    who = f"{named}{score}" if kind == "right" else f"{named}{score}; it is {truth}"
    why = f" {_sentence(call['reason'])}" if call.get("reason") and kind != "right" else ""
    caption = f"**{OUTCOMES[kind]}.** Read {_plain(read)}. Named {_plain(who)}.{_plain(why)}"
    alt = f"{OUTCOMES[kind]}, clip {call['clip_id']}: read {read}, named {who}"
    return caption, alt


def read_text(reads: Sequence[dict[str, Any]], matcher: str = "birdlab") -> str:
    """The letters of each leg, upper ring first; the published rule knows no legs, only colours.

    >>> read_text([{"upper": "W", "lower": "B"}, {"upper": "A", "lower": None}])
    'WB and A?'
    >>> read_text([{"upper": "W", "lower": "B"}], "published"), read_text([])
    ('colours W, B', 'nothing')
    """
    legs = [(r["upper"], r["lower"]) for r in reads if r["upper"] or r["lower"]]
    if not legs:
        return "nothing"
    if matcher == "published":
        return "colours " + ", ".join(letter for leg in legs for letter in leg if letter)
    return " and ".join("".join(letter or "?" for letter in leg) for leg in legs)


def _bird(name: str | None, code: str | None) -> str:
    """A bird with its code, unless it is called by it."""
    if name is None:
        return "a bird that is not known"
    if code == "":
        return f"{name} (not on the roster)"
    return f"{name} ({code})" if code and code.casefold() != name.casefold() else name


def _number(value: float) -> str:
    if 0 < value < 0.005:
        return "below 0.01"
    return f"{math.floor(100 * value) / 100:.2f}" if 0.99 < value < 1 else f"{value:.2f}"


def _sentence(reason: str) -> str:
    text = reason.strip().rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


def _plain(text: str) -> str:
    """Without what a caption would read as a mark."""
    return text.replace("*", "∗").replace("{", "(").replace("}", ")")


# --- pictures ---------------------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """Where a picture lies in the strip, px, and how much it is enlarged."""

    x: int
    y: int
    w: int
    h: int
    scale: float


def _chosen(rings: pl.DataFrame, images: pl.DataFrame) -> list[tuple[int, str]]:
    """Frame and path of up to three images, in their order."""
    frames = images.select("frame_index", "image").rows()
    n_of = dict(rings.group_by("frame_index").len().rows())
    ends = [round(i * len(frames) / EACH) for i in range(EACH + 1)]
    thirds = [frames[a:b] for a, b in zip(ends, ends[1:], strict=False) if b > a]
    out = []
    for third in thirds:
        middle = (len(third) - 1) / 2
        best = max(range(len(third)), key=lambda i: (n_of.get(third[i][0], 0), -abs(i - middle), -i))
        out.append(third[best])
    return out


def _picture(folder: Path, told: str) -> Picture | None:
    """An image of the folder; ``None`` where it is not there, cannot be read, or lies outside the folder."""
    import cv2

    path = PureWindowsPath(told).as_posix()
    at = folder / path
    if Path(path).is_absolute() or ".." in Path(path).parts or not at.is_file():
        logging.getLogger("birdlab").warning("picture %s of a strip is not there", told)
        return None
    found = cv2.imdecode(np.fromfile(at, np.uint8), cv2.IMREAD_COLOR) if at.stat().st_size else None
    if found is None:
        logging.getLogger("birdlab").warning("picture %s of a strip cannot be read", told)
    return found


def _cut(rings: Sequence[dict[str, Any]], shape: tuple[int, ...]) -> Cut:
    """The window around the rings, wide enough that the legs are seen; the whole picture where there is no ring."""
    boxes = [_corner(r) for r in rings]
    if boxes:
        x = (min(b["x"] for b in boxes) + max(b["x"] + b["w"] for b in boxes)) / 2
        y = (min(b["y"] for b in boxes) + max(b["y"] + b["h"] for b in boxes)) / 2
        side = _LEAST * shape[1] / (1 + _MARGIN)
        boxes.append({"x": x - side / 2, "y": y - _RATIO * side / 2, "w": side, "h": _RATIO * side})
    return window(boxes, shape, margin=_MARGIN, ratio=_RATIO)  # type: ignore[arg-type]


def _part(picture: Picture, cut: Cut) -> Picture:
    return picture[int(cut.y) : int(cut.y) + max(1, int(cut.h)), int(cut.x) : int(cut.x) + max(1, int(cut.w))]


def _side_by_side(pictures: Sequence[Picture | None]) -> tuple[Picture, list[_Place]]:
    """Pictures fitted into places of one size, and where each lies; grey where there is none."""
    import cv2

    each = (WIDTH_PX - (EACH - 1) * _GAP_PX) // EACH
    height = round(each * _RATIO)
    strip, places = np.full((height, WIDTH_PX, 3), 255, np.uint8), []
    for i, picture in enumerate(pictures):
        left = i * (each + _GAP_PX)
        strip[:, left : left + each] = _BLANK
        if picture is None:
            places.append(_Place(left, 0, each, height, 1.0))
            continue
        scale = min(each / picture.shape[1], height / picture.shape[0])
        size = max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale))
        small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
        x, y = left + (each - size[0]) // 2, (height - size[1]) // 2
        strip[y : y + size[1], x : x + size[0]] = small
        places.append(_Place(x, y, size[0], size[1], scale))
    return strip, places


def _rings_of(rings: pl.DataFrame, frame: int) -> list[dict[str, Any]]:
    return rings.filter(pl.col("frame_index") == frame).sort("ring").to_dicts()


def _corner(ring: dict[str, Any]) -> dict[str, float]:
    """A ring's box by its upper left corner."""
    w, h = ring["width"], ring["height"]
    return {"x": ring["x"] - w / 2, "y": ring["y"] - h / 2, "w": w, "h": h}


def _box(ring: dict[str, Any], cut: Cut, place: _Place) -> Box | None:
    """The outline of a ring in the strip, ended at the edge of its picture; ``None`` where nothing is left."""
    w, h = ((0.5 + _OUTSIDE) * ring[side] for side in ("width", "height"))
    left, top = place.x - place.scale * int(cut.x), place.y - place.scale * int(cut.y)
    x0, x1 = (min(max(left + place.scale * (ring["x"] + d), place.x), place.x + place.w) for d in (-w, w))
    y0, y1 = (min(max(top + place.scale * (ring["y"] + d), place.y), place.y + place.h) for d in (-h, h))
    return Box(x0, y0, x1 - x0, y1 - y0, "detection") if x1 > x0 and y1 > y0 else None


def _jpeg(picture: Picture) -> bytes:
    import cv2

    return cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])[1].tobytes()
