"""Which birds were filmed in which videos, in the order of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import polars as pl


@dataclass(frozen=True)
class Held:
    """Videos and their birds.

    Args:
        n: video → bird → clips; videos without a clip are not in it.
        day: video → place in time, larger is later; videos of one day share it.
        undated: videos of which neither day nor year is known.
    """

    n: dict[str, dict[str, int]]
    day: dict[str, int]
    undated: int = 0

    @cached_property
    def latest_first(self) -> list[str]:
        """Videos, the latest first; of one day, the last name first."""
        return sorted(self.n, key=lambda video: (self.day[video], video), reverse=True)

    @cached_property
    def videos_of(self) -> dict[str, list[str]]:
        """Bird → its videos, the latest first."""
        out: dict[str, list[str]] = {}
        for video in self.latest_first:
            for bird in self.n[video]:
                out.setdefault(bird, []).append(video)
        return dict(sorted(out.items()))

    @property
    def birds(self) -> list[str]:
        """Names, sorted."""
        return list(self.videos_of)

    def only(self, n: Mapping[str, Mapping[str, int]]) -> Held:
        """These clips alone, in the same order of time."""
        return Held({video: dict(birds) for video, birds in n.items() if birds}, self.day)

    def groups(self) -> list[list[str]]:
        """Birds linked by common videos; each group in the order of a walk from its first name along its videos."""
        seen: set[str] = set()
        out = []
        for start in self.birds:
            if start in seen:
                continue
            seen.add(start)
            walk, queue = [], deque([start])
            while queue:
                bird = queue.popleft()
                walk.append(bird)
                beside = sorted({b for video in self.videos_of[bird] for b in self.n[video]} - seen)
                seen |= set(beside)
                queue.extend(beside)
            out.append(walk)
        return out


def hold(clips: pl.DataFrame) -> Held:
    """Videos of the table ``reid_clips``.

    Args:
        clips: video_id, individual_id and, where known, date and year: without a day a video stands at the first one of
            its year, without a year before all others, in the order of names.

    >>> held = hold(pl.DataFrame({"video_id": ["v1", "v2", "v2"], "individual_id": ["a", "a", "b"], "year": [2020, 2021, 2021]}))
    >>> held.latest_first, held.n["v2"]
    (['v2', 'v1'], {'a': 1, 'b': 1})
    """
    for name, dtype in (("date", pl.Date), ("year", pl.Int32)):
        if name not in clips.columns:
            clips = clips.with_columns(pl.lit(None, dtype=dtype).alias(name))
    day = pl.coalesce(pl.col("date"), pl.date(pl.col("year"), 1, 1)).alias("day")
    videos = clips.select("video_id", day).group_by("video_id").agg(pl.col("day").min()).sort("video_id")
    dated = videos.drop_nulls("day").with_columns(pl.col("day").rank("dense").cast(pl.Int64).alias("place"))
    undated = videos.filter(pl.col("day").is_null())
    place = dict(dated.select("video_id", "place").rows())
    place |= {video: i - undated.height for i, video in enumerate(undated["video_id"])}
    n: dict[str, dict[str, int]] = {}
    counted = clips.group_by("video_id", "individual_id").len().sort("video_id", "individual_id")
    for video, bird, count in counted.iter_rows():
        n.setdefault(video, {})[bird] = count
    return Held(n, place, undated.height)
