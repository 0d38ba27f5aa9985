"""A public histogram that is corrected in rounds of sparse vector, paid for once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chary.accounting.weights import hard_answers_up
from chary.calls.weights.public_weights import HistogramState, WeightsQuote, condition_text
from chary.calls.weights.sparse_histogram_questions import AskSparseWeights, HistogramRound
from chary.calls.workload import AskedShare
from chary.core.plan import Json
from chary.core.transaction import Spine
from chary.data.size import public_size
from chary.mechanisms.weights import Transcript

if TYPE_CHECKING:
    from chary.calls.weights.sparse_weighting import OpenSparseWeights


@dataclass(frozen=True)
class SparseWeightsQuote(WeightsQuote):
    """Where a histogram of this form stands. Nothing in it depends on unpublished data, so it is free.

    As in `WeightsQuote`, where `hard_left` is how many hard answers there may still be at this size (0 where other
    processes have more rows and are further on), `epsilon` that of the round of the next query. At `more_at` rows there
    may be one more than now. `reached` counts the noise of that round for all the queries, spread over the rounds that
    are left.
    """

    more_at: int

    def __str__(self) -> str:
        if not self.hard_left:
            return f"{self.hard} hard queries so far: the histogram answers alone until there are {self.more_at} rows"
        return f"{super().__str__()}; one more at {self.more_at} rows"


class SparseWeightsState(HistogramState):
    """A public histogram that is corrected in rounds of sparse vector, all paid at the opening.

    When no further hard answer can be had at the present size, the histogram answers alone until the table has grown.
    """

    def __init__(self, spine: Spine, call: int, started: "OpenSparseWeights") -> None:
        super().__init__(spine, call, started)
        self._started = started

    def standing(self, *, queries: int = 1000) -> SparseWeightsQuote:
        size, rule, state = self.asked(None).size, self._rule, HistogramRound.load(self._secret())
        rounds, hard = self._started.rounds, len(state.transcript.changes)
        allowed, since = rounds.allowance.most(size), size if state.shift is None else state.size
        left = max(0, allowed - hard)
        start, cells = self._started.size, self.universe.cells
        sizes = {"cells": cells, "start": start, "size": max(size, start)}
        return SparseWeightsQuote(
            hard=hard,
            hard_left=left,
            most_hard=hard_answers_up(alpha=rule.alpha, **sizes, update=rule.update, mixing=rule.mixing),
            epsilon=float(rounds.epsilon_down(state.next, since)),
            alpha=float(rule.alpha),
            queries=queries,
            reached=self._reached(state.next, since, queries, left),
            more_at=rounds.allowance.opens(max(allowed + 1, state.next)),
        )

    def _reached(self, number: int, since: int, queries: int, left: int) -> float:
        noise = self._started.machine(number, since).answers
        if left == 0 or noise is None:
            return float("inf")
        told = self._started.told(number, since) | {"round": number - 1 + min(queries, left)}
        return self.asked(None).reached(told, noise, queries, left)

    def _noise_now(self) -> Json:
        state = HistogramRound.load(self._secret())
        size = public_size(self._spine.rows) if state.shift is None else state.size
        return self._started.told(state.next, size)

    def asked(self, where: AskedShare) -> AskSparseWeights:
        size = public_size(self._spine.rows)
        return AskSparseWeights(self.call, self._started, condition_text(where), size, self._memory)

    def _loaded(self, secret: bytes) -> Transcript:
        return HistogramRound.load(secret).transcript
