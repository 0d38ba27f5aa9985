"""Workloads: lists of linear questions about cells, each a whole number for every cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidQuery
from chary.mechanisms.additive import Integers

Cells = tuple[tuple[Any, ...], ...]
# The best shares of privacy for so many take a second or two.
MOST_CELLS: Final = 256
MOST_QUESTIONS: Final = 20_000
# Noise is drawn for sums of cells, which must stay far from the ends of 64 bits.
LARGEST_WEIGHT: Final = 2**20
NAMES: Final = ("cells", "prefixes", "ranges")


@dataclass(frozen=True, eq=False)
class LinearQueries:
    """Questions about `cells`, in their order: `weights` has a row of whole numbers for each, `keys` its name.

    Errors: `InvalidQuery` for fewer than two cells or more than 256, no questions or more than 20,000, a row of another
    length, or of zeros alone, and for weights that are no whole numbers up to 2**20.

    >>> asked = LinearQueries.of("prefixes", (("a",), ("b",), ("c",)), ("letter",))
    >>> asked.columns, asked.keys[1], asked.weights.tolist()
    (('first', 'last'), ('a', 'b'), [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    """

    columns: tuple[str, ...]
    keys: tuple[tuple[Any, ...], ...]
    weights: Integers

    @classmethod
    def of(cls, workload: Any, cells: Cells, columns: Sequence[str]) -> "LinearQueries":
        """By a name, marginals (lists of the cells' columns), or rows of weights, which may have names.

        "cells" asks each cell, "prefixes" the sums of the first 1, 2, ... cells in the order of the list, "ranges" the
        sum of every run of neighbouring ones. `[["sex"], ["sex", "age"], []]` asks, for each list of columns, the sum
        of the cells for each combination of their values: the last one is the sum of all. `{"old": [0, 0, 1]}` asks one
        sum by weights.
        """
        if not 2 <= len(cells) <= MOST_CELLS:
            raise InvalidQuery(f"a workload is about 2 to {MOST_CELLS} cells: give the query so many keys")
        if isinstance(workload, str):
            return _runs(workload, cells)
        if isinstance(workload, Mapping):
            return cls(("question",), tuple((str(name),) for name in workload), _rows(list(workload.values()), cells))
        listed = list(workload)
        if listed and all(isinstance(part, (list, tuple)) and all(isinstance(n, str) for n in part) for part in listed):
            return _marginals([tuple(part) for part in listed], cells, tuple(columns))
        return cls(("question",), tuple((number,) for number in range(len(listed))), _rows(listed, cells))

    @property
    def gram(self) -> NDArray[np.float64]:
        """The products of all pairs of its columns, which is all of it that decides about errors."""
        weights = self.weights.astype(np.float64)
        found: NDArray[np.float64] = weights.T @ weights
        return found


def partitions(cells: Cells) -> dict[tuple[int, ...], Integers]:
    """For each set of the cells' columns, the sums of the cells by their values there, in the order of the cells.

    >>> [weights.tolist() for weights in partitions((("f", 1), ("f", 2))).values()]
    [[[1, 1]], [[1, 1]], [[1, 0], [0, 1]], [[1, 0], [0, 1]]]
    """
    width = len(cells[0])
    sets = [places for size in range(width + 1) for places in combinations(range(width), size)]
    return {places: _grouped(cells, places)[1] for places in sets}


def _runs(name: str, cells: Cells) -> LinearQueries:
    size, ends = len(cells), [_scalar(cell) for cell in cells]
    if name not in NAMES:
        raise InvalidQuery(f"a workload is one of {', '.join(NAMES)}, lists of columns, or rows of whole numbers")
    pairs = [(low, low) for low in range(size)] if name == "cells" else [(0, high) for high in range(size)]
    if name == "ranges":
        pairs = [(low, high) for low in range(size) for high in range(low, size)]
    _check_number(len(pairs))
    places = np.arange(size)
    first, last = (np.array(column)[:, None] for column in zip(*pairs, strict=True))
    weights = ((places >= first) & (places <= last)).astype(np.int64)
    return LinearQueries(("first", "last"), tuple((ends[low], ends[high]) for low, high in pairs), weights)


def _marginals(asked: Sequence[tuple[str, ...]], cells: Cells, columns: tuple[str, ...]) -> LinearQueries:
    if any(name not in columns for part in asked for name in part) or any(len(set(part)) < len(part) for part in asked):
        raise InvalidQuery(f"marginals are lists of the columns of the query, {', '.join(columns)}")
    keys: list[tuple[Any, ...]] = []
    rows: list[Integers] = []
    for part in asked:
        found, weights = _grouped(cells, tuple(columns.index(name) for name in part))
        named = [dict(zip(part, values, strict=True)) for values in found]
        keys += [tuple(values.get(name) for name in columns) for values in named]
        rows.append(weights)
    _check_number(len(keys))
    if len(set(keys)) < len(keys):
        raise InvalidQuery("each marginal is asked once")
    return LinearQueries(columns, tuple(keys), np.concatenate(rows))


def _grouped(cells: Cells, places: tuple[int, ...]) -> tuple[list[tuple[Any, ...]], Integers]:
    """The different values of some columns, and which cells have them."""
    parts = [tuple(cell[place] for place in places) for cell in cells]
    found = list(dict.fromkeys(parts))
    numbers = {values: number for number, values in enumerate(found)}
    weights = np.zeros((len(found), len(cells)), dtype=np.int64)
    weights[[numbers[part] for part in parts], np.arange(len(cells))] = 1
    return found, weights


def _rows(rows: list[Any], cells: Cells) -> Integers:
    _check_number(len(rows))
    for row in rows:
        known = isinstance(row, (list, tuple)) and len(row) == len(cells)
        if not known or any(type(weight) is not int or abs(weight) > LARGEST_WEIGHT for weight in row):
            raise InvalidQuery(f"each question is a list of {len(cells)} whole numbers up to 2**20, one for each cell")
        if not any(row):
            raise InvalidQuery("a question whose weights are all 0 has the answer 0")
    return np.array(rows, dtype=np.int64)


def _check_number(questions: int) -> None:
    if not 1 <= questions <= MOST_QUESTIONS:
        raise InvalidQuery(f"a workload has 1 to {MOST_QUESTIONS:,} questions")


def _scalar(cell: tuple[Any, ...]) -> Any:
    return cell[0] if len(cell) == 1 else cell
