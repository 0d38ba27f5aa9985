"""Alerts on panels of people and homes for years: each firing and clearing next to the truth, and next to its quote."""

import csv
import gzip
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from numpy.typing import NDArray

from chary.calls import Alert
from chary.calls.alerts import A_YEAR, AlertLaw, AlertMemory
from chary.core.plan import Data
from chary.data import count, sum
from chary.demo.panel import people, start
from chary.filters import Budget
from chary.noise import Seeded
from chary.session import open
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Years of weekly batches, and what is true of each week of them, which is shown only because these data are public.

WEEK: Final = timedelta(days=7)


@dataclass(frozen=True)
class Batch:
    """The rows of one week: whose each is, of which group, on which day from 0 to 6, and how much."""

    units: Integers
    groups: Integers
    days: Integers
    values: NDArray[np.float64]

    def table(self, monday: date) -> pa.Table:
        """As a session is given it."""
        days = np.datetime64(monday) + self.days
        return pa.table({"unit": self.units, "kind": self.groups, "day": days, "amount": self.values})

    def units_from(self, least: float) -> int:
        """How many units have a row with so much."""
        return len(np.unique(self.units[self.values >= least]))

    def total(self, most: int, rows: int) -> int:
        """The sum of whole amounts up to `most`, of the largest `rows` of each unit."""
        kept = np.floor(np.clip(self.values, 0, most) + 0.5).astype(np.int64)
        order = np.lexsort((-kept, self.units))
        units, kept = self.units[order], kept[order]
        place = np.arange(len(units)) - np.searchsorted(units, units)
        return int(kept[place < rows].sum())

    def of(self, group: int) -> "Batch":
        """The rows of one group."""
        held = self.groups == group
        return Batch(self.units[held], self.groups[held], self.days[held], self.values[held])


@dataclass(frozen=True)
class Years:
    """Weekly batches, the first Monday, and the groups, which are public.

    Three alerts watch them, each in the last `weeks`. They are units with at least `much`, the same by group, and the
    sum of amounts of up to `most`, of `rows` a unit. `bars` are the thresholds of each, where it fires and where it
    clears.
    """

    batches: Sequence[Batch]
    monday: date
    weeks: int
    groups: Sequence[int]
    much: int
    most: int
    rows: int
    bars: Mapping[str, tuple[int, int]]

    def alert(self, name: str, hits: int) -> Alert:
        """One of the alerts, of which this many changes fit into the budget."""
        above, clear_below = self.bars[name]
        large = count(f"amount >= {self.much}")
        asked: dict[str, Any] = {
            "units": large,
            "groups": large.by("kind", self.groups),
            "sum": sum("amount", bounds=(0, self.most), max_rows_per_unit=self.rows),
        }
        window: dict[str, Any] = {"time": "day", "window": f"{self.weeks} weeks"}
        return Alert(asked[name], above=above, clear_below=clear_below, hits=hits, **window)

    def truths(self, name: str) -> Integers:
        """What it watches, a row a week and a column a group."""
        told: dict[str, Callable[[Batch], list[int]]] = {
            "units": lambda batch: [batch.units_from(self.much)],
            "groups": lambda batch: [batch.of(group).units_from(self.much) for group in self.groups],
            "sum": lambda batch: [batch.total(self.most, self.rows)],
        }
        return np.array([told[name](self._seen(week)) for week in range(len(self.batches))])

    def _seen(self, week: int) -> Batch:
        """The rows of the window that ends with a week."""
        seen = [vars(batch) for batch in self.batches[max(0, week + 1 - self.weeks) : week + 1]]
        return Batch(**{name: np.concatenate([each[name] for each in seen]) for name in seen[0]})

    def sunday(self, week: int) -> date:
        """The last day of a week."""
        return self.monday + WEEK * week + timedelta(days=6)


ALERTS: Final = ("units", "groups", "sum")
_BUDGET: Final = Budget(epsilon=1, delta=Fraction(1, 10**6))
_FIRST_YEARS: Final = 3


@cache
def clinic() -> Years:
    """Three years of the RAND panel: the doctor visits of 5,600 people, each put on a day, more of them in winter.

    In which week and on which day a visit was is synthetic, the same each time. How many a person had, and how much was
    paid for them, is as in the study.
    """
    drawn, panel = np.random.default_rng(1), people()
    seasons = 1 + 0.8 * np.cos(2 * np.pi * np.arange(A_YEAR) / A_YEAR)
    found = []
    for year in range(1, _FIRST_YEARS + 1):
        rows = panel.filter(pa.array(panel["year"].to_numpy() == year))
        visits = rows["mdvis"].to_numpy()
        paid = np.where(visits > 0, rows["outpdol"].to_numpy() / np.maximum(visits, 1), 0)
        weeks = drawn.choice(A_YEAR, int(visits.sum()), p=seasons / seasons.sum())
        days = drawn.integers(0, 7, len(weeks))
        each = [np.repeat(values, visits) for values in (rows["zper"].to_numpy(), rows["female"].to_numpy(), paid)]
        for week in range(A_YEAR):
            units, sites, amounts = (values[weeks == week] for values in each)
            found.append(Batch(units, sites, days[weeks == week], amounts))
    bars = {"units": (1200, 900), "groups": (550, 400), "sum": (20_000, 14_000)}
    return Years(found, date(2024, 1, 1), 4, (0, 1), 1, 20, 2, bars)


HOMES, HOUSEHOLDS = "lcl_daily_kwh_wide.csv.gz", "lcl_households.csv"
_ACORN: Final = ("Affluent", "Comfortable", "Adversity")


@cache
def london(homes: Path, households: Path) -> Years:
    """118 weeks of 5,566 London homes, a row for each home and day that was read; groups are kinds of neighbourhood."""
    with households.open(encoding="utf-8") as lines:
        kinds = {row["LCLid"]: row["Acorn_grouped"] for row in csv.DictReader(lines)}
    with gzip.open(homes, "rt") as lines:
        head, *rows = csv.reader(lines)
    loads = np.array([[float(cell or "nan") for cell in row[1:]] for row in rows])
    groups = np.array([_ACORN.index(kind) if (kind := kinds[row[0]]) in _ACORN else len(_ACORN) for row in rows])
    monday = date.fromisoformat(head[1])
    found = []
    # The last day, of which one half-hour is there, is left out, as is the week that would not be whole.
    for week in range((len(head) - 2) // 7):
        units, days = np.nonzero(~np.isnan(loads[:, 7 * week : 7 * week + 7]))
        found.append(Batch(units, groups[units], days, loads[units, 7 * week + days]))
    bars = {"units": (1200, 900), "groups": (350, 200), "sum": (440_000, 380_000)}
    return Years(found, monday, 1, range(len(_ACORN)), 20, 50, 7, bars)


# The states that an alert without noise would say, and what one with noise told beside them.


def exact_states(truths: Integers, above: int, clear_below: int) -> Flags:
    """Which groups are active in which week, by the same two thresholds, without noise.

    >>> exact_states(np.array([[3], [9], [6], [4], [6]]), 8, 5).ravel().tolist()
    [False, True, True, False, False]
    """
    states, active = [], np.zeros(truths.shape[1], dtype=np.bool_)
    for values in truths:
        active = np.where(active, values >= clear_below, values >= above)
        states.append(active)
    return np.array(states)


@dataclass
class Told:
    """What one alert published in all weeks that it could pay for: states, changes, and whether values were in
    intervals."""

    states: list[Flags] = field(default_factory=list)
    changes: list[Flags] = field(default_factory=list)
    covered: list[bool] = field(default_factory=list)

    def add(self, answer: Any, truths: Integers) -> None:
        """The answer of one week more."""
        if not hasattr(answer, "keys"):
            cells = [{"state": answer.state, "changed": answer.changed}]
            if answer.changed:
                cells[0] |= dict(zip(("low", "high"), answer.interval, strict=True))
        else:
            cells = [answer.cells(group) for group in range(len(answer.keys))]
        self.states.append(np.array([cell["state"] == "active" for cell in cells]))
        self.changes.append(np.array([cell["changed"] for cell in cells]))
        for cell, truth in zip(cells, truths, strict=True):
            if cell["changed"]:
                low, high = cell["low"], cell["high"]
                self.covered.append(bool((low is None or low <= truth) and (high is None or truth <= high)))

    @property
    def in_turn(self) -> bool:
        """Whether states turned where a change was reported, and nowhere else."""
        states = np.array(self.states)
        return np.array_equal(np.diff(states, axis=0, prepend=False), np.array(self.changes))

    def false(self, truths: Integers, above: int, clear_below: int) -> tuple[int, int]:
        """How often it fired at a truth below the threshold, and cleared at one that was not below the other one."""
        seen, changes = truths[: len(self.states)], np.array(self.changes)
        fired, cleared = changes & np.array(self.states), changes & ~np.array(self.states)
        return int(np.sum(fired & (seen < above))), int(np.sum(cleared & (seen >= clear_below)))


def delays(told: NDArray[Any], exact: Flags) -> tuple[list[int], int]:
    """How many weeks after the exact alert each of its changes was reported, and how many never were.

    One that was reported before, and holds, is reported at once. Groups are columns; weeks after the budget ended are
    missed, as are those that were refused, which are neither state.

    >>> exact = np.array([[0], [1], [1], [1], [0], [0]], dtype=bool)
    >>> delays(np.array([[0], [0], [1], [1], [1], [0]], dtype=bool), exact), delays(exact & False, exact)
    (([1, 1], 0), ([0], 1))
    """
    found, missed = [], 0
    for own, true in zip(told.T, exact.T, strict=True):
        changes = np.flatnonzero(np.diff(true, prepend=False))
        for begun, ended in zip(changes, [*changes, len(true)][1:], strict=True):
            right = np.flatnonzero(own[begun : min(ended, len(own))] == true[begun])
            if len(right):
                found.append(int(right[0]))
            else:
                missed += 1
    return found, missed


def expected_false(law: AlertLaw, truths: Integers, above: int, clear_below: int) -> tuple[float, float]:
    """How many false firings and clearings the distribution of the test foretells at these truths, state by state."""
    fires = clears = 0.0
    for values in truths.T.tolist():
        active = 0.0
        for value in values:
            fire, clear = (float(law.tests.tails.at_least_up(far)) for far in (law.fire - value, value + 1 - law.clear))
            fires += (1 - active) * fire * (value < above)
            clears += active * clear * (value >= clear_below)
            active += (1 - active) * fire - active * clear
    return fires, clears


# An alert watches all weeks: many times by its run alone, and once in a session that rows are appended to.


def watched(years: Years, name: str, hits: int, seeds: Sequence[int]) -> tuple[list[Told], AlertLaw]:
    """What the run of an alert says of these truths with each seed, until this many changes were reported."""
    rows = years.batches[0].table(years.monday)
    with open(rows, privacy_unit="unit", budget=_BUDGET, ledger=":memory:") as session:
        run: Any = session.start(years.alert(name, hits))
        plan, truths = run.plan(at=years.monday), years.truths(name)
        price = plan.price(session.spine.filter)
        found = []
        for seed in seeds:
            source, kept, told, used = Seeded(seed), AlertMemory().dump(), Told(), 0
            for values in truths:
                if used == hits:
                    break
                # A unit is in one group, so that changes of several at once are one hit.
                ran = plan.run(Data([values], source, kept, None, price))
                used += min(ran.hits, run.law.parts)
                [kept] = ran.secrets.values()
                told.add(plan.present(ran.answer, 0), values)
            found.append(told)
        return found, run.law


@dataclass(frozen=True)
class Lived:
    """What a session published of an alert, what it charged for it, and whether its ledger says the same of each
    week."""

    told: Told
    share: float
    kept: bool


def lived(years: Years, hits: int, seed: int) -> dict[str, Lived]:
    """All alerts of one session on a DuckDB file, asked after each weekly append, and read again from the ledger."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.duckdb"
        start(file, years.batches[0].table(years.monday))
        options: dict[str, Any] = {"table": "alarms", "privacy_unit": "unit", "budget": _BUDGET}
        options["ledger"] = Path(folder) / "ledger.db"
        truths = {name: years.truths(name) for name in ALERTS}
        told = {name: Told() for name in ALERTS}
        with open(file, **options, unsafe_noise=Seeded(seed)) as session:
            runs = {name: session.start(years.alert(name, hits)) for name in ALERTS}
            for week, batch in enumerate(years.batches):
                if week:
                    session.append(batch.table(years.monday + WEEK * week))
                for name, run in runs.items():
                    told[name].add(run.ask(at=years.sunday(week)), truths[name][week])
            results = {name: run.state.results for name, run in runs.items()}
            shares = {name: float(run.spent.share) for name, run in runs.items()}
        with open(file, **options) as again:
            kept = {name: again.resume(run.call).state.results == results[name] for name, run in runs.items()}
        weeks = {name: [answer.version for answer in answers] for name, answers in results.items()}
        whole = list(range(len(years.batches)))
        return {name: Lived(told[name], shares[name], kept[name] and weeks[name] == whole) for name in ALERTS}


HITS, LIVED_HITS, FEW_HITS = 20, 40, 4
# This many standard errors are passed once in a million.
_SURE: Final = 5.0


class AlertYears(Experiment):
    """Three alerts on years of weekly batches."""

    size = (10.0, 6.0)
    quick_weeks: ClassVar[int] = 60

    @abstractmethod
    def years(self, data: DataFolder) -> Years:
        """The batches."""

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        seeds = 20 if quick else 500
        alone = [{"kind": "alone", "alert": name, "hits": HITS, "seeds": seeds} for name in ALERTS]
        few = [{"kind": "few", "alert": "units", "hits": FEW_HITS, "seeds": seeds}]
        weeks = self.quick_weeks if quick else None
        return [*alone, *few, *({"kind": "session", "run": run, "weeks": weeks} for run in range(1 if quick else 2))]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        years = self.years(data)
        if settings["kind"] == "session":
            years = replace(years, batches=years.batches[: settings["weeks"]])
            return [
                {
                    "kind": "session",
                    "alert": name,
                    "changed_weeks": int(np.sum(np.any(each.told.changes, axis=1))),
                    "paid": each.share * LIVED_HITS,
                    "in_turn": int(each.told.in_turn and each.kept),
                }
                for name, each in lived(years, LIVED_HITS, seed).items()
            ]
        name, hits = settings["alert"], settings["hits"]
        seeds = [seed + number for number in range(settings["seeds"])]
        found, law = watched(years, name, hits, seeds)
        row = settings | self._summary(found, law, years.truths(name), years.bars[name])
        return [row, *(self._weeks(found, name, years) if row["kind"] == "alone" and row["groups"] == 1 else [])]

    def _summary(self, found: list[Told], law: AlertLaw, truths: Integers, bars: tuple[int, int]) -> Row:
        exact = exact_states(truths, *bars)
        fired, cleared = np.array([told.false(truths, *bars) for told in found]).T
        late = [delays(np.array(told.states), exact) for told in found]
        waits, missed = [wait for each, _ in late for wait in each], [missed for _, missed in late]
        quiet = law.fire - law.expected().margin_of_one()
        far = [self._far(told, truths, quiet) for told in found]
        firings, clearings = expected_false(law, truths, *bars)
        covered = [each for told in found for each in told.covered]
        return {
            "groups": truths.shape[1],
            "weeks": float(np.mean([len(told.states) for told in found])),
            "exact_changes": int(np.sum(np.diff(exact, axis=0, prepend=False))),
            "changes": float(np.mean([np.sum(told.changes) for told in found])),
            "in_turn": int(all(told.in_turn for told in found)),
            "error_bar": law.tests.error_bar(law.call.counted.grid),
            "false_firings": float(fired.mean()),
            "false_firings_error": _error(fired),
            "firings_foretold": firings,
            "false_clearings": float(cleared.mean()),
            "false_clearings_error": _error(cleared),
            "clearings_foretold": clearings,
            "quoted_truth": int(quiet),
            "far_tests": int(np.sum([tests for tests, _ in far])),
            "far_firings": int(np.sum([hits for _, hits in far])),
            "tests_a_year": law.expected().tests,
            "values": len(covered),
            "covered": float(np.mean(covered)),
            "wait": float(np.mean(waits)),
            "told": len(waits) / float(len(waits) + np.sum(missed)),
        }

    def _far(self, told: Told, truths: Integers, quiet: int) -> tuple[int, int]:
        """How many tests of quiet groups had a truth up to that of the quote, and how many of them fired."""
        states, changes = np.array(told.states), np.array(told.changes)
        # A group that was quiet is active now if it changed, and only then.
        tested = (changes == states) & (truths[: len(states)] <= quiet)
        return int(np.sum(tested)), int(np.sum(tested & changes))

    def _weeks(self, found: list[Told], name: str, years: Years) -> list[Row]:
        active = np.mean(
            [np.array(told.states)[:, 0] for told in found if len(told.states) == len(years.batches)], axis=0
        )
        truths = years.truths(name)[:, 0].tolist()
        return [
            {"kind": "week", "alert": name, "week": week, "truth": truth, "active": float(share)}
            for week, (truth, share) in enumerate(zip(truths, active, strict=True))
        ]

    def draw(self, found: Measurements, figure: Figure) -> None:
        weeks = found.where(kind="week")
        panes: Any = figure.subplots(len(weeks.distinct("alert")), 1, sharex=True, squeeze=False)
        for [axes], name in zip(panes, weeks.distinct("alert"), strict=True):
            part = weeks.where(alert=name)
            axes.plot(part["week"], part["truth"], color="#0072b2", label="what is true")
            axes.set(ylabel=name, ylim=(0, None))
            beside = axes.twinx()
            beside.fill_between(part["week"], part["active"], step="mid", color="#d55e00", alpha=0.25)
            beside.set(ylim=(0, 1), ylabel="share of runs that are active")
        panes[-1][0].set_xlabel("week")

    def trends(self, found: Measurements) -> Sequence[Trend]:
        alone, few, live = (found.where(kind=kind) for kind in ("alone", "few", "session"))
        told = Measurements([*alone, *few, *live])
        values = alone["values"]
        far = (alone["far_firings"] - _SURE * np.sqrt(alone["far_firings"] + 1)) / np.maximum(alone["far_tests"], 1)
        return [
            Trend("states turn where a change was reported, and a ledger says the same", np.all(told["in_turn"] == 1)),
            Trend("a week with changes is one hit", np.allclose(live["paid"], live["changed_weeks"], rtol=1e-6)),
            Trend("there are as many false firings as the distribution foretells", self._foretold(alone, "firings")),
            Trend("and as many false clearings", self._foretold(alone, "clearings")),
            Trend("fewer than one a year at truths that the quote names", np.all(far * alone["tests_a_year"] < 1)),
            Trend(
                "values lie in their 95 % intervals",
                np.all(alone["covered"] >= 0.95 - _SURE * np.sqrt(0.05 * 0.95 / values)),
            ),
            Trend(
                "a change is reported within a week of an alert without noise, on average", np.all(alone["wait"] < 1)
            ),
            Trend("nearly all changes are reported", np.all(alone["told"] > 0.95)),
            Trend("a budget of four changes ends with the fourth", np.all(few["changes"] <= few["hits"])),
        ]

    def _foretold(self, alone: Measurements, what: str) -> bool:
        far = np.abs(alone[f"false_{what}"] - alone[f"{what}_foretold"])
        return bool(np.all(far <= _SURE * alone[f"false_{what}_error"] + _SURE / alone["seeds"]))


def _error(figures: Integers) -> float:
    return float(np.std(figures, ddof=1) / np.sqrt(len(figures)))


class ClinicAlerts(AlertYears):
    """The built-in panel."""

    name = "alert-years"
    shows = "Three alerts on three years of weekly visits: changes compared with the truth and with their quotes."
    source = "chary.calls.Alert; docs/theory/charging.md, an alert pays for transitions"

    def years(self, data: DataFolder) -> Years:
        return clinic()


class LondonHomes(AlertYears):
    """London homes."""

    name = "alert-years-london"
    shows = "Three alerts on 118 weeks of London homes: changes compared with the truth and with their quotes."
    source = ClinicAlerts.source
    needs = (HOMES, HOUSEHOLDS)

    def years(self, data: DataFolder) -> Years:
        return london(data.file(HOMES), data.file(HOUSEHOLDS))
