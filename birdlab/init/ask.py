"""The questions of ``birdlab init``: what cannot be seen in a folder, in a field worker's words, each with its flag."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from birdlab.errors import ParameterError, Problem
from birdlab.init.look import LabelSource, Survey, folders_of

#: What precedes the running number in names like ``nest7_2024_f0012.jpg``.
SERIES = r"([^/]*?)[_ -]?(?:f|frame|img)?[_ -]?\d+\.[^./]+$"
_YES, _NO = {"", "y", "yes"}, {"n", "no"}


@dataclass(frozen=True)
class Question:
    """One thing to ask.

    ``default`` is the value taken for yes or an empty answer, ``default_words`` what it means; ``parse`` turns an
    answer into a value and raises ``ValueError`` with a sentence where it cannot.
    """

    key: str
    text: str
    default: str | None
    default_words: str
    parse: Callable[[str], str | None]
    hint: str = ""

    @property
    def flag(self) -> str:
        """The option that answers it."""
        return "--" + self.key.replace("_", "-")

    @property
    def prompt(self) -> str:
        """As put on the terminal."""
        hint = f"  {self.hint}\n" if self.hint else ""
        return f"\n{self.text}\n{hint}[{self.default_words}] > "


def questions(survey: Survey, given: dict[str, str | None], name: str) -> list[Question]:
    """What has to be asked: nothing that the files say and nothing that a flag has answered."""
    asked = [make(survey, name) for make in (_session, _site, _no_label, _truth, _licence, _source)]
    return [question for question in asked if question is not None and given.get(question.key) is None]


def from_flags(survey: Survey, given: dict[str, str | None], name: str) -> dict[str, str | None]:
    """Values of the flags that were given.

    Raises:
        ParameterError: a flag has a value that cannot be used.
    """
    parsers = {
        "session": lambda text: parse_session(text, name),
        "site": parse_site,
        "truth": lambda text: _which(text, survey.labels),
    }
    values: dict[str, str | None] = {}
    problems = []
    for key, text in given.items():
        if text is None:
            continue
        try:
            values[key] = parsers.get(key, str)(text)
        except ValueError as error:
            problems.append(Problem("bad_value", repr(text), str(error), key=f"--{key.replace('_', '-')}"))
    if problems:
        raise ParameterError(problems)
    return values


def ask_all(asked: Sequence[Question]) -> dict[str, str | None]:
    """Put every question on the terminal, again until it is answered.

    Raises:
        ParameterError: nobody is at the terminal (all flags are named), or the input ends.
    """
    if asked and not (sys.stdin and sys.stdin.isatty()):
        found = "no answer, and no terminal to ask on"
        raise ParameterError(
            [
                Problem(
                    "unanswered",
                    found,
                    f"an answer ({q.text})",
                    f"give {q.flag}, or --yes for: {q.default_words}",
                    key=q.flag,
                )
                for q in asked
            ]
        )
    return {question.key: _ask(question) for question in asked}


def _ask(question: Question) -> str | None:
    sys.stdout.write(question.prompt)
    while True:
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            raise ParameterError("the input ended before the questions did; nothing was written")
        answer = line.strip()
        if answer.casefold() in _YES:
            return question.default
        try:
            return question.parse(answer)
        except ValueError as error:
            sys.stdout.write(f"  {error}\n> ")


def parse_session(text: str, name: str) -> str:
    """A way to name sessions: folder, file, one, or a pattern with one (group).

    >>> parse_session("one", "nest7"), parse_session(r"(nest\\d+)_", "x")
    ('nest7', '(nest\\\\d+)_')
    """
    text = text.strip()
    if text.casefold() in _NO or not text:
        raise ValueError(
            "folder, file (every file by itself), one (all of it), or a pattern with one (group) around the session's name"
        )
    if text.casefold() in ("folder", "file"):
        return text.casefold()
    if text.casefold() == "one":
        return name
    return _pattern(text)


def parse_site(text: str) -> str | None:
    """A place: a name, ``folder``, a pattern with one (group); ``None`` for an empty text or "-"."""
    text = text.strip()
    if text.casefold() in _NO:
        raise ValueError("a name, folder, a pattern with one (group), or - where it is not known")
    return None if text in ("", "-") else _pattern(text)


def _pattern(text: str) -> str:
    if "(" not in text:
        return text
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from error
    if groups != 1:
        raise ValueError(f"a pattern with one group in brackets, not {groups}")
    return text


def _session(survey: Survey, name: str) -> Question | None:
    labelled = frozenset().union(*(s.pictures for s in survey.labels if s.has_session))
    if survey.photos and not set(survey.photos) <= labelled:
        return _session_of_photos(survey, name)
    if len(survey.videos) > 1 and not survey.photos:
        text = "Is each video one recording session (one visit to one place)?"
        words = "yes; chapters of one recording, told by their numbers, are joined"
        return Question("session", text, None, words, lambda t: parse_session(t, name), _HOW)
    return None


_HOW = "Otherwise say: folder, file (every file by itself), one (all of it), or a pattern with one (group)."


def _session_of_photos(survey: Survey, name: str) -> Question | None:
    if len(survey.photos) < 2:
        return None

    def parse(text: str) -> str:
        return parse_session(text, name)

    folders = folders_of(survey.photos)
    if len(folders) > 1:
        text = f"Is each of the {len(folders)} folders one visit to one place (one recording session)?"
        return Question("session", text, None, "yes, each folder", parse, _HOW)
    series = series_of(survey.photos)
    if series:
        text = f"The names look like {len(series)} series ({', '.join(list(series)[:3])} …). Is each series one recording session?"
        return Question("session", text, SERIES, "yes, each series", parse, _HOW)
    text = "All pictures lie in one folder. Are they from one visit to one place (one recording session)?"
    return Question("session", text, None, "yes, all of them", parse, _HOW)


def series_of(photos: Sequence[str]) -> dict[str, int]:
    """Pictures per series, where names are a series and a running number; empty where they are not.

    >>> series_of(["a_f1.jpg", "a_f2.jpg", "b_f1.jpg", "b_f2.jpg"])
    {'a': 2, 'b': 2}
    >>> series_of(["IMG_1.jpg", "IMG_2.jpg"])
    {}
    """
    matches = [re.search(SERIES, PurePosixPath(photo).name) for photo in photos]
    names = Counter(match.group(1) for match in matches if match)
    if len(names) < 2 or "" in names or names.total() < len(photos) or len(names) * 2 > len(photos):
        return {}
    return dict(names)


def _site(survey: Survey, name: str) -> Question | None:
    labelled = frozenset().union(*(s.pictures for s in survey.labels if s.has_site))
    if survey.photos and set(survey.photos) <= labelled:
        return None
    text = "Where was it: which nest, feeder or place?"
    hint = "A name for all of it; folder, if each folder is a place; or a pattern with one (group). It keeps places apart when intervals are computed."
    return Question("site", text, None, "not stated", parse_site, hint)


def _no_label(survey: Survey, name: str) -> Question | None:
    if not survey.labels or not survey.unlisted:
        return None

    def parse(text: str) -> str:
        if text.casefold() in ("empty", "e", "unlabelled", "u", "unlabeled"):
            return "empty" if text.casefold().startswith("e") else "unlabelled"
        raise ValueError("empty (somebody looked and saw no bird) or unlabelled (not looked at yet)")

    n = len(survey.unlisted)
    text = f"{n} {'picture has' if n == 1 else 'pictures have'} no label. Did somebody look and see no bird (empty), or were they not looked at yet (unlabelled)?"
    hint = "Unlabelled pictures are not scored; on an empty one every detection is a false alarm."
    return Question("no_label", text, "unlabelled", "unlabelled", parse, hint)


def _truth(survey: Survey, name: str) -> Question | None:
    sources = survey.overlapping
    if not sources:
        return None
    named = "; ".join(f"{i}) {s.path} ({s.format}, {s.n_boxes} boxes)" for i, s in enumerate(sources, 1))
    text = f"The same pictures are labelled {len(sources)} times: {named}. Which is the truth?"
    hint = "The others are compared with it, not scored."
    return Question("truth", text, sources[0].path, sources[0].path, lambda t: _which(t, sources), hint)


def _which(text: str, sources: Sequence[LabelSource]) -> str:
    if text.isdecimal() and 1 <= int(text) <= len(sources):
        return sources[int(text) - 1].path
    wanted = Path(text).as_posix()
    for fits in (
        lambda s: s.path == wanted,
        lambda s: wanted.endswith("/" + s.path),
        lambda s: s.path.endswith("/" + wanted),
    ):
        found = [source.path for source in sources if fits(source)]
        if len(found) == 1:
            return found[0]
    known = ", ".join(source.path for source in sources)
    raise ValueError(f"one of {known}" if known else "no --truth: there are no labels here")


def _licence(survey: Survey, name: str) -> Question | None:
    if len(stated_licences(survey)) == 1:
        return None
    text = "Under which licence may others use these data (CC0-1.0, CC-BY-4.0 …)?"
    return Question("licence", text, None, "not stated", lambda t: None if t == "-" else t)


def stated_licences(survey: Survey) -> list[str]:
    """Licences that the label files state."""
    return sorted({licence for source in survey.labels for licence in source.licences})


def _source(survey: Survey, name: str) -> Question | None:
    text = "Where do the data come from (who recorded them, project, DOI)?"
    return Question("source", text, None, "not stated", lambda t: None if t == "-" else t)
