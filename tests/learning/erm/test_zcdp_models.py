"""Models with a rho: Gaussian noise on the optimum, what a session charges, which sizes are refused."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from chary import InvalidParameter, NotPriced
from chary.accounting import ZeroConcentrated
from chary.calls import RunAlgorithm
from chary.learning import Categorical, PrivateRidge, TrainingBox
from chary.learning.optimum import gaussian_cells, grid_for
from chary.noise import Seeded
from tests.session.kit import spent

from .growing_kit import ALPHA, FEATURES, WRONG, logistic


@pytest.mark.statistical
def test_gaussian_cells_follow_the_normal_law_whatever_the_center():
    sigma, grid = Fraction(3, 2), grid_for(Fraction(3, 2))
    source, center = Seeded(2), [Fraction(1, 3), Fraction(-5), Fraction(0)]
    found = np.array([gaussian_cells(center, sigma, grid, source) for _ in range(500)]) * float(grid)
    off = ((found + float(grid) / 2 - [1 / 3, -5, 0]) / float(sigma)).ravel()
    assert stats.kstest(off, stats.norm.cdf).pvalue > ALPHA
    assert max(stats.kstest(off, stats.norm(scale=wrong).cdf).pvalue for wrong in WRONG) < ALPHA
    lengths = (off.reshape(-1, 3) ** 2).sum(axis=1)
    assert stats.kstest(lengths, stats.chi2(3).cdf).pvalue > ALPHA


def test_the_same_words_on_a_finer_grid_lie_in_the_same_gaussian_cells():
    center = [Fraction(1, 3), Fraction(-2, 7)]
    for seed in range(100):
        coarse, fine = (gaussian_cells(center, Fraction(3, 4), Fraction(1, n), Seeded(seed)) for n in (4, 64))
        assert coarse == [cell // 16 for cell in fine]


@pytest.mark.statistical
@pytest.mark.parametrize(("sizes", "law"), [({"epsilon": 2}, stats.expon), ({"rho": 2, "steps": 0}, stats.chi(1))])
def test_the_excess_risk_of_a_perturbed_optimum_is_what_its_law_starts_from(sizes, law):
    """In one column of ones the objective is a parabola as steep as its bound, so the excess is exact."""
    rows, labels = np.ones((500, 1)), np.full(500, 0.5)
    model = PrivateRidge(lam="0.5", radius=1, label_bound=1, fit_intercept=False, **sizes)
    problem, best = model.problem(500, 1), 0.5 / 1.5
    found = [float(model.set_params(unsafe_noise=Seeded(s)).fit(rows, labels).coef_[0]) for s in range(300)]
    unit = float(problem.sensitivity) / 2
    excess = float(problem.smoothness) / 2 * (np.array(found) - best) ** 2
    lengths = np.sqrt(2 * excess / float(problem.smoothness)) / unit
    assert stats.kstest(lengths, law.cdf).pvalue > ALPHA
    assert max(stats.kstest(lengths * wrong, law.cdf).pvalue for wrong in WRONG) < ALPHA
    told = TrainingBox(model, ["x"], "y").law.error(size=500, epsilon=2, beta="0.2")
    assert np.quantile(excess, 0.8) / 2 < told
    assert (excess > told).mean() <= 0.2


def test_a_model_with_a_rho_is_charged_natively(grown):
    session = grown()
    for steps in (0, 20):
        outcome = session.ask(
            RunAlgorithm(logistic(rho="0.001", steps=steps).algorithm(features=FEATURES, label="ill"))
        )
        assert len(outcome.value["weights"]) == 4
    assert spent(session).main == 2 * session.spine.filter.price(ZeroConcentrated("0.001")).hit.main
    with pytest.raises(NotPriced):
        session.ask(RunAlgorithm(logistic(epsilon="0.1", delta="1e-7").algorithm(features=FEATURES, label="ill")))


def test_the_question_of_a_model_without_a_rho_is_what_it_always_was():
    assert logistic(epsilon=1).body() == {
        "learner": "PrivateLogisticRegression",
        "epsilon": "1",
        "delta": 0,
        "lam": "0.01",
        "radius": 2,
        "fit_intercept": True,
        "steps": 20,
        "classes": ["no", "yes"],
    } | {"epsilon": 1}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"epsilon": 1, "rho": 1},
        {"rho": 1, "delta": "1e-6"},
        {"rho": 0},
        {"rho": 1, "length": 0},
        {"rho": 1, "length": -1},
        {"rho": 1, "steps": -1},
        {"epsilon": 1, "steps": 0},
        {"epsilon": "1e-60"},
        {"rho": "1e-15"},
        {"rho": "1e-15", "length": 3},
        {"rho": 10**60},
        {"rho": 1, "length": "1e-320"},
        {"rho": 1, "length": 3, "lam": "1e-400"},
        {"rho": 1, "length": 3, "radius": 10**200},
    ],
)
def test_wrong_sizes_of_a_model_are_refused(given):
    with pytest.raises(InvalidParameter):
        logistic(**given).check()


@pytest.mark.parametrize(
    ("model", "given", "match"),
    [
        ({"rho": "1e-12", "steps": 5000}, {}, "too small for these steps"),
        ({"rho": 1, "length": 3}, {"size": 1 << 26}, "summed up"),
        ({"rho": 1, "lam": "4e-7"}, {"features": [Categorical("sex", list(range(10**6)))]}, "lam is too small"),
        ({"rho": 1}, {"label": None}, "label="),
        ({"rho": 1}, {"features": "age"}, "features="),
    ],
)
def test_what_could_not_be_trained_is_refused_before_anything_is_charged(grown, model, given, match):
    session = grown()
    with pytest.raises(InvalidParameter, match=match):
        session.ask(RunAlgorithm(logistic(**model).algorithm(**{"features": FEATURES, "label": "ill"} | given)))
    assert session.history == []
