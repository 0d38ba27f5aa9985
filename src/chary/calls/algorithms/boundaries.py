"""Any algorithm whose law is known, in the boundary wrapper: an outcome that is nearly certain is nearly free."""

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from chary import noise
from chary.accounting import Event, UnanimousCall
from chary.calls.algorithms.algorithm import Algorithm, canonical_outcome, plain_outcome
from chary.calls.algorithms.calling import failure
from chary.calls.answers import Classified
from chary.calls.call import Bound, Call, call
from chary.calls.fields import Brought, Whole
from chary.core.plan import Json, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter
from chary.mechanisms import BOUNDARY
from chary.mechanisms import BoundaryWrapper as Wrapper

# More runs settle nothing that these do not, and each one takes its time.
_MOST_RUNS: Final = 1000


@call("boundary", subject="algorithms")
class Boundary(Call[Classified]):
    """The outcome of any algorithm whose law is known, free while it is clear; "boundary", which is charged, if not.

    The algorithm declares its outcomes and their exact `probabilities`; it is these that are drawn from. With `runs`
    nothing need be known of it: it is run so often, and what all runs agree on is published, else "boundary".

    Guarantee: the algorithm inside the boundary wrapper, `BoundaryCall(epsilon)` for so many outcomes, a call of 4/3
    epsilon at most whose q-target is "boundary" ([TCT] Algorithm 4). With runs
    `UnanimousCall(epsilon, runs)` (ours); a run that failed agrees with none. Errors: `InvalidParameter` for an
    algorithm without outcomes or probabilities where there are no runs, with a delta or a rho, or not 2 to 1000 runs;
    `AlgorithmFailed`, charged, for probabilities that raise or are no law, which their author vouches not to happen.

    >>> from chary import Algorithm
    >>> def law(rows):
    ...     odd = Fraction(11 if rows.num_rows % 2 else 10, 21)
    ...     return [odd, 1 - odd]
    >>> odd = Algorithm("odd", lambda rows, source: 0, epsilon="0.1", outcomes=["odd", "even"], probabilities=law)
    >>> Boundary(odd).kind
    'boundary'
    """

    algorithm: Brought
    _: KW_ONLY
    runs: Whole | None = None

    def __post_init__(self) -> None:
        if self.algorithm.size[1]:
            raise InvalidParameter("an algorithm in the boundary wrapper has no delta")
        if self.runs is not None:
            if self.runs < 2:
                raise InvalidParameter("one run agrees with itself: Boundary(algorithm, runs=2) or more")
            if self.runs > _MOST_RUNS:
                raise InvalidParameter(f"an algorithm is run at most {_MOST_RUNS} times in one call")
        elif self.algorithm.probabilities is None or len(self.algorithm.outcomes or ()) < 2:
            raise InvalidParameter(
                "say what can come out and how likely: Algorithm(..., outcomes=, probabilities=); or runs=2"
            )

    def bind(self, spine: Spine) -> "AskBoundary":
        return (AskBoundary if self.runs is None else AskUnanimous)(self, spine.rows.neighbouring)


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

    raced = True

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


class AskUnanimous(AskBoundary):
    """The runs of an algorithm of which nothing is known. All are made, whatever the first ones return."""

    @cached_property
    def event(self) -> Event:
        return UnanimousCall(self.call.algorithm.size[0], self.call.runs or 2)

    def body(self) -> Json:
        return self.call.algorithm.body() | {"runs": self.call.runs}

    def run(self, touched: Touched) -> Ran:
        found = [self._once(touched) for _ in range(self.call.runs or 2)]
        if None in found or len(set(found)) > 1:
            return Ran({"outcome": BOUNDARY}, hits=1, tests=1)
        return Ran({"agreed": json.loads(found[0] or "")}, hits=0, tests=1)

    def _once(self, touched: Touched) -> str | None:
        """One outcome, canonically; None, which agrees with nothing, if the run failed."""
        try:
            return canonical_outcome(self.call.algorithm.outcome(touched.values[0], touched.source))
        except AlgorithmFailed:
            return None

    def present(self, answer: Json, call: int) -> Classified:
        if "agreed" in answer:
            return Classified(call, answer["agreed"], clear=True)
        return Classified(call, BOUNDARY, clear=False)
