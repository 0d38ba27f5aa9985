"""Continual counts that are refused, and with what words."""

import pytest

import chary
from chary import Budget, InvalidParameter, InvalidQuery, NotPriced
from chary.calls import ContinualCount, RunningCounts
from tests.calls.growing.continual_streams import WARDS
from tests.session.kit import USUAL, visits


@pytest.mark.parametrize(
    ("terms", "match"),
    [
        ({}, "steps is missing"),
        ({"steps": 9}, "one of epsilon= and rho="),
        ({"steps": 9, "epsilon": 1, "rho": 1}, "one of epsilon= and rho="),
        ({"steps": 0, "epsilon": 1}, "steps"),
        ({"steps": True, "epsilon": 1}, "steps"),
        ({"steps": 2**20 + 1, "epsilon": 1}, "at most 1048576"),
        ({"steps": 2**16 + 1, "rho": "0.1"}, "at most 65536"),
        ({"steps": 9, "epsilon": 0}, "epsilon"),
        ({"steps": 9, "rho": float("nan")}, "rho"),
        ({"steps": 9, "epsilon": 1, "mechanism": "root"}, "Gaussian noise"),
        ({"steps": 9, "epsilon": 1, "mechanism": "leaf"}, "mechanism .* 'tree' or 'root'"),
    ],
)
def test_bad_terms_are_refused_before_anything_is_charged(grown, terms, match):
    session = grown()
    with pytest.raises(InvalidParameter, match=match):
        session.start(ContinualCount(**terms))
    assert session.history == []


@pytest.mark.parametrize(
    "query",
    [
        chary.sum("nobody", bounds=(0, 2)),
        chary.sum("ward", bounds=(0, 2), max_rows_per_unit=2),
        chary.mean("ward", bounds=(0, 2)),
        3,
        "nobody = 1",
    ],
)
def test_bad_queries_are_refused_before_anything_is_charged(grown, query):
    session = grown()
    with pytest.raises(InvalidQuery):
        session.start(ContinualCount(query, steps=9, epsilon="0.1"))
    assert session.history == []


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_units_with_several_rows_are_refused(neighbors):
    with (
        chary.open(visits(), privacy_unit="patient", neighbors=neighbors, budget=USUAL, ledger=":memory:") as session,
        pytest.raises(InvalidQuery, match="privacy_unit=None"),
    ):
        session.start(ContinualCount(steps=9, epsilon="0.1"))


def test_a_count_by_keys_is_a_table(grown):
    told = grown().start(ContinualCount(WARDS, steps=9, epsilon="0.1")).ask()
    assert isinstance(told, RunningCounts)
    assert told.value == {row["ward"]: row["value"] for row in told}
    assert [row["high"] for row in told] == [max(0, row["value"] + told.error_bar) for row in told]
    assert [row["low"] for row in told] == [max(0, row["value"] - told.error_bar) for row in told]
    assert told.interval is None


def test_rho_needs_a_delta(grown):
    with pytest.raises(NotPriced):
        grown(budget=Budget(epsilon=1)).start(ContinualCount(steps=9, rho="0.01"))
