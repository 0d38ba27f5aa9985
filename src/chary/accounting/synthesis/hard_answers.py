"""Multiplicative weights: how many hard answers there can be, what a call must be to tell hard from easy, and how far
off easy ones are."""

import math
from fractions import Fraction
from typing import Final, Literal

from chary.accounting.exponentials import decimal, precise
from chary.accounting.inference.together import Tails
from chary.accounting.rounding import float_up, rounded_up
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, positive, probability, whole

Update = Literal["projected", "published"]
# A few float operations, upwards. Below 1e-100 the square of alpha would leave the floats of reports.
_UPWARDS = 1 + 1e-12
LEAST_ALPHA = Fraction(1, 10**100)
# So many questions, and so many rounds, have the same chance of an error each; later ones have smaller and smaller.
EQUAL_QUESTIONS: Final = 1024
EQUAL_ROUNDS: Final = 32


def hard_answer_rates_up(
    *, alpha: Number, cells: int, update: Update = "projected", mixing: Number = 1
) -> tuple[Fraction, Fraction]:
    """The hard answers at most before the data grow, and those at most for each growth by the factor e.

    Rounded up to 18 digits, the same on every machine.

    >>> first, growth = hard_answer_rates_up(alpha="0.1", cells=1000, mixing="0.1")
    >>> round(first), round(growth)
    (3108, 4145)
    """
    if update not in ("projected", "published"):
        raise InvalidParameter("update must be 'projected' or 'published'")
    if probability(alpha, "alpha") < LEAST_ALPHA:
        raise InvalidParameter("alpha must be at least 1e-100")
    each = probability(alpha, "alpha") ** 2 * (Fraction(2, 9) if update == "projected" else Fraction(1, 36))
    part, known = positive(mixing, "mixing"), whole(cells, "cells", least=2)
    if part > 1:
        raise InvalidParameter("mixing is a part of a row, at most 1")
    with precise():
        first, row = (decimal(entropy).ln() / decimal(each) for entropy in (Fraction(known), known / part))
        return rounded_up(first), rounded_up(row)


def hard_answers_up(
    *,
    alpha: Number,
    cells: int,
    start: int,
    size: int | None = None,
    update: Update = "projected",
    mixing: Number = 1,
) -> float:
    """At most so many hard answers while all answers are within alpha/3, from `start` rows until there are `size`.

    The relative entropy of the rows from the histogram is ln N at most at first, grows by ln(N/mixing)/t at most with
    the row t, and falls by alpha^2/36 (published) or 2 alpha^2/9 (projected) with each hard answer.

    >>> round(hard_answers_up(alpha="0.1", cells=1000, start=500, update="published"))
    24868
    >>> round(hard_answers_up(alpha="0.1", cells=1000, start=500, update="projected"))
    3108
    """
    before, grown = hard_answer_rates_up(alpha=alpha, cells=cells, update=update, mixing=mixing)
    first, last = whole(start, "start"), whole(start if size is None else size, "size")
    if last < first:
        raise InvalidParameter("a growing table does not shrink: size must be at least start")
    return (float(before) + float(grown) * math.log(last / first)) * _UPWARDS


def weights_epsilon(*, alpha: Number, size: int, queries: int, confidence: Number = "0.95") -> float:
    """The epsilon of a call with which all of so many noisy answers are within alpha/3 of the truth, with `confidence`.

    Discrete Laplace noise on a count of `size` rows; rounded up.

    >>> round(weights_epsilon(alpha="0.1", size=5000, queries=1000), 4)
    0.0635
    """
    steps = math.floor(probability(alpha, "alpha") / 3 * whole(size, "size")) + 1
    missed = float(1 - probability(confidence, "confidence"))
    return math.log(2 * whole(queries, "queries") / missed) / steps * _UPWARDS


def weights_alpha(*, epsilon: Number, size: int, queries: int, confidence: Number = "0.95") -> float:
    """The accuracy that calls of this epsilon afford over so many queries; the inverse of `weights_epsilon`.

    >>> round(weights_alpha(epsilon="0.0635", size=5000, queries=1000), 3)
    0.1
    """
    missed = float(1 - probability(confidence, "confidence"))
    steps = math.log(2 * whole(queries, "queries") / missed) / float(positive(epsilon, "epsilon"))
    return 3 * steps / whole(size, "size") * _UPWARDS


def easy_chance(place: int, number: int | None = None, confidence: Number = "0.95") -> Fraction:
    """The chance of an error of the place-th question to a histogram, in its round of this number where it has rounds.

    Over all places, and all numbers with them, they add up to 1 - confidence at most, however many questions come: one
    half is shared by the first 1,024 questions (32 rounds), a quarter by as many more, an eighth by twice as many...
    So with that confidence no question at all is in error, for questions chosen adaptively and wherever one stops.

    >>> easy_chance(1) == easy_chance(1024) == Fraction(1, 20) / 2048, easy_chance(1025) == Fraction(1, 20) / 4096
    (True, True)
    """
    missed = (1 - probability(confidence, "confidence")) * _equal_at_first(place, EQUAL_QUESTIONS)
    return missed if number is None else missed * _equal_at_first(number, EQUAL_ROUNDS)


def _equal_at_first(place: int, first: int) -> Fraction:
    """The share of the place-th of any number: `1/(2 first)`, then `1/(4^b first)` up to `2^b first`."""
    doublings = (-(-whole(place, "place") // first) - 1).bit_length()
    return Fraction(1, 2 * first) if doublings == 0 else Fraction(1, 4**doublings * first)


def easy_error_up(tails: Tails, *, alpha: Number, size: int, chance: Number, rounding: Number = 0) -> float:
    """How far an easy answer is off at most, but for this chance, as a share of `size` rows; above 1 it says nothing.

    Beyond 2 alpha/3 a count should be hard, and one that is so many rows beyond is missed by the noise with the chance
    that `tails` says. So it is 2 alpha/3 and the least distance missed no oftener; with `rounding`, in rows, for sums
    that are told in whole rows. It is alpha at most where the noise is within alpha/3.

    >>> from chary.accounting.inference.noise_laws import LaplaceLaw
    >>> easy_error_up(LaplaceLaw(20), alpha="0.3", size=1000, chance=easy_chance(1))
    0.399
    """
    missed = tails.miss_reach_up(chance) + exact(rounding, "rounding")
    return float_up(2 * probability(alpha, "alpha") / 3 + missed / whole(size, "size"))
