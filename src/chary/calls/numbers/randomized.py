"""Randomized response on behalf of every unit: how many of the randomized answers are yes."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Self

from chary.accounting import Event, Pure
from chary.answers import Answer, Ends
from chary.calls.call import Bound, Call, call
from chary.calls.fields import Name, Positive
from chary.core.plan import Json, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Query, Relation, count
from chary.errors import InvalidQuery
from chary.mechanisms import RandomizedResponse, ShareEstimate
from chary.mechanisms.local_reports import About
from chary.numbers import Number


@dataclass(frozen=True)
class RandomizedCounts(Answer):
    """How many of the randomized answers of all units are yes. `units`, their number, is public under replace.

    The answers themselves would say nothing more: told in an order that depends on no data, they are equally likely
    in every arrangement of the same number of ones. `value` is the estimated `share`, None for no units.
    """

    ones: int
    units: int
    response: RandomizedResponse

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
        """The unbiased estimate of the share of units that satisfy the condition; `InvalidParameter` for no units."""
        return self.estimate().share

    def estimate(self, confidence: Number = "0.95", *, about: About = "respondents") -> ShareEstimate:
        """The share with its standard error and an interval that encloses it with this chance.

        It is that of these units; about="population", of the population they were drawn from independently.
        """
        return self.response.share_of(self.ones, self.units, confidence, about=about)


@call("randomized", subject="numbers")
class Randomized(Call[RandomizedCounts]):
    """How many units answer yes when each says whether it satisfies the condition by randomized response.

    Guarantee: `Pure(epsilon)`, under `replace` neighbours: one unit's bit changes, and every unit's answer is
    epsilon-DP on its own, as in a survey whose collector is not trusted. For the number alone
    `Release(count(condition))` is far more accurate: its error does not grow with the number of units.

    Errors: `InvalidQuery` under add/remove, where the number of units is secret.
    """

    condition: Name
    _: KW_ONLY
    epsilon: Positive

    @classmethod
    def recorded(cls, body: Json) -> Self:
        return super().recorded(body | {"condition": body["query"]["where"]})

    def bind(self, spine: Spine) -> "Respond":
        if spine.rows.neighbouring.relation is not Relation.REPLACE:
            raise InvalidQuery(
                "randomized answers tell how many units there are, which is secret unless neighbours replace a unit: "
                f"open the table with relation='replace', or ask session.release(count({self.condition!r}), "
                f"epsilon={float(self.epsilon):g})"
            )
        return Respond(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class Respond(Bound[Randomized]):
    """The randomized answers, as they are given."""

    @cached_property
    def mechanism(self) -> RandomizedResponse:
        """The answer for one unit; refuses an epsilon out of range."""
        return RandomizedResponse(self.call.epsilon)

    @cached_property
    def event(self) -> Event:
        return Pure(self.mechanism.epsilon)

    def body(self) -> Json:
        return {"query": count(self.call.condition).body(), "epsilon": str(self.call.epsilon)}

    def queries(self) -> Sequence[Query]:
        return [count(self.call.condition), count()]

    def run(self, touched: Touched) -> Ran:
        units = touched.integer(1)
        return Ran({"ones": self.mechanism.ones(touched.integer(0), units, touched.source), "units": units}, 0, 0)

    def present(self, answer: Json, call: int) -> RandomizedCounts:
        return RandomizedCounts(call, answer["ones"], answer["units"], self.mechanism)
