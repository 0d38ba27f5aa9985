"""A ledger's rows written elsewhere: as a backup, or because the ledger moves."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, Table, bindparam, select, update

from chary.errors import InvalidParameter, LedgerBroken
from chary.ledger.head import Head
from chary.ledger.places.whereabouts import bare, ledger_exists, open_ledger
from chary.ledger.postgresql.address import is_address
from chary.ledger.records import Verification
from chary.ledger.sql.departing import chargeable, format_of
from chary.ledger.sql.schema import analysts, answers, calls, chain, datasets, entries, secrets, tallies
from chary.ledger.sql.sql_audit import audit
from chary.ledger.sql.upkeep import Transactions, Upkeep
from chary.ledger.sqlite.layout import lay_out
from chary.ledger.sqlite.ledger_file import SqlLedger
from chary.ledger.sqlite.ledger_files import create
from chary.ledger.sqlite.sqlite_engine import engine_of
from chary.ledger.sqlite.sqlite_upkeep import SqliteUpkeep

# Parents first: others refer to them.
_TABLES = (entries, datasets, analysts, tallies, calls, answers, secrets)
_ROWS = 2_000
_TIMEOUT = 30.0


def back_up(source: str | Path, to: str | Path) -> Head:
    """Write one state of a ledger, in a file or on a server, durably into a new file of mode 0600; its head.

    Others go on charging meanwhile. The copy of a ledger on a server is verified, entry for entry and secret for
    secret, before it has its name; its owner's rights are needed. A copy is for the day on which the ledger is lost:
    whoever charges it while the ledger lives spends the budget twice. `move` brings it back to a server.

    Errors: `InvalidParameter` where there is no ledger, or a file of that name already; `LedgerBroken` for a ledger on
    a server that does not verify, or a file that cannot be opened; `LedgerError` for one that was moved.
    """
    if not ledger_exists(source):
        raise InvalidParameter("there is no ledger to copy")
    if not is_address(source):
        with closing(SqlLedger(source)) as ledger:
            return ledger.backup(to)
    store, upkeep = bare(source)
    with closing(store):
        if not create(Path(to).absolute(), _TIMEOUT, lambda new: _fill(new, store, upkeep)):
            raise InvalidParameter(f"there is a file {to} already: a backup replaces none")
    with closing(open_ledger(Path(to))) as copy:
        return copy.head()


def write_rows(old: Connection, new: Connection, head: Head) -> None:
    """Every row into an empty ledger, whose head it then has."""
    for table in _TABLES:
        _rows(old, new, table)
    new.execute(update(chain).values(format=format_of(new), entries=head.entries, head=head.hash))


def require(verdict: Verification, otherwise: str) -> None:
    """Raise `LedgerBroken`, with the first of its problems, for a ledger that does not verify."""
    if not verdict.ok:
        raise LedgerBroken(f"{otherwise}: {verdict.problems[0]}")


def _fill(new: Path, store: Transactions, upkeep: Upkeep) -> None:
    lay_out(new, _TIMEOUT)
    with store.copied() as old, closing(engine_of(new, _TIMEOUT).connect()) as copy, copy.begin():
        chargeable(old, old.execute(select(chain.c.format)).scalar_one())
        # The copy gets a seal of its own, by which secrets that are gone would not be missed.
        if not upkeep.sealed(old):
            raise LedgerBroken("the secrets and the chain are of different moments, so there is no copy")
        write_rows(old, copy, store.bookmark.read(old))
        require(audit(SqliteUpkeep(), copy, None), "the copy does not verify, so there is none")


def _rows(old: Connection, new: Connection, table: Table) -> None:
    if table.primary_key.columns[0].type.python_type is str:
        # Datasets and analysts are few.
        found = [dict(row) for row in old.execute(select(table)).mappings()]
        if found:
            new.execute(table.insert(), found)
        return
    key, after = table.primary_key.columns[0], 0
    page = select(table).where(key > bindparam("after")).order_by(key).limit(_ROWS)
    while found := [dict(row) for row in old.execute(page, {"after": after}).mappings()]:
        new.execute(table.insert(), found)
        after = found[-1][key.name]
