"""Daily series as whole steps between 0 and a public top, of which one unit moves each by a known number of steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.experiments.data_folder import DataFolder
from chary.numbers import Number, exact

BIKES, LONDON, SOLAR = "bike_day.csv", "lcl_daily_aggregate.csv", "ausgrid_300_daily_aggregate.csv"
# Of a household's day, in kWh: more is clipped, so that no household moves a day's total by more.
CLIP: Final = 10
# How many days the paper looks at, and how many riders and households it counts.
YEAR: Final = 365
RIDERS, HOUSEHOLDS, CUSTOMERS = 6946, 5564, 300
_FINE: Final = 1000


@dataclass(frozen=True)
class DailySeries:
    """Values of consecutive days in whole steps from 0 to `top`; one unit moves each by at most `moved`.

    >>> week = DailySeries("made up", np.array([3, 9, 5]), 10, 1)
    >>> week.above("0.5").tolist(), week.bar("0.55"), week.sensitivity
    ([False, True, True], 6, 0.1)
    """

    name: str
    values: NDArray[np.int64]
    top: int
    moved: int

    @property
    def sensitivity(self) -> float:
        """By how much of the range one unit moves a value."""
        return self.moved / self.top

    def bar(self, share: Number) -> int:
        """The least value at or above this share of the range."""
        return -int(-exact(share, "threshold") * self.top // 1)

    def above(self, share: Number) -> NDArray[np.bool_]:
        """Which days are at or above a share of the range: the answer without noise."""
        found: NDArray[np.bool_] = self.values >= self.bar(share)
        return found


def bikes(data: DataFolder) -> DailySeries:
    """Registered riders in Washington on the first 365 days, of 6,946 on the best day of both years; a rider counts
    once a day."""
    return DailySeries("bikes", data.column(BIKES, "registered")[:YEAR].astype(np.int64), RIDERS, 1)


def london(data: DataFolder) -> DailySeries:
    """Use of 5,564 London households, each clipped at 10 kWh a day, as a share of 5,564 times 10 kWh.

    A household that was not read counts as 0, so one moves each day by 1/5564 at most. The last day, of which one
    half-hour is there, is left out.
    """
    clipped = data.column(LONDON, f"mean_clip{CLIP}") * data.column(LONDON, "n_value")
    top = HOUSEHOLDS * CLIP * _FINE
    return DailySeries("London", np.rint(clipped[:-1] * _FINE).astype(np.int64).clip(0, top), top, CLIP * _FINE)


def solar(data: DataFolder) -> DailySeries:
    """Use of 300 customers in New South Wales on 365 days, as a share of the largest mean: a stand-in for NEAR.

    Only means over all customers are to be had, so nobody could be clipped: that one customer moves a day by 1/300 is
    assumed, as in the paper.
    """
    means = data.column(SOLAR, "mean_gross_kwh_per_customer")[:YEAR]
    top = CUSTOMERS * _FINE
    return DailySeries("solar homes", np.rint(means / means.max() * top).astype(np.int64), top, _FINE)


SERIES: Final[dict[str, Callable[[DataFolder], DailySeries]]] = {"bikes": bikes, "London": london, "solar homes": solar}


def scored(told: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    """The F1 score: twice the days rightly told over all that were told and all that should be; 0 where nothing was.

    >>> scored(np.array([True, True, False]), np.array([True, False, False]))
    0.666...
    """
    right = int(np.count_nonzero(told & truth))
    return 2 * right / max(1, int(np.count_nonzero(told)) + int(np.count_nonzero(truth)))
