"""Menus: for so many tests under a budget, how near to the bar they are right and how exact values are, by hits."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import scipy.special

from chary.accounting.charging.planner import USUAL_HITS
from chary.accounting.sharp.half_widths import AgreedNumber, Share, SharpWidth, half_width, sharp_width
from chary.accounting.sharp.sharp_event import SharpTest
from chary.accounting.sparse.one_sided_errors import sparse_half_width_up
from chary.errors import InvalidParameter
from chary.numbers import Number, probability, whole

_QUARTER: Final = Fraction(1, 4)


@dataclass(frozen=True)
class Choice:
    """What so many hits leave to each test, all of them right with one probability; in sensitivities.

    `alone` is the half-width of sharp tests without values and `agreed` that of tests whose number is agreed on, with
    the best part of the budget for misses; `within` is that of tests with values, which all are off by at most
    `value_error`. `sparse` is the one-sided sparse vector without values. None: the budget is too small for it.
    """

    hits: int
    tests: int
    alone: float | None
    agreed: float | None
    within: float | None
    value_error: float | None
    sparse: int


def sharp_menu(
    *,
    epsilon: Number,
    delta: Number,
    tests: int,
    hits: Iterable[int] = USUAL_HITS,
    value: Number = _QUARTER,
    sure: Number = "0.95",
) -> list[Choice]:
    """For a new budget and so many tests, what several numbers of hits (at most `tests`) leave to each.

    `value` is the part of the price of a hit for its value. Each figure holds with probability `sure`; each test is at
    its best order. Errors: as of `sharp_width`, and `InvalidParameter` for a value outside (0, 1).

    >>> for choice in sharp_menu(epsilon=1, delta="1e-6", tests=10_000, hits=[5, 20]):
    ...     choice.hits, round(choice.alone), round(choice.agreed), round(choice.within), round(choice.value_error)
    (5, 140, 113, 151, 60)
    (20, 211, 161, 233, 129)
    """
    part, whole_tests = probability(value, "value"), whole(tests, "tests")
    return [_choice(epsilon, delta, whole_tests, count, part, sure) for count in hits if count <= whole_tests]


def _choice(epsilon: Number, delta: Number, tests: int, hits: int, part: Fraction, sure: Number) -> Choice:
    agreed = AgreedNumber(epsilon, delta, tests, hits, sure)
    alone, best = _found(agreed, 0), _found(agreed, "best")
    return Choice(
        hits,
        tests,
        None if alone is None else alone.within,
        None if best is None else best.within,
        None if alone is None else half_width(_with_value(alone.test, part), agreed.beta / (2 * tests)),
        None if alone is None else _value_error(alone.test, part, agreed),
        sparse_half_width_up(epsilon=epsilon, tests=tests, hits=hits, sure=sure),
    )


def _found(agreed: AgreedNumber, share: Share) -> SharpWidth | None:
    """The narrowest test; None where the budget is too small, all else having been checked."""
    terms: dict[str, Any] = {"tests": agreed.tests, "hits": agreed.hits, "sure": agreed.sure}
    try:
        return sharp_width(epsilon=agreed.epsilon, delta=agreed.delta, misses_share=share, **terms)
    except InvalidParameter:
        return None


def _with_value(test: SharpTest, part: Fraction) -> SharpTest:
    return SharpTest(test.order, Fraction(test.price) * (1 - part))


def _value_error(test: SharpTest, part: Fraction, agreed: AgreedNumber) -> float:
    """Of Gaussian noise of rho, which has log-moment a (a - 1) rho at order a, for all hits together."""
    order = Fraction(test.order)
    sigma = math.sqrt(order * (order - 1) / (2 * Fraction(test.price) * part))
    each = -math.expm1(math.log1p(-agreed.beta) / agreed.hits)
    return float(-scipy.special.ndtri(each / 2)) * sigma
