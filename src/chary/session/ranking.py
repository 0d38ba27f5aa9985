"""The best keys of a query, paid by what is published, however many keys there are."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting import Event, Extendable
from chary.data import Neighbouring, Query
from chary.errors import InvalidParameter
from chary.mechanisms import Additive, Laplace, TopK
from chary.numbers import Number, positive
from chary.session.interaction import Interaction, Json, Ran, Touched, error_bar, laplace_for_each, natural
from chary.session.selections import Chosen, Top


@dataclass(frozen=True)
class TopKeys(Interaction):
    """The best `k` keys of a query with their noisy values.

    Guarantee: every key's value is epsilon-DP on its own (`Extendable`), and one hit is charged for each published key,
    at most as many as neighbours can differ in (theory 1.6, 4).
    """

    query: Query
    neighbouring: Neighbouring
    k: int
    epsilon: Number
    gap: Number | None = None
    above: Number | None = None
    kind = "top"

    def __post_init__(self) -> None:
        check_most(self.mechanism.most, len(self.keys), "keys")
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        self.noise  # noqa: B018 - refuses noise out of range

    @cached_property
    def keys(self) -> tuple[Any, ...]:
        """The public keys."""
        return tuple(self.query.keys or ())

    @cached_property
    def mechanism(self) -> TopK:
        """The rule, in the query's own units."""
        return TopK(self.k, self.gap, self.above)

    @cached_property
    def noise(self) -> Laplace:
        """The noise of each key's value."""
        return laplace_for_each(self.query, self.neighbouring, self.epsilon)

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, self.query.grid

    @cached_property
    def event(self) -> Event:
        return Extendable(self.epsilon)

    @cached_property
    def parallel(self) -> int:
        return self.query.reach(self.neighbouring)

    @property
    def most_hits(self) -> int:
        return min(self.k, self.parallel)

    def body(self) -> Json:
        size = {"epsilon": str(self.epsilon), "parallel": self.parallel}
        return {"query": self.query.body()} | rule_body(self.mechanism) | size

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        grid, rule = self.query.grid, self.mechanism
        gap, above = (None if bar is None else Fraction(bar) / grid for bar in (rule.gap, rule.above))
        found = TopK(self.k, gap, above).step(touched.integers(), self.noise, touched.source)
        answer = {"positions": found.positions, "noisy": found.noisy}
        return Ran(answer, hits=len(found.positions), tests=len(self.keys))

    def present(self, answer: Json, call: int) -> Top:
        pairs = zip(answer["positions"], answer["noisy"], strict=True)
        best = tuple(Chosen(self.keys[position], natural(steps, self.query.grid)) for position, steps in pairs)
        return Top(call, best, error_bar(self.accuracy()))


def rule_body(rule: TopK) -> Json:
    """What identifies the rule in a question."""
    bars = {"gap": rule.gap, "above": rule.above}
    return {"k": rule.most} | {name: str(bar) for name, bar in bars.items() if bar is not None}


def check_most(k: int, candidates: int, words: str) -> None:
    """Refuse to look for more than there are."""
    if k > candidates:
        raise InvalidParameter(f"k is {k}, but there are only {candidates} {words}")
