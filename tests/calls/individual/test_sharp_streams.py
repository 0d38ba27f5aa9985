"""Streams of sharp tests: what is charged and when, restarts, fresh values, refusals."""

import numpy as np
import pytest
import scipy.stats

from chary import Budget, count
from chary.accounting import SharpTest
from chary.accounting.sharp_widths import half_width
from chary.calls import IndividualTests
from chary.errors import InvalidParameter, NotPriced
from chary.noise import Seeded
from tests.session.kit import CLINICS, visits

BUDGET = Budget(epsilon=1, delta=1e-6)
ALPHA = 1e-6
ALWAYS, NEVER = -(10**6), 10**6


@pytest.mark.parametrize(("neighbors", "times"), [("add_remove", 1), ("replace", 2)])
def test_all_hits_of_a_unit_are_charged_at_once_and_nothing_afterwards(opened, neighbors, times):
    session = opened(budget=BUDGET, neighbors=neighbors)
    stream = session.start(IndividualTests(price="0.02", hits=3))
    assert session.spent.share == pytest.approx(times * 0.06)
    assert (stream.state.epsilon, stream.state.hits, stream.state.price) == (None, 3, pytest.approx(0.02))
    found = [stream.ask(count(), above=above).published for above in (NEVER, ALWAYS, ALWAYS, ALWAYS)]
    assert found == [False, True, True, True]
    assert session.spent.share == pytest.approx(times * 0.06)


def test_a_unit_drops_out_after_its_hits(opened):
    """What is told then are the counts of nobody."""
    session = opened(budget=Budget(epsilon=500, delta=1e-6))
    stream = session.start(IndividualTests(price="0.1", hits=2))
    units = visits()["patient"].nunique()
    told = [stream.ask(count(), above=units // 2).value for _ in range(4)]
    assert [value is None for value in told] == [False, False, True, True]
    assert all(abs(value - units) < units / 4 for value in told[:2])


def test_each_key_is_a_test_of_its_own_and_is_told_with_its_value(opened):
    session = opened(budget=Budget(epsilon=500, delta=1e-6))
    stream = session.start(IndividualTests(price="0.1", hits=9))
    exact = visits().groupby("clinic")["patient"].nunique()
    found = stream.ask(count().by("clinic", CLINICS), above=5)
    assert set(found.above) == {(clinic,) for clinic in CLINICS if exact.get(clinic, 0) >= 5}
    assert all(abs(value - exact[clinic]) < 8 for (clinic,), value in found.above.items())


def test_a_published_count_is_unbiased_whatever_made_it_be_published(opened):
    """Each key has the same few units, and hits as often as not."""
    session = opened(budget=BUDGET, unsafe_noise=Seeded(7))
    stream = session.start(IndividualTests(price="0.001", hits=900))
    units = visits()["patient"].nunique()
    values = [value for _ in range(300) if (value := stream.ask(count(), above=units).value) is not None]
    assert 90 < len(values) < 210
    assert scipy.stats.ttest_1samp(values, units).pvalue > ALPHA
    bar = stream.quote(count(), above=units).error_bar
    inside = int((np.abs(np.array(values) - units) <= bar).sum())
    assert scipy.stats.binomtest(inside, len(values), 0.95, "less").pvalue > ALPHA


def test_it_goes_on_after_a_restart_with_the_price_that_was_stored(opened, tmp_path):
    place, call = (
        tmp_path / "visits.ledger",
        IndividualTests(hits=2, within=300, tests=100, confidence="0.9", value="0.3"),
    )
    session = opened(budget=BUDGET, ledger=place)
    stream = session.start(call)
    state, quote = stream.state, stream.quote(count(), above=0)
    assert stream.ask(count(), above=ALWAYS).published
    session.close()
    again = opened(budget=BUDGET, ledger=place)
    stream = again.resume(stream.call)
    assert (stream.state, stream.quote(count(), above=0)) == (state, quote)
    assert stream.ask(count(), above=ALWAYS).published
    order, main = again.spine.filter.order, again.spine.filter.capacity.main
    price = state.price * main / again.spine.filter.steps * 0.7
    assert half_width(SharpTest(order, f"{price:.15g}"), 0.1 / 200) <= 300 * (1 + 1e-9)
    assert half_width(SharpTest(order, f"{price * 0.97:.15g}"), 0.1 / 200) > 300


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({}, "specify the accuracy or the cost"),
        ({"price": "0.1", "epsilon": "0.1"}, "exclude one another"),
        ({"within": 5}, "give tests="),
        ({"epsilon": "0.1", "value": "0.5"}, "belongs to an optimal test"),
        ({"price": "0.1", "confidence": "0.5"}, "give tests="),
    ],
)
def test_what_is_said_twice_or_halfway_is_refused(how, told):
    with pytest.raises(InvalidParameter, match=told):
        IndividualTests(hits=3, **how)


def test_other_filters_have_no_price_for_sharp_tests(opened):
    session = opened(budget=Budget(epsilon=1), filter="pure")
    with pytest.raises(NotPriced, match="epsilon="):
        session.start(IndividualTests(price="0.01", hits=3))
    assert session.history == []
