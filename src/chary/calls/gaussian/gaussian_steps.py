"""The steps of a run of threshold tests with Gaussian noise, one query or one key after another."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting import Event, ExPost
from chary.accounting.gaussian_runs import Losses, RunHit
from chary.amounts import Amount
from chary.answers import Answer, Key, Table, scalar
from chary.calls.gaussian.run_state import RunState, RunTerms
from chary.calls.thresholds.testing import Tested
from chary.core.plan import Interaction, Json, Ran, Touched
from chary.data import Neighbouring, Query
from chary.errors import LedgerBusy, UnknownHeld
from chary.filters import Filter, Price


@dataclass(frozen=True)
class FirstAbove(Table):
    """The first of the keys whose noisy value was at or above the run's noisy threshold, if any (`key` is None).

    Values were clipped to `clipped_to` before. The first `tested` keys were tested; if none was above and some are
    `untested`, the budget could not pay for more.
    """

    key: Key | None
    tested: int
    clipped_to: tuple[float, float]

    @property
    def value(self) -> Any:
        """The key, or None; one of one column is a scalar."""
        return None if self.key is None else scalar(self.key)

    @property
    def interval_says(self) -> str:
        return "no interval: which keys were above is told, not their values"

    @property
    def hit(self) -> bool:
        return self.key is not None

    @property
    def untested(self) -> tuple[Key, ...]:
        """Keys after the one that was found, or after the last that could be paid for."""
        return self.keys[self.tested :]

    def cells(self, position: int) -> dict[str, Any]:
        return {"hit": self.keys[position] == self.key if position < self.tested else None}


class Moved(LedgerBusy):
    """Another test of the run was settled since its state was looked at."""


@dataclass(frozen=True)
class AskAbove(Interaction):
    """The next step of a run.

    Guarantee: the loss of all answers of the run together is at most what the run was charged, whatever came out.
    Reserved is the most that any outcome of these steps can have lost, less what the run was charged before; charged is
    the loss of the outcome, less the same. At most `limit` keys are tested, so many as the budget can pay for. A run
    that is charged `by_hits` is charged for a hit alone (`RunHit`). An outcome on a state that moved meanwhile is
    thrown away by the spine, unseen.
    """

    run_call: int
    terms: RunTerms
    query: Query
    neighbouring: Neighbouring
    state: RunState = field(compare=False, repr=False)
    filter: Filter = field(compare=False, repr=False)
    limit: int
    by_hits: bool = False
    kind = "above_threshold_test"

    def __post_init__(self) -> None:
        self.sensitivity  # noqa: B018 - refuses a query that the run was not opened for, before anything is reserved

    @cached_property
    def sensitivity(self) -> Fraction:
        """The largest of the run's queries with this one."""
        own = self.query.sensitivity(self.neighbouring) * self.query.grid
        return max(self.state.sensitivity, self.terms.allowed(own))

    @cached_property
    def losses(self) -> Losses:
        """Of all steps up to the last of this call."""
        return self.terms.losses(self.sensitivity, self.state.steps + self.limit)

    @cached_property
    def event(self) -> Event:
        if self.by_hits:
            return RunHit(self.terms.noise)
        first = self.state.steps + 1
        return ExPost(self.state.increment(self.losses.worst(first, first + self.limit - 1)))

    @property
    def most_hits(self) -> int:
        return 1

    @property
    def held(self) -> int:
        return self.run_call

    def check(self, secret: bytes | None) -> None:
        if secret is None:
            raise UnknownHeld(f"call {self.run_call} keeps no threshold: it was interrupted; open a new run")
        now = RunState.load(secret)
        if now.halted:
            raise UnknownHeld(f"run {self.run_call} halted at step {now.steps}: open a new one")
        if now != self.state:
            raise Moved(f"another test of run {self.run_call} came first: ask again")

    def body(self) -> Json:
        return {"query": self.query.body(), "above_threshold": self.run_call}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        held, above, tested = self.state.held, False, 0
        for value in touched.integers()[: self.limit].tolist():
            clipped = min(max(value * self.query.grid, self.terms.low), self.terms.high)
            above, held = self.terms.mechanism.step(clipped, held, touched.source)
            tested += 1
            if above:
                break
        after = replace(self._after(tested, above), held=held)
        answer = {"above": above, "tested": tested, "step": after.steps}
        return Ran(answer, hits=int(above), tests=tested, secrets={self.run_call: after.dump()})

    def _after(self, tested: int, above: bool) -> RunState:
        steps = self.state.steps + tested
        charged = max(self.state.charged, self.losses.of(steps, halted=above))
        return replace(self.state, steps=steps, charged=charged, sensitivity=self.sensitivity, halted=above)

    def final(self, price: Price, ran: Ran, reserved_hits: int) -> Amount:
        if self.by_hits:
            return super().final(price, ran, reserved_hits)
        after = self._after(ran.tests, bool(ran.hits))
        return self.filter.price(ExPost(self.state.increment(after.charged))).hit

    def present(self, answer: Json, call: int) -> Answer:
        return Tested(call, bool(answer["above"]))


class WatchAbove(AskAbove):
    """As many steps as there are keys, up to the first True."""

    def present(self, answer: Json, call: int) -> Answer:
        keys, tested = tuple(self.query.keys or ()), answer["tested"]
        found = keys[tested - 1] if answer["above"] else None
        return FirstAbove(call, self.query.columns, keys, found, tested, self.terms.clipped_to)
