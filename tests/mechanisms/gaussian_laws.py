"""The exact laws of selection with Gaussian noise, by a trapezoid rule over the shared noise, in log space."""

import itertools

import numpy as np
from scipy.special import log_ndtr, logsumexp

NODES = np.linspace(-14, 14, 8001)
WEIGHTS = -(NODES**2) / 2 + np.log((NODES[1] - NODES[0]) / np.sqrt(2 * np.pi))


def log_winner(values, noise):
    """ln P(j wins) for each value, all with noise of this standard deviation."""
    others = [[v - w for k, w in enumerate(values) if k != j] for j, v in enumerate(values)]
    return np.array([logsumexp(WEIGHTS + sum(log_ndtr(NODES + gap / noise) for gap in gaps)) for gaps in others])


def log_stopping(values, threshold, own, other):
    """ln P(the first value that is above is the t-th), for each t, and last that none is."""
    bar = threshold + own * NODES
    below, found = WEIGHTS, []
    for value in values:
        found.append(logsumexp(below + log_ndtr((value - bar) / other)))
        below = below + log_ndtr((bar - value) / other)
    return np.array([*found, logsumexp(below)])


def log_stopping_afresh(values, threshold, own, other):
    """The same if the threshold's noise were drawn again for each value: another mechanism."""
    below = log_ndtr((threshold - np.asarray(values)) / np.hypot(own, other))
    above = log_ndtr((np.asarray(values) - threshold) / np.hypot(own, other))
    before = np.concatenate([[0.0], np.cumsum(below)])
    return np.append(before[:-1] + above, before[-1])


def grid_pairs(length, points, most, *, one_direction=False):
    """All pairs of neighbouring inputs whose values lie on a few points and differ by at most `most` each."""
    for left in itertools.product(points, repeat=length):
        for right in itertools.product(points, repeat=length):
            moves = np.subtract(left, right)
            if np.abs(moves).max() <= most + 1e-12 and not (one_direction and moves.min() < 0 < moves.max()):
                yield left, right


def log_restarting(pattern, values, threshold, own, other):
    """ln P(these values are above and the others are not), the threshold's noise new after each that is."""
    found, begin = 0.0, 0
    for position, above in enumerate(pattern):
        if above:
            found += log_stopping(values[begin : position + 1], threshold, own, other)[position - begin]
            begin = position + 1
    left = values[begin : len(pattern)]
    return found + (log_stopping(left, threshold, own, other)[-1] if left else 0.0)
