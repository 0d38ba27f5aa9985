"""Killed at random moments, with its journal thrown away: the main file holds what was acknowledged, or says no."""

import os
import random
import signal
import time

from chary.errors import LedgerCorrupted
from chary.ledger import Amount, Terms, open_ledger

KILLS = 12


def charge_for_ever(path, out):
    """Charge calls and acknowledge each step once it is done: 1 when reserved, 2 when settled."""
    ledger = open_ledger(path)
    while True:
        call = ledger.reserve("visits", "ann", "count", "{}", Amount(3, 1))
        os.write(out, b"1")
        ledger.settle(call, Amount(2), 1, 1, "true", secret=b"x" * 40)
        os.write(out, b"2")


def killed(path, moment):
    """What a child acknowledged until it was killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        charge_for_ever(path, write)
        os._exit(1)
    os.close(write)
    assert os.read(read, 1)
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    told = b"1"
    while part := os.read(read, 65536):
        told += part
    os.close(read)
    return told


def test_a_killed_commit_without_its_journal_forgets_no_charge(tmp_path):
    path, wait, torn = tmp_path / "test.ledger", random.Random(11), 0
    ledger = open_ledger(path)
    ledger.open(Terms("visits", "ab12", "{}", Amount(10**9, 10**9)))
    ledger.close()
    whole = path.read_bytes()
    for _ in range(KILLS):
        path.write_bytes(whole)
        told = killed(path, wait.uniform(0, 0.05))
        (tmp_path / "test.ledger-journal").unlink(missing_ok=True)
        try:
            ledger = open_ledger(path)
        except LedgerCorrupted:
            torn += 1
            continue
        settled = told.count(b"2")
        reserved = told.count(b"1") - settled
        # What is acknowledged is charged; the step that was under way may be charged too.
        spent = ledger.balance("visits").spent.main
        assert spent >= 2 * settled + (2 if reserved else 0)
        assert spent <= 2 * settled + 3
        assert len(list(ledger.calls("visits"))) >= settled + reserved
        ledger.close()
    assert torn < KILLS
