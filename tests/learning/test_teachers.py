"""Teachers vote whatever their rows are, one unit moves one vote, and nothing of the rows shows."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from chary.errors import InvalidParameter
from chary.learning import Teachers, digits, draw_shards
from chary.learning.classifiers import Constant, choose, learn
from chary.noise import Seeded

CLASSES = ("low", "high")
SECRET = 987654321.0


class Grumpy(ClassifierMixin, BaseEstimator):
    """Fails, and tells why, on rows above a level; warns on every training."""

    def __init__(self, level=100.0, random_state=None):
        self.level = level
        self.random_state = random_state

    def fit(self, rows, labels):
        warnings.warn(f"largest is {rows.max()}", stacklevel=1)
        if rows.max() > self.level:
            raise ValueError(f"cannot bear {rows.max()}")
        self.mean_ = rows.mean()
        return self

    def predict(self, points):
        return (points.mean(axis=1) > self.mean_).astype(int)


class Absurd(Grumpy):
    """Chooses a class that does not exist, but only once it saw real rows."""

    def predict(self, points):
        return np.full(len(points), 7) if self.mean_ > 1 else super().predict(points)


def problem(size, seed=0):
    generator = np.random.default_rng(seed)
    choices = generator.integers(0, 2, size)
    return generator.normal(choices[:, None], 0.7, (size, 3)), np.array(CLASSES)[choices]


def train(rows, labels, teachers=8, estimator=None, **options):
    options = {"classes": CLASSES, "progress": False, "unsafe_noise": Seeded(5)} | options
    return Teachers.train(rows, labels, teachers=teachers, estimator=estimator or GaussianNB(), **options)


@pytest.mark.parametrize("estimator", [GaussianNB(), DecisionTreeClassifier(), KNeighborsClassifier(1), SVC()])
def test_every_teacher_votes_once_on_every_point(estimator):
    votes = train(*problem(60), teachers=16, estimator=estimator).votes(problem(20, seed=1)[0])
    assert votes.shape == (20, 2)
    assert votes.dtype == np.int64
    assert (votes.sum(axis=1) == 16).all()


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("seed", range(6))
def test_one_unit_moves_one_vote(neighbors, seed):
    """The shards of other units are the same draws; teachers are 2, 4 or 8, for which no draw is made again."""
    rows, labels = problem(40, seed)
    units = np.arange(40) // 2
    other_rows, other_labels = rows.copy(), labels.copy()
    other_rows[38:], other_labels[38:] = -5, "high"
    kept = slice(0, 38 if neighbors == "add_remove" else 40)
    neighbour = (other_rows[kept], other_labels[kept])
    moved = 0
    for teachers in (2, 4, 8):
        options = {"neighbors": neighbors, "teachers": teachers}
        points = problem(300, seed=9)[0]
        here = train(rows, labels, units=units, unsafe_noise=Seeded(seed), **options).votes(points)
        there = train(*neighbour, units=units[kept], unsafe_noise=Seeded(seed), **options).votes(points)
        assert np.abs(here - there).max() <= 1
        moved += np.abs(here - there).sum()
    assert moved > 0


def test_the_check_above_fails_where_shards_are_dealt_by_position():
    rows, labels = problem(40)
    choices = (labels == "high").astype(np.int64)

    def votes(first):
        shards = np.array_split(np.arange(first, 40), 8)
        models = [learn(GaussianNB(), rows[shard], choices[shard], 0, 0) for shard in shards]
        chosen = np.array([choose(model, problem(300, seed=9)[0], 2, 0) for model in models])
        return chosen.sum(axis=0)

    assert np.abs(votes(0) - votes(1)).max() > 1


def test_teachers_without_rows_vote_for_public_classes_in_turn():
    teachers = train(problem(40)[0], np.full(40, "high"), teachers=32, unsafe_noise=Seeded(1))
    empty = set(range(32)) - set(draw_shards(np.arange(40), 32, Seeded(1)).tolist())
    low = sum(number % 2 == CLASSES.index("low") for number in empty)
    assert 0 < low < len(empty)
    assert teachers.votes([[0.0, 0.0, 0.0]]).tolist() == [[low, 32 - low]]


def test_what_a_teacher_does_with_odd_shards():
    rows = np.array([[1.0], [2.0], [SECRET]])
    assert learn(Grumpy(), rows[:0], np.array([], dtype=np.int64), 1, 0) == Constant(1)
    assert learn(Grumpy(), rows[:2], np.array([0, 0]), 1, 0) == Constant(0)
    assert learn(Grumpy(), rows, np.array([1, 1, 0]), 0, 0) == Constant(1)
    assert learn(KNeighborsClassifier(5), rows, np.array([1, 1, 0]), 0, 0) == Constant(1)
    assert isinstance(learn(Grumpy(), rows[:2], np.array([0, 1]), 1, 0), Grumpy)


def test_a_model_that_chooses_no_class_votes_for_its_default():
    points = np.zeros((3, 1))
    absurd = learn(Absurd(), np.array([[2.0], [9.0]]), np.array([0, 1]), 0, 0)
    assert choose(absurd, points, 2, 1).tolist() == [1, 1, 1]
    assert choose(KNeighborsClassifier(), points, 2, 1).tolist() == [1, 1, 1]


def test_failing_teachers_show_nothing(capfd):
    rows, labels = problem(40)
    rows[3] = SECRET
    teachers = train(rows, labels, teachers=4, estimator=Grumpy())
    assert (teachers.votes(rows[:5]).sum(axis=1) == 4).all()
    assert "98765" not in repr(teachers) + "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("labels", "rows"),
    [(["low", "topsecret"], [[1.0], [2.0]]), (["low", "high"], [["topsecret"], ["2"]]), ([["topsecret"]], [[1.0]])],
)
def test_data_is_in_no_error(labels, rows):
    with pytest.raises(InvalidParameter) as refused:
        train(rows, labels, teachers=2)
    assert refused.value.__context__ is None
    assert "topsecret" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"teachers": 1}, "at least 2"),
        ({"teachers": 41}, "more teachers than privacy units"),
        ({"teachers": 4, "units": np.arange(40) // 20}, "more teachers than privacy units"),
        ({"classes": ["low"]}, "at least two"),
        ({"classes": ["low", "low"]}, "two different"),
        ({"classes": [["low"], ["high"]]}, "two different"),
        ({"estimator": LinearRegression()}, "must be a classifier"),
        ({"estimator": Grumpy(level=0.0)}, "synthetic rows: ValueError"),
        ({"estimator": "GaussianNB"}, "synthetic rows: TypeError"),
        ({"neighbors": "bounded_change"}, "neighbors must be"),
        ({"jobs": 0}, "jobs must be"),
    ],
)
def test_what_cannot_be_trained(options, message):
    with pytest.raises(InvalidParameter, match=message):
        train(*problem(40), **options)


@pytest.mark.parametrize("points", [[[1.0, 2.0]], [1.0, 2.0, 3.0], [["a", "b", "c"]], [[1.0, 2.0, float("nan")]]])
def test_points_that_cannot_be_asked(points):
    with pytest.raises(InvalidParameter, match="points"):
        train(*problem(40)).votes(points)


@pytest.mark.parametrize("labels", [[0.0, np.nan], [0, 2], [0, None], [[0], [1]], [0]])
def test_labels_that_are_no_classes(labels):
    with pytest.raises(InvalidParameter):
        Teachers.train([[0.0], [1.0]], labels, teachers=2, estimator=GaussianNB(), classes=(0, 1), progress=False)


def test_fewer_teachers_than_classes_still_vote_once_each():
    rows, labels = np.eye(10).repeat(3, axis=0), np.arange(10).repeat(3)
    votes = train(rows, labels, teachers=3, classes=range(10)).votes(rows)
    assert votes.shape == (30, 10)
    assert (votes.sum(axis=1) == 3).all()


def test_rows_with_missing_values_cost_their_teachers_the_training_and_show_nothing(capfd):
    rows, labels = problem(40)
    rows[:] = np.nan
    votes = train(rows, labels, teachers=4).votes(problem(20, seed=1)[0])
    assert (votes == votes[0]).all()
    assert (votes.sum(axis=1) == 4).all()
    assert "".join(capfd.readouterr()) == ""


def test_no_points_have_no_votes():
    assert train(*problem(40)).votes(np.empty((0, 3))).shape == (0, 2)


def test_processes_give_the_same_votes():
    rows, labels = problem(80)
    points = problem(10, seed=1)[0]
    alone, together = (
        train(rows, labels, estimator=DecisionTreeClassifier(), jobs=jobs, unsafe_noise=Seeded(3)) for jobs in (None, 2)
    )
    assert alone.votes(points).tolist() == together.votes(points, jobs=2).tolist()


def test_the_global_generator_is_left_alone():
    rows, labels = problem(60)
    estimator = DecisionTreeClassifier(max_features=1)
    runs = []
    for seed in (1, 2):
        np.random.seed(seed)
        runs.append(train(rows, labels, estimator=estimator).votes(rows).tolist())
    assert runs[0] == runs[1]


def test_progress_goes_to_standard_error(capfd):
    train(*problem(40), progress=True)
    assert capfd.readouterr().out == ""


def test_an_ensemble_on_digits_is_right_far_more_often_than_its_teachers():
    data = digits()
    teachers = Teachers.train(
        data.rows, data.labels, teachers=50, estimator=GaussianNB(var_smoothing=0.1), classes=range(10), progress=False
    )
    votes = teachers.votes(data.points)
    assert (votes.argmax(axis=1) == data.truth).mean() > 0.8
    assert 0.4 < votes[np.arange(400), data.truth].mean() / 50 < 0.75
