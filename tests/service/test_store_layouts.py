"""The layout of the service's own database: older ones are brought up, newer ones refused, on a file and a server."""

import threading

import pytest
from sqlalchemy import Column, MetaData, String, Table, create_engine, inspect

from chary.errors import LedgerError
from chary.service import store as service_layouts
from chary.service.auth.tokens import BearerTokens
from chary.service.core.alerts import Feed, News, StandingBook
from chary.service.core.requests import Wish
from chary.service.store import LAYOUT, RATES, TOKENS, ServiceStore, add_column


@pytest.fixture(params=["file", "server"])
def place(request, tmp_path):
    """Where a store is: none is there yet."""
    if request.param == "file":
        return tmp_path / "service.db"
    return request.getfixturevalue("postgres").schema().replace("schema=ledger", "schema=store")


def changed(place, *statements):
    """What a store is after these statements: another version's work."""
    store = ServiceStore(place)
    with store.transaction() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    store.close()


def layout(store):
    return [number for (number,) in store.rows(LAYOUT.select())]


def columns(store, table):
    with store.transaction() as connection:
        return [each["name"] for each in inspect(connection).get_columns(table)]


def test_a_store_has_the_layout_of_its_version_however_often_it_is_opened(place):
    for _ in range(2):
        store = ServiceStore(place)
        assert layout(store) == [1 + len(service_layouts.STEPS)]
        store.close()


def test_a_store_without_a_number_has_the_first_layout_and_keeps_what_is_in_it(place, monkeypatch):
    first = ServiceStore(place)
    token = BearerTokens(first).make("alice", roles=["analyst"], datasets=["*"], days=1)
    first.close()
    changed(place, "DROP TABLE chary_layout")
    seen = []
    steps = (lambda connection: seen.append(1), lambda connection: seen.append(2))
    monkeypatch.setattr(service_layouts, "STEPS", steps)
    for _ in range(2):
        store = ServiceStore(place)
        assert layout(store) == [3]
        assert BearerTokens(store).recognise(token).analyst == "alice"
        store.close()
    assert seen == [1, 2]


def test_only_the_steps_that_are_missing_are_taken(place, monkeypatch):
    seen = []
    for upto in (1, 3):
        steps = tuple(lambda connection, number=number: seen.append(number) for number in range(upto))
        monkeypatch.setattr(service_layouts, "STEPS", steps)
        changed(place)
        changed(place, "UPDATE chary_layout SET number = 2")
    assert seen == [1, 2]


def test_a_step_adds_a_column_once_and_rows_have_its_default(place):
    store = ServiceStore(place)
    store.change(RATES.insert().values(name="alice", left=1.0, at=2.0))
    later = Table("chary_rates", MetaData(), Column("left", String), Column("right", String(8), server_default="x"))
    with store.transaction() as connection:
        for column in (later.c.left, later.c.right, later.c.right):
            add_column(connection, column)
        assert connection.execute(later.select().with_only_columns(later.c.right)).all() == [("x",)]
    assert columns(store, "chary_rates") == ["name", "left", "at", "right"]
    store.close()


def test_a_newer_layout_is_refused_and_nothing_is_changed(place):
    changed(place, "UPDATE chary_layout SET number = 99", "DROP TABLE chary_told")
    with pytest.raises(LedgerError, match="newer version of chary: update this one"):
        ServiceStore(place)
    engine = create_engine(f"sqlite:///{place}") if "://" not in str(place) else None
    if engine is not None:
        assert not inspect(engine).has_table("chary_told")
        engine.dispose()


def test_a_step_that_fails_leaves_the_layout_as_it_was(place, monkeypatch):
    changed(place)

    def failing(connection):
        connection.execute(TOKENS.delete())
        raise LedgerError("no")

    first = ServiceStore(place)
    token = BearerTokens(first).make("alice", roles=["analyst"], datasets=["*"], days=1)
    before = layout(first)
    first.close()
    with monkeypatch.context() as patched:
        patched.setattr(service_layouts, "STEPS", (*service_layouts.STEPS, failing))
        with pytest.raises(LedgerError, match="no"):
            ServiceStore(place)
    store = ServiceStore(place)
    assert layout(store) == before
    assert BearerTokens(store).recognise(token).analyst == "alice"
    store.close()


def test_makers_at_the_same_time_take_each_step_once(place, monkeypatch):
    changed(place, "DROP TABLE chary_layout")
    seen = []
    monkeypatch.setattr(service_layouts, "STEPS", (lambda connection: seen.append(1),))
    made = []
    threads = [threading.Thread(target=lambda: made.append(ServiceStore(place))) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (len(made), seen) == (4, [1])
    for store in made:
        store.close()


def test_what_stood_and_was_told_before_alerts_had_a_severity_is_read(place):
    """A store of the first layout, as an earlier version left it."""
    first = ServiceStore(place)
    who = BearerTokens(first).recognise(BearerTokens(first).make("alice", roles=["analyst"], datasets=["*"], days=1))
    terms = {"every": "append", "share": "0.5", "tell": "hits", "webhook": None}
    wish = Wish("ask", {"kind": "test", "query": {"kind": "count"}, "above": "5", "epsilon": "0.1"})
    before = StandingBook(first).add(who, "visits", wish, 3, **terms)
    Feed(first).add(before, News("hit", 4, 7, ""))
    news = Feed(first).since("visits")
    first.close()
    added = {"chary_standing": ("resumed", "silenced")}
    added["chary_told"] = ("severity", "note", "groups", "silenced", "acknowledged", "acknowledged_by")
    gone = [f"ALTER TABLE {table} DROP COLUMN {name}" for table, names in added.items() for name in names]
    changed(place, *gone, "UPDATE chary_layout SET number = 1")
    store = ServiceStore(place)
    assert StandingBook(store).found(before.standing) == before
    assert Feed(store).since("visits") == news
    assert (news[0]["kind"], news[0]["groups"], news[0]["severity"]) == ("hit", [], None)
    store.close()
