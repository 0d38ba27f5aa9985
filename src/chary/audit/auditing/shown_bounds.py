"""What counts of one event on two neighbours prove about epsilon."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

Floats = NDArray[np.float64]
# What is said to be shown is false at most once in a million audits.
ALPHA = 1e-6


def epsilon_shown(
    here: ArrayLike, there: ArrayLike, runs: tuple[int, int], delta: float = 0, alpha: float = ALPHA
) -> Floats:
    """The smallest epsilon at which transcripts can be (epsilon, delta)-DP that were in an event so often.

    `here` and `there` count how many of `runs` were in the event on either neighbour. With probability 1 - alpha the
    transcripts are (epsilon, delta)-DP for nothing smaller: both chances are bounded at once (Clopper and Pearson
    1934), and it is `ln((p - delta)/q)` of the lower bound here and the upper there; -inf where nothing is shown. The
    event must be chosen without the transcripts that are counted.

    >>> [round(float(epsilon_shown(hits, 100, (1000, 1000))), 2) for hits in (100, 500, 1000)]
    [-0.94, 1.01, 1.86]
    """
    low = lower_chance(here, runs[0], alpha / 2) - delta
    high = upper_chance(there, runs[1], alpha / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(low > 0, np.log(np.maximum(low, 0)) - np.log(high), -np.inf))


def lower_chance(counts: ArrayLike, runs: int, alpha: float) -> Floats:
    """A chance is at least this with probability 1 - alpha, after so many successes."""
    found: Any = np.asarray(counts)
    return np.where(found > 0, beta.ppf(alpha, np.maximum(found, 1), runs - found + 1), 0.0)


def upper_chance(counts: ArrayLike, runs: int, alpha: float) -> Floats:
    """A chance is at most this, likewise.

    >>> float(upper_chance(0, 100, 0.05).round(3)), float(lower_chance(100, 100, 0.05).round(3))
    (0.03, 0.97)
    """
    found: Any = np.asarray(counts)
    return np.where(found < runs, beta.ppf(1 - alpha, found + 1, np.maximum(runs - found, 1)), 1.0)
