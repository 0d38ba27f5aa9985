"""The openings of runs, as they are carried through the spine."""

from collections.abc import Sequence
from typing import Any, TypeVar

from chary.calls.call import Bound, Call
from chary.core.plan import FREE, Json
from chary.data import Query
from chary.filters import Filter, Price

OpeningT = TypeVar("OpeningT", bound=Call[Any])


class BoundOpening(Bound[OpeningT]):
    """An opening and its neighbours. It presents its number, by which the run is gone on with, and asks nothing of the
    rows."""

    def queries(self) -> Sequence[Query]:
        return ()

    def present(self, answer: Json, call: int) -> int:
        return call


class FreeOpening(BoundOpening[OpeningT]):
    """One that costs nothing, since nothing is told; `event` is that of the questions to come."""

    adds_up = True

    def price(self, filter_: Filter) -> Price:
        super().price(filter_)  # refuses what could never be charged
        return FREE
