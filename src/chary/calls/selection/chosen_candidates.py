"""A choice among a list of public candidates: what is read for it, and what is told."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Generic

import numpy as np

from chary.accounting import Pure
from chary.calls.answers import ChosenKey
from chary.calls.call import Bound, CallT
from chary.calls.selection.choices import bounded_range_price
from chary.calls.selection.score_functions import ScoreFunction, failed
from chary.core.plan import BETA, Json, Ran, Touched
from chary.data import Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter
from chary.filters import Filter, Price

_SCALARS: Final = (str, bool, int, float, Fraction, date)


@dataclass(frozen=True)
class AskCandidate(Bound[CallT], Generic[CallT]):
    """A choice by scores or distances of the caller's own: the position of the chosen candidate is published."""

    @property
    @abstractmethod
    def brought(self) -> Any:
        """The function, or the queries."""

    @abstractmethod
    def position(self, found: Sequence[Any], touched: Touched) -> int:
        """The exact choice, given what the function returned or the queries answered."""

    @property
    def candidates(self) -> Sequence[Any]:
        """The public candidates."""
        call: Any = self.call
        return tuple(call.candidates)

    @cached_property
    def event(self) -> Pure:
        call: Any = self.call
        return Pure(call.epsilon)

    adds_up = True

    def price(self, filter_: Filter) -> Price:
        return bounded_range_price(filter_, self.event.epsilon)

    def queries(self) -> Sequence[Query]:
        if isinstance(self.brought, ScoreFunction):
            return ()
        return [self.brought] if isinstance(self.brought, Query) else list(self.brought)

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.brought.prepare(rows)] if isinstance(self.brought, ScoreFunction) else super().prepare(rows)

    def run(self, touched: Touched) -> Ran:
        try:
            found = self._found(touched)
        except AlgorithmFailed:
            return Ran({"failed": True}, 0, 0)
        return Ran({"position": self.position(found, touched)}, 0, 0)

    def _found(self, touched: Touched) -> Sequence[Any]:
        if isinstance(self.brought, ScoreFunction):
            return self.brought.scores(touched.values[0], self.candidates, touched.source)
        read = [touched.integers(place) for place in range(len(touched.values))]
        return [int(value) for value in np.concatenate(read)]

    def present(self, answer: Json, call: int) -> ChosenKey:
        if "failed" in answer:
            raise AlgorithmFailed(failed(self.brought.name))
        return ChosenKey(call, self.candidates[answer["position"]], shortfall=self.shortfall(BETA))


def checked(candidates: Any) -> int:
    """How many there are; `InvalidParameter` for fewer than two, lists, and any twice."""
    listed = tuple(candidates)
    if len(listed) < 2 or not all(isinstance(each, _SCALARS) for each in listed):
        raise InvalidParameter('candidates are two or more public values, such as candidates=["a", "b"] or [0.5, 1, 2]')
    if len({(type(each) is bool, each) for each in listed}) != len(listed):
        raise InvalidParameter("candidates must be different")
    return len(listed)
