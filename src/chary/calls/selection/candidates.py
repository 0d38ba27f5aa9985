"""Private algorithms side by side, and all of them that reach a bar, paid by what is published."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic

from chary import noise
from chary.accounting import Event, Targeted
from chary.calls.algorithms.algorithm import Algorithm
from chary.calls.call import Bound, Call, CallT, call
from chary.calls.fields import Candidates, Exact
from chary.calls.selection.selections import Chosen, Selected
from chary.data import Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter, InvalidQuery
from chary.mechanisms.selection.top_k import Score
from chary.spine.interaction import Json, Ran, Touched
from chary.spine.spine import Spine

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


@call("select", subject="selection")
class Select(Call[Selected]):
    """All private algorithms whose score reaches a bar, with scores and solutions, in the order they are listed.

    Guarantee: each is one (epsilon, delta)-DP call with the NotPrior target "published" ([TCT] section 4). When the
    budget cannot pay for all of them it halts at the last hit that fits; later algorithms are `untested`. One that
    fails reaches no bar. Deltas of all algorithms are paid. Keys of a query are selected by `Watch`.
    """

    candidates: Candidates
    _: KW_ONLY
    above: Exact

    def bind(self, spine: Spine) -> "SelectAbove":
        if isinstance(self.candidates, Query):
            raise InvalidQuery("the keys of a query are selected by chary.calls.Watch(query, above=..., epsilon=...)")
        return SelectAbove(self, spine.rows.neighbouring, listed(self.candidates))


@dataclass(frozen=True)
class SelectAbove(SideBySide[Select]):
    """The selection, as it is run."""

    halts = True

    @cached_property
    def event(self) -> Event:
        return Targeted(self.epsilon_each, None, self.delta_each)

    def body(self) -> Json:
        return super().body() | {"above": str(self.call.above)}

    def run(self, touched: Touched) -> Ran:
        found: list[int] = []
        outcomes: list[Scored] = []
        tested = 0
        while tested < self.parallel and len(found) != touched.most_hits:
            outcome = self.scored(tested, touched)
            if outcome is not None and outcome[0] >= Fraction(self.call.above):
                found.append(tested)
                outcomes.append(outcome)
            tested += 1
        return published(found, outcomes, tests=tested)

    def present(self, answer: Json, call: int) -> Selected:
        keys = tuple((algorithm.name,) for algorithm in self.algorithms)
        return Selected(call, ("name",), keys, self.chosen(answer), answer["tested"])


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
