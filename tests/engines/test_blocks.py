"""Rows of several blocks read together: limits hold for a unit in one block, and units are counted once.

What is meant is plain Python on the rows of which each unit is a pair, of a unit and a block. Neighbours differ in the
rows of one unit in one block, and no answer moves further than is claimed.
"""

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from chary.data import Binned, Blocks, Count, NeighborRelation, mean
from chary.data.queries.ordered import Elements
from chary.errors import InvalidQuery
from tests.engines import asked, meanings
from tests.engines.asked import ANSWERED, NEIGHBOURS, OF_UNIT, Picker
from tests.engines.cells import world
from tests.engines.test_forms import in_units, listed
from tests.engines.test_neighbours import UNITS, claimed, limited, measured, moved, rows_of, vectors

RULES = [("d", "year"), ("d", "week"), ("d", "quarter"), ("t", "month"), ("t", "day")]
FORMS = list(dict.fromkeys((form, neighbors, unit) for form, neighbors, unit, _ in asked.rows_of() if unit))


def in_blocks(table, column, every, last="2013-12-31"):
    """The rows from 1969 on as those of several blocks, and in which block a row of plain Python is."""
    rule = Blocks(column, every=every, since="1969-12-31")
    names = [rule.name(day) for day in _days(last)]

    def block(row):
        value = row[column]
        name = None if value is None else rule.name(value)
        return name if names[0] <= (name or "") <= names[-1] and value.year > 1900 else None

    return table.in_blocks(rule).of_blocks(rule.between(names[0], names[-1])), block


def _days(last):
    return np.array(["1969-12-31", last], dtype="datetime64[D]").tolist()


def pairs(rows, unit, block):
    """The rows that are in blocks, each of its unit there."""
    return [row | {unit: None if row[unit] is None else (row[unit], block(row))} for row in rows if block(row)]


def expected(query, rows, unit):
    """Whoever counts is counted once; all else is that of the pairs."""
    if not isinstance(query, (Count, Binned)):
        return meanings.answer(query, rows, unit)
    cells = meanings.living(query, rows, unit, {}, 10**6)
    found = [len({owner for owner, _ in cell}) for cell in cells]
    return found if query.keys else found[0]


@pytest.mark.parametrize(("form", "neighbors", "unit"), FORMS, ids=str)
def test_answers_of_several_blocks(engine, shared, form, neighbors, unit):
    table, drawn = shared("cells", neighbors, unit), random.Random(f"{form} {neighbors}")
    for column, every in drawn.sample(RULES, engine.times(2)):
        part, block = in_blocks(table, column, every)
        pick = Picker(drawn, None, table.neighbor_relation)
        for query in ANSWERED[form][2](pick, drawn.choice(ANSWERED[form][1])):
            assert listed(part.prepare(query).run()) == expected(query, pairs(world(None), unit, block), unit), query


@pytest.mark.parametrize(("neighbors", "unit"), [place for place in NEIGHBOURS if place[1]])
@pytest.mark.parametrize(("of_unit", "most"), OF_UNIT)
def test_values_and_elements_of_several_blocks(engine, shared, neighbors, unit, of_unit, most):
    table, drawn = shared("cells", neighbors, unit), random.Random(f"{neighbors} {of_unit} {most}")
    part, block = in_blocks(table, *drawn.choice(RULES))
    rows, pick = pairs(world(None), unit, block), Picker(drawn, None, table.neighbor_relation)
    query = asked.orders(pick, {"of_unit": of_unit, "max_rows_per_unit": most})
    found = part.ordered(query).run()
    if of_unit == "random":
        assert in_units(found) == meanings.ordered(query, rows, unit)
    else:
        assert dict(zip(found.places.tolist(), found.counts.tolist(), strict=True)) == meanings.ordered(
            query, rows, unit
        )
    elements = asked.element_sets(pick, {"max_groups_per_unit": most})
    if elements.of == "k":
        assert set(part.elements(elements).run().words("key")[0].tolist()) == meanings.elements(
            elements, rows, unit, "key"
        )
    counted = Elements(**({} if unit else {"of": "k"}))
    assert len(part.elements(counted).run().words("key")[0]) == len({row[unit][0] for row in rows if row[unit]})


def test_what_is_of_all_rows_of_a_unit_is_refused(shared):
    """What is remembered of units, and what an author asserts of code, is of a unit and not of one in a block."""
    part, _ = in_blocks(shared("cells", "add_remove", "u"), "d", "year")
    with pytest.raises(InvalidQuery, match="Ask it of one block"):
        part.snapshot()
    with pytest.raises(InvalidQuery, match="ask a session of one block"):
        part.held.living(ANSWERED["count"][2](Picker(random.Random(1), None, None), {})[0], part.part)
    with pytest.raises(InvalidQuery, match="rows in blocks are read in some of those"):
        part.whole.snapshot()


# Neighbours: the unit that differs has rows in two other blocks, which stay the same.


@pytest.fixture(scope="module")
def block_worlds(opened):
    rows = rows_of(UNITS).to_pylist()
    own = [row | {"d": "2024-02"} for row in rows]
    more = [row | {"u": f"u{row['w']}", "d": month} for row in rows if row["u"][0] == "o" for month in MONTHS[::2]]
    days = [row | {"d": np.datetime64(f"{row['d']}-15", "D").item()} for row in own + more]
    schema = rows_of(UNITS[:1]).schema.append(pa.field("d", pa.date32()))
    rule = Blocks("d", since=MONTHS[0])
    return opened(pa.Table.from_pylist(days, schema), "replace", "u").in_blocks(rule).of_blocks(tuple(MONTHS))


MONTHS = ["2024-01", "2024-02", "2024-03"]


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_no_answer_moves_further_than_is_claimed(block_worlds, neighbors):
    neighbor_relation = NeighborRelation(neighbors, "u", block="month")
    parts = mean("x", bounds=(0, 3), max_rows_per_unit=2).by("k", ["a", "b"]).parts(neighbor_relation)
    for query in [*limited(), parts[0]]:
        changes = moved(vectors(block_worlds, query, len(UNITS)), neighbors, empty_too=True)
        found, most = measured(changes), claimed(query, neighbor_relation)
        assert all(got <= bound for got, bound in zip(found, most, strict=True)), query.body()
        # A unit that is in other blocks may be counted anyhow; what is added up moves as far as is claimed.
        assert found == most or isinstance(query, Count), query.body()


def test_limits_across_blocks_would_move_further(block_worlds):
    """What the rows of one block crowd out in another is why limits hold in each."""
    loose = block_worlds.whole.of_part(replace(block_worlds.part, within=None))
    neighbor_relation, wrong = NeighborRelation("add_remove", "u", block="month"), 0
    for query in limited():
        changes = moved(vectors(loose, query, len(UNITS)), "add_remove", empty_too=True)
        wrong += any(
            got > bound for got, bound in zip(measured(changes), claimed(query, neighbor_relation), strict=True)
        )
    assert wrong >= 5


def test_other_blocks_do_not_move_at_all(block_worlds):
    others = block_worlds.whole.of_blocks(("2024-03",))
    for query in limited():
        lines = vectors(others, query, len(UNITS))
        assert (lines == lines[0]).all(), query.body()
