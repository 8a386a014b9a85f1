"""The section of a recipe about who a bird is: re-identification by looks, and by colour rings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from birdlab.recipe.individuals import Name, Path_
from birdlab.recipe.sections import Probability, Strict

Split = Literal["closed", "disjoint", "open"]
#: The twelve classes of the published ring masks; the letters are the names there.
LETTERS = "ABCGLMOPRSWY"
#: Names under which the two matchers of rings stand among the methods.
RING_METHODS = ("rings (published)", "rings (birdlab)")


class ReidMethod(Strict):
    """A method that tells birds apart: what it said, or weights to run."""

    name: Name
    embeddings: Path_ | None = (
        None  #: .npy (rows as in ``rows``) or parquet: clip_id, embedding; one row per clip or image
    )
    rows: Path_ | None = None  #: CSV clip_id (or clip_id,frame_index), one line per row of an .npy
    similarity: Path_ | None = None  #: .npy, queries x gallery; higher is more alike
    columns: Path_ | None = None  #: CSV clip_id, one line per column of ``similarity`` (its rows are in ``rows``)
    ranking: Path_ | None = None  #: CSV or parquet: query_id, gallery, rank, individual_id[, similarity, split]
    weights: Path_ | None = None  #: network to run (extra ``infer``)
    library: Literal["timm", "torchvision", "torchscript", "onnx"] = "timm"  #: what ``weights`` belongs to
    architecture: str | None = None  #: name of the network in its library
    imgsz: Annotated[int, Field(ge=16)] | None = None  #: side of the network's input, px (default: the network's own)
    mean: Annotated[list[float], Field(min_length=3, max_length=3)] | None = (
        None  #: per channel, 0-1 scale (default: own)
    )
    std: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=3, max_length=3)] | None = None
    sha256: str | None = None  #: hash the weights must have
    learned_from: list[Split] = Field(default_factory=list)  #: protocols whose train or gallery clips it was trained on

    @model_validator(mode="after")
    def _one_source(self) -> ReidMethod:
        given = [k for k in ("embeddings", "similarity", "ranking", "weights") if getattr(self, k) is not None]
        if len(given) != 1:
            raise ValueError(
                f"{' and '.join(given) or 'no source'}; expected one of embeddings, similarity, ranking, weights"
            )
        return self


class Rings(Strict):
    """Colour rings read from clips (CORVID)."""

    roster: Path_  #: CSV individual_id,code[,valid_from,valid_to,territory]
    colours: dict[Annotated[str, Field(pattern="^[A-Za-z]$")], str] = Field(
        default_factory=lambda: {letter: letter for letter in LETTERS}
    )  #: letter of a code -> name of the colour, which is the category of the masks
    training: Path_  #: COCO ring masks, one category per colour: what the colour forest learns from
    training_images: Path_ | None = None  #: folder of their pictures (default: the folder of ``training``)
    instances: Path_ | None = None  #: COCO ring masks of the clips' own images: the rings that are read, or, beside a
    #: ``segmenter``, those that its rings are held against
    segmenter: Path_ | None = None  #: weights of a segmenter of rings, run on the clips' images
    segmenter_library: Literal["ultralytics", "torchvision"] = "ultralytics"
    imgsz: Annotated[int, Field(ge=32)] = 128  #: side the segmenter sees, px
    conf: Probability = 0.5  #: lowest confidence of a ring
    pair_px: Annotated[float, Field(gt=0)] = 38.0  #: rings nearer than this are of one leg (published rule), px
    trees: Annotated[int, Field(ge=10, le=5000)] = 500  #: of the colour forest
    seed: Annotated[int, Field(ge=0)] = 42
    min_posterior: Probability = 0.8  #: below it the matcher of birdlab names no bird

    @model_validator(mode="after")
    def _rings_from_somewhere(self) -> Rings:
        if self.instances is None and self.segmenter is None:
            raise ValueError("no rings; expected instances (ring masks), segmenter (weights) or both")
        return self


class BuiltSplits(Strict):
    """How protocols are made for clips that come without them."""

    query_share: Annotated[float, Field(gt=0, lt=1)] = (
        0.2  #: share of each bird's clips asked for (closed), latest videos
    )
    unknown_share: Annotated[float, Field(gt=0, lt=1)] = 0.2  #: share of birds left out of the gallery (open)
    validation_share: Annotated[float, Field(ge=0, lt=1)] = 0.1  #: share of known birds' clips for the threshold (open)
    seed: Annotated[int, Field(ge=0)] = 0


class Reid(Strict):
    """Who is it, and with which list of candidates? Read by ``05_reidentification``."""

    clips: Path_  #: CHIRP's Annotation.csv, or a CSV clip_id,video_id,individual_id[,image,frame_index,territory,date,<split>]
    images: Path_ | None = None  #: folder of the images (default: the folder of ``clips``)
    territory: Path_ | None = None  #: CSV Video,PossibleBirds
    neighbours: Path_ | None = None  #: CSV Video,PossibleBirds
    protocols: Annotated[list[Split], Field(min_length=1)] = Field(
        default_factory=lambda: ["closed", "disjoint", "open"]
    )
    build: BuiltSplits | None = None  #: make the protocols (the columns of the file are then not used)
    pooling: Literal["max", "mean"] = "max"  #: similarity to a bird: of its most alike clip, or the mean of them
    methods: list[ReidMethod] = Field(default_factory=list)
    rings: Rings | None = None
    published: list[Literal["chirp"]] = Field(default_factory=list)  #: reference rows to print beside

    @model_validator(mode="after")
    def _names(self) -> Reid:
        names = [m.name for m in self.methods]
        if len(set(names)) < len(names) or set(names) & set(RING_METHODS):
            raise ValueError("two methods of one name; expected a name of its own for each")
        if not self.methods and self.rings is None:
            raise ValueError("nothing to evaluate; expected methods, rings or both")
        return self
