"""Population risk: a location problem whose risks are known in closed form, drawn often; the terms by hand."""

import math

import numpy as np
import pytest

from chary.accounting.schedules import population_risk_up
from chary.errors import InvalidParameter

LAM, RADIUS, SIZE = 0.5, 1.0, 40


def drawn(penalised, draws=4000):
    """Excess risks, empirical and on the population, of weights off the optimum, for losses of points -1 and 1.

    `-z w` and a quadratic around 0: part of the loss (strongly convex), or a penalty beside linear losses.
    """
    generator = np.random.default_rng(7)
    mean = generator.choice([-1.0, 1.0], (draws, SIZE), p=[0.3, 0.7]).mean(axis=1)
    best = np.clip(mean / LAM, -RADIUS, RADIUS)
    weights = np.clip(best + generator.choice([-0.1, 0, 0.1], draws), -RADIUS, RADIUS)

    def risk(w, center, lam):
        return lam * w**2 / 2 - center * w

    excess = risk(weights, mean, LAM) - risk(best, mean, LAM)
    true_lam = 0 if penalised else LAM
    optimum = RADIUS if penalised else min(0.4 / LAM, RADIUS)
    return excess, risk(weights, 0.4, true_lam) - risk(optimum, 0.4, true_lam)


@pytest.mark.parametrize("penalised", [False, True])
@pytest.mark.parametrize("beta", [0.5, 0.05])
def test_no_more_than_beta_exceed_it(penalised, beta):
    excess, population = drawn(penalised)
    terms = {"radius": RADIUS, "lipschitz": 1} if penalised else {"lipschitz": 1 + LAM * RADIUS}
    bounds = [population_risk_up(excess=e, size=SIZE, lam=LAM, beta=beta, **terms) for e in np.maximum(excess, 0)]
    # Of 4,000 draws at most so many, but for one in a million.
    most = beta * 4000 + 5 * math.sqrt(beta * (1 - beta) * 4000)
    assert (population > bounds).sum() <= most


def test_terms_by_hand():
    bound = population_risk_up(excess="0.02", size=100, lam="0.5", beta="0.1", lipschitz=3)
    assert bound == pytest.approx(3 * math.sqrt(2 * 0.02 / 0.5) + 2 * 9 / (0.1 * 0.5 * 100))
    penalised = population_risk_up(excess="0.02", size=100, lam="0.5", beta="0.1", lipschitz=3, radius=2)
    assert penalised == pytest.approx(4 * math.sqrt(0.08) + 2 * 16 / 5 + 0.5 * 4 / 2)


def test_half_of_the_published_last_term():
    ours = population_risk_up(excess=0, size=1000, lam=1, beta="0.05", lipschitz=2)
    assert ours == pytest.approx(4 * 4 / (0.05 * 1000) / 2)


def test_one_row_moves_the_optimum_no_further_and_may_move_it_so_far():
    """The stability that the proof rests on is attained by linear losses with opposite slopes."""
    one, other = np.array([1.0] * 20), np.array([1.0] * 19 + [-1.0])
    lam = 4.0
    assert abs(one.mean() - other.mean()) / lam == pytest.approx(2 / (lam * 20))


@pytest.mark.parametrize("bad", [{"excess": -1}, {"size": 0}, {"lam": 0}, {"beta": 1}, {"lipschitz": 0}, {"radius": 0}])
def test_bad_numbers_are_refused(bad):
    with pytest.raises(InvalidParameter):
        population_risk_up(**({"excess": "0.1", "size": 10, "lam": 1, "beta": "0.05"} | bad))
