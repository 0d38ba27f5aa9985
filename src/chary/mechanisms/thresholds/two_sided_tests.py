"""Two-sided sharp tests of many values at once."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting.sharp_tests import SharpTest, TwoSidedTable
from chary.mechanisms.thresholds.sharp import SharpSampler


@dataclass(frozen=True)
class TwoSidedSampler:
    """Whether integers are far from 0, above or below, each with exactly its chance in the table, independently.

    Guarantee: `SharpTest` for each value that one unit moves by at most the table's sensitivity. What is far from a
    public value is asked by its difference from that.

    Values have any size; arrays that do not hold integers raise `InvalidParameter`, whose message shows none.

    >>> from chary.accounting.sharp_tests import sharp_table
    >>> sampler = TwoSidedSampler(TwoSidedTable(sharp_table(order=18, price="0.19295"), change=2000))
    >>> sampler.hits(np.array([-10**9, 0, 10**9]), noise.OperatingSystem())
    array([ True, False,  True])
    """

    table: TwoSidedTable

    def __post_init__(self) -> None:
        self._one_sided  # noqa: B018 - refuses places too far apart to draw between

    def event(self) -> SharpTest:
        """What one test may reveal."""
        return self.table.event

    def step(self, value: int, source: noise.Source) -> bool:
        """Whether one value is far from 0."""
        return self._one_sided.step(abs(int(value)) - self.table.change, source)

    def hits(self, values: NDArray[Any], source: noise.Source) -> NDArray[np.bool_]:
        """Whether each of a vector of values is far from 0."""
        exact = noise.add(values, 0)
        # The magnitude of the least 64-bit integer is none.
        safe = exact.astype(object) if exact.dtype != object and (exact == np.iinfo(np.int64).min).any() else exact
        return self._one_sided.hits(noise.add(np.abs(safe), -self.table.change), source)

    @cached_property
    def _one_sided(self) -> SharpSampler:
        return SharpSampler(self.table.table)
