"""Queries, the predicate language, public domains, and tables: the only place that touches rows."""

from chary.data.checking import Check, check
from chary.data.domain.axes import Bins
from chary.data.domain.key_ranges import parse_keys
from chary.data.domain.keys import Domain
from chary.data.domain.linear import Linear, average, weighted
from chary.data.domain.universe import Universe
from chary.data.files.dialect import CSV
from chary.data.neighbouring import Neighbouring, Relation
from chary.data.predicates.predicate import Predicate
from chary.data.queries.binned import Bin, Binned, histogram
from chary.data.queries.count import Count, count
from chary.data.queries.mean import Mean, RowCount, mean
from chary.data.queries.ordered_values import OfUnit, Ordered, UnitValues, ordered
from chary.data.queries.query import Query
from chary.data.queries.second_moments import SecondMoments, second_moments
from chary.data.queries.total import Total, total
from chary.data.rows.ballots import Ballots, Poll
from chary.data.rows.batch import Batch
from chary.data.rows.entry_limit import EntryLimit
from chary.data.rows.one_version import read_one_version
from chary.data.rows.rows import Reading, Rows
from chary.data.rows.series import Series
from chary.data.rows.series_values import ValueAt, Values
from chary.data.rows.table import RowTable
from chary.data.size import has_public_size, public_size

__all__ = [
    "CSV",
    "Ballots",
    "Batch",
    "Bin",
    "Binned",
    "Bins",
    "Check",
    "Count",
    "Domain",
    "EntryLimit",
    "Linear",
    "Mean",
    "Neighbouring",
    "OfUnit",
    "Ordered",
    "Poll",
    "Predicate",
    "Query",
    "Reading",
    "Relation",
    "RowCount",
    "RowTable",
    "Rows",
    "SecondMoments",
    "Series",
    "Total",
    "UnitValues",
    "Universe",
    "ValueAt",
    "Values",
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
    "total",
    "weighted",
]
