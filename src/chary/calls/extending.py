"""A later call on the outcome that an earlier one held back: what all of them share."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from chary.accounting import Event, Extendable
from chary.calls.call import Bound, CallT
from chary.core.plan import FREE, Json
from chary.data import Query
from chary.errors import UnknownHeld
from chary.filters import Filter, Price


@dataclass(frozen=True)
class Extending(Bound[CallT]):
    """An extension of the target of an earlier call ([TCT] Algorithm 2); `original` is the public body of that call.

    It reads only the stored outcome, and is free where the filter charged the first call hit or miss.
    """

    original: Json

    @property
    @abstractmethod
    def held(self) -> int:
        """The call that holds the outcome."""

    @property
    def event(self) -> Event:
        return Extendable(Fraction(self.original["epsilon"]))

    def price(self, filter_: Filter) -> Price:
        price = super().price(filter_)
        return price if price.free_miss else FREE

    def queries(self) -> Sequence[Query]:
        return ()

    def check(self, secret: bytes | None) -> None:
        if secret is None:
            raise UnknownHeld(f"call {self.held} holds no outcome: it was published, or the call was interrupted")
