"""What the caller of an opening said about the budget, and the filter that follows."""

from collections.abc import Iterable

from chary.accounting import Event
from chary.errors import InvalidParameter, LedgerMismatch
from chary.filters import Budget, ExactFilter, Filter, Listing, PureFilter, RenyiFilter
from chary.numbers import Number, exact, plain, positive

FILTERS = ("pure", "renyi", "exact")


class BudgetChoice:
    """What the caller said about the budget; what is not said is read from the ledger."""

    def __init__(
        self,
        budget: Budget | None,
        kind: str | None,
        grain: Number | None,
        approximate: Number,
        menu: Iterable[Event | Listing] | None = None,
    ) -> None:
        if kind is not None and kind not in FILTERS:
            raise InvalidParameter(f"filter must be one of {', '.join(FILTERS)}, got {kind!r}")
        if budget is not None and not isinstance(budget, Budget):
            raise InvalidParameter("budget must be a Budget, such as chary.Budget(epsilon=1, delta=1e-6)")
        self.budget, self.kind = budget, kind
        self.grain = None if grain is None else positive(grain, "grain")
        self.approximate = exact(approximate, "approximate_delta")
        self.menu = None if menu is None else tuple(menu)
        if self.menu is not None and kind not in (None, "exact"):
            raise InvalidParameter('a menu is that of the exact filter: filter="exact", menu=[...]')

    def make(self) -> Filter:
        """The filter of a new dataset."""
        if self.budget is None:
            raise InvalidParameter("a new ledger needs a budget, such as budget=chary.Budget(epsilon=1, delta=1e-6)")
        if self.menu is not None:
            return self._listed(self.budget, self.menu)
        kind = self.kind or ("renyi" if self.budget.exact[1] else "pure")
        if kind == "pure":
            return PureFilter(self.budget, self.approximate).for_new_data()
        if kind == "renyi":
            filter_ = RenyiFilter.best(self.budget, grain=self.grain, approximate_delta=self.approximate)
            return filter_.for_new_data()
        if self.grain is None:
            raise InvalidParameter('the exact filter needs the epsilon of a call: filter="exact", grain=0.02')
        return ExactFilter.with_revisions(self.budget, self.grain, approximate_delta=self.approximate)

    def _listed(self, budget: Budget, menu: tuple[Event | Listing, ...]) -> ExactFilter:
        return ExactFilter.of_events(budget, menu, grain=self.grain, approximate_delta=self.approximate)

    def agrees_with(self, held: Filter) -> None:
        """Whatever the caller said must be what the ledger holds."""
        if self.budget is not None and self.budget != held.budget:
            raise LedgerMismatch(
                f"the ledger holds this dataset under {held.budget}, not {self.budget}: say no budget to go on "
                "under its own; another takes a new ledger, which does not count what this one spent: both add up"
            )
        if self.kind is not None and self.kind != held.kind:
            raise LedgerMismatch(f"the ledger prices this dataset by the {held.kind} filter, not {self.kind}")
        if self.approximate and self.approximate != held.approximate_delta:
            raise LedgerMismatch(f"the ledger sets {plain(held.approximate_delta)} of delta aside, not as asked")
        if isinstance(held, ExactFilter) and self.grain not in (None, held.grain):
            raise LedgerMismatch(f"the ledger's exact filter has grain {plain(held.grain)}, not as asked")
        if self.menu is not None and not self._lists_the_same(held):
            raise LedgerMismatch("the ledger's filter has another menu: leave menu= out")

    def _lists_the_same(self, held: Filter) -> bool:
        listed = [entry.event for entry in getattr(held, "menu", ()) if isinstance(entry, Listing)]
        return listed == [entry.event if isinstance(entry, Listing) else entry for entry in self.menu or ()]
