"""Three years of weekly batches of half-hourly loads: no change is lost or told twice, and what is quoted holds."""

import math

import numpy as np
import pyarrow as pa
import pytest

import chary
from chary import Budget, count
from chary.calls import Alert
from chary.noise import Seeded
from tests.calls.growing.loads import batch, sunday, weeks

HOMES, WEEKS = 300, 156
ABOVE, CLEAR = 150, 75
ALERT = Alert(count("peak >= 1"), above=ABOVE, clear_below=CLEAR, hits=40, time="day", window="7 days")


@pytest.fixture(scope="module")
def years():
    """The batches, and how many homes had a half-hour of 1 kWh or more in each week."""
    loads = list(weeks(HOMES, WEEKS, seed=1))
    truths = [int(np.count_nonzero(each.max(axis=(1, 2)) >= 1)) for each in loads]
    return [batch(each, week) for week, each in enumerate(loads)], truths


def test_each_firing_and_clearing_of_three_years_is_told_once(years, tmp_path):
    """Also by a process that goes on after another, and the ledger has them all with what was charged."""
    batches, truths = years
    options = {
        "privacy_unit": "home",
        "budget": Budget(epsilon=8, delta="1e-6"),
        "ledger": tmp_path / "ledger.db",
        "dataset": "loads",
    }
    told, half = [], WEEKS // 2
    with chary.open(batches[0], **options, unsafe_noise=Seeded(5)) as session:
        run = session.start(ALERT)
        for week in range(half):
            _ = session.append(batches[week]) if week else None
            told.append(run.ask(at=sunday(week)))
        number = run.call
    with chary.open(pa.concat_tables(batches[:half]), **options, unsafe_noise=Seeded(6)) as session:
        run = session.resume(number)
        for week in range(half, WEEKS):
            session.append(batches[week])
            told.append(run.ask(at=sunday(week)))
        law, kept, share = run.law, run.state.results, float(run.spent.share)
    assert kept == told
    active = [each.active for each in told]
    before = [False, *active[:-1]]
    assert [each.changed for each in told] == [now != then for now, then in zip(active, before, strict=True)]
    changes = [each for each in told if each.changed]
    assert share == pytest.approx(len(changes) / 40)
    # Four winters begin and three end; changes within the noise of a threshold may come on top.
    assert 7 <= len(changes) <= 13
    never = law.tests.tails.reach_up(1e-9)
    for truth, then, now in zip(truths, before, active, strict=True):
        assert not (truth <= ABOVE - never and now and not then)
        assert not (truth >= CLEAR + never and then and not now)
        assert now or truth < ABOVE + law.tests.tails.miss_reach_up(1e-9)
    ends = [(each.interval, truths[week]) for week, each in enumerate(told) if each.changed]
    missed = sum(not low <= truth <= high for (low, high), truth in ends)
    assert missed <= 0.05 * len(changes) + 5 * math.sqrt(0.05 * 0.95 * len(changes)) + 1
