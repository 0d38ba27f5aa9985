"""Any private algorithm as a call: priced by its prior, by a q-target, or in full; and once more with the last answer
as the prior, so that only a change is paid ([TCT] sections 1 and 2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from chary.accounting import Event, Targeted
from chary.data import Neighbouring, Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter, InvalidQuery
from chary.mechanisms import Additive, Laplace
from chary.numbers import Number, positive
from chary.session.algorithm import Algorithm, canonical_outcome, plain_outcome
from chary.session.interaction import Interaction, Json, Ran, Touched, error_bar, laplace_for, natural
from chary.session.results import Outcome, Tracked


class Unsaid(Enum):
    """Where the caller said nothing; None is an outcome like any other."""

    UNSAID = "unsaid"

    def __repr__(self) -> str:
        return self.name


UNSAID: Final = Unsaid.UNSAID


@dataclass(frozen=True)
class Call(Interaction):
    """One run of a private algorithm.

    Guarantee: that of the algorithm, as a `Pure`, `Approximate` or `ZeroConcentrated` event without a target, as
    `Targeted` with a `prior` (all outcomes but that one hit) or with a `target` of which the caller states that it is a
    q-target; an algorithm with a rho has neither. A run that fails is charged like a hit.
    """

    algorithm: Algorithm
    prior: Any = UNSAID
    target: Sequence[Any] | None = None
    q: Number | None = None
    kind = "call"

    def __post_init__(self) -> None:
        if not isinstance(self.algorithm, Algorithm):
            raise InvalidParameter('bring an algorithm: chary.Algorithm("median", run, epsilon=0.1)')
        if self.prior is not UNSAID and self.target is not None:
            raise InvalidParameter("give a prior (all else hits) or a target, not both")
        if self.q is not None and self.prior is UNSAID and self.target is None:
            raise InvalidParameter("q belongs to a target: give target= as well")
        self.event  # noqa: B018 - refuses a target that is none

    @cached_property
    def event(self) -> Event:
        free = self._free
        if free is not None and not free:
            return self.algorithm.event
        if free is None and self.prior is UNSAID:
            return self.algorithm.event
        if free is not None and len(free) > 1 and self.q is None:
            raise InvalidParameter("a target that leaves several outcomes free needs its q=, see docs/theory.md")
        epsilon, delta = self.algorithm.size
        return Targeted(epsilon, self.q, delta)

    @cached_property
    def _free(self) -> set[str] | None:
        """The declared outcomes outside of the target, canonically; None where none are declared."""
        declared = self.algorithm.outcomes
        if self.target is not None and declared is None:
            raise InvalidParameter("a target is a set of declared outcomes: give the algorithm outcomes=[...]")
        if declared is None:
            return None
        known = {canonical_outcome(outcome) for outcome in declared}
        named = () if self.prior is UNSAID else (self.prior,)
        if not {canonical_outcome(outcome) for outcome in (*named, *(self.target or ()))} <= known:
            raise InvalidParameter("the target (or the prior) is not among the algorithm's declared outcomes")
        if self.target is None:
            return {canonical_outcome(outcome) for outcome in named}
        if not self.target:
            raise InvalidParameter("an empty target is never hit: name at least one outcome")
        return known - {canonical_outcome(outcome) for outcome in self.target}

    def body(self) -> Json:
        return self.algorithm.body() | self._target()

    def _target(self) -> Json:
        q = {} if self.q is None else {"q": str(self.q)}
        if self.target is not None:
            return {"target": [plain_outcome(outcome) for outcome in self.target]} | q
        return q if self.prior is UNSAID else {"prior": plain_outcome(self.prior)} | q

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.algorithm.prepare(rows)]

    def run(self, touched: Touched) -> Ran:
        paid = not isinstance(self.event, Targeted)
        try:
            value = self.algorithm.outcome(touched.values[0], touched.source)
        except AlgorithmFailed:
            return Ran({"failed": True, "hit": True}, hits=int(not paid), tests=int(not paid))
        hit = paid or self._hits(value)
        return Ran({"value": value, "hit": hit}, hits=int(hit and not paid), tests=int(not paid))

    def _hits(self, value: Any) -> bool:
        if self._free is not None:
            return canonical_outcome(value) not in self._free
        return canonical_outcome(value) != canonical_outcome(self.prior)

    def present(self, answer: Json, call: int) -> Outcome:
        if "failed" in answer:
            name = self.algorithm.name
            raise AlgorithmFailed(f"the algorithm {name!r} raised, or returned what is no finite JSON value; charged")
        return Outcome(call, answer["value"], answer["hit"])


@dataclass(frozen=True)
class CallAgain(Call):
    """The same algorithm once more; which outcome was the prior is told by the answer, not by the question."""

    kind = "track"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.algorithm.size  # noqa: B018 - refuses a rho, which the second time could have no prior

    def body(self) -> Json:
        return self.algorithm.body()


@dataclass(frozen=True)
class Track(Interaction):
    """A noisy value rounded to a multiple of `step`, paid when it is not the `prior` (None: nothing is known yet).

    Guarantee: one epsilon-DP call with the NotPrior target "another multiple than the last one".
    """

    query: Query
    neighbouring: Neighbouring
    step: Number
    epsilon: Number
    prior: int | None = field(default=None)
    kind = "track"

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query) or self.query.keys is not None:
            raise InvalidQuery("track a single count or total, or an Algorithm")
        for name in ("step", "epsilon"):
            object.__setattr__(self, name, positive(getattr(self, name), name))
        self.noise  # noqa: B018 - refuses noise out of range

    @cached_property
    def noise(self) -> Laplace:
        """The noise before rounding."""
        return laplace_for(self.query, self.neighbouring, self.epsilon)

    @cached_property
    def event(self) -> Event:
        return Targeted(self.epsilon)

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, self.query.grid

    def body(self) -> Json:
        return {"query": self.query.body(), "step": str(self.step), "epsilon": str(self.epsilon)}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        noisy = int(self.noise.apply(touched.integers(), touched.source)[0])
        cell = (noisy * self.query.grid / Fraction(self.step) + Fraction(1, 2)).__floor__()
        hit = cell != self.prior
        return Ran({"value": cell, "hit": hit}, hits=int(hit), tests=1)

    def present(self, answer: Json, call: int) -> Tracked:
        bar = float(self.step) / 2 + (error_bar(self.accuracy()) or 0.0)
        return Tracked(call, natural(answer["value"], Fraction(self.step)), answer["hit"], bar)
