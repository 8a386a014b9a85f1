"""Tiny videos for tests: written with PyAV, then damaged or turned as cameras and cards do."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

#: Brightness step from one frame to the next: the frame's number can be read from its pixels.
STEP = 9


def write_video(
    path: Path,
    times_ms: Sequence[int],
    *,
    size: tuple[int, int] = (64, 48),
    created: str = "",
    rotation: int = 0,
    gop: int = 250,
    faststart: bool = False,
) -> Path:
    """H.264 frames at the given times; frame i is gray of brightness i·9 mod 252, with a white corner at the top left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"movflags": "+faststart"} if faststart else {}
    with av.open(str(path), "w", options=options) as container:
        if created:
            container.metadata["creation_time"] = created
        stream = container.add_stream("libx264", rate=30, options={"g": str(gop), "crf": "10"})
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.codec_context.time_base = stream.time_base = Fraction(1, 1000)
        if rotation:
            stream.set_display_rotation(rotation)
        for i, time in enumerate(times_ms):
            image = np.full((size[1], size[0], 3), i * STEP % 252, np.uint8)
            image[:16, :16] = 255
            frame = av.VideoFrame.from_ndarray(image, format="bgr24")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def number_of(image: np.ndarray) -> int:
    """Number of a frame written by :func:`write_video` (below 28), from its middle."""
    h, w = image.shape[:2]
    return round(float(image[h // 2 : h // 2 + 8, w // 2 : w // 2 + 8].mean()) / STEP)
