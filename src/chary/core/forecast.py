"""Forecasts: the cost and accuracy of an answer before it is paid for. Nothing in them depends on the data."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final

from chary.accounting import NoiseLaw, Publication, Support, error_of_all_up, false_alarms_up, margin_up
from chary.accounting.intervals import Tails
from chary.accounting.numerics import doubled, least
from chary.data import NeighborRelation, Query
from chary.data.series import OfSeries
from chary.errors import InvalidParameter
from chary.filters import Price
from chary.mechanisms import Additive
from chary.numbers import Number, exact, natural_number, plain, probability, sure, whole


@dataclass(frozen=True)
class Within:
    """How far off many tests may be: with probability `confidence`, over `tests` tests, by at most `error`.

    Each test is then answered rightly for a value that is farther from its threshold than that. A published value whose
    noise decided the test is off by at most that much. `published` is the bound of the published theorem, None for a
    form that it does not cover.
    """

    tests: int
    confidence: float
    error: float
    published: float | None

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)

    def __str__(self) -> str:
        apart = f"for values {plain(self.error)} from the threshold"
        return f"with {sure(self.confidence)}, all of {self.tests} tests are right {apart}"


@dataclass(frozen=True)
class ExpectedHard:
    """How many of these `queries` to a PMW run are expected to have hard answers, if the rows are like an example.

    `expected` is the mean over `simulations`, `least` and `most` are their extremes. It is an estimate and depends
    on the example, which is public. Rows unlike the example, other queries, and rows that come later lead to other
    numbers. `bound` is the guaranteed maximum for any rows, while all answers are within alpha/3.
    """

    queries: int
    simulations: int
    expected: float
    least: int
    most: int
    bound: float

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"about {plain(self.expected)} of {self.queries:,} answers are expected to be hard if the rows are like "
            f"the example: {self.least} to {self.most} in {self.simulations} simulations. This is an estimate, "
            f"no guarantee. At most {math.ceil(self.bound):,} for any rows, while all answers are within alpha/3"
        )


# What tests against a threshold will report, before anything is paid: margin, expected false alarms, the smallest
# threshold.

# From one expected false alarm on, a call says that it is meant: that is a hit's price for nothing.
MANY: Final = 1
_MILLIONTH: Final = 1e-6
RAISE: Final = "raise the threshold"


def _few(expected: float) -> str:
    """An expected number, without an exponent; people need no figure below a millionth."""
    rounded = float(f"{expected:.3g}" if expected >= 1 else f"{expected:.2g}")
    return f"{rounded:,.7f}".rstrip("0").rstrip(".") if rounded >= _MILLIONTH else "less than 0.000001"


@dataclass(frozen=True)
class Outlook:
    """What this many tests against a threshold will report, in the units of the question. Nothing depends on the data.

    With probability `confidence` no truth that lies `margin` or more below the threshold is reported, by none of
    `tests` tests. Where values are published because their own noise lifted them over the threshold, all are then also
    within `value_error` of the truth. `value_error` is None where they have fresh noise, so that their ordinary error
    holds, or where there are none. A value below `clear_from` may be a false alarm: its interval has no lower end.

    `false_alarms` is the expected number of reports if all truths are at most `truth`, at most. `least_bar` is the
    smallest threshold at which none comes, with `confidence`. Both are None where nobody said what ordinary truths are
    and the question does not bound them (a count is at least 0). `false_alarms` is None where a truth of `truth` is no
    false alarm. `bar` is None where each question brings its own.
    """

    tests: int
    confidence: float
    bar: float | None
    margin: float
    truth: float | None
    false_alarms: float | None
    least_bar: float | None
    value_error: float | None
    clear_from: float | None

    @property
    def below_margin(self) -> bool:
        """Whether false alarms are to be expected: the threshold lies nearer to ordinary truths than the margin."""
        return None not in (self.bar, self.least_bar) and (self.bar or 0) < (self.least_bar or 0)

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self) | {"below_margin": self.below_margin}

    def lines(self) -> list[str]:
        """The figures in sentences."""
        confident = sure(self.confidence)
        told = []
        if self.false_alarms is not None and self.truth is not None:
            way_out = f" ({RAISE}: with {confident} none comes at {plain(self.least_bar or 0)})"
            mark = way_out if self.false_alarms >= MANY else ""
            expected = _few(self.false_alarms)
            hint = "" if self.truth else "; for larger usual values, quote with truth="
            told.append(f"Expected false alarms if all values are {plain(self.truth)}: {expected}{mark}{hint}")
        tests = "the test does not report" if self.tests == 1 else f"none of {self.tests:,} tests reports"
        told.append(f"With {confident}, {tests} a value {plain(self.margin)} or more below the threshold")
        if self.value_error is not None:
            told.append(f"With {confident}, all published values are within {plain(self.value_error)} of the truth")
        if self.clear_from is not None:
            told.append(f"A published value below {plain(self.clear_from)} may be a false alarm")
        return told


@dataclass(frozen=True)
class TestForecast:
    """A threshold in grid steps, how often truths below it are reported, and in how many tests.

    `bar` is None where each question brings its own. `least` is what a truth is at least, whatever the data, None where
    nothing is known. `shared` is the noise of published values where it is that of the test. `most` reports at most are
    made, whatever the truths. `bought` says that tests are paid for before any is asked.
    """

    tails: Tails
    bar: int | None
    grid: Fraction
    tests: int = 1
    least: int | None = None
    shared: NoiseLaw | None = None
    most: int | None = None
    bought: bool = False

    def outlook(
        self, *, tests: int | None = None, truth: Number | None = None, confidence: Number = Fraction(19, 20)
    ) -> Outlook:
        """For this many tests (default: those of the call) of truths up to `truth` (default: the least)."""
        count, grid = self.tests if tests is None else whole(tests, "tests"), self.grid
        wanted = probability(confidence, "confidence")
        ordinary = self.least if truth is None else -int(-exact(truth, "truth") // grid)
        margin, shared = margin_up(self.tails, tests=count, confidence=wanted), self.shared
        clear = None if shared is None or self.bar is None else clear_from(shared, self.bar, wanted)
        steps = {
            "bar": self.bar,
            "margin": margin,
            "truth": ordinary,
            "least_bar": None if ordinary is None else ordinary + margin,
            "value_error": None if shared is None else error_of_all_up(shared, tests=count, confidence=wanted),
            "clear_from": clear,
        }
        units: dict[str, Any] = {
            name: None if step is None else natural_number(step * grid) for name, step in steps.items()
        }
        return Outlook(tests=count, confidence=float(wanted), false_alarms=self.alarms(ordinary, count), **units)

    def refuse_false_alarms(self) -> None:
        """`InvalidParameter` for several tests that are expected to report at least one value even if all values are
        the least possible ones: most hits would be false alarms. The message holds no data."""
        if self.tests < 2 or self.bar is None or self.least is None:
            return
        alarms = self.alarms(self.least, self.tests)
        if alarms is None or alarms < MANY:
            return
        expected = self.outlook()
        least = plain(expected.least_bar or 0)
        raise InvalidParameter(
            f"most hits would be false alarms: even if all values are {plain(expected.truth or 0)}, "
            f"{_few(alarms)} of {expected.tests:,} tests are expected to hit. The threshold {plain(expected.bar or 0)} "
            f"is below the margin of {plain(expected.margin)}: raise it with above={least}, or ask more precisely. "
            f"below_margin=True asks anyway; session.quote(call) lists alternatives"
        )

    def margin_of_one(self) -> int:
        """How far truths must lie below the threshold, in steps, for fewer than one report of all tests on average."""

        def few(margin: int) -> bool:
            return false_alarms_up(self.tails, bar=margin, truth=0, tests=self.tests) < MANY

        return least(few, *doubled(few, 0, 1))

    def alarms(self, truth: int | None, tests: int) -> float | None:
        """An upper bound on the expected reports of tests of this truth; None where these are no false alarms or
        unknown."""
        if truth is None or self.bar is None or self.bar <= truth:
            return None
        found = false_alarms_up(self.tails, bar=self.bar, truth=truth, tests=tests)
        return found if self.most is None else min(found, float(self.most))


def clear_from(noise: NoiseLaw, bar: int, confidence: Fraction) -> int:
    """The least value published from `bar` on whose interval has a lower end.

    >>> from chary.accounting import LaplaceLaw
    >>> clear_from(LaplaceLaw(20), 100, Fraction(19, 20))
    174
    """
    told = Publication(noise, Support.at_least(bar))

    def clear(beyond: int) -> bool:
        return told.interval(bar + beyond, confidence).low is not None

    return bar + least(clear, *doubled(clear, -1, noise.spread))


def least_of(query: Query, neighbor_relation: NeighborRelation) -> int | None:
    """The least truth that is assumed by default: 0 for counts, also of a series, and for sums of values from 0 on;
    otherwise None."""
    return 0 if isinstance(query, OfSeries) or query.known_range(neighbor_relation)[0] == 0 else None


Accuracy = tuple[Additive, Fraction]
"""The noise on a value, in steps, and the size of a step."""


@dataclass(frozen=True)
class Forecast:
    """All that a quote says of accuracy; what is left out is not known, or there is none.

    `error_bar` is half the width of the 95 % interval of a value; `decides` says that the noise decides what is
    published, so that it is not that of what is. Distances from a threshold are counted in steps of `step`, and `wrong`
    is the probability that a value this many steps above it (negative: below) is called wrongly.

    `tests` is the threshold and how often truths below it are reported. `within` says how far off this many tests may
    be together with some confidence, `foreseen` the same for as many as were agreed on, with the confidence that was.

    `shortfall` is by how much what is chosen may fall short of the best with 1 - beta. `rank_error` is by how many
    values the rank of a quantile is off at most, with 95 % confidence. `interval` says in words what is known of an
    interval whose width depends on the data. `later` is what a hit will be charged in the run that is opened, and a
    miss, unless the opening pays for it.
    """

    error_bar: float | None = None
    decides: bool = False
    step: Fraction | None = None
    wrong: Callable[[int], float | None] | None = None
    tests: TestForecast | None = None
    within: Callable[[int, Number], Within | None] | None = None
    foreseen: Within | None = None
    shortfall: Callable[[Fraction], float | None] | None = None
    rank_error: int | None = None
    interval: str | None = None
    later: Price | None = None


def error_bar(accuracy: Accuracy | None) -> float | None:
    """Half the width of the 95 % interval in the query's own units, if there is one."""
    return None if accuracy is None else float(accuracy[0].error_bar() * accuracy[1])
