"""Answers that add up over batches of rows: after a batch, only that is read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import numpy as np

from chary.data.engines.duckdb.growing.growth import StateOfRows, look_at_growth, state_of
from chary.data.engines.duckdb.reading.loading import Loader
from chary.data.queries.ordered_values import Occurring

# Longer ones are not remembered: 256 plans are kept, so that at most 256 MB are.
MOST: Final = 2**17
# Two integers below it add up within 64 bits.
_SMALL: Final = 2**62
# An `Answer` of a query, or `Occurring`.
_Answer = Any
_Reads = Callable[[duckdb.DuckDBPyConnection], _Answer]


def adds_up(unit: str | None) -> bool:
    """Whether the answers of every query add up over disjoint sets of rows: where each row is a unit of its own.

    Proof. Then a query adds one term for each row (whether it counts, its value in steps, its products), for the key
    of that row alone, and the term follows from the row. Sums of integers over disjoint sets add up.

    With a column of units no query qualifies, whatever its limits: a unit counts once in each of two batches and once
    in both together, and which of its rows are kept, or how its sum is clipped, follows from all of them.
    """
    return unit is None


@dataclass(frozen=True)
class _Remembered:
    state: StateOfRows
    answer: _Answer

    def __repr__(self) -> str:
        return "Remembered(<secret>)"


class Adding:
    """The last exact answer of one plan and the state of the rows it is of. Secret, in this process's memory alone.

    Guarantee: what `answer` returns is what reading all rows returns. The state is taken before and after reading, and
    only where both are one is the answer remembered; rows that changed otherwise than by growth are read again.

    How long an answer takes then follows from which questions were asked before and what came since, both of which are
    public, and as before from the rows that are read, which is not covered by the promise.
    """

    def __init__(self, loader: Loader) -> None:
        """For the plan of one query where answers add up."""
        self._loader = loader
        self._last: _Remembered | None = None

    def answer(self, whole: _Reads, grown: _Reads, connection: duckdb.DuckDBPyConnection) -> _Answer:
        """By reading everything (`whole`), or what came since the last answer (`grown`), or nothing."""
        now, last = state_of(connection, self._loader), self._last
        if now is None:
            return whole(connection)
        if last is not None and last.state == now:
            return _copied(last.answer)
        if last is not None and look_at_growth(connection, self._loader, last.state, now):
            found = _sum(last.answer, grown(connection))
        else:
            found = whole(connection)
        self._last = (
            _Remembered(now, found) if _size(found) <= MOST and state_of(connection, self._loader) == now else None
        )
        return _copied(found)

    def __repr__(self) -> str:
        return "Adding(<secret>)"


def _size(answer: _Answer) -> int:
    return 1 if isinstance(answer, int) else len(answer.places if isinstance(answer, Occurring) else answer)


def _sum(one: _Answer, other: _Answer) -> _Answer:
    if isinstance(one, int):
        return one + int(other)
    if isinstance(one, Occurring):
        return _occurring(one, other)
    if any(part.dtype == object or np.any(np.abs(part) >= _SMALL) for part in (one, other)):
        one, other = one.astype(object), other.astype(object)
    return one + other


def _occurring(one: Occurring, other: Occurring) -> Occurring:
    places, where = np.unique(np.concatenate([one.places, other.places]), return_inverse=True)
    counts = np.zeros(len(places), np.int64)
    np.add.at(counts, where, np.concatenate([one.counts, other.counts]))
    return Occurring(places, counts)


def _copied(answer: _Answer) -> _Answer:
    if isinstance(answer, Occurring):
        return Occurring(answer.places.copy(), answer.counts.copy())
    return answer if isinstance(answer, int) else answer.copy()
