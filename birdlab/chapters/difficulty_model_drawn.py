"""04_difficulty_model: what its figures are drawn from, and their titles and alt texts."""

from __future__ import annotations

import polars as pl

from birdlab.chapters.common import count, num, pct
from birdlab.chapters.difficulty import UNITS
from birdlab.chapters.difficulty_model import of_set
from birdlab.chapters.difficulty_model_words import listed
from birdlab.difficulty.checks import TOO_COLLINEAR
from birdlab.difficulty.design import FACTOR_SETS
from birdlab.report.show import m
from birdlab.report.table import number


def effects(coefficients: pl.DataFrame, loso: pl.DataFrame) -> pl.DataFrame:
    """The slopes as the forest is drawn from: a row per model and factor, with those of every session left out.

    Returns:
        model, factor, title, status, confirmed, firth, firth_lo, firth_hi, ame, ``loso`` (list).
    """
    left = loso.drop_nulls("firth").group_by("model", "factor", maintain_order=True).agg(pl.col("firth").alias("loso"))
    rows = (
        of_set(coefficients, coefficients["factor_set"][0])
        if coefficients.height
        else coefficients.with_columns(title=pl.lit(""))
    )
    rows = rows.join(left, on=["model", "factor"], how="left", maintain_order="left")
    rows = rows.with_columns(pl.col("status").cast(pl.String), pl.col("loso").fill_null([]))
    return rows.select(
        "model", "factor", "title", "status", "confirmed", "firth", "firth_lo", "firth_hi", "ame", "loso"
    )


def forest_title(rows: pl.DataFrame) -> str:
    """What the forest shows: how many intervals exclude 0, how many slopes hang on one session."""
    known = rows.drop_nulls("firth")
    if known.is_empty():
        return "No slope could be estimated."
    clear = known.filter(pl.col("firth_lo") * pl.col("firth_hi") > 0).height
    weak = known.filter(pl.col("status") == "unstable").height
    bound = known.filter(pl.col("status").str.starts_with("infinite")).height
    text = f"The interval of {clear} of {count(known.height, 'slope', 'slopes')} excludes 0; {weak} {'is' if weak == 1 else 'are'} unstable"
    return text + (f" and {bound} {'has' if bound == 1 else 'have'} no finite estimate." if bound else ".")


def forest_alt(rows: pl.DataFrame) -> str:
    """The forest in words: estimate, interval and status of every slope."""
    said = []
    for (model,), part in rows.partition_by("model", as_dict=True, maintain_order=True).items():
        cells = [
            f"{r['title']} {_plain(r['firth'])} ({_plain(r['firth_lo'])} to {_plain(r['firth_hi'])}, {r['status'].replace('_', ' ')})"
            for r in part.drop_nulls("firth").to_dicts()
        ]
        said.append(f"{model}: {'; '.join(cells) or 'not fitted'}")
    return "Log-odds per SD with profile intervals. " + (". ".join(said) or "Nothing was fitted") + "."


def ladder(ladder: pl.DataFrame) -> pl.DataFrame:
    """The adjustment ladder as it is drawn: log-odds ± 1.96 standard errors on four rungs.

    Args:
        ladder: ``model_ladder`` of one factor set, with ``title``.
    """
    return ladder.select(
        *("model", "factor", "title"),
        pl.col("rung").cast(pl.String),
        pl.col("rung").to_physical().cast(pl.Int64).alias("order"),
        *("firth", "firth_se"),
        (pl.col("firth") - 1.96 * pl.col("firth_se")).alias("lo"),
        (pl.col("firth") + 1.96 * pl.col("firth_se")).alias("hi"),
        *("is_flipped", "is_clear_flip"),
    )


def ladder_title(ladder: pl.DataFrame, last: pl.DataFrame) -> str:
    """What the ladder shows: how many slopes change sign between a factor alone and beside everything else."""
    if last.is_empty():
        return "There is no ladder to climb: nothing was fitted."
    flipped = last.filter("is_flipped").height
    clear = ladder.filter("is_clear_flip").unique(["model", "factor"], maintain_order=True).to_dicts()
    ends = "ends" if flipped == 1 else "end"
    text = f"{flipped} of {count(last.height, 'slope', 'slopes')} {ends} with another sign than the factor has alone"
    if clear:
        return (
            f"{text}; clearly so on the way: {listed([r['title'].lower() + ' for ' + m(r['model']) for r in clear])}."
        )
    return f"{text}, none of them beyond doubt." if flipped else f"{text}."


def ladder_alt(last: pl.DataFrame, ladder: pl.DataFrame) -> str:
    """The ladder in words: first and last rung of every slope."""
    first = dict(((r["model"], r["factor"]), r["firth"]) for r in ladder.filter(pl.col("order") == 0).to_dicts())
    said = [
        f"{r['model']} {r['title']} {_plain(first[r['model'], r['factor']])} to {_plain(r['firth'])}"
        for r in last.to_dicts()
    ]
    return "Log-odds per SD, the factor alone and beside all else. " + ("; ".join(said) or "Nothing to draw") + "."


def collinearity(correlations: pl.DataFrame, vif: pl.DataFrame) -> pl.DataFrame:
    """Correlations and variance inflation as they are drawn.

    Returns:
        ``panel`` (``pooled``, ``within sessions``, ``VIF``), ``row`` and ``column`` (names of factors; of a VIF
        ``alone`` or ``sessions``), ``value``.
    """
    names = dict(vif.select("factor", "title").iter_rows())
    rows: list[tuple[str, str, str, float | None]] = []
    for panel, key in (("pooled", "r_pooled"), ("within sessions", "r_within")):
        rows += [(panel, names[a], names[b], r) for a, b, r in correlations.select("factor", "other", key).iter_rows()]
    for name, alone, beside in vif.select("title", "vif", "vif_with_sessions").iter_rows():
        rows += [("VIF", name, "alone", alone), ("VIF", name, "sessions", beside)]
    schema = {"panel": pl.String, "row": pl.String, "column": pl.String, "value": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def collinearity_title(rows: pl.DataFrame) -> str:
    """What the heatmaps show: the largest inflation and the strongest correlation within sessions."""
    vif = rows.filter(panel="VIF", column="sessions").sort("value", descending=True, nulls_last=False)
    pairs = rows.filter((pl.col("panel") == "within sessions") & (pl.col("row") < pl.col("column"))).drop_nulls("value")
    if vif.is_empty():
        return "There is no factor to compare."
    top = vif.row(0, named=True)
    value = "no end" if top["value"] is None else f"{top['value']:.1f}"
    over = vif.filter(pl.col("value").is_null() | (pl.col("value") > TOO_COLLINEAR)).height
    text = (
        f"{count(over, 'factor', 'factors')} above a variance inflation of {TOO_COLLINEAR:g}"
        if over
        else "Every factor can be told from the rest"
    )
    text += f" (largest inflation: {top['row'].lower()}, {value})"
    if pairs.is_empty():
        return text + "."
    r = pairs.sort(pl.col("value").abs(), descending=True, maintain_order=True).row(0, named=True)
    pair = f"{r['row'].lower()} and {r['column'].lower()}, r {number(r['value'], 2)}"
    return f"{text}; the closest pair within sessions: {pair}."


def collinearity_alt(rows: pl.DataFrame) -> str:
    """The heatmaps in words."""
    beside = rows.filter(panel="VIF", column="sessions").to_dicts()
    said = [f"{r['row']} without end" if r["value"] is None else f"{r['row']} {r['value']:.1f}" for r in beside]
    return (
        "Correlations of factors and variance inflation beside the sessions: "
        + ("; ".join(said) or "nothing to draw")
        + "."
    )


def partial(partial: pl.DataFrame, coefficients: pl.DataFrame) -> pl.DataFrame:
    """Partial-effect curves in the factors' printed units, with the status of each slope.

    Args:
        partial: ``model_partial`` of one factor set, with ``title``.
        coefficients: table ``coefficients``.
    """
    about = coefficients.select("model", "factor", pl.col("status").cast(pl.String), "confirmed")
    rows = partial.join(about, on=["model", "factor"], how="left", maintain_order="left")
    set_of = coefficients["factor_set"][0] if coefficients.height else "bluebird-local"
    units = {f: UNITS.get(c, (1, "")) for f, c in FACTOR_SETS[set_of].items()}
    scale = pl.col("factor").replace_strict({f: float(u[0]) for f, u in units.items()}, return_dtype=pl.Float64)
    unit = pl.col("factor").replace_strict({f: u[1] for f, u in units.items()}, return_dtype=pl.String)
    return rows.with_columns((pl.col("value") * scale).alias("value"), unit.alias("unit"))


def partial_title(rows: pl.DataFrame, lead: str | None) -> str:
    """What the curves show: how far recall moves over the range of the lead model's strongest confirmed factor."""
    mine = rows.filter(pl.col("model") == (lead or ""))
    sure = mine.filter("confirmed")
    if mine.is_empty():
        return "There is no curve to draw."
    ends = (sure if sure.height else mine).group_by("title", maintain_order=True).agg(
        pl.col("recall").first().alias("low"), pl.col("recall").last().alias("high")
    )  # fmt: skip
    r = ends.sort((pl.col("high") - pl.col("low")).abs(), descending=True, maintain_order=True).row(0, named=True)
    text = f"{r['title']} alone, low to high, takes {m(str(lead))} from {pct(r['low'])} to {pct(r['high'])} of birds"
    return f"{text}, all else held fixed{'' if sure.height else '; not confirmed'}."


def partial_alt(rows: pl.DataFrame) -> str:
    """The curves in words: recall at both ends."""
    said = []
    for (model, name), part in rows.partition_by("model", "title", as_dict=True, maintain_order=True).items():
        said.append(f"{model}, {name}: {pct(part['recall'][0])} to {pct(part['recall'][-1])}")
    return (
        "Mean fitted recall over the range of each factor within sessions. "
        + ("; ".join(said) or "Nothing to draw")
        + "."
    )


def fit(reliability: pl.DataFrame, calibration: pl.DataFrame) -> pl.DataFrame:
    """Reliability of the penalised fit by tenths, with its measures beside every row.

    Returns:
        model, tenth, n, predicted, observed, lo, hi, auc, brier, brier_null, hosmer_lemeshow_p.
    """
    measures = ("auc", "brier", "brier_null", "hosmer_lemeshow_p")
    rows = reliability.filter(fit="firth").select("model", "tenth", "n", "predicted", "observed", "lo", "hi")
    for measure in measures:
        mine = calibration.filter(fit="firth", measure=measure).select("model", pl.col("value").alias(measure))
        rows = rows.join(mine, on="model", how="left", maintain_order="left")
    return rows


def fit_title(rows: pl.DataFrame) -> str:
    """What the figure of the fit shows: AUC and Brier score per model."""
    said = [
        f"{m(r['model'])} AUC {num(r['auc'])}, Brier {r['brier']:.3f} against {r['brier_null']:.3f} for one recall for all"
        for r in rows.unique("model", keep="first", maintain_order=True).to_dicts()
    ]
    return (
        f"How well the model tells missed from found birds: {'; '.join(said)}." if said else "There is no fit to judge."
    )


def fit_alt(rows: pl.DataFrame) -> str:
    """The figure of the fit in words."""
    said = []
    for (model,), part in rows.partition_by("model", as_dict=True, maintain_order=True).items():
        cells = ", ".join(f"{pct(r['predicted'])}: {pct(r['observed'])}" for r in part.to_dicts())
        said.append(f"{model} {cells}")
    return "Fitted and observed recall by tenths. " + ("; ".join(said) or "Nothing to draw") + "."


def _plain(value: float | None) -> str:
    return "no end" if value is None else number(value, 2)
