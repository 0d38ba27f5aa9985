"""The values of a column in order, against a walk through the rows by hand."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from chary.data import NeighborRelation, RowTable, ordered
from chary.errors import EngineError, InvalidParameter, InvalidQuery

BY_ROW, BY_PATIENT = NeighborRelation("replace", None), NeighborRelation("replace", "patient")


def rows(seed=1, size=500):
    generator = np.random.default_rng(seed)
    age = pd.array(generator.integers(-20, 140, size), dtype="Int64")
    age[generator.random(size) < 0.1] = pd.NA
    cost = np.round(generator.normal(0, 2, size), 2)
    cost[:3] = [math.nan, math.inf, -math.inf]
    patient = pd.array(generator.integers(0, 50, size), dtype="Int64")
    patient[generator.random(size) < 0.05] = pd.NA
    return pd.DataFrame({"patient": patient, "age": age, "cost": cost})


def place_of(value, low, high, step):
    clipped = min(max(value, float(low)), float(high))
    nearest = math.floor(abs(clipped) / float(step) + 0.5)
    return int(math.copysign(nearest, clipped)) - int(Fraction(low) / Fraction(step))


def kept_of(places, most):
    """Evenly spread ranks, the rule in whole numbers."""
    size, ranked = len(places), sorted(places)
    return [
        v
        for r, v in enumerate(ranked)
        if (2 * most * (r + 1) + size) // (2 * size) > (2 * most * r + size) // (2 * size)
    ]


def by_hand(frame, column, low, high, step, unit, most=None):
    found = {}
    for position, row in enumerate(frame.itertuples()):
        value, owner = getattr(row, column), position if unit is None else getattr(row, unit)
        if not pd.isna(value) and not pd.isna(owner):
            found.setdefault(owner, []).append(place_of(value, low, high, step))
    return Counter(v for places in found.values() for v in (places if most is None else kept_of(places, most)))


def read(table, asked):
    found = table.ordered(asked).run()
    assert np.all(np.diff(found.places) > 0)
    return dict(zip(found.places.tolist(), found.counts.tolist(), strict=True))


@pytest.mark.parametrize(
    ("column", "bounds", "step"), [("age", (0, 120), 1), ("age", (-20, 60), 5), ("cost", (-3, 4), "0.5")]
)
@pytest.mark.parametrize(("unit", "most"), [(None, None), ("patient", 1), ("patient", 3), ("patient", 1000)])
def test_values_and_how_often_they_occur(column, bounds, step, unit, most):
    frame = rows()
    table = RowTable.open(frame, neighbor_relation=NeighborRelation("replace", unit))
    asked = ordered(column, bounds=bounds, step=step, max_rows_per_unit=most)
    assert read(table, asked) == by_hand(frame, column, *bounds, step, unit, most)


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_a_unit_keeps_at_most_so_many_values_and_its_middle_one(most):
    for size in range(1, 12):
        frame = pd.DataFrame({"patient": [7] * size, "age": range(size)})
        found = read(
            RowTable.open(frame, neighbor_relation=BY_PATIENT), ordered("age", bounds=(0, 20), max_rows_per_unit=most)
        )
        assert sum(found.values()) == min(size, most)
        if most == 1:
            assert list(found) == [(size - 1) // 2]


def test_whose_values_are_kept_depends_on_nobody_else():
    frame = rows()
    table = RowTable.open(frame, neighbor_relation=BY_PATIENT)
    asked = ordered("age", bounds=(0, 120), max_rows_per_unit=2)
    before = Counter(read(table, asked))
    table.append(pd.DataFrame({"patient": [10**6] * 9, "age": [30] * 9, "cost": [0.0] * 9}))
    assert Counter(read(table, asked)) - before == Counter({30: 2})


def test_conditions_growth_and_empty_tables():
    frame = rows()
    table = RowTable.open(frame, neighbor_relation=BY_ROW)
    young = read(table, ordered("age", bounds=(0, 120), where="age < 30 AND cost > 0"))
    assert young == by_hand(frame[(frame.age < 30) & (frame.cost > 0)], "age", 0, 120, 1, None)
    assert read(table, ordered("age", bounds=(0, 120), where="age > 1000")) == {}
    plan = table.ordered(ordered("age", bounds=(0, 120)))
    before = plan.run().counts.sum()
    table.append(rows(seed=2))
    assert plan.run().counts.sum() > 1.8 * before


def test_grid():
    asked = ordered("cost", bounds=("-0.5", 1), step="0.1")
    assert (asked.points, [asked.value(k) for k in (0, 5, 15)]) == (16, [-0.5, 0, 1])
    assert asked.describe() == "cost in [-0.5, 1] step 0.1"
    assert "secret" in repr(RowTable.open(rows(), neighbor_relation=BY_ROW).ordered(asked).run())


def test_bodies_are_canonical():
    assert ordered("age", bounds=(0, 120)).body() == ordered("age", bounds=("0", 120.0), step="1").body()
    bodies = [
        ordered("age", bounds=(0, 120)).body(),
        ordered("cost", bounds=(0, 120)).body(),
        ordered("age", bounds=(0, 121)).body(),
        ordered("age", bounds=(0, 120), step=2).body(),
        ordered("age", bounds=(0, 120), where="age > 1").body(),
        ordered("age", bounds=(0, 120), max_rows_per_unit=1).body(),
    ]
    assert all(one != other for k, one in enumerate(bodies) for other in bodies[:k])


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda: ordered("age", bounds=(120, 0)), InvalidQuery),
        (lambda: ordered("age", bounds=(0, 0)), InvalidQuery),
        (lambda: ordered("age", bounds=(0, 120), step=7), InvalidQuery),
        (lambda: ordered("age", bounds=(0, 2**41)), InvalidQuery),
        (lambda: ordered("age", bounds=(0,)), InvalidQuery),
        (lambda: ordered("age", bounds=(0, 120), step=0), InvalidParameter),
        (lambda: ordered("age", bounds=(0, math.inf)), InvalidParameter),
        (lambda: ordered("age", bounds=(0, math.nan)), InvalidParameter),
        (lambda: ordered("age", bounds=(0, 120), max_rows_per_unit=0), InvalidParameter),
        (lambda: ordered(7, bounds=(0, 120)), InvalidQuery),
    ],
)
def test_bad_grids(ask, error):
    with pytest.raises(error):
        ask()


def test_what_does_not_fit_the_table():
    by_row, by_patient = (RowTable.open(rows().assign(name="x"), neighbor_relation=who) for who in (BY_ROW, BY_PATIENT))
    for table, options in (
        (by_row, {"column": "nowhere"}),
        (by_row, {"column": "name"}),
        (by_row, {"column": "age", "max_rows_per_unit": 1}),
        (by_patient, {"column": "age"}),
        (by_row, {"column": "age", "where": "nowhere > 1"}),
    ):
        with pytest.raises(InvalidQuery):
            table.ordered(ordered(bounds=(0, 120), **options))


def test_a_failing_engine_shows_no_value():
    table = RowTable.open(rows(), neighbor_relation=BY_ROW)
    plan = table.ordered(ordered("age", bounds=(0, 120)))
    table.close()
    with pytest.raises(EngineError):
        plan.run()
