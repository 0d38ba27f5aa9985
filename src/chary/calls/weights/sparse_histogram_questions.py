"""Multiplicative weights by rounds of sparse vector: the state of a round, and its free queries."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from chary.accounting import Event
from chary.calls.weights.histogram_questions import NEARLY_SURE, AskHistogram
from chary.core.plan import FREE, Json, Ran, Touched
from chary.errors import BudgetRefused
from chary.filters import Filter, Price
from chary.mechanisms import HiddenThreshold, Laplace, SparseVectorMachine
from chary.mechanisms.additive import SMALL, padded, unpadded
from chary.mechanisms.weights import Transcript, WeightVector

if TYPE_CHECKING:
    from chary.calls.weights.sparse_weighting import OpenSparseWeights

NOTHING = Transcript()


@dataclass(frozen=True)
class HistogramRound:
    """The published changes, how many rounds have begun, and of the round that is under way its size at the beginning
    and the hidden noise of its threshold, which is shown nowhere; None between rounds."""

    transcript: Transcript = NOTHING
    begun: int = 0
    size: int = 0
    shift: int | None = None

    @property
    def next(self) -> int:
        """The number of the round that the next query belongs to."""
        return self.begun + (self.shift is None)

    def dump(self) -> bytes:
        """As the ledger keeps it."""
        public = self.transcript.dump()
        return padded(json.dumps([self.begun, self.size, self.shift]).encode() + b"\n" + public, SMALL + len(public))

    @classmethod
    def load(cls, data: bytes) -> Self:
        """What `dump` wrote."""
        latest, _, changes = unpadded(data).partition(b"\n")
        return cls(Transcript.load(changes), *json.loads(latest))

    def __repr__(self) -> str:
        return f"RoundState(<secret>, begun={self.begun}, size={self.size})"


@dataclass(frozen=True)
class AskSparseWeights(AskHistogram):
    """One query to the histogram, as two queries to the sparse vector of the round.

    Guarantee: nothing is charged, it was paid at the opening. The count less the histogram's and the histogram's less
    the count, each with its own noise, are compared with 2 alpha/3 of the rows and the hidden noise of the round, in
    whole numbers. The first query of a round draws that noise; a hit publishes the count with noise of its own and ends
    the round. Whether a round may begin depends on public numbers only.
    """

    started: "OpenSparseWeights"
    kind = "sparse_weights_ask"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.located  # noqa: B018 - refuses what the universe cannot tell

    @property
    def event(self) -> Event:
        return self.started.event

    @property
    def terms(self) -> Json:
        return {}

    # The epsilon of the opening holds for all of them together.
    adds_up = True

    def price(self, filter_: Filter) -> Price:
        return FREE

    def check(self, secret: bytes | None) -> None:
        super().check(secret)
        state, allowed = HistogramRound.load(secret or b""), self.started.rounds.allowance
        if state.next > allowed.most(self.size):
            raise BudgetRefused(
                f"round {state.next} may begin at {allowed.opens(state.next)} rows at the earliest, and there are "
                f"{self.size}: until then the histogram answers alone"
            )
        self._machine(state)

    def _machine(self, state: HistogramRound) -> SparseVectorMachine:
        return self.started.machine(state.next, self.size if state.shift is None else state.size)

    def run(self, touched: Touched) -> Ran:
        before = HistogramRound.load(touched.secret or b"")
        machine, state = self._machine(before), before
        if before.shift is None:
            state = HistogramRound(before.transcript, before.next, self.size, machine.start(touched.source).shift)
        with self.memory.at(state.transcript) as weights:
            share = weights.share(self.located[0], self.size)
            found = self._tested(machine, state, share, touched)
            if found is None:
                kept: dict[int, bytes | None] = {} if state == before else {self.opened: state.dump()}
                return Ran(self._told(state) | {"hard": False, "share": share}, hits=0, tests=1, secrets=kept)
            return self._hard(weights, state, found)

    def _tested(
        self, machine: SparseVectorMachine, state: HistogramRound, share: float, touched: Touched
    ) -> "_Hit | None":
        easy, rows = self.started.rule.easy(share, self.size), self.counted(touched)
        beyond = np.array([rows - easy.high - 1, easy.low - 1 - rows])
        crossed = machine.step(HiddenThreshold(state.shift or 0), beyond, 0, touched.source)[1]
        if not crossed.values or machine.answers is None:
            return None
        above, value = crossed.positions == [0], crossed.values[0]
        return _Hit(above, easy.high + 1 + value if above else easy.low - 1 - value, machine.answers)

    def _hard(self, weights: WeightVector, state: HistogramRound, hit: "_Hit") -> Ran:
        """Publish the count, teach it to the histogram, end the round."""
        answer, margin = hit.noisy / self.size, (hit.noise.error_bar(NEARLY_SURE) + self.rounding) / self.size
        change = weights.change(self.text_of_query, self.located[0], self.size, answer, margin, hit.above)
        after = HistogramRound(state.transcript.then(change), state.begun, state.size)
        bar = {"error_bar": (hit.noise.error_bar() + self.rounding) / self.size}
        told = self._told(state) | {"hard": True, "above": hit.above, "count": hit.noisy} | bar
        return Ran(told, hits=1, tests=1, secrets={self.opened: after.dump()})

    def _told(self, state: HistogramRound) -> Json:
        return {"size": self.size} | self.started.told(state.begun, state.size)


class _Hit(NamedTuple):
    """On which side of the histogram's answer the count was found, and the noisy count."""

    above: bool
    noisy: int
    noise: Laplace
