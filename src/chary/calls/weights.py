"""Private multiplicative weights as calls: openings, questions, answers and what is public of a histogram."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.accounting import Event, Targeted, four_digits_down, largest_size
from chary.accounting import weights as pmw
from chary.accounting.weights import Update
from chary.answers import Answer, Ends, Known, around, handed_out
from chary.calls import public_histograms as histograms
from chary.calls import sharpness as sharp
from chary.calls.call import call
from chary.calls.fields import AskedShare, Cells, Exact, Flag, Positive, Probability, Whole
from chary.calls.history import Lesson, Taught, in_shares, published
from chary.calls.run import AskedKind, Opening, RunKind, opening, run_kinds, run_of
from chary.core.forecast import ExpectedHard, Forecast
from chary.core.plan import PREPAID, Data, Json, PerHit, Plan, Result
from chary.core.quote import NOT_KEPT, Quote, quote
from chary.core.transaction import Spine, numbered
from chary.data import NeighborRelation, Reading, Rows, series
from chary.data.universe import axes
from chary.errors import BudgetExceeded, CharyError, InvalidParameter, InvalidQuery, NotPriced, NotWithheld
from chary.filters import Filter, RenyiFilter
from chary.mechanisms.weights import Change, MultiplicativeWeights
from chary.numbers import CONFIDENT, Number, exact, failing, plain

# Private multiplicative weights in a session: each query is one conditional release whose prior is "easy".

SHARES: Final = Known(floor=0, ceiling=1)


@dataclass(frozen=True)
class WeightedAnswer(Answer):
    """The proportion of rows that satisfy a query, or their average weight in a linear one, from 0 to 1.

    `hard` says that the histogram was off, so that a noisy answer was published, charged, and taught to the histogram.
    One that is `verified` was compared with the rows, through noise. An answer that is not is the histogram's alone:
    nothing was read or charged, it may be off by anything, and `call` is the opening of the histogram.

    `error_bar` is 1 at most, which says nothing. Of an easy answer, which has no `interval`, it is 2 alpha/3 and how
    far beyond the noise may have missed a count. With 95 % confidence, all easy answers of a run together are within
    theirs, whatever their number and however they were chosen. It is alpha or less only if the noise is small. Of a
    hard answer it is half the width of the interval, where that has noise of its own. A hard answer may be published
    because its noise took it away from the histogram's. Then it is None, and the interval is true given that it was
    published.
    """

    share: float
    hard: bool
    verified: bool
    error_bar: float | None
    told: Ends | None = field(default=None, repr=False, compare=False, kw_only=True)
    hit_if = "hard"

    @property
    def value(self) -> float:
        """The proportion."""
        return self.share

    @property
    def inference(self) -> None:
        """None: only its interval is known."""

    @property
    def interval(self) -> Ends | None:
        if not self.hard:
            return None
        return around(self.share, self.error_bar, SHARES) if self.told is None else self.told

    @property
    def interval_says(self) -> str:
        if self.hard:
            return super().interval_says
        if not self.verified:
            return "no interval: nothing was read, so the histogram may be off by anything"
        if self.error_bar is None or self.error_bar >= 1:
            return "no interval: the noise hides everything, so the histogram may be off by anything"
        return f"no interval of its own: with {CONFIDENT}, all easy answers of the run are within their error_bar"

    def __float__(self) -> float:
        return self.share

    def _numbers(self) -> Sequence[int]:
        return (self.call,) if self.verified else ()


# A public histogram in a session: asking it, and what can be made of it for free.


@dataclass(frozen=True)
class WeightsQuote:
    """Where a public histogram stands. Nothing in it depends on unpublished data, so it is free.

    `hard` queries there were so far, and `hard_left` still fit (None: they are free). `most_hard` is what the theorem
    allows from the opening until now, while all answers are within alpha/3. `epsilon` is that of a call now, None for
    optimal threshold tests, and `alpha` is the error that is wanted. `reached` is the error that holds for all of the
    first `queries` answers together, with 95 % confidence. It is 2 alpha/3 and what the noise of a question now leaves
    (see `WeightedAnswer`), or the noise of the values if that is more. It is infinite where no hard answer is left,
    since the histogram alone may have any error; above 1 it is no promise.
    """

    hard: int
    hard_left: int | None
    most_hard: float
    epsilon: float | None
    alpha: float
    queries: int
    reached: float

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)

    def __str__(self) -> str:
        left = "any number is" if self.hard_left is None else f"{self.hard_left} are"
        within = f"with {CONFIDENT}, {self.queries} answers are all within {plain(min(1.0, self.reached))}"
        if self.alpha < self.reached:
            within = f"{within}: {NOT_KEPT}"
        if math.isinf(self.reached):
            within = "the histogram answers alone, unverified"
        return (
            f"{self.hard} hard queries so far, {left} left, at most {plain(self.most_hard)} in the worst case; {within}"
        )


@dataclass(frozen=True)
class SparseWeightsQuote(WeightsQuote):
    """Where a histogram of this form stands. Nothing in it depends on unpublished data, so it is free.

    As in `WeightsQuote`. `hard_left` is how many hard answers there may still be at this size (0 where other processes
    have more rows and are further on). `epsilon` is that of the round of the next query. At `more_at` rows there may be
    one more than now. `reached` counts the noise of that round for all the queries, spread over the rounds that are
    left.
    """

    more_at: int

    def __str__(self) -> str:
        if not self.hard_left:
            return f"{self.hard} hard queries so far: the histogram answers alone until there are {self.more_at} rows"
        return f"{super().__str__()}; one more at {self.more_at} rows"


class HistogramState(ABC):
    """What is public of a histogram of either form, and what can be made of it.

    The histogram is a function of published answers: looking at it, and whatever is made of it, is free, and after a
    restart it is bit by bit the same.
    """

    def __init__(
        self,
        spine: Spine,
        call: int,
        law: histograms.HistogramLaw,
        memory: histograms.HistogramMemory,
        secret: Callable[[], bytes],
    ) -> None:
        self.call, self.universe = call, law.universe
        self._spine, self._law, self._memory, self._secret = spine, law, memory, secret

    @abstractmethod
    def standing(self, *, queries: int = 1000) -> WeightsQuote:
        """The number of hard queries that are left, and the accuracy of this many answers now."""

    def _figures(self, held: histograms.Held, size: int, queries: int, left: int | None) -> dict[str, Any]:
        """The figures of both kinds of quote, with this many hard queries left."""
        law, epsilon = self._law, self._law.now(held, size)[0].get("epsilon")
        return {
            "hard": held.hard,
            "hard_left": left,
            "most_hard": law.most_hard(size),
            "epsilon": None if epsilon is None else float(Fraction(epsilon)),
            "alpha": float(law.rule.alpha),
            "queries": queries,
            "reached": law.reached(held, size, queries, left),
        }

    def promised(self) -> str:
        """The error of easy answers from now on, in words, with a warning where it is more than alpha."""
        return self._law.promised(self._held(), self._size())

    def _held(self) -> histograms.Held:
        """The state stored with the opening."""
        return self._law.kept.load(self._secret())

    def _size(self) -> int:
        """The number of rows, of which there must be some."""
        return self.asked(None).size

    def asked(self, where: AskedShare) -> histograms.ShareQuestion:
        """The question, validated."""
        return self._memory.asked(where, self.size)

    @property
    def size(self) -> int:
        """The number of rows that proportions refer to: the present number, or the one that was stated."""
        return self._law.rows_of(self._spine.rows)

    def estimate(self, where: AskedShare) -> float:
        """The histogram's proportion, not verified: free, and nothing but the public size is read."""
        return self.alone(self.asked(where)).share

    def alone(self, asked: histograms.ShareQuestion) -> WeightedAnswer:
        """The histogram's answer, not verified."""
        with self._memory.at(self.changes) as weights:
            return WeightedAnswer(self.call, weights.share(asked.cells, asked.size), False, False, None)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes by hard answers and by lessons, in order; all of them are public."""
        return self._held().changes

    def histogram(self) -> NDArray[np.float64]:
        """The proportion of the rows in each cell: one axis for each column, the missing cell last. The sum is 1."""
        with self._memory.at(self.changes) as weights:
            return weights.shares(self.size).reshape(self.universe.shape)

    def synthetic(self, *, rows: int, seed: int = 0) -> pa.Table:
        """A synthetic table of that many rows drawn from the histogram: free, since nothing private is read.

        Within a bin, numbers are drawn evenly. The same seed gives the same table: the draw hides nothing.
        """
        return axes.rows_drawn(self.universe, self._spine.rows.schema, self.histogram(), rows=rows, seed=seed)

    def __repr__(self) -> str:
        alpha = plain(Fraction(self._law.rule.alpha))
        return f"{type(self).__name__}(call={self.call}, alpha={alpha}, {self.universe})"


class WeightsState(HistogramState):
    """A public histogram that is corrected by hard answers, each of which is charged."""

    _law: histograms.PMWLaw

    def standing(self, *, queries: int = 1000) -> WeightsQuote:
        size = self._size()
        hit = self._spine.filter.price(self._law.at(size).event).hit
        return WeightsQuote(**self._figures(self._held(), size, queries, hit.copies_in(self._spine.left())))


class SparseWeightsState(HistogramState):
    """A public histogram that is corrected in rounds of sparse vector, all paid at the opening.

    When no further hard answer can be had at the present size, the histogram answers alone until the table has grown.
    """

    _law: histograms.PrepaidPMWLaw

    def standing(self, *, queries: int = 1000) -> SparseWeightsQuote:
        size, held, allowance = self._size(), histograms.HistogramRound.load(self._secret()), self._law.rounds.allowance
        allowed = allowance.most(size)
        figures = self._figures(held, size, queries, max(0, allowed - held.hard))
        return SparseWeightsQuote(**figures, more_at=allowance.opens(max(allowed + 1, held.next(size)[0])))


class HistogramRun(Taught, RunKind[WeightedAnswer, HistogramState]):
    """`run.ask(where)`: the proportion of rows that satisfy the condition, within alpha; None is every row. A linear
    query, `chary.data.average` or `weighted`, is the average weight of the rows instead, at the same cost.

    When no hard answer can be had any more, the histogram answers alone, `verified` is False, and nothing is read
    or recorded; with `must_verify` that is a `BudgetExceeded`. Errors: `InvalidQuery` for a condition that the
    universe cannot express (see `Universe`).
    """

    names = "weights"
    keeps = "histogram"
    states: ClassVar[type[HistogramState]]
    beside = ("must_verify",)

    @property
    @abstractmethod
    def law(self) -> histograms.HistogramLaw:
        """The terms with which it was opened."""

    @cached_property
    def memory(self) -> histograms.HistogramMemory:
        """The histogram."""
        return histograms.HistogramMemory(self.law, self._spine.rows.schema)

    @cached_property
    def state(self) -> HistogramState:
        return self.states(self._spine, self.call, self.law, self.memory, self._secret)

    def plan(self, where: AskedShare) -> Plan[WeightedAnswer]:
        return self.planned(self.state.asked(where))

    @abstractmethod
    def planned(self, asked: histograms.ShareQuestion) -> Plan[WeightedAnswer]:
        """The plan of a validated question."""

    def learn(
        self, where: AskedShare, told: Answer | tuple[Number, Number], *, request: str | None = None
    ) -> WeightedAnswer:
        """Teach the histogram a public interval of the proportion of rows that satisfy the condition. Returns its
        answer after that.

        `told` is an answer to that question, such as a release of the count or a hard answer of another histogram. Or
        it is the ends between which the proportion is known to lie. Where the histogram's proportion is outside the
        answer's interval, it is brought to the nearer end. Guarantee: nothing is read, so nothing is charged; the
        promise is that of what was published. Each true interval brings the histogram nearer to the rows and leaves
        fewer hard answers. One that misses the truth, as 5 % of answers do, costs further hard answers. It never costs
        the accuracy of easy ones, which are compared with the rows all the same.

        Errors: `InvalidParameter` for an answer without an interval, or ends that are no shares.
        """
        self._open()
        return self._spine.perform(self.lesson(where, told), request)

    def lessons(self, *, analyst: str | None = None) -> list[Lesson]:
        """As in `Taught`; with `analyst`, from the calls of that analyst alone."""
        self._open()
        size = self.state.size
        found = published(self._spine, self.call, size, analyst)
        return [lesson for lesson in found if self._teaches(lesson, size)]

    def _teaches(self, lesson: Lesson, size: int) -> bool:
        """Whether a lesson would change the histogram; a condition that the universe cannot express does not."""
        try:
            asked = self.state.asked(lesson.where)
        except InvalidQuery:
            return False
        with self.memory.at(self.state.changes) as weights:
            return weights.within(asked.text, asked.cells, size, lesson.low, lesson.high).factor != 1

    def expected_hard(
        self, queries: Sequence[AskedShare], *, like: Any, simulations: int = histograms.SIMULATIONS
    ) -> ExpectedHard:
        """How many of these questions will be hard from now on, if the rows are like those of a public table.

        An estimate by simulation, from what was learned so far, and no promise: see `ExpectedHard`. Nothing is read but
        `like`, and nothing charged. Errors: those of the questions; `InvalidParameter` without any, or rows in `like`.
        """
        self._open()
        state, schema = self.state, self._spine.rows.schema
        return histograms.expected_hard(
            self.law, schema, state._held(), state.size, queries, like, simulations=simulations
        )

    def lesson(self, where: AskedShare, told: Answer | tuple[Number, Number]) -> Plan[WeightedAnswer]:
        """The plan of `learn`."""
        asked = self.state.asked(where)
        return self._lesson(asked.text, *ends_of(told, asked.size))

    def recorded(self, body: Json) -> Plan[Any]:
        if "low" in body:
            return self._lesson(body["where"], body["low"], body["high"])
        return super().recorded(body)

    def _lesson(self, where: str, low: float, high: float) -> Plan[WeightedAnswer]:
        """The plan that brings the histogram's proportion between these ends."""

        def run(data: Data) -> Result:
            held = self.law.kept.load(data.secret or b"")
            with self.memory.at(held.changes) as weights:
                asked = self.state.asked(None if where == histograms.EVERYTHING else where)
                change = weights.within(asked.text, asked.cells, asked.size, low, high)
                if self.law.rule.update == "refitted":
                    change = replace(change, low=low, high=high)
                # What teaches nothing leaves no trace: growth is applied with the next change.
                changes = () if change.factor == 1 and change.low is None else self.memory.learnt(change)
                share = weights.share(asked.cells, asked.size)
            return Result({"size": asked.size, "share": share}, 0, 0, secrets={self.call: held.then(*changes).dump()})

        def present(answer: Json, number: int) -> WeightedAnswer:
            return WeightedAnswer(self.call, answer["share"], False, False, None)

        return self._plan(
            f"{self.kind}_learn", {"where": where, "low": low, "high": high}, self.law.event, run, present
        )

    def _question(
        self,
        kind: str,
        asked: histograms.ShareQuestion,
        terms: Json,
        event: Event,
        **options: Any,
    ) -> Plan[WeightedAnswer]:
        """The plan of a proportion that is verified against the rows.

        The change by a hard answer follows from what was published. It is stored in the same transaction, and only if
        the state is still the one that the answer was based on.
        """
        law, size = self.law, asked.size

        def run(data: Data) -> Result:
            held = law.kept.load(data.secret or b"")
            share, found, then = self.memory.checked(held, asked, asked.counted(data), law.test_at(size), data.source)
            kept: dict[int, bytes | None] = {} if then is held else {self.call: then.dump()}
            told: Json = {"size": size} | found.told
            if found.noisy is None or found.noise is None:
                return Result(told | {"hard": False, "share": share}, hits=0, tests=1, secrets=kept)
            told |= {"hard": True, "count": found.noisy, "error_bar": asked.off(found.noise)}
            return Result(told, hits=1, tests=1, secrets=kept)

        def present(answer: Json, number: int) -> WeightedAnswer:
            if not answer["hard"]:
                # All questions of the run have larger numbers than its opening, so no two have the same place.
                place, rows = number - self.call, answer["size"]
                error = law.easy_error(answer, place, size=rows, rounding=asked.rounding)
                return WeightedAnswer(number, answer["share"], False, True, min(1.0, error))
            share = min(1.0, max(0.0, answer["count"] / answer["size"]))
            bar, told = law.published(answer, asked.rounding)
            return WeightedAnswer(number, share, True, True, bar, told=told)

        body = {"where": asked.text} | terms
        return self._plan(kind, body, event, run, present, reads=asked.reads, **options)

    def _ask(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> Any:
        must_verify, question = options.pop("must_verify", False), self.state.asked(*asked, **options)
        try:
            return self._spine.perform(self.planned(question), request)
        except BudgetExceeded as refused:
            if must_verify or isinstance(refused, NotPriced):
                raise
            return handed_out(self.state.alone(question), self._spine)

    def quote(self, *asked: Any, must_verify: bool = False, **options: Any) -> Quote:
        """With `must_verify` it refuses what cannot be verified now; otherwise the histogram answers alone."""
        try:
            return replace(super().quote(*asked, **options), interval=self.state.promised())
        except BudgetExceeded:
            if must_verify:
                raise
            alone = quote(self._spine, self.plan(*asked, **options))
            return replace(alone, interval="nothing can be verified now: the histogram answers alone, off by anything")


def ends_of(told: Answer | tuple[Number, Number], size: int) -> tuple[float, float]:
    """The interval of a proportion of this many rows, from an answer or from two ends.

    Errors: `InvalidParameter` for an answer without an interval, or ends that are no shares.

    >>> ends_of(("0.2", 0.3), 100)
    (0.2, 0.3)
    """
    if isinstance(told, Answer):
        if told.interval is None:
            raise InvalidParameter(f"this answer teaches nothing, since its error is not known: {told.interval_says}")
        return in_shares(told.interval, 1 if isinstance(told, WeightedAnswer) else size)
    ends = [float(exact(end, "an end")) for end in told]
    if len(ends) != 2 or not 0 <= ends[0] <= ends[1] <= 1:
        raise InvalidParameter("give the ends of a proportion, from 0 to 1, the lower one first: (0.2, 0.3)")
    return ends[0], ends[1]


def _opened(said: "PMW", spine: Spine, law: histograms.HistogramLaw, told: Json, **options: Any) -> Plan[int]:
    """The plan of an opening. It reads nothing but the public size, and the public state of the histogram from which
    this one starts."""
    begun = _begun(said, spine, law)

    def checked(rows: Rows) -> Sequence[Reading]:
        law.rows_of(rows)
        law.universe.check(rows.schema)
        return ()

    return opening(
        said,
        spine,
        law.event,
        lambda data: begun().dump(),
        answer=told,
        reads=checked,
        forecast=lambda: Forecast(interval=law.promised(law.kept(), law.size)),
        **options,
    )


def _begun(said: "PMW", spine: Spine, law: histograms.HistogramLaw) -> Callable[[], histograms.Held]:
    """A function that makes the first state, from that of the warm start's histogram when it is called."""
    source = None if said.warm_start is None else _warm_source(said, spine)

    def begun() -> histograms.Held:
        changes = () if source is None else source.law.kept.load(source._secret()).changes
        return law.kept().then(*histograms.HistogramMemory(law, spine.rows.schema).inherited(changes))

    return begun


def _warm_source(said: "PMW", spine: Spine) -> "HistogramRun":
    """The histogram that `warm_start` names, in whatever blocks; `NotWithheld` where that call opened none."""
    stored = numbered(spine, said.warm_start or 0)
    found = run_of(stored.kind) if stored.kind in run_kinds() else None
    if found is None or not issubclass(found, HistogramRun) or stored.dataset != spine.dataset:
        raise NotWithheld(f"call {stored.number} opened no histogram of this dataset, which a warm start needs")
    run = found(spine, stored.number, json.loads(stored.body))
    run._opening()  # refuses one that was interrupted
    if run.law.universe != axes.Universe.of(said.universe):
        raise InvalidParameter(f"the histogram of call {stored.number} has other cells: a warm start needs the same")
    return run


def _size_now(said: "PMW", spine: Spine) -> int:
    """The number of rows that proportions refer to: the public number, or the one that was stated."""
    near = spine.rows.neighbor_relation
    if series.has_public_size(near) and said.rows is not None:
        raise InvalidParameter("the number of rows is public here: leave rows= out")
    if series.has_public_size(near) or near.unit is not None:
        size = series.public_size(spine.rows)
        if size < 1:
            raise InvalidQuery("a histogram of proportions needs rows: append some first")
        return size
    if said.rows is None:
        raise InvalidQuery(
            f"the number of rows is secret when neighbours are {near.describe()}: state a public number near it, such "
            "as rows=5000; session.release(count(), epsilon=0.01) publishes one"
        )
    return said.rows


# Public histograms whose hard answers are charged one by one, or paid for once: opening one, and going on with it.

# The range in which the largest epsilon per call is searched; a smaller one would be useless.
LARGEST_EPSILON, SMALLEST_EPSILON = 10.0, 1e-12
_TOLD: Final = (
    "hits=60 (for the whole budget), price= (the fraction of the budget for one), tests=1000 (all within alpha/3), or "
    "epsilon= for Laplace noise"
)
# Options that only a prepaid histogram takes, and those that only one which pays by hits takes.
_OF_ROUNDS: Final = ("rho", "delta", "exponent", "constants", "rounds")
_OF_HITS: Final = ("hits", "follow_size", "price", "tests", "confidence", "value", "warm_start")


@call(
    "multiplicative_weights",
    subject="weights",
    meanings={"rows": "A public number near that of the rows, where that is secret."},
)
class PMW(Opening[HistogramRun]):
    """Answer any number of queries about proportions of rows from a public histogram. Only where it is wrong is
    charged.

    Guarantee: each query is one call that hits if it is "hard"; opening is free. `alpha` is the largest error of
    answers. How accurately hard is distinguished from easy is chosen in one of four ways. `hits` is the number of hard
    answers that fit into the whole budget. `price` is the fraction of the whole budget that one may take. `tests` alone
    takes the least cost at which that many queries are answered rightly within alpha/3, with probability `confidence`
    (0.95). `epsilon` is that of a call. The first three are `SharpTest`, with an unbiased value for the part `value` (a
    quarter) of the cost. With `tests` the threshold lies half way between false alarms and misses. They need a session
    with a delta and the Renyi filter. Under other filters `hits` is possible: it takes the largest call by Laplace
    noise of which that number fits. A call of that form is epsilon-DP with the NotPrior target "hard".

    Where the number of rows is secret, `rows` states a public number near it, such as that of a release. Proportions
    are then of that many rows, for good. Guarantee: the same, whatever it is; accuracy is that of counts of rows,
    within alpha times `rows`. `warm_start` is the call of another histogram of the same cells, in whatever blocks. This
    one starts as that one is now, mixed with the part `mixing` of the uniform one. That is free, since all of it was
    published.

    Sizes are those at the opening. With `follow_size` calls get smaller as the table grows, so that more hits fit;
    otherwise answers get more accurate. `update` and `mixing` are those of
    `chary.mechanisms.weights`; "published" and 1 reproduce [GROW].

    Guarantee if `prepaid`: epsilon-DP, or rho-zCDP (for sessions with a delta, more accurate), for all answers
    together, however far the table grows. All is paid now, for ever. Hard queries are found by rounds of sparse vector
    with one hit each ([GROW] Algorithm 3). As many may begin as the theorem allows hard answers, more as the table
    grows, and then the histogram answers alone. `rounds` fixes their number at the start instead, which is far more
    accurate where fewer suffice. A larger `exponent`, below 1, favours late rounds over early ones. With
    `constants="published"`, and `update` and `mixing` as above, all is as in [GROW], epsilon-DP or (epsilon, delta)-DP.
    `chary.accounting.weights` has calculators of the accuracy.

    Errors: `InvalidQuery` where the number of rows is secret and not stated, where a row is no unit of its own, and for
    columns of other types. `InvalidParameter` for published constants that do not keep the budget, a warm start from
    other cells, and what belongs to the other form. `NotWithheld` for a warm start from no histogram. `NotPriced` under
    another filter. `BudgetExceeded`.
    """

    _: KW_ONLY
    universe: Cells
    alpha: Exact
    epsilon: Positive | None = None
    hits: Whole | None = None
    follow_size: Flag = True
    update: Update = "projected"
    mixing: Exact = "0.1"
    price: Probability | None = None
    tests: Whole | None = None
    confidence: Probability | None = None
    value: Probability | None = None
    prepaid: Flag = False
    rho: Positive | None = None
    delta: Exact = 0
    exponent: Probability = "1/2"
    constants: pmw.Constants = "exact"
    rounds: Whole | None = None
    rows: Whole | None = None
    warm_start: Whole | None = None

    def __post_init__(self) -> None:
        other, usual = self._other, {field.name: str(field.default) for field in fields(type(self))}
        if wrong := [name for name in other if str(getattr(self, name)) != usual[name]]:
            raise InvalidParameter(f"{wrong[0]}= is for a histogram that is {'not ' if self.prepaid else ''}prepaid")
        if self.warm_start is not None and exact(self.mixing, "mixing") == 1:
            raise InvalidParameter("a warm start keeps the part 1 - mixing of the other histogram: mixing= below 1")
        if self.prepaid:
            failing(self.delta)
            return
        if self.tests is None or any(way is not None for way in (self.epsilon, self.hits, self.price)):
            sharp.check_one_way(self, ("epsilon", "hits", "price"), _TOLD)
        sharp.check_tests(self)

    @property
    def _other(self) -> tuple[str, ...]:
        """The options that only the other form takes."""
        return _OF_HITS if self.prepaid else _OF_ROUNDS

    def prepaid_law(self, neighbor_relation: NeighborRelation, size: int) -> histograms.PrepaidPMWLaw:
        """The terms of a histogram that is prepaid, and opened at this many rows."""
        universe, rule = self._ruled
        terms: Json = {name: getattr(self, name) for name in ("alpha", "epsilon", "update", "mixing", *_OF_ROUNDS)}
        rounds = pmw.weight_rounds(cells=universe.cells, start=size, **terms)
        return histograms.PrepaidPMWLaw(universe, rule, size, rounds, neighbor_relation, **self._said_of_start)

    def law(self, filter_: Filter, neighbor_relation: NeighborRelation, size: int) -> histograms.PMWLaw:
        """The terms of a histogram whose hard answers are charged one by one, under this filter."""
        only_sharp = any(said is not None for said in (self.price, self.tests, self.value))
        if self.epsilon is None and (isinstance(filter_, RenyiFilter) or only_sharp):
            return self.sharply(self.terms(filter_.for_sharp_tests("give epsilon= for Laplace noise"), size), size)
        usual = self.epsilon or fitting_epsilon(filter_, self.hits or 1)
        return self._law(histograms.LaplaceHits(neighbor_relation, Fraction(usual)), size)

    def sharply(self, terms: sharp.HitTerms, size: int) -> histograms.PMWLaw:
        """The same with a stored cost of a hit. It was found in floats, so it must not be computed again."""
        return self._law(histograms.SharpHits(terms, sharp.Wanted.said(self)), size)

    def _law(self, hits: histograms.Hits, size: int) -> histograms.PMWLaw:
        return histograms.PMWLaw(*self._ruled, size, hits, bool(self.follow_size), **self._said_of_start)

    @property
    def _ruled(self) -> tuple[axes.Universe, MultiplicativeWeights]:
        """The cells of the histogram, and how far answers may be off."""
        return axes.Universe.of(self.universe), MultiplicativeWeights(self.alpha, self.update, self.mixing)

    @property
    def _said_of_start(self) -> dict[str, Any]:
        """Whether its number of rows was stated, and whether it starts from another histogram."""
        return {"stated": self.rows is not None, "warm": self.warm_start is not None}

    def plan(self, spine: Spine) -> Plan[Any]:
        """Nothing is charged unless it is prepaid; the event is that of a hit at the size of the opening."""
        size = _size_now(self, spine)
        if self.prepaid:
            return _opened(self, spine, self.prepaid_law(spine.rows.neighbor_relation, size), {"size": size})
        law = self.law(spine.filter, spine.rows.neighbor_relation, size)
        said, told = self, {"size": size}
        if isinstance(law.hits, histograms.SharpHits):
            told |= law.hits.told
        else:
            said = replace(self, epsilon=law.hits.epsilon, hits=None)
        return _opened(said, spine, law, told, cost=PREPAID)

    def expected_hard(self, spine: Spine, queries: Sequence[AskedShare], like: Any) -> ExpectedHard:
        """How many of these questions will be hard; `Session.quote` says it."""
        size, near = _size_now(self, spine), spine.rows.neighbor_relation
        law = self.prepaid_law(near, size) if self.prepaid else self.law(spine.filter, near, size)
        return histograms.expected_hard(law, spine.rows.schema, _begun(self, spine, law)(), size, queries, like)

    def question_body(self) -> Json:
        told = super().question_body()
        told = {name: said for name, said in told.items() if name not in self._other}
        # Ledgers store the parts of the universe at the top level.
        told |= told.pop("universe")
        if self.prepaid:
            return told | {"rounds": self.rounds}
        return told | ({"epsilon_per_call": told.pop("epsilon")} if "epsilon" in told else {})

    @classmethod
    def recorded(cls, body: Json) -> Self:
        said = {"universe": axes.Universe.of_body(body)}
        return super().recorded({"epsilon": body.get("epsilon_per_call")} | body | said)

    def terms(self, filter_: RenyiFilter, size: int) -> sharp.HitTerms:
        """The optimal tests that are asked for, of a table of this size."""
        alone = self.hits is None and self.price is None
        within = Fraction(self.alpha) / 3 * size if alone else None
        wanted = sharp.Wanted.said(self, within=within)
        return sharp.HitTerms.found(wanted, filter_, Fraction(1), self.value_share)

    @property
    def value_share(self) -> Fraction:
        """The part of the cost of a hard answer that its count takes."""
        return sharp.value_part(self.value)


class PrepaidPMWRun(HistogramRun):
    """A histogram whose rounds were paid at the opening. Whether a round may begin depends on public numbers only."""

    kind, states = "sparse_weights", SparseWeightsState
    questions = (AskedKind("sparse_weights_ask", prepaid=True), AskedKind("sparse_weights_learn"))

    @cached_property
    def law(self) -> histograms.PrepaidPMWLaw:
        return PMW.recorded(self._terms | {"prepaid": True}).prepaid_law(
            self._spine.rows.neighbor_relation, self._opening()["size"]
        )

    def planned(self, asked: histograms.ShareQuestion) -> Plan[WeightedAnswer]:
        def check(held: bytes) -> None:
            if told := self.law.refused(histograms.HistogramRound.load(held), asked.size):
                raise BudgetExceeded(told)

        return self._question("sparse_weights_ask", asked, {}, self.law.event, check=check)


class PMWRun(HistogramRun):
    """A histogram whose hard answers are charged one by one."""

    kind, states = PMW.kind, WeightsState
    questions = (AskedKind("multiplicative_weights_ask"), AskedKind("multiplicative_weights_learn"))

    @cached_property
    def law(self) -> histograms.PMWLaw:
        told, opened = self._opening(), PMW.recorded(self._terms)
        if opened.epsilon is not None:
            return opened.law(self._spine.filter, self._spine.rows.neighbor_relation, told["size"])
        filter_ = self._spine.filter.for_sharp_tests("open another histogram with epsilon=")
        chance = sharp.Wanted.said(opened).chance
        return opened.sharply(
            sharp.HitTerms(filter_, Fraction(told["price"]), opened.value_share, chance), told["size"]
        )

    def planned(self, asked: histograms.ShareQuestion) -> Plan[WeightedAnswer]:
        hits = self.law.at(asked.size)
        return self._question(
            "multiplicative_weights_ask",
            asked,
            self.law.hits.told,
            hits.event,
            cost=PerHit(adds_up=False),
            forecast=hits.forecast,
        )


def fitting_epsilon(filter_: Filter, hits: int) -> Fraction:
    """The largest call by Laplace noise of which this many hits fit into the whole budget."""

    def fits(size: float) -> bool:
        try:
            copies = filter_.price(Targeted(Fraction(size))).hit.copies_in(filter_.capacity)
        except CharyError:
            return False
        return copies is None or copies >= hits

    if not fits(SMALLEST_EPSILON):
        raise BudgetExceeded(f"{hits} hard answers do not fit into the budget")
    return four_digits_down(largest_size(fits, LARGEST_EPSILON))
