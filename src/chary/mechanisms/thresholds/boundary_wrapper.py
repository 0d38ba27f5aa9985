"""The boundary wrapper ([TCT] Algorithm 4): an outcome that is nearly certain is nearly free."""

from dataclasses import dataclass
from typing import Final, Generic, Literal, Protocol, TypeVar

import numpy as np

from chary import noise
from chary.accounting import BoundaryCall
from chary.errors import InvalidParameter
from chary.noise.choice import GUARD_BITS, WORD_ERROR, Floats
from chary.noise.partition import Bounds
from chary.numbers import Number

BOUNDARY: Final = "boundary"
InnerOutcome = int | Literal["boundary"]

Value = TypeVar("Value", contravariant=True)


class Chooser(Protocol[Value]):
    """An epsilon-DP mechanism that knows the exact law of its outcome, a number from 0 on.

    Implementations: `ThresholdTest`, `Exponential`, `PermuteAndFlip`.
    """

    @property
    def epsilon(self) -> Number:
        """Its pure privacy."""
        ...

    @property
    def outcomes(self) -> int | None:
        """How many outcomes it can have at most, or None for any number."""
        ...

    def law(self, value: Value) -> noise.FiniteLaw:
        """The law of its outcome for an exact value."""
        ...


@dataclass(frozen=True)
class BoundaryWrapper(Generic[Value]):
    """Returns `BOUNDARY` with probability `min(1/3, x/(1+x))`, x the chance of all but the likeliest outcome; else A's.

    Guarantee: `BoundaryCall`, a t-DP call whose q-target is `BOUNDARY`; t is at most 4/3 epsilon of A. While A is
    nearly sure of its outcome the target is hardly ever hit. Both are exact
    (`chary.accounting.hit_prices`).

    Errors: `InvalidParameter` if A has more outcomes than it says.

    >>> from chary.mechanisms import Exponential
    >>> vote = BoundaryWrapper(Exponential("0.05", sensitivity=1, monotone=True))
    >>> [round(p, 4) for p in vote.law([500, 350]).probabilities()]
    [0.0006, 0.9989, 0.0006]
    >>> [round(float(number), 6) for number in vote.event().listed]
    [0.06639, 0.299107]
    """

    chooser: Chooser[Value]

    def __post_init__(self) -> None:
        self.event()

    def law(self, value: Value) -> "BoundaryLaw":
        """The exact law: position 0 is `BOUNDARY`, j + 1 is A's outcome j. It depends on data."""
        law, most = self.chooser.law(value), self.chooser.outcomes
        if most is not None and law.size > most:
            raise InvalidParameter("the wrapped mechanism has more outcomes than it says")
        return BoundaryLaw(law)

    def step(self, value: Value, source: noise.Source) -> InnerOutcome:
        """`BOUNDARY`, or the number of A's outcome."""
        place = self.law(value).draw(source)
        return place - 1 if place else BOUNDARY

    def event(self) -> BoundaryCall:
        """What a call may reveal; a hit is `BOUNDARY`."""
        return BoundaryCall(self.chooser.epsilon, self.chooser.outcomes)


class BoundaryLaw(noise.FiniteLaw):
    """The law of the wrapper around a law of A.

    Minima and maxima of bounds enclose those of the numbers, so neither a tie between the likeliest outcomes nor one of
    x/(1+x) with 1/3 is ever decided.
    """

    def __init__(self, wrapped: noise.FiniteLaw) -> None:
        self._wrapped = wrapped

    @property
    def size(self) -> int:
        return self._wrapped.size + 1

    def bounds(self, bits: int) -> list[Bounds]:
        one = 1 << (bits + GUARD_BITS)
        wrapped = self._wrapped.bounds(bits + GUARD_BITS)
        least = _chance(max(0, one - max(upper for _, upper in wrapped)), one)
        most = _chance(one - max(lower for lower, _ in wrapped), one) + 1
        inside = [((one - most) * lower // one, -((least - one) * upper // one)) for lower, upper in wrapped]
        return [(lower >> GUARD_BITS, -(-upper >> GUARD_BITS)) for lower, upper in [(least, most), *inside]]

    def near(self) -> tuple[Floats, float]:
        """x is a difference of cut points, and x/(1+x) changes by less than x: three errors in all."""
        points, error = self._wrapped.near()
        rest = 1 - float(np.diff(points, prepend=0.0, append=1.0).max())
        boundary = min(1 / 3, rest / (1 + rest))
        return np.concatenate([[boundary], boundary + (1 - boundary) * points]), 3 * error + 4 * WORD_ERROR


def _chance(rest: int, one: int) -> int:
    """`min(1/3, x/(1+x))` for `x = rest/one`, times `one`, rounded down."""
    return min(one // 3, one * rest // (one + rest))
