"""Findings and answers of a session, rebuilt from its ledger."""

import json
from typing import Any, Final

from chary.accounting import Finding, Findings
from chary.calls.call import kinds
from chary.calls.run import run_of
from chary.core.history import numbered, openings
from chary.core.plan import Interaction, Json
from chary.core.transaction import Spine
from chary.errors import LedgerBroken, UnknownHeld
from chary.ledger import CallRecord

# Calls of one interaction that publish values whose noise is known.
CALLS: Final = ("watch", "release_if", "revise", "top", "release", "track", "select", "release_all", "matrix_mechanism")
# Questions to runs that do, each with a query and a bar.
QUESTIONS: Final = {
    "sparse_test": "sparse_vector",
    "sparse_watch": "sparse_vector",
    "agreed_test": "agreed_tests",
    "agreed_watch": "agreed_tests",
    "individual_ask": "individual",
    "growing_sparse_test": "growing_sparse_vector",
}


def told_so_far(spine: Spine, run: int | None = None) -> Findings:
    """All values that calls of a dataset published, or those of one run, in the order of the calls.

    More may follow, so intervals that hold at once split the failures allowed among calls, unless how many values
    there can be was agreed when the run was opened. Left out is what published no value with known noise, such as
    outcomes of algorithms, and what is no finding of a value by itself: quantiles, running counts, answers of public
    weights, synthetic data. Errors: `UnknownHeld` for a call that opened no run of this dataset.
    """
    most = None if run is None else _most(spine, run)
    settled = (stored for stored in openings(spine, *CALLS, *QUESTIONS) if _readable(stored))
    asked = [stored for stored in settled if run is None or _opened(stored) == run]
    found = [finding for stored in asked for finding in _retold(spine, stored)]
    return Findings.of(found, most, open=True, made=sum(stored.tests or 0 for stored in asked))


def _most(spine: Spine, run: int) -> int | None:
    """How many values a run can publish, where it was opened for so many."""
    stored = numbered(spine, run)
    if stored.dataset != spine.dataset or stored.kind not in set(QUESTIONS.values()) | {"individual_stream"}:
        raise UnknownHeld(f"call {run} opened no run of this dataset that publishes values")
    terms = json.loads(stored.body)
    found: int | None = terms.get({"sparse_vector": "hits", "agreed_tests": "tests"}.get(stored.kind, ""))
    return found


def _readable(stored: CallRecord) -> bool:
    """Whether question and answer can be read; what a role of a server made up, or damage, publishes nothing."""
    try:
        _ = stored.question, stored.outcome
    except LedgerBroken:
        return False
    return True


def _opened(stored: CallRecord) -> int | None:
    """The run that was asked."""
    number: int | None = stored.question.get(QUESTIONS.get(stored.kind, ""))
    return number


def _retold(spine: Spine, stored: CallRecord) -> Findings:
    body: Json = stored.question
    asked = _question(spine, stored, body) if stored.kind in QUESTIONS else _call(spine, stored.kind, body)
    if asked is None:
        return Findings(())
    answer = asked.present(json.loads(stored.answer or "null"), stored.number)
    # A revision is told under its own number.
    told = [Finding(stored.number, found.key, found.value, found.told) for found in answer.findings]
    return Findings.of(told)


def _question(spine: Spine, stored: CallRecord, body: Json) -> Interaction:
    opening = numbered(spine, body[QUESTIONS[stored.kind]])
    kept = run_of(opening.kind)(spine, opening.number, json.loads(opening.body))
    return kept.recorded(body)


def _call(spine: Spine, kind: str, body: Json) -> Interaction | None:
    """The call again; None for what was asked of algorithms, which no ledger holds."""
    if kind not in ("revise", "release_all") and not _counted(body.get("query", body.get("candidates"))):
        return None
    # What ends a list early decides how many are published, not how.
    return kinds()[kind].recorded({name: said for name, said in body.items() if name != "until"}).bind(spine)


def _counted(asked: Any) -> bool:
    """Whether this is the body of a query, or conditions."""
    return isinstance(asked, dict) or (isinstance(asked, list) and all(isinstance(each, str) for each in asked))
