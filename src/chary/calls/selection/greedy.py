"""Greedy choice of private candidates whose scores depend on what was chosen before ([TCT] section 4, coverage)."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, replace
from fractions import Fraction
from typing import Any, Literal

from chary.answers import handed_out
from chary.calls.algorithms.algorithm import Algorithm
from chary.calls.algorithms.publishing import PublishIf
from chary.calls.algorithms.targets import When
from chary.calls.call import Call, call
from chary.calls.fields import Candidates, Exact, Whole
from chary.calls.selection.candidates import listed
from chary.calls.selection.ranking import Top, check_most
from chary.calls.selection.selections import Chosen, Gathered
from chary.core.plan import Interaction
from chary.core.transaction import Spine
from chary.data import Query
from chary.errors import BudgetRefused, InvalidParameter


@call("greedy", subject="selection")
class Greedy(Call[Gathered]):
    """Private candidates chosen one after another, each by a score that may depend on what was chosen before.

    Candidates are private algorithms that return [score, solution] and take a parameter `chosen`: the list of
    [name, solution] of all that were chosen before, which is public. `by="turn"` runs each once, in the order they are
    listed, and chooses it if its score is `above` or more; `by="best"` runs all that are left in every round, and
    chooses the best of them, until none is `above`. It stops after `k` were chosen or when the budget runs out.

    Guarantee: in turn each candidate is one conditional release (`PublishIf`), whose condition depends on what was
    published before; a round of the best is one-shot top-1 (`Top`). So what is chosen is charged, each as one hit of
    an epsilon-DP call, all that is not is free, and the algorithms' deltas are paid whenever they are run. Each step is
    a transaction of its own, and by turn an outcome that was held can be extended by its number. A repeated `request`
    goes on where it was interrupted. A quote is that of the first step.

    Errors: `InvalidParameter` for queries, equal names and a parameter `chosen` of a candidate's own; by turn
    `AlgorithmFailed`, charged, for a candidate that raises. What returns no [score, solution] is not chosen.

    >>> def adds(rows, source, chosen):
    ...     return [10 - 4 * len(chosen), "solution"]
    >>> Greedy([Algorithm("first", adds, epsilon="0.02")], above=5).by
    'turn'
    """

    candidates: Candidates
    _: KW_ONLY
    above: Exact
    k: Whole | None = None
    by: Literal["turn", "best"] = "turn"

    def __post_init__(self) -> None:
        if isinstance(self.candidates, Query):
            raise InvalidParameter("greedy choice is of algorithms; of conditions and keys it is Cover")
        if any("chosen" in algorithm.parameters for algorithm in listed(self.candidates)):
            raise InvalidParameter("chosen is the parameter by which candidates learn what was chosen before")
        check_most(self._most, len(self._algorithms), "candidates")

    def bind(self, spine: Spine) -> Interaction:
        return self._step(self._algorithms, []).bind(spine)

    def perform(self, spine: Spine, request: str | None = None) -> Gathered:
        found: list[Chosen] = []
        calls: list[int] = []
        left, tested = list(self._algorithms), 0
        while left and len(found) < self._most:
            asked = left if self.by == "best" else left[:1]
            own = None if request is None else f"{request}/{len(calls)}"
            try:
                number, chosen = self._told(self._step(asked, found).perform(spine, own), asked)
            except BudgetRefused:
                if not calls:
                    raise
                break
            calls.append(number)
            tested = max(tested, len(self._algorithms) if self.by == "best" else len(calls))
            found += [] if chosen is None else [chosen]
            if self.by == "best" and chosen is None:
                break
            left = left[1:] if self.by == "turn" else [each for each in left if chosen and each.name != chosen.name]
        names = tuple((algorithm.name,) for algorithm in self._algorithms)
        return handed_out(Gathered(calls[-1], ("name",), names, tuple(found), tested, tuple(calls)), spine)

    @property
    def _algorithms(self) -> tuple[Algorithm, ...]:
        return listed(self.candidates)

    @property
    def _most(self) -> int:
        return len(self._algorithms) if self.k is None else self.k

    def _step(self, asked: Sequence[Algorithm], found: Sequence[Chosen]) -> PublishIf | Top:
        public = [[chosen.name, chosen.solution] for chosen in found]
        told = [_knowing(algorithm, public) for algorithm in asked]
        if self.by == "best":
            return Top(told, k=1, above=self.above)
        bar = Fraction(self.above)
        return PublishIf(told[0], when=When(f"score >= {bar}", lambda outcome: _score(outcome) >= bar))

    def _told(self, answer: Any, asked: Sequence[Algorithm]) -> tuple[int, Chosen | None]:
        """The number of the call, and what it chose."""
        if self.by == "best":
            return answer.call, (answer.best[0] if answer.best else None)
        chosen = Chosen(asked[0].name, *answer.value) if answer.published else None
        return answer.call, chosen


def _knowing(algorithm: Algorithm, public: list[Any]) -> Algorithm:
    parameters: Mapping[str, Any] = {**algorithm.parameters, "chosen": public}
    return replace(algorithm, parameters=parameters)


def _score(outcome: Any) -> float | Fraction:
    """The score of an outcome; below all bars for what is no [score, solution]."""
    pair = isinstance(outcome, list) and len(outcome) == 2
    if not pair or isinstance(outcome[0], bool) or not isinstance(outcome[0], (int, float)):
        return float("-inf")
    return Fraction(outcome[0])
