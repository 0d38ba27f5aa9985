"""What is charged once when it is opened: individual streams and sparse vectors against the best analyst."""

import math
from fractions import Fraction

import pytest

from chary import Budget
from chary.accounting import Pure
from chary.calls import SparseVector
from chary.calls.prepaid_tests import SparseLaw
from chary.data import NeighborRelation
from chary.filters import RenyiFilter
from chary.mechanisms.sketches import Counters
from tests.adversary.kit import STEPS, Best, Moment
from tests.adversary.openings import Sparse, Stream

FILTER = RenyiFilter(Budget(epsilon=30, delta="0.01"), order=Fraction(2))
ADDED = NeighborRelation("add_remove", "unit")


def reached(game, calls):
    """The best analyst, as a part of what was paid for; the larger of both directions."""
    found = []
    for flip in (False, True):
        seen, worlds = game.start
        turned = tuple(world._replace(side=world.side ^ flip) for world in worlds)
        search = Best(Turned(game, flip), Moment(2))
        search.game.start = (seen, turned)
        found.append(search.value(calls))
    return max(found) / math.exp(game.charged / STEPS)


class Turned:
    """A game with its neighbours exchanged, or not."""

    def __init__(self, game, flip):
        self.game, self.flip, self.start = game, flip, game.start

    def asks(self, seen):
        return [
            ask._replace(play=lambda side, kept, ask=ask: ask.play(side ^ self.flip, kept))
            for ask in self.game.asks(seen)
        ]


@pytest.mark.parametrize(("hits", "keys", "calls"), [(1, 1, 4), (2, 1, 4), (1, 2, 2), (2, 2, 2)])
def test_a_stream_costs_the_hits_of_a_unit(hits, keys, calls):
    assert reached(Stream(FILTER, "0.4", hits, keys), calls) <= 1 + 1e-9


def test_a_unit_that_never_drops_out_is_found_out(monkeypatch):
    """Calls go on after the last hit, each of them free."""
    monkeypatch.setattr(Counters, "raised", lambda self, took: self)
    assert reached(Stream(FILTER, "0.4", 1, 1), 8) > 1.02


@pytest.mark.parametrize("form", ["tuned", "one-sided"])
@pytest.mark.parametrize(("monotone", "moves"), [(True, (1,)), (True, (-1,)), (False, (1, -1))])
def test_a_sparse_vector_costs_its_epsilon(monotone, moves, form):
    law = SparseVector(above=0, hits=1, epsilon=1, mechanism=form, monotone=monotone).law(ADDED)
    assert reached(Sparse(FILTER, law, moves), 2) <= 1 + 1e-9


@pytest.mark.parametrize("hits", [1, 2])
@pytest.mark.parametrize("move", [1, -1])
def test_an_uneven_sparse_vector_costs_less_than_its_epsilon_and_is_paid(hits, move):
    """At order 2 in either order of neighbours, with as many hits as it has and a miss before each."""
    said = {"above": 0, "hits": hits, "epsilon": 1}
    uneven = SparseVector(**said, mechanism="one-sided", monotone=True, tests=10).law(ADDED)
    even = SparseVector(**said, mechanism="tuned").law(ADDED)
    assert FILTER.price(uneven.event).hit.main < FILTER.price(even.event).hit.main
    assert reached(Sparse(FILTER, uneven, (move,), reach=6), 3) <= 1 + 1e-9


@pytest.mark.parametrize("form", ["tuned", "one-sided"])
def test_a_sparse_vector_that_is_charged_too_little_is_found_out(monkeypatch, form):
    """Few tests reach little of what is paid for any number of them, so the charge is far too small here."""
    monkeypatch.setattr(SparseLaw, "event", Pure("0.1"))
    law = SparseVector(above=0, hits=1, epsilon=1, mechanism=form, monotone=True).law(ADDED)
    assert reached(Sparse(FILTER, law, (1,)), 2) > 1.02
