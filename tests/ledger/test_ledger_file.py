"""The file: private, recognised, waited for, shared by threads and forks."""

import os
import sqlite3
import stat
import threading
import time
from pathlib import Path

import pytest

from chary.errors import InvalidParameter, LedgerCorrupted, LedgerError, LedgerLocked
from chary.ledger import Amount, open_ledger
from chary.ledger.records import CapReached
from chary.ledger.sql.transaction import secret_digest

from .kit import ANSWER, QUESTION, ask, filled, raw, terms


def modes(path):
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}


def test_all_files_are_private_whatever_the_umask(path):
    old = os.umask(0)
    try:
        ledger = filled(path)
        with ledger.store.transactions.writing() as connection:
            connection.exec_driver_sql("UPDATE datasets SET version = version + 1")
            assert modes(path) == {"test.ledger": 0o600, "test.ledger-journal": 0o600}
    finally:
        os.umask(old)
    ledger.close()


def test_a_looser_mode_is_tightened(path):
    other = filled(path)
    for file in path.parent.iterdir():
        file.chmod(0o666)
    ledger = open_ledger(path)
    assert set(modes(path).values()) == {0o600}
    ledger.close()
    other.close()


def test_the_settings_are_those_of_the_promise(path):
    ledger = filled(path)
    with ledger.store.transactions.reading() as connection:
        got = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
        assert got == ["delete", 3]
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    ledger.close()


def test_paths_and_urls_name_the_same_file(path):
    filled(path).close()
    for target in (str(path), path, f"sqlite:///{path}"):
        ledger = open_ledger(target)
        assert [held.name for held in ledger.datasets()] == ["trips", "visits"]
        ledger.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "://", "sqlite:///x?a=b"])
def test_other_urls_are_refused(url):
    with pytest.raises(InvalidParameter, match="URL"):
        open_ledger(url)


def test_a_relative_path_stays_the_same_file(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    ledger = open_ledger("test.ledger")
    monkeypatch.chdir("/")
    ledger.open(terms())
    ledger.close()
    assert path.exists()


def test_what_is_no_ledger_is_refused_and_left_alone(path):
    path.write_bytes(b"name,age\nann,65\n" * 100)
    before, mode = path.read_bytes(), path.stat().st_mode
    with pytest.raises(LedgerError, match="not a ledger"):
        open_ledger(path)
    assert (path.read_bytes(), path.stat().st_mode) == (before, mode)


def test_another_program_s_database_is_refused_and_left_alone(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE patients(name)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="not a ledger"):
        open_ledger(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("target", ["missing/folder/x.ledger", "."])
def test_an_impossible_place_is_a_ledger_error(path, target):
    with pytest.raises(LedgerError):
        open_ledger(path.parent / target)


def test_an_empty_file_is_a_ledger_that_was_cut_off(path):
    filled(path).close()
    for size, told in ((4096, "damaged"), (0, "empty: it was cut off")):
        os.truncate(path, size)
        with pytest.raises(LedgerCorrupted, match=told):
            open_ledger(path)
        assert path.stat().st_size == size


def test_a_ledger_held_by_somebody_else_is_busy_and_unharmed(path):
    ledger = open_ledger(path, timeout=0.1)
    ledger.open(terms())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    with pytest.raises(LedgerLocked):
        ask(ledger)
    assert time.monotonic() - started < 5
    assert ledger.balance("visits").spent == Amount(0)
    other.execute("ROLLBACK")
    other.close()
    ask(ledger)
    ledger.close()


def test_a_waiting_charge_goes_through_when_the_other_is_done(path):
    ledger = open_ledger(path, timeout=20)
    ledger.open(terms())
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, other.execute, ["ROLLBACK"])
    timer.start()
    ask(ledger)
    timer.join()
    other.close()
    ledger.close()


def test_a_verification_stops_nobody(path):
    ledger = filled(path)
    before = ledger.balance("trips").spent
    verdict = ledger.verify(lambda _done, _total: ask(ledger, dataset="trips"))
    assert verdict.ok
    assert ledger.balance("trips").spent == before + Amount(1)
    assert ledger.verify().entries == verdict.entries + 2
    ledger.close()


@pytest.mark.parametrize("kind", ["memory", "sql"])
def test_threads_never_pass_the_cap(path, kind):
    ledger = open_ledger(":memory:") if kind == "memory" else open_ledger(path)
    ledger.open(terms(main=100))
    refused = []

    def work(name):
        for _ in range(30):
            try:
                ask(ledger, 1, 1, analyst=name)
            except CapReached:
                refused.append(name)

    threads = [threading.Thread(target=work, args=(f"analyst-{number}",)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.balance("visits").spent == Amount(100)
    assert len(refused) == 50
    assert ledger.verify().ok
    ledger.close()


def in_child(work):
    """Run in a forked child; whether it came to its end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def reachable(error):
    """Everything that hangs on an error, its causes and its contexts."""
    found, left = [], [error]
    while left:
        thing = left.pop()
        found.append(repr(thing))
        if isinstance(thing, BaseException):
            left += [part for part in (thing.__cause__, thing.__context__) if part is not None]
            left += [thing.args, vars(thing)]
        elif isinstance(thing, dict):
            left += [*thing, *thing.values()]
        elif isinstance(thing, (list, tuple)):
            left += thing
    return " ".join(found)


@pytest.mark.parametrize("event", ["INSERT", "DELETE", "full"])
def test_an_error_while_a_secret_is_written_holds_no_part_of_it(path, event):
    ledger = open_ledger(path)
    ledger.open(terms())
    first, second = (ledger.reserve("visits", "ann", "count", QUESTION, Amount(1)) for _ in range(2))
    secret = b"held-outcome-4711"
    ledger.settle(first, Amount(0), 0, 0, ANSWER, secret=secret)
    if event == "full":
        with ledger.store.transactions.writing() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count=1")
        secret *= 100_000
    else:
        raw(path, f"CREATE TRIGGER broken BEFORE {event} ON secrets BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(LedgerError) as refused:
        ledger.settle(second, Amount(0), 0, 0, '"4712"', secret, secrets={first.call: b"held-outcome-4713"})
    told = reachable(refused.value)
    digests = [secret_digest(call.call, part) for call in (first, second) for part in (secret, b"held-outcome-4713")]
    assert not any(part in told for part in ("4711", "4712", "4713", *digests))
    assert ledger.call(second.call).state == "reserved"
    ledger.close()


def test_a_forked_child_charges_the_same_budget(path):
    ledger = open_ledger(path)
    ledger.open(terms())
    mine = ledger.reserve("visits", "ann", "count", QUESTION, Amount(4))

    def settle():
        ledger.settle(mine, Amount(1), 1, 1, ANSWER)
        ask(ledger)

    assert in_child(settle)
    ask(ledger)
    assert ledger.balance("visits").spent == Amount(3)
    assert ledger.verify().ok
    ledger.close()


def test_no_connection_crosses_a_fork(path):
    ledger = filled(path)
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("open files can be listed on Linux only")

    def look():
        targets = [os.readlink(each) for each in descriptors.iterdir() if each.exists()]
        assert not any(target.startswith(str(path)) for target in targets)

    assert in_child(look)
    ledger.close()


def test_a_memory_ledger_does_not_charge_in_a_child():
    ledger = open_ledger(":memory:")
    ledger.open(terms())

    def refused():
        with pytest.raises(LedgerError, match="one process"):
            ask(ledger)

    assert in_child(refused)
    ask(ledger)


def test_an_erased_secret_leaves_the_file(path):
    ledger = filled(path)
    call = raw(path, "SELECT call FROM secrets")[0][0]
    call_settling = ledger.reserve("visits", "ann", "count", QUESTION, Amount(1))
    ledger.settle(call_settling, Amount(0), 0, 1, ANSWER, secrets={call: None})
    raw(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    ledger.close()
    assert b"held-outcome-4711" not in path.read_bytes()


def test_no_error_of_the_engine_shows_a_parameter(path):
    ledger = filled(path)
    raw(path, "DROP TABLE answers")
    call = ledger.reserve("trips", "ann", "count", QUESTION, Amount(1))
    with pytest.raises(LedgerError) as caught:
        ledger.settle(call, Amount(1), 1, 1, '"answer-4711"', secret=b"secret-4711")
    chain = [caught.value, caught.value.__cause__, caught.value.__context__]
    assert "4711" not in " ".join(f"{error} {error!r}" for error in chain)
    assert ledger.balance("trips").open == Amount(6, 5)
    ledger.close()
