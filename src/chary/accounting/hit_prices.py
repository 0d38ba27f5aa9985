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

# The boundary wrapper ([TCT] Algorithm 4): how private it is, and how often its target is hit at least.
#
# A has outcome probabilities p; `x = 1 - max p`. The wrapper returns "boundary" with probability `x/(1+x)`, x cut at
# 1/2, else an outcome of A. Write E = e^epsilon for A and T = e^t for the wrapper; x, y belong to neighbours, x <= y.
#
# **Privacy (ours, exact).** `y <= E x` and `y <= 1/2`, so leaving the boundary out changes by at most
# `(1+y)/(1+x) <= 3/(2 + 1/E)`, an outcome of A by E more: `t = epsilon + ln(3/(2 + 1/E)) <= 4/3 epsilon`, approached by
# three outcomes of which one is rare. With two outcomes no outcome but the likelier can gain both factors, and
# `t = max(epsilon, ln(3(2 - 1/E)/(2 + 1/E)))`. The latter does not hold for three outcomes.
#
# **Target (ours, exact).** Take from both distributions, outside the boundary, all that keeps the rest
# t-indistinguishable: `m = (T min - max)/(T - 1)` of each outcome. The rest hits with at least `q = b/(1 - sum m)`, b =
# x/(1+x). With V the total variation outside, `(T-1)(1 - sum m) = (T-1)(b + y/(1+y))/2 + (T+1) V`. If one outcome is
# the likeliest in both distributions, x, y <= 1/2 and r = y/x, then `V/b <= (3(r-1) + 2(E-r)/(E+1))/2 <= 3(E-1)/2`.
# Else `b >= 1/(2E+1)` and the bound `V <= (1/(1+x) + 1/(1+y))(E-1)/(2E+2)` suffices. Hence
# `q = (T-1)/(2TE - T + E - 2)`, approached as x falls to 0 with y = E x. It exceeds the published form
# `(T-1)/(2(TE - 1))`, which it equals at t = epsilon.


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
# general.
#
# At order a a price psi is valid if `E_P1[(P0/P1)^a exp(-psi * 1[hit])] <= 1` for every pair (theory 1.4). With E =
# e^epsilon, the moment of an epsilon-DP pair p0, p1 is at most `M = (E^a + E^(1-a)) / (1 + E)`; write k = e^-psi.
#
# **Twice.** With `m_i = p0_i^a p1_i^(1-a)` the expectation is `(1-k) sum m_i^2 + k (sum m_i)^2`. Each m_i >= 0 is
# convex,
# hence so is this, and p0, p1 are linear in the two distributions that randomized response mixes: the largest value is
# attained at
# two point masses. Exact: `e^psi = 2E / ((1+E)^2 - E^(2a) - E^(2-2a))`.
#
# **Boundary**, notation of `chary.accounting.hit_prices`. Let one outcome be the likeliest in both distributions,
# y = r x, both at most 1/2. For a fixed r and fixed shares of the other outcomes the claim reads H(x) >= 0, where H(0)
# = 0 and `H = f(x) - f(-x) - const x`, `f = (1+x)^a (1+rx)^(1-a)`. As f'' decreases (for `a(E-1) <= 2E - 1/2`), H is
# concave: it is enough to look at the largest x, where one of x, y is 1/2, and the pair is still
# epsilon-indistinguishable. In all other cases too x and y, cut at 1/2, are at least 1/(2E). So b = x/(1+x) and b' lie
# in [1/(2E+1), 1/3], where `(1-b)^a (1-b')^(1-a) M + k b^a b'^(1-a)` is convex: it is at most 1 if it is at the four
# corners. At most a few per cent above the truth while prices are small.
#
# **Narrow choice.** The log-likelihood ratios of all outcomes lie in an interval of length epsilon, which holds 0, and
# a
# hit is any outcome but the prior. Exact: `k = E^a (1 - a (1 - 1/E))`. The prior has a ratio z; the chord through 1 and
# z^a, `1 + b (t - 1)` with `b = (z^a - 1)/(z - 1)`, lies above `k t^a` for every other ratio t. Ratios have mean 1, so
# the expectation is at most 1. As t^a is convex, only the ends count. At t = z/E with z >= 1 the claim reads
# `a z^(a-1) - (a-1) z^a <= 1`, which holds for all z > 0; at t = 1/E with z <= 1 it holds since b <= a; at t = E with
# z >= 1, as b >= a, and at t = zE with z <= 1, by the same inequality, it holds if `k E^a <= 1 + a (E-1)`: at epsilon 0
# both sides are 1, and their ratio grows since `1/(a - (a-1) x)` is convex in x. Approached when the prior is nearly
# certain and all else has t = 1/E.

# As in `hit_prices`: where more than 20 digits cancel, the guard of 1e-30 would not cover what is left.
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
# and whether it hits. What a call adds to the best analyst's sum is convex in the pair (docs/theory/charging.md, a menu
# of distributions), so it is largest at one of finitely many distributions wherever all pairs of the call are mixtures
# of them, or reveal less than mixtures do.
#
# **Runs of one computation.** Every epsilon-DP run is a bit from randomized response that picks one of two outcomes,
# drawn beforehand from no data. An analyst who knows all of those knows which strings of bits agree: none, all, one
# subcube (one value can come from every run), or two opposite corners (two values can). Each is a distribution of its
# own.
#
# **Boundary.** With b = x/(1+x) the wrapper says "boundary" with probability b, the likeliest outcome with 1 - 2b and
# all else
# with b together. Where one outcome is the likeliest in both distributions and x, y <= 1/2, (b, b') lies in the convex
# set `b' <= E b / (1 + (E-1) b)`, both ways, b, b' <= 1/3. Where `f = (1-b')/(1-b)` lies between two numbers, a part of
# that
# set cut off by two lines, what is told of the rest is a mixture of ratios within `[1/(E f), E/f]`: all is linear in
# (b, b'), so the corners of a polygon around each part are enough. In all other cases b, b' >= 1/(2E+1), and the rest
# is
# any epsilon-DP pair: randomized response, at the four corners. With two outcomes the rest is one outcome; where the
# likelier one changes, `(1-x) <= E y` and `(1-y) <= E x` leave the quadrilateral with corners (1/3, 1/(2E+1)),
# (1/(2+E),
# 1/(2+E)), (1/(2E+1), 1/3), (1/3, 1/3) around (b, b').
#
# **Narrow choice.** Its ratios lie in an interval of length epsilon that starts in one of 16 parts of [-epsilon, 0]: in
# one of 16 intervals a sixteenth longer, each of which has one distribution of two outcomes (docs/theory/charging.md,
# uneven losses).

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
# Write E = e^epsilon. The best q of a target T in a pair of distributions is `min P(T) / (1 - sum of m outside T)` with
# `m = (E min - max)/(E - 1)`: m is all that both distributions can shed of an outcome and stay
# epsilon-indistinguishable.
#
# **Between.** Noise with `P(k) ~ r^|k|`, `r^-s = E`, a zone of w steps, values v < v + d, d <= s. By symmetry let v be
# at
# least as far from the middle of the zone. If v <= low then `P_v(T) = (1 - r^w) G`, G the probability of reaching the
# zone, and shedding below it alone leaves `(E G' - G)/(E - 1)`, G' <= E G of the neighbour: q is at least
# `(1 - r^w)(E - 1)/(E^2 - 1)`, attained for v + s <= low. Otherwise both values lie in the zone and already
# `P(T) >= (1 - r^w)/(1 + r)`.
#
# **Twice.** Let s be the probability that two runs under one distribution differ, s' >= s under the other, W the sum of
# p^2 - p'^2 over
# the outcomes where it is positive, V that of |p^2 - p'^2|. Shedding equal pairs leaves D/(E^2 - 1) with
# `D = (E^2-1) s + (E^2+1) W - (s' - s) = (E^2-1)(s + s')/2 + (E^2+1) V/2`, and D <= (E^2-1) s + 2 E^2 (E-1) s is
# wanted.
# By `|p - p'| <= (E-1) min(p, p', 1-p, 1-p')`, `V <= (E-1)(s + s' - (s' - s)/(E+1))`, which with s' <= E s suffices
# where
# E^3 <= E^2 + E + 1; and `W <= (E-1)(1 + (E+1)/(2 E^2)) s`, since the likeliest outcome has at most half of
# s = sum of p(1-p), suffices for E >= 1.8.

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
# Nothing else is published. Distributions p, q agree on i with probabilities p_i^k, q_i^k; write b(p) = 1 - sum p_i^k,
# m_i = p_i^a q_i^(1-a). At order a the price is right if `sum m_i^k + e^-psi b(p)^a b(q)^(1-a) <= 1` for all pairs.
#
# **Two outcomes are worst.** `x^a y^(1-a)` is the largest, over r > 0, of the tangents `a r^(a-1) x - (a-1) r^a y`. For
# one r and one list of ratios t_i = p_i/q_i the claim's left side is `const + sum q_i^k f(t_i)`, with `f(t) = s^a - K a
# r^(a-1) s + K (a-1) r^a` at s = t^k, K = e^-psi <= 1, whose least value over s, `(a-1) K r^a (1 - K^(1/(a-1)))`, is
# not
# negative. So it is convex in the q_i, which satisfy two linear equations: largest where two of them at most are
# positive. For p fixed it is convex in q as well, so q is as far from p as it may be: (z, E z) or (E z, z) are the
# probabilities of one outcome, 0 < z <= 1/(1+E).
#
# **Along z** the price is `ln(1 + T)`, T the mean of `c(t) = t^a - 1 - a(t-1)` over the three outcomes divided by 1 -
# M,
# M = m_1^k + m_2^k (all masses under q). M is convex with M(0) = 1, so (1-M)/z falls; b(z)/z falls; z b'/b falls (in
# the
# odds o it is `(1-2z)/(1-z)` times `k sum o^i / sum C(k,i+1) o^i`, i <= k-2, and the weights of the middle grow), so
# ln b(Ez)/b(z) falls from epsilon to 0; the other outcome's ratio goes away from 1. Every factor is monotone: on a cell
# each is largest at a known end. Cells whose bound is above the best value that is attained are halved until the two
# are
# a hundred-thousandth apart.
#
# **On the exact curve** it is a call of k epsilon whose boundary is a q-target. With e = E^k and b the smaller of both
# boundaries, what can be shed leaves `q = (e-1) b / ((e-1) b + e D + D')`, D and D' what agreements lose and gain,
# D' <= D. Two outcomes are worst by the same argument; the one that loses has a probability of 1 - x, and `D = (1-x)^k
# - (1-y)^k <= k (E-1) x (1-x)^(k-1) <= (E-1) b`: exactly one of the runs being the other one is not unanimous.

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
