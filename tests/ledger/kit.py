"""Shared by the tests of the ledger: terms, both implementations, and a way into the file past the ledger."""

import sqlite3
from pathlib import Path

from chary.addresses import Address
from chary.ledger import Amount, Ledger, Parts, Reservation, Terms, canonical, open_ledger

QUESTION = canonical({"where": "age >= 65", "above": 500})
ANSWER = canonical({"above": True})


def terms(name: str = "visits", main: int = 10, delta: int = 10, unit: str = "patient") -> Terms:
    return Terms(name, "ab12", canonical({"unit": unit, "filter": "pure"}), Amount(main, delta))


KINDS = ["memory", "sql", "postgresql"]
KEPT = ["sql", "postgresql"]
TABLES = (
    "chain, entries, datasets, analysts, tallies, calls, answers, secrets, seals, departures, "
    "partitions, parts, call_parts"
)


def place(kind: str, folder: Path, request) -> str:
    """Where a new ledger of this kind is; the server is only begun for those that need it."""
    return str(folder / "test.ledger") if kind == "sql" else request.getfixturevalue("postgres").schema()


def make(kind: str, folder: Path, request) -> Ledger:
    return open_ledger(":memory:") if kind == "memory" else open_ledger(place(kind, folder, request))


def emptied(target: str, owner) -> None:
    """Make it a ledger without entries again, much faster than a new one, as somebody who may do everything."""
    schema = Address.parse(target).schema
    owner.execute(f"SET search_path = {schema}; SET session_replication_role = replica; TRUNCATE {TABLES}")
    owner.execute("INSERT INTO chain VALUES (1, 1, 0, repeat('0', 64)); INSERT INTO seals VALUES (1, 0, 0)")


# The ledger that state machines on a server share, and its owner: see the fixture `server`.
SERVER = {}


def opened_anew() -> tuple[str, Ledger]:
    """The ledger on the server without entries, and where it is."""
    emptied(SERVER["ledger"], SERVER["owner"])
    return SERVER["ledger"], open_ledger(SERVER["ledger"])


def ask(ledger: Ledger, worst: int = 4, price: int = 1, dataset: str = "visits", analyst: str = "ann") -> Reservation:
    """A whole call: reserve and settle."""
    call = ledger.reserve(dataset, analyst, "count", QUESTION, Amount(worst))
    ledger.settle(call, Amount(price), hits=1, tests=2, answer=ANSWER)
    return call


def filled(path: str | Path) -> Ledger:
    """A ledger with something in every table and every column."""
    ledger = open_ledger(path)
    ledger.open(terms())
    ledger.open(terms("trips", 100, 100))
    ledger.set_quota("visits", "ann", Amount(8, 8))
    settled = ledger.reserve("visits", "ann", "count", QUESTION, Amount(4, 3), request="first")
    ledger.settle(settled, Amount(2, 1), 1, 2, ANSWER, secret=b"held-outcome-4711")
    ledger.void(ledger.reserve("visits", "bob", "count", QUESTION, Amount(1, 1), request="second"))
    ledger.reserve("trips", "ann", "watch", QUESTION, Amount(5, 5), request="third")
    ledger.note("visits", "append", '{"rows":3}')
    ask(ledger, dataset="trips")
    return ledger


NORTH, SOUTH, BOTH = (Parts("region", 1, names) for names in (("north",), ("south",), ("north", "south")))


def in_parts(ledger: Ledger) -> None:
    """Calls of parts of a dataset of their own: settled, given back and open, of one part and of two."""
    ledger.open(terms("stays", 100, 100))
    for parts, analyst, worst in ((NORTH, "ann", 40), (SOUTH, "bob", 50), (BOTH, "ann", 9), (NORTH, "bob", 7)):
        call = ledger.reserve("stays", analyst, "count", QUESTION, Amount(worst, 3), parts=parts)
        if worst == 9:
            ledger.void(call)
        elif worst != 7:
            ledger.settle(call, Amount(worst - 1, 2), 1, 1, ANSWER)


def raw(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """Run SQL on the file as somebody with an editor would; the rows of the last statement."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys=OFF")
    connection.execute("PRAGMA ignore_check_constraints=ON")
    for trigger in ("entries_are_final_update", "entries_are_final_delete"):
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    rows: list[tuple[object, ...]] = []
    for statement in statements:
        rows = connection.execute(statement).fetchall()
    connection.commit()
    connection.close()
    return rows
