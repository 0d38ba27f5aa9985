"""Black boxes for schedules: static private algorithms with the accuracy law of each."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from chary.accounting.schedules import Law
from chary.calls.algorithm import Algorithm
from chary.calls.compute import AskAlgorithm, Compute
from chary.calls.quantiles import AskQuantiles, Quantiles
from chary.calls.releases import AskRelease, Release
from chary.calls.schedules import BlackBox
from chary.core.plan import Interaction
from chary.data import Binned, Count, Neighbouring, Relation
from chary.errors import InvalidParameter, InvalidQuery
from chary.numbers import Number, probability

# The law of a box is one of its number of rows, which therefore must be public.
_ROWS = Neighbouring(Relation.REPLACE, None)


@dataclass(frozen=True)
class AlgorithmBox(BlackBox):
    """Any private algorithm of yours: `make(epsilon)` gives it at that size, `law` is (p, c) or a `Law`.

    You vouch for the law: with probability 1 - beta the error is at most `c (ln(1/beta)/(epsilon n))^p` on n rows, for
    every beta up to 1/2. The algorithm must be the same, with the same name and parameters, at every epsilon.

    >>> def mean_age(rows, source, scale):
    ...     noisy = sum(rows["age"].to_pylist()) + int(noise.discrete_laplace(source, scale, 1)[0])
    ...     return noisy / max(1, rows.num_rows)
    >>> from chary import noise
    >>> AlgorithmBox(
    ...     lambda epsilon: Algorithm("mean age", lambda r, s: mean_age(r, s, 120 / epsilon), epsilon, columns=["age"]),
    ...     law=(1, 120),
    ... ).law.body()
    {'power': '1', 'factor': '120', 'choices': '1', 'log_power': '1'}
    """

    make: Callable[[Fraction], Algorithm] = field(repr=False)
    declared: Law | Sequence[Number] = field(compare=False)

    def __init__(self, make: Callable[[Fraction], Algorithm], *, law: Law | Sequence[Number]) -> None:
        if not callable(make):
            raise InvalidParameter(
                "bring a function of epsilon, such as lambda epsilon: Algorithm(..., epsilon=epsilon)"
            )
        object.__setattr__(self, "make", make)
        object.__setattr__(self, "declared", Law.of(law))

    @property
    def law(self) -> Law:
        return Law.of(self.declared)

    def interaction(self, epsilon: Fraction, neighbouring: Neighbouring) -> Interaction:
        return AskAlgorithm(Compute(self.make(epsilon)), neighbouring)


@dataclass(frozen=True)
class CountsBox(BlackBox):
    """The noisy counts of all keys of a count or a histogram: discrete Laplace, or with `gaussian` discrete Gaussian.

    Law: the largest error of any count, as a fraction of all rows, with p = 1. Laplace: c is the L1 change D1 between
    neighbours (2 with keys: a row leaves one and enters another). Gaussian, for schedules by rho: `c = D2 sqrt 2` with
    the L2 change D2, and the root of the logarithm. There are twice as many choices as keys, since a noise exceeds t
    either way with probability at most `2 e^(-t/scale)`, or `2 e^(-t^2/(2 sigma^2))`.

    >>> from chary import count
    >>> CountsBox(count().by("ward", ["a", "b"])).law.factor
    Fraction(2, 1)
    """

    query: Count | Binned
    gaussian: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.query, (Count, Binned)):
            raise InvalidQuery("schedule counts, such as count().by('ward', ['a', 'b']), or chary.histogram(...)")

    @cached_property
    def law(self) -> Law:
        keys, change = 1 if self.query.keys is None else len(self.query.keys), self.query.l1(_ROWS)
        if not self.gaussian:
            return Law(1, change, 2 * keys)
        return Law(1, math.sqrt(2 * change * self.query.sensitivity(_ROWS)), 2 * keys, Fraction(1, 2))

    def interaction(self, epsilon: Fraction, neighbouring: Neighbouring) -> Interaction:
        if self.gaussian:
            return AskRelease(Release(self.query, rho=epsilon**2 / 2), neighbouring)
        return AskRelease(Release(self.query, epsilon=epsilon), neighbouring)


@dataclass(frozen=True)
class QuantilesBox(BlackBox):
    """Quantiles of a column on the public grid between two bounds, by inverse sensitivity.

    Law: the largest error of a rank, as a fraction of all rows, with p = 1 and c = 2 for one quantile; for several,
    which are halved in r rounds, the errors along a path add up to at most c = 2 r (2 r - 1).

    >>> QuantilesBox("age", [0.5], bounds=(0, 120)).law.body()
    {'power': '1', 'factor': '2', 'choices': '121', 'log_power': '1'}
    """

    column: str
    at: Sequence[Number]
    bounds: tuple[Number, Number]
    step: Number = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", tuple(probability(q, "a quantile") for q in self.at))
        self.law  # noqa: B018 - refuses bounds that make no grid

    @cached_property
    def law(self) -> Law:
        rounds, made = len(self.at).bit_length(), self.interaction(Fraction(1), _ROWS)
        return Law(1, 2 * rounds * (2 * rounds - 1), len(self.at) * made.mechanism.grid(made.asked.points))

    def interaction(self, epsilon: Fraction, neighbouring: Neighbouring) -> AskQuantiles:
        asked = Quantiles(self.column, self.at, bounds=self.bounds, step=self.step, epsilon=epsilon)
        return AskQuantiles(asked, neighbouring)
