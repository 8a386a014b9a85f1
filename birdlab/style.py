"""The look of every drawing: one fixed colour per model, shapes for hit and miss, matplotlib settings, reproducible files.

Colours are those of Okabe and Ito (2008), which stay apart for colour-blind readers. The lines of a figure use
:attr:`Hue.line`; words use the darker :attr:`Hue.on_light`, because orange, sky and purple are too pale to be read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from birdlab.errors import ParameterError
from birdlab.shards import write_atomic

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

WIDE_IN, NARROW_IN = 8.6, 3.4  #: widths of the two drawings of a figure, inches (1 in = 100 CSS px)
DPI = 200  #: of saved PNG: two pixels for each CSS pixel
N_COLOURS = 128  #: palette of a saved PNG

INK, SOFT, EDGE, GRID = "#1D2126", "#5C636B", "#9AA1A8", "#EEF0F2"


@dataclass(frozen=True)
class Hue:
    """The colour of one model: lines and fills, words on a light and on a dark page, CSS class, line pattern.

    ``dash`` is a matplotlib line style; the eighth model shares the first one's colour but not its pattern.
    """

    line: str
    on_light: str
    on_dark: str
    css_class: str
    dash: str = "-"


HUES = (
    Hue("#0072B2", "#00639C", "#62B3E8", "hue-blue"),
    Hue("#D55E00", "#B04D00", "#FF9A57", "hue-vermilion"),
    Hue("#009E73", "#00775A", "#3FCBA0", "hue-green"),
    Hue("#E69F00", "#8A5F00", "#F0B434", "hue-orange"),
    Hue("#56B4E9", "#1F76AC", "#7CC7F2", "hue-sky"),
    Hue("#CC79A7", "#A04C79", "#E39CC1", "hue-purple"),
    Hue("#000000", "#000000", "#F2F2F2", "hue-black"),
)
NEUTRAL = Hue(SOFT, "#565D65", "#A6AEB6", "hue-none")  #: for whatever is not a model of the recipe
DASHES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Mark:
    """How a box or outline on a photograph is drawn, and the word beside it in the key.

    ``dash`` is in CSS px; empty is a solid line. Everything lies on a casing of 55 % black, so it reads on sky and
    on foliage, and no colour of a model is used.
    """

    word: str
    stroke: str
    width: float
    dash: str = ""


MARKS: dict[str, Mark] = {
    "hit": Mark("found", "#FFFFFF", 2.0),
    "miss": Mark("missed", "#F0E442", 2.2, "6 3.5"),
    "fa": Mark("false alarm", "#FFFFFF", 2.0, "1.6 3.2"),
    "over": Mark("a further box on a bird already found", "#FFFFFF", 2.0, "8 3 1.6 3"),
    "under": Mark("one box over several birds", "#F0E442", 2.2, "10 3 1.6 3"),
    "truth": Mark("labelled bird", "#F0E442", 1.6),
    "label": Mark("labelled bird", "#F0E442", 1.6),
    "detection": Mark("detection", "#FFFFFF", 1.6),
    "mask": Mark("outline", "#FFFFFF", 1.4),
    "ignored": Mark("left out of scoring", "#C9CED3", 1.4, "3 5"),
}


def model_colour(index: int) -> Hue:
    """The colour of the ``index``-th model of the recipe, counted from 0; after seven the line pattern changes.

    >>> model_colour(0).line, model_colour(7).line, model_colour(7).dash
    ('#0072B2', '#0072B2', '--')
    """
    if index < 0:
        raise ParameterError(f"models are counted from 0, not {index}")
    hue, turn = HUES[index % len(HUES)], index // len(HUES)
    return Hue(hue.line, hue.on_light, hue.on_dark, hue.css_class, DASHES[turn % len(DASHES)])


def model_colours(names: Sequence[str]) -> dict[str, Hue]:
    """The colour of each model, by its place in the recipe.

    >>> model_colours(["heron", "wren"])["wren"].css_class
    'hue-vermilion'
    """
    return {name: model_colour(index) for index, name in enumerate(names)}


def colours_of_kinds(kinds: Sequence[Sequence[str]]) -> dict[str, Hue]:
    """The colour of each model where a study has several kinds: detectors, and classifiers, each counted from the first colour.

    Kinds never share a figure, so that seven colours serve each of them.

    >>> colours_of_kinds([["heron", "wren"], ["sharp"]])["sharp"].css_class
    'hue-blue'
    """
    return {name: hue for names in kinds for name, hue in model_colours(names).items()}


def rc_params(width_in: float = WIDE_IN) -> dict[str, Any]:
    """The matplotlib settings of every figure, as a plain mapping."""
    return {
        "figure.figsize": (width_in, min(width_in * 0.62, 4.2)),
        "figure.constrained_layout.use": True,
        "figure.facecolor": "white",
        "figure.dpi": 100,
        "savefig.facecolor": "white",
        "savefig.bbox": None,
        "font.family": "sans-serif",
        "font.sans-serif": [
            "Source Sans 3",
            "Source Sans Pro",
            "Segoe UI",
            "Roboto",
            "Noto Sans",
            "Liberation Sans",
            "DejaVu Sans",
        ],
        "font.size": 8,
        "axes.titlesize": 8.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": 8,
        "axes.labelcolor": SOFT,
        "axes.edgecolor": EDGE,
        "axes.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.unicode_minus": True,
        "grid.color": GRID,
        "grid.linewidth": 0.8,
        "lines.linewidth": 1.6,
        "text.color": INK,
        "xtick.labelsize": 7.5,
        "ytick.labelsize": 7.5,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "legend.frameon": False,
        "legend.fontsize": 7.5,
        # Nothing random in a saved file: ids of SVG elements come from this salt.
        "svg.hashsalt": "birdlab",
        "text.parse_math": False,  # a session or model may be called anything, $ included
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
    }


@contextmanager
def rc(width_in: float = WIDE_IN) -> Iterator[None]:
    """Draw with birdlab's settings; the user's own come back afterwards."""
    import logging

    import matplotlib as mpl

    # A family that is not installed is skipped; matplotlib's warning about each would fill the notebook.
    logger = logging.getLogger("matplotlib.font_manager")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with mpl.rc_context(rc_params(width_in)):
            yield
    finally:
        logger.setLevel(level)


def label_y(axes: Any, text: str) -> None:
    """Write the name of the y axis level above its upper end, where it is read without turning the head.

    Call it after the title is set: the title moves up to make room.
    """
    axes.set_ylabel("")
    if axes.get_title(loc="left"):
        axes.set_title(axes.get_title(loc="left"), loc="left", pad=19)
    axes.annotate(
        text, (0, 1), (0, 6), xycoords="axes fraction", textcoords="offset points", ha="left", va="bottom", color=SOFT
    )


def save_vector(figure: Figure, stem: Path) -> list[Path]:
    """Write ``stem``.svg and .pdf without dates or program names, so the same figure gives the same bytes."""
    paths = []
    for kind, metadata in (
        ("svg", {"Date": None, "Creator": None}),
        ("pdf", {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None}),
    ):
        path = stem.with_name(f"{stem.name}.{kind}")
        write_atomic(
            path,
            lambda temporary, kind=kind, metadata=metadata: _save(figure, temporary, format=kind, metadata=metadata),
        )
        paths.append(path)
    return paths


def png_bytes(figure: Figure, *, dpi: int = DPI, n_colours: int = N_COLOURS) -> bytes:
    """The figure as a PNG with an exact palette and no metadata, about a third of the size of the plain file."""
    import numpy as np
    from PIL import Image

    raw = io.BytesIO()
    _save(figure, raw, format="png", dpi=dpi, metadata={"Software": None})
    with Image.open(io.BytesIO(raw.getvalue())) as opened:
        pixels = np.asarray(opened.convert("RGB"))
    indices, palette = exact_palette(pixels, n_colours)
    image = Image.fromarray(indices, mode="P")
    image.putpalette(palette.astype(np.uint8).tobytes())
    out = io.BytesIO()
    image.save(out, format="PNG", optimize=True, dpi=(dpi, dpi))
    return out.getvalue()


def _save(figure: Figure, target: Any, **about: Any) -> None:
    """Save a figure and leave it as it is: matplotlib gives one without a layout engine the default one back."""
    import matplotlib as mpl

    with mpl.rc_context({"figure.constrained_layout.use": False}):
        figure.savefig(target, **about)


def exact_palette(pixels: np.ndarray, n_colours: int) -> tuple[np.ndarray, np.ndarray]:
    """The most frequent colours kept exactly, every other pixel mapped to the nearest of them.

    A median cut would shift the colours of the models; this keeps them.

    Args:
        pixels: height x width x 3, uint8.
        n_colours: size of the palette, 2 to 256.

    Returns:
        height x width indices (uint8) and the palette, n x 3 uint8, most frequent colour first.

    >>> import numpy as np
    >>> exact_palette(np.array([[[0, 0, 0], [255, 255, 255], [250, 250, 250], [255, 255, 255]]], np.uint8), 2)[0].tolist()
    [[1, 0, 0, 0]]
    """
    import numpy as np

    code = pixels.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    colours, inverse, counts = np.unique(code, return_inverse=True, return_counts=True)
    rgb = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.int32)
    order = np.lexsort((colours, -counts))[: min(n_colours, 256)]
    palette = rgb[order]
    nearest = np.empty(len(colours), np.uint8)
    for start in range(0, len(colours), 4096):  # in pieces: a photograph has 10^5 colours
        part = rgb[start : start + 4096]
        nearest[start : start + 4096] = ((part[:, None] - palette[None]) ** 2).sum(axis=2).argmin(axis=1)
    return nearest[inverse.reshape(code.shape)], palette.astype(np.uint8)
