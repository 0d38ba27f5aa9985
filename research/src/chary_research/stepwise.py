"""Sparse vectors of [GROW] Appendix C with sensitivities and noises given step by step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from chary.accounting.numerics import doubled, least
from chary.errors import InvalidParameter
from chary.numbers import Number, checked, flag, positive, probability, whole

# Sparse vector with sensitivities and noise functions given step by step ([GROW] Appendix C): any that there are.
#
# Theorems 25, 27 and 29 take any sensitivities `D_t` and any noise function `xi_t`, but need them to fall in some way;
# a noise that rises inside a round breaks the printed bound (docs/theory/growing.md). What a round loses
# is said here for any sequences, by the steps at which it begins and ends, and for the worst of them.

# The worst rounds are looked for among all beginnings and ends: 125,000 of them for each round, about a second.
MOST_STEPS = 500
# The bound of a failure falls and then rises in how alpha is shared, so thirds of the interval find its least.
NARROWINGS = 60


@dataclass(frozen=True)
class StepwiseNoise:
    """At step t, counted from 0, a query moves by at most `sensitivities[t]` and `noises[t]` is its `xi_t`.

    A round that begins at s has a threshold with Laplace noise of scale `2/xi_s`, and tests at t with `4/xi_t`. With
    `values` its hit at t is followed by the query with noise `2/xi_t` of its own. The steps are public, whatever they
    follow. Both sequences may rise and fall. Errors: `InvalidParameter`, also for more than 500 steps.

    >>> falling = StepwiseNoise(sensitivities=["1/100", "1/200", "1/400"], noises=[10, 14, 20])
    >>> falling.loss(0, 0), falling.loss(0, 2), falling.worst(rounds=1)
    (Fraction(1, 10), Fraction(9, 80), Fraction(9, 80))
    """

    sensitivities: Sequence[Number]
    noises: Sequence[Number]
    values: bool = False

    def __post_init__(self) -> None:

        def read(values: Sequence[Number], name: str) -> tuple[Fraction, ...]:
            return tuple(positive(value, name) for value in values)

        checked(self, sensitivities=read, noises=read, values=flag)
        if not 1 <= len(self.sensitivities) <= MOST_STEPS or len(self.sensitivities) != len(self.noises):
            raise InvalidParameter(f"give as many sensitivities as noises, 1 to {MOST_STEPS:,}")

    @property
    def steps(self) -> int:
        """How many there are."""
        return len(self.noises)

    def loss(self, begun: int, halted: int) -> Fraction:
        """What a round that begins and halts at these steps loses at most, whatever it was asked in between.

        With M the largest sensitivity from `begun` to `halted`: the threshold moves by M, which keeps every miss a
        miss. The noise of the hit moves by `M + D_t`. That is `xi_s M/2 + xi_t (M + D_t)/4`, and `xi_t D_t/2` for a
        value. The noise of misses does not matter. Where noise falls or stays, and sensitivities fall, that is `xi_s
        D_s` at most, as Theorem 25 says, and with a value `1.5 xi_s D_s`.
        """
        first, last = self._known(begun), self._known(halted)
        if last < first:
            raise InvalidParameter("a round does not halt before it begins")
        return self._loss(first, last, max(self._sensitivities[first : last + 1]))

    def worst(self, *, rounds: int) -> Fraction:
        """The most that this many rounds lose, wherever they begin and halt, one after another: what to pay for them.

        A round that never halts loses less than one that halts where it was moved most.

        >>> StepwiseNoise([1, 1, 1], [1, 3, 1]).worst(rounds=2)
        Fraction(6, 1)
        """
        later = [Fraction(0)] * self.steps
        for _ in range(whole(rounds, "rounds")):
            each = [self._worst_from(first, later) for first in range(self.steps)]
            later = list(accumulate(reversed(each), max))[::-1]
        return later[0]

    def _worst_from(self, first: int, later: Sequence[Fraction]) -> Fraction:
        """A round that begins at this step, and those after it."""
        largest, found = Fraction(0), Fraction(0)
        for halt in range(first, self.steps):
            largest = max(largest, self._sensitivities[halt])
            found = max(found, self._loss(first, halt, largest) + later[halt])
        return found

    def failure_up(self, begun: int, tests: Sequence[int], alpha: Number) -> float:
        """The probability that a round that begins here is wrong by more than alpha in one of its tests, or its value.

        `tests` are how many there are at `begun`, `begun + 1`, and so on. Alpha is shared between threshold and tests
        as is best. `exp(-alpha xi_t/2)` is for a value, at the step where it is largest ([GROW] Theorems 26 and 28,
        which halve alpha).

        >>> noise = StepwiseNoise(["0.001"] * 2, [100, 100])
        >>> noise.failure_up(0, [50, 50], "0.5") < noise.published_failure(0, [50, 50], "0.5")
        True
        """
        reached = float(positive(alpha, "alpha"))
        low, high = 0.0, 1.0
        for _ in range(NARROWINGS):
            left, right = (2 * low + high) / 3, (low + 2 * high) / 3
            smaller = self._failing(begun, tests, reached, left) <= self._failing(begun, tests, reached, right)
            low, high = (low, right) if smaller else (left, high)
        return min(1.0, self._failing(begun, tests, reached, (low + high) / 2))

    def published_failure(self, begun: int, tests: Sequence[int], alpha: Number) -> float:
        """`sum l_t exp(-alpha xi_t/8) + exp(-alpha xi_s/4)`, and `exp(-alpha xi_t/2)` for a value."""
        return min(1.0, self._failing(begun, tests, float(positive(alpha, "alpha")), 0.5))

    def alpha_up(self, begun: int, tests: Sequence[int], beta: Number) -> float:
        """The least alpha whose `failure_up` is at most beta, rounded up."""
        allowed = float(probability(beta, "beta"))

        def kept(alpha: float) -> bool:
            return self.failure_up(begun, tests, alpha) <= allowed

        return least(kept, *doubled(kept, 0.0, 1.0), times=NARROWINGS)

    def _failing(self, begun: int, tests: Sequence[int], alpha: float, share: float) -> float:
        first, last = self._known(begun), self._known(begun + len(tests) - 1)
        xi = [float(noise) for noise in self._noises[first : last + 1]]
        asked = [whole(many, "tests", least=0) for many in tests]
        wrong = sum(many * math.exp(-alpha * share * each / 4) for many, each in zip(asked, xi, strict=True))
        value = max(math.exp(-alpha * each / 2) for each in xi) if self.values else 0.0
        return wrong + math.exp(-alpha * (1 - share) * xi[0] / 2) + value

    def _loss(self, first: int, last: int, largest: Fraction) -> Fraction:
        moved, xi = self._sensitivities[last], self._noises[last]
        return self._noises[first] * largest / 2 + xi * (largest + moved) / 4 + (xi * moved / 2 if self.values else 0)

    @property
    def _sensitivities(self) -> tuple[Fraction, ...]:
        return self.sensitivities  # type: ignore[return-value]

    @property
    def _noises(self) -> tuple[Fraction, ...]:
        return self.noises  # type: ignore[return-value]

    def _known(self, step: int) -> int:
        if whole(step, "step", least=0) >= self.steps:
            raise InvalidParameter(f"there are {self.steps} steps, from 0")
        return int(step)
