"""The three ways to price events under a total: pure, Renyi, exact (tokens)."""

from fractions import Fraction
from typing import Any

from chary.accounting import MenuCall
from chary.amounts import MAIN_STEPS
from chary.errors import LedgerMismatch
from chary.filters.base import Budget, Filter, Price
from chary.filters.exact import ExactFilter
from chary.filters.listing import Listing, listing
from chary.filters.pure import PureFilter
from chary.filters.renyi import RenyiFilter
from chary.filters.sizing import exact_filter_for, largest_call, largest_call_left
from chary.filters.unlisted import Unlisted

__all__ = [
    "Budget",
    "ExactFilter",
    "Filter",
    "Listing",
    "Price",
    "PureFilter",
    "RenyiFilter",
    "exact_filter_for",
    "largest_call",
    "largest_call_left",
    "restore",
]


def restore(budget: Budget, body: dict[str, Any]) -> Filter:
    """The filter whose `body()` was stored in a ledger.

    >>> restore(Budget(epsilon=1), PureFilter(Budget(epsilon=1)).body())
    PureFilter(budget=Budget(epsilon=Fraction(1, 1), delta=Fraction(0, 1)), approximate_delta=Fraction(0, 1))
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
    raise LedgerMismatch("the ledger was priced by a filter this version does not know")
