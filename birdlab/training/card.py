"""The model card: what a model was trained on and how, what it scores, and what it was not tested on."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from birdlab.errors import DataError, Problem
from birdlab.shards import write_atomic

FORMAT = 1
_PACKAGES = {"torchvision": ("torch", "torchvision"), "ultralytics": ("torch", "torchvision", "ultralytics")}
_LIBRARY_LICENCE = {"torchvision": "BSD-3-Clause", "ultralytics": "AGPL-3.0 (weights trained with it included)"}


def versions(library: str) -> dict[str, str]:
    """Versions of what decides the weights: birdlab, torch and the library."""
    from birdlab import __version__

    found = {"birdlab": __version__}
    for name in (*_PACKAGES[library], "numpy", "opencv-python"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def library_licence(library: str) -> str:
    """Licence of the library whose code the network is."""
    return _LIBRARY_LICENCE[library]


def write_card(folder: Path, card: dict[str, Any]) -> None:
    """Write ``card.json`` and ``card.md``; the JSON comes last, so that a card that is there is whole."""
    text = json.dumps({"format": FORMAT, **card}, ensure_ascii=False, indent=2) + "\n"
    markdown = card_markdown(card)
    write_atomic(folder / "card.md", lambda temporary: temporary.write_text(markdown, encoding="utf-8"))
    write_atomic(folder / "card.json", lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read_card(folder: Path) -> dict[str, Any] | None:
    """The card of a finished run; ``None`` where there is none.

    Raises:
        DataError: the file is no model card.
    """
    path = folder / "card.json"
    if not path.exists():
        return None
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
        if card["format"] != FORMAT or not {"about", "weights", "scores"} <= set(card):
            raise ValueError("another format")
    except (OSError, ValueError, KeyError, TypeError) as error:
        remedy = "delete it; the card is written anew from the finished training"
        raise DataError(Problem("bad_card", str(error), "a model card of birdlab", remedy, file=str(path))) from error
    return card


def card_markdown(card: dict[str, Any]) -> str:
    """The card for people. It names no path, no machine and no date, so one training gives one card."""
    training, weights = card["training"], card["weights"]
    stopped = {
        "epochs": "all epochs were trained",
        "patience": f"no better validation score for {card['settings']['patience']} epochs",
    }[training["stopped"]]
    about = [
        ("Task", card["task"]),
        ("Network", f"{card['architecture']} ({card['library']})"),
        ("Classes", ", ".join(card["classes"])),
        ("Licence of the weights", card["licence"]["weights"] or "not stated"),
        ("Licence of the data", card["licence"]["data"] or "not stated"),
        ("Licence of the library", card["licence"]["library"]),
    ]
    course = [
        ("Seed", f"{card['seed']} (one of {card['n_seeds']})" if card["n_seeds"] > 1 else f"{card['seed']} (1 seed)"),
        ("Epochs", f"{training['epochs']} ({stopped}); best: {training['best_epoch']}, by validation AP50-95"),
        ("Resumed", ", ".join(f"after epoch {k}" for k in training["resumed_after"]) or "no"),
        ("Deterministic", "yes" if training["deterministic"] else "no"),
        ("Device", training["device"]),
        *((k, v) for k, v in card["settings"].items() if v is not None),
    ]
    files = [(k, weights[k]) for k in ("file", "bytes", "sha256", "state_sha256")] + [
        ("state_sha256 of the last epoch", weights["last_sha256"])
    ]
    parts = [
        f"# {card['model']}, seed {card['seed']}\n",
        _pairs(about),
        "## Data\n",
        f"{_cell(card['data']['name'] or 'The study')}; split by {card['split']['by'] or 'the study itself'}, "
        f"sha256 `{card['split']['sha256']}`; pictures and labels `{card['data']['sha256']}`.\n",
        _counts(card["data"]["parts"]),
        "## Scores\n",
        _scores(card["scores"]),
        "## Training\n",
        _pairs(course),
        "## Files\n",
        _pairs(files),
        "## Versions\n",
        _pairs(list(card["versions"].items())),
        "## Limits\n",
        "".join(f"- {_cell(text)}\n" for text in card["limits"]),
    ]
    return "\n".join(parts)


def _pairs(rows: list[tuple[str, Any]]) -> str:
    return "| | |\n|---|---|\n" + "".join(f"| {_cell(k)} | {_cell(v)} |\n" for k, v in rows)


def _counts(parts: dict[str, dict[str, Any]]) -> str:
    columns = ("frames", "empty", "birds", "masks", "sessions", "sites")
    head = "| part | " + " | ".join(columns) + " |\n|---|" + "---:|" * len(columns) + "\n"
    rows = ("| " + " | ".join([name, *(_cell(n[c]) for c in columns)]) + " |\n" for name, n in parts.items())
    return head + "".join(rows)


def _scores(scores: dict[str, Any]) -> str:
    names = [n for n in ("ap", "ap50", "mask_ap", "mask_ap50") if any(s and n in s for s in scores.values())]
    head = "| part | frames | birds | " + " | ".join(names) + " |\n|---|---:|---:|" + "---:|" * len(names) + "\n"
    text = head
    for part, s in scores.items():
        if s is None:
            text += f"| {part} | 0 | 0 |" + " – |" * len(names) + "\n"
            continue
        values = ["–" if s.get(n) is None else f"{s[n]:.4f}" for n in names]
        text += f"| {part} | {s['n_frames']} | {s['n_birds']} | " + " | ".join(values) + " |\n"
    test = scores.get("test")
    if test:
        n = test["looks"]
        times = "once" if n == 1 else f"{n} times"
        text += f"\nThe test part of this split has been scored {times} in this folder, this model included.\n"
    else:
        text += "\nThere are no labelled test frames: nothing was tested.\n"
    return text


def _cell(value: Any) -> str:
    text = "–" if value is None else str(value)
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
