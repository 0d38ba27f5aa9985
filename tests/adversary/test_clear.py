"""Decisions, zones and classifications by two draws against the best analyst."""

from fractions import Fraction

import pytest

from chary import Budget
from chary.accounting import SharpTest
from chary.calls.boundaries import Clearly
from chary.filters import RenyiFilter
from chary.mechanisms.boundaries import LabelDraws
from tests.adversary import clear
from tests.adversary.kit import Best, Moment

FILTER = RenyiFilter(Budget(epsilon=30, delta="0.01"), order=Fraction(2))
GAMES = {
    "decisions": lambda **how: clear.decisions(FILTER, **how),
    "between": lambda **how: clear.zones(FILTER, **how),
    "largest, one key moves": lambda **how: clear.largest(FILTER, {1}, **how),
    "largest, two keys move": lambda **how: clear.largest(FILTER, {0, 2}, **how),
}


@pytest.mark.parametrize("hits", [3, 40])
@pytest.mark.parametrize("name", GAMES)
def test_no_analyst_gets_more_than_what_is_charged(name, hits):
    game = GAMES[name](hits=hits)
    for calls in (1, 2):
        assert 1 - 1e-9 <= Best(game, Moment(2)).value(calls) <= 1 + 1e-9


@pytest.mark.parametrize("name", ["decisions", "between"])
def test_half_the_price_is_found_out(monkeypatch, name):
    event = LabelDraws.event

    def cheap(self):
        return SharpTest(event(self).order, Fraction(event(self).price) / 2)

    monkeypatch.setattr(LabelDraws, "event", cheap)
    assert Best(GAMES[name](hits=40), Moment(2)).value(1) > 1.001


def test_a_lead_that_is_not_counted_across_keys_is_found_out(monkeypatch):
    """Depths of two labels add up: a largest key that is deep wherever it is tells which one it is."""
    placed = Clearly.placed
    monkeypatch.setattr(Clearly, "placed", lambda self, data: (placed(self, data)[0], 9))
    assert Best(GAMES["largest, one key moves"](hits=40), Moment(2)).value(1) > 1.01
