"""Quantiles of groups: each group has its own coins, and a unit pays for the groups that it is in."""

import math
from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import pytest

from chary import Budget, mean
from chary.audit.enumeration import Enumeration
from chary.calls import GroupQuantiles, Quantile
from chary.calls.call import read
from chary.calls.history import History
from chary.calls.quantiles import chosen
from chary.core.plan import FREE, Data
from chary.data import NeighborRelation, RowTable, read_one_version
from chary.errors import InvalidQuery, RequestConflict
from chary.noise import Seeded
from tests.session.kit import NO_NOISE, PLENTY, spent

GROUPS = {"clinic": ["north", "south", "east"]}
AGES = {"bounds": (0, 120)}


def people(size=999, seed=3):
    drawn = np.random.default_rng(seed)
    clinics = drawn.choice([*GROUPS["clinic"], "west", None], size)
    return pd.DataFrame(
        {"clinic": clinics, "age": drawn.integers(0, 100, size), "wing": drawn.choice(["a", "b"], size)}
    )


def true(frame, q, **where):
    for column, value in where.items():
        frame = frame[frame[column] == value]
    return np.quantile(frame["age"], q, method="inverted_cdf")


def test_each_group_has_its_own_quantiles(opened):
    frame = people()
    session = opened(frame, privacy_unit=None, budget=NO_NOISE)
    found = session.ask(Quantile("age", 0.5, **AGES, epsilon=PLENTY, groups=GROUPS))
    assert isinstance(found, GroupQuantiles)
    assert found.columns == ("clinic",)
    assert found.value == {clinic: true(frame, 0.5, clinic=clinic) for clinic in GROUPS["clinic"]}
    assert found["south"]["value"] == true(frame, 0.5, clinic="south")
    many = session.ask(Quantile("age", [0.25, 0.5], **AGES, epsilon=PLENTY, groups=GROUPS | {"wing": ["b", "a"]}))
    assert many.columns == ("clinic", "wing", "at")
    assert len(many) == 12
    for (clinic, wing, at), value in many.value.items():
        ages = frame[(frame["clinic"] == clinic) & (frame["wing"] == wing)]["age"]
        assert (ages < value).sum() - 1 <= at * len(ages) <= (ages <= value).sum() + 1


def test_intervals_of_groups(opened):
    frame = people()
    session = opened(frame, privacy_unit=None, budget=NO_NOISE)
    for row in session.ask(Quantile("age", [0.5, 0.9], **AGES, epsilon=PLENTY, groups=GROUPS, interval="0.95")):
        assert row["low"] <= true(frame, row["at"], clinic=row["clinic"]) <= row["high"]


@pytest.mark.parametrize("budget", [Budget(epsilon=4), Budget(epsilon=4, delta=1e-6)], ids=str)
@pytest.mark.parametrize(
    ("terms", "neighbors", "unit", "times"),
    [
        ({}, "add_remove", None, 1),
        ({}, "replace", None, 2),
        ({"max_rows_per_unit": 1}, "add_remove", "patient", 3),
        ({"max_rows_per_unit": 1, "max_groups_per_unit": 1}, "add_remove", "patient", 1),
        ({"max_rows_per_unit": 1, "assumed_groups_per_unit": 2}, "add_remove", "patient", 2),
        ({"max_rows_per_unit": 1, "assumed_groups_per_unit": 2}, "replace", "patient", 3),
        ({"max_rows_per_unit": 1, "max_groups_per_unit": 1}, "replace", "patient", 2),
    ],
)
def test_all_groups_cost_as_one_for_each_that_neighbours_differ_in(opened, terms, neighbors, unit, times, budget):
    one = opened(privacy_unit=unit, neighbors=neighbors, budget=budget)
    all_groups = opened(privacy_unit=unit, neighbors=neighbors, budget=budget)
    rows = {"max_rows_per_unit": 1} if unit else {}
    one.ask(Quantile("age", 0.5, **AGES, epsilon="0.1", **rows))
    call = Quantile("age", 0.5, **AGES, epsilon="0.1", groups=GROUPS, **terms)
    quoted = all_groups.quote(call)
    assert all_groups.ask(call).charged.amount == quoted.most == spent(all_groups)
    assert spent(all_groups).main == times * spent(one).main


def test_first_groups_of_a_unit_count(opened):
    frame = pd.DataFrame(
        {"patient": [1, 1, 2, 3], "clinic": ["south", "north", "south", "east"], "age": [90, 10, 30, 50]}
    )
    session = opened(frame, budget=NO_NOISE)
    call = Quantile("age", 0.5, **AGES, epsilon=PLENTY, groups=GROUPS, max_rows_per_unit=1, max_groups_per_unit=1)
    assert session.ask(call).value == {"north": 10, "south": 30, "east": 50}


def test_a_request_is_answered_once_and_told_again(opened, place):
    session = opened(privacy_unit=None, ledger=place, unsafe_noise=Seeded(1))
    call = Quantile("age", [0.5, 0.9], **AGES, epsilon="0.1", groups=GROUPS)
    first = session.ask(call, request="ages")
    paid = spent(session)
    assert session.ask(call, request="ages") == first
    assert spent(session) == paid
    with pytest.raises(RequestConflict):
        session.ask(Quantile("age", [0.5, 0.9], **AGES, epsilon="0.1"), request="ages")
    [stored] = session.spine.ledger.calls("data")
    assert History(session.spine).rebuilt(stored).answer == first


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ({"max_groups_per_unit": 1}, "groups="),
        ({"groups": {}, "max_groups_per_unit": 1}, "groups="),
        ({"groups": {"clinic": ["north", "north"]}}, "duplicates"),
        ({"groups": {"clinic": list(range(10_001))}}, "10,000"),
        ({"groups": GROUPS, "max_groups_per_unit": 1, "assumed_groups_per_unit": 1}, "not both"),
    ],
)
def test_refusals(terms, told):
    with pytest.raises(InvalidQuery, match=told):
        Quantile("age", 0.5, **AGES, epsilon="0.1", **terms)


def test_a_service_is_asked_in_json():
    call = Quantile("age", [0.5, 0.9], **AGES, epsilon="0.1", groups={"day": [date(2026, 1, 1)]}, max_groups_per_unit=1)
    assert read(call.body()) == call
    assert call.body()["groups"] == {"day": [{"date": "2026-01-01"}]}


def test_an_unknown_column_of_groups(opened):
    session = opened(privacy_unit=None)
    with pytest.raises(InvalidQuery, match="ward"):
        session.ask(Quantile("age", 0.5, **AGES, epsilon="0.1", groups={"ward": ["a"]}))
    assert spent(session).main == 0


# The exact law of all groups together, of rows that differ in one unit.


def read_rows(frame, call, unit, neighbors):
    """The plan, and what it reads of these rows."""
    table = RowTable.open(frame, neighbor_relation=NeighborRelation(neighbors, unit))
    plan = chosen(call, table.neighbor_relation)
    values = tuple(read_one_version(table, plan.reads(table)))
    table.close()
    return plan, values


def law(frame, call, unit, neighbors):
    """The chance of the places of both groups, which are drawn one after the other."""
    plan, [groups] = read_rows(frame, call, unit, neighbors)
    alone = replace(call, groups={"g": ["a"]})
    of_one, _ = read_rows(frame, alone, unit, neighbors)
    laws = [
        Enumeration(lambda source, group=group: of_one.run(touched([(group,)], source)).answer["places"][0]).law()
        for group in groups
    ]
    for seed in range(20):
        source = Seeded(seed)
        one_by_one = [of_one.run(touched([(group,)], source)).answer["places"][0] for group in groups]
        assert plan.run(touched([groups], Seeded(seed))).answer == {"places": one_by_one}
    return {(a, b): laws[0][a] * laws[1][b] for a in "01" for b in "01"}, plan.cost.parts


def touched(values, source):
    return Data(values, source, None, None, FREE)


NEIGHBOURS = [
    ([("a", 0, 1), ("b", 1, 2)], [("a", 0, 1)], "add_remove", None),
    ([("a", 0, 1), ("b", 1, 2)], [("a", 0, 1), ("a", 1, 2)], "replace", None),
    ([("a", 0, 1), ("b", 1, 1), ("a", 1, 2)], [("a", 1, 2)], "add_remove", "u"),
    ([("a", 0, 1), ("b", 1, 1), ("a", 1, 2)], [("b", 0, 3), ("b", 0, 3), ("a", 1, 2)], "replace", "u"),
]


@pytest.mark.parametrize(("here", "there", "neighbors", "unit"), NEIGHBOURS)
def test_neighbours_by_enumeration(here, there, neighbors, unit):
    """No outcome is more than e^epsilon times as likely, for each group in which neighbours can differ."""
    epsilon = 1
    call = Quantile(
        "x",
        0.5,
        bounds=(0, 1),
        epsilon=epsilon,
        groups={"g": ["a", "b"]},
        max_rows_per_unit=None if unit is None else 1,
    )
    frames = [pd.DataFrame(rows, columns=["g", "x", "u"]) for rows in (here, there)]
    (one, parts), (other, _) = (law(frame, call, unit, neighbors) for frame in frames)
    worst = max(abs(math.log(one[outcome] / other[outcome])) for outcome in one)
    assert 0 < worst <= epsilon * parts + 1e-5
    assert math.isclose(sum(one.values()), 1, abs_tol=1e-5)


def test_means_of_groups_cost_what_one_costs(opened):
    """A unit of k rows in all pays for those, in however many groups they are."""
    for unit, rows in ((None, {}), ("patient", {"max_rows_per_unit": 2})):
        one, groups = opened(privacy_unit=unit), opened(privacy_unit=unit)
        asked = mean("cost", bounds=(0, 100), **rows)
        one.release(asked, epsilon="0.1")
        found = groups.release(asked.by("clinic", GROUPS["clinic"]), epsilon="0.1")
        assert list(found.value) == GROUPS["clinic"]
        assert spent(groups) == spent(one)
