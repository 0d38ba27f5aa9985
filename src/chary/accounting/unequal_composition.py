"""Composition of epsilon-DP computations whose epsilons differ, by each classical theorem, [GROW] Theorem 4 among them.

The optimal total (Murtagh and Vadhan) is that of coins of randomized response: each loses epsilon either way. Their
losses lie on the lattice of the epsilons' common measure, or, if that is too fine, on a coarser one to which every
epsilon is rounded up: a coin of a larger epsilon tells at least as much. Figures are upper bounds.
"""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import scipy

from chary.accounting.binomial import Floats, surplus
from chary.accounting.composition import Composition, convex_upper, failing_down, least_renyi, moderate_up
from chary.accounting.rounding import float_up
from chary.errors import InvalidParameter
from chary.numbers import Number, positive

# As many passes over an array of as many places: a fraction of a second.
MOST_CALLS: Final = 2000
PLACES: Final = 2**18


def compose_unequal(*, epsilons: Sequence[Number], delta: Number) -> Composition:
    """All five totals for computations with these epsilons, in any order, each chosen in advance.

    basic: their sum; advanced: Dwork-Rothblum-Vadhan; zcdp: `0.5 S + sqrt(2 S ln(1/delta))` with S the sum of the
    squares ([GROW] Theorem 4); renyi: the best order of the exact log-moments; optimal: exact where at most 131,072
    steps of the epsilons' common measure make their sum, and otherwise after rounding each of them up by 1/131,072 of
    the sum at most.

    Errors: those of `compose`, and `InvalidParameter` for none and for more than 2,000 computations.

    >>> found = compose_unequal(epsilons=[0.1] * 50 + [0.2] * 25, delta=1e-6)
    >>> round(found.basic, 9), round(found.zcdp, 3), round(found.renyi, 3), round(found.optimal, 3)
    (10.0, 7.188, 6.184, 5.873)
    """
    asked = [positive(epsilon, "an epsilon") for epsilon in epsilons]
    if not 1 <= len(asked) <= MOST_CALLS:
        raise InvalidParameter(f"give 1 to {MOST_CALLS:,} epsilons")
    sizes, chance = [moderate_up(epsilon) for epsilon in asked], failing_down(delta)
    squares = math.fsum(size * size for size in sizes)
    spread = math.sqrt(2 * squares * -math.log(chance))
    advanced = spread + math.fsum(size * math.expm1(size) for size in sizes)
    many = surplus(len(sizes))
    return Composition(
        basic=float_up(sum(asked, Fraction(0))),
        advanced=advanced * many,
        zcdp=(spread + squares / 2) * many,
        renyi=least_renyi(sorted(Counter(sizes).items()), chance),
        optimal=unequal_total(asked, chance),
    )


def unequal_total(epsilons: Sequence[Fraction], delta: float) -> float:
    """The least epsilon at which the computations are (epsilon, delta)-DP, rounded up.

    >>> round(unequal_total([Fraction(1, 10), Fraction(1, 5)], 1e-9), 6)
    0.3
    """
    unit, steps = _lattice(epsilons)
    step, masses = float_up(unit), np.ones(1)
    for size in steps:
        up = 1 / (1 + math.exp(-size * step))
        masses = np.pad(masses * (1 - up), (0, size)) + np.pad(masses * up, (size, 0))
    deltas = _deltas(masses[sum(steps) // 2 :], 2 * step) * surplus(4 * len(steps) + len(masses))
    return min(convex_upper(deltas, 2 * step, delta), float_up(sum(epsilons, Fraction(0))))


def _lattice(epsilons: Sequence[Fraction]) -> tuple[Fraction, list[int]]:
    """Half of the common measure, or of a coarser one; and each epsilon in halves, rounded up to an even number."""
    total, parts = sum(epsilons, Fraction(0)), math.lcm(*(epsilon.denominator for epsilon in epsilons))
    common = Fraction(math.gcd(*(int(epsilon * parts) for epsilon in epsilons)), parts)
    measure = max(common, 2 * total / PLACES)
    return measure / 2, [2 * math.ceil(epsilon / measure) for epsilon in epsilons]


def _deltas(masses: Floats, step: float) -> Floats:
    """The delta at the totals 0, step, 2 step, ..., from the chances of these losses.

    With W the sum of the masses of losses l above, each times `exp(total - l)`, delta falls from a total to the next by
    `(1 - exp(-step)) W` of the next and what the mass there gives up; all terms are positive, so nothing cancels.
    """
    fade = math.exp(-step)
    weights = scipy.signal.lfilter([1.0], [1.0, -fade], masses[::-1])[::-1]
    later = np.append(weights[1:], 0.0) * -math.expm1(-step)
    return np.asarray(np.cumsum(later[::-1])[::-1], np.float64)
