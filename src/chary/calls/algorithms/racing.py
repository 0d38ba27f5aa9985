"""Several targets counted side by side; only the one that was hit least is paid ([TCT] section 2.5, Lemma 2.7)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chary.accounting import BestOf, Event, Targeted
from chary.amounts import Amount
from chary.calls.algorithms.algorithm import Algorithm, canonical_outcome, plain_outcome
from chary.calls.algorithms.race_counters import check_opened
from chary.calls.algorithms.raced_calls import RacedCall, raced
from chary.calls.answers import RaceOutcome
from chary.calls.call import Call, call
from chary.calls.fields import Values
from chary.calls.openings import BoundOpening
from chary.calls.run import Kept, Opening, Run, keeps
from chary.core.plan import Interaction, Json, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter
from chary.filters import Price


@call("best_of", subject="algorithms")
class Race(Opening[Run[RaceOutcome, "RaceState"]]):
    """Count several targets side by side and pay for the one that is hit least.

    Guarantee: all calls together cost the logarithm of the number of targets once (`BestOf(targets)`; log-moment; on a
    privacy curve delta times that number, [TCT] Lemma 2.7) and then what the best target alone would have cost. Only a
    filter with Renyi prices can charge it (`NoPrice` otherwise). Errors: `InvalidParameter` for less than two different
    names.
    """

    targets: Values

    def __post_init__(self) -> None:
        targets = tuple(self.targets)
        named = [name for name in targets if isinstance(name, str) and name]
        if len(set(named)) != len(targets) or len(named) < 2:
            raise InvalidParameter('name at least two different targets, such as Race(["student", "last year"])')

    def bind(self, spine: Spine) -> "OpenRace":
        return OpenRace(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class OpenRace(BoundOpening[Race]):
    """The opening: paid once, and nothing is read."""

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.call.targets)

    @cached_property
    def event(self) -> Event:
        return BestOf(len(self.targets))

    def run(self, touched: Touched) -> Ran:
        return Ran({}, hits=0, tests=0, secret=json.dumps([0] * len(self.targets)).encode())


@dataclass(frozen=True)
class RaceCall(Interaction):
    """One call with a prior for each target.

    Guarantee: the algorithm's, with a NotPrior target for each prior. Each target's counter grows by the price of a hit
    when it is hit; what is charged is how far the smallest counter rises. A call without a price per hit is paid in
    full and leaves the counters alone: were it counted as well, later hits would be free on its account. The counters
    follow from what was published; they are kept as state so that calls made at the same time cannot both count from
    the same ones.
    """

    race: int
    targets: tuple[str, ...]
    algorithm: Algorithm
    priors: Mapping[str, Any]
    kind = "best_of_call"

    def __post_init__(self) -> None:
        if set(self.priors) != set(self.targets):
            raise InvalidParameter(f"give a prior for each of the targets {', '.join(self.targets)}, and no other")

    @cached_property
    def event(self) -> Event:
        epsilon, delta = self.algorithm.size
        return Targeted(epsilon, None, delta)

    @property
    def held(self) -> int:
        return self.race

    def check(self, secret: bytes | None) -> None:
        check_opened(self.race, secret)

    def body(self) -> Json:
        priors = {name: plain_outcome(self.priors[name]) for name in self.targets}
        return self.algorithm.body() | {"best_of": self.race, "priors": priors}

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.algorithm.prepare(rows)]

    def run(self, touched: Touched) -> Ran:
        try:
            outcome: Json = {"value": self.algorithm.outcome(touched.values[0], touched.source)}
        except AlgorithmFailed:
            outcome = {"failed": True}
        found = canonical_outcome(outcome.get("value"))
        hit = ["failed" in outcome or found != canonical_outcome(self.priors[name]) for name in self.targets]
        before = json.loads(touched.secret or b"[]")
        after, charged = counted(before, hit, touched.price)
        names = [name for name, hits in zip(self.targets, hit, strict=True) if hits]
        answer = outcome | {"hits": names, "charged": charged}
        return Ran(answer, hits=int(all(hit)), tests=1, secrets={self.race: json.dumps(after).encode()})

    def final(self, price: Price, ran: Ran, reserved_hits: int) -> Amount:
        return Amount(ran.answer["charged"], price.hit.delta)

    def present(self, answer: Json, call: int) -> RaceOutcome:
        if "failed" in answer:
            raise AlgorithmFailed(f"the algorithm {self.algorithm.name!r} raised, or returned no finite JSON value")
        return RaceOutcome(call, answer["value"], tuple(answer["hits"]), bool(answer["charged"]))


def counted(before: Sequence[int], hit: Sequence[bool], price: Price) -> tuple[list[int], int]:
    """The counters after a call that hit these targets, and what is charged for it (docs/theory.md, best of k).

    >>> small, large = Price(Amount(2), Amount(0)), Price(Amount(9), Amount(9))
    >>> counted([0, 2], [True, False], small), counted([0, 2], [True, True], large)
    (([2, 2], 2), ([0, 2], 9))
    """
    if not price.free_miss:
        return list(before), price.hit.main
    after = [count + price.hit.main * hits for count, hits in zip(before, hit, strict=True)]
    return after, min(after) - min(before)


@dataclass(frozen=True)
class RaceState:
    """What is public of a race: the targets that are counted side by side."""

    targets: tuple[str, ...]


@keeps
class KeptRace(Kept[RaceOutcome, RaceState]):
    """`run.ask(algorithm, priors={...})`: run a private algorithm with one prior for each target; or
    `run.ask(call, targets={...})`: make any call with one outcome (`Test`, `Between`, `Decide`, `Classify`, `Boundary`,
    `Twice`, `Compute`), with a target for each.

    A target is said as in `Compute`: `{"prior": "cat"}`, `{"target": ["a"], "q": "0.3"}` or `{"hit": When(...)}`; `{}`
    is the call's own. What no algorithm brings is hit as it is, or has a prior where the call has an epsilon.

    Guarantee: the call's, with each target; the sum charged is that of the target that was hit least, whichever it
    turns out to be. A call without a price per hit for one of its targets is paid in full. Errors: `InvalidParameter`
    unless each target is said, and for calls with several outcomes or with a secret state.
    """

    kind = Race.kind
    names = "best_of"

    def question(
        self,
        algorithm: Algorithm | Call[Any],
        *,
        priors: Mapping[str, Any] | None = None,
        targets: Mapping[str, Any] | None = None,
    ) -> RaceCall | RacedCall:
        if (priors is None) == (targets is None):
            raise InvalidParameter("give priors= or targets=, one of them, with an entry for each target")
        if priors is None:
            return raced(self.spine, self.number, self.state.targets, algorithm, targets or {})
        if isinstance(algorithm, Algorithm):
            return RaceCall(self.number, self.state.targets, algorithm, priors)
        said = {name: {"prior": prior} for name, prior in priors.items()}
        return raced(self.spine, self.number, self.state.targets, algorithm, said)

    @property
    def state(self) -> RaceState:
        return RaceState(tuple(self.terms["targets"]))
