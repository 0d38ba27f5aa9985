"""Plots of charts by Matplotlib: to a file, or as SVG that takes the colours of the page it stands in."""

import hashlib
import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import matplotlib.dates
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chary.charts import Chart, Spot, check_picture, printable

# Told apart by people who see few colours, on paper and on screens (Okabe and Ito 2008).
INK, SPOT, DOUBT, RULE = "#1b2430", "#0072b2", "#d55e00", "#c9ced6"
# By these names a page gives them other colours, such as in the dark.
NAMES: Final = {INK: "--ink", SPOT: "--spot", DOUBT: "--doubt", RULE: "--rule"}
# Rows that a page can show with readable labels; the largest are drawn.
MOST_ROWS: Final = 50
# Labels below an axis that can be read side by side.
_INSTANT: Final = timedelta(minutes=1)
MOST_LABELS: Final = 12
LONGEST: Final = 28
WIDTH: Final = 7.0
_STYLE: Final[dict[Any, Any]] = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
}


def save(chart: Chart, path: Path | str) -> None:
    """Draw it to a file; `InvalidParameter` for another ending or a place where no file can be written."""
    target = check_picture(path)
    with styled():
        figure_of(chart).savefig(target, dpi=150, metadata=_metadata(chart, target.suffix.lower()))


def plotted(chart: Chart) -> Figure:
    """The chart as a figure of its own."""
    with styled():
        return figure_of(chart)


def svg(chart: Chart) -> str:
    """An SVG element to stand in a page, with its words for who cannot see it; its colours follow the page's."""
    salt = "p" + hashlib.sha256(repr(chart).encode()).hexdigest()[:10]
    written = io.StringIO()
    with styled({"svg.hashsalt": salt}):
        figure_of(chart).savefig(written, format="svg", transparent=True, metadata={"Date": None})
    text = written.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{salt}-\1"', text)
    text = re.sub(r'(url\(#|href="#)', rf"\1{salt}-", text)
    for colour, name in NAMES.items():
        text = text.replace(colour, f"var({name}, {colour})")
    told = f'<svg role="img" aria-label="{escape(chart.alt)}" class="picture" '
    return re.sub(r'<svg (?:height="[^"]*" |width="[^"]*" )?', lambda _: told, text, count=1)


def figure_of(chart: Chart) -> Figure:
    """The chart as a figure; call inside `styled`."""
    figure = Figure(figsize=(WIDTH, height_of(chart)), layout="constrained")
    draw_on(figure.subplots(), chart)
    return figure


def height_of(chart: Chart) -> float:
    """How many inches high it is drawn."""
    return max(1.7, 0.9 + 0.24 * len(_largest(chart))) if chart.shape == "dots" else 2.9


def draw_on(axes: Axes, chart: Chart) -> None:
    """Draw it on axes; call inside `styled`."""
    shown = _largest(chart)
    _SHAPES[chart.shape](axes, shown)
    _legend(axes, chart, shown)
    more = f" (the {len(shown)} largest of {len(chart.spots)})" if len(shown) < len(chart.spots) else ""
    axes.set_title(_short(chart.title, 84 - len(more)) + more, loc="left", fontsize=10)


@contextmanager
def styled(more: dict[str, Any] | None = None) -> Iterator[None]:
    """Matplotlib in this style; letters that its fonts lack are left to the reader's."""
    with mpl.rc_context(_STYLE | (more or {})), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _largest(chart: Chart) -> list[Spot]:
    if chart.shape != "dots":
        return list(chart.spots)
    return sorted(chart.spots, key=lambda spot: -spot.value)[:MOST_ROWS]


def _dots(axes: Axes, spots: list[Spot]) -> None:
    least = min((end for spot in spots for end in (spot.low, spot.value) if end is not None), default=0.0)
    for place, spot in enumerate(spots):
        colour = DOUBT if spot.may_be_false else SPOT
        if spot.whole:
            low, high = (least if spot.low is None else spot.low), (spot.value if spot.high is None else spot.high)
            axes.plot([low, high], [place, place], ":" if spot.may_be_false else "-", color=colour, linewidth=1.8)
        fill = "none" if spot.may_be_false else colour
        axes.plot([spot.value], [place], "o", color=colour, markerfacecolor=fill, markersize=5.5)
    axes.set_yticks(range(len(spots)), [_short(spot.label) for spot in spots])
    axes.set_ylim(len(spots) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)


def _line(axes: Axes, spots: list[Spot]) -> None:
    places = range(len(spots))
    for place, spot in zip(places, spots, strict=True):
        colour = DOUBT if spot.may_be_false else SPOT
        if spot.whole:
            low, high = (spot.value if end is None else end for end in (spot.low, spot.high))
            axes.plot([place, place], [low, high], color=colour, linewidth=1.2, alpha=0.6)
        fill = "none" if spot.may_be_false else colour
        axes.plot([place], [spot.value], "o", color=colour, markerfacecolor=fill, markersize=4)
    axes.plot(places, [spot.value for spot in spots], color=SPOT, linewidth=0.8, alpha=0.5)
    _under(axes, spots)


def _columns(axes: Axes, spots: list[Spot]) -> None:
    axes.bar(range(len(spots)), [spot.value for spot in spots], color=SPOT, alpha=0.45, width=0.85)
    for place, spot in enumerate(spots):
        if spot.whole:
            low, high = (spot.value if end is None else end for end in (spot.low, spot.high))
            axes.plot([place, place], [low, high], color=INK, linewidth=1.2)
    axes.axhline(0, color=RULE, linewidth=0.8)
    _under(axes, spots)


def _steps(axes: Axes, spots: list[Spot]) -> None:
    times = [datetime.fromisoformat(spot.label) for spot in spots]
    values = [spot.value for spot in spots]
    axes.step(times, values, where="post", color=SPOT, linewidth=1.6)  # type: ignore[arg-type]
    axes.fill_between(times, values, step="post", color=SPOT, alpha=0.15)  # type: ignore[arg-type]
    axes.set_ylim(0, 100)
    if times[-1] - times[0] < _INSTANT:  # whose axis would show years
        axes.set_xlim(times[0] - _INSTANT, times[-1] + _INSTANT)  # type: ignore[arg-type]
    axes.grid(axis="y")
    dates: Any = mpl.dates
    places = dates.AutoDateLocator(minticks=3, maxticks=6)
    axes.xaxis.set_major_locator(places)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(places))


def _under(axes: Axes, spots: list[Spot]) -> None:
    """Labels below, as many as can be read."""
    step = -(-len(spots) // MOST_LABELS) or 1
    places = range(0, len(spots), step)
    names = [_short(spots[place].label, 14) for place in places]
    slanted = any(len(name) > 80 // max(1, len(names)) for name in names)
    axes.set_xticks(places, names, rotation=30 if slanted else 0, ha="right" if slanted else "center")
    axes.grid(axis="y")
    axes.set_axisbelow(True)


def _legend(axes: Axes, chart: Chart, shown: list[Spot]) -> None:
    if chart.bar is not None:
        draw = axes.axvline if chart.shape == "dots" else axes.axhline
        draw(chart.bar, color=INK, linestyle="--", linewidth=1.1, label="threshold")
    if any(spot.may_be_false for spot in shown):
        axes.plot([], [], "o:", color=DOUBT, markerfacecolor="none", label="may be a false alarm")
    if axes.get_legend_handles_labels()[0]:
        where: Any = "lower right" if chart.shape == "dots" else "best"
        axes.legend(loc=where, frameon=False, fontsize=8.5)
    if chart.scale:
        (axes.set_xlabel if chart.shape == "dots" else axes.set_ylabel)(_short(chart.scale))


def _short(text: str, longest: int = LONGEST) -> str:
    shown = printable(text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def _metadata(chart: Chart, ending: str) -> dict[str, str]:
    """The words of the picture, where files of this kind keep them."""
    words = {".png": ("Title", "Description"), ".pdf": ("Title", "Subject"), ".svg": ("Title", "Description")}[ending]
    return dict(zip(words, (printable(chart.title), chart.alt), strict=True))


_SHAPES: Final[dict[str, Callable[[Axes, list[Spot]], None]]] = {
    "dots": _dots,
    "line": _line,
    "columns": _columns,
    "steps": _steps,
}
