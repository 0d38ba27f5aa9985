"""Top keys, watches and tracked answers against the best analyst."""

from fractions import Fraction

import pytest

from chary import Budget
from chary.amounts import Amount
from chary.calls import When
from chary.calls.thresholds import AskTracked, AskWatch
from chary.core.plan import PerHit
from chary.filters import RenyiFilter
from tests.adversary.counts import top, tracked, watched
from tests.adversary.kit import Best, Moment

FILTER = RenyiFilter(Budget(epsilon=30, delta="0.01"), order=Fraction(2))
HIT, FULL = "0.4", "1"
FIRST = When("one is enough", lambda scores: scores[-1] >= 1)
GAMES = {
    "top, one key": lambda size: top(FILTER, size, 2, {0}),
    "top, another": lambda size: top(FILTER, size, 2, {1}),
    "top, both keys": lambda size: top(FILTER, size, 2, {0, 1}),
    "top with a bar and a gap": lambda size: top(FILTER, size, 2, {0, 1}, above=1, gap=1),
    "top until a score": lambda size: top(FILTER, size, 2, {0, 1}, until=FIRST),
    "watch, one key": lambda size: watched(FILTER, size, 2, {0}),
    "watch, both keys": lambda size: watched(FILTER, size, 2, {0, 1}),
    "track": lambda size: tracked(FILTER, size, 2),
    "track without rounding": lambda size: tracked(FILTER, size, 1),
}


@pytest.mark.parametrize("size", [HIT, FULL])
@pytest.mark.parametrize("name", GAMES)
def test_no_analyst_gets_more_than_what_is_charged(name, size):
    game = GAMES[name](size)
    for calls in (1, 3):
        assert 1 - 1e-9 <= Best(game, Moment(2)).value(calls) <= 1 + 1e-9


@pytest.mark.parametrize(("name", "kind"), [("top, both keys", PerHit), ("track", AskTracked)])
def test_one_hit_too_few_is_found_out(monkeypatch, name, kind):
    final = kind.final

    def one_less(self, price, ran, reserved_hits):
        return Amount(max(0, final(self, price, ran, reserved_hits).main - price.hit.main))

    monkeypatch.setattr(kind, "final", one_less)
    assert Best(GAMES[name](HIT), Moment(2)).value(1) > 1.05


def test_charging_both_keys_as_one_is_found_out(monkeypatch):
    monkeypatch.setattr(AskWatch, "parallel", 1)
    assert Best(GAMES["watch, both keys"](HIT), Moment(2)).value(1) > 1.01
