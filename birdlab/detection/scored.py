"""What of a study is scored: the frames of the scored splits, and which of them each model could be asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from birdlab import schemas
from birdlab.detection.matching import match
from birdlab.errors import ParameterError
from birdlab.recipe import Scoring

if TYPE_CHECKING:
    from birdlab.study import Run

HUMAN = "human"


@dataclass(frozen=True)
class Scored:
    """What is scored: the tables, cut to the frames of the scored splits, and the settings.

    Args:
        frames: labelled and empty frames of the scored splits.
        elsewhere: labelled and empty frames of the validation split where that is not scored, for choosing a
            confidence; may be empty.
        labels, predictions, failures, second_labels: tables of the whole study.
        models: names in the recipe's order.
        settings: the recipe's ``scoring``.
        n_unlabelled: frames of the scored splits that were not looked at.
    """

    frames: pl.DataFrame
    elsewhere: pl.DataFrame
    labels: pl.DataFrame
    predictions: pl.DataFrame
    failures: pl.DataFrame
    second_labels: pl.DataFrame
    models: list[str]
    settings: Scoring
    n_unlabelled: int

    @property
    def method(self) -> str:
        """Settings of the counts at the fixed confidence."""
        return f"iou={self.settings.iou:g} conf={self.settings.conf:g} greedy{self.agnostic}"

    @property
    def coco(self) -> str:
        """Settings of AP and AR."""
        return f"coco bbox max_dets={self.settings.max_dets} {self.settings.engine}{self.agnostic}"

    @property
    def agnostic(self) -> str:
        """Said where a detection may find a bird of another class."""
        return " class_agnostic" if self.settings.class_agnostic else ""

    def frames_of(self, model: str, frames: pl.DataFrame | None = None) -> pl.DataFrame:
        """The frames that this model could be asked about: a failure is no empty frame, and no miss."""
        failed = self.failures.filter(pl.col("model") == model)
        return (self.frames if frames is None else frames).join(failed.select("frame_id"), on="frame_id", how="anti")

    def match(self, models: Sequence[str], frames: pl.DataFrame | None = None, *, conf: float = 0.0) -> pl.DataFrame:
        """Matches of these models, each on the frames it could be asked about."""
        parts = []
        for name in models:
            part, on = self.predictions.filter(pl.col("model") == name), self.frames_of(name, frames)
            agnostic = self.settings.class_agnostic
            parts.append(
                match(self.labels, part, on, iou=self.settings.iou, conf=conf, class_agnostic=agnostic, models=[name])
            )
        return pl.concat(parts) if parts else schemas.empty("matches")


def scored(run: Run) -> Scored:
    """The tables of a run, cut to what is scored.

    Raises:
        ParameterError: a model is called ``human``, the name of the second labelling.
    """
    recipe = run.recipe
    names = [m.name for m in recipe.models]
    if HUMAN in names:
        raise ParameterError("a model cannot be called 'human': that is the name of the second labelling")
    splits, frames = list(recipe.scoring.splits), run.table("frames")
    inside = frames.filter(pl.col("split").cast(pl.String).is_in(splits))
    looked = pl.col("label_state") != "unlabelled"
    val = frames.filter((pl.col("split") == "val") & looked) if "val" not in splits else frames.clear()
    predictions = run.table("predictions") if names else schemas.empty("predictions")
    failures = run.table("failures") if names else schemas.empty("failures")
    on = inside.filter(looked)
    second = run.table("second_labels")
    parts = (on, val, run.table("labels"), predictions, failures, second, names, recipe.scoring)
    return Scored(*parts, inside.height - on.height)
