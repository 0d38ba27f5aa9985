"""Exact laws of noisy votes by enumeration, and Renyi divergences, for a few votes and classes."""

import itertools

import numpy as np


def masses(variance, reach=None):
    """The discrete Gaussian law on -reach, ..., reach."""
    reach = reach or int(14 * variance**0.5) + 20
    support = np.arange(-reach, reach + 1)
    weights = np.exp(-(support**2) / (2 * variance))
    return support, weights / weights.sum()


def winner_law(votes, variance):
    """The law of the first largest noisy count."""
    support, mass = masses(variance)
    lowest, highest = min(votes) + support[0], max(votes) + support[-1]
    values = np.arange(lowest, highest + 1)
    laws = np.zeros((len(votes), len(values)))
    for row, count in zip(laws, votes, strict=True):
        row[count + support - lowest] = mass
    upto = np.cumsum(laws, axis=1)
    below = upto - laws
    return np.array(
        [(laws[j] * np.prod(below[:j], axis=0) * np.prod(upto[j + 1 :], axis=0)).sum() for j in range(len(votes))]
    )


def check_law(votes, threshold, variance):
    """The law of the test: (passed, not passed)."""
    support, mass = masses(variance)
    passed = max(votes) + support >= threshold
    return np.array([mass[passed].sum(), mass[~passed].sum()])


def log_moment(first, second, order):
    """`ln E_P (P/Q)^(order - 1)`."""
    with np.errstate(divide="ignore"):
        return float(np.logaddexp.reduce(order * np.log(first) + (1 - order) * np.log(second)))


def moved(votes):
    """All votes with one vote moved."""
    for source, target in itertools.permutations(range(len(votes)), 2):
        if votes[source]:
            yield [count - (j == source) + (j == target) for j, count in enumerate(votes)]
