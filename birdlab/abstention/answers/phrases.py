"""Phrases that decide what a named bird is to an answer: refused, compared with, guessed, or stated.

All patterns run on :func:`~birdlab.abstention.answers.fold.joined` text (lower case, no accents or apostrophes, one blank
between words) and have bounded repeats only, so their time is linear.
"""

from __future__ import annotations

import re

_ART = r"(?: (?:a|an|the|any|either|ein|eine|einen|un|une|el|la|een|en|ett|another|certain|typical|true))"
_FEW = r"(?: [\w/]+){0,5}"

#: The bird named next is said not to be it.
NEGATED = re.compile(
    r"(?:^|[ ;.,])(?:not|isnt|wasnt|arent|dont|doesnt|didnt|wouldnt|wont|never|neither|nor|no|without|cannot be|cant be|cannot|ruled? out|ruling out|"
    r"exclud\w+|eliminat\w+|rather than|instead of|kein\w*|nicht|pas|geen|niet|inte|ingen|nao|non|ni|no es)"
    + _FEW
    + "$"
)
_DOUBT = r"(?:sure|certain|clear|confident|sicher|sur|seguro|zeker|saker|clearly|possible|able)"
#: "no doubt", "not only": no negation of what follows.
NO_NEGATION = re.compile(
    r"\b(?:no|without|not|little) (?:a )?(?:doubt|question|only|just|merely|other than|less than)\b"
)
#: "not sure whether it is X or Y", "cannot rule out X": X stays possible.
POSSIBLE = re.compile(
    rf"\b(?:not|isnt|im not|never|nicht|pas|no|niet|inte)(?: \w+){{0,2}} {_DOUBT}\b|"
    r"\b(?:cannot|cant|can not|could not|couldnt|not|hard to|difficult to|impossible to|unable to)(?: \w+){0,3} "
    r"(?:rule[ds]? out|exclud\w+|eliminat\w+|tell|distinguish\w*|determin\w*|say|know|separate\w*|decide|confirm|differentiate)\b|"
    r"\b(?:whether|between|which of)\b|\b(?:separat|distinguish|differentiat|discriminat|tell)\w*(?: \w+){0,2}$"
)
WEAK = re.compile(
    r"\b(?:could|might|may|can be|possibly|possible|perhaps|maybe|alternativ\w+|also|less likely|or else|second choice|"
    r"runner up|vielleicht|moglicherweise|konnte|peut etre|pourrait|quizas?|tal vez|podria|misschien|mogelijk|kanske)\b"
)
FINAL = re.compile(
    r"\b(?:finally|therefore|thus|hence|conclu\w+|best guess|best bet|most likely|likeliest|most probabl[ey]|most consistent with|"
    r"best (?:match|fit|candidate|answer)\w*|go with|my (?:final )?(?:answer|identification|id|guess|pick|bet|vote)|educated guess|"
    r"leaning towards?|lean towards?|id say|i would say|had to guess|must guess|forced to choose|if pressed|"
    r"am hochsten wahrscheinlich\w*|hochstwahrscheinlich|am ehesten|le plus probable\w*|lo mas probable\w*|"
    r"waarschijnlijkst\w*|troligast|meine vermutung)\b"
)
STATED = re.compile(
    r"(?:\b(?:is|its|thats|are|shows?|depicts?|be|fits|fit|match(?:es)?|points? to|indicates?|suggests?|favou?rs?|ist|cest|est|"
    r"es|zeigt|dit is|det ar|as|confirms?|support(?:s|ing)?|see|identified|called))"
    r"(?: (?:clearly|definitely|certainly|likely|probably|most|very|indeed|almost|surely|a|an|the|of|to|adult|male|female|"
    r"juvenile|immature|young|breeding|nonbreeding|wild|single|an?|with|ein|eine|un|une|el|la|een|en)){0,4}$"
)
#: The bird named next is what the pictured one is measured against.
COMPARED = re.compile(
    r"\b(?:similar to|close to|like|unlike|than|compar\w+ (?:to|with)|reminiscent of|confus\w+ with|mistak\w+ for|"
    r"mistook for|related to|relatives? of|similar species(?: include| are)?|lookalikes?|look alikes?|opposed to|contrast to|"
    r"contrast with|(?:resembl|recall|mimic|suggestive of)\w*|next to|beside|chas\w+|mobb\w+ by|fed by|eating|nest of|"
    r"(?:distinguish|differ|separat|differentiat|told|tell|apart)\w*" + _FEW + r" from|"
    r"ahnlich|wie|comme|como|zoals|som|true of|typical of (?:other|all))" + _ART + r"{0,2}$"
)
#: "looks like an X" states it.
LOOKS_LIKE = re.compile(
    r"\b(?:look|looks|looking|seem|seems|appear|appears|sieht aus|feels?)(?: \w+){0,2} (?:like|wie|as)\b[^.;]*$"
)
#: What follows a name takes it back.
REFUSED_AFTER = re.compile(
    r"^ ?(?:(?:,|;) )?(?:(?:is|are|was|can be|could be|can|has been|have been|would be|seems|seem|looks) )?"
    r"(?:(?:also|therefore|thus|both|definitely|clearly|all) )?"
    r"(?:not\b|unlikely|excluded|ruled out|eliminated|impossible|isnt\b|doesnt\b|does not\b|wouldnt\b|would not\b|cannot be\b|lacks?\b)"
)
COMPARED_AFTER = re.compile(r"^ ?(?:would|should|usually|typically|tends?|normally)\b")
WEAK_AFTER = re.compile(
    r"^ ?(?:is|are|remains?|cannot|cant|could)(?: \w+){0,3} (?:possible|less likely|be ruled out|ruled out|be excluded)\b"
)

HEDGE = re.compile(
    r"\b(?:might|may be|maybe|possibly|perhaps|probabl[ey]|likely|could|appears?|seems?|best guess|guess\w*|uncertain\w*|unsure|"
    r"not (?:\w+ ){0,2}(?:sure|certain|confident)|(?:cannot|cant) (?:\w+ ){0,2}(?:sure|certain|confirm)|i think|i believe|"
    r"tentativ\w*|presumably|looks like|suggests?|vermutlich|wahrscheinlich|vielleicht|moglicherweise|probablement|peut etre|"
    r"probablemente|quizas?|tal vez|waarschijnlijk|misschien|troligen|kanske|forse|probabilmente|talvez)\b"
)
#: Doubt that is no refusal: a bird that "may be" is still the answer.
UNCERTAIN = re.compile(
    r"\b(?:not|cannot|cant|isnt|hard to|difficult to|nicht|pas|no)(?: \w+){0,3} (?:sure|certain|confident|say|sicher|sur|seguro)\b|"
    r"\b(?:unsure|uncertain)\b"
)
DECLINED = re.compile(
    r"\b(?:cannot|cant|can not|could not|couldnt|unable to|not able to|impossible to|not possible to|not be possible to|difficult to|"
    r"hard to|wont|will not|would not|do not|dont|refuse to|decline to|cannot be|isnt possible to|never be)(?: \w+){0,4} "
    r"(?:identif\w*|determin\w*|tell|distinguish\w*|say|name|id|assign\w*|classif\w*|recogni[sz]\w*|resolve\w*|discern\w*|"
    r"specify|know|confirm\w*|separat\w*|assess\w*|narrow\w*|answer|sure|certain|provide|give|make|pin|decide)\b|"
    r"\bonly (?:\w+ ){0,5}(?:song|songs|call|calls|voice|recording|dna|sound)(?: \w+){0,4} "
    r"(?:separate|distinguish|tell|identify|resolve|determine|confirm)\b|"
    r"\bonly be (?:\w+ ){0,2}(?:told|identified|separated|distinguished)|"
    r"\bno (?:\w+ ){0,2}(?:id|identification|species id|determination|answer)\b|"
    r"\b(?:id|identification|determination|it|this|that) (?:\w+ ){0,3}(?:not|isnt|im|never) ?possible\b|\bis impossible\b|"
    r"\b(?:unidentifiable|indeterminate|indeterminable|undeterminable|unidentified|inconclusive|undetermined|unclear|unknown|"
    r"unsure|unanswerable|idk|ambiguous)\b|\bnot (?:\w+ )?(?:identifiable|sure|certain|confident|answerable|visible enough|diagnosable)\b|"
    r"\bno idea\b|\bno (?:\w+ )?(?:species|taxon) (?:\w+ ){0,2}(?:determined|identified|given|named|possible)\b|"
    r"\b(?:identification|id|identity|species)(?: \w+){0,4} (?:uncertain|unclear|unresolved|open)\b|"
    r"\b(?:song|call|calls|voice|recording|sound)(?: \w+){0,5} (?:needed|required|necessary|essential)\b|\b(?:insufficient|not enough|inadequate|lack of|too little|too few)\b(?: \w+){0,3} "
    r"(?:detail|information|features?|evidence|data|quality|view|resolution|marks)\w*|"
    r"\babstain\w*|\brefrain\w*|\bprefer not to\b|\brather not\b|\bcant be done\b|\b(?:needs?|requires?) (?:\w+ ){0,3}"
    r"(?:song|call|calls|voice|recording|audio|hear|sound|sonogram|photo|image|picture|angle|view|in hand)\b|"
    r"\bnicht (?:\w+ ){0,3}(?:bestimm\w*|erkenn\w*|moglich|identifizier\w*|sagen|sicher)|\bkeine (?:ahnung|bestimmung)|"
    r"\bweiss (?:\w+ ){0,2}nicht|\bunbekannt\w*|\bunbestimm\w*|\bimpossible (?:a|de|d)\b|\bpas (?:\w+ ){0,2}(?:possible|sur)\b|\bsais pas\b|"
    r"\bne (?:peux|peut) pas\b|\binconnue?\b|\bindetermine\w*|\bnon identifi\w*|\bno (?:lo )?(?:puedo|puede|se|es posible|sabe)\b|"
    r"\bdesconocid\w*|\bimposible\b|\bniet (?:\w+ ){0,2}(?:bepalen|herkennen|mogelijk|zeker)|\bonbekend\w*|\bweet (?:\w+ ){0,2}niet|"
    r"\bkan (?:\w+ ){0,2}(?:niet|inte)\b|\bokand\w*|\bgar inte\b|\bvet (?:jag )?inte|\bomojligt\b|\bsconosciut\w*|\bnon (?:posso|so)\b|"
    r"\bnao (?:posso|sei|e possivel)|\bimpossivel\b|\bimpossibile\b"
)
NO_BIRD = re.compile(
    r"\bno (?:\w+ ){0,2}birds?(?= |$)(?! of prey)|\b(?:not|isnt) (?:a|any) bird(?! of prey)\b|\b(?:does not|doesnt|do not|dont|cannot|cant) (?:\w+ ){0,2}(?:contain|show|have|see|depict|find) "
    r"(?:a |any )?bird|\bkein\w* vogel|\b(?:pas d|pas de|aucun) ?oiseau|\bdoiseau\b|\bning\w+ (?:ave|pajaro)|\bgeen vogel|\bingen fagel|\bnessun uccello"
)
#: Whole answers that say nothing but "I do not know".
NOTHING = frozenset(
    (
        "unknown|unknown bird|unknown species|n a|na|none|null|nil|unsure|idk|unidentified|unidentified bird|undetermined|not sure|"
        "dont know|i dont know|i do not know|no idea|cannot say|abstain|i abstain|pass|skip|no answer|uncertain|indeterminate|"
        "not identifiable|unidentifiable|unbekannt|weiss nicht|keine ahnung|inconnu|inconnue|je ne sais pas|desconocido|desconocida|"
        "no se|no lo se|onbekend|weet niet|weet ik niet|okand|vet inte|vet ej|sconosciuto|desconhecido|bird sp|bird species|aves sp|"
        "none of the above|not applicable|cannot identify|insufficient information|species unknown|other|ukjent|ukendt|tuntematon"
    ).split("|")
)
