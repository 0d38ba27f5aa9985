"""Sparse vectors: their exact privacy over all transcripts of small streams, and what the state machine does."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from chary.accounting import SparseNoise, sparse_noise
from chary.errors import InvalidParameter
from chary.mechanisms import HiddenThreshold, Laplace, SparseVectorMachine
from chary.mechanisms.threshold_tests import Crossed
from chary.noise import OperatingSystem, Seeded
from tests.mechanisms.sparse_laws import Round, pmf

BOTH_WAYS, ONE_WAY = (-1, 0, 1), (0, 1)
FAR = (-60, 0, 60)
EXACTLY = 1e-9


def rounded(epsilon, hits, monotone, test_noise=1.0):
    """One tuned round, its test noise scaled."""
    sizes = sparse_noise(epsilon=epsilon, hits=hits, monotone=monotone)
    return Round(float(sizes.threshold), test_noise * float(sizes.test))


@pytest.mark.parametrize(("monotone", "moves"), [(True, ONE_WAY), (False, BOTH_WAYS)])
@pytest.mark.parametrize(("epsilon", "hits"), [(1, 1), (1, 2), (1, 3), (2, 2), (0.5, 1)])
def test_no_transcript_of_the_tuned_form_loses_more_and_some_nearly_all(epsilon, hits, monotone, moves):
    misses, gaps = (4, FAR) if hits < 3 else (6, FAR[::2])
    worst = rounded(epsilon, hits, monotone).worst(hits, misses, moves, gaps)
    assert 0.9 * epsilon < worst <= epsilon * (1 + EXACTLY)


@pytest.mark.parametrize(("monotone", "moves"), [(True, ONE_WAY), (False, BOTH_WAYS)])
@pytest.mark.parametrize("hits", [1, 2, 3])
def test_less_noise_on_the_tests_would_lose_more(hits, monotone, moves):
    assert rounded(1, hits, monotone, 2 / 3).worst(hits, 4, moves, FAR) > 1.2


@pytest.mark.parametrize("hits", [1, 2])
def test_the_noise_for_monotone_questions_does_not_do_for_others(hits):
    assert rounded(1, hits, True).worst(hits, 3, BOTH_WAYS) > 1.4
    assert rounded(1, hits, True).worst(hits, 3, (-1, 0)) <= 1 + EXACTLY


@pytest.mark.parametrize("epsilon", [0.5, 1, 2])
def test_the_published_form_for_one_hit_is_tight(epsilon):
    sizes = sparse_noise(epsilon=epsilon, hits=1, form="published")
    worst = Round(float(sizes.threshold), float(sizes.test)).worst(1, 5, BOTH_WAYS, FAR)
    assert 0.9 * epsilon < worst <= epsilon * (1 + EXACTLY)


@pytest.mark.parametrize("hits", [1, 3])
def test_rounds_and_values_of_the_published_form_add_up_to_epsilon(hits):
    sizes = sparse_noise(epsilon=2, hits=hits, form="published", values=True)
    a_round = Round(float(sizes.threshold), float(sizes.test)).worst(1, 5, BOTH_WAYS, FAR)
    total = hits * (a_round + 1 / float(sizes.answer))
    assert 0.9 * 2 < total <= 2 * (1 + EXACTLY)


def test_a_larger_sensitivity_scales_everything():
    sizes = sparse_noise(epsilon=1, hits=1, monotone=True).scaled(3)
    worst = Round(float(sizes.threshold), float(sizes.test)).worst(1, 4, (0, 1, 2, 3), FAR)
    assert 0.9 < worst <= 1 + EXACTLY
    assert Round(float(sizes.threshold), float(sizes.test)).worst(1, 4, (0, 4), FAR) > 1.2


class Script:
    """In place of noise: what every draw of each scale gives, in order."""

    def __init__(self, monkeypatch, machine, thresholds, tests, answers=()):
        sizes = machine.sizes.scaled(machine.sensitivity)
        self.queues = {sizes.threshold: list(thresholds), sizes.test: list(tests), sizes.answer: list(answers)}
        monkeypatch.setattr(Laplace, "draw", lambda law, _source, size: np.array(self._next(law, size), dtype=np.int64))
        monkeypatch.setattr(Laplace, "draw_one", lambda law, _source: self._next(law, 1)[0])

    def _next(self, law, size):
        queue = self.queues[law.scale]
        taken, self.queues[law.scale] = queue[:size], queue[size:]
        assert len(taken) == size
        return taken


SIZES = {
    "tuned": SparseNoise(2, Fraction(3), Fraction(5), None, False),
    "published": SparseNoise(2, Fraction(3), Fraction(5), Fraction(7), True),
}


def enumerated(monkeypatch, machine, values):
    """The law of the transcript as the machine runs, with every noise cut off to few values."""
    thresholds, tests = np.arange(-2, 3), np.arange(-3, 4)
    found = Counter()
    for drawn in itertools.product(thresholds, repeat=machine.sizes.thresholds):
        for noise in itertools.product(tests, repeat=len(values)):
            Script(monkeypatch, machine, drawn, noise, [0, 0])
            _, crossed = machine.step(machine.start(None), np.array(values), 0, None)
            weight = pmf(3, np.array(drawn)).prod() * pmf(5, np.array(noise)).prod()
            found[crossed.tested, tuple(crossed.positions)] += weight
    return found


def summed(machine, values):
    """The same law from the definition: test after test, a threshold for each round."""
    thresholds, tests = np.arange(-2, 3), np.arange(-3, 4)
    rounds, found = machine.sizes.thresholds, Counter()
    for drawn in itertools.product(thresholds, repeat=rounds):
        branches = Counter({((), 0): pmf(3, np.array(drawn)).prod()})
        for value in values:
            after = Counter()
            for (above, tested), weight in branches.items():
                if len(above) == machine.sizes.hits:
                    after[above, tested] += weight * pmf(5, tests).sum()
                    continue
                bar = drawn[len(above) if rounds > 1 else 0]
                reached = pmf(5, tests[value + tests >= bar]).sum()
                after[(*above, tested), tested + 1] += weight * reached
                after[above, tested + 1] += weight * (pmf(5, tests).sum() - reached)
            branches = after
        for (above, tested), weight in branches.items():
            found[tested, above] += weight
    return found


@pytest.mark.parametrize("form", SIZES)
def test_the_machine_follows_the_definition(monkeypatch, form):
    machine = SparseVectorMachine(SIZES[form], 1)
    found, expected = enumerated(monkeypatch, machine, [0, -1, 1]), summed(machine, [0, -1, 1])
    assert found.keys() == expected.keys()
    assert all(found[key] == pytest.approx(expected[key], rel=1e-12) for key in expected)


NOISES = st.integers(-9, 9)


@given(
    st.sampled_from([*SIZES]),
    st.lists(st.tuples(NOISES, NOISES), min_size=1, max_size=12),
    st.lists(NOISES, min_size=2, max_size=2),
    st.integers(1, 12),
)
def test_all_at_once_is_one_by_one_under_the_same_noise(form, stream, thresholds, chunk):
    machine = SparseVectorMachine(SIZES[form], 1)
    values, noise = (np.array(column) for column in zip(*stream, strict=True))

    def asked(size):
        with pytest.MonkeyPatch.context() as patch:
            script = Script(patch, machine, thresholds, [], [1, 2])
            state, above, answers, tested = machine.start(None), [], [], 0
            while tested < len(values) and state.used < machine.sizes.hits:
                script.queues[Fraction(5)] = list(noise[tested:])
                state, crossed = machine.step(state, values[tested : tested + size], 3, None)
                above += [tested + position for position in crossed.positions]
                answers += crossed.values or []
                tested += crossed.tested
            return state, above, answers, tested

    assert asked(1) == asked(chunk) == asked(len(values))


@pytest.mark.statistical
@pytest.mark.parametrize("form", ["tuned", "published"])
def test_samples_follow_the_law(form):
    """How many of 6 tests are made until two are above; a test noise of 3/2 would be noticed."""
    sizes = sparse_noise(epsilon=2, hits=2, form=form)
    machine, source, gaps, runs = SparseVectorMachine(sizes, 1), Seeded(7), [-4, 2, 0, -3, 1, -1], 8000
    drawn = Counter(machine.step(machine.start(source), np.array(gaps), 0, source)[1].tested for _ in range(runs))
    observed = [drawn[size] for size in range(2, 7)]
    law, wrong = (
        lengths(Round(float(sizes.threshold), scale * float(sizes.test)), sizes.redrawn, gaps) for scale in (1, 1.5)
    )
    assert stats.chisquare(observed, runs * law).pvalue > 1e-6
    assert stats.chisquare(observed, runs * wrong).pvalue < 1e-6


def lengths(a_round, redrawn, gaps):
    """The law of the number of tests until the second hit, or of all."""
    chances = []
    for last in range(1, len(gaps)):
        chance = 0.0
        for first in range(last):
            above = [position in (first, last) for position in range(last + 1)]
            if redrawn:
                head = a_round.chance(gaps[: first + 1], above[: first + 1])
                chance += head * a_round.chance(gaps[first + 1 : last + 1], above[first + 1 :])
            else:
                chance += a_round.chance(gaps[: last + 1], above)
        chances.append(chance)
    chances[-1] = 1 - sum(chances[:-1])
    return np.array(chances)


def test_values_have_noise_of_their_own():
    sizes = sparse_noise(epsilon=1, hits=500, values=True)
    machine, source = SparseVectorMachine(sizes, 1), Seeded(3)
    _, crossed = machine.step(machine.start(source), np.full(500, 10**7), 0, source)
    assert crossed.tested == 500
    scale = np.mean(np.abs(np.array(crossed.values) - 10**7)) / float(sizes.answer)
    assert 0.75 < scale < 1.25


def test_it_ends_at_the_last_hit_and_then_refuses():
    machine, source = SparseVectorMachine(sparse_noise(epsilon=10**6, hits=2), 1), OperatingSystem()
    state, crossed = machine.step(machine.start(source), np.array([0, 7, 0]), 5, source)
    assert (crossed, state.used) == (Crossed(3, [1], None), 1)
    state, crossed = machine.step(state, np.array([2**70, 7], dtype=object), 5, source)
    assert (crossed, state.used) == (Crossed(1, [0], None), 2)
    with pytest.raises(InvalidParameter, match="are exhausted"):
        machine.step(state, np.array([7]), 5, source)


def test_only_the_published_form_draws_a_new_threshold():
    shifts = {}
    for form in ("tuned", "published"):
        machine, source = SparseVectorMachine(sparse_noise(epsilon="0.001", hits=3, form=form), 1), Seeded(1)
        first = machine.start(source)
        missed, _ = machine.step(first, np.array([-(10**9)]), 0, source)
        hit, _ = machine.step(missed, np.array([10**9]), 0, source)
        last, _ = machine.step(hit, np.array([10**9, 10**9]), 0, source)
        assert missed == first
        shifts[form] = {state.shift for state in (first, hit)}
        assert (hit.used, last.used) == (1, 3)
    assert len(shifts["tuned"]) == 1
    assert len(shifts["published"]) == 2


def test_the_hidden_threshold_is_stored_and_not_shown():
    state = HiddenThreshold(987654321, 2)
    assert HiddenThreshold.load(state.dump()) == state
    assert "987654321" not in f"{state} {state!r}"


@pytest.mark.parametrize("sensitivity", [0, -1, 0.5, True])
def test_sensitivities_are_whole(sensitivity):
    with pytest.raises(InvalidParameter):
        SparseVectorMachine(SIZES["tuned"], sensitivity)


def test_noise_out_of_range_is_refused():
    with pytest.raises(InvalidParameter, match="scale"):
        SparseVectorMachine(sparse_noise(epsilon="1e-13", hits=1), 1)


@pytest.mark.parametrize("sensitivity", [1, 3])
def test_all_noise_grows_with_the_sensitivity(sensitivity):
    sizes = sparse_noise(epsilon=1, hits=2, values=True)
    made = SparseVectorMachine(sizes, sensitivity)
    scales = [law.scale for law in (*made._laws(), made.answers)]
    assert scales == [sensitivity * scale for scale in (sizes.threshold, sizes.test, sizes.answer)]
