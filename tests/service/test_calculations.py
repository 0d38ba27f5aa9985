"""Quotes that would never end: cut off in time, in turn with others, and no process outlives its end for them."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

import chary.session.session
from chary.client.problems import Refusal
from chary.service.auth.tokens import BearerTokens
from chary.service.core.calculations import Deadlines
from chary.service.pages.fields import PREFIX
from chary.service.store import ServiceStore
from tests.paths import ROOT
from tests.service.kit import bearing, client_of, listening, serve_visits, service_at, token_of, wait_for
from tests.service.page_kit import Visitor
from tests.service.test_service_races import free_port
from tests.session.kit import visits

QUOTES = "/v1/datasets/visits/quotes"
FIELDS = {"query.kind": "count", "above": "500", "epsilon": "0.1"}
TEST = {"kind": "test", "query": {"kind": "count"}, "above": 500, "epsilon": "0.1"}


def endless(*_, **__):
    """A calculation that never ends, whatever is raised and caught within it."""
    while True:
        try:
            sum(range(1000))
        except Exception:
            continue


def never():
    return False


def test_what_never_ends_is_cut_off():
    with pytest.raises(Refusal, match="takes longer than") as refused:
        Deadlines(never).within(0.1, endless)
    assert refused.value.status == 503


def test_what_ends_in_time_is_returned_and_its_errors_are_its_own():
    deadlines = Deadlines(never)
    assert [deadlines.within(60, lambda each=each: each) for each in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError):
        deadlines.within(60, lambda: {}["x"])


TRACED = """
import sys
from chary.service.core.calculations import Deadlines
from chary.client.problems import Refusal
from tests.service.test_calculations import endless, never

def trace(frame, event, _):
    frame.f_trace_opcodes = True
    return trace

for seconds, work in ((60, int), (0.1, endless)):
    try:
        Deadlines(never).within(seconds, work)
    except Refusal:
        pass
    sys.settrace(trace)
    sum(each for each in range(10))
    sys.settrace(None)
"""


def test_a_thread_is_left_as_it_was():
    """An interpreter that still looks for what is to be raised gets no further where its calls are traced."""
    subprocess.run([sys.executable, "-c", TRACED], cwd=ROOT, timeout=300, check=True)


def test_each_thread_is_cut_off_by_itself_and_goes_on_to_work():
    deadlines = Deadlines(never)

    def cut():
        with pytest.raises(Refusal):
            deadlines.within(0.1, endless)
        return deadlines.within(60, lambda: sum(range(10**6)))

    with ThreadPoolExecutor(4) as pool:
        assert {future.result() for future in [pool.submit(cut) for _ in range(12)]} == {sum(range(10**6))}


def test_what_waits_for_a_lock_is_left_whole():
    deadlines, lock, told = Deadlines(never), threading.Condition(), []

    def work():
        with lock:
            lock.wait(0.5)
        told.append("left")
        endless()

    with pytest.raises(Refusal):
        deadlines.within(0.1, work)
    assert told == ["left"]
    assert lock.acquire(timeout=0)


def test_when_the_service_stops_calculations_have_two_seconds():
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(Refusal):
        Deadlines(stopping.is_set).within(3600, endless)


@pytest.fixture
def made(tmp_path):
    """Services with a dataset; what is open in the end is closed."""
    found = []

    def make(**options):
        found.append(service_at(tmp_path, **options))
        serve_visits(found[-1])
        return found[-1]

    yield make
    for service in found:
        service.close()


def is_late(response):
    assert response.status_code == 503
    assert "takes longer than" in response.json()["detail"]
    assert "Retry-After" in response.headers
    return True


def test_quotes_of_any_kind_are_cut_off(made, monkeypatch):
    service = made(**{"quote-seconds": 0.2})
    opening = {"kind": "sparse_vector", "above": 500, "hits": 2, "epsilon": "0.1"}
    with listening(service) as address, client_of(address, token_of(service)) as http:
        run = http.post("/v1/datasets/visits/runs", json=opening).json()["run"]
        monkeypatch.setattr(chary.session.session, "quote", endless)
        monkeypatch.setattr("chary.calls.run.quote", endless)
        place = "/v1/datasets/visits"
        assert is_late(http.post(QUOTES, json={"call": TEST}))
        assert is_late(http.post(f"{place}/runs/{run}/quotes", json={"query": {"kind": "count"}}))
        assert is_late(http.post(f"{place}/standing", json={"call": TEST, "every": "append", "share": 1}))
        assert http.get("/health").status_code == 200
        visitor = Visitor(address, token_of(service))
        form = {f"{PREFIX}{name}": text for name, text in FIELDS.items()} | {"kind": "test"}
        for do, path in (("quote", "ask"), ("compare", "ask"), ("quote", "ask/quote")):
            told = visitor.post(f"/page/datasets/visits/{path}", **form, do=do)
            assert "takes longer than" in told.text
        visitor.http.close()


def test_what_is_written_down_of_a_standing_question_is_never_cut_off(made, monkeypatch):
    service, under_way = made(), []
    written = service.trail.add

    def watched(*told):
        under_way.append(len(service.calculations.deadlines._running))
        return written(*told)

    monkeypatch.setattr(service.trail, "add", watched)
    with listening(service) as address, client_of(address, token_of(service)) as http:
        said = http.post("/v1/datasets/visits/standing", json={"call": TEST, "every": "append", "share": 1})
        assert said.status_code == 201
    assert under_way == [0]


def test_of_quotes_too_each_analyst_has_a_turn_and_none_too_many(made, monkeypatch):
    service, free = made(**{"threads": 1, "calls-each": 2}), threading.Event()
    monkeypatch.setattr(chary.session.session, "quote", lambda *_: free.wait(60) and 1 / 0)
    with (
        listening(service) as address,
        client_of(address, token_of(service)) as http,
        client_of(address, token_of(service, "bob")) as other,
        ThreadPoolExecutor(4) as pool,
    ):
        waiting = [pool.submit(http.post, QUOTES, json={"call": TEST}) for _ in range(2)]
        wait_for(lambda: service.calculations._turns._there.total() == 2)
        refused = http.post(QUOTES, json={"call": TEST})
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "2")
        waiting.append(pool.submit(other.post, QUOTES, json={"call": TEST}))
        wait_for(lambda: service.calculations._turns._there.total() == 3)
        free.set()
        assert [each.result().status_code for each in waiting] == [500] * 3


CHILD = """
import pathlib, sys
import chary.session.session
from tests.service.test_calculations import endless

def quote(*_, **__):
    pathlib.Path(sys.argv[2]).touch()
    endless()

chary.session.session.quote = quote
from chary.cli import run
sys.exit(run(["serve", "--config", sys.argv[1], "--quiet"]))
"""
CONFIG = """
[service]
port = {port}
store = "service.db"
quote-seconds = {seconds}
stop-seconds = 5

[dataset.visits]
file = "visits.csv"
unit = "patient"
columns = {{}}
budget-epsilon = 1
"""


@pytest.fixture
def process(tmp_path):
    """A service in a process of its own, all of whose quotes are endless: the process, and a client."""
    begun = []

    def begin(seconds):
        visits().to_csv(tmp_path / "visits.csv", index=False)
        port = free_port()
        (tmp_path / "chary.toml").write_text(CONFIG.format(port=port, seconds=seconds))
        store = ServiceStore(tmp_path / "service.db")
        token = BearerTokens(store).make("alice", roles=["analyst"], datasets=["*"], days=1)
        store.close()
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        line = [sys.executable, "-c", CHILD, str(tmp_path / "chary.toml"), str(tmp_path / "begun")]
        child = subprocess.Popen(line, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.DEVNULL)
        begun.append((child, httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=bearing(token), timeout=120)))
        wait_for(lambda: answers(begun[-1][1]), 120)
        return begun[-1]

    yield begin
    for child, http in begun:
        http.close()
        child.kill()
        child.wait()


def answers(http):
    try:
        return http.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def test_a_process_is_well_while_a_quote_never_ends_and_cuts_it_off(process, tmp_path):
    _, http = process(3)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(http.post, QUOTES, json={"call": TEST})
        wait_for((tmp_path / "begun").exists, 120)
        assert http.get("/health").status_code == 200
        assert is_late(waiting.result())
    assert http.get("/v1/datasets/visits/schema").status_code == 200


def test_a_process_whose_quotes_never_end_ends_when_it_is_asked_to(process, tmp_path):
    child, http = process(100_000)
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(http.post, QUOTES, json={"call": TEST}) for _ in range(8)]
        wait_for((tmp_path / "begun").exists, 120)
        time.sleep(0.2)
        child.send_signal(signal.SIGTERM)
        assert child.wait(120) == 0
        for each in waiting:
            error = each.exception()
            assert isinstance(error, httpx.TransportError) or each.result().status_code == 503
