"""Made photographs to identify, without pixels: their truth, range lists, and three classifiers' probabilities.

The list of birds is real; no bird was looked at. What was planted is written to ``abstention/truth.json``, with areas
counted pair by pair, so that the chapter on abstention can be held against it.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from birdlab.demo.paint import stream
from birdlab.shards import write_atomic, write_parquet

#: The pinned list that names and genera come from.
LIST = "ebird_2024"
#: Genera of the study and the reason that most often keeps their birds from being told apart.
GENERA = {
    "Empidonax": "vocalization", "Contopus": "vocalization", "Sayornis": "quality", "Larus": "angle", "Sterna": "angle",
    "Calidris": "quality", "Corvus": "vocalization", "Catharus": "angle", "Setophaga": "angle", "Spizella": "quality",
    "Accipiter": "quality", "Astur": "angle", "Buteo": "quality", "Vireo": "vocalization", "Aechmophorus": "angle",
    "Junco": "quality", "Mniotilta": "", "Icteria": "",
}  # fmt: skip
REASONS = ("vocalization", "angle", "quality")
SOURCES = ("atlas", "club", "archive")
N_UNANSWERABLE, N_OBSERVERS, N_REGIONS = 9, 14, 4
_SEED = 41
_FIRST_DAY = datetime.date(2020, 4, 1)


@dataclass(frozen=True)
class Sight:
    """How well one made classifier sees.

    Args:
        name: name of the model.
        species: strength of what tells the species.
        genus: strength of what tells the genus.
        blind: part of the species' strength that stays when the photograph cannot be identified: it is then spent on one
            species of the genus, so the model is sure without a ground.
        scale: logits are multiplied by it: small is flat.
        memory: added strength on photographs of the source ``archive``, which the model was trained on.
        suffix: format of its file.
    """

    name: str
    species: float
    genus: float
    blind: float
    scale: float
    memory: float
    suffix: str


SIGHTS = (
    Sight("flat", 2.2, 2.0, 0.9, 0.12, 0.0, "npy"),
    Sight("sharp-small", 2.2, 1.7, 0.55, 1.5, 0.0, "parquet"),
    Sight("sharp-large", 2.8, 2.1, 1.1, 1.8, 1.5, "feather"),
)


@dataclass(frozen=True)
class Study:
    """The made photographs, with what only their maker knows.

    Args:
        items: table ``items``, one row per photograph.
        species: names of all species of the genera, sorted by name.
        genera: genus of each species, the same order.
        common: English name of each species.
        shown: index of the species that each photograph is of, whether it can be told or not.
        clarity: how much of the species' marks shows, 0 and up.
    """

    items: pl.DataFrame
    species: list[str]
    genera: list[str]
    common: dict[str, str]
    shown: np.ndarray
    clarity: np.ndarray


def make_items() -> Study:
    """The photographs: every species of each genus one to three times, and nine unanswerable ones per genus of several."""
    rng = stream(_SEED, 0)
    birds = _birds()
    species, genera = birds["scientific_name"].to_list(), birds["genus"].to_list()
    rows: list[dict[str, Any]] = []
    shown: list[int] = []
    for s in range(len(species)):
        for _ in range(1 + int(rng.binomial(2, 0.28))):
            shown.append(s)
            rows.append({"genus": genera[s], "species": species[s], "is_answerable": True, "reasons": []})
    for genus, often in GENERA.items():
        members = [s for s, g in enumerate(genera) if g == genus]
        for k in range(N_UNANSWERABLE if often else 0):
            first = often if k < 5 else REASONS[(REASONS.index(often) + 1 + k % 2) % 3]
            reasons = [first] if k != 4 else sorted({first, "angle", "quality"} - {"vocalization"} | {first})
            shown.append(int(rng.choice(members)))
            rows.append({"genus": genus, "species": None, "is_answerable": False, "reasons": reasons})
    facts = _circumstances(rows, shown, species, genera)
    ids = [f"photo-{i:04d}" for i in range(len(rows))]
    items = pl.DataFrame(
        [{"item_id": i, **row, **fact} for i, row, fact in zip(ids, rows, facts, strict=True)],
        schema_overrides={"reasons": pl.List(pl.String), "candidates": pl.List(pl.String)},
    )
    clear = rng.uniform(0.35, 1.45, len(rows))
    common = dict(birds.select("scientific_name", "common_name").iter_rows())
    return Study(items, species, genera, common, np.array(shown), clear)


def _birds() -> pl.DataFrame:
    """Species of the genera with English names, from the pinned list, sorted by name."""
    from birdlab.readers.taxonomy import read_taxonomy

    taxa = read_taxonomy(LIST).taxa.filter(pl.col("rank").cast(pl.String) == "species")
    chosen = taxa.filter(pl.col("parent_id").is_in(list(GENERA)))
    return chosen.select("scientific_name", "common_name", genus="parent_id").sort("scientific_name")


def _circumstances(
    rows: list[dict[str, Any]], shown: list[int], species: list[str], genera: list[str]
) -> list[dict[str, Any]]:
    """Observation, observer, day, source and the range list of each photograph."""
    rng = stream(_SEED, 1)
    inside = rng.random((N_REGIONS, len(species))) < 0.45
    facts: list[dict[str, Any]] = []
    for i, row in enumerate(rows):
        same = i and row["is_answerable"] and shown[i] == shown[i - 1] and rng.random() < 0.5
        if same:
            facts.append(dict(facts[-1]))
            continue
        region = int(rng.integers(N_REGIONS))
        here = {species[s] for s in np.flatnonzero(inside[region])} | {species[shown[i]]}
        if rng.random() < 0.03 and row["is_answerable"]:
            here.discard(species[shown[i]])  # the range map is wrong: the bird was out of its range
        facts.append(
            {
                "observation_id": f"observation-{i:04d}",
                "observer_id": f"observer-{int(rng.integers(N_OBSERVERS)) + 1:02d}",
                "date": _FIRST_DAY + datetime.timedelta(days=int(rng.integers(1600))),
                "source": SOURCES[int(rng.integers(len(SOURCES)))],
                "candidates": sorted(here) if rng.random() < 0.9 else None,
            }
        )
    return facts


def probabilities(study: Study, sight: Sight) -> np.ndarray:
    """Made softmax probabilities, (photographs, species) float32; rows sum to 1."""
    rng = stream(_SEED, 2, [s.name for s in SIGHTS].index(sight.name))
    n, n_species = len(study.shown), len(study.species)
    genus_code = np.unique(study.genera, return_inverse=True)[1]
    answerable = study.items["is_answerable"].to_numpy()
    logits = rng.normal(0, 1, (n, n_species)) + rng.normal(0, 0.8, (n, genus_code.max() + 1))[:, genus_code]
    logits += sight.genus * (genus_code[study.shown][:, None] == genus_code[None, :])
    strength = sight.species * np.where(answerable, study.clarity, 0.0)
    strength += np.where(answerable & (study.items["source"] == "archive").to_numpy(), sight.memory, 0.0)
    rows = np.arange(n)
    logits[rows, study.shown] += strength
    for i in np.flatnonzero(~answerable):  # sure of one of them, for no reason in the photograph
        fancied = rng.choice(np.flatnonzero(genus_code == genus_code[study.shown[i]]))
        logits[i, fancied] += sight.blind * sight.species * study.clarity[i]
    logits *= sight.scale
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (p / p.sum(axis=1, keepdims=True)).astype(np.float32)


def write_identification(out: Path) -> list[str]:
    """Write ``abstention/`` of the demo study: items, three probability files, answers of three models, the truth.

    Returns:
        Paths written, relative to ``out``.
    """
    from birdlab.demo.say import write_answers

    study = make_items()
    folder = out / "abstention"
    folder.mkdir(parents=True, exist_ok=True)
    flat = study.items.with_columns(pl.col("reasons", "candidates").list.join("|"))
    write_atomic(folder / "items.csv", lambda temporary: flat.write_csv(temporary))
    names = ["items.csv"]
    truth: dict[str, Any] = {"made": True, "list": LIST, **_counts(study), "models": {}}
    for sight in SIGHTS:
        p = probabilities(study, sight)
        names += _write_matrix(folder, sight, p, study)
        truth["models"][sight.name] = areas_by_hand(p, study)
    answered, planted = write_answers(folder, study)
    truth["answers"] = planted
    text = json.dumps(truth, indent=1, ensure_ascii=False) + "\n"
    write_atomic(folder / "truth.json", lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return [f"abstention/{name}" for name in [*names, *answered, "truth.json"]]


def _write_matrix(folder: Path, sight: Sight, p: np.ndarray, study: Study) -> list[str]:
    ids = study.items["item_id"].to_list()
    name = f"{sight.name}.{sight.suffix}"
    if sight.suffix == "npy":

        def save(temporary: Path) -> None:
            with temporary.open("wb") as stream_:
                np.save(stream_, p)

        write_atomic(folder / name, save)
        for kind, lines in (("ids", ids), ("labels", study.species)):
            text = "\n".join(lines) + "\n"
            path = folder / f"{sight.name}.{kind}.txt"
            write_atomic(path, lambda temporary, text=text: temporary.write_text(text, encoding="utf-8"))
        return [name, f"{sight.name}.ids.txt", f"{sight.name}.labels.txt"]
    # Rows in another order than the items': what belongs together is found by name.
    order = stream(_SEED, 3).permutation(len(ids))
    frame = pl.DataFrame({"item_id": [ids[i] for i in order]})
    frame = frame.with_columns(pl.Series(s, p[order, j]) for j, s in enumerate(study.species))
    if sight.suffix == "parquet":
        write_parquet(folder / name, frame)
    else:
        write_atomic(folder / name, lambda temporary: frame.write_ipc(temporary))
    return [name]


def _counts(study: Study) -> dict[str, Any]:
    items = study.items
    listed = items.filter(pl.col("candidates").is_not_null() & pl.col("is_answerable"))
    dropped = listed.filter(~pl.col("candidates").list.contains(pl.col("species"))).height
    reasons = items.explode("reasons").drop_nulls("reasons").group_by("reasons").len().sort("reasons")
    return {
        "n_items": items.height,
        "n_answerable": int(items["is_answerable"].sum()),
        "n_species": len(study.species),
        "n_genera": len(set(study.genera)),
        "n_listed_answerable": listed.height,
        "n_list_drops_truth": dropped,
        "reasons": dict(reasons.iter_rows()),
    }


def areas_by_hand(p: np.ndarray, study: Study) -> dict[str, float]:
    """UA/A pair by pair and IG threshold by threshold, as their definitions say and as slowly."""
    genus_code = np.unique(study.genera, return_inverse=True)[1]
    answerable = study.items["is_answerable"].to_numpy()
    p = p.astype(np.float64)
    by_genus = np.stack([p[:, genus_code == g].sum(axis=1) for g in range(genus_code.max() + 1)], axis=1)
    m, big = p.max(axis=1), by_genus.max(axis=1)
    u = 1 - m
    wins = [1.0 * (a < b) + 0.5 * (a == b) for a in u[answerable] for b in u[~answerable]]
    right = p.argmax(axis=1) == study.shown
    genus_right = by_genus.argmax(axis=1) == genus_code[study.shown]
    xs, ys, rows = [0.0], [1.0], np.flatnonzero(answerable)
    for t in np.unique(np.concatenate([m[rows], big[rows]]))[::-1]:
        says_species, says_genus = m[rows] >= t, (m[rows] < t) & (big[rows] >= t)
        xs.append(float(np.mean(1.0 * says_species + 0.5 * says_genus)))
        ys.append(float(np.mean(np.where(says_species, right[rows], np.where(says_genus, genus_right[rows], True)))))
    return {
        "ua_a": float(np.mean(wins)),
        "ig": float(np.trapezoid(ys, xs)),
        "a_species_accuracy": float(right[answerable].mean()),
        "a_genus_accuracy": float(genus_right[answerable].mean()),
        "ua_genus_accuracy": float(genus_right[~answerable].mean()),
    }
