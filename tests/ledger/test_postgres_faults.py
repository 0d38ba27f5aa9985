"""Connections that are lost, servers that are killed: nothing is lost or overspent, and no outcome is guessed."""

import contextlib
import threading
import time

import pytest

import chary
from chary.errors import LedgerError, LedgerLocked, RequestInFlight
from chary.interruption import Uninterrupted
from chary.ledger import Amount, Head, RequestAnswered, State, open_ledger
from tests.servers.postgres import running
from tests.servers.proxy import AFTER, BEFORE, Proxy
from tests.session.kit import PUBLIC, USUAL, visits

from .kit import ANSWER, QUESTION, ask, terms

# As it is sent by itself; the isolation level has the word in it as well.
COMMIT = b"COMMIT\0"
ENDED = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'chary'"


@pytest.fixture
def place(postgres):
    url = postgres.schema()
    ledger = open_ledger(url)
    ledger.open(terms("visits", 100, 100))
    ledger.close()
    return url


@pytest.fixture
def proxy(postgres):
    made = Proxy(postgres.port)
    yield made
    made.close()


@pytest.fixture
def behind(place, proxy, postgres):
    """A ledger reached through the proxy."""
    through = place.replace(f"host={postgres.folder}", "host=127.0.0.1").replace(f"={postgres.port}", f"={proxy.port}")
    ledger = open_ledger(through, timeout=10)
    yield ledger
    ledger.close()


@pytest.fixture
def direct(place):
    ledger = open_ledger(place)
    yield ledger
    assert ledger.verify().problems == []
    ledger.close()


def reserve(ledger, request=None):
    return ledger.reserve("visits", "ann", "count", QUESTION, Amount(10), request)


def settle(ledger, call):
    ledger.settle(call, Amount(1), 1, 1, ANSWER, b"secret-4711")


def test_a_reservation_that_was_committed_unheard_is_found_again(behind, direct, proxy):
    proxy.cut_at(COMMIT, AFTER)
    call = reserve(behind)
    assert direct.call(call.call).state == State.RESERVED
    assert direct.balance("visits").spent == Amount(10)
    settle(behind, call)


def test_a_reservation_whose_commit_never_arrived_is_told_and_not_charged(behind, direct, proxy):
    proxy.cut_at(COMMIT, BEFORE)
    with pytest.raises(LedgerLocked, match="nothing was recorded"):
        reserve(behind)
    assert direct.balance("visits").spent == Amount(0)
    settle(behind, reserve(behind))


@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_a_settle_is_known_to_have_been_committed_or_not(behind, direct, proxy, when):
    call = reserve(behind, "key")
    proxy.cut_at(COMMIT, when)
    with pytest.raises(LedgerLocked) if when == BEFORE else contextlib.nullcontext():
        settle(behind, call)
    assert direct.call(call.call).state == (State.RESERVED if when == BEFORE else State.SETTLED)
    assert direct.balance("visits").spent == Amount(10 if when == BEFORE else 1)
    if when == BEFORE:
        settle(behind, call)
    assert direct.replay("visits", "ann", "key", "count", QUESTION).answer == ANSWER
    assert direct.secret(call.call) == b"secret-4711"


@pytest.mark.parametrize("when", [BEFORE, AFTER])
@pytest.mark.parametrize("word", [b"append", b"hold", b"capacity_main"])
def test_what_is_lost_before_the_commit_is_undone(behind, direct, proxy, word, when):
    proxy.cut_at(word, when)
    with contextlib.suppress(LedgerLocked):
        # A transaction that had not begun begins again by itself.
        reserve(behind)
        assert word == b"hold"
    assert direct.balance("visits").spent == Amount(10 if word == b"hold" else 0)
    ask(behind)


def test_other_writers_in_between_do_not_confuse_it(behind, direct, proxy):
    """The same number is taken by another entry while the outcome is looked up."""
    proxy.cut_at(COMMIT, BEFORE, stays=False)
    failed = []

    def lost():
        try:
            reserve(behind)
        except LedgerLocked as error:
            failed.append(error)

    thread = threading.Thread(target=lost)
    thread.start()
    while proxy.open:
        time.sleep(0.01)
    ask(direct, analyst="bob")
    proxy.open = True
    thread.join()
    assert len(failed) == 1
    assert direct.analyst_balance("visits", "ann").spent == Amount(0)


def test_an_equal_entry_of_another_transaction_is_not_taken_for_one_s_own(direct):
    ask(direct)
    store, head = direct.store.transactions, direct.head()
    with Uninterrupted() as block:
        written = store.wire.driver.execute("SELECT xmin::text FROM entries WHERE number = %s", (head.entries,))
        by = int(written.fetchone()[0])
        assert store._came_through(head, by, block)
        assert store._came_through(head, by + 2**32, block)
        assert not store._came_through(head, by + 1, block)
        assert not store._came_through(Head(head.entries, "0" * 64), by, block)
        assert not store._came_through(Head(head.entries + 1, head.hash), by, block)


def test_a_server_that_stays_away_after_a_commit_leaves_an_error_and_the_charge(place, proxy, postgres, direct):
    through = place.replace(f"host={postgres.folder}", "host=127.0.0.1").replace(f"={postgres.port}", f"={proxy.port}")
    ledger = open_ledger(through, timeout=0.5)
    proxy.cut_at(COMMIT, AFTER, stays=False)
    with pytest.raises(LedgerError, match="if it was charged it stays charged") as told:
        reserve(ledger)
    assert not isinstance(told.value, LedgerLocked)
    assert direct.balance("visits").spent == Amount(10)
    ledger.close()


def test_a_lost_connection_between_the_steps_is_made_anew(behind, direct, postgres):
    call = reserve(behind, "key")
    driver = behind.store.transactions.wire.driver
    postgres.execute(f"SELECT pg_terminate_backend({driver.info.backend_pid})")
    with pytest.raises(RequestInFlight):
        reserve(direct, "key")
    settle(behind, call)
    assert direct.balance("visits").spent == Amount(1)


def test_a_claim_that_is_lost_lets_another_run_but_only_the_first_is_answered(behind, direct, postgres):
    first = reserve(behind, "key")
    postgres.execute(ENDED)
    deadline = time.monotonic() + 30
    while True:
        try:
            second = reserve(direct, "key")
            break
        except RequestInFlight:
            assert time.monotonic() < deadline
    assert direct.balance("visits").spent == Amount(20)
    settle(direct, second)
    with pytest.raises(RequestAnswered):
        settle(behind, first)
    assert direct.call(first.call).state == State.RESERVED
    assert direct.balance("visits").spent == Amount(11)
    assert behind.replay("visits", "ann", "key", "count", QUESTION).number == second.call


def test_the_one_that_lost_its_claim_may_be_the_first_to_settle(behind, direct, postgres):
    first = reserve(behind, "key")
    behind.store.claims._wire.close()
    behind.store.claims.close()
    second = reserve(direct, "key")
    settle(behind, first)
    with pytest.raises(RequestAnswered):
        settle(direct, second)
    assert direct.replay("visits", "ann", "key", "count", QUESTION).number == first.call


def test_claims_are_had_again_with_a_new_connection(behind, direct, postgres):
    first = reserve(behind, "one")
    pid = behind.store.claims._wire.driver.info.backend_pid
    postgres.execute(f"SELECT pg_terminate_backend({pid})")
    second = reserve(behind, "two")
    for key in ("one", "two"):
        with pytest.raises(RequestInFlight):
            reserve(direct, key)
    for call in (first, second):
        settle(behind, call)
        call.leave()
    assert postgres.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]


def test_a_call_that_is_left_can_be_asked_again(direct, place):
    other = open_ledger(place)
    call = reserve(direct, "key")
    call.leave()
    again = reserve(other, "key")
    with pytest.raises(RequestInFlight):
        reserve(direct, "key")
    del again
    settle(direct, reserve(direct, "key"))
    other.close()


def test_who_waits_too_long_is_told_without_any_data(place, postgres, direct):
    with postgres.connect() as holder, holder.transaction():
        schema = direct.store.transactions.address.schema
        holder.execute(f"SELECT * FROM {schema}.hold(0)")
        waiting = open_ledger(place, timeout=0.3)
        with pytest.raises(LedgerLocked, match="for too long"):
            reserve(waiting)
        assert waiting.balance("visits").spent == Amount(0)
        waiting.close()


def test_nothing_of_a_secret_is_left_in_an_error(direct):
    call = reserve(direct)
    direct.store.upkeep.add_secret, kept = (
        lambda connection, number, secret: connection.exec_driver_sql("SELECT 1/0, %s", (secret,)),
        direct.store.upkeep.add_secret,
    )
    with pytest.raises(LedgerError) as told:
        settle(direct, call)
    direct.store.upkeep.add_secret = kept
    error, seen = told.value, []
    while error is not None:
        seen.append(f"{error!r} {error.args} {vars(error)} {getattr(error, 'diag', '')}")
        error = error.__context__ or error.__cause__
    assert "4711" not in " ".join(seen)
    settle(direct, call)


def test_a_killed_server_comes_back_with_everything_that_was_committed(tmp_path):
    with running() as server:
        ledger = open_ledger(server.url(schema="visits"), timeout=60)
        ledger.open(terms("visits", 100, 100))
        call = reserve(ledger, "key")
        server.kill()
        back = threading.Timer(0.5, server.start)
        back.start()
        settle(ledger, call)
        back.join()
        server.stop()
        server.start()
        assert ledger.balance("visits").spent == Amount(1)
        assert ledger.verify().ok
        server.kill()
        with pytest.raises(LedgerError, match="cannot be reached"):
            open_ledger(server.url(schema="visits"), timeout=0.1)
        ledger.close()


def test_a_session_that_lost_its_claim_gives_the_answer_of_the_other(place, postgres):
    """Both run at once; the one that settles second throws its own answer away."""
    url, entered = postgres.schema(), []

    def step(reached):
        if reached == "evaluated" and not entered:
            entered.append(reached)
            sessions[0].spine.ledger.store.claims._wire.driver.close()
            entered.append(asked(sessions[1]))

    def asked(session):
        return session.release(chary.count(), epsilon="0.1", request="monday")

    usual = {**PUBLIC, "ledger": url, "dataset": "visits", "budget": USUAL}
    with chary.open(visits(), **usual) as first:
        first.test(chary.count(), above=1, epsilon="0.01")
        with chary.open(visits(), **usual, on_step=step) as one, chary.open(visits(), **usual) as two:
            sessions = [one, two]
            assert asked(one) == entered[1]
            assert asked(two) == entered[1]
        states = [call.state for call in first.spine.ledger.calls("visits")]
        assert states == [State.SETTLED, State.RESERVED, State.SETTLED]
        assert first.spine.ledger.verify().ok
