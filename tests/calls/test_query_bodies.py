"""Queries are read from their own JSON, whatever they ask."""

import json
from dataclasses import fields
from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chary
from chary import InvalidInput, InvalidQuery, count, histogram, mean
from chary.calls import kinds
from chary.data import Values
from chary.data.queries.bodies import body_of, query_of
from chary.data.queries.stored import MECHANISM, current, stored
from chary.service.core.requests import Wish

names = st.sampled_from(["age", "cost", "a b", "Ünit"])
wheres = st.sampled_from([None, "age >= 65", "clinic = 'it''s' AND age > 3", "age IN (1, 2) OR smoker"])
whole = st.integers(1, 5)
numbers = st.one_of(st.integers(-50, 50), st.fractions(-50, 50, max_denominator=8))
keys = st.one_of(
    st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=4, unique=True),
    st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4, unique=True),
    st.lists(st.booleans(), min_size=1, max_size=2, unique=True),
    st.lists(st.dates(date(1900, 1, 1)), min_size=1, max_size=4, unique=True),
    st.lists(st.datetimes(datetime(1900, 1, 1)), min_size=1, max_size=4, unique=True),
)
limits = st.one_of(
    st.just({}),
    st.builds(lambda n: {"max_groups_per_unit": n}, whole),
    st.builds(lambda n: {"assumed_groups_per_unit": n}, whole),
)
bounds = st.lists(numbers, min_size=2, max_size=2, unique=True).map(sorted).map(tuple)


def refusable(make):
    """What is made, or nothing where the parts do not go together."""
    try:
        return make()
    except InvalidInput:
        return None


def sums(make):
    sized = st.one_of(st.just({}), whole.map(lambda n: {"max_rows_per_unit": n}))
    return st.builds(
        lambda column, where, edges, size: refusable(
            lambda: make(column, where=where, bounds=edges, grid="1/8", **size)
        ),
        names,
        wheres,
        bounds,
        sized,
    )


totals_of_units = st.builds(
    lambda column, edges: refusable(lambda: chary.sum(column, bounds=edges, unit_total=edges, grid="1/8")),
    names,
    bounds,
)
singles = st.one_of(st.builds(count, wheres), sums(chary.sum), sums(mean), totals_of_units).filter(bool)
keyed = st.builds(
    lambda query, rows, limit: refusable(lambda: query.by("clinic", rows, **limit)), singles, keys, limits
)
pairs = st.builds(
    lambda query, left, right: refusable(
        lambda: query.by(["clinic", "day"], list(zip(left, right, strict=False)), max_groups_per_unit=1)
    ),
    singles,
    keys,
    keys,
)
binned = st.builds(
    lambda column, edges, where, outside, limit: refusable(
        lambda: histogram(column, bins=sorted(edges), where=where, outside=outside, **limit)
    ),
    names,
    st.lists(numbers, min_size=2, max_size=5, unique=True),
    wheres,
    st.sampled_from(["ignore", "edges"]),
    limits,
)
series = st.builds(lambda size: Values(size, 1 + size % 3), st.integers(1, 100))
queries = st.one_of(singles, keyed, pairs, binned, series).filter(lambda query: query is not None)


@given(queries)
def test_a_query_is_read_from_its_own_json(query):
    kept, body = (json.loads(json.dumps(each, allow_nan=False)) for each in (query.body(), body_of(query)))
    assert query_of(body) == query_of(current(kept)) == query
    assert query_of(body).body() == query.body()
    assert query_of(body).describe() == query.describe()
    assert (stored(body), current(kept)) == (kept, body)


@pytest.mark.parametrize(
    "rows", [[date(2026, 3, 31)], [datetime(2026, 3, 31, 12, 30, 1, 5)], ["2026-03-31"], [True, False], [1, 0]]
)
def test_keys_keep_their_types(rows):
    read = query_of(json.loads(json.dumps(body_of(count().by("day", rows)))))
    assert list(read.keys) == [(key,) for key in rows]
    assert [type(key) for (key,) in read.keys] == [type(key) for key in rows]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"kind": "median"},
        {"kind": "count", "unheard": 1},
        {"kind": "sum"},
        {"kind": "total", "column": "cost", "bounds": ["0", "1"]},
        {"kind": "count", "where": 5},
        {"kind": "count", "by": {"columns": ["clinic"]}},
        {"kind": "count", "by": {"columns": ["clinic"], "keys": [["a", "b"]]}},
        {"kind": "count", "by": {"columns": ["day"], "keys": [["today"]], "types": ["date"]}},
        {"kind": "count", "by": {"columns": ["day"], "keys": [["2026-03-31"]], "types": []}},
        {"kind": "count", "by": 5},
        {"kind": "histogram", "column": "age"},
        {"kind": "series"},
        {"kind": "sum", "column": "cost", "bounds": ["0", "1"], "center": "3"},
    ],
)
def test_what_is_the_body_of_no_query_is_refused(body):
    with pytest.raises(InvalidQuery):
        query_of(body)


def test_stored_calls_are_said_in_the_words_of_today():
    kept = {"kind": "histogram", "keep_per_unit": 2, "queries": [{"kind": "mean", "rows_per_unit": 1}, "age > 3"]}
    queries = [{"kind": "mean", "max_rows_per_unit": 1}, "age > 3"]
    said = {"kind": "histogram", "max_groups_per_unit": 2, "queries": queries}
    assert (current(kept), stored(said)) == (said, kept)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (
            {"kind": "quantile", "column": "age", "rows_per_unit": 1},
            {"kind": "quantiles", "column": "age", "max_rows_per_unit": 1},
        ),
        ({"kind": "test", "query": {"kind": "total"}}, {"kind": "test", "query": {"kind": "sum"}}),
        ({"kind": "total", "rows_per_unit": 1}, {"kind": "sum", "max_rows_per_unit": 1}),
        ({"kind": "call_twice"}, {"kind": "boundary"}),
        ({"kind": "cover", "candidates": ["age > 3"]}, {"kind": "greedy", "candidates": ["age > 3"]}),
        ({"kind": "decide", "above": "5"}, {"kind": "classify", "above": "5"}),
        ({"kind": "between", "low": "5", "high": "9"}, {"kind": "classify", "low": "5", "high": "9"}),
        ({"kind": "watch", "query": {"kind": "total"}}, {"kind": "release_if", "query": {"kind": "sum"}}),
        ({"kind": "mode", "epsilon": "1"}, {"kind": "choose", "epsilon": "1", "mechanism": "inverse"}),
        ({"kind": "noisy_max", "low": "0"}, {"kind": "choose", "low": "0", "mechanism": "gaussian"}),
        (
            {"kind": "inverse_sensitivity", "distance": {"kind": "total"}},
            {"kind": "exponential_mechanism", "distance": {"kind": "sum"}, "score": None},
        ),
        ({"kind": "label_clear"}, {"kind": "label", "clear": True, "flip": False}),
        ({"kind": "randomized", "condition": "x"}, {"kind": "randomized_values", "column": None, "condition": "x"}),
        ({"kind": "choose_with_lead"}, {"kind": "choose", "mechanism": "laplace", "lead": True}),
        ({"kind": "sparse_weights", "rho": "1"}, {"kind": "multiplicative_weights", "rho": "1", "prepaid": True}),
    ],
)
def test_a_kept_job_is_read_in_the_words_of_today(kept, said):
    assert Wish.of_written(json.dumps({"action": "ask", "run": None, "body": kept})).body == said


@pytest.mark.parametrize("kind", MECHANISM)
def test_the_mechanism_of_a_call_is_stored_under_the_word_of_its_kind(kind):
    assert "mechanism" in {field.name for field in fields(kinds()[kind])}
    grouped = {"kind": "count", "by": {"columns": ["clinic"], "keys": [["a", "b"]], "keep_per_unit": 1}}
    kept = {"query": grouped, MECHANISM[kind]: "exponential"}
    said = current(kept, kind)
    assert said == {"query": current(grouped), "mechanism": "exponential"}
    assert stored(said, kind) == kept
    assert Wish.of_written(json.dumps({"action": "ask", "run": None, "body": kept | {"kind": kind}})).body == (
        said | {"kind": kind}
    )


def test_the_words_of_one_kind_are_not_those_of_another():
    said = {"query": {"kind": "count", "by": None}, "by": "x", "form": "x", "method": "x", "rule": "x"}
    assert current(said) == current(said, "test") == said
    assert current(said, "majority") == {name: word for name, word in said.items() if name != "rule"} | {
        "mechanism": "x"
    }


def test_names_of_callers_are_never_changed():
    columns = {"keep_per_unit": [1, 2], "max_rows_per_unit": [3], "kind": ["total", "sum"]}
    said = {"kind": "marginal", "columns": columns, "algorithm": {"name": "x", "parameters": columns}}
    assert stored(said) == current(said) == said
