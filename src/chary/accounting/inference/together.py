"""What holds for all values of many tests at once: errors, margins, expected false alarms, bars.

All distances are in grid steps and err on the safe side. A budget beta = 1 - confidence is split over the tests, which
needs nothing of how they depend on each other or were chosen (theory 9.3).
"""

from fractions import Fraction
from typing import Protocol

from chary.accounting.inference.lists import share_at_down
from chary.accounting.inference.noise_laws import NoiseLaw
from chary.accounting.rounding import float_up
from chary.numbers import Number, probability, whole


class Tails(Protocol):
    """How often a test reports a truth below its bar: a `NoiseLaw`, `SharpTails`, `SparseTails`. In grid steps."""

    def at_least_up(self, distance: int) -> Fraction:
        """The chance that a truth so far below the bar (negative: above) is reported, rounded up."""

    def reach_up(self, chance: Number) -> int:
        """The least distance below the bar from which on that chance is at most this, certainly."""

    def miss_reach_up(self, chance: Number) -> int:
        """The least distance above the bar from which on a truth is *not* reported with at most this chance."""


def confidence_of_each(confidence: Number, count: int) -> Fraction:
    """The confidence at which each of so many intervals is taken, so that all cover together with `confidence`.

    Guarantee with the intervals of `Publication`: for `count` agreed beforehand (the hits a budget pays for, say), or
    the number published if all questions were fixed before the first answer.

    >>> confidence_of_each("0.95", 10)
    Fraction(199, 200)
    """
    return 1 - (1 - probability(confidence, "confidence")) / whole(count, "count")


def confidence_at(confidence: Number, place: int) -> Fraction:
    """The confidence of the place-th interval, places from 1, when nobody knows how many there will be.

    The i-th may fail with `6 beta/(pi^2 i^2)`, which adds up to beta: all that are ever taken cover together with
    `confidence`, for questions chosen adaptively and wherever one stops.

    >>> round(float(confidence_at("0.95", 2)), 4)
    0.9924
    """
    return 1 - (1 - probability(confidence, "confidence")) * share_at_down(place)


def error_of_all_up(noise: NoiseLaw, *, tests: int, confidence: Number) -> int:
    """The steps within which the noise of every one of so many tests stays, published or not, with `confidence`.

    For Laplace noise of scale b about `b ln(tests/beta)`.

    >>> from chary.accounting.inference.noise_laws import LaplaceLaw
    >>> error_of_all_up(LaplaceLaw(20), tests=1, confidence="0.95")
    60
    >>> error_of_all_up(LaplaceLaw(20), tests=10_000, confidence="0.95")
    244
    """
    return noise.reach_up(_failure(confidence, tests) / 2) - 1


def margin_up(noise: Tails, *, tests: int, confidence: Number) -> int:
    """The margin of a watch: with `confidence` no value whose truth is this far or farther below its bar is reported.

    For Laplace noise of scale b about `b ln(tests/(2 beta))`. Where the bar less the margin is at or below what values
    may ordinarily be, false alarms are to be expected.

    >>> from chary.accounting.inference.noise_laws import LaplaceLaw
    >>> margin_up(LaplaceLaw(20), tests=10_000, confidence="0.95")
    231
    """
    return noise.reach_up(_failure(confidence, tests))


def least_bar(noise: Tails, *, truth: int, tests: int, confidence: Number = Fraction(19, 20)) -> int:
    """The smallest bar at which, with `confidence`, no false alarm comes of so many tests with truths up to `truth`.

    >>> from chary.accounting.inference.noise_laws import LaplaceLaw
    >>> least_bar(LaplaceLaw(20), truth=0, tests=10_000)
    231
    """
    return truth + margin_up(noise, tests=tests, confidence=confidence)


def false_alarms_up(noise: Tails, *, bar: int, truth: int, tests: int) -> float:
    """The expected number of reports if so many tests have truths of at most `truth`: `tests P(Z >= bar - truth)`.

    For Laplace noise `N r^(bar - truth)/(1 + r)` where the bar lies above. Rounded up.

    >>> from chary.accounting.inference.noise_laws import LaplaceLaw
    >>> round(false_alarms_up(LaplaceLaw(20), bar=100, truth=0, tests=10_000), 2)
    34.53
    """
    return float_up(whole(tests, "tests") * noise.at_least_up(bar - truth))


def _failure(confidence: Number, tests: int) -> Fraction:
    return (1 - probability(confidence, "confidence")) / whole(tests, "tests")
