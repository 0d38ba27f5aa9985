"""Connections touch what was named: no network, no extension, no other file, no pattern."""

import ast
import os
import sqlite3
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chary
from chary.data import NeighborRelation, RowTable, count
from chary.data.engines.duckdb import connection
from chary.data.engines.duckdb.connection import Access
from chary.errors import EngineError, InvalidParameter, SchemaMismatch

ROWS = NeighborRelation("replace", None)
NAMES = ["~rows", "~", "ro[w]s", "ro*s", "ro?s", "ro{a,b}s", "it's", "ro\\ws", "temp", "main", "memory"]
SETTINGS = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "enable_external_access": False,
    "lock_configuration": True,
}


@pytest.mark.parametrize("on_file", [False, True])
@pytest.mark.parametrize("writing", [False, True])
def test_every_connection_is_sealed(tmp_path, on_file, writing):
    duckdb.connect(str(tmp_path / "a.duckdb")).close()
    (tmp_path / "other.csv").write_text("a\n1\n")
    access = Access(str(tmp_path / "a.duckdb")) if on_file else Access()
    with access.connect(writing=writing) as connection:
        for name, value in SETTINGS.items():
            assert connection.execute(f"SELECT current_setting('{name}')").fetchall() == [(value,)]
        unnamed = [f"FROM '{tmp_path / 'other.csv'}'", "FROM read_csv('https://chary.invalid/a.csv')", "LOAD httpfs"]
        for asked in [*unnamed, "INSTALL httpfs", "SET enable_external_access = true", f"ATTACH '{tmp_path / 'b.db'}'"]:
            with pytest.raises(duckdb.Error):
                connection.execute(asked)


@pytest.fixture
def spare(monkeypatch):
    """The spare engines of this process, of which there are none yet."""
    monkeypatch.setattr(connection, "_spare", defaultdict(list))
    return connection._spare[os.getpid()]


def test_an_engine_in_memory_serves_one_connection_after_the_other_and_keeps_nothing(spare):
    with Access().connect() as first, Access().connect() as other:
        assert not spare
        first.execute("CREATE TEMP TABLE chary_rows AS SELECT 7 AS secret")
        first.register("chary_seen", pa.table({"secret": [7]}))
        first.begin()
        first.execute("SET VARIABLE seen = 7")
    del first, other
    assert len(spare) == 2
    engines = list(spare)
    for _ in engines:
        later = Access().connect()
        for relation in ("chary_rows", "chary_seen"):
            with pytest.raises(duckdb.CatalogException):
                later.execute(f"FROM {relation}")
        assert later.execute("SELECT getvariable('seen')").fetchall() == [(None,)]
        assert later.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
        with pytest.raises(duckdb.Error):
            later.execute("SET enable_external_access = true")
        del later
    assert set(spare) == set(engines)


def test_an_engine_that_may_read_a_file_is_nobody_elses(spare, tmp_path):
    place = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1]}), place)
    for access in (Access(files=(str(place),)), Access(folder=str(tmp_path)), Access(lossless=True)):
        with access.connect():
            pass
    RowTable.open(place, neighbor_relation=ROWS).close()
    assert not spare
    RowTable.open(pa.table({"a": [1]}), neighbor_relation=ROWS).close()
    assert len(spare) == 1


def test_a_broken_engine_and_those_of_another_process_are_left(spare):
    broken = duckdb.connect(":memory:")
    broken.close()
    spare.append(broken)
    connection._spare[os.getpid() + 1].append(None)
    assert Access().connect().execute("SELECT 1").fetchall() == [(1,)]
    connection._is_spare(None, os.getpid() + 1)
    assert None not in spare


def test_few_engines_are_kept(spare):
    many = [Access().connect() for _ in range(12)]
    del many
    assert len(spare) == 8


SOURCES = Path(chary.__file__).parent
ENGINES = SOURCES / "data" / "engines"
# The ledger has databases of its own.
LEDGERS = SOURCES / "ledger"
# The service keeps tokens, its audit log and alerts in a database of its own, which holds no rows.
SERVICE = [SOURCES / "service" / part for part in ("auth", "core", "store.py")]
SQL_PLACES = [ENGINES, LEDGERS, *SERVICE]
RUNNING = {
    *("execute", "executemany", "executescript", "sql", "cursor", "to_arrow_table"),
    *("fetchall", "fetchone", "fetchmany", "fetchnumpy", "fetchdf", "fetch_df", "fetch_arrow_table"),
}


def called(text):
    """Names of methods that are called, such as `execute`, and of modules that are imported."""
    nodes = list(ast.walk(ast.parse(text)))
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    methods = {func.attr for func in calls if isinstance(func, ast.Attribute)}
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return methods, {name.partition(".")[0] for name in named}


def test_connections_come_from_one_place():
    """Whoever imports another way to connect has another way to configure."""
    for path in SOURCES.rglob("*.py"):
        if path == ENGINES / "duckdb" / "connection.py":
            continue
        called = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {(f.value.id, f.attr) for f in called if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name)}
        assert not {name for name in names if name[0] == "duckdb"}, path


def test_only_engines_execute_sql():
    outside = [
        path for path in SOURCES.rglob("*.py") if not any(place in (path, *path.parents) for place in SQL_PLACES)
    ]
    assert len(outside) > 150
    for path in outside:
        methods, modules = called(path.read_text())
        assert not methods & RUNNING, path
        assert "duckdb" not in modules, path


LIBRARIES = {"duckdb": "duckdb", "postgresql": "psycopg", "spark": "pyspark"}


def test_each_engine_alone_knows_its_library():
    for path in ENGINES.rglob("*.py"):
        methods, modules = called(path.read_text())
        room = path.relative_to(ENGINES).parts[0]
        # Where expressions are shared, SQL is written.
        running = RUNNING - {"sql"} if room in ("compiler.py", "sql.py") else RUNNING
        assert room in LIBRARIES or not methods & running, path
        assert not modules & (set(LIBRARIES.values()) - {LIBRARIES.get(room)}), path


@pytest.mark.parametrize(
    "text",
    [
        "connection.execute('SELECT 1')",
        "found = database.connection.sql(asked).to_arrow_table()",
        "rows = [row for row in result.fetchall()]",
        "with held.connection() as c:\n    c.executemany(a, b)",
        "from duckdb import connect",
        "def late():\n    import duckdb.functional as other",
    ],
)
def test_sql_elsewhere_would_be_noticed(text):
    methods, modules = called(text)
    assert methods & RUNNING or "duckdb" in modules


def test_importing_the_library_loads_no_engine():
    told = "import sys, chary; sys.exit(bool({'duckdb', 'ibis', 'pyarrow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", told], check=False).returncode == 0


NAMED = [(name, ending) for ending in ("csv", "parquet", "duckdb") for name in NAMES]
NAMED = [pair for pair in NAMED if pair not in {("ro?s", "duckdb"), ("ro\\ws", "duckdb")}]


@pytest.mark.parametrize("name", ["ro?s", "ro\\ws"])
def test_a_name_that_the_engine_cannot_open_is_refused(tmp_path, name):
    (tmp_path / f"{name}.duckdb").touch()
    with pytest.raises(InvalidParameter, match="rename it"):
        RowTable.open(tmp_path / f"{name}.duckdb", table="t", neighbor_relation=ROWS)


@pytest.mark.parametrize(("name", "ending"), NAMED)
def test_the_name_of_a_file_is_no_pattern_and_no_home(tmp_path, monkeypatch, name, ending):
    monkeypatch.chdir(tmp_path)
    options = {}
    for written, size in (("rows", 5), ("roas", 6), ("ros", 7), (name, 2)):
        file, rows = f"{written}.{ending}", pa.table({"n": list(range(size))})
        if ending == "csv":
            Path(file).write_text("n\n" + "1\n" * size)
        elif ending == "parquet":
            pq.write_table(rows, file)
        else:
            options = {"table": "chary_rows"}
            with duckdb.connect(str(tmp_path / file)) as connection:
                connection.execute(f"CREATE TABLE chary_rows AS FROM range({size}) t(n)")
    for unpivot in (None, ("name", "value")) if ending == "duckdb" else (None,):
        unit = "u" if unpivot else None
        if unpivot:
            with duckdb.connect(str(tmp_path / f"{name}.duckdb")) as connection:
                connection.execute("ALTER TABLE chary_rows ADD COLUMN u BIGINT DEFAULT 7")
        table = RowTable.open(
            f"{name}.{ending}", neighbor_relation=NeighborRelation("replace", unit), unpivot=unpivot, **options
        )
        assert table.prepare(count()).run() == (1 if unpivot else 2)
        if unpivot is None:
            table.append(pa.table({"n": ["1"] if ending == "csv" else [1]}))
            assert table.prepare(count()).run() == 3
        table.close()


@pytest.mark.parametrize("url", ["https://chary.invalid/a.parquet", "s3://chary/a.csv", "file:///etc/a.csv", "*.csv"])
def test_a_url_or_a_pattern_is_no_file(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("n\n1\n")
    with pytest.raises(InvalidParameter, match="there is no file"):
        RowTable.open(url, neighbor_relation=ROWS)


def test_a_database_of_another_kind_loads_nothing(tmp_path):
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE t (a)")
    for unpivot in (None, ("name", "value")):
        with pytest.raises(SchemaMismatch):
            RowTable.open(
                tmp_path / "a.db", table="t", neighbor_relation=NeighborRelation("replace", "a"), unpivot=unpivot
            )


def test_a_connection_of_the_caller_is_told(tmp_path):
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS n")
        with pytest.raises(EngineError, match="another connection of this process") as caught:
            RowTable.open(tmp_path / "a.duckdb", table="t", neighbor_relation=ROWS)
    assert caught.value.__context__ is None
    assert RowTable.open(tmp_path / "a.duckdb", table="t", neighbor_relation=ROWS).prepare(count()).run() == 1


def test_a_parquet_batch_is_read_where_it_is(tmp_path):
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "first.parquet")
    pq.write_table(pa.table({"n": [3, 4, 5]}), tmp_path / "mo[r]e*.parquet")
    table = RowTable.open(tmp_path / "first.parquet", neighbor_relation=ROWS)
    table.append(tmp_path / "mo[r]e*.parquet")
    assert table.prepare(count("n >= 3")).run() == 3


def test_parquet_files_of_different_types_are_no_table(tmp_path):
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": ["secret"]}), tmp_path / "b.parquet")
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    with pytest.raises(SchemaMismatch, match="same columns of the same types"):
        RowTable.open(files, neighbor_relation=ROWS)
    table = RowTable.open(files[0], neighbor_relation=ROWS)
    with pytest.raises(SchemaMismatch, match="same columns of the same types"):
        table.append(files)
