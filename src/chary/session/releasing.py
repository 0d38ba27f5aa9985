"""An ordinary release: noise on a query's values, published and charged whatever comes out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from chary.accounting import Approximate, Event, Joint
from chary.accounting.discrete_gaussian import discrete_gaussian_variance, zero_concentrated_rho_down
from chary.data import Mean, Neighbouring, Query
from chary.errors import InvalidParameter, NoPrice
from chary.filters import Filter, Price
from chary.mechanisms import Additive, Gaussian
from chary.numbers import Number, positive, probability
from chary.session.interaction import (
    ENCODER,
    KEPT,
    Asked,
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
    query: Question,
    neighbouring: Neighbouring,
    *,
    epsilon: Number | None,
    rho: Number | None,
    delta: Number | None = None,
) -> tuple[Additive, ...]:
    """The noise for each part of a query; a mean has two parts, each with half of the epsilon or rho."""
    if (epsilon is None) == (rho is None):
        raise InvalidParameter("give one of epsilon= (Laplace noise) and rho= (Gaussian noise)")
    if delta is not None and epsilon is None:
        raise InvalidParameter("delta= belongs to epsilon=; rho= alone says how much Gaussian noise is drawn")
    parts = parts_of(query, neighbouring)
    if delta is not None and len(parts) == 1:
        return (_gaussian_for(parts[0], neighbouring, positive(epsilon or 0, "epsilon"), probability(delta, "delta")),)
    if epsilon is not None and delta is None:
        share = positive(epsilon, "epsilon") / len(parts)
        return tuple(laplace_for(part, neighbouring, share) for part in parts)
    share = (_rho_for(epsilon, delta) if delta is not None else positive(rho or 0, "rho")) / len(parts)
    return tuple(Gaussian.for_rho(share, l2_squared=_length(part, neighbouring)) for part in parts)


def _gaussian_for(part: Query, neighbouring: Neighbouring, epsilon: Fraction, delta: Fraction) -> Gaussian:
    """Noise that is certainly (epsilon, delta)-DP for all keys together, by the law on the grid."""
    variance = discrete_gaussian_variance(
        epsilon=epsilon,
        delta=delta,
        largest=part.sensitivity(neighbouring),
        l2_squared=_length(part, neighbouring),
        reach=part.reach(neighbouring),
    )
    return Gaussian(variance, _length(part, neighbouring))


def _length(part: Query, neighbouring: Neighbouring) -> int:
    """The squared L2 change: at most the largest change of a key times their sum."""
    return part.sensitivity(neighbouring) * part.l1(neighbouring)


def _rho_for(epsilon: Number | None, delta: Number) -> Fraction:
    """The zCDP that is (epsilon, delta)-DP; how several noises of different sizes are put together."""
    wanted = {"epsilon": positive(epsilon or 0, "epsilon"), "delta": probability(delta, "delta")}
    return zero_concentrated_rho_down(**wanted)


def parts_of(query: Question, neighbouring: Neighbouring) -> tuple[Query, ...]:
    """The integer queries behind a query: two for a mean, itself otherwise."""
    return query.parts(neighbouring) if isinstance(query, Mean) else (query,)


def noisy_parts(noises: Sequence[Additive], touched: Touched) -> list[int]:
    """The exact answer of each part of a query without keys, with its noise."""
    return [noise.apply_one(touched.integer(k), touched.source) for k, noise in enumerate(noises)]


@dataclass(frozen=True)
class Release(Interaction):
    """Guarantee: epsilon-DP (discrete Laplace noise), or rho-zCDP or (epsilon, delta)-DP (discrete Gaussian noise), for
    the whole answer.

    The event is that of the noise itself, which at Renyi orders is cheaper than a pure event of the same epsilon. With
    delta it is the zCDP of the noise or `Approximate(epsilon, delta)`, whichever takes less of the filter's capacity.
    """

    query: Question
    neighbouring: Neighbouring
    epsilon: Number | None = None
    rho: Number | None = None
    delta: Number | None = None
    asked: Asked = field(init=False, repr=False, compare=False)
    kind = "release"

    def __post_init__(self) -> None:
        check_question(self.query)
        for name, read in (("epsilon", positive), ("rho", positive), ("delta", probability)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, read(getattr(self, name), name))
        work_out = _kept if self.query.keys is None else _asked
        asked: Asked = work_out(self.query, self.neighbouring, self.epsilon, self.rho, self.delta)
        object.__setattr__(self, "asked", asked)

    @property
    def event(self) -> Event:
        return self.asked.event

    def price(self, filter_: Filter) -> Price:
        if self.delta is None or self.epsilon is None:
            return filter_.price(self.event)
        return _cheaper(filter_, self.event, Approximate(self.epsilon, self.delta))

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        return None if isinstance(self.query, Mean) else (self.asked.noises[0], self.query.grid)

    def body(self) -> Json:
        return _body(self.query, self.epsilon, self.rho, self.delta)

    def text(self) -> str:
        return self.asked.text

    def queries(self) -> Sequence[Query]:
        return self.asked.parts

    def run(self, touched: Touched) -> Ran:
        if self.query.keys is None:
            return Ran({"noisy": [[value] for value in noisy_parts(self.asked.noises, touched)]}, 0, 0)
        applied = [noise.apply(touched.integers(k), touched.source) for k, noise in enumerate(self.asked.noises)]
        return Ran({"noisy": [[int(value) for value in noisy] for noisy in applied]}, 0, 0)

    def present(self, answer: Json, call: int) -> Answer | Answers:
        values = values_of(self.query, answer["noisy"])
        if self.query.keys is None:
            return Answer(call, values[0], self.asked.error_bar)
        return Answers(call, tuple(self.query.keys), tuple(values), self.asked.error_bar)


def _asked(
    query: Question, neighbouring: Neighbouring, epsilon: Number | None, rho: Number | None, delta: Number | None
) -> Asked:
    """Refuses a question that has no noise."""
    drawn = noises(query, neighbouring, epsilon=epsilon, rho=rho, delta=delta)
    events = tuple(additive.event() for additive in drawn)
    event = events[0] if len(events) == 1 else Joint(events)
    bar = None if isinstance(query, Mean) else error_bar((drawn[0], query.grid))
    text = ENCODER.encode(_body(query, epsilon, rho, delta))
    return Asked(parts_of(query, neighbouring), drawn, event, text, error_bar=bar)


_kept = lru_cache(maxsize=KEPT)(_asked)


def _body(query: Question, epsilon: Number | None, rho: Number | None, delta: Number | None) -> Json:
    size = {"epsilon": str(epsilon)} if epsilon is not None else {"rho": str(rho)}
    return {"query": query.body(), **size} | ({} if delta is None else {"delta": str(delta)})


def _cheaper(filter_: Filter, noise: Event, approximate: Event) -> Price:
    """The price of either event that takes the smaller part of main capacity or delta, whichever it takes more of."""
    try:
        price = filter_.price(noise)
    except NoPrice:
        return filter_.price(approximate)
    try:
        other = filter_.price(approximate)
    except NoPrice:
        return price
    capacity = filter_.capacity

    def part(found: Price) -> Fraction:
        hit = found.hit
        return max(Fraction(hit.main, max(1, capacity.main)), Fraction(hit.delta, max(1, capacity.delta)))

    return min(price, other, key=part)


def values_of(query: Question, noisy: list[list[int]]) -> list[Any]:
    """Noisy integers in the query's own units, one for each key."""
    if isinstance(query, Mean):
        return [query.combine(total, size) for total, size in zip(noisy[0], noisy[1], strict=True)]
    return [natural(steps, query.grid) for steps in noisy[0]]
