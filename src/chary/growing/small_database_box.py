"""SmallDB as a black box for schedules: SmallDBG of [GROW] section 3.1.1."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting.laws import Law
from chary.data import Neighbouring, Universe
from chary.data.axes import Axis
from chary.mechanisms.small_database_classes import Measure
from chary.numbers import whole
from chary.session.interaction import Interaction
from chary.session.scheduled import BlackBox
from chary.session.small_database import MakeSmallDatabase
from chary.session.small_database_workload import Workload
from chary.session.workload import AskedQueries


@dataclass(frozen=True)
class SmallDatabaseBox(BlackBox):
    """A small synthetic database for a list of queries, made anew by each run; see `Session.small_database`.

    `schema` is `session.schema`: the types by which conditions are read. `schedule.latest.answer` is a
    `SmallDatabase`.

    Law: the largest error of any query, with p = 1, c = 2, as many choices as there are candidates, and the coarseness
    of so many rows as its base. `concentrated`, for schedules by rho, where a run need only be epsilon^2/2-zCDP: the
    exponential mechanism of 2 epsilon is, so that c = 1. It takes for granted that every row lies in a cell of the
    universe. Errors: those of `Session.small_database`.

    >>> box = SmallDatabaseBox({"smoker": [True, False]}, ["smoker"], rows=20, schema={"smoker": "boolean"})
    >>> box.law.body()["choices"], round(box.law.error(size=10_000, epsilon="0.1", beta="0.05"), 3)
    ('21', 0.037)
    """

    workload: Workload
    rows: int
    measure: Measure = "classes"
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
        object.__setattr__(self, "workload", Workload.of(universe, queries, dict(schema)))
        object.__setattr__(self, "rows", whole(rows, "rows"))
        object.__setattr__(self, "measure", measure)
        object.__setattr__(self, "concentrated", concentrated)
        self.interaction(Fraction(1), Neighbouring("replace", None))

    @cached_property
    def law(self) -> Law:
        return self.workload.law(self.rows, self.measure, self.concentrated)

    def interaction(self, epsilon: Fraction, neighbouring: Neighbouring) -> Interaction:
        own = 2 * epsilon if self.concentrated else epsilon
        return MakeSmallDatabase(
            self.workload, neighbouring, own, self.rows, self.measure, self.rows, self.concentrated
        )
