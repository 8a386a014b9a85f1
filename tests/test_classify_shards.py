"""Image classifiers: shards that survive a kill, files that are refused, the real network."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import onnx
import polars as pl
import pytest
from classifier_cases import (
    COLOURS,
    LABELS,
    WEIGHT,
    colour_classifier,
    pictures,
    problem,
    rows,
    run,
    section,
)

from birdlab.errors import DataError, ParameterError
from birdlab.inference import classifier_tflite
from birdlab.inference.classifier import load_classifier
from birdlab.inference.classifier_items import images_of
from birdlab.inference.classify import Classified, Worker, classify
from birdlab.inference.weights import external_files, find_classifier, hash_weights
from birdlab.readers.scores import read_scores

# ---- shards


def test_neither_shards_nor_batches_nor_a_second_run_change_a_bit(tmp_path: Path) -> None:
    colour_classifier(tmp_path / "net.onnx")
    items = pictures(tmp_path, 13)
    one = run(tmp_path, items, to="one", shard_size=100)
    again = run(tmp_path, items, to="again", shard_size=100)
    assert [p.name for p in one.parts] == [p.name for p in again.parts]
    assert [p.read_bytes() for p in one.parts] == [p.read_bytes() for p in again.parts]
    many = run(tmp_path, items, to="many", shard_size=3)
    assert len(many.parts) == 6
    assert rows(many).equals(rows(one))
    shuffled = items.sample(fraction=1, shuffle=True, seed=5)
    assert rows(run(tmp_path, shuffled, to="other", shard_size=4)).sort("item_id").equals(rows(one).sort("item_id"))
    for size in (5, 17):
        batched = rows(run(tmp_path, items, to=f"batch{size}", shard_size=size, batch=4))
        np.testing.assert_allclose(batched[:, 1:].to_numpy(), rows(one)[:, 1:].to_numpy(), atol=1e-6)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    colour_classifier(tmp_path / "net.onnx")
    items = pictures(tmp_path, 8)
    whole = rows(run(tmp_path, items, to="whole", shard_size=3))

    def stop(done: int, _total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, items, shard_size=3, progress=stop)
    done = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("part-*.parquet")}
    assert len(done) == 2
    (folder,) = (tmp_path / "run" / "shards").iterdir()
    broken = sorted(done)[0]
    broken.write_bytes(broken.read_bytes()[:-10])
    (folder / ".part-00003-0.parquet.999999999.tmp").write_bytes(b"half")
    steps: list[tuple[int, int]] = []
    made = run(tmp_path, items, shard_size=3, progress=lambda *step: steps.append(step))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert rows(made).equals(whole)
    assert sorted(done)[1].stat().st_mtime_ns == done[sorted(done)[1]]
    assert not list(folder.glob(".part-*"))
    made.parts[2].with_suffix(".json").unlink()  # without it nobody knows what failed
    steps.clear()
    run(tmp_path, items, shard_size=3, progress=lambda *step: steps.append(step))
    assert steps == [(3, 4), (4, 4)]


def test_a_finished_run_needs_no_network_and_any_change_makes_a_new_one(tmp_path: Path, monkeypatch: Any) -> None:
    colour_classifier(tmp_path / "net.onnx")
    items = pictures(tmp_path)
    first = run(tmp_path, items)
    with monkeypatch.context() as patch:
        patch.setattr("birdlab.inference.classify.load_classifier", None)
        again = run(tmp_path, items)
        assert again.parts == first.parts
        assert again.notices.equals(first.notices) and again.speed.equals(first.speed)
    assert run(tmp_path, items, crop="pad").parts[0].parent != first.parts[0].parent
    (tmp_path / "net.labels.txt").write_text("a\nb\nc\nd\n")
    assert run(tmp_path, items).parts[0].parent != first.parts[0].parent
    (tmp_path / "net.labels.txt").write_text("\n".join(LABELS))
    assert run(tmp_path, items).parts == first.parts
    cv2.imwrite(str(tmp_path / "red.png"), np.zeros((5, 5, 3), np.uint8))
    changed = run(tmp_path, items)
    assert changed.parts != first.parts and changed.parts[0].parent == first.parts[0].parent


def test_what_cannot_be_read_is_counted_and_never_a_row(tmp_path: Path) -> None:
    colour_classifier(tmp_path / "net.onnx")
    items = pictures(tmp_path)
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff no picture")
    more = pl.DataFrame({"item_id": ["gone", "bad", "none"], "image": ["gone.jpg", "bad.jpg", None]})
    made = run(tmp_path, pl.concat([more, items]), shard_size=2)
    assert rows(made)["item_id"].to_list() == list(COLOURS)
    assert made.failures.select("model", "item_id", "stage").rows() == [
        ("m", "gone", "read"),
        ("m", "bad", "read"),
        ("m", "none", "read"),
    ]
    assert pl.read_parquet(made.parts[0]).height == 0  # both of its pictures failed
    noted = made.notices.filter(pl.col("code") == "failed_read")
    assert noted["n"].to_list() == [3]
    assert "photographs could not be read; they have no probabilities" in noted["message"][0]


def test_a_picture_that_gives_no_numbers_fails_alone(tmp_path: Path) -> None:
    colour_classifier(tmp_path / "net.onnx")
    spec, items = section("net.onnx", batch=4), pictures(tmp_path)
    weights = find_classifier(spec, tmp_path, tmp_path)
    classifier = load_classifier(spec, weights, LABELS, "cpu")
    inner = classifier._network
    own = inner.run

    def spoiled(blob: np.ndarray, output: int) -> np.ndarray:
        out = own(blob, output).copy()
        out[blob[:, 2].mean(axis=(1, 2)) > 240] = np.nan
        return out

    inner.run = spoiled  # type: ignore[method-assign]
    images = images_of(items, tmp_path, tmp_path)
    worker = Worker(classifier, images)
    part = worker([[one.item_id, one.sha256, None] for one in images])
    worker.close()
    assert part.frame["item_id"].to_list() == ["red", "green", "dark"]
    assert part.failures == [["blue", "predict", "the network gave values that are no numbers"]]


@pytest.mark.parametrize(
    ("items", "code"),
    [
        ({"item_id": ["a"]}, "no_column"),
        ({"item_id": ["a", "a"], "image": ["x", "y"]}, "double_item"),
        ({"item_id": ["a", None], "image": ["x", "y"]}, "no_item_id"),
        ({"item_id": ["a"], "image": ["x"], "x": [1.0]}, "no_column"),
    ],
)
def test_items_that_are_refused(tmp_path: Path, items: dict[str, Any], code: str) -> None:
    colour_classifier(tmp_path / "net.onnx")
    with pytest.raises(DataError) as error:
        run(tmp_path, pl.DataFrame(items))
    problem(error, code)


def test_no_items_is_no_error(tmp_path: Path) -> None:
    colour_classifier(tmp_path / "net.onnx")
    made = run(tmp_path, pl.DataFrame(schema={"item_id": pl.String, "image": pl.String}))
    assert made.parts == [] and made.failures.height == 0 and made.labels == LABELS


def test_the_parts_are_one_matrix_for_the_reader_of_scores(tmp_path: Path) -> None:
    colour_classifier(tmp_path / "net.onnx")
    gone = pl.DataFrame({"item_id": ["gone", "none"], "image": ["gone.jpg", None]})
    made = run(tmp_path, pl.concat([gone, pictures(tmp_path)]), shard_size=2)
    assert pl.read_parquet(made.parts[0]).is_empty()
    (scores,) = read_scores(made.parts, model="m")
    assert list(scores.labels) == LABELS and list(scores.item_ids) == list(COLOURS)
    matrix = np.concatenate([values for _, values in scores.chunks()])
    np.testing.assert_array_equal(matrix, rows(made)[:, 1:].to_numpy())


# ---- weights that are refused


def test_weights_that_are_refused(tmp_path: Path) -> None:
    items = pictures(tmp_path)
    (tmp_path / "labels.txt").write_text("\n".join(LABELS))
    files = {
        "empty.tflite": (b"", "an empty file"),
        "text.tflite": (b"hello " * 50, "bytes that are not a TFLite model"),
        "head.tflite": (b"\x1c\x00\x00\x00TFL3" + b"\0" * 40, "a model that LiteRT can run"),
        "text.onnx": (b"hello " * 50, "bytes that are not an ONNX model"),
        "empty.onnx": (b"", "an empty ONNX model"),
        "net.pt": (b"PK", "a file ending in .pt"),
    }
    for name, (content, found) in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError) as error:
            run(tmp_path, items, name)
        assert found in str(error.value) and name in str(error.value)
    with pytest.raises(DataError) as error:
        run(tmp_path, items, "gone.onnx")
    assert "never downloads" in problem(error, "no_weights")
    colour_classifier(tmp_path / "net.onnx", extra="custom")
    with pytest.raises(DataError) as error:
        run(tmp_path, items)
    assert "standard operators" in problem(error, "bad_onnx")
    colour_classifier(tmp_path / "net.onnx")
    with pytest.raises(DataError) as error:
        run(tmp_path, items, sha256="0" * 64)
    problem(error, "wrong_hash")
    right = hash_weights(tmp_path / "net.onnx")
    assert rows(run(tmp_path, items, sha256=f"sha256:{right.upper()}")).height == 4


def test_tensors_in_files_of_their_own(tmp_path: Path) -> None:
    items = pictures(tmp_path)
    path = colour_classifier(tmp_path / "net.onnx")
    plain = rows(run(tmp_path, items, to="plain"))
    proto = onnx.load(str(path))
    onnx.save(proto, str(path), save_as_external_data=True, location="net.data", size_threshold=60)  # the weight only
    assert [p.name for p in external_files(path)] == ["net.data"]
    made = run(tmp_path, items)
    assert rows(made).equals(plain)
    # The hash covers them: other tensors are another model.
    data = bytearray((tmp_path / "net.data").read_bytes())
    at = data.index(WEIGHT.tobytes())
    data[at : at + 4] = np.float32(7).tobytes()
    (tmp_path / "net.data").write_bytes(data)
    other = run(tmp_path, items)
    assert other.parts[0].parent != made.parts[0].parent
    assert not rows(other).equals(plain)
    (tmp_path / "net.data").unlink()
    with pytest.raises(DataError, match="which is not there"):
        run(tmp_path, items)
    for name in ("../secret", "/etc/hostname", "a/../../b", "C:\\x"):
        proto = onnx.load(str(path), load_external_data=False)
        for tensor in proto.graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = name
        (tmp_path / "out.onnx").write_bytes(proto.SerializeToString())
        with pytest.raises(DataError, match="outside the model's folder"):
            external_files(tmp_path / "out.onnx")


def test_a_file_that_takes_the_interpreter_down_is_an_error(tmp_path: Path, monkeypatch: Any) -> None:
    real = subprocess.run

    def child(code: str) -> Any:
        return lambda _command, **more: real([sys.executable, "-c", code], **more)

    path = tmp_path / "a.tflite"
    monkeypatch.setattr(classifier_tflite.subprocess, "run", child("import os; os.abort()"))
    with pytest.raises(DataError, match="makes LiteRT crash .SIGABRT"):
        classifier_tflite._try(path, 0)
    monkeypatch.setattr(classifier_tflite.subprocess, "run", child("import time; time.sleep(60)"))
    with pytest.raises(DataError, match=r"not run once within 0\.5 s"):
        classifier_tflite._try(path, 0, timeout_s=0.5)


def test_devices_that_are_not_there(tmp_path: Path) -> None:
    colour_classifier(tmp_path / "net.onnx")
    with pytest.raises(ParameterError, match="expected auto, cpu"):
        run(tmp_path, pictures(tmp_path), device="gpu")


# ---- the real network


@pytest.fixture
def photographs(real_data: Path) -> pl.DataFrame:
    found = sorted(p for p in (real_data / "photos").rglob("*") if p.suffix == ".jpg")
    names = [p.relative_to(real_data).as_posix() for p in found]
    return pl.DataFrame({"item_id": [Path(n).name for n in names], "image": names})


TFLITE = "classifier/mobilenet_v2_1.0_224_inat_bird_quant.tflite"


@pytest.mark.real
def test_real_photographs(real_data: Path, photographs: pl.DataFrame, tmp_path: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    def go(to: str, size: int) -> Classified:
        return classify(
            section(TFLITE), photographs, base=real_data, root=real_data, out_dir=tmp_path / to, shard_size=size
        )

    made = go("a", 100)
    frame = rows(made)
    assert made.labels[0] == "Haemorhous cassinii (Cassin's Finch)"  # packed behind the model
    assert len(made.labels) == 965 and made.labels[-1] == "background"
    best = {item: made.labels[int(np.argmax(values))] for item, *values in frame.iter_rows()}
    assert best["eagle.jpg"] == "Haliaeetus leucocephalus (Bald Eagle)"
    assert best["parrot.jpg"] == "Ara macao (Scarlet Macaw)"
    sparrows = [n for n, label in best.items() if label == "Passer domesticus (House Sparrow)"]
    assert len(sparrows) >= 4
    # The same network asked directly, with a preparation of its own.
    interpreter = Interpreter(model_path=str(real_data / TFLITE), num_threads=1)
    interpreter.allocate_tensors()
    place, out = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    for name, path in photographs.select("item_id", "image").iter_rows():
        picture = cv2.cvtColor(cv2.imread(str(real_data / path)), cv2.COLOR_BGR2RGB)
        interpreter.set_tensor(place, cv2.resize(picture, (224, 224), interpolation=cv2.INTER_AREA)[None])
        interpreter.invoke()
        want = interpreter.get_tensor(out)[0] / np.float32(256)
        got = frame.filter(pl.col("item_id") == name).drop("item_id").to_numpy()[0]
        np.testing.assert_array_equal(got, want)
    # Rows are as quantised: every value a multiple of 1/256, sums below 1, and this is said.
    sums = frame.drop("item_id").to_numpy().astype(np.float64).sum(axis=1)
    noted = made.notices.filter(pl.col("code") == "row_sums")["message"][0]
    assert f"from {sums.min():.3f} to {sums.max():.3f}" in noted
    assert rows(go("b", 3)).equals(frame)
    assert [p.read_bytes() for p in go("c", 100).parts] == [p.read_bytes() for p in made.parts]


@pytest.mark.real
def test_real_network_cut_short_or_with_other_labels(
    real_data: Path, photographs: pl.DataFrame, tmp_path: Path
) -> None:
    content = (real_data / TFLITE).read_bytes()
    with zipfile.ZipFile(real_data / TFLITE) as packed:
        texts = [name for name in packed.namelist() if name.endswith(".txt")]
    assert len(texts) == 1
    spec = SimpleNamespace(**section("net.tflite").model_dump())
    (tmp_path / "labels.txt").write_text("a\nb\nc\n")

    def go() -> None:
        classify(spec, photographs[:1], base=tmp_path, root=real_data, out_dir=tmp_path / "run")  # type: ignore[arg-type]

    for keep in (100, 5_000, len(content) // 2):
        (tmp_path / "net.tflite").write_bytes(content[:keep])
        with pytest.raises(DataError) as error:
            go()
        problem(error, "bad_tflite")
    (tmp_path / "net.tflite").write_bytes(content)
    spec.labels = "labels.txt"
    with pytest.raises(DataError) as error:
        go()
    assert "965 scores per picture and 3 labels" in problem(error, "label_count")


@pytest.mark.real
def test_a_killed_run_of_the_real_network_goes_on(real_data: Path, photographs: pl.DataFrame, tmp_path: Path) -> None:
    photographs.write_parquet(tmp_path / "items.parquet")
    code = f"""
import os, signal
from pathlib import Path
import polars as pl
from birdlab.inference.classify import classify
from birdlab.recipe.abstention import Classifier

def step(done, total):
    if done == 3:
        os.kill(os.getpid(), signal.SIGKILL)

base = Path({str(real_data)!r})
classify(Classifier(name="m", weights={TFLITE!r}), pl.read_parquet({str(tmp_path / "items.parquet")!r}), base=base,
         root=base, out_dir=Path({str(tmp_path / "run")!r}), shard_size=2, progress=step)
"""
    assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode == -9
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("part-*.parquet")}
    assert len(before) == 3

    def go(to: str) -> Classified:
        return classify(
            section(TFLITE), photographs, base=real_data, root=real_data, out_dir=tmp_path / to, shard_size=2
        )

    made = go("run")
    assert {p: p.stat().st_mtime_ns for p in before} == before
    assert rows(made).equals(rows(go("fresh")))
