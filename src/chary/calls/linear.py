"""Many overlapping sums of the cells of one query, from the sums that are best measured for them."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Final, cast

from chary.accounting import Finding, Findings, Joint, gaussian_noise, intervals
from chary.answers import Ends, Table, Value, in_row, scalar
from chary.calls import fields
from chary.calls.call import Call, call
from chary.calls.fields import AnyQuery, Name, Positive, Probability
from chary.core.forecast import Forecast
from chary.core.plan import Data, Json, Plan, Result, reading
from chary.core.transaction import Spine
from chary.data import NeighborRelation, Query
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms import workloads
from chary.numbers import Number, plain, work_out

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
    raise InvalidParameter("a query of a workload is a list of integers, one for each cell")


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
    """Publish many overlapping sums of the cells of a grouped query, such as all ranges of ages, or all marginals of a
    table.

    The cells are the query's groups, 2 to 256 of them. `workload` is the sums that are asked. It is "prefixes" or
    "ranges" of neighbouring cells in the order of the list, or `[["sex"], ["sex", "age"], []]` for marginals. Or it is
    rows of integers, one for each cell, which may have names: `{"old": [0, 0, 1]}`.

    What is measured with noise is a *strategy*: each cell ("identity"), each question ("workload"), runs of 1, b, b^2,
    ... cells ("hierarchy of 2", 4, 8, 16), or all marginals ("marginals"). Each uses the best fractions of epsilon or
    rho that are found for its parts. The strategy with the least mean squared error is taken (or `strategy`, by name).
    That error is worked out exactly and depends on no data; `quote` shows it. The answers are put together from the
    noisy sums by weighted least squares, which is post-processing.

    Guarantee: epsilon-DP with discrete Laplace noise, rho-zCDP with discrete Gaussian noise (for `rho`, or for
    `epsilon` and `delta`), for all answers together, however many: that of the measured sums. The intervals hold
    whatever the data, each with 95 % confidence. Always charged.

    A question is a sum *of the query's answers for its groups*: where one unit may be in several groups it counts in
    each of them. Source: theory chapter 5; Li, Miklau, Hay, McGregor, Rastogi 2015 (matrix mechanism).

    Errors: `InvalidQuery` for a query without groups or with too many, a workload that is none, and a strategy that
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
        """The questions of the workload; refuses a query without public groups, which are its cells."""
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

        def forecast() -> Forecast:
            return Forecast(interval=_foretold(made, grid))

        event = events[0] if len(events) == 1 else Joint(events)
        return self.planned(spine, event, run, present, reading(query), forecast=forecast)


def check_sizes(epsilon: Number | None, rho: Number | None, delta: Number | None) -> None:
    """Refuse all but one of epsilon and rho, and a delta without epsilon."""
    if (epsilon is None) == (rho is None):
        raise InvalidParameter("give one of epsilon= (Laplace noise) and rho= (Gaussian noise)")
    if delta is not None and epsilon is None:
        raise InvalidParameter("delta= belongs to epsilon=; rho= alone says how much Gaussian noise is drawn")


def noising_of(epsilon: Number | None, rho: Number | None, delta: Number | None) -> workloads.Noising:
    """The kind and size of noise: Laplace for epsilon alone, otherwise Gaussian, of rho or of an (epsilon, delta)."""
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
    """The figures of each answer's noise, rounded up, from which its interval is made."""
    weights = abs(made.combination)
    columns = (made.smooth_deviations, weights.sum(axis=1), (weights**2).sum(axis=1) * grid)
    return [[_up(each * grid) for each in row] for row in zip(*columns, strict=True)]


def _up(figure: float) -> float:
    """Six digits, rounded up, so that all machines agree."""
    return float(Fraction(f"{figure * (1 + 1e-6):.6g}"))
