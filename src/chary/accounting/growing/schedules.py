"""Rerunning a static private algorithm while a database grows without end, under one finite budget (theory section 6).

A schedule says at which public sizes to rerun and what share of the budget each run takes. Shares are rounded down to
18 digits, so that their infinite sum stays within the budget.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from chary.accounting.events import Event, Pure
from chary.accounting.exponentials import decimal, precise
from chary.accounting.growing.accuracy_laws import MOST_LOGS, Law, powers_sum
from chary.accounting.noise_events import ZeroConcentrated
from chary.accounting.rounding import rounded_down
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, probability, whole

# The remainder after N terms is of the order N**-(s+3)/720: 64 terms leave 1e-10 of the sum or less, always above it.
_DIRECT: Final = 64
# No table has 2**200 rows, and an exact power of twenty million bits takes some seconds: both are refused.
_FARTHEST: Final = math.log(2.0**200)
_LONGEST: Final = 2 * 10**7


class ScheduleRuns(ABC):
    """Runs 0, 1, 2, ... of an algorithm, each at a public size, with a share of the budget and of the failures.

    Guarantee: whatever the sizes do, runs that take disjoint shares are together within `event`, however many there
    are. All of them keep their law's error, except with probability `beta`.
    """

    start: int
    beta: Number

    @property
    @abstractmethod
    def event(self) -> Event:
        """What all runs together may reveal: the budget."""

    @abstractmethod
    def size(self, run: int) -> int:
        """The number of rows from which on this run is due."""

    @abstractmethod
    def last(self, size: int) -> int | None:
        """The latest run that is due at this size; None before the first."""

    @abstractmethod
    def epsilon_down(self, first: int, last: int) -> Fraction:
        """The epsilon of one run that takes the shares of the runs from `first` to `last`."""

    @abstractmethod
    def failure(self, run: int) -> Fraction:
        """How often this run may miss its error; these add up to at most beta."""

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """The terms in JSON, from which `runs_of_body` makes them again."""

    @property
    def staleness(self) -> float:
        """By how much an average of values in [0, 1] over all rows may move until the next run is due."""
        return 0.0

    def error(self, law: Law, run: int) -> float:
        """What the law says of this run, when it takes its own share only."""
        return law.error(size=self.size(run), epsilon=self.epsilon_down(run, run), beta=self.failure(run))


@dataclass(frozen=True)
class EpochRuns(ScheduleRuns):
    """BBScheduler ([GROW] Algorithm 1): run i at `t_i = ceil(n (1+g)^i)` rows with `eps_i = k (i+1) (1+g)^-i`.

    Guarantee: epsilon-DP with `k = epsilon (g/(1+g))^2`, or rho-zCDP with `k = sqrt(2 rho/S)`, where
    `S = (1+y)/(1-y)^3`, `y = (1+g)^-2`: exactly what makes the infinite sum the budget. Failures are
    `(beta/(1+beta))^(i+1)`, which add up to beta.

    With `fall` f and `logs` w, which are those of a `Law`, `eps_i = k (i+1)^w (1+g)^(-f i)` and k is what makes its sum
    the budget: then every run is as accurate as the first for that law, too (docs/growing.md).

    >>> runs = EpochRuns(start=1000, growth="0.1", beta="0.05", epsilon=1)
    >>> [runs.size(i) for i in range(4)], float(runs.epsilon_down(0, 0))
    ([1000, 1100, 1210, 1331], 0.00826446...)
    >>> runs.last(1209), float(sum(runs.epsilon_down(i, i) for i in range(200)))
    (1, 0.9999...)
    """

    start: int
    growth: Number
    beta: Number
    epsilon: Number | None = None
    rho: Number | None = None
    fall: Number = 1
    logs: int = 1

    def __post_init__(self) -> None:
        whole(self.start, "the number of rows at the start")
        if whole(self.logs, "logs") > MOST_LOGS:
            raise InvalidParameter(f"logs may be at most {MOST_LOGS}")
        for name in ("growth", "fall"):
            object.__setattr__(self, name, positive(getattr(self, name), name))
        object.__setattr__(self, "beta", probability(self.beta, "beta"))
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("give the budget of all runs together as one of epsilon= and rho=")
        name = "epsilon" if self.rho is None else "rho"
        object.__setattr__(self, name, positive(getattr(self, name), name))

    @property
    def event(self) -> Event:
        return Pure(self.epsilon) if self.epsilon is not None else ZeroConcentrated(self.rho or 0)

    def size(self, run: int) -> int:
        grown = 1 + Fraction(self.growth)
        if run * math.log(grown) > _FARTHEST or run * grown.denominator.bit_length() > _LONGEST:
            raise InvalidParameter(
                f"run {run} is due at a number of rows that no table has, or too long to write: ask for fewer runs"
            )
        return math.ceil(self.start * grown**run)

    def last(self, size: int) -> int | None:
        """Found from logarithms and settled by the sizes themselves."""
        if size < self.start:
            return None
        run = max(0, int(math.log(size / self.start) / math.log1p(Fraction(self.growth))))
        while self.size(run) > size:
            run -= 1
        while self.size(run + 1) <= size:
            run += 1
        return run

    def epsilon_down(self, first: int, last: int) -> Fraction:
        with precise():
            # Whatever x is rounded to, all shares are worked out with the same one, and add up to the budget.
            x = 1 / decimal(1 + Fraction(self.growth))
            x = x if self.fall == 1 else (decimal(Fraction(self.fall)) * x.ln()).exp()
            shares = [(run + 1) ** self.logs * x**run for run in range(first, last + 1)]
            if self.epsilon is not None:
                budget = decimal(Fraction(self.epsilon)) / powers_sum(x, self.logs)
                return rounded_down(budget * sum(shares, Decimal(0)))
            part = sum((share * share for share in shares), Decimal(0)) / powers_sum(x * x, 2 * self.logs)
            return rounded_down((2 * decimal(Fraction(self.rho or 0)) * part).sqrt())

    def failure(self, run: int) -> Fraction:
        beta = Fraction(self.beta)
        return (beta / (1 + beta)) ** (run + 1)

    @property
    def staleness(self) -> float:
        """`g/(1+g)` ([GROW] Lemma 11), which rounding sizes up does not change (docs/growing.md)."""
        return float(1 - 1 / (1 + Fraction(self.growth)))

    def body(self) -> dict[str, Any]:
        total = {"epsilon": str(self.epsilon)} if self.epsilon is not None else {"rho": str(self.rho)}
        shape = {} if self.fall == 1 and self.logs == 1 else {"fall": str(self.fall), "logs": self.logs}
        return {"start": self.start, "growth": str(self.growth), "beta": str(self.beta)} | total | shape


@dataclass(frozen=True)
class EveryRun(ScheduleRuns):
    """BBImprover ([GROW] Algorithm 2): run i at n + i rows; at t rows with `eps_t = e0 t^-(1/2 + c)`.

    Guarantee: rho-zCDP, with `e0 = sqrt(2 rho/zeta(1 + 2c, n))`. Failures are `beta/(2 t^2)`. The error falls like
    `t^(-p(1/2 - c))`; `exponent` is c, greater than 0 and less than 1/2.

    >>> runs = EveryRun(start=1000, exponent="0.1", beta="0.05", rho="0.1")
    >>> runs.last(1500), float(runs.epsilon_down(500, 500)) < float(runs.epsilon_down(0, 0))
    (500, True)
    """

    start: int
    exponent: Number
    beta: Number
    rho: Number

    def __post_init__(self) -> None:
        whole(self.start, "the number of rows at the start")
        object.__setattr__(self, "rho", positive(self.rho, "rho"))
        object.__setattr__(self, "beta", probability(self.beta, "beta"))
        object.__setattr__(self, "exponent", positive(self.exponent, "exponent"))
        if Fraction(self.exponent) >= Fraction(1, 2):
            raise InvalidParameter("exponent must be greater than 0 and less than 1/2")

    @property
    def event(self) -> Event:
        return ZeroConcentrated(self.rho)

    def size(self, run: int) -> int:
        return self.start + run

    def last(self, size: int) -> int | None:
        return size - self.start if size >= self.start else None

    def epsilon_down(self, first: int, last: int) -> Fraction:
        """The trapezoid stays below the sum of a convex function, and is the term itself where there is one."""
        low, high = self.size(first), self.size(last)
        with precise():
            s = decimal(1 + 2 * Fraction(self.exponent))
            between = (_power(low, 1 - s) - _power(high, 1 - s)) / (s - 1)
            terms = between + (_power(low, -s) + _power(high, -s)) / 2
            return rounded_down((2 * decimal(Fraction(self.rho)) * terms / self._all).sqrt())

    @cached_property
    def _all(self) -> Decimal:
        with precise():
            return decimal(zeta_up(1 + 2 * Fraction(self.exponent), self.start))

    def failure(self, run: int) -> Fraction:
        return Fraction(self.beta) / (2 * self.size(run) ** 2)

    def body(self) -> dict[str, Any]:
        terms = {"exponent": str(self.exponent), "beta": str(self.beta), "rho": str(self.rho)}
        return {"start": self.start} | terms


def runs_of_body(body: dict[str, Any]) -> ScheduleRuns:
    """The schedule that `Runs.body` described."""
    return EveryRun(**body) if "exponent" in body else EpochRuns(**body)


def zeta_up(s: Number, start: int) -> Fraction:
    """An upper bound of the Hurwitz zeta function, the sum of `t^-s` over t = start, start + 1, ..., for s > 1.

    Some terms are added directly; from N on, `N^(1-s)/(s-1) + N^-s/2 + s N^(-s-1)/12` is above the sum, since the
    partial sums of Euler and Maclaurin lie in turn below and above it for a completely monotone function.

    >>> float(zeta_up(2, 1)) - math.pi**2 / 6 < 1e-10
    True
    """
    exponent = positive(s, "s")
    if exponent <= 1:
        raise InvalidParameter("s must be greater than 1: the sum is infinite otherwise")
    end = whole(start, "start") + _DIRECT
    with precise():
        s_ = decimal(exponent)
        head = sum((_power(t, -s_) for t in range(start, end)), Decimal(0))
        tail = _power(end, 1 - s_) / (s_ - 1) + _power(end, -s_) / 2 + s_ * _power(end, -s_ - 1) / 12
        # Some hundred roundings at 60 digits, upwards.
        return Fraction((head + tail) * (1 + Decimal("1e-40")))


def _power(base: int, exponent: Decimal) -> Decimal:
    return (exponent * Decimal(base).ln()).exp()
