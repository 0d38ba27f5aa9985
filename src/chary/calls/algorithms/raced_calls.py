"""A question to a race that is any call with one outcome, each target of which is what the call pays or its own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from chary.accounting import Event
from chary.amounts import Amount
from chary.calls.algorithms.algorithm import Algorithm, canonical_outcome
from chary.calls.algorithms.calling import AskAlgorithm, Compute
from chary.calls.algorithms.race_counters import check_opened, risen
from chary.calls.algorithms.targets import UNSAID, Target, When, conditional, listed, not_prior
from chary.calls.answers import RaceOutcome
from chary.calls.call import Call
from chary.core.plan import Interaction, Json, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter
from chary.filters import Filter, Price
from chary.mechanisms import Additive
from chary.numbers import Number

_WORDS: Final = {"prior", "target", "q", "hit"}
_SAY: Final = 'say of each target what hits: {"prior": "cat"}, {"target": ["a"], "q": "0.3"}, {"hit": When(...)}, or {}'


@dataclass(frozen=True)
class Aim:
    """What one target of a race hits: the call's own target, or another set of its outcomes; and what a hit costs."""

    target: Target | None
    event: Event

    def hits(self, value: Any, *, own: bool) -> bool:
        """Whether an outcome hits it."""
        return own if self.target is None else self.target.hits(value)

    @property
    def told(self) -> Json:
        """How a question tells it."""
        return {} if self.target is None else self.target.told


@dataclass(frozen=True)
class RacedCall(Interaction):
    """One call of any kind that has one outcome, with a target for each name.

    Guarantee: that of the call, once for each target: every target's counter grows by the price of a hit of its own
    when it is hit, and what is charged is how far the smallest counter rises. Where one of the targets has no price
    per hit the call is paid in full and leaves all counters alone. An outcome that failed hits all.
    """

    race: int
    aims: Mapping[str, Aim]
    inner: Interaction
    prices: Mapping[str, Price]
    kind = "best_of_ask"
    decides = True

    @property
    def event(self) -> Event:
        return self.inner.event

    @property
    def held(self) -> int:
        return self.race

    @property
    def free_miss(self) -> bool:
        """Whether all targets have a price per hit."""
        return all(price.free_miss for price in self.prices.values())

    def price(self, filter_: Filter) -> Price:
        """The dearest target's, than which no counter rises by more; of those without a price per hit if there are."""
        counting = self.free_miss
        most = max(price.hit.main for price in self.prices.values() if price.free_miss == counting)
        delta = max(price.hit.delta for price in self.prices.values())
        return Price(Amount(most, delta), Amount(0 if counting else most, delta))

    def check(self, secret: bytes | None) -> None:
        check_opened(self.race, secret)
        self.inner.check(None)

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        return self.inner.accuracy()

    def body(self) -> Json:
        targets = {name: aim.told for name, aim in self.aims.items()}
        return {"best_of": self.race, "asked": {"kind": self.inner.kind} | self.inner.body(), "targets": targets}

    def queries(self) -> Sequence[Query]:
        return self.inner.queries()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return self.inner.prepare(rows)

    def run(self, touched: Touched) -> Ran:
        ran = self.inner.run(replace(touched, secret=None))
        try:
            hit = self._hits(ran)
        except AlgorithmFailed:
            ran, hit = replace(ran, answer={"failed": True}), dict.fromkeys(self.aims, True)
        raised = {name: self.prices[name].hit.main for name, hits in hit.items() if hits and self.free_miss}
        before = dict(zip(self.aims, json.loads(touched.secret or b"[]"), strict=True))
        after, charged = risen(before, raised, None if self.free_miss else touched.price.hit.main)
        names = [name for name, hits in hit.items() if hits]
        answer = {"answer": ran.answer, "hits": names, "raised": raised, "charged": charged}
        kept: dict[int, bytes | None] = {self.race: json.dumps(list(after.values())).encode()}
        return Ran(answer, hits=int(all(hit.values())), tests=1, secrets=kept)

    def _hits(self, ran: Ran) -> dict[str, bool]:
        value = outcome_of(self.inner.present(ran.answer, 0))
        return {name: aim.hits(value, own=ran.hits > 0) for name, aim in self.aims.items()}

    def final(self, price: Price, ran: Ran, reserved_hits: int) -> Amount:
        return Amount(ran.answer["charged"], price.hit.delta)

    def present(self, answer: Json, call: int) -> RaceOutcome:
        if "failed" in answer["answer"]:
            raise AlgorithmFailed(
                "what was raced raised, or returned no finite JSON value, or a condition on it raised"
            )
        value = outcome_of(self.inner.present(answer["answer"], call))
        return RaceOutcome(call, value, tuple(answer["hits"]), bool(answer["charged"]))


def raced(spine: Spine, race: int, names: Sequence[str], asked: Any, targets: Mapping[str, Any]) -> RacedCall:
    """The question; refuses calls that cannot be raced, and targets that are none.

    Errors: `InvalidParameter` unless each name has a target; `NoPrice` where one of them has none.
    """
    if set(targets) != set(names) or not all(isinstance(said, Mapping) for said in targets.values()):
        raise InvalidParameter(f"give a target for each of {', '.join(names)}, and no other; {_SAY}")
    call = Compute(asked) if isinstance(asked, Algorithm) else asked
    inner = call.bind(spine) if isinstance(call, Call) else None
    if inner is None or not inner.raced:
        raise InvalidParameter("race an algorithm, or a call with one outcome, such as Test, Between or Compute")
    aims = {name: _aim(inner, dict(targets[name])) for name in names}
    return RacedCall(race, aims, inner, {name: spine.filter.price(aim.event) for name, aim in aims.items()})


def outcome_of(answer: Any) -> Any:
    """The outcome that an answer tells, in JSON values."""
    value = getattr(answer, "value", None) if hasattr(answer, "value") else [answer.first, answer.second]
    return json.loads(canonical_outcome(value))


def _aim(inner: Interaction, said: Json) -> Aim:
    if set(said) - _WORDS or len(set(said) - {"q"}) > 1:
        raise InvalidParameter(_SAY)
    if not said:
        return Aim(None, inner.event)
    algorithm = inner.algorithm if isinstance(inner, AskAlgorithm) else _stand_in(inner, said)
    target = _target(algorithm, **said)
    return Aim(target, target.event_by_laws(algorithm))


def _target(
    algorithm: Algorithm, prior: Any = UNSAID, target: Any = None, q: Number | None = None, hit: When | None = None
) -> Target:
    if target is not None:
        return listed(algorithm, tuple(target), q)
    if isinstance(hit, When):
        return conditional(algorithm, hit, q)
    if prior is UNSAID:
        raise InvalidParameter(_SAY)
    return not_prior(algorithm, prior, q)


def _stand_in(inner: Interaction, said: Json) -> Algorithm:
    """The call as an algorithm of its epsilon, of which nothing but a prior is known: no caller states a q of it."""
    epsilon = inner.event.epsilon
    if epsilon is None or set(said) != {"prior"}:
        raise InvalidParameter("this call is raced by its own target, {}, or where it has an epsilon by a prior")
    return Algorithm(inner.kind, lambda rows, source: None, epsilon, inner.event.delta)
