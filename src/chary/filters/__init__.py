"""The three ways to cost events under a total: pure, Renyi, exact (tokens)."""

from chary.filters.choice import exact_filter_for as exact_filter_for
from chary.filters.choice import largest_call as largest_call
from chary.filters.choice import largest_call_left as largest_call_left
from chary.filters.choice import restore as restore
from chary.filters.exact import ExactFilter as ExactFilter
from chary.filters.exact import Listing as Listing
from chary.filters.filter import Budget as Budget
from chary.filters.filter import Filter as Filter
from chary.filters.filter import Price as Price
from chary.filters.filter import PureFilter as PureFilter
from chary.filters.filter import RenyiFilter as RenyiFilter
