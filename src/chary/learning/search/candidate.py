"""One private training run: split the units by coins, train on one part, count right answers on the other."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from operator import eq
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.base import clone

from chary.calls import Algorithm
from chary.data import Neighbouring, Relation
from chary.errors import InvalidParameter
from chary.learning.features import Cells, Column, listed
from chary.mechanisms import Laplace
from chary.noise import Enclosure, Source, bernoulli, uniform_integers
from chary.numbers import Number, exact, natural_number, positive, probability

# The most that `uniform_integers` draws from: two of n keys are equal with a chance below n**2 / 2**63. An equal pair
# would be ordered by its place, which costs evenness and no privacy.
KEYS = 2**62


class PrivateLearner(Protocol):
    """A scikit-learn classifier (`get_params`, `set_params`) of Arrow tables whose training is private.

    It has the parameters `epsilon`, `relation` and `source`. Guarantee needed of it: what `fit` learns, raising
    included, is epsilon-DP under the relation when each unit has one row, with all randomness from the source; a row's
    prediction depends on what was learnt and on that row, not on the rows beside it. `CountingBayes` is one.
    """

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns it reads, apart from the labels."""
        ...

    def fit(self, rows: Any, labels: Any, /) -> Any:
        """Train."""
        ...

    def predict(self, rows: Any, /) -> NDArray[Any]:
        """One label for each row."""
        ...

    def state(self) -> dict[str, Any]:
        """What was learnt, in JSON."""
        ...

    def restore(self, state: dict[str, Any], /) -> Any:
        """Take over what a learner with the same parameters learnt."""
        ...

    def body(self) -> dict[str, Any]:
        """Its public parameters, in JSON."""
        ...


def _quiet() -> None:
    """Nobody waits for it."""


@dataclass(frozen=True)
class Candidate:
    """A learner whose hyper-parameters are set, as an `Algorithm` that returns [score, what was learnt].

    The learner gets the candidate's epsilon and relation, whatever it had.

    Guarantee: epsilon-DP under the neighbouring relation. One row of each unit is drawn, and a coin for each unit says
    whether it validates or trains. All other units have the same draws with and without a unit, so given these the
    neighbours differ in one row of one part. In the training part: the model is epsilon-DP by the learner's guarantee,
    and the score is a randomized function of the model and of equal rows. In the validation part: the model has one
    law, and given the model the score is epsilon-DP. The coin has the same law for every unit (theory 1.1, mixture).

    The score is the number of right answers beyond a share of `baseline`, right (1 - baseline) - wrong baseline, with
    discrete Laplace noise. How many units validate is random; that moves the score less the closer `baseline` is to the
    accuracy (0 counts right answers, 1 counts wrong ones).

    Errors: `InvalidParameter` for a baseline outside [0, 1], a share outside (0, 1), a learner that reads the label, or
    a series of counts.
    """

    learner: PrivateLearner
    name: str
    label: str
    neighbouring: Neighbouring
    epsilon: Number
    validation: Number
    baseline: Number

    def __post_init__(self) -> None:
        positive(self.epsilon, "epsilon")
        probability(self.validation, "validation")
        if not 0 <= exact(self.baseline, "baseline") <= 1:
            raise InvalidParameter("baseline must lie between 0 and 1")
        if self.neighbouring.relation is Relation.BOUNDED_CHANGE:
            raise InvalidParameter("a series of counts has no privacy units to train on")
        if self.label in self.learner.columns:
            raise InvalidParameter(f"the label {self.label!r} is one of the columns it would be predicted from")
        self.noise  # noqa: B018 - refuses noise out of range

    @property
    def noise(self) -> Laplace:
        """The noise of the score, in steps of one over the baseline's denominator."""
        right, wrong = self._gains
        replaced = self.neighbouring.relation is Relation.REPLACE
        return Laplace.for_epsilon(self.epsilon, sensitivity=right - wrong if replaced else max(right, -wrong))

    def algorithm(self, done: Callable[[], None] = _quiet) -> Algorithm:
        """It as a session runs it; `done` is called after each run."""

        def run(rows: pa.Table, source: Source, **_: Any) -> list[Any]:
            try:
                return self.run(rows, source)
            finally:
                done()

        unit = self.neighbouring.unit
        columns = dict.fromkeys([*map(str, self.learner.columns), self.label, *([] if unit is None else [unit])])
        return Algorithm(self.name, run, self.epsilon, columns=list(columns), parameters=self.body())

    def body(self) -> dict[str, Any]:
        """What identifies it, in JSON."""
        split = {"label": self.label, "validation": str(self.validation), "baseline": str(self.baseline)}
        return self.learner.body() | split

    def run(self, rows: pa.Table, source: Source) -> list[Any]:
        """The score and what was learnt. Warnings are silenced, since they tell about the rows."""
        kept = one_row_each(rows, self.neighbouring.unit, source)
        validates = bernoulli(source, Enclosure.rational(self.validation), len(kept))
        trained, judged = kept.filter(~validates), kept.filter(validates)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = self._private(source)
            model.fit(trained.drop_columns(self.label), trained[self.label])
            predicted = np.asarray(model.predict(judged))
        if predicted.shape != (len(judged),):
            raise InvalidParameter("a learner predicts one label for each row")
        correct = sum(map(eq, predicted.tolist(), listed(judged[self.label])))
        return [self._noisy(correct, len(judged), source), model.state()]

    def restored(self, state: dict[str, Any]) -> Any:
        """The learner with what was learnt."""
        return self._private(None).restore(state)

    def _private(self, source: Source | None) -> Any:
        """A fresh learner of this epsilon, under this relation."""
        imposed = {"epsilon": self.epsilon, "relation": str(self.neighbouring.relation), "source": source}
        return clone(self.learner).set_params(**imposed)

    def _noisy(self, correct: int, judged: int, source: Source) -> int | float:
        """The score with its noise."""
        right, wrong = self._gains
        steps = correct * right + (judged - correct) * wrong
        return natural_number(Fraction(self.noise.apply_one(steps, source), right - wrong))

    @property
    def _gains(self) -> tuple[int, int]:
        """What a right and a wrong answer add to the score, in steps."""
        baseline = exact(self.baseline, "baseline")
        return baseline.denominator - baseline.numerator, -baseline.numerator


def one_row_each(rows: pa.Table, unit: str | None, source: Source) -> pa.Table:
    """One row of each unit, drawn at random; all rows when each is a unit of its own.

    A unit's row is drawn by random keys of its own rows, so with and without another unit it has the same law. Rows
    whose unit is NULL belong to nobody and are left out; 0 and -0 are one unit.

    >>> from chary.noise import OperatingSystem
    >>> visits = pa.table({"patient": ["ann", "bob", "ann", None], "age": [1, 2, 3, 4]})
    >>> sorted(one_row_each(visits, "patient", OperatingSystem())["patient"].to_pylist())
    ['ann', 'bob']
    """
    if unit is None:
        return rows
    owned = rows.filter(rows[unit].is_valid())
    column = owned[unit].combine_chunks()
    if pa.types.is_floating(column.type):
        column = pc.add(column, 0.0)
    units: Cells = column.dictionary_encode().indices.to_numpy()
    order = np.lexsort((uniform_integers(source, KEYS, len(units)), units))
    first = np.diff(units[order], prepend=-1) != 0
    return owned.take(order[first])
