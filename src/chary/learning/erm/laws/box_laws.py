"""The law of a training as a black box: which theorem a model falls under, and what rounding adds to it."""

import math
from fractions import Fraction
from typing import NamedTuple, Self

from chary.accounting.schedules import Law
from chary.errors import InvalidParameter
from chary.learning.erm.laws.descent_laws import descent_law, descent_rounding
from chary.learning.erm.laws.earlier_laws import earlier_descent_law
from chary.learning.erm.laws.law_numbers import TIGHT
from chary.learning.erm.laws.linear_laws import linear_gaussian_law, linear_pure_law, linear_slope_law
from chary.learning.erm.laws.perturbed_laws import gaussian_law, pure_law
from chary.learning.erm.linear import PrivateLinear
from chary.learning.erm.problem import Problem


class Perturbed(NamedTuple):
    """`n` times how far an optimum moves, what comes on top in units of the noise, and what remains for ever.

    `n` times the sensitivity, and the tolerance times n, rise with n: what holds for most rows holds for fewer. The
    slack is half a cell's diagonal, and the distance of the audited from the true optimum.
    """

    moved: float
    slack: float
    base: float

    @classmethod
    def of(cls, problem: Problem, model: PrivateLinear, most_epsilon: int) -> Self:
        """`most_epsilon`: where a unit of the noise is least."""
        moved = float(problem.sensitivity) * problem.size
        audited = float(problem.tolerance / problem.lam) * problem.size
        slack = math.sqrt(problem.features) / 2048 + most_epsilon * audited / moved
        length = 0.0 if model.length is None else float(Fraction(model.length))
        return cls(moved, slack, float(problem.lam) / 2 * length**2)


def box_law(problem: Problem, model: PrivateLinear, most_epsilon: int) -> Law:
    """The law of a model at the most rows that it is for; `InvalidParameter` where none is proven."""
    if model.descends:
        return _descent(problem, model.steps)
    noise = Perturbed.of(problem, model, most_epsilon)
    if problem.loss.bias and model.length is not None:
        return _sloped(problem, noise, pure=model.rho is None)
    made = linear_pure_law if model.rho is None else linear_gaussian_law
    steepest, lam = float(problem.smoothness), float(problem.lam)
    found = made(steepest=steepest, lam=lam, dimension=problem.features, **noise._asdict())
    return min(found, earlier_box_law(problem, model, most_epsilon), key=_tight)


def earlier_box_law(problem: Problem, model: PrivateLinear, most_epsilon: int) -> Law:
    """The law that the same box had before its noise's direction, and descent's distance, were accounted for."""
    if model.descends:
        base = descent_rounding(problem) + float(problem.lam * (problem.length or 0) ** 2) / 2
        return earlier_descent_law(problem, most_steps=model.steps, base=base)
    noise = Perturbed.of(problem, model, most_epsilon)._asdict()
    made = pure_law if model.rho is None else gaussian_law
    return made(smoothness=float(problem.smoothness), dimension=problem.features, **noise)


def _tight(law: Law) -> float:
    return law.error(size=1, epsilon=1, beta=TIGHT)


def _sloped(problem: Problem, noise: Perturbed, *, pure: bool) -> Law:
    """The mean loss with its corners: it is steep nowhere, however sharply the smooth one bends there."""
    steep, base = float(problem.lipschitz), noise.base + float(problem.loss.bias)
    told = {"moved": noise.moved, "slope": steep, "slack": noise.slack, "base": base}
    return linear_slope_law(pure=pure, dimension=problem.features, **told)


def _descent(problem: Problem, steps: int) -> Law:
    if problem.length is None:
        raise InvalidParameter(
            "descent with momentum has no proven law: give the model a length= (or steps=0), or the box a declared law"
        )
    base = descent_rounding(problem) + float(problem.lam * problem.length**2) / 2 + float(problem.loss.bias)
    steep, smooth, norm = (float(bound) for bound in (problem.lipschitz, problem.smoothness, problem.norm))
    return descent_law(
        lipschitz=steep, smoothness=smooth, norm=norm, dimension=problem.features, most_steps=steps, base=base
    )
