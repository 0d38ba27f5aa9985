"""Under an analyst's role the server itself refuses what is not the analyst's to do, whatever SQL is sent."""

from hashlib import sha256

import psycopg
import pytest

import chary
from chary.addresses import Address
from chary.calls import SparseVector
from chary.errors import LedgerError
from chary.ledger import Amount, Reservation, canonical, open_ledger
from chary.ledger.entries import ChainEntry, Kind, noting, opening, reserving, seal, settling, sharing, voiding
from chary.ledger.postgresql.schema import role_statements
from tests.session.kit import PUBLIC, USUAL, visits

from .kit import ANSWER, NORTH, QUESTION, SOUTH, ask, terms

APPEND = "SELECT append(ROW(" + ", ".join(["%s"] * 20) + ")::entries, %s)"
ANN = 'ann"s role'
LATER = ("origin", "basic", "parts")


def row_of(told, *more):
    """An entry as the columns follow each other: its hash, and what came later."""
    sealed, *rest = more
    values = {name: value for name, value in told.items() if name not in LATER}
    return (*values.values(), sealed, *(told[name] for name in LATER), *rest)


class Desk:
    """A ledger of the owner, and a connection of the analyst that takes any SQL."""

    def __init__(self, server):
        self.url = server.schema()
        self.schema = Address.parse(self.url).schema
        self.owner = open_ledger(self.url)
        self.owner.open(terms("visits", 100, 100))
        self.owner.set_quota("visits", ANN, Amount(50, 50))
        server.execute(role_statements(self.schema, [ANN, "bob"]))
        name = ANN.replace('"', "%22").replace(" ", "%20")
        self.ann_url = self.url.replace("admin@", f"{name}@")
        self.ann = open_ledger(self.ann_url)
        self.raw = server.connect(user=name)
        self.raw.execute(f"SET search_path = {self.schema}")

    def append(self, draft, answer="", head=None, sealed=None):
        """What a hand-written client sends: an entry after the head as it is, or after another one."""
        at = self.owner.head() if head is None else head
        entry = draft(at.entries + 1) if callable(draft) else draft
        told = {**entry._asdict(), "kind": str(entry.kind)}
        self.raw.execute(APPEND, row_of(told, sealed or seal(at.hash, entry), answer))

    def close(self):
        self.raw.close()
        self.ann.close()
        self.owner.close()


@pytest.fixture
def desk(postgres):
    made = Desk(postgres)
    yield made
    assert made.owner.verify().problems == []
    made.close()


def reserved(desk, worst=10, **changed):
    def draft(number):
        entry = reserving(number, "visits", ANN, "count", QUESTION, Amount(worst), None)
        return entry._replace(**changed)

    return draft


def test_an_analyst_s_process_asks_and_reads_what_is_public(desk):
    call = ask(desk.ann, analyst=ANN)
    assert desk.ann.call(call.call).answer == ANSWER
    running = desk.ann.reserve("visits", ANN, "count", QUESTION, Amount(1), "key")
    desk.ann.settle(running, Amount(1), 1, 1, ANSWER, b"mine", {call.call: b"x"})
    assert desk.ann.secret(running.call) == b"mine"
    assert (desk.ann.verify().problems, desk.ann.balance("visits").spent) == ([], Amount(2))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET main = 0",
        "DELETE FROM entries",
        "TRUNCATE entries CASCADE",
        "INSERT INTO entries SELECT * FROM entries",
        "UPDATE datasets SET spent_main = 0",
        "UPDATE datasets SET capacity_main = 1000",
        "UPDATE analysts SET cap_main = NULL",
        "UPDATE chain SET entries = 0",
        "SELECT * FROM chain FOR UPDATE",
        "DELETE FROM calls",
        "UPDATE calls SET state = 'voided'",
        "UPDATE answers SET answer = 'false'",
        "DELETE FROM answers",
        "SELECT * FROM secrets",
        "SELECT * FROM seals",
        "INSERT INTO secrets VALUES (3, 'x', '')",
        "UPDATE tallies SET hits = 0",
        "DELETE FROM alembic_version",
        "SELECT post_note(e) FROM entries e",
        "SELECT post_close(e, '') FROM entries e",
        "ALTER TABLE entries DISABLE TRIGGER ALL",
        "DROP TRIGGER entries_are_final ON entries",
        "CREATE TABLE more (id bigint)",
        "CREATE OR REPLACE FUNCTION by_owner() RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "CREATE TEMP TABLE t (id int); COPY t FROM '/etc/passwd'",
        "DROP SCHEMA {schema} CASCADE",
        "SET session_replication_role = replica",
        "SET SESSION AUTHORIZATION admin",
        "SET ROLE admin",
    ],
)
def test_no_statement_changes_what_is_recorded(desk, statement):
    ask(desk.ann, analyst=ANN)
    before = desk.owner.head(), desk.owner.balance("visits")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        desk.raw.execute(statement.format(schema=desk.schema))
    assert (desk.owner.head(), desk.owner.balance("visits")) == before


def test_entries_are_final_for_the_owner_as_well(desk, postgres):
    for statement in ("UPDATE {}.entries SET main = 0", "DELETE FROM {}.entries", "TRUNCATE {}.entries CASCADE"):
        with pytest.raises(psycopg.Error, match="entries are final"):
            postgres.execute(statement.format(desk.schema))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"main": 51}, "cap of the analyst"),
        ({"delta": 101}, "cap of the dataset"),
        ({"main": 2**62}, "cap of the dataset"),
        ({"main": -1}, "out of range"),
        ({"main": 2**62 + 1}, "out of range"),
        ({"back_main": 10}, "no reservation"),
        ({"hits": 1}, "no reservation"),
        ({"call": 1}, "no reservation"),
        ({"analyst": "bob"}, "of its own name"),
        ({"analyst": "admin"}, "of its own name"),
        ({"dataset": "trips"}, "no such dataset"),
        ({"kind": "share"}, "of its own name"),
        ({"kind": "gift"}, "of its own name"),
        ({"origin": "token 78a7bd606fcbbf7d"}, "asked through"),
        ({"main": 51, "parts": SOUTH.text}, "cap of the analyst"),
        ({"delta": 101, "parts": SOUTH.text}, "cap of the dataset"),
        ({"parts": '{"most":1,"names":[],"partition":"region"}'}, "as a ledger writes them"),
        ({"parts": '{"most":1,"names":["b","a"],"partition":"region"}'}, "as a ledger writes them"),
        ({"parts": '{"most":1,"names":["a","a"],"partition":"region"}'}, "as a ledger writes them"),
        ({"parts": '{"most":1,"names":["a",""],"partition":"region"}'}, "as a ledger writes them"),
        ({"parts": '{"most":1,"names":["a"],"partition":""}'}, "as a ledger writes them"),
        ({"parts": '{"most":0,"names":["a"],"partition":"region"}'}, "as a ledger writes them"),
        ({"parts": '{"most": 1,"names":["a"],"partition":"region"}'}, "as a ledger writes them"),
        ({"parts": '{"names":["a"],"partition":"region"}'}, "as a ledger writes them"),
        ({"parts": '{"most":2,"names":["north"],"partition":"region"}'}, "another number of parts"),
    ],
)
def test_a_reservation_keeps_to_the_rules(desk, changed, why):
    desk.append(reserved(desk, worst=0, parts=NORTH.text))
    with pytest.raises(psycopg.Error, match=why):
        desk.append(reserved(desk, **changed))
    desk.append(reserved(desk))
    assert desk.owner.balance("visits").spent == Amount(10)


@pytest.mark.parametrize(
    "missing", ["kind", "analyst", "call", "main", "back_main", "hits", "answer_hash", "created", *LATER]
)
def test_what_is_missing_is_refused_also_with_the_hash_that_the_server_gives_it(desk, missing):
    at = desk.owner.head()
    told = {**reserved(desk)(at.entries + 1)._asdict(), "kind": "reserve", missing: None}
    row = f"ROW({', '.join(['%s'] * 20)})::entries"
    sealed = desk.owner.store.transactions.wire.driver.execute(
        f"SELECT seal(%s, {row})", (at.hash, *row_of(told, ""))
    ).fetchone()
    with pytest.raises(psycopg.Error):
        desk.raw.execute(APPEND, row_of(told, *sealed, ""))
    assert desk.owner.head() == at


def test_the_chain_is_continued_and_never_forked(desk):
    first = desk.owner.head()
    desk.append(reserved(desk))
    with pytest.raises(psycopg.Error, match="does not continue the chain"):
        desk.append(reserved(desk), head=first)
    with pytest.raises(psycopg.Error, match="does not continue the chain"):
        desk.append(reserved(desk), sealed="0" * 64)
    with pytest.raises(psycopg.Error, match="does not continue the chain"):
        desk.append(reserved(desk)(first.entries + 7))


def test_only_an_open_call_of_one_s_own_is_settled_once_and_for_its_price(desk):
    mine = desk.ann.reserve("visits", ANN, "count", QUESTION, Amount(10))
    theirs = desk.owner.reserve("visits", "bob", "count", QUESTION, Amount(10))
    entries = {call.number: call for call in desk.owner.calls("visits")}

    def settled(number, **changed):
        held = reserving(number, "visits", entries[number].analyst, "count", QUESTION, Amount(10), None)
        return lambda at: settling(at, held, Amount(4), 1, 1, ANSWER)._replace(**changed)

    for draft, why in (
        (settled(mine.call, back_main=7), "another price"),
        (settled(mine.call, main=0, back_main=11), "another price"),
        (settled(mine.call, main=14, back_main=-4), "out of range"),
        (settled(mine.call, label="test"), "another price"),
        (settled(mine.call, call=1), "another price"),
        (settled(mine.call, call=999), "another price"),
        (settled(mine.call, answer_hash=sha256(b"else").hexdigest()), "not that of this answer"),
        (settled(theirs.call), "of its own name"),
        (settled(theirs.call, analyst=ANN), "another price"),
    ):
        with pytest.raises(psycopg.Error, match=why):
            desk.append(draft, ANSWER)
    desk.append(settled(mine.call), ANSWER)
    with pytest.raises(psycopg.Error, match="closes no open call"):
        desk.append(settled(mine.call), ANSWER)
    assert desk.owner.balance("visits").spent == Amount(14)


def test_an_analyst_neither_voids_nor_opens_nor_caps_nor_notes(desk):
    call = desk.ann.reserve("visits", ANN, "count", QUESTION, Amount(10))
    held = reserving(call.call, "visits", ANN, "count", QUESTION, Amount(10), None)
    drafts = (
        lambda number: voiding(number, held),
        lambda number: opening(number, terms("trips")),
        lambda number: sharing(number, "visits", ANN, Amount(100, 100)),
        lambda number: noting(number, "visits", "append", "{}"),
    )
    for draft in drafts:
        with pytest.raises(psycopg.Error, match="of its own name"):
            desk.append(draft)
    with pytest.raises(LedgerError, match="of its own name"):
        desk.ann.void(call)
    desk.ann.settle(call, Amount(10), 1, 1, ANSWER)
    with pytest.raises(psycopg.Error, match="of its own name"):
        desk.append(drafts[0])


def test_a_key_is_answered_once(desk):
    first = desk.ann.reserve("visits", ANN, "count", QUESTION, Amount(1), "key")
    first.leave()
    second = desk.ann.reserve("visits", ANN, "count", QUESTION, Amount(1), "key")
    desk.ann.settle(first, Amount(1), 1, 1, ANSWER)
    held = reserving(second.call, "visits", ANN, "count", QUESTION, Amount(1), "key")
    with pytest.raises(psycopg.Error, match="settled before"):
        desk.append(lambda number: settling(number, held, Amount(0), 0, 0, "false"), "false")
    with pytest.raises(psycopg.Error, match="settled before"):
        desk.append(reserved(desk, request="key"))


def test_secrets_of_others_are_neither_read_nor_written_and_one_s_own_only_with_a_settle(desk):
    theirs = desk.owner.reserve("visits", "bob", "count", QUESTION, Amount(1))
    desk.owner.settle(theirs, Amount(0), 0, 0, ANSWER, b"hidden")
    mine = desk.ann.reserve("visits", ANN, "count", QUESTION, Amount(1))
    desk.ann.settle(mine, Amount(0), 0, 0, ANSWER, b"own")
    for statement in ("SELECT * FROM secret_of(%s)", "SELECT digest_of(%s)", "SELECT drop_secret(%s)"):
        with pytest.raises(psycopg.Error, match="another analyst"):
            desk.raw.execute(statement, (theirs.call,))
    with pytest.raises(LedgerError, match="another analyst") as told:
        desk.ann.secret(theirs.call)
    assert "hidden" not in repr(told.value.__context__)
    for statement in ("SELECT drop_secret(%s)", "SELECT put_secret(%s, 'new')"):
        with pytest.raises(psycopg.Error, match="never by themselves"):
            desk.raw.execute(statement, (mine.call,))
    call = desk.ann.reserve("visits", ANN, "count", QUESTION, Amount(1))
    with pytest.raises(LedgerError, match="another analyst"):
        desk.ann.settle(call, Amount(0), 0, 0, ANSWER, None, {theirs.call: b"new"})
    assert desk.owner.secret(theirs.call) == b"hidden"


def test_a_role_without_rights_sees_nothing(desk, postgres):
    postgres.execute("DO $$ BEGIN CREATE ROLE stranger LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    with pytest.raises(LedgerError, match="may not do this"):
        open_ledger(desk.url.replace("admin@", "stranger@"))


def test_the_server_hashes_as_every_ledger_does(desk, postgres):
    texts = [
        "",
        "plain",
        'quo"te \\ / \b\f\n\r\t\x01\x1f',
        "\x7f",
        "é ü ß",
        "日本",
        "\u2028",
        "😀 \U0010ffff",
        "</script>",
    ]
    for words in texts:
        entry = ChainEntry(7, Kind.RESERVE, words, words, 7, words, canonical({"a": words}), words or None, 2**62, 1)
        entry = entry._replace(origin=words, parts=words)
        told = {**entry._asdict(), "kind": str(entry.kind)}
        places = ", ".join(["%s"] * 20)
        found = desk.owner.store.transactions.wire.driver.execute(
            f"SELECT seal(%s, ROW({places})::entries)", ("0" * 64, *row_of(told, ""))
        ).fetchone()
        assert found == (seal("0" * 64, entry),)


def test_a_reservation_of_another_number_is_not_closed(desk):
    with pytest.raises(LedgerError, match="no call 99"):
        desk.ann.settle(Reservation(99), Amount(0), 0, 0, ANSWER)


def test_a_session_under_an_analyst_s_role_asks_runs_and_replays(postgres):
    url = postgres.schema()
    usual = {**PUBLIC, "dataset": "visits", "budget": USUAL}
    with chary.open(visits(), ledger=url, analyst="owner", **usual) as session:
        session.test(chary.count(), above=1, epsilon="0.01")
    postgres.execute(role_statements(Address.parse(url).schema, ["ann"]))
    mine = {**usual, "ledger": url.replace("admin@", "ann@"), "analyst": "ann"}
    with chary.open(visits(), **mine) as session:
        first = session.release(chary.count(), epsilon="0.01", request="monday")
        run = session.start(SparseVector(above=10**6, hits=1, epsilon="0.05"))
        assert not run.ask(chary.count()).above
        call = run.call
    with chary.open(visits(), **mine) as session:
        assert session.release(chary.count(), epsilon="0.01", request="monday") == first
        assert not session.resume(call).ask(chary.count("age >= 65")).above
        assert [entry.analyst for entry in session.history].count("ann") >= 3
        assert session.spine.ledger.verify().ok
        with pytest.raises(LedgerError, match="of its own name"):
            session.spine.ledger.set_quota("visits", "ann", session.spine.filter.capacity)
    other = mine | {"analyst": "bob"}
    with chary.open(visits(), **other) as session, pytest.raises(LedgerError, match="of its own name"):
        session.test(chary.count(), above=1, epsilon="0.01")


def test_what_a_role_makes_up_hides_nothing_from_the_owner(postgres):
    url = postgres.schema()
    usual = {**PUBLIC, "dataset": "visits", "budget": USUAL, "ledger": url, "analyst": "owner"}
    with chary.open(visits(), **usual) as session:
        first = session.release(chary.count(), epsilon="0.01").call
    postgres.execute(role_statements(Address.parse(url).schema, ["ann"]))
    ann = open_ledger(url.replace("admin@", "ann@"))
    made_up = [
        ("release", "no {json", ANSWER),
        ("release", "[1]", ANSWER),
        ("best_of_call", "none", "x"),
        ("odd", "{}", "no"),
    ]
    numbers = []
    for kind, body, answer in made_up:
        held = ann.reserve("visits", "ann", kind, body, Amount(1))
        ann.settle(held, Amount(1), 0, 0, answer)
        numbers.append(held.call)
    ann.close()
    with chary.open(visits(), **usual) as session:
        last = session.release(chary.count("age >= 65"), epsilon="0.01").call
        history = {entry.call: entry for entry in session.history}
        assert [number for number, entry in history.items() if entry.damage] == numbers
        assert (history[first].damage, history[first].answer is not None) == ("", True)
        assert "is no JSON" in history[numbers[0]].damage
        assert history[numbers[0]].question == {}
        told = {call.call: call.outcome for call in chary.report.report(session).datasets[0].calls}
        assert list(told) == [first, *numbers, last]
        assert [number for number, outcome in told.items() if "is no JSON" in outcome] == numbers
        assert [finding.call for finding in chary.session.session.findings(session)] == [first, last]
        assert chary.session.session.plain_composition(session).calls == 2
        assert session.spine.ledger.verify().ok
