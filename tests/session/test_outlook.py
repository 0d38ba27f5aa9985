"""What a quote foretells of tests against a bar, and what is refused because it would mostly buy false alarms."""

import json

import numpy as np
import polars as pl
import pytest

import chary
from chary import Budget, InvalidParameter, count, mean, noise
from chary.calls import OnChange, PrepaidTests, Release, ReleaseIf, Select, SparseVector, ThresholdTest
from chary.core.forecast import MANY
from tests.session.kit import CLINICS, USUAL, spent

ROOM = {"grain": "0.02", "filter": "renyi", "budget": USUAL}
BY_AGE = count().by("age", range(200))
# Both tails of a normal law together have one chance in a million beyond this.
SIX_NINES = 4.9
BLIND = {"above": 60, "epsilon": "0.02"}


def test_an_outlook_is_that_of_the_law(opened):
    session = opened(**ROOM)
    told = session.quote(ReleaseIf(BY_AGE, above=100, epsilon="0.05")).outlook
    law = chary.accounting.LaplaceLaw(20)
    assert (told.tests, told.bar, told.truth, told.below_margin) == (200, 100, 0, True)
    assert told.margin == told.least_bar == chary.accounting.margin_up(law, tests=200, confidence="0.95")
    assert told.false_alarms == chary.accounting.false_alarms_up(law, bar=100, truth=0, tests=200)
    assert told.value_error == chary.accounting.error_of_all_up(law, tests=200, confidence="0.95")
    assert told.clear_from == 174
    far = session.quote(ReleaseIf(BY_AGE, above=100, epsilon="0.05"), tests=10_000, truth=40, confidence="0.9").outlook
    assert (far.tests, far.truth, far.least_bar) == (10_000, 40, 40 + far.margin)
    assert far.false_alarms == chary.accounting.false_alarms_up(law, bar=100, truth=40, tests=10_000)


def test_the_smallest_bar_is_no_longer_below_the_margin(opened):
    session = opened(**ROOM)
    least = session.quote(ReleaseIf(BY_AGE, **BLIND)).outlook.least_bar
    found = [session.quote(ReleaseIf(BY_AGE, above=bar, epsilon="0.02")).outlook for bar in (least - 1, least)]
    assert [each.below_margin for each in found] == [True, False]
    assert found[1].false_alarms <= 0.05 < found[0].false_alarms * 1.1


def test_distances_are_in_the_units_of_the_question(opened):
    costs = chary.sum("cost", bounds=(0, 20), grid="0.5", max_rows_per_unit=2)
    fine, coarse = (
        opened(**ROOM).quote(ReleaseIf(query, above=900, epsilon="0.02")).outlook for query in (costs, count())
    )
    assert fine.margin == pytest.approx(40 * coarse.margin, rel=0.01)
    assert (fine.bar, fine.truth) == (900, 0)


def test_what_bounds_no_truth_needs_one_to_be_said(opened):
    session, change = opened(**ROOM), chary.sum("cost", bounds=(-5, 20), max_rows_per_unit=1)
    told = session.quote(ThresholdTest(change, above=900, epsilon="0.02")).outlook
    assert (told.truth, told.false_alarms, told.least_bar) == (None, None, None)
    assert told.margin > 0
    assert session.quote(ThresholdTest(change, above=900, epsilon="0.02"), truth="-20.5").outlook.false_alarms > 0
    assert session.quote(ThresholdTest(count(), above=5, epsilon="0.02"), truth=5).outlook.false_alarms is None
    middle = mean("cost", bounds=(0, 20), max_rows_per_unit=1)
    assert session.quote(ThresholdTest(middle, above=5, epsilon="0.02")).outlook is None
    assert session.quote(Release(count(), epsilon="0.02")).outlook is None


def test_fresh_values_and_runs_have_an_outlook_too(opened):
    session = opened(**ROOM)
    sharp = session.quote(ReleaseIf(BY_AGE, above=900, hits=5, tests=1000)).outlook
    assert (sharp.tests, sharp.value_error, sharp.clear_from) == (1000, None, None)
    assert 0 < sharp.margin < session.quote(ReleaseIf(BY_AGE, above=900, epsilon="0.02"), tests=1000).outlook.margin
    sparse = session.quote(SparseVector(above=1, hits=2, epsilon="0.1"), tests=10_000).outlook
    assert sparse.false_alarms == 2  # it ends after two
    agreed = session.quote(PrepaidTests(tests=50, hits=5)).outlook
    assert (agreed.bar, agreed.false_alarms, agreed.tests) == (None, None, 50)
    run = session.start(PrepaidTests(tests=50, hits=5))
    assert run.quote(count(), above=500).outlook.margin == agreed.margin


def test_misses_that_are_not_free_are_marked(opened):
    free, pure = opened(**ROOM), opened(budget=Budget(epsilon=1))
    call = ThresholdTest(count(), above=500, epsilon="0.02")
    assert (free.quote(call).misses_charged, free.quote(call).free_below) == (False, None)
    told = pure.quote(call)
    assert (told.misses_charged, told.free_below) == (True, None)
    assert "misses are not free: they would be in a budget with a delta" in str(told)
    assert "color" in told._repr_html_()
    large = free.quote(ThresholdTest(count(), above=500, epsilon=40))
    assert large.misses_charged
    assert free.quote(ThresholdTest(count(), above=500, epsilon=large.free_below)).price_if_miss == 0
    assert free.quote(ThresholdTest(count(), above=500, epsilon=2 * large.free_below)).misses_charged
    for paid in (Release(count(), epsilon="0.1"), SparseVector(above=500, hits=2, epsilon="0.1")):
        assert not free.quote(paid).misses_charged


def test_all_of_it_is_told_in_words_html_and_json(opened):
    quote = opened(**ROOM).quote(
        ReleaseIf(count().by("clinic", CLINICS, max_groups_per_unit=1), above=20, epsilon="0.02")
    )
    for told in ("or more below the threshold", "false alarms if all values are 0", "raise the threshold"):
        assert told in str(quote)
        assert told in quote._repr_html_()
    assert "<table>" in quote._repr_html_()
    assert "session.release(query" in str(quote)
    figures = json.loads(json.dumps(quote.as_dict()))
    assert figures["outlook"]["false_alarms"] == quote.outlook.false_alarms
    assert figures["alternatives"][0]["error"] <= figures["alternatives"][1]["error"]
    assert "compared" not in figures


def test_false_alarms_come_as_often_as_foretold():
    """Discrete Laplace, by alpha 1e-6; a scale wrong by 2/3 or 3/2 fails."""
    tests, rounds = 4000, 25
    rows = pl.DataFrame({"x": [0] * tests})
    budget = Budget(epsilon=10**6, delta=1e-6)
    counted = {}
    for epsilon in ("0.05", "0.0333", "0.075"):
        source = noise.Seeded(5)
        with chary.open_counts(rows, column="x", ledger=":memory:", budget=budget, sensitivity=1) as session:
            call = ReleaseIf(session.series(), above=100, epsilon=epsilon)
            law, expected = call.law(session.spine, call.query), session.quote(call).outlook.false_alarms
            zeros = np.zeros(tests, dtype=np.int64)
            counted[epsilon] = sum(len(law.machine(100, None).step(zeros, source).positions) for _ in range(rounds))
            if epsilon == "0.05":
                mean, width = rounds * expected, SIX_NINES * (rounds * expected) ** 0.5
    assert abs(counted["0.05"] - mean) <= width
    assert abs(counted["0.0333"] - mean) > width
    assert abs(counted["0.075"] - mean) > width


@pytest.mark.parametrize(
    "ask",
    [
        lambda s, **more: s.release_if(BY_AGE, **BLIND, **more),
        lambda s, **more: s.release_if(BY_AGE, above=5, hits=5, **more),
        lambda s, **more: s.test(count("age > 900"), above=3, hits=5, tests=100, **more),
        lambda s, **more: s.release_if(count("age > 900"), above=3, hits=5, tests=100, **more),
    ],
)
def test_what_mostly_buys_false_alarms_is_refused_unread_unless_it_is_meant(opened, ask):
    steps = []
    session = opened(**ROOM, on_step=steps.append)
    with pytest.raises(InvalidParameter, match="below_margin=True") as refused:
        ask(session)
    assert set(steps) <= {"asked"}
    assert (spent(session).main, session.history) == (0, [])
    for told in ("false alarms", "margin", "above="):
        assert told in str(refused.value)
    ask(session, below_margin=True)
    assert len(session.history) == 1


def test_the_call_that_is_shown_works(opened):
    session = opened(**ROOM)
    with pytest.raises(InvalidParameter) as refused:
        session.release_if(BY_AGE, **BLIND)
    above = int(str(refused.value).split("above=")[1].split(",")[0])
    assert session.release_if(BY_AGE, above=above, epsilon="0.02").tested == 200


def test_what_is_expected_to_report_less_than_one_is_asked(opened):
    session = opened(**ROOM)
    session.test(count(), above=-(10**6), epsilon="0.02")
    session.release_if(count().by("clinic", CLINICS, max_groups_per_unit=1), above=200, epsilon="0.02")
    session.release_if(BY_AGE, above=0, epsilon="0.02")  # what is at its bar is no false alarm
    assert len(session.history) == 3
    assert MANY == 1


def test_stored_answers_are_given_whatever_is_said_of_false_alarms(opened, place):
    session = opened(ledger=place, **ROOM)
    asked = {"request": "monday", **BLIND}
    first = session.release_if(BY_AGE, below_margin=True, **asked)
    assert session.release_if(BY_AGE, **asked) == first
    assert len(session.history) == 1
    [body] = [record.body for record in session.spine.ledger.calls(session.spine.dataset)]
    assert "below_margin" not in body


@pytest.mark.parametrize("how", [{"epsilon": "0.02"}, {"hits": 20}], ids=str)
def test_a_selection_of_keys_is_foretold_and_compared_as_a_watch_is(opened, how):
    selecting, watching = (opened(**ROOM).quote(kind(BY_AGE, above=100, **how)) for kind in (Select, ReleaseIf))
    assert selecting.outlook == watching.outlook
    others = [[each for each in quote.alternatives if each.code is not None] for quote in (selecting, watching)]
    assert others[0] == others[1] != []


def test_conditions_are_so_many_tests_and_refused_as_keys_are(opened):
    session, conditions = opened(**ROOM), [f"age >= {age}" for age in range(1, 101)]
    told = session.quote(Select(conditions, above=60, hits=20)).outlook
    assert (told.tests, told.truth, told.below_margin) == (100, 0, True)
    with pytest.raises(InvalidParameter, match="would be false alarms"):
        session.ask(Select(conditions, above=5, hits=20))
    assert spent(session).main == 0
    assert session.ask(Select(conditions, above=5, hits=20, below_margin=True)).hit


def test_a_change_is_foretold_by_its_distance_from_the_answer_that_was_told_last(opened):
    session = opened(**ROOM)
    call = OnChange(count(), step=200, hits=20, tests=1000)
    assert session.quote(call).outlook is None
    session.ask(call)
    told = session.quote(call).outlook
    tested = session.quote(ThresholdTest(count(), above=200, hits=20, tests=1000, below_margin=True)).outlook
    assert (told.tests, told.bar, told.truth, told.least_bar) == (1000, 200, 0, told.margin)
    assert told.margin < tested.margin * 1.3
    assert told.false_alarms > 0
