"""Randomized response on behalf of every unit: how many of the randomized answers are yes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from chary.accounting import Event, Pure
from chary.data import Neighbouring, Query, Relation, count
from chary.errors import InvalidQuery
from chary.mechanisms import RandomizedResponse, ShareEstimate
from chary.numbers import Number, positive
from chary.session.door import Door
from chary.session.interaction import Interaction, Json, Ran, Touched


@dataclass(frozen=True)
class Randomized:
    """How many of the randomized answers of all units are yes. `units`, their number, is public under replace.

    The answers themselves would say nothing more: told in an order that depends on no data, they are equally likely
    in every arrangement of the same number of ones.
    """

    call: int
    ones: int
    units: int
    response: RandomizedResponse

    @property
    def share(self) -> float:
        """The unbiased estimate of the share of units that satisfy the condition; `InvalidParameter` for no units."""
        return self.estimate().share

    def estimate(self, confidence: Number = "0.95") -> ShareEstimate:
        """The share with its standard error and an interval that encloses it with this chance."""
        return self.response.share_of(self.ones, self.units, confidence)


@dataclass(frozen=True)
class Respond(Interaction):
    """Guarantee: `Pure(epsilon)` under replace: one unit's bit changes, and each bit is answered by itself."""

    condition: str
    neighbouring: Neighbouring
    epsilon: Number
    kind = "randomized"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        if not isinstance(self.condition, str):
            raise InvalidQuery("every unit answers a condition, such as 'age >= 65'")
        if self.neighbouring.relation is not Relation.REPLACE:
            raise InvalidQuery(
                "randomized answers tell how many units there are, which is secret unless neighbours replace a unit: "
                f"open the table with relation='replace', or ask session.release(count({self.condition!r}), "
                f"epsilon={float(self.epsilon):g})"
            )
        self.mechanism  # noqa: B018 - refuses an epsilon out of range

    @cached_property
    def mechanism(self) -> RandomizedResponse:
        """The answer for one unit."""
        return RandomizedResponse(self.epsilon)

    @cached_property
    def event(self) -> Event:
        return Pure(self.epsilon)

    def body(self) -> Json:
        return {"query": count(self.condition).body(), "epsilon": str(self.epsilon)}

    def queries(self) -> Sequence[Query]:
        return [count(self.condition), count()]

    def run(self, touched: Touched) -> Ran:
        units = touched.integer(1)
        return Ran({"ones": self.mechanism.ones(touched.integer(0), units, touched.source), "units": units}, 0, 0)

    def present(self, answer: Json, call: int) -> Randomized:
        return Randomized(call, answer["ones"], answer["units"], self.mechanism)


class Responding(Door):
    """Randomized response in the place of the units."""

    def randomized(self, condition: str, *, epsilon: Number, request: str | None = None) -> Randomized:
        """How many units answer yes when each says whether it satisfies the condition by randomized response.

        Guarantee: `Pure(epsilon)`, under `replace` neighbours; every unit's answer is epsilon-DP on its own, as in a
        survey whose collector is not trusted. For the number alone `release(count(condition))` is far more accurate:
        its error does not grow with the number of units.

        Errors: `InvalidQuery` under add/remove, where the number of units is secret.
        """
        answer: Randomized = self.spine.perform(Respond(condition, self.spine.rows.neighbouring, epsilon), request)
        return answer
