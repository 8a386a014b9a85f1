"""The form of a manifest: a Frictionless data package (v1) read and validated; no file that it promises is opened."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from birdlab.errors import DataError, ManifestError, Problem
from birdlab.jsonfile import read_json

DESCRIPTOR, FILES = "datapackage.json", "files.csv"
#: Problems of one kind that are listed one by one; the others are counted.
LISTED = 20
_DIGITS = {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}
_URL = re.compile(r"^(?:https?|ftp)://", re.IGNORECASE)


@dataclass(frozen=True)
class Manifest:
    """A manifest as read.

    ``files`` has one row per promised file: ``path`` (posix), ``bytes`` and ``hash`` (null where nothing is promised),
    ``record`` (its place in the manifest). ``remote`` counts resources that are addresses on the web.
    """

    path: Path
    package: dict[str, Any]
    files: pl.DataFrame
    remote: int = 0

    @property
    def name(self) -> str:
        """Name of the data package."""
        return str(self.package.get("name", ""))


@dataclass
class Findings:
    """What one pass over a descriptor collects."""

    where: str
    rows: list[tuple[str, int | None, str | None, str]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    remote: int = 0

    def wrong(
        self,
        code: str,
        found: str,
        expected: str,
        remedy: str = "",
        *,
        record: str | None = None,
        key: str | None = None,
    ) -> None:
        self.problems.append(Problem(code, found, expected, remedy, file=self.where, record=record, key=key))


def read_manifest(path: Path) -> Manifest:
    """Read a manifest and check its form; no file that it promises is opened.

    Raises:
        ManifestError: the descriptor or its ``files`` table is missing, unreadable or not valid; all problems in one.
    """
    path = Path(path)
    if path.is_dir():
        path = path / DESCRIPTOR
    found = Findings(str(path))
    try:
        package = read_json(path)
    except DataError as error:
        raise ManifestError(error.problems) from error
    if isinstance(package, dict):
        validate(package, found)
        for entry in package.get("resources", []) if not found.problems else []:
            if entry.get("name") == "files" and isinstance(entry.get("path"), str):
                _read_files(path.parent / entry["path"], found)
    else:
        found.wrong("not_a_manifest", type(package).__name__, "an object with resources (a Frictionless data package)")
    if found.problems:
        raise ManifestError(capped(found.problems))
    schema = {"path": pl.String, "bytes": pl.Int64, "hash": pl.String, "record": pl.String}
    return Manifest(path, package, pl.DataFrame(found.rows, schema=schema, orient="row"), found.remote)


def validate(package: dict[str, Any], found: Findings) -> None:
    resources = package.get("resources")
    if not isinstance(resources, list) or not resources:
        found.wrong(
            "no_resources",
            "no list of resources" if resources is None else repr(resources)[:60],
            "at least one resource",
            key="resources",
        )
        return
    for key, needs in (("licenses", ("name", "path")), ("sources", ("title", "path"))):
        value = package.get(key, [])
        fits = isinstance(value, list) and all(isinstance(v, dict) and any(n in v for n in needs) for v in value)
        if not fits:
            found.wrong("bad_value", repr(value)[:80], f"a list of objects with {' or '.join(needs)}", key=key)
    names: set[str] = set()
    for index, entry in enumerate(resources):
        record = f"resources[{index}]"
        if not isinstance(entry, dict):
            found.wrong("bad_value", repr(entry)[:60], "an object with name and path", record=record)
            continue
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            found.wrong("bad_value", repr(name), "a name", record=record, key="name")
        elif name in names:
            found.wrong("duplicate_name", repr(name), "a name used once", record=record, key="name")
        names.add(str(name))
        _validate_resource(entry, record, found)


def _validate_resource(entry: dict[str, Any], record: str, found: Findings) -> None:
    if ("path" in entry) == ("data" in entry):
        found.wrong(
            "bad_value", "both" if "path" in entry else "neither", "either path or data", record=record, key="path"
        )
        return
    fields = entry["schema"].get("fields") if isinstance(entry.get("schema"), dict) else []
    if not isinstance(fields, list) or not all(isinstance(f, dict) and isinstance(f.get("name"), str) for f in fields):
        found.wrong("bad_value", repr(fields)[:60], "a list of fields, each with a name", record=record, key="schema")
    size, digest = entry.get("bytes"), entry.get("hash")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        found.wrong("bad_value", repr(size)[:60], "a number of bytes", record=record, key="bytes")
        size = None
    if digest is not None and not _is_hash(digest):
        found.wrong(
            "bad_value", repr(digest)[:80], "a hash like sha256:… with all its digits", record=record, key="hash"
        )
        digest = None
    paths = entry.get("path", [])
    paths = paths if isinstance(paths, list) else [paths]
    for path in paths:
        if isinstance(path, str) and _URL.match(path):
            found.remote += 1
        elif (wrong := bad_path(path)) is not None:
            found.wrong("bad_path", wrong, "a relative path with forward slashes and no ..", record=record, key="path")
        else:
            # A hash of several files in one resource is of their concatenation, which nobody can check file by file.
            alone = len(paths) == 1
            found.rows.append((path, size if alone else None, digest if alone else None, record))


def _read_files(path: Path, found: Findings) -> None:
    where = str(path)
    if not path.exists():
        found.wrong(
            "missing_file",
            f"no {path.name} beside the manifest",
            "the table of the photographs",
            "restore it, or write both anew: birdlab init --force",
        )
        return
    try:
        table = pl.read_csv(path, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        found.problems.append(Problem("unreadable", str(error).splitlines()[0], "a CSV file", file=where))
        return
    for name in ("path", "bytes", "hash"):
        if name not in table.columns:
            found.problems.append(
                Problem("missing_column", "no such column", "path, bytes and hash", file=where, key=name)
            )
    if found.problems:
        return
    for number, (name, size, digest) in enumerate(table.select("path", "bytes", "hash").iter_rows(), start=1):
        record = f"row {number}"
        wrong = bad_path(name)
        if wrong is not None:
            found.problems.append(
                Problem(
                    "bad_path",
                    wrong,
                    "a relative path with forward slashes and no ..",
                    file=where,
                    record=record,
                    key="path",
                )
            )
        elif size is None or not size.isascii() or not size.isdigit():
            found.problems.append(
                Problem("bad_value", repr(size), "a number of bytes", file=where, record=record, key="bytes")
            )
        elif not _is_hash(digest):
            found.problems.append(
                Problem("bad_value", repr(digest)[:80], "a hash like sha256:…", file=where, record=record, key="hash")
            )
        else:
            found.rows.append((name, int(size), digest, f"{path.name} {record}"))
    twice = table.filter(pl.col("path").is_duplicated())["path"].unique().sort().to_list()
    if twice:
        found.problems.append(
            Problem(
                "duplicate_path",
                f"{len(twice)} paths twice ({_few(twice)})",
                "one row per file",
                file=where,
                key="path",
            )
        )


def bad_path(path: Any) -> str | None:
    """What is wrong with a path of a manifest, or ``None``.

    >>> bad_path("frames/a.jpg") is None, bad_path("../a.jpg"), bad_path("C:\\\\a.jpg")
    (True, "'../a.jpg', which leaves the folder", "'C:\\\\\\\\a.jpg', an absolute path")
    """
    if not isinstance(path, str) or not path:
        return "no path" if not path else repr(path)[:60]
    shown = repr(path[:200])
    if path.startswith(("/", "~")) or re.match(r"^[A-Za-z]:[\\/]", path) or path.startswith("\\\\"):
        return f"{shown}, an absolute path"
    if ".." in path.replace("\\", "/").split("/"):
        return f"{shown}, which leaves the folder"
    return None


def _is_hash(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    algorithm, _, digits = value.rpartition(":")
    # Frictionless v1: a hash without a prefix is MD5.
    return bool(re.fullmatch(r"[0-9a-fA-F]+", digits)) and len(digits) == _DIGITS.get(algorithm.lower() or "md5", -1)


def slug(text: str) -> str:
    """A name that Frictionless allows: lower case letters, digits, dot, underscore, hyphen.

    >>> slug("Nest 7 / Früh")
    'nest-7-fruh'
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9_]+", "-", plain.lower()).strip("-") or "data"


def capped(problems: Sequence[Problem], limit: int = LISTED) -> list[Problem]:
    """At most ``limit`` problems of each code, and one more that counts the rest of that code."""
    kept: list[Problem] = []
    seen: dict[str, int] = {}
    for problem in problems:
        seen[problem.code] = seen.get(problem.code, 0) + 1
        if seen[problem.code] <= limit:
            kept.append(problem)
    more = [(code, n - limit) for code, n in seen.items() if n > limit]
    return kept + [
        Problem(code, f"{n:,} more of the same kind", "none", "the first ones are listed above") for code, n in more
    ]


def _few(names: Sequence[str], n: int = 3) -> str:
    return ", ".join(repr(name) for name in names[:n]) + (" …" if len(names) > n else "")
