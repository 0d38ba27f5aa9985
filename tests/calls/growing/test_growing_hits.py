"""Growing tables asked by sharp tests: what is charged and when, sizes, ends, restarts, refusals."""

import numpy as np
import pytest
import scipy.stats

import chary
from chary import Budget, BudgetExceeded, count, mean
from chary.accounting import SharpTest
from chary.accounting.sharp_widths import half_width
from chary.calls import GrowingTests
from chary.errors import InvalidParameter, InvalidQuery, NotPriced
from tests.calls.growing.growing_sparse_kit import more

BUDGET = Budget(epsilon=1, delta=1e-6)
CLEAR = Budget(epsilon=500, delta=1e-6)
ALPHA = 1e-6


def growing(session, **how):
    return session.start(GrowingTests(**({"above": "0.5"} | how)))


def test_a_no_is_free_and_a_yes_takes_its_share(rows):
    session = rows(budget=CLEAR)
    run = growing(session, hits=10, values=True)
    for _ in range(3):
        assert not run.ask(count("age > 200"))
    assert (session.spent.share, run.state.rounds, run.state.left, run.state.open_round) == (0, 0, 10, None)
    yes = run.ask(count())
    assert (yes.above, yes.round, yes.value) == (True, 1, pytest.approx(1, abs=0.1))
    assert (session.spent.share, run.state.rounds, run.state.left) == (pytest.approx(0.1), 1, 9)
    low, high = yes.interval
    assert low <= 1 <= high


@pytest.mark.parametrize(("exponent", "part"), [(1, 1), ("0.5", 1 / 2), (0, 1 / 4)])
def test_what_a_yes_costs_follows_the_size(rows, exponent, part):
    session = rows(budget=CLEAR)
    run = growing(session, price="0.1", exponent=exponent)
    session.append(more(120))
    assert run.ask(count())
    assert session.spent.share == pytest.approx(0.1 * part, rel=1e-6)


def test_it_ends_after_its_rounds(rows):
    session = rows(budget=CLEAR)
    run = growing(session, hits=10, rounds=2)
    assert [bool(run.ask(count(where))) for where in (None, "age > 200", None)] == [True, False, True]
    assert run.state.left == 0
    with pytest.raises(BudgetExceeded, match="have ended"):
        run.ask(count())
    assert session.spent.share == pytest.approx(0.2)


def test_it_goes_on_after_a_restart(rows, tmp_path):
    place = tmp_path / "visits.ledger"
    session = rows(budget=CLEAR, ledger=place)
    run = growing(session, within="0.2", tests=10, values=True, value="0.4")
    assert run.ask(count())
    told, left = run.quote(count()), run.state.left
    session.close()
    again = rows(budget=CLEAR, ledger=place)
    run = again.resume(run.call)
    assert (run.quote(count()), run.state.left, run.state.rounds) == (told, left, 1)
    filter_ = again.spine.filter
    price = told.price_if_hit * filter_.capacity.main / filter_.steps * 0.6
    assert half_width(SharpTest(filter_.order, f"{price:.12g}"), 0.05 / 20) <= 0.2 * 120 * (1 + 1e-6)


def test_tests_have_the_chances_of_the_chain_at_the_threshold_of_the_size(rows):
    """A total with another grid and sensitivity than counts is asked as it is."""
    session = rows(budget=BUDGET)
    run = growing(session, hits=5, above="0.5")
    query = chary.sum("age", bounds=(0, 100), grid="0.5")
    wrong = run.plan(query, above=50).forecast().wrong
    table = run.law.at(120).sharpness(200, query.grid).sampler.table
    assert table.spacing == 200
    chances = [table.hit_chance(distance) for distance in (-200, 0, 200)]
    assert chances[0] < chances[1] == 0.5 < chances[2]
    assert [wrong(distance) for distance in (-200, 200)] == [float(chances[0]), float(1 - chances[2])]


def test_a_threshold_at_the_average_is_a_fair_coin(rows):
    session = rows(budget=Budget(epsilon=1, delta=1e-6))
    run = growing(session, price="0.001", above="1")
    found = [bool(run.ask(count())) for _ in range(400)]
    assert scipy.stats.binomtest(sum(found), 400, 0.5).pvalue > ALPHA
    assert session.spent.share == pytest.approx(0.001 * np.sum(found))


def test_accuracy_is_that_of_the_tests_and_the_values(rows):
    run, plain = (growing(rows(budget=BUDGET), hits=20, values=values) for values in (True, False))
    tests, both = plain.state.accuracy(tests=1000), run.state.accuracy(tests=1000, rounds=20)
    price = SharpTest(plain.law.hit.filter.order, plain.law.hit.price)
    assert tests.error * 120 >= half_width(price, 0.05 / 2000)
    assert both.error > tests.error


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({}, "specify the accuracy or the cost"),
        ({"hits": 3, "epsilon": "0.1"}, "exclude one another"),
        ({"within": "0.1"}, "give tests="),
        ({"hits": 3, "value": "0.1"}, "values=True"),
        ({"epsilon": "0.1", "tests": 3}, "belongs to an optimal test"),
    ],
)
def test_what_is_said_twice_or_halfway_is_refused(how, told):
    with pytest.raises(InvalidParameter, match=told):
        GrowingTests(above="0.5", **how)


def test_what_cannot_be_asked_is_refused_and_free(rows):
    session = rows(budget=BUDGET)
    run = growing(session, hits=5)
    with pytest.raises(InvalidParameter, match="no round to begin"):
        run.ask()
    with pytest.raises(InvalidParameter, match="proportion of the rows"):
        run.ask(count(), above=30)
    for query in (mean("age", bounds=(0, 100)), count().by("clinic", ["north"])):
        with pytest.raises(InvalidQuery, match="one group at a time"):
            run.ask(query)
    assert len(session.history) == 1


def test_other_filters_have_no_price_for_sharp_tests(rows):
    session = rows(budget=Budget(epsilon=1), filter="pure")
    with pytest.raises(NotPriced, match="epsilon="):
        growing(session, hits=3)
