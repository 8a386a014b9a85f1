"""What every reader needs to find and name files: globs, natural order, session and site from a path, notices.

A *notice* is something a reader skipped, merged, mapped or assumed. Notices never stop a study; they are counted and
shown in the data audit.
"""

from __future__ import annotations

import difflib
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import polars as pl

from birdlab.errors import DataError, Problem

NOTICE_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "code": pl.String,
    "message": pl.String,
    "n": pl.Int64,
    "file": pl.String,
}


@dataclass(frozen=True)
class Notice:
    """Something skipped, merged, mapped or assumed: a stable code, one sentence, how often, and in which file."""

    code: str
    message: str
    n: int
    file: str | None = None


def notice_table(notices: Iterable[Notice]) -> pl.DataFrame:
    """Notices as a table with columns code, message, n, file.

    >>> notice_table([Notice("hidden_files", "2 files whose name starts with a dot", 2)]).row(0)
    ('hidden_files', '2 files whose name starts with a dot', 2, None)
    """
    rows = [(n.code, n.message, n.n, n.file) for n in notices]
    return pl.DataFrame(rows, schema=NOTICE_SCHEMA, orient="row")


def natural_key(path: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which numbers inside names count as numbers.

    >>> sorted(["f10.jpg", "f9.jpg", "F1.jpg"], key=natural_key)
    ['F1.jpg', 'f9.jpg', 'f10.jpg']
    """
    # Folders sort before the dot of a suffix: "/" is compared as the lowest character.
    pieces = re.split(r"(\d+)", path.casefold().replace("/", "\0"))
    key = tuple((0, int(p), p) if p.isdecimal() else (1, 0, p) for p in pieces if p)
    return (*key, (2, 0, path))


def compile_glob(pattern: str) -> re.Pattern[str]:
    """A glob with ``*``, ``?``, ``[…]``, ``{a,b}`` and ``**`` as a regular expression over posix paths.

    The suffix (what follows the last dot) matches in any case, so ``*.jpg`` finds ``IMG_1.JPG``.

    >>> bool(compile_glob("frames/**/*.jpg").fullmatch("frames/a/b/IMG_1.JPG"))
    True
    """
    parts = [p for p in unicodedata.normalize("NFC", pattern).split("/") if p not in ("", ".")]
    text = ""
    for part in parts[:-1]:
        text += "(?:[^/]+/)*" if part == "**" else _translate(part) + "/"
    last = parts[-1] if parts else "*"
    if last == "**":
        return re.compile(text + ".*")
    stem, dot, suffix = last.rpartition(".")
    return re.compile(text + (f"{_translate(stem)}\\.(?i:{_translate(suffix)})" if dot else _translate(last)))


def _translate(part: str) -> str:
    text, i = "", 0
    while i < len(part):
        char = part[i]
        close = part.find({"[": "]", "{": "}"}.get(char, "\0"), i + 2)
        if char == "*":
            text += "[^/]*"
        elif char == "?":
            text += "[^/]"
        elif char == "[" and close > 0:
            inner = part[i + 1 : close].replace("\\", r"\\")
            text += "[" + ("^" + inner[1:] if inner.startswith("!") else inner) + "]"
            i = close
        elif char == "{" and close > 0:
            text += "(?:" + "|".join(_translate(option) for option in part[i + 1 : close].split(",")) + ")"
            i = close
        else:
            text += re.escape(char)
        i += 1
    return text


def find_files(root: Path, pattern: str, suffixes: frozenset[str]) -> tuple[list[str], list[Notice]]:
    """Files below ``root`` that match a glob, as posix paths relative to it, in natural order.

    Args:
        root: folder of the data.
        pattern: glob relative to ``root``; see :func:`compile_glob`.
        suffixes: suffixes (lower case, with dot) of files that can be read; others are skipped and counted.

    Returns:
        The paths and notices: hidden files (``._IMG.JPG`` of macOS), files of other kinds, folders without access.

    Raises:
        DataError: ``root`` is no folder, the glob leaves it, or nothing matches (naming the two nearest files).
    """
    problem = _bad_root(root) or _bad_pattern(pattern, root)
    if problem:
        raise DataError(problem)
    regex, matched, seen, denied, unwritable = compile_glob(pattern), [], [], [], 0
    for path in walk(root, _fixed_prefix(pattern), denied):
        if not _is_text(path):
            unwritable += 1
            continue
        seen.append(path)
        if regex.fullmatch(unicodedata.normalize("NFC", path)):
            matched.append(path)
    hidden = [p for p in matched if PurePosixPath(p).name.startswith(".")]
    visible = [p for p in matched if not PurePosixPath(p).name.startswith(".")]
    found = [p for p in visible if PurePosixPath(p).suffix.lower() in suffixes]
    other = len(visible) - len(found)
    notices = []
    if hidden:
        notices.append(
            Notice("hidden_files", f"files whose name starts with a dot were skipped ({pattern})", len(hidden))
        )
    if other:
        kinds = sorted({PurePosixPath(p).suffix.lower() or "no suffix" for p in visible} - suffixes)
        notices.append(
            Notice("other_files", f"files of other kinds were skipped: {', '.join(kinds)} ({pattern})", other)
        )
    if unwritable:
        why = "files whose name is not UTF-8 were skipped: no table could hold it; rename them"
        notices.append(Notice("name_not_utf8", why, unwritable))
    if denied:
        notices.append(Notice("folders_denied", f"folders could not be opened: {', '.join(denied[:3])}", len(denied)))
    if not found:
        raise DataError(_nothing_found(root, pattern, suffixes, seen))
    return sorted(found, key=natural_key), notices


def _is_text(path: str) -> bool:
    """Whether a name from the file system can be written as UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _bad_root(root: Path) -> Problem | None:
    if root.is_dir():
        return None
    found = "a file" if root.exists() else "no such folder"
    return Problem("no_data_root", found, "the folder of the data", "set data.root in the recipe", file=str(root))


def _bad_pattern(pattern: str, root: Path) -> Problem | None:
    if not pattern.startswith(("/", "~")) and ".." not in pattern.split("/") and "\\" not in pattern:
        return None
    return Problem("bad_glob", repr(pattern), "a glob with forward slashes that stays inside data.root", file=str(root))


def _nothing_found(root: Path, pattern: str, suffixes: frozenset[str], seen: list[str]) -> Problem:
    pool = seen if seen else list(_some(walk(root, "", []), 20000))
    usable = [p for p in pool if PurePosixPath(p).suffix.lower() in suffixes] or pool
    near = nearest(pattern.replace("*", ""), usable, 2)
    expected = f"files that match {pattern!r}"
    found = f"none; nearest are {', '.join(near)}" if near else "none; the folder is empty"
    return Problem("no_files", found, expected, "change the glob in the recipe's data.media", file=str(root))


def _some(items: Iterator[str], n: int) -> Iterator[str]:
    for _, item in zip(range(n), items, strict=False):
        yield item


def _fixed_prefix(pattern: str) -> str:
    fixed = []
    for part in pattern.split("/")[:-1]:
        if re.search(r"[*?\[{]", part):
            break
        fixed.append(part)
    return "/".join(p for p in fixed if p not in ("", "."))


def walk(root: Path, prefix: str, denied: list[str]) -> Iterator[str]:
    """Every file below ``root/prefix`` as a posix path relative to ``root``; linked folders are followed once.

    Folders that cannot be opened are appended to ``denied``.
    """
    visited: set[tuple[int, int]] = set()

    def note(error: OSError) -> None:
        denied.append(Path(error.filename).name)

    for folder, below, files in os.walk(root / prefix, followlinks=True, onerror=note):
        try:
            status = Path(folder).stat()
        except OSError:
            below.clear()
            continue
        if (status.st_dev, status.st_ino) in visited:
            below.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        below[:] = sorted(name for name in below if not name.startswith("."))
        start = Path(folder).relative_to(root).as_posix()
        yield from (name if start == "." else f"{start}/{name}" for name in sorted(files))


def nearest(name: str, names: Sequence[str], n: int) -> list[str]:
    """The ``n`` names most like ``name``; the first ones where none is alike.

    >>> nearest("b.jpg", ["a/zz.png", "a/b.jpg"], 1)
    ['a/b.jpg']
    """
    pool = list(names[:5000])
    by_name: dict[str, str] = {}
    for path in pool:
        by_name.setdefault(PurePosixPath(path).name, path)
    wanted = PurePosixPath(name.replace("\\", "/")).name
    close = [by_name[found] for found in difflib.get_close_matches(wanted, list(by_name), n=n, cutoff=0.5)]
    close += [path for path in difflib.get_close_matches(name, pool, n=n, cutoff=0.3) if path not in close]
    return (close + [path for path in pool if path not in close])[:n]


def name_from(how: str, path: str) -> str | None:
    """Session, site or camera of one file, as the recipe says it.

    Args:
        how: ``folder`` (name of the parent folder), ``file`` (name without suffix), a regular expression with one
            group, or a plain name.
        path: posix path of the file relative to the data root.

    Returns:
        The name; ``None`` where the pattern does not match.

    >>> name_from(r"(nest\\d+)_", "day1/nest7_0001.jpg"), name_from("folder", "day1/a.jpg"), name_from("garden", "a.jpg")
    ('nest7', 'day1', 'garden')
    """
    if how == "folder":
        return PurePosixPath(path).parent.name or None
    if how == "file":
        return PurePosixPath(path).stem
    if "(" not in how:
        return how
    match = re.search(how, path)
    return (match.group(1) or None) if match else None


def names_from(
    key: str, how: str | None, paths: Sequence[str], *, required: bool
) -> tuple[list[str | None], list[Notice]]:
    """:func:`name_from` for many files; ``None`` for all where the recipe says nothing.

    Raises:
        DataError: the pattern matches no file, or (``required``) not every file; it names two of those.
    """
    if how is None:
        return [None] * len(paths), []
    names = [name_from(how, path) for path in paths]
    missing = [path for path, name in zip(paths, names, strict=True) if name is None]
    if missing and (required or len(missing) == len(paths)):
        shown = ", ".join(missing[:2])
        raise DataError(
            Problem(
                "pattern_without_match",
                f"no match in {len(missing)} of {len(paths)} files, e.g. {shown}",
                f"{how!r} to match {'every file' if required else 'at least one file'}",
                "change the pattern in the recipe's data.media",
                key=key,
            )
        )
    notices = []
    if missing:
        notices.append(
            Notice("pattern_without_match", f"files without a {key}: the pattern does not match them", len(missing))
        )
    return names, notices


def shown_path(path: Path, *bases: Path) -> str:
    """``path`` relative to the first of ``bases`` that holds it, else its name: no absolute path enters a table."""
    for base in bases:
        if path.is_relative_to(base):
            return path.relative_to(base).as_posix()
    return path.name


def at_most(problems: Sequence[Problem], n: int = 20) -> list[Problem]:
    """The first ``n`` problems, and one that counts the others."""
    more = len(problems) - n
    if more <= 0:
        return list(problems)
    return [*problems[:n], Problem("more", f"{more} more problems", "files without them", file=problems[n].file)]


def text_lines(text: str) -> list[str]:
    """Lines of a list of names, without the blanks around them; empty ones at the end do not count.

    >>> text_lines("Pica pica\\r\\nParus\\u2028major\\n")
    ['Pica pica', 'Parus\\u2028major']
    """
    # Not splitlines: a name may hold characters that it takes for the end of a line.
    lines = [line.strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines
