"""A study as a notebook sees it: ``run = start(recipe)``, its tables, and the means to show what was found.

A table is asked for by name. If the run's folder holds it and it was made from the same inputs, it is read;
otherwise it is made, saved and returned. So a notebook runs alone just as it runs in order.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab import schemas
from birdlab.errors import ParameterError
from birdlab.recipe import Recipe, load_recipe, resolve
from birdlab.shards import digest, write_atomic

if TYPE_CHECKING:
    from birdlab.report.show import Shown

#: Who makes which tables: ``module:function`` is called with the run and returns ``{table name: frame}``.
BUILDERS: dict[str, str] = {
    "media": "birdlab.readers.study:build",
    "frames": "birdlab.readers.study:build",
    "labels": "birdlab.readers.study:build",
    "second_labels": "birdlab.readers.study:build",
    "notices": "birdlab.readers.study:build",
    "predictions": "birdlab.inference.predict:build",
    "failures": "birdlab.inference.predict:build",
    "speed": "birdlab.inference.predict:build",
    "inference_notices": "birdlab.inference.predict:build",
    "matches": "birdlab.detection.study:build",
    "metrics_detection": "birdlab.detection.study:build",
    "ranks": "birdlab.detection.compare_study:build",
    "rank_agreement": "birdlab.detection.compare_study:build",
    "rank_moves": "birdlab.detection.compare_study:build",
    "model_agreement": "birdlab.detection.compare_study:build",
    "missed_by_all": "birdlab.detection.compare_study:build",
    "speed_points": "birdlab.detection.compare_study:build",
    "metrics_comparison": "birdlab.detection.compare_study:build",
    "factors": "birdlab.difficulty.factors:build",
    "frame_facts": "birdlab.difficulty.factors:build",
    "factor_settings": "birdlab.difficulty.factors:build",
    "factor_notices": "birdlab.difficulty.factors:build",
    "instances": "birdlab.difficulty.study:build_instances",
    "difficulty_bins": "birdlab.difficulty.study:build",
    "difficulty_factors": "birdlab.difficulty.study:build",
    "difficulty_slices": "birdlab.difficulty.study:build",
    "difficulty_pairs": "birdlab.difficulty.study:build",
    "error_types": "birdlab.difficulty.study:build",
    "missed_birds": "birdlab.difficulty.study:build",
    "calibration_bins": "birdlab.difficulty.study:build",
    "calibration": "birdlab.difficulty.study:build",
    "metrics_difficulty": "birdlab.difficulty.study:build",
    "coefficients": "birdlab.difficulty.model_study:build",
    "coefficient_sets": "birdlab.difficulty.model_study:build",
    "model_summary": "birdlab.difficulty.model_study:build",
    "model_checks": "birdlab.difficulty.model_study:build",
    "model_sheet": "birdlab.difficulty.model_study:build",
    "model_vif": "birdlab.difficulty.model_study:build",
    "model_correlations": "birdlab.difficulty.model_study:build",
    "model_ladder": "birdlab.difficulty.model_study:build",
    "model_loso": "birdlab.difficulty.model_study:build",
    "model_calibration": "birdlab.difficulty.model_study:build",
    "model_reliability": "birdlab.difficulty.model_study:build",
    "model_partial": "birdlab.difficulty.model_study:build",
    "model_missed": "birdlab.difficulty.model_study:build",
    "metrics_difficulty_model": "birdlab.difficulty.model_study:build",
    "taxa": "birdlab.abstention.inputs:build",
    "items": "birdlab.abstention.inputs:build",
    "answers": "birdlab.abstention.inputs:build",
    "image_scores": "birdlab.abstention.inputs:build",
    "classifier_failures": "birdlab.abstention.inputs:build",
    "abstention_alignment": "birdlab.abstention.inputs:build",
    "abstention_notices": "birdlab.abstention.inputs:build",
    "abstention_curves": "birdlab.abstention.study:build",
    "abstention_sweep": "birdlab.abstention.study:build",
    "abstention_pairs": "birdlab.abstention.study:build",
    "abstention_reasons": "birdlab.abstention.study:build",
    "abstention_confusion": "birdlab.abstention.study:build",
    "abstention_wrongly": "birdlab.abstention.study:build",
    "abstention_prompts": "birdlab.abstention.study:build",
    "abstention_permission": "birdlab.abstention.study:build",
    "abstention_contamination": "birdlab.abstention.study:build",
    "metrics_abstention": "birdlab.abstention.study:build",
    **dict.fromkeys(
        (
            *("colony_videos", "colony_boxes", "colony_events", "colony_tracks", "colony_identities", "colony_windows"),
            *("colony_human", "colony_combinations", "colony_notices"),
        ),
        "birdlab.individuals.inputs:build",
    ),
    **dict.fromkeys(
        ("action_clips", "keypoints", "keypoint_oks", "task_notices"), "birdlab.individuals.inputs:build_tasks"
    ),
    **dict.fromkeys(("tracking_scores", "metrics_tasks"), "birdlab.individuals.task_study:build"),
    **dict.fromkeys(
        (
            *("application", "application_summary", "application_tasks", "application_notices", "application_random"),
            *("application_draws", "error_budget", "across_combinations", "time_offset", "time_tolerance"),
            *("presence_lanes", "metrics_application"),
        ),
        "birdlab.individuals.study:build",
    ),
    **dict.fromkeys(
        ("followed", "follow_videos", "follow_windows", "follow_notices"), "birdlab.inference.follow_study:build"
    ),
    **dict.fromkeys(
        (
            *(
                "reid_clips",
                "reid_images",
                "reid_roles",
                "reid_candidates",
                "reid_notices",
                "reid_leaks",
                "reid_counts",
            ),
            *("reid_sizes",),
        ),
        "birdlab.individuals.reid.inputs:build",
    ),
    **dict.fromkeys(("reid_embeddings", "reid_embedding_notices"), "birdlab.inference.embed_study:build"),
    **dict.fromkeys(
        (
            *("ring_roster", "ring_colours", "ring_reads", "ring_calls", "ring_called", "ring_scores", "ring_segments"),
            *("ring_colour_scores", "ring_confusion", "ring_calibration", "ring_temperatures", "ring_together"),
            *("ring_notices", "metrics_rings"),
        ),
        "birdlab.individuals.rings.study:build",
    ),
    **dict.fromkeys(
        (
            *(
                "reid_outcomes",
                "reid_list_size",
                "reid_cmc",
                "reid_years",
                "reid_lookalikes",
                "reid_birds",
                "reid_risk",
            ),
            *("reid_refused", "metrics_reid"),
        ),
        "birdlab.individuals.reid.study:build",
    ),
    **dict.fromkeys(
        (
            *(
                "soundscape_recordings",
                "annotations",
                "soundscape_class_list",
                "soundscape_notices",
                "soundscape_by_month",
            ),
            *("soundscape_by_hour", "soundscape_counts", "soundscape_species", "soundscape_never", "soundscape_silent"),
        ),
        "birdlab.soundscapes.inputs:build",
    ),
    **dict.fromkeys(("sound_files", "sound_notices", "sound_runs"), "birdlab.inference.sound_study:build"),
    **dict.fromkeys(
        (
            *("soundscape_runs", "soundscape_scores", "soundscape_board", "soundscape_classes", "soundscape_named"),
            *(
                "soundscape_pr",
                "soundscape_calibration",
                "soundscape_instead",
                "soundscape_panels",
                "soundscape_events",
            ),
            *("soundscape_pairs", "soundscape_species_pairs", "soundscape_run_notices", "metrics_soundscapes"),
        ),
        "birdlab.soundscapes.study:build",
    ),
    "splits": "birdlab.training.study:build",
    "split_facts": "birdlab.training.study:build",
    "split_table": "birdlab.training.study:build",
    "split_shape": "birdlab.training.study:build",
    "leaks": "birdlab.training.study:build",
    "training_scores": "birdlab.training.study:build",
    "training_seeds": "birdlab.training.study:build",
    "training_variance": "birdlab.training.study:build",
    "training_curves": "birdlab.training.study:build",
    "training_cards": "birdlab.training.study:build",
    "metrics_training": "birdlab.training.study:build",
}
#: What a builder's result depends on, beside the recipe's ``data``: recipe sections and other tables.
DEPENDS: dict[str, tuple[str, ...]] = {
    "birdlab.readers.study:build": (),
    "birdlab.inference.predict:build": ("models", "frames"),
    "birdlab.detection.study:build": ("scoring", "models", "labels", "predictions"),
    "birdlab.detection.compare_study:build": ("matches",),
    "birdlab.difficulty.factors:build": ("scoring", "frames", "labels"),
    "birdlab.difficulty.study:build_instances": ("factors", "matches"),
    "birdlab.difficulty.study:build": ("difficulty", "instances"),
    "birdlab.difficulty.model_study:build": ("difficulty", "scoring", "instances"),
    "birdlab.abstention.inputs:build": ("abstention",),
    "birdlab.abstention.study:build": ("image_scores",),
    "birdlab.individuals.inputs:build": ("individuals",),
    "birdlab.individuals.inputs:build_tasks": ("individuals",),
    "birdlab.individuals.task_study:build": ("action_clips", "colony_tracks"),
    "birdlab.individuals.study:build": ("colony_tracks", "tracking_scores"),
    "birdlab.inference.follow_study:build": ("tracking", "predictions"),
    "birdlab.individuals.reid.inputs:build": ("reid",),
    "birdlab.inference.embed_study:build": ("reid_clips",),
    "birdlab.individuals.rings.study:build": ("reid_clips",),
    "birdlab.individuals.reid.study:build": ("reid_embeddings", "ring_calls"),
    "birdlab.soundscapes.inputs:build": ("soundscapes",),
    "birdlab.inference.sound_study:build": ("soundscapes", "soundscape_recordings"),
    "birdlab.soundscapes.study:build": ("soundscapes", "annotations", "sound_runs"),
    "birdlab.training.study:build": ("training", "frames", "labels"),
}
#: Notebooks without which a table takes no part in ``metrics``: it costs a look at every picture.
ONLY_WITH: dict[str, tuple[str, ...]] = {
    "metrics_comparison": ("02b_comparison",),
    "metrics_difficulty": ("03_difficulty", "04_difficulty_model"),
    "metrics_difficulty_model": ("04_difficulty_model",),
    "metrics_reid": ("05_reidentification",),
    "metrics_rings": ("05_reidentification",),
    "metrics_tasks": ("06_actions_keypoints_tracking",),
    "metrics_application": ("07_application",),
    "metrics_soundscapes": ("08_soundscapes",),
    "metrics_abstention": ("09_abstention",),
    "metrics_training": ("train_detector",),
}


@dataclass(frozen=True)
class Run:
    """One notebook's hold on a study: the recipe, the run's folder and the notebook's own name.

    Args:
        recipe: the study.
        recipe_path: the file it came from; relative paths in the recipe start at its folder.
        dir: folder of the run (``reports/<name>``): ``tables/``, ``figures/``, ``shards/``, ``records/``.
        notebook: name of the notebook that works, without ``.ipynb``.
    """

    recipe: Recipe
    recipe_path: Path
    dir: Path
    notebook: str

    @property
    def base(self) -> Path:
        """Folder that relative paths of the recipe start from."""
        return self.recipe_path.parent

    @property
    def data_root(self) -> Path:
        """Folder of the recorded files: ``data.root``, or the run's own ``data`` when they are made."""
        if self.recipe.data.generator:
            return self.dir / "data"
        return resolve(self.recipe.data.root, self.base)

    @cached_property
    def inputs(self) -> str:
        """Key of the content of every input file, taken once per notebook; see :func:`birdlab.readers.fingerprint.fingerprint`."""
        from birdlab.readers.fingerprint import fingerprint

        return fingerprint(self)

    def inputs_of(self, subject: str) -> str:
        """Key of the content of the input files of one subject; see :func:`subject`."""
        return self._inputs_of[subject]

    @cached_property
    def _inputs_of(self) -> dict[str, str]:
        from birdlab.readers.fingerprint import fingerprints

        return fingerprints(self)

    def table(self, name: str) -> pl.DataFrame:
        """The table called ``name``, read from the run's folder or made now.

        ``metrics`` is every ``metrics_*`` table of the run's notebooks in one frame.

        Raises:
            ParameterError: no table has that name.
            DataError: the files it is made from are missing or wrong.
        """
        if name == "metrics":
            listed = {step for step, _ in self.recipe.steps()}
            wanted = [n for n in BUILDERS if n.startswith("metrics_") and (listed & set(ONLY_WITH.get(n, listed)))]
            there = {"media": self.recipe.has_media} | {
                part: getattr(self.recipe, part) is not None
                for part in ("reid", "individuals", "soundscapes", "abstention")
            }
            wanted = [n for n in wanted if there[subject(BUILDERS[n])]]
            parts = [self.table(n) for n in wanted]
            return pl.concat(parts, how="diagonal_relaxed") if parts else schemas.empty("metrics")
        if name not in BUILDERS:
            saved = self.dir / "tables" / f"{name}.parquet"
            if saved.exists():
                return pl.read_parquet(saved)
            known = ", ".join([*BUILDERS, "metrics"])
            raise ParameterError(
                f"no table is called {name!r}: birdlab makes {known}, and this run saved no other of that name"
            )
        path, key = self.dir / "tables" / f"{name}.parquet", self._key(BUILDERS[name])
        if _stored_key(path) == key:
            return pl.read_parquet(path)
        made = _load(BUILDERS[name])(self)
        for made_name, frame in made.items():
            self._write(made_name, frame, key)
        return made[name]

    def save(self, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        """Save a further table of this run as parquet and return it; a name that birdlab itself makes is refused."""
        if name in BUILDERS:
            raise ParameterError(f"table {name!r} is made by birdlab; save yours under another name")
        self._write(name, frame, "")
        return frame

    def show_table(self, frame: pl.DataFrame, **about: Any) -> Shown:
        """Show and save a table; see :func:`birdlab.report.show.show_table` for the arguments."""
        from birdlab.report import show

        return show.show_table(self, frame, **about)

    def show_figure(self, draw: Callable[..., Any], frame: pl.DataFrame, **about: Any) -> Shown:
        """Draw, show and save a figure; see :func:`birdlab.report.show.show_figure` for the arguments."""
        from birdlab.report import show

        return show.show_figure(self, draw, frame, **about)

    def show_gallery(self, panels: list[Any], **about: Any) -> Shown:
        """Show photographs with boxes; see :func:`birdlab.report.show.show_gallery` for the arguments."""
        from birdlab.report import show

        return show.show_gallery(self, panels, **about)

    def answer(self, question: str, answer: str, detail: str = "") -> Shown:
        """Open the chapter: its question, the answer in a few words, and one sentence with the number."""
        from birdlab.report import show

        return show.answer(self, question, answer, detail)

    def headline(self, label: str, value: float | None, **about: Any) -> Shown:
        """Offer a number for the top of the report; see :func:`birdlab.report.show.headline`."""
        from birdlab.report import show

        return show.headline(self, label, value, **about)

    def headlines(self, numbers: list[dict[str, Any]]) -> None:
        """Offer several numbers for the top of the report; each is the arguments of :meth:`headline`."""
        for number in numbers:
            self.headline(**number)

    def note(self, text: str) -> Shown:
        """Say something the reader must not miss; the chapter is marked "complete, with a note"."""
        from birdlab.report import show

        return show.note(self, text)

    def finish(self) -> None:
        """Write down what this notebook showed; always its last call."""
        from birdlab.report import show

        show.finish(self)

    def _key(self, builder: str) -> str:
        from birdlab.report.record import package_digest

        data = self.recipe.data.model_dump(mode="json")
        parts: list[Any] = [builder, package_digest(), data, self.recipe.seed, self._inputs_of[subject(builder)]]
        for name in DEPENDS[builder]:
            if name in BUILDERS:
                parts.append(self._key(BUILDERS[name]))
            else:
                section = getattr(self.recipe, name)
                parts.append(
                    [m.model_dump(mode="json") for m in section]
                    if isinstance(section, list)
                    else section and section.model_dump(mode="json")
                )
        return digest(parts)

    def _write(self, name: str, frame: pl.DataFrame, key: str) -> None:
        if name in schemas.TABLES:
            frame = schemas.validate(name, frame)
        path = self.dir / "tables" / f"{name}.parquet"
        write_atomic(path, lambda temporary: frame.write_parquet(temporary, metadata={"birdlab": key}))


#: Builders that start from something else than their room says.
_SUBJECTS = {
    "birdlab.individuals.reid": "reid",
    "birdlab.individuals.rings": "reid",
    "birdlab.inference.embed_study": "reid",
    "birdlab.individuals": "individuals",
    "birdlab.soundscapes": "soundscapes",
    "birdlab.inference.sound_study": "soundscapes",
    "birdlab.abstention": "abstention",
}


def subject(builder: str) -> str:
    """What a builder starts from: ``media`` (frames, labels, detectors), ``reid`` (clips of single birds, rings),
    ``individuals`` (birds followed by hand and by models), ``soundscapes`` (recordings, run files) or ``abstention`` (items,
    models that name birds).

    >>> subject("birdlab.detection.study:build"), subject("birdlab.individuals.reid.study:build")
    ('media', 'reid')
    """
    return next((name for room, name in _SUBJECTS.items() if builder.startswith(room)), "media")


def start(recipe: str, run_dir: str = "", *, notebook: str) -> Run:
    """Open a study for a notebook.

    Args:
        recipe: path of the recipe; a relative one is looked for here and in the folders above, so a notebook finds
            ``reports/demo.yaml`` from the project's root (papermill) and from ``notebooks/`` (JupyterLab) alike.
        run_dir: folder of the run; empty for the folder named like the recipe, beside it.
        notebook: the notebook's own name, without ``.ipynb``.

    Raises:
        ParameterError: the recipe is missing or wrong.
    """
    from birdlab.report import show

    path = find_upwards(recipe)
    loaded = load_recipe(path)
    folder = Path(run_dir).resolve() if run_dir else path.parent / loaded.name
    run = Run(loaded, path, folder, notebook)
    show.begin(run)
    return run


def find_upwards(name: str, here: Path | None = None) -> Path:
    """The file ``name`` in the working folder or the nearest folder above it; the plain path if there is none."""
    path = Path(name).expanduser()
    if path.is_absolute():
        return path
    here = (here or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / path).exists():
            return folder / path
    return here / path


def _load(target: str) -> Callable[[Run], dict[str, pl.DataFrame]]:
    module, _, function = target.partition(":")
    return getattr(importlib.import_module(module), function)


def _stored_key(path: Path) -> str | None:
    try:
        return pl.read_parquet_metadata(path).get("birdlab")
    except (OSError, pl.exceptions.PolarsError):
        return None
