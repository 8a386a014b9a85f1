"""Why it abstains: abstention by true reason, whether the reason given is right, and reasons on answerable photographs.

RealBirdID-style. Its published table of reasons holds the probability that a model abstains, whatever reason it gives,
by true reason; whether the reason is right is another number. Both are here, and their product (*joint*).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import polars as pl

from birdlab.abstention.answered import NO_REASON, Abstained, answered, unparsed_counts, with_share
from birdlab.abstention.conventions import Unparsed
from birdlab.errors import ParameterError, Problem
from birdlab.schemas.constants import REASONS

Per = Literal["abstained", "answered"]
ALL, UNKNOWN = "all", "unknown"
GIVEN = (*REASONS, NO_REASON)
#: Further columns of the confusion whose rows are all answers.
REST = ("not_abstained", "unparsed")
_KEY = ("model", "prompt_id", "permits_abstention")
_F, _I, _S = pl.Float64, pl.Int64, pl.String
_RATES = ("rate_species_level", "rate_outright", "p_right_reason", "joint")
_COUNTS = ("n", "n_unparsed", "n_species_level", "n_outright", "n_judged", "n_abstained", "n_right_reason", "n_several")
REASON_SCHEMA: dict[str, Any] = {
    **{"model": _S, "prompt_id": _S, "permits_abstention": pl.Boolean, "true_reason": _S},
    **dict.fromkeys(_COUNTS, _I),
    "unparsed_share": _F,
    **{f"{r}{end}": _F for r in _RATES for end in ("", "_lo", "_hi")},
    **{"p_right_reason_shared": _F, "reason": _S},
}
CONFUSION_SCHEMA: dict[str, Any] = {
    **{"model": _S, "prompt_id": _S, "permits_abstention": pl.Boolean, "true_reason": _S, "given": _S},
    **{"count": _F, "n": _I, "share": _F, "n_unparsed": _I, "unparsed_share": _F, "reason": _S},
}
FALSE_SCHEMA: dict[str, Any] = {
    **{"model": _S, "prompt_id": _S, "permits_abstention": pl.Boolean, "given": _S},
    **{"count": _F, "n": _I, "rate": _F, "rate_lo": _F, "rate_hi": _F, "n_outright": _F, "rate_outright": _F},
    **{"n_unparsed": _I, "unparsed_share": _F, "reason": _S},
}
NEVER = "it never abstained here: there is no reason to judge"
NO_ITEM, NO_ANSWERABLE = (
    "no unanswerable photograph with this reason was answered",
    "no answerable photograph was answered",
)


def abstention_by_reason(
    answers: pl.DataFrame,
    items: pl.DataFrame,
    *,
    unparsed: Unparsed = "wrong",
    abstained: Abstained = "species_level",
) -> pl.DataFrame:
    """How often a model abstains by the true reason, and whether the reason it gives is right; all in [0, 1].

    Args:
        answers: table ``answers``.
        items: table ``items``; unanswerable ones are used.
        unparsed: whether an answer that could not be read is counted; see :func:`birdlab.abstention.answered.answered`.
        abstained: which answers ``n_abstained``, ``p_right_reason`` and ``joint`` call an abstention.

    Returns:
        One row per model, prompt and true reason (:data:`REASON_SCHEMA`): vocalization, angle, quality, other, then
        ``all`` (each photograph once) and, where there are some, ``unknown`` (no true reason is recorded: the reason
        given cannot be judged). A photograph with several true reasons is in the row of each.

        - ``rate_species_level``, ``rate_outright``: share of the n answers that abstain in either way, Wilson interval.
        - ``n_judged``: answers to photographs with a recorded reason (fewer than n only in ``all`` and ``unknown``).
        - ``p_right_reason``: share of the ``n_abstained`` of them that give a true reason, any of them if there are several;
          ``p_right_reason_shared`` gives an answer with k reasons 1/k per true one (``n_several`` such answers), so that
          naming every reason does not pay.
        - ``joint``: share of ``n_judged`` that abstain and give a true reason.
        - ``unparsed_share``: share of all answers that could not be read, ``drop``-ped ones included.

        Null with a ``reason`` where n = 0, or where no answer abstained.

    Raises:
        DataError, ParameterError: see :func:`birdlab.abstention.answered.answered`.

    Wilson (1927) intervals; photographs are taken as independent, which clusters of a genus are not.
    """
    table = answered(answers, items, unparsed=unparsed, abstained=abstained)
    table = _judged(table.filter(~pl.col("is_answerable")))
    parts = _by_true_reason(table).partition_by(*_KEY, "true_reason", as_dict=True)
    rows = []
    for key in _prompts(answers):
        for name in _row_names(table):
            part = parts.get((*key, name))
            row = dict(zip((*_KEY, "true_reason"), (*key, name), strict=True))
            rows.append(row | _reason_row(table.clear() if part is None else part, name))
    return pl.DataFrame(rows, schema=REASON_SCHEMA, orient="row")


def confusion(
    answers: pl.DataFrame,
    items: pl.DataFrame,
    *,
    per: Per = "abstained",
    abstained: Abstained = "species_level",
    unparsed: Unparsed = "wrong",
) -> pl.DataFrame:
    """Which reason is given for which true one, row-normalised; shares in [0, 1] that add up to 1 in each row.

    Args:
        answers, items: tables of those names; unanswerable items are used.
        per: denominator of a row: answers that ``abstained`` (columns vocalization, angle, quality, other, none) or
            all that ``answered`` (then ``not_abstained`` and ``unparsed`` are columns too).
        abstained: which answers abstain.
        unparsed: with ``drop``, answers that could not be read leave the denominator of ``answered``.

    Returns:
        Long table (:data:`CONFUSION_SCHEMA`), one row per model, prompt, true reason and reason given, in the order of
        the columns. An answer that gives k reasons counts 1/k under each (``count`` need not be whole); one that gives
        none is under ``none``. ``n`` is the denominator. A row without an answer has null shares with a ``reason``.

    Raises:
        DataError, ParameterError: see :func:`birdlab.abstention.answered.answered`.
    """
    if per not in ("abstained", "answered"):
        raise ParameterError(Problem("bad_value", repr(per), "one of abstained, answered", key="per"))
    table = answered(answers, items, unparsed=unparsed, abstained=abstained)
    table = _by_true_reason(_judged(table.filter(~pl.col("is_answerable"))))
    parts = table.partition_by(*_KEY, "true_reason", as_dict=True)
    names = [n for n in _row_names(table) if n != ALL]
    rows: list[dict[str, Any]] = []
    for key in _prompts(answers):
        for name in names:
            part = parts.get((*key, name), table.clear())
            used = part.filter("abstained" if per == "abstained" else "is_counted")
            counts = _given_counts(used)
            about = dict(zip((*_KEY, "true_reason"), (*key, name), strict=True)) | unparsed_counts(part)
            why = None if used.height else NEVER if part["is_counted"].any() else NO_ITEM
            for given in GIVEN if per == "abstained" else (*GIVEN, *REST):
                share = counts[given] / used.height if used.height else None
                row = {"given": given, "count": counts[given], "n": used.height, "share": share, "reason": why}
                rows.append(about | row)
    return pl.DataFrame(rows, schema=CONFUSION_SCHEMA, orient="row")


def false_abstention(
    answers: pl.DataFrame,
    items: pl.DataFrame,
    *,
    unparsed: Unparsed = "wrong",
    abstained: Abstained = "species_level",
) -> pl.DataFrame:
    """How often a model abstains on photographs that can be answered, by the reason it gives; in [0, 1], lower is better.

    Args:
        answers, items: tables of those names; answerable items are used.
        unparsed, abstained: see :func:`abstention_by_reason`.

    Returns:
        One row per model, prompt and reason given (:data:`FALSE_SCHEMA`): ``all``, then vocalization, angle, quality,
        other, none, whose rates add up to that of ``all`` (an answer with k reasons counts 1/k under each). The
        denominator n is every answer to an answerable photograph. ``rate_outright`` is the part that declines outright.
        Null with a ``reason`` where n = 0.

    Raises:
        DataError, ParameterError: see :func:`birdlab.abstention.answered.answered`.
    """
    table = answered(answers, items, unparsed=unparsed, abstained=abstained)
    table = _judged(table.filter("is_answerable"))
    parts = table.partition_by(*_KEY, as_dict=True)
    rows = []
    for key in _prompts(answers):
        part = parts.get(key, table.clear())
        n = int(part["is_counted"].sum())
        counts, outright = _given_counts(part.filter("abstained")), _given_counts(part.filter("outright"))
        for given in (ALL, *GIVEN):
            row = dict(zip(_KEY, key, strict=True)) | unparsed_counts(part)
            row |= {"given": given, "n": n, "count": counts[given], "n_outright": outright[given]}
            row |= {"rate_outright": outright[given] / n if n else None, "reason": None if n else NO_ANSWERABLE}
            with_share(row, "rate", counts[given], n)
            rows.append(row)
    return pl.DataFrame(rows, schema=FALSE_SCHEMA, orient="row")


def _judged(table: pl.DataFrame) -> pl.DataFrame:
    """Add n_given and hits, the number of reasons given and of those among them that are true."""
    hits = pl.col("reasons").list.set_intersection("true_reasons").list.len()
    return table.with_columns(n_given=pl.col("reasons").list.len().cast(_I), hits=hits.cast(_I))


def _by_true_reason(table: pl.DataFrame) -> pl.DataFrame:
    """Each answer once per true reason (``unknown`` without one), and once more under ``all``."""
    named = pl.when(pl.col("true_reasons").list.len() > 0).then("true_reasons").otherwise(pl.lit([UNKNOWN]))
    each = table.with_columns(true_reason=named).explode("true_reason")
    return pl.concat([each, table.with_columns(true_reason=pl.lit(ALL))])


def _row_names(table: pl.DataFrame) -> tuple[str, ...]:
    unknown = (UNKNOWN,) if (table["true_reasons"].list.len() == 0).any() else ()
    return (*REASONS, ALL, *unknown)


def _prompts(answers: pl.DataFrame) -> list[tuple[Any, ...]]:
    return answers.select(_KEY).unique(maintain_order=True).rows()


def _reason_row(part: pl.DataFrame, name: str) -> dict[str, Any]:
    n, judged = int(part["is_counted"].sum()), part.filter("is_counted", pl.col("true_reasons").list.len() > 0)
    gave_up = judged.filter("abstained")
    n_right_reason = int((gave_up["hits"] > 0).sum())
    row: dict[str, Any] = {"n": n, **unparsed_counts(part), "n_judged": judged.height}
    row |= {f"n_{c}": int(part[c].sum()) for c in ("species_level", "outright")}
    row |= {
        "n_abstained": gave_up.height,
        "n_right_reason": n_right_reason,
        "n_several": int((gave_up["n_given"] > 1).sum()),
    }
    for c in ("species_level", "outright"):
        with_share(row, f"rate_{c}", row[f"n_{c}"], n)
    with_share(row, "p_right_reason", n_right_reason, gave_up.height)
    with_share(row, "joint", n_right_reason, judged.height)
    if gave_up.height:
        shared = gave_up["hits"] / gave_up["n_given"].clip(lower_bound=1)
        row["p_right_reason_shared"] = math.fsum(shared.to_list()) / gave_up.height  # in any order the same
    if name == UNKNOWN and n:
        return row | {"reason": "no true reason is recorded: the reason given cannot be judged"}
    return row | {"reason": NO_ITEM if not n else None if gave_up.height else NEVER}


def _given_counts(used: pl.DataFrame) -> dict[str, float]:
    """Answers by reason given, 1/k each where an answer gives k; answers that do not abstain by why they do not."""
    counts = dict.fromkeys((*GIVEN, *REST), 0.0)
    gave_up = used.filter("abstained")
    each = (
        gave_up.filter(pl.col("n_given") > 0)
        .explode("reasons")
        .group_by("reasons")
        .agg((1 / pl.col("n_given")).sort().sum())
    )
    counts |= {given: float(k) for given, k in each.iter_rows()}
    counts[NO_REASON] = float((gave_up["n_given"] == 0).sum())
    counts["unparsed"] = float(used["is_unparsed"].sum())
    counts["not_abstained"] = float(used.height - gave_up.height) - counts["unparsed"]
    return counts | {ALL: float(gave_up.height)}
