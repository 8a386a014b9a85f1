"""Words that several tables share."""

from __future__ import annotations

SPLITS = ("train", "val", "test", "diagnostic", "application")
LABEL_STATES = ("labelled", "empty", "unlabelled")
OUTCOMES = ("tp", "fp", "fn", "ignored")
RANKS = ("class", "order", "family", "genus", "species")
DECISIONS = ("species", "genus", "higher", "multiple", "abstain", "unparsed")
