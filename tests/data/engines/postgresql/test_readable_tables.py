"""Which tables of a server may be asked, and by whom."""

import pytest

from chary.data import count
from chary.data.engines.postgresql.catalog import parts_of
from chary.errors import EngineError, InvalidParameter, SchemaMismatch

ROWS = "CREATE TABLE visits AS SELECT n, n % 3 AS patient, 'x' || n AS name FROM generate_series(1, 9) AS n"


def asked(table):
    return table.prepare(count("n > 4")).run()


def test_a_role_that_may_only_read_one_table_is_enough(clinic, opened):
    clinic.run(ROWS, "CREATE TABLE secrets AS SELECT 1 AS n", f"REVOKE ALL ON DATABASE {clinic.name} FROM PUBLIC")
    clinic.run(f"GRANT CONNECT ON DATABASE {clinic.name} TO {clinic.role}", "REVOKE ALL ON SCHEMA public FROM PUBLIC")
    clinic.run(f"GRANT USAGE ON SCHEMA public TO {clinic.role}")
    clinic.grant("visits")
    table = opened(unit="patient")
    assert table.prepare(count().by("name", ["x1", "x2", "y"], max_groups_per_unit=1)).run().tolist() == [1, 1, 0]
    assert len(table.snapshot().run()) == 9
    with pytest.raises(SchemaMismatch, match=r"no table 'secrets'.*there are: public\.visits$"):
        opened("secrets")
    with pytest.raises(EngineError, match="lacks the right to"):
        table.append(table.snapshot().run())


def test_columns_that_the_role_may_not_read_are_not_there(clinic, opened):
    clinic.run(ROWS)
    clinic.grant("visits", rights="SELECT (n, patient)")
    table = opened(unit="patient")
    assert table.schema == {"n": "int64", "patient": "int64"}
    assert asked(table) == 3


def test_rows_are_of_one_schema_and_names_are_those_of_the_server(clinic, opened):
    clinic.run('CREATE SCHEMA "My.Clinic"', 'CREATE TABLE "My.Clinic"."Visits ""7""" AS SELECT 5 AS n', ROWS)
    clinic.run(f'GRANT USAGE ON SCHEMA "My.Clinic" TO {clinic.role}')
    clinic.grant('"My.Clinic"."Visits ""7"""', "visits")
    assert asked(opened('"My.Clinic"."Visits ""7"""')) == 1
    assert asked(opened("public.visits")) == asked(opened('"visits"')) == 5
    for name in ("Visits", '"My.Clinic".visits', "visits; DROP TABLE visits", "pg_catalog.pg_statistic"):
        with pytest.raises(SchemaMismatch, match="no table"):
            opened(name)
    for name in ("a.b.c", ".", "a.", '"a"b'):
        with pytest.raises(InvalidParameter, match="named as"):
            parts_of(name)


def test_nobody_elses_operators_are_used(clinic, opened):
    """A schema that is searched first could hold others of the same name."""
    clinic.run(ROWS, "CREATE FUNCTION public.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT $1'")
    clinic.run("CREATE FUNCTION public.more(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
    clinic.run("CREATE OPERATOR public.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = public.more)")
    clinic.run(f"ALTER ROLE {clinic.role} SET search_path = public, pg_catalog")
    clinic.grant("visits")
    assert asked(opened()) == 5


def test_parts_and_heirs_are_read_with_the_whole(clinic, opened):
    clinic.run(
        "CREATE TABLE visits (n int, patient int) PARTITION BY RANGE (n)",
        "CREATE TABLE low PARTITION OF visits FOR VALUES FROM (0) TO (5)",
        "CREATE TABLE high PARTITION OF visits FOR VALUES FROM (5) TO (10)",
        "INSERT INTO visits SELECT n, 1 FROM generate_series(1, 9) AS n",
        "CREATE TABLE old (n int)",
        "CREATE TABLE older () INHERITS (old)",
        "INSERT INTO old VALUES (7)",
        "INSERT INTO older VALUES (8)",
        "CREATE MATERIALIZED VIEW made AS SELECT n / 2 AS n FROM visits",
    )
    clinic.grant("visits", "old", "made")
    assert [asked(opened(name)) for name in ("visits", "old", "made")] == [5, 2, 0]


@pytest.mark.parametrize("part", [False, True])
def test_foreign_tables_are_in_no_state_of_the_server(clinic, opened, part):
    clinic.run(
        "CREATE FOREIGN DATA WRAPPER elsewhere",
        "CREATE SERVER other FOREIGN DATA WRAPPER elsewhere",
        "CREATE TABLE visits (n int) PARTITION BY RANGE (n)" if part else "SELECT 1",
        f"CREATE FOREIGN TABLE {'far' if part else 'visits'}"
        f"{' PARTITION OF visits FOR VALUES FROM (0) TO (5)' if part else ' (n int)'} SERVER other",
    )
    clinic.grant("visits")
    with pytest.raises(SchemaMismatch, match="foreign table"):
        opened()


def test_a_policy_that_hides_rows_is_refused_and_said(clinic, opened):
    clinic.run(ROWS, "ALTER TABLE visits ENABLE ROW LEVEL SECURITY", "CREATE POLICY few ON visits USING (n < 3)")
    clinic.grant("visits")
    with pytest.raises(SchemaMismatch, match="row level security is on"):
        opened()
    clinic.run(f"ALTER ROLE {clinic.role} BYPASSRLS")
    assert asked(opened()) == 5


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE visits ALTER n TYPE text",
        "ALTER TABLE visits RENAME name TO n2",
        "ALTER TABLE visits ENABLE ROW LEVEL SECURITY",
        "REVOKE SELECT ON visits FROM {role}",
        "DROP TABLE visits",
        "ALTER TABLE visits RENAME TO v2; CREATE TABLE visits AS SELECT * FROM v2",
    ],
)
def test_what_becomes_of_a_table_is_noticed_before_a_row_is_read(clinic, opened, change):
    clinic.run(ROWS)
    clinic.grant("visits")
    table = opened()
    assert asked(table) == 5
    clinic.run(*change.format(role=clinic.role).split("; "))
    with pytest.raises(EngineError, match="no longer the one that was opened"):
        asked(table)


def test_other_changes_and_rows_of_others_are_simply_read(clinic, opened):
    clinic.run(ROWS)
    clinic.grant("visits")
    table = opened()
    clinic.run("CREATE INDEX ON visits (n)", "INSERT INTO visits VALUES (10, 1, 'x10')", "ANALYZE visits")
    assert asked(table) == 6
    clinic.run("DELETE FROM visits WHERE n = 10")
    assert asked(table) == 5
