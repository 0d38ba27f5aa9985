"""Private tests, alone or over many keys: True and the published values are hits, False is free."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache

from chary.accounting import Event, Targeted
from chary.data import Mean, Neighbouring, Query
from chary.errors import InvalidQuery
from chary.mechanisms import Additive, Laplace, Watch
from chary.numbers import Number
from chary.session.interaction import (
    ENCODER,
    KEPT,
    Asked,
    Interaction,
    Json,
    Question,
    Ran,
    Touched,
    check_question,
    error_bar,
    laplace_for_each,
    natural,
    settle_numbers,
    steps_at_least,
    threshold_body,
)
from chary.session.results import WatchResult


@dataclass(frozen=True)
class Test(Interaction):
    """Is the query at or above a threshold? Guarantee: one epsilon-DP call with the NotPrior target "True".

    A mean is tested through the sum of its differences from the threshold, which needs no count.
    """

    query: Question
    neighbouring: Neighbouring
    above: Number
    epsilon: Number
    asked: Asked = field(init=False, repr=False, compare=False)
    kind = "test"

    def __post_init__(self) -> None:
        check_question(self.query)
        if self.query.keys is not None:
            raise InvalidQuery("a keyed query is tested by session.watch(query, above=..., epsilon=...)")
        settle_numbers(self)
        object.__setattr__(self, "asked", _asked(self.query, self.neighbouring, self.above, self.epsilon))

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        return None if isinstance(self.query, Mean) else (self.asked.noises[0], self.query.grid)

    @property
    def event(self) -> Event:
        return self.asked.event

    def body(self) -> Json:
        return threshold_body(self.query, self.above, self.epsilon)

    def text(self) -> str:
        return self.asked.text

    def queries(self) -> Sequence[Query]:
        return self.asked.parts

    def run(self, touched: Touched) -> Ran:
        hit = Watch(self.asked.noises[0], self.asked.threshold).reached(touched.integer(), touched.source)
        return Ran({"hit": hit}, hits=int(hit), tests=1)

    def present(self, answer: Json, call: int) -> bool:
        return bool(answer["hit"])


@lru_cache(maxsize=KEPT)
def _asked(query: Question, neighbouring: Neighbouring, above: Fraction, epsilon: Fraction) -> Asked:
    """Refuses a mean that cannot be shifted by this threshold, and noise out of range."""
    tested, threshold = _tested(query, neighbouring, above)
    noises = (laplace_for_each(tested, neighbouring, epsilon),)
    text = ENCODER.encode(threshold_body(query, above, epsilon))
    return Asked((tested,), noises, Targeted(epsilon), text, threshold)


def _tested(query: Question, neighbouring: Neighbouring, above: Fraction) -> tuple[Query, int]:
    """What is read instead of the question, and its threshold in steps."""
    if isinstance(query, Mean):
        query.parts(neighbouring)  # refuses a mean without a limit on rows, in the words of a mean
        return query.shifted(above), 0
    return query, steps_at_least(above, query.grid)


def keyed(query: Question) -> Query:
    """The query if it can be watched: it has public keys and one value for each; otherwise `InvalidQuery`."""
    if not isinstance(query, Query) or query.keys is None:
        raise InvalidQuery(
            'watch needs a count, a total or a series with public keys, such as count().by("clinic", ["a", "b"])'
        )
    return query


@dataclass(frozen=True)
class WatchKeys(Interaction):
    """One test for each key of a `keyed` query, in order, with the noisy value of each key that hits.

    Guarantee: every key is an epsilon-DP call with the NotPrior target "published"; a unit can be in `parallel` keys,
    so at most that many hits are charged (theory 1.6).
    """

    query: Query
    neighbouring: Neighbouring
    above: Number
    epsilon: Number
    kind = "watch"
    halts = True

    def __post_init__(self) -> None:
        settle_numbers(self)
        self.noise  # noqa: B018 - refuses noise out of range

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, self.query.grid

    @cached_property
    def noise(self) -> Laplace:
        """The noise of each key's value."""
        return laplace_for_each(self.query, self.neighbouring, self.epsilon)

    @cached_property
    def event(self) -> Event:
        return Targeted(self.epsilon)

    @cached_property
    def parallel(self) -> int:
        return self.query.reach(self.neighbouring)

    def body(self) -> Json:
        return threshold_body(self.query, self.above, self.epsilon) | {"parallel": self.parallel}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        watch = Watch(self.noise, steps_at_least(self.above, self.query.grid), touched.most_hits)
        found = watch.step(touched.integers(), touched.source)
        answer = {"tested": found.tested, "positions": found.positions, "noisy": found.noisy}
        return Ran(answer, hits=len(found.positions), tests=found.tested)

    def present(self, answer: Json, call: int) -> WatchResult:
        keys = tuple(self.query.keys or ())
        values = [natural(steps, self.query.grid) for steps in answer["noisy"]]
        above = {keys[position]: value for position, value in zip(answer["positions"], values, strict=True)}
        return WatchResult(call, keys, above, answer["tested"], error_bar(self.accuracy()))
