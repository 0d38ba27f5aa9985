from datetime import date, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from chary.data import NeighborRelation, Series, count
from chary.data.queries.bodies import body_of, query_of
from chary.errors import EngineError, InvalidParameter, InvalidQuery, SchemaMismatch

NB = NeighborRelation("bounded_change", None)


def series(values=(5, 7, 9), **more):
    return Series.open(pa.table({"day": ["c", "a", "b"], "n": list(values)}), column="n", sensitivity=2, **more)


def test_query_and_sensitivity():
    source = series()
    query = source.series()
    assert source.prepare(query).run().tolist() == [5, 7, 9]
    assert source.prepare(query).run().dtype == np.int64
    assert query.keys == ((0,), (1,), (2,))
    assert (query.sensitivity(NB), query.reach(NB), query.l1(NB)) == (2, 3, 6)
    assert source.neighbor_relation == NB
    assert source.schema == {"n": "int64"}
    assert query.body() == {"kind": "series", "length": 3, "step": 2}
    assert "3 values" in query.describe()
    assert query.grid == 1
    for neighbors in ("add_remove", "replace"):
        with pytest.raises(InvalidQuery, match="a series of counts"):
            query.sensitivity(NeighborRelation(neighbors, None))
    with pytest.raises(InvalidQuery, match="a series of counts"):
        query.contribution(NB)


def test_order_and_labels():
    source = series(order_by="day", labels="day")
    assert source.prepare(source.series()).run().tolist() == [7, 9, 5]
    assert source.labels == ("a", "b", "c")
    assert series().labels is None


def test_append():
    source = series(order_by="day", labels="day")
    before = source.prepare(source.series())
    mark = source.fingerprint()
    source.append(pd.DataFrame({"n": [1, 2], "day": ["e", "d"]}))
    assert before.run().tolist() == [7, 9, 5]
    assert source.prepare(source.series()).run().tolist() == [7, 9, 5, 2, 1]
    assert source.labels == ("a", "b", "c", "d", "e")
    assert source.fingerprint() == mark
    for bad in ({"n": [1], "day": ["b"]}, {"n": [1.5], "day": ["x"]}, {"n": [1]}, {"n": [None], "day": ["x"]}):
        with pytest.raises(SchemaMismatch):
            source.append(pa.table(bad))
    assert len(source.series().keys) == 5


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"other": [1]}, "no column 'n'"),
        ({"n": [1.5]}, "integers"),
        ({"n": ["secret"]}, "integers"),
        ({"n": [777, None]}, "NULL"),
        ({"n": pa.array([2**64 - 1], pa.uint64())}, "integers"),
    ],
)
def test_bad_sources(columns, says):
    with pytest.raises(SchemaMismatch, match=says) as caught:
        Series.open(pa.table(columns), column="n", sensitivity=1)
    assert "secret" not in str(caught.value)
    assert "777" not in str(caught.value)


def test_bad_arguments(tmp_path):
    for sensitivity in (0, -1, 1.5, True):
        with pytest.raises(InvalidParameter):
            Series.open(pa.table({"n": [1]}), column="n", sensitivity=sensitivity)
    with pytest.raises(SchemaMismatch, match="no column 'day'"):
        Series.open(pa.table({"n": [1]}), column="n", sensitivity=1, labels="day")
    (tmp_path / "x.duckdb").touch()
    with pytest.raises(InvalidParameter):
        Series.open(tmp_path / "x.duckdb", column="n", sensitivity=1)
    with pytest.raises(InvalidQuery, match="series"):
        series().prepare(count())
    with pytest.raises(InvalidQuery, match="another series"):
        series().prepare(Series.open(pa.table({"n": [1]}), column="n", sensitivity=1).series())


def test_secrets_stay_inside():
    source = series()
    plan = source.prepare(source.series())
    assert "7" not in repr(source) + repr(plan)
    assert plan.query == source.series()
    assert source.fingerprint() == series((1, 2, 3)).fingerprint()
    assert source.fingerprint() != Series.open(pa.table({"n": [1]}), column="n", sensitivity=1).fingerprint()
    source.close()
    with pytest.raises(EngineError, match="closed"):
        plan.run()


def test_bike_rentals(tmp_path):
    bikes = tmp_path / "day.csv"
    rows = [f"{day + 1},{date(2011, 1, 1) + timedelta(day)},{day * 37 % 6947}" for day in range(731)]
    bikes.write_bytes("\r\n".join(["instant,dteday,registered", *reversed(rows), ""]).encode())
    source = Series.open(bikes, column="registered", sensitivity=1, order_by="dteday", labels="dteday")
    frame = pd.read_csv(bikes).sort_values("dteday")
    np.testing.assert_array_equal(source.prepare(source.series()).run(), frame["registered"])
    assert str(source.labels[0]) == "2011-01-01"
    polars = Series.open(pl.read_csv(bikes).sort("dteday"), column="registered", sensitivity=1)
    np.testing.assert_array_equal(polars.prepare(polars.series()).run(), frame["registered"])


def numbers(*values):
    return Series.open(pa.table({"n": list(values)}), column="n", sensitivity=2)


def test_parts_of_a_series():
    source = numbers(5, 7, 9, 11)
    part, one = source.series().since(2), source.series().at(1)
    assert source.prepare(part).run().tolist() == [9, 11]
    assert source.prepare(one).run() == 7
    assert (part.keys, one.keys) == (((2,), (3,)), None)
    assert (part.reach(NB), part.l1(NB), one.reach(NB), one.l1(NB), one.sensitivity(NB)) == (2, 4, 1, 2, 2)
    assert part.since(3).keys == ((3,),)
    assert part.body() == {"kind": "series", "length": 4, "step": 2, "start": 2}
    assert one.body() == {"kind": "series_value", "position": 1, "step": 2}
    assert "from 2 on" in part.describe()
    assert [query_of(body_of(query)) for query in (part, one, source.series())] == [part, one, source.series()]


@pytest.mark.parametrize("day", [4, -1, "a", 1.5])
def test_days_that_are_not_there_are_refused(day):
    for part in (numbers(5, 7, 9, 11).series().since, numbers(5, 7, 9, 11).series().at):
        with pytest.raises((InvalidQuery, InvalidParameter)):
            part(day)


def test_a_part_of_a_longer_series_is_refused():
    longer = numbers(5, 7, 9, 11).series()
    for query in (longer.at(3), longer.since(3)):
        with pytest.raises(InvalidQuery, match="another series"):
            numbers(5, 7, 9).prepare(query)
    with pytest.raises(InvalidQuery):
        query_of({"kind": "series_value", "position": -1, "step": 2})


@pytest.mark.parametrize("cell", ["3.7", "", "many", "9223372036854775808"])
def test_counts_that_are_no_whole_numbers_are_called_so(tmp_path, cell):
    (tmp_path / "days.csv").write_text(f"day,n\n1,5\n2,{cell}\n")
    with pytest.raises(SchemaMismatch, match="each row must hold in column 'n' an integer") as refused:
        Series.open(tmp_path / "days.csv", column="n", sensitivity=1)
    assert "nor is a decimal" in str(refused.value)
    assert "many" not in str(refused.value)
    with pytest.raises(SchemaMismatch, match="each row must hold in column 'day' a value"):
        Series.open(pa.table({"day": [1, None], "n": [5, 6]}), column="n", sensitivity=1, order_by="day")
