"""Where intervals end, against a search that halves; and how many tails it takes."""

import random
from fractions import Fraction

import pytest

from chary.accounting import Finding, Findings, GaussianLaw, LaplaceLaw, Publication, Support
from chary.accounting import intervals as ends
from chary.accounting.noise_laws import level_down
from chary.accounting.numerics import precise

LAWS = [LaplaceLaw(Fraction(1, 3)), LaplaceLaw(20), LaplaceLaw(20_000), GaussianLaw(Fraction(1, 4)), GaussianLaw(400)]
HITS = 1_500


def halved(noise, support, first, chance):
    """The least kept truth by halving alone."""
    with precise():
        level = level_down(chance)

        def kept(truth):
            return ends.tail_up(noise, support, first, truth) > level

        if not kept(first):
            return first
        low, high = first - 2**45, first
        if kept(low):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if kept(middle) else (middle, high)
        return high


@pytest.mark.parametrize("noise", LAWS, ids=repr)
def test_the_ends_are_those_that_halving_finds(noise):
    drawn = random.Random(7)
    for place in range(1, 9):
        far, chance = drawn.randrange(8 * noise.spread), Fraction(drawn.randrange(1, 400), 1000) / place**3
        for support in (
            Support.at_least(-far),
            Support.everything(),
            Support.between(-far, noise.spread + 1),
            Support.outside(-far - 3 * noise.spread, -far),
        ):
            first = support.cut(0, None)[0][0] or 0
            assert ends.lower_end(noise, support, first, chance) == halved(noise, support, first, chance)


@pytest.mark.parametrize(("noise", "most"), [(LaplaceLaw(20), 5), (LaplaceLaw(20_000), 7), (GaussianLaw(10**10), 10)])
def test_intervals_of_many_calls_take_a_few_tails_each(noise, most, monkeypatch):
    """Each has a confidence of its own, so that none is known from another."""
    tails, tail = [], ends.tail_up
    monkeypatch.setattr(ends, "tail_up", lambda *asked: (tails.append(None), tail(*asked))[1])
    drawn, hits = random.Random(8), HITS if noise == LAWS[1] else 100
    told = Publication(noise, Support.at_least(100))
    values = [100 + drawn.randrange(10 * noise.spread) for _ in range(hits)]
    found = Findings.of((Finding(call, None, value, told) for call, value in enumerate(values)), open=True)
    found.intervals(simultaneous=True)
    assert 2 * hits <= len(tails) <= 2 * hits * most
