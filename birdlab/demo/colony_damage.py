"""What the planted flaws cost, counted peck by peck from what was planted: the truth that the error budget is held to."""

from __future__ import annotations

from typing import Any

import numpy as np

from birdlab.demo.colony_birds import Video
from birdlab.demo.colony_tracks import NAMERS, TRACKERS, USED, WATCHERS, Followed, Watched, name, watch

STAGES = ("detection", "tracks", "identity", "behaviour")
#: A stage leads clearly where its damage is this many times the next one's.
CLEAR = 1.5
RULE = (
    "pecks counted for no bird, or one too many, by the stage that was planted to lose or to invent them: detection: no "
    "box of the bird while it pecks, or a peck window of a named track that is no bird; tracks: a peck on a track that "
    "another bird owns (2: one bird loses it, the other gains it); identity: a told peck on a track that is named after "
    "another bird (2) or after none (1); behaviour: a peck that no window tells, a peck window of a bird without a peck, "
    "and pecks that share a window"
)


def damage(followed: Followed, names: list[str], watched: Watched) -> dict[str, int]:
    """Damage of each stage in one video; see :data:`RULE`."""
    lost = dict.fromkeys(STAGES, 0)
    told: set[tuple[int, int]] = set()
    for e, event in enumerate(followed.video.events):
        if event.behaviour != "peck":
            continue
        at = followed.at[e]
        if at is None:
            lost["detection"] += 1
            continue
        track, row = at
        if followed.owners[track] != event.bird:
            lost["tracks"] += 2
        if e not in watched.seen or (track, row // 25) in told:
            lost["behaviour"] += 1
            continue
        told.add((track, row // 25))
        if names[track] != followed.owners[track]:
            lost["identity"] += 1 + (names[track] != "unringed")
    for window in watched.invented:
        track = watched.windows[window][0]
        if followed.owners[track] is not None:
            lost["behaviour"] += 1
        elif names[track] != "unringed" and (followed.tracks[track].visits < 0).all():
            lost["detection"] += 1
    return lost


def combinations(followed: dict[str, list[Followed]], videos: list[Video]) -> list[dict[str, Any]]:
    """All combinations with their damage, the stage that leads, and whether it leads clearly.

    Args:
        followed: tracker to its videos.
        videos: all videos; a tracker that lacks one makes incomplete combinations.
    """
    rows = []
    for t, tracker in enumerate(TRACKERS):
        for n, namer in enumerate(NAMERS):
            for w, watcher in enumerate(WATCHERS):
                if namer.name not in USED[tracker.name][0] or watcher.name not in USED[tracker.name][1]:
                    continue
                parts = [damage(f, name(f, t, n), watch(f, t, w)) for f in followed[tracker.name]]
                lost = {stage: sum(p[stage] for p in parts) for stage in STAGES}
                order = sorted(STAGES, key=lambda s, lost=lost: -lost[s])
                had = {f.video.name for f in followed[tracker.name]}
                missing = [v.name for v in videos if v.name not in had]
                about = {"tracker": tracker.name, "model": watcher.name, "identity": namer.name}
                told = {
                    "complete": not missing, "missing_videos": missing, "damage": lost, "leading_stage": order[0],
                    "clear": lost[order[0]] >= CLEAR * max(lost[order[1]], 1),
                }  # fmt: skip
                rows.append({**about, **told})
    return rows


def birds(videos: list[Video]) -> list[dict[str, Any]]:
    """Pecks, frames and visits of every bird in every video where it was."""
    return [
        {
            "video": v.name, "bird": bird, "pecks": v.pecks_of(bird), "frames": int(v.frames_of(bird).sum()),
            "bows": sum(e.bird == bird and e.behaviour == "submissive" for e in v.events),
            "visits": sum(visit.bird == bird for visit in v.visits),
        }
        for v in videos
        for bird in v.birds
    ]  # fmt: skip


def pairs(videos: list[Video]) -> list[dict[str, Any]]:
    """Frames that every two birds of a video were there together."""
    rows = []
    for v in videos:
        here = {bird: v.frames_of(bird) for bird in v.birds}
        for i, a in enumerate(v.birds):
            for b in v.birds[i + 1 :]:
                rows.append({"video": v.name, "birds": [a, b], "frames": int(np.sum(here[a] & here[b]))})
    return rows
