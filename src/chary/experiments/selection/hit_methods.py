"""What else flags days under the same promise: target charging, sharp tests, the tuned sparse vector."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.accounting import sharp_table, sparse_noise
from chary.accounting.sharp_widths import sharp_width
from chary.experiments.selection.alarm_runs import DELTA, EPSILON
from chary.experiments.selection.daily_series import DailySeries
from chary.filters import Budget, largest_call
from chary.mechanisms.additive import Laplace
from chary.mechanisms.threshold_tests import SharpSampler, SparseVectorMachine
from chary.noise import Source

Flags = NDArray[np.bool_]
Method = Callable[[DailySeries, int, int, Source], Flags]


def target_charging(series: DailySeries, bar: int, hits: int, source: Source) -> Flags:
    """A noisy test a day, of which only hits are charged: (epsilon, delta) by the exact curve of so many hits."""
    noise = Laplace.for_epsilon(_call(hits), sensitivity=series.moved)
    return until_spent(noise.apply(series.values, source) >= bar, hits)


def sharp_tests(series: DailySeries, bar: int, hits: int, source: Source) -> Flags:
    """The sharpest test a day, whose misses cost a part of the budget that is set aside for a year of them."""
    return until_spent(_sampler(len(series.values), hits, series.moved).hits(series.values - bar, source), hits)


def sparse_vector(series: DailySeries, bar: int, hits: int, source: Source) -> Flags:
    """The tuned sparse vector for monotone questions: epsilon alone, charged once."""
    machine = SparseVectorMachine(sparse_noise(epsilon=EPSILON, hits=hits, monotone=True), series.moved)
    _, crossed = machine.step(machine.start(source), series.values, bar, source)
    told = np.zeros(len(series.values), dtype=np.bool_)
    told[crossed.positions] = True
    return told


METHODS: Final[dict[str, Method]] = {
    "target charging": target_charging,
    "sharp tests": sharp_tests,
    "sparse vector": sparse_vector,
}


def until_spent(flags: Flags, hits: int) -> Flags:
    """The first so many hits: then nothing more can be paid.

    >>> until_spent(np.array([True, False, True, True]), 2).tolist()
    [True, False, True, False]
    """
    return np.asarray(flags & (np.cumsum(flags) <= hits))


@cache
def _call(hits: int) -> Fraction:
    return largest_call(Budget(epsilon=EPSILON, delta=DELTA), hits, "exact")


@cache
def _sampler(tests: int, hits: int, moved: int) -> SharpSampler:
    test = sharp_width(epsilon=EPSILON, delta=DELTA, tests=tests, hits=hits, misses_share="best").test
    return SharpSampler(sharp_table(order=test.order, price=test.price, miss_price=test.miss_price, steps=moved))
