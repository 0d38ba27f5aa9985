"""The black-box boundary: any private algorithm run twice; agreement is free, difference is charged."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from chary.accounting import Event
from chary.data import Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter
from chary.mechanisms import Twice
from chary.session.algorithm import Algorithm, canonical_outcome
from chary.session.interaction import Interaction, Json, Ran, Touched
from chary.session.results import Pair


@dataclass(frozen=True)
class CallTwice(Interaction):
    """One algorithm run twice on the same rows, both outcomes published.

    Guarantee: `TwiceCall(epsilon)`, 2 epsilon-DP; a hit is that the outcomes differ or that a run failed. Nothing else
    need be known of the algorithm ([TCT] section 4).
    """

    algorithm: Algorithm
    kind = "call_twice"

    def __post_init__(self) -> None:
        if not isinstance(self.algorithm, Algorithm) or self.algorithm.size[1]:
            raise InvalidParameter("bring an algorithm with delta 0: chary.Algorithm('median', run, epsilon=0.1)")

    @cached_property
    def mechanism(self) -> Twice:
        """The rule of running twice."""
        return Twice(self.algorithm.size[0])

    @cached_property
    def event(self) -> Event:
        return self.mechanism.event()

    def body(self) -> Json:
        return self.algorithm.body()

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.algorithm.prepare(rows)]

    def run(self, touched: Touched) -> Ran:
        try:
            runs = self.mechanism.step(lambda source: self.algorithm.outcome(touched.values[0], source), touched.source)
        except AlgorithmFailed:
            return Ran({"failed": True}, hits=1, tests=1)
        differ = canonical_outcome(runs.first) != canonical_outcome(runs.second)
        return Ran({"first": runs.first, "second": runs.second}, hits=int(differ), tests=1)

    def present(self, answer: Json, call: int) -> Pair:
        if "failed" in answer:
            name = self.algorithm.name
            raise AlgorithmFailed(f"the algorithm {name!r} raised, or returned what is no finite JSON value; charged")
        return Pair(call, answer["first"], answer["second"])
