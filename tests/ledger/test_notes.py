"""What a ledger records about a dataset itself."""

import threading

import pytest

from chary.errors import LedgerError
from chary.ledger import Amount, Terms, VersionMoved

from .kit import KINDS, make


@pytest.fixture(params=KINDS)
def ledger(request, tmp_path):
    made = make(request.param, tmp_path, request)
    for name in ("visits", "trips"):
        made.open(Terms(name, "ab12", "{}", Amount(10)))
    yield made
    made.close()


def test_notes_come_back_in_order_with_their_versions(ledger):
    assert (ledger.notes("visits"), ledger.last_note("visits")) == ([], None)
    assert ledger.note("visits", "append", '{"size":3}') == 1
    assert ledger.note("trips", "append", "{}") == 1
    assert ledger.note("visits", "found", '{"size":4}') == 2
    ledger.reserve("visits", "ann", "count", "{}", Amount(1))
    told = [(note.version, note.kind, note.body) for note in ledger.notes("visits")]
    assert told == [(1, "append", '{"size":3}'), (2, "found", '{"size":4}')]
    assert ledger.last_note("visits") == ledger.notes("visits")[-1]
    assert ledger.notes("visits")[0].created <= ledger.notes("visits")[1].created
    assert ledger.verify().ok
    for ask in (ledger.notes, ledger.last_note):
        with pytest.raises(LedgerError):
            ask("nothing")


def test_a_note_after_another_version_changes_nothing(ledger):
    assert ledger.note("visits", "append", "{}", after=0) == 1
    for stale in (0, 2):
        with pytest.raises(VersionMoved):
            ledger.note("visits", "append", "{}", after=stale)
    assert (ledger.version("visits"), len(ledger.notes("visits"))) == (1, 1)
    assert ledger.note("visits", "append", "{}", after=1) == 2
    assert ledger.verify().ok


def test_of_many_at_once_one_gets_each_version(ledger):
    got = []

    def take():
        for version in range(20):
            try:
                got.append(ledger.note("visits", "append", "{}", after=version))
            except VersionMoved:
                continue

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(1, 21))
