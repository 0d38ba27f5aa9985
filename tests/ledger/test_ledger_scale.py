"""The cost of a charge does not depend on how much was charged before."""

import pytest
from sqlalchemy import event

from chary.ledger import Amount, open_ledger

from .bulk import build
from .kit import QUESTION, filled, raw


@pytest.mark.parametrize("total", [1, 2, 3, 2600])
def test_a_ledger_built_in_bulk_is_a_right_one(tmp_path, total):
    build(tmp_path / "bulk.ledger", total)
    ledger = open_ledger(tmp_path / "bulk.ledger")
    verdict = ledger.verify()
    assert (verdict.problems, verdict.entries) == ([], total)
    ledger.settle(ledger.reserve("visits", "ann", "count", QUESTION, Amount(4)), Amount(1), 1, 1, "true")
    assert ledger.verify().ok
    ledger.close()


def test_opening_looks_at_the_end_of_the_chain_only_and_verify_at_all_of_it(tmp_path):
    path = tmp_path / "bulk.ledger"
    build(path, 2600)
    raw(path, "UPDATE entries SET body = '{}' WHERE number = 100")
    ledger = open_ledger(path)
    assert ledger.verify().problems == ["entry 100: its hash does not follow"]
    ledger.close()
    raw(path, "UPDATE entries SET body = '{}' WHERE number = 2000")
    with pytest.raises(Exception, match="breaks at entry 2000"):
        open_ledger(path)


def statements(ledger, act):
    """The SQL an operation runs, with its parameters."""
    seen = []
    listener = lambda _c, _k, statement, parameters, _x, _m: seen.append((statement, parameters))  # noqa: E731
    event.listen(ledger.store.transactions._engine, "before_cursor_execute", listener)
    act()
    event.remove(ledger.store.transactions._engine, "before_cursor_execute", listener)
    return [each for each in seen if not each[0].startswith(("BEGIN", "PRAGMA"))]


def test_no_statement_of_a_charge_scans_a_table_that_grows(tmp_path):
    ledger = filled(tmp_path / "test.ledger")

    def whole():
        call = ledger.reserve("visits", "ann", "count", QUESTION, Amount(1), request="new")
        ledger.settle(call, Amount(1), 1, 1, "true", secret=b"x", secrets={4: None})
        ledger.replay("visits", "ann", "new", "count", QUESTION)
        ledger.balance("visits")
        ledger.analyst_balance("visits", "ann")
        list(ledger.calls("visits", after=3, limit=2))

    seen = statements(ledger, whole)
    assert len(seen) <= 32
    plans = []
    with ledger.store.transactions.reading() as connection:
        for statement, parameters in seen:
            plans += [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    scans = {plan for plan in plans if plan.startswith("SCAN") and plan != "SCAN chain"}
    assert scans == set()
    ledger.close()
