"""The made colony: six videos of ringed birds at three feeders as tables, with trackers, names, behaviours, a second person.

The layout is that in which CHIRP publishes its application set. Nobody filmed it; what was planted is written to
``individuals/truth.json``, so that the chapters on individuals and behaviour can be held against it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from birdlab.demo import colony_birds as planted
from birdlab.demo.colony_birds import FPS, SEED, Video, make_videos
from birdlab.demo.colony_damage import RULE, birds, combinations, pairs
from birdlab.demo.colony_tracks import NAMERS, TRACKERS, USED, WATCHERS, Followed, follow, name, watch
from birdlab.demo.paint import stream
from birdlab.shards import write_atomic

FOLDER = "individuals"
#: The second person: share of pecks missed, how much later each is coded (frames), and by how many frames that varies.
MISSES, DELAY, WANDERS = 0.05, 10, 1
#: How late an arrival and a leaving are seen at most, frames.
EDGE = 8
#: Part of each video that the second person coded, s.
CODED_S = (60, 90, 75, 80, 65, 90)


class Folder:
    """A folder that files are written into, each whole or not at all."""

    def __init__(self, out: Path, name: str = FOLDER) -> None:
        self.out, self.name, self.names = out / name, name, []

    def clear(self) -> None:
        """Take away what another version wrote: a file left over would be read as a further prediction."""
        for pattern in ("*/made_*", "*/made_*/clip-*"):
            for path in self.out.glob(pattern):
                if path.is_file():
                    path.unlink()

    def save(self, name: str, write: Callable[[Path], Any]) -> None:
        """Write one file by a function of its path."""
        (self.out / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self.out / name, write)
        self.names.append(f"{self.name}/{name}")

    def csv(self, name: str, columns: dict[str, Any], separator: str = ",") -> None:
        """Write a table as text."""
        frame = pl.DataFrame(columns)
        self.save(name, lambda path: frame.write_csv(path, separator=separator, line_terminator="\n"))

    def json(self, name: str, value: Any, indent: int | None = None) -> None:
        """Write plain values as JSON."""
        gaps = None if indent else (",", ":")
        text = json.dumps(value, indent=indent, separators=gaps, ensure_ascii=False) + "\n"
        self.save(name, lambda path: path.write_text(text, encoding="utf-8", newline="\n"))


def write_colony(out: Path) -> list[str]:
    """Write ``individuals/`` of the demo study: truth, predictions, a person's coding, clips, keypoints, what was planted.

    Returns:
        Paths written, relative to ``out``.
    """
    from birdlab.demo.colony_clips import write_actions
    from birdlab.demo.colony_keypoints import write_keypoints

    folder, videos = Folder(out), make_videos()
    folder.clear()
    _write_truth(folder, videos)
    followed = {
        tracker.name: [follow(v, t) for v in videos if v.name not in tracker.without]
        for t, tracker in enumerate(TRACKERS)
    }
    for t, tracker in enumerate(TRACKERS):
        for one in followed[tracker.name]:
            _write_predictions(folder, one, t)
    human = [_write_human(folder, v) for v in videos]
    truth = {
        "made": True,
        "videos": [{"video": v.name, "feeder": v.feeder, "n_frames": v.n_frames, "birds": v.birds} for v in videos],
        "birds": birds(videos),
        "pairs": pairs(videos),
        "planted": _planted(followed),
        "combinations": combinations(followed, videos),
        "damage_rule": RULE,
        "human": {"missed_share": MISSES, "delay_s": DELAY / FPS, "edge_frames": EDGE, "videos": human},
        "actions": write_actions(folder, videos),
        "keypoints": write_keypoints(folder, videos),
    }
    folder.json("truth.json", truth, indent=1)
    return folder.names


def _planted(followed: dict[str, list[Followed]]) -> dict[str, Any]:
    trackers, namers, watchers = {}, {}, {}
    for t, tracker in enumerate(TRACKERS):
        seen = followed[tracker.name]
        trackers[tracker.name] = {
            "tracks": sum(len(f.tracks) for f in seen),
            "boxes_missed": sum(f.n_missed for f in seen),
            "tracks_merged": sum(f.n_merged for f in seen),
            "tracks_false": sum(bool((track.visits < 0).all()) for f in seen for track in f.tracks),
        }
        for n, namer in enumerate(NAMERS):
            if namer.name in USED[tracker.name][0]:
                said = [(o, s) for f in seen for o, s in zip(f.owners, name(f, t, n), strict=True)]
                namers[f"{namer.name} · {tracker.name}"] = {
                    "right": sum(o == s for o, s in said),
                    "wrong": sum(o is not None and o != s != "unringed" for o, s in said),
                    "unringed": sum(o is not None and s == "unringed" for o, s in said),
                    "named_nobody": sum(o is None and s != "unringed" for o, s in said),
                }
        for w, watcher in enumerate(WATCHERS):
            if watcher.name in USED[tracker.name][1]:
                parts = [watch(f, t, w) for f in seen]
                watchers[f"{watcher.name} · {tracker.name}"] = {
                    "windows": sum(len(p.windows) for p in parts),
                    "peck_windows": sum(label == "Peck" for p in parts for *_, label in p.windows),
                    "invented": sum(len(p.invented) for p in parts),
                }
    special = {
        "greedy": planted.GREEDY, "fasting": planted.FASTING, "nobody_names": planted.UNNAMED,
        "nobody_saw": planted.ABSENT, "look_alike": list(planted.LOOK_ALIKE), "together": list(planted.TOGETHER),
    }  # fmt: skip
    return {**special, "trackers": trackers, "identities": namers, "models": watchers}


def _write_truth(folder: Folder, videos: list[Video]) -> None:
    about = {
        "Video": [v.name for v in videos],
        "VideoLength": [v.n_frames for v in videos],
        "PossibleBirds": [str(list(v.possible)) for v in videos],
        "FPS": [FPS] * len(videos),
    }
    folder.csv("MetaData.csv", about)
    for v in videos:
        frames = [np.arange(visit.start, visit.end) for visit in v.visits]
        labels = [visit.label for visit in v.visits]
        folder.csv(f"GroundTruth/{v.name}_BBox.csv", _boxes(frames, labels, [visit.boxes for visit in v.visits]))
        events = {
            "ID": [e.bird for e in v.events],
            "Behaviour": [e.behaviour for e in v.events],
            "StartFrame": [e.start for e in v.events],
            "EndFrame": [e.end for e in v.events],
        }
        folder.csv(f"GroundTruth/{v.name}_PeckEvents.csv", events)


def _boxes(frames: list[np.ndarray], labels: list[str], boxes: list[np.ndarray]) -> dict[str, Any]:
    """Columns of a table of boxes in the order of frames, then of visits or tracks."""
    frame, every = np.concatenate(frames), np.vstack(boxes)
    which = np.repeat(np.arange(len(labels)), [len(f) for f in frames])
    order = np.lexsort((which, frame))
    corners = dict(zip(("Xmin", "Ymin", "Xmax", "Ymax"), every[order].T, strict=True))
    return {"Frame": frame[order], "ID": np.array(labels, dtype=object)[which[order]].tolist(), **corners}


def _write_predictions(folder: Folder, followed: Followed, t: int) -> None:
    video, tracker, tracks = followed.video.name, followed.tracker, followed.tracks
    columns = _boxes([k.frames for k in tracks], [k.id for k in tracks], [k.boxes for k in tracks])
    folder.csv(f"InferenceData/{video}_TrackedBBox_{tracker}.csv", columns)
    for n, namer in enumerate(NAMERS):
        if namer.name in USED[tracker][0]:
            said = dict(zip([k.id for k in tracks], name(followed, t, n), strict=True))
            folder.json(f"InferenceData/{video}_{namer.name}_IDMatch_{tracker}.json", said)
    for w, watcher in enumerate(WATCHERS):
        if watcher.name in USED[tracker][1]:
            windows: dict[str, list] = {track.id: [] for track in tracks}
            for k, start, end, label in watch(followed, t, w).windows:
                windows[tracks[k].id].append([start, end, label])
            folder.json(f"InferenceData/{video}_BehavDict_{watcher.name}_{tracker}.json", windows)


def _write_human(folder: Folder, video: Video) -> dict[str, Any]:
    """What a second person would have coded of the first part of a video, one file per bird."""
    n = CODED_S[video.number] * FPS
    told = {"video": video.name, "n_frames": n, "pecks": {}, "coded": {}}
    time = [f"{k / FPS:.2f}" for k in range(n)]
    for k, bird in enumerate(video.birds):
        rng = stream(SEED, 14, video.number, k)
        present, peck = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        for visit in video.visits:
            if visit.bird == bird:
                late = rng.integers(0, EDGE + 1, 2)
                present[visit.start + int(late[0]) : visit.end + int(late[1])] = 1
        pecks = [e for e in video.events if e.bird == bird and e.behaviour == "peck"]
        missed = rng.random(len(pecks)) < MISSES
        when = [e.start + DELAY + int(rng.integers(-WANDERS, WANDERS + 1)) for e in pecks]
        for at in (w for w, m in zip(when, missed, strict=True) if not m and w < n):
            peck[at] = 1
        told["pecks"][bird] = sum(e.start < n for e in pecks)
        told["coded"][bird] = int(peck.sum())
        folder.csv(
            f"HumanBenchmarkBORIS/{video.name}_{bird}.tsv", {"time": time, "Present": present, "Peck": peck}, "\t"
        )
    return told
