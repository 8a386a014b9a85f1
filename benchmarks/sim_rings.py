"""How often do rings name the right bird? Both matchers on made clips whose truth is known. Prints Markdown.

    python benchmarks/sim_rings.py                       # 8 seeds, 2,400 clips of 25 frames (about four minutes)
    python benchmarks/sim_rings.py --seeds 2 --videos 50
    python benchmarks/sim_rings.py --simulated           # vectors instead of drawn pictures (seconds)
    python benchmarks/sim_rings.py --speed               # 16,000 clips x 183 birds, time and memory

A roster of 183 birds, each with a metal ring and two or three coloured ones. Each video shows two birds at once, one
clip of 25 frames each, under light, blur, cover, perspective and white balance drawn per clip. The colour forest learns
from rings of other clips (2,400 rings). A tenth of the visible rings is missed, 2 % of frames have a false ring. A list holds the two
birds of its video and others at random. Lists, rings and colour probabilities are the same for both matchers; the published
one gets a distance of pairs that fits the pictures (``--pair-px``), and its conflict loop applies to every pair of clips.

Intervals are 95 %, clustered by bird. Leaves with exit code 1 when assigning jointly is worse than each clip alone on the
mean over list sizes (matcher birdlab), or when its fitted calibration error is above 0.1 with 15 birds.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np
import polars as pl

from birdlab.individuals.rings import study_made as made_study
from birdlab.individuals.rings.calibrate import calibration, cross_fitted
from birdlab.individuals.rings.codes import Palette, parse_code
from birdlab.individuals.rings.decide import Posterior, calls, codes_of, match_birdlab, posterior
from birdlab.individuals.rings.forest import train_forest
from birdlab.individuals.rings.joint import assign_jointly
from birdlab.individuals.rings.likelihood import Evidence, log_likelihoods
from birdlab.individuals.rings.published import match_published
from birdlab.stats import mean_difference, new_sessions, one_thread

SIZES = (2, 3, 5, 10, 15, 50, 183)
BIRDS, FIRST_SEED, TRAINING_CLIPS, RINGS_PER_CLIP, TREES = 183, 100, 300, 8, 200
COVERAGES = (0.25, 0.5, 0.75, 0.9, 1.0)
LETTERS = "ABCGLMOPRSWY"
PALETTE = Palette.of({letter: letter for letter in LETTERS})


def make(args: argparse.Namespace) -> tuple[made_study.Made, list[float] | None]:
    """Clips of all seeds, and the share of each colour among what the forest learned from."""
    roster = made_study.made_roster(np.random.default_rng(FIRST_SEED - 1), BIRDS, PALETTE)
    if args.simulated:
        rows, prior = made_study.simulated_rings(PALETTE, noise=0.8, shared=0.8), None
    else:
        forest = _forest()
        rows, prior = made_study.drawn_rings(forest.predict), [n / sum(forest.counts) for n in forest.counts]
    parts = [
        made_study.made_clips(np.random.default_rng(seed), roster, args.videos, rows, seed=seed)
        for seed in range(FIRST_SEED, FIRST_SEED + args.seeds)
    ]
    return made_study.joined(parts), prior


def _forest():
    rng = np.random.default_rng(FIRST_SEED - 2)
    features, letters = [], []
    for i, code in enumerate(made_study.made_roster(rng, TRAINING_CLIPS, PALETTE)["code"]):
        found, places = made_study.drawn_features(
            np.random.default_rng([FIRST_SEED - 2, i]), code, missed=0.0, false=0.0
        )
        kept = rng.permutation(len(places))[:RINGS_PER_CLIP]
        features.append(found[kept])
        letters += [places[k][5] for k in kept]
    return train_forest(np.concatenate(features), letters, palette=PALETTE, trees=TREES)


def expected_right(found: Posterior, clips: pl.DataFrame) -> pl.DataFrame:
    """clip_id, right: 1 where the true bird leads, its share of the first place where several tie."""
    at = ["gallery", "clip_id"]
    birds = found.birds
    if "is_assigned" in birds.columns:
        some = pl.col("is_assigned").any().over(at)
        top = pl.when(some).then(pl.col("log_posterior").filter("is_assigned").max().over(at))
        birds = birds.with_columns(top=top.otherwise(pl.col("log_posterior").max().over(at)))
    else:
        birds = birds.with_columns(top=pl.col("log_posterior").max().over(at))
    first = birds.filter((pl.col("log_posterior") - pl.col("top")).abs() <= 1e-9)
    first = first.with_columns(share=1 / pl.len().over(at))
    true = clips.join(first, on=["clip_id", "individual_id"], how="left")
    return true.select("clip_id", right=pl.col("share").fill_null(0.0))


def scored(made: made_study.Made, evidence: Evidence, size: int, args: argparse.Namespace) -> dict[str, pl.DataFrame]:
    """Per matcher and assignment: clip_id, best, individual_id (named), score, margin, right."""
    lists = made_study.made_lists(np.random.default_rng(size), made, size)
    alone = posterior(evidence, lists)
    out = {}
    for name, found in (("argmax", alone), ("joint", assign_jointly(alone, made.together))):
        rows = calls(found, made.clips, assignment=name)
        out[f"birdlab {name}"] = rows.join(expected_right(found, made.clips), on="clip_id")
    published = published_calls(made, lists, args.pair_px)
    truth = made.clips.select("clip_id", truth="individual_id")
    for name in ("argmax", "joint"):
        rows = published.filter(pl.col("assignment") == name).join(truth, on="clip_id")
        right = (pl.col("individual_id") == pl.col("truth")).fill_null(False).cast(pl.Float64)
        out[f"published {name}"] = rows.with_columns(right=right).drop("truth")
    legs = shared_legs(made.roster)
    truth = made.clips.select("clip_id", "seed", "video_id", bird="individual_id")
    guess = lists.join(truth, on="clip_id").join(legs, on=["individual_id", "bird"]).group_by("clip_id")
    truth = truth.join(guess.agg(chance_pairs=pl.col("pairs").mean()), on="clip_id")
    return {key: _with_pairs(rows.join(truth, on="clip_id"), legs) for key, rows in out.items()}


def published_calls(made: made_study.Made, lists: pl.DataFrame, pair_px: float) -> pl.DataFrame:
    """The published matcher's calls; its conflict loop applies to every pair of clips."""
    frames = made.clips.select("clip_id", frame_index=pl.int_ranges(0, made_study.FRAMES, dtype=pl.Int32)).explode(
        "frame_index"
    )
    together = made.together.with_columns(n_common=made_study.FRAMES)
    about = {"gallery": "all", "pair_px": pair_px, "together": together, "common_frames": 0}
    return match_published(made.rings, frames, lists, PALETTE, **about)


def shared_legs(roster: pl.DataFrame) -> pl.DataFrame:
    """individual_id, bird, pairs: share of the first one's two legs whose letters (in any order) the other has too."""
    legs = {b: [sorted(leg) for leg in parse_code(c, PALETTE, individual=b).layouts[0]] for b, c in roster.iter_rows()}
    rows = []
    for one, mine in legs.items():
        for other, theirs in legs.items():
            straight = sum(a == b for a, b in zip(mine, theirs, strict=True))
            crossed = sum(a == b for a, b in zip(mine, theirs[::-1], strict=True))
            rows.append((one, other, max(straight, crossed) / 2))
    return pl.DataFrame(rows, schema={"individual_id": pl.String, "bird": pl.String, "pairs": pl.Float64}, orient="row")


def _with_pairs(rows: pl.DataFrame, legs: pl.DataFrame) -> pl.DataFrame:
    """Adds ``pairs`` of the bird that is named, or leads; 0 where none does."""
    rows = rows.with_columns(answer=pl.coalesce("individual_id", "best"))
    rows = rows.join(legs.rename({"individual_id": "answer"}), on=["answer", "bird"], how="left", maintain_order="left")
    return rows.with_columns(pl.col("pairs").fill_null(0.0))


def share(rows: pl.DataFrame, column: str) -> str:
    """Mean with its interval over birds."""
    sums = rows.group_by("bird").agg(pl.col(column).sum().alias("k"), pl.len().alias("n"))
    found = new_sessions(sums["k"], sums["n"], unit="bird")
    ends = "" if found.lo is None else f" ({found.lo:.3f}–{found.hi:.3f})"
    return f"{rows[column].mean():.3f}{ends}"


def print_colours(made: made_study.Made) -> None:
    """Top-1 and top-3 of the colours, and what is mistaken for what."""
    rings = made.rings.drop_nulls("truth").join(made.clips.select("clip_id", bird="individual_id"), on="clip_id")
    p = rings["probabilities"].explode().to_numpy().reshape(-1, len(LETTERS))
    true = np.array([LETTERS.index(t) for t in rings["truth"]])
    rank = (p > p[np.arange(len(p)), true][:, None]).sum(axis=1)
    rings = rings.with_columns(top1=pl.Series((rank == 0).astype(float)), top3=pl.Series((rank < 3).astype(float)))
    n = made.rings.height - rings.height
    print(
        f"\n{rings.height:,} rings with a colour, {n:,} false ones; clips without a ring: {made.clips.height - made.rings['clip_id'].n_unique()}.\n"
    )
    print("| colours | value | chance |\n|---|---|---|")
    print(
        f"| top-1 | {share(rings, 'top1')} | {1 / len(LETTERS):.3f} |\n| top-3 | {share(rings, 'top3')} | {3 / len(LETTERS):.3f} |"
    )
    said = pl.Series([LETTERS[i] for i in p.argmax(axis=1)])
    wrong = rings.select("truth", said=said).filter(pl.col("truth") != pl.col("said")).group_by("truth", "said").len()
    totals = dict(rings.group_by("truth").len().iter_rows())
    worst = sorted(((k / totals[t], t, s) for t, s, k in wrong.iter_rows()), reverse=True)[:6]
    print("\nMost often mistaken: " + ", ".join(f"{t} for {s} {100 * v:.0f} %" for v, t, s in worst) + ".")


def print_accuracy(results: dict[int, dict[str, pl.DataFrame]]) -> float:
    """Bird and pair accuracy by list size, and joint minus argmax; returns its mean for birdlab."""
    names = list(next(iter(results.values())))
    for column, title in (("right", "bird accuracy"), ("pairs", "pair accuracy (legs of the leading bird)")):
        print(f"\n| {title}: list of | chance | {' | '.join(names)} |")
        print("|---" * (len(names) + 2) + "|")
        for size, found in results.items():
            chance = 1 / size if column == "right" else found[names[0]]["chance_pairs"].mean()
            print(f"| {size} | {chance:.3f} | {' | '.join(share(found[name], column) for name in names)} |")
    print("\n| seeds, lowest to highest bird accuracy | " + " | ".join(names) + " |\n|---" + "|---" * len(names) + "|")
    for size, found in results.items():
        spans = [found[n].group_by("seed").agg(pl.col("right").mean())["right"] for n in names]
        print(f"| {size} | " + " | ".join(f"{s.min():.3f}–{s.max():.3f}" for s in spans) + " |")
    print("\n| joint minus each alone: list of | birdlab | published |\n|---|---|---|")
    means: dict[str, list[float]] = {"birdlab": [], "published": []}
    for size, found in results.items():
        cells = []
        for matcher, values in means.items():
            both = found[f"{matcher} joint"].join(
                found[f"{matcher} argmax"].select("clip_id", alone="right"), on="clip_id"
            )
            sums = both.group_by("video_id").agg(d=(pl.col("right") - pl.col("alone")).sum(), n=pl.len())
            values.append(float(sums["d"].sum() / sums["n"].sum()))
            interval = mean_difference(sums["d"], sums["n"], unit="video")
            ends = "" if interval.lo is None else f" ({interval.lo:+.4f} to {interval.hi:+.4f})"
            cells.append(f"{values[-1]:+.4f}{ends}")
        print(f"| {size} | {' | '.join(cells)} |")
    print(f"| mean | {np.mean(means['birdlab']):+.4f} | {np.mean(means['published']):+.4f} |")
    worse = [str(s) for s, v in zip(results, means["birdlab"], strict=True) if v < 0]
    print(f"\nList sizes at which joint is below argmax (birdlab): {', '.join(worse) or 'none'}.")
    return float(np.mean(means["birdlab"]))


def print_names(
    results: dict[int, dict[str, pl.DataFrame]], made: made_study.Made, evidence: Evidence, pair_px: float
) -> None:
    """What is named, what of it is wrong, and what happens to birds that are not on the list."""
    print(
        "\n| birdlab joint, list of | named | right among named | wrong names, of all clips | ties |\n|---|---|---|---|---|"
    )
    for size, found in results.items():
        rows = found["birdlab joint"]
        named = rows.filter(pl.col("individual_id").is_not_null())
        wrong = ((named["individual_id"] != named["bird"]).sum()) / rows.height
        right = named.with_columns(ok=(pl.col("individual_id") == pl.col("bird")).cast(pl.Float64))
        tied = (rows["n_tied"] > 0).mean()
        print(f"| {size} | {len(named) / rows.height:.3f} | {share(right, 'ok')} | {wrong:.3f} | {tied:.3f} |")
    print("\n| true bird not on the list of | named all the same (birdlab) | published |\n|---|---|---|")
    for size in (3, 10, 50):
        lists = made_study.made_lists(np.random.default_rng(size), made, size, with_truth=False)
        cells = []
        for rows in (calls(posterior(evidence, lists), made.clips), published_calls(made, lists, pair_px)):
            rows = rows.filter(pl.col("assignment") == "argmax").with_columns(
                named=pl.col("individual_id").is_not_null().cast(pl.Float64)
            )
            cells.append(share(rows.join(made.clips.select("clip_id", bird="individual_id"), on="clip_id"), "named"))
        print(f"| {size} | {' | '.join(cells)} |")


def print_calibration(results: dict[int, dict[str, pl.DataFrame]], made: made_study.Made, evidence: Evidence) -> float:
    """Calibration error with the default and the fitted dependence; accuracy against coverage; returns the fitted error."""
    print("\n| calibration error, list of | default | fitted on other videos | dependence |\n|---|---|---|---|")
    truth, at_15, bins = made.clips.select("clip_id", "video_id", "individual_id"), 1.0, None
    for size in (5, 15, 50, 183):
        lists = made_study.made_lists(np.random.default_rng(size), made, size)
        crossed, fits = cross_fitted(evidence, lists, truth)
        cells = []
        for rows in (results[size]["birdlab argmax"], calls(crossed, made.clips)):
            rows = rows.join(truth.select("clip_id", truth="individual_id"), on="clip_id")
            found = calibration(rows.with_columns(is_right=pl.col("best") == pl.col("truth")), cluster="truth")
            ends = "" if found.lo is None else f" ({found.lo:.3f}–{found.hi:.3f})"
            cells.append(f"{found.ece:.3f}{ends}")
            if size == 15:
                at_15, bins = float(found.ece), found.bins
        span = f"{fits['dependence'].min():.2f}–{fits['dependence'].max():.2f}"
        print(f"| {size} | {' | '.join(cells)} | {span} |")
    print("\n| posterior (15 birds, fitted) | clips | mean | right |\n|---|---|---|---|")
    for lo, hi, n, mean, right, below, above in bins.iter_rows():
        ends = "" if below is None else f" ({below:.2f}–{above:.2f})"
        print(f"| {lo:.1f}–{hi:.1f} | {n} | {mean:.2f} | {right:.2f}{ends} |")
    print(
        "\n| accuracy at coverage | "
        + " | ".join(f"{c:.0%}" for c in COVERAGES)
        + " |\n|---"
        + "|---" * len(COVERAGES)
        + "|"
    )
    for size in (15, 183):
        for name in ("birdlab joint", "published argmax"):
            rows = results[size][name].sort("score", descending=True, nulls_last=True, maintain_order=True)
            cut = [rows.head(max(1, round(c * rows.height)))["right"].mean() for c in COVERAGES]
            print(f"| {name}, {size} birds | " + " | ".join(f"{v:.3f}" for v in cut) + " |")
    return at_15


def speed() -> int:
    """Time and memory of 16,000 clips of 25 frames against 183 birds."""
    rng = np.random.default_rng(1)
    roster = made_study.made_roster(rng, BIRDS, PALETTE)
    few = made_study.made_clips(rng, roster, 400, made_study.simulated_rings(PALETTE))
    parts = [few.rings.with_columns(pl.format("{}/{}", pl.lit(i), "clip_id").alias("clip_id")) for i in range(20)]
    rings = pl.concat(parts)
    clips = pl.concat(
        [few.clips.with_columns(pl.format("{}/{}", pl.lit(i), "clip_id").alias("clip_id")) for i in range(20)]
    )
    lists = clips.select("clip_id").join(roster, how="cross").with_columns(gallery=pl.lit("all"))
    start = time.process_time()
    found, _ = match_birdlab(rings, clips, lists, palette=PALETTE)
    used = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{clips.height:,} clips, {rings.height:,} rings, {BIRDS} birds: {used:.1f} CPU s, peak {peak:,.0f} MB, {found.height:,} calls"
    )
    return 0 if used <= 60 and peak <= 2048 else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--videos", type=int, default=150, help="videos per seed, two clips each")
    parser.add_argument("--pair-px", type=float, default=16.0, help="of the published matcher")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--speed", action="store_true")
    args = parser.parse_args()
    if args.speed:
        return speed()
    start = time.process_time()
    with one_thread():
        made, prior = make(args)
        print(f"{made.clips.height:,} clips of {args.seeds} seeds, made in {time.process_time() - start:.0f} CPU s.")
        lists = made_study.made_lists(np.random.default_rng(0), made, BIRDS)
        evidence = log_likelihoods(made.rings, codes_of(lists, PALETTE), palette=PALETTE, prior=prior)
        print_colours(made)
        results = {size: scored(made, evidence, size, args) for size in SIZES}
        gain = print_accuracy(results)
        print_names(results, made, evidence, args.pair_px)
        error = print_calibration(results, made, evidence)
    return 0 if gain >= 0 and error <= 0.1 else 1


if __name__ == "__main__":
    sys.exit(main())
