"""Networks that embed clips: weights by path, the same vectors as the library gives, clips pooled, what is refused."""

from __future__ import annotations

import pickle
import socket
from pathlib import Path

import numpy as np
import pytest

from birdlab.errors import BirdlabError, DataError
from birdlab.inference.embed_study import pooled
from birdlab.inference.embedder import Embedder, find_embedder, read_tensors
from birdlab.recipe.reid import ReidMethod

torch = pytest.importorskip("torch")
IMAGENET = (np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225]))


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a network was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def _embedder(path: Path, **about: object) -> Embedder:
    spec = ReidMethod.model_validate({"name": "m", "weights": path.name, **about})
    return Embedder(spec, find_embedder(spec, path.parent, path.parent), "cpu")


def _picture(side: int = 64) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)


def _blob(picture: np.ndarray) -> object:
    rgb = picture[:, :, ::-1].transpose(2, 0, 1) / 255
    return torch.from_numpy(((rgb - IMAGENET[0].reshape(3, 1, 1)) / IMAGENET[1].reshape(3, 1, 1)).astype(np.float32))


def test_timm_weights_give_the_vectors_of_timm(tmp_path: Path) -> None:
    import timm

    torch.manual_seed(0)
    network = timm.create_model("resnet10t", pretrained=False, num_classes=7).eval()
    torch.save({"state_dict": network.state_dict()}, tmp_path / "m.pth")
    picture = _picture()
    found = _embedder(tmp_path / "m.pth", architecture="resnet10t", imgsz=64).embed([picture, picture[::-1].copy()])
    with torch.inference_mode():
        want = network.forward_head(network.forward_features(_blob(picture)[None]), pre_logits=True)[0].numpy()
    assert found.shape == (2, len(want)) and found.dtype == np.float32
    np.testing.assert_allclose(found[0], want, rtol=1e-4, atol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 1e-3


def test_safetensors_and_the_names_of_dinov2(tmp_path: Path) -> None:
    import timm
    from safetensors.torch import save_file

    torch.manual_seed(0)
    network = timm.create_model("vit_tiny_patch16_224", pretrained=False, num_classes=0, img_size=32).eval()
    save_file(network.state_dict(), tmp_path / "m.safetensors")
    picture = _picture(32)
    about = {"architecture": "vit_tiny_patch16_224", "imgsz": 32, "mean": [0.5] * 3, "std": [0.5] * 3}
    found = _embedder(tmp_path / "m.safetensors", **about).embed([picture])
    blob = torch.from_numpy((picture[:, :, ::-1].transpose(2, 0, 1) / 255 - 0.5).astype(np.float32) / 0.5)
    with torch.inference_mode():
        np.testing.assert_allclose(found[0], network(blob[None])[0].numpy(), rtol=1e-3, atol=1e-4)


def test_torchvision_weights_lose_their_head(tmp_path: Path) -> None:
    from torchvision import models

    torch.manual_seed(0)
    network = models.get_model("squeezenet1_1", weights=None).eval()
    small = models.get_model("resnet18", weights=None, num_classes=5).eval()
    torch.save(small.state_dict(), tmp_path / "m.pt")
    found = _embedder(tmp_path / "m.pt", library="torchvision", architecture="resnet18", imgsz=64)
    assert found.size == 512
    small.fc = torch.nn.Identity()
    with torch.inference_mode():
        want = small(_blob(_picture())[None])[0].numpy()
    np.testing.assert_allclose(found.embed([_picture()])[0], want, rtol=1e-4, atol=1e-5)
    torch.save(network.state_dict(), tmp_path / "other.pt")
    with pytest.raises(DataError, match="weights of resnet18"):
        _embedder(tmp_path / "other.pt", library="torchvision", architecture="resnet18")


def test_torchscript_and_onnx_agree(tmp_path: Path) -> None:
    class Small(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Conv2d(3, 6, 4, stride=4)

        def forward(self, x):
            return self.net(x).mean(dim=(2, 3))

    torch.manual_seed(1)
    network, example = Small().eval(), torch.zeros(1, 3, 32, 32)
    torch.jit.trace(network, example).save(str(tmp_path / "m.torchscript"))
    names = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": {0: "n"}, "y": {0: "n"}}}
    torch.onnx.export(network, (example,), str(tmp_path / "m.onnx"), dynamo=False, **names)
    pictures = [_picture(40), _picture(32)]
    script = _embedder(tmp_path / "m.torchscript", library="torchscript", imgsz=32).embed(pictures)
    onnx = _embedder(tmp_path / "m.onnx", library="onnx", imgsz=32).embed(pictures)
    np.testing.assert_allclose(script, onnx, atol=1e-5)
    assert script.shape == (2, 6)


@pytest.mark.parametrize(
    ("about", "code"),
    [
        ({"architecture": "resnet10x"}, "unknown_architecture"),
        ({}, "no_architecture"),
        ({"architecture": "resnet10t", "sha256": "0" * 64}, "wrong_hash"),
        ({"architecture": "resnet10t", "weights": "none.pt"}, "no_weights"),
        ({"architecture": "resnet10t", "weights": "m.txt"}, "unknown_weights"),
    ],
)
def test_what_cannot_be_used_is_one_error_with_its_key(tmp_path: Path, about: dict, code: str) -> None:
    torch.save({"a": torch.zeros(2)}, tmp_path / "m.pt")
    (tmp_path / "m.txt").write_text("x")
    spec = ReidMethod.model_validate({"name": "m", "weights": "m.pt", **about})
    with pytest.raises(BirdlabError) as error:
        Embedder(spec, find_embedder(spec, tmp_path, tmp_path), "cpu")
    assert [p.code for p in error.value.problems] == [code]


def test_a_checkpoint_that_runs_code_is_refused(tmp_path: Path) -> None:
    class Bad:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    (tmp_path / "m.pt").write_bytes(pickle.dumps({"state_dict": Bad()}))
    with pytest.raises(DataError, match="a file of tensors and nothing else"):
        read_tensors(tmp_path / "m.pt")
    assert not (tmp_path / "ran").exists()
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(DataError, match="no tensors by name"):
        read_tensors(tmp_path / "list.pt")


def test_a_clip_is_the_mean_of_its_unit_vectors() -> None:
    rows = np.random.default_rng(0).normal(size=(25, 8))
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    want = units.mean(axis=0) / np.linalg.norm(units.mean(axis=0))
    np.testing.assert_allclose(pooled(rows), want, rtol=1e-5)
    assert pooled(np.array([[1.0, 0], [-1.0, 0]])) is None and pooled(np.zeros((2, 3))) is None


def test_a_network_that_gives_no_numbers_is_told(tmp_path: Path) -> None:
    class Nan(torch.nn.Module):
        def forward(self, x):
            return x.mean(dim=(2, 3)) / 0 * 0

    torch.jit.trace(Nan().eval(), torch.zeros(1, 3, 32, 32), check_trace=False).save(str(tmp_path / "m.torchscript"))
    with pytest.raises(DataError, match="holds no numbers"):
        _embedder(tmp_path / "m.torchscript", library="torchscript", imgsz=32)
