"""Builds a large, entirely valid ledger fast: the rows that charging would have left, inserted in bulk."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from chary.ledger import Amount, SqlLedger, Terms, canonical
from chary.ledger.books import Books
from chary.ledger.drafts import opening, reserving, settling
from chary.ledger.entries import GENESIS, Entry, Kind, seal
from chary.ledger.schema import analysts, answers, calls, chain, datasets, entries, tallies
from chary.ledger.store import Store

TERMS = Terms("visits", "ab12", '{"unit":"patient"}', Amount(2**62, 2**62))
ANSWER = canonical({"above": True})
BATCH = 10_000


def story(total: int) -> Iterator[Entry]:
    """Entries of one dataset and seven analysts: an opening, then calls reserved and settled in turn."""
    yield opening(1, TERMS)
    for number in range(2, total + 1, 2):
        body = canonical({"where": "age >= 65 AND smoker", "above": number, "epsilon": "0.02"})
        reserved = reserving(number, "visits", f"analyst-{number // 2 % 7}", "test", body, Amount(20, 3), None)
        yield reserved
        if number < total:
            yield settling(number + 1, reserved, Amount(number // 2 % 2), number // 2 % 2, 1, ANSWER)


def build(path: Path, total: int) -> None:
    """Write a ledger of `total` entries; the last call stays open if the number is even."""
    SqlLedger(path).close()
    store, books, head = Store(path, 30.0), Books(), GENESIS
    source = story(total)
    with store.writing() as connection:
        connection.exec_driver_sql("PRAGMA defer_foreign_keys=ON")
        while batch := list(islice(source, BATCH)):
            head = _write(connection, batch, books, head)
        connection.execute(chain.update(), {"entries": total, "head": head})
        _totals(connection, books)
    store.close()


def _write(connection: Connection, batch: list[Entry], books: Books, head: str) -> str:
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


def _call(reserved: Entry, state: str, closing: int | None, charged: Entry) -> dict[str, Any]:
    owner = {"number": reserved.number, "dataset": reserved.dataset, "analyst": reserved.analyst, "request": None}
    return {
        **owner,
        "state": state,
        "closing": closing,
        "charged_main": charged.main,
        "charged_delta": charged.delta,
    }


def _totals(connection: Connection, books: Books) -> None:
    for entry in books.open.values():
        connection.execute(calls.insert(), _call(entry, "reserved", None, entry))
    for name, account in books.accounts.items():
        terms, purse = account.terms, account.purse
        columns = (terms.name, terms.fingerprint, terms.conditions, terms.capacity.main, terms.capacity.delta)
        spent = (purse.spent_main, purse.spent_delta, purse.open_main, purse.open_delta)
        connection.execute(datasets.insert().values((*columns, *spent, account.version)))
        for analyst, own in account.analysts.items():
            spent = (own.spent_main, own.spent_delta, own.open_main, own.open_delta)
            connection.execute(analysts.insert().values((name, analyst, None, None, *spent)))
        for kind, count in account.tallies.items():
            sums = (count.calls, count.hits, count.tests, count.main, count.delta)
            connection.execute(tallies.insert().values((name, kind, *sums)))
