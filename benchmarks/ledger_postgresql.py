"""A ledger that 1, 8 and 32 processes charge at once: in PostgreSQL, in SQLite, and what the server itself allows.

Run as `python benchmarks/ledger_postgresql.py [CLIENTS ...]`. Every call is reserved and settled: two transactions.
"Bare" is two transactions of the same size on the same server: a row that all update, as the chain has one head, and a
row or two that are inserted, with nothing checked and nothing hashed. Ours and bare ones take turns.
"""

import multiprocessing
import runpy
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

from chary.ledger import Amount, Terms, open_ledger
from measuring import announce, show
from recording import Against

SERVER = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "servers" / "postgres.py"))
CLIENTS = (1, 8, 32)
SECONDS = 4.0
BODY = '{"above":500,"epsilon":"0.02","where":"age >= 65 AND smoker"}'
HEADINGS = ["ledger, clients", "calls per second", "bare", "bare / ours"]
# Clients are forked from this process, which has imported everything and opened nothing.
FORKED = multiprocessing.get_context("fork")
TABLES = """
CREATE TABLE account (id int PRIMARY KEY, spent bigint NOT NULL, entries bigint NOT NULL, head text NOT NULL);
INSERT INTO account VALUES (1, 0, 0, '');
CREATE TABLE entry (number bigserial PRIMARY KEY, kind text, who text, body text, price bigint, hash text);
CREATE TABLE answer (call bigint PRIMARY KEY, answer text);
"""
SPEND = "UPDATE account SET spent = spent + %s, entries = entries + 1, head = %s WHERE id = 1"
ENTER = "INSERT INTO entry (kind, who, body, price, hash) VALUES (%s, %s, %s, %s, %s) RETURNING number"
ANSWER = "INSERT INTO answer VALUES (%s, %s)"


def calls(target: str, name: str, until: Callable[[], bool]) -> int:
    """Whole calls on a ledger until the time is up."""
    ledger, done = open_ledger(target, timeout=60), 0
    while not until():
        call = ledger.reserve("visits", name, "test", BODY, Amount(20, 3))
        ledger.settle(call, Amount(1), hits=1, tests=1, answer="true")
        done += 1
    ledger.close()
    return done


def bare(target: str, name: str, until: Callable[[], bool]) -> int:
    """As many pairs of bare transactions."""
    done, sealed = 0, "0" * 64
    with psycopg.connect(target, autocommit=True) as connection:
        while not until():
            with connection.transaction():
                connection.execute(SPEND, (20, sealed))
                number = connection.execute(ENTER, ("reserve", name, BODY, 20, sealed)).fetchone()
            with connection.transaction():
                connection.execute(SPEND, (-19, sealed))
                connection.execute(ENTER, ("settle", name, "", 1, sealed))
                connection.execute(ANSWER, (number[0] if number else 0, "true"))
            done += 1
    return done


def rate(work: Callable[..., int], target: str, clients: int) -> float:
    """What all clients do together in a second, once each of them is there."""
    together, counts = FORKED.Barrier(clients), FORKED.Queue()
    crowd = [FORKED.Process(target=_client, args=(work, target, f"a{n}", together, counts)) for n in range(clients)]
    for each in crowd:
        each.start()
    total = sum(counts.get() for _ in crowd)
    for each in crowd:
        each.join()
    return total / SECONDS


def _client(work: Callable[..., int], target: str, name: str, together: Any, counts: Any) -> None:
    end: list[float] = []

    def until() -> bool:
        if not end:
            together.wait()
            end.append(time.perf_counter() + SECONDS)
        return time.perf_counter() >= end[0]

    counts.put(work(target, name, until))


def rows(folder: Path, server: Any, crowds: list[int]) -> Iterator[tuple[str, ...]]:
    """All lines of the table."""
    for clients in crowds:
        ours, other = _opened(server.schema()), server.url(server.database())
        with psycopg.connect(other) as connection:
            connection.execute(TABLES)
        found, limit = rate(calls, ours, clients), rate(bare, other, clients)
        yield f"PostgreSQL, {clients}", f"{found:,.0f}", f"{limit:,.0f}", f"{limit / found:.2f}"
        file = rate(calls, _opened(str(folder / f"{clients}.ledger")), clients)
        yield f"SQLite, {clients}", f"{file:,.0f}", "-", "-"


def _opened(target: str) -> str:
    ledger = open_ledger(target)
    ledger.open(Terms("visits", "ab12", '{"unit":"patient"}', Amount(2**62, 2**62)))
    ledger.close()
    return target


def main(crowds: list[int]) -> None:
    announce()
    limit = Against("calls a second over bare transactions", "calls per second", "bare", "bare / ours", rates=True)
    with tempfile.TemporaryDirectory() as folder, SERVER["running"]() as server:
        show("The ledger, many processes", HEADINGS, rows(Path(folder), server, crowds), against=[limit])


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or list(CLIENTS))
