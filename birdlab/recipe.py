"""A study in one YAML file: what was recorded, which labels and models, how to score, which notebooks.

Paths in a recipe are relative to the recipe's own folder; an absolute path is taken as it is. Keys that birdlab
does not know are refused, with the nearest known one. Every default is written back into ``run.json``.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from birdlab.errors import ParameterError, Problem

Split = Literal["train", "val", "test", "diagnostic", "application"]
#: Notebooks of a study of detectors, in order: what a recipe that names none gets.
CHAPTERS = (
    *("00_data_audit", "01_inference", "02_detection"),
    *("03_difficulty", "04_difficulty_model", "10_summary"),
)
Probability = Annotated[float, Field(ge=0, le=1)]
#: What can name a folder, and a model in a sentence: no separator, control character or curly bracket, no dot in
#: front, no blank at an end.
_MODEL_NAME = r"^[^\s./\\{}\x00-\x1f\x7f]([^/\\{}\x00-\x1f\x7f]*[^\s/\\{}\x00-\x1f\x7f])?$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Media(_Strict):
    """Files that were recorded, as one glob of photographs or of videos."""

    images: str | None = None  #: glob of photographs, relative to ``data.root`` (``frames/**/*.jpg``)
    videos: str | None = None  #: glob of video files
    stride: Annotated[int, Field(ge=1)] | None = None  #: videos: every n-th frame …
    rate: Annotated[float, Field(gt=0)] | None = None  #: … or this many frames per second
    use: str | None = None  #: videos: part of each session to use, ``MM:SS-MM:SS`` on its clock
    chapters: bool = True  #: videos: numbered files of one recording are one session on one clock
    session: str | None = None  #: how to name sessions: a regular expression with one group, matched on the path
    site: str | None = None  #: the same for the site, or a plain name
    camera: str | None = None  #: the same for the camera, or a plain name
    split: Split = "test"

    @model_validator(mode="after")
    def _one_kind(self) -> Media:
        if (self.images is None) == (self.videos is None):
            raise ValueError("both or neither of images and videos; expected one of them")
        if self.stride and self.rate:
            raise ValueError("both stride and rate; expected one of them")
        return self

    @field_validator("use")
    @classmethod
    def _use(cls, value: str | None) -> str | None:
        if value is not None:
            parse_range(value)
        return value

    @field_validator("session", "site", "camera")
    @classmethod
    def _pattern(cls, value: str | None) -> str | None:
        if value is not None and "(" in value:
            try:
                groups = re.compile(value).groups
            except re.error as error:
                raise ValueError(f"{value!r}: {error}; expected a regular expression") from error
            if groups != 1:
                raise ValueError(f"{value!r} with {groups} groups; expected a pattern with one group in brackets")
        return value


class Labels(_Strict):
    """One label file or folder."""

    path: str  #: file (COCO, MegaDetector) or folder (YOLO, LabelMe)
    format: Literal["coco", "yolo", "labelme", "megadetector"]
    classes: list[str] | str | None = None  #: YOLO: class names in order, or a file that lists them
    rename: dict[str, str] = Field(default_factory=dict)  #: spellings of a class name, each mapped once
    ignore: list[str] = Field(default_factory=list)  #: classes whose shapes mask regions out of scoring (a decoy)
    unlisted: Literal["unlabelled", "empty"] = "unlabelled"  #: what a frame without an entry is
    split: Split | None = None  #: overrides the split of the frames this file labels
    second: bool = False  #: a second labelling of frames already labelled: compared, not scored
    min_score: Probability = 0.0  #: MegaDetector: detections taken as labels from this confidence on


class Data(_Strict):
    """What was recorded and what was labelled."""

    root: str = "."  #: folder of the data
    manifest: str | None = None  #: datapackage.json whose hashes the files must have
    generator: Literal["demo"] | None = None  #: the data are made by birdlab, into the run's own ``data`` folder
    made: bool = False  #: the data are made, not recorded; said wherever they are shown
    media: list[Media] = Field(default_factory=list)
    labels: list[Labels] = Field(default_factory=list)
    categories: Annotated[list[str], Field(min_length=1)] = Field(
        default_factory=lambda: ["bird"]
    )  #: classes that are scored

    @model_validator(mode="after")
    def _something(self) -> Data:
        if self.generator is None and not self.media:
            raise ValueError("no media; expected images or videos")
        return self


class Model(_Strict):
    """One detector: weights to run, or predictions made elsewhere."""

    name: Annotated[str, Field(pattern=_MODEL_NAME)]
    weights: str | None = None  #: .pt, .onnx or OpenVINO folder; ``birdlab:NAME`` for a detector of the demo
    predictions: str | None = None  #: file with detections made elsewhere
    format: Literal["coco", "megadetector", "yolo"] = "coco"  #: of the predictions file
    adapter: Literal["auto", "ultralytics", "yolox"] = "auto"
    sha256: str | None = None  #: hash the weights must have
    trust: bool = False  #: load a .pt that needs more than the known layers: runs code from the file
    classes: dict[str, str] = Field(default_factory=dict)  #: class of the model -> class of the study; others dropped
    conf: Probability = 0.001  #: lowest confidence kept
    iou: Probability = 0.7  #: overlap for non-maximum suppression
    max_det: Annotated[int, Field(ge=1)] = 300  #: detections kept per frame
    imgsz: Annotated[int, Field(ge=32)] = 640  #: longer side of the network's input, px
    batch: Annotated[int, Field(ge=1)] = 1
    half: bool = False  #: fp16 (CUDA only)

    @model_validator(mode="after")
    def _one_source(self) -> Model:
        if (self.weights is None) == (self.predictions is None):
            raise ValueError("both or neither of weights and predictions; expected one of them")
        return self


class Scoring(_Strict):
    """The conventions behind every detection number."""

    splits: Annotated[list[Split], Field(min_length=1)] = Field(
        default_factory=lambda: ["test"]
    )  #: frames that are scored
    iou: Annotated[float, Field(gt=0, le=1)] = 0.5
    conf: Probability = 0.25
    max_dets: Annotated[int, Field(ge=1)] = 100
    engine: Literal["hotcoco", "pycocotools"] = "hotcoco"
    class_agnostic: bool = False
    thin_s: Annotated[float, Field(ge=0)] | None = None
    #: second row with frames at least this far apart, s; not given: 10 where frames lie closer than that; 0: no such row
    published: list[Literal["western_bluebird"]] = Field(default_factory=list)  #: reference rows to print beside


class Difficulty(_Strict):
    """The conventions of the analysis of misses."""

    preset: Literal["default", "bluebird"] = "default"  #: quantiles of the bins: thirds, or .33 and .66
    min_n: Annotated[int, Field(ge=1)] = 20  #: birds that a bin needs to be the worst or the best
    n_permutations: Annotated[int, Field(ge=0)] = 2000  #: of outcomes within sessions, at least; 0: no tests
    split_strata: bool = True  #: take a session apart where its camera was nudged or its light changed to infrared
    factors: Literal["bluebird-local", "bluebird-global"] = "bluebird-local"  #: factors of the joint model


class Recipe(_Strict):
    """A whole study."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]  #: also the name of the run's folder
    title: str = ""
    description: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    device: str = "auto"  #: auto, cpu, cuda, cuda:0, mps
    shard_size: Annotated[int, Field(ge=1)] = 32  #: frames per resumable piece of work
    data: Data
    models: list[Model] = Field(default_factory=list)
    scoring: Scoring = Field(default_factory=Scoring)
    difficulty: Difficulty = Field(default_factory=Difficulty)
    notebooks: Annotated[list[str | dict[str, dict[str, Any]]], Field(min_length=1)] = Field(
        default_factory=lambda: list(CHAPTERS)
    )  #: in order; a mapping gives parameters: ``- 02_detection: {n_panels: 6}``

    @model_validator(mode="after")
    def _unique(self) -> Recipe:
        names = [m.name for m in self.models]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"two models called {', '.join(twice)}; expected a name of its own for each")
        notebooks = [name for name, _ in self.steps()]
        again = sorted({n for n in notebooks if notebooks.count(n) > 1})
        if again:
            raise ValueError(f"notebooks listed twice: {', '.join(again)}; expected each once")
        return self

    def steps(self) -> list[tuple[str, dict[str, Any]]]:
        """Notebook names in order, each with its parameters."""
        steps: list[tuple[str, dict[str, Any]]] = []
        for entry in self.notebooks:
            if isinstance(entry, str):
                steps.append((entry.removesuffix(".ipynb"), {}))
            else:
                steps.extend((name.removesuffix(".ipynb"), dict(params or {})) for name, params in entry.items())
        return steps


def parse_range(text: str) -> tuple[float, float]:
    """``MM:SS-MM:SS`` (or ``HH:MM:SS-…``, hyphen or dash) as seconds.

    >>> parse_range("00:00–07:00")
    (0.0, 420.0)
    """
    parts = re.split(r"\s*[-–—]\s*", text.strip())
    if len(parts) != 2:
        raise ValueError(f"{text!r}; expected a range like 00:00-07:00")
    lo, hi = (_clock(part, text) for part in parts)
    if hi <= lo:
        raise ValueError(f"{text!r}, which ends before it begins; expected a range like 00:00-07:00")
    return lo, hi


def _clock(part: str, text: str) -> float:
    if not re.fullmatch(r"(\d+:)?\d{1,3}:[0-5]\d(\.\d+)?", part):
        raise ValueError(f"{text!r}; expected a range like 00:00-07:00")
    seconds = 0.0
    for piece in part.split(":"):
        seconds = seconds * 60 + float(piece)
    return seconds


def load_recipe(path: str | Path) -> Recipe:
    """Read a recipe file.

    Raises:
        ParameterError: the file is missing, is not YAML, or has keys or values that cannot be used; every problem
            is in the one error, with the nearest known key for a misspelt one.
    """
    path = Path(path)
    where = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ParameterError(
            Problem("no_recipe", "no such file", "a recipe (YAML)", "`birdlab init FOLDER` writes one", file=where)
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise ParameterError(Problem("unreadable", found, "a recipe: a text file in UTF-8", file=where)) from error
    try:
        # YAML 1.2 has no sexagesimal numbers, no yes/no and reads 1e-5 as a number: see _Loader.
        raw = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        found = getattr(error, "problem", None) or getattr(error, "reason", None) or "text that is not YAML"
        line = mark.line + 1 if mark else None
        raise ParameterError(
            Problem("not_yaml", found.removeprefix("found "), "YAML", file=where, line=line)
        ) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        raise ParameterError(Problem("not_yaml", str(error), "YAML", file=where)) from error
    if not isinstance(raw, dict):
        raise ParameterError(
            Problem("not_a_recipe", type(raw).__name__, "a mapping with name, data, models", file=where)
        )
    return parse_recipe(raw, source=where)


def parse_recipe(raw: dict[str, Any], *, source: str = "recipe") -> Recipe:
    """Validate a recipe given as a mapping; see :func:`load_recipe` for the errors."""
    try:
        return Recipe.model_validate(raw)
    except ValidationError as error:
        raise ParameterError([_problem(e, source) for e in error.errors()]) from error


def _problem(error: dict[str, Any], source: str) -> Problem:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        known = _known_keys(error["loc"][:-1])
        near = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
        remedy = f"did you mean {near[0]}?" if near else ""
        return Problem("unknown_key", "an unknown key", "one of " + ", ".join(known), remedy, file=source, key=key)
    said = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if error["type"] == "model_type":  # a heading with nothing, or one word, under it
        known = ", ".join(_known_keys(error["loc"]))
        empty = error["input"] is None
        said = f"a mapping with keys of {known}" + (", or no such heading" if empty else "")
        found, expected = "nothing under it" if empty else repr(error["input"]), said
    elif error["type"] == "value_error":
        found, _, expected = said.rpartition("; expected ")
    else:
        found = "nothing" if error["type"] == "missing" else repr(error["input"])
        expected = "a value" if error["type"] == "missing" else said
    return Problem("bad_value", found[:200], expected, file=source, key=key or None)


def _known_keys(loc: tuple[int | str, ...]) -> list[str]:
    model: Any = Recipe
    inner = {"data": Data, "media": Media, "labels": Labels, "models": Model, "scoring": Scoring}
    inner |= {"difficulty": Difficulty}
    for part in loc:
        model = inner.get(str(part), model)
    return sorted(model.model_fields)


class _Loader(yaml.SafeLoader):
    """SafeLoader with the scalars of YAML 1.2: ``yes``, ``no``, ``on``, ``07:00`` and ``007`` stay text, ``1e-5`` is a number.

    A key that is given twice is refused; PyYAML would keep the last one and say nothing.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping, if no key is in it twice (a merge, ``<<``, may be)."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value} a second time", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, rx) for tag, rx in rules if not tag.endswith((":bool", ":float", ":int", ":timestamp"))]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9]\d*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^(?:[-+]?(?:(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)


def load_yaml_scalar(text: str) -> Any:
    """One value as YAML 1.2 reads it.

    >>> [load_yaml_scalar(t) for t in ("1e-5", "007", "no", "false", "null")]
    [1e-05, '007', 'no', False, None]
    """
    return yaml.load(text, Loader=_Loader)


def resolve(path: str, base: Path) -> Path:
    """``path`` relative to the folder ``base``, or as it is when absolute (``~`` is the home folder)."""
    expanded = Path(path).expanduser()
    return expanded if expanded.is_absolute() else (base / expanded)
