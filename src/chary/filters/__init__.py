"""The three ways to price events under a total: pure, Renyi, exact (tokens)."""

from chary.filters.base import Budget, Filter, Price
from chary.filters.exact import ExactFilter
from chary.filters.listing import Listing
from chary.filters.pure import PureFilter
from chary.filters.renyi import RenyiFilter
from chary.filters.sizing import exact_filter_for, largest_call, largest_call_left, restore

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
