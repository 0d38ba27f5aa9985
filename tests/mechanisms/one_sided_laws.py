"""Exact laws of sparse vectors with one-sided noise: transcripts summed over the hidden threshold, in both orders."""

import itertools
from dataclasses import dataclass

import numpy as np

REACH = 900


def geometric(scale, values):
    """Geometric noise at these values, all at least 0."""
    ratio = np.exp(-1 / float(scale))
    return (1 - ratio) * ratio ** np.asarray(values, dtype=float)


@dataclass(frozen=True)
class OneSided:
    """One hidden threshold with its tests; a gap is a question's value less the bar that is tested."""

    threshold_scale: float
    test_scale: float

    @property
    def weights(self):
        """The law of the threshold's noise."""
        return geometric(self.threshold_scale, np.arange(REACH))

    def chances(self, gap, above):
        """That a test comes out so, for each value of the threshold's noise."""
        reached = np.exp(-np.maximum(np.arange(REACH) - gap, 0) / self.test_scale)
        return reached if above else -np.expm1(-np.maximum(np.arange(REACH) - gap, 0) / self.test_scale)

    def chance(self, gaps, above):
        """Of a whole transcript."""
        tests = [self.chances(gap, outcome) for gap, outcome in zip(gaps, above, strict=True)]
        return float((self.weights * np.prod(tests, axis=0)).sum())

    def losses(self, hits, misses, moves, gaps):
        """The extremes of ln P(D)/P(D') over transcripts with at most so many hits and misses; D' has `gap + move`."""
        kinds = list(itertools.product(gaps, moves))
        found = []
        for missed in _chosen(kinds, misses):
            for hit in _chosen(kinds, hits):
                tests = [(gap, move, False) for gap, move in missed] + [(gap, move, True) for gap, move in hit]
                gap, move, above = zip(*tests, strict=True) if tests else ((), (), ())
                sides = [self.chance([g + side * m for g, m in zip(gap, move, strict=True)], above) for side in (0, 1)]
                found.append(np.log(sides[0] / sides[1]))
        return max(found), min(found)

    def transcripts(self, gaps, hits):
        """Every transcript of these questions, ending at the last hit, and its chance."""
        for above in itertools.product((False, True), repeat=len(gaps)):
            ends = [place for place, hit in enumerate(above) if sum(above[: place + 1]) == hits and hit]
            told = above[: ends[0] + 1] if ends else above
            if not any(above[len(told) :]):
                yield told, self.chance(gaps[: len(told)], told)


def _chosen(kinds, most):
    return itertools.chain.from_iterable(
        itertools.combinations_with_replacement(kinds, size) for size in range(most + 1)
    )
