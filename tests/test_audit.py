"""The audit counts what a hand count gives, and finds what was planted."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from birdlab import schemas
from birdlab.detection import audit


def frames_of(*rows: tuple[str, str, str, str, str]) -> pl.DataFrame:
    """frame_id, session, site, split, state."""
    return schemas.validate(
        "frames",
        pl.DataFrame(
            [
                {
                    "frame_id": f,
                    "media_id": f,
                    "video_id": v,
                    "site_id": s or None,
                    "frame_index": 0,
                    "width_px": 200,
                    "height_px": 100,
                    "split": sp,
                    "label_state": st,
                }
                for f, v, s, sp, st in rows
            ]
        ),
    )


def labels_of(*rows: tuple[str, str, float, float, float, float]) -> pl.DataFrame:
    return schemas.validate(
        "labels",
        pl.DataFrame(
            [
                {
                    "label_id": i,
                    "frame_id": f,
                    "category": "bird",
                    "x": x,
                    "y": y,
                    "w": w,
                    "h": h,
                    "is_crowd": False,
                    "is_ignored": False,
                }
                for i, f, x, y, w, h in rows
            ],
            schema_overrides={c: pl.Float64 for c in "xywh"},
        ),
    )


FRAMES = frames_of(
    ("a", "s1", "nest", "train", "labelled"),
    ("b", "s1", "nest", "train", "empty"),
    ("c", "s2", "nest", "test", "labelled"),
    ("d", "s2", "feeder", "test", "unlabelled"),
)
LABELS = labels_of(("1", "a", 0, 0, 20, 10), ("2", "a", 50, 50, 40, 10), ("3", "c", 10, 10, 20, 20))


def test_summary_counts_by_hand():
    out = {r["split"]: r for r in audit.summarise(FRAMES, LABELS).to_dicts()}
    assert (out["train"]["sessions"], out["train"]["frames"], out["train"]["labelled"], out["train"]["empty"]) == (
        1,
        2,
        1,
        1,
    )
    assert (out["train"]["birds"], out["train"]["birds_per_frame"], out["train"]["max_birds"]) == (2, 2.0, 2)
    assert out["train"]["median_box_px"] == 300.0  # of 200 and 400
    assert out["train"]["median_box_frac"] == pytest.approx(0.015)
    assert (out["test"]["sites"], out["test"]["unlabelled"], out["test"]["birds"]) == (2, 1, 1)


def test_summary_of_frames_without_birds_is_null_not_zero():
    out = audit.summarise(frames_of(("a", "s", "", "test", "empty")), schemas.empty("labels")).row(0, named=True)
    assert out["birds"] == 0 and out["birds_per_frame"] is None and out["median_box_frac"] is None and out["sites"] == 0


def test_by_session_uses_the_session_column():
    out = audit.summarise(FRAMES, LABELS, by=["video_id"])
    assert dict(zip(out["video_id"], out["birds"], strict=True)) == {"s1": 2, "s2": 1}


def test_splits_that_differ_are_flagged():
    flagged = audit.compare_splits(audit.summarise(FRAMES, LABELS))
    what = set(flagged["what"])
    assert what == {"birds per labelled frame", "share of empty frames"}  # sizes differ by 0.015 to 0.02 only


def test_leaks_by_session_site_and_file():
    frames = FRAMES.with_columns(
        pl.when(pl.col("frame_id") == "d").then(pl.lit("s1")).otherwise("video_id").alias("video_id")
    )
    media = pl.DataFrame(
        {"media_id": ["a", "b", "c", "d"], "sha256": ["x", "y", "x", None], "recorded_at": [None] * 4},
        schema={"media_id": pl.String, "sha256": pl.String, "recorded_at": pl.Datetime("us", "UTC")},
    )
    out = audit.leaks(frames, media)
    assert set(zip(out["kind"], out["what"], strict=True)) == {("session", "s1"), ("same file", "x"), ("site", "nest")}


def test_near_duplicates_survive_resizing_and_noise_and_strangers_do_not():
    rng = np.random.default_rng(3)
    import cv2

    scene = cv2.GaussianBlur(rng.integers(0, 255, (240, 320, 3), dtype=np.uint8), (0, 0), 9)
    scene = cv2.normalize(scene, None, 0, 255, cv2.NORM_MINMAX)
    other = cv2.normalize(
        cv2.GaussianBlur(rng.integers(0, 255, (240, 320, 3), dtype=np.uint8), (0, 0), 9), None, 0, 255, cv2.NORM_MINMAX
    )
    noisy = np.clip(cv2.resize(scene, (160, 120)).astype(int) + rng.integers(-3, 4, (120, 160, 3)), 0, 255).astype(
        np.uint8
    )
    thumbs = audit.thumbnails([("a", scene), ("c", noisy), ("b", other)])
    media = pl.DataFrame(schema={"media_id": pl.String, "sha256": pl.String, "recorded_at": pl.Datetime("us", "UTC")})
    out = audit.leaks(FRAMES, media, thumbs).filter(pl.col("kind") == "near-duplicate frame")
    assert out["what"].to_list() == ["a ≈ c"] or out["what"].to_list() == ["c ≈ a"]


def test_doubtful_labels_are_named_by_kind():
    labels = labels_of(
        ("1", "a", 10, 10, 0, 5),
        ("2", "a", 300, 10, 5, 5),
        ("3", "a", 190, 10, 20, 5),
        ("4", "c", 10, 10, 20, 20),
        ("5", "c", 10, 10, 20, 20),
        ("6", "c", 100, 50, 100, 50),
        ("7", "c", 100, 50, 100, 49),
    )
    out = audit.doubtful_labels(FRAMES, labels)
    assert sorted(zip(out["kind"], out["label_id"], strict=True)) == [
        ("nearly the same box twice", "6 and 7"),
        ("no area", "1"),
        ("outside the frame", "2"),
        ("reaches over the edge", "3"),
        ("the same box twice", "4 and 5"),
    ]


def test_repeated_files():
    media = pl.DataFrame({"media_id": ["b", "a", "c"], "sha256": ["x", "x", "y"]})
    assert audit.repeated_files(media).row(0) == ("x", "a; b", 2)


def test_a_sample_that_nobody_looked_at_is_not_called_without_birds(tmp_path):
    import cv2

    from birdlab.panels import detection as panels

    cv2.imwrite(str(tmp_path / "x.png"), np.zeros((100, 200, 3), np.uint8))
    frames = frames_of(("a", "s1", "", "test", "empty"), ("b", "s2", "", "test", "unlabelled"))
    rows = [
        {"media_id": i, "video_id": i, "dataset": "d", "kind": "image", "path": str(tmp_path / "x.png")} for i in "ab"
    ]
    media = schemas.validate("media", pl.DataFrame(rows))
    said = [(p.caption, p.alt) for p in panels.session_samples(frames, media, schemas.empty("labels"))]
    assert said == [
        ("s1: no bird", "Frame of session s1 with no bird labelled"),
        ("s2: not looked at", "Frame of session s2, not looked at"),
    ]


def test_the_answer_of_a_study_without_labels_is_that_nothing_can_be_scored():
    from birdlab.chapters import audit as words

    none = (schemas.empty("labels"), pl.DataFrame(schema={"kind": pl.String}), pl.DataFrame())
    frames = frames_of(("a", "s1", "", "test", "unlabelled"), ("b", "s2", "", "test", "unlabelled"))
    assert "not scored" in words.answer(frames, *none, made=False)[1]
    assert "One split" in words.answer(frames_of(("a", "s1", "", "test", "empty")), *none, made=False)[1]
    title = words.sessions_title(audit.summarise(frames, none[0], by=["video_id"]))
    assert title == "2 sessions, none with a labelled bird."
