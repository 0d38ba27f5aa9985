"""What an ordinary release costs in tokens that no menu lists, so that the exact curve stays within the budget (ours).

A schedule says the tokens of a release of every size: so many for each unit of its log-moment at one Renyi order. The
releases of all sizes it has are laws of the menu like any other, so the curve of menu and schedule together is the
guarantee, and nothing about the order or the rate needs a proof. Schedules of one order are a chain: the dearer one is
covered by the curve of the cheaper. So it does not matter which of two processors found which of them to fit.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from chary.accounting import MenuCall, Pure, capacity_down
from chary.accounting.numerics import decimal, precise
from chary.numbers import plain

# Eight sizes in every doubling: what is asked is rounded up to one of them, by an eighth at most.
_IN_A_DOUBLING: Final = 8
_ORDERS: Final = 16
# The tokens of a release, in those that the same share of a Renyi budget would be; from the cheapest on.
FACTORS: Final = tuple(Fraction(quarters, 4) for quarters in (4, 5, 6, 7, 8, 10, 12, 16, 24, 36, 56))


@dataclass(frozen=True)
class Unlisted:
    """A schedule: `rate` tokens for each unit of log-moment at `order`, rounded up, of releases of whole grains.

    >>> sold = Unlisted(Fraction(20), Fraction(4))
    >>> [sold.tokens(Fraction(size, 100), Fraction(1, 50), Fraction(1)) for size in (2, 5, 30, 101)]
    [1, 3, 21, None]
    """

    order: Fraction
    rate: Fraction

    def tokens(self, size: Fraction, grain: Fraction, most: Fraction) -> int | None:
        """What a release of this epsilon costs; none of more than `most` is sold."""
        steps = next((steps for steps in _sizes(grain, most) if size <= steps * grain), None)
        return None if steps is None else self._of(steps * grain)

    def calls(self, grain: Fraction, most: Fraction, tokens: int) -> list[MenuCall]:
        """All that can be paid with so many tokens, as a menu."""
        found = []
        for steps in _sizes(grain, most):
            if (cost := self._of(steps * grain)) > tokens:
                break
            found.append(MenuCall(steps, cost, 1.0))
        return found

    def body(self) -> dict[str, Any]:
        """As JSON."""
        return {"order": str(self.order), "rate": str(self.rate)}

    def told(self, grain: Fraction, most: Fraction, tokens: int) -> str:
        """Up to where releases are sold."""
        largest = max((call.steps for call in self.calls(grain, most, tokens)), default=0)
        return f"releases up to epsilon {plain(largest * grain)}"

    def _of(self, size: Fraction) -> int:
        return max(1, math.ceil(self.rate * Pure(size).log_moment_up(self.order)))


def schedules(epsilon: Fraction, delta: Fraction, tokens: int) -> list[Unlisted]:
    """The chain of schedules for a budget of so many tokens, from the cheapest to the dearest.

    All are at the order that affords most zCDP, of a few that are compared in decimals: those come out the same on
    every processor, so what was not stored is worked out again.
    """
    with precise():
        missing = -decimal(delta).ln()
        less = (missing + (missing * (missing + decimal(epsilon))).sqrt()) / decimal(epsilon)
    orders = [1 + Fraction(math.ceil(100 * less * part), 100 * _ORDERS) for part in range(1, _ORDERS + 1)]
    capacities = [(capacity_down(epsilon, delta, order), order) for order in orders]
    _, capacity, order = max((kept / (order * (order - 1)), kept, order) for kept, order in capacities)
    rates = [Fraction(math.ceil(10**6 * factor * tokens / capacity), 10**6) for factor in FACTORS]
    return [Unlisted(order, rate) for rate in rates]


def _sizes(grain: Fraction, most: Fraction) -> Iterator[int]:
    """Numbers of grains, up to as many as `most` has."""
    steps, last = 1, most // grain
    while steps < last:
        yield steps
        steps += max(1, steps // _IN_A_DOUBLING)
    yield last
