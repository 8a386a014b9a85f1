"""The abstention numbers of a whole study: every model on the same photographs, each number one row of ``metrics``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab.abstention import prompts, reasons
from birdlab.abstention import rows as as_rows
from birdlab.abstention.across import Across, across_models
from birdlab.abstention.conventions import Conventions
from birdlab.abstention.curves import thin
from birdlab.abstention.differences import compare
from birdlab.abstention.evaluate import SINGLE_POINT, Draws, Evaluated, conventions_for, evaluate
from birdlab.abstention.published import published
from birdlab.abstention.resampling import Clusters, cluster_codes, resamples
from birdlab.abstention.sweep import SWEEP_SCHEMA, conventions_sweep
from birdlab.metrics import metric_frame, metric_row
from birdlab.stats import one_thread

if TYPE_CHECKING:
    from birdlab.recipe import Abstention
    from birdlab.study import Run

#: Measures whose differences between models are tested, each a family of its own.
COMPARED = ("ua_a", "ig", "a_species_accuracy")
POINTS = 300
CURVES = {
    "model": pl.String, "curve": pl.String, "x": pl.Float64, "y": pl.Float64, "threshold": pl.Float64,
    "area": pl.Float64, "lo": pl.Float64, "hi": pl.Float64, "is_point": pl.Boolean,
}  # fmt: skip


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of ``metrics_abstention`` and of the tables that the chapter draws."""
    section = run.recipe.abstention
    if section is None:
        raise no_section(run)
    items, scores, answers = (run.table(name) for name in ("items", "image_scores", "answers"))
    with one_thread():  # products of a few hundred clusters: two threads only wait for one another
        return _tables(run, section, items, scores, answers)


def _tables(
    run: Run, section: Abstention, items: pl.DataFrame, scores: pl.DataFrame, answers: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    study = Study(section, items, scores, seed=run.recipe.seed)
    rows = as_rows.count_rows(items, taxonomy_facts(run.table("abstention_notices")))
    found = {m.name: study.evaluate(m.name, "plain") for m in section.models}
    for name, plain in found.items():
        rows += as_rows.number_rows(plain, cluster=section.cluster)
        rows += study.variant_rows(name)
    split, split_rows = study.contamination()
    pairs = compare(found, COMPARED)
    by_reason = reasons.abstention_by_reason(answers, items, unparsed=section.unparsed)
    rates, spread, permission = (
        f(answers, items, unparsed=section.unparsed)
        for f in (prompts.prompt_rates, prompts.fragility, prompts.permission_contrast)
    )
    rows += split_rows + as_rows.pair_rows(pairs) + as_rows.reason_rows(by_reason)
    rows += as_rows.prompt_rows(rates, spread, permission)
    rows += across_rows(study.across(found))
    metrics = metric_frame(as_rows.with_dataset(rows, run.recipe.name))
    return {
        "metrics_abstention": pl.concat([metrics, published(section.published)]),
        "abstention_curves": curve_table(found),
        "abstention_sweep": study.sweep(),
        "abstention_pairs": pairs,
        "abstention_reasons": by_reason,
        "abstention_confusion": reasons.confusion(answers, items, unparsed=section.unparsed),
        "abstention_wrongly": reasons.false_abstention(answers, items, unparsed=section.unparsed),
        "abstention_prompts": rates,
        "abstention_permission": permission,
        "abstention_contamination": split,
    }


class Study:
    """One study's photographs, columns and resampled clusters; every model is drawn with the same clusters.

    Args:
        section: the recipe's section.
        items: table ``items``.
        scores: table ``image_scores``.
        seed: of the resampling.
    """

    def __init__(self, section: Abstention, items: pl.DataFrame, scores: pl.DataFrame, *, seed: int) -> None:
        self.section, self.items, self.scores = section, items, scores
        self.conventions: Conventions = section.conventions
        self.clusters: Clusters = cluster_codes(items, section.cluster)
        self.weights = resamples(self.clusters.n, section.n_resamples, seed)
        self._code = dict(zip(items["item_id"].to_list(), self.clusters.codes.tolist(), strict=True))
        first = items.drop_nulls("observation_id").unique("observation_id", keep="first", maintain_order=True)
        self._code_of_observation = {o: self._code[i] for o, i in first.select("observation_id", "item_id").iter_rows()}

    def columns(self, model: str, variant: str = "plain") -> pl.DataFrame:
        """Per-image columns of one model and variant."""
        return self.scores.filter((pl.col("model") == model) & (pl.col("variant").cast(pl.String) == variant))

    def draws(self, columns: pl.DataFrame, variant: str = "plain") -> Draws:
        """Clusters of these rows, with the draws that all models share."""
        # In variant observation a photograph without an observation id stands under its own id.
        code = {**self._code, **self._code_of_observation} if variant == "observation" else self._code
        return Draws(np.array([code[i] for i in columns["item_id"].to_list()], dtype=np.int64), self.weights)

    def evaluate(self, model: str, variant: str) -> Evaluated:
        """Score one model and variant; see :func:`birdlab.abstention.evaluate.evaluate`."""
        columns = self.columns(model, variant)
        refused = None if variant == "observation" and columns.is_empty() else self.refused(columns)
        ranks = self.section.all_ranks
        found = evaluate(columns, self.conventions, self.draws(columns, variant), ranks=ranks, refused=refused)
        return Evaluated(model, found.numbers, found.curves)

    def refused(self, columns: pl.DataFrame) -> str | None:
        """Why areas over thresholds are not given for these columns; ``None`` where they are."""
        from birdlab.abstention.topk import refuse_topk

        missing = columns["missing_mass"].drop_nulls()
        if self.section.force:
            return None
        return refuse_topk(float(missing.mean())) if len(missing) else None  # type: ignore[arg-type]

    def variant_rows(self, model: str) -> as_rows.Rows:
        """Rows with the range map, and per observation, where the study has them."""
        rows: as_rows.Rows = []
        for variant in ("range_map", "observation"):
            if self.columns(model, variant).height:
                found = self.evaluate(model, variant)
                rows += as_rows.number_rows(found, group="variant", level=variant, cluster=self.section.cluster)
        return rows

    def contamination(self) -> tuple[pl.DataFrame, as_rows.Rows]:
        """Photographs by what a model may have seen in training, and its numbers on each part."""
        from birdlab.abstention.contamination import contamination, contamination_counts, read_card

        tables, rows = [], []
        for model in self.section.models:
            told = model.card.model_dump(mode="json", exclude_defaults=True)
            if not {"cutoff", "sources"} & set(told):
                continue
            status = contamination(self.items, read_card(model.name, told))
            tables.append(contamination_counts(status, self.items))
            columns = self.columns(model.name)
            for name in ("clean", "unknown", "contaminated"):
                ids = status.filter(pl.col("status") == name)["item_id"].to_list()
                part = columns.filter(pl.col("item_id").is_in(ids))
                if part.height:
                    about = {"ranks": self.section.all_ranks, "refused": self.refused(columns)}
                    found = evaluate(part, self.conventions, self.draws(part), **about)
                    rows += as_rows.number_rows(found, group="contamination", level=name, cluster=self.section.cluster)
        return (pl.concat(tables) if tables else pl.DataFrame()), rows

    def sweep(self) -> pl.DataFrame:
        """How far each area of each model moves when one convention changes."""
        parts = [pl.DataFrame(schema={"model": pl.String, **SWEEP_SCHEMA})]
        for model in self.section.models:
            columns = self.columns(model.name)
            if columns.height and not self.refused(columns):
                table = conventions_sweep(columns, conventions_for(columns, self.conventions))
                parts.append(table.select(pl.lit(model.name).alias("model"), pl.all()))
        return pl.concat(parts)

    def across(self, found: Mapping[str, Evaluated]) -> Across:
        """IG against UA/A over the models that have both."""
        rows = [
            {
                "model": m.name,
                **{k: found[m.name].numbers[k].value for k in ("ig", "ua_a")},
                "family": m.card.family,
                "parameters": m.card.parameters,
            }
            for m in self.section.models
        ]
        types = {
            "model": pl.String,
            "ig": pl.Float64,
            "ua_a": pl.Float64,
            "family": pl.String,
            "parameters": pl.Float64,
        }
        return across_models(pl.DataFrame(rows, schema=types))


def curve_table(found: Mapping[str, Evaluated]) -> pl.DataFrame:
    """Points of every curve, thinned for drawing; calibration curves by the share that is declined.

    Returns:
        model, curve, x, y, threshold, area, lo, hi (95 %), is_point (an answer is either given or not: one point).
    """
    parts = [pl.DataFrame(schema=CURVES)]
    for model, one in found.items():
        for name, curve in one.curves.items():
            number, short = one.numbers[name], thin(curve, POINTS)
            x = 1 - short.x if name.startswith("auc_") else short.x
            about: dict[str, Any] = {
                "model": model,
                "curve": name.replace("auc_", "calibration_"),
                "area": number.value,
            }
            ends = number.interval
            about |= {"lo": ends.lo if ends else None, "hi": ends.hi if ends else None}
            about["is_point"] = SINGLE_POINT in number.method
            points = pl.DataFrame(
                {"x": x, "y": short.y, "threshold": np.where(np.isinf(short.threshold), np.nan, short.threshold)}
            )
            points = points.with_columns(pl.col("threshold").fill_nan(None), **{k: pl.lit(v) for k, v in about.items()})
            parts.append(points.select(list(CURVES)).cast(CURVES))
    return pl.concat(parts)


def across_rows(found: Across) -> as_rows.Rows:
    """The correlation of IG and UA/A over models, and its wording as the reason."""
    at = {"model": "", "group": "across", "n": found.n, "method": "Pearson r over models; Fisher z"}
    return [metric_row(metric="r_ig_ua_a", value=found.r, lo=found.lo, hi=found.hi, reason=found.words, **at)]


def taxonomy_facts(notices: pl.DataFrame) -> dict[str, str]:
    """Name, version and hash of the list, as the builder of the inputs noted them."""
    told = notices.filter(pl.col("code") == "taxonomy")["message"].to_list()
    # A name or a version may hold spaces.
    return dict(re.findall(r"\b(name|version|sha256)=(.*?)(?= (?:version|sha256)=|$)", told[0])) if told else {}


def no_section(run: Run) -> Exception:
    """The error of a recipe that has no section ``abstention``."""
    from birdlab.errors import ParameterError, Problem

    where = str(run.recipe_path)
    remedy = "add the section, or leave out 09_abstention"
    return ParameterError(
        Problem("no_section", "no section abstention", "items, models", remedy, file=where, key="abstention")
    )
