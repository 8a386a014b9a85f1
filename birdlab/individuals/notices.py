"""What is odd between truth and predictions of an application set: counted, named and shown beside what the reader says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from birdlab.readers.chirp import Colony

COLUMNS = ("code", "message", "n", "file")
_SHOWN = 8


def notices(colony: Colony, view: Colony) -> pl.DataFrame:
    """Notices of the reader, and what only shows when truth, predictions and counted rows are laid side by side.

    Args:
        colony: application set as read.
        view: what of it the documented protocol counts (:func:`birdlab.individuals.matching.documented_view`).

    Returns:
        code, message (with the names), n, file. Nothing that is 0 is a row.
    """
    rows = colony.notices.select(COLUMNS).rows()
    told = [*_birds(colony, view), *_alone(view), *_empty(colony)]
    rows += [(code, f"{text} ({_some(names)})", len(names), None) for code, text, names in told if names]
    outside = colony.windows.height - view.windows.height
    if outside:
        rows.append(
            ("window_outside", "windows outside the length of their video: not counted (documented)", outside, None)
        )
    return pl.DataFrame(rows, schema=colony.notices.select(COLUMNS).schema, orient="row")


def _birds(colony: Colony, view: Colony) -> Iterator[tuple[str, str, list[str]]]:
    true = {*view.boxes["individual_id"].drop_nulls(), *view.events["individual_id"].drop_nulls()}
    named = set(colony.identities["individual_id"].drop_nulls())
    yield "never_predicted", "birds of the truth that no method ever names", sorted(true - named)
    yield "never_seen", "birds that are predicted and never seen by hand", sorted(named - true)


def _alone(view: Colony) -> Iterator[tuple[str, str, list[str]]]:
    birds = view.boxes.group_by("video_id").agg(pl.col("individual_id").n_unique().alias("n"))
    yield "alone", "videos with one bird, which has no pair", sorted(birds.filter(pl.col("n") == 1)["video_id"])
    if view.videos.height == 1:
        yield "one_video", "one video: no interval can be given for others", view.videos["video_id"].to_list()


def _empty(colony: Colony) -> Iterator[tuple[str, str, list[str]]]:
    """Submitted combinations that predict nothing at all in a video they have."""
    tables: dict[str, tuple[pl.DataFrame, tuple[str, ...]]] = {
        "no_box": (colony.tracks, ("tracker",)),
        "no_window": (colony.windows, ("model", "tracker")),
        "no_name": (colony.identities.drop_nulls("individual_id"), ("identity", "tracker")),
    }
    words = {
        "no_box": "trackers without a box",
        "no_window": "models without a window",
        "no_name": "methods that name no bird",
    }
    due = colony.combinations.explode("videos").rename({"videos": "video_id"}).drop_nulls("video_id")
    for code, (table, keys) in tables.items():
        lost = due.select(*keys, "video_id").unique().join(table, on=[*keys, "video_id"], how="anti")
        names = [_name(row, keys) for row in lost.sort("video_id", *keys).to_dicts()]
        yield code, f"{words[code]} in a video", names


def _name(row: dict[str, Any], keys: tuple[str, ...]) -> str:
    return f"{' · '.join(row[k] for k in keys)} in {row['video_id']}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
