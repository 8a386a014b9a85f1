"""Image classifiers: inputs, labels, outputs and the probabilities they come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import polars as pl
import pytest
from classifier_cases import (
    COLOURS,
    LABELS,
    colour_classifier,
    colour_tflite,
    expected,
    pictures,
    problem,
    rows,
    run,
    section,
)
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper

from birdlab.errors import BirdlabError, DataError, ParameterError
from birdlab.inference.classifier import dequantise, needs_softmax, softmax
from birdlab.inference.classifier_input import Preparation, Tensor, fit, preparation
from birdlab.inference.classifier_items import cut
from birdlab.inference.classifier_labels import find_labels
from birdlab.inference.weights import find_classifier
from birdlab.recipe import parse_recipe

# ---- inputs


def test_the_recipe_has_what_the_adapter_reads() -> None:
    models = [{"name": "m", "weights": "a.onnx"}]
    content = {
        "name": "x",
        "data": {"media": [{"images": "*.jpg"}]},
        "abstention": {"items": "i.csv", "models": models},
    }
    section_ = parse_recipe(content).abstention
    assert section_ is not None
    (spec,) = section_.models
    assert (spec.crop, spec.layout, spec.softmax, spec.batch, spec.imgsz) == ("squash", "auto", "auto", 1, None)


@pytest.mark.parametrize(
    ("crop", "first_row"),
    [("squash", [0, 255]), ("centre", [0, 255]), ("pad", [7, 7])],
)
def test_crops_of_a_wide_picture(crop: str, first_row: list[int]) -> None:
    # 2 x 4: columns 0 0 255 255; squashed each column pair is averaged, the centre window holds columns 1 and 2.
    image = np.repeat(np.array([[0, 0, 255, 255]] * 2, dtype=np.uint8)[..., None], 3, axis=2)
    fitted = fit(image, (2, 2) if crop != "pad" else (4, 4), crop, (7, 7, 7))
    assert fitted[0, :, 0].tolist()[:2] == first_row
    if crop == "pad":  # two rows of picture between two of margin
        assert fitted[:, 0, 0].tolist() == [7, 0, 0, 7]
        assert fitted[1, :, 0].tolist() == [0, 0, 255, 255]


@given(st.integers(1, 300), st.integers(1, 300), st.tuples(st.integers(1, 40), st.integers(1, 40)), st.integers(0, 255))
def test_any_picture_fits_and_one_colour_stays_so(height: int, width: int, size: tuple[int, int], value: int) -> None:
    image = np.full((height, width, 3), value, dtype=np.uint8)
    for crop in ("squash", "centre", "pad"):
        fitted = fit(image, size, crop, (value,) * 3)
        assert fitted.shape == (*size, 3) and (fitted == value).all()


@given(hnp.arrays(np.float32, (3, 5), elements=st.floats(-1e6, 1e6, width=32)), st.floats(-5, 5))
def test_softmax_sums_to_one_and_knows_no_shift(logits: np.ndarray, shift: float) -> None:
    made = softmax(logits)
    assert made.dtype == np.float32 and (made >= 0).all()
    np.testing.assert_allclose(made.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(softmax(logits.astype(np.float64) + shift), made, atol=1e-6)


def test_a_network_for_integers_gets_bytes_or_quantised_values() -> None:
    image = np.array([[[30, 128, 255]]], dtype=np.uint8)  # BGR
    size, u8, i8 = (1, 1), np.dtype(np.uint8), np.dtype(np.int8)
    assert Preparation(size, "NHWC", "squash", u8)(image).tolist() == [[[255, 128, 30]]]
    assert Preparation(size, "NHWC", "squash", i8)(image).tolist() == [[[127, 0, -98]]]
    mean, std = np.full(3, 127.5, np.float32), np.full(3, 127.5, np.float32)
    made = Preparation(size, "NHWC", "squash", u8, mean, std, (1 / 128, 128))(image)
    # (255 - 127.5) / 127.5 = 1 -> 128 + 128, clipped; 0.00392 * 128 = 0.502 -> 1; -0.7647 * 128 = -97.9 -> -98
    assert made.tolist() == [[[255, 129, 30]]]


def test_channels_are_scaled_in_the_order_red_green_blue() -> None:
    spec = section("a", mean=[100, 50, 0], std=[10, 5, 2])
    tensor = Tensor("image", (1, 3, 1, 1), np.dtype(np.float32))
    made = preparation(spec, tensor, "a", [])(np.array([[[6, 60, 120]]], dtype=np.uint8))
    assert made.shape == (3, 1, 1)
    assert made.ravel().tolist() == [2.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("shape", "more", "code"),
    [
        ((1, 3, 8, 3), {}, "bad_layout"),
        ((1, None, 8, 8), {}, "bad_layout"),
        ((1, 3, 8, 8), {"layout": "NHWC"}, "bad_layout"),
        ((1, 1, 8, 8), {}, "bad_input"),
        ((1, 3), {}, "bad_input"),
        ((1, 3, None, None), {}, "no_size"),
        ((1, 3, 8, 8), {"mean": [1.0]}, "bad_value"),
        ((1, 3, 8, 8), {"std": [1, 0, 1]}, "bad_value"),
        ((1, 3, 8, 8), {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}, "bad_scale"),
    ],
)
def test_inputs_that_are_refused(shape: tuple[int | None, ...], more: dict[str, Any], code: str) -> None:
    with pytest.raises(BirdlabError) as error:
        preparation(section("a", **more), Tensor("image", shape, np.dtype(np.float32)), "a.onnx", [])
    problem(error, code)


def test_boxes_are_cut_to_whole_pixels() -> None:
    image = np.arange(60).reshape(4, 5, 3)
    assert cut(image, [-3.0, 1.2, 5.0, 1.0]).shape == (2, 2, 3)
    for box in (
        [5.0, 0.0, 2.0, 2.0],
        [1.0, 1.0, 0.0, 2.0],
        [float("nan"), 0.0, 1.0, 1.0],
        [0.0, 0.0, 1.0, float("inf")],
    ):
        with pytest.raises(DataError, match="with area inside the picture of 5 x 4 px"):
            cut(image, box)


# ---- outputs


def test_softmax_is_decided_or_asked_for() -> None:
    real, quantised = (
        Tensor("o", (1, 4), np.dtype(np.float32)),
        Tensor("o", (1, 200), np.dtype(np.uint8), (1 / 256, 0)),
    )
    whole = np.array([[0.5, 0.5, 0, 0], [0.2, 0.3, 0.1, 0.4]], dtype=np.float32)
    assert needs_softmax(whole, "auto", real, "a")[0] is False
    assert needs_softmax(np.log(whole + 1e-9), "auto", real, "a")[0] is True
    assert needs_softmax(whole * 3, "no", real, "a")[0] is False
    with pytest.raises(ParameterError, match="rows sum to 0.5 to 0.5"):
        needs_softmax(whole / 2, "auto", real, "a")
    # 200 labels, each rounded to 1/256: a sum of 0.7 is rounding, one of 1.5 is none.
    rounded = np.full((1, 200), 0.7 / 200, dtype=np.float32)
    assert needs_softmax(rounded, "auto", quantised, "a")[0] is False
    with pytest.raises(ParameterError, match="sum to 1.5"):
        needs_softmax(rounded / 0.7 * 1.5, "auto", quantised, "a")
    with pytest.raises(DataError, match="no numbers"):
        needs_softmax(np.full((1, 4), np.nan, np.float32), "auto", real, "a")


def test_integers_become_real_numbers_by_their_scale() -> None:
    tensor = Tensor("o", (1, 3), np.dtype(np.int8), (1 / 256, -128))
    assert dequantise(np.array([[-128, 0, 127]], np.int8), tensor).tolist() == [[0.0, 0.5, 255 / 256]]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("end", ["Softmax", "Identity"])
@pytest.mark.parametrize("batch", [1, 3, "n"])
def test_probabilities_are_those_of_numpy(tmp_path: Path, layout: str, end: str, batch: int | str) -> None:
    colour_classifier(tmp_path / "net.onnx", layout=layout, end=end, batch=batch)
    made = run(tmp_path, pictures(tmp_path), batch=3)
    frame = rows(made)
    assert frame.columns == ["item_id", *LABELS]
    assert frame.dtypes[1:] == [pl.Float32] * 4
    assert frame["item_id"].to_list() == list(COLOURS)
    np.testing.assert_allclose(frame.drop("item_id").to_numpy(), expected(list(COLOURS.values())), atol=2e-6)
    said = made.notices["message"].to_list()
    assert any(("logits: softmax was applied" if end == "Identity" else "probabilities already") in m for m in said)
    assert any("fed values from 0 to 255" in m for m in said)
    assert made.speed["n_frames"].to_list() == [4, 4]


def test_mean_and_std_reach_the_network(tmp_path: Path) -> None:
    colour_classifier(tmp_path / "net.onnx")
    mean, std = np.array([10.0, 20.0, 30.0]), np.array([2.0, 4.0, 5.0])
    made = rows(run(tmp_path, pictures(tmp_path), mean=mean.tolist(), std=std.tolist()))
    want = expected((np.array(list(COLOURS.values())) - mean) / std)
    np.testing.assert_allclose(made.drop("item_id").to_numpy(), want, atol=2e-6)


@pytest.mark.parametrize("dtype", [TensorProto.UINT8, TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_types_of_input(tmp_path: Path, dtype: int) -> None:
    colour_classifier(tmp_path / "net.onnx", dtype=dtype)
    made = rows(run(tmp_path, pictures(tmp_path)))
    np.testing.assert_allclose(made.drop("item_id").to_numpy(), expected(list(COLOURS.values())), atol=2e-6)


def test_a_side_left_open_is_that_of_the_recipe(tmp_path: Path) -> None:
    colour_classifier(tmp_path / "net.onnx", size="side")
    made = run(tmp_path, pictures(tmp_path), imgsz=16)
    assert made.speed["imgsz"].to_list() == [16, 16]
    np.testing.assert_allclose(rows(made).drop("item_id").to_numpy(), expected(list(COLOURS.values())), atol=2e-6)
    with pytest.raises(ParameterError) as error:
        run(tmp_path, pictures(tmp_path))
    assert "say imgsz" in problem(error, "no_size").lower()


def test_scores_that_are_neither_are_kept_when_asked(tmp_path: Path) -> None:
    colour_classifier(tmp_path / "net.onnx", end="Sigmoid")
    with pytest.raises(ParameterError) as error:
        run(tmp_path, pictures(tmp_path))
    problem(error, "unclear_scores")
    made = run(tmp_path, pictures(tmp_path), softmax="no")
    want = expected(list(COLOURS.values()), "Sigmoid")
    np.testing.assert_allclose(rows(made).drop("item_id").to_numpy(), want, atol=2e-6)
    noted = made.notices.filter(pl.col("code") == "row_sums")
    assert noted["n"].to_list() == [4]
    assert f"from {want.sum(axis=1).min():.3f} to {want.sum(axis=1).max():.3f}" in noted["message"][0]


def test_a_box_is_looked_at_alone(tmp_path: Path) -> None:
    colour_classifier(tmp_path / "net.onnx")
    image = np.zeros((40, 60, 3), dtype=np.uint8)
    image[10:20, 30:50] = COLOURS["blue"][::-1]
    cv2.imwrite(str(tmp_path / "a.png"), image)
    items = pl.DataFrame(
        {
            "item_id": ["box", "whole", "outside"],
            "image": ["a.png"] * 3,
            "x": [30.0, None, 60.0],
            "y": [10.0, None, 0.0],
            "w": [20.0, None, 5.0],
            "h": [10.0, None, 5.0],
        }
    )
    made = run(tmp_path, items)
    want = expected([COLOURS["blue"], np.array(COLOURS["blue"]) / 12])
    frame = rows(made)
    assert frame["item_id"].to_list() == ["box", "whole"]
    np.testing.assert_allclose(frame[:, 1:].to_numpy()[0], want[0], atol=2e-6)
    np.testing.assert_allclose(frame[:, 1:].to_numpy()[1], want[1], atol=0.01)
    assert made.failures.select("item_id", "stage").rows() == [("outside", "read")]


def test_pictures_are_turned_upright(tmp_path: Path) -> None:
    from PIL import Image

    colour_classifier(tmp_path / "net.onnx")
    stored = np.zeros((8, 16, 3), dtype=np.uint8)
    stored[:, :8] = COLOURS["red"]  # left half; lying on its side, so upright it is the top half
    exif = Image.Exif()
    exif[274] = 6
    Image.fromarray(stored).save(tmp_path / "a.png", exif=exif)
    box = {"x": [0.0], "y": [0.0], "w": [8.0], "h": [8.0]}
    made = rows(run(tmp_path, pl.DataFrame({"item_id": ["a"], "image": ["a.png"], **box})))
    np.testing.assert_allclose(made[:, 1:].to_numpy(), expected([COLOURS["red"]]), atol=2e-6)


# ---- TFLite


@pytest.mark.parametrize("end", ["SOFTMAX", ""])
@pytest.mark.parametrize("batch", [1, -1])
def test_float_tflite_is_numpy(tmp_path: Path, end: str, batch: int) -> None:
    colour_tflite(tmp_path / "net.tflite", end=end, batch=batch)
    made = run(tmp_path, pictures(tmp_path), "net.tflite", batch=3)
    np.testing.assert_allclose(rows(made).drop("item_id").to_numpy(), expected(list(COLOURS.values())), atol=2e-6)
    said = made.notices["message"].to_list()
    assert any("takes 1 at a time" in m for m in said) == (batch == 1)
    assert made.speed["batch"].to_list() == [1 if batch == 1 else 3] * 2
    assert made.speed["precision"].to_list() == ["fp32", "fp32"]


def test_tflite_with_open_sides(tmp_path: Path) -> None:
    colour_tflite(tmp_path / "net.tflite", side=-1)
    made = run(tmp_path, pictures(tmp_path), "net.tflite", imgsz=12)
    np.testing.assert_allclose(rows(made).drop("item_id").to_numpy(), expected(list(COLOURS.values())), atol=2e-6)


@pytest.mark.parametrize("end", ["SOFTMAX", ""])
@pytest.mark.parametrize("mean", [None, [0.0, 0.0, 0.0]])
def test_int8_tflite_is_numpy_within_its_steps(tmp_path: Path, end: str, mean: list[float] | None) -> None:
    # Without mean and std the bytes minus 128; with them the value itself, quantised at scale 1, zero point -128.
    colour_tflite(tmp_path / "net.tflite", kind="INT8", end=end)
    made = run(tmp_path, pictures(tmp_path), "net.tflite", mean=mean)
    got = rows(made).drop("item_id").to_numpy()
    # Logits are rounded to 1/8, at most 0.0625 off (and weights to 1/127 of the largest): 4 p (1 - p) / 4 < 0.05.
    np.testing.assert_allclose(got, expected(list(COLOURS.values())), atol=0.05)
    assert (got.argmax(axis=1) == [0, 1, 2, 3]).all()
    if end:
        assert (got * 256 == np.rint(got * 256)).all()
    assert made.speed["precision"].to_list() == ["int8", "int8"]


def test_tflite_of_unknown_operators(tmp_path: Path) -> None:
    colour_tflite(tmp_path / "net.tflite", end="CUSTOM")
    with pytest.raises(DataError) as error:
        run(tmp_path, pictures(tmp_path), "net.tflite")
    text = problem(error, "bad_tflite")
    assert "Magic" in text and "own operators" in text


def test_tflite_whose_names_are_no_text(tmp_path: Path) -> None:
    path = colour_tflite(tmp_path / "net.tflite")
    content = path.read_bytes()
    assert content.count(b"image") == 1
    path.write_bytes(content.replace(b"image", b"ima\xca!"))
    with pytest.raises(DataError) as error:
        run(tmp_path, pictures(tmp_path), "net.tflite")
    problem(error, "bad_tflite")


# ---- several outputs, labels


def test_the_output_that_fits_the_labels_is_taken(tmp_path: Path) -> None:
    colour_classifier(tmp_path / "net.onnx", extra="feature")
    made = rows(run(tmp_path, pictures(tmp_path)))
    np.testing.assert_allclose(made.drop("item_id").to_numpy(), expected(list(COLOURS.values())), atol=2e-6)


def test_outputs_and_labels_that_do_not_fit(tmp_path: Path) -> None:
    colour_classifier(tmp_path / "net.onnx", extra="twin")
    with pytest.raises(DataError) as error:
        run(tmp_path, pictures(tmp_path))
    assert "scores (? x 4), logits (? x 4)" in problem(error, "many_outputs")
    colour_classifier(tmp_path / "net.onnx")
    (tmp_path / "net.labels.txt").write_text("a\nb\nc\n")
    with pytest.raises(DataError) as error:
        run(tmp_path, pictures(tmp_path))
    assert "4 scores per picture and 3 labels" in problem(error, "label_count")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"a\n\nb\nc", "line 2"),
        (b"a\nb\na\nc", "'a' again (first in line 1)"),
        (b"a\nitem_id\nb\nc", "'item_id', the name of a column"),
        (b"", "no label"),
        (b"a\n\xff\n", "not UTF-8"),
    ],
)
def test_labels_that_are_refused(tmp_path: Path, content: bytes, found: str) -> None:
    colour_classifier(tmp_path / "net.onnx")
    (tmp_path / "mine.txt").write_bytes(content)
    with pytest.raises(DataError) as error:
        run(tmp_path, pictures(tmp_path), labels="mine.txt")
    assert found in str(error.value) and "mine.txt" in str(error.value)


def test_where_labels_are_looked_for(tmp_path: Path) -> None:
    path = colour_classifier(tmp_path / "net.onnx")
    (tmp_path / "mine.txt").write_bytes(b"\xef\xbb\xbfA \r\nB\r\n\x85C\r\nD\r\n\r\n")
    (tmp_path / "labels.txt").write_text("p\nq\nr\ns")

    def found(given: str | None = None) -> list[str]:
        weights = find_classifier(section("net.onnx"), tmp_path, tmp_path)
        return find_labels(given, weights, tmp_path, tmp_path, where="m")

    with pytest.raises(DataError):  # \x85 alone is no UTF-8
        found("mine.txt")
    (tmp_path / "mine.txt").write_bytes(b"\xef\xbb\xbfA \r\nB\r\n\xe2\x80\xa8C\r\nD\r\n\r\n")
    assert found("mine.txt") == ["A", "B", "C", "D"]
    assert found() == LABELS
    (tmp_path / "net.labels.txt").unlink()
    assert found() == ["p", "q", "r", "s"]
    proto = onnx.load(str(path))
    helper.set_model_props(proto, {"names": "{0: 'w', 1: 'x', 2: 'y', 3: 'z'}"})
    onnx.save(proto, str(path))
    assert found() == ["w", "x", "y", "z"]
    (tmp_path / "labels.txt").unlink()
    colour_classifier(path)
    (tmp_path / "net.labels.txt").unlink()
    with pytest.raises(DataError, match="neither net.labels.txt nor labels.txt"):
        found()
