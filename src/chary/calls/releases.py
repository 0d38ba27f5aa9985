"""Releases of counts, sums, means and histograms, alone and together."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np

from chary import accounting, noise
from chary.accounting import gaussian_noise, intervals
from chary.answers import Ends, NoisyNumber, NoisyNumbers, Table, Value, in_row, scalar
from chary.calls import answers, fields, linear
from chary.calls.call import Call, Shorthand, call
from chary.core import plan
from chary.core.forecast import Forecast, error_bar
from chary.core.plan import Data, Json, PerHit, Plan, Question, Result, Size, naturals, reading
from chary.core.transaction import Spine
from chary.data import Mean, NeighborRelation, Neighbors, Query, count, histogram
from chary.data.queries import bodies, overlap
from chary.data.queries.histogram import Outside
from chary.data.queries.query import AnsweredT
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms import Additive, Gaussian, Laplace
from chary.mechanisms.additive import Integers
from chary.numbers import CONFIDENT, Number, plain, probability

# Means: the two noisy numbers behind one, their noise, and the interval that follows from both.

Form = Literal["halves", "joint", "ends", "size"]


@dataclass(frozen=True)
class MeanNoise:
    """The noise of a mean of `steps` = (low, high) around its center, in grid steps.

    - "halves": the centred sum S and the number N of values, independent, each with half of the epsilon or rho.
    - "joint", where a unit is replaced: S has the noise of all of epsilon, and N noise that is free. A value that
      becomes another moves S by W = high - low and not N. One that becomes NULL moves S by M = max(-low, high) and N by
      one. So N may have scale b/(W - M) for the scale b of S (docs/theory/noise.md, "Means").
    - "ends": the sums of the distances of all values from the lower and from the upper bound. Of one value the two add
      up to W, so both have noise of scale W/epsilon, half of the variance of halves.
    - "size", where N is public (`Mean.of_public_size`): S has the noise of all of epsilon, and N the least noise there
      is, which is practically never drawn and protects nothing.
    """

    form: Form
    query: Mean[Any]
    steps: tuple[int, int]
    noises: tuple[Additive, Additive]
    event: accounting.Event

    def parts(self, sums: Integers, counts: Integers) -> tuple[Integers, Integers]:
        """The exact numbers that noise is added to, from S and N."""
        if self.form != "ends":
            return sums, counts
        low, high = self.steps
        # Whole numbers of any size: as many rows times a width may pass 64 bits.
        total, size = sums.astype(object), counts.astype(object)
        return total - low * size, high * size - total

    def values(self, first: Sequence[int], second: Sequence[int]) -> list[float]:
        """The means: clipped to the bounds; where no values seem to be left, what is nearest the middle of the bounds
        of all that the interval at 95 % holds."""
        one, other = (np.array(noisy, dtype=float) for noisy in (first, second))
        if self.form == "ends":
            low, high = self.steps
            one, other = (high * one + low * other) / (high - low), (one + other) / (high - low)
        found: list[float] = self.query.combine(one, other).tolist()
        reaches = self.reaches()
        for place in np.flatnonzero(other <= 0).tolist():
            least, most = self._within(first[place], second[place], reaches)
            found[place] = min(max(found[place], least), most)
        return found

    def interval(self, first: int, second: int, confidence: Number = intervals.CONFIDENCE) -> intervals.Interval:
        """Where the mean lies: both numbers in their intervals, a quarter of the risk on each side (chapter 3)."""
        return intervals.Interval(*self._within(first, second, self.reaches(confidence)))

    def _within(self, first: int, second: int, reaches: tuple[int, int]) -> tuple[float, float]:
        one, other = reaches
        above, below, bounds = (first - one, first + one), (second - other, second + other), self.query.bounds
        if self.form == "ends":
            return intervals.mean_between(above, below, bounds=bounds)
        return intervals.mean_interval(above, below, center=self.query.center, bounds=bounds, grid=self.query.grid)

    def foretold(self) -> str:
        """The width of an interval in words, as a function of the number of values, which is not known beforehand."""
        (one, other), grid = self.reaches(), self.query.grid
        least, of = plain(float(one * grid)), "the interval of a mean of n rows that count"
        if self.form == "ends":
            return f"{of} reaches about {least}/n to either side"
        most = plain(float((one + other * max(-self.steps[0], self.steps[1])) * grid))
        return f"{of} reaches about {least}/n to {most}/n to either side"

    def reaches(self, confidence: Number = intervals.CONFIDENCE) -> tuple[int, int]:
        """The largest error of each of the two numbers; each takes half of the failure probability."""
        side = (1 - probability(confidence, "confidence")) / 4
        one, other = (each.law().reach_up(side) - 1 for each in self.noises)
        return one, other


@dataclass(frozen=True)
class ToldMean:
    """The inference of one mean, from its two noisy numbers (`chary.accounting.findings.Inference`)."""

    made: MeanNoise
    parts: tuple[int, int]
    at_once: ClassVar[bool] = False

    def interval(self, value: Number, confidence: Number = intervals.CONFIDENCE) -> intervals.Interval:
        """Where the mean lies; the value follows from the parts."""
        return self.made.interval(*self.parts, confidence)

    def near_the_top(self, value: Number) -> bool:
        """Whether the mean is within a tenth of the range of the values from its upper end."""
        low, high = self.made.query.bounds
        return Fraction(value) >= high - (high - low) / 10

    def p_value(self, value: Number) -> None:
        """None: a mean is published whatever comes out."""

    def caution(self, value: Number, confidence: Number = intervals.CONFIDENCE) -> None:
        """None: a mean is no alarm."""


@dataclass(frozen=True)
class NoisyMean(NoisyNumber):
    """A noisy mean. Its `interval` is that of its two noisy numbers together; it has no `error_bar`."""

    told: ToldMean | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def interval(self) -> Ends | None:
        return None if self.told is None else self.told.interval(self.value)

    @property
    def _notes(self) -> list[str]:
        near = self.told is not None and self.told.near_the_top(self.value)
        return [
            *super()._notes,
            *(["it is near the upper bound, to which many values may be clipped"] if near else []),
        ]


@dataclass(frozen=True)
class NoisyMeans(NoisyNumbers):
    """One noisy mean for each group. Each interval holds with 95 % confidence, not all of them together."""

    parts: tuple[tuple[int, ...], tuple[int, ...]]
    made: MeanNoise

    def cells(self, position: int) -> dict[str, Any]:
        low, high = self.made.interval(*(part[position] for part in self.parts))
        return {"value": self.values[position], "low": low, "high": high}


def mean_answer(made: MeanNoise, noisy: Sequence[Sequence[int]], call: int) -> NoisyMean | NoisyMeans:
    """The answer from the noisy numbers in the ledger."""
    query, values = made.query, made.values(noisy[0], noisy[1])
    if query.keys is None:
        return NoisyMean(call, values[0], None, told=ToldMean(made, (noisy[0][0], noisy[1][0])))
    parts = (tuple(noisy[0]), tuple(noisy[1]))
    return NoisyMeans(call, query.columns, tuple(query.keys), tuple(values), None, parts, made)


def halves(query: Mean[Any], neighbor_relation: NeighborRelation, drawn: Sequence[Additive]) -> MeanNoise:
    """The noise of the centred sum and of the number of values, as `noises` makes it."""
    first, second = drawn
    event = accounting.Joint((first.event(), second.event()))
    return MeanNoise("halves", query, query.parts(neighbor_relation)[0].steps, (first, second), event)


@lru_cache(maxsize=plan.KEPT)
def laplace_mean(query: Mean[Any], neighbor_relation: NeighborRelation, epsilon: Fraction) -> MeanNoise:
    """The best of the forms with Laplace noise: size where the number of values is public, joint where one mean is
    asked and units are replaced, otherwise ends.

    Guarantee: the event of the first number's noise alone, which is epsilon-DP for both (docs/theory/noise.md,
    "Means").
    """
    total, rows = query.parts(neighbor_relation)
    low, high = total.steps
    width, most = high - low, max(-low, high)
    if query.of_public_size(neighbor_relation):
        sums = plan.laplace_for(total, neighbor_relation, epsilon)
        return MeanNoise("size", query, (low, high), (sums, Laplace(noise.SMALLEST_SCALE, 1)), sums.event())
    if neighbor_relation.neighbors is Neighbors.REPLACE and query.keying is None and width > most:
        sums = plan.laplace_for(total, neighbor_relation, epsilon)
        return MeanNoise("joint", query, (low, high), (sums, _free(sums, width - most)), sums.event())
    # Every row that comes or goes moves the two sums by W together; where one is replaced, one goes and one comes.
    moved = 2 if neighbor_relation.neighbors is Neighbors.REPLACE else 1
    each = Laplace.for_epsilon(epsilon, sensitivity=rows.sensitivity(neighbor_relation) * width, times=moved)
    return MeanNoise("ends", query, (low, high), (each, each), each.event())


def _free(sums: Laplace, spared: int) -> Laplace:
    """The free noise of the number of values. A change of the number by one leaves the sum `spared` steps short of its
    largest change."""
    return Laplace(max(noise.SMALLEST_SCALE, sums.scale / spared), 1)


# An ordinary release: noise on a query's values, published and charged whatever comes out.


@call("release", subject="numbers", publishes=True)
class Release(Call[AnsweredT]):
    """Publish a noisy value: with discrete Laplace noise for `epsilon`, discrete Gaussian noise for `rho`, or for
    `epsilon` and `delta`. The answer is a `NoisyNumber`, or `NoisyNumbers` for a query with groups.

    Guarantee: epsilon-DP, rho-zCDP or (epsilon, delta)-DP for the whole answer (all keys of a grouped query together).
    Always charged. The event is that of the noise itself, which at Renyi orders is cheaper than a pure event of the
    same epsilon. With delta it is the zCDP of the noise, by the distribution on the grid
    (`chary.accounting.discrete_gaussian_variance`), or `Approximate(epsilon, delta)`, whichever takes less of the
    filter's capacity.

    >>> from chary import count
    >>> Release(count(), epsilon="0.1").body()["epsilon"]
    '1/10'
    """

    query: fields.QueryOf[AnsweredT]
    _: KW_ONLY
    epsilon: fields.Positive | None = None
    rho: fields.Positive | None = None
    delta: fields.Probability | None = None

    def __post_init__(self) -> None:
        linear.check_sizes(self.epsilon, self.rho, self.delta)

    @property
    def numeric(self) -> bool:
        return self.query.keys is None

    def plan(self, spine: Spine) -> Plan[AnsweredT]:
        return released(self, spine.rows.neighbor_relation)


def released(call: Release[AnsweredT], neighbor_relation: NeighborRelation) -> Plan[AnsweredT]:
    """The release by its noise; refuses what has none. It is kept for the next time, unless groups may be many."""
    work_out = _released if call.query.keys is not None else _kept
    found: Plan[AnsweredT] = work_out(call.query, neighbor_relation, call.epsilon, call.rho, call.delta)
    return found


def _released(
    query: Question,
    neighbor_relation: NeighborRelation,
    epsilon: Number | None,
    rho: Number | None,
    delta: Number | None,
) -> Plan[Any]:
    drawn = noises(query, neighbor_relation, epsilon=epsilon, rho=rho, delta=delta)
    sizes = {"epsilon": epsilon, "rho": rho, "delta": delta}
    said = {name: str(size) for name, size in sizes.items() if size is not None}
    if isinstance(query, Mean):
        laplace = None if epsilon is None or delta is not None else Fraction(epsilon)
        event, run, present, told = _mean(query, neighbor_relation, drawn, laplace)
    else:
        event, run, present, told = _values(query, neighbor_relation, drawn[0])

    def at(other: Fraction) -> Plan[Any]:
        return released(Release(query, epsilon=other, delta=delta), neighbor_relation)

    return Plan(
        Release.kind,
        plan.ENCODER.encode({"query": query.body()} | said),
        event,
        run,
        present,
        reading(*parts_of(query, neighbor_relation)),
        PerHit(bounds=() if epsilon is None or delta is None else (event, accounting.Approximate(epsilon, delta))),
        told,
        size=None if epsilon is None else Size(Fraction(epsilon), at),
    )


_kept = lru_cache(maxsize=plan.KEPT)(_released)


Noisy = NoisyNumber | NoisyNumbers
# The event, run, presentation and forecast of a release.
_Own = tuple[accounting.Event, Callable[[Data], Result], Callable[[Json, int], Noisy], Callable[[], Forecast]]


def _values(query: Query, neighbor_relation: NeighborRelation, noise: Additive) -> _Own:
    bar = error_bar((noise, query.grid))

    def run(data: Data) -> Result:
        if query.keys is None:
            return Result({"noisy": [[noise.apply_one(data.integer(), data.source)]]}, 0, 0)
        return Result({"noisy": [[int(value) for value in noise.apply(data.integers(), data.source)]]}, 0, 0)

    def present(answer: Json, number: int) -> Noisy:
        return _part(query, noise, answer["noisy"][0], neighbor_relation, number)

    return noise.event(), run, present, lambda: Forecast(error_bar=bar)


def _mean(
    query: Mean[Any], neighbor_relation: NeighborRelation, drawn: Sequence[Additive], epsilon: Fraction | None
) -> _Own:
    """The release of a mean: with Laplace noise by the best form, otherwise by halves."""
    earlier = halves(query, neighbor_relation, drawn)
    made = earlier if epsilon is None else laplace_mean(query, neighbor_relation, epsilon)

    def run(data: Data) -> Result:
        parts = made.parts(data.integers(0), data.integers(1))
        applied = [noise.apply(part, data.source) for noise, part in zip(made.noises, parts, strict=True)]
        return Result({"noisy": [[int(value) for value in noisy] for noisy in applied], "form": made.form}, 0, 0)

    def present(answer: Json, number: int) -> Noisy:
        # Stored answers without a form are of halves.
        told = made if answer.get("form", "halves") == made.form else earlier
        return mean_answer(told, answer["noisy"], number)

    return made.event, run, present, lambda: Forecast(interval=made.foretold())


def noises(
    query: Question,
    neighbor_relation: NeighborRelation,
    *,
    epsilon: Number | None,
    rho: Number | None = None,
    delta: Number | None = None,
) -> tuple[Additive, ...]:
    """The noise for each part of a query; a mean has two parts, each with half of the epsilon or rho."""
    parts = parts_of(query, neighbor_relation)
    if epsilon is None:
        return _gaussians(parts, neighbor_relation, Fraction(rho or 0))
    if delta is None:
        return tuple(plan.laplace_for(part, neighbor_relation, Fraction(epsilon) / len(parts)) for part in parts)
    if len(parts) == 1:
        return (_gaussian_for(parts[0], neighbor_relation, Fraction(epsilon), Fraction(delta)),)
    # Several noises of different sizes are put together as zCDP.
    return _gaussians(parts, neighbor_relation, gaussian_noise.zero_concentrated_rho_down(epsilon=epsilon, delta=delta))


def _gaussians(parts: Sequence[Query], neighbor_relation: NeighborRelation, rho: Fraction) -> tuple[Additive, ...]:
    share = rho / len(parts)
    return tuple(Gaussian.for_rho(share, l2_squared=_length(part, neighbor_relation)) for part in parts)


def _gaussian_for(part: Query, neighbor_relation: NeighborRelation, epsilon: Fraction, delta: Fraction) -> Gaussian:
    """Noise that is certainly (epsilon, delta)-DP for all keys together, by the distribution on the grid."""
    variance = gaussian_noise.discrete_gaussian_variance(
        epsilon=epsilon,
        delta=delta,
        largest=part.sensitivity(neighbor_relation),
        l2_squared=_length(part, neighbor_relation),
        reach=part.reach(neighbor_relation),
    )
    return Gaussian(variance, _length(part, neighbor_relation))


def _length(part: Query, neighbor_relation: NeighborRelation) -> int:
    """The squared L2 change: at most the largest change of a group times their sum."""
    return part.sensitivity(neighbor_relation) * part.l1(neighbor_relation)


def parts_of(query: Question, neighbor_relation: NeighborRelation) -> tuple[Query, ...]:
    """The integer queries behind a query: two for a mean, itself otherwise."""
    return query.parts(neighbor_relation) if isinstance(query, Mean) else (query,)


def noisy_parts(noises: Sequence[Additive], data: Data) -> list[int]:
    """The exact answer of each part of a query without groups, with its noise."""
    return [noise.apply_one(data.integer(k), data.source) for k, noise in enumerate(noises)]


# Histograms over public bins, and marginals: counts for each combination of public values of several columns.

MOST_CELLS: Final = 1_000_000
_LIMITS: Final = ("max_groups_per_unit", "assumed_groups_per_unit")


@call("histogram", subject="numbers")
class Histogram(Shorthand[NoisyNumbers]):
    """Publish the noisy number of units with a row in each bin. Bins are half-open intervals with the edges `bins`.

    Guarantee and noise are as for `Release`. One unit is in one bin where each row is a unit, otherwise in as many as
    `max_groups_per_unit` or `assumed_groups_per_unit` say, or in all. So the noise does not grow with the number of
    bins. The query alone, for `ReleaseIf` or `TopK`, is `chary.histogram`, where bins are explained.
    """

    column: fields.ColumnName
    _: KW_ONLY
    bins: fields.Numbers
    epsilon: fields.Positive | None = None
    rho: fields.Positive | None = None
    delta: fields.Probability | None = None
    where: fields.Where = None
    outside: Outside = "ignore"
    max_groups_per_unit: fields.Whole | None = None
    assumed_groups_per_unit: fields.Whole | None = None

    def stands_for(self) -> Release[NoisyNumbers]:
        limits = {name: getattr(self, name) for name in _LIMITS}
        query = histogram(self.column, bins=self.bins, where=self.where, outside=self.outside, **limits)
        return Release(query, epsilon=self.epsilon, rho=self.rho, delta=self.delta)


@call("marginal", subject="numbers")
class Marginal(Shorthand[NoisyNumbers]):
    """Publish the noisy number of units with each combination of public values of some columns.

    Guarantee: that of `Release` for the whole marginal. Keys are tuples of values, a scalar for one column, in the
    order of the lists, the last column changing fastest. Errors: `InvalidQuery` for no columns, an empty list, or more
    than a million combinations.
    """

    columns: fields.Columns
    _: KW_ONLY
    epsilon: fields.Positive | None = None
    rho: fields.Positive | None = None
    delta: fields.Probability | None = None
    where: fields.Where = None
    max_groups_per_unit: fields.Whole | None = None
    assumed_groups_per_unit: fields.Whole | None = None

    def __post_init__(self) -> None:
        combinations(self.columns)

    def stands_for(self) -> Release[NoisyNumbers]:
        limits = {name: getattr(self, name) for name in _LIMITS}
        query = count(self.where).by(list(self.columns), combinations(self.columns), **limits)
        return Release(query, epsilon=self.epsilon, rho=self.rho, delta=self.delta)


def combinations(columns: Mapping[str, Sequence[Any]]) -> Iterable[tuple[Any, ...]]:
    """Each combination of the public values of columns, the last column changing fastest; refuses too many."""
    if not columns:
        raise InvalidQuery('name columns and their public values: {"sex": ["f", "m"], "smoker": [True, False]}')
    if not all(isinstance(values, (list, tuple, range)) for values in columns.values()):
        raise InvalidQuery("the values of a column are a list, a tuple or a range, in a fixed order")
    if math.prod(map(len, columns.values())) > MOST_CELLS:
        raise InvalidQuery("a marginal may have a million cells at most")
    return product(*columns.values())


# Several unlike queries released at once, with noise for what one unit can change of all of them together.

MOST_QUERIES: Final = 1000


def _queries(value: Any, name: str) -> Any:
    listed = value if isinstance(value, (list, tuple)) else [value]
    queries = tuple(bodies.query_of(each) if isinstance(each, dict) else each for each in listed)
    if not 1 <= len(queries) <= MOST_QUERIES or not all(isinstance(each, Query) for each in queries):
        raise InvalidParameter(
            f'queries are 1 to {MOST_QUERIES} counts, sums and histograms: [count(), sum("cost", ...)]; '
            "a mean is asked as its sum and its count"
        )
    if len(set(queries)) < len(queries):
        raise InvalidParameter("each query is released once")
    return queries


Together = Annotated[
    Sequence[Query],
    replace(
        fields.JSON,
        check=_queries,
        schema=fields.described("array", "Bodies of queries.", items={"type": "object"}),
        example=[{"kind": "count"}],
    ),
]


def _place(number: int, key: Any) -> Any:
    return number if key is None else (number, key)


@dataclass(frozen=True)
class NoisyAnswers(Table):
    """The answers of several queries; `parts` has those of each, in the order in which they were asked.

    As a table it has a row for each number: which query it is, in words too, its group (None without groups), value and
    interval.
    """

    parts: tuple[NoisyNumber | NoisyNumbers, ...]
    also = ""

    @property
    def value(self) -> dict[Any, Value]:
        """The position of the query, with its group where it has one, to value."""
        places = [_place(number, key) for number, _, key in self.keys]
        return dict(zip(places, (row["value"] for row in self.rows()), strict=True))

    @property
    def findings(self) -> accounting.Findings:
        parts = enumerate(self.parts)
        return accounting.Findings.of(
            replace(each, key=_place(number, each.key)) for number, part in parts for each in part.findings
        )

    def cells(self, position: int) -> dict[str, Any]:
        number = self.keys[position][0]
        part = self.parts[number]
        if isinstance(part, NoisyNumbers):
            return part.cells(position - self._firsts[number])
        return {"value": part.value} | in_row(part.interval)

    @cached_property
    def _firsts(self) -> dict[int, int]:
        """The row at which each query begins."""
        return {number: place for place, (number, *_) in reversed(list(enumerate(self.keys)))}


@call("release_all", subject="numbers", publishes=True, typed=False)
class ReleaseAll(Call[NoisyAnswers]):
    """Publish several counts, sums and histograms at once, with groups or without. Each has noise for its own
    sensitivity.

    Guarantee: epsilon-DP with discrete Laplace noise, or rho-zCDP with discrete Gaussian noise (for `rho`, or for
    `epsilon` and `delta`), for all of them together. The noise follows from what one unit can change of all of them at
    once. Where each row is a unit, only queries whose conditions can hold of one row add up, so that ten disjoint
    groups cost as much as one. A unit with many rows may be in all of them, so they all add up. Always charged.

    Errors: `InvalidParameter` for no queries, one that is listed twice and a missing epsilon or rho; `InvalidQuery` for
    a mean, which is two numbers, and a series.

    >>> import chary
    >>> from chary import count
    >>> asked = ReleaseAll([count("age < 30"), count("age >= 30"), chary.sum("cost", bounds=(0, 500))], epsilon="0.1")
    >>> len(asked.queries), asked.kind
    (3, 'release_all')
    """

    queries: Together
    _: KW_ONLY
    epsilon: fields.Positive | None = None
    rho: fields.Positive | None = None
    delta: fields.Probability | None = None

    def __post_init__(self) -> None:
        linear.check_sizes(self.epsilon, self.rho, self.delta)

    def plan(self, spine: Spine) -> Plan[NoisyAnswers]:
        neighbor_relation, queries = spine.rows.neighbor_relation, tuple(self.queries)
        # A report has no schema, so the change that determined the noise is stored in the answer.
        change = overlap.JointChange.of(queries, neighbor_relation, getattr(spine.rows, "schema", None))
        drawn = noises_together(self, neighbor_relation, change)

        def run(data: Data) -> Result:
            applied = [noise.apply(data.integers(k), data.source) for k, noise in enumerate(drawn)]
            known = {"l1": str(change.l1), "l2_squared": str(change.l2_squared)}
            return Result({"noisy": [[int(value) for value in noisy] for noisy in applied]} | known, 0, 0)

        def present(answer: Json, number: int) -> NoisyAnswers:
            then = overlap.JointChange(Fraction(answer["l1"]), Fraction(answer["l2_squared"]))
            made = zip(queries, noises_together(self, neighbor_relation, then), answer["noisy"], strict=True)
            parts = tuple(_part(query, each, noisy, neighbor_relation, number) for query, each, noisy in made)
            keys = tuple(
                (place, query.describe(), None if key is None else scalar(key))
                for place, query in enumerate(queries)
                for key in query.keys or (None,)
            )
            return NoisyAnswers(number, ("number", "query", "key"), keys, parts)

        def forecast() -> Forecast:
            return Forecast(interval=_foretold(queries, drawn))

        event = _event_together(self, drawn, change)
        return self.planned(spine, event, run, present, reading(*queries), forecast=forecast)


def noises_together(
    call: ReleaseAll, neighbor_relation: NeighborRelation, change: overlap.JointChange
) -> Sequence[Additive]:
    """The noise of each query: the same multiple of the query's sensitivity for all of them."""
    noising = linear.noising_of(call.epsilon, call.rho, call.delta)
    size, singles = Fraction(noising.size), [query.sensitivity(neighbor_relation) for query in call.queries]
    if noising.gaussian:
        least = noise.SMALLEST_VARIANCE
        variances = [single**2 * change.l2_squared / (2 * size) for single in singles]
        return [Gaussian(max(least, each), single**2) for each, single in zip(variances, singles, strict=True)]
    scales = [single * change.l1 / size for single in singles]
    return [Laplace(max(noise.SMALLEST_SCALE, each), single) for each, single in zip(scales, singles, strict=True)]


def _event_together(call: ReleaseAll, drawn: Sequence[Additive], change: overlap.JointChange) -> accounting.Event:
    """Log-moments of Laplace noise are convex in the change and 0 at 0. So a change of a part of the sensitivity has at
    most that part of the whole one's, and what adds up to n sensitivities is at most n changes."""
    noising, times = linear.noising_of(call.epsilon, call.rho, call.delta), change.l1
    if noising.gaussian:
        return accounting.ZeroConcentrated(noising.size)
    if times.denominator != 1:
        return accounting.Pure(noising.size)
    first, *others = drawn
    alike = all(other == first for other in others)
    each = first.event() if alike else accounting.Pure(Fraction(noising.size) / times)
    return accounting.Repeated(each, int(times))


def _foretold(queries: Sequence[Query], drawn: Sequence[Additive]) -> str:
    pairs = zip(queries, drawn, strict=True)
    told = [f"{plain(float(part.error_bar() * query.grid))} ({query.describe()})" for query, part in pairs]
    more = f", and {len(told) - 5} more" if len(told) > 5 else ""
    return f"with {CONFIDENT}, values are within these of the truth: {', '.join(told[:5])}{more}"


def _part(
    query: Query, drawn: Additive, noisy: Sequence[int], neighbor_relation: NeighborRelation, call: int
) -> NoisyNumber | NoisyNumbers:
    """The answer to one query with this noise, from its noisy values in steps."""
    told, bar = answers.published(drawn, query, neighbor_relation), error_bar((drawn, query.grid))
    values = tuple(naturals(noisy, query.grid))
    if query.keys is None:
        return NoisyNumber(call, values[0], bar, told=told)
    return NoisyNumbers(call, query.columns, tuple(query.keys), values, bar, told=told)
