"""Protocols for clips that come without: who is learned from, who is in the gallery, who is asked for.

Whole videos take a role, since clips of one video share light, background and bird; the latest videos of a bird are
asked for, since that is how a gallery is used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.individuals.reid.videos import Held, hold
from birdlab.readers.files import Notice, notice_table
from birdlab.readers.reid_clips import with_known
from birdlab.schemas.reid import REID_SPLITS

if TYPE_CHECKING:
    from birdlab.recipe.reid import BuiltSplits

#: video, bird -> role; what is not in it has none.
_Roles = dict[tuple[str, str], str]


def build_roles(
    clips: pl.DataFrame, *, settings: BuiltSplits, protocols: Collection[str] = REID_SPLITS
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Make the protocols.

    Args:
        clips: table ``reid_clips``.
        settings: shares and seed; the same ones give the same roles.
        protocols: closed, disjoint, open, or some of them.

    Returns:
        Table ``reid_roles``, and notices (code, message, n, file). Closed: of each bird the latest videos are queries,
        as many as come nearest to ``query_share`` of its clips but at least one, the others the gallery. Disjoint: half
        of the birds are learned from, the latest videos of the other half are asked for. Open: ``unknown_share`` of the
        birds are in no gallery, and ``validation_share`` of the gallery's clips is put aside for the threshold. No
        video has two roles in one protocol: clips that would need a second one have none. They, birds of one video
        (who cannot be asked for), and shares that were reached are counted.
    """
    held, notices, parts = hold(clips), [], [schemas.empty("reid_roles")]
    if held.undated:
        text = "videos without a day or year: taken as older than all others, in the order of their names"
        notices.append(Notice("undated_video", text, held.undated))
    made = {"closed": _closed, "disjoint": _disjoint, "open": _open}
    for split in (s for s in REID_SPLITS if s in protocols):
        roles = made[split](held, settings, notices)
        frame = pl.DataFrame(
            [(video, bird, role) for (video, bird), role in roles.items()],
            schema={"video_id": pl.String, "individual_id": pl.String, "role": pl.String}, orient="row",
        )  # fmt: skip
        rows = clips.select("clip_id", "video_id", "individual_id").join(
            frame, on=["video_id", "individual_id"], how="inner", maintain_order="left"
        )
        known = with_known(rows.with_columns(pl.lit(split).cast(pl.Enum(REID_SPLITS)).alias("split")))
        if split == "open" and settings.validation_share:
            known, told = validation_from_gallery(clips, known, share=settings.validation_share)
            notices += [Notice(*row) for row in told.iter_rows()]
        _remark_shares(split, known, clips, settings, notices)
        parts.append(known)
    roles = schemas.validate("reid_roles", pl.concat(parts))
    return roles, notice_table(notices).with_columns(pl.col("file").cast(pl.String))


def validation_from_gallery(
    clips: pl.DataFrame, roles: pl.DataFrame, *, share: float = 0.1, split: str = "open"
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Take clips for choosing a threshold out of the gallery, by whole videos.

    Args:
        clips, roles: tables ``reid_clips`` and ``reid_roles``.
        share: of the gallery's clips, in [0, 1).
        split: protocol.

    Returns:
        Roles in which the gallery clips of the chosen videos are ``validation``, and notices. Latest videos first:
        those that hold a bird not yet chosen, then the others, as long as that comes nearer to the share, or as near; every bird
        keeps a clip in the gallery, so nobody becomes unknown. Roles that have a validation stay as they are.
    """
    mine = (pl.col("split") == split) & (pl.col("role") == "gallery")
    given = roles.filter((pl.col("split") == split) & (pl.col("role") == "validation")).height
    gallery = clips.join(roles.filter(mine).select("clip_id"), on="clip_id", how="semi")
    if given or gallery.is_empty() or not share:
        return roles, notice_table([]).with_columns(pl.col("file").cast(pl.String))
    chosen = _latest_of_all(hold(gallery), share * gallery.height)
    moved = gallery.filter(pl.col("video_id").is_in(list(chosen)))
    if not chosen:
        text = f"no video can leave the gallery of {split} without a bird losing its last: no threshold can be chosen"
        notice = Notice("no_validation", text, gallery.height)
    else:
        text = (
            f"clips of {len(chosen)} late video{'s' * (len(chosen) > 1)} ({100 * moved.height / gallery.height:.1f} % of the gallery of "
            f"{split}) were taken out of it to choose the threshold: every bird keeps clips of other videos there"
        )
        notice = Notice("validation_taken", text, moved.height)
    taken = mine & pl.col("clip_id").is_in(moved["clip_id"].implode())
    role = pl.when(taken).then(pl.lit("validation", dtype=roles.schema["role"])).otherwise("role").alias("role")
    return roles.with_columns(role), notice_table([notice]).with_columns(pl.col("file").cast(pl.String))


def _latest_of_all(held: Held, wanted: float) -> set[str]:
    videos = {b: n for b in held.birds if (n := len(held.videos_of[b]))}
    chosen: set[str] = set()
    covered: set[str] = set()
    taken = 0
    for first in (True, False):
        for video in held.latest_first:
            birds = held.n[video]
            n = sum(birds.values())
            new = not covered.issuperset(birds) or not first
            nearer = abs(taken + n - wanted) <= abs(taken - wanted)
            if video in chosen or not new or not nearer or any(videos[b] < 2 for b in birds):
                continue
            chosen.add(video)
            covered |= set(birds)
            taken += n
            videos |= {b: videos[b] - 1 for b in birds}
    return chosen


def _closed(held: Held, settings: BuiltSplits, notices: list[Notice]) -> _Roles:
    asked = latest_videos(held, settings.query_share)
    return _asked_or_gallery(held, asked, "closed", notices)


def _asked_or_gallery(held: Held, asked: Collection[str], split: str, notices: list[Notice]) -> _Roles:
    """Queries and gallery; a bird that would be asked for without a gallery has no role."""
    shown = {bird for video in held.n if video not in asked for bird in held.n[video]}
    roles = {
        (video, bird): "query" if video in asked else "gallery"
        for video in held.n for bird in held.n[video] if video not in asked or bird in shown
    }  # fmt: skip
    single = [b for b in held.birds if len(held.videos_of[b]) == 1]
    left = sum(n for v in held.n for b, n in held.n[v].items() if (v, b) not in roles)
    named = {b for (_, b), role in roles.items() if role == "query"}
    never = [b for b in held.birds if len(held.videos_of[b]) > 1 and b not in named]
    told = (
        ("one_video", "birds of one video, who cannot be asked for", len(single)),
        ("left_out", "clips of such birds in videos that are asked for: without a role", left),
        ("never_asked", "birds of several videos that are not asked for, since they share them with others", len(never)),
    )  # fmt: skip
    notices += [Notice(f"{code}_{split}", f"{text} ({split})", n) for code, text, n in told if n]
    return roles


def _disjoint(held: Held, settings: BuiltSplits, notices: list[Notice]) -> _Roles:
    learned = half_of_the_birds(held, settings.seed)
    roles: _Roles = {}
    kept: dict[str, dict[str, int]] = {}
    lost = 0
    for video, birds in held.n.items():
        theirs = sum(n for b, n in birds.items() if b in learned)
        train = theirs > sum(birds.values()) - theirs
        for bird, n in birds.items():
            if (bird in learned) != train:
                lost += n
            elif train:
                roles[video, bird] = "train"
            else:
                kept.setdefault(video, {})[bird] = n
    if lost:
        text = "clips in videos of birds of the other half: without a role in disjoint"
        notices.append(Notice("left_out_halves", text, lost))
    rest = held.only(kept)
    return roles | _asked_or_gallery(rest, latest_videos(rest, settings.query_share), "disjoint", notices)


def _open(held: Held, settings: BuiltSplits, notices: list[Notice]) -> _Roles:
    birds = sorted(held.birds)
    n = min(len(birds) - 1, max(1, round(settings.unknown_share * len(birds))))
    order = np.random.default_rng(settings.seed).permutation(len(birds))
    unknown = {birds[i] for i in order[: max(n, 0)]}
    known = held.only({v: {b: n for b, n in of.items() if b not in unknown} for v, of in held.n.items()})
    asked = latest_videos(known, settings.query_share)
    roles = _asked_or_gallery(known, asked, "open", notices)
    out = 0
    for video, of in held.n.items():
        for bird in unknown.intersection(of):
            if video in asked or video not in known.n:
                roles[video, bird] = "query"
            else:
                out += of[bird]
    if out:
        text = "clips of birds of no gallery in videos of the gallery: without a role in open"
        notices.append(Notice("left_out_unknown", text, out))
    return roles


def latest_videos(held: Held, share: float) -> set[str]:
    """Videos to ask for: of each bird the latest ones, as near to ``share`` of its clips as whole videos allow.

    Args:
        held: birds and clips of the videos.
        share: of each bird's clips, in (0, 1).

    Returns:
        Videos, chosen from the latest on. A bird of several videos keeps one that is not chosen, and none that it keeps
        is later than one that is. A video of several birds is chosen if that brings their shares nearer in all, or if
        one of them is not asked for yet and no other is then asked for with more than half of its clips.
    """
    total = {b: sum(held.n[v][b] for v in held.videos_of[b]) for b in held.birds}
    left = {b: len(held.videos_of[b]) for b in held.birds}
    target = {
        b: max(share * total[b], held.n[held.videos_of[b][0]][b]) if left[b] > 1 else 0.0 for b in held.birds
    }  # fmt: skip
    done, passed, chosen = dict.fromkeys(held.birds, 0), {}, set()
    for video in held.latest_first:
        birds = {b: n for b, n in held.n[video].items() if target[b]}
        day = held.day[video]
        free = all(left[b] > 1 and passed.get(b, day) <= day for b in birds)
        if birds and free and _worth(birds, done, target, total):
            chosen.add(video)
            for b, n in birds.items():
                done[b] += n
                left[b] -= 1
        else:
            for b in birds:
                passed.setdefault(b, day)
    return chosen


def _worth(birds: Mapping[str, int], done: dict[str, int], target: dict[str, float], total: dict[str, int]) -> bool:
    gain = sum(abs(done[b] - target[b]) - abs(done[b] + n - target[b]) for b, n in birds.items())
    first = any(not done[b] for b in birds)
    return gain > 0 or (first and all(not done[b] or done[b] + n <= total[b] / 2 for b, n in birds.items()))


def half_of_the_birds(held: Held, seed: int) -> set[str]:
    """Birds to learn from: half of them, birds that share videos together as far as that gives halves.

    Args:
        held: birds and clips of the videos.
        seed: order in which groups of equal size are dealt out.

    Returns:
        Names. Groups of birds linked by common videos go to the smaller half, largest first; a group of more than half
        of the birds is cut where a walk along its videos has seen half of them.
    """
    half, groups = max(1, len(held.birds) // 2), []
    for group in held.groups():
        groups += [part for part in (group[:half], group[half:]) if part]
    order = np.random.default_rng(seed).permutation(len(groups))
    learned: list[str] = []
    asked: list[str] = []
    for i in sorted(order, key=lambda i: -len(groups[i])):
        (learned if len(learned) < len(asked) else asked).extend(groups[i])
    return set(learned)


def _remark_shares(
    split: str, known: pl.DataFrame, clips: pl.DataFrame, settings: BuiltSplits, notices: list[Notice]
) -> None:
    counts = dict(known["role"].value_counts().rows())
    if not known.height:
        notices.append(Notice(f"no_roles_{split}", f"no clip has a role in {split}", clips.height))
        return
    pool = counts.get("query", 0) + counts.get("gallery", 0) + counts.get("validation", 0)
    if not counts.get("query"):
        text = f"nobody can be asked for in {split}: no bird was filmed in two videos that can be told apart"
        notices.append(Notice(f"no_queries_{split}", text, pool))
        return
    asked = known.filter((pl.col("role") == "query") & pl.col("is_known")).height
    pool -= counts["query"] - asked
    text = f"clips asked for in {split}: {100 * asked / max(pool, 1):.1f} % of those of birds of the gallery"
    notices.append(Notice(f"share_{split}", f"{text} ({100 * settings.query_share:g} % was asked for)", asked))
