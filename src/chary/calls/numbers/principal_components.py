"""Means, covariances and principal components of several columns, by one noisy matrix of second moments."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from chary.accounting import Event
from chary.accounting.gaussian_noise import zero_concentrated_rho_down
from chary.calls.call import Bound, Call, call
from chary.calls.fields import Positive, Probability, Where, Whole
from chary.calls.numbers.component_answers import Components
from chary.core.plan import BETA, Json, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Query, Relation, SecondMoments, second_moments
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms.workloads import MomentNoise
from chary.numbers import exact, plain


def _bounded(value: Any) -> dict[str, tuple[Fraction, Fraction]]:
    if not isinstance(value, Mapping) or not all(isinstance(edges, (list, tuple)) for edges in value.values()):
        raise InvalidQuery('name columns and their bounds, such as {"age": (0, 90), "cost": (0, 5000)}')
    if not all(len(edges) == 2 for edges in value.values()):
        raise InvalidQuery("bounds are a pair of numbers for each column")
    return {name: (exact(low, "bounds"), exact(high, "bounds")) for name, (low, high) in value.items()}


Ranges = Annotated[
    Mapping[str, Sequence[Any]],
    PlainValidator(_bounded),
    PlainSerializer(
        lambda bounds: {name: [str(edge) for edge in edges] for name, edges in bounds.items()}, when_used="json"
    ),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "array", "minItems": 2, "maxItems": 2}}),
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
    noise where few are long. Rows with a NULL are left out. Where a unit has many rows, `rows_per_unit` of them count.

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
    rows_per_unit: Whole | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("give one of epsilon= (Laplace noise, with delta= Gaussian) and rho= (Gaussian)")
        if self.delta is not None and self.epsilon is None:
            raise InvalidParameter("delta= belongs to epsilon=; rho= alone says how much Gaussian noise is drawn")
        self.query()

    def query(self) -> SecondMoments:
        """The sums that noise is added to."""
        ranges: Any = self.ranges
        limits: dict[str, Any] = {"where": self.where, "rows_per_unit": self.rows_per_unit}
        return second_moments(ranges, steps=self.fineness, longest=self.longest, **limits)

    def bind(self, spine: Spine) -> "AskMoments":
        return AskMoments(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class AskMoments(Bound[PrincipalComponents]):
    """The noisy moments, as they are asked."""

    @cached_property
    def asked(self) -> SecondMoments:
        """What is read."""
        return self.call.query()

    @cached_property
    def made(self) -> MomentNoise:
        """The noise; refuses rows of a unit without a limit, and noise out of range."""
        call, asked = self.call, self.asked
        asked.contribution(self.neighbouring)
        size: dict[str, Any] = {"rho": call.rho, "epsilon": call.epsilon}
        if call.delta is not None:
            rho = zero_concentrated_rho_down(epsilon=Fraction(call.epsilon or 0), delta=Fraction(call.delta))
            size = {"rho": rho}
        replaced = self.neighbouring.relation is Relation.REPLACE
        return MomentNoise(len(asked.bounds), asked.squared, asked.most, call.rows_per_unit or 1, replaced, **size)

    @property
    def event(self) -> Event:
        return self.made.event()

    def foretold(self) -> str:
        rows, length, norm = self.made.reaches(BETA)
        steps = self.asked.steps
        longest = math.sqrt(self.asked.squared) / steps
        most = plain(float(norm / steps**2 + longest**2 * rows + 2 * longest * length / steps))
        return (
            f"the covariance of n rows is off by about {most}/n at most (L2, in halves of the ranges), 95 times in 100"
        )

    def queries(self) -> Sequence[Query]:
        return [self.asked]

    def run(self, touched: Touched) -> Ran:
        noisy = self.made.apply(touched.integers(0), touched.source)
        return Ran({"noisy": [int(value) for value in noisy]}, 0, 0)

    def present(self, answer: Json, call: int) -> Components:
        keys = tuple((place + 1,) for place in range(len(self.asked.bounds)))
        return Components(call, ("component",), keys, tuple(answer["noisy"]), self.asked, self.made)
