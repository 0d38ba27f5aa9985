"""A process that appends a batch to a DuckDB file and is killed on the way: python append_child.py FOLDER PLACE."""

import os
import signal
import sys
from pathlib import Path

import duckdb
import pyarrow as pa

import chary
from chary.data.engines.duckdb import append as appending
from chary.data.engines.duckdb import connection as engine
from chary.data.engines.duckdb.reader import Batches
from chary.ledger import Ledger

BATCH = pa.table({"unit": list(range(1000, 4000)), "age": [50] * 3000})
PLACES = ("connected", "inserted", "remembered", "committed", "noting", "noted")
PUBLIC = {"privacy_unit": None, "neighbors": "replace"}
SECRET = {"privacy_unit": "unit"}


def make(folder, rows=200):
    with duckdb.connect(str(Path(folder) / "rows.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT range AS unit, range % 90 AS age FROM range({rows})")


def open_session(folder, whose=PUBLIC):
    place = Path(folder) / f"{whose['privacy_unit']}.ledger"
    budget = chary.Budget(epsilon=10**6, delta=1e-6)
    return chary.open(Path(folder) / "rows.duckdb", table="t", ledger=place, budget=budget, dataset="t", **whose)


def killing(owner, name, *, before):
    """Kill this process just before or just after a function runs."""
    original = getattr(owner, name)

    def kill(*args, **options):
        if not before:
            original(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, kill)


def kill_at(place):
    steps = {
        "connected": (engine, "_transaction", True),
        "inserted": (appending, "_insert", False),
        "remembered": (Batches, "add", False),
        "committed": (engine, "_transaction", False),
        "noting": (Ledger, "note", True),
        "noted": (Ledger, "note", False),
    }
    owner, name, before = steps[place]
    killing(owner, name, before=before)


if __name__ == "__main__":
    folder, place, *keys = sys.argv[1:]
    session = open_session(folder, PUBLIC if "secret" not in keys else SECRET)
    if place == "loop":
        for number in range(10**6):
            sys.stdout.write(f"{session.append(BATCH, request=f'batch {number}')}\n")
            sys.stdout.flush()
    kill_at(place)
    session.append(BATCH, request="the batch")
