"""Which rows of a unit a mean keeps: as many as it may, the same for its sum and its count, each as likely as any."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from chary.data import NeighborRelation, RowTable, mean, ordered, second_moments
from chary.data.queries.bodies import body_of, query_of
from chary.data.queries.moments import RowCount
from chary.data.queries.stored import current
from chary.errors import InvalidInput
from tests.engines.test_neighbours import KEYS, claimed, measured, moved

ALPHA = 1e-6
CELLS = [(key, x) for key in KEYS for x in (-5, 0, 9)]
WORLDS = [rows for size in range(5) for rows in itertools.combinations_with_replacement(CELLS, size)]
NEAR = NeighborRelation("add_remove", "u")


def opened(columns):
    return RowTable.open(pa.table(columns), neighbor_relation=NEAR)


@pytest.fixture(scope="module")
def worlds():
    """Every unit of at most four rows of six kinds, four times over under other names: in each world one unit alone."""
    rows = [
        {"w": number * len(WORLDS) + world, "u": f"{number}/{world}", "k": key, "x": x}
        for number in range(4)
        for world, own in enumerate(WORLDS)
        for key, x in own
    ]
    return opened({name: [row[name] for row in rows] for name in rows[0]})


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("kept", [1, 2, 3])
@pytest.mark.parametrize("groups", [None, 1, 2])
def test_no_unit_moves_a_part_of_a_mean_further_than_is_claimed(worlds, neighbors, kept, groups):
    near, size = NeighborRelation(neighbors, "u"), 4 * len(WORLDS)
    limits = {} if groups is None else {"max_groups_per_unit": groups}
    for keyed in (False, True) if groups is None else (True,):
        plain = mean("x", bounds=(-3, 3), max_rows_per_unit=kept)
        asked = plain.by("k", KEYS, **limits) if keyed else plain
        keys = list(itertools.product(range(size), KEYS)) if keyed else range(size)
        apart = plain.by(["w", "k"] if keyed else "w", keys, **limits)
        for part, each in zip(asked.parts(near), apart.parts(near), strict=True):
            lines = worlds.prepare(each).run().reshape(size, -1)
            assert measured(moved(lines, neighbors, empty_too=True)) == claimed(part, near), part.body()


def test_the_sum_the_count_and_every_test_of_a_mean_are_of_the_same_rows():
    """Values are powers of two, so that a sum says which rows it is of."""
    sizes = [*range(1, 12)] * 20
    rows = [(unit, row) for unit, size in enumerate(sizes) for row in range(size)]
    columns = {"u": [f"unit {unit}" for unit, _ in rows], "w": [unit for unit, _ in rows]}
    columns |= {"x": [2**row for _, row in rows], "k": ["ab"[row % 2] for _, row in rows]}
    table, seen, others = opened(columns), set(), (0b10101010101, 0b01010101010)
    for kept in (1, 2, 5):
        plain = mean("x", bounds=(0, 2048), max_rows_per_unit=kept)
        whole = plain.by("w", range(len(sizes)))
        total, count = whole.parts(NEAR)
        found, number = table.prepare(total).run(), table.prepare(count).run()
        chosen = found + int(total.center) * number
        assert [int(bits).bit_count() for bits in chosen] == number.tolist() == [min(kept, size) for size in sizes]
        for above in (0, 3, 1024, 2048):
            assert (table.prepare(whole.shifted(above)).run() + above * number == chosen).all()
        # In groups other rows are kept, the same for the sum and the count: those of a group have bits of their own.
        total, count = plain.by(["w", "k"], itertools.product(range(len(sizes)), "ab")).parts(NEAR)
        number = table.prepare(count).run()
        bits = table.prepare(total).run() + int(total.center) * number
        assert [int(each).bit_count() for each in bits] == number.tolist()
        assert not any(int(each) & others[1 - place % 2] for place, each in enumerate(bits))
        assert number.reshape(-1, 2).sum(axis=1).tolist() == [min(kept, size) for size in sizes]
        seen |= set(chosen.tolist())
    assert len(seen) > 50


@pytest.mark.parametrize("name", [lambda n: n, lambda n: 7 * n - 10**6, lambda n: f"MAC{n:06}", lambda n: n + 0.5])
@pytest.mark.parametrize(("kept", "rows"), [(1, 7), (3, 7), (5, 6)])
def test_each_row_of_a_unit_is_as_likely_to_be_kept(name, kept, rows):
    """The number of units that keep a rank is near binomial; the largest values, and the middle ones, are rejected."""
    units = 4000
    table = opened({"u": [name(n) for n in range(units) for _ in range(rows)], "x": [*range(rows)] * units})
    even = mean("x", bounds=(0, rows), max_rows_per_unit=kept).shifted(0)
    largest, expected = RowCount(replace(even, even=False)), units * kept / rows
    bound = stats.norm.isf(ALPHA / (2 * rows)) * math.sqrt(expected * (1 - kept / rows)) + 1

    def farthest(counts):
        return np.abs(np.asarray(counts) - expected).max()

    def by_rank(query):
        keyed = replace(query.of, keying=None).by("x", range(rows))
        # Each value is a group of its own, in which it is kept or not.
        return table.prepare(RowCount(keyed)).run()

    middle = table.ordered(ordered("x", bounds=(0, rows), max_rows_per_unit=kept)).run()
    spread = [dict(zip(middle.places.tolist(), middle.counts.tolist(), strict=True)).get(x, 0) for x in range(rows)]
    assert farthest(by_rank(RowCount(even))) <= bound
    assert farthest(by_rank(largest)) > bound
    assert farthest(spread) > bound


def skewed():
    """Units of 1 to 20 rows whose values are skewed, and differ from unit to unit."""
    random = np.random.default_rng(1)
    sizes = random.integers(1, 21, 3000)
    scale = np.repeat(random.uniform(5, 60, 3000), sizes)
    values = np.minimum(np.round(random.exponential(scale)), 300)
    return np.repeat(np.arange(3000), sizes), values.astype(int), sizes


@pytest.mark.parametrize("kept", [1, 2, 4])
def test_the_mean_of_kept_rows_is_that_of_all_rows_of_units_up_to_a_draw(kept):
    """The largest values and the middle ones are off by more than chance; the variance is at most that of a draw."""
    units, values, sizes = skewed()
    table, ends = opened({"u": units, "x": values}), np.concatenate([[0], np.cumsum(sizes)])
    own = [values[start:end] for start, end in itertools.pairwise(ends)]
    aim = sum(min(kept, len(each)) * each.mean() for each in own)
    variance = sum(kept * each.var() for each in own if len(each) > kept)
    bound = stats.norm.isf(ALPHA / 2) * math.sqrt(variance)
    even = mean("x", bounds=(0, 300), max_rows_per_unit=kept).shifted(0)
    middle = table.ordered(ordered("x", bounds=(0, 300), max_rows_per_unit=kept)).run()
    assert abs(table.prepare(even).run() - aim) < bound
    assert abs(table.prepare(replace(even, even=False)).run() - aim) > bound
    assert kept > 2 or abs(int((middle.places * middle.counts).sum()) - aim) > bound


def test_second_moments_are_of_an_even_choice():
    units, values, sizes = skewed()
    table = opened({"u": units, "x": values})
    [number, total, _] = table.prepare(second_moments({"x": (0, 300)}, steps=150, max_rows_per_unit=1)).run()
    own = np.split((values - 150).astype(float), np.cumsum(sizes)[:-1])
    bound = stats.norm.isf(ALPHA / 2) * math.sqrt(sum(each.var() for each in own))
    assert number == len(own)
    assert abs(total - sum(each.mean() for each in own)) < bound
    assert abs(sum(each.min() for each in own) - sum(each.mean() for each in own)) > bound


def test_the_choice_is_that_of_the_formula_and_needs_no_type_of_unit():
    """Also where one unit has two texts, and where ids are of no type that chary computes with."""
    values = [float(value) for value in (0.0, -0.0, 0.0, -0.0, 1.5, 1.5, 1.5)]
    table = opened({"u": values, "x": [0, 1, 2, 3, 4, 5, 6], "k": ["a", "b", "a", "b", "a", "b", "a"]})
    _, count = mean("x", bounds=(0, 8), max_rows_per_unit=2).by("k", ["a", "b"]).parts(NEAR)
    counted = table.prepare(count).run()
    assert counted.sum() == 4
    assert all((table.prepare(count).run() == counted).all() for _ in range(5))
    blobs = opened({"u": pa.array([b"one"] * 5 + [b"two"], pa.binary()), "x": [1] * 6})
    assert blobs.prepare(mean("x", bounds=(0, 2), max_rows_per_unit=2).shifted(0)).run() == 3


def test_stored_bodies_keep_their_bytes_and_their_meaning():
    asked = mean("x", bounds=(0, 8), max_rows_per_unit=2).by("k", ["a"])
    total, count = asked.parts(NEAR)
    largest = replace(total, even=False).body()
    assert asked.body() == largest | {"kind": "mean"}
    assert total.body() == largest
    assert count.body() == largest | {"kind": "row count"}
    assert query_of(current(asked.body())) == asked
    # What could be a sum of its own says that it is none.
    for read in (asked.shifted(0), replace(asked.shifted(0), even=False)):
        assert query_of(body_of(read)) == read
    assert "even" not in mean("x", bounds=(0, 8)).shifted(0).body()
    # One question has one body: without a limit there is nothing to choose.
    said = {"kind": "sum", "column": "x", "bounds": [0, 8]}
    for wrong in ({"even": True}, {"even": True, "unit_total": [0, 8]}, {"even": [1], "max_rows_per_unit": 2}):
        with pytest.raises(InvalidInput, match="even"):
            query_of(said | wrong)
