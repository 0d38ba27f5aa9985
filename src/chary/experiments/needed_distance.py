"""How far from its bar every value must lie for all answers of a sparse vector to be right, run by run."""

import numpy as np

from chary.mechanisms import Laplace
from chary.mechanisms.threshold_tests import Geometric, OneSidedMachine, SparseVectorMachine
from chary.noise import SMALLEST_SCALE, Seeded

_BAR = 10**6
Machine = SparseVectorMachine | OneSidedMachine


def needed(made: Machine, tests: int, seed: int) -> int:
    """The least distance from the bar at which all answers of one run are right, searched by runs with the same noise.

    All values lie one step more below the bar, but the last ones, as many as may hit, which lie so far above it.

    >>> from chary.accounting import sparse_noise
    >>> made = SparseVectorMachine(sparse_noise(epsilon=1, hits=1), 1)
    >>> needed(made, 100, seed=1) == needed(made, 100, seed=1) < 100
    True
    """
    hits = made.sizes.hits
    last = np.arange(tests) >= tests - hits

    def right(distance: int) -> bool:
        source = Seeded(seed)
        values = _BAR + np.where(last, distance, -distance - 1)
        _, crossed = made.step(made.start(source), values, _BAR, source)
        return crossed.positions == list(range(tests - hits, tests))

    low, high = 0, max(1, _told_by_noise(made, tests, seed))
    if high > 1 and not right(high - 1):
        low = high - 1
    while not right(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if right(middle) else (middle, high)
    return high


def _told_by_noise(made: Machine, tests: int, seed: int) -> int:
    """The same by the noise alone, where the threshold is not drawn again: where the search begins."""
    source, hits = Seeded(seed), made.sizes.hits
    shift, noisy = made.start(source).shift, _noise(made).apply(np.zeros(tests, np.int64), source)
    if isinstance(made, OneSidedMachine):
        shift += made.sizes.shift
    return int(max(noisy[:-hits].max(initial=0) - shift, shift - noisy[-hits:].min()))


def _noise(made: Machine) -> Laplace | Geometric:
    """That of a test."""
    if isinstance(made, OneSidedMachine):
        return Geometric(max(SMALLEST_SCALE, made.sizes.test))
    return Laplace(max(SMALLEST_SCALE, made.sizes.scaled(made.sensitivity).test), made.sensitivity)
