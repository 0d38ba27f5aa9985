"""What papers print, for comparison: upper bounds up to float rounding, which charge no session."""

import math
from fractions import Fraction

import numpy as np
import scipy

from chary.accounting.gaussian_noise import gaussian_delta
from chary.accounting.gaussian_selection import best_order, check_noises, noise_ratios
from chary.accounting.schedules import Law
from chary.accounting.synthesis import decimals_up
from chary.errors import InvalidParameter
from chary.mechanisms.choices import MajorityVote, Rule
from chary.numbers import Number, exact, positive, probability, whole

# Selection with Gaussian noise (theory chapters 1 and 2).


def post_processed_epsilon(*, queries: int, sensitivity: Number, noise: Number, delta: Number) -> float:
    """Epsilon of noisy max or above threshold as post-processing of all noisy queries: sensitivity D sqrt(queries).

    The exact curve of Gaussian noise, solved for epsilon; 0 where delta alone covers it.

    >>> post_processed_epsilon(queries=100, sensitivity=0.001, noise=0.1, delta=1e-6)
    0.3968...
    """
    ratio = float(positive(sensitivity, "sensitivity") / positive(noise, "noise")) * math.sqrt(
        whole(queries, "queries")
    )
    target = float(probability(delta, "delta"))

    def excess(log_epsilon: float) -> float:
        return gaussian_delta(epsilon=math.exp(log_epsilon), sensitivity=ratio, sigma=1) - target

    low, high = math.log(1e-9 * ratio), math.log(1e-9 * ratio)
    if excess(low) <= 0:
        return 0.0
    while excess(high) > 0:
        high += 1
    return math.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-12)) * (1 + 1e-10)


def zhu_wang_epsilon(
    *, steps: int, sensitivity: Number, threshold_noise: Number, query_noise: Number, delta: Number
) -> float:
    """Zhu and Wang (2020), general form: at most `steps` queries of above threshold, at the best order.

    `D_a <= a D^2/(2 s_T^2) + 2 a D^2/s_Q^2 + ln(steps)/(a - 1)`: their theorem with the largest value in
    place of a moment of the stopping time.

    >>> zhu_wang_epsilon(steps=100, sensitivity=0.001, threshold_noise=0.1, query_noise=0.1 * 3**0.5, delta=1e-6)
    0.0738...
    """
    bar, query = noise_ratios(sensitivity, threshold_noise, query_noise)
    stop = math.log(whole(steps, "steps"))
    return best_order(lambda less: (1 + less) * (bar / 2 + 2 * query) + stop / less, delta)


def zhu_wang_nonnegative_epsilon(
    *, sensitivity: Number, threshold_noise: Number, query_noise: Number, threshold: Number, delta: Number
) -> float:
    """Zhu and Wang (2020) for queries that are never negative; any number of queries, at the best order.

    `D_a <= a D^2/s_T^2 + 2 a D^2/s_Q^2 + ln(1 + 2 sqrt(3) pi (1 + 9 r^2/s_T^2) e^(r^2/s_T^2)) / (2 (a - 1))`, r the
    threshold. Errors: `InvalidParameter` unless s_Q >= sqrt(3) s_T and r >= 0. The argument of the logarithm should
    bound the second moment of the mean stopping time given the threshold's noise. For r below 0.4 s_T and s_Q = sqrt(3)
    s_T it is up to a fifth too small. `chary.accounting.gaussian_selection.nonnegative_epsilon` holds.

    >>> noise = dict(threshold_noise=0.1, query_noise=0.1 * 3**0.5 * 1.000001)
    >>> zhu_wang_nonnegative_epsilon(sensitivity=0.001, **noise, threshold=0.1, delta=1e-6)
    0.0823...
    """
    bar, query = noise_ratios(sensitivity, threshold_noise, query_noise)
    distance = float(exact(threshold, "threshold") / positive(threshold_noise, "threshold_noise"))
    check_noises(bar, query)
    if distance < 0:
        raise InvalidParameter("this bound needs a threshold of at least 0")
    factor = math.log(2 * math.sqrt(3) * math.pi * (1 + 9 * distance**2)) + distance**2
    stop = float(np.logaddexp(0, factor)) / 2
    return best_order(lambda less: (1 + less) * (bar + 2 * query) + stop / less, delta)


# Growing and synthetic data.

_THIRD = Fraction(1, 3)
# Distributions hold for a beta of at most 1/2, so ln(1/beta) is at least this.
_LEAST_LOG = math.log(2)


def published_growth(law: Law, *, start: int, beta: Number, epsilon: Number, delta: Number | None = None) -> float:
    """The growth of [GROW] Theorem 10, up to its constants, for comparison.

    >>> round(published_growth(Law(1, 2), start=100_000, beta="0.05", epsilon=1), 4)
    0.0391
    """
    power, factor = float(law.power), float(law.factor)
    scaled = law.logarithm(probability(beta, "beta")) / (whole(start, "start") * float(positive(epsilon, "epsilon")))
    root = 2 * power + 1
    if delta is not None:
        root = 1.5 * power + 1
        scaled *= math.sqrt(-math.log(probability(delta, "delta")))
    return float(factor ** (1 / root) * scaled ** (power / root))


def published_mwem_error(*, cells: int, queries: int, rounds: int, size: int, epsilon: Number) -> float:
    """`2 sqrt(ln N/T) + 10 T ln|Q|/(n epsilon)`, kept with probability `1 - 2T/|Q|` (Theorem 2.2), for comparison.

    >>> round(published_mwem_error(cells=1000, queries=100, rounds=10, size=100_000, epsilon=1), 3)
    1.667
    """
    coarse = 2 * math.sqrt(math.log(whole(cells, "cells", least=2)) / whole(rounds, "rounds"))
    scaled = whole(size, "size") * float(positive(epsilon, "epsilon"))
    return coarse + 10 * rounds * math.log(whole(queries, "queries")) / scaled


def published_small_database_law(*, cells: int, queries: int) -> Law:
    """SmallDB that chooses its rows by size and epsilon, as published: a (1/3, c)-black box; at least 2 queries.

    With `a^2 = ln|Q|/m` the error is at most `a + 2 (m ln N + ln(1/beta))/(epsilon n)`. At
    `a^3 = 4 ln N ln|Q|/(epsilon n)`, m rounded up, that is at most `c (ln(1/beta)/(epsilon n))^(1/3)` for

        c = c0 + (2 + 2 ln N/ln 2)/c0^2,    c0 = (3/2) (4 ln N ln|Q|/ln 2)^(1/3),

    for every beta up to 1/2 wherever it is below 1 (docs/theory/linear.md).

    >>> law = published_small_database_law(cells=1000, queries=20)
    >>> round(float(law.factor), 2), round(law.error(size=10_000, epsilon="0.5", beta="0.05"), 3)
    (7.79, 0.657)
    """
    universe = math.log(whole(cells, "cells", least=2))
    first = 1.5 * math.cbrt(4 * universe * math.log(whole(queries, "queries", least=2)) / _LEAST_LOG)
    return Law(_THIRD, decimals_up((first + (2 + 2 * universe / _LEAST_LOG) / first**2) * (1 + 1e-12)))


# The majority of independent answers ([INTRO], "Majority of binary observations").


def majority_units(epsilon: Number) -> int:
    """The least n with `epsilon >= 3/sqrt(n)`, so `n >= 9/epsilon^2`: the slides say that an epsilon-DP majority then
    "does not really cost any reliability".

    The private majority is right with 95 % from a lead of 3/epsilon units over n/2 on, and a sample of n says no
    smaller lead than sqrt(n) from probability. `majority_risks` says what it does cost.

    >>> majority_units("0.1"), majority_units(1)
    (900, 9)
    """
    return math.ceil(9 / positive(epsilon, "epsilon") ** 2)


def majority_risks(units: int, epsilon: Number, share: Number, *, rule: Rule = "inverse") -> tuple[float, float]:
    """How often n independent units, each yes with probability `share` above 1/2, have a majority of no, and how often
    their epsilon-DP vote says no. The number n is odd, and units are replaced. "inverse" is the vote of the slides,
    "noise" chary's.

    >>> [round(risk, 3) for risk in majority_risks(901, "0.1", "0.533")]
    [0.024, 0.095]
    """
    size, vote = whole(units, "units"), MajorityVote(epsilon, rule=rule)
    if size % 2 == 0 or not Fraction(1, 2) < exact(share, "share") < 1:
        raise InvalidParameter("units are odd in number, and their proportion is above 1/2 and below 1")
    yes = np.arange(size + 1)
    law = scipy.stats.binom.pmf(yes, size, float(exact(share, "share")))
    says_no = np.array([1 - vote.chance(2 * int(each) - size) for each in yes])
    return float(law[yes <= size // 2].sum()), float(law @ says_no)
