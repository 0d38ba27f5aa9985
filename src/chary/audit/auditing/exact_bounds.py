"""What two exact laws show: the least epsilon that holds, and the least price of a hit that pays."""

import json
import math

import numpy as np

from chary.audit.auditing.enumeration import LOST, Law


def exact_epsilon(here: Law, there: Law, delta: float = 0) -> tuple[float, str]:
    """The least epsilon at which two laws are (epsilon, delta)-indistinguishable, either way, and an outcome that shows
    it. What was lost counts against what is shown, so no smaller epsilon holds, and hardly a larger one is needed.

    >>> round(exact_epsilon({"yes": 0.5, "no": 0.5}, {"yes": 0.25, "no": 0.75})[0], 4)
    0.6931
    """
    found = [_one_way(first, second, delta) for first, second in ((here, there), (there, here))]
    return max(found)


def _one_way(here: Law, there: Law, delta: float) -> tuple[float, str]:
    """Outcomes in order of their likelihood ratios; the best event is a beginning of that."""
    lost = max(here.get(LOST, 0.0), there.get(LOST, 0.0))
    names = [name for name in here if name != LOST]
    chances = np.array([[here[name], there.get(name, 0.0) + lost] for name in names])
    if not len(chances):
        return 0.0, "nothing"
    with np.errstate(divide="ignore"):
        order = np.argsort(-(np.log(chances[:, 0]) - np.log(chances[:, 1])))
        sums = chances[order].cumsum(axis=0) if delta else chances[order]
        shown = np.where(sums[:, 0] > delta, np.log(np.maximum(sums[:, 0] - delta, 0)) - np.log(sums[:, 1]), -np.inf)
    top = int(np.argmax(shown))
    return max(0.0, float(shown[top])), names[order[top]]


def needed_price(here: Law, there: Law, order: float, miss_price: float = 0) -> tuple[float, str]:
    """The least price of a hit that pays for the first law over the second at one Renyi order, and what shows it.

    Outcomes are `[answer, hit]`. A filter at that order is right where `E (p/q)^order e^-charged <= 1` over q, with
    what each outcome is charged; infinite where misses alone break that. Chances that are too low here or too high
    there only make it smaller.

    >>> round(needed_price({"[1,1]": 0.25, "[0,0]": 0.75}, {"[1,1]": 0.3, "[0,0]": 0.7}, 2)[0], 4)
    0.0588
    """
    moments, lost = {True: 0.0, False: 0.0}, there.get(LOST, 0.0)
    for outcome in (here.keys() | there.keys()) - {LOST}:
        p, q = here.get(outcome, 0.0), there.get(outcome, 0.0) + lost
        if p > 0:
            moments[json.loads(outcome)[1] > 0] += math.inf if q == 0 else q * (p / q) ** order
    left = 1 - moments[False] * math.exp(-miss_price)
    if left <= 0:
        return math.inf, "misses"
    return (max(0.0, math.log(moments[True] / left)) if moments[True] > 0 else 0.0), "hits and misses"
