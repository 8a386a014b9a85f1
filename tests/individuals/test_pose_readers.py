"""Poses as DeepLabCut and SLEAP save them, found on the pictures of a COCO file; files that lead elsewhere are refused."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from birdlab.errors import DataError
from birdlab.individuals.poses import keypoint_table
from birdlab.readers import deeplabcut, hdf5
from birdlab.readers.coco_keypoints import Poses, read_truth
from birdlab.readers.pose_files import read_poses

#: Made with pandas 3.1.1 and PyTables 3.11.1 from made numbers, each as csv and as h5 of both formats.
MADE = Path(__file__).parents[1] / "data" / "individuals" / "poses"
NAMES = ["tail", "bill"]
ONE = {
    0: [50.9, 86.0, 85.9, 34.9],
    1: [None, None, 12.2, 70.3],
    2: [36.4, 73.1, 46.3, 20.7],
    3: [26.3, 31.0, 32.4, 48.8],
}


def _truth(tmp_path: Path, files: list[str], names: list[str] | None = None, **fields: list[Any]) -> Poses:
    names = names or NAMES
    images = [{"id": 10 + i, "file_name": name, **{k: v[i] for k, v in fields.items()}} for i, name in enumerate(files)]
    points = [v for k in range(len(names)) for v in (10 * k, 10 * k, 2)]
    birds = [{"id": i, "image_id": 10 + i, "keypoints": points, "bbox": [0, 0, 90, 90]} for i in range(len(files))]
    coco = {"images": images, "annotations": birds, "categories": [{"id": 1, "keypoints": names}]}
    path = tmp_path / "truth.json"
    path.write_text(json.dumps(coco), encoding="utf-8")
    return read_truth(path)


def _placed(poses: Poses) -> dict[str, list[list[float | None]]]:
    """Picture → birds → x, y of every keypoint in order."""
    out: dict[str, list[list[float | None]]] = {}
    for bird in poses.instances:
        flat = bird.points[:, :2].ravel().tolist()
        out.setdefault(bird.image_id, []).append([None if np.isnan(v) else v for v in flat])
    return out


@pytest.mark.parametrize("name", ["one", "two", "hand", "hand2"])
def test_every_format_of_one_table_is_the_same(name: str) -> None:
    want = deeplabcut.read_csv(MADE / f"{name}.csv")
    assert want.values.shape == {"one": (4, 6), "two": (3, 12), "hand": (3, 4), "hand2": (3, 4)}[name]
    files = sorted(MADE.glob(f"{name}_*.h5"))
    assert files
    for file in files:
        found = deeplabcut.read_h5(file)
        assert (found.rows, found.columns) == (want.rows, want.columns)
        np.testing.assert_array_equal(found.values, want.values)


@pytest.mark.parametrize("file", ["one.csv", "one_table.h5", "one_fixed.h5"])
def test_frames_of_a_video_in_the_order_of_the_truth(tmp_path: Path, file: str) -> None:
    truth = _truth(tmp_path, ["v/img002.png", "v/img000.png", "v/img001.png"])
    found = read_poses(MADE / file, truth)
    assert _placed(found) == {
        "11": [[85.9, 34.9, 50.9, 86.0]],
        "12": [[12.2, 70.3, None, None]],
        "10": [[46.3, 20.7, 36.4, 73.1]],
    }
    assert [(n.code, n.n) for n in found.notices] == [("other_images", 1)]
    likelihood = {bird.image_id: bird.score for bird in found.instances}
    # Only placed points say how sure the model is.
    assert likelihood == {"11": pytest.approx((0.98 + 0.58) / 2), "12": 0.98, "10": pytest.approx((0.77 + 0.76) / 2)}


@pytest.mark.parametrize("file", ["hand.csv", "hand_fixed.h5", "hand2.csv", "hand2_table.h5", "hand2_fixed.h5"])
def test_pictures_by_name(tmp_path: Path, file: str) -> None:
    files = ["v0/img001.png", "v1/img001.png", "v1/img002.png"]
    found = read_poses(MADE / file, _truth(tmp_path, files))
    assert _placed(found) == {"11": [[71.5, 26.9, 62.8, 29.6]], "12": [[76.0, 23.2, None, None]]}
    assert [n.n for n in found.notices] == [1]


@pytest.mark.parametrize("file", ["two.csv", "two_table.h5", "two_fixed.h5"])
def test_several_animals(tmp_path: Path, file: str) -> None:
    found = read_poses(MADE / file, _truth(tmp_path, ["a.jpg", "b.jpg"], frame=[0, 1]))
    assert _placed(found) == {
        "10": [[83.4, 13.2, 59.9, 72.1], [78.2, 57.4, 46.7, 15.0]],
        "11": [[70.2, 21.8, None, None], [74.2, 25.3, 64.7, 73.0]],
    }
    assert [b.instance_id for b in found.instances] == ["0/b1", "0/b2", "1/b1", "1/b2"]


def test_a_point_that_was_not_placed_is_missing_and_not_at_the_corner(tmp_path: Path) -> None:
    truth = _truth(tmp_path, ["img001.png"])
    table, _ = keypoint_table(truth, read_poses(MADE / "one.csv", truth), model="m", sigmas=[0.05] * 2)
    assert table.select("keypoint", "x_predicted", "error_px").rows()[1] == ("bill", None, None)


def test_which_video_a_file_is_of(tmp_path: Path) -> None:
    files = ["a/0.png", "ab/0.png", "ab/1.png"]
    truth = _truth(tmp_path, files)
    with pytest.raises(DataError) as caught:
        read_poses(MADE / "one.csv", truth)
    assert caught.value.problems[0].code == "which_video"
    named = tmp_path / "abDLC_resnet50_shuffle1.csv"
    named.write_bytes((MADE / "one.csv").read_bytes())
    # The longest name: the file is of ab, though it begins with a as well.
    assert set(_placed(read_poses(named, truth))) == {"11", "12"}


def test_a_folder_holds_one_file_per_video(tmp_path: Path) -> None:
    truth = _truth(tmp_path, ["a/0.png", "b/0.png"])
    folder = tmp_path / "poses"
    folder.mkdir()
    with pytest.raises(DataError, match="no file of poses"):
        read_poses(folder, truth)
    for video in "ab":
        (folder / f"{video}DLC.csv").write_bytes((MADE / "one.csv").read_bytes())
    assert set(_placed(read_poses(folder, truth))) == {"10", "11"}
    (folder / "bDLC.h5").write_bytes((MADE / "one_table.h5").read_bytes())
    with pytest.raises(DataError) as caught:
        read_poses(folder, truth)
    assert [p.code for p in caught.value.problems] == ["image_twice"]


def test_keypoints_that_only_one_side_has(tmp_path: Path) -> None:
    found = read_poses(MADE / "one.csv", _truth(tmp_path, ["0.png"], ["Bill", "crown"]))
    assert _placed(found) == {"10": [[50.9, 86.0, None, None]]}
    told = [(n.code, n.message.partition(": ")[2].rpartition(": ")[2] or n.message) for n in found.notices]
    assert [code for code, _ in told] == ["unknown_keypoints", "extra_keypoints", "other_images"]
    assert "crown" in found.notices[0].message
    assert "tail" in found.notices[1].message
    with pytest.raises(DataError, match="found bill, tail; expected crown, back"):
        read_poses(MADE / "one.csv", _truth(tmp_path, ["0.png"], ["crown", "back"]))


def test_pictures_that_cannot_be_told_apart_or_found(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_poses(MADE / "hand.csv", _truth(tmp_path, ["a/img001.png", "b/img001.png"]))
    assert caught.value.problems[0].code == "ambiguous_image"
    with pytest.raises(DataError) as caught:
        read_poses(MADE / "hand.csv", _truth(tmp_path, ["other.png"]))
    assert caught.value.problems[0].code == "no_common_image"


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("", ["no_heads"]),
        ("a,b\n1,2\n", ["no_heads"]),
        ("scorer,s,s\nbodyparts,bill,bill\n0,1,2\n", ["no_heads"]),
        ("scorer,s,s\nbodyparts,bill,bill\ncoords,x,y\n", ["no_rows"]),
        ("scorer,s,s\nbodyparts,bill,bill\ncoords,x,y\n0,1,2,3\n1,x,2\n", ["ragged_row", "bad_cell"]),
        ("scorer,s,t\nbodyparts,bill,bill\ncoords,x,x\n0,1,2\n", ["column_twice"]),
    ],
)
def test_a_csv_that_is_none(tmp_path: Path, text: str, codes: list[str]) -> None:
    path = tmp_path / "v.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_poses(path, _truth(tmp_path, ["0.png"]))
    assert [p.code for p in caught.value.problems] == codes


# SLEAP

POINTS = np.arange(2 * 3 * 2 * 2, dtype=float).reshape(2, 3, 2, 2)  # frames, tracks, nodes, xy


def _sleap(path: Path, points: np.ndarray, order: tuple[int, ...], **more: Any) -> Path:
    with h5py.File(path, "w") as file:
        file["tracks"] = points.transpose(order)
        file["node_names"] = np.array([b"bill", b"tail"])
        for name, value in more.items():
            file[name] = value
    return path


MATLAB, STANDARD = (1, 3, 2, 0), (0, 1, 2, 3)


def _nan(points: np.ndarray) -> np.ndarray:
    points = points.copy()
    points[0, 1] = np.nan
    points[1, :2] = np.nan
    points[1, 2, 0] = np.nan
    return points


def test_sleap_in_the_order_of_always(tmp_path: Path) -> None:
    scores = np.array([[0.9, np.nan], [np.nan, np.nan], [0.5, 0.4]])
    more = {"track_names": np.array([b"x", b"y", b"z"]), "instance_scores": scores, "video_path": "/a/b/v1.mp4"}
    path = _sleap(tmp_path / "p.h5", _nan(POINTS), MATLAB, **more)
    found = read_poses(path, _truth(tmp_path, ["v1/0.png", "v1/1.png", "v2/0.png"]))
    assert _placed(found) == {"10": [[2, 3, 0, 1], [10, 11, 8, 9]], "11": [[22, 23, None, None]]}
    assert [(b.instance_id, b.score) for b in found.instances] == [("0/x", 0.9), ("0/z", 0.5), ("1/z", 0.4)]


def test_sleap_in_standard_order_told_or_seen(tmp_path: Path) -> None:
    truth = _truth(tmp_path, ["v1/0.png", "v1/1.png"])
    # Three nodes would fit no other order; two nodes and two coordinates need the attribute.
    points = np.arange(2 * 3 * 3 * 2, dtype=float).reshape(2, 3, 3, 2)
    path = _sleap(tmp_path / "s.h5", points, STANDARD)
    with h5py.File(path, "a") as file:
        del file["node_names"]
        file.create_dataset("node_names", data=["bill", "tail", "back"], dtype=h5py.string_dtype())
        file["point_scores"] = np.full((2, 3, 3), 0.25)
    found = read_poses(path, truth)
    assert _placed(found)["10"][1] == [8, 9, 6, 7]
    assert {b.score for b in found.instances} == {0.25}
    told = _sleap(tmp_path / "t.h5", POINTS, (0, 1, 3, 2))
    with h5py.File(told, "a") as file:
        file["tracks"].attrs["dims"] = b'["frame", "track", "xy", "node"]'
    assert _placed(read_poses(told, truth)) == {
        "10": [[2, 3, 0, 1], [6, 7, 4, 5], [10, 11, 8, 9]],
        "11": [[14, 15, 12, 13], [18, 19, 16, 17], [22, 23, 20, 21]],
    }


def test_sleap_that_fits_nothing(tmp_path: Path) -> None:
    truth = _truth(tmp_path, ["v1/0.png"])
    for k, points in enumerate([np.zeros((4, 5, 6)), np.zeros((3, 4, 5, 6))]):
        with pytest.raises(DataError) as caught:
            read_poses(_sleap(tmp_path / f"{k}.h5", points, tuple(range(points.ndim))), truth)
        assert caught.value.problems[0].code == "bad_shape"
    with pytest.raises(DataError) as caught:
        read_poses(_sleap(tmp_path / "nan.h5", np.full((2, 3, 2, 2), np.nan), MATLAB), truth)
    assert caught.value.problems[0].code == "no_rows"


# Files that want more than to be read


class _Evil:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def _copy(tmp_path: Path, name: str) -> Path:
    path = tmp_path / name
    path.write_bytes((MADE / name).read_bytes())
    return path


def test_pickled_names_of_columns_are_not_unpickled(tmp_path: Path) -> None:
    path, mark = _copy(tmp_path, "one_table.h5"), tmp_path / "mark"
    with h5py.File(path, "a") as file:
        file["df_with_missing/table"].attrs["values_block_0_kind"] = np.bytes_(pickle.dumps(_Evil(mark), 0))
    with pytest.raises(DataError) as caught:
        read_poses(path, _truth(tmp_path, ["0.png"]))
    assert caught.value.problems[0].code == "not_plain"
    assert str(path) in caught.value.problems[0].file
    assert not mark.exists()


def test_pickled_values_are_refused(tmp_path: Path) -> None:
    path = _copy(tmp_path, "one_fixed.h5")
    with h5py.File(path, "a") as file:
        del file["df_with_missing/block0_values"]
        kind = h5py.vlen_dtype(np.dtype("uint8"))
        file.create_dataset("df_with_missing/block0_values", shape=(1,), dtype=kind)
    with pytest.raises(DataError) as caught:
        read_poses(path, _truth(tmp_path, ["0.png"]))
    assert "pickled values" in str(caught.value)


@pytest.mark.parametrize("how", ["external", "soft", "virtual", "raw"])
def test_values_in_other_files_are_refused(tmp_path: Path, how: str) -> None:
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["tracks"] = POINTS
    path = _sleap(tmp_path / "p.h5", POINTS, MATLAB)
    with h5py.File(path, "a") as file:
        del file["tracks"]
        if how == "external":
            file["tracks"] = h5py.ExternalLink(str(secret), "/tracks")
        elif how == "soft":
            file["mine"] = POINTS
            file["tracks"] = h5py.SoftLink("/mine")
        elif how == "virtual":
            layout = h5py.VirtualLayout(shape=POINTS.shape, dtype=float)
            layout[...] = h5py.VirtualSource(str(secret), "tracks", shape=POINTS.shape)
            file.create_virtual_dataset("tracks", layout)
        else:
            file.create_dataset("tracks", shape=(2, 2), dtype="f8", external=[(str(secret), 0, 32)])
    with pytest.raises(DataError) as caught:
        read_poses(path, _truth(tmp_path, ["0.png"]))
    assert caught.value.problems[0].code == "outside"


def test_a_small_file_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    path = _sleap(tmp_path / "p.h5", POINTS, MATLAB)
    with h5py.File(path, "a") as file:
        del file["tracks"]
        file.create_dataset("tracks", shape=(3, 2, 2, 2**28), dtype="f8", chunks=(1, 1, 1, 1024), compression="gzip")
    assert path.stat().st_size < 100_000 < hdf5.MAX_BYTES
    with pytest.raises(DataError) as caught:
        read_poses(path, _truth(tmp_path, ["0.png"]))
    assert caught.value.problems[0].code == "too_large"


@pytest.mark.parametrize("cut", [0, 100, 3000])
def test_broken_files_are_named(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "v.h5"
    path.write_bytes((MADE / "one_fixed.h5").read_bytes()[:cut])
    with pytest.raises(DataError) as caught:
        read_poses(path, _truth(tmp_path, ["0.png"]))
    assert [(p.code, p.file) for p in caught.value.problems] == [("bad_hdf5", str(path))]


def test_tables_that_contradict_themselves(tmp_path: Path) -> None:
    truth = _truth(tmp_path, ["0.png"])
    path = _copy(tmp_path, "one_fixed.h5")
    with h5py.File(path, "a") as file:
        file["df_with_missing/block0_items_label1"][...] = 9
    with pytest.raises(DataError, match="a label that is not there"):
        read_poses(path, truth)
    path = _copy(tmp_path, "two_fixed.h5")
    with h5py.File(path, "a") as file:
        del file["df_with_missing/axis1"]
        file["df_with_missing/axis1"] = np.arange(2)
    with pytest.raises(DataError, match="bad_table|blocks as large"):
        read_poses(path, truth)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"] = 1
    with pytest.raises(DataError) as caught:
        read_poses(tmp_path / "x.h5", truth)
    assert caught.value.problems[0].code == "no_table"
    (tmp_path / "x.mat").write_bytes(b"x")
    with pytest.raises(DataError) as caught:
        read_poses(tmp_path / "x.mat", truth)
    assert caught.value.problems[0].code == "unknown_kind"


def test_random_damage_is_an_error_of_the_file_or_nothing(tmp_path: Path) -> None:
    truth = _truth(tmp_path, ["v/0.png"])
    rng = np.random.default_rng(3)
    for name in ("one_fixed.h5", "one_table.h5"):
        whole = bytearray((MADE / name).read_bytes())
        for k in range(60):
            raw = bytearray(whole)
            for at in rng.integers(0, len(raw), 6):
                raw[at] = int(rng.integers(256))
            path = tmp_path / f"{name}_{k}.h5"
            path.write_bytes(raw)
            try:
                read_poses(path, truth)
            except DataError as error:
                assert error.problems
