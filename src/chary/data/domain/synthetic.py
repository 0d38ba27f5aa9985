"""Made-up rows from the cells of a universe: nothing private is read."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.data.columns import Schema, classify
from chary.data.domain.universe import Universe
from chary.numbers import whole


def rows_in(universe: Universe, schema: Schema, cells: NDArray[np.intp], random: np.random.Generator) -> pa.Table:
    """A row in each of these cells, which are numbered as in a table over the universe: None where a value is missing.

    Within a bin, numbers are drawn evenly. Columns have the types of the schema, also where all values are missing.

    >>> universe = Universe({"sex": ["f", "m"], "smoker": [True, False]})
    >>> schema = {"sex": "string", "smoker": "boolean"}
    >>> rows_in(universe, schema, np.array([0, 5]), np.random.default_rng(0)).to_pylist()
    [{'sex': 'f', 'smoker': True}, {'sex': 'm', 'smoker': None}]
    """
    made = {}
    places = np.unravel_index(cells, universe.shape)
    for (name, axis), place in zip(universe.columns, places, strict=True):
        kind = classify(schema, name)
        made[name] = pa.array(axis.drawn(place, kind, random), pa.type_for_alias(kind))
    return pa.table(made)


def rows_drawn(universe: Universe, schema: Schema, shares: NDArray[np.float64], *, rows: int, seed: int) -> pa.Table:
    """So many independent rows, each cell as likely as its share says; the same seed gives the same table.

    `InvalidParameter` for no whole number of rows of at least 1, and of a seed of at least 0.
    """
    random = np.random.default_rng(whole(seed, "seed", least=0))
    sums = np.cumsum(shares.ravel())
    drawn = np.searchsorted(sums, random.random(whole(rows, "rows")) * sums[-1], side="right")
    return rows_in(universe, schema, np.minimum(drawn, len(sums) - 1), random)
