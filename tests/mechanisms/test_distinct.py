"""The sketch: where elements go, phantoms, merging, estimates and their error."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats

from chary.errors import InvalidParameter
from chary.mechanisms import Distinct, Phantoms
from chary.mechanisms.sketches import RegisterLaw, drawn, place, power_bounds, raised
from chary.noise import OperatingSystem, Seeded
from tests.mechanisms.sketch_laws import register
from tests.noise.helpers import ALPHA, p_value

SMALL = Distinct(1, registers=16)


def random_words(seed, size):
    return Seeded(seed).words(size, 64)


@pytest.mark.parametrize("count", [16, 1024, 2**16])
def test_first_bits_choose_the_register_and_the_others_the_value(count):
    width = 65 - count.bit_length()
    zeros = [1 << bit for bit in range(width)] + [0, (1 << width) - 1]
    chosen = [(position << width) | rest for rest in zeros for position in (0, 1, count - 1)]
    words = np.array(chosen + random_words(1, 500).tolist(), dtype=np.uint64)
    for word, position, value in zip(words.tolist(), *place(words, count), strict=True):
        bits = f"{word:064b}"
        tail = bits[64 - width :]
        assert position == int(bits[: 64 - width], 2)
        assert value == width - len(tail.rstrip("0")) + 1


def test_values_halve_exactly():
    """Over all words of ten free bits: half have value 1, a quarter value 2, and so on."""
    words = np.arange(1024, dtype=np.uint64) | np.uint64(1 << 10)
    counts = np.bincount(place(words, 16)[1])
    assert counts.tolist() == [0, *(2**k for k in range(9, -1, -1)), 1]


@pytest.mark.parametrize("words", [[1], np.array([1]), np.array([[1]], dtype=np.uint64), np.array([0.5])])
def test_words_are_an_array_of_64_unsigned_bits(words):
    with pytest.raises(InvalidParameter):
        SMALL.start(Seeded(1)).update(np.asarray(words))


def test_registers_are_the_largest_values_in_any_order_and_never_fall():
    words = random_words(2, 3000)
    start = SMALL.start(Seeded(3))
    expected = list(start.registers)
    for position, value in zip(*(part.tolist() for part in place(words, 16)), strict=True):
        expected[position] = max(expected[position], value)
    whole = start.update(words)
    assert list(whole.registers) == expected
    assert whole == start.update(words[2000:]).update(words[:2500]) == whole.update(words)
    assert whole.update(words[:0]) == whole


@pytest.mark.parametrize(("level", "exponent"), [(1, 1), (1, 10), (2, 7), (5, 1000), (1, 1000), (48, 10**15), (60, 3)])
@pytest.mark.parametrize("bits", [16, 64, 128])
def test_the_law_of_phantoms_is_enclosed(level, exponent, bits):
    lower, upper = power_bounds(level, exponent, bits)
    assert 0 <= lower <= upper <= min(lower + 2, 2**bits)
    if exponent <= 1000:
        assert lower <= (1 - Fraction(1, 2**level)) ** exponent * 2**bits <= upper


@pytest.mark.statistical
def test_phantoms_are_drawn_by_their_law():
    def cdf(phantoms):
        law = register(phantoms, 3, 45)
        return np.vectorize(lambda k: float(sum(mass for value, mass in law.items() if value < k)))

    samples = drawn(RegisterLaw(30, 3, 45), Seeded(4), 100_000).astype(np.int64)
    edges = np.arange(4, 14)
    assert p_value(samples, cdf(30), edges) > ALPHA
    assert max(p_value(samples, cdf(20), edges), p_value(samples, cdf(45), edges)) < ALPHA


def test_a_start_has_a_key_and_phantoms_of_its_own():
    one, other = (Distinct(1, registers=1024).start(OperatingSystem()) for _ in range(2))
    assert one.key != other.key
    assert one.registers != other.registers
    assert not one.veils & other.veils


def shards(distinct=SMALL):
    source = Seeded(5)
    first = distinct.start(source)
    parts = [first, first.fork(source), first.fork(source).veil(source)]
    return [part.update(random_words(seed, 200)) for seed, part in enumerate(parts)]


def test_merging_is_a_semilattice():
    a, b, c = shards()
    assert a.merge(b) == b.merge(a)
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert a.merge(a) == a
    assert a.merge(b).merge(b) == a.merge(b)
    assert len(a.merge(b).merge(c).veils) == 4


def test_a_merged_sketch_holds_the_elements_of_both():
    a, b, _ = shards()
    words = random_words(6, 400)
    assert a.update(words[:300]).merge(b.update(words[200:])) == a.merge(b).update(words)


@pytest.mark.parametrize(
    "other", [SMALL.start(Seeded(6)), Distinct(2, 16).start(Seeded(5)), Distinct(1, 32).start(Seeded(5))]
)
def test_only_sketches_of_one_origin_merge(other):
    first = SMALL.start(Seeded(5))
    with pytest.raises(InvalidParameter) as refusal:
        first.merge(other)
    assert first.key not in str(refusal.value)


def test_a_veil_only_raises():
    before = SMALL.start(Seeded(7)).update(random_words(8, 50))
    after = before.veil(Seeded(9))
    assert len(after.veils) == 2
    assert (np.frombuffer(after.registers, np.uint8) >= np.frombuffer(before.registers, np.uint8)).all()
    assert after.registers != before.registers


def test_a_sketch_shows_nothing_and_survives_the_ledger():
    sketch = shards()[2]
    again = Phantoms.load(sketch.dump())
    assert again == sketch
    assert again.distinct.epsilon == Fraction(1)
    for shown in (repr(sketch), str(sketch), f"{sketch}"):
        assert sketch.key not in shown
        assert sketch.registers.hex() not in shown
        assert "veils=2" in shown


@pytest.mark.parametrize("change", [{2: "0" * 63}, {3: []}, {4: "00" * 16}, {4: "05" * 15}, {4: "ff" * 16}, {1: 32}])
def test_a_damaged_state_is_refused(change):
    state = json.loads(SMALL.start(Seeded(1)).dump())
    for place_, value in change.items():
        state[place_] = value
    with pytest.raises(InvalidParameter):
        Phantoms.load(json.dumps(state).encode())


def brute(law, counts):
    """The most likely rate, by minimising the negative log-likelihood."""

    def cost(log_rate):
        rate = math.exp(log_rate)
        cumulative = [math.exp(-rate * 2.0**-k) * (1 - 2.0**-k) ** law.phantoms for k in range(law.least, law.most)]
        masses = np.diff([0.0, *cumulative, 1.0])
        return -sum(c * math.log(mass) for c, mass in zip(counts, masses, strict=True) if c)

    return math.exp(optimize.minimize_scalar(cost, bounds=(-5, 15), method="bounded", options={"xatol": 1e-10}).x)


@pytest.mark.parametrize("law", [RegisterLaw(0, 0, 20), RegisterLaw(3, 1, 20), RegisterLaw(10, 4, 20)])
@pytest.mark.parametrize("levels", [(5, 6, 6, 7, 9, 12), (5, 5, 8), (7,), (6, 20, 20), (4, 13)])
def test_an_estimate_is_the_most_likely_number(law, levels):
    counts = law.counts(np.array(levels, dtype=np.uint8))
    assert law.most_likely(counts) == pytest.approx(brute(law, counts), rel=1e-5)


@pytest.mark.parametrize("law", [RegisterLaw(0, 0, 61), RegisterLaw(1, 1, 49), RegisterLaw(10, 4, 55)])
def test_an_estimate_never_falls_when_a_register_rises(law):
    generator = np.random.default_rng(10)
    for _ in range(40):
        registers = np.clip(generator.geometric(0.5, 16) + generator.integers(0, 60), law.least, law.most)
        values = [law.most_likely(law.counts(registers.astype(np.uint8)))]
        for position in generator.integers(0, 16, 5):
            registers[position] = min(registers[position] + generator.integers(1, 4), law.most)
            values.append(law.most_likely(law.counts(registers.astype(np.uint8))))
        assert values == sorted(values)


@pytest.mark.parametrize("law", [RegisterLaw(0, 0, 61), RegisterLaw(1, 1, 61), RegisterLaw(10**15, 48, 61)])
@pytest.mark.parametrize("rate", [2.0**-40, 1e-3, 1.0, 30.0, 1e6, 2.0**61])
def test_scores_are_those_of_the_law(law, rate):
    scores, masses = law.scores(rate), law.probabilities(rate)
    assert masses.sum() == pytest.approx(1)
    assert (np.diff(scores) >= 0).all()
    assert (masses * scores).sum() == pytest.approx(0, abs=1e-6 * (masses * np.abs(scores)).sum() + 1e-25)


def test_the_ends_of_the_scale():
    bottom = SMALL.start(Seeded(1))
    low = Phantoms(SMALL, bottom.key, bottom.veils, bytes([SMALL.least] * 16))
    high = Phantoms(SMALL, bottom.key, bottom.veils, bytes([61] * 16))
    assert low.estimate() == 0
    assert high.estimate() == 16 * 2.0**62


def errors(distinct, n, repeats, veils=1, seed=11):
    """Estimates minus n over many sketches, in standard deviations as promised."""
    source = Seeded(seed)
    deviation = distinct.error_bar(n, veils=veils, confidence=0.5) / stats.norm.ppf(0.75)
    found = []
    for _ in range(repeats):
        sketch = distinct.start(source)
        for _ in range(veils - 1):
            sketch = sketch.veil(source)
        found.append((sketch.update(source.words(n, 64)).estimate() - n) / deviation)
    return np.array(found)


def spread_p_values(scaled):
    """Two-sided p-values of the mean (0) and of the sum of squares (1 each), for errors in standard deviations."""
    centre = 2 * stats.norm.sf(abs(scaled.mean()) * math.sqrt(len(scaled)))
    squares = stats.chi2.cdf((scaled**2).sum(), len(scaled))
    return centre, 2 * min(squares, 1 - squares)


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "n", "veils"), [("0.5", 20_000, 1), ("0.1", 8_000, 1), ("1", 8_000, 5)])
def test_errors_are_as_large_as_promised(epsilon, n, veils):
    scaled = errors(Distinct(epsilon, registers=256), n, 400, veils)
    assert min(spread_p_values(scaled)) > ALPHA
    assert max(min(spread_p_values(scaled * factor)) for factor in (2 / 3, 3 / 2)) < ALPHA


@pytest.mark.statistical
def test_phantoms_must_be_counted_once_for_each_veil():
    distinct = Distinct(1, registers=256)
    source, found = Seeded(12), []
    for _ in range(100):
        sketch = distinct.start(source)
        veiled = sketch.veil(source).veil(source).update(source.words(300, 64))
        forgetful = Phantoms(distinct, sketch.key, sketch.veils, veiled.registers)
        found.append(forgetful.estimate() - 300)
    assert np.mean(found) / (np.std(found) / 10) > 20


@pytest.mark.parametrize(("epsilon", "n"), [("0.1", 100_000), ("0.5", 10**6), ("2", 10**9)])
def test_the_relative_error_is_that_of_the_literature(epsilon, n):
    distinct = Distinct(epsilon, registers=1024)
    deviation = distinct.error_bar(n, confidence=0.5) / stats.norm.ppf(0.75)
    together = n + 1024 * distinct.phantoms
    assert deviation == pytest.approx(1.04 / math.sqrt(1024) * together, rel=0.03)


def test_error_bars_grow_with_the_confidence_the_veils_and_the_number():
    distinct = Distinct(1, registers=64)
    bars = [distinct.error_bar(1000, confidence=c) for c in (0.5, 0.9, 0.99)]
    bars += [distinct.error_bar(1000, veils=9, confidence=0.99), distinct.error_bar(5000, veils=9, confidence=0.99)]
    assert bars == sorted(set(bars))
    assert distinct.error_bar(0) > 0
    for wrong in ({"n": -1}, {"n": 5, "veils": 0}, {"n": 5, "confidence": 1}):
        with pytest.raises(InvalidParameter):
            distinct.error_bar(**wrong)


def test_elements_count_once_whatever_their_number():
    sketch = Distinct(2, registers=4096).start(Seeded(13)).add(np.repeat(np.arange(10_000), 3))
    assert abs(sketch.estimate() - 10_000) < Distinct(2, registers=4096).error_bar(10_000, confidence=1 - 1e-6)


@pytest.mark.statistical
def test_registers_are_chosen_evenly():
    positions, values = place(random_words(14, 200_000), 16)
    table = np.array([np.bincount(positions[values == v], minlength=16) for v in (1, 2, 3)])
    shares = np.repeat([4, 2, 1], 16) / (7 * 16)
    assert stats.chisquare(table.ravel(), shares * table.sum())[1] > ALPHA


def test_raising_leaves_the_given_registers_alone():
    registers = np.zeros(16, dtype=np.uint8)
    raised(registers, random_words(15, 100))
    assert not registers.any()
