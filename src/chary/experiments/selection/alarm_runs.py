"""A year of runs that begin again whenever one has halted, and where four ways of accounting stop them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chary.accounting.gaussian.selection_peers import (
    FilteredSelfReporting,
    whitehouse_filter_epsilon,
    zhu_wang_nonnegative_epsilon,
)
from chary.calls.gaussian.run_state import Losses, RunTerms
from chary.errors import BudgetRefused
from chary.experiments.selection.series import Series
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
    >>> runs = GaussianRuns(Series("made up", np.array([0, 900, 100]), 1000, 1), threshold="0.5", noise="0.01")
    >>> runs.flags(Seeded(1)).tolist()
    [False, True, False]
    """

    series: Series
    threshold: Number
    noise: Number

    @property
    def mechanism(self) -> GaussianThreshold:
        """The exact mechanism, in the steps of the series."""
        top = self.series.top
        return GaussianThreshold(exact(self.threshold, "threshold") * top, exact(self.noise, "noise") * top)

    @property
    def losses(self) -> Losses:
        """The loss of a run by its length, as a session charges it."""
        terms = RunTerms(self.mechanism, Fraction(0), Fraction(self.series.top))
        return terms.losses(Fraction(self.series.moved), len(self.series.values))

    def flags(self, source: Source) -> Flags:
        """On which days runs halt if nothing stops them; after each halt the next run begins."""
        mechanism, held, told = self.mechanism, None, []
        for value in self.series.values.tolist():
            above, held = mechanism.step(Fraction(value), held or mechanism.start(source), source)
            told.append(above)
            held = None if above else held
        return np.array(told)

    def beforehand(self, delta: Number) -> float:
        """Epsilon of one run by [GAUSS] Theorem 7, at this delta."""
        own, other = (scale / self.series.top for scale in self.mechanism.scales)
        moved = Fraction(self.series.moved, self.series.top)
        noises = {"sensitivity": moved, "threshold_noise": own, "query_noise": other}
        return zhu_wang_nonnegative_epsilon(**noises, threshold=self.threshold, delta=delta)


@dataclass(frozen=True)
class Spending:
    """What was spent after each day that was answered; later days were not."""

    spent: Floats

    @property
    def days(self) -> int:
        """How many were answered."""
        return len(self.spent)

    def told(self, flags: Flags) -> Flags:
        """The alarms that were given: none after the end."""
        return np.where(np.arange(len(flags)) < self.days, flags, False)


def pure_stopping(runs: GaussianRuns, flags: Flags) -> Spending:
    """Ours: a step is taken if the worst that it may lose fits into epsilon; no delta (theory section 5)."""
    losses, closed, step, spent = runs.losses, Fraction(0), 0, []
    for halted in flags.tolist():
        step += 1
        if closed + Fraction(losses.worst(step, step)) > EPSILON:
            break
        lost = Fraction(losses.of(step, halted=halted))
        spent.append(float(closed + lost))
        closed, step = (closed + lost, 0) if halted else (closed, step)
    return Spending(np.array(spent))


def self_reporting(runs: GaussianRuns, flags: Flags, *, each: Fraction, in_all: Fraction) -> Spending:
    """[GAUSS] Algorithm 4: a run is begun if its epsilon at delta `each` fits, and then charged what it lost."""
    account, size = FilteredSelfReporting(epsilon=EPSILON, delta=in_all), runs.beforehand(each)
    losses, step, spent = runs.losses, 0, list[float]()
    for halted in flags.tolist():
        try:
            account = account if step else account.start(size, each)
        except BudgetRefused:
            break
        step += 1
        if halted:
            account, step = account.report(losses.of(step, halted=True)), 0
        spent.append(float(account.spent))
    return Spending(np.array(spent))


def as_published(runs: GaussianRuns, flags: Flags) -> Spending:
    """Self-reporting with one delta for all runs, as [GAUSS] Theorem 11 has it; the deltas really add."""
    return self_reporting(runs, flags, each=DELTA, in_all=DELTA * len(flags))


def deltas_added(runs: GaussianRuns, flags: Flags) -> Spending:
    """Self-reporting that keeps (epsilon, delta): a run a day may come, and each has its part of delta."""
    return self_reporting(runs, flags, each=DELTA / len(flags), in_all=DELTA)


def renyi_filter(runs: GaussianRuns, flags: Flags) -> Spending:
    """The filter of Whitehouse and others ([GAUSS] Theorem 20) over runs priced by the Renyi bound; half of delta is
    for the filter and the rest for the runs."""
    size, spent, begun, fresh = runs.beforehand(DELTA / 2 / len(flags)), [], 0, True
    total = 0.0
    for halted in flags.tolist():
        if fresh:
            begun += 1
            total = whitehouse_filter_epsilon([size] * begun, delta=DELTA / 2)
        if total > EPSILON:
            break
        spent.append(total)
        fresh = halted
    return Spending(np.array(spent))


ACCOUNTS: Final[dict[str, Callable[[GaussianRuns, Flags], Spending]]] = {
    "pure stopping (ours)": pure_stopping,
    "self-reporting, as published": as_published,
    "self-reporting, deltas added": deltas_added,
    "filter, Renyi prices": renyi_filter,
}


def averaged(spendings: list[Spending], days: int) -> Floats:
    """The mean of what was spent by each day; after its end a year has spent what it had."""
    padded: list[Any] = [
        np.concatenate([each.spent, np.full(days - each.days, each.spent[-1] if each.days else 0.0)])
        for each in spendings
    ]
    return np.asarray(np.mean(padded, axis=0), dtype=np.float64)


def standard_error(figures: Floats) -> float:
    """Of a mean."""
    return float(np.std(figures, ddof=1) / math.sqrt(len(figures)))
