"""Laws that boxes had in earlier versions: ledgers hold them, and their schedules go on."""

import math
from decimal import Decimal
from typing import Final

from chary.accounting.numerics import precise
from chary.accounting.schedules import Law
from chary.learning.erm.laws.law_numbers import TIGHT, law_up
from chary.learning.erm.problem import Problem

# What descent was when it had this law: at least so many steps, none longer than 1/(4 M).
LEAST: Final = 64
DAMPED: Final = 4


def earlier_descent_law(problem: Problem, *, most_steps: int, base: float) -> Law:
    """`2 L W (C0 + C1 r + C2 r^2)/(epsilon n)`, `r^2 = ln(2/beta)`, and `4 M W^2/(T (T+1))` (after Lan 2012)."""
    steep, smooth, norm = (float(bound) for bound in (problem.lipschitz, problem.smoothness, problem.norm))
    first, root, rest = _terms(problem.features, min(LEAST, most_steps))
    at = -math.log(float(TIGHT / 2))
    slope = root / (2 * math.sqrt(at)) + rest
    height = math.log(2) + (first + root * math.sqrt(at) / 2) / slope
    rounding = 1 + (math.sqrt(problem.features) + 1) / 2**15
    remains = DAMPED * smooth * norm**2 / (most_steps * (most_steps + 1))
    with precise():
        choices = Decimal(height).exp()
    return law_up(1, 2 * steep * norm * slope * rounding, choices, 1, base + remains)


def _terms(dimension: int, steps: int) -> tuple[float, float, float]:
    """C0, C1, C2 for all numbers of steps from `steps` on."""
    first, root = 2 * math.sqrt(2 * dimension / 3), 4 * math.sqrt(steps) / (steps + 1) + 4 * math.sqrt(2 / 3)
    rest = 4 * math.sqrt(3 / dimension) * steps / ((steps + 1) * math.sqrt((steps + 1) * (2 * steps + 1)))
    return first, root, rest
