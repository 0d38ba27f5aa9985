"""By which rule runs that restart themselves stop, as it is said, and the rule itself."""

from fractions import Fraction
from functools import lru_cache
from typing import Literal

from chary.accounting.gaussian_runs import (
    CountedRuns,
    PureStopping,
    RunNoise,
    SelfReportingStopping,
    StoppingRule,
    WhitehouseFilter,
    run_pdp_epsilon_up,
    runs_within,
)
from chary.accounting.gaussian_selection import nonnegative_epsilon
from chary.errors import InvalidParameter
from chary.numbers import Number

Stop = Literal["pure", "renyi", "self-reporting", "whitehouse"]


def check_terms(stop: Stop, delta: Fraction, runs: int | None) -> None:
    """Refuse a delta for the pure rule, none for the others, and a number of runs where it says nothing."""
    if (stop == "pure") != (delta == 0):
        raise InvalidParameter('the pure rule has no delta, every other one needs it: stop="renyi", delta=1e-6')
    if (stop == "self-reporting") != (runs is not None):
        raise InvalidParameter("runs= says into how many parts delta is split, for stop='self-reporting' alone")


@lru_cache(maxsize=64)
def rule_of(stop: Stop, epsilon: Fraction, delta: Fraction, runs: int | None, noise: RunNoise) -> StoppingRule:
    """The rule; `InvalidParameter` for noise too small for a run without a largest number of tests."""
    if stop == "pure":
        return PureStopping(epsilon)
    terms = {
        "sensitivity": noise.sensitivity,
        "threshold_noise": noise.threshold_noise,
        "query_noise": noise.query_noise,
        "threshold": noise.above_low,
    }
    if stop == "renyi":
        return CountedRuns(runs_within(epsilon, delta, **terms))
    if stop == "whitehouse":
        return CountedRuns(_filtered(epsilon, delta, terms))
    most = runs or 1
    return SelfReportingStopping(epsilon, Fraction(run_pdp_epsilon_up(**terms, delta=delta / most)), most)


def _filtered(epsilon: Fraction, delta: Fraction, terms: dict[str, Number]) -> int:
    """Half of delta is for the composition, the other half is split evenly among as many runs as fit."""
    rule, found = WhitehouseFilter(epsilon, delta / 2, delta / 2), 0
    while True:
        single = delta / 2 / (found + 1)
        if rule.times(_single(terms, single), single) <= found:
            return found
        found += 1


def _single(terms: dict[str, Number], delta: Fraction) -> Fraction:
    """The epsilon of a run of values from 0 on, by Zhu and Wang's bound with the moment itself, where that holds."""
    try:
        # It is a bound up to float rounding, of some 1e-12.
        return Fraction(nonnegative_epsilon(**terms, delta=delta) * (1 + 1e-9))
    except InvalidParameter:
        return Fraction(run_pdp_epsilon_up(**terms, delta=delta))
