"""Overlap of queries: kinds of rows that their conditions can tell apart, and what one unit changes in all at once."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from math import ceil
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chary.data.columns import Schema, TypeClass
from chary.data.neighbors import NeighborRelation, Neighbors
from chary.data.predicates import conditions as predicates
from chary.data.predicates.predicate import Predicate, kind_of
from chary.data.queries import histogram, sums
from chary.data.queries.query import Query
from chary.data.queries.statistic import Statistic
from chary.errors import InvalidQuery

# Which of several conditions can hold of one row together: the kinds of rows that they tell apart.

Flags = NDArray[np.bool_]
# Kinds of rows times conditions that are gone through: a few milliseconds.
MOST_KINDS: Final = 1_000_000
# Below it doubles hold every integer, so that numbers and doubles are compared alike.
_EXACT: Final = 2**53
_THREE: Final = 3
_EQUAL: Final = ("=", "<>")


class _Truth(NamedTuple):
    """For each kind of row, whether a condition is true of it and whether it is false; it is unknown if neither."""

    true: Flags
    false: Flags


def row_kinds(conditions: Sequence[Predicate | None], schema: Schema) -> Flags | None:
    """A row of flags for each set of the conditions that may hold of one row, and no others; None always holds.

    Every set that can occur is among them. Sets that cannot may be, where conditions compare two columns, or strings by
    their order, use LIKE, or name numbers of 2**53 and more. A derived column is taken for one of its own: its value
    may be any of its class, whatever the columns are that it is derived from. None where there are too many kinds of
    rows. `InvalidQuery` for an unknown column.

    >>> asked = [Predicate.parse(text) for text in ("age < 30", "age >= 30 AND age < 60", "sex = 'f'")]
    >>> int(row_kinds(asked, {"age": "int64", "sex": "string"}).sum(axis=1).max())
    2
    """
    given = [each.condition for each in conditions if each is not None]
    reader = _Kinds(list(dict.fromkeys(atom for condition in given for atom in _atoms(condition))), schema)
    if math.prod(reader.shape) * len(conditions) > MOST_KINDS:
        return None
    held = [np.True_ if each is None else reader.truth(each.condition).true for each in conditions]
    return np.unique(np.stack([np.broadcast_to(each, reader.shape).ravel() for each in held], axis=1), axis=0)


class _Kinds:
    """All combinations of what a row can be. There is an axis for each column, derived ones too, with the values that
    are named and the gaps between. There is one for each comparison that is not understood, which may be true, false or
    unknown.
    """

    def __init__(self, atoms: Sequence[predicates.Condition], schema: Schema) -> None:
        self._schema = schema
        self._values = {name: _values(name, atoms, schema) for name in dict.fromkeys(map(_column, atoms)) if name}
        known = [name for name, values in self._values.items() if values is not None]
        self._places: dict[Any, int] = {}
        self.shape: tuple[int, ...] = ()
        for name in known:
            self._add(name, 2 * len(self._values[name] or ()) + 2)
        for atom in atoms:
            if _column(atom) not in known:
                self._add(atom, _THREE)

    def _add(self, what: Any, pieces: int) -> None:
        self._places[what] = len(self.shape)
        self.shape += (pieces,)

    def truth(self, condition: predicates.Condition) -> _Truth:
        """By three-valued logic."""
        match condition:
            case predicates.Not(condition=inner):
                return _Truth(*reversed(self.truth(inner)))
            case predicates.Every(conditions=parts):
                true, false = zip(*map(self.truth, parts), strict=True)
                return _Truth(_all(true), _any(false))
            case predicates.Some(conditions=parts):
                true, false = zip(*map(self.truth, parts), strict=True)
                return _Truth(_any(true), _all(false))
        return self._atom(condition)

    def _atom(self, atom: predicates.Condition) -> _Truth:
        name = _column(atom)
        if name is None or name not in self._places:
            return self._along(atom, np.array([True, False, False]), np.array([False, True, False]))
        values = self._values[name] or []
        read = _READ.get(_kind(name, self._schema), _unread)
        met = _met(atom, [values.index(read(value)) for value in _named(atom)], len(values))
        known = np.append(np.ones(len(met) - 1, dtype=bool), isinstance(atom, predicates.IsNull))
        return self._along(name, met, ~met & known)

    def _along(self, what: Any, true: Flags, false: Flags) -> _Truth:
        place = self._places[what]
        shape = tuple(-1 if other == place else 1 for other in range(len(self.shape)))
        return _Truth(true.reshape(shape), false.reshape(shape))


def _met(atom: predicates.Condition, named: Sequence[int], values: int) -> Flags:
    """Along the pieces of a column: below the first value, that value, between it and the second, ..., NULL."""
    pieces, places = np.arange(2 * values + 1), [2 * number + 1 for number in named]
    met = np.isin(pieces, places)
    if isinstance(atom, predicates.Compare):
        met = predicates.OPERATORS[atom.sign](pieces, places[0])
    return np.append(met, isinstance(atom, predicates.IsNull))


def _values(name: predicates.Column, atoms: Sequence[predicates.Condition], schema: Schema) -> list[Any] | None:
    """The values that are named of a column, ascending; None where a comparison with it is not understood."""
    kind, own = _kind(name, schema), [atom for atom in atoms if _column(atom) == name]
    ordered = kind not in (TypeClass.STRING, TypeClass.BOOLEAN)
    read = [_READ.get(kind, _unread)(value) for atom in own for value in _named(atom)]
    if None in read or any(
        isinstance(atom, predicates.Compare) and not ordered and atom.sign not in _EQUAL for atom in own
    ):
        return None
    return sorted(set(read))


def _named(atom: predicates.Condition) -> tuple[Any, ...]:
    match atom:
        case predicates.Compare(other=other):
            return (other,)
        case predicates.OneOf(values=values):
            return values
        case predicates.Holds():
            return (True,)
    return ()


def _column(atom: predicates.Condition) -> predicates.Column | None:
    """The column that is compared with values; None for two columns, and LIKE."""
    if isinstance(atom, (predicates.OneOf, predicates.IsNull, predicates.Holds)):
        return atom.column
    literal = isinstance(atom, predicates.Compare) and isinstance(atom.other, predicates.Scalar)
    return atom.column if isinstance(atom, predicates.Compare) and literal else None


def _kind(column: predicates.Column, schema: Schema) -> TypeClass:
    return kind_of(schema, column) if isinstance(column, str) else column.typed(schema).kind


def _atoms(condition: predicates.Condition) -> Iterator[predicates.Condition]:
    match condition:
        case predicates.Not(condition=inner):
            yield from _atoms(inner)
        case predicates.Every(conditions=parts) | predicates.Some(conditions=parts):
            for part in parts:
                yield from _atoms(part)
        case _:
            yield condition


def _all(flags: Sequence[Flags]) -> Flags:
    found: Flags = functools.reduce(np.logical_and, flags)
    return found


def _any(flags: Sequence[Flags]) -> Flags:
    found: Flags = functools.reduce(np.logical_or, flags)
    return found


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and abs(value) < _EXACT else None


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        return predicates.read_timestamp(value)
    if type(value) is date:
        return datetime(value.year, value.month, value.day)
    return value if isinstance(value, datetime) and value.tzinfo is None else None


def _day(value: Any) -> date | None:
    if isinstance(value, str):
        return predicates.read_date(value)
    return value if type(value) is date else None


def _unread(value: Any) -> Any:
    """None: values of other columns are not understood."""


_READ: Final[dict[TypeClass, Callable[[Any], Any]]] = {
    TypeClass.INTEGER: _number,
    TypeClass.FLOAT: _number,
    TypeClass.STRING: lambda value: value if isinstance(value, str) else None,
    TypeClass.BOOLEAN: lambda value: value if isinstance(value, bool) else None,
    TypeClass.DATE: _day,
    TypeClass.TIMESTAMP: _moment,
}

# How far one unit can change several unlike queries at once.

# All pairs of that many kinds of rows are a million.
MOST_PAIRED: Final = 1000
# Quotients are counted in that many parts, rounded up; halves and quarters are exact.
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
    def of(cls, queries: Sequence[Query], neighbor_relation: NeighborRelation, schema: Schema | None) -> "JointChange":
        """Where each row is a unit, by the conditions that can hold of one row; else, and where columns are not known,
        those of all queries, added.

        - *Added or removed*: a row changes the queries whose conditions hold of it, each by its sensitivity at most, in
          one key. So it is the largest number of conditions that can hold together.
        - *Replaced*: the same for the old and for the new row. A count of which both are part does not change, a total
          changes by its width, and of a query with keys two may change.
        - *A unit with many rows* may have one for every condition.
        - *A statistic* of one's own may be moved by any row, and by one that is replaced as far as it is asserted.

        >>> from chary.data.queries.sums import count
        >>> ages = [count("age < 30"), count("age >= 30 AND age < 60"), count("age >= 60"), count()]
        >>> JointChange.of(ages, NeighborRelation("add_remove", None), {"age": "int64"})
        JointChange(l1=Fraction(2, 1), l2_squared=Fraction(2, 1))
        """
        if any(not isinstance(query, (sums.Count, sums.Sum, histogram.Binned, Statistic)) for query in queries):
            raise InvalidQuery("release counts, sums, histograms and statistics together; a mean is two of them")
        parts = [_Part.of(query, neighbor_relation) for query in queries]
        alone = neighbor_relation.unit is None and schema is not None
        kinds = row_kinds([_where(query) for query in queries], schema or {}) if alone else None
        if kinds is None:
            added = sum((part.l1 for part in parts), Fraction(0))
            return cls(added, added)
        held = kinds.astype(np.int64)
        if neighbor_relation.in_part:  # a row that is replaced may leave the part, where no condition holds of it
            held = np.vstack([held, np.zeros_like(held[:1])])
        one, squared = _parts([part.one for part in parts]), _parts([part.one**2 for part in parts])
        if neighbor_relation.neighbors is Neighbors.ADD_REMOVE:
            return cls(_quotient((held @ one).max()), _quotient((held @ squared).max()))
        both = _parts([part.both for part in parts])
        return cls(_quotient(_paired(held, one, both)), _quotient(_paired(held, squared, both)))


@dataclass(frozen=True)
class _Part:
    """One query, in its sensitivity: how far a whole unit changes all its keys, added, which bounds the squares too.
    Also a row that only one neighbour has, one key. Also one that is replaced, where the condition holds before and
    after.
    """

    l1: Fraction
    one: Fraction
    both: Fraction

    @classmethod
    def of(cls, query: Query, neighbor_relation: NeighborRelation) -> "_Part":
        """By the contribution of one unit."""
        single, cell = query.sensitivity(neighbor_relation), query.contribution(neighbor_relation)
        l1 = Fraction(query.l1(neighbor_relation), single)
        # Of a row that is counted before and after, a count without keys knows nothing.
        same = isinstance(query, sums.Count) and query.keys is None and query.without is None
        return cls(l1, Fraction(max(-cell.low, cell.high), single), Fraction(0) if same else l1)


def _where(query: Query) -> Predicate | None:
    if isinstance(query, Statistic):  # any row may move it
        return None
    counted = query.of if isinstance(query, histogram.Binned) else query
    assert isinstance(counted, (sums.Count, sums.Sum))
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
