"""Empirical risk minimisation on growing data: a model that is trained again as rows arrive (ERMG, [GROW] 3.2.1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
from sklearn.base import clone

from chary.accounting.schedules import Law, ScheduleRuns
from chary.calls.compute import AskAlgorithm, Compute
from chary.calls.schedules import BlackBox, ScheduledRun, ScheduleState
from chary.core.plan import Interaction
from chary.data import Neighbouring
from chary.errors import InvalidParameter
from chary.learning.erm.calls import LinearAlgorithm
from chary.learning.erm.design import design_matrix, width
from chary.learning.erm.laws.box_laws import box_law, earlier_box_law
from chary.learning.erm.laws.falling_lam import FallingLam, falling_trainer, regularised
from chary.learning.erm.laws.falling_laws import falling_law
from chary.learning.erm.linear import PrivateLinear
from chary.learning.erm.problem import Problem
from chary.learning.features import Column, Feature
from chary.numbers import Number, failing, positive, whole

# The law counts the audited optimum's tolerance in units of the noise, which are smallest at the largest epsilon.
MOST_EPSILON: Final = 1000
# The same where lam falls with epsilon: the tolerance grows as lam falls.
MOST_FALLING: Final = 1
# Earlier laws had no numbers for more.
EARLIER_COLUMNS: Final = 10_000


@dataclass(frozen=True)
class TrainingBox(BlackBox):
    """A private linear model as a black box for a `Schedule`: trained once at whatever epsilon a run has.

    `model` says how: one with `epsilon=` is perturbed, epsilon-DP, for schedules with epsilon= or rho=; one with `rho=`
    is `epsilon^2/2`-zCDP, for schedules with rho=. Its own epsilon or rho does not matter.

    Law: the excess of the mean loss over the training rows, clipped as in training, above that of the best weights no
    longer than the model's `length`; without a `length`, the excess of the regularised objective. Proven for the
    perturbed optimum (p = 2; with Gaussian noise, `steps=0`, too) and for descent in a ball (p = 1; `rho=` and
    `length=`), for epsilon up to 1000 and datasets of up to `rows_at_most` rows. Descent with momentum has no proven
    law: it needs a `declared` one, for which you vouch.

    `falling`, a pair (lam, at): the optimum of a run has `lam (at/(epsilon n))^(2/3)` added to the model's lam, which
    then may be tiny. Its law has p = 2/3 and holds for runs whose epsilon times rows is `at` or more, and whose
    epsilon is at most 1; it needs a smooth loss and the model's `length`.

    Errors: `InvalidParameter` for a model with a delta, or with neither a proven nor a declared law, and for features,
    label and number of rows with which it cannot be trained.

    >>> from chary.learning import PrivateLogisticRegression, Span
    >>> model = PrivateLogisticRegression(rho=1, lam="1e-5", radius=1, length=2, steps=500, classes=["no", "yes"])
    >>> box = TrainingBox(model, [Span("age", 0, 100)], "ill")
    >>> [round(box.law.error(size=n, epsilon="0.1", beta="0.05"), 3) for n in (10_000, 100_000)]
    [0.048, 0.005]
    """

    model: PrivateLinear = field(compare=False)
    features: Sequence[Column | Feature]
    label: str
    declared: Law | Sequence[Number] | None = None
    rows_at_most: int = 10_000_000
    falling: Sequence[Number] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, PrivateLinear):
            raise InvalidParameter("bring a model, such as PrivateLogisticRegression(rho=1, length=3, ...)")
        if failing(self.model.delta):
            raise InvalidParameter(
                "a run of a schedule has no delta: give the model rho= in place of epsilon and delta"
            )
        whole(self.rows_at_most, "rows_at_most")
        object.__setattr__(self, "model", clone(self.model))
        self.model.algorithm(features=self.features, label=self.label, size=self.rows_at_most)
        object.__setattr__(self, "features", tuple(self.features))
        self.law  # noqa: B018 - refuses a model without one

    @cached_property
    def law(self) -> Law:
        if self.declared is not None:
            return Law.of(self.declared)
        if self._falling is not None:
            return falling_law(self._problem, self.model, self._falling, MOST_FALLING)
        return box_law(self._problem, self.model, MOST_EPSILON)

    @cached_property
    def _falling(self) -> FallingLam | None:
        return None if self.falling is None else FallingLam.of(self.falling)

    @property
    def laws(self) -> Sequence[Law]:
        if self.declared is not None or self.falling is not None or width(self.features) > EARLIER_COLUMNS:
            return [self.law]
        return [self.law, earlier_box_law(self._problem, self.model, MOST_EPSILON)]

    @property
    def _problem(self) -> Problem:
        return self.model.problem(self.rows_at_most, width(self.features))

    def interaction(self, epsilon: Fraction, neighbouring: Neighbouring) -> Interaction:
        most = MOST_EPSILON if self._falling is None else MOST_FALLING
        if epsilon > most:
            raise InvalidParameter(f"a run of this training has an epsilon of at most {most}")
        model = self.at(epsilon)
        made = model.algorithm(features=self.features, label=self.label)
        if self._falling is not None:
            trainer = falling_trainer(model, self._falling, epsilon)
            made = LinearAlgorithm.of(trainer, self.features, self.label, name=made.name, unit=None, size=None)
        return AskAlgorithm(Compute(made), neighbouring)

    def at(self, epsilon: Number, size: int | None = None) -> PrivateLinear:
        """The model that a run with this epsilon trains, not fitted; with `size` rows, a falling lam included."""
        share = positive(epsilon, "epsilon")
        told = {"epsilon": share} if self.model.rho is None else {"rho": share**2 / 2}
        made: PrivateLinear = clone(self.model).set_params(**told)
        return made if self._falling is None or size is None else regularised(made, self._falling, share, size)

    def proven(self, epsilon: Number, size: int) -> bool:
        """Whether the law is for a run with this epsilon and so many rows: a falling lam's is for no less than `at`."""
        return (
            self._falling is None
            or self.declared is not None
            or positive(epsilon, "epsilon") * size >= self._falling.at
        )

    def classifier(self, result: ScheduledRun | None) -> PrivateLinear:
        """What a run learnt, fitted; `InvalidParameter` for none, and for one that failed."""
        if not isinstance(result, ScheduledRun) or result.failed:
            raise InvalidParameter("nothing is learnt yet (or that run failed): run the schedule when it is due")
        return self.at(result.epsilon).restore(result.answer.value)

    def follow(self, schedule: ScheduleState) -> "Improving":
        """The model that is always the latest of a schedule of this box: `box.follow(run.state)`."""
        return Improving(self, schedule)


@dataclass(frozen=True)
class TrainingRun:
    """One run: the size it was trained at, its epsilon, and what the law promises of it.

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
    schedule: ScheduleState

    def __post_init__(self) -> None:
        known = [law.either(self.box.law) for law in self.box.laws]
        if not isinstance(self.schedule, ScheduleState) or self.schedule.law not in known:
            told = "box.follow(session.start(Schedule(box, ...)).state)"
            raise InvalidParameter(f"follow a schedule of this box: {told}")

    @property
    def model(self) -> PrivateLinear:
        """The latest fitted model; `InvalidParameter` before the first run."""
        return self.box.classifier(self.schedule.latest)

    def predict(self, rows: Any) -> Any:
        """What the latest model predicts for a table with the columns of the features."""
        return self.model.predict(design_matrix(rows, self.box.features))

    def score(self, rows: Any, labels: Any) -> float:
        """How well: the share of right classes, or for numbers the coefficient of determination."""
        return float(self.model.score(design_matrix(rows, self.box.features), np.asarray(labels)))

    def curve(self) -> list[TrainingRun]:
        """All runs that were done and did not fail, oldest first, with what was promised of each."""
        done = [result for result in self.schedule.results if not result.failed]
        return [self._learned(result, self.schedule.runs) for result in done]

    def _learned(self, result: ScheduledRun, runs: ScheduleRuns) -> TrainingRun:
        promised = math.inf
        if result.size <= self.box.rows_at_most and self.box.proven(result.epsilon, result.size):
            promised = self.schedule.law.error(size=result.size, epsilon=result.epsilon, beta=runs.failure(result.run))
        return TrainingRun(result.run, result.size, float(result.epsilon), promised)
