"""Private tests, alone or over many keys: True and the published values are hits, False is free."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from chary.accounting import Event, Targeted
from chary.data import Mean, Neighbouring, Query
from chary.errors import InvalidQuery
from chary.mechanisms import Additive, Laplace, Watch
from chary.numbers import Number
from chary.session.interaction import (
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
    kind = "test"

    def __post_init__(self) -> None:
        check_question(self.query)
        if self.query.keys is not None:
            raise InvalidQuery("a keyed query is tested by session.watch(query, above=..., epsilon=...)")
        settle_numbers(self)
        self.noise  # noqa: B018 - refuses a mean that cannot be shifted by this threshold, and noise out of range

    @cached_property
    def _tested(self) -> tuple[Query, int]:
        if isinstance(self.query, Mean):
            self.query.parts(self.neighbouring)  # refuses a mean without a limit on rows, in the words of a mean
            return self.query.shifted(self.above), 0
        return self.query, steps_at_least(self.above, self.query.grid)

    @cached_property
    def noise(self) -> Laplace:
        """The noise of the one tested value."""
        return laplace_for_each(self._tested[0], self.neighbouring, self.epsilon)

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        return None if isinstance(self.query, Mean) else (self.noise, self.query.grid)

    @cached_property
    def event(self) -> Event:
        return Targeted(self.epsilon)

    def body(self) -> Json:
        return threshold_body(self.query, self.above, self.epsilon)

    def queries(self) -> Sequence[Query]:
        return [self._tested[0]]

    def run(self, touched: Touched) -> Ran:
        watch = Watch(self.noise, self._tested[1])
        hit = bool(watch.step(touched.integers(), touched.source).positions)
        return Ran({"hit": hit}, hits=int(hit), tests=1)

    def present(self, answer: Json, call: int) -> bool:
        return bool(answer["hit"])


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
