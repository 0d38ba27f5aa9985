"""The schema: made, recognised, migrated; a server that keeps its promise; forks, threads and older states."""

import gc
import os
import threading

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select

import chary
from chary.addresses import Address
from chary.cli import run
from chary.errors import InvalidParameter, LedgerCorrupted, LedgerError, LedgerLocked, RequestInFlight
from chary.ledger import Amount, ledger_exists, open_ledger
from chary.ledger.locations import _TABLES, _rows, bare
from chary.ledger.postgresql.connection import Wire
from chary.ledger.postgresql.schema import LAYOUTS, laid_out, prepare
from chary.ledger.records import CapReached
from chary.ledger.sql.schema import BASIC, chain, datasets, departures, entries, metadata
from tests.servers.postgres import running
from tests.session.kit import PUBLIC, USUAL, visits

from .damage_kit import told
from .kit import QUESTION, ask, filled, terms


def test_a_server_that_is_not_there_is_told_at_once():
    with pytest.raises(LedgerError, match="cannot be reached") as told:
        open_ledger("postgresql://ann:pw4711@127.0.0.1:1/base")
    assert "4711" not in repr(told.value.__context__)
    with pytest.raises(LedgerError, match="cannot be reached"):
        ledger_exists("postgresql://127.0.0.1:1/base")


def test_a_ledger_is_made_once_and_found_again(postgres):
    url = postgres.schema()
    assert (laid_out(url), ledger_exists(url)) == (False, False)
    made = []
    threads = [threading.Thread(target=lambda: made.append(open_ledger(url))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made[0].open(terms())
    assert [ledger.verify().entries for ledger in made] == [1] * 4
    for ledger in made:
        ledger.close()
    assert laid_out(url)
    assert "postgresql" in repr(made[0])


def test_ledgers_in_one_database_know_nothing_of_each_other(postgres):
    one, two = (open_ledger(postgres.schema()) for _ in range(2))
    one.open(terms())
    assert (len(one.datasets()), len(two.datasets())) == (1, 0)
    one.close()
    two.close()


def test_the_newest_layout_has_the_tables_that_the_statements_use(postgres):
    ledger = open_ledger(postgres.schema())
    core = ledger.store.transactions.wire.core
    found = compare_metadata(MigrationContext.configure(core), metadata)
    # That index ends with the number here; on SQLite every index does.
    assert {(change[0], change[1].name) for change in found} == {
        ("remove_index", "calls_of_dataset"),
        ("add_index", "calls_of_dataset"),
        ("remove_table", departures.name),
    }
    ledger.close()


def test_an_older_layout_is_migrated_with_everything_in_it(postgres, tmp_path):
    old = filled(tmp_path / "test.ledger")
    url, expected = postgres.schema(), told(old)
    address = Address.parse(url)
    wire = Wire(address, 10)
    prepare(wire, address, 10, LAYOUTS[0])
    source, _ = bare(tmp_path / "test.ledger")
    with source.reading() as connection:
        said = [dict(row) for row in connection.execute(select(entries)).mappings()]
        for row in said:
            del row["origin"], row["basic"], row["parts"]  # which no entry had then
        wire.core.execute(entries.insert(), said)
        whole = [dict(row) for row in connection.execute(select(datasets)).mappings()]
        wire.core.execute(datasets.insert(), [{name: row[name] for name in row if name not in BASIC} for row in whole])
        for table in _TABLES[2:]:
            _rows(connection, wire.core, table)
        wire.core.execute(chain.update(), {"entries": old.head().entries, "head": old.head().hash})
    wire.close()
    source.close()
    postgres.execute("DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    postgres.execute(f"GRANT USAGE ON SCHEMA {address.schema} TO reader")
    postgres.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {address.schema} TO reader")
    with pytest.raises(LedgerError, match="may not do this"):
        open_ledger(url.replace("admin@", "reader@"))
    new = open_ledger(url)
    assert (told(new), new.verify().problems) == (expected, [])
    ask(new, dataset="trips")
    new.close()
    old.close()


def test_a_newer_layout_is_refused(postgres):
    url = postgres.schema()
    open_ledger(url).close()
    postgres.execute(f"UPDATE {Address.parse(url).schema}.alembic_version SET version_num = '999'")
    with pytest.raises(LedgerError, match="newer version of chary"):
        open_ledger(url)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("UPDATE datasets SET spent_main = spent_main + 1 WHERE name = 'trips'", "running totals"),
        ("UPDATE chain SET head = repeat('a', 64)", "does not end in the recorded head"),
        ("DELETE FROM entries WHERE number = 11", "numbering"),
        ("UPDATE entries SET main = main + 1 WHERE number = 3", "chain breaks|sums"),
        ("UPDATE secrets SET secret = 'x', digest = repeat('b', 64)", "different moments"),
        ("UPDATE calls SET charged_main = 9223372036854775807", "running totals|overflow"),
        ("DELETE FROM chain", "head of the chain is missing"),
        ("UPDATE chain SET format = 7", "format 7"),
    ],
)
def test_damage_by_whoever_may_do_everything_is_found_at_opening(postgres, damage, why):
    url = postgres.schema()
    filled(url).close()
    with postgres.connect() as admin:
        admin.execute(f"SET search_path = {Address.parse(url).schema}; SET session_replication_role = replica")
        admin.execute(damage)
    with pytest.raises(LedgerError, match=why):
        open_ledger(url)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("UPDATE answers SET answer = 'no' WHERE call = 4", "call 4: its answer was changed, removed or added"),
        (
            "DELETE FROM tallies WHERE dataset = 'trips'",
            "dataset 'trips': its tallies differ from what the entries say",
        ),
        ("UPDATE secrets SET secret = 'x'", "call 4: its secret was changed"),
        (
            "UPDATE calls SET request = 'm' WHERE number = 4",
            "call 4: it is missing or differs from what the entries say",
        ),
    ],
)
def test_the_rest_of_it_is_found_by_a_verification(postgres, damage, problem):
    url = postgres.schema()
    filled(url).close()
    with postgres.connect() as admin:
        admin.execute(f"SET search_path = {Address.parse(url).schema}; SET session_replication_role = replica")
        admin.execute(damage)
    ledger = open_ledger(url)
    assert ledger.verify().problems == [problem]
    ledger.close()


def test_a_server_restored_to_an_older_state_is_refused(postgres, tmp_path):
    """By the process that has it open, and by the checkpoint for others."""
    old, checkpoint = postgres.database(), tmp_path / "visits.checkpoint"
    ledger = open_ledger(postgres.url(old), checkpoint=checkpoint)
    ledger.open(terms("visits", 100, 100))
    ledger.store.transactions.disconnect()
    kept = postgres.database()
    postgres.execute(f"DROP DATABASE {kept}")
    postgres.execute(f"CREATE DATABASE {kept} TEMPLATE {old}")
    ask(ledger)
    open_ledger(postgres.url(old), checkpoint=checkpoint).close()
    ledger.store.transactions.disconnect()
    postgres.execute(f"ALTER DATABASE {old} RENAME TO {old}_lost")
    postgres.execute(f"ALTER DATABASE {kept} RENAME TO {old}")
    for act in (lambda: ask(ledger), lambda: ledger.balance("visits")):
        with pytest.raises(LedgerCorrupted, match="older or another copy"):
            act()
    with pytest.raises(LedgerCorrupted, match="older or another copy"):
        open_ledger(postgres.url(old), checkpoint=checkpoint)
    open_ledger(postgres.url(old)).close()
    ledger.close()


def test_the_checkpoint_is_behind_nobody(postgres, tmp_path):
    """Several processes tell it after their commits, in any order."""
    url, checkpoint = postgres.schema(), tmp_path / "visits.checkpoint"
    ledgers = [open_ledger(url, checkpoint=checkpoint) for _ in range(3)]
    ledgers[0].open(terms("visits", 1000, 1000))
    threads = [threading.Thread(target=lambda each=each: [ask(each) for _ in range(8)]) for each in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledgers[0].store.transactions.bookmark.checkpoint.read() == ledgers[0].head()
    for each in ledgers:
        each.close()


def test_commits_are_durable_whatever_the_role_is_used_to(postgres):
    url = postgres.schema()
    postgres.execute("ALTER ROLE admin SET synchronous_commit = off")
    ledger = open_ledger(url)
    asked = "SELECT current_setting('synchronous_commit'), current_setting('lock_timeout')"
    assert ledger.store.transactions.wire.driver.execute(asked).fetchone() == ("on", "2s")
    ledger.close()
    postgres.execute("ALTER ROLE admin RESET synchronous_commit")


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_may_forget_is_refused(setting):
    with running(**{setting: "off"}) as server, pytest.raises(LedgerError, match="does not write durably"):
        open_ledger(server.url())


def test_a_database_of_another_encoding_is_refused(postgres):
    postgres.execute("DROP DATABASE IF EXISTS latin")
    postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(LedgerError, match="UTF8"):
        open_ledger(postgres.url("latin"))


def test_refusals_one_after_another_do_no_harm(postgres):
    ledger = open_ledger(postgres.schema())
    ledger.open(terms())
    for _ in range(12):
        with pytest.raises(CapReached):
            ledger.reserve("visits", "ann", "count", QUESTION, Amount(11))
    ask(ledger)
    ledger.close()


def test_threads_share_a_ledger(postgres):
    ledger = open_ledger(postgres.schema())
    ledger.open(terms("visits", 1000, 1000))
    threads = [threading.Thread(target=lambda: [ask(ledger) for _ in range(5)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (ledger.balance("visits").spent, ledger.verify().ok) == (Amount(20), True)
    ledger.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_connects_anew_and_ends_no_call_of_its_parent(postgres):
    ledger = open_ledger(postgres.schema())
    ledger.open(terms("visits", 100, 100))
    call = ledger.reserve("visits", "ann", "count", QUESTION, Amount(1), "key")
    child = os.fork()
    if not child:
        code = 1
        try:
            ask(ledger, analyst="bob")
            call.leave()
            gc.collect()
            ledger.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    other = open_ledger(postgres.url(schema=ledger.store.transactions.address.schema))
    with pytest.raises(RequestInFlight):
        other.reserve("visits", "ann", "count", QUESTION, Amount(1), "key")
    ledger.settle(call, Amount(1), 1, 1, "true")
    assert ledger.balance("visits").spent == Amount(2)
    assert ledger.verify().ok
    for each in (ledger, other):
        each.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.balance("visits")


def test_a_thread_that_holds_it_for_too_long_is_told_of(postgres):
    ledger = open_ledger(postgres.schema(), timeout=0.2)
    ledger.open(terms())
    inside, done = threading.Event(), threading.Event()

    def hold():
        with ledger.store.transactions.reading():
            inside.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(20)
    with pytest.raises(LedgerLocked, match="another thread"):
        ledger.balance("visits")
    done.set()
    thread.join()
    ledger.close()


def test_a_session_and_the_commands_take_its_url(postgres, tmp_path, capsys):
    url = postgres.schema()
    with chary.open(visits(), ledger=url, dataset="visits", budget=USUAL, **PUBLIC) as session:
        session.quote(chary.calls.ThresholdTest(chary.count(), above=1, epsilon="0.1"))
        assert not ledger_exists(url)
        found = session.test(chary.count(), above=1, epsilon="0.1", request="monday")
    with chary.open(visits(), ledger=url, dataset="visits", **PUBLIC) as session:
        assert session.test(chary.count(), above=1, epsilon="0.1", request="monday") == found
    for command in (["ledger", "show"], ["ledger", "verify"], ["ledger", "head"], ["ledger", "export"]):
        assert run([*command, url]) == 0
    assert run(["report", url, "--md", "--output", str(tmp_path / "out.md")]) == 0
    assert run(["ledger", "roles", url, "ann"]) == 0
    assert "GRANT EXECUTE" in capsys.readouterr().out
    assert run(["ledger", "backup", url, str(tmp_path / "x")]) == 0
    assert run(["ledger", "verify", url + "x"]) == 2
    assert run(["ledger", "move", url, str(tmp_path / "visits.ledger")]) == 0
    assert run(["ledger", "verify", str(tmp_path / "visits.ledger")]) == 0
    assert run(["ledger", "show", url]) == 2
    with pytest.raises(LedgerError, match="moved to"):
        chary.open(visits(), ledger=url, dataset="visits", **PUBLIC)


def test_a_checkpoint_without_its_ledger_is_told(postgres, tmp_path):
    url = postgres.schema()
    (tmp_path / "w").write_bytes(b"")
    with pytest.raises(LedgerCorrupted, match="the ledger is gone"):
        chary.open(visits(), ledger=url, dataset="visits", checkpoint=tmp_path / "w", budget=USUAL, **PUBLIC)
    with pytest.raises(InvalidParameter):
        chary.open(visits(), ledger=":memory:", checkpoint=tmp_path / "w", budget=USUAL, **PUBLIC)
