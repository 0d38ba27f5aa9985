"""Weights of binomial laws for any number of trials: one at sixty digits, its neighbours by their ratios.

Logarithms of factorials in floats lose as many digits as they are long: at ten million trials the eighth digit of a
weight is wrong. Here one weight is computed with decimals, and the others follow from it by factors that are simple
quotients, so that a weight n steps away has a relative error below `surplus(n)` and no difference is ever taken.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.accounting.exponentials import precise

Floats = NDArray[np.float64]
# Products that stay below 1e-40 add less than 2**-53 of the sum (which is at least 1) in any number that fits memory.
CUT: Final = 1e-40
# Just above the smallest normal float: a bound that a float would lose to underflow is raised to it, never told as 0.
SMALLEST: Final = 1e-307
# Blocks of factors double from 64, so short chains cost little, and stop at 65,536, so that little runs past the cut.
_FIRST, _LONGEST = 64, 2**16
# The unit roundoff of float64. Up to 64 factorials are exact integers; from there on Stirling's series is good.
_UNIT: Final = 2.0**-53
_EXACT: Final = 64
_HALF_LOG_TWO_PI: Final = Decimal("0.918938533204672741780329736405617639861397473637783412817152")
# Bernoulli numbers over 2k(2k-1): the coefficients of Stirling's series, whose error is below its first term left out,
# 3e-29 from 64 on.
_STIRLING: Final = ((1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156))


def surplus(steps: int) -> float:
    """A factor above 1 that covers a chain of so many float operations of at most eight roundings each."""
    return 1 + 8 * (steps + 8) * _UNIT


def falling(factor: Callable[[Floats], Floats], most: int) -> Floats:
    """1, f(0), f(0) f(1), ..., `most` factors at most; cut where they are below 1e-40.

    For factors that stay below 1 once the products fall, what is cut off adds less than rounding does.

    >>> falling(lambda place: 0.5 + 0 * place, 3)
    array([1.   , 0.5  , 0.25 , 0.125])
    """
    found, place, size = [np.ones(1)], 0, _FIRST
    while place < most and found[-1][-1] > CUT:
        end = min(most, place + size)
        with np.errstate(under="ignore"):
            found.append(found[-1][-1] * np.cumprod(factor(np.arange(place, end, dtype=np.float64))))
        place, size = end, min(2 * size, _LONGEST)
    # What is below the cut could be denormal, and hundreds of times slower to add up.
    return np.concatenate([part[part > CUT] for part in found])


def binomial_weight(trials: int, chosen: int, epsilon: float) -> Decimal:
    """`C(n, i) r^i p^(n - i)` with `p = 1 - r = 1/(1 + e^-epsilon)`, to 25 digits.

    >>> float(binomial_weight(4, 2, 1e-30))
    0.375
    """
    with precise(len(str(trials))):
        odds = Decimal(epsilon).exp()
        log = log_choose(trials, chosen) + (trials - chosen) * odds.ln() - trials * (1 + odds).ln()
        return log.exp()


def log_choose(trials: int, chosen: int) -> Decimal:
    """`ln C(n, i)` with an absolute error below 1e-27; call inside `precise` with the digits of n more.

    >>> with precise():
    ...     round(log_choose(200, 100).exp()) - math.comb(200, 100) < 10**32
    True
    """
    return _log_factorial(trials) - _log_factorial(chosen) - _log_factorial(trials - chosen)


def floored(value: Decimal) -> float:
    """A positive bound as a float that is never lost to underflow: at least 1e-307."""
    return max(float(value), SMALLEST)


def _log_factorial(number: int) -> Decimal:
    if number < _EXACT:
        return Decimal(math.factorial(number)).ln()
    n = Decimal(number)
    series = sum((Decimal(a) / (b * n ** (2 * k + 1)) for k, (a, b) in enumerate(_STIRLING)), Decimal(0))
    return (n + Decimal("0.5")) * n.ln() - n + _HALF_LOG_TWO_PI + series
