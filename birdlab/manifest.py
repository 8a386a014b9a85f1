"""Manifests: which files a study rests on, with size and hash, as a Frictionless data package.

A manifest is a folder ``data_manifests/<name>`` with ``datapackage.json`` (Frictionless v1: licences, sources, one
resource per label file, video or model) and ``files.csv``, one table resource with a row per photograph. Paths are
relative with forward slashes. A resource that lies beside the descriptor is taken from there; every other path
starts at the root of the data.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from birdlab.datapackage import DESCRIPTOR, FILES, Findings, Manifest, capped, read_manifest, slug, validate
from birdlab.errors import DataError, ManifestError, Problem
from birdlab.shards import write_atomic

_MEDIATYPES = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".txt": "text/plain",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".mp4": "video/mp4",
    ".mov": "video/quicktime",
    ".avi": "video/x-msvideo",
    ".mkv": "video/x-matroska",
    ".xml": "application/xml",
}

#: Columns of ``files.csv``: name, polars type, Table Schema type, meaning.
_COLUMNS: tuple[tuple[str, Any, str, str], ...] = (
    ("path", pl.String, "string", "path relative to the root of the data, with forward slashes"),
    ("kind", pl.String, "string", "photograph or label"),
    ("bytes", pl.Int64, "integer", "size of the file, bytes"),
    ("hash", pl.String, "string", "hash of the file's bytes with its algorithm (sha256:…)"),
    ("width_px", pl.Int32, "integer", "width as displayed, px; empty for a label or an unreadable photograph"),
    ("height_px", pl.Int32, "integer", "height as displayed, px; empty for a label or an unreadable photograph"),
)


def hash_file(path: Path, algorithm: str = "sha256") -> str:
    """Hash of a file's bytes, hexadecimal.

    Args:
        path: the file.
        algorithm: md5, sha1, sha256 or sha512.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, algorithm).hexdigest()
    except OSError as error:
        raise DataError(
            Problem("unreadable", error.strerror or "an error", "a file that can be read", file=str(path))
        ) from error


def hash_files(paths: Sequence[Path], *, progress: Callable[[int, int], None] | None = None) -> list[str]:
    """sha256 of many files, in their order, several at a time.

    Raises:
        DataError: files cannot be read; all of them are named.
    """
    problems: list[Problem] = []
    hashes: list[str] = []
    for done, result in enumerate(_each(hash_file_or_error, paths), start=1):
        if isinstance(result, DataError):
            problems += result.problems
        else:
            hashes.append(result)
        if progress:
            progress(done, len(paths))
    if problems:
        raise DataError(capped(problems))
    return hashes


def hash_file_or_error(path: Path, algorithm: str = "sha256") -> str | DataError:
    """As :func:`hash_file`, with the error returned: one unreadable file among many stops nothing."""
    try:
        return hash_file(path, algorithm)
    except DataError as error:
        return error


def _each(work: Callable[..., Any], *columns: Iterable[Any]) -> Iterable[Any]:
    # hashlib lets go of the interpreter lock, so threads read and hash side by side.
    with ThreadPoolExecutor(min(8, (os.cpu_count() or 1) + 1)) as pool:
        yield from pool.map(work, *columns)


def resource(path: str, *, bytes: int, sha256: str, title: str = "", **more: Any) -> dict[str, Any]:
    """A Frictionless resource for one file.

    >>> resource("labels/My Birds.json", bytes=12, sha256="ab" * 32)["name"]
    'labels-my-birds-json'
    """
    entry: dict[str, Any] = {"name": slug(path), "path": path}
    if title:
        entry["title"] = title
    suffix = PurePosixPath(path).suffix.lower()
    entry["mediatype"] = _MEDIATYPES.get(suffix, "application/octet-stream")
    return {**entry, "bytes": bytes, "hash": f"sha256:{sha256}", **more}


def write_manifest(
    folder: Path,
    *,
    name: str,
    files: pl.DataFrame,
    resources: Sequence[dict[str, Any]] = (),
    title: str = "",
    licences: Sequence[dict[str, str]] = (),
    sources: Sequence[dict[str, str]] = (),
) -> Path:
    """Write ``datapackage.json`` and ``files.csv`` into ``folder``; returns the descriptor's path.

    The same content gives the same bytes: no date is written.

    Args:
        folder: folder of the manifest, made if absent.
        name: name of the data package.
        files: one row per photograph (and per small label file): path, kind, bytes, hash, width_px, height_px.
        resources: further files, from :func:`resource`.
        title: what the data are, in words.
        licences: Frictionless licences (``name`` or ``path``).
        sources: Frictionless sources (``title``, ``path``).

    Raises:
        ManifestError: what is given is no valid data package.
    """
    table = files.select(pl.col(n).cast(t) for n, t, _, _ in _COLUMNS).sort("path")
    text = table.write_csv().encode()
    package: dict[str, Any] = {"profile": "data-package", "name": slug(name)}
    if title:
        package["title"] = title
    package["description"] = (
        f"The path of every resource but {FILES} starts at the folder of the data (data.root of the recipe)."
    )
    if licences:
        package["licenses"] = list(licences)
    if sources:
        package["sources"] = list(sources)
    package["resources"] = [*([_files_resource(text)] if table.height else []), *_distinct(resources)]
    found = Findings(str(folder / DESCRIPTOR))
    validate(package, found)
    if found.problems:
        raise ManifestError(found.problems)
    if table.height:
        write_atomic(folder / FILES, lambda temporary: temporary.write_bytes(text))
    else:
        (folder / FILES).unlink(missing_ok=True)
    body = json.dumps(package, ensure_ascii=False, indent=2) + "\n"
    write_atomic(folder / DESCRIPTOR, lambda temporary: temporary.write_text(body, encoding="utf-8"))
    return folder / DESCRIPTOR


def _files_resource(text: bytes) -> dict[str, Any]:
    fields = [
        {
            "name": name,
            "type": kind,
            "description": doc,
            **({"constraints": {"required": True}} if name in ("path", "bytes", "hash") else {}),
        }
        for name, _, kind, doc in _COLUMNS
    ]
    return {
        "name": "files",
        "path": FILES,
        "profile": "tabular-data-resource",
        "format": "csv",
        "mediatype": "text/csv",
        "encoding": "utf-8",
        "bytes": len(text),
        "hash": f"sha256:{hashlib.sha256(text).hexdigest()}",
        "schema": {"fields": fields, "primaryKey": "path"},
    }


def _distinct(resources: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    # Two paths may give one name (A.json, a.json); Frictionless wants names unique.
    taken = {"files"}
    out = []
    for entry in resources:
        name, number = entry["name"], 2
        while name in taken:
            name, number = f"{entry['name']}-{number}", number + 1
        taken.add(name)
        out.append({**entry, "name": name})
    return out


def verify(
    manifest_path: Path,
    root: Path,
    *,
    hasher: Callable[[Path, str], str | DataError] = hash_file_or_error,
    progress: Callable[[int, int], None] | None = None,
) -> list[Problem]:
    """Compare the files under ``root`` with what a manifest promises.

    Sizes are compared first; only files of the right size are hashed, several at a time.

    Args:
        manifest_path: ``datapackage.json`` or its folder.
        root: folder of the data.
        hasher: gives the hexadecimal hash of a file by (path, algorithm); pass your own to use hashes known already.
        progress: called with (files hashed, files to hash).

    Returns:
        Every difference, at most :data:`LISTED` of a kind one by one and the others counted; empty when all is well.
    """
    try:
        manifest = read_manifest(manifest_path)
    except ManifestError as error:
        return error.problems
    base, where = manifest.path.parent, str(manifest.path)
    problems: list[Problem] = []
    todo: list[tuple[str, Path, str, str]] = []
    for path, size, digest, record in manifest.files.iter_rows():
        place = locate(path, base, root)
        problem = _compare_size(path, place, size, (where, record))
        if problem:
            problems.append(problem)
        elif digest:
            algorithm, _, digits = digest.rpartition(":")
            todo.append((path, place, algorithm.lower() or "md5", digits.lower()))
    elsewhere = [path for path in manifest.files["path"] if not (base / path).is_file()]
    if len(elsewhere) > 3 and sum(p.code == "missing_file" for p in problems) == len(elsewhere):
        # Not one of them is there: the folder is wrong, not the files.
        found = f"none of its {len(elsewhere):,} files under {root} (such as {elsewhere[-1]!r})"
        remedy = "correct data.root in the recipe, or bring the data there"
        return [Problem("missing_data", found, "the files it lists", remedy, file=where)]
    results = _each(hasher, [place for _, place, _, _ in todo], [algorithm for _, _, algorithm, _ in todo])
    for done, ((path, _, algorithm, digits), got) in enumerate(zip(todo, results, strict=True), start=1):
        if isinstance(got, DataError):
            problems += got.problems
        elif got.lower() != digits:
            remedy = "the file was changed: restore it from its source, or, if the change is meant, write the manifest anew (birdlab init --force)"
            problems.append(
                Problem("hash_differs", f"{algorithm}:{got}", f"{algorithm}:{digits}", remedy, file=path, key="hash")
            )
        if progress:
            progress(done, len(todo))
    return capped(problems)


def _compare_size(path: str, place: Path, size: int | None, named: tuple[str, str]) -> Problem | None:
    where = f"{named[0]} ({named[1]})"
    try:
        status = place.stat()
    except OSError as error:
        found = "no such file" if isinstance(error, FileNotFoundError) else (error.strerror or "an error")
        return Problem(
            "missing_file",
            found,
            f"the file that {where} lists",
            "restore it, or correct data.root in the recipe",
            file=path,
        )
    if place.is_dir():
        return Problem("missing_file", "a folder", f"the file that {where} lists", file=path)
    if size is not None and status.st_size != size:
        remedy = "the file was changed or copied in part: restore it from its source, or write the manifest anew (birdlab init --force)"
        return Problem("size_differs", f"{status.st_size:,} bytes", f"{size:,} bytes", remedy, file=path, key="bytes")
    return None


def locate(path: str, base: Path, root: Path) -> Path:
    """Where a file of a manifest lies: beside the descriptor (in ``base``) if it is there, else under ``root``."""
    beside = base / path
    return beside if beside.is_file() else root / path


def extra_files(manifest: Manifest, candidates: Iterable[str]) -> list[str]:
    """Those of ``candidates`` (posix paths relative to the root of the data) that the manifest does not list."""
    listed = set(manifest.files["path"])
    return sorted(path for path in candidates if path not in listed)
