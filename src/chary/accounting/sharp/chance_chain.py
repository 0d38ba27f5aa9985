"""Chances of a hit a few sensitivities apart, as exact multiples of 2^-192, every neighbouring pair verified."""

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
# A margin that was needed serves the next steps at once, while it costs less than can be seen.
_LARGEST_FIRST: Final = 1e-8
# Steps of many sensitivities settle quickly where chances change by a part in 1,000, but not where they fall by powers.
_STRETCHED_MARGIN, _SETTLING, _SETTLED, _HALVINGS = 1e-10, 3, 1e-3, 12
# Sides that differ from 1 by more than 10^-24 need 42 digits, which halve the time of 60. A miss price below 10^-9 has
# to be told from rounding at chances of 2^-100, and takes 80.
_FEWER_DIGITS, _MORE_DIGITS, _TINY = -18, 20, Fraction(1, 10**9)
# Below this speed floats do not find a next chance to the digits that are verified.
LEAST_SPEED: Final = Fraction(1, 10**5)
# Slower chains take several sensitivities at a step, as many as make it so fast: half a second and 10^5 numbers.
LEAST_EVEN_SPEED: Final = Fraction(1, 1000)
_STRETCHED_TO: Final = Fraction(1, 500)
# Where misses cost far less than hits no factor does for small chances, so thousands more are verified: fewer by this.
_FAR_LESS, _FASTER = Fraction(1, 1000), 3
# From this price on a test climbs no faster in its middle.
_SATURATED: Final = Fraction(1)


@lru_cache(maxsize=64)
def chance_chain(test: SharpTest) -> tuple[tuple[int, ...], int]:
    """The chances `f(j) 2^192` for each j of `stretch(test)` sensitivities, and the place of j = 0, where f is 1/2.

    Guarantee: they rise, and if chances between them are mixed in proportion, each pair one sensitivity apart satisfies
    both inequalities of the test. Beyond the ends, within 2^-100 of 0 and 1, chances stay as they are. A price too
    small for a table raises `InvalidParameter`, with the least that works.
    """
    check_price(test)
    with precise(_MORE_DIGITS if 0 < Fraction(test.miss_price) < _TINY else _FEWER_DIGITS):
        walk = _Walk(test)
        below = [*walk.chances(up=False)]
        above = [*walk.chances(up=True)]
    below += tail(below)
    return (*reversed(below), ONE >> 1, *above), len(below)


def check_price(test: SharpTest, speed: Fraction = LEAST_SPEED) -> None:
    """Refuse a price too small for a table of this speed."""
    order = Fraction(test.order)
    least = least_price(order, speed)
    if Fraction(test.price) < least:
        raise InvalidParameter(
            f"a table of a test at order {plain(order)} needs a price of at least {plain(least * Fraction(1001, 1000))}"
        )


def stretch(test: SharpTest) -> int:
    """How many sensitivities one step of the test's chain is long: 1 but for very small prices.

    >>> stretch(SharpTest(18, "0.19295")), stretch(SharpTest(18, "0.0000003"))
    (1, 64)
    """
    order, price = Fraction(test.order), min(Fraction(test.price), _SATURATED)
    faster = _FASTER if 0 < Fraction(test.miss_price) < _FAR_LESS * Fraction(test.price) else 1
    if price >= least_price(order, LEAST_EVEN_SPEED * faster):
        return 1
    return math.ceil(_STRETCHED_TO * faster * Fraction(math.sqrt(order * (order - 1) / price)))


class _Walk:
    """Steps from 1/2 to either end; each is found in floats, drawn back a little and verified in decimals.

    A step of several sensitivities is divided evenly. Allowed pairs are a convex set, so all its pairs of neighbours
    are allowed if the first and the last are.
    """

    def __init__(self, test: SharpTest) -> None:
        self._pairs = Inequalities(test)
        self._steps = LogitSteps(test)
        self._stretch = stretch(test)
        self._margin = _MARGIN if self._stretch == 1 else _STRETCHED_MARGIN
        self._last = -_EDGE_LOGIT if test.miss_price else -math.log(ONE / _TAIL)

    def chances(self, *, up: bool) -> Iterator[int]:
        """The chances after 1/2, until the end."""
        logit, value, guess = 0.0, ONE >> 1, None
        while self._last < logit < _EDGE_LOGIT:
            guess = self._steps.step(logit, up=up, guess=guess)
            move = guess if up else -guess
            value = self._verified(value, logit, move if self._stretch == 1 else self._stretched(logit, move))
            logit = math.log(value / (ONE - value))
            yield value

    def _stretched(self, logit: float, move: float) -> float:
        """How far the logit moves in one step: as many times the shorter of the first and the last sensitivity's."""
        first, before, reached = _gap(logit, logit + move), move, move
        last, final = first, abs(move)
        rest = math.exp(log_chances(logit)[1 if move > 0 else 0])
        for _ in range(_SETTLING):
            change = self._stretch * min(first, last)
            if change >= rest:
                return self._ending(logit, move, final)
            before, reached = reached, _moved(logit, math.copysign(change, move)) - logit
            last, final = self._final(logit + reached, move, final)
        return reached if abs(reached - before) <= _SETTLED * abs(reached) else self._ending(logit, move, final)

    def _ending(self, logit: float, move: float, final: float) -> float:
        """The same near an end, where the last is far shorter: by halving, from one sensitivity's up."""
        first, low, high = _gap(logit, logit + move), move, move * self._stretch
        for _ in range(_HALVINGS):
            middle = math.copysign(math.sqrt(low * high), move)
            last, final = self._final(logit + middle, move, final)
            fits = _gap(logit, logit + middle) <= self._stretch * min(first, last)
            low, high = (middle, high) if fits else (low, middle)
        return low

    def _final(self, end: float, move: float, guess: float) -> tuple[float, float]:
        """How far apart the last sensitivity of a step may be in chance, and in logits, to begin the next from."""
        back = self._steps.step(end, up=move < 0, guess=guess)
        return _gap(end - math.copysign(back, move), end), back

    def _verified(self, value: int, logit: float, move: float) -> int:
        margin = self._margin
        for _ in range(_TRIES):
            found = _nearest(logit + move * (1 - margin))
            found = value + (found - value) // self._stretch * self._stretch
            rises = value < found if move > 0 else found < value
            if rises and self._allowed(min(value, found), max(value, found)):
                self._margin = min(margin, _LARGEST_FIRST)
                return found
            margin *= _MORE
        raise InvalidParameter("chances of neighbours cannot be told apart at these prices: take a larger price")

    def _allowed(self, low: int, high: int) -> bool:
        part = (high - low) // self._stretch
        return self._pairs.allow(chance(low), chance(low + part)) and (
            self._stretch == 1 or self._pairs.allow(chance(high - part), chance(high))
        )


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


def _gap(logit: float, other: float) -> float:
    """How far apart two chances are, from the rarer outcome's logarithms."""
    (hit, miss), (other_hit, other_miss) = log_chances(logit), log_chances(other)
    if hit < miss:
        return abs(math.exp(hit) * math.expm1(other_hit - hit))
    return abs(math.exp(miss) * math.expm1(other_miss - miss))


def _moved(logit: float, change: float) -> float:
    """The logit of a chance that is so much larger."""
    hit, miss = (math.exp(log) for log in log_chances(logit))
    return math.log((hit + change) / (miss - change))


def tail(below: list[int]) -> list[int]:
    """Chances that fall by one factor from the last two, rounded up: allowed by the third point of `allowed_pairs`.

    Rounding up brings two neighbours nearer to each other than the factor, also within a step that is divided evenly.
    """
    least, above = below[-1], below[-2] if len(below) > 1 else ONE >> 1
    found, value = [], least
    while value > _EDGE:
        value = -(-value * least // above)
        found.append(value)
    return found
