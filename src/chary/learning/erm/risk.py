"""How far from the optimum a private model may be, as a bound that is known before the data is."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Final

import scipy

from chary.errors import InvalidParameter
from chary.learning.erm.descent.spherical import grid_for
from chary.learning.erm.problem import Problem
from chary.numbers import Number, exact, positive, probability

# A few float operations and SciPy's quantile, upwards. Any lam is private: a grid only costs accuracy.
MARGIN: Final = 1e-9
# How the chance is divided only costs tightness: v hardly varies where there are many columns, lam's part is small.
PENALTY_SHARE: Final = 0.1
VARIANCE_SHARES: Final = (0.05, 0.1, 0.2, 0.4)
TRIED: Final = [Fraction(f"{10 ** (step / 8):.4g}") for step in range(-48, 17)]


def excess_risk_up(problem: Problem, *, epsilon: Number, chance: Number, length: Number = 0) -> float:
    """The excess risk of the perturbed optimum (`delta=0`), exceeded with at most this chance.

    Moved by b from its optimum, the objective rises by `b^T A b / 2` at most, `A = c mean(x x^T) + lam`. Few columns:
    that is at most `smoothness/2 |b|^2`, and |b| is a Gamma(d) number. Many: b is normal with a variance v that is
    chi-squared of d + 1 degrees; of all A of this trace the rise is greatest, in the convex order, where all rows are
    equal, so it is with a chance of p at most above the mean of the worst p of a chi-squared number (docs/ermg.md). v,
    that number, and lam's part each take a part of the chance. A cell's middle and the audited optimum come on top.
    With `length` it is the bound for the mean loss itself, against the best weights that are no longer than this, and
    so is larger by `lam/2 length^2`. Errors: `InvalidParameter`.

    >>> from chary.learning.erm.losses import Logistic
    >>> problem = Problem(Logistic(), radius=Fraction(1), lam=Fraction(1, 100), size=100_000, features=5)
    >>> round(excess_risk_up(problem, epsilon=1, chance="0.05"), 6)
    4.4e-05
    """
    failing, compared = float(probability(chance, "chance")), exact(length, "length")
    if compared < 0:
        raise InvalidParameter("length must be at least 0")
    scale = problem.sensitivity / positive(epsilon, "epsilon")
    off = float(problem.tolerance / problem.lam) + math.sqrt(problem.features) / 2 * float(grid_for(scale))
    noise = float(scale) * math.sqrt(2 * _rise(problem, failing))
    penalty = float(problem.lam * compared**2) / 2 + float(problem.loss.bias if compared else 0)
    # The root of b^T A b is a norm, so what comes on top adds to it.
    return ((noise + math.sqrt(float(problem.smoothness)) * off) ** 2 / 2 + penalty) * (1 + MARGIN)


def _rise(problem: Problem, failing: float) -> float:
    """`v b^T A b / 2` for normal b, exceeded with this chance at most."""
    lam, degrees = float(problem.lam), problem.features
    trace = float(problem.smoothness) - lam

    def bound(variance: float) -> float:
        spread = scipy.stats.chi2.isf(failing * variance, degrees + 1)
        tail = failing * (1 - variance - PENALTY_SHARE)
        worst = scipy.stats.chi2.sf(scipy.stats.chi2.isf(tail, 1), 3) / tail
        return float(spread * (trace * worst + lam * scipy.stats.chi2.isf(failing * PENALTY_SHARE, degrees)) / 2)

    plain = float(problem.smoothness) / 2 * float(scipy.stats.gamma.isf(failing, degrees)) ** 2
    return min(plain, *map(bound, VARIANCE_SHARES))


def choose_lam(problem: Problem, *, epsilon: Number, chance: Number, length: Number) -> Fraction:
    """The regularisation whose `excess_risk_up` for the mean loss is least, of eight a decade from 1e-6 to 100.

    It depends on public numbers only, so it costs nothing; the `lam` of the problem given does not matter.

    >>> from chary.learning.erm.losses import Logistic
    >>> problem = Problem(Logistic(), radius=Fraction(1), lam=Fraction(1), size=100_000, features=5)
    >>> float(choose_lam(problem, epsilon=1, chance="0.05", length=2))
    0.001778
    """
    positive(length, "length")
    found = {}
    for lam in TRIED:
        try:
            found[lam] = excess_risk_up(replace(problem, lam=lam), epsilon=epsilon, chance=chance, length=length)
        except InvalidParameter:
            continue
    return min(found, key=lambda lam: found[lam])
