"""What a histogram in rounds of sparse vector refuses, and what it makes of rows that other processes have."""

import math

import numpy as np
import pandas as pd
import pytest

from chary import Budget
from chary.calls import PMW
from chary.calls.call import of_record
from chary.calls.public_histograms import HistogramRound
from chary.data import NeighborRelation
from chary.errors import BudgetExceeded, InvalidParameter, InvalidQuery, NotPriced
from tests.calls.weights.sparse_weights_kit import sure_of, weights_of
from tests.session.kit import CLINICS, NO_NOISE, recorded, visits


def test_a_rho_needs_a_delta(rows):
    session = rows(budget=Budget(epsilon=1))
    with pytest.raises(NotPriced):
        weights_of(session, epsilon=None, rho="0.01")
    assert session.history == []


def test_an_empty_table_has_no_shares(rows):
    with pytest.raises(InvalidQuery, match="append some first"):
        weights_of(rows(rows=visits().head(0)))


def test_rounds_may_be_counted_in_any_whole_numbers(rows):
    session = rows()
    weights_of(session, rounds=np.int64(5))
    assert session.history[-1].question["rounds"] == 5


@pytest.mark.parametrize("options", [{"alpha": "1e-8"}, {"rounds": 10**9, "epsilon": "1e-4"}])
def test_a_budget_that_is_too_little_for_its_rounds_says_so(rows, options):
    session = rows()
    with pytest.raises(
        InvalidParameter, match=r"this number of rounds leaves an epsilon of .* a small number of rounds="
    ):
        weights_of(session, **options)
    assert session.history == []


def shared(rows, place):
    """Two sessions of one ledger, the first of which has all rows and the second none yet."""
    options = {"rows": visits().head(0), "ledger": place, "dataset": "visits"}
    first = recorded(rows(**options, budget=NO_NOISE, filter="pure"))
    second = rows(**options, budget=None)
    first.append(visits())
    return first, second


def test_where_there_are_no_rows_nothing_is_asked(rows, tmp_path):
    first, second = shared(rows, tmp_path / "visits.ledger")
    sparse = sure_of(first)
    other = first.start(PMW(universe={"clinic": CLINICS}, alpha="0.1", epsilon=1))
    calls = len(first.history)
    for weights in (
        second.resume(sparse.call),
        second.resume(other.call),
    ):
        for use in (
            weights.state.standing,
            lambda of=weights: of.ask(None),
            lambda of=weights: of.state.estimate(None),
        ):
            with pytest.raises(InvalidQuery, match="no rows here"):
                use()
        assert weights.state.histogram().sum() == pytest.approx(1)
    assert len(first.history) == calls


def test_a_process_with_fewer_rows_waits_for_those_of_rounds_that_began_elsewhere(rows, tmp_path):
    place = tmp_path / "visits.ledger"
    first, second = shared(rows, place)
    second.append(visits())
    weights = weights_of(first, epsilon=4000, rounds=1, alpha="0.06")
    first.append(pd.concat([visits()] * 30))
    while weights.state.standing().hard < 3:
        weights.ask("clinic = 'north'")
        weights.ask("clinic IS NULL OR age IS NULL")
        weights.ask("age < 30")
    behind = second.resume(weights.call)
    quote = behind.state.standing()
    assert (quote.hard, quote.hard_left, quote.reached) == (3, 0, math.inf)
    assert not behind.ask("clinic = 'north'").verified
    with pytest.raises(BudgetExceeded, match=f"may begin at {quote.more_at} rows at the earliest, and there are 120"):
        behind.ask("clinic = 'north'", must_verify=True)
    everything = rows(rows=pd.concat([visits()] * 31), ledger=place, dataset="visits", budget=None)
    assert everything.resume(weights.call).ask("clinic = 'north'").verified


@pytest.mark.parametrize("before", [1, 10])
def test_rows_that_come_between_the_size_and_the_count_decide_nothing_but_accuracy(rows, before):
    """A count above the size it is compared with: the round is that of the size, the answer a share."""
    coming = []

    def arrive(step):
        if coming and step == "reserved":
            coming.pop()()

    session = rows(rows=visits().head(before), budget=NO_NOISE, filter="pure", on_step=arrive)
    weights = sure_of(session)
    coming.append(lambda: session.append(pd.concat([visits()] * 5)))
    answer = weights.ask("clinic IN ('north', 'south', 'east')")
    assert (answer.hard, answer.share, coming) == (True, 1.0, [])
    assert session.history[-1].answer["count"] > session.history[-1].answer["size"] == before
    state = HistogramRound.load(session.spine.ledger.secret(weights.call))
    assert (state.begun, state.size) == (1, before)
    assert weights.state.histogram().sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"prepaid": True, "hits": 3}, "hits= is for a histogram that is not prepaid"),
        ({"prepaid": True, "follow_size": False}, "follow_size= is for a histogram that is not prepaid"),
        ({"rounds": 3}, "rounds= is for a histogram that is prepaid"),
        ({"exponent": "1/3"}, "exponent= is for a histogram that is prepaid"),
    ],
)
def test_what_belongs_to_the_other_form_is_refused(said, told):
    with pytest.raises(InvalidParameter, match=told):
        PMW(universe={"clinic": CLINICS}, alpha="0.1", epsilon=1, **said)


@pytest.mark.parametrize("said", [{"epsilon": "0.5"}, {"rho": "0.1", "rounds": 3, "delta": "1e-9"}])
def test_a_stored_opening_is_read(said):
    opening = PMW(prepaid=True, universe={"clinic": CLINICS}, alpha="0.1", **said)
    assert opening.stored_kind == "sparse_weights"
    assert not {"prepaid", "follow_size", "epsilon_per_call"} & opening.question_body().keys()
    assert of_record("sparse_weights", opening.question_body()) == opening


def test_a_series_of_counts_has_no_rows_to_be_shares():
    series = NeighborRelation("bounded_change", None)
    with pytest.raises(InvalidQuery, match="series of counts"):
        PMW(prepaid=True, universe={"clinic": CLINICS}, alpha="0.1", epsilon=1).prepaid_law(series, 100)
