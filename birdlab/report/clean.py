"""What an executed notebook may show to others: no path of this machine, no progress bars, no widgets, and the truth.

Works on notebooks as plain dictionaries (nbformat 4) and imports nothing but the standard library: the process that
executes a notebook uses it too.
"""

from __future__ import annotations

import itertools
import re
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Tag of the cell that says, at the top of an executed notebook, that it did not run to its end.
BANNER_TAG = "birdlab-failure"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_KERNEL_FILE = re.compile(r"[^\s\"'(<>]*ipykernel_\d+[\\/]\d+\.py")
_WIDGETS = "application/vnd.jupyter.widget-view+json"
_WARNING = re.compile(r"^.*\b\w*Warning: ", re.MULTILINE)

Hidden = Sequence[tuple[str, str]]


def hidden_paths(root: Path, run_dir: Path, data_root: Path | None = None) -> list[tuple[str, str]]:
    """Folders of this machine and what stands for them, longest first: packages, Python, project, run, data, home."""
    paths = sysconfig.get_paths()
    pairs = {
        str(run_dir.parent): "",
        str(root): "",
        paths["purelib"]: "site-packages",
        paths["platlib"]: "site-packages",
        paths["stdlib"]: "python",
        sys.prefix: "python",
        sys.base_prefix: "python",
        str(Path(__file__).resolve().parents[1]): "birdlab",
        str(Path.home()): "~",
    }
    # A run inside the project is named from the project.
    if run_dir.parent.is_relative_to(root):
        pairs.pop(str(run_dir.parent), None)
        pairs[str(root)] = ""
    if data_root is not None and not data_root.is_relative_to(root):
        pairs[str(data_root)] = data_root.name
    long_enough = [(path, short) for path, short in pairs.items() if len(Path(path).parts) > 1]
    return sorted(long_enough, key=lambda pair: (-len(pair[0]), pair))


def shorten(text: str, hidden: Hidden) -> str:
    """``text`` without ANSI codes, kernel file names and the given folders.

    >>> shorten("/opt/env/lib/x.py in /opt/environment", [("/opt/env", "python")])
    'python/lib/x.py in /opt/environment'
    """
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "ipykernel_" in text:
        text = _KERNEL_FILE.sub("cell", text)
    for path, short in hidden:
        if path in text:
            # An empty stand-in takes the separator with it, so that what is left is a relative path.
            text = re.sub(r"(?<![\w.])" + re.escape(path) + r"[\\/](?=[\w.])", f"{short}/" if short else "", text)
            text = re.sub(r"(?<![\w.])" + re.escape(path) + r"(?![\w.-])", lambda _: short or ".", text)  # noqa: B023
    return text


def split_progress(text: str, *, drop: bool) -> tuple[str, list[str]]:
    """What stays of a stream that redraws its lines with carriage returns, and the last state of each redrawn line.

    Args:
        text: the stream.
        drop: leave redrawn lines out (progress on stderr); otherwise their last state stays.

    >>> split_progress("a\\n\\r 50 %\\r100 %\\nb\\n", drop=True)
    ('a\\nb\\n', ['100 %'])
    """
    kept, redrawn = [], []
    for line in _lines(text):
        body, end = (line[:-1], "\n") if line.endswith("\n") else (line, "")
        if "\r" not in body:
            kept.append(line)
            continue
        states = [state for state in (_ANSI.sub("", s).strip() for s in body.split("\r")) if state]
        redrawn.extend(states[-1:])
        # A warning may follow a bar on the same line.
        if states and (not drop or _WARNING.search(states[-1])):
            kept.append(states[-1] + end)
    return "".join(kept), redrawn


def tidy(nb: dict[str, Any], hidden: Hidden) -> tuple[list[str], int]:
    """Clean every output of an executed notebook in place; returns the progress lines taken out and the warnings counted."""
    progress: list[str] = []
    warnings = 0
    for cell in nb["cells"]:
        if cell["cell_type"] != "code":
            continue
        outputs = []
        for output in _merge_streams(cell.get("outputs", [])):
            if output["output_type"] == "stream":
                output["text"], redrawn = split_progress(output["text"], drop=output["name"] == "stderr")
                progress += redrawn
                output["text"] = shorten(output["text"], hidden)
                warnings += len(_WARNING.findall(output["text"])) if output["name"] == "stderr" else 0
                if not output["text"].strip():
                    continue
            elif output["output_type"] == "error":
                output["evalue"] = shorten(output["evalue"], hidden)
                output["traceback"] = [shorten(line, hidden) for line in output["traceback"]]
            elif _WIDGETS in output.get("data", {}):
                continue
            else:
                _shorten_data(output.get("data", {}), hidden)
            outputs.append(output)
        cell["outputs"] = outputs
    nb["metadata"].pop("widgets", None)
    return progress, warnings


def label_cells(nb: dict[str, Any], *, stopped: int | None, failed: bool) -> None:
    """Write into every cell what became of it: ``metadata.papermill.status`` is completed, failed or pending (not run).

    Papermill marks cells as completed that a dead kernel never saw, and leaves times and paths in the metadata.

    Args:
        nb: executed notebook, changed in place.
        stopped: index of the last cell that was begun (-1: none), ``None`` when all ran.
        failed: that cell failed (otherwise it ended the notebook on purpose).
    """
    for index, cell in enumerate(nb["cells"]):
        status = "pending" if stopped is not None and index > stopped else "completed"
        if failed and index == stopped:
            status = "failed"
        cell["metadata"]["papermill"] = {"status": status, "exception": status == "failed"}
        if status == "pending" and cell["cell_type"] == "code":
            cell["execution_count"], cell["outputs"] = None, []


def add_banner(nb: dict[str, Any], text: str) -> None:
    """Put a cell at the top that says what failed; an older one is replaced."""
    nb["cells"] = [cell for cell in nb["cells"] if BANNER_TAG not in cell["metadata"].get("tags", [])]
    banner = {
        "cell_type": "markdown",
        "id": BANNER_TAG,
        "metadata": {"tags": [BANNER_TAG], "papermill": {"status": "completed", "exception": False}},
        "source": f"**This notebook did not run to its end.** {text}",
    }
    nb["cells"].insert(0, banner)


def _merge_streams(outputs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outputs with neighbouring pieces of a stream joined, stdout before stderr: how they were cut and mixed is chance."""
    merged: list[dict[str, Any]] = []
    for is_stream, group in itertools.groupby(outputs, key=lambda output: output["output_type"] == "stream"):
        if not is_stream:
            merged.extend(group)
            continue
        texts: dict[str, list[str]] = {}
        for output in group:
            texts.setdefault(output["name"], []).append(output["text"])
        merged += [
            {"output_type": "stream", "name": name, "text": "".join(texts[name])}
            for name in sorted(texts, reverse=True)
        ]
    return merged


def _lines(text: str) -> list[str]:
    # str.splitlines would also break at carriage returns.
    parts = text.replace("\r\n", "\n").split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _shorten_data(data: dict[str, Any], hidden: Hidden) -> None:
    for mime, value in data.items():
        if isinstance(value, str) and not (mime.startswith("image/") and mime != "image/svg+xml"):
            data[mime] = shorten(value, hidden)
