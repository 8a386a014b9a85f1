"""Why an answer does not name the species: it needs the voice, another angle, a better picture, or something else."""

from __future__ import annotations

import re

_PATTERNS: dict[str, re.Pattern[str]] = {
    "vocalization": re.compile(
        r"\b(?:songs?|voices?|vocal\w*|hear|hearing|heard|audio|sounds?|sonograms?|spectrograms?|recordings?|singing|sings?|acoustic\w*|"
        r"call notes?|flight calls?|its calls?|by calls?|calls? (?:or|and|is|are|to)|(?:or|and|a|the|without|hear|heard|no|of|needs?|its) calls?|calling|"
        r"gesang\w*|stimme|rufe?|horen|gehort|chants?|voix|cris?|entendre|cantos?|vocalizacion\w*|voz|oir|llamada|reclamo|zang|geluid|"
        r"roep|horen|sang|lat|late|laten|canto|verso)\b"
    ),
    "angle": re.compile(
        r"\b(?:angle\w*|hidden|hides|obscur\w*|occlu\w*|(?:from|seen) behind|behind|back view|rear view|rear|facing away|faces away|turned away|"
        r"(?:its|the) back|branch\w*|foliage|twigs?|leaves|vegetation|partial\w*|not visible|cannot be seen|cant be seen|not shown|"
        r"cannot see|cant see|out of (?:frame|view)|cropped|cut off|from below|underside|from above|head on|poor view|posture|pose|perspective|viewpoint|blocked|covered|"
        r"verdeckt|von hinten|blickwinkel|verborgen|ast|zweig\w*|cache\w*|de dos|angle de vue|oculta?|escondid\w*|rama\w*|"
        r"de espaldas|achter|verscholen|skymd|bakifran|dold\w*)\b"
    ),
    "quality": re.compile(
        r"\b(?:blur\w*|focus|unfocused|resolution|pixelat\w*|pixels?|grain\w*|nois[ey]\w*|distant|distance|far|too small|tiny|backlit|backlight\w*|"
        r"silhouett\w*|too dark|darkness|dark image|overexpos\w*|underexpos\w*|exposure|lighting|low light|poor light|poorly lit|glare|shadow\w*|"
        r"motion|compress\w*|artifacts?|(?:image|photo|picture|poor|bad|low) quality|quality|fuzzy|unsharp|out of focus|washed out|haze|hazy|fog\w*|"
        r"unscharf\w*|verschwommen\w*|qualitat|aufgelost|auflosung|zu weit|zu klein|zu dunkel|gegenlicht|flou\w*|qualite|loin|contre jour|"
        r"borros\w*|calidad|lejos|contraluz|desenfoca\w*|wazig\w*|onscherp\w*|kwaliteit|te ver|te klein|tegenlicht|suddig\w*|oskarp\w*|"
        r"kvalitet|langt bort|motljus|sfocat\w*|desfocad\w*|qualidade)\b"
    ),
    "other": re.compile(
        r"\b(?:location|locality|habitat|geograph\w*|range|date|season|dna|genetic\w*|measurements?|in hand|in the hand|plumage|juvenile|moult\w*|molt\w*|"
        r"hybrid\w*|individual variation|age|sex|overlapping features|overlap in|feathers? only|egg|no bird|not a bird)\b"
    ),
}
_SHARP = re.compile(
    r"\b(?:not|isnt|no|without) (?:\w+ )?(?:blur\w*|nois\w*|grain\w*|hidden|obscured|occluded|distant|too small|out of focus)\b"
)
_AS_SONG = re.compile(
    r"\b(?:id|would|to|we|i|ill|you|could|might) call\b|\b(?:so )?called\b|\bsound like\b|\bsounds? (?:right|good)\b|\bas far as\b|\bso far\b|\bby far\b"
)
_BECAUSE = re.compile(
    r"\b(?:because|since|as the|as it|due to|owing to|given that|reason|weil|da|parce que|porque|omdat|eftersom)\b"
)
_TOO = re.compile(
    r"\btoo (?:\w+ )?(?:blur\w*|distant|far|small|dark|backlit|grainy|noisy|pixelated|obscured|hidden|dim|bright|unfocused|hazy|overexposed|shadowy|fuzzy)\b|"
    r"\bquality (?:\w+ ){0,2}(?:low|poor|bad|insufficient)\b|\b(?:poor|bad|low|insufficient) (?:\w+ )?quality\b|"
    r"\bonly (?:\w+ )?(?:seen|visible|shows?)\b|\b(?:completely|mostly|largely|fully|entirely|heavily) (?:hidden|obscured|occluded|blocked|blurred|covered)\b|"
    r"\b(?:zu|trop|demasiado|te|for|muy) (?:weit|klein|dunkel|unscharf|verschwommen|flou\w*|loin|petite?|sombre|borros\w*|lejos|ver|wazig|klein|suddig\w*)\b"
)


def reasons_in(text: str, *, other: bool = False) -> tuple[str, ...]:
    """Reasons that a plain text (:func:`~birdlab.abstention.answers.fold.joined`, names left out) gives.

    Args:
        text: what is said.
        other: the text is there to give a reason; one of no known kind is ``other``.

    >>> reasons_in("the head is hidden and the image is too blurry"), reasons_in("needs song")
    (('angle', 'quality'), ('vocalization',))
    """
    text = _AS_SONG.sub(" ", _SHARP.sub(" ", text))
    found = tuple(reason for reason, pattern in _PATTERNS.items() if reason != "other" and pattern.search(text))
    if found:
        return found
    named = _PATTERNS["other"].search(text) or (other and text.strip()) or _BECAUSE.search(text)
    return ("other",) if named else ()


def is_limited(text: str) -> bool:
    """Whether a plain text complains of the view: "too distant and backlit"."""
    return _TOO.search(_SHARP.sub(" ", text)) is not None
