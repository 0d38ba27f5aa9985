"""Randomized response with k values: the own one with a known chance, otherwise any other."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting.local_reports import Channel, category_channel
from chary.errors import InvalidParameter
from chary.mechanisms.local.local_reports import Integers, LocalReports
from chary.numbers import positive


@dataclass(frozen=True)
class CategoryReports(LocalReports):
    """Reports one value: the own one with `e^epsilon / (e^epsilon + k - 1)`, any other one otherwise, all alike.

    Guarantee: `Pure(epsilon)`, attained by every pair of values. A report is a position in `values`. Of all forms its
    estimates are the best for few values, up to about `3 e^epsilon + 2` of them (`OneHotReports` beyond). Source:
    theory section 2; Kairouz, Bonawitz and Ramage 2016.

    >>> survey = CategoryReports(["red", "green", "blue"], epsilon=2)
    >>> survey.report("green") in (0, 1, 2)                             # on the device
    True
    >>> reports = survey.reports(["red"] * 6000 + ["blue"] * 2000)
    >>> found = survey.estimate(reports)                                # at the collector
    >>> abs(found["red"].share - 0.75) < 0.05, found["green"].high < 0.1
    (True, True)
    """

    @property
    def channel(self) -> Channel:
        return category_channel(len(self.values), self.epsilon)

    def randomized(self, places: Integers, source: noise.Source) -> NDArray[Any]:
        others = len(self.values) - 1
        lies = noise.bernoulli(source, noise.Enclosure.any_of(others, positive(self.epsilon, "epsilon")), places.size)
        found = places.copy()
        shifts = noise.uniform_integers(source, others, int(np.count_nonzero(lies))) + 1
        found[lies] = (found[lies] + shifts) % len(self.values)
        return found

    def counts(self, reports: Any) -> Integers:
        found: NDArray[Any] = np.asarray(reports)
        if found.ndim != 1 or (found.dtype.kind not in "iu" and found.size):
            raise InvalidParameter("reports must be positions in the list of values, as `reports` makes them")
        if found.size and not 0 <= int(found.min()) <= int(found.max()) < len(self.values):
            raise InvalidParameter("a report is a position in the list of values, from 0 on")
        return np.bincount(found.astype(np.int64), minlength=len(self.values))
