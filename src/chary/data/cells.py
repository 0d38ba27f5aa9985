"""From a condition on rows to the cells of a universe in which it holds, and to the same condition on coded rows."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.data.columns import Schema, classify
from chary.data.conditions import Compare, Condition, Every, Holds, IsNull, Like, Name, Not, OneOf, Some
from chary.data.count import Count, count
from chary.data.predicate import Predicate
from chary.data.universe import Universe
from chary.errors import InvalidQuery

WIDEST: Final = 65_536
NARROWEST: Final = 256
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Region:
    """A set of cells of a universe, whose first columns make the rows and whose last ones the columns of a matrix:
    disjoint products of a set of rows and a set of columns.

    >>> from chary.data.universe import Universe
    >>> universe = Universe({"sex": ["f", "m"], "smoker": [True, False]})
    >>> asked = Predicate.parse("sex = 'f' AND NOT smoker")
    >>> region, counted = located(universe, {"sex": "string", "smoker": "boolean"}, asked)
    >>> region.count, np.flatnonzero(region.flags()).tolist()
    (1, [1])
    """

    products: tuple[tuple[Flags, Flags], ...]
    shape: tuple[int, int]

    @cached_property
    def count(self) -> int:
        """How many cells it has."""
        return sum(int(np.count_nonzero(rows)) * int(np.count_nonzero(columns)) for rows, columns in self.products)

    def flags(self) -> Flags:
        """One flag for each cell, in the order of the universe's columns, the last one changing fastest."""
        flags = np.zeros(self.shape, bool)
        for rows, columns in self.products:
            flags |= np.logical_and.outer(rows, columns)
        return flags.ravel()


def located(universe: Universe, schema: Schema, predicate: Predicate | None) -> tuple[Region, Count]:
    """The cells in which a row satisfies the condition, and the count of those rows; None is every row.

    In both, a value that the universe does not declare is read as NULL. `InvalidQuery` for columns that are not in the
    universe, for conditions that hold in a part of a cell only, for two columns compared with each other, and LIKE.
    """
    if predicate is None:
        return _region(universe, []), count()
    reader = _Reader(universe, schema)
    parts = [reader.cells(part, False) for part in _conjuncts(predicate.condition)]
    return _region(universe, parts), count(Predicate(reader.coded(predicate.condition, False)))


def split(universe: Universe) -> int:
    """The first column of the block: the last columns that have 65,536 cells together at most, or at least 256."""
    shape = universe.shape
    place = next(place for place in range(len(shape) + 1) if math.prod(shape[place:]) <= WIDEST)
    return place if place == 0 or math.prod(shape[place:]) >= NARROWEST else place - 1


def matrix(universe: Universe) -> tuple[int, int]:
    """The universe as rows and columns of a matrix."""
    place = split(universe)
    return math.prod(universe.shape[:place]), math.prod(universe.shape[place:])


def _region(universe: Universe, parts: list[Flags]) -> Region:
    """Parts are flags that broadcast over the universe; those on one side of the split belong to rows or columns."""
    place, shape = split(universe), universe.shape
    rows, columns = np.ones(shape[:place], bool), np.ones(shape[place:], bool)
    crossing = []
    for part in parts:
        if math.prod(part.shape[place:]) == 1:
            rows = rows & part.reshape(part.shape[:place])
        elif math.prod(part.shape[:place]) == 1:
            columns = columns & part.reshape(part.shape[place:])
        else:
            crossing.append(part)
    product = (rows.reshape(-1), columns.reshape(-1))
    if not crossing:
        return Region((product,), matrix(universe))
    both = reduce(np.logical_and, crossing, np.logical_and.outer(rows, columns))
    return Region(tuple(_products(both.reshape(matrix(universe)))), matrix(universe))


def _products(flags: Flags) -> Iterator[tuple[Flags, Flags]]:
    """The rows that have the same columns, with those columns."""
    packed = np.packbits(flags, axis=1)
    lines = packed.view(f"V{packed.shape[1]}").reshape(-1)
    _, firsts, which = np.unique(lines, return_index=True, return_inverse=True)
    for number, first in enumerate(firsts):
        if flags[first].any():
            yield which.reshape(-1) == number, flags[first]


def _conjuncts(condition: Condition) -> Iterator[Condition]:
    if isinstance(condition, Every):
        for part in condition.conditions:
            yield from _conjuncts(part)
    else:
        yield condition


class _Reader:
    """Conditions with every NOT pushed down to the comparisons. What remains is monotone, so that for the whole to be
    true it only matters which comparisons are true, not which are unknown."""

    def __init__(self, universe: Universe, schema: Schema) -> None:
        self._universe, self._schema = universe, schema

    def cells(self, condition: Condition, negated: bool) -> Flags:
        """Flags with an axis for each column, of length 1 where the column does not matter."""
        match condition:
            case Not(condition=inner):
                return self.cells(inner, not negated)
            case Every(conditions=parts) | Some(conditions=parts):
                combine = np.logical_and if isinstance(condition, Every) != negated else np.logical_or
                return reduce(combine, [self.cells(part, negated) for part in parts])
        return self._along(condition, negated)

    def coded(self, condition: Condition, negated: bool) -> Condition:
        """The condition on rows whose undeclared values are read as NULL: true of the same rows."""
        match condition:
            case Not(condition=inner):
                return self.coded(inner, not negated)
            case Every(conditions=parts) | Some(conditions=parts):
                made = tuple(self.coded(part, negated) for part in parts)
                return Every(made) if isinstance(condition, Every) != negated else Some(made)
        name = _column(condition)
        axis, kind = self._universe.columns[self._universe.place(name)][1], classify(self._schema, name)
        inside = axis.inside(name, kind)
        if isinstance(condition, IsNull):
            return inside if negated else Some((IsNull(name), Not(inside)))
        return Every((inside, Not(condition) if negated else condition))

    def _along(self, condition: Condition, negated: bool) -> Flags:
        name = _column(condition)
        place = self._universe.place(name)
        axis, kind = self._universe.columns[place][1], classify(self._schema, name)
        if isinstance(condition, IsNull):
            met = np.append(np.full(axis.declared, negated), not negated)
        else:
            met = np.append(axis.met(condition, kind) != negated, False)
        met = met[: self._universe.shape[place]]
        shape = [1] * len(self._universe.columns)
        shape[place] = len(met)
        return met.reshape(shape)


def _column(condition: Condition) -> str:
    if isinstance(condition, Compare) and isinstance(condition.other, Name):
        raise InvalidQuery("a universe tells columns apart one by one: compare a column with literals")
    if isinstance(condition, (Compare, OneOf, IsNull, Holds)):
        return condition.column
    assert isinstance(condition, Like)
    raise InvalidQuery("a universe cannot answer LIKE: list the values with IN")
