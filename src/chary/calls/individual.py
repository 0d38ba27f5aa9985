"""Tests with individual privacy accounting: each unit pays for itself until it is exhausted."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chary.accounting import Event, Targeted
from chary.answers import Answer
from chary.calls import answers, fields, run
from chary.calls import sharpness as sharp
from chary.calls.call import call
from chary.core.forecast import Forecast, error_bar
from chary.core.plan import Data, Json, Plan, Question, Result, Whole, laplace_for_each, steps_at_least
from chary.core.transaction import Spine
from chary.data import Count, NeighborRelation, Neighbors, Predicate, Query, Reading, Rows, Sum, count
from chary.data.columns import TypeClass, known_columns
from chary.data.engines.protocol import LivingReading, LivingUnits
from chary.data.queries.statistic import Statistic
from chary.data.rows import Rooms
from chary.data.table import living, table_of_units
from chary.errors import AlgorithmFailed, InvalidQuery
from chary.filters import RenyiFilter
from chary.mechanisms import sketches
from chary.numbers import Number, exact

# Individual charging ([TCT] Algorithm 5): every unit has a budget of hits, and drops out when it has used it up.

# Compiled queries that a stream caches, enough for a dashboard with a few dozen queries.
PLANS = 64


class LivingCount(answers.NumberOrNothing):
    """A noisy count of the active units, or sum of what they contribute, if it reached the threshold; otherwise nothing
    (`value` is None). If it did, the counters of the units in it were raised."""


# A statistic of one's own among the active units.


class LivingStatistic:
    """A statistic of the rows of those active units that a condition counts.

    Whether a unit takes part depends on its own rows and its own remaining hits alone. The function gets all rows of
    these units, and none of any other unit."""

    def __init__(self, rows: Rows, asked: Statistic, where: Predicate | str | None) -> None:
        """`InvalidQuery` where units are replaced, and for ids that are neither strings nor integers."""
        table, unit = table_of_units(rows), str(rows.neighbor_relation.unit)
        if rows.neighbor_relation.neighbors is not Neighbors.ADD_REMOVE:
            raise InvalidQuery(
                "a statistic of active units needs units that come and go: open with neighbors=add_remove"
            )
        if table.schema.get(unit) not in (TypeClass.INTEGER, TypeClass.STRING):
            raise InvalidQuery("a statistic of active units needs a privacy unit of strings or integers")
        names = list(known_columns(asked.columns_read, table.schema))
        self._asked, self._unit, self._names = asked, unit, names
        self._counted, self._rows = living(rows, count(where)), table.snapshot([*names, unit])

    def run(self) -> "LivingStatistic":
        """Itself: reading waits for `at`, since the active units are known only then."""
        return self

    @contextmanager
    def at(self, rooms: Rooms) -> Iterator["LivingStatistic.Units"]:
        """One state of the rows; `EngineError`, naming no value, if the engine fails."""
        with self._counted.at(rooms) as units:
            yield self.Units(self, units)

    def __repr__(self) -> str:
        return f"LivingStatistic({self._asked.describe()})"

    class Units:
        """See `LivingUnits`. All of it is secret."""

        def __init__(self, of: "LivingStatistic", units: LivingUnits) -> None:
            self._of, self._units = of, units

        def answers(self) -> npt.NDArray[Any]:
            """The statistic of these units, in steps."""
            of = self._of
            self._units.answers()
            self._took, rows = self._units.of([0]), of._rows.run()
            kept = rows.filter(pc.is_in(rows[of._unit], value_set=self._took["unit"].combine_chunks()))
            return np.array([of._asked.of_rows(kept.select(of._names))])

        def of(self, positions: Sequence[int]) -> pa.Table:
            """The units that take part."""
            return self._took


class CounterMemory:
    """The cache of a stream: decoded counters, remaining hits and compiled queries. Secret."""

    def __init__(self, rows: Rows) -> None:
        self.plan = lru_cache(PLANS)(lambda query: living(rows, query))
        self.statistic = lru_cache(PLANS)(lambda asked, where: LivingStatistic(rows, asked, where))
        self._last: tuple[bytes, sketches.Counters, Rooms] | None = None

    def standing(self, secret: bytes) -> tuple[sketches.Counters, Rooms]:
        """The counters in a secret state, and the hits that are left to each unit."""
        last = self._last
        if last is None or last[0] != secret:
            counters = sketches.Counters.load(secret)
            last = self._last = (secret, counters, Rooms(counters.rooms(), counters.hits))
        return last[1], last[2]

    def __repr__(self) -> str:
        return "Memory(<secret>)"


# Individual charging as runs: a stream in which each unit pays for itself.

_WAYS: Final = ("epsilon", "price", "within")
_ENDLESS: Final = (
    "a stream never ends, so its misses must be free: open the session with a delta and with grain= the epsilon of "
    "the stream, or make that epsilon smaller"
)
_TOLD: Final = "price= (the fraction of the budget for one hit), within= with tests=, or epsilon= for Laplace noise"


@dataclass(frozen=True)
class StreamState:
    """What is public of a stream: the hits that each unit pays for, and the epsilon of its calls by Laplace noise. For
    optimal threshold tests epsilon is None, and the fraction of the budget that a hit took is public. Counters are
    not."""

    epsilon: Fraction | None
    hits: int
    price: float | None = None


@call("individual_stream", subject="individual")
class IndividualTests(run.Opening[run.KeyedRun[LivingCount, answers.WatchResult, StreamState]]):
    """Open a stream in which each unit has a budget of its own: after `hits` hits that it is in, it is no longer
    counted.

    Guarantee (theorem 2.10 of [TCT], and for optimal threshold tests docs/theory/growing.md): for every unit that of
    `hits` hits, whatever is asked and for how long, all charged now. Under `replace` it is twice as many, since each of
    two units may be in `hits` answers that the other is not in. Nothing is read. Afterwards the stream is free and
    never ends.

    The accuracy is chosen in one of three ways. `price` is the fraction of the whole budget for one hit. `within` with
    `tests` is a margin in units: `tests` tests together are right outside it, with probability `confidence` (0.95).
    `epsilon` means calls of `Targeted(epsilon)`. The first two are `SharpTest`, and what is published has noise of its
    own, for the part `value` (a quarter) of the cost. With `tests` the threshold lies half way between false alarms and
    misses.

    Errors: `InvalidQuery` for rows without unit ids. `NotPriced` under a filter that charges misses, and for optimal
    threshold tests under any but the Renyi filter."""

    _: KW_ONLY
    epsilon: fields.Positive | None = None
    hits: fields.Whole
    price: fields.Probability | None = None
    within: fields.Positive | None = None
    tests: fields.Whole | None = None
    confidence: fields.Probability | None = None
    value: fields.Probability | None = None

    def __post_init__(self) -> None:
        sharp.check_one_way(self, _WAYS, _TOLD)
        sharp.check_tests(self)

    @classmethod
    def recorded(cls, body: Json) -> Self:
        said = {"hits": body.get("hits_per_unit"), "epsilon": body.get("epsilon_per_call")}
        return super().recorded(said | body)

    def plan(self, spine: Spine) -> Plan[Any]:
        replaced = spine.rows.neighbor_relation.neighbors is Neighbors.REPLACE
        body, start = self.question_body(), sketches.Counters(self.hits).dump()
        body |= {"hits_per_unit": body.pop("hits")}
        answer: Json = {}
        told: Callable[[], Forecast] = Forecast
        if self.epsilon is not None:
            event: Event = Targeted(self.epsilon)
            body |= {"epsilon_per_call": body.pop("epsilon")}
        else:
            filter_ = spine.filter.for_sharp_tests("open the stream with epsilon= for Laplace noise")
            hit = sharp.HitTerms.found(self.wanted, filter_, Fraction(1), self.value_share)
            test, _ = hit.sharpness(), hit.noise()  # refuses what has no table
            # The cost of a hit was found in floats, so it is stored and never computed again.
            event, answer = hit.event, {"price": str(hit.price)}
            told = partial(_foretold, self, test)
        cost = Whole(self.hits * (2 if replaced else 1), _ENDLESS)
        return run.opening(
            self,
            spine,
            event,
            lambda data: start,
            body=body,
            answer=answer,
            cost=cost,
            reads=_of_units,
            forecast=told,
        )

    @property
    def wanted(self) -> sharp.Wanted:
        """The accuracy that is wanted."""
        return sharp.Wanted.said(self, hits=None)

    @property
    def value_share(self) -> Fraction:
        """The part of the cost of a hit that its count takes."""
        return sharp.value_part(self.value)


def _foretold(call: IndividualTests, test: sharp.Sharpness) -> Forecast:
    return Forecast(within=test.within, foreseen=sharp.together(call, test.within))


def _of_units(rows: Rows) -> Sequence[Reading]:
    living(rows, count())  # refuses, before it is paid for, what no question to the stream could be asked of
    return ()


@contextmanager
def _unpaid() -> Iterator[None]:
    """Say in the error of a failed statistic that nothing was charged, since the opening has paid."""
    try:
        yield
    except AlgorithmFailed as failed:
        told = f"{failed}; nothing was charged"
    else:
        return
    raise AlgorithmFailed(told)


class IndividualRun(run.KeyedRun[LivingCount, answers.WatchResult, StreamState]):
    """`run.ask(query, above=500)`: the noisy count of active units, or `sum` of what they contribute, if it is at or
    above the threshold; otherwise nothing. Whether a mean reaches a threshold is asked by
    `mean(...).shifted(threshold)`.

    It is an epsilon-DP call with the NotPrior target "published". If it is published, every unit in it has one hit less
    left (in a sum, every unit that adds something, however little). A unit without any left drops out of all later
    queries. A grouped query has one such number for each group, in one scan. A unit with r hits left takes part in its
    first r groups, in the order of the list, and pays for those of them that are published.

    A `statistic` is the function of all rows of the active units that take part: those with a row that meets `where`,
    all of them without it. Each of these pays for a whole hit. Its sensitivity bounds what any of them moves.

    Errors: `InvalidQuery` for anything but a `count`, a `sum` or a `statistic`, and for `where` with a count or a sum.
    The same for a statistic where units are replaced or their ids are neither strings nor integers.
    """

    kind = "individual_stream"
    names = "individual"
    keeps = "counters"
    questions = (run.AskedKind("individual_ask", publishes=True),)

    @cached_property
    def memory(self) -> CounterMemory:
        """The cache from question to question."""
        return CounterMemory(self._spine.rows)

    def plan(self, query: Question | Statistic, *, above: Number, where: str | None = None) -> Plan[Any]:
        if isinstance(query, Statistic):
            predicate = Predicate.of(where)
            return self._test(query, exact(above, "above"), self._spine.rows.neighbor_relation, predicate)
        if where is not None:
            raise InvalidQuery("a count or a sum has its condition itself: where= is for a statistic")
        if not isinstance(query, (Count, Sum)) or (isinstance(query, Count) and query.without is not None):
            raise InvalidQuery(
                'a stream counts active units: ask count("age >= 65"), a sum, or a statistic; groups are named by='
            )
        return self._test(query, exact(above, "above"), self._spine.rows.neighbor_relation)

    def _test(
        self,
        query: Count | Sum | Statistic,
        above: Fraction,
        neighbor_relation: NeighborRelation,
        where: Predicate | None = None,
    ) -> Plan[Any]:
        """One query of the stream, or one for each group: free, it was paid when the stream was opened.

        Answer and counters come from one state of the rows and are stored in one transaction. An outcome on counters
        that moved meanwhile is thrown away by the transaction, unseen. A sum moves by at most the query's sensitivity
        with a unit, and each unit that adds something pays for a whole hit, however little it adds. Of several groups a
        unit takes part in no more than its counter leaves it, the first ones.
        """
        law, threshold, memory = self.law(query, neighbor_relation), steps_at_least(above, query.grid), self.memory
        if law.noise is None:
            raise TypeError("a stream publishes what it finds")
        bar = error_bar((law.noise, query.grid))

        def ask(data: Data) -> Result:
            secret = data.secret or b""
            counters, rooms = memory.standing(secret)
            reading: LivingReading = data.values[0]
            with reading.at(rooms) as units, _unpaid():
                found = law.machine(threshold, None).step(units.answers(), data.source)
                took = units.of(found.positions) if found.positions else None
            new = secret if took is None else counters.raised(took).dump()
            answer = {"positions": found.positions, "noisy": found.noisy}
            return Result(answer, hits=len(found.positions), tests=found.tested, secrets={self.call: new})

        def present(answer: Json, number: int) -> Answer:
            keys, told = tuple(query.keys or ((),)), law.published(query, neighbor_relation, threshold)
            values: Any = answers.hit_values(keys, answer["positions"], answer["noisy"], query.grid)
            shown = None if told.bar is None else bar
            if query.keys is None:
                return LivingCount(number, values.get(()), shown, publication=told)
            silence = answers.silent(law.tails, query, neighbor_relation, threshold)
            return answers.WatchResult(
                number, query.columns, keys, values, len(keys), shown, publication=told, silence=silence
            )

        said = {} if where is None else {"where": where.text}
        return self._plan(
            "individual_ask",
            {"query": query.body(), "above": str(above), "parallel": query.reach(neighbor_relation)}
            | said
            | self._size,
            law.event,
            ask,
            present,
            reads=lambda rows: [memory.statistic(query, where) if isinstance(query, Statistic) else memory.plan(query)],
            forecast=lambda: Forecast(bar, law.decides, query.grid, law.wrong, within=law.within),
        )

    def law(self, query: Query, neighbor_relation: NeighborRelation) -> sharp.TestLaw:
        """How each group is tested: by Laplace noise, which is that of the count as well, or by optimal threshold
        tests."""
        if self.hit is None:
            epsilon = Fraction(self.opened.epsilon or 0)
            return sharp.TestLaw.laplace(laplace_for_each(query, neighbor_relation, epsilon), epsilon)
        change = query.sensitivity(neighbor_relation)
        return sharp.TestLaw.sharp(self.hit.sharpness(change, query.grid), self.hit.noise(change))

    @property
    def _size(self) -> Json:
        """The accuracy of the stream, as questions store it."""
        return {"epsilon": str(self.opened.epsilon)} if self.hit is None else {"price": str(self.hit.price)}

    @cached_property
    def opened(self) -> IndividualTests:
        """The call that opened the stream."""
        return IndividualTests.recorded(self._terms)

    @cached_property
    def hit(self) -> sharp.HitTerms | None:
        """The terms of optimal tests, with the cost that the opening stored; None for Laplace noise."""
        if self.opened.epsilon is not None:
            return None
        price = Fraction(self._opening()["price"])
        return sharp.HitTerms(self._renyi, price, self.opened.value_share, self.opened.wanted.chance)

    @property
    def _renyi(self) -> RenyiFilter:
        return self._spine.filter.for_sharp_tests("open another stream with epsilon=")

    @property
    def state(self) -> StreamState:
        hits = self.opened.hits
        if self.hit is None:
            return StreamState(Fraction(self.opened.epsilon or 0), hits)
        filter_ = self._renyi
        return StreamState(None, hits, filter_.shares.taken(filter_.price(self.hit.event).hit))
