"""Public histograms, growing tables and streams of sharp tests against the best analyst."""

from dataclasses import replace
from fractions import Fraction

import pytest

from chary import Budget
from chary.accounting import SharpTest
from chary.calls.sharpness import HitTerms
from chary.core.plan import PerHit
from chary.filters import RenyiFilter
from chary.mechanisms.sketches import Counters
from tests.adversary import by_hits
from tests.adversary.kit import Best, Moment
from tests.adversary.test_openings import reached

FILTER = RenyiFilter(Budget(epsilon=30, delta="0.01"), order=Fraction(2))
GAMES = {
    "weights": lambda price: by_hits.weights(FILTER, price),
    "weights, a row that leaves": lambda price: by_hits.weights(FILTER, price, counts=(21, 20)),
    "weights across the valley": lambda price: by_hits.weights(FILTER, price, counts=(19, 20)),
    "weights below what is easy": lambda price: by_hits.weights(FILTER, price, counts=(10, 11)),
    "weights of one size": lambda price: by_hits.weights(FILTER, price, follow_size=False),
    "growing": lambda price: by_hits.growing(FILTER, price),
    "alert": lambda price: by_hits.alert(FILTER, price),
    "alert without values": lambda price: by_hits.alert(FILTER, price, value="0"),
    "alert, a row that leaves": lambda price: by_hits.alert(FILTER, price, counts=(21, 20)),
    "alert that clears where it fires": lambda price: by_hits.alert(FILTER, price, clear_below=21),
    "growing with values": lambda price: by_hits.growing(FILTER, price, values=True, exponent=0),
}


@pytest.mark.parametrize("price", ["0.02", "0.2"])
@pytest.mark.parametrize("name", GAMES)
def test_no_analyst_gets_more_than_what_is_charged(name, price):
    game = GAMES[name](price)
    for calls in (1, 3):
        assert 1 - 1e-9 <= Best(game, Moment(2)).value(calls) <= 1 + 1e-9


@pytest.mark.parametrize("name", ["weights of one size", "growing", "alert without values"])
def test_a_test_uses_up_its_price(name):
    """Charged a part less, some pair of neighbours passes it."""
    charge = Moment.charge
    cheaper = type("Cheaper", (Moment,), {"charge": lambda self, amount: charge(self, amount * 0.9)})
    assert Best(GAMES[name]("0.2"), cheaper(2)).value(1) > 1.0005


@pytest.mark.parametrize("name", ["weights", "growing with values"])
def test_a_price_without_that_of_the_value_is_found_out(monkeypatch, name):
    cheap = property(lambda self: SharpTest(self.filter.order, self.price * Fraction(1, 2)))
    monkeypatch.setattr(HitTerms, "event", cheap)
    assert Best(GAMES[name]("0.2"), Moment(2)).value(1) > 1.001


def test_an_alert_whose_clearing_is_free_is_found_out(monkeypatch):
    """Who fires, clears and fires again pays for each; an alert that charged firings alone would tell too much."""
    whole = PerHit.final

    def firings(self, price, result, reserved):
        return whole(self, price, replace(result, hits=min(result.hits, len(result.answer["active"]))), reserved)

    monkeypatch.setattr(PerHit, "final", firings)
    assert Best(by_hits.alert(FILTER, "0.2"), Moment(2)).value(3) > 1.001


@pytest.mark.parametrize(("hits", "keys", "calls"), [(1, 1, 3), (2, 1, 3), (1, 2, 2), (2, 2, 1)])
def test_a_stream_of_sharp_tests_costs_the_hits_of_a_unit(hits, keys, calls):
    assert reached(by_hits.SharpStream(FILTER, "0.02", hits, keys), calls) <= 1 + 1e-9


def test_a_unit_that_never_drops_out_of_sharp_tests_is_found_out(monkeypatch):
    monkeypatch.setattr(Counters, "raised", lambda self, took: self)
    assert reached(by_hits.SharpStream(FILTER, "0.02", 1, 1), 6) > 1.02
