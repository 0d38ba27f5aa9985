"""Sessions: reserve - run - settle."""

from chary.answers import Spending
from chary.core.quote import Quote
from chary.core.transaction import STEPS, Spine
from chary.core.versions import Version
from chary.session.opening import open, open_counts, open_rows, open_votes
from chary.session.session import Session, entry_budget, findings, plain_composition, unit_budget
from chary.session.statement import Entry, PlainComposition

__all__ = [
    "STEPS",
    "Entry",
    "PlainComposition",
    "Quote",
    "Session",
    "Spending",
    "Spine",
    "Version",
    "entry_budget",
    "findings",
    "open",
    "open_counts",
    "open_rows",
    "open_votes",
    "plain_composition",
    "unit_budget",
]
