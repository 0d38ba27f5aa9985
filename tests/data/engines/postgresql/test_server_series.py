"""Series of counts from a table of a server."""

from datetime import date

import pyarrow as pa
import pytest

import chary
from chary.data import Series
from chary.errors import InvalidParameter, SchemaMismatch

ROWS = (
    "CREATE TABLE days (day date, n integer, name text, x float8)",
    "INSERT INTO days VALUES ('2020-01-03', 30, 'c', 1), ('2020-01-01', 10, 'a', 1), ('2020-01-02', 20, 'b', NULL)",
)


def opened(clinic, **said):
    asked = {"table": "days", "column": "n", "sensitivity": 1, "order_by": "day", "labels": "name"}
    return Series.open(clinic.url(), **(asked | said))


def test_steps_are_those_of_the_table_in_the_order_that_is_named(clinic):
    clinic.run(*ROWS)
    clinic.grant("days")
    series = opened(clinic)
    assert series.prepare(series.series()).run().tolist() == [10, 20, 30]
    assert series.labels == ("a", "b", "c")
    series.append(pa.table({"day": [date(2020, 1, 4)], "n": [40], "name": ["d"]}))
    assert series.prepare(series.series()).run().tolist() == [10, 20, 30, 40]


@pytest.mark.parametrize(
    ("said", "error", "says"),
    [
        ({"order_by": None}, InvalidParameter, "has no order"),
        ({"order_by": "x"}, SchemaMismatch, "NULL"),
        ({"column": "x"}, SchemaMismatch, "integers"),
        ({"labels": "nothing"}, SchemaMismatch, "no column 'nothing'"),
        ({"table": "nothing"}, SchemaMismatch, "no table 'nothing'"),
        ({"table": None}, InvalidParameter, "say which one"),
    ],
)
def test_what_is_no_series_is_refused(clinic, said, error, says):
    clinic.run(*ROWS)
    clinic.grant("days")
    with pytest.raises(error, match=says):
        opened(clinic, **said)


def test_steps_that_are_equal_have_no_order(clinic):
    clinic.run(*ROWS, "INSERT INTO days VALUES ('2020-01-03', 31, 'c')")
    clinic.grant("days")
    with pytest.raises(SchemaMismatch, match="have no order"):
        opened(clinic)


def test_sessions_of_series_and_streams_ask_a_server(clinic, tmp_path):
    clinic.run(*ROWS)
    clinic.grant("days")
    plan = {"budget": chary.Budget(epsilon=1), "ledger": tmp_path / "ledger"}
    with chary.open_counts(clinic.url(), table="days", column="n", sensitivity=1, order_by="day", **plan) as session:
        assert session.spine.dataset == f"{clinic.name}.days.n"
    stream = {"privacy_unit": "name", "neighbors": "replace", "entries_per_unit": 1, "dataset": "entries"}
    with chary.open(clinic.url(), table="days", **stream, **plan) as session:
        assert session.size == 3
