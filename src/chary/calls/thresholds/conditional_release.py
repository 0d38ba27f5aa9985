"""Conditional release and its revisions: the noisy value if it is above the bar, otherwise nothing, free and held."""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Final

from chary.accounting import Event, Publication, Support, Targeted
from chary.calls.answers import Conditional, published
from chary.calls.call import Call, call
from chary.calls.extending import Extending
from chary.calls.fields import AnyQuery, Exact, Whole
from chary.calls.numbers.releasing import noises, noisy_parts, parts_of
from chary.calls.thresholds.barring import Barring
from chary.calls.thresholds.fresh_values import AskSharpRelease
from chary.calls.thresholds.how_sharply import Valued
from chary.calls.thresholds.testing import tested_query
from chary.core.history import earlier
from chary.core.plan import (
    ENCODER,
    KEPT,
    Asked,
    Barred,
    Json,
    Question,
    Ran,
    Touched,
    error_bar,
    laplace_for,
    natural,
    steps_at_least,
    threshold_body,
)
from chary.core.transaction import Spine
from chary.data import Mean, Neighbouring, Query
from chary.data.queries.bodies import query_of
from chary.errors import InvalidParameter, InvalidQuery, UnknownHeld
from chary.mechanisms import Additive, Held, Published, judge, revise
from chary.numbers import Number, exact

# A mean lies between the points of its grid; a bar for it is kept to a millionth of a step.
FINER: Final = 10**6


@call("release_if", subject="thresholds")
class ReleaseIf(Valued[Conditional]):
    """The noisy value if it is at or above the bar, otherwise nothing, which is free; see `Revise`.

    Guarantee: with `epsilon`, an epsilon-DP call with the NotPrior target "published" ([TCT] Algorithm 2). The value
    costs no more than the bare answer "above"; an outcome below the bar becomes secret state. With `hits`, `price` or
    `within`, a `SharpTest` (see `Test`), and at a hit an unbiased value with noise of its own; nothing is held, so
    there is nothing to revise.

    >>> from chary import count
    >>> ReleaseIf(count("smoker"), above=500, epsilon="0.02").epsilon
    Fraction(1, 50)
    """

    query: AnyQuery

    def bind(self, spine: Spine) -> "AskReleaseIf | AskSharpRelease":
        if self.query.keys is not None:
            raise InvalidQuery("a keyed query is released above a bar by session.watch(query, above=..., hits=...)")
        neighbouring = spine.rows.neighbouring
        if self.epsilon is not None:
            return AskReleaseIf(self, neighbouring, partial(_revised, spine))
        tested, threshold = tested_query(self.query, neighbouring, exact(self.above, "above"))
        sharpness = self.sharpness(spine.filter, tested.sensitivity(neighbouring), tested.grid, self.value_share)
        return AskSharpRelease(self, neighbouring, sharpness, tested, threshold)


@dataclass(frozen=True)
class AskReleaseIf(Barring[ReleaseIf]):
    """The conditional release, as it is run."""

    reviser: Callable[..., Conditional] | None = field(default=None, compare=False, repr=False)
    decides = True

    @cached_property
    def asked(self) -> Asked:
        """What follows from the question; refuses one that has no noise."""
        return _release_asked(self.call.query, self.neighbouring, self.call.above, self.call.epsilon or 0)

    @property
    def event(self) -> Event:
        return self.asked.event

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        query = self.call.query
        return None if isinstance(query, Mean) else (self.asked.noises[0], query.grid)

    @property
    def barred(self) -> Barred | None:
        if isinstance(self.call.query, Mean):
            return None
        law = self.asked.noises[0].law()
        return self.against(law, self.call.query, self.asked.threshold, shared=law)

    def body(self) -> Json:
        return _body(self.call.query, self.call.above, self.call.epsilon or 0, self.asked.error_bar)

    def text(self) -> str:
        return self.asked.text

    def queries(self) -> Sequence[Query]:
        return self.asked.parts

    def run(self, touched: Touched) -> Ran:
        query, noisy = self.call.query, noisy_parts(self.asked.noises, touched)
        value, score = natural(noisy[0], query.grid), noisy[0]
        if isinstance(query, Mean):
            value = query.combine(*noisy)
            score = math.floor(Fraction(value) / step_of(query))
        return settled(judge(value, score, self.asked.threshold))

    def present(self, answer: Json, call: int) -> Conditional:
        told = None if answer["value"] is None or isinstance(self.call.query, Mean) else self.published()
        return Conditional(call, answer["value"], None, call, self.reviser, publication=told)

    def published(self) -> Publication:
        """A value is told from the bar on."""
        query, support = self.asked.parts[0], Support.at_least(self.asked.threshold)
        return published(self.asked.noises[0], query, self.neighbouring, support)


@lru_cache(maxsize=KEPT)
def _release_asked(query: Question, neighbouring: Neighbouring, above: Fraction, epsilon: Fraction) -> Asked:
    """Refuses a question that has no noise."""
    drawn = noises(query, neighbouring, epsilon=epsilon)
    bar = None if isinstance(query, Mean) else error_bar((drawn[0], query.grid))
    text = ENCODER.encode(_body(query, above, epsilon, bar))
    threshold = steps_at_least(above, step_of(query))
    return Asked(parts_of(query, neighbouring), drawn, Targeted(epsilon), text, threshold, bar)


def _body(query: Question, above: Number, epsilon: Number, bar: float | None) -> Json:
    """A revision knows nothing but what is written here."""
    return threshold_body(query, above, epsilon) | {"grid": str(step_of(query)), "error_bar": bar}


def step_of(query: Question) -> Fraction:
    """What scores and bars are counted in: the grid, or for a mean, which lies between its points, a millionth."""
    return query.grid / FINER if isinstance(query, Mean) else query.grid


def settled(outcome: Held | Published, replaces: int | None = None, below: int | None = None) -> Ran:
    """The public answer and the secret state after a conditional release, or after a revision of call `replaces`, whose
    last bar was `below`: what it published lies below that."""
    hit = isinstance(outcome, Published)
    secret = outcome.dump() if isinstance(outcome, Held) else None
    answer: Json = {"value": outcome.value if hit else None}
    if replaces is None:
        return Ran(answer, hits=int(hit), tests=1, secret=secret)
    told = answer | ({"below": below} if hit else {})
    return Ran(told, hits=int(hit), tests=1, secrets={replaces: secret})


@call("revise", subject="thresholds")
class Revise(Call[Conditional]):
    """Lower the bar for the outcome held by an earlier conditional release, also after a restart; no data are read.

    Guarantee: an extension of the target of that call (`Extendable`, [TCT] Algorithm 2): the first call and all its
    revisions together hit at most once. It is charged like a hit of that call if it publishes now, and free where the
    first call was charged hit or miss, which paid for the outcome. Errors: `UnknownHeld` when that call holds nothing,
    `InvalidParameter` when the bar is not below the last one tried.
    """

    held: Whole
    _: KW_ONLY
    above: Exact

    def bind(self, spine: Spine) -> "AskRevise":
        original = earlier(spine, self.held, "release_if", "a conditional release")
        if "epsilon" not in original:
            raise UnknownHeld(f"call {self.held} holds no outcome: a sharp test keeps none, only epsilon= does")
        return AskRevise(self, spine.rows.neighbouring, original, partial(_revised, spine))


@dataclass(frozen=True)
class AskRevise(Extending[Revise]):
    """The revision, as it is run."""

    reviser: Callable[..., Conditional] | None = field(default=None, compare=False, repr=False)

    @property
    def threshold(self) -> int:
        """The new bar in steps of the original call."""
        return steps_at_least(self.call.above, Fraction(self.original["grid"]))

    @property
    def held(self) -> int:
        return self.call.held

    def check(self, secret: bytes | None) -> None:
        super().check(secret)
        if self.threshold >= (floor := Held.load(secret or b"").floor):
            bar = natural(floor, Fraction(self.original["grid"]))
            raise InvalidParameter(
                f"a revision must lower the bar below the last one tried: give above less than {bar}"
            )

    def run(self, touched: Touched) -> Ran:
        held = Held.load(touched.secret or b"")
        return settled(revise(held, self.threshold), replaces=self.held, below=held.floor)

    def present(self, answer: Json, call: int) -> Conditional:
        told = self._published(answer.get("below"))
        # Answers of old ledgers do not say below which bar the value lay, so it says nothing by itself.
        return Conditional(call, answer["value"], None, self.held, self.reviser, publication=told)

    def _published(self, below: int | None) -> Publication | None:
        """A value is told from this bar on, where it is below the last one tried."""
        query = query_of(self.original["query"])
        if below is None or isinstance(query, Mean):
            return None
        noise = laplace_for(query, self.neighbouring, self.original["epsilon"])
        return published(noise, query, self.neighbouring, Support.between(self.threshold, below))


def _revised(spine: Spine, held: int, *, above: Number, request: str | None = None) -> Conditional:
    return Revise(held, above=above).perform(spine, request)
