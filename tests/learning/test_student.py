"""Students, splits and reports."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from chary.errors import InvalidParameter
from chary.learning import LabelReport, digits, label_accuracy, split, train_student

CLASSES = ("no", "yes")


def student(labels, points=None, **options):
    points = [[float(k)] for k in range(len(labels))] if points is None else points
    return train_student(points, labels, estimator=GaussianNB(), classes=CLASSES, **options)


def test_a_student_learns_digits_from_true_labels():
    data = digits()
    taught = train_student(data.points, data.truth, estimator=LogisticRegression(), classes=range(10))
    assert taught.accuracy(data.test_rows, data.test_labels) > 0.85


def test_labels_of_one_class_or_none_make_a_constant_student():
    assert student(["yes", "yes"]).predict([[5.0], [6.0]]) == ["yes", "yes"]
    assert student([], np.empty((0, 1))).predict([[5.0]]) == ["no"]
    assert student([], np.empty((0, 1)), default="yes").choose([[5.0]]) == [1]


def test_accuracy_is_the_share_of_right_predictions():
    taught = student(["no", "no", "yes", "yes"], [[0.0], [0.1], [5.0], [5.1]])
    assert taught.accuracy([[0.0], [5.0], [5.0], [5.0]], ["no", "yes", "yes", "no"]) == 0.75


@pytest.mark.parametrize("labels", [["no", "maybe"], ["no"], [["no"], ["yes"]], ["no", np.nan], ["no", None]])
def test_labels_that_do_not_fit(labels):
    with pytest.raises(InvalidParameter):
        student(labels, [[0.0], [1.0]])


class Picky(GaussianNB):
    """Refuses to learn from rows above a level, or to tell about them."""

    def __init__(self, learns=10.0, tells=10.0):
        super().__init__()
        self.learns, self.tells = learns, tells

    def fit(self, rows, labels):
        if rows.max() > self.learns:
            raise RuntimeError("no")
        return super().fit(rows, labels)

    def predict(self, points):
        if points.max() > self.tells:
            raise RuntimeError("no")
        return super().predict(points)


def test_an_estimator_that_fails_on_the_labels_makes_a_constant_student():
    given = {"estimator": Picky(learns=3.0), "classes": CLASSES}
    taught = train_student([[0.0], [4.0], [5.0]], ["no", "yes", "yes"], **given)
    assert taught.predict([[0.0], [5.0]]) == ["yes", "yes"]


@pytest.mark.parametrize("points", [[[0.0], [np.nan]], [[0.0], [np.inf]], [[0.0], ["x"]], [0.0, 1.0], [[0.0], [11.0]]])
def test_points_that_the_estimator_does_not_accept(points):
    with pytest.raises(InvalidParameter):
        train_student(points, ["no", "yes"], estimator=Picky(), classes=CLASSES)
    with pytest.raises(InvalidParameter):
        train_student([[0.0]], ["no"], estimator=Picky(), classes=CLASSES, unlabelled=points)


def test_a_test_set_must_fit():
    taught = student(["no", "yes"])
    for points, labels in (([[0.0]], ["no", "yes"]), (np.empty((0, 1)), []), ([[0.0]], ["maybe"])):
        with pytest.raises(InvalidParameter):
            taught.accuracy(points, labels)


def test_a_split_uses_every_row_once():
    rows = np.arange(20.0)[:, None]
    parts = split(rows, np.arange(20), points=5, test=6, seed=3)
    together = np.concatenate([parts.rows, parts.points, parts.test_rows])[:, 0]
    assert sorted(together.tolist()) == list(range(20))
    assert (parts.rows[:, 0] == parts.labels).all()
    assert (parts.points[:, 0] == parts.truth).all()
    assert (parts.test_rows[:, 0] == parts.test_labels).all()


@pytest.mark.parametrize(("points", "test"), [(15, 6), (-1, 0), (0, 2.5)])
def test_a_split_that_is_impossible(points, test):
    with pytest.raises(InvalidParameter):
        split(np.zeros((20, 1)), np.zeros(20), points=points, test=test)


def test_label_accuracy():
    assert label_accuracy({}, ["a"]) is None
    assert label_accuracy({0: "a", 1: "b", 2: "b"}, ["a", "b", "a"]) == pytest.approx(2 / 3)
    with pytest.raises(InvalidParameter):
        label_accuracy({3: "a"}, ["a"])


def test_a_report_says_what_is_known():
    report = LabelReport(10, 8, None, None, 0.5, 2.0)
    assert str(report) == "8 labels of 10 points. 50 % of the budget is charged; plain composition would take 200 %."
    assert report.as_dict()["labels"] == 8


ABSENT = """
import sys
import chary
assert "sklearn" not in sys.modules and "joblib" not in sys.modules
sys.modules["sklearn"] = None
try:
    import chary.learning
except ImportError as error:
    print(error)
"""


def test_chary_needs_no_scikit_learn_and_says_what_does():
    shown = subprocess.run([sys.executable, "-c", ABSENT], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "chary.learning needs scikit-learn: pip install 'chary[learning]'"
