"""The three ways to cost events under a total: pure, Renyi, exact (tokens)."""

from chary.filters.choice import exact_filter_for, largest_call, largest_call_left, restore
from chary.filters.exact import ExactFilter, Listing
from chary.filters.filter import Budget, Filter, Price, PureFilter, RenyiFilter

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
