"""Damage that makes a stored value one of another type: it is reported as that of its entry, and the rest is shown."""

import sqlite3
from contextlib import closing
from functools import partial

import pytest

import chary
from chary import Budget, count
from chary.errors import CharyError, LedgerCorrupted, LedgerError
from chary.ledger import Amount, open_ledger
from chary.report import report
from chary.session.statement import entries
from tests.session.kit import visits

VALUES = {"integer": 7, "real": 1.5, "text": "x", "blob": b"\x00x", "null": None}
TABLES = ("chain", "entries", "datasets", "analysts", "tallies", "calls", "answers", "secrets", "seals")
USUAL = {"privacy_unit": "patient", "budget": Budget(epsilon=9), "dataset": "visits"}


def asked(place):
    """A ledger that holds every kind of entry; the number of its first and last call."""
    with chary.open(visits(), ledger=str(place), **USUAL) as session:
        first = session.release(count(), epsilon="0.1", request="monday").call
        session.release_if(count(), above=10**6, epsilon="0.1")
        session.set_quota("bob", "0.5")
        ledger = session.spine.ledger
        ledger.void(ledger.reserve("visits", "bob", "release", "{}", Amount(1)))
        ledger.reserve("visits", "bob", "release", "{}", Amount(1))
        ledger.note("visits", "odd", "{}")
        last = session.release(count("age >= 65"), epsilon="0.1").call
    return first, last


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    place = tmp_path_factory.mktemp("types") / "whole.ledger"
    return place, asked(place)


class Damage:
    """A file of which values are changed past all rules of its tables, as a flipped bit of a type changes them."""

    def __init__(self, place):
        self.connection = sqlite3.connect(place, isolation_level=None)
        self.rules = self.connection.execute("SELECT rowid, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        self.triggers = [sql for _, sql in self.rules if sql.startswith("CREATE TRIGGER")]

    def change(self, table, column, row, value):
        """Set a value; the rules of the tables stand again as before."""
        run = self.connection.execute
        run("PRAGMA foreign_keys=OFF"), run("PRAGMA ignore_check_constraints=ON")
        for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            run(f"DROP TRIGGER {name}")
        (sql,) = run("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        plain = sql.replace("STRICT", "").replace("NOT NULL", "")
        for kind in ("BIGINT", "INTEGER", "TEXT", "BLOB"):
            plain = plain.replace(
                f" {kind}", " ANYTHING" if kind != "INTEGER" or "PRIMARY" not in plain else f" {kind}"
            )
        self._written(table, plain)
        run(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, row))
        self._written(table, sql)
        for trigger in self.triggers:
            run(trigger)

    def _written(self, table, sql):
        run = self.connection.execute
        (version,) = run("PRAGMA schema_version").fetchone()
        run("PRAGMA writable_schema=ON")
        run("UPDATE sqlite_master SET sql = ? WHERE name = ? AND type = 'table'", (sql, table))
        run(f"PRAGMA schema_version={version + 1}"), run("PRAGMA writable_schema=OFF")


def looks(ledger):
    """Everything that is looked at; each one by itself, since one may be refused."""
    yield lambda: ledger.verify()
    yield lambda: list(entries(ledger, "visits"))
    yield lambda: report(ledger)
    yield lambda: [list(ledger.calls("visits", newest=True)), list(ledger.calls("visits", kinds=["release"]))]
    yield lambda: list(ledger.export("visits"))
    yield lambda: [ledger.balance("visits"), ledger.tally("visits"), ledger.version("visits"), ledger.datasets()]
    yield lambda: [ledger.analyst_balance("visits", name) for name in ledger.analysts("visits")]
    yield lambda: [ledger.notes("visits"), ledger.last_note("visits"), ledger.head()]
    yield lambda: [ledger.secret(call.number) for call in ledger.calls("visits")]
    yield lambda: ledger.charged_under("visits", "bob", "m")


def typed(look):
    """Its answer, or the typed error in place of it; anything else that is raised fails the test."""
    try:
        return look()
    except CharyError as error:
        return error.with_traceback(None)


def opening(place):
    ledger = open_ledger(place, timeout=1.0)
    try:
        return ledger.verify()
    finally:
        ledger.close()


def one_of_each(connection, table):
    """Rows that differ in what they hold: of entries one that reserves and one that settles."""
    if table == "entries":
        chosen = "SELECT max(rowid) FROM entries WHERE kind IN ('reserve', 'settle') GROUP BY kind"
    else:
        chosen = f"SELECT max(rowid) FROM {table}"
    return [row for (row,) in connection.execute(chosen)]


@pytest.mark.parametrize("table", TABLES)
def test_a_value_of_another_type_is_damage_and_no_raw_error(whole, tmp_path, table):
    place = tmp_path / "damaged.ledger"
    content = whole[0].read_bytes()
    place.write_bytes(content)
    with closing(sqlite3.connect(place)) as connection:
        columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        rows = one_of_each(connection, table)
    found = 0
    for column in columns:
        for row in rows:
            for kind, value in VALUES.items():
                place = tmp_path / f"{column} {row} {kind}.ledger"
                place.write_bytes(content)
                ledger = open_ledger(place, timeout=1.0)
                damage = Damage(place)
                (before,) = damage.connection.execute(
                    f"SELECT typeof({column}) FROM {table} WHERE rowid = {row}"
                ).fetchone()
                try:
                    if kind == before:
                        continue
                    damage.change(table, column, row, value)
                except sqlite3.IntegrityError:
                    ledger.close()
                    continue  # the number of a row is an integer, whatever is written
                finally:
                    damage.connection.close()
                told = [typed(look) for look in list(looks(ledger))]
                ledger.close()
                assert not told[0].ok, (column, row, kind)
                assert isinstance(told[2], LedgerError), (column, row, kind)
                again = typed(partial(opening, place))
                assert isinstance(again, LedgerError) or not again.ok, (column, row, kind)
                place.unlink()
                found += 1
    assert found >= 4


def test_an_answer_that_became_a_blob_is_damage_of_its_call_and_hides_no_other(whole, tmp_path):
    place, (first, last) = tmp_path / "blob.ledger", whole[1]
    place.write_bytes(whole[0].read_bytes())
    damage = Damage(place)
    (answer,) = damage.connection.execute("SELECT answer FROM answers WHERE call = ?", (first,)).fetchone()
    damage.change("answers", "answer", first, answer.encode())
    damage.connection.close()
    ledger = open_ledger(place)
    problems = ledger.verify().problems
    assert f"call {first}: its answer was changed, removed or added" in problems
    history = {entry.call: entry for entry in entries(ledger, "visits")}
    assert [call for call, entry in history.items() if entry.damage] == [first]
    assert (history[first].answer, history[last].answer is not None) == (None, True)
    assert "answer is damaged" in history[first].damage
    with pytest.raises(LedgerError, match="does not verify"):
        report(ledger)
    ledger.close()
    with chary.open(visits(), ledger=str(place), **USUAL) as session:
        assert [entry.call for entry in session.history if entry.damage] == [first]
        with pytest.raises(LedgerCorrupted, match="answer is damaged"):
            session.release(count(), epsilon="0.1", request="monday")
