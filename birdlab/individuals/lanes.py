"""When each bird was in view, by hand and as predicted, as stretches of a timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from birdlab.individuals.states import is_peck

if TYPE_CHECKING:
    from birdlab.readers.chirp import Colony

#: Stretches closer than this are one, s: a tracker's lost frame is no departure.
GAP_S = 0.4
LANES = {
    "combination": pl.String, "video_id": pl.String, "bird": pl.String, "source": pl.String, "kind": pl.String,
    "start_s": pl.Float64, "end_s": pl.Float64,
}  # fmt: skip


def presence_lanes(view: Colony) -> pl.DataFrame:
    """Stretches in view and pecks of every bird.

    Returns:
        combination (empty: by hand), video_id, bird, source (truth, predicted), kind (present; other: predicted while the
        bird is not in view by hand; peck), start_s, end_s. Stretches less than 0.4 s apart are one.
    """
    rows: list[tuple] = []
    rates = dict(view.videos.select("video_id", "fps").iter_rows())
    true: dict[tuple[str, str], np.ndarray] = {}
    for (video, bird), part in view.boxes.drop_nulls("individual_id").group_by(
        "video_id", "individual_id", maintain_order=True
    ):
        frames = np.unique(part["frame"].to_numpy())
        true[video, bird] = frames
        rows += [("", video, bird, "truth", "present", *s) for s in stretches(frames, rates[video])]
    pecks = view.events.filter(is_peck("behaviour")).drop_nulls("individual_id")
    for video, bird, start, end in pecks.select("video_id", "individual_id", "start", "end").iter_rows():
        rows.append(("", video, bird, "truth", "peck", start / rates[video], (end + 1) / rates[video]))
    for c in view.combinations.to_dicts():
        name = f"{c['identity']} · {c['tracker']} · {c['model']}"
        birds = view.identities.filter(tracker=c["tracker"], identity=c["identity"]).drop_nulls("individual_id")
        birds = birds.select("video_id", "track_id", "individual_id")
        seen = view.tracks.filter(tracker=c["tracker"]).join(birds, on=["video_id", "track_id"])
        for (video, bird), part in seen.group_by("video_id", "individual_id", maintain_order=True):
            frames = np.unique(part["frame"].to_numpy())
            right = np.isin(frames, true.get((video, bird), np.zeros(0, dtype=int)))
            for kind, used in (("present", frames[right]), ("other", frames[~right])):
                rows += [(name, video, bird, "predicted", kind, *s) for s in stretches(used, rates[video])]
        said = view.windows.filter(is_peck("label"), tracker=c["tracker"], model=c["model"]).join(
            birds, on=["video_id", "track_id"]
        )
        for video, bird, start, end in said.select("video_id", "individual_id", "start", "end").iter_rows():
            rows.append((name, video, bird, "predicted", "peck", start / rates[video], end / rates[video]))
    return pl.DataFrame(rows, schema=LANES, orient="row")


def stretches(frames: np.ndarray, fps: float) -> list[tuple[float, float]]:
    """Start and end of runs of frames, s; gaps of up to 0.4 s are closed.

    >>> stretches(np.array([0, 1, 2, 50]), 25.0)
    [(0.0, 0.12), (2.0, 2.04)]
    """
    if not len(frames):
        return []
    cut = np.flatnonzero(np.diff(frames) > max(1, round(GAP_S * fps)))
    first, last = np.concatenate([[0], cut + 1]), np.concatenate([cut, [len(frames) - 1]])
    return [(float(frames[a] / fps), float((frames[b] + 1) / fps)) for a, b in zip(first, last, strict=True)]
