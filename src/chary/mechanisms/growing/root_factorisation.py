"""Continual counting by the square root of all running sums, with exact Gaussian noise.

Sources: Henzinger, Upadhyay and Upadhyay, *Almost tight error bounds on differentially private continual counting*
(2023); Fichtenberger, Henzinger and Upadhyay, *Constant matters* (2023). Whole numbers instead of real ones are ours.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chary.accounting import Event
from chary.accounting.continual import Beyond, normal_beyond, root_deviations, root_length, root_weights
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Gaussian, Integers
from chary.mechanisms.growing.running_counts import Continual
from chary.noise import Source, add
from chary.numbers import Number

# 16 bytes each: the state stays below 16 megabytes, which every step reads and writes.
MOST_KEPT: Final = 2**20
# Sums below 2**62 cannot wrap around in int64; larger ones are taken in Python ints.
_WIDE: Final = 2**62


@dataclass(frozen=True)
class RootFactorisation(Continual):
    """Step t draws one noise z_t and forms `y_t = sum of C_(t-s) x_s + z_t` from the increments x, weights C whole.

    The increment that a row moves is in y_t with a weight of `C_(t-s)`, so all that it moves has the squared length
    `l1 largest times the sum of the C_k^2` at most, which is exact; discrete Gaussian noise of `sigma^2` = that over
    2 rho makes all y together rho-zCDP. What is told, the running sum of what the inverse of C makes of y, depends on
    the data through y only; it is rounded to whole rows. Increments are kept, and what y tells of them: 16 bytes a
    step and key.

    >>> root = RootFactorisation.for_rho("0.5", steps=1000)
    >>> round(root.deviation(1), 2), round(root.deviation(1000), 2), root.worst_error()
    (1.81, 3.27, 13)
    """

    steps: int
    noise: Gaussian
    keys: int = 1
    l1: int = 1
    largest: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps * self.keys > MOST_KEPT:
            raise InvalidParameter(f"steps times keys may be at most {MOST_KEPT} for the root: it keeps all of them")

    @classmethod
    def for_rho(cls, rho: Number, *, steps: int, keys: int = 1, l1: int = 1, largest: int = 1) -> "RootFactorisation":
        """Noise that is rho-zCDP for all steps together."""
        return cls(steps, Gaussian.for_rho(rho, l2_squared=root_length(steps) * l1 * largest), keys, l1, largest)

    def event(self) -> Event:
        return replace(self.noise, l2_squared=root_length(self.steps) * self.l1 * self.largest).event()

    def start(self) -> bytes:
        return b""

    def tell(self, step: int, state: bytes, counts: Integers, source: Source) -> tuple[list[int], bytes]:
        increments, solved = self._loaded(self.known(step) - 1, state)
        increments = np.vstack([increments, counts.astype(np.int64) - increments.sum(axis=0)])
        weights = root_weights(self.steps)[step - 1 :: -1]
        # From here on all is a function of the noisy sums: floats may round, and tell nothing more of the data.
        noisy = add(_sums(weights, increments), self.noise.draw(source, self.keys))
        rest = noisy.astype(np.float64) - weights[:-1].astype(np.float64) @ solved
        solved = np.vstack([solved, rest / float(weights[-1])])
        told = np.rint(solved.sum(axis=0)).tolist()
        return [int(count) for count in told], increments.tobytes() + solved.tobytes()

    def deviation(self, step: int) -> float:
        return float(self._deviations[self.known(step) - 1])

    def chance_beyond(self, step: int) -> Beyond:
        return normal_beyond(self.deviation(step))

    def chances_beyond(self) -> Sequence[tuple[Beyond, int]]:
        return [(normal_beyond(self._deviations), 1)]

    @cached_property
    def _deviations(self) -> NDArray[np.float64]:
        return np.asarray(root_deviations(self.steps) * math.sqrt(self.noise.sigma_squared))

    def _loaded(self, steps: int, state: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        shape, middle = (steps, self.keys), len(state) // 2
        increments = np.frombuffer(state[:middle], np.int64).reshape(shape)
        return increments, np.frombuffer(state[middle:], np.float64).reshape(shape)


def _sums(weights: NDArray[np.int64], increments: NDArray[np.int64]) -> NDArray[Any]:
    """The weighted sums of the columns, which never wrap around."""
    largest = int(weights.max()) * int(np.abs(increments).sum(axis=0, dtype=object).max())
    kind = np.int64 if largest < _WIDE else object
    return np.asarray(weights.astype(kind) @ increments.astype(kind))
