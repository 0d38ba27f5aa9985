"""Chances of a hit one sensitivity apart, as exact multiples of 2^-192, every neighbouring pair verified."""

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

from chary.accounting.exponentials import precise
from chary.accounting.sharp.allowed_pairs import Chance, Inequalities
from chary.accounting.sharp.logit_steps import LogitSteps, log_chances
from chary.accounting.sharp.sharp_event import SharpTest, least_price
from chary.errors import InvalidParameter
from chary.numbers import plain

# Chances end at 2^-100 from 0 and 1, where 92 of the bits are left: no number of tests tells that from 0.
BITS: Final = 192
ONE: Final = 1 << BITS
EDGE_BITS: Final = 100
_EDGE: Final = ONE >> EDGE_BITS
_EDGE_LOGIT: Final = EDGE_BITS * math.log(2)
# Below this, growth by one factor (allowed_pairs) is within a part in 10^4 of the fastest where misses are free.
_TAIL: Final = ONE >> 12
# Floats are off by some 1e-15; this margin costs a test of 1,000 steps less than one part in 10^9 of its slope.
_MARGIN, _MORE, _TRIES = 1e-13, 16, 8
# Sides that differ from 1 by more than 10^-24 need 42 digits, which halve the time of 60. A miss price below 10^-9 has
# to be told from rounding at chances of 2^-100, and takes 80.
_FEWER_DIGITS, _MORE_DIGITS, _TINY = -18, 20, Fraction(1, 10**9)
# A second or two and 10^5 numbers; slower tests are right only tens of thousands of sensitivities from their bar.
LEAST_SPEED: Final = Fraction(1, 2000)


@lru_cache(maxsize=64)
def chance_chain(test: SharpTest) -> tuple[tuple[int, ...], int]:
    """The chances `f(j) 2^192` for whole sensitivities j, and the place of j = 0, where f is 1/2.

    Guarantee: each pair of neighbours satisfies both inequalities of the test, and they rise. Beyond the ends, within
    2^-100 of 0 and 1, chances stay as they are. A price too small for a table raises `InvalidParameter`, with the least
    that works.
    """
    check_price(test)
    with precise(_MORE_DIGITS if 0 < Fraction(test.miss_price) < _TINY else _FEWER_DIGITS):
        walk = _Walk(test)
        below = [*walk.chances(up=False)]
        above = [*walk.chances(up=True)]
    below += tail(below)
    return (*reversed(below), ONE >> 1, *above), len(below)


def check_price(test: SharpTest) -> None:
    """Refuse a price too small for a table."""
    order = Fraction(test.order)
    least = least_price(order, LEAST_SPEED)
    if Fraction(test.price) < least:
        raise InvalidParameter(
            f"a table of a test at order {plain(order)} needs a price of at least {plain(least * Fraction(1001, 1000))}"
        )


class _Walk:
    """Steps from 1/2 to either end; each is found in floats, drawn back a little and verified in decimals."""

    def __init__(self, test: SharpTest) -> None:
        self._pairs = Inequalities(test)
        self._steps = LogitSteps(test)
        self._last = -_EDGE_LOGIT if test.miss_price else -math.log(ONE / _TAIL)

    def chances(self, *, up: bool) -> Iterator[int]:
        """The chances after 1/2, until the end."""
        logit, value, guess = 0.0, ONE >> 1, None
        while self._last < logit < _EDGE_LOGIT:
            guess = self._steps.step(logit, up=up, guess=guess)
            value = self._verified(value, logit, guess if up else -guess)
            logit = math.log(value / (ONE - value))
            yield value

    def _verified(self, value: int, logit: float, move: float) -> int:
        here, margin = chance(value), _MARGIN
        for _ in range(_TRIES):
            found = _nearest(logit + move * (1 - margin))
            rises = value < found if move > 0 else found < value
            if rises and self._pairs.allow(here, chance(found)):
                return found
            margin *= _MORE
        raise InvalidParameter("chances of neighbours cannot be told apart at these prices: take a larger price")


def chance(value: int) -> Chance:
    """A multiple of 2^-192 as decimals, which hold all of its digits; call inside `precise`.

    >>> with precise():
    ...     chance(ONE // 4)
    Chance(hit=Decimal('0.25'), miss=Decimal('0.75'))
    """
    return Chance(Decimal(value) / ONE, Decimal(ONE - value) / ONE)


def _nearest(logit: float) -> int:
    """The multiple of 2^-192 for a logit, no closer to 0 or 1 than half of 2^-100; the rarer side is precise."""
    hit, miss = log_chances(max(-_EDGE_LOGIT - 0.5, min(_EDGE_LOGIT + 0.5, logit)))
    return int(math.exp(hit) * float(ONE)) if hit < miss else ONE - int(math.exp(miss) * float(ONE))


def tail(below: list[int]) -> list[int]:
    """Chances that fall by one factor from the last two, rounded up: allowed by the third point of `allowed_pairs`.

    Rounding up brings two neighbours nearer to each other than the factor.
    """
    least, above = below[-1], below[-2] if len(below) > 1 else ONE >> 1
    found, value = [], least
    while value > _EDGE:
        value = -(-value * least // above)
        found.append(value)
    return found
