"""MWEM as a black box for schedules ([GROW] section 3; theory 6)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting.schedules import Law
from chary.accounting.synthesis import earlier_mwem_law, mwem_law
from chary.calls.fields import AskedQueries
from chary.calls.schedules import BlackBox
from chary.calls.synthesis import MWEM, AskMWEM
from chary.core.plan import Interaction
from chary.data import Neighbouring, Universe
from chary.data.universe.axes import Axis
from chary.errors import InvalidParameter

# MWEM divides by the number of rows, so that must be public.
_ROWS = Neighbouring("replace", None)


@dataclass(frozen=True)
class MWEMBox(BlackBox):
    """A synthetic histogram for a list of queries, made anew by each run; see `chary.calls.MWEM`.

    `run.state.latest.answer` is a `SyntheticHistogram`. With `gaussian`, for schedules by rho, a run is
    epsilon^2/2-zCDP, where noise grows with the root of the number of rounds.

    Law: the largest error of any of the queries, with p = 1; its base is `sqrt(ln N/(2T))` for N cells and T rounds,
    and its factor that of `chary.accounting.synthesis.mwem_law`. It takes for granted that every row
    lies in a cell of the universe, and it is for the worst data: errors are mostly far smaller. It is meant for runs
    of an epsilon of at most 1,024 times the number of rounds, or with `gaussian` its root.

    Errors: those of `chary.calls.MWEM`.

    >>> box = MWEMBox({"age": range(100), "smoker": [True, False]}, ["smoker", "age < 30"], rounds=10)
    >>> box.law.body()["choices"], round(box.law.error(size=100_000, epsilon=1, beta="0.05"), 3)
    ('27', 0.543)
    """

    call: MWEM
    gaussian: bool = False

    def __init__(
        self,
        universe: Universe | Mapping[str, Axis | Iterable[Any]],
        queries: AskedQueries,
        *,
        rounds: int,
        gaussian: bool = False,
    ) -> None:
        object.__setattr__(self, "call", MWEM(universe=universe, queries=queries, rounds=rounds, epsilon=1))
        object.__setattr__(self, "gaussian", gaussian)
        if type(gaussian) is not bool:
            raise InvalidParameter("gaussian is True or False")

    @cached_property
    def law(self) -> Law:
        return mwem_law(**self._sizes, gaussian=self.gaussian)

    @property
    def laws(self) -> Sequence[Law]:
        return [self.law, earlier_mwem_law(**self._sizes, gaussian=self.gaussian)]

    @cached_property
    def _sizes(self) -> dict[str, int]:
        asked = AskMWEM(self.call, _ROWS)
        return {"cells": max(2, asked.universe.cells), "queries": len(asked.asked), "rounds": self.call.rounds}

    def interaction(self, epsilon: Fraction, neighbouring: Neighbouring) -> Interaction:
        rho = {"epsilon": None, "rho": epsilon**2 / 2}
        return AskMWEM(replace(self.call, **(rho if self.gaussian else {"epsilon": epsilon})), neighbouring)
