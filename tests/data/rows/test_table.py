import gzip
import threading
from datetime import datetime

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chary
from chary.data import NeighborRelation, Rows, RowTable, Series, count
from chary.errors import EngineError, InvalidParameter, InvalidQuery, SchemaMismatch

NB = NeighborRelation("add_remove", "u")
FRAME = pd.DataFrame({"u": ["p", "p", "q", None], "x": [1.5, float("nan"), 2.0, 9.0], "b": [True, False, True, True]})
SCHEMA = {"u": "string", "x": "float64", "b": "boolean"}


def write_duckdb(path):
    connection = duckdb.connect(str(path))
    connection.register("frame", pa.Table.from_pandas(FRAME))
    connection.execute('CREATE TABLE "my rows" AS SELECT * FROM frame')
    connection.close()


def sources(tmp_path):
    declared = {"columns": {"x": "DOUBLE", "b": "BOOLEAN"}}
    FRAME.to_csv(tmp_path / "it's.csv", index=False)
    FRAME.to_csv(tmp_path / "a.csv.gz", index=False)
    FRAME.iloc[:2].to_csv(tmp_path / "1.csv", index=False)
    FRAME.iloc[2:].to_csv(tmp_path / "2.csv", index=False)
    pq.write_table(pa.Table.from_pandas(FRAME), tmp_path / "a.parquet")
    write_duckdb(tmp_path / "a.duckdb")
    yield tmp_path / "it's.csv", declared
    yield str(tmp_path / "a.csv.gz"), {"infer_types": True}
    yield [tmp_path / "1.csv", tmp_path / "2.csv"], declared
    yield tmp_path / "a.parquet", {}
    yield [tmp_path / "a.parquet"], {}
    yield tmp_path / "a.duckdb", {"table": "my rows"}
    yield FRAME, {}
    yield FRAME.set_index(pd.Index([3, 1, 4, 2])), {}
    yield pl.from_pandas(FRAME), {}
    yield pa.Table.from_pandas(FRAME), {}


EXTRA = pd.DataFrame({"b": [True, False], "u": ["q", "s"], "x": [4.0, None]})


def test_every_source_answers_and_grows_alike(tmp_path):
    for source, options in sources(tmp_path):
        table = RowTable.open(source, neighbor_relation=NB, **options)
        counting, summing = (
            table.prepare(count("b")),
            table.prepare(chary.sum("x", bounds=(0, 5), max_rows_per_unit=1, grid="0.5")),
        )
        keyed = table.prepare(count().by("u", ["q", "s"]))
        mark = table.fingerprint()
        assert table.schema == SCHEMA
        assert (counting.run(), summing.run(), keyed.run().tolist()) == (2, 7, [1, 0])
        table.append(EXTRA)
        table.append(pl.from_pandas(EXTRA.iloc[:0]))
        assert (counting.run(), summing.run(), keyed.run().tolist()) == (2, 11, [1, 1])
        table.append(pa.Table.from_pandas(EXTRA.assign(u="t")))
        assert counting.run() == 3
        assert table.fingerprint() == mark
        table.close()


def test_rows_are_written_into_a_duckdb_file(tmp_path):
    write_duckdb(tmp_path / "a.duckdb")
    for expected in (2, 3):
        table = RowTable.open(tmp_path / "a.duckdb", table="my rows", neighbor_relation=NB)
        assert table.prepare(count()).run() == expected
        table.append(pa.table({"u": ["new"], "x": [1], "b": [None]}))
        table.close()


def test_a_held_file_is_not_written(tmp_path):
    write_duckdb(tmp_path / "a.duckdb")
    table = RowTable.open(tmp_path / "a.duckdb", table="my rows", neighbor_relation=NB)
    other = RowTable.open(tmp_path / "a.duckdb", table="my rows", neighbor_relation=NB)
    with pytest.raises(EngineError, match="cannot be opened for writing") as caught:
        table.append(EXTRA)
    assert_silent(caught.value)
    assert table.prepare(count()).run() == other.prepare(count()).run() == 2


def test_files_are_appended_too(tmp_path):
    table = RowTable.open(FRAME, neighbor_relation=NB)
    EXTRA.to_csv(tmp_path / "more.csv", index=False)
    pq.write_table(pa.Table.from_pandas(EXTRA), tmp_path / "more.parquet")
    table.append(tmp_path / "more.csv")
    assert table.prepare(count()).run() == 3
    table.append([tmp_path / "more.parquet"])
    assert table.prepare(chary.sum("x", bounds=(0, 9), unit_total=(0, 99))).run() == 1 + 1 + 2 + 4 + 4


BAD = [
    ({"u": ["secret"], "x": [1.0]}, "missing"),
    ({"u": ["secret"], "x": [1.0], "b": [True], "more": [1]}, "unknown"),
    ({"u": ["secret"], "x": ["1.0"], "b": [True]}, "'x' is float64"),
    ({"u": [666], "x": [1.0], "b": [True]}, "'u' is string"),
    ({"u": ["secret"], "x": [1.0], "b": [1]}, "'b' is boolean"),
]


@pytest.mark.parametrize(("columns", "says"), BAD)
def test_rows_that_do_not_fit_are_refused_whole(tmp_path, columns, says):
    for source, options in sources(tmp_path):
        table = RowTable.open(source, neighbor_relation=NB, **options)
        with pytest.raises(SchemaMismatch, match=says) as caught:
            table.append(pa.table(columns))
        assert_silent(caught.value)
        assert table.prepare(count()).run() == 2
        table.append(EXTRA)
        assert table.prepare(count()).run() == 3
        table.close()


def test_values_that_do_not_fit_are_null_and_fail_nothing(tmp_path):
    connection = duckdb.connect(str(tmp_path / "a.duckdb"))
    connection.execute("CREATE TABLE t AS SELECT 1::TINYINT AS n, 'a'::ENUM('a', 'b') AS e")
    connection.close()
    table = RowTable.open(tmp_path / "a.duckdb", table="t", neighbor_relation=NeighborRelation("replace", None))
    assert table.schema == {"n": "int64", "e": "string"}
    table.append(pa.table({"n": [1, 666], "e": ["a", "secret"]}))
    (tmp_path / "bad.csv").write_text("n,e\n666,a\nsecret,zebra\n")
    table.append(tmp_path / "bad.csv")
    table.append(pa.table({"n": [2], "e": ["b"]}))
    assert table.prepare(count()).run() == 6
    assert table.prepare(count("n IS NULL")).run() == 3
    assert table.prepare(count("e IS NULL")).run() == 2
    assert table.prepare(count("e <> 'zebra'")).run() == 4


def assert_silent(error):
    assert "secret" not in str(error)
    assert "666" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None


def test_types_are_brought_to_classes(tmp_path):
    kinds = {
        "u": "uuid()",
        "i8": "1::UTINYINT",
        "u64": "18446744073709551615::UBIGINT",
        "huge": "170141183460469231731687303715884105727::HUGEINT",
        "dec": "2.5::DECIMAL(38, 1)",
        "f": "'nan'::FLOAT",
        "e": "'a'::ENUM('a', 'b')",
        "s": "TIMESTAMP_S '2013-01-01 00:00:01'",
        "ns": "TIMESTAMP_NS '2013-01-01 00:00:01'",
        "far": "'290309-12-22 (BC) 00:00:00'::TIMESTAMP_S",
        "tz": "'2013-01-01'::TIMESTAMPTZ",
        "l": "[1]",
        "d": "'infinity'::DATE",
    }
    connection = duckdb.connect(str(tmp_path / "a.duckdb"))
    connection.execute(f"CREATE TABLE t AS SELECT {', '.join(f'{sql} AS {name}' for name, sql in kinds.items())}")
    connection.close()
    table = RowTable.open(tmp_path / "a.duckdb", table="t", neighbor_relation=NB)
    schema = table.schema
    assert {schema[name] for name in ("u64", "huge", "dec", "f")} == {"float64"}
    assert {schema[name] for name in ("s", "ns", "far")} == {"timestamp"}
    assert schema["u"] == "uuid"
    for where in ("u64 > 1.5 AND huge > 5 AND dec = 2.5", "f IS NULL", "e = 'a'"):
        assert table.prepare(count(where)).run() == 1
    for where in ("s = ns", "s = '2013-01-01 00:00:01'", "u IS NOT NULL AND l IS NOT NULL AND tz IS NOT NULL"):
        assert table.prepare(count(where)).run() == 1
    assert table.prepare(count("e = 'zebra' OR far > '2013-01-01'")).run() in (0, 1)
    assert table.prepare(count("d > '2013-01-01'")).run() == 1
    assert table.prepare(chary.sum("huge", bounds=(0, 5), max_rows_per_unit=1).by("e", ["b", "a"])).run().tolist() == [
        0,
        5,
    ]


def test_units_are_never_merged():
    units = pa.array([2**64 - 1, 2**64 - 2, 2**64 - 2, None], pa.uint64())
    table = RowTable.open(pa.table({"u": units}), neighbor_relation=NB)
    assert table.schema == {"u": "ubigint"}
    assert table.prepare(count()).run() == 2
    with pytest.raises(InvalidQuery, match="IS NULL"):
        table.prepare(count("u = 1"))
    floats = RowTable.open(pd.DataFrame({"u": [1.0, float("nan"), float("nan")]}), neighbor_relation=NB)
    assert floats.prepare(count()).run() == 1
    parquet_like = pa.table({"u": pa.array([1.0, float("nan")], from_pandas=False)})
    assert RowTable.open(parquet_like, neighbor_relation=NB).prepare(count()).run() == 1


def test_categories_are_strings():
    frame = pd.DataFrame({"u": [1, 2], "c": pd.Categorical(["a", "b"])})
    table = RowTable.open(frame, neighbor_relation=NB)
    assert table.prepare(count("c = 'a' OR c = 'zebra'")).run() == 1
    table.append(pd.DataFrame({"u": [3], "c": pd.Categorical(["a new one"])}))
    assert table.prepare(count("c LIKE 'a%'")).run() == 2


WIDE = pd.DataFrame({"u": ["p", "q"], "2013-01-01": [1.5, None], "2013-01-02": [2, 3]})
LONG = count().by("day", ["2013-01-01", "2013-01-02"])


def test_unpivot(tmp_path):
    WIDE.to_csv(tmp_path / "a.csv", index=False)
    pq.write_table(pa.Table.from_pandas(WIDE), tmp_path / "a.parquet")
    connection = duckdb.connect(str(tmp_path / "a.duckdb"))
    connection.execute(f"CREATE TABLE w AS SELECT * FROM read_csv('{tmp_path / 'a.csv'}')")
    connection.close()
    cases = [
        (tmp_path / "a.csv", {"infer_types": True}),
        (tmp_path / "a.csv", {"columns": {"kwh": "DOUBLE", "u": "VARCHAR"}}),
    ]
    cases += [(tmp_path / "a.parquet", {}), (tmp_path / "a.duckdb", {"table": "w"}), (WIDE, {})]
    for source, options in cases:
        table = RowTable.open(source, neighbor_relation=NB, unpivot=("day", "kwh"), **options)
        assert table.schema == {"u": "string", "day": "string", "kwh": "float64"}
        assert table.prepare(LONG).run().tolist() == [1, 2]
        assert table.prepare(count("day > '2013-01-01'")).run() == 2
        table.append(pa.table({"day": ["2013-01-01"], "kwh": [9], "u": ["r"]}))
        assert table.prepare(LONG).run().tolist() == [2, 2]


@pytest.mark.parametrize(
    ("unit", "unpivot"),
    [(None, ("day", "kwh")), ("u", ("u", "kwh")), ("u", ("day", "day")), ("u", "day"), ("u", ("day",)), ("u", (1, 2))],
)
def test_bad_unpivots(unit, unpivot):
    with pytest.raises(InvalidParameter, match="unpivot"):
        RowTable.open(WIDE, neighbor_relation=NeighborRelation("replace", unit), unpivot=unpivot)


def test_the_type_of_an_unpivoted_key_follows_from_the_headers(tmp_path):
    (tmp_path / "wide.csv").write_text("home,2024-01-01,2024-01-02\n1,2,3\n")
    with pytest.raises(InvalidParameter, match="type of 'day' follows from the headers: declare that of 'kwh' alone"):
        RowTable.open(
            tmp_path / "wide.csv",
            neighbor_relation=NeighborRelation("replace", "home"),
            unpivot=("day", "kwh"),
            columns={"day": "DATE"},
        )


def test_unpivot_needs_one_type():
    with pytest.raises(SchemaMismatch, match="no one type"):
        RowTable.open(WIDE.assign(other="secret"), neighbor_relation=NB, unpivot=("day", "kwh"))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", None),
        ("\n\n", None),
        ("u,n\n1,2\n", {"nobody": "BIGINT"}),
        ("u,n\n1,2\n", {"n": "NOTATYPE"}),
        ("n,m\n1,2\n", None),
        ("u,U\n1,secret\n", {"u": "BIGINT", "U": "BIGINT"}),
    ],
)
def test_unreadable_files_fail_at_once_and_silently(tmp_path, text, columns):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(SchemaMismatch) as caught:
        RowTable.open(tmp_path / "a.csv", neighbor_relation=NB, columns=columns)
    assert_silent(caught.value)


def test_declared_types(tmp_path):
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("u,n,t\n01,2,2013-01-01 10:00:00\n1,3,\n")
    table = RowTable.open(
        tmp_path / "a.csv.gz", neighbor_relation=NB, columns={"u": "VARCHAR", "n": "DECIMAL(5, 2)", "t": "TIMESTAMP"}
    )
    assert table.schema == {"u": "string", "n": "float64", "t": "timestamp"}
    assert table.prepare(count().by("t", [datetime(2013, 1, 1, 10)])).run().tolist() == [1]
    assert table.prepare(count()).run() == 2


@pytest.mark.parametrize(
    ("source", "options", "says"),
    [
        ("nowhere.csv", {}, "no file"),
        (5, {}, "not int"),
        ([], {}, "not list"),
        (["a.csv", "b.parquet"], {}, "one kind"),
        ("a.txt", {}, "one kind"),
        ("a.duckdb", {}, "table="),
        ("a.csv", {"table": "t"}, "table="),
        ("b.parquet", {"columns": {"u": "BIGINT"}}, "columns="),
        ("a.csv", {"columns": {"u": "BIGINT); DROP TABLE x"}}, "columns="),
        ("a.csv", {"columns": {"u": 5}}, "columns="),
        (["a.duckdb", "a.duckdb"], {"table": "t"}, "one table"),
    ],
)
def test_bad_sources(tmp_path, monkeypatch, source, options, says):
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.parquet", "a.txt", "a.duckdb"):
        (tmp_path / name).write_text("u\n1\n")
    with pytest.raises(InvalidParameter, match=says):
        RowTable.open(source, neighbor_relation=NB, **options)


def test_sources_that_are_not_what_they_say(tmp_path):
    for name, options in (("b.parquet", {}), ("a.duckdb", {"table": "t"})):
        (tmp_path / name).write_text("secret")
        with pytest.raises(SchemaMismatch) as caught:
            RowTable.open(tmp_path / name, neighbor_relation=NB, **options)
        assert_silent(caught.value)


@pytest.mark.parametrize("neighbor_relation", [NeighborRelation("bounded_change", None), "add_remove", None])
def test_bad_relations(neighbor_relation):
    with pytest.raises(InvalidParameter, match="NeighborRelation"):
        RowTable.open(FRAME, neighbor_relation=neighbor_relation)


def test_a_failing_engine_is_silent(tmp_path):
    pq.write_table(pa.table({"u": ["secret"], "x": [666]}), tmp_path / "secret.parquet")
    table = RowTable.open(tmp_path / "secret.parquet", neighbor_relation=NB)
    plans = [table.prepare(query) for query in (count("x > 1"), count().by("x", [666]))]
    assert plans[0].run() == 1
    (tmp_path / "secret.parquet").unlink()
    for plan in plans:
        with pytest.raises(EngineError) as caught:
            plan.run()
        assert_silent(caught.value)


def test_closing():
    table = RowTable.open(FRAME, neighbor_relation=NB)
    plan = table.prepare(count())
    table.close()
    table.close()
    for call in (plan.run, lambda: table.append(EXTRA)):
        with pytest.raises(EngineError, match="closed"):
            call()


def test_reprs_and_fingerprints_hold_no_values():
    table = RowTable.open(FRAME, neighbor_relation=NB)
    plan = table.prepare(count("b"))
    plan.run()
    assert repr(table) == "RowTable(u: string, x: float64, b: boolean; all rows of one u added or removed)"
    assert repr(plan) == "EnginePlan(count where b)"
    assert plan.query == count("b")
    other = RowTable.open(FRAME.iloc[:1], neighbor_relation=NB)
    assert other.fingerprint() == table.fingerprint()
    kinds = [NeighborRelation(how, unit) for how in ("replace", "add_remove") for unit in ("u", None)]
    assert len({RowTable.open(FRAME, neighbor_relation=kind).fingerprint() for kind in kinds}) == 4
    rows: list[Rows] = [table, Series.open(pa.table({"n": [1]}), column="n", sensitivity=1)]
    assert len({source.fingerprint() for source in rows}) == 2


def test_plans_are_kept_for_a_while():
    table = RowTable.open(FRAME, neighbor_relation=NB)
    assert table.prepare(count("x > 1")) is table.prepare(count("1 < x"))
    first = table.prepare(count("x > 0.5"))
    for number in range(300):
        table.prepare(count(f"x > {number}"))
    assert table.prepare(count("x > 0.5")) is not first
    assert first.run() == 2


def test_key_tables_go_with_their_plans():
    table = RowTable.open(FRAME, neighbor_relation=NB)
    for number in range(300):
        assert table.prepare(count().by("u", ["p", str(number)])).run().tolist() == [1, 0]
    with table.held.database.connection() as connection:
        found = connection.execute(
            "SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE 'chary_keys%'"
        ).fetchall()
    assert found[0][0] <= 258


def test_threads():
    table = RowTable.open(pd.DataFrame({"u": np.arange(1000), "k": np.arange(1000) % 7}), neighbor_relation=NB)
    wrong = []

    def work(seed):
        for number in range(20):
            plain, keyed = table.prepare(count(f"k = {(seed + number) % 7}")), table.prepare(count().by("k", range(7)))
            if plain.run() not in (142, 143) or keyed.run().sum() != 1000:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_file_that_vanished_is_a_silent_failure(tmp_path):
    write_duckdb(tmp_path / "a.duckdb")
    table = RowTable.open(tmp_path / "a.duckdb", table="my rows", neighbor_relation=NB)
    plan = table.prepare(count())
    (tmp_path / "a.duckdb").unlink()
    (tmp_path / "a.duckdb").write_text("secret")
    for call in (lambda: table.append(EXTRA), plan.run, lambda: table.append(EXTRA)):
        with pytest.raises(EngineError) as caught:
            call()
        assert_silent(caught.value)
