"""Sessions: reserve - run - settle."""

from chary.session.opening import open, open_series
from chary.session.quoting import Quote
from chary.session.reporting import Entry, PlainComposition, Spending
from chary.session.results import Answer, Answers, Conditional, WatchResult
from chary.session.session import Session
from chary.session.spine import STEPS, Spine

__all__ = [
    "STEPS",
    "Answer",
    "Answers",
    "Conditional",
    "Entry",
    "PlainComposition",
    "Quote",
    "Session",
    "Spending",
    "Spine",
    "WatchResult",
    "open",
    "open_series",
]
