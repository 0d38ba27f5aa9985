"""Counts change by what the noise is made for, the noise has the scale it must have, and the rest is Bayes' rule."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from chary.errors import InvalidParameter
from chary.learning import Categorical, CountingBayes, Cuts, Span
from chary.noise import Seeded

FEATURES = [Span("age", 0, 100), Cuts("gain", [1, "2.5"]), Categorical("sex", ["f", "m"])]
CLASSES = ["no", "yes"]
AWKWARD = {
    "age": [-1e300, 0, 99.999, 100, math.inf, -math.inf, math.nan, None, 2**80],
    "gain": [0, 1, 2.5, 2.4999, math.inf, -math.inf, math.nan, None, 10**300],
    "sex": ["f", "m", "", "F", None, "f", "x" * 1000, "m", "\N{SNOWMAN}"],
}


def learner(**options):
    return CountingBayes(FEATURES, **({"classes": CLASSES, "epsilon": None, "bins": 4} | options))


def people(size, seed=0):
    generator = np.random.default_rng(seed)
    rows = {
        "age": generator.integers(0, 100, size),
        "gain": generator.integers(0, 4, size),
        "sex": np.array(["f", "m", "x"])[generator.integers(0, 3, size)],
    }
    return rows, np.array(["no", "yes", "unknown"])[generator.integers(0, 3, size)]


def without(rows, labels, place):
    kept = np.arange(len(labels)) != place
    return {name: column[kept] for name, column in rows.items()}, labels[kept]


@pytest.mark.parametrize("use", [None, ["age"], ["sex", "gain"]])
def test_one_row_changes_one_count_for_the_class_and_one_for_each_feature(use):
    rows, labels = people(60)
    model = learner(use=use)
    whole = clone(model).fit(rows, labels).counts_
    changes = {
        int(np.abs(whole - clone(model).fit(*without(rows, labels, place)).counts_).sum()) for place in range(60)
    }
    assert changes == {0, 1 + len(model.columns)}


@pytest.mark.statistical
@pytest.mark.parametrize(("neighbors", "sides"), [("add_remove", 1), ("replace", 2)])
def test_the_noise_is_as_wide_as_the_counts_can_change(neighbors, sides):
    """Mean absolute noise of counts far from 0; alpha 1e-6, and 2/3 or 3/2 of the scale are rejected."""
    rows = {"age": np.full(4_000, 30), "gain": np.zeros(4_000), "sex": np.full(4_000, "f")}
    labels, source = np.repeat(CLASSES, 2_000), Seeded(3)
    model = learner(epsilon="0.1", neighbors=neighbors)
    exact = learner().fit(rows, labels).counts_
    large = exact > 1_000
    noise = [
        clone(model).set_params(unsafe_noise=source).fit(rows, labels).counts_[large] - exact[large] for _ in range(300)
    ]
    scale, drawn = sides * 4 / 0.1, np.abs(np.concatenate(noise))
    assert drawn.size == 300 * 8

    def likely(tried):
        return abs(drawn.mean() - tried) < 4.9 * tried / math.sqrt(drawn.size)

    assert likely(scale)
    assert not likely(scale * 2 / 3)
    assert not likely(scale * 3 / 2)


def test_counts_are_clipped_at_zero():
    model = learner(epsilon="0.01", unsafe_noise=Seeded(1)).fit(*people(3))
    assert model.counts_.min() == 0 < model.counts_.max()


def test_predictions_follow_bayes_rule():
    rows, labels = people(200)
    model = learner(smoothing="0.5").fit(rows, labels)
    cells = {
        "age": [1 + min(3, age // 25) for age in rows["age"]],
        "gain": [1 + (gain >= 1) + (gain >= 2.5) for gain in rows["gain"]],
        "sex": [{"f": 1, "m": 2}.get(sex, 0) for sex in rows["sex"]],
    }
    sizes = {"age": 5, "gain": 4, "sex": 3}
    known = np.isin(labels, CLASSES)
    for place in range(200):
        weights = []
        for name in CLASSES:
            mine = labels == name
            weight = Fraction(2 * int(mine.sum()) + 1, 2 * int(known.sum()) + 2)
            for column, coded in cells.items():
                alike = sum(1 for cell, own in zip(coded, mine, strict=True) if own and cell == coded[place])
                weight *= Fraction(2 * alike + 1, 2 * int(mine.sum()) + sizes[column])
            weights.append(weight)
        alone = {name: column[place : place + 1] for name, column in rows.items()}
        assert model.predict(alone)[0] == model.predict(rows)[place] == CLASSES[weights[1] > weights[0]]


def test_every_library_and_every_value_has_a_cell():
    labels = ["no"] * 5 + ["yes"] * 4
    whole = learner().fit(AWKWARD, labels)
    assert whole.counts_.sum() == 9 * 4
    narrow = {name: values[:-1] for name, values in AWKWARD.items()}
    counts = [
        learner().fit(frame, labels[:-1]).counts_.tolist()
        for frame in (narrow, pa.table(narrow), pl.DataFrame(narrow, strict=False), pd.DataFrame(narrow))
    ]
    assert all(each == counts[0] for each in counts)
    numbered = CountingBayes([Span(0, 0, 1), Span(1, 0, 2)], classes=[0, 1], epsilon=None)
    assert numbered.fit(np.eye(2), [0, 1]).predict(np.eye(2)).tolist() == [0, 1]


def test_no_rows_and_unknown_labels_are_fine():
    nothing = {name: [] for name in AWKWARD}
    assert learner().fit(nothing, []).predict(AWKWARD).tolist() == ["no"] * 9
    assert learner().fit(AWKWARD, [None] * 9).counts_.sum() == 0
    assert learner().fit(*people(20)).predict(nothing).shape == (0,)


def test_it_is_rebuilt_from_its_state():
    rows, labels = people(100)
    model = learner(epsilon=1, unsafe_noise=Seeded(2)).fit(rows, labels)
    again = clone(model).restore(model.state())
    assert again.log_weights(rows).tolist() == model.log_weights(rows).tolist()
    with pytest.raises(InvalidParameter, match="other parameters"):
        learner(bins=5).restore(model.state())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bins": 0}, "bins"),
        ({"smoothing": 0}, "smoothing"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"classes": ["no"]}, "two different"),
        ({"classes": ["no", 1]}, "one kind"),
        ({"use": ["height"]}, "features"),
        ({"use": []}, "features"),
        ({"features": [FEATURES[0], FEATURES[0]]}, "features"),
        ({"neighbors": "bounded_change"}, "neighbors"),
    ],
)
def test_what_cannot_be_right_is_refused(options, message):
    given = {"features": FEATURES, "classes": CLASSES, "epsilon": 1} | options
    model = CountingBayes(**given)
    for refused in (model.check, lambda: model.fit(AWKWARD, ["no"] * 9)):
        with pytest.raises(InvalidParameter, match=message):
            refused()


@pytest.mark.parametrize(
    "make",
    [lambda: Span("a", 1, 1), lambda: Cuts("a", []), lambda: Cuts("a", [2, 1]), lambda: Categorical("a", [1, 1])],
)
def test_features_that_tell_nothing_apart_are_refused(make):
    with pytest.raises(InvalidParameter):
        make()


@pytest.mark.parametrize("value", ["topsecret", "", [1], {"a": 1}, b"x", 10**400, math.nan, None, True, 2**60 + 1])
def test_a_value_moves_no_other_and_makes_nothing_fail(value):
    """Whatever is added to a column, the cells of the others stay."""
    for feature, others in (
        (FEATURES[0], [30, "60", 99.5]),
        (Categorical("key", [2**60, "a"]), [2**60, 2**60 + 1, "a"]),
    ):
        alone, beside = feature.code(others, 4).tolist(), feature.code([*others, value], 4).tolist()
        assert beside[:3] == alone
        assert alone[0] != 0


@pytest.mark.parametrize("column", [pa.array, pa.chunked_array, pl.Series, pd.Series, np.array])
def test_large_whole_numbers_stay_whole_beside_nulls(column):
    keys = [2**60, 2**60 + 1, None]
    values = column([keys]) if column is pa.chunked_array else column(keys[: 2 if column is np.array else 3])
    if column is pd.Series:
        values = pd.Series(keys, dtype="Int64")
    assert Categorical("key", [2**60]).code(values, 8).tolist()[:2] == [1, 0]


def test_errors_show_no_data():
    with pytest.raises(InvalidParameter, match="equally many") as refused:
        learner().fit(AWKWARD, ["no"])
    assert refused.value.__context__ is None


@pytest.mark.parametrize("value", ["topsecret", 1.5, None, 2**70, math.nan, True, b"x"])
def test_a_row_of_a_list_moves_only_its_own_counts(value):
    """Values of lists keep their types, whatever stands beside them."""
    rows, labels = [[1, 5], [2, 5], [2**53 + 1, 5]], ["no", "yes", "no"]
    model = CountingBayes([Categorical(0, [1, 2, 2**53 + 1]), Span(1, 0, 9)], classes=CLASSES, epsilon=None)
    alone = clone(model).fit(rows, labels).counts_
    for row in ([value, 5], [1, value]):
        assert np.abs(clone(model).fit([*rows, row], [*labels, "no"]).counts_ - alone).sum() == 3
