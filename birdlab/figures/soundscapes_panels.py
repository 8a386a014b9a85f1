"""Figures of soundscapes by place and time, what was recorded, and what was said instead.

Drawn from saved tables and nothing else. Maps are grey, dark is much: colours belong to runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl
import polars.selectors as cs

from birdlab import style
from birdlab.figures import sheet
from birdlab.figures.difficulty import RAMP, _ink
from birdlab.figures.sheet import PT, Lay
from birdlab.figures.soundscapes_heat import Axis, Block, draw_blocks
from birdlab.readers.files import natural_key

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Recorders that are drawn: those with most recordings.
MOST_RECORDERS = 25
#: Recordings up to which their number is written into a cell.
FEW = 9
#: Months between the first and the last up to which those without a recording are drawn too.
MOST_MONTHS = 24
METRICS = {"cmap": "c-mAP", "top1": "first is right", "recall": "recall, score ≥ 0.5"}
UNKNOWN = "not said"
_CELL_IN, _TALL_IN = 0.34, 0.22
_MOST_NAMES, _MOST_NAMES_NARROW = 14, 7


# --- when and where ---------------------------------------------------------------------------------------------------


def fig_when_where(
    frame: pl.DataFrame,
    *,
    run: str | None = None,
    metric: str = "cmap",
    models: Sequence[str] = (),
    narrow: bool = False,
) -> Figure:
    """A run's score by recorder and local hour, and beside it the number of recordings; bars: all hours, all recorders.

    Hatched: no recording. A dot: nothing is heard there. Numbers up to 9 are written where they fit: such scores are of few
    recordings.

    Args:
        frame: table ``soundscape_panels``.
        run: whose; without it the first in the frame, which is named where there are several.
        metric: ``cmap``, ``top1`` or ``recall``.
        models: not used: maps are grey.
    """
    width = style.NARROW_IN if narrow else style.WIDE_IN
    head, rows = _of_run(frame, run)
    with style.rc(width):
        known = rows.filter(pl.col("n_recordings") > 0, pl.col("recorder").is_not_null() | pl.col("hour").is_not_null())
        if known.is_empty():
            return sheet.empty(width, "Neither recorder nor local hour is known of any recording.")
        recorders, left_out = _kept(rows.filter(pl.col("panel") == "recorder"))
        blocks = [
            _where_block(rows, recorders, c, t)
            for c, t in ((metric, METRICS.get(metric, metric)), ("n_recordings", "recordings"))
        ]
        notes = [f"{left_out} more recorders, with fewer recordings, are not drawn."] if left_out else []
        lost = rows.filter(pl.col("panel") == "hour", pl.col("hour").is_null())["n_recordings"].sum()
        if lost:
            notes.append(f"Of {lost:,} recordings the local hour is not known.")
        unsaid = rows.filter(pl.col("panel") == "recorder", pl.col("recorder").is_null())["n_recordings"].sum()
        if unsaid and recorders:
            notes.append(f"Of {unsaid:,} recordings the recorder is not known.")
        axis = Axis("local hour", [str(h) for h in range(24)])
        hatched = "no recording of a known hour" if lost else "no recording"
        return draw_blocks(width, recorders, axis, blocks, head=head, notes=notes, stacked=narrow, hatched=hatched)


def _of_run(frame: pl.DataFrame, run: str | None) -> tuple[str, pl.DataFrame]:
    """Head and rows of one run."""
    rows = frame.with_columns(cs.float().fill_nan(None), cs.by_name("run").cast(pl.String))
    runs = rows["run"].drop_nulls().unique(maintain_order=True).to_list()
    name = run or (runs[0] if runs else "")
    return (name if len(runs) > 1 else ""), rows.filter(pl.col("run") == name)


def _kept(rows: pl.DataFrame, count: str = "n_recordings") -> tuple[list[str], int]:
    """Recorders by name, those with most recordings; how many are left out."""
    sums = rows.drop_nulls("recorder").group_by("recorder").agg(pl.col(count).sum())
    names = sums.sort(count, "recorder", descending=[True, False])["recorder"].to_list()
    return sorted(names[:MOST_RECORDERS], key=natural_key), max(0, len(names) - MOST_RECORDERS)


def _where_block(rows: pl.DataFrame, recorders: Sequence[str], column: str, title: str) -> Block:
    at = {name: i for i, name in enumerate(recorders)}
    cells, by_row, by_column = {}, [None] * len(recorders), [None] * 24
    for r in rows.filter(pl.col("n_recordings") > 0).iter_rows(named=True):
        if r["panel"] == "recorder_hour" and r["recorder"] in at and r["hour"] is not None:
            cells[at[r["recorder"]], r["hour"]] = r[column]
        elif r["panel"] == "recorder" and r["recorder"] in at:
            by_row[at[r["recorder"]]] = r[column]
        elif r["panel"] == "hour" and r["hour"] is not None:
            by_column[r["hour"]] = r[column]
    if column == "n_recordings":
        return Block(title, cells, by_row, by_column, lambda v: f"{v:,.0f}", lambda v: f"{v:.0f}" if v <= FEW else "")
    return Block(title, cells, by_row, by_column, lambda v: f"{v:.2f}")


# --- what was recorded ------------------------------------------------------------------------------------------------


def fig_audit(frame: pl.DataFrame, *, models: Sequence[str] = (), narrow: bool = False) -> Figure:
    """Hours recorded by recorder and month, and beside them the share of segments without a species, in per cent.

    Args:
        frame: table ``soundscape_by_month``: ``recorder``, ``month`` (``YYYY-MM``), ``n_recordings``, ``n_segments``,
            ``hours``, ``silent_share`` (null: a dot).
        models: not used.
    """
    width = style.NARROW_IN if narrow else style.WIDE_IN
    rows = frame.with_columns(cs.float().fill_nan(None), cs.by_name("recorder", "month").cast(pl.String))
    rows = rows.filter(pl.col("n_recordings") > 0).with_columns(pl.col("recorder").fill_null(UNKNOWN))
    with style.rc(width):
        if rows.is_empty():
            return sheet.empty(width, "There is no recording to draw.")
        recorders, left_out = _kept(rows)
        months = _months(rows["month"])
        notes = [f"{left_out} more recorders, with fewer recordings, are not drawn."] if left_out else []
        if None in months:
            notes.append("?: the local start is not known.")
        blocks = [_audit_block(rows, recorders, months, silent=silent) for silent in (False, True)]
        return draw_blocks(
            width, recorders, Axis("month", _month_names(months)), blocks, head="", notes=notes, stacked=narrow
        )


def _months(found: pl.Series) -> list[str | None]:
    """Months from the first to the last, or those that occur where they are many; null last."""
    names = sorted(found.drop_nulls().unique().to_list())
    out: list[str | None] = list(names)
    if names:
        first, last = (12 * int(n[:4]) + int(n[5:7]) - 1 for n in (names[0], names[-1]))
        if last - first < MOST_MONTHS:
            out = [f"{m // 12:04d}-{m % 12 + 1:02d}" for m in range(first, last + 1)]
    return out + ([None] if found.null_count() else [])


def _month_names(months: Sequence[str | None]) -> list[str]:
    """Number of the month, its year under it.

    >>> _month_names(["2003-12", None])
    ['12\\n2003', '?']
    """
    return ["?" if month is None else f"{int(month[5:7])}\n{month[:4]}" for month in months]


def _audit_block(rows: pl.DataFrame, recorders: Sequence[str], months: Sequence[str | None], *, silent: bool) -> Block:
    value = "silent_share" if silent else "hours"
    weighted = (pl.col("silent_share") * pl.col("n_segments")).sum() / pl.col("n_segments").filter(
        pl.col("silent_share").is_not_null()
    ).sum()
    whole = pl.when(pl.col("silent_share").is_not_null().any()).then(weighted) if silent else pl.col("hours").sum()
    by_row = dict(rows.group_by("recorder").agg(whole.alias("all")).iter_rows())
    by_column = dict(rows.group_by("month").agg(whole.alias("all")).iter_rows())
    row_at, column_at = ({name: i for i, name in enumerate(names)} for names in (recorders, months))
    cells = {
        (row_at[r], column_at[m]): v
        for r, m, v in rows.filter(pl.col("recorder").is_in(list(recorders)))
        .select("recorder", "month", value)
        .iter_rows()
    }
    edges = [by_row.get(r) for r in recorders], [by_column.get(m) for m in months]
    if silent:
        return Block(
            "silent segments", cells, *edges, lambda v: f"{100 * v:.0f} %", lambda v: f"{100 * v:.0f}", most=1.0
        )
    return Block("hours recorded", cells, *edges, _hours, _hours)


def _hours(value: float) -> str:
    """
    >>> _hours(1234.4), _hours(0.02), _hours(2.5)
    ('1,234', '<0.1', '2.5')
    """
    return "0" if value == 0 else "<0.1" if value < 0.1 else f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


# --- what was said instead --------------------------------------------------------------------------------------------


def fig_instead(
    frame: pl.DataFrame, *, run: str | None = None, models: Sequence[str] = (), narrow: bool = False
) -> Figure:
    """Species heard (rows) and listed first where they are not heard (columns), per cent of the segments of the row.

    The commonest pairs choose rows and columns; those with most mistakes stand first.

    Args:
        frame: table ``soundscape_instead``: ``run``, ``class_id``, ``said``, ``n_instead``, ``n_rel``, ``share`` (null: a dash).
        run: whose; without it the first in the frame, which is named where there are several.
        models: not used: maps are grey.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    head, rows = _of_run(frame, run)
    rows = rows.filter(pl.col("n_instead") > 0)
    with style.rc(width):
        if rows.is_empty():
            return sheet.empty(width, "No species is named where another one is heard.")
        heard, said = _names(rows, _MOST_NAMES_NARROW if narrow else _MOST_NAMES)
        figure = plt.figure(figsize=(width, 3), layout="none")
        room = 0.85 if narrow else 1.4
        left = max(min(room, sheet.widest(figure, heard)), sheet.widest(figure, ["heard"])) + 0.12
        up = min(1.1, sheet.widest(figure, said)) + 0.1
        counts = dict(rows.select("class_id", "n_rel").iter_rows())
        words = [f"{n:,}" for n in counts.values() if n is not None]
        right = sheet.widest(figure, [*words, "segments"]) + 0.14
        cell = min(_CELL_IN, (width - left - right) / len(said))
        right = max(right, 3.3 - left - cell * len(said)) if narrow else max(right, 3.4 - left - cell * len(said))
        top = up + sheet.LINE_IN * (2 if head else 1) + 0.12
        lay = Lay(
            cell * len(said),
            _TALL_IN * len(heard),
            1,
            left,
            right=right,
            top=top,
            bottom=0.08,
            foot=sheet.LINE_IN + 0.08,
        )
        (axes,) = lay.place(figure, 1)
        _pairs(axes, rows, heard, said, counts)
        _pair_names(axes, heard, said, (left, up, _TALL_IN), head)
        n_pairs = rows.height
        drawn = rows.filter(pl.col("class_id").is_in(heard), pl.col("said").is_in(said)).height
        note = f"{drawn:,} of {n_pairs:,} pairs; % of the row" if drawn < n_pairs else "% of the segments of the row"
        sheet.foot(figure, note, 0.1)
    return figure


def _names(rows: pl.DataFrame, most: int) -> tuple[list[str], list[str]]:
    """Rows and columns: from the commonest pair on, until either has ``most`` names; then by their mistakes."""
    heard: dict[str, int] = {}
    said: dict[str, int] = {}
    for a, b, n in (
        rows.sort("n_instead", "class_id", "said", descending=[True, False, False])
        .select("class_id", "said", "n_instead")
        .iter_rows()
    ):
        if (a not in heard and len(heard) == most) or (b not in said and len(said) == most):
            continue
        heard[a] = heard.get(a, 0) + n
        said[b] = said.get(b, 0) + n
    return (sorted(heard, key=lambda name: (-heard[name], name)), sorted(said, key=lambda name: (-said[name], name)))


def _pairs(
    axes: Axes, rows: pl.DataFrame, heard: Sequence[str], said: Sequence[str], counts: dict[str, int | None]
) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    ramp = LinearSegmentedColormap.from_list("ramp", RAMP)
    found = {(a, b): (n, s) for a, b, n, s in rows.select("class_id", "said", "n_instead", "share").iter_rows()}
    most = max([s for _, s in found.values() if s is not None], default=0.0) or 1.0
    for y, a in enumerate(heard):
        for x, b in enumerate(said):
            n, share = found.get((a, b), (0, None))
            shade = (1, 1, 1, 1) if share is None else ramp(sheet.stepped(share / most))
            axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=shade if n else "#FAFBFB", edgecolor="none",
                                     gid="pair" if n else "none"))  # fmt: skip
            if a == b:
                axes.plot([x - 0.3, x + 0.3], [y - 0.3, y + 0.3], color="#C4CBD1", linewidth=0.8, gid="itself")
            if n:
                axes.annotate("–" if share is None else _percent(share), (x, y), ha="center", va="center", fontsize=PT,
                              color=style.SOFT if share is None else _ink(shade))  # fmt: skip
        total = counts.get(a)
        axes.annotate("–" if total is None else f"{total:,}", (len(said) - 0.5, y), (5, 0), textcoords="offset points",
                      va="center", fontsize=PT, color=style.SOFT, annotation_clip=False)  # fmt: skip
    axes.set(xlim=(-0.5, len(said) - 0.5), ylim=(len(heard) - 0.5, -0.5))
    axes.set_xticks([])
    axes.set_yticks([])
    sheet.bare(axes)


def _percent(share: float) -> str:
    """
    >>> _percent(0.004), _percent(0.25)
    ('<1', '25')
    """
    return "<1" if share < 0.01 else f"{100 * share:.0f}"


def _pair_names(
    axes: Axes, heard: Sequence[str], said: Sequence[str], room: tuple[float, float, float], head: str
) -> None:
    """Names at both edges, what they are, and how many segments stand behind a row."""
    figure = axes.figure
    left, up, _ = room
    for y, name in enumerate(heard):
        axes.annotate(sheet.cut(figure, name, left - 0.1), (-0.5, y), (-4, 0), textcoords="offset points", ha="right",
                      va="center", fontsize=PT, annotation_clip=False)  # fmt: skip
    for x, name in enumerate(said):
        axes.annotate(sheet.cut(figure, name, up - 0.08), (x, -0.5), (0, 4), textcoords="offset points", ha="center",
                      va="bottom", rotation=90, fontsize=PT, annotation_clip=False)  # fmt: skip
    for text, at, side in (("heard", (-4, 4), "right"), ("said first", (0, 72 * up + 2), "left")):
        axes.annotate(text, (-0.5, -0.5), at, textcoords="offset points", ha=side, va="bottom", fontsize=PT,
                      color=style.SOFT, annotation_clip=False)  # fmt: skip
    axes.annotate("segments", (len(said) - 0.5, -0.5), (5, 4), textcoords="offset points", va="bottom", fontsize=PT,
                  color=style.SOFT, annotation_clip=False)  # fmt: skip
    if head:
        axes.annotate(sheet.cut(figure, head, 3.0, fontweight="bold"), (-0.5, -0.5), (-72 * (left - 0.08), 72 * (up + sheet.LINE_IN) + 2),
                      textcoords="offset points", va="bottom", fontsize=PT, fontweight="bold", annotation_clip=False)  # fmt: skip
