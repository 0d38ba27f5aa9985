"""kill -9 at every step of an append to a DuckDB file: the whole batch with its version, or nothing."""

import random
import signal
import time

import duckdb
import pytest

import chary
from chary.ledger import open_ledger
from tests.children import Python
from tests.crash.append_child import BATCH, PLACES, PUBLIC, SECRET, make, open_session
from tests.session.kit import recorded

AFTER_THE_COMMIT = {"committed", "noting", "noted"}


def start(folder, *arguments):
    return Python("-m", "tests.crash.append_child", folder, *arguments)


def count_rows(folder):
    with duckdb.connect(str(folder / "rows.duckdb"), read_only=True) as connection:
        return connection.execute("SELECT count(*) FROM t").fetchone()[0]


def sound(folder, name):
    ledger = open_ledger(folder / f"{name}.ledger")
    verdict = ledger.verify()
    ledger.close()
    return verdict.ok


def killed(folder, place):
    child = start(folder, place)
    _out, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err


def test_a_batch_before_which_nothing_was_recorded_is_the_first_version(tmp_path):
    make(tmp_path)
    killed(tmp_path, "committed")
    with open_session(tmp_path) as session:
        assert [(version.kind, version.size) for version in session.versions] == [("append", 3200)]
        assert [session.append(BATCH, request=key) for key in ("the batch", "another")] == [1, 2]


@pytest.mark.parametrize("place", PLACES)
def test_a_batch_is_there_with_its_version_or_not_at_all(tmp_path, place):
    make(tmp_path)
    recorded(open_session(tmp_path)).close()
    killed(tmp_path, place)
    there = place in AFTER_THE_COMMIT
    with open_session(tmp_path) as session:
        assert session.size == 200 + 3000 * there
        assert session.release(chary.count("unit >= 1000"), epsilon=1000).value == 3000 * there
        told = [(version.number, version.kind, version.size) for version in session.versions]
        assert told == [(1, "found", 200), (2, "append", 3200)][: 1 + there]
        assert session.append(BATCH, request="the batch") == 2
        assert session.append(BATCH, request="another") == 3
        assert session.append(BATCH, request="the batch") == 2
        assert session.size == 6200
        assert [version.size for version in session.versions] == [200, 3200, 6200]
    assert sound(tmp_path, None)


def test_kills_at_random_moments_lose_no_version_and_tear_no_batch(tmp_path):
    make(tmp_path)
    wait, acknowledged = random.Random(5), 1
    for _ in range(3):
        child, wanted = start(tmp_path, "loop"), acknowledged + wait.randint(1, 3)
        while acknowledged < wanted:  # batches of earlier children are acknowledged again
            acknowledged = max(acknowledged, int(child.stdout.readline()))
        time.sleep(wait.uniform(0, 0.2))  # somewhere within the appends that follow
        child.kill()
        out, _err = child.communicate(timeout=120)
        acknowledged = max([acknowledged, *map(int, out.split("\n")[:-1])])
        rows = count_rows(tmp_path)
        assert (rows - 200) % 3000 == 0
        with open_session(tmp_path) as session:
            versions = session.versions
        assert [version.size for version in versions] == list(range(200, rows + 1, 3000))
        assert [version.number for version in versions] == list(range(1, len(versions) + 1))
        assert acknowledged <= versions[-1].number
    assert acknowledged > 3
    assert sound(tmp_path, None)


def test_a_batch_without_version_gets_one_by_the_next_append_of_anybody(tmp_path):
    make(tmp_path)
    start(tmp_path, "noting", "secret").communicate(timeout=120)
    with open_session(tmp_path, SECRET) as session:
        assert [(version.number, version.size) for version in session.versions] == [(1, None)]
    with open_session(tmp_path, PUBLIC) as session:
        assert [(version.kind, version.size) for version in session.versions] == [("append", 3200)]
        session.append(BATCH)
    with open_session(tmp_path, SECRET) as session:
        assert [version.number for version in session.versions] == [1, 2]
    assert sound(tmp_path, "unit")
