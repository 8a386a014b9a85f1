"""A small run folder with executed notebooks, made without a kernel: cells call the real show functions in this process."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from birdlab.recipe import parse_recipe
from birdlab.report import show
from birdlab.report.show import Box, Col, Panel, m
from birdlab.study import Run

HOSTILE = "<img src=x onerror=alert(1)>"
QUOTED = 'nest "7" & <b>sons</b>.jpg'
RECIPE = {
    "name": "feeder",
    "title": "Feeder, spring",
    "description": "Three detectors on frames of a feeder.",
    "data": {"root": "data", "made": True, "media": [{"images": "*.jpg"}]},
    "models": [
        {"name": "heron", "weights": "heron.pt"},
        {"name": "wren", "weights": "wren.onnx"},
        {"name": HOSTILE, "predictions": "x.json"},
    ],
    "notebooks": ["00_data_audit", "02_detection", "10_summary"],
}


def recipe(**changes: Any) -> Any:
    return parse_recipe({**RECIPE, **changes})


def open_run(folder: Path, notebook: str, **changes: Any) -> Run:
    """A run whose recipe file need not exist."""
    run = Run(recipe(**changes), folder.parent / "feeder.yaml", folder, notebook)
    show.begin(run)
    return run


def jpeg(width: int = 300, height: int = 200, colour: tuple[int, int, int] = (90, 120, 150)) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(out, format="JPEG", quality=80)
    return out.getvalue()


def detection_frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "model": ["heron", "wren", HOSTILE],
            "model_note": ["larger", "smaller", QUOTED],
            "ap": [0.4621, 0.3712, 0.1584],
            "ap_lo": [0.437, 0.345, 0.129],
            "ap_hi": [0.486, 0.396, 0.186],
            "ap_small": [None, None, None],
            "ap_small_reason": ["no bird is below 32² px"] * 3,
            "recall": [0.896, 0.802, 0.241],
            "ms": [178.0, 24.3, 82.6],
            "n": [1618, 1618, 1618],
        },
        schema_overrides={"ap_small": pl.Float64},
    )


COLUMNS = {
    "ap": Col("AP", "IoU .50–.95", "up"),
    "ap_small": Col("AP small", "< 32² px", "up"),
    "recall": Col("Recall", "%, score ≥ .25", "up", kind="percent"),
    "ms": Col("Time", "ms per frame", "down", digits=1),
    "n": Col("Birds", kind="int"),
}
PUBLISHED = pl.DataFrame(
    {"model": ["Reference"], "model_note": ["as published"], "ap": [0.999], "recall": [None]},
    schema_overrides={"recall": pl.Float64},
)


def draw_curves(frame: pl.DataFrame, narrow: bool, **options: Any) -> Any:
    import matplotlib.pyplot as plt

    from birdlab import style

    figure, axes = plt.subplots()
    for index, name in enumerate(frame["model"].unique(maintain_order=True)):
        part, hue = frame.filter(model=name), style.model_colour(index)
        axes.plot(part["recall"], part["precision"], color=hue.line, ls=hue.dash)
        axes.text(1, 0.9 - 0.12 * index, f"  {name}", color=hue.on_light, weight="bold", parse_math=False)
    axes.set_xlim(0, 1.25)
    axes.set_xlabel("Recall")
    style.label_y(axes, "Precision")
    return figure


def curves_frame() -> pl.DataFrame:
    rows = [
        (name, r / 10, 1 - (r / 10) ** k) for name, k in (("heron", 9), ("wren", 5), (HOSTILE, 2)) for r in range(11)
    ]
    return pl.DataFrame(rows, schema=["model", "recall", "precision"], orient="row")


Cell = tuple[str, str] | tuple[str, str, list[Any]]


def notebook(cells: list[dict[str, Any]]) -> dict[str, Any]:
    return {"cells": cells, "metadata": {"kernelspec": {"name": "python3"}}, "nbformat": 4, "nbformat_minor": 5}


def md(source: str, *tags: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": "x", "metadata": {"tags": list(tags)}, "source": source}


def code(source: str, *outputs: Any, tags: tuple[str, ...] = (), status: str = "completed") -> dict[str, Any]:
    """A code cell; an output may be what a show function returned, or a plain output."""
    plain = [
        o
        if isinstance(o, dict)
        else {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": o._repr_mimebundle_()}
        for o in outputs
    ]
    metadata = {"tags": list(tags), "papermill": {"status": status, "exception": status == "failed"}}
    return {
        "cell_type": "code",
        "id": "x",
        "execution_count": 1,
        "metadata": metadata,
        "source": source,
        "outputs": plain,
    }


def stream(text: str, name: str = "stderr") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def display(**data: Any) -> dict[str, Any]:
    return {
        "output_type": "display_data",
        "metadata": {},
        "data": {
            key.replace("__", "/").replace("_", "-") if "__" in key else key: value for key, value in data.items()
        },
    }


def audit(folder: Path, **changes: Any) -> dict[str, Any]:
    run = open_run(folder, "00_data_audit", **changes)
    counts = pl.DataFrame({"split": ["train", "test"], "frames": [120, 40], "birds": [310, 96]})
    cells = [
        md(
            "# Data audit\n\nWhat was recorded, and are the splits clean? Overlap is $\\text{IoU} = \\frac{|A \\cap B|}{|A \\cup B|}$."
        ),
        code('recipe: str = "reports/demo.yaml"', tags=("parameters",)),
        code('import birdlab as bl\nrun = bl.start(recipe, run_dir, notebook="00_data_audit")'),
        code(
            "run.answer(…)", show.answer(run, "Are the splits clean?", "Yes.", "No session appears in two of 2 splits.")
        ),
        code("frames = run.table('frames')"),
        code(
            "run.show_table(counts, …)",
            show.show_table(
                run, counts, id="tab-splits", title="Two splits.", caption="Counts per split; see [[tab-detection]]."
            ),
        ),
        code("run.finish()"),
    ]
    show.finish(run)
    return notebook(cells)


def detection(folder: Path, **changes: Any) -> dict[str, Any]:
    run = open_run(folder, "02_detection", **changes)
    table = show.show_table(
        run,
        detection_frame(),
        id="tab-detection",
        title=f"{m('heron')} leads on every measure but speed.",
        caption="Boxes on 1,240 frames. Small grey: 95 % interval, a new session.",
        columns=COLUMNS,
        published=PUBLISHED,
        model_column="model",
    )
    figure = show.show_figure(
        run,
        draw_curves,
        curves_frame(),
        id="fig-pr",
        title="Precision falls only at the end of each curve.",
        caption=f"Of {HOSTILE}, see [[tab-detection]].",
        alt=f"Precision against recall for three detectors, one called {HOSTILE}.",
        width_in=6.2,
    )
    panels = [
        Panel(
            jpeg(900, 180),
            900,
            180,
            [Box(40, 60, 60, 50, "miss"), Box(300, 70, 40, 45, "hit", "0.91")],
            "**1 of 2 missed.** On a fence",
            QUOTED,
            "full",
        ),
        Panel(jpeg(), 300, 200, [Box(100, 60, 80, 60, "fa", HOSTILE)], QUOTED, "A false alarm"),
        Panel(jpeg(), 300, 200, [], "Outline", "A bird", polygons=[("mask", [(50, 50), (120, 40), (90, 150)])]),
    ]
    gallery = show.show_gallery(
        run, panels, id="gal-errors", title="Misses come in company.", caption="Chosen by hand.", alt="Three pictures"
    )
    cells = [
        md("# Detection\n\nHow many birds does each model find?"),
        code(
            "run.answer(…)",
            show.answer(
                run,
                "How good are the boxes?",
                "Good enough to count.",
                f"{m('heron')} reaches AP 0.462 [0.437, 0.486], {m(HOSTILE)} 0.158.",
            ),
            show.headline(
                run,
                "Average precision",
                0.4621,
                lo=0.437,
                hi=0.486,
                detail=f"{m('heron')}, IoU .50–.95",
                reference=0.424,
            ),
            show.headline(
                run,
                "Birds found",
                89.6,
                lo=83.9,
                hi=94.1,
                unit="%",
                digits=1,
                scale=(0, 100),
                detail="a new session",
                model="heron",
            ),
            show.headline(run, "Small birds", None, reason="no bird is below 32² px", detail="AP small"),
        ),
        md(
            "## Boxes\n\n#### Skipped level\n\nSee [[tab-detection]], [[fig-pr]], [[tab-nowhere]] and {model:wren}. `[[tab-detection]]` stays code."
        ),
        code("matches = run.table('matches')"),
        code("run.show_table(…)", table),
        code(
            "run.show_figure(…)",
            stream("\r 10 %\r100 %\n/opt/env/lib/python3/site-packages/x/y.py:3: UserWarning: careful\n"),
            figure,
        ),
        code("run.show_gallery(…)", gallery),
        code(
            "1 + 1",
            display(text__html="<script>alert(2)</script><b onclick=alert(3)>x</b>", text__plain="safe text & <b>"),
        ),
        code("HTML()", display(text__html="<i>y</i>", text__plain="<IPython.core.display.HTML object>")),
        code(
            "w",
            {
                "output_type": "display_data",
                "metadata": {},
                "data": {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "Widget()"},
            },
        ),
        code("run.note(…)", show.note(run, f"{m('wren')} was not asked about 3 frames.")),
        md("**Limits.** Eight sessions at one feeder carry every interval here."),
        code("run.finish()"),
    ]
    show.finish(run)
    return notebook(cells)


def summary(folder: Path, **changes: Any) -> dict[str, Any]:
    run = open_run(folder, "10_summary", **changes)
    told = show.answer(
        run, "What did we learn?", "The best detector finds nine birds in ten.", "The tenth is small or dark."
    )
    wide = pl.DataFrame(
        {"measure": ["a", "b"], **{f"column_{i}": [None, float(i)] for i in range(10)}},
        schema_overrides={"column_0": pl.Float64},
    )
    shown = show.show_table(
        run,
        wide,
        id="tab-wide",
        title="",
        caption="Many columns.",
        reasons={f"column_{i}": "not measured" for i in range(10)},
    )
    show.finish(run)
    return notebook(
        [md("# Summary"), code("run.answer()", told), code("run.show_table()", shown), code("run.finish()")]
    )


def failed(folder: Path, **changes: Any) -> dict[str, Any]:
    run = open_run(folder, "02_detection", **changes)
    told = show.answer(run, "How good are the boxes?", "Unknown.")
    error = {
        "output_type": "error",
        "ename": "ValueError",
        "evalue": "bad <b>box</b>",
        "traceback": ["\x1b[31mValueError\x1b[0m: " + "/".join(["", "home", "someone", "x/y/z.py"])],
    }
    return notebook(
        [
            md("**This notebook did not run to its end.**", "birdlab-failure"),
            md("# Detection"),
            code("run.answer()", told),
            code('raise ValueError("bad <b>box</b>")', error, status="failed"),
            code("never()", status="pending"),
        ]
    )


def write(folder: Path, notebooks: dict[str, dict[str, Any]], *, failed: str = "", **changes: Any) -> Path:
    """Write notebooks and run.json; ``failed`` names a notebook that did not run to its end."""
    entries = []
    for name in [step for step, _ in recipe(**changes).steps()]:
        error = (
            {"cell": 3, "ename": "ValueError", "evalue": "bad <b>box</b>", "traceback": [], "source": "raise"}
            if name == failed
            else None
        )
        status = "failed" if name == failed else "complete" if name in notebooks else "pending"
        about = {
            "name": name,
            "status": status,
            "seconds": 41.6,
            "finished": "2026-05-02T10:00:00+00:00",
            "parameters": {"n_panels": 6},
            "warnings": 1,
        }
        entries.append({**about, "error": error})
    for name, content in notebooks.items():
        path = folder / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    record = {
        "recipe": recipe(**changes).model_dump(mode="json"),
        "recipe_file": "reports/feeder.yaml",
        "recipe_sha256": "4be1" * 16,
        "versions": {"python": "3.12.1", "birdlab": "0.1.0", "polars": "2.1.0"},
        "git": {"commit": "3f9c2e1" * 5, "dirty": True},
        "inputs": "a90d" * 16,
        "device": "cpu",
        "scored": {"test": 2},
        "notebooks": entries,
    }
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


def complete(folder: Path, *, detect: Callable[..., dict[str, Any]] = detection, **changes: Any) -> Path:
    """A run in which every notebook ended well (or, with ``detect=failed``, one did not)."""
    notebooks = {"00_data_audit": audit(folder, **changes), "02_detection": detect(folder, **changes)}
    if detect is not failed:
        notebooks["10_summary"] = summary(folder, **changes)
    return write(folder, notebooks, failed="02_detection" if detect is failed else "", **changes)
