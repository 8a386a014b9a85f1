"""Tracking measures: hand cases, and small implementations of our own on random sequences."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from scipy.optimize import linear_sum_assignment

from birdlab.individuals.tracking import score_tracking, tracking_rows

BOX = {"video_id": "v", "xmin": 0.0, "ymin": 0.0, "xmax": 10.0, "ymax": 10.0}
SCHEMA = {"video_id": pl.String, "frame": pl.Int64, "identity": pl.String} | dict.fromkeys(
    ("xmin", "ymin", "xmax", "ymax"), pl.Float64
)


def frames(ids: str, *, video: str = "v") -> pl.DataFrame:
    return pl.DataFrame(
        [BOX | {"video_id": video, "frame": i, "identity": c} for i, c in enumerate(ids) if c != " "], schema=SCHEMA
    )


def values(found: pl.DataFrame, video: str = "") -> dict[str, float | None]:
    return dict(found.filter(pl.col("video_id") == video).select("measure", "value").iter_rows())


def test_one_switch_in_four_frames_l02() -> None:
    got = values(score_tracking(frames("aaaa"), frames("xxyy"), {"v": 4}))
    assert (got["mota"], got["idf1"], got["id_switches"]) == (0.75, 0.5, 1.0)
    assert got["hota"] == pytest.approx(np.sqrt(0.5), abs=1e-12)


def test_empty_frames_and_empty_predictions_do_not_fail() -> None:
    got = values(score_tracking(frames("aa  "), frames(""), {"v": 4}))
    assert (got["hota"], got["mota"], got["idf1"]) == (0.0, 0.0, 0.0)
    assert got["loca"] is None and got["motp"] is None and got["idp"] is None
    assert values(score_tracking(frames(""), frames("aa"), {"v": 4})) == dict.fromkeys(got)


def test_a_frame_without_a_bird_counts_false_boxes() -> None:
    assert values(score_tracking(frames("aa  "), frames("xxxx"), {"v": 4}))["mota"] == 0.0


def random_sequence(rng: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Boxes far apart, so that a box matches or does not: identities swap, boxes drop out and false ones come in."""
    n, birds = int(rng.integers(2, 12)), int(rng.integers(1, 4))
    truth, predicted = [], []
    for f in range(n):
        order = rng.permutation(birds)
        for k in range(birds):
            at = {"video_id": "v", "frame": f, "xmin": 100.0 * k, "ymin": 0.0, "xmax": 100.0 * k + 10, "ymax": 10.0}
            if rng.random() < 0.85:
                truth.append(at | {"identity": f"b{k}"})
            if rng.random() < 0.8:
                predicted.append(at | {"identity": f"t{order[k] if rng.random() < 0.3 else k}-{f // 5}"})
    frame = [
        pl.DataFrame(r, schema=SCHEMA).unique(["frame", "identity"], keep="first", maintain_order=True)
        for r in (truth, predicted)
    ]
    return frame[0], frame[1], n


def by_hand(truth: pl.DataFrame, predicted: pl.DataFrame) -> dict[str, float]:
    both = truth.join(predicted, on=["frame", "xmin"], suffix="_p")
    pairs = Counter(both.select("identity", "identity_p").iter_rows())
    t, p = sorted(set(truth["identity"])), sorted(set(predicted["identity"]))
    counts = np.array([[pairs[a, b] for b in p] for a in t]).reshape(len(t), len(p))
    i, j = linear_sum_assignment(-counts)
    idtp = counts[i, j].sum()
    of = Counter(truth["identity"]), Counter(predicted["identity"])
    tp, fn, fp = both.height, truth.height - both.height, predicted.height - both.height
    ass = sum(n * n / (of[0][a] + of[1][b] - n) for (a, b), n in pairs.items()) / tp if tp else 0.0
    det = tp / (tp + fn + fp)
    return {"idf1": 2 * idtp / (truth.height + predicted.height), "deta": det, "assa": ass, "hota": np.sqrt(det * ass)}


def test_random_sequences_equal_small_implementations() -> None:
    rng = np.random.default_rng(11)
    done = 0
    for _ in range(60):
        truth, predicted, n = random_sequence(rng)
        if truth.is_empty() or predicted.is_empty():
            continue
        got, want = values(score_tracking(truth, predicted, {"v": n})), by_hand(truth, predicted)
        for name, value in want.items():
            assert got[name] == pytest.approx(value, abs=1e-9), name
        done += 1
    assert done > 40


def test_all_videos_together_and_their_interval() -> None:
    truth = pl.concat([frames("aaaa", video=v) for v in "vwx"])
    predicted = pl.concat([frames("xxyy", video="v"), frames("xxxx", video="w"), frames("xyxy", video="x")])
    found = score_tracking(truth, predicted, dict.fromkeys("vwx", 4), tracker="t")
    assert values(found)["id_switches"] == 1 + 0 + 3
    row = found.filter((pl.col("video_id") == "") & (pl.col("measure") == "hota")).row(0, named=True)
    assert row["lo"] < row["value"] < row["hi"] <= 1
    one = score_tracking(frames("aaaa"), frames("xxyy"), {"v": 4}).filter(pl.col("video_id") == "")
    assert one.filter(measure="hota")["lo"][0] is None and "one video" in one.filter(measure="hota")["reason"][0]
    rows = tracking_rows(found)
    assert {r["group"] for r in rows} == {"tracker", "video"} and all(r["model"] == "t" for r in rows)


def test_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    score_tracking(frames("aa"), frames("aa"), {"v": 2})
    assert capsys.readouterr() == ("", "")
