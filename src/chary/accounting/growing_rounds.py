"""Rounds of sparse vectors over growing data: their sizes, epsilons and errors."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import get_args

import numpy as np

from chary.accounting import sparse_vector
from chary.accounting.numerics import LARGEST_ERROR, decimal, doubled, least, precise, rounded_down
from chary.errors import InvalidParameter
from chary.numbers import Number, checked, exact, flag, per_call, positive, probability, set_fields, whole

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
ROOT_STEPS = 200


def round_noise(
    epsilon: Number, *, values: bool = False, form: sparse_vector.Form = "tuned"
) -> sparse_vector.SparseNoise:
    """The noise of one round, in counts; with its value it is epsilon-DP in all.

    "published" is that of [GROW] with `xi_s D_s = e`: threshold 2/e, tests 4/e, value 2/e, where e is epsilon, or two
    thirds of it if a value is published. "tuned" is `sparse_noise` for one hit.

    >>> noise = round_noise(1, values=True, form="published")
    >>> noise.threshold, noise.test, noise.answer
    (Fraction(3, 1), Fraction(6, 1), Fraction(3, 1))
    """
    if form == "published" and values:
        own = per_call(epsilon) * (1 - VALUES_PUBLISHED)
        return sparse_vector.SparseNoise(1, 2 / own, 4 / own, 2 / own, True)
    return sparse_vector.sparse_noise(epsilon=epsilon, hits=1, form=form, values=values)


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
    form: sparse_vector.Form = "tuned"

    def __post_init__(self) -> None:
        whole(self.start, "the number of rows at the start")
        set_fields(self, epsilon=per_call(self.epsilon), exponent=exact(self.exponent, "exponent"))
        if not 0 <= Fraction(self.exponent) <= MOST_EXPONENT:
            raise InvalidParameter(f"exponent must lie between 0 and {MOST_EXPONENT}; above 1 later rounds cost more")
        checked(self, values=flag)
        if self.form not in get_args(sparse_vector.Form):
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

    def noise(self, size: int) -> sparse_vector.SparseNoise:
        """Of a round that begins at this size, in counts."""
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
    steps = sparse_vector.error_up(noise, tests=tests, confidence=confidence)
    coupled = COUPLED if number > 1 and Fraction(rounds.exponent) < 1 else 0
    return (steps + coupled) / size * sparse_vector.SURPLUS


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
    return min(1.0, (1 - kept) * sparse_vector.SURPLUS + sparse_vector.SLACK)


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
    return total * sparse_vector.SURPLUS


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
    return least(kept, *doubled(kept, 0.0, 1.0, most=LARGEST_ERROR), times=ROOT_STEPS)


def _missed(rounds: GrowingRounds, each: RoundAsked, alpha: Fraction, sensitivity: int) -> float:
    """The probability of a wrong test or value in one round, given every cell of the threshold's noise."""
    noise = rounds.noise(each.begun).scaled(sensitivity)
    ends, weights = _cells(noise.threshold)
    kept = np.zeros_like(ends)
    for size, tests in each.asked:
        beyond = math.floor(alpha * size) + 1
        wrong = sparse_vector.reach(noise.test, beyond + ends) + sparse_vector.reach(noise.test, beyond - ends)
        kept += tests * np.log1p(-np.minimum(wrong, 1 - 1e-16))
    tested = float(weights @ -np.expm1(kept)) + max(0.0, 1 - float(weights.sum()))
    if noise.answer is None:
        return tested
    last = float(math.floor(alpha * each.asked[-1][0]) + 1)
    value = 2 * float(sparse_vector.reach(noise.answer, np.array([last]))[0])
    return tested + value - tested * value


def _cells(scale: Fraction) -> tuple[sparse_vector.Floats, sparse_vector.Floats]:
    """Cells of the absolute noise: their upper ends and their probabilities."""
    ends = np.unique(np.ceil(np.linspace(0, float(math.ceil(scale * FARTHEST)), sparse_vector.CELLS)))
    inside = np.maximum(0, 1 - 2 * sparse_vector.reach(scale, ends + 1))
    return ends, np.diff(inside, prepend=0.0)
