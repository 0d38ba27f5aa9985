"""Tests of a query with keys: which keys are above, with values or without."""

import numpy as np
import pytest

import chary
from chary import Budget, count, mean
from chary.calls import ReleaseIf, ThresholdTest, WatchResult
from chary.calls import TestedKeys as Found
from chary.calls.call import named, of_record
from chary.calls.run import titled
from chary.client.wire import in_typed, of_typed
from chary.core.plan import Data
from chary.errors import InvalidQuery
from chary.noise import Seeded
from chary.session import findings
from tests.session.kit import CLINICS, PAID

EVERY = count().by("clinic", CLINICS)
BUDGET = Budget(epsilon=20, delta=1e-6)
SURE = Budget(epsilon=1000, delta=1e-6)
FAR = 10**6
WAYS = [{"epsilon": "0.1"}, {"hits": 20}, {"hits": 20, "tests": 9}]


@pytest.fixture(params=WAYS, ids=str)
def how(request):
    """By Laplace noise, by a sharp test, and by one whose bar is placed for an agreed number."""
    return request.param


def test_keys_that_hit_have_no_value(opened):
    session = opened(budget=SURE, unsafe_noise=Seeded(1))
    frame = count().by("clinic", [*CLINICS, "nowhere"])
    exact = session.release(frame, epsilon=400).value
    for sharply in ({"epsilon": 40}, {"hits": 8}):
        found = session.test(frame, above=20, **sharply)
        assert type(found) is Found
        assert found.value == {key: None for key, value in exact.items() if value >= 20}
        assert found.hit
        assert found["nowhere"] == {
            "clinic": "nowhere",
            "hit": False,
            "value": None,
            "low": None,
            "high": None,
            "caution": None,
        }


def test_no_noisy_value_is_stored_told_or_sent(opened, how):
    session = opened(budget=BUDGET)
    found = session.test(EVERY, above=-FAR, **how)
    [stored] = session.history
    assert stored.answer == {"tested": 3, "positions": [0, 1, 2]}
    assert (stored.kind, stored.question["parallel"], stored.hits) == ("test", 3, 3)
    assert set(found.value) == set(CLINICS)
    assert (found.error_bar, found.publication, found.chart()) == (None, None, None)
    assert not found.findings
    assert of_typed(in_typed(found)) == found
    assert "noisy" not in str(found.to_dict())


def test_the_same_is_answered_again_and_never_as_a_release(opened, how):
    session = opened(budget=BUDGET)
    found = session.test(EVERY, above=10, below_margin=True, **how, request="monday")
    spent = session.spent
    assert session.test(EVERY, above=10, below_margin=True, **how, request="monday") == found
    with pytest.raises(chary.RequestConflict):
        session.release_if(EVERY, above=10, below_margin=True, **how, request="monday")
    assert session.spent == spent


def test_a_key_is_tested_as_a_query_alone(opened, how):
    """The law of a hit, over many draws, and its price for each key that a unit can be in."""
    session = opened(budget=BUDGET)
    one = ThresholdTest(count(), above=40, below_margin=True, **how).plan(session.spine)
    all_keys = ThresholdTest(EVERY, above=40, below_margin=True, **how).plan(session.spine)
    assert (all_keys.event, all_keys.cost.parts, all_keys.cost.halts) == (one.event, 3, True)
    assert all_keys.price(session.spine.filter) == one.price(session.spine.filter)
    source, runs, truths = Seeded(7), 2000, [30, 40, 60]
    hits = np.zeros((2, 3))
    for _ in range(runs):
        ran = all_keys.run(Data([np.array(truths)], source, None, None, PAID))
        hits[0, ran.answer["positions"]] += 1
        for place, truth in enumerate(truths):
            hits[1, place] += one.run(Data([np.array([truth])], source, None, None, PAID)).answer["hit"]
    assert (abs(hits[0] - hits[1]) <= 5 * (runs / 2) ** 0.5).all()
    assert (hits[0][:-1] < hits[0][1:]).all()


def test_what_did_not_hit_is_not_far_above_the_bar(opened, how):
    session = opened(budget=BUDGET)
    plan = ThresholdTest(EVERY, above=900, **how).plan(session.spine)
    answer = plan.present({"tested": 3, "positions": [1]}, 1)
    assert answer.value == {"south": None}
    assert 899 <= answer.others_at_most < 1300
    ends = answer.together()
    assert ends["south"] == (None, None)
    assert {ends["north"], ends["east"]} == {answer._silence((1 + chary.numbers.exact("0.95", "confidence")) / 2)}
    assert plan.present({"tested": 1, "positions": [0]}, 1).untested == (("south",), ("east",))


def test_values_cost_their_part_by_sharp_tests_and_nothing_by_laplace_noise(opened):
    session = opened(budget=BUDGET)
    prices = {
        kind: session.quote(kind(EVERY, above=500, price="0.01")).most_charged for kind in (ThresholdTest, ReleaseIf)
    }
    assert prices[ThresholdTest] == prices[ReleaseIf]
    told, silent = (session.quote(kind(EVERY, above=500, price="0.01"), tests=9) for kind in (ReleaseIf, ThresholdTest))
    assert silent.within.error < told.within.error
    by_noise = [
        session.quote(kind(EVERY, above=500, epsilon="0.1")).most_charged for kind in (ReleaseIf, ThresholdTest)
    ]
    assert by_noise[0] == by_noise[1]


def test_a_release_of_keys_is_what_a_ledger_calls_a_watch(opened):
    session = opened(budget=BUDGET)
    found = session.release_if(EVERY, above=-FAR, epsilon="0.1")
    [stored] = session.history
    assert type(found) is WatchResult
    assert (stored.kind, sorted(stored.answer)) == ("watch", ["noisy", "positions", "tested"])
    assert stored.question == {"query": EVERY.body(), "above": str(-FAR), "epsilon": "1/10", "parallel": 3}
    call = ReleaseIf(EVERY, above=-FAR, epsilon="0.1")
    assert of_record("watch", stored.question) == call
    assert (session.quote(call).kind, named("watch"), titled("watch")) == ("release_if", "release_if", "Release if")
    assert list(findings(session)) == list(found.findings)
    assert len(found.findings) == 3


@pytest.mark.parametrize("kind", [ReleaseIf, ThresholdTest])
def test_means_of_keys_are_refused(opened, kind):
    means = mean("cost", bounds=(0, 20), max_rows_per_unit=1).by("clinic", CLINICS)
    with pytest.raises(InvalidQuery, match="a count, a sum or a series"):
        opened(budget=BUDGET).ask(kind(means, above=5, epsilon="0.1"))
