"""Sparse vector, published and tuned: how epsilon is split, and the scale of each noise (docs/sparse_vector.md)."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, get_args

from chary.accounting.exponentials import decimal, precise
from chary.accounting.rounding import rounded_up
from chary.errors import InvalidParameter
from chary.numbers import Number, failing, per_call, plain, whole

Form = Literal["tuned", "published"]
TESTS_PUBLISHED, ANSWERS_PUBLISHED = Fraction(8, 9), Fraction(2, 9)
ROOT_STEPS = 10**6
LARGEST_ROUND = 20


@dataclass(frozen=True)
class SparseNoise:
    """Scales of the Laplace noise of a sparse vector that stops after `hits` hits, for queries of sensitivity 1.

    `threshold` is drawn once, or anew after each hit where `redrawn`; `test` is drawn for each test, `answer` for each
    published value (None: none is published).
    """

    hits: int
    threshold: Fraction
    test: Fraction
    answer: Fraction | None
    redrawn: bool

    @property
    def thresholds(self) -> int:
        """How often the threshold is drawn at most."""
        return self.hits if self.redrawn else 1

    def scaled(self, sensitivity: int) -> "SparseNoise":
        """The same for queries that change by at most so many steps."""
        answer = None if self.answer is None else self.answer * sensitivity
        return replace(self, threshold=self.threshold * sensitivity, test=self.test * sensitivity, answer=answer)


def sparse_noise(
    *,
    epsilon: Number,
    hits: int,
    delta: Number = 0,
    form: Form = "tuned",
    monotone: bool = False,
    values: bool = False,
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
    section 4.2), which is least for the deviation of a test and its threshold together. Values get the part that makes
    their deviation equal to that one. Roots are rounded to the sixth decimal, so that every machine has the same.

    >>> tuned_shares(1, monotone=True, values=False)
    (Fraction(1, 2), Fraction(1, 2), Fraction(0, 1))
    >>> [float(round(share, 3)) for share in tuned_shares(8, monotone=True, values=True)]
    [0.117, 0.466, 0.417]
    """
    whole(hits, "hits")
    ratio = root_down(Fraction(_spread(hits, monotone) ** 2), 3)
    together = root_down((1 + ratio) ** 3, 2)
    answers = hits / (together + hits) if values else Fraction(0)
    threshold = (1 - answers) / (1 + ratio)
    return threshold, threshold * ratio, answers


def root_down(value: Fraction, degree: int) -> Fraction:
    """The largest multiple of 1e-6 whose power is at most the value.

    >>> root_down(Fraction(64), 3), root_down(Fraction(2), 2)
    (Fraction(4, 1), Fraction(1414213, 1000000))
    """
    low, high = 0, (math.ceil(value) + 1) * ROOT_STEPS
    most = value * ROOT_STEPS**degree
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**degree <= most else (low, middle)
    return Fraction(low, ROOT_STEPS)


def _spread(hits: int, monotone: bool) -> int:
    """By how many steps all hits together can cross the threshold: two for each, one if everything moves one way."""
    return hits if monotone else 2 * hits


def _tuned(epsilon: Fraction, hits: int, monotone: bool, values: bool) -> SparseNoise:
    threshold, tests, answers = (share * epsilon for share in tuned_shares(hits, monotone=monotone, values=values))
    return SparseNoise(hits, 1 / threshold, _spread(hits, monotone) / tests, hits / answers if values else None, False)


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
