"""The made soundscapes as files: annotations, recordings, class list, run files, and what was planted.

The layout is that of BirdCLEF 2019. There is no sound: who sings where is written down, what runs say is made from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from birdlab.demo import soundscape_birds as planted
from birdlab.demo.colony import Folder
from birdlab.demo.soundscape_birds import SEGMENT_S, SPECIES, Soundscapes, make_soundscapes
from birdlab.demo.soundscape_runs import RUNS, Listed, class_places, heard, list_run, told_of_run

FOLDER = "soundscapes"
#: Country of the annotations: none.
COUNTRY = "made"


def write_soundscapes(out: Path) -> list[str]:
    """Write ``soundscapes/`` of the demo study.

    Written are ``annotations.csv`` (MediaId;ClassId;TC1-TC2;Country), ``recordings.csv`` (media_id, duration_s, recorder,
    site, start_utc, timezone; silent recordings included), ``classes.txt`` (some never sing), ``runs/<name>.txt``
    (MediaId;TC1-TC2;ClassId;Probability) and ``truth.json`` (what was planted).

    Args:
        out: folder of the study.

    Returns:
        Paths written, relative to ``out``.
    """
    folder, made = Folder(out, FOLDER), make_soundscapes()
    _write_tables(folder, made)
    runs = []
    for number, run in enumerate(RUNS):
        listed = list_run(number)
        _write_run(folder, f"runs/{run.name}.txt", made, listed, run.digits)
        runs.append(told_of_run(number, listed))
    folder.json("truth.json", _truth(made, runs), indent=1)
    return folder.names


def _write_tables(folder: Folder, made: Soundscapes) -> None:
    recordings, songs = made.recordings, made.songs
    folder.csv(
        "recordings.csv",
        {
            "media_id": [one.media_id for one in recordings],
            "duration_s": [one.duration_s for one in recordings],
            "recorder": [one.recorder for one in recordings],
            "site": [one.site for one in recordings],
            "start_utc": [one.start.strftime("%Y-%m-%dT%H:%M:%SZ") for one in recordings],
            "timezone": [f"UTC{planted.ZONE_H:+d}"] * len(recordings),
        },
    )
    annotations = {
        "MediaId": [recordings[song.recording].media_id for song in songs],
        "ClassId": [SPECIES[song.species][0] for song in songs],
        "TC1-TC2": [f"{clock(song.start)}-{clock(song.end)}" for song in songs],
        "Country": [COUNTRY] * len(songs),
    }
    folder.csv("annotations.csv", annotations, ";")
    text = "\n".join(made.classes) + "\n"
    folder.save("classes.txt", lambda path: path.write_text(text, encoding="utf-8", newline="\n"))


def _write_run(folder: Folder, name: str, made: Soundscapes, listed: Listed, digits: int) -> None:
    spans = pl.Series([f"{clock(SEGMENT_S * k)}-{clock(SEGMENT_S * (k + 1))}" for k in range(listed.segment.max() + 1)])
    rows = pl.DataFrame(
        {
            "media": pl.Series([one.media_id for one in made.recordings]).gather(listed.recording),
            "time": spans.gather(listed.segment),
            "class": pl.Series(made.classes).gather(listed.cls),
            "probability": listed.probability,
        }
    )
    settings: dict[str, Any] = {"include_header": False, "separator": ";", "line_terminator": "\n"}
    folder.save(name, lambda path: rows.write_csv(path, float_precision=digits, **settings))


def clock(seconds: int) -> str:
    """Seconds as hours, minutes and seconds.

    >>> clock(3605)
    '01:00:05'
    """
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _truth(made: Soundscapes, runs: list[dict[str, Any]]) -> dict[str, Any]:
    what, place = heard(), class_places(made)
    species = []
    for s, (code, name, when) in enumerate(SPECIES):
        here = what.present[:, place[s]]
        about = {"class_id": code, "name": name, "sings": when, "detectability": float(made.detectability[s])}
        recordings = np.unique(what.recording[here])
        species.append({**about, "n_segments": int(here.sum()), "n_recordings": len(recordings)})
    singing = {song.recording for song in made.songs}
    silent = [one.media_id for r, one in enumerate(made.recordings) if r not in singing]
    return {
        "generator": "birdlab demo",
        "made": True,
        "n_recordings": len(made.recordings),
        "n_segments": len(what.recording),
        "n_annotations": len(made.songs),
        "n_pairs": int(what.present.sum()),
        "zone_hours": planted.ZONE_H,
        "noisy_recorder": {"recorder": planted.NOISY, "factor": planted.NOISY_FACTOR},
        "bad_hour": {"local_hour": planted.BAD_HOUR, "factor": planted.BAD_HOUR_FACTOR},
        "silent_recordings": silent,
        "never": list(planted.NEVER),
        "species": species,
        "runs": runs,
    }
