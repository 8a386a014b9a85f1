"""Made rings and made lists: how often each matcher names the right bird when everything is known.

Rings come from drawn clips (:func:`drawn_rings`, pictures to colour forest) or, without any picture, as the vectors
that a forest might give (:func:`simulated_rings`), or certain (:func:`sure_rings`, for examples and tests).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.individuals.rings.codes import Palette

#: Width and height of a made ring, distance of the two of a leg, distance of the legs; px.
WIDTH, HEIGHT, ALONG, ACROSS = 12.0, 9.0, 11.0, 40.0
FRAMES = 25
#: Rings per bird: one of metal, two or three of colour; share of birds with two.
METAL, TWO_COLOURS = "A", 0.15
#: Share of visible rings that a segmenter misses, and of frames in which it finds a ring where there is none.
MISSED, FALSE = 0.1, 0.02


@dataclass(frozen=True)
class Made:
    """Made clips.

    Args:
        rings: table ``ring_colours``.
        clips: clip_id, video_id, seed, individual_id (the truth), code, n_frames.
        together: clip_id, other_id: two birds filmed at once.
        roster: individual_id, code of every bird.
    """

    rings: pl.DataFrame
    clips: pl.DataFrame
    together: pl.DataFrame
    roster: pl.DataFrame


def sure_rings(
    clips: Mapping[str, Sequence[str]], palette: Palette, *, n_frames: int = 1, is_ordered: bool = True
) -> pl.DataFrame:
    """Table ``ring_colours`` of rings whose colours are certain.

    Args:
        clips: clip -> letters of its legs, upper ring first (``["RR", "AB"]``), legs from left to right.
        palette: colours that rings can have.
        n_frames: frames, all alike.
        is_ordered: whether the upper ring lies higher in the picture; else both are at one height.

    >>> sure_rings({"c": ["RG", "A"]}, Palette.of({"R": "r", "G": "g", "A": "a"}))["probabilities"].to_list()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    rows = []
    for clip, legs in clips.items():
        rings = [(letter.upper(), leg, slot) for leg, word in enumerate(legs) for slot, letter in enumerate(word)]
        for frame in range(n_frames):
            for number, (letter, leg, slot) in enumerate(rings):
                x, y = (
                    ACROSS * (leg + 1) + (0 if is_ordered else slot * ALONG / 2),
                    50 + (ALONG * slot if is_ordered else 0),
                )
                p = [float(letter == other) for other in palette.letters]
                rows.append((clip, frame, number, x, y, WIDTH, HEIGHT, 1.0, p, letter))
    return _table(rows)


def made_roster(rng: np.random.Generator, n: int, palette: Palette) -> pl.DataFrame:
    """Birds with codes of their own: a metal ring and two or three of colour, in any order.

    Returns:
        individual_id, code; no code twice.
    """
    colours = [c for c in palette.letters if c != METAL]
    codes: dict[str, None] = {}
    while len(codes) < n:
        size = 3 if rng.random() < TWO_COLOURS else 4
        letters = list(rng.choice(colours, size - 1))
        letters.insert(int(rng.integers(size)), METAL)
        word = "".join(letters).lower()
        codes[f"{word[:2]}-{word[2:]}" if size == 3 else word] = None
    return pl.DataFrame({"individual_id": [f"bird {i:03d}" for i in range(n)], "code": list(codes)})


def made_clips(
    rng: np.random.Generator,
    roster: pl.DataFrame,
    n_videos: int,
    ring_rows: Callable[[np.random.Generator, str], list[tuple]],
    *,
    seed: int = 0,
) -> Made:
    """Videos of two birds at once, one clip of each.

    Args:
        rng: draws birds.
        roster: individual_id, code.
        n_videos: how many; twice as many clips.
        ring_rows: frame, x, y, width, height, probabilities, truth of the rings of a clip of a bird with a code; the
            stream is the same for both clips of a video at its start, so that they may share their light.
        seed: written beside; clips of several seeds can be put together.
    """
    clips, together, rows = [], [], []
    for video in range(n_videos):
        name, light = f"{seed}:{video}", int(rng.integers(2**32))
        pair = [f"{name}:{i}" for i in (0, 1)]
        for i, bird in enumerate(rng.choice(roster.height, 2, replace=False)):
            individual, code = roster.row(int(bird))
            clips.append((pair[i], name, seed, individual, code, FRAMES))
            found = ring_rows(np.random.default_rng([light, i]), code)
            number: dict[int, int] = {}
            for frame, *rest in found:
                number[frame] = number.get(frame, -1) + 1
                rows.append((pair[i], frame, number[frame], *rest[:4], 1.0, *rest[4:]))
        together.append(pair)
    return Made(
        _table(rows),
        pl.DataFrame(clips, schema=["clip_id", "video_id", "seed", "individual_id", "code", "n_frames"], orient="row"),
        pl.DataFrame(together, schema={"clip_id": pl.String, "other_id": pl.String}, orient="row"),
        roster,
    )


def simulated_rings(palette: Palette, *, noise: float = 1.0, shared: float = 1.0) -> Callable[..., list[tuple]]:
    """Ring rows without a picture: each colour has a place on a line of looks, and light moves all of them.

    Args:
        palette: colours; neighbours in its order are read for one another.
        noise: standard deviation of a single ring's place, in steps between colours.
        shared: that of the clip's, the same for its rings of one colour: frames of a clip err together.

    Returns:
        For :func:`made_clips`. The probabilities are the posterior for a ring on its own, so they are right for one
        ring, and too sure of themselves when the rings of a clip are multiplied.
    """
    k = len(palette)
    spread = float(np.hypot(noise, shared)) or 1e-6

    def rows(rng: np.random.Generator, code: str) -> list[tuple]:
        legs, out = _legs(code), []
        off = rng.normal(0, shared, k)
        visible = rng.uniform(0.4, 1.0)
        for frame in range(FRAMES):
            for leg, word in enumerate(legs):
                if rng.random() > 0.5 + visible / 2:
                    continue
                for slot, letter in enumerate(word):
                    if rng.random() < visible:
                        c = palette.index(letter)
                        at = c + off[c] + rng.normal(0, noise)
                        log_p = -0.5 * ((np.arange(k) - at) / spread) ** 2
                        p = np.exp(log_p - log_p.max())
                        x, y = ACROSS * (leg + 1) + rng.normal(0, 1), 50 + ALONG * slot + rng.normal(0, 1)
                        out.append((frame, x, y, WIDTH, HEIGHT, (p / p.sum()).tolist(), letter))
        return out

    return rows


def drawn_rings(predict: Callable[[np.ndarray], np.ndarray]) -> Callable[..., list[tuple]]:
    """Ring rows from drawn clips (:mod:`birdlab.demo.ring_birds`) under changing light, blur, cover and perspective.

    The masks are those of the drawing, except that some rings are missed and some are found where there is none.

    Args:
        predict: colour probabilities of features (n, 30), (n, K): a trained colour forest's.
    """

    def rows(rng: np.random.Generator, code: str) -> list[tuple]:
        features, places = drawn_features(rng, code)
        if not places:
            return []
        p = predict(features)
        return [(*place[:5], p[i].tolist(), place[5]) for i, place in enumerate(places)]

    return rows


def drawn_features(
    rng: np.random.Generator, code: str, *, missed: float = MISSED, false: float = FALSE
) -> tuple[np.ndarray, list[tuple]]:
    """Features (n, 30) of the rings of one drawn clip, and frame, x, y, width, height, letter (null: no ring) of each."""
    from birdlab.demo.ring_birds import render_clip
    from birdlab.individuals.rings.crops import histograms, ring_crop

    clip = render_clip(
        rng,
        code,
        light=rng.uniform(0.45, 1.4),
        blur=rng.uniform(0.2, 1.3),
        occlusion=rng.uniform(0, 0.85),
        perspective=rng.uniform(0, 0.8),
        white_balance=tuple(np.exp(rng.normal(0, 0.08, 3))),
        n_frames=FRAMES,
    )
    crops, places = [], []
    for frame, seen in enumerate(clip.rings):
        shown = [(ring.letter, np.asarray(ring.polygon, dtype=np.float64)) for ring in seen if rng.random() >= missed]
        if rng.random() < false:
            x, y = rng.uniform(10, 80, 2)
            shown.append((None, np.array([[x, y], [x + 8, y], [x + 8, y + 8], [x, y + 8]])))
        for letter, outline in shown:
            crop = ring_crop(clip.frames[frame], outline)
            if crop is not None:
                (x0, y0), (x1, y1) = outline.min(axis=0), outline.max(axis=0)
                crops.append(crop)
                places.append((frame, (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0, letter))
    return (histograms(np.stack(crops)) if crops else np.zeros((0, 30))), places


def made_lists(rng: np.random.Generator, made: Made, size: int, *, with_truth: bool = True) -> pl.DataFrame:
    """A list of candidates for every video: its two birds and others of the roster at random, in random order.

    Args:
        rng: draws the others.
        made: clips and roster.
        size: birds of a list, at least 2.
        with_truth: False leaves the two birds out: all are birds that are not on the list.

    Returns:
        gallery (``all``), clip_id, individual_id, code.
    """
    code = dict(made.roster.iter_rows())
    birds = made.roster["individual_id"].to_numpy()
    out = []
    for _, clips in made.clips.group_by("video_id", maintain_order=True):
        here = set(clips["individual_id"])
        others = [b for b in rng.permutation(birds) if b not in here]
        listed = rng.permutation([*here, *others[: size - 2]] if with_truth else others[:size])
        out += [("all", clip, str(b), code[b]) for clip in clips["clip_id"] for b in listed]
    return pl.DataFrame(out, schema=["gallery", "clip_id", "individual_id", "code"], orient="row")


def joined(parts: Sequence[Made]) -> Made:
    """Clips of several seeds as one; the roster is that of the first."""
    frames = [pl.concat([getattr(p, name) for p in parts]) for name in ("rings", "clips", "together")]
    return Made(*frames, parts[0].roster)


def _legs(code: str) -> tuple[str, str]:
    word = code.upper()
    left, right = word.split("-") if "-" in word else (word[: (len(word) + 1) // 2], word[(len(word) + 1) // 2 :])
    return left, right


def _table(rows: Sequence[tuple]) -> pl.DataFrame:
    contract = schemas.TABLES["ring_colours"]
    return contract.conform(pl.DataFrame(rows, schema=contract.dtypes, orient="row"))
