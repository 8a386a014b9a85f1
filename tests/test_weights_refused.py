"""Files that are given as weights and are no detector: one clear error, no code of theirs run, nobody called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from inference_cases import CELLS, SIZE, bright_spot_detector, constant_detector, make_run, spot_study

from birdlab.errors import DataError
from birdlab.inference import predict, yolox
from birdlab.inference.weights import find_weights
from birdlab.recipe import Model


def _yolox(path: Path) -> yolox.YoloxDetector:
    model = Model(name="m", weights=str(path), imgsz=SIZE)
    return yolox.YoloxDetector(model, find_weights(model, Path(), Path()), "cpu")


def test_a_model_that_answers_with_one_number(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="an output of one number; expected 1 x cells x"):
        _yolox(constant_detector(tmp_path / "c.onnx", np.zeros(())))


@pytest.mark.parametrize("score", [3.0, -1.0, float("nan")])
def test_a_head_without_its_sigmoid_is_refused(tmp_path: Path, score: float) -> None:
    raw = np.zeros((1, CELLS, 7), np.float32)
    raw[0, 3, 5] = score
    with pytest.raises(DataError, match="found scores from .*; expected probabilities from 0 to 1"):
        _yolox(constant_detector(tmp_path / "c.onnx", raw))


def test_class_names_in_another_encoding(tmp_path: Path) -> None:
    path = bright_spot_detector(tmp_path / "s.onnx")
    (tmp_path / "s.txt").write_bytes("mésange\nmerle\n".encode("latin-1"))
    with pytest.raises(DataError, match="expected class names in UTF-8"):
        _yolox(path)


def test_what_onnxruntime_cannot_run_in_ultralytics_is_one_line(tmp_path: Path) -> None:
    path = bright_spot_detector(tmp_path / "s.onnx")
    model = {"name": "m", "weights": str(path), "adapter": "ultralytics", "imgsz": 128}
    run = make_run(spot_study(tmp_path / "p", 1), tmp_path / "run", [model])
    with pytest.raises(DataError, match="a model that fails on a blank image") as caught:
        predict.build(run)
    assert "\n" not in str(caught.value)


def test_an_openvino_folder_without_half_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_text("<net/>")
    with pytest.raises(DataError, match="found an .xml without the .bin beside it"):
        find_weights(Model(name="m", weights=str(tmp_path)), Path(), Path())
    (tmp_path / "m.xml").rename(tmp_path / "m.bin")
    with pytest.raises(DataError, match="found a folder with 0 .xml files"):
        find_weights(Model(name="m", weights=str(tmp_path)), Path(), Path())


def test_openvino_reports_to_nobody(tmp_path: Path) -> None:
    """Its telemetry would send a message at its import and keep a number for this user in the home folder."""
    pytest.importorskip("openvino")
    code = "from birdlab.inference.ultralytics_adapter import _import_openvino as load; print(load().Core.__name__)"
    env = {**{k: v for k, v in os.environ.items() if k not in ("CI", "TF_BUILD", "JENKINS_URL")}, "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.stdout.strip() == "Core", done.stderr
    assert list(tmp_path.iterdir()) == []
