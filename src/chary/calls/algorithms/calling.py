"""Any private algorithm as a call: priced by its prior, by a q-target, or in full ([TCT] sections 1 and 2)."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Generic

from chary.accounting import Event
from chary.calls.algorithms.algorithm import Algorithm
from chary.calls.algorithms.targets import EVERYTHING, UNSAID, Target, conditional, listed, not_prior
from chary.calls.answers import Outcome
from chary.calls.call import Bound, Call, CallT, call
from chary.calls.fields import Brought, Condition, Positive, Values
from chary.core.plan import Json, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter


@call("call", subject="algorithms")
class Compute(Call[Outcome]):
    """Run any private algorithm once.

    Guarantee: the algorithm's own. With `prior`, an outcome that may depend on everything published before, the
    call is free unless something else comes out (NotPrior). With `target`, a list of declared outcomes, it is free
    unless one of those comes out; `q` is what the caller states about the target (a q-target, theory 1.2). It can be
    left out where the target misses one outcome only, and where the algorithm has `laws`, by which the call is paid
    then. `hit`, a condition on outcomes (`When`), says a target without a list: of declared outcomes it is the list of
    those for which it holds, otherwise it needs its q. With none of these it is always charged, like a release. A run
    that fails is charged like a hit.

    >>> from chary.calls import When
    >>> tree = Algorithm("depth", lambda rows, source: 3, epsilon="0.02", outcomes=list(range(10)))
    >>> Compute(tree, hit=When("deep", lambda depth: depth > 0)).hits().event(tree)
    Targeted(bound=Fraction(1, 50), q=None, failure=Fraction(0, 1))

    Errors: `InvalidParameter` for a target that is no subset of the declared outcomes, for a prior or a target of an
    algorithm with a rho, and for a q above what its laws allow; `AlgorithmFailed`, charged, when it raises or returns
    what is no finite JSON value.
    """

    algorithm: Brought
    _: KW_ONLY
    prior: Any = UNSAID
    target: Values | None = None
    q: Positive | None = None
    hit: Condition | None = None

    def __post_init__(self) -> None:
        said = (self.prior is not UNSAID) + (self.target is not None) + (self.hit is not None)
        if said > 1:
            raise InvalidParameter("give a prior (all else hits), a target or a condition (hit=), only one of them")
        if self.q is not None and not said:
            raise InvalidParameter("q belongs to a target: give target= as well")

    def bind(self, spine: Spine) -> "AskAlgorithm":
        return AskAlgorithm(self, spine.rows.neighbouring)

    def hits(self) -> Target:
        """What is paid; refuses what is no target."""
        if self.target is not None:
            return listed(self.algorithm, tuple(self.target), self.q)
        if self.hit is not None:
            return conditional(self.algorithm, self.hit, self.q)
        return EVERYTHING if self.prior is UNSAID else not_prior(self.algorithm, self.prior, self.q)


@dataclass(frozen=True)
class RunOnce(Bound[CallT], Generic[CallT]):
    """One run of a private algorithm; its outcome is published."""

    @property
    @abstractmethod
    def algorithm(self) -> Algorithm:
        """What is run."""

    @property
    @abstractmethod
    def target(self) -> Target:
        """What is paid."""

    @cached_property
    def event(self) -> Event:
        return self.target.event(self.algorithm)

    def body(self) -> Json:
        return self.algorithm.body() | self.target.told

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.algorithm.prepare(rows)]

    def run(self, touched: Touched) -> Ran:
        tests = int(not self.target.whole)
        try:
            value = self.algorithm.outcome(touched.values[0], touched.source)
            hit = self.target.hits(value)
        except AlgorithmFailed:
            return Ran({"failed": True, "hit": True}, hits=tests, tests=tests)
        return Ran({"value": value, "hit": hit}, hits=int(hit) * tests, tests=tests)

    def told(self, answer: Json) -> Any:
        """The outcome; `AlgorithmFailed` if there is none."""
        if "failed" in answer:
            raise failure(self.algorithm.name, judged="hit" in self.target.told)
        return answer["value"]


@dataclass(frozen=True)
class AskAlgorithm(RunOnce[Compute]):
    """The run, as it is paid for."""

    raced = True

    @property
    def algorithm(self) -> Algorithm:
        return self.call.algorithm

    @cached_property
    def target(self) -> Target:
        return self.call.hits()

    @cached_property
    def event(self) -> Event:
        return self.target.event_by_laws(self.algorithm)

    def present(self, answer: Json, call: int) -> Outcome:
        return Outcome(call, self.told(answer), answer["hit"])


def failure(name: str, *, judged: bool = False) -> AlgorithmFailed:
    """The error for an algorithm of this name, or for a condition that judged its outcome."""
    by = f"the algorithm {name!r} or the condition on its outcome" if judged else f"the algorithm {name!r}"
    return AlgorithmFailed(f"{by} raised, or returned what is no finite JSON value; charged")
