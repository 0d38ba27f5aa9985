"""From a log-moment at one Renyi order to (epsilon, delta) and back (theory 1.1, 1.4)."""

import math
from fractions import Fraction

import numpy as np

from chary.accounting.binomial import Floats
from chary.accounting.exponentials import GUARD, decimal, precise

# Any order is valid, so both only cost tightness: larger ones suit budgets below 1e-5, and 401 points, refined once
# around the best, place the order to the three digits that are kept.
LARGEST_ORDER = 1e7
GRID = 401


def epsilon_up(log_moment: Fraction, order: Fraction, delta: Fraction) -> Fraction:
    """The epsilon that a log-moment at one order gives at `delta`; never below 0, rounded up.

    >>> float(epsilon_up(Fraction(1, 10), Fraction(20), Fraction(1, 10**6)))
    0.5234...
    """
    with precise():
        a, moment = decimal(order), decimal(log_moment)
        value = moment / (a - 1) + (1 - 1 / a).ln() - (decimal(delta) * a).ln() / (a - 1)
    return max(Fraction(0), Fraction(value) + GUARD)


def capacity_down(epsilon: Fraction, delta: Fraction, order: Fraction) -> Fraction:
    """The largest log-moment at `order` that still gives (epsilon, delta), rounded down; below 0 if there is none.

    >>> order, delta = Fraction(24), Fraction(1, 10**6)
    >>> epsilon_up(capacity_down(Fraction(1), delta, order), order, delta) <= 1
    True
    """
    with precise():
        a = decimal(order)
        value = (a - 1) * (decimal(epsilon) - (1 - 1 / a).ln()) + (decimal(delta) * a).ln()
    return Fraction(value) - order * GUARD * 2


def choose_order(epsilon: Fraction, delta: Fraction, grain: Fraction | None = None) -> Fraction:
    """The order that affords most hits of calls of `grain`-DP, or most zCDP where the grain is unknown or so large
    that no order affords one hit.

    The order must be fixed before the first release, so it depends on public numbers only. It is rounded to three
    digits, which keeps it short in statements and loses nothing that can be measured.

    >>> choose_order(Fraction(1), Fraction(1, 10**6), Fraction(1, 50))
    Fraction(18, 1)
    """
    logs = np.linspace(math.log(1e-3), math.log(LARGEST_ORDER), GRID)
    for _ in range(2):
        values = _affordable(1 + np.exp(logs), float(epsilon), float(delta), None if grain is None else float(grain))
        best = int(np.argmax(values))
        logs = np.linspace(logs[max(best - 1, 0)], logs[min(best + 1, GRID - 1)], GRID)
    if grain is not None and values[best] < 1:
        return choose_order(epsilon, delta)
    return 1 + Fraction(f"{math.exp(logs[GRID // 2]):.3g}")


def _affordable(orders: Floats, epsilon: float, delta: float, grain: float | None) -> Floats:
    """How many hits of `grain`-DP calls (or how much rho) each order affords; floats do, for this only picks one."""
    capacity = (orders - 1) * (epsilon - np.log1p(-1 / orders)) + np.log(delta * orders)
    if grain is None:
        return capacity / (orders * (orders - 1))
    # Beyond 50 there is no price anyway, and exp would overflow where orders times grain are large.
    left = math.expm1(min(grain, 50)) - np.expm1(np.minimum(orders * grain, 50))
    priced = left > -1
    prices = (1 - orders) * grain - np.log1p(np.where(priced, left, 0))
    return np.where(priced, capacity / np.where(prices > 0, prices, np.inf), -np.inf)
