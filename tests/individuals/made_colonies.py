"""Small colonies made for tests, and a plain matcher of boxes."""

from __future__ import annotations

import random
from types import SimpleNamespace

import polars as pl

from birdlab import schemas


def frame(name: str, rows: list[tuple]) -> pl.DataFrame:
    """Rows in the order of the table's columns."""
    table = schemas.TABLES[name]
    return table.validate(pl.DataFrame(rows, schema=table.dtypes, orient="row"))


class Made:
    """A colony put together piece by piece; boxes are 10 px wide and lie in lanes of 20 px."""

    def __init__(self) -> None:
        self.videos, self.boxes, self.events, self.tracks = [], [], [], []
        self.identities, self.windows, self.combinations = [], [], []
        self.rows: dict = {}

    def video(self, name: str, n_frames: int = 1500, *, fps: float = 25.0, possible: tuple[str, ...] = ()) -> Made:
        self.videos.append((name, n_frames, fps, True, list(possible)))
        return self

    def _row(self, *key: str) -> int:
        self.rows[key] = self.rows.get(key, -1) + 1
        return self.rows[key]

    def visit(self, video: str, visit: str, bird: str | None, frames, lane: int) -> Made:
        for f in frames:
            self.boxes.append((video, self._row("box", video), f, visit, bird, 20 * lane, 0, 20 * lane + 10, 10))
        return self

    def peck(self, video: str, bird: str | None, start: int, end: int, behaviour: str = "peck") -> Made:
        self.events.append((video, self._row("event", video), bird or "unknown", bird, behaviour, start, end))
        return self

    def track(self, tracker: str, video: str, track: str, frames, lane: int) -> Made:
        for f in frames:
            row = self._row("track", tracker, video)
            self.tracks.append((tracker, video, row, f, track, 20 * lane, 0, 20 * lane + 10, 10))
        return self

    def name(self, identity: str, tracker: str, video: str, track: str, bird: str | None) -> Made:
        self.identities.append((identity, tracker, video, track, bird or "unringed", bird))
        return self

    def window(self, model: str, tracker: str, video: str, track: str, start: int, end: int, label="Peck") -> Made:
        self.windows.append((model, tracker, video, track, start, end, label))
        return self

    def combination(self, tracker: str, model: str, identity: str, videos: list[str] | None = None) -> Made:
        videos = [v[0] for v in self.videos] if videos is None else videos
        missing = [v[0] for v in self.videos if v[0] not in videos]
        self.combinations.append((tracker, model, identity, not missing, videos, missing))
        return self

    def done(self) -> SimpleNamespace:
        schema = {
            "tracker": pl.String, "model": pl.String, "identity": pl.String, "complete": pl.Boolean,
            "videos": pl.List(pl.String), "missing_videos": pl.List(pl.String),
        }  # fmt: skip
        return SimpleNamespace(
            videos=frame("colony_videos", self.videos), boxes=frame("colony_boxes", self.boxes),
            events=frame("colony_events", self.events), tracks=frame("colony_tracks", self.tracks),
            identities=frame("colony_identities", self.identities),
            windows=frame("colony_windows", self.windows), human=frame("colony_human", []),
            combinations=pl.DataFrame(self.combinations, schema=schema, orient="row"),
        )  # fmt: skip


def iou(a: tuple, b: tuple) -> float:
    """Plain intersection over union of corners."""
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    inter = max(w, 0) * max(h, 0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter
    return inter / union if union else 0.0


def match(truth: pl.DataFrame, predicted: pl.DataFrame) -> pl.DataFrame:
    """One-to-one within a frame, best overlap first."""
    corners = ["xmin", "ymin", "xmax", "ymax"]
    there: dict = {}
    for video, f, row, *box in predicted.select("video_id", "frame", "row", *corners).iter_rows():
        there.setdefault((video, f), []).append((row, box))
    found = []
    for video, f, row, *box in truth.select("video_id", "frame", "row", *corners).iter_rows():
        found += [(-iou(box, other), video, f, row, r) for r, other in there.get((video, f), [])]
    taken, out = set(), []
    for overlap, video, _, row, other in sorted(x for x in found if x[0] <= -0.5):
        if ("t", video, row) not in taken and ("p", video, other) not in taken:
            taken |= {("t", video, row), ("p", video, other)}
            out.append((video, row, other, -overlap))
    schema = {"video_id": pl.String, "row": pl.Int64, "predicted_row": pl.Int64, "iou": pl.Float64}
    return pl.DataFrame(out, schema=schema, orient="row")


def random_colony(seed: int, *, videos: int = 2, birds: str = "abc", n_frames: int = 60):
    """Everything wrong at once: boxes missed and invented, tracks broken and merged, names and windows at random."""
    rng, made = random.Random(seed), Made()
    for k in range(videos):
        v = f"v{k}"
        made.video(v, n_frames, possible=tuple(birds) + ("z",))
        for n in range(rng.randint(0, 5)):
            bird, start = rng.choice([*birds, None]), rng.randrange(n_frames)
            visit = f"{bird or 'unknown'}_{n}"
            frames = [f for f in range(start, min(start + rng.randint(1, 30), n_frames + 2)) if rng.random() < 0.95]
            made.visit(v, visit, bird, frames, lane=n)
            for f in frames:
                if rng.random() < 0.7:
                    made.track("T", v, str(rng.choice([n, n, n, f // 20, 9])), [f], lane=n)
        for f in range(n_frames):
            if rng.random() < 0.1:
                made.track("T", v, str(rng.choice([0, 7, 8])), [f], lane=9)
        for t in range(10):
            if rng.random() < 0.8:
                made.name("I", "T", v, str(t), rng.choice([*birds, "z", None]))
        for _ in range(rng.randint(0, 8)):
            start = rng.randrange(n_frames)
            made.window(
                "M", "T", v, str(rng.randrange(11)), start, start + rng.randint(0, 20), rng.choice(("Peck", "Other"))
            )
            start = rng.randrange(n_frames)
            made.peck(
                v, rng.choice([*birds, None]), start, start + rng.randint(0, 8), rng.choice(("peck", "peck", "sub"))
            )
    made.windows = list({w[:6]: w for w in made.windows}.values())
    return made.combination("T", "M", "I").done()
