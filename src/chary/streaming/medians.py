"""The private median of many copies, published when it has changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from chary.accounting import Event, Targeted
from chary.core.plan import Interaction, Json, Ran, Touched
from chary.data import Query
from chary.data.votes import Poll
from chary.mechanisms import Exponential, rank_utilities
from chary.numbers import Number


@dataclass(frozen=True)
class ChangedMedian(Interaction):
    """A cell by the exponential mechanism on rank utilities, if it is more than `band` cells from the last one.

    The cell of 0 is within no other cell's band. Guarantee: one epsilon-DP call, for the votes of one copy, with the
    NotPrior target "changed": utilities are integers that one copy changes by at most 1, and every cell within the
    band is published as the same outcome.
    """

    poll: Poll
    epsilon: Number
    last: int
    band: int
    kind = "robust_answer"

    @cached_property
    def choice(self) -> Exponential:
        """The mechanism."""
        return Exponential(self.epsilon, sensitivity=1)

    @property
    def event(self) -> Event:
        return Targeted(self.epsilon)

    def body(self) -> Json:
        return {"answer": self.poll.question, "last": self.last, "band": self.band, "epsilon": str(self.epsilon)}

    def queries(self) -> Sequence[Query]:
        return [self.poll]

    def run(self, touched: Touched) -> Ran:
        cell = self.choice.step(rank_utilities(touched.integers()), touched.source)
        changed = abs(cell - self.last) > self.band or (cell == 0) != (self.last == 0)
        return Ran({"cell": cell if changed else self.last, "changed": changed}, hits=int(changed), tests=1)

    def present(self, answer: Json, call: int) -> tuple[int, bool]:
        return answer["cell"], answer["changed"]
