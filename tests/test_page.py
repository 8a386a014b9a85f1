"""The report's page: what it says, that nothing foreign gets in, and how it behaves in a browser."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import browser
import fake_run
import polars as pl
import pytest
from fake_run import HOSTILE, QUOTED, code, display, md, notebook, stream

from birdlab import style
from birdlab.cli import main
from birdlab.errors import DataError
from birdlab.report import chapter, markdown, show
from birdlab.report.render import missing_of, render, render_run

CSS = Path(chapter.__file__).with_name("page.css").read_text(encoding="utf-8")


class Outline(HTMLParser):
    """Headings, ids, links, pictures and every attribute of a page; fails on tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.add(tag)
        self.attributes += attrs
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag == "a":
            self.links.append(str(found.get("href")))
        if tag == "img":
            self.images.append(found)
        if tag not in ("img", "br", "meta", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_run.complete(tmp_path_factory.mktemp("complete") / "feeder")


@pytest.fixture(scope="module")
def page(folder: Path) -> Path:
    return render_run(folder)


@pytest.fixture(scope="module")
def html(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render_run(fake_run.complete(tmp_path_factory.mktemp("broken") / "feeder", detect=fake_run.failed))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.launch() as started:
        yield started


def one(*cells: dict[str, Any], **about: Any) -> str:
    """A page of one notebook."""
    record = {
        "recipe": fake_run.recipe().model_dump(mode="json"),
        "notebooks": [{"name": "02_detection", "status": "complete", **about}],
    }
    return render(record, {"02_detection": notebook(list(cells))})


# what it says


def test_page_is_well_formed_and_holds_nothing_foreign(html: str) -> None:
    outline = Outline(html)
    assert outline.headings[0] == 1 and outline.headings.count(1) == 1
    assert all(b <= a + 1 for a, b in zip(outline.headings, outline.headings[1:], strict=False))
    assert len(outline.ids) == len(set(outline.ids))
    assert all(link.startswith("#") and link[1:] in outline.ids for link in outline.links)
    assert len(outline.images) == 5 and all(
        i.get("alt") and i["width"] and i["height"] and str(i["src"]).startswith("data:image/") for i in outline.images
    )
    assert not [key for key, _ in outline.attributes if key.startswith("on")]
    assert not outline.tags & {"iframe", "object", "embed", "link", "base", "form"}
    assert not re.findall(r"https?://|url\(|@import|//[a-z]+\.", html)
    assert html.count("<style>") == 1 and "bl-lab" not in html.partition("</style>")[2]
    assert html.count("<script") == 1 and "alert(2)" not in html and "<b onclick" not in html


def test_hostile_names_are_text(html: str) -> None:
    assert HOSTILE not in html and QUOTED not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt;") >= 6
    assert HOSTILE in Outline(html).text and QUOTED in Outline(html).text


def test_first_screen(html: str) -> None:
    text = Outline(html).text
    assert "The best detector finds nine birds in ten. The tenth is small or dark." in text
    assert (
        "3 of 3 chapters complete" in text and "2026-05-02" in text and "Made data." in text and "feeder.yaml" in text
    )
    numbers = re.findall(r'<span class="l">(.*?)</span><span class="v">(.*?)</span><span class="i">(.*?)</span>', html)
    assert numbers == [
        ("Average precision", "0.462", "[0.437, 0.486]"),
        ("Birds found", "89.6<small>%</small>", "[83.9, 94.1]"),
        ("Small birds", "–", "undefined"),
    ]
    assert '<span class="d">AP small. No bird is below 32² px</span>' in html
    assert '<span class="d"><span class="m hue-blue">heron</span>, a new session</span>' in html
    assert '<circle cx="65.0" cy="10" r="4.2"/>' in html  # 4 + 132 × 0.4621
    assert 'aria-label="0.462 [0.437, 0.486] on a scale from 0 to 1"' in html


def test_tables_and_figures_are_numbered_in_order_and_references_resolved(html: str) -> None:
    assert re.findall(r"<figcaption><b>(\w+ \d)</b>", html) == ["Table 1", "Table 2", "Figure 1", "Figure 2", "Table 3"]
    assert 'Counts per split; see <a href="#tab-detection">Table 2</a>.' in html
    assert "<code>[[tab-detection]]</code>" in html and "data-no" not in html
    assert "Detection: nothing in this report is called tab-nowhere." in html


def test_status_notes_and_contents(html: str) -> None:
    marks = re.findall(r'<li><a href="#([a-z-]+)"><span class="st ([a-z]+)"', html)
    assert marks == [("data-audit", "complete"), ("detection", "note"), ("summary", "complete")]
    assert '<b>Note.</b> <span class="m hue-vermilion">wren</span> was not asked about 3 frames.' in html
    assert '<p class="lim"><strong>Limits.</strong>' in html


def test_setup_parameters_and_finish_cells_are_hidden_and_code_is_folded(html: str) -> None:
    assert "run.finish()" not in html and "bl.start(" not in html and "reports/demo.yaml" not in html
    folds = re.findall(r"<details><summary>(.*?)</summary><pre tabindex=\"0\"><code>(.*?)</code>", html, re.S)
    assert (
        "Code and files",
        "run.answer(…)\n\nframes = run.table(&#x27;frames&#x27;)\n\nrun.show_table(counts, …)",
    ) in folds
    assert "Saved in the run’s folder: figures/fig-pr (.png, .svg, .pdf, .csv)." in html


def test_foreign_outputs(html: str) -> None:
    assert "safe text &amp; &lt;b&gt;" in html and "An HTML output is left out" in html and "Widget()" not in html
    assert "UserWarning: careful" in html and "…/x/y.py:3" in html and "/opt/env" not in html
    assert "10 %\r" not in html and html.index("UserWarning") > html.index('id="run-notes"')


def test_provenance(html: str) -> None:
    text = Outline(
        html[html.index('id="provenance"') :].partition("</section>")[0].join(["<section ", "</section>"])
    ).text
    for words in ("sha256 4be14be14be14be1", "heron: weights heron.pt", "n_panels = 6", "IoU ≥ 0.5, score ≥ 0.25", "test: 2 times", "python 3.12.1",
                  "commit 3f9c2e13f9c2, with changes that are not committed", "cpu", "2:05 (min:s) in 3 notebooks"):  # fmt: skip
        assert words in text


def test_same_run_same_bytes(folder: Path, page: Path) -> None:
    before = page.read_bytes()
    assert render_run(folder).read_bytes() == before
    moved = folder.parent / "elsewhere"
    moved.mkdir()
    for name in ("run.json", "notebooks", "records", "tables", "figures"):
        (moved / name).symlink_to(folder / name)
    assert render_run(moved).read_bytes() == before
    assert not list(folder.glob(".*tmp")) and str(folder) not in before.decode()


def test_failed_notebook(broken: Path) -> None:
    html = broken.read_text(encoding="utf-8")
    outline = Outline(html)
    assert (
        "Detection did not finish. ValueError: bad <b>box</b>" in outline.text
        and '<a href="#detection-failed">' in html
    )
    assert '<pre tabindex="0"><code>raise ValueError(&quot;bad &lt;b&gt;box&lt;/b&gt;&quot;)</code>' in html
    assert html.index("did not finish") < html.index('class="meta"')
    assert (
        "1 cell after this point did not run." in outline.text
        and "never()" in html
        and "1 of 3 chapters complete" in outline.text
    )
    assert "someone" not in html and "\x1b" not in html and "This chapter has not been run" in outline.text
    assert "This notebook did not run to its end" not in html  # the page has a banner of its own
    assert 'class="lead">Yes. No session' in html  # never the answer of a chapter that failed


def test_dead_kernel_without_any_output() -> None:
    record = {
        "notebooks": [
            {
                "name": "02_detection",
                "status": "failed",
                "error": {"ename": "DeadKernel", "evalue": "the kernel died", "where": "cell 4"},
            }
        ]
    }
    html = render(record, {})
    assert "DeadKernel in cell 4" in html and 'id="detection-failed"' in html and "not recorded" in html


def test_a_bare_record_renders() -> None:
    assert Outline(render({}, {})).headings[0] == 1
    bare = Outline(render({"notebooks": {"02_detection": {"status": "complete"}}, "recipe": None, "git": None}, {}))
    assert "provenance" in bare.ids
    odd = [None, {"name": "a/b"}, {"name": "x"}, {"name": "01_x"}]
    assert "provenance" in Outline(render({"notebooks": odd}, {"x": {"cells": [{}]}})).ids


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"run\.json.*\. `birdlab run RECIPE` writes it"):
        render_run(tmp_path)
    (tmp_path / "run.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError):
        render_run(tmp_path)
    with pytest.raises(DataError, match="found a file; expected the folder of a run"):
        render_run(tmp_path / "run.json")


def test_a_folder_whose_files_were_changed_by_hand(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder, run)
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    executed = run / "notebooks" / "02_detection.ipynb"
    output = {"cell_type": "code", "source": "x", "outputs": [{"data": {"text/html": 5}}]}
    for cell in (3, {"cell_type": "markdown", "source": 5}, output):
        executed.write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
        with pytest.raises(DataError, match=r"02_detection\.ipynb: found cell 1 .*expected a notebook as Jupyter"):
            render_run(run)
    (run / "run.json").write_text(json.dumps(record | {"recipe": {"scoring": 5}}), encoding="utf-8")
    with pytest.raises(DataError, match=r"run\.json: found recipe\.scoring that is int"):
        render_run(run)
    (run / "run.json").write_text(json.dumps(record), encoding="utf-8")
    executed.unlink()
    (run / "records" / "02_detection.json").write_text('{"entries": [3]}', encoding="utf-8")
    assert render_run(run).exists()


def test_what_a_run_has_lost_is_said_and_counted(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder, run)
    assert missing_of(run) == [] and main(["report", str(run)]) == 0
    (run / "tables" / "tab-splits.parquet").unlink()
    (run / "records" / "10_summary.json").unlink()
    assert main(["report", str(run)]) == 3
    text = Outline((run / "report.html").read_text(encoding="utf-8")).text
    assert "3 of 3 chapters complete, 2 files missing" in text
    assert "tables/tab-splits (.csv, .tex; missing now: .parquet)" in text
    assert "Missing from the run’s folder: records/10_summary.json." in text
    shutil.rmtree(run / "notebooks")
    shutil.rmtree(run / "records")
    capsys.readouterr()
    assert main(["report", str(run)]) == 3
    told = capsys.readouterr()
    assert told.out.endswith("3 files of the run missing; the page was written and says so\n")
    assert told.err.count("no such file; expected the executed notebook of a chapter. Run the recipe again") == 3
    text = Outline((run / "report.html").read_text(encoding="utf-8")).text
    assert "0 of 3 chapters complete, 3 files missing" in text and text.count("its executed notebook is missing") == 3


@pytest.mark.parametrize("code_", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_closed_disk_is_one_line(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code_: int
) -> None:
    before = page.read_bytes()

    def refuse(*_: Any, **__: Any) -> int:
        raise OSError(code_, os.strerror(code_))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", refuse)
        assert main(["report", str(page.parent)]) == 2
    assert capsys.readouterr().err.startswith(f"birdlab: {page}: found {os.strerror(code_)}; expected")
    assert page.read_bytes() == before and not list(page.parent.glob("*.tmp"))


# cells


@pytest.mark.parametrize(
    "source",
    ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a <b onclick=alert(1)>b</b>", "[x](javascript:alert(1))", "![x](https://example.org/x.png)",
     r"$\text{<img src=x onerror=alert(1)>}$", "$<script>alert(1)</script>$", r"$\href{javascript:alert(1)}{x}$", '![a"onerror=alert(1) x="](attachment:x)'],
)  # fmt: skip
def test_markdown_cannot_smuggle(source: str) -> None:
    outline = Outline(markdown.to_html(source, attachments={"x": {"image/png": "AAAA"}}))
    assert not outline.tags & {"script", "iframe"} and not [k for k, _ in outline.attributes if k.startswith("on")]
    assert all(link.startswith("#") for link in outline.links)
    assert all(str(i["src"]).startswith("data:") for i in outline.images)


def test_markdown_math_links_and_tables() -> None:
    html = markdown.to_html(
        "Costs $5 and $6, $a_b$, [paper](https://doi.org/10.1/x).\n\n$$\nR = \\frac{a}{b}\n$$\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n"
    )
    assert (
        "Costs $5 and $6, <math" in html
        and "<msub><mi>a</mi><mi>b</mi></msub>" in html
        and "paper (doi.org/10.1/x)" in html
    )
    assert '<math display="block">' in html and "<mfrac>" in html and "xmlns" not in html and "<td>1</td>" in html
    assert markdown.math(r"\frac{") == r"<code>\frac{</code>"


def test_headings_are_fitted_into_the_outline() -> None:
    html = one(md("# Title\n\n#### Deep\n\n# Again\n\n### Three"), md("###### Six"))
    assert Outline(html).headings == [1, 2, 2, 3, 3, 4, 5, 2] and "Title" in html


def test_pictures_and_long_text_of_other_cells() -> None:
    html = one(
        code("a", display(image__png="iVBORw0K\n<x>")),
        code("b", {"output_type": "display_data", "metadata": {}, "data": {"image/svg+xml": "<svg onload=alert(1)>"}}),
        code("c", {"output_type": "execute_result", "metadata": {}, "data": {"text/plain": ["x" * 30_000]}}),
        code("d", {"output_type": "display_data", "metadata": {}, "data": {"text/latex": "$\\displaystyle x^2$"}}),
    )
    assert (
        'src="data:image/png;base64,iVBORw0Kx"' in html
        and "onload" not in html
        and "10,000 more characters" in html
        and "<msup>" in html
    )


def test_paths_are_shortened() -> None:
    text = chapter.clean_text(
        'File "/srv/a/b/c/d.py", line 3\n/' + "root/x and C:\\Users\\me\\proj\\a\\b.py at and/or 3/4/2026"
    )
    assert text == 'File "…/c/d.py", line 3\n~/x and C:\\Users\\me\\proj\\a\\b.py at and/or 3/4/2026'.replace(
        "C:\\Users\\me\\proj\\", "…/"
    )


def test_an_own_output_cannot_be_forged_by_data(tmp_path: Path) -> None:
    run = fake_run.open_run(tmp_path / "r", "02_detection")
    shown = show.note(run, "<!--/shown--><script>alert(1)</script><!--shown-->")
    html = one(code("n", shown, stream("<script>alert(1)</script>\n", "stdout")))
    assert html.count("<script") == 1 and "&lt;!--/shown--&gt;" in html


def test_a_name_that_looks_like_a_reference_stays_a_name(tmp_path: Path) -> None:
    run = fake_run.open_run(tmp_path / "r", "02_detection")
    frame = pl.DataFrame({"session": ["[[tab-x]]", "b"], "[[fig-y]]": [1, 2]})
    table = show.show_table(run, frame, id="tab-x", title="Two sessions.", caption="As [[tab-x]] says.")
    html = one(code("n", table))
    heads = " ".join(re.findall(r"<th[^>]*>.*?</th>", unescape(html)))
    assert "[[tab-x]]" in heads and "[[fig-y]]" in heads
    assert 'As <a href="#tab-x">Table 1</a> says.' in html


@pytest.mark.browser
def test_a_long_title_without_a_blank_does_not_stick_out(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(render({"notebooks": [], "recipe": {"name": "nest_box_" * 9}}, {}), encoding="utf-8")
    with browser.opened(chromium, path, width=375) as (tab, _):
        assert tab.evaluate("document.scrollingElement.scrollWidth") <= 375


def test_six_headlines_and_the_summary_first(tmp_path: Path) -> None:
    run = fake_run.open_run(tmp_path / "r", "02_detection")
    record = {
        "notebooks": [{"name": "02_detection", "status": "complete"}, {"name": "10_summary", "status": "complete"}]
    }
    first = notebook([code("h", *[show.headline(run, f"N{i}", i / 10) for i in range(6)])])
    html = render(
        record, {"02_detection": first, "10_summary": notebook([code("h", show.headline(run, "Top", -2.0, hi=None))])}
    )
    assert re.findall(r'<span class="l">(.*?)</span>', html) == ["Top", "N0", "N1", "N2", "N3"] and "−2.000" in html


# colours


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    hi, lo = sorted((luminance(a), luminance(b)), reverse=True)
    return (hi + 0.05) / (lo + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_colours_have_contrast(scheme: str) -> None:
    blocks = re.findall(r":root\{(.*?)\}", CSS, re.S)
    values = dict(re.findall(r"--([a-z-]+):(#[0-9A-Fa-f]{6})", blocks[0 if scheme == "light" else 1]))
    text = ["ink", "soft", "alarm", *(name for name in values if name.startswith("hue-"))]
    assert len(text) == 11
    for name in text:
        for ground in ("bg", "tint"):
            assert contrast(values[name], values[ground]) >= 4.5, (scheme, name, ground)
    for hue in (*style.HUES, style.NEUTRAL):
        assert values[hue.css_class].upper() == (hue.on_light if scheme == "light" else hue.on_dark).upper()


# in a browser


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_browser_is_quiet_and_nothing_sticks_out(
    chromium: Any, page: Path, broken: Path, width: int, dark: bool
) -> None:
    for path in (page, broken):
        with browser.opened(chromium, path, width=width, dark=dark) as (tab, wrong):
            assert tab.evaluate("document.scrollingElement.scrollWidth") <= width
            assert tab.evaluate("[...document.images].every(i => i.alt && i.complete && i.naturalWidth > 0)")
            ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
            assert ground == ("rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)")
            assert wrong == []


@pytest.mark.browser
def test_one_drawing_per_width(chromium: Any, page: Path) -> None:
    seen = "[...document.querySelectorAll('#fig-pr img')].filter(i => i.offsetWidth).map(i => i.className)"
    for width, drawing in ((1280, "wide"), (375, "narrow")):
        with browser.opened(chromium, page, width=width) as (tab, _):
            assert tab.evaluate(seen) == [drawing]
            tab.emulate_media(media="print")
            assert tab.evaluate(seen) == ["wide"]


@pytest.mark.browser
def test_a_wide_table_scrolls_in_its_own_box_with_its_first_column_fixed(chromium: Any, page: Path) -> None:
    with browser.opened(chromium, page, width=375) as (tab, _):
        box = "document.querySelector('#tab-wide .bl-tw')"
        assert tab.evaluate(f"{box}.scrollWidth > {box}.clientWidth")
        left = f"{box}.querySelector('tbody th').getBoundingClientRect().left"
        before = tab.evaluate(left)
        tab.evaluate(f"{box}.scrollLeft = 200")
        assert tab.evaluate(left) == before and tab.evaluate(f"{box}.scrollLeft") == 200


@pytest.mark.browser
def test_sorting(chromium: Any, page: Path) -> None:
    with browser.opened(chromium, page) as (tab, wrong):
        column = "[...document.querySelectorAll('#tab-detection tbody tr')].map(r => r.cells[4].textContent)"
        assert tab.evaluate(column) == ["178.0", "24.3", "82.6", "–b"]
        button = tab.locator("#tab-detection thead button").nth(4)
        button.focus()
        tab.keyboard.press("Enter")
        assert tab.evaluate(column) == ["178.0", "82.6", "24.3", "–b"]  # the published row stays last
        assert tab.locator("#tab-detection thead th").nth(4).get_attribute("aria-sort") == "descending"
        button.click()
        assert tab.evaluate(column) == ["24.3", "82.6", "178.0", "–b"]
        rows = "[...document.querySelectorAll('#tab-wide tbody th')].map(r => r.textContent)"
        for _ in range(2):  # undefined last, in either direction
            tab.locator("#tab-wide thead button").nth(1).click()
            assert tab.evaluate(rows) == ["b", "a"]
        assert wrong == []


@pytest.mark.browser
def test_page_reads_without_javascript_and_by_keyboard(chromium: Any, page: Path) -> None:
    with browser.opened(chromium, page, javascript=False) as (tab, wrong):
        assert tab.locator("h2").count() == 6 and tab.locator("#tab-detection tbody tr").count() == 4
        assert tab.locator("thead button").count() == 0 and tab.locator("details").first.is_visible()
        tab.keyboard.press("Tab")
        skip = tab.locator(".skip")
        assert skip.evaluate("e => e === document.activeElement && e.getBoundingClientRect().left >= 0")
        tab.keyboard.press("Enter")
        assert tab.url.endswith("#main") and wrong == []


@pytest.mark.browser
def test_boxes_are_drawn_over_the_picture(chromium: Any, page: Path) -> None:
    with browser.opened(chromium, page) as (tab, _):
        rect = tab.evaluate(
            "(() => { const p = document.querySelector('#gal-errors .full .ph'), r = p.querySelector('rect.k').getBoundingClientRect(),"
            " i = p.querySelector('img').getBoundingClientRect(); return [(r.left - i.left) / i.width, (r.top - i.top) / i.height, r.width / i.width]; })()"
        )
        assert rect == pytest.approx([40 / 900, 60 / 180, 60 / 900], abs=0.003)
        assert tab.locator("#gal-errors svg[viewBox] rect.k").count() == 3


def test_no_browser_is_a_failure_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception):
        browser.missing("none")
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception):
        browser.missing("none")


def test_records_hold_json(folder: Path) -> None:
    names = sorted(p.name for p in (folder / "records").iterdir())
    assert names == ["00_data_audit.json", "02_detection.json", "10_summary.json"]
    assert all(json.loads((folder / "records" / n).read_text(encoding="utf-8"))["complete"] for n in names)


def test_weights_are_named_with_their_hash() -> None:
    from birdlab.report.provenance import _file_hash

    hashes = {
        "../weights/heron.pt": "a1",
        "models/wren/wren.bin": "b2",
        "models/wren/wren.xml": "c3",
        "models/two/a.pt": "d4",
        "models/two/b.pt": "e5",
    }
    asked = [
        "weights/heron.pt",
        "../weights/heron.pt",
        "models/wren",
        "birdlab:heron",
        "models/two",
        "eron.pt",
        "",
        "none.pt",
    ]
    assert [_file_hash(path, hashes) for path in asked] == ["a1", "a1", "b2", "a1", None, None, None, None]
