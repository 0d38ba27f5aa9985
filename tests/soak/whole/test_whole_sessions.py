"""Analysts find nothing where there is nothing; they catch noise that is too small and an accountant that forgets."""

import itertools
import math
from random import Random

import pytest

from chary.amounts import Amount
from chary.filters import Price, PureFilter, RenyiFilter, exact
from chary.ledger import open_ledger
from chary.mechanisms import Laplace
from chary.noise import Seeded
from tests.soak.figures import Until
from tests.soak.whole.desks import MOVES, NEAR, Desk, RowTable, rows_of
from tests.soak.whole.evidence import Evidence
from tests.soak.whole.exact_sessions import reached
from tests.soak.whole.players import Best, Law
from tests.soak.whole.sessions import PROMISES, play, whole_sessions

TESTS = ["test", "large test"]


def test_a_game_of_all_moves_breaks_nothing():
    figures = whole_sessions(Until(cases=1), Random(2), played=40)
    assert figures.ok
    assert figures.counts["transcripts"] == 40


@pytest.mark.parametrize("name", PROMISES)
def test_every_move_is_answered_or_refused_the_same_way_twice(name):
    """Each move, three times at one desk: what is seen is a symbol and a charge. What is spent is less once only where
    free misses end: from then on it is a share of another account."""
    for move in MOVES:
        with_table = RowTable.open(rows_of(1), neighbor_relation=NEAR)
        desk = Desk(with_table, PROMISES[name], open_ledger(":memory:"))
        for _ in range(3):
            alone = desk.session.spine.accounts().alone
            charged = float(desk.do(move).rsplit(" ", 1)[1])
            ended = desk.session.spine.accounts().alone and not alone
            assert -1 <= charged <= 1
            assert ended or charged >= -1e-5
        assert desk.session.spent.share <= 1
        with_table.close()


@pytest.mark.parametrize("name", ["pure", "renyi"])
def test_noise_that_is_two_thirds_is_caught(name, monkeypatch):
    game = {"name": name, "who": "spending", "menu": ["test"], "source": Seeded(4)}
    honest = play(Random(1), 1000, **game)
    assert not honest.broken
    assert honest.measured >= honest.claimed / 3

    true = Laplace.draw_one
    monkeypatch.setattr(Laplace, "draw_one", lambda self, source: true(Laplace(self.scale * 2 / 3, 1), source))
    assert play(Random(1), 4000, **game).broken


def test_the_best_analyst_reaches_nearly_all_that_an_exact_filter_promises():
    assert 0.19 < reached(PROMISES["exact"]) <= 0.2


def test_an_exact_filter_with_noise_of_two_thirds_is_caught_exactly(monkeypatch):
    true = Laplace.draw_one
    monkeypatch.setattr(Laplace, "draw_one", lambda self, source: true(Laplace(self.scale * 2 / 3, 1), source))
    assert reached(PROMISES["exact"]) > 0.44


def test_an_exact_filter_that_charges_half_is_caught_exactly(monkeypatch):
    true = exact._tokens_that_fit
    monkeypatch.setattr(exact, "_tokens_that_fit", lambda *curve: 2 * true(*curve))
    assert reached(PROMISES["exact"]) > 0.36


@pytest.mark.parametrize(("name", "kind"), [("pure", PureFilter), ("renyi", RenyiFilter)])
def test_an_accountant_that_charges_half_is_caught(name, kind, monkeypatch):
    true = kind.price

    def cheap(self, event):
        found = true(self, event)
        hit, miss = (Amount(part.main // 2, part.delta) for part in (found.hit, found.miss))
        return Price(hit, miss)

    monkeypatch.setattr(kind, "price", cheap)
    assert play(Random(1), 2000, name=name, who="spending", menu=["release"], source=Seeded(5)).broken


def test_half_a_charge_is_caught_although_no_question_may_take_all(monkeypatch):
    """Every question is answered as often as half charges let it, and none is larger than the promise."""
    true = PureFilter.price

    def cheap(self, event):
        found = true(self, event)
        return Price(Amount(found.hit.main // 2, found.hit.delta), Amount(found.miss.main // 2, found.miss.delta))

    monkeypatch.setattr(PureFilter, "price", cheap)
    assert play(Random(1), 3000, name="pure", who="greedy", menu=["large test"], source=Seeded(5)).broken


def outcomes(epsilon, delta):
    """The least private mechanism of (epsilon, delta) by side: what is seen, and with what chance."""
    right = (1 - delta) / (1 + math.exp(-epsilon))
    return [{f"sure {side}": delta, f"{side}": right, f"{1 - side}": 1 - delta - right} for side in (0, 1)]


def expected_wealth(true, claimed, delta, later=3):
    """What bets on average make of 1, over all ways in which sessions may end that come after forty known ones."""
    laws = outcomes(true, delta)
    known = [(side, [("a", told.format(side))]) for told in ("sure {}", "{}") for side in (0, 1)] * 10
    single = [(side, [("a", told)], chance / 2) for side in (0, 1) for told, chance in laws[side].items()]
    total = 0.0
    for drawn in itertools.product(single, repeat=later):
        evidence = Evidence([*known, *((side, seen) for side, seen, _ in drawn)], first=len(known))
        total += math.prod(chance for _, _, chance in drawn) * math.exp(evidence.wealth(claimed, delta)[-1])
    return total


@pytest.mark.parametrize("delta", [0.0, 0.2])
def test_bets_are_fair_at_the_promise_and_win_beyond_it(delta):
    """Exact, by enumeration; so a promise that is kept is refuted once in 10^6 at most, by Ville's inequality."""
    assert expected_wealth(1.5, 1.5, delta) == pytest.approx(1, rel=1e-9)
    assert expected_wealth(1.2, 1.5, delta) < 1
    assert expected_wealth(1.8, 1.5, delta) > 1.05


def test_sides_that_are_alike_are_never_told_apart():
    alike = Evidence([(number % 2, [("a", "x 0")]) for number in range(500)])
    assert alike.epsilon_down(1.0, 0.0) == 0
    assert not alike.refutes(0.01, 0.0)
    apart = Evidence([(number % 2, [("a", f"{number % 2} 0")]) for number in range(500)])
    assert apart.epsilon_down(1.0, 0.0) > 2
    assert not apart.refutes(1.0, 1.0)


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
