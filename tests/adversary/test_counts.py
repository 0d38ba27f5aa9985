"""Top keys, watches and tracked answers against the best analyst."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import pytest

from chary import Budget
from chary.amounts import Amount
from chary.calls import ReleaseIf, ThresholdTest, When
from chary.core.plan import PerHit
from chary.filters import RenyiFilter
from tests.adversary.counts import top, tracked, watching
from tests.adversary.kit import Best, Moment

FILTER = RenyiFilter(Budget(epsilon=30, delta="0.01"), order=Fraction(2))
HIT, FULL = "0.4", "1"
FIRST = When("one is enough", lambda public: public[-1]["score"] >= 1)
GAMES = {
    "top, one key": lambda size: top(FILTER, size, 2, {0}),
    "top, another": lambda size: top(FILTER, size, 2, {1}),
    "top, both keys": lambda size: top(FILTER, size, 2, {0, 1}),
    "top with a bar and a gap": lambda size: top(FILTER, size, 2, {0, 1}, above=1, gap=1),
    "top until a score": lambda size: top(FILTER, size, 2, {0, 1}, until=FIRST),
    "watch, one key": lambda size: watching(FILTER, size, 2, {0}),
    "watch, both keys": lambda size: watching(FILTER, size, 2, {0, 1}),
    "test of keys, one key": lambda size: watching(FILTER, size, 2, {0}, kind=ThresholdTest),
    "test of keys, both keys": lambda size: watching(FILTER, size, 2, {0, 1}, kind=ThresholdTest),
    "track": lambda size: tracked(FILTER, size, 2),
    "track without rounding": lambda size: tracked(FILTER, size, 1),
}


@pytest.mark.parametrize("size", [HIT, FULL])
@pytest.mark.parametrize("name", GAMES)
def test_no_analyst_gets_more_than_what_is_charged(name, size):
    game = GAMES[name](size)
    for calls in (1, 3):
        assert 1 - 1e-9 <= Best(game, Moment(2)).value(calls) <= 1 + 1e-9


@dataclass(frozen=True)
class OneLess(PerHit):
    """A hit is forgotten."""

    def final(self, price, result, reserved):
        return Amount(max(0, super().final(price, result, reserved).main - price.hit.main))


@pytest.mark.parametrize("game", [partial(top, FILTER, HIT, 2, {0, 1}), partial(tracked, FILTER, HIT, 2)])
def test_one_hit_too_few_is_found_out(game):
    def one_less(made):
        return replace(made, cost=OneLess(made.cost.parts, made.cost.hits, made.cost.halts))

    assert Best(game(forgot=one_less), Moment(2)).value(1) > 1.05


@pytest.mark.parametrize("kind", [ReleaseIf, ThresholdTest])
def test_charging_both_keys_as_one_is_found_out(kind):
    game = watching(FILTER, HIT, 2, {0, 1}, lambda made: replace(made, cost=PerHit(1, halts=True)), kind)
    assert Best(game, Moment(2)).value(1) > 1.01
