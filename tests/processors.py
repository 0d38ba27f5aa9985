"""Another processor: elementary functions whose last digits are others, as other libraries and vector units give them.

Sums, products and square roots are rounded correctly everywhere; `exp`, `log` and their like are not, and a vector unit
rounds an array otherwise than its last few numbers or one alone. So results move by up to 2 units in the last place,
by a fixed rule of the processor, the result, and its place in an array. `python -m pytest -p tests.processors` runs
tests on the processor that the environment variable PROCESSOR numbers.
"""

import functools
import math
import os
import struct
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import scipy

ULPS = 2
MODULES = {
    math: "exp exp2 expm1 log log1p log2 log10 pow sinh cosh tanh sin cos atan erf erfc gamma lgamma",
    np: "exp exp2 expm1 log log1p log2 log10 power sinh cosh tanh sin cos logaddexp",
    scipy.special: "ndtr ndtri log_ndtr erfc erfcx gammaln gammainc gammaincc logsumexp expit betainc xlogy",
}
# What every library gets right.
EXACT = {0.0, 1.0, math.inf, -math.inf}


class Shaken:
    """A function whose results are moved; its other attributes are its own."""

    def __init__(self, function, number):
        self._function, self._number = function, number

    def __call__(self, *given, **options):
        found = self._function(*given, **options)
        if isinstance(found, np.ndarray) and found.dtype == np.float64 and found.ndim:
            places = np.arange(found.size).reshape(found.shape)
            found[...] = _moved(found, places, self._number)
            return found
        if isinstance(found, float) and found not in EXACT and found == found:
            return type(found)(_moved_alone(float(found), self._number))
        return found

    def __getattr__(self, name):
        return getattr(self._function, name)


def _moved(found, places, number):
    """The results moved by -ULPS to ULPS places, but never past 0, 1 or -1, which no library passes."""
    steps = np.spacing(np.where(np.isfinite(found), found, 0.0))
    moved = found + _moves(found, places, number) * steps
    moved = np.where(moved * np.sign(found) < 0, 0.0, moved)
    return np.where(np.sign(np.abs(moved) - 1) * np.sign(np.abs(found) - 1) < 0, np.sign(found), moved)


def _moves(found, places, number):
    """Whole numbers from -ULPS to ULPS, 0 for exact results: a multiplicative hash of the bits."""
    bits = np.atleast_1d(found).view(np.uint64).reshape(np.shape(found))
    mixed = (bits ^ np.uint64(number * 0x9E3779B97F4A7C15 % 2**64)) + np.asarray(places, np.uint64) % np.uint64(8)
    mixed = mixed * np.uint64(0xBF58476D1CE4E5B9)
    moves = ((mixed >> np.uint64(40)) % np.uint64(2 * ULPS + 1)).astype(np.int64) - ULPS
    return np.where(np.isfinite(found) & (found != 0) & (found != 1), moves, 0)


def _moved_alone(found, number):
    """The same of one number, which is not exact, without the price of an array."""
    [bits] = struct.unpack("<Q", struct.pack("<d", found))
    mixed = (bits ^ (number * 0x9E3779B97F4A7C15 % 2**64)) * 0xBF58476D1CE4E5B9 % 2**64
    sign = math.copysign(1.0, found)
    moved = found + ((mixed >> 40) % (2 * ULPS + 1) - ULPS) * sign * math.ulp(found)
    if moved * sign < 0:
        return 0.0
    return sign if (abs(moved) - 1) * (abs(found) - 1) < 0 else moved


@contextmanager
def processor(number):
    """Everything inside is computed on another processor, and nothing that one before has computed is remembered."""
    with pytest.MonkeyPatch.context() as patch, np.errstate(over="ignore"):
        for module, names in MODULES.items():
            for name in names.split():
                if hasattr(module, name):
                    patch.setattr(module, name, Shaken(getattr(module, name), number))
        forget()
        yield
    forget()


def forget():
    """Clear what `chary` keeps in caches of modules."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "chary":
            for kept in _caches(module):
                kept.cache_clear()


@functools.cache
def _caches(module):
    return [kept for kept in vars(module).values() if isinstance(kept, functools._lru_cache_wrapper)]


def pytest_configure(config):
    if (number := os.environ.get("PROCESSOR")) is not None:
        context = processor(int(number))
        context.__enter__()
        config.add_cleanup(lambda: context.__exit__(None, None, None))
