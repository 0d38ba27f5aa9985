"""Distinct counts kept as a private sketch: one epsilon covers all that is published of it, while the table grows."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property

from chary import noise
from chary.accounting import Event, Extendable
from chary.amounts import Amount
from chary.data import Neighbouring, Query, Reading, Rows, Table
from chary.data.elements import ElementReader, Elements, Mark
from chary.errors import InvalidQuery, UnknownHeld
from chary.filters import Filter, Price
from chary.mechanisms import Distinct, Sketch
from chary.numbers import Number, exact, positive
from chary.session.interaction import FREE, Interaction, Json, Ran, Touched


@dataclass(frozen=True)
class Line:
    """A sketch and what was done with it: secret state, its repr shows public parameters only.

    `seen` is the dataset's version when rows were last read (-1: never), `paid` whether the line was charged.
    """

    sketch: Sketch
    seen: int = -1
    paid: bool = False
    mark: Mark | None = None

    def reading(self, reader: ElementReader, version: int, source: noise.Source) -> "Line":
        """With the rows up to this version. Rows that arrive after an outcome was published come under a fresh veil."""
        words, mark = reader.words(self.sketch.key, self.mark)
        sketch = self.sketch if self.seen < 0 else self.sketch.veil(source)
        return replace(self, sketch=sketch.update(words), seen=version, mark=mark)

    def dump(self) -> bytes:
        """The state for the ledger's secret table."""
        mark = None if self.mark is None else asdict(self.mark)
        return json.dumps([self.sketch.dump().decode(), self.seen, self.paid, mark]).encode()

    @classmethod
    def load(cls, data: bytes) -> "Line":
        """The state that `dump` wrote."""
        sketch, seen, paid, mark = json.loads(data)
        return cls(Sketch.load(sketch.encode()), seen, paid, None if mark is None else Mark(**mark))

    def __repr__(self) -> str:
        return f"Line({self.sketch!r}, paid={self.paid})"


@dataclass(frozen=True)
class StartSketch(Interaction):
    """A sketch with a fresh key and fresh phantoms. Nothing is read and nothing is charged: nothing is published.

    `event` is what all answers about the sketch together may reveal about one unit.
    """

    elements: Elements
    neighbouring: Neighbouring
    epsilon: Number
    registers: int
    kind = "sketch"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        self.distinct  # noqa: B018 - refuses parameters that make no sketch

    @cached_property
    def distinct(self) -> Distinct:
        """The parameters of the sketch, its epsilon for one element being the unit's share."""
        return Distinct(Fraction(self.epsilon) / self.elements.reach(self.neighbouring), self.registers)

    @property
    def event(self) -> Event:
        return Extendable(self.epsilon)

    def price(self, filter_: Filter) -> Price:
        super().price(filter_)  # refuses what could never be asked
        return FREE

    def body(self) -> Json:
        size = {"epsilon": str(self.epsilon), "registers": self.registers}
        return self.elements.body() | size

    @classmethod
    def of_body(cls, body: Json, neighbouring: Neighbouring) -> "StartSketch":
        """The opening that a body describes."""
        return cls(Elements.of_body(body), neighbouring, Fraction(body["epsilon"]), body["registers"])

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        if not isinstance(rows, Table):
            raise InvalidQuery("only a table has distinct elements to sketch")
        return [rows.elements(self.elements)]

    def run(self, touched: Touched) -> Ran:
        return Ran({}, hits=0, tests=0, secret=Line(self.distinct.start(touched.source)).dump())

    def present(self, answer: Json, call: int) -> int:
        return call


@dataclass(frozen=True)
class DistinctEstimate:
    """What a question to a sketch published: an estimate of the distinct elements, or nothing (`value` is None).

    `error_bar` is the half-width of its 95 % interval.
    """

    call: int
    value: int | None
    error_bar: float | None

    @property
    def published(self) -> bool:
        """Whether the estimate reached the bar."""
        return self.value is not None


@dataclass(frozen=True)
class AskSketch(Interaction):
    """Publish the estimate of a sketch if it reaches a bar, otherwise nothing.

    Guarantee: all questions to one sketch together, before and after the table grows, are the parts in which one
    epsilon-DP outcome is published (`Extendable`): the first that hits is charged, none after it, misses are free
    (docs/sketches.md). Where the filter charges hit or miss, the first question is charged and none after it.

    `version` is that of the dataset before the rows are read, `paid` what the ledger last said about the sketch.
    """

    call: int
    started: StartSketch
    above: Number
    version: int
    paid: bool
    kind = "sketch_release_if"

    def __post_init__(self) -> None:
        object.__setattr__(self, "above", exact(self.above, "above"))

    @property
    def event(self) -> Event:
        return self.started.event

    def price(self, filter_: Filter) -> Price:
        return FREE if self.paid else super().price(filter_)

    def final(self, price: Price, ran: Ran, reserved_hits: int) -> Amount:
        return Amount(0) if ran.answer["paid"] else super().final(price, ran, reserved_hits)

    @property
    def held(self) -> int:
        return self.call

    def check(self, secret: bytes | None) -> None:
        if secret is None:
            raise UnknownHeld(f"call {self.call} holds no sketch: it was interrupted; start a new one")

    def body(self) -> Json:
        return {"sketch": self.call, "above": str(self.above)}

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return self.started.prepare(rows)

    def run(self, touched: Touched) -> Ran:
        line = Line.load(touched.secret or b"")
        if line.seen < 0 or (self.version > line.seen and self.started.elements.grows):
            line = line.reading(touched.values[0], self.version, touched.source)
        estimate = round(line.sketch.estimate())
        published = estimate >= Fraction(self.above)
        answer: Json = {"value": None, "error_bar": None, "paid": line.paid}
        if published:
            answer |= {"value": estimate, "error_bar": _error_bar(line.sketch, estimate)}
        kept = replace(line, paid=line.paid or published or not touched.price.free_miss)
        tests = int(not line.paid)
        return Ran(answer, hits=tests * int(published), tests=tests, secrets={self.call: kept.dump()})

    def present(self, answer: Json, call: int) -> DistinctEstimate:
        return DistinctEstimate(call, answer["value"], answer["error_bar"])


def _error_bar(sketch: Sketch, estimate: int) -> float:
    return sketch.distinct.error_bar(estimate, veils=len(sketch.veils))


def is_paid(secret: bytes | None) -> bool:
    """Whether the line in a secret was charged, which is public."""
    return secret is not None and Line.load(secret).paid
