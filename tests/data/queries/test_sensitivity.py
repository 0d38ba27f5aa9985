"""Sensitivities against brute force: every small database, every neighbour, the oracle (itself held to the engine)."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import chary
from chary.data import NeighborRelation, RowTable, count, mean
from chary.errors import InvalidQuery
from tests.data.oracle import answer

KEYS = ["a", "b", "c"]
UNITS = [NeighborRelation("add_remove", "u"), NeighborRelation("replace", "u")]
ROWS = [NeighborRelation("add_remove", None), NeighborRelation("replace", None)]


def unit_rows(values, most, keys):
    cells = list(itertools.product(keys, values))
    for size in range(most + 1):
        yield from itertools.combinations_with_replacement(cells, size)


def database(units):
    return [{"u": owner, "k": k, "x": x} for owner, rows in enumerate(units) for k, x in rows]


def changes(query, neighbor_relation, options):
    """The answers' differences over all pairs of neighbours; what other units have cancels out."""
    unit = neighbor_relation.unit
    answers = {tuple(np.atleast_1d(answer(query, database([option]), unit)).tolist()) for option in options}
    vectors = [np.array(found) for found in answers]
    others = [np.zeros_like(vectors[0])] if neighbor_relation.neighbors == "add_remove" else vectors
    return [left - right for left in vectors for right in others]


def measured(differences):
    return (
        max(int(np.max(np.abs(d))) for d in differences),
        max(int(np.count_nonzero(d)) for d in differences),
        max(int(np.sum(np.abs(d))) for d in differences),
    )


def claimed(query, neighbor_relation):
    return query.sensitivity(neighbor_relation), query.reach(neighbor_relation), query.l1(neighbor_relation)


def summed(differences):
    """The largest change of the sum over any keys: of those that rise, or of those that fall."""
    return max(int(max(np.sum(d[d > 0]), -np.sum(d[d < 0]))) for d in differences)


BOUNDS = [(0, 3), (-2, 3), (-3, -1), (1, 3), (-1, 3)]
LIMITS = [
    {},
    {"max_groups_per_unit": 1},
    {"max_groups_per_unit": 2},
    {"max_groups_per_unit": 3},
    {"max_groups_per_unit": 7},
]


@pytest.mark.parametrize("neighbor_relation", UNITS, ids=lambda n: str(n.neighbors))
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_counts_by_unit(neighbor_relation, limits, size):
    options = list(unit_rows([1], 3, [*KEYS[:size], "elsewhere"]))
    query = count().by("k", KEYS[:size], **limits)
    assert measured(changes(query, neighbor_relation, options)) == claimed(query, neighbor_relation)
    assert summed(changes(query, neighbor_relation, options)) == query.together(neighbor_relation)


@pytest.mark.parametrize("neighbor_relation", UNITS, ids=lambda n: str(n.neighbors))
def test_count_without_keys(neighbor_relation):
    options = list(unit_rows([1], 3, KEYS))
    assert measured(changes(count(), neighbor_relation, options)) == claimed(count(), neighbor_relation) == (1, 1, 1)


@pytest.mark.parametrize("neighbor_relation", UNITS, ids=lambda n: str(n.neighbors))
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("limits", [None, *LIMITS[:3]], ids=str)
def test_totals_with_limited_rows(neighbor_relation, bounds, k, limits):
    query = chary.sum("x", bounds=bounds, max_rows_per_unit=k)
    query = query if limits is None else query.by("k", KEYS, **limits)
    options = list(unit_rows([None, -5, -1, 0, 2, 9], 3, KEYS[:2] if limits is None else KEYS))
    for part in (query, mean("x", bounds=bounds, max_rows_per_unit=k).parts(neighbor_relation)[0]):
        assert_tight_or_above(part, neighbor_relation, options)


def assert_tight_or_above(query, neighbor_relation, options):
    moved = changes(query, neighbor_relation, options)
    assert measured(moved) == claimed(query, neighbor_relation)
    assert summed(moved) == query.together(neighbor_relation)


@pytest.mark.parametrize("neighbor_relation", UNITS, ids=lambda n: str(n.neighbors))
@pytest.mark.parametrize("limits", [None, *LIMITS], ids=str)
def test_row_counts(neighbor_relation, limits):
    query = mean("x", bounds=(0, 3), max_rows_per_unit=2)
    query = query if limits is None else query.by("k", KEYS, **limits)
    options = list(unit_rows([None, 2, 9], 3, KEYS))
    assert_tight_or_above(query.parts(neighbor_relation)[1], neighbor_relation, options)


@pytest.mark.parametrize("neighbor_relation", UNITS, ids=lambda n: str(n.neighbors))
@pytest.mark.parametrize("unit_total", [(0, 4), (-3, 4), (-4, -1), (1, 3)], ids=str)
@pytest.mark.parametrize("limits", [None, *LIMITS], ids=str)
def test_totals_with_limited_sums(neighbor_relation, unit_total, limits):
    query = chary.sum("x", bounds=(-5, 5), unit_total=unit_total)
    query = query if limits is None else query.by("k", KEYS, **limits)
    options = list(unit_rows([-9, 9], 3, KEYS))
    assert_tight_or_above(query, neighbor_relation, options)


@pytest.mark.parametrize("neighbor_relation", ROWS, ids=lambda n: str(n.neighbors))
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("size", [None, 1, 2, 3])
def test_rows_that_are_units(neighbor_relation, bounds, size):
    options = [((key, value),) for key in [*KEYS, "elsewhere"] for value in (None, -5, -1, 0, 2, 9)]
    pair = mean("x", bounds=bounds).parts(neighbor_relation)
    for query in (count("x IS NOT NULL"), chary.sum("x", bounds=bounds), *pair):
        if size is not None and query is not pair[1]:
            query = query.by("k", KEYS[:size], max_groups_per_unit=None)
        assert_tight_or_above(query, neighbor_relation, options)


def test_stated_limits_are_believed():
    query = count().by("k", KEYS, assumed_groups_per_unit=2)
    assert claimed(query, UNITS[0]) == (1, 2, 2)
    assert claimed(query, UNITS[1]) == (1, 3, 3)
    both = chary.sum("x", bounds=(0, 5), max_rows_per_unit=4).by("k", KEYS, assumed_groups_per_unit=2)
    assert claimed(both, UNITS[0]) == (20, 2, 20)
    assert claimed(both, UNITS[1]) == (20, 3, 40)


def test_a_table_refuses_a_bounded_change():
    with pytest.raises(InvalidQuery, match="add_remove"):
        count().sensitivity(NeighborRelation("bounded_change", None))


@pytest.mark.parametrize("limit", [{}, {"max_rows_per_unit": 1, "unit_total": (0, 1)}])
def test_a_unit_with_many_rows_needs_one_limit(limit):
    with pytest.raises(InvalidQuery, match="max_rows_per_unit"):
        chary.sum("x", bounds=(0, "0.5"), grid="0.1", **limit).sensitivity(UNITS[0])


def test_the_refusal_shows_calls_that_work():
    with pytest.raises(InvalidQuery) as caught:
        chary.sum("x", bounds=(0, 1234567)).sensitivity(UNITS[0])
    assert "sum('x', bounds=(0, 1234567), max_rows_per_unit=12)" in str(caught.value)
    with pytest.raises(InvalidQuery, match="each row is one"):
        chary.sum("x", bounds=(0, 1), max_rows_per_unit=1).sensitivity(ROWS[0])
    with pytest.raises(InvalidQuery, match=r"mean\('x', bounds=\(0, 1\), max_rows_per_unit=12\)"):
        mean("x", bounds=(0, 1)).parts(UNITS[0])


@pytest.mark.parametrize("neighbor_relation", UNITS + ROWS, ids=lambda n: n.describe())
def test_the_engine_never_moves_further_than_claimed(neighbor_relation):
    """The same inequality on the engine itself, for random pairs of neighbours."""
    random = np.random.default_rng(5)
    limit = {"max_rows_per_unit": 2} if neighbor_relation.unit else {}
    queries = [count().by("k", KEYS, max_groups_per_unit=1), chary.sum("x", bounds=(-2, 3), **limit).by("k", KEYS)]
    for _ in range(5):
        base = random_rows(random, range(1, 4), 6)
        removed = [row for row in base if row["u"] != 1] if neighbor_relation.unit else base[1:]
        added = random_rows(random, [9], 3 if neighbor_relation.unit else 1)
        left, right = base, removed + (added if neighbor_relation.neighbors == "replace" else [])
        for query in queries:
            difference = np.abs(run(query, left, neighbor_relation) - run(query, right, neighbor_relation))
            found = (difference.max(), np.count_nonzero(difference), difference.sum())
            assert all(got <= bound for got, bound in zip(found, claimed(query, neighbor_relation), strict=True))


def random_rows(random, owners, size):
    return [
        {"u": int(random.choice(list(owners))), "k": str(random.choice(KEYS)), "x": int(random.integers(-5, 6))}
        for _ in range(size)
    ]


def run(query, rows, neighbor_relation):
    table = RowTable.open(pa.Table.from_pylist(rows), neighbor_relation=neighbor_relation)
    result = table.prepare(query).run()
    table.close()
    return result


def opposed(differences):
    """Whether a pair of neighbours moves one key up and another down."""
    return any(np.min(d) < 0 < np.max(d) for d in differences)


ONE_SIGN = [
    count().by("k", KEYS),
    count().by("k", KEYS, max_groups_per_unit=1),
    count().by("k", KEYS[:1]),
    count("x > 0", without="x < 0").by("k", KEYS),
    *(chary.sum("x", bounds=bounds, max_rows_per_unit=k).by("k", KEYS) for bounds in BOUNDS for k in (1, 2)),
    *(chary.sum("x", bounds=bounds, unit_total=bounds).by("k", KEYS) for bounds in ((0, 3), (-2, 3), (-3, 0))),
]


@pytest.mark.parametrize("neighbor_relation", UNITS, ids=lambda n: str(n.neighbors))
@pytest.mark.parametrize("query", ONE_SIGN, ids=lambda query: query.describe())
def test_units_move_keys_in_one_direction_where_it_is_said(neighbor_relation, query):
    """Every pair of neighbours of one unit with up to two rows: none moves two keys apart, or some pair does."""
    options = list(unit_rows([-3, -1, 0, 1, 3], 2, KEYS))
    assert opposed(changes(query, neighbor_relation, options)) is not query.one_direction(neighbor_relation)


@pytest.mark.parametrize("neighbor_relation", ROWS, ids=lambda n: str(n.neighbors))
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_rows_move_keys_in_one_direction_where_it_is_said(neighbor_relation, bounds):
    """One row is in one key: by itself it opposes nothing, also where it may be of either sign."""
    options = list(unit_rows([-3, -1, 0, 1, 3], 1, KEYS))
    for query in (count().by("k", KEYS), chary.sum("x", bounds=bounds).by("k", KEYS)):
        differences = changes(query, neighbor_relation, options)
        assert opposed(differences) is not query.one_direction(neighbor_relation)
