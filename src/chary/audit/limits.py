"""What no attacker can do better against a differentially private release (docs/attacks.md has the proofs)."""

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chary.errors import InvalidParameter
from chary.filters import Budget
from chary.numbers import Number

# exp(700) is still a float, and a limit of 1 is attained long before.
LARGEST = 700


def guess_limit(epsilon: Number, delta: Number = 0) -> float:
    """The largest probability of guessing a fair bit from an (epsilon, delta)-DP release.

    It is (e^epsilon + delta)/(1 + e^epsilon), attained by randomized response and by a count with Laplace noise.

    The bit decides which of two neighbours was asked, both with probability 1/2; all else may be known to the attacker.

    >>> round(guess_limit(1), 4), round(guess_limit(1, 0.1), 4), guess_limit(700)
    (0.7311, 0.758, 1.0)
    """
    size, spare = sizes(epsilon, delta)
    return (1 + spare * math.exp(-size)) / (1 + math.exp(-size))


def value_limit(epsilon: Number, shares: Sequence[float]) -> float:
    """The largest probability of guessing one of several values, of which any two are epsilon-indistinguishable.

    `shares` are the probabilities of the values before the release; they add up to 1. The limit is the largest over m
    of the share of the m likeliest values divided by 1 + (m - 1) e^-epsilon.

    >>> round(value_limit(1, [0.5, 0.5]), 4), value_limit(1, [0.9, 0.1]), round(value_limit(1, [0.25] * 4), 4)
    (0.7311, 0.9, 0.4754)
    """
    size, _ = sizes(epsilon, 0)
    if not shares or min(shares) < 0 or not math.isclose(sum(shares), 1):
        raise InvalidParameter("shares must be probabilities that add up to 1")
    masses = accumulate(sorted(shares, reverse=True))
    return max(mass / (1 + more * math.exp(-size)) for more, mass in enumerate(masses))


def roc_limit(fpr: ArrayLike, epsilon: Number, delta: Number = 0) -> NDArray[np.float64]:
    """The largest true-positive rate at each false-positive rate: the lower of e^epsilon fpr + delta and
    1 - e^-epsilon (1 - delta - fpr), at most 1.

    >>> roc_limit([0, 0.05, 1], 1).round(4).tolist()
    [0.0, 0.1359, 1.0]
    """
    size, spare = sizes(epsilon, delta)
    rates = np.asarray(fpr, dtype=np.float64)
    if np.any(~((rates >= 0) & (rates <= 1))):
        raise InvalidParameter("false-positive rates lie between 0 and 1")
    rising = math.exp(size) * rates + spare
    bending = 1 - math.exp(-size) * np.maximum(0, 1 - spare - rates)
    return np.asarray(np.minimum(rising, bending))


def auc_limit(epsilon: Number, delta: Number = 0) -> float:
    """The largest area under the ROC curve: that under `roc_limit`.

    >>> round(auc_limit(1), 4), auc_limit("1e-9", 0.5)
    (0.7311, 0.875...)
    """
    _, spare = sizes(epsilon, delta)
    top = guess_limit(epsilon, delta)
    bend = 1 - top
    return bend * (spare + top) / 2 + (top - spare) * (top + 1) / 2 + spare


def advantage_limit(epsilon: Number, delta: Number = 0) -> float:
    """The largest difference between the true- and the false-positive rate: twice `guess_limit`, less 1.

    >>> round(advantage_limit(1), 4)
    0.4621
    """
    return 2 * guess_limit(epsilon, delta) - 1


def sizes(epsilon: Number, delta: Number) -> tuple[float, float]:
    """Both as floats, once they have been checked like a budget."""
    size, spare = Budget(epsilon, delta).exact
    if size > LARGEST:
        raise InvalidParameter(f"epsilon must be at most {LARGEST}, where nothing is protected any more")
    return float(size), float(spare)
