"""Bad files of birds and rings: each gives one clear error, or a counted notice; none a traceback or a wrong number."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from birdlab.check.recipe import check_recipe
from birdlab.errors import DataError
from birdlab.individuals.command_reid import printed, score
from birdlab.inference.embedder import read_tensors
from birdlab.readers.reid_clips import read_clips
from birdlab.recipe import load_recipe
from birdlab.study import Run

COLOURS = {"R": "red", "G": "green"}
BGR = {"R": (0, 0, 255), "G": (0, 255, 0)}
CODES = {"ann": "rrgg", "bob": "ggrr", "cat": "rgrg"}
NETWORK = {"name": "net", "embeddings": "vectors.npy", "rows": "rows.csv"}
RINGS = {"roster": "roster.csv", "training": "masks.json", "instances": "masks.json", "colours": COLOURS, "trees": 10}


def _study(folder: Path) -> Path:
    """Three ringed birds, each in three videos (gallery twice, then asked for), one image a clip."""
    rows, images, rings = ["clip_id,video_id,individual_id,image,date,closed"], [], []
    (folder / "images").mkdir()
    for v in range(3):
        for b, (bird, code) in enumerate(CODES.items()):
            name, picture = f"images/{bird}{v}.png", np.full((64, 64, 3), 90, np.uint8)
            images.append({"id": len(images) + 1, "file_name": name, "width": 64, "height": 64})
            for r, letter in enumerate(code.upper()):
                x, y = (10, 40)[r // 2], (10, 30)[r % 2]
                picture[y : y + 10, x : x + 12] = BGR[letter]
                outline = [x, y, x + 12, y, x + 12, y + 10, x, y + 10]
                about = {"id": len(rings) + 1, "image_id": len(images), "category_id": list(COLOURS).index(letter) + 1}
                rings.append({**about, "bbox": [x, y, 12, 10], "area": 120, "iscrowd": 0, "segmentation": [outline]})
            cv2.imwrite(str(folder / name), picture)
            rows.append(f"{bird}{v},video{v},{bird},{name},202{v}-05-0{b + 1},{'query' if v == 2 else 'gallery'}")
    kinds = [{"id": k + 1, "name": name} for k, name in enumerate(COLOURS.values())]
    content = {"images": images, "annotations": rings, "categories": kinds}
    (folder / "masks.json").write_text(json.dumps(content))
    (folder / "clips.csv").write_text("\n".join(rows) + "\n")
    (folder / "roster.csv").write_text("individual_id,code\n" + "".join(f"{k},{v}\n" for k, v in CODES.items()))
    np.save(folder / "vectors.npy", np.tile(np.eye(3, dtype=np.float32), (3, 1)))
    (folder / "rows.csv").write_text("clip_id\n" + "".join(f"{row.split(',')[0]}\n" for row in rows[1:]))
    return folder


def _recipe(folder: Path, **section: object) -> Path:
    path = folder / "jays.yaml"
    reid = {"clips": "clips.csv", "protocols": ["closed"], **section}
    path.write_text(yaml.safe_dump({"name": "jays", "data": {"root": "."}, "reid": reid}))
    return path


def _run(folder: Path, **section: object) -> Run:
    path = _recipe(folder, **section)
    return Run(load_recipe(path), path, folder / "run", "05_reidentification")


def _codes(found: list, level: str) -> list[str]:
    return [problem.code for kind, problem in found if str(kind).startswith(level)]


def test_the_study_is_sound(tmp_path: Path) -> None:
    run = _run(_study(tmp_path), methods=[NETWORK], rings=RINGS)
    top = run.table("metrics_reid").filter(metric="top1", level="all", method="micro; new individuals")
    assert dict(top.select("model", "value").iter_rows())["net"] == 1
    assert run.table("ring_notices").is_empty()


# --- rings ------------------------------------------------------------------------------------------------------------


def test_a_roster_of_other_birds_is_no_overflow(tmp_path: Path) -> None:
    folder = _study(tmp_path)
    (folder / "roster.csv").write_text("individual_id,code\nzoe,rrgg\nyan,ggrr\n")
    (folder / "lists.csv").write_text("Video,PossibleBirds\nvideo2,ann|bob\n")
    (folder / "images" / "cat2.png").write_bytes(b"no picture")
    calls = _run(folder, rings=RINGS, territory="lists.csv").table("ring_calls")
    assert calls["n_tied"].min() == 0 and calls["n_tied"].max() <= 1


def test_pictures_that_are_not_there_are_told_without_the_folders_of_this_machine(tmp_path: Path) -> None:
    folder = _study(tmp_path)
    (folder / "images" / "ann2.png").unlink()
    notices = dict(_run(folder, rings=RINGS).table("ring_notices").select("code", "message").iter_rows())
    assert str(tmp_path) not in notices["ring_image_unread"] and "images/ann2.png" in notices["ring_image_unread"]


@pytest.mark.parametrize("key", ["images", "training_images"])
def test_rings_without_one_picture_are_an_error_and_no_zeros(tmp_path: Path, key: str) -> None:
    folder = _study(tmp_path)
    section = {"images": "nowhere", "rings": {**RINGS, "training_images": "."}}
    if key == "training_images":
        section = {"rings": {**RINGS, key: "nowhere"}}
    with pytest.raises(DataError, match=r"pictures with rings cannot be read: images/ann\d.png: no such file"):
        _run(folder, **section).table("ring_calls")


def test_birds_that_the_roster_lacks_are_named_by_check_and_run(tmp_path: Path) -> None:
    folder = _study(tmp_path)
    (folder / "roster.csv").write_text("individual_id,code,valid_to\nann,rrgg,\nbob,ggrr,2021-12-31\n")
    told = dict(_run(folder, rings=RINGS).table("ring_notices").select("code", "message").iter_rows())
    assert "cat" in told["bird_no_code"] and "clip_no_code" in told
    assert {"bird_no_code", "clip_no_code"} <= {p.code for _, p in check_recipe(_recipe(folder, rings=RINGS))}


def test_masks_without_a_colour_of_the_palette_name_the_file(tmp_path: Path) -> None:
    folder = _study(tmp_path)
    rings = {**RINGS, "colours": {"R": "rouge", "V": "vert"}}
    (folder / "roster.csv").write_text("individual_id,code\nann,rrvv\n")
    with pytest.raises(DataError, match=r"masks.json.*expected categories that are colours: rouge \(R\), vert \(V\)"):
        _run(folder, rings=rings).table("ring_calls")
    assert "no_training_rings" in {p.code for _, p in check_recipe(_recipe(folder, rings=rings))}


def test_check_looks_at_images_masks_and_segmenter(tmp_path: Path) -> None:
    folder = _study(tmp_path)
    content = json.loads((folder / "masks.json").read_text())
    for image in content["images"]:
        image["file_name"] = f"other/{image['id']}.png"
    (folder / "other.json").write_text(json.dumps(content))
    found = [p for _, p in check_recipe(_recipe(folder, rings={**RINGS, "instances": "other.json"}))]
    assert [p.file for p in found if p.code == "no_clip_image"] == ["other.json"]
    found = [p for _, p in check_recipe(_recipe(folder, rings={**RINGS, "segmenter": "gone.pt"}))]
    assert any("gone.pt" in str(p.file) for p in found)
    assert "no_folder" in {p.code for _, p in check_recipe(_recipe(folder, rings=RINGS, images="nowhere"))}
    (folder / "images" / "ann0.png").unlink()
    assert "no_image" in {p.code for _, p in check_recipe(_recipe(folder, rings=RINGS))}


# --- methods ----------------------------------------------------------------------------------------------------------


def test_a_network_that_could_look_at_nothing_says_why(tmp_path: Path) -> None:
    import torch

    folder = _study(tmp_path)
    net = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())
    torch.jit.trace(net, torch.zeros(1, 3, 32, 32)).save(str(folder / "net.torchscript"))
    for path in (folder / "images").iterdir():
        path.unlink()
    weights = {"name": "net", "weights": "net.torchscript", "library": "torchscript", "imgsz": 32}
    with pytest.raises(DataError, match=r"method net: found read.*; expected images of the clips"):
        _run(folder, methods=[weights | {"mean": [0.5] * 3, "std": [0.5] * 3}]).table("reid_outcomes")


def test_check_tells_a_mistake_in_the_clips_once_and_a_matrix_without_names(tmp_path: Path) -> None:
    folder = _study(tmp_path)
    matrix = {"name": "m", "similarity": "vectors.npy"}
    codes = [p.code for _, p in check_recipe(_recipe(folder, methods=[NETWORK, matrix]))]
    assert codes.count("no_names") == 1
    clips = folder / "clips.csv"
    clips.write_text(clips.read_text().replace("query", "quarry"))
    codes = [p.code for _, p in check_recipe(_recipe(folder, methods=[NETWORK, matrix], rings=RINGS))]
    assert codes.count("unknown_role") == 1


def test_an_array_of_python_objects_is_called_what_it_is(tmp_path: Path) -> None:
    folder = _study(tmp_path)
    np.save(folder / "vectors.npy", np.load(folder / "vectors.npy").astype(object), allow_pickle=True)
    with pytest.raises(DataError, match=r"Python objects, which are a pickle.*Save it as numbers"):
        _run(folder, methods=[NETWORK]).table("reid_outcomes")


def test_clips_of_one_video_are_not_told_to_make_the_protocols(tmp_path: Path) -> None:
    folder = _study(tmp_path)
    lines = (folder / "clips.csv").read_text().splitlines()
    (folder / "clips.csv").write_text("\n".join(line for line in lines if "video0" in line or "clip_id" in line))
    with pytest.raises(DataError, match="clips of two videos or more"):
        _run(folder, methods=[NETWORK], build={}).table("reid_roles")


def test_images_lie_beside_the_clips_wherever_the_recipe_lies(tmp_path: Path) -> None:
    import torch

    (tmp_path / "data").mkdir()
    folder = _study(tmp_path / "data")
    net = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())
    torch.jit.trace(net, torch.zeros(1, 3, 32, 32)).save(str(folder / "net.torchscript"))
    method = {"name": "net", "weights": "net.torchscript", "library": "torchscript", "imgsz": 32}
    path = _recipe(tmp_path, methods=[method | {"mean": [0.5] * 3, "std": [0.5] * 3}])
    path.write_text(path.read_text().replace("root: .", "root: data"))
    run = Run(load_recipe(path), path, tmp_path / "run", "05_reidentification")
    assert run.table("reid_embeddings")["embedding"].null_count() == 0


def test_what_a_run_writes_is_no_input_and_pictures_are(tmp_path: Path) -> None:
    folder = _study(tmp_path)
    before = _run(folder, rings=RINGS).inputs_of("reid")
    (folder / "run" / "figures").mkdir(parents=True)
    cv2.imwrite(str(folder / "run" / "figures" / "one.png"), np.zeros((8, 8, 3), np.uint8))
    assert _run(folder, rings=RINGS).inputs_of("reid") == before
    (folder / "images" / "ann0.png").write_bytes((folder / "images" / "bob0.png").read_bytes() + b" ")
    assert _run(folder, rings=RINGS).inputs_of("reid") != before


# --- birdlab score reid -----------------------------------------------------------------------------------------------

RANKING = "query_id,gallery,individual_id,rank\n1,territory,a,1\n1,territory,b,2\n"


def _score(folder: Path, queries: str, ranking: str = RANKING) -> dict:
    (folder / "q.csv").write_text(queries)
    (folder / "r.csv").write_text(ranking)
    return score(argparse.Namespace(queries=folder / "q.csv", ranking=folder / "r.csv"))


def test_lists_as_python_writes_them_are_lists(tmp_path: Path) -> None:
    head = "query_id,individual_id,split,candidates_territory\n"
    for text in ("a|b", "['a', 'b']", "('a', 'b', 'a')"):
        row = _score(tmp_path, f'{head}1,a,closed,"{text}"\n')["rows"][0]
        assert (row["top1"], row["chance_top1"], row["n_not_listed"]) == (1, 0.5, 0)
    with pytest.raises(DataError, match=r"q.csv, line 2, candidates_territory: found '\[1, 2\]'; expected a list of"):
        _score(tmp_path, f'{head}1,a,closed,"[1, 2]"\n')


def test_no_query_and_birds_both_known_and_unknown_are_said(tmp_path: Path) -> None:
    report = _score(tmp_path, "query_id,individual_id,split,role\n1,a,closed,validation\n")
    assert report["rows"][0]["top1"] is None and any("no query" in text for text in report["warnings"])
    queries = "query_id,individual_id,split,is_known\n1,a,open,true\n2,a,open,false\n3,b,open,false\n"
    assert any(text.endswith("of one protocol: a (1)") for text in _score(tmp_path, queries)["warnings"])


def test_a_name_cannot_break_the_table_or_speak_to_the_terminal(tmp_path: Path) -> None:
    ranking = 'query_id,gallery,individual_id,rank,model\n1,territory,a,1,"two\nlines \x1b[31mred"\n'
    text = printed(_score(tmp_path, "query_id,individual_id,split\n1,a,closed\n", ranking))
    assert "\x1b" not in text and "two lines" in text and len(text.splitlines()) == 3


def test_a_wrong_year_is_told_once_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Video,Tracklet,id,Year\nv,t,ann,MMXX\n")
    with pytest.raises(DataError) as error:
        read_clips(tmp_path / "a.csv")
    assert [(p.line, p.key) for p in error.value.problems] == [(2, "year")]


def test_weights_with_code_in_them_are_not_said_to_be_read_by_running_it(tmp_path: Path) -> None:
    import torch

    torch.save({"net": torch.nn.ReLU()}, tmp_path / "net.pt")
    with pytest.raises(DataError, match="a pickle of more than tensors") as error:
        read_tensors(tmp_path / "net.pt")
    assert "weights_only" not in str(error.value)
