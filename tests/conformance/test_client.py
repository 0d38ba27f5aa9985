"""One suite for both: what a session answers, the client of a service answers, for every kind of call."""

import pytest

from chary import Budget, InvalidQuery, count
from chary.answers import Answer
from chary.calls import Run, SparseVector
from chary.client import connect
from chary.noise import Seeded
from tests.conformance.samples import EVERY, answering
from tests.service.kit import serve_dataset, token_of

ROOM = {
    "grain": "0.02",
    "budget": Budget(epsilon=2, delta=1e-6),
    "ledger": ":memory:",
    "dataset": "data",
    "analyst": "alice",
}


@pytest.fixture
def both(request, service, address):
    """A session, and the client of a service that serves such another one."""
    kind = request.node.callspec.params["kind"]
    local, served = (answering(kind, unsafe_noise=Seeded(7), **ROOM) for _ in range(2))
    serve_dataset(service, "compared", served)
    with connect(address, token_of(service, "alice", datasets=["compared"])) as remote:
        yield local, remote
    local.close()
    served.close()


@pytest.mark.parametrize("kind", EVERY)
def test_it_answers_as_a_session_does(both, kind):
    local, remote = both
    expected = EVERY[kind](local, "one")("monday")
    if EVERY[kind].code:
        with pytest.raises(InvalidQuery):
            EVERY[kind](remote, "one")("monday")
        return
    found = EVERY[kind](remote, "one")("monday")
    again = EVERY[kind](remote, "one")("monday")
    if isinstance(expected, (int, Run)):
        assert found == again == expected
    else:
        compare(expected, found, again)
    assert remote.spent == local.spent
    assert remote.remaining == local.remaining
    assert [entry.answer for entry in remote.history] == [entry.answer for entry in local.history]


@pytest.mark.parametrize("kind", ["sparse_vector"])
def test_a_question_to_a_run_is_quoted_as_a_session_quotes_it(both, kind):
    runs = [session.start(SparseVector(above=51, hits=2, epsilon="0.01")) for session in both]
    expected, found = (run.quote(count()) for run in runs)
    assert (found, str(found), found._repr_html_()) == (expected, str(expected), expected._repr_html_())
    assert found.as_dict() == expected.as_dict()


def compare(expected, found, again):
    """Equal in all that an answer says, its price included."""
    assert isinstance(expected, Answer)
    assert type(found) is type(expected)
    assert found == again == expected
    for answer in (found, again):
        assert answer.to_dict() == expected.to_dict()
        assert (str(answer), repr(answer), answer._repr_html_()) == (
            str(expected),
            repr(expected),
            expected._repr_html_(),
        )
        assert answer.charged == expected.charged
    assert found.findings.rows() == expected.findings.rows()
    assert found.interval_says == expected.interval_says
