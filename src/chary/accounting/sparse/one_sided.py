"""Sparse vector with one-sided noise: how epsilon is split, where its bar lies, its event (docs/sparse_vector.md)."""

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Final

from chary.accounting.events import Asymmetric, Event, Joint, Pure, Repeated
from chary.accounting.exponentials import decimal, precise
from chary.accounting.noise_events import DiscreteLaplace
from chary.numbers import Number, per_call, probability, whole

USUAL_TESTS: Final = 1000
USUAL_CONFIDENCE: Final = Fraction(95, 100)
# Shares are cut to six decimals, so that the scales, which ledgers imply, are short rationals.
_STEPS: Final = 10**6


@dataclass(frozen=True)
class OneSidedNoise:
    """Scales of geometric noise of a sparse vector that stops after `hits` hits, in grid steps.

    `threshold`, drawn once, and `test`, for each test, are those of noises that are never below 0; `answer` is the
    scale of the Laplace noise of each published value (None: none is published). One unit moves a question by at most
    `sensitivity`, and all in one direction if `monotone`. The bar is placed for so many `tests` to be right together
    with probability `confidence`; privacy does not depend on it.
    """

    hits: int
    threshold: Fraction
    test: Fraction
    answer: Fraction | None
    monotone: bool
    tests: int = USUAL_TESTS
    sensitivity: int = 1
    confidence: Fraction = USUAL_CONFIDENCE

    @cached_property
    def shift(self) -> int:
        """By how many steps the bar that is tested lies above the public one.

        With `s` and `r` the scales of test and threshold and beta = 1 - confidence, all noises of tests less that of
        the threshold lie between `-r ln((1 + s/r)/beta)` and `s ln(tests/beta)`, but for beta; this is the middle, so
        that tests err as far above the public bar as below it.
        """
        with precise():
            threshold, test, beta = decimal(self.threshold), decimal(self.test), decimal(1 - self.confidence)
            missed = threshold * ((1 + test / threshold) / beta).ln()
            reported = test * (self.tests / beta).ln()
            return int(((reported - missed) / 2).to_integral_value())

    @property
    def event(self) -> Event:
        """What the tests, and the values with noise of their own, may reveal together."""
        threshold = self.sensitivity / self.threshold
        tests = crossings(self.hits, self.monotone) * self.sensitivity / self.test
        tested = Asymmetric(threshold + tests, tests) if self.monotone else Pure(threshold + tests)
        if self.answer is None:
            return tested
        return Joint((tested, Repeated(DiscreteLaplace(self.answer, self.sensitivity), self.hits)))

    def scaled(self, sensitivity: int) -> "OneSidedNoise":
        """The same for questions that change by so many times as many steps."""
        answer = None if self.answer is None else self.answer * sensitivity
        threshold, test = self.threshold * sensitivity, self.test * sensitivity
        return replace(self, threshold=threshold, test=test, answer=answer, sensitivity=self.sensitivity * sensitivity)


def one_sided_noise(
    *,
    epsilon: Number,
    hits: int,
    tests: int = USUAL_TESTS,
    monotone: bool = False,
    values: bool = False,
    confidence: Number = USUAL_CONFIDENCE,
) -> OneSidedNoise:
    """The noise that makes a sparse vector epsilon-DP for questions of sensitivity 1, with the bar for so many tests.

    `monotone` says that all questions move in the same direction between neighbours, `values` that each hit comes
    with a value. Any number of tests may be asked; the noise is best for `tests`.

    >>> noise = one_sided_noise(epsilon=1, hits=3, monotone=True)
    >>> round(float(noise.threshold), 2), round(float(noise.test), 2), noise.shift
    (3.94, 4.02, 13)
    >>> noise.event.epsilon
    Fraction(1, 1)
    """
    size, count, asked, sure = per_call(epsilon), whole(hits, "hits"), whole(tests, "tests"), confidence
    kept = probability(sure, "confidence")
    threshold, test, answer = (
        share * size for share in one_sided_shares(count, asked, kept, monotone=monotone, values=values)
    )
    spread = crossings(count, monotone)
    return OneSidedNoise(
        count, 1 / threshold, spread / test, count / answer if values else None, monotone, asked, 1, kept
    )


def one_sided_shares(
    hits: int, tests: int, confidence: Fraction, *, monotone: bool, values: bool
) -> tuple[Fraction, Fraction, Fraction]:
    """The parts of epsilon for the threshold, the tests and the values; they add up to exactly 1.

    Threshold and tests get `sqrt(ln(2/beta)) : sqrt(h ln(2N/beta))` with h = hits for monotone questions, 2 hits
    otherwise, which is least for `ln(2/beta)/eps_1 + h ln(2N/beta)/eps_2` (theory 10); values get the part with which
    they err as far as the tests.

    >>> shares = one_sided_shares(1, 1000, USUAL_CONFIDENCE, monotone=True, values=False)
    >>> [float(share) for share in shares]
    [0.371075, 0.628925, 0.0]
    """
    with precise():
        beta = decimal(1 - confidence)
        root, other = (2 / beta).ln().sqrt(), (crossings(hits, monotone) * (2 * tests / beta).ln()).sqrt()
        width, value = (root + other) ** 2 / 2, hits * (hits / beta).ln()
        answers = _cut(value / (value + width)) if values else Fraction(0)
        first = _cut(root / (root + other))
    return (1 - answers) * first, (1 - answers) * (1 - first), answers


def crossings(hits: int, monotone: bool) -> int:
    """By how many steps all hits together can cross the threshold: two for each, one if everything moves one way."""
    return hits if monotone else 2 * hits


def _cut(share: Decimal) -> Fraction:
    """A share as a multiple of 1e-6, strictly between 0 and 1."""
    return Fraction(min(max(int(share * _STEPS), 1), _STEPS - 1), _STEPS)
