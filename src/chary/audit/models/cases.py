"""People whom a classifier is trained on, and two classifiers: one that memorises and one that is private."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from chary.audit.simulating import source_of
from chary.errors import InvalidParameter
from chary.learning import PrivateLogisticRegression
from chary.numbers import Number, whole

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

# Attackers are never surer of a confidence than this, so that logarithms stay finite.
LEAST = 1e-4
# Rows of numbers in [0, 1], five of which are not 0 in the built-in cases: none of them is clipped.
RADIUS, LAM = 3, "0.01"


@dataclass(frozen=True)
class Cases:
    """One row of numbers in [0, 1] for each person, and a label of 0 or 1. `sensitive` is a column of zeros and ones.

    Errors: `InvalidParameter` for arrays that are not of this kind; it shows no value.
    """

    rows: Floats
    labels: Whole
    sensitive: int = 0

    def __post_init__(self) -> None:
        rows, labels = np.asarray(self.rows), np.asarray(self.labels)
        if rows.ndim != 2 or labels.shape != (len(rows),) or not np.isin(labels, (0, 1)).all():
            raise InvalidParameter("cases need a table of numbers, and one label of 0 or 1 for each row")
        if not np.all((rows >= 0) & (rows <= 1)):
            raise InvalidParameter("the numbers of cases lie between 0 and 1")
        column = whole(self.sensitive, "sensitive", least=0)
        if column >= rows.shape[1] or not np.isin(rows[:, column], (0, 1)).all():
            raise InvalidParameter("sensitive is the position of a column of zeros and ones")
        object.__setattr__(self, "rows", rows.astype(np.float64))
        object.__setattr__(self, "labels", labels.astype(np.int64))

    def split(self, rng: np.random.Generator, sizes: Sequence[int]) -> list["Cases"]:
        """Disjoint random parts of these sizes; `InvalidParameter` if there are too few people."""
        if sum(sizes) > len(self.rows):
            raise InvalidParameter(f"the attack needs {sum(sizes)} people")
        parts = np.split(rng.permutation(len(self.rows))[: sum(sizes)], np.cumsum(sizes)[:-1])
        return [Cases(self.rows[part], self.labels[part], self.sensitive) for part in parts]

    def with_sensitive(self, value: int) -> Floats:
        """The rows as if everybody had this value."""
        rows = self.rows.copy()
        rows[:, self.sensitive] = value
        return rows


def memorising(seed: int) -> Any:
    """A classifier that fits every row it can: a decision tree of any depth."""
    return DecisionTreeClassifier(random_state=seed)


def private(epsilon: Number, delta: Number, rng: np.random.Generator, seed: int | None) -> PrivateLogisticRegression:
    """Logistic regression that is (epsilon, delta)-DP when one row is replaced."""
    source = source_of(rng, seed)
    return PrivateLogisticRegression(
        epsilon=epsilon, delta=delta, lam=LAM, radius=RADIUS, classes=(0, 1), unsafe_noise=source
    )


def confidences(model: Any, rows: Floats, labels: Whole) -> Floats:
    """How sure a trained model is of each label."""
    shown = np.clip(model.predict_proba(rows), LEAST, 1 - LEAST)
    place = np.searchsorted(model.classes_, labels) if hasattr(model, "classes_") else labels
    return np.asarray(shown[np.arange(len(labels)), place])


def built_in_cases(table: pa.Table) -> Cases:
    """Cases of the built-in panel: do people see a doctor three times a year? `sensitive`: are they more ill than most?

    The other columns are age, sex, site and insurance plan.
    """
    ill = table["disea"].to_numpy()
    age, female = table["xage"].to_numpy() / 100, table["female"].to_numpy()
    places = [_one_hot(table[name].to_numpy()) for name in ("site", "plan")]
    rows = np.column_stack([ill > np.median(ill), age.clip(0, 1), female, *places]).astype(np.float64)
    return Cases(rows, (table["mdvis"].to_numpy() >= 3).astype(np.int64))


def _one_hot(values: NDArray[Any]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.equal.outer(values, np.unique(values))
    return found
