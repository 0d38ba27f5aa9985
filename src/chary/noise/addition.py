"""Sums of integers and noise which never wrap around."""

from typing import Any, Final, overload

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidParameter

Integers = NDArray[np.int64] | NDArray[np.object_]

# The range in which NumPy adds; beyond it sums are taken in Python ints, because int64 would wrap around silently.
_INT64: Final = np.iinfo(np.int64)


@overload
def add(values: int, noise: int | NDArray[Any]) -> int: ...
@overload
def add(values: NDArray[Any], noise: int | NDArray[Any]) -> Integers: ...
def add(values: int | NDArray[Any], noise: int | NDArray[Any]) -> int | Integers:
    """The exact sum of integer values and noise, whatever their size.

    - a Python int (or NumPy integer) plus an int, or an array of one element, is a Python int;
    - an array plus an int, or an array of the same shape, is an array: of `int64` if every sum fits, else of Python
      ints (dtype object).

    Arrays have any integer dtype, or hold Python ints. Booleans, floats, and shapes that differ raise
    `InvalidParameter`, whose message shows no value.

    >>> add(2**63 - 1, 1) == 2**63
    True
    >>> add(np.array([1, 2]), np.array([-5, 5]))
    array([-4,  7])
    >>> add(np.array([2**63 - 1]), 1)
    array([9223372036854775808], dtype=object)
    """
    if type(values) is int and type(noise) is int:
        return values + noise
    left, right = _integers(values), _integers(noise)
    if isinstance(left, int):
        return left + _single(right)
    if not isinstance(right, int) and right.shape != left.shape:
        raise InvalidParameter("values and noise must have the same shape")
    if _fits(left) and _fits(right):
        return _sum64(np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64))
    return _sum(left, right)


def _integers(value: int | NDArray[Any]) -> int | Integers:
    """The argument as a Python int, an array of int64, or an array of Python ints."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    if not isinstance(value, np.ndarray):
        raise InvalidParameter("values and noise must be integers or arrays of integers")
    if value.dtype != object and np.can_cast(value.dtype, np.int64) and value.dtype != np.bool_:
        return value.astype(np.int64, copy=False)
    return _python_integers(value)


def _python_integers(value: NDArray[Any]) -> NDArray[np.object_]:
    if value.dtype.kind not in "uO":
        raise InvalidParameter("values and noise must be integers or arrays of integers")
    result = np.empty(value.shape, dtype=object)
    for index, entry in np.ndenumerate(value):
        if isinstance(entry, (bool, np.bool_)) or not isinstance(entry, (int, np.integer)):
            raise InvalidParameter("values and noise must hold integers only")
        result[index] = int(entry)
    return result


def _single(noise: int | Integers) -> int:
    if isinstance(noise, int):
        return noise
    if noise.size != 1:
        raise InvalidParameter("noise for one integer must be one integer")
    return int(noise.item())


def _fits(value: int | Integers) -> bool:
    if isinstance(value, int):
        return bool(_INT64.min <= value <= _INT64.max)
    return value.dtype == np.int64


def _sum64(left: NDArray[np.int64], right: NDArray[np.int64]) -> Integers:
    """The sum of 64-bit integers; it wrapped around where its sign differs from the signs of both terms."""
    total = np.asarray(left + right, dtype=np.int64)
    wrapped = ((left ^ total) & (right ^ total)) < 0
    return _sum(left, right) if wrapped.any() else total


def _sum(left: Integers, right: int | Integers) -> Integers:
    """The sum in Python ints, narrowed to int64 if every sum fits."""
    total = np.empty(left.shape, dtype=object)
    total[...] = left.astype(object) + (right if isinstance(right, int) else right.astype(object))
    narrow = all(_INT64.min <= entry <= _INT64.max for entry in total.flat)
    return total.astype(np.int64) if narrow else total
