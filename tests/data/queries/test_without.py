"""Counts of units with a row of one kind and none of another, against plain Python."""

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chary.data import NeighborRelation, Predicate, RowTable, count
from chary.data.queries.sums import any_of
from chary.errors import InvalidQuery
from tests.data.oracle import answer, truth

SCHEMA = pa.schema({"u": pa.string(), "k": pa.string(), "n": pa.int64()})
ROW = st.fixed_dictionaries(
    {
        "u": st.sampled_from(["p", "q", "r", None]),
        "k": st.sampled_from(["a", "b", "c", None]),
        "n": st.sampled_from([None, 0, 1, 2]),
    }
)
ROWS = st.lists(ROW, max_size=10)
CONDITIONS = ["n > 0", "k = 'a'", "NOT (n > 0) OR k = 'b'", "k IS NULL", "n = 7"]
WHERE = st.sampled_from([None, *CONDITIONS])
KEYING = st.sampled_from([None, {}, {"max_groups_per_unit": 1}, {"assumed_groups_per_unit": 2}])
UNITS = pytest.mark.parametrize("unit", ["u", None])


def table(rows, unit, neighbors="add_remove"):
    frame = pa.Table.from_pylist(rows, schema=SCHEMA)
    return RowTable.open(frame, neighbor_relation=NeighborRelation(neighbors, unit))


def asked(where, without, keying):
    query = count(where, without=without)
    return query if keying is None else query.by("k", ["b", "a"], **keying)


def expected(rows, where, without, keying, unit):
    """The same count over the rows of those units (or rows) that have nothing to do with `without`."""
    condition = Predicate.parse(without).condition
    if unit is None:
        left = [row for row in rows if truth(condition, row) is not True]
    else:
        excluded = {row[unit] for row in rows if truth(condition, row) is True}
        left = [row for row in rows if row[unit] not in excluded or row[unit] is None]
    return answer(asked(where, None, keying), left, unit)


@UNITS
@settings(max_examples=30, deadline=None)
@given(rows=ROWS, where=WHERE, without=st.sampled_from(CONDITIONS), keying=KEYING)
def test_against_plain_python(unit, rows, where, without, keying):
    if unit is None and keying and "max_groups_per_unit" in keying:
        keying = {}
    with_limits = asked(where, without, keying)
    opened = table(rows, unit)
    found = opened.prepare(with_limits).run()
    opened.close()
    assert (found if isinstance(found, int) else found.tolist()) == expected(rows, where, without, keying, unit)


@settings(max_examples=12, deadline=None)
@given(rows=ROWS, more=ROWS, where=WHERE, without=st.sampled_from(CONDITIONS), keying=KEYING)
def test_a_unit_moves_each_answer_by_one_at_most(rows, more, where, without, keying):
    rows = [row for row in rows if row["u"] != "p"]
    one, other = ([row | {"u": "p"} for row in part] for part in (more, reversed(more)))
    query, answers = asked(where, without, keying), []
    for added in ([], one, other[:1]):
        opened = table(rows + added, "u")
        found = opened.prepare(query).run()
        opened.close()
        answers.append([found] if isinstance(found, int) else found.tolist())
    for first, second in ((0, 1), (0, 2)):
        changes = [abs(a - b) for a, b in zip(answers[first], answers[second], strict=True)]
        assert max(changes) <= query.sensitivity(NeighborRelation("add_remove", "u")) == 1
        limit = (keying or {}).get("max_groups_per_unit", 2)
        assert sum(changes) <= limit


def test_it_is_another_question_with_a_body_of_its_own():
    plain, other = count("n > 0"), count("n > 0", without="k = 'a'")
    assert plain != other
    assert "without" not in plain.body()
    assert json.dumps(plain.body() | {"without": "k = 'a'"}) == json.dumps(other.body())
    assert other.by("k", ["a"]).without == other.without
    assert "without k = 'a'" in other.by("k", ["a"]).describe()
    assert count("n > 0", without=Predicate.parse("k = 'a'")) == other


def test_an_unknown_column_is_refused():
    opened = table([], "u")
    with pytest.raises(InvalidQuery, match="nowhere"):
        opened.prepare(count(without="nowhere = 1"))
    with pytest.raises(InvalidQuery):
        opened.prepare(count(without="k > 1"))
    opened.close()


@pytest.mark.parametrize("where", [None, "n > 0", "n > 0 AND k = 'a'", "n > 0 OR k = 'a'"])
def test_conditions_of_keys_count_what_the_keys_do(where):
    rows = [{"u": unit, "k": key, "n": n} for unit, key, n in zip("ppqqr", "abbca", (1, 0, 2, 1, 0), strict=True)]
    opened, query = table(rows, "u"), count(where).by("k", ["c", "a", "b"])
    apart = [opened.prepare(count(condition)).run() for condition in query.conditions()]
    assert apart == opened.prepare(query).run().tolist()
    assert [Predicate.parse(condition.text) for condition in query.conditions()] == query.conditions()
    opened.close()


def test_any_of():
    texts = ["n > 0 OR k = 'a'", "k = 'b' AND n = 1", "NOT (n = 2)"]
    joined = any_of([Predicate.parse(text) for text in texts])
    assert joined is not None
    assert joined.text == "n > 0 OR k = 'a' OR (k = 'b' AND n = 1) OR NOT (n = 2)"
    assert Predicate.parse(joined.text).condition == joined.condition
    assert any_of([]) is None
    assert any_of([Predicate.parse("n > 0")]) == Predicate.parse("n > 0")


@pytest.mark.parametrize(
    "query", [count(), count().by("k", ["a"], max_groups_per_unit=1), count(without="n = 1").by("k", ["a"])]
)
def test_what_depends_on_other_rows_has_no_conditions(query):
    with pytest.raises(InvalidQuery):
        query.conditions()
