"""Runs of agreed tests against the best analyst: what the opening was charged pays for all misses, and no more."""

import math
from fractions import Fraction

import pytest

from chary import Budget
from chary.amounts import Amount
from chary.calls import PrepaidTests
from chary.calls import prepaid_tests as agreed_questions
from chary.calls.prepaid_tests import AgreedTerms
from chary.core.plan import PerHit
from chary.filters import Price, RenyiFilter
from tests.adversary.agreed import Agreed
from tests.adversary.kit import STEPS, Best, Delta, Moment

# Small enough that hits are no rarer than misses.
FILTER = RenyiFilter(Budget(epsilon=3, delta="0.1"), order=Fraction(2))
BARS = (-1, 1, 4)


def alone(tests=3, hits=2, **how):
    return Agreed(FILTER, PrepaidTests(tests=tests, hits=hits, **how), BARS, 1, {0})


def both(tests=4, hits=2, bars=(-1, 2), **how):
    return Agreed(FILTER, PrepaidTests(tests=tests, hits=hits, **how), bars, 2, {0, 1})


def one_of_two(tests=3, hits=2, **how):
    return Agreed(FILTER, PrepaidTests(tests=tests, hits=hits, **how), (-1, 2), 2, {0})


def worth(game, calls):
    """The most that an analyst makes of so many questions, discounted by what the opening and each hit were charged."""
    return Best(game, Moment(2)).value(calls) * math.exp(-game.charged / STEPS)


GAMES = {
    "alone": (alone, {}, 3),
    "most for misses": (alone, {"misses": "0.8"}, 3),
    "little for misses": (alone, {"misses": "0.02"}, 3),
    "with values": (alone, {"value": "0.3", "misses": "0.2"}, 3),
    "a part of the budget": (alone, {"part": "0.1"}, 3),
    "keys that a unit can all be in": (both, {}, 2),
    "keys that a unit can all be in, with values": (both, {"value": "0.3", "misses": "0.2"}, 2),
    "keys of which a unit is in one": (one_of_two, {}, 3),
}


@pytest.mark.parametrize("name", GAMES)
def test_no_analyst_gets_more_than_what_is_charged(name):
    made, how, most = GAMES[name]
    game = made(**how)
    assert game.charged > 0
    for calls in (0, 1, most, most + 2):
        assert worth(game, calls) <= 1 + 1e-9


# Where neighbours differ in one key, hits of the other one are charged, too.
@pytest.mark.parametrize("name", sorted(GAMES.keys() - {"keys of which a unit is in one"}))
def test_all_that_is_charged_is_used_up(name):
    """By as many questions as are answered: the number of tests is what the opening pays for, and not more.

    Of values the game tells only four, which keeps a little back.
    """
    made, how, most = GAMES[name]
    game = made(**how)
    assert worth(game, most) > (0.98 if "value" in how else 1 - 1e-9)
    assert worth(game, most - 1) < 0.99 * worth(game, most)
    assert worth(game, most + 2) == worth(game, most)


@pytest.mark.parametrize("name", GAMES)
def test_the_true_delta_of_all_that_fits_is_within_the_budget(name):
    """The run has the whole budget, and hits stop where it ends."""
    made, how, most = GAMES[name]
    assert true_delta(made(**how), most) <= 0.1


def true_delta(game, calls):
    """The most that an analyst finds beyond epsilon, with so many questions."""
    return Best(game, Delta(3), room=FILTER.capacity.main - game.charged).value(calls)


def test_an_opening_that_is_charged_half_the_misses_is_found_out(monkeypatch):
    monkeypatch.setattr(AgreedTerms, "paid", property(lambda self: Amount(self.charges.miss).times(self.tests // 2)))
    assert worth(alone(tests=4), 4) > 1.01


def test_a_test_more_than_was_agreed_is_found_out(monkeypatch):
    monkeypatch.setattr(AgreedTerms, "tests", property(lambda self: self.plan.tests + 1))
    game = alone()
    game.charged -= game.terms.charges.miss
    assert worth(game, 3) <= 1 + 1e-9
    assert worth(game, 4) > 1.01


def test_questions_that_use_up_no_tests_are_found_out(monkeypatch):
    monkeypatch.setattr(agreed_questions, "used", lambda tests: b"[0]")
    assert worth(alone(), 6) > 1.01
    assert true_delta(alone(misses="0.8"), 6) > 0.11


def test_a_hit_that_is_charged_a_tenth_less_is_found_out(monkeypatch):
    game = alone()
    hit = Price(Amount(game.terms.charges.hit * 9 // 10), Amount(0))
    monkeypatch.setattr(PerHit, "price", lambda *asked: hit)
    assert worth(game, 3) > 1.01


def test_a_test_that_is_paid_by_its_hit_alone_is_no_sharper(monkeypatch):
    """A hit that is charged its whole price again, though its miss was paid, leaves a miss of room for each."""

    game = alone()
    hit = Price(Amount(game.terms.charges.hit + game.terms.charges.miss), Amount(0))
    monkeypatch.setattr(PerHit, "price", lambda *asked: hit)
    assert worth(game, 3) < 0.99


def test_counting_both_keys_as_one_is_found_out():
    """Somebody asserts that a unit is in one group at most, and it is in two."""
    assert worth(Agreed(FILTER, PrepaidTests(tests=4, hits=2), (-1, 2), 2, {0, 1}, reach=1), 4) > 1.01
