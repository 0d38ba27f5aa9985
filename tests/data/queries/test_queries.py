import json
from fractions import Fraction

import numpy as np
import pytest

import chary
from chary.data import NeighborRelation, Neighbors, count, mean
from chary.errors import InvalidParameter, InvalidQuery

ROW = NeighborRelation("add_remove", None)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"bounds": (1, 0)}, InvalidQuery, "lower number first"),
        ({"bounds": (1, 1)}, InvalidQuery, "lower number first"),
        ({"bounds": (0, "0.5")}, InvalidQuery, "multiples of the grid"),
        ({"bounds": (0, 1), "grid": "0.3"}, InvalidQuery, "multiples of the grid"),
        ({"bounds": (0, 2**53 + 1)}, InvalidQuery, "2\\*\\*53"),
        ({"bounds": (0, 1), "grid": Fraction(1, 2**54)}, InvalidQuery, "2\\*\\*53"),
        ({"bounds": (0, 1), "grid": 0}, InvalidParameter, "greater than 0"),
        ({"bounds": (0, 1), "grid": -1}, InvalidParameter, "greater than 0"),
        ({"bounds": (0, 1), "grid": float("nan")}, InvalidParameter, "finite"),
        ({"bounds": (0, float("inf"))}, InvalidParameter, "finite"),
        ({"bounds": (0, "x")}, InvalidParameter, "finite"),
        ({"bounds": 5}, InvalidQuery, "pair"),
        ({"bounds": (1, 2, 3)}, InvalidQuery, "pair"),
        ({"bounds": (0, 1), "max_rows_per_unit": 0}, InvalidParameter, "max_rows_per_unit"),
        ({"bounds": (0, 1), "max_rows_per_unit": 1.5}, InvalidParameter, "max_rows_per_unit"),
        ({"bounds": (0, 1), "where": "sqrt(x)"}, InvalidQuery, "function"),
        ({"column": 5, "bounds": (0, 1)}, InvalidQuery, "name of a column"),
    ],
    ids=str,
)
@pytest.mark.parametrize("build", [chary.sum, mean])
def test_bad_arguments(build, arguments, error, says):
    with pytest.raises(error, match=says):
        build(**({"column": "x"} | arguments))


@pytest.mark.parametrize("unit_total", [(1, 0), (0, "0.5"), (0, 2**54), 5])
def test_bad_unit_totals(unit_total):
    with pytest.raises(InvalidQuery, match="unit_total"):
        chary.sum("x", bounds=(0, 1), unit_total=unit_total)


def test_both_limits_are_too_many():
    with pytest.raises(InvalidQuery, match="not both"):
        chary.sum("x", bounds=(0, 1), unit_total=(0, 1), max_rows_per_unit=1)
    with pytest.raises(InvalidQuery, match="not both"):
        count().by("k", [1], max_groups_per_unit=1, assumed_groups_per_unit=1)
    with pytest.raises(InvalidParameter, match="max_groups_per_unit"):
        count().by("k", [1], max_groups_per_unit=0)
    with pytest.raises(InvalidQuery, match="grouped already"):
        count().by("k", [1]).by("k", [1])


def variants():
    for base in (count(), count("a = 1"), count("a = 2")):
        yield base
        yield base.by("k", [1, 2])
        yield base.by("k", [2, 1])
        yield base.by("k", [1, 2], max_groups_per_unit=1)
        yield base.by("k", [1, 2], assumed_groups_per_unit=1)
    for arguments in ({}, {"grid": "0.5"}, {"max_rows_per_unit": 1}, {"unit_total": (0, 1)}, {"where": "a"}):
        yield chary.sum("x", bounds=(0, 1), **arguments)
    yield from mean("x", bounds=(0, 4)).parts(ROW)
    yield mean("x", bounds=(0, 4)).shifted(1)


def test_bodies_identify_queries():
    queries = list(variants())
    bodies = [json.dumps(query.body(), sort_keys=True) for query in queries]
    assert len(set(bodies)) == len(set(queries)) == len(queries)
    again = [json.dumps(query.body(), sort_keys=True) for query in variants()]
    assert again == bodies
    assert list(variants()) == queries
    assert all(query.describe() for query in queries)


def test_equal_numbers_make_equal_queries():
    assert chary.sum("x", bounds=(0, 0.5), grid=0.1) == chary.sum("x", bounds=(0, "1/2"), grid="0.1")
    assert count("a >= 1") == count("1 <= a")
    assert count().keys is None
    assert count().by("k", [1]).keys == ((1,),)
    assert count().grid == 1


@pytest.mark.parametrize(
    ("bounds", "grid", "center"), [((0, 30), 1, 15), ((0, 5), 1, 2), ((-5, 0), 1, -3), ((0, 1), 1, 0)]
)
def test_centers(bounds, grid, center):
    centred, rows = mean("x", bounds=bounds, grid=grid).parts(ROW)
    assert centred.center == center
    assert rows.of is centred


def test_centres_on_a_fine_grid():
    centred, _ = mean("x", bounds=(0, "0.9"), grid="0.1").parts(ROW)
    assert centred.center == Fraction(2, 5)
    assert centred.steps == (-4, 5)


def test_shifted_needs_the_grid():
    assert mean("x", bounds=(0, 10)).shifted(3).steps == (-3, 7)
    with pytest.raises(InvalidQuery, match="multiple of the grid"):
        mean("x", bounds=(0, 10)).shifted("3.5")
    with pytest.raises(InvalidQuery, match="2\\*\\*53"):
        mean("x", bounds=(0, 10)).shifted(2**54)


def test_combine():
    stay = mean("x", bounds=(0, 10), grid="0.5")
    assert stay.combine(-4, 2) == 4.0
    assert stay.combine(10**30, 1) == 10.0
    assert stay.combine(5, 0) == stay.combine(5, -3) == 5.0
    many = stay.combine(np.array([-4, 4, 0]), np.array([2, 2, -1]))
    assert many.tolist() == [4.0, 6.0, 5.0]
    assert isinstance(stay.combine(-4, 2), float)


def test_neighbouring():
    assert NeighborRelation("replace", "u").neighbors is Neighbors.REPLACE
    assert "u" in NeighborRelation("replace", "u").describe()
    assert "series" in NeighborRelation("bounded_change", None).describe()
    with pytest.raises(InvalidParameter, match="add_remove"):
        NeighborRelation("swap", None)
    with pytest.raises(InvalidParameter, match="unit column"):
        NeighborRelation("bounded_change", "u")
    for unit in ("", 5):
        with pytest.raises(InvalidParameter, match="column"):
            NeighborRelation("replace", unit)
    with pytest.raises(TypeError):
        NeighborRelation("replace")
