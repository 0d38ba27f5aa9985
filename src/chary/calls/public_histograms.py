"""Public histograms of private multiplicative weights: their distributions, what is kept of them, and the questions to
them."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from threading import RLock
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from chary.accounting import Event, Targeted, intervals, sparse_vector
from chary.accounting import weights as pmw
from chary.answers import Ends
from chary.calls import sharpness as sharp
from chary.calls.fields import AskedShare, condition
from chary.core.forecast import ExpectedHard, Forecast, error_bar
from chary.core.plan import BETA, FREE, Data, Json, laplace_for, reading
from chary.core.quote import NOT_KEPT
from chary.data import Count, Linear, NeighborRelation, Predicate, Reading, Rows, RowTable, count
from chary.data.columns import Schema
from chary.data.queries.statistic import Statistic
from chary.data.series import public_size
from chary.data.table import read_one_version
from chary.data.universe import axes, counts
from chary.data.universe.linear import by_cells, linear_of
from chary.data.universe.regions import Region, located, matrix
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms import Additive, Gaussian, HiddenThreshold, Laplace, SparseVectorMachine
from chary.mechanisms.additive import SMALL, padded, unpadded
from chary.mechanisms.weights import Change, Easy, MultiplicativeWeights, Transcript, WeightVector
from chary.noise import Seeded, Source
from chary.numbers import CONFIDENT, Number, plain, whole, work_out

EVERYTHING = "TRUE"
# A histogram that is refitted goes over the cells of all earlier answers, whose conditions take longer to read.
KEPT_REGIONS = 256
# How far a hard answer may be off when it is taught to the histogram: wrong once in 10,000 of them.
NEARLY_SURE = 0.9999

# The state that is stored with an opening, and the results of questions.

NOTHING = Transcript()


@dataclass(frozen=True)
class HistogramRound:
    """The state of a prepaid histogram: its published changes, and the number of rounds that have begun.

    For an open round also `size`, the rows when it began, and `shift`, the secret noise of its threshold (else None).
    """

    transcript: Transcript = NOTHING
    begun: int = 0
    size: int = 0
    shift: int | None = None

    @property
    def changes(self) -> tuple[Change, ...]:
        """The published ones."""
        return self.transcript.changes

    def next(self, size: int) -> tuple[int, int]:
        """The round of a question at this size: its number, and the size at which it begins or began."""
        return (self.begun + 1, size) if self.shift is None else (self.begun, self.size)

    @property
    def hard(self) -> int:
        """How many of them were hard answers."""
        return self.transcript.hard

    def then(self, *changes: Change) -> Self:
        """With some more changes; a hard answer among them ends the round."""
        shift = None if any(change.hard for change in changes) else self.shift
        return type(self)(self.transcript.then(*changes), self.begun, self.size, shift)

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


Held = Transcript | HistogramRound


class CheckedShare(NamedTuple):
    """The result of testing one proportion.

    `held` is the state with the round that began for it, `told` the noise as the answer stores it. A hard answer has
    the noisy count, its noise, and in rounds also whether it was found above the histogram's answer.
    """

    held: Held
    told: Json
    noisy: int | None = None
    noise: Additive | None = None
    above: bool | None = None


class Checked(NamedTuple):
    """One question to a histogram: the histogram's proportion, the result, and the state after it."""

    share: float
    found: CheckedShare
    then: Held


# How hard is distinguished from easy where each hard answer is charged.


@dataclass(frozen=True)
class LaplaceHits:
    """By Laplace noise: what is published is a function of an epsilon-DP count."""

    neighbor_relation: NeighborRelation
    epsilon: Fraction

    def __post_init__(self) -> None:
        work_out(self.noise)  # refuses noise out of range

    @cached_property
    def noise(self) -> Laplace:
        """That of a count."""
        return laplace_for(count(), self.neighbor_relation, self.epsilon)

    @property
    def event(self) -> Event:
        """That of a hit."""
        return Targeted(self.epsilon)

    @property
    def told(self) -> Json:
        """The noise as questions and answers store it."""
        return {"epsilon": str(self.epsilon)}

    @property
    def tails(self) -> intervals.Tails:
        """How far off a count may be."""
        return self.noise.law()

    def of(self, told: Json) -> Self:
        """The terms that an answer with this entry was made with."""
        return replace(self, epsilon=Fraction(told["epsilon"]))

    def grown(self, start: int, size: int) -> Self:
        """The terms at `size` rows, if calls get smaller as the table grows from `start` rows on."""
        return replace(self, epsilon=self.epsilon * Fraction(start, max(start, size)))

    def test(self, held: Held, easy: Easy, rows: int, source: Source) -> CheckedShare:
        """Compare the noisy count with what is easy."""
        noisy = self.noise.apply_one(rows, source)
        if easy.low <= noisy <= easy.high:
            return CheckedShare(held, self.told)
        return CheckedShare(held, self.told | {"easy": [easy.low, easy.high]}, noisy, self.noise)

    def forecast(self) -> Forecast:
        """The noise decides what is published."""
        return Forecast(
            error_bar=error_bar((self.noise, Fraction(1))),
            decides=True,
            step=Fraction(1),
            wrong=self.noise.wrong_call,
        )

    def interval(self, answer: Json, rounding: float) -> Ends | None:
        """The interval of a proportion, given that its noise took it out of the easy range. None for answers of old
        ledgers, which do not contain that range."""
        if "easy" not in answer:
            return None
        size, support = answer["size"], intervals.Support.outside(*answer["easy"])
        known = intervals.Publication(self.noise.law(), support, floor=0, ceiling=size)
        low, high = known.interval(answer["count"])
        least = None if low is None else max(0.0, (low - rounding) / size)
        return least, None if high is None else min(1.0, (high + rounding) / size)


@dataclass(frozen=True)
class SharpHits:
    """Optimal tests of whether the count is outside of the easy range, and at a hit a count with fresh noise.

    Guarantee: `SharpTest`. How far a count is outside moves by no more than the count. So its probability of a hit is
    that of a neighbour on the chain, on whichever side it is. The count that is published was drawn for that alone.
    """

    terms: sharp.HitTerms
    wanted: sharp.Wanted

    def __post_init__(self) -> None:
        work_out(self.sharpness, self.noise)  # refuses what has no table

    @cached_property
    def sharpness(self) -> sharp.Sharpness:
        """The test."""
        return self.terms.sharpness()

    @cached_property
    def noise(self) -> Gaussian:
        """That of a count."""
        return self.terms.noise()

    @property
    def event(self) -> Event:
        """That of a hit."""
        return self.terms.event

    @property
    def told(self) -> Json:
        """The cost of a hit as questions and answers store it."""
        return {"price": str(self.terms.price)}

    @property
    def tails(self) -> intervals.Tails:
        """How far outside a count may be missed."""
        return self.sharpness.tails

    def of(self, told: Json) -> Self:
        """The terms that an answer with this entry was made with."""
        return replace(self, terms=replace(self.terms, price=Fraction(told["price"])))

    def grown(self, start: int, size: int) -> Self:
        """The terms at `size` rows, if the speed falls as the table grows from `start` on; the cost is its square."""
        return replace(self, terms=self.terms.slower(Fraction(start, max(start, sharp.coarse_down(size)))))

    def test(self, held: Held, easy: Easy, rows: int, source: Source) -> CheckedShare:
        """Test how far the count is outside of the easy range; from 1 on it is outside."""
        outside = max(rows - easy.high, easy.low - rows)
        if not self.sharpness.sampler.step(outside - 1 + self.sharpness.bar, source):
            return CheckedShare(held, self.told)
        return CheckedShare(held, self.told, self.noise.apply_one(rows, source), self.noise)

    def forecast(self) -> Forecast:
        """The error of values, and the margin of the tests together."""
        within = self.sharpness.within
        return Forecast(
            error_bar=error_bar((self.noise, Fraction(1))),
            step=Fraction(1),
            wrong=self.sharpness.wrong_call,
            within=within,
            foreseen=sharp.together(self.wanted, within),
        )


Hits = LaplaceHits | SharpHits

# What was fixed when a histogram was opened.


@dataclass(frozen=True)
class HistogramLaw(ABC):
    """The terms of a public histogram over a universe that was opened at `size` rows.

    `kept` is the class of the stored state. `stated`: the number of rows is secret, and `size` stands for it for good.
    `warm`: it starts from another histogram, otherwise from the uniform one.
    """

    universe: axes.Universe
    rule: MultiplicativeWeights
    size: int
    stated: bool = field(default=False, kw_only=True)
    warm: bool = field(default=False, kw_only=True)
    kept: ClassVar[type[Transcript] | type[HistogramRound]] = Transcript

    @property
    @abstractmethod
    def event(self) -> Event:
        """The event of the opening, or of a hit at its size where hits are charged."""

    def rows_of(self, rows: Rows) -> int:
        """The number of rows that proportions refer to: the one that was stated, or the public number."""
        return self.size if self.stated else public_size(rows)

    @abstractmethod
    def test_at(self, size: int) -> Callable[..., CheckedShare]:
        """The test of a proportion of this many rows, a function of state, easy range, count and noise source."""

    def refused(self, held: Any, size: int) -> str | None:
        """The reason why no answer can be hard at this size; None where one can."""
        return None

    @abstractmethod
    def now(self, held: Any, size: int) -> tuple[Json, Additive | None]:
        """The noise of an answer at this size as it is stored, and the noise of the count of a hard answer."""

    @abstractmethod
    def tails(self, told: Json) -> intervals.Tails:
        """How far outside of the easy range counts are missed, by the noise that an answer stores."""

    def published(self, answer: Json, rounding: float) -> tuple[float | None, Ends | None]:
        """The error bar of a hard answer, or its interval where it has no noise of its own."""
        return min(1.0, answer["error_bar"]), None

    def easy_error(
        self, told: Json, place: int, *, size: int, rounding: Number = 0, confidence: Number = 1 - BETA
    ) -> float:
        """How far an easy answer with this noise is off at most, so that with `confidence` all of the run are within
        theirs; it is the place-th question at most. Above 1 it says nothing."""
        chance = pmw.easy_chance(place, told.get("round"), confidence)
        return pmw.easy_error_up(self.tails(told), alpha=self.rule.alpha, size=size, chance=chance, rounding=rounding)

    def reached(self, held: Held, size: int, queries: int, left: int | None) -> float:
        """The error of this many answers from now on, all together, with 95 % confidence.

        At most `left` of them are hard. Easy ones have the noise of now; each kind fails with half of the probability.
        """
        told, noise = self.now(held, size)
        if left == 0 or noise is None:
            return math.inf
        hits = queries if left is None else min(queries, left)
        if "round" in told:
            told |= {"round": told["round"] - 1 + hits}
        easy = self.easy_error(told, queries, size=size, confidence=1 - BETA / 2)
        return max(easy, noise.error_bar(float(1 - BETA / 2 / max(1, hits))) / size)

    def most_hard(self, size: int) -> float:
        """The hard answers at most until there are this many rows, while all answers are within alpha/3."""
        rule = self.rule
        return pmw.hard_answers_up(
            alpha=rule.alpha,
            cells=self.universe.cells,
            start=self.size,
            size=max(size, self.size),
            update=rule.update,
            mixing=rule.mixing,
            warm=self.warm,
        )

    def promised(self, held: Held, size: int) -> str:
        """The error of easy answers from now on, in words, with a warning where it is more than alpha."""
        error = self.easy_error(self.now(held, size)[0], pmw.EQUAL_QUESTIONS, size=size)
        if error >= 1:
            return f"easy answers may have any error, since the noise hides all: {NOT_KEPT}"
        within = f"with {CONFIDENT}, the first {pmw.EQUAL_QUESTIONS:,} easy answers are all within {plain(error)}"
        return within if error <= Fraction(self.rule.alpha) else f"{within}: {NOT_KEPT}"


@dataclass(frozen=True)
class PMWLaw(HistogramLaw):
    """Terms of a histogram whose hard answers are charged one by one; `hits` are those at the size of the opening.

    With `follow`, calls get cheaper as rows arrive, and the noise stays the same fraction of the table. Otherwise the
    cost stays the same, and that fraction falls.
    """

    hits: Hits
    follow: bool

    def at(self, size: int) -> Hits:
        """The tests at this size."""
        return self.hits.grown(self.size, size) if self.follow else self.hits

    @property
    def event(self) -> Event:
        return self.hits.event

    def test_at(self, size: int) -> Callable[..., CheckedShare]:
        return self.at(size).test

    def now(self, held: Transcript, size: int) -> tuple[Json, Additive]:
        hits = self.at(size)
        return hits.told, hits.noise

    def tails(self, told: Json) -> intervals.Tails:
        return self.hits.of(told).tails

    def published(self, answer: Json, rounding: float) -> tuple[float | None, Ends | None]:
        if isinstance(self.hits, LaplaceHits):
            return None, self.hits.of(answer).interval(answer, rounding)
        return super().published(answer, rounding)


@dataclass(frozen=True)
class PrepaidPMWLaw(HistogramLaw):
    """Hard answers are found by rounds of sparse vector, all of which the opening has paid for.

    Each question is two queries to the sparse vector of its round: the count less the histogram's, and the histogram's
    less the count. Each has its own noise and is compared with 2 alpha/3 of the rows and the hidden noise of the round,
    in integers. The first question of a round draws that noise. A hit publishes the count with noise of its own and
    ends the round. Errors: `InvalidParameter` for constants that leave the first round too little for any noise.
    """

    rounds: pmw.WeightRounds
    neighbor_relation: NeighborRelation
    kept = HistogramRound

    def __post_init__(self) -> None:
        first = self.rounds.epsilon_down(1, self.size)
        try:
            self.machine(1, self.size)
            return
        except InvalidParameter:
            pass
        raise InvalidParameter(
            f"this number of rounds leaves an epsilon of {plain(first)} for the first, too little: give a larger "
            "alpha=, epsilon= or rho=, or a small number of rounds="
        )

    def machine(self, number: int, size: int) -> SparseVectorMachine:
        """The sparse vector of a round that began at this size."""
        return SparseVectorMachine(self.rounds.noise(number, size), count().sensitivity(self.neighbor_relation))

    @property
    def event(self) -> Event:
        return self.rounds.event

    def test_at(self, size: int) -> Callable[..., CheckedShare]:
        return partial(self.test, size)

    def refused(self, held: HistogramRound, size: int) -> str | None:
        number, allowance = held.next(size)[0], self.rounds.allowance
        if number <= allowance.most(size):
            return None
        return (
            f"round {number} may begin at {allowance.opens(number)} rows at the earliest, and there are {size}: until "
            "then the histogram answers alone"
        )

    def now(self, held: HistogramRound, size: int) -> tuple[Json, Laplace | None]:
        begins = held.next(size)
        return self.told(*begins), self.machine(*begins).answers

    def told(self, number: int, size: int) -> Json:
        """A round that began at this size, as answers store it."""
        return {"round": number, "epsilon": str(self.rounds.epsilon_down(number, size))}

    def tails(self, told: Json) -> intervals.Tails:
        noise = self.rounds.noise_of(Fraction(told["epsilon"]))
        return sparse_vector.SparseTails(noise.scaled(count().sensitivity(self.neighbor_relation)))

    def test(self, size: int, held: HistogramRound, easy: Easy, rows: int, source: Source) -> CheckedShare:
        """Two queries to the sparse vector of the round, which begins if none is under way."""
        begins = held.next(size)
        machine, told = self.machine(*begins), self.told(*begins)
        if held.shift is None:
            held = HistogramRound(held.transcript, *begins, machine.start(source).shift)
        beyond = np.array([rows - easy.high - 1, easy.low - 1 - rows])
        crossed = machine.step(HiddenThreshold(held.shift or 0), beyond, 0, source)[1]
        if not crossed.values:
            return CheckedShare(held, told)
        above, value = crossed.positions == [0], crossed.values[0]
        noisy = easy.high + 1 + value if above else easy.low - 1 - value
        return CheckedShare(held, told | {"above": above}, noisy, machine.answers, above)


# Questions, and the histogram that they are about.


@dataclass(frozen=True)
class ShareQuestion:
    """A proportion of the rows, or their average weight, at a public size: its cells, and the readings it needs.

    Rows that come after `size` was read may be counted already: that costs accuracy, never privacy, since a row still
    moves the count by 1. Where a sum of weights is reported in whole rows it may be off by `rounding`.
    """

    text: str
    size: int
    cells: Region | counts.WeightedRegion = field(repr=False)
    reads: Callable[[Rows], Sequence[Reading]] = field(repr=False)
    rounding: float = 0.0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidQuery("there are no rows here: append those that the histogram is about")

    def counted(self, data: Data) -> int:
        """The rows that satisfy the condition, or the sum of their weights in whole rows."""
        read = data.values[0]
        return read.rows if isinstance(read, counts.RowSum) else data.integer()

    def off(self, noise: Additive, *confidence: float) -> float:
        """The largest error of a noisy proportion with this confidence."""
        return (noise.error_bar(*confidence) + self.rounding) / self.size


class HistogramMemory:
    """The histogram that a transcript describes, kept from call to call. All of it is public."""

    def __init__(self, law: HistogramLaw, schema: Schema) -> None:
        self._law, self._schema = law, schema
        self._weights = self._fresh()
        self._lock = RLock()

    @contextmanager
    def at(self, changes: tuple[Change, ...]) -> Iterator[WeightVector]:
        """The histogram after these changes; it applies those that are missing, or all of them to a fresh one."""
        with self._lock:
            done = self._weights.changes
            if changes[: len(done)] != done:
                self._weights, done = self._fresh(), ()
            for change in changes[len(done) :]:
                self._weights.apply(change, self._located(change.query)[0])
            # The same objects are compared at once.
            self._weights.changes = changes
            yield self._weights

    def checked(
        self, held: Held, asked: ShareQuestion, rows: int, test: Callable[..., CheckedShare], source: Source
    ) -> Checked:
        """Compare the histogram with a count of rows; a hard answer changes it by what was published."""
        rule, size = self._law.rule, asked.size
        with self.at(held.changes) as weights:
            share = weights.share(asked.cells, size)
            found = test(held, rule.easy(share, size), rows, source)
            if found.noisy is None or found.noise is None:
                return Checked(share, found, found.held)
            margin = asked.off(found.noise, NEARLY_SURE)
            change = weights.change(asked.text, asked.cells, size, found.noisy / size, margin, found.above)
            return Checked(share, found, found.held.then(*self.learnt(change)))

    def learnt(self, change: Change) -> tuple[Change, ...]:
        """This change of the present histogram, and where it is refitted the changes by earlier answers that follow.

        Call it inside `at`: if the changes are not stored, the next `at` makes the histogram anew.
        """
        weights, found = self._weights, [change]
        same = [told for told in weights.changes if change.low is not None and told.size == change.size]
        weights.apply(change, self._located(change.query)[0])
        for told in reversed([told for told in same if told.low is not None]):
            cells = self._located(told.query)[0]
            following = weights.again(told, cells)
            if following.factor != 1:
                weights.apply(following, cells)
                found.append(following)
        return tuple(found)

    def inherited(self, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """The changes of another histogram, and a last one that mixes in the uniform histogram; none for no changes.

        Intervals that the other one learned are left out, since they are about its own rows.
        """
        size = self._law.size
        others = tuple(replace(change, size=size, low=None, high=None, hard=False) for change in changes)
        with self.at(others) as weights:
            return (*others, weights.mixed(EVERYTHING)) if others else ()

    def asked(self, where: AskedShare, size: int) -> ShareQuestion:
        """The question, validated: `InvalidQuery` for what the universe cannot express, and where there are no rows."""
        if isinstance(where, Statistic):
            where = by_cells(where, self._law.universe, self._schema)
        said = condition(where)
        text = EVERYTHING if said is None else said.text
        cells, read = self._located(text)
        if isinstance(read, Count):
            return ShareQuestion(text, size, cells, reading(read))
        return ShareQuestion(
            text, size, cells, lambda rows: [counts.WeightReader(rows, self._law.universe, read)], rounding=0.5
        )

    @cached_property
    def _located(self) -> Callable[[str], tuple[Region | counts.WeightedRegion, Count | Linear]]:
        return lru_cache(maxsize=KEPT_REGIONS)(self._worked_out)

    def _worked_out(self, text: str) -> tuple[Region | counts.WeightedRegion, Count | Linear]:
        """The cells of a query, and the query that reads the rows. The sum of a linear query's weights is rounded to
        whole rows, so that one row moves it by no more than a count."""
        universe = self._law.universe
        if (linear := linear_of(text)) is not None:
            return counts.weighing(universe, self._schema, linear), linear
        return located(universe, self._schema, None if text == EVERYTHING else Predicate.parse(text))

    def _fresh(self) -> WeightVector:
        return WeightVector(self._law.rule, *matrix(self._law.universe), self._law.size)


# How many answers of a run are expected to be hard: simulated on a public example.

# Enough to see how much the noise alone changes: one takes about a second for 1,000 questions to 100,000 cells.
SIMULATIONS: Final = 5


def expected_hard(
    law: HistogramLaw,
    schema: Schema,
    held: Held,
    size: int,
    queries: Sequence[AskedShare],
    like: Any,
    *,
    simulations: int = SIMULATIONS,
    seed: int = 0,
) -> ExpectedHard:
    """The number of hard answers in simulations of these questions, in this order, from the state `held` on.

    Each simulation has `size` rows, of which each question is true for the same proportion as in `like`. It uses the
    tests and changes of the run, with noise of its own. `like` is a public table, or a file, with the
    columns of the universe: the rows of the dataset are not read.

    Errors: `InvalidParameter` without questions, or without an example that has rows; those of the questions.
    """
    if isinstance(queries, str) or not isinstance(queries, Iterable) or not (queries := list(queries)):
        raise InvalidParameter("list the questions that will be asked, one for each time: queries=[...]")
    if like is None:
        raise InvalidParameter("give a public table that the rows are like: like=table")
    example = RowTable.open(like, neighbor_relation=NeighborRelation("replace", None))
    law.universe.check(example.schema)
    there = public_size(example)
    if not there:
        raise InvalidParameter("the example has no rows: like= takes a table of some")
    memory, seeds = HistogramMemory(law, schema), range(seed, seed + whole(simulations, "simulations"))
    asked = [memory.asked(where, size) for where in queries]
    found = {each.text: _counted(each, example) for each in asked}
    counts = [round(found[each.text] * size / there) for each in asked]
    hard = [_hard(law, memory, held, asked, counts, Seeded(each)) for each in seeds]
    return ExpectedHard(len(asked), len(hard), sum(hard) / len(hard), min(hard), max(hard), law.most_hard(size))


def _counted(asked: ShareQuestion, example: RowTable) -> int:
    """The number of rows of the example that a question counts."""
    values = read_one_version(example, asked.reads(example))
    return asked.counted(Data(values, Seeded(0), None, None, FREE))


def _hard(
    law: HistogramLaw,
    memory: HistogramMemory,
    held: Held,
    asked: Sequence[ShareQuestion],
    counts: Sequence[int],
    source: Source,
) -> int:
    """The number of hard answers in one simulation."""
    hard = 0
    for question, rows in zip(asked, counts, strict=True):
        if law.refused(held, question.size) is None:
            checked = memory.checked(held, question, rows, law.test_at(question.size), source)
            held, hard = checked.then, hard + (checked.found.noisy is not None)
    return hard
