"""Conditions on a universe as a matrix: which rows fulfil which cells, without a flag for every cell."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# Going over one more stretch of rows costs about as much as making so many factors.
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
