"""A study in one YAML file: what was recorded, which labels and models, how to score, which notebooks.

Paths in a recipe are relative to the recipe's own folder; an absolute path is taken as it is. Keys that birdlab
does not know are refused, with the nearest known one. Every default is written back into ``run.json``.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from birdlab.errors import ParameterError, Problem
from birdlab.recipe.abstention import Abstention, Classifier
from birdlab.recipe.individuals import Actions, ClipClassifier, Individuals, Keypoints, Tracking
from birdlab.recipe.reid import RING_METHODS, BuiltSplits, Reid, ReidMethod, Rings
from birdlab.recipe.sections import (
    Data,
    Difficulty,
    Labels,
    Media,
    Model,
    Scoring,
    Split,
    Strict,
    parse_range,
)
from birdlab.recipe.soundscapes import SoundRun, Soundscapes
from birdlab.recipe.training import Trained, Training
from birdlab.recipe.yaml12 import Loader, load_yaml_scalar

__all__ = ["Abstention", "Actions", "BuiltSplits", "Classifier", "ClipClassifier", "Data", "Difficulty", "Individuals", "Keypoints", "Labels",
           "Media", "Model", "Recipe", "Reid", "ReidMethod", "Rings", "Scoring", "SoundRun", "Soundscapes", "Split", "Tracking", "Trained", "Training", "chapters", "load_recipe",
           "load_yaml_scalar", "parse_range", "parse_recipe", "resolve"]  # fmt: skip
#: Aliases of YAML can fold a value of billions of parts into a few lines.
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict, _SHORT.maxstring, _SHORT.maxother = 3, 20, 20, 200, 200


def chapters(
    *,
    detectors: bool = True,
    reid: bool = False,
    individuals: bool = False,
    soundscapes: bool = False,
    abstention: bool = False,
    training: bool = False,
) -> list[str]:
    """Notebooks of a study, in order: what a recipe that names none gets.

    >>> chapters(detectors=False, abstention=True)
    ['09_abstention', '10_summary']
    >>> chapters(detectors=False, training=True)
    ['train_detector']
    """
    if training and not (detectors or reid or individuals or soundscapes or abstention):
        return ["train_detector"]
    first = ["00_data_audit", "01_inference", "02_detection", "02b_comparison", "03_difficulty", "04_difficulty_model"]
    more = ["05_reidentification"] if reid else []
    more += ["06_actions_keypoints_tracking", "07_application"] if individuals else []
    more += ["08_soundscapes"] if soundscapes else []
    more += [*(["09_abstention"] if abstention else []), *(["train_detector"] if training else [])]
    return [*(first if detectors else []), *more, "10_summary"]


def kinds(detectors: list[str], namers: list[str], trained: list[str], *others: list[str]) -> list[list[str]]:
    """Names of models of each kind; one kind of detectors and trained models where one model is both.

    >>> kinds(["heron"], [], ["wren"]), kinds(["heron"], [], ["wren", "heron"], ["dive"])
    ([['heron'], [], ['wren']], [['heron', 'wren'], [], [], ['dive']])
    """
    if set(detectors) & set(trained):
        return [[*detectors, *(name for name in trained if name not in detectors)], namers, [], *others]
    return [detectors, namers, trained, *others]


class Recipe(Strict):
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
    tracking: Tracking | None = None  #: birds followed through the videos: ``01_inference``
    reid: Reid | None = None  #: clips of single birds, methods that name them, rings: ``05_reidentification``
    individuals: Individuals | None = None  #: tracks, identities, behaviours against truth by hand: 06 and 07
    soundscapes: Soundscapes | None = None  #: recordings, annotations, run files: ``08_soundscapes``
    abstention: Abstention | None = None
    training: Training | None = None  #: models to train on the labelled frames: ``train_detector``
    notebooks: Annotated[list[str | dict[str, dict[str, Any]]], Field(min_length=1)]
    #: in order; a mapping gives parameters: ``- 02_detection: {n_panels: 6}``; not given: :func:`chapters`

    @model_validator(mode="before")
    @classmethod
    def _chapters(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping) or "notebooks" in raw:
            return raw
        data = raw.get("data")
        detectors = not isinstance(data, Mapping) or bool(data.get("media") or data.get("generator"))
        trains = raw.get("training") is not None
        sections = {k: raw.get(k) is not None for k in ("reid", "individuals", "soundscapes", "abstention")}
        # Where models are trained and none is run, there is nothing for the other chapters to score.
        detectors = bool(raw.get("models")) if trains else detectors or not any(sections.values())
        listed = chapters(detectors=detectors, training=trains, **sections)
        return {**raw, "notebooks": listed}

    @model_validator(mode="after")
    def _something(self) -> Recipe:
        if not self.has_media and not (self.reid or self.individuals or self.soundscapes or self.abstention):
            raise ValueError(
                "no media; expected images or videos under data.media, or a section reid, individuals, soundscapes or abstention"
            )
        if not self.has_media and self.training is not None:
            raise ValueError("no media to train on; expected images or videos under data.media")
        if self.tracking is not None and self.tracking.detector not in [m.name for m in self.models]:
            raise ValueError(f"no model called {self.tracking.detector}; expected a detector under models")
        return self

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

    @property
    def has_media(self) -> bool:
        """Whether frames were recorded (or are made), for the chapters on detectors."""
        return bool(self.data.media) or self.data.generator is not None

    @property
    def coloured(self) -> list[list[str]]:
        """Names of the models of each kind, in the order that gives them their colours: detectors, models that name
        birds, trained models, models that name behaviours, models that place keypoints, methods that tell birds apart, runs about soundscapes. Where a trained model is run as
        a detector too, both kinds are one.
        """
        detectors = [m.name for m in self.models]
        namers = [m.name for m in self.abstention.models] if self.abstention else []
        trained = [m.name for m in self.training.models] if self.training else []
        tasks = (self.individuals.actions, self.individuals.keypoints) if self.individuals else ()
        methods = (
            [m.name for m in self.reid.methods] + list(RING_METHODS if self.reid.rings else ()) if self.reid else []
        )
        runs = [r.name for r in self.soundscapes.runs] if self.soundscapes else []
        others = [*(list(task.predictions) for task in tasks if task), *(names for names in (methods, runs) if names)]
        return kinds(detectors, namers, trained, *others)

    def steps(self) -> list[tuple[str, dict[str, Any]]]:
        """Notebook names in order, each with its parameters."""
        steps: list[tuple[str, dict[str, Any]]] = []
        for entry in self.notebooks:
            if isinstance(entry, str):
                steps.append((entry.removesuffix(".ipynb"), {}))
            else:
                steps.extend((name.removesuffix(".ipynb"), dict(params or {})) for name, params in entry.items())
        return steps


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
        # YAML 1.2 has no sexagesimal numbers, no yes/no and reads 1e-5 as a number: see Loader.
        raw = yaml.load(text, Loader=Loader)
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
        found, expected = "nothing under it" if empty else _SHORT.repr(error["input"]), said
    elif error["type"] == "value_error":
        found, _, expected = said.rpartition("; expected ")
    else:
        found = "nothing" if error["type"] == "missing" else _SHORT.repr(error["input"])
        expected = "a value" if error["type"] == "missing" else said
        if error["type"] == "string_pattern_mismatch":  # a pattern is no help to who writes a recipe
            expected = "a name that a folder can have: letters, digits, - and _; no / \\ { }, no dot in front"
    return Problem("bad_value", found[:200], expected, file=source, key=key or None)


def _known_keys(loc: tuple[int | str, ...]) -> list[str]:
    """Keys of the section at ``loc``; list positions, and names that are no section, are passed over."""
    section: type[BaseModel] = Recipe
    for part in loc:
        field = section.model_fields.get(str(part))
        section = (_section(field.annotation) if field else None) or section
    return sorted(section.model_fields)


def _section(annotation: Any) -> type[BaseModel] | None:
    """The section behind ``X``, ``X | None`` and ``list[X]``; None for a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = [_section(inner) for inner in get_args(annotation)]
    return next((section for section in found if section), None)


def resolve(path: str, base: Path) -> Path:
    """``path`` relative to the folder ``base``, or as it is when absolute (``~`` is the home folder)."""
    expanded = Path(path).expanduser()
    return expanded if expanded.is_absolute() else (base / expanded)
