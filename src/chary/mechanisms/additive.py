"""Additive noise on exact integers, and padding to public lengths."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from chary import noise
from chary.accounting import DiscreteLaplace, Event, GaussianLaw, LaplaceLaw, NoiseLaw, Repeated, ZeroConcentrated
from chary.accounting.numerics import doubled, least
from chary.noise.gaussian import Deviate
from chary.noise.laplace import Ladder, ladder
from chary.numbers import Number, positive, probability, whole

# Additive noise on integers: its exact distribution, how far it reaches, and the event of a release.

Integers = NDArray[Any]
# As many distributions are kept as ladders; a session seldom asks more sizes of noise.
KEPT_LAWS = 64
# For reports only: up to 20 steps the discrete distribution is summed, 40 deviations far, where exp(-800) is 0. Above,
# the normal distribution half a step nearer is off by a thousandth at three deviations and by a hundredth at ten,
# upwards.
EXACT_SIGMA = 20
REACH = 40 * EXACT_SIGMA


class Additive(ABC):
    """Integer noise added to integers on a public grid. All distances are in grid steps."""

    @abstractmethod
    def draw(self, source: noise.Source, size: int) -> NDArray[np.int64]:
        """Independent exact samples."""

    @abstractmethod
    def at_least(self, distance: int) -> float:
        """The probability that the noise is `distance` or more."""

    @abstractmethod
    def event(self) -> Event:
        """What adding this noise to one integer may reveal."""

    @abstractmethod
    def law(self) -> NoiseLaw:
        """The distribution with certified tails, on which `chary.accounting.Publication` and its intervals rest."""

    def apply(self, values: Integers, source: noise.Source) -> Integers:
        """Noisy integers, one for each value; the sum never wraps around."""
        return noise.add(values, self.draw(source, len(values)))

    def apply_one(self, value: int, source: noise.Source) -> int:
        """One noisy integer, drawn from the same words as by `apply` to an array of one."""
        return noise.add(value, self.draw_one(source))

    def draw_one(self, source: noise.Source) -> int:
        """One exact sample."""
        return int(self.draw(source, 1)[0])

    def wrong_call(self, distance: int) -> float:
        """The probability that a value `distance` steps above (or, negative, below) a threshold is called wrongly.

        A value at the threshold (distance 0) should be called a hit.
        """
        return self.at_least(distance + 1) if distance >= 0 else self.at_least(-distance)

    def error_bar(self, confidence: float = 0.95) -> int:
        """The least m for which the noise lies within m steps with this probability, strictly within (0, 1)."""
        probability(confidence, "confidence")

        def kept(steps: int) -> bool:
            return 2 * self.at_least(steps + 1) <= 1 - confidence

        return least(kept, *doubled(kept, -1, 1))


@dataclass(frozen=True)
class Laplace(Additive):
    """Discrete Laplace noise `P(k) ~ exp(-|k| / scale)` for values that change by at most `sensitivity`.

    >>> Laplace.for_epsilon("0.02", sensitivity=1).error_bar()
    150
    >>> Laplace(Fraction(50), 1).event().epsilon
    Fraction(1, 50)
    """

    scale: Fraction
    sensitivity: int
    times: int = 1

    def __post_init__(self) -> None:
        noise.checked_scale(self.scale)
        whole(self.sensitivity, "sensitivity")
        whole(self.times, "times")

    @staticmethod
    def for_epsilon(epsilon: Number, *, sensitivity: int, times: int = 1) -> "Laplace":
        """The noise that makes `times` values, each changing by at most `sensitivity`, epsilon-DP together.

        Its scale is at least 2**-10 steps, where noise is practically never drawn, however large epsilon is.
        """
        return _laplace(positive(epsilon, "epsilon"), sensitivity, times)

    def draw(self, source: noise.Source, size: int) -> NDArray[np.int64]:
        return noise.discrete_laplace(source, self.scale, size)

    def draw_one(self, source: noise.Source) -> int:
        return self._ladder.draw_one(source)

    @cached_property
    def _ladder(self) -> Ladder:
        return ladder(self.scale, True)

    def at_least(self, distance: int) -> float:
        step = 1 / float(self.scale)
        if distance <= 0:
            return 1 - self.at_least(1 - distance)
        return math.exp(-step * distance) / (1 + math.exp(-step))

    def event(self) -> Event:
        single = DiscreteLaplace(self.scale, self.sensitivity)
        return single if self.times == 1 else Repeated(single, self.times)

    def law(self) -> LaplaceLaw:
        return LaplaceLaw(self.scale)


@lru_cache(maxsize=KEPT_LAWS, typed=True)
def _laplace(epsilon: Fraction, sensitivity: int, times: int) -> Laplace:
    return Laplace(max(noise.SMALLEST_SCALE, sensitivity * times / epsilon), sensitivity, times)


@dataclass(frozen=True)
class Gaussian(Additive):
    """Discrete Gaussian noise `P(k) ~ exp(-k^2 / (2 sigma^2))`; `l2_squared` bounds the squared L2 change.

    Adding it is rho-zCDP with `rho = l2_squared / (2 sigma^2)` (Canonne, Kamath, Steinke 2020).

    >>> Gaussian.for_rho("0.005", l2_squared=1).sigma_squared
    Fraction(100, 1)
    """

    sigma_squared: Fraction
    l2_squared: int

    def __post_init__(self) -> None:
        noise.checked_variance(self.sigma_squared)
        whole(self.l2_squared, "l2_squared")

    @classmethod
    def for_rho(cls, rho: Number, *, l2_squared: int) -> "Gaussian":
        """The noise that is rho-zCDP; sigma is at least 2**-10 steps, however large rho is."""
        return cls(max(noise.SMALLEST_VARIANCE, l2_squared / (2 * positive(rho, "rho"))), l2_squared)

    def draw(self, source: noise.Source, size: int) -> NDArray[np.int64]:
        return noise.discrete_gaussian(source, self.sigma_squared, size)

    def at_least(self, distance: int) -> float:
        if distance <= 0:
            return 1 - self.at_least(1 - distance)
        sigma = math.sqrt(self.sigma_squared)
        if sigma > EXACT_SIGMA:
            return float(scipy.special.ndtr(-(distance - 0.5) / sigma))
        if distance > REACH:
            return 0.0
        weights = np.exp(-(np.arange(0, REACH + 1) ** 2) / (2 * float(self.sigma_squared)))
        return float(weights[distance:].sum() / (2 * weights.sum() - 1))

    def event(self) -> Event:
        return ZeroConcentrated(self.l2_squared / (2 * self.sigma_squared))

    def law(self) -> GaussianLaw:
        return GaussianLaw(self.sigma_squared)


# Secret states of public length: the length of a state in a ledger's file must not reveal what it holds.

MARK: Final = b"\x00state\x00"  # no state that was written before there was padding begins with NUL
# The length of the state, which does not follow from the padding: a state may end with zeros.
_LENGTH_BYTES: Final = 8
SMALL: Final = 1024
"""Space for a few secret integers: noise that would not fit has hundreds of digits, and its scale some twenty."""


def padded(state: bytes, room: int) -> bytes:
    """The state, filled up to a length that follows from `room` alone, as long as it fits.

    A state that does not fit gets twice the space, and so on: then the length reveals the power of two.

    >>> len(padded(b"7", 64)) == len(padded(b"1234567", 64)) < len(padded(b"7" * 65, 64))
    True
    """
    while len(state) > room:
        room *= 2
    return MARK + len(state).to_bytes(_LENGTH_BYTES, "big") + state.ljust(room, b"\x00")


def unpadded(stored: bytes) -> bytes:
    """The state that `padded` was given; one of an old ledger, which was not padded, as it is.

    >>> unpadded(padded(b"[7, 0]", 64)), unpadded(b"[7, 0]")
    (b'[7, 0]', b'[7, 0]')
    """
    if not stored.startswith(MARK):
        return stored
    begin = len(MARK) + _LENGTH_BYTES
    return stored[begin : begin + int.from_bytes(stored[len(MARK) : begin], "big")]


# How fields of states stand in JSON, where that is not as they are.
_READ: Final[Mapping[Any, Callable[[Any], Any]]] = {Fraction: Fraction, Deviate: lambda word: Deviate(*word)}


@dataclass(frozen=True, repr=False)
class SecretState:
    """What a ledger keeps for ever: the fields of a dataclass in order, at a length that follows from the public ones.

    Those that are named `secret` are shown nowhere, and no length reveals anything of them.
    """

    secret: ClassVar[tuple[str, ...]]

    def dump(self) -> bytes:
        """The state for the ledger's secret table."""
        kept = json.dumps([getattr(self, field.name) for field in fields(self)], default=_word)
        return padded(kept.encode(), SMALL + self._length())

    @classmethod
    def load(cls, data: bytes) -> Self:
        """The state that `dump` wrote."""
        kept = zip(fields(cls), json.loads(unpadded(data)), strict=True)
        return cls(*(_READ[field.type](word) if field.type in _READ else word for field, word in kept))

    def __repr__(self) -> str:
        public = ", ".join(f"{name}={value}" for name, value in self._public().items())
        return f"{type(self).__name__}(<secret>, {public})"

    def _public(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in self.secret}

    def _length(self) -> int:
        return len(json.dumps(list(self._public().values()), default=_word))


def _word(value: Fraction | Deviate) -> Any:
    return [value.floor, value.bits] if isinstance(value, Deviate) else str(value)
