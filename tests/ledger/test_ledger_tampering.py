"""Whatever is changed in the file behind the ledger's back, a verification says so."""

import pytest

from chary.errors import LedgerCorrupted, LedgerError
from chary.ledger import open_ledger
from chary.ledger.sql.schema import metadata
from chary.ledger.sqlite.store import SqliteTransactions, SqliteUpkeep
from chary.ledger.verification import audit

from .kit import filled, in_parts, raw

FIELDS = [(table.name, column.name) for table in metadata.sorted_tables for column in table.columns]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("tampering") / "original.ledger"
    ledger = filled(path)
    in_parts(ledger)
    assert ledger.verify().ok
    ledger.close()
    return path.read_bytes()


@pytest.fixture
def path(original, tmp_path):
    copy = tmp_path / "copy.ledger"
    copy.write_bytes(original)
    return copy


def found(path):
    """All that is wrong: what opening raises, and what a verification that looks anyway reports."""
    try:
        ledger = open_ledger(path)
    except LedgerError:
        store = SqliteTransactions(path, 1.0)
        with store.copied() as connection:
            verdict = audit(SqliteUpkeep(), connection, None)
        store.close()
        return True, verdict
    verdict = ledger.verify()
    ledger.close()
    return False, verdict


def changes(path, table, column):
    """A statement for every row of the table that changes this column there, keeping the column's type."""
    rows = raw(path, f"SELECT rowid, {column}, typeof({column}) FROM {table} ORDER BY rowid")
    assert rows, "a table without rows tests nothing"
    new = {
        "integer": f"{column} + 1000",
        "text": f"{column} || 'x'",
        "blob": "x'00'",
        "null": "7" if column in ("cap_main", "cap_delta", "closing") else "'x'",
    }
    for rowid, _, kind in rows:
        yield f"UPDATE {table} SET {column} = {new[kind]} WHERE rowid = {rowid}"


@pytest.mark.parametrize(("table", "column"), FIELDS)
def test_a_change_of_any_field_is_found(original, path, table, column):
    for statement in list(changes(path, table, column)):
        path.write_bytes(original)
        raw(path, statement)
        _, verdict = found(path)
        assert not verdict.ok, statement
        assert "4711" not in " ".join(verdict.problems)


@pytest.mark.parametrize("table", [table.name for table in metadata.sorted_tables if table.name != "secrets"])
def test_a_removed_row_is_found(original, path, table):
    for (rowid,) in raw(path, f"SELECT rowid FROM {table} ORDER BY rowid"):
        path.write_bytes(original)
        raw(path, f"DELETE FROM {table} WHERE rowid = {rowid}")
        assert not found(path)[1].ok


@pytest.mark.parametrize("number", [2, 5, 10])
def test_opening_notices_a_removed_entry(path, number):
    raw(path, f"DELETE FROM entries WHERE number = {number}")
    with pytest.raises(LedgerCorrupted):
        open_ledger(path)


def test_a_truncated_history_with_a_matching_count_is_found(path):
    last, head = raw(path, "SELECT number, hash FROM entries ORDER BY number DESC LIMIT 1")[0]
    raw(path, f"DELETE FROM entries WHERE number = {last}", f"UPDATE chain SET entries = {last - 1}")
    assert found(path)[0]
    before = raw(path, f"SELECT hash FROM entries WHERE number = {last - 1}")[0][0]
    assert before != head
    raw(path, f"UPDATE chain SET head = '{before}'")
    early, verdict = found(path)
    assert early
    assert not verdict.ok


@pytest.mark.parametrize("table", ["datasets", "analysts"])
@pytest.mark.parametrize("column", ["spent_main", "spent_delta", "open_main", "open_delta"])
def test_opening_compares_running_totals_with_sums(path, table, column):
    raw(path, f"UPDATE {table} SET {column} = {column} + 1 WHERE rowid = 1")
    with pytest.raises(LedgerCorrupted, match="totals"):
        open_ledger(path)


def test_opening_survives_sums_that_overflow(path):
    raw(path, f"UPDATE calls SET charged_main = {2**63 - 1}")
    raw(path, f"UPDATE entries SET main = {2**63 - 1} WHERE kind = 'reserve'")
    with pytest.raises(LedgerCorrupted):
        open_ledger(path)


def test_the_ledger_itself_cannot_change_an_entry(path):
    store = SqliteTransactions(path, 1.0)
    for statement in ("UPDATE entries SET main = 0", "DELETE FROM entries"):
        with pytest.raises(LedgerError), store.writing() as connection:
            connection.exec_driver_sql(statement)
    store.close()
    assert found(path)[1].ok


def test_another_format_is_refused(path):
    raw(path, "UPDATE chain SET format = 4")
    with pytest.raises(LedgerError, match="format 4, this version of chary reads formats 1 to 3"):
        open_ledger(path)


def test_a_changed_secret_is_not_handed_out(path):
    call = raw(path, "SELECT call FROM secrets")[0][0]
    raw(path, "UPDATE secrets SET secret = x'00'")
    ledger = open_ledger(path)
    with pytest.raises(LedgerCorrupted):
        ledger.secret(call)
    ledger.close()


def test_many_problems_are_counted_not_listed(path):
    raw(path, "UPDATE entries SET hash = 'x'", *["DELETE FROM calls", "DELETE FROM answers"])
    verdict = found(path)[1]
    assert 10 < len(verdict.problems) <= 100
