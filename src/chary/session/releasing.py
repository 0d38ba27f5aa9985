"""An ordinary release: noise on a query's values, published and charged whatever comes out."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting import Event, Joint
from chary.data import Mean, Neighbouring, Query
from chary.errors import InvalidParameter
from chary.mechanisms import Additive, Gaussian
from chary.numbers import Number, positive
from chary.session.interaction import (
    Interaction,
    Json,
    Question,
    Ran,
    Touched,
    check_question,
    error_bar,
    laplace_for,
    natural,
)
from chary.session.results import Answer, Answers


def noises(
    query: Question, neighbouring: Neighbouring, *, epsilon: Number | None, rho: Number | None
) -> list[Additive]:
    """The noise for each part of a query; a mean has two parts, each with half of the epsilon or rho."""
    if (epsilon is None) == (rho is None):
        raise InvalidParameter("give one of epsilon= (Laplace noise) and rho= (Gaussian noise)")
    parts = parts_of(query, neighbouring)
    if epsilon is not None:
        share = positive(epsilon, "epsilon") / len(parts)
        return [laplace_for(part, neighbouring, share) for part in parts]
    share = positive(rho or 0, "rho") / len(parts)
    return [Gaussian.for_rho(share, l2_squared=p.sensitivity(neighbouring) * p.l1(neighbouring)) for p in parts]


def parts_of(query: Question, neighbouring: Neighbouring) -> tuple[Query, ...]:
    """The integer queries behind a query: two for a mean, itself otherwise."""
    return query.parts(neighbouring) if isinstance(query, Mean) else (query,)


@dataclass(frozen=True)
class Release(Interaction):
    """Guarantee: epsilon-DP (discrete Laplace noise) or rho-zCDP (discrete Gaussian noise) for the whole answer.

    The event is that of the noise itself, which at Renyi orders is cheaper than a pure event of the same epsilon.
    """

    query: Question
    neighbouring: Neighbouring
    epsilon: Number | None = None
    rho: Number | None = None
    kind = "release"

    def __post_init__(self) -> None:
        check_question(self.query)
        for name in ("epsilon", "rho"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive(getattr(self, name), name))
        self.noises  # noqa: B018 - refuses a question that has no noise

    @cached_property
    def noises(self) -> list[Additive]:
        """The noise for each part of the query."""
        return noises(self.query, self.neighbouring, epsilon=self.epsilon, rho=self.rho)

    @cached_property
    def event(self) -> Event:
        events = tuple(additive.event() for additive in self.noises)
        return events[0] if len(events) == 1 else Joint(events)

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        return None if isinstance(self.query, Mean) else (self.noises[0], self.query.grid)

    def body(self) -> Json:
        size = {"epsilon": str(self.epsilon)} if self.epsilon is not None else {"rho": str(self.rho)}
        return {"query": self.query.body(), **size}

    def queries(self) -> Sequence[Query]:
        return parts_of(self.query, self.neighbouring)

    def run(self, touched: Touched) -> Ran:
        applied = [noise.apply(touched.integers(k), touched.source) for k, noise in enumerate(self.noises)]
        return Ran({"noisy": [[int(value) for value in noisy] for noisy in applied]}, 0, 0)

    def present(self, answer: Json, call: int) -> Answer | Answers:
        values = values_of(self.query, answer["noisy"])
        if self.query.keys is None:
            return Answer(call, values[0], error_bar(self.accuracy()))
        return Answers(call, tuple(self.query.keys), tuple(values), error_bar(self.accuracy()))


def values_of(query: Question, noisy: list[list[int]]) -> list[Any]:
    """Noisy integers in the query's own units, one for each key."""
    if isinstance(query, Mean):
        return [query.combine(total, size) for total, size in zip(noisy[0], noisy[1], strict=True)]
    return [natural(steps, query.grid) for steps in noisy[0]]
