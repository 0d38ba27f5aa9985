"""Noisy moments of several columns: principal components, and regressions with their standard errors."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chary.accounting import accuracy
from chary.accounting.least_squares import Estimate, NoisySquares
from chary.answers import Table, handed_out
from chary.calls import fields
from chary.calls.call import Call, call
from chary.calls.fields import Name, Positive, Probability, Where, Whole
from chary.calls.linear import check_sizes, noising_of
from chary.core.forecast import Forecast
from chary.core.plan import BETA, AnswerT, Data, Json, Plan, Result, reading
from chary.core.transaction import Spine
from chary.data import NeighborRelation, Neighbors, SecondMoments, second_moments
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms import workloads
from chary.numbers import CONFIDENT, Number, exact, percent, plain, probability

# Estimates from noisy moments: means, covariances and principal components, with their errors.

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
    and the proportion of the variance that it explains.

    Numbers are in halves of the columns' widths: a value at its upper bound is 1, at its lower -1. What is estimated is
    the covariance of the rows as they were counted: clipped, rounded, and shortened to the longest. The intervals of
    all eigenvalues hold together with 95 % confidence; None where there may be no rows.
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
        return f"intervals of the eigenvalues, all together, with {CONFIDENT}, of the rows as {changed}"

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
        """The largest error of the covariance matrix (L2), and so by Weyl's inequality of each eigenvalue; None where
        there may be no rows.

        It holds with this confidence, by a joint bound on the noise of rows, sums and products.
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
        the noise allows any angle."""
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
        sums, steps = self.query.matrix(self.noisy), self.query.steps
        rows = max(1, self.noisy[0])
        means, squares = sums[0, 1:] / rows / steps, sums[1:, 1:] / rows / steps**2
        return Estimated(rows, means, squares - np.outer(means, means), squares)


# Regressions: the coefficients of one column by others, with the errors by the noise and by sampling.

INTERCEPT: Final = "intercept"


@dataclass(frozen=True)
class Regression(Table):
    """The least squares of `response` by `regressors`: a row for the intercept and each of them, in their own units.

    `value` is the coefficient. `low` to `high` contains that of the rows without noise, whatever the rows.
    `noise_error` is the standard error by the noise alone. Apart from that, `sampling_error` is the usual standard
    error of a coefficient, for independent errors of equal variance. `population_low` to `population_high` allows for
    both: it contains the coefficient of the linear model of which the rows are a sample. Each interval holds by itself,
    with `confidence`.

    What is estimated is of the rows as they were counted: clipped to their ranges and rounded. All is None where the
    columns cannot be distinguished from the noise, as where one follows from others: then no coefficient has bounds.
    `refit` takes other columns, another response or another confidence, at no cost.
    """

    noisy: tuple[int, ...]
    query: SecondMoments
    made: workloads.MomentNoise
    response: str
    regressors: tuple[str, ...]
    confidence: Fraction
    noun, also = "coefficients", "response rows_counted residual_error explained"

    @classmethod
    def of(
        cls,
        number: int,
        noisy: Sequence[int],
        query: SecondMoments,
        made: workloads.MomentNoise,
        response: str,
        regressors: Sequence[str],
        confidence: Number,
    ) -> "Regression":
        """The regression from these noisy moments."""
        keys = tuple((name,) for name in (INTERCEPT, *regressors))
        level: Fraction = probability(confidence, "confidence")
        return cls(number, ("term",), keys, tuple(noisy), query, made, response, tuple(regressors), level)

    @property
    def value(self) -> dict[str, float | None]:
        """Term to coefficient; None where the noise leaves it undetermined."""
        return {term: each.value for (term,), each in zip(self.keys, self._estimates, strict=True)}

    @property
    def interval_says(self) -> str:
        if self._open:
            return (
                "no interval: in some direction the columns vary by less than the noise, so the coefficients may be "
                "anything; refit(on=[...]) with fewer columns is free"
            )
        return (
            f"each interval holds with {percent(self.confidence)} for the coefficient of the rows as clipped to their "
            "ranges; population_low to population_high also allows for their being a sample"
        )

    @property
    def rows_counted(self) -> int:
        """The noisy number of rows without a NULL, at least 1."""
        return max(1, self.noisy[0])

    @property
    def residual_error(self) -> float | None:
        """The noisy standard deviation of the residuals, in the response's own units; None where noise hides it."""
        variance = None if self._open else self._known.variance
        return None if variance is None else math.sqrt(variance) * self._halves[self.response] / self.query.steps

    @property
    def explained(self) -> float | None:
        """The noisy proportion of the response's variance that is explained (R squared); None where noise hides it."""
        return None if self._open else self._known.explained

    def refit(
        self, *, response: str | None = None, on: Sequence[str] | None = None, confidence: Number | None = None
    ) -> "Regression":
        """Another regression from the same noisy moments, which is free. Its intervals do not account for a choice of
        columns that was made after this one was seen.

        Errors: `InvalidParameter` for columns that have no moments here, and for a response among its regressors.
        """
        told = self.response if response is None else response
        others = tuple(name for name in self.query.names if name != told) if on is None else tuple(on)
        if told in others or len(set(others)) < len(others) or not {told, *others} <= set(self.query.names):
            known = ", ".join(self.query.names)
            raise InvalidParameter(f"a regression is of one column on others, each once, among {known}")
        level = self.confidence if confidence is None else confidence
        found = self.of(self.call, self.noisy, self.query, self.made, told, others, level)
        return found if self._cashier is None else handed_out(found, self._cashier)

    def cells(self, position: int) -> dict[str, Any]:
        return self._estimates[position]._asdict()

    @property
    def _open(self) -> bool:
        """Whether the noise leaves the coefficients undetermined."""
        return self._estimates[0].value is None

    @cached_property
    def _estimates(self) -> list[Estimate]:
        """Coefficients of steps, in the columns' own units."""
        middle = {name: float(low + high) / 2 for name, (low, high) in self.query.bounds}
        halves, outer = self._halves, self._halves[self.response]
        weights = np.diag(
            [outer * self.made.constant / self.query.steps, *(outer / halves[x] for x in self.regressors)]
        )
        weights[0, 1:] = [-outer / halves[name] * middle[name] for name in self.regressors]
        found = self._known.estimates(weights, self.confidence)
        return [found[0].moved(middle[self.response]), *found[1:]]

    @property
    def _halves(self) -> dict[str, float]:
        return {name: float(high - low) / 2 for name, (low, high) in self.query.bounds}

    @cached_property
    def _known(self) -> NoisySquares:
        places = [1 + self.query.names.index(name) for name in (*self.regressors, self.response)]
        return self.made.squares(self.query.matrix(self.noisy), [0, *places])


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
    """Publish the principal components of columns with public bounds, with their means and covariances: a `Components`.

    Noise is drawn once, on the number of rows, the sums of the columns and the sums of their products. It is discrete
    Gaussian for `rho`, or for `epsilon` and `delta`, and discrete Laplace for `epsilon` alone. All else follows from
    those numbers and is free. The sensitivity is that of all of them together, and is attained (`MomentNoise`).

    Guarantee: rho-zCDP, (epsilon, delta)-DP or epsilon-DP for the whole answer, whatever the rows. Values are clipped
    to the ranges of their columns, which become -1 to 1, and rounded to one of `fineness` steps to either side.
    `longest`, in the same units, shortens longer rows (with d columns none is longer than sqrt(d)), which takes less
    noise where few are long. Rows with a NULL are left out. Where a unit has many rows, `max_rows_per_unit` of them
    count, chosen evenly.

    Errors: `InvalidQuery` for columns without bounds or of no numbers, more than 32 of them, and a unit whose rows are
    not limited. `InvalidParameter` unless the size of the noise is given in one way.

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
        check_sizes(self.epsilon, self.rho, self.delta)
        self.query()

    def query(self) -> SecondMoments:
        """The sums that noise is added to."""
        ranges: Any = self.ranges
        limits: dict[str, Any] = {"where": self.where, "max_rows_per_unit": self.max_rows_per_unit}
        return second_moments(ranges, steps=self.fineness, longest=self.longest, **limits)

    def plan(self, spine: Spine) -> Plan[Components]:
        asked, made = self.query(), _moment_noise(self, spine.rows.neighbor_relation)

        def present(answer: Json, number: int) -> Components:
            keys = tuple((place + 1,) for place in range(len(asked.bounds)))
            return Components(number, ("component",), keys, tuple(answer["noisy"]), asked, made)

        def foretold() -> str:
            rows, length, norm = made.reaches(BETA)
            longest = math.sqrt(asked.squared) / asked.steps
            most = plain(float(norm / asked.steps**2 + longest**2 * rows + 2 * longest * length / asked.steps))
            told = f"the covariance of n rows is off by about {most}/n at most (L2, in halves of the ranges)"
            return f"{told}, with {CONFIDENT}"

        return _of_moments(self, spine, asked, made, present, foretold)


@call("linear_regression", subject="numbers")
class LinearRegression(Call[Regression]):
    """Publish the linear regression of one column on others with public ranges, with its standard errors: a
    `Regression`.

    `response` is explained by an intercept and all other columns of `ranges`. Noise is drawn once, on the number of
    rows, the sums of the columns and the sums of their products. It is discrete Gaussian for `rho`, or for `epsilon`
    and `delta`, and discrete Laplace for `epsilon` alone. All else follows from those numbers and is free, `refit` as
    well. The sensitivity is that of all of them together, and is attained (`MomentNoise`).

    Guarantee: rho-zCDP, (epsilon, delta)-DP or epsilon-DP for the whole answer, whatever the rows. Values are clipped
    to the ranges of their columns and rounded to one of `fineness` steps to either side of their middles. Rows with a
    NULL are left out. Where a unit has many rows, `max_rows_per_unit` of them count, chosen evenly. Source:
    docs/theory/linear.md.

    Errors: `InvalidParameter` for a response without a range or alone, and unless the size of the noise is given in one
    way. `InvalidQuery` for invalid ranges, columns of no numbers, more than 32 of them, and a unit whose rows are not
    limited.

    >>> LinearRegression("cost", {"age": (0, 90), "cost": (0, 5000)}, rho="0.01").regressors
    ('age',)
    """

    response: Name
    ranges: Ranges
    _: KW_ONLY
    epsilon: Positive | None = None
    rho: Positive | None = None
    delta: Probability | None = None
    fineness: Whole = 1000
    where: Where = None
    max_rows_per_unit: Whole | None = None

    def __post_init__(self) -> None:
        check_sizes(self.epsilon, self.rho, self.delta)
        self.query()
        if self.response not in self.ranges or not self.regressors:
            raise InvalidParameter(
                "the response and at least one other column have a range: "
                'LinearRegression("cost", {"age": (0, 90), "cost": (0, 5000)}, rho="0.01")'
            )

    @property
    def regressors(self) -> tuple[str, ...]:
        """The columns that explain the response, in the order of their ranges."""
        return tuple(name for name in self.ranges if name != self.response)

    def query(self) -> SecondMoments:
        """The sums that noise is added to."""
        ranges: Any = self.ranges
        limits: dict[str, Any] = {"where": self.where, "max_rows_per_unit": self.max_rows_per_unit}
        return second_moments(ranges, steps=self.fineness, **limits)

    def plan(self, spine: Spine) -> Plan[Regression]:
        asked, made = self.query(), _moment_noise(self, spine.rows.neighbor_relation)

        def present(answer: Json, number: int) -> Regression:
            return Regression.of(number, answer["noisy"], asked, made, self.response, self.regressors, 1 - BETA)

        def foretold() -> str:
            # Of a coefficient near 0, by the variance that the others leave of its column.
            scale = made.squares(np.eye(len(asked.bounds) + 1), [0, 1]).spread / asked.steps**2
            least = plain(float(f"{scale:.3g}"))
            return (
                f"a coefficient has a standard error of about {least}/(n v) from the noise, and that of the sample. "
                "That is for n rows whose other columns leave its column the variance v (in halves of the ranges)"
            )

        return _of_moments(self, spine, asked, made, present, foretold)


def _moment_noise(asked: PrincipalComponents | LinearRegression, near: NeighborRelation) -> workloads.MomentNoise:
    """The noise of the moments; refuses units without a limit on their rows, and noise out of range."""
    query, noising = asked.query(), noising_of(asked.epsilon, asked.rho, asked.delta)
    query.contribution(near)
    size: dict[str, Any] = {"rho" if noising.gaussian else "epsilon": noising.size}
    rows, replaced = asked.max_rows_per_unit or 1, near.neighbors is Neighbors.REPLACE
    return workloads.MomentNoise(len(query.bounds), query.squared, query.most, rows, replaced, **size)


def _of_moments(
    asked: Call[AnswerT],
    spine: Spine,
    query: SecondMoments,
    made: workloads.MomentNoise,
    present: Callable[[Json, int], AnswerT],
    foretold: Callable[[], str],
) -> Plan[AnswerT]:
    """The plan that releases the noisy moments. The answer is made of them alone."""

    def run(data: Data) -> Result:
        return Result({"noisy": [int(value) for value in made.apply(data.integers(), data.source)]}, 0, 0)

    def forecast() -> Forecast:
        return Forecast(interval=foretold())

    return asked.planned(spine, made.event(), run, present, reading(query), forecast=forecast)
