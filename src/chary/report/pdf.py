"""A public report as a PDF file."""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from chary.charts import Chart
from chary.numbers import RAW
from chary.plots import INK, RULE, draw_on, height_of, styled
from chary.report import content
from chary.report.pages import (
    Reported,
    budget_chart,
    call_charts,
    hits_chart,
    interval,
    moment,
    number,
    percent,
    rarity,
)

# The lines of text of one PDF page, drawn at once: Matplotlib lays out each of its own texts letter by letter.

# What every reader of PDF has, with the letters of Western Europe; other letters are embedded from Matplotlib's own.
_CORE: Final = "Helvetica"
_LETTERS: Final = "cp1252"


class PlacedLine(NamedTuple):
    """A line of text that begins at a point of the page, in points from its lower left corner."""

    x: float
    y: float
    told: str
    size: float
    weight: str


@dataclass(frozen=True)
class PlacedRule:
    """A line across the page, its ends and its height in points."""

    since: float
    until: float
    y: float
    colour: str


class PdfLines(Artist):
    """Lines of text that cost no layout each; texts with letters beyond Western Europe are laid out as usual.

    Only for PDF, in figures whose lower left corner is that of the page. `PlacedRule`s are drawn as one collection.
    """

    def __init__(self, figure: Figure, colour: str) -> None:
        super().__init__()
        self.colour = colour
        self.lines: list[PlacedLine] = []
        self.rules: list[PlacedRule] = []
        figure.add_artist(self)

    def draw(self, renderer: Any) -> None:
        """Draw all of them."""
        self._ruled().draw(renderer)
        pen = renderer.new_gc()
        pen.set_foreground(self.colour)
        for core, lines in groupby(self.lines, key=_is_core):
            with _fonts(core):
                for line in lines:
                    renderer.draw_text(pen, line.x, line.y, line.told, _font(line.size, line.weight, core), 0)
        pen.restore()

    def _ruled(self) -> LineCollection:
        ends = [[(rule.since, rule.y), (rule.until, rule.y)] for rule in self.rules]
        found = LineCollection(ends, colors=[rule.colour for rule in self.rules], linewidths=0.6)
        found.set_figure(self.get_figure())  # type: ignore[arg-type]
        return found


@cache
def _font(size: float, weight: str, core: bool) -> FontProperties:
    # Matplotlib knows the plain one of the readers' own as "medium".
    plain = "medium" if core and weight == "normal" else weight
    return FontProperties(family=_CORE if core else None, weight=plain, size=size)


def _is_core(line: PlacedLine) -> bool:
    try:
        line.told.encode(_LETTERS)
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _fonts(core: bool) -> Iterator[None]:
    with mpl.rc_context({"pdf.use14corefonts": core}):
        yield


# The report as a PDF of A4 pages, drawn by Matplotlib.

# A4 in inches, and what is left free around it.
PAGE: Final = (8.27, 11.69)
MARGIN: Final = 0.75
SIZE: Final = 7.5
# Points to an inch; a line of text, and the width of a letter on average, in sizes of the type.
POINTS, LEADING, LETTER = 72, 1.3, 0.53
# Values in a row of the table.
_CHUNK: Final = 12


class _Paper:
    """Pages that are filled from the top; a new one is begun where something does not fit."""

    def __init__(self, pages: PdfPages, title: str) -> None:
        self.pages, self.title, self.number = pages, title, 0
        self._begin()

    def _begin(self) -> None:
        self.number += 1
        self.figure = Figure(figsize=PAGE)
        self.figure.text(0.5, 0.4 / PAGE[1], f"{self.title} · {self.number}", size=7, color=INK, ha="center")
        self.drawn = PdfLines(self.figure, INK)
        self.left = PAGE[1] - 2 * MARGIN

    def end(self) -> None:
        """Write the page."""
        pages: Any = self.pages
        pages.savefig(self.figure)

    def need(self, inches: float) -> bool:
        """Make room for something that high; whether that began a page."""
        if inches <= self.left:
            return False
        self.end()
        self._begin()
        return True

    def text(self, told: str, size: float = 9, weight: str = "normal", after: float = 0.08) -> None:
        """A paragraph."""
        line = size * LEADING / POINTS
        for part in textwrap.wrap(told, int((PAGE[0] - 2 * MARGIN) * POINTS / (LETTER * size))) or [""]:
            self.need(line)
            self.put(MARGIN, part, size, weight)
            self.left -= line
        self.left -= after

    def put(self, at: float, told: str, size: float, weight: str = "normal") -> None:
        """Lines of text from this place on; they stand on lines, whatever letters they have."""
        for place, line in enumerate(told.split("\n")):
            height = (MARGIN + self.left) * POINTS - size * (1 + place * LEADING)
            self.drawn.lines.append(PlacedLine(at * POINTS, height, line, size, weight))

    def rule(self, colour: str = RULE) -> None:
        """A line across the page."""
        height, until = (MARGIN + self.left + 0.03) * POINTS, (PAGE[0] - MARGIN) * POINTS
        self.drawn.rules.append(PlacedRule(MARGIN * POINTS, until, height, colour))

    def picture(self, chart: Chart) -> None:
        """A picture as wide as the text."""
        high = min(height_of(chart), PAGE[1] - 2 * MARGIN)
        self.need(high)
        wide, labels = PAGE[0] - 2 * MARGIN, 1.7 if chart.shape == "dots" else 0.7
        bottom = MARGIN + self.left - high + 0.5
        box = ((MARGIN + labels) / PAGE[0], bottom / PAGE[1], (wide - labels) / PAGE[0], (high - 0.85) / PAGE[1])
        draw_on(self.figure.add_axes(box), chart)
        self.left -= high

    def table(self, columns: Sequence[tuple[str, float]], rows: Sequence[Sequence[str]], tell: Any) -> None:
        """A table whose header is repeated on each page; columns are named, each with its part of the width."""
        wide = PAGE[0] - 2 * MARGIN
        places = [MARGIN + wide * sum(part for _, part in columns[:place]) for place in range(len(columns))]
        letters = [max(4, int(part * wide * POINTS / (LETTER * SIZE)) - 1) for _, part in columns]
        self.need(0.6)
        self._header(columns, places)
        for place, row in enumerate(rows, 1):
            cells = [_wrapped(cell, most) for cell, most in zip(row, letters, strict=True)]
            if self.need(max(map(len, cells)) * SIZE * LEADING / POINTS + 0.1):
                self._header(columns, places)
            self._row(cells, places)
            tell("writing pages", place, len(rows))
        self.left -= 0.15

    def _header(self, columns: Sequence[tuple[str, float]], places: Sequence[float]) -> None:
        for (name, _), place in zip(columns, places, strict=True):
            self.put(place, name, SIZE, "bold")
        self.left -= SIZE * LEADING / POINTS + 0.05
        self.rule(INK)

    def _row(self, cells: Sequence[Sequence[str]], places: Sequence[float]) -> None:
        for lines, place in zip(cells, places, strict=True):
            self.put(place, "\n".join(lines), SIZE)
        self.left -= max(map(len, cells)) * SIZE * LEADING / POINTS + 0.07
        self.rule()


def write_pdf(report: Reported, target: Path) -> None:
    """The whole report; its texts can be searched and copied."""
    names = ", ".join(found.name for found in report.datasets)
    with styled(), PdfPages(target, metadata={"Title": f"What was revealed: {names}", "Creator": "chary"}) as pages:
        for found in report.datasets:
            with _paper(pages, f"What was revealed about {found.name}") as paper:
                _first(paper, report, found)
                _hits(paper, report, found)
                _calls(paper, report, found)


@contextmanager
def _paper(pages: PdfPages, title: str) -> Iterator[_Paper]:
    paper = _Paper(pages, title if len(title) < 90 else f"{title[:89]}…")
    yield paper
    paper.end()


def _first(paper: _Paper, report: Any, found: content.ReportedDataset) -> None:
    paper.text(f"Public report of a differential-privacy ledger, made {moment(report.made)}", 8)
    paper.text(paper.title, 18, "bold", after=0.2)
    tiles = {
        "Budget charged": "0 %" if not found.spent.share else percent(found.spent.share),
        "Questions answered": number(len(found.calls)),
        "Private tests": number(sum(call.tests for call in found.calls)),
        "Hits": number(sum(call.hits for call in found.calls)),
    }
    for place, (name, told) in enumerate(tiles.items()):
        at = MARGIN + place * (PAGE[0] - 2 * MARGIN) / len(tiles)
        paper.put(at, name, 8)
        paper.left -= 0.17
        paper.put(at, told, 15, "bold")
        paper.left += 0.17
    paper.left -= 0.65
    paper.text("What is guaranteed", 13, "bold")
    paper.text(found.statement, after=0.15)
    epsilon, delta = (float(part) for part in found.budget.exact)
    paper.text(
        f"Budget: epsilon {number(epsilon)}, delta {number(delta)}. Charged: {number(found.spent.charged)} "
        f"({found.spent.unit})." + (f" Head of the ledger: {report.head}." if report.head else ""),
        7,
        after=0.2,
    )
    if found.unanswered:
        paper.text(f"Charged without an answer: {found.unanswered} interrupted ({percent(found.unanswered_share)}).")
    if (chart := budget_chart(found)) is not None:
        paper.picture(chart)


def _hits(paper: _Paper, report: Any, found: content.ReportedDataset) -> None:
    if not found.hits:
        return
    chart = hits_chart(found)
    paper.need(2 if chart is None else min(height_of(chart) + 1.2, PAGE[1] - 2 * MARGIN))
    paper.text("Hits, all together", 13, "bold")
    paper.text(
        f"With {number(float(100 * report.confidence))} % confidence all intervals of this table hold at once, however "
        "the questions were chosen and however many more hits will come. Of the hits to act on at most one in ten is "
        "a false alarm, on average."
    )
    if chart is not None:
        paper.picture(chart)
    rows = [
        [
            str(hit.call),
            hit.value.key or "–",
            number(hit.value.value),
            interval(hit) + (", reaches the threshold" if hit.caution else ""),
            rarity(hit.p_value),
            "yes" if hit.listed else "not compared" if hit.p_value is None else "no",
        ]
        for hit in found.hits
    ]
    widths = (0.08, 0.25, 0.15, 0.26, 0.13, 0.13)
    names = ("call", "key", "value", "interval, all together", "p-value", "to act on")
    paper.table(list(zip(names, widths, strict=True)), rows, report.tell)


def _calls(paper: _Paper, report: Any, found: content.ReportedDataset) -> None:
    paper.need(2)
    paper.text("Every question and its answer", 13, "bold")
    paper.text(
        f"Each interval holds by itself with {number(float(100 * report.confidence))} % confidence, given that "
        f"the value was published; {RAW}. What stayed below a threshold was not published, and is not in this report."
    )
    columns = (("call", 0.08), ("question", 0.36), ("answer", 0.28), ("when, by whom", 0.18), ("price", 0.1))
    paper.table(columns, [row for call in found.calls for row in _told(call)], report.tell)
    for call, chart in call_charts(found).items():
        paper.need(height_of(chart) + 0.3)
        paper.text(f"Call {call}", 8, "bold", after=0)
        paper.picture(chart)


def _told(call: content.ReportedCall) -> Iterator[list[str]]:
    """The rows of a call: many values go on in further rows, so that each fits on a page."""
    alone = len(call.values) == 1 and not call.keyed
    answer = _value(call.values[0]) if alone else call.outcome
    asked, when = f"{call.title}: {call.question}", f"{moment(call.time)}\n{call.analyst}"
    yield [str(call.call), asked, answer, when, percent(call.share)]
    values = call.values if call.keyed else ()
    for first in range(0, len(values), _CHUNK):
        told = "\n".join(f"{value.key}: {_value(value)}" for value in values[first : first + _CHUNK])
        yield ["", "", told, "", ""]


def _value(value: content.PublishedValue) -> str:
    told = f" ({interval(value)})" if value.bounded else ""
    return number(value.value) + told + (f", {value.caution}" if value.caution else "")


def _wrapped(told: str, most: int) -> list[str]:
    """Lines of so many letters, words that are longer cut."""
    clean = ["".join(letter if letter.isprintable() else " " for letter in line) for line in told.split("\n")]
    return [part for line in clean for part in textwrap.wrap(line, most) or [""]]
