"""The best few of many candidates, paid by what is published, however many candidates there are."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

from chary.accounting import Event, Extendable, LargestOf
from chary.calls.answers import published_best
from chary.calls.call import Bound, Call, call
from chary.calls.fields import Candidates, Condition, Exact, Positive, Whole
from chary.calls.selection.candidates import SideBySide, listed, published
from chary.calls.selection.selections import Chosen, Ranking
from chary.core.plan import Json, Ran, Touched, laplace_for_each, natural
from chary.core.transaction import Spine
from chary.data import Query
from chary.errors import AlgorithmFailed, InvalidParameter, InvalidQuery
from chary.mechanisms import Additive, Laplace, TopK
from chary.numbers import plain


@call("top", subject="selection")
class Top(Call[Ranking]):
    """The best `k` candidates with their noisy scores, best first; of equal scores the earlier candidate.

    Candidates are the keys of a query (a series has its positions), each with noise for `epsilon`, or private
    algorithms that return [score, solution] and bring their own epsilons. `gap` ends the list where the next score
    is more than this below the last one, `above` where it is below a bar, `until` after the first score with which the
    list of those so far, which is public then, meets a condition: `until=When("sum", lambda scores: sum(scores) > 9)`.
    `stop` is a condition on all that is public then, a list of `{"name": , "score": , "solution": }`.

    Guarantee: each candidate is epsilon-DP on its own (`Extendable`); a hit is charged for each that is published,
    at most as many as neighbours can differ in, whatever the number of candidates ([TCT] Algorithm 3, one-shot; theory
    1.6, 4). Deltas of all algorithms are paid; the largest of their epsilons prices all.

    Errors: `InvalidParameter` for fewer than k candidates, equal names or a missing epsilon. An algorithm that
    raises or returns no finite score ranks below all others; if it is published all the same it is `failed`. If all
    fail, or `until` or `stop` raises, which ends the list, `AlgorithmFailed`, charged.
    """

    candidates: Candidates
    _: KW_ONLY
    k: Whole
    epsilon: Positive | None = None
    gap: Exact | None = None
    above: Exact | None = None
    until: Condition | None = None
    stop: Condition | None = None

    @classmethod
    def recorded(cls, body: Json) -> Self:
        return super().recorded(body | {"candidates": body.get("query")})

    def bind(self, spine: Spine) -> "TopKeys | TopAlgorithms":
        if isinstance(self.candidates, Query):
            return TopKeys(self, spine.rows.neighbouring, self._keyed(self.candidates))
        if self.epsilon is not None:
            raise InvalidParameter("algorithms bring their own epsilon: leave epsilon= out")
        algorithms = listed(self.candidates)
        check_most(self.rule.most, len(algorithms), "candidates")
        return TopAlgorithms(self, spine.rows.neighbouring, algorithms)

    def _keyed(self, query: Query) -> Query:
        if query.keys is None:
            raise InvalidQuery('top needs public keys, such as count().by("clinic", ["a", "b"])')
        if self.epsilon is None:
            raise InvalidParameter("say how noisy each key may be, such as epsilon=0.02")
        check_most(self.rule.most, len(query.keys), "keys")
        return query

    @property
    def rule(self) -> TopK:
        """The rule, in the candidates' own units; `InvalidParameter` for a negative gap."""
        return TopK(self.k, self.gap, self.above)

    def told(self) -> Json:
        """The rule as the ledger tells it."""
        rules = {"until": self.until, "stop": self.stop}
        rule = {"gap": self.gap, "above": self.above} | {name: when.name for name, when in rules.items() if when}
        return {"k": self.k} | {name: str(said) for name, said in rule.items() if said is not None}

    def ended(self, best: Sequence[Chosen]) -> tuple[int, Json]:
        """How many of the best are published, which follows from what is, and whether a condition failed."""
        for place in range(1, len(best) + 1) if self.until or self.stop else ():
            try:
                if self._met(best[:place]):
                    return place, {}
            except AlgorithmFailed:
                return place, {"failed": True}
        return len(best), {}

    def _met(self, public: Sequence[Chosen]) -> bool:
        """Whether the list ends where this much of it is public."""
        if self.until is not None and self.until([chosen.score for chosen in public]):
            return True
        return self.stop is not None and self.stop([chosen._asdict() for chosen in public])


@dataclass(frozen=True)
class TopKeys(Bound[Top]):
    """The best keys of a query, as they are ranked."""

    query: Query
    decides = True

    @cached_property
    def keys(self) -> tuple[Any, ...]:
        """The public keys."""
        return tuple(self.query.keys or ())

    @cached_property
    def mechanism(self) -> TopK:
        """The rule, in grid steps."""
        bars = (self.call.gap, self.call.above)
        gap, above = (None if bar is None else Fraction(bar) / self.query.grid for bar in bars)
        return TopK(self.call.k, gap, above)

    @cached_property
    def noise(self) -> Laplace:
        """The noise of each key's value; refuses noise out of range."""
        return laplace_for_each(self.query, self.neighbouring, self.call.epsilon or 0)

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, self.query.grid

    @cached_property
    def event(self) -> Event:
        return Extendable(self.call.epsilon or 0)

    @cached_property
    def parallel(self) -> int:
        return self.query.reach(self.neighbouring)

    @property
    def most_hits(self) -> int:
        return min(self.call.k, self.parallel)

    def body(self) -> Json:
        size = {"epsilon": str(self.call.epsilon), "parallel": self.parallel}
        return {"query": self.query.body()} | self.call.told() | size

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        found = self.mechanism.step(touched.integers(), self.noise, touched.source)
        kept, failed = self.call.ended(self._best(found.positions, found.noisy))
        answer = {"positions": found.positions[:kept], "noisy": found.noisy[:kept]} | failed
        return Ran(answer, hits=kept, tests=len(self.keys))

    def present(self, answer: Json, call: int) -> Ranking:
        _check_ended(answer)
        best = self._best(answer["positions"], answer["noisy"])
        keys = tuple(self.keys[position] for position in answer["positions"])
        return Ranking(call, self.query.columns, keys, best, told=self._told)

    def _best(self, positions: Sequence[int], noisy: Sequence[int]) -> tuple[Chosen, ...]:
        scores = [natural(steps, self.query.grid) for steps in noisy]
        return tuple(Chosen(self.keys[place], score) for place, score in zip(positions, scores, strict=True))

    @property
    def _told(self) -> LargestOf:
        """How the best are published."""
        return published_best(self.noise, self.query, self.neighbouring, candidates=len(self.keys), most=self.call.k)

    def foretold(self) -> str:
        ends = replace(self._told, floor=None, ceiling=None).interval(0)
        below, above = (plain(float(abs(end or 0))) for end in (ends.low, ends.high))
        return f"what is told is at most {below} too high and {above} too low, all together, 95 times in 100"


@dataclass(frozen=True)
class TopAlgorithms(SideBySide[Top]):
    """The best of several private algorithms, as they are ranked: a hit for each that is published, and all deltas."""

    @cached_property
    def event(self) -> Event:
        return Extendable(self.epsilon_each, self.delta_each)

    @property
    def most_hits(self) -> int:
        return min(self.call.k, self.parallel)

    def body(self) -> Json:
        return super().body() | self.call.told()

    def run(self, touched: Touched) -> Ran:
        outcomes = [self.scored(position, touched) for position in range(self.parallel)]
        scores = [None if outcome is None else outcome[0] for outcome in outcomes]
        ranked = self.call.rule.choose(scores)
        names = [algorithm.name for algorithm in self.algorithms]
        kept, failed = self.call.ended([Chosen(names[place], *(outcomes[place] or (None,))) for place in ranked])
        best = ranked[:kept]
        found = published(best, [outcomes[position] for position in best], tests=self.parallel)
        return replace(found, answer=found.answer | failed)

    def present(self, answer: Json, call: int) -> Ranking:
        _check_ended(answer)
        best = self.chosen(answer)
        if best and best[0].failed:
            raise AlgorithmFailed("every candidate raised, or returned no [score, solution]; charged")
        return Ranking(call, ("name",), tuple((chosen.name,) for chosen in best), best)


def _check_ended(answer: Json) -> None:
    if "failed" in answer:
        raise AlgorithmFailed("the condition that ends the list raised, or is neither true nor false; charged")


def check_most(k: int, candidates: int, words: str) -> None:
    """Refuse to look for more than there are."""
    if k > candidates:
        raise InvalidParameter(f"k is {k}, but there are only {candidates} {words}")
