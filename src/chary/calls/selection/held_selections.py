"""A selection that holds what it does not publish, and its revisions: the same outcomes against another condition."""

import json
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Any, Final

from chary.calls.algorithms.algorithm import canonical_outcome
from chary.calls.call import Call, call
from chary.calls.extending import Extending
from chary.calls.fields import Condition, Exact, Whole
from chary.calls.selection.candidates import Scored, published
from chary.calls.selection.selections import Chosen, Selected
from chary.core.history import earlier
from chary.core.plan import Json, Ran, Touched
from chary.core.transaction import Spine
from chary.errors import AlgorithmFailed, InvalidParameter, UnknownHeld
from chary.mechanisms.additive import padded, unpadded

# Beside each outcome its position and what separates it from the next.
_BESIDE: Final = 32
# All of it is written whenever a selection holds outcomes.
MOST_ROOM: Final = 2**24

Pairs = dict[int, tuple[Any, Any]]


@call("reselect", subject="selection")
class Reselect(Call[Selected]):
    """Publish what a selection held (`Select` with `room`) if it meets another condition; no data are read.

    The condition is a bar `above` for scores, or `when` of [score, solution]. Candidates come in the order they were
    listed; what was published before is told no more, and what still does not meet the condition stays held.

    Guarantee: for each candidate an extension of its target (`Extendable`, [TCT] Algorithm 2) by the outcomes that meet
    this condition and none before: the selection and all its revisions together hit at most once for each. Each that
    is published now is charged like one of the selection, and none where the selection was charged hit or miss. When
    the budget cannot pay for all that may hit it halts at the last one that fits; later candidates stay held. Where
    the condition raises, the candidate is a hit that failed, and held no more.

    Errors: `UnknownHeld` when that call holds nothing; `InvalidParameter` unless one of `above` and `when` is given.
    """

    held: Whole
    _: KW_ONLY
    above: Exact | None = None
    when: Condition | None = None

    def __post_init__(self) -> None:
        if (self.above is None) == (self.when is None):
            raise InvalidParameter("give another bar, above=, or a condition on [score, solution], when=")

    def bind(self, spine: Spine) -> "AskReselect":
        original = earlier(spine, self.held, "select", "a selection")
        if "room" not in original:
            raise UnknownHeld(f"call {self.held} holds no outcomes: a selection keeps them with room= only")
        return AskReselect(self, spine.rows.neighbouring, original)


@dataclass(frozen=True)
class AskReselect(Extending[Reselect]):
    """The revision, as it is run."""

    halts = True

    @property
    def held(self) -> int:
        return self.call.held

    @property
    def parallel(self) -> int:
        found: int = self.original["parallel"]
        return found

    def run(self, touched: Touched) -> Ran:
        kept, tested = restored(touched.secret or b""), 0
        found: dict[int, Scored] = {}
        while tested < self.parallel and len(found) != touched.most_hits:
            if tested in kept and (met := self._met(kept[tested])) is not False:
                outcome = kept.pop(tested)
                found[tested] = outcome if met else None
            tested += 1
        told = published(list(found), list(found.values()), tests=tested)
        return replace(told, secrets={self.held: stored(kept, self.original["room"], self.parallel)})

    def _met(self, outcome: tuple[Any, Any]) -> bool | None:
        """Whether the outcome is published; None if the condition raised."""
        if self.call.above is not None:
            return bool(outcome[0] >= Fraction(self.call.above))
        try:
            return self.call.when is not None and self.call.when(list(outcome))
        except AlgorithmFailed:
            return None

    def present(self, answer: Json, call: int) -> Selected:
        names = [each["algorithm"] for each in self.original["candidates"]]
        parts = zip(answer["positions"], answer["scores"], answer["solutions"], strict=True)
        above = tuple(Chosen(names[position], *outcome) for position, *outcome in parts)
        return Selected(call, ("name",), tuple((name,) for name in names), above, answer["tested"])


def fitting(outcome: Scored, room: int) -> Scored:
    """The outcome if there is room for it; one that does not fit has failed, like a run that raised."""
    if outcome is None or len(canonical_outcome(list(outcome)).encode()) > room:
        return None
    return outcome


def stored(outcomes: Pairs, room: int, candidates: int) -> bytes:
    """Held outcomes by their positions, in a length that tells nothing of them."""
    told = json.dumps([[position, *outcome] for position, outcome in outcomes.items()], separators=(",", ":"))
    return padded(told.encode(), (room + _BESIDE) * candidates)


def restored(secret: bytes) -> Pairs:
    """What `stored` was given."""
    kept: Iterable[list[Any]] = json.loads(unpadded(secret))
    return {position: (score, solution) for position, score, solution in kept}


def check_room(room: int, candidates: int) -> None:
    """Refuse more than a ledger should hold."""
    if room * candidates > MOST_ROOM:
        raise InvalidParameter(f"room for all candidates must be at most {MOST_ROOM} bytes, which they take together")
