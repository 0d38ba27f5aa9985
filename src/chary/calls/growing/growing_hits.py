"""Sharp tests of averages over a growing table: nothing is hidden, a test is free until it says yes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NoReturn

from chary.accounting import Event, Publication
from chary.accounting.growing_rounds import GrowingRounds
from chary.calls.growing.growing_questions import check_average
from chary.calls.growing.growing_results import GrowingTest
from chary.calls.growing.growing_states import GrowingHitsState, GrowingState
from chary.calls.growing.open_rounds import GrowingRoundState
from chary.calls.openings import FreeOpening
from chary.calls.thresholds.hit_terms import HitTerms, coarse_down
from chary.calls.thresholds.sharpness import Sharpness
from chary.core.plan import Interaction, Json, Ran, Touched, Within, check_question, steps_at_least
from chary.core.transaction import Spine
from chary.data import Mean, Query, Reading, Rows
from chary.data.size import public_size
from chary.errors import BudgetRefused, InvalidParameter, InvalidQuery
from chary.mechanisms import Additive, Gaussian
from chary.mechanisms.threshold_tests import SharpTests
from chary.numbers import Number


@dataclass(frozen=True)
class OpenGrowingHits(FreeOpening[Any]):
    """The terms of all tests, where `hit` is that of a yes at `size`, the size of the opening.

    Nothing is read but the public size, and nothing is charged. The answer keeps the price of a yes at that size: it
    may have been found in floats, so it is read again and never found anew.
    """

    size: int = field(compare=False)
    hit: HitTerms = field(compare=False)

    def __post_init__(self) -> None:
        self.hit.sharpness()  # refuses what has no table
        super().__post_init__()

    def at(self, size: int) -> HitTerms:
        """The terms of a test at this size."""
        speeds = GrowingRounds(self.size, 1, self.call.exponent)
        return self.hit.slower(speeds.epsilon_down(max(self.size, coarse_down(size))))

    def begin(self, opened: int, size: int) -> NoReturn:
        """Nothing begins before it is asked."""
        raise InvalidParameter("sharp tests have no round to begin: ask(query), and a yes is charged")

    def asked(self, opened: int, query: Query, above: Fraction, size: int) -> "AskGrowingHit":
        """A question at this size."""
        return AskGrowingHit(opened, self, query, above, size)

    def state(self, spine: Spine, opened: int) -> GrowingState:
        """What is public of it now."""
        return GrowingHitsState(spine, opened, self)

    @property
    def event(self) -> Event:
        return self.hit.event

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        public_size(rows)
        return []

    def run(self, touched: Touched) -> Ran:
        told = {"size": self.size, "price": str(self.hit.price)}
        return Ran(told, hits=0, tests=0, secret=GrowingRoundState().dump())


@dataclass(frozen=True)
class AskGrowingHit(Interaction):
    """One question as an average over the rows there are, charged if it is above its threshold.

    Guarantee: `SharpTest` of the count or total against the threshold times the public size. How many yeses there were
    is kept beside the opening, and changes in the transaction that stores one.
    """

    opened: int
    started: OpenGrowingHits
    query: Query
    above: Fraction
    size: int = field(compare=False)
    kind = "growing_sparse_test"

    def __post_init__(self) -> None:
        check_question(self.query)
        if isinstance(self.query, Mean) or self.query.keys is not None:
            raise InvalidQuery(
                "averages are of a count or a total, one key at a time, as a condition of its own: "
                "ask(count(\"ward = 'a'\"))"
            )
        check_average(self.query, self.started.neighbouring, self.above)
        self.sharpness, self.noise  # noqa: B018 - refuses what has no table

    @cached_property
    def own(self) -> HitTerms:
        """The terms at this size."""
        return self.started.at(self.size)

    @cached_property
    def sharpness(self) -> Sharpness:
        """The test."""
        return self.own.sharpness(self.query.sensitivity(self.started.neighbouring), self.query.grid)

    @cached_property
    def noise(self) -> Gaussian | None:
        """That of a published total; None where no values are published."""
        change = self.query.sensitivity(self.started.neighbouring)
        return self.own.noise(change) if self.own.share else None

    @property
    def event(self) -> Event:
        return self.own.event

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        return None if self.noise is None else (self.noise, self.query.grid)

    @property
    def bar_step(self) -> Fraction:
        return self.query.grid

    def wrong_call(self, distance: int) -> float:
        return self.sharpness.wrong_call(distance)

    def within(self, tests: int, confidence: Number) -> Within:
        return self.sharpness.within(tests, confidence)

    @property
    def held(self) -> int:
        return self.opened

    def check(self, secret: bytes | None) -> None:
        now, most = GrowingRoundState.load(secret, self.opened), self.started.call.rounds
        if most is not None and now.number >= most:
            raise BudgetRefused(
                f"all {most} rounds of the growing sparse vector of call {self.opened} have ended; another is opened "
                "by session.start(GrowingSparse(above=..., hits=..., rounds=...))"
            )

    def body(self) -> Json:
        return {"growing_sparse_vector": self.opened, "query": self.query.body(), "above": str(self.above)}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        state = GrowingRoundState.load(touched.secret, self.opened)
        bar = steps_at_least(self.above * self.size, self.query.grid) - self.sharpness.bar
        found = SharpTests(self.sharpness.sampler, bar, self.noise).step(touched.integers(), touched.source)
        above, number = bool(found.positions), state.number + 1
        told = self.error_bar
        answer = {
            "above": above,
            "value": found.noisy[0] if found.noisy else None,
            "size": self.size,
            "round": number,
            "error_bar": None if told is None else told / self.size,
            "price": str(self.own.price),
        }
        after = GrowingRoundState(number, self.size) if above else state
        return Ran(answer, int(above), 1, secrets={self.opened: after.dump()})

    def present(self, answer: Json, call: int) -> GrowingTest:
        size, steps = answer["size"], answer["value"]
        value = None if steps is None else float(steps * self.query.grid / size)
        told = (answer["error_bar"], size, answer["round"])
        return GrowingTest(call, answer["above"], value, *told, publication=self.published(answer))

    def published(self, answer: Json) -> Publication | None:
        """How the average of a hit was published, with noise of its own; None where none was, or its size is unknown.

        Its steps are those of the total over the rows there were.
        """
        own = self.started.at(answer["size"])
        if answer["value"] is None or str(own.price) != answer.get("price"):
            return None
        neighbouring, size = self.started.neighbouring, answer["size"]
        noise = own.noise(self.query.sensitivity(neighbouring))
        floor, ceiling = (None if end is None else Fraction(end, size) for end in self.query.known_range(neighbouring))
        bar = steps_at_least(self.above * size, self.query.grid)
        return Publication(noise.law(), grid=self.query.grid / size, floor=floor, ceiling=ceiling, bar=bar)
