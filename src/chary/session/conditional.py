"""Conditional release and its revisions: the noisy value if it is above the bar, otherwise nothing, free and held."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from chary.accounting import Event, Extendable, Targeted
from chary.data import Mean, Neighbouring, Query
from chary.errors import InvalidParameter, InvalidQuery, UnknownHeld
from chary.filters import Filter, Price
from chary.mechanisms import Additive, Held, Published, judge, revise
from chary.numbers import Number, exact
from chary.session.interaction import (
    ENCODER,
    FREE,
    KEPT,
    Asked,
    Interaction,
    Json,
    Question,
    Ran,
    Touched,
    check_question,
    error_bar,
    natural,
    settle_numbers,
    steps_at_least,
    threshold_body,
)
from chary.session.releasing import noises, noisy_parts, parts_of
from chary.session.results import Conditional

FINER = 10**6


@dataclass(frozen=True)
class ReleaseIf(Interaction):
    """Guarantee: one epsilon-DP call with the NotPrior target "published" ([TCT] Algorithm 2).

    The value costs no more than the bare answer "above"; an outcome below the bar becomes secret state.
    """

    query: Question
    neighbouring: Neighbouring
    above: Number
    epsilon: Number
    reviser: Callable[..., Conditional] | None = field(default=None, compare=False, repr=False)
    asked: Asked = field(init=False, repr=False, compare=False)
    kind = "release_if"

    def __post_init__(self) -> None:
        check_question(self.query)
        if self.query.keys is not None:
            raise InvalidQuery("a keyed query is released above a bar by session.watch(query, above=..., epsilon=...)")
        settle_numbers(self)
        object.__setattr__(self, "asked", _asked(self.query, self.neighbouring, self.above, self.epsilon))

    @property
    def event(self) -> Event:
        return self.asked.event

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        return None if isinstance(self.query, Mean) else (self.asked.noises[0], self.query.grid)

    def body(self) -> Json:
        body: Json = json.loads(self.asked.text)
        return body

    def text(self) -> str:
        return self.asked.text

    def queries(self) -> Sequence[Query]:
        return self.asked.parts

    def run(self, touched: Touched) -> Ran:
        noisy = noisy_parts(self.asked.noises, touched)
        value, score = natural(noisy[0], self.query.grid), noisy[0]
        if isinstance(self.query, Mean):
            value = self.query.combine(*noisy)
            score = math.floor(Fraction(value) / step_of(self.query))
        return settled(judge(value, score, self.asked.threshold))

    def present(self, answer: Json, call: int) -> Conditional:
        return Conditional(call, answer["value"], self.asked.error_bar, self.reviser)


@lru_cache(maxsize=KEPT)
def _asked(query: Question, neighbouring: Neighbouring, above: Fraction, epsilon: Fraction) -> Asked:
    """Refuses a question that has no noise."""
    drawn, step = noises(query, neighbouring, epsilon=epsilon, rho=None), step_of(query)
    bar = None if isinstance(query, Mean) else error_bar((drawn[0], query.grid))
    text = ENCODER.encode(threshold_body(query, above, epsilon) | {"grid": str(step), "error_bar": bar})
    return Asked(parts_of(query, neighbouring), drawn, Targeted(epsilon), text, steps_at_least(above, step), bar)


def step_of(query: Question) -> Fraction:
    """What scores and bars are counted in: the grid, or for a mean, which lies between its points, a millionth."""
    return query.grid / FINER if isinstance(query, Mean) else query.grid


def settled(outcome: Held | Published, replaces: int | None = None) -> Ran:
    """The public answer and the secret state after a conditional release, or after a revision of call `replaces`."""
    published = isinstance(outcome, Published)
    secret = outcome.dump() if isinstance(outcome, Held) else None
    answer: Json = {"value": outcome.value if published else None}
    if replaces is None:
        return Ran(answer, hits=int(published), tests=1, secret=secret)
    return Ran(answer, hits=int(published), tests=1, secrets={replaces: secret})


@dataclass(frozen=True)
class Revise(Interaction):
    """Lower the bar of the held outcome of an earlier `call`, whose public body is `original`.

    Guarantee: an extension of the target of an epsilon-DP outcome (`Extendable`, [TCT] Algorithm 2); the first call
    and all its revisions together hit at most once. Where the filter charged the first call hit or miss, the outcome is
    paid and revisions are free. No data are read, only the stored outcome.
    """

    call: int
    original: Json
    above: Number
    reviser: Callable[..., Conditional] | None = field(default=None, compare=False, repr=False)
    kind = "revise"

    @property
    def threshold(self) -> int:
        """The new bar in steps of the original call."""
        return steps_at_least(self.above, Fraction(self.original["grid"]))

    @property
    def event(self) -> Event:
        return Extendable(Fraction(self.original["epsilon"]))

    def price(self, filter_: Filter) -> Price:
        price = super().price(filter_)
        return price if price.free_miss else FREE

    @property
    def held(self) -> int:
        return self.call

    def body(self) -> Json:
        return {"held": self.call, "above": str(exact(self.above, "above"))}

    def queries(self) -> Sequence[Query]:
        return ()

    def check(self, secret: bytes | None) -> None:
        if secret is None:
            raise UnknownHeld(f"call {self.call} holds no outcome: it was published, or the call was interrupted")
        if self.threshold >= (floor := Held.load(secret).floor):
            bar = natural(floor, Fraction(self.original["grid"]))
            raise InvalidParameter(
                f"a revision must lower the bar below the last one tried: give above less than {bar}"
            )

    def run(self, touched: Touched) -> Ran:
        return settled(revise(Held.load(touched.secret or b""), self.threshold), replaces=self.call)

    def present(self, answer: Json, call: int) -> Conditional:
        return Conditional(self.call, answer["value"], self.original["error_bar"], self.reviser)
