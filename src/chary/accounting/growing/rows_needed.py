"""How many rows an accuracy takes: the laws of static and scheduled runs turned round."""

import math
from fractions import Fraction
from typing import Any, Final

from chary.accounting.gaussian.discrete_gaussian import zero_concentrated_rho_down
from chary.accounting.growing.accuracy_laws import LEAST_START, Law, best_growth, epochs_error
from chary.accounting.growing.schedules import EveryRun
from chary.accounting.searching import least_size
from chary.accounting.utility.population_risk import population_risk_up
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, positive, probability, whole

# No table has more rows.
_MOST_ROWS: Final = 2**100
# Any epsilon that is of use to anybody, and how near to the least one is found.
_LEAST_EPSILON, _MOST_EPSILON, _CLOSE = 1e-3, 1e9, 1 + 1e-6
# A few float operations, upwards.
_UPWARDS: Final = 1 + 1e-12


def static_rows(law: Law, *, accuracy: Number, epsilon: Number, beta: Number) -> int:
    """The fewest rows on which one run at this epsilon keeps the accuracy, but for a chance beta.

    With the laws of SmallDB and of ERM these are the conditions on n of [GROW] Theorems 6 and 7, with constants.

    Errors: `InvalidParameter` for an accuracy that the law's `base` alone exceeds.

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

    [GROW] Theorems 9 and 10 turned round. The growth is the best for so many rows, unless one is given.

    Errors: `InvalidParameter` for an accuracy that the law's `base` and, with a growth, the staleness alone exceed.

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
        raise InvalidParameter("errors of this law do not fall in runs at every size: size_power/power is too small")

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
    """The epsilon at which one run on so many rows keeps the accuracy, but for a chance beta; rounded up.

    >>> round(static_epsilon(Law(1, 2, choices=10), accuracy="0.01", size=1060, beta="0.05"), 4)
    0.9997
    """
    unit = law.error(size=size, epsilon=1, beta=beta) - float(law.base)
    left = _accuracy(law, accuracy) - float(law.base)
    return math.pow(unit / left, 1 / float(law.power)) * _UPWARDS


def epochs_epsilon(
    law: Law, *, accuracy: Number, start: int, beta: Number, growth: Number | None = None, delta: Number | None = None
) -> float:
    """The epsilon, with a delta if given, of a schedule in epochs from so many rows that keeps the accuracy for ever.

    As in a `Schedule`, the (epsilon, delta) is one of zero concentration; without a growth, the best one is taken.
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

    low, high = _LEAST_EPSILON, _MOST_EPSILON
    if not kept(high):
        raise InvalidParameter(
            "no epsilon reaches this accuracy at so many rows: ask for less, or for a smaller growth"
        )
    while high / low > _CLOSE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if kept(middle) else (middle, high)
    return high


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
    """From so many rows on the error falls: ln(n)^(r p)/n^p' does from `ln n = r p/p'` on."""
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
