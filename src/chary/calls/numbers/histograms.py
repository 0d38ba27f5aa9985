"""Histograms over public bins, and marginals: counts for each combination of public values of several columns."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY
from itertools import product
from typing import Any, Final

from chary.answers import NoisyNumbers
from chary.calls.call import Call, call
from chary.calls.fields import Columns, Name, Numbers, Positive, Probability, Where, Whole
from chary.calls.numbers.releasing import AskRelease, Release
from chary.core.transaction import Spine
from chary.data import count, histogram
from chary.data.queries.binned import Outside
from chary.errors import InvalidQuery

MOST_CELLS: Final = 1_000_000


@call("histogram", subject="numbers")
class Histogram(Call[NoisyNumbers]):
    """The noisy number of units with a row in each bin; keys are half-open intervals, `bins` their edges.

    Guarantee and noise as for `Release`: one unit is in one bin where each row is a unit, otherwise in as many as
    `keep_per_unit` or `stated_per_unit` say, or in all; so the noise does not grow with the number of bins. The
    query alone, for `Watch` or `Top`, is `chary.histogram`, where bins are explained.
    """

    column: Name
    _: KW_ONLY
    bins: Numbers
    epsilon: Positive | None = None
    rho: Positive | None = None
    delta: Probability | None = None
    where: Where = None
    outside: Outside = "ignore"
    keep_per_unit: Whole | None = None
    stated_per_unit: Whole | None = None

    def bind(self, spine: Spine) -> AskRelease:
        limits = {"keep_per_unit": self.keep_per_unit, "stated_per_unit": self.stated_per_unit}
        query = histogram(self.column, bins=self.bins, where=self.where, outside=self.outside, **limits)
        return Release(query, epsilon=self.epsilon, rho=self.rho, delta=self.delta).bind(spine)


@call("marginal", subject="numbers")
class Marginal(Call[NoisyNumbers]):
    """The noisy number of units with each combination of public values: columns and the values they may have.

    Guarantee: that of `Release` for the whole marginal. Keys are tuples of values, a scalar for one column, in the
    order of the lists, the last column changing fastest. Errors: `InvalidQuery` for no columns, an empty list, or more
    than a million combinations.
    """

    columns: Columns
    _: KW_ONLY
    epsilon: Positive | None = None
    rho: Positive | None = None
    delta: Probability | None = None
    where: Where = None
    keep_per_unit: Whole | None = None
    stated_per_unit: Whole | None = None

    def __post_init__(self) -> None:
        _combinations(self.columns)

    def bind(self, spine: Spine) -> AskRelease:
        limits = {"keep_per_unit": self.keep_per_unit, "stated_per_unit": self.stated_per_unit}
        query = count(self.where).by(list(self.columns), _combinations(self.columns), **limits)
        return Release(query, epsilon=self.epsilon, rho=self.rho, delta=self.delta).bind(spine)


def _combinations(columns: Mapping[str, Sequence[Any]]) -> Iterable[tuple[Any, ...]]:
    if not columns:
        raise InvalidQuery('name columns and their public values: {"sex": ["f", "m"], "smoker": [True, False]}')
    if not all(isinstance(values, (list, tuple, range)) for values in columns.values()):
        raise InvalidQuery("the values of a column are a list, a tuple or a range, in a fixed order")
    if math.prod(map(len, columns.values())) > MOST_CELLS:
        raise InvalidQuery("a marginal may have a million cells at most")
    return product(*columns.values())
