"""SmallDB as a black box for schedules: SmallDBG of [GROW] section 3.1.1."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting.schedules import Law
from chary.calls.fields import AskedQueries
from chary.calls.schedules import BlackBox
from chary.calls.synthesis import AskSmallDatabase, SmallDatabase, Workload
from chary.core.plan import Interaction
from chary.data import Neighbouring, Universe
from chary.data.universe.axes import Axis
from chary.errors import InvalidParameter
from chary.mechanisms.small_database import Measure
from chary.numbers import whole


@dataclass(frozen=True)
class SmallDatabaseBox(BlackBox):
    """A small synthetic database for a list of queries, made anew by each run; see `chary.calls.SmallDatabase`.

    `schema` is `session.schema`: the types by which conditions are read. `run.state.latest.answer` is a
    `SyntheticDatabase`.

    Law: the largest error of any query, with p = 1, c = 2, as many choices as there are candidates, and the coarseness
    of so many rows as its base. `concentrated`, for schedules by rho, where a run need only be epsilon^2/2-zCDP: the
    exponential mechanism of 2 epsilon is, so that c = 1. It takes for granted that every row lies in a cell of the
    universe. Errors: those of `chary.calls.SmallDatabase`.

    >>> box = SmallDatabaseBox({"smoker": [True, False]}, ["smoker"], rows=20, schema={"smoker": "boolean"})
    >>> box.law.body()["choices"], round(box.law.error(size=10_000, epsilon="0.1", beta="0.05"), 3)
    ('21', 0.037)
    """

    call: SmallDatabase
    workload: Workload
    concentrated: bool = False

    def __init__(
        self,
        universe: Universe | Mapping[str, Axis | Iterable[Any]],
        queries: AskedQueries,
        *,
        rows: int,
        schema: Mapping[str, str],
        measure: Measure = "classes",
        concentrated: bool = False,
    ) -> None:
        if type(concentrated) is not bool:
            raise InvalidParameter("concentrated is True or False")
        made = SmallDatabase(universe=universe, queries=queries, epsilon=1, rows=whole(rows, "rows"), measure=measure)
        object.__setattr__(self, "call", made)
        object.__setattr__(self, "workload", Workload.of(universe, queries, dict(schema)))
        object.__setattr__(self, "concentrated", concentrated)
        self.interaction(Fraction(1), Neighbouring("replace", None))

    @property
    def rows(self) -> int:
        """How many rows each database has."""
        return self.call.rows or 0

    @cached_property
    def law(self) -> Law:
        return self.workload.law(self.rows, self.call.measure, self.concentrated)

    def interaction(self, epsilon: Fraction, neighbouring: Neighbouring) -> Interaction:
        own = 2 * epsilon if self.concentrated else epsilon
        sized = replace(self.call, epsilon=own)
        return AskSmallDatabase(sized, neighbouring, self.workload, self.rows, self.concentrated)
