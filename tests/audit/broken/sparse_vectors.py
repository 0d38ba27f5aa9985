"""Sparse vectors with one mistake each, as algorithms of somebody's own that claim an epsilon of 1."""

from dataclasses import replace

import numpy as np

from chary import Algorithm
from chary.mechanisms import SparseVectorMachine
from chary.mechanisms.threshold_tests import Crossed
from tests.audit.sparse_variants import WithoutTestNoise, right, without_end

EPSILON = 1


class ReusingTestNoise(SparseVectorMachine):
    """Draws the noise of a test once, for all of them."""

    def step(self, state, values, threshold, source):
        noisy = values + int(self._laws()[1].draw_one(source))
        above = np.flatnonzero(noisy >= threshold + state.shift)[:1]
        tested = int(above[0]) + 1 if len(above) else len(values)
        return replace(state, used=len(above)), Crossed(tested, above.tolist(), None)


def reusing():
    """All tests share one noise."""
    return ReusingTestNoise(right(EPSILON).sizes, 1)


def as_algorithm(machine, half):
    """Of how many rows are in each place, against a bar of 1: the first that is above, and how many in either half."""

    def run(rows, source):
        counts = np.bincount(rows["place"].to_numpy(), minlength=2 * half)
        above = np.array(machine.step(machine.start(source), counts, 1, source)[1].positions)
        return [*above[:1].tolist(), int((above < half).sum()), int((above >= half).sum())]

    return Algorithm("sparse vector", run, epsilon=EPSILON)


# Each with how many places a unit is in, and the transcripts that show the mistake.
VARIANTS = {
    "without noise on the tests": (WithoutTestNoise(right(EPSILON).sizes, 1), 2, 1500),
    "without an end": (without_end(EPSILON), 300, 1500),
    "with one noise for all tests": (reusing(), 2, 4000),
}
