"""A forked child of an open session: it can neither use nor close what it inherited."""

import subprocess
import sys

import pytest

CHILD = """
import os, sys, warnings
from pathlib import Path
import duckdb
import pyarrow as pa
import chary
from chary.calls import Release

warnings.simplefilter("ignore", DeprecationWarning)
folder, leave = Path(sys.argv[1]), sys.argv[2]
with duckdb.connect(str(folder / "rows.duckdb")) as connection:
    connection.execute("CREATE TABLE rows AS SELECT range AS person FROM range(100000)")

def opened():
    budget = chary.Budget(epsilon=1)
    place = {"ledger": folder / "rows.ledger", "table": "rows", "privacy_unit": "person"}
    return chary.open(folder / "rows.duckdb", budget=budget, **place)

def in_memory():
    place = {"ledger": ":memory:", "budget": chary.Budget(epsilon=1)}
    with chary.open(pa.table({"person": [1, 2]}), privacy_unit="person", **place) as other:
        return len(other.schema)

session = opened()
session.release(chary.count(), epsilon="0.1", request="before")
in_memory()  # leaves a spare engine, whose threads the child has not
child = os.fork()
if not child:
    acts = [
        lambda: session.release(chary.count(), epsilon="0.1"),
        lambda: session.release(chary.count(), epsilon="0.1", request="before"),
        lambda: session.quote(Release(chary.count(), epsilon="0.1")),
        lambda: session.append([1]),
        lambda: session.set_quota("bob", 1),
        lambda: (session.spent, session.history, session.schema),
    ]
    told = []
    for act in acts:
        try:
            act()
        except chary.ForkedSession:
            told.append(True)
    session.close()
    with session:
        pass
    with opened() as own:  # the same budget
        own.release(chary.count(), epsilon="0.2")
    right = len(told) == len(acts) and in_memory() == 1
    if leave == "collected":
        del session, acts
        import gc
        gc.collect()
    if leave == "hard":
        os._exit(0 if right else 1)
    sys.exit(0 if right else 1)
_, status = os.waitpid(child, 0)
session.release(chary.count(), epsilon="0.3")
print(status, session.spent.amount.main, session.spine.ledger.verify().ok)
"""


@pytest.mark.parametrize("leave", ["hard", "exit", "collected"])
def test_a_child_has_nothing_of_a_session(tmp_path, leave):
    # A process of its own, because forking one that has threads is deprecated.
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), leave], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.stdout.split(), ended.returncode) == (["0", str(6 * 10**14), "True"], 0), ended.stderr
