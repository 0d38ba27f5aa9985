"""The file under an open ledger: second names, moves, replacements, other processes, forks, earlier versions."""

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import threading

import pytest

from chary.errors import LedgerCorrupted, LedgerError, LedgerLocked
from chary.ledger import Amount, open_ledger
from chary.ledger.sql.schema import seals
from chary.ledger.sqlite import files as inode_module
from chary.ledger.sqlite.files import Inode, mounted

from .kit import ask, filled, raw, terms
from .test_ledger_file import in_child


@pytest.fixture
def ledger(path):
    ledger = open_ledger(path, timeout=0.2)
    ledger.open(terms())
    yield ledger
    ledger.close()


def test_a_hard_link_is_refused_at_opening_and_under_an_open_ledger(path, ledger):
    other = path.with_name("other.ledger")
    other.hardlink_to(path)
    for act in (lambda: ask(ledger), lambda: ledger.balance("visits"), lambda: open_ledger(other)):
        with pytest.raises(LedgerError, match="two names"):
            act()
    other.unlink()
    ask(ledger)
    assert ledger.balance("visits").spent == Amount(1)


def test_a_symbolic_link_is_the_same_ledger(path, ledger):
    link = path.with_name("link.ledger")
    link.symlink_to(path)
    other = open_ledger(link)
    ask(other)
    ask(ledger)
    assert other.balance("visits").spent == Amount(2)
    other.close()


@pytest.mark.parametrize("act", ["moved", "deleted"])
def test_a_ledger_that_goes_away_charges_nothing_more(path, ledger, act):
    ask(ledger)
    away = path.with_name("away.ledger")
    path.rename(away) if act == "moved" else path.unlink()
    for work in (lambda: ask(ledger), lambda: ledger.balance("visits")):
        with pytest.raises(LedgerError, match="moved or deleted"):
            work()
    assert not path.exists()
    if act == "moved":
        away.rename(path)
        ask(ledger)
        assert ledger.balance("visits").spent == Amount(2)


def test_a_ledger_that_goes_away_within_a_settle_hands_nothing_out(path, ledger, monkeypatch):
    call = ledger.reserve("visits", "ann", "count", "{}", Amount(2))
    follow = ledger.store.transactions.bookmark.read

    def read(connection):
        path.rename(path.with_name("away.ledger"))
        return follow(connection)

    monkeypatch.setattr(ledger.store.transactions.bookmark, "read", read)
    monkeypatch.setattr(ledger.store.transactions.bookmark, "follow", lambda _connection: None)
    with pytest.raises(LedgerError, match="moved or deleted"):
        ledger.settle(call, Amount(1), 1, 1, "true")


def test_a_ledger_that_is_replaced_by_another_file_is_noticed(path, ledger):
    copy = path.with_name("copy.ledger")
    shutil.copy(path, copy)
    ask(ledger)
    copy.rename(path)
    with pytest.raises(LedgerError, match="replaced"):
        ask(ledger)


def test_an_old_copy_written_into_the_file_is_noticed(path, ledger):
    old = path.read_bytes()
    ask(ledger)
    new = path.read_bytes()
    path.write_bytes(old)
    with pytest.raises(LedgerCorrupted, match="older or another copy"):
        ask(ledger)
    path.write_bytes(new)
    ask(ledger)


def test_a_file_mounted_by_itself_is_refused(path, ledger, tmp_path, monkeypatch):
    mounts = tmp_path / "mountinfo"
    line = "36 35 98:0 /x {} rw,noatime master:1 - ext4 /dev/root rw\n"
    mounts.write_text(line.format(tmp_path))
    monkeypatch.setattr(inode_module, "_MOUNTS", mounts)
    Inode(path).close()
    mounts.write_text(line.format(tmp_path) + line.format(path))
    with pytest.raises(LedgerError, match="mount its folder"):
        open_ledger(path)
    odd = tmp_path / "a b\\c"
    mounts.write_text(line.format(f"{tmp_path}/a\\040b\\134c"))
    assert mounted(odd, mounts)
    assert not mounted(odd, tmp_path / "missing")


def test_the_lock_survives_that_somebody_reads_the_file_in_this_process(path, ledger):
    """Closing any descriptor of a file drops all of the process's POSIX locks on it, those of SQLite included."""

    def busy():
        other = open_ledger(path, timeout=0.2)
        with pytest.raises(LedgerLocked):
            ask(other)
        other.close()

    with ledger.store.transactions.writing():
        path.read_bytes()
        result = []
        thread = threading.Thread(target=lambda: result.append(busy()))
        thread.start()
        thread.join()
        assert result == [None]
        with path.open() as own, pytest.raises(BlockingIOError):
            fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_two_objects_of_a_file_in_a_process_keep_each_other_s_locks(path, ledger):
    other = open_ledger(path)
    with ledger.store.transactions.reading() as connection:
        connection.exec_driver_sql("SELECT * FROM chain").all()
        other.close()
        stranger = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1],timeout=0); c.execute('BEGIN EXCLUSIVE')"
        # Not by a fork of this thread, before which the connection would be closed.
        run = subprocess.run([sys.executable, "-c", stranger, str(path)], capture_output=True, check=False)
        assert b"database is locked" in run.stderr


def test_a_child_has_a_lock_of_its_own(path, ledger):
    """A lock on an inherited descriptor would belong to both."""
    inode, (held, tell), (done, end) = ledger.store.transactions._inode, os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with inode.locked(0, lambda: False):
            os.write(tell, b"x")
            os.read(done, 1)
        os._exit(0)
    os.read(held, 1)
    try:
        with pytest.raises(LedgerLocked), inode.locked(0, lambda: False):
            pass
    finally:
        os.write(end, b"x")
    assert os.waitpid(child, 0)[1] == 0
    for each in (held, tell, done, end):
        os.close(each)
    ask(ledger)


def test_a_child_that_closes_takes_nothing_from_its_parent(path, ledger):
    assert in_child(lambda: (ask(ledger), ledger.close()))
    ask(ledger)
    assert ledger.balance("visits").spent == Amount(2)


def test_a_child_past_the_hooks_can_neither_use_nor_close(path, ledger, monkeypatch):
    connection = ledger.store.transactions._connection
    monkeypatch.setattr(os, "getpid", lambda: 1)
    for act in (lambda: ask(ledger), lambda: ledger.balance("visits")):
        with pytest.raises(LedgerError, match="belongs to the process"):
            act()
    ledger.close()
    monkeypatch.undo()
    assert ledger.store.transactions._connection is connection
    ask(ledger)


def test_the_folder_of_a_new_ledger_is_durable(path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda each: (synced.append(os.fstat(each).st_ino), fsync(each)))
    open_ledger(path).close()
    assert synced == [path.parent.stat().st_ino]


def test_half_a_new_ledger_never_has_its_name(path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _each: 1 / 0)
    monkeypatch.setattr("chary.ledger.sqlite.store.lay_out", lambda _new, _timeout: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        open_ledger(path)
    assert not path.exists()


def before_this_version(path):
    """Turn the file into what earlier versions left: a write-ahead log and no seal."""
    for trigger in ("secrets_added", "secrets_dropped", "seal_follows"):
        raw(path, f"DROP TRIGGER {trigger}")
    raw(path, f"DROP TABLE {seals.name}")
    connection = sqlite3.connect(path, isolation_level=None)
    assert connection.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    return connection


def test_a_ledger_of_an_earlier_version_goes_on_in_the_main_file(path):
    ledger = filled(path)
    spent, secret = ledger.balance("visits").spent, ledger.secret(4)
    ledger.close()
    before_this_version(path).close()
    ledger = open_ledger(path)
    assert (ledger.balance("visits").spent, ledger.secret(4)) == (spent, secret)
    ask(ledger, dataset="trips")
    assert ledger.verify().problems == []
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    ledger.close()


def test_a_log_that_a_crash_left_is_recovered(path, tmp_path):
    filled(path).close()
    writer = before_this_version(path)
    writer.execute("PRAGMA wal_autocheckpoint=0")
    writer.execute("UPDATE datasets SET fingerprint = 'from the log' WHERE name = 'trips'")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", crashed)
    writer.close()
    ledger = open_ledger(crashed / path.name)
    assert ledger.datasets()[0].fingerprint == "from the log"
    assert [each.name for each in crashed.iterdir()] == [path.name]
    ledger.close()


def test_an_earlier_version_that_has_it_open_is_waited_for(path):
    filled(path).close()
    writer = before_this_version(path)
    writer.execute("SELECT * FROM chain").fetchall()
    with pytest.raises(LedgerLocked, match="earlier version"):
        open_ledger(path, timeout=0.1)
    writer.close()
    open_ledger(path).close()


def test_an_earlier_version_that_turns_an_open_ledger_to_its_journal_is_noticed(path, ledger):
    ask(ledger)
    writer = sqlite3.connect(path, isolation_level=None)
    assert writer.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    writer.execute("SELECT * FROM chain").fetchall()
    with pytest.raises(LedgerLocked, match="earlier version"):
        ask(ledger)
    writer.close()
    ask(ledger)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
