"""What other analyses would give for a whole budget: comparisons of an advice, without a call to write."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from chary.accounting import (
    SparseNoise,
    SparseRounds,
    charging_size,
    error_up,
    exact_tail_total,
    gaussian_error_up,
    laplace_deviation,
    laplace_error_up,
    plain_noise,
    published_total,
    sparse_rounds,
    usual_rounds,
)
from chary.advise.advice import Option
from chary.advise.affording import Wanted
from chary.errors import InvalidParameter, NoPrice
from chary.filters import Budget, largest_call
from chary.mechanisms import Laplace
from chary.numbers import exact

# The root of a confidence is rounded up in the ninth digit: both halves promise a little more, never less.
_FINE: Final = 10**9


def best_theorem(wanted: Wanted, budget: Budget) -> Option:
    """Plain composition by the best theorem, or with Gaussian noise calibrated exactly."""
    epsilon, delta = _approximate(budget)
    noise = plain_noise(epsilon=epsilon, delta=delta, tests=wanted.paid_tests)
    deviation = noise.deviation * wanted.steps
    if noise.gaussian:
        error = gaussian_error_up(Fraction(deviation) ** 2, tests=wanted.tests, confidence=wanted.confidence)
    else:
        scale = Fraction(deviation / math.sqrt(2))
        error = laplace_error_up(scale, tests=wanted.tests, confidence=wanted.confidence)
    told = wanted.units(error), wanted.units(deviation)
    return _compared("plain composition, best theorem", told, None, told)


def published_charging(wanted: Wanted, budget: Budget) -> Option:
    """Target charging by its published bound."""
    return _charging("target charging, published bound", wanted, _by_total(published_total, wanted, budget))


def tail_charging(wanted: Wanted, budget: Budget) -> Option:
    """Target charging by the published remark on exact tails."""
    return _charging("target charging, exact tail", wanted, _by_total(exact_tail_total, wanted, budget))


def curve_charging(wanted: Wanted, budget: Budget) -> Option:
    """Target charging by the exact curve of calls of one size, which are all that is ever asked."""
    _approximate(budget)
    return _charging("target charging, exact curve", wanted, largest_call(budget, wanted.paid_hits, "exact"))


def gaussian_values(wanted: Wanted, budget: Budget) -> Option:
    """Rounds of the tuned sparse vector with Gaussian values, composed exactly; the best number of rounds."""
    epsilon, delta = _approximate(budget)
    if not wanted.values:
        raise InvalidParameter("without values it has nothing to make Gaussian: ask for values=True")
    if not wanted.adds or wanted.monotone is False:
        raise InvalidParameter("it is for monotone questions")
    sizes = usual_rounds(wanted.hits)
    forms = [sparse_rounds(epsilon=epsilon, delta=delta, hits=wanted.hits, rounds=rounds) for rounds in sizes]
    error, form = min(((_error(wanted, form), form) for form in forms), key=lambda found: found[0])
    sure = exact(wanted.confidence, "confidence")
    deviation = wanted.units(form.deviation * wanted.steps)
    return Option(
        "sparse vector, tuned, Gaussian values",
        error,
        wanted.units(_tests_error(wanted, form, sure)),
        wanted.units(_values_error(wanted, form, sure)),
        1.0,
        None,
        deviation,
        deviation,
        note=f"{form.rounds} sparse vectors of {-(-form.hits // form.rounds)} hits each, composed exactly",
    )


def _error(wanted: Wanted, form: SparseRounds) -> float:
    """Of tests and values together, which are independent, each with the root of the confidence."""
    squared = exact(wanted.confidence, "confidence") * _FINE**2
    sure = min(Fraction(math.isqrt(math.floor(squared)) + 1, _FINE), 1 - Fraction(1, _FINE))
    return wanted.units(max(_tests_error(wanted, form, sure), _values_error(wanted, form, sure)))


def _tests_error(wanted: Wanted, form: SparseRounds, sure: Fraction) -> int:
    noise = SparseNoise(form.rounds, form.threshold, form.test, None, form.rounds > 1).scaled(wanted.steps)
    return error_up(noise, tests=wanted.tests, confidence=sure)


def _values_error(wanted: Wanted, form: SparseRounds, sure: Fraction) -> int:
    variance = Fraction(form.deviation * wanted.steps) ** 2
    return gaussian_error_up(variance, tests=wanted.hits, confidence=sure)


def _charging(name: str, wanted: Wanted, size: Fraction) -> Option:
    scale = Laplace.for_epsilon(size, sensitivity=wanted.steps).scale
    error = laplace_error_up(scale, tests=wanted.tests, confidence=wanted.confidence)
    told = wanted.units(error), wanted.units(laplace_deviation(scale))
    return _compared(name, told, size, told if wanted.values else (None, None))


def _compared(
    name: str, tests: tuple[float, float], size: Fraction | None, values: tuple[float | None, float | None]
) -> Option:
    return Option(name, tests[0], tests[0], values[0], 1.0, size, tests[1], values[1])


def _by_total(total: Callable[..., float], wanted: Wanted, budget: Budget) -> Fraction:
    epsilon, delta = _approximate(budget)
    return charging_size(total, epsilon=epsilon, delta=delta, hits=wanted.paid_hits)


def _approximate(budget: Budget) -> tuple[Fraction, Fraction]:
    epsilon, delta = budget.exact
    if not delta:
        raise NoPrice("it needs a delta greater than 0")
    return epsilon, delta
