"""Exact laws of one register: values with P(X > k) = 2^-k, truncated to [least, most], as fractions."""

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise, product

from chary.noise import Enclosure

BITS = 300


def below(k):
    """P(X <= k)."""
    return 1 - Fraction(1, 2**k)


def register(n, least, most):
    """The law of the largest of n values, truncated from below and capped from above."""
    cumulative = [below(k) ** n for k in range(least, most)] + [Fraction(1)]
    masses = [cumulative[0], *(high - low for low, high in pairwise(cumulative))]
    return {least + i: mass for i, mass in enumerate(masses) if mass}


def trajectories(arrivals, least, most, phantoms=0):
    """The law of the register after each batch; the first holds the phantoms, whose number may be 0."""
    law = {(): Fraction(1)}
    for step, count in enumerate(arrivals):
        batch = register(count + (phantoms if step == 0 else 0), least, most)
        law = _extended(law, batch)
    return law


def _extended(law, batch):
    longer = defaultdict(Fraction)
    for (path, mass), (value, chance) in product(law.items(), batch.items()):
        longer[(*path, max((*path[-1:], value)))] += mass * chance
    return longer


def worst(first, second):
    """The largest likelihood ratio in either direction; None where one law has mass and the other none."""
    if first.keys() != second.keys():
        return None
    return max(max(first[t] / second[t], second[t] / first[t]) for t in first)


def within(ratio, epsilon):
    """Whether the ratio is surely at most exp(epsilon)."""
    return ratio is not None and 1 / ratio >= Fraction(Enclosure.exponential(epsilon).bounds(BITS)[1], 1 << BITS)
