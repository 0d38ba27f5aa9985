"""A kind of call with the neighbours and the question that show most of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pyarrow as pa

from chary.audit.auditing.enumeration import Law
from chary.audit.auditing.read_once import ReadOnce
from chary.audit.auditing.transcripts import Asked, Begun, Chained, OpenedUnder, Step, ended
from chary.calls.call import Call
from chary.data import Neighbouring, Rows
from chary.filters import Budget

# The delta at which calls are audited that have no pure bound: the guarantee holds at every delta, and at a tiny one
# no number of transcripts shows much.
DELTA = Fraction(1, 20)
# Calls and runs take microseconds, whole sessions and readings of tables milliseconds.
OF_A_CALL, OF_A_SESSION = 10_000, 2_000
Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Tables:
    """Two neighbouring tables by their columns. `unit=None` makes each row a unit."""

    here: Columns
    there: Columns
    unit: str | None = "unit"
    relation: str = "add/remove"

    def opened(self) -> tuple[Rows, Rows]:
        """Both, as rows that are read once."""
        neighbouring = Neighbouring(self.relation, self.unit)
        here, there = (ReadOnce.open(pa.table(dict(c)), neighbouring=neighbouring) for c in (self.here, self.there))
        return here, there


@dataclass(frozen=True)
class WorstCase:
    """How a kind is audited: `ask(k)` is its call, or what is done in a session, at k times the usual epsilon.

    `terms(k)` opens the sessions in which that is asked. With `whole` sessions ask until they are refused, so that the
    whole budget is claimed, whatever was charged; otherwise what was charged is. `priced` audits the price of a hit at
    the filter's order, in log-moment, by exact laws; of a run, what is charged of all its transcripts, of which with
    `hits_only` no more is looked at than which questions hit. `law` is the exact law of what a run makes of its one
    question, by its own code, where only a part of its words needs to be followed. `seen` is what is looked at of a
    sampled outcome, where it says too much to be learned from; `says` is the epsilon that an outcome says it may spend
    of what was charged, where the rest is kept for what is not asked: that is claimed then.
    """

    kind: str
    ask: Callable[[int], Asked]
    pair: Callable[[], tuple[Rows, Rows]]
    terms: Callable[[int], OpenedUnder] = field(default=lambda k: OpenedUnder())
    whole: bool = False
    priced: bool = False
    hits_only: bool = False
    law: Callable[[Begun, Step], Law] | None = None
    seen: Callable[[Any], Any] | None = None
    says: Callable[[Any], float] | None = None
    transcripts: int = 0

    @property
    def usual(self) -> int:
        """How many transcripts on each neighbour, unless said otherwise."""
        return self.transcripts or (OF_A_CALL if isinstance(self.ask(1), (Call, Chained)) else OF_A_SESSION)

    @contextmanager
    def opened(self) -> Iterator[tuple[Rows, Rows]]:
        """Both databases, closed afterwards."""
        pair = self.pair()
        try:
            yield pair
        finally:
            ended(*pair)


def renyi(epsilon: int = 1, grain: Any = None) -> Callable[[int], OpenedUnder]:
    """A budget of so many epsilons with the delta of audits."""
    return lambda k: OpenedUnder(Budget(epsilon * k, DELTA), "renyi", None if grain is None else Fraction(grain) * k)
