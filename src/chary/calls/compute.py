"""Algorithms run privately: once, in a race against a target, published on a condition, withheld."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final

from chary import noise
from chary.accounting import BestOf, BoundedRange, Event, ExPost, Failing, NarrowChoice, Targeted, ZeroConcentrated
from chary.amounts import Amount
from chary.answers import in_json, with_bytes
from chary.calls import algorithm as algorithms
from chary.calls import answers, fields
from chary.calls.call import Call, call
from chary.calls.run import AskedKind, Opening, Run, RunKind, opening
from chary.calls.withheld import EXTENDS, Widen, extension
from chary.core.forecast import Forecast
from chary.core.plan import ENCODER, FREE, AnswerT, AsReported, Data, Json, PerHit, Plan, Result
from chary.core.transaction import Spine
from chary.data import Reading, Rows, read_one_version
from chary.data.rows import Deferred
from chary.errors import AlgorithmFailed, InvalidParameter, NotPriced
from chary.filters import Filter, Price
from chary.mechanisms.additive import padded, unpadded
from chary.mechanisms.boundaries import BOUNDARY
from chary.numbers import Number

# What operators are applied to: algorithms of one's own, and calls of chary as private algorithms.

_ONE_OUTCOME: Final = (
    "an operator takes an algorithm, or a call that is answered by itself: a release, a choice, a test, a quantile; "
    "not {title}, which {why}"
)

_NO_NUMBER: Final = (
    "candidates are ranked by one published number, and {title} has none here: take a release of one query, one "
    "quantile, a proportion, or an Algorithm that returns [score, solution]"
)


@dataclass(frozen=True)
class CalledOnce(algorithms.Algorithm):
    """A call as a private algorithm: its outcome is the value of its answer, in JSON.

    Guarantee: all that the call publishes is within its epsilon, for each part in which neighbours can differ. So as a
    whole it is an Algorithm of that epsilon, times the parts, and of its delta, or of its rho. Its secret state is
    discarded, and so is its own target: the operator defines the hits. A choice whose likelihood ratios lie in an
    interval (`BoundedRange`) keeps that property, whatever is published of the choice.

    Errors: `InvalidParameter` for a call that goes on from an earlier one, that opens a run, that is several questions,
    or that has neither an epsilon nor a rho.
    """

    asked: Plan[Any] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, call: Call[Any], spine: Spine, name: str | None = None) -> "CalledOnce":
        """The call on the rows of this session; `name` distinguishes it from others next to it."""
        asked = alone(call, spine)
        cost, sizes = asked.cost, dict[str, Any]()
        for event in _events(asked):
            if event.epsilon is not None:
                sizes = {"epsilon": event.epsilon * cost.parts, "delta": event.delta * cost.parts}
                break
            if isinstance(event, ZeroConcentrated):
                sizes = {"rho": Fraction(event.rho) * cost.parts}
        if not sizes:
            raise InvalidParameter(_ONE_OUTCOME.format(title=call.title, why="has no epsilon here: ask with epsilon="))
        known = [outcome_of(asked.present(answer, 0)) for answer in asked.outcomes] or None
        return cls(name or call.name, partial(_value, asked), **sizes, outcomes=known, asked=asked)

    @property
    def lawful(self) -> bool:
        return self.plan.law is not None

    @property
    def plan(self) -> Plan[Any]:
        """The call as it is run."""
        if self.asked is None:
            raise InvalidParameter("a call as an algorithm is made by CalledOnce.of")
        return self.asked

    def targeted(self, q: Number | None) -> Event:
        narrow = [NarrowChoice(event.bound) for event in _events(self.plan) if isinstance(event, BoundedRange)]
        return narrow[0] if narrow and q is None and self.plan.cost.parts == 1 else super().targeted(q)

    def law(self, rows: Any) -> noise.FiniteLaw:
        if self.plan.law is None:
            raise InvalidParameter(f"the distribution of {self.name!r} is not known")
        return self.plan.law(Data(rows, noise.OperatingSystem(), None, None, FREE))

    def rehearse(self, rows: Rows) -> None:
        """A call's distribution is one for all rows."""

    def prepare(self, rows: Rows) -> Reading:
        read = self.plan.reads(rows)
        return Deferred(self.name, lambda: read_one_version(rows, read))

    def body(self) -> Json:
        return super().body() | {"call": {"kind": self.plan.kind} | json.loads(self.plan.body)}


def alone(call: Call[Any], spine: Spine) -> Plan[Any]:
    """The plan of a call that is one plan and needs no other call; `InvalidParameter` for any other."""
    asked = None if isinstance(call, Opening) or type(call).perform is not Call.perform else call.plan(spine)
    if asked is None or not isinstance(asked.cost, PerHit) or not asked.cost.adds_up:
        several = "asks several questions, one after another" if asked is None else "goes on from an earlier call"
        why = "stays open" if isinstance(call, Opening) else several
        raise InvalidParameter(_ONE_OUTCOME.format(title=call.title, why=why))
    return asked


def _events(asked: Plan[Any]) -> tuple[Event, ...]:
    """All events that bound a call, each of them alone."""
    return asked.event, *(asked.cost.bounds if isinstance(asked.cost, PerHit) else ())


def _value(asked: Plan[Any], values: Any, source: noise.Source) -> Any:
    return outcome_of(asked.present(asked.run(Data(values, source, None, None, FREE)).answer, 0))


def outcome_of(answer: Any) -> Any:
    """The value of an answer in JSON; that of groups is a list of rows, each with its key and its value."""
    told = answer.value
    if isinstance(told, Mapping):
        told = [[*(key if isinstance(key, tuple) else [key]), value] for key, value in told.items()]
    return json.loads(algorithms.canonical_outcome(in_json(told)))


def private(brought: algorithms.Algorithm | Call[Any], spine: Spine, name: str | None = None) -> algorithms.Algorithm:
    """An algorithm, or a call as an algorithm on the rows of this session."""
    return brought if isinstance(brought, algorithms.Algorithm) else CalledOnce.of(brought, spine, name)


def all_private(candidates: Any, spine: Spine) -> list[algorithms.Algorithm]:
    """All candidates as algorithms, each under the name that distinguishes it from the others."""
    found = {name: private(brought, spine, name) for name, brought in named(candidates).items()}
    return [each if each.name == name else replace(each, name=name) for name, each in found.items()]


def renamed(candidates: Any) -> Json:
    """The part of a stored question with algorithms that have other names than their own; empty without any."""
    own = {
        name: brought.name
        for name, brought in named(candidates).items()
        if isinstance(brought, algorithms.Algorithm) and brought.name != name
    }
    return {"named": own} if own else {}


def named(candidates: Any) -> Mapping[str, algorithms.Algorithm | Call[Any]]:
    """Algorithms and calls by name: by the keys of a mapping, or each by its own name.

    Errors: `InvalidParameter` for an empty list, for anything else, for a call whose answer is no number, and for
    names that occur twice.
    """
    found = candidates.values() if isinstance(candidates, Mapping) else candidates
    found = tuple(found) if isinstance(found, (list, tuple)) or isinstance(candidates, Mapping) else ()
    if not found or not all(isinstance(each, (algorithms.Algorithm, Call)) for each in found):
        raise InvalidParameter(
            'candidates are a query with public keys, or a list such as [chary.Algorithm("tree", run, epsilon=0.1)]'
        )
    names = list(candidates) if isinstance(candidates, Mapping) else [each.name for each in found]
    if len(set(names)) != len(names) or not all(isinstance(name, str) and name for name in names):
        raise InvalidParameter('candidates must have different names: say them as {"north": call, "south": call}')
    for brought in found:
        if isinstance(brought, Call) and not brought.numeric:
            raise InvalidParameter(_NO_NUMBER.format(title=brought.title))
    return dict(zip(names, found, strict=True))


# Any private algorithm as a call: priced by its prior, by a q-target, or in full ([TCT] sections 1 and 2).


_FAILED: Final = Result({"failed": True}, hits=1, tests=1)


@call("call", subject="algorithms")
class RunAlgorithm(Call[answers.Outcome]):
    """Run any private algorithm once.

    Guarantee: the algorithm's own. With `prior`, an outcome that may depend on everything published before, the call is
    free unless something else comes out (NotPrior). With `target`, a list of declared outcomes, it is free unless one
    of those comes out; `q` is what the caller states about the target (a q-target, theory 1.2). It can be left out
    where the target misses one outcome only, and where the algorithm has `laws`, which then decide its cost. `hit`, a
    condition on outcomes (`When`), states a target without a list. Of declared outcomes it is the list of those for
    which it holds, otherwise it needs its q. A call of chary's own takes no q. With none of these it is always charged,
    like a release. Where the algorithm reports its `loss`, it is charged what it reports, at most its epsilon
    (`ExPost`): epsilon is reserved, and under the exact filter charged. A run that fails, or reports no such loss, is
    charged like a hit.

    >>> from chary import Algorithm
    >>> from chary.calls import When
    >>> tree = Algorithm("depth", lambda rows, source: 3, epsilon="0.02", outcomes=list(range(10)))
    >>> RunAlgorithm(tree, hit=When("deep", lambda depth: depth > 0)).hits(tree).event(tree)
    Targeted(bound=Fraction(1, 50), q=None, failure=Fraction(0, 1))

    Errors: `InvalidParameter` for a target that is no subset of the declared outcomes, a prior or target of an
    algorithm with a rho, and a q above its limit. `AlgorithmFailed`, charged, when it raises or returns
    what is no finite JSON value.
    """

    algorithm: fields.Brought
    _: KW_ONLY
    prior: fields.Outcome = algorithms.UNSAID
    target: fields.Outcomes | None = None
    q: fields.Positive | None = None
    hit: fields.Condition | None = None

    def __post_init__(self) -> None:
        said = (self.prior is not algorithms.UNSAID) + (self.target is not None) + (self.hit is not None)
        if said > 1:
            raise InvalidParameter("give a prior (all else hits), a target or a condition (hit=), only one of them")
        if self.q is not None and not said:
            raise InvalidParameter("q belongs to a target: give target= as well")

    @property
    def numeric(self) -> bool:
        return True

    def plan(self, spine: Spine) -> Plan[answers.Outcome]:
        algorithm = private(self.algorithm, spine)
        if algorithm.loss is not None and self.hits(algorithm) is algorithms.EVERYTHING:
            return reporting(self, algorithm, spine.filter)
        return run_once(self, algorithm)

    def hits(self, algorithm: algorithms.Algorithm) -> algorithms.Target:
        """The outcomes of an algorithm that are charged; refuses invalid targets, and a q of a call.

        A q is an assertion by the author of an algorithm, which a call does not have.
        """
        if self.q is not None and isinstance(algorithm, CalledOnce):
            raise InvalidParameter("a q is stated by the author of an algorithm, and this is a call: give its prior=")
        if self.target is not None:
            return algorithms.listed(algorithm, tuple(self.target), self.q)
        if self.hit is not None:
            return algorithms.conditional(algorithm, self.hit, self.q)
        if self.prior is algorithms.UNSAID:
            return algorithms.EVERYTHING
        return algorithms.not_prior(algorithm, self.prior, self.q)


def run_once(call: RunAlgorithm, algorithm: algorithms.Algorithm) -> Plan[answers.Outcome]:
    """The plan of one run, charged for its target."""
    target = call.hits(algorithm)
    event = target.event_by_laws(algorithm)

    def tell(answer: Json, number: int) -> answers.Outcome:
        return answers.Outcome(number, with_bytes(answer["value"]), answer["hit"])

    return judging(call, algorithm, target, target.told, event, tell)


def reporting(call: RunAlgorithm, algorithm: algorithms.Algorithm, filter_: Filter) -> Plan[answers.Outcome]:
    """A run that reserves its largest loss, and is charged the loss that its author reports for the outcome."""
    most, delta = algorithm.size
    worst, told = Failing.of(ExPost(most, most), delta), {"loss": "reported"}

    def run(data: Data) -> Result:
        value = algorithm.outcome(data.values[0], data.source)
        if (lost := algorithm.reported(value)) is None:
            raise AlgorithmFailed
        return Result({"value": value, "lost": str(lost)}, hits=0, tests=0)

    def charged(price: Price, result: Result) -> Amount:
        if "lost" not in result.answer:
            return price.hit
        lost = filter_.price(ExPost(result.answer["lost"], most)).hit
        return Amount(min(lost.main, price.hit.main), price.hit.delta)

    def tell(answer: Json, number: int) -> answers.Outcome:
        return answers.Outcome(number, with_bytes(answer["value"]), in_target=True)

    failed = Result({"failed": True}, hits=0, tests=0)
    plan = running(call, algorithm, told, worst, run, tell, failed)
    try:
        filter_.price(worst)
    except NotPriced:  # tokens are for what is known beforehand
        return replace(plan, event=algorithm.event)
    return replace(plan, cost=AsReported(adds_up=True, of=charged))


def judging(
    call: Call[AnswerT],
    algorithm: algorithms.Algorithm,
    target: algorithms.Target,
    told: Json,
    event: Event,
    tell: Callable[[Json, int], AnswerT],
) -> Plan[AnswerT]:
    """One run, whose outcome is published, hit or miss."""
    tests = int(not target.whole)

    def run(data: Data) -> Result:
        value = algorithm.outcome(data.values[0], data.source)
        hit = target.hits(value)
        return Result({"value": value, "hit": hit}, hits=int(hit) * tests, tests=tests)

    failed = Result({"failed": True, "hit": True}, hits=tests, tests=tests)
    return running(call, algorithm, told, event, run, tell, failed)


def running(
    call: Call[AnswerT],
    algorithm: algorithms.Algorithm,
    told: Json,
    event: Event,
    run: Callable[[Data], Result],
    tell: Callable[[Json, int], AnswerT],
    failed: Result = _FAILED,
) -> Plan[AnswerT]:
    """The plan of a private algorithm: `run` on the rows that it reads. A failure is a hit without an outcome.

    `told` identifies the question together with the algorithm.
    """
    judged = bool({"hit", "when"} & told.keys())

    def safely(data: Data) -> Result:
        try:
            return run(data)
        except AlgorithmFailed:
            return failed

    def present(answer: Json, number: int) -> AnswerT:
        if "failed" in answer:
            raise failure(algorithm.name, judged=judged, reports="loss" in told)
        return tell(answer, number)

    body = ENCODER.encode(algorithm.body() | told)
    return Plan(call.kind, body, event, safely, present, lambda rows: [algorithm.prepare(rows)])


def bounded(plan: Plan[AnswerT], other: Event) -> Plan[AnswerT]:
    """The call at the lower cost of two events that each bound it."""
    return plan if other == plan.event else replace(plan, cost=PerHit(bounds=(plan.event, other)))


def failure(name: str, *, judged: bool = False, reports: bool = False) -> AlgorithmFailed:
    """The error for an algorithm of this name, or for a condition that judged its outcome, or a loss it reported."""
    by = f"the algorithm {name!r} or the condition on its outcome" if judged else f"the algorithm {name!r}"
    lost = ", or reported no loss from 0 to its epsilon" if reports else ""
    return AlgorithmFailed(f"{by} raised, or returned what is no finite JSON value{lost}; charged")


# Publishing the outcome of any private algorithm only where a condition holds; otherwise it is held, free, and secret.
#
# One-sided conditions on any outcome are the general form of a conditional release ([TCT] Algorithm 2): the target is
# the set of outcomes for which the condition holds, and an extension of it publishes what the first one withheld.

# Each withheld outcome takes all of `room`. More than a machine's memory would fail after it was charged.
MOST_ROOM: Final = 2**24


@dataclass(frozen=True)
class Disclosure(answers.Withheld):
    """The outcome of an algorithm if it is `published`, otherwise None: then it is withheld next to call `held`, free.

    `widen(when=)` publishes it if it meets another condition.
    """

    value: Any
    published: bool
    held: int
    hit_if = "published"


@call("publish_if", subject="algorithms")
class PublishIf(Call[Disclosure]):
    """Publish the outcome of any private algorithm if it meets a condition. Otherwise nothing is published, which is
    free; see `Widen`.

    Guarantee: one epsilon-DP call with the NotPrior target "published" ([TCT] Algorithm 2). An algorithm's delta is
    paid hit or miss, once for all extensions. An outcome that does not meet the condition becomes secret state, and not
    even its length is published. It takes `room` bytes of the ledger; one that does not fit is a hit that failed. A run
    that fails and a condition that raises are such hits, too.

    Errors: `InvalidParameter` for an algorithm with a rho and for `room` above 16 MiB; `AlgorithmFailed`, charged.

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
            raise InvalidParameter(f"room= must be at most {MOST_ROOM} bytes, which each withheld outcome takes")

    @property
    def numeric(self) -> bool:
        return True

    def plan(self, spine: Spine) -> Plan[Disclosure]:
        return publishing(self, private(self.algorithm, spine), spine.filter)

    @classmethod
    def widened(cls, widen: Widen, original: Json, spine: Spine) -> Plan[Disclosure]:
        answer = json.loads(spine.ledger.call(widen.held).answer or b"{}")
        return extending(widen, original, paid="laws" in answer)


def publishing(call: PublishIf, algorithm: algorithms.Algorithm, filter_: Filter) -> Plan[Disclosure]:
    """The conditional publication, as it is run."""
    when, room = call.when, call.room
    target = algorithms.Target(when, {"when": when.name, "room": room})
    stated = _stated(target, algorithm)

    def run(data: Data) -> Result:
        answer, kept = _judged(algorithm.outcome(data.values[0], data.source), when, room)
        # If the stated distributions also bound this call, a later `Widen` of the outcome is paid for already.
        by_laws = stated is not None and _pays(filter_, data.price, stated)
        return Result(answer | ({"laws": True} if by_laws else {}), int(answer["published"]), 1, secret=kept)

    def tell(answer: Json, number: int) -> Disclosure:
        return Disclosure(number, with_bytes(answer["value"]), answer["published"], number)

    # A `Widen` is free where the filter charges an `Extendable` of this epsilon hit or miss. This call must be charged
    # hit or miss there too, so it is not priced as a `NarrowChoice`, whose misses stay free longer.
    epsilon, delta = algorithm.size
    plan = running(call, algorithm, target.told, Targeted(epsilon, None, delta), run, tell)
    return plan if stated is None else bounded(plan, stated)


def _pays(filter_: Filter, price: Price, event: Event) -> bool:
    """Whether this cost pays for the event as well, hit and miss."""
    try:
        known = filter_.price(event)
    except NotPriced:
        return False
    return (price.hit, price.miss) == (known.hit, known.miss)


def _stated(target: algorithms.Target, algorithm: algorithms.Algorithm) -> Event | None:
    """The event by the stated distributions; None without any, and where the condition raises or never holds."""
    try:
        return None if algorithm.laws is None else target.event_by_laws(algorithm)
    except (AlgorithmFailed, InvalidParameter):
        return None


def extending(widen: Widen, original: Json, *, paid: bool = False) -> Plan[Disclosure]:
    """The plan of the extension. `original` is the body of the call that withheld the outcome; `paid` says that this
    call was charged for any later publication."""
    when = widen.when
    if when is None:
        raise InvalidParameter("the outcome of an algorithm is published by another condition: give when=, not above=")

    def run(data: Data) -> Result:
        outcome = json.loads(unpadded(data.secret or b"null"))
        try:
            answer, kept = _judged(outcome, when, original["room"])
        except AlgorithmFailed:
            return Result({"failed": True}, hits=1, tests=1, secrets={widen.held: None})
        return Result(answer, hits=int(answer["published"]), tests=1, secrets={widen.held: kept})

    def present(answer: Json, number: int) -> Disclosure:
        if "failed" in answer:
            raise failure(original["algorithm"], judged=True)
        return Disclosure(number, with_bytes(answer["value"]), answer["published"], widen.held)

    return extension(widen, "extend", original, run, present, cost=replace(EXTENDS, agreed=FREE) if paid else EXTENDS)


def _judged(outcome: Any, when: algorithms.When, room: int) -> tuple[Json, bytes | None]:
    """The public answer, and the secret state where nothing is published."""
    published, held = when(outcome), algorithms.canonical_outcome(outcome).encode()
    if not published and len(held) > room:
        raise AlgorithmFailed("the outcome takes more bytes than room= allows")
    return {"published": published, "value": outcome if published else None}, None if published else padded(held, room)


# The counters of a race: the cost of each target's hits, and the rise of the smallest (docs/theory/charging.md).


def risen(before: Mapping[str, int], hits: Mapping[str, int], full: int | None) -> tuple[dict[str, int], int]:
    """The counters after a call with these costs of hits, and the charge; `full` is charged instead of counting.

    >>> risen({"a": 0, "b": 2}, {"a": 1, "b": 4}, None), risen({"a": 0, "b": 2}, {"a": 9}, 9)
    (({'a': 1, 'b': 6}, 1), ({'a': 0, 'b': 2}, 9))
    """
    if full is not None:
        return dict(before), full
    after = {name: count + hits.get(name, 0) for name, count in before.items()}
    return after, min(after.values()) - min(before.values())


@dataclass(frozen=True)
class Counted:
    """The cost of a question to a race: the rise of the smallest counter, at most `dearest`, that of the most expensive
    target."""

    dearest: Price
    parts: int = 1
    most: int = 1
    halts: bool = False
    adds_up: bool = False

    def price(self, event: Event, filter_: Filter) -> Price:
        """The cost of the most expensive target."""
        return self.dearest

    def final(self, price: Price, result: Result, reserved: int) -> Amount:
        """The rise that the answer contains."""
        return Amount(result.answer["charged"], price.hit.delta)


Judged = tuple[Json, Mapping[str, bool]]
"""The outcome of a question as it is stored, and which targets it hits."""


def counts(prices: Mapping[str, Price]) -> bool:
    """Whether all targets have a cost per hit."""
    return all(price.free_miss for price in prices.values())


# Questions to a race: an algorithm with a prior for each target, or any call with one outcome and a target for each.

# Ledgers store the two under kinds of their own.
CALL: Final = "best_of_call"
ASK: Final = "best_of_ask"
_WORDS: Final = {"prior", "target", "hit"}
_RACED: Final = "race an algorithm, or a call with one outcome, such as ThresholdTest, Choose or Quantile"
# Values that stand for a withheld or unclear outcome, and that may also be ordinary outcomes.
_TOLD_TWICE: Final = (None, BOUNDARY)
_SAY: Final = 'say of each target what hits: {"prior": "cat"}, {"target": ["a"], "q": "0.3"}, {"hit": When(...)}, or {}'


@dataclass(frozen=True)
class Aim:
    """One target of a race: the call's own target (None), or another set of its outcomes; and the event of a hit."""

    target: algorithms.Target | None
    event: Event

    def hits(self, value: Any, *, own: bool, twice: bool = False) -> bool:
        """Whether an outcome hits it; `own`: it hit the call's own target.

        `twice` marks a value that stands for a hit and for a miss of the call. The names of the targets that are hit
        tell which it was, so this target may miss only one of the two.
        """
        return own if self.target is None else self.target.hits(value) or (own and twice)

    @property
    def told(self) -> Json:
        """The target as questions store it."""
        return {} if self.target is None else self.target.told


def _dearest(prices: Mapping[str, Price]) -> Price:
    """The cost of the most expensive target; if some have no cost per hit, only these count."""
    counting = counts(prices)
    most = max(price.hit.main for price in prices.values() if price.free_miss == counting)
    delta = max(price.hit.delta for price in prices.values())
    return Price(Amount(most, delta), Amount(0 if counting else most, delta))


def _aim(call: Call[Any], inner: Plan[Any], said: Json, spine: Spine) -> Aim:
    named = set(said) - {"q"}
    if named - _WORDS or len(named) > 1 or (said and not named):
        raise InvalidParameter(_SAY)
    if not said and inner.cost.parts > 1:
        raise InvalidParameter("neighbours can differ in several outcomes of this call: say a prior of each target")
    if not said:
        return Aim(None, inner.event)
    brought = call.algorithm if isinstance(call, RunAlgorithm) else call
    if isinstance(brought, Call) and set(said) != {"prior"}:  # no caller states a q of it
        raise InvalidParameter("this call is raced by its own target, {}, or where it has an epsilon by a prior")
    algorithm = private(brought, spine)
    target = RunAlgorithm(algorithm, **said).hits(algorithm)
    if target is algorithms.EVERYTHING:
        raise InvalidParameter(_SAY)
    return Aim(target, target.event_by_laws(algorithm))


# Several targets counted side by side; only the one that was hit least is paid ([TCT] section 2.5, Lemma 2.7).


@call("best_of", subject="algorithms", typed=False)
class MultiTarget(Opening[Run[answers.RaceOutcome, "RaceState"]]):
    """Count hits of several targets side by side, and pay for the target that is hit least.

    Guarantee: all calls together cost the logarithm of the number of targets once, and then what the best target alone
    would have cost (`BestOf(targets)`; log-moment). On a privacy curve that is delta times that number ([TCT] Lemma
    2.7). Only a filter with Renyi costs can charge it (`NotPriced` otherwise). Errors: `InvalidParameter` for less than
    two different names."""

    targets: fields.Values

    def __post_init__(self) -> None:
        targets = tuple(self.targets)
        named = [name for name in targets if isinstance(name, str) and name]
        if len(set(named)) != len(targets) or len(named) < 2:
            raise InvalidParameter('name at least two different targets, such as MultiTarget(["student", "last year"])')

    def plan(self, spine: Spine) -> Plan[Any]:
        many = len(tuple(self.targets))
        return opening(self, spine, BestOf(many), lambda data: _kept([0] * many))


@dataclass(frozen=True)
class RaceState:
    """What is public of a race: the targets that are counted side by side."""

    targets: tuple[str, ...]


def _kept(counters: Sequence[int]) -> bytes:
    return json.dumps(counters).encode()


class RaceRun(RunKind[answers.RaceOutcome, RaceState]):
    """`run.ask(algorithm, priors={...})`: run a private algorithm with one prior for each target; or `run.ask(call,
    targets={...})`: make any call with one outcome (`ThresholdTest`, `Classify`, `Boundary`, `RunAlgorithm`), with
    a target for each.

    A target is given as in `RunAlgorithm`: `{"prior": "cat"}`, `{"target": ["a"], "q": "0.3"}` or `{"hit": When(...)}`;
    `{}` is the call's own. A call of chary takes its own target, or a prior where it has an epsilon.

    Guarantee: that of the call, once for each target. The total charge is that of the target that was hit least. A call
    without a cost per hit for one of its targets is paid in full. Errors: `InvalidParameter` unless each target is
    given, and for calls with several outcomes or with a secret state; `NotPriced` where a target has no cost.
    """

    kind = MultiTarget.kind
    names = "best_of"
    questions = (AskedKind(CALL), AskedKind(ASK))
    keeps = "counters"

    def plan(
        self,
        algorithm: algorithms.Algorithm | Call[Any],
        *,
        priors: Mapping[str, Any] | None = None,
        targets: Mapping[str, Any] | None = None,
    ) -> Plan[answers.RaceOutcome]:
        if (priors is None) == (targets is None):
            raise InvalidParameter("give priors= or targets=, one of them, with an entry for each target")
        if priors is None:
            return self._of_call(algorithm, targets or {})
        if isinstance(algorithm, algorithms.Algorithm):
            return self._of_algorithm(algorithm, priors)
        return self._of_call(algorithm, {name: {"prior": prior} for name, prior in priors.items()})

    @property
    def state(self) -> RaceState:
        return RaceState(tuple(self._terms["targets"]))

    def _of_algorithm(self, algorithm: algorithms.Algorithm, priors: Mapping[str, Any]) -> Plan[answers.RaceOutcome]:
        """One run of an algorithm, with a NotPrior target for each prior."""
        names = self.state.targets
        if set(priors) != set(names):
            raise InvalidParameter(f"give a prior for each of the targets {', '.join(names)}, and no other")
        aims = {name: algorithms.not_prior(algorithm, priors[name]) for name in names}
        event = Targeted(algorithm.size[0], None, algorithm.size[1])
        price = self._spine.filter.price
        prices = {name: price(aim.event_by_laws(algorithm)) for name, aim in aims.items()}

        def judge(data: Data) -> Judged:
            try:
                value = algorithm.outcome(data.values[0], data.source)
            except AlgorithmFailed:
                return {"failed": True}, dict.fromkeys(names, True)
            return {"value": value}, {name: aim.hits(value) for name, aim in aims.items()}

        def tell(answer: Json, number: int) -> Any:
            if "failed" in answer:
                raise AlgorithmFailed(f"the algorithm {algorithm.name!r} raised, or returned no finite JSON value")
            return with_bytes(answer["value"])

        told = {name: algorithms.plain_outcome(priors[name]) for name in names}
        run, present = self._counting(prices, judge, tell)
        return self._plan(
            CALL,
            algorithm.body() | {"priors": told},
            event,
            run,
            present,
            reads=lambda rows: [algorithm.prepare(rows)],
            cost=Counted(replace(_dearest(prices), basic=price(event).basic)),
        )

    def _of_call(self, asked: Any, targets: Mapping[str, Any]) -> Plan[answers.RaceOutcome]:
        """One call of any kind that has one outcome, with a target for each name; an outcome that failed hits all."""
        names = self.state.targets
        if set(targets) != set(names) or not all(isinstance(said, Mapping) for said in targets.values()):
            raise InvalidParameter(f"give a target for each of {', '.join(names)}, and no other; {_SAY}")
        call = RunAlgorithm(asked) if isinstance(asked, algorithms.Algorithm) else asked
        if not isinstance(call, Call):
            raise InvalidParameter(_RACED)
        inner = alone(call, self._spine)
        aims = {name: _aim(call, inner, dict(targets[name]), self._spine) for name in names}
        prices = {name: self._spine.filter.price(aim.event) for name, aim in aims.items()}

        def judge(data: Data) -> Judged:
            try:
                ran = inner.run(replace(data, secret=None, most_hits=None))
                value = outcome_of(inner.present(ran.answer, 0))
                own, twice = ran.hits > 0, value in _TOLD_TWICE and not isinstance(call, RunAlgorithm)
                hit = {name: aim.hits(value, own=own, twice=twice) for name, aim in aims.items()}
                # Only the value is published: a target that missed has not paid for anything else in the answer.
                outcome: Json = {"value": value}
            except AlgorithmFailed:
                outcome, hit = {"failed": True}, dict.fromkeys(aims, True)
            raised = {name: prices[name].hit.main for name, hits in hit.items() if hits and counts(prices)}
            return outcome | {"raised": raised}, hit

        def tell(answer: Json, number: int) -> Any:
            told = answer.get("answer", answer)  # older ledgers hold the whole answer of the call
            if "failed" in told:
                raise AlgorithmFailed(
                    "what was raced raised, or returned no finite JSON value, or a condition on it raised"
                )
            found = told["value"] if "answer" not in answer else outcome_of(inner.present(told, number))
            return with_bytes(found)

        def forecast() -> Forecast:
            told = inner.forecast()
            return Forecast(told.error_bar, decides=True, step=told.step, wrong=told.wrong)

        told = {name: aim.told for name, aim in aims.items()}
        body = {"asked": {"kind": inner.kind} | json.loads(inner.body), "targets": told}
        run, present = self._counting(prices, judge, tell)
        cost = Counted(_dearest(prices))
        return self._plan(ASK, body, inner.event, run, present, reads=inner.reads, cost=cost, forecast=forecast)

    def _counting(
        self, prices: Mapping[str, Price], judge: Callable[[Data], Judged], tell: Callable[[Json, int], Any]
    ) -> tuple[Callable[[Data], Result], Callable[[Json, int], answers.RaceOutcome]]:
        """The functions `run` and `present` of a question, from the cost of a hit of each target.

        A hit raises the target's counter by its cost, and the rise of the smallest counter is charged. Where a target
        has no cost per hit, the call is paid in full and no counter changes: otherwise later hits would be free. The
        counters follow from what was published. They are stored as state, so that no two calls made at the same time
        count from the same ones.
        """

        def run(data: Data) -> Result:
            outcome, hit = judge(data)
            names = [name for name in prices if hit[name]]
            before = dict(zip(prices, json.loads(data.secret or b"[]"), strict=True))
            full = None if counts(prices) else data.price.hit.main
            after, charged = risen(before, {name: prices[name].hit.main for name in names}, full)
            answer = outcome | {"hits": names, "charged": charged}
            kept: dict[int, bytes | None] = {self.call: _kept(list(after.values()))}
            return Result(answer, hits=int(len(names) == len(prices)), tests=1, secrets=kept)

        def present(answer: Json, number: int) -> answers.RaceOutcome:
            return answers.RaceOutcome(number, tell(answer, number), tuple(answer["hits"]), bool(answer["charged"]))

        return run, present
