"""A ledger moves between a file and a server: the same chain afterwards, and only one place where it is charged."""

import pytest

from chary.errors import InvalidParameter, LedgerCorrupted, LedgerError
from chary.ledger import Amount, open_ledger
from chary.ledger import locations as module
from chary.ledger.locations import bare, move
from chary.ledger.sql import schema
from chary.ledger.sql.schema import ARRIVING

from .damage_kit import told
from .kit import ANSWER, QUESTION, ask, filled, place, raw, terms

WAYS = [("sql", "postgresql"), ("postgresql", "sql"), ("sql", "sql")]


@pytest.fixture(params=WAYS, ids="-".join)
def ways(request, tmp_path):
    """Where a filled ledger is, and where it may go."""
    source = place(request.param[0], tmp_path, request)
    filled(source).close()
    (tmp_path / "new").mkdir()
    return source, place(request.param[1], tmp_path / "new", request)


def test_everything_is_there_afterwards_and_goes_on(ways):
    source, target = ways
    old = open_ledger(source)
    expected, head = told(old), old.head()
    old.close()
    assert move(source, target, with_open_calls=True) == head
    new = open_ledger(target)
    assert (told(new), new.head(), new.verify().ok) == (expected, head, True)
    ask(new, dataset="trips")
    assert new.verify().ok
    new.close()


def test_nothing_is_charged_at_the_old_place_any_more_not_even_by_who_has_it_open(ways):
    source, target = ways
    early = open_ledger(source)
    running = early.reserve("trips", "ann", "count", QUESTION, Amount(1))
    move(source, target, with_open_calls=True)
    for act in (
        lambda: ask(early, dataset="trips"),
        lambda: early.settle(running, Amount(0), 0, 0, ANSWER),
        lambda: early.note("trips", "append", "{}"),
        lambda: open_ledger(source),
        lambda: move(source, target + "x"),
    ):
        with pytest.raises((LedgerError, InvalidParameter), match="moved"):
            act()
    early.close()
    new = open_ledger(target)
    assert new.balance("trips").open == Amount(6, 5)
    new.close()


def test_open_calls_keep_it_where_it_is_unless_said(ways):
    source, target = ways
    with pytest.raises(LedgerError, match="1 calls are reserved and not settled"):
        move(source, target)
    ledger = open_ledger(source)
    ask(ledger, dataset="trips")
    ledger.close()


def test_a_place_that_is_taken_and_a_source_that_is_not_there_are_refused(ways):
    source, target = ways
    other = open_ledger(target)
    other.open(terms())
    other.close()
    with pytest.raises(InvalidParameter, match="something at the target"):
        move(source, target, with_open_calls=True)
    with pytest.raises(InvalidParameter, match="no ledger to move"):
        move(source + "x", target)


@pytest.mark.parametrize(("place", "step"), [(schema, "depart"), (module, "_activate")])
def test_a_move_that_was_cut_off_leaves_one_place_to_charge_and_is_finished_by_the_same_call(
    ways, monkeypatch, place, step
):
    source, target = ways

    def cut(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place, step, cut)
        with pytest.raises(KeyboardInterrupt):
            move(source, target, with_open_calls=True)
    with pytest.raises(LedgerError, match="still arriving"):
        open_ledger(target)
    if step == "depart":
        open_ledger(source).close()
    else:
        with pytest.raises(LedgerError, match="moved to"):
            open_ledger(source)
    head = move(source, target, with_open_calls=True)
    new = open_ledger(target)
    assert (new.head(), new.verify().ok) == (head, True)
    new.close()


def test_whoever_had_the_empty_target_open_charges_nothing_before_the_source_has_left(ways, monkeypatch):
    source, target = ways
    early = open_ledger(target)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "depart", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            move(source, target, with_open_calls=True)
    with pytest.raises(LedgerError, match="moved"):
        ask(early, dataset="trips")
    head = move(source, target, with_open_calls=True)
    assert early.head() == head
    ask(early, dataset="trips")
    assert early.verify().ok
    early.close()


def test_a_target_that_is_gone_or_another_is_not_taken_for_the_ledger(tmp_path):
    source, target = tmp_path / "test.ledger", tmp_path / "new.ledger"
    filled(source).close()
    move(source, target, with_open_calls=True)
    target.unlink()
    with pytest.raises(LedgerError, match="not there any more"):
        move(source, target)
    assert not target.exists()
    open_ledger(target).close()
    with pytest.raises(LedgerCorrupted, match="not the ledger that moved"):
        move(source, target)


def test_what_arrived_before_the_source_went_on_is_not_taken(ways, monkeypatch):
    source, target = ways
    monkeypatch.setattr(schema, "depart", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        move(source, target, with_open_calls=True)
    monkeypatch.undo()
    ledger = open_ledger(source)
    ask(ledger, dataset="trips")
    ledger.close()
    with pytest.raises(InvalidParameter, match="something at the target"):
        move(source, target, with_open_calls=True)


def test_a_ledger_that_does_not_verify_stays(tmp_path):
    filled(tmp_path / "test.ledger").close()
    raw(tmp_path / "test.ledger", "UPDATE answers SET answer = 'false'")
    with pytest.raises(LedgerCorrupted, match="so it stays"):
        move(tmp_path / "test.ledger", tmp_path / "new.ledger", with_open_calls=True)
    assert not (tmp_path / "new.ledger").exists()


def test_an_unfinished_one_is_marked(tmp_path, monkeypatch):
    filled(tmp_path / "test.ledger").close()
    monkeypatch.setattr(module, "_activate", lambda *_: None)
    move(tmp_path / "test.ledger", tmp_path / "new.ledger", with_open_calls=True)
    store, _ = bare(tmp_path / "new.ledger")
    with store.reading() as connection:
        assert connection.exec_driver_sql("SELECT format FROM chain").scalar() == ARRIVING
    store.close()
    with pytest.raises(LedgerError, match="arriving"):
        open_ledger(tmp_path / "new.ledger")
