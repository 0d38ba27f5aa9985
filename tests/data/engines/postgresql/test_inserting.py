"""Rows that are added to a table of a server, with their batch and in one transaction."""

import math
import threading
from datetime import date, datetime

import pandas as pd
import pyarrow as pa
import pytest

import chary
from chary.calls import Alert
from chary.data import EntryLimit, count
from chary.errors import EngineError, InvalidQuery, SchemaMismatch

TABLE = "CREATE TABLE visits (patient bigint, n integer, x double precision, s text, b boolean, d date, t timestamp)"
ROWS = {
    "patient": [1, 2],
    "n": [5, None],
    "x": [0.5, math.inf],
    "s": ["it's", 'a\\b\n\t{},"NULL'],
    "b": [True, None],
    "d": [date(1, 1, 1), date(9999, 12, 31)],
    "t": [datetime(1, 1, 1, 0, 0, 0, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)],
}


def rows(**changed):
    return pa.table(ROWS | changed)


@pytest.fixture
def growing(clinic, opened):
    """A table that the role may read and add to."""

    def made(table=TABLE, **said):
        clinic.run(table, f"GRANT CREATE ON SCHEMA public TO {clinic.role}")
        clinic.grant("visits", rights="SELECT, INSERT")
        return opened(**said)

    return made


def test_what_is_added_is_read_again_to_the_last_bit(growing):
    table = growing(unit="patient")
    batch = table.append(rows())
    assert (batch.number, batch.request, batch.rows) == (1, None, 2)
    assert table.snapshot().run().to_pydict() == ROWS
    nothing = {name: pa.nulls(1) for name in ROWS}
    assert table.append(pa.table(nothing)).number == 2
    assert table.append(rows(x=[1, 2])).rows == 5
    assert [each.number for each in table.batches(1)] == [2, 3]


def test_files_and_frames_are_read_as_for_every_engine(growing, tmp_path):
    table = growing(csv=chary.CSVFormat(delimiter=";"))
    assert table.reading["delimiter"] == ";"
    (tmp_path / "more.csv").write_text("patient;n;x;s;b;d;t\n7;oops;1e400;x;yes;2020-02-30;2020-01-01\n")
    table.append(tmp_path / "more.csv")
    found = table.snapshot().run().to_pylist()
    assert found == [
        {"patient": 7, "n": None, "x": math.inf, "s": "x", "b": True, "d": None, "t": datetime(2020, 1, 1)}
    ]
    table.append(pd.DataFrame(rows().to_pydict() | {"patient": ["8", "no"]}).astype({"patient": object, "n": "Int64"}))
    assert table.prepare(count("patient = 8")).run() == 1
    (tmp_path / "secret.csv").write_text("SECRET;2\n1;2\n")
    with pytest.raises(SchemaMismatch, match="check that there is a header") as caught:
        table.append(tmp_path / "secret.csv")
    assert "SECRET" not in str(caught.value)


def test_rows_of_then_cannot_be_told_apart_and_an_alert_looks_at_those_of_now(growing, clinic):
    growing()
    budget = chary.Budget(epsilon=10**6, delta=1e-6)
    with chary.open(clinic.url(), table="visits", privacy_unit=None, budget=budget, ledger=":memory:") as session:
        run = session.start(Alert(count(), above=3, epsilon=1000, below_margin=True))
        versions = [session.append(rows()) for _ in range(3)]
        with pytest.raises(InvalidQuery, match="cannot be told apart: ask about those of now"):
            session.as_of(versions[0])
        assert [(told.version, told.state) for told in run.follow()] == [(versions[-1], "active")]
        assert run.state.skipped == tuple(versions[:-1])


def test_a_request_that_came_before_adds_nothing(growing):
    table = growing()
    first = table.append(rows(), request="monday")
    assert table.append(rows(patient=[8, 9]), request="monday") == first
    assert table.prepare(count()).run() == 2


@pytest.mark.parametrize("changed", [{"n": ["SECRET", "x"]}, {"other": [1, 2]}, {"patient": [0.5, 1.5]}, {"d": [1, 2]}])
def test_rows_that_do_not_fit_are_refused_whole(growing, changed):
    table = growing()
    with pytest.raises(SchemaMismatch, match="nothing was written") as caught:
        table.append(rows(**changed))
    assert "SECRET" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert table.prepare(count()).run() == 0
    assert table.batches() == []


NARROW = {
    "smallint": (pa.int64(), [7, 2**15 - 1, 2**15, -(2**15), -(2**15) - 1], [7, 2**15 - 1, None, -(2**15), None]),
    "integer": (pa.int64(), [2**31 - 1, 2**31, -(2**31) - 1], [2**31 - 1, None, None]),
    "real": (
        pa.float64(),
        [0.5, 1e39, -1e39, math.inf, 1e-50, 3.4028234663852886e38, -0.0],
        [0.5, None, None, math.inf, 0.0, 3.4028234663852886e38, 0.0],
    ),
    "numeric(4, 1)": (pa.float64(), [999.9, 999.96, -1000, 0.04, math.inf], [999.9, None, None, 0.0, None]),
    "numeric": (pa.float64(), [1e300, math.inf, -0.5], [1e300, None, -0.5]),
    "varchar(2)": (pa.string(), ["ab", "abc", "éé", ""], ["ab", None, "éé", ""]),
    "char(2)": (pa.string(), ["a", "abc", "ab"], ["a", None, "ab"]),
    "mood": (pa.string(), ["sad", "SAD", "so"], ["sad", None, "so"]),
    "text": (pa.string(), ["a\0b", "\U0001f642"], [None, "\U0001f642"]),
    "timestamp(0)": (pa.timestamp("us"), [1_700_000, -1], [datetime(1970, 1, 1, 0, 0, 2), datetime(1970, 1, 1)]),
}


@pytest.mark.parametrize("kind", NARROW)
def test_what_does_not_fit_a_narrower_type_is_null_and_fails_nothing(clinic, growing, kind):
    clinic.run("CREATE TYPE mood AS ENUM ('sad', 'so')")
    table = growing(f"CREATE TABLE visits (v {kind})")
    arrow, given, kept = NARROW[kind]
    table.append(pa.table({"v": pa.array(given, arrow)}))
    assert table.snapshot().run()["v"].to_pylist() == kept


def test_moments_at_the_ends_of_the_calendars(growing):
    table = growing("CREATE TABLE visits (d date, t timestamp)")
    days = pa.array([2**31 - 1, 1 - 2**31, -(2**31), 2_145_042_905, 2_145_042_906, -2_440_589], pa.int32())
    micros = [2**63 - 1, 1 - 2**63, -1, 2**62, 9_223_371_331_200_000_000, -(2**62)]
    table.append(pa.table({"d": days.view(pa.date32()), "t": pa.array(micros, pa.int64()).view(pa.timestamp("us"))}))
    found = table.snapshot().run()
    ends = [2**31 - 1, 1 - 2**31]
    assert found["d"].cast("int32").to_pylist() == [*ends, ends[1], 2_145_042_905, None, None]
    assert found["t"].cast("int64").to_pylist()[:5] == micros[:5]
    assert found["t"].cast("int64").to_pylist()[5] is None


REFUSING = {
    "constraint": "CREATE TABLE visits (n int CHECK (n < 5))",
    "not null": "CREATE TABLE visits (n int NOT NULL)",
    "index": "CREATE TABLE visits (n int, s text); CREATE INDEX ON visits (s)",
    "generated column": "CREATE TABLE visits (n int, m int GENERATED ALWAYS AS (n) STORED)",
    "domain": "CREATE DOMAIN small AS int CHECK (VALUE < 5); CREATE TABLE visits (n small)",
    "partition": "CREATE TABLE visits (n int) PARTITION BY RANGE (n)",
    "rule": "CREATE TABLE visits (n int); CREATE RULE r AS ON INSERT TO visits DO INSTEAD NOTHING",
    "trigger": "CREATE TABLE visits (n int); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS "
    "'BEGIN RETURN NULL^ END'; CREATE TRIGGER t BEFORE INSERT ON visits FOR EACH ROW EXECUTE FUNCTION f()",
}


@pytest.mark.parametrize("what", REFUSING)
def test_tables_that_may_refuse_a_row_do_not_grow(clinic, growing, what):
    *first, last = (part.replace("^", ";") for part in REFUSING[what].split("; "))
    clinic.run(*first, last)
    table = growing("SELECT 1")
    with pytest.raises(SchemaMismatch, match=what):
        table.append(pa.table({name: pa.nulls(1) for name in table.schema}))


def test_an_index_of_numbers_refuses_nothing(growing):
    table = growing("CREATE TABLE visits (n int, d date)")
    table.held.server.write(lambda cursor: None)
    assert table.append(pa.table({"n": [1], "d": [date(2020, 1, 1)]})).rows == 1


def test_which_right_is_missing_is_said(clinic, opened):
    clinic.run("CREATE TABLE visits (n int)", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    clinic.grant("visits")
    more, told = pa.table({"n": [1]}), []
    for right in (
        f"GRANT CREATE ON SCHEMA public TO {clinic.role}",
        f"GRANT INSERT ON visits TO {clinic.role}",
        "CREATE TABLE chary_batches (of_table text, number bigint, request text, rows bigint)",
        f"GRANT SELECT, INSERT ON chary_batches TO {clinic.role}",
    ):
        with pytest.raises(EngineError, match="nothing was written") as caught:
            opened().append(more)
        told.append(str(caught.value))
        clinic.run(right)
        if len(told) == 2:
            clinic.run(f"REVOKE CREATE ON SCHEMA public FROM {clinic.role}")
            with pytest.raises(EngineError, match="CREATE on the schema"):
                opened().append(more)
    assert "CREATE on the schema" in told[0]
    assert "INSERT" in told[1]
    assert "SELECT and INSERT on public.chary_batches" in told[3]
    assert opened().append(more).number == 1


def test_two_writers_follow_one_another(growing, opened):
    growing("CREATE TABLE visits (n int)").append(pa.table({"n": [0]}))
    tables = [opened() for _ in range(4)]
    writers = [
        threading.Thread(target=lambda table=table: [table.append(pa.table({"n": [1]})) for _ in range(5)])
        for table in tables
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    batches = opened().batches()
    assert [each.number for each in batches] == list(range(1, 22))
    assert [each.rows for each in batches] == list(range(1, 22))


def test_a_limit_on_entries_is_kept_by_batches_too(growing):
    table = growing(limit=EntryLimit("patient", 2))
    table.append(rows())
    with pytest.raises(SchemaMismatch, match="more than 2 entries"):
        table.append(rows(patient=[1, 1]))
    assert len(table.batches()) == 1
    table.append(rows(patient=[1, None]))
    assert table.prepare(count()).run() == 4


def test_a_session_follows_batches_of_others_and_refuses_a_table_that_shrank(clinic, growing, tmp_path):
    growing().append(rows())
    plan = {"table": "visits", "privacy_unit": None, "neighbors": "replace", "ledger": tmp_path / "ledger"}
    with chary.open(clinic.url(), budget=chary.Budget(epsilon=1), **plan) as session:
        assert session.size == 2
        assert session.append(rows(), request="a") == session.append(rows(), request="a")
        assert session.size == 4
    clinic.run("DELETE FROM visits WHERE patient = 1")
    with pytest.raises(chary.CharyError, match="never shrinks"):
        chary.open(clinic.url(), **plan)
