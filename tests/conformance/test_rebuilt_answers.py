"""Answers of every kind are rebuilt from the ledger alone as they were handed out."""

import pytest

from chary import Budget
from chary.calls import QuantileAnswer, QuantileAnswers, Run, ScheduledRun
from chary.report import report
from chary.report.content import history_of
from tests.conformance.samples import EVERY, answering

ROOM = {"grain": "0.02", "budget": Budget(epsilon=2, delta=1e-6)}
# Those whose values have intervals must be; what its author brings, and what is asked of votes, is told as stored.
SURE = {
    *("release", "release of keys", "histogram", "quantiles", "test", "release_if", "revise", "watch", "track", "top"),
    *("growing_sparse_round", "growing_sparse_test", "growing_sparse_test of sharp tests"),
    *("sparse_test", "sparse_watch", "individual_ask", "sketch", "continual_step", "scheduled_run", "fraction"),
}


def told(answer):
    """What an answer says; a quantile stands in the ledger as the only one of several."""
    if isinstance(answer, ScheduledRun):
        return answer.answer
    if isinstance(answer, QuantileAnswers) and len(answer) == 1:
        return QuantileAnswer(answer.call, answer.at[0], answer.values[0], answer.rank_errors[0])
    return answer


@pytest.mark.parametrize("kind", EVERY)
def test_an_answer_is_rebuilt_as_it_was_handed_out_or_told_as_stored(kind, opened):
    session = answering(kind, opened=opened, **ROOM)
    answer = EVERY[kind](session, "one")("monday")
    ledger, terms = session.spine.ledger, session.spine.ledger.datasets()[0]
    stored = list(ledger.calls(terms.name))[-1]
    rebuilt = history_of(ledger, terms).rebuilt(stored)
    assert rebuilt.plan is not None or kind not in SURE
    if rebuilt.plan is not None and not isinstance(answer, Run):
        assert told(rebuilt.answer) == told(answer)
    found = report(session).datasets[0]
    assert found.calls[-1].call == stored.number
    assert found.calls[-1].outcome


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ("mode", "mechanism inverse"),
        ("noisy_max_gaussian", "mechanism gaussian"),
        ("choose_with_lead", "mechanism laplace, lead true"),
        ("label_clear", "clear true"),
        ("sparse_weights", "prepaid true"),
    ],
)
def test_a_report_says_what_a_stored_kind_says_and_its_body_does_not(opened, recipe, words):
    with answering(recipe, opened=opened, **ROOM) as session:
        EVERY[recipe](session, recipe)("monday")
        (dataset,) = report(session).datasets
    assert words in dataset.calls[0].question
