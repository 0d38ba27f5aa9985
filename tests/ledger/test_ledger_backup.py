"""A backup, of a file or of a ledger on a server: whole, private, and never in the place of something else."""

import fcntl
import os
import stat

import pytest

from chary.addresses import Address
from chary.errors import InvalidParameter, LedgerCorrupted, LedgerError, LedgerLocked
from chary.ledger import open_ledger
from chary.ledger.locations import back_up, move

from .damage_kit import told
from .kit import KEPT, ask, filled, place


@pytest.fixture(params=KEPT)
def source(request, tmp_path):
    return place(request.param, tmp_path, request)


def test_a_ledger_is_opened_while_another_process_makes_one_in_its_folder(tmp_path):
    path = tmp_path / "test.ledger"
    open_ledger(path).close()
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with pytest.raises(LedgerLocked):
        open_ledger(tmp_path / "new.ledger", timeout=0)
    open_ledger(path, timeout=0).close()
    os.close(folder)


def test_a_backup_is_whole_private_and_replaces_nothing(source, tmp_path):
    ledger, copy = filled(source), tmp_path / "copy.ledger"
    assert back_up(source, copy) == ledger.head()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with pytest.raises(InvalidParameter, match="already"):
        back_up(source, copy)
    other = open_ledger(copy)
    assert other.verify().ok
    assert told(other) == told(ledger)
    other.close()
    ask(ledger, dataset="trips")
    ledger.close()
    assert [path.name for path in tmp_path.glob(".copy*")] == []


def test_a_backup_goes_back_to_a_server(tmp_path, request):
    source, target = (place("postgresql", tmp_path, request) for _ in range(2))
    ledger = filled(source)
    head = back_up(source, tmp_path / "copy.ledger")
    assert move(tmp_path / "copy.ledger", target, with_open_calls=True) == head
    again = open_ledger(target)
    assert told(again) == told(ledger)
    ask(again, dataset="trips")
    again.close()
    ledger.close()


def test_a_backup_of_a_ledger_that_is_wrong_moved_or_not_there_is_refused(source, tmp_path, postgres):
    with pytest.raises(InvalidParameter, match="no ledger to copy"):
        back_up(source, tmp_path / "copy.ledger")
    filled(source).close()
    move(source, tmp_path / "elsewhere.ledger", with_open_calls=True)
    with pytest.raises(LedgerError, match="moved"):
        back_up(source, tmp_path / "copy.ledger")
    assert not (tmp_path / "copy.ledger").exists()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE entries SET label = 'other' WHERE number = 4",
        "UPDATE secrets SET secret = 'other'",
        "DELETE FROM secrets",
        "UPDATE seals SET entries = entries - 1",
    ],
)
def test_a_ledger_on_a_server_that_does_not_verify_is_not_copied(damage, tmp_path, request, postgres):
    url = place("postgresql", tmp_path, request)
    filled(url).close()
    with postgres.connect() as admin:
        admin.execute(f"SET search_path = {Address.parse(url).schema}; SET session_replication_role = replica")
        assert admin.execute(damage).rowcount
    with pytest.raises(LedgerCorrupted, match="so there is no"):
        back_up(url, tmp_path / "copy.ledger")
    assert not (tmp_path / "copy.ledger").exists()
