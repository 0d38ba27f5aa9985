"""Streaming estimators that are not private: right on streams which do not depend on their answers."""

from typing import Protocol, runtime_checkable

import numpy as np

from chary.mechanisms.streaming.hashing import Element, checked_key, digest
from chary.mechanisms.streaming.registers import RegisterLaw, checked_registers, largest_value, place_one


@runtime_checkable
class Estimator(Protocol):
    """One number about a stream, kept in little space with internal randomness (the key).

    Implementations: `FlajoletMartin` (distinct elements), `SecondMoment` (sum of squared frequencies). They are
    accurate for any stream that was fixed beforehand; a stream that depends on their answers may fool them.
    """

    def update(self, item: Element) -> None:
        """One more item of the stream."""
        ...

    def estimate(self) -> float:
        """The number for the stream so far, at least 0."""
        ...


class FlajoletMartin:
    """The number of distinct elements, by maximum likelihood, with a relative error of about 1.04/sqrt(registers).

    No privacy and no secret beyond the key: for private counts see `Distinct`. Source: Flajolet and Martin (1985).

    >>> sketch = FlajoletMartin("0" * 64, registers=1024)
    >>> for item in range(3000):
    ...     sketch.update(item)
    >>> 2700 < sketch.estimate() < 3300
    True
    """

    def __init__(self, key: str, registers: int) -> None:
        self._key = checked_key(key)
        self._registers = bytearray(checked_registers(registers))
        self._law = RegisterLaw(0, 0, largest_value(registers))
        self._answer: float | None = 0.0

    def update(self, item: Element) -> None:
        word = int.from_bytes(digest(self._key, item)[:8], "big")
        position, value = place_one(word, len(self._registers))
        if value > self._registers[position]:
            self._registers[position] = value
            self._answer = None

    def estimate(self) -> float:
        if self._answer is None:
            rate = self._law.most_likely(self._law.counts(np.frombuffer(self._registers, dtype=np.uint8)))
            self._answer = len(self._registers) * rate
        return self._answer


class SecondMoment:
    """The sum of squared frequencies, with a relative error of about sqrt(2 / 256), 9 per cent.

    The mean of 256 squared sums with random signs. Source: Alon, Matias and Szegedy (1996).

    >>> sketch = SecondMoment("0" * 64)
    >>> sketch.update("a", amount=-30)
    >>> sketch.estimate()
    900.0
    """

    def __init__(self, key: str) -> None:
        self._key = checked_key(key)
        self._sums = np.zeros(256)

    def update(self, item: Element, amount: float = 1) -> None:
        """`amount` more of the item; it may be negative."""
        bits = np.unpackbits(np.frombuffer(digest(self._key, item), dtype=np.uint8))
        self._sums += amount * (2.0 * bits - 1)

    def estimate(self) -> float:
        return float(np.mean(self._sums**2))
