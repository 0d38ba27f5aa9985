"""Selection with Gaussian noise ([GAUSS] Theorems 8 and 10; theory 5): pure losses of queries with a bounded range.

Queries lie in [low, high], one unit moves each by at most D, x' and x are their values on two neighbours. Noisy max
picks i with probability `E prod_j Phi(z + (x_i - x_j)/s)`; above threshold halts at t with probability
`E prod_(j<t) Phi((u - x_j)/s_Q) Phi((x_t - u)/s_Q)`, u = r + s_T z, and still runs with the first product alone.

**The worst pair (ours).** Lower every x_j, j < t, by d and raise x_t by d; write u = v - d. Given the outcome, v has
the density `phi((v - d - r)/s_T) prod Phi((v - x_j)/s_Q) Phi((x_t + 2d - v)/s_Q)`; its likelihood ratio in v rises with
d. `-(d/dx_k) ln P` is the mean of `(phi/Phi)((v - x_k)/s_Q)/s_Q`, which falls in v, so it falls as d grows: how much
the move adds to ln P rises in each x_k, and by the same argument falls in x_t. It is largest at x_k = high, x_t = low
and d = D, which two neighbours attain. Likewise for noisy max, and both losses rise with t; a run that halts at t + 1
lost no less than one that still runs after t.

A sensitivity above the range is the range. All results are upper bounds in float64: the error of the integrals is below
2e-13, and 7e-13 is added.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.accounting.gaussian.normal_masses import Crossing
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, plain, positive, whole

# The integrals err by 2e-13 where elementary functions are rounded well, and by 5e-13 in the steepest corner where they
# err by two units in the last place.
_MARGIN: Final = 7e-13
# Noise is told to 1e-9: bisection goes on ten times as long, and returns the end that keeps the budget.
_PRECISION: Final = 1e-10
_ROOT_3: Final = math.sqrt(3)
# Counts that share their nodes: more would save outlines and take larger arrays.
_ROWS: Final = 512
# Farther apart, no common nodes would resolve both noises; and a smaller shift is below the rounding of its argument.
_WIDEST: Final = 10**6
_SMALLEST_SHIFT: Final = 1e-15
# A float counts them exactly, with room for the factors it meets; no run is as long.
_MOST_STEPS: Final = 10**12


def noisy_max_epsilon_up(queries: int, *, sensitivity: Number, noise: Number, spread: Number = 1) -> float:
    """The epsilon for which the place of the largest of noisy queries is epsilon-DP (`Pure`).

    Each query lies in a public interval of length `spread` (the same for all), one unit moves it by at most
    `sensitivity`, and it gets Gaussian noise of standard deviation `noise`. Only the place of the largest is published.
    Two neighbours attain it.

    >>> noisy_max_epsilon_up(1000, sensitivity=0.001, noise=0.1)
    0.2530...
    >>> noisy_max_epsilon_up(1, sensitivity=1, noise=1)
    0.0
    """
    others, width = whole(queries, "queries") - 1, positive(spread, "spread")
    scale, moved = positive(noise, "noise"), min(positive(sensitivity, "sensitivity"), width)
    if not others:
        return 0.0
    crossing = Crossing(1.0, *_moderate({"spread": -width / scale, "sensitivity": 2 * moved / scale}))
    return float(_up(crossing, np.array([_steps(others)]))[0])


def halted_epsilon_up(
    steps: int,
    *,
    sensitivity: Number,
    threshold_noise: Number,
    query_noise: Number,
    threshold: Number,
    low: Number = 0,
    high: Number = 1,
) -> float:
    """What a run of above threshold with Gaussian noise lost that halted at query number `steps` (`ExPost`).

    The outcome "halted at `steps`" is at most e^epsilon likelier on one neighbour than on the other. Queries lie in
    [low, high] and may depend on all that was published; one unit moves each by at most `sensitivity`. The noise of the
    public `threshold` is drawn once for the run. Two neighbours attain it.

    >>> halted_epsilon_up(10, sensitivity=0.001, threshold_noise=0.1, query_noise=0.1 * 3**0.5, threshold=0.5)
    0.0981...
    """
    run = _halting(sensitivity, threshold_noise, query_noise, threshold, low, high)
    return float(_up(run, np.array([_steps(whole(steps, "steps") - 1)]))[0])


def running_epsilon_up(
    steps: int,
    *,
    sensitivity: Number,
    threshold_noise: Number,
    query_noise: Number,
    threshold: Number,
    low: Number = 0,
    high: Number = 1,
) -> float:
    """What a run of above threshold lost that did not halt at any of `steps` queries (`ExPost`).

    The arguments are those of `halted_epsilon_up`.

    >>> running_epsilon_up(10, sensitivity=0.001, threshold_noise=0.1, query_noise=0.1 * 3**0.5, threshold=0.5)
    0.0489...
    >>> running_epsilon_up(0, sensitivity=0.001, threshold_noise=0.1, query_noise=0.2, threshold=0.5)
    0.0
    """
    run = _running(_halting(sensitivity, threshold_noise, query_noise, threshold, low, high))
    count = whole(steps, "steps", least=0)
    return float(_up(run, np.array([_steps(count)]))[0]) if count else 0.0


def above_threshold_epsilons_up(
    most_steps: int,
    *,
    sensitivity: Number,
    threshold_noise: Number,
    query_noise: Number,
    threshold: Number,
    low: Number = 0,
    high: Number = 1,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`halted_epsilon_up` and `running_epsilon_up` for 1 to `most_steps` queries, each an array of that length.

    >>> noise = dict(threshold_noise=0.1, query_noise=0.1 * 3**0.5)
    >>> halted, running = above_threshold_epsilons_up(1000, sensitivity=0.001, **noise, threshold=0.5)
    >>> halted[9], running[9]
    (np.float64(0.0981...), np.float64(0.0489...))
    """
    run = _halting(sensitivity, threshold_noise, query_noise, threshold, low, high)
    most = whole(most_steps, "most_steps")
    _steps(most)
    return _all_up(run, 0, most - 1), _all_up(_running(run), 1, most)


def noisy_max_noise(epsilon: Number, queries: int, *, sensitivity: Number, spread: Number = 1) -> float:
    """The least noise, to 1e-9, for which `noisy_max_epsilon_up` is at most epsilon; queries, at least 2.

    >>> noise = noisy_max_noise(1, 1000, sensitivity=0.001)
    >>> noise, noisy_max_epsilon_up(1000, sensitivity=0.001, noise=noise) <= 1
    (0.0471..., True)
    """
    whole(queries, "queries", least=2)

    def loss(noise: float) -> float:
        return noisy_max_epsilon_up(queries, sensitivity=sensitivity, noise=noise, spread=spread)

    return _least(loss, epsilon, float(positive(spread, "spread")))


def above_threshold_noise(
    epsilon: Number, steps: int, *, sensitivity: Number, threshold: Number, low: Number = 0, high: Number = 1
) -> tuple[float, float]:
    """Threshold noise, and query noise sqrt(3) times as much: a run of at most `steps` queries is epsilon-DP.

    The run ends after `steps` queries if it did not halt before, so this is a guarantee beforehand (`Pure`): the larger
    of both losses at `steps`. The noise is the least one to 1e-9.

    >>> above_threshold_noise(1, 100, sensitivity=0.001, threshold=0.5)
    (0.0351..., 0.0608...)
    """

    def loss(noise: float) -> float:
        run = _halting(sensitivity, noise, _ROOT_3 * noise, threshold, low, high)
        count = _steps(whole(steps, "steps"))
        return float(max(_up(run, np.array([count - 1]))[0], _up(_running(run), np.array([count]))[0]))

    found = _least(loss, epsilon, float(exact(high, "high") - exact(low, "low")))
    return found, _ROOT_3 * found


def _least(loss: Callable[[float], float], epsilon: Number, start: float) -> float:
    """The least noise, to 1e-9, whose loss is at most epsilon; the loss falls in the noise."""
    budget, high = float(positive(epsilon, "epsilon")), start
    while loss(high) > budget:
        high *= 2
    low = high / 2
    while loss(low) <= budget:
        low, high = low / 2, low
    while high > low * (1 + _PRECISION):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if loss(middle) <= budget else (middle, high)
    return high


def _halting(
    sensitivity: Number, threshold_noise: Number, query_noise: Number, threshold: Number, low: Number, high: Number
) -> Crossing:
    """The run in units of the query noise."""
    bar_scale, scale = positive(threshold_noise, "threshold_noise"), positive(query_noise, "query_noise")
    bar, bottom, top = exact(threshold, "threshold"), exact(low, "low"), exact(high, "high")
    if bottom >= top:
        raise InvalidParameter(f"low must be below high, such as low=0, high=1, got {plain(bottom)} and {plain(top)}")
    moved = min(positive(sensitivity, "sensitivity"), top - bottom)
    slope, offset, shift, last = _moderate(
        {
            "threshold_noise": bar_scale / scale,
            "threshold - high": (bar - top) / scale,
            "sensitivity": moved / scale,
            "low - threshold": (bottom - bar) / scale,
        }
    )
    return Crossing(slope, offset, shift, last)


def _running(run: Crossing) -> Crossing:
    return Crossing(run.slope, run.offset, run.shift)


def _moderate(ratios: dict[str, Fraction]) -> list[float]:
    for name, ratio in ratios.items():  # before they are floats: a quotient may lie beyond all of them
        if abs(ratio) > _WIDEST or (name == "threshold_noise" and ratio * _WIDEST < 1):
            raise InvalidParameter(f"{name} must be within a factor of 10**6 of the noise of a query")
    if ratios["sensitivity"] < _SMALLEST_SHIFT:
        raise InvalidParameter("sensitivity must be at least 1e-15 of the noise of a query")
    return [float(ratio) for ratio in ratios.values()]


def _steps(count: int) -> float:
    if count > _MOST_STEPS:
        raise InvalidParameter("at most 10**12 queries are supported")
    return float(count)


def _up(crossing: Crossing, counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return crossing.gains(counts) * (1 + _MARGIN)


def _all_up(crossing: Crossing, first: int, last: int) -> NDArray[np.float64]:
    blocks = [_up(crossing, np.arange(start, end, dtype=float)) for start, end in _blocks(first, last + 1)]
    return np.concatenate(blocks)


def _blocks(first: int, end: int) -> Iterator[tuple[int, int]]:
    """Counts of similar size, which can share nodes."""
    while first < end:
        after = min(4 * first + 2, first + _ROWS, end)
        yield first, after
        first = after
