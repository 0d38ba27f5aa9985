"""Several targets side by side against the best analyst, calls with and without a price per hit mixed."""

import math
from fractions import Fraction
from itertools import product

import pytest

from chary import Budget
from chary.accounting import BestOf, Targeted
from chary.calls import compute as racing
from chary.filters import RenyiFilter
from tests.adversary.kit import STEPS, Best, Delta, Moment
from tests.adversary.races import Races, counted_twice, start

# At order 2 a call of 0.4 has a price per hit and a call of 1 has none.
FILTER = RenyiFilter(Budget(epsilon=30, delta="0.01"), order=Fraction(2))
SIZES = ("0.4", "1")
HIT = FILTER.price(Targeted("0.4")).hit.main
FAR = 40 * STEPS


def potential(counters):
    """What the proof allows from these counters on, less the smallest: the sum of the targets' supermartingales."""
    return sum(math.exp(-(count - min(counters)) / STEPS) for count in counters)


def reached(game, counters, calls):
    """The best analyst from these counters on, as a part of what the proof allows."""
    game.start = start(counters)
    return Best(game, Moment(2)).value(calls) / potential(counters)


def test_the_sizes_are_mixed():
    assert FILTER.price(Targeted("0.4")).free_miss
    assert not FILTER.price(Targeted("1")).free_miss


@pytest.mark.parametrize(
    ("counters", "calls"),
    [((0, 0), 8), ((0, 2 * HIT), 8), ((0, 4 * HIT), 8), ((0, 0, 0), 4), ((0, HIT, 3 * HIT), 4), ((0, 4 * HIT, FAR), 5)],
)
def test_no_analyst_gets_more_than_the_proof_allows(counters, calls):
    assert reached(Races(FILTER, len(counters), SIZES), counters, calls) <= 1 + 1e-9


def test_counting_twice_is_found_out(monkeypatch):
    monkeypatch.setattr(racing, "risen", counted_twice)
    assert reached(Races(FILTER, 2, SIZES), (0, 4 * HIT), 6) > 1.05


def test_counting_twice_is_found_out_among_three(monkeypatch):
    """The third target is far ahead, and hit whenever the first is."""
    monkeypatch.setattr(racing, "risen", counted_twice)
    game = Races(FILTER, 3, SIZES, [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1)])
    assert reached(game, (0, 4 * HIT, FAR), 6) > 1.05


def allowed(game, epsilon, priors, counters):
    """What one call leaves of the potential on average, with what it charges; at most the potential before it."""
    likely, total = 1 / (1 + math.exp(-float(epsilon))), 0.0
    for outcome, chance in ((0, likely), (1, 1 - likely)):
        charged, after = game.run(epsilon, priors, counters, outcome)
        total += chance**2 / (1 - chance) * math.exp(-charged / STEPS) * potential(after)
    return total


@pytest.mark.parametrize("targets", [2, 3, 4])
def test_no_single_call_raises_the_potential(targets):
    """The proof itself, one step from many states."""
    game = Races(FILTER, targets, (*SIZES, "0.1"))
    for seed in range(20):
        counters = tuple((seed * (7 + 5 * j) % 11) * HIT // 3 for j in range(targets))
        for epsilon, priors in product(game.sizes, product((0, 1), repeat=targets)):
            assert allowed(game, epsilon, priors, counters) <= potential(counters) * (1 + 1e-9)


def test_only_differences_of_counters_matter():
    """So the search may keep counters less the smallest."""
    game = Races(FILTER, 3, SIZES)
    for epsilon in game.sizes:
        for outcome in (0, 1):
            charged, after = game.run(epsilon, (0, 1, 1), (5, 5 + HIT, 9), outcome)
            same, moved = game.run(epsilon, (0, 1, 1), (0, HIT, 4), outcome)
            assert (charged, after) == (same, tuple(count + 5 for count in moved))


def within(budget, grain, sizes):
    """A filter, what is left of its capacity after a race of two was opened, and the race."""
    filter_ = RenyiFilter.best(budget, grain=grain)
    return filter_, filter_.capacity.main - filter_.price(BestOf(2)).hit.main, Races(filter_, 2, sizes)


def test_the_log_moment_of_no_analyst_passes_the_capacity():
    filter_, room, game = within(Budget(epsilon=4, delta=1e-6), Fraction(1, 10), ("0.1", "0.5"))
    moment = Best(game, Moment(float(filter_.order), discounted=False), room=room).value(6)
    assert 0.5 < math.log(moment) * STEPS / filter_.capacity.main < 1


def test_the_true_delta_of_no_analyst_passes_the_promised_one():
    """With four times the capacity it would."""
    _, room, game = within(Budget(epsilon=2, delta="0.1"), None, ("0.3", "0.7"))
    assert 0 < Best(game, Delta(2.0), room=room).value(5) < 0.1
    assert Best(game, Delta(2.0), room=4 * room).value(5) > 0.1
