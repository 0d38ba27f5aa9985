"""Disjoint shards of rows, one for each teacher, such that a privacy unit touches one shard only."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chary.errors import InvalidParameter
from chary.noise import OperatingSystem, Source, uniform_integers
from chary.numbers import whole

Numbers = NDArray[np.int64]


def number_units(units: ArrayLike | None, rows: int) -> Numbers:
    """The number of each row's unit: equal names have equal numbers; None makes every row a unit of its own.

    Names are whole numbers or strings. Errors: `InvalidParameter` for names of another kind (floats and missing values
    among them, since two of those may be one person) or another number of rows.

    >>> number_units(["ann", "bob", "ann"], 3)
    array([0, 1, 0])
    """
    if units is None:
        return np.arange(rows, dtype=np.int64)
    names = np.asarray(units)
    if names.dtype == object and all(isinstance(name, str) for name in names.flat):
        names = names.astype(str)
    if names.shape != (rows,) or names.dtype.kind not in "iuUS":
        raise InvalidParameter("units must hold one name for each row, all whole numbers or all strings, none missing")
    numbers: Numbers = np.unique(names, return_inverse=True)[1]
    return numbers.astype(np.int64)


def draw_shards(units: Numbers, shards: int, source: Source | None = None) -> Numbers:
    """The shard of each row, uniform and independent for each unit: shards of unequal size, some perhaps empty.

    Guarantee, under add/remove and under replace: given the draws of all other units, which have the same law with
    and without a unit, the rows of that unit are the only ones that differ, and all lie in one shard. So neighbours
    can be coupled such that all shards but one are equal, row by row and in the same order.

    `units` are numbers 0, 1, ... as `number_units` gives them. Errors: `InvalidParameter` for fewer than 1 shard.

    >>> sorted(set(draw_shards(np.array([0, 1, 0, 1]), 1)))
    [np.int64(0)]
    """
    drawn = uniform_integers(source or OperatingSystem(), whole(shards, "shards"), _count(units))
    return drawn[units]


def equal_shards(units: Numbers, shards: int, source: Source | None = None) -> Numbers:
    """The shard of each row, of sizes that differ by one unit at most: for the relation "replace" only.

    Guarantee, under replace: the units are a uniformly random arrangement in shards of public sizes, and the unit that
    comes takes the place of the one that goes, so all shards but one are equal. Under add/remove this is false: the
    size of a shard would depend on how many units there are.

    Errors: `InvalidParameter` for fewer than 1 shard.

    >>> sorted(equal_shards(np.arange(6), 3).tolist())
    [0, 0, 1, 1, 2, 2]
    """
    number = _count(units)
    places = np.arange(number, dtype=np.int64) % whole(shards, "shards")
    return places[_permutation(number, source or OperatingSystem())][units]


def _permutation(size: int, source: Source) -> Numbers:
    """A uniformly random order: sorted by random numbers, all drawn again when two are equal."""
    while True:
        keys = uniform_integers(source, 2**62, size)
        if np.unique(keys).size == size:
            return np.argsort(keys).astype(np.int64)


def _count(units: Numbers) -> int:
    return int(units.max()) + 1 if units.size else 0
