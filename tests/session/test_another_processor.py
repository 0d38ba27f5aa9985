"""A ledger goes on on another processor, whose elementary functions differ in their last digits."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy

import chary
from chary import Budget, count
from chary.accounting import Pure, Targeted
from chary.amounts import MAIN_STEPS
from chary.calls import GaussianAboveThreshold
from chary.filters import ExactFilter, PureFilter, RenyiFilter, restore
from tests.processors import processor
from tests.session.kit import visits

PROCESSORS = (1, 2)


def test_processors_differ_as_processors_do():
    def results():
        many = np.exp(np.linspace(0.1, 5, 1000))
        return math.log(3), float(np.exp(np.array([2.5]))[0]), float(scipy.special.ndtr(0.3)), many

    found = []
    for number in PROCESSORS:
        with processor(number):
            found.append(results())
            assert [float(x) for x in results()[:3]] == [float(x) for x in found[-1][:3]]
            assert (math.exp(0), math.sqrt(2)) == (1, 2**0.5)
    here, (first, second) = results(), found
    assert first[:3] != second[:3]
    assert np.mean(first[3] != second[3]) > 0.5
    np.testing.assert_array_max_ulp(first[3], here[3], 2)
    assert results()[:3] == here[:3]


@pytest.mark.parametrize("name", ["renyi", "pure", "exact"])
def test_a_filter_read_from_a_ledger_has_the_capacity_and_prices_it_was_opened_with(name):
    make = {
        "renyi": lambda: RenyiFilter.best(Budget(epsilon=1, delta=1e-6), grain=Fraction(1, 50)),
        "pure": lambda: PureFilter(Budget(epsilon=1)),
        "exact": lambda: ExactFilter.with_revisions(Budget(epsilon=1, delta=1e-6), Fraction(1, 20)),
    }[name]

    def told(filter_):
        events = [Targeted("0.05"), Pure("0.05"), Targeted("0.1")]
        return filter_.capacity, filter_.body(), [filter_.price(event) for event in events]

    with processor(1):
        made = make()
        before = told(made)
    for number in (2, 3, 4):
        with processor(number):
            assert told(restore(made.budget, made.body())) == before


def test_what_a_filter_has_worked_out_is_read_from_the_ledger_and_not_worked_out_again():
    budget = Budget(epsilon=1, delta=1e-6)
    exact, renyi = ExactFilter(budget, Fraction(1, 20)), RenyiFilter.best(budget, grain=Fraction(1, 50))
    fewer = restore(budget, exact.body() | {"tokens": exact.tokens - 1})
    assert fewer.capacity.main == exact.tokens - 1
    other = restore(budget, renyi.body() | {"order": str(renyi.order + 1)})
    assert other.order == renyi.order + 1
    assert other.capacity != renyi.capacity


def test_a_run_that_goes_on_elsewhere_has_paid_what_its_last_processor_finds(tmp_path):
    given = {"ledger": tmp_path / "visits.ledger", "budget": Budget(epsilon=1), "filter": "pure", "privacy_unit": None}
    noise = {"threshold_noise": 500, "query_noise": 500, "sensitivity": 1}
    call = None
    for number in (1, 2, 3, 1, 4):
        with processor(number), chary.open(visits(), **given) as session:
            terms = {"threshold": 10**5, "low": 0, "high": 100, **noise}
            run = session.start(GaussianAboveThreshold(**terms)) if call is None else session.resume(call)
            call = run.call
            assert not run.ask(count())
            loss = run.terms_of_run.losses(Fraction(1), run.state.steps).of(run.state.steps, halted=False)
            assert Fraction(session.spent.amount.main, MAIN_STEPS) >= Fraction(loss)
            assert run.state.loss >= loss
