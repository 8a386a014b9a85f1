"""The chapter as it is read: what was planted is what it finds, and strings that would like to be more than text are text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import browser
import numpy as np
import polars as pl
import pytest

import birdlab as bl
from birdlab.demo.identify import write_identification

MODELS = """
abstention:
  items: abstention/items.csv
  models:
    - {name: flat, scores: abstention/flat.npy}
    - {name: sharp-small, scores: abstention/sharp-small.parquet}
    - {name: sharp-large, scores: abstention/sharp-large.feather, card: {sources: [archive], sources_complete: true}}
    - {name: hesitant, answers: abstention/hesitant.jsonl}
    - {name: cocksure, answers: abstention/cocksure.jsonl}
    - {name: chatty, answers: abstention/chatty.jsonl, prompt: plain}
  n_resamples: 200
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Any]]:
    """The made study's tables, and what its maker wrote down."""
    folder = tmp_path_factory.mktemp("planted")
    write_identification(folder)
    (folder / "made.yaml").write_text("name: made\ndata: {root: .}\n" + MODELS, encoding="utf-8")
    run = bl.start(str(folder / "made.yaml"), str(folder / "run"), notebook="09_abstention")
    return run, json.loads((folder / "abstention" / "truth.json").read_text(encoding="utf-8"))


def value(metrics: pl.DataFrame, metric: str, model: str, **at: str) -> float:
    about = {"group": "all", "level": "all"} | at
    return metrics.filter(metric=metric, model=model, **about)["value"].item()


def test_areas_and_accuracies_are_those_counted_pair_by_pair(planted: Any) -> None:
    run, truth = planted
    metrics = run.table("metrics_abstention")
    for model, areas in truth["models"].items():
        for metric, by_hand in areas.items():
            assert value(metrics, metric, model) == pytest.approx(by_hand, abs=1e-12), (model, metric)
    counts = {"n_items": "n_items", "n_answerable": "n_answerable", "n_list_drops_truth": "n_list_drops_truth"}
    assert all(value(metrics, name, "") == truth[key] for name, key in counts.items())


def test_answers_are_read_as_they_were_meant(planted: Any) -> None:
    run, truth = planted
    answers = run.table("answers")
    for model, prompts in truth["answers"].items():
        for prompt, told in prompts.items():
            mine = answers.filter(model=model, prompt_id=prompt)
            read = dict(mine.group_by(pl.col("decision").cast(pl.String)).len().iter_rows())
            assert read == {k: n for k, n in told["decisions"].items() if n}, (model, prompt)
            assert mine["permits_abstention"].unique().to_list() == [told["permits_abstention"]]


def test_reasons_are_counted_as_they_were_given(planted: Any) -> None:
    run, truth = planted
    table = run.table("abstention_reasons")
    for model, prompts in truth["answers"].items():
        for prompt, told in prompts.items():
            for reason, counts in told["by_reason"].items():
                row = table.filter(model=model, prompt_id=prompt, true_reason=reason).row(0, named=True)
                found = {"n": row["n"], "declined": row["n_outright"], "reason_right": row["n_right_reason"]}
                assert found == counts, (model, prompt, reason)
            wrongly = run.table("abstention_wrongly").filter(model=model, prompt_id=prompt, given="all")
            assert wrongly["n_outright"].item() == told["declined_answerable"]


EVIL = [
    "<script>document.title='owned'</script>Common Raven",
    "<img src=x onerror=\"document.title='owned'\">",
    "</td></tr></table><h1 id=owned>gone</h1>",
    "$\\frac{1}{2}$ and $x$",
    "\u202ecorax sorvuC\u202c\u2066",
    "null\u0000byte",
]
LIST = ["Corvus corax", "Corvus corone", "Pica pica"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose ids, names, prompts and answers are hostile, run whole: its folder."""
    folder = tmp_path_factory.mktemp("hostile")
    items = [
        {
            "item_id": f"{i}{EVIL[i % len(EVIL)]}".replace("\u0000", ""),
            "genus": LIST[i % 3].split()[0],
            "species": LIST[i % 3] if i % 4 else None,
            "is_answerable": bool(i % 4),
            "reasons": [] if i % 4 else ["angle"],
            "observer_id": EVIL[i % 5],
        }
        for i in range(24)
    ]
    lines = "".join(json.dumps(item) + "\n" for item in items)
    (folder / "items.jsonl").write_text(lines, encoding="utf-8")
    asked = [
        {
            "item_id": item["item_id"],
            "prompt_id": EVIL[0] + EVIL[2] + EVIL[3],
            "permits_abstention": True,
            "answer": EVIL[i % len(EVIL)],
        }
        for i, item in enumerate(items)
    ]
    asked[7]["answer"] = "I cannot tell, " + EVIL[1]
    (folder / "evil.jsonl").write_text("".join(json.dumps(a) + "\n" for a in asked), encoding="utf-8")
    p = np.random.default_rng(0).dirichlet(np.ones(3), len(items))
    table = pl.DataFrame({"item_id": [i["item_id"] for i in items]}).with_columns(
        pl.Series(name, p[:, j]) for j, name in enumerate(LIST)
    )
    table.write_parquet(folder / "p.parquet")
    models = [{"name": EVIL[1], "answers": "evil.jsonl"}, {"name": "<h1 id=owned>", "scores": "p.parquet"}]
    section = {"items": "items.jsonl", "cluster": "observer", "n_resamples": 100, "models": models}
    recipe = {"name": "evil", "title": EVIL[1], "data": {"root": "."}, "abstention": section}
    (folder / "evil.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    command = [sys.executable, "-m", "birdlab.cli", "run", str(folder / "evil.yaml"), "--out", str(folder / "run")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "run"


def test_hostile_strings_are_text_on_the_page(hostile: Path) -> None:
    page = (hostile / "report.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;" in page and "&lt;img src=x" in page and "&lt;/td&gt;" in page
    bare = re.sub(r"<style.*?</style>|<script>.*?</script>", "", page, flags=re.S)
    assert "<img src=x" not in bare and "<h1 id=owned" not in bare and "document.title='owned'</script>" not in bare
    assert not set("\u202e\u2066\u0000") & set(page)
    assert "<math" not in bare  # a dollar sign in an answer is a dollar sign


@pytest.mark.browser
def test_hostile_strings_do_nothing_in_a_browser(hostile: Path) -> None:
    with browser.launch() as chromium, browser.opened(chromium, hostile / "report.html") as (tab, wrong):
        assert wrong == []
        assert tab.title() != "owned" and tab.locator("#owned").count() == 0
        assert tab.evaluate("[...document.querySelectorAll('*')].filter(e => e.onerror || e.onclick).length") == 0
        assert tab.locator("#tab-declined").count() == 1
