"""The law of a perturbed optimum whose regularisation falls: p = 2/3, whatever the chance (docs/ermg.md)."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Final

from chary.accounting.schedules import Law
from chary.errors import InvalidParameter
from chary.learning.erm.laws.falling_lam import POWER, FallingLam
from chary.learning.erm.laws.law_numbers import law_up
from chary.learning.erm.laws.linear_laws import exp_up, linear_gaussian_law, linear_pure_law
from chary.learning.erm.linear import PrivateLinear
from chary.learning.erm.problem import Problem

# What is added to a logarithm is stored as a power of e, which has to stay a number; ten times less is best.
MOST_PENALTY: Final = 400


def falling_law(problem: Problem, model: PrivateLinear, falling: FallingLam, most_epsilon: int) -> Law:
    """The mean loss's excess over the best weights of the model's `length`, where epsilon n is `falling.at` or more.

    For an epsilon of at most `most_epsilon`, and as many rows as `problem` has or fewer.

    With a constant lam the noise costs `F (s+h)^r/(lam epsilon n)^2` at most, r = 1 for Gaussian noise and 2 for pure.
    With `lam = k (epsilon n)^(-2/3)` and its own cost `lam W^2/2` this is `F/k^2 ((s+h)^r + k^3 W^2/(2F))` over
    `(epsilon n)^(2/3)`. `problem` has the model's own lam; the largest is that at `falling.at`. Errors:
    `InvalidParameter` without a length, for descents, and for losses with corners.
    """
    if model.descends or model.length is None or problem.loss.bias:
        raise InvalidParameter(
            "a falling lam is for optima that get noise (epsilon=, or rho= with steps=0), a length= and a smooth loss"
        )
    largest = replace(problem, lam=problem.lam + falling.lam)
    least = replace(problem, lam=problem.lam + falling.added(epsilon=most_epsilon, size=problem.size))
    noise = _noise(least, largest, pure=model.rho is None, most_epsilon=most_epsilon)
    k, length = falling.scale(), float(Fraction(model.length))
    form, height = float(noise.factor), math.log(float(noise.choices))
    penalty = k**3 * length**2 / (2 * form)
    base = float(problem.lam) / 2 * length**2
    if penalty > MOST_PENALTY:
        raise InvalidParameter("falling adds far more to the loss than noise does: take a smaller lam, or a smaller at")
    if model.rho is None:
        # (s + h)^2 + penalty is (s + h + t)^2 at beta = 1/2, and below it for every smaller beta.
        at = height + math.log(2)
        return law_up(POWER, form / k**2, exp_up(height + math.hypot(at, math.sqrt(penalty)) - at), 3, base)
    return law_up(POWER, form / k**2, exp_up(height + penalty), Fraction(3, 2), base)


def _noise(least: Problem, largest: Problem, *, pure: bool, most_epsilon: int) -> Law:
    """`F (s+h)^r/(epsilon n)^2` where lam is 1, for every lam between those of two problems.

    Gradients are farthest apart where lam is least, and curvature is largest where lam is. The tolerance is convex in
    the root of lam, or falls, so it is at most that at both ends together.
    """
    tolerance = float(least.tolerance + largest.tolerance) * least.size
    far, near = (float(each.loss.apart_up(each.norm, each.radius)) for each in (least, largest))
    slack = math.sqrt(least.features) / 2048 + most_epsilon * tolerance / near
    made = linear_pure_law if pure else linear_gaussian_law
    moved = far + 2 * tolerance
    steepest, lam = float(largest.smoothness), float(largest.lam)
    return made(moved=moved, steepest=steepest, lam=lam, dimension=least.features, slack=slack)
