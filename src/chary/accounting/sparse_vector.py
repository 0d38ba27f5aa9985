"""Errors and splits of the sparse vector technique: published, tuned and one-sided."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Final, Literal, Self, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.accounting.events import Asymmetric, DiscreteLaplace, Event, Joint, Pure, Repeated
from chary.accounting.gaussian_noise import gaussian_deltas
from chary.accounting.numerics import (
    LARGEST_ERROR,
    decimal,
    doubled,
    largest,
    least,
    least_error,
    precise,
    rounded_down,
    rounded_up,
)
from chary.errors import InvalidParameter
from chary.numbers import (
    Number,
    checked,
    exact,
    failing,
    flag,
    per_call,
    plain,
    positive,
    probability,
    set_fields,
    whole,
)

# Sparse vector, published and tuned: how epsilon is split, and the scale of each noise (docs/theory/thresholds.md).

Form = Literal["tuned", "published"]
TESTS_PUBLISHED, ANSWERS_PUBLISHED = Fraction(8, 9), Fraction(2, 9)
ROOT_STEPS = 10**6
LARGEST_ROUND = 20


@dataclass(frozen=True)
class _Scales:
    """Scales of the noises of a sparse vector that stops after `hits` hits: of its threshold, of each test, of each
    published value (`answer`; None: none is published)."""

    hits: int
    threshold: Fraction
    test: Fraction
    answer: Fraction | None

    def scaled(self, sensitivity: int) -> Self:
        """The same for queries that change by this many times as many steps."""
        answer = None if self.answer is None else self.answer * sensitivity
        return replace(self, threshold=self.threshold * sensitivity, test=self.test * sensitivity, answer=answer)


@dataclass(frozen=True)
class SparseNoise(_Scales):
    """Scales of the Laplace noise of a sparse vector that stops after `hits` hits, for queries of sensitivity 1.

    `threshold` is drawn once, or anew after each hit where `redrawn`; `test` is drawn for each test, `answer` for each
    published value (None: none is published).
    """

    redrawn: bool
    shift: ClassVar[int] = 0
    """The threshold that is tested is the public one."""

    @property
    def thresholds(self) -> int:
        """How often the threshold is drawn at most."""
        return self.hits if self.redrawn else 1


def sparse_noise(
    *, epsilon: Number, hits: int, delta: Number = 0, form: Form = "tuned", monotone: bool = False, values: bool = False
) -> SparseNoise:
    """The noise that makes a sparse vector epsilon-DP, or (epsilon, delta)-DP in the published form with a delta.

    `monotone` says that all queries move in the same direction between neighbours, which the tuned form uses;
    `values` that each hit comes with a value. Errors: `InvalidParameter` for a delta or `monotone` in a form that
    cannot use it, and for an epsilon beyond what the published proof covers.

    >>> sparse_noise(epsilon=1, hits=1, form="published")
    SparseNoise(hits=1, threshold=Fraction(2, 1), test=Fraction(4, 1), answer=None, redrawn=True)
    >>> noise = sparse_noise(epsilon=1, hits=8, monotone=True)
    >>> noise.threshold, noise.test
    (Fraction(5, 1), Fraction(10, 1))
    """
    size, failure, count = per_call(epsilon), failing(delta), whole(hits, "hits")
    if form not in get_args(Form):
        raise InvalidParameter('form must be "tuned" or "published"')
    if form == "tuned":
        if failure:
            raise InvalidParameter('the tuned form is pure: leave delta= out, or ask for form="published"')
        return _tuned(size, count, monotone, values)
    if monotone:
        raise InvalidParameter("the published form does not use monotone queries: leave monotone= out")
    return _published(size, failure, count, values)


def tuned_shares(hits: int, *, monotone: bool, values: bool) -> tuple[Fraction, Fraction, Fraction]:
    """The parts of epsilon for the threshold, the tests and the values; they add up to exactly 1.

    Threshold and tests get `1 : h^(2/3)` with h = hits for monotone queries, 2 hits otherwise (Lyu, Su and Li 2017,
    section 4.2). This is least for the deviation of a test and its threshold together. Values get the part that makes
    their deviation equal to that one. Roots are rounded to the sixth decimal, so that every machine has the same.

    >>> tuned_shares(1, monotone=True, values=False)
    (Fraction(1, 2), Fraction(1, 2), Fraction(0, 1))
    >>> [float(round(share, 3)) for share in tuned_shares(8, monotone=True, values=True)]
    [0.117, 0.466, 0.417]
    """
    whole(hits, "hits")
    ratio = root_down(Fraction(crossings(hits, monotone) ** 2), 3)
    together = root_down((1 + ratio) ** 3, 2)
    answers = hits / (together + hits) if values else Fraction(0)
    threshold = (1 - answers) / (1 + ratio)
    return threshold, threshold * ratio, answers


def root_down(value: Fraction, degree: int) -> Fraction:
    """The largest multiple of 1e-6 whose power is at most the value.

    >>> root_down(Fraction(64), 3), root_down(Fraction(2), 2)
    (Fraction(4, 1), Fraction(1414213, 1000000))
    """
    most = value * ROOT_STEPS**degree
    return Fraction(largest(lambda root: root**degree <= most, 0, (math.ceil(value) + 1) * ROOT_STEPS), ROOT_STEPS)


def _tuned(epsilon: Fraction, hits: int, monotone: bool, values: bool) -> SparseNoise:
    threshold, tests, answers = (share * epsilon for share in tuned_shares(hits, monotone=monotone, values=values))
    answer = hits / answers if values else None
    return SparseNoise(hits, 1 / threshold, crossings(hits, monotone) / tests, answer, False)


def _published(epsilon: Fraction, delta: Fraction, hits: int, values: bool) -> SparseNoise:
    """`sigma(e) = 2c/e` or `sqrt(32 c ln(2/delta))/e`: Lap(sigma(e1)), Lap(2 sigma(e1)), Lap(sigma(e2))."""
    spread = _advanced_spread(epsilon, delta, hits) if delta else Fraction(2 * hits)
    tests = TESTS_PUBLISHED if values else Fraction(1)
    sigma = spread / (tests * epsilon)
    return SparseNoise(hits, sigma, 2 * sigma, spread / (ANSWERS_PUBLISHED * epsilon) if values else None, True)


def _advanced_spread(epsilon: Fraction, delta: Fraction, hits: int) -> Fraction:
    """`sqrt(32 c ln(2/delta))`, rounded up; refuses an epsilon for which the corollary of advanced composition fails.

    c rounds of size e = epsilon/sqrt(8 c ln(2/delta)) are (epsilon, delta/2)-DP if `c e (exp(e) - 1) <= epsilon/2`.
    """
    with precise():
        spread = rounded_up((32 * hits * (decimal(2 / delta)).ln()).sqrt())
    size = float(2 * epsilon / spread)
    if size > LARGEST_ROUND or hits * size * math.expm1(size) > 0.499999 * float(epsilon):
        raise InvalidParameter(
            f"the published form with a delta is not proved for epsilon {plain(epsilon)} and {hits} hits: take a "
            "smaller epsilon, or leave delta= out"
        )
    return spread


# Sparse vector with one-sided noise: how epsilon is split, where its threshold lies, its event
# (docs/theory/thresholds.md).

USUAL_TESTS: Final = 1000
USUAL_CONFIDENCE: Final = Fraction(95, 100)
# Shares are cut to six decimals, so that the scales, which ledgers imply, are short rationals.
_STEPS: Final = 10**6


@dataclass(frozen=True)
class OneSidedNoise(_Scales):
    """Scales of geometric noise of a sparse vector that stops after `hits` hits, in grid steps.

    `threshold`, drawn once, and `test`, for each test, are the scales of noises that are never below 0. `answer` is the
    scale of the Laplace noise of each published value (None: none is published). One unit moves a question by at most
    `sensitivity`, and all in one direction if `monotone`. The threshold is placed for that many `tests` to be right
    together with probability `confidence`; privacy does not depend on it.
    """

    monotone: bool
    tests: int = USUAL_TESTS
    sensitivity: int = 1
    confidence: Fraction = USUAL_CONFIDENCE
    redrawn: ClassVar[bool] = False
    thresholds: ClassVar[int] = 1

    @cached_property
    def shift(self) -> int:
        """By how many steps the threshold that is tested lies above the public one.

        Let `s` and `r` be the scales of test and threshold and beta = 1 - confidence. All noises of tests less that of
        the threshold lie between `-r ln((1 + s/r)/beta)` and `s ln(tests/beta)`, but for beta. This is the middle, so
        that tests err as far above the public threshold as below it.
        """
        with precise():
            threshold, test, beta = decimal(self.threshold), decimal(self.test), decimal(1 - self.confidence)
            missed = threshold * ((1 + test / threshold) / beta).ln()
            reported = test * (self.tests / beta).ln()
            return int(((reported - missed) / 2).to_integral_value())

    @property
    def event(self) -> Event:
        """What the tests, and the values with noise of their own, may reveal together."""
        threshold = self.sensitivity / self.threshold
        tests = crossings(self.hits, self.monotone) * self.sensitivity / self.test
        tested = Asymmetric(threshold + tests, tests) if self.monotone else Pure(threshold + tests)
        if self.answer is None:
            return tested
        return Joint((tested, Repeated(DiscreteLaplace(self.answer, self.sensitivity), self.hits)))

    def scaled(self, sensitivity: int) -> Self:
        return replace(super().scaled(sensitivity), sensitivity=self.sensitivity * sensitivity)


def one_sided_noise(
    *,
    epsilon: Number,
    hits: int,
    tests: int = USUAL_TESTS,
    monotone: bool = False,
    values: bool = False,
    confidence: Number = USUAL_CONFIDENCE,
) -> OneSidedNoise:
    """The noise of an epsilon-DP sparse vector for questions of sensitivity 1, with the threshold for that many tests.

    `monotone` says that all questions move in the same direction between neighbours, `values` that each hit comes
    with a value. Any number of tests may be asked; the noise is best for `tests`.

    >>> noise = one_sided_noise(epsilon=1, hits=3, monotone=True)
    >>> round(float(noise.threshold), 2), round(float(noise.test), 2), noise.shift
    (3.94, 4.02, 13)
    >>> noise.event.epsilon
    Fraction(1, 1)
    """
    size, count, asked = per_call(epsilon), whole(hits, "hits"), whole(tests, "tests")
    kept = probability(confidence, "confidence")
    shares = one_sided_shares(count, asked, kept, monotone=monotone, values=values)
    threshold, test, answer = (share * size for share in shares)
    own = count / answer if values else None
    return OneSidedNoise(count, 1 / threshold, crossings(count, monotone) / test, own, monotone, asked, 1, kept)


def one_sided_shares(
    hits: int, tests: int, confidence: Fraction, *, monotone: bool, values: bool
) -> tuple[Fraction, Fraction, Fraction]:
    """The parts of epsilon for the threshold, the tests and the values; they add up to exactly 1.

    Threshold and tests get `sqrt(ln(2/beta)) : sqrt(h ln(2N/beta))` with h = hits for monotone questions, 2 hits
    otherwise. This is least for `ln(2/beta)/eps_1 + h ln(2N/beta)/eps_2` (chapter 2). Values get the part with which
    they err as far as the tests.

    >>> shares = one_sided_shares(1, 1000, USUAL_CONFIDENCE, monotone=True, values=False)
    >>> [float(share) for share in shares]
    [0.371075, 0.628925, 0.0]
    """
    with precise():
        beta = decimal(1 - confidence)
        root, other = (2 / beta).ln().sqrt(), (crossings(hits, monotone) * (2 * tests / beta).ln()).sqrt()
        width, value = (root + other) ** 2 / 2, hits * (hits / beta).ln()
        answers = _cut(value / (value + width)) if values else Fraction(0)
        first = _cut(root / (root + other))
    return (1 - answers) * first, (1 - answers) * (1 - first), answers


def crossings(hits: int, monotone: bool) -> int:
    """By how many steps all hits together can cross the threshold: two for each, one if everything moves one way."""
    return hits if monotone else 2 * hits


def _cut(share: Decimal) -> Fraction:
    """A fraction as a multiple of 1e-6, strictly between 0 and 1."""
    return Fraction(min(max(int(share * _STEPS), 1), _STEPS - 1), _STEPS)


# Tuned sparse vectors one after another with Gaussian values, composed exactly: what can be had, as a comparison.

MOST_ROUNDS = 10**5
# Beyond it exponentials are no floats any more, and an outcome of such odds never comes.
_LARGEST: Final = 700.0


@dataclass(frozen=True)
class SparseRounds:
    """This many `rounds` of tuned sparse vectors for monotone queries of sensitivity 1, `hits` hits together.

    `threshold` and `test` are Laplace scales, the threshold drawn anew for each round; `deviation` is that of a test
    with its threshold, and of the Gaussian noise of each value.
    """

    hits: int
    rounds: int
    threshold: Fraction
    test: Fraction
    deviation: float


def sparse_rounds(*, epsilon: Number, delta: Number, hits: int, rounds: int) -> SparseRounds:
    """The least common deviation of tests and of values that is (epsilon, delta)-DP, by the exact `joint_delta`.

    >>> one, many = (sparse_rounds(epsilon=1, delta=1e-6, hits=200, rounds=rounds) for rounds in (1, 200))
    >>> round(one.deviation), round(many.deviation)
    (347, 245)
    """
    if whole(rounds, "rounds") > MOST_ROUNDS:
        raise InvalidParameter(f"the exact curve of rounds with Gaussian values is for at most {MOST_ROUNDS} rounds")
    deviation = _deviation(float(positive(epsilon, "epsilon")), float(probability(delta, "delta")), hits, rounds)
    per_round = -(-whole(hits, "hits") // whole(rounds, "rounds"))
    noise = sparse_noise(epsilon=unit_deviation(per_round) / deviation, hits=per_round, monotone=True)
    return SparseRounds(hits, rounds, noise.threshold, noise.test, deviation)


def usual_rounds(hits: int) -> list[int]:
    """The numbers of rounds that are worth trying.

    >>> usual_rounds(50)
    [1, 7, 13, 25, 50]
    """
    return sorted({1, -(-hits // 8), -(-hits // 4), -(-hits // 2), hits})


def unit_deviation(hits: int) -> float:
    """The deviation of a test and its threshold in a tuned 1-DP round of this many hits.

    >>> round(unit_deviation(1), 9)
    4.0
    """
    scales = sparse_noise(epsilon=1, hits=hits, monotone=True)
    return math.sqrt(2) * math.hypot(scales.threshold, scales.test)


def joint_delta(epsilon: float, rounds: int, epsilon_a_round: float, gaussian_ratio: float) -> float:
    """The exact delta of `rounds` pure rounds, each worth randomized response, together with Gaussian answers.

    `gaussian_ratio` is the answers' joint sensitivity over their deviation: with i of the rounds unlikely, the rounds
    have lost `(rounds - 2i) epsilon_a_round`, and the answers may lose what is left.

    >>> from chary.accounting import gaussian_delta
    >>> abs(joint_delta(1, 1, 1e-9, 0.5) / gaussian_delta(epsilon=1, sensitivity=1, sigma=2) - 1) < 1e-6
    True
    """
    unlikely = np.arange(rounds + 1)
    weights = scipy.stats.binom.pmf(unlikely, rounds, 1 / (1 + math.exp(min(epsilon_a_round, _LARGEST))))
    left = np.asarray(epsilon - (rounds - 2 * unlikely) * epsilon_a_round, dtype=np.float64)
    return float(weights @ gaussian_deltas(left, gaussian_ratio))


def _deviation(epsilon: float, delta: float, hits: int, rounds: int) -> float:
    unit = unit_deviation(-(-hits // rounds))

    def excess(log_deviation: float) -> float:
        deviation = math.exp(log_deviation)
        return joint_delta(epsilon, rounds, unit / deviation, math.sqrt(hits) / deviation) - delta

    low, high = math.log(unit / (1 + 2 * epsilon)), math.log(1e3 * hits * unit / epsilon)
    return math.exp(float(scipy.optimize.brentq(excess, low, high, xtol=1e-9))) * (1 + 1e-8)


# How far off a sparse vector may be: the published bounds, and the exact one for the discrete distribution, rounded up.

Floats = NDArray[np.float64]
CELLS = 2**14
SURPLUS = 1 + 1e-12
SLACK = 1e-14


def published_error(
    *, epsilon: Number, hits: int, tests: int, confidence: Number, delta: Number = 0, values: bool = False
) -> float:
    """The published error of the published form for queries of sensitivity 1 and continuous noise.

    The statement holds with probability `confidence`, as long as fewer than `hits` queries come so close to the
    threshold. Each of `tests` answers is right for a threshold that is off by at most this, and each value is off by at
    most this.

    - values: `9 c (ln k + ln(4c/beta))/epsilon`, or `9 (ln k + ln(4c/beta)) sqrt(8 c ln(2/delta))/epsilon`;
    - no values: `8 c (ln k + ln(2c/beta))/epsilon`, c runs of the published bound for one, or with the same root
      for c in front; `8 (ln k + ln(2/beta))/epsilon` for one hit.

    >>> round(published_error(epsilon=1, hits=1, tests=100, confidence=0.95), 2)
    66.35
    """
    size, failure, count = float(per_call(epsilon)), failing(delta), whole(hits, "hits")
    beta, known = float(1 - probability(confidence, "confidence")), math.log(whole(tests, "tests"))
    rounds = math.sqrt(8 * count * math.log(2 / failure)) if failure else float(count)
    factor, failures = (9, 4 * count) if values else (8, 2 * count)
    return factor * rounds * (known + math.log(failures / beta)) / size * SURPLUS


def error_up(noise: SparseNoise, *, tests: int, confidence: Number) -> int:
    """The least error, in grid steps, that a sparse vector with this noise keeps with probability `confidence`.

    Guarantee: with that probability each of `tests` tests is answered rightly for a value that is off by at most this
    many steps. So is each published value, whatever the data and however adaptively they are asked. For one threshold
    this is the least number for which all noises of tests lie so close to that of the threshold, and those of values
    so close to 0. It is exact up to a fifth of a percent of the threshold's scale. For thresholds drawn anew it
    takes the farthest of them for all tests.

    >>> from chary.accounting import sparse_noise
    >>> error_up(sparse_noise(epsilon=1, hits=1, form="published"), tests=100, confidence=0.95)
    31
    >>> error_up(sparse_noise(epsilon=1, hits=1, monotone=True), tests=100, confidence=0.95)
    17
    """
    beta, count = float(1 - probability(confidence, "confidence")), whole(tests, "tests")
    ends, weights = _farthest(noise, beta)

    def kept(error: int) -> bool:
        return failure_up(noise, count, error, ends, weights) <= beta - SLACK

    return least_error(kept)


def failure_up(noise: SparseNoise, tests: int, error: int, ends: Floats, weights: Floats) -> float:
    """The probability that a test or a value is off by more; the farthest threshold is below `ends` with `weights`.

    Given a threshold noise z, a test fails with `P(|noise - z| > error)`, which grows with |z|.
    """
    far = float(error + 1)
    wrong = reach(noise.test, far + ends) + reach(noise.test, far - ends)
    some = -np.expm1(tests * np.log1p(-np.minimum(wrong, 1 - 1e-16)))
    tested = float(weights @ some) + max(0.0, 1 - float(weights.sum()))
    answered = 0.0 if noise.answer is None else answers_failure(noise.answer, noise.hits, error)
    return (tested + answered - tested * answered) * SURPLUS


def answers_failure(scale: Fraction, hits: int, error: int) -> float:
    """The probability that one of this many values is off by more."""
    value = 2 * float(reach(scale, np.array([float(error + 1)]))[0])
    return -math.expm1(hits * math.log1p(-min(value, 1 - 1e-16)))


def reach(scale: Fraction, distances: Floats) -> Floats:
    """The probability that discrete Laplace noise is at least each distance."""
    step = 1 / float(scale)
    beyond = np.exp(-step * np.where(distances > 0, distances, 1 - distances)) / (1 + math.exp(-step))
    return np.where(distances > 0, beyond, 1 - beyond)


def _farthest(noise: SparseNoise, beta: float) -> tuple[Floats, Floats]:
    """Cells of the largest of all threshold noises, in absolute value: their upper ends and their probabilities."""
    top = math.ceil(float(noise.threshold) * (math.log(2 * noise.thresholds / beta) + 18))
    ends = np.unique(np.ceil(np.linspace(0, float(top), CELLS)))
    inside = 1 - 2 * reach(noise.threshold, ends + 1)
    below = np.where(inside > 0, inside, 0) ** noise.thresholds
    return ends, np.diff(below, prepend=0.0)


# How far off a sparse vector with one-sided noise may be: the exact distribution of all its tests together, rounded up.

# A sum of 16,384 products errs by at most 2e-12 of it.
ONE_SIDED_SURPLUS: Final = 1 + 1e-11
# What lies beyond has a probability of beta e^-36, below the resolution of doubles; it is counted as failing.
_BEYOND: Final = 36
# At a certain failure log1p(-1) would divide by zero.
_NEARLY_ONE: Final = 1 - 1e-16


def sparse_half_width_up(*, epsilon: Number, tests: int, hits: int, confidence: Number = "0.95") -> int:
    """The margin of the best sparse vector for questions of sensitivity 1 that all move in one direction.

    With probability `confidence` each of `tests` tests, of which at most `hits` are above, is right for a value that is
    off by at most this many steps. No other split of epsilon and no other threshold is narrower by more than a step or
    two.

    >>> [sparse_half_width_up(epsilon=1, tests=1000, hits=hits) for hits in (1, 3, 10, 20)]
    [12, 27, 71, 130]
    """
    noise = one_sided_noise(epsilon=epsilon, hits=hits, tests=tests, monotone=True, confidence=confidence)
    return one_sided_error_up(noise, tests=tests, confidence=confidence)


def one_sided_error_up(noise: OneSidedNoise, *, tests: int, confidence: Number) -> int:
    """The least error, in grid steps, that a sparse vector with this noise keeps with probability `confidence`.

    Guarantee: with that probability each of `tests` tests is answered rightly for a value that is off by at most this
    many steps. So is each published value, whatever the data and however adaptively they are asked. What lies at least
    so far above the public threshold is reported, and what lies farther below it is not. `tests` need not be the number
    that the threshold is placed for.

    Errors: `InvalidParameter` for a confidence that rounds to 1 as a double.

    >>> noise = one_sided_noise(epsilon=1, hits=3, tests=1000, monotone=True)
    >>> [one_sided_error_up(noise, tests=tests, confidence="0.95") for tests in (10, 1000, 100_000)]
    [24, 27, 42]
    """
    beta, count = float(1 - probability(confidence, "confidence")), whole(tests, "tests")
    if beta <= SLACK:
        raise InvalidParameter("confidence is too close to 1 for the precision of this calculation")
    cells = _cells(noise, beta)
    return least_error(lambda error: one_sided_failure_up(noise, count, error, cells) <= beta - SLACK)


@dataclass(frozen=True)
class NoiseCells:
    """Ranges of the threshold's noise: the first and the last of each, and their probabilities."""

    first: Floats
    last: Floats
    chances: Floats


def one_sided_failure_up(noise: OneSidedNoise, tests: int, error: int, cells: NoiseCells) -> float:
    """The probability that a test or a value is off by more.

    Given a threshold noise z, a test fails if its own noise is below `z + shift - error` or above `z + shift + error`.
    That probability first falls and then rises with z, so of each cell one end is its worst.
    """
    ends = [_wrong(noise, error, end) for end in (cells.first, cells.last)]
    some = -np.expm1(tests * np.log1p(-np.minimum(np.maximum(*ends), _NEARLY_ONE)))
    tested = float(cells.chances @ some) + max(0.0, 1 - float(cells.chances.sum()))
    answered = 0.0 if noise.answer is None else answers_failure(noise.answer, noise.hits, error)
    return (tested + answered - tested * answered) * ONE_SIDED_SURPLUS


def _wrong(noise: OneSidedNoise, error: int, shifts: Floats) -> Floats:
    middle, step = shifts + noise.shift, 1 / float(noise.test)
    reported = np.exp(-step * np.maximum(middle + error + 1, 0))
    missed = -np.expm1(-step * np.maximum(middle - error, 0))
    return np.asarray(reported + missed)


def _cells(noise: OneSidedNoise, beta: float) -> NoiseCells:
    """All that has a probability worth counting, one by one or in 16,384 cells."""
    scale = float(noise.threshold)
    last = np.unique(np.ceil(np.linspace(0, scale * (math.log(1 / beta) + _BEYOND), CELLS)))
    first = np.concatenate(([0.0], last[:-1] + 1))
    return NoiseCells(first, last, np.exp(-first / scale) * -np.expm1(-(last - first + 1) / scale))


# How often a sparse vector reports a truth below its threshold, one test by itself.

_LEAST = Fraction(1, 10**330)


@dataclass(frozen=True)
class SparseTails:
    """The distribution of one test: its noise less that of the hidden threshold, both drawn with that test in mind.

    All tests share the threshold's noise, so they are not independent; expectations and union bounds over many of them
    hold all the same. Two Laplace noises, or for `OneSidedNoise` two geometric ones and the shift of its threshold.

    >>> from chary.accounting.sparse_vector import one_sided_noise
    >>> tails = SparseTails(one_sided_noise(epsilon=1, hits=3, monotone=True))
    >>> round(float(tails.at_least_up(0)), 4), tails.reach_up("0.001")
    (0.0224, 13)
    """

    noise: OneSidedNoise | SparseNoise

    def at_least_up(self, distance: int) -> Fraction:
        """The probability, rounded up, that a truth this far below the threshold (negative: above) is reported."""
        with precise():
            if isinstance(self.noise, OneSidedNoise):
                found = _geometric(distance + self.noise.shift, *self._ratios)
            else:
                found = self._symmetric(distance) if distance > 0 else 1 - self._symmetric(1 - distance)
            return min(Fraction(1), max(_LEAST, rounded_up(found)))

    def reach_up(self, chance: Number) -> int:
        """The fewest steps below the threshold from which on a report has at most this probability."""
        most = positive(chance, "chance")
        return least_error(lambda distance: self.at_least_up(max(distance, 0)) <= most)

    def miss_reach_up(self, chance: Number) -> int:
        """The fewest steps above the threshold from which on a truth is not reported with at most this probability."""
        most = positive(chance, "chance")
        return least_error(lambda distance: self.missed_up(max(distance, 0)) <= most)

    def missed_up(self, distance: int) -> Fraction:
        """The probability that a truth this many steps above the threshold is not reported, rounded up."""
        with precise():
            if isinstance(self.noise, OneSidedNoise):
                found = _geometric(distance - self.noise.shift + 1, *reversed(self._ratios))
            else:
                found = self._symmetric(distance + 1)
            return min(Fraction(1), max(_LEAST, rounded_up(found)))

    def _symmetric(self, least: int) -> Decimal:
        """`P(Z - R >= m)`, m >= 1, of Laplace noises: sums over the hidden one, below 0, from 0 to m - 1, and above."""
        test, hidden = self._ratios
        share, both = (1 - hidden) / (1 + hidden), 1 - test * hidden
        ratio = hidden / test
        between = Decimal(least) if ratio == 1 else (1 - ratio**least) / (1 - ratio)
        low = share * test**least / (1 + test) * (test * hidden / both + between)
        return low + hidden**least / (1 + hidden) - share * test / (1 + test) * hidden**least / both

    @property
    def _ratios(self) -> tuple[Decimal, Decimal]:
        """`e^(-1/scale)` of the noise of a test and of the noise of the threshold."""
        return (-1 / decimal(self.noise.test)).exp(), (-1 / decimal(self.noise.threshold)).exp()


def _geometric(least: int, one: Decimal, other: Decimal) -> Decimal:
    """`P(X - Y >= m)` of geometric noises of the ratios a and b: `a^m (1 - b)/(1 - ab)`, mirrored below 0."""
    both = 1 - one * other
    if least < 0:
        return 1 - other ** (1 - least) * (1 - one) / both
    return one**least * (1 - other) / both


# Rounds of a sparse vector on a growing table: what each costs, its noise, and how far off it may be.
#
# [GROW] Appendix C (ATG, NATG, NSG) with noise in counts; proofs are in docs/theory/growing.md.

# The value's share of a round as published: tests 2/3 of epsilon and the value 1/3.
VALUES_PUBLISHED = Fraction(1, 3)
# A table that doubles makes a round eight times as expensive: beyond that nobody would wait for rows.
MOST_EXPONENT = 4
# A discrete noise is within a step of a continuous one, which can be scaled: threshold and test, of either scale.
COUPLED = 4
# exp(-60) is 1e-26; what lies beyond the last cell counts as missed in full.
FARTHEST = 60
# More halvings than a float has values between two powers of 2.
_HALVINGS = 200


def round_noise(epsilon: Number, *, values: bool = False, form: Form = "tuned") -> SparseNoise:
    """The noise of one round, in counts; with its value it is epsilon-DP in all.

    "published" is that of [GROW] with `xi_s D_s = e`: threshold 2/e, tests 4/e, value 2/e, where e is epsilon, or two
    thirds of it if a value is published. "tuned" is `sparse_noise` for one hit.

    >>> noise = round_noise(1, values=True, form="published")
    >>> noise.threshold, noise.test, noise.answer
    (Fraction(3, 1), Fraction(6, 1), Fraction(3, 1))
    """
    if form == "published" and values:
        own = per_call(epsilon) * (1 - VALUES_PUBLISHED)
        return SparseNoise(1, 2 / own, 4 / own, 2 / own, True)
    return sparse_noise(epsilon=epsilon, hits=1, form=form, values=values)


@dataclass(frozen=True)
class GrowingRounds:
    """Rounds on a table that had `start` rows, where a round was worth `epsilon`.

    Guarantee: a round that begins at s rows is `epsilon (s/start)^(exponent - 1)`-DP, its value included, however the
    table grows while it is open. `exponent` is the p of the noise function `xi_t = xi_n (t/n)^p`, from 0 to 4. With 0
    noise is the same part of the table for all rounds. With 1 all rounds cost the same. Above 1 later rounds cost more,
    and have less noise even in counts. Noise is that of the beginning throughout a round, so any p is private. Errors:
    `InvalidParameter`, also for a size below `start`.

    >>> rounds = GrowingRounds(1000, "0.1", exponent=0)
    >>> rounds.epsilon_down(2000), rounds.loss([1000, 2000, 4000])
    (Fraction(1, 20), Fraction(7, 40))
    """

    start: int
    epsilon: Number
    exponent: Number = 1
    values: bool = False
    form: Form = "tuned"

    def __post_init__(self) -> None:
        whole(self.start, "the number of rows at the start")
        set_fields(self, epsilon=per_call(self.epsilon), exponent=exact(self.exponent, "exponent"))
        if not 0 <= Fraction(self.exponent) <= MOST_EXPONENT:
            raise InvalidParameter(f"exponent must lie between 0 and {MOST_EXPONENT}; above 1 later rounds cost more")
        checked(self, values=flag)
        if self.form not in get_args(Form):
            raise InvalidParameter('form must be "tuned" or "published"')

    def epsilon_down(self, size: int) -> Fraction:
        """What a round that begins at this size costs; 18 digits, rounded down, where the power is not rational."""
        if whole(size, "size") < self.start:
            raise InvalidParameter(f"a growing table does not shrink: it had {self.start} rows at the opening")
        fall, grown = 1 - Fraction(self.exponent), Fraction(size, self.start)
        if fall.denominator == 1 or grown == 1:
            return Fraction(self.epsilon) / grown ** int(fall)
        with precise():
            power = (-decimal(fall) * decimal(grown).ln()).exp()
            return rounded_down(decimal(Fraction(self.epsilon)) * power)

    def noise(self, size: int) -> SparseNoise:
        """The noise of a round that begins at this size, in counts."""
        return round_noise(self.epsilon_down(size), values=self.values, form=self.form)

    def noise_function(self, size: int) -> float:
        """The published `xi_t` at this size, for averages: `xi_t/t` is epsilon, or two thirds of it with values."""
        own = 1 - VALUES_PUBLISHED if self.values else Fraction(1)
        return float(own * self.epsilon_down(size) * size)

    def loss(self, sizes: Iterable[int]) -> Fraction:
        """What rounds that begin at these sizes cost together, by adding."""
        return sum((self.epsilon_down(size) for size in sizes), Fraction(0))


@dataclass(frozen=True)
class RoundAsked:
    """A round that began at `begun` rows and was asked (size, tests) in order; a hit would come at the last size."""

    begun: int
    asked: Sequence[tuple[int, int]]

    def __post_init__(self) -> None:
        sizes = [self.begun, *(whole(size, "size") for size, _tests in self.asked)]
        if len(sizes) == 1 or sizes != sorted(sizes):
            raise InvalidParameter("a round is asked at one size at least, and a growing table does not shrink")
        for _size, tests in self.asked:
            whole(tests, "tests")


def growing_error_up(
    rounds: GrowingRounds,
    *,
    size: int,
    tests: int,
    number: int = 1,
    begun: int | None = None,
    sensitivity: int = 1,
    confidence: Number = "0.95",
) -> float:
    """How far off, per row and in steps of the grid, `tests` tests and all values are from `size` rows on.

    Guarantee: with probability `confidence` each of them is right for an average that is off by at most this, whatever
    is asked: Definitions 6 and 7 of [GROW]. It holds for one round that began at `begun` rows (`size` if left out), or
    for `number` of them, of which all but the first begin at `size` or later. Exact for one round, up to what
    `error_up` says; for several with an exponent below 1 a coupling of their noises adds 4 steps.

    >>> rounds = GrowingRounds(1000, "0.1", form="published")
    >>> [round(growing_error_up(rounds, size=size, begun=1000, tests=100), 3) for size in (1000, 10_000)]
    [0.314, 0.031]
    """
    first = size if begun is None else begun
    if whole(size, "size") < first:
        raise InvalidParameter("a growing table does not shrink: size must be at least begun")
    noise = replace(rounds.noise(first if whole(number, "number") == 1 else size), hits=number, redrawn=True)
    noise = noise.scaled(sensitivity)
    steps = error_up(noise, tests=tests, confidence=confidence)
    coupled = COUPLED if number > 1 and Fraction(rounds.exponent) < 1 else 0
    return (steps + coupled) / size * SURPLUS


def growing_failure_up(
    rounds: GrowingRounds, plan: Sequence[RoundAsked], alpha: Number, *, sensitivity: int = 1
) -> float:
    """The probability that a test or a value of these rounds is off by more than alpha (per row, in steps of the grid).

    Exact for the discrete distributions up to cells of the threshold's noise, each at its worse end. The numbers of
    tests are the most that are asked at each size, adaptively or not.

    >>> rounds = GrowingRounds(1000, "0.1", form="published")
    >>> round(growing_failure_up(rounds, [RoundAsked(1000, [(1000, 100)])], "0.314"), 3)
    0.049
    """
    reached = positive(alpha, "alpha")
    kept = math.prod(1 - min(1.0, _missed(rounds, each, reached, sensitivity)) for each in plan)
    return min(1.0, (1 - kept) * SURPLUS + SLACK)


def published_failure(rounds: GrowingRounds, plan: Sequence[RoundAsked], alpha: Number) -> float:
    """What [GROW] bounds the same probability by, for continuous noise and queries of sensitivity 1.

    Theorem 26: `sum l_t exp(-alpha xi_t/8) + exp(-alpha xi_s/4)` for l_t tests at size t of a round that begins at s.
    Theorem 28 adds `exp(-alpha xi_t/2)` for a value at t; Theorem 31 adds up rounds.

    >>> rounds = GrowingRounds(1000, "0.1", form="published")
    >>> round(published_failure(rounds, [RoundAsked(1000, [(1000, 100)])], "0.61"), 3)
    0.049
    """
    reached, xi, total = float(positive(alpha, "alpha")), rounds.noise_function, 0.0
    for each in plan:
        total += sum(tests * math.exp(-reached * xi(size) / 8) for size, tests in each.asked)
        total += math.exp(-reached * xi(each.begun) / 4)
        total += math.exp(-reached * xi(each.asked[-1][0]) / 2) if rounds.values else 0.0
    return total * SURPLUS


def published_growing_error(
    rounds: GrowingRounds,
    *,
    size: int,
    tests: int,
    number: int = 1,
    begun: int | None = None,
    confidence: Number = "0.95",
) -> float:
    """The least alpha for which the bound of `published_failure` keeps `1 - confidence`, all at the smallest size.

    >>> round(published_growing_error(GrowingRounds(1000, "0.1"), size=1000, tests=100), 2)
    0.61
    """
    beta, count = float(1 - probability(confidence, "confidence")), whole(tests, "tests")
    extra = [RoundAsked(size, [(size, 1)])] * (whole(number, "number") - 1)
    plan = [RoundAsked(size if begun is None else begun, [(size, max(1, count - len(extra)))]), *extra]
    return _least(lambda alpha: published_failure(rounds, plan, Fraction(alpha)) <= beta)


def _least(kept: Callable[[float], bool]) -> float:
    """The least number for which this holds, from above; it holds for all larger ones."""
    return least(kept, *doubled(kept, 0.0, 1.0, most=LARGEST_ERROR), times=_HALVINGS)


def _missed(rounds: GrowingRounds, each: RoundAsked, alpha: Fraction, sensitivity: int) -> float:
    """The probability of a wrong test or value in one round, given every cell of the threshold's noise."""
    noise = rounds.noise(each.begun).scaled(sensitivity)
    ends, weights = _round_cells(noise.threshold)
    kept = np.zeros_like(ends)
    for size, tests in each.asked:
        beyond = math.floor(alpha * size) + 1
        wrong = reach(noise.test, beyond + ends) + reach(noise.test, beyond - ends)
        kept += tests * np.log1p(-np.minimum(wrong, 1 - 1e-16))
    tested = float(weights @ -np.expm1(kept)) + max(0.0, 1 - float(weights.sum()))
    if noise.answer is None:
        return tested
    last = float(math.floor(alpha * each.asked[-1][0]) + 1)
    value = 2 * float(reach(noise.answer, np.array([last]))[0])
    return tested + value - tested * value


def _round_cells(scale: Fraction) -> tuple[Floats, Floats]:
    """Cells of the absolute noise: their upper ends and their probabilities."""
    ends = np.unique(np.ceil(np.linspace(0, float(math.ceil(scale * FARTHEST)), CELLS)))
    inside = np.maximum(0, 1 - 2 * reach(scale, ends + 1))
    return ends, np.diff(inside, prepend=0.0)
