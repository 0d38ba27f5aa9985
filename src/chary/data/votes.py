"""Votes: each voter answers each question with one of a public list of options; counts of the options."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from chary.data.neighbors import NeighborRelation, Neighbors
from chary.data.queries.query import Contribution, Query
from chary.data.rows import Deferred, fingerprint
from chary.errors import EngineError, InvalidParameter, InvalidQuery, quietly
from chary.numbers import whole

Counts = npt.NDArray[np.int64]
Option = str | int


@dataclass(frozen=True)
class Poll(Query):
    """One question to all voters; the answer is how many chose each of the `options`."""

    question: str | int
    options: tuple[Option, ...]

    @property
    def grid(self) -> Fraction:
        """One vote."""
        return Fraction(1)

    @property
    def keys(self) -> tuple[tuple[Option, ...], ...]:
        """The options."""
        return tuple((option,) for option in self.options)

    def contribution(self, neighbor_relation: NeighborRelation) -> Contribution:
        """One voter gives one vote to one option."""
        return Contribution(low=0, high=1, keys=len(self.options), spread=1)

    def body(self) -> dict[str, Any]:
        return {"kind": "poll", "question": self.question, "options": list(self.options)}

    def describe(self) -> str:
        return f"poll {self.question} ({len(self.options)} options)"


class Votes:
    """A dataset of votes; neighbours differ in all votes of one voter, who moves one vote in each question.

    `count` answers a public question with how many voters chose each option. Guarantee needed of the caller: one
    privacy unit (a row of training data, the coins of one copy of an algorithm) decides the votes of one voter only.

    >>> votes = Votes(lambda question: np.array([7, 3]), ["cat", "dog"], voter="teacher")
    >>> votes.prepare(votes.poll(0)).run().tolist(), votes.poll(0).l1(votes.neighbor_relation)
    ([7, 3], 2)
    """

    def __init__(self, count: Callable[[Any], Counts], options: Sequence[Option], *, voter: str) -> None:
        """Errors: `InvalidParameter` for fewer than two options or one that is listed twice."""
        self.options = tuple(options)
        whole(len(self.options), "the number of options", least=2)
        if len(set(self.options)) != len(self.options):
            raise InvalidParameter("an option is listed twice")
        self._count: Callable[[Any], Counts] | None = count
        self.neighbor_relation = NeighborRelation(Neighbors.REPLACE, voter)
        """One voter votes differently; the number of voters is public."""

    @property
    def schema(self) -> dict[str, str]:
        """The one column of votes."""
        return {"vote": "string" if isinstance(self.options[0], str) else "int64"}

    def poll(self, question: str | int) -> Poll:
        """The query for one question."""
        return Poll(question, self.options)

    def fingerprint(self) -> str:
        """A hash of the options and of what a voter is, never of votes."""
        return fingerprint("ballots", self.options, self.neighbor_relation.unit)

    def prepare(self, query: Any) -> Deferred:
        """A plan of one exact count for each option; `InvalidQuery` unless it is a poll of these options."""
        if not isinstance(query, Poll) or query.options != self.options:
            raise InvalidQuery("votes answer polls of their own options only: ask votes.poll(question)")
        return Deferred(query, lambda: self._votes(query))

    def snapshot(self, columns: Sequence[str] | None = None) -> Deferred:
        """Votes cannot be read one by one: `InvalidQuery`."""
        raise InvalidQuery("votes are only counted; ask votes.poll(question)")

    def append(self, rows: Any) -> None:
        """Voters cannot be added: `InvalidQuery`."""
        raise InvalidQuery("voters cannot be added to a session: open a new dataset")

    def close(self) -> None:
        """Forget the voters; plans raise `EngineError` afterwards."""
        self._count = None

    def _votes(self, query: Poll) -> Counts:
        count = self._count
        if count is None:
            raise EngineError("the votes are closed")
        failure = EngineError("the voters failed to answer")
        counts = quietly(lambda: np.asarray(count(query.question), dtype=np.int64), failure)
        if counts.shape != (len(self.options),):
            raise EngineError("the voters did not answer with one count for each option")
        return counts

    def __repr__(self) -> str:
        return f"Votes({len(self.options)} options, of each {self.neighbor_relation.unit})"
