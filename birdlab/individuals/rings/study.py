"""The rings of a study: found or given, coloured, read as codes, held against the lists, and how often that is right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab import schemas
from birdlab.individuals.reid.inputs import image_folder, place, section_of
from birdlab.individuals.rings.calibrate import calibration, cross_fitted
from birdlab.individuals.rings.called import CALLED, call_outcomes, called, called_rows
from birdlab.individuals.rings.codes import Palette
from birdlab.individuals.rings.decide import Posterior, calls, codes_of
from birdlab.individuals.rings.found import hold_against
from birdlab.individuals.rings.instances import forest_of, in_clips, ring_colours
from birdlab.individuals.rings.joint import assign_jointly
from birdlab.individuals.rings.likelihood import Settings, log_likelihoods
from birdlab.individuals.rings.lists import ring_candidates, together_of
from birdlab.individuals.rings.published import colour_sums, match_published, published_scores
from birdlab.individuals.rings.reads import colour_confusion, colour_scores, ring_reads
from birdlab.individuals.rings.roster import read_roster, unnamed_birds
from birdlab.metrics import metric_frame, metric_row
from birdlab.progress import progress
from birdlab.readers.files import NOTICE_SCHEMA, Notice, notice_table
from birdlab.readers.ring_masks import INSTANCES, read_coloured_masks, read_ring_masks
from birdlab.shards import Shard, clear_leftovers, digest, map_shards, split_evenly
from birdlab.stats import one_thread

if TYPE_CHECKING:
    from birdlab.recipe import Rings
    from birdlab.study import Run

SCORES = {
    "matcher": pl.String, "gallery": pl.String, "clip_id": pl.String, "individual_id": pl.String, "score": pl.Float64,
    "log_odds": pl.Float64,
}  # fmt: skip
SEGMENTS = {
    "n_images": pl.Int64, "n_given": pl.Int64, "n_found": pl.Int64, "n_hit": pl.Int64,
    **{f"{name}{end}": pl.Float64 for name in ("recall", "precision") for end in ("", "_lo", "_hi")}, "reason": pl.String,
}  # fmt: skip
BINS = {
    "assignment": pl.String, "gallery": pl.String, "ece": pl.Float64, "ece_lo": pl.Float64, "ece_hi": pl.Float64,
    "lo": pl.Float64, "hi": pl.Float64, "n": pl.Int64, "mean_score": pl.Float64, "right": pl.Float64,
    "right_lo": pl.Float64, "right_hi": pl.Float64, "reason": pl.String,
}  # fmt: skip
#: The published loop for conflicts acts on tracks with more than 30 common frames, which clips of a second never have;
#: here it acts on every common frame.
COMMON_FRAMES = 0
#: Images of one resumable piece of work.
SHARD_IMAGES = 2000


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of the tables ``ring_*`` and of ``metrics_rings``; all empty where the recipe has no rings.

    Raises:
        DataError: masks, pictures, codes or weights that cannot be used.
    """
    section = section_of(run)
    if section.rings is None:
        return _empty()
    rings, palette, folder = section.rings, Palette.of(section.rings.colours), image_folder(run, section)
    roster, told = read_roster(place(run, rings.roster), palette)
    clips = asked_clips(run)
    notices = [told, unnamed_birds(clips, roster)]
    images = run.table("reid_images").join(clips.select("clip_id"), on="clip_id", how="semi", maintain_order="left")
    found, segments, more = _instances(run, rings, palette, images, clips, folder)
    notices += more
    taught, more_notices = read_coloured_masks(place(run, rings.training), palette)
    training_folder = place(run, rings.training_images) if rings.training_images else place(run, rings.training).parent
    forest, told = forest_of(taught, training_folder, palette, trees=rings.trees, seed=rings.seed)
    colours, unread = ring_colours(found, forest, folder)
    if colours.is_empty():
        notices.append(
            notice_table([Notice("no_rings", "clips asked for: in none of them a ring was found", clips.height)])
        )
    candidates, undated = ring_candidates(clips, run.table("reid_candidates"), roster)
    notices += [more_notices, told, unread, undated]
    with one_thread():
        settings = Settings(min_posterior=rings.min_posterior)
        evidence = log_likelihoods(
            colours,
            codes_of(candidates, palette),
            palette=palette,
            settings=settings,
            unseen=forest.unseen,
            prior=forest.prior.tolist(),
        )
        truth = clips.select("clip_id", "video_id", "individual_id")
        alone, temperatures = cross_fitted(evidence, candidates, truth, settings=settings)
        together = together_of(clips)
        n_frames = clips.select("clip_id", pl.col("n_images").alias("n_frames"))
        made = [calls(alone, n_frames, settings=settings)]
        made.append(calls(assign_jointly(alone, together), n_frames, assignment="joint", settings=settings))
        scores = [_posterior_scores(alone)]
        frames = images.select("clip_id", "frame_index")
        sums = colour_sums(colours, frames, pair_px=rings.pair_px)
        for gallery in candidates["gallery"].unique(maintain_order=True).to_list():
            here = candidates.filter(pl.col("gallery") == gallery).drop_nulls("individual_id").drop("gallery")
            coded = here.drop_nulls("code")
            mine = frames.join(here.select("clip_id").unique(), on="clip_id", how="semi", maintain_order="left")
            args = {"gallery": gallery, "pair_px": rings.pair_px, "together": together, "common_frames": COMMON_FRAMES}
            made.append(match_published(colours, mine, coded, palette, **args))
            scores.append(_published(published_scores(sums, coded, palette), gallery))
    table = pl.concat(made, how="diagonal_relaxed")
    outcomes = call_outcomes(table, clips, candidates)
    summary = called(outcomes)
    return {
        "ring_roster": roster,
        "ring_colours": colours,
        "ring_reads": pl.concat(
            ring_reads(colours, palette, matcher=m, frames=frames, pair_px=rings.pair_px) for m in ("birdlab", "published")
        ),
        "ring_calls": table,
        "ring_called": summary,
        "ring_scores": pl.concat(scores),
        "ring_segments": pl.DataFrame([segments] if segments else [], schema=SEGMENTS),
        "ring_colour_scores": colour_scores(_with_video(colours, clips), palette, unit="video_id"),
        "ring_confusion": colour_confusion(colours, palette),
        "ring_calibration": _calibration(outcomes),
        "ring_temperatures": temperatures,
        "ring_together": together,
        "ring_notices": pl.concat([n.select(list(NOTICE_SCHEMA)) for n in notices]),
        "metrics_rings": metric_frame(
            row | {"dataset": run.recipe.name} for row in [*called_rows(summary), *_more_rows(outcomes, segments, colours, palette, clips)]
        ),
    }  # fmt: skip


def asked_clips(run: Run) -> pl.DataFrame:
    """Clips that any protocol asks for (as a query, or to choose a threshold): rows of ``reid_clips``."""
    roles = run.table("reid_roles").filter(pl.col("role").cast(pl.String).is_in(["query", "validation"]))
    return run.table("reid_clips").join(
        roles.select("clip_id").unique(), on="clip_id", how="semi", maintain_order="left"
    )


def _instances(
    run: Run, rings: Rings, palette: Palette, images: pl.DataFrame, clips: pl.DataFrame, folder: Path
) -> tuple[pl.DataFrame, dict[str, Any] | None, list[pl.DataFrame]]:
    """Rings in the frames of the clips, the segmenter's scores where it can be scored, notices."""
    notices, given, pictures = [], None, None
    if rings.instances:
        given, pictures, told = read_ring_masks(place(run, rings.instances), palette)
        notices.append(told)
    if rings.segmenter is None:
        found, told = in_clips(given, run.table("reid_images"), source=rings.instances)
        asked = found.join(images.select("clip_id").unique(), on="clip_id", how="semi", maintain_order="left")
        return asked, None, [*notices, told]
    found, told = in_clips(_segmented(run, rings, images, folder, notices), images)
    notices.append(told)
    if given is None:
        return found, None, notices
    paths, told = in_clips(given, run.table("reid_images"), source=rings.instances)
    paths = paths.join(images.select("clip_id").unique(), on="clip_id", how="semi", maintain_order="left")
    named = images.join(clips.select("clip_id", "video_id"), on="clip_id", maintain_order="left")
    looked_at = named.filter(pl.col("image").is_in(pictures["image"].implode())).select("image", "video_id")
    found, scores = hold_against(found, paths, looked_at)
    return found, scores, [*notices, told]


def _segmented(run: Run, rings: Rings, images: pl.DataFrame, folder: Path, notices: list[pl.DataFrame]) -> pl.DataFrame:
    """Rings that the segmenter finds, in resumable pieces."""
    from birdlab.inference.classifier_items import images_of
    from birdlab.inference.ring_segments import segment_rings, segmenter_key

    items = images.select("image").unique(maintain_order=True).with_columns(item_id="image")
    # By content: finished pieces are used again wherever the folder lies.
    pictures = [[one.item_id, one.sha256] for one in images_of(items, folder, folder)]
    weights = rings.segmenter or ""
    if not weights.startswith("birdlab:"):
        weights = str(place(run, weights).absolute())
    about = rings.model_dump(mode="json", include={"segmenter_library", "imgsz", "conf"})
    key = digest([about, segmenter_key(weights, folder, library=rings.segmenter_library), run.recipe.device])
    out = run.dir / "shards" / f"rings-{re.sub(r'[^A-Za-z0-9_-]+', '_', Path(weights).stem)}-{key[:12]}"
    schema = pl.Schema({**INSTANCES, "notice": pl.String, "n": pl.Int64})
    clear_leftovers(out, schema)

    def work(piece: list[list[str]]) -> pl.DataFrame:
        found, told = segment_rings(
            [name for name, _ in piece], folder, weights, library=rings.segmenter_library, imgsz=rings.imgsz, conf=rings.conf,
            device=run.recipe.device, cache=run.dir / "cache",
        )  # fmt: skip
        remarks = told.select(
            pl.format("{}\n{}", "code", "message").alias("notice"), "n", image=pl.lit(""), ring=pl.lit(0, pl.Int32),
            outline=pl.lit([], pl.List(pl.Float64)), score=pl.lit(0.0), truth=pl.lit(None, pl.String),
        )  # fmt: skip
        rows = found.with_columns(notice=pl.lit(None, pl.String), n=pl.lit(None, pl.Int64))
        return pl.concat([rows.select(list(schema)), remarks.select(list(schema))]).cast(schema)

    shards = [Shard(f"{i:05d}", piece) for i, piece in enumerate(split_evenly(pictures, SHARD_IMAGES))]
    with progress("rings are looked for", state=run.dir / "progress.json") as step:
        parts = [pl.read_parquet(path) for path in map_shards(work, shards, out, progress=step)]
    rows = pl.concat([pl.DataFrame(schema=schema), *parts])
    said = rows.filter(pl.col("notice").is_not_null()).group_by("notice", maintain_order=True).agg(pl.col("n").sum())
    notices.append(notice_table(Notice(*text.split("\n", 1), n) for text, n in said.rows()))
    return rows.filter(pl.col("notice").is_null()).select(list(INSTANCES))


def _posterior_scores(found: Posterior) -> pl.DataFrame:
    """Posterior of each candidate, and how much likelier it is than a bird that is not on the list (log odds)."""
    rows = found.birds.join(
        found.clips.select("gallery", "clip_id", "log_unknown", "has_rings"), on=["gallery", "clip_id"]
    )
    rows = rows.filter("has_rings").with_columns(
        matcher=pl.lit("birdlab"),
        score=pl.col("log_posterior").exp(),
        log_odds=pl.col("log_posterior") - pl.col("log_unknown"),
    )
    return rows.select(list(SCORES)).cast(SCORES)


def _published(scores: pl.DataFrame, gallery: str) -> pl.DataFrame:
    about = {"matcher": pl.lit("published"), "gallery": pl.lit(gallery), "log_odds": pl.lit(None, pl.Float64)}
    return scores.with_columns(**about).select(list(SCORES)).cast(SCORES)


def _with_video(colours: pl.DataFrame, clips: pl.DataFrame) -> pl.DataFrame:
    return colours.join(clips.select("clip_id", "video_id"), on="clip_id", how="left", maintain_order="left")


def _calibration(outcomes: pl.DataFrame) -> pl.DataFrame:
    """Bins of the posterior of birdlab's matcher in every list, argmax and joint."""
    rows = []
    mine = outcomes.filter(pl.col("matcher") == "birdlab")
    for (assignment, gallery), part in mine.group_by("assignment", "gallery", maintain_order=True):
        found = _calibrated(part)
        about = {"assignment": assignment, "gallery": gallery, "ece": found.ece, "ece_lo": found.lo, "ece_hi": found.hi}
        rows += [about | bin_ | {"reason": found.reason} for bin_ in found.bins.to_dicts()]
    return pl.DataFrame([{k: row.get(k) for k in BINS} for row in rows], schema=BINS)


def _calibrated(part: pl.DataFrame) -> Any:
    sure = pl.when(pl.col("best").is_not_null()).then("score").alias("score")
    return calibration(
        part.select(sure, pl.col("best_right").alias("is_right"), "video_id"), cluster="video_id", unit="video"
    )


def _more_rows(
    outcomes: pl.DataFrame,
    segments: dict[str, Any] | None,
    colours: pl.DataFrame,
    palette: Palette,
    clips: pl.DataFrame,
) -> list[dict[str, Any]]:
    """Rows of ``metrics``: colour of single rings, calibration, the segmenter."""
    about = {"model": "rings (birdlab)", "group": "rings"}
    rows = []
    for r in colour_scores(_with_video(colours, clips), palette, unit="video_id").to_dicts():
        here = about | {
            "level": r["colour"],
            "n": r["n"],
            "n_clusters": r["n_clusters"],
            "method": "forest; new videos",
        }
        ends = {"lo": r["lo"], "hi": r["hi"]}
        rows.append(
            metric_row(**here, **ends, metric="colour_top1", value=r["top1"], chance=r["chance1"], reason=r["reason"])
        )
        ends = {"lo": r["top3_lo"], "hi": r["top3_hi"]}
        rows.append(
            metric_row(**here, **ends, metric="colour_top3", value=r["top3"], chance=r["chance3"], reason=r["reason"])
        )
    for (assignment, gallery), part in outcomes.filter(pl.col("matcher") == "birdlab").group_by(
        "assignment", "gallery", maintain_order=True
    ):
        found = _calibrated(part)
        here = about | {"level": gallery, "n": found.n, "method": f"{assignment}; ten bins, new videos"}
        rows.append(
            metric_row(**here, metric="rings_ece", value=found.ece, lo=found.lo, hi=found.hi, reason=found.reason)
        )
    for name in ("recall", "precision") if segments else ():
        here = about | {
            "level": "all",
            "n": segments["n_given" if name == "recall" else "n_found"],
            "method": "IoU ≥ 0.5; new videos",
        }
        ends = {"lo": segments[f"{name}_lo"], "hi": segments[f"{name}_hi"], "reason": segments["reason"]}
        rows.append(metric_row(**here, **ends, metric=f"ring_{name}", value=segments[name]))
    return rows


def _empty() -> dict[str, pl.DataFrame]:
    own = ("ring_roster", "ring_colours", "ring_reads", "ring_calls")
    others: dict[str, dict[str, Any]] = {
        "ring_called": CALLED, "ring_scores": SCORES, "ring_segments": SEGMENTS, "ring_calibration": BINS,
        "ring_notices": NOTICE_SCHEMA, "ring_colour_scores": {"colour": pl.String}, "ring_confusion": {"truth": pl.String},
        "ring_temperatures": {"fold": pl.Int64}, "ring_together": {"clip_id": pl.String, "other_id": pl.String},
    }  # fmt: skip
    made = {name: schemas.empty(name) for name in own} | {k: pl.DataFrame(schema=v) for k, v in others.items()}
    return made | {"metrics_rings": schemas.empty("metrics")}
