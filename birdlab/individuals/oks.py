"""Object keypoint similarity, and its average precision by pycocotools with declared sigmas."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from birdlab.individuals.jackknife import leave_one_out
from birdlab.stats import NEW, Interval

if TYPE_CHECKING:
    from birdlab.readers.coco_keypoints import Instance, Poses

MEASURES = ("ap", "ap50", "ap75", "ap_medium", "ap_large", "ar", "ar50", "ar75", "ar_medium", "ar_large")
UNDEFINED = "no bird of that size with a keypoint by hand"
NO_BIRD = "no bird with a keypoint by hand"
NO_VIDEO = "pictures without a video: no interval"
#: Where points that were not placed are put: like nothing at all.
FAR = -1e6


def sigma_list(names: Sequence[str], sigmas: float | Mapping[str, float]) -> list[float]:
    """One sigma per keypoint, in order.

    Raises:
        ParameterError: sigmas for other keypoints, or none for some; both named.
    """
    from birdlab.errors import ParameterError, Problem

    if not isinstance(sigmas, Mapping):
        return [float(sigmas)] * len(names)
    missing, strange = [n for n in names if n not in sigmas], [n for n in sigmas if n not in names]
    if missing or strange:
        found = "; ".join(
            text
            for text in (missing and f"none for {', '.join(missing)}", strange and f"unknown {', '.join(strange)}")
            if text
        )
        raise ParameterError(Problem("sigmas", found, f"one for each of {', '.join(names)}", key="sigmas"))
    return [float(sigmas[n]) for n in names]


def oks(truth: np.ndarray, found: np.ndarray, area: float, sigmas: Sequence[float]) -> float | None:
    """Mean over visible keypoints of exp(-d² / (2 area (2σ)²)), in [0, 1]; None without a visible keypoint.

    Args:
        truth, found: (k, 3) x, y, v in px; only the truth's v counts. A point that was not placed (NaN) adds 0.
        area: of the bird, px².
        sigmas: fall-off per keypoint.

    COCO keypoint evaluation; pycocotools, ``computeOks``.

    >>> point = np.array([[10.0, 10.0, 2.0]])
    >>> oks(point, point, 100.0, [0.05])
    1.0
    """
    seen = truth[:, 2] > 0
    if not seen.any():
        return None
    squared = ((truth[seen, :2] - found[seen, :2]) ** 2).sum(axis=1)
    width = (2 * np.asarray(sigmas, dtype=float)[seen]) ** 2
    similar = np.exp(-squared / width / (area + np.spacing(1)) / 2)
    return float(np.where(np.isfinite(squared), similar, 0.0).mean())


def oks_average_precision(truth: Poses, found: Poses, sigmas: Sequence[float]) -> dict[str, float | None]:
    """AP and AR over OKS thresholds 0.50 to 0.95, by pycocotools, silently.

    Args:
        truth, found: birds by hand and of one model.
        sigmas: fall-off per keypoint; COCO's own 17 are never taken.

    Returns:
        :data:`MEASURES`; null where no bird of that size has a visible keypoint. Birds below 32² px have no size of
        their own and count in the overall ones alone. A bird without a visible keypoint, and a crowd, is ignored. Of
        every picture the 20 predicted birds with the highest scores count. Coordinates count whatever their v is, as
        pycocotools does it; a point that was not placed at all (NaN) is worth nothing.
    """
    return _summary(_matched(truth, found, sigmas), None)


def oks_intervals(truth: Poses, found: Poses, sigmas: Sequence[float]) -> dict[str, Interval]:
    """95 % intervals for new videos of :func:`oks_average_precision`, one video left out at a time, cut at 0 and 1.

    Returns:
        One per measure; no ends and the reason where there are fewer than two videos, a picture names none, a measure is
        undefined without one of the videos, or all of them give the same.
    """
    home_of = [picture["video"] for picture in truth.images.values()]
    if None in home_of or not home_of:
        return dict.fromkeys(MEASURES, Interval(None, None, NEW, 0, NO_VIDEO if home_of else NO_BIRD))
    videos = sorted(set(home_of))
    home = np.array([videos.index(v) for v in home_of])
    run = _matched(truth, found, sigmas)
    parts = [_summary(run, home != i) for i in range(len(videos))] + [_summary(run, None)]

    def value(measure: str, used: np.ndarray) -> float | None:
        out = set(range(len(videos))) - set(used.tolist())
        return parts[out.pop() if out else len(videos)][measure]

    ends: dict[str, Interval] = {}
    for measure in MEASURES:
        lo, hi, reason = leave_one_out(lambda used, m=measure: value(m, used), len(videos))
        cut = [None if x is None else min(max(x, 0.0), 1.0) for x in (lo, hi)]
        ends[measure] = Interval(cut[0], cut[1], NEW, len(videos), reason)
    return ends


def oks_numbers(truth: Poses, found: Poses, sigmas: Sequence[float]) -> list[dict[str, Any]]:
    """measure, value, lo, hi, n_clusters, reason of every measure: why it is null, or why it has no interval."""
    ends, rows = oks_intervals(truth, found, sigmas), []
    for measure, value in oks_average_precision(truth, found, sigmas).items():
        at = ends[measure]
        undefined = UNDEFINED if measure.endswith(("medium", "large")) else NO_BIRD
        here = (
            {"lo": at.lo, "hi": at.hi, "reason": at.reason}
            if value is not None
            else {"lo": None, "hi": None, "reason": undefined}
        )
        rows.append({"measure": measure, "value": value, **here, "n_clusters": at.n_clusters})
    return rows


def _matched(truth: Poses, found: Poses, sigmas: Sequence[float]) -> Any:
    """pycocotools' evaluation after its matching, not yet summed over pictures."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    number = {image: i + 1 for i, image in enumerate(truth.images)}
    gt = {
        "info": {},
        "images": [{"id": i} for i in number.values()],
        "categories": [{"id": 1, "name": "bird", "keypoints": list(truth.names)}],
        "annotations": [
            {
                "id": k + 1, "image_id": number[b.image_id], "category_id": 1, "bbox": list(b.box), "area": b.area,
                "iscrowd": int(b.is_crowd), "keypoints": b.points.ravel().tolist(), "num_keypoints": int((b.points[:, 2] > 0).sum()),
            }
            for k, b in enumerate(truth.instances)
        ],
    }  # fmt: skip
    guesses = gt | {"annotations": [_guess(k, number[b.image_id], b) for k, b in enumerate(found.instances)]}
    with contextlib.redirect_stdout(io.StringIO()):
        known, guessed = COCO(), COCO()
        known.dataset, guessed.dataset = gt, guesses
        known.createIndex()
        guessed.createIndex()
        run = COCOeval(known, guessed, "keypoints")
        run.params.kpt_oks_sigmas = np.asarray(sigmas, dtype=float)
        run.evaluate()
    return run


def _summary(run: Any, kept: np.ndarray | None) -> dict[str, float | None]:
    """Measures over all pictures, or over those that are kept, (n,) bool in their order."""
    params = copy.deepcopy(run.params)
    if kept is not None:
        # accumulate() finds a picture by its place: one left out keeps its place under a number that no picture has.
        params.imgIds = [i if k else -1 for i, k in zip(params.imgIds, kept, strict=True)]
    with contextlib.redirect_stdout(io.StringIO()):
        run.accumulate(params)
        run.summarize()
    return {k: None if v < 0 else float(v) for k, v in zip(MEASURES, run.stats, strict=True)}


def _guess(k: int, image: int, bird: Instance) -> dict[str, Any]:
    """One predicted bird as pycocotools' ``loadRes`` makes it: its area is that of the box around its points."""
    xy = bird.points[:, :2]
    there = np.isfinite(xy).all(axis=1)
    lo, hi = (xy[there].min(axis=0), xy[there].max(axis=0)) if there.any() else (np.zeros(2), np.zeros(2))
    points = np.column_stack([np.where(there[:, None], xy, FAR), bird.points[:, 2]])
    return {
        "id": k + 1, "image_id": image, "category_id": 1, "score": bird.score, "keypoints": points.ravel().tolist(),
        "area": float((hi - lo).prod()), "bbox": [*lo.tolist(), *(hi - lo).tolist()], "iscrowd": 0,
    }  # fmt: skip
