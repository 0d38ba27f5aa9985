"""A year of runs that begin again whenever one has halted, and where the rules stop them that keep one promise."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chary.accounting.gaussian_runs import (
    NOTHING_TOLD,
    CountedRuns,
    Losses,
    Reported,
    RunNoise,
    SelfReportingStopping,
    StoppingRule,
)
from chary.calls.gaussian_runs import RunTerms, Stop, rule_of
from chary.errors import InvalidParameter
from chary.experiments.selection.daily_series import DailySeries
from chary.mechanisms import GaussianThreshold
from chary.noise import Source
from chary.numbers import Number, exact

EPSILON: Final = Fraction(1)
DELTA: Final = Fraction(1, 10**6)
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class GaussianRuns:
    """Above threshold with Gaussian noise on a series, both noises as shares of its range.

    >>> from chary.noise import Seeded
    >>> runs = GaussianRuns(DailySeries("made up", np.array([0, 900, 100]), 1000, 1), threshold="0.5", noise="0.01")
    >>> runs.flags(Seeded(1)).tolist()
    [False, True, False]
    """

    series: DailySeries
    threshold: Number
    noise: Number

    @property
    def mechanism(self) -> GaussianThreshold:
        """The exact mechanism, in the steps of the series."""
        top = self.series.top
        return GaussianThreshold(exact(self.threshold, "threshold") * top, exact(self.noise, "noise") * top)

    @cached_property
    def losses(self) -> Losses:
        """The loss of a run by its length, as a session charges it."""
        terms = RunTerms(self.mechanism, Fraction(0), Fraction(self.series.top))
        return terms.losses(Fraction(self.series.moved), len(self.series.values))

    @property
    def terms(self) -> RunNoise:
        """What prices at a Renyi order follow from."""
        return RunNoise(self.series.moved, *self.mechanism.scales, Fraction(self.mechanism.threshold))

    def flags(self, source: Source) -> Flags:
        """On which days runs halt if nothing stops them; after each halt the next run begins."""
        mechanism, held, told = self.mechanism, None, []
        for value in self.series.values.tolist():
            above, held = mechanism.step(Fraction(value), held or mechanism.start(source), source)
            told.append(above)
            held = None if above else held
        return np.array(told)


@dataclass(frozen=True)
class UsedUp:
    """Which share of the budget was used up after each day that was answered; later days were not."""

    spent: Floats

    @property
    def days(self) -> int:
        """How many were answered."""
        return len(self.spent)

    def told(self, flags: Flags) -> Flags:
        """The alarms that were given: none after the end."""
        return np.where(np.arange(len(flags)) < self.days, flags, False)


def stopped(runs: GaussianRuns, flags: Flags, rule: StoppingRule) -> UsedUp:
    """Where the rule stops these runs, before a test or before a run."""
    told, spent = NOTHING_TOLD, []
    for above in flags.tolist():
        if not rule.admits(told, runs.losses):
            break
        last = told
        told = told.after(above=above, losses=runs.losses)
        spent.append(_used(runs, rule, last, told))
    return UsedUp(np.array(spent))


def _used(runs: GaussianRuns, rule: StoppingRule, last: Reported, told: Reported) -> float:
    """Of runs that are counted the begun ones, of the others what they lost."""
    if isinstance(rule, CountedRuns):
        return (last.halted + 1) / rule.runs
    return float(told.loss(runs.losses) / EPSILON)


def _ruled(stop: Stop, delta: Fraction) -> Callable[[GaussianRuns], StoppingRule]:
    """A rule by its name; of noise that is too small for any run, none."""

    def rule(runs: GaussianRuns) -> StoppingRule:
        parts = len(runs.series.values) if stop == "self-reporting" else None
        try:
            return rule_of(stop, EPSILON, delta, parts, runs.terms)
        except InvalidParameter:
            return CountedRuns(0)

    return rule


def as_published(runs: GaussianRuns) -> StoppingRule:
    """Self-reporting with one delta for all runs, as [GAUSS] Theorem 11 has it; the deltas really add."""
    try:
        rule = rule_of("self-reporting", EPSILON, DELTA, 1, runs.terms)
    except InvalidParameter:
        return CountedRuns(0)
    assert isinstance(rule, SelfReportingStopping)
    return replace(rule, runs=len(runs.series.values))


# Pure stopping has no delta; the others keep (1, 1e-6), but for the one as published, whose deltas add to more.
RULES: Final[dict[str, Callable[[GaussianRuns], StoppingRule]]] = {
    "pure stopping (ours)": _ruled("pure", Fraction(0)),
    "Renyi price (ours)": _ruled("renyi", DELTA),
    "self-reporting, as published": as_published,
    "self-reporting, deltas added": _ruled("self-reporting", DELTA),
    "filter, published prices": _ruled("whitehouse", DELTA),
}


def averaged(spendings: list[UsedUp], days: int) -> Floats:
    """The mean of what was spent by each day; after its end a year has spent what it had."""
    padded: list[Any] = [
        np.concatenate([each.spent, np.full(days - each.days, each.spent[-1] if each.days else 0.0)])
        for each in spendings
    ]
    return np.asarray(np.mean(padded, axis=0), dtype=np.float64)


def standard_error(figures: Floats) -> float:
    """Of a mean."""
    return float(np.std(figures, ddof=1) / math.sqrt(len(figures)))
