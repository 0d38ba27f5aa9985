"""Conditional release and its revisions: the noisy value if it is above the bar, otherwise nothing, free and held."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from chary.accounting import Event, Extendable, Targeted
from chary.amounts import Amount
from chary.data import Mean, Neighbouring, Query
from chary.errors import InvalidParameter, InvalidQuery, UnknownHeld
from chary.filters import Filter, Price
from chary.mechanisms import Additive, Held, Published, judge, revise
from chary.numbers import Number, exact
from chary.session.interaction import (
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
from chary.session.releasing import noises, parts_of
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
    kind = "release_if"

    def __post_init__(self) -> None:
        if self.query.keys is not None:
            raise InvalidQuery("a keyed query is released above a bar by session.watch(query, above=..., epsilon=...)")
        check_question(self.query)
        settle_numbers(self)
        self.noises  # noqa: B018 - refuses a question that has no noise

    @cached_property
    def noises(self) -> list[Additive]:
        """The noise for each part of the query."""
        return noises(self.query, self.neighbouring, epsilon=self.epsilon, rho=None)

    @property
    def step(self) -> Fraction:
        """What scores and bars are counted in: the grid, or for a mean, which lies between its points, a millionth."""
        return self.query.grid / FINER if isinstance(self.query, Mean) else self.query.grid

    @cached_property
    def event(self) -> Event:
        return Targeted(self.epsilon)

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        return None if isinstance(self.query, Mean) else (self.noises[0], self.query.grid)

    def body(self) -> Json:
        question = threshold_body(self.query, self.above, self.epsilon)
        return question | {"grid": str(self.step), "error_bar": error_bar(self.accuracy())}

    def queries(self) -> Sequence[Query]:
        return parts_of(self.query, self.neighbouring)

    def run(self, touched: Touched) -> Ran:
        noisy = [int(noise.apply(touched.integers(k), touched.source)[0]) for k, noise in enumerate(self.noises)]
        value, score = natural(noisy[0], self.query.grid), noisy[0]
        if isinstance(self.query, Mean):
            value = self.query.combine(*noisy)
            score = math.floor(Fraction(value) / self.step)
        return settled(judge(value, score, steps_at_least(self.above, self.step)))

    def present(self, answer: Json, call: int) -> Conditional:
        return Conditional(call, answer["value"], self.body()["error_bar"], self.reviser)


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
        return price if price.free_miss else Price(Amount(0), Amount(0))

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
