"""Many clients at once, long calls, and a server that is killed: nothing is lost, nothing is paid twice."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import duckdb
import pytest

import chary
from chary import Budget, BudgetExceeded, count
from chary.answers import NoisyNumber
from chary.calls import Release
from chary.client import connect, connect_async
from chary.client.problems import Refusal
from chary.service.auth.rate_limits import MOST
from chary.service.auth.tokens import BearerTokens
from chary.service.core.requests import Wish
from chary.service.store import ServiceStore
from chary.session import open as open_session
from tests.paths import ROOT
from tests.servers.postgres import free_port
from tests.service.kit import client_of, listening, serve_dataset, serve_visits, service_at, token_of, wait_for
from tests.session.kit import visits

SMALL = Release(count(), epsilon="0.1")


def test_eight_clients_overspend_nothing_and_every_answer_is_in_the_ledger(service, address):
    serve_visits(service, "raced", budget=Budget(epsilon=1))
    tokens = [token_of(service, f"analyst {number % 4}") for number in range(8)]

    def ask(number):
        answers = []
        with connect(address, tokens[number], dataset="raced") as session:
            for time in range(3):
                try:
                    answers.append((number % 4, session.ask(SMALL, request=f"{number}/{time}")))
                except BudgetExceeded:
                    continue
        return answers

    with ThreadPoolExecutor(8) as pool:
        answers = [answer for found in pool.map(ask, range(8)) for answer in found]
    session = service.datasets["raced"].session
    kept = {entry.call: entry for entry in session.history}
    assert len(answers) == len(kept) == 10
    assert session.spent.share == 1
    for analyst, answer in answers:
        assert kept[answer.call].analyst == f"analyst {analyst}"
        assert session.spine.ledger.call(answer.call).state == "settled"
    assert session.spine.ledger.verify().ok


def test_one_key_from_eight_clients_is_one_call(service, address):
    serve_visits(service, "keyed", budget=Budget(epsilon=1))
    token = token_of(service, "alice")

    def ask(_):
        with connect(address, token, dataset="keyed") as session:
            return session.ask(SMALL, request="one")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert len({repr(answer) for answer in answers}) == 1
    assert len(service.datasets["keyed"].session.history) == 1


@pytest.fixture
def slow(service):
    """A dataset whose calls wait until they are let go."""
    go = threading.Event()

    def wait(step):
        if step == "reserved":
            assert go.wait(60)

    session = chary.open(
        visits(), privacy_unit="patient", ledger=":memory:", dataset="slow", budget=Budget(epsilon=9), on_step=wait
    )
    serve_dataset(service, "slow", session)
    served = service.datasets["slow"]
    asked_by = served.asked_by
    object.__setattr__(served, "asked_by", lambda who, on_step=None: asked_by(who, both(wait, on_step)))
    yield go
    go.set()


def both(first, second):
    def told(step):
        if second is not None:
            second(step)
        first(step)

    return told


def test_a_long_call_becomes_a_job_that_tells_its_steps(service, address, http, slow):
    asked = http.post("/v1/datasets/slow/calls", json=SMALL.body(), headers={"Prefer": "respond-async"})
    assert asked.status_code == 202
    place = asked.headers["location"]
    wait_for(lambda: http.get(place).json()["step"] == "reserved")
    assert http.get(place).json()["state"] == "running"
    with client_of(address, token_of(service, "bob")) as other:
        assert other.get(place).status_code == 404
    with http.stream("GET", f"{place}/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: step"
        slow.set()
        last = [line for line in lines if line.startswith("event:")][-1]
    assert last == "event: done"
    result = http.get(place).json()["result"]
    key = asked.headers["idempotency-key"]
    again = http.post("/v1/datasets/slow/calls", json=SMALL.body(), headers={"Idempotency-Key": key})
    assert again.json() == result
    assert len(service.datasets["slow"].session.history) == 1


def test_an_analyst_who_fills_the_queue_is_told_to_wait_and_others_are_not(service, address, http, slow, monkeypatch):
    monkeypatch.setattr(service.jobs._turns, "_each", 6)
    waits = {"Prefer": "respond-async"}
    asked = [http.post("/v1/datasets/slow/calls", json=SMALL.body(), headers=waits) for _ in range(7)]
    assert [each.status_code for each in asked] == [202] * 6 + [429]
    assert asked[-1].headers["retry-after"] == "2"
    assert asked[-1].json()["type"] == "urn:chary:problem:too-many-requests"
    assert "6 calls of this analyst" in asked[-1].json()["detail"]
    with client_of(address, token_of(service, "bob")) as other:
        later = other.post("/v1/datasets/slow/calls", json=SMALL.body(), headers=waits)
    assert later.status_code == 202
    slow.set()
    wait_for(lambda: not service.jobs._running)
    again = http.post("/v1/datasets/slow/calls", json=SMALL.body(), headers={"Prefer": "wait=30"})
    assert again.status_code == 200


def test_what_waits_when_a_service_stops_is_given_back(tmp_path):
    go, service = threading.Event(), service_at(tmp_path, threads=1)
    serve_visits(service)
    service.jobs._run = lambda job: go.wait(60)
    who, served = service.tokens.recognise(token_of(service)), service.datasets["visits"]
    first, second = (service.jobs.start(who, served, Wish("ask", SMALL.body()), str(n)) for n in range(2))
    wait_for(lambda: sum(map(len, service.jobs._turns._waiting.values())) == 1)
    threading.Timer(0.2, go.set).start()
    assert service.close() == 0
    assert first.future.result() is True
    with pytest.raises(Refusal, match="the service stops"):
        second.future.result()
    with pytest.raises(Refusal, match="the service stops"):
        service.jobs.start(who, served, Wish("ask", SMALL.body()), "late")


def test_a_client_waits_for_a_job_and_hears_its_steps(service, address, slow, monkeypatch):
    monkeypatch.setattr("chary.client.transport._WAIT", 0)
    heard = []
    threading.Timer(1.0, slow.set).start()
    with connect(address, token_of(service), dataset="slow", on_step=heard.append) as session:
        assert session.ask(SMALL).charged.share > 0
    assert heard[-1] in ("reserved", "evaluated", "ran", "settled")


def test_a_refusal_within_a_job_is_the_error_of_a_session(service, address, slow, monkeypatch):
    slow.set()
    monkeypatch.setattr("chary.client.transport._WAIT", 0)
    with (
        connect(address, token_of(service), dataset="slow") as session,
        pytest.raises(BudgetExceeded, match="would fit"),
    ):
        session.ask(Release(count(), epsilon=100))


def test_the_budget_is_told_as_it_changes(service, address, http):
    serve_visits(service, "live", budget=Budget(epsilon=1))
    with http.stream("GET", "/v1/datasets/live/budget/events") as stream:
        told = (json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: "))
        assert next(told) == {"spent": 0.0, "left": 1.0, "free_misses_ended": False}
        with connect(address, token_of(service), dataset="live") as session:
            session.ask(SMALL)
        assert next(told)["spent"] == pytest.approx(0.1)


def test_streams_end_with_their_token_and_are_so_many_for_each(service, address):
    place = "/v1/datasets/visits/budget/events"
    token = token_of(service, "zed")
    with client_of(address, token) as client, ExitStack() as followed:
        streams = [followed.enter_context(client.stream("GET", place)) for _ in range(MOST)]
        assert {each.status_code for each in streams} == {200}
        assert client.get(place).status_code == 429
        service.tokens.revoke(token.split("_")[1])
        for each in streams:
            each.read()
    wait_for(lambda: not service.streams._open)
    with client_of(address, token_of(service, "zed")) as client, client.stream("GET", place) as again:
        assert again.status_code == 200


def test_a_job_is_not_told_to_a_token_for_another_dataset(service, address, http, slow):
    place = http.post("/v1/datasets/slow/calls", json=SMALL.body(), headers={"Prefer": "respond-async"}).headers[
        "location"
    ]
    try:
        with client_of(address, token_of(service, datasets=["visits"])) as other:
            assert other.get(place).status_code == other.get(f"{place}/events").status_code == 404
    finally:
        slow.set()


def test_the_asynchronous_client_asks_many_at_once(service, address):
    serve_visits(service, "awaited", budget=Budget(epsilon=1))

    async def ask():
        async with await connect_async(address, token_of(service), dataset="awaited") as session:
            answers = await asyncio.gather(*(session.ask(SMALL, request=str(number)) for number in range(3)))
            return answers, await session.history(), await session.remaining(), await session.quote(SMALL)

    answers, history, left, quoted = asyncio.run(ask())
    assert {answer.call for answer in answers} == {entry.call for entry in history}
    assert left.share == pytest.approx(0.7)
    assert quoted == service.datasets["awaited"].asked_by("alice").quote(SMALL)


def test_the_asynchronous_client_has_the_verbs_of_a_session(service, address):
    async def ask():
        async with await connect_async(address, token_of(service), dataset="visits") as session:
            return await session.test(count(), above=10**9, epsilon="0.01"), await session.release(
                count(), epsilon="0.01"
            )

    tested, released = asyncio.run(ask())
    assert tested is False
    assert isinstance(released, NoisyNumber)


CONFIG = """
[service]
port = {port}

[dataset.visits]
file = "visits.parquet"
unit = "patient"
budget-epsilon = 2
"""


def test_a_server_that_is_killed_loses_nothing_and_pays_nothing_twice(tmp_path):
    visits().to_parquet(tmp_path / "visits.parquet")
    port = free_port()
    (tmp_path / "chary.toml").write_text(CONFIG.format(port=port))
    token = BearerTokens(ServiceStore(tmp_path / "chary-service.db")).make(
        "alice", roles=["analyst"], datasets=["*"], days=1
    )
    with started(tmp_path) as server, connect(f"http://127.0.0.1:{port}", token, patience=240) as session:
        asking = ThreadPoolExecutor(4)
        found = [asking.submit(session.ask, SMALL, request=f"key {number}") for number in range(12)]
        wait_for(lambda: sum(each.done() for each in found) >= 3, 120)
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
        with started(tmp_path):
            answers = [each.result(timeout=240) for each in found]
            again = [session.ask(SMALL, request=f"key {number}") for number in range(12)]
            history = session.history
        asking.shutdown()
    assert answers == again
    settled = [entry for entry in history if entry.state == "settled"]
    assert sorted(entry.call for entry in settled) == sorted(answer.call for answer in answers)
    # A call that was killed after it had reserved stays charged, as in a session: at most one for each thread.
    assert len(history) - len(settled) <= 4
    with open_session(
        tmp_path / "visits.parquet", privacy_unit="patient", ledger=tmp_path / "visits.parquet.ledger"
    ) as kept:
        assert kept.spine.ledger.verify().ok
        assert kept.spent.share == pytest.approx(0.05 * len(history))


GROWING = """
[service]
port = {port}
rows-bytes = 3000000
body-seconds = 60

[dataset.loads]
file = "loads.duckdb"
table = "loads"
unit = "home"
budget-epsilon = 1
"""


def test_a_file_is_sent_whole_and_added_once_whenever_a_server_is_killed(tmp_path):
    with duckdb.connect(str(tmp_path / "loads.duckdb")) as made:
        made.execute("CREATE TABLE loads AS SELECT i AS home, 1.5 AS kwh FROM range(10) t(i)")
    port, rows = free_port(), 100_000
    (tmp_path / "chary.toml").write_text(GROWING.format(port=port))
    with closing(ServiceStore(tmp_path / "chary-service.db")) as store:
        token = BearerTokens(store).make("carol", roles=["custodian"], datasets=["*"], days=1)
    week, longer = tmp_path / "week.csv", tmp_path / "longer.csv"
    week.write_text("home,kwh\n" + "".join(f"{home},2.25\n" for home in range(rows)))
    longer.write_text(week.read_text() + "7,1.5\n" * 500_000)
    with ExitStack() as opened:
        with started(tmp_path) as server:
            keeper = opened.enter_context(connect(f"http://127.0.0.1:{port}", token, patience=240))
            # One that is larger than may be sent is refused at once, and not sent again and again.
            with pytest.raises(Refusal, match="larger than 3000000 bytes"):
                keeper.append(longer)
            sending = ThreadPoolExecutor(1).submit(keeper.append, week)
            time.sleep(0.2)
            os.kill(server.pid, signal.SIGKILL)
            server.wait()
        with started(tmp_path):
            assert sending.result(timeout=240) == keeper.append(week) == 1
    with duckdb.connect(str(tmp_path / "loads.duckdb"), read_only=True) as kept:
        assert kept.execute("SELECT count(*) FROM loads").fetchone() == (rows + 10,)


def test_several_processes_share_one_budget(tmp_path):
    visits().to_parquet(tmp_path / "visits.parquet")
    port = free_port()
    (tmp_path / "chary.toml").write_text(CONFIG.format(port=port))
    store = ServiceStore(tmp_path / "chary-service.db")
    token = BearerTokens(store).make("alice", roles=["analyst", "custodian"], datasets=["*"], days=1)
    store.close()

    def ask(number):
        with connect(f"http://127.0.0.1:{port}", token, patience=240) as session:
            try:
                return number, session.ask(Release(count(), epsilon="0.4"), request=f"key {number}")
            except BudgetExceeded:
                return None

    with started(tmp_path, "--workers", "2") as server, ThreadPoolExecutor(8) as pool:
        answers = [answer for answer in pool.map(ask, range(8)) if answer is not None]
        with connect(f"http://127.0.0.1:{port}", token, patience=240) as session:
            assert len(session.history) == len(answers) == 5
            assert session.spent.share == pytest.approx(1)
            with pytest.raises(chary.CharyError, match="share no rows"):
                session.append(visits())
            workers = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
            os.kill(int(workers[-1]), signal.SIGKILL)
            assert session.ask(Release(count(), epsilon="0.4"), request=f"key {answers[0][0]}") == answers[0][1]
        with client_of(f"http://127.0.0.1:{port}", token) as keeper:
            told = keeper.get("/metrics").text
        # Those of both processes, and of the one that was killed.
        assert 'chary_calls_total{dataset="visits",kind="release"} ' in told
        assert float(told.split('kind="release"} ')[1].split()[0]) >= 9
        server.terminate()
        assert server.wait(120) == 0


def test_a_server_that_is_asked_to_stop_ends_what_it_began(tmp_path):
    service = service_at(tmp_path)
    serve_visits(service)
    with listening(service) as address, client_of(address, token_of(service)) as client:
        assert client.post("/v1/datasets/visits/calls", json=SMALL.body()).status_code == 200
    assert service.jobs.close(1) == 0
    with pytest.raises(chary.CharyError):
        service.datasets["visits"].session.history  # noqa: B018


def started(folder, *options):
    """A server of its own process."""
    command = [sys.executable, "-m", "chary", "serve", "--quiet", "--config", str(folder / "chary.toml"), *options]
    source = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return Killed(command, cwd=folder, env=os.environ | {"PYTHONPATH": source}, stdout=subprocess.PIPE, text=True)


class Killed(subprocess.Popen):
    """A process that is killed at the end of its block."""

    def __exit__(self, *raised):
        self.kill()
        super().__exit__(*raised)
