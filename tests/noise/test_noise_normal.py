"""Real normal deviates: their law, the exact decisions behind it, and that a number never changes once it is drawn."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from scipy import integrate, stats

from chary.errors import InvalidParameter
from chary.noise import Deviate, OperatingSystem, Seeded, deviate, normals, reaches
from chary.noise import gaussian as module
from chary.noise.gaussian import accepts

from .helpers import ALPHA, Scripted, ball, p_value, spread

CELLS = 64
WRONG = (1.03, 0.97)


def law_holds(found, edges, scale=1.0):
    """The p-value of deviates against the normal law of this scale, in cells of 1/64."""
    cells = np.floor(np.asarray(found) * CELLS).astype(np.int64)
    return p_value(cells, lambda k: stats.norm.cdf(k / (CELLS * scale)), edges)


@pytest.mark.statistical
def test_many_deviates_follow_the_normal_law():
    found = normals(Seeded(1), 200_000).near()
    assert law_holds(found, spread(CELLS)) > ALPHA
    assert max(law_holds(found, spread(CELLS), wrong) for wrong in WRONG) < ALPHA


@pytest.mark.statistical
def test_single_deviates_follow_the_normal_law():
    source = Seeded(2)
    found = [float(deviate(source)) for _ in range(15_000)]
    edges = np.arange(-200, 201, 10)
    assert law_holds(found, edges) > ALPHA
    assert max(law_holds(found, edges, wrong) for wrong in (1.08, 0.92)) < ALPHA


@pytest.mark.statistical
def test_the_law_is_the_same_where_every_proposal_is_settled_exactly(monkeypatch):
    monkeypatch.setattr(module, "NORMAL_MARGIN", 2.0)
    drawn = normals(Seeded(3), 4000)
    assert len(drawn.longer) > 100
    for position, late in drawn.longer.items():
        assert late.floor >> (late.bits - 31) == drawn.floors[position]
        assert drawn.one(position) is late
    edges = np.arange(-200, 201, 40)
    assert law_holds(drawn.near(), edges) > ALPHA
    assert max(law_holds(drawn.near(), edges, wrong) for wrong in (1.2, 0.8)) < ALPHA


@pytest.mark.statistical
def test_bits_drawn_later_are_fair():
    source = Seeded(4)
    found = [deviate(source).refined(source) for _ in range(4000)]
    for shift in (0, 31, 63):
        ones = sum(z.floor >> shift & 1 for z in found)
        assert stats.binomtest(ones, len(found), 0.5).pvalue > ALPHA


def chance(whole, part):
    """Interval arithmetic around the probability to accept k + x."""
    x = ball(part)
    return (-(arb(whole * (whole - 1)) + x * (2 * whole + x)) / 2).exp()


@pytest.mark.parametrize("whole", [0, 1, 2, 5])
@pytest.mark.parametrize("bits", [1, 3])
def test_a_decision_on_short_prefixes_holds_for_all_numbers_that_begin_so(whole, bits):
    for first in range(1 << bits):
        known = Deviate(whole << bits | first, bits)
        most, least = (chance(whole, Fraction(first + step, 1 << bits)) for step in (0, 1))
        for word in range(16):
            low, high = arb(word) / 16, arb(word + 1) / 16
            expected = True if high <= least else False if low >= most else None
            assert accepts(known, word, 4) is expected, (whole, first, word)


@pytest.mark.parametrize("whole", [0, 1, 2])
def test_what_is_decided_adds_up_to_the_normal_density(whole):
    bits = 6
    for first in (0, 17, 63):
        edges = [first / 64, (first + 1) / 64]
        exact = integrate.quad(lambda x: float(chance(whole, Fraction(x))), *edges)[0]
        found = [accepts(Deviate(whole << bits | first, bits), word, 12) for word in range(4096)]
        assert found.count(True) / 2**18 <= exact <= (4096 - found.count(False)) / 2**18
        assert found.count(None) < 4096 * (whole + 1) / 64 + 2


def test_the_rounded_decisions_are_never_against_the_exact_ones():
    rng = np.random.default_rng(5)
    wholes = rng.integers(0, 6, 3000)
    words = rng.integers(0, 2**64, 3000, dtype=np.uint64)
    fractions = (words >> np.uint64(33)).astype(np.int64)
    accepted, open_ = module._decided(wholes, fractions, words)
    assert not (accepted & open_).any()
    assert open_.sum() < 3
    for k, whole in enumerate(wholes.tolist()):
        exact = accepts(Deviate(whole << 31 | int(fractions[k]), 31), int(words[k]) & 0xFFFFFFFF, 32)
        assert open_[k] or exact is bool(accepted[k])
        single = module._judged(OperatingSystem(), whole, int(words[k]))
        assert open_[k] or (single is not None) is exact


@pytest.mark.parametrize("more", [0, 2**64 - 1])
def test_next_to_the_boundary_more_bits_decide(more):
    whole, fraction = 1, 12345678
    boundary = int((chance(whole, Fraction(2 * fraction + 1, 2**32)) * 2**32).floor().unique_fmpz())
    far = [module._judged(Scripted([]), whole, fraction << 33 | boundary + step) for step in (-9, 9)]
    assert far == [Deviate(2**31 | fraction, 31), None]
    source = Scripted([0, more])
    near = module._judged(source, whole, fraction << 33 | 1 << 32 | boundary)
    assert source.asked[:2] == [64, 64]
    if near is not None:
        assert ~near.floor >> (near.bits - 31) == 2**31 | fraction
    exact = accepts(Deviate((2**31 | fraction) << 64, 95), boundary << 64 | more, 96)
    assert exact is (near is not None)


def test_a_number_is_the_same_after_it_was_stored_and_read():
    source = Seeded(6)
    first = deviate(source).refined(source)
    for kept in (pickle.loads(pickle.dumps(first)), copy.deepcopy(first), Deviate(first.floor, first.bits)):
        assert kept == first
        again = kept.refined(source)
        assert again.floor >> 64 == first.floor
        assert again.bits == first.bits + 64
        assert float(again) == pytest.approx(float(first), abs=2.0**-90)


def test_reaches_decides_as_all_bits_would():
    rng = np.random.default_rng(7)
    for _ in range(300):
        scales = [Fraction(int(n), 7) * sign for n, sign in zip(rng.integers(1, 9, 2), (1, -1), strict=True)]
        short = [Deviate(int(rng.integers(-12, 12)), 2) for _ in scales]
        words = [int(word) for word in rng.integers(0, 2**64, 4, dtype=np.uint64)]
        full = [
            d.refined(Scripted([w])).refined(Scripted([v])) for d, w, v in zip(short, words[:2], words[2:], strict=True)
        ]
        whole = sum(scale * Fraction(d.floor, 1 << d.bits) for scale, d in zip(scales, full, strict=True))
        offset = Fraction(int(rng.integers(-20, 20)), 11)
        found = reaches(Scripted(words), offset, list(zip(scales, short, strict=True)))
        assert found.reached is bool(offset + whole >= 0)
        for now, before in zip(found.deviates, short, strict=True):
            assert now.floor >> (now.bits - before.bits) == before.floor


def test_a_tie_of_all_known_bits_is_settled_by_more():
    for words, reached in (([9, 4], True), ([4, 9], False), ([5, 5, 3, 2], True)):
        source = Scripted(words)
        same = Deviate(77, 31)
        found = reaches(source, Fraction(0), [(Fraction(3), same), (Fraction(-3), same)])
        assert found.reached is reached
        assert len(source.asked) == len(words)
        assert [z.bits for z in found.deviates] == [31 + 32 * len(words)] * 2


def test_offsets_beyond_any_float_are_decided():
    z = Deviate(0, 31)
    assert reaches(Scripted([]), Fraction(10**400), [(Fraction(1), z)]).reached
    assert not reaches(Scripted([]), Fraction(-(10**400)), [(Fraction(1), z)]).reached
    assert reaches(Scripted([1]), Fraction(-1, 2**95), [(Fraction(1), Deviate(0, 31))]).reached
    assert not reaches(Scripted([1]), Fraction(-2, 2**95), [(Fraction(1), Deviate(0, 31))]).reached


def test_the_same_seed_gives_the_same_deviates():
    assert (normals(Seeded(8), 500).floors == normals(Seeded(8), 500).floors).all()
    assert [deviate(Seeded(8)) for _ in range(2)] == [deviate(Seeded(8))] * 2


@pytest.mark.parametrize("size", [0, 1, 2, 63, 64, 65, 40_000])
def test_every_size_is_filled(size):
    drawn = normals(OperatingSystem(), size)
    assert drawn.near().shape == (size,)
    assert np.abs(drawn.near()).max(initial=0) < 40


def test_wrong_sizes_are_refused():
    for wrong in (-1, 1.5, True):
        with pytest.raises(InvalidParameter):
            normals(OperatingSystem(), wrong)


def test_nothing_shows_a_deviate():
    z = Deviate(123456789, 31)
    assert "123" not in repr(z)
    assert "123" not in str(reaches(Scripted([]), Fraction(9), [(Fraction(1), z)]))
    assert repr(normals(OperatingSystem(), 3)) == "Normals(3, <secret>)"
