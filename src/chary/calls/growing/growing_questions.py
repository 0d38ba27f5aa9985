"""The questions to a sparse vector on a growing table: rounds that are charged when they begin, and free tests."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from chary.accounting import Event
from chary.calls.growing.growing_results import GrowingRound, GrowingTest
from chary.calls.growing.open_rounds import GrowingRoundState, NoRoundOpen, OneRound, RoundMoved
from chary.calls.sparse.sparse_questions import AskSparseOnce
from chary.core.plan import Interaction, Json, Paid, Ran, Touched
from chary.data import Count, Neighbouring, Query
from chary.errors import BudgetRefused, InvalidParameter, InvalidQuery
from chary.mechanisms import HiddenThreshold
from chary.numbers import plain

if TYPE_CHECKING:
    from chary.calls.growing.growing_sparse_vectors import OpenGrowingSparse


@dataclass(frozen=True)
class BeginRound(Interaction):
    """Draw the hidden threshold of the next round, at a public size; nothing is read.

    Where another process began it meanwhile, that is noticed before anything is stored, and the reservation given back.
    """

    opened: int
    started: "OpenGrowingSparse"
    size: int = field(compare=False)
    kind = "growing_sparse_round"

    def __post_init__(self) -> None:
        self.round  # noqa: B018 - refuses a table that shrank and noise out of range

    @cached_property
    def round(self) -> OneRound:
        """The sparse vector of this round."""
        return self.started.round(self.started.terms.epsilon_down(self.size))

    @property
    def event(self) -> Event:
        return self.round.event

    @property
    def held(self) -> int:
        return self.opened

    def check(self, secret: bytes | None) -> None:
        now, most = GrowingRoundState.load(secret, self.opened), self.started.call.rounds
        if now.open:
            raise RoundMoved(f"round {now.number} of call {self.opened} is open, and goes on to its first hit")
        if most is not None and now.number >= most:
            raise BudgetRefused(
                f"all {most} rounds of the growing sparse vector of call {self.opened} have ended; another is opened "
                "by session.start(GrowingSparse(above=..., epsilon=..., rounds=...))"
            )

    def body(self) -> Json:
        return {"growing_sparse_vector": self.opened}

    def queries(self) -> Sequence[Query]:
        return ()

    def run(self, touched: Touched) -> Ran:
        number = GrowingRoundState.load(touched.secret, self.opened).number + 1
        epsilon, hidden = Fraction(self.round.epsilon), self.round.mechanism.start(touched.source)
        answer = {"round": number, "size": self.size, "epsilon": str(epsilon)}
        begun = GrowingRoundState(number, self.size, epsilon, hidden.shift)
        return Ran(answer, hits=0, tests=0, secrets={self.opened: begun.dump()})

    def present(self, answer: Json, call: int) -> GrowingRound:
        return GrowingRound(call, answer["round"], answer["size"], Fraction(answer["epsilon"]))


@dataclass(frozen=True)
class AskGrowingSparse(Paid):
    """One question against the hidden threshold of the open round, as an average over the rows there are.

    Nothing is charged, it was paid when the round began. An outcome against a round that moved meanwhile is thrown away
    by the spine, unseen. Rows that another thread appends after `size` was read may be counted already: that costs
    accuracy, by their share, and nothing else.
    """

    opened: int
    started: "OpenGrowingSparse"
    query: Query
    above: Fraction
    size: int = field(compare=False)
    kind = "growing_sparse_test"

    def __post_init__(self) -> None:
        if isinstance(self.query, Query) and self.query.keys is not None:
            raise InvalidQuery("ask one key at a time, as a condition of its own: ask(count(\"ward = 'a'\"))")
        self._asked(Fraction(self.started.terms.epsilon))
        self._check_threshold()

    def _check_threshold(self) -> None:
        check_average(self.query, self.started.neighbouring, self.above)

    def _asked(self, epsilon: Fraction) -> AskSparseOnce:
        """The question in counts; its constructor refuses what cannot be asked."""
        return AskSparseOnce(self.opened, self.started.round(epsilon), self.query, self.above * self.size)

    @property
    def event(self) -> Event:
        return self.started.event

    def check(self, secret: bytes | None) -> None:
        if not GrowingRoundState.load(secret, self.opened).open:
            raise NoRoundOpen(f"no round of call {self.opened} is open: ask again")

    def body(self) -> Json:
        return {"growing_sparse_vector": self.opened, "query": self.query.body(), "above": str(self.above)}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        state = GrowingRoundState.load(touched.secret, self.opened)
        asked = self._asked(state.epsilon)
        ran = asked.run(replace(touched, secret=HiddenThreshold(state.shift or 0).dump()))
        after, values = (state.ended() if ran.hits else state), ran.answer["values"]
        bar = asked.started.error_bar
        answer = {"above": bool(ran.hits), "value": values[0] if values else None, "size": self.size}
        answer |= {"round": state.number, "error_bar": None if bar is None else bar / self.size}
        return Ran(answer, ran.hits, ran.tests, secrets={self.opened: after.dump()})

    def present(self, answer: Json, call: int) -> GrowingTest:
        size, steps = answer["size"], answer["value"]
        value = None if steps is None else float(steps * Fraction(self.started.call.grid) / size)
        return GrowingTest(call, answer["above"], value, answer["error_bar"], size, answer["round"])


def check_average(query: Query, neighbouring: Neighbouring, above: Fraction) -> None:
    """Refuse what no average can be on either side of: it would be paid for an answer that is known."""
    row = query.contribution(neighbouring)
    low, high = row.low * query.grid, row.high * query.grid
    if not low <= above <= high:
        told = f"above is an average over all rows, from {plain(low)} to {plain(high)} here"
        if isinstance(query, Count):
            told = "above is a share of rows, from 0 to 1: 0.3 is 30 %"
        raise InvalidParameter(f"{told}; got {plain(above)}")
