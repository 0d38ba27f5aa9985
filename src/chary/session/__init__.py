"""Sessions: reserve - run - settle."""

from chary.session.algorithm import Algorithm
from chary.session.opening import open, open_rows, open_series
from chary.session.quoting import Quote
from chary.session.reporting import Entry, PlainComposition, Spending
from chary.session.results import Answer, Answers, Conditional, Outcome, Tracked, WatchResult
from chary.session.session import Session
from chary.session.spine import STEPS, Spine

__all__ = [
    "STEPS",
    "Algorithm",
    "Answer",
    "Answers",
    "Conditional",
    "Entry",
    "Outcome",
    "PlainComposition",
    "Quote",
    "Session",
    "Spending",
    "Spine",
    "Tracked",
    "WatchResult",
    "open",
    "open_rows",
    "open_series",
]
