"""Plain streaming estimators are right on fixed streams and wrong on streams that were chosen by their answers."""

from collections import Counter

import pytest

from chary.mechanisms import FlajoletMartin, SecondMoment, new_key
from chary.noise import Seeded
from chary.streaming import cancelling
from tests.mechanisms.attacks import unnoticed

SEEDS = range(3)
WRONG = 4


def fed(estimator, items):
    for item in items:
        estimator.update(item)
    return estimator.estimate()


def asked(estimator):
    """One stream, the estimate published after every item."""

    def ask(item):
        estimator.update(item)
        return estimator.estimate()

    return ask


def second_moment(stream):
    return sum(count**2 for count in Counter(stream).values())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_chosen_stream_cancels_the_second_moment(seed):
    plain, unrelated = (SecondMoment(new_key(Seeded(key))) for key in (seed, 1000 + seed))
    stream = cancelling(asked(plain), items=1000)
    truth = second_moment(stream)
    assert fed(unrelated, stream) == pytest.approx(truth, rel=0.35)
    assert truth / plain.estimate() >= WRONG


@pytest.mark.parametrize("seed", SEEDS)
def test_the_attack_needs_the_answers(seed):
    """Answered by another copy, the analyst fools that copy only."""
    plain, other = (SecondMoment(new_key(Seeded(key))) for key in (seed, 2000 + seed))

    def ask(item):
        plain.update(item)
        return asked(other)(item)

    stream = cancelling(ask, items=1000)
    assert plain.estimate() == pytest.approx(second_moment(stream), rel=0.35)
    assert second_moment(stream) / other.estimate() >= WRONG


@pytest.mark.parametrize("seed", SEEDS)
def test_chosen_windows_hide_many_distinct_items(seed):
    key = new_key(Seeded(seed))

    def ask(items):
        return fed(FlajoletMartin(key, 32), items)

    hidden = unnoticed(ask, base=160, wanted=1280)
    assert len(set(hidden)) == 1280
    assert 1280 / ask(hidden) >= WRONG
    assert ask(range(10_000, 11_280)) == pytest.approx(1280, rel=0.7)
    assert fed(FlajoletMartin(new_key(Seeded(3000 + seed)), 32), hidden) == pytest.approx(1280, rel=0.7)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_growing_stream_cannot_fool_a_keyed_distinct_count(seed):
    """Whatever was answered, the hash of a fresh item is still uniform, so choosing among fresh items is no choice."""
    plain = FlajoletMartin(new_key(Seeded(seed)), 256)
    stream = cancelling(asked(plain), items=1000)
    assert plain.estimate() == pytest.approx(len(set(stream)), rel=0.3)
