"""What any kind tells of a part of the rows follows from the rows of that part, and is charged to it alone."""

import json

import pandas as pd
import pytest

import chary
from chary import Budget
from chary.answers import Answer
from chary.errors import InvalidParameter, InvalidQuery, NotPriced
from chary.noise import Seeded
from chary.session import findings
from tests.conformance.sample import NEIGHBORS, REPLACED, VOTES
from tests.conformance.samples import AFTER, EVERY
from tests.session.kit import visits

ROOM = {"grain": "0.02", "budget": Budget(epsilon=2, delta=1e-6), "ledger": ":memory:"}
RELATIONS = {
    "come and go": {"privacy_unit": "patient"},
    "replaced": NEIGHBORS[REPLACED],
    "rows": {"privacy_unit": None},
}


def others():
    """The rows of the north, with others elsewhere, and more of them."""
    rows = visits()
    north = rows[rows["clinic"] == "north"]
    more = [{"patient": 900 + row, "clinic": "south", "age": 3, "cost": 1e5, "note": "more"} for row in range(37)]
    return pd.concat([pd.DataFrame(more[:20]), north, pd.DataFrame(more[20:])])


def told(name, rows, relation):
    """All that the part of the north tells, or the refusal; and that nothing else is charged."""
    limits = {"max_parts_per_unit": 1} if relation["privacy_unit"] else {}
    with chary.open(rows, unsafe_noise=Seeded(5), **ROOM, **relation) as session:
        # Nobody of the north is in the other part, so that the first parts of the north are the same.
        north = session.partition("clinic", ["north", "west"], **limits)["north"]
        try:
            if name in AFTER:
                AFTER[name](north, None)
            answer = EVERY[name](north, "one")("monday")
        except (InvalidQuery, InvalidParameter, NotPriced) as refused:
            return type(refused), str(refused)
        calls = list(session.spine.ledger.calls(session.spine.dataset))
        assert {call.parts.names for call in calls} == {("north",)}
        kept = answer.to_dict() if isinstance(answer, Answer) else answer
        stored = [(call.kind, json.loads(call.body), call.outcome, call.charged) for call in calls]
        return repr(kept), stored, findings(session).rows(simultaneous=True)


@pytest.mark.parametrize("relation", RELATIONS.values(), ids=RELATIONS)
@pytest.mark.parametrize("name", [name for name, sample in EVERY.items() if sample.rows != VOTES])
def test_rows_outside_of_a_part_change_nothing(name, relation):
    assert told(name, visits(), relation) == told(name, others(), relation)
