"""An ordinary release: noise on a query's values, published and charged whatever comes out."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from chary.accounting import Approximate, Event, Joint
from chary.accounting.gaussian_noise import discrete_gaussian_variance, zero_concentrated_rho_down
from chary.answers import NoisyNumber, NoisyNumbers
from chary.calls.answers import published
from chary.calls.call import Bound, Call, call
from chary.calls.fields import Positive, Probability, QueryOf
from chary.calls.numbers.mean_noise import MeanNoise, halves, laplace_mean, mean_answer
from chary.core.plan import ENCODER, KEPT, Asked, Json, Question, Ran, Touched, error_bar, laplace_for, naturals
from chary.core.transaction import Spine
from chary.data import Mean, Neighbouring, Query
from chary.data.queries.query import AnsweredT
from chary.errors import InvalidParameter
from chary.filters import Filter, Price
from chary.mechanisms import Additive, Gaussian
from chary.numbers import Number


@call("release", subject="numbers")
class Release(Call[AnsweredT]):
    """An ordinary noisy answer: discrete Laplace noise for `epsilon`, discrete Gaussian noise for `rho`, or for
    `epsilon` and `delta`. A `NoisyNumber`, or `NoisyNumbers` for a query with keys.

    Guarantee: epsilon-DP, rho-zCDP or (epsilon, delta)-DP for the whole answer (all keys of a keyed query together).
    Always charged. The event is that of the noise itself, which at Renyi orders is cheaper than a pure event of the
    same epsilon. With delta it is the zCDP of the noise, by the law on the grid
    (`chary.accounting.discrete_gaussian_variance`), or `Approximate(epsilon, delta)`, whichever takes less of the
    filter's capacity.

    >>> from chary import count
    >>> Release(count(), epsilon="0.1").body()["epsilon"]
    '1/10'
    """

    query: QueryOf[AnsweredT]
    _: KW_ONLY
    epsilon: Positive | None = None
    rho: Positive | None = None
    delta: Probability | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("give one of epsilon= (Laplace noise) and rho= (Gaussian noise)")
        if self.delta is not None and self.epsilon is None:
            raise InvalidParameter("delta= belongs to epsilon=; rho= alone says how much Gaussian noise is drawn")

    def bind(self, spine: Spine) -> "AskRelease":
        return AskRelease(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class AskRelease(Bound[Release[Any]]):
    """The release, as it is run."""

    @cached_property
    def asked(self) -> Asked:
        """What follows from the question; refuses one that has no noise. Keys may be many, and are not kept."""
        call = self.call
        work_out = _kept if call.query.keys is None else _asked
        asked: Asked = work_out(call.query, self.neighbouring, call.epsilon, call.rho, call.delta)
        return asked

    @cached_property
    def event(self) -> Event:
        return self.asked.event if self.mean is None else self.mean.event

    @cached_property
    def mean(self) -> MeanNoise | None:
        """The two noisy numbers of a mean, as they are made today."""
        call, query = self.call, self.call.query
        if not isinstance(query, Mean):
            return None
        if call.epsilon is None or call.delta is not None:
            return halves(query, self.neighbouring, self.asked.noises)
        return laplace_mean(query, self.neighbouring, Fraction(call.epsilon))

    adds_up = True

    def price(self, filter_: Filter) -> Price:
        if self.call.delta is None or self.call.epsilon is None:
            return filter_.price(self.event)
        return filter_.cheapest(self.event, Approximate(self.call.epsilon, self.call.delta))

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        query = self.call.query
        return None if isinstance(query, Mean) else (self.asked.noises[0], query.grid)

    def text(self) -> str:
        return self.asked.text

    def queries(self) -> Sequence[Query]:
        return self.asked.parts

    def foretold(self) -> str | None:
        return None if self.mean is None else self.mean.foretold()

    def run(self, touched: Touched) -> Ran:
        if self.mean is not None:
            return Ran({"noisy": _noisy_mean(self.mean, touched), "form": self.mean.form}, 0, 0)
        if self.call.query.keys is None:
            return Ran({"noisy": [[value] for value in noisy_parts(self.asked.noises, touched)]}, 0, 0)
        applied = [noise.apply(touched.integers(k), touched.source) for k, noise in enumerate(self.asked.noises)]
        return Ran({"noisy": [[int(value) for value in noisy] for noisy in applied]}, 0, 0)

    def present(self, answer: Json, call: int) -> NoisyNumber | NoisyNumbers:
        query, bar = self.call.query, self.asked.error_bar
        if isinstance(query, Mean):
            return mean_answer(self._told(query, answer), answer["noisy"], call)
        values = naturals(answer["noisy"][0], query.grid)
        told = published(self.asked.noises[0], query, self.neighbouring)
        if query.keys is None:
            return NoisyNumber(call, values[0], bar, told=told)
        return NoisyNumbers(call, query.columns, tuple(query.keys), tuple(values), bar, told=told)

    def _told(self, query: Mean[Any], answer: Json) -> MeanNoise:
        """How the mean of this answer was made; answers that do not say it are of halves."""
        if self.mean is not None and answer.get("form", "halves") == self.mean.form:
            return self.mean
        return halves(query, self.neighbouring, self.asked.noises)


def _asked(
    query: Question, neighbouring: Neighbouring, epsilon: Number | None, rho: Number | None, delta: Number | None
) -> Asked:
    """Refuses a question that has no noise."""
    drawn = noises(query, neighbouring, epsilon=epsilon, rho=rho, delta=delta)
    events = tuple(additive.event() for additive in drawn)
    event = events[0] if len(events) == 1 else Joint(events)
    bar = None if isinstance(query, Mean) else error_bar((drawn[0], query.grid))
    sizes = {"epsilon": epsilon, "rho": rho, "delta": delta}
    said = {name: str(size) for name, size in sizes.items() if size is not None}
    text = ENCODER.encode({"query": query.body()} | said)
    return Asked(parts_of(query, neighbouring), drawn, event, text, error_bar=bar)


_kept = lru_cache(maxsize=KEPT)(_asked)


def noises(
    query: Question,
    neighbouring: Neighbouring,
    *,
    epsilon: Number | None,
    rho: Number | None = None,
    delta: Number | None = None,
) -> tuple[Additive, ...]:
    """The noise for each part of a query; a mean has two parts, each with half of the epsilon or rho."""
    parts = parts_of(query, neighbouring)
    if epsilon is None:
        return _gaussians(parts, neighbouring, Fraction(rho or 0))
    if delta is None:
        return tuple(laplace_for(part, neighbouring, Fraction(epsilon) / len(parts)) for part in parts)
    if len(parts) == 1:
        return (_gaussian_for(parts[0], neighbouring, Fraction(epsilon), Fraction(delta)),)
    # Several noises of different sizes are put together as zCDP.
    return _gaussians(parts, neighbouring, zero_concentrated_rho_down(epsilon=epsilon, delta=delta))


def _gaussians(parts: Sequence[Query], neighbouring: Neighbouring, rho: Fraction) -> tuple[Additive, ...]:
    share = rho / len(parts)
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


def parts_of(query: Question, neighbouring: Neighbouring) -> tuple[Query, ...]:
    """The integer queries behind a query: two for a mean, itself otherwise."""
    return query.parts(neighbouring) if isinstance(query, Mean) else (query,)


def noisy_parts(noises: Sequence[Additive], touched: Touched) -> list[int]:
    """The exact answer of each part of a query without keys, with its noise."""
    return [noise.apply_one(touched.integer(k), touched.source) for k, noise in enumerate(noises)]


def _noisy_mean(mean: MeanNoise, touched: Touched) -> list[list[int]]:
    parts = mean.parts(touched.integers(0), touched.integers(1))
    applied = [noise.apply(part, touched.source) for noise, part in zip(mean.noises, parts, strict=True)]
    return [[int(value) for value in noisy] for noisy in applied]
