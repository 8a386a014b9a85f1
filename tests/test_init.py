"""`birdlab init`: what it sees, what it asks, what it writes, and what it refuses."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab.check.command import Note, check_path
from birdlab.cli import main
from birdlab.init.look import look
from birdlab.init.recipe import categories_of, label_roles, quoted
from birdlab.kinds import list_folder
from birdlab.manifest import verify
from birdlab.readers.study import StudyTables, read_study
from birdlab.recipe import load_recipe, load_yaml_scalar, resolve


def picture(path: Path, width: int = 64, height: int = 48) -> Path:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (width, height), (90, 120, 60)).save(path)
    return path


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def coco(names: list[str], boxes: list[int], categories: tuple[str, ...] = ("bird",), **extra: Any) -> dict[str, Any]:
    """Ground truth with one box on each picture whose position is in ``boxes``."""
    return {
        "images": [{"id": i, "file_name": n, "width": 64, "height": 48, **extra} for i, n in enumerate(names)],
        "categories": [{"id": i, "name": n} for i, n in enumerate(categories)],
        "annotations": [
            {"id": k, "image_id": i, "category_id": 0, "bbox": [5, 5, 20, 10], "area": 200} for k, i in enumerate(boxes)
        ],
    }


def start(folder: Path, out: Path, *flags: str, rc: int = 0) -> None:
    assert main(["init", str(folder), "--out", str(out), *flags]) == rc


def written(out: Path, name: str = "data") -> StudyTables:
    """The study as read from the recipe that was written; manifest verified, recipe checked."""
    path = out / "reports" / f"{name}.yaml"
    recipe = load_recipe(path)
    root = resolve(recipe.data.root, path.parent)
    assert verify(resolve(recipe.data.manifest or "", path.parent), root) == []
    assert [p for p in check_path(path) if not isinstance(p, Note)] == []
    return read_study(recipe, path.parent, root)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four pictures in two folders, COCO labels for three (one of them empty), results."""
    root = tmp_path / "data"
    for name in ("n1/a.jpg", "n1/b.jpg", "n2/c.JPG", "n2/d.png"):
        picture(root / name)
    write(root / "labels.json", coco(["n1/a.jpg", "n1/b.jpg", "n2/c.JPG"], [0, 0, 2]))
    write(root / "predictions_heron.json", [{"image_id": 0, "category_id": 0, "bbox": [5, 5, 20, 10], "score": 0.9}])
    return root


class TestCoco:
    def test_what_is_seen_is_said(self, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write(data / "notes.docx", "x")
        start(data, tmp_path, "--yes")
        out = capsys.readouterr().out
        for sentence in (
            "I see 4 pictures in 2 folders.",
            "1 COCO label file, labels.json: 3 boxes ('bird' 3) on 3 pictures, 1 of them without a bird.",
            "1 picture has no entry in the labels.",
            "predictions_heron.json (COCO results): 1 detection on 1 picture.",
            "Left aside, no use for them: 1 .docx.",
            "--session: yes, each folder",
            "--no-label: unlabelled",
            "1 model: heron.",
        ):
            assert sentence in out
        assert out.rstrip().endswith("data.yaml") and "Next: birdlab run " in out

    def test_the_recipe_loads_and_the_study_reads(self, data: Path, tmp_path: Path) -> None:
        start(data, tmp_path, "--yes")
        study = written(tmp_path)
        states = dict(study.frames.select("frame_id", "label_state").iter_rows())
        assert states == {"n1/a.jpg": "labelled", "n1/b.jpg": "empty", "n2/c.JPG": "labelled", "n2/d.png": "unlabelled"}
        assert study.frames["video_id"].to_list() == ["n1", "n1", "n2", "n2"] and study.labels.height == 3
        recipe = load_recipe(tmp_path / "reports/data.yaml")
        assert recipe.data.root == "../data" and recipe.data.labels[0].path == "../data/labels.json"
        assert (recipe.models[0].name, recipe.models[0].predictions) == ("heron", "../data/predictions_heron.json")

    def test_answers_as_flags(self, data: Path, tmp_path: Path) -> None:
        flags = [
            "--session",
            "(n\\d)/",
            "--site",
            'Bern, "Aare"',
            "--no-label",
            "empty",
            "--licence",
            "CC-BY-4.0",
            "--source",
            "me",
        ]
        start(data, tmp_path, "--name", "other.name", *flags)
        study = written(tmp_path, "other.name")
        assert study.frames["site_id"].unique().to_list() == ['Bern, "Aare"']
        assert study.frames["label_state"].to_list()[-1] == "empty"
        package = json.loads((tmp_path / "data_manifests/other.name/datapackage.json").read_text())
        assert package["licenses"] == [{"name": "CC-BY-4.0"}] and package["sources"] == [{"title": "me"}]
        assert load_recipe(tmp_path / "reports/other.name.yaml").data.licence == "CC-BY-4.0"

    @pytest.mark.parametrize(
        ("answer", "sessions"),
        [("one", ["data"] * 4), ("file", ["a", "b", "c", "d"]), ("folder", ["n1", "n1", "n2", "n2"])],
    )
    def test_words_for_sessions(self, data: Path, tmp_path: Path, answer: str, sessions: list[str]) -> None:
        start(data, tmp_path, "--yes", "--session", answer)
        assert written(tmp_path).frames["video_id"].to_list() == sessions

    def test_sessions_and_licence_in_the_labels_are_not_asked(
        self, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        content = coco(["n1/a.jpg", "n1/b.jpg", "n2/c.JPG", "n2/d.png"], [0], session="2024-05-01", site="garden")
        write(data / "labels.json", content | {"licenses": [{"id": 1, "name": "CC0-1.0"}]})
        start(data, tmp_path, "--source", "me")
        out = capsys.readouterr().out
        assert "it names the recording sessions and sites" in out and "Taken" not in out
        assert set(written(tmp_path).frames["site_id"]) == {"garden"}
        assert json.loads((tmp_path / "data_manifests/data/datapackage.json").read_text())["licenses"] == [
            {"name": "CC0-1.0"}
        ]
        assert load_recipe(tmp_path / "reports/data.yaml").data.licence == "CC0-1.0"

    def test_of_two_licences_in_the_labels_none_is_taken_unasked(self, data: Path, tmp_path: Path) -> None:
        two = [{"id": 1, "name": "CC0-1.0"}, {"id": 2, "name": "CC-BY-4.0"}]
        write(data / "labels.json", coco(["n1/a.jpg", "n2/d.png"], [0]) | {"licenses": two})
        start(data, tmp_path, "--yes")
        assert load_recipe(tmp_path / "reports/data.yaml").data.licence == ""
        assert "licenses" not in json.loads((tmp_path / "data_manifests/data/datapackage.json").read_text())

    def test_only_birds_of_a_long_list_of_classes(self, data: Path, tmp_path: Path) -> None:
        write(data / "labels.json", coco(["n1/a.jpg"], [0], ("Bird", "person", "car", "dog", "cat", "cow", "kite")))
        start(data, tmp_path, "--yes")
        assert load_recipe(tmp_path / "reports/data.yaml").data.categories == ["Bird"]
        assert written(tmp_path).labels["category"].to_list() == ["Bird"]

    def test_the_same_pictures_labelled_three_times(self, data: Path, tmp_path: Path) -> None:
        for name in ("anna.json", "bea.json"):
            write(data / name, coco(["n1/a.jpg"], [0]))
        start(data, tmp_path, "--yes", "--truth", "bea.json")
        labels = load_recipe(tmp_path / "reports/data.yaml").data.labels
        assert [(Path(entry.path).name, entry.second) for entry in labels] == [("anna.json", True), ("bea.json", False)]
        assert "labels.json" in (tmp_path / "reports/data.yaml").read_text()
        assert written(tmp_path).labels.height == 1

    def test_results_of_another_study_are_left_out_and_said(
        self, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write(data / "wren.json", [{"image_id": 77, "category_id": 0, "bbox": [5, 5, 20, 10], "score": 0.9}])
        start(data, tmp_path, "--yes")
        out = capsys.readouterr().out
        assert "does not fit these pictures: wren.json" in out and "77" in out and "1 model: heron." in out
        assert [m.name for m in load_recipe(tmp_path / "reports/data.yaml").models] == ["heron"]
        assert "# does not fit" in (tmp_path / "reports/data.yaml").read_text()

    def test_labels_with_problems_stop_it_and_nothing_is_written(
        self, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        content = coco(["n1/a.jpg"], [0])
        content["annotations"][0]["bbox"] = [1, 2, -3, 4]
        write(data / "labels.json", content)
        start(data, tmp_path, "--yes", rc=3)
        assert "labels.json" in capsys.readouterr().err
        assert not (tmp_path / "reports").exists() and not (tmp_path / "data_manifests").exists()


class TestOtherLabels:
    def test_yolo_as_ultralytics_lays_it_out(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        root = tmp_path / "data"
        for split, names in (("train", "ab"), ("val", "c")):
            for name in names:
                picture(root / f"images/{split}/{name}.jpg")
        write(root / "labels/train/a.txt", "1 0.5 0.5 0.25 0.5\n")
        write(root / "labels/val/c.txt", "")
        write(root / "data.yaml", "names:\n  0: crow\n  1: bluebird\n")
        start(root, tmp_path, "--yes")
        assert (
            "2 YOLO label files in labels: 1 box ('bluebird' 1) on 2 pictures, 1 of them without a bird."
            in capsys.readouterr().out
        )
        recipe = load_recipe(tmp_path / "reports/data.yaml")
        assert recipe.data.categories == ["bluebird"] and recipe.scoring.splits == ["val"]
        study = written(tmp_path)
        rows = study.frames.select("frame_id", "split", "label_state").rows()
        assert rows == [
            ("images/train/a.jpg", "train", "labelled"),
            ("images/train/b.jpg", "train", "unlabelled"),
            ("images/val/c.jpg", "val", "empty"),
        ]
        assert study.labels.select("category", "x", "y", "w", "h").row(0) == ("bluebird", 24.0, 12.0, 16.0, 24.0)

    def test_yolo_beside_the_pictures_without_a_list_of_classes(self, tmp_path: Path) -> None:
        root = tmp_path / "data"
        picture(root / "a.jpg")
        write(root / "a.txt", "0 0.5 0.5 0.25 0.5\n")
        write(root / "README.txt", "read me")
        start(root, tmp_path, "--yes")
        assert written(tmp_path).labels["category"].to_list() == ["bird"]

    def test_yolo_with_confidences_is_a_model(self, data: Path, tmp_path: Path) -> None:
        write(data / "runs/wren/labels/a.txt", "0 0.5 0.5 0.25 0.5 0.9\n")
        start(data, tmp_path, "--yes")
        recipe = load_recipe(tmp_path / "reports/data.yaml")
        made = [(m.name, m.predictions, m.classes) for m in recipe.models if m.format == "yolo"]
        assert made == [("wren", "../data/runs/wren/labels", {"0": "bird"})] and written(tmp_path).labels.height == 3

    def test_labelme_with_spellings(self, tmp_path: Path) -> None:
        root = tmp_path / "data"
        for name in "abcd":
            picture(root / f"nest {name}'s/{name} ö.jpg")
        shape = {"shape_type": "rectangle", "points": [[30, 20], [10, 5]]}
        for name, labels in (("a", ["Bluebird", "bluebird "]), ("b", ["Bluebird"]), ("c", [])):
            shapes = [
                shape | {"label": label, "points": [[30 - 9 * i, 20], [22 - 9 * i, 5]]}
                for i, label in enumerate(labels)
            ]
            write(
                root / f"nest {name}'s/{name} ö.json",
                {
                    "shapes": shapes,
                    "imagePath": f"D:\\x\\{name} ö.jpg",
                    "imageData": None,
                    "imageHeight": 48,
                    "imageWidth": 64,
                },
            )
        start(root, tmp_path, "--yes")
        study = written(tmp_path)
        assert load_recipe(tmp_path / "reports/data.yaml").data.categories == ["Bluebird"]
        assert study.labels["category"].to_list() == ["Bluebird"] * 3
        assert study.frames["label_state"].to_list() == ["labelled", "labelled", "empty", "unlabelled"]
        files = (tmp_path / "data_manifests/data/files.csv").read_text()
        assert files.count(",photograph,") == 4 and files.count(",label,") == 3

    def test_megadetector_is_a_model(self, data: Path, tmp_path: Path) -> None:
        entry = {"file": "n1/a.jpg", "detections": [{"category": "1", "conf": 0.9, "bbox": [0.1, 0.1, 0.2, 0.2]}]}
        write(
            data / "md.json",
            {
                "images": [entry],
                "detection_categories": {"1": "animal", "2": "person"},
                "info": {"detector": "md_v5a.0.0.pt"},
            },
        )
        start(data, tmp_path, "--yes")
        model = load_recipe(tmp_path / "reports/data.yaml").models[0]
        assert (model.name, model.format, model.classes) == ("md_v5a.0.0", "megadetector", {"animal": "bird"})
        assert written(tmp_path).labels.height == 3


class TestModelsAndVideos:
    def test_openvino_folder(self, data: Path, tmp_path: Path) -> None:
        write(data / "yolo_openvino_model/m.xml", "<net/>")
        write(data / "yolo_openvino_model/m.bin", "x")
        write(data / "yolo_openvino_model/metadata.yaml", "imgsz: [320, 480]\nnames: {0: person, 1: bird}\n")
        content = coco(["n1/a.jpg"], [0], ("sparrow",))
        write(data / "labels.json", content)
        (data / "predictions_heron.json").unlink()
        start(data, tmp_path, "--yes")
        [model] = load_recipe(tmp_path / "reports/data.yaml").models
        assert (model.name, model.weights, model.imgsz) == ("yolo_openvino_model", "../data/yolo_openvino_model", 480)
        assert model.classes == {"bird": "sparrow"}

    def test_pictures_alone(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for i in range(3):
            picture(tmp_path / f"data/{i}.png")
        start(tmp_path / "data", tmp_path, "--yes")
        assert "There are no labels" in capsys.readouterr().out
        recipe = load_recipe(tmp_path / "reports/data.yaml")
        assert recipe.models == [] and recipe.data.labels == [] and [n for n, _ in recipe.steps()] == ["00_data_audit"]
        assert written(tmp_path).frames.height == 3

    def test_videos(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        av = pytest.importorskip("av")
        path = tmp_path / "data/clip 1.mp4"
        path.parent.mkdir()
        with av.open(str(path), "w") as container:
            stream = container.add_stream("mpeg4", rate=10)
            stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
            for _ in range(25):
                container.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
            container.mux(stream.encode())
        shutil.copy(path, tmp_path / "data/clip b.mp4")
        start(tmp_path / "data", tmp_path, "--yes")
        assert "I see 2 videos." in capsys.readouterr().out
        study = written(tmp_path)
        assert study.frames["media_id"].unique().len() == 2 and set(study.frames["width_px"]) == {64}
        resources = json.loads((tmp_path / "data_manifests/data/datapackage.json").read_text())["resources"]
        assert [(r["path"], r["mediatype"], r["width_px"]) for r in resources] == [
            ("clip 1.mp4", "video/mp4", 64),
            ("clip b.mp4", "video/mp4", 64),
        ]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestAsking:
    def ask(self, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
        monkeypatch.setattr("sys.stdin", _Terminal("".join(f"{line}\n" for line in lines)))

    def test_answers_on_a_terminal(
        self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.ask(monkeypatch, "no", "file", "folder", "maybe", "e", "-", "")
        start(data, tmp_path)
        out = capsys.readouterr().out
        assert "Is each of the 2 folders one visit to one place" in out
        assert "1 picture has no label. Did somebody look and see no bird" in out
        frames = written(tmp_path).frames
        assert frames["video_id"].to_list() == ["a", "b", "c", "d"] and frames["site_id"].to_list() == [
            "n1",
            "n1",
            "n2",
            "n2",
        ]
        assert frames["label_state"].to_list()[-1] == "empty"

    def test_series_of_names_are_offered(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in ("nest1_f001", "nest1_f002", "nest2_f001", "nest2_f002"):
            picture(tmp_path / f"data/{name}.jpg")
        self.ask(monkeypatch, "yes", "", "", "")
        start(tmp_path / "data", tmp_path)
        assert "2 series (nest1, nest2 …)" in capsys.readouterr().out
        assert written(tmp_path).frames["video_id"].to_list() == ["nest1", "nest1", "nest2", "nest2"]

    def test_input_that_ends(
        self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.ask(monkeypatch, "yes")
        start(data, tmp_path, rc=2)
        assert "input ended" in capsys.readouterr().err and not (tmp_path / "reports").exists()

    def test_no_terminal_names_every_flag(
        self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
        start(data, tmp_path, "--licence", "CC0-1.0", rc=2)
        error = capsys.readouterr().err
        assert [
            flag for flag in ("--session", "--site", "--no-label", "--licence", "--source") if f"{flag}: " in error
        ] == ["--session", "--site", "--no-label", "--source"]
        assert "Traceback" not in error and not (tmp_path / "reports").exists()

    @pytest.mark.parametrize(
        "flags",
        [
            ["--session", "(a"],
            ["--session", "(a)(b)"],
            ["--site", "()("],
            ["--truth", "gone.json"],
            ["--name", "a/b"],
            ["--name", ""],
        ],
    )
    def test_flags_that_cannot_be_used(
        self, data: Path, tmp_path: Path, flags: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        start(data, tmp_path, "--yes", *flags, rc=2)
        assert flags[0] in capsys.readouterr().err and not (tmp_path / "reports").exists()

    def test_a_pattern_that_matches_nothing(
        self, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        start(data, tmp_path, "--yes", "--session", "(zzz)", rc=3)
        assert "(zzz)" in capsys.readouterr().err and not (tmp_path / "reports").exists()


class TestFiles:
    def test_nothing_is_overwritten_without_force(
        self, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        start(data, tmp_path, "--yes")
        recipe = write(tmp_path / "reports/data.yaml", "mine")
        start(data, tmp_path, "--yes", rc=2)
        assert "--force" in capsys.readouterr().err and recipe.read_text() == "mine"
        start(data, tmp_path, "--yes", "--force")
        assert written(tmp_path).frames.height == 4

    def test_the_same_folder_gives_the_same_bytes(self, data: Path, tmp_path: Path) -> None:
        names = ("reports/data.yaml", "data_manifests/data/datapackage.json", "data_manifests/data/files.csv")
        start(data, tmp_path, "--yes")
        first = [(tmp_path / name).read_bytes() for name in names]
        start(data, tmp_path, "--yes", "--force")
        assert [(tmp_path / name).read_bytes() for name in names] == first

    def test_a_recipe_that_cannot_be_written_takes_the_manifest_back(
        self, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write(tmp_path / "out/reports", "a file where the folder should be")
        start(data, tmp_path / "out", "--yes", rc=2)
        assert not (tmp_path / "out/data_manifests/data").exists() and "Traceback" not in capsys.readouterr().err

    def test_project_inside_the_data_folder(self, data: Path) -> None:
        picture(data / "top.jpg")
        start(data, data, "--yes")
        picture(data / "reports/data/figures/fig.png")
        study = written(data)
        assert study.frames.height == 5
        start(data, data, "--yes", "--force")
        assert written(data).frames.height == 5

    def test_relative_paths_and_links(self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "link").symlink_to(data, target_is_directory=True)
        (tmp_path / "project").mkdir()
        monkeypatch.chdir(tmp_path / "project")
        assert main(["init", "../link", "--yes"]) == 0
        assert written(tmp_path / "project", "link").frames.height == 4


class TestOddFolders:
    @pytest.mark.parametrize(
        ("make", "word"),
        [
            (lambda p: None, "no such folder"),
            (lambda p: p.write_text("x"), "a file"),
            (lambda p: p.mkdir(), "an empty folder"),
        ],
    )
    def test_no_folder_a_file_an_empty_one(
        self, tmp_path: Path, make: Any, word: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        make(tmp_path / "x")
        start(tmp_path / "x", tmp_path / "out", "--yes", rc=3)
        error = capsys.readouterr().err
        assert word in error and error.count("\n") == 1 and not (tmp_path / "out").exists()

    def test_labels_without_pictures(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write(tmp_path / "x/gt.json", coco(["a.jpg"], [0]))
        start(tmp_path / "x", tmp_path, "--yes", rc=3)
        assert "without their pictures" in capsys.readouterr().err

    def test_links_in_circles(self, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (data / "n1/again").symlink_to(data, target_is_directory=True)
        (data / "gone.txt").symlink_to(data / "nowhere.txt")
        start(data, tmp_path, "--yes")
        assert "1 link to a folder that was looked at already" in capsys.readouterr().out
        assert written(tmp_path).frames.height == 4

    def test_a_folder_that_cannot_be_opened(
        self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (data / "locked").mkdir()
        real = os.scandir

        def scandir(path: Any = ".") -> Any:
            if str(path).endswith("locked"):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path)

        monkeypatch.setattr("os.scandir", scandir)
        start(data, tmp_path, "--yes")
        assert "Could not open the folder locked: Permission denied." in capsys.readouterr().out

    def test_odd_names(self, tmp_path: Path) -> None:
        names = ['nest "7"/Möwe 1.jpg', "nest 'b' [x]{y}/2.jpg", "a\nb/3.jpg", "#c: d/4.jpg", " e /5.jpg"]
        for name in names:
            picture(tmp_path / "data" / name)
        write(tmp_path / 'data/nest "7"/l\n\'1.json', coco(["Möwe 1.jpg"], [0]))
        start(tmp_path / "data", tmp_path, "--yes", "--site", "null")
        study = written(tmp_path)
        assert sorted(study.frames["frame_id"]) == sorted(names) and study.labels.height == 1
        assert set(study.frames["site_id"]) == {"null"}

    def test_hidden_files_are_left_aside(self, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write(data / "n1/._a.jpg", "mac")
        start(data, tmp_path, "--yes")
        assert "1 file whose name begins with a dot" in capsys.readouterr().out
        assert written(tmp_path).frames.height == 4

    def test_pictures_that_no_table_can_hold(
        self, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (data / os.fsdecode(b"caf\xe9.jpg")).write_bytes(b"x")
        (data / "gone.jpg").symlink_to(data / "nowhere.jpg")
        start(data, tmp_path, "--yes", rc=3)
        error = capsys.readouterr().err
        assert "not UTF-8" in error and "gone.jpg: found a link" in error and not (tmp_path / "reports").exists()
        assert {p.code for p in check_path(data) if not isinstance(p, Note)} >= {"not_utf8", "dead_link"}

    @pytest.mark.parametrize("body", [b"", b'{"images": [', b"\xff\xfe\x00", b"{'a': 1}", b"[" * 100_000])
    def test_json_that_cannot_be_read_is_said(
        self, data: Path, tmp_path: Path, body: bytes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (data / "broken.json").write_bytes(body)
        start(data, tmp_path, "--yes")
        [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Could not read")]
        assert "broken.json" in line
        assert written(tmp_path).labels.height == 3

    def test_a_picture_that_cannot_be_read_is_kept_and_counted(self, data: Path, tmp_path: Path) -> None:
        (data / "n2/e.jpg").write_bytes(b"no picture")
        start(data, tmp_path, "--yes")
        study = written(tmp_path)
        assert study.frames.filter(frame_id="n2/e.jpg")["width_px"].to_list() == [None]
        assert "n2/e.jpg,photograph,10,sha256:" in (tmp_path / "data_manifests/data/files.csv").read_text()

    def test_many_files(self, tmp_path: Path) -> None:
        first = picture(tmp_path / "data/0/0.png")
        for i in range(1, 2000):
            path = tmp_path / f"data/{i % 7}/{i}.png"
            path.parent.mkdir(exist_ok=True)
            os.link(first, path)
        start(tmp_path / "data", tmp_path, "--yes")
        assert len((tmp_path / "data_manifests/data/files.csv").read_text().splitlines()) == 2001


class TestParts:
    @given(st.text(min_size=0, max_size=20))
    @settings(max_examples=300, deadline=None)
    def test_any_text_survives_yaml(self, text: str) -> None:
        assert load_yaml_scalar(f"a: {quoted(text)}  # word\nb: 1") == {"a": text, "b": 1}

    def test_roles_of_label_files(self, data: Path) -> None:
        sources = look(list_folder(data)).labels
        assert label_roles(sources, None) == {"labels.json": "first"}
        assert categories_of(()) == ["bird"]


@pytest.mark.real
@pytest.mark.parametrize(
    ("folder", "frames", "labels", "sessions", "sites"),
    [("photos/house_sparrow_cc0", 6, 16, 1, 0), ("flying_birds/crops", 158, 165, 18, 6)],
)
def test_real_studies(
    real_data: Path, tmp_path: Path, folder: str, frames: int, labels: int, sessions: int, sites: int
) -> None:
    start(real_data / folder, tmp_path, "--yes", "--name", "real")
    study = written(tmp_path, "real")
    assert (study.frames.height, study.labels.height, study.frames["video_id"].n_unique()) == (frames, labels, sessions)
    assert study.frames["site_id"].drop_nulls().n_unique() == sites
    assert load_recipe(tmp_path / "reports/real.yaml").models[0].name == "yolo11n_int8_openvino"


def test_a_detector_of_any_file_name_gets_a_name_that_a_recipe_takes(tmp_path: Path, capsys) -> None:
    folder = picture(tmp_path / "data" / "a.jpg").parent
    for name in ("{model}.pt", "...v2 .pt", "a.b.pt"):
        (folder / name).write_bytes(b"x")
    assert main(["init", str(folder), "--yes", "--name", "s", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "reports" / "s.yaml").read_text(encoding="utf-8")
    names = sorted(m.name for m in load_recipe(tmp_path / "reports" / "s.yaml").models)
    assert names == ["a.b", "model"] and "v2" not in text  # hidden files are not looked at
    assert main(["init", str(folder), "--yes", "--name", "t", "--out", str(tmp_path), "--truth", "x.json"]) == 2
    assert "no --truth: there are no labels here" in capsys.readouterr().err
