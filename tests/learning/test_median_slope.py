"""The median of slopes: how far one row moves its distances, and that the line is found."""

import numpy as np
import pyarrow as pa
import pytest

import chary
from chary import Budget, InvalidParameter, InvalidQuery
from chary.calls import ExponentialMechanism
from chary.learning import MedianSlope
from chary.learning.median_slope import drawn_order, excess, height_distances, paired_slopes
from chary.noise import Seeded

CANDIDATES = np.linspace(-3, 3, 61)


def points(size, seed):
    """Whole numbers, so that equal values and rows are frequent."""
    generator = np.random.default_rng(seed)
    return generator.integers(-3, 4, size).astype(float), generator.integers(-5, 6, size).astype(float)


def moved(x, y, orders, other_x, other_y, other_orders):
    """How far the excess of the slopes moves between two tables with paired matchings."""
    one = np.concatenate([paired_slopes(x[order], y[order]) for order in orders])
    two = np.concatenate([paired_slopes(other_x[order], other_y[order]) for order in other_orders])
    return np.abs(excess(one, CANDIDATES) - excess(two, CANDIDATES)).max()


@pytest.mark.parametrize("size", [2, 3, 8, 9, 30, 31])
def test_a_row_that_is_replaced_moves_no_distance_by_more_than_one(size):
    source, most = Seeded(2), 0.0
    for seed in range(60):
        x, y = points(size, seed)
        orders = [drawn_order(size, source) for _ in range(4)]
        other_x, other_y = x.copy(), y.copy()
        place = seed % size
        other_x[place], other_y[place] = 3.0, (-1.0) ** seed * 50
        most = max(most, moved(x, y, orders, other_x, other_y, orders))
    assert most <= 2 * 4
    if size > 3:
        assert most >= 4


def without(order, row):
    """The order of a table without a row: the last one takes its place."""
    left = order.tolist()
    place = left.index(row)
    last = left.pop()
    if place < len(left):
        left[place] = last
    return np.array([each - (each > row) for each in left], dtype=int)


@pytest.mark.parametrize("size", [3, 4, 9, 10, 31])
def test_a_row_that_is_removed_moves_no_distance_by_more_than_one(size):
    source, most = Seeded(3), 0.0
    for seed in range(80):
        x, y = points(size, seed)
        orders, row = [drawn_order(size, source) for _ in range(4)], seed % size
        kept = np.delete(np.arange(size), row)
        others = [without(order, row) for order in orders]
        assert all(sorted(other) == list(range(size - 1)) for other in others)
        most = max(most, moved(x, y, orders, x[kept], y[kept], others))
    assert most <= 3 * 4
    if size > 4:
        assert most > 2 * 4 - 3


def test_orders_are_uniform_also_of_a_table_without_a_row():
    source, runs = Seeded(5), 24_000
    orders = [drawn_order(4, source) for _ in range(runs)]
    for found, kinds in ((orders, 24), ([without(order, 2) for order in orders], 6)):
        counts = np.unique([tuple(order) for order in found], axis=0, return_counts=True)[1]
        assert len(counts) == kinds
        assert np.abs(counts - runs / kinds).max() < 6 * np.sqrt(runs / kinds)


@pytest.mark.parametrize(("neighbors", "change"), [("replace", 2), ("add_remove", 1)])
def test_a_row_moves_no_height_by_more_than_one(neighbors, change):
    assert MedianSlope("x", "y", neighbors=neighbors).height(0.5, 1).parameters["change"] == change
    most, told = 0.0, {"x": "x", "y": "y", "change": change, "slope": 0.5, "center": 1.0}
    for seed in range(60):
        x, y = points(11, seed)
        tables = [pa.table({"x": x, "y": y}), pa.table({"x": x[1:], "y": y[1:]})]
        if neighbors == "replace":
            tables[1] = pa.table({"x": np.append(x[1:], 3.0), "y": np.append(y[1:], (-1) ** seed * 90.0)})
        one, two = (height_distances(table, CANDIDATES, **told) for table in tables)
        most = max(most, np.abs(one - two).max())
    assert most == 1


def test_a_line_is_found_through_spoiled_rows():
    generator = np.random.default_rng(1)
    x = generator.uniform(0, 60, 4000)
    y = 3 + 0.5 * x + generator.normal(size=4000)
    y[:400] = 1e6
    rows = pa.table({"x": pa.array(x), "y": pa.array(np.where(np.arange(4000) % 100, y, np.nan), from_pandas=True)})
    with chary.open(
        rows,
        privacy_unit=None,
        neighbors="replace",
        budget=Budget(epsilon=3),
        ledger=":memory:",
        unsafe_noise=Seeded(6),
    ) as session:
        line, slopes = MedianSlope("x", "y", neighbors="replace"), [k / 100 for k in range(-200, 201)]
        slope = session.ask(ExponentialMechanism(slopes, distance=line.slope(), epsilon=1)).value
        heights = [k / 10 for k in range(-500, 501)]
        height = session.ask(ExponentialMechanism(heights, distance=line.height(slope, 30), epsilon=1)).value
    assert abs(slope - 0.5) < 0.1
    assert abs(height - 18) < 1


def test_equal_rows_are_no_reason_to_fail():
    steep = paired_slopes(np.array([1.0, 1, 1, 1, 1, 1, 1, 1]), np.array([0.0, 2, 2, 0, 3, 3, 3, 3]))
    assert steep.tolist() == [np.inf, -np.inf, -np.inf, np.inf]
    assert paired_slopes(np.array([1.0]), np.array([1.0])).size == 0
    assert excess(np.array([]), [1, 2]).tolist() == [0, 0]


@pytest.mark.parametrize("options", [{"neighbors": "bounded_change"}, {"neighbors": "replace", "matchings": 0}])
def test_what_is_no_line_is_refused(options):
    with pytest.raises(InvalidParameter):
        MedianSlope("x", "y", **options)


@pytest.mark.parametrize("wrong", [{"neighbors": "add_remove"}, {"privacy_unit": "u"}])
def test_a_session_with_other_neighbours_refuses_the_distances(wrong):
    """Where one row moves a distance by more than 1, or a unit has several rows, nothing of it would be private."""
    rows = pa.table({"u": [0, 0, 1, 2], "x": [1.0, 2.0, 3.0, 4.0], "y": [2.0, 1.0, 4.0, 3.0]})
    options = {"privacy_unit": None, "neighbors": "replace"} | wrong
    line = MedianSlope("x", "y", neighbors="replace", matchings=2)
    with chary.open(rows, budget=Budget(epsilon=1), ledger=":memory:", **options) as session:
        for distances in (line.slope(), line.height(0.5, center=2)):
            asked = ExponentialMechanism([0, 1, 2], distance=distances, epsilon="0.5")
            for ask in (session.quote, session.ask):
                with pytest.raises(InvalidQuery, match="privacy_unit=None, neighbors='replace'"):
                    ask(asked)
        assert session.spent.share == 0
