"""Algorithms run privately: once, in a race against a target, published on a condition, withheld and extended."""

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final, Generic

from chary.accounting import BestOf, Event, Targeted
from chary.amounts import Amount
from chary.answers import Answer
from chary.calls import algorithm as algorithms
from chary.calls import answers, fields
from chary.calls.call import Bound, Call, CallT, Extending, call
from chary.calls.run import BoundOpening, Opening, Run, RunKind
from chary.core.plan import Data, Interaction, Json, Result
from chary.core.transaction import Spine, earlier
from chary.data import Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter, NotWithheld
from chary.filters import Filter, Price
from chary.mechanisms import Additive
from chary.mechanisms.additive import padded, unpadded
from chary.numbers import Number

# Any private algorithm as a call: priced by its prior, by a q-target, or in full ([TCT] sections 1 and 2).


@call("call", subject="algorithms")
class RunAlgorithm(Call[answers.Outcome]):
    """Run any private algorithm once.

    Guarantee: the algorithm's own. With `prior`, an outcome that may depend on everything published before, the
    call is free unless something else comes out (NotPrior). With `target`, a list of declared outcomes, it is free
    unless one of those comes out; `q` is what the caller states about the target (a q-target, theory 1.2). It can be
    left out where the target misses one outcome only, and where the algorithm has `laws`, by which the call is paid
    then. `hit`, a condition on outcomes (`When`), says a target without a list: of declared outcomes it is the list of
    those for which it holds, otherwise it needs its q. With none of these it is always charged, like a release. A run
    that fails is charged like a hit.

    >>> from chary import Algorithm
    >>> from chary.calls import When
    >>> tree = Algorithm("depth", lambda rows, source: 3, epsilon="0.02", outcomes=list(range(10)))
    >>> RunAlgorithm(tree, hit=When("deep", lambda depth: depth > 0)).hits().event(tree)
    Targeted(bound=Fraction(1, 50), q=None, failure=Fraction(0, 1))

    Errors: `InvalidParameter` for a target that is no subset of the declared outcomes, for a prior or a target of an
    algorithm with a rho, and for a q above what its laws allow; `AlgorithmFailed`, charged, when it raises or returns
    what is no finite JSON value.
    """

    algorithm: fields.Brought
    _: KW_ONLY
    prior: Any = algorithms.UNSAID
    target: fields.Values | None = None
    q: fields.Positive | None = None
    hit: fields.Condition | None = None

    def __post_init__(self) -> None:
        said = (self.prior is not algorithms.UNSAID) + (self.target is not None) + (self.hit is not None)
        if said > 1:
            raise InvalidParameter("give a prior (all else hits), a target or a condition (hit=), only one of them")
        if self.q is not None and not said:
            raise InvalidParameter("q belongs to a target: give target= as well")

    def bind(self, spine: Spine) -> "AskAlgorithm":
        return AskAlgorithm(self, spine.rows.neighbor_relation)

    def hits(self) -> algorithms.Target:
        """What is paid; refuses what is no target."""
        if self.target is not None:
            return algorithms.listed(self.algorithm, tuple(self.target), self.q)
        if self.hit is not None:
            return algorithms.conditional(self.algorithm, self.hit, self.q)
        return (
            algorithms.EVERYTHING
            if self.prior is algorithms.UNSAID
            else algorithms.not_prior(self.algorithm, self.prior, self.q)
        )


@dataclass(frozen=True)
class RunOnce(Bound[CallT], Generic[CallT]):
    """One run of a private algorithm; its outcome is published."""

    @property
    @abstractmethod
    def algorithm(self) -> algorithms.Algorithm:
        """What is run."""

    @property
    @abstractmethod
    def target(self) -> algorithms.Target:
        """What is paid."""

    @cached_property
    def event(self) -> Event:
        return self.target.event(self.algorithm)

    def body(self) -> Json:
        return self.algorithm.body() | self.target.told

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.algorithm.prepare(rows)]

    def run(self, data: Data) -> Result:
        tests = int(not self.target.whole)
        try:
            value = self.algorithm.outcome(data.values[0], data.source)
            hit = self.target.hits(value)
        except AlgorithmFailed:
            return Result({"failed": True, "hit": True}, hits=tests, tests=tests)
        return Result({"value": value, "hit": hit}, hits=int(hit) * tests, tests=tests)

    def told(self, answer: Json) -> Any:
        """The outcome; `AlgorithmFailed` if there is none."""
        if "failed" in answer:
            raise failure(self.algorithm.name, judged="hit" in self.target.told)
        return answer["value"]


@dataclass(frozen=True)
class AskAlgorithm(RunOnce[RunAlgorithm]):
    """The run, as it is paid for."""

    raced = True

    @property
    def algorithm(self) -> algorithms.Algorithm:
        return self.call.algorithm

    @cached_property
    def target(self) -> algorithms.Target:
        return self.call.hits()

    @cached_property
    def event(self) -> Event:
        return self.target.event_by_laws(self.algorithm)

    def present(self, answer: Json, call: int) -> answers.Outcome:
        return answers.Outcome(call, self.told(answer), answer["hit"])


def failure(name: str, *, judged: bool = False) -> AlgorithmFailed:
    """The error for an algorithm of this name, or for a condition that judged its outcome."""
    by = f"the algorithm {name!r} or the condition on its outcome" if judged else f"the algorithm {name!r}"
    return AlgorithmFailed(f"{by} raised, or returned what is no finite JSON value; charged")


# Publishing the outcome of any private algorithm only where a condition holds; otherwise it is held, free, and secret.
#
# One-sided conditions on any outcome are the general form of a conditional release ([TCT] Algorithm 2): the target is
# the set of outcomes for which the condition holds, and an extension of it publishes what the first one held back.

# All of it is written whenever an outcome is held, so what no memory has would fail once it is charged.
MOST_ROOM: Final = 2**24


@dataclass(frozen=True)
class Disclosure(Answer):
    """The outcome of an algorithm if it is `published`, otherwise None: then it is held beside call `held`, free."""

    value: Any
    published: bool
    held: int
    extender: Callable[..., "Disclosure"] | None = field(default=None, repr=False, compare=False)

    @property
    def hit(self) -> bool:
        return self.published

    def extend(self, *, when: algorithms.When, request: str | None = None) -> "Disclosure":
        """Publish the same held outcome if it meets another condition; see `chary.calls.Extend`.

        Errors: `NotWithheld` if it was published before, or for an answer that no session handed out.
        """
        if self.extender is None:
            raise NotWithheld(f"a copy knows no session: session.ask(chary.calls.Extend({self.held}, when=...))")
        return self.extender(self.held, when=when, request=request)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "extender"}


@call("publish_if", subject="algorithms")
class PublishIf(Call[Disclosure]):
    """The outcome of any private algorithm if it meets a condition, otherwise nothing, which is free; see `Extend`.

    Guarantee: one epsilon-DP call with the NotPrior target "published" ([TCT] Algorithm 2); an algorithm's delta is
    paid hit or miss, once for all extensions. An outcome that does not meet the condition becomes secret state, of
    which not even the length is told: it takes `room` bytes of the ledger, and one that does not fit is a hit that
    failed. So are a run that fails and a condition that raises.

    Errors: `InvalidParameter` for an algorithm with a rho and for a room above 16 MiB; `AlgorithmFailed`, charged.

    >>> from chary.calls import Algorithm, When
    >>> depth = Algorithm("depth", lambda rows, source: 3, epsilon="0.02")
    >>> PublishIf(depth, when=When("deep", lambda depth: depth > 9)).kind
    'publish_if'
    """

    algorithm: fields.Brought
    _: KW_ONLY
    when: fields.Condition
    room: fields.Whole = 4096

    def __post_init__(self) -> None:
        if self.room > MOST_ROOM:
            raise InvalidParameter(f"room must be at most {MOST_ROOM} bytes, which each outcome that is held takes")

    def bind(self, spine: Spine) -> "AskPublishIf":
        return AskPublishIf(self, spine.rows.neighbor_relation, partial(_extended, spine))


@dataclass(frozen=True)
class AskPublishIf(RunOnce[PublishIf]):
    """The conditional publication, as it is run."""

    extender: Callable[..., Disclosure] | None = field(default=None, compare=False, repr=False)

    @property
    def algorithm(self) -> algorithms.Algorithm:
        return self.call.algorithm

    @cached_property
    def target(self) -> algorithms.Target:
        return algorithms.Target(self.call.when, {"when": self.call.when.name, "room": self.call.room})

    def run(self, data: Data) -> Result:
        try:
            outcome = self.algorithm.outcome(data.values[0], data.source)
            return _judged(outcome, self.call.when, self.call.room)
        except AlgorithmFailed:
            return Result({"failed": True}, hits=1, tests=1)

    def present(self, answer: Json, call: int) -> Disclosure:
        return _told(answer, call, call, self.algorithm.name, self.extender)


@call("extend", subject="algorithms")
class Extend(Call[Disclosure]):
    """Publish the outcome that an earlier `PublishIf` held, if it meets another condition; no data are read.

    Guarantee: an extension of the target of that call (`Extendable`, [TCT] Algorithm 2) by the outcomes that meet this
    condition and none before, since what met one of those is held no more: that call and all its extensions together
    hit at most once. It is charged like a hit of that call if it publishes now, and free where that call was charged
    hit or miss, which paid for the outcome.

    Errors: `NotWithheld` when that call holds nothing; `AlgorithmFailed`, charged like a hit and the end of what was
    held, for a condition that raises.
    """

    held: fields.Whole
    _: KW_ONLY
    when: fields.Condition

    def bind(self, spine: Spine) -> "AskExtend":
        original = earlier(spine, self.held, "publish_if", "a conditional publication")
        return AskExtend(self, spine.rows.neighbor_relation, original, partial(_extended, spine))


@dataclass(frozen=True)
class AskExtend(Extending[Extend]):
    """The extension, as it is run."""

    extender: Callable[..., Disclosure] | None = field(default=None, compare=False, repr=False)

    @property
    def held(self) -> int:
        return self.call.held

    def run(self, data: Data) -> Result:
        outcome = json.loads(unpadded(data.secret or b"null"))
        try:
            return _judged(outcome, self.call.when, self.original["room"], replaces=self.held)
        except AlgorithmFailed:
            return Result({"failed": True}, hits=1, tests=1, secrets={self.held: None})

    def present(self, answer: Json, call: int) -> Disclosure:
        return _told(answer, call, self.held, self.original["algorithm"], self.extender)


def _judged(outcome: Any, when: algorithms.When, room: int, *, replaces: int | None = None) -> Result:
    """The public answer, and the secret state beside this call or the one whose state it replaces."""
    published, held = when(outcome), algorithms.canonical_outcome(outcome).encode()
    if not published and len(held) > room:
        raise AlgorithmFailed("the outcome takes more than its room")
    answer = {"published": published, "value": outcome if published else None}
    kept = None if published else padded(held, room)
    if replaces is None:
        return Result(answer, hits=int(published), tests=1, secret=kept)
    return Result(answer, hits=int(published), tests=1, secrets={replaces: kept})


def _told(answer: Json, call: int, held: int, name: str, extender: Callable[..., Disclosure] | None) -> Disclosure:
    if "failed" in answer:
        raise failure(name, judged=True)
    return Disclosure(call, answer["value"], answer["published"], held, extender)


def _extended(spine: Spine, held: int, *, when: algorithms.When, request: str | None = None) -> Disclosure:
    return Extend(held, when=when).perform(spine, request)


# The counters of a race: what each target was hit for, and how far the least of them rose (docs/theory.md).


def check_opened(race: int, secret: bytes | None) -> None:
    """Refuse a race whose opening was interrupted."""
    if secret is None:
        raise NotWithheld(f"call {race} counts no targets: it was interrupted; open a new one")


def risen(before: Mapping[str, int], raised: Mapping[str, int], full: int | None) -> tuple[dict[str, int], int]:
    """The counters after a call that raised some of them, and what is charged; `full` is paid instead of counting.

    >>> risen({"a": 0, "b": 2}, {"a": 1, "b": 4}, None), risen({"a": 0, "b": 2}, {}, 9)
    (({'a': 1, 'b': 6}, 1), ({'a': 0, 'b': 2}, 9))
    """
    if full is not None:
        return dict(before), full
    after = {name: count + raised.get(name, 0) for name, count in before.items()}
    return after, min(after.values()) - min(before.values())


# A question to a race that is any call with one outcome, each target of which is what the call pays or its own.

_WORDS: Final = {"prior", "target", "q", "hit"}
_SAY: Final = 'say of each target what hits: {"prior": "cat"}, {"target": ["a"], "q": "0.3"}, {"hit": When(...)}, or {}'


@dataclass(frozen=True)
class Aim:
    """What one target of a race hits: the call's own target, or another set of its outcomes; and what a hit costs."""

    target: algorithms.Target | None
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

    def run(self, data: Data) -> Result:
        ran = self.inner.run(replace(data, secret=None))
        try:
            hit = self._hits(ran)
        except AlgorithmFailed:
            ran, hit = replace(ran, answer={"failed": True}), dict.fromkeys(self.aims, True)
        raised = {name: self.prices[name].hit.main for name, hits in hit.items() if hits and self.free_miss}
        before = dict(zip(self.aims, json.loads(data.secret or b"[]"), strict=True))
        after, charged = risen(before, raised, None if self.free_miss else data.price.hit.main)
        names = [name for name, hits in hit.items() if hits]
        answer = {"answer": ran.answer, "hits": names, "raised": raised, "charged": charged}
        kept: dict[int, bytes | None] = {self.race: json.dumps(list(after.values())).encode()}
        return Result(answer, hits=int(all(hit.values())), tests=1, secrets=kept)

    def _hits(self, ran: Result) -> dict[str, bool]:
        value = outcome_of(self.inner.present(ran.answer, 0))
        return {name: aim.hits(value, own=ran.hits > 0) for name, aim in self.aims.items()}

    def final(self, price: Price, ran: Result, reserved_hits: int) -> Amount:
        return Amount(ran.answer["charged"], price.hit.delta)

    def present(self, answer: Json, call: int) -> answers.RaceOutcome:
        if "failed" in answer["answer"]:
            raise AlgorithmFailed(
                "what was raced raised, or returned no finite JSON value, or a condition on it raised"
            )
        value = outcome_of(self.inner.present(answer["answer"], call))
        return answers.RaceOutcome(call, value, tuple(answer["hits"]), bool(answer["charged"]))


def raced(spine: Spine, race: int, names: Sequence[str], asked: Any, targets: Mapping[str, Any]) -> RacedCall:
    """The question; refuses calls that cannot be raced, and targets that are none.

    Errors: `InvalidParameter` unless each name has a target; `NotPriced` where one of them has none.
    """
    if set(targets) != set(names) or not all(isinstance(said, Mapping) for said in targets.values()):
        raise InvalidParameter(f"give a target for each of {', '.join(names)}, and no other; {_SAY}")
    call = RunAlgorithm(asked) if isinstance(asked, algorithms.Algorithm) else asked
    bound = isinstance(call, Call) and type(call).bind is not Call.bind
    inner = call.bind(spine) if bound else None
    if inner is None or not inner.raced:
        raise InvalidParameter(
            "race an algorithm, or a call with one outcome, such as ThresholdTest, Between or RunAlgorithm"
        )
    aims = {name: _aim(inner, dict(targets[name])) for name in names}
    return RacedCall(race, aims, inner, {name: spine.filter.price(aim.event) for name, aim in aims.items()})


def outcome_of(answer: Any) -> Any:
    """The outcome that an answer tells, in JSON values."""
    value = getattr(answer, "value", None) if hasattr(answer, "value") else [answer.first, answer.second]
    return json.loads(algorithms.canonical_outcome(value))


def _aim(inner: Interaction, said: Json) -> Aim:
    if set(said) - _WORDS or len(set(said) - {"q"}) > 1:
        raise InvalidParameter(_SAY)
    if not said:
        return Aim(None, inner.event)
    algorithm = inner.algorithm if isinstance(inner, AskAlgorithm) else _stand_in(inner, said)
    target = _target(algorithm, **said)
    return Aim(target, target.event_by_laws(algorithm))


def _target(
    algorithm: algorithms.Algorithm,
    prior: Any = algorithms.UNSAID,
    target: Any = None,
    q: Number | None = None,
    hit: algorithms.When | None = None,
) -> algorithms.Target:
    if target is not None:
        return algorithms.listed(algorithm, tuple(target), q)
    if isinstance(hit, algorithms.When):
        return algorithms.conditional(algorithm, hit, q)
    if prior is algorithms.UNSAID:
        raise InvalidParameter(_SAY)
    return algorithms.not_prior(algorithm, prior, q)


def _stand_in(inner: Interaction, said: Json) -> algorithms.Algorithm:
    """The call as an algorithm of its epsilon, of which nothing but a prior is known: no caller states a q of it."""
    epsilon = inner.event.epsilon
    if epsilon is None or set(said) != {"prior"}:
        raise InvalidParameter("this call is raced by its own target, {}, or where it has an epsilon by a prior")
    return algorithms.Algorithm(inner.kind, lambda rows, source: None, epsilon, inner.event.delta)


# Several targets counted side by side; only the one that was hit least is paid ([TCT] section 2.5, Lemma 2.7).


@call("best_of", subject="algorithms")
class MultiTarget(Opening[Run[answers.RaceOutcome, "RaceState"]]):
    """Count several targets side by side and pay for the one that is hit least.

    Guarantee: all calls together cost the logarithm of the number of targets once (`BestOf(targets)`; log-moment; on a
    privacy curve delta times that number, [TCT] Lemma 2.7) and then what the best target alone would have cost. Only a
    filter with Renyi prices can charge it (`NotPriced` otherwise). Errors: `InvalidParameter` for less than two
    different names."""

    targets: fields.Values

    def __post_init__(self) -> None:
        targets = tuple(self.targets)
        named = [name for name in targets if isinstance(name, str) and name]
        if len(set(named)) != len(targets) or len(named) < 2:
            raise InvalidParameter('name at least two different targets, such as MultiTarget(["student", "last year"])')

    def bind(self, spine: Spine) -> "OpenRace":
        return OpenRace(self, spine.rows.neighbor_relation)


@dataclass(frozen=True)
class OpenRace(BoundOpening[MultiTarget]):
    """The opening: paid once, and nothing is read."""

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.call.targets)

    @cached_property
    def event(self) -> Event:
        return BestOf(len(self.targets))

    def run(self, data: Data) -> Result:
        return Result({}, hits=0, tests=0, secret=json.dumps([0] * len(self.targets)).encode())


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
    algorithm: algorithms.Algorithm
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
        priors = {name: algorithms.plain_outcome(self.priors[name]) for name in self.targets}
        return self.algorithm.body() | {"best_of": self.race, "priors": priors}

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.algorithm.prepare(rows)]

    def run(self, data: Data) -> Result:
        try:
            outcome: Json = {"value": self.algorithm.outcome(data.values[0], data.source)}
        except AlgorithmFailed:
            outcome = {"failed": True}
        found = algorithms.canonical_outcome(outcome.get("value"))
        hit = ["failed" in outcome or found != algorithms.canonical_outcome(self.priors[name]) for name in self.targets]
        before = json.loads(data.secret or b"[]")
        after, charged = counted(before, hit, data.price)
        names = [name for name, hits in zip(self.targets, hit, strict=True) if hits]
        answer = outcome | {"hits": names, "charged": charged}
        return Result(answer, hits=int(all(hit)), tests=1, secrets={self.race: json.dumps(after).encode()})

    def final(self, price: Price, ran: Result, reserved_hits: int) -> Amount:
        return Amount(ran.answer["charged"], price.hit.delta)

    def present(self, answer: Json, call: int) -> answers.RaceOutcome:
        if "failed" in answer:
            raise AlgorithmFailed(f"the algorithm {self.algorithm.name!r} raised, or returned no finite JSON value")
        return answers.RaceOutcome(call, answer["value"], tuple(answer["hits"]), bool(answer["charged"]))


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


class RaceRun(RunKind[answers.RaceOutcome, RaceState]):
    """`run.ask(algorithm, priors={...})`: run a private algorithm with one prior for each target; or `run.ask(call,
    targets={...})`: make any call with one outcome (`ThresholdTest`, `Between`, `Decide`, `Classify`, `Boundary`,
    `Twice`, `RunAlgorithm`), with a target for each.

    A target is said as in `RunAlgorithm`: `{"prior": "cat"}`, `{"target": ["a"], "q": "0.3"}` or `{"hit": When(...)}`;
    `{}` is the call's own. What no algorithm brings is hit as it is, or has a prior where the call has an epsilon.

    Guarantee: the call's, with each target; the sum charged is that of the target that was hit least, whichever it
    turns out to be. A call without a price per hit for one of its targets is paid in full. Errors: `InvalidParameter`
    unless each target is said, and for calls with several outcomes or with a secret state.
    """

    kind = MultiTarget.kind
    names = "best_of"

    def plan(
        self,
        algorithm: algorithms.Algorithm | Call[Any],
        *,
        priors: Mapping[str, Any] | None = None,
        targets: Mapping[str, Any] | None = None,
    ) -> RaceCall | RacedCall:
        if (priors is None) == (targets is None):
            raise InvalidParameter("give priors= or targets=, one of them, with an entry for each target")
        if priors is None:
            return raced(self._spine, self.call, self.state.targets, algorithm, targets or {})
        if isinstance(algorithm, algorithms.Algorithm):
            return RaceCall(self.call, self.state.targets, algorithm, priors)
        said = {name: {"prior": prior} for name, prior in priors.items()}
        return raced(self._spine, self.call, self.state.targets, algorithm, said)

    @property
    def state(self) -> RaceState:
        return RaceState(tuple(self._terms["targets"]))
