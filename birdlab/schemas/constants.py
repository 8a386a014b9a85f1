"""Words that several tables share."""

from __future__ import annotations

SPLITS = ("train", "val", "test", "diagnostic", "application")
LABEL_STATES = ("labelled", "empty", "unlabelled")
OUTCOMES = ("tp", "fp", "fn", "ignored")
RANKS = ("class", "order", "family", "genus", "species")
#: Why a bird cannot be identified: the three of RealBirdID, and ``other`` for what a model may say beside them.
REASONS = ("vocalization", "angle", "quality", "other")
DECISIONS = ("species", "genus", "higher", "multiple", "abstain", "unparsed")
