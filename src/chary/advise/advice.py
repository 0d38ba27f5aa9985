"""Advice: every way to run threshold tests under a budget, with its error, its price and the call to write."""

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from chary.numbers import plain


@dataclass(frozen=True)
class Option:
    """A mechanism that fits, calibrated. Nothing in it depends on the data.

    `error`: with the advice's confidence, all tests together are answered rightly for values that are off by at most
    this, and all published values are within it, whatever the data and however adaptive the questions; `test_error` and
    `value_error` are the same for the tests and for the values alone (None: no values are published). All are
    rounded up, in the units of the questions.

    `share` is the part of the whole budget that it takes if there are as many hits as expected. `epsilon` is that of
    the call in `code`, or of the whole sparse vector; `test_deviation` and `value_deviation` are standard deviations of
    the noise of a test (with that of its threshold) and of a value.

    `code` is the call to write, where `session`, `query` and `above` are yours and what is started is imported from
    `chary.calls`; `by_key` is the same for a query with keys, in one scan. Both are None for what chary does not offer
    and lists as a comparison. `opening` is how to open a new dataset for it, None where there is a session already.
    """

    mechanism: str
    error: float
    test_error: float
    value_error: float | None
    share: float
    epsilon: Fraction | None
    test_deviation: float
    value_deviation: float | None
    code: str | None = None
    by_key: str | None = None
    opening: str | None = None
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self) | {"epsilon": None if self.epsilon is None else float(self.epsilon)}


@dataclass(frozen=True)
class Unfit:
    """A mechanism that cannot be used here, and why."""

    mechanism: str
    reason: str


@dataclass(frozen=True)
class Advice:
    """Ways to run so many tests of which so many hit: the smallest error first; then what does not apply, and why.

    With equal errors the lower price is first. Advice is free: nothing is read and nothing is charged.
    """

    tests: int
    hits: int
    values: bool
    confidence: float
    options: tuple[Option, ...]
    unfit: tuple[Unfit, ...]

    @property
    def best(self) -> Option | None:
        """The first option with a call to write; None where nothing fits."""
        return next((option for option in self.options if option.code is not None), None)

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        told = {"tests": self.tests, "hits": self.hits, "values": self.values, "confidence": self.confidence}
        options = [option.as_dict() for option in self.options]
        return told | {"options": options, "unfit": [asdict(unfit) for unfit in self.unfit]}

    def __str__(self) -> str:
        lines = [self.title, *_columns([HEADINGS, *(row(option) for option in self.options)])]
        lines += [f"does not apply: {unfit.mechanism}: {unfit.reason}" for unfit in self.unfit]
        return "\n".join([*lines, *self.calls])

    @property
    def title(self) -> str:
        """What was asked."""
        what = "tests and values" if self.values else "tests"
        return f"{self.tests:,} tests, {self.hits:,} hits; errors of all {what}, {plain(100 * self.confidence)} % sure"

    @property
    def calls(self) -> list[str]:
        """The calls of the best option, one a line."""
        if self.best is None:
            return []
        calls = (self.best.opening, self.best.code, self.best.by_key)
        return [f"best: {self.best.mechanism}", *(f"  {call}" for call in dict.fromkeys(calls) if call is not None)]


HEADINGS = ["", "error", "of tests", "of values", "% of budget", "call"]


def row(option: Option) -> list[str]:
    """One line of the table."""
    errors = [_rounded(error) for error in (option.error, option.test_error, option.value_error)]
    told = option.code or "(comparison)"
    return [option.mechanism, *errors, plain(float(f"{100 * option.share:.3g}")), told]


def _rounded(error: float | None) -> str:
    """Three digits, rounded up."""
    if error is None:
        return "-"
    unit = Fraction(10) ** (len(str(int(error))) - 3 if error >= 1 else -3)
    up = -(-Fraction(error) // unit) * unit
    return f"{float(up):,.6g}" if up < 10**6 else f"{int(up):,}"


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in rows]
