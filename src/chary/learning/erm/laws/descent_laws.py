"""The law of descent in a ball, proven in docs/ermg.md for its rate, its weights and its noise."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Final

from chary.accounting.numerics import precise
from chary.accounting.schedules import Law
from chary.learning.erm.descent.ball_descent import (
    AVERAGING,
    CURVED_SHARE,
    FINE_ROWS,
    FINE_SLOPES,
    FINE_WEIGHTS,
    PROGRESS,
)
from chary.learning.erm.laws.law_numbers import TIGHT, law_up
from chary.learning.erm.problem import Problem

# A hundredth apart, or a fifth: neighbours differ by far more than float64 errs, so every machine finds the same.
TRIED: Final = [*(1.2**-step for step in range(26, 90)), *(step / 100 for step in range(1, 100))]
# What is added to a logarithm is stored as a power of e, which has to stay a number: many columns take a smaller t.
MOST_HEIGHT: Final = 700


def descent_law(
    *,
    lipschitz: float,
    smoothness: float,
    norm: float,
    dimension: int,
    most_steps: int | None = None,
    base: float = 0,
    tight: Fraction = TIGHT,
) -> Law:
    """`BallDescent` in a ball of radius W = `norm`: `2.12 L W (s + E)/(t sqrt(d) epsilon n)`, s = ln(1/beta), p = 1.

    `E = d/2 (t'/(1-t) - ln(1-t))`, `t' = (1 + 1/8) t`, for every t below 1; it is the t that is best where beta is
    `tight`. If at most T steps are taken, `3.6 M W^2/((1-t) T^2)` remains.

    >>> law = descent_law(lipschitz=1, smoothness=1, norm=1, dimension=5)
    >>> round(law.error(size=1000, epsilon=1, beta="0.05"), 4)
    0.0173
    """
    s = math.log(tight.denominator) - math.log(tight.numerator)
    low = [t for t in TRIED if descent_height(dimension, t) <= MOST_HEIGHT]
    t = min(low, key=lambda t: (s + descent_height(dimension, t)) / t)
    rounding = 1 + (math.sqrt(dimension) + 1) / 2**15
    factor = 2 * lipschitz * norm * math.sqrt(AVERAGING) * rounding / (t * math.sqrt(dimension))
    remains = 0.0 if most_steps is None else smoothness * norm**2 / (PROGRESS * most_steps**2) / (1 - t)
    with precise():
        choices = Decimal(descent_height(dimension, t)).exp()
    return law_up(1, factor, choices, 1, base + remains)


def descent_height(dimension: int, t: float) -> float:
    """E of the law: what the start, the curvature and the squares of the noise add to s."""
    return dimension / 2 * ((1 + 2 * CURVED_SHARE) * t / (1 - t) - math.log1p(-t))


def descent_rounding(problem: Problem) -> float:
    """What rounding rows, slopes and weights to integers adds to the excess risk of `BallDescent` at most.

    Rows that move by `R sqrt(d) 2^-20` change a loss by the slope times W times that, at both ends. A gradient that is
    off by x changes every step's part of the proof by `2 W x` at most.
    """
    norm, radius = float(problem.norm), float(problem.radius)
    root, lipschitz = math.sqrt(problem.features), float(problem.lipschitz)
    rows = 2 * lipschitz * norm * root / 2**FINE_ROWS
    weights = float(problem.loss.curvature) * radius**2 * root * norm / float(2 ** (FINE_WEIGHTS + 1))
    slopes = lipschitz / float(2 ** (FINE_SLOPES + 1))
    return rows + 2 * norm * (slopes + weights)
