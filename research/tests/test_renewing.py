"""Budgets that renew for 20 years: what is true of each month, and months that are refused and come again."""

from dataclasses import replace
from datetime import datetime, time

import numpy as np
import pytest
from tests.session.kit import NO_NOISE

import chary
from chary.calls import Alert
from chary_research.experiments import renewing
from chary_research.experiments.renewing import ONE, REFUSED, RENEWED, asked, last_day, patients


@pytest.fixture(scope="module")
def early():
    """The first five years."""
    panel = patients()
    held = panel.months < 60
    return replace(panel, units=panel.units[held], months=panel.months[held], high=panel.high[held])


def test_what_is_true_is_what_a_session_reads(early):
    alert = Alert(**early.alert)
    with chary.open(early.table(), privacy_unit="unit", budget=NO_NOISE, ledger=":memory:") as session:
        for month in (0, 13, 45):
            query = alert.seen(datetime.combine(last_day(month), time()), "day")
            assert session.spine.rows.prepare(query).run() == early.truths()[month] > 0


def test_months_that_are_spent_refuse_until_they_leave_the_window(early, monkeypatch):
    """With two thresholds within the noise there are many changes, and none that a month did not pay for."""
    monkeypatch.setattr(renewing, "HITS", 2)
    noisy = replace(early, bars=(3_900, 3_890))
    ended = asked(noisy, RENEWED, 40, 3)
    refused = np.flatnonzero(ended.states.ravel() == REFUSED)
    assert 0 < len(refused) < 39
    assert np.flatnonzero(ended.states.ravel() != REFUSED)[-1] > refused[0]
    assert max(ended.spent) == pytest.approx(1)
    assert ended.changes > 2
    one = asked(noisy, ONE, 40, 3)
    assert one.changes == 2
    assert one.spent == pytest.approx([1])
