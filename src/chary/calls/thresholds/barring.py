"""What every call against a bar foretells of it, and refuses where it would mostly buy false alarms."""

from typing import Any, Generic

from chary.accounting import NoiseLaw
from chary.accounting.intervals import Tails
from chary.calls.call import Bound, CallT
from chary.core.plan import Barred, check_bar, least_of
from chary.data import Query


class Barring(Bound[CallT], Generic[CallT]):
    """A `Threshold` against its bar: many tests that are expected to report a truth where none is above are refused
    before anything is reserved, unless the call says `below_margin`."""

    def check(self, secret: bytes | None) -> None:
        super().check(secret)
        said: Any = self.call
        if self.tests > 1:
            check_bar(self.barred, meant=bool(said.below_margin))

    @property
    def tests(self) -> int:
        """How many tests the call is one of as it says, or makes."""
        said: Any = self.call
        return max(said.tests or 1, self.at_once)

    @property
    def at_once(self) -> int:
        """How many tests the call makes."""
        return 1

    def against(self, tails: Tails, query: Query, threshold: int, shared: NoiseLaw | None = None) -> Barred:
        """The bar of the call for what is tested; `shared` is the noise of values where it is that of the tests."""
        return Barred(tails, threshold, query.grid, self.tests, least_of(query, self.neighbouring), shared)
