"""Multiplicative weights by rounds of sparse vector: what each round may spend, so that all of them, for ever, fit.

A round ends at its hit. How many may have begun by a size follows from the potential argument; the proofs are in
docs/multiplicative_weights.md (theory section 6; [GROW] Algorithm 3, Theorems 14, 17, 22 and 24).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Final

from chary.accounting.events import Approximate, Event, Pure
from chary.accounting.exponentials import decimal, precise
from chary.accounting.noise_events import ZeroConcentrated
from chary.accounting.rounding import rounded_down
from chary.accounting.sparse.noise_split import SparseNoise, sparse_noise, tuned_shares
from chary.errors import InvalidParameter
from chary.numbers import Number, failing, plain, positive, probability

PUBLISHED_PURE, PUBLISHED_APPROXIMATE = 54, 1152
# At 60 digits a logarithm of 1 + 1/n, n below 1e20, keeps 40: figures move by 1e-40 to the safe side. A size that falls
# a digit short of opening its round is moved by 1e-36, which outweighs that.
_TINY, _PLENTY = Decimal("1e-40"), Decimal("1e-36")
# At 1e-10 the difference still has 50 digits and the expansion is above by 1e-43 of itself at most.
_FINE = Decimal("1e-10")
# For zCDP a round is two parts, tests and value, whose rho are half the squares of their shares of epsilon.
_ANSWERS: Final = tuned_shares(1, monotone=False, values=True)[2]
_JOINT: Final = (1 - _ANSWERS) ** 2 + _ANSWERS**2


@dataclass(frozen=True)
class Allowance:
    """How many rounds may have begun: `floor(first + growth ln(size/start))`; a table that shrank keeps its start.

    Round k opens at the earliest at the (real) size `u_k = start exp((k - first)/growth)`, the first ones at the start.

    >>> allowed = Allowance(1000, Fraction(5), Fraction(10))
    >>> allowed.most(1000), allowed.most(2000), allowed.opens(6)
    (5, 11, 1106)
    """

    start: int
    first: Fraction
    growth: Fraction

    def most(self, size: int) -> int:
        """How many rounds may have begun, all together, when there are so many rows."""
        with precise():
            grown = decimal(Fraction(max(size, self.start), self.start)).ln() * (1 - _TINY)
            return math.floor(self.first + self.growth * Fraction(grown))

    def opens(self, number: int) -> int:
        """The least size at which that round may begin."""
        with precise():
            size = self.start / self.weight(number, Fraction(1))
            least = math.ceil(size)
            return least if self.most(least) >= number else math.ceil(size * (1 + _PLENTY))

    def weight(self, number: int, power: Fraction) -> Decimal:
        """`(u_k/start)^-power`; call inside `precise`."""
        return (-decimal(max(Fraction(0), number - self.first) * power / self.growth)).exp()

    def total(self, power: Fraction) -> Decimal:
        """The sum of the weights of all rounds, a geometric series: at most `first + growth/power`. Inside `precise`.

        >>> with precise():
        ...     float(Allowance(1000, Fraction(5), Fraction(10)).total(Fraction(1, 2)))
        24.504...
        """
        step, before = decimal(power / self.growth), math.floor(self.first)
        return before + self.weight(before + 1, power) * _series(step)


class WeightRounds(ABC):
    """Rounds 1, 2, ... of a sparse vector with one hit and a numeric answer, each with noise of its own.

    Guarantee: all rounds together are within `event`, whenever they begin, as long as not more have begun at any size
    than `allowance.most` says.
    """

    allowance: Allowance
    exponent: Number

    @property
    @abstractmethod
    def event(self) -> Event:
        """What all rounds together may reveal: the budget."""

    @abstractmethod
    def epsilon_down(self, number: int, size: int) -> Fraction:
        """The epsilon of a round that begins at this size, its numeric answer included."""

    @abstractmethod
    def noise_of(self, epsilon: Fraction) -> SparseNoise:
        """The noise of a round of this epsilon, for counts that change by 1."""

    def noise(self, number: int, size: int) -> SparseNoise:
        """The noise of that round; it stays what it was at the beginning of the round."""
        return self.noise_of(self.epsilon_down(number, size))

    @property
    def kept(self) -> Fraction:
        """`1 - exponent`: a round at s rows has an epsilon of the order `s^-(1 - exponent)`."""
        return 1 - Fraction(self.exponent)


@dataclass(frozen=True)
class ExactRounds(WeightRounds):
    """Round k takes the part `u_k^-(1-p)` of the budget, or for zCDP its square, divided by the sum over all rounds.

    Guarantee: epsilon-DP, or rho-zCDP, exactly used up. It holds whenever and however often rounds begin: no share
    depends on a size, so keeping to the allowance is a matter of accuracy alone. For zCDP the tests and the numeric
    answer of a round compose as two parts.

    >>> rounds = ExactRounds(Allowance(1000, Fraction(5), Fraction(10)), "1/2", epsilon=1)
    >>> float(rounds.epsilon_down(1, 1000)), float(sum(rounds.epsilon_down(k, 1000) for k in range(1, 1000)))
    (0.0408..., 1.0)
    """

    allowance: Allowance
    exponent: Number
    epsilon: Number | None = None
    rho: Number | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", probability(self.exponent, "exponent"))
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("give the budget of all rounds together as one of epsilon= and rho=")
        self.event  # noqa: B018 - refuses a budget out of range

    @property
    def event(self) -> Event:
        return Pure(self.epsilon) if self.epsilon is not None else ZeroConcentrated(self.rho or 0)

    def epsilon_down(self, number: int, size: int) -> Fraction:
        with precise():
            if self.epsilon is not None:
                part = self.allowance.weight(number, self.kept) / self._all
                return rounded_down(decimal(positive(self.epsilon, "epsilon")) * part)
            part = self.allowance.weight(number, 2 * self.kept) / self._all
            return rounded_down((decimal(2 * positive(self.rho or 0, "rho") / _JOINT) * part).sqrt())

    @cached_property
    def _all(self) -> Decimal:
        with precise():
            return self.allowance.total(self.kept if self.epsilon is not None else 2 * self.kept)

    def noise_of(self, epsilon: Fraction) -> SparseNoise:
        return sparse_noise(epsilon=epsilon, hits=1, values=True)


@dataclass(frozen=True)
class PublishedRounds(WeightRounds):
    """The noise function of [GROW] at the size where the round begins, and its split: Lap(2/e), Lap(4/e), Lap(2/e).

    A round that begins at s rows has `e = xi_s/s`, `xi_t = a^2 n^(1-p) (1-p)/(54 (2-p) ln(N n)) epsilon t^p`, or with a
    delta `xi_t = a n^(1-p) epsilon t^p / sqrt(1152 (3-2p)/(2-2p) ln(N n) ln(1/delta))`; at p = 1/2 these are the
    published 162 and 48. The loss of a round is 1.5 e.

    Guarantee: epsilon-DP or (epsilon, delta)-DP. `InvalidParameter` where the constants do not keep it.
    """

    allowance: Allowance
    exponent: Number
    alpha: Number
    cells: int
    epsilon: Number
    delta: Number = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", probability(self.exponent, "exponent"))
        object.__setattr__(self, "delta", failing(self.delta))
        with precise():
            spent, most = self.spent_up, decimal(positive(self.epsilon, "epsilon"))
        if spent > most:
            raise InvalidParameter(
                f"the published constants spend {plain(float(spent))} instead of {plain(float(most))} here: they need "
                '2 rows (a few more for a mixing below 1) and a moderate epsilon; take constants="exact"'
            )

    @property
    def event(self) -> Event:
        return Approximate(self.epsilon, self.delta) if self.delta else Pure(self.epsilon)

    @cached_property
    def first(self) -> Decimal:
        """`e` at the start."""
        with precise():
            return published_first(self.alpha, self.cells, self.allowance.start, self.kept, self.epsilon, self.delta)

    @property
    def spent_up(self) -> Decimal:
        """The epsilon that all rounds use up on the worst path, where each begins as early as it may."""
        with precise():
            if not self.delta:
                return self.first * self.allowance.total(self.kept) * 3 / 2 * (1 + _TINY)
            rho = self.first**2 * self.allowance.total(2 * self.kept) * 5 / 8
            return (rho + 2 * (rho * -decimal(Fraction(self.delta)).ln()).sqrt()) * (1 + _TINY)

    def epsilon_down(self, number: int, size: int) -> Fraction:
        return Fraction(3, 2) * self._tests(size)

    def _tests(self, size: int) -> Fraction:
        start = self.allowance.start
        with precise():
            grown = (decimal(Fraction(max(size, start), start)).ln() * decimal(self.kept)).exp()
            return rounded_down(self.first / grown)

    def noise_of(self, epsilon: Fraction) -> SparseNoise:
        e = epsilon * 2 / 3
        return SparseNoise(1, 2 / e, 4 / e, 2 / e, False)


def _series(step: Decimal) -> Decimal:
    """`1/(1 - exp(-step))`; where that cancels, its expansion, which lies above by `step^3/720` at most. In `precise`.

    >>> with precise():
    ...     float(_series(Decimal("1e-70"))), float(_series(Decimal(1)))
    (1e+70, 1.5819767068693265)
    """
    return 1 / step + Decimal("0.5") + step / 12 if step < _FINE else 1 / (1 - (-step).exp())


def published_first(alpha: Number, cells: int, start: int, kept: Fraction, epsilon: Number, delta: Number) -> Decimal:
    """`xi_n/n` of the published noise function, where `kept` is 1 - p; call inside `precise`."""
    far, logs = decimal(probability(alpha, "alpha")), decimal(Fraction(cells * start)).ln()
    size, failure = decimal(positive(epsilon, "epsilon")), failing(delta)
    if not failure:
        return far**2 * size * decimal(kept / (1 + kept)) / (PUBLISHED_PURE * logs)
    spread = PUBLISHED_APPROXIMATE * decimal((1 + 2 * kept) / (2 * kept)) * logs * -decimal(failure).ln()
    return far * size / spread.sqrt()
