"""k runs of an epsilon-DP computation: where all agree the outcome is free, else "boundary", which is charged (ours).

Nothing else is published. Laws p, q agree on i with chances p_i^k, q_i^k; write b(p) = 1 - sum p_i^k, m_i = p_i^a
q_i^(1-a). At order a the price is right if `sum m_i^k + e^-psi b(p)^a b(q)^(1-a) <= 1` for all pairs.

**Two outcomes are worst.** `x^a y^(1-a)` is the largest, over r > 0, of the tangents `a r^(a-1) x - (a-1) r^a y`. For
one r and one list of ratios t_i = p_i/q_i the claim's left side is `const + sum q_i^k f(t_i)`, with `f(t) = s^a - K a
r^(a-1) s + K (a-1) r^a` at s = t^k, K = e^-psi <= 1, whose least value over s, `(a-1) K r^a (1 - K^(1/(a-1)))`, is not
negative. So it is convex in the q_i, which satisfy two linear equations: largest where two of them at most are
positive. For p fixed it is convex in q as well, so q is as far from p as it may be: (z, E z) or (E z, z) are the
chances of one outcome, 0 < z <= 1/(1+E).

**Along z** the price is `ln(1 + T)`, T the mean of `c(t) = t^a - 1 - a(t-1)` over the three outcomes divided by 1 - M,
M = m_1^k + m_2^k (all masses under q). M is convex with M(0) = 1, so (1-M)/z falls; b(z)/z falls; z b'/b falls (in the
odds o it is `(1-2z)/(1-z)` times `k sum o^i / sum C(k,i+1) o^i`, i <= k-2, and the weights of the middle grow), so
ln b(Ez)/b(z) falls from epsilon to 0; the other outcome's ratio goes away from 1. Every factor is monotone: on a cell
each is largest at a known end. Cells whose bound is above the best value that is attained are halved until the two are
a hundred-thousandth apart.

**On the exact curve** it is a call of k epsilon whose boundary is a q-target. With e = E^k and b the smaller of both
boundaries, what can be shed leaves `q = (e-1) b / ((e-1) b + e D + D')`, D and D' what agreements lose and gain,
D' <= D. Two outcomes are worst by the same argument; the one that loses has a chance of 1 - x, and `D = (1-x)^k -
(1-y)^k <= k (E-1) x (1-x)^(k-1) <= (E-1) b`: exactly one of the runs being the other one is not unanimous.
"""

import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.accounting.charging.boundary_sizes import moderate
from chary.accounting.charging.direct_prices import twice_price_up
from chary.accounting.exponentials import decimal, precise
from chary.accounting.rounding import rounded_down
from chary.errors import InvalidParameter
from chary.numbers import Number, probability, whole

Floats = NDArray[np.float64]

_CLOSE: Final = 1e-5
# What floats of cancelling terms may err by, relatively, where they are used; below it the terms' own bounds are.
_MARGIN: Final = 1 + 1e-6
_FIRST: Final = 1e-9
_ROUNDS: Final = 60


def unanimous_price_up(epsilon: Number, runs: int, order: Fraction) -> Fraction | None:
    """The log-moment of a hit "so many runs were not unanimous", rounded up; None where there is none.

    Within 2e-5 of it. For two runs it is that of `twice_price_up`, which publishes both.

    >>> [round(float(unanimous_price_up("0.02", runs, Fraction(15))), 4) for runs in (2, 3, 4, 6, 8)]
    [0.1897, 0.144, 0.1135, 0.0644, 0.0568]
    """
    if whole(runs, "runs", least=2) == 2:
        return twice_price_up(epsilon, order)
    bound = float(moderate(epsilon))
    if order <= 1:
        raise InvalidParameter("the order must be greater than 1")
    # There is no price far before exponentials overflow, and none is worked out for calls below a millionth.
    if bound * runs < 1e-6 or float(order) * bound * runs > 300:
        return None
    found = [_Family(bound, runs, float(order), sign).most() for sign in (1, -1)]
    return None if math.inf in found else Fraction(math.log1p(max(found)) * _MARGIN)


def unanimous_q_down(epsilon: Number, runs: int) -> Fraction:
    """The q of the target "not unanimous", a call of `runs` times epsilon, rounded down to 18 digits.

    >>> [round(float(unanimous_q_down("0.02", runs)), 4) for runs in (2, 3, 6)]
    [0.4975, 0.5975, 0.7479]
    """
    count = whole(runs, "runs", least=2)
    with precise():
        e = decimal(moderate(epsilon)).exp()
        return rounded_down(1 / (1 + (e - 1) * (e**count + 1) / (e**count - 1)))


def boundary_chance(unclear: Number, runs: int) -> float:
    """How likely so many runs are not unanimous, if a run is of the other of two outcomes with chance `unclear`.

    >>> round(boundary_chance("0.1", 3), 9)
    0.27
    """
    other, count = float(probability(unclear, "unclear")), whole(runs, "runs", least=2)
    return -math.expm1(count * math.log1p(-other)) - float(other**count)


def best_runs(epsilon: Number, order: Fraction, unclear: Number, *, most: int = 12) -> int:
    """The number of runs, at most `most`, that pays least on average; `InvalidParameter` where none has a price.

    >>> [best_runs("0.02", Fraction(15), unclear) for unclear in ("0.001", "0.1")]
    [2, 6]
    """
    prices = {runs: unanimous_price_up(epsilon, runs, order) for runs in range(2, whole(most, "most", least=2) + 1)}
    known = {runs: float(price) * boundary_chance(unclear, runs) for runs, price in prices.items() if price is not None}
    if not known:
        raise InvalidParameter("no number of runs has a price per hit at this order: take a smaller epsilon")
    return min(known, key=known.__getitem__)


class _Family:
    """One of the two families of pairs, by z: the rare outcome is e^epsilon likelier in p (sign 1) or in q."""

    def __init__(self, epsilon: float, runs: int, order: float, sign: int) -> None:
        self.epsilon, self.runs, self.order, self.sign = epsilon, runs, order, sign
        self.times, self.last = math.exp(epsilon), 1 / (1 + math.exp(epsilon))

    def most(self) -> float:
        """The largest T, from above; infinite where the order is too large."""
        if float(self._kept(np.array([self.last]))[0]) <= 1e-9:
            return math.inf
        points = np.concatenate([[0.0], np.geomspace(_FIRST, self.last, 400)])
        low, high = points[:-1], points[1:]
        for _ in range(_ROUNDS):
            above = self._above(low, high)
            reached = float(self._above(high, high).max()) / _MARGIN
            if float(above.max()) <= reached * (1 + _CLOSE) or low.size > 10**5:
                break
            wide = (above > reached * (1 + _CLOSE)) & (low > 0)
            middle = (low[wide] + high[wide]) / 2
            kept = ~wide & (above >= reached)
            low = np.concatenate([low[kept], low[wide], middle])
            high = np.concatenate([high[kept], middle, high[wide]])
        return float(above.max()) * _MARGIN

    def _above(self, low: Floats, high: Floats) -> Floats:
        """An upper bound of T on each cell; T itself where its ends are one."""
        k, start = self.runs, np.where(low > 0, low, high)
        rare = 1.0 if self.sign > 0 else self.times
        likely = k * np.log1p((self.times - 1) * high / (1 - self.times * high))
        own = (rare * high) ** k * self._convex(np.full(1, self.sign * k * self.epsilon))
        other = np.exp(k * np.log1p(-rare * low)) * self._convex(-self.sign * likely)
        boundary = np.where(low > 0, self._hits(rare * start), k * rare * start)
        lead = np.where(low > 0, np.log(self._hits(self.times * start) / self._hits(start)) + 1e-14, self.epsilon)
        split = boundary * self._convex(self.sign * np.clip(lead, 0, self.epsilon))
        return np.asarray((own / high + (other + split) / start) / (self._kept(high) / high))

    def _hits(self, chance: Floats) -> Floats:
        return np.asarray(-np.expm1(self.runs * np.log1p(-chance)) - chance**self.runs)

    def _kept(self, z: Floats) -> Floats:
        """1 - M."""
        p, q = (self.times * z, z) if self.sign > 0 else (z, self.times * z)
        a, k = self.order, self.runs
        rare = np.exp(k * (a * np.log(p) + (1 - a) * np.log(q)))
        return np.asarray(-np.expm1(k * (a * np.log1p(-p) + (1 - a) * np.log1p(-q))) - rare)

    def _convex(self, logs: Floats) -> Floats:
        """`c(e^u)`, from above where u is so small that it cancels: at most `a (a-1) u^2 e^(a u+) / 2`."""
        a = self.order
        near = a * (a - 1) / 2 * logs**2 * np.exp(a * np.maximum(logs, 0))
        return np.where((a - 1) * np.abs(logs) > 1e-8, np.expm1(a * logs) - a * np.expm1(logs), near)
