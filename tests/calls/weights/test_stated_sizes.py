"""Histograms where the number of rows is secret, and stated, in blocks and elsewhere; and warm starts from others."""

import json
from datetime import date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from chary import Blocks, Budget, Universe, count
from chary.accounting.weights import hard_answers_up
from chary.calls import PMW
from chary.data import average
from chary.data import blocks as periods
from chary.errors import InvalidParameter, InvalidQuery, NotWithheld
from chary.mechanisms.weights import MultiplicativeWeights, WeightVector
from chary.noise import Seeded
from tests.calls.weights import sparse_weights_kit
from tests.calls.weights.weighting_kit import UNIVERSE, weights_of
from tests.session.kit import NO_NOISE, PLENTY, sessions

CELLS = Universe({"age": [0, 1, 2, 3], "ill": [0, 1]}, missing=False)
WEEKLY = Blocks("day", every="week", since="2024-W01")
ROW = {"privacy_unit": None}
CLEAR = Budget(epsilon=1000, delta=1e-6)


def weeks_of(weeks, each=200, more=0):
    """Rows of some weeks, of which a quarter is of each age and a tenth is ill; so are `more` of the first week."""
    days = [date(2024, 1, 1) + timedelta(weeks=week) for week in range(weeks) for _ in range(each)]
    ages = [row % 4 for _ in range(weeks) for row in range(each)]
    ill = [int(row % 10 == 0 or (week == 0 and row < more)) for week in range(weeks) for row in range(each)]
    return pa.table({"day": pa.array(days, pa.date32()), "age": ages, "ill": ill})


@pytest.fixture
def weekly(monkeypatch):
    monkeypatch.setattr(periods, "now", lambda: datetime(2024, 2, 1))
    with sessions(blocks=WEEKLY) as make:
        yield lambda rows=None, **options: make(weeks_of(4) if rows is None else rows, **(ROW | options))


def opened_in(session, first, last, **options):
    given = {"universe": CELLS, "alpha": "0.1", "epsilon": PLENTY, "rows": 200} | options
    return session.blocks(first, last).start(PMW(**given))


# What is stated


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_shares_are_of_the_rows_that_were_stated_in_the_blocks_of_the_opening(weekly, neighbors):
    session = weekly(budget=NO_NOISE, filter="pure", neighbors=neighbors)
    week, both = opened_in(session, "2024-W01", "2024-W01"), opened_in(session, "2024-W01", "2024-W02", rows=500)
    told = [week.ask("ill = 1"), both.ask("ill = 1"), both.ask("age IN (0, 1)")]
    assert [(answer.hard, answer.share) for answer in told[:2]] == [(True, 0.1), (True, 40 / 500)]
    assert (told[2].hard, told[2].share) == (True, 200 / 500)
    assert session.resume(week.call).ask("ill = 1").share == pytest.approx(0.1, rel=1e-5)
    assert week.state.standing().hard == 1


@pytest.mark.parametrize("options", [{"rows": 300}, {"rows": 400, "epsilon": None, "hits": 20}])
def test_each_hard_answer_is_charged_in_the_blocks_of_its_histogram(weekly, options):
    session = weekly(budget=CLEAR, unsafe_noise=Seeded(2))
    run = opened_in(session, "2024-W02", "2024-W03", **({"epsilon": "5"} | options))
    hard = run.ask("ill = 1")
    assert hard.hard
    spent = session.spent_by_block
    assert spent["2024-W02"] == spent["2024-W03"] == hard.charged.share > 0
    assert spent["2024-W01"] == spent["2024-W04"] == 0
    assert run.spent.share == hard.charged.share


def test_a_histogram_without_blocks_may_state_its_rows_too(opened):
    with sessions(privacy_unit=None, budget=NO_NOISE, filter="pure") as make:
        run = make(weeks_of(1)).start(PMW(universe=CELLS, alpha="0.1", epsilon=PLENTY, rows=250))
        assert run.ask("ill = 1").share == 20 / 250
        assert run.ask(average("age", bounds=(0, 3))).share == 100 / 250
        assert run.learn("ill = 0", (0.7, 0.8)).share == pytest.approx(0.8)
        assert run.state.synthetic(rows=10).num_rows == 10


def test_rounds_that_are_prepaid_are_of_stated_rows(weekly):
    session = weekly(budget=NO_NOISE, filter="pure")
    run = opened_in(session, "2024-W01", "2024-W01", prepaid=True, epsilon=10**5, rounds=30)
    assert 0 < session.spent_by_block["2024-W01"] == session.spent.share
    assert (run.ask("ill = 1").hard, session.spent_by_block["2024-W02"]) == (True, 0)


def test_a_stated_size_is_a_part_of_the_question(weekly):
    session = weekly()
    run = opened_in(session, "2024-W01", "2024-W01", epsilon="0.1")
    body = json.loads(session.spine.ledger.call(run.call).body)
    assert body["rows"] == 200
    assert "rows" not in PMW(universe=CELLS, alpha="0.1", epsilon="0.1").question_body()
    assert "warm_start" not in body
    assert PMW.recorded(body) == PMW(universe=CELLS, alpha="0.1", epsilon="0.1", rows=200)


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"rows": None}, InvalidQuery, r"such as rows=5000; session.release\(count\(\), epsilon=0.01\) publishes one"),
        ({"rows": 0}, InvalidParameter, "rows"),
        ({"rows": -3}, InvalidParameter, "rows"),
        ({"rows": 2.5}, InvalidParameter, "rows"),
        ({"warm_start": -1}, NotWithheld, "no call of that number"),
        ({"warm_start": 0}, NotWithheld, "opened no histogram of this dataset"),
        ({"warm_start": 1, "universe": {"age": [0, 1]}}, InvalidParameter, "has other cells"),
        ({"warm_start": 1, "mixing": 1}, InvalidParameter, "mixing= below 1"),
        ({"warm_start": 1, "prepaid": True}, InvalidParameter, "warm_start= is for a histogram that is not prepaid"),
    ],
)
def test_what_cannot_be_opened_is_refused_and_charged_nothing(weekly, options, error, told):
    session = weekly(budget=Budget(epsilon=1))
    numbers = [
        session.blocks("2024-W01", "2024-W01").release(count(), epsilon="0.1").call,
        opened_in(session, "2024-W01", "2024-W01", epsilon="0.1").call,
        99,
    ]
    if "warm_start" in options:
        options = options | {"warm_start": numbers[options["warm_start"]]}
    calls, spent = len(session.history), session.spent_by_block
    with pytest.raises(error, match=told):
        opened_in(session, "2024-W02", "2024-W02", **({"epsilon": "0.1"} | options))
    assert (len(session.history), session.spent_by_block) == (calls, spent)


def test_a_public_number_of_rows_is_not_stated_otherwise(rows, opened):
    with pytest.raises(InvalidParameter, match="public here: leave rows= out"):
        weights_of(rows(), rows=120)
    with pytest.raises(InvalidQuery, match="number of rows is secret"):
        weights_of(opened(), rows=120)
    with pytest.raises(InvalidQuery, match="number of rows is secret"):
        sparse_weights_kit.weights_of(opened(), rows=120)


# What a change of one block changes


def test_a_row_of_one_block_changes_answers_and_charges_there_alone(weekly):
    """With the same noise, in each of two histograms whose blocks do not overlap."""
    told = []
    for more in (0, 100):
        session = weekly(weeks_of(4, more=more), budget=CLEAR, unsafe_noise=Seeded(4))
        there = opened_in(session, "2024-W02", "2024-W04", epsilon="5", rows=600)
        answers = [there.ask(where) for where in ("ill = 1", "age = 0", "ill = 1 AND age < 2")]
        first = opened_in(session, "2024-W01", "2024-W01", epsilon="5", warm_start=there.call)
        warm = first.state.histogram().tobytes()
        asked = first.ask("ill = 1")
        spent = session.spent_by_block
        told.append((warm, [(answer.share, answer.hard) for answer in answers], spent.pop("2024-W01"), spent, asked))
    (warm, answers, _, spent, first), (other_warm, other_answers, _, other_spent, other) = told
    assert (warm, answers, spent) == (other_warm, other_answers, other_spent)
    assert first.share != other.share


# Starting from another histogram


def test_a_warm_start_is_the_other_histogram_mixed_with_the_uniform_one(weekly):
    session = weekly(budget=NO_NOISE, filter="pure")
    first = opened_in(session, "2024-W01", "2024-W01", mixing="0.2")
    first.ask("ill = 1")
    first.ask("age = 0 AND ill = 1")
    before = first.state.histogram()
    warm = opened_in(session, "2024-W02", "2024-W02", rows=300, mixing="0.2", warm_start=first.call)
    assert warm.state.histogram() == pytest.approx(0.8 * before + 0.2 / before.size, rel=1e-5)
    assert first.state.histogram().tobytes() == before.tobytes()
    assert all(not change.hard and change.size == 300 for change in warm.state.changes)
    assert (warm.state.standing().hard, session.spent_by_block["2024-W02"]) == (0, 0)
    # What comes later is learned by each alone, and a restart finds the same.
    warm.ask("age = 3")
    first.ask("age = 3")
    after = warm.state.histogram()
    assert session.blocks("2024-W02", "2024-W02").resume(warm.call).state.histogram().tobytes() == after.tobytes()
    again = opened_in(session, "2024-W03", "2024-W03", mixing="0.2", warm_start=warm.call)
    assert again.state.histogram() == pytest.approx(0.8 * after + 0.2 / after.size, rel=1e-5)


def test_a_warm_start_from_what_learned_nothing_is_uniform(weekly):
    session = weekly(budget=NO_NOISE, filter="pure")
    first = opened_in(session, "2024-W01", "2024-W01")
    warm = opened_in(session, "2024-W02", "2024-W02", warm_start=first.call)
    assert (warm.state.changes, len(set(warm.state.histogram().ravel()))) == ((), 1)


def test_a_warm_start_is_not_refitted_to_what_was_told_of_other_rows(weekly):
    session = weekly(budget=CLEAR, unsafe_noise=Seeded(3))
    sharp = {"epsilon": None, "hits": 300, "update": "refitted"}
    first = opened_in(session, "2024-W01", "2024-W01", **sharp)
    first.ask("ill = 1")
    assert first.state.changes[0].low is not None
    warm = opened_in(session, "2024-W02", "2024-W02", warm_start=first.call, **sharp)
    assert {change.low for change in warm.state.changes} == {None}


def test_a_warm_start_goes_on_from_rounds_and_under_a_public_size(rows):
    session = rows(budget=NO_NOISE, filter="pure")
    first = sparse_weights_kit.weights_of(session, universe=UNIVERSE, epsilon=10**5, rounds=5)
    assert first.ask("age >= 40").hard
    warm = weights_of(session, epsilon=PLENTY, warm_start=first.call)
    histogram = first.state.histogram()
    assert warm.state.histogram() == pytest.approx(0.9 * histogram + 0.1 / histogram.size, rel=1e-5)


def test_whatever_it_starts_from_the_potential_is_bounded():
    """RE(x | y) is ln(N/mixing) at most, and RE(x | y0) - ln(1 - mixing) where y0 is what it starts from."""
    rule, draw = MultiplicativeWeights("0.1"), np.random.default_rng(6)
    for _ in range(50):
        vector = WeightVector(rule, 4, 5, 100)
        vector.histogram.weights *= draw.dirichlet(np.full(20, 0.05)).reshape(4, 5).astype(np.float32) + np.float32(
            1e-30
        )
        vector.histogram.multiply(_All(), 1.0)  # the sum is worked out anew
        before, truth = vector.shares(100), draw.dirichlet(np.full(20, 0.2))
        vector.apply(vector.mixed("TRUE"), _All())
        after = vector.shares(100)
        assert after == pytest.approx(0.9 * before + 0.1 / 20, rel=1e-5)
        assert _entropy(truth, after) <= np.log(20 / 0.1) + 1e-5
        assert _entropy(truth, after) <= _entropy(truth, before) - np.log(0.9) + 1e-5
    known = {"alpha": "0.1", "cells": 20, "start": 100, "mixing": "0.1"}
    assert hard_answers_up(**known, warm=True) == pytest.approx(hard_answers_up(**known) * np.log(200) / np.log(20))


class _All:
    """Every cell of four rows of five."""

    which, patterns, levels, counts, count = np.zeros(4, np.intp), np.ones((1, 5), np.bool_), None, None, 20.0


def _entropy(truth, shares):
    held = truth > 0
    return float(np.sum(truth[held] * np.log(truth[held] / shares[held])))


def test_the_worst_case_of_a_warm_start_is_told(weekly):
    session = weekly(budget=NO_NOISE, filter="pure")
    first = opened_in(session, "2024-W01", "2024-W01")
    first.ask("ill = 1")
    warm = opened_in(session, "2024-W02", "2024-W02", warm_start=first.call)
    known = {"alpha": "0.1", "cells": 8, "start": 200, "mixing": "0.1"}
    assert warm.state.standing().most_hard == hard_answers_up(**known, warm=True)
    assert first.state.standing().most_hard == hard_answers_up(**known)
