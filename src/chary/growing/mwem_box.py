"""MWEM as a black box for schedules ([GROW] section 3; theory 6)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting.laws import Law
from chary.accounting.mwem import mwem_law
from chary.data import Neighbouring, Universe
from chary.data.axes import Axis
from chary.errors import InvalidParameter
from chary.session.interaction import Interaction
from chary.session.mwem import MakeHistogram, make_histogram
from chary.session.scheduled import BlackBox
from chary.session.workload import AskedQueries

_ROWS = Neighbouring("replace", None)


@dataclass(frozen=True)
class MWEMBox(BlackBox):
    """A synthetic histogram for a list of queries, made anew by each run; see `Session.mwem`.

    `schedule.latest.answer` is a `SyntheticHistogram`. With `gaussian`, for schedules by rho, a run is
    epsilon^2/2-zCDP, where noise grows with the root of the number of rounds.

    Law: the largest error of any of the queries, with p = 1; its base is `sqrt(ln N/(2T))` for N cells and T rounds,
    and its factor that of `chary.accounting.mwem.mwem_law`. It takes for granted that every row lies in a cell of the
    universe, and it is for the worst data: errors are mostly far smaller. It is meant for runs of an epsilon of at most
    1,024 times the number of rounds, or with `gaussian` its root.

    Errors: those of `Session.mwem`.

    >>> box = MWEMBox({"age": range(100), "smoker": [True, False]}, ["smoker", "age < 30"], rounds=10)
    >>> box.law.body()["choices"], round(box.law.error(size=100_000, epsilon=1, beta="0.05"), 3)
    ('40', 0.545)
    """

    call: MakeHistogram
    gaussian: bool = False

    def __init__(
        self,
        universe: Universe | Mapping[str, Axis | Iterable[Any]],
        queries: AskedQueries,
        *,
        rounds: int,
        gaussian: bool = False,
    ) -> None:
        object.__setattr__(self, "call", make_histogram(universe, queries, _ROWS, rounds, epsilon=1))
        object.__setattr__(self, "gaussian", gaussian)
        if type(gaussian) is not bool:
            raise InvalidParameter("gaussian is True or False")

    @cached_property
    def law(self) -> Law:
        rounds, cells = self.call.mechanism.rounds, self.call.universe.cells
        return mwem_law(cells=max(2, cells), queries=len(self.call.asked), rounds=rounds, gaussian=self.gaussian)

    def interaction(self, epsilon: Fraction, neighbouring: Neighbouring) -> Interaction:
        rounds = self.call.mechanism.rounds
        sizes = {"rho": epsilon**2 / 2} if self.gaussian else {"epsilon": epsilon}
        return make_histogram(self.call.universe, list(self.call.asked), neighbouring, rounds, **sizes)
