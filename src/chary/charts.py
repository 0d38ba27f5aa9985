"""Charts: what a picture of published numbers shows, the same in words, and its file; nothing here draws."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

from chary.errors import InvalidParameter
from chary.numbers import plain

# What is to be seen in a picture, and the same in words; nothing here draws.

Shape = Literal["dots", "line", "columns", "steps"]


@dataclass(frozen=True)
class Spot:
    """A value with its interval. `low` and `high` are None where it has no end on that side, or `whole` is False.

    `may_be_false` is a hit whose interval reaches what is withheld.
    """

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    may_be_false: bool = False

    @property
    def whole(self) -> bool:
        """Whether anything is known of its interval."""
        return self.low is not None or self.high is not None


@dataclass(frozen=True)
class Chart:
    """Values to be drawn: "dots" in rows, largest first, a "line" in order, "columns" side by side, or "steps".

    `bar` is the threshold they were compared with, `scale` what the values are.

    >>> south, north = Spot("south", 520.0, None, 580.0, True), Spot("north", 700.0, 640.0, 760.0)
    >>> print(Chart("dots", "Clinics", (south, north), 500.0).alt)
    Clinics. 2 values from 520 (south) to 700 (north), with intervals. The threshold is 500. 1 of them may be a false
    alarm.
    """

    shape: Shape
    title: str
    spots: tuple[Spot, ...]
    bar: float | None = None
    scale: str = ""

    @property
    def alt(self) -> str:
        """What the picture shows, for who cannot see it."""
        told = [self.title.rstrip("."), self._range()]
        if self.bar is not None:
            told.append(f"The threshold is {plain(self.bar)}")
        if doubtful := sum(spot.may_be_false for spot in self.spots):
            told.append(f"{doubtful} of them may be {'a false alarm' if doubtful == 1 else 'false alarms'}")
        if raw := sum(not _within(spot) for spot in self.spots):
            told.append(f"{raw} {'value lies' if raw == 1 else 'values lie'} where no truth can be: raw noisy values")
        return printable(". ".join(told)) + "."

    def _range(self) -> str:
        if not self.spots:
            return "No values"
        least, most = (pick(self.spots, key=lambda spot: spot.value) for pick in (min, max))
        if self.shape == "steps":
            return f"From {plain(self.spots[0].value)} to {plain(self.spots[-1].value)} {self.scale}".rstrip()
        ranged = f"from {plain(least.value)} ({least.label}) to {plain(most.value)} ({most.label})"
        intervals = ", with intervals" if any(spot.whole for spot in self.spots) else ""
        return f"{len(self.spots)} values {ranged}{intervals}"


def printable(text: str) -> str:
    """A text in one line, without what no page can show.

    >>> printable("a\\n\\x07b")
    'a b'
    """
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def spot_of(label: str, value: float, ends: Sequence[float | None] | None, caution: str | None = None) -> Spot:
    """A value with the ends of its interval, if it has one, and whether there is a caution that it may be false.

    >>> spot_of("north", 512, (None, 570), "may be a false alarm: no lower end").may_be_false
    True
    """
    low, high = (None, None) if ends is None else (None if end is None else float(end) for end in ends)
    return Spot(label, float(value), low, high, caution is not None)


def _within(spot: Spot) -> bool:
    """Whether a value lies in its own interval."""
    return (spot.low is None or spot.low <= spot.value) and (spot.high is None or spot.value <= spot.high)


# What draws, and files that pictures and reports are written to.

ENDINGS: Final = (".png", ".pdf", ".svg")


def plotter(module: str = "chary.plots") -> Any:
    """The module that draws, when it is first used; `InvalidParameter` where Matplotlib is missing."""
    _check_drawing()
    return import_module(module)


def _check_drawing() -> None:
    if find_spec("matplotlib") is None:
        raise InvalidParameter("pictures need Matplotlib: pip install 'chary[plots]'")


def check_picture(path: Path | str) -> Path:
    """The file to write; `InvalidParameter` for another ending, a place where no file can be written, or without
    Matplotlib."""
    target = Path(path)
    if target.suffix.lower() not in ENDINGS or not writable(target):
        raise InvalidParameter(f"a picture goes to a file in an existing folder that ends in {', '.join(ENDINGS)}")
    _check_drawing()
    return target


def writable(target: Path) -> bool:
    """Whether it is, or may become, a file of chary; asked beforehand, since what comes first may be charged."""
    place = target if target.exists() else target.parent
    return not target.is_dir() and place.exists() and os.access(place, os.W_OK)
