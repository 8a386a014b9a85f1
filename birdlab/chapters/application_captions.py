"""07_application: how to read its tables and figures, in words that fit what they show."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from birdlab.chapters.application import RATE, counted_words
from birdlab.chapters.common import count
from birdlab.individuals.baselines import RULE
from birdlab.individuals.lanes import GAP_S

LIMITS = "Limits (Bland–Altman): bias ± 1.96 SD of the differences; about 95 % of these lie between them."
OPERATORS = "What replacing a stage by the truth means. With all four replaced the error is 0."
BUDGET = "Bars: share of the error due to a stage, with 95 %. Left of 0: the stage hides errors of others."
WITHIN = (
    "Mean, median, SD and bias: of each video, averaged over videos, all of the same weight. Limits: that bias ± 1.96 SD of "
    "the differences within videos. r, CCC: both sides minus the mean of their video."
)


def tasks(summary: pl.DataFrame, videos: pl.DataFrame) -> str:
    """Caption of the first table: how much was followed, and what its heads mean."""
    text = counted_words(summary, videos)
    named = "Named right: of the boxes that a tracker found and a name was given to, those with the right bird."
    protocols = "As documented, and as the authors' script counts (reference)."
    return f"{text[0].upper()}{text[1:]}. {named} {protocols} Small grey: 95 % for new videos."


def errors(summary: pl.DataFrame, measure: str) -> str:
    """Caption of a table of errors."""
    if measure != RATE:
        what = "Share of the video in which both birds are in view; every pair of birds that was seen or predicted together."
        return f"{what} {LIMITS}"
    person = " A person, who coded the same videos again, is the level to reach." if is_coded_again(summary) else ""
    return f"Error: predicted minus true. CCC: agreement, not only correlation. {LIMITS}{person} Small grey: 95 % for new videos."


def is_coded_again(summary: pl.DataFrame) -> bool:
    """Whether a person coded videos a second time, so that a person's error is known."""
    return summary.filter((pl.col("model") == "human") & (pl.col("tracker") == "")).height > 0


def rates(frame: pl.DataFrame) -> str:
    """Caption of predicted against true rates."""
    return f"One point per bird and video; on the line, prediction and truth agree.{_diamonds(frame)}"


def birds(frame: pl.DataFrame) -> str:
    """Caption of the errors by bird."""
    return (
        f"Predicted minus true rate per bird. Marks: mean over videos; faint points: single videos.{_diamonds(frame)}"
    )


def _diamonds(frame: pl.DataFrame) -> str:
    people = frame.filter(pl.col("combination") == "human").drop_nulls(["truth", "predicted"])
    return " Open diamonds: a person." if people.height else ""


def levels(across: pl.DataFrame) -> str:
    """Caption of scores against errors: which levels are drawn, and what is left out."""
    drawn = set(across.drop_nulls("error")["combination"])
    names = {
        "human": "a person",
        "mean_rate": "the mean rate of the other videos",
        "random": "the median of random names",
    }
    told = [text for name, text in names.items() if name in drawn]
    dashed = f"Dashed: {', '.join(told)}. " if told else ""
    band = "Band: 95 % of random names. " if "random" in drawn else ""
    return f"{dashed}{band}Incomplete combinations are left out."


def matrix(order: Sequence[str]) -> str:
    """Which combination is drawn."""
    hatched = "Hatched, undefined: two birds that no video holds both."
    name = order[0] if order else "no combination"
    return f"Mean share over the videos that hold a pair, {name}. Right: predicted minus true. {hatched}"


def lanes(lane: pl.DataFrame, order: Sequence[str]) -> str:
    """Which video and which combination is drawn."""
    video = lane["video_id"][0] if lane.height else "no video"
    read = "Upper lane of a bird: by hand; lower: predicted. Ticks: pecks."
    closed = f"Gaps of up to {GAP_S:g} s are closed in both: single frames that were missed do not show."
    return f"{video}, {order[0] if order else 'no combination'}. {read} {closed}"


def budget(measure: str) -> str:
    """Caption of a table of shares by stage."""
    what = "feeding rates" if measure == RATE else "the share of time together"
    return f"Shares of the mean absolute error of {what}; they sum to it. Small grey: 95 % for new videos."


def random_names(draws: pl.DataFrame, summary: pl.DataFrame, seed: int) -> str:
    """How names were drawn, how often, from which seed, and what is left out."""
    n = int(draws["n_draws"].max() or 0) if draws.height else 0
    told = f"{RULE[0].upper()}{RULE[1:]}. {n:,} draws, seed {seed}. Marks: the combinations."
    rows = summary.filter((pl.col("protocol") == "documented") & (pl.col("tracker") != "") & ~pl.col("complete"))
    return f"{told} {count(rows.height, 'incomplete one is', 'incomplete ones are')} left out." if rows.height else told
