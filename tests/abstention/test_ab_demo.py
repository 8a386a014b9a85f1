"""What the chapter on abstention finds in the demo is what was planted there (``abstention/truth.json``)."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import birdlab as bl
from birdlab.study import Run

pytestmark = pytest.mark.slow
CLASSIFIERS, SPEAKERS = ("flat", "sharp-small", "sharp-large"), ("hesitant", "cocksure", "chatty")
PROMPTS = [("hesitant", "may-decline"), ("cocksure", "must-name")] + [
    ("chatty", name) for name in ("plain", "expert", "polite", "list", "bare", "quiz")
]
#: What the chapter shows, in order.
SHOWN = (
    "tab-asked", "fig-tradeoff", "tab-areas", "fig-calibration", "tab-accuracy", "tab-reasons", "fig-confusion",
    "fig-prompts", "tab-prompts", "fig-declined", "tab-declined", "fig-across", "tab-conventions",
)  # fmt: skip


@pytest.fixture(scope="module")
def run(demo_run: Path, project: Path) -> Run:
    return bl.start(str(project / "reports" / "demo.yaml"), str(demo_run), notebook="09_abstention_tests")


@pytest.fixture(scope="module")
def truth(run: Run) -> dict[str, Any]:
    return json.loads((run.data_root / "abstention" / "truth.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def metrics(run: Run) -> pl.DataFrame:
    return run.table("metrics_abstention")


@pytest.fixture(scope="module")
def chapter(demo_run: Path) -> str:
    page = (demo_run / "report.html").read_text(encoding="utf-8")
    return page[page.index('<section id="abstention"') : page.index('<section id="summary"')]


def value(
    metrics: pl.DataFrame, metric: str, model: str, group: str = "all", level: str = "all", method: str = ""
) -> Any:
    key = (pl.col("metric") == metric) & (pl.col("model") == model) & pl.col("published").is_null()
    rows = metrics.filter(key & (pl.col("group") == group) & (pl.col("level") == level))
    rows = rows.filter(pl.col("method").str.starts_with(method)) if method else rows
    assert rows.height == 1, (metric, model, group, level, rows)
    return rows["value"][0]


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_areas_and_accuracies_are_those_counted_pair_by_pair(metrics: pl.DataFrame, truth: dict, model: str) -> None:
    assert set(truth["models"]) == set(CLASSIFIERS)
    for metric in ("ua_a", "ig", "a_species_accuracy", "a_genus_accuracy", "ua_genus_accuracy"):
        assert value(metrics, metric, model) == pytest.approx(truth["models"][model][metric], abs=1e-9), metric


def test_what_was_asked_is_what_was_made(metrics: pl.DataFrame, truth: dict) -> None:
    for name in ("n_items", "n_answerable", "n_species", "n_genera", "n_listed_answerable", "n_list_drops_truth"):
        assert value(metrics, name, "") == truth[name]
    for reason, n in truth["reasons"].items():
        assert value(metrics, "n_unanswerable", "", "true_reason", reason) == n
    share = truth["n_list_drops_truth"] / truth["n_listed_answerable"]
    assert value(metrics, "list_drops_truth", "") == pytest.approx(share, abs=1e-12)
    assert truth["n_list_drops_truth"] > 0


@pytest.mark.parametrize(("model", "prompt"), PROMPTS)
def test_every_answer_is_read_as_it_was_meant(run: Run, truth: dict, model: str, prompt: str) -> None:
    planted = truth["answers"][model][prompt]
    rows = run.table("answers").filter((pl.col("model") == model) & (pl.col("prompt_id") == prompt))
    order = {name: i for i, name in enumerate(run.table("items")["item_id"])}
    found = sorted(rows.to_dicts(), key=lambda r: order[r["item_id"]])
    assert len(found) == len(planted["answers"]) == truth["n_items"]
    wrong = []
    for row, meant in zip(found, planted["answers"], strict=True):
        said = {"decision": row["decision"]}
        if meant["decision"] in ("species", "genus"):
            said["taxon"] = row["taxon_id"]
        if meant["decision"] == "abstain":
            said["reason"] = row["reasons"][0] if row["reasons"] else "none"
        if "confidence" in meant:
            said["confidence"] = row["confidence"]
        if said != meant:
            wrong.append((row["item_id"], row["text"], said, meant))
    assert wrong == []
    assert Counter(r["decision"] for r in found) == planted["decisions"]
    assert {r["permits_abstention"] for r in found} == {planted["permits_abstention"]}


@pytest.mark.parametrize(("model", "prompt"), PROMPTS)
def test_declined_and_right_reasons_are_as_planted(metrics: pl.DataFrame, truth: dict, model: str, prompt: str) -> None:
    planted = truth["answers"][model][prompt]
    method = f"prompt={prompt};"
    for reason, told in planted["by_reason"].items():
        outright = value(metrics, "abstention_rate_outright", model, "true_reason", reason, method)
        assert outright == pytest.approx(told["declined"] / told["n"], abs=1e-12)
        right = value(metrics, "reason_right", model, "true_reason", reason, method)
        both = value(metrics, "abstained_and_right", model, "true_reason", reason, method)
        assert both == pytest.approx(told["reason_right"] / told["n"], abs=1e-12)
        if not told["declined"]:
            assert right is None or right == 0  # a genus stands for a species declined, and gives no reason
    # No species is named: declined, or stopped at the genus.
    n_without = planted["decisions"].get("abstain", 0) + planted["decisions"].get("genus", 0)
    rate = value(metrics, "abstention_rate", model, "prompt", prompt)
    assert rate == pytest.approx(n_without / truth["n_items"], abs=1e-12)


def test_the_wording_matters_most_for_the_model_made_to_heed_it(metrics: pl.DataFrame, truth: dict) -> None:
    rates = [
        (p["decisions"]["abstain"] + p["decisions"]["genus"]) / truth["n_items"]
        for p in truth["answers"]["chatty"].values()
        if p["permits_abstention"]
    ]
    assert len(rates) == 4
    at = ("chatty", "prompts", "permitted")
    assert value(metrics, "abstention_rate_min", *at) == pytest.approx(min(rates))
    assert value(metrics, "abstention_rate_max", *at) == pytest.approx(max(rates))
    assert value(metrics, "abstention_rate_mean", *at) == pytest.approx(sum(rates) / 4)
    spread = (sum((r - sum(rates) / 4) ** 2 for r in rates) / 3) ** 0.5
    assert value(metrics, "abstention_rate_sd", *at) == pytest.approx(spread)
    assert value(metrics, "abstention_rate_difference", "chatty", "prompts", "permission") > 0.05


def test_the_two_that_do_not_state_degrees_are_where_they_were_put(metrics: pl.DataFrame, truth: dict) -> None:
    told = truth["answers"]["hesitant"]["may-decline"]
    assert told["declined_answerable"] / truth["n_answerable"] > 0.5  # it declines too often
    assert value(metrics, "a_species_accuracy", "hesitant") < value(metrics, "a_species_accuracy", "sharp-large")
    assert value(metrics, "abstention_rate", "cocksure", "prompt", "must-name") == 0
    assert value(metrics, "ua_a", "cocksure") == pytest.approx(0.5, abs=0.1)
    assert value(metrics, "ua_a", "hesitant") > value(metrics, "ua_a", "cocksure")


def test_photographs_it_was_trained_on_are_the_easier_ones(run: Run, metrics: pl.DataFrame) -> None:
    """The split by source, against the probabilities themselves."""
    items = run.table("items")
    p = pl.read_ipc(run.data_root / "abstention" / "sharp-large.feather")
    names = [c for c in p.columns if c != "item_id"]
    top = pl.DataFrame({"item_id": p["item_id"], "top": [names[i] for i in p.select(names).to_numpy().argmax(axis=1)]})
    table = items.join(top, on="item_id").with_columns(right=pl.col("top") == pl.col("species"))
    found = {}
    for status, mine in (("contaminated", pl.col("source") == "archive"), ("clean", pl.col("source") != "archive")):
        expected = table.filter(mine & pl.col("is_answerable"))["right"].mean()
        found[status] = value(metrics, "a_species_accuracy", "sharp-large", "contamination", status)
        assert found[status] == pytest.approx(expected, abs=1e-12)
    assert found["contaminated"] - found["clean"] > 0.2
    # The one that has not seen them finds both alike.
    alone = run.table("image_scores").filter(
        (pl.col("model") == "sharp-small") & (pl.col("variant").cast(pl.String) == "plain") & pl.col("is_answerable")
    )
    by = dict(
        alone.join(items.select("item_id", "source"), on="item_id")
        .group_by(pl.col("source") == "archive")
        .agg(pl.col("species_right").mean())
        .iter_rows()
    )
    assert abs(by[True] - by[False]) < 0.1
    assert metrics.filter((pl.col("group") == "contamination") & (pl.col("model") != "sharp-large")).is_empty()


def test_the_larger_model_names_better_and_knows_less(metrics: pl.DataFrame, run: Run) -> None:
    assert value(metrics, "ig", "sharp-large") > value(metrics, "ig", "sharp-small") + 0.1
    assert value(metrics, "ua_a", "sharp-large") < value(metrics, "ua_a", "sharp-small")
    drawn = pl.read_csv(run.dir / "figures" / "fig-across.csv")
    family = drawn.filter(pl.col("family") == "sharp").sort("parameters")
    assert family["model"].to_list() == ["sharp-small", "sharp-large"]
    words = metrics.filter((pl.col("metric") == "r_ig_ua_a") & pl.col("published").is_null())["reason"].item()
    assert "too few models" in words and "no correlation" not in words


def test_the_chapter_is_complete_and_small(demo_run: Path, chapter: str) -> None:
    record = json.loads((demo_run / "run.json").read_text(encoding="utf-8"))
    mine = next(n for n in record["notebooks"] if n["name"] == "09_abstention")
    assert mine["status"] == "complete" and mine["seconds"] > 0 and mine["warnings"] == 0
    assert mine["artefacts"] == list(SHOWN)
    assert re.findall(r'<figure id="((?:tab|fig)-[a-z-]+)"', chapter) == list(SHOWN)
    assert len(chapter.encode()) < 1_000_000
    for name in SHOWN:
        suffixes = ("parquet", "csv", "tex") if name.startswith("tab") else ("png", "svg", "pdf", "csv")
        folder = demo_run / ("tables" if name.startswith("tab") else "figures")
        assert all((folder / f"{name}.{suffix}").stat().st_size for suffix in suffixes)


def test_printed_numbers_stand_apart(chapter: str) -> None:
    rows = re.compile(r"<tr[^>]*>.*?</tr>", re.DOTALL)
    tinted = [
        r for part in re.findall(r'<tbody class="pub">(.*?)</tbody>', chapter, re.DOTALL) for r in rows.findall(part)
    ]
    computed = rows.findall(re.sub(r'<tbody class="pub">.*?</tbody>', "", chapter, flags=re.DOTALL))
    assert len(tinted) >= 10 and all("as printed</small>" in r for r in tinted)
    assert not any("as printed</small>" in r for r in computed)
    for name in (*CLASSIFIERS, *SPEAKERS):
        assert not any(f">{name}<" in r for r in tinted)
    for name in ("Gemini-2.5 Pro", "BioCLIP"):
        assert not any(name in r for r in computed) and any(name in r for r in tinted)


def test_that_it_is_made_is_said_on_the_page(demo_run: Path) -> None:
    page = (demo_run / "report.html").read_text(encoding="utf-8")
    assert "six made models say of them is drawn by lot" in page
    assert "RealBirdID-style" in page


def test_the_summary_tells_who_knows_best(run: Run, metrics: pl.DataFrame) -> None:
    rows = {r["measure"].split(":")[0]: r for r in pl.read_parquet(
        run.dir / "tables" / "tab-summary-abstention.parquet").to_dicts()}  # fmt: skip
    for model in (*CLASSIFIERS, *SPEAKERS):
        assert rows["UA/A"][model] == value(metrics, "ua_a", model)
        assert rows["IG"][model] == value(metrics, "ig", model)
    assert rows["UA/A"]["published"]
