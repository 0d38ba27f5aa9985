"""Amounts of budget: two whole numbers, so that sums are exact and ten tenths are one."""

from __future__ import annotations

from dataclasses import dataclass

from chary.errors import InvalidParameter

LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class Amount:
    """A price, a cap or a balance.

    `main` counts the filter's own unit, `delta` counts units of 1e-18. Both are whole numbers from 0 to 2^62;
    anything else, Booleans and floats included, raises `InvalidParameter`, and so does a sum or a difference
    outside that range. Amounts are compared part by part, which is only a partial order: see `fits_into`.

    >>> Amount(3, 5) + Amount(4)
    Amount(main=7, delta=5)
    >>> Amount(2**62) + Amount(1)
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: main must be a whole number from 0 to 2^62, got 4611686018427387905
    """

    main: int
    delta: int = 0

    def __post_init__(self) -> None:
        if type(self.main) is not int or not 0 <= self.main <= LIMIT:
            raise InvalidParameter(f"main must be a whole number from 0 to 2^62, got {self.main!r}")
        if type(self.delta) is not int or not 0 <= self.delta <= LIMIT:
            raise InvalidParameter(f"delta must be a whole number from 0 to 2^62, got {self.delta!r}")

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.main + other.main, self.delta + other.delta)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.main - other.main, self.delta - other.delta)

    def __str__(self) -> str:
        return f"{self.main} (delta {self.delta})"

    def fits_into(self, room: Amount) -> bool:
        """Whether both parts are at most those of `room`.

        >>> Amount(3).fits_into(Amount(3)), Amount(3, 1).fits_into(Amount(4, 0))
        (True, False)
        """
        return self.main <= room.main and self.delta <= room.delta
