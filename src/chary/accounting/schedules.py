"""Schedules over growing data: when to compute again, how accurately, and how many rows that needs."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
import scipy

from chary.accounting.events import Event, Pure, ZeroConcentrated
from chary.accounting.gaussian_noise import zero_concentrated_rho_down
from chary.accounting.numerics import decimal, geometric_mean, least, least_size, precise, rounded_down
from chary.errors import InvalidParameter
from chary.numbers import Number, checked, exact, optional, positive, probability, whole

# How accurate a static private algorithm is, as its author declares it, and the growth that suits it best.

# A growth from 1e-12, less than a bound of power 1 wants for 2**100 rows, to 9, which reruns at every power of
# ten. Any growth is private, so the grid only has to find the valley that the minimiser then follows.
_LEAST, _MOST = 1e-12, 0.9
_GRID: Final = 200
# How near to the best growth, as a part of it.
_NEAR: Final = 1e-9
# The shares of run i have (i + 1) to this power at most: more would leave the first runs nothing.
MOST_LOGS: Final = 8
# A number of rows that is at least 2 more than any growth, so that ln(t) at run i is at most i + 1 times the first.
LEAST_START: Final = 11
Scalar = TypeVar("Scalar", float, Decimal)


@dataclass(frozen=True)
class Law:
    """A (p, c)-black box ([GROW] Definition 4): the error is at most `base + c (ln(choices/beta)^q/(epsilon n))^p`.

    That holds with probability 1 - beta for every epsilon, number of rows n and beta up to 1/2. `choices` is over how
    many things at once; with 1 (and q, `log_power`, 1, and `base`, 0) it is the published bound. q is 1/2 for Gaussian
    noise. `base` is what neither rows nor epsilon improve, such as the coarseness of a synthetic database of fixed
    size. Definition 5 has a power of its own for rows: `size_power`, p', and `size_log`, r. Then the error is at most
    `base + c (ln(choices/beta)^q ln(n)^r/epsilon)^p/n^p'`. p' is p if left out, and q + r is 8 at most.

    >>> round(Law(power=1, factor=2, choices=10).error(size=1000, epsilon=1, beta="0.05"), 4)
    0.0106
    """

    power: Number
    factor: Number
    choices: Number = 1
    log_power: Number = 1
    base: Number = 0
    size_power: Number | None = None
    size_log: Number = 0

    def __post_init__(self) -> None:
        checked(self, size_log=exact, size_power=optional(positive), base=exact)
        if Fraction(self.base) < 0:
            raise InvalidParameter("base is an error that remains, so it is at least 0")
        checked(self, power=positive, factor=positive, choices=positive, log_power=positive)
        if Fraction(self.choices) < 1:
            raise InvalidParameter("choices must be at least 1")
        if Fraction(self.size_log) < 0 or Fraction(self.log_power) + Fraction(self.size_log) > MOST_LOGS:
            raise InvalidParameter(
                f"size_log is at least 0, and log_power and size_log are at most {MOST_LOGS} together"
            )

    @property
    def fall(self) -> Fraction:
        """`p'/p`: a run on x times the rows keeps its error at an epsilon that is smaller by x to this power."""
        return Fraction(1) if self.size_power is None else Fraction(self.size_power) / Fraction(self.power)

    @property
    def logs(self) -> int:
        """The power of i + 1 that the logarithms of run i are worth at most: q + r, rounded up, and at least 1."""
        return max(1, math.ceil(Fraction(self.log_power) + Fraction(self.size_log)))

    @classmethod
    def of(cls, law: "Law | Sequence[Number]") -> "Law":
        """An accuracy bound, or the pair (p, c) of one."""
        if isinstance(law, Law):
            return law
        if not isinstance(law, (tuple, list)) or len(law) != 2:
            raise InvalidParameter(
                "an accuracy bound is a pair (p, c): the error is at most c (ln(1/beta)/(epsilon n))^p"
            )
        return cls(*law)

    def logarithm(self, beta: Number) -> float:
        """`ln(choices/beta)^q`."""
        odds = Fraction(self.choices) / positive(beta, "beta")
        return math.pow(math.log(odds.numerator) - math.log(odds.denominator), float(self.log_power))

    def error(self, *, size: int, epsilon: Number, beta: Number) -> float:
        """What the error is at most, but for a probability beta."""
        rows = whole(size, "size")
        scaled = self.logarithm(beta) / (float(positive(epsilon, "epsilon")) * math.pow(rows, float(self.fall)))
        if self.size_log:
            scaled *= math.pow(math.log(rows), float(self.size_log))
        return float(self.base) + float(self.factor) * math.pow(scaled, float(self.power))

    def either(self, other: "Law") -> "Law":
        """An accuracy bound for what keeps one of two bounds of the same powers; `InvalidParameter` for others.

        >>> Law(1, 2, choices=10).either(Law(1, 3)).factor
        Fraction(3, 1)
        """
        if (self.power, self.log_power) != (other.power, other.log_power):
            raise InvalidParameter("two accuracy bounds of different powers cannot be combined")
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("factor", "choices", "base"))
        factor, choices, base = (max(map(Fraction, pair)) for pair in pairs)
        return Law(self.power, factor, choices, self.log_power, base)

    def body(self) -> dict[str, Any]:
        """The accuracy bound in JSON."""
        told = {name: str(getattr(self, name)) for name in ("power", "factor", "choices", "log_power")}
        extra = {name: getattr(self, name) for name in ("base", "size_power", "size_log")}
        return told | {name: str(value) for name, value in extra.items() if value}


def epochs_error(
    law: Law, *, start: int, growth: Number, beta: Number, epsilon: Number | None = None, rho: Number | None = None
) -> float:
    """The error of every answer at every size, staleness included, with probability 1 - beta for all of them together.

    That of the first run, `c (ln(choices (1+beta)/beta)^q/(k n))^p`, which no later one exceeds, plus `g/(1+g)`.
    `InvalidParameter` for fewer than 11 rows where the accuracy bound has a power of ln(n).
    """
    growing = float(positive(growth, "growth"))
    stale = growing / (1 + growing)
    if law.size_log and whole(start, "start") < LEAST_START:
        raise InvalidParameter(f"an accuracy bound with a power of ln(n) needs {LEAST_START} rows or more at the start")
    terms = (None if epsilon is None else float(epsilon), None if rho is None else float(rho))
    share = _first_share(stale, *terms, float(law.fall), law.logs)
    chance = probability(beta, "beta")
    return law.error(size=start, epsilon=share, beta=chance / (1 + chance)) + stale


def best_growth(
    law: Law, *, start: int, beta: Number, epsilon: Number | None = None, rho: Number | None = None
) -> Fraction:
    """The growth g at which `epochs_error` is least, to four digits; between 1e-12 and 9.

    >>> float(best_growth(Law(1, 2), start=100_000, beta="0.05", epsilon=1))
    0.05215
    """

    def error(log: float) -> float:
        stale = math.exp(log)
        try:
            return epochs_error(law, start=start, growth=stale / (1 - stale), beta=beta, epsilon=epsilon, rho=rho)
        except OverflowError:
            # A bound of many powers has no float for so small a growth, and no use for it.
            return math.inf

    grid = np.linspace(math.log(_LEAST), math.log(_MOST), _GRID)
    found = int(np.argmin([error(float(log)) for log in grid]))
    around = (float(grid[max(0, found - 1)]), float(grid[min(_GRID - 1, found + 1)]))
    log = scipy.optimize.minimize_scalar(error, bounds=around, method="bounded", options={"xatol": _NEAR}).x
    stale = math.exp(float(log))
    return Fraction(f"{stale / (1 - stale):.4g}")


def powers_sum(x: Scalar, power: int, rest: Scalar | None = None) -> Scalar:
    """The sum of `(i+1)^power x^i` over i = 0, 1, ..., for 0 < x < 1: an Eulerian polynomial over `(1-x)^(power+1)`.

    `rest` is 1 - x, for floats that are so near to 1 that it would cancel.

    >>> [round(powers_sum(0.5, power), 9) for power in (1, 2, 3)]
    [4.0, 12.0, 52.0]
    """
    row = [1]
    for size in range(2, power + 1):
        row = [(k + 1) * (row[k] if k < len(row) else 0) + (size - k) * (row[k - 1] if k else 0) for k in range(size)]
    above = x * 0
    for coefficient in reversed(row):
        above = above * x + coefficient
    return above / (1 - x if rest is None else rest) ** (power + 1)


def _first_share(stale: float, epsilon: float | None, rho: float | None, fall: float, logs: int) -> float:
    """`k` for `stale = g/(1+g)`."""
    if (epsilon is None) == (rho is None):
        raise InvalidParameter("give the budget of all runs together as one of epsilon= and rho=")
    power = fall * math.log1p(-stale)
    if epsilon is not None:
        return epsilon / powers_sum(math.exp(power), logs, -math.expm1(power))
    return math.sqrt(2 * (rho or 0) / powers_sum(math.exp(2 * power), 2 * logs, -math.expm1(2 * power)))


# How many rows an accuracy takes: the accuracy bounds of static and scheduled runs turned round.

# No table has more rows.
_MOST_ROWS: Final = 2**100
# Any epsilon that is of use to anybody, and how near to the least one is found.
_LEAST_EPSILON, _MOST_EPSILON, _CLOSE = 1e-3, 1e9, 1 + 1e-6
# A few float operations, upwards.
_UPWARDS: Final = 1 + 1e-12


def static_rows(law: Law, *, accuracy: Number, epsilon: Number, beta: Number) -> int:
    """The fewest rows on which one run at this epsilon keeps the accuracy, but for a probability beta.

    With the accuracy bounds of SmallDB and of ERM these are the conditions on n of [GROW] Theorems 6 and 7, with
    constants.

    Errors: `InvalidParameter` for an accuracy that the accuracy bound's `base` alone exceeds.

    >>> static_rows(Law(1, 2, choices=10), accuracy="0.01", epsilon=1, beta="0.05")
    1060
    """

    def error(size: int) -> float:
        return law.error(size=size, epsilon=epsilon, beta=beta)

    return _found(least_size(error, _accuracy(law, accuracy), _falls(law), _MOST_ROWS))


def epochs_rows(
    law: Law,
    *,
    accuracy: Number,
    beta: Number,
    growth: Number | None = None,
    epsilon: Number | None = None,
    rho: Number | None = None,
) -> int:
    """The fewest rows at the start from which on a schedule in epochs keeps the accuracy, staleness included, for ever.

    [GROW] Theorems 9 and 10 turned round. The growth is the best for this many rows, unless one is given.

    Errors: `InvalidParameter` for an accuracy that the accuracy bound's `base` and, with a growth, the staleness alone
    exceed.

    >>> epochs_rows(Law(1, 2), accuracy="0.05", beta="0.05", epsilon=1)
    328809
    """

    def error(start: int) -> float:
        terms: dict[str, Any] = {"start": start, "beta": beta, "epsilon": epsilon, "rho": rho}
        return epochs_error(law, growth=best_growth(law, **terms) if growth is None else growth, **terms)

    stale = 0.0 if growth is None else float(positive(growth, "growth") / (1 + positive(growth, "growth")))
    first = max(_falls(law), LEAST_START if law.size_log else 1)
    return _found(least_size(error, _accuracy(law, accuracy, stale), first, _MOST_ROWS))


def every_rows(law: Law, *, accuracy: Number, beta: Number, start: int, exponent: Number, rho: Number) -> int:
    """The size from which on runs at every size, begun at `start` rows, keep the accuracy for ever.

    [GROW] Theorems 12 and 13 turned round. Rows come one by one. The error is `(ln(2 m t^2/beta)^q t^-(1/2-c))^p` up to
    factors; it rises at first where c is near 1/2 and falls after its peak, `ln(2 m t^2/beta) = 2q/(1/2-c)`. With
    powers of their own, p'/p - 1/2 takes the place of 1/2 and q + r that of q; then it surely falls from there on.

    >>> every_rows(Law(1, 2), accuracy="0.05", beta="0.05", start=10**5, exponent="0.1", rho="0.02")
    3753354251
    """
    runs = EveryRun(whole(start, "start"), exponent, beta, rho)
    falling, target = float(law.fall) - 0.5 - float(exact(exponent, "exponent")), _accuracy(law, accuracy)
    if falling <= 0:
        raise InvalidParameter(
            "errors of this accuracy bound do not fall in runs at every size: size_power/power is too small"
        )

    def error(size: int) -> float:
        return runs.error(law, size - runs.start)

    rising = (float(law.log_power) + float(law.size_log)) / falling
    peak = rising + (math.log(float(exact(beta, "beta"))) - math.log(2 * float(law.choices))) / 2
    peak = max(peak, rising) if law.size_log else peak
    if peak > math.log(_MOST_ROWS):
        raise InvalidParameter("exponent is so near to 1/2 that errors rise for longer than any table grows")
    top = max(start, math.ceil(math.exp(peak)))
    if error(top) <= target:
        return top if law.size_log else start
    return _found(least_size(error, target, top, _MOST_ROWS))


def static_epsilon(law: Law, *, accuracy: Number, size: int, beta: Number) -> float:
    """The epsilon at which one run on this many rows keeps the accuracy, but for a probability beta; rounded up.

    >>> round(static_epsilon(Law(1, 2, choices=10), accuracy="0.01", size=1060, beta="0.05"), 4)
    0.9997
    """
    unit = law.error(size=size, epsilon=1, beta=beta) - float(law.base)
    left = _accuracy(law, accuracy) - float(law.base)
    return math.pow(unit / left, 1 / float(law.power)) * _UPWARDS


def epochs_epsilon(
    law: Law, *, accuracy: Number, start: int, beta: Number, growth: Number | None = None, delta: Number | None = None
) -> float:
    """The epsilon, with a delta if given, of a schedule in epochs from this many rows that keeps the accuracy for ever.

    As in a `Rerun`, the (epsilon, delta) is one of zero concentration; without a growth, the best one is taken.
    Rounded up, by a millionth at most. `InvalidParameter` for an accuracy that no epsilon below 1e9 reaches.

    >>> terms = {"accuracy": "0.05", "start": 328_809, "beta": "0.05"}
    >>> round(epochs_epsilon(Law(1, 2), **terms), 3), round(epochs_epsilon(Law(1, 2), delta="1e-6", **terms), 3)
    (1.0, 0.383)
    """
    wanted = _accuracy(law, accuracy)

    def kept(size: float) -> bool:
        budget: dict[str, Any] = {"epsilon": size} if delta is None else {"rho": _rho(size, positive(delta, "delta"))}
        terms: dict[str, Any] = {"start": start, "beta": beta} | budget
        return epochs_error(law, growth=best_growth(law, **terms) if growth is None else growth, **terms) <= wanted

    if not kept(_MOST_EPSILON):
        raise InvalidParameter(
            "no epsilon reaches this accuracy with these rows: ask for less, or for a smaller growth"
        )
    return least(kept, _LEAST_EPSILON, _MOST_EPSILON, middle=geometric_mean, ratio=_CLOSE)


def population_rows(
    law: Law,
    *,
    risk: Number,
    epsilon: Number,
    lam: Number,
    beta: Number,
    lipschitz: Number = 1,
    radius: Number | None = None,
) -> int:
    """The fewest independent rows on which one run has this excess risk on the population: [GROW] Theorems 5 and 6.

    `law` is that of the excess on the rows. Half of beta is for it and half for the draw of the rows.

    >>> population_rows(Law(2, 3), risk="0.05", epsilon=1, lam="0.1", beta="0.05")
    16572
    """
    half = probability(beta, "beta") / 2

    def error(size: int) -> float:
        excess = law.error(size=size, epsilon=epsilon, beta=half)
        return population_risk_up(excess=excess, size=size, lam=lam, beta=half, lipschitz=lipschitz, radius=radius)

    return _found(least_size(error, float(positive(risk, "risk")), _falls(law), _MOST_ROWS))


def _rho(epsilon: float, delta: Fraction) -> Fraction:
    return zero_concentrated_rho_down(epsilon=Fraction(f"{epsilon:.12g}"), delta=delta)


def _falls(law: Law) -> int:
    """From this many rows on the error falls: ln(n)^(r p)/n^p' does from `ln n = r p/p'` on."""
    return math.ceil(math.exp(float(law.size_log) / float(law.fall)))


def _accuracy(law: Law, accuracy: Number, stale: float = 0.0) -> float:
    wanted = float(positive(accuracy, "accuracy"))
    if wanted <= float(law.base) + stale:
        raise InvalidParameter(
            f"accuracy must be greater than {float(law.base) + stale:.4g}, which no number of rows improves"
        )
    return wanted


def _found(size: int | None) -> int:
    if size is None:
        raise InvalidParameter("no table has as many rows as this accuracy takes: ask for less, or for a larger budget")
    return size


# Rerunning a static private algorithm while a database grows without end, under one finite budget (theory chapter 8).
#
# A schedule fixes the public sizes at which to rerun and the fraction of the budget of each run. Fractions are rounded
# down to 18 digits, so that their infinite sum stays within the budget.

# The remainder after N terms is of the order N**-(s+3)/720: 64 terms leave 1e-10 of the sum or less, always above it.
_DIRECT: Final = 64
# No table has 2**200 rows, and an exact power of twenty million bits takes some seconds: both are refused.
_FARTHEST: Final = math.log(2.0**200)
_LONGEST: Final = 2 * 10**7


class ScheduleRuns(ABC):
    """Epochs 0, 1, 2, ... of an algorithm, each at a public size, with a fraction of the budget and of the failures.

    Guarantee: whatever the sizes do, runs that take disjoint shares are together within `event`, however many there
    are. All of them keep their accuracy bound's error, except with probability `beta`.
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
        """The epsilon of one execution that takes the fractions of the epochs from `first` to `last`."""

    @abstractmethod
    def failure(self, run: int) -> Fraction:
        """The failure probability of this run; those of all runs add up to at most beta."""

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """The terms in JSON, from which `runs_of_body` makes them again."""

    @property
    def staleness(self) -> float:
        """The most that an average of values in [0, 1] over all rows may move until the next run is due."""
        return 0.0

    def error(self, law: Law, run: int, *, first: int | None = None, size: int | None = None) -> float:
        """The error of this epoch by the accuracy bound, with its own fraction and at the size where it is due.
        With `first`, the fractions of the epochs from there on count; `size` is a larger size."""
        rows, began = self.size(run) if size is None else size, run if first is None else first
        return law.error(size=rows, epsilon=self.epsilon_down(began, run), beta=self.failure(run))


@dataclass(frozen=True)
class EpochRuns(ScheduleRuns):
    """BBScheduler ([GROW] Algorithm 1): run i at `t_i = ceil(n (1+g)^i)` rows with `eps_i = k (i+1) (1+g)^-i`.

    Guarantee: epsilon-DP with `k = epsilon (g/(1+g))^2`, or rho-zCDP with `k = sqrt(2 rho/S)`, where
    `S = (1+y)/(1-y)^3`, `y = (1+g)^-2`: exactly what makes the infinite sum the budget. Failures are
    `(beta/(1+beta))^(i+1)`, which add up to beta.

    With `fall` f and `logs` w, which are those of a `Law`, `eps_i = k (i+1)^w (1+g)^(-f i)`; k makes its sum the
    budget. Then every epoch is as accurate as the first for that accuracy bound, too (docs/howto/growing.md).

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
        checked(self, growth=positive, fall=positive, beta=probability)
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("give the budget of all runs together as one of epsilon= and rho=")
        checked(self, epsilon=optional(positive), rho=optional(positive))

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
        """`g/(1+g)` ([GROW] Lemma 11), which rounding sizes up does not change (docs/howto/growing.md)."""
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
        checked(self, rho=positive, beta=probability, exponent=positive)
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

    Some terms are added directly. From N on, `N^(1-s)/(s-1) + N^-s/2 + s N^(-s-1)/12` is above the sum: the partial
    sums of Euler and Maclaurin lie in turn below and above it for a completely monotone function.

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


# From the risk on the rows at hand to the risk on the population they were drawn from ([GROW] Theorem 5).


def population_risk_up(
    *, excess: Number, size: int, lam: Number, beta: Number, lipschitz: Number = 1, radius: Number | None = None
) -> float:
    """The excess risk on the population of weights with this `excess` on `size` rows drawn from it independently.

    Losses are L-Lipschitz and lam-strongly convex over a convex set that holds the weights. With probability
    `1 - beta` over the rows, for all weights at once, it is at most `L sqrt(2 excess/lam) + 2 L^2/(beta lam n)` (the
    last term is half of the published one). Weights with noise must be brought back into the set.

    *Proof.* Let w* minimise the mean loss F_n over the set, v that of other rows which differ in one. Adding up
    `F_n(v) - F_n(w*) >= lam |v - w*|^2/2` and the same the other way round, all rows but one cancel:
    `lam |v - w*|^2 <= 2 L |v - w*|/n`. So one row moves each loss at w* by `2 L^2/(lam n)` at most; by symmetry that
    bounds `E(F(w*) - F_n(w*))`, and `E F_n(w*)` is at most the least of F. Markov gives the second term. The
    first: `|w - w*| <= sqrt(2 excess/lam)`, and F is L-Lipschitz.

    `radius`: the losses are only convex, and the set lies within so far of 0. `lam` is that of the penalty
    `lam |w|^2/2` that training added, and `excess` is that of the penalised mean. Then L grows by `lam radius`, and the
    penalty itself, `lam radius^2/2`, is added.

    Errors: `InvalidParameter` for an excess below 0 and for what is not positive.

    >>> round(population_risk_up(excess="1e-6", size=10**6, lam="0.1", beta="0.05"), 4)
    0.0049
    >>> round(population_risk_up(excess="1e-6", size=10**6, lam="0.02", beta="0.05", radius=1), 4)
    0.0223
    """
    curved, missed, steep = positive(lam, "lam"), probability(beta, "beta"), positive(lipschitz, "lipschitz")
    left = exact(excess, "excess")
    if left:
        positive(left, "excess")
    within = 0 if radius is None else positive(radius, "radius")
    steep += curved * within
    drawn = float(2 * steep**2 / (missed * curved * whole(size, "size")) + curved * within**2 / 2)
    return (float(steep) * math.sqrt(2 * left / curved) + drawn) * _UPWARDS
