"""What a hit costs: NotPrior and q-target tests, boundaries, two runs, narrow choices, unanimous runs."""

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from chary.accounting.numerics import LARGEST_EXPONENT, decimal, precise, rounded_down, rounded_up, upper
from chary.errors import InvalidParameter
from chary.numbers import Number, per_call, plain, probability, whole

# The boundary wrapper ([TCT] Algorithm 4): how private it is, and how often its target is hit at least. Both are exact:
# docs/theory/charging.md, Theorem 1.14.


def boundary_epsilon_up(epsilon: Number, *, outcomes: int | None = None) -> Fraction:
    """The t for which the boundary wrapper of an epsilon-DP computation is t-DP, rounded up to 18 digits.

    `outcomes=2` is for tests; more, or None for any number, is a little more. An epsilon above 10**6 raises
    `InvalidParameter`.

    >>> [round(float(boundary_epsilon_up("0.3", outcomes=outcomes)), 6) for outcomes in (2, None)]
    [0.320818, 0.390356]
    """
    bound, tests = moderate(epsilon), outcomes is not None and whole(outcomes, "outcomes", least=2) == 2
    with precise():
        eps = decimal(bound)
        rare = (-eps).exp()
        factor = (3 / (2 + rare)).ln()
        return rounded_up(max(eps, (2 - rare).ln() + factor) if tests else eps + factor)


def boundary_q_down(epsilon: Number, *, outcomes: int | None = None) -> Fraction:
    """The q of the target "boundary" of the wrapper as a `boundary_epsilon_up`-DP call, rounded down to 18 digits.

    >>> [round(float(boundary_q_down("0.3", outcomes=outcomes)), 6) for outcomes in (2, None)]
    [0.223488, 0.256558]
    """
    bound = moderate(epsilon)
    wrapped = boundary_epsilon_up(bound, outcomes=outcomes)
    with precise():
        e, t = decimal(bound).exp(), decimal(wrapped).exp()
        return rounded_down((t - 1) / (2 * t * e - t + e - 2))


def moderate(epsilon: Number) -> Fraction:
    """An epsilon of a call whose exponential is a number of reasonable length."""
    bound = per_call(epsilon)
    if bound > LARGEST_EXPONENT:
        raise InvalidParameter(f"epsilon must be at most 10**6, got {plain(bound)}")
    return bound


# Prices of a boundary, of two runs that differ and of a narrow choice, from their own distributions: cheaper than in
# general. docs/theory/charging.md proves them: Theorem 1.16 (boundary, two runs) and Theorem 1.18 (narrow choice).

# Where more than 20 digits cancel, the guard of 1e-30 would not cover what is left.
_LEAST = Decimal("1e-20")


def twice_price_up(epsilon: Number, order: Fraction) -> Fraction | None:
    """The log-moment of a hit "two runs of an epsilon-DP computation differ", rounded up; None where there is none.

    An order of at most 1, or an epsilon above 10**6, raises `InvalidParameter`.

    >>> float(twice_price_up("0.02", Fraction(15)))
    0.18967...
    """
    bound = _callable(epsilon, order)
    if bound is None:
        return None
    with precise(_long(order)):
        a, eps = decimal(order), decimal(bound)
        e = eps.exp()
        kept = (1 + e) ** 2 - (2 * a * eps).exp() - ((2 - 2 * a) * eps).exp()
        return upper((2 * e / kept).ln()) if kept > _LEAST * (1 + e) ** 2 else None


def narrow_price_up(epsilon: Number, order: Fraction) -> Fraction | None:
    """The log-moment of a hit "not the prior" of a choice whose log-ratios lie in an interval of length epsilon.

    It is `-a epsilon - ln(1 - a (1 - e^-epsilon))`, rounded up; None where there is none.

    An order of at most 1, or an epsilon above 10**6, raises `InvalidParameter`.

    >>> float(narrow_price_up("0.02", Fraction(15)))
    0.05242...
    """
    bound = _callable(epsilon, order)
    if bound is None:
        return None
    with precise(_long(order)):
        a, eps = decimal(order), decimal(bound)
        left = 1 - a * (1 - (-eps).exp())
        return upper(-a * eps - left.ln()) if left > _LEAST else None


def boundary_price_up(epsilon: Number, order: Fraction) -> Fraction | None:
    """The log-moment of a hit of the boundary wrapper of an epsilon-DP computation, rounded up; None if there is none.

    For any number of outcomes. An order of at most 1, or an epsilon above 10**6, raises `InvalidParameter`.

    >>> float(boundary_price_up("0.02", Fraction(15)))
    0.15929...
    """
    bound = _callable(epsilon, order)
    if bound is None:
        return None
    with precise(_long(order)):
        a, eps = decimal(order), decimal(bound)
        e = eps.exp()
        if a * (e - 1) > 2 * e - Decimal("0.5"):
            return None
        most = ((a * eps).exp() + ((1 - a) * eps).exp()) / (1 + e)
        ends = (1 / (2 * e + 1), 1 / Decimal(3))
        pairs = product(ends, repeat=2)
        spared = [(1 - _tilted(1 - b, 1 - c, a) * most, _tilted(b, c, a)) for b, c in pairs]
        return upper(-min(left / rare for left, rare in spared).ln()) if min(spared)[0] > _LEAST else None


def _callable(epsilon: Number, order: Fraction) -> Fraction | None:
    """The epsilon of a call, None where its exponentials would be too large for any cost."""
    if order <= 1:
        raise InvalidParameter("the order must be greater than 1")
    bound = moderate(epsilon)
    return None if order * bound > LARGEST_EXPONENT else bound


def _long(order: Fraction) -> int:
    """The digits of an order: this many more are needed where rounding is multiplied by it."""
    return len(str(int(order)))


def _tilted(one: Decimal, other: Decimal, order: Decimal) -> Decimal:
    """`one^order * other^(1 - order)`."""
    return (order * one.ln() + (1 - order) * other.ln()).exp()


# The price of a hit: what a target call costs at one Renyi order when its target is hit; a miss costs nothing.
#
# Theory 1.4 (this work). For an epsilon-DP call and order a, with `A = e^((1-a)eps)/(1+e^eps)`,
# `B = e^(a eps)/(1+e^eps)` and u, v the probabilities that the two atoms of randomized response hit, the price psi
# solves `e^psi = max (uB + vA) / (1 - (1-u)B - (1-v)A)` over the vertices of the targets allowed.

# What is kept of `1 + e^eps` must be more than this part of it: exponents up to 10**6 cost 6 of the 60 digits and the
# cancellation 20, so a price is known to 1e-34, and the guard of 1e-30 covers it. Nearer to its pole there is none.


class TargetCall(Protocol):
    """An epsilon-DP call with a NotPrior target (`target` None) or a q-target; `Targeted` is one."""

    @property
    def epsilon(self) -> Fraction:
        """The pure bound of the call."""
        ...

    @property
    def target(self) -> Fraction | None:
        """The q of its target; None for NotPrior."""
        ...


def hit_price_up(event: TargetCall, order: Fraction) -> Fraction | None:
    """The log-moment a hit costs at `order`, rounded up, or None where no finite cost exists.

    Guarantee: a session charges this for each hit, nothing for a miss, and the log-moment for ordinary releases. If it
    stops before the sum passes B, it has log-moment at most B at this order, however adaptively it was asked.

    >>> from chary.accounting.events import Targeted
    >>> float(hit_price_up(Targeted("0.05"), Fraction(10)))
    0.459936...
    >>> hit_price_up(Targeted("0.2", q="0.28"), Fraction(4)) is None
    True
    """
    if order * event.epsilon > LARGEST_EXPONENT:
        return None
    with precise(_lost(event.target)):
        ratios = [_ratio(u, v, order, event.epsilon) for u, v in _vertices(event)]
        finite = [ratio for ratio in ratios if ratio is not None]
        return upper(max(finite).ln()) if len(finite) == len(ratios) else None


def _ratio(u: Decimal, v: Decimal, order: Fraction, epsilon: Fraction) -> Decimal | None:
    a, eps = decimal(order), decimal(epsilon)
    low, high = ((1 - a) * eps).exp(), (a * eps).exp()
    whole = 1 + eps.exp()
    kept = whole - (1 - u) * high - (1 - v) * low
    return (u * high + v * low) / kept if kept > _LEAST * whole else None


def _lost(target: Fraction | None) -> int:
    """The digits that `1 - q` loses next to 1."""
    return 0 if target in (None, 1) else int(1 / (1 - target)).bit_length() // 3 + 1


def _vertices(event: TargetCall) -> list[tuple[Decimal, Decimal]]:
    """The least hit probabilities (u, v) of the two atoms; NotPrior is the one atom as the prior (theory 1.3)."""
    if event.target is None:
        return [(Decimal(0), Decimal(1))]
    eps, q = decimal(event.epsilon), decimal(event.target)
    # 1 - p itself would lose as many digits as e^eps has.
    p, r = 1 / (1 + (-eps).exp()), 1 / (1 + eps.exp())
    corner = (q / r, Decimal(0)) if q <= r else ((q - r) / p, Decimal(1))
    return [(q, q), corner, (corner[1], corner[0])]


# Finitely many distributions that stand for all pairs of neighbours of a call: what its exact price is worked out from
# (this work).
#
# A distribution is a pair of distributions of one call under two neighbours, outcome by outcome: both probabilities,
# and whether it hits. That they are enough is Theorem 1.12 of docs/theory/charging.md. The section "Menus of
# distributions" there has the corners for runs, for the boundary's polygons and for narrow choices.

_PARTS: Final = 16
_CELLS: Final = 6


class Chances(NamedTuple):
    """One outcome: its probability under both neighbours, and whether it is a hit."""

    first: Decimal
    second: Decimal
    hit: bool


MenuLaw = tuple[Chances, ...]


def response_laws(epsilon: Fraction, *, released: bool) -> list[MenuLaw]:
    """Any epsilon-DP call: all outcomes hit, or all but one that was named before."""
    with precise():
        p, r = _response(epsilon)
        return [(Chances(p, r, released), Chances(r, p, True))]


def uneven_laws(up: Fraction, down: Fraction) -> list[MenuLaw]:
    """Any release whose log-ratios lie between -down and up."""
    with precise():
        return [_two_points((-decimal(down)).exp(), decimal(up).exp(), (True, True))]


def target_laws(epsilon: Fraction, q: Fraction) -> list[MenuLaw]:
    """Any epsilon-DP call with a q-target: the extreme points of its two atoms' probabilities of a hit (theory 1.3)."""
    with precise():
        p, r, least = *_response(epsilon), decimal(q)
        other = (Decimal(0), least / r) if least <= r else ((least - r) / p, Decimal(1))
        return [_split(p, r, chances) for chances in ((least, least), other)]


def twice_laws(epsilon: Fraction) -> list[MenuLaw]:
    """Two runs that are both published; a hit is that they differ."""
    agreeing = [{(0, 0), (1, 1)}, {(0, 0)}, {(0, 1), (1, 0)}, {(0, 1)}]
    with precise():
        p, r = _response(epsilon)
        chance = {(0, 0): (p * p, r * r), (0, 1): (p * r, p * r), (1, 0): (p * r, p * r), (1, 1): (r * r, p * p)}
        runs = [tuple(Chances(*both, bits not in agree) for bits, both in chance.items()) for agree in agreeing]
    return runs + response_laws(epsilon, released=False)


def unanimous_laws(epsilon: Fraction, runs: int) -> list[MenuLaw]:
    """Several runs of which only a unanimous outcome is published; a hit is that they disagree."""
    with precise():
        p, r = _response(epsilon)
        corner = [(p ** (runs - ones) * r**ones, p**ones * r ** (runs - ones)) for ones in range(runs + 1)]
        two = [_boundary_told([(one, other), (other, one)]) for one, other in corner[: runs // 2 + 1]]
        cubes = [(ones, fixed) for fixed in range(1, runs + 1) for ones in range(fixed + 1)]
        one = [_boundary_told([(p ** (n - k) * r**k, p**k * r ** (n - k))]) for k, n in cubes]
    return two + one


def narrow_laws(epsilon: Fraction) -> list[MenuLaw]:
    """A choice whose log-ratios lie in an interval of length epsilon; a hit is all but one that was named before."""
    part = epsilon / _PARTS
    with precise():
        ends = [((-decimal(part * j)).exp(), decimal(epsilon - part * (j - 1)).exp()) for j in range(1, _PARTS + 1)]
        return [_two_points(low, high, hits) for low, high in ends for hits in ((True, False), (False, True))]


def boundary_laws(epsilon: Fraction, *, tests: bool) -> list[MenuLaw]:
    """An epsilon-DP computation in the boundary wrapper, of two outcomes (`tests`) or of any number."""
    with precise():
        e = decimal(epsilon).exp()
        return list(_wrapped_tests(e) if tests else _wrapped(e))


def _response(epsilon: Fraction) -> tuple[Decimal, Decimal]:
    rare = (-decimal(epsilon)).exp()
    return 1 / (1 + rare), rare / (1 + rare)


def _two_points(low: Decimal, high: Decimal, hits: tuple[bool, bool]) -> MenuLaw:
    """The distribution whose two outcomes have these ratios."""
    chance = (1 - low) / (high - low)
    return Chances(chance * high, chance, hits[0]), Chances((1 - chance) * low, 1 - chance, hits[1])


def _split(p: Decimal, r: Decimal, hits: tuple[Decimal, Decimal]) -> MenuLaw:
    """Randomized response, each atom of which hits with a probability of its own."""
    atoms = [(p, r, hits[0]), (r, p, hits[1])]
    parts = [(one, other, share, hit) for one, other, part in atoms for share, hit in ((part, True), (1 - part, False))]
    return tuple(Chances(one * part, other * part, hit) for one, other, part, hit in parts if part)


def _boundary_told(agreed: list[tuple[Decimal, Decimal]]) -> MenuLaw:
    """The distribution in which agreeing outcomes are published, free, and all others are one hit."""
    free = tuple(Chances(one, other, hit=False) for one, other in agreed)
    first, second = sum((one for one, _ in agreed), Decimal(0)), sum((other for _, other in agreed), Decimal(0))
    return *free, Chances(1 - first, 1 - second, hit=True)


def _cell(e: Decimal, low: Decimal, high: Decimal) -> list[tuple[Decimal, Decimal]]:
    """Corners of a polygon around the pairs b <= b' with `low <= (1 - b')/(1 - b) <= high`."""

    def edge(share: Decimal) -> tuple[Decimal, Decimal, Decimal]:
        """Where the curve has this share, and its slope there."""
        b = (1 - share) / (share * (e - 1))
        return b, e * share * b, e / (1 + (e - 1) * b) ** 2

    (start, first, steep), (end, second, flat) = edge(high), edge(low)
    meet = (second - first + steep * start - flat * end) / (steep - flat)
    most = 1 / Decimal(3)
    tops = [(1 - (1 - most) / share, most) for share in (low, high)]
    return [(start, first), (meet, first + steep * (meet - start)), (end, second), *tops]


def _cells(e: Decimal) -> Iterator[tuple[Decimal, Decimal, Decimal, Decimal]]:
    """Pairs (b, b'), each with the bounds of (1 - b')/(1 - b) in its cell."""
    least = (2 * e + 1) / (3 * e)
    shares = [1 - (1 - least) * place / _CELLS for place in range(_CELLS + 1)]
    for high, low in pairwise(shares):
        for b, other in _cell(e, low, high):
            if b > 0:
                yield b, other, low, high


def _wrapped_tests(e: Decimal) -> Iterator[MenuLaw]:
    for b, c, *_ in _cells(e):
        yield Chances(1 - 2 * b, 1 - 2 * c, hit=False), Chances(b, c, hit=False), Chances(b, c, hit=True)
    most, least, middle = 1 / Decimal(3), 1 / (2 * e + 1), 1 / (2 + e)
    for b, c in ((most, least), (middle, middle), (least, most), (most, most)):
        yield Chances(1 - 2 * b, c, hit=False), Chances(b, 1 - 2 * c, hit=False), Chances(b, c, hit=True)


def _wrapped(e: Decimal) -> Iterator[MenuLaw]:
    for b, c, low, high in _cells(e):
        t, s = e / low, e * high
        up, down = (max(Decimal(0), part) / (s * t - 1) for part in (s * b - c, t * c - b))
        rest = [Chances(*both, hit=False) for both in ((t * up, up), (down, s * down)) if both[0]]
        yield Chances(1 - 2 * b, 1 - 2 * c, hit=False), *rest, Chances(b, c, hit=True)
    p, r = e / (1 + e), 1 / (1 + e)
    for b, c in product((1 / Decimal(3), 1 / (2 * e + 1)), repeat=2):
        rest = [Chances((1 - b) * one, (1 - c) * other, hit=False) for one, other in ((p, r), (r, p))]
        yield *rest, Chances(b, c, hit=True)


# How often the targets of [TCT] are hit at least: between two thresholds, and two runs that differ.
#
# docs/theory/charging.md proves them: Theorem 1.13 (between) and Theorem 1.15 (two runs).

# Below it x/(1+x) bounds 1 - exp(-x) from below, to a part of x/2; above it the difference loses 20 of 60 digits.
_LINEAR = Fraction(1, 10**20)


def between_q_down(epsilon: Number, *, width: int, sensitivity: int) -> Fraction:
    """The q of the target "low <= value + noise < high" under discrete Laplace noise of scale sensitivity/epsilon.

    `width = high - low` and the sensitivity of the value are in grid steps. It is
    `(1 - exp(-width epsilon / sensitivity)) / (e^epsilon + 1)`, rounded down to 18 digits, and attained whenever both
    neighbours are at or below `low` and differ by the whole sensitivity. The outcomes are low, between and high only.
    An epsilon above 10**6, or a width or sensitivity below 1, raises `InvalidParameter`.

    >>> round(float(between_q_down("0.1", width=30, sensitivity=1)), 6)
    0.451371
    """
    bound = moderate(epsilon)
    exponent = whole(width, "width") * bound / whole(sensitivity, "sensitivity")
    with precise():
        share = decimal(exponent / (1 + exponent)) if exponent < _LINEAR else 1 - (-decimal(exponent)).exp()
        return rounded_down(share / (decimal(bound).exp() + 1))


def twice_q_down(epsilon: Number) -> Fraction:
    """The q of the target "two runs of an epsilon-DP computation differ", a 2 epsilon-DP call, rounded down.

    It is `1 / (1 + 2 e^(2 epsilon) / (e^epsilon + 1))`, to 18 digits. An epsilon above 10**6 raises `InvalidParameter`.

    >>> round(float(twice_q_down("0.1")), 6)
    0.462881
    """
    with precise():
        e = decimal(moderate(epsilon)).exp()
        return rounded_down(1 / (1 + 2 * e * e / (e + 1)))


# k runs of an epsilon-DP computation: where all agree the outcome is free, else "boundary", which is charged (this
# work).
#
# Nothing else is published. Theorem 1.17 of docs/theory/charging.md proves that two outcomes are worst, which leaves a
# line of pairs by z, and that every factor of the price is monotone on it. So on a cell of z each is largest at a known
# end. Cells whose bound is above the best value that is attained are halved until the two are a hundred-thousandth
# apart. It proves the q on the exact curve too.

Floats = NDArray[np.float64]

_CLOSE: Final = 1e-5
# What floats of cancelling terms may err by, relatively, where they are used; below it the terms' own bounds are.
_MARGIN: Final = 1 + 1e-6
_FIRST: Final = 1e-9
_ROUNDS: Final = 60


def unanimous_price_up(epsilon: Number, runs: int, order: Fraction) -> Fraction | None:
    """The log-moment of a hit "that many runs were not unanimous", rounded up; None where there is none.

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
    """How likely this many runs are not unanimous, if a run is of the other of two outcomes with probability `unclear`.

    >>> round(boundary_chance("0.1", 3), 9)
    0.27
    """
    other, count = float(probability(unclear, "unclear")), whole(runs, "runs", least=2)
    return -math.expm1(count * math.log1p(-other)) - float(other**count)


def best_runs(epsilon: Number, order: Fraction, unclear: Number, *, most: int = 12) -> int:
    """The number of runs, at most `most`, that pays least on average; `InvalidParameter` where none has a cost.

    >>> [best_runs("0.02", Fraction(15), unclear) for unclear in ("0.001", "0.1")]
    [2, 6]
    """
    prices = {runs: unanimous_price_up(epsilon, runs, order) for runs in range(2, whole(most, "most", least=2) + 1)}
    known = {runs: float(price) * boundary_chance(unclear, runs) for runs, price in prices.items() if price is not None}
    if not known:
        raise InvalidParameter("no number of runs has a finite cost of a hit at this order: take a smaller epsilon")
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
