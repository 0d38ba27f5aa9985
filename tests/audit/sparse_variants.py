"""Sparse vectors that are known to be broken, each with one mistake: negative controls, in no way part of the package.

All are tuned for one hit of epsilon-DP on questions of sensitivity 1, as the right one is, and take the same `step`.
Which mistakes were published is told by Lyu, Su and Li (2017), section 3.
"""

from dataclasses import replace

import numpy as np

from chary.accounting import one_sided_noise, sparse_noise
from chary.mechanisms import OneSidedMachine, SparseVectorMachine
from chary.mechanisms.threshold_tests import Crossed

MANY = 10**6


class WithoutTestNoise(SparseVectorMachine):
    """Compares exact values with the hidden threshold."""

    def step(self, state, values, threshold, source):
        above = np.flatnonzero(values >= threshold + state.shift)[:1]
        tested = int(above[0]) + 1 if len(above) else len(values)
        return replace(state, used=len(above)), Crossed(tested, above.tolist(), None)


class PublishingTheTestedValue(SparseVectorMachine):
    """Publishes the noisy value that was compared with the threshold."""

    def step(self, state, values, threshold, source):
        noisy = self._laws()[1].apply(values, source)
        above = np.flatnonzero(noisy >= threshold + state.shift)[:1]
        tested = int(above[0]) + 1 if len(above) else len(values)
        return replace(state, used=len(above)), Crossed(tested, above.tolist(), noisy[above].tolist())


def right(epsilon, hits=1):
    """As it should be."""
    return SparseVectorMachine(sparse_noise(epsilon=epsilon, hits=hits), 1)


def right_one_sided(epsilon, hits=1):
    """As it should be, with one-sided noise."""
    return OneSidedMachine(one_sided_noise(epsilon=epsilon, hits=hits, tests=1))


def one_sided_without_end(epsilon):
    """Mistake 3 with one-sided noise."""
    return OneSidedMachine(replace(one_sided_noise(epsilon=epsilon, hits=1, tests=1), hits=MANY))


def one_sided_without_scaling(epsilon, hits):
    """Mistake 4 with one-sided noise."""
    return OneSidedMachine(replace(one_sided_noise(epsilon=epsilon, hits=1, tests=1), hits=hits))


def without_test_noise(epsilon):
    """Mistake 1."""
    return WithoutTestNoise(sparse_noise(epsilon=epsilon, hits=1), 1)


def publishing_the_tested_value(epsilon):
    """Mistake 2."""
    return PublishingTheTestedValue(sparse_noise(epsilon=epsilon, hits=1), 1)


def without_end(epsilon):
    """Mistake 3: goes on after the hit that it was made for."""
    return SparseVectorMachine(replace(sparse_noise(epsilon=epsilon, hits=1), hits=MANY), 1)


def without_scaling(epsilon, hits):
    """Mistake 4: ends after so many hits, with the noise for one."""
    return SparseVectorMachine(replace(sparse_noise(epsilon=epsilon, hits=1), hits=hits), 1)


def transcripts(machine, values, source, runs):
    """What is published in each of many runs, at threshold 0."""
    for _ in range(runs):
        yield machine.step(machine.start(source), np.array(values), 0, source)[1]
