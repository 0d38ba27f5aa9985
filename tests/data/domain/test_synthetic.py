"""Made-up rows: drawn as their cells' shares say, of the columns' types, the same for the same seed."""

import numpy as np
import pyarrow as pa
import pytest

from chary import Bins, InvalidParameter, Universe
from chary.data.universe.axes import rows_drawn, rows_in

UNIVERSE = Universe({"sex": ["f", "m"], "age": Bins([0, 30, 60]), "cost": Bins(["0.5", "1.5"]), "smoker": [True]})
SCHEMA = {"sex": "string", "age": "int64", "cost": "float64", "smoker": "boolean", "other": "date"}
TYPES = [pa.string(), pa.int64(), pa.float64(), pa.bool_()]


def test_each_cell_makes_a_value_of_its_own():
    cells = np.arange(UNIVERSE.cells)
    made = rows_in(UNIVERSE, SCHEMA, cells, np.random.default_rng(1))
    places = np.unravel_index(cells, UNIVERSE.shape)
    assert made.column("sex").to_pylist() == [["f", "m", None][place] for place in places[0]]
    for name, edges, place in (("age", [0, 30, 60], places[1]), ("cost", [0.5, 1.5], places[2])):
        for value, cell in zip(made.column(name).to_pylist(), place, strict=True):
            assert value is None if cell == len(edges) - 1 else edges[cell] <= value < edges[cell + 1]
    assert made.schema.types == TYPES


def test_columns_keep_their_types_where_every_value_is_missing():
    last = np.array([UNIVERSE.cells - 1])
    made = rows_in(UNIVERSE, SCHEMA, last, np.random.default_rng(0))
    assert made.to_pylist() == [dict.fromkeys(["sex", "age", "cost", "smoker"])]
    assert made.schema.types == TYPES


@pytest.mark.statistical
def test_rows_are_drawn_as_the_shares_say():
    universe, many = Universe({"digit": range(4)}, missing=False), 20_000
    shares = np.array([0.5, 0.0, 0.3, 0.2])
    made = rows_drawn(universe, {"digit": "int64"}, shares, rows=many, seed=5)
    found = np.bincount(made.column("digit").to_numpy(), minlength=4) / many
    slack = 4.9 * np.sqrt(shares * (1 - shares) / many)
    assert (np.abs(found - shares) <= slack).all()
    assert not (np.abs(found - shares[[0, 1, 3, 2]]) <= slack).all()
    assert made == rows_drawn(universe, {"digit": "int64"}, shares, rows=many, seed=5)
    assert made != rows_drawn(universe, {"digit": "int64"}, shares, rows=many, seed=6)


@pytest.mark.parametrize("bad", [{"rows": 0}, {"rows": "5"}, {"rows": 2.5}, {"seed": -1}, {"seed": "a"}])
def test_no_number_of_rows_and_no_seed_are_refused(bad):
    with pytest.raises(InvalidParameter):
        rows_drawn(UNIVERSE, SCHEMA, np.ones(UNIVERSE.shape), **({"rows": 3, "seed": 0} | bad))
