"""Local reports of a column: each unit randomises its own value."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Final, Literal, Self

import numpy as np

from chary.accounting import Pure
from chary.accounting.accuracy import category_channel, optimised_channel
from chary.answers import Answer, Ends, Table, scalar
from chary.calls.call import Call, call
from chary.calls.fields import ColumnName, Keys, Positive, PredicateText, Where
from chary.core.plan import Data, Json, Plan, Result, reading
from chary.core.transaction import Spine
from chary.data import count
from chary.errors import InvalidQuery
from chary.mechanisms import KRandomizedResponse, LocalEstimate, RandomizedResponse, ShareEstimate, UnaryEncoding
from chary.mechanisms.local_reports import About, Integers, estimate
from chary.noise import Source
from chary.numbers import CONFIDENT, Number

# Randomized response on behalf of every unit: how many of the randomized answers are yes.


@dataclass(frozen=True)
class RandomizedCounts(Answer):
    """How many of the randomized answers of all units are yes. `units`, their number, is public under replace.

    The answers themselves would say nothing more: listed in an order that depends on no data, they are equally likely
    in every arrangement of the same number of ones. `value` is the estimated `share`, None for no units.
    """

    ones: int
    units: int
    response: RandomizedResponse
    also = "ones units value"

    @property
    def value(self) -> float | None:
        """The estimated share."""
        return self.share if self.units else None

    @property
    def interval(self) -> Ends | None:
        told = self.estimate() if self.units else None
        return None if told is None else (told.low, told.high)

    @property
    def share(self) -> float:
        """The unbiased estimate of the proportion of units that satisfy the condition; `InvalidParameter` for no
        units."""
        return self.estimate().share

    def estimate(self, confidence: Number = "0.95", *, about: About = "respondents") -> ShareEstimate:
        """The proportion with its standard error and an interval that encloses it with this probability.

        It is that of these units; about="population", of the population they were drawn from independently.
        """
        return self.response.share_of(self.ones, self.units, confidence, about=about)


# Randomized response with k values on behalf of every unit: how many reports speak for each value.

Form = Literal["category", "optimised", "symmetric"]
# The value that a unit without any of the listed values reports.
NONE: Final = None
# Longer lists of values are not repeated by an error.
MOST_SHOWN: Final = 6


@dataclass(frozen=True)
class RandomizedTable(Table):
    """How many of the randomized reports of all `units` speak for each value, the last one for none of them (None).

    The reports themselves would say nothing more: listed in an order that depends on no data, all arrangements of the
    same ones are equally likely. `value` holds the estimated proportions of units; the rows' intervals hold all at
    once."""

    counts: tuple[int, ...]
    units: int
    also = "units"
    reports: KRandomizedResponse | UnaryEncoding

    @property
    def value(self) -> dict[Any, float]:
        """Value to estimated share; empty for no units."""
        return {each.value: each.share for each in self.estimate()} if self.units else {}

    @property
    def interval_says(self) -> str:
        if not self.units:
            return "no interval: there are no units"
        return f"intervals of the proportions, all rows together, with {CONFIDENT}"

    def estimate(self, confidence: Number = "0.95", *, about: About = "respondents") -> LocalEstimate:
        """The proportions with intervals that hold all at once with this probability, about these units or the
        population they were drawn from independently. `InvalidParameter` for no units."""
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
class RandomizedValues(Call[RandomizedTable | RandomizedCounts]):
    """Estimate how many units have each of several public values, or meet a condition, by randomized response of each
    unit.

    Guarantee: `Pure(epsilon)`, under `replace` neighbours: one unit's value changes, and every unit's report is
    epsilon-DP on its own, as in a survey whose collector is not trusted (`KRandomizedResponse`, `UnaryEncoding`). A
    unit with several of the values reports the first in the list, one with none of them reports that. `mechanism` says
    which reports; by default those with the smaller variance for rare values. With a `condition` instead of a column
    each unit says whether it satisfies that (`RandomizedResponse`). For the numbers alone `Release`, `Histogram` or
    `Marginal` are far more accurate: their error does not grow with the number of units.

    Errors: `InvalidQuery` under add/remove, where the number of units is secret.

    >>> RandomizedValues("clinic", among=["north", "south"], epsilon="0.5").of_reports().values
    (0, 1, 2)
    """

    column: ColumnName | None = None
    _: KW_ONLY
    among: Keys | None = None
    epsilon: Positive
    where: Where = None
    mechanism: Form | None = None
    condition: PredicateText | None = None

    def __post_init__(self) -> None:
        if self.column is not None and self.among is not None and self.condition is None:
            count(self.where).by(self.column, self.among)
            self.of_reports()
        elif self.condition is None or (self.column, self.among, self.where, self.mechanism) != (None,) * 4:
            raise InvalidQuery('say a column and among=, its public values; or condition= alone: condition="age >= 65"')

    @classmethod
    def recorded(cls, body: Json) -> Self:
        return super().recorded(body | {"condition": body["query"]["where"]} if "query" in body else body)

    def of_reports(self, mechanism: Form | None = None) -> KRandomizedResponse | UnaryEncoding:
        """The mechanism of the reports, on positions in the list; the last position stands for none of the values."""
        places = range(len(list(self.among or ())) + 1)
        chosen = mechanism or self.mechanism
        if chosen is None:
            one, other = category_channel(len(places), self.epsilon), optimised_channel(self.epsilon)
            chosen = "category" if one.variance(0) <= other.variance(0) else "optimised"
        if chosen == "category":
            return KRandomizedResponse(places, self.epsilon)
        return UnaryEncoding(places, self.epsilon, optimised=chosen == "optimised")

    @property
    def numeric(self) -> bool:
        return self.condition is not None

    def plan(self, spine: Spine) -> Plan[RandomizedTable | RandomizedCounts]:
        if not spine.rows.neighbor_relation.public_units:
            raise InvalidQuery(
                "randomized reports say how many units there are, which is secret unless neighbours replace a unit: "
                f"open the table with neighbors='replace', or ask {self._instead()}"
            )
        if self.column is None:
            return self._of_condition(spine)
        # Only where a unit may have several rows must it be kept to one value.
        kept = None if spine.rows.neighbor_relation.unit is None else 1
        column, among = self.column, list(self.among or ())
        asked = count(self.where).by(column, among, max_groups_per_unit=kept)
        keys = (*((value,) for value in among), (NONE,))

        def run(data: Data) -> Result:
            holders, units, made = data.integers(0), data.integer(1), self.of_reports()
            counts = _tallied(made, np.append(holders, units - int(holders.sum())), units, data.source)
            return Result({"counts": counts, "units": units, "form": _form(made)}, 0, 0)

        def present(answer: Json, number: int) -> RandomizedTable:
            counts, reports = tuple(answer["counts"]), self.of_reports(answer["form"])
            return RandomizedTable(number, (column,), keys, counts, answer["units"], reports)

        return self.planned(spine, Pure(self.epsilon), run, present, reading(asked, count()))

    def _instead(self) -> str:
        """The call to make instead where the number of units is secret, for the error."""
        if self.column is None:
            return f"session.release(count({self.condition!r}), epsilon={float(self.epsilon):g})"
        listed = list(self.among or ())
        values = repr(listed) if len(listed) <= MOST_SHOWN else "[...]"
        return f"Marginal({{{self.column!r}: {values}}}, epsilon={float(self.epsilon):g})"

    def _of_condition(self, spine: Spine) -> Plan[RandomizedTable | RandomizedCounts]:
        asked, mechanism = count(self.condition), RandomizedResponse(self.epsilon)

        def run(data: Data) -> Result:
            units = data.integer(1)
            return Result({"ones": mechanism.ones(data.integer(0), units, data.source), "units": units}, 0, 0)

        def present(answer: Json, number: int) -> RandomizedCounts:
            return RandomizedCounts(number, answer["ones"], answer["units"], mechanism)

        body = {"query": asked.body(), "epsilon": str(self.epsilon)}
        return self.planned(spine, Pure(mechanism.epsilon), run, present, reading(asked, count()), body=body)


def _form(made: KRandomizedResponse | UnaryEncoding) -> Form:
    if isinstance(made, KRandomizedResponse):
        return "category"
    return "optimised" if made.optimised else "symmetric"


def _tallied(made: KRandomizedResponse | UnaryEncoding, holders: Integers, units: int, source: Source) -> list[int]:
    """How many reports speak for each value."""
    if isinstance(made, UnaryEncoding):
        return [int(told) for told in made.tallied(holders, units, source)]
    places = np.repeat(np.arange(holders.size), holders)
    return [int(told) for told in made.counts(made.randomized(places, source))]
