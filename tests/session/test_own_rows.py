"""Rows of one's own kind: asked as any others, closed by their session, known by their fingerprint."""

import pytest

from chary import Algorithm, Budget, InvalidParameter, InvalidQuery, count
from chary.calls import RunAlgorithm
from chary.data import NeighborRelation
from chary.data.rows import Deferred, fingerprint_of
from chary.errors import LedgerMismatch
from chary.session import open_rows

SIZE = Algorithm("size", lambda rows, source: len(rows), epsilon="0.02")


class Held:
    """Values of which each is a unit; what is done to them is remembered."""

    def __init__(self, unit=None):
        self.schema = {"value": "int64"}
        self.done, self.neighbor_relation = [], NeighborRelation("add_remove", unit)

    def fingerprint(self):
        return fingerprint_of(self.schema, self.neighbor_relation)

    def prepare(self, query):
        raise InvalidQuery("these answer no queries")

    def snapshot(self, columns=None):
        return Deferred("all values", lambda: self.done.append("read") or (1, 2, 3))

    def append(self, more):
        self.done.append("appended")

    def close(self):
        self.done.append("closed")


def opened(rows, **options):
    given = {"dataset": "held", "ledger": ":memory:", "budget": Budget(1, "1e-6")}
    return open_rows(rows, **(given | options))


def test_algorithms_read_them_once_they_are_charged():
    rows = Held()
    with opened(rows) as session:
        session.quote(RunAlgorithm(SIZE))
        assert rows.done == []
        assert session.ask(RunAlgorithm(SIZE), request="size").value == 3
        assert session.ask(RunAlgorithm(SIZE), request="size").value == 3
        assert rows.done == ["read"]
        assert session.spent.share > 0
        with pytest.raises(InvalidQuery, match="no queries"):
            session.release(count(), epsilon="0.01")
    assert rows.done == ["read", "closed"]


@pytest.mark.parametrize("wrong", [{"dataset": ""}, {"budget": Budget(1, "1e-6"), "grain": -1}])
def test_what_cannot_be_opened_is_closed(wrong):
    rows = Held()
    with pytest.raises(InvalidParameter):
        opened(rows, **wrong)
    assert rows.done == ["closed"]


def test_a_ledger_knows_them_by_their_fingerprint(tmp_path):
    place = str(tmp_path / "held.ledger")
    with opened(Held(), ledger=place) as session:
        session.ask(RunAlgorithm(SIZE))
    with opened(Held(), ledger=place) as session:
        assert session.spent.share > 0
    with pytest.raises(LedgerMismatch, match="other terms"):
        opened(Held("person"), ledger=place)
