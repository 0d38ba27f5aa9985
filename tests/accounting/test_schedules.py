"""Schedules: infinite sums against the budget, sizes and shares by brute force, growth against a search."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from chary import InvalidParameter
from chary.accounting import Pure, ZeroConcentrated
from chary.accounting.schedules import (
    EpochRuns,
    EveryRun,
    Law,
    best_growth,
    epochs_error,
    runs_of_body,
    zeta_up,
)
from chary_research.published import published_growth

starts = st.integers(1, 5000)
growths = st.fractions(Fraction(1, 200), 4, max_denominator=1000)
budgets = st.sampled_from([Fraction(1, 100), Fraction(1), Fraction(7, 3)])
betas = st.sampled_from([Fraction(1, 20), Fraction(1, 2), Fraction(1, 1000)])
exponents = st.fractions(Fraction(1, 50), Fraction(12, 25), max_denominator=100)
few = settings(max_examples=40, deadline=None)


def shares_of(growth, many):
    """`(i+1) (1+g)^-i` without any rounding."""
    x = 1 / (1 + growth)
    return [(i + 1) * x**i for i in range(many)]


@few
@given(growths, budgets)
def test_pure_shares_add_up_to_the_budget_and_never_exceed_it(growth, epsilon):
    runs = EpochRuns(start=100, growth=growth, beta="0.05", epsilon=epsilon)
    x, many = 1 / (1 + growth), 60
    tail = epsilon * x**many * (many + 1 - many * x)
    total = sum(runs.epsilon_down(i, i) for i in range(many)) + tail
    assert epsilon * (1 - Fraction(1, 10**15)) < total <= epsilon


@few
@given(growths, budgets)
def test_zcdp_shares_add_up_to_the_budget_and_never_exceed_it(growth, rho):
    runs = EpochRuns(start=100, growth=growth, beta="0.05", rho=rho)
    y, many = (1 + growth) ** -2, 40
    whole = (1 + y) / (1 - y) ** 3
    tail = rho * (whole - sum(share**2 for share in shares_of(growth, many))) / whole
    total = sum(runs.epsilon_down(i, i) ** 2 for i in range(many)) / 2 + tail
    assert rho * (1 - Fraction(1, 10**15)) < total <= rho


@pytest.mark.parametrize("growth", ["0.0001", "0.05"])
def test_a_million_epochs_stay_below_the_budget(growth):
    pure = EpochRuns(start=100, growth=growth, beta="0.05", epsilon=1)
    both = EpochRuns(start=100, growth=growth, beta="0.05", rho=1)
    i = np.arange(10**6)
    decay = (i + 1) * np.exp(-i * math.log1p(float(growth)))
    for total in (
        float(pure.epsilon_down(0, 0)) * decay.sum(),
        float(both.epsilon_down(0, 0)) ** 2 * (decay @ decay) / 2,
    ):
        assert 1 - 1e-9 < total < 1 + 1e-12
    for i in (7, 1000):
        assert float(pure.epsilon_down(i, i)) == pytest.approx(float(pure.epsilon_down(0, 0)) * decay[i], rel=1e-12)


@pytest.mark.parametrize("exponent", ["0.1", "0.4"])
@pytest.mark.parametrize("start", [1, 1000])
def test_a_million_sizes_and_the_tail_after_them_stay_below_the_budget(exponent, start):
    runs = EveryRun(start=start, exponent=exponent, beta="0.05", rho=1)
    c, many = float(exponent), 10**6
    e0 = float(runs.epsilon_down(0, 0)) * start ** (0.5 + c)
    t = np.arange(start, start + many, dtype=float)
    head = math.fsum(e0**2 * t ** (-1 - 2 * c)) / 2
    above = e0**2 * (start + many - 0.5) ** (-2 * c) / (2 * c) / 2
    below = e0**2 * (start + many) ** (-2 * c) / (2 * c) / 2
    assert head < 1
    assert head + below < 1 + 1e-12
    assert head + above > 1 - 1e-8
    for i in (3, 999_999):
        assert float(runs.epsilon_down(i, i)) == pytest.approx(e0 * (start + i) ** (-0.5 - c), rel=1e-12)


@few
@given(growths, st.sampled_from([Fraction(3, 2), Fraction(8), Fraction(40)]), st.booleans())
def test_log_moments_of_the_runs_add_up_to_at_most_that_of_the_opening(growth, order, pure):
    """So the opening pays for the runs under a Renyi filter, whatever is asked in between."""
    runs = EpochRuns(start=100, growth=growth, beta="0.05", **({"epsilon": 1} if pure else {"rho": "0.1"}))
    moments = [Pure(runs.epsilon_down(i, i)).log_moment_up(order) for i in range(15)]
    assert sum(moments) <= runs.event.log_moment_up(order)


@few
@given(st.fractions(Fraction(101, 100), 3, max_denominator=100), starts)
def test_zeta_is_a_close_upper_bound(s, start):
    exact = arb(s.numerator) / s.denominator
    known = exact.zeta(arb(start))
    found = zeta_up(s, start)
    ratio = arb(found.numerator) / found.denominator / known
    assert ratio > 1 - arb(1e-13)
    assert ratio < 1 + arb(1e-9)


def test_zeta_of_a_divergent_sum_is_refused():
    with pytest.raises(InvalidParameter, match="infinite"):
        zeta_up(1, 5)


@few
@given(growths, st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True), st.booleans())
def test_runs_that_take_over_the_shares_of_others_stay_within_the_budget(growth, cuts, pure):
    total = {"epsilon": 1} if pure else {"rho": Fraction(1, 2)}
    runs = EpochRuns(start=100, growth=growth, beta="0.05", **total)
    spans = [(first, last - 1) for first, last in pairwise([0, *[cut + 1 for cut in sorted(cuts)]])]
    power = 1 if pure else 2
    joint = sum(runs.epsilon_down(*span) ** power for span in spans)
    apart = sum(runs.epsilon_down(i, i) ** power for first, last in spans for i in range(first, last + 1))
    assert joint <= 1
    assert abs(joint - apart) < Fraction(1, 10**12)


@few
@given(exponents, starts, st.integers(0, 300), st.integers(0, 300))
def test_sizes_that_take_over_shares_take_no_more_than_those(exponent, start, first, many):
    runs = EveryRun(start=start, exponent=exponent, beta="0.05", rho=1)
    joint = runs.epsilon_down(first, first + many) ** 2
    apart = sum(runs.epsilon_down(i, i) ** 2 for i in range(first, first + many + 1))
    assert Fraction(7, 10) * apart <= joint <= apart * (1 + Fraction(1, 10**15))


@few
@given(starts, growths, st.integers(0, 40))
def test_the_last_run_due_by_brute_force(start, growth, steps):
    runs = EpochRuns(start=start, growth=growth, beta="0.05", epsilon=1)
    most = runs.size(steps) + 1
    exact = [Fraction(start)]
    while exact[-1] <= most:
        exact.append(exact[-1] * (1 + growth))
    for size in range(most - 2, most + 1):
        due = [i for i, bound in enumerate(exact) if bound <= size]
        assert runs.last(size) == (due[-1] if due else None)
    assert all(runs.size(i) - 1 < bound <= runs.size(i) for i, bound in enumerate(exact))


@few
@given(st.integers(1, 400), growths, st.integers(0, 12))
def test_rounding_sizes_up_keeps_staleness_and_accuracy(start, growth, run):
    runs = EpochRuns(start=start, growth=growth, beta="0.05", epsilon=1)
    bound = growth / (1 + growth)
    sizes = range(runs.size(run), min(runs.size(run + 1), runs.size(run) + 2000))
    assert all(Fraction(size - runs.size(run), size) <= bound for size in sizes)
    assert runs.size(run) * shares_of(growth, run + 1)[run] >= start * (run + 1)
    for law in (Law(1, 2, 7), Law("1/3", 2), Law(1, 2, 7, "1/2")):
        promised = epochs_error(law, start=start, growth=growth, beta="0.05", epsilon=1) - runs.staleness
        assert runs.error(law, run) <= promised * (1 + 1e-9)


@few
@given(growths, betas, starts)
def test_failures_add_up_to_beta(growth, beta, start):
    epochs = EpochRuns(start=start, growth=growth, beta=beta, epsilon=1)
    ratio = beta / (1 + beta)
    assert sum(epochs.failure(i) for i in range(30)) + ratio**31 / (1 - ratio) == beta
    every = EveryRun(start=start, exponent="0.1", beta=beta, rho=1)
    assert sum(float(every.failure(i)) for i in range(1000)) + float(beta) / (2 * (start + 999)) < beta


@pytest.mark.parametrize("power", ["1", "0.5", "0.3333"])
@pytest.mark.parametrize("start", [3000, 10**6, 10**16, 10**28])
def test_pure_growth_has_a_closed_form(power, start):
    law = Law(power, 2, 10)
    a = law.error(size=start, epsilon=1, beta=Fraction(1, 21))
    stale = min(0.9, (2 * float(power) * a) ** (1 / (2 * float(power) + 1)))
    found = best_growth(law, start=start, beta="0.05", epsilon=1)
    assert float(found) == pytest.approx(stale / (1 - stale), rel=2e-3)


@pytest.mark.parametrize("start", [50_000, 10**18])
@pytest.mark.parametrize("total", [{"epsilon": 1}, {"rho": "0.01"}])
def test_no_other_growth_is_better(total, start):
    law, common = Law(1, 2, 20), {"start": start, "beta": "0.05", **total}
    best = epochs_error(law, growth=best_growth(law, **common), **common)
    others = [epochs_error(law, growth=Fraction(f"{g:.6g}"), **common) for g in np.geomspace(1e-10, 5, 400)]
    assert best <= min(others) * (1 + 1e-6)


@pytest.mark.parametrize("growth", ["1e-11", "1e-7", "0.3"])
@pytest.mark.parametrize("total", [{"epsilon": 1}, {"rho": "0.01"}])
@pytest.mark.parametrize("law", [Law(1, 2, 20), Law(1, 2, size_power="0.7", size_log=1)])
def test_the_error_of_a_small_growth_is_that_of_its_first_run(law, total, growth):
    common = {"start": 10**20, "growth": growth, "beta": "0.05", **total}
    runs = EpochRuns(fall=law.fall, logs=law.logs, **common)
    assert epochs_error(law, **common) == pytest.approx(runs.error(law, 0) + runs.staleness, rel=1e-9, abs=0)


def test_a_law_of_many_powers_has_a_growth():
    law = Law(20, 2, log_power=8)
    assert 0 < best_growth(law, start=10**9, beta="0.05", epsilon=1) < 9


def test_what_no_epsilon_improves_is_added_to_every_error_and_changes_no_growth():
    sizes = {"size": 1000, "epsilon": "0.5", "beta": "0.05"}
    assert Law(1, 2, base="0.25").error(**sizes) == 0.25 + Law(1, 2).error(**sizes)
    common = {"start": 50_000, "beta": "0.05", "epsilon": 1}
    assert best_growth(Law(1, 2, base="0.25"), **common) == best_growth(Law(1, 2), **common)
    assert "base" not in Law(1, 2).body()
    assert Law(1, 2, base="0.25").body()["base"] == "1/4"


def test_the_published_growth_follows_its_powers():
    law, common = Law(1, 2), {"beta": "0.05", "epsilon": 1}
    pure = [published_growth(law, start=n, **common) for n in (1000, 8000)]
    assert pure[0] / pure[1] == pytest.approx(8 ** (1 / 3))
    approximate = [published_growth(law, start=n, delta=1e-6, **common) for n in (1000, 32000)]
    assert approximate[0] / approximate[1] == pytest.approx(32 ** (1 / 2.5))


@pytest.mark.parametrize(
    "runs",
    [
        EpochRuns(start=7, growth="1/3", beta="0.1", epsilon=2),
        EpochRuns(start=7, growth="0.2", beta="0.1", rho=2),
        EveryRun(start=7, exponent="0.2", beta="0.1", rho="1/3"),
    ],
)
def test_terms_survive_json(runs):
    assert runs_of_body(runs.body()) == runs
    assert runs.event == (Pure(2) if "epsilon" in runs.body() else ZeroConcentrated(runs.rho))


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": 0},
        {"growth": 0},
        {"growth": float("nan")},
        {"beta": 1},
        {"epsilon": 0},
        {"rho": 1},
        {"epsilon": None},
    ],
)
def test_what_makes_no_schedule_is_refused(wrong):
    with pytest.raises(InvalidParameter):
        EpochRuns(**({"start": 10, "growth": "0.1", "beta": "0.05", "epsilon": 1} | wrong))


@pytest.mark.parametrize("exponent", [0, "0.5", -1, True])
def test_an_exponent_that_makes_no_schedule_is_refused(exponent):
    with pytest.raises(InvalidParameter):
        EveryRun(start=10, exponent=exponent, beta="0.05", rho=1)


@pytest.mark.parametrize("law", [(1,), "12", (0, 1), (1, -1), 5, None])
def test_what_is_no_law_is_refused(law):
    with pytest.raises(InvalidParameter):
        Law.of(law)
    with pytest.raises(InvalidParameter, match="choices"):
        Law(1, 1, "0.5")
    with pytest.raises(InvalidParameter, match="log_power"):
        Law(1, 1, 1, 9)
    with pytest.raises(InvalidParameter, match="base"):
        Law(1, 1, base="-0.1")


@pytest.mark.parametrize("growth", ["0.1", "9", "1e-9", "1e-290"])
def test_runs_beyond_any_table_are_refused_in_one_line(growth):
    runs = EpochRuns(start=1000, growth=growth, beta="0.05", epsilon=1)
    with pytest.raises(InvalidParameter, match="fewer runs"):
        runs.size(10**7)


def test_the_sizes_of_runs_are_told_up_to_two_hundred_doublings():
    runs = EpochRuns(start=1000, growth=1, beta="0.05", epsilon=1)
    assert runs.size(200) == 1000 * 2**200
    assert 0 < runs.error(Law(1, 2), 200) < 0.1
