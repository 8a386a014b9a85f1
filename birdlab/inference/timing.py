"""Frames per second, measured twice: the network alone, and from file to boxes.

Each shard's times are kept in its part, so a resumed run reports them without running anything again. Times are
no part of any key and never change a prediction.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass, field

import polars as pl

from birdlab import schemas

NOTICES = pl.Schema({"model": pl.String, "code": pl.String, "message": pl.String, "n": pl.Int64})
#: Batches run on the first readable frame before the clock starts; their output is thrown away.
WARMUP_BATCHES = 2


@dataclass
class ShardTiming:
    """What one shard took and how it was run.

    ``n_frames`` counts the frames that gave boxes; ``model_s`` is the time of the network alone, ``end_to_end_s`` the
    wall time from asking for the first frame to the last frame's boxes (reading overlaps with the network).
    """

    device: str
    imgsz: int
    precision: str
    batch: int
    n_frames: int = 0
    n_warmup: int = 0
    model_s: float = 0.0
    end_to_end_s: float = 0.0
    n_dropped: int = 0  #: boxes without area or with a value that is no number
    n_empty_masks: int = 0  #: boxes whose mask has no pixel
    remarks: list[str] = field(default_factory=list)

    def dumps(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @staticmethod
    def loads(text: str) -> ShardTiming:
        """Back from :meth:`dumps`."""
        return ShardTiming(**json.loads(text))


def speed_table(model: str, timings: list[ShardTiming]) -> pl.DataFrame:
    """Two rows of the ``speed`` table for one model, higher is faster; no rows where no shard was run.

    Shards that ran on different devices or settings (a run that was resumed elsewhere) are not mixed: the rows rest
    on the setting that did most frames, the first one at a tie. ``fps`` is null when no frame was timed.

    Args:
        model: name of the model.
        timings: one per shard.

    >>> shard = ShardTiming("CPU", 640, "fp32", 1, n_frames=10, n_warmup=2, model_s=2.0, end_to_end_s=4.0)
    >>> speed_table("m", [shard, shard])["fps"].to_list()
    [5.0, 2.5]
    """
    groups: dict[tuple[str, int, str, int], list[ShardTiming]] = defaultdict(list)
    for timing in timings:
        groups[timing.device, timing.imgsz, timing.precision, timing.batch].append(timing)
    if not groups:
        return schemas.empty("speed")
    (device, imgsz, precision, batch), most = max(groups.items(), key=lambda item: sum(t.n_frames for t in item[1]))
    n = sum(t.n_frames for t in most)
    rows = []
    for stage, seconds in (("model", sum(t.model_s for t in most)), ("end_to_end", sum(t.end_to_end_s for t in most))):
        rows.append(
            {
                "model": model,
                "stage": stage,
                "fps": n / seconds if n and seconds > 0 else None,
                "n_frames": n,
                "n_warmup": sum(t.n_warmup for t in most),
                "seconds": seconds,
                "device": device,
                "batch": batch,
                "imgsz": imgsz,
                "precision": precision,
            }
        )
    return schemas.validate("speed", pl.DataFrame(rows, schema_overrides={"fps": pl.Float64}))


def run_notices(
    model: str, timings: list[ShardTiming], failures: pl.DataFrame, *, unit: str = "frames", made: str = "predictions"
) -> pl.DataFrame:
    """What was remarkable about running one model: settings that could not be kept, what failed, devices that changed.

    Args:
        model: name of the model.
        timings: one per shard.
        failures: one row per failed frame, ``stage`` read or predict.
        unit: what is counted.
        made: what a failed frame has none of.

    Returns:
        Columns model, code, message, n.
    """
    rows: list[tuple[str, str, str, int]] = []
    for remark in dict.fromkeys(remark for timing in timings for remark in timing.remarks):
        rows.append((model, "setting", remark, sum(t.n_frames for t in timings if remark in t.remarks)))
    dropped = sum(t.n_dropped for t in timings)
    if dropped:
        rows.append((model, "empty_boxes", "detections without area inside the frame were left out", dropped))
    empty = sum(t.n_empty_masks for t in timings)
    if empty:
        rows.append((model, "empty_masks", "detections whose mask has no pixel keep their box and have no mask", empty))
    for stage, what in (("read", f"{unit} could not be read"), ("predict", f"{unit} made the model fail")):
        n = failures.filter(pl.col("stage") == stage).height
        if n:
            message = f"{what}; they have no {made} and are not counted as empty"
            rows.append((model, f"failed_{stage}", message, n))
    devices = list(dict.fromkeys(t.device for t in timings if t.n_frames))
    if len(devices) > 1:
        message = f"shards ran on {'; '.join(devices)}; the speed is that of the one with most {unit}"
        rows.append((model, "devices", message, len(devices)))
    return pl.DataFrame(rows, schema=NOTICES, orient="row")
