"""What factors and their bins are called in tables, figures and sentences."""

from __future__ import annotations

from birdlab.difficulty.bins import factor_of, shown_level

#: Between the levels of a tie ("Dark = Bright").
LEVEL_JOIN = " = "
_TITLES = {
    "blur_local": "Local sharpness",
    "crowding": "Birds in the frame",
}
#: What birds of one bin are, said behind "birds that are"; {} is the bin in small letters.
_PREDICATES = {
    "contrast_local": "of {} contrast",
    "contrast_global": "in frames of {} contrast",
    "brightness_global": "in {} frames",
    "clutter_local": "in {} spots",
    "clutter_background": "before {} backgrounds",
    "occlusion": "of {} occlusion",
}
#: Factors whose bins are adjectives of a bird.
_ADJECTIVES = ("rel_size", "brightness_local", "blur_local")
_SPECIAL = {
    ("border_px", "near"): "near the border",
    ("border_px", "middle"): "midway to the border",
    ("border_px", "far"): "far from the border",
    ("blur_local", "medium"): "of medium sharpness",
    ("crowding", "1"): "alone in the frame",
}


def title(factor: str) -> str:
    """Name of a factor at the head of a column or panel.

    >>> title("brightness_local"), title("crowding")
    ('Local brightness', 'Birds in the frame')
    """
    name = _TITLES.get(factor) or factor_of(factor).title
    return name[:1].upper() + name[1:]


def shown_levels(factor: str, levels: str) -> str:
    """A bin, or bins that tie, as printed.

    >>> shown_levels("brightness_local", "Dark = Bright"), shown_levels("crowding", "2-3")
    ('Dark = Bright', '2–3 objects')
    """
    return LEVEL_JOIN.join(shown_level(factor, level) for level in levels.split(LEVEL_JOIN))


def condition(factor: str, levels: str) -> str:
    """The birds of a bin, or of bins that tie, for a sentence.

    >>> condition("brightness_local", "Dark"), condition("crowding", "1"), condition("border_px", "Near = Far")
    ('dark birds', 'birds alone in the frame', 'birds near the border and birds far from the border')
    """
    said = []
    for level in levels.split(LEVEL_JOIN):
        words = predicate(factor, level)
        said.append(f"{words} birds" if words == _small(level) and factor in _ADJECTIVES else f"birds {words}")
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def predicate(factor: str, level: str) -> str:
    """What the birds of one bin are.

    >>> predicate("brightness_local", "Dark"), predicate("clutter_background", "Clean"), predicate("crowding", "2-3")
    ('dark', 'before clean backgrounds', '2–3 to a frame')
    """
    small = _small(level)
    if (factor, small) in _SPECIAL:
        return _SPECIAL[factor, small]
    if factor == "crowding":
        return f"{small.replace('-', '–')} to a frame"
    if factor in _ADJECTIVES:
        return small
    return _PREDICATES.get(factor, f"of {{}} {factor_of(factor).title}").format(small)


def _small(level: str) -> str:
    return level.lower().replace(" + ", " or ")
