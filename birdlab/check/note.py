"""Problems and notes of ``birdlab check``, each with the exit code that it calls for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from birdlab.errors import EXIT_DATA, EXIT_USAGE, BirdlabError, DataError, Problem


@dataclass(frozen=True)
class Note(Problem):
    """Something worth knowing that stops nothing: assumed, skipped, odd. ``found`` says it; ``expected`` is empty."""

    def __str__(self) -> str:
        where = ", ".join(str(part) for part in (self.file, self.record, self.key) if part)
        return f"{where}: {self.found}" if where else self.found


#: Exit code and problem.
Found = tuple[int, Problem]


def note(code: str, text: str, file: str | None = None) -> Found:
    """A note with its sentence; its exit code is never used."""
    return (EXIT_DATA, Note(code, text, "", file=file))


def caught(work: Callable[[], Iterable[Found]]) -> list[Found]:
    """What ``work`` finds; an error that it raises is found too."""
    try:
        return list(work())
    except BirdlabError as error:
        return found_in(error)


def found_in(error: BirdlabError) -> list[Found]:
    """The problems of an error."""
    code = EXIT_DATA if isinstance(error, DataError) else EXIT_USAGE
    return [(code, problem) for problem in error.problems or [Problem("error", str(error), "none")]]
