"""From a classifier of windows and a folder of sound files to a run file, recording by recording.

A finished recording is a part in ``<run>/shards/sound-<name>-<key>/`` (see :mod:`birdlab.inference.sound_parts`); a rerun
makes only what is missing. The run file is put together from the parts at the end, so it does not depend on where an
earlier run was stopped.

No model comes with birdlab. BirdNET's TFLite model is one of this kind, for those who have it (windows of 3 s at 48,000 Hz,
labels ``Scientific name_Common name``); its licence allows non-commercial use only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.inference.classifier_labels import find_labels
from birdlab.inference.sound import Sound, find_sounds
from birdlab.inference.sound_labels import classes_of_labels
from birdlab.inference.sound_parts import Columns, Listener, Told, clear, read_told, write_part
from birdlab.inference.sound_run import RunWriter, said_of
from birdlab.inference.sound_windows import WindowClassifier, environment
from birdlab.inference.timing import NOTICES, run_notices
from birdlab.inference.weights import find_classifier
from birdlab.readers.files import Notice, at_most
from birdlab.readers.labels import locate
from birdlab.shards import Shard, digest, map_shards

if TYPE_CHECKING:
    from birdlab.recipe.soundscapes import SoundRun, Soundscapes
    from birdlab.study import Run

#: Part of the key of finished shards: raise it when the content of a part changes.
VERSION = 1
FILES = pl.Schema(
    {
        "media_id": pl.String,
        "file": pl.String,
        "state": pl.String,
        "duration_s": pl.Float64,
        "sample_rate": pl.Int64,
        "channels": pl.Int64,
        "subtype": pl.String,
        "n_windows": pl.Int64,
        "n_failed": pl.Int64,
        "n_segments": pl.Int64,
        "message": pl.String,
    }
)
RUNS = pl.Schema({"run": pl.String, "file": pl.String, "n_rows": pl.Int64, "hours": pl.Float64, "seconds": pl.Float64})
FAILURES = pl.Schema({"media_id": pl.String, "stage": pl.String, "message": pl.String})


@dataclass(frozen=True)
class Listing:
    """What a run file may list: the classes of the study, and at most how many of them per segment."""

    classes: tuple[str, ...]
    max_classes: int | None = None


@dataclass(frozen=True)
class SoundRunMade:
    """A run file that was made.

    Args:
        path: the run file, ``MediaId;TC1-TC2;ClassId;Probability``.
        n_rows: its lines.
        files: one row per sound file: :data:`FILES`; ``state`` is used, read or predict (where it failed).
        notices: columns model, code, message, n.
        seconds: spent on the recordings, now or by earlier runs.
    """

    path: Path
    n_rows: int
    files: pl.DataFrame
    notices: pl.DataFrame
    seconds: float


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of ``sound_files``, ``sound_notices`` and ``sound_runs`` (run file of each run with weights).

    Paths in ``sound_runs`` are relative to the run's folder. All tables are empty where no run has weights.

    Raises:
        DataError: weights, labels or sounds are missing or do not fit.
        ParameterError: an unknown device, or a package is missing.
    """
    from birdlab.progress import progress

    section = run.recipe.soundscapes
    files, notices, runs = [_of_run("", FILES.to_frame())], [NOTICES.to_frame()], []
    specs = [spec for spec in section.runs if spec.weights] if section else []
    if section is not None and specs:
        sounds, found = _sounds(run, section)
        notices.append(_notice_rows("", found))
        listing = Listing(tuple(run.table("soundscape_class_list")["class_id"]), section.max_classes)
        places = {"base": run.base, "root": run.data_root, "out_dir": run.dir, "device": run.recipe.device}
        for spec in specs:
            with progress(f"{spec.name} listens", unit="recordings", state=run.dir / "progress.json") as step:
                made = run_classifier(spec, sounds, listing=listing, progress=step, **places)
            files.append(_of_run(spec.name, made.files))
            notices.append(made.notices)
            hours = (made.files.filter(pl.col("state") == "used")["duration_s"].sum() or 0.0) / 3600
            runs.append((spec.name, made.path.relative_to(run.dir).as_posix(), made.n_rows, hours, made.seconds))
    return {
        "sound_files": pl.concat(files),
        "sound_notices": pl.concat(notices),
        "sound_runs": pl.DataFrame(runs, schema=RUNS, orient="row"),
    }


def _of_run(name: str, files: pl.DataFrame) -> pl.DataFrame:
    return files.select(pl.lit(name).alias("run"), pl.all())


def _sounds(run: Run, section: Soundscapes) -> tuple[list[Sound], list[Notice]]:
    """Sound files of the study's recordings."""
    from birdlab.readers.fingerprint import read_hashes, relative_key

    known = read_hashes(run.dir / "hashes.json")

    def hashed(path: Path) -> str | None:
        entry = known.get(relative_key(str(path), run.base))
        return entry[2] if entry else None

    folder = locate(section.audio or ".", run.base, run.data_root)
    return find_sounds(folder, run.table("soundscape_recordings"), hashed=hashed)


def run_classifier(
    spec: SoundRun,
    sounds: list[Sound],
    *,
    listing: Listing,
    base: Path,
    root: Path,
    out_dir: Path,
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> SoundRunMade:
    """Run a classifier of windows over recordings and write what it says as a run file.

    Channels are averaged, the sound is brought to ``spec.sample_rate``, cut into windows of ``spec.window_s`` without
    gaps (the last one filled up with silence), and :data:`birdlab.inference.sound_windows.RULE` makes segments of 5 s.
    Scores beyond [0, 1] are logits: if there is one, on made sounds or in any recording, every score of the run becomes
    1 / (1 + exp(-x)). The run file lists every class of ``listing`` that the classifier has a label for, in every
    segment, with ten digits; a probability that these digits show as 0 is not listed.

    Args:
        spec: section of the recipe with ``weights``.
        sounds: from :func:`birdlab.inference.sound.find_sounds`.
        listing: classes that may be listed, and at most how many per segment (the highest; at a tie the first).
        base: folder of the recipe.
        root: folder of the data.
        out_dir: folder of the run: the run file is ``soundscape_runs/<name>.txt`` in it.
        device: auto, cpu, cuda, cuda:N or mps.
        progress: called with (recordings done, recordings in all).

    Raises:
        DataError: weights or labels cannot be used, a name cannot stand in a run file, or no recording could be used.
        ParameterError: the device is not there, a package is missing, or window_s and sample_rate do not fit.
    """
    _checked_names([s.media_id for s in sounds], "recording")
    _checked_names(listing.classes, "class")
    weights = find_classifier(spec, base, root)
    labels = find_labels(spec.labels, weights, base, root, where=f"run {spec.name}")
    mapped, notices = classes_of_labels(spec, labels, listing.classes, base=base, root=root)
    columns = Columns.of(mapped, listing.classes)
    settings = [VERSION, weights.sha256, labels, asdict(columns), spec.window_s, spec.sample_rate]
    folder = out_dir / "shards" / f"sound-{_safe(spec.name)}-{digest([*settings, *environment(weights, device)])[:12]}"
    clear(folder, columns)
    shards = [Shard(sound.media_id[:80], [sound.media_id, sound.sha256]) for sound in sounds]
    paths = [folder / shard.filename for shard in shards]
    if all(path.exists() for path in paths):
        if progress:
            progress(len(paths), len(paths))
    else:
        listener = Listener(spec, WindowClassifier(spec, weights, labels, device), columns, sounds)
        map_shards(listener, shards, folder, write=write_part, progress=progress)
    told = [read_told(path) for path in paths]
    _some_used(spec, sounds, told)
    logits = any(one.outside for one in told)
    writer = RunWriter(columns.classes, listing.max_classes, logits=logits)
    out = out_dir / "soundscape_runs" / f"{_safe(spec.name)}.txt"
    writer.write(out, zip([sound.media_id for sound in sounds], paths, strict=True))
    notices += [*said_of(spec, sounds, told, logits=logits), *writer.notices()]
    seconds = sum(one.timing.end_to_end_s for one in told)
    table = pl.DataFrame([_row(s, t) for s, t in zip(sounds, told, strict=True)], schema=FILES, orient="row")
    return SoundRunMade(out, writer.n_rows, table, _told_of(spec.name, sounds, told, notices), seconds)


def _checked_names(names: Iterable[str], what: str) -> None:
    """Refuse names that a run file cannot hold: it has no quotes."""
    bad = [name for name in names if not name.strip() or re.search(r"[;\r\n\x00]", name) or name != name.strip()]
    expected = "a name without ; and line ends, and without blanks at its ends"
    if bad:
        raise DataError(at_most([Problem("bad_name", f"{what} {name!r}", expected) for name in bad]))


def _some_used(spec: SoundRun, sounds: list[Sound], told: list[Told]) -> None:
    if sounds and not all(one.failure for one in told):
        return
    first = f"; {sounds[0].file}: {(told[0].failure or ('', ''))[1]}" if sounds else ""
    found = f"none of {len(sounds):,} sound files could be used{first}"
    raise DataError(Problem("no_sound", found, "sound files that can be read", record=f"run {spec.name}", key="audio"))


def _row(sound: Sound, told: Told) -> tuple[object, ...]:
    state, message = told.failure or ("used", None)
    heard = told.heard
    facts = (heard.duration_s, heard.sample_rate, heard.channels, heard.subtype) if heard else (None,) * 4
    n_windows = heard.n_windows if heard else 0
    return (sound.media_id, sound.file, state, *facts, n_windows, told.n_failed, told.n_segments, message)


def _told_of(name: str, sounds: list[Sound], told: list[Told], notices: list[Notice]) -> pl.DataFrame:
    failed = [(s.media_id, *t.failure) for s, t in zip(sounds, told, strict=True) if t.failure]
    failures = pl.DataFrame(failed, schema=FAILURES, orient="row")
    about = run_notices(name, [one.timing for one in told], failures, unit="recordings")
    return pl.concat([about, _notice_rows(name, notices)])


def _notice_rows(name: str, notices: list[Notice]) -> pl.DataFrame:
    return pl.DataFrame([(name, n.code, n.message, n.n) for n in notices], schema=NOTICES, orient="row")


def _safe(name: str) -> str:
    """A name as part of a path; two names never become one."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:80]
    return safe if safe == name else f"{safe}-{digest(name)[:6]}"
