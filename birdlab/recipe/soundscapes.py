"""The section of a recipe about soundscapes: recordings, annotations, run files, a classifier of one's own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from birdlab.recipe.individuals import Name, Path_
from birdlab.recipe.sections import Probability, Strict

#: Keys of a run that say how its classifier is run.
_OF_WEIGHTS = frozenset({"labels", "window_s", "sample_rate", "sha256"})


class SoundRun(Strict):
    """One run: a file of predictions, or a classifier that makes one."""

    name: Name
    file: Path_ | None = None  #: MediaId;TC1-TC2;ClassId;Probability as text or parquet, a wide CSV, BirdNET CSV(s)
    team: str = ""  #: group that made it (default: the run's name)
    assisted: bool | None = None  #: human assistance in the processing of the test queries
    external_data: bool | None = None  #: trained on data from outside
    description: str = ""
    weights: Path_ | None = None  #: TFLite or ONNX window classifier run on ``audio`` (extra ``audio``)
    labels: Path_ | None = None  #: class of each output, one per line (BirdNET: Scientific_Common)
    label_map: Path_ | None = None  #: CSV label,class_id: codes of the classes
    window_s: Annotated[float, Field(gt=0, le=60)] = 3.0  #: length of a window of the classifier, s
    sample_rate: Annotated[int, Field(ge=1000, le=384_000)] = 48_000  #: Hz the classifier expects
    sha256: str | None = None  #: hash the weights must have

    @model_validator(mode="after")
    def _one(self) -> SoundRun:
        if (self.file is None) == (self.weights is None):
            raise ValueError("both or neither of file and weights; expected one of them")
        extra = sorted(_OF_WEIGHTS & self.model_fields_set) if self.file else []
        if extra:
            raise ValueError(f"{', '.join(extra)} beside file; expected them with weights alone")
        return self


class Soundscapes(Strict):
    """Who is heard where? BirdCLEF-style; read by ``08_soundscapes``."""

    truth: Annotated[list[Path_], Field(min_length=1)]  #: annotation files, tables or folders of them
    classes: Path_ | None = None  #: list of class ids (default: those of the truth, which is said)
    recordings: Path_ | None = None  #: CSV media_id,duration_s[,recorder,site,start_utc,…] or a folder of metadata JSON
    audio: Path_ | None = None  #: folder of sound files, for runs with weights
    runs: Annotated[list[SoundRun], Field(min_length=1)]
    lenient: bool = False  #: repair spaces, brackets, blank and header lines, short times, and count every repair
    max_classes: Annotated[int, Field(ge=1)] | None = None  #: most classes per segment (2018: 100, 2020: 10)
    target_precision: Probability = 0.9  #: of the threshold per species
    cluster: Literal["recording", "day"] = "recording"  #: what is resampled for intervals
    n_resamples: Annotated[int, Field(ge=100, le=100_000)] = 1000
    collar_s: Annotated[float, Field(ge=0, le=3600)] = 5.0  #: event F1: how far on- and offsets may lie apart, s
    published: list[Literal["birdclef2019"]] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names(self) -> Soundscapes:
        names = [r.name for r in self.runs]
        if len(set(names)) < len(names):
            raise ValueError("two runs of one name; expected a name of its own for each")
        if any(r.weights for r in self.runs) and self.audio is None:
            raise ValueError("a run with weights and no audio; expected a folder of sound files under audio")
        return self
