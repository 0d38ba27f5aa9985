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
TRIED: Final = [Fraction(f"{10 ** (step / 8):.4g}") for step in range(-48, 17)]


def excess_risk_up(problem: Problem, *, epsilon: Number, chance: Number, length: Number = 0) -> float:
    """The excess risk of the perturbed optimum (`delta=0`), exceeded with at most this chance.

    The objective at the published weights, less its least value, is at most `smoothness / 2 * distance^2`: the optimum
    was audited to eta / lam, the noise is longer than the Gamma(d, scale) quantile with the chance, and a cell's middle
    is at most `sqrt(d) / 2` grid steps away. With `length` it is the bound for the mean loss itself, against the best
    weights that are no longer than this, and so is larger by `lam/2 length^2`. Errors: `InvalidParameter`.

    >>> from chary.learning.erm.losses import Logistic
    >>> problem = Problem(Logistic(), radius=Fraction(1), lam=Fraction(1, 100), size=100_000, features=5)
    >>> round(excess_risk_up(problem, epsilon=1, chance="0.05"), 6)
    4.4e-05
    """
    failing, compared = float(probability(chance, "chance")), exact(length, "length")
    if compared < 0:
        raise InvalidParameter("length must be at least 0")
    scale = problem.sensitivity / positive(epsilon, "epsilon")
    noise = float(scale) * float(scipy.stats.gamma.isf(failing, problem.features))
    rounded = float(problem.tolerance / problem.lam) + math.sqrt(problem.features) / 2 * float(grid_for(scale))
    penalty = float(problem.lam * compared**2) / 2
    return (float(problem.smoothness) / 2 * (noise + rounded) ** 2 + penalty) * (1 + MARGIN)


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
