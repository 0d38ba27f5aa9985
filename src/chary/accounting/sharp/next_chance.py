"""The next chance of a hit, to sixty digits and on the allowed side; how it behaves near 0."""

import math
from decimal import Decimal, getcontext
from fractions import Fraction
from typing import Final

from chary.accounting.exponentials import decimal, precise
from chary.accounting.sharp.allowed_pairs import Chance, Inequalities
from chary.accounting.sharp.logit_steps import LogitSteps
from chary.accounting.sharp.sharp_event import SharpTest
from chary.errors import InvalidParameter
from chary.numbers import Number, probability

_NEWTON_STEPS: Final = 30
# The first margin is far below what 18 digits show; each try that fails takes a hundred times more, up to 1e-13.
_NEXT_MARGIN, _NEXT_MORE, _NEXT_TRIES = Decimal("1e-25"), 100, 7
_NEAR_ZERO: Final = Fraction(1, 10**40)


def next_miss_up(p: Number, *, order: Number, price: Number, miss_price: Number = 0) -> Fraction:
    """The chance of a miss, rounded up, one sensitivity above where the chance of a hit is p: `1 - next(p)`.

    `next(p)` is the largest chance of a hit that a neighbour may have at these prices. What is returned is certainly
    allowed, and above the true chance by less than one part in 1e12. Errors: `InvalidParameter` for p outside (0, 1)
    and for what `SharpTest` refuses.

    >>> float(next_miss_up("0.5", order=18, price="0.19295"))
    0.489953683288319
    """
    return _next_miss(probability(p, "p"), SharpTest(order, price, miss_price))


def tail_down(*, order: Number, price: Number) -> Fraction:
    """The factor by which small chances of a hit may grow: the limit of `next(p)/p` for p to 0, rounded down.

    It is the largest k with `k^a D <= a k - (a-1)` and `k^(1-a) D <= a - (a-1) k`, D = e^-price. Allowed pairs are a
    convex set with corner (0, 0), so `next(p)/p` grows as p falls, and any p gives a lower bound, off by a part of p.

    >>> float(tail_down(order=18, price="0.19295"))
    1.02898191056801...
    """
    return (1 - _next_miss(_NEAR_ZERO, SharpTest(order, price))) / _NEAR_ZERO


def _next_miss(p: Fraction, test: SharpTest) -> Fraction:
    # Near 0 the sides differ from 1 by a part of p only, which costs as many digits as p has zeros.
    with precise(len(str(math.ceil(1 / min(p, 1 - p))))):
        start = Chance(decimal(p), decimal(1 - p))
        pairs = Inequalities(test)
        logit = float(start.hit.ln() - start.miss.ln())
        move = Decimal(LogitSteps(test).step(logit, up=True))
        return Fraction(_backed(pairs, start, _polished(pairs, start, move)).miss)


def _polished(pairs: Inequalities, start: Chance, move: Decimal) -> Decimal:
    """The move of the logit by Newton's method on the larger side, from what floats found."""
    close = Decimal(10) ** (30 - getcontext().prec)
    for _ in range(_NEWTON_STEPS):
        sides = pairs.sides(start, moved(start, move))
        larger = max((sides.rising, sides.rising_slope), (sides.falling, sides.falling_slope))
        step = (larger[0] - 1) / larger[1]
        move -= step
        if abs(step) <= close * abs(move):
            break
    return move


def _backed(pairs: Inequalities, start: Chance, move: Decimal) -> Chance:
    """The chance a margin before this move, certainly allowed."""
    margin = _NEXT_MARGIN
    for _ in range(_NEXT_TRIES):
        reached = moved(start, move * (1 - margin))
        if pairs.allow(start, reached):
            return reached
        margin *= _NEXT_MORE
    raise InvalidParameter("the next chance cannot be told from p at these prices: take a larger price")


def moved(start: Chance, move: Decimal) -> Chance:
    """The chance whose logit is so far from this one's."""
    grown = start.hit * move.exp()
    return Chance(grown / (start.miss + grown), start.miss / (start.miss + grown))
