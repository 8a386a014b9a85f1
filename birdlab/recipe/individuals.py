"""The section of a recipe about individuals and behaviour: who was there, what they did, and what errors do to rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from birdlab.recipe.sections import MODEL_NAME, Probability, Strict

Name = Annotated[str, Field(pattern=MODEL_NAME)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Path_ = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]+$")]


def wrong_list(labels: Sequence[str]) -> tuple[str, str] | None:
    """What is wrong with a list of behaviours, and what is expected; None where nothing is.

    >>> wrong_list(["Peck", "peck", "Other"])
    ('Peck and peck, which are one name', 'each behaviour once, in any case')
    """
    by: dict[str, list[str]] = {}
    for label in labels:
        by.setdefault(label.strip().casefold(), []).append(label)
    if "" in by:
        return "an empty name", "names of behaviours"
    if twice := [" and ".join(same) for same in by.values() if len(same) > 1]:
        return f"{'; '.join(twice)}, which are one name", "each behaviour once, in any case"
    return (", ".join(labels) or "nothing", "two or more names") if len(by) < 2 else None


class Actions(Strict):
    """Clips whose behaviour was named by hand, and what models name it."""

    truth: Path_  #: BehaviourAnnotations.csv, or a CSV clip_id,video_id,behaviour
    predictions: dict[Name, Path_]  #: model -> CSV clip_id,behaviour
    labels: Annotated[list[str], Field(min_length=2)] = Field(default_factory=lambda: ["Peck", "Submissive", "Other"])
    #: the list over which macro F1 is taken; a class that never occurs counts as 0
    split: str | None = "Test"  #: clips of this split only, where the file has the column Split

    @field_validator("labels")
    @classmethod
    def _each_once(cls, labels: list[str]) -> list[str]:
        if wrong := wrong_list(labels):
            raise ValueError(f"{wrong[0]}; expected {wrong[1]}")
        return labels


class Keypoints(Strict):
    """Keypoints placed by hand, and what models place."""

    truth: Path_  #: COCO keypoints
    predictions: dict[Name, Path_]  #: model -> COCO results or a COCO file, DeepLabCut csv or h5, SLEAP analysis h5
    sigmas: Positive | dict[str, Positive] = 0.05
    #: fall-off of OKS per keypoint (COCO: 0.025 for eyes to 0.107 for hips)
    scene: str = "scene"  #: field of the images that names the kind of scene
    session: str = "video"  #: field of the images that names the video


class Individuals(Strict):
    """Who was there and what did it do? CHIRP-style: tracks, identities and behaviours against truth by hand."""

    folder: Path_  #: published layout: MetaData.csv, GroundTruth, InferenceData, HumanBenchmarkBORIS
    inference: Path_ | None = None  #: folder of the predictions (default: ``folder``/InferenceData)
    fps: Positive | None = None  #: frame rate where MetaData.csv has no column FPS, Hz
    human: bool = True  #: print the human benchmark, where the folder has one
    n_random: Annotated[int, Field(ge=20, le=10_000)] = 200  #: draws of the random baseline
    tolerance_s: Annotated[float, Field(gt=0, le=60)] = (
        3.0  #: longest shift between human and model events looked at, s
    )
    actions: Actions | None = None
    keypoints: Keypoints | None = None
    published: list[Literal["chirp"]] = Field(default_factory=list)  #: reference rows to print beside


class ClipClassifier(Strict):
    """A network that names the behaviour in a window of a track."""

    name: Name
    weights: Path_  #: TorchScript (.pt, .torchscript) or ONNX (.onnx); input N x C x T x H x W
    labels: Annotated[list[str], Field(min_length=2)]  #: class of each output, in order
    sha256: str | None = None  #: hash the weights must have
    frames: Annotated[int, Field(ge=1)] = 25  #: tracked frames in a window
    imgsz: Annotated[int, Field(ge=16)] = 224  #: side of the network's input, px
    pad: Literal["centre", "corner"] = "centre"  #: where the bird lies in the black square it is put into
    mean: Annotated[list[Finite], Field(min_length=3, max_length=3)] = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    #: subtracted per channel (RGB, 0-255 scale)
    std: Annotated[list[Positive], Field(min_length=3, max_length=3)] = Field(
        default_factory=lambda: [255.0, 255.0, 255.0]
    )  #: divided by, per channel
    softmax: Literal["auto", "yes", "no"] = "auto"  #: whether the output needs one to be probabilities

    @field_validator("labels")
    @classmethod
    def _told_apart(cls, labels: list[str]) -> list[str]:
        spelt = [label.strip().casefold() for label in labels]
        if "" in spelt or len(set(spelt)) < len(spelt):
            raise ValueError("an empty label, or two of one name; expected a name of its own for each output")
        return labels


class Tracking(Strict):
    """Birds followed through the videos of the study by a detector and a tracker (``01_inference``)."""

    detector: Name  #: one of the study's models, with weights or with predictions made elsewhere
    trackers: Annotated[list[Literal["botsort", "bytetrack"]], Field(min_length=1)] = Field(
        default_factory=lambda: ["bytetrack"]
    )
    conf: Probability = 0.1  #: lowest confidence handed to the tracker
    buffer: Annotated[int, Field(ge=1)] = 30  #: frames of the study after which a track that is not seen ends
    fuse_score: bool = True  #: weigh overlap with confidence when boxes are joined; off for birds of a few pixels
    classifiers: list[ClipClassifier] = Field(default_factory=list)
    batch: Annotated[int, Field(ge=1)] = 8  #: windows at a time

    @model_validator(mode="after")
    def _unique(self) -> Tracking:
        if len(set(self.trackers)) < len(self.trackers):
            raise ValueError("a tracker listed twice; expected each once")
        names = [c.name for c in self.classifiers]
        if len(set(names)) < len(names):
            raise ValueError("two classifiers of one name; expected a name of its own for each")
        return self
