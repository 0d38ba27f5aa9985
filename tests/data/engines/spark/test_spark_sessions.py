"""Sessions: the user's stays as it is, nothing is shown, and an interruption is heard."""

import os
import signal
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chary
from chary.data import count
from chary.data.engines.spark.session import SETTINGS, session_of
from chary.errors import EngineError, InvalidParameter, SchemaMismatch

pytestmark = pytest.mark.engines
FRAME = pa.table({"unit": [1, 1, 2], "k": ["a", "b", "SECRET"], "cost": [5, 7, 9]})


@pytest.fixture
def tables(spark):
    """A schema of tables; gone afterwards."""
    spark.sql("CREATE DATABASE clinic")
    yield spark
    spark.sql("DROP DATABASE clinic CASCADE")


def test_a_session_of_a_user_stays_as_it_is(spark, opened):
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.createDataFrame(FRAME).createOrReplaceTempView("chary_rows")
    before = spark.conf.getAll
    table = opened(FRAME, "unit")
    assert table.prepare(count().by("k", ["a", "b"])).run().tolist() == [1, 1]
    settings = table.held.work.session.conf
    assert {name: settings.get(name) for name in SETTINGS} == dict(SETTINGS)
    table.close()
    assert spark.conf.getAll == before
    assert [view.name for view in spark.catalog.listTables() if view.isTemporary] == ["chary_rows"]
    assert spark.sql("SELECT count(*) FROM chary_rows").collect()[0][0] == 3
    spark.catalog.dropTempView("chary_rows")
    for name in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone"):
        spark.conf.unset(name)


def test_texts_mean_what_they_say_whatever_is_said_of_all_sessions(spark, opened):
    everybody = spark._jsparkSession.sharedState().conf()
    everybody.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        table = opened(pa.table({"s": ["a\\b", "it's", "a\nb"]}))
        for asked in ("s = 'a\\b'", "s LIKE 'a\\%'", "s = 'it''s'", "s LIKE 'it''_'", "s = 'a\nb'"):
            assert table.prepare(count(asked)).run() == 1, asked
    finally:
        everybody.remove("spark.sql.parser.escapedStringLiterals")


def test_a_table_of_a_catalog_is_asked_where_it_is(tables):
    tables.sql(
        "CREATE TABLE clinic.visits (unit INT, code CHAR(5), name STRING COLLATE UTF8_LCASE, at TIMESTAMP) "
        "USING parquet"
    )
    tables.sql("SET TIME ZONE 'UTC'")
    tables.sql(
        "INSERT INTO clinic.visits VALUES (1, 'ab', 'Ann', TIMESTAMP '2020-07-01 12:00:00'), (2, 'c', 'ann', NULL)"
    )
    session = chary.open(
        tables, table="clinic.visits", privacy_unit="unit", budget=chary.Budget(epsilon=9), ledger=":memory:"
    )
    rows = session.spine.rows
    assert rows.schema == {"unit": "int64", "code": "string", "name": "string", "at": "timestamp"}
    for asked in ("name = 'ann'", "code = 'ab   '", "at = '2020-07-01 12:00:00'", "name LIKE 'A%'"):
        assert rows.prepare(count(asked)).run() == 1, asked
    assert rows.prepare(count("code = 'ab'")).run() == 0
    rows.append(pa.table({"unit": [3], "code": ["x"], "name": ["Ann"], "at": pa.array([None], pa.timestamp("us"))}))
    assert rows.prepare(count()).run() == 3
    assert not rows.keeps_batches
    assert tables.table("clinic.visits").count() == 2
    session.close()


def test_views_and_tables_that_are_not_there_are_refused(tables, opened):
    tables.sql("CREATE VIEW clinic.risky AS SELECT 1 / 0 AS unit")
    with pytest.raises(SchemaMismatch, match="is a view"):
        opened(tables, table="clinic.risky")
    with pytest.raises(SchemaMismatch, match="knows no table"):
        opened(tables, table="clinic.visits")
    with pytest.raises(InvalidParameter, match="say which one"):
        opened(tables)


@pytest.mark.parametrize("engine", ["flink", "local[x]", 7, "duckdb://x"])
def test_other_names_are_no_engines(engine):
    with pytest.raises(InvalidParameter, match='"spark", "local'):
        session_of(engine)


def test_a_process_has_one_spark(spark):
    assert session_of("spark") is spark.getActiveSession()
    assert session_of(spark) is spark
    with pytest.raises(InvalidParameter, match="engine=session"):
        session_of("local[7]")


def test_nothing_is_said_of_values_that_fail(opened, tmp_path, capfd):
    """Not by the error, not by its cause, and not on the error stream, where the package writes what it raises."""
    table = opened(FRAME, "unit")
    failing = "SELECT CAST(k AS INT) AS n FROM chary_rows"
    with pytest.raises(EngineError, match="while it looked") as caught:
        table.held.arrow(failing, (), "looked")
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert "SECRET" not in "".join(capfd.readouterr()) + str(caught.value)


def test_damaged_files_fail_without_a_word(opened, tmp_path, capfd):
    path = tmp_path / "SECRET.parquet"
    pq.write_table(pa.table({"k": ["x" * 20] * 50}), path, use_dictionary=False, compression="none")
    table = opened(path)
    whole = path.read_bytes()
    held = table.held.holding
    path.write_bytes(whole[:40] + bytes(100) + whole[140:])
    held._files = [type(file).of(file.path) for file in held._files]
    with pytest.raises(EngineError) as caught:
        table.prepare(count("k LIKE '%y%'")).run()
    assert "SECRET" not in "".join(capfd.readouterr()) + str(caught.value)


def test_an_interruption_is_heard_at_once_and_stops_the_work(opened):
    table = opened(FRAME, "unit")
    slow = "SELECT count(*) AS n FROM range(0, 100000000000, 1, 2) WHERE hash(id) % 7 = 8"
    threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        table.held.arrow(slow, (), "waited")
    assert time.monotonic() - begun < 60
    assert table.prepare(count()).run() == 2


def test_closing_twice_is_fine_and_ends_no_session(spark, opened):
    table = opened(FRAME, "unit")
    plan = table.prepare(chary.sum("cost", bounds=(0, 9), max_rows_per_unit=1))
    for _ in range(2):
        table.close()
    with pytest.raises(EngineError, match="closed"):
        plan.run()
    assert spark.range(3).count() == 3
