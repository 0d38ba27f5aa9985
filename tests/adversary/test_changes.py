"""Tracked values and selections by sharp tests against the best analyst."""

from dataclasses import replace
from fractions import Fraction

import pytest

from chary import Budget, count
from chary.accounting import SharpTest, ZeroConcentrated
from chary.calls import Select
from chary.filters import RenyiFilter
from tests.adversary.changes import Changes
from tests.adversary.counts import as_made
from tests.adversary.kit import Best, Moment
from tests.adversary.sharp import Sharp, in_one_part, read_by

FILTER = RenyiFilter(Budget(epsilon=30, delta="0.01"), order=Fraction(2))


@pytest.mark.parametrize("hits", [3, 40])
@pytest.mark.parametrize("more", [{}, {"tests": 5}, {"value": "0.6"}], ids=str)
def test_no_analyst_gets_more_than_what_is_charged(hits, more):
    game = Changes(FILTER, (1, 2), hits=hits, **more)
    for calls in (1, 2, 3):
        assert 1 - 1e-9 <= Best(game, Moment(2)).value(calls) <= 1 + 1e-9


def test_a_price_of_the_test_without_its_value_is_found_out():
    def cheap(made, seen):
        event = made.event
        return made if seen is None else replace(made, event=SharpTest(event.order, Fraction(event.price) / 2))

    assert Best(Changes(FILTER, (1, 2), cheap, hits=40, value="0.5"), Moment(2)).value(2) > 1.001


def test_a_first_answer_at_a_tenth_of_its_price_is_found_out():
    def cheap(made, seen):
        return made if seen is not None else replace(made, event=ZeroConcentrated(Fraction(made.event.rho) / 10))

    assert Best(Changes(FILTER, (1, 2), cheap, hits=40), Moment(2)).value(1) > 1.001


def selected(moved, forgot=as_made, **how):
    """Selections of two conditions."""
    calls = [Select(["flag = 0", "flag = 1"], above=above, **how) for above in (-3, 0, 2)]
    return Sharp(FILTER, calls, 2, moved, forgot)


@pytest.mark.parametrize("moved", [{0}, {0, 1}])
def test_no_selection_tells_more_than_what_is_charged(moved):
    for hits in (3, 40):
        assert 1 - 1e-9 <= Best(selected(moved, hits=hits), Moment(2)).value(2) <= 1 + 1e-9


def test_charging_both_conditions_as_one_is_found_out():
    assert Best(selected({0, 1}, in_one_part, hits=40), Moment(2)).value(2) > 1.01


def test_conditions_may_all_hold_of_one_unit():
    game = selected({0, 1}, hits=3)
    made = game.calls[0].plan(game.spine)
    assert made.cost.parts == 2
    assert read_by(made) == [count("flag = 0"), count("flag = 1")]
