"""Runs of Gaussian noise: above threshold, stopping rules, and self-reporting."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, Final, Literal

from chary import errors
from chary.accounting import events, gaussian_runs, gaussian_selection
from chary.amounts import Amount
from chary.answers import Answer, Key, scalar
from chary.calls.answers import Hits
from chary.calls.call import call
from chary.calls.fields import Exact, Flag, Positive, Whole
from chary.calls.run import AskedKind, KeyedRun, Opening, opening
from chary.calls.thresholds import Tested
from chary.core.plan import FREE, AnswerT, AsReported, Cost, Data, Json, PerHit, Plan, Prepaid, Result, reading
from chary.core.transaction import ATTEMPTS, Spine
from chary.data import NeighborRelation, Neighbors, Query, Series, ValueAt, Values
from chary.filters import Filter, Price, PureFilter, RenyiFilter
from chary.mechanisms import additive, threshold_tests
from chary.noise import Source
from chary.noise.gaussian import Deviate, deviate
from chary.numbers import Number, failing, plain

# A run of threshold tests: its public terms, its secret state, and the privacy loss of each of its answers.

# Losses of this many steps are computed at once, and of twice as many whenever they run out.
FIRST_STEPS = 64
KEPT_LOSSES = 64
FORGOTTEN = Deviate(0, 0)


@dataclass(frozen=True)
class RunTerms:
    """The public terms of a run, all in the units of its queries; values are clipped to [low, high].

    `sensitivity=None` takes the largest of the queries that were asked. The threshold may lie outside of the bounds. A
    run ends after `hits` hits; `monotone` means that adding a unit moves no query down.
    """

    mechanism: threshold_tests.GaussianThreshold
    low: Fraction
    high: Fraction
    sensitivity: Fraction | None = None
    hits: int = 1
    monotone: bool = False

    def check(self) -> None:
        """Refuse terms for which no loss can be computed: noise a million times smaller than the distances."""
        gaussian_selection.halted_epsilon_up(1, **_priced(self.mechanism, self.low, self.high, self.high - self.low))

    @property
    def clipped_to(self) -> tuple[float, float]:
        """The bounds, as they are reported."""
        return float(self.low), float(self.high)

    def clipped(self, value: Fraction) -> Fraction:
        """Within the bounds."""
        return min(max(value, self.low), self.high)

    @property
    def noise(self) -> gaussian_runs.RunNoise:
        """The noise, from which the log-moments of a run with a declared sensitivity follow."""
        own, other = self.mechanism.scales
        moved = min(self.sensitivity or Fraction(0), self.high - self.low)
        above_low = Fraction(self.mechanism.threshold) - self.low
        return gaussian_runs.RunNoise(moved, own, other, above_low, self.hits, self.monotone)

    def allowed(self, query: Query, neighbor_relation: NeighborRelation) -> Fraction:
        """The sensitivity that this query is charged for; `InvalidQuery` if the run was opened for a smaller one."""
        sensitivity = query.sensitivity(neighbor_relation) * query.grid
        if self.monotone and query.contribution(neighbor_relation).low < 0:
            raise errors.InvalidQuery(
                "this query may move down when a unit is added, so it is not monotone: give it bounds from 0 on, or "
                "open the run with monotone=False"
            )
        if self.sensitivity is None:
            return sensitivity
        if sensitivity > self.sensitivity:
            raise errors.InvalidQuery(f"this run is for queries of sensitivity {plain(self.sensitivity)} at most")
        return self.sensitivity

    def losses(self, sensitivity: Fraction, steps: int) -> gaussian_runs.Losses:
        """The losses of at least this many steps, computed for twice as many whenever they run out."""
        known = self._known.get(sensitivity)
        if known is None or known.halted.size < steps:
            most = max(FIRST_STEPS, 1 << (steps - 1).bit_length())
            moved = min(sensitivity, self.high - self.low)
            known = _losses(self.mechanism, self.low, self.high, moved, most)
            self._known[sensitivity] = known
        return known

    @cached_property
    def _known(self) -> dict[Fraction, gaussian_runs.Losses]:
        return {}

    @property
    def state(self) -> "type[RunState]":
        """The class of the secret state of a run with these terms."""
        return RunState if self.hits == 1 else SeveralHitsState


@lru_cache(maxsize=KEPT_LOSSES)
def _losses(
    mechanism: threshold_tests.GaussianThreshold, low: Fraction, high: Fraction, sensitivity: Fraction, most: int
) -> gaussian_runs.Losses:
    return gaussian_runs.Losses(
        *gaussian_selection.above_threshold_epsilons_up(most, **_priced(mechanism, low, high, sensitivity))
    )


def _priced(
    mechanism: threshold_tests.GaussianThreshold, low: Fraction, high: Fraction, sensitivity: Fraction
) -> dict[str, Fraction]:
    own, other = mechanism.scales
    noises = {"threshold_noise": own, "query_noise": other, "threshold": Fraction(mechanism.threshold)}
    return noises | {"low": low, "high": high, "sensitivity": sensitivity}


@dataclass(frozen=True, repr=False)
class RunState(additive.SecretState):
    """How far a run is. The noise of its threshold (`held`, forgotten once it halted) is secret, the rest is public.

    `charged` is the loss that was charged so far, `sensitivity` the largest of the queries so far.
    """

    held: Deviate
    steps: int = 0
    charged: float = 0.0
    sensitivity: Fraction = Fraction(0)
    halted: bool = False
    secret = ("held",)

    @property
    def hits(self) -> int:
        """How many of the queries were above."""
        return int(self.halted)

    def increment(self, loss: float) -> Fraction:
        """The part of this loss that was not charged yet; 0 if more was charged before."""
        return max(Fraction(0), Fraction(loss) - Fraction(self.charged))

    def dump(self) -> bytes:
        return super(RunState, replace(self, held=FORGOTTEN) if self.halted else self).dump()


@dataclass(frozen=True, repr=False)
class SeveralHitsState(RunState):
    """The state of a run of several hits. The loss of its answers is not known, so nothing is `charged` for it."""

    hits: int = 0


# The steps of a run of threshold tests with Gaussian noise, one query or one group after another.


@dataclass(frozen=True)
class FirstAbove(Hits):
    """The first of the groups whose noisy value was at or above the run's noisy threshold, if any (`key` is None).

    Values were clipped to `clipped_to` before. The first `tested` groups were tested; if none was above and some are
    `untested`, the budget could not pay for more.
    """

    key: Key | None
    tested: int
    clipped_to: tuple[float, float]
    also = "clipped_to"

    @property
    def value(self) -> Any:
        """The group, or None; one of one column is a scalar."""
        return None if self.key is None else scalar(self.key)

    @property
    def interval_says(self) -> str:
        return "no interval: the answer says which groups are above, not their values"

    @property
    def hit(self) -> bool:
        return self.key is not None

    @property
    def hits(self) -> int:
        return int(self.hit)

    def cells(self, position: int) -> dict[str, Any]:
        return {"hit": self.keys[position] == self.key if position < self.tested else None}


class Moved(errors.LedgerLocked):
    """Another test of the run was settled since its state was looked at."""


@dataclass(frozen=True)
class StepsAsked:
    """The next steps of a run from a state, at most `limit`: their losses, and the state after them.

    `sensitivity` is the largest of the run's queries with this one.
    """

    terms: RunTerms
    state: RunState = field(repr=False)
    sensitivity: Fraction
    limit: int

    @cached_property
    def losses(self) -> gaussian_runs.Losses:
        """The losses of all steps up to the last of these."""
        return self.terms.losses(self.sensitivity, self.state.steps + self.limit)

    @property
    def event(self) -> events.ExPost:
        """The largest loss of any outcome, less what the run was charged before."""
        first = self.state.steps + 1
        return events.ExPost(self.state.increment(self.losses.worst(first, first + self.limit - 1)))

    def run(self, values: Iterable[Fraction], source: Source) -> tuple[RunState, int]:
        """The state after the first True, or after all of them; and how many were tested."""
        held, above, tested = self.state.held, False, 0
        for value in values:
            above, held = self.terms.mechanism.step(self.terms.clipped(value), held, source)
            tested += 1
            if above:
                break
        return replace(self.after(tested, above), held=held), tested

    def after(self, tested: int, above: bool) -> RunState:
        """The state after this many tests, the last of which was above or not."""
        now, hits = self.state, self.state.hits + int(above)
        steps, halted = now.steps + tested, hits == self.terms.hits
        moved = replace(now, steps=steps, sensitivity=self.sensitivity, halted=halted)
        if isinstance(moved, SeveralHitsState):
            return replace(moved, hits=hits)
        return replace(moved, charged=max(now.charged, self.losses.of(steps, halted=above)))


def _again(ask: Callable[[], AnswerT]) -> AnswerT:
    """Ask until no other test comes first, a few times."""
    for _ in range(ATTEMPTS - 1):
        with suppress(Moved):
            return ask()
    return ask()


def _tested(query: Any) -> Query:
    if not isinstance(query, Query):
        raise errors.InvalidQuery("a run tests counts, sums and series, with groups or without")
    return query


def _one(answer: Json, number: int) -> Tested:
    return Tested(number, bool(answer["above"]))


# The tests of runs that restart themselves: their state, their answers, and what each batch of tests is charged.


@dataclass(frozen=True)
class AllAbove(Hits):
    """The groups whose noisy values were at or above the runs' noisy thresholds; a new run began after each of them.

    Values were clipped to `clipped_to` before. The first `tested` groups were tested; if some are `untested`, the total
    of the runs could not pay for the next.
    """

    above: tuple[Key, ...]
    tested: int
    clipped_to: tuple[float, float]
    also = "clipped_to"

    @property
    def value(self) -> tuple[Any, ...]:
        """The groups that were above, in order; one of one column is a scalar."""
        return tuple(scalar(key) for key in self.above)

    @property
    def interval_says(self) -> str:
        return "no interval: the answer says which groups are above, not their values"

    def cells(self, position: int) -> dict[str, Any]:
        return {"hit": self.keys[position] in self.above if position < self.tested else None}


@dataclass(frozen=True, repr=False)
class ReportingProgress(additive.SecretState):
    """How far the runs are. The noise of the present threshold (`held`) is secret, the rest is public.

    `spent`, `halted` and `steps` are what was reported. `tested` values were tested in all, `day` is the first position
    of a series after those that were, and `charged` is what was charged for the losses so far.
    """

    held: Deviate
    spent: Fraction = Fraction(0)
    halted: int = 0
    steps: int = 0
    tested: int = 0
    day: int = 0
    charged: Fraction = Fraction(0)
    secret = ("held",)

    @property
    def told(self) -> gaussian_runs.Reported:
        """The public part: the losses and hits that were reported."""
        return gaussian_runs.Reported(self.spent, self.halted, self.steps)

    @property
    def runs(self) -> threshold_tests.RunsState:
        """The state of the mechanism."""
        return threshold_tests.RunsState(self.held, self.told)

    def after(
        self, found: threshold_tests.Scanned, machine: threshold_tests.RestartingThreshold, first: int
    ) -> "ReportingProgress":
        """The state once so much was found, from the position `first` of a series on."""
        told = found.state.told
        lost = told.loss(machine.losses(max(told.steps, 1)))
        tested, day = self.tested + found.tested, max(self.day, first + found.tested)
        charged = max(self.charged, lost)
        return ReportingProgress(found.state.held, told.spent, told.halted, told.steps, tested, day, charged)


def _first(query: Query) -> int:
    """The first position that a query on a series asks; far below all positions for any other query."""
    if isinstance(query, ValueAt):
        return query.position
    return query.start if isinstance(query, Values) else -(2**62)


# The rules by which runs that restart themselves stop: their names, and the rules themselves.

Stop = Literal["pure", "renyi", "self-reporting", "whitehouse"]


def check_terms(stop: Stop, delta: Fraction, runs: int | None) -> None:
    """Refuse a delta for the pure rule, a missing one for others, and `runs` for any rule but self-reporting."""
    if (stop == "pure") != (delta == 0):
        raise errors.InvalidParameter('the pure rule has no delta, every other one needs it: stop="renyi", delta=1e-6')
    if (stop == "self-reporting") != (runs is not None):
        raise errors.InvalidParameter("runs= says into how many parts delta is split, for stop='self-reporting' alone")


@lru_cache(maxsize=64)
def rule_of(
    stop: Stop, epsilon: Fraction, delta: Fraction, runs: int | None, noise: gaussian_runs.RunNoise
) -> gaussian_runs.StoppingRule:
    """The rule; `InvalidParameter` for noise too small for a run without a largest number of tests."""
    if stop == "pure":
        return gaussian_runs.PureStopping(epsilon)
    terms: dict[str, Any] = {
        "sensitivity": noise.sensitivity,
        "threshold_noise": noise.threshold_noise,
        "query_noise": noise.query_noise,
        "threshold": noise.above_low,
    }
    if stop == "renyi":
        return gaussian_runs.CountedRuns(gaussian_runs.runs_within(epsilon, delta, **terms))
    if stop == "whitehouse":
        return gaussian_runs.CountedRuns(_filtered(epsilon, delta, terms))
    most = runs or 1
    return gaussian_runs.SelfReportingStopping(
        epsilon, Fraction(gaussian_runs.run_pdp_epsilon_up(**terms, delta=delta / most)), most
    )


def _filtered(epsilon: Fraction, delta: Fraction, terms: dict[str, Number]) -> int:
    """Half of delta is for the composition, the other half is split evenly among as many runs as fit."""
    rule, found = gaussian_runs.WhitehouseFilter(epsilon, delta / 2, delta / 2), 0
    while True:
        single = delta / 2 / (found + 1)
        if rule.times(_single(terms, single), single) <= found:
            return found
        found += 1


def _single(terms: dict[str, Number], delta: Fraction) -> Fraction:
    """The epsilon of a run of values from 0 on, by Zhu and Wang's bound with the moment itself, where that holds."""
    try:
        # It is a bound up to float rounding, of some 1e-12.
        return Fraction(gaussian_selection.nonnegative_epsilon(**terms, delta=delta) * (1 + 1e-9))
    except errors.InvalidParameter:
        return Fraction(gaussian_runs.run_pdp_epsilon_up(**terms, delta=delta))


# Runs of threshold tests with Gaussian noise that restart themselves after each hit, under one total.


@dataclass(frozen=True)
class ReportingState:
    """What is public of runs that restart themselves.

    `tested` values were tested, of which `hits` were above; the present run made `steps` of the tests. The answers are
    at most e^loss times as likely under a neighbour. `day` is the first position of a series that was not asked yet.
    Values are clipped to `clipped_to`. `told` is "running" or "stopped: the total cannot pay for another test".
    """

    tested: int
    hits: int
    steps: int
    loss: float
    day: int
    clipped_to: tuple[float, float]
    told: str


@call("self_reporting", subject="gaussian", tells="above")
class SelfReporting(Opening[KeyedRun[Tested, AllAbove, ReportingState]]):
    """Open a run of tests of any number of values, `run.ask(query)`. After each value that is above, the next run
    begins at once.

    The groups of a grouped query are tested in turn, in one scan. The number of tests, of runs and of hits is open. The
    runs stop where the loss of all answers together could come to exceed `epsilon`, whichever way the next test ends.

    All numbers are in the units of the queries, whose values are clipped to [low, high]; the threshold may lie
    outside. It gets new Gaussian noise for each run, each value its own: `query_noise` is sqrt(3) times
    `threshold_noise` unless given. `sensitivity` is the most that a query may have. Where the session follows the runs
    (`start(..., follow=True)`), the days of a series are tested as they come, each once.

    Guarantee: epsilon-DP, delta 0, for all tests, adaptively chosen. The whole is charged when it opens. Under the pure
    filter opening is free and each answer costs the loss it reports. There, runs also stop where the session cannot pay
    the next test ([GAUSS] Algorithm 4 with a pure rule; docs/theory/thresholds.md).

    With a `delta` other rules `stop` them. "renyi" stops after as many hits as runs are (epsilon, delta)-DP together,
    whatever their lengths. The published rules are "self-reporting", which splits delta into parts for the number of
    `runs`, and "whitehouse". Then it is (epsilon, delta)-DP. The cheaper of two ways is charged: that many runs at the
    order of a Renyi filter (`ThresholdRun`), without any delta; or epsilon and delta, in a session with
    `delta_reserve`.

    Errors: `InvalidParameter` for bounds in the wrong order, or noise for which no test fits; `NotPriced` for a delta
    that was not set aside where runs have no cost.

    >>> import chary, pyarrow as pa
    >>> rides = pa.table({"rides": [120, 880, 130, 90, 910, 870, 100] * 3})
    >>> session = chary.open_counts(
    ...     rides, column="rides", sensitivity=1, budget=chary.Budget(epsilon=9), ledger=":memory:"
    ... )
    >>> run = session.start(
    ...     SelfReporting(epsilon=9, threshold=500, threshold_noise=30, low=0, high=1000, sensitivity=1)
    ... )
    >>> run.ask(session.series()).value[:4], run.ask(session.series().at(4)).value
    ((1, 4, 5, 8), True)
    """

    _: KW_ONLY
    epsilon: Positive
    threshold: Exact
    threshold_noise: Positive
    low: Exact
    high: Exact
    sensitivity: Positive
    query_noise: Positive | None = None
    stop: Stop = "pure"
    delta: Exact = 0
    runs: Whole | None = None

    def __post_init__(self) -> None:
        check_terms(self.stop, failing(self.delta), self.runs)
        if Fraction(self.low) >= Fraction(self.high):
            raise errors.InvalidParameter("low must be less than high: values are clipped to [low, high]")

    @cached_property
    def terms(self) -> RunTerms:
        """The terms that determine what the tests are charged."""
        mechanism = threshold_tests.GaussianThreshold(self.threshold, self.threshold_noise, self.query_noise)
        return RunTerms(mechanism, Fraction(self.low), Fraction(self.high), Fraction(self.sensitivity))

    @cached_property
    def machine(self) -> threshold_tests.RestartingThreshold:
        """The runs as they are made; without a session, `machine.scan(values, machine.start(source), source)`."""
        losses = partial(self.terms.losses, Fraction(self.sensitivity))
        rule = rule_of(self.stop, Fraction(self.epsilon), Fraction(self.delta), self.runs, self.terms.noise)
        return threshold_tests.RestartingThreshold(self.terms.mechanism, rule, losses)

    def _charged(self) -> tuple[events.Event, Cost]:
        """The event and the cost of the opening: epsilon and delta, or the moments of as many runs as may start."""
        rule = self.machine.rule
        if not isinstance(rule, gaussian_runs.CountedRuns | gaussian_runs.SelfReportingStopping):
            return events.Pure(self.epsilon), PerHit(adds_up=False)
        whole = events.Approximate(self.epsilon, self.delta)
        runs = events.Repeated(gaussian_runs.ThresholdRun(self.terms.noise), rule.runs)
        return whole, PerHit(adds_up=False, bounds=(runs, whole))

    def plan(self, spine: Spine) -> Plan[Any]:
        self.terms.check()
        if not self.machine.admits(gaussian_runs.NOTHING_TOLD):
            raise errors.InvalidParameter(
                "no test fits into epsilon: give more noise, closer bounds or a larger epsilon"
            )
        event, cost = self._charged()
        if pays_as_told(self, spine.filter):
            cost = Prepaid(adds_up=False)
        return opening(
            self, spine, event, lambda data: ReportingProgress(self.machine.start(data.source).held).dump(), cost=cost
        )


class SelfReportingRun(KeyedRun[Tested, AllAbove, ReportingState]):
    """`run.ask(query)`: is the value, clipped and noisy, at or above the noisy threshold? A new run follows a True.

    Errors: `BudgetExceeded` when the runs stopped, with nothing touched; `InvalidQuery` for a mean, or a query of a
    larger sensitivity than the runs were opened for.
    """

    kind = SelfReporting.kind
    names = "self_reporting"
    keeps = "threshold"
    questions = (AskedKind("self_reporting_test"),)

    @cached_property
    def started(self) -> SelfReporting:
        """The call that opened the runs."""
        return SelfReporting(**self._terms)

    def plan(self, query: Any) -> Plan[Any]:
        """One test, or one for each group in turn, with a new run after each that is above.

        Guarantee: that of the opening, which holds whatever is asked. Where the opening was charged whole, this is
        free. Otherwise the most that these tests can add to the loss of all answers so far is reserved; for several,
        all that is left of the total. What they added is charged. The transaction discards an outcome on a state that
        moved meanwhile, unseen.
        """
        asked, terms, filter_ = _tested(query), self.started.terms, self._spine.filter
        terms.allowed(asked, self._spine.rows.neighbor_relation)
        now, keys = self._progress(), None if asked.keys is None else tuple(asked.keys)
        total = self._total(now)
        machine = self._machine(total)
        alone = keys is None or len(keys) == 1
        # The largest loss of all answers after these tests.
        worst = now.told.worst(machine.losses(now.told.steps + 1)) if alone else total

        def check(held: bytes) -> None:
            if ReportingProgress.load(held) != now:
                raise Moved(f"another test of run {self.call} came first: ask again")
            if not machine.admits(now.told):
                raise errors.BudgetExceeded(
                    f"the runs of call {self.call} stopped: their total cannot pay for another test; others are "
                    "opened, and charged, by session.start(SelfReporting(...))"
                )

        def run(data: Data) -> Result:
            values = [terms.clipped(value * asked.grid) for value in data.integers().tolist()]
            found = machine.scan(values, now.runs, data.source)
            after = now.after(found, machine, _first(asked))
            answer = {"above": list(found.above), "tested": found.tested, "lost": str(after.charged)}
            return Result(answer, hits=len(found.above), tests=found.tested, secrets={self.call: after.dump()})

        def charged(price: Price, result: Result) -> Amount:
            return filter_.price(events.ExPost(Fraction(result.answer["lost"]) - now.charged)).hit

        def table(answer: Json, number: int) -> AllAbove:
            above = tuple((keys or ())[position] for position in answer["above"])
            return AllAbove(number, asked.columns, keys or (), above, answer["tested"], terms.clipped_to)

        return self._plan(
            "self_reporting_test",
            {"query": asked.body()},
            events.ExPost(max(Fraction(0), worst - now.charged)),
            run,
            _one if keys is None else table,
            reads=reading(asked),
            # Where the opening was charged whole, the losses that answers report need no cost.
            cost=AsReported(of=charged) if pays_as_told(self.started, filter_) else PerHit(adds_up=False, agreed=FREE),
            check=check,
        )

    def _ask(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> Any:
        return _again(partial(super()._ask, asked, options, request))

    def _follow(self) -> Answer | None:
        """Test the days of a series that were not tested yet; None where there are none, or the runs stopped."""
        rows, now = self._spine.rows, self._progress()
        if not isinstance(rows, Series):
            return super()._follow()  # type: ignore[return-value]
        if rows.series().length <= now.day:
            return None
        try:
            told: Answer = self._ask((rows.series().since(now.day),), {}, None)
            return told
        except errors.BudgetExceeded:
            if self._machine(self._total(now)).admits(now.told):
                raise
            return None

    @property
    def state(self) -> ReportingState:
        now, opened = self._progress(), self.started
        machine, told = self._machine(self._total(now)), now.told
        loss = told.loss(machine.losses(max(told.steps, 1)))
        words = "running" if machine.admits(told) else "stopped: the total cannot pay for another test"
        clipped_to = opened.terms.clipped_to
        return ReportingState(now.tested, told.halted, told.steps, float(loss), now.day, clipped_to, words)

    def _total(self, now: ReportingProgress) -> Fraction:
        """The largest loss that all answers may have: epsilon, or less if the session can only pay less."""
        total, filter_ = Fraction(self.started.epsilon), self._spine.filter
        if not pays_as_told(self.started, filter_):
            return total
        return min(total, now.charged + Fraction(max(self._spine.left().main, 0), filter_.steps))

    def _machine(self, total: Fraction) -> threshold_tests.RestartingThreshold:
        """The runs, which stop within this total."""
        machine = self.started.machine
        return replace(machine, rule=gaussian_runs.PureStopping(total)) if self.started.stop == "pure" else machine

    def _progress(self) -> ReportingProgress:
        return ReportingProgress.load(self._secret())


def pays_as_told(opened: SelfReporting, filter_: Filter) -> bool:
    """Whether answers are charged the losses they report, which is cheapest under the pure filter and rule."""
    return opened.stop == "pure" and isinstance(filter_, PureFilter)


# A run of threshold tests with Gaussian noise: paid by what came out, to the first True or the end of the budget.

Charged = Literal["losses", "hits"]
# By default hits are charged if that is cheaper for a run that halts at this test: most runs make more tests.
USUAL_TESTS: Final = 10
# Values that the stored body of an opening leaves out.
_UNSAID: Final = {("charged", "losses"), ("hits", 1), ("monotone", False)}


@dataclass(frozen=True)
class ThresholdState:
    """What is public of a run: how many values were tested, and what their answers lost.

    Its answers so far are at most e^loss times as likely under a neighbour: so much it was charged, unless hits are.
    `next_loss` is the most that the next step can add, which is what it reserves; 0 when the run halted. Both are None
    for a run of several hits, of which `hits_left` are left. Where the run has no `sensitivity` of its own, a query
    like those before it is assumed, and 0 if there was none. Values are clipped to `clipped_to`. `told` is "running",
    "halted at step t", or "stopped: the budget cannot pay for step t", as of now.
    """

    steps: int
    loss: float | None
    next_loss: float | None
    clipped_to: tuple[float, float]
    told: str
    hits_left: int


@call("above_threshold", subject="gaussian", tells="above")
class GaussianAboveThreshold(Opening[KeyedRun[Tested, FirstAbove, ThresholdState]]):
    """Open a run of any number of adaptive tests, `run.ask(query)`. It ends with the first True, or the last of `hits`
    hits.

    The groups of a grouped query are tested in turn, in one scan, until one is above or the budget cannot pay for the
    next one. Each tested group is a step. Where hits are left, ask again for the groups that are `untested`.

    All numbers are in the units of the queries, whose values are clipped to [low, high]; the threshold may lie
    outside. It gets Gaussian noise once, each value anew: `query_noise` is sqrt(3) times `threshold_noise` unless
    given. `sensitivity` is the most that a query may have; without it, the largest one that was asked counts.

    Guarantee: before each step the loss of either outcome is known. The larger is reserved, less what the run was
    charged, and the loss of what came out is charged (`ExPost`). A step that does not fit is refused untouched. So
    under the pure filter every transcript has at most the budget's loss: pure DP, and delta 0. Opening is free, and so
    is leaving.

    In a session with a delta losses cost much more than in a pure one. There a run of a declared `sensitivity` is
    `charged` by "hits" where that is cheaper. It then costs a little when it opens and its one True when it comes, and
    nothing for any number of Falses (`RunOpening`, `RunHit`; docs/theory/thresholds.md). "losses" charges as above.

    Several `hits` are found against one threshold, whose noise is not drawn again (Gaussian sparse vector, Zhu and Wang
    2020). Such a run is charged by hits, each when it comes. `monotone` says that adding a unit moves no query down,
    which halves what its hits may move: counts and sums of values from 0 on under add/remove; others are refused.

    Errors: `InvalidParameter` for bounds in the wrong order, and several hits that are not charged by hits. `NotPriced`
    under the exact filter, which has no tokens for ex-post losses, and for several hits under the pure one."""

    _: KW_ONLY
    threshold: Exact
    threshold_noise: Positive
    low: Exact
    high: Exact
    query_noise: Positive | None = None
    sensitivity: Positive | None = None
    charged: Charged | None = None
    hits: Whole = 1
    monotone: Flag = False

    def __post_init__(self) -> None:
        if self.charged == "losses" and (self.hits > 1 or self.monotone):
            raise errors.InvalidParameter("a run of several hits, or monotone, is charged by hits: leave charged= out")
        if (self.charged == "hits" or self.hits > 1 or self.monotone) and self.sensitivity is None:
            raise errors.InvalidParameter("a run that is charged by hits is opened for queries of some sensitivity=")
        if Fraction(self.low) >= Fraction(self.high):
            raise errors.InvalidParameter("low must be less than high: values are clipped to [low, high]")

    @cached_property
    def terms(self) -> RunTerms:
        """What its steps are charged by."""
        sensitivity = None if self.sensitivity is None else Fraction(self.sensitivity)
        mechanism = threshold_tests.GaussianThreshold(self.threshold, self.threshold_noise, self.query_noise)
        return RunTerms(mechanism, Fraction(self.low), Fraction(self.high), sensitivity, self.hits, self.monotone)

    def perform(self, spine: Spine, request: str | None = None) -> KeyedRun[Tested, FirstAbove, ThresholdState]:
        """Open the run. A request without `charged` also finds an earlier opening that is charged by losses."""
        try:
            return super().perform(spine, request)
        except errors.RequestConflict:
            if self.charged is not None or self._by_hits_alone:
                raise
            return replace(self, charged="losses").perform(spine, request)

    def question_body(self) -> Json:
        sensitivity = None if self.sensitivity is None else str(self.sensitivity)
        found = super().question_body() | {
            "query_noise": str(self.terms.mechanism.scales[1]),
            "sensitivity": sensitivity,
        }
        # A body without `charged` is that of a run charged by losses, as all were once.
        return {name: said for name, said in found.items() if (name, said) not in _UNSAID}

    def plan(self, spine: Spine) -> Plan[Any]:
        """The opening draws the noise of the threshold, which is secret state from then on. Nothing is read. Only a run
        that is charged by hits is charged for its opening.

        A filter without a cost for later steps refuses here: the exact one for ex-post losses, the pure one for hits.
        """
        if self.monotone and spine.rows.neighbor_relation.neighbors is not Neighbors.ADD_REMOVE:
            raise errors.InvalidParameter("queries are monotone under add/remove only: leave monotone= out")
        said = replace(self, charged=self.charged or self._cheaper(spine.filter))
        self.terms.check()
        event = gaussian_runs.RunOpening(self.terms.noise) if said.charged == "hits" else events.ExPost(0)
        return opening(said, spine, event, lambda data: self.terms.state(deviate(data.source)).dump())

    @property
    def _by_hits_alone(self) -> bool:
        """Whether the losses of its answers are not known, so that only hits can be charged."""
        return self.hits > 1 or self.monotone

    def _cheaper(self, filter_: Filter) -> Charged:
        """By hits, where a run with a sensitivity that halts at its tenth test costs less so; otherwise by losses."""
        if self._by_hits_alone:
            return "hits"
        if self.sensitivity is None or not isinstance(filter_, RenyiFilter):
            return "losses"
        found = self.terms.noise.moments_up(filter_.order)
        lost = self.terms.losses(Fraction(self.sensitivity), USUAL_TESTS).of(USUAL_TESTS, halted=True)
        return "losses" if found is None or found.opening + found.hit > (filter_.order - 1) * lost else "hits"


class AboveThresholdRun(KeyedRun[Tested, FirstAbove, ThresholdState]):
    """`run.ask(query)`: is the value, clipped and noisy, at or above the noisy threshold? The last hit ends the run.

    Errors: `BudgetExceeded` if the budget cannot pay for either outcome, with nothing touched. `NotWithheld` when the
    run halted. `InvalidQuery` for a mean, or a query of a larger sensitivity than the run was opened for.
    """

    kind = GaussianAboveThreshold.kind
    names = "above_threshold"
    keeps = "threshold"
    questions = (AskedKind("above_threshold_test"),)

    @cached_property
    def terms_of_run(self) -> RunTerms:
        """The terms with which the run was opened."""
        return GaussianAboveThreshold(**self._terms).terms

    @property
    def by_hits(self) -> bool:
        """Whether it is charged by hits."""
        return self._terms.get("charged") == "hits"

    def plan(self, query: Any) -> Plan[Any]:
        return self._steps(query)[0]

    def _steps(self, query: Any) -> tuple[Plan[Any], int]:
        """The plan of the next step, or of one for each group up to the first True; and the largest number of steps.

        Guarantee: the loss of all answers of the run together is at most what the run was charged, whatever came out.
        Reserved is the most that any outcome of these steps can have lost, less what the run was charged before;
        charged is the loss of the outcome, less the same. At most as many groups are tested as the budget can pay for.
        A run that is charged by hits is charged for a hit alone (`RunHit`). An outcome on a state that moved meanwhile
        is thrown away by the transaction, unseen.
        """
        asked, terms, now, filter_ = _tested(query), self.terms_of_run, self._progress(), self._spine.filter
        keys = None if asked.keys is None else tuple(asked.keys)
        # Refuses a query that the run was not opened for.
        own = terms.allowed(asked, self._spine.rows.neighbor_relation)
        steps = StepsAsked(terms, now, max(now.sensitivity, own), 1 if keys is None else len(keys))
        steps = steps if now.halted else self._affordable(steps)

        def check(held: bytes) -> None:
            found = terms.state.load(held)
            if found.halted:
                raise errors.NotWithheld(
                    f"run {self.call} halted at step {found.steps}; another is opened by "
                    "session.start(GaussianAboveThreshold(...))"
                )
            if found != now:
                raise Moved(f"another test of run {self.call} came first: ask again")

        def run(data: Data) -> Result:
            values = (value * asked.grid for value in data.integers()[: steps.limit].tolist())
            after, tested = steps.run(values, data.source)
            found = after.hits - now.hits
            answer = {"above": bool(found), "tested": tested, "step": after.steps}
            return Result(answer, hits=found, tests=tested, secrets={self.call: after.dump()})

        def charged(price: Price, result: Result) -> Amount:
            after = steps.after(result.tests, bool(result.hits))
            return filter_.price(events.ExPost(now.increment(after.charged))).hit

        def table(answer: Json, number: int) -> FirstAbove:
            tested, listed = answer["tested"], keys or ()
            found = listed[tested - 1] if answer["above"] else None
            return FirstAbove(number, asked.columns, listed, found, tested, terms.clipped_to)

        made = self._plan(
            "above_threshold_test",
            {"query": asked.body()},
            self._event(steps),
            run,
            _one if keys is None else table,
            reads=reading(asked),
            cost=PerHit(adds_up=False) if self.by_hits else AsReported(of=charged),
            check=check,
        )
        return made, steps.limit

    def _ask(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> Any:
        return _again(partial(self._asked, asked, options, request))

    @property
    def state(self) -> ThresholdState:
        now, terms = self._progress(), self.terms_of_run
        known = terms.hits == 1
        loss, following = (now.charged, float(self._next(now))) if known else (None, None)
        return ThresholdState(now.steps, loss, following, terms.clipped_to, self._told(now), terms.hits - now.hits)

    def _asked(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> Answer:
        made, limit = self._steps(*asked, **options)
        try:
            answer: Answer = self._spine.perform(made, request)
            return answer
        except errors.NotPriced:
            raise
        except errors.BudgetExceeded as error:
            if limit > 1:
                raise Moved("another call took the budget for these groups: ask again") from None
            told = f"{self._stopped(self._progress().steps + 1)}; {error}"
        raise errors.BudgetExceeded(told)

    def _event(self, steps: StepsAsked) -> events.Event:
        return gaussian_runs.RunHit(steps.terms.noise) if self.by_hits else steps.event

    def _affordable(self, steps: StepsAsked) -> StepsAsked:
        """The largest number of groups that can be paid for, at least one; the cost grows with their number."""
        if steps.limit == 1:
            return steps
        left, least, beyond = self._spine.left(), 1, steps.limit + 1
        while beyond - least > 1:
            middle = (least + beyond) // 2
            fits = self._spine.filter.price(self._event(replace(steps, limit=middle))).hit.fits_into(left)
            least, beyond = (middle, beyond) if fits else (least, middle)
        return replace(steps, limit=least)

    def _progress(self) -> RunState:
        return self.terms_of_run.state.load(self._secret())

    def _next(self, now: RunState) -> Fraction:
        terms, step = self.terms_of_run, now.steps + 1
        sensitivity = max(now.sensitivity, terms.sensitivity or Fraction(0))
        if now.halted or not sensitivity:
            return Fraction(0)
        return now.increment(terms.losses(sensitivity, step).worst(step, step))

    def _told(self, now: RunState) -> str:
        if now.halted:
            return f"halted at step {now.steps}"
        event = gaussian_runs.RunHit(self.terms_of_run.noise) if self.by_hits else events.ExPost(self._next(now))
        price = self._spine.filter.price(event).hit
        return "running" if price.fits_into(self._spine.left()) else self._stopped(now.steps + 1)

    def _stopped(self, step: int) -> str:
        return f"stopped: the budget cannot pay for step {step} of run {self.call}"
