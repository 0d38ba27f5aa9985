"""Private algorithms side by side: the best of them, or all that reach a bar; paid by what is published."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary import noise
from chary.accounting import Event, Extendable, Targeted
from chary.data import Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter
from chary.mechanisms import TopK
from chary.mechanisms.selection import Score
from chary.numbers import Number, exact
from chary.session.algorithm import Algorithm
from chary.session.interaction import Interaction, Json, Ran, Touched
from chary.session.ranking import check_most, rule_body
from chary.session.selections import Chosen, Selected, Top

Scored = tuple[Score, Any] | None


@dataclass(frozen=True)
class _Candidates(Interaction):
    """Private algorithms side by side, each returning [score, solution]; neighbours may differ in all of them.

    The largest epsilon stands for all, and each part carries the mean of the deltas, so that they add up.
    """

    algorithms: Sequence[Algorithm]

    def __post_init__(self) -> None:
        check_algorithms(self.algorithms)

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


@dataclass(frozen=True)
class TopAlgorithms(_Candidates):
    """The best `k` of several private algorithms, with their scores and solutions.

    Guarantee: each outcome is (epsilon, delta)-DP on its own (`Extendable`): a hit for each published candidate, and
    the deltas of all of them. A candidate that fails ranks below all others.
    """

    k: int
    gap: Number | None = None
    above: Number | None = None
    kind = "top"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_most(self.mechanism.most, len(self.algorithms), "candidates")

    @cached_property
    def mechanism(self) -> TopK:
        """The rule."""
        return TopK(self.k, self.gap, self.above)

    @cached_property
    def event(self) -> Event:
        return Extendable(self.epsilon_each, self.delta_each)

    @property
    def most_hits(self) -> int:
        return min(self.k, self.parallel)

    def body(self) -> Json:
        return super().body() | rule_body(self.mechanism)

    def run(self, touched: Touched) -> Ran:
        outcomes = [self.scored(position, touched) for position in range(self.parallel)]
        best = self.mechanism.choose([None if outcome is None else outcome[0] for outcome in outcomes])
        return published(best, [outcomes[position] for position in best], tests=self.parallel)

    def present(self, answer: Json, call: int) -> Top:
        best = self.chosen(answer)
        if best and best[0].failed:
            raise AlgorithmFailed("every candidate raised, or returned no [score, solution]; charged")
        return Top(call, best, None)


@dataclass(frozen=True)
class SelectAbove(_Candidates):
    """All of several private algorithms whose score reaches a bar, in their order, halting when the hits run out.

    Guarantee: each is an (epsilon, delta)-DP call with the NotPrior target "published" ([TCT] section 4), and the
    deltas of all of them are paid. A candidate that fails reaches no bar.
    """

    above: Number
    kind = "select"
    halts = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "above", exact(self.above, "above"))

    @cached_property
    def event(self) -> Event:
        return Targeted(self.epsilon_each, None, self.delta_each)

    def body(self) -> Json:
        return super().body() | {"above": str(self.above)}

    def run(self, touched: Touched) -> Ran:
        found: list[int] = []
        outcomes: list[Scored] = []
        tested = 0
        while tested < self.parallel and len(found) != touched.most_hits:
            outcome = self.scored(tested, touched)
            if outcome is not None and outcome[0] >= Fraction(self.above):
                found.append(tested)
                outcomes.append(outcome)
            tested += 1
        return published(found, outcomes, tests=tested)

    def present(self, answer: Json, call: int) -> Selected:
        names = tuple(algorithm.name for algorithm in self.algorithms)
        return Selected(call, names, self.chosen(answer), answer["tested"])


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


def check_algorithms(algorithms: Sequence[Algorithm]) -> None:
    """Refuse an empty list, what is no algorithm, and names that occur twice."""
    if not algorithms or not all(isinstance(algorithm, Algorithm) for algorithm in algorithms):
        raise InvalidParameter(
            'candidates are a query with public keys, or a list such as [chary.Algorithm("tree", run, epsilon=0.1)]'
        )
    if len({algorithm.name for algorithm in algorithms}) != len(algorithms):
        raise InvalidParameter("candidates must have different names")
