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


NAMES = [name for name, sample in EVERY.items() if sample.rows != VOTES]


@pytest.mark.parametrize("relation", RELATIONS.values(), ids=RELATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_rows_outside_of_a_part_change_nothing(name, relation):
    assert told(name, visits(), relation) == told(name, others(), relation)


# Blocks: the same of two months that are read together, between others.

MONTHS = ("2024-02", "2024-03")


def in_months(*more):
    """The visits in two months, those of a patient in both, and more of other patients and of the same elsewhere."""
    rows = visits().assign(day=pd.to_datetime([f"2024-0{2 + row % 3 % 2}-10" for row in range(120)]))
    return pd.concat([*(rows.assign(day=pd.Timestamp(day), age=90, cost=0.5) for day in more), rows])


def told_in_blocks(name, rows, relation):
    """All that two months tell, or the refusal; and that nothing else is charged."""
    rule = chary.Blocks("day", every="month", since="2024-01")
    with chary.open(rows, unsafe_noise=Seeded(5), blocks=rule, **ROOM, **relation) as session:
        both = session.blocks(*MONTHS)
        try:
            if name in AFTER:
                AFTER[name](both, None)
            answer = EVERY[name](both, "one")("monday")
        except (InvalidQuery, InvalidParameter, NotPriced) as refused:
            return type(refused), str(refused)
        calls = list(session.spine.ledger.calls(session.spine.dataset))
        assert {call.parts.names for call in calls} == {MONTHS}
        assert set(session.spent_by_block.values()) == {0.0, session.spent.share}
        kept = answer.to_dict() if isinstance(answer, Answer) else answer
        return repr(kept), [(call.kind, call.body, call.outcome, call.charged) for call in calls]


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_other_blocks_change_nothing(name):
    relation = RELATIONS["come and go"]
    assert told_in_blocks(name, in_months(), relation) == told_in_blocks(
        name, in_months("2024-01-31", "2024-04-01", "2023-02-01", None), relation
    )
