"""A lower bound on epsilon from samples: what an attacker who tells two neighbours apart proves about a mechanism."""

import math

import numpy as np
from scipy.stats import beta

ALPHA = 1e-6


def epsilon_shown(here, there, alpha=ALPHA):
    """With probability 1 - alpha over the samples, the mechanism is (epsilon, 0)-DP for no smaller epsilon.

    `here` and `there` hold a number for each run on either neighbour. The first halves choose the event "at least t"
    that tells them apart best, the second halves bound its two chances (Clopper and Pearson).
    """
    half = len(here) // 2
    bars = np.unique(np.concatenate([here[:half], there[:half]]))
    chosen = max(bars, key=lambda bar: shown(here[:half], there[:half], bar, alpha))
    return shown(here[half:], there[half:], chosen, alpha)


def shown(here, there, bar, alpha):
    """What the event "at least `bar`" proves, by both bounds together at level alpha."""
    low = _bound(np.count_nonzero(here >= bar), len(here), alpha / 2)
    high = _bound(np.count_nonzero(there >= bar) + 1, len(there), 1 - alpha / 2)
    return math.log(low / high) if low > 0 else -math.inf


def _bound(count, size, chance):
    """The quantile of a beta law that bounds a probability from `count` successes."""
    return float(beta.ppf(chance, count, size - count + 1)) if 0 < count <= size else float(count > size)
