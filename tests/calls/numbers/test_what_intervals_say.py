"""Every answer says what its interval holds for, or why there is none."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import chary
from chary import Budget, count, histogram, mean
from chary.calls import (
    MWEM,
    Choose,
    Histogram,
    Marginal,
    MostCommon,
    PrincipalComponents,
    Quantile,
    Release,
    SmallDatabase,
)
from chary.noise import Seeded

ROWS = pd.DataFrame({"age": np.arange(2000) % 90, "sex": ["f", "m"] * 1000})
KEYED = count().by("sex", ["f", "m"])
UNIVERSE = {"universe": {"sex": ["f", "m"]}, "queries": ["sex = 'f'"], "epsilon": 1}


@pytest.fixture
def session(opened):
    return opened(
        ROWS, privacy_unit=None, neighbors="replace", budget=Budget(epsilon=10**5), unsafe_noise=Seeded(3)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (Release(chary.sum("age", bounds=(0, 99)), epsilon=1), "95 % confidence"),
        (Release(mean("age", bounds=(0, 99)), epsilon=1), "95 % confidence"),
        (Release(mean("age", bounds=(0, 99)).by("sex", ["f", "m"]), epsilon=1), "not for all rows"),
        (Histogram("age", bins=[0, 50, 90], epsilon=1), "not for all rows"),
        (Marginal({"sex": ["f", "m"]}, epsilon=1), "not for all rows"),
        (Quantile("age", 0.5, bounds=(0, 99), epsilon=1), "no interval"),
        (Quantile("age", 0.5, bounds=(0, 99), epsilon=1, interval=0.9), "as often as was asked"),
        (Quantile("age", [0.5], bounds=(0, 99), epsilon=1), "no interval"),
        (Quantile("age", [0.5], bounds=(0, 99), epsilon=1, interval=0.9), "together"),
        (Choose(KEYED, epsilon=1, mechanism="inverse"), "of the best"),
        (MostCommon("sex", among=["f", "m"], epsilon=1), "of the best"),
        (Choose(KEYED, epsilon=1, mechanism="gaussian", low=0, high=2000), "of the best"),
        (Choose(KEYED, epsilon=1, lead=True), "its lead is right within"),
        (PrincipalComponents({"age": (0, 90)}, epsilon=1), "clipped"),
        (PrincipalComponents({"age": (0, 90)}, epsilon=1, longest="0.5"), "shortened to 0.5"),
        (SmallDatabase(**UNIVERSE, rows=4), "interval_of"),
        (MWEM(**UNIVERSE, rounds=2), "interval_of"),
    ],
)
def test_it_is_said_of_every_kind(session, asked, says):
    answer = session.ask(asked)
    assert says in answer.interval_says
    assert (answer.interval is None) == (says != "95 % confidence" and says != "as often as was asked")


@pytest.mark.statistical
@pytest.mark.parametrize("asked", [SmallDatabase(**UNIVERSE, rows=4), MWEM(**UNIVERSE, rounds=2)])
def test_synthetic_data_have_intervals_of_what_they_were_made_for(session, asked):
    times, held = 30, 0
    for _ in range(times):
        answer = session.ask(asked)
        low, high = answer.interval_of("sex = 'f'")
        held += low <= 0.5 <= high
        assert 0 <= low <= high <= 1
        assert answer.interval_of("sex = 'm'") is answer.interval_of(None) is None
    assert stats.binom.cdf(held, times, 0.95) > 1e-6


def test_cells_of_a_histogram_hold_one_by_one(session):
    """About one of twenty intervals misses, so of many bins some do: as it is said."""
    table = session.ask(Release(histogram("age", bins=range(91)), epsilon=1))
    assert 0 <= sum(not row["low"] <= (23 if row["age"].low < 20 else 22) <= row["high"] for row in table) <= 20


def test_means_are_findings_with_any_confidence(session):
    answer = session.ask(Release(mean("age", bounds=(0, 99)), epsilon=1))
    [found] = answer.findings
    assert found.interval == answer.interval
    wide, narrow = (answer.told.interval(answer.value, sure) for sure in ("0.999", "0.5"))
    assert wide.low < narrow.low < answer.value < narrow.high < wide.high
    assert (answer.told.p_value(1), answer.told.caution(1)) == (None, None)
