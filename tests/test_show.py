"""What notebooks show: cells, bold, notes, files, records, escaping."""

from __future__ import annotations

import base64
import doctest
import importlib
import json
import re
from pathlib import Path

import fake_run
import numpy as np
import polars as pl
import pytest
from fake_run import COLUMNS, HOSTILE, PUBLISHED, QUOTED
from hypothesis import given
from hypothesis import strategies as st

from birdlab import style
from birdlab.errors import ParameterError
from birdlab.report import entries, show, table
from birdlab.report.html import Html, el, esc, in_text, join, link_references, plain, rich
from birdlab.report.show import Box, Col, Panel


@pytest.fixture
def run(tmp_path: Path):
    return fake_run.open_run(tmp_path / "feeder", "02_detection")


def rows_of(html: str) -> list[list[str]]:
    """Text of every cell of every body row."""
    body = html.partition("</thead>")[2]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", body)]
    return [[re.sub("<[^>]+>", "", cell) for cell in row] for row in cells]


# html


@given(st.text())
def test_escaped_text_holds_no_markup(text: str) -> None:
    assert not set(esc(text)) & set("<>\"'\x00\u202e")
    esc(text).encode("utf-8")


def test_elements_escape_children_and_attributes() -> None:
    assert (
        el("td", "<b>", Html("<i>x</i>"), None, title='"', hidden=True, lang=None)
        == '<td title="&quot;" hidden>&lt;b&gt;<i>x</i></td>'
    )
    assert el("rect", x=1) == '<rect x="1"/>'
    assert join("<", Html("<")) == "&lt;<"
    assert esc("a\udcffb") == "a?b"


def test_rich_text_colours_models_and_greys_intervals() -> None:
    hues = style.model_colours(["heron", HOSTILE])
    html = rich(f"{show.m('heron')} [0.437, 0.486] and {show.m(HOSTILE)} [−3.1 %, 2 %] at [[tab-x]]", hues)
    assert '<span class="m hue-blue">heron</span> <span class="iv">[0.437, 0.486]</span>' in html
    assert '<span class="m hue-vermilion">&lt;img src=x onerror=alert(1)&gt;</span>' in html
    assert '<span class="iv">[−3.1 %, 2 %]</span>' in html and "[[tab-x]]" in html
    assert plain(show.m("heron") + " leads") == "heron leads"


def test_references_are_linked_in_text_and_spelt_out_in_attributes() -> None:
    labels = {"tab-a": "Table 1"}
    html = '<img alt="see [[tab-a]]"> [[tab-a]] [[tab-b]] <code>[[tab-a]]</code>'
    linked = link_references(html, lambda i: el("a", labels[i], href=f"#{i}") if i in labels else None, labels.get)
    assert linked == '<img alt="see Table 1"> <a href="#tab-a">Table 1</a> [[tab-b]] <code>[[tab-a]]</code>'
    assert in_text("<a>x</a>", str.upper) == "<a>X</a>"


# style


def test_colours_are_fixed_by_order_and_change_pattern_after_seven() -> None:
    hues = style.model_colours([str(i) for i in range(9)])
    assert [h.line for h in hues.values()][:3] == ["#0072B2", "#D55E00", "#009E73"]
    assert (hues["7"].css_class, hues["7"].dash) == ("hue-blue", "--")
    assert len({(h.line, h.dash) for h in hues.values()}) == 9
    with pytest.raises(ParameterError):
        style.model_colour(-1)


def test_palette_keeps_frequent_colours_exactly() -> None:
    pixels = np.zeros((20, 20, 3), np.uint8)
    pixels[:10] = (0, 114, 178)
    pixels[10:19] = (255, 255, 255)
    pixels[19] = np.arange(60).reshape(20, 3)
    indices, palette = style.exact_palette(pixels, 2)
    back = palette[indices]
    assert (back[:19] == pixels[:19]).all()
    assert {tuple(c) for c in palette.tolist()} == {(0, 114, 178), (255, 255, 255)}


def test_names_in_figures_are_text_never_formulas() -> None:
    import matplotlib.pyplot as plt

    with style.rc():
        figure, axes = plt.subplots()
        axes.set_yticks([0, 1], ["site $\\nosuch$", "$x^2$"])  # as a formula the first one is an error
        assert style.png_bytes(figure, dpi=50)
        plt.close(figure)


def test_drawing_settings_do_not_leak() -> None:
    import matplotlib as mpl

    before = mpl.rcParams["font.size"]
    with style.rc(3.4):
        assert mpl.rcParams["font.size"] == 8 and mpl.rcParams["figure.figsize"][0] == 3.4
    assert mpl.rcParams["font.size"] == before


# tables


@pytest.mark.parametrize(
    ("value", "places", "text"),
    [
        (0.46214, 3, "0.462"),
        (-13.06, 1, "−13.1"),
        (-0.0004, 3, "0.000"),
        (1240, 0, "1,240"),
        (float("-inf"), 1, "−∞"),
        (-0.5, 0, "0"),
        (-1.5, 0, "−2"),
    ],
)
def test_numbers(value: float, places: int, text: str) -> None:
    assert table.number(value, places) == text


def test_an_end_with_a_sign_is_not_joined_by_a_dash(run) -> None:
    frame = pl.DataFrame(
        {"x": ["a", "b", "c"], "d": [-20.0, 0.02, 3.0], "d_lo": [-48.3, -0.001, 2.0], "d_hi": [-0.8, 4.0, 4.0]}
    )
    html = show.show_table(run, frame, id="tab-d", caption="c", columns={"d": Col("Δ", digits=1)}, row_label="x").html
    assert rows_of(html) == [["a", "−20.0−48.3 to −0.8"], ["b", "0.00.0–4.0"], ["c", "3.02.0–4.0"]]


def test_a_p_value_is_never_printed_as_zero(run) -> None:
    frame = pl.DataFrame({"x": ["a", "b", "c", "d"], "p": [0.0, 0.00049, 0.001, 0.6]})
    columns = {"p": Col("p", kind="p")}
    html = show.show_table(run, frame, id="tab-d", caption="c", columns=columns, row_label="x").html
    assert [r[1] for r in rows_of(html)] == ["&lt;\u202f0.001", "&lt;\u202f0.001", "0.001", "0.600"]


def test_table_prints_intervals_best_values_and_reasons(run) -> None:
    html = show.show_table(
        run,
        fake_run.detection_frame(),
        id="tab-d",
        caption="c",
        columns=COLUMNS,
        published=PUBLISHED,
        model_column="model",
    ).html
    heron, wren, hostile, printed = rows_of(html)
    assert heron == ["heronlarger", "0.4620.437–0.486", "–a", "89.6", "178.0", "1,618"]
    assert wren[4] == "24.3" and hostile[0].startswith("&lt;img") and "nest &quot;7&quot; &amp; &lt;b&gt;" in hostile[0]
    assert printed == ["Referenceas published", "0.999", "–b", "–b", "–b", "–b"]
    assert re.findall(r"<b>([\d.]+)</b>", html) == ["0.462", "89.6", "24.3"]  # not the published 0.999
    assert "<sup>a</sup> Undefined: no bird is below 32² px." in html and "<sup>b</sup> Not reported." in html
    assert html.index('class="pub"') > html.index("wren") and "AP\u202f↑<small>IoU .50–.95</small>" in html
    assert (
        'data-v="0.4621"' in html and 'class="bl-t sortable"' in html and "<script" not in html and "<img" not in html
    )


def test_best_is_sought_among_models_of_the_recipe_and_by_what_is_printed(run) -> None:
    frame = pl.DataFrame({"model": ["heron", "wren", "human"], "ap": [0.50004, 0.50001, 0.9]})
    html = show.show_table(
        run, frame, id="tab-d", caption="c", columns={"ap": Col("AP", better="up")}, model_column="model"
    ).html
    assert "<b>0.5" not in html  # equal as printed: nobody leads
    frame = pl.DataFrame({"model": ["heron", "wren", "human"], "ap": [0.50004, 0.40001, 0.9]})
    html = show.show_table(
        run, frame, id="tab-d", caption="c", columns={"ap": Col("AP", better="up")}, model_column="model"
    ).html
    assert re.findall(r"<b>([\d.]+)</b>", html) == ["0.500"]
    html = show.show_table(run, frame, id="tab-d", caption="c", columns={"ap": Col("AP", better="up")}).html
    assert re.findall(r"<b>([\d.]+)</b>", html) == []


def test_best_within_groups(run) -> None:
    frame = pl.DataFrame({"site": ["a", "a", "b", "b"], "model": ["heron", "wren"] * 2, "ap": [0.1, 0.2, 0.4, 0.3]})
    columns = {"site": Col("Site", kind="text"), "ap": Col("AP", better="up", digits=1)}
    html = show.show_table(
        run, frame, id="tab-d", caption="c", columns=columns, model_column="model", best_within="site"
    ).html
    assert re.findall(r"<b>([\d.]+)</b>", html) == ["0.2", "0.4"]


def test_a_null_without_a_reason_says_so_and_nan_is_undefined(run) -> None:
    frame = pl.DataFrame({"name": ["a", "b"], "x": [None, float("nan")]}, schema_overrides={"x": pl.Float64})
    html = show.show_table(run, frame, id="tab-d", caption="c").html
    assert html.count("–<sup>a</sup>") == 2 and table.NO_REASON in html and 'data-v=""' in html


def test_a_missing_interval_is_explained(run) -> None:
    frame = pl.DataFrame(
        {"site": ["a"], "r": [0.5], "r_lo": [None], "r_hi": [None], "r_reason": ["one session"]},
        schema_overrides={"r_lo": pl.Float64, "r_hi": pl.Float64},
    )
    html = show.show_table(run, frame, id="tab-d", caption="c").html
    assert rows_of(html) == [["a", "0.500a"]] and "No interval: one session." in html


def test_empty_and_wide_tables(run) -> None:
    assert (
        "Nothing to list."
        in show.show_table(run, pl.DataFrame(schema={"a": pl.String, "b": pl.Float64}), id="tab-d", caption="c").html
    )
    wide = pl.DataFrame({f"c{i}": [1] for i in range(9)})
    assert 'class="bl-t wide"' in show.show_table(run, wide, id="tab-e", caption="c").html


def test_table_mistakes_are_listed_together(run) -> None:
    with pytest.raises(ParameterError) as caught:
        show.show_table(
            run, fake_run.detection_frame(), id="tab-d", caption="c", columns={"app": Col("x"), "recal": Col("y")}
        )
    assert [p.found for p in caught.value.problems] == ["'app'", "'recal'"]
    with pytest.raises(ParameterError, match="notes, row_label"):
        show.show_table(run, fake_run.detection_frame(), id="tab-d", caption="c", footnote="x")


def test_table_files(run) -> None:
    frame = fake_run.detection_frame().with_columns(tags=pl.Series([["a", "b"], [], ["c"]]))
    show.show_table(
        run,
        frame,
        id="tab-d",
        caption="{model:heron} & 5 %",
        columns=COLUMNS,
        published=PUBLISHED,
        model_column="model",
    )
    saved = pl.read_parquet(run.dir / "tables" / "tab-d.parquet")
    assert saved["is_published"].to_list() == [False] * 3 + [True] and saved["ap"][0] == 0.4621
    csv = pl.read_csv(run.dir / "tables" / "tab-d.csv")
    assert csv["tags"].to_list() == ["a|b", "", "c", None] and csv["model"][2] == HOSTILE
    latex = (run.dir / "tables" / "tab-d.tex").read_text(encoding="utf-8")
    assert r"\caption{heron \& 5 \%}\label{tab-d}" in latex
    assert r"heron & \textbf{0.462} {\scriptsize 0.437--0.486} & --\textsuperscript{a} & \textbf{89.6}" in latex
    assert r"\textit{Reference} & \textit{0.999}" in latex and r"\textsuperscript{b} Not reported." in latex
    assert latex.count(r"\begin{tabular}{lrrrrr}") == 1


# figures


def test_figure_is_drawn_twice_saved_and_closed(run) -> None:
    import matplotlib.pyplot as plt
    from PIL import Image

    widths = []

    def draw(frame: pl.DataFrame, narrow: bool, colour: str) -> object:
        figure, axes = plt.subplots()
        widths.append((narrow, figure.get_size_inches()[0], colour))
        axes.plot(frame["x"], frame["y"], color=colour)
        return figure

    frame = pl.DataFrame({"x": [0, 1], "y": [1.5, 2.5]})
    shown = show.show_figure(
        run, draw, frame, id="fig-a", caption="c", title="t", alt=QUOTED, width_in=6.0, colour="#D55E00"
    )
    assert widths == [(False, 6.0, "#D55E00"), (True, 3.4, "#D55E00")] and not plt.get_fignums()
    assert re.findall(r'class="(wide|narrow)" width="(\d+)"', shown.html) == [("wide", "600"), ("narrow", "340")]
    assert shown.html.count('alt="nest &quot;7&quot; &amp; &lt;b&gt;sons&lt;/b&gt;.jpg"') == 2
    folder = run.dir / "figures"
    assert sorted(p.name for p in folder.iterdir()) == [
        "fig-a-narrow.png",
        "fig-a.csv",
        "fig-a.pdf",
        "fig-a.png",
        "fig-a.svg",
    ]
    assert pl.read_csv(folder / "fig-a.csv").equals(frame)
    with Image.open(folder / "fig-a.png") as image:
        assert (image.mode, image.size[0]) == ("P", 1200) and set(image.info) <= {"dpi"}
        assert (213, 94, 0) in {colour for _, colour in image.convert("RGB").getcolors(1 << 20)}
    inline = base64.b64decode(re.search(r"base64,([^\"]+)", shown.html)[1])
    assert inline == (folder / "fig-a.png").read_bytes()


def test_figure_files_are_the_same_every_time(run) -> None:
    about = {"id": "fig-a", "caption": "c", "title": "t", "alt": "a"}
    first = show.show_figure(run, fake_run.draw_curves, fake_run.curves_frame(), **about).html
    before = {p.name: p.read_bytes() for p in (run.dir / "figures").iterdir()}
    again = show.show_figure(run, fake_run.draw_curves, fake_run.curves_frame(), **about).html
    assert first == again and before == {p.name: p.read_bytes() for p in (run.dir / "figures").iterdir()}
    assert (
        b"matplotlib" not in before["fig-a.png"].lower()
        and b"<dc:date>" not in before["fig-a.svg"]
        and b"CreationDate" not in before["fig-a.pdf"]
    )


def test_a_figure_needs_alt_text_and_the_right_width(run) -> None:
    import matplotlib.pyplot as plt

    with pytest.raises(ParameterError, match="no alt"):
        show.show_figure(
            run, fake_run.draw_curves, fake_run.curves_frame(), id="fig-a", caption="c", title="t", alt=" "
        )
    with pytest.raises(ParameterError, match="a narrow drawing 8.00 in wide"):
        show.show_figure(
            run,
            lambda f, narrow: plt.figure(figsize=(8, 3)),
            pl.DataFrame({"x": [1]}),
            id="fig-a",
            caption="c",
            title="t",
            alt="a",
        )
    assert not plt.get_fignums()


# galleries


def test_gallery_marks_key_and_files(run) -> None:
    panels = [
        Panel(
            fake_run.jpeg(),
            300,
            200,
            [Box(10, 20.25, 30, 40, "miss", HOSTILE), Box(0, 0, 5, 5, "hit")],
            "**1 of 2 missed.** x < y",
            QUOTED,
        ),
        Panel(fake_run.jpeg(), 300, 200, [], "", "a bird", "big", [("mask", [(1, 2), (3, 4.5), (5, 6)])]),
    ]
    html = show.show_gallery(run, panels, id="gal-a", caption="c", title="t", alt="two pictures").html
    assert (
        html.count("<img ") == 2 and HOSTILE not in html and 'width="300" height="200" alt="nest &quot;7&quot;' in html
    )
    assert (
        '<rect x="10" y="20.2" width="30" height="40" class="k" stroke="#F0E442" stroke-width="2.2" stroke-dasharray="6 3.5"/>'
        in html
    )
    assert html.index('class="c"') < html.index('class="k"')  # the dark casing lies below
    assert '<polygon points="1,2 3,4.5 5,6"' in html and 'viewBox="0 0 300 200"' in html
    assert re.findall(r"</svg> ([a-z ]+)</span>", html) == ["found", "missed", "outline"]
    assert "<b>1 of 2 missed.</b> x &lt; y" in html and '<li class="big">' in html
    saved = json.loads((run.dir / "figures" / "gal-a.json").read_text(encoding="utf-8"))
    assert saved[0]["boxes"][0] == {"x": 10, "y": 20.25, "w": 30, "h": 40, "kind": "miss", "text": HOSTILE}
    assert (run.dir / "figures" / saved[1]["file"]).read_bytes() == panels[1].image_jpeg


def test_gallery_mistakes_are_listed_together(run) -> None:
    panels = [
        Panel(b"GIF89a", 3, 2, [Box(0, 0, 1, 1, "found")], alt=""),
        Panel(fake_run.jpeg(), 0, 2, alt="x", size="huge"),
    ]
    with pytest.raises(ParameterError) as caught:
        show.show_gallery(run, panels, id="gal-a", caption="c", title="t", alt="a")
    assert [p.code for p in caught.value.problems] == ["not_jpeg", "no_alt", "unknown_kind", "bad_size", "bad_size"]
    assert "No picture to show." in show.show_gallery(run, [], id="gal-a", caption="c", title="t", alt="a").html


# records


def test_what_was_shown_is_recorded_in_order_and_showing_again_replaces(run) -> None:
    show.answer(run, "q?", "No.", "d")
    frame = pl.DataFrame({"a": ["x"]})
    show.show_table(run, frame, id="tab-a", caption="first")
    show.note(run, "careful")
    show.show_table(run, frame, id="tab-a", caption="second")
    show.headline(run, "AP", float("nan"), lo=0.1, reference=0.4)
    before = entries.read_record(run.dir, run.notebook)
    assert not before["complete"] and [e["kind"] for e in before["entries"]] == ["answer", "table", "note", "headline"]
    show.finish(run)
    record = entries.read_record(run.dir, run.notebook)
    assert record["complete"] and record["entries"][1]["caption"] == "second" and record["entries"][3]["value"] is None
    assert record["entries"][1]["sha256"] == entries.sha256_of(run.dir / record["entries"][1]["path"])
    assert [p.name for p in (run.dir / "records").iterdir()] == ["02_detection.json"]
    show.begin(run)
    assert entries.read_record(run.dir, run.notebook) == record
    assert entries.read_record(run.dir, "99_none") == {"notebook": "99_none", "complete": False, "entries": []}


def test_an_id_belongs_to_one_notebook(run, tmp_path: Path) -> None:
    show.show_table(run, pl.DataFrame({"a": ["x"]}), id="tab-a", caption="c")
    other = fake_run.open_run(tmp_path / "feeder", "10_summary")
    with pytest.raises(ParameterError, match="10_summary and in 02_detection"):
        show.show_table(other, pl.DataFrame({"a": ["x"]}), id="tab-a", caption="c")
    gone = fake_run.open_run(tmp_path / "feeder", "10_summary", notebooks=["10_summary"])
    show.show_table(gone, pl.DataFrame({"a": ["x"]}), id="tab-a", caption="c")  # the other is no longer in the recipe


@pytest.mark.parametrize("ident", ["detection", "tab_detection", "fig-a", "tab-", "tab-A", 'tab-a"b'])
def test_ids_are_plain(run, ident: str) -> None:
    with pytest.raises(ParameterError, match="tab-name"):
        show.show_table(run, pl.DataFrame({"a": ["x"]}), id=ident, caption="c")


def test_shown_is_for_jupyterlab_and_for_the_page(run) -> None:
    shown = show.show_table(run, pl.DataFrame({"a": ["x"]}), id="tab-a", title="T {model:heron}", caption="c")
    bundle = shown._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain", entries.MIME} and bundle["text/plain"] == "table tab-a: T heron"
    assert (
        bundle["text/html"].count(entries.BEGIN) == 1
        and ".bl-t" in bundle["text/html"]
        and "prefers-color-scheme" not in bundle["text/html"]
    )
    json.dumps(bundle)


def test_headline_in_words(run) -> None:
    html = show.headline(run, "AP", 0.4621, lo=0.437, hi=0.486).html
    assert "0.462 [0.437, 0.486]" in html
    assert "– (too few birds)" in show.headline(run, "AP small", None, reason="too few birds").html
    with pytest.raises(ParameterError, match="scale, reference"):
        show.headline(run, "AP", 0.4, colour="red")


@pytest.mark.parametrize("name", ["style", *(f"report.{n}" for n in "html table show chapter frame markdown".split())])
def test_examples_in_docstrings(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"birdlab.{name}"))
    assert found.attempted >= 1 and found.failed == 0


def test_show_needs_no_heavy_library() -> None:
    import subprocess
    import sys

    code = "import sys, birdlab.report.render; print([m for m in ('torch','matplotlib','cv2','nbconvert','hotcoco','PIL') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
