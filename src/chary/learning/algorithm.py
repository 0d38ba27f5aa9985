"""Training of a linear model as a private algorithm of a session."""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any, Final, Protocol, Self, runtime_checkable

import numpy as np
import pyarrow as pa

from chary.calls import Algorithm
from chary.data import Neighbors, Reading, Rows
from chary.errors import InvalidParameter
from chary.learning import losses, search
from chary.learning.features import Categorical, Column, Feature, design_matrix, named
from chary.noise import Source, uniform_integers
from chary.numbers import Number, whole

# Names of Arrow's numeric types begin like this; below, those of DuckDB, with all their other names.
NUMERIC: Final = ("int", "uint", "float", "decimal")
_NUMBERS: Final = re.compile(r"boolean|u?(tiny|small|big|huge)?int(eger|\d+)?|float\d*|double|decimal.*")


class Trainer(Protocol):
    """A linear model: `PrivateLogisticRegression`, `PrivateSVC`, `PrivateRidge`."""

    @property
    def epsilon(self) -> Number | None: ...

    @property
    def delta(self) -> Number: ...

    @property
    def rho(self) -> Number | None: ...

    def targets(self, labels: Any) -> losses.Floats:
        """Labels as targets of the loss, NaN for what is none."""
        ...

    def trained(self, rows: losses.Floats, targets: losses.Floats, source: Source) -> dict[str, Any]:
        """What is learnt, in JSON."""
        ...

    def body(self) -> dict[str, Any]:
        """Its public parameters, in JSON."""
        ...


@runtime_checkable
class Classifier(Protocol):
    """A linear model whose labels are listed."""

    classes: Sequence[Hashable]


@dataclass(frozen=True)
class LinearAlgorithm(Algorithm):
    """Training as a call of a session, (epsilon, delta)-DP or rho-zCDP, as the model, under the session's relation.

    How much a row counts for depends on the number of rows, so that must be public. It is under `replace` where each
    row is a unit of its own. Otherwise declare `size`: as many rows are trained on, whatever there are. Of each
    `unit`, the session's column of units, one row is drawn; of more rows than `size`, so many at random; fewer are
    filled up with rows of zeros. One unit more or less is then one row replaced.

    No row makes it fail: what is no number counts as 0, a row without one of the labels as zeros.

    Errors: `InvalidParameter`, before anything is charged, in a session whose relation or unit do not allow it, and for
    classes or categories none of which can occur in a column of its type: yes and no in a column of a CSV that is
    declared BOOLEAN are Booleans; and for texts and dates where a feature needs numbers.
    """

    unit: str | None = None
    rows_declared: int | None = None
    listed: Mapping[str, Sequence[Hashable]] = field(default_factory=dict)
    numeric: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        model: Trainer,
        features: Sequence[Column | Feature],
        label: str,
        *,
        name: str,
        unit: str | None,
        size: int | None,
    ) -> Self:
        """Use `PrivateLogisticRegression(...).algorithm(...)`."""
        names = named(features)
        if not isinstance(label, str):
            raise InvalidParameter('name the column to predict: label="ill"')
        if label in names:
            raise InvalidParameter(f"the label {label!r} is one of the columns it would be predicted from")
        columns = dict.fromkeys([*map(str, names), label, *([] if unit is None else [unit])])
        described = [feature.body() if isinstance(feature, Feature) else feature for feature in features]
        size = None if size is None else whole(size, "size")
        told = {"features": described, "label": label, "unit": unit, "size": size}
        run = partial(_train, model, features, label, unit, size)
        return cls(
            name,
            run,
            model.epsilon,
            model.delta,
            list(columns),
            model.body() | told,
            rho=model.rho,
            unit=unit,
            rows_declared=size,
            listed=_listed(model, features, label),
            numeric=_numeric(features),
        )

    def prepare(self, rows: Rows) -> Reading:
        neighbors, unit = rows.neighbor_relation.neighbors, rows.neighbor_relation.unit
        if neighbors is Neighbors.BOUNDED_CHANGE:
            raise InvalidParameter("a series of counts has no rows to train on")
        if unit != self.unit:
            raise InvalidParameter(f"the session's units are those of {unit!r}: say unit={unit!r}")
        if self.rows_declared is None and (neighbors is not Neighbors.REPLACE or unit is not None):
            raise InvalidParameter("the number of units is no public number here: declare size=, how many to train on")
        plan = super().prepare(rows)
        for column, values in self.listed.items():
            _can_occur(column, rows.schema[column], values)
        for column in self.numeric:
            _has_numbers(column, rows.schema[column])
        return plan


def _listed(model: Trainer, features: Sequence[Column | Feature], label: str) -> dict[str, Sequence[Hashable]]:
    """The columns whose values are listed, with these."""
    found = {str(feature.column): feature.values for feature in features if isinstance(feature, Categorical)}
    return found | ({label: model.classes} if isinstance(model, Classifier) else {})


def _numeric(features: Sequence[Column | Feature]) -> list[str]:
    """The columns that features read as numbers."""
    named_alone = (feature for feature in features if not isinstance(feature, Categorical))
    return [str(feature.column if isinstance(feature, Feature) else feature) for feature in named_alone]


def _has_numbers(column: str, kind: str) -> None:
    """Refuse a column that is all zeros to a feature of numbers."""
    if _NUMBERS.fullmatch(kind) is None:
        raise InvalidParameter(
            f"{column!r} is of type {kind}, and the feature needs numbers: list its values with "
            f"Categorical({column!r}, [...]), or bring a column of numbers"
        )


def _can_occur(column: str, kind: str, values: Sequence[Hashable]) -> None:
    """Refuse values none of which a column of this type can hold, for then every row would count as zeros."""
    if kind == "string":
        possible = any(isinstance(value, str) for value in values)
    elif kind == "boolean":
        possible = any(value in (False, True) for value in values)
    else:
        possible = not kind.startswith(NUMERIC) or any(isinstance(value, Real | Decimal) for value in values)
    if not possible:
        told = ", ".join(map(repr, values))
        raise InvalidParameter(f"{column!r} is of type {kind}, so none of the values {told} can occur: list others")


def _train(
    model: Trainer,
    features: Sequence[Column | Feature],
    label: str,
    unit: str | None,
    size: int | None,
    rows: pa.Table,
    source: Source,
    /,
    **_: Any,
) -> dict[str, Any]:
    """The weights; a dataset without rows is trained on as one row of zeros."""
    kept = sample(search.one_row_each(rows, unit, source), size, source)
    short = max(1, size or 0) - len(kept)
    inputs = np.pad(design_matrix(kept, features), ((0, max(0, short)), (0, 0)))
    targets = np.pad(model.targets(kept[label]), (0, max(0, short)), constant_values=np.nan)
    return model.trained(inputs, targets, source)


def sample(rows: pa.Table, size: int | None, source: Source) -> pa.Table:
    """At most `size` rows, drawn at random: those with the least random keys, so that one row more displaces one.

    >>> from chary.noise import OperatingSystem
    >>> sample(pa.table({"age": [1, 2, 3]}), 2, OperatingSystem()).num_rows
    2
    """
    if size is None:
        return rows
    keys = uniform_integers(source, search.KEYS, len(rows))
    return rows.take(np.sort(np.argsort(keys, kind="stable")[:size]))
