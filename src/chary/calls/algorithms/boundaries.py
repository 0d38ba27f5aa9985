"""Any algorithm whose law is known, in the boundary wrapper: an outcome that is nearly certain is nearly free."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary import noise
from chary.accounting import Event
from chary.calls.algorithms.algorithm import Algorithm, plain_outcome
from chary.calls.algorithms.calling import failure
from chary.calls.answers import Classified
from chary.calls.call import Bound, Call, call
from chary.calls.fields import Brought
from chary.data import Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter
from chary.mechanisms import BOUNDARY
from chary.mechanisms import BoundaryWrapper as Wrapper
from chary.spine.interaction import Json, Ran, Touched
from chary.spine.spine import Spine


@call("boundary", subject="algorithms")
class Boundary(Call[Classified]):
    """The outcome of any algorithm whose law is known, free while it is clear; "boundary", which is charged, if not.

    The algorithm declares its outcomes and their exact `probabilities`; it is these that are drawn from.

    Guarantee: the algorithm inside the boundary wrapper, `BoundaryCall(epsilon)` for so many outcomes, a call of 4/3
    epsilon at most whose q-target is "boundary" ([TCT] Algorithm 4). Errors: `InvalidParameter` for an algorithm
    without outcomes or probabilities, with a delta or a rho; `AlgorithmFailed`, charged, for probabilities that raise
    or are no law, which their author vouches not to happen.

    >>> from chary import Algorithm
    >>> def law(rows):
    ...     odd = Fraction(11 if rows.num_rows % 2 else 10, 21)
    ...     return [odd, 1 - odd]
    >>> odd = Algorithm("odd", lambda rows, source: 0, epsilon="0.1", outcomes=["odd", "even"], probabilities=law)
    >>> Boundary(odd).kind
    'boundary'
    """

    algorithm: Brought

    def __post_init__(self) -> None:
        if self.algorithm.size[1]:
            raise InvalidParameter("an algorithm in the boundary wrapper has no delta")
        if self.algorithm.probabilities is None or len(self.algorithm.outcomes or ()) < 2:
            raise InvalidParameter("say what can come out and how likely: Algorithm(..., outcomes=, probabilities=)")

    def bind(self, spine: Spine) -> "AskBoundary":
        return AskBoundary(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class _Stated:
    """An algorithm as a mechanism that knows the law of its outcome's position."""

    algorithm: Algorithm

    @property
    def epsilon(self) -> Fraction:
        """Its pure privacy."""
        return self.algorithm.size[0]

    @property
    def outcomes(self) -> int:
        """How many it declares."""
        return len(self.algorithm.outcomes or ())

    def law(self, value: Any) -> noise.FiniteLaw:
        """The law that its author states for these rows."""
        return self.algorithm.law(value)


@dataclass(frozen=True)
class AskBoundary(Bound[Boundary]):
    """The wrapped algorithm, as it is run."""

    @cached_property
    def mechanism(self) -> Wrapper[Any]:
        """The wrapper; refuses calls that are too large for it."""
        return Wrapper(_Stated(self.call.algorithm))

    @cached_property
    def event(self) -> Event:
        return self.mechanism.event()

    def body(self) -> Json:
        return self.call.algorithm.body() | {"outcomes": plain_outcome(self.call.algorithm.outcomes)}

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.call.algorithm.prepare(rows)]

    def run(self, touched: Touched) -> Ran:
        try:
            outcome = self.mechanism.step(touched.values[0], touched.source)
        except AlgorithmFailed:
            return Ran({"failed": True}, hits=1, tests=1)
        return Ran({"outcome": outcome}, hits=int(outcome == BOUNDARY), tests=1)

    def present(self, answer: Json, call: int) -> Classified:
        if "failed" in answer:
            raise failure(self.call.algorithm.name)
        if answer["outcome"] == BOUNDARY:
            return Classified(call, BOUNDARY, clear=False)
        return Classified(call, plain_outcome((self.call.algorithm.outcomes or ())[answer["outcome"]]), clear=True)
