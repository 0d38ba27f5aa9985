"""Noise by brute force: tables of floats or exact balls, by ways that know nothing of the formulas under test."""

import math
from fractions import Fraction

import flint
import numpy as np

from tests.accounting.enclosures import number


def laplace_table(scale, reach):
    """`P(k)` for |k| <= reach, and the law's name for what is left out: nothing that counts."""
    return _table(np.exp(-np.abs(np.arange(-reach, reach + 1)) / float(scale)))


def gaussian_table(sigma_squared, reach):
    return _table(np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * float(sigma_squared))))


def _table(weights):
    return weights / weights.sum()


def gaussian_sum(sigma_squared, first, last):
    """The sum of `exp(-k^2/(2 sigma_squared))` from first to last, relative to its first term, as a ball."""
    variance = Fraction(sigma_squared)
    total = flint.arb(0)
    for k in range(first, last + 1):
        total += (-number(Fraction(k * k - first * first) / (2 * variance))).exp()
    return total


def laplace_hit(scale, bar, value, truth):
    """`P(V >= value | V >= bar)` by theory 9.1, case by case, in floats."""
    r = math.exp(-1 / scale)
    if truth < bar:
        return r ** (value - bar)
    if truth < value:
        return r ** (value - truth) / (1 + r - r ** (1 + truth - bar))
    return (1 + r - r ** (1 - value + truth)) / (1 + r - r ** (1 - bar + truth))


def conditional(table, pieces, truth):
    """The law of truth + noise given that it is in the pieces: {value: probability}."""
    reach = len(table) // 2
    kept = {
        truth + k: float(table[k + reach])
        for k in range(-reach, reach + 1)
        if any((a is None or a <= truth + k) and (b is None or truth + k <= b) for a, b in pieces)
    }
    total = sum(kept.values())
    return {value: p / total for value, p in kept.items()}
