"""A batch that a session and `chary append --request` both bring is added once: after a kill, and at the same time."""

import signal

import duckdb
import pyarrow as pa
import pytest
from pyarrow import csv

from tests.children import Python
from tests.crash.append_child import BATCH, make, open_session
from tests.session.kit import recorded

PUBLIC = (
    "--row-level",
    "--neighbors",
    "replace",
    "--table",
    "t",
    "--budget-epsilon",
    "1000000",
    "--budget-delta",
    "1e-6",
)
BATCHES = 2
# What a service does: one process appends under keys, and again where another one holds the rows.
SESSION = """
import sys, time
import chary
from chary.errors import CharyError
source, ledger, file, batches = sys.argv[1:]
for number in range(int(batches)):
    while True:
        try:
            public = dict(privacy_unit=None, neighbors="replace", dataset="t", table="t")
            with chary.open(source, ledger=ledger, budget=chary.Budget(epsilon=10**6, delta=1e-6), **public) as session:
                session.append(file, request=f"batch {number}")
            break
        except CharyError:
            time.sleep(0.01)
"""


def command(source, ledger, file, key):
    # Which ledger follows the rows is another matter: the key is kept beside them.
    own = f"{ledger}.command"
    return Python("-m", "chary", "append", source, file, *PUBLIC, "--ledger", own, "--request", key, "--json")


def rows_in(file):
    with duckdb.connect(str(file), read_only=True) as connection:
        return connection.execute("SELECT count(*) FROM t").fetchone()[0]


@pytest.mark.parametrize("place", ["inserted", "committed", "noting"])
def test_a_batch_whose_session_was_killed_is_completed_by_the_command(tmp_path, place):
    make(tmp_path)
    recorded(open_session(tmp_path)).close()
    csv.write_csv(BATCH, tmp_path / "batch.csv")
    child = Python("-m", "tests.crash.append_child", tmp_path, place)
    _out, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err
    for _ in range(2):
        again = command(tmp_path / "rows.duckdb", tmp_path / "None.ledger", tmp_path / "batch.csv", "the batch")
        out, err = again.communicate(timeout=120)
        assert again.returncode == 0, err
        assert rows_in(tmp_path / "rows.duckdb") == 3200, out
    with open_session(tmp_path) as session:
        assert session.append(BATCH, request="the batch") == 2
        assert [version.size for version in session.versions] == [200, 3200]


def both_at_once(source, ledger, file):
    """A session and a command, each with all batches; the command is started anew for each, and where it failed."""
    session = Python("-c", SESSION, source, ledger, file, BATCHES)
    for number in range(BATCHES):
        for _ in range(50):
            child = command(source, ledger, file, f"batch {number}")
            _out, err = child.communicate(timeout=120)
            if child.returncode == 0:
                break
        assert child.returncode == 0, err
    _out, err = session.communicate(timeout=60)
    assert session.returncode == 0, err


def test_both_at_once_add_each_batch_once_to_a_file(tmp_path):
    make(tmp_path)
    recorded(open_session(tmp_path)).close()
    csv.write_csv(BATCH, tmp_path / "batch.csv")
    both_at_once(tmp_path / "rows.duckdb", tmp_path / "None.ledger", tmp_path / "batch.csv")
    with open_session(tmp_path) as session:
        assert [version.size for version in session.versions] == [200 + 3000 * number for number in range(BATCHES + 1)]


def test_both_at_once_add_each_batch_once_to_a_server(tmp_path, postgres, postgres_url):
    name = postgres_url.split("@/")[1].split("?")[0]
    postgres.execute("CREATE TABLE t AS SELECT n AS unit, n % 90 AS age FROM generate_series(1, 200) AS n", name)
    csv.write_csv(BATCH, tmp_path / "batch.csv")
    both_at_once(postgres_url, tmp_path / "t.ledger", tmp_path / "batch.csv")
    assert postgres.execute("SELECT count(*) FROM t", name) == [(200 + 3000 * BATCHES,)]


def test_a_key_is_of_one_file(tmp_path):
    make(tmp_path)
    for name in ("a.csv", "b.csv"):
        csv.write_csv(pa.table({"unit": [1], "age": [2]}), tmp_path / name)
    for more in ((tmp_path / "b.csv",), ("--watch", tmp_path), ("--again", "key")):
        given = (tmp_path / "rows.duckdb", tmp_path / "a.csv", *more, *PUBLIC, "--ledger", tmp_path / "None.ledger")
        child = Python("-m", "chary", "append", *given, "--request", "key")
        _out, err = child.communicate(timeout=120)
        assert child.returncode == 2
        assert "--request is the key of one batch" in " ".join(err.split())
    assert rows_in(tmp_path / "rows.duckdb") == 200
