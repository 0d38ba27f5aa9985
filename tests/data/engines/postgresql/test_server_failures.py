"""What goes wrong at a server: it is told without a value, an address or a word of the server."""

import os
import signal
import threading
import time

import psycopg
import pyarrow as pa
import pytest

import chary
from chary.data import NeighborRelation, RowTable, count
from chary.data.engines.postgresql.connection import Server
from chary.data.rows import Rooms
from chary.data.source import RowSource
from chary.data.table import living
from chary.errors import EngineError, InvalidParameter, SchemaMismatch
from tests.servers.postgres import running

ROWS = "CREATE TABLE visits AS SELECT n, n % 1000 AS patient, 'SECRET' || n AS name FROM generate_series(1, {}) AS n"
SLOW = "SELECT pg_sleep(30)"


@pytest.fixture
def visits(clinic, opened):
    def made(size=9, **said):
        clinic.run(ROWS.format(size))
        clinic.grant("visits")
        return opened(**said)

    return made


def failing(work):
    with pytest.raises(EngineError) as caught:
        work()
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert "SECRET" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"user": "SECRETROLE"}, "refused the role"),
        ({"database": "SECRETBASE"}, "no database of that name"),
        ({"host": "/SECRETFOLDER"}, "cannot be reached"),
        ({"port": 1}, "cannot be reached"),
    ],
)
def test_a_server_that_does_not_let_in_is_told_without_the_address(postgres, changed, says):
    parts = {"user": "admin", "database": "postgres"} | changed
    query = {name: parts.pop(name) for name in ("host", "port") if name in parts}
    url = postgres.url(**parts)
    for name, value in query.items():
        url = url.replace(f"{name}={getattr(postgres, {'host': 'folder', 'port': 'port'}[name])}", f"{name}={value}")
    told = failing(lambda: RowTable.open(url, table="t", neighbor_relation=NeighborRelation("add_remove", None)))
    assert says in told


def test_addresses_are_in_no_message_and_no_representation():
    url = "postgresql://ann:SECRET@db.example/clinic?nonsense=1"
    with pytest.raises(InvalidParameter) as caught:
        RowTable.open(url, table="visits", neighbor_relation=NeighborRelation("add_remove", None))
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    source = RowSource.of(url, "visits")
    for told in (str(caught.value), repr(source)):
        assert "SECRET" not in told
        assert "db.example" not in told
    with pytest.raises(InvalidParameter, match=r'table="clinic\.visits"'):
        RowSource.of(url)
    with pytest.raises(InvalidParameter, match="leave engine= out"):
        RowSource.of(url, "visits", engine="spark")
    with pytest.raises(InvalidParameter, match="carry their own"):
        RowSource.of(url, "visits", {"age": "BIGINT"})


def test_a_failure_of_the_server_tells_nothing_and_leaves_the_table_usable(visits):
    table = visits()
    for sql in ("SELECT CAST(name AS integer) FROM visits", "SELECT 1 / 0", "nonsense"):
        failing(lambda sql=sql: table.held.server.ask(lambda cursor: cursor.execute(sql), "tried"))
    assert table.prepare(count()).run() == 9


def test_a_reading_writes_nothing(visits, clinic):
    table = visits()
    clinic.grant("visits", rights="ALL")
    failing(lambda: table.held.server.ask(lambda cursor: cursor.execute("DELETE FROM public.visits"), "tried"))
    failing(lambda: table.held.server.ask(lambda cursor: cursor.execute("CREATE TABLE public.t (n int)"), "tried"))
    assert table.prepare(count()).run() == 9


def test_a_statement_that_takes_too_long_is_given_up_and_stays_charged(visits, clinic, tmp_path):
    visits(40_000).close()
    url = clinic.url(options="-c%20statement_timeout%3D50")
    plan = {"privacy_unit": "patient", "ledger": tmp_path / "visits.ledger", "budget": chary.Budget(epsilon=1)}
    with chary.open(url, table="visits", **plan) as session:
        asked = count().by("name", [f"x{n}" for n in range(20_000)], max_groups_per_unit=2)
        with pytest.raises(EngineError) as caught:
            session.release(asked, epsilon="0.1")
        assert caught.value.__cause__ is None
        assert session.spent.share == pytest.approx(0.1)
    assert (tmp_path / "visits.ledger").exists()


def test_memory_and_files_are_those_that_the_server_grants(visits, clinic):
    visits(60_000).close()
    clinic.run(
        f"ALTER ROLE {clinic.role} SET temp_file_limit = '64kB'", f"ALTER ROLE {clinic.role} SET work_mem = '64kB'"
    )
    table = RowTable.open(clinic.url(), table="visits", neighbor_relation=NeighborRelation("add_remove", "name"))
    asked = chary.sum("n", bounds=(0, 9), max_rows_per_unit=2)
    failing(table.prepare(asked).run)
    clinic.run(f"ALTER ROLE {clinic.role} RESET temp_file_limit")
    table.close()
    table = RowTable.open(clinic.url(), table="visits", neighbor_relation=NeighborRelation("add_remove", "name"))
    assert table.prepare(asked).run() == 9 * 60_000 - 36
    table.close()


def test_a_connection_that_broke_while_nobody_asked_is_made_again():
    with running() as server:
        server.execute(ROWS.format(9))
        table = RowTable.open(server.url(), table="visits", neighbor_relation=NeighborRelation("add_remove", None))
        plan = table.prepare(count())
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        assert plan.run() == 9
        server.stop()
        failing(plan.run)
        failing(plan.run)
        server.start()
        assert plan.run() == 9
        table.close()


def test_a_connection_that_breaks_within_a_reading_is_a_failure_and_nothing_is_tried_again(visits, clinic):
    table = visits()
    times = []

    def work(cursor):
        times.append(1)
        clinic.run(f"SELECT pg_terminate_backend({cursor.connection.info.backend_pid})")
        return cursor.execute("SELECT 1")

    failing(lambda: table.held.server.ask(work, "tried"))
    assert times == [1]
    assert table.prepare(count()).run() == 9


def test_an_interruption_stays_one_and_the_server_stops_working(visits, clinic):
    table = visits()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        table.held.server.ask(lambda cursor: cursor.execute(SLOW), "slept")
    assert time.monotonic() - began < 20
    busy = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(30)%'"
    assert clinic.run(f"{busy} AND pid <> pg_backend_pid()") == [(0,)]
    assert table.prepare(count()).run() == 9


def test_an_interruption_between_two_statements_leaves_no_old_state(visits, clinic):
    table = visits()

    def torn(connection):
        psycopg.Connection.execute(connection, "SELECT 1")
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Server, "_answers", lambda self, connection: torn(connection))
        with pytest.raises(KeyboardInterrupt):
            table.prepare(count()).run()
    clinic.run("INSERT INTO visits VALUES (10, 1, 'x')")
    assert table.prepare(count()).run() == 10


def test_one_reading_is_of_one_state(visits, clinic):
    table = visits(unit="patient")
    everybody = Rooms(pa.table({"unit": [5], "room": [1]}), 2)
    with living(table, count("n > 0")).at(everybody) as units:
        assert units.answers().tolist() == [9]
        clinic.run("DELETE FROM visits WHERE n > 3")
        assert len(units.of([0])) == 9
    assert table.prepare(count()).run() == 3


def test_all_that_is_read_within_one_state_is_of_it(visits, clinic):
    table = visits()
    plan = table.prepare(count())
    with table.held.one_state():
        assert plan.run() == 9
        clinic.run("DELETE FROM visits WHERE n > 3")
        assert (plan.run(), len(table.snapshot().run())) == (9, 9)
    assert plan.run() == 3


def test_a_table_that_is_closed_says_so(visits):
    table = visits(unit="patient")
    plan = table.prepare(count())
    table.close()
    table.close()
    assert "closed" in failing(plan.run)
    assert "closed" in failing(table.snapshot().run)


def test_no_connection_is_left_open_by_an_opening_that_fails(visits, clinic):
    visits().close()
    with pytest.raises(SchemaMismatch):
        RowTable.open(clinic.url(), table="visits", neighbor_relation=NeighborRelation("add_remove", "nobody"))
    open_ones = f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{clinic.role}'"
    deadline = time.monotonic() + 20
    while clinic.run(open_ones) != [(0,)] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert clinic.run(open_ones) == [(0,)]
