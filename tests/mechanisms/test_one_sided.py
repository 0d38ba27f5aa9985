"""The sparse vector with one-sided noise: its privacy in both orders over all transcripts, what the machine does."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from chary import noise
from chary.accounting import OneSidedNoise, Pure, one_sided_noise
from chary.errors import InvalidParameter
from chary.mechanisms import HiddenThreshold, OneSidedMachine
from chary.mechanisms.threshold_tests import Crossed, Geometric
from chary.noise import OperatingSystem, Seeded
from tests.mechanisms.one_sided_laws import OneSided, geometric

UP, ANY = (0, 1), (-1, 0, 1)
FAR = (-60, 0, 60)
EXACTLY = 1e-9
SIZES = [(1, 1), (1, 2), (2, 3), (0.5, 1)]


def made(epsilon, hits, monotone, tests=1.0, threshold=1.0):
    """The noise, its two parts of epsilon, and its law with the scales changed."""
    sizes = one_sided_noise(epsilon=epsilon, hits=hits, monotone=monotone)
    first = float(1 / sizes.threshold)
    law = OneSided(threshold * float(sizes.threshold), tests * float(sizes.test))
    return law, first, epsilon - first


@pytest.mark.parametrize(("epsilon", "hits"), SIZES)
def test_losses_of_monotone_questions_are_uneven_and_attained_in_both_orders(epsilon, hits):
    law, first, second = made(epsilon, hits, True)
    worst, least = law.losses(hits, 2, UP, FAR)
    assert 0.99 * (first + second) < worst <= (first + second) * (1 + EXACTLY)
    assert 0.99 * second < -least <= second * (1 + EXACTLY)


@pytest.mark.parametrize(("epsilon", "hits"), SIZES)
def test_losses_of_other_questions_are_epsilon_in_both_orders(epsilon, hits):
    """The threshold's noise may be one-sided for them, too: the shift of the proof goes up in both orders."""
    law, _, _ = made(epsilon, hits, False)
    worst, least = law.losses(hits, 2, ANY, FAR if hits < 3 else FAR[::2])
    assert 0.95 * epsilon < worst <= epsilon * (1 + EXACTLY)
    assert 0.95 * epsilon < -least <= epsilon * (1 + EXACTLY)


@pytest.mark.parametrize("hits", [1, 2])
@pytest.mark.parametrize(("monotone", "moves"), [(True, UP), (False, ANY)])
@pytest.mark.parametrize("less", [{"tests": 2 / 3}, {"threshold": 2 / 3}])
def test_less_noise_would_lose_more(hits, monotone, moves, less):
    law, first, second = made(1, hits, monotone, **less)
    part = second if "tests" in less else first
    assert law.losses(hits, 2, moves, FAR)[0] > 1 + 0.45 * part


@pytest.mark.parametrize("hits", [1, 2])
def test_the_noise_for_monotone_questions_does_not_do_for_others(hits):
    law, _, second = made(1, hits, True)
    assert law.losses(hits, 2, ANY, FAR)[0] > 1 + 0.9 * second


@pytest.mark.parametrize("sensitivity", [1, 3])
def test_a_larger_sensitivity_scales_everything(sensitivity):
    sizes = one_sided_noise(epsilon=1, hits=1, monotone=True).scaled(sensitivity)
    law = OneSided(float(sizes.threshold), float(sizes.test))
    assert 0.99 < law.losses(1, 2, range(sensitivity + 1), FAR)[0] <= 1 + EXACTLY
    assert law.losses(1, 2, (0, sensitivity + 1), FAR)[0] > 1.2
    assert sizes.event.epsilon == 1


@pytest.mark.parametrize("order", [Fraction(3, 2), Fraction(4), Fraction(30)])
@pytest.mark.parametrize(("monotone", "moves"), [(True, (1, 1, 1, 1)), (False, (1, -1, 1, -1))])
def test_no_law_of_transcripts_has_a_larger_moment_than_its_event(order, monotone, moves):
    """In both orders, for all gaps; four questions reach a good part of what any number of them may."""
    sizes, hits, a = one_sided_noise(epsilon=2, hits=2, monotone=monotone), 2, float(order)
    law, bound, reached = OneSided(float(sizes.threshold), float(sizes.test)), sizes.event.log_moment_up(order), 0.0
    for gaps in itertools.product((-9, 0, 9), repeat=4):
        sides = [
            dict(law.transcripts([gap + side * move for gap, move in zip(gaps, moves, strict=True)], hits))
            for side in (0, 1)
        ]
        assert sum(sides[0].values()) == pytest.approx(1, abs=1e-12)
        for p, q in (sides, sides[::-1]):
            moment = math.log(sum(p[told] * (p[told] / q[told]) ** (a - 1) for told in p))
            assert moment <= float(bound) * (1 + EXACTLY)
            reached = max(reached, moment / float(bound))
    assert reached > (0.5 if order == 30 else 0.09)


class Script:
    """In place of noise: what every draw of each scale gives, in order."""

    def __init__(self, monkeypatch, thresholds, tests):
        self.queues = {Fraction(3): list(thresholds), Fraction(5): list(tests)}
        monkeypatch.setattr(
            noise, "geometric", lambda _source, scale, size: np.array(self._next(scale, size), dtype=int)
        )
        monkeypatch.setattr(Geometric, "draw_one", lambda law, _source: self._next(law.scale, 1)[0])

    def _next(self, scale, size):
        taken, self.queues[scale] = self.queues[scale][:size], self.queues[scale][size:]
        assert len(taken) == size
        return taken


MACHINE = OneSidedMachine(OneSidedNoise(2, Fraction(3), Fraction(5), None, True, 7))


def test_the_machine_follows_the_definition(monkeypatch):
    """Noise that takes few values: the law of the transcript as it runs, and test after test."""
    values, bars, tests = [2, 0, 4], np.arange(4), np.arange(0, 10, 3)
    found, expected = Counter(), Counter()
    for bar, *drawn in itertools.product(bars, tests, tests, tests):
        weight = float(geometric(3, bar) * np.prod(geometric(5, drawn)))
        Script(monkeypatch, [bar], drawn)
        state, crossed = MACHINE.step(MACHINE.start(None), np.array(values), 1, None)
        assert state.used == len(crossed.positions)
        found[crossed.tested, tuple(crossed.positions)] += weight
        above = []
        for tested, (value, more) in enumerate(zip(values, drawn, strict=True)):
            above += [tested] if value + more >= 1 + MACHINE.sizes.shift + bar else []
            if len(above) == 2:
                break
        expected[tested + 1, tuple(above)] += weight
    assert len(found) > 4
    assert found.keys() == expected.keys()
    assert all(found[key] == pytest.approx(expected[key], rel=1e-12) for key in expected)


NOISES = st.integers(0, 9)


@given(st.lists(st.tuples(st.integers(-9, 9), NOISES), min_size=1, max_size=12), NOISES, st.integers(1, 12))
def test_all_at_once_is_one_by_one_under_the_same_noise(stream, bar, chunk):
    values, drawn = (np.array(column) for column in zip(*stream, strict=True))

    def asked(size):
        with pytest.MonkeyPatch.context() as patch:
            script = Script(patch, [bar], [])
            state, above, tested = MACHINE.start(None), [], 0
            while tested < len(values) and state.used < 2:
                script.queues[Fraction(5)] = list(drawn[tested:])
                state, crossed = MACHINE.step(state, values[tested : tested + size], 3, None)
                above += [tested + position for position in crossed.positions]
                tested += crossed.tested
            return state, above, tested

    assert asked(1) == asked(chunk) == asked(len(values))


@pytest.mark.statistical
@pytest.mark.parametrize("monotone", [True, False])
def test_samples_follow_the_law(monotone):
    """How each of 4 tests comes out until two are above; wrong scales of 2/3 and 3/2 would be noticed."""
    sizes, runs = one_sided_noise(epsilon=2, hits=2, tests=5, monotone=monotone), 8000
    machine, source, gaps = OneSidedMachine(sizes), Seeded(7), [-4, 2, 0, -3]
    values = np.array(gaps) + sizes.shift
    drawn = Counter()
    for _ in range(runs):
        crossed = machine.step(machine.start(source), values, 0, source)[1]
        drawn[tuple(place in crossed.positions for place in range(crossed.tested))] += 1
    scales = float(sizes.threshold), float(sizes.test)
    laws = [dict(OneSided(scales[0] * f, scales[1] * g).transcripts(gaps, 2)) for f, g in FACTORS]
    for law, factors in zip(laws, FACTORS, strict=True):
        told = sorted(law, key=law.get)
        chance = stats.chisquare([drawn[each] for each in told], [runs * law[each] for each in told]).pvalue
        assert (chance > 1e-6) == (factors == (1, 1))


FACTORS = [(1, 1), (2 / 3, 1), (3 / 2, 1), (1, 2 / 3), (1, 3 / 2)]


def test_values_have_noise_of_their_own():
    sizes = one_sided_noise(epsilon=1, hits=500, values=True)
    machine, source = OneSidedMachine(sizes), Seeded(3)
    _, crossed = machine.step(machine.start(source), np.full(500, 10**7), 0, source)
    assert crossed.tested == 500
    errors = np.array(crossed.values) - 10**7
    assert 0.75 < np.abs(errors).mean() / float(sizes.answer) < 1.25
    assert abs(errors.mean()) < float(sizes.answer) / 3


def test_it_ends_at_the_last_hit_and_then_refuses():
    machine, source = OneSidedMachine(one_sided_noise(epsilon=10**6, hits=2)), OperatingSystem()
    state, crossed = machine.step(machine.start(source), np.array([0, 7, 0]), 5, source)
    assert (crossed, state.used) == (Crossed(3, [1], None), 1)
    state, crossed = machine.step(state, np.array([2**70, 7], dtype=object), 5, source)
    assert (crossed, state.used) == (Crossed(1, [0], None), 2)
    with pytest.raises(InvalidParameter, match="are exhausted"):
        machine.step(state, np.array([7]), 5, source)


def test_the_threshold_is_drawn_once_and_never_below_the_bar():
    machine, source = OneSidedMachine(one_sided_noise(epsilon="0.001", hits=3)), Seeded(1)
    assert min(machine.start(source).shift for _ in range(200)) >= 0
    first = machine.start(source)
    missed, _ = machine.step(first, np.array([-(10**9)]), 0, source)
    hit, _ = machine.step(missed, np.array([10**9]), 0, source)
    assert (missed, hit) == (first, HiddenThreshold(first.shift, 1))


def test_noise_out_of_range_is_refused():
    with pytest.raises(InvalidParameter, match="scale"):
        OneSidedMachine(one_sided_noise(epsilon="1e-13", hits=1))
    with pytest.raises(InvalidParameter, match="scale"):
        OneSidedMachine(OneSidedNoise(1, Fraction(1), Fraction(1), Fraction(2**50), True))


def test_its_event_is_uneven_where_questions_are_monotone():
    order = Fraction(8)
    even, uneven = (OneSidedMachine(one_sided_noise(epsilon="0.1", hits=3, monotone=m)).event for m in (False, True))
    assert even == Pure("0.1")
    assert uneven.epsilon == Fraction(1, 10)
    assert uneven.log_moment_up(order) < even.log_moment_up(order)
