"""Rows that are added: afterwards everything is answered as if they had always been there, or nothing was added."""

import itertools
import math
import random

import pyarrow as pa
import pytest

import chary
from chary.data import EntryLimit, NeighborRelation, count, histogram, mean, ordered, second_moments
from chary.data.queries.ordered import Elements
from chary.data.rows import Rooms
from chary.data.table import living
from chary.errors import CharyError, EngineError, SchemaMismatch
from tests.engines import meanings
from tests.engines.cells import ROWS, SCHEMA, frame

NOBODY = Rooms(pa.table({"unit": pa.array([], pa.string()), "room": pa.array([], pa.int64())}), 3)
QUERIES = [
    count("x > 0"),
    count("x > 0", without="b"),
    count().by("k", ["a", "a ", "zz"], max_groups_per_unit=1),
    chary.sum("x", bounds=(-2, 3), grid="0.5", max_rows_per_unit=2),
    chary.sum("i", bounds=(-7, 7), unit_total=(-3, 5)).by(["k", "b"], [("a", True), ("b", False)]),
    histogram("i", bins=[-8, 0, 2, 8], outside="edges"),
    second_moments({"x": (0, 4), "i": (-2, 3)}, steps=10, max_rows_per_unit=2),
    *mean("x", bounds=(-2, 3), grid="0.5", max_rows_per_unit=2)
    .by("k", ["a", "b"])
    .parts(NeighborRelation("replace", "u")),
]


@pytest.fixture(autouse=True)
def growing(engine):
    if not engine.grows:
        pytest.skip("rows of this engine do not grow through it")


def batches(seed):
    """All rows in an order of its own, cut in pieces of which one is empty and one is a single row."""
    rows = random.Random(seed).sample(ROWS, len(ROWS))
    cuts = [0, 40, 40, 41, 100, len(rows)]
    return [rows[start:end] for start, end in itertools.pairwise(cuts)]


def more(**columns):
    """One more row, of a unit that is new."""
    row = {"w": 99, "n": 999, "u": "new", "v": 1, "k": "a", "i": 1, "x": 1.5, "s": "", "b": True, "d": None, "t": None}
    made = frame([row])
    for name, values in columns.items():
        made = (
            made.set_column(made.schema.get_field_index(name), name, pa.array(values)) if values else made.drop([name])
        )
    return made


def test_answers_after_appending_are_those_of_all_rows(opened, tally):
    """Plans that were made before the rows came read them, too."""
    first, *later = batches(1)
    table, there = opened(frame(first), "add_remove", "u"), list(first)
    plans = [table.prepare(query) for query in QUERIES]
    values = ordered("x", bounds=(-2, 3), step="0.5", max_rows_per_unit=2)
    order, living_plan, words = table.ordered(values), living(table, QUERIES[2]), table.elements(Elements()).run()
    mark = words.words("key")[1]
    seen = set(words.words("key")[0].tolist())
    for number, batch in enumerate(later, 1):
        assert table.append(frame(batch)).number == number
        there += batch
        for query, plan in zip(QUERIES, plans, strict=True):
            found = plan.run()
            assert (found if isinstance(found, int) else found.tolist()) == meanings.answer(query, there, "u"), query
        found = order.run()
        assert dict(zip(found.places.tolist(), found.counts.tolist(), strict=True)) == meanings.ordered(
            values, there, "u"
        )
        with living_plan.at(NOBODY) as units:
            assert units.answers().tolist() == [len(cell) for cell in meanings.living(QUERIES[2], there, "u", {}, 3)]
        some, mark = words.words("key", mark)
        seen |= set(some.tolist())
        assert seen == meanings.elements(Elements(), there, "u", "key")
        assert len(table.snapshot(["n"]).run()) == len(there)
    assert [batch.number for batch in table.batches()] == list(range(1, len(later) + 1))
    tally("answers after appending", len(later) * (len(QUERIES) + 4))


def test_a_request_is_one_batch_however_often_it_comes(opened, tally):
    table = opened(frame(ROWS[:9]), "add_remove", "u")
    first = table.append(more(), request="monday")
    assert table.append(more(), request="monday") == first
    assert table.append(frame(ROWS[:3]), request="monday") == first
    second = table.append(more(), request="it's \U0001f642")
    assert table.append(more(), request="it's \U0001f642") == second
    assert [batch.number for batch in table.batches()] == [1, 2]
    assert [batch.number for batch in table.batches(1)] == [2]
    assert len(table.snapshot(["n"]).run()) == 11
    tally("batches and requests", 6)


def test_batches_that_outlive_the_table_are_told(engine, opened):
    table = opened(frame(ROWS[:9]), "add_remove", "u")
    assert table.keeps_batches is engine.keeps

    def refuse(batch):
        raise CharyError("the ledger is closed")

    with pytest.raises(CharyError, match="closed"):
        table.append(more(), request="monday", arrive=refuse)
    there = engine.keeps
    assert len(table.snapshot(["n"]).run()) == 9 + there
    assert [batch.request for batch in table.batches()] == ["monday"] * there
    assert table.append(more(), request="monday").number == 1
    assert len(table.snapshot(["n"]).run()) == 10


BAD = {
    "a text for a number": {"x": ["SECRET"]},
    "a number for a text": {"k": [98765]},
    "a boolean for a number": {"i": [True]},
    "a double for a whole number": {"i": [98765.5]},
    "a whole number for a moment": {"t": [98765]},
    "no column": {"x": None},
    "one column more": {"x": [1.0], "more": ["SECRET"]},
}


@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_refused_before_anything_is_written(opened, tally, what):
    table = opened(frame(ROWS[:9]), "add_remove", "u")
    batch = more(**{name: values for name, values in BAD[what].items() if name != "more"})
    if "more" in BAD[what]:
        batch = batch.append_column("more", pa.array(BAD[what]["more"]))
    with pytest.raises(SchemaMismatch) as caught:
        table.append(batch, request="monday")
    assert "nothing was written" in str(caught.value)
    assert not any(value in str(caught.value) for value in ("SECRET", "98765"))
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert len(table.snapshot(["n"]).run()) == 9
    assert table.batches() == []
    assert table.append(more(), request="monday").number == 1
    tally("refused batches", 1)


def test_types_fit_by_class(opened, tally):
    """Whole numbers go into doubles, narrow ones into wide ones, NULL anywhere; columns may come in any order."""
    table = opened(frame(ROWS[:9]), "add_remove", "u")
    before = {name: table.prepare(count(f"{name} IS NULL")).run() for name in "xik"}
    row = more(x=[2**53], i=pa.array([1], pa.int8()).to_pylist())
    row = row.set_column(row.schema.get_field_index("i"), "i", pa.array([3], pa.int16()))
    table.append(row.select(list(reversed(row.column_names))))
    assert table.prepare(count("w = 99 AND x = 9007199254740992 AND i = 3")).run() == 1
    nothing = pa.table({name: pa.array([None], pa.string() if name == "u" else pa.null()) for name in SCHEMA.names})
    table.append(nothing.set_column(2, "u", pa.array(["newer"])))
    assert {name: table.prepare(count(f"{name} IS NULL")).run() for name in "xik"} == {
        name: there + 1 for name, there in before.items()
    }
    nan = more().set_column(6, "x", pa.array([math.nan], pa.float64(), from_pandas=False))
    table.append(nan)
    assert table.prepare(count("w = 99 AND x IS NULL")).run() == 1
    tally("types that fit", 3)


def test_a_limit_on_entries_holds_for_what_is_added(opened, tally):
    with pytest.raises(SchemaMismatch, match="more than 1 entries"):
        opened(frame(ROWS), "replace", None, limit=EntryLimit("u", 1))
    table = opened(frame([row for row in ROWS if row["w"] == 3]), "replace", None, limit=EntryLimit("u", 2))
    size = len(table.snapshot(["n"]).run())
    table.append(more())
    table.append(more(u=[None]))
    table.append(more(u=[None]))
    table.append(more(u=[None]))
    table.append(more())
    with pytest.raises(SchemaMismatch, match="more than 2 entries") as caught:
        table.append(more())
    assert "new" not in str(caught.value)
    assert len(table.snapshot(["n"]).run()) == size + 5
    tally("limits of entries", 3)


def test_a_closed_table_neither_grows_nor_answers(opened):
    table = opened(frame(ROWS[:9]), "add_remove", "u")
    plans = [
        table.prepare(count()),
        table.snapshot(["n"]),
        table.ordered(ordered("i", bounds=(0, 1), max_rows_per_unit=1)),
    ]
    table.close()
    table.close()
    for plan in plans:
        with pytest.raises(EngineError) as caught:
            plan.run()
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    with pytest.raises(CharyError):
        table.append(more())
    with pytest.raises(EngineError):
        table.elements(Elements()).run().words("key")
