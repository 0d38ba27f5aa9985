"""A sparse vector on a growing table in a session: rounds that are charged when they begin, and free questions."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from chary.accounting import Event, Pure
from chary.accounting.growing_sparse import GrowingRounds
from chary.accounting.sparse_vector import Form
from chary.data import Count, Neighbouring, Query, Reading, Relation, Rows
from chary.data.size import public_size
from chary.errors import BudgetRefused, InvalidParameter, InvalidQuery
from chary.filters import Filter, Price
from chary.mechanisms import HiddenThreshold
from chary.numbers import Number, exact, plain, whole
from chary.session.growing_sparse_results import GrowingRound, GrowingTest
from chary.session.growing_sparse_rounds import NoRoundOpen, OneRound, RoundMoved, RoundState
from chary.session.interaction import FREE, Interaction, Json, Ran, Touched
from chary.session.sparse import AskSparseOnce


@dataclass(frozen=True)
class OpenGrowingSparse(Interaction):
    """The terms of all rounds. Nothing is read but the public size, and nothing is charged.

    `above` is per row, `epsilon` that of a round that begins at `size`, the size of the opening, `most` how many rounds
    may begin (None: as many as the budget can pay for).
    """

    neighbouring: Neighbouring
    above: Number
    epsilon: Number
    size: int = field(compare=False)
    exponent: Number = 1
    most: int | None = None
    values: bool = False
    form: Form = "tuned"
    sensitivity: Number = 1
    grid: Number = 1
    kind = "growing_sparse_vector"

    def __post_init__(self) -> None:
        if self.neighbouring.relation is not Relation.REPLACE or self.neighbouring.unit is not None:
            raise InvalidQuery('averages are over rows of a table: open with privacy_unit=None, relation="replace"')
        if self.size < 1:
            raise InvalidQuery("an average over rows needs rows: append some first")
        if self.most is not None:
            whole(self.most, "rounds")
        object.__setattr__(self, "above", exact(self.above, "above"))
        self.round(Fraction(self.terms.epsilon))

    @cached_property
    def terms(self) -> GrowingRounds:
        """What rounds cost, by the size at which they begin."""
        return GrowingRounds(self.size, self.epsilon, self.exponent, self.values, self.form)

    def round(self, epsilon: Fraction) -> OneRound:
        """The sparse vector that a round of this epsilon is; the threshold comes with each question."""
        sizes = (self.sensitivity, self.grid)
        return OneRound(self.neighbouring, 0, 1, epsilon, 0, self.form, False, self.values, *sizes)

    @cached_property
    def event(self) -> Event:
        return Pure(self.terms.epsilon)

    def price(self, filter_: Filter) -> Price:
        super().price(filter_)  # refuses what could never be charged
        return FREE

    def body(self) -> Json:
        told = {name: str(exact(getattr(self, name), name)) for name in ("above", "exponent", "sensitivity", "grid")}
        told["epsilon_per_round"] = str(self.terms.epsilon)
        return told | {"rounds": self.most, "values": self.values, "form": self.form}

    @classmethod
    def of_body(cls, body: Json, neighbouring: Neighbouring, size: int) -> "OpenGrowingSparse":
        """The opening that a body describes."""
        own = {name: value for name, value in body.items() if name not in ("epsilon_per_round", "rounds")}
        return cls(neighbouring, epsilon=body["epsilon_per_round"], most=body["rounds"], size=size, **own)

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        public_size(rows)
        return []

    def run(self, touched: Touched) -> Ran:
        return Ran({"size": self.size}, hits=0, tests=0, secret=RoundState().dump())

    def present(self, answer: Json, call: int) -> tuple[int, int]:
        return call, answer["size"]


@dataclass(frozen=True)
class BeginRound(Interaction):
    """Draw the hidden threshold of the next round, at a public size.

    Guarantee: `Pure(epsilon)` for all answers of the round, by the size alone, charged now. Nothing is read. Where
    another process began it meanwhile, that is noticed before anything is stored, and the reservation given back.
    """

    opened: int
    started: OpenGrowingSparse
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
        now, most = RoundState.load(secret, self.opened), self.started.most
        if now.open:
            raise RoundMoved(f"round {now.number} of call {self.opened} is open, and goes on to its first hit")
        if most is not None and now.number >= most:
            raise BudgetRefused(
                f"all {most} rounds of the growing sparse vector of call {self.opened} have ended; another is opened "
                "by session.growing_sparse_vector(above=..., epsilon=..., rounds=...)"
            )

    def body(self) -> Json:
        return {"growing_sparse_vector": self.opened}

    def queries(self) -> Sequence[Query]:
        return ()

    def run(self, touched: Touched) -> Ran:
        number = RoundState.load(touched.secret, self.opened).number + 1
        epsilon, hidden = Fraction(self.round.epsilon), self.round.mechanism.start(touched.source)
        answer = {"round": number, "size": self.size, "epsilon": str(epsilon)}
        begun = RoundState(number, self.size, epsilon, hidden.shift)
        return Ran(answer, hits=0, tests=0, secrets={self.opened: begun.dump()})

    def present(self, answer: Json, call: int) -> GrowingRound:
        return GrowingRound(answer["round"], answer["size"], Fraction(answer["epsilon"]))


@dataclass(frozen=True)
class AskGrowingSparse(Interaction):
    """One question against the hidden threshold of the open round, as an average over the rows there are.

    Guarantee: nothing is charged, it was paid when the round began. Hit or miss, the run hands back the state that it
    was based on, so an outcome against a round that moved meanwhile is never published. Rows that another thread
    appends after `size` was read may be counted already: that costs accuracy, by their share, and nothing else.
    """

    opened: int
    started: OpenGrowingSparse
    query: Query
    above: Number
    size: int = field(compare=False)
    kind = "growing_sparse_test"

    def __post_init__(self) -> None:
        object.__setattr__(self, "above", exact(self.above, "above"))
        if isinstance(self.query, Query) and self.query.keys is not None:
            raise InvalidQuery("ask one key at a time, as a condition of its own: test(count(\"ward = 'a'\"))")
        self._asked(Fraction(self.started.terms.epsilon))
        self._check_threshold()

    def _check_threshold(self) -> None:
        """Refuse what no average can be on either side of: a round would be paid for an answer that is known."""
        row = self.query.contribution(self.started.neighbouring)
        low, high = row.low * self.query.grid, row.high * self.query.grid
        if not low <= Fraction(self.above) <= high:
            told = f"above is an average over all rows, from {plain(low)} to {plain(high)} here"
            if isinstance(self.query, Count):
                told = "above is a share of rows, from 0 to 1: 0.3 is 30 %"
            raise InvalidParameter(f"{told}; got {plain(Fraction(self.above))}")

    def _asked(self, epsilon: Fraction) -> AskSparseOnce:
        """The question in counts; its constructor refuses what cannot be asked."""
        return AskSparseOnce(self.opened, self.started.round(epsilon), self.query, Fraction(self.above) * self.size)

    @property
    def event(self) -> Event:
        return self.started.event

    def price(self, filter_: Filter) -> Price:
        return FREE

    @property
    def held(self) -> int:
        return self.opened

    def check(self, secret: bytes | None) -> None:
        if not RoundState.load(secret, self.opened).open:
            raise NoRoundOpen(f"no round of call {self.opened} is open: ask again")

    def body(self) -> Json:
        return {"growing_sparse_vector": self.opened, "query": self.query.body(), "above": str(self.above)}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        state = RoundState.load(touched.secret, self.opened)
        asked = self._asked(state.epsilon)
        ran = asked.run(replace(touched, secret=HiddenThreshold(state.shift or 0).dump()))
        after, values = (state.ended() if ran.hits else state), ran.answer["values"]
        bar = asked.started.error_bar
        answer = {"above": bool(ran.hits), "value": values[0] if values else None, "size": self.size}
        answer |= {"round": state.number, "error_bar": None if bar is None else bar / self.size}
        return Ran(answer, ran.hits, ran.tests, secrets={self.opened: after.dump()})

    def present(self, answer: Json, call: int) -> GrowingTest:
        size, steps = answer["size"], answer["value"]
        value = None if steps is None else float(steps * Fraction(self.started.grid) / size)
        return GrowingTest(call, answer["above"], value, size, answer["round"], answer["error_bar"])
