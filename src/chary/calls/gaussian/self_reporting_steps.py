"""The tests of runs that restart themselves: their state, their answers, and what each batch of tests is charged."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting import Event, ExPost
from chary.accounting.gaussian_runs import NOTHING_TOLD, Reported
from chary.amounts import Amount
from chary.answers import Answer, Key, Table, scalar
from chary.calls.gaussian.gaussian_steps import Moved
from chary.calls.gaussian.run_state import RunTerms
from chary.calls.thresholds.testing import Tested
from chary.core.plan import FREE, Interaction, Json, Ran, Touched
from chary.data import Query, ValueAt, Values
from chary.errors import BudgetRefused, UnknownHeld
from chary.filters import Filter, Price
from chary.mechanisms.additive import SMALL, padded, unpadded
from chary.mechanisms.gaussian import RestartingThreshold, RunsState
from chary.noise.gaussian import Deviate


@dataclass(frozen=True)
class AllAbove(Table):
    """The keys whose noisy values were at or above the runs' noisy thresholds; a new run began after each of them.

    Values were clipped to `clipped_to` before. The first `tested` keys were tested; if some are `untested`, the total
    of the runs could not pay for the next.
    """

    above: tuple[Key, ...]
    tested: int
    clipped_to: tuple[float, float]

    @property
    def value(self) -> tuple[Any, ...]:
        """The keys that were above, in order; one of one column is a scalar."""
        return tuple(scalar(key) for key in self.above)

    @property
    def interval_says(self) -> str:
        return "no interval: which keys were above is told, not their values"

    @property
    def hit(self) -> bool:
        return bool(self.above)

    @property
    def hits(self) -> int:
        """How many keys were above."""
        return len(self.above)

    @property
    def untested(self) -> tuple[Key, ...]:
        """Keys after the last that could be paid for."""
        return self.keys[self.tested :]

    def states(self) -> list[bool | None]:
        """True above, False below, None untested, one for each key."""
        return [self.cells(position)["hit"] for position in range(len(self.keys))]

    def cells(self, position: int) -> dict[str, Any]:
        return {"hit": self.keys[position] in self.above if position < self.tested else None}


@dataclass(frozen=True)
class ReportingProgress:
    """How far the runs are. The noise of the present threshold (`held`) is secret, the rest is public.

    `tested` values were tested in all, `day` is the first position of a series after those that were, and `charged`
    is what was charged for the losses so far.
    """

    held: Deviate
    told: Reported = NOTHING_TOLD
    tested: int = 0
    day: int = 0
    charged: Fraction = Fraction(0)

    @property
    def runs(self) -> RunsState:
        """The state of the mechanism."""
        return RunsState(self.held, self.told)

    def dump(self) -> bytes:
        """The state for the ledger's secret table."""
        told = self.told
        public = [str(told.spent), told.halted, told.steps, self.tested, self.day, str(self.charged)]
        known = json.dumps([[self.held.floor, self.held.bits], *public])
        return padded(known.encode(), SMALL + len(json.dumps(public)))

    @classmethod
    def load(cls, data: bytes) -> "ReportingProgress":
        """The state that `dump` wrote."""
        held, spent, halted, steps, tested, day, charged = json.loads(unpadded(data))
        return cls(Deviate(*held), Reported(Fraction(spent), halted, steps), tested, day, Fraction(charged))


@dataclass(frozen=True)
class AskReporting(Interaction):
    """One test, or one for each key in turn, with a new run after each that is above.

    Guarantee: that of the opening, which holds whatever is asked. Where the opening was charged whole, this is free.
    Otherwise (`as_told`) reserved is the most that these tests can add to the loss of all answers so far, for several
    all that is left of `total`, and charged is what they added. An outcome on a state that moved meanwhile is thrown
    away by the spine, unseen.
    """

    run_call: int
    terms: RunTerms
    machine: RestartingThreshold
    total: Fraction
    as_told: bool
    query: Query
    state: ReportingProgress = field(compare=False, repr=False)
    filter: Filter = field(compare=False, repr=False)
    kind = "self_reporting_test"

    @property
    def _keys(self) -> int:
        return len(self.query.keys or ((),))

    @cached_property
    def event(self) -> Event:
        return ExPost(max(Fraction(0), self._worst - self.state.charged))

    @property
    def _worst(self) -> Fraction:
        """The most that all answers can have lost after these tests."""
        told = self.state.told
        return told.worst(self.machine.losses(told.steps + 1)) if self._keys == 1 else self.total

    def price(self, filter_: Filter) -> Price:
        return filter_.price(self.event) if self.as_told else FREE

    @property
    def held(self) -> int:
        return self.run_call

    def check(self, secret: bytes | None) -> None:
        if secret is None:
            raise UnknownHeld(f"call {self.run_call} keeps no threshold: it was interrupted; open new runs")
        if ReportingProgress.load(secret) != self.state:
            raise Moved(f"another test of run {self.run_call} came first: ask again")
        if not self.machine.admits(self.state.told):
            raise BudgetRefused(f"the runs of call {self.run_call} stopped: their total cannot pay for another test")

    def body(self) -> Json:
        return {"query": self.query.body(), "self_reporting": self.run_call}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        low, high, grid = self.terms.low, self.terms.high, self.query.grid
        values = [min(max(value * grid, low), high) for value in touched.integers().tolist()]
        found = self.machine.scan(values, self.state.runs, touched.source)
        after = replace(self._after(found.state.told, found.tested), held=found.state.held)
        answer = {"above": list(found.above), "tested": found.tested, "lost": str(after.charged)}
        return Ran(answer, hits=len(found.above), tests=found.tested, secrets={self.run_call: after.dump()})

    def _after(self, told: Reported, tested: int) -> ReportingProgress:
        lost = told.loss(self.machine.losses(max(told.steps, 1)))
        charged = max(self.state.charged, lost)
        day = max(self.state.day, _first(self.query) + tested)
        return replace(self.state, told=told, tested=self.state.tested + tested, day=day, charged=charged)

    def final(self, price: Price, ran: Ran, reserved_hits: int) -> Amount:
        if not self.as_told:
            return Amount(0)
        return self.filter.price(ExPost(Fraction(ran.answer["lost"]) - self.state.charged)).hit

    def present(self, answer: Json, call: int) -> Answer:
        return Tested(call, bool(answer["above"]))


class ScanReporting(AskReporting):
    """As many tests as there are keys."""

    def present(self, answer: Json, call: int) -> Answer:
        keys = tuple(self.query.keys or ())
        above = tuple(keys[position] for position in answer["above"])
        return AllAbove(call, self.query.columns, keys, above, answer["tested"], self.terms.clipped_to)


def _first(query: Query) -> int:
    """The first position of a series that is asked; what is no series has none."""
    if isinstance(query, ValueAt):
        return query.position
    return query.start if isinstance(query, Values) else -(2**62)
