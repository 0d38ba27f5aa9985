"""Builds a large, entirely valid ledger fast: the rows that charging would have left, inserted in bulk."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from chary.ledger import Amount, Terms, canonical, open_ledger
from chary.ledger.accounts import Books, Purse
from chary.ledger.entries import GENESIS, ChainEntry, Kind, opening, reserving, seal, settling
from chary.ledger.sql.schema import analysts, answers, calls, chain, datasets, entries, tallies
from chary.ledger.sqlite.store import SqliteTransactions

TERMS = Terms("visits", "ab12", '{"unit":"patient"}', Amount(2**62, 2**62))
ANSWER = canonical({"above": True})
BATCH = 10_000
ANALYSTS = 7


def story(total: int) -> Iterator[ChainEntry]:
    """Entries of one dataset and seven analysts: an opening, then calls reserved and settled in turn."""
    yield opening(1, TERMS)
    for number in range(2, total + 1, 2):
        body = canonical({"where": "age >= 65 AND smoker", "above": number, "epsilon": "0.02"})
        reserved = reserving(number, "visits", f"analyst-{number // 2 % ANALYSTS}", "test", body, Amount(20, 3), None)
        yield reserved
        if number < total:
            yield settling(number + 1, reserved, Amount(number // 2 % 2), number // 2 % 2, 1, ANSWER)


def build(path: Path, total: int) -> None:
    """Write a ledger of `total` entries; the last call stays open if the number is even."""
    open_ledger(path).close()
    store, books, head = SqliteTransactions(path, 30.0), Books(), GENESIS
    source = story(total)
    with store.writing() as connection:
        _parents(connection)
        while batch := list(islice(source, BATCH)):
            head = _write(connection, batch, books, head)
        connection.execute(chain.update(), {"entries": total, "head": head})
        _totals(connection, books)
    store.close()


def _write(connection: Connection, batch: list[ChainEntry], books: Books, head: str) -> str:
    rows: dict[Any, list[dict[str, Any]]] = {entries: [], calls: [], answers: []}
    for entry in batch:
        head = seal(head, entry)
        rows[entries].append({**entry._asdict(), "hash": head})
        if entry.kind == Kind.SETTLE:
            rows[calls].append(_call(books.open[entry.call], "settled", entry.number, entry))
            rows[answers].append({"call": entry.call, "answer": ANSWER})
        books.post(entry)
    for table, part in rows.items():
        if part:
            connection.execute(table.insert(), part)
    return head


def _call(reserved: ChainEntry, state: str, closing: int | None, charged: ChainEntry) -> dict[str, Any]:
    owner = {"number": reserved.number, "dataset": reserved.dataset, "analyst": reserved.analyst, "request": None}
    return {
        **owner,
        "state": state,
        "closing": closing,
        "charged_main": charged.main,
        "charged_delta": charged.delta,
    }


def _parents(connection: Connection) -> None:
    """The rows others refer to come first: with a reference missing, SQLite searches all calls at every insert."""
    columns = (TERMS.name, TERMS.fingerprint, TERMS.conditions, TERMS.capacity.main, TERMS.capacity.delta)
    connection.execute(datasets.insert().values((*columns, 0, 0, 0, 0, 0)))
    for number in range(ANALYSTS):
        connection.execute(analysts.insert().values((TERMS.name, f"analyst-{number}", None, None, 0, 0, 0, 0)))


def _totals(connection: Connection, books: Books) -> None:
    for entry in books.open.values():
        connection.execute(calls.insert(), _call(entry, "reserved", None, entry))
    account = books.accounts[TERMS.name]
    connection.execute(datasets.update().values(_columns(account.purse)))
    for number in range(ANALYSTS):
        name = f"analyst-{number}"
        if name in account.analysts:
            own = _columns(account.analysts[name])
            connection.execute(analysts.update().where(analysts.c.analyst == name).values(own))
        else:
            connection.execute(analysts.delete().where(analysts.c.analyst == name))
    for kind, count in account.tallies.items():
        sums = (count.calls, count.hits, count.tests, count.main, count.delta)
        connection.execute(tallies.insert().values((TERMS.name, kind, *sums)))


def _columns(purse: Purse) -> dict[str, int]:
    return {name: getattr(purse, name) for name in ("spent_main", "spent_delta", "open_main", "open_delta")}
