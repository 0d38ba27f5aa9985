"""Several targets counted side by side; only the one that was hit least is paid ([TCT] section 2.5, Lemma 2.7)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chary.accounting import BestOf, Event, Targeted
from chary.amounts import Amount
from chary.data import Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter, UnknownHeld
from chary.filters import Price
from chary.session.algorithm import Algorithm, canonical_outcome, plain_outcome
from chary.session.door import Door
from chary.session.interaction import Interaction, Json, Ran, Touched
from chary.session.results import RaceOutcome
from chary.session.spine import Spine


@dataclass(frozen=True)
class OpenRace(Interaction):
    """Start counting for several targets. Guarantee: `BestOf(targets)`, paid once; nothing is read."""

    targets: tuple[str, ...]
    kind = "best_of"

    def __post_init__(self) -> None:
        named = [name for name in self.targets if isinstance(name, str) and name]
        if len(set(named)) != len(self.targets) or len(named) < 2:
            raise InvalidParameter('name at least two different targets, such as best_of(["student", "last year"])')

    @cached_property
    def event(self) -> Event:
        return BestOf(len(self.targets))

    def body(self) -> Json:
        return {"targets": list(self.targets)}

    def queries(self) -> Sequence[Query]:
        return ()

    def run(self, touched: Touched) -> Ran:
        return Ran({}, hits=0, tests=0, secret=json.dumps([0] * len(self.targets)).encode())

    def present(self, answer: Json, call: int) -> int:
        return call


@dataclass(frozen=True)
class RaceCall(Interaction):
    """One call with a prior for each target.

    Guarantee: the algorithm's, with a NotPrior target for each prior. Each target's counter grows by the price of a hit
    when it is hit; what is charged is how far the smallest counter rises. The counters follow from what was published;
    they are kept as state so that calls made at the same time cannot both count from the same ones.
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
        if secret is None:
            raise UnknownHeld(f"call {self.race} counts no targets: it was interrupted; open a new one")

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
        after = [count + touched.price.hit.main * hits for count, hits in zip(before, hit, strict=True)]
        names = [name for name, hits in zip(self.targets, hit, strict=True) if hits]
        answer = outcome | {"hits": names, "charged": min(after) - min(before)}
        return Ran(answer, hits=int(all(hit)), tests=1, secrets={self.race: json.dumps(after).encode()})

    def final(self, price: Price, ran: Ran, reserved_hits: int) -> Amount:
        if not price.free_miss:
            return price.total(1, 1)
        return Amount(ran.answer["charged"], price.hit.delta)

    def present(self, answer: Json, call: int) -> RaceOutcome:
        if "failed" in answer:
            raise AlgorithmFailed(f"the algorithm {self.algorithm.name!r} raised, or returned no finite JSON value")
        return RaceOutcome(call, answer["value"], tuple(answer["hits"]), bool(answer["charged"]))


class Race:
    """Targets that are counted side by side; made by `Session.best_of`. `call` identifies it after a restart."""

    def __init__(self, spine: Spine, call: int, targets: tuple[str, ...]) -> None:
        """Use `Session.best_of`."""
        self._spine, self.number, self.targets = spine, call, targets

    def call(self, algorithm: Algorithm, *, priors: Mapping[str, Any], request: str | None = None) -> RaceOutcome:
        """Run a private algorithm with one prior for each target.

        Guarantee: the algorithm's, every prior a NotPrior target; the sum charged is that of the target that was hit
        least, whichever it turns out to be. Errors: `InvalidParameter` unless each target has a prior.
        """
        made = RaceCall(self.number, self.targets, algorithm, priors)
        answer: RaceOutcome = self._spine.perform(made, request)
        return answer

    def __repr__(self) -> str:
        return f"Race(call {self.number}: {', '.join(self.targets)})"


class Racing(Door):
    """Multi-target charging."""

    def best_of(self, targets: Sequence[str] = (), *, call: int | None = None, request: str | None = None) -> Race:
        """Count several targets side by side and pay for the one that is hit least; `call` goes on with an earlier one.

        Guarantee: all calls together cost the logarithm of the number of targets once (log-moment; on a privacy curve
        delta times that number, [TCT] Lemma 2.7) and then what the best target alone would have cost. Only a filter
        with Renyi prices can charge it (`NoPrice` otherwise).
        """
        if call is None:
            made = OpenRace(tuple(targets))
            return Race(self.spine, self.spine.perform(made, request), made.targets)
        return Race(self.spine, call, tuple(self.earlier(call, "best_of", "an opening of several targets")["targets"]))
