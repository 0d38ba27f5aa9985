"""Histograms over public bins, and marginals: counts for each combination of public values of several columns."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final

from chary.data import Predicate, count, histogram
from chary.data.binned import Outside
from chary.errors import InvalidQuery
from chary.numbers import Number
from chary.session.door import Door
from chary.session.releasing import Release
from chary.session.results import Answers

MOST_CELLS: Final = 1_000_000


class Tabulating(Door):
    """Tables of noisy counts."""

    def histogram(
        self,
        column: str,
        *,
        bins: Iterable[Number],
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        where: Predicate | str | None = None,
        outside: Outside = "ignore",
        keep_per_unit: int | None = None,
        stated_per_unit: int | None = None,
        request: str | None = None,
    ) -> Answers:
        """The noisy number of units with a row in each bin; keys are intervals `[low, high)`, `bins` their edges.

        Guarantee and noise as for `release`: one unit is in one bin where each row is a unit, otherwise in as many as
        `keep_per_unit` or `stated_per_unit` say, or in all; so the noise does not grow with the number of bins. The
        query alone, for `watch` or `top`, is `chary.data.histogram`, where bins are explained.
        """
        query = histogram(
            column,
            bins=bins,
            where=where,
            outside=outside,
            keep_per_unit=keep_per_unit,
            stated_per_unit=stated_per_unit,
        )
        answer: Answers = self.spine.perform(Release(query, self.spine.rows.neighbouring, epsilon, rho, delta), request)
        return answer

    def marginal(
        self,
        columns: Mapping[str, Sequence[Any]],
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        where: Predicate | str | None = None,
        keep_per_unit: int | None = None,
        stated_per_unit: int | None = None,
        request: str | None = None,
    ) -> Answers:
        """The noisy number of units with each combination of public values: columns and the values they may have.

        Guarantee and noise as for `release` of `count(where).by(columns, combinations)`, which it is; combinations are
        in the order of the lists, the last column changing fastest. Errors: `InvalidQuery` for no columns, an empty
        list, or more than a million combinations.
        """
        if not isinstance(columns, Mapping) or not columns:
            raise InvalidQuery('name columns and their public values: {"sex": ["f", "m"], "smoker": [True, False]}')
        if not all(isinstance(values, (list, tuple, range)) for values in columns.values()):
            raise InvalidQuery("the values of a column are a list, a tuple or a range, in a fixed order")
        lists = [list(values) for values in columns.values()]
        cells = 1
        for values in lists:
            cells *= len(values)
        if cells > MOST_CELLS:
            raise InvalidQuery("a marginal may have a million cells at most")
        query = count(where).by(
            list(columns), product(*lists), keep_per_unit=keep_per_unit, stated_per_unit=stated_per_unit
        )
        answer: Answers = self.spine.perform(Release(query, self.spine.rows.neighbouring, epsilon, rho, delta), request)
        return answer
