"""The lines of text of one PDF page, drawn at once: Matplotlib lays out each of its own texts letter by letter."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

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
