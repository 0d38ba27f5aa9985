"""Private algorithms side by side, each returning a score and a solution."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic

from chary import noise
from chary.calls.algorithms.algorithm import Algorithm
from chary.calls.call import Bound, CallT
from chary.calls.selection.selections import Chosen
from chary.core.plan import Json, Ran, Touched
from chary.data import Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter
from chary.mechanisms.choices import Score

Scored = tuple[Score, Any] | None


@dataclass(frozen=True)
class SideBySide(Bound[CallT], Generic[CallT]):
    """Private algorithms side by side, each returning [score, solution]; neighbours may differ in all of them.

    The largest epsilon stands for all, and each part carries the mean of the deltas, so that they add up.
    """

    algorithms: Sequence[Algorithm]

    @cached_property
    def epsilon_each(self) -> Fraction:
        """The largest epsilon."""
        return max(algorithm.size[0] for algorithm in self.algorithms)

    @cached_property
    def delta_each(self) -> Fraction:
        """The mean of the deltas."""
        return sum((algorithm.size[1] for algorithm in self.algorithms), Fraction(0)) / len(self.algorithms)

    @property
    def parallel(self) -> int:
        return len(self.algorithms)

    def body(self) -> Json:
        size = {"epsilon": str(self.epsilon_each), "parallel": self.parallel}
        return {"candidates": [algorithm.body() for algorithm in self.algorithms]} | size

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [rows.snapshot(columns) for columns in self._readings]

    @cached_property
    def _readings(self) -> list[Sequence[str] | None]:
        """The different sets of columns, each of which is read once."""
        return list(dict.fromkeys(algorithm.columns for algorithm in self.algorithms))

    def scored(self, position: int, touched: Touched) -> Scored:
        """Run one candidate on rows of its own; None if it raised or returned no [score, solution]."""
        algorithm = self.algorithms[position]
        rows = touched.values[self._readings.index(algorithm.columns)]
        return scored(algorithm, rows, touched.source)

    def chosen(self, answer: Json) -> tuple[Chosen, ...]:
        """The published candidates of an answer."""
        parts = zip(answer["positions"], answer["scores"], answer["solutions"], strict=True)
        return tuple(Chosen(self.algorithms[position].name, *outcome) for position, *outcome in parts)


def published(positions: list[int], outcomes: Sequence[Scored], *, tests: int) -> Ran:
    """What is published of so many candidates; each of them is a hit."""
    scores = [None if outcome is None else outcome[0] for outcome in outcomes]
    solutions = [None if outcome is None else outcome[1] for outcome in outcomes]
    answer = {"positions": positions, "scores": scores, "solutions": solutions, "tested": tests}
    return Ran(answer, hits=len(positions), tests=tests)


def scored(algorithm: Algorithm, rows: Any, source: noise.Source) -> Scored:
    """The score and the solution of one run; None if it raised or returned no such pair."""
    try:
        outcome = algorithm.outcome(rows, source)
    except AlgorithmFailed:
        return None
    pair = isinstance(outcome, list) and len(outcome) == 2
    if not pair or isinstance(outcome[0], bool) or not isinstance(outcome[0], (int, float)):
        return None
    return outcome[0], outcome[1]


def listed(algorithms: Any) -> tuple[Algorithm, ...]:
    """The candidates; refuses an empty list, what is no algorithm, and names that occur twice."""
    found = tuple(algorithms) if isinstance(algorithms, (list, tuple)) else ()
    if not found or not all(isinstance(algorithm, Algorithm) for algorithm in found):
        raise InvalidParameter(
            'candidates are a query with public keys, or a list such as [chary.Algorithm("tree", run, epsilon=0.1)]'
        )
    if len({algorithm.name for algorithm in found}) != len(found):
        raise InvalidParameter("candidates must have different names")
    return found
