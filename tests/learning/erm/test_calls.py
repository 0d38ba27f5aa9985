"""Training as a call of a session: what it charges, refuses, repeats and survives."""

from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import chary
from chary import Budget
from chary.calls import RunAlgorithm
from chary.errors import BudgetExceeded, InvalidParameter, InvalidQuery
from chary.learning import Categorical, Cuts, PrivateLogisticRegression, PrivateRidge, Span, design_matrix
from chary.learning import linear as module
from chary.learning.linear import sample
from chary.noise import OperatingSystem, Seeded
from tests.session.kit import NO_NOISE, PLENTY, spent

FEATURES = [Span("age", 0, 100), Categorical("sex", ["f", "m"])]
USUAL = Budget(epsilon=2, delta=1e-6)


def patients(size=2000, seed=0):
    generator = np.random.default_rng(seed)
    age, sex = generator.integers(0, 100, size), generator.integers(0, 2, size)
    ill = age + 20 * sex + generator.normal(0, 10, size) > 60
    frame = {
        "patient": np.arange(size),
        "age": age,
        "sex": np.array(["f", "m"])[sex],
        "ill": np.array(["no", "yes"])[1 * ill],
    }
    return pd.DataFrame(frame)


def logistic(**given):
    return PrivateLogisticRegression(**{"epsilon": 1, "lam": "0.01", "radius": 2, "classes": ["no", "yes"]} | given)


def called(model=None, features=FEATURES, **given):
    return (model or logistic()).algorithm(features=features, label="ill", **given)


@pytest.fixture
def opened():
    made = []

    def make(rows=None, **options):
        usual = {
            "privacy_unit": None,
            "neighbors": "replace",
            "budget": USUAL,
            "ledger": ":memory:",
            "delta_reserve": "5e-7",
        }
        given = usual | {"unsafe_noise": Seeded(7)} | options
        made.append(chary.open(patients() if rows is None else rows, **given))
        return made[-1]

    yield make
    for session in made:
        session.close()


@pytest.mark.parametrize("delta", [0, "1e-7"])
def test_a_call_learns_what_fit_learns(opened, delta):
    rows, model = patients(), logistic(epsilon=PLENTY, delta=delta)
    outcome = opened(rows, budget=NO_NOISE).ask(RunAlgorithm(called(model)))
    learnt = model.restore(outcome.value)
    inputs = design_matrix(rows, FEATURES)
    alone = logistic(epsilon=PLENTY, delta=delta).fit(inputs, rows["ill"])
    assert learnt.coef_ == pytest.approx(alone.coef_, abs=0.02)
    assert learnt.score(inputs, rows["ill"]) > 0.8


def test_a_call_is_charged_once_and_refused_when_it_does_not_fit(opened):
    session = opened(budget=Budget(epsilon=1, delta=0), delta_reserve=0)
    first = session.ask(RunAlgorithm(called()), request="monday")
    assert spent(session) == session.spine.filter.capacity
    assert session.ask(RunAlgorithm(called()), request="monday").value == first.value
    with pytest.raises(BudgetExceeded):
        session.ask(RunAlgorithm(called()))


def test_a_request_is_answered_again_from_a_reopened_ledger(opened, tmp_path):
    rows, ledger = patients(), f"sqlite:///{tmp_path / 'ledger'}"
    first = opened(rows, ledger=ledger).ask(RunAlgorithm(called()), request="model")
    again = opened(rows, ledger=ledger, unsafe_noise=Seeded(8))
    assert again.ask(RunAlgorithm(called()), request="model").value == first.value
    assert len(again.history) == 1
    with pytest.raises(chary.errors.RequestConflict):
        again.ask(RunAlgorithm(called(logistic(lam="0.02"))), request="model")


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({"neighbors": "add_remove"}, {}),
        ({"privacy_unit": "patient"}, {}),
        ({"privacy_unit": "patient"}, {"unit": "patient"}),
        ({"privacy_unit": "patient"}, {"size": 100}),
        ({}, {"unit": "patient"}),
        ({"privacy_unit": "patient", "neighbors": "add_remove"}, {"unit": "patient"}),
    ],
)
def test_a_session_that_keeps_the_number_of_rows_secret_is_refused_before_anything_is_charged(opened, options, given):
    session = opened(**options)
    with pytest.raises(InvalidParameter, match=r"size=|unit="):
        session.ask(RunAlgorithm(called(**given)))
    assert session.history == []


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("unit", [None, "patient"])
@pytest.mark.parametrize("size", [500, 2000, 5000])
def test_with_a_declared_size_every_relation_will_do(opened, neighbors, unit, size):
    rows = patients()
    session = opened(rows, neighbors=neighbors, privacy_unit=unit, budget=NO_NOISE)
    model = logistic(epsilon=PLENTY)
    model.restore(session.ask(RunAlgorithm(called(model, unit=unit, size=size))).value)
    assert model.score(design_matrix(rows, FEATURES), rows["ill"]) > 0.8


def test_a_series_is_refused():
    with chary.open_counts(
        pa.table({"n": [1, 2]}), column="n", sensitivity=1, budget=USUAL, ledger=":memory:"
    ) as session:
        with pytest.raises(InvalidParameter, match="series"):
            session.ask(RunAlgorithm(called()))
        assert session.history == []


@pytest.mark.parametrize("size", [None, 100])
def test_no_row_makes_it_fail(opened, size):
    """NULL, NaN, infinite and unforeseen values, labels that are none, and no rows at all."""
    rows = pa.table(
        {
            "age": pa.array([None, float("nan"), float("inf"), 1e308, -1e308, 5e-324, 3.0]),
            "sex": ["f", None, "?", "m", "m", "f", "f"],
            "ill": ["yes", "no", None, "SECRET", "yes", "no", "no"],
        }
    )
    for features in (FEATURES, ["age"], [Cuts("age", [1, 2]), "age"]):
        for delta in (0, "1e-7"):
            for table in (rows, rows.slice(0, 0)):
                session = opened(table, budget=NO_NOISE)
                found = session.ask(RunAlgorithm(called(logistic(delta=delta), features, size=size))).value["weights"]
                assert np.isfinite(found).all()


@pytest.mark.parametrize("delta", [0, "1e-7"])
def test_a_row_without_a_label_counts_as_zeros(opened, delta):
    rows = patients(300).assign(note=0.5)
    ridge = PrivateRidge(epsilon=PLENTY, lam="0.1", radius=1, label_bound=1, delta=delta)
    rows["score"] = [None if place % 3 == 0 else 0.5 for place in range(300)]
    found = []
    for table, size in ((rows, None), (rows[rows["score"].notna()], 300)):
        session = opened(table, budget=NO_NOISE)
        found.append(
            session.ask(RunAlgorithm(ridge.algorithm(features=["note"], label="score", size=size))).value["weights"]
        )
    assert found[0] == pytest.approx(found[1], abs=0.05)


@pytest.mark.parametrize(("size", "trained"), [(5, [5] * 8), (1, [1] * 8), (None, [1, *range(1, 8)])])
def test_as_many_rows_are_trained_on_as_were_declared_whatever_there_are(size, trained):
    def targets(labels):
        return np.ones(len(labels))

    def counted(rows, targets, source):
        return {"rows": len(rows), "targets": len(targets)}

    for number, expected in enumerate(trained):
        rows = pa.table({"age": pa.array(range(number), pa.int64()), "ill": ["no"] * number})
        found = module.train(targets, counted, [Span("age", 0, 9)], "ill", None, size, rows, Seeded(1))
        assert found == {"rows": expected, "targets": expected}


def test_a_sample_loses_at_most_one_row_to_one_more(monkeypatch):
    """The keys of the other rows stay as they are."""
    keys = np.random.default_rng(1).permutation(50)
    for extra in range(50):
        kept = []
        for present in (np.arange(50), np.delete(np.arange(50), extra)):
            monkeypatch.setattr(module, "uniform_integers", lambda *_, present=present: keys[present])
            kept.append(set(sample(pa.table({"row": present}), 20, OperatingSystem())["row"].to_pylist()))
        assert len(kept[0]) == len(kept[1]) == 20
        assert len(kept[0] ^ kept[1]) == (2 if extra in kept[0] else 0)


@pytest.mark.parametrize(
    ("features", "error"),
    [([], InvalidParameter), (["ill"], InvalidParameter), (["nonesuch"], InvalidQuery)],
)
def test_wrong_features_are_refused_before_anything_is_charged(opened, features, error):
    session = opened()
    with pytest.raises(error):
        session.ask(RunAlgorithm(called(features=features)))
    assert session.history == []


def test_changing_a_model_later_does_not_change_its_call(opened):
    model = logistic(epsilon=1)
    algorithm = called(model)
    model.set_params(epsilon=10**9)
    inputs, labels = design_matrix(patients(50), FEATURES), algorithm.run.args[0](patients(50)["ill"])
    noisy = [algorithm.run.args[1](inputs, labels, Seeded(seed))["weights"] for seed in (1, 2)]
    assert np.linalg.norm(np.subtract(*noisy)) > 1


MIXED = {"age": [1, 2] * 9, "sex": ["f", "m"] * 9, "ill": [True, False] * 9, "cost": [0.5, None] * 9}


@pytest.mark.parametrize(
    ("label", "classes", "feature"),
    [
        ("ill", ["no", "yes"], "age"),
        ("age", ["1", "2"], "cost"),
        ("sex", [0, 1], "age"),
        ("cost", ["low", "high"], "age"),
        ("ill", [False, True], Categorical("sex", [0, 1])),
        ("ill", [False, True], Categorical("age", ["1", "2"])),
        ("sex", ["f", "m"], Categorical("ill", ["yes", "no"])),
    ],
)
def test_values_that_a_column_cannot_hold_are_refused_before_anything_is_charged(opened, label, classes, feature):
    """Every row would count as zeros, and the budget would buy noise."""
    session = opened(pa.table(MIXED))
    with pytest.raises(InvalidParameter, match="none of the values"):
        session.ask(RunAlgorithm(logistic(classes=classes).algorithm(features=[feature], label=label)))
    assert session.history == []


@pytest.mark.parametrize("feature", [Span("sex", 0, 1), Cuts("sex", [1]), "sex", "born", Span("born", 0, 9)])
def test_features_of_numbers_need_a_column_of_numbers(opened, feature):
    """Every row would be the same vector, and the budget would buy a constant."""
    session = opened(pa.table(MIXED | {"born": [date(1990, 1, day) for day in range(1, 19)]}))
    with pytest.raises(InvalidParameter, match=r"is of type (string|date), and the feature needs numbers"):
        session.ask(RunAlgorithm(logistic(classes=[False, True]).algorithm(features=["age", feature], label="ill")))
    assert session.history == []


@pytest.mark.parametrize("feature", ["age", "cost", "ill", Span("cost", 0, 1), Cuts("ill", [1])])
def test_numbers_and_booleans_are_numbers(opened, feature):
    asked = logistic(classes=["f", "m"]).algorithm(features=[feature], label="sex")
    assert opened(pa.table(MIXED)).ask(RunAlgorithm(asked)).hit


@pytest.mark.parametrize(
    ("label", "classes"),
    [("ill", [0, 1]), ("age", [1.0, 2.0]), ("cost", [0.5, 1]), ("sex", ["m", 3]), ("age", [True, 2])],
)
def test_values_that_a_column_can_hold_are_not(opened, label, classes):
    feature = Span("age" if label != "age" else "cost", 0, 3)
    assert (
        opened(pa.table(MIXED))
        .ask(RunAlgorithm(logistic(classes=classes).algorithm(features=[feature], label=label)))
        .hit
    )


def test_yes_and_no_in_a_csv_file_are_booleans(opened, tmp_path):
    place = tmp_path / "people.csv"
    place.write_text("age,ill\n" + "\n".join(f"{age},{'yes' if age > 50 else 'no'}" for age in range(100)))
    session, wrong, right = opened(place, columns={"age": "BIGINT", "ill": "BOOLEAN"}), ["no", "yes"], [False, True]
    with pytest.raises(InvalidParameter, match="'ill' is of type boolean"):
        session.ask(RunAlgorithm(logistic(classes=wrong).algorithm(features=["age"], label="ill")))
    assert session.ask(RunAlgorithm(logistic(classes=right).algorithm(features=["age"], label="ill"))).hit
