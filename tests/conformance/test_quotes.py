"""A quote of any kind writes nothing and reads nothing."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from chary import Budget
from chary.calls.run import Opening
from chary.data.queries.stored import current_kind
from tests.conformance.sample import ROWS
from tests.conformance.samples import AFTER, ALL, CALLS, answering


def sample(kind, session):
    """The call; one that follows another names the call that the session has made."""
    call = CALLS[kind]()
    return replace(call, held=session.history[0].call) if kind in AFTER else call


ROOM = {"grain": "0.02", "budget": Budget(epsilon=2, delta=1e-6)}


@pytest.mark.parametrize("kind", CALLS)
def test_a_quote_writes_nothing_and_reads_nothing(kind, opened, tmp_path):
    steps, place = [], tmp_path / "visits.ledger"
    session = answering(kind, opened=opened, ledger=place, on_step=steps.append, **ROOM)
    kept, call = list(session.spine.ledger.export("data")), sample(kind, session)
    steps.clear()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
    if ALL[kind].rows != ROWS:  # whose number of rows is public, and asked of the rows
        session.spine.rows.close()
    with patch.object(type(session.spine.source), "words", side_effect=AssertionError):
        quote = session.quote(call)
    assert steps == []
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")} == before
    assert list(session.spine.ledger.export("data")) == kept
    assert quote.most_charged >= 0
    assert str(quote)


@pytest.mark.parametrize("kind", CALLS)
def test_at_most_what_was_quoted_is_charged_and_the_run_is_listed(kind, opened):
    session = answering(kind, opened=opened, **ROOM)
    call, before = sample(kind, session), len(session.history)
    quote = session.quote(call)
    answer = session.ask(call)
    stored = session.spine.ledger.call(session.history[before].call)
    assert current_kind(stored.kind) == quote.kind
    assert stored.price.main <= quote.most_charged * session.spine.filter.capacity.main * (1 + 1e-12)
    if isinstance(call, Opening):
        assert answer.call == stored.number
        assert [(run.call, run.kind) for run in session.runs] == [(answer.call, stored.kind)]
    else:
        assert session.runs == []


@pytest.mark.parametrize("kind", CALLS)
def test_what_costs_the_same_whatever_comes_out_is_charged_that(kind, opened):
    """All parts of it together, such as the groups of a quantile."""
    session = answering(kind, opened=opened, **ROOM)
    call, before = sample(kind, session), session.spent.share
    quote = session.quote(call)
    if quote.price_if_hit != quote.price_if_miss or isinstance(call, Opening):
        return
    session.ask(call)
    assert session.spent.share - before == pytest.approx(quote.price_if_hit, abs=1e-12)
    if quote.hits_left is not None and quote.price_if_hit:
        assert quote.hits_left == int((1 - before) / quote.price_if_hit + 1e-9) or quote.hits_before_end is not None
