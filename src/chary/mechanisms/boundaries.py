"""Boundary mechanisms: an algorithm run twice or several times, and labels drawn against a threshold."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Generic, Literal, Protocol, TypeVar

import numpy as np

from chary import noise
from chary.accounting import BoundaryCall, TwiceCall
from chary.accounting.numerics import least
from chary.accounting.sharp_tests import SharpTable, SharpTest
from chary.errors import InvalidParameter
from chary.mechanisms.threshold_tests import SharpSampler
from chary.noise import partition
from chary.numbers import Number, per_call, set_fields, work_out

# The boundary wrapper ([TCT] Algorithm 4): an outcome that is nearly certain is nearly free.

BOUNDARY: Final = "boundary"
InnerOutcome = int | Literal["boundary"]

Value = TypeVar("Value", contravariant=True)


class Chooser(Protocol[Value]):
    """An epsilon-DP mechanism that knows the exact distribution of its outcome, a number from 0 on.

    Implementations: `AdditiveTest`, `Exponential`, `PermuteAndFlip`.
    """

    @property
    def epsilon(self) -> Number:
        """The epsilon of one outcome."""
        ...

    @property
    def outcomes(self) -> int | None:
        """How many outcomes it can have at most, or None for any number."""
        ...

    def law(self, value: Value) -> noise.FiniteLaw:
        """The distribution of its outcome for an exact value."""
        ...


@dataclass(frozen=True)
class BoundaryWrapper(Generic[Value]):
    """Returns `BOUNDARY` with probability `min(1/3, x/(1+x))`, else A's outcome.
    x is the probability of all outcomes but the likeliest.

    Guarantee: `BoundaryCall`, a t-DP call whose q-target is `BOUNDARY`; t is at most 4/3 epsilon of A. While A's
    outcome is nearly certain the target is hardly ever hit. Both are exact (`chary.accounting.hit_prices`).

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
        """The exact distribution: position 0 is `BOUNDARY`, j + 1 is A's outcome j. It depends on data."""
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
    """The distribution of the wrapper around a distribution of A.

    Minima and maxima of bounds enclose those of the numbers, so neither a tie between the likeliest outcomes nor one of
    x/(1+x) with 1/3 is ever decided.
    """

    def __init__(self, wrapped: noise.FiniteLaw) -> None:
        self._wrapped = wrapped

    @property
    def size(self) -> int:
        return self._wrapped.size + 1

    def bounds(self, bits: int) -> list[partition.Bounds]:
        work = bits + partition.GUARD_BITS
        one, wrapped = 1 << work, self._wrapped.bounds(work)
        least = _chance(max(0, one - max(upper for _, upper in wrapped)), one)
        most = _chance(one - max(lower for lower, _ in wrapped), one) + 1
        inside = [((one - most) * lower // one, -((least - one) * upper // one)) for lower, upper in wrapped]
        spare = work - bits
        return [(lower >> spare, -(-upper >> spare)) for lower, upper in [(least, most), *inside]]

    def near(self) -> tuple[partition.Floats, float]:
        """x is a difference of cut points, and x/(1+x) changes by less than x: three errors in all."""
        points, error = self._wrapped.near()
        rest = 1 - float(np.diff(points, prepend=0.0, append=1.0).max())
        boundary = min(1 / 3, rest / (1 + rest))
        return np.concatenate([[boundary], boundary + (1 - boundary) * points]), 3 * error + 4 * partition.WORD_ERROR


def _chance(rest: int, one: int) -> int:
    """`min(1/3, x/(1+x))` for `x = rest/one`, times `one`, rounded down."""
    return min(one // 3, one * rest // (one + rest))


# Two draws of a label: where they agree, it is published, free; else the answer is unclear, and charged.


@dataclass(frozen=True)
class LabelDraws:
    """Two draws of one of this many labels, given the own label of a value and its depth.

    `table`, whose spacing is one sensitivity, has the probability that a draw is the own label for certain, by depth;
    otherwise it is any label, all with the same probability. At depth 0 all labels are alike.

    Guarantee: `SharpTest`; a hit is that no label is published. It needs that own label and depth of neighbours are at
    most the table's sensitivity apart: depths of one label as numbers, those of two labels by their sum
    (docs/theory/thresholds.md).

    >>> from chary.accounting.sharp_widths import draw_table
    >>> draws = LabelDraws(draw_table(SharpTest(18, "0.19295"), labels=2, steps=1), labels=2)
    >>> draws.step(1, 10**6, noise.OperatingSystem())
    1
    """

    table: SharpTable
    labels: int

    def __post_init__(self) -> None:
        work_out(self._certain)  # refuses places too far apart to draw between

    def event(self) -> SharpTest:
        """What one answer may reveal; a hit is that nothing is published."""
        return self.table.test

    def step(self, own: int, depth: int, source: noise.Source) -> int | None:
        """The label that both draws are, None where they differ."""
        first, second = (self._draw(own, depth, source) for _ in range(2))
        return first if first == second else None

    def clear_chance(self, depth: int) -> Fraction:
        """The probability that the own label is published."""
        certain = self.table.hit_chance(depth)
        return (certain + (1 - certain) / self.labels) ** 2

    def other_chance(self, depth: int) -> Fraction:
        """The probability that some one other label is published."""
        return ((1 - self.table.hit_chance(depth)) / self.labels) ** 2

    def reach(self, chance: Fraction) -> int:
        """The least depth from which on the own label is published but for at most this probability."""
        low, high = -1, len(self.table.chances) * self.table.spacing
        if 1 - self.clear_chance(high) > chance:
            raise InvalidParameter("an answer is unclear with a probability of 2^-100 at least: take a larger one")
        return least(lambda depth: 1 - self.clear_chance(depth) <= chance, low, high)

    def _draw(self, own: int, depth: int, source: noise.Source) -> int:
        if self._certain.step(depth, source):
            return own
        return int(noise.uniform_integers(source, self.labels, 1)[0])

    @cached_property
    def _certain(self) -> SharpSampler:
        return SharpSampler(self.table)


# Two runs of a private computation: where they agree they are free.

Outcome = TypeVar("Outcome", bound=int | float | str | bool | None)


@dataclass(frozen=True)
class PairOfRuns(Generic[Outcome]):
    """Both outcomes, to be published together."""

    first: Outcome
    second: Outcome

    @property
    def differ(self) -> bool:
        """Whether they differ in type or in any digit (0.0 and -0.0 do); any other than a plain value always differs.

        >>> PairOfRuns(1, 1).differ, PairOfRuns(1, True).differ, PairOfRuns(0.0, -0.0).differ
        (False, True, True)
        """
        plain = all(value is None or type(value) in (int, float, str, bool) for value in (self.first, self.second))
        return not plain or repr(self.first) != repr(self.second)


@dataclass(frozen=True)
class TwoRuns:
    """Runs a computation twice with independent coins and publishes both outcomes; the target is that they differ.

    Guarantee: `TwiceCall`, a 2 epsilon-DP call with a q-target, if one run is epsilon-DP; for a small epsilon
    `q = 1 / (1 + 2 e^(2 epsilon) / (e^epsilon + 1))` is about 1/2. Nothing else need be known of the computation.
    Outcomes are plain values.

    Source: theory chapter 1 (black-box boundary); the bound on q is of this work.

    >>> from chary.mechanisms import Exponential
    >>> chooser = Exponential("0.05", sensitivity=1)
    >>> runs = TwoRuns("0.05").step(lambda source: chooser.step([0, 9000], source), noise.OperatingSystem())
    >>> runs, runs.differ
    (PairOfRuns(first=1, second=1), False)
    """

    epsilon: Number

    def __post_init__(self) -> None:
        set_fields(self, epsilon=per_call(self.epsilon))

    def step(self, run: Callable[[noise.Source], Outcome], source: noise.Source) -> PairOfRuns[Outcome]:
        """Both outcomes; `run` takes all its randomness from the source it is given."""
        return PairOfRuns(run(source), run(source))

    def event(self) -> TwiceCall:
        """What both outcomes may reveal; a hit is that they differ."""
        return TwiceCall(self.epsilon)
