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
from birdlab.builders import BUILDERS, DEPENDS, ONLY_WITH, subject
from birdlab.errors import ParameterError, Problem
from birdlab.recipe import Recipe, load_recipe, resolve
from birdlab.shards import digest, write_atomic

if TYPE_CHECKING:
    from birdlab.report.show import Shown


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

    def section(self, name: str, *, holds: str, chapter: str) -> Any:
        """A section of the recipe; made data are made first.

        Args:
            name: its key.
            holds: what it is expected to hold, for the error.
            chapter: notebooks that need it.

        Raises:
            ParameterError: the recipe has none.
        """
        section = getattr(self.recipe, name)
        if section is None:
            remedy = f"add the section, or leave out {chapter}"
            where = str(self.recipe_path)
            raise ParameterError(Problem("no_section", f"no section {name}", holds, remedy, file=where, key=name))
        if self.recipe.data.generator is not None:
            from birdlab.demo.generators import make_data

            make_data(self.recipe.data.generator, self.data_root)
        return section

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
