"""Names, settings and casts that others chose do not change what is read, and no value makes it fail."""

import pyarrow as pa
import pytest

from chary.data import count, mean
from chary.errors import EngineError, SchemaMismatch

LETTERS = "t" * 63


def test_what_is_missing_stands_for_the_value_that_was_said(clinic, opened):
    clinic.run("CREATE TABLE visits (x float8)", "INSERT INTO visits VALUES (NULL), ('NaN'), (20), ('-infinity')")
    clinic.grant("visits")
    table = opened(neighbors="replace")
    summed, size = (
        table.prepare(part).run() for part in mean("x", bounds=(1, 30), missing=10).parts(table.neighbor_relation)
    )
    assert (summed, size) == (10 + 10 + 20 + 1 - 4 * 15, 4)


@pytest.mark.parametrize(("name", "unit"), [("visits", "value"), ("visits", "key"), ("cell", "unit"), ("wide", "wide")])
def test_unpivoting_is_disturbed_by_no_name(clinic, opened, name, unit):
    clinic.run(f"CREATE TABLE {name} ({unit} int, cell float8, key2 float8)", f"INSERT INTO {name} VALUES (7, 2, 3)")
    clinic.grant(name)
    found = opened(name, unit=unit, unpivot=("day", "kwh")).snapshot().run().to_pylist()
    assert found == [{unit: 7, "day": "cell", "kwh": 2.0}, {unit: 7, "day": "key2", "kwh": 3.0}]


def test_new_names_that_the_server_would_shorten_are_refused(clinic, opened):
    clinic.run("CREATE TABLE visits (patient int, n float8)")
    clinic.grant("visits")
    opened(unit="patient", unpivot=(LETTERS, "s" * 63)).prepare(count(f"{LETTERS} = 'n'")).run()
    with pytest.raises(SchemaMismatch, match="at most 63 bytes"):
        opened(unit="patient", unpivot=(LETTERS + "a", LETTERS + "b"))


def test_a_table_has_one_name_however_long_it_was_asked_for_by(clinic, opened):
    clinic.run(f"CREATE TABLE {LETTERS} (n int)", f"GRANT CREATE ON SCHEMA public TO {clinic.role}")
    clinic.grant(LETTERS, rights="SELECT, INSERT")
    for name in (LETTERS + "more", LETTERS):
        batch = opened(name).append(pa.table({"n": [1]}), request="once")
    assert (batch.number, opened(LETTERS).prepare(count()).run()) == (1, 1)


def test_null_in_a_list_is_no_text_whatever_the_role_is_told(clinic, opened):
    clinic.run("CREATE TABLE visits (s text, n int)", f"GRANT CREATE ON SCHEMA public TO {clinic.role}")
    clinic.run(f"ALTER ROLE {clinic.role} SET array_nulls = off")
    clinic.grant("visits", rights="SELECT, INSERT")
    rows = {"s": ["a", None, "NULL"], "n": [1, None, 3]}
    table = opened()
    table.append(pa.table(rows))
    assert table.snapshot().run().to_pydict() == rows


FAILS = "CREATE FUNCTION told({0}) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$SECRET$$; END'"


def test_nobody_elses_casts_are_used(clinic, opened):
    clinic.run("CREATE TYPE mood AS ENUM ('good', 'bad')", "CREATE TYPE pair AS (a int)")
    for kind in ("mood", "pair"):
        clinic.run(FAILS.format(kind), f"CREATE CAST ({kind} AS text) WITH FUNCTION told({kind})")
    clinic.run("CREATE TABLE visits (m mood, p pair)", "INSERT INTO visits VALUES ('good', ROW(5)), (NULL, NULL)")
    clinic.run(f"GRANT CREATE ON SCHEMA public TO {clinic.role}")
    clinic.grant("visits", rights="SELECT, INSERT")
    table = opened(unit="m")
    assert table.prepare(count("m = 'good'")).run() == 1
    assert table.snapshot().run().to_pylist() == [{"m": "good", "p": "(5)"}, {"m": None, "p": None}]
    with pytest.raises(SchemaMismatch, match="cast of an enumeration"):
        table.append(pa.table({"m": ["bad"], "p": pa.nulls(1)}))


def test_rows_are_not_added_to_a_state_that_is_being_read(clinic, opened):
    clinic.run("CREATE TABLE visits (n int)", f"GRANT CREATE ON SCHEMA public TO {clinic.role}")
    clinic.grant("visits", rights="SELECT, INSERT")
    table = opened()
    with table.one_state():
        with pytest.raises(EngineError, match="while one state of them is read"):
            table.append(pa.table({"n": [1]}))
        assert table.prepare(count()).run() == 0
    assert table.append(pa.table({"n": [1]})).rows == 1


def test_what_was_added_is_not_forgotten_by_a_server_that_is_killed(clinic, opened):
    clinic.run("CREATE TABLE visits (n int)")
    clinic.grant("visits")
    for said, meant in (("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")):
        clinic.run(f"ALTER ROLE {clinic.role} SET synchronous_commit = {said}")
        found = opened().held.server.write(lambda cursor: cursor.execute("SHOW synchronous_commit").fetchall())
        assert found == [(meant,)]
