"""The scores of ``birdlab score abstention`` as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

UNDEFINED = "–"
_NAMES = {
    "ua_a": "UA/A",
    "ig": "IG",
    "auc_a_species": "calibration, A-species",
    "auc_a_genus": "calibration, A-genus",
    "auc_ua_genus": "calibration, UA-genus",
    "a_species_accuracy": "accuracy, A-species",
    "a_genus_accuracy": "accuracy, A-genus",
    "ua_genus_accuracy": "accuracy, UA-genus",
    "within_genus_accuracy": "accuracy within the true genus",
}
#: Heads of the table of all models.
_SHORT = ("UA/A", "IG", "cal. A-sp", "cal. A-gen", "cal. UA-gen", "A-sp", "A-gen", "UA-gen", "in genus")
#: Measures whose differences are printed; the JSON has more.
_COMPARED = ("ua_a", "ig", "a_species_accuracy")
_CHOICES = ("uncertainty", "info", "path", "decision", "ua", "rule", "nan", "unparsed")
_VARIANTS = {"range_map": "with the range map", "observation": "by observation"}


def printed(result: dict[str, Any]) -> str:
    """Every model's numbers with interval and chance, its conventions, and what to know, one below the other.

    Args:
        result: the object that ``--json`` prints.
    """
    models = result["models"]
    parts = [_header(result["items"])]
    if len(models) > 1:
        rows = ([_title(m), *(_cell(m[k]) for k in _NAMES)] for m in models)
        parts.append(_table(["model", *_SHORT], rows))
    for model in models:
        parts.append(_block(_title(model), model))
        parts += [_block(f"{_title(model)}, {_VARIANTS[v]}", found) for v, found in model["variants"].items()]
        parts.append(_conventions(model["conventions"]))
    if any(r["measure"] in _COMPARED for r in result["differences"]):
        parts.append(_differences(result["differences"]))
    notes = [*result["warnings"], *(f"{_title(m)}: {w}" for m in models for w in m["warnings"])]
    if notes:
        parts.append("to know\n" + "\n".join(f"  {note}" for note in notes))
    parts.append("RealBirdID-style: the numbers follow the published description, not the authors' code.")
    return "\n\n".join(_safe(part) for part in parts)


def _header(items: dict[str, Any]) -> str:
    reasons = ", ".join(f"{name} {n}" for name, n in items["reasons"].items())
    return (
        f"{items['file']}: {items['n']} photographs of {items['n_genera']} genera, {items['n_answerable']} answerable, "
        f"{items['n_unanswerable']} not" + (f" ({reasons})" if reasons else "")
    )


def _title(model: dict[str, Any]) -> str:
    return model["name"] if model["prompt"] is None else f"{model['name']}, {model['prompt']}"


def _block(title: str, found: dict[str, Any]) -> str:
    """One model or variant: a row per measure, and below it why some are undefined."""
    rows = []
    for key, name in _NAMES.items():
        ends, chance = found["intervals"].get(key), found["chance"].get(key)
        rows.append([name, _cell(found[key]), _range(ends), _cell(chance), _verdict(found[key], ends, chance)])
    text = _table([title, "value", "95 % interval", "chance", ""], rows)
    facts = [f"{found['n_answerable']} answerable and {found['n_unanswerable']} unanswerable"]
    if found["n_missing_species"]:
        facts.append(f"{found['n_missing_species']} of a species that it has no name for (wrong)")
    if found["missing_mass"]:
        facts.append(f"{100 * found['missing_mass']:.1f} % of the probability unseen")
    if "ig_bounds" in found:
        facts.append("IG as that speaks for or against the best genus {:.4f} … {:.4f}".format(*found["ig_bounds"]))
    if "decisions" in found:
        facts.append("answers: " + ", ".join(f"{name} {n}" for name, n in found["decisions"].items()))
    lines = [text, "; ".join(facts)]
    undefined = {name: found["reasons"].get(key) for key, name in _NAMES.items()}
    lines += [f"{UNDEFINED} {names}: {why}" for why, names in _grouped(undefined)]
    without = {name: found["reasons"].get(f"intervals.{k}") for k, name in _NAMES.items() if found[k] is not None}
    every = ", ".join(without)
    lines += [f"no interval for {'any' if names == every else names}: {why}" for why, names in _grouped(without)]
    return "\n".join(lines)


def _grouped(reasons: dict[str, str | None]) -> list[tuple[str, str]]:
    """Each reason with the measures that it is given for."""
    found: dict[str, list[str]] = {}
    for name, why in reasons.items():
        if why:
            found.setdefault(why, []).append(name)
    return [(why, ", ".join(names)) for why, names in found.items()]


def _verdict(value: float | None, ends: Sequence[float] | None, chance: float | None) -> str:
    if value is None or chance is None:
        return ""
    return "not above chance" if (value if ends is None else ends[0]) <= chance else ""


def _conventions(used: dict[str, Any]) -> str:
    taxonomy = used["taxonomy"]
    sha = f", sha256 {taxonomy['sha256'][:12]}" if taxonomy["sha256"] else ""
    drawn = f"{used['resamples']} resamples by {used['cluster']}, seed {used['seed']}" if used["resamples"] else "none"
    choices = " ".join(f"{key}={used[key]}" for key in _CHOICES)
    more = "".join(f" {key}" for key in ("normalise", "force") if used[key])
    return (
        f"conventions: {choices} missing={used['missing']}{more}\n"
        f"intervals: {drawn}; list of birds: {taxonomy['name']}, {taxonomy['version']}{sha}"
    )


def _differences(rows: Iterable[dict[str, Any]]) -> str:
    cells = [
        [
            *(f"{r['model_a']} - {r['model_b']}", _NAMES.get(r["measure"], r["measure"]), _cell(r["difference"])),
            *(_range(None if r["lo"] is None else [r["lo"], r["hi"]]), _cell(r["p_holm"])),
            "confirmed" if r["confirmed"] else "",
        ]
        for r in rows
        if r["measure"] in _COMPARED
    ]
    return _table(["difference", "in", "value", "95 % interval", "p (Holm)", ""], cells, left=2)


def _cell(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:.4f}"


def _range(pair: Sequence[float] | None) -> str:
    return UNDEFINED if pair is None else f"{pair[0]:.4f} … {pair[1]:.4f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Columns two blanks apart, the first ``left`` to the left, the others to the right."""
    cells = [[_safe(c) for c in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        texts = [c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(texts).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def _safe(text: str) -> str:
    """Without control and direction characters, which could rewrite a terminal; line breaks stay."""
    return "".join(c if c == "\n" or c.isprintable() else "\ufffd" for c in text)
