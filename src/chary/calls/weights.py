"""Private multiplicative weights as calls: public histogram, questions, hard answers and state."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from threading import RLock
from typing import Any, Final, NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.accounting import Event, Targeted, four_digits_down, intervals, largest_size, sparse_vector
from chary.accounting import weights as pmw
from chary.answers import Answer, Ends, Known, around, handed_out
from chary.calls import sharpness as sharp
from chary.calls.call import call
from chary.calls.fields import AskedShare, Cells, Exact, Flag, Positive, Probability, Whole, condition
from chary.calls.run import BoundOpening, FreeOpening, Opening, Run, RunKind
from chary.core.forecast import Within
from chary.core.plan import BETA, FREE, Data, Interaction, Json, Result, laplace_for
from chary.core.quote import NOT_KEPT, Quote, quote
from chary.core.transaction import Spine
from chary.data import Count, Linear, Predicate, Query, Reading, Rows, columns, count, series
from chary.data.universe import axes, counts
from chary.data.universe.linear import linear_of
from chary.data.universe.regions import Region, located, matrix
from chary.errors import BudgetExceeded, CharyError, InvalidParameter, InvalidQuery, NotPriced, NotWithheld
from chary.filters import Filter, Price, RenyiFilter
from chary.mechanisms import Additive, Gaussian, HiddenThreshold, Laplace, SparseVectorMachine
from chary.mechanisms.additive import SMALL, padded, unpadded
from chary.mechanisms.weights import Change, Easy, MultiplicativeWeights, Transcript, Update, WeightVector
from chary.mechanisms.weights import WeightVector as Learned
from chary.numbers import Number, failing, plain

# Private multiplicative weights in a session: each query is one conditional release whose prior is "easy".

HistogramT = TypeVar("HistogramT", bound="PMW | PrepaidPMW")
EVERYTHING = "TRUE"
SHARES: Final = Known(floor=0, ceiling=1)
# How far a hard answer may be off when it is taught to the histogram: wrong once in 10,000 of them.
NEARLY_SURE = 0.9999


@dataclass(frozen=True)
class WeightedAnswer(Answer):
    """The share of rows that satisfy a query, or their average weight in a linear one, from 0 to 1.

    `hard` says that the histogram was off, so that a noisy answer was published, charged, and taught to the histogram.
    One that is `verified` was compared with the rows, through noise. An answer that is not is the histogram's alone:
    nothing was read or charged, it may be off by anything, and `call` is the opening of the histogram.

    `error_bar` is 1 at most, which says nothing. Of an easy answer, which has no `interval`, it is 2 alpha/3 and how
    far beyond the noise may have missed a count: 95 times in 100 all easy answers of a run are within theirs, together,
    however many they are and however they were chosen. So it is alpha or less only where the noise is small enough. Of
    a hard answer it is the half-width of the interval, where that has noise of its own; of one that was published
    because its noise took it away from the histogram's it is None, and the interval is true given that it was
    published.
    """

    share: float
    hard: bool
    verified: bool
    error_bar: float | None
    told: Ends | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def value(self) -> float:
        """The share."""
        return self.share

    @property
    def hit(self) -> bool:
        return self.hard

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
        return "no interval of its own: 95 times in 100 all easy answers of the run are within their error_bar"

    def __float__(self) -> float:
        return self.share

    def _numbers(self) -> Sequence[int]:
        return (self.call,) if self.verified else ()


@dataclass(frozen=True)
class OpenHistogram(BoundOpening[HistogramT]):
    """The opening of a uniform public histogram: nothing is read but the public size."""

    size: int = field(compare=False)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidQuery("a histogram of shares needs rows: append some first")
        self.rule  # noqa: B018 - refuses what is no rule
        super().__post_init__()

    @cached_property
    def universe(self) -> axes.Universe:
        """The cells of the histogram."""
        return axes.Universe.of(self.call.universe)

    @cached_property
    def rule(self) -> MultiplicativeWeights:
        """How far answers may be off, and how a hard answer corrects the histogram."""
        return MultiplicativeWeights(self.call.alpha, self.call.update, self.call.mixing)

    @property
    @abstractmethod
    def fresh(self) -> bytes:
        """The state before the first query."""

    @property
    @abstractmethod
    def first_told(self) -> Json:
        """What the first answer says of its noise."""

    @abstractmethod
    def tails(self, told: Json) -> intervals.Tails:
        """How far beyond what is easy counts are missed, by the noise of an answer that says so much of it."""

    def easy_error(
        self, told: Json, place: int, *, size: int, rounding: Number = 0, confidence: Number = 1 - BETA
    ) -> float:
        """How far an easy answer with this noise is off at most, so that with `confidence` all of the run are within
        theirs; it is the place-th question at most. Above 1 it says nothing."""
        chance = pmw.easy_chance(place, told.get("round"), confidence)
        return pmw.easy_error_up(self.tails(told), alpha=self.rule.alpha, size=size, chance=chance, rounding=rounding)

    def foretold(self) -> str:
        return promised(self.easy_error(self.first_told, pmw.EQUAL_QUESTIONS, size=self.size), self.rule.alpha)

    def body(self) -> Json:
        told = super().body()
        cells: Json = told.pop("universe")
        return cells | told

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        series.public_size(rows)
        self.universe.check(rows.schema)
        return []

    def run(self, data: Data) -> Result:
        return Result({"size": self.size}, hits=0, tests=0, secret=self.fresh)


class HistogramMemory:
    """The histogram that a transcript describes, kept from call to call. All of it is public."""

    def __init__(self, started: OpenHistogram[Any], schema: columns.Schema) -> None:
        self._started, self._schema = started, schema
        self._weights = self._fresh()
        self._lock = RLock()

    @contextmanager
    def at(self, transcript: Transcript) -> Iterator[Learned]:
        """The histogram after these changes: those it lacks are carried out, in order, or all from the start."""
        with self._lock:
            done = self._weights.changes
            if transcript.changes[: len(done)] != done:
                self._weights, done = self._fresh(), ()
            for change in transcript.changes[len(done) :]:
                self._weights.apply(change, self.located(change.query)[0])
            yield self._weights

    def located(self, text: str) -> tuple[Region | counts.WeightedRegion, Count]:
        """The cells of a query and the count of its rows. The weights of a linear query are added up to whole rows,
        which one row moves by as much as the count of all rows."""
        if (linear := linear_of(text)) is not None:
            return counts.weighing(self._started.universe, self._schema, linear), count()
        predicate = None if text == EVERYTHING else Predicate.parse(text)
        return located(self._started.universe, self._schema, predicate)

    def _fresh(self) -> Learned:
        return Learned(self._started.rule, *matrix(self._started.universe), self._started.size)


@dataclass(frozen=True)
class AskHistogram(Interaction):
    """One query to a histogram, checked against the rows.

    What a hard answer does to the histogram follows from what was published; it is stored in the same transaction, on
    top of the state that the run was based on. Rows that come after `size` was read may be counted already: that costs
    accuracy, never privacy, since a row still moves the count by 1.
    """

    opened: int
    started: OpenHistogram[Any]
    text_of_query: str
    size: int
    memory: HistogramMemory = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidQuery("there are no rows here: append those that the histogram is about")

    @cached_property
    def located(self) -> tuple[Region | counts.WeightedRegion, Count]:
        """The cells of the query, and what is counted."""
        return self.memory.located(self.text_of_query)

    @cached_property
    def linear(self) -> Linear | None:
        """The linear query; None for a condition."""
        return linear_of(self.text_of_query)

    @property
    def rounding(self) -> float:
        """By how much a sum of weights may be off by being told in whole rows, in rows."""
        return 0.0 if self.linear is None else 0.5

    def reached(self, told: Json, noise: Additive, queries: int, left: int | None) -> float:
        """What all of so many answers are within, 95 times in 100, of which `left` at most are hard: easy ones with
        what this tells of their noise, and values with this one. Each kind fails with half of the chance."""
        easy = self.started.easy_error(told, queries, size=self.size, rounding=self.rounding, confidence=1 - BETA / 2)
        hits = max(1, queries if left is None else min(queries, left))
        return max(easy, (noise.error_bar(float(1 - BETA / 2 / hits)) + self.rounding) / self.size)

    @property
    @abstractmethod
    def terms(self) -> Json:
        """What the question says of the privacy that was asked for."""

    @property
    def held(self) -> int:
        return self.opened

    def check(self, secret: bytes | None) -> None:
        if secret is None:
            raise NotWithheld(f"call {self.opened} keeps no histogram: it was interrupted; open a new one")

    def body(self) -> Json:
        return {"weights": self.opened, "where": self.text_of_query} | self.terms

    def queries(self) -> Sequence[Query]:
        return [self.located[1]] if self.linear is None else []

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        if self.linear is None:
            return super().prepare(rows)
        return [counts.WeightReader(rows, self.started.universe, self.linear)]

    def counted(self, data: Data) -> int:
        """The rows that satisfy the condition, or the sum of their weights in whole rows."""
        read = data.values[0]
        return read.rows if isinstance(read, counts.RowSum) else data.integer()

    def present(self, answer: Json, call: int) -> WeightedAnswer:
        if not answer["hard"]:
            # No question of the run has a smaller number, so that this is the place of none but it.
            error = self.started.easy_error(answer, call - self.opened, size=answer["size"], rounding=self.rounding)
            return WeightedAnswer(call, answer["share"], False, True, min(1.0, error))
        share = min(1.0, max(0.0, answer["count"] / answer["size"]))
        return self.told_hard(WeightedAnswer(call, share, True, True, min(1.0, answer["error_bar"])), answer)

    def told_hard(self, found: WeightedAnswer, answer: Json) -> WeightedAnswer:
        """A hard answer with its interval; that of a value with noise of its own is its error bar."""
        return found


def promised(error: float, alpha: Number) -> str:
    """What easy answers are within, in words, and a warning where that is more than alpha."""
    if error >= 1:
        return f"easy answers may be off by anything, the noise hides all: {NOT_KEPT}"
    told = f"easy answers are within {plain(error)}, all of the first {pmw.EQUAL_QUESTIONS:,}, 95 times in 100"
    return told if error <= Fraction(alpha) else f"{told}: {NOT_KEPT}"


# Private multiplicative weights that pay by hits: each query is one call whose prior is "easy".


@dataclass(frozen=True)
class AskCharged(AskHistogram):
    """One query to the histogram: "easy", which is free, or a noisy count, which is charged and taught to it."""

    kind = "multiplicative_weights_ask"

    @property
    @abstractmethod
    def noise(self) -> Additive:
        """That of a published count."""

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, Fraction(1)

    @property
    @abstractmethod
    def size_told(self) -> Json:
        """What an answer says of the size of the call."""

    @abstractmethod
    def found(self, easy: Easy, data: Data) -> int | None:
        """The noisy count; None if the histogram's answer stands."""

    def away(self, easy: Easy) -> Json:
        """What a hard answer says of where it could not have been published."""
        return {}

    def run(self, data: Data) -> Result:
        transcript = Transcript.load(data.secret or b"")
        told: Json = {"size": self.size} | self.size_told
        with self.memory.at(transcript) as weights:
            share = weights.share(self.located[0], self.size)
            easy = self.started.rule.easy(share, self.size)
            noisy = self.found(easy, data)
            if noisy is None:
                return Result(told | {"hard": False, "share": share}, hits=0, tests=1)
            margin = (self.noise.error_bar(NEARLY_SURE) + self.rounding) / self.size
            change = weights.change(self.text_of_query, self.located[0], self.size, noisy / self.size, margin)
        bar = (self.noise.error_bar() + self.rounding) / self.size
        told |= {"hard": True, "count": noisy, "error_bar": bar} | self.away(easy)
        return Result(told, hits=1, tests=1, secrets={self.opened: transcript.then(change).dump()})


@dataclass(frozen=True)
class AskWeights(AskCharged):
    """By Laplace noise: what is published is a function of an epsilon-DP count."""

    started: "OpenWeights"
    decides = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.noise  # noqa: B018 - refuses noise out of range

    @cached_property
    def epsilon(self) -> Fraction:
        """That of this call."""
        asked = self.started.call
        kept = Fraction(self.started.size, self.size) if asked.follow_size else Fraction(1)
        return Fraction(asked.epsilon or 0) * min(Fraction(1), kept)

    @cached_property
    def noise(self) -> Laplace:
        return laplace_for(self.located[1], self.started.neighbor_relation, self.epsilon)

    @cached_property
    def event(self) -> Event:
        return Targeted(self.epsilon)

    @property
    def terms(self) -> Json:
        return {"epsilon": str(self.started.call.epsilon)}

    @property
    def size_told(self) -> Json:
        return {"epsilon": str(self.epsilon)}

    def found(self, easy: Easy, data: Data) -> int | None:
        noisy = self.noise.apply_one(self.counted(data), data.source)
        return None if easy.low <= noisy <= easy.high else noisy

    def away(self, easy: Easy) -> Json:
        return {"easy": [easy.low, easy.high]}

    def told_hard(self, found: WeightedAnswer, answer: Json) -> WeightedAnswer:
        """Answers of old ledgers do not say from what they lay away, so they say nothing by themselves."""
        if "easy" not in answer:
            return replace(found, error_bar=None)
        size, support = answer["size"], intervals.Support.outside(*answer["easy"])
        noise = laplace_for(self.located[1], self.started.neighbor_relation, Fraction(answer["epsilon"]))
        known = intervals.Publication(noise.law(), support, floor=0, ceiling=size)
        low, high = known.interval(answer["count"])
        least = None if low is None else max(0.0, (low - self.rounding) / size)
        return replace(
            found, error_bar=None, told=(least, None if high is None else min(1.0, (high + self.rounding) / size))
        )


@dataclass(frozen=True)
class AskSharpWeights(AskCharged):
    """By the sharpest test of whether the count is outside of what is easy, and at a hit a count with fresh noise.

    Guarantee: `SharpTest`. How far a count is outside moves by no more than the count, so its chance of a hit is that
    of a neighbour on the chain, on whichever side it is; the count that is published was drawn for that alone.
    """

    started: "OpenSharpWeights"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sharpness, self.noise  # noqa: B018 - refuses what has no table

    @cached_property
    def own(self) -> sharp.HitTerms:
        """The terms at this size."""
        terms, start = self.started.terms, self.started.size
        return terms.slower(Fraction(start, max(start, sharp.coarse_down(self.size)))) if self._follows else terms

    @property
    def _follows(self) -> bool:
        return bool(self.started.call.follow_size)

    @cached_property
    def sharpness(self) -> sharp.Sharpness:
        """The test."""
        return self.own.sharpness()

    @cached_property
    def noise(self) -> Gaussian:
        return self.own.noise()

    @property
    def event(self) -> Event:
        return self.own.event

    @property
    def terms(self) -> Json:
        return {"price": str(self.started.terms.price)}

    @property
    def size_told(self) -> Json:
        return {"price": str(self.own.price)}

    def found(self, easy: Easy, data: Data) -> int | None:
        count = self.counted(data)
        # At 1 it is the first count outside.
        outside = max(count - easy.high, easy.low - count)
        if not self.sharpness.sampler.step(outside - 1 + self.sharpness.bar, data.source):
            return None
        return self.noise.apply_one(count, data.source)

    def wrong_call(self, distance: int) -> float:
        return self.sharpness.wrong_call(distance)

    def within(self, tests: int, confidence: Number) -> Within:
        return self.sharpness.within(tests, confidence)

    @property
    def foreseen(self) -> Within | None:
        return sharp.together(self.started.call, self.within)


# A public histogram in a session: asking it, and what can be made of it for free.


@dataclass(frozen=True)
class WeightsQuote:
    """Where a public histogram stands. Nothing in it depends on unpublished data, so it is free.

    `hard` queries there were so far, and `hard_left` still fit (None: they are free). `most_hard` is what the theorem
    allows from the opening until now, while all answers are within alpha/3. `epsilon` is that of a call now, None for
    sharp tests, `alpha` what the answers are meant to be within, `reached` what they are all within over the first
    `queries` questions, 95 times in 100: 2 alpha/3 and what the noise of a question now leaves (see `WeightedAnswer`),
    or the noise of the values if that is more; infinite where no hard answer is left, since the histogram alone may be
    off by anything; above 1 it is no promise.
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
        within = f"{self.queries} answers are all within {plain(min(1.0, self.reached))} 95 times in 100"
        if self.alpha < self.reached:
            within = f"{within}: {NOT_KEPT}"
        if math.isinf(self.reached):
            within = "the histogram answers alone, unverified"
        return (
            f"{self.hard} hard queries so far, {left} left, at most {plain(self.most_hard)} in the worst case; {within}"
        )


class HistogramState(ABC):
    """What is public of a histogram of either form, and what can be made of it.

    The histogram is a function of published answers: looking at it, and whatever is made of it, is free, and after a
    restart it is bit by bit the same.
    """

    def __init__(self, spine: Spine, call: int, started: OpenHistogram[Any]) -> None:
        self.call, self.universe = call, started.universe
        self._spine, self._rule = spine, started.rule
        self._memory = HistogramMemory(started, spine.rows.schema)

    @abstractmethod
    def asked(self, where: AskedShare) -> AskHistogram:
        """The question, validated."""

    @abstractmethod
    def standing(self, *, queries: int = 1000) -> WeightsQuote:
        """How many hard queries are left, and how accurate so many answers are now."""

    def promised(self) -> str:
        """What easy answers are within from now on, in words; with a warning where that is more than alpha."""
        asked, told = self.asked(None), self._noise_now()
        error = asked.started.easy_error(told, pmw.EQUAL_QUESTIONS, size=asked.size)
        return promised(error, self._rule.alpha)

    @abstractmethod
    def _noise_now(self) -> Json:
        """What an answer now would say of its noise."""

    def estimate(self, where: AskedShare) -> float:
        """The histogram's share, unchecked: free, and no data but the public size are read."""
        return self.alone(self.asked(where)).share

    def alone(self, asked: AskHistogram) -> WeightedAnswer:
        """What the histogram says without being checked."""
        with self._memory.at(self._transcript()) as weights:
            return WeightedAnswer(self.call, weights.share(asked.located[0], asked.size), False, False, None)

    @property
    def changes(self) -> tuple[Change, ...]:
        """What each hard answer did, in order; all of it is public."""
        return self._transcript().changes

    def histogram(self) -> NDArray[np.float64]:
        """What part of the rows is in each cell: one axis for each column, the missing cell last. It sums to 1."""
        size = series.public_size(self._spine.rows)
        with self._memory.at(self._transcript()) as weights:
            return weights.shares(size).reshape(self.universe.shape)

    def synthetic(self, *, rows: int, seed: int = 0) -> pa.Table:
        """A made-up table of that many rows drawn from the histogram: free, since nothing private is read.

        Within a bin, numbers are drawn evenly. The same seed gives the same table: the draw hides nothing.
        """
        return axes.rows_drawn(self.universe, self._spine.rows.schema, self.histogram(), rows=rows, seed=seed)

    def _transcript(self) -> Transcript:
        return self._loaded(self._secret())

    def _loaded(self, secret: bytes) -> Transcript:
        """The public part of what is kept beside the opening."""
        return Transcript.load(secret)

    def _secret(self) -> bytes:
        secret = self._spine.ledger.secret(self.call)
        if secret is None:
            raise NotWithheld(f"call {self.call} keeps no histogram: it was interrupted; open a new one")
        return secret

    def __repr__(self) -> str:
        alpha = plain(Fraction(self._rule.alpha))
        return f"{type(self).__name__}(call={self.call}, alpha={alpha}, {self.universe})"


class WeightsState(HistogramState):
    """A public histogram that is corrected by hard answers, each of which is charged."""

    def __init__(self, spine: Spine, call: int, started: "OpenWeights | OpenSharpWeights") -> None:
        super().__init__(spine, call, started)
        self._started = started

    def standing(self, *, queries: int = 1000) -> WeightsQuote:
        asked, filter_, rule = self.asked(None), self._spine.filter, self._started.rule
        sizes = {"start": self._started.size, "size": max(asked.size, self._started.size)}
        most = pmw.hard_answers_up(
            alpha=rule.alpha, cells=self.universe.cells, **sizes, update=rule.update, mixing=rule.mixing
        )
        left = asked.price(filter_).hit.copies_in(self._spine.left())
        return WeightsQuote(
            hard=len(self.changes),
            hard_left=left,
            most_hard=most,
            epsilon=None if asked.event.epsilon is None else float(asked.event.epsilon),
            alpha=float(rule.alpha),
            queries=queries,
            reached=math.inf if left == 0 else asked.reached(asked.size_told, asked.noise, queries, left),
        )

    def _noise_now(self) -> Json:
        return self.asked(None).size_told

    def asked(self, where: AskedShare) -> AskCharged:
        return self._started.asked(self.call, condition_text(where), series.public_size(self._spine.rows), self._memory)


class HistogramRun(RunKind[WeightedAnswer, HistogramState]):
    """`run.ask(where)`: the share of rows that satisfy the condition, within alpha; None is every row. A linear query,
    `chary.data.average` or `weighted`, is the average weight of the rows instead, at the same price.

    When no hard answer can be had any more, the histogram answers alone, `verified` is False, and nothing is read
    or recorded; with `must_verify` that is a `BudgetExceeded`. Errors: `InvalidQuery` for a condition that the
    universe cannot tell (see `Universe`).
    """

    names = "weights"

    @property
    @abstractmethod
    def state(self) -> HistogramState:
        """The histogram as it is now."""

    def plan(self, where: AskedShare) -> AskHistogram:
        return self.state.asked(where)

    def _ask(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> Any:
        must_verify, question = options.pop("must_verify", False), self.plan(*asked, **options)
        try:
            answer: WeightedAnswer = self._spine.perform(question, request)
        except BudgetExceeded as refused:
            if must_verify or isinstance(refused, NotPriced):
                raise
            return handed_out(self.state.alone(question), self._spine)
        return answer

    def quote(self, *asked: Any, must_verify: bool = False, **options: Any) -> Quote:
        """With `must_verify`, what may not be checked now is refused; otherwise the histogram answers alone."""
        try:
            return replace(super().quote(*asked, **options), interval=self.state.promised())
        except BudgetExceeded:
            if must_verify:
                raise
            alone = quote(self._spine, self.plan(*asked, **options))
            return replace(alone, interval="nothing can be verified now: the histogram answers alone, off by anything")

    @cached_property
    def opened_as(self) -> Json:
        """What the opening told: the number of rows then, and the price of a hit of sharp tests."""
        answer = self._spine.ledger.call(self.call).answer
        if answer is None:
            raise NotWithheld(f"call {self.call} keeps no histogram: it was interrupted; open a new one")
        told: Json = json.loads(answer)
        return told

    def size_then(self) -> int:
        """The number of rows when it was opened."""
        return int(self.opened_as["size"])


def condition_text(where: AskedShare) -> str:
    """The condition, canonically."""
    asked = condition(where)
    return EVERYTHING if asked is None else asked.text


# Multiplicative weights by rounds of sparse vector: the state of a round, and its free queries.

NOTHING = Transcript()


@dataclass(frozen=True)
class HistogramRound:
    """The published changes, how many rounds have begun, and of the round that is under way its size at the beginning
    and the hidden noise of its threshold, which is shown nowhere; None between rounds."""

    transcript: Transcript = NOTHING
    begun: int = 0
    size: int = 0
    shift: int | None = None

    @property
    def next(self) -> int:
        """The number of the round that the next query belongs to."""
        return self.begun + (self.shift is None)

    def dump(self) -> bytes:
        """As the ledger keeps it."""
        public = self.transcript.dump()
        return padded(json.dumps([self.begun, self.size, self.shift]).encode() + b"\n" + public, SMALL + len(public))

    @classmethod
    def load(cls, data: bytes) -> Self:
        """What `dump` wrote."""
        latest, _, changes = unpadded(data).partition(b"\n")
        return cls(Transcript.load(changes), *json.loads(latest))

    def __repr__(self) -> str:
        return f"RoundState(<secret>, begun={self.begun}, size={self.size})"


@dataclass(frozen=True)
class AskSparseWeights(AskHistogram):
    """One query to the histogram, as two queries to the sparse vector of the round.

    Guarantee: nothing is charged, it was paid at the opening. The count less the histogram's and the histogram's less
    the count, each with its own noise, are compared with 2 alpha/3 of the rows and the hidden noise of the round, in
    whole numbers. The first query of a round draws that noise; a hit publishes the count with noise of its own and ends
    the round. Whether a round may begin depends on public numbers only.
    """

    started: "OpenSparseWeights"
    kind = "sparse_weights_ask"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.located  # noqa: B018 - refuses what the universe cannot tell

    @property
    def event(self) -> Event:
        return self.started.event

    @property
    def terms(self) -> Json:
        return {}

    # The epsilon of the opening holds for all of them together.
    adds_up = True

    def price(self, filter_: Filter) -> Price:
        return FREE

    def check(self, secret: bytes | None) -> None:
        super().check(secret)
        state, allowed = HistogramRound.load(secret or b""), self.started.rounds.allowance
        if state.next > allowed.most(self.size):
            raise BudgetExceeded(
                f"round {state.next} may begin at {allowed.opens(state.next)} rows at the earliest, and there are "
                f"{self.size}: until then the histogram answers alone"
            )
        self._machine(state)

    def _machine(self, state: HistogramRound) -> SparseVectorMachine:
        return self.started.machine(state.next, self.size if state.shift is None else state.size)

    def run(self, data: Data) -> Result:
        before = HistogramRound.load(data.secret or b"")
        machine, state = self._machine(before), before
        if before.shift is None:
            state = HistogramRound(before.transcript, before.next, self.size, machine.start(data.source).shift)
        with self.memory.at(state.transcript) as weights:
            share = weights.share(self.located[0], self.size)
            found = self._tested(machine, state, share, data)
            if found is None:
                kept: dict[int, bytes | None] = {} if state == before else {self.opened: state.dump()}
                return Result(self._told(state) | {"hard": False, "share": share}, hits=0, tests=1, secrets=kept)
            return self._hard(weights, state, found)

    def _tested(self, machine: SparseVectorMachine, state: HistogramRound, share: float, data: Data) -> "_Hit | None":
        easy, rows = self.started.rule.easy(share, self.size), self.counted(data)
        beyond = np.array([rows - easy.high - 1, easy.low - 1 - rows])
        crossed = machine.step(HiddenThreshold(state.shift or 0), beyond, 0, data.source)[1]
        if not crossed.values or machine.answers is None:
            return None
        above, value = crossed.positions == [0], crossed.values[0]
        return _Hit(above, easy.high + 1 + value if above else easy.low - 1 - value, machine.answers)

    def _hard(self, weights: WeightVector, state: HistogramRound, hit: "_Hit") -> Result:
        """Publish the count, teach it to the histogram, end the round."""
        answer, margin = hit.noisy / self.size, (hit.noise.error_bar(NEARLY_SURE) + self.rounding) / self.size
        change = weights.change(self.text_of_query, self.located[0], self.size, answer, margin, hit.above)
        after = HistogramRound(state.transcript.then(change), state.begun, state.size)
        bar = {"error_bar": (hit.noise.error_bar() + self.rounding) / self.size}
        told = self._told(state) | {"hard": True, "above": hit.above, "count": hit.noisy} | bar
        return Result(told, hits=1, tests=1, secrets={self.opened: after.dump()})

    def _told(self, state: HistogramRound) -> Json:
        return {"size": self.size} | self.started.told(state.begun, state.size)


class _Hit(NamedTuple):
    """On which side of the histogram's answer the count was found, and the noisy count."""

    above: bool
    noisy: int
    noise: Laplace


# A public histogram that is corrected in rounds of sparse vector, paid for once.


@dataclass(frozen=True)
class SparseWeightsQuote(WeightsQuote):
    """Where a histogram of this form stands. Nothing in it depends on unpublished data, so it is free.

    As in `WeightsQuote`, where `hard_left` is how many hard answers there may still be at this size (0 where other
    processes have more rows and are further on), `epsilon` that of the round of the next query. At `more_at` rows there
    may be one more than now. `reached` counts the noise of that round for all the queries, spread over the rounds that
    are left.
    """

    more_at: int

    def __str__(self) -> str:
        if not self.hard_left:
            return f"{self.hard} hard queries so far: the histogram answers alone until there are {self.more_at} rows"
        return f"{super().__str__()}; one more at {self.more_at} rows"


class SparseWeightsState(HistogramState):
    """A public histogram that is corrected in rounds of sparse vector, all paid at the opening.

    When no further hard answer can be had at the present size, the histogram answers alone until the table has grown.
    """

    def __init__(self, spine: Spine, call: int, started: "OpenSparseWeights") -> None:
        super().__init__(spine, call, started)
        self._started = started

    def standing(self, *, queries: int = 1000) -> SparseWeightsQuote:
        size, rule, state = self.asked(None).size, self._rule, HistogramRound.load(self._secret())
        rounds, hard = self._started.rounds, len(state.transcript.changes)
        allowed, since = rounds.allowance.most(size), size if state.shift is None else state.size
        left = max(0, allowed - hard)
        start, cells = self._started.size, self.universe.cells
        sizes = {"cells": cells, "start": start, "size": max(size, start)}
        return SparseWeightsQuote(
            hard=hard,
            hard_left=left,
            most_hard=pmw.hard_answers_up(alpha=rule.alpha, **sizes, update=rule.update, mixing=rule.mixing),
            epsilon=float(rounds.epsilon_down(state.next, since)),
            alpha=float(rule.alpha),
            queries=queries,
            reached=self._reached(state.next, since, queries, left),
            more_at=rounds.allowance.opens(max(allowed + 1, state.next)),
        )

    def _reached(self, number: int, since: int, queries: int, left: int) -> float:
        noise = self._started.machine(number, since).answers
        if left == 0 or noise is None:
            return float("inf")
        told = self._started.told(number, since) | {"round": number - 1 + min(queries, left)}
        return self.asked(None).reached(told, noise, queries, left)

    def _noise_now(self) -> Json:
        state = HistogramRound.load(self._secret())
        size = series.public_size(self._spine.rows) if state.shift is None else state.size
        return self._started.told(state.next, size)

    def asked(self, where: AskedShare) -> AskSparseWeights:
        size = series.public_size(self._spine.rows)
        return AskSparseWeights(self.call, self._started, condition_text(where), size, self._memory)

    def _loaded(self, secret: bytes) -> Transcript:
        return HistogramRound.load(secret).transcript


# Public histograms that are corrected in rounds of sparse vector, paid for once: opening one, and going on with it.


@call("sparse_weights", subject="weights")
class PrepaidPMW(Opening[Run[WeightedAnswer, SparseWeightsState]]):
    """Answer any number of queries about shares of rows from a public histogram; all is paid now, for ever.

    Guarantee: epsilon-DP, or rho-zCDP (for sessions with a delta; more accurate), for all answers together, however
    far the table grows. Hard queries are found by rounds of sparse vector with one hit each ([GROW] Algorithm 3);
    as many may begin as the theorem allows hard answers, more as the table grows, and then the histogram answers
    alone. `rounds` foresees so many at the start instead, which is far more accurate where fewer suffice. A larger
    `exponent`, below 1, favours late rounds over early ones. `update` and `mixing` are those of `PMW`; with
    `constants="published"`, "published" and 1 all is as in [GROW], epsilon-DP or (epsilon, delta)-DP.
    `chary.accounting.weights` has calculators of the accuracy.

    Errors: `InvalidQuery` where the number of rows is secret (open with `neighbors="replace"`, `privacy_unit=None`),
    `InvalidParameter` for published constants that do not keep the budget, `NotPriced`, `BudgetExceeded`.
    """

    _: KW_ONLY
    universe: Cells
    alpha: Exact
    epsilon: Positive | None = None
    rho: Positive | None = None
    delta: Exact = 0
    exponent: Probability = "1/2"
    constants: pmw.Constants = "exact"
    rounds: Whole | None = None
    update: Update = "projected"
    mixing: Exact = "0.1"

    def __post_init__(self) -> None:
        failing(self.delta)

    def bind(self, spine: Spine) -> "OpenSparseWeights":
        return OpenSparseWeights(self, spine.rows.neighbor_relation, series.public_size(spine.rows))


class OpenSparseWeights(OpenHistogram[PrepaidPMW]):
    """A uniform public histogram over a universe, and the budget of all rounds that will correct it.

    Nothing is read but the public size.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_noise()

    def _check_noise(self) -> None:
        """Refuse constants that do not keep the budget, and a first round whose noise is out of range."""
        first = self.rounds.epsilon_down(1, self.size)
        try:
            self.machine(1, self.size)
            return
        except InvalidParameter:
            pass
        raise InvalidParameter(
            f"so many rounds leave an epsilon of {plain(first)} for the first, too little for any noise: give a larger "
            "alpha=, epsilon= or rho=, or a small number of rounds="
        )

    @cached_property
    def rounds(self) -> pmw.WeightRounds:
        """What each round may spend."""
        return pmw.weight_rounds(
            alpha=self.rule.alpha,
            cells=self.universe.cells,
            start=self.size,
            update=self.rule.update,
            mixing=self.rule.mixing,
            exponent=self.call.exponent,
            constants=self.call.constants,
            epsilon=self.call.epsilon,
            rho=self.call.rho,
            delta=self.call.delta,
            rounds=self.call.rounds,
        )

    def machine(self, number: int, size: int) -> SparseVectorMachine:
        """The sparse vector of a round that began at this size."""
        return SparseVectorMachine(self.rounds.noise(number, size), count().sensitivity(self.neighbor_relation))

    @property
    def event(self) -> Event:
        return self.rounds.event

    def body(self) -> Json:
        return super().body() | {"rounds": self.call.rounds}

    @property
    def fresh(self) -> bytes:
        return HistogramRound().dump()

    @property
    def first_told(self) -> Json:
        return self.told(1, self.size)

    def told(self, number: int, size: int) -> Json:
        """What an answer says of a round that began at this size."""
        return {"round": number, "epsilon": str(self.rounds.epsilon_down(number, size))}

    def tails(self, told: Json) -> intervals.Tails:
        noise = self.rounds.noise_of(Fraction(told["epsilon"]))
        return sparse_vector.SparseTails(noise.scaled(count().sensitivity(self.neighbor_relation)))


class PrepaidPMWRun(HistogramRun):
    """A histogram whose rounds were paid at the opening."""

    kind = PrepaidPMW.kind

    @cached_property
    def state(self) -> SparseWeightsState:
        told = {name: size for name, size in self._terms.items() if name not in ("columns", "missing")}
        opening = PrepaidPMW(universe=axes.Universe.of_body(self._terms), **told)
        started = OpenSparseWeights(opening, self._spine.rows.neighbor_relation, self.size_then())
        return SparseWeightsState(self._spine, self.call, started)


# Public histograms whose hard answers are charged one by one: opening one, and going on with it.

# Between these the largest call of which so many fit is looked for; smaller ones are no use to anybody.
LARGEST_EPSILON, SMALLEST_EPSILON = 10.0, 1e-12
_TOLD: Final = (
    "hits=60 (so many fit), price= (the share of the budget for one), tests=1000 (all told within alpha/3), or "
    "epsilon= for Laplace noise"
)
# What ledgers keep of a call under the names of its fields.
_OWN: Final = ("alpha", "follow_size", "update", "mixing", "hits", "price", "tests", "sure", "value")


@call("multiplicative_weights", subject="weights")
class PMW(Opening[Run[WeightedAnswer, WeightsState]]):
    """Answer any number of queries about shares of rows from a public histogram; pay only where it is off.

    Guarantee: each query is one call that hits if it is "hard"; opening is free. `alpha` is how far answers may be off.
    How sharply hard is told from easy is said in one way: `hits`, so many hard answers fit into the whole budget;
    `price`, the share of the whole budget that one may take; `tests` alone, the least price at which so many queries
    are told rightly within alpha/3, with probability `sure` (0.95); or `epsilon`, that of a call. The first three are
    `SharpTest`, with an unbiased value for the part `value` (a quarter) of the price; with `tests` the bar lies half
    way between false alarms and misses. They need a session with a delta and the Renyi filter, but for `hits`, which
    under other filters is the largest call by Laplace noise of which so many fit. A call of that form is epsilon-DP
    with the NotPrior target "hard".

    Sizes are those at the opening. With `follow_size` calls get smaller as the table grows, so that more hits fit;
    otherwise answers get more accurate. `update` and `mixing` are those of
    `chary.mechanisms.weights`; "published" and 1 reproduce [GROW].

    Errors: `InvalidQuery` where the number of rows is secret (open with `neighbors="replace"`, `privacy_unit=None`) or
    columns have other types; `NotPriced` under another filter.
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
    sure: Probability | None = None
    value: Probability | None = None

    def __post_init__(self) -> None:
        if self.tests is None or any(way is not None for way in (self.epsilon, self.hits, self.price)):
            sharp.check_one_way(self, ("epsilon", "hits", "price"), _TOLD)
        sharp.check_tests(self)

    def bind(self, spine: Spine) -> "OpenWeights | OpenSharpWeights":
        size, neighbor_relation, filter_ = series.public_size(spine.rows), spine.rows.neighbor_relation, spine.filter
        if self.epsilon is None and (isinstance(filter_, RenyiFilter) or self._only_sharp):
            renyi = sharp.priced_by(filter_, "give epsilon= for Laplace noise")
            return OpenSharpWeights(self, neighbor_relation, size, self.terms(renyi, size))
        usual = self.epsilon or _fitting(filter_, self.hits or 1)
        return OpenWeights(replace(self, epsilon=usual, hits=None), neighbor_relation, size)

    def terms(self, filter_: RenyiFilter, size: int) -> sharp.HitTerms:
        """The sharp tests that are asked for, of a table of this size."""
        alone = self.hits is None and self.price is None
        within = Fraction(self.alpha) / 3 * size if alone else None
        wanted = sharp.Wanted.said(self, within=within)
        return sharp.HitTerms.found(wanted, filter_, Fraction(1), self.value_share)

    @property
    def value_share(self) -> Fraction:
        """The part of the price of a hard answer that its count takes."""
        return sharp.value_part(self.value)

    @property
    def _only_sharp(self) -> bool:
        """Whether something was said that only a sharp test has."""
        return any(said is not None for said in (self.price, self.tests, self.value))


class OpenWeights(OpenHistogram[PMW], FreeOpening[PMW]):
    """A uniform public histogram over a universe; its call says `epsilon`, that of a call at the size of the opening.

    Nothing is read but the public size, and nothing is charged. With `follow_size` a call at t rows is smaller by the
    size of the opening over t, so that noise stays the same part of the table; otherwise calls stay as they are and
    noise shrinks.
    """

    @property
    def event(self) -> Event:
        return Targeted(self.call.epsilon or 0)

    def asked(self, opened: int, text: str, size: int, memory: HistogramMemory) -> AskWeights:
        """A query at this size."""
        return AskWeights(opened, self, text, size, memory)

    def body(self) -> Json:
        told = super().body()
        return told | {"epsilon_per_call": told.pop("epsilon")}

    @property
    def fresh(self) -> bytes:
        return Transcript().dump()

    @property
    def first_told(self) -> Json:
        return {"epsilon": str(self.call.epsilon)}

    def tails(self, told: Json) -> intervals.Tails:
        return laplace_for(count(), self.neighbor_relation, Fraction(told["epsilon"])).law()


@dataclass(frozen=True)
class OpenSharpWeights(OpenHistogram[PMW], FreeOpening[PMW]):
    """The same histogram, told hard from easy by sharp tests.

    The answer keeps the price of a hit at the size of the opening: it may have been found in floats, so it is read
    again and never found anew. With `follow_size` the price at t rows is smaller by the square of that size over t.
    """

    terms: sharp.HitTerms = field(compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.terms.sharpness(), self.terms.noise()  # refuses what has no table

    @property
    def event(self) -> Event:
        return self.terms.event

    def asked(self, opened: int, text: str, size: int, memory: HistogramMemory) -> AskSharpWeights:
        """A query at this size."""
        return AskSharpWeights(opened, self, text, size, memory)

    @property
    def fresh(self) -> bytes:
        return Transcript().dump()

    @property
    def first_told(self) -> Json:
        return {"price": str(self.terms.price)}

    def tails(self, told: Json) -> intervals.Tails:
        return replace(self.terms, price=Fraction(told["price"])).sharpness().tails

    def run(self, data: Data) -> Result:
        ran = super().run(data)
        return replace(ran, answer=ran.answer | self.first_told)


class PMWRun(HistogramRun):
    """A histogram whose hard answers are charged one by one."""

    kind = PMW.kind

    @cached_property
    def state(self) -> WeightsState:
        own = {name: told for name, told in self._terms.items() if name in _OWN}
        opening = PMW(universe=axes.Universe.of_body(self._terms), epsilon=self._terms.get("epsilon_per_call"), **own)
        neighbor_relation, size = self._spine.rows.neighbor_relation, self.size_then()
        if opening.epsilon is not None:
            return WeightsState(self._spine, self.call, OpenWeights(opening, neighbor_relation, size))
        filter_ = sharp.priced_by(self._spine.filter, "open another histogram with epsilon=")
        terms = sharp.HitTerms(
            filter_, Fraction(self.opened_as["price"]), opening.value_share, sharp.Wanted.said(opening).chance
        )
        return WeightsState(self._spine, self.call, OpenSharpWeights(opening, neighbor_relation, size, terms))


def _fitting(filter_: Filter, hits: int) -> Fraction:
    """The largest call by Laplace noise of which so many hits fit into the whole budget."""

    def fits(size: float) -> bool:
        try:
            copies = filter_.price(Targeted(Fraction(size))).hit.copies_in(filter_.capacity)
        except CharyError:
            return False
        return copies is None or copies >= hits

    if not fits(SMALLEST_EPSILON):
        raise BudgetExceeded(f"{hits} hard answers do not fit into the budget")
    return four_digits_down(largest_size(fits, LARGEST_EPSILON))
