"""Several processes on one server of PostgreSQL: ledger, rows and the service's own database are shared by them.

Processes are killed, and every connection to the server is cut, while clients ask; what they were told is compared with
the ledger afterwards.
"""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pyarrow as pa
import pytest

from chary import BudgetExceeded, count
from chary.calls import Release, ThresholdTest
from chary.client import connect
from chary.ledger import open_ledger
from chary.service.auth.tokens import BearerTokens
from chary.service.store import ServiceStore
from tests.children import Python
from tests.servers.postgres import running
from tests.servers.stored import stored
from tests.service.kit import client_of, wait_for
from tests.service.test_service_races import free_port
from tests.session.kit import visits

SMALL = Release(count(), epsilon="0.02")
ALWAYS = ThresholdTest(count(), above=-(10**9), epsilon="0.01")
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
CONFIG = """
[service]
port = {port}
rate = 100000
burst = 100000
stop-seconds = 5
store = "{server}schema=store"
ledger = "{server}schema=ledger"

[dataset.visits]
file = "{server}"
table = "public.visits"
unit = "patient"
budget-epsilon = 2
shares = {{bob = "0.1"}}
"""


def of_a_server():
    """The visits with texts of the usual size."""
    return pa.Table.from_pandas(visits().drop(columns=["clinic", "note"]), preserve_index=False)


class Machine:
    """A service in a process of its own."""

    def __init__(self, folder, server):
        self.port = free_port()
        self.toml = folder / f"{self.port}.toml"
        self.toml.write_text(CONFIG.format(port=self.port, server=server.url() + "&"))
        self.address = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        self.process = Python("-m", "chary", "serve", "--quiet", "--config", self.toml)
        self.await_ready()

    def await_ready(self):
        wait_for(self.ready, 240)

    def ready(self):
        assert self.process.returncode is None, self.process.communicate()
        try:
            return httpx.get(f"{self.address}/ready", timeout=30).status_code == 200
        except httpx.TransportError:
            return False

    def signalled(self, number):
        os.kill(self.process._process.pid, number)
        return self.process.communicate(60)


@pytest.fixture(scope="module")
def server():
    with running() as found:
        stored(found, of_a_server(), name="visits")
        yield found


@pytest.fixture(scope="module")
def machines(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("machines")
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: Machine(folder, server), range(2)))
    yield made
    for each in made:
        if each.process.returncode is None:
            each.process.kill()
            each.process.communicate()


@pytest.fixture(scope="module")
def tokens(server, machines):
    store = ServiceStore(f"{server.url()}&schema=store")
    roles = {"alice": ["analyst"], "bob": ["analyst"], "carol": ["custodian"]}
    yield {name: BearerTokens(store).make(name, roles=each, datasets=["*"], days=1) for name, each in roles.items()}
    store.close()


@contextmanager
def clients(machines, token):
    with ExitStack() as opened:
        yield [opened.enter_context(connect(each.address, token, patience=240)) for each in machines]


def test_a_process_is_killed_and_the_database_cut_and_nothing_is_lost_or_paid_twice(server, machines, tokens):
    def ask(number):
        session = sessions[number % 2]
        found = session.ask(SMALL, request=f"key {number}")
        if number in (9, 17):
            server.execute(CUT)
        if number == 13:
            machines[0].signalled(signal.SIGKILL)
            machines[0].start()
        return found

    with clients(machines, tokens["alice"]) as sessions:
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(ask, range(24)))
        for session in sessions:
            assert [session.ask(SMALL, request=f"key {number}") for number in range(24)] == answers
            assert session.spent.share == pytest.approx(0.01 * len(session.history))
        history = sessions[1].history
    settled = [entry.call for entry in history if entry.state == "settled"]
    assert sorted(settled) == sorted(answer.call for answer in answers)
    # What was killed or cut after it had reserved stays charged: at most what ran in each process, each time.
    assert len(history) - len(settled) <= 3 * 2 * 4
    ledger = open_ledger(f"{server.url()}&schema=ledger")
    assert ledger.verify().ok
    ledger.close()


def test_a_cap_holds_over_all_processes(machines, tokens):
    def ask(number):
        try:
            return sessions[number % 2].ask(SMALL, request=f"bob {number}")
        except BudgetExceeded:
            return None

    with clients(machines, tokens["bob"]) as sessions, ThreadPoolExecutor(6) as pool:
        answers = [found for found in pool.map(ask, range(14)) if found is not None]
        assert len(answers) == 10
        assert [len(session.history) for session in sessions] == [10, 10]


def test_rows_that_one_process_appends_are_there_for_all_and_a_standing_question_is_asked_once(machines, tokens):
    rows = of_a_server().slice(0, 1)
    with clients(machines, tokens["alice"]) as alice, clients(machines, tokens["carol"]) as carol:
        before = len(carol[0].versions)
        standing = alice[0].stand(ALWAYS, every="append", share="0.5")
        with ThreadPoolExecutor(2) as pool:
            appended = list(pool.map(lambda each: each.append(rows, request="once"), carol))
        assert set(appended) == {before + 1}
        assert carol[1].append(rows) == before + 2
        assert [len(each.versions) for each in carol] == [len(carol[0].versions)] * 2
        wait_for(lambda: alice[1].news and alice[1].news[-1]["version"] == before + 2, 60)
        told = [(each["kind"], each["version"]) for each in alice[1].news]
        asked = [entry for entry in alice[0].history if entry.kind == "test"]
        assert alice[0].news == alice[1].news
        # Asked about each version once, or, where the next followed at once, skipped with news of it.
        last = ("hit", before + 2)
        assert told in ([("hit", before + 1), last], [("skipped", before + 1), last])
        assert len(asked) == [kind for kind, _ in told].count("hit")
        assert alice[1].end(standing["standing"]) is None
        assert alice[0].standing[0]["state"] == "ended"


def test_a_job_of_one_process_is_told_by_another(machines, tokens):
    with (
        client_of(machines[0].address, tokens["alice"]) as here,
        client_of(machines[1].address, tokens["alice"]) as there,
    ):
        asked = here.post("/v1/datasets/visits/calls", json=SMALL.body(), headers={"Prefer": "respond-async"})
        place = asked.headers["location"]
        wait_for(lambda: there.get(place).json()["state"] == "done", 60)
        assert there.get(place).json()["result"] == here.get(place).json()["result"]
        with there.stream("GET", f"{place}/events") as stream:
            assert next(stream.iter_lines()) == "event: done"


def test_the_live_budget_of_one_process_shows_what_another_charged(machines, tokens):
    with (
        client_of(machines[1].address, tokens["alice"]) as there,
        there.stream("GET", "/v1/datasets/visits/budget/events") as stream,
        connect(machines[0].address, tokens["alice"]) as session,
    ):
        told = (json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: "))
        before = next(told)["spent"]
        session.ask(SMALL)
        assert next(told)["spent"] == pytest.approx(before + 0.01)


def test_a_process_that_is_asked_to_stop_during_calls_ends_well(server, machines, tokens):
    """The last test of these processes: calls are settled, or their reservations are kept, and it leaves with 0."""
    found = []

    def ask(number):
        body, key = SMALL.body(), f"stopped {number}"
        with client_of(machines[0].address, tokens["alice"]) as http:
            response = http.post("/v1/datasets/visits/calls", json=body, headers={"Idempotency-Key": key})
            found.append(response.status_code)
            return response

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, number) for number in range(40)]
        wait_for(lambda: len(found) >= 4)
        said, errors = machines[0].signalled(signal.SIGTERM)
    assert machines[0].process.returncode == 0, errors
    answered = [each.result() for each in asked if each.exception() is None]
    assert {each.status_code for each in answered} <= {200, 202, 503}
    assert "Traceback" not in errors
    assert tokens["alice"] not in said + errors
    kept = open_ledger(f"{server.url()}&schema=ledger")
    states = {record.number: record.state for record in kept.calls("visits")}
    assert kept.verify().ok
    kept.close()
    for each in answered:
        if each.status_code == 200:
            assert states[each.json()["call"]] == "settled"
    with connect(machines[1].address, tokens["alice"], patience=60) as session:
        again = [session.ask(SMALL, request=f"stopped {number}") for number in range(5)]
        assert {each.call for each in again} <= {entry.call for entry in session.history}
