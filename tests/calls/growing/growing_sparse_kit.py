"""What the tests of growing sparse vectors share: rows that are units, more visits, and what each round was charged."""

import pandas as pd
import pytest

from chary import Budget
from chary.calls import growing_tests
from chary.data import NeighborRelation

PURE = Budget(epsilon=2)
ROW = NeighborRelation("replace", None)
NEVER, ALWAYS = 10**6, -(10**6)


@pytest.fixture(scope="module")
def any_threshold():
    """Lets tests ask about thresholds that no average can have: whatever the noise, the answer is known."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing_tests, "check_average", lambda *_asked: None)
        yield


def more(number, age=90):
    """So many further visits."""
    return pd.DataFrame([{"patient": 7, "clinic": "north", "age": age, "cost": 1.0, "note": "none"}] * number)


def charges(session):
    """What each round was charged, in the order in which they began."""
    return [entry.share * 2 for entry in session.history if entry.kind == "growing_sparse_round"]
