"""Laws of additive integer noise with certified tails: symmetric, log-concave, in grid steps."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from chary.accounting.exponentials import precise
from chary.accounting.inference.masses import ONE, Mass, level_down, power, share_up
from chary.accounting.rounding import rounded_up
from chary.errors import InvalidParameter
from chary.numbers import Number, positive

LEAST_SPREAD: Final = Fraction(1, 2**10)
MOST_SPREAD: Final = Fraction(2**40)
# Fractions of smaller chances would have hundreds of thousands of digits; floats end near 1e-324.
_RAREST: Final = Fraction(1, 10**330)
_KEPT: Final = 1024


class NoiseLaw(ABC):
    """A symmetric log-concave law on the integers, known by enclosures of its masses.

    Log-concave (`P(k)^2 >= P(k-1) P(k+1)`) is what the intervals rest on: then the law of truth + noise, cut to any
    set, rises with the truth. A subclass gives one side, without normalising it, and says how wide it is.
    """

    flat: bool
    """Whether the law of truth + noise, cut to a set, is the same for all truths on one side of the set."""

    @abstractmethod
    def side(self, first: int, last: int | None) -> Mass:
        """The mass from `first` to `last`, 0 <= first <= last, to infinity for None; called inside `precise`."""

    @property
    @abstractmethod
    def spread(self) -> int:
        """About how many steps wide the law is: where searches start."""

    def masses(self, first: int | None, last: int | None) -> list[Mass]:
        """The masses that together are `first <= Z <= last`; None is infinity. Called inside `precise`."""
        if first is not None and last is not None and first > last:
            return []
        if first is not None and first >= 0:
            return [self.side(first, last)]
        if last is not None and last <= 0:
            return [self.side(-last, None if first is None else -first)]
        return [self.side(0, last), self.side(1, None if first is None else -first)]

    def at_least_up(self, distance: int) -> Fraction:
        """The probability that the noise is `distance` or more, rounded up; never below 1e-330.

        >>> float(LaplaceLaw(20).at_least_up(60))
        0.025515...
        """
        with precise():
            found = share_up(self.masses(distance, None), self.masses(None, distance - 1))
            return min(Fraction(1), rounded_up(found)) if found > 0 and found.adjusted() > -330 else _RAREST

    def reach_up(self, chance: Number) -> int:
        """The least distance d >= 0 with `P(Z >= d) <= chance`, certainly.

        >>> LaplaceLaw(20).reach_up("0.025")
        61
        """
        return _reach(self, positive(chance, "chance"))

    def miss_reach_up(self, chance: Number) -> int:
        """The least distance d >= 0 with `P(Z < -d) <= chance`, certainly: a truth so far above a bar is reported else.

        >>> LaplaceLaw(20).miss_reach_up("0.025")
        60
        """
        return max(0, self.reach_up(chance) - 1)


@dataclass(frozen=True)
class LaplaceLaw(NoiseLaw):
    """Discrete Laplace noise, `P(k) = r^|k| (1 - r)/(1 + r)` with `r = exp(-1/scale)`; every tail in closed form.

    `P(Z >= k) = r^k/(1 + r)` for k >= 1 and `1 - r^(1 - k)/(1 + r)` for k <= 0 (theory section 9). A scale outside
    [2^-10, 2^40] grid steps raises `InvalidParameter`.
    """

    scale: Number

    flat = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", spread_of(self.scale, "scale"))

    @property
    def spread(self) -> int:
        return max(1, int(Fraction(self.scale)))

    def side(self, first: int, last: int | None) -> Mass:
        rate = 1 / Fraction(self.scale)
        weight = ONE if last is None else 1 - power((last - first + 1) * rate)
        return Mass(first * rate, weight, weight)


def spread_of(value: Number, name: str) -> Fraction:
    """A rational from 2^-10 to 2^40, the noise that is drawn."""
    found = positive(value, name)
    if not LEAST_SPREAD <= found <= MOST_SPREAD:
        raise InvalidParameter(f"{name} must be at least 2**-10 and at most 2**40 grid steps")
    return found


@lru_cache(maxsize=_KEPT)
def _reach(noise: NoiseLaw, chance: Fraction) -> int:
    with precise():
        level = level_down(chance)

        def kept(distance: int) -> bool:
            return share_up(noise.masses(distance, None), noise.masses(None, distance - 1)) <= level

        if kept(0):
            return 0
        low, high = 0, noise.spread
        while not kept(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if kept(middle) else (middle, high)
        return high
