"""What arithmetic says of an mIoU and a Dice: whether they can belong together, and which definition they can have.

Of one pair of masks Dice is f(u) = 2u / (1 + u) of its IoU u, and u <= f(u). Means over the same pairs lie between the
curve f and its chord: f is concave, so mean Dice <= f(mIoU) (Jensen), and over values in [t, 1] mean Dice is at least
the chord of f from t to 1 at mIoU. For t = 0 the chord is IoU itself; for hits at an overlap of 0.5 it is
1/3 + 2/3 mIoU, and mIoU is at least 0.5.

With zeros in the mean, of which a share s are hits, mIoU and Dice are s times those of the hits:

- misses as 0: s is the recall;
- misses and false positives as 0: s = TP / (TP + FP + FN) = 1 / (1/P + 1/R - 1) = F1 / (2 - F1);
- per image: nothing printed says more than t = 0, s = 1 (parts of detections below the overlap of a hit count);
- pooled pixels: one ratio of sums, so Dice is f(mIoU).

Western Bluebird, Table 2, read so (hits at 0.5, as its precision and recall):

=============  ========================================  ==========================================================
row            can be                                    cannot be
=============  ========================================  ==========================================================
YOLOv8-Seg     matched pairs, per image                  any with zeros: its Dice .7823 exceeds its recall .7136
Mask R-CNN     matched pairs, per image                  misses as 0: mIoU .8488 of recall .9441 allows Dice .8940
Grounded-SAM   all but matched pairs                     matched pairs: without a hit there is no mean
SAM 3          misses and false positives as 0,          matched pairs: .1793 is below the overlap of a hit
               per image
=============  ========================================  ==========================================================

None but the row of zeros can be pooled pixels. So of these definitions only the mean per image can be that of the whole
table; or its rows were not computed alike; or its pairs are not the hits that its precision and recall count (matched
without an overlap, ``hit_iou=0``, pairs fit the three rows that have any).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from birdlab.detection.mask_overlap import DEFINITIONS

_ROUNDING = 1e-12
_Range = tuple[float, float]


def dice_of(iou: float) -> float:
    """Dice of one pair of masks from its IoU, 2 IoU / (1 + IoU).

    >>> dice_of(0.5) == 2 / 3
    True
    """
    return 2 * iou / (1 + iou)


def check_pair(iou: float | None, dice: float | None, *, digits: int | None = None) -> str | None:
    """A sentence when no masks can have both this IoU and this Dice, single or as means over the same, else ``None``.

    Args:
        iou, dice: in [0, 1]; ``None`` for what is not given, which nothing can be said of.
        digits: decimals printed, for numbers that were rounded; else they are exact.

    IoU <= Dice <= 2 IoU / (1 + IoU) in every definition of :data:`birdlab.detection.mask_overlap.DEFINITIONS`.

    >>> check_pair(0.6459, 0.7823, digits=4) is None
    True
    >>> check_pair(0.6, 0.8)
    'Dice 0.8 is above 0.75, the highest that an IoU of 0.6 allows'
    >>> check_pair(0.6, 0.5)
    'Dice 0.5 is below the IoU of 0.6'
    """
    if iou is None or dice is None:
        return None
    for name, number in (("IoU", iou), ("Dice", dice)):
        if not 0 <= number <= 1:
            return f"{name} {number:g} is outside [0, 1]"
    (_, u), (d, top) = _printed(iou, digits), _printed(dice, digits)
    if top < _printed(iou, digits)[0]:
        return f"Dice {dice:g} is below the IoU of {iou:g}"
    if d > dice_of(u):
        return f"Dice {dice:g} is above {_short(dice_of(iou))}, the highest that an IoU of {iou:g} allows"
    return None


def possible_definitions(
    row: Mapping[str, float | None], *, hit_iou: float = 0.5, digits: int | None = 4
) -> dict[str, str | None]:
    """Which definition a printed mIoU and Dice can have, by name; ``None`` for possible, else why not.

    Args:
        row: ``miou`` and ``dice``, and as far as printed ``precision``, ``recall`` and ``f1`` by mask overlap at the
            same confidence, all in [0, 1].
        hit_iou: overlap from which the pairs that were averaged are hits, in [0, 1]; 0 where they were matched by
            something else than the overlap of masks.
        digits: decimals printed; ``None`` for exact numbers.

    Returns:
        A key per definition of :data:`birdlab.detection.mask_overlap.DEFINITIONS`. "Possible" means that masks exist
        whose rounded numbers are these, up to the counts being whole; it is no proof that they were computed so.

    See the module for the derivation.

    >>> sam3 = {"precision": 0.2282, "recall": 0.7252, "f1": 0.3472, "miou": 0.1793, "dice": 0.1931}
    >>> [name for name, why in possible_definitions(sam3).items() if why is None]
    ['all_truth_and_false', 'per_frame']
    """
    wrong = check_pair(row["miou"], row["dice"], digits=digits)
    if wrong or row["miou"] is None or row["dice"] is None:
        return dict.fromkeys(DEFINITIONS, wrong or "mIoU or Dice is not given")
    printed = {key: None if number is None else _printed(number, digits) for key, number in row.items()}
    u, d, recall = printed["miou"], printed["dice"], printed.get("recall")
    share = {
        "matched_instances": (1.0, 1.0),
        "all_truth": recall or (0.0, 1.0),
        "all_truth_and_false": _jaccard(printed),
    }
    out = {name: _why_not(u, d, s, hit_iou) for name, s in share.items()}
    if row.get("recall") == 0:
        out["matched_instances"] = "without a hit there is no mean over hits"
    low, high = dice_of(u[0]), dice_of(u[1])
    out["per_frame"] = _why_not(u, d, (1.0, 1.0), 0.0)
    off = d[1] < low or d[0] > high
    out["pooled_pixels"] = f"Dice would be {dice_of(row['miou']):.4f}" if off else None
    return {name: out[name] for name in DEFINITIONS}


def common_definitions(rows: Iterable[Mapping[str, float | None]], *, hit_iou: float = 0.5) -> list[str]:
    """The definitions that every row of a printed table can have, in the order of ``DEFINITIONS``."""
    possible = [possible_definitions(row, hit_iou=hit_iou) for row in rows]
    return [name for name in DEFINITIONS if all(found[name] is None for found in possible)]


def _why_not(u: _Range, d: _Range, share: _Range, t: float) -> str | None:
    """Why no hits with IoU in [t, 1], a share of all that is averaged, have these means; ``None`` if some do.

    The hits' mIoU m = u / s must lie in [t, 1]: t s <= u <= s. Both bounds of Dice, s f(u / s) = 2 u s / (s + u) and
    s chord(u / s) = s c0 + c1 u, grow with s and with u, so their extremes lie at corners of what is left of the box
    of rounding; the region is convex, so a point between them exists when the extremes reach past d.
    """
    if u[0] > share[1]:
        return f"mIoU is above the share of {_short(share[1])} that is not 0"
    if u[1] < t * share[0]:
        return f"the hits' mean IoU would be at most {u[1] / share[0]:.4f}, below the {t:g} that makes a hit"
    s = min(share[1], u[1] / t) if t else share[1]
    top = _scaled_dice(min(u[1], s), s)
    s = max(share[0], u[0])
    slope = (1 - dice_of(t)) / (1 - t) if t < 1 else 0.0
    bottom = s * (1 - slope) + slope * max(u[0], t * s)
    if top < d[0]:
        return f"Dice would be at most {top:.4f}"
    if bottom > d[1]:
        return f"Dice would be at least {bottom:.4f}"
    return None


def _scaled_dice(u: float, s: float) -> float:
    return 2 * u * s / (s + u) if u else 0.0


def _jaccard(printed: Mapping[str, _Range | None]) -> _Range:
    """TP / (TP + FP + FN) from precision and recall, narrowed by F1 where they agree; [0, 1] where nothing is given."""
    p, r, f1 = (printed.get(key) for key in ("precision", "recall", "f1"))
    ranges = []
    if p is not None and r is not None:
        low, high = (0.0 if not a or not b else 1 / (1 / a + 1 / b - 1) for a, b in zip(p, r, strict=True))
        ranges.append((low, high))
    if f1 is not None:
        ranges.append((f1[0] / (2 - f1[0]), f1[1] / (2 - f1[1])))
    if not ranges:
        return (0.0, 1.0) if r is None else (0.0, r[1])
    both = max(low for low, _ in ranges), min(high for _, high in ranges)
    return both if both[0] <= both[1] else ranges[0]


def _printed(number: float, digits: int | None) -> _Range:
    """What a printed number may have been, within [0, 1]."""
    half = (0.0 if digits is None else 0.5 * 10.0**-digits) + _ROUNDING
    return max(0.0, number - half), min(1.0, number + half)


def _short(number: float) -> str:
    return f"{math.floor(1e4 * number + 0.5) / 1e4:g}"
