"""Greedy coverage: the candidates that cover most together, each a conditional release of its own."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any, Final

from chary.accounting import Publication
from chary.answers import Key, handed_out
from chary.calls.answers import Conditional
from chary.calls.call import call
from chary.calls.fields import Covering, Whole
from chary.calls.selection.ranking import check_most
from chary.calls.selection.selections import Chosen, Coverage
from chary.calls.thresholds.conditional_release import AskReleaseIf, ReleaseIf
from chary.calls.thresholds.fresh_values import AskSharpRelease
from chary.calls.thresholds.how_sharply import Valued
from chary.core.plan import Interaction
from chary.core.transaction import Spine
from chary.data import Count, Predicate, Query
from chary.data.queries.count import any_of
from chary.errors import BudgetRefused, InvalidQuery

Named = tuple[Key | str, Predicate]
# Each is a transaction of its own, whose question excludes all that were chosen before.
MOST_CANDIDATES: Final = 1000


@call("cover", subject="selection")
class Cover(Valued[Coverage]):
    """Greedy coverage: in turn, a candidate is chosen if at least `above` units have a row in it and none in those
    chosen before, up to noise. Candidates are conditions, or the keys of a count without `keep_per_unit`.

    Guarantee: each candidate is one conditional release, whose question depends on what was published before ([TCT]
    section 4): with `epsilon` an epsilon-DP call with the NotPrior target "published", otherwise a `SharpTest` with a
    fresh value (see `ReleaseIf`); only what is chosen is charged. Each is a transaction of its own: other calls may
    come in between, and with `epsilon` a held one can be revised by its number. It stops after `k` were chosen or when
    the budget runs out. A repeated `request` goes on where it was interrupted. A quote is that of the first candidate.
    """

    candidates: Covering
    _: KW_ONLY
    k: Whole | None = None

    def bind(self, spine: Spine) -> Interaction:
        return self._step(spine, conditions_of(self.candidates)[0][1], [])

    def perform(self, spine: Spine, request: str | None = None) -> Coverage:
        named = conditions_of(self.candidates)
        most = len(named) if self.k is None else self.k
        check_most(most, len(named), "candidates")
        chosen: list[Chosen] = []
        calls: list[int] = []
        found: list[Predicate] = []
        for position, (name, condition) in enumerate(named):
            own = None if request is None else f"{request}/{position}"
            try:
                outcome: Conditional = spine.perform(self._step(spine, condition, found), own)
            except BudgetRefused:
                if not calls:
                    raise
                break
            calls.append(outcome.call)
            if outcome.value is not None:
                chosen.append(Chosen(name, outcome.value))
                found.append(condition)
            if len(chosen) == most:
                break
        told = self._step(spine, named[0][1], []).published()
        return handed_out(self._covered(named, chosen, calls, told), spine)

    def _covered(self, named: list[Named], chosen: list[Chosen], calls: list[int], told: Publication) -> Coverage:
        names = tuple(name for name, _ in named)
        columns = self.candidates.columns if isinstance(self.candidates, Count) else ("condition",)
        keys = tuple(name if isinstance(name, tuple) else (name,) for name in names)
        return Coverage(calls[-1], columns, keys, tuple(chosen), tuple(calls), told, names, self.k or len(names))

    def _step(self, spine: Spine, condition: Predicate, found: list[Predicate]) -> AskReleaseIf | AskSharpRelease:
        query = Count(where=condition, without=any_of(found))
        return ReleaseIf(query, above=self.above, **self.ways).bind(spine)


def conditions_of(candidates: Count | Sequence[Any]) -> list[Named]:
    """Each candidate's name and condition; `InvalidQuery` for what has no conditions, one twice, or more than 1,000."""
    if isinstance(candidates, Count):
        _check_number(len(candidates.keys or ()))
        return list(zip(candidates.keys or (), candidates.conditions(), strict=True))
    if isinstance(candidates, (str, Query)) or not isinstance(candidates, Sequence) or not candidates:
        raise InvalidQuery('candidates are a count with public keys, or conditions such as ["age >= 65", "smoker"]')
    _check_number(len(candidates))
    conditions = [Predicate.parse(condition) if isinstance(condition, str) else condition for condition in candidates]
    if not all(isinstance(condition, Predicate) for condition in conditions):
        raise InvalidQuery('each candidate is a condition, such as "age >= 65"')
    if len(set(conditions)) != len(conditions):
        raise InvalidQuery("candidates must be different conditions")
    return [(condition.text, condition) for condition in conditions]


def _check_number(candidates: int) -> None:
    if candidates > MOST_CANDIDATES:
        raise InvalidQuery(f"give at most {MOST_CANDIDATES:,} candidates, not {candidates:,}")
