"""What an entry was asked through stands in the chain; entries without it are those that they always were."""

import pytest

from chary.errors import InvalidParameter, LedgerCorrupted
from chary.ledger import Amount, open_ledger
from chary.ledger.entries import GENESIS, ChainEntry, Kind, seal
from chary.ledger.locations import move
from chary.service.core.audit_trail import asked_through

from .kit import ANSWER, QUESTION, place, raw, terms

TOKEN = "token 78a7bd606fcbbf7d"


def asked(ledger):
    """A share, a call and a note through a token, and a call without."""
    through = asked_through(ledger, TOKEN)
    through.set_quota("visits", "ann", Amount(9, 9))
    call = through.reserve("visits", "ann", "count", QUESTION, Amount(4), request="monday")
    through.settle(call, Amount(1), 1, 1, ANSWER)
    through.note("visits", "append", "{}")
    return call.call, ledger.reserve("visits", "bob", "count", QUESTION, Amount(1)).call


def test_calls_shares_and_notes_say_what_they_were_asked_through(ledger):
    through, plain = asked(ledger)
    assert (ledger.call(through).origin, ledger.call(plain).origin) == (TOKEN, "")
    assert ledger.last_note("visits").origin == TOKEN
    origins = {(line["kind"], line["analyst"]): line["origin"] for line in ledger.export("visits")}
    assert origins["share", "ann"] == origins["reserve", "ann"] == origins["note", ""] == TOKEN
    assert origins["open", ""] == origins["settle", "ann"] == origins["reserve", "bob"] == ""
    assert ledger.verify().ok


def test_a_key_has_its_answer_whatever_it_is_asked_through(ledger):
    call, _ = asked(ledger)
    elsewhere = asked_through(ledger, "token 1f")
    assert elsewhere.replay("visits", "ann", "monday", "count", QUESTION).number == call
    assert ledger.last_settled("visits", "count", QUESTION).origin == TOKEN


def test_what_no_engine_stores_is_refused(ledger):
    for wrong in ("a\0b", "\ud800"):
        with pytest.raises(InvalidParameter, match="origin"):
            asked_through(ledger, wrong).note("visits", "append", "{}")


def test_the_hash_of_an_entry_without_an_origin_is_that_of_earlier_versions():
    entry = ChainEntry(1, Kind.NOTE, "visits", label="rows")
    assert seal(GENESIS, entry) == "084f36892c4407791b86eb4c0892bb05abedf2dedee7bbe416f251e7a1733dcb"
    assert seal(GENESIS, entry._replace(origin=TOKEN)) != seal(GENESIS, entry)


@pytest.mark.parametrize("new", ["token 1f", ""])
@pytest.mark.parametrize("kind", ["share", "reserve", "note"])
def test_a_changed_or_removed_origin_is_found(tmp_path, kind, new):
    path = tmp_path / "test.ledger"
    with_origin = open_ledger(path)
    with_origin.open(terms())
    asked(with_origin)
    raw(path, f"UPDATE entries SET origin = '{new}' WHERE kind = '{kind}' AND origin <> ''")
    problems = with_origin.verify().problems
    with_origin.close()
    assert any("hash does not follow" in problem for problem in problems)
    assert not any(TOKEN in problem for problem in problems)
    with pytest.raises(LedgerCorrupted, match="chain breaks"):
        open_ledger(path)


def test_an_origin_that_was_put_where_there_was_none_is_found(tmp_path):
    path = tmp_path / "test.ledger"
    made = open_ledger(path)
    made.open(terms())
    raw(path, "UPDATE entries SET origin = 'token 1f' WHERE kind = 'open'")
    assert not made.verify().ok
    made.close()


def test_a_file_of_an_earlier_version_is_opened_and_takes_origins(tmp_path):
    path = tmp_path / "test.ledger"
    old = open_ledger(path)
    old.open(terms())
    before = old.head()
    old.close()
    raw(path, "ALTER TABLE entries DROP COLUMN origin")
    new = open_ledger(path)
    assert (new.head(), new.verify().ok) == (before, True)
    asked(new)
    assert new.verify().ok
    new.close()


def test_origins_move_with_the_ledger(tmp_path, request):
    path, target = tmp_path / "test.ledger", place("postgresql", tmp_path, request)
    source = open_ledger(path)
    source.open(terms())
    call, _ = asked(source)
    source.close()
    move(path, target, with_open_calls=True)
    arrived = open_ledger(target)
    assert (arrived.call(call).origin, arrived.verify().ok) == (TOKEN, True)
    arrived.close()
