"""A public histogram in a session: asking it, and what can be made of it for free."""

import json
import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.accounting.weights import EQUAL_QUESTIONS, hard_answers_up
from chary.answers import handed_out
from chary.calls.run import Kept
from chary.calls.weights.charged_questions import AskCharged
from chary.calls.weights.histogram_questions import (
    EVERYTHING,
    AskHistogram,
    HistogramMemory,
    OpenHistogram,
    WeightedAnswer,
    promised,
)
from chary.calls.workload import AskedShare, condition
from chary.core.plan import Json
from chary.core.quote import NOT_KEPT, Quote, quote
from chary.core.transaction import Spine
from chary.data.domain.synthetic import rows_drawn
from chary.data.size import public_size
from chary.errors import BudgetRefused, NoPrice, UnknownHeld
from chary.mechanisms.weights import Change, Transcript
from chary.numbers import plain

if TYPE_CHECKING:
    from chary.calls.weights.weighting import OpenSharpWeights, OpenWeights


@dataclass(frozen=True)
class WeightsQuote:
    """Where a public histogram stands. Nothing in it depends on unpublished data, so it is free.

    `hard` queries there were so far, and `hard_left` still fit (None: they are free). `most_hard` is what the theorem
    allows from the opening until now, while all answers are within alpha/3. `epsilon` is that of a call now, None for
    sharp tests, `alpha` what the answers are meant to be within, `reached` what they are all within over the first
    `queries` questions, 95 times in 100: 2 alpha/3 and what the noise of a question now leaves (see `WeightedAnswer`),
    or the noise of the values if that is more; infinite where no hard answer is left, since the histogram alone may be
    off by anything; above 1 it is no promise.
    """

    hard: int
    hard_left: int | None
    most_hard: float
    epsilon: float | None
    alpha: float
    queries: int
    reached: float

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)

    def __str__(self) -> str:
        left = "any number is" if self.hard_left is None else f"{self.hard_left} are"
        within = f"{self.queries} answers are all within {plain(min(1.0, self.reached))} 95 times in 100"
        if self.alpha < self.reached:
            within = f"{within}: {NOT_KEPT}"
        if math.isinf(self.reached):
            within = "the histogram answers alone, unverified"
        return (
            f"{self.hard} hard queries so far, {left} left, at most {plain(self.most_hard)} in the worst case; {within}"
        )


class HistogramState(ABC):
    """What is public of a histogram of either form, and what can be made of it.

    The histogram is a function of published answers: looking at it, and whatever is made of it, is free, and after a
    restart it is bit by bit the same.
    """

    def __init__(self, spine: Spine, call: int, started: OpenHistogram[Any]) -> None:
        self.call, self.universe = call, started.universe
        self._spine, self._rule = spine, started.rule
        self._memory = HistogramMemory(started, spine.rows.schema)

    @abstractmethod
    def asked(self, where: AskedShare) -> AskHistogram:
        """The question, validated."""

    @abstractmethod
    def standing(self, *, queries: int = 1000) -> WeightsQuote:
        """How many hard queries are left, and how accurate so many answers are now."""

    def promised(self) -> str:
        """What easy answers are within from now on, in words; with a warning where that is more than alpha."""
        asked, told = self.asked(None), self._noise_now()
        error = asked.started.easy_error(told, EQUAL_QUESTIONS, size=asked.size)
        return promised(error, self._rule.alpha)

    @abstractmethod
    def _noise_now(self) -> Json:
        """What an answer now would say of its noise."""

    def estimate(self, where: AskedShare) -> float:
        """The histogram's share, unchecked: free, and no data but the public size are read."""
        return self.alone(self.asked(where)).share

    def alone(self, asked: AskHistogram) -> WeightedAnswer:
        """What the histogram says without being checked."""
        with self._memory.at(self._transcript()) as weights:
            return WeightedAnswer(self.call, weights.share(asked.located[0], asked.size), False, False, None)

    @property
    def changes(self) -> tuple[Change, ...]:
        """What each hard answer did, in order; all of it is public."""
        return self._transcript().changes

    def histogram(self) -> NDArray[np.float64]:
        """What part of the rows is in each cell: one axis for each column, the missing cell last. It sums to 1."""
        size = public_size(self._spine.rows)
        with self._memory.at(self._transcript()) as weights:
            return weights.shares(size).reshape(self.universe.shape)

    def synthetic(self, *, rows: int, seed: int = 0) -> pa.Table:
        """A made-up table of that many rows drawn from the histogram: free, since nothing private is read.

        Within a bin, numbers are drawn evenly. The same seed gives the same table: the draw hides nothing.
        """
        return rows_drawn(self.universe, self._spine.rows.schema, self.histogram(), rows=rows, seed=seed)

    def _transcript(self) -> Transcript:
        return self._loaded(self._secret())

    def _loaded(self, secret: bytes) -> Transcript:
        """The public part of what is kept beside the opening."""
        return Transcript.load(secret)

    def _secret(self) -> bytes:
        secret = self._spine.ledger.secret(self.call)
        if secret is None:
            raise UnknownHeld(f"call {self.call} keeps no histogram: it was interrupted; open a new one")
        return secret

    def __repr__(self) -> str:
        alpha = plain(Fraction(self._rule.alpha))
        return f"{type(self).__name__}(call={self.call}, alpha={alpha}, {self.universe})"


class WeightsState(HistogramState):
    """A public histogram that is corrected by hard answers, each of which is charged."""

    def __init__(self, spine: Spine, call: int, started: "OpenWeights | OpenSharpWeights") -> None:
        super().__init__(spine, call, started)
        self._started = started

    def standing(self, *, queries: int = 1000) -> WeightsQuote:
        asked, filter_, rule = self.asked(None), self._spine.filter, self._started.rule
        sizes = {"start": self._started.size, "size": max(asked.size, self._started.size)}
        most = hard_answers_up(
            alpha=rule.alpha, cells=self.universe.cells, **sizes, update=rule.update, mixing=rule.mixing
        )
        left = asked.price(filter_).hit.copies_in(self._spine.left())
        return WeightsQuote(
            hard=len(self.changes),
            hard_left=left,
            most_hard=most,
            epsilon=None if asked.event.epsilon is None else float(asked.event.epsilon),
            alpha=float(rule.alpha),
            queries=queries,
            reached=math.inf if left == 0 else asked.reached(asked.size_told, asked.noise, queries, left),
        )

    def _noise_now(self) -> Json:
        return self.asked(None).size_told

    def asked(self, where: AskedShare) -> AskCharged:
        return self._started.asked(self.call, condition_text(where), public_size(self._spine.rows), self._memory)


class KeptHistogram(Kept[WeightedAnswer, HistogramState]):
    """`run.ask(where)`: the share of rows that satisfy the condition, within alpha; None is every row. A linear query,
    `chary.data.average` or `weighted`, is the average weight of the rows instead, at the same price.

    When no hard answer can be had any more, the histogram answers alone, `verified` is False, and nothing is read
    or recorded; with `must_verify` that is a `BudgetRefused`. Errors: `InvalidQuery` for a condition that the
    universe cannot tell (see `Universe`).
    """

    names = "weights"

    @property
    @abstractmethod
    def state(self) -> HistogramState:
        """The histogram as it is now."""

    def question(self, where: AskedShare) -> AskHistogram:
        return self.state.asked(where)

    def ask(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> WeightedAnswer:
        must_verify, question = options.pop("must_verify", False), self.question(*asked, **options)
        try:
            answer: WeightedAnswer = self.spine.perform(question, request)
        except BudgetRefused as refused:
            if must_verify or isinstance(refused, NoPrice):
                raise
            return handed_out(self.state.alone(question), self.spine)
        return answer

    def quote(self, *asked: Any, must_verify: bool = False, **options: Any) -> Quote:
        """With `must_verify`, what may not be checked now is refused; otherwise the histogram answers alone."""
        try:
            return replace(super().quote(*asked, **options), interval=self.state.promised())
        except BudgetRefused:
            if must_verify:
                raise
            alone = quote(self.spine, self.question(*asked, **options))
            return replace(alone, interval="nothing can be verified now: the histogram answers alone, off by anything")

    @cached_property
    def opened_as(self) -> Json:
        """What the opening told: the number of rows then, and the price of a hit of sharp tests."""
        answer = self.spine.ledger.call(self.number).answer
        if answer is None:
            raise UnknownHeld(f"call {self.number} keeps no histogram: it was interrupted; open a new one")
        told: Json = json.loads(answer)
        return told

    def size_then(self) -> int:
        """The number of rows when it was opened."""
        return int(self.opened_as["size"])


def condition_text(where: AskedShare) -> str:
    """The condition, canonically."""
    asked = condition(where)
    return EVERYTHING if asked is None else asked.text
