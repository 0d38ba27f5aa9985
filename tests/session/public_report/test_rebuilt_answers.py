"""Answers of every kind are rebuilt from the ledger alone as they were handed out."""

import pytest

from chary import Budget
from chary.calls import Run
from chary.data import Ballots
from chary.ledger import MemoryLedger
from chary.session import open_rows, report
from chary.session.public_report.rebuilding import Rebuilder
from tests.session.registry import EVERY, OF_REPLACED, OF_ROWS, OF_VOTES

ROOM = {"grain": "0.02", "budget": Budget(epsilon=2, delta=1e-6)}
# What its author brings, what is asked of votes, and what needs the schema: told as it is stored.
STORED = {}


def session_for(kind, opened):
    """One that can answer this kind."""
    options = {"ledger": MemoryLedger(), **ROOM}
    if kind in OF_VOTES:
        return open_rows(Ballots(lambda question: [90, 10], ["yes", "no"], voter="teacher"), dataset="data", **options)
    if kind in OF_ROWS:
        return opened(relation="replace", privacy_unit=None, **options)
    return opened(**options, **({"relation": "replace"} if kind in OF_REPLACED else {}))


@pytest.mark.parametrize("kind", EVERY)
def test_an_answer_is_rebuilt_as_it_was_handed_out_or_told_as_stored(kind, opened):
    session = session_for(kind, opened)
    answer = EVERY[kind](session, "one")("monday")
    ledger, terms = session.spine.ledger, session.spine.ledger.datasets()[0]
    stored = list(ledger.calls(terms.name))[-1]
    rebuilt = Rebuilder.of(ledger, terms).rebuilt(stored)
    assert (rebuilt.interaction is None) == (kind in STORED), (kind, rebuilt)
    if rebuilt.interaction is not None and not isinstance(answer, Run):
        assert rebuilt.answer == getattr(answer, "answer", answer)
    found = report(session).datasets[0]
    assert found.calls[-1].call == stored.number
    assert found.calls[-1].outcome
