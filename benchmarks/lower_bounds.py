"""Mechanisms at one database each: their exact error, and what no unbiased one can beat; as figures and pictures."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import matplotlib
import numpy as np
from numpy.typing import NDArray

from chary.accounting.accuracy import discrete_chance_up, loss_down, published_loss_down, variance_down
from chary.mechanisms import InverseSensitivity, Order, RankDistance, bits_distances, mode_distances
from chary.noise import ExponentialLaw

matplotlib.use("Agg")
import matplotlib.pyplot as plt

Floats = NDArray[np.float64]
SEED = 20_240_229
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
BITS, ONES = 100, 50
COUNTS = np.array([60, 50, 30, 10])
VALUES = np.sort(np.random.default_rng(SEED).normal(50, 15, 201).clip(0, 100).round().astype(np.int64))
GRID = 101


@dataclass(frozen=True)
class Bound:
    """A mechanism at one epsilon: its error, the sharpest lower bound that holds for it and the published one."""

    measured: float
    ours: float
    published: float


def squared(law: Floats, outcomes: Floats, truth: float) -> float:
    """The expected squared error."""
    return float((law * (outcomes - truth) ** 2).sum())


def count_bound(epsilon: float) -> Bound:
    """Variance of discrete Laplace noise; unbiased in the mean."""
    changes = range(1, math.ceil(10 / epsilon))
    measured = 1 / (2 * math.sinh(epsilon / 2) ** 2)
    return Bound(
        measured,
        variance_down(epsilon=epsilon, changes=changes),
        published_loss_down(epsilon=epsilon, changes=changes),
    )


def fraction_bound(epsilon: float) -> Bound:
    """Squared error of a fraction of 100 units, half of which satisfy the condition: noise, cut off at both ends."""
    r, ones = math.exp(-epsilon), np.arange(BITS + 1)
    law = (1 - r) / (1 + r) * r ** np.abs(ones - ONES)
    law[[0, BITS]] = r**ONES / (1 + r), r ** (BITS - ONES) / (1 + r)
    return _fraction(law, epsilon)


def bits_bound(epsilon: float) -> Bound:
    """The same by inverse sensitivity."""
    distances = bits_distances(ONES, BITS)
    law = np.array(ExponentialLaw(distances, InverseSensitivity(str(epsilon)).unit).probabilities())
    return _fraction(law, epsilon)


def _fraction(law: Floats, epsilon: float) -> Bound:
    changes = [Fraction(min(k, ONES), BITS) for k in range(1, BITS + 1)]
    error = squared(law, np.arange(BITS + 1) / BITS, ONES / BITS)
    return Bound(
        error, loss_down(epsilon=epsilon, changes=changes), published_loss_down(epsilon=epsilon, changes=changes)
    )


def mode_bound(epsilon: float) -> Bound:
    """The chance of a wrong mode, units being replaced."""
    return _mode(mode_distances(COUNTS, replace=True), epsilon)


def choose_bound(epsilon: float) -> Bound:
    """The same by the exponential mechanism on the counts."""
    return _mode(mode_distances(COUNTS, replace=False), epsilon)


def _mode(distances: NDArray[np.int64], epsilon: float) -> Bound:
    law = ExponentialLaw(distances, InverseSensitivity(str(epsilon)).unit).probabilities()
    least = 1 - discrete_chance_up(epsilon=epsilon, distances=mode_distances(COUNTS, replace=True).tolist())
    return Bound(1 - law[0], least, least)


def median_bound(epsilon: float) -> Bound:
    """Squared error of the median of 201 rounded normal values on a grid of 101 places, units being replaced."""
    places, counts = np.unique(VALUES, return_counts=True)
    stretches = RankDistance("1/2", replace=True).stretches(Order(places, counts, GRID))
    flat = np.repeat(stretches.distances, stretches.widths)
    law = np.array(ExponentialLaw(flat, InverseSensitivity(str(epsilon)).unit).probabilities())
    middle, truth = len(VALUES) // 2, float(np.median(VALUES))
    ends = np.concatenate([np.zeros(len(VALUES)), VALUES, np.full(len(VALUES), GRID - 1)])
    at = middle + len(VALUES)
    changes = [str(max(ends[at + k] - truth, truth - ends[at - k])) for k in range(1, len(VALUES))]
    return Bound(
        squared(law, np.arange(GRID), truth),
        loss_down(epsilon=epsilon, changes=changes),
        published_loss_down(epsilon=epsilon, changes=changes),
    )


MECHANISMS: dict[str, Callable[[float], Bound]] = {
    "count, variance": count_bound,
    "fraction, squared error": fraction_bound,
    "mean of bits by inverse sensitivity, squared error": bits_bound,
    "mode, chance of error": mode_bound,
    "mode by exponential mechanism, chance of error": choose_bound,
    "median, squared error": median_bound,
}


def draw(name: str, path: Path) -> None:
    """Write a picture of one mechanism's error beside its lower bounds, over epsilon."""
    found = [MECHANISMS[name](epsilon) for epsilon in EPSILONS]
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.loglog(EPSILONS, [bound.measured for bound in found], "o-", label="measured")
    axes.loglog(EPSILONS, [bound.ours for bound in found], "s--", label="lower bound")
    axes.loglog(EPSILONS, [bound.published for bound in found], "x:", label="published lower bound")
    axes.set(title=name, xlabel="epsilon", ylabel=name.split(", ")[-1])
    axes.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)
