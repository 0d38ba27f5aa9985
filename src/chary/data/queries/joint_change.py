"""How far one unit can change several unlike queries at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.data.columns import Schema
from chary.data.neighbouring import Neighbouring, Relation
from chary.data.predicates.predicate import Predicate
from chary.data.predicates.row_kinds import row_kinds
from chary.data.queries.binned import Binned
from chary.data.queries.count import Count
from chary.data.queries.query import Query
from chary.data.queries.total import Total
from chary.errors import InvalidQuery

# All pairs of so many kinds of rows are a million.
MOST_PAIRED: Final = 1000
# Quotients are counted in so many parts, rounded up; halves and quarters are exact.
_PARTS: Final = 2**20
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class JointChange:
    """How far one unit can change queries together, each counted in its own sensitivity.

    `l1` is the largest sum of all changes, over all keys, and `l2_squared` the largest sum of their squares.
    """

    l1: Fraction
    l2_squared: Fraction

    @classmethod
    def of(cls, queries: Sequence[Query], neighbouring: Neighbouring, schema: Schema | None) -> "JointChange":
        """Where each row is a unit, by the conditions that can hold of one row; else, and where columns are not known,
        those of all queries, added.

        - *Added or removed*: a row changes the queries whose conditions hold of it, each by its sensitivity at most, in
          one key. So it is the largest number of conditions that can hold together.
        - *Replaced*: the same for the old and for the new row. A count of which both are part does not change, a total
          changes by its width, and of a query with keys two may change.
        - *A unit with many rows* may have one for every condition.

        >>> from chary.data.queries.count import count
        >>> ages = [count("age < 30"), count("age >= 30 AND age < 60"), count("age >= 60"), count()]
        >>> JointChange.of(ages, Neighbouring("add/remove", None), {"age": "int64"})
        JointChange(l1=Fraction(2, 1), l2_squared=Fraction(2, 1))
        """
        if any(not isinstance(query, (Count, Total, Binned)) for query in queries):
            raise InvalidQuery("release counts, totals and histograms together; a mean is two of them")
        parts = [_Part.of(query, neighbouring) for query in queries]
        alone = neighbouring.unit is None and schema is not None
        kinds = row_kinds([_where(query) for query in queries], schema or {}) if alone else None
        if kinds is None:
            added = sum((part.l1 for part in parts), Fraction(0))
            return cls(added, added)
        held = kinds.astype(np.int64)
        one, squared = _parts([part.one for part in parts]), _parts([part.one**2 for part in parts])
        if neighbouring.relation is Relation.ADD_REMOVE:
            return cls(_quotient((held @ one).max()), _quotient((held @ squared).max()))
        both = _parts([part.both for part in parts])
        return cls(_quotient(_paired(held, one, both)), _quotient(_paired(held, squared, both)))


@dataclass(frozen=True)
class _Part:
    """One query: how far a whole unit changes all its keys, added, which bounds the squares too; a row that only one
    neighbour has, one key; and one that is replaced, where the condition holds before and after. In its sensitivity."""

    l1: Fraction
    one: Fraction
    both: Fraction

    @classmethod
    def of(cls, query: Query, neighbouring: Neighbouring) -> "_Part":
        """By the contribution of one unit."""
        single, cell = query.sensitivity(neighbouring), query.contribution(neighbouring)
        l1 = Fraction(query.l1(neighbouring), single)
        # Of a row that is counted before and after, a count without keys knows nothing.
        same = isinstance(query, Count) and query.keys is None and query.without is None
        return cls(l1, Fraction(max(-cell.low, cell.high), single), Fraction(0) if same else l1)


def _where(query: Query) -> Predicate | None:
    counted = query.of if isinstance(query, Binned) else query
    assert isinstance(counted, (Count, Total))
    return counted.where


def _paired(held: Integers, one: Integers, both: Integers) -> int:
    """The largest sum for an old and a new row; for very many kinds of rows, twice that for one of them."""
    if len(held) > MOST_PAIRED:
        return 2 * int((held @ np.maximum(one, (both + 1) // 2)).max())
    alone = (held * one) @ (1 - held).T
    return int((alone + alone.T + (held * both) @ held.T).max())


def _parts(figures: Sequence[Fraction]) -> Integers:
    return np.array([ceil(figure * _PARTS) for figure in figures], dtype=np.int64)


def _quotient(parts: int) -> Fraction:
    """Conditions that hold of no row at all leave one part."""
    return Fraction(max(1, int(parts)), _PARTS)
