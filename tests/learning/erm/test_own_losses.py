"""Losses and steps of one's own: what a wrong declaration may cost, what is tried, what a schedule learns with them."""

import json
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

import chary
from chary import AlgorithmFailed, Budget, InvalidParameter
from chary.calls import Rerun, RunAlgorithm
from chary.learning import OwnLoss, PrivateConvexRegressor, PrivateRidge, RowTransform, Span, TrainingBox
from chary.learning.descent import FINE_ROWS, FINE_SLOPES, FINE_WEIGHTS, IntegerGradients
from chary.learning.losses import SquaredError
from chary.learning.optimum import Problem
from chary.noise import Seeded

SECRET = 987654321.5
TERMS = {"lam": "1e-4", "radius": 1, "label_bound": 1, "length": 2, "steps": 100}


def huber(width=0.2, **changed):
    told = {"slope": "0.2", "curvature": 1} | changed
    return OwnLoss("huber", lambda p, t: np.clip(p - t, -width, width), **told)


def rows(size=4000):
    x = np.random.default_rng(3).uniform(-0.7, 0.7, (size, 1))
    return x, 0.8 * x[:, 0] + 0.1


def test_a_loss_of_ones_own_learns_what_a_built_in_one_does():
    x, y = rows()
    squared = OwnLoss("squared", lambda p, t: p - t, slope=4, curvature=1)
    own = PrivateConvexRegressor(loss=squared, rho=1, unsafe_noise=Seeded(1), **TERMS).fit(x, y)
    usual = PrivateRidge(rho=1, unsafe_noise=Seeded(1), **TERMS).fit(x, y)
    assert own.coef_ == pytest.approx(usual.coef_, abs=0.01)
    robust = PrivateConvexRegressor(loss=huber(), rho=1, unsafe_noise=Seeded(1), **TERMS).fit(x, y)
    assert robust.predict([[0.5]]) == pytest.approx([0.5], abs=0.05)


LIARS = {
    "steep": lambda p, t: 1e9 * (p - t),
    "no number": lambda p, t: np.where(p > 0.1, np.nan, np.inf),
    "not convex": lambda p, t: np.sin(50 * p),
}


@pytest.mark.parametrize("slopes", LIARS.values(), ids=LIARS)
def test_whatever_a_loss_says_a_row_moves_the_sum_by_no_more_than_declared(slopes):
    """The guarantee of a descent needs the gradient of each row to be no longer than `longest`, and nothing else."""
    loss, random = OwnLoss("liar", slopes, slope="0.5", curvature=1), np.random.default_rng(4)
    made = IntegerGradients(
        Problem(loss, Fraction(1), Fraction(1, 100), 50, 2, Fraction(2)), FINE_ROWS, FINE_SLOPES, FINE_WEIGHTS
    )
    inputs, targets = made.rows(random.uniform(-0.7, 0.7, (50, 2))), random.uniform(-1, 1, 50)
    for weights in (np.array([0.3, -1.2]), np.zeros(2)):
        total = made.total(inputs, targets, weights)
        for place in range(50):
            without = made.total(np.delete(inputs, place, axis=0), np.delete(targets, place), weights)
            assert np.linalg.norm((total - without).astype(float)) <= made.longest


def test_a_row_for_which_a_loss_raises_counts_as_zero_and_stops_no_other():
    """An error of the whole training would tell, for certain and at any rho, that such a row is there."""

    def slopes(predictions, targets):
        if (targets > 0.9).any():
            raise ValueError(SECRET)
        return np.clip(predictions - targets, -0.2, 0.2)

    def shorter(predictions, targets):
        return slopes(predictions[targets <= 0.9], targets[targets <= 0.9])

    for made in (slopes, shorter):
        loss = OwnLoss("huber", made, slope="0.2", curvature=1)
        found = loss.slopes(np.array([0.0, 0.1, 0.25]), np.array([0.1, 0.95, 0.125]))
        assert found.tolist() == [-0.1, 0.0, 0.125]


def test_without_clipping_the_same_loss_would_move_it_further():
    """A negative control of the test above."""
    steep = np.abs(LIARS["steep"](np.array([0.5]), np.array([-0.5])))
    assert steep.max() > 0.5
    loss = OwnLoss("liar", LIARS["steep"], slope="0.5", curvature=1)
    assert np.abs(loss.slopes(np.array([0.5]), np.array([-0.5]))).max() == 0.5
    assert loss.slopes(np.array([1.0, 2.0]), np.array([0.0, 3.0])).tolist() == [0.5, -0.5]


@pytest.mark.parametrize(
    ("loss", "refused"),
    [
        (huber(width=1), "steeper"),
        (huber(curvature="0.1"), "bends more"),
        (OwnLoss("x", lambda p, t: -np.clip(p - t, -0.1, 0.1), slope=1, curvature=1), "not convex"),
        (OwnLoss("x", lambda p, t: np.clip(p - p.mean(), -0.1, 0.1), slope=1, curvature=1), "one by one"),
        (OwnLoss("x", lambda p, t: np.where(p > 0, np.nan, 0.0), slope=1, curvature=1), "finite"),
    ],
)
def test_what_a_trial_shows_is_refused_before_any_row_is_read(loss, refused):
    model = PrivateConvexRegressor(loss=loss, rho=1, **TERMS)
    with pytest.raises(InvalidParameter, match=refused):
        model.check()
    with pytest.raises(InvalidParameter, match=refused):
        model.algorithm(features=["age"], label="score")


@pytest.mark.parametrize(
    "slopes", [lambda p, t: 1 / 0, lambda p, t: 3.0, lambda p, t: p[:-1], lambda p, t: "x" * len(p)]
)
def test_a_loss_that_raises_is_told_without_what_it_raised(slopes):
    with pytest.raises(AlgorithmFailed, match="'x' raised") as caught:
        PrivateConvexRegressor(loss=OwnLoss("x", slopes, slope=1, curvature=1), rho=1, **TERMS).check()
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_only_descents_train_with_it():
    for wrong in ({"epsilon": 1}, {"rho": 1, "steps": 0}, {"epsilon": 1, "points": 5}):
        with pytest.raises(InvalidParameter, match="by descent"):
            PrivateConvexRegressor(loss=huber(), **(TERMS | wrong)).check()
    for wrong in (None, SquaredError(Fraction(1)), "huber"):
        with pytest.raises(InvalidParameter, match="OwnLoss"):
            PrivateConvexRegressor(loss=wrong, rho=1, **TERMS).check()
    for given in ({"name": ""}, {"slopes": 3}, {"slope": 0}, {"curvature": None}):
        told = {"name": "x", "slopes": np.subtract, "slope": 1, "curvature": 1} | given
        with pytest.raises(InvalidParameter):
            OwnLoss(told.pop("name"), told.pop("slopes"), **told)


def test_the_law_of_a_box_is_that_of_its_declared_bounds():
    steep = OwnLoss("steep", lambda p, t: np.clip(p - t, -0.2, 0.2), slope="0.4", curvature=1)
    laws = [
        TrainingBox(PrivateConvexRegressor(loss=loss, rho=1, **TERMS), [Span("age", 0, 100)], "score").law
        for loss in (huber(), steep)
    ]
    assert float(laws[1].factor) == pytest.approx(2 * float(laws[0].factor), rel=1e-6)


SQUARE = RowTransform("square", lambda row: [row[0], row[0] ** 2], inputs=1, outputs=2)


def test_a_step_is_applied_to_each_row_alone_and_a_row_that_fails_is_zeros():
    seen = []

    def step(row):
        seen.append(row.shape)
        row *= 2
        if row[0] > 1:
            raise ValueError(SECRET)
        return [row[0]] if row[0] > 0 else [np.inf]

    given = np.array([[0.25], [0.75], [-1.0]])
    assert RowTransform("step", step, inputs=1, outputs=1).apply(given).tolist() == [[0.5], [0.0], [0.0]]
    assert seen == [(1,)] * 3
    assert given.tolist() == [[0.25], [0.75], [-1.0]]
    with pytest.raises(InvalidParameter, match="rows of 1"):
        SQUARE.apply(np.zeros((2, 3)))
    for wrong in ({"name": ""}, {"function": None}, {"inputs": 0}, {"outputs": "2"}):
        told = {"name": "x", "function": abs, "inputs": 1, "outputs": 1} | wrong
        with pytest.raises(InvalidParameter):
            RowTransform(**told)


def test_a_model_with_a_step_learns_and_predicts_in_its_columns():
    x, _ = rows()
    model = PrivateRidge(rho=1, row_transform=SQUARE, unsafe_noise=Seeded(2), **TERMS).fit(x, x[:, 0] ** 2)
    assert (len(model.coef_), model.n_features_in_) == (2, 1)
    assert model.predict([[0.5], [-0.5]]) == pytest.approx([0.25, 0.25], abs=0.08)
    same = PrivateRidge(rho=1, unsafe_noise=Seeded(2), **TERMS).fit(np.column_stack([x, x**2]), x[:, 0] ** 2)
    assert same.coef_.tolist() == model.coef_.tolist()
    assert clone(model).get_params()["row_transform"].name == "square"
    with pytest.raises(InvalidParameter, match="RowTransform"):
        PrivateRidge(rho=1, row_transform=np.square, **TERMS).check()


def test_both_are_trained_again_by_a_schedule_and_told_by_name():
    frame = pl.DataFrame({"age": np.arange(3000) % 100, "score": (np.arange(3000) % 100) / 100})
    budget = Budget(epsilon=4, delta=1e-6)
    session = chary.open(frame, privacy_unit=None, neighbors="replace", budget=budget, ledger=":memory:")
    model = PrivateConvexRegressor(loss=huber(), row_transform=SQUARE, rho=1, **TERMS)
    box = TrainingBox(model, [Span("age", 0, 100)], "score")
    run = session.start(Rerun(box, rho="0.1", beta="0.05", growth=2))
    run.ask()
    improving = box.follow(run.state)
    assert improving.predict({"age": [90.0]})[0] > improving.predict({"age": [10.0]})[0] + 0.3
    told = json.dumps([call.body for call in session.spine.ledger.calls(session.spine.dataset)])
    assert "huber" in told
    assert "square, 1 to 2" in told
    assert "0x" not in told
    again = session.resume(run.call, bring=TrainingBox(clone(model), [Span("age", 0, 100)], "score"))
    assert again.state.results == run.state.results
    other = PrivateConvexRegressor(loss=huber(slope="0.3"), row_transform=SQUARE, rho=1, **TERMS)
    with pytest.raises(InvalidParameter):
        session.resume(run.call, bring=TrainingBox(other, [Span("age", 0, 100)], "score"))
    with pytest.raises(InvalidParameter, match="takes 1"):
        TrainingBox(model, [Span("age", 0, 100), "score2"], "score")
    asked = clone(model).set_params(rho="0.05").algorithm(features=[Span("age", 0, 100)], label="score")
    assert model.restore(session.ask(RunAlgorithm(asked)).value).n_features_in_ == 1
