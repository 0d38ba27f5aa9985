"""Head, backup and checkpoint: an old copy is told from the ledger."""

import os
import stat
from contextlib import closing
from functools import partial

import pytest

import chary
from chary.errors import InvalidParameter, LedgerCorrupted, LedgerError
from chary.ledger import Amount, Head, open_ledger
from chary.ledger.checkpoint import Checkpoint
from chary.ledger.locations import back_up
from tests.session.kit import USUAL, visits

from .kit import ANSWER, QUESTION, ask, filled, terms


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere" / "visits.checkpoint"


def test_a_head_is_held_from_then_on_and_by_no_older_copy(path, tmp_path):
    ledger = filled(path)
    before = ledger.head()
    back_up(path, tmp_path / "old.ledger")
    ask(ledger, dataset="trips")
    after = ledger.head()
    assert (before.entries + 2, str(after)) == (after.entries, f"{after.hash}:{after.entries}")
    assert [ledger.holds(head) for head in (Head(), before, after)] == [True] * 3
    assert not ledger.holds(Head(after.entries, before.hash))
    ledger.close()
    old = open_ledger(tmp_path / "old.ledger")
    assert [old.holds(head) for head in (Head(), before, after)] == [True, True, False]
    old.close()


@pytest.mark.parametrize("text", ["", "12", "ab:3", "g" * 64 + ":3", "a" * 64 + ":-3", "a" * 64])
def test_what_is_no_head_is_refused(text):
    with pytest.raises(InvalidParameter, match="HASH:COUNT"):
        Head.parse(text)


@pytest.mark.parametrize("end", ["", "-journal", "-wal"])
def test_a_backup_is_never_a_file_that_the_engine_would_delete(path, end):
    filled(path)
    with pytest.raises(InvalidParameter, match="a copy is a file of its own"):
        back_up(path, f"{path}{end}")
    assert not path.with_name(f"{path.name}-journal").exists()


def test_the_checkpoint_knows_the_head_before_anything_is_handed_out(path, checkpoint):
    ledger = open_ledger(path, checkpoint=checkpoint)
    assert Checkpoint(checkpoint).read() == Head()
    ledger.open(terms())
    call = ledger.reserve("visits", "ann", "count", QUESTION, Amount(2))
    assert Checkpoint(checkpoint).read() == ledger.head()
    ledger.settle(call, Amount(1), 1, 1, ANSWER)
    assert Checkpoint(checkpoint).read() == ledger.head() != Head()
    assert stat.S_IMODE(checkpoint.stat().st_mode) == 0o600
    ledger.close()


def test_an_old_copy_is_refused_and_a_ledger_that_is_ahead_goes_on(path, checkpoint):
    ledger = open_ledger(path, checkpoint=checkpoint)
    ledger.open(terms())
    ledger.close()
    old = path.read_bytes()
    behind = checkpoint.read_bytes()
    ledger = open_ledger(path, checkpoint=checkpoint)
    ask(ledger)
    ledger.close()
    new = path.read_bytes()
    path.write_bytes(old)
    with pytest.raises(LedgerCorrupted, match="older or another copy: it has 1 entries"):
        open_ledger(path, checkpoint=checkpoint)
    path.unlink()
    with pytest.raises(LedgerCorrupted, match="older or another copy: it has 0 entries"):
        open_ledger(path, checkpoint=checkpoint)
    path.write_bytes(new)
    checkpoint.write_bytes(behind)
    ledger = open_ledger(path, checkpoint=checkpoint)
    ask(ledger)
    assert Checkpoint(checkpoint).read() == ledger.head()
    ledger.close()


def test_a_crash_between_commit_and_checkpoint_locks_nobody_out(path, checkpoint, monkeypatch):
    ledger = open_ledger(path, checkpoint=checkpoint)
    ledger.open(terms())
    call = ledger.reserve("visits", "ann", "count", QUESTION, Amount(2))
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda *_given: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(LedgerError, match="checkpoint cannot be written: No space left"):
            ledger.settle(call, Amount(1), 1, 1, ANSWER)
    ledger.close()
    again = open_ledger(path, checkpoint=checkpoint)
    assert again.balance("visits").spent == Amount(1)
    ask(again)
    assert Checkpoint(checkpoint).read() == again.head()
    again.close()


@pytest.mark.parametrize("ending", ["opening", "another session"])
def test_no_stored_answer_is_handed_out_before_the_checkpoint_knows_it(path, checkpoint, monkeypatch, ending):
    ledger = open_ledger(path, checkpoint=checkpoint)
    ledger.open(terms())
    call = ledger.reserve("visits", "ann", "count", QUESTION, Amount(2), "monday")
    other = open_ledger(path, checkpoint=checkpoint)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda *_given: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(LedgerError, match="checkpoint cannot be written"):
            ledger.settle(call, Amount(1), 1, 1, ANSWER)
        with pytest.raises(LedgerError, match="checkpoint cannot be written"):
            other.replay("visits", "ann", "monday", "count", QUESTION)
    head = other.head()
    assert Checkpoint(checkpoint).read() != head
    if ending == "opening":
        open_ledger(path, checkpoint=checkpoint).close()
    else:
        assert other.replay("visits", "ann", "monday", "count", QUESTION).answer == ANSWER
    assert Checkpoint(checkpoint).read() == head
    ledger.close()
    other.close()


@pytest.mark.parametrize("end", ["", "-journal", "-wal", "-shm"])
def test_a_checkpoint_is_never_a_file_of_the_ledger(path, tmp_path, end):
    filled(path).close()
    kept, place = path.read_bytes(), f"{path}{end}"
    with pytest.raises(InvalidParameter, match="file of its own"):
        open_ledger(path, checkpoint=place)
    with closing(open_ledger(path)) as ledger, pytest.raises(InvalidParameter, match="file of its own"):
        ledger.checkpoint(place)
    new = tmp_path / "new"
    with pytest.raises(InvalidParameter, match="file of its own"):
        chary.open(visits(), privacy_unit="patient", budget=USUAL, ledger=new, checkpoint=f"{new}{end}")
    assert not new.exists()
    assert path.read_bytes() == kept


def test_a_checkpoint_takes_the_place_of_no_other_file(path, checkpoint):
    ledger = filled(path)
    checkpoint.write_text("patient,visits\n1,3\n")
    with pytest.raises(InvalidParameter, match="another file"):
        ledger.checkpoint(checkpoint)
    with pytest.raises(LedgerError, match="is no checkpoint"):
        open_ledger(path, checkpoint=checkpoint)
    assert checkpoint.read_text() == "patient,visits\n1,3\n"
    for left in (b"", b"\0" * 512):  # of a checkpoint, after a crash
        checkpoint.write_bytes(left)
        assert ledger.checkpoint(checkpoint) == Checkpoint(checkpoint).read()
    ledger.close()


def test_an_older_copy_takes_no_checkpoint_that_knows_more(path, checkpoint, tmp_path):
    """It is the proof of the entries that are missing, and the command that makes one may be typed on any copy."""
    ledger = open_ledger(path, checkpoint=checkpoint)
    ledger.open(terms())
    ask(ledger)
    old = tmp_path / "old.ledger"
    old.write_bytes(path.read_bytes())
    ask(ledger)
    ledger.close()
    kept = checkpoint.read_bytes()
    with closing(open_ledger(old)) as copy:
        with pytest.raises(LedgerCorrupted, match=r"knows entry .* does not hold.* Move that file elsewhere"):
            copy.checkpoint(checkpoint)
        assert checkpoint.read_bytes() == kept
        checkpoint.rename(tmp_path / "proof")
        assert copy.checkpoint(checkpoint) == copy.head()
    open_ledger(old, checkpoint=checkpoint).close()
    with closing(open_ledger(path)) as ledger:
        # Of a checkpoint that is behind, all is known.
        assert ledger.checkpoint(checkpoint) == ledger.head()


@pytest.mark.parametrize("slot", [0, 1])
def test_a_torn_slot_leaves_the_other_and_two_are_refused(path, checkpoint, slot):
    ledger = open_ledger(path, checkpoint=checkpoint)
    ledger.open(terms())
    ask(ledger)
    ledger.close()
    content = bytearray(checkpoint.read_bytes())
    heads = [Checkpoint(checkpoint).read()]
    content[256 * slot + 20] ^= 1
    checkpoint.write_bytes(content)
    heads.append(Checkpoint(checkpoint).read())
    assert heads[0].entries - heads[1].entries == (heads[0].entries % 2 == slot)
    open_ledger(path, checkpoint=checkpoint).close()
    content[256 * (1 - slot) + 20] ^= 1
    checkpoint.write_bytes(content)
    with pytest.raises(LedgerCorrupted, match="checkpoint is damaged"):
        open_ledger(path, checkpoint=checkpoint)


def test_a_missing_checkpoint_is_never_made_silently(path, checkpoint):
    filled(path).close()
    with pytest.raises(LedgerError, match="there is no checkpoint"):
        open_ledger(path, checkpoint=checkpoint)
    ledger = open_ledger(path)
    assert ledger.checkpoint(checkpoint) == ledger.head() == Checkpoint(checkpoint).read()
    ledger.close()
    open_ledger(path, checkpoint=checkpoint).close()


def test_a_ledger_that_is_gone_is_no_new_one(tmp_path):
    place = {"ledger": tmp_path / "visits.ledger", "checkpoint": tmp_path / "elsewhere"}
    opened = partial(chary.open, visits(), privacy_unit="patient", budget=USUAL, **place)
    with opened() as session:
        session.release(chary.count(), epsilon="0.01")
    place["ledger"].unlink()
    with pytest.raises(LedgerCorrupted, match="is gone"):
        opened()
    assert not place["ledger"].exists()
