"""Printed results of RealBirdID (arXiv 2603.27033) as reference rows beside computed ones.

Typed in as printed, percent as shares. They have no ``value``: the data set and the code behind them are not public,
and what is thresholded, whether unanswerable photographs enter IG and how areas are taken is not stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.metrics import metric_frame, metric_row

REALBIRDID = "realbirdid"
N_ANSWERABLE, N_UNANSWERABLE, N_IMAGES, N_GENERA, N_SPECIES = 31_885, 3_253, 35_138, 248, 3_442
_MAIN = "RealBirdID, main results"
_ACCURACIES = "RealBirdID, accuracies"
_REASONS = "RealBirdID, abstention reasons"
_TEXT = "RealBirdID, text"
_SECOND = "RealBirdID, as given by a second summary of the paper"
#: model: (IG, UA/A), percent.
_IG_UA_A: dict[str, tuple[float, float]] = {
    "BioCLIP": (68.9, 49.6),
    "MetaCLIP-L/14": (66.0, 42.5),
    "SigLIP-so400m": (53.7, 53.2),
    "CLIP-L/14": (62.0, 48.1),
    "Gemini-2.5 Pro": (57.7, 46.2),
    "GPT-5": (56.4, 44.1),
    "Qwen2.5-VL-7B": (54.2, 41.7),
    "Gemma-3-12B": (46.3, 39.2),
}
#: model: accuracy of A-species, A-genus, UA-genus, percent.
_ACCURACY: dict[str, tuple[float, float, float]] = {
    "BioCLIP": (17.0, 57.0, 57.6),
    "MetaCLIP-L/14": (11.8, 56.1, 63.6),
    "GPT-5": (10.4, 45.6, 58.6),
    "Gemini-2.5 Pro": (12.7, 52.8, 60.1),
    "Qwen2.5-VL-7B": (6.7, 40.6, 52.6),
    "InternVL3-8B": (1.5, 16.7, 34.7),
}
_ACCURACY_METRICS = ("a_species_accuracy", "a_genus_accuracy", "ua_genus_accuracy")
#: Rows that only the second summary gives.
_SECOND_IG, _SECOND_ACCURACY = ("Gemma-3-12B",), ("Qwen2.5-VL-7B", "InternVL3-8B")
#: true reason: share that abstains.
_REASON_MODELS = ("Qwen2.5-VL", "Llama-3.2V", "InternVL3", "Gemma-3")
_ABSTAINED: dict[str, tuple[float, ...]] = {
    "quality": (0.158, 0.086, 0.279, 0.041),
    "angle": (0.144, 0.080, 0.291, 0.052),
    "vocalization": (0.098, 0.077, 0.278, 0.044),
}
_NOT_COMPUTED = "published, not computed here"
_CHANCE = "0.5 is chance; the uncertainty that is thresholded is not stated"
_IG_REMARK = "neither the weight of a genus nor the treatment of unanswerable photographs is stated"
_WHATEVER = "share of photographs with this true reason on which the model abstains, whatever reason it gives"
_RANGE = "mean over models; candidate lists from a range model"
_R_REMARK = "called not significant; which models it is over is not printed, and the eight listed here give 0.375"
_FRAGILE = "15 instructions that ask the same; printed in percentage points"
_UNASKED = "without permission to abstain; printed as 1 to 2 percent"


def published(names: Sequence[str]) -> pl.DataFrame:
    """Reference rows of the papers named.

    Args:
        names: recipe key ``scoring.published`` (known: ``realbirdid``); unknown names give no rows.

    Returns:
        Table ``metrics``: ``dataset`` is the paper, ``model`` as printed, ``value`` null, ``published`` the printed
        number as a share, ``source`` where it stands, ``reason`` what is known of it. Metrics: ``ig``, ``ua_a``; the
        three accuracies; ``abstention_rate`` by ``true_reason`` (whatever reason is given; the right reason is another
        number, of which two are known: ``given_quality``); ``ig`` and ``ua_a`` by ``variant`` plain and range_map;
        spread over prompts; sizes of the data set; r of IG and UA/A.

    >>> published(["realbirdid"]).filter(metric="ig", model="BioCLIP")["published"].to_list()
    [0.689]
    """
    return metric_frame(_rows() if REALBIRDID in names else [])


def published_models() -> pl.DataFrame:
    """IG and UA/A of the eight models whose numbers are known: model, kind (encoder or mllm), ig, ua_a (shares), source.

    >>> published_models().height
    8
    """
    rows = [
        (model, "encoder" if i < 4 else "mllm", _share(ig), _share(ua_a), _SECOND if model in _SECOND_IG else _MAIN)
        for i, (model, (ig, ua_a)) in enumerate(_IG_UA_A.items())
    ]
    return pl.DataFrame(rows, schema=["model", "kind", "ig", "ua_a", "source"], orient="row")


def _rows() -> list[dict[str, Any]]:
    rows = []
    for model, (ig, ua_a) in _IG_UA_A.items():
        source = _SECOND if model in _SECOND_IG else _MAIN
        rows.append(_row(model, "ig", _share(ig), source, _IG_REMARK))
        rows.append(_row(model, "ua_a", _share(ua_a), source, _CHANCE, n=N_IMAGES, chance=0.5))
    for model, numbers in _ACCURACY.items():
        source = _SECOND if model in _SECOND_ACCURACY else _ACCURACIES
        for metric, number in zip(_ACCURACY_METRICS, numbers, strict=True):
            n = N_UNANSWERABLE if metric.startswith("ua") else N_ANSWERABLE
            rows.append(_row(model, metric, _share(number), source, n=n))
    for reason, rates in _ABSTAINED.items():
        for model, rate in zip(_REASON_MODELS, rates, strict=True):
            about = {"group": "true_reason", "level": reason}
            rows.append(_row(model, "abstention_rate", rate, _REASONS, _WHATEVER, **about))
    return rows + _text_rows()


def _text_rows() -> list[dict[str, Any]]:
    """Numbers that stand in the text."""
    rows = []
    for level, share in (("quality", 1.0), ("angle", 0.424)):
        remark = "share of abstentions with this true reason that are put down to quality"
        rows.append(_row("Qwen2.5-VL", "given_quality", share, _TEXT, remark, group="true_reason", level=level))
    for metric, numbers in (("ig", (57.2, 88.1)), ("ua_a", (45.8, 47.7))):
        for level, number in zip(("plain", "range_map"), numbers, strict=True):
            about = {"group": "variant", "level": level, "chance": 0.5 if metric == "ua_a" else None}
            rows.append(_row("mean over models", metric, _share(number), _TEXT, _RANGE, **about))
    about = {"group": "prompts", "level": "15 instructions"}
    rows.append(_row("InternVL3", "abstention_rate_sd", 0.101, _TEXT, _FRAGILE, **about))
    for end, share in (("min", 0.03), ("max", 0.23)):
        rows.append(_row("InternVL3", f"abstention_rate_{end}", share, _SECOND, _FRAGILE, **about))
    about = {"group": "prompts", "level": "not_permitted"}
    for end, share in (("min", 0.01), ("max", 0.02)):
        rows.append(_row("MLLMs", f"abstention_rate_{end}", share, _TEXT, _UNASKED, **about))
    sizes = {"n_images": N_IMAGES, "n_answerable": N_ANSWERABLE, "n_unanswerable": N_UNANSWERABLE}
    for metric, size in (sizes | {"n_genera": N_GENERA, "n_species": N_SPECIES}).items():
        rows.append(_row("", metric, float(size), _TEXT))
    rows.append(_row("", "r_ig_ua_a", 0.60, _TEXT, _R_REMARK))
    return rows


def _row(model: str, metric: str, number: float, source: str, remark: str = "", **about: Any) -> dict[str, Any]:
    reason = f"{_NOT_COMPUTED}; {remark}" if remark else _NOT_COMPUTED
    values = {"dataset": REALBIRDID, "model": model, "metric": metric, "method": "published; conventions not stated"}
    return metric_row(**values, published=number, source=source, reason=reason, **about)


def _share(percent: float) -> float:
    return round(percent / 100, 4)
