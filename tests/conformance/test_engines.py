"""Every kind of call on every engine: with equal rows and equal noise, the answer that DuckDB gives."""

import functools

import pyarrow as pa
import pytest

from chary import Budget
from chary.data import NeighborRelation, RowTable
from chary.noise import Seeded
from chary.session.opening import BudgetChoice, Place, session_of
from tests.conformance.sample import NEIGHBORS, PATIENTS, REPLACED, ROWS
from tests.conformance.samples import EVERY, names_of
from tests.engines.conftest import engine, opened, tally
from tests.engines.openers import ENGINES
from tests.session.kit import visits

__all__ = ["engine", "opened", "tally"]
ROOM = BudgetChoice(Budget(epsilon=2, delta=1e-6), grain="0.02")
pytestmark = pytest.mark.parametrize(
    "engine",
    # The first is what the others are compared with; files of both kinds are the same engine on one kind of rows.
    [pytest.param(each, id=each.name, marks=each.marks) for each in ENGINES[1:] if each.name != "Parquet"],
    indirect=True,
    scope="session",
)


def neighbours(kind):
    of = NEIGHBORS[EVERY[kind].rows]
    return of.get("neighbors", "add_remove"), of["privacy_unit"]


def frame():
    columns = visits()
    return pa.table({name: pa.array(columns[name].tolist()) for name in columns})


def told(table, kind):
    """All that was published when this kind was asked."""
    session = session_of(table, ROOM, Place(":memory:"), ("data", "data"), unsafe_noise=Seeded(7))
    answer = repr(EVERY[kind](session, "one")("asked"))
    published = [(entry.kind, repr(entry.answer), entry.share, entry.hits) for entry in session.history]
    session.close()
    return answer, published


@functools.cache
def usual(kind):
    """The same in memory."""
    neighbors, unit = neighbours(kind)
    return told(RowTable.open(frame(), neighbor_relation=NeighborRelation(neighbors, unit)), kind)


@pytest.fixture(scope="module")
def tables(opened):
    return functools.cache(lambda neighbors, unit: opened(frame(), neighbors, unit))


@pytest.mark.parametrize("kind", names_of(PATIENTS, REPLACED, ROWS))
def test_equal_rows_and_equal_noise_make_equal_answers(tables, tally, monkeypatch, kind):
    table = tables(*neighbours(kind))
    # A session closes its rows, which the next kind is asked of.
    monkeypatch.setattr(table, "close", lambda: None)
    assert told(table, kind) == usual(kind)
    tally("kinds of calls with equal noise", 1)
