"""A value put together from several noisy ones, and what it says of its truth."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from chary.accounting.inference.publications import CONFIDENCE, Interval
from chary.accounting.utility.combined_errors import gaussian_sum_error_up, laplace_sum_error_up
from chary.numbers import Number, probability


@dataclass(frozen=True)
class Combination:
    """How a value was made: a weighted sum of numbers with independent noise, all of them published.

    `deviation`, `absolute` and `squared` are as in `laplace_sum_error_up`, in the answer's own units; `gaussian` says
    which noise it was. `floor` and `ceiling` bound what the truth can be, whatever the data.

    Guarantee: its interval covers the truth with at least `confidence`, whatever the truth. It was published in any
    case, so it is no alarm and has no p-value.

    >>> made = Combination(deviation=100, absolute=3, squared=3, floor=0)
    >>> [round(end) for end in made.interval(150)]
    [0, 369]
    """

    deviation: float
    absolute: float
    squared: float
    gaussian: bool = False
    floor: float | None = None
    ceiling: float | None = None
    at_once: ClassVar[bool] = False

    def reach(self, confidence: Number = CONFIDENCE) -> float:
        """How far from the value the truth is at most, with this confidence."""
        beta: Fraction = 1 - probability(confidence, "confidence")
        if self.gaussian:
            return gaussian_sum_error_up(self.deviation, self.absolute, beta)
        return laplace_sum_error_up(self.deviation, self.absolute, self.squared, beta)

    def interval(self, value: Number, confidence: Number = CONFIDENCE) -> Interval:
        """From the value less that to the value and that, cut to what the truth can be."""
        reach, told = self.reach(confidence), float(value)
        least = -math.inf if self.floor is None else self.floor
        most = math.inf if self.ceiling is None else self.ceiling
        low, high = (min(max(end, least), most) for end in (told - reach, told + reach))
        return Interval(low, high)

    def p_value(self, value: Number) -> float | None:
        """None: it was published in any case."""
        return None

    def caution(self, value: Number, confidence: Number = CONFIDENCE) -> str | None:
        """None likewise."""
        return None
