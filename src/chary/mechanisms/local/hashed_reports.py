"""Reports of a group into which everybody sorts the values by a random map of their own."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting.local_reports import Channel, best_groups, hashed_channel
from chary.errors import InvalidParameter
from chary.mechanisms.local.category_reports import CategoryReports
from chary.mechanisms.local.local_reports import Integers, LocalReports, table_of


@dataclass(frozen=True)
class HashedReports(LocalReports):
    """Reports a random map of the values to g groups, and by randomized response the group of the own value.

    Guarantee: `Pure(epsilon)`: the map is drawn without the value. It is linear on the digits of a value's position to
    the prime base g, with coefficients drawn evenly, so two values fall into one group with exactly 1/g, and a report
    speaks for a value that is not held with exactly 1/g. As accurate as `OneHotReports`, in a few numbers a report
    (the coefficients, then the group) instead of a bit a value. Source: Wang, Blocki, Li and Jha 2017 (OLH).

    >>> survey = HashedReports(range(1000), epsilon=2)
    >>> survey.groups, len(survey.report(7))
    (7, 5)
    >>> found = survey.estimate(survey.reports([7] * 4000))
    >>> found[7].low > 0.8, found[8].high < 0.2
    (True, True)
    """

    @cached_property
    def groups(self) -> int:
        """How many groups there are: the best prime number for this epsilon."""
        return best_groups(self.epsilon)

    @property
    def channel(self) -> Channel:
        return hashed_channel(self.groups, self.epsilon)

    def randomized(self, places: Integers, source: noise.Source) -> NDArray[Any]:
        width = self._digits.shape[1]
        drawn = noise.uniform_integers(source, self.groups, places.size * width).reshape(places.size, width)
        groups = (drawn * self._digits[places]).sum(axis=1) % self.groups
        return np.column_stack([drawn, self._inner.randomized(groups, source)])

    def counts(self, reports: Any) -> Integers:
        rows = table_of(reports, self._digits.shape[1] + 1, "iu", "rows of coefficients and a group")
        if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < self.groups:
            raise InvalidParameter("coefficients and groups are whole numbers from 0 on, below the number of groups")
        drawn, told = rows[:, :-1].astype(np.int64), rows[:, -1]
        found = [np.count_nonzero(drawn @ digits % self.groups == told) for digits in self._digits]
        return np.array(found, dtype=np.int64)

    @cached_property
    def _inner(self) -> CategoryReports:
        return CategoryReports(range(self.groups), self.epsilon)

    @cached_property
    def _digits(self) -> Integers:
        """The digits of every position, lowest first."""
        width, places = 1, np.arange(len(self.values), dtype=np.int64)
        while self.groups**width < len(self.values):
            width += 1
        return np.column_stack([places // self.groups**power % self.groups for power in range(width)])
