"""A run of threshold tests with Gaussian noise: paid by what came out, to the first True or the end of the budget."""

from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal

from chary.accounting import Event, ExPost
from chary.accounting.gaussian_runs import RunHit, RunOpening
from chary.answers import Answer
from chary.calls.call import call
from chary.calls.fields import Exact, Positive
from chary.calls.gaussian.gaussian_steps import AskAbove, FirstAbove, Moved, WatchAbove
from chary.calls.gaussian.run_state import RunState, RunTerms
from chary.calls.keyed_run import KeyedRun
from chary.calls.openings import BoundOpening
from chary.calls.run import Kept, Opening, keeps
from chary.calls.thresholds.testing import Tested
from chary.core.plan import Json, Ran, Touched
from chary.core.transaction import ATTEMPTS, Spine
from chary.data import Query
from chary.errors import BudgetRefused, InvalidParameter, InvalidQuery, NoPrice, RequestConflict, UnknownHeld
from chary.filters import Filter, RenyiFilter
from chary.mechanisms.gaussian import GaussianThreshold
from chary.noise.gaussian import deviate

Charged = Literal["losses", "hits"]
# Where a run that halts at this test is cheaper by its hit, hits are charged. Fewer tests are rarely what a run is for.
USUAL_TESTS: Final = 10


@dataclass(frozen=True)
class ThresholdState:
    """What is public of a run: how many values were tested, and what their answers lost.

    Its answers so far are at most e^loss times as likely under a neighbour: so much it was charged, unless hits are.
    `next_loss` is the most that the next step can add, which is what it reserves; 0 when the run halted. Where the run
    has no `sensitivity` of its own, a query like those before it is assumed, and 0 if there was none. Values are
    clipped to `clipped_to`. `told` is "running", "halted at step t", or "stopped: the budget cannot pay for step t", as
    of now.
    """

    steps: int
    loss: float
    next_loss: float
    clipped_to: tuple[float, float]
    told: str


@call("above_threshold", subject="gaussian")
class AboveThreshold(Opening[KeyedRun[Tested, FirstAbove, ThresholdState]]):
    """A run of tests, `run.ask(query)`, up to the first True; any number of them, adaptively chosen.

    Of a keyed query each key is tested in turn, in one scan, until one is above or the budget cannot pay for the next
    one; every key that was tested is a step.

    All numbers are in the units of the queries, whose values are clipped to [low, high]; the threshold may lie
    outside. It gets Gaussian noise once, each value anew: `query_noise` is sqrt(3) times `threshold_noise` unless
    given. `sensitivity` is the most that a query may have; without it, the largest one that was asked counts.

    Guarantee: before each step the loss of either outcome is known; the larger is reserved, less what the run was
    charged, and the loss of what came out is charged (`ExPost`). A step that does not fit is refused untouched. So
    under the pure filter every transcript has at most the budget's loss: pure DP, and delta 0. Opening is free, and
    so is leaving.

    Under a session with a delta losses cost much more than under a pure one. There a run of a declared `sensitivity`
    is `charged` by "hits" where that is cheaper: a little when it opens, its one True when it comes, and nothing for
    any number of Falses (`RunOpening`, `RunHit`; docs/theory.md). "losses" charges as above.

    Errors: `InvalidParameter` for bounds in the wrong order; `NoPrice` under the exact filter, which has no tokens for
    ex-post losses.
    """

    _: KW_ONLY
    threshold: Exact
    threshold_noise: Positive
    low: Exact
    high: Exact
    query_noise: Positive | None = None
    sensitivity: Positive | None = None
    charged: Charged | None = None

    def __post_init__(self) -> None:
        if self.charged == "hits" and self.sensitivity is None:
            raise InvalidParameter("a run that is charged by hits is opened for queries of some sensitivity=")
        if Fraction(self.low) >= Fraction(self.high):
            raise InvalidParameter("low must be less than high: values are clipped to [low, high]")

    @cached_property
    def terms(self) -> RunTerms:
        """What its steps are priced by."""
        sensitivity = None if self.sensitivity is None else Fraction(self.sensitivity)
        mechanism = GaussianThreshold(self.threshold, self.threshold_noise, self.query_noise)
        return RunTerms(mechanism, Fraction(self.low), Fraction(self.high), sensitivity)

    def perform(self, spine: Spine, request: str | None = None) -> KeyedRun[Tested, FirstAbove, ThresholdState]:
        """Open it; a request that does not say how it is charged finds one that was opened to be charged by losses."""
        try:
            return super().perform(spine, request)
        except RequestConflict:
            if self.charged is not None:
                raise
            return replace(self, charged="losses").perform(spine, request)

    def bind(self, spine: Spine) -> "OpenThreshold":
        charged = self.charged or self._cheaper(spine.filter)
        return OpenThreshold(replace(self, charged=charged), spine.rows.neighbouring)

    def _cheaper(self, filter_: Filter) -> Charged:
        """By hits, where a run that halts at its tenth test costs less so, and it was said what a query may move."""
        if self.sensitivity is None or not isinstance(filter_, RenyiFilter):
            return "losses"
        found = self.terms.noise.moments_up(filter_.order)
        lost = self.terms.losses(Fraction(self.sensitivity), USUAL_TESTS).of(USUAL_TESTS, halted=True)
        return "losses" if found is None or found.opening + found.hit > (filter_.order - 1) * lost else "hits"


class OpenThreshold(BoundOpening[AboveThreshold]):
    """Draw the noise of a threshold, which is secret state from then on. Nothing is read; charged is the opening of a
    run that is charged by hits.

    A filter that has no price for what comes refuses here: the exact one for ex-post losses, the pure one for hits.
    """

    def __post_init__(self) -> None:
        self.call.terms.check()

    @property
    def event(self) -> Event:
        return RunOpening(self.call.terms.noise) if self.call.charged == "hits" else ExPost(0)

    def body(self) -> Json:
        other, sensitivity = self.call.terms.mechanism.scales[1], self.call.sensitivity
        found = super().body() | {
            "query_noise": str(other),
            "sensitivity": None if sensitivity is None else str(sensitivity),
        }
        # A body that says nothing is of a run that is charged by losses, as all were once.
        return {name: said for name, said in found.items() if (name, said) != ("charged", "losses")}

    def run(self, touched: Touched) -> Ran:
        return Ran({}, hits=0, tests=0, secret=RunState(deviate(touched.source)).dump())


@keeps
class KeptThreshold(Kept[Any, ThresholdState]):
    """`run.ask(query)`: is the value, clipped and noisy, at or above the noisy threshold? True ends the run.

    Errors: `BudgetRefused` if the budget cannot pay for either outcome, with nothing touched; `UnknownHeld` when the
    run halted; `InvalidQuery` for a mean, or a query of a larger sensitivity than the run was opened for.
    """

    kind = AboveThreshold.kind
    names = "above_threshold"

    @cached_property
    def terms_of_run(self) -> RunTerms:
        """What the run was opened with."""
        return AboveThreshold(**self.terms).terms

    @property
    def by_hits(self) -> bool:
        """Whether it is charged by hits."""
        return self.terms.get("charged") == "hits"

    def opened(self) -> KeyedRun[Tested, FirstAbove, ThresholdState]:
        return KeyedRun(self)

    def question(self, query: Any) -> AskAbove:
        if not isinstance(query, Query):
            raise InvalidQuery("a run tests counts, totals and series, with keys or without")
        spine, terms, now = self.spine, self.terms_of_run, self._now()
        step, keys = (AskAbove, 1) if query.keys is None else (WatchAbove, len(query.keys))
        made = step(self.number, terms, query, spine.rows.neighbouring, now, spine.filter, keys, self.by_hits)
        return made if now.halted else self._affordable(made)

    def ask(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> Answer:
        for _ in range(ATTEMPTS - 1):
            try:
                return self._asked(asked, options, request)
            except Moved:
                continue
        return self._asked(asked, options, request)

    @property
    def state(self) -> ThresholdState:
        now, clipped_to = self._now(), self.terms_of_run.clipped_to
        return ThresholdState(now.steps, now.charged, float(self._next(now)), clipped_to, self._told(now))

    def _asked(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> Answer:
        made = self.question(*asked, **options)
        try:
            answer: Answer = self.spine.perform(made, request)
            return answer
        except NoPrice:
            raise
        except BudgetRefused as error:
            if made.limit > 1:
                raise Moved("another call took the room for these keys: ask again") from None
            told = f"{self._stopped(self._now().steps + 1)}; {error}"
        raise BudgetRefused(told)

    def _affordable(self, made: AskAbove) -> AskAbove:
        """As many keys as can be paid for, at least one: the price never falls with their number."""
        if made.limit == 1:
            return made
        left, least, beyond = self.spine.left(), 1, made.limit + 1
        while beyond - least > 1:
            middle = (least + beyond) // 2
            fits = self.spine.filter.price(replace(made, limit=middle).event).hit.fits_into(left)
            least, beyond = (middle, beyond) if fits else (least, middle)
        return replace(made, limit=least)

    def _now(self) -> RunState:
        secret = self.spine.ledger.secret(self.number)
        if secret is None:
            raise UnknownHeld(f"call {self.number} keeps no threshold: it was interrupted; open a new run")
        return RunState.load(secret)

    def _next(self, now: RunState) -> Fraction:
        terms, step = self.terms_of_run, now.steps + 1
        sensitivity = max(now.sensitivity, terms.sensitivity or Fraction(0))
        if now.halted or not sensitivity:
            return Fraction(0)
        return now.increment(terms.losses(sensitivity, step).worst(step, step))

    def _told(self, now: RunState) -> str:
        if now.halted:
            return f"halted at step {now.steps}"
        event = RunHit(self.terms_of_run.noise) if self.by_hits else ExPost(self._next(now))
        price = self.spine.filter.price(event).hit
        return "running" if price.fits_into(self.spine.left()) else self._stopped(now.steps + 1)

    def _stopped(self, step: int) -> str:
        return f"stopped: the budget cannot pay for step {step} of run {self.number}"
