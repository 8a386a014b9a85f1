"""How a photograph becomes the input of an image classifier.

Blue-green-red to red-green-blue, cropped as the recipe says, resized (areas averaged when shrinking, bilinear when
enlarging), then (value - mean) / std per channel on the scale 0-255. A network for integers that is given neither mean
nor std gets the bytes as they are (int8: minus 128).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from birdlab.errors import DataError, ParameterError, Problem

if TYPE_CHECKING:
    from birdlab.recipe.abstention import Classifier as Spec

#: Colour of the margin of a padded picture where no mean is given.
GRAY = 128


@dataclass(frozen=True)
class Tensor:
    """Input or output of a network; ``None`` in its shape is left open; ``quantisation`` is (scale, zero point)."""

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]
    quantisation: tuple[float, int] | None = None

    def __str__(self) -> str:
        sides = " x ".join("?" if side is None else str(side) for side in self.shape) or "one number"
        return f"{self.name} ({sides})"


@dataclass(frozen=True)
class Preparation:
    """How a picture becomes an input: ``size`` is (height, width) in px, mean and std are per channel (RGB, 0-255)."""

    size: tuple[int, int]
    layout: str
    crop: str
    dtype: np.dtype[Any]
    mean: np.ndarray | None = None
    std: np.ndarray | None = None
    quantisation: tuple[float, int] | None = None

    def __call__(self, image: np.ndarray) -> np.ndarray:
        """Input for one BGR uint8 image of shape (H, W, 3), without the axis of the batch."""
        fill = (GRAY,) * 3 if self.mean is None else tuple(int(v) for v in np.clip(np.rint(self.mean), 0, 255))
        pixels = fit(image[..., ::-1], self.size, self.crop, fill)
        value = self._whole(pixels) if self.dtype.kind in "iu" else self._scaled(pixels).astype(self.dtype)
        return value if self.layout == "NHWC" else np.ascontiguousarray(value.transpose(2, 0, 1))

    def _scaled(self, pixels: np.ndarray) -> np.ndarray:
        value = pixels.astype(np.float32)
        if self.mean is not None:
            value -= self.mean
        return value if self.std is None else value / self.std

    def _whole(self, pixels: np.ndarray) -> np.ndarray:
        limits = np.iinfo(self.dtype)
        if self.mean is None and self.std is None:
            return (pixels.astype(np.int16) + limits.min).astype(self.dtype)
        scale, zero = self.quantisation or (1.0, 0)
        return np.clip(np.rint(self._scaled(pixels) / scale) + zero, limits.min, limits.max).astype(self.dtype)


def preparation(spec: Spec, tensor: Tensor, path: str, remarks: list[str]) -> Preparation:
    """How pictures must be prepared for a network, from its input and the recipe; adds what is remarkable to ``remarks``.

    Raises:
        DataError: the input is not one of pictures in colour.
        ParameterError: settings are missing or do not fit it; all of them.
    """
    if tensor.dtype.kind not in "f" and tensor.dtype not in (np.uint8, np.int8):
        expected = "an input of real numbers, uint8 or int8"
        raise DataError(Problem("bad_input", f"an input of {tensor.dtype}", expected, file=path, key="weights"))
    layout, *sides = _axes(tensor, spec.layout, path)
    problems = _wrong_colours(spec, tensor, path)
    open_ = any(side is None for side in sides)
    if open_ and spec.imgsz is None:
        found = f"{tensor}, whose sides are open"
        problems.append(Problem("no_size", found, "the side of the input in px", "say imgsz", file=path, key="imgsz"))
    if problems:
        raise ParameterError(problems)
    size = tuple(int(side or spec.imgsz or 0) for side in sides)
    if spec.imgsz is not None and not open_ and spec.imgsz != max(size):
        remarks.append(f"the network's input is fixed at {size[1]} x {size[0]} px; imgsz {spec.imgsz} was not used")
    if tensor.dtype.kind == "f" and spec.mean is None and spec.std is None:
        remarks.append("neither mean nor std is given: the network was fed values from 0 to 255")
    mean, std = (None if v is None else np.asarray(v, dtype=np.float32) for v in (spec.mean, spec.std))
    return Preparation((size[0], size[1]), layout, spec.crop, tensor.dtype, mean, std, tensor.quantisation)


def _axes(tensor: Tensor, asked: str, path: str) -> tuple[str, int | None, int | None]:
    shape = tensor.shape
    if len(shape) == 4:
        places = {"NCHW": (1, 2, 3), "NHWC": (3, 1, 2)}
        surely = [name for name, (c, _, _) in places.items() if shape[c] == 3]
        able = [name for name, (c, _, _) in places.items() if shape[c] in (3, None)]
        if asked != "auto" and asked in able:
            _, height, width = places[asked]
            return asked, shape[height], shape[width]
        if asked == "auto" and len(surely) == 1:
            _, height, width = places[surely[0]]
            return surely[0], shape[height], shape[width]
        if able:
            expected = "a layout that its shape allows: " + " or ".join(able)
            raise ParameterError(Problem("bad_layout", f"{asked} for {tensor}", expected, file=path, key="layout"))
    raise DataError(
        Problem("bad_input", str(tensor), "pictures in three colours (N x 3 x H x W or N x H x W x 3)", file=path)
    )


def _wrong_colours(spec: Spec, tensor: Tensor, path: str) -> list[Problem]:
    problems = []
    for key, value in (("mean", spec.mean), ("std", spec.std)):
        if value is not None and (len(value) != 3 or not np.isfinite(value).all()):
            problems.append(Problem("bad_value", str(value), "three numbers (red, green, blue)", key=key))
        elif key == "std" and value is not None and min(value) <= 0:
            problems.append(Problem("bad_value", str(value), "numbers above 0", key=key))
        elif key == "std" and value is not None and max(value) < 1:
            expected, remedy = "values on the scale of the pixels, 0 to 255", "multiply mean and std by 255"
            problems.append(Problem("bad_scale", str(value), expected, remedy, key=key))
    given = spec.mean is not None or spec.std is not None
    if given and tensor.dtype.kind in "iu" and tensor.quantisation is None:
        found = f"mean or std for an input of {tensor.dtype}"
        expected = "neither: this network is fed the bytes themselves"
        problems.append(Problem("bad_value", found, expected, file=path, key="mean"))
    return problems


def fit(image: np.ndarray, size: tuple[int, int], crop: str, fill: tuple[int, ...] = (GRAY,) * 3) -> np.ndarray:
    """Bring a picture to a size: areas are averaged when shrinking, bilinear when enlarging.

    Args:
        image: uint8 array of shape (H, W, 3).
        size: height and width wanted, px.
        crop: ``squash`` (both sides scaled on their own), ``centre`` (the largest centred window of the wanted shape),
            or ``pad`` (scaled to fit inside, centred on ``fill``).
        fill: colour of the margin.

    Returns:
        uint8 array of shape (*size, 3).

    >>> wide = np.repeat(np.array([[[10], [20], [20], [10]]], np.uint8), 3, axis=2).repeat(2, axis=0)
    >>> [fit(wide, (2, 2), how)[0, :, 0].tolist() for how in ("squash", "centre", "pad")]
    [[15, 15], [20, 20], [15, 15]]
    """
    import cv2

    height, width = image.shape[:2]
    wanted = size
    if crop == "centre":
        ratio = min(height / size[0], width / size[1])
        h, w = max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio))
        top, left = (height - h) // 2, (width - w) // 2
        image = image[top : top + h, left : left + w]
    elif crop == "pad":
        ratio = min(size[0] / height, size[1] / width)
        wanted = max(1, round(height * ratio)), max(1, round(width * ratio))
    shrinks = wanted[0] <= image.shape[0] and wanted[1] <= image.shape[1]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    resized = cv2.resize(np.ascontiguousarray(image), (wanted[1], wanted[0]), interpolation=how)
    if wanted == size:
        return resized
    padded = np.full((*size, 3), fill, dtype=np.uint8)
    top, left = (size[0] - wanted[0]) // 2, (size[1] - wanted[1]) // 2
    padded[top : top + wanted[0], left : left + wanted[1]] = resized
    return padded


def made_pictures() -> list[np.ndarray]:
    """Black, a ramp, coloured noise and white: the same four on every machine, BGR uint8 of 64 x 64 px."""
    ramp = np.broadcast_to(np.arange(0, 256, 4, dtype=np.uint8)[:, None], (64, 64, 3))
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    return [np.zeros((64, 64, 3), np.uint8), ramp, noise, np.full((64, 64, 3), 255, np.uint8)]
