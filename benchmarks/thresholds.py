"""Ten thousand threshold tests that publish the value of what is above: target charging beside its peers.

Run as `python benchmarks/thresholds.py [--full]`; it needs the data sets beside the project. Every mechanism gets the
budget for as many hits as there are in truth and stops after so many reports, right or wrong; plain composition pays
for all tests beforehand and never stops. False reports use up hits, so everyone may raise its bar above the threshold
by some deviations of its own tests: by how many, and which form of a peer runs, is what has the best F1 in pilot runs
on the true stream, a favour done to all alike. Noise is seeded: numpy's for the peers, exact for ours. Sharp tests give
a part of the price of a hit to its value, drawn afresh; the agreed ones pay for 10,000 misses as well, a part that is
best.

- LCL: how many households used at least 10, 11, ..., 34 kWh on a day, on each of 400 days. A household may count in
  every test.
- Bikes: registered rentals an hour, over the last 10,000 consecutive hours without ties at the thresholds. The unit
  is a rider, who counts at most once an hour.
"""

import itertools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

from measuring import announce, full, show
from sharp_mechanisms import AGREED, SHARP, sharp_forms
from sharp_menus import Widths, speeds
from sparse_vector import ONE_SIDED, TUNED, Floats, Integers, Reports
from threshold_mechanisms import EXACT, RENYI, Mechanism, crossover, mechanisms

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
LCL, BIKES = DATA / "lcl_daily_kwh_wide.csv.gz", DATA / "bike_hour.csv"
TESTS = 10_000
LEVELS = range(10, 35)
EPSILONS = (1.0, 0.5) if full() else (1.0,)
DELTA = 1e-6
HITS = (10, 20, 50, 200)
OURS = (EXACT, RENYI, ONE_SIDED, AGREED, *SHARP.values())
LEADING = {"exact": EXACT, "sharp, value 0.1": SHARP["0.1"], "sharp, value 0.25": SHARP["0.25"], "agreed": AGREED}
RAISED = (0.0, 0.5, 1.0, 2.0)
PILOTS, RUNS = (20, 60) if full() else (5, 20)
SEED = 20_130_101
ERROR, ANSWERED, F1 = "error of values", "hits answered", "F1 of flags"
METRICS = (ERROR, ANSWERED, F1)
HEADINGS = ["", "sd test/value", "bar", "mean |error|", "% of T", "answered", "F1"]


def households() -> Integers:
    """Households by day and level, on the last 400 whole days."""
    query = f"SELECT * EXCLUDE (LCLid) FROM read_csv('{LCL}', header=true)"
    days = list(duckdb.sql(query).fetchnumpy().values())[-1 - TESTS // len(LEVELS) : -1]
    use = [np.ma.filled(day.astype(np.float64), 0) for day in days]
    return np.array([[np.count_nonzero(day >= level) for level in LEVELS] for day in use]).ravel()


def rentals() -> Integers:
    """Registered rentals of the last hours for which every number of hits has its threshold."""
    hours = duckdb.sql(f"SELECT registered FROM read_csv('{BIKES}') ORDER BY instant").fetchnumpy()["registered"]
    starts = range(len(hours) - TESTS, -1, -1)
    found = next(start for start in starts if all(separates(hours[start : start + TESTS], hits) for hits in HITS))
    return hours[found : found + TESTS].astype(np.int64)


def separates(values: Integers, hits: int) -> bool:
    """Whether some threshold has exactly so many values at or above it."""
    return bool(np.count_nonzero(values >= threshold(values, hits)) == hits)


def threshold(values: Integers, hits: int) -> int:
    """The value with `hits - 1` others at or above it."""
    return int(np.partition(values, -hits)[-hits])


@dataclass(frozen=True)
class Score:
    """What a mechanism did in each run, by metric, with its bar raised by some deviations of its tests."""

    mechanism: Mechanism
    raised: float
    runs: dict[str, Floats]

    def mean(self, metric: str) -> float:
        return float(np.nanmean(self.runs[metric]))

    def spread(self, metric: str) -> float:
        return float(np.nanstd(self.runs[metric], ddof=1))

    def row(self, bar: int) -> list[str]:
        """One line of the table."""
        made = self.mechanism
        sizes = [f"{made.test_deviation:.0f}/{made.answer_deviation:.0f}", f"+{self.raised:g} sd"]
        digits = zip(METRICS, (0, 1, 2), strict=True)
        error, *found = [f"{self.mean(each):.{places}f} ± {self.spread(each):.{places}f}" for each, places in digits]
        return [made.name, *sizes, error, f"{self.mean(ERROR) / bar:.1%}", *found]


@dataclass(frozen=True)
class Setting:
    """One stream, budget and number of hits, with the threshold and what came of it."""

    stream: str
    epsilon: float
    hits: int
    bar: int
    scores: list[Score]

    def __str__(self) -> str:
        return f"{self.stream} {self.epsilon:g}/{self.hits}"

    def best(self, metric: str) -> set[str]:
        """The best mechanism and those less than two standard errors of the difference behind it."""
        first = (min if metric == ERROR else max)(self.scores, key=lambda score: score.mean(metric))

        def level(score: Score) -> bool:
            error = np.hypot(score.spread(metric), first.spread(metric)) / np.sqrt(RUNS)
            return bool(abs(score.mean(metric) - first.mean(metric)) <= 2 * error)

        return {score.mechanism.name for score in self.scores if level(score)}

    def ratio(self, metric: str, ours: str, names: Collection[str]) -> float:
        """One of ours over the best of those that are named."""
        means = {score.mechanism.name: score.mean(metric) for score in self.scores}
        return means[ours] / (min if metric == ERROR else max)(means[name] for name in names)

    @property
    def peers(self) -> list[str]:
        """All that are not ours."""
        return [name for score in self.scores if (name := score.mechanism.name) not in OURS]

    def rows(self) -> Iterator[list[str]]:
        """A heading and one line for each mechanism."""
        title = f"{self.stream}, epsilon {self.epsilon:g}, {self.hits} hits"
        yield [title, "", f"T = {self.bar:,}", "", "", "", ""]
        yield from (score.row(self.bar) for score in self.scores)


def measured(reports: Reports, values: Integers, hits: Integers) -> tuple[float, float, float]:
    """Mean absolute error of the values reported, true hits reported, and F1."""
    right = len(np.intersect1d(reports.tests, hits))
    error = float(np.abs(reports.values - values[reports.tests]).mean()) if len(reports.tests) else np.nan
    return error, right, 2 * right / (len(reports.tests) + len(hits))


def score(mechanism: Mechanism, raised: float, values: Integers, bar: int, seed: int, runs: int) -> Score:
    """Run a mechanism over a stream again and again."""
    generator, truth = np.random.default_rng(seed), np.flatnonzero(values >= bar)
    height = bar + round(raised * mechanism.test_deviation)
    done = [measured(mechanism.run(values, height, generator), values, truth) for _ in range(runs)]
    return Score(mechanism, raised, dict(zip(METRICS, np.array(done).T, strict=True)))


def best_form(forms: list[Mechanism], values: Integers, bar: int) -> Score:
    """The form and the bar that did best in pilot runs, scored in runs of their own."""
    pilots = [score(form, raised, values, bar, SEED + 1, PILOTS) for form in forms for raised in RAISED]
    best = max(pilots, key=lambda pilot: pilot.mean(F1))
    return score(best.mechanism, best.raised, values, bar, SEED, RUNS)


def settings(streams: dict[str, Callable[[], Integers]]) -> Iterator[Setting]:
    """Every stream, budget and number of hits."""
    for stream, load in streams.items():
        values = load()
        for epsilon, hits in itertools.product(EPSILONS, HITS):
            bar = threshold(values, hits)
            all_forms = [*mechanisms(epsilon, DELTA, hits, TESTS), *sharp_forms(epsilon, DELTA, hits, TESTS)]
            yield Setting(stream, epsilon, hits, bar, [best_form(forms, values, bar) for forms in all_forms])


def kept(done: list[Setting]) -> Iterator[list[str]]:
    """All lines of the table, setting by setting, each of which is kept."""
    for setting in settings({"LCL": households, "bikes": rentals}):
        done.append(setting)
        yield from setting.rows()


def verdicts(done: list[Setting]) -> Iterator[str]:
    """Where each mechanism is best, by metric, and ours beside the best peer."""
    for metric in METRICS:
        yield f"{metric}:"
        for name in (each.mechanism.name for each in done[0].scores):
            won = [str(setting) for setting in done if name in setting.best(metric)]
            if won:
                yield f"  {name}: {', '.join(won)}"
        for hits, (name, ours) in itertools.product(HITS, LEADING.items()):
            here = [setting for setting in done if setting.hits == hits]
            best = span(setting.ratio(metric, ours, setting.peers) for setting in here)
            others = [other for other in (TUNED, EXACT) if other != ours]
            told = [
                f"{span(setting.ratio(metric, ours, [other]) for setting in here)} times {other}" for other in others
            ]
            yield f"  ours ({name}), {hits} hits: {best} times the best peer, {', '.join(told)}"
    for epsilon in EPSILONS:
        first = crossover(epsilon, DELTA)
        yield f"by theory, epsilon {epsilon:g}: ours (exact) is quieter than a tuned sparse vector from {first} hits on"


def span(ratios: Iterable[float]) -> str:
    """The least and the most."""
    low, *_, high = sorted(ratios)
    return f"{low:.2f} to {high:.2f}"


def main() -> None:
    if not (LCL.exists() and BIKES.exists()):
        sys.stdout.write("skipped: needs the LCL and bike data sets in ../shared/data beside the project\n")
        return
    announce()
    done = list[Setting]()
    caption = (
        f"sd: of the noise, by theory; bar: above T. Mean ± spread of {RUNS} runs. Errors are those of all values "
        "reported; in target charging they hold the noise that lifted a value above the bar."
    )
    show(f"{TESTS:,} threshold tests, delta {DELTA:g}", HEADINGS, kept(done), caption)
    told = "half-width / error of all values; sharp: a part of the price of a hit for its value, or none"
    widths = [row for epsilon in EPSILONS for row in Widths(epsilon, DELTA, TESTS, HITS).rows()]
    show(f"All of {TESTS:,} tests right, 95 % sure", ["hits", *map(str, HITS)], widths, told)
    values = rentals()
    times = speeds(values, threshold(values, HITS[2]), EPSILONS[0], DELTA, HITS[2])
    show("Microseconds of processor a test", ["", f"halting at {HITS[2]} hits", "to the end"], times, "median of 20")
    sys.stdout.write("Best or within two standard errors of the best, as stream epsilon/hits\n")
    sys.stdout.writelines(f"{line}\n" for line in verdicts(done))


if __name__ == "__main__":
    main()
