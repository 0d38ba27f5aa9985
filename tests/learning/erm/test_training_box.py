"""Training as a black box: its law, its privacy, what it learns in a schedule, and what is no box."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

from chary import Budget, InvalidParameter, NeighborRelation, NotPriced
from chary.accounting import ZeroConcentrated
from chary.accounting.schedules import Law
from chary.calls import Rerun, ScheduledRun
from chary.learning import PrivateRidge, PrivateSVC, Span, TrainingBox, design_matrix
from chary.noise import Seeded

from .growing_kit import BOXES, EVERY, FEATURES, logistic, people

ROWS = NeighborRelation("replace", None)


@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES)
def test_the_law_of_a_box_holds_and_improves(box):
    """Ten trainings at one size; the promise is for the mean loss, or the objective where no length is said."""
    frame = people(0, 1500)
    rows, labels = design_matrix(frame, FEATURES), frame["ill"].to_numpy()
    signs, whole = np.where(labels == "yes", 1.0, -1.0), np.column_stack([rows, np.ones(len(rows))])
    lam = float(box.model.lam) if box.model.length is None else 0.0

    def risk(weights):
        return np.logaddexp(0, -signs * (whole @ weights)).mean() + lam / 2 * weights @ weights

    length = float(box.model.length or 100)
    ball = {"type": "ineq", "fun": lambda w: length**2 - w @ w}
    best = optimize.minimize(risk, np.zeros(4), constraints=ball, options={"ftol": 1e-12}).fun
    models = [box.at(Fraction(1, 2)).set_params(unsafe_noise=Seeded(seed)).fit(rows, labels) for seed in range(10)]
    excess = np.array([risk(np.append(model.coef_, model.intercept_)) - best for model in models])
    told = [box.law.error(size=size, epsilon="0.5", beta="0.2") for size in (1500, 10**5)]
    assert (excess <= told[0]).all()
    assert told[1] < told[0]
    assert box.model.length is None or box.model.rho is None or excess.min() > -1e-6


def test_a_model_learns_what_it_learns_outside_of_a_schedule(grown):
    session = grown(2000, budget=Budget(epsilon=10**9, delta=1e-6))
    for box in BOXES.values():
        schedule = session.start(Rerun(box, rho=5000, beta="0.05", growth=1))
        result = schedule.ask()
        learnt = box.classifier(result)
        inputs = design_matrix(people(0, 2000), FEATURES)
        alone = box.at(result.epsilon).fit(inputs, people(0, 2000)["ill"].to_numpy())
        assert learnt.coef_ == pytest.approx(alone.coef_, abs=0.2)
        assert learnt.score(inputs, people(0, 2000)["ill"].to_numpy()) > 0.85


@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES)
def test_each_run_is_as_private_as_asked(box):
    event = box.plan(Fraction(1, 7), ROWS).event
    if box.model.rho is None:
        assert event.epsilon == Fraction(1, 7)
    else:
        assert event == ZeroConcentrated(Fraction(1, 98))
    assert box.body(ROWS) == replace(box).body(ROWS)


class TooLoud(TrainingBox):
    """Trains at more than it may spend."""

    def at(self, epsilon):
        return super().at(Fraction(epsilon) * Fraction(101, 100))


@pytest.mark.parametrize(
    ("box", "total"),
    [
        (TooLoud(logistic(rho=1, length=3), FEATURES, "ill"), {"rho": "0.01"}),
        (TooLoud(logistic(epsilon=1), FEATURES, "ill"), {"epsilon": "0.5"}),
        (TooLoud(logistic(epsilon=1), FEATURES, "ill"), {"rho": "0.01"}),
        (BOXES["ball"], {"epsilon": "0.5"}),
        (BOXES["gaussian"], {"epsilon": "0.5"}),
    ],
)
def test_a_box_that_is_not_private_enough_is_refused(grown, box, total):
    session = grown()
    with pytest.raises(InvalidParameter, match="not epsilon-DP"):
        session.start(Rerun(box, beta="0.05", growth=1, **total))
    assert session.history == []


def test_a_pure_box_fits_both_kinds_of_schedules(grown):
    session = grown()
    for total in ({"rho": "0.005", "exponent": "0.1"}, {"epsilon": "0.1", "growth": 1}):
        assert not session.start(Rerun(BOXES["pure"], beta="0.05", **total)).ask().failed
    with pytest.raises(NotPriced):
        grown(budget=Budget(epsilon=1)).start(Rerun(BOXES["pure"], beta="0.05", rho="0.005"))


def test_regression_and_support_vectors_are_scheduled_too(grown):
    session = grown(budget=Budget(epsilon=10**9, delta=1e-6))
    ridge = PrivateRidge(rho=1, lam="1e-4", radius=2, label_bound=1, length=2, steps=100)
    box = TrainingBox(ridge, FEATURES, "score")
    improving = box.follow(session.start(Rerun(box, rho=5000, beta="0.05", growth=1), follow=True).state)
    assert improving.score(people(0, 1000), people(0, 1000)["score"]) > 0.9
    for loss in ("smoothed_hinge", "squared_hinge"):
        svc = PrivateSVC(rho=1, lam="0.01", radius=2, classes=["no", "yes"], loss=loss, length=3, steps=64)
        box = TrainingBox(svc, FEATURES, "ill")
        assert session.start(Rerun(box, rho=50, beta="0.05", growth=1)).ask().size == 1000


@pytest.mark.parametrize(
    "make",
    [
        lambda: TrainingBox("model", FEATURES, "ill"),
        lambda: TrainingBox(logistic(epsilon=1, delta="1e-6", length=3), FEATURES, "ill"),
        lambda: TrainingBox(logistic(rho=1), FEATURES, "ill"),
        lambda: TrainingBox(logistic(rho=1, length=3), [], "ill"),
        lambda: TrainingBox(logistic(rho=1, length=3), FEATURES, "ill", rows_at_most=0),
        lambda: TrainingBox(logistic(rho=1, length=3), FEATURES, "ill", declared=(1,)),
        lambda: BOXES["ball"].plan(Fraction(1001), ROWS),
        lambda: TrainingBox(logistic(rho=1, length=3), FEATURES, "ill", rows_at_most=1 << 26),
        lambda: TrainingBox(logistic(rho=1, length=3), "age", "ill"),
        lambda: TrainingBox(logistic(rho=1, length=3), FEATURES, "sex"),
        lambda: TrainingBox(logistic(rho=1, length=3), FEATURES, None),
        lambda: BOXES["ball"].at("lots"),
        lambda: BOXES["ball"].classifier("model"),
        lambda: BOXES["ball"].classifier(None),
        lambda: BOXES["ball"].classifier(ScheduledRun(1, 0, 10, Fraction(1), None, failed=True)),
    ],
)
def test_what_makes_no_box_or_no_model_is_refused(make):
    with pytest.raises(InvalidParameter):
        make()


def test_momentum_has_a_law_only_if_somebody_vouches_for_it(grown):
    box = TrainingBox(logistic(rho=1), FEATURES, "ill", declared=(1, 30))
    assert box.law == Law(1, 30)
    assert grown().start(Rerun(box, **EVERY)).ask().answer.value["weights"]


def test_a_feature_of_numbers_on_a_column_of_texts_is_refused_at_the_opening(grown):
    session, box = grown(), TrainingBox(logistic(epsilon=1, length=3), [Span("sex", 0, 1)], "ill")
    with pytest.raises(InvalidParameter, match="'sex' is of type string"):
        session.start(Rerun(box, **EVERY))
    assert session.history == []
