"""The audited optimum: weights at which the exact gradient is certainly no longer than a public tolerance."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from chary.learning.erm.losses import Floats
from chary.learning.erm.problem import BEYOND, BLOCK, Problem

# Newton's method ends in some ten steps where it ends at all; else gradient descent takes over, which always ends. A
# step of 2**-30 that does not help is lost in rounding.
NEWTON_STEPS: Final = 100
HALVINGS: Final = 30


@dataclass(frozen=True, eq=False)
class Objective:
    """A problem with its rows (n x d, each no longer than the radius) and targets."""

    problem: Problem
    rows: Floats
    targets: Floats

    def gradient(self, weights: Floats) -> Floats:
        """The gradient in float64; it errs by at most `problem.float_error` where weights are short enough."""
        total = np.zeros(len(weights))
        for rows, targets in self._blocks():
            total += self.problem.loss.slopes(rows @ weights, targets) @ rows
        return total / self.problem.size + float(self.problem.lam) * weights

    def hessian(self, weights: Floats) -> Floats:
        """The second derivative, nearly."""
        # A matrix times itself has no negative direction, so `solve` finds one that descends.
        bend = np.sqrt(self.problem.loss.curvatures(self.rows @ weights, self.targets))
        bent = self.rows * bend[:, None]
        found: Floats = bent.T @ bent / self.problem.size + float(self.problem.lam) * np.eye(len(weights))
        return found

    def _blocks(self) -> Iterator[tuple[Floats, Floats]]:
        for start in range(0, len(self.rows), BLOCK):
            yield self.rows[start : start + BLOCK], self.targets[start : start + BLOCK]


def audited_optimum(objective: Objective, newton_steps: int = NEWTON_STEPS) -> Floats:
    """Weights whose exact gradient is no longer than `objective.problem.tolerance`, whatever the rows.

    Newton's method, its steps halved until the gradient shrinks, is tried first; what it finds is taken only if it
    passes the test. Else gradient descent from 0 with the step 1/smoothness passes it: in exact arithmetic it halves
    the distance to the optimum at least every `smoothness / lam` steps, rounding errors e move its limit by e / lam,
    and the tolerance leaves room for that. Its iterates are no longer than twice the optimum and e / lam. So the
    loop ends on every input. How long it takes depends on the rows.
    """
    weights = _newton(objective, newton_steps)
    if passes(objective, weights):
        return weights
    weights, step = np.zeros_like(weights), 1 / float(objective.problem.smoothness)
    while not passes(objective, weights):
        weights -= step * objective.gradient(weights)
    return weights


def passes(objective: Objective, weights: Floats) -> bool:
    """Whether the exact gradient at these weights is certainly no longer than the tolerance."""
    short = float(np.linalg.norm(weights)) <= (BEYOND - 0.5) * float(objective.problem.norm)
    return short and bool(np.linalg.norm(objective.gradient(weights)) <= objective.problem.accepted)


def _newton(objective: Objective, steps: int) -> Floats:
    weights = np.zeros(objective.rows.shape[1])
    gradient = objective.gradient(weights)
    for _ in range(steps):
        if np.linalg.norm(gradient) <= objective.problem.accepted:
            break
        direction = np.asarray(np.linalg.solve(objective.hessian(weights), gradient), dtype=np.float64)
        shorter = _shorter(objective, weights, direction, float(np.linalg.norm(gradient)))
        if shorter is None:
            break
        weights, gradient = shorter
    return weights


def _shorter(objective: Objective, weights: Floats, direction: Floats, length: float) -> tuple[Floats, Floats] | None:
    """The first of a step, half of it, ... after which the gradient is shorter, with that gradient."""
    for halving in range(HALVINGS):
        tried = weights - direction / 2**halving
        gradient = objective.gradient(tried)
        if np.linalg.norm(gradient) < length:
            return tried, gradient
    return None
