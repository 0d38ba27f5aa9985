"""The session: everything an analyst does with a dataset, under the one budget its ledger keeps."""

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from chary.amounts import Amount, steps_down
from chary.errors import InvalidParameter
from chary.numbers import Number, exact
from chary.session.advising import Advising
from chary.session.asking import Asking
from chary.session.choosing import Choosing
from chary.session.continual_counts import Continuing
from chary.session.distinct_counts import Sketching
from chary.session.entry_budgets import promised_to_units
from chary.session.gaussian_selecting import GaussianSelecting
from chary.session.growing import Growing
from chary.session.growing_sparse_vectors import GrowingSparse
from chary.session.histograms import Tabulating
from chary.session.individual_streams import Individual
from chary.session.labelling import Labelling
from chary.session.mwem_calls import Synthesizing
from chary.session.quantiles import Quantiling
from chary.session.quotes import Quoting
from chary.session.racing import Racing
from chary.session.randomized import Responding
from chary.session.reporting import (
    Entry,
    PlainComposition,
    Spending,
    entries,
    plain_composition,
    remaining,
    spending,
    statement,
)
from chary.session.scheduling import Scheduling
from chary.session.selecting import Selecting
from chary.session.small_databases import SmallDatabases
from chary.session.sparse_vectors import SparseVectors
from chary.session.tracking import Calling
from chary.session.weighting import Weighting
from chary.session.zones import Sorting


@dataclass(frozen=True)
class Session(
    Asking,
    Quoting,
    Advising,
    Calling,
    Sorting,
    Racing,
    Labelling,
    Selecting,
    Individual,
    Sketching,
    SparseVectors,
    GrowingSparse,
    GaussianSelecting,
    Choosing,
    Responding,
    Quantiling,
    Tabulating,
    Weighting,
    SmallDatabases,
    Synthesizing,
    Continuing,
    Scheduling,
    Growing,
):
    """Questions to one dataset under one hard budget; made by `chary.open` or `chary.open_series`.

    Guarantee: all answers to all analysts together, whatever they ask and however often the session is reopened, are
    (epsilon, delta)-DP for every privacy unit under the neighbouring relation of the session (see `statement`).
    A call that cannot be right raises before anything is charged; one that does not fit raises `BudgetRefused`; one
    that fails in the engine (`EngineFailure`) stays charged.

    Every asking method takes `request=`: a key of your choice under which a repeated request (after a crash, say)
    returns the stored answer for free; the same key with another question raises `RequestConflict`.
    Sessions may be used from several threads, and several processes may open the same ledger.
    """

    def set_share(self, analyst: str, share: Number) -> None:
        """Cap one analyst at a share of the dataset's budget, inside the dataset's own cap."""
        part, capacity = exact(share, "share"), self.spine.filter.capacity
        if not 0 <= part <= 1:
            raise InvalidParameter("share must lie between 0 and 1, such as set_share('alice', 0.5)")
        cap = Amount(steps_down(part, capacity.main), steps_down(part, capacity.delta))
        self.spine.ledger.set_share(self.spine.dataset, analyst, cap)

    @property
    def schema(self) -> dict[str, str]:
        """Column names and types, which are public; nothing is read."""
        return self.spine.rows.schema

    @property
    def spent(self) -> Spending:
        """What is spent by all analysts together, open reservations included."""
        return spending(self.spine.filter, self.spine.ledger.balance(self.spine.dataset).spent)

    @property
    def remaining(self) -> Spending:
        """What this session's analyst could still spend."""
        return remaining(self.spine.filter, self.spine.left())

    @property
    def history(self) -> list[Entry]:
        """Every call of every analyst, oldest first; all of it is public."""
        return list(entries(self.spine.ledger, self.spine.dataset, self.spine.filter))

    @property
    def plain_composition(self) -> PlainComposition:
        """What the same questions would have cost by ordinary composition, every test paid."""
        return plain_composition(self.history, self.spine.filter.budget)

    def statement(self) -> str:
        """One paragraph that says what was guaranteed so far, to whom, under which relation and assumptions."""
        said = statement(self.spine.ledger, self.spine.dataset, self.spine.filter, self.spine.rows.neighbouring)
        return said + promised_to_units(self.spine.rows, self.spine.filter.budget)

    def close(self) -> None:
        """Close the table and the ledger; everything can be reopened."""
        self.spine.rows.close()
        self.spine.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Session({self.spine.dataset!r}, {self.spine.filter.budget}, spent {self.spent})"
