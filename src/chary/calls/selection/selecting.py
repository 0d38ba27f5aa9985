"""All candidates that reach a bar, paid by what is published."""

from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting import Event, Targeted
from chary.calls.call import call
from chary.calls.fields import Candidates, Whole
from chary.calls.selection.candidates import Scored, SideBySide, listed, published
from chary.calls.selection.covering import conditions_of
from chary.calls.selection.held_selections import Pairs, check_room, fitting, stored
from chary.calls.selection.public_candidates import SelectByNoise, SelectSharply
from chary.calls.selection.selections import Selected
from chary.calls.thresholds.how_sharply import Valued
from chary.calls.thresholds.watching import keyed
from chary.core.plan import Json, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Count, Predicate, Query
from chary.errors import InvalidParameter


@call("select", subject="selection")
class Select(Valued[Selected]):
    """All candidates that reach a bar, in the order they are listed, with their scores: keys of a query, conditions or
    private algorithms.

    Guarantee: an algorithm, whose outcomes are [score, solution], is one (epsilon, delta)-DP call with the NotPrior
    target "published" ([TCT] section 4); one that fails reaches no bar, and the deltas of all are paid. A counted
    candidate is tested as a key of `Watch` is: by `hits`, `price` or `within` each is a `SharpTest` with a fresh value,
    by `epsilon` an epsilon-DP call, and many against too low a bar are refused alike (see `Threshold`). One unit may
    meet all conditions, and be in as many keys as the query says. When the budget cannot pay for that many hits it
    halts at the last one that fits; later candidates are `untested`.

    With `room`, outcomes of algorithms that were not published are held as secret state, of so many bytes each in the
    ledger, and can be published by another condition (`Reselect`); one that does not fit has failed.
    """

    candidates: Candidates
    _: KW_ONLY
    room: Whole | None = None

    def __post_init__(self) -> None:
        if _counted(self.candidates):
            super().__post_init__()
            if self.room is not None:
                raise InvalidParameter("only outcomes of algorithms are held: leave room= out")
        elif self.ways:
            raise InvalidParameter("algorithms bring their own epsilon: say nothing of how sharply they are tested")
        elif self.room is not None:
            check_room(self.room, len(listed(self.candidates)))

    def bind(self, spine: Spine) -> "SelectAbove | SelectByNoise | SelectSharply":
        neighbouring = spine.rows.neighbouring
        if not _counted(self.candidates):
            return SelectAbove(self, neighbouring, listed(self.candidates))
        asked = self.candidates
        query = keyed(asked) if isinstance(asked, Query) else Count(where=conditions_of(asked)[0][1])
        if self.epsilon is not None:
            return SelectByNoise(self, neighbouring, query)
        sharpness = self.sharpness(spine.filter, query.sensitivity(neighbouring), query.grid, self.value_share)
        return SelectSharply(self, neighbouring, query, sharpness)


def _counted(candidates: Any) -> bool:
    """Whether candidates are counted: keys or conditions, not algorithms."""
    counted = isinstance(candidates, (list, tuple)) and any(isinstance(each, (str, Predicate)) for each in candidates)
    return counted or isinstance(candidates, Query)


@dataclass(frozen=True)
class SelectAbove(SideBySide[Select]):
    """The selection, as it is run."""

    halts = True

    @cached_property
    def event(self) -> Event:
        return Targeted(self.epsilon_each, None, self.delta_each)

    def body(self) -> Json:
        held = {} if self.call.room is None else {"room": self.call.room}
        return super().body() | {"above": str(self.call.above)} | held

    def run(self, touched: Touched) -> Ran:
        found: list[int] = []
        outcomes: list[Scored] = []
        held: Pairs = {}
        tested, room = 0, self.call.room
        while tested < self.parallel and len(found) != touched.most_hits:
            outcome = self.scored(tested, touched)
            if outcome is not None and outcome[0] >= Fraction(self.call.above):
                found.append(tested)
                outcomes.append(outcome)
            elif room is not None and (kept := fitting(outcome, room)) is not None:
                held[tested] = kept
            tested += 1
        told = published(found, outcomes, tests=tested)
        return told if room is None else replace(told, secret=stored(held, room, self.parallel))

    def present(self, answer: Json, call: int) -> Selected:
        keys = tuple((algorithm.name,) for algorithm in self.algorithms)
        return Selected(call, ("name",), keys, self.chosen(answer), answer["tested"])
