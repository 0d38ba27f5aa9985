"""The auditor catches runs that charge too little, and finds nothing against the same when they are right."""

from contextlib import nullcontext

import pyarrow as pa
import pytest

from chary import count
from chary.audit.cases.tests import COUNTED, even
from chary.audit.findings import matrices, most_shown
from chary.audit.transcripts import DELTA, Tables, renyi
from chary.calls import IndividualTests, MultiTarget
from chary.core.plan import Data
from chary.mechanisms.sketches import Counters
from chary.noise import Seeded
from tests.audit.broken import charging

KEYS = 1500
IN_ALL_OR_NONE = Tables(
    {"unit": [1] * KEYS, "place": list(range(KEYS))},
    {"unit": pa.array([], pa.int64()), "place": pa.array([], pa.int64())},
)
# Of the keys of one unit all are told: the first ones use up its counter.
STREAM = IndividualTests(hits=2, epsilon="0.18")
QUESTION = [count().by("place", range(KEYS), max_groups_per_unit=KEYS)]
# A call without a price per hit, that hits one of two targets whatever comes out.
DEAR, PRIORS = even(1), {"odd": "odd", "even": "even"}


def shown_of_a_stream(times):
    """What the sum of all counts shows that a stream tells once its first answer has used up all counters."""
    source, sides = Seeded(1), []
    for rows in IN_ALL_OR_NONE():
        run = renyi(1, "0.18")(1).opened(rows, source).start(STREAM)
        asked = run.plan(*QUESTION, above=-200)
        price, values = asked.price(run._spine.filter), [reading.run() for reading in asked.reads(rows)]
        first = asked.run(Data(values, source, Counters(STREAM.hits).dump(), None, price))
        assert first.hits == KEYS
        used, tests = first.secrets[run.call], run.law(QUESTION[0], rows.neighbor_relation).machine(-200, None)
        with values[0].at(run.memory.standing(used)[1]) as units:
            counts = units.answers()
        sides.append([sum(tests.step(counts, source).noisy) for _ in range(times)])
    return most_shown(*matrices(*sides), float(DELTA)).epsilon


def race_told(race, price, left, source, value):
    """How often a race answers until its budget is spent, and how often it said "odd"."""
    secret, told = b"[0, 0]", []
    while len(told) < 6 and price.hit.main <= left:
        ran = race.run(Data((value,), source, secret, None, price))
        left, secret = left - race.cost.final(price, ran, 1).main, ran.secrets[race.state]
        told.append(ran.answer["value"])
    return [len(told), told.count("odd")]


def shown_of_a_race(times, epsilon):
    """What the answers of a race show that was opened under a budget of this epsilon."""
    source, sides = Seeded(1), []
    for rows in COUNTED():
        session = renyi(epsilon)(1).opened(rows, source)
        race = session.start(MultiTarget(list(PRIORS))).plan(DEAR, priors=PRIORS)
        price, left = race.price(session.spine.filter), (session.spine.filter.capacity - session.spent.amount).main
        assert not price.free_miss
        [value] = (reading.run() for reading in race.reads(rows))
        sides.append([race_told(race, price, left, source, value) for _ in range(times)])
    return most_shown(*matrices(*sides), float(DELTA)).epsilon


@pytest.mark.statistical
@pytest.mark.parametrize("broken", [False, True])
def test_a_unit_that_used_up_its_counter_and_stays_is_caught(broken):
    with charging.forgetting_to_drop() if broken else nullcontext():
        shown = shown_of_a_stream(400)
    assert (shown > 1) == broken


@pytest.mark.statistical
@pytest.mark.parametrize("broken", [False, True])
def test_a_race_that_counts_what_is_to_be_paid_in_full_is_caught(broken):
    with charging.counting_what_is_paid_in_full() if broken else nullcontext():
        shown = shown_of_a_race(4000, 2)
    assert (shown > 2) == broken
