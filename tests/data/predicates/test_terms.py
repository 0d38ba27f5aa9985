"""Derived columns: what they mean of a row, what is refused, and that no row makes one fail."""

import math
from datetime import date, datetime

import duckdb
import ibis
import pyarrow as pa
import pytest

import chary
from chary.data import NeighborRelation, Predicate, RowTable, count, histogram
from chary.data.engines.duckdb.engine import DUCK, DuckDB
from chary.data.predicates.predicate import column, kind_of
from chary.data.queries.bodies import body_of, query_of
from chary.data.universe.axes import Universe
from chary.data.universe.regions import located
from chary.errors import InvalidQuery

ROW_UNITS = NeighborRelation("add_remove", None)
TYPES = {"n": "int64", "m": "int64", "x": "float64", "s": "string", "b": "boolean", "d": "date", "t": "timestamp"}
TYPES |= {"u": "uuid", "blood-pressure": "int64"}


def of_one(text, kind, value):
    """Whether a condition is true, false or unknown of one row, whose column is `c`."""
    table = RowTable.open(pa.table({"c": pa.array([value], kind)}), neighbor_relation=ROW_UNITS)
    found = [table.prepare(count(each)).run() for each in (text, f"NOT ({text})")]
    table.close()
    return {(1, 0): True, (0, 1): False, (0, 0): None}[tuple(found)]


DAY, TIME, WHOLE, FLOAT = pa.date32(), pa.timestamp("us"), pa.int64(), pa.float64()
LAST = datetime(9999, 12, 31, 23, 59, 59, 999999)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (DAY, date(2024, 2, 29), "year(c) = 2024 AND month(c) = 2 AND day(c) = 29 AND weekday(c) = 4"),
        (DAY, date(2024, 3, 4), "weekday(c) = 1"),
        (DAY, date(2024, 3, 3), "weekday(c) = 7 AND date_trunc('week', c) = '2024-02-26'"),
        (DAY, date.min, "year(c) = 1 AND weekday(c) = 1 AND date_trunc('week', c) = c"),
        (DAY, date.max, "year(c) = 9999 AND date_trunc('quarter', c) = '9999-10-01'"),
        (TIME, datetime(1969, 12, 31, 23, 59, 59, 999999), "hour(c) = 23 AND year(c) = 1969 AND weekday(c) = 3"),
        (TIME, datetime(1969, 12, 31, 23, 59, 59, 999999), "date_trunc('hour', c) = '1969-12-31 23:00'"),
        (TIME, datetime.min, "date_trunc('hour', c) = c AND date_trunc('year', c) = '0001-01-01'"),
        (TIME, LAST, "date_trunc('day', c) = '9999-12-31' AND hour(c) = 23 AND day(c) = 31"),
        (TIME, datetime(2024, 8, 15, 7), "date_trunc('quarter', c) = '2024-07-01' AND date_trunc('month', c) < c"),
        (WHOLE, -1, "c % 7 = 6 AND c % 1 = 0 AND c % 4611686018427387904 = 4611686018427387903"),
        (WHOLE, -(2**63), "c % 10 = 2 AND clip(c, -5, 5) = -5 AND clip(c, -9223372036854775808, 0) = c"),
        (WHOLE, 2**63 - 1, "c % 10 = 7 AND clip(c, 0, 9223372036854775806) + 1 = c"),
        (
            WHOLE,
            2**53 + 1,
            "c * 1.0 = 9007199254740992 AND COALESCE(c, 0.5) = 9007199254740992 AND c <> 9007199254740992",
        ),
        (WHOLE, 5, "7 - c % 9 = 2 AND (c % 4 + 1) * 3 - 1 = 5 AND c % 4 - 2 - 3 = -4"),
        (FLOAT, math.inf, "clip(c, 0, 3) = 3 AND COALESCE(c, 0) > 1e300"),
        (FLOAT, 1e-200, "clip(c, -1, 1) * 1e150 = 0 AND clip(c, -1, 1) + 0 > 0"),
        (FLOAT, 1e-100, "clip(c, -1, 1) * 1e-100 > 0"),
        (FLOAT, -2.5, "clip(c, -1e150, 1e150) * 1e150 = -2.5e150 AND clip(c, -1, 1) = -1"),
        (FLOAT, math.nan, "COALESCE(c, 7) = 7 AND CASE WHEN c > 0 THEN 1 WHEN NOT (c > 0) THEN 2 ELSE 3 END = 3"),
        (pa.string(), None, "COALESCE(c, 'none') LIKE 'n%' AND CASE WHEN c = 'a' THEN 1 END IS NULL"),
        (pa.bool_(), None, "NOT COALESCE(c, FALSE)"),
        (DAY, None, "year(COALESCE(c, '2001-02-03')) = 2001 AND month(c) IS NULL AND date_trunc('day', c) IS NULL"),
        (WHOLE, None, "c % 3 IS NULL AND clip(c, 0, 1) IS NULL AND clip(c, 0, 1) + 1 IS NULL"),
    ],
)
def test_of_one_row(kind, value, text):
    assert of_one(text, kind, value) is True


@pytest.mark.parametrize("text", ["year(c) > 0", "c % 3 > 0", "clip(c, 0, 1) < 2", "clip(c, 0, 1) * 2 - c % 2 < 9"])
def test_null_in_null_out(text):
    assert of_one(text, DAY if "year" in text else WHOLE, None) is None


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("MONTH( d )=1", "month(d) = 1"),
        ("1 <= Year(d)", "year(d) >= 1"),
        ("date_trunc('MONTH',t) = '2020-01-01'", "date_trunc('month', t) = '2020-01-01'"),
        ("((n%3)+1)*(2)=m", "(n % 3 + 1) * 2 = m"),
        ("n - (m - 1) - 2 = 3", "n - (m - 1) - 2 = 3"),
        ("n % 3 % 2 = 1", "n % 3 % 2 = 1"),
        ("n % 3 * 2 = 1", "n % 3 * 2 = 1"),
        ("clip(n, -5, 5) - -1 = 2", "clip(n, -5, 5) - -1 = 2"),
        ("coalesce(b, true)", "COALESCE(b, TRUE)"),
        ("case when n>1 then 'a' else null end = 'a'", "CASE WHEN n > 1 THEN 'a' END = 'a'"),
        ("CASE WHEN b OR n = 1 THEN n WHEN NOT (b) THEN m ELSE 0 END IN (1, 2)", None),
        ("n = m % 3", "n = m % 3"),
        ("(n) = 1", "n = 1"),
        ("year(d) BETWEEN 1 AND 2", "year(d) >= 1 AND year(d) <= 2"),
        ('month("my day") = 1', 'month("my day") = 1'),
        ("NOT CASE WHEN b THEN b ELSE TRUE END", "NOT (CASE WHEN b THEN b ELSE TRUE END)"),
        ("end = 1 AND CASE WHEN end > 1 THEN end ELSE end END = 3", None),
        ("year = 3 AND month = day AND hour > 3 AND clip = 1 AND date_trunc = 'x'", None),
    ],
)
def test_reading(text, canonical):
    found = Predicate.parse(text)
    assert found.text == (canonical or text)
    assert Predicate.parse(found.text).condition == found.condition


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sqrt(n) > 1", "supported are year, month"),
        ("ifnull(n, 0) > 1", "function ifnull"),
        ("mod(n, 3) = 1", "function mod"),
        ("year(d, d) = 1", r"written as in year\(day\)"),
        ("year() = 1", "written as in"),
        ("year(DISTINCT d) = 1", "not supported"),
        ("year(all) = 1", "written as in"),
        ("date_trunc('month', t, 'UTC') = t", "written as in date_trunc"),
        ("date_trunc('decade', t) = t", "year, quarter, month, week, day, hour"),
        ("date_trunc(u, t) = t", "year, quarter"),
        ("clip(n, 5, 1) = 1", "the lower first"),
        ("clip(n, m, 1) = 1", "not supported"),
        ("clip(n, 'a', 'b') = 1", "two numbers"),
        ("COALESCE(n) = 1", "written as in COALESCE"),
        ("COALESCE(n, NULL) = 1", "IS NULL"),
        ("COALESCE(1, n) = 1", "need a column"),
        ("1 + 2 = n", "need a column"),
        ("n > 2 * 3", "need a column"),
        ("-n = 1", "0 - age"),
        ("n / 2 = 1", "arithmetic"),
        ("n // 2 = 1", "arithmetic"),
        ("n ** 2 = 1", "arithmetic"),
        ("CASE n WHEN 1 THEN 2 END = 1", "CASE WHEN plan"),
        ("CASE WHEN b THEN NULL ELSE 1 END = 1", "leave THEN NULL out"),
        ("CASE WHEN n THEN 1 END = 1 OR IF(b, n, 1) = 1", "not supported"),
        ("EXTRACT(year FROM d) = 1", "not supported"),
        ('"clip"(n, 0, 1) = 1', "not supported"),
        ("x.clip(n, 0, 1) = 1", "not supported"),
        ("clip(n, 0, 1) OVER () = 1", "not supported"),
        ("n BETWEEN 1 AND m + 1", "not supported"),
        ("n IN (m % 3)", "not supported"),
        (" + ".join(["n % 3"] * 70) + " = 1", "at most 100 functions"),
        ("CASE WHEN " * 30 + "b" + " THEN 1 END = 1" * 30, "20 CASE"),
        ("clip(" * 9 + "n" + ", 0, 1)" * 9 + " = 1", "nested too deeply"),
        ("CASE WHEN end = 1 AND " * 40 + "b" + " THEN 1 END = 1" * 40, "20 CASE"),
    ],
    ids=lambda text: text[:30],
)
def test_refusals_name_what_is_wrong(text, says):
    with pytest.raises(InvalidQuery, match=says) as caught:
        Predicate.parse(text)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("year(n) = 1", "year needs a date or a timestamp; n is an integer"),
        ("year(s) = 1", "columns={'s': 'DATE'}"),
        ("hour(d) = 1", "hour needs a timestamp; d is a date"),
        ("date_trunc('hour', d) = d", "needs a timestamp"),
        ("year(nobody) = 1", "unknown column 'nobody'"),
        ("n + 1 = 1", r"n \+ 1 may not fit into 64 bits.*clip\(n, 0, 1000\)"),
        ("clip(n, 0, 9223372036854775807) + 1 = 1", "may not fit"),
        ("0 - n = 1", "may not fit"),
        ("n * m = 1", "may not fit"),
        ("clip(n, -5000000000, 0) * clip(m, 0, 5000000000) = 1", "may not fit"),
        ("x + 1 = 1", "may not be a finite number"),
        ("clip(x, 0, 1e200) * clip(x, 0, 1e200) = 1", "may not be a finite"),
        ("n % 0 = 1", "from 1 to"),
        ("n % -3 = 1", "from 1 to"),
        ("n % 9223372036854775807 = 1", "from 1 to"),
        ("n % m = 1", "from 1 to"),
        ("n % 2.5 = 1", "from 1 to"),
        ("x % 2 = 1", "% is for an integer"),
        ("clip(n, 0.5, 3) = 1", r"clip\(n, 0, 100\)"),
        ("clip(s, 0, 3) = 1", "clip needs numbers"),
        ("s + 1 = 1", "needs numbers"),
        ("d - d = 1", "needs numbers"),
        ("COALESCE(n, 'a') = 1", "n is an integer, 'a' is a string"),
        ("COALESCE(u, 'a') = 'a'", "without comparisons"),
        ("COALESCE(d, '2001-02-30') = d", "needs values of one type"),
        ("CASE WHEN b THEN n ELSE s END = 1", "CASE needs values of one type"),
        ("CASE WHEN n THEN 1 END = 1", "not a boolean"),
        ("COALESCE(s, 'a') < 'b'", "have no order"),
        ("s > CASE WHEN b THEN 'a' END", "have no order"),
        ("COALESCE(b, TRUE) > FALSE", "no order"),
        ("month(d)", r"not a boolean; compare it: month\(d\) = 1"),
        ("month(d) = 'x'", "is an integer"),
        ("month(d) LIKE 'x'", "LIKE needs"),
        ("month(d) = s", "cannot be compared"),
    ],
)
def test_types_are_checked_against_the_schema(text, says):
    table = ibis.table(TYPES, name="r")
    with pytest.raises(InvalidQuery, match=says):
        Predicate.parse(text).expression(table, TYPES, DUCK.like)


@pytest.mark.parametrize(
    "text",
    [
        "clip(n, -9223372036854775808, 9223372036854775806) + 1 = 1",
        "clip(n, -4611686018427387904, 0) * 2 = 1",
        "year(d) * 10000 + month(d) * 100 + day(d) = 20240229",
        "clip(x, -1e150, 1e150) * clip(x, -1e150, 1e150) + 1 = 1",
        "n * 0.5 + m > 1",
        "n % 4611686018427387904 * 2 = 1",
    ],
)
def test_what_provably_fits_is_computed(text):
    rows = {"n": [2**63 - 1, -(2**63), None], "m": [1, -1, 0], "x": [math.inf, -math.inf, 5e-324]}
    table = RowTable.open(pa.table(rows | {"d": [date.max, date.min, None]}), neighbor_relation=ROW_UNITS)
    assert table.prepare(count(text)).run() in range(4)


def test_moments_that_no_calendar_has_are_null(tmp_path):
    path = tmp_path / "rows.duckdb"
    DuckDB().store(path, "rows", pa.table({"n": [1]}))
    days = ("infinity", "-infinity", "5877642-06-25 (BC)", "10000-01-01", "5881580-07-10")
    times = ("infinity", "-infinity", "290309-12-22 (BC) 00:00:00", "10000-01-01", "294247-01-10 04:00:54")
    with duckdb.connect(str(path)) as connection:
        cells = ", ".join(f"(DATE '{day}', TIMESTAMP '{time}')" for day, time in zip(days, times, strict=True))
        connection.execute(f"CREATE TABLE moments AS SELECT * FROM (VALUES {cells}) AS made(d, t)")
    table = RowTable.open(path, table="moments", neighbor_relation=ROW_UNITS)
    for name in "dt":
        for made in ("year({})", "month({})", "day({})", "weekday({})", "date_trunc('week', {})"):
            assert table.prepare(count(f"{made.format(name)} IS NULL")).run() == 5, made
        assert table.prepare(count(f"year(COALESCE({name}, '2001-01-01')) = 2001")).run() == 0
    assert table.prepare(count("hour(t) IS NULL AND date_trunc('hour', t) IS NULL")).run() == 5
    table.close()


# By name, as groupings, sums and histograms have columns.


def test_a_name_is_a_column_first():
    table = ibis.table(TYPES, name="r")
    assert kind_of(TYPES, "blood-pressure") == "int64"
    assert column("blood-pressure", table, TYPES, DUCK.like).value.equals(table["blood-pressure"])
    assert kind_of(TYPES | {"month(d)": "string"}, "month(d)") == "string"
    assert kind_of(TYPES, "month(d)") == "int64"
    assert kind_of(TYPES, "COALESCE(n, 0.5)") == "float64"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nobody", "unknown column 'nobody'; the columns are n, m"),
        ("MONTH(d)", r"written 'month\(d\)'"),
        ("blood-pressures", "unknown column.*written 'blood - pressures'"),
        ('"n"', "unknown column"),
        ("my day", "unknown column"),
        ("month(dd)", "unknown column 'dd'"),
        ("sqrt(n)", "function sqrt"),
        ("7", "unknown column"),
        ("month(d) = 1", "unknown column|not supported"),
    ],
)
def test_other_names_are_refused(name, says):
    with pytest.raises(InvalidQuery, match=says):
        kind_of(TYPES, name)


ROWS = {
    "u": [1, 1, 2, 3, 3, None],
    "d": [date(2024, 1, 5), date(2024, 2, 6), date(2023, 2, 1), None, date(2023, 2, 7), date(2023, 2, 7)],
    "n": [-1, 4, None, 8, -8, 3],
}


def test_groupings_sums_and_histograms():
    table = RowTable.open(pa.table(ROWS), neighbor_relation=NeighborRelation("add_remove", "u"))
    months = count().by("month(d)", range(1, 13), max_groups_per_unit=1)
    assert table.prepare(months).run().tolist() == [1, 2] + [0] * 10
    assert query_of(body_of(months)) == months
    whole = count().by(["date_trunc('month', d)", "n % 4"], [(date(2024, 1, 1), 3), (date(2023, 2, 1), 0)])
    assert table.prepare(whole).run().tolist() == [1, 1]
    assert query_of(body_of(whole)) == whole
    summed = chary.sum("COALESCE(n, 5)", bounds=(0, 9), max_rows_per_unit=1).by("year(d)", [2023, 2024])
    assert table.prepare(summed).run().tolist() == [5, 4]
    assert table.prepare(histogram("n % 4", bins=[0, 1, 4])).run().tolist() == [2, 1]


def test_conditions_of_a_grouping_are_those_of_its_derived_column():
    table = RowTable.open(pa.table(ROWS), neighbor_relation=ROW_UNITS)
    found = [table.prepare(count(each)).run() for each in count("n < 9").by("month(d)", [1, 2]).conditions()]
    assert found == table.prepare(count("n < 9").by("month(d)", [1, 2])).run().tolist() == [1, 3]


def test_a_universe_has_none():
    universe = Universe({"n": range(12)})
    for text, says in (("n % 3 = 1", "none that are derived"), ("n = n % 3", "compare a column with literals")):
        with pytest.raises(InvalidQuery, match=says):
            located(universe, {"n": "int64"}, Predicate.parse(text))
