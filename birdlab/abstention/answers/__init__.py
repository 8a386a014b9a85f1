"""Answers in words: what a model that speaks says about a bird, as a decision over one pinned list of names."""

from birdlab.abstention.answers.lexicon import Entry, Lexicon, read_vernaculars
from birdlab.abstention.answers.parse import parse_answer, parse_answers
from birdlab.abstention.answers.policy import ANSWER_SCHEMA, DECISIONS, REASONS, Answer, Policy

__all__ = [
    "ANSWER_SCHEMA",
    "DECISIONS",
    "REASONS",
    "Answer",
    "Entry",
    "Lexicon",
    "Policy",
    "parse_answer",
    "parse_answers",
    "read_vernaculars",
]
