"""How large a call may be so that a number of hits fits."""

from collections.abc import Callable
from fractions import Fraction

from chary.accounting import Targeted, four_digits_down, plan
from chary.amounts import Amount
from chary.errors import InvalidParameter
from chary.filters.base import Budget, Filter
from chary.filters.renyi import RenyiFilter
from chary.numbers import plain, whole


def largest_call(budget: Budget, hits: int, kind: str) -> Fraction:
    """The largest epsilon per call (four digits, rounded down) with which a new budget pays for this many hits.

    >>> largest_call(Budget(epsilon=1, delta=1e-6), 50, "exact")
    Fraction(1929, 100000)
    """
    epsilon, delta = budget.exact
    if kind == "pure":
        return epsilon / whole(hits, "hits")
    bound = four_digits_down(Fraction(plan(epsilon=epsilon, delta=delta, hits=hits).epsilon_per_call))
    if kind == "exact":
        return bound
    return _largest(bound, lambda size: _affords(budget, size, hits))


def largest_call_left(filter_: Filter, left: Amount, hits: int) -> Fraction:
    """The largest epsilon per call (four digits, rounded down) with which what is left pays for this many hits."""

    def fits(size: Fraction) -> bool:
        price = filter_.price(Targeted(size))
        worth_it = price.free_miss or filter_.kind == "pure"
        return worth_it and (price.hit.copies_in(left) or 0) >= whole(hits, "hits")

    return _largest(filter_.budget.exact[0], fits)


def _affords(budget: Budget, size: Fraction, hits: int) -> bool:
    try:
        filter_ = RenyiFilter.best(budget, grain=size)
    except InvalidParameter:
        return False
    price = filter_.price(Targeted(size))
    return price.free_miss and (price.hit.copies_in(filter_.capacity) or 0) >= hits


def _largest(bound: Fraction, fits: Callable[[Fraction], bool]) -> Fraction:
    """Bisect below the bound to one part in a thousand; what does not fit even at a millionth of it is refused."""
    low, high = bound / 10**6, bound
    if not fits(low):
        raise InvalidParameter(f"so many hits do not fit: even calls of epsilon {plain(low)} would be too many")
    while high > low * Fraction(1001, 1000):
        middle = (low + high) / 2 if high <= 2 * low else low * 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return four_digits_down(low)
