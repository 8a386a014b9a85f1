"""What is said beside a figure is about what the figure draws, and what is missing is named with the way to give it."""

from __future__ import annotations

import polars as pl

from birdlab.chapters import application_words as say

FIRST, SECOND = "m · t · x", "n · t · x"


def rates() -> pl.DataFrame:
    rows = [
        (FIRST, "v", ["a"], 5.0, 3.0), (FIRST, "w", ["a"], 5.0, 4.0), (FIRST, "v", ["b"], 2.0, 2.5),
        (SECOND, "v", ["a"], 5.0, 25.0), (SECOND, "v", ["b"], 2.0, None),
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=["combination", "video_id", "subject", "truth", "predicted"], orient="row")


def test_errors_by_bird_are_those_of_the_leading_combination() -> None:
    title = say.birds_title(rates(), [FIRST, SECOND])
    assert title == f"{FIRST}: the rate of a is off by −1.5 pecks/min, that of b by +0.5."
    assert say.birds_title(rates(), [SECOND]) == f"{SECOND}: the rate of a is off by +20.0 pecks/min."
    assert say.birds_title(rates().clear(), [FIRST]) == "Error by bird: nothing to compare."
    alt = say.birds_alt(rates(), [FIRST, SECOND])
    assert f"{FIRST}: lowest a −1.5, highest b +0.5; {SECOND}: lowest a +20.0" in alt
