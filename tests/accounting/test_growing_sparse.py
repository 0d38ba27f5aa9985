"""Rounds on a growing table: what each costs, and exact laws by enumeration."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chary.accounting.sparse_vector import GrowingRounds, reach, round_noise
from chary.errors import InvalidParameter
from tests.mechanisms.sparse_laws import pmf

FORMS = [("tuned", False), ("tuned", True), ("published", False), ("published", True)]
SHIFTS = np.arange(-400, 401)


@pytest.mark.parametrize(("form", "values"), FORMS)
def test_the_parts_of_a_round_add_up_to_its_epsilon_exactly(form, values):
    noise = round_noise("0.3", values=values, form=form)
    answer = 1 / noise.answer if noise.answer else 0
    assert 1 / noise.threshold + 2 / noise.test + answer == Fraction(3, 10)
    assert (noise.hits, noise.answer is not None) == (1, values)


def test_the_published_noise_is_that_of_the_noise_function():
    """Threshold 2/xi, tests 4/xi, value 2/xi for averages, the round 1.5 xi D with its value, xi D without."""
    for values, worth in ((False, 1), (True, Fraction(3, 2))):
        rounds = GrowingRounds(100, "0.3", exponent="0.5", values=values, form="published")
        for size in (100, 250, 10**6):
            noise, xi = rounds.noise(size), rounds.noise_function(size)
            sizes = [noise.threshold, noise.test, *([noise.answer] if values else [])]
            assert [float(scale) / size for scale in sizes] == pytest.approx([2 / xi, 4 / xi, 2 / xi][: len(sizes)])
            assert xi / size * worth == pytest.approx(float(rounds.epsilon_down(size)))
            assert xi == pytest.approx(rounds.noise_function(100) * math.sqrt(size / 100))


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.fractions(0, 1, max_denominator=50))
@settings(max_examples=60, deadline=None)
def test_epsilon_falls_with_the_size_and_the_noise_function_rises(start, more, exponent):
    rounds = GrowingRounds(start, "0.1", exponent)
    first, later = rounds.epsilon_down(start), rounds.epsilon_down(start + more)
    assert first == Fraction(1, 10)
    assert later <= first
    assert later * (start + more) >= first * start * (1 - Fraction(1, 10**16))
    power = 1 - exponent
    raised = (later / first) ** power.denominator * Fraction(start + more, start) ** power.numerator
    assert 1 - Fraction(1, 10**14) <= raised <= 1


def test_sizes_without_roots_are_exact_and_losses_add():
    for exponent, expected in ((1, Fraction(1, 10)), (0, Fraction(1, 30))):
        assert GrowingRounds(1000, "0.1", exponent).epsilon_down(3000) == expected
    rounds = GrowingRounds(1000, "0.1", "0.5")
    assert rounds.loss([1000, 4000, 4000]) == Fraction(1, 10) + 2 * rounds.epsilon_down(4000)
    assert rounds.loss([]) == 0


# The exact law of a round: tables of zeros and ones that grow, every question a count of one or the other.
START, END, BARS = 2, 3, (-15, Fraction(1, 2), 15)
TABLES = list(itertools.product((0, 1), repeat=END))
NEIGHBOURS = [
    (x, y) for x, y in itertools.product(TABLES, TABLES) if sum(a != b for a, b in zip(x, y, strict=True)) == 1
]
ASKED = list(itertools.product((START, END), (0, 1), BARS))


def chance(noise, table, misses, hit):
    """Of the transcript "below" for all of `misses` and then "above" for `hit`, summed over the hidden threshold."""
    weights = pmf(noise.threshold, SHIFTS)
    for size, kind, bar in (*misses, hit):
        gap = table[:size].count(kind) - math.ceil(bar * size)
        above = reach(noise.test, (SHIFTS - gap).astype(float))
        weights = weights * (above if (size, kind, bar) == hit else 1 - above)
    return weights.sum()


def worst_loss(noise):
    """Over neighbours and transcripts in which the same question misses up to 40 times; the value comes on top."""
    worst = 0.0
    plans = [([miss] * times, hit) for miss in ASKED for hit in ASKED for times in (1, 40) if miss != hit]
    for misses, hit in plans:
        if misses[0][0] > hit[0]:
            continue
        chances = {table: chance(noise, table, misses, hit) for table in TABLES}
        worst = max(worst, *(abs(math.log(chances[x] / chances[y])) for x, y in NEIGHBOURS))
    if noise.answer is None:
        return worst
    value = pmf(noise.answer, np.arange(-5, 6))
    return worst + float(np.abs(np.log(value[1:] / value[:-1])).max())


@pytest.mark.parametrize(("form", "values"), FORMS)
def test_a_round_loses_at_most_its_epsilon_while_the_table_grows_and_nearly_that(form, values):
    assert 0.95 < worst_loss(round_noise(1, form=form, values=values)) <= 1 + 1e-9


def test_two_thirds_of_the_noise_is_caught():
    noise = round_noise(Fraction(3, 2))
    assert worst_loss(noise) > 1.4


def growing_xi_loss(grid, last, exponent, gaps, *, frozen):
    """The worst loss of a round in shares that began at 1 row with `xi D = 1` and hits at `last` rows.

    In steps of 1/grid: the sensitivity is `grid` at first and `grid/last` at the end, the last test has noise 4/xi_t.
    """
    xi, moved = 1 / grid, grid // last
    rising = 1 if frozen else last**exponent
    shifts = np.arange(-60 * 2 * grid, 60 * 2 * grid + 1)
    threshold, worst = np.log(pmf(2 / xi, shifts)), 0.0

    def log_chance(first, end):
        below = np.log1p(-np.minimum(reach(4 / xi, (shifts - first).astype(float)), 1 - 1e-16))
        above = np.log(reach(4 / (xi * rising), (shifts - end).astype(float)))
        logs = threshold + 300 * below + above
        return logs.max() + math.log(np.exp(logs - logs.max()).sum())

    for first, end in itertools.product(gaps, gaps):
        worst = max(worst, abs(log_chance(first, end) - log_chance(first + grid, end - moved)))
    return worst


@pytest.mark.parametrize(("last", "exponent"), [(16, 0.5), (16, 1.0), (4, 0.5)])
def test_a_noise_function_that_rises_inside_a_round_is_not_bounded_by_its_start(last, exponent):
    """It fulfils what [GROW] Theorem 25 asks of it; the loss is `xi_s D_s/2 + xi_t (D_s + D_t)/4`, and is reached."""
    gaps = range(-200, 201, 16)
    expected = 0.5 + last**exponent * (1 + 1 / last) / 4
    found = growing_xi_loss(16, last, exponent, gaps, frozen=False)
    assert expected > 1.1
    assert found == pytest.approx(expected, rel=1e-3)
    still = growing_xi_loss(16, last, exponent, gaps, frozen=True)
    assert still == pytest.approx(0.5 + (1 + 1 / last) / 4, rel=1e-3)


@pytest.mark.parametrize(
    "bad",
    [
        {"start": 0},
        {"epsilon": 0},
        {"epsilon": "1e-16"},
        {"exponent": "-0.1"},
        {"exponent": "4.1"},
        {"exponent": "nan"},
        {"values": 1},
        {"form": "broken"},
    ],
)
def test_bad_terms_are_refused(bad):
    with pytest.raises(InvalidParameter):
        GrowingRounds(**({"start": 10, "epsilon": "0.1"} | bad))


def test_rounds_may_cost_more_as_the_table_grows():
    """Noise in counts is that of the beginning, so a round is what it costs at any exponent."""
    rounds = GrowingRounds(1000, "0.1", exponent=2)
    assert [rounds.epsilon_down(size) for size in (1000, 2000, 4000)] == [Fraction(k, 10) for k in (1, 2, 4)]
    assert rounds.loss([1000, 2000]) == Fraction(3, 10)
    for size in (2000, 4000):
        noise = rounds.noise(size)
        assert worst_loss(noise) <= float(rounds.epsilon_down(size)) * (1 + 1e-9)
    half = GrowingRounds(1000, "0.1", exponent="1.5").epsilon_down(2000)
    assert float(half) == pytest.approx(0.1 * math.sqrt(2), rel=1e-15)
    assert half**2 <= Fraction(1, 50)
