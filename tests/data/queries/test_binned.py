"""Histograms over public bins against a walk through the rows by hand."""

import bisect
import math

import numpy as np
import pandas as pd
import pytest

from chary.data import NeighborRelation, RowTable, histogram
from chary.data.queries.histogram import Bin
from chary.errors import InvalidParameter, InvalidQuery

EDGES = [0, 18, 65, 120]
BY_PATIENT = NeighborRelation("add_remove", "patient")
BY_ROW = NeighborRelation("add_remove", None)


def rows(seed=1, size=400):
    generator = np.random.default_rng(seed)
    age = pd.array(generator.integers(-20, 140, size), dtype="Int64")
    age[generator.random(size) < 0.1] = pd.NA
    cost = np.round(generator.normal(0, 1, size), 1)
    cost[:4] = [math.nan, math.inf, -math.inf, -0.0]
    patient = pd.array(generator.integers(0, 60, size), dtype="Int64")
    patient[generator.random(size) < 0.05] = pd.NA
    return pd.DataFrame({"patient": patient, "age": age, "cost": cost})


def by_hand(frame, column, edges, unit, outside="ignore", keep=None, where=lambda row: True):
    """How many units (or rows) have a row in each bin."""
    found = {}
    for position, row in enumerate(frame.itertuples()):
        value, owner = getattr(row, column), position if unit is None else getattr(row, unit)
        if pd.isna(value) or pd.isna(owner) or not where(row):
            continue
        place = bisect.bisect_right(edges, value) - 1
        if outside == "edges":
            place = min(max(place, 0), len(edges) - 2)
        if 0 <= place < len(edges) - 1:
            found.setdefault(owner, set()).add(place)
    counts = [0] * (len(edges) - 1)
    for places in found.values():
        for place in sorted(places)[:keep]:
            counts[place] += 1
    return counts


@pytest.mark.parametrize("unit", [None, "patient"])
@pytest.mark.parametrize("outside", ["ignore", "edges"])
@pytest.mark.parametrize("edges", [EDGES, [0, 1], list(range(-30, 150, 7)), [-0.5, 20.5, 21]])
def test_bins_of_integers(unit, outside, edges):
    frame = rows()
    table = RowTable.open(frame, neighbor_relation=NeighborRelation("add_remove", unit))
    found = table.prepare(histogram("age", bins=edges, outside=outside)).run()
    assert found.tolist() == by_hand(frame, "age", edges, unit, outside)


@pytest.mark.parametrize("outside", ["ignore", "edges"])
def test_bins_of_floats_are_exact_at_their_edges(outside):
    frame = rows()
    edges = [-1, "-0.7", "-0.1", 0, "0.1", "0.3", 2]
    table = RowTable.open(frame, neighbor_relation=BY_ROW)
    found = table.prepare(histogram("cost", bins=edges, outside=outside)).run()
    assert found.tolist() == by_hand(frame, "cost", [float(edge) for edge in edges], None, outside)
    third = pd.DataFrame({"x": [math.nextafter(1 / 3, 0), 1 / 3]})
    assert RowTable.open(third, neighbor_relation=BY_ROW).prepare(histogram("x", bins=["1/3", 1])).run().tolist() == [1]


def test_limits_and_conditions():
    frame = rows()
    table = RowTable.open(frame, neighbor_relation=BY_PATIENT)
    kept = table.prepare(histogram("age", bins=EDGES, max_groups_per_unit=1)).run()
    assert kept.tolist() == by_hand(frame, "age", EDGES, "patient", keep=1)
    some = table.prepare(histogram("age", bins=EDGES, where="cost > 0 AND age < 100")).run()
    chosen = by_hand(
        frame, "age", EDGES, "patient", where=lambda row: row.cost > 0 and not pd.isna(row.age) and row.age < 100
    )
    assert some.tolist() == chosen


def test_it_follows_growth():
    table = RowTable.open(rows(), neighbor_relation=BY_ROW)
    plan = table.prepare(histogram("age", bins=EDGES))
    before = plan.run()
    table.append(rows(seed=2))
    after = by_hand(pd.concat([rows(), rows(seed=2)]), "age", EDGES, None)
    assert plan.run().tolist() == after != before.tolist()


@pytest.mark.parametrize(
    ("neighbor_relation", "limits", "expected"),
    [
        (BY_ROW, {}, (1, 1, 1)),
        (NeighborRelation("replace", None), {}, (1, 2, 2)),
        (BY_PATIENT, {}, (1, 3, 3)),
        (BY_PATIENT, {"assumed_groups_per_unit": 2}, (1, 2, 2)),
        (NeighborRelation("replace", "patient"), {"max_groups_per_unit": 1}, (1, 2, 2)),
        (NeighborRelation("replace", "patient"), {}, (1, 3, 3)),
    ],
)
def test_how_far_neighbours_are_apart(neighbor_relation, limits, expected):
    query = histogram("age", bins=EDGES, **limits)
    assert (
        query.sensitivity(neighbor_relation),
        query.reach(neighbor_relation),
        query.l1(neighbor_relation),
    ) == expected


def test_the_description_is_canonical():
    query = histogram("age", bins=[0, "0.5", 2.0])
    assert query == histogram("age", bins=(0, 0.5, 2))
    assert query.keys == ((Bin(0, 0.5),), (Bin(0.5, 2),))
    bodies = [
        histogram("age", bins=[0, 1, 2]).body(),
        histogram("age", bins=[0, 2]).body(),
        histogram("age", bins=[0, 1, 2], outside="edges").body(),
        histogram("age", bins=[0, 1, 2], where="age > 1").body(),
        histogram("age", bins=[0, 1, 2], max_groups_per_unit=1).body(),
        histogram("age", bins=[0, 1, 2], assumed_groups_per_unit=1).body(),
    ]
    assert all(one != other for k, one in enumerate(bodies) for other in bodies[:k])


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda: histogram("age", bins=[]), InvalidQuery),
        (lambda: histogram("age", bins=[1]), InvalidQuery),
        (lambda: histogram("age", bins=[1, 1]), InvalidQuery),
        (lambda: histogram("age", bins=[2, 1]), InvalidQuery),
        (lambda: histogram("age", bins="0,1"), InvalidQuery),
        (lambda: histogram("age", bins=7), InvalidQuery),
        (lambda: histogram("age", bins=[0, 2**54]), InvalidQuery),
        (lambda: histogram("age", bins=range(10**6)), InvalidQuery),
        (lambda: histogram("age", bins=[0, math.inf]), InvalidParameter),
        (lambda: histogram("age", bins=[0, math.nan]), InvalidParameter),
        (lambda: histogram("age", bins=[0, True]), InvalidParameter),
        (lambda: histogram(3, bins=[0, 1]), InvalidQuery),
        (lambda: histogram("age", bins=[0, 1], outside="drop"), InvalidQuery),
        (lambda: histogram("age", bins=[0, 1], max_groups_per_unit=1, assumed_groups_per_unit=1), InvalidQuery),
        (lambda: histogram("age", bins=[0, 1], max_groups_per_unit=0), InvalidParameter),
    ],
)
def test_bad_bins(ask, error):
    with pytest.raises(error):
        ask()


@pytest.mark.parametrize("column", ["nowhere", "name", "patient"])
def test_columns_without_bins(column):
    frame = rows().assign(name="SECRETNAME")
    table = RowTable.open(frame, neighbor_relation=BY_PATIENT)
    with pytest.raises(InvalidQuery) as refused:
        table.prepare(histogram(column, bins=[0, 1]))
    assert "SECRETNAME" not in str(refused.value)
