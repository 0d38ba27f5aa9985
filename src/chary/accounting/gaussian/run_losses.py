"""Above threshold with Gaussian noise, one run after another: what the runs lose at most, and the noise that fits."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np

from chary.accounting.calibration import four_digits_up, largest_size
from chary.accounting.gaussian.selection_losses import above_threshold_epsilons_up, halted_epsilon_up
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, positive, whole

# The losses of few tests bend most, so all are computed. Later ones stand a tenth apart, each replaced by the next
# larger, which is above it: some seventy of them reach from a thousand tests to a million.
_ONE_BY_ONE: Final = 1024
_RATIO_OF_LENGTHS: Final = 1.1


def runs_epsilon_up(
    tests: int,
    hits: int,
    *,
    sensitivity: Number,
    threshold_noise: Number,
    query_noise: Number,
    threshold: Number,
    low: Number,
    high: Number,
) -> float:
    """What `hits` runs of above threshold, a new one after each hit, lose together over so many tests (`ExPost`).

    It holds wherever the hits lie: with L(t) the loss of a run of t tests and C a concave function above L, C(0) = 0,
    runs of t_1, ..., t_k tests, k <= hits, lose `sum C(t_i) <= k C(tests / k) <= hits C(tests / hits)`. Between tests
    that are not looked at one by one, L is replaced by its value at the next that is.

    >>> noise = dict(threshold_noise=100, query_noise=173, threshold=500, low=0, high=1000)
    >>> round(runs_epsilon_up(1000, 10, sensitivity=1, **noise), 2)
    1.55
    """
    noise = {"threshold_noise": threshold_noise, "query_noise": query_noise}
    terms = noise | {"sensitivity": sensitivity, "threshold": threshold, "low": low, "high": high}
    count, runs = whole(tests, "tests"), whole(hits, "hits")
    dense = min(count, _ONE_BY_ONE)
    halted, running = above_threshold_epsilons_up(dense, **terms)
    starts, losses = list(range(dense + 1)), [0.0, *np.maximum(halted, running).tolist()]
    for last in _later(dense, count, -(-count // runs)):
        starts.append(dense + 1)
        losses.append(halted_epsilon_up(last + 1, **terms))
        dense = last
    # The interpolation is a few roundings of 1e-16; 1e-12 covers them upwards.
    return runs * _hull(starts, losses, count / runs) * (1 + 1e-12)


def runs_noise(
    tests: int,
    hits: int,
    *,
    epsilon: Number,
    sensitivity: Number,
    threshold: Number,
    low: Number,
    high: Number,
    ratio: Number,
) -> Fraction:
    """The least standard deviation of the threshold's noise with which the runs lose at most epsilon together.

    A test has `ratio` times as much. Four digits, rounded up. Noise for which the loss cannot be computed (see
    `halted_epsilon_up`) is not considered.

    >>> bounds = dict(sensitivity=1, threshold=500, low=0, high=1000, ratio=1.732051)
    >>> float(runs_noise(100, 2, epsilon=1, **bounds))
    49.24
    """
    total, times = positive(epsilon, "epsilon"), positive(ratio, "ratio")
    terms = {"sensitivity": sensitivity, "threshold": threshold, "low": low, "high": high}

    def lost(own: Fraction) -> float:
        return runs_epsilon_up(tests, hits, threshold_noise=own, query_noise=times * own, **terms)

    def fits(precision: float) -> bool:
        try:
            return lost(four_digits_up(1 / precision)) <= total
        except InvalidParameter:
            return False

    widest = positive(exact(high, "high") - exact(low, "low"), "high - low")
    lost(widest)
    most = float(1 / widest)
    while fits(most):
        most *= 2
    return four_digits_up(1 / largest_size(fits, most))


def _later(first: int, last: int, focus: int) -> Iterator[int]:
    """From `first` on ever farther apart up to `last`; close together below `focus`."""
    while first < last:
        after = min(last, int(first * _RATIO_OF_LENGTHS) + 1)
        first = next((point for point in (focus - 1, focus) if first < point < after), after)
        yield first


def _hull(places: list[int], heights: list[float], at: float) -> float:
    """The least concave function above the points (rising, and flat after the last), at one place."""
    corners: list[tuple[int, float]] = []
    for place, height in zip(places, heights, strict=True):
        while len(corners) > 1 and _below(corners[-2], corners[-1], (place, height)):
            corners.pop()
        corners.append((place, height))
    return float(np.interp(at, [place for place, _ in corners], [height for _, height in corners]))


def _below(first: tuple[int, float], middle: tuple[int, float], last: tuple[int, float]) -> bool:
    """Whether the middle point does not rise above the line through the others."""
    (a, low), (b, height), (c, high) = first, middle, last
    return (height - low) * (c - a) <= (high - low) * (b - a)
