"""What the estimators refuse, without showing a row or a label."""

import math

import numpy as np
import pytest

from chary.errors import InvalidParameter
from tests.session.kit import error_texts

from .estimators_kit import ALL, labels_for, logistic, ridge, rows_of, svc

SECRET = 987654321.5
GOOD = rows_of()[0]
BAD_ROWS = {
    "NaN": np.where(np.arange(1800).reshape(600, 3) == 7, np.nan, SECRET),
    "infinite": np.where(np.arange(1800).reshape(600, 3) == 7, np.inf, SECRET),
    "text": np.full((600, 3), str(SECRET), dtype=object) + "x",
    "flat": np.full(600, SECRET),
    "empty": np.empty((0, 3)),
    "no columns": np.empty((600, 0)),
    "too few": np.full((599, 3), SECRET),
}


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("rows", BAD_ROWS)
def test_bad_rows_are_refused_without_showing_them(make, rows):
    with pytest.raises(ValueError, match=r"X |y ") as caught:
        make().fit(BAD_ROWS[rows], labels_for(make))
    assert isinstance(caught.value, InvalidParameter)
    assert not any(shown in str(caught.value) for shown in ("98765", "nan", "inf,"))


@pytest.mark.parametrize(
    "labels",
    [["yes"] * 599 + [SECRET], ["yes"] * 599 + [None], ["yes"] * 599, [["yes"]] * 600, ["yes"] * 599 + ["SECRETNAME"]],
)
@pytest.mark.parametrize("make", ALL)
def test_bad_labels_are_refused_without_showing_them(make, labels):
    with pytest.raises(InvalidParameter) as caught:
        make().fit(GOOD, labels)
    assert "98765" not in error_texts(caught.value).split("InvalidParameter")[-1]
    assert "SECRETNAME" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        *({"epsilon": value} for value in (0, -1, "inf", math.nan, None)),
        *({"delta": value} for value in (-1, 1, 2, math.nan)),
        *({"lam": value} for value in (0, -1, "1e-14")),
        *({"radius": value} for value in (0, -1, None)),
        *({"steps": value} for value in (0, 1.5)),
    ],
)
@pytest.mark.parametrize("make", ALL)
def test_bad_parameters_are_refused_by_training_and_by_calls(make, given):
    model = make(**given)
    for refused in (
        lambda: model.fit(GOOD, labels_for(make)),
        lambda: model.algorithm(features=["a"], label="b", size=600),
    ):
        with pytest.raises(InvalidParameter):
            refused()


def test_bad_classes_losses_and_bounds_are_refused():
    for classes in ([], ["no"], ["no", "no"], ["a", "b", "c"], [["a"], ["b"]]):
        with pytest.raises(InvalidParameter, match="classes"):
            logistic(classes=classes).check()
    with pytest.raises(InvalidParameter, match="smoothed_hinge"):
        svc(loss="hinge").check()
    with pytest.raises(InvalidParameter, match="label_bound"):
        ridge(label_bound=0).check()


def test_parameters_set_later_are_checked_before_training():
    with pytest.raises(InvalidParameter, match="epsilon"):
        logistic().set_params(epsilon=0).fit(GOOD, labels_for(logistic))
