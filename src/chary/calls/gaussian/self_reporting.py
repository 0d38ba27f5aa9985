"""Runs of threshold tests with Gaussian noise that restart themselves after each hit, under one total."""

from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

from chary.accounting import Approximate, Event, Pure
from chary.accounting.gaussian_runs import NOTHING_TOLD, PureStopping
from chary.answers import Answer
from chary.calls.call import call
from chary.calls.fields import Exact, Positive, Whole
from chary.calls.gaussian.gaussian_steps import Moved
from chary.calls.gaussian.run_state import RunTerms
from chary.calls.gaussian.self_reporting_steps import AllAbove, AskReporting, ReportingProgress, ScanReporting
from chary.calls.gaussian.stopping import Stop, check_terms, rule_of
from chary.calls.keyed_run import KeyedRun
from chary.calls.openings import BoundOpening
from chary.calls.run import Kept, Opening, keeps
from chary.calls.thresholds.testing import Tested
from chary.core.plan import FREE, Ran, Touched
from chary.core.transaction import ATTEMPTS, Spine
from chary.data import Query, Series
from chary.errors import BudgetRefused, InvalidParameter, InvalidQuery, UnknownHeld
from chary.filters import Filter, Price, PureFilter
from chary.mechanisms.gaussian import GaussianThreshold, RestartingThreshold
from chary.numbers import failing


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


@call("self_reporting", subject="gaussian")
class SelfReporting(Opening[KeyedRun[Tested, AllAbove, ReportingState]]):
    """Tests of any number of values, `run.ask(query)`: after each that is above the next run begins at once.

    Of a keyed query each key is tested in turn, in one scan. The number of tests, of runs and of hits is open: the runs
    stop where the loss of all answers together could come to exceed `epsilon`, whichever way the next test ends.

    All numbers are in the units of the queries, whose values are clipped to [low, high]; the threshold may lie
    outside. It gets new Gaussian noise for each run, each value its own: `query_noise` is sqrt(3) times
    `threshold_noise` unless given. `sensitivity` is the most that a query may have. Where the session follows the runs
    (`start(..., follow=True)`), the days of a series are tested as they come, each once.

    Guarantee: epsilon-DP, delta 0, for all tests, adaptively chosen. Charged whole when it opens; under the pure filter
    opening is free, each answer costs the loss it reports, and runs stop too where the session cannot pay the next test
    ([GAUSS] Algorithm 4 with a pure rule; docs/gaussian_selection.md).

    With a `delta` other rules `stop` them: "renyi", after as many hits as runs are (epsilon, delta)-DP together,
    whatever their lengths; and the published ones, "self-reporting", which splits delta into that of so many `runs`,
    and "whitehouse". Then it is (epsilon, delta)-DP, charged whole, in a session with `approximate_delta`.

    Errors: `InvalidParameter` for bounds in the wrong order, or noise for which no test fits; `NoPrice` for a delta
    that was not set aside.

    >>> import chary, pyarrow as pa
    >>> rides = pa.table({"rides": [120, 880, 130, 90, 910, 870, 100] * 3})
    >>> session = chary.open_series(
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
            raise InvalidParameter("low must be less than high: values are clipped to [low, high]")

    @cached_property
    def terms(self) -> RunTerms:
        """What the tests are priced by."""
        mechanism = GaussianThreshold(self.threshold, self.threshold_noise, self.query_noise)
        return RunTerms(mechanism, Fraction(self.low), Fraction(self.high), Fraction(self.sensitivity))

    @cached_property
    def machine(self) -> RestartingThreshold:
        """The runs as they are made; without a session, `machine.scan(values, machine.start(source), source)`."""
        losses = partial(self.terms.losses, Fraction(self.sensitivity))
        rule = rule_of(self.stop, Fraction(self.epsilon), Fraction(self.delta), self.runs, self.terms.noise)
        return RestartingThreshold(self.terms.mechanism, rule, losses)

    def bind(self, spine: Spine) -> "OpenReporting":
        return OpenReporting(self, spine.rows.neighbouring)


class OpenReporting(BoundOpening[SelfReporting]):
    """Draw the noise of a first threshold, which is secret state from then on. Nothing is read."""

    def __post_init__(self) -> None:
        self.call.terms.check()
        if not self.call.machine.admits(NOTHING_TOLD):
            raise InvalidParameter("no test fits into epsilon: give more noise, closer bounds or a larger epsilon")

    @property
    def event(self) -> Event:
        return Pure(self.call.epsilon) if self.call.stop == "pure" else Approximate(self.call.epsilon, self.call.delta)

    def price(self, filter_: Filter) -> Price:
        """Nothing where answers pay the losses they report."""
        price = super().price(filter_)
        return FREE if pays_as_told(self.call, filter_) else price

    def run(self, touched: Touched) -> Ran:
        return Ran({}, hits=0, tests=0, secret=ReportingProgress(self.call.machine.start(touched.source).held).dump())


@keeps
class KeptReporting(Kept[Any, ReportingState]):
    """`run.ask(query)`: is the value, clipped and noisy, at or above the noisy threshold? A new run follows a True.

    Errors: `BudgetRefused` when the runs stopped, with nothing touched; `InvalidQuery` for a mean, or a query of a
    larger sensitivity than the runs were opened for.
    """

    kind = SelfReporting.kind
    names = "self_reporting"

    @cached_property
    def started(self) -> SelfReporting:
        """The opening."""
        return SelfReporting(**self.terms)

    def opened(self) -> KeyedRun[Tested, AllAbove, ReportingState]:
        return KeyedRun(self)

    def question(self, query: Any) -> AskReporting:
        if not isinstance(query, Query):
            raise InvalidQuery("a run tests counts, totals and series, with keys or without")
        opened, spine = self.started, self.spine
        opened.terms.allowed(query.sensitivity(spine.rows.neighbouring) * query.grid)
        step = AskReporting if query.keys is None else ScanReporting
        now, as_told = self._now(), pays_as_told(opened, spine.filter)
        total = self._total(now)
        return step(self.number, opened.terms, self._machine(total), total, as_told, query, now, spine.filter)

    def ask(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> Answer:
        for _ in range(ATTEMPTS - 1):
            try:
                return super().ask(asked, options, request)  # type: ignore[no-any-return]
            except Moved:
                continue
        return super().ask(asked, options, request)  # type: ignore[no-any-return]

    def follow(self) -> Answer | None:
        """Test the days of a series that were not asked yet; None where there are none, or the runs stopped."""
        rows, now = self.spine.rows, self._now()
        if not isinstance(rows, Series):
            return super().follow()  # type: ignore[return-value]
        if rows.series().length <= now.day:
            return None
        try:
            return self.ask((rows.series().since(now.day),), {}, None)
        except BudgetRefused:
            if self._machine(self._total(now)).admits(now.told):
                raise
            return None

    @property
    def state(self) -> ReportingState:
        now, opened = self._now(), self.started
        machine, told = self._machine(self._total(now)), now.told
        loss = told.loss(machine.losses(max(told.steps, 1)))
        words = "running" if machine.admits(told) else "stopped: the total cannot pay for another test"
        clipped_to = opened.terms.clipped_to
        return ReportingState(now.tested, told.halted, told.steps, float(loss), now.day, clipped_to, words)

    def _total(self, now: ReportingProgress) -> Fraction:
        """The most that all answers may lose: epsilon, or less where the session cannot pay that any more."""
        total, filter_ = Fraction(self.started.epsilon), self.spine.filter
        if not pays_as_told(self.started, filter_):
            return total
        return min(total, now.charged + Fraction(max(self.spine.left().main, 0), filter_.steps))

    def _machine(self, total: Fraction) -> RestartingThreshold:
        """The runs, which stop within this total."""
        machine = self.started.machine
        return replace(machine, rule=PureStopping(total)) if self.started.stop == "pure" else machine

    def _now(self) -> ReportingProgress:
        secret = self.spine.ledger.secret(self.number)
        if secret is None:
            raise UnknownHeld(f"call {self.number} keeps no threshold: it was interrupted; open new runs")
        return ReportingProgress.load(secret)


def pays_as_told(opened: SelfReporting, filter_: Filter) -> bool:
    """Whether answers pay the losses they report: where losses and epsilons add up alike, nothing is cheaper."""
    return opened.stop == "pure" and isinstance(filter_, PureFilter)
