"""What is kept of a private sketch, what is public of it, and what it answers."""

import json
from dataclasses import asdict, dataclass, field, replace

from chary import noise
from chary.answers import Ends, Known, around
from chary.calls.answers import NumberOrNothing
from chary.data.engines.engine import ElementReading
from chary.data.queries.elements import Mark
from chary.mechanisms import Distinct
from chary.mechanisms import Phantoms as Phantoms
from chary.mechanisms.additive import SMALL, padded, unpadded


@dataclass(frozen=True)
class DistinctEstimate(NumberOrNothing):
    """What a question to a sketch published: an estimate of the distinct elements, if it reached the bar; otherwise
    nothing (`value` is None). Only the first that is published is charged.

    95 times in 100 an estimate is within `error_bar`, published or not. Where the bar is 0, so that every estimate
    reaches it, that is its `interval`; one that was published because it reached a bar has none. The dummy elements
    count in the error: where they outnumber the elements, an estimate may be twice the truth, or half of it.
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
            "no interval: it was published because it reached the bar; of all estimates 95 in 100 are within error_bar"
        )


@dataclass(frozen=True)
class SketchState:
    """What is public of a sketch: whether it was charged (`paid`), after which all its answers are free."""

    distinct: Distinct
    paid: bool

    def error_bar(self, n: int, *, veils: int = 1) -> float:
        """The half-width of the 95 % interval for n elements, after `veils - 1` growths between questions."""
        return self.distinct.error_bar(n, veils=veils)


@dataclass(frozen=True)
class Line:
    """A sketch and what was done with it: secret state, its repr shows public parameters only.

    `seen` is the dataset's version when rows were last read (-1: never), `paid` whether the line was charged.
    """

    sketch: Phantoms
    seen: int = -1
    paid: bool = False
    mark: Mark | None = None

    def reading(self, reader: ElementReading, version: int, source: noise.Source) -> "Line":
        """With the rows up to this version. Rows that arrive after an outcome was published come under a fresh veil."""
        words, mark = reader.words(self.sketch.key, self.mark)
        sketch = self.sketch if self.seen < 0 else self.sketch.veil(source)
        return replace(self, sketch=sketch.update(words), seen=version, mark=mark)

    def error_bar(self, estimate: int) -> float:
        """The half-width of the 95 % interval of its estimate."""
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
