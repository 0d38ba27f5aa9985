"""The rows of a part, against plain Python on the rows that are in it, on every engine."""

import random

import pyarrow as pa
import pytest

from chary.data import NeighborRelation, Predicate
from chary.data.partition import Partition
from chary.data.queries.keys import Domain
from chary.data.queries.ordered import Elements
from chary.data.queries.query import Keying
from chary.data.table import living
from chary.errors import InvalidQuery
from tests.engines import asked, meanings
from tests.engines.asked import ANSWERED, NEIGHBOURS, OF_UNIT, Picker
from tests.engines.cells import DATES, KEYS, MOMENTS, ROWS, WORLDS, world
from tests.engines.test_forms import in_units, listed, rooms

VALUES = {
    "k": [key for key in KEYS if key is not None] + ["zz"],
    "i": [7, 3, -(2**63), 0],
    "b": [True, False],
    "d": [day for day in DATES if day is not None][:4],
    "t": [moment for moment in MOMENTS if moment is not None][:4],
}
CONDITIONS = {
    "numbers": {"low": "i < 0", "zero": "i = 0", "high": "i > 0 AND i <= 1000"},
    "doubles": {"small": "x <= 0.5", "large": "x > 0.5 AND x < 1000"},
    "texts": {"a": "k IN ('a', 'A')", "b": "k = 'b' AND i < 9"},
    "days": {"old": "d < '1970-01-01'", "new": "d >= '1970-01-01'"},
}
HOLDS = {
    "numbers": [lambda row: row["i"] < 0, lambda row: row["i"] == 0, lambda row: 0 < row["i"] <= 1000],
    "doubles": [lambda row: row["x"] <= 0.5, lambda row: 0.5 < row["x"] < 1000],
    "texts": [
        lambda row: row["k"] in ("a", "A"),
        lambda row: row["k"] == "b" and row["i"] is not None and row["i"] < 9,
    ],
    "days": [lambda row: str(row["d"]) < "1970-01-01", lambda row: str(row["d"]) >= "1970-01-01"],
}
LOOKS_AT = {"numbers": "i", "doubles": "x", "texts": "k", "days": "d"}
DIVIDED = [*VALUES, *CONDITIONS]


def partition(by, table, **limits):
    """By the values of a column, or by conditions."""
    terms = (by, VALUES[by]) if by in VALUES else (CONDITIONS[by], None)
    return Partition.of(*terms, table.schema, table.neighbor_relation, **limits)


def part_of(by, row):
    """The number of the part that a row is in, None for no part."""
    value = row[by if by in VALUES else LOOKS_AT[by]]
    if meanings.missing(value):
        return None
    if by in VALUES:
        return VALUES[by].index(value) if value in VALUES[by] else None
    return next((number for number, holds in enumerate(HOLDS[by]) if holds(row)), None)


def counted(by, unit, most):
    """Of each part the numbers of the rows that count in it: of a unit those of the parts that it was in first."""
    parts, found = {}, {}
    for row in ROWS:
        number = part_of(by, row)
        if number is None:
            continue
        owner = row[unit] if unit else None
        mine = parts.setdefault(owner, [])
        if most is not None and number not in mine and len(mine) < most:
            mine.append(number)
        if most is None or owner is None or number in mine:
            found.setdefault(number, set()).add(row["n"])
    return found


def limits_of(engine, unit):
    """The limits under which rows with this unit are divided."""
    if unit is None:
        return [{}]
    assumed = [{"assumed_parts_per_unit": 9}]
    return assumed + ([{"max_parts_per_unit": most} for most in (1, 2)] if engine.ordered else [])


def cases(engine, table, unit, form):
    """Each partition under each limit, a part of it with the rows that count there, and what is left open."""
    drawn = random.Random(f"{form} {unit}")
    for by in drawn.sample(DIVIDED, engine.times(4)):
        for limits in limits_of(engine, unit):
            made = partition(by, table, **limits)
            inside = counted(by, unit, limits.get("max_parts_per_unit"))
            number, (_, part) = drawn.choice(list(enumerate(made.parts.items())))
            some = drawn.choice([None, range(4, WORLDS)])
            place = None if some is None else drawn.choice(some)
            rows = [row for row in world(place) if row["n"] in inside.get(number, ())]
            yield table.of_part(part), rows, Picker(drawn, place, table.neighbor_relation)


FORMS = list(dict.fromkeys((form, neighbors, unit) for form, neighbors, unit, _ in asked.rows_of()))


@pytest.mark.parametrize(("form", "neighbors", "unit"), FORMS, ids=str)
def test_answers_of_a_part(engine, shared, form, neighbors, unit):
    table = shared("cells", neighbors, unit)
    for part, rows, pick in cases(engine, table, unit, form):
        limits = pick.drawn.choice(ANSWERED[form][1])
        for query in ANSWERED[form][2](pick, limits):
            assert listed(part.prepare(query).run()) == meanings.answer(query, rows, unit), (part, query.body())


@pytest.mark.parametrize(("neighbors", "unit"), NEIGHBOURS)
def test_values_elements_and_cells_of_a_part(engine, shared, neighbors, unit):
    table = shared("cells", neighbors, unit)
    for part, rows, pick in cases(engine, table, unit, "values"):
        limits = {"max_rows_per_unit": 1} if unit else {}
        query = asked.orders(pick, limits)
        found = part.ordered(query).run()
        expected = meanings.ordered(query, rows, unit)
        assert dict(zip(found.places.tolist(), found.counts.tolist(), strict=True)) == expected
        elements = Elements("k", Predicate.of(pick.where()), **({"assumed_groups_per_unit": 9} if unit else {}))
        assert set(part.elements(elements).run().words("key")[0].tolist()) == meanings.elements(
            elements, rows, unit, "key"
        )
        if neighbors == "replace":
            with pytest.raises(InvalidQuery, match="add_remove"):
                part.snapshot(["n"])
        elif pick.world is None:
            whole = part.snapshot(["n", "k"]).run()
            assert sorted(whole["n"].to_pylist()) == sorted(row["n"] for row in rows)


@pytest.mark.parametrize(("neighbors", "unit"), [place for place in NEIGHBOURS if place[1]])
def test_living_units_of_a_part(engine, shared, neighbors, unit):
    table, kind = shared("cells", neighbors, unit), pa.string() if unit == "u" else pa.int64()
    for part, rows, pick in cases(engine, table, unit, "living"):
        query = ANSWERED["count by keys"][2](pick, {})[0]
        expected = meanings.living(query, rows, unit, {}, 2)
        with living(part, query).at(rooms({}, 2, kind)) as units:
            assert listed(units.answers()) == [len(cell) for cell in expected]


@pytest.mark.parametrize(("neighbors", "unit"), NEIGHBOURS)
@pytest.mark.parametrize(("of_unit", "most"), OF_UNIT)
def test_values_of_groups_in_order(engine, shared, neighbors, unit, of_unit, most):
    """Each group as if it were alone; of a unit the first ones where they are limited."""
    if unit is None and of_unit != "spread":
        pytest.skip("of a unit with one row there is nothing to choose")
    table, drawn = shared("cells", neighbors, unit), random.Random(f"{neighbors} {unit} {of_unit} {most}")
    limits = {"of_unit": of_unit, "max_rows_per_unit": most} if unit else {}
    for kept in [None, 1, 2] if unit else [None]:
        pick = Picker(drawn, None, NeighborRelation(neighbors, unit))
        query, by = asked.orders(pick, limits), drawn.choice(["k", "i", "b"])
        domain = Domain.of(by, VALUES[by])
        found = table.ordered(query.keyed(Keying(domain, kept))).run()
        rows = [row for row in ROWS if meanings.ordered(query, [row], unit)]
        for number, group in enumerate(found):
            mine = [row for row in rows if part_of(by, row) == number]
            if kept is not None:
                mine = [row for row in mine if number in first_groups(rows, by, unit, row[unit], kept)]
            expected = meanings.ordered(query, mine, unit)
            if of_unit == "random" and unit:
                assert in_units(group) == expected
            else:
                assert dict(zip(group.places.tolist(), group.counts.tolist(), strict=True)) == expected


def first_groups(rows, by, unit, owner, kept):
    """The first groups of a unit in the order of the list."""
    mine = {part_of(by, row) for row in rows if row[unit] == owner} - {None}
    return sorted(mine)[:kept]


def test_first_parts_need_an_order(engine, shared):
    """Where the engine does not know it, what would do is said."""
    table = shared("cells", "add_remove", "u")
    if not engine.ordered:
        [part, *_] = partition("k", table, max_parts_per_unit=1).parts.values()
        with pytest.raises(InvalidQuery, match="assumed_parts_per_unit=1"):
            table.of_part(part)
