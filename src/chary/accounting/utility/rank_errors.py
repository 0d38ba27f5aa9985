"""How far the rank of a private quantile may be off, whatever the data. Its value cannot be promised without data."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from chary.numbers import Number, positive, probability, whole


class RankChoice(NamedTuple):
    """One choice of a tree of quantiles: which one, its level among the values of its part, the depth from 0 on, and
    which choice split that part off (None for the first)."""

    position: int
    relative: Fraction
    depth: int
    parent: int | None


def halvings(
    at: Sequence[Fraction], low: Fraction = Fraction(0), high: Fraction = Fraction(1), first: int = 0
) -> Iterator[RankChoice]:
    """The choices by which quantiles are halved until none is left, each after the one it depends on.

    >>> quarters = halvings([Fraction(k, 4) for k in (1, 2, 3)])
    >>> [(choice.position, str(choice.relative), choice.depth) for choice in quarters]
    [(1, '1/2', 0), (0, '1/2', 1), (2, '1/2', 1)]
    """
    if not at:
        return
    middle = len(at) // 2
    cut = at[middle]
    yield RankChoice(first + middle, (cut - low) / (high - low), 0, None)
    for part, left, right, start in ((at[:middle], low, cut, first), (at[middle + 1 :], cut, high, first + middle + 1)):
        for choice in halvings(part, left, right, start):
            parent = first + middle if choice.parent is None else choice.parent
            yield choice._replace(depth=choice.depth + 1, parent=parent)


def rank_error_up(*, epsilon: Number, points: int, beta: Number, change: Number = 1) -> int:
    """By how many values the rank of one quantile on a grid of `points` places is off at most, but for a chance beta.

    If t comes out for q, then `b - qn` and `a - (1-q)n` are at most this, for the numbers b below and a above it.
    `change` is how much one unit moves a rank: 1 under replace, `max(q, 1-q)` under add/remove, times the values of a
    unit. `change * floor((2/epsilon) ln(points/beta))`, rounded up, by the law itself (theory section 2).

    >>> rank_error_up(epsilon="0.1", points=121, beta="0.05", change="0.5")
    78
    """
    return math.ceil(rank_excess_up(epsilon=epsilon, points=points, beta=beta, change=change))


def rank_excess_up(*, epsilon: Number, points: int, beta: Number, change: Number) -> Fraction:
    """The same before it is rounded: ranks are excessive by fractions of a value where qn is no whole number."""
    odds = whole(points, "points") / probability(beta, "beta")
    distance = math.floor(2 * math.log(odds) / positive(epsilon, "epsilon") + 1e-9)
    return positive(change, "change") * distance


def rank_errors_up(
    *, epsilon: Number, at: Sequence[Number], points: int, beta: Number, replace: bool, moves: int = 1
) -> list[int]:
    """The same for several quantiles at once: all hold together, but for a chance beta.

    The errors of the choices that lead to a quantile add up. `points` is the grid that is chosen from, the dithered one
    where there are several quantiles of units with one value each; values at one of its places count as one.

    >>> rank_errors_up(epsilon=1, at=["0.25", "0.5", "0.75"], points=2**20, beta="0.05", replace=False)
    [72, 36, 72]
    """
    quantiles = [probability(q, "a quantile") for q in at]
    each, eps = probability(beta, "beta") / len(quantiles), positive(epsilon, "epsilon")
    if moves > 1:
        return [_error(eps / len(quantiles), points, each, q, replace, moves) for q in quantiles]
    rounds, found = len(quantiles).bit_length(), [0] * len(quantiles)
    for choice in halvings(quantiles):
        share = eps / rounds / (2 if replace and choice.depth else 1)
        own = _error(share, points, each, choice.relative, replace and not choice.depth, 1)
        found[choice.position] = own + (0 if choice.parent is None else found[choice.parent])
    return found


def _error(epsilon: Fraction, points: int, beta: Fraction, q: Fraction, replace: bool, moves: int) -> int:
    change = moves * (Fraction(1) if replace else max(q, 1 - q))
    return rank_error_up(epsilon=epsilon, points=points, beta=beta, change=change)
