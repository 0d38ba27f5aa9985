"""Selection among many candidates: the best few, all above a bar, and those that cover most together."""

from collections.abc import Sequence

from chary.data import Count, Predicate, Query
from chary.data.count import any_of
from chary.errors import BudgetRefused, InvalidParameter, InvalidQuery
from chary.numbers import Number, whole
from chary.session.algorithm import Algorithm
from chary.session.candidates import SelectAbove, TopAlgorithms
from chary.session.conditional import ReleaseIf
from chary.session.door import Door
from chary.session.interaction import Interaction, error_bar
from chary.session.ranking import TopKeys, check_most
from chary.session.results import Conditional, Key
from chary.session.selections import Chosen, Coverage, Selected, Top

Named = tuple[Key | str, Predicate]


class Selecting(Door):
    """Choosing among candidates; what is paid depends on how many are published, not on how many there are."""

    def top(
        self,
        candidates: Query | Sequence[Algorithm],
        *,
        k: int,
        epsilon: Number | None = None,
        gap: Number | None = None,
        above: Number | None = None,
        request: str | None = None,
    ) -> Top:
        """The best `k` candidates with their noisy scores, best first; of equal scores the earlier candidate.

        Candidates are the keys of a query (a series has its positions), each with noise for `epsilon`, or private
        algorithms that return [score, solution] and bring their own epsilons. `gap` ends the list where the next score
        is more than this below the last one, `above` where it is below a bar.

        Guarantee: each candidate is epsilon-DP on its own (`Extendable`); a hit is charged for each that is published,
        at most as many as neighbours can differ in, whatever the number of candidates ([TCT] Algorithm 3, one-shot).
        Deltas of all algorithms are paid; the largest of their epsilons prices all.

        Errors: `InvalidParameter` for fewer than k candidates, equal names or a missing epsilon. An algorithm that
        raises or returns no finite score ranks below all others; if it is published all the same it is `failed`. If all
        fail, `AlgorithmFailed`, charged.
        """
        answer: Top = self.spine.perform(self._topping(candidates, k, epsilon, gap, above), request)
        return answer

    def select(self, candidates: Sequence[Algorithm], *, above: Number, request: str | None = None) -> Selected:
        """All private algorithms whose score reaches a bar, with scores and solutions, in the order they are listed.

        Guarantee: each is one epsilon-DP call with the NotPrior target "published" ([TCT] section 4). When the budget
        cannot pay for all of them it halts at the last hit that fits; later algorithms are `untested`. One that fails
        reaches no bar. Deltas of all algorithms are paid. Keys of a query are selected by `watch`.
        """
        if isinstance(candidates, Query):
            raise InvalidQuery("the keys of a query are selected by session.watch(query, above=..., epsilon=...)")
        answer: Selected = self.spine.perform(SelectAbove(_listed(candidates), above), request)
        return answer

    def cover(
        self,
        candidates: Count | Sequence[Predicate | str],
        *,
        above: Number,
        epsilon: Number,
        k: int | None = None,
        request: str | None = None,
    ) -> Coverage:
        """Greedy coverage: in turn, a candidate is chosen if at least `above` units have a row in it and none in those
        chosen before, up to noise. Candidates are conditions, or the keys of a count without `keep_per_unit`.

        Guarantee: each candidate is one conditional release, an epsilon-DP call with the NotPrior target "published"
        whose question depends on what was published before ([TCT] section 4); only what is chosen is charged. Each is
        a transaction of its own: other calls may come in between, and a held one can be revised by its number. It stops
        after `k` were chosen or when the budget runs out. A repeated `request` goes on where it was interrupted.
        """
        named = _conditions(candidates)
        most = len(named) if k is None else whole(k, "k")
        check_most(most, len(named), "candidates")
        chosen: list[Chosen] = []
        calls: list[int] = []
        found: list[Predicate] = []
        bar = None
        for position, (name, condition) in enumerate(named):
            step = self._step(condition, found, above, epsilon)
            own = None if request is None else f"{request}/{position}"
            try:
                outcome: Conditional = self.spine.perform(step, own)
            except BudgetRefused:
                if not calls:
                    raise
                break
            calls.append(outcome.call)
            bar = error_bar(step.accuracy())
            if outcome.value is not None:
                chosen.append(Chosen(name, outcome.value))
                found.append(condition)
            if len(chosen) == most:
                break
        return Coverage(tuple(name for name, _ in named), tuple(chosen), tuple(calls), bar)

    def _step(self, condition: Predicate, found: list[Predicate], above: Number, epsilon: Number) -> ReleaseIf:
        query = Count(where=condition, without=any_of(found))
        return ReleaseIf(query, self.spine.rows.neighbouring, above, epsilon)

    def _topping(
        self,
        candidates: Query | Sequence[Algorithm],
        k: int,
        epsilon: Number | None,
        gap: Number | None,
        above: Number | None,
    ) -> Interaction:
        if not isinstance(candidates, Query):
            if epsilon is not None:
                raise InvalidParameter("algorithms bring their own epsilon: leave epsilon= out")
            return TopAlgorithms(_listed(candidates), k, gap, above)
        if candidates.keys is None:
            raise InvalidQuery('top needs public keys, such as count().by("clinic", ["a", "b"])')
        if epsilon is None:
            raise InvalidParameter("say how noisy each key may be, such as epsilon=0.02")
        return TopKeys(candidates, self.spine.rows.neighbouring, k, epsilon, gap, above)


def _listed(candidates: Sequence[Algorithm]) -> tuple[Algorithm, ...]:
    return tuple(candidates) if isinstance(candidates, (list, tuple)) else ()


def _conditions(candidates: Count | Sequence[Predicate | str]) -> list[Named]:
    """Each candidate's name and condition; `InvalidQuery` for what has no conditions or has one twice."""
    if isinstance(candidates, Count):
        conditions = candidates.conditions()
        return list(zip(candidates.keys or (), conditions, strict=True))
    if isinstance(candidates, (str, Query)) or not candidates:
        raise InvalidQuery('candidates are a count with public keys, or conditions such as ["age >= 65", "smoker"]')
    conditions = [Predicate.parse(condition) if isinstance(condition, str) else condition for condition in candidates]
    if not all(isinstance(condition, Predicate) for condition in conditions):
        raise InvalidQuery('each candidate is a condition, such as "age >= 65"')
    if len(set(conditions)) != len(conditions):
        raise InvalidQuery("candidates must be different conditions")
    return [(condition.text, condition) for condition in conditions]
