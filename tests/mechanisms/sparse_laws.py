"""Exact laws of sparse vectors: the chance of a transcript, summed over the hidden threshold, and its worst ratio."""

import itertools
from dataclasses import dataclass

import numpy as np

from chary.accounting.sparse_vector import reach

REACH = 600
GAPS = (-30, 0, 30)


def pmf(scale, values):
    """Discrete Laplace noise at these values."""
    ratio = np.exp(-1 / float(scale))
    return (1 - ratio) / (1 + ratio) * ratio ** np.abs(values)


@dataclass(frozen=True)
class Round:
    """One hidden threshold with its tests; every test is independent given it.

    A kind of test is (gap, move): its value less the threshold, and how far the neighbour's value lies above its own.
    """

    threshold_scale: float
    test_scale: float

    def chances(self, gap, above):
        """That a test comes out so, for each value of the threshold's noise."""
        noise = np.arange(-REACH, REACH + 1)
        reached = reach(self.test_scale, (noise - gap).astype(float))
        return reached if above else 1 - reached

    def chance(self, gaps, above):
        """Of a whole transcript."""
        weights = pmf(self.threshold_scale, np.arange(-REACH, REACH + 1))
        for gap, outcome in zip(gaps, above, strict=True):
            weights = weights * self.chances(gap, outcome)
        return weights.sum()

    def worst(self, hits, misses, moves, gaps=GAPS):
        """The largest log-ratio of any transcript with at most so many hits and misses of any kinds of tests."""
        kinds = list(itertools.product(gaps, moves))
        base = np.log(pmf(self.threshold_scale, np.arange(-REACH, REACH + 1)))
        missing, hitting = (self._all(kinds, most, above) for most, above in ((misses, False), (hits, True)))
        worst = 0.0
        for miss in missing:
            pairs = [_log_sum(base + miss[side] + hitting[:, side]) for side in (0, 1)]
            worst = max(worst, np.abs(pairs[0] - pairs[1]).max())
        return float(worst)

    def _all(self, kinds, most, above):
        """For every choice of so many tests: log-chances [choice, side, noise]."""
        with np.errstate(divide="ignore"):
            logs = np.log([[self.chances(gap + side * move, above) for side in (0, 1)] for gap, move in kinds])
        chosen = itertools.chain.from_iterable(
            itertools.combinations_with_replacement(range(len(kinds)), size) for size in range(most + 1)
        )
        return np.array([logs[list(choice)].sum(axis=0) for choice in chosen])


def _log_sum(logs):
    top = logs.max(axis=-1, keepdims=True)
    return np.log(np.exp(logs - top).sum(axis=-1)) + top[..., 0]
