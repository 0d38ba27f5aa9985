"""Asking the same again and again, and paying only when the answer changes."""

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any, Self, cast

from chary.accounting import Event, Publication, Support, Targeted
from chary.calls.algorithms.algorithm import Algorithm
from chary.calls.algorithms.calling import RunOnce
from chary.calls.algorithms.targets import EVERYTHING, UNSAID, Target, not_prior
from chary.calls.algorithms.tracked_changes import AskChanged
from chary.calls.answers import Tracked, published
from chary.calls.call import Bound, call
from chary.calls.fields import AnyQuestion, Positive
from chary.calls.thresholds.how_sharply import FreshlyValued
from chary.core.plan import Json, Ran, Touched, laplace_for, natural
from chary.core.transaction import Spine
from chary.data import Query
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms import Additive, Laplace
from chary.numbers import positive


@call("track", subject="algorithms")
class Track(FreshlyValued[Tracked]):
    """One question, asked as often as you like, and paid only when the answer changes.

    With `hits`, `price` or `within` (as for `Test`) the answer is told again when it is `step` or more from the one
    told last, with noise of its own, for the part `value` of the price of a change. With `epsilon` it is a noisy value
    rounded to a multiple of `step` (without rounding, noise would change every answer: take a step of several error
    bars). An `Algorithm` brings its own epsilon.

    Guarantee: with `epsilon`, one epsilon-DP call whose NotPrior target is "not the last published answer to this
    question", which is read from the ledger; otherwise a `SharpTest` of the distance from that answer, on both sides
    (docs/theory.md), and at a change a fresh value. The first answer is charged: by sharp tests as a value alone. Once
    there is one, the outlook of a quote is about distances from it, against `step`.
    """

    question: AnyQuestion
    _: KW_ONLY
    step: Positive | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.question, Algorithm):
            super().__post_init__()
            if self.step is None:
                raise InvalidParameter(
                    "a question is tracked with step=, how far it must have changed, such as step=100"
                )
            positive(self.step, "step")
        elif len(self.ways) > (self.epsilon is not None):
            raise InvalidParameter("an algorithm brings its own epsilon: leave hits=, price=, within= and value= out")

    @classmethod
    def recorded(cls, body: Json) -> Self:
        return super().recorded(body | {"question": body.get("query")})

    def bind(self, spine: Spine) -> "CallAgain | AskTracked | AskChanged":
        first = self._after(spine, UNSAID)
        stored = spine.ledger.last_settled(spine.dataset, "track", first.text())
        return first if stored is None else self._after(spine, json.loads(stored.answer or "{}").get("value", UNSAID))

    def _after(self, spine: Spine, prior: Any) -> "CallAgain | AskTracked | AskChanged":
        question, neighbouring = self.question, spine.rows.neighbouring
        if isinstance(question, Algorithm):
            return CallAgain(self, neighbouring, prior)
        if not isinstance(question, Query) or question.keys is not None:
            raise InvalidQuery("track a single count or total, or an Algorithm")
        known = None if prior is UNSAID else prior
        if self.epsilon is not None:
            return AskTracked(self, neighbouring, question, known)
        change = question.sensitivity(neighbouring)
        sharpness = self.sharpness(spine.filter, change, question.grid, self.value_share)
        return AskChanged(self, neighbouring, sharpness, question, self.step or 0, known)


@dataclass(frozen=True)
class CallAgain(RunOnce[Track]):
    """The same algorithm once more; which outcome was the prior is told by the answer, not by the question."""

    prior: Any

    @property
    def algorithm(self) -> Algorithm:
        return cast("Algorithm", self.call.question)

    @cached_property
    def target(self) -> Target:
        self.algorithm.size  # noqa: B018 - refuses a rho, which the second time could have no prior
        return EVERYTHING if self.prior is UNSAID else not_prior(self.algorithm, self.prior)

    def body(self) -> Json:
        return self.algorithm.body()

    def present(self, answer: Json, call: int) -> Tracked:
        return Tracked(call, self.told(answer), answer["hit"], None)


@dataclass(frozen=True)
class AskTracked(Bound[Track]):
    """A noisy value rounded to a multiple of the step, paid when it is not the `prior` (None: nothing is known yet)."""

    query: Query
    prior: int | None = None
    decides = True

    @cached_property
    def step(self) -> Fraction:
        """What answers are multiples of."""
        return Fraction(self.call.step or 0)

    @cached_property
    def noise(self) -> Laplace:
        """The noise before rounding; refuses noise out of range."""
        return laplace_for(self.query, self.neighbouring, self.call.epsilon or 0)

    @cached_property
    def event(self) -> Event:
        return Targeted(self.call.epsilon or 0)

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, self.query.grid

    def body(self) -> Json:
        return {"query": self.query.body(), "step": str(self.step), "epsilon": str(self.call.epsilon)}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        noisy = self.noise.apply_one(touched.integer(), touched.source)
        cell = (noisy * self.query.grid / self.step + Fraction(1, 2)).__floor__()
        hit = cell != self.prior
        return Ran({"value": cell, "hit": hit, "prior": self.prior}, hits=int(hit), tests=1)

    def present(self, answer: Json, call: int) -> Tracked:
        # Answers of old ledgers do not say from what they changed, so a change says nothing by itself.
        told = self._published(answer.get("prior")) if answer["hit"] else None
        known = told is None and ("prior" in answer or not answer["hit"])
        bar = float(self.step) / 2 + (self.error_bar or 0.0) if known else None
        return Tracked(call, natural(answer["value"], self.step), answer["hit"], bar, publication=told)

    def _published(self, prior: int | None) -> Publication | None:
        """A change is told where the noisy value no longer rounds to the last answer, a first answer in any case."""
        if prior is None:
            return None
        first, last = (ceil((2 * cell - 1) * self.step / (2 * self.query.grid)) for cell in (prior, prior + 1))
        support = Support.outside(first, last - 1)
        return published(self.noise, self.query, self.neighbouring, support, step=self.step)
