"""Alarms and peak days in daily series under one promise, by Gaussian selection and other methods ([GAUSS])."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from chary.accounting import gaussian_runs, noisy_max_noise, sharp_table, sharp_widths, sparse_noise
from chary.calls.gaussian_runs import RunTerms, Stop, rule_of
from chary.errors import InvalidParameter
from chary.filters import Budget, largest_call
from chary.mechanisms import GaussianMax, GaussianThreshold, additive, choices, threshold_tests
from chary.noise import Seeded, Source
from chary.numbers import Number, exact
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend
from chary_research.experiments.pictures import COLOURS, legend_below, log_ticks

# Daily series as whole steps between 0 and a public top, of which one unit moves each by a known number of steps.

BIKES, LONDON, SOLAR = "bike_day.csv", "lcl_daily_aggregate.csv", "ausgrid_300_daily_aggregate.csv"
# Of a household's day, in kWh: more is clipped, so that no household moves a day's total by more.
CLIP: Final = 10
# How many days the paper looks at, and how many riders and households it counts.
YEAR: Final = 365
RIDERS, HOUSEHOLDS, CUSTOMERS = 6946, 5564, 300
_FINE: Final = 1000


@dataclass(frozen=True)
class DailySeries:
    """Values of consecutive days in whole steps from 0 to `top`; one unit moves each by at most `moved`.

    >>> week = DailySeries("made up", np.array([3, 9, 5]), 10, 1)
    >>> week.above("0.5").tolist(), week.bar("0.55"), week.sensitivity
    ([False, True, True], 6, 0.1)
    """

    name: str
    values: NDArray[np.int64]
    top: int
    moved: int

    @property
    def sensitivity(self) -> float:
        """By how much of the range one unit moves a value."""
        return self.moved / self.top

    def bar(self, share: Number) -> int:
        """The least value at or above this share of the range."""
        return -int(-exact(share, "threshold") * self.top // 1)

    def above(self, share: Number) -> NDArray[np.bool_]:
        """Which days are at or above a proportion of the range: the answer without noise."""
        return self.values >= self.bar(share)


def bikes(data: DataFolder) -> DailySeries:
    """Registered riders in Washington on the first 365 days, of 6,946 on the best day of both years; a rider counts
    once a day."""
    return DailySeries("bikes", data.column(BIKES, "registered")[:YEAR].astype(np.int64), RIDERS, 1)


def london(data: DataFolder) -> DailySeries:
    """Use of 5,564 London households, each clipped at 10 kWh a day, as a proportion of 5,564 times 10 kWh.

    A household that was not read counts as 0, so one moves each day by 1/5564 at most. The last day, of which one
    half-hour is there, is left out.
    """
    clipped = data.column(LONDON, f"mean_clip{CLIP}") * data.column(LONDON, "n_value")
    top = HOUSEHOLDS * CLIP * _FINE
    return DailySeries("London", np.rint(clipped[:-1] * _FINE).astype(np.int64).clip(0, top), top, CLIP * _FINE)


def solar(data: DataFolder) -> DailySeries:
    """Use of 300 customers in New South Wales on 365 days, as a proportion of the largest mean: the paper's NEAR data.

    What the paper cites for NEAR (Ratnam, Weller, Kellett and Murray 2017) describes Ausgrid's 300 homes. Only means
    over all customers are to be had here, so nobody could be clipped: that one customer moves a day by 1/300 is
    assumed, as in the paper. Which of the three years the paper took it does not say; here it is the first.
    """
    means = data.column(SOLAR, "mean_gross_kwh_per_customer")[:YEAR]
    top = CUSTOMERS * _FINE
    return DailySeries("solar homes", np.rint(means / means.max() * top).astype(np.int64), top, _FINE)


SERIES: Final[dict[str, Callable[[DataFolder], DailySeries]]] = {"bikes": bikes, "London": london, "solar homes": solar}


def scored(told: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    """The F1 score: twice the days rightly reported over all that were reported and all that should be; 0 where nothing
    was.

    >>> scored(np.array([True, True, False]), np.array([True, False, False]))
    0.666...
    """
    right = int(np.count_nonzero(told & truth))
    return 2 * right / max(1, int(np.count_nonzero(told)) + int(np.count_nonzero(truth)))


# A year of runs that begin again whenever one has halted, and where the rules stop them that keep one promise.

EPSILON: Final = Fraction(1)
DELTA: Final = Fraction(1, 10**6)
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class GaussianRuns:
    """Above threshold with Gaussian noise on a series, both noises as proportions of its range.

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
    def losses(self) -> gaussian_runs.Losses:
        """The loss of a run by its length, as a session charges it."""
        terms = RunTerms(self.mechanism, Fraction(0), Fraction(self.series.top))
        return terms.losses(Fraction(self.series.moved), len(self.series.values))

    @property
    def terms(self) -> gaussian_runs.RunNoise:
        """What costs at a Renyi order follow from."""
        return gaussian_runs.RunNoise(self.series.moved, *self.mechanism.scales, Fraction(self.mechanism.threshold))

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
    """Which share of the budget was spent after each day that was answered; later days were not."""

    spent: Floats

    @property
    def days(self) -> int:
        """How many were answered."""
        return len(self.spent)

    def told(self, flags: Flags) -> Flags:
        """The alarms that were given: none after the end."""
        return np.where(np.arange(len(flags)) < self.days, flags, False)


def stopped(runs: GaussianRuns, flags: Flags, rule: gaussian_runs.StoppingRule) -> UsedUp:
    """Where the rule stops these runs, before a test or before a run."""
    told, spent = gaussian_runs.NOTHING_TOLD, []
    for above in flags.tolist():
        if not rule.admits(told, runs.losses):
            break
        last = told
        told = told.after(above=above, losses=runs.losses)
        spent.append(_used(runs, rule, last, told))
    return UsedUp(np.array(spent))


def _used(
    runs: GaussianRuns, rule: gaussian_runs.StoppingRule, last: gaussian_runs.Reported, told: gaussian_runs.Reported
) -> float:
    """Of runs that are counted the begun ones, of the others what they lost."""
    if isinstance(rule, gaussian_runs.CountedRuns):
        return (last.halted + 1) / rule.runs
    return float(told.loss(runs.losses) / EPSILON)


Rule = Callable[..., gaussian_runs.StoppingRule]


def _ruled(stop: Stop, delta: Fraction) -> Rule:
    """A rule by its name; of noise that is too small for any run, none."""

    def rule(runs: GaussianRuns, epsilon: Fraction = EPSILON) -> gaussian_runs.StoppingRule:
        parts = len(runs.series.values) if stop == "self-reporting" else None
        try:
            return rule_of(stop, epsilon, delta, parts, runs.terms)
        except InvalidParameter:
            return gaussian_runs.CountedRuns(0)

    return rule


def as_published(runs: GaussianRuns) -> gaussian_runs.StoppingRule:
    """Self-reporting with one delta for all runs, as [GAUSS] Theorem 11 has it; the deltas really add."""
    try:
        rule = rule_of("self-reporting", EPSILON, DELTA, 1, runs.terms)
    except InvalidParameter:
        return gaussian_runs.CountedRuns(0)
    assert isinstance(rule, gaussian_runs.SelfReportingStopping)
    return replace(rule, runs=len(runs.series.values))


# Pure stopping has no delta; the others keep (1, 1e-6), but for the one as published, whose deltas add to more.
RULES: Final[dict[str, Rule]] = {
    "pure stopping (this work)": _ruled("pure", Fraction(0)),
    "Renyi cost (this work)": _ruled("renyi", DELTA),
    "self-reporting, as published": as_published,
    "self-reporting, deltas added": _ruled("self-reporting", DELTA),
    "filter, published costs": _ruled("whitehouse", DELTA),
}


# Budgets of which the least that pays for this many runs is what they cost.
_BUDGETS: Final = tuple(Fraction(f"{budget:.4f}") for budget in np.geomspace(0.01, 1, 24))


def epsilon_of(runs: GaussianRuns, name: str) -> Callable[[UsedUp], float]:
    """What a year cost by this rule: the losses that are reported. For runs that are counted it is the least budget, of
    24 from 0.01 to 1, which pays for as many."""
    rule = RULES[name]
    whole = rule(runs)
    if not isinstance(whole, gaussian_runs.CountedRuns):
        return lambda end: float(end.spent[-1] * float(EPSILON)) if end.days else 0.0
    paid = [rule(runs, budget) for budget in _BUDGETS]
    counts = [each.runs for each in paid if isinstance(each, gaussian_runs.CountedRuns)]

    def cost(end: UsedUp) -> float:
        begun = round(end.spent[-1] * whole.runs) if end.days else 0
        return next((float(b) for b, count in zip(_BUDGETS, counts, strict=True) if count >= begun), 1.0) * (begun > 0)

    return cost


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


# What else flags days under the same promise: target charging, optimal threshold tests, the tuned sparse vector.

Method = Callable[[DailySeries, int, int, Source, Fraction], Flags]


def target_charging(series: DailySeries, bar: int, hits: int, source: Source, epsilon: Fraction = EPSILON) -> Flags:
    """A noisy test a day, of which only hits are charged: (epsilon, delta) by the exact curve of this many hits."""
    noise = additive.Laplace.for_epsilon(_call(hits, epsilon), sensitivity=series.moved)
    return until_spent(noise.apply(series.values, source) >= bar, hits)


def sharp_tests(series: DailySeries, bar: int, hits: int, source: Source, epsilon: Fraction = EPSILON) -> Flags:
    """The sharpest test a day, whose misses cost a part of the budget that is set aside for a year of them."""
    sampler = _sampler(len(series.values), hits, series.moved, epsilon)
    return until_spent(sampler.hits(series.values - bar, source), hits)


def sparse_vector(series: DailySeries, bar: int, hits: int, source: Source, epsilon: Fraction = EPSILON) -> Flags:
    """The tuned sparse vector for monotone questions: epsilon alone, charged once."""
    machine = threshold_tests.SparseVectorMachine(sparse_noise(epsilon=epsilon, hits=hits, monotone=True), series.moved)
    _, crossed = machine.step(machine.start(source), series.values, bar, source)
    told = np.zeros(len(series.values), dtype=np.bool_)
    told[crossed.positions] = True
    return told


METHODS: Final[dict[str, Method]] = {
    "target charging": target_charging,
    "optimal threshold tests": sharp_tests,
    "sparse vector": sparse_vector,
}


def until_spent(flags: Flags, hits: int) -> Flags:
    """The first this many hits: then nothing more can be paid.

    >>> until_spent(np.array([True, False, True, True]), 2).tolist()
    [True, False, True, False]
    """
    return np.asarray(flags & (np.cumsum(flags) <= hits))


@cache
def _call(hits: int, epsilon: Fraction) -> Fraction:
    return largest_call(Budget(epsilon=epsilon, delta=DELTA), hits, "exact")


@cache
def _sampler(tests: int, hits: int, moved: int, epsilon: Fraction) -> threshold_tests.SharpSampler:
    test = sharp_widths.sharp_width(epsilon=epsilon, delta=DELTA, tests=tests, hits=hits, misses_share="best").test
    return threshold_tests.SharpSampler(
        sharp_table(order=test.order, price=test.price, miss_price=test.miss_price, steps=moved)
    )


# Days above a threshold, flagged one by one under one promise ([GAUSS] Figures 5, 17 and 19).

OURS, RENYI, PUBLISHED, ADDED, FILTERED = RULES
# What coincides is seen: pale and wide below, dashed above.
_STYLES: Final[dict[str, dict[str, Any]]] = {
    OURS: {"color": COLOURS["pure"], "linewidth": 1.2},
    RENYI: {"color": COLOURS["Renyi"], "linewidth": 1.5},
    PUBLISHED: {"color": COLOURS["published"], "linewidth": 5, "alpha": 0.35, "zorder": 1},
    ADDED: {"color": COLOURS["published, mended"], "linewidth": 1.5, "linestyle": (0, (3, 3)), "zorder": 3},
    FILTERED: {"color": COLOURS["published filter"], "linewidth": 1.5},
}
_METHODS: Final = {
    name: COLOURS[colour] for name, colour in zip(METHODS, ("target charging", "sharp", "tuned"), strict=True)
}
BUDGETS: Final = ("0.1", "0.2", "0.5", "1")


class AlarmFigure(Experiment):
    """F1 of flagged days by the noise and by what was spent, for each stopping rule and each threshold."""

    size = (11.0, 6.2)
    series: ClassVar[str]
    thresholds: ClassVar[tuple[str, ...]]
    noises: ClassVar[tuple[str, ...]] = ("0.01", "0.02", "0.03", "0.05", "0.075", "0.1", "0.15", "0.2", "0.3")

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        runs = 5 if quick else 50
        noises = self.noises[1::3] if quick else self.noises
        shared = [{"threshold": threshold, "runs": runs} for threshold in self.thresholds]
        gaussian = [{**each, "noise": noise} for each in shared for noise in noises]
        budgets = BUDGETS[1::2] if quick else BUDGETS
        by_hits = [{**each, "method": method} for each in shared for method in METHODS]
        return gaussian + [{**each, "budget": budget} for each in by_hits for budget in budgets]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        return self._gaussian(settings, seed, data) if "noise" in settings else self._by_hits(settings, seed, data)

    def _gaussian(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        """One year of runs, cut off by each rule."""
        series = SERIES[self.series](data)
        threshold = settings["threshold"]
        runs, truth = GaussianRuns(series, threshold, settings["noise"]), series.above(threshold)
        flags = [runs.flags(Seeded(seed + run)) for run in range(settings["runs"])]
        found = []
        for name, ruled in RULES.items():
            rule, cost = ruled(runs), epsilon_of(runs, name)
            ends = [stopped(runs, flag, rule) for flag in flags]
            scores = np.array([scored(end.told(flag), truth) for end, flag in zip(ends, flags, strict=True)])
            spent = float(averaged(ends, len(truth))[-1])
            more = {"spent": spent, "answered": float(np.mean([end.days for end in ends]))}
            more["epsilon"] = float(np.mean([cost(end) for end in ends]))
            found.append({**settings, "method": name, **_summary(scores), **more})
        return found

    def _by_hits(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        """The same days by methods that foresee a number of hits: all days, or half of them."""
        series = SERIES[self.series](data)
        truth, bar = series.above(settings["threshold"]), series.bar(settings["threshold"])
        flagged, epsilon = METHODS[settings["method"]], Fraction(settings["budget"])
        found = []
        for hits in (len(truth), len(truth) // 2):
            years = [flagged(series, bar, hits, Seeded(seed + run), epsilon) for run in range(settings["runs"])]
            scores = np.array([scored(told, truth) for told in years])
            always = scored(np.ones(len(truth), dtype=np.bool_), truth)
            more = {"epsilon": float(epsilon), "all_flagged": always}
            found.append({**settings, "hits": hits, **_summary(scores), **more})
        return found

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(2, len(self.thresholds), sharey=True)
        for (upper, lower), threshold in zip(panes.T, self.thresholds, strict=True):
            part = found.where(threshold=threshold)
            self._by_noise(upper, part)
            self._by_epsilon(lower, part)
            upper.set(title=f"{self.series}, threshold {threshold}", xlabel="threshold noise", ylim=(0, 1.02))
            log_ticks(upper, [float(noise) for noise in found.distinct("noise")], most=5)
            lower.set(xlabel="epsilon spent; of whole budgets the budget", xlim=(0.03, 1.3))
            log_ticks(lower, [0.03, 0.1, 0.3, 1])
            for axes in (upper, lower):
                axes.axhline(self._always(part), color="#c9ced6", label="every day flagged")
        for axes in panes[:, 0]:
            axes.set_ylabel("F1 score")
        legend_below(figure, panes[0, 0])

    def _by_noise(self, axes: Axes, found: Measurements) -> None:
        for name, style in _STYLES.items():
            part = found.where(method=name)
            noises = [float(noise) for noise in part["noise"]]
            axes.errorbar(noises, part["f1"], part["f1_error"], marker="o", markersize=3, label=name, **style)
        for name, colour in _METHODS.items():
            axes.axhline(self._best(found, name, BUDGETS[-1]), color=colour, linestyle="--", label=name)

    def _by_epsilon(self, axes: Axes, found: Measurements) -> None:
        """Of runs, a point for each noise; of the others one for each whole budget."""
        for name, style in _STYLES.items():
            part = Measurements(row for row in found.where(method=name) if row["epsilon"])
            axes.plot(part["epsilon"], part["f1"], marker="o", markersize=3, **style)
        for name, colour in _METHODS.items():
            budgets = found.where(method=name).distinct("budget")
            best = [self._best(found, name, budget) for budget in budgets]
            axes.plot([float(budget) for budget in budgets], best, "s--", markersize=4, color=colour)

    def _always(self, found: Measurements) -> float:
        return float(found.where(method="sparse vector")[0]["all_flagged"])

    def trends(self, found: Measurements) -> Sequence[Trend]:
        parts = [found.where(threshold=threshold) for threshold in self.thresholds]
        best = {name: np.array([self._best(part, name) for part in parts]) for name in RULES}
        best |= {name: np.array([self._best(part, name, BUDGETS[-1]) for part in parts]) for name in METHODS}
        fifth = np.array([self._best(part, "optimal threshold tests", "0.2") for part in parts])
        least = np.min([best["target charging"], best["optimal threshold tests"]], axis=0)
        gaussian = np.max([best[name] for name in RULES], axis=0)
        # The same runs are cut off by all rules, so little is left to chance.
        room = 0.005
        return [
            Trend("pure stopping scores at least what self-reporting does", np.all(best[OURS] >= best[ADDED] - room)),
            Trend("self-reporting beats the filter with published costs", self._beats(best, ADDED, FILTERED)),
            Trend("so does our Renyi cost", self._beats(best, RENYI, FILTERED)),
            Trend("no rule makes a difference where noise is large", self._alike(found)),
            Trend(
                "target charging and optimal threshold tests beat all runs with Gaussian noise",
                np.all(least > gaussian + 0.02),
            ),
            Trend("so does the tuned sparse vector", np.all(best["sparse vector"] > gaussian)),
            Trend("optimal threshold tests beat them with a fifth of the budget", np.all(fifth > gaussian)),
            Trend("no run of losses or costs takes more than the budget", _within(found, "epsilon")),
            Trend("no rule passes its budget, but for those of self-reporting", _within(found, "spent")),
        ]

    def _beats(self, best: dict[str, np.ndarray[Any, Any]], one: str, other: str) -> bool:
        """On average over the thresholds."""
        return bool(best[one].mean() > best[other].mean())

    def _alike(self, found: Measurements) -> bool:
        """Of those that keep their promise, at the largest noise and the highest threshold."""
        last = found.where(threshold=self.thresholds[-1], noise=found.distinct("noise")[-1])
        return len({row["f1"] for row in last if row["method"] in (OURS, RENYI, ADDED)}) == 1

    def _best(self, found: Measurements, method: str, budget: str | None = None) -> float:
        """Of all noises, or of all numbers of hits that were foreseen with this budget."""
        part = found.where(method=method) if budget is None else found.where(method=method, budget=budget)
        return max(float(row["f1"]) for row in part)


class BikeAlarms(AlarmFigure):
    """The year of registered riders."""

    name = "alarms-bikes"
    shows = "Days with many riders, flagged one by one at epsilon 1: F1 by noise and by what is spent."
    source = "[GAUSS] Figure 17"
    needs = (BIKES,)
    series = "bikes"
    thresholds = ("0.3", "0.5", "0.6")


class LondonAlarms(AlarmFigure):
    """London households, 828 days."""

    name = "alarms-london"
    shows = "Days of much power in London, flagged one by one at epsilon 1: F1 by noise and by what is spent."
    source = "[GAUSS] Figures 5 and 19"
    needs = (LONDON,)
    series = "London"
    thresholds = ("0.5", "0.65", "0.7")


def _within(found: Measurements, figure: str) -> bool:
    """Whether a figure stays within the budget for all rules but self-reporting, which may report more than epsilon:
    its true losses pass epsilon with probability delta."""
    return all(row[figure] <= 1 for row in found if row["method"] in (OURS, RENYI, FILTERED))


def _summary(scores: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    return {"f1": float(scores.mean()), "f1_error": standard_error(scores)}


# What a year of alarms has spent by each day ([GAUSS] Figures 18 and 20).

EVERY: Final = 21
NARROW: Final = "0.075"
_SHOWN: Final = {"bikes": ("0.5", "0.1"), "London": ("0.65", "0.2")}


class AlarmSpending(Experiment):
    """The mean of what was spent by each day, for each stopping rule."""

    name = "alarm-spending"
    shows = "Alarms at epsilon 1: what was exhausted by each day, by stopping rule."
    source = "[GAUSS] Figures 18 and 20"
    needs = (BIKES, LONDON)
    size = (11.0, 3.8)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        runs = 5 if quick else 50
        return [
            {"series": series, "threshold": threshold, "noise": noise, "runs": runs}
            for series, (threshold, usual) in _SHOWN.items()
            for noise in (NARROW, usual)
        ]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        series = SERIES[settings["series"]](data)
        runs, days = GaussianRuns(series, settings["threshold"], settings["noise"]), len(series.values)
        flags = [runs.flags(Seeded(seed + run)) for run in range(settings["runs"])]
        found = []
        for name, ruled in RULES.items():
            rule = ruled(runs)
            spent = averaged([stopped(runs, flag, rule) for flag in flags], days)
            found += [
                {**settings, "method": name, "day": day + 1, "spent": spent[day]} for day in range(0, days, EVERY)
            ]
        return [{**row, "spent": float(row["spent"])} for row in found]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, len(_SHOWN), sharey=True)
        for axes, series in zip(panes, _SHOWN, strict=True):
            part = found.where(series=series)
            for every, noise in zip((None, 3), part.distinct("noise"), strict=True):
                for method, style in _STYLES.items():
                    line, label = part.where(noise=noise, method=method), None if every else method
                    more = {"marker": "o", "markersize": 4, "markevery": every} if every else {}
                    axes.plot(line["day"], line["spent"], label=label, **style, **more)
            noises = " (with dots ".join(part.distinct("noise"))
            axes.set(title=f"{series}, threshold {_SHOWN[series][0]}, noise {noises})", xlabel="day", ylim=(0, 1.02))
        panes[0].set_ylabel("fraction of the budget exhausted")
        legend_below(figure, panes[0])

    def trends(self, found: Measurements) -> Sequence[Trend]:
        lines = [
            self._line(found, series, noise, rule)
            for series in _SHOWN
            for noise in self._noises(series)
            for rule in RULES
        ]
        early = [[self._half(found, series, NARROW, rule) for rule in (OURS, FILTERED)] for series in _SHOWN]
        late = [[self._line(found, s, _SHOWN[s][1], rule)[-1] for rule in (RENYI, OURS)] for s in _SHOWN]
        return [
            Trend("nothing that was exhausted comes back", all(np.all(np.diff(line) > -1e-9) for line in lines)),
            Trend("pure stopping, our Renyi cost and the filter keep their budget", _within(found, "spent")),
            Trend(
                "with less noise the filter with published costs ends first", all(own < other for own, other in early)
            ),
            Trend(
                "with more noise our Renyi cost uses less than a third of the losses", all(3 * a < b for a, b in late)
            ),
            Trend("with more noise a year costs less", self._less(found)),
        ]

    def _line(self, found: Measurements, series: str, noise: str, rule: str) -> NDArray[np.float64]:
        return found.where(series=series, noise=noise, method=rule).column("spent")

    def _half(self, found: Measurements, series: str, noise: str, rule: str) -> float:
        """What is spent half-way."""
        line = self._line(found, series, noise, rule)
        return float(line[len(line) // 2])

    def _less(self, found: Measurements) -> bool:
        """Of pure stopping."""
        ours = found.where(method=OURS)
        spent = [[ours.where(series=s, noise=noise)["spent"][-1] for noise in self._noises(s)] for s in _SHOWN]
        return all(each == sorted(each, reverse=True) for each in spent)

    def _noises(self, series: str) -> list[str]:
        return [NARROW, _SHOWN[series][1]]


# The day of the maximum, chosen once ([GAUSS] Figures 12, 15 and 16).


class _Chooser(Protocol):
    def step(self, values: NDArray[np.int64], source: Source) -> int:
        """The position that is chosen."""


def gaussian(series: DailySeries, epsilon: str) -> GaussianMax:
    """The noisy maximum with the least Gaussian noise that the pure bound allows."""
    moved = Fraction(series.moved, series.top)
    return GaussianMax(series.top * noisy_max_noise(epsilon, len(series.values), sensitivity=moved))


def laplace_of_all(series: DailySeries, epsilon: str) -> choices.ReportNoisyMax:
    """Laplace noise for publishing every value: of scale d D / epsilon, as the paper seems to have it."""
    return choices.ReportNoisyMax(epsilon, len(series.values) * series.moved, monotone=True)


WAYS: Final[dict[str, Callable[[DailySeries, str], _Chooser]]] = {
    "Gaussian, pure": gaussian,
    "exponential": lambda series, epsilon: choices.Exponential(epsilon, series.moved),
    "permute-and-flip": lambda series, epsilon: choices.PermuteAndFlip(epsilon, series.moved),
    "Laplace": lambda series, epsilon: choices.ReportNoisyMax(epsilon, series.moved),
    "Laplace, scaled to all values": laplace_of_all,
}


# Exponential mechanism and Laplace noise coincide but for a percent: pale and wide below, dashed above.
_WAYS: Final[dict[str, dict[str, Any]]] = {
    "Gaussian, pure": {"color": COLOURS["Gaussian"]},
    "exponential": {"color": COLOURS["exponential"], "linewidth": 5, "alpha": 0.3},
    "permute-and-flip": {"color": COLOURS["permute-and-flip"]},
    "Laplace": {"color": COLOURS["Laplace"], "linestyle": (0, (3, 3))},
    "Laplace, scaled to all values": {"color": COLOURS["scaled Laplace"]},
}


class PeakDays(Experiment):
    """How near the chosen day comes to the largest, by epsilon and by mechanism."""

    name = "peak-days"
    shows = "The day of the maximum: how near the chosen one comes, by epsilon and by mechanism."
    source = "[GAUSS] Figures 12, 15 and 16"
    needs = (BIKES, LONDON, SOLAR)
    size = (11.0, 3.6)
    epsilons: Final = ("0.001", "0.003", "0.01", "0.03", "0.1", "0.3", "1")

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        trials, epsilons = (150, self.epsilons[::2]) if quick else (1000, self.epsilons)
        return [
            {"series": series, "by": by, "epsilon": epsilon, "trials": trials}
            for series in SERIES
            for by in WAYS
            for epsilon in epsilons
        ]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        series, source = SERIES[settings["series"]](data), Seeded(seed)
        chooser = WAYS[settings["by"]](series, settings["epsilon"])
        chosen = series.values[[chooser.step(series.values, source) for _ in range(settings["trials"])]]
        accuracies = chosen / series.values.max()
        return [{**settings, "accuracy": float(accuracies.mean()), "error": standard_error(accuracies)}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, len(SERIES))
        for axes, series in zip(panes, SERIES, strict=True):
            for by, style in _WAYS.items():
                part = found.where(series=series, by=by)
                epsilons = [float(epsilon) for epsilon in part["epsilon"]]
                told = (100 * part["accuracy"], 100 * part["error"])
                axes.errorbar(epsilons, *told, marker="o", markersize=3, label=by, **style)
            axes.set(title=series, xlabel="epsilon", xscale="log")
        panes[0].set_ylabel("chosen / largest, %")
        legend_below(figure, panes[0])

    def trends(self, found: Measurements) -> Sequence[Trend]:
        means = {by: np.array([found.where(series=s, by=by)["accuracy"].mean() for s in SERIES]) for by in WAYS}
        last = found.where(epsilon=self.epsilons[-1])
        lines = [found.where(series=series, by=by)["accuracy"] for series in SERIES for by in WAYS]
        scaled, exponential = means["Laplace, scaled to all values"], means["exponential"]
        others = np.min([means[by] for by in ("exponential", "permute-and-flip", "Laplace")], axis=0)
        near = [last.where(by=by)["accuracy"].min() for by in ("exponential", "permute-and-flip", "Laplace")]
        return [
            Trend(
                "Gaussian noise beats Laplace noise that is scaled to all values",
                np.all(means["Gaussian, pure"] > scaled),
            ),
            Trend(
                "Laplace noise as it need be beats Gaussian noise", np.all(means["Laplace"] > means["Gaussian, pure"])
            ),
            Trend("so do the exponential mechanism and permute-and-flip", np.all(others > means["Gaussian, pure"])),
            Trend(
                "permute-and-flip is no worse than the exponential mechanism",
                np.all(means["permute-and-flip"] > exponential - 0.01),
            ),
            Trend("every mechanism chooses better with more epsilon", all(line[-1] > line[0] for line in lines)),
            Trend("at epsilon 1 all three are within 1 in 100 of the largest", min(near) > 0.99),
        ]
