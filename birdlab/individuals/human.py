"""A second person: what somebody coded independently, against the truth of the same minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.individuals.counting import in_view
from birdlab.individuals.documented import pair_row, rate_row
from birdlab.individuals.matching import documented_view
from birdlab.individuals.reference import split_bird
from birdlab.individuals.states import is_peck

if TYPE_CHECKING:
    from birdlab.readers.chirp import Colony

#: What the authors' script takes a coding to be: five minutes, whatever was coded.
REFERENCE_FRAMES, REFERENCE_MINUTES = 7500, 5
NO_FRAMES = "a person codes who is present, not boxes"


def human_numbers(colony: Colony, *, protocol: str = "documented") -> pl.DataFrame:
    """Table ``application`` (model ``human``) of the second person's coding.

    ``documented``: a bird's rate is the runs of peck rows over the length of what was coded for it; the truth is pecks
    that begin within that length. Pairs of coded birds over the shorter coding. ``reference``: the script's rule.
    """
    if colony.human.is_empty():
        return schemas.empty("application")
    rows = list(_documented(documented_view(colony)) if protocol == "documented" else _reference(colony))
    about = {"protocol": protocol, "tracker": "", "model": "human", "identity": ""}
    return pl.DataFrame([about | row for row in rows], schema=schemas.TABLES["application"].dtypes)


def _documented(colony: Colony) -> Any:
    for video in colony.videos.to_dicts():
        name = video["video_id"]
        coded = colony.human.filter(pl.col("video_id") == name)
        boxes = colony.boxes.filter(pl.col("video_id") == name)
        pecks = colony.events.filter(is_peck("behaviour") & (pl.col("video_id") == name))
        by = {key[0]: part.sort("frame") for key, part in coded.partition_by("individual_id", as_dict=True).items()}
        for bird in sorted(by):
            length = by[bird].height
            minutes = length / float(video["fps"]) / 60
            true = pecks.filter((pl.col("individual_id") == bird) & (pl.col("start") < length)).height
            yield rate_row({"video_id": name}, bird, true / minutes, len(runs(by[bird]["peck"].to_numpy())) / minutes)
        for i, a in enumerate(sorted(by)):
            for b in sorted(by)[i + 1 :]:
                length = min(by[a].height, by[b].height)
                both = by[a]["present"][:length] & by[b]["present"][:length]
                seen = [
                    set(boxes.filter((pl.col("individual_id") == x) & (pl.col("frame") < length))["frame"])
                    for x in (a, b)
                ]
                yield pair_row({"video_id": name}, (a, b), len(seen[0] & seen[1]) / length, int(both.sum()) / length)


def runs(coded: np.ndarray) -> np.ndarray:
    """First rows of runs of coded pecks.

    >>> runs(np.array([True, True, False, True])).tolist()
    [0, 3]
    """
    return np.flatnonzero(coded & ~np.concatenate([[False], coded[:-1]])) if len(coded) else np.zeros(0, dtype=np.int64)


def _reference(colony: Colony) -> Any:
    for video in colony.videos["video_id"].to_list():
        coded = colony.human.filter(pl.col("video_id") == video)
        if coded.is_empty():
            continue
        boxes = colony.boxes.filter((pl.col("video_id") == video) & (pl.col("frame") < REFERENCE_FRAMES))
        boxes = boxes.with_columns(split_bird("visit_id").alias("bird")).filter(pl.col("bird") != "unknown")
        events = colony.events.filter(
            (pl.col("video_id") == video) & (pl.col("end") < REFERENCE_FRAMES) & (pl.col("behaviour") == "peck")
        )
        birds = boxes["bird"].unique(maintain_order=True).to_list()
        for bird in birds:
            mine = coded.filter(pl.col("individual_id") == bird)
            if mine.is_empty():
                continue
            true = events.filter(pl.col("label") == bird).height
            yield rate_row(
                {"video_id": video}, bird, true / REFERENCE_MINUTES, int(mine["peck"].sum()) / REFERENCE_MINUTES
            )
        code = {bird: k for k, bird in enumerate(birds)}
        seen, said = (
            _view(frame, code) for frame in (boxes, coded.filter("present").rename({"individual_id": "bird"}))
        )
        for i, a in enumerate(birds):
            for j in range(i + 1, len(birds)):
                pair = tuple(sorted((a, birds[j])))
                yield pair_row({"video_id": video}, pair, seen[i, j] / REFERENCE_FRAMES, said[i, j] / REFERENCE_FRAMES)


def _view(boxes: pl.DataFrame, code: dict[str, int]) -> np.ndarray:
    used = boxes.filter(pl.col("bird").is_in(list(code)))
    if used.is_empty():
        return np.zeros((len(code), len(code)), dtype=np.int64)
    bird = used["bird"].replace_strict(code, return_dtype=pl.Int64).to_numpy()
    return in_view(bird, used["frame"].to_numpy().astype(np.int64), len(code))
