"""Linear queries: weights row by row, the same on every layout of cells, sums exact and moved by one row at most."""

import itertools
import random
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from chary import Bins, InvalidQuery, NeighborRelation, Universe
from chary.data import Predicate, RowTable, average, weighted
from chary.data.universe import counts as weighted_regions
from chary.data.universe.counts import CellQueries, CellReader, RowSum, WeightReader, weighing
from chary.data.universe.linear import MOST_STEPS, CellWeights, linear_of
from chary.data.universe.regions import located

SCHEMA = {"age": "int64", "sex": "string", "visits": "int64"}
AXES = {"age": Bins([0, 20, 50, 90]), "sex": ["f", "m"], "visits": [0, 1, 2, 5]}
UNIVERSE, WITHOUT = Universe(AXES), Universe(AXES, missing=False)
QUERIES = [
    average("age", bounds=(0, 90)),
    average("age", bounds=(30, 60), where="sex = 'f' OR visits > 1"),
    average("visits", bounds=(0, 5), where="NOT sex = 'm'"),
    average("visits", bounds=("-1.5", 4)),
    weighted({"sex = 'f' AND age < 50": "1/3", "visits IN (1, 5)": "0.7", "age IS NULL": 1}),
    weighted([(Predicate.parse("visits >= 2"), "0.25")]),
]


def weight(query, age, sex, visits):
    """What a row weighs, by hand; undeclared values are read as NULL."""
    middle = next((m for low, high, m in ((0, 20, 10), (20, 50, 35), (50, 90, 70)) if _in(age, low, high)), None)
    sex, visits = sex if sex in ("f", "m") else None, visits if visits in (0, 1, 2, 5) else None
    female, several = sex == "f", visits is not None and visits > 1
    number = QUERIES.index(query)
    if number == 5:
        return Fraction(1, 4) if several else Fraction(0)
    if number == 4:
        young = middle in (10, 35)
        cases = ((female and young, Fraction(1, 3)), (visits in (1, 5), Fraction(7, 10)), (middle is None, Fraction(1)))
        return next((value for holds, value in cases if holds), Fraction(0))
    value = middle if number < 2 else visits
    if value is None or (number == 1 and not (female or several)) or (number == 2 and not female):
        return Fraction(0)
    low, high = [(0, 90), (30, 60), (0, 5), (Fraction(-3, 2), 4)][number]
    return Fraction(min(high, max(low, value)) - low) / (high - low)


def _in(age, low, high):
    return age is not None and low <= age < high


ROWS = list(itertools.product([None, -1, 0, 19, 20, 55, 90], [None, "f", "m", "x"], [None, 0, 1, 2, 3, 5]))


def table(rows):
    kinds = ("Int64", "string", "Int64")
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    made = {name: pd.array(list(values), dtype=kind) for name, values, kind in zip(SCHEMA, columns, kinds, strict=True)}
    return RowTable.open(pd.DataFrame(made), neighbor_relation=NeighborRelation("replace", None))


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
@pytest.mark.parametrize("universe", [UNIVERSE, WITHOUT], ids=["missing", "without"])
def test_sums_are_those_of_the_rows_one_by_one(universe, query):
    for rows in (ROWS, ROWS[:1], ROWS[30:37]):
        found = WeightReader(table(rows), universe, query).run()
        assert Fraction(found.steps, found.grid) == sum(weight(query, *row) for row in rows)


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_a_replaced_row_moves_whole_rows_by_one_at_most(query):
    """Brute force over all pairs of neighbours of one to three rows of all kinds; a step more is attained by some."""
    kinds = {weight(query, *row): row for row in ROWS}
    grid, moved = WeightReader(table([]), UNIVERSE, query).grid, set()
    for size in (1, 2, 3):
        for rest in itertools.combinations_with_replacement(kinds, size - 1):
            sums = [RowSum(int((sum(rest) + each) * grid), grid) for each in kinds]
            moved |= {abs(one.rows - other.rows) for one in sums for other in sums}
            assert max(one.steps for one in sums) - min(one.steps for one in sums) <= grid
    assert max(moved) == 1
    assert all(abs(RowSum(s, grid).rows - Fraction(s, grid)) <= Fraction(1, 2) for s in range(3 * grid))
    # Two rows at once are noticed: the bound is one of one row.
    assert max(abs(RowSum(2 * grid, grid).rows - RowSum(0, grid).rows) for _ in moved) == 2


@pytest.mark.parametrize("missing", [True, False])
def test_every_layout_of_the_cells_has_the_same_weights(missing):
    random_ = random.Random(4)
    axes = {name: list(range(cells)) for name, cells in (("a", 3), ("b", 40), ("c", 2), ("d", 30), ("e", 7))}
    universe, schema = Universe(axes, missing=missing), dict.fromkeys(axes, "int64")
    for _ in range(12):
        value, other = random_.sample(list(axes), 2)
        query = average(value, bounds=(0, len(axes[value]) - 1), where=f"{other} < {random_.randrange(1, 30)}")
        region, found = weighing(universe, schema, query), query.weights(universe, schema)
        assert np.allclose(region.weights(), found.laid_out(universe) / found.grid, rtol=0, atol=1e-15)
        assert region.counts.sum() == universe.cells
        assert region.count == pytest.approx(region.weights().sum(), rel=1e-12)


def test_a_condition_is_a_linear_query_with_the_weights_0_and_1():
    for text in ("sex = 'f' AND NOT age >= 50", "visits IN (0, 5) OR age IS NULL"):
        region, same = (
            located(UNIVERSE, SCHEMA, Predicate.parse(text))[0],
            weighing(UNIVERSE, SCHEMA, weighted({text: 1})),
        )
        assert np.array_equal(region.weights(), same.weights())
        assert (region.count, region.counts.tolist()) == (same.count, same.counts.tolist())


def test_counts_of_several_have_a_common_grid():
    asked = [Predicate.parse("sex = 'f'"), *QUERIES]
    rows = table(ROWS)
    queries = CellQueries(UNIVERSE, rows.schema, asked)
    found = CellReader(rows, queries).run()
    assert queries.grid == np.lcm.reduce([WeightReader(rows, UNIVERSE, query).grid for query in QUERIES])
    told = [Fraction(int(count), queries.grid) for count in found.counts]
    females = sum(row[1] == "f" for row in ROWS)
    assert told == [females, *(sum(weight(query, *row) for row in ROWS) for query in QUERIES)]
    cells = np.random.default_rng(1).random(UNIVERSE.cells)
    parts = [weighing(UNIVERSE, rows.schema, query).weights() @ cells / cells.sum() for query in QUERIES]
    assert queries.shares(cells)[1:] == pytest.approx(parts, rel=1e-12)


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_texts_are_read_again(query):
    assert linear_of(query.text) == query
    assert hash(linear_of(query.text)) == hash(query)
    assert linear_of("sex = 'f'") is None


def test_what_is_refused(monkeypatch):
    for wrong in ({"age < 20": 2}, {"age < 20": "-0.1"}, {}, [("age < 20",)]):
        with pytest.raises(InvalidQuery):
            weighted(wrong)
    for bounds in ((1, 1), (2, 1), (1,), 3):
        with pytest.raises(InvalidQuery):
            average("age", bounds=bounds)
    for text in (
        '{"weighted": 3}',
        "{}",
        "{",
        '{"average": "age"}',
        '{"average": "age", "bounds": ["0", "1"], "x": 1}',
    ):
        with pytest.raises(InvalidQuery):
            linear_of(text)
    for query in (average("sex", bounds=(0, 1)), average("height", bounds=(0, 1)), weighted({"age < 30": 1})):
        with pytest.raises(InvalidQuery):
            query.weights(UNIVERSE, SCHEMA)
    with pytest.raises(InvalidQuery, match="common denominator"):
        weighted({"age < 20": Fraction(1, MOST_STEPS + 1)}).weights(UNIVERSE, SCHEMA)
    assert weighted({"age < 20": Fraction(1, MOST_STEPS)}).weights(UNIVERSE, SCHEMA).grid == MOST_STEPS
    with pytest.raises(InvalidQuery, match="no common grid"):
        CellQueries(UNIVERSE, SCHEMA, [weighted({"age < 20": Fraction(1, part)}) for part in (1021, 1031)])
    with pytest.raises(InvalidQuery, match="from 0 to 1"):
        CellWeights.of((0,), np.array([Fraction(3, 2)], dtype=object))
    monkeypatch.setattr(weighted_regions, "MOST_PATTERNS", 10)
    with pytest.raises(InvalidQuery, match="too many cells"):
        weighing(UNIVERSE, SCHEMA, QUERIES[0])


def test_averages_come_back_in_units():
    ages = [5, 30, 70, 71]
    rows = table([(age, "f", 0) for age in ages])
    query = average("age", bounds=(10, 70))
    found = WeightReader(rows, UNIVERSE, query).run()
    assert query.in_units(found.steps / found.grid / 4) == pytest.approx((10 + 35 + 70 + 70) / 4)


def test_nothing_shows_a_sum():
    assert repr(RowSum(3, 4)) == "RowSum(<secret>)"
