"""A regularisation that falls: what is added, its law against exact quantiles, and schedules that go on with it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from chary import InvalidParameter
from chary.calls import Rerun
from chary.learning import PrivateRidge, PrivateSVC, TrainingBox
from chary.learning.growth import FallingLam
from chary.noise import Seeded
from tests.session.kit import PUBLIC

from .growing_kit import EVERY, FEATURES, logistic, people

AT = 40
MODELS = {
    "gaussian": logistic(rho=1, lam="1e-6", steps=0, length=3),
    "pure": logistic(epsilon=1, lam="1e-6", length=3),
}

# How far above the exact quantile: by a little where lam costs most, by more where noise does, which beta moves.
FAR = {("gaussian", "0.04"): 1.05, ("gaussian", "0.3"): 1.7, ("gaussian", "0.02"): 60}
FAR |= {("pure", "0.04"): 6, ("pure", "0.3"): 14, ("pure", "0.02"): 400}


def falling(name, pair=("0.3", AT), **given):
    return TrainingBox(MODELS[name], FEATURES, "ill", falling=pair, rows_at_most=1_600_000, **given)


@pytest.mark.parametrize(("grown", "part"), [(1, 1), (8, 4), (Fraction(1, 27), Fraction(1, 9)), (1000, 100)])
def test_what_is_added_is_a_power_of_epsilon_times_rows(grown, part):
    added = FallingLam.of(("0.3", AT)).added(epsilon=AT * Fraction(grown) / 54, size=54)
    assert 0 <= added - Fraction(3, 10) / part < Fraction(1, 10**15)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beta", ["0.5", "0.05", "0.000001"])
@pytest.mark.parametrize("grown", [1, 100])
@pytest.mark.parametrize("pair", [("0.3", AT), ("0.02", AT), ("0.04", 4000)])
def test_the_law_covers_the_exact_quantile_of_equal_rows_and_a_smaller_constant_does_not(name, beta, grown, pair):
    """All curvature in one direction: there the rise is sigma^2 (c R^2 + lam) chi-squared/2, and lam W^2/2 is lost."""
    box, epsilon = falling(name, pair), Fraction(1, 4)
    size = 4 * pair[1] * grown
    problem = box.at(epsilon, size).problem(size, 3)
    scale = float(problem.sensitivity / epsilon)
    random = np.random.default_rng(3)
    if name == "pure":
        normal = random.normal(size=100_000) * np.sqrt(random.chisquare(problem.features + 1, 100_000))
        square = np.quantile(normal**2, 1 - float(beta))
    else:
        square = stats.chi2.isf(float(beta), 1)
    exact = scale**2 * float(problem.smoothness) * square / 2 + float(problem.lam) * 9 / 2
    told = box.law.error(size=size, epsilon=epsilon, beta=beta)
    assert exact <= told < FAR[name, pair[0]] * exact


@pytest.mark.parametrize("name", MODELS)
def test_the_error_falls_with_the_power_that_is_said(name):
    law = replace(falling(name).law, base=0)
    errors = [law.error(size=size, epsilon="0.1", beta="0.01") for size in (1000, 8000)]
    assert errors[0] == pytest.approx(4 * errors[1])
    assert law.power == Fraction(2, 3)


@pytest.mark.parametrize("name", MODELS)
def test_a_run_trains_with_the_lam_of_its_size_and_goes_on_after_a_restart(grown, name, tmp_path):
    pair = ("1.4", 4)
    box, place = falling(name, pair), tmp_path / "people.ledger"
    terms = {"beta": "0.05", "rho": "0.015", "growth": 1}
    with grown(ledger=place) as session:
        schedule = session.start(Rerun(box, **terms))
        first = schedule.ask()
        call = schedule.call
    lam = FallingLam.of(pair).added(epsilon=first.epsilon, size=1000)
    assert box.at(first.epsilon, 1000).lam == Fraction("1e-6") + lam
    noise = box.at(first.epsilon, 1000).problem(1000, 3).sensitivity / first.epsilon
    assert 0 < np.abs(box.classifier(first).coef_).max() < 60 * float(noise)
    with grown(2000, ledger=place) as session:
        for other in (falling(name, ("0.2", AT)), replace(box, falling=None)):
            with pytest.raises(InvalidParameter, match="another black box"):
                session.resume(call, bring=other)
        resumed = session.resume(call, bring=falling(name, pair))
        assert resumed.ask().size == 2000
        assert np.isfinite([run.excess_risk for run in box.follow(resumed.state).curve()]).all()


def test_less_noise_is_learnt_from_with_less_lam():
    """Without noise to speak of, weights are those of the optimum whose lam the size has."""
    box, rows = falling("gaussian"), people(0, 4000)
    inputs, labels = np.column_stack([rows["score"].to_numpy(), np.ones(4000)]), rows["ill"].to_numpy()
    lengths = []
    for epsilon in (Fraction(1, 100), Fraction(1, 10), Fraction(1)):
        model = box.at(epsilon, 4000).set_params(rho=10**6, unsafe_noise=Seeded(3))
        lengths.append(np.linalg.norm(model.fit(inputs, labels).coef_))
    assert lengths[0] < lengths[1] < lengths[2]


def test_what_is_proven_for_no_run_is_not_promised(grown):
    box = falling("gaussian", ("0.001", 10**5))
    improving = box.follow(grown().start(Rerun(box, **EVERY), follow=True).state)
    assert [run.excess_risk for run in improving.curve()] == [float("inf")]
    assert not box.proven("0.1", 10**6 - 1)
    assert box.proven("0.1", 10**6)


@pytest.mark.parametrize(
    "make",
    [
        lambda: falling("gaussian", ("0.3",)),
        lambda: falling("gaussian", (0, AT)),
        lambda: falling("gaussian", ("0.3", 0)),
        lambda: falling("gaussian", "0.3"),
        lambda: falling("gaussian", ("0.3", 10**6)),
        lambda: falling("gaussian").plan(Fraction(101, 100), PUBLIC),
        lambda: TrainingBox(logistic(rho=1, length=3), FEATURES, "ill", falling=("0.3", AT)),
        lambda: TrainingBox(logistic(rho=1, steps=0), FEATURES, "ill", falling=("0.3", AT)),
        lambda: TrainingBox(
            PrivateSVC(
                rho=1, lam="1e-3", radius=2, classes=["no", "yes"], loss="hinge", smoothing="0.1", steps=0, length=3
            ),
            FEATURES,
            "ill",
            falling=("0.3", AT),
        ),
    ],
)
def test_what_has_no_law_with_a_falling_lam_is_refused(make):
    with pytest.raises(InvalidParameter):
        make()


def test_regression_has_a_falling_lam_too(grown):
    ridge = PrivateRidge(rho=1, lam="1e-3", radius=2, label_bound=1, length=2, steps=0)
    box = TrainingBox(ridge, FEATURES, "score", falling=("0.3", AT), rows_at_most=20_000)
    assert not grown().start(Rerun(box, beta="0.05", rho="0.015", growth=1)).ask().failed
