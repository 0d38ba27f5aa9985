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
from chary.plots import INK, RULE, draw_on, height_of, styled
from chary.report import content, pages
from chary.report.pages import interval, moment, number, paragraphs, percent, rarity
from chary.report.public_report import PublicReport

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
    """Lines of text that cost no layout each; strings with letters beyond Western Europe are laid out as usual.

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
            with mpl.rc_context({"pdf.use14corefonts": core}):
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


# The report as a PDF of A4 pages, drawn by Matplotlib.

# A4 in inches, and what is left free around it.
PAGE: Final = (8.27, 11.69)
MARGIN: Final = 0.75
SIZE: Final = 8
WIDE: Final = PAGE[0] - 2 * MARGIN
# Points to an inch; a line of text; the width of a letter on average, in sizes of the type: in prose, and in a cell.
POINTS, LEADING, PROSE, LETTER = 72, 1.3, 0.49, 0.53
# Widths of what numbers are made of, in sizes of the type; a digit is wider than a mark.
_MARK, _DIGIT = 0.278, 0.556
_MARKS: Final = ",. ’"
# Values of a query stand side by side, and so do pictures that are not high.
_VALUES, _PICTURES = 3, 2
_LOW: Final = 3.2


class _Paper:
    """Pages that are filled from the top; a new one is begun where something does not fit."""

    def __init__(self, file: PdfPages, title: str) -> None:
        self.file, self.title, self.number = file, title, 0
        self._begin()

    def _begin(self) -> None:
        self.number += 1
        self.figure = Figure(figsize=PAGE)
        self.figure.text(0.5, 0.4 / PAGE[1], f"{self.title} · {self.number}", size=7, color=INK, ha="center")
        self.drawn = PdfLines(self.figure, INK)
        self.left = PAGE[1] - 2 * MARGIN

    def end(self) -> None:
        """Write the page."""
        file: Any = self.file
        file.savefig(self.figure)

    def need(self, inches: float) -> bool:
        """Find a place for something that high; whether that began a page."""
        if inches <= self.left:
            return False
        self.end()
        self._begin()
        return True

    def text(self, told: str, size: float = 9, weight: str = "normal", after: float = 0.08) -> None:
        """A paragraph."""
        line = size * LEADING / POINTS
        for part in textwrap.wrap(told, int(WIDE * POINTS / (PROSE * size))) or [""]:
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
        height, until = (MARGIN + self.left + 0.03) * POINTS, (MARGIN + WIDE) * POINTS
        self.drawn.rules.append(PlacedRule(MARGIN * POINTS, until, height, colour))

    def picture(self, chart: Chart, place: int = 0, of: int = 1, *, titled: bool = True) -> None:
        """A picture as wide as the text, or one of several side by side, in the place that was found."""
        high, wide = self.high(chart), WIDE / of
        labels, above = (1.7 if of == 1 else 1.1) if chart.shape == "dots" else 0.7, 0.35 if titled else 0.05
        left, bottom = MARGIN + place * wide + labels, MARGIN + self.left - high + 0.5
        size = ((wide - labels - (0.15 if of > 1 else 0)) / PAGE[0], (high - 0.5 - above) / PAGE[1])
        axes = self.figure.add_axes((left / PAGE[0], bottom / PAGE[1], *size))
        draw_on(axes, chart)
        if not titled:
            axes.set_title("", loc="left")

    def high(self, chart: Chart) -> float:
        """How many inches high a picture is here."""
        return min(height_of(chart), PAGE[1] - 2 * MARGIN)

    def pictures(self, titled: Sequence[tuple[str, Chart]]) -> None:
        """Pictures under titles of their own, those that are not high side by side."""
        low = [each for each in titled if self.high(each[1]) <= _LOW]
        pairs = [low[place : place + _PICTURES] for place in range(0, len(low), _PICTURES)]
        for row in (*pairs, *([each] for each in titled if self.high(each[1]) > _LOW)):
            of = 1 if self.high(row[0][1]) > _LOW else _PICTURES
            heads = [_wrapped(title, int(WIDE / of * POINTS / (LETTER * SIZE)) - 2) for title, _ in row]
            lines, high = max(map(len, heads)), max(self.high(chart) for _, chart in row)
            self.need(high + lines * SIZE * LEADING / POINTS + 0.1)
            for place, head in enumerate(heads):
                self.put(MARGIN + place * WIDE / of, "\n".join(head), SIZE, "bold")
            self.left -= lines * SIZE * LEADING / POINTS + 0.1
            for place, (_, chart) in enumerate(row):
                self.picture(chart, place, of, titled=False)
            self.left -= high

    def table(self, columns: Sequence[tuple[str, float]], rows: Sequence[Sequence[str]], tell: Any) -> None:
        """A table whose header is repeated on each page; columns are named, each with its part of the width.

        Columns of numbers, whose names end in a blank, stand on their right ends. A row of one cell is as wide as all.
        """
        places = [MARGIN + WIDE * sum(part for _, part in columns[:place]) for place in range(len(columns))]
        letters = [max(4, int(part * WIDE * POINTS / (LETTER * SIZE)) - 1) for _, part in columns]
        self.need(0.6)
        self._header(columns, places)
        for place, row in enumerate(rows, 1):
            if len(row) == len(columns):
                cells = [_wrapped(cell, most) for cell, most in zip(row, letters, strict=True)]
                at = [
                    _right(start + part * WIDE - 0.15, cell) if name.endswith(" ") else start
                    for (name, part), start, cell in zip(columns, places, row, strict=True)
                ]
            else:
                cells = [_wrapped(cell, int(WIDE * 0.92 / _VALUES * POINTS / (LETTER * SIZE)) - 1) for cell in row]
                at = [MARGIN + WIDE * (0.08 + 0.92 * each / _VALUES) for each in range(len(row))]
            if self.need(max(map(len, cells)) * SIZE * LEADING / POINTS + 0.1):
                self._header(columns, places)
            self._row(cells, at, ruled=place == len(rows) or len(rows[place]) == len(columns))
            tell("writing pages", place, len(rows))
        self.left -= 0.15

    def _header(self, columns: Sequence[tuple[str, float]], places: Sequence[float]) -> None:
        for (name, part), place in zip(columns, places, strict=True):
            right = place + part * WIDE - 0.15 - len(name.strip()) * _DIGIT * SIZE / POINTS
            self.put(right if name.endswith(" ") else place, name.strip(), SIZE, "bold")
        self.left -= SIZE * LEADING / POINTS + 0.05
        self.rule(INK)

    def _row(self, cells: Sequence[Sequence[str]], places: Sequence[float], *, ruled: bool) -> None:
        for lines, place in zip(cells, places, strict=True):
            self.put(place, "\n".join(lines), SIZE)
        self.left -= max(map(len, cells)) * SIZE * LEADING / POINTS + (0.07 if ruled else 0)
        if ruled:
            self.rule()


def _right(end: float, told: str) -> float:
    """Where a number begins that ends here."""
    return end - sum(_MARK if letter in _MARKS else _DIGIT for letter in told) * SIZE / POINTS


def write_pdf(report: PublicReport, target: Path) -> None:
    """The whole report; its strings can be searched and copied."""
    names = ", ".join(found.name for found in report.datasets)
    known = {"Title": report.title or f"What was revealed: {names}", "Creator": "chary"}
    with styled(), PdfPages(target, metadata=known) as file:
        for found in report.datasets:
            with _paper(file, _title(report, found)) as paper:
                _first(paper, report, found)
                _hits(paper, report, found)
                _calls(paper, report, found)


def _title(report: PublicReport, found: content.ReportedDataset) -> str:
    """That of the publisher; of one of several datasets its own."""
    own = report.title if len(report.datasets) == 1 else None
    return own or f"What was revealed about {found.name}"


@contextmanager
def _paper(file: PdfPages, title: str) -> Iterator[_Paper]:
    paper = _Paper(file, title if len(title) < 90 else f"{title[:89]}…")
    yield paper
    paper.end()


def _first(paper: _Paper, report: PublicReport, found: content.ReportedDataset) -> None:
    paper.text(paper.title, 18, "bold", after=0.05)
    paper.text(f"Dataset {found.name}. Report of {moment(report.made)}.", 8, after=0.15)
    if found is report.datasets[0]:
        for paragraph in paragraphs(report.introduction or ""):
            paper.text(paragraph, 10, after=0.12)
    tiles = {
        "Budget charged": "0 %" if not found.spent.share else percent(found.spent.share),
        "Queries answered": number(len(found.calls)),
        "Threshold tests": number(sum(call.tests for call in found.calls)),
        "Above a threshold": number(sum(call.hits for call in found.calls)),
    }
    for place, (name, told) in enumerate(tiles.items()):
        at = MARGIN + place * WIDE / len(tiles)
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
    if (chart := pages.budget_chart(found)) is not None:
        paper.need(paper.high(chart))
        paper.picture(chart)
        paper.left -= paper.high(chart)


def _hits(paper: _Paper, report: PublicReport, found: content.ReportedDataset) -> None:
    if not found.hits:
        return
    chart = pages.hits_chart(found)
    paper.need(2 if chart is None else min(paper.high(chart) + 1.2, PAGE[1] - 2 * MARGIN))
    paper.text("Values above a threshold", 13, "bold")
    paper.text(
        f"With {number(float(100 * report.confidence))} % confidence all intervals of this table contain their true "
        "values, however the queries were chosen. Of the values marked 'follow up', at most one in ten is a false "
        "alarm on average."
    )
    if chart is not None:
        paper.need(paper.high(chart))
        paper.picture(chart)
        paper.left -= paper.high(chart)
    rows = [
        [
            str(hit.call),
            hit.value.key or "–",
            number(hit.value.value),
            interval(hit) + (", may be a false alarm" if hit.caution else ""),
            rarity(hit.p_value),
            "yes" if hit.listed else "not compared" if hit.p_value is None else "no",
        ]
        for hit in found.hits
    ]
    widths = (0.08, 0.22, 0.13, 0.32, 0.13, 0.12)
    names = ("query", "group", "value ", "joint interval", "p-value", "follow up")
    paper.table(list(zip(names, widths, strict=True)), rows, report.tell)


def _calls(paper: _Paper, report: PublicReport, found: content.ReportedDataset) -> None:
    paper.need(2)
    paper.text("All queries and their answers", 13, "bold")
    paper.text(
        f"Published values contain random noise. Each interval contains the true value of its question with "
        f"{number(float(100 * report.confidence))} % confidence, given that the value was published. A noisy value can "
        "lie outside of its interval, where the true value cannot be. Values below a threshold were not published and "
        "are not in this report. A star marks a value that may be a false alarm."
    )
    columns = (("", 0.08), ("query", 0.36), ("answer", 0.28), ("when, by whom", 0.18), ("cost ", 0.1))
    paper.table(columns, [row for call in found.calls for row in _told(call)], report.tell)
    paper.pictures([(f"Query {call}: {chart.title}", chart) for call, chart in pages.call_charts(found).items()])


def _told(call: content.ReportedCall) -> Iterator[list[str]]:
    """The rows of a call; many values stand side by side in further rows, so that each fits on a page."""
    alone = len(call.values) == 1 and not call.keyed
    answer = _value(call.values[0]) if alone else call.outcome
    asked, when = f"{call.title}: {call.question}", f"{moment(call.time)}\n{call.analyst}"
    yield [str(call.call), asked, answer, when, percent(call.share)]
    values = call.values if call.keyed else ()
    for first in range(0, len(values), _VALUES):
        yield [f"{value.key}: {_value(value)}" for value in values[first : first + _VALUES]]


def _value(value: content.PublishedValue) -> str:
    told = f" ({interval(value)})" if value.bounded else ""
    return number(value.value) + told + ("*" if value.caution else "")


def _wrapped(told: str, most: int) -> list[str]:
    """Lines of this many letters, words that are longer cut."""
    clean = ["".join(letter if letter.isprintable() else " " for letter in line) for line in told.split("\n")]
    return [part for line in clean for part in textwrap.wrap(line, most) or [""]]
