"""What no engine takes: sources that are not there, queries that do not fit, failures that would tell of values."""

import pyarrow as pa
import pytest

import chary
from chary.data import NeighborRelation, Predicate, count, histogram, ordered, second_moments
from chary.data.queries.ordered import Elements
from chary.errors import CharyError, InvalidQuery, SchemaMismatch
from tests.engines.cells import SCHEMA
from tests.engines.openers import DIFFERENT

pytestmark = DIFFERENT
QUERIES = [
    (count("nobody = 1"), "unknown column"),
    (count().by("nobody", [1]), "unknown column"),
    (count().by("k", [1]), "cannot be of type integer"),
    (count().by("i", ["a"]), "cannot be of type string"),
    (count().by("x", [1]), "is a float"),
    (count().by("d", ["2013-1-1"]), "cannot be of type string"),
    (count("s > 5"), "is a string"),
    (count("i = 'x'"), "is an integer"),
    (count("b > TRUE"), "no order"),
    (count("d = t"), "cannot be compared"),
    (count("i LIKE 'x'"), "LIKE needs a string"),
    (chary.sum("k", bounds=(0, 1), max_rows_per_unit=1), "column of numbers"),
    (chary.sum("b", bounds=(0, 1), max_rows_per_unit=1), "column of numbers"),
    (chary.sum("x", bounds=(0, 1)), "many rows"),
    (histogram("s", bins=[0, 1]), "column of numbers"),
    (histogram("nobody", bins=[0, 1]), "unknown column"),
    (second_moments({"s": (0, 1)}, max_rows_per_unit=1), "columns of numbers"),
    (second_moments({"x": (0, 1)}), "many rows"),
]


@pytest.mark.parametrize(("query", "says"), QUERIES, ids=lambda what: "" if isinstance(what, str) else what.describe())
def test_queries_that_do_not_fit_are_refused_when_they_are_made(shared, tally, query, says):
    with pytest.raises(InvalidQuery, match=says):
        shared("cells", "replace", "u").prepare(query)
    tally("refused queries", 1)


def test_readings_that_do_not_fit_are_refused_when_they_are_made(shared, tally):
    table = shared("cells", "replace", "u")
    for ask in (
        lambda: table.ordered(ordered("nobody", bounds=(0, 1), max_rows_per_unit=1)),
        lambda: table.ordered(ordered("s", bounds=(0, 1), max_rows_per_unit=1)),
        lambda: table.elements(Elements(of="nobody", assumed_groups_per_unit=1)),
        lambda: table.elements(Elements(where=Predicate.of("nobody = 1"))),
        lambda: table.snapshot(["nobody"]),
        lambda: table.snapshot([]),
        lambda: shared("cells", "replace").elements(Elements()),
    ):
        with pytest.raises(InvalidQuery):
            ask()
        tally("refused queries", 1)


def test_a_unit_that_is_no_column_is_refused(opened, tally):
    with pytest.raises(SchemaMismatch, match="nobody"):
        opened(pa.table({"n": [1]}), "add_remove", "nobody")
    tally("refused sources", 1)


def test_the_schema_is_told_in_the_same_words(shared):
    words = {"int64": "int64", "double": "float64", "string": "string", "bool": "boolean", "date32[day]": "date"}
    expected = {name: words.get(str(SCHEMA.field(name).type), "timestamp") for name in SCHEMA.names}
    assert shared("cells").schema == expected
    assert list(shared("cells").schema) == SCHEMA.names


def test_columns_may_have_any_name(opened, tally):
    """Also those that statements use inside."""
    names = ["unit", "value", "position", "k0", "answer", "rank", 'say "hi"; --', "high", "select", "ü\U0001f642"]
    names += ["weight", "times", "used", "room", "rowid", "element", "word", "a" * 60]
    table = opened(pa.table({name: pa.array([1, 1, 2], pa.int64()) for name in names}), "add_remove", "unit")
    assert list(table.schema) == names
    for name in names[1:]:
        quoted = '"' + name.replace('"', '""') + '"'
        asked = chary.sum(name, bounds=(0, 9), max_rows_per_unit=1, where=f"{quoted} >= 1").by(
            name, [2, 1], max_groups_per_unit=1
        )
        assert table.prepare(asked).run().tolist() == [2, 1]
    for name in ("weight", "times", "element", "rank", 'say "hi"; --'):
        values = table.ordered(ordered(name, bounds=(0, 9), max_rows_per_unit=1, of_unit="weighted")).run()
        assert values.places.tolist() == [1, 2]
        assert len(table.elements(Elements(of=name, max_groups_per_unit=1)).run().words("key")[0]) == 2
    tally("names of columns", len(names) + 9)


def test_derived_columns_may_be_named_as_columns_are_and_at_length(opened, tally):
    """But for capitals, which some engines overlook, and beyond the names that some engines know."""
    rows = {"u": [1, 2, 3], "n": [4, 5, None], "N % 3": [7, 8, 9]}
    table = opened(pa.table({name: pa.array(cells, pa.int64()) for name, cells in rows.items()}), "add_remove", "u")
    long = f"CASE WHEN n > 4 THEN n % 3 + clip({' + '.join(['n % 3'] * 20)}, 0, 4) ELSE n % 3 END"
    for name, met in (("n % 3", [0, 1, 1]), (long, [0, 1, 0])):
        assert table.prepare(histogram(name, bins=[0, 1, 2, 3], max_groups_per_unit=1)).run().tolist() == met
        assert table.prepare(count().by(name, [0, 1, 2], max_groups_per_unit=1)).run().tolist() == met
        assert table.prepare(chary.sum(name, bounds=(0, 2), max_rows_per_unit=1)).run() == 3
    assert table.prepare(count().by("N % 3", [9, 7])).run().tolist() == [1, 1]
    tally("names of columns", 7)


def test_nothing_that_is_made_of_rows_is_shown(opened):
    table = opened(pa.table({"unit": ["SECRET"], "x": [98765.5]}), "add_remove", "unit")
    made = [table, table.held, table.prepare(count()), table.snapshot(["x"]), table.elements(Elements())]
    made += [table.elements(Elements()).words("key")[1]]
    shown = " ".join(map(repr, made))
    assert "SECRET" not in shown
    assert "98765" not in shown


def test_an_open_table_says_who_neighbours_are(opened):
    assert opened(pa.table({"u": [1]}), "replace", "u").neighbor_relation == NeighborRelation("replace", "u")
    with pytest.raises(CharyError):
        opened(pa.table({"u": [1]}), "bounded_change", None)
