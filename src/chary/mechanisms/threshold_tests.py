"""Tests against thresholds on exact integers: Laplace, optimal, two-sided, with a hidden threshold."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Generic, Literal, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting import Event, OneSidedNoise, SparseNoise, Targeted, between_q_down, error_up, one_sided_error_up
from chary.accounting.gaussian_runs import NOTHING_TOLD, Reported, StoppingRule, Table
from chary.accounting.sharp_tests import BITS, SharpTable, SharpTest, TwoSidedTable
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Additive, Integers, Laplace, SecretState
from chary.noise import Source, laplace, partition
from chary.noise.gaussian import Deviate, deviate, reaches
from chary.noise.source import LARGEST_UPPER, integers
from chary.numbers import Number, checked, exact, positive, set_fields, whole, work_out

# Sparse vector: which values are above a threshold whose noise stays hidden, until that many were.


@dataclass(frozen=True, repr=False)
class HiddenThreshold(SecretState):
    """The noise of the threshold, which is secret and shown nowhere, and how many hits were used."""

    shift: int
    used: int = 0
    secret = ("shift",)

    def _length(self) -> int:
        return 0


@dataclass(frozen=True)
class Crossed:
    """How many values were tested in order, the positions of those above, their noisy values if any are published."""

    tested: int
    positions: list[int]
    values: list[int] | None


Sizes = TypeVar("Sizes", SparseNoise, OneSidedNoise)


@dataclass(frozen=True)
class SparseMachine(ABC, Generic[Sizes]):
    """Whether each integer, with fresh noise, reaches a threshold with noise of its own; it ends at the last of `hits`.

    The noise of the threshold is drawn at the start and stays hidden. Subclasses choose the noises, by `sizes`.
    """

    sizes: Sizes

    def __post_init__(self) -> None:
        work_out(self.answers, self._laws())  # refuses noise out of range

    @property
    @abstractmethod
    def answers(self) -> Laplace | None:
        """The noise of a published value, which is not that of its test: that must stay hidden."""

    @property
    @abstractmethod
    def scaled(self) -> Sizes:
        """The sizes in grid steps."""

    @property
    @abstractmethod
    def deviation(self) -> float:
        """The standard deviation of the noise of a test and its threshold together, in grid steps."""

    @abstractmethod
    def error_up(self, tests: int, confidence: Number) -> int:
        """How far off this many tests may be together, in grid steps."""

    @abstractmethod
    def _laws(self) -> "tuple[Laplace, Laplace] | tuple[Geometric, Geometric]":
        """The noise of the threshold and of a test."""

    @property
    def tests_alone(self) -> Self:
        """This sparse vector without published values."""
        return replace(self, sizes=replace(self.sizes, answer=None))

    def start(self, source: noise.Source) -> HiddenThreshold:
        """Draw the threshold's noise."""
        return HiddenThreshold(self._laws()[0].draw_one(source))

    def step(
        self, state: HiddenThreshold, values: Integers, threshold: int, source: noise.Source
    ) -> tuple[HiddenThreshold, Crossed]:
        """Test exact values in order, as if one by one; values after the last allowed hit stay untested."""
        if state.used >= self.sizes.hits:
            raise InvalidParameter("all hits of this sparse vector are exhausted")
        bar, noisy = threshold + self.sizes.shift, self._laws()[1].apply(values, source)
        above: list[int] = []
        tested = 0
        while tested < len(values) and state.used < self.sizes.hits:
            most = 1 if self.sizes.redrawn else self.sizes.hits - state.used
            seen, found = _until(noisy[tested:] >= bar + state.shift, most)
            above += (tested + found).tolist()
            tested += seen
            state = self._after(state, len(found), source)
        law = self.answers
        return state, Crossed(tested, above, None if law is None else law.apply(values[above], source).tolist())

    def _after(self, state: HiddenThreshold, found: int, source: noise.Source) -> HiddenThreshold:
        used = state.used + found
        if found and self.sizes.redrawn and used < self.sizes.hits:
            return HiddenThreshold(self.start(source).shift, used)
        return HiddenThreshold(state.shift, used)


def _answers(sizes: SparseNoise | OneSidedNoise, sensitivity: int) -> Laplace | None:
    return None if sizes.answer is None else Laplace(max(noise.SMALLEST_SCALE, sizes.answer), sensitivity)


@dataclass(frozen=True)
class SparseVectorMachine(SparseMachine[SparseNoise]):
    """A sparse vector with discrete Laplace noise of these `sizes`, each times the sensitivity.

    Guarantee: that of its `sizes`, for any number of values, chosen adaptively. Each moves by at most `sensitivity`
    steps between neighbours (and all in one direction, if the noise was made for that). The published proofs hold for
    discrete noise because the sensitivity is whole (docs/theory/thresholds.md). All in grid steps.

    >>> from chary.accounting import sparse_noise
    >>> sure = SparseVectorMachine(sparse_noise(epsilon=10**6, hits=2), sensitivity=1)
    >>> source = noise.OperatingSystem()
    >>> state, crossed = sure.step(sure.start(source), np.array([3, 9, 4, 9, 9]), 5, source)
    >>> crossed, state
    (Crossed(tested=4, positions=[1, 3], values=None), HiddenThreshold(<secret>, used=2))
    """

    sensitivity: int

    def __post_init__(self) -> None:
        whole(self.sensitivity, "sensitivity")
        super().__post_init__()

    @property
    def answers(self) -> Laplace | None:
        return _answers(self.scaled, self.sensitivity)

    @property
    def scaled(self) -> SparseNoise:
        return self.sizes.scaled(self.sensitivity)

    @property
    def deviation(self) -> float:
        return math.sqrt(2) * math.hypot(self.scaled.threshold, self.scaled.test)

    def error_up(self, tests: int, confidence: Number) -> int:
        return error_up(self.scaled, tests=tests, confidence=confidence)

    def _laws(self) -> tuple[Laplace, Laplace]:
        threshold, test = (max(noise.SMALLEST_SCALE, scale) for scale in (self.scaled.threshold, self.scaled.test))
        return Laplace(threshold, self.sensitivity), Laplace(test, self.sensitivity)


# Sparse vector with one-sided noise: no test is lost to noise that pulls a value down, or the threshold.


@dataclass(frozen=True)
class Geometric:
    """Geometric noise `P(k) ~ exp(-k / scale)` on k >= 0.

    >>> Geometric(Fraction(50)).at_least(0), round(Geometric(Fraction(50)).at_least(50), 3)
    (1.0, 0.368)
    """

    scale: Fraction

    def __post_init__(self) -> None:
        noise.checked_scale(self.scale)

    def draw_one(self, source: noise.Source) -> int:
        """One exact sample."""
        return self._ladder.draw_one(source)

    def apply(self, values: Integers, source: noise.Source) -> Integers:
        """Noisy integers, one for each value; the sum never wraps around."""
        return noise.add(values, noise.geometric(source, self.scale, len(values)))

    def at_least(self, distance: int) -> float:
        """The probability that the noise is `distance` or more."""
        return math.exp(-max(distance, 0) / float(self.scale))

    @cached_property
    def _ladder(self) -> laplace.Ladder:
        return laplace.ladder(self.scale, False)


@dataclass(frozen=True)
class OneSidedMachine(SparseMachine[OneSidedNoise]):
    """A sparse vector with geometric noise of these `sizes`, on each test and on the threshold.

    Guarantee: `sizes.event`, for any number of values, chosen adaptively. Each moves by at most `sizes.sensitivity`
    steps between neighbours (and all in one direction, if the noise was made for that). The proof is in
    docs/theory/thresholds.md. The threshold that is tested lies `sizes.shift` above the public one. All in grid steps.

    Source: theory chapter 2, "Few hits".

    >>> from chary.accounting import one_sided_noise
    >>> sure = OneSidedMachine(one_sided_noise(epsilon=10**6, hits=2))
    >>> source = noise.OperatingSystem()
    >>> state, crossed = sure.step(sure.start(source), np.array([3, 9, 4, 9, 9]), 5, source)
    >>> crossed, state
    (Crossed(tested=4, positions=[1, 3], values=None), HiddenThreshold(<secret>, used=2))
    """

    @property
    def sensitivity(self) -> int:
        """By how many steps a value may move."""
        return self.sizes.sensitivity

    @property
    def answers(self) -> Laplace | None:
        return _answers(self.sizes, self.sensitivity)

    @property
    def scaled(self) -> OneSidedNoise:
        return self.sizes

    @property
    def event(self) -> Event:
        """What everything that is answered may reveal."""
        return self.sizes.event

    @property
    def deviation(self) -> float:
        return math.hypot(self.sizes.threshold, self.sizes.test)

    def error_up(self, tests: int, confidence: Number) -> int:
        return one_sided_error_up(self.sizes, tests=tests, confidence=confidence)

    def _laws(self) -> tuple[Geometric, Geometric]:
        threshold, test = (max(noise.SMALLEST_SCALE, scale) for scale in (self.sizes.threshold, self.sizes.test))
        return Geometric(threshold), Geometric(test)


# Between thresholds ([TCT] section 2.6): low and high are free, only the zone between them is paid.

Zone = Literal["low", "between", "high"]


@dataclass(frozen=True)
class ThreeZones:
    """Where an integer plus discrete Laplace noise lies: below `low`, from `low` on below `high`, or from `high` on.

    Thresholds are whole grid steps, `low < high`; epsilon = sensitivity / scale.

    Guarantee: `Targeted(epsilon, q)` with the target "between" and
    `q = (1 - exp(-(high - low)/scale)) / (e^epsilon + 1)`, which is attained. The noisy value itself is not published.

    >>> zones = ThreeZones(Laplace.for_epsilon("0.1", sensitivity=1), low=450, high=550)
    >>> zones.step(10**6, noise.OperatingSystem())
    'high'
    >>> round(float(zones.event().q), 6)
    0.474999
    """

    additive: Laplace
    low: int
    high: int

    def __post_init__(self) -> None:
        if any(isinstance(bar, bool) or not isinstance(bar, int) for bar in (self.low, self.high)):
            raise InvalidParameter("low and high must be integers of grid steps")
        if self.low >= self.high:
            raise InvalidParameter("low must be below high")
        self.event()

    @property
    def epsilon(self) -> Fraction:
        """The privacy of one call."""
        return call_epsilon(self.additive)

    def step(self, value: int, source: noise.Source) -> Zone:
        """The zone of an exact value."""
        noisy = noise.add(int(value), self.additive.draw(source, 1))
        return "low" if noisy < self.low else "between" if noisy < self.high else "high"

    def event(self) -> Targeted:
        """What a call may reveal; a hit is "between"."""
        width = self.high - self.low
        return Targeted(self.epsilon, between_q_down(self.epsilon, width=width, sensitivity=self.additive.sensitivity))


# Conditional release and revisions ([TCT] Algorithm 2): publish the noisy value if it is in the target, or nothing.


@dataclass(frozen=True, repr=False)
class Held(SecretState):
    """A noisy outcome that was not published: secret state.

    `value` is what would be published, `score` its integer of grid steps, `floor` the (public) lowest threshold it has
    failed. Neither repr nor str shows value or score.
    """

    value: int | float
    score: int
    floor: int
    secret = ("value", "score")

    def _length(self) -> int:
        return len(str(self.floor))


@dataclass(frozen=True)
class Published:
    """An outcome that was in the target."""

    value: int | float


def judge(value: int | float, score: int, threshold: int) -> Held | Published:
    """Publish an outcome whose score reaches the threshold, hold it otherwise.

    Guarantee: if the outcome is epsilon-DP, this is an epsilon-DP call with the NotPrior target "published".
    """
    return Published(value) if score >= threshold else Held(value, score, threshold)


def revise(held: Held, threshold: int) -> Held | Published:
    """Lower the threshold for a held outcome: a 2 epsilon-DP call with a NotPrior target, one hit at most in all.

    Errors: `InvalidParameter` if the new threshold is not below the last one, since the target must grow by a disjoint
    set.

    >>> revise(Held(480, 480, 500), 450)
    Published(value=480)
    >>> revise(Held(480, 480, 500), 490)
    Held(<secret>, floor=490)
    """
    if threshold >= held.floor:
        raise InvalidParameter("a revision must lower the threshold below the last one that was tried")
    return judge(held.value, held.score, threshold)


@dataclass(frozen=True)
class Watched:
    """What a watch found: how many values were tested in order, the positions that hit, their noisy values."""

    tested: int
    positions: list[int]
    noisy: list[int]


@dataclass(frozen=True)
class BarTests:
    """One conditional release for each of many values, in order; with `most_hits`, halting right after that many.

    Guarantee: each value is an epsilon-DP call with a NotPrior target, and noise is independent. So if neighbours
    differ in c of the values, at most min(hits, c) of the hits concern any of them (theory 1.6).
    """

    additive: Additive
    threshold: int
    most_hits: int | None = None

    def reached(self, value: int, source: noise.Source) -> bool:
        """Test one exact value alone."""
        return self.additive.apply_one(value, source) >= self.threshold

    def step(self, values: Integers, source: noise.Source) -> Watched:
        """Test the exact values; values after the last allowed hit stay untested."""
        noisy = self.additive.apply(values, source)
        tested, hits = _until(noisy >= self.threshold, self.most_hits)
        return Watched(tested, hits.tolist(), [int(noisy[k]) for k in hits])


def _until(hit: NDArray[np.bool_], most: int | None) -> tuple[int, NDArray[np.intp]]:
    """How many values are tested until this many hit, and which of them do."""
    hits = np.flatnonzero(hit)[:most]
    return int(hits[-1]) + 1 if most is not None and len(hits) == most else len(hit), hits


# Optimal threshold tests of many values at once: hits drawn exactly from the probabilities of a table.

_WORD_BITS: Final = 64
_REST_BITS: Final = BITS - _WORD_BITS
_REST_WORDS: Final = _REST_BITS // _WORD_BITS


@dataclass(frozen=True)
class SharpSampler:
    """Whether integers hit, each with exactly its probability in the table, independently.

    Guarantee: `SharpTest` for each value that one unit moves by at most the table's sensitivity. Misses cost nothing
    unless they were given a cost.

    A value between two places of the chain moves to one of them with a probability in proportion, which is what the
    table's mixing means. Then 64 random bits are compared with the leading bits of that probability, and the rest is
    drawn only where they are equal. The time a draw takes depends on values only through that, with a probability of
    2^-64.

    Values are whole steps above the table's centre, where the probability is 1/2, and of any size. Arrays that do not
    hold integers raise `InvalidParameter`, whose message shows none; so does, before there are values, a table whose
    places lie more than 2**62 steps apart.

    >>> from chary.accounting.sharp_tests import sharp_table
    >>> sampler = SharpSampler(sharp_table(order=18, price="0.19295", steps=10))
    >>> sampler.hits(np.array([-10**9, 10**9]), noise.OperatingSystem())
    array([False,  True])
    """

    table: SharpTable

    def __post_init__(self) -> None:
        # Beyond it whether values fit int64 would decide how a draw fails.
        if self.table.spacing > LARGEST_UPPER:
            raise InvalidParameter(
                "one unit may move this by too many steps for a test to draw them exactly: take a coarser grid"
            )

    def event(self) -> SharpTest:
        """What one test may reveal."""
        return self.table.test

    def step(self, value: int, source: noise.Source) -> bool:
        """Whether one value hits."""
        return bool(self.hits(np.array([value], dtype=object), source)[0])

    def hits(self, values: NDArray[Any], source: noise.Source) -> NDArray[np.bool_]:
        """Whether each of a vector of values hits."""
        places = self._places(values, source)
        words = source.words(places.size, _WORD_BITS)
        leading = self._leading.take(places)
        found: NDArray[np.bool_] = words < leading
        for tie in np.flatnonzero(words == leading):
            found[tie] = self._settled(self.table.chances[places[tie]], source)
        return found

    def _places(self, values: NDArray[Any], source: noise.Source) -> NDArray[np.int64]:
        """For each value the place of the chain whose probability counts, drawn where it lies between two."""
        whole, spacing = noise.add(values, 0), self.table.spacing
        places = whole // spacing if spacing > 1 else whole
        first, last = -self.table.centre, len(self.table.chances) - 1 - self.table.centre
        # One place beyond the start, so that what lies below it does not move up into the chain.
        found = np.clip(places, first - 1, last).astype(np.int64)
        if spacing > 1:
            found += noise.uniform_integers(source, spacing, found.size) < whole - places * spacing
        return np.clip(found, first, last) - first

    @cached_property
    def _leading(self) -> NDArray[np.uint64]:
        return np.array([chance >> _REST_BITS for chance in self.table.chances], dtype=np.uint64)

    @staticmethod
    def _settled(chance: int, source: noise.Source) -> bool:
        """Whether the rest of a random number, whose leading bits are those of the probability, is below its rest."""
        drawn = 0
        for word in integers(source, _REST_WORDS):
            drawn = drawn << _WORD_BITS | word
        return drawn < chance & ((1 << _REST_BITS) - 1)


# Optimal threshold tests of many values in order, hits with fresh values if any, halting when the paid hits run out.


@dataclass(frozen=True)
class SharpTests:
    """One optimal test for each of many values, in order; with `most_hits`, halting right after that many.

    Guarantee: each value is a `SharpTest`. At a hit it is also a release with noise of its own (`fresh`; None for no
    values), drawn for that purpose alone. Draws are independent, so if neighbours differ in c of the values, at most
    min(hits, c) of the hits and values concern any of them (theory 1.6).
    """

    sampler: SharpSampler
    threshold: int
    fresh: Additive | None
    most_hits: int | None = None

    def reached(self, value: int, source: noise.Source) -> bool:
        """Test one exact value alone; no value is drawn."""
        return self.sampler.step(value - self.threshold, source)

    def step(self, values: Integers, source: noise.Source) -> Watched:
        """Test the exact values; values after the last allowed hit stay untested."""
        tested, hits = _until(self.sampler.hits(noise.add(values, -self.threshold), source), self.most_hits)
        noisy = () if self.fresh is None else self.fresh.apply(values[hits], source)
        return Watched(tested, hits.tolist(), [int(value) for value in noisy])


# A noisy threshold test whose outcome probabilities are known exactly.


def call_epsilon(additive: Laplace) -> Fraction:
    """The epsilon of one value with this noise; noise that is shared by several values raises `InvalidParameter`."""
    if additive.times != 1:
        raise InvalidParameter("the noise must be for one value at a time")
    return additive.sensitivity / additive.scale


@dataclass(frozen=True)
class AdditiveTest:
    """Whether an integer plus discrete Laplace noise reaches a threshold: outcome 1, or 0. All in grid steps.

    Guarantee: an epsilon-DP call with the NotPrior target 1, epsilon = sensitivity / scale; with its distribution for a
    `Boundary` wrapper.

    >>> test = AdditiveTest(Laplace.for_epsilon("0.1", sensitivity=1), threshold=500)
    >>> [round(p, 4) for p in test.law(510).probabilities()]
    [0.1748, 0.8252]
    >>> test.event()
    Targeted(bound=Fraction(1, 10), q=None, failure=Fraction(0, 1))
    """

    additive: Laplace
    threshold: int

    def __post_init__(self) -> None:
        Targeted(self.epsilon)

    @property
    def epsilon(self) -> Fraction:
        """The privacy of one test."""
        return call_epsilon(self.additive)

    @property
    def outcomes(self) -> int:
        """Two."""
        return 2

    def law(self, value: int) -> noise.FiniteLaw:
        """The exact distribution of the outcome.
        It depends on data: for drawing and for reports about synthetic data only."""
        return ThresholdLaw(self.additive.scale, self.threshold - int(value))

    def step(self, value: int, source: noise.Source) -> int:
        """The outcome for an exact value."""
        return self.law(value).draw(source)

    def event(self) -> Targeted:
        """What a test may reveal; outcome 1 is the hit."""
        return Targeted(self.epsilon)


class ThresholdLaw(noise.FiniteLaw):
    """Outcome 1: discrete Laplace noise is `distance` or more. Its probability is `r^distance/(1 + r)`, or 1 minus it.

    Here `r = exp(-1/scale)`, and the rarer outcome is the one in closed form.
    """

    def __init__(self, scale: Fraction, distance: int) -> None:
        self._rate = 1 / noise.checked_scale(scale)
        self._high_is_rare = distance >= 1
        self._steps = distance if distance >= 1 else 1 - distance

    @property
    def size(self) -> int:
        return 2

    def bounds(self, bits: int) -> list[partition.Bounds]:
        work = bits + partition.GUARD_BITS
        one = 1 << work
        top, ratio = (noise.Enclosure.exponential(k * self._rate).bounds(work) for k in (self._steps, 1))
        low, high = (top[0] << bits) // (one + ratio[1]), -((-top[1] << bits) // (one + ratio[0]))
        rest = ((1 << bits) - high, (1 << bits) - low)
        return [rest, (low, high)] if self._high_is_rare else [(low, high), rest]

    def near(self) -> tuple[partition.Floats, float]:
        """One cut point, from two correctly rounded exponents and two exponentials."""
        exponent = float(min(self._steps * self._rate, Fraction(partition.NEGLIGIBLE)))
        rare = math.exp(-exponent) / (1 + math.exp(-float(self._rate)))
        return np.array([1 - rare if self._high_is_rare else rare]), partition.WEIGHT_ERROR


# Two-sided optimal threshold tests of many values at once.


@dataclass(frozen=True)
class TwoSidedSampler:
    """Whether integers are far from 0, above or below, each with exactly its probability in the table, independently.

    Guarantee: `SharpTest` for each value that one unit moves by at most the table's sensitivity. What is far from a
    public value is asked by its difference from that.

    Values have any size; arrays that do not hold integers raise `InvalidParameter`, whose message shows none.

    >>> from chary.accounting.sharp_tests import sharp_table
    >>> sampler = TwoSidedSampler(TwoSidedTable(sharp_table(order=18, price="0.19295"), change=2000))
    >>> sampler.hits(np.array([-10**9, 0, 10**9]), noise.OperatingSystem())
    array([ True, False,  True])
    """

    table: TwoSidedTable

    def __post_init__(self) -> None:
        work_out(self._one_sided)  # refuses places too far apart to draw between

    def event(self) -> SharpTest:
        """What one test may reveal."""
        return self.table.event

    def step(self, value: int, source: noise.Source) -> bool:
        """Whether one value is far from 0."""
        return self._one_sided.step(abs(int(value)) - self.table.change, source)

    def hits(self, values: NDArray[Any], source: noise.Source) -> NDArray[np.bool_]:
        """Whether each of a vector of values is far from 0."""
        exact = noise.add(values, 0)
        # The magnitude of the least 64-bit integer is none.
        safe = exact.astype(object) if exact.dtype != object and (exact == np.iinfo(np.int64).min).any() else exact
        return self._one_sided.hits(noise.add(np.abs(safe), -self.table.change), source)

    @cached_property
    def _one_sided(self) -> SharpSampler:
        return SharpSampler(self.table.table)


# A threshold and values with real Gaussian noise ([GAUSS]; theory chapter 2).

# Rounded up: more noise than sqrt(3) times only adds privacy, less would void bounds that start there.
ROOT_OF_THREE_UP = Fraction(1732051, 10**6)


@dataclass(frozen=True)
class GaussianThreshold:
    """Whether values reach a threshold, both with Gaussian noise: the threshold's drawn once, each value's afresh.

    `query_noise=None` is sqrt(3) times `threshold_noise`, rounded up to six digits ([GAUSS]). All in one unit.

    Guarantee: that of `accounting.above_threshold_epsilons_up`, ex post, for values in a range which stop at the first
    True: `ExPost` of the loss of all answers together. Noise is exact, as in `GaussianMax`.

    >>> from chary.noise import OperatingSystem
    >>> test = GaussianThreshold(threshold=5, threshold_noise="0.01")
    >>> held = test.start(OperatingSystem())
    >>> above, held = test.step(Fraction(6), held, OperatingSystem())
    >>> above, held
    (True, Deviate(<secret>))
    """

    threshold: Number
    threshold_noise: Number
    query_noise: Number | None = None

    def __post_init__(self) -> None:
        checked(self, threshold=exact, threshold_noise=positive)
        given = self.query_noise
        found = Fraction(self.threshold_noise) * ROOT_OF_THREE_UP if given is None else positive(given, "query_noise")
        set_fields(self, query_noise=found)

    @property
    def scales(self) -> tuple[Fraction, Fraction]:
        """The standard deviations of the noise on the threshold and on each value."""
        return Fraction(self.threshold_noise), Fraction(self.query_noise or 0)

    def start(self, source: Source) -> Deviate:
        """The noise of the threshold in units of `threshold_noise`: secret state of the run."""
        return deviate(source)

    def step(self, value: Fraction, held: Deviate, source: Source) -> tuple[bool, Deviate]:
        """Whether the noisy value is at or above the noisy threshold, and the state to continue."""
        own, other = self.scales
        found = reaches(source, value - Fraction(self.threshold), [(other, deviate(source)), (-own, held)])
        return found.reached, found.deviates[1]


# Above threshold with Gaussian noise, restarted after each hit for as long as a stopping rule admits a test.


@dataclass(frozen=True)
class RunsState:
    """The noise of the present threshold (`held`), which is secret, and what is public of all runs."""

    held: Deviate
    told: Reported = NOTHING_TOLD


class Scanned(NamedTuple):
    """Which of the values were above, how many were tested, and the state to continue."""

    above: tuple[int, ...]
    tested: int
    state: RunsState


@dataclass(frozen=True)
class RestartingThreshold:
    """Tests values in turn against a noisy threshold; after each one that is above, the threshold's noise is new.

    Guarantee: that of the rule, where `losses` are those of the test's noises for the values' range and sensitivity.

    >>> import numpy as np
    >>> from chary.accounting.gaussian_runs import Losses, PureStopping
    >>> from chary.noise import OperatingSystem
    >>> losses = Losses(np.array([0.3] * 9), np.array([0.1] * 9))
    >>> runs = RestartingThreshold(GaussianThreshold(5, "0.01"), PureStopping(Fraction(1)), lambda steps: losses)
    >>> values = [Fraction(value) for value in (3, 9, 9, 2, 9, 9)]
    >>> runs.scan(values, runs.start(OperatingSystem()), OperatingSystem())[:2]
    ((1, 2, 4), 5)
    """

    test: GaussianThreshold
    rule: StoppingRule
    losses: Table

    def start(self, source: Source) -> RunsState:
        """A first run."""
        return RunsState(self.test.start(source))

    def admits(self, told: Reported) -> bool:
        """Whether another test may be made."""
        return self.rule.admits(told, self.losses(told.steps + 1))

    def scan(self, values: Sequence[Fraction], state: RunsState, source: Source) -> Scanned:
        """Test the values in turn, until the rule stops; values lie within the range of the losses."""
        above: list[int] = []
        for position, value in enumerate(values):
            if not self.admits(state.told):
                return Scanned(tuple(above), position, state)
            found, held = self.test.step(value, state.held, source)
            told = state.told.after(above=found, losses=self.losses(state.told.steps + 1))
            state = RunsState(self.test.start(source), told) if found else replace(state, held=held, told=told)
            above += [position] if found else []
        return Scanned(tuple(above), len(values), state)
