"""Local randomisers: k-ary randomised response, unary encoding, local hashes, memoised reports."""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting import Pure, accuracy
from chary.accounting.numerics import float_up
from chary.errors import InvalidParameter
from chary.numbers import Number, checked, plain, positive, probability, set_fields, whole

# What all forms of local reports share: public values, one randomized report a person, and estimates from them.

Integers = NDArray[np.int64]
About = Literal["population", "respondents"]
# A report of one bit a value is as long as the list, and hashing keeps the values' digits.
MOST_VALUES: Final = 2**20


@dataclass(frozen=True)
class ValueShare:
    """The proportion of people who hold a value.
    It is unbiased (so it may leave [0, 1]), with its estimated standard error and the ends of its interval."""

    value: Hashable
    share: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class LocalEstimate:
    """The proportions of all values, from the reports of `people`.

    With the probability `confidence` all intervals hold at once, each at `1 - (1 - confidence) / values`. They are
    about the `population` or about the `respondents`. The people were drawn from the population independently of each
    other and of what they hold, so those intervals include the error of drawing them. The respondents are those very
    people, however they were chosen. Look one up by its value.
    """

    people: int
    confidence: float
    about: About
    found: tuple[ValueShare, ...]

    def __iter__(self) -> Iterator[ValueShare]:
        return iter(self.found)

    def __getitem__(self, value: Hashable) -> ValueShare:
        for each in self.found:
            if each.value == value:
                return each
        raise KeyError(value)


def _check_about(about: About) -> None:
    if about not in ("population", "respondents"):
        raise InvalidParameter("about is 'population' (with the error of drawing people) or 'respondents'")


def estimate(
    values: Sequence[Hashable],
    channel: accuracy.Channel,
    counts: Sequence[int],
    people: int,
    confidence: Number,
    about: About,
) -> LocalEstimate:
    """The proportions of all values, from how many of the reports speak for each.

    Errors: `InvalidParameter` for counts that reports of this many people cannot have.
    """
    _check_about(about)
    size = whole(people, "the number of reports")
    if len(counts) != len(values) or any(not 0 <= count <= size for count in counts):
        raise InvalidParameter("there is one count a value, of at most as many as there are reports")
    level = probability(confidence, "confidence")
    each = (1 - level) / len(values)
    ends, spread = (
        (channel.population, channel.drawn_variance)
        if about == "population"
        else (channel.respondents, channel.variance)
    )
    found = []
    for value, count in zip(values, map(int, counts), strict=True):
        share = channel.share(count, size)
        error = math.sqrt(spread(min(1.0, max(0.0, share))) / size)
        found.append(ValueShare(value, share, error, *ends(count, size, each)))
    return LocalEstimate(size, float(level), about, tuple(found))


@dataclass(frozen=True)
class LocalReports(ABC):
    """Reports about one of `values`, each made where the value is known: no collector, session or ledger sees it.

    Guarantee: `Pure(epsilon)` for each report, against every reader; if a person reports several times afresh, epsilons
    add up. Probabilities are exact, and randomness comes from the operating system unless a `source` is given, for
    tests. What people report must not depend on more than their value: whether they report at all is not protected.

    Errors: `InvalidParameter`, which shows none of it, for a value that is not listed.
    """

    values: Sequence[Hashable]
    epsilon: Number

    def __post_init__(self) -> None:
        listed = tuple(self.values) if isinstance(self.values, (list, tuple, range)) else ()
        if not 2 <= len(listed) <= MOST_VALUES or not all(isinstance(value, Hashable) for value in listed):
            raise InvalidParameter("list the values that people can hold: two or more, at most 2**20, in a fixed order")
        if len(set(listed)) < len(listed):
            raise InvalidParameter("values must differ from each other")
        set_fields(self, values=listed)
        checked(self, epsilon=positive)
        noise.checked_scale(max(noise.SMALLEST_SCALE, 1 / positive(self.epsilon, "epsilon")))

    @property
    @abstractmethod
    def channel(self) -> accuracy.Channel:
        """The probabilities that a report speaks for the value that is held, and for any other."""

    @abstractmethod
    def randomized(self, places: Integers, source: noise.Source) -> NDArray[Any]:
        """One report a row, for people who hold the values at these places."""

    @abstractmethod
    def counts(self, reports: Any) -> Integers:
        """How many of the reports speak for each value; `InvalidParameter` for what are no such reports."""

    def report(self, value: Hashable, *, source: noise.Source | None = None) -> Any:
        """The report of one person who holds this value, in what JSON has."""
        return self.reports([value], source=source)[0].tolist()

    def reports(self, values: Sequence[Hashable], *, source: noise.Source | None = None) -> NDArray[Any]:
        """One report for each person, in their order; they are positions in `values`, rows of bits or of groups."""
        known = self._places
        places = [known.get(value, -1) if isinstance(value, Hashable) else -1 for value in values]
        if -1 in places:
            raise InvalidParameter("a value is not among those that are listed: list one for all others")
        return self.randomized(np.array(places, dtype=np.int64), source or noise.OperatingSystem())

    def estimate(self, reports: Any, confidence: Number = "0.95", *, about: About = "population") -> LocalEstimate:
        """The proportion of every value behind these reports."""
        return self.estimate_counts(self.counts(reports).tolist(), len(reports), confidence, about=about)

    def estimate_counts(
        self, counts: Sequence[int], people: int, confidence: Number = "0.95", *, about: About = "population"
    ) -> LocalEstimate:
        """The estimates from the number of reports that speak for each value."""
        return estimate(self.values, self.channel, counts, people, confidence, about)

    def event(self) -> Pure:
        """What one report may reveal."""
        return Pure(self.epsilon)

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        return {value: place for place, value in enumerate(self.values)}


def table_of(reports: Any, columns: int, kinds: str, name: str) -> NDArray[Any]:
    """Reports as rows of this many entries of these NumPy kinds."""
    try:
        found: NDArray[Any] = np.asarray(reports)
    except ValueError:
        found = np.empty(0)
    if found.ndim != 2 or found.shape[1] != columns or found.dtype.kind not in kinds:
        raise InvalidParameter(f"reports must be {name}, as `reports` makes them")
    return found


# Randomized response with k values: the own one with a known probability, otherwise any other.


@dataclass(frozen=True)
class KRandomizedResponse(LocalReports):
    """k-ary randomized response: the own value with `e^epsilon / (e^epsilon + k - 1)`, otherwise any other one.

    Guarantee: `Pure(epsilon)`, attained by every pair of values. A report is a position in `values`. Of all forms its
    estimates are the best for few values, up to about `3 e^epsilon + 2` of them (`UnaryEncoding` beyond). Source:
    theory chapter 9; Kairouz, Bonawitz and Ramage 2016.

    >>> survey = KRandomizedResponse(["red", "green", "blue"], epsilon=2)
    >>> survey.report("green") in (0, 1, 2)                             # on the device
    True
    >>> reports = survey.reports(["red"] * 6000 + ["blue"] * 2000)
    >>> found = survey.estimate(reports)                                # at the collector
    >>> abs(found["red"].share - 0.75) < 0.05, found["green"].high < 0.1
    (True, True)
    """

    @property
    def channel(self) -> accuracy.Channel:
        return accuracy.category_channel(len(self.values), self.epsilon)

    def randomized(self, places: Integers, source: noise.Source) -> NDArray[Any]:
        others = len(self.values) - 1
        lies = noise.bernoulli(source, noise.Enclosure.any_of(others, positive(self.epsilon, "epsilon")), places.size)
        found = places.copy()
        shifts = noise.uniform_integers(source, others, int(np.count_nonzero(lies))) + 1
        found[lies] = (found[lies] + shifts) % len(self.values)
        return found

    def counts(self, reports: Any) -> Integers:
        found: NDArray[Any] = np.asarray(reports)
        if found.ndim != 1 or (found.dtype.kind not in "iu" and found.size):
            raise InvalidParameter("reports must be positions in the list of values, as `reports` makes them")
        if found.size and not 0 <= int(found.min()) <= int(found.max()) < len(self.values):
            raise InvalidParameter("a report is a position in the list of values, from 0 on")
        return np.bincount(found.astype(np.int64), minlength=len(self.values))


# Reports of a group into which everybody sorts the values by a random map of their own.


@dataclass(frozen=True)
class LocalHashing(LocalReports):
    """Local hashing: a random map of the values to g groups, and by randomized response the group of the own value.

    Guarantee: `Pure(epsilon)`: the map is drawn without the value. It is linear on the digits of a value's position to
    the prime base g, with coefficients drawn evenly. So two values fall into one group with exactly 1/g, and a report
    speaks for a value that is not held with exactly 1/g. As accurate as `UnaryEncoding`, in a few numbers a report (the
    coefficients, then the group) instead of a bit a value. Source: Wang, Blocki, Li and Jha 2017 (OLH).

    >>> survey = LocalHashing(range(1000), epsilon=2)
    >>> survey.groups, len(survey.report(7))
    (7, 5)
    >>> found = survey.estimate(survey.reports([7] * 4000))
    >>> found[7].low > 0.8, found[8].high < 0.2
    (True, True)
    """

    @cached_property
    def groups(self) -> int:
        """How many groups there are: the best prime number for this epsilon."""
        return accuracy.best_groups(self.epsilon)

    @property
    def channel(self) -> accuracy.Channel:
        return accuracy.hashed_channel(self.groups, self.epsilon)

    def randomized(self, places: Integers, source: noise.Source) -> NDArray[Any]:
        width = self._digits.shape[1]
        drawn = noise.uniform_integers(source, self.groups, places.size * width).reshape(places.size, width)
        groups = (drawn * self._digits[places]).sum(axis=1) % self.groups
        return np.column_stack([drawn, self._inner.randomized(groups, source)])

    def counts(self, reports: Any) -> Integers:
        rows = table_of(reports, self._digits.shape[1] + 1, "iu", "rows of coefficients and a group")
        if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < self.groups:
            raise InvalidParameter("coefficients and groups are integers from 0 on, below the number of groups")
        drawn, told = rows[:, :-1].astype(np.int64), rows[:, -1]
        found = [np.count_nonzero(drawn @ digits % self.groups == told) for digits in self._digits]
        return np.array(found, dtype=np.int64)

    @cached_property
    def _inner(self) -> KRandomizedResponse:
        return KRandomizedResponse(range(self.groups), self.epsilon)

    @cached_property
    def _digits(self) -> Integers:
        """The digits of every position, lowest first."""
        width, places = 1, np.arange(len(self.values), dtype=np.int64)
        while self.groups**width < len(self.values):
            width += 1
        return np.column_stack([places // self.groups**power % self.groups for power in range(width)])


# Reports of one randomized bit a value.


@dataclass(frozen=True)
class UnaryEncoding(LocalReports):
    """Unary encoding: one bit for each value, on for the own one alone, every bit randomized by itself.

    Guarantee: `Pure(epsilon)`. Another value changes two bits, of which one turns on and one off. `optimised` (OUE): a
    one is reported truly with 1/2, a zero wrongly with `1 / (1 + e^epsilon)`, so the two ratios multiply to
    `e^epsilon`. Its error does not grow with the number of values. Otherwise (SUE, the basic form of RAPPOR) every bit
    is flipped with `1 / (1 + e^(epsilon/2))`. Both attain epsilon. Source: Wang, Blocki, Li and Jha 2017; Erlingsson,
    Pihur and Korolova 2014.

    >>> survey = UnaryEncoding([f"site {k}" for k in range(100)], epsilon=2)
    >>> len(survey.report("site 7"))
    100
    >>> found = survey.estimate(survey.reports(["site 7"] * 4000))
    >>> found["site 7"].low > 0.8, found["site 8"].high < 0.2
    (True, True)
    """

    optimised: bool = True

    @property
    def channel(self) -> accuracy.Channel:
        return accuracy.optimised_channel(self.epsilon) if self.optimised else accuracy.symmetric_channel(self.epsilon)

    @property
    def chances(self) -> tuple[noise.Enclosure, noise.Enclosure]:
        """The probabilities that a one is reported as a zero, and a zero as a one."""
        epsilon = positive(self.epsilon, "epsilon")
        flip = noise.Enclosure.logistic(epsilon / 2)
        return (noise.Enclosure.rational("1/2"), noise.Enclosure.logistic(epsilon)) if self.optimised else (flip, flip)

    def randomized(self, places: Integers, source: noise.Source) -> NDArray[Any]:
        lost, gained = self.chances
        found = noise.bernoulli(source, gained, places.size * len(self.values)).reshape(places.size, -1)
        found[np.arange(places.size), places] = ~noise.bernoulli(source, lost, places.size)
        return found

    def counts(self, reports: Any) -> Integers:
        bits = table_of(reports, len(self.values), "b", "rows of one Boolean a value")
        found: Integers = np.count_nonzero(bits, axis=0)
        return found

    def tallied(self, holders: Integers, people: int, source: noise.Source) -> Integers:
        """How many of the people's reports speak for each value, which `holders` of them hold; drawn value by value."""
        lost, gained = self.chances
        found = []
        for own in map(int, holders):
            kept = own - int(np.count_nonzero(noise.bernoulli(source, lost, own)))
            found.append(kept + int(np.count_nonzero(noise.bernoulli(source, gained, people - own))))
        return np.array(found, dtype=np.int64)


# Reports that are repeated: bits that are randomized once for all, and once more for each report (RAPPOR).

# Several roundings of floats on probabilities and their logarithms.
_SLACK = 1e-12


@dataclass(frozen=True)
class Remembered:
    """The permanent bits of one person for one value. They stay on the device: a reader of them learns `epsilon` at
    once.
    """

    bits: tuple[bool, ...]

    def __repr__(self) -> str:
        return "Remembered(<secret>)"


@dataclass(frozen=True)
class MemoizedReports(LocalReports):
    """Memoized reports for every day of a value that stays: one bit a value.
    Each bit is randomized once for all (`epsilon`), and the outcome afresh for each report (`instant`).

    Guarantee: however many reports are made of one `Remembered`, together they are `Pure(epsilon)`; of m of them
    `epsilon_after(m)`, which is exact. One report alone reveals less,
    `tanh(report/4) = tanh(epsilon/4) tanh(instant/4)`. A value that changes is remembered anew, and its epsilon adds
    up: the promise is for one value. Reports are bits of the symmetric form of `UnaryEncoding`; there is no Bloom
    filter, so values are listed.

    >>> daily = MemoizedReports(["a", "b", "c"], epsilon=3, instant=2)
    >>> [round(daily.epsilon_after(days), 3) for days in (1, 7, 365)]
    [1.21, 2.992, 3.0]
    >>> kept = daily.remember("b")                       # once, kept on the device
    >>> monday, tuesday = daily.repeat(kept), daily.repeat(kept)
    >>> kept
    Remembered(<secret>)

    Source: Erlingsson, Pihur and Korolova 2014, section 3 (the permanent and the instantaneous response).
    """

    _: KW_ONLY
    instant: Number

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self, instant=positive)
        noise.checked_scale(max(noise.SMALLEST_SCALE, 1 / positive(self.instant, "instant")))

    @classmethod
    def for_report(cls, values: Sequence[Hashable], *, epsilon: Number, report: Number) -> "MemoizedReports":
        """The reports whose instant noise makes a single report at most `report`-DP.
        `InvalidParameter` unless `report` is below `epsilon`.

        >>> daily = MemoizedReports.for_report(["a", "b"], epsilon=2, report=1)
        >>> daily.epsilon_after(1) <= 1
        True
        """
        most, single = float(positive(epsilon, "epsilon")), float(positive(report, "report"))
        if single >= most:
            raise InvalidParameter(f"report must be less than epsilon {plain(most)}, got {plain(single)}")
        part = math.tanh(single / 4) / math.tanh(most / 4)
        # A part of 1 would be no instant noise at all.
        instant = 4 * math.atanh(min(part, 1 - _SLACK)) * (1 - 1e-9)
        return cls(values, epsilon, instant=instant)

    @property
    def channel(self) -> accuracy.Channel:
        """The channel of one report of every person.
        Further reports of the same people do not reduce the error of the permanent bits."""
        permanent, instant = self._flips
        flip = permanent * (1 - instant) + instant * (1 - permanent)
        return accuracy.Channel(1 - flip, flip)

    def randomized(self, places: Integers, source: noise.Source) -> NDArray[Any]:
        return self._once_more(self.permanent.randomized(places, source), source)

    def counts(self, reports: Any) -> Integers:
        return self.permanent.counts(reports)

    @cached_property
    def permanent(self) -> UnaryEncoding:
        """What is done once for all."""
        return UnaryEncoding(self.values, self.epsilon, optimised=False)

    def remember(self, value: Hashable, *, source: noise.Source | None = None) -> Remembered:
        """The permanent bits, drawn once: keep them for as long as the value stays, and draw no others for it."""
        return Remembered(tuple(self.permanent.report(value, source=source)))

    def repeat(self, kept: Remembered, *, source: noise.Source | None = None) -> list[bool]:
        """One report of what is remembered."""
        bits = np.array([kept.bits], dtype=np.bool_)
        told: list[bool] = self._once_more(bits, source or noise.OperatingSystem())[0].tolist()
        return told

    def epsilon_after(self, reports: int) -> float:
        """What this many reports of one remembered value may reveal together, rounded up; at most `epsilon`.

        Of the m reports of a bit only the number s of ones counts. Its likelihood ratio between an own and another
        value rises in s, so two bits tell most where one is always on and the other always off.
        """
        permanent, _ = self._flips
        # The m-th power of i/(1-i) for the probability i of the instant flip.
        rare = math.exp(-whole(reports, "reports") * float(self.instant) / 2)
        # That of m ones; by symmetry that of m zeros is one over it.
        one, other = (1 - permanent) + permanent * rare, permanent + (1 - permanent) * rare
        # Where floats hold no probability that is as small, the reports tell all that is remembered.
        ratio = one / other if other else math.inf
        return min(2 * math.log(ratio) * (1 + _SLACK) + _SLACK, float_up(positive(self.epsilon, "epsilon")))

    def event(self) -> Pure:
        """What all reports of one remembered value may reveal."""
        return Pure(self.epsilon)

    @property
    def _flips(self) -> tuple[float, float]:
        """The probabilities that a permanent bit is flipped, and that one is flipped again."""
        permanent, instant = (math.exp(-float(size) / 2) for size in (self.epsilon, self.instant))
        return permanent / (1 + permanent), instant / (1 + instant)

    def _once_more(self, bits: NDArray[np.bool_], source: noise.Source) -> NDArray[np.bool_]:
        flip = noise.Enclosure.logistic(positive(self.instant, "instant") / 2)
        return bits ^ noise.bernoulli(source, flip, bits.size).reshape(bits.shape)


# Randomized response: each bit is reported truly with a known probability, so that the proportion of ones can be
# estimated.

Bits = NDArray[np.bool_]
# ln 3 = 1.098612288668109691..., rounded up in the 17th digit.
LOG_3_UP: Final = Fraction("1.09861228866810970")


@dataclass(frozen=True)
class ShareEstimate:
    """The proportion of ones among the `units` who answered, from their randomized answers.

    `share` is unbiased, and so may lie outside [0, 1]. `standard_error` is exactly its standard deviation over the
    randomization. `low` and `high` enclose the true proportion with at least the probability `confidence`, whatever the
    bits. An estimate about the population says so of the population's proportion.
    """

    units: int
    share: float
    standard_error: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class RandomizedResponse:
    """Answers every bit truly with probability `e^epsilon / (1 + e^epsilon)`, and otherwise with its opposite.

    Guarantee: `Pure(epsilon)` for each bit, even against the collector of the answers; if a person has several bits,
    their epsilons add up. The probability is exact. Every answer is drawn afresh: keep it and repeat it instead of
    answering twice. Noise comes from the operating system unless a `source` is given, for tests.

    Errors: `InvalidParameter` for bits that are no Booleans, for an epsilon below 2**-40, and for an estimate
    without answers. Source: theory chapter 9; Warner 1965.

    >>> import numpy as np
    >>> survey = RandomizedResponse("0.5")
    >>> answers = survey.answers(np.arange(10_000) < 3000)
    >>> found = survey.estimate(answers)
    >>> round(found.standard_error, 4), abs(found.share - 0.3) < 0.2
    (0.0198, True)
    """

    epsilon: Number

    def __post_init__(self) -> None:
        checked(self, epsilon=positive)
        noise.checked_scale(max(noise.SMALLEST_SCALE, 1 / positive(self.epsilon, "epsilon")))

    @staticmethod
    def coins() -> "RandomizedResponse":
        """Heads: the truth; tails: the outcome of a second coin. True with probability 3/4, which is (ln 3)-DP."""
        return CoinResponse()

    @property
    def lie(self) -> noise.Enclosure:
        """The probability of the opposite answer."""
        return noise.Enclosure.logistic(positive(self.epsilon, "epsilon"))

    @property
    def lie_chance(self) -> float:
        """The probability of the opposite answer as a float, for reports."""
        power = math.exp(-float(self.epsilon))
        return power / (1 + power)

    def answer(self, bit: bool, *, source: noise.Source | None = None) -> bool:
        """One randomized answer.

        >>> RandomizedResponse(1000).answer(True)
        True
        """
        return bool(self.answers([bit], source=source)[0])

    def answers(self, bits: Sequence[bool] | Bits, *, source: noise.Source | None = None) -> Bits:
        """One randomized answer for each bit, in their order, as a Boolean array."""
        truth = _bits(bits, "bits")
        lies = noise.bernoulli(source or noise.OperatingSystem(), self.lie, truth.size)
        return truth ^ lies

    def ones(self, yes: int, units: int, source: noise.Source) -> int:
        """How many of the randomized answers of `units` bits, `yes` of which are ones, are ones."""
        lies = noise.bernoulli(source, self.lie, whole(units, "units", least=0))
        return yes - int(np.count_nonzero(lies[:yes])) + int(np.count_nonzero(lies[yes:]))

    def estimate(
        self, answers: Sequence[bool] | Bits, confidence: Number = "0.95", *, about: About = "respondents"
    ) -> ShareEstimate:
        """The proportion of ones among the bits behind these answers; see `share_of` for the interval."""
        given = _bits(answers, "answers")
        return self.share_of(int(np.count_nonzero(given)), given.size, confidence, about=about)

    def share_of(
        self, ones: int, units: int, confidence: Number = "0.95", *, about: About = "respondents"
    ) -> ShareEstimate:
        """The estimate from the number of answers and the number of ones among them.

        The proportion is that among these units, or in the population that they were drawn from independently. Its
        interval inverts the exact distribution of the number of ones, for every number of units; it is never wider than
        what the distribution leaves open. About the population, the standard error is an estimate, and holds the error
        of drawing.
        """
        _check_about(about)
        whole(units, "the number of answers")
        if whole(ones, "ones", least=0) > units:
            raise InvalidParameter("there cannot be more ones than answers")
        level, lie = probability(confidence, "confidence"), self.lie_chance
        share = (ones / units - lie) / (1 - 2 * lie)
        channel = accuracy.Channel(1 - lie, lie)
        if about == "population":
            spread = math.sqrt(channel.drawn_variance(min(1.0, max(0.0, share))) / units)
            return ShareEstimate(units, share, spread, *channel.population(ones, units, 1 - level), float(level))
        spread = math.sqrt(lie * (1 - lie) / units) / (1 - 2 * lie)
        return ShareEstimate(units, share, spread, *channel.respondents(ones, units, 1 - level), float(level))

    def event(self) -> Pure:
        """What the answer for one bit may reveal."""
        return Pure(self.epsilon)


@dataclass(frozen=True)
class CoinResponse(RandomizedResponse):
    """Randomized response with two fair coins; made by `RandomizedResponse.coins`. Its epsilon is ln 3, rounded up."""

    epsilon: Number = field(default=LOG_3_UP, init=False)

    @property
    def lie(self) -> noise.Enclosure:
        return noise.Enclosure.rational("1/4")

    @property
    def lie_chance(self) -> float:
        return 0.25


def _bits(values: Sequence[bool] | Bits, name: str) -> Bits:
    given: NDArray[Any] = np.asarray(values)
    if given.ndim != 1 or (given.dtype != np.bool_ and given.size):
        raise InvalidParameter(f"{name} must be a list or array of True and False")
    return given.astype(np.bool_, copy=False)
