"""The section of a recipe about training: how frames are split, and which models are fine-tuned."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from birdlab.recipe.sections import MODEL_NAME, Strict

Level = Literal["site", "session", "date", "near_duplicate"]
Share = Annotated[float, Field(ge=0, le=1)]
#: What every library takes as a seed.
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Splitting(Strict):
    """How frames become train, val and test: whole sites where there are enough, else whole sessions."""

    by: Literal["auto", "site", "session"] = (
        "auto"  #: auto: site where there are at least as many as parts, else session
    )
    shares: dict[Literal["train", "val", "test"], Share] = Field(
        default_factory=lambda: {"train": 0.7, "val": 0.15, "test": 0.15}
    )  #: share of the labelled frames
    fixed: dict[str, Literal["train", "val", "test"]] = Field(default_factory=dict)  #: site or session -> its part
    refuse: list[Level] | None = None  #: leaks that stop the run (default: the level of the split and all finer ones)
    seed: Annotated[int, Field(ge=0)] = 0

    @field_validator("shares")
    @classmethod
    def _sum(cls, value: dict[str, float]) -> dict[str, float]:
        if abs(sum(value.values()) - 1) > 1e-6 or value.get("train", 0) <= 0:
            raise ValueError(f"{value}; expected shares that sum to 1, with some for train")
        return value


class Trained(Strict):
    """One model to fine-tune."""

    name: Annotated[str, Field(pattern=MODEL_NAME)]
    task: Literal["detect", "segment"] = "detect"
    library: Literal["ultralytics", "torchvision"] = "ultralytics"
    architecture: (
        str  #: ultralytics: a .yaml (its own name or a file); torchvision: a builder (fasterrcnn_resnet50_fpn …)
    )
    weights: str | None = None  #: weights to start from, a file; none: random ones (nothing is ever downloaded)
    sha256: str | None = None  #: hash these weights must have
    imgsz: Annotated[int, Field(ge=32)] = 640  #: longer side of the network's input, px
    batch: Annotated[int, Field(ge=1)] = 16
    epochs: Annotated[int, Field(ge=1)] = 100
    patience: Annotated[int, Field(ge=1)] = 20  #: epochs without a better validation score before it stops
    lr: Annotated[float, Field(gt=0)] | None = None  #: first learning rate (default: the library's)
    seeds: Annotated[list[Seed], Field(min_length=1)] = Field(default_factory=lambda: [0])
    deterministic: bool = True
    settings: dict[str, Any] = Field(default_factory=dict)  #: further settings of the library's trainer, by its names
    licence: str = ""  #: for the model card

    @model_validator(mode="after")
    def _distinct(self) -> Trained:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {self.seeds}; expected each once")
        return self


class Training(Strict):
    """Splits and models of ``train_detector``."""

    split: Splitting = Field(default_factory=Splitting)
    export: list[Literal["coco", "yolo-detect", "yolo-segment"]] = Field(default_factory=list)
    #: the split written for others too, into the run's ``training/<form>``; what a model needs is written anyway
    models: Annotated[list[Trained], Field(min_length=1)]

    @model_validator(mode="after")
    def _unique(self) -> Training:
        names = [m.name for m in self.models]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"two models called {', '.join(twice)}; expected a name of its own for each")
        # Each has a folder named like it, and not every file system tells Wren from wren.
        alike = [n for n in names if sum(n.casefold() == other.casefold() for other in names) > 1]
        if alike:
            raise ValueError(f"models called {' and '.join(alike)}; expected names that differ in more than capitals")
        return self

    @model_validator(mode="after")
    def _chosen(self) -> Training:
        if not self.split.shares.get("val") and "val" not in self.split.fixed.values():
            found = ", ".join(f"{part} {share:g}" for part, share in self.split.shares.items())
            raise ValueError(f"shares {found}; expected some for val, which chooses the best epoch")
        return self
