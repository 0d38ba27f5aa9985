"""Exact sums by position, in halves that fit into 64 bits."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

POSITION: Final = "position"
# Two halves hold sums up to 2**95 steps: those of 2**42 rows with the 2**53 steps that a total allows each.
HALF: Final = 2**32


def scattered(columns: Mapping[str, npt.NDArray[Any]], length: int) -> npt.NDArray[Any]:
    """The sums `high * HALF + low` by position, 0 where there are none; Python integers where 64 bits do not do."""
    position, high, low = (np.asarray(columns[name]) for name in (POSITION, "high", "low"))
    if np.any(np.abs(high) >= HALF // 2):
        high = high.astype(object)
    answers = np.zeros(length, dtype=high.dtype)
    answers[position] = high * HALF + low
    return answers
