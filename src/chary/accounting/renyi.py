"""From a log-moment at one Renyi order to (epsilon, delta) and back (theory 1.1, 1.4)."""

import math
from fractions import Fraction

import numpy as np
from scipy.optimize import minimize_scalar

from chary.accounting.events import Targeted
from chary.accounting.exponentials import GUARD, decimal, precise
from chary.accounting.prices import hit_price_up
from chary.numbers import plain


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
    """The order that affords most: most hits of calls of `grain`-DP, or most zCDP where the grain is unknown.

    The order must be fixed before the first release, so it depends on public numbers only. It is rounded to three
    digits, which keeps it short in statements and loses nothing that can be measured.

    >>> choose_order(Fraction(1), Fraction(1, 10**6), Fraction(1, 50))
    Fraction(...)
    """
    limit = 1e7 if grain is None else _largest_order(float(grain))
    logs = np.linspace(math.log(1e-3), math.log(limit - 1), 400)

    def affordable(log: float) -> float:
        return _affordable(1 + math.exp(log), float(epsilon), float(delta), grain)

    values = [affordable(log) for log in logs]
    best = int(np.argmax(values))
    low, high = logs[max(best - 1, 0)], logs[min(best + 1, len(logs) - 1)]
    found = minimize_scalar(lambda log: -affordable(log), bounds=(low, high), method="bounded")
    return 1 + Fraction(f"{math.exp(found.x):.3g}")


def _largest_order(grain: float) -> float:
    """Where `e^(a grain)` meets `1 + e^grain`: beyond it a hit has no price."""
    return 1 + (math.log1p(math.exp(grain)) - grain) / grain


def _affordable(order: float, epsilon: float, delta: float, grain: Fraction | None) -> float:
    capacity = (order - 1) * (epsilon - math.log1p(-1 / order)) + math.log(delta * order)
    if grain is None:
        return capacity / (order * (order - 1))
    price = hit_price_up(Targeted(grain), Fraction(plain(order)))
    return -math.inf if price is None or capacity <= 0 else capacity / float(price)
