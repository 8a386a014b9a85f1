"""The section of a recipe about abstention: photographs with their truth, a list of birds, models, conventions."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal

from pydantic import Field, model_validator

from birdlab.abstention import conventions as named
from birdlab.recipe.sections import MODEL_NAME, Strict


def _usable_paths(section: Strict, *keys: str) -> None:
    for key in keys:
        value = getattr(section, key)
        for path in value if isinstance(value, list) else [value]:
            if path is not None and (not path or "\0" in path):
                found = f"{path!r} under {key}" if path else f"an empty path under {key}"
                raise ValueError(f"{found}; expected the path of a file")


class Card(Strict):
    """What is known of a model: for lines of growing size, and to ask whether it has seen the photographs."""

    family: str | None = None  #: models of one family are joined by a line, in the order of ``parameters``
    parameters: Annotated[float, Field(gt=0)] | None = None  #: weights of the network
    training_images: Annotated[float, Field(gt=0)] | None = None  #: pictures it was trained on
    cutoff: datetime.date | None = None  #: no training picture is younger
    sources: list[str] = Field(
        default_factory=list
    )  #: collections it was trained on, named as in the items' ``source``
    sources_complete: bool = False  #: it was trained on nothing else


class Classifier(Strict):
    """One model: its probabilities, its answers in words, or weights to run on the photographs."""

    name: Annotated[str, Field(pattern=MODEL_NAME)]
    scores: str | list[str] | None = (
        None  #: species probabilities: a wide matrix (npy, parquet, feather, csv) or top-k rows
    )
    kind: Literal["auto", "wide", "topk"] = "auto"
    ids: str | None = None  #: npy: text file with the item of each row (default: beside it, ``<stem>.ids.txt``)
    labels: str | None = None  #: npy or weights: text file with the label of each column
    scale: Annotated[float, Field(gt=0, lt=float("inf"))] | None = (
        None  #: integers in the file times this are probabilities
    )
    normalise: bool = False  #: divide rows that do not sum to 1 by their sum
    answers: str | None = None  #: free text (jsonl or csv), one row per item and prompt
    prompts: dict[str, bool] = Field(default_factory=dict)  #: answers: prompt -> whether it permits abstention
    prompt: str | None = None  #: answers: the prompt that is scored (default: the first that permits abstention)
    weights: str | None = None  #: .tflite or .onnx classifier
    sha256: str | None = None  #: hash the weights must have
    crop: Literal["squash", "centre", "pad"] = "squash"  #: how a photograph becomes the network's square
    imgsz: Annotated[int, Field(ge=8, le=8192)] | None = None  #: side of the input where the network leaves it open, px
    mean: list[float] | None = None  #: subtracted per channel (RGB, 0-255 scale)
    std: list[float] | None = None  #: divided by, per channel
    layout: Literal["auto", "NCHW", "NHWC"] = "auto"
    softmax: Literal["auto", "yes", "no"] = "auto"
    batch: Annotated[int, Field(ge=1, le=4096)] = 1
    card: Card = Field(default_factory=Card)

    @model_validator(mode="after")
    def _paths(self) -> Classifier:
        _usable_paths(self, "scores", "ids", "labels", "answers", "weights")
        if self.scores == []:
            raise ValueError("no file under scores; expected one or several")
        return self

    @model_validator(mode="after")
    def _one_source(self) -> Classifier:
        given = [k for k in ("scores", "answers", "weights") if getattr(self, k) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of scores, answers and weights"
            raise ValueError(f"{found}; expected one of scores, answers and weights")
        return self


class AnswerPolicy(Strict):
    """Choices in reading answers; see :class:`birdlab.abstention.answers.Policy`."""

    best_guess: Literal["species", "abstain"] = "species"  #: "I cannot be sure, but my best guess is …"
    ambiguous_group: Literal["unparsed", "multiple"] = "unparsed"  #: "Robin"
    hybrid: Literal["multiple", "unparsed"] = "multiple"  #: "Mallard x American Black Duck"
    trinomial: Literal["species", "unparsed"] = "species"  #: "Setophaga coronata coronata"
    split: Literal["genus", "unparsed"] = "genus"  #: a name that the pinned list divides among several species


class Abstention(Strict):
    """Does it know when not to answer? RealBirdID-style."""

    items: str  #: photographs and their truth (csv, parquet, jsonl)
    images: str | None = None  #: folder of the photographs, relative to the data root (default: the root itself)
    taxonomy: str = "ebird_2024"  #: a pinned list (ebird_2021 … ebird_2024, avilist_2025) or a CSV of your own
    taxonomy_sha256: Annotated[str, Field(min_length=1)] | None = None  #: hash the list must have
    synonyms: str | None = None  #: CSV old_name,new_names,kind, beside birdlab's own
    vernaculars: str | None = None  #: CSV name,language,scientific_name, beside birdlab's own
    models: Annotated[list[Classifier], Field(min_length=1)]
    policy: AnswerPolicy = Field(default_factory=AnswerPolicy)
    uncertainty: named.Uncertainty = "1-maxprob"
    info: named.Info = "depth"
    path: named.Path_ = "independent"
    decision: named.Decision = "threshold"
    ua: named.Unanswerable = "exclude"
    rule: named.Rule = "mean"
    nan: named.Nan = "error"
    unparsed: named.Unparsed = "wrong"
    ranks: list[Literal["family", "order"]] = Field(default_factory=list)  #: further ranks above the genus, in IG
    cluster: named.Cluster = "genus"  #: what the intervals resample
    n_resamples: Annotated[int, Field(ge=100, le=named.MOST_RESAMPLES)] = 2000
    missing: Literal["error", "drop"] = "error"  #: items that a model gives nothing for
    force: bool = False  #: print the bounds of IG from top-k tables that miss much of the mass
    published: list[Literal["realbirdid"]] = Field(default_factory=list)  #: reference rows to print beside

    @model_validator(mode="after")
    def _paths(self) -> Abstention:
        _usable_paths(self, "items", "images", "taxonomy", "synonyms", "vernaculars")
        return self

    @model_validator(mode="after")
    def _unique(self) -> Abstention:
        names = [m.name for m in self.models]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"two models called {', '.join(twice)}; expected a name of its own for each")
        return self

    @property
    def all_ranks(self) -> tuple[str, ...]:
        """Ranks of the information curve, coarse to fine."""
        return (*(rank for rank in ("order", "family") if rank in self.ranks), "genus", "species")

    @property
    def conventions(self) -> named.Conventions:
        """The choices of this recipe."""
        fields = named.Conventions.__dataclass_fields__
        return named.Conventions(**{name: getattr(self, name) for name in fields})
