"""The black-box boundary: any private algorithm run twice; agreement is free, difference is charged."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from chary.accounting import Event
from chary.calls.algorithms.algorithm import canonical_outcome
from chary.calls.algorithms.calling import failure
from chary.calls.answers import Pair
from chary.calls.call import Bound, Call, call
from chary.calls.fields import Brought
from chary.core.plan import Json, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter
from chary.mechanisms import TwoRuns


@call("call_twice", subject="algorithms")
class Twice(Call[Pair]):
    """Run any private algorithm twice on the same rows: two outcomes that agree are free, two that differ are charged.

    Guarantee: `TwiceCall(epsilon)`, 2 epsilon-DP, with nothing else known of the algorithm (black-box boundary,
    [TCT] section 4); a run that failed is a hit as well. Errors: `InvalidParameter` for an algorithm with a delta;
    `AlgorithmFailed`, charged.
    """

    algorithm: Brought

    def __post_init__(self) -> None:
        if self.algorithm.size[1]:
            raise InvalidParameter("bring an algorithm with delta 0: chary.Algorithm('median', run, epsilon=0.1)")

    def bind(self, spine: Spine) -> "CallTwice":
        return CallTwice(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class CallTwice(Bound[Twice]):
    """The two runs, both of whose outcomes are published."""

    raced = True

    @cached_property
    def mechanism(self) -> TwoRuns:
        """The rule of running twice."""
        return TwoRuns(self.call.algorithm.size[0])

    @cached_property
    def event(self) -> Event:
        return self.mechanism.event()

    def body(self) -> Json:
        return self.call.algorithm.body()

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.call.algorithm.prepare(rows)]

    def run(self, touched: Touched) -> Ran:
        run, rows = self.call.algorithm.outcome, touched.values[0]
        try:
            runs = self.mechanism.step(lambda source: run(rows, source), touched.source)
        except AlgorithmFailed:
            return Ran({"failed": True}, hits=1, tests=1)
        differ = canonical_outcome(runs.first) != canonical_outcome(runs.second)
        return Ran({"first": runs.first, "second": runs.second}, hits=int(differ), tests=1)

    def present(self, answer: Json, call: int) -> Pair:
        if "failed" in answer:
            raise failure(self.call.algorithm.name)
        return Pair(call, answer["first"], answer["second"])
