"""``birdlab score visits``: a camera trap data package in, visits per day and species seen together out."""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any

from birdlab.errors import EXIT_OK
from birdlab.individuals.command_actions import aligned


def score_command(args: argparse.Namespace) -> int:
    """Rates of one package, as tables or with ``--json`` as one object.

    Args:
        args: package (datapackage.json or its folder), gap (min), unit (hours or events), hours (h), json.

    Raises:
        DataError: the package cannot be read; every problem with its file and line (exit 3).
        ParameterError: an option that cannot be used (exit 2).
    """
    report = score(args)
    text = json.dumps(report, ensure_ascii=False, allow_nan=False) + "\n" if args.json else printed(report)
    sys.stdout.write(text)
    return EXIT_OK


def score(args: argparse.Namespace) -> dict[str, Any]:
    """Everything that ``--json`` prints, as plain JSON types; see :func:`score_command`."""
    from birdlab.field.events import animal_events, used_deployments
    from birdlab.field.machine import individuals_told, machine_agreement
    from birdlab.field.together import co_occurrence
    from birdlab.field.visits import visits
    from birdlab.readers.camtrap import read_camtrap
    from birdlab.readers.files import notice_table

    camtrap = read_camtrap(args.package)
    rates = visits(camtrap, gap_min=args.gap)
    together = co_occurrence(camtrap, unit=args.unit, hours=args.hours)
    told, animals = individuals_told(camtrap)
    alone = f"{animals - told:,} of {animals:,} observations of animals have no individualID"
    individuals: dict[str, Any] = {"computed": told > 0, "reason": alone if told < animals else None, "visits": []}
    if told:
        rows = visits(camtrap, gap_min=args.gap, individuals=True).rename({"individual_id": "individual"})
        individuals["visits"] = rows.rename({"deployment_id": "deployment"}).to_dicts()
    elif not animals:
        individuals["reason"] = "no observation of an animal"
    used = used_deployments(camtrap)
    notices = [*camtrap.notices.to_dicts(), *notice_table(animal_events(camtrap)[1]).to_dicts()]
    return {
        "package": camtrap.name,
        "n_deployments": camtrap.deployments.height,
        "effort_days": math.fsum(used["effort_days"].drop_nulls().to_list()),
        "n_effort_unknown": used["effort_days"].null_count(),
        "gap_min": args.gap,
        "window": f"{args.hours:g} h" if args.unit == "hours" else "event",
        "visits": rates.drop("individual_id").rename({"deployment_id": "deployment"}).to_dicts(),
        "co_occurrence": together.rename({"deployment_id": "deployment"}).to_dicts(),
        "individuals": individuals,
        "agreement": machine_agreement(camtrap),
        "notices": notices,
    }


def printed(report: dict[str, Any]) -> str:
    """The result as text: rates, pairs, what could not be computed and why."""
    unknown = f", {report['n_effort_unknown']} of unknown effort" if report["n_effort_unknown"] else ""
    days = f"{report['effort_days']:,.1f} camera days{unknown}"
    lines = [f"{report['package']}: {report['n_deployments']} deployments, {days}"]
    lines += _rates(report["visits"], ()) if report["visits"] else ["no animal was seen"]
    if report["co_occurrence"]:
        lines += [
            "",
            f"Seen together, share of windows ({report['window']}), per cent",
            *_pairs(report["co_occurrence"]),
        ]
    individuals, agreement = report["individuals"], report["agreement"]
    lines += ["", "Rates of individuals"]
    lines += _rates(individuals["visits"], ("individual",)) if individuals["computed"] else []
    lines += (
        [("" if individuals["computed"] else "not computed: ") + individuals["reason"]] if individuals["reason"] else []
    )
    lines += ["", "People and machine", _agreed(agreement)]
    reasons = {r["reason"] for t in ("visits", "co_occurrence") for r in report[t] if r["reason"]}
    lines += ["", *(f"note: {reason}" for reason in sorted(reasons))]
    lines += [f"note: {n['message']} ({n['n']:,})" for n in report["notices"]]
    return "\n".join(lines) + "\n"


def _rates(visits: list[dict[str, Any]], also: tuple[str, ...]) -> list[str]:
    rows = [("species", *also, "deployment", "visits", "animals", "days", "per day", "95 % (other locations)")]
    for r in visits:
        rate = "–" if r["rate_per_day"] is None else f"{r['rate_per_day']:.3f}"
        days = "–" if r["effort_days"] is None else f"{r['effort_days']:.1f}"
        ends = "–" if r["lo"] is None else f"{r['lo']:.3f} to {r['hi']:.3f}"
        named = (r["species"], *(r[name] for name in also), r["deployment"] or "all")
        rows.append((*named, _count(r["n"]), _count(r["animals"]), days, rate, ends))
    return aligned(rows)


def _pairs(pairs: list[dict[str, Any]]) -> list[str]:
    rows = [("species", "and", "deployment", "share", "by chance", "both", "windows", "95 % (other locations)")]
    for r in pairs:
        ends = "–" if r["lo"] is None else f"{100 * r['lo']:.2f} to {100 * r['hi']:.2f}"
        shares = (f"{100 * r['share']:.2f}", f"{100 * r['expected']:.3f}")
        names = (r["species_a"], r["species_b"], r["deployment"] or "all")
        rows.append((*names, *shares, _count(r["n_both"]), _count(r["n"]), ends))
    return aligned(rows)


def _agreed(agreement: dict[str, Any]) -> str:
    if not agreement["computed"]:
        return f"not computed: {agreement['reason']}"
    ends = agreement["reason"] or f"95 % {agreement['lo']:.3f} to {agreement['hi']:.3f}"
    shares = f"alike {agreement['observed']:.3f}, by chance {agreement['expected']:.3f}"
    return f"kappa {agreement['kappa']:.3f} ({ends}), {shares}, {agreement['n_media']:,} media"


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
