"""Held outcomes and their revisions, published values and all, against the best analyst."""

from fractions import Fraction

import pytest

from chary import Budget
from chary.accounting import Extendable
from chary.amounts import Amount
from chary.core.plan import PerHit
from chary.filters import Price, RenyiFilter
from tests.adversary.held import Releases
from tests.adversary.kit import Best, Moment

FILTER = RenyiFilter(Budget(epsilon=30, delta="0.01"), order=Fraction(2))


@pytest.mark.parametrize(
    ("epsilon", "bars", "most", "fresh", "calls"),
    [("0.4", (3, 2, 1, 0), 1, "0.3", 4), ("0.4", (2, 1), 2, "0.3", 4), ("1", (3, 2, 1, 0), 1, "0.4", 4)],
)
@pytest.mark.parametrize("order_of_neighbours", [1, -1])
def test_an_outcome_is_paid_once_however_it_is_published(epsilon, bars, most, fresh, calls, order_of_neighbours):
    game = Releases(FILTER, epsilon, bars, most, fresh)
    if order_of_neighbours < 0:
        game = swapped(game)
    found = Best(game, Moment(2)).value(calls)
    assert 1 - 1e-9 <= found <= 1 + 1e-9


def swapped(game):
    """The same with the neighbours exchanged."""
    asks = game.asks
    game.asks = lambda seen: [
        ask._replace(play=lambda side, kept, ask=ask: ask.play(1 - side, kept)) for ask in asks(seen)
    ]
    return game


def charge_revisions(monkeypatch, share):
    """No more than this share of a hit of what they extend."""
    price = PerHit.price

    def cheaper(self, event, filter_):
        found = price(self, event, filter_)
        return Price(Amount(int(found.hit.main * share)), Amount(0)) if self.extends else found

    monkeypatch.setattr(PerHit, "price", cheaper)


@pytest.mark.parametrize("share", ["0", "0.5"])
def test_cheaper_revisions_are_found_out(monkeypatch, share):
    charge_revisions(monkeypatch, Fraction(share))
    assert Best(Releases(FILTER, "0.4", most=1), Moment(2)).value(4) > 1.01


def test_charging_a_large_first_call_by_the_hit_is_found_out(monkeypatch):
    """An outcome without a price per hit, free when it is held, whose revisions are free as if it had been paid."""
    found = FILTER.price(Extendable("1"))
    free_miss = Price(found.hit, Amount(0))
    monkeypatch.setattr(RenyiFilter, "price", lambda self, event: free_miss if event.epsilon == 1 else found)
    charge_revisions(monkeypatch, 0)
    assert Best(Releases(FILTER, "1", most=1), Moment(2)).value(3) > 1.01
