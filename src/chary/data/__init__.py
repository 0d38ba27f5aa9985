"""Queries, the predicate language, public domains, and tables: the only place that touches rows."""

from chary.data.blocks import Blocks
from chary.data.csv_reader import CSVFormat
from chary.data.neighbors import NeighborRelation, Neighbors
from chary.data.predicates.predicate import Predicate
from chary.data.queries.histogram import Binned, histogram
from chary.data.queries.keys import parse_keys
from chary.data.queries.moments import Mean, SecondMoments, mean, second_moments
from chary.data.queries.ordered import OfUnit, Ordered, UnitValues, ordered
from chary.data.queries.query import Query
from chary.data.queries.statistic import Statistic, statistic
from chary.data.queries.sums import Count, Sum, count, sum
from chary.data.rows import Batch, EntryLimit, Reading, Rows
from chary.data.series import Series, ValueAt, Values, has_public_size, public_size
from chary.data.table import Check, RowTable, check, read_one_version
from chary.data.universe.axes import Bins, Universe
from chary.data.universe.linear import Linear, average, weighted
from chary.data.votes import Poll, Votes

__all__ = [
    "Batch",
    "Binned",
    "Bins",
    "Blocks",
    "CSVFormat",
    "Check",
    "Count",
    "EntryLimit",
    "Linear",
    "Mean",
    "NeighborRelation",
    "Neighbors",
    "OfUnit",
    "Ordered",
    "Poll",
    "Predicate",
    "Query",
    "Reading",
    "RowTable",
    "Rows",
    "SecondMoments",
    "Series",
    "Statistic",
    "Sum",
    "UnitValues",
    "Universe",
    "ValueAt",
    "Values",
    "Votes",
    "average",
    "check",
    "count",
    "has_public_size",
    "histogram",
    "mean",
    "ordered",
    "parse_keys",
    "public_size",
    "read_one_version",
    "second_moments",
    "statistic",
    "sum",
    "weighted",
]
