"""Advice: errors that are kept, calls that run and fit, the order, refusals, and nothing read or charged."""

import math
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

import chary
from chary import Budget, BudgetExceeded, count
from chary.advise import advise, advise_for
from chary.amounts import Amount
from chary.calls import GaussianAboveThreshold, PrepaidTests, ReleaseIf, SparseVector, ThresholdTest
from chary.errors import CharyError, InvalidParameter
from chary.filters import RenyiFilter
from chary.filters import choice as sizing
from chary.mechanisms import Gaussian, Laplace
from chary.noise import Seeded
from tests.session.kit import USUAL, spent, visits

ALPHA = 1e-6
DELTA = 1e-6
HIT, MISS = -(10**12), 10**12
CALLS = {"SparseVector": SparseVector, "GaussianAboveThreshold": GaussianAboveThreshold, "PrepaidTests": PrepaidTests}


def named(advice):
    return {option.mechanism: option for option in advice.options}


def reasons(advice):
    return {unfit.mechanism: unfit.reason for unfit in advice.unfit}


def kept(runs, successes):
    """Whether so many successes can come from a chance of at least 95 %."""
    return binom.cdf(successes, runs, 0.95) > ALPHA


SPARSE = {
    "sparse vector, published": {"mechanism": "published"},
    "sparse vector, tuned": {"mechanism": "tuned", "monotone": False},
    "sparse vector, tuned, monotone": {"mechanism": "tuned", "monotone": True},
    "sparse vector, one-sided": {"mechanism": "one-sided", "monotone": False, "tests": 120},
    "sparse vector, one-sided, monotone": {"mechanism": "one-sided", "monotone": True, "tests": 120},
}


def crossings(option, error, made, tests, hits, runs):
    """How often a sparse vector told all tests rightly that lie the error away, and all values within it."""
    machine, source, right = made.machine, Seeded(11), 0
    places = np.linspace(0, tests - 1, hits).astype(int)
    values = np.full(tests, -error - 1)
    values[places] = error
    for _ in range(runs):
        _, crossed = machine.step(machine.start(source), values, 0, source)
        told = crossed.positions == places.tolist()
        right += told and all(abs(value - error) <= error for value in crossed.values)
    return right


@pytest.mark.statistical
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_vectors_keep_their_error_and_not_two_thirds_of_it(name):
    tests, hits, runs = 120, 4, 300
    option = named(advise(epsilon=1, tests=tests, hits=hits))[name]
    made = SparseVector(above=0, hits=hits, epsilon=option.epsilon, values=True, **SPARSE[name])
    made = made.law(chary.NeighborRelation("add_remove", None))
    assert kept(runs, crossings(option, int(option.error), made, tests, hits, runs))
    assert not kept(runs, crossings(option, int(option.error) * 2 // 3, made, tests, hits, runs))


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["target charging, renyi filter", "target charging, exact filter"])
def test_charging_keeps_its_error_and_not_two_thirds_of_it(name):
    tests, runs = 500, 400
    option = named(advise(epsilon=1, delta=DELTA, tests=tests, hits=20, sensitivity=3))[name]
    drawn = Laplace.for_epsilon(option.epsilon, sensitivity=3).draw(Seeded(12), tests * runs)
    farthest = np.abs(drawn).reshape(runs, tests).max(axis=1)
    assert kept(runs, np.count_nonzero(farthest <= option.error))
    assert not kept(runs, np.count_nonzero(farthest <= option.error * 2 / 3))
    assert drawn.std() == pytest.approx(option.test_deviation, rel=0.02)


@pytest.mark.statistical
def test_gaussian_mechanisms_keep_their_errors():
    tests, hits, runs, generator = 300, 6, 400, np.random.default_rng(13)
    found = named(advise(epsilon=1, delta=DELTA, tests=tests, hits=hits, values=False, low=0, high=1000))
    plain, tested = found["plain composition, Gaussian"], found["Gaussian above threshold"]
    farthest = np.abs(generator.normal(0, plain.test_deviation, (runs, tests))).max(axis=1)
    assert kept(runs, np.count_nonzero(farthest <= plain.error))
    assert not kept(runs, np.count_nonzero(farthest <= plain.error * 2 / 3))
    bars = np.repeat(generator.normal(0, tested.test_deviation / 2, (runs, hits)), tests // hits, axis=1)
    noise = generator.normal(0, tested.test_deviation * math.sqrt(3) / 2, (runs, tests))
    farthest = np.abs(noise - bars).max(axis=1)
    assert kept(runs, np.count_nonzero(farthest <= tested.error))
    assert not kept(runs, np.count_nonzero(farthest <= tested.error * 2 / 3))


@pytest.mark.statistical
def test_gaussian_values_keep_their_error():
    tests, hits, runs, generator = 300, 40, 400, np.random.default_rng(14)
    option = named(advise(epsilon=1, delta=DELTA, tests=tests, hits=hits))["sparse vector, tuned, Gaussian values"]
    values = np.abs(generator.normal(0, option.value_deviation, (runs, hits))).max(axis=1)
    assert kept(runs, np.count_nonzero(values <= option.value_error))
    assert not kept(runs, np.count_nonzero(values <= option.value_error * 2 / 3))


def spend(session, option, tests, hits):
    """Do what the option is for, by its own call: misses, then hits, each wherever it can."""
    query, names = count(), CALLS | {"session": session, "query": count()}
    if "release(" in option.code:
        for _ in range(tests):
            eval(option.code, names)
        return lambda: eval(option.code, names)
    if "start(" in option.code:
        opened = eval(option.code, names | {"above": 0})
        for bar in [MISS] * (tests - hits) + [HIT] * hits:
            assert opened.ask(query, above=bar).above == (bar == HIT)
        return lambda: opened.ask(query, above=HIT)
    for bar in [MISS] * (tests - hits) + [HIT] * hits:
        found = eval(option.code, names | {"above": bar})
        assert getattr(found, "published", found) == (bar == HIT)
    return lambda: eval(option.code, names | {"above": HIT})


def leaves_nothing(session, another):
    """Whether another call is refused, or ends the account in which misses are free: that has no room for it."""
    try:
        another()
    except BudgetExceeded:
        return True
    return session.spine.accounts().alone


@pytest.fixture
def opened_by(monkeypatch):
    """Open a dataset as an option says."""

    def opening(option):
        names = {"chary": chary, "rows": visits(), "unit": "patient", "ledger": ":memory:"}
        exec(option.opening, names)
        return names["session"]

    return opening


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("hits", [1, 7])
@pytest.mark.parametrize("delta", [0, DELTA])
def test_every_call_of_a_new_dataset_runs_fits_and_is_the_last(opened_by, delta, hits, values):
    tests = 20
    advice = advise(epsilon=1, delta=delta, tests=tests, hits=hits, values=values)
    offered = [option for option in advice.options if option.code is not None]
    assert len(offered) >= 4
    for option in offered:
        with opened_by(option) as session:
            another = spend(session, option, tests, hits)
            assert float(session.spent.share) == pytest.approx(option.share, rel=1e-9)
            assert leaves_nothing(session, another)


@pytest.mark.parametrize("kind", ["renyi", "pure", "exact"])
def test_calls_for_what_is_left_run_and_fit(opened, kind):
    terms = {"filter": kind} if kind == "pure" else {"filter": kind, "grain": 0.02}
    options = []
    for position in range(12):
        session = opened(budget=USUAL, **terms)
        for _ in range(3):
            session.release(count(), epsilon=0.02)
        before = session.spent.share
        # What is left is the same each time, and so is the advice.
        options = options or [
            option for option in advise_for(session, tests=12, hits=4).options if option.code is not None
        ]
        assert all(option.opening is None for option in options)
        if position < len(options):
            another = spend(session, options[position], 12, 4)
            assert session.spent.share - before == pytest.approx(options[position].share, rel=1e-9)
            if kind != "exact" or "sparse" in options[position].mechanism:
                assert leaves_nothing(session, another)


def test_a_watch_by_keys_is_offered_where_it_is_the_same(opened):
    session = opened(budget=USUAL, filter="renyi", grain=0.02)
    option = named(advise_for(session, tests=3, hits=3))["target charging, renyi filter"]
    query = count().by("clinic", ["north", "south", "east"])
    found = eval(option.by_key, {"session": session, "query": query, "above": HIT})
    assert (found.hits, session.spent.share) == (3, pytest.approx(option.share))


def test_gaussian_runs_fit_wherever_the_hits_lie(opened):
    budget, terms = Budget(epsilon=100), {"values": False, "low": 0, "high": 51, "above": "25.5"}
    option = named(advise_for(opened(budget=budget), tests=12, hits=3, **terms))["Gaussian above threshold"]
    assert option.test_deviation < 2
    for spread in ([4] * 3, [1, 1, 10], [10, 1, 1]):
        session = opened(budget=budget)
        for steps in spread:
            run = eval(option.code, CALLS | {"session": session})
            answers = [run.ask(count("age > 1000")) for _ in range(steps - 1)] + [run.ask(count())]
            assert [answer.hit for answer in answers] == [False] * (steps - 1) + [True]
        assert session.spent.share <= option.share <= 1


def test_the_smallest_error_is_first_and_the_best_has_a_call():
    advice = advise(epsilon=1, delta=DELTA, tests=10_000, hits=60)
    errors = [(option.error, option.share) for option in advice.options]
    assert errors == sorted(errors)
    # The sharpest tests need less than half of what Laplace tests by the exact curve need, which were first before.
    assert advice.best.mechanism == advice.options[0].mechanism == "optimal threshold test, fixed number of tests"
    assert named(advice)["target charging, exact curve"].error > 2 * advice.best.error
    few = advise(epsilon=1, delta=DELTA, tests=10_000, hits=3)
    assert few.best.mechanism == "sparse vector, one-sided, monotone"
    assert all(option.error >= max(option.test_error, option.value_error) for option in few.options)


def test_more_budget_or_fewer_hits_never_err_more():
    base = {"epsilon": 1, "delta": DELTA, "tests": 1000, "hits": 10}
    usual, richer, fewer = (named(advise(**base | change)) for change in ({}, {"epsilon": 2}, {"hits": 5}))
    for name, option in usual.items():
        assert richer[name].error < option.error
        assert fewer[name].error <= option.error


def test_sensitivity_and_grid_scale_the_errors():
    plain, scaled, finer = (
        named(advise(epsilon=1, delta=DELTA, tests=500, hits=10, **change))
        for change in ({}, {"sensitivity": 100}, {"sensitivity": "0.25", "grid": "0.01"})
    )
    for name, option in plain.items():
        assert scaled[name].test_deviation == pytest.approx(100 * option.test_deviation, rel=1e-2)
        assert finer[name].error == pytest.approx(option.error / 4, rel=0.05)
    assert "sensitivity=0.25, grid=0.01" in finer["sparse vector, tuned"].code


def test_what_does_not_apply_says_why():
    told = reasons(advise(epsilon=1, tests=100, hits=3, monotone=False))
    assert "as you say" in told["sparse vector, tuned, monotone"]
    assert "delta" in told["target charging, renyi filter"]
    assert "publishes no values" in told["Gaussian above threshold"]
    assert "range" in reasons(advise(epsilon=1, tests=100, hits=3, values=False))["Gaussian above threshold"]
    replaced = reasons(advise(epsilon=1, delta=DELTA, tests=100, hits=3, neighbors="replace"))
    assert "replace" in replaced["sparse vector, tuned, monotone"]


def test_the_menu_of_an_exact_filter_has_an_end(monkeypatch):
    monkeypatch.setattr(sizing, "LATTICE_TOKENS", 4)
    told = reasons(advise(epsilon=1, delta=DELTA, tests=10, hits=5))
    assert "up to 4 tokens" in told["target charging, exact filter"]


def test_a_session_says_what_its_filter_has_no_price_for(opened):
    told = reasons(
        advise_for(opened(budget=USUAL, filter="exact", grain=0.02), tests=9, hits=2, values=False, low=0, high=9)
    )
    assert "menu" in told["Gaussian above threshold"]
    assert "set aside" in told["sparse vector, published, delta"]
    pure = opened(budget=USUAL, filter="pure", delta_reserve=DELTA)
    assert "sparse vector, published, delta" in named(advise_for(pure, tests=9, hits=2))
    assert "no pure epsilon" in reasons(advise_for(pure, tests=9, hits=2))["plain composition, Gaussian"]


def test_a_budget_nearly_used_up(opened):
    session = opened(budget=Budget(epsilon=1))
    fresh = advise_for(session, tests=10, hits=2)
    session.release(count(), epsilon="0.999")
    left = advise_for(session, tests=10, hits=2)
    assert named(left)["sparse vector, tuned"].epsilon == Fraction(1, 1000)
    assert named(left)["sparse vector, tuned"].error > 900 * named(fresh)["sparse vector, tuned"].error
    session.release(count(), epsilon="0.001")
    nothing = advise_for(session, tests=10, hits=2)
    assert (nothing.options, nothing.best) == ((), None)
    assert "0 % of the budget" in reasons(nothing)["target charging, pure filter"]
    assert "does not apply" in str(nothing)


def test_an_analysts_cap_counts(opened):
    session = opened(budget=Budget(epsilon=1))
    session.set_quota("analyst", 0.25)
    option = named(advise_for(session, tests=10, hits=2))["sparse vector, tuned"]
    assert (option.epsilon, option.share) == (Fraction(1, 4), 0.25)


def test_comparisons_are_for_a_whole_budget(opened):
    session = opened(budget=USUAL)
    assert "target charging, published bound" in named(advise_for(session, tests=10, hits=2))
    session.release(count(), epsilon=0.01)
    after = advise_for(session, tests=10, hits=2)
    assert "target charging, published bound" not in named(after)
    assert "not all of this one is left" in reasons(after)["target charging, published bound"]


def test_nothing_is_read_and_nothing_is_charged(opened):
    steps = []
    session = opened(budget=USUAL, on_step=steps.append)
    advise_for(session, tests=10, hits=2)
    assert (spent(session), session.history, steps) == (Amount(0), [], [])


@pytest.mark.parametrize(
    "wrong",
    [
        {"tests": 0},
        {"tests": 2.5},
        {"hits": 0},
        {"hits": 11},
        {"hits": True},
        {"values": 1},
        {"monotone": "yes"},
        {"low": 0},
        {"high": 5},
        {"low": 5, "high": 5},
        {"low": math.nan, "high": 5},
        {"above": math.inf},
        {"sensitivity": 0},
        {"sensitivity": "0.5"},
        {"grid": -1},
        {"confidence": 1},
        {"confidence": 0},
        {"tests": None},
        {"keys": 5},
        {"reach": 2},
        {"tests": None, "keys": 0},
        {"tests": None, "keys": 5, "reach": 0},
        {"tests": None, "keys": 5, "reach": 1.5},
        {"steps": 0},
        {"overlap": 1.5},
    ],
    ids=str,
)
def test_bad_input_is_refused(opened, wrong):
    session = opened(budget=USUAL)
    with pytest.raises(InvalidParameter):
        advise_for(session, **({"tests": 10, "hits": 2} | wrong))
    with pytest.raises(InvalidParameter):
        advise(**({"epsilon": 1, "delta": DELTA, "tests": 10, "hits": 2} | wrong))


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"delta": 1}, {"epsilon": math.nan}, {"neighbors": "near"}], ids=str)
def test_bad_budgets_are_refused(wrong):
    with pytest.raises(CharyError):
        advise(**({"epsilon": 1, "delta": DELTA, "tests": 10, "hits": 2} | wrong))


def test_monotone_questions_need_neighbours_that_add():
    with pytest.raises(InvalidParameter, match="add/remove"):
        advise(epsilon=1, tests=10, hits=2, monotone=True, neighbors="replace")


def test_figures_are_rounded_up_in_the_table():
    advice = advise(epsilon=1, tests=10, hits=2)
    shown = replace(advice, options=(replace(advice.options[0], error=1230.1, value_error=0.1234),), unfit=())
    assert "1,240" in str(shown)
    assert "0.124" in str(shown)
    assert list(advice.as_dict()) == ["tests", "hits", "values", "confidence", "options", "unfit"]
    assert advice.as_dict()["options"][0]["epsilon"] == 1.0


@pytest.mark.parametrize("position", range(7))
def test_a_series_is_asked_whole(position):
    rows = pl.DataFrame({"trips": [500] * 3 + [0] * 27})
    with chary.open_counts(rows, column="trips", sensitivity=2, ledger=":memory:", budget=USUAL) as session:
        advice = advise_for(session, tests=30, hits=3, sensitivity=2)
        assert "bounded_change" in reasons(advice)["sparse vector, tuned, monotone"]
        option = [option for option in advice.options if option.code is not None][position]
        names = CALLS | {"session": session, "query": session.series(), "above": 250}
        found = eval(option.code, names)
        if "start(" in option.code:
            found.ask(session.series(), above=HIT)
        assert session.spent.share <= option.share * (1 + 1e-9)
        assert session.spent.share > 0 or "release_if" in option.code
        if "release(" in option.code:
            assert max(abs(value - 500 * (key < 3)) for key, value in enumerate(found.values)) < 3 * option.error


SHARP = ["optimal threshold test", "optimal threshold test, balanced"]


@pytest.mark.statistical
@pytest.mark.parametrize("name", SHARP)
def test_sharp_tests_and_their_values_keep_their_errors(name):
    tests, hits, sensitivity, runs = 200, 30, 3, 400
    option = named(advise(epsilon=1, delta=DELTA, tests=tests, hits=hits, sensitivity=sensitivity))[name]
    filter_, called = RenyiFilter.best(USUAL, grain=grain_of(option)), asked(option)
    made = called.sharpness(filter_, sensitivity, Fraction(1), called.value_share)

    def told_rightly(distance):
        """In how many runs all tests are right, half of them so far below and half above the bar."""
        offsets = np.repeat([-distance, distance], tests // 2)
        drawn = made.sampler.hits(np.tile(offsets + made.bar, runs), Seeded(15)).reshape(runs, tests)
        return np.count_nonzero((drawn == (offsets >= 0)).all(axis=1))

    assert kept(runs, told_rightly(int(option.test_error)))
    assert not kept(runs, told_rightly(int(option.test_error) * 2 // 3))
    drawn = Gaussian.for_rho(made.value_rho, l2_squared=sensitivity**2).draw(Seeded(16), hits * runs)
    assert drawn.std() == pytest.approx(option.value_deviation, rel=0.02)
    farthest = np.abs(drawn).reshape(runs, hits).max(axis=1)
    assert kept(runs, np.count_nonzero(farthest <= option.value_error))
    assert not kept(runs, np.count_nonzero(farthest <= option.value_error * 2 / 3))


def grain_of(option):
    return Fraction(re.search(r"grain=([0-9.]+)", option.opening)[1])


def asked(option):
    """The call that its code makes."""
    kind, given = re.fullmatch(r"session\.(\w+)\((.*)\)", option.code).groups()
    made = {"test": ThresholdTest, "release_if": ReleaseIf}[kind]
    return eval(f"made({given})", {"made": made, "query": count(), "above": 100})


@pytest.mark.parametrize("values", [True, False])
def test_a_sharp_call_is_quoted_with_the_error_of_the_advice(opened_by, values):
    option = named(advise(epsilon=1, delta=DELTA, tests=500, hits=6, values=values, confidence=0.9))[
        "optimal threshold test"
    ]
    with opened_by(option) as session:
        assert session.quote(asked(option), tests=500, confidence=0.9).within.error == option.test_error


@pytest.mark.parametrize("name", SHARP)
def test_keys_are_watched_at_the_price_of_single_tests(opened_by, name):
    option = named(advise(epsilon=1, delta=DELTA, tests=300, hits=3))[name]
    query = count().by("clinic", ["north", "south", "east"])
    with opened_by(option) as session:
        found = eval(option.by_key, {"session": session, "query": query, "above": HIT})
        assert found.hits == 3
        assert session.spent.share == pytest.approx(option.share, rel=1e-9)
        with pytest.raises(BudgetExceeded):
            eval(option.code, {"session": session, "query": count(), "above": HIT})


def test_the_price_of_a_hit_is_split_between_test_and_value():
    terms = {"epsilon": 1, "delta": DELTA, "tests": 10_000, "hits": 20}
    usual, balanced = (named(advise(**terms))[name] for name in SHARP)
    alone = named(advise(**terms, values=False))["optimal threshold test"]
    assert alone.test_error < balanced.test_error < usual.test_error
    assert balanced.error < usual.error
    assert usual.value_error < balanced.value_error
    assert balanced.value_error == pytest.approx(balanced.test_error, rel=0.1)
    assert alone.by_key is None


def test_what_wins_turns_on_how_many_hits_and_tests():
    few, many, small = (
        advise(epsilon=1, delta=DELTA, tests=tests, hits=hits) for tests, hits in ((10_000, 2), (10_000, 40), (30, 20))
    )
    assert "sparse vector" in few.best.mechanism
    assert "optimal threshold test" in many.best.mechanism
    # Where nearly all are to hit, releasing everything is best.
    assert small.best.mechanism == "plain composition, Gaussian"


def test_an_agreed_number_of_tests_errs_less():
    for values in (True, False):
        for hits in (3, 30):
            found = named(advise(epsilon=1, delta=DELTA, tests=1000, hits=hits, values=values))
            assert found["optimal threshold test, fixed number of tests"].error < found["optimal threshold test"].error


@pytest.mark.parametrize("terms", [{}, {"confidence": 0.9}, {"tests": None, "keys": 500, "reach": 5}], ids=str)
def test_an_agreed_run_is_as_accurate_as_advised(opened_by, terms):
    found = advise(epsilon=1, delta=DELTA, **({"tests": 500, "hits": 6} | terms))
    option = named(found)["optimal threshold test, fixed number of tests"]
    with opened_by(option) as session:
        run = eval(option.code, CALLS | {"session": session})
        told = run.state.accuracy(tests=500, confidence=terms.get("confidence", 0.95))
        assert told.error == option.test_error
        assert run.state.tests == terms.get("reach", 500)


def test_without_values_nothing_is_balanced(opened):
    told = reasons(advise(epsilon=1, delta=DELTA, tests=10, hits=2, values=False))
    assert "values=True" in told["optimal threshold test, balanced"]
    assert "delta" in reasons(advise(epsilon=1, tests=10, hits=2))["optimal threshold test"]
    assert "delta" in reasons(advise(epsilon=1, tests=10, hits=2))["optimal threshold test, fixed number of tests"]
    released = reasons(advise_for(opened(budget=Budget(epsilon=1)), tests=9, hits=2))
    assert "take a sparse vector" in released["optimal threshold test, fixed number of tests"]


def test_a_pure_session_says_that_it_has_no_price_for_sharp_tests(opened):
    told = reasons(advise_for(opened(budget=Budget(epsilon=1)), tests=9, hits=2))
    assert "no cost for optimal tests" in told["optimal threshold test"]


@pytest.mark.parametrize("reach", [1, 2])
def test_keys_that_units_do_not_share_are_released_together(opened_by, reach):
    advice = advise(epsilon=1, delta=DELTA, keys=3, hits=3, reach=reach)
    assert "plain composition" in advice.best.mechanism
    query = count().by("clinic", ["north", "south", "east"], max_groups_per_unit=reach)
    asked = [option for option in advice.options if option.code is not None and "start(" not in option.code]
    assert {re.search(r"\.(\w+)", option.code)[1] for option in asked} == {"release", "release_if"}
    for option in asked:
        assert option.by_key in (None, option.code)
        with opened_by(option) as session:
            names = {"session": session, "query": query, "above": HIT}
            found = eval(option.code, names)
            assert "release" in option.code or found.hits == 3
            assert session.spent.share == pytest.approx(option.share, rel=1e-9)
            assert leaves_nothing(session, lambda asked=session: asked.release(count(), epsilon=0.02))


def test_what_units_do_not_share_costs_less():
    terms = {"epsilon": 1, "delta": DELTA, "hits": 12}
    shared, apart = (named(advise(**terms, **how)) for how in ({"tests": 500}, {"keys": 500, "reach": 2}))
    unlike = {name for name, option in shared.items() if apart[name].error < option.error}
    assert unlike == {name for name in shared if "sparse" not in name}
    assert {name: option.error for name, option in named(advise(**terms, keys=500)).items()} == {
        name: option.error for name, option in shared.items()
    }


def test_a_series_without_values_is_watched_all_the_same():
    rows = pl.DataFrame({"trips": [500] * 3 + [0] * 27})
    with chary.open_counts(rows, column="trips", ledger=":memory:", budget=USUAL, sensitivity=1) as session:
        option = named(advise_for(session, tests=30, hits=3, values=False, above=250))["optimal threshold test"]
        assert (option.value_error, option.code) == (None, option.by_key)
        found = eval(option.code, {"session": session, "query": session.series()})
        assert len(found.keys) == 30
        assert session.spent.share <= option.share
        with pytest.raises(InvalidParameter, match="reach"):
            advise_for(session, keys=30, hits=3, reach=1)
