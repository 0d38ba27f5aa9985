"""What no accountant can charge less for: one-shot selection of the best of many private candidates."""

import math
from typing import Final

import numpy as np

from chary.accounting.charging.charging_curve import exact_total
from chary.accounting.charging.published_charging import WantedTotal
from chary.errors import InvalidParameter
from chary.numbers import Number, whole

MOST_CANDIDATES: Final = 5000
# Each test errs by less than 1e-15 of what it finds; the root is backed by more than all of that together.
_BACK: Final = 1 - 1e-9
_CLOSE: Final = 1e-9
# Where delta alone covers all candidates the floor is 0.
_NOTHING: Final = 1e-300
# Beyond so many steps on the other side of the diagonal a series gains nothing: values there only stay too small.
_AROUND: Final = 200


def one_shot_floor_down(*, epsilon_per_call: Number, candidates: int, delta: Number) -> float:
    """The total epsilon below which no accountant can put one-shot top-1 among so many epsilon-DP candidates.

    Candidates that answer by randomized response, with scores in an order known before, stop at the first that scores:
    exactly a series of tests that ends at its first hit. This is the least total at `delta` for the worst series of
    that length, rounded down. It rises with the number of candidates to `exact_total` for one hit; without a delta
    nothing below `candidates epsilon_per_call` holds, since all may miss ([TCT] section 1).

    Errors: `InvalidParameter` for more than 5,000 candidates.

    >>> [round(one_shot_floor_down(epsilon_per_call="0.1", candidates=m, delta="1e-6"), 3) for m in (1, 10, 100, 5000)]
    [0.1, 0.999, 1.731, 1.731]
    """
    asked, many = WantedTotal.of(epsilon_per_call, 1, delta), whole(candidates, "candidates")
    if many > MOST_CANDIDATES:
        raise InvalidParameter(f"the floor is worked out for at most {MOST_CANDIDATES} candidates")
    one_hit = exact_total(epsilon_per_call=epsilon_per_call, hits=1, delta=delta)
    low, high = 0.0, min(asked.epsilon * many, one_hit)
    while high - low > _CLOSE * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _worst(asked.epsilon, many, middle) > asked.delta else (low, middle)
        if high < _NOTHING:
            return 0.0
    return low * _BACK


def _worst(epsilon: float, tests: int, total: float) -> float:
    """The delta of the worst series of randomized responses that ends at its first hit, at this total epsilon.

    `value[k]` is the largest sum of `(P0 - y P1)+` over what is still to come, for `y = e^(total + k epsilon)`.
    """
    p, reach = 1 / (1 + math.exp(-epsilon)), min(tests, math.ceil(total / epsilon) + _AROUND)
    y = np.exp(np.minimum(total + epsilon * np.arange(-reach - 1, reach + 2), 700.0))
    value, likely, rare = np.maximum(1 - y, 0), np.maximum(p - (1 - p) * y, 0), np.maximum(1 - p - p * y, 0)
    for _ in range(tests):
        down, up = p * value[:-2] + rare[1:-1], (1 - p) * value[2:] + likely[1:-1]
        found = np.maximum(value[1:-1], np.maximum(down, up))
        if np.all(found <= value[1:-1] * (1 + 1e-15)):
            break
        value[1:-1] = found
    return float(value[reach + 1])
