"""Multiplicative weights by rounds of sparse vector: an opening that pays for all of them, and free queries."""

import json
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from chary.accounting import Event
from chary.accounting.events import failing
from chary.accounting.sparse_weights import Constants, weight_rounds
from chary.accounting.weight_rounds import WeightRounds
from chary.data import Neighbouring, count
from chary.data.universe import Universe
from chary.errors import BudgetRefused, InvalidParameter, InvalidQuery
from chary.filters import Filter, Price
from chary.mechanisms import HiddenThreshold, Laplace, SparseVector
from chary.mechanisms.multiplicative_weights import MultiplicativeWeights, Transcript, Weights
from chary.numbers import Number, plain, positive, probability, whole
from chary.session.interaction import FREE, Json, Ran, Touched
from chary.session.multiplicative_weights import NEARLY_SURE, AskHistogram, OpenHistogram

NOTHING = Transcript()


@dataclass(frozen=True)
class RoundState:
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
        return json.dumps([self.begun, self.size, self.shift]).encode() + b"\n" + self.transcript.dump()

    @classmethod
    def load(cls, data: bytes) -> Self:
        """What `dump` wrote."""
        latest, _, changes = data.partition(b"\n")
        return cls(Transcript.load(changes), *json.loads(latest))

    def __repr__(self) -> str:
        return f"RoundState(<secret>, begun={self.begun}, size={self.size})"


@dataclass(frozen=True)
class OpenSparseWeights(OpenHistogram):
    """A uniform public histogram over a universe, and the budget of all rounds of sparse vector that will correct it.

    Guarantee: `rounds.event` for everything that is answered, however many queries there are and however far the table
    grows; charged at once. Nothing is read but the public size.
    """

    universe: Universe
    rule: MultiplicativeWeights
    neighbouring: Neighbouring
    epsilon: Number | None
    rho: Number | None
    delta: Number
    exponent: Number
    constants: Constants
    most_at_start: int | None
    size: int = field(compare=False)
    kind = "sparse_weights"

    def __post_init__(self) -> None:
        for name in ("epsilon", "rho"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive(getattr(self, name), name))
        object.__setattr__(self, "delta", failing(self.delta))
        object.__setattr__(self, "exponent", probability(self.exponent, "exponent"))
        if self.most_at_start is not None:
            object.__setattr__(self, "most_at_start", whole(self.most_at_start, "rounds"))
        if self.size < 1:
            raise InvalidQuery("a histogram of shares needs rows: append some first")
        self._check_noise()

    def _check_noise(self) -> None:
        """Refuse constants that do not keep the budget, and a first round whose noise is out of range."""
        first = self.rounds.epsilon_down(1, self.size)
        try:
            self.machine(1, self.size)
            return
        except InvalidParameter:
            pass
        raise InvalidParameter(
            f"so many rounds leave an epsilon of {plain(first)} for the first, too little for any noise: give a larger "
            "alpha=, epsilon= or rho=, or a small number of rounds="
        )

    @cached_property
    def rounds(self) -> WeightRounds:
        """What each round may spend."""
        return weight_rounds(
            alpha=self.rule.alpha,
            cells=self.universe.cells,
            start=self.size,
            update=self.rule.update,
            mixing=self.rule.mixing,
            exponent=self.exponent,
            constants=self.constants,
            epsilon=self.epsilon,
            rho=self.rho,
            delta=self.delta,
            rounds=self.most_at_start,
        )

    def machine(self, number: int, size: int) -> SparseVector:
        """The sparse vector of a round that began at this size."""
        return SparseVector(self.rounds.noise(number, size), count().sensitivity(self.neighbouring))

    @property
    def event(self) -> Event:
        return self.rounds.event

    def body(self) -> Json:
        sizes = {name: str(getattr(self, name)) for name in ("delta", "exponent")}
        sizes |= {name: str(size) for name in ("epsilon", "rho") if (size := getattr(self, name)) is not None}
        told = {"constants": self.constants, "rounds": self.most_at_start, "alpha": str(self.rule.alpha)}
        return self.universe.body() | sizes | told | {"update": self.rule.update, "mixing": str(self.rule.mixing)}

    @classmethod
    def of_body(cls, body: Json, neighbouring: Neighbouring, size: int) -> "OpenSparseWeights":
        """The opening that a body describes."""
        rule = MultiplicativeWeights(Fraction(body["alpha"]), body["update"], Fraction(body["mixing"]))
        total = (body.get("epsilon"), body.get("rho"), body["delta"], body["exponent"])
        return cls(Universe.of_body(body), rule, neighbouring, *total, body["constants"], body["rounds"], size)

    @property
    def fresh(self) -> bytes:
        return RoundState().dump()


@dataclass(frozen=True)
class AskSparseWeights(AskHistogram):
    """One query to the histogram, as two queries to the sparse vector of the round.

    Guarantee: nothing is charged, it was paid at the opening. The count less the histogram's and the histogram's less
    the count, each with its own noise, are compared with 2 alpha/3 of the rows and the hidden noise of the round, in
    whole numbers. The first query of a round draws that noise; a hit publishes the count with noise of its own and ends
    the round. Whether a round may begin depends on public numbers only.
    """

    started: OpenSparseWeights
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

    def price(self, filter_: Filter) -> Price:
        return FREE

    def check(self, secret: bytes | None) -> None:
        super().check(secret)
        state, allowed = RoundState.load(secret or b""), self.started.rounds.allowance
        if state.next > allowed.most(self.size):
            raise BudgetRefused(
                f"round {state.next} may begin at {allowed.opens(state.next)} rows at the earliest, and there are "
                f"{self.size}: until then the histogram answers alone"
            )
        self._machine(state)

    def _machine(self, state: RoundState) -> SparseVector:
        return self.started.machine(state.next, self.size if state.shift is None else state.size)

    def run(self, touched: Touched) -> Ran:
        before = RoundState.load(touched.secret or b"")
        machine, state = self._machine(before), before
        if before.shift is None:
            state = RoundState(before.transcript, before.next, self.size, machine.start(touched.source).shift)
        with self.memory.at(state.transcript) as weights:
            share = weights.share(self.located[0], self.size)
            found = self._tested(machine, state, share, touched)
            if found is None:
                kept: dict[int, bytes | None] = {} if state == before else {self.opened: state.dump()}
                return Ran(self._told(state) | {"hard": False, "share": share}, hits=0, tests=1, secrets=kept)
            return self._hard(weights, state, found)

    def _tested(self, machine: SparseVector, state: RoundState, share: float, touched: Touched) -> "_Hit | None":
        easy, rows = self.started.rule.easy(share, self.size), touched.integer()
        beyond = np.array([rows - easy.high - 1, easy.low - 1 - rows])
        crossed = machine.step(HiddenThreshold(state.shift or 0), beyond, 0, touched.source)[1]
        if not crossed.values or machine.answers is None:
            return None
        above, value = crossed.positions == [0], crossed.values[0]
        return _Hit(above, easy.high + 1 + value if above else easy.low - 1 - value, machine.answers)

    def _hard(self, weights: Weights, state: RoundState, hit: "_Hit") -> Ran:
        """Publish the count, teach it to the histogram, end the round."""
        answer, margin = hit.noisy / self.size, hit.noise.error_bar(NEARLY_SURE) / self.size
        change = weights.change(self.text_of_query, self.located[0], self.size, answer, margin, hit.above)
        after = RoundState(state.transcript.then(change), state.begun, state.size)
        bar = {"error_bar": hit.noise.error_bar() / self.size}
        told = self._told(state) | {"hard": True, "above": hit.above, "count": hit.noisy} | bar
        return Ran(told, hits=1, tests=1, secrets={self.opened: after.dump()})

    def _told(self, state: RoundState) -> Json:
        epsilon = self.started.rounds.epsilon_down(state.begun, state.size)
        return {"size": self.size, "round": state.begun, "epsilon": str(epsilon)}


class _Hit(NamedTuple):
    """On which side of the histogram's answer the count was found, and the noisy count."""

    above: bool
    noisy: int
    noise: Laplace
