"""Advice: errors that are kept, calls that run and fit, the order, refusals, and nothing read or charged."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

import chary
from chary import Budget, BudgetRefused, advise, count
from chary.amounts import Amount
from chary.errors import CharyError, InvalidParameter
from chary.filters import sizing
from chary.mechanisms import Laplace, SparseVector
from chary.noise import Seeded
from chary.session.sparse import OpenSparse
from tests.session.kit import USUAL, spent, visits

ALPHA = 1e-6
DELTA = 1e-6
HIT, MISS = -(10**12), 10**12


def named(advice):
    return {option.mechanism: option for option in advice.options}


def reasons(advice):
    return {unfit.mechanism: unfit.reason for unfit in advice.unfit}


def kept(runs, successes):
    """Whether so many successes can come from a chance of at least 95 %."""
    return binom.cdf(successes, runs, 0.95) > ALPHA


SPARSE = ["sparse vector, published", "sparse vector, tuned", "sparse vector, tuned, monotone"]


def crossings(option, error, made, tests, hits, runs):
    """How often a sparse vector told all tests rightly that lie the error away, and all values within it."""
    machine, source, right = made.mechanism, Seeded(11), 0
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
    form = {"form": "published"} if "published" in name else {"monotone": "monotone" in name}
    made = OpenSparse(chary.Neighbouring("add/remove", None), 0, hits, option.epsilon, values=True, **form)
    assert isinstance(made.mechanism, SparseVector)
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
    query, names = count(), {"session": session, "query": count()}
    if "release(" in option.code:
        for _ in range(tests):
            eval(option.code, names)
        return lambda: eval(option.code, names)
    if "sparse_vector" in option.code:
        opened = eval(option.code, names | {"above": 0})
        for bar in [MISS] * (tests - hits) + [HIT] * hits:
            assert opened.test(query, above=bar).above == (bar == HIT)
        return lambda: opened.test(query)
    for bar in [MISS] * (tests - hits) + [HIT] * hits:
        found = eval(option.code, names | {"above": bar})
        assert getattr(found, "published", found) == (bar == HIT)
    return lambda: eval(option.code, names | {"above": HIT})


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
            with pytest.raises(BudgetRefused):
                another()


@pytest.mark.parametrize("kind", ["renyi", "pure", "exact"])
def test_calls_for_what_is_left_run_and_fit(opened, kind):
    terms = {"filter": kind} if kind == "pure" else {"filter": kind, "grain": 0.02}
    for position in range(6):
        session = opened(budget=USUAL, **terms)
        for _ in range(3):
            session.release(count(), epsilon=0.02)
        before = session.spent.share
        options = [option for option in session.advise(tests=12, hits=4).options if option.code is not None]
        assert all(option.opening is None for option in options)
        if position < len(options):
            another = spend(session, options[position], 12, 4)
            assert session.spent.share - before == pytest.approx(options[position].share, rel=1e-9)
            if kind != "exact" or "sparse" in options[position].mechanism:
                with pytest.raises(BudgetRefused):
                    another()


def test_a_watch_by_keys_is_offered_where_it_is_the_same(opened):
    session = opened(budget=USUAL, filter="renyi", grain=0.02)
    option = named(session.advise(tests=3, hits=3))["target charging, renyi filter"]
    query = count().by("clinic", ["north", "south", "east"])
    found = eval(option.by_key, {"session": session, "query": query, "above": HIT})
    assert (found.hits, session.spent.share) == (3, pytest.approx(option.share))


def test_gaussian_runs_fit_wherever_the_hits_lie(opened):
    budget, terms = Budget(epsilon=100), {"values": False, "low": 0, "high": 51, "above": "25.5"}
    option = named(opened(budget=budget).advise(tests=12, hits=3, **terms))["Gaussian above threshold"]
    assert option.test_deviation < 2
    for spread in ([4] * 3, [1, 1, 10], [10, 1, 1]):
        session = opened(budget=budget)
        for steps in spread:
            run = eval(option.code, {"session": session})
            answers = [run.test(count("age > 1000")) for _ in range(steps - 1)] + [run.test(count())]
            assert answers == [False] * (steps - 1) + [True]
        assert session.spent.share <= option.share <= 1


def test_the_smallest_error_is_first_and_the_best_has_a_call():
    advice = advise(epsilon=1, delta=DELTA, tests=10_000, hits=60)
    errors = [(option.error, option.share) for option in advice.options]
    assert errors == sorted(errors)
    assert advice.options[0].mechanism == "target charging, exact curve"
    assert advice.best.mechanism == "target charging, exact filter"
    few = advise(epsilon=1, delta=DELTA, tests=10_000, hits=3)
    assert few.best.mechanism == "sparse vector, tuned, monotone"
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
    replaced = reasons(advise(epsilon=1, delta=DELTA, tests=100, hits=3, relation="replace"))
    assert "replace" in replaced["sparse vector, tuned, monotone"]


def test_the_menu_of_an_exact_filter_has_an_end(monkeypatch):
    monkeypatch.setattr(sizing, "LATTICE_TOKENS", 4)
    told = reasons(advise(epsilon=1, delta=DELTA, tests=10, hits=5))
    assert "up to 4 tokens" in told["target charging, exact filter"]


def test_a_session_says_what_its_filter_has_no_price_for(opened):
    told = reasons(
        opened(budget=USUAL, filter="exact", grain=0.02).advise(tests=9, hits=2, values=False, low=0, high=9)
    )
    assert "menu" in told["Gaussian above threshold"]
    assert "set aside" in told["sparse vector, published, delta"]
    pure = opened(budget=USUAL, filter="pure", approximate_delta=DELTA)
    assert "sparse vector, published, delta" in named(pure.advise(tests=9, hits=2))
    assert "no pure epsilon" in reasons(pure.advise(tests=9, hits=2))["plain composition, Gaussian"]


def test_a_budget_nearly_used_up(opened):
    session = opened(budget=Budget(epsilon=1))
    fresh = session.advise(tests=10, hits=2)
    session.release(count(), epsilon="0.999")
    left = session.advise(tests=10, hits=2)
    assert named(left)["sparse vector, tuned"].epsilon == Fraction(1, 1000)
    assert named(left)["sparse vector, tuned"].error > 900 * named(fresh)["sparse vector, tuned"].error
    session.release(count(), epsilon="0.001")
    nothing = session.advise(tests=10, hits=2)
    assert (nothing.options, nothing.best) == ((), None)
    assert "0 % of the budget" in reasons(nothing)["target charging, pure filter"]
    assert "does not apply" in str(nothing)


def test_an_analysts_cap_counts(opened):
    session = opened(budget=Budget(epsilon=1))
    session.set_share("analyst", 0.25)
    option = named(session.advise(tests=10, hits=2))["sparse vector, tuned"]
    assert (option.epsilon, option.share) == (Fraction(1, 4), 0.25)


def test_comparisons_are_for_a_whole_budget(opened):
    session = opened(budget=USUAL)
    assert "target charging, published bound" in named(session.advise(tests=10, hits=2))
    session.release(count(), epsilon=0.01)
    after = session.advise(tests=10, hits=2)
    assert "target charging, published bound" not in named(after)
    assert "not all of this one is left" in reasons(after)["target charging, published bound"]


def test_nothing_is_read_and_nothing_is_charged(opened):
    steps = []
    session = opened(budget=USUAL, on_step=steps.append)
    session.advise(tests=10, hits=2)
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
    ],
    ids=str,
)
def test_bad_input_is_refused(opened, wrong):
    session = opened(budget=USUAL)
    with pytest.raises(InvalidParameter):
        session.advise(**({"tests": 10, "hits": 2} | wrong))
    with pytest.raises(InvalidParameter):
        advise(**({"epsilon": 1, "delta": DELTA, "tests": 10, "hits": 2} | wrong))


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"delta": 1}, {"epsilon": math.nan}, {"relation": "near"}], ids=str)
def test_bad_budgets_are_refused(wrong):
    with pytest.raises(CharyError):
        advise(**({"epsilon": 1, "delta": DELTA, "tests": 10, "hits": 2} | wrong))


def test_monotone_questions_need_neighbours_that_add():
    with pytest.raises(InvalidParameter, match="add/remove"):
        advise(epsilon=1, tests=10, hits=2, monotone=True, relation="replace")


def test_figures_are_rounded_up_in_the_table():
    advice = advise(epsilon=1, tests=10, hits=2)
    shown = replace(advice, options=(replace(advice.options[0], error=1230.1, value_error=0.1234),), unfit=())
    assert "1,240" in str(shown)
    assert "0.124" in str(shown)
    assert list(advice.as_dict()) == ["tests", "hits", "values", "confidence", "options", "unfit"]
    assert advice.as_dict()["options"][0]["epsilon"] == 1.0


@pytest.mark.parametrize("position", range(4))
def test_a_series_is_asked_whole(position):
    rows = pl.DataFrame({"trips": [500] * 3 + [0] * 27})
    with chary.open_series(rows, column="trips", sensitivity=2, ledger=":memory:", budget=USUAL) as session:
        advice = session.advise(tests=30, hits=3, sensitivity=2)
        assert "bounded change" in reasons(advice)["sparse vector, tuned, monotone"]
        option = [option for option in advice.options if option.code is not None][position]
        names = {"session": session, "query": session.series(), "above": 250}
        found = eval(option.code, names)
        if "sparse_vector" in option.code:
            found.watch(session.series(), above=HIT)
        assert session.spent.share <= option.share * (1 + 1e-9)
        assert session.spent.share > 0 or "watch" in option.code
        if "release(" in option.code:
            assert max(abs(value - 500 * (key < 3)) for key, value in enumerate(found.values)) < 3 * option.error
