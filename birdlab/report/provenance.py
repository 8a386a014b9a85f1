"""The last section of the report: what the numbers were made from, and with what."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from birdlab.report.chapter import Chapter, clean_text
from birdlab.report.frame import NOT_RECORDED, at, clock, notebooks
from birdlab.report.html import Html, el, esc, join

INTERVALS = (
    "These sessions: Wilson, with the effective number of birds where they come in clusters of frames. "
    "A new session, or a new site where every frame has one of at least two: logit scale, errors clustered by session or "
    "site (CR1), t with one degree of freedom fewer than there are of them."
)


def provenance(record: Mapping[str, Any], chapters: Sequence[Chapter], hashes: Mapping[str, str] | None = None) -> Html:
    """The table of everything a reader needs to make the same report again.

    Args:
        record: ``run.json``.
        chapters: the report's chapters.
        hashes: sha256 of input files by path.
    """
    rows: list[tuple[str, Html]] = [
        ("Recipe", _recipe(record)),
        ("Data", _data(record)),
        ("Models", _models(record, hashes or {})),
        *([("Training", _training(record, hashes or {}))] if at(record, "recipe", "training") else []),
        ("Parameters", _parameters(record)),
        *([("Matching", esc(_matching(record)))] if _detects(record) else []),
        ("Intervals", esc(_intervals(record))),
        *([("Splits scored", esc(_scored(record)))] if _detects(record) or record.get("scored") else []),
        ("Software", esc(_software(record))),
        ("Code", esc(_git(record))),
        ("Device", esc(at(record, "device", default=NOT_RECORDED))),
        ("Time", esc(_time(chapters))),
        ("Warnings", _warnings(record, chapters)),
    ]
    body = el("tbody", *[el("tr", el("th", key, scope="row"), el("td", value)) for key, value in rows])
    box = el(
        "div", el("table", body, cls="bl-t prov few"), cls="bl-tw", tabindex="0", role="region", aria_label="Provenance"
    )
    return el("section", el("h2", "Provenance"), box, id="provenance")


def _recipe(record: Mapping[str, Any]) -> Html:
    name = at(record, "recipe_file", default=NOT_RECORDED)
    return join(
        esc(clean_text(str(name))),
        ", seed ",
        at(record, "recipe", "seed", default=NOT_RECORDED),
        ", ",
        _hash(at(record, "recipe_sha256")),
    )


def _hash(value: Any) -> Html:
    return join("sha256 ", el("code", str(value)[:16])) if value else esc("hash not recorded")


def _data(record: Mapping[str, Any]) -> Html:
    data = at(record, "recipe", "data", default={})
    parts: list[object] = []
    if at(data, "generator"):
        parts.append(f"made by birdlab’s generator “{data['generator']}”")
    elif at(data, "root"):
        parts.append("made" if at(data, "made") else "recorded")
        parts.append(f", folder {clean_text(str(data['root']))}")
    labels = [
        f"{entry.get('path')} ({entry.get('format')})"
        for entry in at(data, "labels", default=[])
        if isinstance(entry, Mapping)
    ]
    if labels:
        parts.append("; labels: " + clean_text(", ".join(labels)))
    if at(data, "manifest"):
        parts.append(f"; manifest {clean_text(str(data['manifest']))}")
    inputs = record.get("inputs")
    digest = inputs if isinstance(inputs, str) else at(inputs, "fingerprint") or at(inputs, "digest")
    return join(*parts, "; all input files: " if parts else "all input files: ", _hash(digest))


def _models(record: Mapping[str, Any], hashes: Mapping[str, str]) -> Html:
    items = []
    for model in at(record, "recipe", "models", default=[]):
        if not isinstance(model, Mapping):
            continue
        source = clean_text(str(model.get("weights") or model.get("predictions") or NOT_RECORDED))
        text = f"{model.get('name')}: {'weights' if model.get('weights') else 'predictions'} {source}"
        if model.get("weights"):
            text += f", image size {model.get('imgsz')}, NMS IoU {model.get('iou')}, at most {model.get('max_det')} boxes, score ≥ {model.get('conf')}"
        if model.get("half"):
            text += ", fp16"
        digest = model.get("sha256") or _file_hash(str(model.get("weights") or model.get("predictions") or ""), hashes)
        items.append(el("li", text, join(", ", _hash(digest)) if digest else None))
    items += [_namer(model, hashes) for model in at(record, "recipe", "abstention", "models", default=[])]
    for task in ("actions", "keypoints"):
        given = at(record, "recipe", "individuals", task, "predictions", default={})
        for name, path in given.items() if isinstance(given, Mapping) else ():
            digest = _file_hash(str(path), hashes)
            text = f"{name}: {task} {clean_text(str(path))}"
            items.append(el("li", text, join(", ", _hash(digest)) if digest else None))
    return el("ul", *items) if items else esc("none")


def _training(record: Mapping[str, Any], hashes: Mapping[str, str]) -> Html:
    """The split that the recipe asks for, the models to train, and how often the test part was looked at."""
    section = at(record, "recipe", "training", default={})
    split = at(section, "split", default={})
    shares = ", ".join(f"{part} {share:g}" for part, share in (split.get("shares") or {}).items())
    items = [el("li", f"split by {split.get('by', 'auto')}, {shares}, seed {split.get('seed', 0)}")]
    for model in at(section, "models", default=[]):
        seeds = [str(seed) for seed in model.get("seeds") or []]
        network = clean_text(str(model.get("architecture") or NOT_RECORDED))
        text = f"{model.get('name')}: trained, {model.get('library')} {network}"
        text += f", {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(seeds)}, image size {model.get('imgsz')}"
        text += f", at most {model.get('epochs')} epochs, patience {model.get('patience')}"
        start = str(model.get("weights") or "")
        text += f"; from {clean_text(start)}" if start else "; from random weights"
        digest = model.get("sha256") or _file_hash(start, hashes)
        items.append(el("li", text, join(", ", _hash(digest)) if digest else None))
    looks = record.get("test_looks")
    if isinstance(looks, int):
        items.append(el("li", f"test part scored {looks} {'time' if looks == 1 else 'times'}, start weights included"))
    return el("ul", *items)


def _namer(model: Mapping[str, Any], hashes: Mapping[str, str]) -> Html:
    """A model that names birds: where its probabilities or answers come from."""
    kind = next((key for key in ("weights", "scores", "answers") if model.get(key)), None)
    files = model.get(kind) if kind else None
    files = [str(f) for f in (files if isinstance(files, list) else [files or NOT_RECORDED])]
    digests = [found for name in files if (found := model.get("sha256") or _file_hash(name, hashes))]
    said = [part for digest in digests for part in (", ", _hash(digest))]
    return el("li", f"{model.get('name')}: {kind or 'source'} {clean_text(', '.join(files))}", *said)


def _file_hash(path: str, hashes: Mapping[str, str]) -> str | None:
    """Hash of the one input file that a recipe's path means; a folder's weights file counts when it has just one."""
    name = (
        path.removeprefix("birdlab:") + ".pt"
        if path.startswith("birdlab:")
        else path.replace("\\", "/").lstrip("./").rstrip("/")
    )
    files = [key for key in hashes if name and (key == name or key.endswith(f"/{name}") or f"/{name}/" in f"/{key}")]
    weights = [key for key in files if key.endswith((".bin", ".onnx", ".pt"))]
    chosen = files if len(files) == 1 else weights
    return hashes[chosen[0]] if len(chosen) == 1 else None


def _parameters(record: Mapping[str, Any]) -> Html:
    items = []
    for entry in notebooks(record):
        given = entry.get("parameters") or {}
        kept = {k: v for k, v in given.items() if k not in ("recipe", "run_dir")} if isinstance(given, Mapping) else {}
        if kept:
            text = ", ".join(f"{k} = {json.dumps(v, ensure_ascii=False, default=str)}" for k, v in kept.items())
            items.append(el("li", f"{entry['name']}: ", el("code", clean_text(text))))
    return el("ul", *items) if items else esc("the notebooks’ own defaults")


def _matching(record: Mapping[str, Any]) -> str:
    scoring = at(record, "recipe", "scoring")
    if not scoring:
        return NOT_RECORDED
    classes = "classes ignored" if scoring.get("class_agnostic") else "within each class"
    return (
        f"greedy by score, IoU ≥ {scoring.get('iou')}, score ≥ {scoring.get('conf')}, {classes}; "
        f"average precision by {scoring.get('engine')}, at most {scoring.get('max_dets')} boxes per frame and class"
    )


def _detects(record: Mapping[str, Any]) -> bool:
    """Whether the recipe is about detectors: it has some, or it is about nothing else."""
    other = any(at(record, "recipe", section) for section in ("individuals", "abstention", "training"))
    return bool(at(record, "recipe", "models")) or not other


def _intervals(record: Mapping[str, Any]) -> str:
    parts = [INTERVALS] if _detects(record) else []
    if at(record, "recipe", "individuals"):
        parts.append(
            "Birds followed in videos: Student's t with the variance between videos (CR1, or leaving one out)."
        )
    if section := at(record, "recipe", "abstention"):
        drawn = f"{section.get('n_resamples')} resamples of whole clusters ({section.get('cluster')})"
        parts.append(
            f"Models that name birds: percentiles over {drawn}; shares of answers by reason and prompt: Wilson."
        )
    if at(record, "recipe", "training"):
        alone = not parts
        parts.append("Trained models: mean and standard deviation over seeds; no interval.")
        if alone:
            return parts[0]
    return "95 %. " + " ".join(parts)


def _scored(record: Mapping[str, Any]) -> str:
    counts = record.get("scored")
    if not isinstance(counts, Mapping) or not counts:
        return NOT_RECORDED
    return ", ".join(f"{split}: {n} {'time' if n == 1 else 'times'}" for split, n in sorted(counts.items()))


def _software(record: Mapping[str, Any]) -> str:
    versions = record.get("versions")
    if not isinstance(versions, Mapping) or not versions:
        return NOT_RECORDED
    first = [name for name in ("birdlab", "python") if name in versions]
    return ", ".join(f"{name} {versions[name]}" for name in [*first, *(n for n in versions if n not in first)])


def _git(record: Mapping[str, Any]) -> str:
    commit = at(record, "git", "commit")
    if not commit:
        return "no version control recorded"
    return (
        f"commit {str(commit)[:12]}, {'with changes that are not committed' if at(record, 'git', 'dirty') else 'clean'}"
    )


def _time(chapters: Sequence[Chapter]) -> str:
    seconds = [c.seconds for c in chapters if c.seconds is not None]
    if not seconds:
        return NOT_RECORDED
    return f"{clock(Chapter('all', 0, seconds=sum(seconds)))} (min:s) in {len(seconds)} notebooks"


def _warnings(record: Mapping[str, Any], chapters: Sequence[Chapter]) -> Html:
    items = [
        el("li", f"{c.title}: ", el("a", _short(str(note.get("text", ""))), href=f"#{c.slug}"))
        for c in chapters
        for note in c.notes
    ]
    printed = {str(e["name"]): e.get("warnings") for e in notebooks(record)}
    for c in chapters:
        n = printed.get(c.name)
        if isinstance(n, int) and n > 0:
            items.append(el("li", f"{c.title}: {n} printed; ", el("a", "run notes", href="#run-notes")))
    return el("ul", *items) if items else esc("none")


def _short(text: str) -> str:
    from birdlab.report.html import plain

    text = plain(text)
    return text if len(text) <= 120 else text[:117].rstrip() + "…"
