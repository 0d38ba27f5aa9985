"""Empirical risk minimisation on growing data: models that are trained again as rows arrive (ERMG)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from matplotlib.figure import Figure
from sklearn.base import clone

from chary.accounting.numerics import decimal, precise, rounded_up
from chary.accounting.schedules import Law, ScheduleRuns
from chary.calls import compute, schedules
from chary.charts import check_picture
from chary.core.plan import Plan
from chary.data import NeighborRelation
from chary.errors import InvalidParameter
from chary.learning import linear, losses, optimum, risk_bounds
from chary.learning.estimators import Json
from chary.learning.features import Column, Feature, design_matrix, width
from chary.learning.losses import Floats
from chary.noise import Source
from chary.numbers import Number, checked, failing, positive, set_fields, whole, work_out

# A regularisation that falls while data and budget grow: what noise costs and what lam costs stay in proportion.

# What noise on the optimum costs falls as 1/(lam epsilon n)^2, what lam costs rises with it: both as (epsilon n)^-2/3.
POWER: Final = Fraction(2, 3)


@dataclass(frozen=True)
class FallingLam:
    """The regularisation `lam (at/(epsilon n))^(2/3)`, in addition to a model's own, for n rows and a run's epsilon.

    Both are public, so it costs nothing. `lam` is what it is where epsilon times n is `at`.
    """

    lam: Fraction
    at: Fraction

    @classmethod
    def of(cls, pair: Sequence[Number]) -> Self:
        """From the pair (lam, at); `InvalidParameter` for anything else.

        >>> round(float(FallingLam.of(("0.1", 1000)).added(epsilon="0.5", size=16_000)), 9)
        0.025
        """
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InvalidParameter(
                "falling is a pair: the lam that is added, and the epsilon times rows where it is so"
            )
        return cls(positive(pair[0], "lam"), positive(pair[1], "at"))

    def added(self, *, epsilon: Number, size: int) -> Fraction:
        """What is added to lam, rounded up to 18 digits: the same on every machine."""
        grown = positive(epsilon, "epsilon") * whole(size, "size") / self.at
        with precise():
            return rounded_up(decimal(self.lam) * (-decimal(POWER) * decimal(grown).ln()).exp())

    def scale(self) -> float:
        """`lam at^(2/3)`, which over `(epsilon n)^(2/3)` is what is added."""
        return float(self.lam) * math.pow(self.at, POWER)


def regularised(model: linear.PrivateLinear, falling: FallingLam, share: Number, size: int) -> linear.PrivateLinear:
    """The model with the lam that this many rows and this epsilon have."""
    lam = positive(model.lam, "lam") + falling.added(epsilon=share, size=size)
    made: linear.PrivateLinear = clone(model).set_params(lam=lam)
    return made


def train_falling(
    model: linear.PrivateLinear, falling: FallingLam, share: Number, rows: Floats, targets: Floats, source: Source
) -> Json:
    """What the model learns with the lam that this many rows have."""
    return regularised(model, falling, share, len(rows)).trained(rows, targets, source)


# Empirical risk minimisation on growing data: a model that is trained again as rows arrive (ERMG, [GROW] 3.2.1).

# The accuracy bound counts the audited optimum's tolerance in units of the noise, which are smallest at the largest
# epsilon.
MOST_EPSILON: Final = 1000
# The same where lam falls with epsilon: the tolerance grows as lam falls.
MOST_FALLING: Final = 1
# Earlier accuracy bounds had no numbers for more.
EARLIER_COLUMNS: Final = 10_000


@dataclass(frozen=True)
class TrainingBox(schedules.BlackBox):
    """A private linear model as a black box for a `Rerun`: trained once at whatever epsilon a run has.

    `model` says how: one with `epsilon=` is perturbed, epsilon-DP, for schedules with epsilon= or rho=; one with `rho=`
    is `epsilon^2/2`-zCDP, for schedules with rho=. Its own epsilon or rho does not matter.

    Accuracy bound: the excess of the mean loss over the training rows, clipped as in training, above that of the best
    weights no longer than the model's `length`. Without a `length` it is the excess of the regularised objective. It is
    proven for the perturbed optimum (p = 2; with Gaussian noise, `steps=0`, too) and for descent in a ball (p = 1, with
    `rho=` and `length=`). It holds for epsilon up to 1000 and datasets of up to `rows_at_most` rows. Descent with
    momentum has no proven accuracy bound: it needs a `declared` one, which you assert.

    `falling`, a pair (lam, at): the optimum of a run has `lam (at/(epsilon n))^(2/3)` added to the model's lam, which
    then may be tiny. Its accuracy bound has p = 2/3. It holds for runs whose epsilon times rows is `at` or more, and
    whose epsilon is at most 1. It needs a smooth loss and the model's `length`.

    Errors: `InvalidParameter` for a model with a delta, or with neither a proven nor a declared accuracy bound. The
    same for features, label and number of rows with which it cannot be trained.

    >>> from chary.learning import PrivateLogisticRegression, Span
    >>> model = PrivateLogisticRegression(rho=1, lam="1e-5", radius=1, length=2, steps=500, classes=["no", "yes"])
    >>> box = TrainingBox(model, [Span("age", 0, 100)], "ill")
    >>> [round(box.law.error(size=n, epsilon="0.1", beta="0.05"), 3) for n in (10_000, 100_000)]
    [0.048, 0.005]
    """

    model: linear.PrivateLinear = field(compare=False)
    features: Sequence[Column | Feature]
    label: str
    declared: Law | Sequence[Number] | None = None
    rows_at_most: int = 10_000_000
    falling: Sequence[Number] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, linear.PrivateLinear):
            raise InvalidParameter("bring a model, such as PrivateLogisticRegression(rho=1, length=3, ...)")
        if failing(self.model.delta):
            raise InvalidParameter(
                "a run of a schedule has no delta: give the model rho= in place of epsilon and delta"
            )
        checked(self, rows_at_most=whole)
        set_fields(self, model=clone(self.model))
        self.model.algorithm(features=self.features, label=self.label, size=self.rows_at_most)
        set_fields(self, features=tuple(self.features))
        work_out(self.law)  # refuses a model without one

    @cached_property
    def law(self) -> Law:
        if self.declared is not None:
            return Law.of(self.declared)
        if self._falling is not None:
            return falling_law(self._problem, self.model, self._falling, MOST_FALLING)
        return risk_bounds.box_law(self._problem, self.model, MOST_EPSILON)

    @cached_property
    def _falling(self) -> FallingLam | None:
        return None if self.falling is None else FallingLam.of(self.falling)

    @property
    def laws(self) -> Sequence[Law]:
        newer = self.model.points is not None or isinstance(self.model.loss_function, losses.OwnLoss)
        if newer or self.declared is not None or self.falling is not None or self._width > EARLIER_COLUMNS:
            return [self.law]
        return [self.law, risk_bounds.earlier_box_law(self._problem, self.model, MOST_EPSILON)]

    @property
    def _problem(self) -> optimum.Problem:
        return self.model.problem(self.rows_at_most, self._width)

    @property
    def _width(self) -> int:
        return self.model.trained_width(width(self.features))

    def plan(self, epsilon: Fraction, neighbor_relation: NeighborRelation) -> Plan[Any]:
        most = MOST_EPSILON if self._falling is None else MOST_FALLING
        if epsilon > most:
            raise InvalidParameter(f"a run of this training has an epsilon of at most {most}")
        model = self.at(epsilon)
        made = model.algorithm(features=self.features, label=self.label)
        if (falling := self._falling) is not None:
            trained = partial(train_falling, model, falling, epsilon)
            run = partial(linear.train, model.targets, trained, self.features, self.label, None, None)
            told = {"falling": [str(falling.lam), str(falling.at)]}
            made = replace(made, run=run, parameters={**made.parameters, **told})
        return compute.run_once(compute.RunAlgorithm(made), made)

    def at(self, epsilon: Number, size: int | None = None) -> linear.PrivateLinear:
        """The model that a run with this epsilon trains, not fitted; with `size` rows, a falling lam included."""
        share = positive(epsilon, "epsilon")
        told = {"epsilon": share} if self.model.rho is None else {"rho": share**2 / 2}
        made: linear.PrivateLinear = clone(self.model).set_params(**told)
        return made if self._falling is None or size is None else regularised(made, self._falling, share, size)

    def proven(self, epsilon: Number, size: int) -> bool:
        """Whether the distribution is for a run with this epsilon and this many rows: a falling lam's is for no less
        than `at`."""
        return (
            self._falling is None
            or self.declared is not None
            or positive(epsilon, "epsilon") * size >= self._falling.at
        )

    def classifier(self, result: schedules.ScheduledRun | None) -> linear.PrivateLinear:
        """What a run learnt, fitted; `InvalidParameter` for none, and for one that failed."""
        if not isinstance(result, schedules.ScheduledRun) or result.failed:
            raise InvalidParameter("nothing is learnt yet (or that run failed): run the schedule when it is due")
        return self.at(result.epsilon).restore(result.answer.value)

    def follow(self, schedule: schedules.ScheduleState) -> "Improving":
        """The model that is always the latest of a schedule of this box: `box.follow(run.state)`."""
        return Improving(self, schedule)


@dataclass(frozen=True)
class TrainingRun:
    """One run: the size it was trained at, its epsilon, and what the distribution promises of it.

    All runs of a schedule keep their promises at once, with probability `1 - beta`.
    """

    run: int
    size: int
    epsilon: float
    excess_risk: float


@dataclass(frozen=True)
class Improving:
    """A model that improves while its data grow: each prediction is by the last run of the schedule that did not fail.

    Errors: `InvalidParameter` for a schedule of another box, for rows without a column of the features, and, before the
    first run, for predictions.
    """

    box: TrainingBox
    schedule: schedules.ScheduleState

    def __post_init__(self) -> None:
        known = [law.either(self.box.law) for law in self.box.laws]
        if not isinstance(self.schedule, schedules.ScheduleState) or self.schedule.law not in known:
            told = "box.follow(session.start(Rerun(box, ...)).state)"
            raise InvalidParameter(f"follow a schedule of this box: {told}")

    @property
    def model(self) -> linear.PrivateLinear:
        """The latest fitted model; `InvalidParameter` before the first run."""
        return self.box.classifier(self.schedule.latest)

    def predict(self, rows: Any) -> Any:
        """What the latest model predicts for a table with the columns of the features."""
        return self.model.predict(design_matrix(rows, self.box.features))

    def score(self, rows: Any, labels: Any) -> float:
        """How well: the proportion of right classes, or for numbers the coefficient of determination."""
        return float(self.model.score(design_matrix(rows, self.box.features), np.asarray(labels)))

    def curve(self) -> list[TrainingRun]:
        """All runs that were done and did not fail, oldest first, with what was promised of each."""
        done = [result for result in self.schedule.results if not result.failed]
        return [self._learned(result, self.schedule.runs) for result in done]

    def _learned(self, result: schedules.ScheduledRun, runs: ScheduleRuns) -> TrainingRun:
        promised = math.inf
        if result.size <= self.box.rows_at_most and self.box.proven(result.epsilon, result.size):
            promised = self.schedule.law.error(size=result.size, epsilon=result.epsilon, beta=runs.failure(result.run))
        return TrainingRun(result.run, result.size, float(result.epsilon), promised)


# The accuracy bound of a perturbed optimum whose regularisation falls: p = 2/3, whatever the probability
# (docs/theory/ermg.md).

# What is added to a logarithm is stored as a power of e, which has to stay a number; ten times less is best.
MOST_PENALTY: Final = 400


def falling_law(problem: optimum.Problem, model: linear.PrivateLinear, falling: FallingLam, most_epsilon: int) -> Law:
    """The mean loss's excess over the best weights of the model's `length`, where epsilon n is `falling.at` or more.

    For an epsilon of at most `most_epsilon`, and as many rows as `problem` has or fewer.

    With a constant lam the noise costs `F (s+h)^r/(lam epsilon n)^2` at most, r = 1 for Gaussian noise and 2 for pure.
    With `lam = k (epsilon n)^(-2/3)` and its own cost `lam W^2/2` this is `F/k^2 ((s+h)^r + k^3 W^2/(2F))` over
    `(epsilon n)^(2/3)`. `problem` has the model's own lam; the largest is that at `falling.at`. Errors:
    `InvalidParameter` without a length, for descents, and for losses with corners.
    """
    if model.descends or model.points is not None or model.length is None or problem.loss.bias:
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
        return risk_bounds.law_up(
            POWER, form / k**2, risk_bounds.exp_up(height + math.hypot(at, math.sqrt(penalty)) - at), 3, base
        )
    return risk_bounds.law_up(POWER, form / k**2, risk_bounds.exp_up(height + penalty), Fraction(3, 2), base)


def _noise(least: optimum.Problem, largest: optimum.Problem, *, pure: bool, most_epsilon: int) -> Law:
    """`F (s+h)^r/(epsilon n)^2` where lam is 1, for every lam between those of two problems.

    Gradients are farthest apart where lam is least, and curvature is largest where lam is. The tolerance is convex in
    the root of lam, or falls, so it is at most that at both ends together.
    """
    tolerance = float(least.tolerance + largest.tolerance) * least.size
    far, near = (float(each.loss.apart_up(each.norm, each.radius)) for each in (least, largest))
    slack = math.sqrt(least.features) / 2048 + most_epsilon * tolerance / near
    made = risk_bounds.linear_pure_law if pure else risk_bounds.linear_gaussian_law
    moved = far + 2 * tolerance
    steepest, lam = float(largest.smoothness), float(largest.lam)
    return made(moved=moved, steepest=steepest, lam=lam, dimension=least.features, slack=slack)


# The curve of a model that improves while its data grow, as a picture (PNG, PDF or SVG by its ending).


def draw_curve(
    curve: Sequence[TrainingRun] | Improving, path: Path | str, *, measured: Mapping[str, Sequence[float]] | None = None
) -> None:
    """Left what is promised at each size, with excess risks measured at the same sizes, by name; right the epsilons.

    `curve` is `improving.curve()`, or the improving model itself. What is measured on secret rows is secret: give
    figures of public rows, or of data of your own. Errors: `InvalidParameter` for an empty curve and what is none, for
    as many figures as there are no sizes, for another ending, and for a folder that is not there.
    """
    runs = _runs(curve)
    target, sizes = check_picture(path), [run.size for run in runs]
    lines = dict(measured or {})
    if not sizes or any(len(line) != len(sizes) for line in lines.values()):
        raise InvalidParameter("a curve has at least one run, and each line as many figures as there are runs")
    figure = Figure(figsize=(12, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(sizes, [run.excess_risk for run in runs], "o-", label="promised")
    for name, line in lines.items():
        left.plot(sizes, list(line), "o--", label=name)
    left.set(title="Excess risk", xlabel="rows", yscale="log")
    left.legend()
    right.plot(sizes, [run.epsilon for run in runs], "o", color="tab:blue")
    right.set(title="Epsilon of a run", xlabel="rows", yscale="log")
    figure.savefig(target, dpi=120)


def _runs(curve: Sequence[TrainingRun] | Improving) -> list[TrainingRun]:
    given: object = curve.curve() if isinstance(curve, Improving) else curve
    if not isinstance(given, (list, tuple)) or not all(isinstance(run, TrainingRun) for run in given):
        raise InvalidParameter('draw the curve of an improving model: draw_curve(improving.curve(), "curve.png")')
    return list(given)
