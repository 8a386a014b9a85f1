"""The committed notebooks: through the runner on the demo study, alone by papermill, and as JupyterLab starts them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import polars as pl
import pytest

from birdlab.report.notebook import check_notebook

NOTEBOOKS = (
    "00_data_audit",
    "01_inference",
    "02_detection",
    "02b_comparison",
    "03_difficulty",
    "04_difficulty_model",
    "05_reidentification",
    "06_actions_keypoints_tracking",
    "07_application",
    "08_soundscapes",
    "09_abstention",
    "10_summary",
)


def outputs_of(notebook: nbformat.NotebookNode) -> list[dict]:
    return [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem
)
def test_committed_notebooks_keep_the_house_rules(path):
    assert [str(p) for p in check_notebook(path)] == []
    assert outputs_of(nbformat.read(path, 4)) == []


@pytest.mark.slow
def test_the_demo_runs_to_its_end(demo_run):
    record = json.loads((demo_run / "run.json").read_text())
    assert [n["name"] for n in record["notebooks"]] == list(NOTEBOOKS)
    assert {n["status"] for n in record["notebooks"]} == {"complete"}
    assert record["recipe"]["scoring"]["max_dets"] == 100  # a default, written back
    assert record["scored"] == {"test": 1}


@pytest.mark.slow
def test_the_demo_says_that_it_is_made(demo_run):
    page = (demo_run / "report.html").read_text()
    assert page.lower().count("made") >= 3
    assert "made, not recorded" in page


@pytest.mark.slow
def test_the_demo_is_what_it_promises(demo_run):
    frames, labels = (pl.read_parquet(demo_run / "tables" / f"{name}.parquet") for name in ("frames", "labels"))
    assert frames["video_id"].n_unique() >= 6 and frames["site_id"].n_unique() >= 3
    assert set(frames["width_px"]) == {3840} and set(frames["height_px"]) == {2160}
    assert (frames["label_state"] == "empty").sum() > 0
    share = (labels["w"] * labels["h"] / (3840 * 2160)).median()
    assert share < 0.003
    per_frame = labels.filter(~pl.col("is_ignored")).group_by("frame_id").len()["len"]
    assert per_frame.min() >= 1 and per_frame.max() <= 3


@pytest.mark.slow
def test_demo_scores_equal_pycocotools_on_the_same_files(demo_run, tmp_path):
    """The whole way from frames to numbers, against the reference implementation fed with the made labels and the saved boxes."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    tables = demo_run / "tables"
    metrics = pl.read_parquet(tables / "metrics_detection.parquet")
    predictions = pl.read_parquet(tables / "predictions.parquet")
    truth = json.loads((demo_run / "data" / "labels.json").read_text())
    ids = {image["file_name"]: image["id"] for image in truth["images"]}
    aps = {}
    for model in ("heron", "wren", "dunlin"):
        mine = predictions.filter(pl.col("model") == model)
        results = [
            {
                "image_id": ids[r["frame_id"]],
                "category_id": 1,
                "bbox": [r["x"], r["y"], r["w"], r["h"]],
                "score": r["score"],
            }
            for r in mine.to_dicts()
        ]
        (tmp_path / "gt.json").write_text(json.dumps(truth))
        coco = COCO(str(tmp_path / "gt.json"))
        run = COCOeval(coco, coco.loadRes(results), "bbox")
        run.evaluate()
        run.accumulate()
        run.summarize()
        row = metrics.filter((pl.col("model") == model) & (pl.col("group") == "all"))
        for metric, index in (("ap", 0), ("ap50", 1), ("ap75", 2), ("ar100", 8)):
            assert row.filter(pl.col("metric") == metric)["value"][0] == pytest.approx(run.stats[index], abs=1e-9)
        aps[model] = run.stats[0]
    assert aps["heron"] > aps["dunlin"] > aps["wren"]


@pytest.mark.slow
def test_demo_masks_score_as_pycocotools_says(demo_run, tmp_path):
    """The segmenter's outlines, from the saved predictions to the number in the report."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    tables = demo_run / "tables"
    metrics = pl.read_parquet(tables / "metrics_detection.parquet")
    mine = pl.read_parquet(tables / "predictions.parquet").filter(pl.col("model") == "dunlin")
    truth = json.loads((demo_run / "data" / "labels.json").read_text())
    ids = {image["file_name"]: image["id"] for image in truth["images"]}
    assert mine.height and not mine["mask_rle"].null_count()
    results = [
        {"image_id": ids[f], "category_id": 1, "segmentation": json.loads(rle), "score": score}
        for f, rle, score in mine.select("frame_id", "mask_rle", "score").rows()
    ]
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    coco = COCO(str(tmp_path / "gt.json"))
    run = COCOeval(coco, coco.loadRes(results), "segm")
    run.evaluate()
    run.accumulate()
    run.summarize()
    row = metrics.filter((pl.col("model") == "dunlin") & (pl.col("group") == "all"))
    for metric, index in (("mask_ap", 0), ("mask_ap50", 1)):
        assert row.filter(pl.col("metric") == metric)["value"][0] == pytest.approx(run.stats[index], abs=1e-6)
    assert run.stats[1] > 0.4


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_alone_by_plain_papermill(demo_run, project, tmp_path, name):
    out = tmp_path / "out.ipynb"
    command = [sys.executable, "-m", "papermill", f"notebooks/{name}.ipynb", str(out), "-p", "run_dir", str(demo_run)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    shown = [o for o in outputs_of(nbformat.read(out, 4)) if "text/html" in o.get("data", {})]
    assert len(shown) >= 2


@pytest.mark.slow
def test_alone_without_tables_of_earlier_notebooks(demo_run, project, tmp_path):
    """The summary asks for the tables it needs; they are made, with the finished pieces of inference used again."""
    run = tmp_path / "demo"
    run.mkdir()
    for folder in ("data", "shards"):
        shutil.copytree(demo_run / folder, run / folder)
    times = {p: p.stat().st_mtime_ns for p in (run / "shards").rglob("*.parquet")}
    command = [
        sys.executable,
        "-m",
        "papermill",
        "notebooks/10_summary.ipynb",
        str(tmp_path / "o.ipynb"),
        "-p",
        "run_dir",
        str(run),
    ]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert {p: p.stat().st_mtime_ns for p in (run / "shards").rglob("*.parquet")} == times
    key = ["model", "group", "level", "metric", "method"]
    old, new = (
        pl.read_parquet(d / "tables" / "metrics_detection.parquet").filter(~pl.col("metric").str.starts_with("fps"))
        for d in (demo_run, run)
    )
    assert new.sort(key).equals(old.sort(key))


@pytest.mark.slow
def test_top_to_bottom_from_the_notebooks_folder(demo_run, project):
    """JupyterLab starts a kernel in the notebook's own folder; the recipe is found from there."""
    from nbclient import NotebookClient

    notebook = nbformat.read(project / "notebooks" / "02_detection.ipynb", 4)
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", []):
            cell.source = cell.source.replace('run_dir: str = ""', f"run_dir: str = {str(demo_run)!r}")
    NotebookClient(notebook, resources={"metadata": {"path": str(project / "notebooks")}}, timeout=300).execute()
    errors = [o for o in outputs_of(notebook) if o.output_type == "error"]
    assert errors == []
