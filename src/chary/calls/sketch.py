"""Sketches of distinct elements: opening, additions and estimates."""

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary import noise
from chary.accounting import Event, Extendable
from chary.amounts import Amount
from chary.answers import Ends, Known, around
from chary.calls import answers, fields
from chary.calls.call import call
from chary.calls.run import AskedKind, Opening, Run, RunKind, opening
from chary.core.forecast import Forecast
from chary.core.plan import PREPAID, AsReported, Data, Json, Plan, Prepaid, Result
from chary.core.transaction import Spine
from chary.core.versions import Arrivals
from chary.data import NeighborRelation, Predicate, Reading, Rows, RowTable
from chary.data.engines.protocol import ElementReading
from chary.data.queries.ordered import Elements, Mark
from chary.errors import InvalidQuery
from chary.filters import Price
from chary.mechanisms import Distinct, Phantoms
from chary.mechanisms.additive import SMALL, padded, unpadded
from chary.numbers import CONFIDENT, Number, exact, plain

# A private sketch: its secret state, its public state and its answers.


@dataclass(frozen=True)
class DistinctEstimate(answers.NumberOrNothing):
    """The answer of a sketch: an estimate of the number of distinct elements if it reached the threshold, otherwise
    nothing (`value` is None). Only the first estimate that is published is charged.

    With 95 % confidence an estimate is within `error_bar`, published or not. Where the threshold is 0, so that every
    estimate reaches it, that is its `interval`; one that was published because it reached a threshold has none. The
    dummy elements count in the error: where they outnumber the elements, an estimate may be twice the truth, or half of
    it.
    """

    value: int | None
    barred: bool = field(default=False, repr=False, compare=False, kw_only=True)

    @property
    def interval(self) -> Ends | None:
        return None if self.barred else around(self.value, self.error_bar, Known(floor=0))

    @property
    def interval_says(self) -> str:
        if not self.barred or self.value is None:
            return super().interval_says
        return (
            "no interval: it was published because it reached the threshold; 95 % of all estimates are within error_bar"
        )


@dataclass(frozen=True)
class SketchState:
    """What is public of a sketch: its parameters, and whether it was charged (`paid`). Then all answers are free."""

    distinct: Distinct
    paid: bool

    def error_bar(self, n: int, *, veils: int = 1) -> float:
        """Half the width of the 95 % interval for n elements, after `veils - 1` growths between questions."""
        return self.distinct.error_bar(n, veils=veils)


@dataclass(frozen=True)
class Line:
    """The secret state of a sketch. Its repr shows public parameters only.

    `seen` is the dataset's version when rows were last read (-1: never), `paid` whether the sketch was charged.
    """

    sketch: Phantoms
    seen: int = -1
    paid: bool = False
    mark: Mark | None = None

    def reading(self, reader: ElementReading, version: int, source: noise.Source) -> "Line":
        """The state with the rows up to this version. Rows that arrive later are added under fresh dummy elements."""
        words, mark = reader.words(self.sketch.key, self.mark)
        sketch = self.sketch if self.seen < 0 else self.sketch.veil(source)
        return replace(self, sketch=sketch.update(words), seen=version, mark=mark)

    def error_bar(self, estimate: int) -> float:
        """Half the width of the 95 % interval of its estimate."""
        return self.sketch.distinct.error_bar(estimate, veils=len(self.sketch.veils))

    def dump(self) -> bytes:
        """The state for the ledger's secret table."""
        mark, secret = (None, "") if self.mark is None else (asdict(self.mark), str(self.mark.upto))
        state = json.dumps([self.sketch.dump().decode(), self.seen, self.paid, mark]).encode()
        return padded(state, SMALL + len(state) - len(secret))  # all else in it has a length that is public

    @classmethod
    def load(cls, data: bytes) -> "Line":
        """The state that `dump` wrote."""
        sketch, seen, paid, mark = json.loads(unpadded(data))
        return cls(Phantoms.load(sketch.encode()), seen, paid, None if mark is None else Mark(**mark))

    def __repr__(self) -> str:
        return f"Line({self.sketch!r}, paid={self.paid})"


# Distinct counts kept as a private sketch: one epsilon covers all that is published of it, while the table grows.

# 1.04/sqrt(1024): off by 3.3 % where dummy elements are few, for a kilobyte of state.
REGISTERS = 1024


@call("sketch", subject="sketches", by_hits=True, tells="distinct")
class DistinctSketch(Opening[Run[DistinctEstimate, SketchState]]):
    """Keep a private sketch of the distinct privacy units that have a row satisfying `where`.

    With `of`, it counts the distinct values of that column. One unit has at most r of them: `max_groups_per_unit=r`
    (chary enforces it and reads the rows once) or `assumed_groups_per_unit=r` (you assert it, for all rows to come).

    Guarantee: all answers together, whatever is asked and however the table grows, are epsilon-DP for one unit. They
    cost one call of that epsilon: nothing until an estimate is published, nothing after (docs/theory/growing.md).
    Starting costs nothing. Where the filter charges misses too, the first question is charged. It rests on SHA-256
    under the sketch's secret key being a random function.

    Errors: `InvalidParameter` for registers that are no power of two from 2**4 to 2**16 or an epsilon too small for one
    element. `InvalidQuery` for an unknown column or no limit on the values of a unit.
    """

    where: fields.Where = None
    _: KW_ONLY
    epsilon: fields.Positive
    of: fields.Name | None = None
    registers: fields.Whole = REGISTERS
    max_groups_per_unit: fields.Whole | None = None
    assumed_groups_per_unit: fields.Whole | None = None

    @cached_property
    def elements(self) -> Elements:
        """The elements that are counted."""
        return Elements(self.of, Predicate.of(self.where), self.max_groups_per_unit, self.assumed_groups_per_unit)

    @property
    def event(self) -> Event:
        """The event of all answers of the sketch together, for one unit."""
        return Extendable(self.epsilon)

    def distinct(self, neighbor_relation: NeighborRelation) -> Distinct:
        """The parameters of the sketch; epsilon is split evenly among the elements of a unit."""
        return Distinct(Fraction(self.epsilon) / self.elements.reach(neighbor_relation), self.registers)

    def reads(self, rows: Rows) -> Sequence[Reading]:
        """The reading of the elements; `InvalidQuery` for rows that are no table."""
        if not isinstance(rows, RowTable):
            raise InvalidQuery("only a table has distinct elements to sketch")
        return [rows.elements(self.elements)]

    def plan(self, spine: Spine) -> Plan[Any]:
        distinct = self.distinct(spine.rows.neighbor_relation)

        def forecast() -> Forecast:
            few = plain(float(f"{distinct.error_bar(0):.3g}"))
            told = f"with {CONFIDENT}, an estimate of few elements is within {few}; fewer registers are better for few"
            return Forecast(interval=told)

        return opening(
            self,
            spine,
            self.event,
            lambda data: Line(distinct.start(data.source)).dump(),
            body=self.elements.body() | self.question_body(),
            cost=PREPAID,
            reads=self.reads,
            forecast=forecast,
        )


class SketchRun(RunKind[DistinctEstimate, SketchState]):
    """`run.ask(above=500)`: the estimate if it is at or above the threshold, otherwise nothing. Thresholds may come in
    any order.

    Without `above`, the estimate, whatever it is. Rows that were appended by `Session.append` since the last question
    are read first, under fresh dummy elements. A further `Distinct.phantoms` in each register lie in the error bar.
    Otherwise no row is read.
    """

    kind = DistinctSketch.kind
    names = "sketch"
    keeps = "sketch"
    questions = (AskedKind("sketch_release_if", title="Distinct sketch release if"),)

    @cached_property
    def opened(self) -> DistinctSketch:
        """The call that opened the sketch."""
        return DistinctSketch.recorded(self._terms)

    @cached_property
    def distinct(self) -> Distinct:
        """The parameters of the sketch."""
        return self.opened.distinct(self._spine.rows.neighbor_relation)

    def plan(self, *, above: Number = 0) -> Plan[DistinctEstimate]:
        version = Arrivals.read_by(self._spine).last().number
        return self._estimate(exact(above, "above"), version, self.state.paid)

    def recorded(self, body: Json) -> Plan[DistinctEstimate]:
        """The version, and whether the sketch was paid, do not change a stored answer."""
        return self._estimate(exact(body["above"], "above"), 0, False)

    def _estimate(self, above: Fraction, version: int, paid: bool) -> Plan[DistinctEstimate]:
        """Publish the estimate if it reaches a threshold, otherwise nothing.

        Guarantee: all questions to one sketch together, before and after the table grows, are the parts in which one
        epsilon-DP outcome is published (`Extendable`). The first that hits is charged, none after it, and misses are
        free (docs/theory/growing.md). Where the filter charges hit or miss, the first question is charged and none
        after it.

        `version` is that of the dataset before the rows are read, `paid` whether the sketch was charged by then.
        """
        opened = self.opened

        def check(held: bytes) -> None:
            self._refuse_earlier(Line.load(held).seen)

        def run(data: Data) -> Result:
            line = Line.load(data.secret or b"")
            if line.seen < 0 or (version > line.seen and opened.elements.grows):
                line = line.reading(data.values[0], version, data.source)
            estimate = round(line.sketch.estimate())
            published = estimate >= above
            answer: Json = {"value": None, "error_bar": None, "paid": line.paid}
            if published:
                answer |= {"value": estimate, "error_bar": line.error_bar(estimate)}
            kept = replace(line, paid=line.paid or published or not data.price.free_miss)
            tests = int(not line.paid)
            return Result(answer, hits=tests * int(published), tests=tests, secrets={self.call: kept.dump()})

        def charged(price: Price, result: Result) -> Amount:
            return Amount(0) if result.answer["paid"] else price.total(result.hits, 1)

        def present(answer: Json, number: int) -> DistinctEstimate:
            return DistinctEstimate(number, answer["value"], answer["error_bar"], barred=above > 0)

        cost = Prepaid(adds_up=False) if paid else AsReported(of=charged)
        asked = {"above": str(above)}
        rest: dict[str, Any] = {"reads": opened.reads, "cost": cost, "check": check}
        return self._plan("sketch_release_if", asked, opened.event, run, present, **rest)

    @property
    def state(self) -> SketchState:
        return SketchState(self.distinct, Line.load(self._secret()).paid)
