"""Prices of a boundary, of two runs that differ and of a narrow choice, from their own laws: cheaper than in general.

At order a a price psi is valid if `E_P1[(P0/P1)^a exp(-psi * 1[hit])] <= 1` for every pair (theory 1.4). With E =
e^epsilon, the moment of an epsilon-DP pair p0, p1 is at most `M = (E^a + E^(1-a)) / (1 + E)`; write k = e^-psi.

**Twice.** With `m_i = p0_i^a p1_i^(1-a)` the expectation is `(1-k) sum m_i^2 + k (sum m_i)^2`. Each m_i >= 0 is convex,
hence so is this, and p0, p1 are linear in the two laws that randomized response mixes: the largest value is attained at
two point masses. Exact: `e^psi = 2E / ((1+E)^2 - E^(2a) - E^(2-2a))`.

**Boundary**, notation of `chary.accounting.charging.boundary_sizes`. Let one outcome be the likeliest in both laws,
y = r x, both at most 1/2. For a fixed r and fixed shares of the other outcomes the claim reads H(x) >= 0, where H(0)
= 0 and `H = f(x) - f(-x) - const x`, `f = (1+x)^a (1+rx)^(1-a)`. As f'' decreases (for `a(E-1) <= 2E - 1/2`), H is
concave: it is enough to look at the largest x, where one of x, y is 1/2, and the pair is still
epsilon-indistinguishable. In all other cases too x and y, cut at 1/2, are at least 1/(2E). So b = x/(1+x) and b' lie
in [1/(2E+1), 1/3], where `(1-b)^a (1-b')^(1-a) M + k b^a b'^(1-a)` is convex: it is at most 1 if it is at the four
corners. At most a few per cent above the truth while prices are small.

**Narrow choice.** The log-likelihood ratios of all outcomes lie in an interval of length epsilon, which holds 0, and a
hit is any outcome but the prior. Exact: `k = E^a (1 - a (1 - 1/E))`. The prior has a ratio z; the chord through 1 and
z^a, `1 + b (t - 1)` with `b = (z^a - 1)/(z - 1)`, lies above `k t^a` for every other ratio t. Ratios have mean 1, so
the expectation is at most 1. As t^a is convex, only the ends count. At t = z/E with z >= 1 the claim reads
`a z^(a-1) - (a-1) z^a <= 1`, which holds for all z > 0; at t = 1/E with z <= 1 it holds since b <= a; at t = E with
z >= 1, as b >= a, and at t = zE with z <= 1, by the same inequality, it holds if `k E^a <= 1 + a (E-1)`: at epsilon 0
both sides are 1, and their ratio grows since `1/(a - (a-1) x)` is convex in x. Approached when the prior is nearly
certain and all else has t = 1/E.
"""

from decimal import Decimal
from fractions import Fraction
from itertools import product

from chary.accounting.charging.boundary_sizes import moderate
from chary.accounting.exponentials import LARGEST_EXPONENT, decimal, precise, upper
from chary.errors import InvalidParameter
from chary.numbers import Number

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
        spared = [
            (1 - _tilted(1 - one, 1 - other, a) * most, _tilted(one, other, a))
            for one, other in product(ends, repeat=2)
        ]
        return upper(-min(left / rare for left, rare in spared).ln()) if min(spared)[0] > _LEAST else None


def _callable(epsilon: Number, order: Fraction) -> Fraction | None:
    """The epsilon of a call, None where its exponentials would be too large for any price."""
    if order <= 1:
        raise InvalidParameter("the order must be greater than 1")
    bound = moderate(epsilon)
    return None if order * bound > LARGEST_EXPONENT else bound


def _long(order: Fraction) -> int:
    """The digits of an order: so many more are needed where rounding is multiplied by it."""
    return len(str(int(order)))


def _tilted(one: Decimal, other: Decimal, order: Decimal) -> Decimal:
    """`one^order * other^(1 - order)`."""
    return (order * one.ln() + (1 - order) * other.ln()).exp()
