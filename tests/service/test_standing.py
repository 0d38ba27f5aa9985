"""Standing questions: once about each version, within their share, told once, through restarts and kills."""

import asyncio
import base64
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from fractions import Fraction

import duckdb
import pandas as pd
import pytest

import chary
from chary import Budget, count
from chary.calls import PMW, GrowingTests, Release, SparseVector, ThresholdTest
from chary.client import check_webhook, connect
from chary.client.webhooks import signed
from chary.core import transaction as spine
from chary.errors import BudgetExceeded, CharyError, EngineError, InvalidParameter
from chary.noise import Seeded
from chary.service.api.alerts import stood
from chary.service.core import alerts, scheduler
from chary.service.core.alerts import StandingBook
from chary.service.core.datasets import ServedDatasets
from chary.service.core.delivery import Delivery
from chary.service.core.requests import Wish
from chary.service.core.scheduler import StandingRunner, lasting
from chary.service.http.admission import Asking
from chary.service.store import ServiceStore
from tests.service.kit import (
    UNPRICED,
    client_of,
    listening,
    serve_dataset,
    serve_visits,
    service_at,
    token_of,
    wait_for,
)
from tests.service.receivers import posted_to
from tests.session.kit import PUBLIC, visits

ALWAYS = ThresholdTest(count(), above=-(10**9), epsilon="0.01")
NEVER = ThresholdTest(count(), above=10**9, epsilon="0.01")
MONDAY = 4 * 86_400.0  # the first one after 1970 began
WEEK = 7 * 86_400.0
SECRET = b"a secret of more than twenty-four bytes"


@pytest.fixture
def made(tmp_path):
    """A service without a server, whose clock stands and whose noise is known, and how to ask it."""
    service = service_at(tmp_path)
    serve_visits(service, **PUBLIC, budget=Budget(epsilon=1, delta=1e-6), unsafe_noise=Seeded(6))
    clock = [service.standing.book.clock()]
    service.standing.book.clock = lambda: clock[0]
    yield service, clock
    service.jobs.close(5)
    service.datasets.close()
    service.store.close()


def stand(service, call=ALWAYS, **said):
    """A subscription of alice's."""
    return standing_of(service, Wish("ask", call.body()), **said)


def stand_at(service, run, question, **said):
    """A subscription of alice's to a run of hers."""
    return standing_of(service, Wish("question", question, run.call), **said)


def standing_of(service, wish, share=1, tell="hits", every="append", webhook=None, roles=("analyst",)):
    who = service.tokens.recognise(token_of(service, "alice", roles))
    terms = {"every": every, "share": share, "tell": tell, "webhook": webhook}
    return service.standing.stand(service.datasets["visits"], who, wish, UNPRICED, **terms)


def failing(monkeypatch):
    """Nothing can be read any more."""

    def fails(*_):
        raise EngineError("the engine failed")

    monkeypatch.setattr("chary.core.transaction.read_one_version", fails)


@contextmanager
def meeting(tmp_path, **roles):
    """A service that listens, and a session over HTTP for each of these people."""
    service = service_at(tmp_path)
    serve_visits(service, **PUBLIC)
    with ExitStack() as open_, listening(service) as address:
        yield (
            service,
            *(open_.enter_context(connect(address, token_of(service, name, [role]))) for name, role in roles.items()),
        )


def grow(service):
    """One more row, and what is asked then."""
    service.datasets["visits"].session.append(visits().head(1))
    return service.standing.tick()


def news(service):
    return [(each["kind"], each["version"]) for each in service.standing.feed.since("visits")]


def asked(service):
    return [entry for entry in service.datasets["visits"].session.history if entry.analyst == "alice"]


@pytest.mark.parametrize(("every", "before"), [("append", []), ("* * * * *", [0])])
def test_the_first_batch_is_one_also_where_sizes_are_secret(tmp_path, every, before):
    service = service_at(tmp_path)
    serve_visits(service)
    stand(service, tell="all", every=every)
    clock = [service.standing.book.clock()]
    service.standing.book.clock = lambda: clock[0]
    for _ in range(2):
        clock[0] += 60
        service.standing.tick()
    assert [version for _, version in news(service)] == before
    grow(service)
    clock[0] += 60
    service.standing.tick()
    assert [version for _, version in news(service)] == [*before, 1]
    service.jobs.close(5)
    service.datasets.close()
    service.store.close()


def test_it_is_asked_once_about_each_version(made):
    service, _ = made
    standing = stand(service)
    assert service.standing.tick() == 0
    assert [grow(service), service.standing.tick(), grow(service)] == [1, 0, 1]
    assert news(service) == [("hit", 2), ("hit", 3)]
    now = service.standing.book.found(standing.standing)
    assert (now.version, now.hits, now.runs) == (3, 2, 2)
    assert now.charged == pytest.approx(service.datasets["visits"].session.spent.share)
    assert [each["call"] for each in service.standing.feed.since("visits")] == [entry.call for entry in asked(service)]


def test_the_first_rows_that_are_added_count_where_the_size_is_secret(tmp_path):
    service = service_at(tmp_path)
    serve_visits(service)
    stand(service)
    stand(service, every="* * * * *")
    service.standing.book.clock = lambda: 2e9
    assert [service.standing.tick(), grow(service), service.standing.tick()] == [1, 1, 0]
    assert news(service) == [("hit", 0), ("hit", 1)]
    service.datasets.close(), service.store.close(), service.jobs.close(1)


def test_rows_wait_while_it_is_asked(made, monkeypatch):
    service, _ = made
    held = []
    monkeypatch.setattr(StandingRunner, "_ask", lambda *_: held.append(service.datasets["visits"].growing.locked()))
    stand(service)
    grow(service)
    assert held == [True]
    assert not service.datasets["visits"].growing.locked()


def test_a_time_that_never_comes_and_more_than_are_looked_at_are_refused(made, monkeypatch):
    service, _ = made
    with pytest.raises(InvalidParameter, match="never comes"):
        stand(service, every="0 0 31 2 *")
    monkeypatch.setattr("chary.service.core.alerts.MOST", 2)
    standing = [stand(service) for _ in range(2)]
    with pytest.raises(InvalidParameter, match="at most 2"):
        stand(service)
    service.standing.book.keep(standing[0].standing, state="ended")
    stand(service)


def test_news_of_others_make_no_pages(made):
    service, _ = made
    bob = service.tokens.recognise(token_of(service, "bob"))
    terms = {"every": "append", "share": 1, "tell": "hits", "webhook": None}
    service.standing.stand(service.datasets["visits"], bob, Wish("ask", ALWAYS.body()), UNPRICED, **terms)
    grow(service)
    with listening(service) as address, client_of(address, token_of(service)) as alice:
        told = alice.get("/v1/datasets/visits/feed", params={"limit": 1})
    assert told.json() == {"items": [], "next": None}


def test_misses_are_told_only_where_all_is(made):
    service, _ = made
    stand(service, NEVER)
    stand(service, NEVER, tell="all")
    assert grow(service) == 2
    assert news(service) == [("answer", 2)]


def test_two_processes_ask_once(made):
    service, _ = made
    stand(service, Release(count(), epsilon="0.01"))
    service.datasets["visits"].session.append(visits().head(1))
    runners = [
        StandingRunner(
            service.datasets,
            service.tokens,
            StandingBook(service.store),
            service.standing.feed,
            service.jobs.answers,
            service.calculations,
        )
        for _ in range(4)
    ]
    threads = [threading.Thread(target=runner.tick) for runner in runners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked(service)) == 1
    assert news(service) == [("hit", 2)]


def test_what_was_killed_before_it_was_written_down_is_free_and_told_once(made, monkeypatch):
    service, clock = made
    standing = stand(service)

    def killed(*_, **changed):
        raise SystemExit

    monkeypatch.setattr(service.standing.book, "keep", killed)
    with pytest.raises(SystemExit):
        grow(service)
    monkeypatch.undo()
    spent = service.datasets["visits"].session.spent
    service.standing.book.clock = lambda: clock[0]
    assert service.standing.tick() == 0  # whoever was killed may live
    clock[0] += 301
    assert service.standing.tick() == 1
    assert service.datasets["visits"].session.spent == spent
    assert news(service) == [("hit", 2)]
    assert service.standing.book.found(standing.standing).runs == 1


def test_a_restart_goes_on(tmp_path):
    file, ledger = tmp_path / "visits.duckdb", tmp_path / "visits.ledger"
    store_visits(file)
    options = {"table": "visits", **PUBLIC, "ledger": ledger, "budget": Budget(epsilon=1, delta=1e-6)}
    first = service_at(tmp_path)
    serve_dataset(first, "visits", chary.open(str(file), **options))
    stand(first)
    assert grow(first) == 1
    first.datasets["visits"].session.append(visits().head(1))
    first.datasets.close(), first.store.close(), first.jobs.close(1)
    again = service_at(tmp_path)
    serve_dataset(again, "visits", chary.open(str(file), **options))
    assert [again.standing.tick(), again.standing.tick()] == [1, 0]
    assert news(again) == [("hit", 2), ("hit", 3)]
    again.datasets.close(), again.store.close(), again.jobs.close(1)


def store_visits(file):
    rows = visits()
    with duckdb.connect(str(file)) as database:
        database.register("given", rows)
        database.execute("CREATE TABLE visits AS SELECT * FROM given")


def test_a_question_of_mondays_is_asked_then_if_the_rows_are_new(made):
    service, clock = made
    clock[0] = MONDAY - 3_600
    standing = stand(service, every="0 6 * * mon")
    assert service.standing.tick() == 0
    clock[0] = MONDAY + 6 * 3_600
    assert [service.standing.tick(), service.standing.tick()] == [1, 0]
    clock[0] += WEEK
    assert service.standing.tick() == 0  # nothing is new
    assert grow(service) == 0  # it is Monday no more
    clock[0] += WEEK
    assert service.standing.tick() == 1
    clock[0] += 86_400
    assert grow(service) == 0
    clock[0] += 2 * WEEK
    assert service.standing.tick() == 1
    assert service.standing.book.found(standing.standing).runs == 3


def test_it_takes_no_more_than_its_share(made):
    service, _ = made
    price = service.datasets["visits"].session.quote(ALWAYS).most_charged
    standing = stand(service, share=str(2.5 * price))
    assert [grow(service) for _ in range(4)] == [1, 1, 1, 0]
    assert news(service) == [("hit", 2), ("hit", 3), ("ended", 4)]
    now = service.standing.book.found(standing.standing)
    assert now.state == "ended"
    assert now.charged == pytest.approx(2 * price)


def test_once_free_misses_have_ended_misses_are_of_its_share_too(made):
    service, _ = made
    served = service.datasets["visits"]
    standing = stand(service, NEVER, share="0.035", tell="all")
    assert grow(service) == 1
    served.session.release(count(), epsilon="0.6")
    served.session.release(count(), epsilon="0.2")
    assert served.session.spine.accounts().alone
    # The miss before added an epsilon of 0.01, as each one does: a fourth would be 0.04.
    assert [grow(service) for _ in range(4)] == [1, 1, 1, 0]
    now = service.standing.book.found(standing.standing)
    assert (now.state, now.charged) == ("ended", pytest.approx(0.03))
    assert [kind for kind, _ in news(service)] == ["answer", "answer", "answer", "ended"]
    assert served.session.remaining.share == pytest.approx(0.17)


def test_what_costs_more_than_its_share_of_epsilons_does_not_stand_after_free_misses(made):
    service, _ = made
    session = service.datasets["visits"].session
    session.release(count(), epsilon="0.8")
    body = {"call": NEVER.body() | {"kind": "test"}, "every": "append"}
    on = Asking(service.tokens.recognise(token_of(service, "alice", ["analyst"])), service.datasets["visits"])
    with pytest.raises(InvalidParameter, match="larger"):
        asyncio.run(stood(service, on, body | {"share": "0.009"}, "first"))
    assert asyncio.run(stood(service, on, body | {"share": "0.01"}, "second")).share == Fraction(1, 100)


@pytest.fixture
def aside(tmp_path):
    """The same under a pure filter that sets delta aside."""
    service = service_at(tmp_path)
    terms = {"budget": Budget(epsilon=1, delta="1e-6"), "filter": "pure", "delta_reserve": "4e-7"}
    serve_visits(service, **PUBLIC, **terms, unsafe_noise=Seeded(6))
    yield service
    service.jobs.close(5)
    service.datasets.close()
    service.store.close()


def test_an_answer_whose_delta_is_more_than_its_share_is_refused_before_it_stands(aside):
    call = Release(count(), epsilon="0.01", delta="3e-7").body() | {"kind": "release"}
    body = {"call": call, "every": "append"}
    on = Asking(aside.tokens.recognise(token_of(aside, "alice", ["analyst"])), aside.datasets["visits"])
    with pytest.raises(InvalidParameter, match="larger"):
        asyncio.run(stood(aside, on, body | {"share": "0.1"}, "first"))
    assert asyncio.run(stood(aside, on, body | {"share": "0.75"}, "second")).share == Fraction(3, 4)
    assert asked(aside) == []


def test_it_ends_before_its_delta_could_pass_its_share(aside):
    standing = stand(aside, Release(count(), epsilon="0.01", delta="1e-7"), share="0.6")
    assert [grow(aside), grow(aside), grow(aside)] == [1, 1, 1]
    assert news(aside) == [("hit", 2), ("hit", 3), ("ended", 4)]
    assert [entry.share for entry in asked(aside)] == [0.25, 0.25]
    assert aside.standing.book.found(standing.standing).charged == 0.5


def test_main_and_delta_are_each_held_to_the_share(aside):
    """Half of either is no whole: so much of main and so much of delta may be taken, whichever comes first."""
    session = aside.datasets["visits"].session
    standing = stand(aside, Release(count(), epsilon="0.5", delta="1e-7"), share="0.5")
    assert [grow(aside), grow(aside)] == [1, 1]
    assert news(aside) == [("hit", 2), ("ended", 3)]
    assert session.spent.share == aside.standing.book.found(standing.standing).charged == 0.5


def test_calls_that_fail_after_they_were_charged_are_of_its_share_too(made, monkeypatch):
    service, clock = made
    session = service.datasets["visits"].session
    price = session.quote(ALWAYS).most_charged
    standing = stand(service, share=str(3.5 * price))

    failing(monkeypatch)
    grow(service)
    monkeypatch.undo()
    assert service.standing.tick() == 0
    clock[0] += 1
    assert service.standing.tick() == 1
    assert service.standing.book.found(standing.standing).charged == pytest.approx(2 * price)
    failing(monkeypatch)
    grow(service)
    for _ in range(3):
        clock[0] += 10
        service.standing.tick()
    assert session.spent.share == pytest.approx(3 * price)
    assert news(service) == [("hit", 2), ("ended", 3)]


def test_what_fails_is_tried_ever_more_rarely_and_tells_so(made, monkeypatch, caplog):
    """Also where it costs nothing, so that no share ends it: neither the log nor the feed is silent about it."""
    service, clock = made
    run = service.datasets["visits"].asked_by("alice").start(SparseVector(above=10**6, hits=1, epsilon="0.1"))
    standing = stand_at(service, run, {"query": {"kind": "count"}})
    failing(monkeypatch)
    assert grow(service) == 1
    tried = []
    for second in range(1, 2000):
        clock[0] += 1
        if service.standing.tick():
            tried.append(second)
    assert tried == [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1623]
    assert [record.message for record in caplog.records].count('{"event": "standing", "error": "EngineError"}') == 12
    assert news(service) == [("failing", 2)]
    (told,) = service.standing.feed.since("visits")
    assert told["detail"] == "it cannot be asked, and is tried again: the engine failed"
    assert service.standing.book.found(standing.standing).state == "active"
    monkeypatch.undo()
    clock[0] += 600
    assert [service.standing.tick(), grow(service)] == [1, 1]
    assert service.standing.failures == {}


def test_rounds_that_it_begins_are_of_its_share(made):
    """A question to a growing sparse vector costs nothing but the round that it may begin."""
    service, _ = made
    session = service.datasets["visits"].asked_by("alice")
    run = session.start(GrowingTests(above="0.1", epsilon="0.1"))
    price = run.quote(count()).most_charged
    assert price > 0.1
    standing = stand_at(service, run, {"query": {"kind": "count"}, "above": "0.1"}, share=str(2.5 * price))
    for _ in range(4):
        grow(service)
    assert news(service) == [("hit", 2), ("hit", 3), ("ended", 4)]
    now = service.standing.book.found(standing.standing)
    assert now.charged == pytest.approx(2 * price)
    assert session.spent.share == pytest.approx(2 * price)


def ended_by_another(run):
    """The open round, if any, ends with another question's yes."""
    while run.state.open_round is not None:
        run.ask(count(), above=0)


def test_rounds_of_questions_that_failed_in_them_are_of_its_share(made, monkeypatch):
    service, clock = made
    session = service.datasets["visits"].asked_by("alice")
    run = session.start(GrowingTests(above="0.1", epsilon="0.1"))
    price = run.quote(count()).most_charged
    standing = stand_at(service, run, {"query": {"kind": "count"}, "above": "0.1"}, share=str(1.01 * price))
    reading = spine.read_one_version

    def fails(rows, plans):
        if plans:
            raise EngineError("the engine failed")
        return reading(rows, plans)

    service.datasets["visits"].session.append(visits().head(1))
    with monkeypatch.context() as patched:
        patched.setattr(spine, "read_one_version", fails)
        service.standing.tick()
    ended_by_another(run)
    clock[0] += 10
    assert service.standing.tick() == 1
    assert news(service) == [("ended", 2)]
    assert service.standing.book.found(standing.standing).state == "ended"
    assert session.spent.share == pytest.approx(price)


def test_a_round_that_was_not_in_the_quote_is_not_begun(made, monkeypatch):
    """Its round is open when it is quoted, and ended by another question before it is asked."""
    service, clock = made
    session = service.datasets["visits"].asked_by("alice")
    run = session.start(GrowingTests(above="0.1", epsilon="0.1"))
    price = run.quote(count()).most_charged
    stand_at(service, run, {"query": {"kind": "count"}, "above": 1}, share=str(0.5 * price))
    run.ask()
    quoting = scheduler.quote_of
    monkeypatch.setattr(scheduler, "quote_of", lambda *given: (quoting(*given), ended_by_another(run))[0])
    grow(service)
    assert session.spent.share == pytest.approx(price)
    clock[0] += 10
    assert service.standing.tick() == 1
    assert news(service) == [("ended", 2)]


def test_what_a_histogram_says_alone_is_told_once_and_as_that(made):
    """Nothing was asked of the rows then: it is no answer, and no call of the ledger has it."""
    service, _ = made
    session = service.datasets["visits"].asked_by("alice")
    universe = {"universe": {"clinic": ["north", "south", "east", "west"]}, "alpha": "0.05"}
    run = session.start(PMW(**universe, epsilon="0.2"))
    standing = stand_at(service, run, {"where": "clinic = 'north'"}, tell="all")
    grow(service)
    asked, told = len(session.history), news(service)
    session.ask(Release(count(), epsilon="0.28"))
    for _ in range(3):
        grow(service)
    assert len(session.history) == asked + 1
    assert news(service) == [*told, ("unverified", 0)]
    now = service.standing.book.found(standing.standing)
    assert (now.state, now.version, now.runs) == ("active", 5, 1)


def test_it_says_weeks_ahead_that_it_runs_out(made):
    service, clock = made
    price = service.datasets["visits"].session.quote(ALWAYS).price_if_hit
    stand(service, share=str(12.5 * price))
    told = []
    for _ in range(9):
        clock[0] += WEEK
        grow(service)
        told.append([each["detail"] for each in service.standing.feed.since("visits") if each["kind"] == "running out"])
    first = next(number for number, each in enumerate(told) if each)
    assert told[first] == told[-1] == ["8 hits are left, which last 8 weeks at the rate so far"]


def test_it_ends_with_its_token(made):
    service, _ = made
    standing = stand(service)
    service.tokens.revoke(standing.token)
    assert grow(service) == 1
    assert news(service) == [("ended", 2)]
    assert asked(service) == []


@pytest.mark.parametrize("every", ["", "always", "* * *", "61 * * * *", "append ", "0 6 * * someday"])
def test_what_is_no_time_is_refused(made, every):
    with pytest.raises(InvalidParameter, match="crontab"):
        stand(made[0], every=every)


@pytest.mark.parametrize("share", [0, -1, 2, "x", None])
def test_what_is_no_share_is_refused(made, share):
    with pytest.raises(InvalidParameter, match="share"):
        stand(made[0], share=share)


@pytest.fixture
def receiver():
    with posted_to() as server:
        yield server


@pytest.fixture
def hooked(tmp_path, receiver):
    """A service that may tell the receiver."""
    (tmp_path / "secret").write_bytes(SECRET)
    service = service_at(tmp_path, webhook={"ops": {"url": receiver.url, "secret-file": "secret"}})
    serve_visits(service, **PUBLIC)
    yield service
    service.jobs.close(5)
    service.datasets.close()
    service.store.close()


def test_a_webhook_is_signed_and_sent_until_it_is_taken(hooked, receiver):
    clock = [hooked.standing.book.clock()]
    sending = Delivery(hooked.config, hooked.store, lambda: clock[0])
    stand(hooked, webhook="ops")
    grow(hooked)
    receiver.troubles[:] = [500, 302]
    assert [sending.tick(), sending.tick()] == [0, 0]
    assert receiver.troubles == [302]
    for _ in range(2):
        clock[0] += 30
        sending.tick()
    assert sending.tick() == 0
    ((headers, body),) = receiver.taken
    assert check_webhook(SECRET, headers, body, now=clock[0]) == "chary_1"
    told = json.loads(body)
    assert (told["kind"], told["version"], told["call"]) == ("hit", 2, asked(hooked)[0].call)
    assert "answer" not in told
    assert "value" not in told


def test_forged_old_and_changed_messages_are_refused():
    headers = signed(SECRET, "chary_1", 1000, b"{}")
    assert check_webhook(SECRET, headers, b"{}", now=1299.0) == "chary_1"
    wrong = [
        (b"another secret", headers, b"{}", 1000.0),
        (SECRET, headers, b"{ }", 1000.0),
        (SECRET, headers, b"{}", 1301.0),
        (SECRET, headers, b"{}", 699.0),
        (SECRET, headers | {"webhook-id": "chary_2"}, b"{}", 1000.0),
        (SECRET, headers | {"webhook-timestamp": "1001"}, b"{}", 1000.0),
        (SECRET, headers | {"webhook-timestamp": "x"}, b"{}", 1000.0),
        (SECRET, {}, b"{}", 1000.0),
    ]
    for secret, said, body, now in wrong:
        with pytest.raises(InvalidParameter):
            check_webhook(secret, said, body, now=now)


def test_the_signature_is_that_of_the_specification():
    """The example of Standard Webhooks, whose secret is the base64 of these bytes."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    told = signed(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert told["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_over_http_it_is_asked_at_an_append_and_heard(tmp_path):
    people = {"alice": "analyst", "bob": "analyst", "carol": "custodian"}
    with meeting(tmp_path, **people) as (_, alice, bob, carol):
        standing = alice.stand(ALWAYS, every="append", share="0.5")
        run = alice.start(SparseVector(above=10, hits=3, epsilon="0.1"))
        alice.stand(run=run, question={"query": count()}, every="append", share="0.1", tell="all")
        carol.append(pd.DataFrame(visits().head(1)))
        wait_for(lambda: len(alice.news) >= 2)
        assert {each["version"] for each in alice.news} == {2}
        assert {each["call"] for each in alice.news} <= {entry.call for entry in alice.history}
        assert (bob.news, bob.standing) == ([], [])
        assert len(carol.standing) == 2
        with pytest.raises(CharyError, match="no subscription"):
            bob.end(standing["standing"])
        alice.end(standing["standing"])
        assert [each["state"] for each in alice.standing] == ["ended", "active"]
        with alice._transport._client.stream("GET", "/v1/datasets/visits/feed/events") as stream:
            assert next(stream.iter_lines()).startswith("event: ")
        for wrong, words in (
            ({"every": "never"}, "crontab"),
            ({"share": "0.001"}, "larger"),
            ({"webhook": "http://evil.example"}, "no webhook of that name"),
            ({"call": SparseVector(above=1, hits=1, epsilon="0.01")}, "opens a run"),
        ):
            with pytest.raises(CharyError, match=words):
                alice.stand(**({"call": ALWAYS, "every": "append", "share": "0.5"} | wrong))


def test_under_one_request_one_stands(tmp_path):
    with meeting(tmp_path, alice="analyst", bob="analyst") as (service, alice, bob):
        first = alice.stand(ALWAYS, every="append", share="0.5", request="mine")
        assert alice.stand(ALWAYS, every="append", share="0.5", request="mine") == first
        (trailed,) = [each for each in service.trail.entries() if each.action == "stand"]
        assert json.loads(trailed.asked)["standing"] == first["standing"]
        with pytest.raises(InvalidParameter, match="something else stands under this idempotency key"):
            alice.stand(ALWAYS, every="append", share="0.4", request="mine")
        others = [bob.stand(ALWAYS, every="append", share="0.5", request="mine") for _ in range(2)]
        others += [alice.stand(ALWAYS, every="append", share="0.5") for _ in range(2)]
        assert len({each["standing"] for each in [first, *others]}) == 4
        alice.end(first["standing"])
        assert alice.stand(ALWAYS, every="append", share="0.5", request="mine")["state"] == "ended"


def test_it_is_in_the_trail_before_it_stands(tmp_path, monkeypatch):
    """Whatever comes in between: what stands was never made by nobody."""

    def stopped(*_, **__):
        raise InvalidParameter("stopped in between")

    monkeypatch.setattr(StandingRunner, "stand", stopped)
    with meeting(tmp_path, alice="analyst") as (service, alice):
        with pytest.raises(InvalidParameter, match="in between"):
            alice.stand(ALWAYS, every="append", share="0.5", request="mine")
        assert [(each.action, each.request) for each in service.trail.entries()] == [("stand", "mine")]


def test_what_stands_under_a_request_is_told_again_whatever_became_of_it(tmp_path):
    """Also where it could not be made any more."""
    with meeting(tmp_path, alice="analyst") as (service, alice):
        run = alice.start(SparseVector(above=10, hits=1, epsilon="0.1"))
        said = {"question": {"query": count(), "above": -(10**9)}, "every": "append", "share": "0.5"}
        first = alice.stand(run=run, request="mine", **said)
        grow(service)
        wait_for(lambda: news(service))
        assert alice.stand(run=run, request="mine", **said)["standing"] == first["standing"]
        with pytest.raises(BudgetExceeded, match="all 1 hits"):
            alice.stand(run=run, request="another", **said)


def test_a_histogram_that_must_verify_is_quoted_and_can_stand(tmp_path):
    """Where it cannot verify any more, it ends."""
    service = service_at(tmp_path)
    serve_visits(service, **PUBLIC, budget=Budget(epsilon=1, delta=1e-6))
    universe = {"universe": {"clinic": ["north", "south", "east", "west"]}, "alpha": "0.05"}
    question = {"where": "clinic = 'north'", "must_verify": True}
    with listening(service) as address, connect(address, token_of(service, "alice")) as alice:
        run = alice.start(PMW(**universe, epsilon="0.3"))
        at = f"/v1/datasets/visits/runs/{run.call}/quotes"
        with client_of(address, token_of(service)) as plain:
            assert plain.post(at, json=question).json()["most_charged"] > 0
            body = {"run": run.call, "question": question, "every": "append", "share": "0.9"}
            assert plain.post("/v1/datasets/visits/standing", json=body).status_code == 201
        alice.ask(Release(count(), epsilon="0.54"))
        grow(service)
        wait_for(lambda: news(service))
    assert news(service) == [("ended", 2)]
    assert "can cost" in service.standing.feed.since("visits")[0]["detail"]


def test_a_webhook_without_a_secret_is_refused_before_anything_listens(tmp_path):
    with pytest.raises(InvalidParameter, match="secret of webhook 'ops'"):
        service_at(tmp_path, webhook={"ops": {"url": "http://127.0.0.1/", "secret-file": "missing"}})
    assert ServedDatasets({}).get("visits") is None


def test_a_pause_skips_versions_and_goes_on_with_the_rows_of_then(made):
    service, _ = made
    name = stand(service).standing
    assert grow(service) == 1
    assert service.standing.book.turn(name, "paused", 4).state == "paused"
    assert [grow(service), grow(service)] == [0, 0]
    service.standing.book.turn(name, "active", 4)
    assert [service.standing.tick(), service.standing.tick()] == [1, 0]
    assert news(service) == [("hit", 2), ("skipped", 3), ("hit", 4)]
    service.standing.book.turn(name, "ended", 4)
    for state, words in (("active", "has ended"), ("asleep", "active, paused or ended")):
        with pytest.raises(InvalidParameter, match=words):
            service.standing.book.turn(name, state, 4)


def test_paused_ones_count_among_the_most(made, monkeypatch):
    service, _ = made
    monkeypatch.setattr("chary.service.core.alerts.MOST", 1)
    service.standing.book.turn(stand(service).standing, "paused", 4)
    with pytest.raises(InvalidParameter, match="at most 1"):
        stand(service)


def test_no_more_stand_however_many_are_sent_at_once(made, monkeypatch):
    service, _ = made
    monkeypatch.setattr("chary.service.core.alerts.MOST", 3)
    who = service.tokens.recognise(token_of(service))
    terms = {"every": "append", "share": 1, "tell": "hits", "webhook": None}

    together, add_once = threading.Barrier(8), ServiceStore.add_once

    def inserted(self, *said):
        together.wait(10)
        return add_once(self, *said)

    def sent(_):
        try:
            wish = Wish("ask", ALWAYS.body())
            return service.standing.stand(service.datasets["visits"], who, wish, UNPRICED, **terms)
        except InvalidParameter as refused:
            return str(refused)

    monkeypatch.setattr(ServiceStore, "add_once", inserted)
    with ThreadPoolExecutor(8) as pool:
        refused = [each for each in pool.map(sent, range(8)) if isinstance(each, str)]
    assert refused == ["an analyst has at most 3 subscriptions on a dataset: end one"] * 5
    assert len(service.standing.book.all("visits")) == 3


def test_how_long_it_lasts(made):
    service, clock = made
    quoted = service.datasets["visits"].session.quote(ALWAYS)
    name = stand(service, share=str(12.5 * quoted.price_if_hit)).standing
    found = service.standing.book.found
    assert lasting(found(name), quoted, clock[0]) == (12, None)
    for _ in range(4):
        clock[0] += WEEK
        grow(service)
    hits, weeks = lasting(found(name), quoted, clock[0])
    assert (hits, weeks) == (8, pytest.approx(8))
    clock[0] -= 4 * WEEK - 3_000
    assert lasting(found(name), quoted, clock[0]) == (8, None)


def test_one_pauses_ones_own_over_http(tmp_path):
    service = service_at(tmp_path)
    serve_visits(service, **PUBLIC)
    with listening(service) as address:
        alice, bob = (client_of(address, token_of(service, name)) for name in ("alice", "bob"))
        with alice, bob:
            said = {"call": ALWAYS.body() | {"kind": "test"}, "every": "append", "share": "0.5"}
            place = "/v1/datasets/visits/standing"
            name = alice.post(place, json=said).json()["standing"]
            assert bob.put(f"{place}/{name}", json={"state": "paused"}).status_code == 404
            assert alice.put(f"{place}/{name}", json={"state": "paused"}).json()["state"] == "paused"
            assert alice.put(f"{place}/{name}", json={"state": "gone"}).status_code == 422
            assert alice.put(f"{place}/{name}", json={"status": "paused"}).status_code == 422
            assert alice.put(f"{place}/{name}", json={"state": "active"}).json()["state"] == "active"
    assert [json.loads(each.asked).keys() for each in service.trail.entries()][1:] == [{"paused"}, {"active"}]


def test_a_crontab_is_short(made):
    service, _ = made
    with pytest.raises(InvalidParameter, match="longer than the 100 characters"):
        stand(service, every=f"{','.join(['0'] * 100)} * * * *")
    stand(service, every="0 6 * * mon" + " " * 89)


def test_the_next_time_is_worked_out_once(made, monkeypatch):
    service, clock = made
    clock[0] = 3e9
    worked_out = []
    usual = alerts.trigger_of
    monkeypatch.setattr(alerts, "trigger_of", lambda every: worked_out.append(every) or usual(every))
    for _ in range(3):
        stand(service, every="7 6 * * mon")
    for _ in range(9):
        clock[0] += 5
        service.standing.tick()
    assert worked_out == ["7 6 * * mon"]


def test_a_dataset_that_takes_long_holds_up_no_other_one(made, monkeypatch):
    service, _ = made
    serve_visits(service, "slow", **PUBLIC)
    who = service.tokens.recognise(token_of(service, "alice"))
    terms = {"every": "append", "share": 1, "tell": "hits", "webhook": None}
    service.standing.stand(service.datasets["slow"], who, Wish("ask", ALWAYS.body()), UNPRICED, **terms)
    stand(service)
    free, usual = threading.Event(), scheduler.quote_of

    def slow(served, *asked):
        assert served.name != "slow" or free.wait(60)
        return usual(served, *asked)

    monkeypatch.setattr(scheduler, "quote_of", slow)
    for name in ("slow", "visits"):
        service.datasets[name].session.append(visits().head(1))
    begun = service.standing.begin()
    wait_for(lambda: news(service) == [("hit", 2)])
    # The slow one is not begun a second time, and the other one goes on.
    service.datasets["visits"].session.append(visits().head(1))
    wait_for(lambda: service.standing.begin() is not None and news(service) == [("hit", 2), ("hit", 3)])
    free.set()
    assert sorted(each.result() for each in begun) == [1, 1]
    assert len(service.standing.feed.since("slow")) == 1


def test_one_that_cannot_even_be_looked_at_holds_up_no_other_one(made, monkeypatch):
    service, _ = made
    broken, _ = stand(service), stand(service)
    usual = StandingRunner._asked

    def asked_or_not(runner, standing):
        assert standing.standing != broken.standing
        return usual(runner, standing)

    monkeypatch.setattr(StandingRunner, "_asked", asked_or_not)
    assert grow(service) == 1


def test_standing_questions_are_paged(tmp_path):
    with meeting(tmp_path, alice="analyst", carol="custodian") as (service, alice, carol):
        for name in ("alice", "bob"):
            who = service.tokens.recognise(token_of(service, name))
            for _ in range(60):
                terms = {"every": "append", "share": "0.1", "tell": "hits", "webhook": None}
                service.standing.book.add(who, "visits", Wish("ask", NEVER.body()), 0, **terms)
        assert [len(alice.standing), len(carol.standing)] == [60, 120]
        assert len({each["standing"] for each in carol.standing}) == 120
        http = alice._transport
        first = http.read("/v1/datasets/visits/standing", limit=50)
        assert (len(first["items"]), first["next"]) == (50, 50)
        rest = http.read("/v1/datasets/visits/standing", limit=50, after=50)
        assert (len(rest["items"]), rest["next"]) == (10, None)
        assert first["items"] + rest["items"] == alice.standing
