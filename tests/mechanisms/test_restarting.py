"""Runs that restart after each hit: their exact law against draws, and all transcripts of neighbours under the rule."""

import itertools
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

from chary.accounting import above_threshold_epsilons_up
from chary.accounting.gaussian_runs import Losses, PureStopping
from chary.mechanisms import GaussianThreshold
from chary.mechanisms.threshold_tests import RestartingThreshold
from chary.noise import Seeded
from tests.mechanisms.gaussian_laws import log_restarting

ALPHA = 1e-6
TEST = GaussianThreshold("0.6", "0.5", "0.8")
TERMS = {"threshold": "0.6", "threshold_noise": "0.5", "query_noise": "0.8", "low": 0, "high": 1}
FREE = Losses(np.zeros(99), np.zeros(99))
PATTERNS = list(itertools.product([False, True], repeat=4))


@cache
def log_pattern(pattern, values):
    """By runs, of which many transcripts share some."""
    return log_restarting(pattern, values, 0.6, 0.5, 0.8)


def machine(total, sensitivity="0.3"):
    losses = Losses(*above_threshold_epsilons_up(16, sensitivity=sensitivity, **TERMS))
    return RestartingThreshold(TEST, PureStopping(Fraction(total)), lambda steps: losses)


def test_draws_follow_the_exact_law():
    values, source = [Fraction(1, 2), Fraction(1), Fraction(0), Fraction(3, 4)], Seeded(5)
    free = RestartingThreshold(TEST, PureStopping(Fraction(1)), lambda steps: FREE)
    counts = dict.fromkeys(PATTERNS, 0)
    for _ in range(3000):
        above, tested, _ = free.scan(values, free.start(source), source)
        assert tested == 4
        counts[tuple(position in above for position in range(4))] += 1

    def fits(own, other):
        known = [float(value) for value in values]
        chances = np.exp([log_restarting(pattern, known, 0.6, own, other) for pattern in PATTERNS])
        assert chances.sum() == pytest.approx(1, abs=1e-9)
        return stats.chisquare(list(counts.values()), chances / chances.sum() * 3000).pvalue

    assert fits(0.5, 0.8) > ALPHA
    assert max(fits(0.5 * wrong, 0.8 * wrong) for wrong in (2 / 3, 3 / 2)) < ALPHA


@pytest.fixture
def scripted(monkeypatch):
    """Outcomes chosen by the test; the state is handed on as it is."""
    outcomes = []
    monkeypatch.setattr(GaussianThreshold, "step", lambda self, value, held, source: (outcomes.pop(0), held))
    return outcomes


def transcripts(runs, length, scripted):
    """All that can come out: the tests that were made and which were above, and the state after them."""
    found = {}
    for pattern in itertools.product([False, True], repeat=length):
        scripted[:] = pattern
        scanned = runs.scan([Fraction(0)] * length, runs.start(Seeded(1)), Seeded(2))
        found[pattern[: scanned.tested]] = scanned
    return found


@pytest.mark.parametrize("total", ["0.6", "1.2", "2.5"])
def test_no_transcript_of_neighbours_is_further_apart_than_the_total(total, scripted):
    """Values at the bounds are the worst; earlier ones high and a last low one attain the losses of a single run."""
    runs, reached = machine(total), 0.0
    found = transcripts(runs, 4, scripted)
    for values in itertools.product([0.0, 0.7], repeat=4):
        for moves in ([0.3] * 4, [0.3, 0, 0.3, 0]):
            moved = tuple(value + move for value, move in zip(values, moves, strict=True))
            for made, scanned in found.items():
                apart = abs(log_pattern(made, values) - log_pattern(made, moved))
                told = scanned.state.told
                lost = told.loss(runs.losses(16))
                assert apart <= float(lost) + 1e-9
                assert lost <= Fraction(total)
                reached = max(reached, apart)
    assert reached > 0.5 * float(total)


def test_a_rule_that_looks_at_hits_alone_would_exceed_the_total(scripted):
    """A negative control: without the loss of the test to come, transcripts exceed the total."""

    class Late(PureStopping):
        def admits(self, told, losses):
            return told.spent <= self.total

    exact = machine("0.6")
    late = RestartingThreshold(TEST, Late(Fraction("0.6")), exact.losses)
    worst = max(scanned.state.told.spent for scanned in transcripts(late, 5, scripted).values())
    assert worst > Fraction("0.6")


def test_all_at_once_is_one_by_one(scripted):
    runs, pattern = machine(2), [False, True, False, False, True, True]
    scripted[:] = pattern
    at_once = runs.scan([Fraction(0)] * 6, runs.start(Seeded(1)), Seeded(2))
    scripted[:], state, source = pattern, runs.start(Seeded(1)), Seeded(2)
    tested = 0
    for _ in range(6):
        one = runs.scan([Fraction(0)], state, source)
        tested, state = tested + one.tested, one.state
    assert (at_once.tested, at_once.state.told) == (tested, state.told)


def test_each_hit_draws_a_new_threshold(scripted):
    runs = machine(9)
    scripted[:] = [False, True, False]
    start = runs.start(Seeded(1))
    first = runs.scan([Fraction(0)], start, Seeded(2)).state
    second = runs.scan([Fraction(0)], first, Seeded(3)).state
    third = runs.scan([Fraction(0)], second, Seeded(4)).state
    assert start.held == first.held != second.held == third.held
