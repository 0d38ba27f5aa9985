"""The interval of a mean, a ratio of two noisy numbers that both have intervals."""

from fractions import Fraction

from chary.accounting.rounding import float_down, float_up
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, positive

Ends = tuple[int | None, int | None]


def mean_interval(
    sums: Ends, counts: Ends, *, center: Number, bounds: tuple[Number, Number], grid: Number = 1
) -> tuple[float, float]:
    """Every mean that a sum of differences to the center and a count in their intervals can have, rounded outwards.

    The mean is `center + grid * sum / count`, clipped to `bounds`. Intervals are in whole steps, ends included, None
    for no end. A count is taken for 1 at least, since there is no mean of no values; where no count of 1 or more is
    left, the answer is the bounds.

    Guarantee: if both cover with probability 1 - beta together (each with 1 - beta/2, say), this covers the mean of the
    clipped values with 1 - beta (theory 9.6).

    Errors: `InvalidParameter` for an interval whose ends are the wrong way round.

    >>> stay = {"center": 15, "bounds": (0, 30)}
    >>> mean_interval((-520, -480), (90, 110), **stay), mean_interval((-520, None), (-20, 20), **stay)
    ((9.2222..., 10.6363...), (0.0, 30.0))
    """
    low, high = (exact(end, "bounds") for end in bounds)
    for first, last in (sums, counts, (low, high)):
        if first is not None and last is not None and first > last:
            raise InvalidParameter("the ends of an interval must be in rising order")
    least, most = max(1, counts[0] or 1), counts[1]
    if most is not None and most < 1:
        return float_down(low), float_up(high)
    middle, step = exact(center, "center"), positive(grid, "grid")
    down, up = _quotient(sums[0], least, most, -1), _quotient(sums[1], least, most, 1)
    ends = (low if down is None else middle + step * down, high if up is None else middle + step * up)
    first, last = (min(max(end, low), high) for end in ends)
    # Adding 0.0 makes of the -0.0 that rounding downwards gives a 0.0.
    return float_down(first) + 0.0, float_up(last)


def mean_between(
    above: tuple[int, int], below: tuple[int, int], *, bounds: tuple[Number, Number]
) -> tuple[float, float]:
    """Every mean of values whose distances from the lower bound sum up to a number in `above`, and those from the upper
    bound to one in `below`, rounded outwards.

    With sums A and B the mean is `low + (high - low) A/(A + B)`, which rises with A and falls with B. Sums of distances
    are not negative: where all of an interval is, it does not cover, so nothing is known, and where neither sum can be
    positive, there are no values. In both cases the answer is the bounds.

    Guarantee: if both cover with probability 1 - beta together, so does this cover the mean of the clipped values.

    Errors: `InvalidParameter` for an interval whose ends are the wrong way round.

    >>> mean_between((480, 520), (960, 1040), bounds=(0, 30))
    (9.4736..., 10.5405...)
    """
    low, high = (exact(end, "bounds") for end in bounds)
    for first, last in (above, below, (low, high)):
        if first > last:
            raise InvalidParameter("the ends of an interval must be in rising order")
    (least, most), (fewest, largest) = ((max(0, first), last) for first, last in (above, below))
    if most < 0 or largest < 0 or not (most or largest):
        return float_down(low) + 0.0, float_up(high)
    down = Fraction(least, least + largest) if least else Fraction(0)
    up = Fraction(most, most + fewest) if fewest else Fraction(1)
    return float_down(low + (high - low) * down) + 0.0, float_up(low + (high - low) * up)


def _quotient(total: int | None, least: int, most: int | None, sign: int) -> Fraction | None:
    """The smallest (sign -1) or largest quotient of this sum by a count from least to most; None for no end."""
    if total is None:
        return None
    if total * sign >= 0:
        return Fraction(total, least)
    return Fraction(0) if most is None else Fraction(total, most)
