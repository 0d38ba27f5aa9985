"""Sessions: reserve - run - settle."""

from chary.session.algorithm import Algorithm
from chary.session.distinct_counts import DistinctCount
from chary.session.individual import IndividualStream, LivingCount
from chary.session.labelling import Label
from chary.session.opening import open, open_rows, open_series
from chary.session.quoting import Quote
from chary.session.racing import Race
from chary.session.reporting import Entry, PlainComposition, Spending
from chary.session.results import Answer, Answers, Conditional, Outcome, Pair, RaceOutcome, Tracked, WatchResult
from chary.session.selections import Chosen, Coverage, Selected, Top
from chary.session.session import Session
from chary.session.sketching import DistinctEstimate
from chary.session.spine import STEPS, Spine
from chary.session.tracking import Tracker

__all__ = [
    "STEPS",
    "Algorithm",
    "Answer",
    "Answers",
    "Chosen",
    "Conditional",
    "Coverage",
    "DistinctCount",
    "DistinctEstimate",
    "Entry",
    "IndividualStream",
    "Label",
    "LivingCount",
    "Outcome",
    "Pair",
    "PlainComposition",
    "Quote",
    "Race",
    "RaceOutcome",
    "Selected",
    "Session",
    "Spending",
    "Spine",
    "Top",
    "Tracked",
    "Tracker",
    "WatchResult",
    "open",
    "open_rows",
    "open_series",
]
