"""Budgets that renew: alerts over the last 12 months for 20 years, next to the same alerts under one budget."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from numpy.typing import NDArray

from chary.calls import Alert
from chary.data import Blocks, count
from chary.demo.panel import YEARS, people
from chary.errors import BudgetExceeded
from chary.filters import Budget
from chary.noise import Seeded
from chary.session import open
from chary_research.experiments.alarms import SOLAR
from chary_research.experiments.alert_years import delays, exact_states
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend

Integers = NDArray[np.int64]

# Twenty years of rows, and how many units are watched in the last 12 months, known since the data are public.

FIRST, LAST, A_YEAR = 2005, 2024, 12
MONTHS: Final = A_YEAR * (LAST - FIRST + 1)


@dataclass(frozen=True)
class Panel:
    """Rows in the order of months from 0 on: whose each is, and whether it counts; and the two thresholds."""

    units: Integers
    months: Integers
    high: NDArray[np.bool_]
    bars: tuple[int, int]

    def table(self) -> pa.Table:
        """As a session is given it, a day in the middle of each month."""
        days = np.datetime64(f"{FIRST}-01", "M") + self.months
        return pa.table({"unit": self.units, "day": days.astype("datetime64[D]") + 14, "high": self.high})

    def truths(self) -> Integers:
        """How many units have a row that counts in the 12 months up to each."""
        held = np.zeros((len(np.unique(self.units)), MONTHS), dtype=np.bool_)
        held[np.searchsorted(np.unique(self.units), self.units[self.high]), self.months[self.high]] = True
        seen = [held[:, max(0, month + 1 - A_YEAR) : month + 1].any(axis=1).sum() for month in range(MONTHS)]
        return np.array(seen)

    @property
    def alert(self) -> dict[str, Any]:
        """What is watched, and how."""
        above, clear_below = self.bars
        window = {"time": "day", "window": "12 months"}
        return {"query": count("high"), "above": above, "clear_below": clear_below, "hits": HITS, **window}


HITS: Final = 4
_BUDGET: Final = Budget(epsilon=1, delta=Fraction(1, 10**6))


def last_day(month: int) -> date:
    """The last day of a month from 0 on.

    >>> last_day(0), last_day(13)
    (datetime.date(2005, 1, 31), datetime.date(2006, 2, 28))
    """
    found: date = (np.datetime64(f"{FIRST}-01", "M") + month + 1).astype("datetime64[D]").astype(object)
    return date.fromordinal(found.toordinal() - 1)


@cache
def patients() -> Panel:
    """The five years of the RAND panel four times over: doctor visits, each put into a month; in the last two years of
    the study fewer people took part."""
    drawn, panel = np.random.default_rng(1), people()
    units, months = [], []
    for year in range(MONTHS // A_YEAR):
        rows = panel.filter(pa.array(panel["year"].to_numpy() == YEARS[year % len(YEARS)]))
        visits = rows["mdvis"].to_numpy()
        units.append(np.repeat(rows["zper"].to_numpy(), visits))
        months.append(A_YEAR * year + drawn.integers(0, A_YEAR, len(units[-1])))
    found = np.concatenate(units), np.concatenate(months)
    return Panel(*found, np.ones(len(found[0]), dtype=np.bool_), (2_500, 2_000))


MANY_HOMES, FEW_HOMES = 1_000, 300


def homes(data: DataFolder, number: int) -> Panel:
    """The three years of Ausgrid's customers over and over, of which only means are to be had. Each of this many homes
    uses its own multiple of them, and each year is warmer or colder. A month counts with 25 kWh a day or more."""
    drawn = np.random.default_rng(2)
    days = data.column(SOLAR, "mean_gross_kwh_per_customer")[: 3 * 365].reshape(3, 365)
    means = np.array([[month.mean() for month in np.array_split(year, A_YEAR)] for year in days])
    sizes = drawn.lognormal(-0.1, 0.4, number)
    weather = np.exp(np.repeat(0.45 * np.sin(2 * np.pi * np.arange(MONTHS // A_YEAR) / 4), A_YEAR))
    used = sizes[:, None] * np.resize(means, MONTHS) * weather * drawn.lognormal(0, 0.1, (number, MONTHS))
    units, months = np.divmod(np.arange(used.size), MONTHS)
    return Panel(units, months, (used >= 25).ravel(), (number // 2, number * 37 // 100))


# The alert at the end of each month, under a budget for each month or under one for all.

RENEWED, ONE = "a budget a month", "one budget"
REFUSED: Final = -1


@dataclass(frozen=True)
class Ended:
    """The state of each month, -1 where the budget refused, how many changes there were, and what each budget spent."""

    states: Integers
    changes: int
    spent: list[float]


def asked(panel: Panel, budget: str, months: int, seed: int) -> Ended:
    """What a session says at the end of each month."""
    blocks = Blocks("day", every="month", since=f"{FIRST}-01") if budget == RENEWED else None
    options: dict[str, Any] = {"privacy_unit": "unit", "budget": _BUDGET, "ledger": ":memory:", "blocks": blocks}
    with open(panel.table(), **options, unsafe_noise=Seeded(seed)) as session:
        run = session.start(Alert(**panel.alert))
        states, changes = [], 0
        for month in range(months):
            try:
                told = run.ask(at=last_day(month))
            except BudgetExceeded:
                states.append([REFUSED])
            else:
                states.append([int(told.active)])
                changes += told.changed
        spent = session.spent_by_block or {"all": session.spent.share}
        return Ended(np.array(states), changes, [float(share) for share in spent.values()])


class RenewingAlerts(Experiment):
    """Twenty years of an alert over the last 12 months."""

    size = (10.0, 5.0)

    units: ClassVar[tuple[int, ...]]

    @abstractmethod
    def panel(self, data: DataFolder, units: int) -> Panel:
        """The rows of this many units."""

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        runs, months = (2, 150) if quick else (5, MONTHS)
        kinds = [{"units": units, "budget": budget} for units in self.units for budget in (RENEWED, ONE)]
        return [{**each, "run": run, "months": months} for each in kinds for run in range(runs)]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        panel, months = self.panel(data, settings["units"]), settings["months"]
        truths = panel.truths()[:months]
        exact = exact_states(truths[:, None], *panel.bars)
        ended = asked(panel, settings["budget"], months, seed)
        waits, missed = delays(ended.states, exact)
        row = settings | {
            "kind": "run",
            "answered": int(np.sum(ended.states != REFUSED)),
            "last_answered": int(np.flatnonzero(ended.states.ravel() != REFUSED)[-1]) + 1,
            "exact_changes": len(waits) + missed,
            "changes": ended.changes,
            "told": len(waits) / (len(waits) + missed),
            "most_spent": max(ended.spent),
        }
        if settings["run"] or settings["budget"] == ONE or settings["units"] != self.units[0]:
            return [row]
        told = [
            {"kind": "month", "month": month, "truth": int(truths[month]), "active": max(active, 0)}
            for month, [active] in enumerate(ended.states.tolist())
        ]
        spent = [{"kind": "block", "block": block, "spent": share} for block, share in enumerate(ended.spent[:months])]
        return [row, *told, *spent]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(2, 1, sharex=True)
        months, blocks = found.where(kind="month"), found.where(kind="block")
        years = FIRST + months["month"] / A_YEAR
        panes[0].plot(years, months["truth"], color="#0072b2", label="units in 12 months")
        panes[0].set(ylabel="units in 12 months", ylim=(0, None))
        beside = panes[0].twinx()
        beside.fill_between(years, months["active"], step="mid", color="#009e73", alpha=0.25)
        beside.set(ylim=(0, 1), yticks=[], ylabel="shaded: active")
        panes[1].bar(FIRST + blocks["block"] / A_YEAR, blocks["spent"], width=1 / A_YEAR, color="#009e73")
        panes[1].set(ylabel="spent of each month", ylim=(0, 1), xlabel="year")
        ends = found.where(kind="run", budget=ONE, units=self.units[0])["last_answered"]
        for axes in panes:
            axes.axvline(FIRST + ends.mean() / A_YEAR, color="#d55e00", linestyle="--", label="one budget has ended")
        panes[1].legend(fontsize=7, frameon=False)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        renewed, one = (found.where(kind="run", budget=budget) for budget in (RENEWED, ONE))
        many, few = renewed.where(units=self.units[0]), renewed.where(units=self.units[-1])
        return [
            Trend("no month is over its own budget", np.all(renewed["most_spent"] <= 1)),
            Trend("budgets that renew never end", np.all(renewed["last_answered"] > renewed["months"] - A_YEAR)),
            Trend("one budget ends, and with its last hit", self._ended(one)),
            Trend("no month is refused where few changes come in a year", np.all(many["answered"] == many["months"])),
            Trend("nearly all changes are reported there", np.all(many["told"] > 0.9)),
            Trend("more than under one budget everywhere", few["told"].mean() > one["told"].mean()),
        ]

    def _ended(self, one: Measurements) -> bool:
        return bool(np.all(one["last_answered"] < one["months"]) and np.all(one["changes"] == HITS))


class RenewingPatients(RenewingAlerts):
    """The built-in panel."""

    name = "renewing-budgets"
    shows = "An alert over the last 12 months for 20 years: a budget for each month, and one for all."
    source = "Lecuyer et al., SOSP 2019, section 3; docs/howto/growing.md, budgets that renew"

    units = (5_638,)

    def panel(self, data: DataFolder, units: int) -> Panel:
        return patients()


class RenewingHomes(RenewingAlerts):
    """Homes as those of Ausgrid are on average."""

    name = "renewing-budgets-solar"
    shows = "The same for homes with the seasons of Ausgrid's customers, many and few."
    source = RenewingPatients.source
    needs = (SOLAR,)

    units = (MANY_HOMES, FEW_HOMES)

    def panel(self, data: DataFolder, units: int) -> Panel:
        return homes(data, units)
