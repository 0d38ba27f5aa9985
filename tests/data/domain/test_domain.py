import time
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pytest

from chary.data import count
from chary.data.queries.keys import Domain
from chary.errors import InvalidQuery


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ([], "empty"),
        (["a", "a"], "duplicates"),
        ([2, True], "one type"),
        (["a", 1], "one type"),
        ([date(2013, 1, 1), datetime(2013, 1, 1)], "one type"),
        ([None], "NULL"),
        ([float("nan")], "NaN"),
        ([np.float64("nan")], "NaN"),
        ([1.5], "not float"),
        ([b"a"], "not bytes"),
        ([("a", "b")], "not tuple"),
        ([2**63], "64 bits"),
        (["\ud800"], "Unicode"),
        (["a\0"], "NUL"),
        ([datetime(2013, 1, 1, tzinfo=UTC)], "time zone"),
        ("abc", "must be a list"),
        (5, "must be a list"),
    ],
    ids=repr,
)
def test_bad_keys(keys, says):
    with pytest.raises(InvalidQuery, match=says):
        count().by("k", keys)


@pytest.mark.parametrize("keys", [["a"], [("a",)], [("a", "b", "c")], ["ab"]])
def test_bad_widths(keys):
    with pytest.raises(InvalidQuery, match="tuple of 2"):
        count().by(["k", "l"], keys)


@pytest.mark.parametrize("columns", [[], ["a", "a"], [1]])
def test_bad_columns(columns):
    with pytest.raises(InvalidQuery, match="column"):
        count().by(columns, [("a", "b")])


def test_scalars_of_numpy_and_pandas_are_read():
    assert Domain.of("k", np.array([1, 2])).rows == ((1,), (2,))
    assert Domain.of("k", pd.Series(["a", "b"])).rows == (("a",), ("b",))
    moments = Domain.of("k", pd.to_datetime(["2013-01-01 10:00"]))
    assert moments.rows == ((datetime(2013, 1, 1, 10),),)
    assert moments.kinds == ("timestamp",)
    with pytest.raises(InvalidQuery):
        Domain.of("k", [pd.NaT])


def test_identity_and_body():
    first, second = (Domain.of(["k", "d"], [("a", date(2013, 1, 1))]) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != Domain.of(["k", "d"], [("a", "2013-01-01")])
    assert first != "text"
    assert first.body() == {"columns": ["k", "d"], "types": ["string", "date"], "keys": [["a", "2013-01-01"]]}
    assert repr(first) == "Domain(k, d: 1 keys)"


def test_a_hundred_thousand_keys_are_looked_up_fast():
    query = count().by("k", range(100_000))
    lookup = {query: 1}
    start = time.perf_counter()
    assert lookup[query] == 1
    assert time.perf_counter() - start < 0.05
