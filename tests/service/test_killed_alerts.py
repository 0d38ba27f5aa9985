"""A service that is killed at random moments while rows arrive: no transition is lost, and none is told twice."""

import random
import threading
import time

import duckdb
import pyarrow as pa
import pytest

from chary import sum as total
from chary.calls import Alert
from chary.client import connect
from chary.service.auth.tokens import BearerTokens
from chary.service.command import listen
from chary.service.config import service_config
from chary.service.core import jobs
from chary.service.state import opened_service
from chary.service.store import ServiceStore
from tests.children import started
from tests.servers.postgres import free_port
from tests.service.kit import wait_for

CONFIG = """
[service]
port = {port}
rate = 10000
burst = 10000

[dataset.homes]
file = "homes.duckdb"
table = "homes"
row-level = true
neighbors = "replace"
budget-epsilon = 1
budget-delta = "1e-6"
"""
# What each batch adds to the sum: it crosses both thresholds with every other one, and stays between them never.
BATCHES = (4000, 0, -4000, 4000, -4000, 0, 4000, 0, 0, -4000)
KILLS = 4


def serving(folder):
    """A service that is not patient with calls of those who died; what they had leased is free at the start."""
    jobs.BEAT = 0.1
    listen(opened_service(service_config(folder / "chary.toml")))


def batch(change):
    return pa.table({"saved": [1 if change > 0 else -1] * abs(change) or [0]})


def crossings():
    """The truth: which version fired, and which cleared."""
    active, value = False, 0
    for version, change in enumerate(BATCHES, 2):
        value += change
        if active != (value > 2000):
            active = not active
            yield ("fired" if active else "cleared"), version


@pytest.mark.parametrize("seed", [1])
def test_a_service_that_is_killed_again_and_again_tells_each_transition_once(tmp_path, seed):
    with duckdb.connect(str(tmp_path / "homes.duckdb")) as database:
        database.execute("CREATE TABLE homes AS SELECT CAST(0 AS BIGINT) AS saved")
    port, chance = free_port(), random.Random(seed)
    (tmp_path / "chary.toml").write_text(CONFIG.format(port=port))
    store = ServiceStore(tmp_path / "chary-service.db")
    token = BearerTokens(store).make("alice", roles=["analyst", "custodian"], datasets=["*"], days=1)
    store.close()
    children = [started(serving, tmp_path)]

    def killing(session):
        for _ in range(KILLS):
            len(session.versions)  # it listens
            time.sleep(chance.uniform(0, 0.3))
            children[-1].kill()
            children[-1].join()
            children.append(started(serving, tmp_path))

    try:
        with connect(f"http://127.0.0.1:{port}", token, patience=120) as session, session as other:
            asked = Alert(total("saved", bounds=(-1, 1)), above=2000, clear_below=1500, hits=40)
            standing = session.stand(asked, every="append", share="1", request="once")
            killer = threading.Thread(target=killing, args=(other,))
            killer.start()
            for number, change in enumerate(BATCHES):
                session.append(batch(change), request=f"batch {number}")
                time.sleep(0.1)
            killer.join()
            last = len(BATCHES) + 1
            wait_for(lambda: session.standing[0]["version"] == last, 120)
            again = session.stand(asked, every="append", share="1", request="once")
            news, history = session.news, session.history
            assert len(session.runs) == 1
    finally:
        children[-1].kill()
        children[-1].join()
    assert again["standing"] == standing["standing"]
    assert [(each["kind"], each["version"]) for each in news] == list(crossings())
    answered = [entry for entry in history if entry.kind == "alert_ask" and entry.state == "settled"]
    assert len(answered) == len(BATCHES)
    assert {each["call"] for each in news} <= {entry.call for entry in answered}
    # What was killed after it had reserved stays charged, and was asked again.
    assert len(history) - len(answered) - 1 <= KILLS
