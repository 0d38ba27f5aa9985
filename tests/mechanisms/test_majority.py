"""Majority votes: exact laws, privacy along the chain of all counts, and that the default is the best there is."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

from chary import noise
from chary.accounting import Pure
from chary.errors import InvalidParameter
from chary.mechanisms import MajorityVote

RULES = ["noise", "inverse", "exponential"]
EPSILON = 0.4


def brute(lead, moved, step):
    """The chance of yes from all values of the noise."""
    drawn = np.arange(-600, 601)
    mass = np.exp(-step * np.abs(drawn)) * math.tanh(step / 2)
    noisy = lead + moved * drawn
    return float(mass[noisy > 0].sum() + mass[noisy == 0].sum() / 2)


def chain(units, moved, rule):
    """P(yes) for every lead: of so many replaceable units, or of any number of units that come and go."""
    leads = range(-units, units + 1, moved)
    return np.array([MajorityVote(str(EPSILON), moved, rule).chance(lead) for lead in leads])


@pytest.mark.parametrize("moved", [1, 2])
@pytest.mark.parametrize("lead", [-9, -4, -1, 0, 1, 2, 3, 4, 25])
def test_the_default_law_is_that_of_brute_force(moved, lead):
    assert MajorityVote(str(EPSILON), moved).chance(lead) == pytest.approx(brute(lead, moved, EPSILON), abs=1e-14)


@pytest.mark.parametrize("r", [1, 2, 7])
def test_the_formulas_for_an_odd_number_of_units(r):
    lead = 2 * r - 1
    expected = {
        "noise": 1 - math.exp(-(r - 1) * EPSILON) / (1 + math.exp(EPSILON)),
        "inverse": 1 / (1 + math.exp(-r * EPSILON)),
        "exponential": 1 / (1 + math.exp(-(r - 0.5) * EPSILON)),
    }
    for rule, chance in expected.items():
        vote = MajorityVote(str(EPSILON), rule=rule)
        assert vote.chance(lead) == pytest.approx(chance, abs=1e-14)
        assert vote.chance(-lead) == pytest.approx(1 - chance, abs=1e-14)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("units", "moved"), [(41, 2), (40, 2), (40, 1)])
def test_no_neighbours_pass_epsilon_and_some_come_close(rule, units, moved):
    yes = chain(units, moved, rule)
    worst = max(np.abs(np.diff(np.log(chances))).max() for chances in (yes, 1 - yes))
    assert 0.9 * EPSILON < worst <= EPSILON * (1 + 1e-9)


def test_twice_the_epsilon_is_caught():
    yes = np.array([MajorityVote("0.8").chance(lead) for lead in range(-41, 42, 2)])
    assert np.abs(np.diff(np.log(yes))).max() > 1.9 * EPSILON


def private(size, factor):
    """Limits on the chances of yes: neighbours' chances of yes, and of no, differ by the factor at most."""
    ahead = np.eye(size, k=1)[:-1] - factor * np.eye(size)[:-1]
    rows = np.concatenate([ahead, ahead[::-1, ::-1]])
    return np.concatenate([rows, -rows]), np.concatenate([np.zeros(len(rows)), np.full(len(rows), factor - 1)])


@pytest.mark.parametrize(("units", "moved"), [(21, 2), (20, 2), (11, 1)])
def test_no_private_vote_that_treats_both_answers_alike_is_wrong_less_often(units, moved):
    """The best chance at every lead, by a linear program for each, is the default's at all leads at once."""
    leads = np.arange(-units, units + 1, moved)
    size = len(leads)
    rows, limits = private(size, math.exp(EPSILON))
    assert (rows @ chain(units, moved, "noise") <= limits + 1e-12).all()
    alike = np.eye(size) + np.eye(size)[::-1]
    for place in np.flatnonzero(leads > 0):
        found = linprog(-np.eye(size)[place], rows, limits, alike, np.ones(size), bounds=(0, 1))
        assert MajorityVote(str(EPSILON), moved).chance(int(leads[place])) == pytest.approx(-found.fun, abs=1e-9)


@pytest.mark.parametrize("moved", [1, 2])
@pytest.mark.parametrize("lead", [1, 2, 5, 30])
def test_the_rules_are_ordered(moved, lead):
    noisy, inverse, plain = (MajorityVote(str(EPSILON), moved, rule).chance(lead) for rule in RULES)
    assert noisy >= inverse >= plain > 0.5
    assert noisy > inverse or (moved == 2 and lead == 1)


@pytest.mark.statistical
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("lead", "moved"), [(3, 2), (0, 2), (-2, 2), (-2, 1), (0, 1)])
def test_samples_follow_the_law(rule, lead, moved):
    vote, source, size = MajorityVote(str(EPSILON), moved, rule), noise.Seeded(lead + 10 * moved), 20_000
    yes = sum(vote.step(lead, source) for _ in range(size))
    assert stats.binomtest(yes, size, vote.chance(lead)).pvalue > 1e-6
    if lead:
        for wrong in (EPSILON * 2, EPSILON / 2):
            assert stats.binomtest(yes, size, MajorityVote(str(wrong), moved, rule).chance(lead)).pvalue < 1e-6


@pytest.mark.parametrize("rule", RULES)
def test_practically_without_noise(rule):
    vote, source = MajorityVote(1000, rule=rule), noise.OperatingSystem()
    assert [vote.step(lead, source) for lead in (-(10**30), -1, 1, 10**30)] == [False, False, True, True]
    assert vote.event() == Pure(1000)
    assert vote.chance(10**4) == 1


@pytest.mark.parametrize(
    ("epsilon", "moved", "rule"),
    [(0, 1, "noise"), ("nan", 1, "noise"), (1, 3, "noise"), (1, 0, "noise"), (1, 1, "best")],
)
def test_parameters_are_checked(epsilon, moved, rule):
    with pytest.raises(InvalidParameter):
        MajorityVote(epsilon, moved, rule)


@pytest.mark.parametrize(("moved", "lead", "answer"), [(1, 4, True), (1, 2, False), (2, 7, True), (2, 5, False)])
def test_noise_comes_in_steps_of_what_one_unit_moves(moved, lead, answer, monkeypatch):
    monkeypatch.setattr(noise, "discrete_laplace", lambda source, scale, size: np.array([-3]))
    assert MajorityVote("0.3", moved).step(lead, noise.Seeded(1)) is answer
