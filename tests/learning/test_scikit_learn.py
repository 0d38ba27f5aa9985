"""The estimators as scikit-learn means them: its own checks, and the few that privacy makes impossible."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from chary.errors import InvalidParameter
from chary.learning import (
    Categorical,
    CountingBayes,
    PrivateLogisticRegression,
    PrivatePipeline,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSVC,
    PublicFeatures,
    Span,
    design_matrix,
)
from chary.noise import Seeded

# Hardly any noise.
GIVEN = {"epsilon": 10**15, "lam": "0.01", "radius": 10}
UNSHOWN = "an error shows nothing of a row, not even the type of a value"
CELLS = "any value has a cell and a row of another class is left out, so that no row makes training fail"
# Why a check fails, by estimator; every other check passes.
IMPOSSIBLE = {
    "Logistic": {"check_dtype_object": UNSHOWN},
    "SVC": {"check_dtype_object": UNSHOWN},
    "PrivateRidge": {
        "check_dtype_object": UNSHOWN,
        "check_supervised_y_no_nan": "an infinite label is clipped to the public bound, as every large one",
    },
    "Bayes": {
        "check_dtype_object": CELLS,
        "check_classifiers_regression_target": CELLS,
        "check_supervised_y_no_nan": CELLS,
        "check_estimators_empty_data_messages": "how many rows there are is secret where units come and go",
    },
    "PublicFeatures": {"check_estimator_sparse_tag": "fitting does not look at the rows; transforming refuses them"},
}
IMPOSSIBLE["PrivateQuantileRegressor"] = IMPOSSIBLE["PrivateRidge"]


class Declared:
    """The check's own labels are declared as classes: no estimator may read them off the rows."""

    most = 2

    def fit(self, X, y):  # noqa: N803
        declared, given = self.classes, [] if y is None else np.unique(np.asarray(y))
        try:
            self.classes = given.tolist() if 2 <= len(given) <= self.most else declared
            return super().fit(X, y)
        finally:
            self.classes = declared


class Logistic(Declared, PrivateLogisticRegression):
    pass


class SVC(Declared, PrivateSVC):
    pass


class Bayes(Declared, CountingBayes):
    most = 3


ESTIMATORS = [
    Logistic(classes=[0, 1], **GIVEN),
    SVC(classes=[0, 1], **GIVEN),
    PrivateRidge(label_bound=10, **GIVEN),
    PrivateQuantileRegressor(level="0.5", smoothing=1, label_bound=10, **GIVEN),
    Bayes([Span(0, -2, 2), Span(1, -2, 2)], classes=[0, 1], epsilon=10**6, bins=16),
    PublicFeatures([Span(0, -10, 10)]),
]


@parametrize_with_checks(
    ESTIMATORS, expected_failed_checks=lambda made: IMPOSSIBLE[type(made).__name__], xfail_strict=True
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


FEATURES = [Span("age", 0, 100), Categorical("sex", ["f", "m"])]


def patients(size=600):
    draw = np.random.default_rng(1)
    age, sex = draw.integers(0, 100, size), draw.choice(["f", "m"], size)
    return pd.DataFrame({"age": age, "sex": sex}), (age > 50).astype(int)


def piped(*steps, **given):
    terms = {"epsilon": 10**6, "lam": "0.01", "radius": 2, "classes": [0, 1], "unsafe_noise": Seeded(1)} | given
    model = PrivateLogisticRegression(**terms)
    return PrivatePipeline([("features", PublicFeatures(FEATURES)), *steps, ("model", model)])


@pytest.mark.parametrize(
    "table", [lambda rows: rows, pa.Table.from_pandas, pl.from_pandas, lambda rows: rows.to_dict("list")]
)
def test_a_pipeline_trains_on_what_its_public_steps_make_of_any_table(table):
    rows, ill = patients()
    model = clone(piped()).fit(table(rows), ill)
    alone = piped()[-1].fit(design_matrix(rows, FEATURES), ill)
    assert model[-1].coef_.tolist() == alone.coef_.tolist()
    assert model.predict(table(rows)).tolist() == alone.predict(design_matrix(rows, FEATURES)).tolist()
    assert model.score(table(rows), ill) > 0.9


PUBLIC = FrozenEstimator(StandardScaler().fit([[-1.0, 0, 0], [1.0, 1, 1]]))


@pytest.mark.parametrize("step", [Normalizer(), FunctionTransformer(), "passthrough", None, PUBLIC])
def test_steps_that_learn_nothing_pass(step):
    rows, ill = patients()
    assert piped(("step", step)).fit(rows, ill).score(rows, ill) > 0.8


class Unread:
    """Rows that fail the test when they are looked at."""

    def __getattr__(self, name):
        raise AssertionError("the rows were read")


@pytest.mark.parametrize(
    "step", [StandardScaler(), MinMaxScaler(), PCA(), make_column_transformer((Normalizer(), [0]))]
)
def test_a_step_that_is_fitted_to_the_rows_is_refused_before_they_are_read(step):
    with pytest.raises(InvalidParameter, match="step 'step' is fitted to the rows"):
        piped(("step", step)).fit(Unread(), Unread())


@pytest.mark.parametrize("folds", [2, 5])
def test_every_fold_trains_once_and_every_row_is_in_all_but_one(folds, monkeypatch):
    seen, usual = [], PrivateLogisticRegression.trained
    monkeypatch.setattr(
        PrivateLogisticRegression,
        "trained",
        lambda self, rows, *more: seen.append(len(rows)) or usual(self, rows, *more),
    )
    rows, ill = patients()
    assert cross_val_score(piped(), rows, ill, cv=folds).min() > 0.8
    assert len(seen) == folds
    assert sum(seen) == (folds - 1) * len(rows)


def test_parameters_are_stored_as_they_are_given():
    for made in ESTIMATORS:
        given = made.get_params()
        again = type(made)(**given)
        assert all(getattr(again, name) is value for name, value in given.items())
    for wrong in (PrivateRidge(lam=-1, radius=None, label_bound="x"), CountingBayes("x", classes=None, epsilon=-1)):
        assert clone(wrong).get_params() == wrong.get_params()
