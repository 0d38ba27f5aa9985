"""The service's own database on a server: made once, in step for all processes, back when the server is."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace

import pytest

from chary.client.problems import Refusal
from chary.errors import InvalidParameter
from chary.service.auth.rate_limits import SharedRates
from chary.service.auth.tokens import BearerTokens, Principal, Role
from chary.service.config import configured
from chary.service.core.alerts import Feed, News, StandingBook
from chary.service.core.audit_trail import AuditTrail
from chary.service.core.delivery import Delivery
from chary.service.core.jobs import Job, Jobs
from chary.service.core.requests import Wish
from chary.service.store import ServiceStore
from tests.service.kit import wait_for
from tests.service.receivers import posted_to

ALICE = Principal("1f", "alice", frozenset({Role.ANALYST}), frozenset({"*"}))
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"


@pytest.fixture
def stores(postgres):
    """Two processes' databases, which are one; made at the same time."""
    place = postgres.schema().replace("schema=ledger", "schema=store")
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(ServiceStore, [place] * 4))
    yield made[:2]
    for store in made:
        store.close()


def test_entries_of_many_threads_of_two_processes_follow_one_another(stores):
    trails = [AuditTrail(store) for store in stores]
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda n: trails[n % 2].add(ALICE, "visits", "ask", {"n": n}, None), range(40)))
    assert sorted(numbers) == list(range(1, 41))
    assert trails[0].broken() is None


def test_a_token_that_is_revoked_ends_in_every_process(stores):
    first, second = (BearerTokens(store) for store in stores)
    token = first.make("alice", roles=["analyst"], datasets=["*"], days=1)
    assert [each.recognise(token).analyst for each in (first, second)] == ["alice", "alice"]
    assert second.revoke(token.split("_")[1])
    assert [each.recognise(token) for each in (first, second)] == [None, None]


def test_processes_share_a_rate(stores):
    clock = [0.0]
    rates = [SharedRates(store, "token", 1e-3, 40, lambda: clock[0]) for store in stores]
    came = [rates[n % 2].wait("alice") for n in range(60)]
    assert came.count(0) == 40
    assert all(900 < each <= 1000 for each in came if each)
    assert rates[0].wait("bob") == 0
    assert 900 < rates[1].blocked("alice") <= 1000
    assert rates[1].blocked("bob") == 0
    clock[0] += 1.5
    again = SharedRates(stores[0], "token", 1e-3, 40, lambda: clock[0])
    assert again.wait("alice") > 900


def test_processes_whose_clocks_differ_go_by_that_of_the_server(stores, monkeypatch):
    tokens, book, few = BearerTokens(stores[0]), StandingBook(stores[0]), {"threads": 1, "each": 1}
    job = Job("0123456789abcdef", ALICE, SimpleNamespace(name="visits"), Wish("ask", {}), "key")
    token = tokens.make("alice", roles=["analyst"], datasets=["*"], days=1)
    here = Jobs(stores[0], **few)
    here._keep(job)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2 * 86_400)
    ahead, there = BearerTokens(stores[1]), Jobs(stores[1], **few)
    assert ahead.recognise(token).analyst == "alice"
    there.beat()
    assert there.found(job.name, ALICE).state == "running"
    assert abs(book.clock() - now) < 60 > abs(StandingBook(stores[1]).clock() - now)
    here.close(0), there.close(0)


def test_what_a_process_fetched_and_did_not_use_is_gone(stores):
    clock = [0.0]
    rates = SharedRates(stores[0], "token", 1e-3, 40, lambda: clock[0])
    came = []
    for _ in range(30):
        came.append(rates.wait("alice"))
        clock[0] += 2
    assert came.count(0) == 20


def test_a_name_is_held_by_one_process_and_let_go_when_it_is_cut(postgres, stores):
    first, second = stores
    with pytest.raises(Refusal), first.held("rows", 1):  # noqa: SIM117
        with second.held("rows", 0):
            pass
    held, cut = threading.Event(), threading.Event()

    def hold():
        with first.held("rows", 1):
            held.set()
            assert cut.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(30)
    postgres.execute(CUT)
    with second.held("rows", 10):
        cut.set()
    thread.join()


def test_after_the_server_cut_every_connection_it_goes_on(postgres, stores):
    trail, tokens = AuditTrail(stores[0]), BearerTokens(stores[0])
    assert trail.add(ALICE, "visits", "ask", {}, None) == 1
    postgres.execute(CUT)
    for attempt in (lambda: trail.add(ALICE, "visits", "ask", {}, None), lambda: tokens.holder("nobody")):
        wait_for(lambda: succeeded(attempt))  # noqa: B023
    assert [entry.number for entry in trail.entries()] == [1, 2]


def succeeded(attempt):
    """Whether it did; it may fail by being sent away."""
    with suppress(Refusal):
        attempt()
        return True
    return False


@pytest.mark.parametrize(
    "place",
    ["mysql://db/x", "postgresql://db", "postgresql://db/x?schema=pg_x", 'postgresql://db/x?schema="a b"', "a b://"],
)
def test_what_is_no_place_is_refused_before_anything_is_reached(place):
    with pytest.raises(InvalidParameter):
        ServiceStore(place)


def test_a_server_that_is_away_is_a_refusal():
    with pytest.raises(Refusal, match="gone"):
        ServiceStore("postgresql://nobody@127.0.0.1:1/x")


def test_two_processes_send_all_news_once_and_what_clears_after_what_fired(stores, tmp_path):
    (tmp_path / "secret").write_bytes(b"x" * 24)
    with posted_to() as receiver:
        receiver.troubles[:] = [500, 204, 503]
        place = {"url": receiver.url, "secret-file": "secret"}
        said = {"folder": tmp_path, "service": {"webhook": {"ops": place}}, "dataset": {}}
        clock = [stores[0].now()]
        sending = [Delivery(configured(said, "a test"), store, lambda: clock[0]) for store in stores]
        terms = {"every": "append", "share": 1, "tell": "hits", "webhook": "ops"}
        standing = StandingBook(stores[0]).add(ALICE, "visits", Wish("question", {}, 1), 0, **terms)
        for version in range(2, 12):
            Feed(stores[version % 2]).add(standing, News(("fired", "cleared")[version % 2], version, 9, ""))
        with ThreadPoolExecutor(2) as pool:
            while sending[0].waiting()["ops"] != (0, 0):
                list(pool.map(Delivery.tick, sending))
                clock[0] += 600
        assert [json.loads(body)["version"] for _, body in receiver.taken] == list(range(2, 12))
