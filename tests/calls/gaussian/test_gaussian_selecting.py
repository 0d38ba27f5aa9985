"""Noisy maxima and runs of threshold tests with Gaussian noise: their answers, their price, what they remember."""

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.special

import chary
from chary import Budget, BudgetExceeded, InvalidParameter, InvalidQuery, NotPriced, NotWithheld, count, mean
from chary.accounting import (
    Concentrated,
    ExPost,
    Pure,
    ZeroConcentrated,
    above_threshold_epsilons_up,
    noisy_max_epsilon_up,
)
from chary.accounting.gaussian_runs import RunHit, RunOpening
from chary.amounts import MAIN_STEPS, Amount
from chary.calls import Choose, GaussianAboveThreshold
from chary.calls.choices import Gaps
from chary.calls.gaussian_runs import RunState
from chary.errors import RequestConflict
from chary.mechanisms import GaussianThreshold
from chary.noise import Deviate, Seeded
from tests.mechanisms.gaussian_laws import log_stopping
from tests.session.kit import CLINICS, NO_NOISE, error_texts, shows_data, spent

TERMS = {"threshold": 60, "threshold_noise": 20, "low": 0, "high": 100}
FAR = TERMS | {"threshold": 120}
BY_CLINIC = count().by("clinic", CLINICS)


def losses(steps, sensitivity=1, terms=TERMS):
    """Upper bounds of halted and running losses by hand."""
    return above_threshold_epsilons_up(
        steps,
        sensitivity=Fraction(sensitivity),
        threshold_noise=Fraction(terms["threshold_noise"]),
        query_noise=GaussianThreshold(0, terms["threshold_noise"]).scales[1],
        threshold=Fraction(terms["threshold"]),
        low=Fraction(terms["low"]),
        high=Fraction(terms["high"]),
    )


def worst(steps, sensitivity=1, terms=TERMS):
    """The largest loss of any outcome of step `steps`."""
    return max(float(column[steps - 1]) for column in losses(max(64, steps), sensitivity, terms))


# Noisy maxima
noisy_max = partial(Choose, mechanism="gaussian")


def wards(sizes):
    """Wards of these sizes, each patient in one of them."""
    places = [ward for ward, size in enumerate(sizes) for _ in range(size)]
    return pd.DataFrame({"patient": range(len(places)), "ward": places, "cost": [1.25] * len(places)})


def test_without_noise_the_largest_wins(opened, place):
    session = opened(rows=wards([5, 9, 7]), budget=NO_NOISE, ledger=place)
    by = count().by("ward", range(3))
    won = session.ask(noisy_max(by, low=0, high=20, noise="0.1"))
    assert (won.key, won.clipped_to, won.noise) == ((1,), (0.0, 20.0), 0.1)
    costs = chary.sum("cost", bounds=(0, 5), grid="0.25", max_rows_per_unit=1).by("ward", range(3))
    assert session.ask(noisy_max(costs, low=0, high="20.1", noise="0.1")).key == (1,)
    inverted = chary.sum("cost", bounds=(-5, 0), grid=1, max_rows_per_unit=1).by("ward", range(3))
    assert session.ask(noisy_max(inverted, low=-20, high=0, noise="0.1")).clipped_to == (-20.0, 0.0)


def test_values_are_clipped_before_they_are_compared(opened):
    session = opened(rows=wards([5, 9, 7, 1]), budget=NO_NOISE, unsafe_noise=Seeded(3))
    by = count().by("ward", range(4))
    ask = lambda **bounds: {session.ask(noisy_max(by, noise="0.1", **bounds)).key[0] for _ in range(40)}  # noqa: E731
    assert ask(low=0, high=7) == {1, 2}
    assert ask(low=0, high=3) == {0, 1, 2}
    assert ask(low=20, high=30) == {0, 1, 2, 3}


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_the_price_is_the_pure_epsilon_of_the_noise(opened, neighbors):
    session = opened(budget=Budget(epsilon=10), neighbors=neighbors)
    gap = Fraction(1, 2) if neighbors == "add_remove" else 1
    exact = noisy_max_epsilon_up(3, sensitivity=gap, noise=Fraction(40), spread=100)
    session.ask(noisy_max(BY_CLINIC, low=0, high=100, noise=40))
    assert spent(session).main == math.ceil(Fraction(float(exact)) * MAIN_STEPS)
    signed = chary.sum("cost", bounds=(-3, 3), max_rows_per_unit=1).by("clinic", CLINICS)
    before = spent(session).main
    session.ask(noisy_max(signed, low=0, high=100, noise=40))
    # A unit that comes or goes is in one key, so it moves all keys in one direction, whichever.
    moved = Fraction(signed.sensitivity(session.spine.rows.neighbor_relation)) / (2 if neighbors == "add_remove" else 1)
    exact = noisy_max_epsilon_up(3, sensitivity=moved, noise=Fraction(40), spread=100)
    assert spent(session).main - before == math.ceil(Fraction(float(exact)) * MAIN_STEPS)


@pytest.mark.parametrize("epsilon", ["1e-13", 4000])
def test_extreme_epsilons_have_noise(pure, epsilon):
    won = pure(4500).ask(noisy_max(BY_CLINIC, low=0, high=100, epsilon=epsilon))
    assert won.noise > 10**9 if epsilon == "1e-13" else won.noise < 10


@pytest.mark.parametrize("epsilon", ["0.003", "0.2", "3"])
def test_noise_for_an_epsilon_is_just_enough(pure, epsilon):
    session = pure(10)
    won = session.ask(noisy_max(BY_CLINIC, low=0, high=100, epsilon=epsilon))
    assert spent(session).main == Fraction(epsilon) * MAIN_STEPS
    noise = Fraction(str(won.noise))
    price = [
        noisy_max_epsilon_up(3, sensitivity=Fraction(1, 2), noise=noise * f, spread=100) for f in (1, Fraction(99, 100))
    ]
    assert float(price[0]) <= float(epsilon) < float(price[1])


def test_a_maximum_under_a_renyi_filter_costs_the_cheaper_of_both_laws(opened):
    session = opened()
    won = session.ask(noisy_max(BY_CLINIC, low=0, high=100, epsilon="0.1"))
    # One patient is in one of three clinics: two thirds of the squared step are left without the mean.
    rho = Fraction(2, 3) / 2 / Fraction(str(won.noise)) ** 2
    prices = [session.spine.filter.price(event).hit for event in (Pure("0.1"), ZeroConcentrated(rho))]
    assert spent(session) == min(prices, key=lambda hit: hit.main)
    assert spent(session) == session.spine.filter.price(Concentrated("0.1", rho)).hit


@pytest.mark.parametrize(("keys", "reach", "together"), [(2, 1, True), (5, 4, True), (4, 3, True), (4, 2, False)])
def test_the_concentrated_loss_is_that_of_the_worst_step_less_its_mean(keys, reach, together):
    gaps = Gaps(keys, 0, 9, Fraction(3, 2) if together else Fraction(3), reach, together)
    moves = itertools.product([0, 3] if together else [-3, 0, 3], repeat=keys)
    steps = [np.array(move) for move in moves if np.count_nonzero(move) <= reach]
    worst = max(np.sum((step - step.mean()) ** 2) for step in steps)
    assert float(gaps.rho_up(Fraction(7))) == pytest.approx(worst / 98)


@pytest.mark.parametrize("order", [2, 8])
def test_the_concentrated_loss_bounds_the_law_of_a_maximum(order):
    """Two of three values rise together: the chance that each wins, by quadrature."""
    noise, moved = 2.0, np.array([1.0, 1.0, 0.0])
    places, weights = np.polynomial.hermite_e.hermegauss(120)

    def law(values):
        lead = lambda i, j: scipy.special.ndtr(places + (values[i] - values[j]) / noise)  # noqa: E731
        won = [np.prod([lead(i, j) for j in range(3) if j != i], axis=0) @ weights for i in range(3)]
        return np.array(won) / sum(won)

    p, q = law(moved), law(0 * moved)
    gaps = Gaps(3, 0, 9, Fraction(1, 2), 2, True)
    bound = order * (order - 1) * float(gaps.rho_up(Fraction(2)))
    found = max(math.log(np.sum(a**order * b ** (1 - order))) for a, b in ((p, q), (q, p)))
    assert bound / 3 < found <= bound


def test_a_maximum_of_a_series():
    rows = pd.DataFrame({"cnt": [5, 900, -3, 70]})
    with chary.open_counts(rows, column="cnt", sensitivity=1, budget=NO_NOISE, ledger=":memory:") as session:
        assert session.ask(noisy_max(session.series(), low=0, high=1000, noise=1)).key == (1,)


def test_a_refused_maximum_says_what_would_fit(pure):
    session = pure()
    with pytest.raises(BudgetExceeded, match="would fit"):
        session.ask(noisy_max(BY_CLINIC, low=0, high=100, epsilon=2))
    with pytest.raises(BudgetExceeded):
        session.ask(noisy_max(BY_CLINIC, low=0, high=100, noise="0.5"))
    assert session.history == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"low": 100},
        {"low": "0.2", "high": "0.9"},
        {"low": math.nan},
        {"high": None},
        {"high": 2**63},
        {"noise": 0},
        {"noise": None},
        {"epsilon": "0.1"},
        {"noise": None, "epsilon": 0},
        {"noise": None, "epsilon": "1e-20"},
        {"noise": "1e-9"},
        {"mechanism": None},
        {"mechanism": "laplace", "noise": None, "epsilon": 1},
        {"lead": True},
        {"query": count()},
        {"query": count().by("clinic", ["north"])},
        {"query": "age"},
        {"query": mean("cost", bounds=(0, 9), max_rows_per_unit=1)},
    ],
)
def test_a_wrong_maximum_charges_nothing(pure, wrong):
    session = pure()
    given = {"query": BY_CLINIC, "low": 0, "high": 100, "noise": 40} | wrong
    with pytest.raises((InvalidParameter, InvalidQuery)):
        session.ask(noisy_max(given.pop("query"), **given))
    assert session.history == []


# Runs


def test_without_noise_a_run_ends_at_the_first_value_above(opened, place):
    session = opened(budget=NO_NOISE, ledger=place)
    terms = TERMS | {"threshold": 40, "threshold_noise": "0.5"}
    with session.start(GaussianAboveThreshold(**terms)) as run:
        assert run.ask(count("age < 0")).value is False
        assert (run.state.steps, run.state.told) == (1, "running")
        assert run.ask(count()).value is True
        assert (run.state.steps, run.state.told) == (2, "halted at step 2")
        with pytest.raises(NotWithheld, match="halted at step 2"):
            run.ask(count())
    with session.start(GaussianAboveThreshold(**(terms | {"threshold": 45, "high": 30}))) as run:
        assert run.ask(count()).value is False
    with session.start(GaussianAboveThreshold(**(terms | {"threshold": -20, "low": -10}))) as run:
        assert run.ask(count("age < 0")).value is True


def test_a_run_tells_that_it_clips(pure):
    run = pure().start(GaussianAboveThreshold(**TERMS))
    assert "clipped_to=(0.0, 100.0)" in repr(run.state)
    assert run.state.clipped_to == (0.0, 100.0)


def test_opening_is_free_and_the_answers_cost_their_loss(pure, scripted):
    session = pure()
    run = session.start(GaussianAboveThreshold(**TERMS))
    assert (spent(session).main, run.state.loss, run.state.steps) == (0, 0.0, 0)
    halted, running = losses(64)
    scripted += [False] * 5 + [True]
    for step in range(5):
        assert run.ask(count()).value is False
        assert run.state.loss == running[step]
        assert 0 <= spent(session).main - Fraction(float(running[step])) * MAIN_STEPS < step + 1
        assert run.state.next_loss == pytest.approx(worst(step + 2) - float(running[step]))
        call = session.spine.ledger.call(session.history[-1].call)
        before = Fraction(float(running[step - 1])) if step else Fraction(0)
        assert call.worst.main == math.ceil((Fraction(worst(step + 1)) - before) * MAIN_STEPS)
    assert run.ask(count()).value is True
    assert (run.state.loss, run.state.next_loss) == (halted[5], 0)
    assert 0 <= spent(session).main - Fraction(float(halted[5])) * MAIN_STEPS < 7
    assert [entry.hits for entry in session.history[1:]] == [0] * 5 + [1]


@pytest.mark.parametrize("steps", [1, 7, 70])
def test_a_budget_for_so_many_steps_stops_exactly_there(pure, scripted, steps):
    touched = []
    session = pure(Fraction(worst(steps, terms=FAR)) + Fraction(1, 10**12), on_step=touched.append)
    assert worst(steps + 1, terms=FAR) > worst(steps, terms=FAR) + 1e-9
    run = session.start(GaussianAboveThreshold(**FAR))
    scripted += [False] * (steps + 1)
    for _ in range(steps):
        assert run.state.told == "running"
        run.ask(count())
    assert run.state.told.startswith(f"stopped: the budget cannot pay for step {steps + 1}")
    touched.clear()
    before = spent(session)
    with pytest.raises(BudgetExceeded, match=f"cannot pay for step {steps + 1} ") as caught:
        run.ask(count())
    assert not shows_data(error_texts(caught.value))
    assert (touched, spent(session), run.state.steps, len(scripted)) == (["asked"], before, steps, 1)
    assert spent(session).main <= session.spine.filter.capacity.main


def test_a_stopped_run_goes_on_when_there_is_room_again(pure, scripted):
    session = pure()
    session.set_quota("analyst", 0)
    run = session.start(GaussianAboveThreshold(**TERMS))
    scripted += [False, False]
    with pytest.raises(BudgetExceeded):
        run.ask(count())
    session.set_quota("analyst", 1)
    assert run.ask(count()).value is False
    session.set_quota("analyst", session.spent.share + 1e-9)
    assert "cannot pay for step 2" in run.state.told
    session.set_quota("analyst", 1)
    assert run.state.told == "running"


def test_no_answers_of_neighbours_are_further_apart_than_what_was_charged(pure, scripted):
    """Every transcript of three steps, on data with and without one unit, whichever way its counts go."""
    own, other = (float(scale) for scale in GaussianThreshold(0, 20).scales)
    whole, without = (50.0, 80.0, 100.0), (49.0, 81.0, 100.0)
    laws = [log_stopping(values, 60, own, other) for values in (whole, without)]
    gaps = np.abs(laws[0] - laws[1])
    for transcript in range(4):
        session = pure(100)
        run = session.start(GaussianAboveThreshold(**TERMS))
        scripted[:] = [False] * transcript + [True]
        for _ in range(min(3, transcript + 1)):
            run.ask(count())
        assert gaps[transcript] <= run.state.loss <= spent(session).main / MAIN_STEPS
        session.close()


@pytest.mark.parametrize("grid", ["0.5", 1, 2])
def test_a_test_is_priced_for_what_moves_in_the_units_of_the_query(pure, scripted, grid):
    session = pure(100)
    run = session.start(GaussianAboveThreshold(**TERMS))
    scripted.append(False)
    run.ask(chary.sum("cost", bounds=(0, 4), grid=grid, max_rows_per_unit=1))
    assert run.state.loss == losses(64, 4)[1][0]
    assert RunState.load(session.spine.ledger.secret(run.call)).sensitivity == 4


def test_many_keys_at_once_are_priced_to_the_last(pure, scripted):
    run = pure(100).start(GaussianAboveThreshold(**FAR))
    scripted += [False] * 100
    assert run.ask(count().by("age", range(100))).tested == 100
    assert run.state.loss == pytest.approx(losses(128, terms=FAR)[1][99], rel=1e-9)


def test_bits_of_the_threshold_that_a_test_has_drawn_are_kept(pure, monkeypatch):
    """Between keys and between calls: drawn again, they would be another threshold."""
    met = []
    monkeypatch.setattr(
        GaussianThreshold,
        "step",
        lambda self, value, held, source: met.append(held) or (False, Deviate(held.floor << 1, held.bits + 1)),
    )
    session = pure(100)
    run = session.start(GaussianAboveThreshold(**FAR))
    run.ask(BY_CLINIC)
    run.ask(count())
    assert met == [Deviate(met[0].floor << more, met[0].bits + more) for more in range(4)]
    assert RunState.load(session.spine.ledger.secret(run.call)).held.bits == met[0].bits + 4


def test_other_calls_in_between_change_nothing(pure, scripted):
    session, other = pure(), pure()
    run, alone = session.start(GaussianAboveThreshold(**TERMS)), other.start(GaussianAboveThreshold(**TERMS))
    second = session.start(GaussianAboveThreshold(**TERMS))
    scripted += [False] * 9
    for _ in range(3):
        run.ask(count())
        session.release(count(), epsilon="0.01")
        second.ask(count())
        alone.ask(count())
    assert run.state.loss == second.state.loss == alone.state.loss
    assert spent(session).main == 2 * spent(other).main + 3 * 10**13


@pytest.mark.parametrize("budget", [Budget(epsilon=50, delta=1e-6), Budget(epsilon=50)])
def test_filters_price_the_loss_as_known_afterwards(opened, scripted, budget):
    session = opened(budget=budget)
    run = session.start(GaussianAboveThreshold(**TERMS))
    scripted += [False, True]
    prices = []
    for _ in range(2):
        before, charged = spent(session), Fraction(run.state.loss)
        run.ask(count())
        prices.append(session.spine.filter.price(ExPost(Fraction(run.state.loss) - charged)).hit)
        assert spent(session) == before + prices[-1]
    assert prices[0] != prices[1]


@pytest.mark.parametrize("menu", [{"grain": "0.02"}, {"menu": [Pure("0.1"), Pure("0.5")]}])
def test_the_exact_filter_opens_no_run(opened, menu):
    session = opened(filter="exact", **menu)
    with pytest.raises(NotPriced):
        session.start(GaussianAboveThreshold(**TERMS))
    assert session.history == []


def test_the_largest_sensitivity_asked_so_far_prices_the_whole_run(pure, scripted):
    session = pure(100)
    run = session.start(GaussianAboveThreshold(**TERMS))
    scripted += [False] * 3
    costs = chary.sum("cost", bounds=(0, 3), max_rows_per_unit=1)
    run.ask(count())
    assert run.state.loss == losses(64)[1][0]
    run.ask(costs)
    assert run.state.loss == losses(64, 3)[1][1]
    run.ask(count())
    assert run.state.loss == losses(64, 3)[1][2]


def test_a_declared_sensitivity_is_a_limit(pure, scripted):
    session = pure(100)
    run = session.start(GaussianAboveThreshold(**TERMS, sensitivity=2))
    scripted += [False]
    run.ask(count())
    assert run.state.loss == losses(64, 2)[1][0]
    with pytest.raises(InvalidQuery, match="sensitivity 2 at most"):
        run.ask(chary.sum("cost", bounds=(0, 3), max_rows_per_unit=1))
    assert run.state.steps == 1


def test_no_value_moves_further_than_the_bounds(pure, scripted):
    session = pure(10**4)
    run = session.start(GaussianAboveThreshold(**(TERMS | {"high": 5})))
    scripted += [False]
    run.ask(chary.sum("cost", bounds=(0, 1000), max_rows_per_unit=1))
    assert run.state.loss == losses(64, 5, TERMS | {"high": 5})[1][0]


def test_replaced_units_move_a_sum_further(opened, scripted):
    found = []
    for neighbors in ("add_remove", "replace"):
        session = opened(budget=Budget(epsilon=100), neighbors=neighbors)
        run = session.start(GaussianAboveThreshold(**(TERMS | {"low": -50})))
        scripted += [False]
        run.ask(chary.sum("cost", bounds=(-3, 3), max_rows_per_unit=1))
        found.append(run.state.loss)
    assert found == [losses(64, moved, TERMS | {"low": -50})[1][0] for moved in (3, 6)]


def test_a_watch_is_the_same_as_its_tests_one_by_one(opened):
    budget = Budget(epsilon=50)
    terms = TERMS | {"threshold": 40, "threshold_noise": 10}
    found = []
    for seed in range(8):
        one, all_ = (opened(budget=budget, unsafe_noise=Seeded(seed)) for _ in range(2))
        run, watched = one.start(GaussianAboveThreshold(**terms)), all_.start(GaussianAboveThreshold(**terms))
        single = [
            run.ask(count(f"clinic = '{clinic}'")) for clinic in CLINICS if not run.state.told.startswith("halted")
        ]
        first = watched.ask(BY_CLINIC)
        assert (first.key is not None, first.tested) == (single[-1].hit, len(single))
        assert (watched.state.loss, watched.state.steps, watched.state.told) == (
            run.state.loss,
            run.state.steps,
            run.state.told,
        )
        assert 0 <= spent(one).main - spent(all_).main < 4
        assert first.untested == first.keys[len(single) :]
        found.append(first.key)
    assert len(set(found)) > 1


def test_a_watch_tests_as_many_keys_as_can_be_paid_for(pure, scripted):
    session = pure(Fraction(worst(2, terms=FAR)) + Fraction(1, 10**12))
    run = session.start(GaussianAboveThreshold(**FAR))
    scripted += [False] * 3
    found = run.ask(BY_CLINIC)
    assert (found.key, found.tested, found.untested) == (None, 2, (("east",),))
    assert session.history[-1].tests == 2
    with pytest.raises(BudgetExceeded, match="step 3"):
        run.ask(BY_CLINIC)
    assert len(scripted) == 1


def test_a_watch_whose_room_is_taken_meanwhile_tests_fewer_keys(opened, scripted):
    def rush(step):
        if step == "asked" and armed:
            armed.pop()
            session.release(count(), epsilon="0.2")

    armed = []
    session = opened(budget=Budget(epsilon=Fraction(worst(1, terms=FAR)) + Fraction(201, 1000)), on_step=rush)
    assert worst(3, terms=FAR) < worst(1, terms=FAR) + 0.2 < worst(2, terms=FAR) + 0.2
    run = session.start(GaussianAboveThreshold(**FAR))
    scripted += [False] * 3
    armed.append(1)
    assert run.ask(BY_CLINIC).tested == 1
    assert (run.state.steps, len(scripted)) == (1, 2)


def test_a_series_is_watched_day_by_day():
    rows = pd.DataFrame({"cnt": [5, 3, 900, 70]})
    with chary.open_counts(rows, column="cnt", sensitivity=1, budget=NO_NOISE, ledger=":memory:") as session:
        run = session.start(GaussianAboveThreshold(threshold=500, threshold_noise=1, low=0, high=1000))
        found = run.ask(session.series(), request="days")
        assert (found.key, found.tested, run.state.told) == ((2,), 3, "halted at step 3")
        assert run.ask(session.series(), request="days") == found


def test_an_empty_series_has_nothing_to_watch():
    rows = pd.DataFrame({"cnt": pd.Series([], dtype="int64")})
    with chary.open_counts(rows, column="cnt", sensitivity=1, budget=NO_NOISE, ledger=":memory:") as session:
        run = session.start(GaussianAboveThreshold(**TERMS))
        with pytest.raises(InvalidQuery):
            run.ask(session.series())


def test_the_noise_of_the_threshold_is_drawn_once(opened, monkeypatch):
    seen = []
    step = GaussianThreshold.step

    def spy(self, value, held, source):
        seen.append(held)
        return step(self, value, held, source)

    monkeypatch.setattr(GaussianThreshold, "step", spy)
    session = opened(budget=Budget(epsilon=50), unsafe_noise=Seeded(1))
    run = session.start(GaussianAboveThreshold(**FAR))
    for _ in range(4):
        assert run.ask(count()).value is False
    assert len({held.floor >> held.bits - 31 for held in seen}) == 1
    RunState.load(session.spine.ledger.secret(run.call))


def test_a_halted_run_forgets_its_threshold(pure, scripted):
    session = pure()
    run = session.start(GaussianAboveThreshold(**TERMS))
    scripted += [True]
    run.ask(count())
    assert RunState.load(session.spine.ledger.secret(run.call)).held == Deviate(0, 0)


def test_an_outcome_on_a_state_that_moved_is_thrown_away(opened, scripted):
    """Between reading and settling another handle takes a step: the run is repeated as the step after that one."""

    def overtake(step):
        if step == "evaluated" and armed:
            armed.pop()
            other.ask(count())

    armed = []
    session = opened(budget=Budget(epsilon=1), on_step=overtake)
    run = session.start(GaussianAboveThreshold(**TERMS))
    other = session.resume(run.call)
    scripted += [False, True, False]
    armed.append(1)
    assert run.ask(count()).value is False
    assert (run.state.steps, scripted) == (2, [])
    assert run.state.loss == losses(64)[1][1]
    assert [entry.state for entry in session.history[1:]] == ["voided", "settled", "settled"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": None},
        {"threshold": math.nan},
        {"threshold_noise": 0},
        {"threshold_noise": None},
        {"query_noise": -1},
        {"low": 100},
        {"low": 101},
        {"high": None},
        {"high": math.inf},
        {"sensitivity": 0},
        {"threshold": 10**12},
        {"threshold_noise": "1e-9"},
        {"call": 1},
    ],
)
def test_wrong_terms_open_nothing(pure, wrong):
    session = pure()
    with pytest.raises(InvalidParameter):
        session.start(GaussianAboveThreshold(**(TERMS | wrong)))
    assert session.history == []


def test_a_wrong_question_touches_nothing(pure):
    session = pure()
    run = session.start(GaussianAboveThreshold(**TERMS))
    wrong = [
        lambda: run.ask("age > 3"),
        lambda: run.ask(mean("cost", bounds=(0, 9), max_rows_per_unit=1)),
        lambda: run.ask(count("nothing > 3")),
        lambda: run.ask(count().by("clinic", [1])),
    ]
    for ask in wrong:
        with pytest.raises(InvalidQuery):
            ask()
    assert (len(session.history), run.state.steps, spent(session)) == (1, 0, Amount(0))


# Runs that are charged by hits


DECLARED = TERMS | {"sensitivity": 1}


def parts(session, terms=DECLARED):
    """What the opening and the hit of a run cost there."""
    noise = GaussianAboveThreshold(**terms).terms.noise
    return [session.spine.filter.price(event(noise)).hit.main for event in (RunOpening, RunHit)]


def test_under_a_delta_a_declared_run_pays_its_opening_and_its_hit(opened, scripted):
    session = opened()
    run = session.start(GaussianAboveThreshold(**DECLARED))
    opening, hit = parts(session)
    assert spent(session).main == opening > 0
    scripted += [False] * 250 + [True]
    for _ in range(50):
        run.ask(count())
    assert spent(session).main == opening
    assert run.ask(count().by("age", range(300))).key == (200,)
    assert spent(session).main == opening + hit
    assert (run.state.steps, run.state.told) == (251, "halted at step 251")
    assert run.spent.amount.main == opening + hit


def test_by_losses_the_same_run_costs_more_than_twice_as_much(opened, scripted):
    session, other = opened(), opened(budget=Budget(epsilon=50, delta=1e-6))
    by_losses = other.start(GaussianAboveThreshold(**DECLARED, charged="losses"))
    assert spent(other).main == 0
    scripted += [False] * 9 + [True]
    for _ in range(10):
        by_losses.ask(count())
    order = session.spine.filter.order
    lost = Fraction(float(losses(64)[0][9])) * (order - 1) * MAIN_STEPS
    assert sum(parts(session)) < lost / 2


def test_a_run_by_hits_stops_where_no_hit_fits(opened, scripted):
    session = opened()
    run = session.start(GaussianAboveThreshold(**DECLARED))
    session.set_quota("analyst", session.spent.share + 1e-9)
    assert "cannot pay for step 1" in run.state.told
    with pytest.raises(BudgetExceeded):
        run.ask(BY_CLINIC)
    session.set_quota("analyst", 1)
    scripted += [False] * 3
    assert run.ask(BY_CLINIC).tested == 3


def test_what_a_run_is_charged_by_is_kept(opened, tmp_path, scripted):
    place = tmp_path / "visits.ledger"
    first = opened(ledger=place)
    run = first.start(GaussianAboveThreshold(**DECLARED), request="run")
    paid = spent(first)
    assert first.start(GaussianAboveThreshold(**DECLARED), request="run").call == run.call
    first.close()
    again = opened(ledger=place)
    scripted += [False]
    again.resume(run.call).ask(count())
    assert spent(again) == paid


def test_a_request_from_before_there_were_hits_finds_its_run(opened):
    session = opened()
    run = session.start(GaussianAboveThreshold(**DECLARED, charged="losses"), request="run")
    assert "charged" not in session.spine.ledger.call(run.call).body
    assert session.start(GaussianAboveThreshold(**DECLARED), request="run").call == run.call
    with pytest.raises(RequestConflict):
        session.start(GaussianAboveThreshold(**DECLARED, charged="hits"), request="run")
    with pytest.raises(RequestConflict):
        session.start(GaussianAboveThreshold(**(DECLARED | {"low": -1})), request="run")


def test_losses_are_charged_where_they_are_cheaper_or_hits_have_no_price(opened, pure):
    rough = DECLARED | {"threshold_noise": 1, "threshold": 200, "query_noise": 1}
    session = opened(budget=Budget(epsilon=9, delta=1e-6))
    session.start(GaussianAboveThreshold(**rough))
    assert spent(session).main == 0
    with pytest.raises(NotPriced, match="more noise"):
        session.start(GaussianAboveThreshold(**rough, charged="hits"))
    with pytest.raises(NotPriced, match="with a delta"):
        pure().start(GaussianAboveThreshold(**DECLARED, charged="hits"))
    assert spent(pure()).main == 0
    with pytest.raises(InvalidParameter, match="sensitivity"):
        GaussianAboveThreshold(**TERMS, charged="hits")


def test_a_run_by_hits_refuses_what_it_was_not_priced_for_with_nothing_touched(opened):
    touched = []
    session = opened(on_step=touched.append)
    run = session.start(GaussianAboveThreshold(**DECLARED))
    before = spent(session)
    touched.clear()
    with pytest.raises(InvalidQuery, match="sensitivity 1 at most"):
        run.ask(chary.sum("cost", bounds=(0, 3), max_rows_per_unit=1))
    assert (touched, spent(session), run.state.steps, len(session.history)) == ([], before, 0, 1)


# Runs of several hits against one threshold


SEVERAL = DECLARED | {"hits": 3, "monotone": True}


def test_each_of_several_hits_is_charged_when_it_comes(opened, scripted):
    session = opened()
    run = session.start(GaussianAboveThreshold(**SEVERAL))
    opening, hit = parts(session, SEVERAL)
    assert spent(session).main == opening > 0
    scripted += [False] * 4 + [True] + [False] * 7 + [True, True]
    for _ in range(4):
        assert run.ask(count()).value is False
    assert (spent(session).main, run.state.hits_left, run.state.loss, run.state.next_loss) == (opening, 3, None, None)
    assert run.ask(count()).value is True
    assert (spent(session).main, run.state.hits_left, run.state.told) == (opening + hit, 2, "running")
    found = run.ask(count().by("age", range(30)))
    assert (found.key, found.tested, run.state.hits_left) == ((7,), 8, 1)
    assert run.ask(count().by("age", range(8, 30))).key == (8,)
    assert (spent(session).main, run.state.hits_left) == (opening + 3 * hit, 0)
    assert (run.state.steps, run.state.told) == (14, "halted at step 14")
    with pytest.raises(NotWithheld, match="halted at step 14"):
        run.ask(count())
    assert run.spent.amount.main == opening + 3 * hit
    assert [entry.hits for entry in session.history[1:]] == [0] * 4 + [1] * 3


def test_several_hits_are_of_one_threshold_that_is_forgotten_after_the_last(opened, place):
    session = opened(budget=Budget(epsilon=8, delta=1e-6), ledger=place, unsafe_noise=Seeded(3))
    run = session.start(GaussianAboveThreshold(**(SEVERAL | {"threshold": 20})))

    def kept():
        return run.terms_of_run.state.load(session.spine.ledger.secret(run.call))

    first, seen = kept().held, 0
    while run.state.hits_left > 1:
        run.ask(count())
        # More bits of it may be known by now, but it is the same number.
        assert kept().held.floor >> (kept().held.bits - first.bits) == first.floor
        assert kept().hits in (seen, seen + 1)
        seen = kept().hits
    with pytest.raises(ValueError, match="zip"):
        RunState.load(session.spine.ledger.secret(run.call))
    while run.state.hits_left:
        run.ask(count())
    assert kept().held == Deviate(0, 0)


def test_a_run_of_several_hits_goes_on_after_a_restart(opened, tmp_path, scripted):
    place = tmp_path / "visits.ledger"
    first = opened(ledger=place)
    run = first.start(GaussianAboveThreshold(**SEVERAL), request="run")
    scripted += [True, False, True, True]
    assert run.ask(count(), request="one").value is True
    paid = spent(first)
    first.close()
    again = opened(ledger=place)
    assert again.start(GaussianAboveThreshold(**SEVERAL), request="run").call == run.call
    resumed = again.resume(run.call)
    assert resumed.ask(count(), request="one").value is True
    assert (spent(again), resumed.state.hits_left, len(scripted)) == (paid, 2, 3)
    assert [resumed.ask(count()).value for _ in range(3)] == [False, True, True]
    assert resumed.state.told == "halted at step 4"
    kept = resumed.terms_of_run.state.load(again.spine.ledger.secret(run.call))
    assert (kept.held, kept.hits, kept.halted) == (Deviate(0, 0), 3, True)
    with pytest.raises(RequestConflict):
        again.start(GaussianAboveThreshold(**(SEVERAL | {"hits": 4})), request="run")


def test_a_step_on_a_hit_that_came_meanwhile_is_made_again(opened, scripted):
    def overtake(step):
        if step == "evaluated" and armed:
            armed.pop()
            other.ask(count())

    armed = []
    session = opened(on_step=overtake)
    run = session.start(GaussianAboveThreshold(**SEVERAL))
    other = session.resume(run.call)
    scripted += [True, True, False]
    armed.append(1)
    assert run.ask(count()).value is False
    assert (run.state.steps, run.state.hits_left, scripted) == (2, 2, [])


def test_a_run_of_one_hit_says_nothing_of_hits_to_the_ledger(opened):
    session = opened()
    run = session.start(GaussianAboveThreshold(**DECLARED))
    body = session.spine.ledger.call(run.call).body
    assert '"hits":' not in body
    assert "monotone" not in body
    several = session.start(GaussianAboveThreshold(**SEVERAL))
    assert '"hits":3' in session.spine.ledger.call(several.call).body


@pytest.mark.parametrize(
    ("wrong", "refused"),
    [
        ({"hits": 0}, InvalidParameter),
        ({"hits": 2.5}, InvalidParameter),
        ({"hits": None}, InvalidParameter),
        ({"monotone": 1}, InvalidParameter),
        ({"charged": "losses"}, InvalidParameter),
        ({"sensitivity": None}, InvalidParameter),
        ({"hits": 10**6}, NotPriced),
    ],
)
def test_wrong_terms_of_several_hits_open_nothing(opened, wrong, refused):
    session = opened()
    with pytest.raises(refused):
        session.start(GaussianAboveThreshold(**(SEVERAL | wrong)))
    assert session.history == []


def test_several_hits_need_a_delta_and_monotone_queries_units_that_come_and_go(opened, pure):
    with pytest.raises(NotPriced, match="with a delta"):
        pure().start(GaussianAboveThreshold(**SEVERAL))
    with pytest.raises(InvalidParameter, match="add/remove"):
        opened(neighbors="replace").start(GaussianAboveThreshold(**SEVERAL))
    touched = []
    session = opened(on_step=touched.append)
    run = session.start(GaussianAboveThreshold(**(SEVERAL | {"sensitivity": 3, "threshold_noise": 90})))
    touched.clear()
    with pytest.raises(InvalidQuery, match="not monotone"):
        run.ask(chary.sum("cost", bounds=(-1, 2), max_rows_per_unit=1))
    assert touched == []
    run.ask(chary.sum("cost", bounds=(0, 3), max_rows_per_unit=1))
