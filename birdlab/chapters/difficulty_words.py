"""03_difficulty: answer, titles, alt texts, notes and the headline number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import best_model, chance, count, pct
from birdlab.chapters.difficulty_names import condition, title
from birdlab.report.show import m

QUESTION = "What makes this detector miss, how sure are we, and what would fixing it be worth?"
#: A factor whose spread within sessions is a smaller part of its spread than this goes with the session.
APART = 0.3


def top_factor(factors: pl.DataFrame, model: str | None) -> dict[str, Any] | None:
    """The confirmed factor with the largest impact on a model, else the largest of all; None where none is defined."""
    mine = factors.filter(pl.col("model") == (model or "")).drop_nulls("impact")
    mine = mine.sort("confirmed", "impact", descending=True, maintain_order=True)
    return mine.row(0, named=True) if mine.height else None


def answer(metrics: pl.DataFrame, factors: pl.DataFrame, models: Sequence[str], *, unit: str) -> tuple[str, str, str]:
    """Question, answer and detail: the factor, its impact in points and birds, its interval, how sure that is.

    Args:
        metrics: table ``metrics_detection``, for the best model.
        factors: table ``difficulty_factors``.
        models: names in the recipe's order.
        unit: ``site`` or ``session``.
    """
    best = best_model(metrics, models)
    top, mine = top_factor(factors, best), factors.filter(pl.col("model") == (best or "")).head(1)
    for n, k in mine.select("n", "k").iter_rows():
        if n and k in (0, n):
            said = "missed no bird" if k else "found no bird"
            birds = "The only bird was" if n == 1 else f"All {n} birds were"
            why = f"{birds} {'found' if k else 'missed'}, so no factor has an effect to show."
            return QUESTION, f"{m(str(best))} {said}.", why + _others(factors, models, str(best))
    if top is None:
        return QUESTION, "It cannot be said.", _why_none(factors, best, models)
    bad, good = condition(top["factor"], top["worst"]), condition(top["factor"], top["best"])
    gain = f"{_points(top['impact'])} points of recall{_ends(top)}, {_birds(top['birds'])} of {top['n']}"
    if top["confirmed"]:
        said = f"{title(top['factor'])}: {m(str(best))} misses {bad}."
        detail = f"Were all found as often as {good}, that would be worth {gain}. "
        return QUESTION, said, detail + _sure(top, unit) + _others(factors, models, str(best))
    said = f"No single factor is confirmed for {m(str(best))}."
    why = f"The largest difference here, {bad} against {good}, would be worth {gain}, but "
    why += (
        f"it could not be tested: {top['reason'] or 'no outcomes to exchange'}"
        if top["p_holm"] is None
        else f"{chance(top['p_holm'])} after Holm over {top['family']} tests"
    )
    return QUESTION, said, why + "." + _others(factors, models, str(best))


def headlines(metrics: pl.DataFrame, factors: pl.DataFrame, models: Sequence[str]) -> list[dict[str, Any]]:
    """The number for the top of the report: what the confirmed factor with the largest impact is worth, in points."""
    best = best_model(metrics, models)
    if best is None:
        return []
    top = top_factor(factors, best)
    about: dict[str, Any] = {"label": "Worth fixing", "unit": "points", "digits": 1, "model": best, "scale": (0, 50)}
    if top is None or not top["confirmed"]:
        reason = (
            "no single factor is confirmed" if top is not None and 0 < top["k"] < top["n"] else "no factor to compare"
        )
        return [{**about, "value": None, "reason": reason, "detail": f"{best}, recall"}]
    hi = 100 * (top["impact_hi"] or top["impact"])
    ends = {"lo": _hundred(top["impact_lo"]), "hi": _hundred(top["impact_hi"])}
    detail = f"{title(top['factor']).lower()}, {best}'s recall in these sessions"
    return [{**about, "value": 100 * top["impact"], **ends, "detail": detail, "scale": (0, max(25.0, hi))}]


def sheet_title(sheet: pl.DataFrame) -> str:
    """What the factor sheet shows: how many factors can be told from the session."""
    known = sheet.drop_nulls("within")
    if known.is_empty():
        return "No factor varies." if (sheet["n"] > 0).any() else "No factor could be measured."
    some = known.filter(pl.col("within") >= APART).height
    if some == known.height:
        return "Every factor varies within sessions."
    return f"Of {count(known.height, 'factor', 'factors')} {some} vary enough within sessions to be told from them."


def sheet_notes(sheet: pl.DataFrame, factors: pl.DataFrame, notices: pl.DataFrame, bins: pl.DataFrame) -> list[str]:
    """Sentences under the factor sheet: missing values, merged bins, frames or sessions that are not as the others."""
    notes = [f"{_sentence(r['message'])} ({r['n']})." for r in notices.to_dicts()]
    said = factors.filter(pl.col("note").is_not_null()).unique("factor", maintain_order=True)
    notes += [f"{title(r['factor'])}: {r['note']}." for r in said.to_dicts()]
    lost = bins.filter((pl.col("level") == "missing") & (pl.col("n") > 0))
    for (factor,), part in lost.partition_by("factor", as_dict=True, maintain_order=True).items():
        r = part.row(0, named=True)
        notes.append(
            f"{title(str(factor))}: {count(r['n'], 'bird has', 'birds have')} no value; {m(r['model'])} finds {pct(r['recall'])} of them."
        )
    return notes


def bins_title(factors: pl.DataFrame, models: Sequence[str]) -> str:
    """What the figure of bins shows: what is confirmed, for every model."""
    sure = factors.filter(pl.col("confirmed") & pl.col("model").is_in(list(models)))
    if sure.is_empty():
        tested = factors.drop_nulls("p_holm").height
        return f"None of {tested} differences is more than chance." if tested else "Nothing could be tested."
    said = []
    for (model,), part in sure.partition_by("model", as_dict=True, maintain_order=True).items():
        rows = part.sort("impact", descending=True).to_dicts()
        said.append(f"{m(str(model))} misses {_list([condition(r['factor'], r['worst']) for r in rows])} more often")
    return f"{'; '.join(said)}; {_rest(factors, sure)}."


def bins_alt(rows: pl.DataFrame, models: Sequence[str]) -> str:
    """The figure of bins in words: worst bin and overall recall per model and factor."""
    said = []
    for model in models:
        mine = rows.filter((pl.col("model") == model) & pl.col("is_worst")).to_dicts()
        overall = rows.filter(pl.col("model") == model)["overall"].drop_nulls()
        if mine and len(overall):
            worst = ", ".join(f"{r['title']} {r['level']} {pct(r['recall'])} of {r['n']}" for r in mine)
            said.append(f"{model}, overall {pct(overall[0])}, worst bins: {worst}")
    return "Recall by bin of every factor. " + ("; ".join(said) or "No bin holds enough birds") + "."


def heat_title(rows: pl.DataFrame, models: Sequence[str]) -> str:
    """What the heatmap shows: the lowest cell."""
    known = rows.filter(pl.col("is_worst") & pl.col("model").is_in(list(models))).drop_nulls("recall").sort("recall")
    if known.is_empty():
        return "No bin holds enough birds to be the worst."
    r = known.row(0, named=True)
    return f"The lowest recall of all: {m(r['model'])} finds {pct(r['recall'])} of {condition(r['factor'], _level(r))}."


def heat_alt(rows: pl.DataFrame) -> str:
    """The heatmap in words: range per model."""
    said = []
    for (model,), part in rows.drop_nulls("recall").partition_by("model", as_dict=True, maintain_order=True).items():
        part = part.sort("recall")
        low, high = part.row(0, named=True), part.row(-1, named=True)
        said.append(
            f"{model}: from {pct(low['recall'])} ({low['title']} {low['level']}) to {pct(high['recall'])} ({high['title']} {high['level']})"
        )
    return "Recall of every model in every bin. " + ("; ".join(said) or "Nothing to show") + "."


def impact_title(factors: pl.DataFrame, models: Sequence[str]) -> str:
    """What the figure of sensitivity and impact shows: the costliest factor of each model."""
    said = []
    for model in models:
        mine = factors.filter(pl.col("model") == model).drop_nulls("impact").filter(pl.col("k") < pl.col("n"))
        mine = mine.filter(pl.col("k") > 0).sort("impact", descending=True, maintain_order=True)
        if mine.height:
            r = mine.row(0, named=True)
            said.append(
                f"{title(r['factor']).lower()} for {m(model)} ({_points(r['impact'])} points{', confirmed' if r['confirmed'] else ''})"
            )
    return f"The costliest factor: {'; '.join(said)}." if said else "No factor has a cost that could be measured."


def impact_alt(factors: pl.DataFrame, models: Sequence[str]) -> str:
    """The figure of sensitivity and impact in words."""
    said = []
    for model in models:
        rows = factors.filter(pl.col("model") == model).drop_nulls("impact").sort("impact", descending=True).to_dicts()
        cells = [
            f"{title(r['factor'])} {pct(r['worst_recall'])} to {pct(r['best_recall'])}, impact {_points(r['impact'])}"
            for r in rows
        ]
        if cells:
            said.append(f"{model}: {'; '.join(cells)}")
    return (
        "Recall in the worst and in the best bin, and what the best is above overall, in points. "
        + (". ".join(said) or "Nothing to draw")
        + "."
    )


def worst_title(factors: pl.DataFrame) -> str:
    """What the table of worst bins shows: how many stand after correction."""
    tested = factors.drop_nulls("p_holm")
    if tested.is_empty():
        return "No worst bin could be tested."
    n = int(tested["confirmed"].sum())
    return f"{n} of {count(tested.height, 'difference stands', 'differences stand')} after correction for looking at all of them."


def worst_notes(factors: pl.DataFrame) -> list[str]:
    """Sentences under the table of worst bins: draws, how chance was judged, what the daggers are."""
    tested = factors.drop_nulls("p_holm")
    notes = []
    if tested.height:
        r = tested.row(0, named=True)
        null = 100 * float(tested["delta_null"].mean() or 0)
        notes.append(
            f"* p < 0.05 after Holm, {r['n_permutations']:,} permutations within sessions; chance alone gives Δ {null:.1f} on average."
        )
    if factors["confounded"].any():
        notes.append(
            "† The worst or best bin lies mostly (over 60 %) in one session: the factor cannot be told from it."
        )
    return notes


def strip_title(sheet: pl.DataFrame) -> str:
    """What the strip plot shows."""
    known = sheet.drop_nulls("within")
    if known.is_empty():
        return "No factor varies."
    known = known.filter(pl.col("within") < APART).sort("within")
    if known.is_empty():
        return "In most sessions birds cover the range of a factor, so it can be told from the session."
    return f"{_list(known['factor'].to_list())}: nearly one value per session, so the factor and the session are one."


def strip_alt(rows: pl.DataFrame) -> str:
    """The strip plot in words: range of session medians per factor."""
    said = []
    for (name,), part in rows.partition_by("title", as_dict=True, maintain_order=True).items():
        middle = part.group_by("session").agg(pl.col("value").median())["value"]
        said.append(f"{name}: session medians from {middle.min():.3g} to {middle.max():.3g}")
    return "Values of every bird by session and factor. " + ("; ".join(said) or "No bird has a value") + "."


def slices_title(slices: pl.DataFrame) -> str:
    """What the table of slices shows: the worst, and whether two factors together are worse than each."""
    if slices.is_empty():
        return "No two bins share enough birds with a miss among them."
    r = slices.sort("recall", "n", descending=[False, True], maintain_order=True).row(0, named=True)
    said = f"The worst corner: {m(r['model'])} finds {r['n'] - r['missed']} of {r['n']} birds that are {r['slice'].removesuffix(' †')}"
    return said + (", confirmed." if r["mark"] == "yes" else "; not confirmed." if r["mark"] == "no" else ".")


def pairs_title(pairs: pl.DataFrame) -> str:
    """What the table of paired comparisons shows: the bin with the largest gap between two models."""
    inside = pairs.filter(pl.col("factor") != "all").drop_nulls("difference")
    if inside.is_empty():
        return "There are not two models to compare."
    r = inside.sort(pl.col("difference").abs(), descending=True, maintain_order=True).row(0, named=True)
    ahead, behind = (r["model_a"], r["model_b"]) if r["difference"] > 0 else (r["model_b"], r["model_a"])
    sure = "confirmed" if r["mark"] == "yes" else "not confirmed"
    return (
        f"{m(ahead)} is furthest ahead of {m(behind)} on {r['birds']}: {_points(abs(r['difference']))} points, {sure}."
    )


def scale_title(scale: pl.DataFrame) -> str:
    """What the scale table shows: how far AP moves over the relative sizes, for the model where it moves most."""
    columns = [c for c in scale.columns if c.startswith("relative_size") and not c.endswith("_reason")]
    best: tuple[float, str] = (-1.0, "")
    for r in scale.filter(pl.col("what") == "ap").iter_rows(named=True):
        values = [(r[c], c.removeprefix("relative_size ").replace("-", "–")) for c in columns if r[c] is not None]
        if len(values) > 1:
            low, high = min(values), max(values)
            text = f"{m(r['model'])} goes from AP {low[0]:.2f} at {low[1]} of the frame's side to {high[0]:.2f} at {high[1]}."
            best = max(best, (high[0] - low[0], text))
    return best[1] or "There are not two relative sizes with birds to compare."


def errors_title(errors: pl.DataFrame) -> str:
    """What the table of errors shows: the costliest kind of each model."""
    names = {"Cls": "the class", "Loc": "the place of boxes", "Both": "class and place", "Dupe": "second boxes"}
    names |= {"Bkg": "boxes on nothing", "Miss": "birds never seen"}
    said = []
    for r in errors.iter_rows(named=True):
        gains = [(r[e], names[e]) for e in names if r[e] is not None]
        if gains and max(gains)[0] > 0:
            gain, name = max(gains, key=lambda g: g[0])
            said.append(f"{name} for {m(r['model'])} (+{gain:.2f})")
    if said:
        return f"What AP50 would gain most from: {', '.join(said)}."
    if errors.is_empty() or errors["Miss"].is_null().all():
        return "What errors cost in average precision cannot be said."
    return "No kind of error costs average precision."


def errors_notes(calibration: pl.DataFrame) -> list[str]:
    """Sentences under the table of errors: how the scores compare with how often they are right."""
    notes = []
    for r in calibration.drop_nulls("ece").to_dicts():
        side = "below" if r["gap"] < 0 else "above"
        better = "below" if r["brier"] < r["brier_constant"] else "not below"
        notes.append(
            f"{m(r['model'])} scores its boxes {abs(r['gap']):.2f} {side} the share that is right; Brier score "
            f"{r['brier']:.3f}, {better} the {r['brier_constant']:.3f} of one score for {'all' if r['n'] > 1 else 'the'} {count(r['n'], 'box', 'boxes')}."
        )
    return notes


def gallery_title(instances: pl.DataFrame, models: Sequence[str]) -> str:
    """What the gallery shows."""
    said = []
    for model in models:
        mine = instances.filter((pl.col("model") == model) & pl.col("recovered").is_not_null())
        if mine.height:
            said.append(f"{m(model)} missed {int((~mine['recovered']).sum())} of {mine.height}")
    return f"Birds that were missed: {', '.join(said)}." if said else "There is nothing to show."


def _level(row: dict[str, Any]) -> str:
    return row["level"].removesuffix(" objects").removesuffix(" object").replace("–", "-")


def _points(share: float) -> str:
    return f"{100 * share:.1f}"


def _birds(n: float) -> str:
    return count(round(n), "bird", "birds")


def _ends(top: dict[str, Any]) -> str:
    return "" if top["impact_lo"] is None else f" [{100 * top['impact_lo']:.0f}, {100 * top['impact_hi']:.0f}]"


def _sure(top: dict[str, Any], unit: str) -> str:
    said = f"In these sessions the two are {_points(top['delta'])} points apart ({chance(top['p_holm'])} after Holm over {top['family']} tests)"
    if top["impact_new_lo"] is None:
        return said + f"; nothing can be said about a new {unit}."
    return (
        said
        + f"; at a new {unit} the gain may be {100 * top['impact_new_lo']:.0f} to {100 * top['impact_new_hi']:.0f} points."
    )


def _others(factors: pl.DataFrame, models: Sequence[str], best: str) -> str:
    said = []
    for name in models:
        top = top_factor(factors, name) if name != best else None
        if top is not None and top["confirmed"]:
            said.append(f"{m(name)} misses {condition(top['factor'], top['worst'])} ({_points(top['impact'])} points)")
    return f" Also confirmed: {'; '.join(said)}." if said else ""


def _why_none(factors: pl.DataFrame, best: str | None, models: Sequence[str]) -> str:
    if not models:
        return "There is no model whose misses could be looked at."
    if factors.is_empty():
        return "No labelled bird could be measured."
    why = factors.filter(pl.col("model") == (best or models[0]))["reason"].drop_nulls().to_list()
    return f"Reason: {why[0]}." if why else "No bird was asked about."


def _rest(factors: pl.DataFrame, sure: pl.DataFrame) -> str:
    left = factors.drop_nulls("p_holm").height - sure.height
    return (
        f"{left} further differences are not more than chance"
        if left != 1
        else "one further difference is not more than chance"
    )


def _hundred(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _list(names: Sequence[str]) -> str:
    names = [n if i == 0 else n[:1].lower() + n[1:] for i, n in enumerate(names)]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
