"""Randomized response on behalf of every unit."""

import math

import numpy as np
import pytest
from scipy import stats

from chary import Budget, InvalidParameter, InvalidQuery, count
from chary.accounting import Pure
from chary.calls import RandomizedCounts, RandomizedValues
from chary.calls.call import of_record
from chary.calls.history import History
from chary.calls.run import titled
from chary.mechanisms import RandomizedResponse
from chary.noise import Seeded
from tests.session.kit import NO_NOISE, PLENTY, error_texts, shows_data, spent, visits

CONDITION = "age >= 44"


def truth():
    rows = visits()
    return rows[rows.age >= 44].patient.nunique(), rows.patient.nunique()


def test_answers_without_noise(replaced):
    session = replaced(budget=NO_NOISE)
    found = session.ask(RandomizedValues(condition=CONDITION, epsilon=PLENTY))
    yes, units = truth()
    assert (found.ones, found.units) == (yes, units)
    assert found.share == pytest.approx(yes / units)
    exact = found.estimate(0.99)
    assert exact.low == exact.high == yes / units
    assert session.ask(RandomizedValues(condition="age < 0", epsilon=PLENTY)).ones == 0


@pytest.mark.statistical
def test_the_law_of_the_number_of_ones(replaced):
    session = replaced(budget=Budget(epsilon=4000), unsafe_noise=Seeded(2))
    rows, size = visits(), 800
    yes, units = rows[rows.age >= 25].patient.nunique(), rows.patient.nunique()
    ones = [session.ask(RandomizedValues(condition="age >= 25", epsilon="0.7")).ones for _ in range(size)]
    found = np.bincount(ones, minlength=units + 1)
    for epsilon, follows in ((0.7, True), (1.4, False), (0.35, False)):
        lie = 1 / (1 + math.exp(epsilon))
        told = stats.binom.pmf(np.arange(yes + 1), yes, 1 - lie)
        law = np.convolve(told, stats.binom.pmf(np.arange(units - yes + 1), units - yes, lie))
        bins = np.searchsorted(np.cumsum(law), np.linspace(0.1, 0.9, 9))
        counts, chances = (np.add.reduceat(x, np.unique(np.r_[0, bins + 1])) for x in (found, law))
        assert (stats.chisquare(counts, chances / chances.sum() * size).pvalue > 1e-6) == follows


def test_it_is_charged_as_a_pure_release(replaced):
    session = replaced()
    session.ask(RandomizedValues(condition=CONDITION, epsilon="0.02"))
    assert spent(session) == session.spine.filter.price(Pure("0.02")).hit
    entry = session.history[-1]
    assert sorted(entry.answer) == ["ones", "units"]


def test_ledgers_hold_a_condition_by_a_kind_of_its_own(replaced):
    session, call = replaced(), RandomizedValues(condition=CONDITION, epsilon="0.02")
    answer = session.ask(call)
    [stored] = session.history
    assert (stored.kind, stored.question) == ("randomized", {"query": count(CONDITION).body(), "epsilon": "1/50"})
    assert of_record(stored.kind, stored.question) == call
    assert (session.quote(call).kind, titled(stored.kind)) == ("randomized_values", "Randomized values")
    assert History(session.spine).rebuilt(session.spine.ledger.call(stored.call)).answer == answer


def test_the_number_of_units_is_secret_under_add_remove(opened):
    session = opened()
    with pytest.raises(InvalidQuery) as caught:
        session.ask(RandomizedValues(condition=CONDITION, epsilon="0.25"))
    told = str(caught.value)
    assert "neighbors='replace'" in told
    assert "session.release(count('age >= 44'), epsilon=0.25)" in told
    assert session.history == []


def test_without_units_there_is_no_share():
    found = RandomizedCounts(1, 0, 0, RandomizedResponse(1))
    with pytest.raises(InvalidParameter):
        found.estimate()


def test_results_are_what_a_survey_would_estimate():
    response = RandomizedResponse("0.4")
    answers = response.answers(np.arange(500) < 200, source=Seeded(1))
    told = RandomizedCounts(1, int(answers.sum()), 500, response)
    assert told.estimate(0.9) == response.estimate(answers, 0.9)
    assert told.share == response.estimate(answers).share


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.ask(RandomizedValues(condition="nothere > 3", epsilon="0.1")),
        lambda s: s.ask(RandomizedValues(condition="age >", epsilon="0.1")),
        lambda s: s.ask(RandomizedValues(epsilon="0.1")),
        lambda s: s.ask(RandomizedValues(condition=CONDITION, epsilon=0)),
        lambda s: s.ask(RandomizedValues(condition=CONDITION, where="age > 3", epsilon=1)),
        lambda s: s.ask(RandomizedValues(condition=CONDITION, mechanism="category", epsilon=1)),
        lambda s: s.ask(RandomizedValues("clinic", among=["a"], condition=CONDITION, epsilon=1)),
        lambda s: s.ask(RandomizedValues("clinic", epsilon=1)),
        lambda s: s.ask(RandomizedValues(among=["a"], epsilon=1)),
        lambda s: s.ask(RandomizedValues(condition=CONDITION, epsilon=math.inf)),
    ],
)
def test_bad_questions_cost_nothing(replaced, ask):
    session = replaced()
    with pytest.raises((InvalidParameter, InvalidQuery)) as caught:
        ask(session)
    assert session.history == []
    assert not shows_data(error_texts(caught.value))


def test_questions_are_named_by_condition_and_size(replaced):
    spine = replaced().spine
    bodies = {
        RandomizedValues(condition=c, epsilon=e).plan(spine).body
        for c in (CONDITION, "age > 44")
        for e in ("0.1", "0.2", 0.1)
    }
    assert len(bodies) == 4


def test_an_epsilon_out_of_range_is_refused_before_anything_is_charged(opened):
    session = opened(neighbors="replace")
    with pytest.raises(InvalidParameter):
        session.ask(RandomizedValues(condition="age > 1", epsilon="1e-15"))
    assert session.spent.share == 0
    assert "the number of units" in session.statement()
