"""Privacy losses put together: basic, advanced, optimal and unequal composition, Renyi orders, groups."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np
import scipy

from chary.accounting.binomial import Floats, surplus
from chary.accounting.optimal_composition import MARGIN, concentrated_total, optimal_total
from chary.accounting.rounding import float_down, float_up
from chary.errors import InvalidParameter
from chary.numbers import Number, plain, positive, probability, whole

# Ten million calls take `optimal_delta` some 50,000 terms and a fraction of a second; more are for `renyi_total`.
LARGEST_TIMES = 10**7
# exp(700) is still a float, with room for a factor of 10**4; below 1e-300 products of small factors lose their digits.
LARGEST_EPSILON = 700
SMALLEST = Fraction(1, 10**300)
# For small arguments only the form with sinh avoids cancellation, for large ones only the other avoids overflow; 30
# lies where both are good.
LARGEST_SINH = 30


@dataclass(frozen=True)
class Composition:
    """Total epsilon of k epsilon-DP computations at one delta, by each theorem.

    basic: k*epsilon (delta 0); advanced: Dwork-Rothblum-Vadhan; zcdp: through epsilon^2/2-zCDP; renyi: the best order
    of the exact log-moment; optimal: Kairouz-Oh-Viswanath, which nothing valid can undercut.
    """

    basic: float
    advanced: float
    zcdp: float
    renyi: float
    optimal: float

    def as_dict(self) -> dict[str, float]:
        """The five figures by name."""
        return asdict(self)


def compose(*, epsilon: Number, times: int, delta: Number) -> Composition:
    """All five totals for `times` computations that are each epsilon-DP.

    Errors: `InvalidParameter` for an epsilon above 700, a delta below 1e-300 and more than ten million computations.

    >>> compose(epsilon=0.1, times=100, delta=1e-6).basic
    10.0
    """
    eps, k, d = moderate_up(epsilon), whole(times, "times"), failing_down(delta)
    if k > LARGEST_TIMES:
        raise InvalidParameter(f"times must be at most {LARGEST_TIMES}")
    zcdp = concentrated_total(eps, k, d)
    advanced = zcdp + k * eps * (math.expm1(eps) - eps / 2) * (1 + MARGIN)
    basic = float_up(k * positive(epsilon, "epsilon"))
    return Composition(basic, advanced, zcdp, renyi_total(eps, k, d), optimal_total(eps, k, d))


def moderate_up(epsilon: Number) -> float:
    """An epsilon of a call as a float, rounded up; `InvalidParameter` beyond what its exponential allows."""
    size = positive(epsilon, "epsilon")
    if not SMALLEST <= size <= LARGEST_EPSILON:
        raise InvalidParameter(f"the epsilon of a call must be from 1e-300 to {LARGEST_EPSILON}, got {plain(size)}")
    return float_up(size)


def failing_down(delta: Number) -> float:
    """A delta as a float, rounded down; `InvalidParameter` below 1e-300, where floats lose their digits."""
    chance = probability(delta, "delta")
    if chance < SMALLEST:
        raise InvalidParameter("delta must be at least 1e-300")
    return float_down(chance)


def log_moment(less: float, epsilon: float) -> float:
    """`ln((e^(a eps) + e^((1-a) eps)) / (1 + e^eps))` at the order a = 1 + less, stable for tiny and large arguments.

    >>> log_moment(1, 0.1)
    0.009958...
    """
    order = 1 + less
    if order * epsilon > LARGEST_SINH:
        return less * epsilon - math.log1p(math.exp(-epsilon)) + math.log1p(math.exp(-(1 + 2 * less) * epsilon))
    return math.log1p(2 * math.sinh(order * epsilon / 2) * math.sinh(less * epsilon / 2) / math.cosh(epsilon / 2))


def renyi_total(epsilon: float, times: int, delta: float) -> float:
    """The least over all orders of what k log-moments of randomized response convert to.

    >>> renyi_total(0.1, 100, 1e-6) < compose(epsilon=0.1, times=100, delta=1e-6).zcdp
    True
    """
    return least_renyi([(epsilon, times)], delta)


def least_renyi(calls: Sequence[tuple[float, int]], delta: float) -> float:
    """The same for calls of several epsilons, each so many times.

    >>> least_renyi([(0.1, 50), (0.1, 50)], 1e-6) == renyi_total(0.1, 100, 1e-6)
    True
    """

    def parts(x: float) -> tuple[float, float, float]:
        less = math.exp(x)
        return (
            sum(times * log_moment(less, epsilon) for epsilon, times in calls) / less,
            -(math.log(delta) + math.log1p(less)) / less,
            x - math.log1p(less),
        )

    def total(x: float) -> float:
        return sum(parts(x))

    # Every order gives a valid total, so the grid only has to be near the best one: from (1e-6, nearly Kullback and
    # Leibler) to where an order costs what the pure bound does.
    grid = np.linspace(math.log(1e-6), math.log(1e9) - math.log(min(calls)[0]), 600)
    best = int(np.argmin([total(x) for x in grid]))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = scipy.optimize.minimize_scalar(total, bounds=bounds, method="bounded", options={"xatol": 1e-10})
    at = parts(float(found.x if found.fun < total(grid[best]) else grid[best]))
    # The parts have both signs: the margin is one of their sizes, not of their sum.
    return max(0.0, sum(at) + MARGIN * sum(map(abs, at)))


def convex_upper(deltas: Floats, step: float, delta: float) -> float:
    """The epsilon at which a decreasing curve sampled at 0, step, 2*step, ... passes `delta`; infinite if it does not.

    A privacy curve is convex in e^epsilon, so interpolating linearly in e^epsilon between samples rounds up.

    >>> round(convex_upper(np.array([0.5, 0.1, 0.0]), 1.0, 0.1), 9)
    1.0
    """
    index = int(np.argmax(deltas <= delta))
    if deltas[index] > delta:
        return math.inf
    return between(float(deltas[index - 1]), float(deltas[index]), index, step, delta) if index else 0.0


def between(above: float, below: float, index: int, step: float, delta: float) -> float:
    """The same for two samples, the second of which is the first that is not above delta."""
    share = (above - delta) / (above - below)
    return ((index - 1) * step + math.log1p(share * math.expm1(step))) * surplus(1)
