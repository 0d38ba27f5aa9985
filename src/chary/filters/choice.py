"""The largest call of which a number of hits fits a budget, the filter for it, and filters restored from a ledger."""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from chary.accounting import MenuCall, Targeted, four_digits_down, plan
from chary.accounting.numerics import largest
from chary.amounts import MAIN_STEPS, Accounts
from chary.errors import InvalidParameter, LedgerMismatch
from chary.filters.exact import LATTICE_TOKENS, ExactFilter, Unlisted, listing
from chary.filters.filter import Budget, Filter, PureFilter, RenyiFilter
from chary.numbers import plain, whole

# Each try works out a curve: two thousandths of the grain are not worth another.
_CLOSE: Final = Fraction(1002, 1000)
# Every mechanism that is compared asks for the same call.
_KEPT: Final = 64


@lru_cache(maxsize=_KEPT, typed=True)
def largest_call(budget: Budget, hits: int, kind: str) -> Fraction:
    """The largest epsilon per call (four digits, rounded down) with which a new budget pays for this many hits.

    For "exact" nothing but these calls is on the menu; `exact_filter_for` is for a session, which lists more.

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


def largest_call_left(filter_: Filter, left: Accounts, hits: int) -> Fraction:
    """The largest epsilon per call (four digits, rounded down) with which what is left pays for this many hits; for
    this many calls, once misses are charged as well."""

    def fits(size: Fraction) -> bool:
        price = filter_.price(Targeted(size))
        worth_it = left.alone or price.free_miss or filter_.kind == "pure"
        return worth_it and (price.hits_left(left, price.basic) or 0) >= whole(hits, "hits")

    return _largest(filter_.budget.exact[0], fits)


def exact_filter_for(budget: Budget, hits: int) -> ExactFilter:
    """The exact filter of the largest grain (to a thousandth) under which a session, whose menu also lists revisions
    and releases, pays for this many hits of one grain.

    >>> filter_ = exact_filter_for(Budget(epsilon=1, delta=1e-6), 20)
    >>> filter_.tokens, filter_.grain < largest_call(filter_.budget, 20, "exact")
    (20, True)
    """
    if whole(hits, "hits") > LATTICE_TOKENS:
        raise InvalidParameter(f"the menu of an exact filter is worked out up to {LATTICE_TOKENS} tokens")
    high = largest_call(budget, hits, "exact")
    low = high
    while (found := ExactFilter.with_revisions(budget, low)).tokens < hits:
        low, high = four_digits_down(low * (1 - Fraction(hits - found.tokens, 3 * hits))), low
    while found.tokens > hits and high > low * _CLOSE:
        middle = four_digits_down((low + high) / 2)
        other = ExactFilter.with_revisions(budget, middle)
        low, high, found = (middle, high, other) if other.tokens >= hits else (low, middle, found)
    return found


def _affords(budget: Budget, size: Fraction, hits: int) -> bool:
    try:
        filter_ = RenyiFilter.best(budget, grain=size)
    except InvalidParameter:
        return False
    price = filter_.price(Targeted(size))
    return price.free_miss and (price.hit.copies_in(filter_.capacity) or 0) >= hits


def _largest(bound: Fraction, fits: Callable[[Fraction], bool]) -> Fraction:
    """Bisect below the bound to one part in a thousand; what does not fit even at a millionth of it is refused."""
    # What is looked for is nearer to the bound than that: where a millionth does not fit, nothing sensible does.
    low, high = bound / 10**6, bound
    if not fits(low):
        raise InvalidParameter(f"these hits do not fit: even calls of epsilon {plain(low)} would be too many")

    def middle(low: Fraction, high: Fraction) -> Fraction:
        return (low + high) / 2 if high <= 2 * low else low * 2

    return four_digits_down(largest(fits, low, high, middle=middle, ratio=Fraction(1001, 1000)))


def restore(budget: Budget, body: dict[str, Any]) -> Filter:
    """The filter whose `body()` was stored in a ledger.

    >>> restore(Budget(epsilon=1), PureFilter(Budget(epsilon=1)).body())
    PureFilter(budget=Budget(epsilon=Fraction(1, 1), delta=Fraction(0, 1)), delta_reserve=Fraction(0, 1))
    """
    if body["kind"] == "pure":
        return PureFilter(budget, Fraction(body["approximate_delta"]), body.get("steps", MAIN_STEPS))
    if body["kind"] == "renyi":
        sizes = Fraction(body["order"]), Fraction(body["approximate_delta"])
        return RenyiFilter(budget, *sizes, body.get("steps", MAIN_STEPS))
    if body["kind"] == "exact":
        menu = tuple(listing(call) if isinstance(call, dict) else MenuCall(*call) for call in body["menu"])
        apart = Fraction(body.get("approximate_delta", 0))
        sold = {name: Fraction(value) for name, value in body.get("unlisted", {}).items()}
        kept = Unlisted(**sold) if sold else None
        return ExactFilter(budget, Fraction(body["grain"]), menu, body["tokens"], apart, kept)
    raise LedgerMismatch("the ledger was charged by a filter that this version does not know")
