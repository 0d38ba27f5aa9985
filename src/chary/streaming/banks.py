"""Many copies of one estimator that see the same stream, each with its own key."""

import math
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from chary.mechanisms import Estimator, SecondMoment
from chary.mechanisms.sketches import Element, canonical, checked_key

Floats = NDArray[np.float64]
Make = Callable[[str], Estimator]

# As many as a digest has bits: one hash an item for each copy.
_SIGNS: Final = 256


class Bank(Protocol):
    """The copies together. What one copy says depends on the stream and its own key only."""

    def update(self, item: Element) -> None:
        """One more item for all copies."""
        ...

    def estimates(self) -> Floats:
        """What each copy says now; NaN for a copy that failed."""
        ...


class Copies:
    """Copies of any estimator. One that raises is NaN from then on, since a failure would tell about its key.

    >>> bank = Copies(SecondMoment, ["0" * 64, "1" * 64])
    >>> bank.update("a")
    >>> bank.estimates()
    array([1., 1.])
    """

    def __init__(self, make: Make, keys: Sequence[str]) -> None:
        self._copies: list[Estimator | None] = [make(key) for key in keys]

    def update(self, item: Element) -> None:
        for number, copy in enumerate(self._copies):
            self._try(number, lambda copy=copy: copy and copy.update(item))  # type: ignore[misc]

    def estimates(self) -> Floats:
        said = [self._try(n, copy.estimate) if copy else math.nan for n, copy in enumerate(self._copies)]
        return np.array([_number(value) for value in said])

    def _try(self, number: int, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except Exception:
            self._copies[number] = None
            return math.nan


class SecondMoments:
    """Copies of `SecondMoment`, all updated at once.

    >>> bank = SecondMoments(["0" * 64, "1" * 64])
    >>> bank.update("a")
    >>> bank.estimates()
    array([1., 1.])
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._starts = [sha256(checked_key(key).encode()) for key in keys]
        self._sums = np.zeros((len(keys), _SIGNS))

    def update(self, item: Element) -> None:
        bits = np.unpackbits(np.frombuffer(self._digests(canonical(item)), dtype=np.uint8)).reshape(self._sums.shape)
        self._sums += bits
        self._sums += bits
        # Twice the bits less 1 is the sign: three passes in place, without an array for the signs.
        self._sums -= 1

    def estimates(self) -> Floats:
        found: Floats = np.einsum("ij,ij->i", self._sums, self._sums) / _SIGNS
        return found

    def _digests(self, text: bytes) -> bytes:
        digests = []
        for start in self._starts:
            hashed = start.copy()
            hashed.update(text)
            digests.append(hashed.digest())
        return b"".join(digests)


def bank_of(make: Make, keys: Sequence[str]) -> Bank:
    """The copies, updated at once where that is known how."""
    return SecondMoments(keys) if make is SecondMoment else Copies(make, keys)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
