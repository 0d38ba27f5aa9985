"""What a transaction needs to know of a question: its event, its data, its run, and what can be said before."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from chary import noise
from chary.accounting import Event, NoiseLaw, Publication, Support, error_of_all_up, false_alarms_up, margin_up
from chary.accounting.intervals import Tails
from chary.amounts import LIMIT, Amount
from chary.data import Mean, Neighbouring, Query, Reading, Rows
from chary.data.queries.query import AnsweredT
from chary.data.series import OfSeries
from chary.errors import InvalidParameter, InvalidQuery
from chary.filters import Filter, Price
from chary.mechanisms import Additive, Laplace
from chary.mechanisms.additive import Integers
from chary.numbers import Number, exact, natural_number, plain, probability, whole

# How far off many tests may be together.


@dataclass(frozen=True)
class Within:
    """How far off many tests may be: with probability `confidence`, over `tests` tests, by at most `error`.

    Each test is then answered rightly for a value that is farther from its bar than that; a published value whose noise
    decided the test is off by at most that much. `published` is what the published theorem says, None for a form that
    it does not know.
    """

    tests: int
    confidence: float
    error: float
    published: float | None

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)

    def __str__(self) -> str:
        sure = plain(100 * self.confidence)
        return f"{sure} times in 100 all of {self.tests} tests are right up to {plain(self.error)}"


# What tests against a bar will report, before anything is paid: margin, expected false alarms, the smallest bar.

# From one expected false alarm on, a call says that it is meant: that is a hit's price for nothing.
MANY: Final = 1
RAISE: Final = "RAISE THE BAR"


@dataclass(frozen=True)
class Outlook:
    """What so many tests against a bar will report, in the units of the question. Nothing depends on the data.

    With probability `confidence`: no truth that lies `margin` or more below the bar is reported, by none of `tests`
    tests; and where values are published because their own noise lifted them over the bar, all are within `value_error`
    of the truth (None where they have fresh noise, so that their ordinary error holds, or where there are none). A
    value below `clear_from` may be a false alarm: its interval has no lower end.

    `false_alarms` is the expected number of reports if all truths are at most `truth`, at most; `least_bar` the
    smallest bar at which none comes, with `confidence`. Both are None where nobody said what ordinary truths are and
    the question does not bound them (a count is at least 0), and `false_alarms` where a truth of `truth` is no false
    alarm. `bar` is None where each question brings its own.
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
        """Whether false alarms are to be expected: the bar lies nearer to ordinary truths than the margin."""
        return None not in (self.bar, self.least_bar) and (self.bar or 0) < (self.least_bar or 0)

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self) | {"below_margin": self.below_margin}

    def lines(self) -> list[str]:
        """The figures in sentences."""
        sure = f"{plain(100 * self.confidence)} times in 100"
        few = "the test reports no" if self.tests == 1 else f"none of {self.tests:,} tests reports a"
        told = [f"{sure} {few} truth {plain(self.margin)} or more below its bar"]
        if self.false_alarms is not None and self.truth is not None:
            mark = f": {RAISE}" if self.false_alarms >= MANY else ""
            told.append(f"{_few(self.false_alarms)} false alarms expected if all are {plain(self.truth)}{mark}")
        if self.least_bar is not None:
            told.append(f"the smallest bar without one, {sure}: {plain(self.least_bar)}")
        if self.value_error is not None:
            told.append(f"published values are within {plain(self.value_error)} of the truth, all of them, {sure}")
        if self.clear_from is not None:
            told.append(f"a published value below {plain(self.clear_from)} may be a false alarm")
        return told


@dataclass(frozen=True)
class Barred:
    """A bar in grid steps, how often truths below it are reported, and in how many tests.

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
        """For so many tests (default: those of the call) of truths up to `truth` (default: the least)."""
        count, grid = self.tests if tests is None else whole(tests, "tests"), self.grid
        sure = probability(confidence, "confidence")
        ordinary = self.least if truth is None else -int(-exact(truth, "truth") // grid)
        margin, shared = margin_up(self.tails, tests=count, confidence=sure), self.shared
        clear = None if shared is None or self.bar is None else clear_from(shared, self.bar, sure)
        steps = {
            "bar": self.bar,
            "margin": margin,
            "truth": ordinary,
            "least_bar": None if ordinary is None else ordinary + margin,
            "value_error": None if shared is None else error_of_all_up(shared, tests=count, confidence=sure),
            "clear_from": clear,
        }
        units: dict[str, Any] = {
            name: None if step is None else natural_number(step * grid) for name, step in steps.items()
        }
        return Outlook(tests=count, confidence=float(sure), false_alarms=self.alarms(ordinary, count), **units)

    def alarms(self, truth: int | None, tests: int) -> float | None:
        """Expected reports of so many truths, at most; None where they are no false alarms, or not known."""
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
    low, high = bar - 1, bar + noise.spread
    while told.interval(high, confidence).low is None:
        low, high = high, high + 2 * (high - low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if told.interval(middle, confidence).low is None else (low, middle)
    return high


def least_of(query: Query, neighbouring: Neighbouring) -> int | None:
    """What ordinary truths are taken for where nothing is said: 0 for counts, also of a series, and for totals of
    values from 0 on; otherwise None."""
    return 0 if isinstance(query, OfSeries) or query.known_range(neighbouring)[0] == 0 else None


def check_bar(barred: Barred | None, *, meant: bool) -> None:
    """Refuse what will mostly buy false alarms, unless that is meant: many tests that are expected to report at least
    one truth although all are the least they can be. Said in figures that are not data."""
    if meant or barred is None or barred.tests < 2 or barred.bar is None or barred.least is None:
        return
    alarms = barred.alarms(barred.least, barred.tests)
    if alarms is None or alarms < MANY:
        return
    expected = barred.outlook()
    least = plain(expected.least_bar or 0)
    raise InvalidParameter(
        f"this would mostly buy false alarms: {_few(alarms)} of {expected.tests:,} tests are expected to "
        f"hit even if all truths are {plain(expected.truth or 0)}, since the bar of {plain(expected.bar or 0)} lies "
        f"below the margin of {plain(expected.margin)}; ask with above={least}, or more precisely, or with "
        f"below_margin=True if that is meant; session.quote(call) tells what else would do"
    )


def _few(expected: float) -> str:
    return f"{float(f'{expected:.3g}'):,g}"


# What the spine needs to know of an interaction: its worst event, how it runs, what came out.

Json = dict[str, Any]
Question = Query[AnsweredT] | Mean[AnsweredT]
# What follows from a question alone: a few kilobytes each, and an analyst repeats tens of them.
KEPT = 256
# How often what an answer says may be false.
BETA: Final = Fraction(1, 20)
FREE: Final = Price(Amount(0), Amount(0), 0)
"""The price of a call whose privacy an earlier one has paid for."""
# Ledgers find a repeated request by this text, so neither the order of keys nor the separators may ever change.
ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Data:
    """What a run may use: what each plan read, the noise source, the secret state, the hits paid for, the price.

    `most_hits=None` means that every hit that can be charged is reserved, so nothing needs to halt.
    """

    values: Sequence[Any]
    source: noise.Source
    secret: bytes | None
    most_hits: int | None
    price: Price

    def integers(self, position: int = 0) -> Integers:
        """The exact answer of one query as an array, with one entry for a query without keys."""
        return np.atleast_1d(np.asarray(self.values[position]))

    def integer(self, position: int = 0) -> int:
        """The exact answer of one query without keys."""
        value = self.values[position]
        return value if type(value) is int else int(self.integers(position)[0])

    def __repr__(self) -> str:
        return "Data(<secret>)"


@dataclass(frozen=True)
class Result:
    """What a run produced: the public answer, how much of it hit, and the secret state to keep.

    `secrets` replaces (or, with None, erases) the secret state of earlier calls.
    """

    answer: Json
    hits: int
    tests: int
    secret: bytes | None = None
    secrets: dict[int, bytes | None] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Result(hits={self.hits}, tests={self.tests})"


class Interaction(ABC):
    """One kind of call. Constructors validate everything, so that a wrong call fails before anything is reserved.

    `event` is the worst event of one of its parallel parts, `parallel` how many parts can differ between neighbours,
    `most_hits` how many of those can hit.
    """

    halts: ClassVar[bool] = False
    decides: ClassVar[bool] = False
    """Whether the noise of `accuracy` decides what is published; then its error bar is not that of what is."""
    adds_up: ClassVar[bool] = True
    """Whether all that it tells is within the epsilon of what it is priced by, for each part, hit or miss. Whoever
    prices itself, or goes on from what an earlier call held, must say so: otherwise it is more than any basic account
    holds."""
    raced: ClassVar[bool] = False
    """Whether a race may ask it: one outcome, all of which is published, one hit, and nothing held or read again."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if {"price", "held"} & vars(cls).keys() and "adds_up" not in vars(cls):
            cls.adds_up = False

    @property
    @abstractmethod
    def kind(self) -> str:
        """The name of the kind of call in the ledger."""

    @property
    @abstractmethod
    def event(self) -> Event:
        """The worst event of one part."""

    @property
    def said_epsilon(self) -> Fraction | None:
        """The epsilon that was said, for which another could be said; None where none was."""
        own: Any = self
        return own.epsilon if "epsilon" in {field.name for field in fields(own)} else None

    def at_epsilon(self, epsilon: Fraction) -> "Interaction":
        """The same question at another epsilon."""
        own: Any = self
        other: Interaction = replace(own, epsilon=epsilon)
        return other

    @property
    def parallel(self) -> int:
        """In how many parts neighbours can differ."""
        return 1

    @property
    def most_hits(self) -> int:
        """How many hits can be charged; every part can hit unless it says otherwise."""
        return self.parallel

    def price(self, filter_: Filter) -> Price:
        """What one part costs if it hits and if it misses."""
        return filter_.price(self.event)

    @property
    def later(self) -> Price | None:
        """What a hit will be charged in the run that is opened, and what it pays for a miss; None for anything else."""
        return None

    def worst(self, price: Price, hits: int | None = None) -> Amount:
        """What is reserved, for so many hits or for all that can be charged."""
        return price.total(self.most_hits if hits is None else hits, self.parallel)

    def epsilons(self, price: Price) -> int:
        """What it adds to the basic account, hit or miss."""
        return price.basics(self.parallel) if self.adds_up else LIMIT

    def final(self, price: Price, ran: Result, reserved_hits: int) -> Amount:
        """What is charged for what came out; never more than what was reserved."""
        return price.total(min(ran.hits, reserved_hits), self.parallel)

    def may_halt(self, price: Price) -> bool:
        """Whether it can start with fewer hits than may be charged: it halts when they run out, and misses are free."""
        return self.halts and price.free_miss

    @property
    def held(self) -> int | None:
        """The call whose secret state the run needs, if any."""
        return None

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        """The noise on a published or tested value and the size of its grid step; None where it says nothing alone."""
        return None

    @property
    def bar_step(self) -> Fraction | None:
        """In what distances from a bar are counted; None where the distance depends on the data."""
        accuracy = self.accuracy()
        return None if accuracy is None else accuracy[1]

    @property
    def error_bar(self) -> float | None:
        """The half-width of the 95 % interval of a value; None where there is no value or it depends on the data."""
        return error_bar(self.accuracy())

    def wrong_call(self, distance: int) -> float | None:
        """The chance that a value so many steps above its threshold (negative: below) is called wrongly; None for what
        has no threshold, or where the noise depends on the data."""
        accuracy = self.accuracy()
        return None if accuracy is None else accuracy[0].wrong_call(distance)

    @property
    def barred(self) -> Barred | None:
        """The bar that is tested, and how often truths below it are reported; None where there is none, or it is not
        known how often."""
        return None

    def within(self, tests: int, confidence: Number) -> Within | None:
        """How far off so many tests may be together; None for what opens no tests."""
        return None

    @property
    def foreseen(self) -> Within | None:
        """The same for as many tests as were agreed on, with the probability that was; None where none were."""
        return None

    def shortfall(self, beta: Fraction) -> float | None:
        """By how much the answer of what is chosen may fall short of the best with 1 - beta; None for no choice."""
        return None

    @property
    def rank_error(self) -> int | None:
        """By how many values the rank of a quantile is off 95 times in 100, at most; None for anything else."""
        return None

    def foretold(self) -> str | None:
        """What is known before of the interval of an answer without an error bar, in words; None for anything else."""
        return None

    @abstractmethod
    def body(self) -> Json:
        """The question, canonically: it identifies a repeated request."""

    def text(self) -> str:
        """The body as the ledger stores it: JSON with sorted keys and without spaces."""
        return ENCODER.encode(self.body())

    @abstractmethod
    def queries(self) -> Sequence[Query]:
        """What must be evaluated on the rows, in order."""

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        """Checked plans for everything that is read, in order; no data is touched."""
        return [rows.prepare(query) for query in self.queries()]

    def check(self, secret: bytes | None) -> None:
        """Refuse what the secret state of `held` already rules out, before anything is reserved."""
        return

    @abstractmethod
    def run(self, data: Data) -> Result:
        """Turn exact values and noise into a public answer."""

    @abstractmethod
    def present(self, answer: Json, call: int) -> Any:
        """The answer as the analyst sees it, the same for a fresh and for a repeated request."""


class Paid(Interaction):
    """A call that `opened`, an earlier one, has paid for: it is free, and runs on the secret state kept beside that.

    The epsilon of the opening holds for all of them together.
    """

    opened: int
    adds_up = True

    def price(self, filter_: Filter) -> Price:
        return FREE

    @property
    def held(self) -> int:
        return self.opened


class Asked(NamedTuple):
    """What follows from a question and its size alone: the integer queries behind it and the noise of each, its event,
    its text in the ledger, its threshold in steps, and the error bar of its answer.

    All of it is public, so it is kept for the next time the same is asked.
    """

    parts: tuple[Query, ...]
    noises: tuple[Additive, ...]
    event: Event
    text: str
    threshold: int = 0
    error_bar: float | None = None


def laplace_for(query: Query, neighbouring: Neighbouring, epsilon: Number) -> Laplace:
    """Noise that makes the whole query epsilon-DP: the L1 change is counted in multiples of the largest single one."""
    single = query.sensitivity(neighbouring)
    times = -(-query.l1(neighbouring) // single)
    return Laplace.for_epsilon(epsilon, sensitivity=single, times=times)


def laplace_for_each(query: Query, neighbouring: Neighbouring, epsilon: Number) -> Laplace:
    """Noise that makes each key's value epsilon-DP on its own."""
    return Laplace.for_epsilon(epsilon, sensitivity=query.sensitivity(neighbouring))


def natural(steps: int, grid: Fraction) -> int | float:
    """Grid steps in the query's own units; whole numbers stay whole."""
    whole, rest = divmod(steps * grid.numerator, grid.denominator)
    return steps * grid.numerator / grid.denominator if rest else whole


def naturals(steps: Sequence[int], grid: Fraction) -> list[int | float]:
    """Many of them."""
    if grid.denominator == 1:
        return [each * grid.numerator for each in steps] if grid.numerator != 1 else list(steps)
    return [natural(each, grid) for each in steps]


def error_bar(accuracy: tuple[Additive, Fraction] | None) -> float | None:
    """The half-width of the 95 % interval in the query's own units, if there is one."""
    return None if accuracy is None else float(accuracy[0].error_bar() * accuracy[1])


def steps_at_least(threshold: Number, grid: Fraction, name: str = "above") -> int:
    """The threshold in grid steps, rounded up: an integer value is at or above it exactly if it reaches this."""
    exactly = exact(threshold, name)
    return -(-exactly.numerator * grid.denominator // (exactly.denominator * grid.numerator))


def check_question(query: Any) -> None:
    """Refuse what is no question at all."""
    if not isinstance(query, (Query, Mean)):
        raise InvalidQuery(f'ask count(), total() or mean(), such as count("age >= 65"), not {type(query).__name__}')


def threshold_body(query: Question, above: Number, epsilon: Number) -> Json:
    """The canonical question "is this query at or above that", at some epsilon."""
    return {"query": query.body(), "above": str(above), "epsilon": str(epsilon)}
