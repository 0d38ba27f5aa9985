"""Sharp tests and watches against the best analyst."""

from dataclasses import replace
from fractions import Fraction

import pytest

from chary import Budget
from chary.accounting import SharpTest
from chary.calls import ReleaseIf, ThresholdTest
from chary.filters import RenyiFilter
from tests.adversary import sharp
from tests.adversary.kit import Best, Moment

FILTER = RenyiFilter(Budget(epsilon=30, delta="0.01"), order=Fraction(2))
GAMES = {
    "tests": lambda **how: sharp.tests(FILTER, **how),
    "tests of an agreed number": lambda **how: sharp.tests(FILTER, tests=5, **how),
    "watch, one key": lambda **how: sharp.watches(FILTER, {0}, **how),
    "watch, both keys": lambda **how: sharp.watches(FILTER, {0, 1}, **how),
    "test of keys, one key": lambda **how: sharp.watches(FILTER, {0}, kind=ThresholdTest, **how),
    "test of keys, both keys": lambda **how: sharp.watches(FILTER, {0, 1}, kind=ThresholdTest, **how),
}


@pytest.mark.parametrize("hits", [3, 40])
@pytest.mark.parametrize("name", GAMES)
def test_no_analyst_gets_more_than_what_is_charged(name, hits):
    game = GAMES[name](hits=hits)
    for calls in (1, 3):
        assert 1 - 1e-9 <= Best(game, Moment(2)).value(calls) <= 1 + 1e-9


def test_a_test_uses_up_its_price():
    """Charged a tenth less, the best pair of neighbours passes it."""
    game = sharp.tests(FILTER, hits=20)
    charge = Moment.charge
    cheaper = type("Cheaper", (Moment,), {"charge": lambda self, amount: charge(self, amount * 0.9)})
    assert Best(game, cheaper(2)).value(1) > 1.0005


def test_a_price_of_the_test_without_its_value_is_found_out():
    def cheap(made):
        return replace(made, event=SharpTest(made.event.order, Fraction(made.event.price) * Fraction(1, 2)))

    assert Best(sharp.watches(FILTER, {0}, cheap, hits=40, value="0.5"), Moment(2)).value(1) > 1.001


@pytest.mark.parametrize("kind", [ReleaseIf, ThresholdTest])
def test_charging_both_keys_as_one_is_found_out(kind):
    assert Best(sharp.watches(FILTER, {0, 1}, sharp.in_one_part, kind, hits=40), Moment(2)).value(1) > 1.01
