"""Private multiplicative weights in a session: each query is one conditional release whose prior is "easy"."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from chary.accounting.intervals import Tails
from chary.accounting.weights import EQUAL_QUESTIONS, easy_chance, easy_error_up
from chary.answers import Answer, Ends, Known, around
from chary.calls.openings import BoundOpening
from chary.core.plan import BETA, Interaction, Json, Ran, Touched
from chary.core.quote import NOT_KEPT
from chary.data import Count, Linear, Predicate, Query, Reading, Rows, count
from chary.data.columns import Schema
from chary.data.domain.linear import linear_of
from chary.data.domain.regions import Region, located, matrix
from chary.data.domain.universe import Universe
from chary.data.domain.weighted_regions import RowSum, WeightedRegion, WeightReader, weighing
from chary.data.size import public_size
from chary.errors import InvalidQuery, UnknownHeld
from chary.mechanisms import Additive
from chary.mechanisms.weights import MultiplicativeWeights, Transcript
from chary.mechanisms.weights import WeightVector as Learned
from chary.numbers import Number, plain

if TYPE_CHECKING:
    from chary.calls.weights.sparse_weighting import SparseWeights
    from chary.calls.weights.weighting import Weights

HistogramT = TypeVar("HistogramT", bound="Weights | SparseWeights")
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
    def universe(self) -> Universe:
        """The cells of the histogram."""
        return Universe.of(self.call.universe)

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
    def tails(self, told: Json) -> Tails:
        """How far beyond what is easy counts are missed, by the noise of an answer that says so much of it."""

    def easy_error(
        self, told: Json, place: int, *, size: int, rounding: Number = 0, confidence: Number = 1 - BETA
    ) -> float:
        """How far an easy answer with this noise is off at most, so that with `confidence` all of the run are within
        theirs; it is the place-th question at most. Above 1 it says nothing."""
        chance = easy_chance(place, told.get("round"), confidence)
        return easy_error_up(self.tails(told), alpha=self.rule.alpha, size=size, chance=chance, rounding=rounding)

    def foretold(self) -> str:
        return promised(self.easy_error(self.first_told, EQUAL_QUESTIONS, size=self.size), self.rule.alpha)

    def body(self) -> Json:
        told = super().body()
        cells: Json = told.pop("universe")
        return cells | told

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        public_size(rows)
        self.universe.check(rows.schema)
        return []

    def run(self, touched: Touched) -> Ran:
        return Ran({"size": self.size}, hits=0, tests=0, secret=self.fresh)


class HistogramMemory:
    """The histogram that a transcript describes, kept from call to call. All of it is public."""

    def __init__(self, started: OpenHistogram[Any], schema: Schema) -> None:
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

    def located(self, text: str) -> tuple[Region | WeightedRegion, Count]:
        """The cells of a query and the count of its rows. The weights of a linear query are added up to whole rows,
        which one row moves by as much as the count of all rows."""
        if (linear := linear_of(text)) is not None:
            return weighing(self._started.universe, self._schema, linear), count()
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
    def located(self) -> tuple[Region | WeightedRegion, Count]:
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
            raise UnknownHeld(f"call {self.opened} keeps no histogram: it was interrupted; open a new one")

    def body(self) -> Json:
        return {"weights": self.opened, "where": self.text_of_query} | self.terms

    def queries(self) -> Sequence[Query]:
        return [self.located[1]] if self.linear is None else []

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        if self.linear is None:
            return super().prepare(rows)
        return [WeightReader(rows, self.started.universe, self.linear)]

    def counted(self, touched: Touched) -> int:
        """The rows that satisfy the condition, or the sum of their weights in whole rows."""
        read = touched.values[0]
        return read.rows if isinstance(read, RowSum) else touched.integer()

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
    told = f"easy answers are within {plain(error)}, all of the first {EQUAL_QUESTIONS:,}, 95 times in 100"
    return told if error <= Fraction(alpha) else f"{told}: {NOT_KEPT}"
