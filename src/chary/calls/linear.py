"""Linear answers together: matrix mechanism, moments, principal components."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Annotated, Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from chary.accounting import Finding, Findings, Joint, accuracy, gaussian_noise, intervals
from chary.answers import Ends, Table, Value, in_row, scalar
from chary.calls import fields
from chary.calls.call import Call, call
from chary.calls.fields import AnyQuery, Name, Positive, Probability, Where, Whole
from chary.core.forecast import Forecast
from chary.core.plan import BETA, Data, Json, Plan, Result, reading
from chary.core.transaction import Spine
from chary.data import NeighborRelation, Neighbors, Query, SecondMoments, second_moments
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms import workloads
from chary.numbers import Number, exact, plain, probability, work_out

# What noisy moments say: means, covariances, principal components, and how far all of them can be off.

Floats = NDArray[np.float64]


class Estimated(NamedTuple):
    """The number of rows, the means and the covariances, in halves of the bounds' widths."""

    rows: int
    means: Floats
    covariance: Floats
    squares: Floats


@dataclass(frozen=True)
class Components(Table):
    """The principal components of noisy covariances, the largest first: one row each, with its eigenvalue, its interval
    and the share of the variance that it explains.

    Numbers are in halves of the columns' widths: a value at its upper bound is 1, at its lower -1. What is estimated is
    the covariance of the rows as they were counted: clipped, rounded, and shortened to the longest. The intervals of
    all eigenvalues hold at once 95 times in 100; None where there may be no rows.
    """

    noisy: tuple[int, ...]
    query: SecondMoments
    made: workloads.MomentNoise
    noun, also = "components", "means rows_counted"

    @property
    def value(self) -> dict[int, float]:
        """Component to eigenvalue; noise may make one negative."""
        return {place + 1: float(value) for place, value in enumerate(self._spectrum.values)}

    @property
    def interval_says(self) -> str:
        longest = self.query.longest
        changed = "clipped to their ranges" + ("" if longest is None else f" and shortened to {plain(longest)}")
        return f"the intervals of the eigenvalues hold 95 times in 100, all together, of the rows as {changed}"

    @property
    def rows_counted(self) -> int:
        """The noisy number of rows without a NULL, at least 1."""
        return self._estimated.rows

    @property
    def means(self) -> dict[str, float]:
        """The noisy mean of each column, in its own units."""
        scaled = zip(self.query.bounds, map(float, self._estimated.means), strict=True)
        return {name: float((low + high) / 2) + float((high - low) / 2) * mean for (name, (low, high)), mean in scaled}

    @property
    def covariance(self) -> list[list[float]]:
        """The noisy covariances, symmetric, in halves of the widths."""
        return [[float(entry) for entry in line] for line in self._estimated.covariance]

    @property
    def own_covariance(self) -> list[list[float]]:
        """The same in the columns' own units."""
        halves = np.array([float((high - low) / 2) for _, (low, high) in self.query.bounds])
        return [[float(entry) for entry in line] for line in self._estimated.covariance * np.outer(halves, halves)]

    @property
    def directions(self) -> list[dict[str, float]]:
        """For each component its eigenvector, by column; its largest entry is positive."""
        names = self.query.names
        return [dict(zip(names, map(float, vector), strict=True)) for vector in self._spectrum.vectors]

    def within(self, confidence: Number = "0.95") -> float | None:
        """How far the covariance matrix is off at most (L2), and by Weyl's inequality each eigenvalue; None where there
        may be no rows.

        The noises of rows, sums and products are within their bounds together; what follows from that is arithmetic.
        """
        rows, length, norm = self.made.reaches(1 - probability(confidence, "confidence"))
        found, steps = self._estimated, self.query.steps
        least = found.rows - rows
        if least < 1:
            return None
        product = norm / steps**2 / least + float(np.linalg.norm(found.squares, 2)) * rows / least
        longest = float(np.linalg.norm(found.means))
        mean = length / steps / least + longest * rows / least
        return product + 2 * longest * mean + mean**2

    def angle(self, leading: int = 1, confidence: Number = "0.95") -> float | None:
        """The largest angle in degrees between the plane of the first components and that of the true ones; None where
        the noise leaves all open."""
        within = self.within(confidence)
        return None if within is None else accuracy.angle_up(self._spectrum.values, leading, within)

    def cells(self, position: int) -> dict[str, Any]:
        value, within = float(self._spectrum.values[position]), self.within()
        most = self.query.squared / self.query.steps**2
        known = (None, None) if within is None else (max(0.0, value - within), min(most, max(0.0, value) + within))
        return {"value": value, "low": known[0], "high": known[1], "explained": self._explained[position]}

    def _told_rows(self) -> Iterator[dict[str, Any]]:
        return (row | way for row, way in zip(super()._told_rows(), self.directions, strict=True))

    @property
    def _explained(self) -> list[float]:
        values = np.maximum(self._spectrum.values, 0)
        return [float(part) for part in values / (values.sum() or 1.0)]

    @cached_property
    def _spectrum(self) -> accuracy.Spectrum:
        return accuracy.spectrum(self._estimated.covariance)

    @cached_property
    def _estimated(self) -> Estimated:
        d, steps = len(self.query.bounds), self.query.steps
        rows = max(1, self.noisy[0])
        means = np.array(self.noisy[1 : d + 1], dtype=float) / rows / steps
        squares = np.zeros((d, d))
        squares[np.triu_indices(d)] = np.array(self.noisy[d + 1 :], dtype=float) / rows / steps**2
        squares = squares + np.triu(squares, 1).T
        return Estimated(rows, means, squares - np.outer(means, means), squares)


# Many overlapping sums of the cells of one query, from the sums that are best measured for them.

# Each may hold a matrix of 80 MB.
_KEPT: Final = 4


def _workload(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _row(row) for key, row in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(map(_row, value))
    raise InvalidParameter(f'{name} is "ranges", lists of columns, or rows such as [[1, 1, 0], [0, 1, 1]]')


def _row(row: Any) -> tuple[Any, ...]:
    if isinstance(row, (list, tuple)) and all(type(part) in (int, str) for part in row):
        return tuple(row)
    raise InvalidParameter("a question of a workload is a list of whole numbers, one for each cell")


WorkloadOf = Annotated[
    str | Mapping[str, Sequence[int]] | Sequence[Sequence[int | str]],
    replace(
        fields.JSON,
        check=_workload,
        schema=fields.described(["string", "array", "object"], "A name, lists of columns, or weights."),
        example="ranges",
    ),
]


@dataclass(frozen=True)
class LinearAnswers(Table):
    """One estimate for each question of a workload, with its standard error and its own 95 % interval.

    `strategy` is what was measured, in words. `deviations` are standard errors: of unbiased estimates, and known before
    anything is asked. Estimates are consistent: they are all sums of the same cells.
    """

    values: tuple[Value, ...]
    deviations: tuple[float, ...]
    strategy: str
    also = "strategy"
    combinations: tuple[intervals.Combination, ...] = field(repr=False, compare=False, kw_only=True)

    @property
    def value(self) -> dict[Any, Value]:
        """Question to estimate."""
        return {scalar(key): value for key, value in zip(self.keys, self.values, strict=True)}

    @property
    def findings(self) -> Findings:
        named = zip(self.keys, self.values, self.combinations, strict=True)
        return Findings.of(Finding(self.call, scalar(key), value, told) for key, value, told in named)

    def cells(self, position: int) -> dict[str, Any]:
        ends: Ends = tuple(self.combinations[position].interval(self.values[position]))  # type: ignore[assignment]
        return {"value": self.values[position], "deviation": self.deviations[position]} | in_row(ends)


@call("matrix_mechanism", subject="numbers", publishes=True, typed=False)
class MatrixMechanism(Call[LinearAnswers]):
    """Many overlapping sums of the cells of a keyed query, such as all ranges of ages, or all marginals of a table.

    The cells are the query's keys, 2 to 256 of them. `workload` says which sums are asked: "prefixes" or "ranges" of
    neighbouring cells in the order of the list, `[["sex"], ["sex", "age"], []]` for marginals, or rows of whole
    numbers, one for each cell, which may have names: `{"old": [0, 0, 1]}`.

    What is measured with noise is a *strategy*: each cell ("identity"), each question ("workload"), runs of 1, b, b^2,
    ... cells ("hierarchy of 2", 4, 8, 16), or all marginals ("marginals"), with the best shares of epsilon or rho that
    are found for their parts. Of all the one with the least mean squared error is taken (or `strategy`, by name), which
    is worked out exactly and depends on no data; `quote` tells it. The answers are put together from the noisy sums by
    weighted least squares, which is post-processing.

    Guarantee: epsilon-DP with discrete Laplace noise, rho-zCDP with discrete Gaussian noise (for `rho`, or for
    `epsilon` and `delta`), for all answers together, however many: that of the measured sums. The intervals hold
    whatever the data, each 95 times in 100. Always charged.

    A question is a sum *of the query's answers for its keys*: where one unit may be in several keys it counts in each
    of them. Source: theory section 2; Li, Miklau, Hay, McGregor, Rastogi 2015 (matrix mechanism).

    Errors: `InvalidQuery` for a query without keys or with too many, a workload that is none, and a strategy that
    cannot answer it; `InvalidParameter` for a missing epsilon or rho.

    >>> from chary import count
    >>> ages = count().by("age", range(64))
    >>> MatrixMechanism(ages, "ranges", epsilon="0.1").body()["workload"]
    'ranges'
    """

    query: AnyQuery
    workload: WorkloadOf
    _: KW_ONLY
    epsilon: Positive | None = None
    rho: Positive | None = None
    delta: Probability | None = None
    strategy: Name | None = None

    def __post_init__(self) -> None:
        check_sizes(self.epsilon, self.rho, self.delta)
        work_out(self.asked)  # refuses a workload that is none

    @property
    def asked(self) -> workloads.LinearQueries:
        """The questions; refuses what has no cells."""
        query = self.query
        if not isinstance(query, Query) or query.keys is None:
            raise InvalidQuery(
                'the matrix mechanism is for counts and sums of public keys: count().by("age", range(100))'
            )
        return workloads.LinearQueries.of(self.workload, query.keys, query.columns)

    def plan(self, spine: Spine) -> Plan[LinearAnswers]:
        query, near = cast("Query", self.query), spine.rows.neighbor_relation
        made, grid = _planned(self, near), float(query.grid)
        events = tuple(noise.event() for noise in made.noises)

        def run(data: Data) -> Result:
            sums = zip(made.exact(data.integers()), made.noises, strict=True)
            noisy = [int(value) for exactly, noise in sums for value in noise.apply(exactly, data.source)]
            told = {
                "noisy": noisy,
                "values": [float(f"{value * grid:.12g}") for value in made.estimates(noisy)],
                "deviations": [_up(each * grid) for each in made.deviations],
                "strategy": made.strategy.name,
                "shares": [str(share) for share in made.shares],
                "reaches": _reaches(made, grid),
            }
            return Result(told, 0, 0)

        def present(answer: Json, number: int) -> LinearAnswers:
            asked, (floor, ceiling) = self.asked, query.known_range(near)
            known = [(floor, ceiling) if min(row) >= 0 else (None, None) for row in asked.weights.tolist()]
            gaussian = self.epsilon is None or self.delta is not None
            told = tuple(
                intervals.Combination(deviation, absolute, squared, gaussian, *ends)
                for (deviation, absolute, squared), ends in zip(answer["reaches"], known, strict=True)
            )
            values, spread = tuple(answer["values"]), tuple(answer["deviations"])
            return LinearAnswers(
                number, asked.columns, asked.keys, values, spread, answer["strategy"], combinations=told
            )

        return Plan(
            self.kind,
            self.text(),
            events[0] if len(events) == 1 else Joint(events),
            run,
            present,
            reading(query),
            forecast=lambda: Forecast(interval=_foretold(made, grid)),
            size=self.size(spine),
        )


def check_sizes(epsilon: Number | None, rho: Number | None, delta: Number | None) -> None:
    """One of epsilon and rho, and delta beside epsilon alone."""
    if (epsilon is None) == (rho is None):
        raise InvalidParameter("give one of epsilon= (Laplace noise) and rho= (Gaussian noise)")
    if delta is not None and epsilon is None:
        raise InvalidParameter("delta= belongs to epsilon=; rho= alone says how much Gaussian noise is drawn")


def noising_of(epsilon: Number | None, rho: Number | None, delta: Number | None) -> workloads.Noising:
    """Which noise: Laplace for an epsilon alone, else Gaussian for a rho, or for one that is (epsilon, delta)-DP."""
    if epsilon is not None and delta is None:
        return workloads.Noising(epsilon, gaussian=False)
    found = (
        rho
        if epsilon is None or delta is None
        else gaussian_noise.zero_concentrated_rho_down(epsilon=epsilon, delta=delta)
    )
    return workloads.Noising(found or 0, gaussian=True)


@lru_cache(maxsize=_KEPT)
def _planned(asked: MatrixMechanism, neighbor_relation: NeighborRelation) -> workloads.MatrixMeasurement:
    """The best measurement, which a quote and the question after it share."""
    query: Any = asked.query
    change = workloads.CellChange(
        query.sensitivity(neighbor_relation), query.together(neighbor_relation), query.l1(neighbor_relation)
    )
    noising = noising_of(asked.epsilon, asked.rho, asked.delta)
    return workloads.best_measurement(asked.asked, query.keys, change, noising, asked.strategy)


def _foretold(made: workloads.MatrixMeasurement, grid: float) -> str:
    worst, best = (plain(float(f"{end * grid:.3g}")) for end in (made.deviations.max(), made.deviations.min()))
    told = f"answers have standard errors of {best} to {worst}, {plain(float(f'{made.rms * grid:.3g}'))} in the"
    return f"{told} root mean square (by {len(made.sums):,} noisy sums: {made.strategy.name})"


def _reaches(made: workloads.MatrixMeasurement, grid: float) -> list[list[float]]:
    """For each answer the figures of its noise, rounded up: what intervals are made of."""
    weights = abs(made.combination)
    columns = (made.smooth_deviations, weights.sum(axis=1), (weights**2).sum(axis=1) * grid)
    return [[_up(each * grid) for each in row] for row in zip(*columns, strict=True)]


def _up(figure: float) -> float:
    """Six digits, rounded up, so that any machine tells the same."""
    return float(Fraction(f"{figure * (1 + 1e-6):.6g}"))


# Means, covariances and principal components of several columns, by one noisy matrix of second moments.


def _bounded(value: Any, name: str) -> dict[str, tuple[Fraction, Fraction]]:
    if not isinstance(value, Mapping) or not all(isinstance(edges, (list, tuple)) for edges in value.values()):
        raise InvalidQuery('name columns and their bounds, such as {"age": (0, 90), "cost": (0, 5000)}')
    if not all(len(edges) == 2 for edges in value.values()):
        raise InvalidQuery("bounds are a pair of numbers for each column")
    return {key: (exact(low, "bounds"), exact(high, "bounds")) for key, (low, high) in value.items()}


Ranges = Annotated[
    Mapping[str, Sequence[Any]],
    fields.FieldType(
        _bounded,
        {"type": "object", "additionalProperties": {"type": "array", "minItems": 2, "maxItems": 2}},
        "columns",
        lambda lines, beside: fields.columns_of(lines, beside, fields.numbers_of, "age=0,90"),
        lambda bounds, beside: fields.columns_told(bounds, beside, fields.numbers_told),
        list[str],
        (fields.Option("ranges", list[str], "Range of a column: age=0,90.", ("--range",)),),
        example={"age": ["0", "90"]},
    ),
]


@call("principal_components", subject="numbers")
class PrincipalComponents(Call[Components]):
    """The principal components of columns with public bounds, with their means and covariances: a `Components`.

    Noise is drawn once, on the number of rows, the sums of the columns and the sums of their products: discrete
    Gaussian for `rho`, or for `epsilon` and `delta`, discrete Laplace for `epsilon` alone. All else follows from those
    numbers and is free. The sensitivity is that of all of them together, and is attained (`MomentNoise`).

    Guarantee: rho-zCDP, (epsilon, delta)-DP or epsilon-DP for the whole answer, whatever the rows. Values are clipped
    to the ranges of their columns, which become -1 to 1, and rounded to one of `fineness` steps to either side;
    `longest`, in the same units, shortens longer rows (with d columns none is longer than sqrt(d)), which takes less
    noise where few are long. Rows with a NULL are left out. Where a unit has many rows, `max_rows_per_unit` of them
    count.

    Errors: `InvalidQuery` for columns without bounds or of no numbers, more than 32 of them, and a unit whose rows are
    not limited; `InvalidParameter` unless the size of the noise is said in one way.

    >>> PrincipalComponents({"age": (0, 90), "cost": (0, 5000)}, rho="0.01").query().keys[-1]
    ('cost', 'cost')
    """

    ranges: Ranges
    _: KW_ONLY
    epsilon: Positive | None = None
    rho: Positive | None = None
    delta: Probability | None = None
    fineness: Whole = 1000
    longest: Positive | None = None
    where: Where = None
    max_rows_per_unit: Whole | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("give one of epsilon= (Laplace noise, with delta= Gaussian) and rho= (Gaussian)")
        if self.delta is not None and self.epsilon is None:
            raise InvalidParameter("delta= belongs to epsilon=; rho= alone says how much Gaussian noise is drawn")
        self.query()

    def query(self) -> SecondMoments:
        """The sums that noise is added to."""
        ranges: Any = self.ranges
        limits: dict[str, Any] = {"where": self.where, "max_rows_per_unit": self.max_rows_per_unit}
        return second_moments(ranges, steps=self.fineness, longest=self.longest, **limits)

    def plan(self, spine: Spine) -> Plan[Components]:
        asked, made = self.query(), _moment_noise(self, spine.rows.neighbor_relation)

        def run(data: Data) -> Result:
            return Result({"noisy": [int(value) for value in made.apply(data.integers(), data.source)]}, 0, 0)

        def present(answer: Json, number: int) -> Components:
            keys = tuple((place + 1,) for place in range(len(asked.bounds)))
            return Components(number, ("component",), keys, tuple(answer["noisy"]), asked, made)

        def forecast() -> Forecast:
            rows, length, norm = made.reaches(BETA)
            longest = math.sqrt(asked.squared) / asked.steps
            most = plain(float(norm / asked.steps**2 + longest**2 * rows + 2 * longest * length / asked.steps))
            told = f"the covariance of n rows is off by about {most}/n at most (L2, in halves of the ranges)"
            return Forecast(interval=f"{told}, 95 times in 100")

        return Plan(
            self.kind,
            self.text(),
            made.event(),
            run,
            present,
            reading(asked),
            forecast=forecast,
            size=self.size(spine),
        )


def _moment_noise(call: PrincipalComponents, neighbor_relation: NeighborRelation) -> workloads.MomentNoise:
    """Refuses rows of a unit without a limit, and noise out of range."""
    asked, noising = call.query(), noising_of(call.epsilon, call.rho, call.delta)
    asked.contribution(neighbor_relation)
    replaced = neighbor_relation.neighbors is Neighbors.REPLACE
    size: dict[str, Any] = {"rho" if noising.gaussian else "epsilon": noising.size}
    return workloads.MomentNoise(
        len(asked.bounds), asked.squared, asked.most, call.max_rows_per_unit or 1, replaced, **size
    )
