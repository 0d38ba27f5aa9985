"""Neighbouring databases on the engine itself: no answer moves further than is claimed, and some move as far.

All databases are worlds of one table, in which one unit differs and two others are the same. Keyed queries ask all of
them at once, with the world as one more part of the key: a unit is in one world only, so its limits are its own.
"""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import chary
from chary.data import NeighborRelation, Predicate, count, histogram, mean, ordered, second_moments
from chary.data.queries.ordered import Elements
from tests.engines.openers import DIFFERENT

pytestmark = DIFFERENT
KEYS = ["a", "b"]
CELLS = [(key, x) for key in [*KEYS, "elsewhere"] for x in (None, -5, -1, 0, 2, 9)]
UNITS = [rows for size in range(3) for rows in itertools.combinations_with_replacement(CELLS, size)]
SINGLE = [(), *((cell,) for cell in CELLS)]
NEIGHBORS = pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
# Units at the edges, for what is asked world by world.
FEW = [(), *(((key, x),) for key in KEYS for x in (9, -5)), *((("a", x), ("b", y)) for x in (9, -5) for y in (9, -5))]
FEW += [(("a", 9), ("a", 9)), (("a", None),)]
FEW += [(("a", 9), ("b", 0), ("b", -5), ("a", 2)), (("b", -5), ("b", -5), ("a", -5))]


def rows_of(options, *, apart=True):
    """The worlds: in each the rows of the unit that differs, and of two others; `apart`: whose ids no other world
    has."""
    found = []
    for world, own in enumerate(options):
        others = [("a", 2, "o"), ("b", 3, "o"), ("b", -1, "p")]
        for key, x, owner in [*((*cell, "u") for cell in own), *others]:
            other = None if x is None else x if key == "a" else -x
            found.append({"w": world, "u": f"{owner}{world if apart else ''}", "k": key, "x": x, "y": other})
    return pa.Table.from_pylist(
        found, pa.schema({"w": "int64", "u": "string", "k": "string", "x": "int64", "y": "int64"})
    )


@pytest.fixture(scope="module")
def unit_worlds(opened):
    return opened(rows_of(UNITS), "replace", "u")


@pytest.fixture(scope="module")
def row_worlds(opened):
    return opened(rows_of(SINGLE), "replace", None)


@pytest.fixture(scope="module")
def few_worlds(opened):
    return opened(rows_of(FEW, apart=False), "replace", "u")


def vectors(table, query, size):
    """The answers of all worlds, a line each; `query` has no keys or those of `KEYS`."""
    columns = "w" if query.keying is None else ["w", "k"]
    limits = (
        {}
        if query.keying is None or query.keying.max_groups_per_unit is None
        else {"max_groups_per_unit": query.keying.max_groups_per_unit}
    )
    keys = range(size) if query.keying is None else list(itertools.product(range(size), KEYS))
    fields = {name: getattr(query, name) for name in query.__dataclass_fields__} | {"keying": None}
    return table.prepare(type(query)(**fields).by(columns, keys, **limits)).run().reshape(size, -1)


def moved(lines, neighbors, *, empty_too):
    """All changes between neighbours, a line each; world 0 is without the unit."""
    lines = np.unique(lines, axis=0) if neighbors == "replace" and empty_too else lines
    if neighbors == "add_remove":
        return lines - lines[0]
    some = lines if empty_too else lines[1:]
    return (some[:, None, :] - some[None, :, :]).reshape(-1, lines.shape[1])


def measured(changes):
    """The largest change of one answer, of how many answers, of all of them, and of the sum of some."""
    up, down = np.where(changes > 0, changes, 0).sum(axis=1), np.where(changes < 0, -changes, 0).sum(axis=1)
    size = np.abs(changes)
    found = size.max(), (size > 0).sum(axis=1).max(), size.sum(axis=1).max(), max(up.max(), down.max())
    return tuple(map(int, found))


def claimed(query, neighbor_relation):
    found = (query.sensitivity, query.reach, query.l1, query.together)
    return tuple(each(neighbor_relation) for each in found)


def limited():
    yield count()
    yield count("x > 0")
    yield count("x > -9", without="x = 9")
    for keep in (None, 1, 2):
        yield count().by("k", KEYS, max_groups_per_unit=keep)
    for bounds, most, keep in itertools.product([(-2, 3), (1, 3), (-3, -1)], (1, 2), (0, 1, None)):
        asked = chary.sum("x", bounds=bounds, max_rows_per_unit=most)
        yield asked if keep == 0 else asked.by("k", KEYS, max_groups_per_unit=keep)
    for edges, keep in itertools.product([(-3, 4), (1, 4)], (0, 1, None)):
        asked = chary.sum("x", bounds=(-5, 5), unit_total=edges)
        yield asked if keep == 0 else asked.by("k", KEYS, max_groups_per_unit=keep)


@NEIGHBORS
def test_of_units(unit_worlds, tally, neighbors):
    neighbor_relation = NeighborRelation(neighbors, "u")
    parts = mean("x", bounds=(0, 3), max_rows_per_unit=2).by("k", KEYS).parts(neighbor_relation)
    queries = [*limited(), parts[0]]
    for query in queries:
        changes = moved(vectors(unit_worlds, query, len(UNITS)), neighbors, empty_too=True)
        assert measured(changes) == claimed(query, neighbor_relation), query.body()
    tally("neighbours: moved as far as claimed", len(queries) * len(UNITS), f"{neighbors}, a unit")


@NEIGHBORS
def test_of_rows(row_worlds, tally, neighbors):
    neighbor_relation = NeighborRelation(neighbors, None)
    queries = [count("x IS NOT NULL"), count("x > 0", without="x = 9")]
    queries += [chary.sum("x", bounds=bounds) for bounds in ((-2, 3), (1, 3), (-3, -1))]
    queries += [mean("x", bounds=(0, 3)).parts(neighbor_relation)[0]]
    for query in [*queries, *(query.by("k", KEYS) for query in queries)]:
        changes = moved(vectors(row_worlds, query, len(SINGLE)), neighbors, empty_too=False)
        assert measured(changes) == claimed(query, neighbor_relation), query.body()
    tally("neighbours: moved as far as claimed", 2 * len(queries) * len(SINGLE), f"{neighbors}, each row")


def world_by_world(table, ask):
    return np.array([np.atleast_1d(table.prepare(ask(f"w = {world}")).run()) for world in range(len(FEW))])


def parts_of_mean(where, most, by=None):
    asked = mean("x", bounds=(-3, 3), where=where, max_rows_per_unit=most)
    return (asked if by is None else asked.by(by, KEYS)).parts(NeighborRelation("replace", "u"))


ONE_BY_ONE = {
    "count": lambda where: count(where),
    "total": lambda where: chary.sum("x", bounds=(-2, 3), max_rows_per_unit=2, where=where),
    "histogram": lambda where: histogram("x", bins=[-5, 0, 10], where=where),
    "kept histogram": lambda where: histogram("x", bins=[-5, 0, 10], where=where, max_groups_per_unit=1),
    "second moments": lambda where: second_moments(
        {"x": (-2, 2), "y": (-2, 2)}, steps=10, where=where, max_rows_per_unit=1
    ),
    "sum of a mean": lambda where: parts_of_mean(where, 2)[0],
    "count of a mean": lambda where: parts_of_mean(where, 2)[1],
    "sum of a mean by keys": lambda where: parts_of_mean(where, 1, "k")[0],
    "count of a mean by keys": lambda where: parts_of_mean(where, 1, "k")[1],
    "mean above a threshold": lambda where: mean("x", bounds=(-2, 3), where=where, max_rows_per_unit=1).shifted(3),
}


@pytest.mark.parametrize("form", ONE_BY_ONE)
def test_world_by_world(few_worlds, tally, form):
    lines = world_by_world(few_worlds, ONE_BY_ONE[form])
    for neighbors in ("add_remove", "replace"):
        neighbor_relation, query = NeighborRelation(neighbors, "u"), ONE_BY_ONE[form](None)
        found, bounds = measured(moved(lines, neighbors, empty_too=True)), claimed(query, neighbor_relation)
        assert all(got <= most for got, most in zip(found, bounds, strict=True)), form
        # What several columns have in common bounds all the moments together less tightly than each.
        assert found[:2] == bounds[:2], form
        tally("neighbours: moved as far as claimed", len(FEW), f"{neighbors}, a unit")


@pytest.mark.parametrize(("of_unit", "most"), [("spread", 1), ("spread", 2), ("mean", 1), ("weighted", 3)])
def test_values_in_order(few_worlds, tally, of_unit, most):
    found = []
    for world in range(len(FEW)):
        asked = ordered("x", bounds=(-5, 9), where=f"w = {world}", max_rows_per_unit=most, of_unit=of_unit)
        values = few_worlds.ordered(asked).run()
        found.append(Counter(dict(zip(values.places.tolist(), values.counts.tolist(), strict=True))))
    for neighbors in ("add_remove", "replace"):
        others = found[:1] if neighbors == "add_remove" else found
        gone = max((one - other).total() for one, other in itertools.product(found, others))
        come = max((other - one).total() for one, other in itertools.product(found, others))
        moves = asked.moves(NeighborRelation(neighbors, "u"))
        assert (gone, come) == ((moves, 0) if neighbors == "add_remove" else (moves, moves))
        tally("neighbours: moved as far as claimed", len(FEW), f"{neighbors}, a unit")


@pytest.mark.parametrize(
    "limits", [{}, {"of": "y", "max_groups_per_unit": 1}, {"of": "y", "max_groups_per_unit": 2}], ids=str
)
def test_elements(few_worlds, tally, limits):
    found = [
        set(few_worlds.elements(Elements(where=Predicate.of(f"w = {world}"), **limits)).run().words("key")[0].tolist())
        for world in range(len(FEW))
    ]
    asked = Elements(**limits)
    if not limits:
        # Units of different worlds have different names.
        assert {len(words) for words in found} == {2, 3}
        return
    for neighbors in ("add_remove", "replace"):
        others = found[:1] if neighbors == "add_remove" else found
        changed = max(len(one ^ other) for one, other in itertools.product(found, others))
        assert changed == asked.reach(NeighborRelation(neighbors, "u"))
        tally("neighbours: moved as far as claimed", len(FEW), f"{neighbors}, a unit")
