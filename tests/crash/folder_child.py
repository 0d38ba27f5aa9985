"""A process that appends a file of a folder and is killed on the way: python folder_child.py FOLDER PLACE."""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import chary
from chary.data.engines.duckdb import append as appending
from chary.data.engines.duckdb import connection as engine
from chary.data.engines.duckdb.reader import Batches
from chary.ledger import Ledger
from tests.crash.append_child import PUBLIC, SECRET, killing

STEPS = {
    "connected": (engine, "_transaction", True),
    "joined": (appending, "join", False),
    "remembered": (Batches, "add", False),
    "noting": (Ledger, "note", True),
    "noted": (Ledger, "note", False),
    "committed": (engine, "_transaction", False),
}
KEY = "March"


def make(folder):
    (folder / "visits").mkdir()
    write(folder, 1, 200)


def write(folder, number, rows):
    place = Path(folder) / "visits" / f"{number}.parquet"
    pq.write_table(pa.table({"unit": [number * 1000 + k for k in range(rows)]}), place)
    return place


def open_folder(folder, whose):
    place = Path(folder) / f"{whose['privacy_unit']}.ledger"
    return chary.open(Path(folder) / "visits", ledger=place, budget=chary.Budget(epsilon=10**6, delta=1e-6), **whose)


if __name__ == "__main__":
    place, step, whose = Path(sys.argv[1]), sys.argv[2], PUBLIC if sys.argv[3] == "public" else SECRET
    session = open_folder(place, whose)
    batch = write(place, 2, 30)
    owner, name, before = STEPS[step]
    killing(owner, name, before=before)
    session.append(batch, request=KEY)
