"""Years of alarms: flags by the exact mechanism, stopped as a session stops, and scored rightly."""

from fractions import Fraction

import numpy as np
import pytest
import scipy
from tests.paths import beside

from chary.mechanisms import Laplace
from chary.mechanisms.threshold_tests import RestartingThreshold, ThresholdLaw
from chary.noise import Seeded
from chary_research.experiments import DataFolder
from chary_research.experiments.alarms import (
    BIKES,
    DELTA,
    LONDON,
    METHODS,
    RULES,
    SERIES,
    SOLAR,
    DailySeries,
    GaussianRuns,
    UsedUp,
    averaged,
    epsilon_of,
    scored,
    stopped,
    until_spent,
)
from chary_research.experiments.gaussian_losses import stopping_time

ALPHA = 1e-6
RANDOM = np.random.default_rng(5)
YEAR = DailySeries("made up", RANDOM.integers(0, 7000, 60), 7000, 1)
NARROW, WIDE = (GaussianRuns(YEAR, "0.5", noise) for noise in ("0.02", "0.2"))


@pytest.mark.parametrize("runs", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("name", RULES)
def test_runs_are_stopped_where_the_mechanism_of_sessions_stops(runs, name):
    rule = RULES[name](runs)
    restarting = RestartingThreshold(runs.mechanism, rule, lambda _: runs.losses)
    for seed in range(3):
        source, flags = Seeded(seed), runs.flags(Seeded(seed))
        values = [Fraction(value) for value in YEAR.values.tolist()]
        above, tested, state = restarting.scan(values, restarting.start(source), source)
        told = stopped(runs, flags, rule)
        assert told.days == tested
        assert np.flatnonzero(told.told(flags)).tolist() == list(above)
        if tested and "ours" in name and name.startswith("pure"):
            assert told.spent[-1] == pytest.approx(float(state.told.loss(runs.losses)))


def test_some_of_these_years_end_early_and_none_passes_its_budget():
    ends = {name: stopped(NARROW, NARROW.flags(Seeded(1)), rule(NARROW)) for name, rule in RULES.items()}
    assert min(end.days for end in ends.values()) < 60
    assert all(end.spent.max(initial=0) <= 1 for end in ends.values())
    assert all(np.all(np.diff(end.spent) >= 0) for end in ends.values())


def test_pure_stopping_by_hand():
    losses, flags = NARROW.losses, NARROW.flags(Seeded(3))
    closed, steps, days = 0.0, 0, 0
    for flag in flags:
        steps += 1
        if closed + max(losses.halted[steps - 1], losses.running[steps - 1]) > 1:
            break
        closed, steps, days = (closed + losses.halted[steps - 1], 0, days + 1) if flag else (closed, steps, days + 1)
    found = stopped(NARROW, flags, RULES["pure stopping (this work)"](NARROW))
    assert 0 < found.days == days < 60


def test_self_reporting_as_published_spends_more_deltas_than_it_has():
    published, added = (RULES[f"self-reporting, {kind}"](WIDE) for kind in ("as published", "deltas added"))
    assert published.runs == added.runs == 60
    assert published.run_epsilon < added.run_epsilon
    assert DELTA * published.runs > DELTA


def test_what_a_year_cost_is_its_losses_or_the_least_budget_that_pays_for_its_runs():
    for name, ruled in RULES.items():
        rule, cost = ruled(WIDE), epsilon_of(WIDE, name)
        assert cost(UsedUp(np.array([]))) == 0
        end = stopped(WIDE, WIDE.flags(Seeded(1)), rule)
        if not hasattr(rule, "runs") or "self-reporting" in name:
            assert cost(end) == end.spent[-1]
            continue
        begun = round(end.spent[-1] * rule.runs)
        assert ruled(WIDE, Fraction(cost(end)).limit_denominator(10**4)).runs >= begun > 0
        assert ruled(WIDE, Fraction(cost(end)).limit_denominator(10**4) * Fraction(4, 5)).runs < begun
        assert cost(UsedUp(np.array([1.0]))) == pytest.approx(1, abs=0.2)


def test_noise_too_small_for_a_run_begins_none():
    tiny = GaussianRuns(YEAR, "0.5", "0.001")
    flags = np.ones(60, dtype=bool)
    assert stopped(tiny, flags, RULES["filter, published costs"](tiny)).days == 0
    assert not stopped(tiny, flags, RULES["filter, published costs"](tiny)).told(flags).any()


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["0.2", "0.3"])
def test_stopping_times_are_those_of_the_exact_mechanism(noise):
    half, many = stopping_time(noise, "0.5", 0.5), 600
    zeros = GaussianRuns(DailySeries("zeros", np.zeros(many * half, dtype=np.int64), 1000, 1), "0.5", noise)
    stops, step = [], 0
    for flag in zeros.flags(Seeded(11)):
        step += 1
        if flag:
            stops.append(step)
            step = 0
    by_half, before = (sum(stop <= last for stop in stops) for last in (half, half - 1))
    assert scipy.stats.binomtest(by_half, len(stops), 0.5, "less").pvalue > ALPHA
    assert scipy.stats.binomtest(before, len(stops), 0.5, "greater").pvalue > ALPHA
    assert scipy.stats.binomtest(before, len(stops), 0.75, "less").pvalue < ALPHA


def test_the_mean_of_years_keeps_what_was_spent():
    ends = [UsedUp(np.array([0.1, 0.2])), UsedUp(np.array([]))]
    assert averaged(ends, 4).tolist() == [0.05, 0.1, 0.1, 0.1]


@pytest.mark.statistical
def test_target_charging_flags_by_the_exact_law():
    series = DailySeries("flat", np.full(4000, 500), 1000, 1)
    flags = METHODS["target charging"](series, 530, 4000, Seeded(2))
    call = Laplace.for_epsilon("0.0021", sensitivity=1)
    chance = ThresholdLaw(call.scale, 30).probabilities()[1]
    assert 0.4 < chance < 0.5
    assert scipy.stats.binomtest(int(flags.sum()), 4000, chance).pvalue > ALPHA


@pytest.mark.parametrize("name", METHODS)
def test_no_more_is_flagged_than_foreseen(name):
    flags = METHODS[name](YEAR, YEAR.bar("0.1"), 5, Seeded(4))
    assert flags.shape == (60,)
    assert flags.sum() <= 5
    assert until_spent(np.array([False, True, True]), 1).tolist() == [False, True, False]


def test_bars_and_scores():
    for share in ("0.3", "0.5", "0.501"):
        bar = YEAR.bar(share)
        assert Fraction(bar, 7000) >= Fraction(share) > Fraction(bar - 1, 7000)
    told, truth = np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool)
    precision = recall = 1 / 2
    assert scored(told, truth) == pytest.approx(2 * precision * recall / (precision + recall))
    assert scored(~truth & False, truth) == 0


@pytest.mark.parametrize("name", SERIES)
def test_series_lie_within_their_range(name):
    files = {"bikes": BIKES, "London": LONDON, "solar homes": SOLAR}
    series = SERIES[name](DataFolder(beside(files[name]).parent))
    assert series.values.min() >= 0
    assert series.values.max() <= series.top
    assert len(series.values) == (828 if name == "London" else 365)
    assert 1 / series.sensitivity == {"bikes": 6946, "London": 5564, "solar homes": 300}[name]
