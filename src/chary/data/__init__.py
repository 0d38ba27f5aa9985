"""Queries, the predicate language, public domains, and tables: the only place that touches rows."""

from chary.data.axes import Bins
from chary.data.ballots import Ballots, Poll
from chary.data.binned import Binned, Interval, histogram
from chary.data.columns import TypeClass
from chary.data.contribution import Contribution
from chary.data.count import Count, count
from chary.data.domain import Domain
from chary.data.mean import Mean, RowCount, mean
from chary.data.neighbouring import Neighbouring, Relation
from chary.data.plan import EnginePlan
from chary.data.predicate import Predicate
from chary.data.quantile import Occurring, Ordered, ordered
from chary.data.query import Query
from chary.data.ranges import parse_keys
from chary.data.rows import Answer, Plan, Reading, Rows
from chary.data.series import Series, Values
from chary.data.size import has_public_size, public_size
from chary.data.table import Table
from chary.data.total import Total, total
from chary.data.universe import Universe

__all__ = [
    "Answer",
    "Ballots",
    "Binned",
    "Bins",
    "Contribution",
    "Count",
    "Domain",
    "EnginePlan",
    "Interval",
    "Mean",
    "Neighbouring",
    "Occurring",
    "Ordered",
    "Plan",
    "Poll",
    "Predicate",
    "Query",
    "Reading",
    "Relation",
    "RowCount",
    "Rows",
    "Series",
    "Table",
    "Total",
    "TypeClass",
    "Universe",
    "Values",
    "count",
    "has_public_size",
    "histogram",
    "mean",
    "ordered",
    "parse_keys",
    "public_size",
    "total",
]
