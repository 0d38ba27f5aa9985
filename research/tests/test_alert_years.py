"""Years of alerts: what is taken for the truth, changes that are lost or told twice, and false ones beside the law."""

import copy
from dataclasses import replace
from datetime import datetime, time

import numpy as np
import pyarrow as pa
import pytest
from tests.session.kit import NO_NOISE

import chary
from chary_research.experiments.alert_years import ALERTS, WEEK, clinic, delays, exact_states, expected_false, watched


@pytest.fixture(scope="module")
def year():
    """The first year of the panel."""
    years = clinic()
    return replace(years, batches=years.batches[:52])


@pytest.mark.parametrize("name", ALERTS)
def test_what_is_true_is_what_a_session_reads(year, name):
    rows = pa.concat_tables([batch.table(year.monday + WEEK * week) for week, batch in enumerate(year.batches[:9])])
    truths, alert = year.truths(name), year.alert(name, 20)
    with chary.open(rows, privacy_unit="unit", budget=NO_NOISE, ledger=":memory:") as session:
        for week in (0, 2, 8):
            query = alert.seen(datetime.combine(year.sunday(week), time()))
            read = np.atleast_1d(session.spine.rows.prepare(query).run()).tolist()
            assert read == truths[week].tolist()
            assert min(read) > 0


def test_a_change_that_is_lost_or_told_twice_is_seen(year):
    [told], _ = watched(year, "groups", 20, [3])
    assert told.in_turn
    assert np.sum(told.changes) >= 4
    week, group = np.argwhere(told.changes)[1]
    for states in (False, True):
        for place in (week, week + 1):
            other = copy.deepcopy(told)
            kept = other.states[place] if states else other.changes[place]
            kept[group] = not kept[group]
            assert not other.in_turn


@pytest.mark.statistical
def test_as_many_changes_are_false_as_the_law_foretells(year):
    """Alpha 1e-6, and neither the law of a sharper test nor that of a duller one passes."""
    # Thresholds near the top of the season, where the law decides.
    truths, bars, seeds = year.truths("units"), (1550, 1450), range(400)
    near_top = replace(year, bars={"units": bars})
    found, law = watched(near_top, "units", 20, seeds)
    others = [watched(near_top, "units", hits, [0])[1] for hits in (4, 80)]
    counted = np.array([told.false(truths, *bars) for told in found])
    near = 5 * np.std(counted, axis=0, ddof=1) / np.sqrt(len(seeds)) + 5 / len(seeds)
    assert np.all(np.abs(counted.mean(axis=0) - expected_false(law, truths, *bars)) <= near)
    for other in others:
        assert np.any(np.abs(counted.mean(axis=0) - expected_false(other, truths, *bars)) > near)


def test_delays_are_those_of_an_alert_without_noise():
    exact = exact_states(np.array([[2, 9], [9, 9], [6, 2], [4, 9]]), 8, 5)
    assert exact.tolist() == [[False, True], [True, True], [True, False], [False, True]]
    assert delays(exact, exact) == ([0] * 5, 0)
    late = np.vstack([[[False, False]], exact[:-1]])
    assert delays(late, exact) == ([1, 1], 3)
