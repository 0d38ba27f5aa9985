"""The public histogram on its own: every way to change it and to look at it against a plain array, bit by bit."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chary.mechanisms import weights as public_histogram
from chary.mechanisms.weights import MultiplicativeWeights, PublicHistogram, WeightVector

WAYS = ("multiply_pieces", "multiply_gathered")


@dataclass(frozen=True)
class Set:
    """Rows with patterns."""

    which: np.ndarray
    patterns: np.ndarray
    levels = None

    @property
    def flags(self):
        return self.patterns[self.which]

    @property
    def count(self):
        return int(self.flags.sum())


def single(flags):
    """The smallest numbers of patterns."""
    numbers = {}
    which = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in flags])
    return Set(which, np.array([flags[np.argmax(which == number)] for number in numbers.values()]))


def agrees(histogram, plain, cells, factor):
    """One change, exactly; either these cells are multiplied or the others divided."""
    histogram.multiply(cells, factor)
    flags = cells.flags.reshape(plain.shape)
    here, there = (
        plain * np.where(where, np.float32(times), np.float32(1))
        for where, times in ((flags, factor), (~flags, 1 / factor))
    )
    now = histogram.weights
    assert np.array_equal(now, here) or np.array_equal(now, there)
    exact = now.astype(np.float64)
    assert histogram.share(cells) == pytest.approx(exact[flags].sum() / exact.sum(), rel=1e-12, abs=0)
    assert np.allclose(histogram.shares(), exact.ravel() / exact.sum(), rtol=1e-12, atol=0)
    return now.copy()


def irregular(size, seed):
    return np.random.default_rng(seed).random(size) < 0.5


def rows_and(rows, columns):
    return np.logical_and.outer(rows, columns)


EVEN = np.arange(1024) % 2 == 0
FEW, HALF = np.arange(1024) % 256 < 3, np.arange(1024) < 512
ALL, NARROW = np.ones(1024, bool), np.ones((4096, 1), bool)


@pytest.mark.parametrize(
    ("flags", "way"),
    [
        (rows_and(HALF, ALL), "multiply_pieces"),
        (rows_and(FEW, irregular(1024, 1)), "multiply_pieces"),
        (rows_and(EVEN, irregular(1024, 1)), "multiply_pieces"),
        (rows_and(EVEN, HALF) | rows_and(~EVEN, ~HALF), "multiply_pieces"),
        (rows_and(HALF, ALL) | rows_and(ALL, irregular(1024, 1)), "multiply_pieces"),
        (NARROW & irregular(300, 2), "multiply_pieces"),
        (NARROW & (np.arange(300) < 20), "multiply_pieces"),
        (NARROW & (np.arange(1000) % 600 < 390), "multiply_pieces"),
        (rows_and(irregular(1024, 3), ALL), "multiply_gathered"),
        (rows_and(irregular(1024, 3), HALF) | rows_and(irregular(1024, 4), ~HALF), "multiply_gathered"),
        (rows_and(irregular(1024, 3), irregular(1024, 4)), "multiply_gathered"),
        (rows_and(irregular(1024, 3), ALL) | rows_and(ALL, irregular(1024, 4)), "multiply_gathered"),
    ],
)
@pytest.mark.parametrize("factor", [3.7, 0.3])
def test_every_way_is_exact(monkeypatch, flags, way, factor):
    used = []
    for name in WAYS:
        original = getattr(public_histogram, name)
        monkeypatch.setattr(public_histogram, name, lambda *given, n=name, o=original: used.append(n) or o(*given))
    histogram = PublicHistogram(*flags.shape)
    histogram.weights *= np.random.default_rng(0).random(flags.shape, np.float32)
    histogram.lift(0.0)
    agrees(histogram, histogram.weights.copy(), single(flags), factor)
    agrees(histogram, histogram.weights.copy(), single(~flags), factor)
    assert set(used) == {way}


def test_only_cells_that_need_it_are_touched():
    """All but a few cells: the few are divided."""
    flags = np.ones((4, 6), bool)
    flags[1, 2] = False
    histogram = PublicHistogram(4, 6)
    histogram.multiply(single(flags), 4.0)
    assert np.array_equal(histogram.weights, np.where(flags, np.float32(1), np.float32(0.25)))


sets = st.lists(st.booleans(), min_size=24, max_size=24).map(lambda flags: single(np.array(flags).reshape(4, 6)))


@given(sets, sets, st.floats(0.25, 4), st.floats(0.1, 2), st.sampled_from([(4, 6), (2, 12), (24, 1)]))
def test_a_histogram_changes_and_answers_as_an_array_does(first, second, factor, lift, shape):
    histogram, plain = PublicHistogram(*shape), np.ones(shape, np.float32)
    plain = agrees(histogram, plain, first, factor)
    histogram.lift(lift)
    plain += np.float32(lift)
    assert np.array_equal(histogram.weights, plain)
    plain = agrees(histogram, plain, second, factor)
    histogram.scale(0.25)
    assert np.array_equal(histogram.weights, plain / 4)
    assert (histogram.cells, histogram.total) == (24, pytest.approx(plain.sum(dtype=np.float64) / 4))


def test_the_same_changes_give_the_same_bits_with_other_memory():
    """Nothing depends on where the weights lie, or on what the room for factors held before."""
    flags = [rows_and(irregular(1024, seed), irregular(1024, seed + 1)) for seed in range(4)]
    first, second = PublicHistogram(1024, 1024), PublicHistogram(1, 1024 * 1024)
    second.multiply(single(rows_and(HALF, irregular(1024, 9))), 1.0)
    for turn, cells in enumerate(map(single, flags)):
        first.multiply(cells, 1.1 + turn)
        second.multiply(cells, 1.1 + turn)
    assert first.weights.tobytes() == second.weights.tobytes()


@pytest.mark.parametrize(("changes", "growth"), [(60, 0), (3000, 7)])
def test_many_contradictory_changes_stay_near_exact_ones(changes, growth):
    """Single precision neither overflows nor drifts: against longdouble weights that are normed after each change."""
    random, size = np.random.default_rng(6), 1000
    weights = WeightVector(MultiplicativeWeights("0.05"), 8, 32, size)
    exact = np.full((8, 32), 1 / 256, np.longdouble)
    for _ in range(changes):
        cells = single(np.logical_or.outer(random.random(8) < 0.3, random.random(32) < 0.3))
        size += growth
        kept = weights.rule.kept(weights.size, size)
        change = weights.change("", cells, size, random.choice([0.001, 0.999]), 0.01)
        weights.apply(change, cells)
        exact = (kept * exact + (1 - kept) / 256) * np.where(cells.flags, np.longdouble(change.factor), 1)
        exact /= exact.sum()
    assert np.isfinite(weights.histogram.weights).all()
    assert weights.histogram.shares() == pytest.approx(exact.ravel().astype(float), rel=1e-3, abs=1e-5)
