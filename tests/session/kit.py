"""Shared by the tests of sessions: a small table with values that must never be seen, and how to look for them."""

import copy
import re
import traceback
from contextlib import contextmanager
from fractions import Fraction

import pandas as pd

import chary
from chary import Budget
from chary.accounting import Event
from chary.amounts import Amount
from chary.core.plan import Data, Plan
from chary.data import Votes
from chary.filters import Price
from chary.session import open_votes

SECRET_NUMBER = 987654321
SECRET_NAME = "SECRETNAME"
CLINICS = ["north", "south", "east"]
# So large that noise at epsilon=1000 is zero but once in 10^400.
NO_NOISE = Budget(epsilon=10**6, delta=1e-6)
PLENTY = 1000
PAID = Price(Amount(1), Amount(0))
USUAL = Budget(epsilon=1, delta=1e-6)
# Each row is a unit, and how many there are is public.
PUBLIC = {"privacy_unit": None, "neighbors": "replace"}
# Where an object lies in memory, which any digits may be.
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# What people are not told unless they ask.
WORDS_OF_ACCOUNTING = re.compile(r"\b(order|rho|alpha|lambda|epsilon)\b|log.?moment")


def visits() -> pd.DataFrame:
    """120 visits of 50 patients; one row holds what must never appear outside an answer."""
    rows = [
        {
            "patient": 100 + visit % 50,
            "clinic": CLINICS[(visit * visit) % 7 % 3],
            "age": 20 + (visit % 50) * 3 % 61,
            "cost": float(visit * 37 % 101) + 0.25 * (visit % 3),
            "note": "none",
        }
        for visit in range(119)
    ]
    secret = {"patient": SECRET_NUMBER, "clinic": "north", "age": 44, "cost": float(SECRET_NUMBER), "note": SECRET_NAME}
    return pd.DataFrame([*rows, secret])


@contextmanager
def sessions(**usual):
    """Open sessions on given rows, as usual but for what is told; whatever is still open in the end is closed."""
    made = []

    def make(rows, **options):
        made.append(chary.open(rows, **({"ledger": ":memory:", "budget": USUAL} | usual | options)))
        return made[-1]

    yield make
    for session in made:
        session.close()


def open_teachers(**options) -> chary.Session:
    """A session on votes: of a hundred teachers ninety say yes."""
    votes = Votes(lambda question: [90, 10], ["yes", "no"], voter="teacher")
    return open_votes(votes, **({"dataset": "data", "ledger": ":memory:"} | options))


def answers(session: chary.Session, plan: Plan, value: int, times: int) -> list[dict]:
    """What so many runs answer when the value is this one, the first of them also through the session.

    Laws need many runs, and no ledger: the session's own noise must begin anew for the first one to be the same.
    """
    source = copy.deepcopy(session.spine.source)
    touched = Data([value], source, None, None, PAID)
    found = [plan.run(touched).answer for _ in range(times)]
    session.spine.perform(plan, None)
    assert session.history[-1].answer == found[0]
    return found


def error_texts(error: BaseException | None) -> str:
    """Everything an error shows: itself, its traceback, its causes and contexts."""
    shown = []
    while error is not None:
        shown += [str(error), repr(error), repr(error.args), *traceback.format_exception(error)]
        if error.__cause__ is not None:
            shown.append(error_texts(error.__cause__))
        error = error.__context__
    return "\n".join(shown)


def shows_data(text: str) -> bool:
    """Whether a sentinel occurs in the text, in any of its spellings."""
    return any(secret in text for secret in (str(SECRET_NUMBER), "987,654,321", "9.8765", SECRET_NAME))


def recorded(session: chary.Session) -> chary.Session:
    """The session, once its dataset is in the ledger; nothing was asked."""
    session.set_quota("analyst", 1)
    return session


def spent(session: chary.Session) -> Amount:
    """What is charged, in the filter's own steps."""
    amount = session.spent.amount
    return Amount(amount.main, amount.delta)


def hit_of(session: chary.Session, event: Event) -> Amount:
    """What a hit of an event costs."""
    return session.spine.filter.price(event).hit


def steps(value: float | str | Fraction, unit: int = 10**15) -> int:
    """An epsilon in whole steps of the pure filter."""
    number = Fraction(value) * unit
    assert number.denominator == 1
    return int(number)
