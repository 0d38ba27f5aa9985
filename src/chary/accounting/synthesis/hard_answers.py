"""Multiplicative weights: how many hard answers there can be, and what a call must be to tell hard from easy."""

import math
from fractions import Fraction
from typing import Literal

from chary.accounting.exponentials import decimal, precise
from chary.accounting.rounding import rounded_up
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, probability, whole

Update = Literal["projected", "published"]
# A few float operations, upwards. Below 1e-100 the square of alpha would leave the floats of reports.
_ROUNDING = 1 + 1e-12
LEAST_ALPHA = Fraction(1, 10**100)


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
    return (float(before) + float(grown) * math.log(last / first)) * _ROUNDING


def weights_epsilon(*, alpha: Number, size: int, queries: int, confidence: Number = "0.95") -> float:
    """The epsilon of a call with which all of so many noisy answers are within alpha/3 of the truth, with `confidence`.

    Discrete Laplace noise on a count of `size` rows; rounded up.

    >>> round(weights_epsilon(alpha="0.1", size=5000, queries=1000), 4)
    0.0635
    """
    steps = math.floor(probability(alpha, "alpha") / 3 * whole(size, "size")) + 1
    missed = float(1 - probability(confidence, "confidence"))
    return math.log(2 * whole(queries, "queries") / missed) / steps * _ROUNDING


def weights_alpha(*, epsilon: Number, size: int, queries: int, confidence: Number = "0.95") -> float:
    """The accuracy that calls of this epsilon afford over so many queries; the inverse of `weights_epsilon`.

    >>> round(weights_alpha(epsilon="0.0635", size=5000, queries=1000), 3)
    0.1
    """
    missed = float(1 - probability(confidence, "confidence"))
    steps = math.log(2 * whole(queries, "queries") / missed) / float(positive(epsilon, "epsilon"))
    return 3 * steps / whole(size, "size") * _ROUNDING
