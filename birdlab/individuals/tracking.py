"""How well birds are followed: HOTA, IDF1 and MOTA by TrackEval, per video and over all videos."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab.individuals.jackknife import leave_one_out
from birdlab.individuals.matching import has_area
from birdlab.metrics import metric_row

if TYPE_CHECKING:
    from birdlab.readers.chirp import Colony

#: Name here → (family of TrackEval, its name, whether it is a mean over thresholds).
MEASURES = {
    "hota": ("HOTA", "HOTA"),
    "deta": ("HOTA", "DetA"),
    "assa": ("HOTA", "AssA"),
    "loca": ("HOTA", "LocA"),
    "idf1": ("Identity", "IDF1"),
    "idp": ("Identity", "IDP"),
    "idr": ("Identity", "IDR"),
    "mota": ("CLEAR", "MOTA"),
    "motp": ("CLEAR", "MOTP"),
    "id_switches": ("CLEAR", "IDSW"),
    "fragmentations": ("CLEAR", "Frag"),
    "mostly_tracked": ("CLEAR", "MT"),
    "mostly_lost": ("CLEAR", "ML"),
}
COUNTS = ("id_switches", "fragmentations", "mostly_tracked", "mostly_lost")
SCORES = {
    "tracker": pl.String, "video_id": pl.String, "measure": pl.String, "value": pl.Float64, "lo": pl.Float64,
    "hi": pl.Float64, "n_frames": pl.Int64, "n_boxes": pl.Int64, "n_tracks": pl.Int64, "reason": pl.String,
}  # fmt: skip
ALL = ""
NO_TRUTH, NO_FIND = "no box by hand", "the tracker found nothing there"


def sequence(truth: pl.DataFrame, predicted: pl.DataFrame, n_frames: int) -> dict[str, Any]:
    """One video as TrackEval takes it.

    Args:
        truth: frame, identity, corners of the boxes by hand.
        predicted: frame, identity, corners of the tracker's.
        n_frames: length of the video; frames without any box count too.

    Returns:
        Its dictionary: ids counted from 0, IoU of all boxes of each frame. Boxes without area and outside the video are
        left out; of two boxes of one identity in one frame the first stays, since an identity is in one place.
    """
    out: dict[str, Any] = {"num_timesteps": n_frames}
    frames = []
    for name, boxes in (("gt", truth), ("tracker", predicted)):
        kept = boxes.filter(has_area() & pl.col("frame").is_between(0, n_frames - 1))
        kept = kept.unique(["frame", "identity"], keep="first", maintain_order=True).sort("frame", maintain_order=True)
        ids = {v: i for i, v in enumerate(sorted(kept["identity"].unique().to_list()))}
        code = np.array([ids[v] for v in kept["identity"].to_list()], dtype=int)
        cut = np.searchsorted(kept["frame"].to_numpy(), np.arange(n_frames + 1))
        out[f"num_{name}_ids"], out[f"num_{name}_dets"] = len(ids), kept.height
        out[f"{name}_ids"] = [code[a:b] for a, b in zip(cut[:-1], cut[1:], strict=True)]
        corners = kept.select("xmin", "ymin", "xmax", "ymax").to_numpy().astype(float).reshape(-1, 4)
        frames.append((cut, corners))
    (gt_cut, gt), (p_cut, p) = frames
    out["similarity_scores"] = [
        _iou(gt[gt_cut[t] : gt_cut[t + 1]], p[p_cut[t] : p_cut[t + 1]]) for t in range(n_frames)
    ]
    return out


def _iou(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not len(a) or not len(b):
        return np.zeros((len(a), len(b)))
    lo, hi = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    both = np.clip(hi - lo, 0, None).prod(axis=2)
    area = [(x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1]) for x in (a, b)]
    return both / (area[0][:, None] + area[1][None, :] - both)


def evaluate_sequence(data: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """TrackEval's three families on one video, silently; boxes overlap from IoU 0.5 on in CLEAR and Identity."""
    from trackeval.metrics import CLEAR, HOTA, Identity

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        families = {
            "HOTA": HOTA(),
            "CLEAR": CLEAR({"PRINT_CONFIG": False}),
            "Identity": Identity({"PRINT_CONFIG": False}),
        }
        return {name: family.eval_sequence(dict(data)) for name, family in families.items()}


def combine(results: Mapping[str, dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """TrackEval's numbers of several videos as one."""
    from trackeval.metrics import CLEAR, HOTA, Identity

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        families = {
            "HOTA": HOTA(),
            "CLEAR": CLEAR({"PRINT_CONFIG": False}),
            "Identity": Identity({"PRINT_CONFIG": False}),
        }
        return {k: f.combine_sequences({v: r[k] for v, r in results.items()}) for k, f in families.items()}


def numbers(result: Mapping[str, dict[str, Any]]) -> dict[str, float | None]:
    """The measures of :data:`MEASURES`; HOTA and its parts are means over the 19 overlaps 0.05 to 0.95.

    What TrackEval sets to a constant where nothing was found (LocA, MOTP, IDP) is None.
    """
    out: dict[str, float | None] = {
        name: float(np.mean(result[family][key])) for name, (family, key) in MEASURES.items()
    }
    hit = {"loca": np.sum(result["HOTA"]["HOTA_TP"]), "motp": result["CLEAR"]["CLR_TP"]}
    hit["idp"] = result["Identity"]["IDTP"] + result["Identity"]["IDFP"]
    return out | {name: None for name, n in hit.items() if not n}


def score_tracking(
    truth: pl.DataFrame, predicted: pl.DataFrame, lengths: Mapping[str, int], *, tracker: str = "tracker"
) -> pl.DataFrame:
    """Tracking measures of one tracker, per video and over all.

    Args:
        truth: video_id, frame, identity, corners by hand.
        predicted: the same of the tracker; a video without a row is one in which it found nothing.
        lengths: frames of every video.
        tracker: its name.

    Returns:
        tracker, video_id (empty: all videos together), measure, value, lo, hi (all videos: 95 % for new ones, leaving one
        video out), n_frames, n_boxes (by hand), n_tracks, reason. Null where nothing was labelled by hand.

    Luiten et al. (2021) HOTA; Ristani et al. (2016) IDF1; Bernardin and Stiefelhagen (2008) MOTA; by TrackEval.
    """
    sequences, results, rows = {}, {}, []
    for video, n in lengths.items():
        mine, theirs = (f.filter(pl.col("video_id") == video) for f in (truth, predicted))
        data = sequence(mine, theirs, int(n))
        sequences[video] = data
        if data["num_gt_dets"]:
            results[video] = evaluate_sequence(data)
    for video, data in sequences.items():
        rows += _rows(tracker, video, results.get(video), data)
    total = {k: sum(d[k] for d in sequences.values()) for k in ("num_timesteps", "num_gt_dets", "num_tracker_ids")}
    rows += _rows(tracker, ALL, combine(results) if results else None, total, ends=_ends(results))
    return pl.DataFrame(rows, schema=SCORES, orient="row")


def _ends(results: Mapping[str, dict[str, dict[str, Any]]]) -> dict[str, tuple[float | None, float | None, str | None]]:
    names, out = list(results), {}
    without: dict[tuple[int, ...], dict[str, float | None]] = {}

    def measured(used: np.ndarray, name: str) -> float | None:
        key = tuple(int(i) for i in used)
        if key not in without:
            without[key] = numbers(combine({names[i]: results[names[i]] for i in key}))
        return without[key][name]

    for name in MEASURES:
        if name not in COUNTS:
            out[name] = leave_one_out(lambda used, n=name: measured(used, n), len(names))
    return out


def _rows(
    tracker: str, video: str, result: Mapping[str, Any] | None, data: Mapping[str, Any], *, ends: Mapping | None = None
) -> list[tuple]:
    found = numbers(result) if result else {}
    about = (data["num_timesteps"], data["num_gt_dets"], data["num_tracker_ids"])
    rows = []
    for name in MEASURES:
        lo, hi, reason = (ends or {}).get(name, (None, None, None))
        value = found.get(name)
        if value is None:
            lo, hi, reason = None, None, NO_FIND if result else NO_TRUTH
        bounded = name not in ("mota", *COUNTS)
        lo = max(lo, 0.0) if lo is not None and bounded else lo
        hi = min(hi, 1.0) if hi is not None and name not in COUNTS else hi
        rows.append((tracker, video, name, value, lo, hi, *about, reason))
    return rows


def track_colony(colony: Colony) -> pl.DataFrame:
    """:func:`score_tracking` of every tracker of a colony; the truth is one track per visit. Boxes of nobody known are
    left out, as everywhere."""
    known = colony.boxes.filter(pl.col("individual_id").is_not_null())
    truth = known.select("video_id", "frame", pl.col("visit_id").alias("identity"), "xmin", "ymin", "xmax", "ymax")
    lengths = dict(colony.videos.select("video_id", "n_frames").iter_rows())
    parts = [pl.DataFrame(schema=SCORES)]
    for (tracker,), part in colony.tracks.group_by("tracker", maintain_order=True):
        mine = part.select("video_id", "frame", pl.col("track_id").alias("identity"), "xmin", "ymin", "xmax", "ymax")
        used = {v: n for v, n in lengths.items() if v in set(known["video_id"])}
        parts.append(score_tracking(truth, mine, used, tracker=str(tracker)))
    return pl.concat(parts)


def tracking_rows(scores: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows of ``metrics``: group ``tracker`` over all videos, group ``video`` per video."""
    rows = []
    videos = dict(
        scores.filter(pl.col("video_id") != ALL).group_by("tracker").agg(pl.col("video_id").n_unique()).iter_rows()
    )
    for r in scores.to_dicts():
        about = {"model": r["tracker"], "metric": r["measure"], "n": r["n_boxes"], "method": "TrackEval; truth: visits"}
        about |= {"group": "video", "level": r["video_id"]} if r["video_id"] else {"group": "tracker"}
        if not r["video_id"]:
            about |= {
                "n_clusters": videos.get(r["tracker"]),
                "method": "TrackEval; truth: visits; leaving one video out",
            }
        rows.append(metric_row(**about, value=r["value"], lo=r["lo"], hi=r["hi"], reason=r["reason"]))
    return rows
