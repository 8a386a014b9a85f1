"""Made tables of the chapter on soundscapes, small and as large as they come, for the figures."""

from __future__ import annotations

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.soundscapes.calibrate import BINS
from birdlab.soundscapes.compare import BOARD
from birdlab.soundscapes.confusers import PAIRS
from birdlab.soundscapes.curves import POINTS
from birdlab.soundscapes.panels import PANELS
from birdlab.soundscapes.study import SCORES

F, N, S = pl.Float64, pl.Int64, pl.String
RUNS = ["dawn-good", "dawn-saturated", "noon-confused", "noon-assisted-with-a-name-that-does-not-end", "a$b_{c}", "<b>&%",
        "seven", "eight", "nine"]  # fmt: skip
MONTHS = {
    "recorder": S,
    "month": S,
    "n_recordings": N,
    "n_silent": N,
    "n_segments": N,
    "hours": F,
    "silent_share": F,
    "reason": S,
}


def species(n: int) -> list[str]:
    """Codes; the second has a name that does not end."""
    return [f"spec{i:03d}" if i != 1 else "Troglodytes-troglodytes-of-the-far-islands" for i in range(n)]


def classes(n_runs: int, n_species: int) -> pl.DataFrame:
    """Species from easy to hard, common to rare; the second run has ties, the last species is never listed."""
    random = np.random.default_rng(3)
    rows = []
    heard = np.maximum(1, (6_000 * np.exp(-7 * random.random(n_species) ** 0.7)).astype(int))
    for i, run in enumerate(RUNS[:n_runs]):
        quality = np.clip(random.beta(0.9, 1.6 + i, n_species) + 0.05 * random.normal(size=n_species), 0, 1)
        for c, name in enumerate(species(n_species)):
            ap = None if c == n_species - 1 and n_species > 1 and i == 0 else round(float(quality[c]), 4)
            gap = 0.5 if i == 1 else 0.0
            row = {"run": run, "class_id": name, "n_rel": int(heard[c]), "n_recordings": int(1 + heard[c] // 40),
                   "n_listed": int(heard[c] * 3), "n_hit": int(heard[c] // 2), "ap": ap,
                   "ap_pessimistic": None if ap is None else ap * (1 - gap), "ap_expected": ap, "ap_step": ap,
                   "lo": ap, "hi": ap, "threshold": 0.5 if c % 3 else None, "precision_at": 0.9 if c % 3 else None,
                   "recall_at": 0.3 + 0.05 * i if c % 3 else None}  # fmt: skip
            rows.append(row)
    return schemas.TABLES["soundscape_classes"].conform(pl.DataFrame(rows, infer_schema_length=None))


def points(found: pl.DataFrame, n: int = 60) -> pl.DataFrame:
    """A falling curve for every run and species with an AP; one point for the rarest."""
    rows = []
    for r in found.drop_nulls("ap").iter_rows(named=True):
        steps = 1 if r["n_rel"] == 1 else n
        for k in range(steps):
            recall = (k + 1) / steps * 0.9
            precision = float(max(0.0, 1 - (1 - r["ap"]) * recall**0.5))
            rows.append((r["run"], r["class_id"], 1 - recall, precision, recall, 10 * (k + 1), 5 * (k + 1)))
    return pl.DataFrame(rows, schema=POINTS, orient="row")


def board(n_runs: int) -> pl.DataFrame:
    """The fourth run is assisted."""
    rows = [("assisted" if i == 3 else "automatic", i + 1, run, "team", i == 3, None, 0.31 - 0.03 * i, True, [])
            for i, run in enumerate(RUNS[:n_runs])]  # fmt: skip
    return pl.DataFrame(rows, schema=BOARD, orient="row")


def scores(n_runs: int) -> pl.DataFrame:
    rows = []
    for i, run in enumerate(RUNS[:n_runs]):
        cmap, rmap, tied = 0.31 - 0.03 * i, 0.62 - 0.06 * i, 0.5 if i == 1 else 1.0
        row = dict.fromkeys(SCORES) | {"run": run, "cmap": cmap, "cmap_lo": cmap - 0.05, "cmap_hi": cmap + 0.06,
                                       "cmap_pessimistic": tied * cmap, "rmap": rmap, "rmap_lo": rmap - 0.04,
                                       "rmap_hi": rmap + 0.05, "rmap_pessimistic": tied * rmap}  # fmt: skip
        rows.append(row)
    return pl.DataFrame(rows, schema=SCORES)


def panels(n_recorders: int, run: str = RUNS[0], *, hours: bool = True) -> pl.DataFrame:
    """Hour 14 has no recording, hour 3 nothing heard; the third recorder ran at dawn alone."""
    rows = []

    def row(panel: str, recorder: str | None, hour: int | None, n: int) -> None:
        silent = hour == 3
        score = (
            None if not n or silent else 0.15 + 0.5 * np.exp(-((((hour or 6) - 5) / 3) ** 2)) + 0.02 * (len(rows) % 3)
        )
        reason = None if score is not None else "no recording" if not n else "nothing is heard"
        rows.append((run, panel, recorder, hour, n, 40 * n, 10 * n, 20 * n, 8, score, score, score, reason))

    names = [f"unit{i}" if i != 1 else "the-recorder-with-a-very-long-name-at-the-creek" for i in range(n_recorders)]
    for i, name in enumerate(names):
        row("recorder", name, None, 12 * (i + 1))
    for h in range(24):
        row("hour", None, h, 0 if h == 14 or not hours else 3 * n_recorders + h)
    for i, name in enumerate(names):
        for h in range(24):
            none = h == 14 or (i == 2 and not 4 <= h <= 7) or not hours
            row("recorder_hour", name, h, 0 if none else (i * 7 + h * 3) % 30 + 1)
    if not hours:
        row("recorder_hour", None, None, 12)
        row("hour", None, None, 12)
    return pl.DataFrame(rows, schema=PANELS, orient="row")


def bins(n_runs: int) -> pl.DataFrame:
    """The first run is nearly right, others promise too much; the last bin of each is empty."""
    rows = []
    for i, run in enumerate(RUNS[:n_runs]):
        for b in range(10):
            n = 0 if b == 9 else 10 ** max(1, 6 - b)
            mean = None if not n else b / 10 + 0.05
            share = None if mean is None else mean ** (1 + 0.8 * i)
            ends = (None, None) if share is None else (max(0.0, share - 0.08), min(1.0, share + 0.08))
            rows.append((run, b / 10, (b + 1) / 10, n, int(n * (share or 0)), mean, share, *ends, None))
    return pl.DataFrame(rows, schema=BINS, orient="row")


def instead(n_species: int, run: str = RUNS[0]) -> pl.DataFrame:
    """Each species is mistaken for the next ones, less and less."""
    names = species(n_species)
    rows = []
    for c, name in enumerate(names):
        for k in (1, 2, 5):
            said = names[(c + k) % n_species]
            if said != name:
                rows.append((run, name, said, 50 - c, 10, max(0, 40 // k - c), 200, max(0, 40 // k - c) / 200))
    return pl.DataFrame(rows, schema=PAIRS, orient="row").unique(["class_id", "said"], maintain_order=True)


def months(n_recorders: int, n_months: int, *, start: int = 3) -> pl.DataFrame:
    """One recorder was off in the second month."""
    rows = []
    for i in range(n_recorders):
        name = f"unit{i}" if i != 1 else "the-recorder-with-a-very-long-name-at-the-creek"
        for k in range(n_months):
            if i == 2 and k == 1:
                continue
            month = start + k
            when = f"{2003 + (month - 1) // 12}-{(month - 1) % 12 + 1:02d}"
            rows.append((name, when, 10, 2, 7_200, 10.0 * (k + 1), 0.2 + 0.6 * ((i + k) % 4) / 4, None))
    return pl.DataFrame(rows, schema=MONTHS, orient="row")
