"""Do people and machines name the same on the same pictures, where a package holds both?"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from birdlab.individuals.agreement import kappa
from birdlab.individuals.jackknife import leave_one_out
from birdlab.readers.camtrap import Camtrap

CONSTANT = "both name everything the same: chance agreement is 1"


def machine_agreement(camtrap: Camtrap) -> dict[str, Any]:
    """Cohen's kappa of people and machines over media that both labelled.

    The label of a medium is its species, or the type where it has none (blank, human); several are put together in
    alphabetical order.

    Args:
        camtrap: the package.

    Returns:
        computed, reason (why not, with counts), n_media (labelled by both), n_human and n_machine (by one alone),
        n_untold (by nobody, or by a method that is not told), observed, expected, kappa and its 95 % interval lo, hi over
        locations (leave one out).
    """
    labelled = camtrap.observations.filter((pl.col("level") == "media") & (pl.col("type") != "unclassified"))
    word = pl.when(pl.col("type") == "animal").then(pl.coalesce("species", "type")).otherwise(pl.col("type"))
    labels = (
        labelled.filter(pl.col("method").is_not_null())
        .group_by("media_id", "deployment_id", "method")
        .agg(word.unique().sort().str.join("+").alias("label"))
    )
    by = {m: labels.filter(pl.col("method") == m).drop("method") for m in ("human", "machine")}
    both = by["human"].join(by["machine"].select("media_id", machine="label"), on="media_id").sort("media_id")
    n = {m: by[m].height - both.height for m in by}
    total = camtrap.media.height
    counts = {"n_media": both.height, "n_human": n["human"], "n_machine": n["machine"]}
    counts["n_untold"] = total - both.height - n["human"] - n["machine"]
    names = ("observed", "expected", "kappa", "lo", "hi")
    if both.is_empty():
        reason = (
            f"none of {total:,} media is labelled by a person and by a machine: {n['human']:,} by people alone, "
            f"{n['machine']:,} by a machine alone, {counts['n_untold']:,} by none or by a method that is not told"
        )
        return {"computed": False, "reason": reason, **counts, **dict.fromkeys(names)}
    where = camtrap.deployments.select("deployment_id", place=pl.coalesce("location_id", "deployment_id"))
    both = both.join(where, on="deployment_id", how="left", maintain_order="left")
    a, b, place = (both[c].to_numpy() for c in ("label", "machine", "place"))
    value, observed, expected = kappa(a, b)
    places = np.unique(place)

    def without(used: np.ndarray) -> float | None:
        keep = np.isin(place, places[used])
        return kappa(a[keep], b[keep])[0]

    lo, hi, reason = (None, None, CONSTANT) if value is None else leave_one_out(without, len(places), unit="location")
    values = (observed, expected, value, lo, None if hi is None else min(1.0, hi))
    return {"computed": value is not None, "reason": reason, **counts, **dict(zip(names, values, strict=True))}


def individuals_told(camtrap: Camtrap) -> tuple[int, int]:
    """Observations of animals that name the individual, and all of them."""
    animals = camtrap.observations.filter((pl.col("type") == "animal") & pl.col("species").is_not_null())
    return animals["individual_id"].count(), animals.height
