"""Choices of one of many: groups, candidates, labels and modes, by noise, exponential mechanism or votes."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import date
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, gcd, lcm
from typing import Any, Final, Generic, Literal, Self, cast

import numpy as np

from chary.accounting import accuracy, calibration, events, gaussian_selection
from chary.answers import Answer, Key, NoisyNumber, scalar
from chary.calls.algorithm import ScoreFunction, Scores, distance_steps, failed, score_step, score_steps
from chary.calls.answers import ChosenKey, YesOrNo
from chary.calls.call import Bound, Call, CallT, call
from chary.calls.fields import AnyQuery, Exact, Flag, Keys, Name, Positive, Where, Whole, Word
from chary.core.plan import BETA, KEPT, Data, Json, Question, Result
from chary.core.transaction import Spine
from chary.data import Neighbouring, Poll, Query, Reading, Relation, Rows, Total, Votes, count
from chary.errors import AlgorithmFailed, InvalidParameter, InvalidQuery
from chary.filters import Filter, Price
from chary.mechanisms import additive, boundaries, choices, gaussian, threshold_tests
from chary.numbers import SMALLEST_EPSILON, Number, exact, plain

# The largest of many bounded values after Gaussian noise: the winning key, and nothing else, is published.

# Clipped values and their differences fit into the 64-bit integers that are compared.
FARTHEST = 2**62


@dataclass(frozen=True)
class Winner(Answer):
    """The key whose value was the largest after noise. Values were clipped to `clipped_to` before.

    `noise` is the standard deviation of the Gaussian noise on each value, in the query's units. 95 times in 100 the
    clipped value of the key is at most `shortfall` below the largest, whatever the data.
    """

    key: Key
    clipped_to: tuple[float, float]
    noise: float
    shortfall: float

    @property
    def value(self) -> Any:
        """The key; one of one column is a scalar."""
        return scalar(self.key)

    @property
    def interval_says(self) -> str:
        return (
            f"no interval: a key was chosen and nothing measured; within {plain(self.shortfall)} of the best, 95 in 100"
        )


@call("noisy_max", subject="gaussian")
class NoisyMax(Call[Winner]):
    """The key with the largest value, values clipped to `low` and `high` and made noisy by Gaussian noise.

    Guarantee: pure epsilon-DP ([GAUSS] Theorem 8), and rho-zCDP as part of a release of all values (`Concentrated`);
    charged whole, under a session with a delta by the cheaper of both. Give `epsilon`, from which the noise follows, or
    the standard deviation of the `noise`, from which epsilon follows. The noise is exactly normal. What counts is how
    far gaps between values can move: twice the sensitivity, or once where one unit moves all values in one direction
    (add/remove, contributions of one sign). Errors: `InvalidQuery` for fewer than two keys; `InvalidParameter` for
    bounds less than a step of the query's grid apart.
    """

    query: AnyQuery
    _: KW_ONLY
    low: Exact
    high: Exact
    noise: Positive | None = None
    epsilon: Positive | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query) or self.query.keys is None or len(self.query.keys) < 2:
            raise InvalidQuery('a maximum needs at least two public keys: count().by("clinic", ["a", "b"])')
        if (self.noise is None) == (self.epsilon is None):
            raise InvalidParameter("give one of noise= (its standard deviation, in the query's units) and epsilon=")

    def bind(self, spine: Spine) -> "AskNoisyMax":
        return AskNoisyMax(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class Gaps:
    """How the public bounds limit the values of a query: `spread` steps apart at most, `lowest` the smallest one.

    `sensitivity` is half of how far the gap of two values can move between neighbours, in steps: the largest change of
    a value, or half of it where all move in one direction (`together`). Neighbours differ in `reach` keys at most.
    """

    keys: int
    lowest: int
    spread: int
    sensitivity: Fraction
    reach: int
    together: bool

    @classmethod
    def of(cls, query: Query, neighbouring: Neighbouring, low: Fraction, high: Fraction) -> "Gaps":
        """Bounds are rounded inwards to the query's grid."""
        lowest, highest = math.ceil(low / query.grid), math.floor(high / query.grid)
        if not -FARTHEST <= lowest < highest <= FARTHEST:
            raise InvalidParameter("low and high must be at least one step of the query's grid apart, at most 2**62")
        most = min(query.sensitivity(neighbouring), highest - lowest)
        together, keys = query.one_direction(neighbouring), len(query.keys or ())
        halved, reach = Fraction(most, 2 if together else 1), min(query.reach(neighbouring), keys)
        return cls(keys, lowest, highest - lowest, halved, reach, together)

    def rho_up(self, noise: Fraction) -> Fraction:
        """The zCDP of all noisy values up to a common shift, which leaves the winner as it is (docs/theory.md).

        Of c values that move by D in one direction, c D (1 - c / keys) D stays, most where c is half of the keys.
        """
        if not self.together:
            return self.reach * self.sensitivity**2 / (2 * noise**2)
        moved = min(self.reach, self.keys // 2)
        return Fraction(moved * (self.keys - moved), self.keys) * 2 * self.sensitivity**2 / noise**2

    def epsilon_up(self, noise: Fraction) -> Fraction:
        """The pure epsilon for noise of this many steps."""
        found = gaussian_selection.noisy_max_epsilon_up(
            self.keys, sensitivity=self.sensitivity, noise=noise, spread=self.spread
        )
        return max(Fraction(found), SMALLEST_EPSILON)

    def noise_for(self, epsilon: Fraction) -> Fraction:
        """The least noise that is epsilon-DP, rounded up to four digits."""
        return _noise_for(self, epsilon)


class AskNoisyMax(Bound[NoisyMax]):
    """The maximum, as it is run; refuses bounds without room, and an epsilon for which there is no noise."""

    kind = "noisy_max_gaussian"

    @cached_property
    def query(self) -> Query:
        """What is asked of the rows."""
        return cast("Query", self.call.query)

    @cached_property
    def gaps(self) -> Gaps:
        """What the bounds and the neighbouring relation say about the values."""
        return Gaps.of(self.query, self.neighbouring, Fraction(self.call.low), Fraction(self.call.high))

    @cached_property
    def mechanism(self) -> gaussian.GaussianMax:
        """The exact choice."""
        if self.call.epsilon is not None:
            return gaussian.GaussianMax(self.gaps.noise_for(Fraction(self.call.epsilon)))
        return gaussian.GaussianMax(Fraction(self.call.noise or 0) / self.query.grid)

    @cached_property
    def event(self) -> events.Event:
        noise, epsilon = Fraction(self.mechanism.noise), self.call.epsilon
        pure = self.gaps.epsilon_up(noise) if epsilon is None else Fraction(epsilon)
        return events.Concentrated(pure, self.gaps.rho_up(noise))

    def shortfall(self, beta: Fraction) -> float:
        return self._short(Fraction(self.mechanism.noise), beta)

    def _short(self, noise: Fraction, beta: Fraction) -> float:
        """The same for noise of so many steps: no value is farther below another than the bounds are apart."""
        steps = max(0, math.ceil(accuracy.gaussian_loss_up(noise, self.gaps.keys, beta)) - 1)
        return float(min(steps, self.gaps.spread) * self.query.grid)

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, data: Data) -> Result:
        lowest = self.gaps.lowest
        values = np.clip(data.integers(), lowest, lowest + self.gaps.spread)
        noise = Fraction(self.mechanism.noise) * self.query.grid
        return Result({"position": self.mechanism.step(values, data.source), "noise": str(noise)}, hits=1, tests=1)

    def present(self, answer: Json, call: int) -> Winner:
        keys: Sequence[Any] = self.query.keys or ()
        bounds = (float(self.call.low), float(self.call.high))
        noise = Fraction(answer["noise"])
        # That of the answer: what epsilon makes of it may come out otherwise elsewhere.
        short = self._short(noise / self.query.grid, BETA)
        return Winner(call, keys[answer["position"]], bounds, float(noise), short)


@lru_cache(maxsize=KEPT)
def _noise_for(gaps: Gaps, epsilon: Fraction) -> Fraction:
    return calibration.four_digits_up(
        gaussian_selection.noisy_max_noise(epsilon, gaps.keys, sensitivity=gaps.sensitivity, spread=gaps.spread)
    )


# The key that most units have, and the fraction of units that satisfies a condition.


@call("mode", subject="numbers")
class Mode(Call[ChosenKey]):
    """The key of a count or histogram that most units have: a key of one column itself, a tuple for several.

    Guarantee: epsilon-DP, by inverse sensitivity, or the zCDP of `InverseSensitivity` where it has one: a key is the
    likelier, the fewer units would have to change to make it the mode. Always charged. With three or more keys and
    units that are replaced, `Choose` is more accurate (docs/quantiles.md). Errors: `InvalidQuery` for what counts no
    units by at least two keys, and, where units are replaced, for units with several keys.
    """

    query: AnyQuery
    _: KW_ONLY
    epsilon: Positive

    def bind(self, spine: Spine) -> "AskMode":
        return AskMode(self, spine.rows.neighbouring, _counting(self.query, spine.rows.neighbouring))


def _counting(query: Question, neighbouring: Neighbouring) -> Query:
    """The query if it has a mode; otherwise `InvalidQuery`."""
    if not isinstance(query, Query) or query.keys is None or len(query.keys) < 2:
        raise InvalidQuery('a mode is one of at least two public keys: count().by("clinic", ["a", "b"])')
    cell = query.contribution(neighbouring)
    if isinstance(query, Total) or (cell.low, cell.high, cell.rows) != (0, 1, None):
        raise InvalidQuery("a mode counts units: ask count() or a histogram, not a total")
    if neighbouring.relation is Relation.REPLACE and cell.spread > 1:
        raise InvalidQuery(
            "where units are replaced, the mode needs units with one key each: say max_groups_per_unit=1 or "
            "assumed_groups_per_unit=1, or ask Choose(...)"
        )
    return query


@dataclass(frozen=True)
class AskMode(Bound[Mode]):
    """The choice of the mode, as it is made."""

    query: Query

    @property
    def replace(self) -> bool:
        """Whether units are replaced."""
        return self.neighbouring.relation is Relation.REPLACE

    @cached_property
    def mechanism(self) -> choices.InverseSensitivity:
        """The choice: of two keys one has distance 0, and added units raise counts only, so the 1/2 is dropped then."""
        return choices.InverseSensitivity(self.call.epsilon, whole=not self.replace or len(self.query.keys or ()) == 2)

    @cached_property
    def event(self) -> events.Event:
        return events.Pure(self.mechanism.epsilon)

    adds_up = True

    def price(self, filter_: Filter) -> Price:
        if self.mechanism.whole and self.replace:
            return super().price(filter_)
        return bounded_range_price(filter_, self.call.epsilon)

    def shortfall(self, beta: Fraction) -> float:
        """How many more units another key may have: moving one unit from key to key changes the gap by two."""
        rate = self.mechanism.epsilon if self.mechanism.whole else Fraction(self.mechanism.epsilon) / 2
        units = ceil(accuracy.exponential_loss_up(rate, len(self.query.keys or ()), beta)) - 1
        return float(max(0, units) * (2 if self.replace else 1))

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, data: Data) -> Result:
        distances = choices.mode_distances(data.integers(), replace=self.replace)
        return Result({"position": self.mechanism.pick(distances, data.source)}, 0, 0)

    def present(self, answer: Json, call: int) -> ChosenKey:
        key = scalar((self.query.keys or ())[answer["position"]])
        return ChosenKey(call, key, shortfall=self.shortfall(BETA))


@call("fraction", subject="numbers")
class Proportion(Call[NoisyNumber]):
    """The fraction of all units that satisfies a condition; for sessions where units are replaced, so that their
    number is public. 0 where there are none.

    Guarantee: epsilon-DP: discrete Laplace noise on the count, cut off at 0 and at the number of units, which is
    universally optimal for a count (Ghosh, Roughgarden, Sundararajan 2009). Always charged.
    """

    where: Where
    _: KW_ONLY
    epsilon: Positive

    def __post_init__(self) -> None:
        if self.where is None:
            raise InvalidQuery('a fraction needs its condition, such as Proportion("age >= 65", epsilon=0.1)')

    @classmethod
    def recorded(cls, body: Json) -> Self:
        return super().recorded(body | {"where": body["query"]["where"]})

    def bind(self, spine: Spine) -> "AskFraction":
        if spine.rows.neighbouring.relation is not Relation.REPLACE:
            raise InvalidQuery(
                "the number of units is secret where they are added or removed: release a count, or a mean of 0 and 1"
            )
        return AskFraction(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class AskFraction(Bound[Proportion]):
    """The fraction, as it is asked."""

    @cached_property
    def noise(self) -> additive.Laplace:
        """The noise on the number of units that satisfy the condition."""
        return additive.Laplace.for_epsilon(self.call.epsilon, sensitivity=1)

    @cached_property
    def event(self) -> events.Event:
        return self.noise.event()

    def body(self) -> Json:
        return {"query": count(self.call.where).body(), "epsilon": str(self.call.epsilon)}

    def queries(self) -> Sequence[Query]:
        return [count(self.call.where), count()]

    def run(self, data: Data) -> Result:
        size = data.integer(1)
        noisy = self.noise.apply_one(data.integer(0), data.source)
        return Result({"ones": min(max(noisy, 0), size), "size": size}, 0, 0)

    def present(self, answer: Json, call: int) -> NoisyNumber:
        size = max(1, answer["size"])
        return NoisyNumber(call, answer["ones"] / size, min(1.0, self.noise.error_bar() / size))


# One choice: the best of many keys by private answers, the most common value, what the majority says.

Way = Literal["permute_and_flip", "exponential", "laplace"]
_MADE: Final[dict[str, type[choices.Exponential] | type[choices.ReportNoisyMax]]] = {
    "permute_and_flip": choices.PermuteAndFlip,
    "exponential": choices.Exponential,
    "laplace": choices.ReportNoisyMax,
}
_LOSSES: Final[dict[str, Callable[[Fraction, int, Fraction], float]]] = {
    "permute_and_flip": accuracy.flip_loss_up,
    "exponential": accuracy.exponential_loss_up,
    "laplace": accuracy.laplace_loss_up,
}


@lru_cache(maxsize=KEPT)
def _steps(by: str, unit: Fraction, candidates: int, beta: Fraction) -> int:
    return ceil(_LOSSES[by](unit, candidates, beta)) - 1


def bounded_range_price(filter_: Filter, epsilon: Number) -> Price:
    """The price of an exponential mechanism: `Pure(epsilon)` or (epsilon^2/8)-zCDP, whichever is lower.

    The proof of the second is in `chary.calls.choices`; it needs all log-likelihood ratios of a pair
    of neighbours in an interval of length epsilon, which permute-and-flip and noisy maxima do not promise.
    """
    return filter_.cheapest(events.ZeroConcentrated(exact(epsilon, "epsilon") ** 2 / 8), events.Pure(epsilon))


@call("choose", subject="selection")
class Choose(Call[ChosenKey]):
    """The key whose answer is the largest, up to noise, of a keyed query; its value is not published.

    Guarantee: `Pure(epsilon)` whatever the number of keys, and whatever of them one unit is in; always charged. A key
    is a scalar for one column, a tuple for several; of a series, the position.

    - "permute_and_flip" is the most accurate of its epsilon; it is report noisy max with exponential noise.
    - "exponential" is the exponential mechanism, which is report noisy max with Gumbel noise. It is (epsilon^2/8)-zCDP
      as well, and costs the lower of both: a Renyi filter charges less for it than for any other epsilon-DP choice,
      down to a quarter, so up to twice the epsilon fits.
    - "laplace" is report noisy max with discrete Laplace noise.

    Without `by` it is "exponential" where that costs half of a pure call or less, else "permute_and_flip".
    Counts under add/remove, and totals of one sign, all move together; they take half the noise. Errors:
    `InvalidQuery` for a query without at least two keys.
    """

    query: AnyQuery
    _: KW_ONLY
    epsilon: Positive
    by: Way | None = None

    def bind(self, spine: Spine) -> "ChooseKey":
        query, neighbouring = self.query, spine.rows.neighbouring
        if not isinstance(query, Query) or query.keys is None or len(query.keys) < 2:
            raise InvalidQuery('choose is for at least two public keys: count().by("clinic", ["a", "b"])')
        if self.by is not None:
            return ChooseKey(self, neighbouring, query)
        made = ChooseKey(replace(self, by="exponential"), neighbouring, query)
        narrow, usual = made.price(spine.filter).hit, spine.filter.price(made.event).hit
        half = narrow.times(2).fits_into(usual)
        return made if half else ChooseKey(replace(self, by="permute_and_flip"), neighbouring, query)


@dataclass(frozen=True)
class ChooseKey(Bound[Choose]):
    """The choice, as it is made: `by` is settled."""

    query: Query

    @cached_property
    def mechanism(self) -> choices.Exponential | choices.ReportNoisyMax:
        """The exact choice among the keys' answers in grid steps; refuses an epsilon out of range."""
        together, made = self.query.one_direction(self.neighbouring), _MADE[self.by]
        return made(self.call.epsilon, self.query.sensitivity(self.neighbouring), together)

    @property
    def by(self) -> Way:
        """How it is chosen."""
        return self.call.by or "permute_and_flip"

    @cached_property
    def event(self) -> events.Event:
        return events.Pure(self.mechanism.epsilon)

    adds_up = True

    def price(self, filter_: Filter) -> Price:
        return bounded_range_price(filter_, self.call.epsilon) if self.by == "exponential" else super().price(filter_)

    def shortfall(self, beta: Fraction) -> float:
        mechanism = self.mechanism
        unit = (mechanism.exponential if isinstance(mechanism, choices.ReportNoisyMax) else mechanism).unit
        steps = _steps(self.by, unit, len(self.query.keys or ()), beta)
        return float(max(0, steps) * self.query.grid)

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, data: Data) -> Result:
        return Result({"position": self.mechanism.step(data.integers(), data.source)}, 0, 0)

    def present(self, answer: Json, call: int) -> ChosenKey:
        key = scalar((self.query.keys or ())[answer["position"]])
        return ChosenKey(call, key, shortfall=self.shortfall(BETA))


@call("most_common", subject="selection")
class MostCommon(Call[ChosenKey]):
    """The value of a column that most units have, up to noise, among public values; as `Choose` of their counts.

    Guarantee and errors as for `Choose`. Values that are not listed are never returned.
    """

    column: Name
    _: KW_ONLY
    among: Keys
    epsilon: Positive
    where: Where = None
    by: Way | None = None

    def bind(self, spine: Spine) -> ChooseKey:
        counts = count(self.where).by(self.column, self.among)
        return Choose(counts, epsilon=self.epsilon, by=self.by).bind(spine)


@call("majority", subject="selection")
class Majority(Call[YesOrNo]):
    """Whether more units satisfy the condition than do not, up to noise; a tie is settled by a fair coin.

    Guarantee: `Pure(epsilon)` (`MajorityVote`); always charged. A unit that comes or goes moves the lead by one; one
    that is replaced, by two. The default rule is wrong least often of all votes that treat both answers alike;
    "inverse" and "exponential" are the published ones (`chary.mechanisms.MajorityVote`).
    """

    condition: Name
    _: KW_ONLY
    epsilon: Positive
    rule: choices.Rule = "noise"

    @classmethod
    def recorded(cls, body: Json) -> Self:
        return super().recorded(body | {"condition": body["query"]["where"]})

    def bind(self, spine: Spine) -> "Vote":
        return Vote(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class Vote(Bound[Majority]):
    """The vote, as it is taken."""

    @cached_property
    def mechanism(self) -> choices.MajorityVote:
        """The exact vote on the lead; refuses noise out of range."""
        moved = 2 if self.neighbouring.relation is Relation.REPLACE else 1
        return choices.MajorityVote(self.call.epsilon, moved, self.call.rule)

    @cached_property
    def event(self) -> events.Event:
        return events.Pure(self.mechanism.epsilon)

    def body(self) -> Json:
        size = {"epsilon": str(self.call.epsilon), "rule": self.call.rule}
        return {"query": count(self.call.condition).body()} | size

    def queries(self) -> Sequence[Query]:
        return [count(self.call.condition), count()]

    def shortfall(self, beta: Fraction) -> float:
        """How many more units there may be on the other side."""
        low, high = 0, 1
        while 1 - self.mechanism.chance(high) > beta:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if 1 - self.mechanism.chance(middle) > beta else (low, middle)
        return float(low)

    def run(self, data: Data) -> Result:
        lead = 2 * data.integer(0) - data.integer(1)
        return Result({"yes": self.mechanism.step(lead, data.source)}, 0, 0)

    def present(self, answer: Json, call: int) -> YesOrNo:
        return YesOrNo(call, bool(answer["yes"]))


# A choice among a list of public candidates: what is read for it, and what is told.

_SCALARS: Final = (str, bool, int, float, Fraction, date)


@dataclass(frozen=True)
class AskCandidate(Bound[CallT], Generic[CallT]):
    """A choice by scores or distances of the caller's own: the position of the chosen candidate is published."""

    @property
    @abstractmethod
    def brought(self) -> Any:
        """The function, or the queries."""

    @abstractmethod
    def position(self, found: Sequence[Any], data: Data) -> int:
        """The exact choice, given what the function returned or the queries answered."""

    @property
    def candidates(self) -> Sequence[Any]:
        """The public candidates."""
        call: Any = self.call
        return tuple(call.candidates)

    @cached_property
    def event(self) -> events.Pure:
        call: Any = self.call
        return events.Pure(call.epsilon)

    adds_up = True

    def price(self, filter_: Filter) -> Price:
        return bounded_range_price(filter_, self.event.epsilon)

    def queries(self) -> Sequence[Query]:
        if isinstance(self.brought, ScoreFunction):
            return ()
        return [self.brought] if isinstance(self.brought, Query) else list(self.brought)

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.brought.prepare(rows)] if isinstance(self.brought, ScoreFunction) else super().prepare(rows)

    def run(self, data: Data) -> Result:
        try:
            found = self._found(data)
        except AlgorithmFailed:
            return Result({"failed": True}, 0, 0)
        return Result({"position": self.position(found, data)}, 0, 0)

    def _found(self, data: Data) -> Sequence[Any]:
        if isinstance(self.brought, ScoreFunction):
            return self.brought.scores(data.values[0], self.candidates, data.source)
        read = [data.integers(place) for place in range(len(data.values))]
        return [int(value) for value in np.concatenate(read)]

    def present(self, answer: Json, call: int) -> ChosenKey:
        if "failed" in answer:
            raise AlgorithmFailed(failed(self.brought.name))
        return ChosenKey(call, self.candidates[answer["position"]], shortfall=self.shortfall(BETA))


def checked(candidates: Any) -> int:
    """How many there are; `InvalidParameter` for fewer than two, lists, and any twice."""
    listed = tuple(candidates)
    if len(listed) < 2 or not all(isinstance(each, _SCALARS) for each in listed):
        raise InvalidParameter('candidates are two or more public values, such as candidates=["a", "b"] or [0.5, 1, 2]')
    if len({(type(each) is bool, each) for each in listed}) != len(listed):
        raise InvalidParameter("candidates must be different")
    return len(listed)


# One of a list of candidates by distances of the caller's own: inverse sensitivity in its general form.


@call("inverse_sensitivity", subject="selection")
class InverseSensitivityMechanism(Call[ChosenKey]):
    """One of a list of public candidates, the likelier the fewer units would have to change to make it the true answer.

    Guarantee: `Pure(epsilon)` and (epsilon^2/8)-zCDP, whichever the filter prices lower, always charged: a candidate
    at distance D has a chance exactly proportional to `exp(-epsilon D / 2)`; with `monotone` the 1/2 is left out.

    - `distance=ScoreFunction(name, run)`, a function of the rows: **an assumption that nothing can check** is that one
      unit changes no distance by more than 1; with `monotone`, that it changes all of them in one direction, up or
      down. Distances are rounded down to whole numbers from 0 to 2**40; NaN is farthest. Neither can break that.
    - `distance=query`, a count or a total without keys, where the candidates are numbers: which of them is it? Chary
      works out how many units lie between.

    95 times in 100 the distance is at most `shortfall` units above the smallest, whatever the data. No unbiased
    (epsilon/4)-DP mechanism is more accurate where the distance is exactly that number of units. Source: theory
    section 2; Asi, Duchi 2020.

    Errors: as for `ExponentialMechanism`, and `InvalidParameter` for a query with keys, or candidates that are no
    numbers beside a query.

    >>> from chary import count
    >>> InverseSensitivityMechanism([0, 10, 100, 1000], count("age >= 65"), epsilon="0.1").kind
    'inverse_sensitivity'
    """

    candidates: Keys
    distance: Scores
    _: KW_ONLY
    epsilon: Positive
    monotone: Flag = False

    def __post_init__(self) -> None:
        checked(self.candidates)
        if isinstance(self.distance, ScoreFunction):
            return
        if not isinstance(self.distance, Query) or self.distance.keys is not None or self.monotone:
            raise InvalidParameter("distance is a ScoreFunction, or one count or total without keys or monotone=")
        for candidate in self.candidates:
            exact(candidate, "each of the candidates")

    def bind(self, spine: Spine) -> "AskNearest":
        return AskNearest(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class AskNearest(AskCandidate[InverseSensitivityMechanism]):
    """The choice by distances, as it is made."""

    @property
    def brought(self) -> Any:
        return self.call.distance

    @cached_property
    def mechanism(self) -> choices.InverseSensitivity:
        """The exact choice among whole distances."""
        return choices.InverseSensitivity(self.call.epsilon, whole=self.call.monotone)

    def shortfall(self, beta: Fraction) -> float:
        units = ceil(accuracy.exponential_loss_up(self.mechanism.unit, len(self.candidates), beta))
        return float(max(0, units - 1))

    def position(self, found: Sequence[Any], data: Data) -> int:
        if isinstance(self.brought, ScoreFunction):
            return self.mechanism.pick(distance_steps(found), data.source)
        query: Query = self.brought
        moved, [value] = query.sensitivity(self.neighbouring), found
        gaps = [abs(value - exact(candidate, "candidate") / query.grid) for candidate in self.candidates]
        return self.mechanism.pick(distance_steps([ceil(gap / moved) for gap in gaps]), data.source)


# One of a list of candidates by scores of the caller's own: the exponential mechanism in its general form.


@call("exponential_mechanism", subject="selection")
class ExponentialMechanism(Call[ChosenKey]):
    """One of a list of public candidates, the likelier the higher its score, by scores of your own.

    Guarantee: `Pure(epsilon)` and (epsilon^2/8)-zCDP, whichever the filter prices lower, always charged: a candidate
    of score u has a chance exactly proportional to `exp(epsilon u / (2 sensitivity))`; with `monotone` the 2 is left
    out.

    - `score=ScoreFunction(name, run)`, a function of the rows: **an assumption that nothing can check** is that one
      unit, added or removed or replaced as the session says, moves no score by more than `sensitivity`; with
      `monotone`, moves all of them up or all of them down. Scores are rounded down to about a millionth of the
      sensitivity (whole numbers are kept) and clipped at 2**40 times it; NaN counts as the least. Neither can break
      that.
    - `score=[query, ...]`, a count or a total for each candidate (or one query with as many keys): chary proves how
      far they move apart, and `sensitivity` and `monotone` are left out.

    95 times in 100 the score is at most `shortfall` below the best (a quote tells it), whatever the data;
    `chary.accounting.utility_loss_up` is the published form of that bound. Candidates are different numbers, texts,
    truth values or dates, two or more. Source: theory section 2.

    Errors: `InvalidParameter` for candidates that are none, a missing or superfluous sensitivity, and as many queries
    as there are not candidates; `AlgorithmFailed`, charged, for a function that raises or returns anything but numbers.

    >>> from chary import count
    >>> ages = {"young": "age < 30", "middle": "age >= 30 AND age < 60", "old": "age >= 60"}
    >>> ExponentialMechanism(list(ages), [count(where) for where in ages.values()], epsilon="0.1").candidates
    ('young', 'middle', 'old')
    """

    candidates: Keys
    score: Scores
    _: KW_ONLY
    epsilon: Positive
    sensitivity: Positive | None = None
    monotone: Flag = False

    def __post_init__(self) -> None:
        listed = checked(self.candidates)
        if isinstance(self.score, ScoreFunction):
            if self.sensitivity is None:
                raise InvalidParameter("say how far one unit moves a score of yours at most, such as sensitivity=1")
            return
        if self.sensitivity is not None or self.monotone:
            raise InvalidParameter("how far counts and totals move is known: leave sensitivity= and monotone= out")
        if isinstance(self.score, Query):
            answers = len(self.score.keys or ())
        else:
            answers = len(self.score)
            if any(query.keys is not None for query in self.score):
                raise InvalidParameter("each query of a list scores one candidate, so it has no keys")
        if answers != listed:
            raise InvalidParameter(f"there are {listed} candidates and {answers} answers to score them")

    def bind(self, spine: Spine) -> "AskExponential":
        return AskExponential(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class AskExponential(AskCandidate[ExponentialMechanism]):
    """The choice by scores, as it is made."""

    @property
    def brought(self) -> Any:
        return self.call.score

    @cached_property
    def step(self) -> Fraction:
        """What scores are whole multiples of."""
        if isinstance(self.brought, ScoreFunction):
            return score_step(Fraction(self.call.sensitivity or 1))
        grids = [query.grid for query in self.queries()]
        below = lcm(*(grid.denominator for grid in grids))
        return Fraction(gcd(*(int(grid * below) for grid in grids)), below)

    @cached_property
    def mechanism(self) -> choices.Exponential:
        """The exact choice among scores in steps.

        Chances of two neighbours differ by a factor within the exponential of how far scores move *apart*, so that is
        what stands for the sensitivity of queries, without the 2.
        """
        if isinstance(self.brought, ScoreFunction):
            far = Fraction(self.call.sensitivity or 1) / self.step
            return choices.Exponential(self.call.epsilon, int(far), self.call.monotone)
        return choices.Exponential(self.call.epsilon, int(self._apart() / self.step), monotone=True)

    def _apart(self) -> Fraction:
        """How far one unit can move two scores apart.

        One that comes or goes moves each by a part of its range, all in the same direction; one that is replaced may
        leave one and enter another.
        """
        queries = self.queries()
        if self.neighbouring.relation is not Relation.ADD_REMOVE:
            return 2 * max(query.sensitivity(self.neighbouring) * query.grid for query in queries)
        cells = [(query.contribution(self.neighbouring), query.grid) for query in queries]
        ends = [(cell.low * (cell.rows or 1) * grid, cell.high * (cell.rows or 1) * grid) for cell, grid in cells]
        return max(high for _, high in ends) - min(low for low, _ in ends)

    def shortfall(self, beta: Fraction) -> float:
        steps = ceil(accuracy.exponential_loss_up(self.mechanism.unit, len(self.candidates), beta))
        # A score is rounded down by less than a step; those of queries are whole numbers of them.
        return float(max(0, steps if isinstance(self.brought, ScoreFunction) else steps - 1) * self.step)

    def position(self, found: Sequence[Any], data: Data) -> int:
        if isinstance(self.brought, ScoreFunction):
            utilities = score_steps(found, Fraction(self.call.sensitivity or 1))
        elif isinstance(self.brought, Query):
            utilities = [int(value) for value in found]
        else:
            pairs = zip(found, self.brought, strict=True)
            utilities = [int(value * query.grid / self.step) for value, query in pairs]
        return self.mechanism.step(utilities, data.source)


# Labels from votes: every one paid, only unclear ones paid, or only those that a guess got wrong.
#
# All of them choose an option with a chance proportional to `exp(epsilon votes / 2)`. One voter moves one vote from one
# option to another, so the factor 2 is needed: where the second option has nearly all of the law, its loss changes the
# sum as well, and the first becomes e^epsilon times as likely (no smaller epsilon holds). What does hold is that the
# log-likelihood ratio lies in an interval of length epsilon. Then `K(a) = ln E_P1 (P0/P1)^a` has `K'' <= epsilon^2 /
# 4`, the largest variance in such an interval, and is 0 at 0 and 1, so `K(a) <= a (a-1) epsilon^2 / 8`: the choice is
# (epsilon^2 / 8)-zCDP, a quarter of what an epsilon-DP release costs.

Option = str | int
State = Literal["label", "low", "boundary"]
Level = Literal["high", "low"]
# Votes are counted in 64 bits, and a bar stands among them with room for one more.
_MOST_VOTES: Final = 2**62


@dataclass(frozen=True)
class Labelled(Answer):
    """What the voters' label of one question is: `option`, or None with the reason in `state`.

    "low": no option has many votes; "boundary": it is not clear what to answer. `paid` tells whether it was charged; a
    call of a size for which the filter has no price of hits is charged in any case. `agreed` is the call that asked
    for agreement first, if one did.
    """

    state: State
    option: Option | None
    paid: bool
    agreed: int | None = field(default=None, kw_only=True)

    @property
    def value(self) -> Option | None:
        """The label."""
        return self.option

    @property
    def hit(self) -> bool:
        return self.paid

    def _numbers(self) -> Sequence[int]:
        return [number for number in dict.fromkeys((self.agreed, self.call)) if number is not None]


@call("label", subject="votes")
class Label(Call[Labelled]):
    """The voters' label. With `guess`, say what a model predicts, it is free unless another label comes out.

    Guarantee: the exponential mechanism on the counts of votes when one voter votes differently: `Pure(epsilon)` and
    (epsilon^2/8)-zCDP, whichever the filter prices lower; with a guess, which may depend on everything published
    before, a `NarrowChoice` whose hit is another label than the guess. `low` adds the candidate "no option has so many
    votes", for which no label is released. `flip` chooses by permute-and-flip, which is more accurate, and dearer under
    a Renyi filter where every label is paid: it is `Pure` alone, and with a guess any epsilon-DP call with that
    NotPrior target.

    Errors: `InvalidQuery` when the session does not ask votes; `InvalidParameter` for a guess that is no option.
    """

    question: Word
    _: KW_ONLY
    epsilon: Positive
    guess: Word | None = None
    low: Whole | None = None
    flip: Flag = False

    def bind(self, spine: Spine) -> "AskLabel":
        poll = polled(spine.rows, self.question)
        if self.guess is not None and position(poll, self.guess) is None:
            raise InvalidParameter("the guess is none of the options that were voted on")
        return AskLabel(self, spine.rows.neighbouring, poll, countable(self.low))


@dataclass(frozen=True)
class _Polled(Bound[CallT], Generic[CallT]):
    """One poll of the voters."""

    poll: Poll

    def body(self) -> Json:
        return {"query": self.poll.body()} | {n: v for n, v in super().body().items() if n != "question"}

    def queries(self) -> Sequence[Query]:
        return [self.poll]


@dataclass(frozen=True)
class _Vote(_Polled[CallT], Generic[CallT]):
    """A choice among the options of a poll and, with `low`, the candidate "no option has that many votes"."""

    low: int | None

    def utilities(self, data: Data) -> additive.Integers:
        """The votes, and the bar as those of a candidate more."""
        votes = data.integers()
        return votes if self.low is None else np.append(votes, self.low)

    def ran(self, outcome: boundaries.InnerOutcome, data: Data, *, hit: bool) -> Result:
        """What comes of the boundary, or of a candidate's number."""
        named: Json = {"state": boundaries.BOUNDARY if outcome == boundaries.BOUNDARY else "low"}
        if outcome not in (boundaries.BOUNDARY, len(self.poll.options)):
            named = {"state": "label", "option": self.poll.options[int(outcome)]}
        return Result(named | {"charged": hit or not data.price.free_miss}, hits=int(hit), tests=1)

    def present(self, answer: Json, call: int) -> Labelled:
        return Labelled(call, answer["state"], answer.get("option"), answer["charged"])


@dataclass(frozen=True)
class AskLabel(_Vote[Label]):
    """The label, as it is chosen."""

    @cached_property
    def mechanism(self) -> choices.Exponential:
        """The exact choice; refuses an epsilon out of range."""
        return (choices.PermuteAndFlip if self.call.flip else choices.Exponential)(self.call.epsilon, sensitivity=1)

    @cached_property
    def event(self) -> events.Event:
        epsilon = self.mechanism.epsilon
        if self.call.guess is None:
            return events.Pure(epsilon)
        return events.Targeted(epsilon) if self.call.flip else events.NarrowChoice(epsilon)

    adds_up = True

    def price(self, filter_: Filter) -> Price:
        if self.call.flip or self.call.guess is not None:
            return filter_.price(self.event)
        return bounded_range_price(filter_, self.call.epsilon)

    def body(self) -> Json:
        return super().body() | {"guess": self.call.guess}

    def run(self, data: Data) -> Result:
        outcome, guess = self.mechanism.step(self.utilities(data), data.source), self.call.guess
        return self.ran(outcome, data, hit=guess is None or outcome != position(self.poll, guess))


@call("label_clear", subject="votes")
class ClearLabel(Call[Labelled]):
    """The voters' label, free, where it is clear; "boundary", which is charged, where it is not.

    Guarantee: the exponential mechanism on the counts of votes inside the boundary wrapper,
    `BoundaryCall(epsilon)` ([TCT] Algorithm 4). With `low`, both a clear label and a clear "low" are free.
    Errors as for `Label`.
    """

    question: Word
    _: KW_ONLY
    epsilon: Positive
    low: Whole | None = None

    def bind(self, spine: Spine) -> "AskClearLabel":
        return AskClearLabel(self, spine.rows.neighbouring, polled(spine.rows, self.question), countable(self.low))


@dataclass(frozen=True)
class AskClearLabel(_Vote[ClearLabel]):
    """The clear label, as it is chosen."""

    @cached_property
    def mechanism(self) -> boundaries.BoundaryWrapper[Any]:
        """The exponential mechanism inside the boundary wrapper."""
        return boundaries.BoundaryWrapper(choices.Exponential(self.call.epsilon, sensitivity=1))

    @cached_property
    def event(self) -> events.Event:
        return self.mechanism.event()

    def run(self, data: Data) -> Result:
        outcome = self.mechanism.step(self.utilities(data), data.source)
        return self.ran(outcome, data, hit=outcome == boundaries.BOUNDARY)


@dataclass(frozen=True)
class Agreed(YesOrNo):
    """Whether some option has so many votes, up to noise; `surprising` if that was not expected, which is a hit."""

    surprising: bool

    @property
    def hit(self) -> bool:
        return self.surprising


@call("agreement", subject="votes")
class Agreement(Call[Agreed]):
    """Whether some option has at least `above` votes, up to noise; the expected outcome is free.

    Guarantee: the largest count, which moving a vote changes by one at most, is tested with discrete Laplace noise: one
    epsilon-DP call with the NotPrior target "not as expected". Errors as for `Label`.
    """

    question: Word
    _: KW_ONLY
    above: Whole
    epsilon: Positive
    expect: Level = "high"

    def bind(self, spine: Spine) -> "AskAgreement":
        return AskAgreement(self, spine.rows.neighbouring, polled(spine.rows, self.question))


@dataclass(frozen=True)
class AskAgreement(_Polled[Agreement]):
    """The test of agreement, as it is run."""

    @cached_property
    def mechanism(self) -> threshold_tests.AdditiveTest:
        """The test on the largest count; refuses noise out of range."""
        return threshold_tests.AdditiveTest(
            additive.Laplace.for_epsilon(self.call.epsilon, sensitivity=1), self.call.above
        )

    @cached_property
    def event(self) -> events.Event:
        self.mechanism  # noqa: B018 - refuses noise out of range
        return events.Targeted(self.call.epsilon)

    def run(self, data: Data) -> Result:
        high = self.mechanism.step(int(data.integers().max()), data.source)
        found = "high" if high else "low"
        return Result({"found": found}, hits=int(found != self.call.expect), tests=1)

    def present(self, answer: Json, call: int) -> Agreed:
        return Agreed(call, answer["found"] == "high", surprising=answer["found"] != self.call.expect)


def position(poll: Poll, option: Option | None) -> int | None:
    """The number of an option, told apart by type as well (1 is not True); None if it is none of them."""
    found = [k for k, known in enumerate(poll.options) if known == option and type(known) is type(option)]
    return found[0] if found else None


def polled(rows: Rows, question: str | int) -> Poll:
    """The question as it is put to voters; `InvalidQuery` when there are none, or none that it can be put to."""
    if not isinstance(rows, Votes):
        raise InvalidQuery("labels come from votes: open chary.data.Votes by chary.session.open_votes")
    if isinstance(question, bool) or not isinstance(question, (str, int)):
        raise InvalidQuery("a question put to voters is a string or a whole number")
    return rows.poll(question)


def countable(low: int | None) -> int | None:
    """The bar, if votes can be counted up to it; otherwise `InvalidParameter`."""
    if low is not None and low >= _MOST_VOTES:
        raise InvalidParameter("low is a number of votes, below 2**62")
    return low
