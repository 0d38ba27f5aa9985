"""Privacy losses put together: basic, advanced, optimal and unequal composition, Renyi orders, groups."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
import scipy

from chary.accounting import numerics
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, plain, positive, probability, whole

# Composition of k equal epsilon-DP computations by each classical theorem (theory chapter 1).
#
# The figures are upper bounds in float64 with a margin that covers the rounding.

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

    `basic`: k*epsilon (delta 0). `advanced`: Dwork-Rothblum-Vadhan. `zcdp`: through epsilon^2/2-zCDP. `renyi`: the best
    order of the exact log-moment. `optimal`: Kairouz-Oh-Viswanath, which nothing valid can undercut.
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
    basic = numerics.float_up(k * positive(epsilon, "epsilon"))
    return Composition(basic, advanced, zcdp, renyi_total(eps, k, d), optimal_total(eps, k, d))


def moderate_up(epsilon: Number) -> float:
    """An epsilon of a call as a float, rounded up; `InvalidParameter` beyond what its exponential allows."""
    size = positive(epsilon, "epsilon")
    if not SMALLEST <= size <= LARGEST_EPSILON:
        raise InvalidParameter(f"the epsilon of a call must be from 1e-300 to {LARGEST_EPSILON}, got {plain(size)}")
    return numerics.float_up(size)


def failing_down(delta: Number) -> float:
    """A delta as a float, rounded down; `InvalidParameter` below 1e-300, where floats lose their digits."""
    chance = probability(delta, "delta")
    if chance < SMALLEST:
        raise InvalidParameter("delta must be at least 1e-300")
    return numerics.float_down(chance)


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
    """`renyi_total` for calls of several epsilons, each a number of times.

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


def convex_upper(deltas: numerics.Floats, step: float, delta: float) -> float:
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
    """The epsilon between two samples: the one of this index is the first that is not above delta."""
    share = (above - delta) / (above - below)
    return ((index - 1) * step + math.log1p(share * math.expm1(step))) * numerics.surplus(1)


# Group privacy, and the delta of a sampler that is near its distribution but not exact.

_ONE: Final = Fraction(1)


def group_privacy_up(*, epsilon: Number, delta: Number = 0, units: int) -> tuple[Fraction, Fraction]:
    """The (epsilon, delta) of neighbours that differ in `units` units, delta rounded up (theory chapter 3).

    `(k epsilon, delta (e^(k epsilon) - 1)/(e^epsilon - 1))`: one unit after another multiplies by e^epsilon and adds
    delta. Delta is never above 1, and 0 stays 0.

    >>> epsilon, delta = group_privacy_up(epsilon="0.1", delta=1e-6, units=3)
    >>> epsilon, round(float(delta), 9)
    (Fraction(3, 10), 3.327e-06)
    """
    each, failure, count = positive(epsilon, "epsilon"), _chance(delta, "delta"), whole(units, "units")
    if not failure or count == 1:
        return count * each, failure
    if count * each > numerics.LARGEST_EXPONENT:
        return count * each, _ONE
    # Differences of numbers near 1 lose as many digits as epsilon has zeros.
    with numerics.precise(len(str(each.denominator))):
        grown = (numerics.decimal(count * each).exp() - 1) / (numerics.decimal(each).exp() - 1)
        return count * each, min(_ONE, numerics.rounded_up(numerics.decimal(failure) * grown))


def sampler_delta_up(*, epsilon: Number, delta: Number = 0, distance: Number) -> Fraction:
    """The delta, rounded up, of an (epsilon, delta)-DP mechanism within this total variation distance of its
    distribution.

    `delta + (1 + e^epsilon) distance`: the distance is paid once on either side (theory chapter 3). At most 1.

    >>> round(float(sampler_delta_up(epsilon=1, distance=1e-9)), 12)
    3.718e-09
    """
    each, failure = positive(epsilon, "epsilon"), _chance(delta, "delta")
    away = _chance(distance, "distance")
    if not away:
        return failure
    if each > numerics.LARGEST_EXPONENT:
        return _ONE
    with numerics.precise():
        return min(_ONE, failure + numerics.rounded_up((1 + numerics.decimal(each).exp()) * numerics.decimal(away)))


def _chance(value: Number, name: str) -> Fraction:
    found = exact(value, name)
    if not 0 <= found <= 1:
        raise InvalidParameter(f"{name} must be at least 0 and at most 1")
    return found


# From a log-moment at one Renyi order to (epsilon, delta) and back (theory chapter 1, 1.4).

# Any order is valid, so both only cost tightness: larger ones suit budgets below 1e-5, and 401 points, refined once
# around the best, place the order to the three digits that are kept.
LARGEST_ORDER = 1e7
GRID = 401


def epsilon_up(log_moment: Fraction, order: Fraction, delta: Fraction) -> Fraction:
    """The epsilon that a log-moment at one order gives at `delta`; never below 0, rounded up.

    >>> float(epsilon_up(Fraction(1, 10), Fraction(20), Fraction(1, 10**6)))
    0.5234...
    """
    with numerics.precise():
        a, moment = numerics.decimal(order), numerics.decimal(log_moment)
        value = moment / (a - 1) + (1 - 1 / a).ln() - (numerics.decimal(delta) * a).ln() / (a - 1)
    return max(Fraction(0), Fraction(value) + numerics.GUARD)


# Probabilistic loss (pDP, [GAUSS] Definition 3). Let L be the loss ln P(o)/Q(o) of an outcome o that is drawn from P,
# and S where L > epsilon: p = P(S) has Q(S) <= p e^-epsilon. Whether o is in S is a post-processing, so
# `f(p) = p^a Q(S)^(1-a) + (1-p)^a (1-Q(S))^(1-a)` is at most the moment e^M, and least at Q(S) = p e^-epsilon. There it
# is convex in p with a slope of at least 0 at 0, so f(delta) >= e^M rules out p > delta: the least such epsilon is
# attained by two outcomes. Its first term alone is Markov's inequality, delta e^((a-1) epsilon) = e^M (theory page).

# The first digits that are lost are some 1e-55 of 1; an epsilon is found to a part in 2**80 of Markov's.
_LOST: Final = Decimal("1e-50")
_HALVINGS: Final = 80
# Orders minus 1 that are tried for a whole curve, and again around the best of them.
_WIDE: Final = [Fraction(f"{less:.4g}") for less in np.geomspace(1e-3, 1e6, 46).tolist()]
_NEAR: Final = 9


def pdp_epsilon_up(log_moment: Number, order: Number, delta: Number) -> Fraction:
    """The epsilon that the loss of an outcome exceeds with probability delta at most, rounded up, from one log-moment.

    Let `log_moment` bound `ln sum P^a Q^(1-a)`, which is `(a - 1)` times the Renyi divergence of P from Q, for
    neighbours with distributions P and Q. Then an outcome o drawn from P has `ln P(o)/Q(o) > epsilon` with probability
    delta at most. Both orders of neighbours must have that moment. Distributions of two outcomes attain the bound.
    Markov's inequality alone gives `(log_moment + ln(1/delta))/(a - 1)`, which is more where the moment is small.

    It implies (epsilon, delta)-DP and is more. Of that `epsilon_up` is the usual conversion, which bounds no loss: its
    epsilon is smaller by `ln(a)/(a - 1) - ln(1 - 1/a)` where moments are large, and larger where they are small.

    Errors: `InvalidParameter` for a negative moment, an order of at most 1, a delta outside of (0, 1).

    >>> round(float(pdp_epsilon_up("0.1", 20, 1e-6)), 4)
    0.6086
    >>> round(float(epsilon_up(Fraction("0.1"), Fraction(20), Fraction(1, 10**6))), 4)
    0.5234
    """
    moment, a, chance = exact(log_moment, "log_moment"), exact(order, "order"), probability(delta, "delta")
    if moment < 0 or a <= 1:
        raise InvalidParameter("a log-moment is at least 0, at an order above 1")
    with numerics.precise():
        at, d = numerics.decimal(a), numerics.decimal(chance)
        markov = (numerics.decimal(moment) - d.ln()) / (at - 1)
        if moment > numerics.LARGEST_EXPONENT or markov * at > numerics.LARGEST_EXPONENT:
            return numerics.rounded_up(markov)
        most, rest = numerics.decimal(moment).exp() * (1 + _LOST), at * (1 - d).ln()

        def enough(epsilon: Decimal) -> bool:
            told = d * ((at - 1) * epsilon).exp()
            return (told + (rest + (1 - at) * (1 - d * (-epsilon).exp()).ln()).exp()) * (1 - _LOST) >= most

        return numerics.rounded_up(numerics.least(enough, Decimal(0), markov, times=_HALVINGS))


def least_pdp_epsilon_up(log_moment: Callable[[Fraction], Number], *, delta: Number) -> Fraction:
    """`pdp_epsilon_up` at the best of some fifty orders, each of which is valid, for a curve of log-moments.

    `log_moment` is a function of the order, such as `Event.log_moment_up`, infinite where there is none.

    >>> from chary.accounting import ZeroConcentrated
    >>> round(float(least_pdp_epsilon_up(ZeroConcentrated("0.01").log_moment_up, delta=1e-6)), 3)
    0.754
    """
    target = -math.log(failing_down(delta))

    def markov(less: Fraction) -> float:
        found = log_moment(1 + less)
        return math.inf if found == math.inf else (float(exact(found, "log_moment")) + target) / float(less)

    costs = [markov(less) for less in _WIDE]
    best = int(np.argmin(costs))
    if costs[best] == math.inf:
        raise InvalidParameter("the curve has no log-moment at any order that was tried")
    ends = float(_WIDE[max(best - 1, 0)]), float(_WIDE[min(best + 1, len(_WIDE) - 1)])
    near = [Fraction(f"{less:.4g}") for less in np.geomspace(*ends, _NEAR).tolist()]
    order = 1 + min([_WIDE[best], *near], key=markov)
    return pdp_epsilon_up(log_moment(order), order, delta)


def capacity_down(epsilon: Fraction, delta: Fraction, order: Fraction) -> Fraction:
    """The largest log-moment at `order` that still gives (epsilon, delta), rounded down; below 0 if there is none.

    >>> order, delta = Fraction(24), Fraction(1, 10**6)
    >>> epsilon_up(capacity_down(Fraction(1), delta, order), order, delta) <= 1
    True
    """
    with numerics.precise():
        a = numerics.decimal(order)
        value = (a - 1) * (numerics.decimal(epsilon) - (1 - 1 / a).ln()) + (numerics.decimal(delta) * a).ln()
    return Fraction(value) - order * numerics.GUARD * 2


def choose_order(epsilon: Fraction, delta: Fraction, grain: Fraction | None = None) -> Fraction:
    """The order that affords most hits of calls of `grain`-DP.
    It is the order that affords most zCDP where the grain is unknown or so large that no order affords one hit.

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


def _affordable(orders: numerics.Floats, epsilon: float, delta: float, grain: float | None) -> numerics.Floats:
    """How many hits of `grain`-DP calls (or how much rho) each order affords; floats do, for this only picks one."""
    capacity = (orders - 1) * (epsilon - np.log1p(-1 / orders)) + np.log(delta * orders)
    if grain is None:
        return capacity / (orders * (orders - 1))
    # Beyond 50 there is no price anyway, and exp would overflow where orders times grain are large.
    left = math.expm1(min(grain, 50)) - np.expm1(np.minimum(orders * grain, 50))
    priced = left > -1
    prices = (1 - orders) * grain - np.log1p(np.where(priced, left, 0))
    return np.where(priced, capacity / np.where(prices > 0, prices, np.inf), -np.inf)


# Optimal composition (Kairouz, Oh, Viswanath): k equal epsilon-DP computations are k coins of randomized response.
#
# Delta adds up binomial weights near the kink that matters: about thirteen standard deviations of them, whatever k is.

# Short formulas in float64 err by some 1e-15 and a bracket beyond 1e13 kinks by 1e-13: a hundred times that, upwards.
MARGIN = 1e-11
# 13 deviations to both sides are 860,000 terms: with a surplus of 8e-10, below the 1e-9 that `optimal_delta` promises.
LARGEST_VARIANCE = 10**9
# The search comes back to its two ends only; 64 kinks hold all that it looks at.
KEPT = 64


def optimal_delta(epsilon: float, times: int, total: float) -> float:
    """The delta of k epsilon-DP computations at a total epsilon (Kairouz-Oh-Viswanath), rounded up by 1e-9 at most.

    >>> optimal_delta(0.1, 1, 0.1)
    0.0
    """
    last = math.ceil((times - Fraction(total) / Fraction(epsilon)) / 2) - 1
    if last < 0:
        return 0.0
    # The distance to the kink is a difference of nearly equal numbers, so it is taken exactly and rounded once.
    rest = float((times - 2 * last) * Fraction(epsilon) - Fraction(total))
    return _Kink(epsilon, times, last).delta_up(rest)


def optimal_total(epsilon: float, times: int, delta: float) -> float:
    """The least epsilon at which k computations are (epsilon, delta)-DP: between the kinks delta is linear in e^eps.

    >>> round(optimal_total(0.1, 1, 1e-9), 6)
    0.1
    """
    if optimal_delta(epsilon, times, 0.0) <= delta:
        return 0.0
    half = times // 2

    @lru_cache(maxsize=KEPT)
    def bound(later: int) -> float:
        return _Kink(epsilon, times, half - later).delta_up(0.0)

    low, high = _around(bound, epsilon, times, delta)
    kink = _Kink(epsilon, times, half - high)
    return kink.place * (1 + MARGIN) if high - low > 1 else kink.total_up(delta)


def _around(bound: Callable[[int], float], epsilon: float, times: int, delta: float) -> tuple[int, int]:
    """The numbers of kinks, counted from total epsilon 0, between which the bound passes delta; from -1 on.

    Looked for from the total of zero concentration downwards, in steps that start at a few of the distribution's
    deviations.
    """
    half, step = times // 2, math.ceil(math.sqrt(times * spread(epsilon)) / 8)
    high = min(half, math.ceil(concentrated_total(epsilon, times, delta) / epsilon / 2) + 1)
    high = high if bound(high) <= delta else half
    while bound(low := max(0, high - step)) <= delta:
        if not low:
            return -1, 0
        high, step = low, 2 * step
    return numerics.first_within(bound, delta, low, high)


@dataclass(frozen=True)
class _Kink:
    """The curve at and just below the loss `(k - 2 last) eps`, where up to `last` computations count as unlikely."""

    epsilon: float
    times: int
    last: int

    def __post_init__(self) -> None:
        if self.times * spread(self.epsilon) > LARGEST_VARIANCE:
            raise InvalidParameter("there are too many computations for optimal composition: take renyi_total")

    @property
    def place(self) -> float:
        """The loss at the kink."""
        return (self.times - 2 * self.last) * self.epsilon

    def delta_up(self, rest: float) -> float:
        """Delta at a total epsilon that is `rest` below the kink."""
        start, (earlier, later) = self._start, self._weights
        ahead = float(self.last - start)
        fewer, more = ahead + np.arange(len(earlier)), ahead - np.arange(1, len(later))
        gains = [-np.expm1(-(rest + 2 * self.epsilon * steps)) for steps in (fewer, more)]
        total = (float((earlier * gains[0]).sum()) + float((later[1:] * gains[1]).sum())) * self._surplus
        return (
            min(1.0, numerics.floored(numerics.binomial_weight(self.times, start, self.epsilon) * Decimal(total)))
            if total
            else 0.0
        )

    def total_up(self, delta: float) -> float:
        """The total epsilon between this kink and the next below, where delta is `P - e^total Q`.

        With `S = e^kink Q` and `P - S` the delta at the kink, `e^(total - kink)` is `1 - (delta - (P - S))/S`, and
        `(P - delta)/S`, of which one does not cancel.
        """
        missing, shifted = delta - self.delta_up(0.0), self._shifted
        if missing * 2 < shifted:
            down = math.log1p(-missing / (shifted * self._surplus))
        else:
            earlier, later = self._weights
            weight = numerics.binomial_weight(self.times, self._start, self.epsilon)
            least = float(weight * Decimal((float(earlier.sum()) + float(later[1:].sum())) * self._surplus))
            down = min(0.0, math.log((least - delta) / shifted * self._surplus))
        return max(0.0, self.place + down + MARGIN * abs(down)) + MARGIN * self.place

    @cached_property
    def _start(self) -> int:
        """The largest weight up to `last`."""
        return min(self.last, int(self.times / (1 + math.exp(self.epsilon))))

    @cached_property
    def _weights(self) -> tuple[numerics.Floats, numerics.Floats]:
        """The weights of `_start`, `_start - 1`, ... and of `_start`, `_start + 1`, ..., `last`, relative to it."""
        times, start, odds = self.times, self._start, math.exp(self.epsilon)
        earlier = numerics.falling(lambda place: (start - place) / (times - start + place + 1) * odds, start)
        rest = self.last - start
        later = numerics.falling(lambda place: (times - start - place) / (start + place + 1) / odds, rest)
        return earlier, later

    @cached_property
    def _shifted(self) -> float:
        """S, the weights times `e^(-2 eps)` for each step below `last`, rounded down."""
        times, last, fall = self.times, self.last, math.exp(-self.epsilon)
        weights = numerics.falling(lambda place: (last - place) / (times - last + place + 1) * fall, last)
        total = float(weights.sum()) / numerics.surplus(len(weights))
        return float(numerics.binomial_weight(self.times, self.last, self.epsilon) * Decimal(total))

    @property
    def _surplus(self) -> float:
        earlier, later = self._weights
        return numerics.surplus(len(earlier) + len(later))


def spread(epsilon: float) -> float:
    """The variance `p r` of a coin of randomized response."""
    return 1 / (4 * math.cosh(epsilon / 2) ** 2)


def concentrated_total(epsilon: float, times: int, delta: float) -> float:
    """`k eps^2/2 + eps sqrt(2 k ln(1/delta))`, through zero concentration."""
    return (epsilon * math.sqrt(2 * times * -math.log(delta)) + times * epsilon**2 / 2) * (1 + MARGIN)


# Composition of epsilon-DP computations whose epsilons differ, by each classical theorem, [GROW] Theorem 4 among them.
#
# The optimal total (Murtagh and Vadhan) is that of coins of randomized response: each loses epsilon either way. Their
# losses lie on the lattice of the epsilons' common measure, or, if that is too fine, on a coarser one to which every
# epsilon is rounded up: a coin of a larger epsilon reveals at least as much. Figures are upper bounds.

# As many passes over an array of as many places: a fraction of a second.
MOST_CALLS: Final = 2000
PLACES: Final = 2**18


def compose_unequal(*, epsilons: Sequence[Number], delta: Number) -> Composition:
    """All five totals for computations with these epsilons, in any order, each chosen in advance.

    `basic`: their sum. `advanced`: Dwork-Rothblum-Vadhan. `zcdp`: `0.5 S + sqrt(2 S ln(1/delta))` with S the sum of the
    squares ([GROW] Theorem 4). `renyi`: the best order of the exact log-moments. `optimal`: exact where at most 131,072
    steps of the epsilons' common measure make their sum. Otherwise each is rounded up first, by 1/131,072 of the sum at
    most.

    Errors: those of `compose`, and `InvalidParameter` for none and for more than 2,000 computations.

    >>> found = compose_unequal(epsilons=[0.1] * 50 + [0.2] * 25, delta=1e-6)
    >>> round(found.basic, 9), round(found.zcdp, 3), round(found.renyi, 3), round(found.optimal, 3)
    (10.0, 7.188, 6.184, 5.873)
    """
    asked = [positive(epsilon, "an epsilon") for epsilon in epsilons]
    if not 1 <= len(asked) <= MOST_CALLS:
        raise InvalidParameter(f"give 1 to {MOST_CALLS:,} epsilons")
    sizes, chance = [moderate_up(epsilon) for epsilon in asked], failing_down(delta)
    squares = math.fsum(size * size for size in sizes)
    spread = math.sqrt(2 * squares * -math.log(chance))
    advanced = spread + math.fsum(size * math.expm1(size) for size in sizes)
    many = numerics.surplus(len(sizes))
    return Composition(
        basic=numerics.float_up(sum(asked, Fraction(0))),
        advanced=advanced * many,
        zcdp=(spread + squares / 2) * many,
        renyi=least_renyi(sorted(Counter(sizes).items()), chance),
        optimal=unequal_total(asked, chance),
    )


def unequal_total(epsilons: Sequence[Fraction], delta: float) -> float:
    """The least epsilon at which the computations are (epsilon, delta)-DP, rounded up.

    >>> round(unequal_total([Fraction(1, 10), Fraction(1, 5)], 1e-9), 6)
    0.3
    """
    unit, steps = _lattice(epsilons)
    step, masses = numerics.float_up(unit), np.ones(1)
    for size in steps:
        up = 1 / (1 + math.exp(-size * step))
        masses = np.pad(masses * (1 - up), (0, size)) + np.pad(masses * up, (size, 0))
    deltas = _deltas(masses[sum(steps) // 2 :], 2 * step) * numerics.surplus(4 * len(steps) + len(masses))
    return min(convex_upper(deltas, 2 * step, delta), numerics.float_up(sum(epsilons, Fraction(0))))


def _lattice(epsilons: Sequence[Fraction]) -> tuple[Fraction, list[int]]:
    """Half of the common measure, or of a coarser one; and each epsilon in halves, rounded up to an even number."""
    total, parts = sum(epsilons, Fraction(0)), math.lcm(*(epsilon.denominator for epsilon in epsilons))
    common = Fraction(math.gcd(*(int(epsilon * parts) for epsilon in epsilons)), parts)
    measure = max(common, 2 * total / PLACES)
    return measure / 2, [2 * math.ceil(epsilon / measure) for epsilon in epsilons]


def _deltas(masses: numerics.Floats, step: float) -> numerics.Floats:
    """The delta at the totals 0, step, 2 step, ..., from the probabilities of these losses.

    Let W be the sum of the masses of losses l above, each times `exp(total - l)`. From a total to the next, delta falls
    by `(1 - exp(-step)) W` of the next and by what the mass there gives up. All terms are positive, so nothing cancels.
    """
    fade = math.exp(-step)
    weights = scipy.signal.lfilter([1.0], [1.0, -fade], masses[::-1])[::-1]
    later = np.append(weights[1:], 0.0) * -math.expm1(-step)
    return np.asarray(np.cumsum(later[::-1])[::-1], np.float64)
