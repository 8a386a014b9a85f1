"""The sections of a recipe about detectors: what was recorded, labels, models, how to score."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Split = Literal["train", "val", "test", "diagnostic", "application"]
Generator = Literal[
    "demo", "demo_lessons", "demo_lessons_heron", "demo_lessons_wren", "demo_lessons_dunlin", "demo_lessons_ringlet"
]
GENERATORS: tuple[Generator, ...] = get_args(Generator)
Probability = Annotated[float, Field(ge=0, le=1)]
#: What can name a folder, and a model in a sentence: no separator, control character or curly bracket, no dot in
#: front, no blank at an end.
MODEL_NAME = r"^[^\s./\\{}\x00-\x1f\x7f]([^/\\{}\x00-\x1f\x7f]*[^\s/\\{}\x00-\x1f\x7f])?$"


class Strict(BaseModel):
    """A section whose unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Media(Strict):
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


class Labels(Strict):
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


class Data(Strict):
    """What was recorded and what was labelled."""

    root: str = "."  #: folder of the data
    manifest: str | None = None  #: datapackage.json whose hashes the files must have
    generator: Generator | None = None  #: the data are made by birdlab, into the run's own ``data`` folder
    made: bool = False  #: the data are made, not recorded; said wherever they are shown
    licence: str = ""  #: licence of pictures and labels (CC0-1.0 …), for the cards of models that are trained on them
    media: list[Media] = Field(default_factory=list)
    labels: list[Labels] = Field(default_factory=list)
    categories: Annotated[list[str], Field(min_length=1)] = Field(
        default_factory=lambda: ["bird"]
    )  #: classes that are scored


class Model(Strict):
    """One detector: weights to run, or predictions made elsewhere."""

    name: Annotated[str, Field(pattern=MODEL_NAME)]
    weights: str | None = None  #: .pt, .pth, .onnx or OpenVINO folder; ``birdlab:NAME`` for a detector of the demo
    predictions: str | None = None  #: file with detections made elsewhere
    format: Literal["coco", "megadetector", "yolo"] = "coco"  #: of the predictions file
    adapter: Literal["auto", "ultralytics", "yolox", "torchvision"] = "auto"
    architecture: str | None = None  #: torchvision: builder of a bare state dict (``maskrcnn_resnet50_fpn``)
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


class Scoring(Strict):
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


class Difficulty(Strict):
    """The conventions of the analysis of misses."""

    preset: Literal["default", "bluebird"] = "default"  #: quantiles of the bins: thirds, or .33 and .66
    min_n: Annotated[int, Field(ge=1)] = 20  #: birds that a bin needs to be the worst or the best
    n_permutations: Annotated[int, Field(ge=0)] = 2000  #: of outcomes within sessions, at least; 0: no tests
    split_strata: bool = True  #: take a session apart where its camera was nudged or its light changed to infrared
    factors: Literal["bluebird-local", "bluebird-global"] = "bluebird-local"  #: factors of the joint model


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
