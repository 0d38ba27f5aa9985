"""What an earlier call withheld: published later, by a lower threshold or another condition."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from fractions import Fraction
from typing import Any, Final

from chary.accounting import Extendable
from chary.calls.call import Call, call, kinds
from chary.calls.fields import Condition, Exact, Whole
from chary.core.plan import AnswerT, Data, Json, PerHit, Plan, Result
from chary.core.transaction import Spine, numbered
from chary.errors import InvalidParameter, NotWithheld


@call(
    "widen",
    subject="thresholds",
    publishes="revise",
    meanings={
        "above": "The threshold, lower than before: at or above it is a hit.",
    },
)
class Widen(Call[Any]):
    """Publish what an earlier call withheld, if it meets another condition. No data are read, also after a restart.

    The condition is a threshold `above`, lower than before, for the value that a `ReleaseIf` with `epsilon` withheld,
    or for the scores of a `Select` with `room`. Or it is `when`, for the outcome of a `PublishIf`, or for each
    [score, solution] of a `Select`. Candidates come in the order they were listed. What was published before is
    reported no more, and what still does not meet the condition stays withheld.

    Guarantee: an extension of the target of that call (`Extendable`, [TCT] Algorithm 2) by the outcomes that meet this
    condition and none before. That call and all that widen it hit at most once together, a selection once for each
    candidate. What is published now is charged like a hit of that call. It is free where that call was charged hit or
    miss, which paid for the outcome. When the budget cannot pay for all candidates that may hit it halts at the last
    one that fits; later ones stay withheld.

    Errors: `NotWithheld` when that call withholds nothing. `InvalidParameter` unless one of `above` and `when` is
    given and fits that call, and for a threshold of a release that is not below the last one tried. A
    condition that raises makes the outcome a hit that failed, which is withheld no more: `AlgorithmFailed`, charged, or
    a candidate that `failed`.
    """

    # A condition is code, which no command line can give.
    stated = "above"
    held: Whole
    _: KW_ONLY
    above: Exact | None = None
    when: Condition | None = None

    def __post_init__(self) -> None:
        if (self.above is None) == (self.when is None):
            raise InvalidParameter("give a lower threshold, above=, or another condition, when=")

    @property
    def numeric(self) -> bool:
        return True

    def plan(self, spine: Spine) -> Plan[Any]:
        earlier = numbered(spine, self.held)
        known = kinds().get(earlier.kind, Call)
        if earlier.dataset != spine.dataset:
            raise NotWithheld(f"call {self.held} withholds nothing of this dataset")
        return known.widened(self, earlier.question, spine)


# The calls that extend one target have one hit together, which is what is charged.
EXTENDS: Final = PerHit(adds_up=False, extends=True)


def extension(
    widen: Widen,
    kind: str,
    original: Json,
    run: Callable[[Data], Result],
    present: Callable[[Json, int], AnswerT],
    check: Callable[[bytes], None] | None = None,
    cost: PerHit = EXTENDS,
) -> Plan[AnswerT]:
    """The plan that publishes the stored outcome of the call with the body `original`; ledgers store it as this kind.

    It reads no rows, and is free where the filter charged the first call hit or miss. `check` refuses what the stored
    outcome rules out.
    """

    def holds(secret: bytes | None) -> None:
        if secret is None:
            raise NotWithheld(f"call {widen.held} holds no outcome: it was published, or the call was interrupted")
        if check is not None:
            check(secret)

    event = Extendable(Fraction(original["epsilon"]))
    return Plan(kind, widen.text(), event, run, present, cost=cost, state=widen.held, check=holds)
