"""A classifier of tones over made and real sound files: windows, segments and run files that can be worked out by hand."""

from __future__ import annotations

import math
import struct
import wave
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
sf = pytest.importorskip("soundfile")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from birdlab.errors import BirdlabError, DataError, ParameterError  # noqa: E402
from birdlab.inference import sound as sound_files  # noqa: E402
from birdlab.inference.sound import find_sounds, windows  # noqa: E402
from birdlab.inference.sound_labels import classes_of_labels  # noqa: E402
from birdlab.inference.sound_study import Listing, SoundRunMade, run_classifier  # noqa: E402
from birdlab.inference.sound_windows import highest, windows_of_segments  # noqa: E402
from birdlab.recipe.soundscapes import SoundRun  # noqa: E402

RATE, SIZE = 1000, 1000  # Hz, samples: windows of 1 s
TONES = (50, 120, 300)  # Hz
CLASSES = ("low", "mid", "high")


def tone_classifier(
    path: Path,
    *,
    size: int | str = SIZE,
    end: str = "power",
    layout: str = "N S",
    batch: int | str = "n",
    extra: bool = False,
) -> Path:
    """Scores are the squared amplitudes of three tones; ``end``: power, logits (10 x power - 5) or nan (1 / power)."""
    n = SIZE if isinstance(size, str) else size
    at = np.arange(n) / RATE
    basis = np.stack([f(2 * np.pi * hz * at) for hz in TONES for f in (np.cos, np.sin)], axis=1) * 2 / n
    pairs = np.kron(np.eye(3), [[1.0], [1.0]])
    shape = {
        "N S": [batch, size],
        "N 1 S": [batch, 1, size],
        "N S 1": [batch, size, 1],
        "S": [size],
        "4": [batch, 1, 1, size],
    }
    nodes = [
        helper.make_node("Reshape", ["sound", "flat"], ["rows"]),
        helper.make_node("MatMul", ["rows", "basis"], ["parts"]),
        helper.make_node("Mul", ["parts", "parts"], ["squares"]),
        helper.make_node("MatMul", ["squares", "pairs"], ["power"]),
        helper.make_node("Mul", ["power", "ten"], ["tenfold"]),
        helper.make_node("Sub", ["tenfold", "five"], ["logits"]),
        helper.make_node("Reciprocal", ["power"], ["nan"]),
    ]
    rows: list[Any] = [1 if layout == "S" else batch, 3]
    outputs = [helper.make_tensor_value_info(end, TensorProto.FLOAT, rows)]
    if extra:
        outputs.insert(0, helper.make_tensor_value_info("parts", TensorProto.FLOAT, [rows[0], 6]))
    constants = [
        numpy_helper.from_array(np.array([-1, n], np.int64), "flat"),
        numpy_helper.from_array(basis.astype(np.float32), "basis"),
        numpy_helper.from_array(pairs.astype(np.float32), "pairs"),
        numpy_helper.from_array(np.float32(10), "ten"),
        numpy_helper.from_array(np.float32(5), "five"),
    ]
    given = [helper.make_tensor_value_info("sound", TensorProto.FLOAT, shape[layout])]
    graph = helper.make_graph(nodes, "tones", given, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    path.with_name(f"{path.stem}.labels.txt").write_text("\n".join(CLASSES) + "\n")
    return path


def tones(*parts: tuple[int, float, float], rate: int = RATE) -> np.ndarray:
    """Tones (Hz, amplitude, seconds) one after the other; 0 Hz is silence."""
    return np.concatenate([a * np.sin(2 * np.pi * hz * np.arange(round(s * rate)) / rate) for hz, a, s in parts])


def spec(**more: Any) -> SoundRun:
    return SoundRun(**{"name": "m", "weights": "net.onnx", "window_s": 1.0, "sample_rate": RATE} | more)


def listen(
    folder: Path, *, classes: tuple[str, ...] = CLASSES, to: str = "run", most: int | None = None, **more: Any
) -> SoundRunMade:
    recordings = more.pop("recordings", None)
    progress = more.pop("progress", None)
    sounds, _ = find_sounds(folder / "audio", recordings)
    places = {"base": folder, "root": folder, "out_dir": folder / to, "device": "cpu"}
    return run_classifier(spec(**more), sounds, listing=Listing(classes, most), progress=progress, **places)


def rows(made: SoundRunMade) -> dict[tuple[str, str, str], float]:
    lines = [line.split(";") for line in made.path.read_text().splitlines()]
    return {(media, time, c): float(p) for media, time, c, p in lines}


def told(made: SoundRunMade) -> dict[str, int]:
    return dict(made.notices.select("code", "n").iter_rows())


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "audio").mkdir()
    tone_classifier(tmp_path / "net.onnx")
    return tmp_path


def save(study: Path, name: str, samples: np.ndarray, rate: int = RATE, subtype: str = "FLOAT", **more: Any) -> Path:
    path = study / "audio" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    sf.write(path, samples, rate, subtype=subtype, **more)
    return path


def test_a_run_file_by_hand(study: Path) -> None:
    """Windows of 1 s: 50 Hz at .5 from 0 to 1, 120 Hz at .8 from 6 to 7, 300 Hz at 1 from 12 to 12.4 (cut: .4 ** 2)."""
    save(study, "a.wav", tones((50, 0.5, 1), (0, 0, 5), (120, 0.8, 1), (0, 0, 5), (300, 1.0, 0.4)))
    made = listen(study)
    found = rows(made)
    want = {("00:00:00-00:00:05", "low"): 0.25, ("00:00:05-00:00:10", "mid"): 0.64, ("00:00:10-00:00:15", "high"): 0.16}
    for (_, time, c), p in found.items():
        assert p == pytest.approx(want.get((time, c), 0.0), abs=1e-3), (time, c)
    assert {key for key in want} <= {(time, c) for _, time, c in found}
    assert all(
        line.count(";") == 3 and len(line.rpartition(".")[2]) == 10 for line in made.path.read_text().splitlines()
    )
    assert made.n_rows == len(found) and made.files.row(0, named=True)["n_segments"] == 3
    notices = told(made)
    assert notices["probabilities"] == notices["window_rule"] == 3 and notices["padded"] == 1
    assert notices["zero"] == 9 - made.n_rows
    assert "resampled" not in notices and "mixed" not in notices


def test_logits_become_probabilities_and_the_order_of_labels_is_that_of_the_network(study: Path) -> None:
    tone_classifier(study / "net.onnx", end="logits")
    save(study, "a.wav", tones((50, 0.5, 5)))
    found = rows(listen(study, classes=("high", "low", "mid", "never")))
    assert [c for _, _, c in found] == ["high", "low", "mid"]
    assert found["a", "00:00:00-00:00:05", "low"] == pytest.approx(1 / (1 + math.exp(2.5)), abs=1e-6)
    assert found["a", "00:00:00-00:00:05", "mid"] == pytest.approx(1 / (1 + math.exp(5)), abs=1e-6)
    made = listen(study, classes=("high", "low", "mid", "never"))
    assert told(made)["logits"] == 1 and told(made)["classes_without_label"] == 1


@pytest.mark.parametrize(
    ("layout", "batch"), [("N S", 1), ("N S", 4), ("N 1 S", "n"), ("N 1 S", 1), ("N S 1", "n"), ("S", 1)]
)
def test_every_shape_of_input_gives_the_same_rows(study: Path, layout: str, batch: int | str) -> None:
    save(study, "a.wav", tones((50, 0.5, 7), (120, 0.7, 12.5)))
    want = rows(listen(study))
    tone_classifier(study / "net.onnx", layout=layout, batch=batch)
    found = rows(listen(study, to="other"))
    for key in want.keys() | found.keys():
        assert found.get(key, 0.0) == pytest.approx(want.get(key, 0.0), abs=1e-6)


def test_an_open_length_takes_windows_of_the_recipe(study: Path) -> None:
    tone_classifier(study / "net.onnx", size="samples")
    save(study, "a.wav", tones((300, 0.9, 5)))
    assert rows(listen(study))["a", "00:00:00-00:00:05", "high"] == pytest.approx(0.81, abs=1e-4)


def test_a_second_output_of_another_width_is_passed_over(study: Path) -> None:
    tone_classifier(study / "net.onnx", extra=True)
    save(study, "a.wav", tones((300, 0.9, 5)))
    assert rows(listen(study))["a", "00:00:00-00:00:05", "high"] == pytest.approx(0.81, abs=1e-4)


@pytest.mark.parametrize(
    ("make", "more", "code"),
    [
        ({"layout": "4"}, {}, "bad_input"),
        ({"end": "parts"}, {}, "label_count"),
        ({"end": "nan"}, {}, "bad_network"),
        ({}, {"window_s": 3.0}, "window_length"),
        ({}, {"sha256": "0" * 64}, "wrong_hash"),
        ({}, {"weights": "no.onnx"}, "no_weights"),
        ({}, {"labels": "none.txt"}, "no_labels"),
        ({}, {"label_map": "map.csv"}, "unreadable"),
    ],
)
def test_what_cannot_be_used_is_one_error(study: Path, make: dict[str, Any], more: dict[str, Any], code: str) -> None:
    save(study, "a.wav", tones((50, 0.5, 5)))
    end = make.pop("end", "power")
    tone_classifier(study / "net.onnx", end=end, **make)
    with pytest.raises(BirdlabError) as error:
        listen(study, **more)
    assert [p.code for p in error.value.problems] == [code]
    assert not (study / "run" / "soundscape_runs").exists()


def test_files_that_are_no_networks_are_errors(study: Path) -> None:
    save(study, "a.wav", tones((50, 0.5, 5)))
    (study / "net.tflite").write_bytes(b"not a model")
    (study / "net.txt").write_text("x")
    for weights, code in (("net.tflite", "bad_tflite"), ("net.txt", "unknown_weights")):
        with pytest.raises(BirdlabError) as error:
            listen(study, weights=weights)
        assert [p.code for p in error.value.problems] == [code]


def test_tflite(study: Path) -> None:
    """One fully connected layer: the mean of the first half of a window, of the second, and logits of 4 for both."""
    pytest.importorskip("ai_edge_litert")
    from classifier_cases import _TinyTflite

    tiny = _TinyTflite()
    weight = np.zeros((2, SIZE), np.float32)
    weight[0, : SIZE // 2] = weight[1, SIZE // 2 :] = 2 / SIZE
    given_ = tiny.tensor("sound", [1, SIZE], "FLOAT32")
    made = tiny.tensor("logits", [1, 2], "FLOAT32")
    kernel = tiny.tensor("w", [2, SIZE], "FLOAT32", weight)
    bias = tiny.tensor("b", [2], "FLOAT32", np.array([0, -4], np.float32))
    tiny.operator("FULLY_CONNECTED", [given_, kernel, bias], [made])
    tiny.save(study / "net.tflite", given_, made)
    (study / "net.labels.txt").write_text("Turdus merula_Common Blackbird\nParus major_Great Tit\n")
    save(study, "a.wav", np.concatenate([np.full(500, 0.5), np.full(500, 0.25), np.zeros(4000)]))
    found = rows(listen(study, weights="net.tflite", classes=("Great Tit", "Turdus merula")))
    time = "00:00:00-00:00:05"
    assert found["a", time, "Turdus merula"] == pytest.approx(1 / (1 + math.exp(-0.5)), abs=1e-6)
    assert found["a", time, "Great Tit"] == pytest.approx(1 / (1 + math.exp(4 - 0.25)), abs=1e-6)


def test_channels_are_averaged_and_depth_does_not_matter(study: Path) -> None:
    one = tones((50, 0.6, 5))
    for name, subtype in (("p16", "PCM_16"), ("p24", "PCM_24"), ("f32", "FLOAT"), ("f64", "DOUBLE"), ("u8", "PCM_U8")):
        save(study, f"{name}.wav", one, subtype=subtype)
    save(study, "flac.flac", one, subtype="PCM_24")
    save(study, "upper.WAV", one, subtype="PCM_16", format="WAV")
    save(study, "half.wav", np.stack([one, np.zeros_like(one)], axis=1), subtype="PCM_24")
    save(study, "none.wav", np.stack([one, -one, 0 * one], axis=1))
    made = listen(study)
    low = {media: p for (media, _, c), p in rows(made).items() if c == "low"}
    for name in ("p16", "p24", "f32", "f64", "flac", "upper"):
        assert low[name] == pytest.approx(0.36, abs=1e-3)
    assert low["u8"] == pytest.approx(0.36, abs=0.01) and low["half"] == pytest.approx(0.09, abs=1e-3)
    assert low.get("none", 0.0) < 1e-9
    assert told(made)["mixed"] == 2 and made.files.height == 9


def test_bad_files_are_counted_and_cost_nobody_else_anything(study: Path) -> None:
    good = tones((50, 0.6, 12.3))
    save(study, "a_good.wav", good)
    (study / "audio" / "b_empty.wav").write_bytes(b"")
    save(study, "c_nothing.wav", np.zeros(0))
    (study / "audio" / "d_text.wav").write_text("no sound" * 30)
    whole = save(study, "e_cut.flac", np.random.default_rng(0).normal(0, 0.1, 90 * RATE), subtype="PCM_16").read_bytes()
    (study / "audio" / "e_cut.flac").write_bytes(whole[: len(whole) // 2])
    cut = save(study, "f_cut.wav", good, subtype="PCM_16").read_bytes()
    (study / "audio" / "f_cut.wav").write_bytes(cut[: 44 + 2 * 6000])
    nan = good.copy()
    nan[3000:3005], nan[4000] = np.nan, np.inf
    save(study, "g_nan.wav", nan)
    save(study, "h_loud.wav", np.where(np.arange(5000) == 7, 3.0, 0.0))
    save(study, "i_short.wav", tones((50, 1.0, 0.5)))
    (study / "audio" / "notes.txt").write_text("x")
    made = listen(study)
    states = dict(made.files.select("media_id", "state").iter_rows())
    assert {m for m, s in states.items() if s == "read"} == {"b_empty", "c_nothing", "d_text", "e_cut"}
    assert made.files.filter(pl.col("state") == "read")["message"].null_count() == 0
    notices = told(made)
    assert notices["failed_read"] == 4 and notices["not_finite"] == 6 and notices["loud"] == 1 and notices["short"] == 1
    assert notices["cut_header"] == 1
    facts = {row["media_id"]: row for row in made.files.to_dicts()}
    assert facts["f_cut"]["duration_s"] == 6.0 and facts["f_cut"]["n_segments"] == 2
    assert facts["a_good"]["n_windows"] == 13 and facts["a_good"]["n_segments"] == 3
    found = rows(made)
    assert {media for media, _, _ in found} <= {m for m, s in states.items() if s == "used"}
    assert found["i_short", "00:00:00-00:00:05", "low"] == pytest.approx(0.25, abs=1e-3)
    assert found["g_nan", "00:00:00-00:00:05", "low"] == pytest.approx(0.36, abs=1e-3)


def test_nothing_that_can_be_read_is_an_error(study: Path) -> None:
    (study / "audio" / "b.wav").write_bytes(b"")
    with pytest.raises(DataError, match="none of 1 sound files could be used; b.wav") as error:
        listen(study)
    assert error.value.problems[0].code == "no_sound"
    (study / "audio" / "b.wav").unlink()
    with pytest.raises(DataError):
        listen(study)


@pytest.mark.parametrize("rate", [1500, 8000, 22_050, 32_000, 44_100, 48_000, 1009])
def test_resampling_in_pieces_equals_resampling_whole(
    tmp_path: Path, rate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scipy.signal import resample_poly

    monkeypatch.setattr(sound_files, "CHUNK_S", 2.0)
    noise = np.random.default_rng(rate).normal(0, 0.3, int(7.37 * rate)).astype(np.float32)
    sf.write(tmp_path / "a.wav", noise, rate, subtype="FLOAT")
    common = math.gcd(RATE, rate)
    whole = resample_poly(noise, RATE // common, rate // common)
    facts: list[sound_files.Heard] = []
    made = np.concatenate(list(windows(tmp_path / "a.wav", RATE, 700, facts)))
    assert made.shape == (math.ceil(len(whole) / 700), 700) and facts[0].n_windows == len(made)
    flat = made.ravel()
    np.testing.assert_allclose(flat[: len(whole)], whole, atol=2e-6)
    assert not flat[len(whole) :].any() and facts[0].padded_s == pytest.approx((flat.size - len(whole)) / RATE)


def test_a_tone_keeps_its_height_and_place_at_another_rate(study: Path) -> None:
    save(study, "a.wav", tones((0, 0, 63), (120, 0.5, 3), rate=44_100), rate=44_100, subtype="PCM_16")
    made = listen(study)
    found = rows(made)
    assert found["a", "00:01:00-00:01:05", "mid"] == pytest.approx(0.25, abs=2e-3)
    assert max((p for (_, time, c), p in found.items() if time < "00:01" or c != "mid"), default=0.0) < 1e-4
    assert told(made)["resampled"] == 1


@given(size=st.integers(1, 40), rate=st.integers(1, 6), n=st.integers(1, 60))
@settings(max_examples=100, deadline=None)
def test_the_rule_of_segments_in_fractions(size: int, rate: int, n: int) -> None:
    """Every segment by the words of the rule, in exact seconds."""
    n_segments = math.ceil(Fraction(n * size, 5 * rate))
    found = windows_of_segments(n, size, rate, n_segments).tolist()
    for k, (first, last) in enumerate(found):
        a, b = 5 * k, 5 * k + 5
        over = {i: min(b, Fraction((i + 1) * size, rate)) - max(a, Fraction(i * size, rate)) for i in range(n)}
        least = min(Fraction(1), Fraction(size, 2 * rate))
        want = [i for i, s in over.items() if s >= least]
        if not want:
            longest = max(over.values())
            want = [next(i for i, s in over.items() if s == longest)]
        assert list(range(first, last + 1)) == want


def test_windows_without_a_score_do_not_count() -> None:
    scores = np.array([[0.1, 0.9], [np.nan, np.nan], [0.3, 0.2], [np.nan, np.nan]])
    best = highest(scores, np.array([[0, 1], [1, 2], [3, 3]]))
    np.testing.assert_array_equal(best, [[0.1, 0.9], [0.3, 0.2], [np.nan, np.nan]])


def test_at_most_so_many_classes_per_segment(study: Path) -> None:
    save(study, "a.wav", tones((50, 0.5, 2), (120, 0.7, 2), (300, 0.6, 1)))
    made = listen(study, most=2)
    assert [c for _, _, c in rows(made)] == ["mid", "high"] and told(made)["max_classes"] == 1


def test_a_killed_run_goes_on_where_it_was(study: Path) -> None:
    for i in range(4):
        save(study, f"r{i}.wav", tones((50, 0.2 * (i + 1), 6)))
    whole = listen(study, to="whole")
    done: list[tuple[int, int]] = []

    def stop(n: int, total: int) -> None:
        done.append((n, total))
        if n == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        listen(study, progress=stop)
    parts = sorted((study / "run" / "shards").glob("*/part-*.parquet"))
    assert done == [(0, 4), (1, 4), (2, 4)] and len(parts) == 2 and not (study / "run" / "soundscape_runs").exists()
    before = [path.stat().st_mtime_ns for path in parts]
    parts[1].with_suffix(".json").write_text("{")  # half of a part is no part
    (parts[0].parent / ".part-x.parquet.999999999.tmp").write_bytes(b"left over")
    done.clear()
    again = listen(study, progress=lambda *step: done.append(step))
    assert done[0] == (1, 4) and done[-1] == (4, 4)
    assert again.path.read_bytes() == whole.path.read_bytes()
    assert again.files.equals(whole.files) and parts[0].stat().st_mtime_ns == before[0]
    assert not list(parts[0].parent.glob(".*tmp"))
    # A new recording costs only itself; another sound under an old name is listened to again.
    save(study, "r9.wav", tones((50, 0.9, 6)))
    save(study, "r0.wav", tones((300, 0.5, 6)))
    done.clear()
    more = rows(listen(study, progress=lambda *step: done.append(step)))
    assert done[0] == (3, 5) and more["r0", "00:00:00-00:00:05", "high"] == pytest.approx(0.25, abs=1e-3)


def test_names_of_recordings_come_from_the_table(study: Path) -> None:
    for name in ("x/one.wav", "x/two.flac", "three.wav", "stranger.wav"):
        save(study, name, tones((50, 0.5, 5)), subtype="PCM_16")
    table = pl.DataFrame(
        {
            "media_id": ["1", "2", "three", "gone"],
            "file": ["x/one.wav", "two.wav", None, "gone.wav"],
            "duration_s": [5.0, 60.0, None, 5.0],
        }
    )
    sounds, notices = find_sounds(study / "audio", table)
    assert [(s.media_id, s.file) for s in sounds] == [("three", "three.wav"), ("1", "x/one.wav"), ("2", "x/two.flac")]
    assert {n.code: n.n for n in notices} == {"other_sounds": 1, "no_sound": 1}
    made = listen(study, recordings=table)
    assert told(made)["length_differs"] == 1 and {media for media, _, _ in rows(made)} == {"1", "2", "three"}
    with pytest.raises(DataError) as error:
        find_sounds(study / "audio", table.with_columns(media_id=pl.Series(["a", "b", "c", "d"]), file=None))
    assert error.value.problems[0].code == "no_recording"
    save(study, "y/one.wav", tones((50, 0.5, 5)))
    with pytest.raises(DataError) as error:
        find_sounds(study / "audio")
    assert error.value.problems[0].code == "two_sounds"


def test_a_name_that_a_run_file_cannot_hold_is_refused(study: Path) -> None:
    save(study, "a;b.wav", tones((50, 0.5, 5)))
    with pytest.raises(DataError) as error:
        listen(study)
    assert error.value.problems[0].code == "bad_name"


def test_labels_to_classes(tmp_path: Path) -> None:
    """Whole labels, either half, codes of eBird by name; a label map comes first."""
    labels = ["Turdus merula_Common Blackbird", "Parus major_Great Tit", "Engine_Engine", "blackbird2", "a_b"]
    about = {"base": tmp_path, "root": tmp_path}
    found, notices = classes_of_labels(spec(), labels, ("Turdus merula", "Great Tit", "x", "a_b", "a"), **about)
    assert found == {0: "Turdus merula", 1: "Great Tit", 4: "a_b"}
    assert {n.code: n.n for n in notices} == {"labels_unused": 2, "classes_without_label": 2}
    found, notices = classes_of_labels(spec(), labels, ("gretit1", "eurbla"), **about)
    assert found == {0: "eurbla", 1: "gretit1"} and {n.code: n.n for n in notices} == {
        "by_ebird": 2,
        "labels_unused": 3,
    }
    (tmp_path / "map.csv").write_text(
        "label,class_id\nTurdus merula_Common Blackbird,eurbla\nblackbird2,eurbla\nGreat Tit,tit\nNo,x\nEngine_Engine,\n"
    )
    found, notices = classes_of_labels(spec(label_map="map.csv"), labels, ("eurbla", "robin"), **about)
    assert found == {0: "eurbla", 3: "eurbla"}
    codes = {n.code: n.n for n in notices}
    shared = {"labels_unused": 3, "classes_without_label": 1, "labels_share_class": 1}
    assert codes == {"unknown_labels": 1, "classes_outside": 1} | shared
    with pytest.raises(DataError) as error:
        classes_of_labels(spec(), labels, ("nobody",), **about)
    assert error.value.problems[0].code == "no_class"
    (tmp_path / "map.csv").write_text("label,class_id\na,x\na,y\n")
    with pytest.raises(DataError) as error:
        classes_of_labels(spec(label_map="map.csv"), labels, ("eurbla",), **about)
    assert [(p.code, p.line) for p in error.value.problems] == [("label_twice", 3)]


def test_without_soundfile_one_line_says_what_to_install(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    save(study, "a.wav", tones((50, 0.5, 5)))
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(ParameterError, match=r'pip install "birdlab\[audio\]"'):
        listen(study)


def test_a_wav_whose_header_lies(study: Path) -> None:
    """A recorder that died leaves a header of the wrong length, or a rate that no recorder has."""
    save(study, "good.wav", tones((50, 0.5, 5)))
    with wave.open(str(study / "audio" / "rate.wav"), "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(3)
        file.writeframes(struct.pack("<10h", *range(10)))
    made = listen(study)
    message = made.files.filter(pl.col("media_id") == "rate")["message"].item()
    assert "a sample rate of 3 Hz" in message


def test_a_study_with_a_classifier_of_its_own(study: Path) -> None:
    """From a recipe to scores: two tones are annotated where they are, a third recording is silent."""
    import yaml

    from birdlab.recipe import load_recipe
    from birdlab.study import Run

    save(study, "one.wav", tones((50, 0.9, 5), (120, 0.8, 5), (0, 0, 5)), subtype="PCM_24")
    save(study, "two.flac", tones((300, 0.7, 5), (0, 0, 2.5)), subtype="PCM_16")
    save(study, "quiet.wav", np.zeros(4 * RATE), subtype="PCM_16")
    save(study, "other.wav", np.zeros(4 * RATE), subtype="PCM_16")
    (study / "recordings.csv").write_text("media_id,file,duration_s\n1,one.wav,15\n2,two.wav,7.5\nquiet,,4\n")
    (study / "truth.csv").write_text(
        "MediaId;ClassId;TC1-TC2;Country\n1;low;00:00:00-00:00:04;x\n1;mid;00:00:05-00:00:10;x\n2;high;00:00:01-00:00:03;x\n"
    )
    (study / "classes.txt").write_text("high\nlow\nmid\n")
    runs = [{"name": "own", "weights": "net.onnx", "window_s": 1.0, "sample_rate": RATE}]
    section = {"truth": ["truth.csv"], "classes": "classes.txt", "recordings": "recordings.csv", "audio": "audio"}
    recipe = {"name": "tones", "data": {"root": "."}, "soundscapes": {**section, "runs": runs, "n_resamples": 100}}
    (study / "tones.yaml").write_text(yaml.safe_dump(recipe))
    run = Run(load_recipe(study / "tones.yaml"), study / "tones.yaml", study / "run", "08_soundscapes")
    made = run.table("sound_runs").row(0, named=True)
    assert made["file"] == "soundscape_runs/own.txt" and made["hours"] == pytest.approx(26.5 / 3600)
    assert run.table("sound_files")["state"].to_list() == ["used"] * 3
    assert run.table("sound_notices").filter(code="other_sounds")["n"].item() == 1
    scores = run.table("soundscape_scores").row(0, named=True)
    assert (scores["cmap"], scores["rmap"], scores["cmap_pessimistic"]) == (1.0, 1.0, 1.0)


@pytest.mark.real
def test_the_real_recording(tmp_path: Path, real_data: Path) -> None:
    """10.13 s at 32 kHz: powers of three tones in windows of 3 s equal a plain Fourier sum of the samples."""
    from scipy.signal import resample_poly

    path = real_data / "soundscape_labels" / "birds_10s.wav"
    (tmp_path / "audio").symlink_to(path.parent)
    tone_classifier(tmp_path / "net.onnx", size=3 * RATE)
    table = pl.DataFrame({"media_id": ["birds"], "file": [path.name]})
    made = listen(tmp_path, recordings=table, window_s=3.0)
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (32_000, 1, 324_263)
        samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2") / 32768
    slow = resample_poly(samples, 1, 32)
    cut = np.zeros(4 * 3 * RATE)
    cut[: len(slow)] = slow
    at = np.arange(3 * RATE) / RATE
    power = [
        [abs(2 / (3 * RATE) * (w * np.exp(2j * np.pi * hz * at)).sum()) ** 2 for hz in TONES]
        for w in cut.reshape(4, -1)
    ]
    want = {"00:00:00-00:00:05": (0, 1), "00:00:05-00:00:10": (1, 2, 3), "00:00:10-00:00:15": (3,)}
    found = rows(made)
    for time, used in want.items():
        for i, c in enumerate(CLASSES):
            assert found.get(("birds", time, c), 0.0) == pytest.approx(
                max(power[w][i] for w in used), abs=2e-9, rel=1e-3
            )
    assert made.files.row(0, named=True)["n_windows"] == 4 and told(made)["resampled"] == 1
