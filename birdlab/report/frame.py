"""The page around the chapters: head, contents, first screen, overview, run notes, provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from birdlab.report.chapter import Chapter, clean_text
from birdlab.report.html import Html, el, esc, join, model_name, rich
from birdlab.report.show import headline_text
from birdlab.report.table import number
from birdlab.style import Hue

MARKS = {
    "complete": ("✓", "complete"),
    "note": ("!", "complete, with a note"),
    "failed": ("×", "failed"),
    "pending": ("○", "not run"),
    "lost": ("○", "run, but missing"),
}
N_HEADLINES = 5
NOT_RECORDED = "not recorded"


def at(value: Any, *keys: str, default: Any = None) -> Any:
    """``value[a][b]…``, or the default as soon as something is missing."""
    for key in keys:
        if not isinstance(value, Mapping) or value.get(key) is None:
            return default
        value = value[key]
    return value


def page(title: str, parts: Sequence[Html]) -> Html:
    """The whole document."""
    folder = files("birdlab.report")
    css = folder.joinpath("page.css").read_text(encoding="utf-8")
    js = folder.joinpath("page.js").read_text(encoding="utf-8")
    head = join(
        Html('<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'),
        Html('<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'),
        Html(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
        ),
        el("title", f"{title} · birdlab report"),
        Html(f"\n<style>\n{css}</style>"),
    )
    body = join(*parts, Html(f"<script>\n{js}</script>"))
    return Html(
        f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body class="bl">\n{body}\n</body>\n</html>\n'
    )


def status_mark(status: str, *, spoken: bool = True) -> Html:
    """The sign of a status, and the same in words for who cannot see it."""
    sign, words = MARKS[status]
    return join(
        el("span", sign, cls=f"st {status}", aria_hidden="true", title=words),
        el("span", f"{words}: ", cls="vh") if spoken else None,
    )


def contents(chapters: Sequence[Chapter], *, has_notes: bool) -> Html:
    """Links to every chapter, each with its status."""
    items = [el("li", el("a", status_mark(c.status), el("span", c.title), href=f"#{c.slug}")) for c in chapters]
    end = [el("a", "Run notes", href="#run-notes")] if has_notes else []
    top = el("p", el("a", "Contents", href="#top"), cls="top")
    return el(
        "nav",
        top,
        el("ol", *items),
        el("div", *end, el("a", "Provenance", href="#provenance"), cls="end"),
        aria_label="Contents",
    )


def first_screen(
    record: Mapping[str, Any], chapters: Sequence[Chapter], hues: Mapping[str, Hue], *, n_missing: int = 0
) -> Html:
    """Title, the answer in one sentence, what it rests on, how many files are missing, and the headline numbers."""
    recipe = at(record, "recipe", default={})
    parts = [
        el("p", "birdlab report", cls="kick"),
        el("h1", at(recipe, "title") or at(recipe, "name", default="Untitled study")),
    ]
    parts += [banner(chapters)] if any(c.status == "failed" for c in chapters) else []
    lead = _lead(chapters)
    if lead:
        parts.append(el("p", rich(lead, hues), cls="lead"))
    elif at(recipe, "description"):
        parts.append(el("p", str(recipe["description"]), cls="lead"))
    parts.append(_meta(record, chapters, hues, n_missing))
    if at(recipe, "data", "made"):
        parts.append(
            el(
                "p",
                el("b", "Made data."),
                " A program made them, nothing was recorded; every number here describes what was made, not birds.",
                cls="made",
            )
        )
    if lead and at(recipe, "description"):
        parts.append(el("p", str(recipe["description"]), cls="made"))
    numbers = _headlines(chapters)
    if numbers:
        parts.append(el("ul", *[_number(entry, slug, hues) for slug, entry in numbers], cls="nums"))
    return el("header", *parts, id="top")


def banner(chapters: Sequence[Chapter]) -> Html:
    """Which chapters failed, each linked to the cell that did."""
    lines = []
    for c in chapters:
        if c.status == "failed":
            error = c.error or {}
            why = (
                clean_text(f"{error.get('ename') or 'no reason recorded'}: {error.get('evalue') or ''}")
                .strip(": ")
                .splitlines()
            )
            lines.append(
                el(
                    "p",
                    el("b", f"{c.title} did not finish."),
                    f" {why[0][:300] if why else ''} ",
                    el("a", "See where", href=f"#{c.slug}-failed"),
                )
            )
    return el("div", *lines, cls="fail")


def _lead(chapters: Sequence[Chapter]) -> str:
    """The report's answer: that of the summary, or of the last complete chapter that has one."""
    answered = [c for c in chapters if c.answer and c.status in ("complete", "note")]
    chosen = next((c for c in answered if "summary" in c.name), answered[-1] if answered else None)
    return f"{chosen.answer['answer']} {chosen.answer['detail']}".strip() if chosen and chosen.answer else ""


def _meta(record: Mapping[str, Any], chapters: Sequence[Chapter], hues: Mapping[str, Hue], n_missing: int) -> Html:
    done = sum(c.status in ("complete", "note") for c in chapters)
    whole = (
        "complete" if done == len(chapters) else "failed" if any(c.status == "failed" for c in chapters) else "pending"
    )
    told = f"{done} of {len(chapters)} chapters complete"
    if n_missing:
        told += f", {n_missing:,} {'file' if n_missing == 1 else 'files'} missing"
    names = [model_name(name, hues) for name in hues]
    rows: list[tuple[str, Html]] = [
        ("Date", esc(_date(record))),
        ("Recipe", esc(_file_name(at(record, "recipe_file")))),
        ("Data", esc(_data_version(record))),
        ("Status", join(status_mark(whole, spoken=False), told)),
    ]
    if names:
        rows.append(("Models" if len(names) > 1 else "Model", join(*[p for name in names for p in (", ", name)][1:])))
    return el("dl", *[el("div", el("dt", key), el("dd", value)) for key, value in rows], cls="meta")


def _date(record: Mapping[str, Any]) -> str:
    times = [str(n.get("finished")) for n in notebooks(record) if n.get("finished")]
    return max(times)[:10] if times else NOT_RECORDED


def _file_name(path: Any) -> str:
    return str(path).replace("\\", "/").rsplit("/", 1)[-1] if path else NOT_RECORDED


def _data_version(record: Mapping[str, Any]) -> str:
    recipe = at(record, "recipe", default={})
    name = at(recipe, "name", default="")
    manifest = at(recipe, "data", "manifest")
    if manifest:
        parts = str(manifest).replace("\\", "/").split("/")
        name = parts[-2] if len(parts) > 1 else parts[-1]
    if at(recipe, "data", "generator"):
        name = f"{recipe['data']['generator']}, made"
    digest = at(record, "inputs") if isinstance(at(record, "inputs"), str) else at(record, "inputs", "fingerprint")
    return f"{name} ({digest[:8]})" if isinstance(digest, str) else str(name) or NOT_RECORDED


def notebooks(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Entries of the notebooks in ``run.json``, as a list of mappings with a name."""
    entries = record.get("notebooks") or []
    if isinstance(entries, Mapping):
        entries = [{"name": name, **(entry if isinstance(entry, Mapping) else {})} for name, entry in entries.items()]
    return [dict(e) for e in entries if isinstance(e, Mapping) and e.get("name")]


def _headlines(chapters: Sequence[Chapter]) -> list[tuple[str, dict[str, Any]]]:
    """Five of the numbers offered, the summary's before all others; where there are more, a chapter's last give way."""
    ordered = sorted(chapters, key=lambda c: "summary" not in c.name)
    offered = [(i, rank, c.slug, entry) for i, c in enumerate(ordered) for rank, entry in enumerate(c.headlines)]
    kept = sorted(offered, key=lambda o: ("summary" not in ordered[o[0]].name, o[1], o[0]))[:N_HEADLINES]
    return [(slug, entry) for _, _, slug, entry in sorted(kept, key=lambda o: o[:2])]


def _number(entry: Mapping[str, Any], slug: str, hues: Mapping[str, Hue]) -> Html:
    value, lo, hi, digits = entry["value"], entry["lo"], entry["hi"], entry["digits"]
    shown = "–" if value is None else number(value, digits)
    unit = el("small", entry["unit"]) if entry["unit"] and value is not None else None
    reason = str(entry["reason"] or "").strip()
    if lo is not None and hi is not None:
        interval, reason = f"[{number(lo, digits)}, {number(hi, digits)}]", ""
    else:
        interval = "undefined" if value is None else "no interval" if reason else ""
        reason = reason.removeprefix("no interval: ")
    detail = join(_detail(entry, hues), ". " if reason and entry["detail"] else None, reason[:1].upper() + reason[1:])
    parts = [el("span", entry["label"], cls="l"), el("span", shown, unit, cls="v"), el("span", interval, cls="i")]
    return el("li", el("a", *parts, _strip(entry), el("span", detail, cls="d"), href=f"#{slug}"))


def _detail(entry: Mapping[str, Any], hues: Mapping[str, Hue]) -> Html:
    """The small print of a number, with its model's name in the model's colour, at the front if it is not in the text."""
    model, detail = str(entry.get("model") or ""), str(entry["detail"])
    if model and model not in detail:
        detail = f"{{model:{model}}}" + (f", {detail}" if detail else "")
    elif model and f"{{model:{model}}}" not in detail:
        detail = detail.replace(model, f"{{model:{model}}}", 1)
    return rich(detail, hues)


def _strip(entry: Mapping[str, Any]) -> Html:
    """The number and its interval on a line with stated ends; an empty line where it is undefined."""
    low, high = (float(end) for end in entry["scale"])
    span = high - low if high != low else 1.0

    def x(value: float) -> str:
        return f"{4 + 132 * min(max((value - low) / span, 0.0), 1.0):.1f}"

    marks = [el("line", x1=4, x2=136, y1=10, y2=10, cls="ax")]
    if entry["reference"] is not None:
        marks.append(el("line", x1=x(entry["reference"]), x2=x(entry["reference"]), y1=2, y2=18, cls="ref"))
    if entry["lo"] is not None and entry["hi"] is not None:
        marks.append(el("line", x1=x(entry["lo"]), x2=x(entry["hi"]), y1=10, y2=10, cls="ci"))
    if entry["value"] is not None:
        marks.append(el("circle", cx=x(entry["value"]), cy=10, r=4.2))
    words = f"{headline_text(entry)} on a scale from {low:g} to {high:g}"
    return el("svg", *marks, cls="strip", viewBox="0 0 140 20", role="img", aria_label=words)


def in_brief(chapters: Sequence[Chapter], hues: Mapping[str, Hue]) -> Html:
    """Every chapter in one line: question, answer, time."""
    rows = []
    for c in chapters:
        told = c.answer or {}
        instead = {"failed": "Did not finish.", "pending": "Not run.", "lost": "Missing."}.get(c.status, "")
        head = el("th", status_mark(c.status), el("a", f"{c.number}\u2002{c.title}", href=f"#{c.slug}"), scope="row")
        answer = rich(str(told.get("answer") or instead or "–"), hues) if c.status != "failed" else esc(instead)
        rows.append(
            el(
                "tr",
                head,
                el("td", rich(str(told.get("question") or "–"), hues), cls="bq"),
                el("td", answer, cls="ba"),
                el("td", clock(c), cls="n"),
            )
        )
    heads = [el("th", "Chapter", scope="col"), el("th", "Question", scope="col"), el("th", "Answer", scope="col")]
    heads.append(el("th", "Took", el("small", "min:s"), scope="col", cls="n"))
    table = el("table", el("thead", el("tr", *heads)), el("tbody", *rows), cls="bl-t brief", style="--cols:4")
    box = el("div", table, cls="bl-tw", tabindex="0", role="region", aria_label="The chapters in brief")
    words = el(
        "p",
        "Square brackets hold 95 % intervals. Captions say which question an interval answers: how well ",
        el("em", "these"),
        " sessions, videos or photographs pin a number down, or what ",
        el("em", "new"),
        " ones would give.",
        cls="brief-note",
    )
    return el("section", el("h2", "In brief"), box, words, id="in-brief")


def clock(chapter: Chapter) -> str:
    """Seconds as min:s, or a dash.

    >>> clock(Chapter("a", 1, seconds=842.0))
    '14:02'
    """
    if chapter.seconds is None:
        return "–"
    whole = round(chapter.seconds)
    return f"{whole // 60}:{whole % 60:02d}"


def run_notes(chapters: Sequence[Chapter], problems: Sequence[str]) -> Html | None:
    """Everything that was printed while the notebooks ran, closed; and what the page itself could not place."""
    folds = []
    for c in chapters:
        if c.streams:
            text = "\n".join(f"cell {index}\n{words.rstrip()}\n" for index, words in c.streams)
            folds.append(
                el(
                    "details",
                    el("summary", f"{c.number}\u2002{c.title}: {len(c.streams)} printed"),
                    el("pre", text, tabindex="0"),
                )
            )
        if c.n_not_shown:
            folds.append(el("p", f"{c.title}: HTML outputs left out: {c.n_not_shown}.", cls="status"))
    folds += [el("p", problem, cls="status") for problem in problems]
    return el("section", el("h2", "Run notes"), *folds, id="run-notes") if folds else None
