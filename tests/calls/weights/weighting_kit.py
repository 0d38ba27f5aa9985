"""What the tests of histograms of the visits share: a universe, questions, true shares, and openings over it."""

from chary import Bins
from chary.calls import PMW
from tests.session.kit import CLINICS

UNIVERSE = {"clinic": CLINICS, "age": Bins([20, 30, 40, 50, 60, 81])}
QUESTIONS = [
    "clinic = 'north'",
    "age >= 30 AND age < 50",
    "clinic IN ('north', 'south') AND age >= 40",
    "clinic = 'east' OR age < 30",
    "NOT clinic = 'south'",
    "clinic IS NULL",
]


def true_share(frame, text):
    """The share of the rows that satisfy a question; no value is missing."""
    if "NULL" in text:
        return 0.0
    for ours, theirs in ((" = ", " == "), ("AND", "and"), ("OR", "or"), ("IN", "in"), ("NOT", "not")):
        text = text.replace(ours, theirs)
    return len(frame.query(text)) / len(frame)


def weights_of(session, **options):
    given = {"universe": UNIVERSE, "alpha": "0.06", "epsilon": "0.2"} | options
    return session.start(PMW(**given))
