"""Randomized response with k values on behalf of every unit: how many reports speak for each value."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np

from chary.accounting import Event, Pure
from chary.accounting.local_reports import category_channel, optimised_channel
from chary.answers import Table, scalar
from chary.calls.call import Bound, Call, call
from chary.calls.fields import Keys, Name, Positive, Where
from chary.core.plan import Json, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Query, Relation, count
from chary.errors import InvalidQuery
from chary.mechanisms import CategoryReports, LocalEstimate, OneHotReports
from chary.mechanisms.local_reports import About, Integers, estimate
from chary.noise import Source
from chary.numbers import Number

Form = Literal["category", "optimised", "symmetric"]
# What a unit without any of the values reports, beside their positions.
NONE: Final = None
# Longer lists of values are not repeated by an error.
MOST_SHOWN: Final = 6


@dataclass(frozen=True)
class RandomizedTable(Table):
    """How many of the randomized reports of all `units` speak for each value, the last one for none of them (None).

    The reports themselves would say nothing more: told in an order that depends on no data, all arrangements of the
    same ones are equally likely. `value` holds the estimated shares of units; the rows' intervals hold all at once.
    """

    counts: tuple[int, ...]
    units: int
    reports: CategoryReports | OneHotReports

    @property
    def value(self) -> dict[Any, float]:
        """Value to estimated share; empty for no units."""
        return {each.value: each.share for each in self.estimate()} if self.units else {}

    @property
    def interval_says(self) -> str:
        if not self.units:
            return "no interval: there are no units"
        return "the intervals of the shares hold 95 times in 100, of all rows together"

    def estimate(self, confidence: Number = "0.95", *, about: About = "respondents") -> LocalEstimate:
        """The shares with intervals that hold all at once with this chance, about these units or the population they
        were drawn from independently. `InvalidParameter` for no units."""
        values = [scalar(key) for key in self.keys]
        return estimate(values, self.reports.channel, self.counts, self.units, confidence, about)

    def cells(self, position: int) -> dict[str, Any]:
        told: dict[str, Any] = {"count": self.counts[position], "value": None, "low": None, "high": None}
        if self.units:
            found = self._estimate.found[position]
            told |= {"value": found.share, "low": found.low, "high": found.high}
        return told

    @cached_property
    def _estimate(self) -> LocalEstimate:
        return self.estimate()


@call("randomized_values", subject="numbers")
class RandomizedValues(Call[RandomizedTable]):
    """How many units report each of several public values when each reports its own by randomized response.

    Guarantee: `Pure(epsilon)`, under `replace` neighbours: one unit's value changes, and every unit's report is
    epsilon-DP on its own, as in a survey whose collector is not trusted (`CategoryReports`, `OneHotReports`). A unit
    with several of the values reports the first in the list, one with none of them reports that. `form` is that of the
    reports; by default the one with the smaller variance for rare values. For the numbers alone `Histogram` or
    `Marginal` are far more accurate: their error does not grow with the number of units.

    Errors: `InvalidQuery` under add/remove, where the number of units is secret.

    >>> RandomizedValues("clinic", among=["north", "south"], epsilon="0.5").of_reports().values
    (0, 1, 2)
    """

    column: Name
    _: KW_ONLY
    among: Keys
    epsilon: Positive
    where: Where = None
    form: Form | None = None

    def __post_init__(self) -> None:
        count(self.where).by(self.column, self.among)
        self.of_reports()

    def of_reports(self, form: Form | None = None) -> CategoryReports | OneHotReports:
        """The reports that are made, about positions in the list, the last one for none of the values."""
        places = range(len(list(self.among)) + 1)
        chosen = form or self.form
        if chosen is None:
            one, other = category_channel(len(places), self.epsilon), optimised_channel(self.epsilon)
            chosen = "category" if one.variance(0) <= other.variance(0) else "optimised"
        if chosen == "category":
            return CategoryReports(places, self.epsilon)
        return OneHotReports(places, self.epsilon, optimised=chosen == "optimised")

    def bind(self, spine: Spine) -> "Report":
        if spine.rows.neighbouring.relation is not Relation.REPLACE:
            listed = list(self.among)
            values = repr(listed) if len(listed) <= MOST_SHOWN else "[...]"
            raise InvalidQuery(
                "randomized reports tell how many units there are, which is secret unless neighbours replace a unit: "
                f"open the table with relation='replace', or ask "
                f"Marginal({{{self.column!r}: {values}}}, epsilon={float(self.epsilon):g})"
            )
        return Report(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class Report(Bound[RandomizedValues]):
    """The randomized reports, as they are counted."""

    @property
    def event(self) -> Event:
        return Pure(self.call.epsilon)

    def queries(self) -> Sequence[Query]:
        # Only where a unit may have several rows must it be kept to one value.
        kept = None if self.neighbouring.unit is None else 1
        return [count(self.call.where).by(self.call.column, self.call.among, keep_per_unit=kept), count()]

    def run(self, touched: Touched) -> Ran:
        holders, units = touched.integers(0), touched.integer(1)
        every = np.append(holders, units - int(holders.sum()))
        made = self.call.of_reports()
        return Ran({"counts": _tallied(made, every, units, touched.source), "units": units, "form": _form(made)}, 0, 0)

    def present(self, answer: Json, call: int) -> RandomizedTable:
        asked = self.call
        keys = (*((value,) for value in asked.among), (NONE,))
        reports = asked.of_reports(answer["form"])
        return RandomizedTable(call, (asked.column,), keys, tuple(answer["counts"]), answer["units"], reports)


def _form(made: CategoryReports | OneHotReports) -> Form:
    if isinstance(made, CategoryReports):
        return "category"
    return "optimised" if made.optimised else "symmetric"


def _tallied(made: CategoryReports | OneHotReports, holders: Integers, units: int, source: Source) -> list[int]:
    """How many reports speak for each value."""
    if isinstance(made, OneHotReports):
        return [int(told) for told in made.tallied(holders, units, source)]
    places = np.repeat(np.arange(holders.size), holders)
    return [int(told) for told in made.counts(made.randomized(places, source))]
