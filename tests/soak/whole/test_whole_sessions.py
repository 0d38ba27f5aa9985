"""Analysts find nothing where there is nothing; they catch noise that is too small and an accountant that forgets."""

import math
from random import Random

import pytest

from chary.amounts import Amount
from chary.filters import Price, PureFilter
from chary.mechanisms import Laplace
from chary.noise import Seeded
from tests.soak.figures import Until
from tests.soak.whole.desks import MOVES, NEAR, Desk, RowTable, rows_of
from tests.soak.whole.evidence import ALPHA, bound, epsilon_down
from tests.soak.whole.players import Best, Law
from tests.soak.whole.sessions import PROMISES, MemoryLedger, play, whole_sessions

TESTS = ["test", "large test"]


def test_a_game_of_all_moves_breaks_nothing():
    figures = whole_sessions(Until(cases=1), Random(2), played=40)
    assert figures.ok
    assert figures.counts["transcripts"] == 80


@pytest.mark.parametrize("name", PROMISES)
def test_every_move_is_answered_or_refused_the_same_way_twice(name):
    """Each move, three times at one desk: what is seen is a symbol and a charge."""
    for move in MOVES:
        with_table = RowTable.open(rows_of(1), neighbouring=NEAR)
        desk = Desk(with_table, PROMISES[name], MemoryLedger())
        seen = [desk.do(move) for _ in range(3)]
        assert all(-1e-5 <= float(symbol.rsplit(" ", 1)[1]) <= 1 for symbol in seen)
        assert desk.session.spent.share <= 1
        with_table.close()


def test_noise_that_is_a_third_is_caught(monkeypatch):
    game = {"name": "pure", "who": "best", "menu": TESTS, "source": Seeded(4)}
    assert not play(Random(1), 400, **game).broken

    true = Laplace.draw_one
    monkeypatch.setattr(Laplace, "draw_one", lambda self, source: true(Laplace(self.scale / 3, 1), source))
    assert play(Random(1), 400, **game).broken


def test_an_accountant_that_forgets_is_caught(monkeypatch):
    true = PureFilter.price

    def cheap(self, event):
        found = true(self, event)
        sixth = Amount(found.hit.main // 6, found.hit.delta)
        return Price(sixth, sixth)

    monkeypatch.setattr(PureFilter, "price", cheap)
    assert play(Random(1), 500, name="pure", who="greedy", menu=["large test"], source=Seeded(5)).broken


def test_the_bound_fails_once_in_a_million():
    """Of 2,000 pairs of like transcripts none is told apart; of unlike ones nearly all of the difference is seen."""
    assert epsilon_down([[("a", "x 0")]] * 500, [[("a", "x 0")]] * 500, 0.0) == 0
    apart = epsilon_down([[("a", "x 0")]] * 500, [[("a", "y 0")]] * 500, 0.0)
    assert apart == pytest.approx(math.log((ALPHA / 4) ** (1 / 250) / (1 - (ALPHA / 4) ** (1 / 250))), rel=1e-9)
    assert bound((0, 100), (50, 100), 0.9) == 0
    assert bound((100, 100), (100, 100), 0.0) == 0 or bound((100, 100), (100, 100), 0.0) < 0


def test_the_best_analyst_plays_what_is_worth_most():
    """Two tests of randomized response at epsilon 1, paid always: both are played, and their worth is the exact one."""
    yes = 1 / (1 + math.exp(-1))
    chances = {"yes 0.5": (1 - yes, yes), "no 0.5": (yes, 1 - yes)}
    best = Best({"coin": Law(chances, 0.5)}, 1.0, steps=5)
    assert best([], Random(0)) == "coin"
    assert best([("coin", "yes 0.5")], Random(0)) == "coin"
    assert best([("coin", "yes 0.5")] * 2, Random(0)) is None
    exact = yes**2 - math.e * (1 - yes) ** 2
    assert best._best(5, 0.0, 0.0)[0] == pytest.approx(exact, rel=0.06)
    assert Law(chances, 0.5).gain == pytest.approx(2 * (2 * yes - 1) / 0.5, rel=1e-9)
