"""Choices of one of many: groups, candidates, labels and modes, by noise, exponential mechanism or votes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import date
from fractions import Fraction
from functools import lru_cache
from math import ceil, gcd, lcm
from typing import Any, Final, Literal, Self, cast

import numpy as np

from chary.accounting import accuracy, events, gaussian_selection, numerics
from chary.answers import Answer, Key, NoisyNumber, in_json, scalar
from chary.calls import fields
from chary.calls.algorithm import ScoreFunction, distance_steps, failed, score_step, score_steps
from chary.calls.answers import ChosenKey, YesOrNo
from chary.calls.call import Call, Shorthand, call, numbers_among
from chary.core.forecast import Forecast
from chary.core.plan import BETA, KEPT, Data, Json, PerHit, Plan, Result, reading
from chary.core.transaction import Spine
from chary.data import NeighborRelation, Neighbors, Poll, Query, Rows, Sum, Votes, count
from chary.data.queries.stored import stored
from chary.errors import AlgorithmFailed, InvalidParameter, InvalidQuery
from chary.mechanisms import additive, boundaries, choices, threshold_tests
from chary.mechanisms.additive import Integers
from chary.noise import Source
from chary.numbers import SMALLEST_EPSILON, Number, exact, plain

# The largest of many bounded values after Gaussian noise: the winning group, and nothing else, is published.

# Clipped values and their differences fit into the 64-bit integers that are compared.
FARTHEST = 2**62


@dataclass(frozen=True)
class Winner(Answer):
    """The group whose value was the largest after noise. Values were clipped to `clipped_to` before.

    `noise` is the standard deviation of the Gaussian noise on each value, in the query's units. With 95 %
    confidence, the clipped value of the group is at most `shortfall` below the largest, whatever the data.
    """

    key: Key
    clipped_to: tuple[float, float]
    noise: float
    shortfall: float

    @property
    def value(self) -> Any:
        """The group; one of one column is a scalar."""
        return scalar(self.key)

    def figures(self) -> dict[str, Any]:
        return super().figures() | {"key": in_json(self.value)}

    @property
    def interval_says(self) -> str:
        return (
            f"no interval: a group was chosen and nothing measured; within "
            f"{plain(self.shortfall)} of the best with 95 % confidence"
        )


@dataclass(frozen=True)
class Gaps:
    """How the public bounds limit the values of a query: `spread` steps apart at most, `lowest` the smallest one.

    `sensitivity` is half of the largest change of the gap of two values between neighbours, in steps. That is the
    largest change of a value, or half of it where all move in one direction (`together`). Neighbours differ in `reach`
    groups at most.
    """

    keys: int
    lowest: int
    spread: int
    sensitivity: Fraction
    reach: int
    together: bool

    @classmethod
    def of(cls, query: Query, neighbor_relation: NeighborRelation, low: Fraction, high: Fraction) -> "Gaps":
        """Bounds are rounded inwards to the query's grid."""
        lowest, highest = math.ceil(low / query.grid), math.floor(high / query.grid)
        if not -FARTHEST <= lowest < highest <= FARTHEST:
            raise InvalidParameter("low and high must be at least one step of the query's grid apart, at most 2**62")
        most = min(query.sensitivity(neighbor_relation), highest - lowest)
        together, keys = query.one_direction(neighbor_relation), len(query.keys or ())
        halved, reach = Fraction(most, 2 if together else 1), min(query.reach(neighbor_relation), keys)
        return cls(keys, lowest, highest - lowest, halved, reach, together)

    def rho_up(self, noise: Fraction) -> Fraction:
        """The zCDP of all noisy values up to a common shift, which keeps the winner (docs/theory/thresholds.md).

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

    def shortfall(self, noise: Fraction, beta: Fraction) -> int:
        """How many steps the winner is below the largest value at most, with probability 1 - beta; no more than the
        bounds are apart."""
        steps = max(0, math.ceil(accuracy.gaussian_loss_up(noise, self.keys, beta)) - 1)
        return min(steps, self.spread)


@lru_cache(maxsize=KEPT)
def noise_for(gaps: Gaps, epsilon: Fraction) -> Fraction:
    """The least noise in steps that is epsilon-DP, rounded up to four digits."""
    return numerics.four_digits_up(
        gaussian_selection.noisy_max_noise(epsilon, gaps.keys, sensitivity=gaps.sensitivity, spread=gaps.spread)
    )


# The fraction of units that satisfies a condition.


@call("fraction", subject="numbers")
class Proportion(Call[NoisyNumber]):
    """Publish the proportion of all units that satisfy a condition. The session needs `neighbors="replace"`, so that
    the number of units is public. It is 0 where there are none.

    Guarantee: epsilon-DP: discrete Laplace noise on the count, cut off at 0 and at the number of units, which is
    universally optimal for a count (Ghosh, Roughgarden, Sundararajan 2009). Always charged.
    """

    where: fields.Where
    _: KW_ONLY
    epsilon: fields.Positive

    def __post_init__(self) -> None:
        if self.where is None:
            raise InvalidQuery('a fraction needs its condition, such as Proportion("age >= 65", epsilon=0.1)')

    @classmethod
    def recorded(cls, body: Json) -> Self:
        return super().recorded(body | {"where": body["query"]["where"]})

    @property
    def numeric(self) -> bool:
        return True

    def plan(self, spine: Spine) -> Plan[NoisyNumber]:
        if not spine.rows.neighbor_relation.public_units:
            raise InvalidQuery(
                "the number of units is secret where they are added or removed: release a count, or a mean of 0 and 1"
            )
        asked, noise = count(self.where), additive.Laplace.for_epsilon(self.epsilon, sensitivity=1)

        def run(data: Data) -> Result:
            size, noisy = data.integer(1), noise.apply_one(data.integer(0), data.source)
            return Result({"ones": min(max(noisy, 0), size), "size": size}, 0, 0)

        def present(answer: Json, number: int) -> NoisyNumber:
            size = max(1, answer["size"])
            return NoisyNumber(number, answer["ones"] / size, min(1.0, noise.error_bar() / size))

        body = {"query": asked.body(), "epsilon": str(self.epsilon)}
        return self.planned(spine, noise.event(), run, present, reading(asked, count()), body=body)


# One choice: the best of many groups by private answers, the most common value, what the majority says.

Plainly = Literal["permute_and_flip", "exponential", "laplace"]
Way = Literal[Plainly, "inverse", "gaussian"]
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


@call(
    "choose",
    subject="selection",
    tells="key",
    meanings={
        "high": "Upper bound of the values, for Gaussian noise.",
        "low": "Lower bound of the values, for Gaussian noise.",
        "noise": "Standard deviation of Gaussian noise (instead of epsilon).",
    },
)
class Choose(Call[ChosenKey | Winner]):
    """Publish the group with the largest value, up to noise, of a grouped query. The value itself is not published.

    Guarantee: `Pure(epsilon)` whatever the number of groups, and whatever of them one unit is in; always charged. A
    group is a scalar for one column, a tuple for several; of a series, the position.

    - "permute_and_flip" is the most accurate of its epsilon; it is report noisy max with exponential noise.
    - "exponential" is the exponential mechanism, which is report noisy max with Gumbel noise. It is (epsilon^2/8)-zCDP
      as well, and costs the lower of both. A Renyi filter charges less for it than for any other epsilon-DP choice,
      down to a quarter, so up to twice the epsilon fits.
    - "laplace" is report noisy max with discrete Laplace noise. With `lead` it publishes, at the same cost, by how much
      the noisy value of the group exceeds what it needed to win. That is the gap to the runner-up, or a step of the
      query's grid less (Ding, Wang, Zhang, Kifer 2019; docs/theory/choices.md).
    - "inverse" is inverse sensitivity, of counts alone: a group is the likelier, the fewer units would have to change
      to make it the most common one. With three or more groups and units that are replaced, others are more accurate
      (docs/theory/choices.md). It has the zCDP of `InverseSensitivity` where there is one.
    - "gaussian" adds exactly normal noise to values clipped to `low` and `high`. It takes `epsilon`, or instead the
      standard deviation of the `noise`, from which epsilon follows ([GAUSS] Theorem 8). It is rho-zCDP as part of a
      release of all values (`Concentrated`); under a session with a delta the cheaper of both is charged. What counts
      is how far gaps between values can move: twice the sensitivity, or once where one unit moves all values in one
      direction (add/remove, contributions of one sign).

    Without `mechanism` it is "exponential" where that costs half of a pure call or less, else "permute_and_flip".
    Counts under add/remove, and sums of one sign, all move together; they take half the noise. Errors:
    `InvalidQuery` for a query without at least two groups, and by inverse sensitivity for what counts no units, or
    units with several groups that are replaced. `InvalidParameter` for bounds less than a step of the query's grid
    apart."""

    query: fields.AnyQuery
    _: KW_ONLY
    epsilon: fields.Positive | None = None
    mechanism: Way | None = None
    lead: fields.Flag = False
    low: fields.Exact | None = None
    high: fields.Exact | None = None
    noise: fields.Positive | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query) or self.query.keys is None or len(self.query.keys) < 2:
            raise InvalidQuery(
                'choose needs a count or a sum with at least two public keys, such as count().by("clinic", ["a", "b"])'
            )
        gaussian = self.mechanism == "gaussian"
        if not gaussian and (self.low is not None or self.high is not None):
            raise InvalidParameter('low= and high= are for mechanism="gaussian" alone: add it, or leave them out')
        if gaussian and (self.low is None or self.high is None):
            raise InvalidParameter('mechanism="gaussian" needs bounds of the values, such as low=0 and high=5000')
        if (self.noise is None) == (self.epsilon is None) or not (gaussian or self.noise is None):
            raise InvalidParameter(
                'give epsilon=, or with mechanism="gaussian" the standard deviation of its noise in the units of the '
                "query: noise=100"
            )
        if self.lead and self.mechanism not in (None, "laplace"):
            raise InvalidParameter('a lead is published with mechanism="laplace" alone: leave mechanism= out')

    @property
    def numeric(self) -> bool:
        return numbers_among(self.query.keys)

    def plan(self, spine: Spine) -> Plan[ChosenKey | Winner]:
        if self.mechanism is None and self.lead:
            return replace(self, mechanism="laplace").plan(spine)
        if self.mechanism is None:
            made = replace(self, mechanism="exponential").plan(spine)
            narrow, usual = made.price(spine.filter).hit, spine.filter.price(made.event).hit
            half = narrow.times(2).fits_into(usual)
            return made if half else replace(self, mechanism="permute_and_flip").plan(spine)
        query = cast("Query", self.query)
        if self.mechanism == "gaussian":
            return _by_gaussian_noise(self, query, spine)
        by = _by_inverse_sensitivity if self.mechanism == "inverse" else _by_scores
        keys, epsilon = query.keys or (), Fraction(self.epsilon or 0)
        pick, short, bounded = by(self, query, spine.rows.neighbor_relation, epsilon)

        def run(data: Data) -> Result:
            return Result({"position": pick(data.integers(), data.source)}, 0, 0)

        def present(answer: Json, number: int) -> ChosenKey:
            return ChosenKey(number, scalar(keys[answer["position"]]), shortfall=short(BETA))

        cost, forecast = PerHit(bounds=bounded_range(epsilon) if bounded else ()), Forecast(shortfall=short)
        plan = self.planned(spine, events.Pure(epsilon), run, present, reading(query), cost, lambda: forecast)
        if self.lead:
            return _with_lead(plan, query, spine.rows.neighbor_relation, epsilon)
        return plan if self.mechanism == "inverse" else _with_law(plan, query, spine.rows.neighbor_relation, self)


def bounded_range(epsilon: Number) -> tuple[events.Event, ...]:
    """What bounds an exponential mechanism: `BoundedRange(epsilon)`, of which (epsilon^2/8)-zCDP is a part.

    The proof of the second is in `chary.calls.choices`. It needs all log-likelihood ratios of a pair of neighbours in
    an interval of length epsilon, which permute-and-flip and noisy maxima do not promise.
    """
    size = exact(epsilon, "epsilon")
    return events.ZeroConcentrated(size**2 / 8), events.BoundedRange(size)


# A function that chooses a position among values, its shortfall for a failure probability, and whether all
# log-likelihood ratios of two neighbours lie in an interval of length epsilon.
Chooser = tuple[Callable[[Integers, Source], int], Callable[[Fraction], float], bool]


def _by_scores(call: Choose, query: Query, neighbor_relation: NeighborRelation, epsilon: Fraction) -> Chooser:
    """The exponential mechanism, permute-and-flip or report noisy max on the answers in grid steps."""
    by, many = str(call.mechanism), len(query.keys or ())
    mechanism = chooser(query, neighbor_relation, epsilon, by)
    unit = (mechanism.exponential if isinstance(mechanism, choices.ReportNoisyMax) else mechanism).unit

    def short(beta: Fraction) -> float:
        return float(max(0, _steps(by, unit, many, beta)) * query.grid)

    return mechanism.step, short, by == "exponential"


def chooser(
    query: Query, neighbor_relation: NeighborRelation, epsilon: Number, by: str
) -> choices.Exponential | choices.ReportNoisyMax:
    """The exact choice among the groups' answers in grid steps; refuses an epsilon out of range."""
    return _MADE[by](epsilon, query.sensitivity(neighbor_relation), query.one_direction(neighbor_relation))


def _with_lead(
    plan: Plan[ChosenKey | Winner], query: Query, neighbor_relation: NeighborRelation, epsilon: Fraction
) -> Plan[ChosenKey | Winner]:
    """The same choice that publishes the lead too."""
    keys = query.keys or ()
    mechanism = cast("choices.ReportNoisyMax", chooser(query, neighbor_relation, epsilon, "laplace"))
    # Each of the two noises is off by this at most; the order of equal values adds a step.
    off = additive.Laplace(mechanism.scale, mechanism.sensitivity).error_bar(float(1 - BETA / len(keys)))

    def run(data: Data) -> Result:
        position, lead = mechanism.step_with_lead(data.integers(), data.source)
        return Result({"position": position, "lead": lead}, 0, 0)

    def present(answer: Json, number: int) -> ChosenKey:
        key, lead = scalar(keys[answer["position"]]), float(answer["lead"] * query.grid)
        return ChosenKey(number, key, lead=lead, error_bar=float((2 * off + 1) * query.grid))

    return replace(plan, run=run, present=present)


def _with_law(
    plan: Plan[ChosenKey | Winner], query: Query, neighbor_relation: NeighborRelation, call: Choose
) -> Plan[ChosenKey | Winner]:
    """The same choice, whose distribution is known: not that of noisy maxima, nor of permute-and-flip among very
    many."""
    mechanism, many = chooser(query, neighbor_relation, call.epsilon or 0, str(call.mechanism)), len(query.keys or ())
    flips = isinstance(mechanism, choices.PermuteAndFlip)
    if isinstance(mechanism, choices.ReportNoisyMax) or (flips and many > choices.MOST_CANDIDATES):
        return plan
    outcomes = [{"position": position} for position in range(many)]
    return replace(plan, outcomes=outcomes, law=lambda data: mechanism.law(data.integers()))


def _by_inverse_sensitivity(
    call: Choose, query: Query, neighbor_relation: NeighborRelation, epsilon: Fraction
) -> Chooser:
    """Inverse sensitivity: a group's distance is the number of units to change to make it the most common one."""
    replaced, cell = neighbor_relation.neighbors is Neighbors.REPLACE, query.contribution(neighbor_relation)
    if isinstance(query, Sum) or (cell.low, cell.high, cell.rows) != (0, 1, None):
        raise InvalidQuery("inverse sensitivity counts units: ask count() or a histogram, not a sum")
    if replaced and cell.spread > 1:
        raise InvalidQuery(
            "where units are replaced, inverse sensitivity needs units with one group each: "
            "set max_groups_per_unit=1 or assumed_groups_per_unit=1, or leave mechanism= out"
        )
    mechanism = inverse_choice(query, neighbor_relation, epsilon)

    def short(beta: Fraction) -> float:
        """How many more units another group may have: moving one unit from key to group changes the gap by two."""
        units = ceil(accuracy.exponential_loss_up(mechanism.unit, len(query.keys or ()), beta)) - 1
        return float(max(0, units) * (2 if replaced else 1))

    def pick(values: Integers, source: Source) -> int:
        return mechanism.pick(choices.mode_distances(values, replace=replaced), source)

    return pick, short, not (mechanism.whole and replaced)


def inverse_choice(query: Query, neighbor_relation: NeighborRelation, epsilon: Number) -> choices.InverseSensitivity:
    """The choice. With two groups one has distance 0, and added units only raise counts: then the 1/2 is dropped."""
    replaced = neighbor_relation.neighbors is Neighbors.REPLACE
    return choices.InverseSensitivity(epsilon, whole=not replaced or len(query.keys or ()) == 2)


def _by_gaussian_noise(call: Choose, query: Query, spine: Spine) -> Plan[ChosenKey | Winner]:
    """The largest of clipped values after exactly normal noise."""
    low, high, keys = Fraction(call.low or 0), Fraction(call.high or 0), query.keys or ()
    gaps = Gaps.of(query, spine.rows.neighbor_relation, low, high)
    said = None if call.epsilon is None else Fraction(call.epsilon)
    mechanism = choices.GaussianMax(Fraction(call.noise or 0) / query.grid if said is None else noise_for(gaps, said))
    noise = Fraction(mechanism.noise)

    def run(data: Data) -> Result:
        values = np.clip(data.integers(), gaps.lowest, gaps.lowest + gaps.spread)
        position = mechanism.step(values, data.source)
        return Result({"position": position, "noise": str(noise * query.grid)}, hits=1, tests=1)

    def present(answer: Json, number: int) -> Winner:
        # The noise that the answer stores, since epsilon may give another one on another machine.
        drawn = Fraction(answer["noise"])
        short = float(gaps.shortfall(drawn / query.grid, BETA) * query.grid)
        return Winner(number, keys[answer["position"]], (float(low), float(high)), float(drawn), short)

    def forecast() -> Forecast:
        return Forecast(shortfall=lambda beta: float(gaps.shortfall(noise, beta) * query.grid))

    event = events.Concentrated(gaps.epsilon_up(noise) if said is None else said, gaps.rho_up(noise))
    return call.planned(spine, event, run, present, reading(query), forecast=forecast)


@call("most_common", subject="selection")
class MostCommon(Shorthand[ChosenKey | Winner]):
    """Publish the value of a column that most units have, up to noise, among public values, as `Choose` of their
    counts.

    Guarantee and errors as for `Choose`. Values that are not listed are never returned.
    """

    column: fields.ColumnName
    _: KW_ONLY
    among: fields.Keys
    epsilon: fields.Positive
    where: fields.Where = None
    mechanism: Plainly | None = None

    def stands_for(self) -> Choose:
        counts = count(self.where).by(self.column, self.among)
        return Choose(counts, epsilon=self.epsilon, mechanism=self.mechanism)


@call(
    "majority",
    subject="selection",
    meanings={
        "mechanism": "Which mechanism answers.",
    },
)
class Majority(Call[YesOrNo]):
    """Publish whether more units satisfy the condition than do not, up to noise. A tie is settled by a fair coin.

    Guarantee: `Pure(epsilon)` (`MajorityVote`); always charged. A unit that comes or goes moves the lead by one; one
    that is replaced, by two. The default is wrong least often of all votes that treat both answers alike;
    "inverse" and "exponential" are the published ones (`chary.mechanisms.MajorityVote`).
    """

    condition: fields.PredicateText
    _: KW_ONLY
    epsilon: fields.Positive
    mechanism: choices.Rule = "noise"

    @classmethod
    def recorded(cls, body: Json) -> Self:
        return super().recorded(body | {"condition": body["query"]["where"]})

    def plan(self, spine: Spine) -> Plan[YesOrNo]:
        asked, mechanism = count(self.condition), majority_vote(self, spine.rows.neighbor_relation)
        said = {"query": asked.body(), "epsilon": str(self.epsilon), "mechanism": self.mechanism}

        def run(data: Data) -> Result:
            return Result({"yes": mechanism.step(2 * data.integer(0) - data.integer(1), data.source)}, 0, 0)

        def present(answer: Json, number: int) -> YesOrNo:
            return YesOrNo(number, bool(answer["yes"]))

        event, reads, short = events.Pure(mechanism.epsilon), reading(asked, count()), mechanism.shortfall
        body, forecast = stored(said, self.kind), Forecast(shortfall=short)
        return self.planned(spine, event, run, present, reads, forecast=lambda: forecast, body=body)


def majority_vote(call: Majority, neighbor_relation: NeighborRelation) -> choices.MajorityVote:
    """The exact vote on the lead; refuses noise out of range."""
    moved = 2 if neighbor_relation.neighbors is Neighbors.REPLACE else 1
    return choices.MajorityVote(call.epsilon, moved, call.mechanism)


# One of a list of public candidates, by scores or distances of the caller's own: the exponential mechanism in its
# general form, and inverse sensitivity.

_SCALARS: Final = (str, bool, int, float, Fraction, date)
# A function that chooses a position from what was read, and its shortfall for a failure probability.
Picking = tuple[Callable[[Sequence[Any], Source], int], Callable[[Fraction], float]]


@call("exponential_mechanism", subject="selection", typed=False)
class ExponentialMechanism(Call[ChosenKey]):
    """Publish one of a list of public candidates, the likelier the higher its score, or the smaller its distance.

    Guarantee: `Pure(epsilon)` and (epsilon^2/8)-zCDP, whichever costs less under the filter, always charged. A
    candidate of score u has a probability exactly proportional to `exp(epsilon u / (2 sensitivity))`. One at distance
    D, which is inverse sensitivity, has one proportional to `exp(-epsilon D / 2)`. With `monotone` the 2 is left out.
    Give one of the two:

    - `score=ScoreFunction(name, run)`, a function of the rows. **An assumption that nothing can check:** one unit,
      added or removed or replaced as the session says, moves no score by more than `sensitivity`. With `monotone` it
      also moves all of them up or all of them down. Scores are rounded down to about a millionth of the sensitivity
      (integers are kept) and clipped at 2**40 times it; NaN counts as the least. Neither can break that.
    - `score=[query, ...]`, a count or a sum for each candidate (or one query with as many groups): chary proves how
      far they move apart, and `sensitivity` and `monotone` are left out.
    - `distance=ScoreFunction(name, run)`: how many units would have to change to make each candidate the true answer.
      **An assumption that nothing can check:** one unit changes no distance by more than 1. With `monotone` it also
      changes all of them in one direction, up or down. Distances are rounded down to integers from 0 to 2**40; NaN is
      farthest. Neither can break that.
    - `distance=query`, a count or a sum without groups, where the candidates are numbers: which of them is it? Chary
      works out how many units lie between.

    With 95 % confidence, the score is at most `shortfall` below the best, or the distance at most that far above the
    smallest, whatever the data. A quote states it; `chary.accounting.utility_loss_up` is the published form of that
    bound. No unbiased (epsilon/4)-DP mechanism is more accurate where the distance is exactly that number of units.
    Candidates are different numbers, strings, truth values or dates, two or more. Source: theory chapter 4; Asi, Duchi
    2020.

    Errors: `InvalidParameter` for invalid candidates, for both or none of `score` and `distance`, and for a missing or
    superfluous sensitivity. The same for a number of queries that is not that of the candidates, and for a distance to
    candidates that are no numbers. `AlgorithmFailed`, charged, for a function that raises or returns anything but
    numbers.

    >>> from chary import count
    >>> ages = {"young": "age < 30", "middle": "age >= 30 AND age < 60", "old": "age >= 60"}
    >>> ExponentialMechanism(list(ages), [count(where) for where in ages.values()], epsilon="0.1").candidates
    ('young', 'middle', 'old')
    >>> ExponentialMechanism([0, 10, 100, 1000], distance=count("age >= 65"), epsilon="0.1").candidates
    (0, 10, 100, 1000)
    """

    candidates: fields.Keys
    score: fields.Scores | None = None
    _: KW_ONLY
    epsilon: fields.Positive
    distance: fields.Scores | None = None
    sensitivity: fields.Positive | None = None
    monotone: fields.Flag = False

    def __post_init__(self) -> None:
        listed, score = _checked(self.candidates), self.score
        if (score is None) == (self.distance is None):
            raise InvalidParameter("say one of score= and distance=: a ScoreFunction, or queries")
        if isinstance(score, ScoreFunction):
            if self.sensitivity is None:
                raise InvalidParameter("say how far one unit moves a score of yours at most, such as sensitivity=1")
            return
        if self.sensitivity is not None or (self.monotone and not isinstance(self.distance, ScoreFunction)):
            raise InvalidParameter(
                "how far counts, sums and distances move is known: leave sensitivity= and monotone= out"
            )
        if score is None:
            self._check_distance()
            return
        answers = len(score.keys or ()) if isinstance(score, Query) else len(score)
        if not isinstance(score, Query) and any(query.keys is not None for query in score):
            raise InvalidParameter("each query of a list scores one candidate, so it has no groups")
        if answers != listed:
            raise InvalidParameter(f"there are {listed} candidates and {answers} answers to score them")

    def _check_distance(self) -> None:
        if isinstance(self.distance, ScoreFunction):
            return
        if not isinstance(self.distance, Query) or self.distance.keys is not None:
            raise InvalidParameter("distance is a ScoreFunction, or one count or sum without groups")
        for candidate in self.candidates:
            exact(candidate, "each of the candidates")

    @property
    def numeric(self) -> bool:
        return numbers_among(self.candidates)

    def plan(self, spine: Spine) -> Plan[ChosenKey]:
        candidates, brought = tuple(self.candidates), self.distance if self.score is None else self.score
        pick, short = (_by_distance if self.score is None else _by_score)(self, spine.rows.neighbor_relation)
        own = brought if isinstance(brought, ScoreFunction) else None

        def run(data: Data) -> Result:
            if own is None:
                read = np.concatenate([data.integers(place) for place in range(len(data.values))])
                return Result({"position": pick([int(value) for value in read], data.source)}, 0, 0)
            try:
                found = own.scores(data.values[0], candidates, data.source)
            except AlgorithmFailed:
                return Result({"failed": True}, 0, 0)
            return Result({"position": pick(found, data.source)}, 0, 0)

        def present(answer: Json, number: int) -> ChosenKey:
            if "failed" in answer:
                raise AlgorithmFailed(failed("" if own is None else own.name))
            return ChosenKey(number, candidates[answer["position"]], shortfall=short(BETA))

        reads = reading(*_queries(brought)) if own is None else lambda rows: [own.prepare(rows)]
        cost, forecast = PerHit(bounds=bounded_range(self.epsilon)), Forecast(shortfall=short)
        return self.planned(spine, events.Pure(self.epsilon), run, present, reads, cost, lambda: forecast)


def _queries(brought: Any) -> tuple[Query, ...]:
    """The queries that score candidates: one query with a group for each candidate, or one query for each."""
    return (brought,) if isinstance(brought, Query) else tuple(brought)


def _checked(candidates: Any) -> int:
    """The number of candidates; `InvalidParameter` for fewer than two, for lists, and for repeated ones."""
    listed = tuple(candidates)
    if len(listed) < 2 or not all(isinstance(each, _SCALARS) for each in listed):
        raise InvalidParameter('candidates are two or more public values, such as candidates=["a", "b"] or [0.5, 1, 2]')
    if len({(type(each) is bool, each) for each in listed}) != len(listed):
        raise InvalidParameter("candidates must be different")
    return len(listed)


def _by_distance(call: ExponentialMechanism, neighbor_relation: NeighborRelation) -> Picking:
    mechanism, candidates = choices.InverseSensitivity(call.epsilon, whole=call.monotone), tuple(call.candidates)

    def pick(found: Sequence[Any], source: Source) -> int:
        if isinstance(call.distance, Query):
            found = units_between(call.distance, neighbor_relation, found[0], candidates)
        return mechanism.pick(distance_steps(found), source)

    def short(beta: Fraction) -> float:
        return float(max(0, ceil(accuracy.exponential_loss_up(mechanism.unit, len(candidates), beta)) - 1))

    return pick, short


def units_between(
    query: Query, neighbor_relation: NeighborRelation, value: int, candidates: Sequence[Any]
) -> list[int]:
    """The least number of units between an answer, in grid steps, and each of these numbers."""
    moved = query.sensitivity(neighbor_relation)
    gaps = [abs(value - exact(candidate, "candidate") / query.grid) for candidate in candidates]
    return [ceil(gap / moved) for gap in gaps]


def _by_score(call: ExponentialMechanism, neighbor_relation: NeighborRelation) -> Picking:
    mechanism, step = score_choice(call, neighbor_relation)
    score, many = call.score, len(tuple(call.candidates))

    def pick(found: Sequence[Any], source: Source) -> int:
        if isinstance(score, ScoreFunction):
            return mechanism.step(score_steps(found, Fraction(call.sensitivity or 1)), source)
        grids = [query.grid for query in _queries(score)] * (many if isinstance(score, Query) else 1)
        return mechanism.step([int(value * grid / step) for value, grid in zip(found, grids, strict=True)], source)

    def short(beta: Fraction) -> float:
        steps = ceil(accuracy.exponential_loss_up(mechanism.unit, many, beta))
        # A score is rounded down by less than a step; those of queries are integers of them.
        return float(max(0, steps if isinstance(score, ScoreFunction) else steps - 1) * step)

    return pick, short


def score_choice(
    call: ExponentialMechanism, neighbor_relation: NeighborRelation
) -> tuple[choices.Exponential, Fraction]:
    """The exact choice among scores in steps, and the size of a step.

    The probabilities of two neighbours differ by a factor of at most the exponential of the distance that scores move
    *apart*. So this distance is the sensitivity for queries, without the factor 2.
    """
    if isinstance(call.score, ScoreFunction):
        step = score_step(Fraction(call.sensitivity or 1))
        far = Fraction(call.sensitivity or 1) / step
        return choices.Exponential(call.epsilon, int(far), call.monotone), step
    queries = _queries(call.score)
    below = lcm(*(query.grid.denominator for query in queries))
    step = Fraction(gcd(*(int(query.grid * below) for query in queries)), below)
    return choices.Exponential(call.epsilon, int(_apart(queries, neighbor_relation) / step), monotone=True), step


def _apart(queries: Sequence[Query], neighbor_relation: NeighborRelation) -> Fraction:
    """How far one unit can move two scores apart.

    A unit that is added or removed moves each score within its range, all in the same direction. A unit that is
    replaced may leave one and enter another.
    """
    if neighbor_relation.neighbors is not Neighbors.ADD_REMOVE:
        return 2 * max(query.sensitivity(neighbor_relation) * query.grid for query in queries)
    cells = [(query.contribution(neighbor_relation), query.grid) for query in queries]
    ends = [(cell.low * (cell.rows or 1) * grid, cell.high * (cell.rows or 1) * grid) for cell, grid in cells]
    return max(high for _, high in ends) - min(low for low, _ in ends)


# Labels from votes: each label is charged, only unclear ones are, or only those that a guess got wrong.
#
# All of them choose an option with a probability proportional to `exp(epsilon votes / 2)`. One voter moves one vote
# from one option to another, so the factor 2 is needed: where the second option has nearly all of the distribution, its
# loss changes the sum as well, and the first becomes e^epsilon times as likely (no smaller epsilon holds). What does
# hold is that the log-likelihood ratio lies in an interval of length epsilon. Then `K(a) = ln E_P1 (P0/P1)^a` has `K''
# <= epsilon^2 / 4`, the largest variance in such an interval, and is 0 at 0 and 1, so `K(a) <= a (a-1) epsilon^2 / 8`:
# the choice is (epsilon^2 / 8)-zCDP, a quarter of what an epsilon-DP release costs.

Option = str | int
State = Literal["label", "low", "boundary"]
Level = Literal["high", "low"]
# Votes are counted in 64 bits, and a threshold stands among them with room for one more.
_MOST_VOTES: Final = 2**62


@dataclass(frozen=True)
class Labelled(Answer):
    """The voters' label of one question: `option`, or None with the reason in `state`.

    "low": no option has many votes; "boundary": it is not clear what to answer. `paid` says whether it was charged; a
    call of a size for which the filter has no cost of hits is charged in any case. `agreed` is the call that asked
    for agreement first, if one did.
    """

    state: State
    option: Option | None
    paid: bool
    agreed: int | None = field(default=None, kw_only=True)
    hit_if = "paid"

    @property
    def value(self) -> Option | None:
        """The label."""
        return self.option

    def _numbers(self) -> Sequence[int]:
        return [number for number in dict.fromkeys((self.agreed, self.call)) if number is not None]


@call("label", subject="votes", typed=False)
class Label(Call[Labelled]):
    """Publish the label with the most votes. With `guess`, such as a model's prediction, it is free unless another
    label comes out.

    With `clear` it is free where it is clear; where it is not, the answer is "boundary", which is charged.

    Guarantee: the exponential mechanism on the counts of votes when one voter votes differently. It is `Pure(epsilon)`
    and (epsilon^2/8)-zCDP, whichever costs less under the filter. With a guess, which may depend on everything
    published before, it is a `NarrowChoice` whose hit is another label than the guess. `low` adds the candidate "no
    option has this many votes", for which no label is released. `flip` chooses by permute-and-flip. This is more
    accurate, and more expensive under a Renyi filter where every label is paid. It is `Pure` alone, and with a guess
    any epsilon-DP call with that NotPrior target. `clear` puts the mechanism inside the boundary wrapper,
    `BoundaryCall(epsilon)` ([TCT] Algorithm 4). With `low`, both a clear label and a clear "low" are free.

    Errors: `InvalidQuery` when the session does not ask votes; `InvalidParameter` for a guess that is no option, and
    for `clear` with a guess or `flip`.
    """

    question: fields.Word
    _: KW_ONLY
    epsilon: fields.Positive
    guess: fields.Word | None = None
    low: fields.Whole | None = None
    flip: fields.Flag = False
    clear: fields.Flag = False

    def __post_init__(self) -> None:
        if self.clear and (self.flip or self.guess is not None):
            raise InvalidParameter("a label that is free where it is clear takes no guess and no flip: leave them out")
        if self.low is not None and self.low >= _MOST_VOTES:
            raise InvalidParameter("low is a number of votes, below 2**62")

    @property
    def numeric(self) -> bool:
        return True

    def plan(self, spine: Spine) -> Plan[Labelled]:
        poll, low = polled(spine.rows, self.question), self.low
        guess = None if self.guess is None else position(poll, self.guess)
        if self.guess is not None and guess is None:
            raise InvalidParameter("the guess is none of the options that were voted on")
        mechanism = label_choice(self)

        def run(data: Data) -> Result:
            outcome = mechanism.step(votes(data, low), data.source)
            hit = outcome == boundaries.BOUNDARY if self.clear else guess is None or outcome != guess
            return labelled(poll, outcome, data, hit=hit)

        bounded = not (self.flip or self.clear) and self.guess is None
        cost = PerHit(bounds=bounded_range(self.epsilon) if bounded else ())
        body = _poll_body(self, poll) | ({} if self.clear else {"guess": self.guess})
        return self.planned(spine, label_event(self), run, tell_label, reading(poll), cost, body=body)


def label_choice(call: Label) -> choices.Exponential | boundaries.BoundaryWrapper[Any]:
    """The exact choice; refuses an epsilon out of range."""
    made = (choices.PermuteAndFlip if call.flip else choices.Exponential)(call.epsilon, sensitivity=1)
    return boundaries.BoundaryWrapper(made) if call.clear else made


def label_event(call: Label) -> events.Event:
    """The event of a label."""
    epsilon = exact(call.epsilon, "epsilon")
    if call.clear:
        return events.BoundaryCall(epsilon)
    if call.guess is None:
        return events.Pure(epsilon)
    return events.Targeted(epsilon) if call.flip else events.NarrowChoice(epsilon)


def _poll_body(call: Call[Any], poll: Poll) -> Json:
    """The body of a call on a poll as ledgers store it: the poll stands under `query`."""
    return {"query": poll.body()} | {name: part for name, part in call.question_body().items() if name != "question"}


def votes(data: Data, low: int | None) -> Integers:
    """The votes of all options, and with `low` that number as the votes of "no option has that many"."""
    found = data.integers()
    return found if low is None else np.append(found, low)


def labelled(poll: Poll, outcome: boundaries.InnerOutcome, data: Data, *, hit: bool) -> Result:
    """The result of an outcome: "boundary", "low", or the label of an option."""
    named: Json = {"state": boundaries.BOUNDARY if outcome == boundaries.BOUNDARY else "low"}
    if outcome not in (boundaries.BOUNDARY, len(poll.options)):
        named = {"state": "label", "option": poll.options[int(outcome)]}
    return Result(named | {"charged": hit or not data.price.free_miss}, hits=int(hit), tests=1)


def tell_label(answer: Json, number: int) -> Labelled:
    """The label of a stored answer."""
    return Labelled(number, answer["state"], answer.get("option"), answer["charged"])


@dataclass(frozen=True)
class Agreed(YesOrNo):
    """Whether some option has this many votes, up to noise; `surprising` if that was not expected, which is a hit."""

    surprising: bool
    hit_if = "surprising"


@call("agreement", subject="votes", typed=False)
class Agreement(Call[Agreed]):
    """Test whether some option has at least `above` votes, up to noise. The expected outcome is free.

    Guarantee: the largest count, which moving a vote changes by one at most, is tested with discrete Laplace noise: one
    epsilon-DP call with the NotPrior target "not as expected". Errors as for `Label`.
    """

    question: fields.Word
    _: KW_ONLY
    above: fields.Whole
    epsilon: fields.Positive
    expect: Level = "high"

    def plan(self, spine: Spine) -> Plan[Agreed]:
        poll, mechanism = polled(spine.rows, self.question), agreement_test(self)

        def run(data: Data) -> Result:
            found = "high" if mechanism.step(int(data.integers().max()), data.source) else "low"
            return Result({"found": found}, hits=int(found != self.expect), tests=1)

        def present(answer: Json, number: int) -> Agreed:
            return Agreed(number, answer["found"] == "high", surprising=answer["found"] != self.expect)

        event, body = events.Targeted(self.epsilon), _poll_body(self, poll)
        return self.planned(spine, event, run, present, reading(poll), body=body)


def agreement_test(call: Agreement) -> threshold_tests.AdditiveTest:
    """The test on the largest count; refuses noise out of range."""
    return threshold_tests.AdditiveTest(additive.Laplace.for_epsilon(call.epsilon, sensitivity=1), call.above)


def position(poll: Poll, option: Option | None) -> int | None:
    """The place of an option, also distinguished by type (1 is not True); None if it is none of them."""
    found = [k for k, known in enumerate(poll.options) if known == option and type(known) is type(option)]
    return found[0] if found else None


def polled(rows: Rows, question: str | int) -> Poll:
    """The question as it is put to voters; `InvalidQuery` for rows instead of votes, and for what is no question."""
    if not isinstance(rows, Votes):
        raise InvalidQuery("labels need votes, which a program opens by open_votes; this dataset has rows")
    if isinstance(question, bool) or not isinstance(question, (str, int)):
        raise InvalidQuery("a question to voters is a string or an integer")
    return rows.poll(question)
