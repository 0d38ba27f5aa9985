"""Regions of a universe: the cells at which a predicate holds, from patterns along its axes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from chary.data.columns import Schema, classify
from chary.data.predicates.conditions import Compare, Condition, Every, Holds, IsNull, Like, Not, OneOf, Scalar, Some
from chary.data.predicates.predicate import Predicate
from chary.data.queries.sums import Count, count
from chary.data.universe.axes import Universe
from chary.errors import InvalidQuery

# Conditions on a universe as a matrix: which rows fulfil which cells, without a flag for every cell.

# Going over one more stretch of rows costs about as much as making that many factors.
A_RUN: Final = 2_000
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Along:
    """A comparison: flags of one column's cells."""

    place: int
    met: Flags


@dataclass(frozen=True, eq=False)
class Joined:
    """Conditions of which all must hold, or else one."""

    every: bool
    parts: "Sequence[Along | Joined]"


@dataclass(frozen=True, eq=False)
class _OfRows:
    """A condition on the columns before a split: flags of the matrix' rows."""

    flags: Flags


@dataclass(frozen=True, eq=False)
class _OfColumns:
    """A condition on the columns from a split on."""

    flags: Flags


@dataclass(frozen=True, eq=False)
class _Crossing:
    """Conditions of both kinds of which all must hold, or else one."""

    every: bool
    parts: "Sequence[_OfRows | _OfColumns | _Crossing]"


Tree = Along | Joined
_Halved = _OfRows | _OfColumns | _Crossing


class AtSplit:
    """A condition on a matrix: rows that fulfil the same of what concerns rows alone have the same pattern."""

    def __init__(self, asked: Tree, shape: tuple[int, ...], place: int) -> None:
        self._place, self._columns = place, shape[place:]
        self._rows = shape[:place]
        self._tree = self._halved(asked)
        self._which = np.zeros(math.prod(self._rows), np.intp)
        for flags in _of_rows(self._tree):
            self._which = _renumbered(2 * self._which + flags)

    def cost(self) -> int:
        """How many factors a change has to make, and how many stretches of rows to go over."""
        columns, runs = math.prod(self._columns), 1 + np.count_nonzero(np.diff(self._which))
        most = len(self._which) * columns // 6
        return (int(self._which.max()) + 1) * columns + min(A_RUN * int(runs), most)

    def patterns(self) -> tuple[NDArray[np.intp], Flags]:
        """The pattern of each row, and the patterns: worked out for one row of a kind, the same ones joined."""
        _, firsts = np.unique(self._which, return_index=True)
        made: dict[bytes, int] = {}
        patterns: list[Flags] = []
        numbers = []
        for row in firsts.tolist():
            pattern = np.broadcast_to(self._value(self._tree, row), self._columns).reshape(-1)
            number = made.setdefault(np.packbits(pattern).tobytes(), len(made))
            patterns += [pattern] if number == len(patterns) else []
            numbers.append(number)
        return np.array(numbers, np.intp)[self._which], np.array(patterns)

    def _halved(self, asked: Tree) -> _Halved:
        """With all parts of one side as one."""
        if isinstance(asked, Along):
            return self._placed(asked)
        parts = [self._halved(part) for part in asked.parts]
        joined: list[_Halved] = [part for part in parts if isinstance(part, _Crossing)]
        for side in (_OfRows, _OfColumns):
            same = [part.flags for part in parts if isinstance(part, side)]
            joined += [side(reduce(_combining(asked.every), same))] if same else []
        return joined[0] if len(joined) == 1 else _Crossing(asked.every, joined)

    def _placed(self, along: Along) -> _Halved:
        sides, place = (
            (self._rows, along.place) if along.place < self._place else (self._columns, along.place - self._place)
        )
        flags = along.met.reshape([-1 if axis == place else 1 for axis in range(len(sides))])
        if along.place >= self._place:
            return _OfColumns(flags)
        return _OfRows(np.broadcast_to(flags, self._rows).reshape(-1))

    def _value(self, tree: _Halved, row: int) -> Any:
        """Flags of the columns in this row."""
        if isinstance(tree, _OfRows):
            return tree.flags[row]
        if isinstance(tree, _OfColumns):
            return tree.flags
        return reduce(_combining(tree.every), [self._value(part, row) for part in tree.parts])


def _of_rows(tree: _Halved) -> Iterator[Flags]:
    if isinstance(tree, _OfRows):
        yield tree.flags
    elif isinstance(tree, _Crossing):
        for part in tree.parts:
            yield from _of_rows(part)


def _combining(every: bool) -> np.ufunc:
    return np.logical_and if every else np.logical_or


def _renumbered(numbers: NDArray[np.intp]) -> NDArray[np.intp]:
    """The same distinctions with the numbers 0, 1, 2, ..."""
    return (np.cumsum(np.bincount(numbers) > 0) - 1)[numbers]


# From a condition on rows to the cells of a universe in which it holds, and to the same condition on coded rows.

WIDEST: Final = 65_536
NARROWEST: Final = 256


@dataclass(frozen=True, eq=False)
class Region:
    """A set of cells of a universe, whose first columns make the rows and whose last ones the columns of a matrix.
    Each row has one of a few patterns of cells.

    >>> from chary.data.universe.axes import Universe
    >>> universe = Universe({"sex": ["f", "m"], "smoker": [True, False]})
    >>> asked = Predicate.parse("sex = 'f' AND NOT smoker")
    >>> region, counted = located(universe, {"sex": "string", "smoker": "boolean"}, asked)
    >>> region.count, np.flatnonzero(region.flags()).tolist()
    (1, [1])
    """

    which: NDArray[np.intp]
    patterns: Flags
    levels: ClassVar[None] = None

    @property
    def counts(self) -> NDArray[np.float64]:
        """How many cells are outside, and how many inside."""
        return np.array([len(self.which) * self.patterns.shape[1] - self.count, self.count], np.float64)

    @cached_property
    def count(self) -> int:
        """How many cells it has."""
        rows = np.bincount(self.which, minlength=len(self.patterns))
        return int(rows @ np.count_nonzero(self.patterns, axis=1))

    def flags(self) -> Flags:
        """One flag for each cell, in the order of the universe's columns, the last one changing fastest."""
        return self.patterns[self.which].ravel()

    def weights(self) -> NDArray[np.float64]:
        """1 for each cell inside and 0 outside, in the same order."""
        return self.flags().astype(np.float64)


def located(universe: Universe, schema: Schema, predicate: Predicate | None) -> tuple[Region, Count]:
    """The cells in which a row satisfies the condition, and the count of those rows; None is every row.

    In both, a value that the universe does not declare is read as NULL. `InvalidQuery` for columns that are not in the
    universe, and for =, <> and IN with a value that is not declared. Also for conditions that hold in a part of a cell
    only, for two columns compared with each other, and LIKE.
    """
    if predicate is None:
        return _region(None, universe), count()
    reader = _Reader(universe, schema)
    asked = reader.tree(predicate.condition, False)
    return _region(asked, universe), count(Predicate(reader.coded(predicate.condition, False)))


def splits(universe: Universe) -> list[int]:
    """All that leave neither rows nor columns too many, and columns not too few; or else the usual one."""
    shape = universe.shape
    halves = [(math.prod(shape[:place]), math.prod(shape[place:])) for place in range(len(shape))]
    found = [place for place, (rows, columns) in enumerate(halves) if rows <= WIDEST and NARROWEST <= columns <= WIDEST]
    return found or [split(universe)]


def split(universe: Universe) -> int:
    """The first column of the block: the last columns that have 65,536 cells together at most, or at least 256."""
    shape = universe.shape
    place = next(place for place in range(len(shape) + 1) if math.prod(shape[place:]) <= WIDEST)
    return place if place == 0 or math.prod(shape[place:]) >= NARROWEST else place - 1


def matrix(universe: Universe) -> tuple[int, int]:
    """The universe as rows and columns of a matrix."""
    place = split(universe)
    return math.prod(universe.shape[:place]), math.prod(universe.shape[place:])


def _region(asked: Tree | None, universe: Universe) -> Region:
    """By the split at which a change of the cells costs least."""
    if asked is None:
        rows, columns = matrix(universe)
        return Region(np.zeros(rows, np.intp), np.ones((1, columns), bool))
    tried = (AtSplit(asked, universe.shape, place) for place in splits(universe))
    return Region(*min(tried, key=AtSplit.cost).patterns())


class _Reader:
    """Conditions with every NOT pushed down to the comparisons. What remains is monotone, so that for the whole to be
    true it only matters which comparisons are true, not which are unknown."""

    def __init__(self, universe: Universe, schema: Schema) -> None:
        self._universe, self._schema = universe, schema

    def tree(self, condition: Condition, negated: bool) -> Tree:
        """What of each column's cells matters, and how it is joined."""
        match condition:
            case Not(condition=inner):
                return self.tree(inner, not negated)
            case Every(conditions=parts) | Some(conditions=parts):
                return Joined(isinstance(condition, Every) != negated, [self.tree(part, negated) for part in parts])
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

    def _along(self, condition: Condition, negated: bool) -> Along:
        name = _column(condition)
        place = self._universe.place(name)
        axis, kind = self._universe.columns[place][1], classify(self._schema, name)
        if isinstance(condition, IsNull):
            met = np.append(np.full(axis.declared, negated), not negated)
        else:
            met = np.append(axis.met(condition, kind) != negated, False)
        return Along(place, met[: self._universe.shape[place]])


def _column(condition: Condition) -> str:
    if isinstance(condition, Compare) and not isinstance(condition.other, Scalar):
        raise InvalidQuery("a universe describes columns one by one: compare a column with literals")
    if isinstance(condition, Like):
        raise InvalidQuery("a universe cannot answer LIKE: list the values with IN")
    assert isinstance(condition, (Compare, OneOf, IsNull, Holds))
    if not isinstance(condition.column, str):
        raise InvalidQuery(f"a universe has columns, and none that are derived: {condition.column.text()!r} is one")
    return condition.column
