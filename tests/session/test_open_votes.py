"""Votes, opened by the caller: the same budget, ledger and refusals as a table."""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from chary import Budget
from chary.calls import Algorithm, RunAlgorithm
from chary.data import NeighborRelation, Neighbors, RowTable, Votes
from chary.errors import EngineError, InvalidParameter, InvalidQuery, LedgerMismatch
from chary.session import open_votes
from tests.session.kit import USUAL, recorded


def votes(options=("cat", "dog")):
    return Votes(lambda question: np.array([7, 3]), options, voter="teacher")


def test_the_rows_given_are_the_ones_asked():
    rows = votes()
    with open_votes(rows, dataset="votes", ledger=":memory:", budget=USUAL) as session:
        assert session.spine.rows is rows
        assert session.spine.dataset == "votes"
        assert session.spent.share == 0
        assert session.schema == {"vote": "string"}


def test_a_reopened_ledger_remembers_the_budget_and_refuses_other_rows(tmp_path):
    ledger = tmp_path / "votes.ledger"
    recorded(open_votes(votes(), dataset="votes", ledger=ledger, budget=USUAL, grain="0.02", filter="exact")).close()
    with open_votes(votes(), dataset="votes", ledger=ledger) as session:
        assert session.spine.filter.budget == USUAL
        assert session.spine.filter.kind == "exact"
    with pytest.raises(LedgerMismatch):
        open_votes(votes(), dataset="votes", ledger=ledger, budget=Budget(epsilon=2, delta=1e-6))
    with pytest.raises(LedgerMismatch):
        open_votes(votes(("cat", "cow")), dataset="votes", ledger=ledger)


@pytest.mark.parametrize(
    ("rows", "named"),
    [(pd.DataFrame({"age": [1]}), {"dataset": "d"}), (votes(), {"dataset": ""}), (votes(), {"dataset": 3})],
)
def test_what_cannot_be_opened_is_refused(rows, named, tmp_path):
    with pytest.raises(InvalidParameter):
        open_votes(rows, ledger=tmp_path / "l", budget=USUAL, **named)
    assert not (tmp_path / "l").exists()


def test_rows_are_closed_when_the_session_cannot_be_opened():
    rows = votes()
    with pytest.raises(InvalidParameter, match="budget"):
        open_votes(rows, dataset="votes", ledger=":memory:")
    with pytest.raises(EngineError):
        rows.prepare(rows.poll(0)).run()


def test_votes_are_not_read_row_by_row():
    with open_votes(votes(), dataset="votes", ledger=":memory:", budget=USUAL) as session:
        with pytest.raises(InvalidQuery):
            session.ask(RunAlgorithm(Algorithm("all", lambda rows, source: 1, epsilon="0.1")))
        assert session.spent.share == 0


def test_a_table_is_no_votes():
    rows = RowTable.open(pd.DataFrame({"age": [1, 2]}), neighbor_relation=NeighborRelation(Neighbors.ADD_REMOVE, None))
    with closing(rows), pytest.raises(InvalidParameter, match="tables by"):
        open_votes(rows, dataset="people", ledger=":memory:", budget=USUAL)
