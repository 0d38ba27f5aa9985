"""Where a falling bound passes its target: whole numbers found by secants, settled by the bound itself."""

import math
from collections.abc import Callable

# A halving at every third step bounds their number by three times a bisection's. Floats tell whole numbers apart up to
# 9e15 only, so from 1e13 on ends are near enough when they are a part in 1e13 apart.
_THIRDS = 3
_CLOSE = 10**13


def first_within(bound: Callable[[int], float], target: float, low: int, high: int) -> tuple[int, int]:
    """Whole numbers (low, high) next to each other with `bound(low) > target >= bound(high)`, which holds at the start.

    Beyond 1e13 they may be further apart, by a part in 1e13. Logarithms of bounds are nearly straight, so secants take
    a few steps; every third one halves, which bounds their number whatever the bound does.

    >>> first_within(lambda k: 2.0**-k, 1e-6, 0, 1000)
    (19, 20)
    """
    above, below = _excess(bound(low), target), _excess(bound(high), target)
    turn = 0
    while high - low > max(1, high // _CLOSE):
        turn += 1
        middle = _between(low, high, 0.5 if turn % _THIRDS == 0 else above / (above - below))
        found = _excess(bound(middle), target)
        # The end that stays counts for half (Illinois), so that the next secant tends to fall beyond the root.
        if found > 0:
            low, above, below = middle, found, below / 2
        else:
            high, below, above = middle, found, above / 2
    return low, high


def _excess(value: float, target: float) -> float:
    return math.log(value) - math.log(target) if value > 0 else -math.inf


def _between(low: int, high: int, share: float) -> int:
    """Strictly between both ends, at this share of the way; half way where there is none (an infinite excess)."""
    part = share if 0 < share < 1 else 0.5
    return min(max(low + int((high - low) * part), low + 1), high - 1)
