"""How many hits make what target charging pays per hit predictable ([TCT] Remark B.5)."""

import math
from typing import Final, NamedTuple

import scipy

from chary.accounting.charging.published_charging import TAIL, WantedTotal
from chary.errors import InvalidParameter
from chary.numbers import Number, positive

# So small an overhead takes more hits than anybody has; SciPy's incomplete beta function is good to far beyond it.
LEAST_OVERHEAD: Final = 1e-4


class HitsNeeded(NamedTuple):
    """The fewest hits by the exact tail, and what two forms of Chernoff's bound ask for."""

    exact: int
    chernoff: int
    simple: int


def hits_needed(*, overhead: Number, delta: Number, q: Number) -> HitsNeeded:
    """The fewest hits tau after which more than `(1 + overhead) tau/q` calls have been paid for with chance delta only.

    The overhead is the alpha of [TCT] Theorem B.4, delta its d*. *Simple* is `2 (1+a) ln(1/delta)/a^2`, *chernoff*
    `ln(1/delta)/(a - ln(1+a))`; *exact* is the least number at which so many calls, each hitting with q, bring fewer
    hits with chance delta at most. Calls are whole, so a few larger numbers may miss it by a hair.

    Errors: `InvalidParameter` for an overhead below 1e-4, a delta below 1e-300 and a q outside (0, 1].

    >>> hits_needed(overhead="0.5", delta="1e-6", q="0.5")
    HitsNeeded(exact=65, chernoff=147, simple=166)
    """
    part = float(positive(overhead, "overhead"))
    if part < LEAST_OVERHEAD:
        raise InvalidParameter(f"overhead must be at least {LEAST_OVERHEAD:g}, such as 0.5")
    asked = WantedTotal.of(1, 1, delta, q)
    log = -math.log(asked.delta)
    simple, chernoff = 2 * (1 + part) * log / part**2, log / (part - math.log1p(part))

    def kept(hits: int, whole_calls: bool) -> bool:
        calls = (1 + part) * hits / asked.q
        missed = scipy.special.betaincc(hits, (math.floor(calls) if whole_calls else calls) - hits + 1, asked.q)
        return float(missed) * (1 + TAIL) <= asked.delta

    low, high = 0, math.ceil(simple)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if kept(middle, False) else (middle, high)
    while not kept(high, True):
        high += 1
    return HitsNeeded(high, math.ceil(chernoff), math.ceil(simple))
