"""What goes wrong for a user, said once: file, place, what was found, what was expected, what to do.

Every mistake a user can make ends in a :class:`BirdlabError`. The command line prints it (or, with
``--json``, its :meth:`~BirdlabError.as_json`) and leaves with :attr:`~BirdlabError.exit_code`; it never
shows a traceback for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

#: Exit codes of every command: fine, a notebook failed, usage or recipe, data missing or not as promised.
EXIT_OK, EXIT_NOTEBOOK, EXIT_USAGE, EXIT_DATA = 0, 1, 2, 3
#: Characters of names that would colour, clear or turn around a terminal, or begin a line of their own, as escapes.
_UNSEEN = {
    c: ascii(chr(c))[1:-1] for c in (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with one place of one file.

    ``code`` is stable and meant for scripts (``unknown_image_id``); ``line`` counts from 1; ``record`` names a
    row, an index or an id where a file has no lines (``annotations[3]``); ``key`` is the field concerned.
    """

    code: str
    found: str
    expected: str
    remedy: str = ""
    file: str | None = None
    line: int | None = None
    record: str | None = None
    key: str | None = None

    def __str__(self) -> str:
        where = self.file or ""
        if self.line is not None:
            where += f", line {self.line}" if where else f"line {self.line}"
        if self.record is not None:
            where += f", {self.record}" if where else self.record
        if self.key is not None:
            where += f", {self.key}" if where else self.key
        text = f"{where}: " if where else ""
        text += f"found {self.found}; expected {self.expected}"
        if self.remedy:
            text += f". {self.remedy[0].upper()}{self.remedy[1:]}"
        text = text.translate(_UNSEEN)
        return text if text.endswith((".", "?", "!")) else text + "."

    def as_json(self) -> dict[str, object]:
        """The problem as plain JSON types; keys whose value is unknown are left out."""
        return {key: value for key, value in asdict(self).items() if value not in (None, "")}


class BirdlabError(Exception):
    """A mistake that the user can mend. Give it a sentence, or the problems that were found (all of them)."""

    exit_code = EXIT_USAGE

    def __init__(self, message: str | Problem | Sequence[Problem]) -> None:
        if isinstance(message, Problem):
            message = [message]
        self.problems: list[Problem] = [] if isinstance(message, str) else list(message)
        super().__init__(message if isinstance(message, str) else "\n".join(str(p) for p in self.problems))

    def as_json(self) -> dict[str, object]:
        """``{"errors": [...]}`` as printed by ``--json``."""
        errors = [p.as_json() for p in self.problems] or [{"code": type(self).__name__, "found": str(self)}]
        return {"errors": errors}


class ParameterError(BirdlabError):
    """A parameter, option or recipe key is unknown or has a value that cannot be used (exit 2)."""


class RecipeError(ParameterError):
    """A value of a recipe does not fit the data, which shows only where these are read (exit 2)."""


class NotebookError(BirdlabError):
    """A notebook is not fit to run, or did not run to its end (exit 1)."""

    exit_code = EXIT_NOTEBOOK


class DataError(BirdlabError):
    """A file is missing, unreadable or does not hold what its kind must hold (exit 3)."""

    exit_code = EXIT_DATA


class ManifestError(DataError):
    """Files differ from what their manifest promises (exit 3)."""
