"""Each check of an opening and of a verification by itself: damage that no other check would notice."""

import pytest

from chary.errors import LedgerCorrupted
from chary.ledger import Amount, open_ledger
from chary.ledger.entries import opening, reserving
from chary.ledger.sql.transaction import secret_digest
from chary.ledger.sqlite.store import SqliteTransactions, SqliteUpkeep
from chary.ledger.verification import Audit, audit

from .kit import QUESTION, filled, raw, terms


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "test.ledger"
    filled(path).close()
    return path


def problems(path):
    ledger = open_ledger(path)
    found = ledger.verify().problems
    ledger.close()
    return found


def test_opening_compares_the_end_of_the_chain_with_the_recorded_head(path):
    raw(path, f"UPDATE chain SET head = '{'a' * 64}'")
    with pytest.raises(LedgerCorrupted, match="does not end in the recorded head"):
        open_ledger(path)


@pytest.mark.parametrize("part", ["main", "delta"])
def test_opening_compares_the_sums_of_entries_in_both_parts(path, part):
    """All totals agree with one another; only the entries say something else."""
    raw(
        path,
        f"UPDATE calls SET charged_{part} = charged_{part} + 1 WHERE number = 4",
        *[
            f"UPDATE {table} SET spent_{part} = spent_{part} + 1 WHERE {key} = 'visits'"
            + (" AND analyst = 'ann'" if table == "analysts" else "")
            for table, key in (("datasets", "name"), ("analysts", "dataset"))
        ],
    )
    with pytest.raises(LedgerCorrupted, match="not the sums of the entries"):
        open_ledger(path)


def test_an_answer_of_no_call_is_found(path):
    raw(path, "INSERT INTO answers (call, answer) VALUES (999, 'true')")
    assert problems(path) == ["there are 3 answers where the entries say 2"]


def test_a_secret_of_a_call_that_is_not_settled_is_found(path):
    call = raw(path, "SELECT number FROM calls WHERE state = 'reserved'")[0][0]
    raw(path, f"INSERT INTO secrets VALUES ({call}, x'01', '{secret_digest(call, bytes([1]))}')")
    assert problems(path) == [f"call {call}: its secret was changed"]


def test_secrets_of_another_moment_are_found_at_opening(path):
    raw(path, f"UPDATE secrets SET secret = x'01', digest = '{secret_digest(4, bytes([1]))}'")
    with pytest.raises(LedgerCorrupted, match="different moments"):
        open_ledger(path)


@pytest.mark.parametrize("part", ["main", "delta"])
def test_an_audit_holds_both_parts_of_a_price_against_the_caps(part):
    audit = Audit()
    audit.read(opening(1, terms(main=10, delta=10)))
    worst = {"main": 1, "delta": 1} | {part: 11}
    audit.read(reserving(2, "visits", "ann", "count", QUESTION, Amount(**worst), None))
    assert audit.verdict().problems == ["entry 2: it passes the cap of the dataset"]


@pytest.mark.parametrize("index", ["calls_of_dataset", "charges", "requests"])
def test_an_index_that_misses_a_row_is_found(path, index):
    """Its definition is taken away while a row is added, and put back as if nothing had happened."""
    row = f"SELECT * FROM sqlite_master WHERE name = '{index}'"
    kept = raw(path, row)[0]
    raw(
        path,
        "PRAGMA writable_schema=ON",
        f"DELETE FROM sqlite_master WHERE name = '{index}'",
        "PRAGMA writable_schema=RESET",
        "UPDATE calls SET request = 'moved', state = 'settled', dataset = 'trips' WHERE number = 4",
    )
    values = ", ".join("NULL" if part is None else repr(part) for part in kept)
    raw(path, "PRAGMA writable_schema=ON", f"INSERT INTO sqlite_master VALUES ({values})")
    store = SqliteTransactions(path, 1.0)
    with store.copied() as connection:
        assert any(index in problem for problem in audit(SqliteUpkeep(), connection, None).problems)
    store.close()
