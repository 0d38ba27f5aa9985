"""Every form of a query against plain Python, on small worlds of awkward rows, on every engine."""

import random

import pyarrow as pa
import pytest

import chary
from chary.data import NeighborRelation, Predicate, count, ordered
from chary.data.queries.ordered import Elements
from chary.data.rows import Rooms
from chary.data.table import living
from tests.engines import asked, meanings
from tests.engines.asked import ANSWERED, KEEPS, NEIGHBOURS, OF_UNIT, ROWS_KEPT, Picker, named
from tests.engines.cells import HEAVY, ROWS, UNITS, WORLDS, world

TIMES = 3
UNITED = [place for place in NEIGHBOURS if place[1]]
LIMITED = [(column, keep) for column in (False, True) for keep in KEEPS]


def listed(found):
    return found if isinstance(found, int) else found.tolist()


def shown(neighbors, unit):
    return f"{neighbors}, {'each row' if unit is None else 'a unit'}"


def picks(engine, neighbors, unit, form):
    """What is left open, drawn: of all worlds, of one of many rows, of one with hardly any; alike everywhere."""
    drawn = random.Random(f"{form} {neighbors} {unit}")
    for number in range(engine.times(TIMES)):
        some = drawn.choice([range(4, WORLDS), range(4)][number // 2 % 2])
        yield Picker(drawn, some if number % 2 else None, NeighborRelation(neighbors, unit))


@pytest.mark.parametrize(("form", "neighbors", "unit", "limits"), list(asked.rows_of()), ids=str)
def test_answers(engine, shared, tally, form, neighbors, unit, limits):
    table, cases = shared("cells", neighbors, unit), 0
    for pick in picks(engine, neighbors, unit, f"{form} {limits}"):
        for query in ANSWERED[form][2](pick, limits):
            found = listed(table.prepare(query).run())
            assert found == meanings.answer(query, world(pick.world), unit), query.body()
            cases += 1
    tally(form, cases, shown(neighbors, unit), named(limits))


@pytest.mark.parametrize(("neighbors", "unit"), NEIGHBOURS)
@pytest.mark.parametrize(("of_unit", "most"), OF_UNIT)
def test_values_in_order(engine, shared, tally, neighbors, unit, of_unit, most):
    if unit is None and of_unit != "spread":
        pytest.skip("of a unit with one row there is nothing to choose")
    table, limits = shared("cells", neighbors, unit), {"of_unit": of_unit, "max_rows_per_unit": most} if unit else {}
    for pick in picks(engine, neighbors, unit, "ordered"):
        query = asked.orders(pick, limits)
        found, expected = table.ordered(query).run(), meanings.ordered(query, world(pick.world), unit)
        if of_unit == "random" and unit:
            assert in_units(found) == expected, query.body()
            continue
        assert dict(zip(found.places.tolist(), found.counts.tolist(), strict=True)) == expected, query.body()
        assert found.places.tolist() == sorted(found.places.tolist())
    tally("values in order", engine.times(TIMES), shown(neighbors, unit), named(limits))


def in_units(found):
    """The places of each unit."""
    units = {}
    for place, unit in zip(found.places.tolist(), found.units.tolist(), strict=True):
        units.setdefault(unit, []).append(place)
    assert found.units.tolist() == sorted(found.units.tolist())
    return sorted(sorted(places) for places in units.values())


@pytest.mark.parametrize(("neighbors", "unit"), NEIGHBOURS)
@pytest.mark.parametrize(
    "limits", [None, {"max_groups_per_unit": 1}, {"max_groups_per_unit": 2}, {"assumed_groups_per_unit": 9}], ids=str
)
def test_elements(engine, shared, tally, neighbors, unit, limits):
    if (unit is None) != (limits is None) and unit is None:
        pytest.skip("a row has one value")
    table = shared("cells", neighbors, unit)
    for pick in picks(engine, neighbors, unit, "elements"):
        query = Elements(where=Predicate.of(pick.where())) if limits is None and unit else None
        query = query or asked.element_sets(pick, limits or {})
        if query.of == "x" and "doubles" in engine.differs:
            continue
        found = table.elements(query).run().words("key")[0].tolist()
        assert len(set(found)) == len(found)
        assert set(found) == meanings.elements(query, world(pick.world), unit, "key"), query
    tally(
        "elements" if limits is not None or unit is None else "units as elements",
        engine.times(TIMES),
        shown(neighbors, unit),
        named(limits or {}),
    )


def rooms(left, hits, kind):
    return Rooms(pa.table({"unit": pa.array(list(left), kind), "room": pa.array(left.values(), pa.int64())}), hits)


@pytest.mark.parametrize(("neighbors", "unit"), UNITED)
@pytest.mark.parametrize("limits", [None, *KEEPS, *ROWS_KEPT, ROWS_KEPT[1] | KEEPS[2]], ids=str)
def test_living_units(engine, shared, tally, neighbors, unit, limits):
    table, kind = shared("cells", neighbors, unit), pa.string() if unit == "u" else pa.int64()
    form = (
        "total of living units"
        if limits and set(limits) & {"max_rows_per_unit", "unit_total"}
        else "count of living units"
    )
    for pick in picks(engine, neighbors, unit, f"living {limits}"):
        query = living_query(pick, limits, form)
        hits = pick.drawn.randint(1, 3)
        there = sorted({row[unit] for row in world(pick.world)} - {None})
        left = {each: pick.drawn.randint(0, hits) for each in there if pick.drawn.random() < 0.5}
        expected = meanings.living(query, world(pick.world), unit, left, hits)
        with living(table, query).at(rooms(left, hits, kind)) as units:
            summed = [sum(cell.values()) if "total" in form else len(cell) for cell in expected]
            assert listed(units.answers()) == summed, (query.body(), left, hits)
            chosen = [place for place in range(len(expected)) if pick.drawn.random() < 0.6] if query.keys else [0]
            took = units.of(chosen).to_pydict()
        used = {each: sum(each in expected[place] for place in chosen) for cell in expected for each in cell}
        assert dict(zip(took["unit"], took["used"], strict=True)) == {each: n for each, n in used.items() if n}
    tally(form, engine.times(TIMES), shown(neighbors, unit), named(limits or {}))


def living_query(pick, limits, form):
    if "total" in form:
        return (
            asked.by_keys(pick, limits)
            if pick.drawn.random() < 0.5
            else asked.totals(pick, {name: value for name, value in limits.items() if name != "max_groups_per_unit"})
        )
    if limits is None:
        return pick.drawn.choice([count(pick.where()), asked.count_without(pick, {})])
    return pick.by(count(pick.where()), limits)


@pytest.mark.parametrize("columns", [["n", "u", "v", "k", "i"], ["n", "x", "s", "b"], ["n", "d", "t"], ["x"]], ids=str)
def test_a_snapshot_has_every_cell(engine, shared, tally, columns):
    found = shared("cells", "replace", "u").snapshot(columns).run()
    whole = [tuple(None if meanings.missing(row[name]) else row[name] for name in columns) for row in ROWS]
    rows = list(zip(*(found[name].to_pylist() for name in columns), strict=True))
    assert sorted(map(repr, rows)) == sorted(map(repr, whole))
    kinds = {"x": pa.float64(), "b": pa.bool_(), "d": pa.date32(), "t": pa.timestamp("us")}
    kinds |= dict.fromkeys("usk", pa.string()) | dict.fromkeys("nvi", pa.int64())
    assert {name: found.schema.field(name).type for name in columns} == {name: kinds[name] for name in columns}
    tally("snapshot", len(ROWS))


def test_the_sums_of_many_large_numbers(shared, tally):
    """Beyond 64 bits, and means whose numerators doubles would round."""
    each, unit = shared("heavy", "replace"), shared("heavy", "replace", "u")
    whole = sum(row["i"] for row in HEAVY)
    assert whole > 2**64
    bounds = (-(2**53), 2**53)
    parts = [sum(row["i"] for row in HEAVY if row["k"] == key) for key in "ab"]
    assert each.prepare(chary.sum("i", bounds=bounds)).run() == whole
    assert each.prepare(chary.sum("i", bounds=bounds).by("k", ["b", "c", "a"])).run().tolist() == [
        parts[1],
        0,
        parts[0],
    ]
    limited = chary.sum("i", bounds=bounds, max_rows_per_unit=2**20)
    assert unit.prepare(limited).run() == whole
    with living(unit, limited.by("k", ["a", "b"])).at(rooms({}, 2, pa.int64())) as units:
        assert units.answers().tolist() == parts
    query = ordered("n", bounds=(0, 2**40 - 1), step=1, max_rows_per_unit=1, of_unit="mean")
    assert dict(zip(*(part.tolist() for part in vars(unit.ordered(query).run()).values()), strict=True)) == dict(
        meanings.ordered(query, HEAVY, "u")
    )
    tally("sums beyond 64 bits", 5)


def test_texts_are_kept_as_they_are(shared):
    """Nothing is folded, trimmed or normalised on the way in: as many units as there are spellings."""
    table = shared("cells", "add_remove", "u")
    assert table.prepare(count()).run() == len({row["u"] for row in ROWS} - {None}) == len(UNITS) - 1
