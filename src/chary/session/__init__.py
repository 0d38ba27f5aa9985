"""Sessions: reserve - run - settle."""

from chary.answers import Spending
from chary.core.quote import Quote
from chary.core.transaction import STEPS, Spine
from chary.core.versions import Version
from chary.session.entry_budgets import entry_budget, unit_budget
from chary.session.opening import open, open_rows, open_series
from chary.session.reporting import Entry, PlainComposition
from chary.session.session import Session, findings, plain_composition
from chary.session.streams import open_stream

__all__ = [
    "STEPS",
    "Entry",
    "PlainComposition",
    "PublicReport",
    "Quote",
    "Session",
    "Spending",
    "Spine",
    "Version",
    "entry_budget",
    "findings",
    "open",
    "open_rows",
    "open_series",
    "open_stream",
    "plain_composition",
    "report",
    "unit_budget",
]
