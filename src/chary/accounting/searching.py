"""Where a falling bound passes its target: whole numbers found by secants, settled by the bound itself."""

import math
from collections.abc import Callable
from functools import lru_cache

# A halving at every third step bounds their number by three times a bisection's. Floats tell whole numbers apart up to
# 9e15 only, so from 1e13 on ends are near enough when they are a part in 1e13 apart.
_THIRDS = 3
_CLOSE = 10**13
# Sizes are looked for in steps of a thousandth, then among the whole numbers between two steps.
_PART = 1e-3


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


def least_size(bound: Callable[[int], float], target: float, low: int = 1, most: int = 2**200) -> int | None:
    """The least whole number from `low` on at which a falling bound is at most the target; None if not up to `most`.

    Beyond 1e13 it may be a part in 1e13 too large.

    >>> least_size(lambda n: 100 / n, 0.3), least_size(lambda n: 2 + 1 / n, 1)
    (334, None)
    """
    bound = lru_cache(maxsize=None)(bound)
    top = math.ceil(math.log(most / low) / math.log1p(_PART))

    def at(steps: int) -> int:
        return math.floor(low * (1 + _PART) ** steps)

    if bound(low) <= target:
        return low
    if bound(at(top)) > target:
        return None
    # Logarithms of most bounds are straight in that of the size, so the first search takes few steps, and the second.
    below, above = first_within(lambda steps: bound(at(steps)), target, 0, top)
    return first_within(bound, target, at(below), at(above))[1]


def most_kept(bound: Callable[[int], float], target: float, low: int = 1, most: int = 10**18) -> int | None:
    """A number at which a rising bound is at most the target, though no longer at one a thousandth larger.

    Exact below a thousand; `most` where it is kept until there, None where it is not even at `low`.

    >>> most_kept(lambda n: n**0.5, 20), most_kept(lambda n: n, 0.5), most_kept(lambda n: 0, 1)
    (400, None, 1000000000000000000)
    """
    if bound(low) > target:
        return None
    if bound(most) <= target:
        return most
    high = most
    while high - low > max(1, low // 1000):
        middle = max(math.isqrt(low * high), low + 1) if high > 2 * low else (low + high) // 2
        low, high = (middle, high) if bound(middle) <= target else (low, middle)
    return low
