"""Classes of cells, laws with big weights and the draws behind small databases: exact at any size."""

from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from flint import arb, ctx

from chary.errors import InvalidParameter
from chary.mechanisms import small_database as small_database_classes
from chary.mechanisms.small_database import Classes, WeightedLaw, evenly, multiset
from tests.noise.helpers import Scripted, leading_bits, split


def test_classes_hold_what_the_cells_satisfy():
    queries = np.random.default_rng(1).random((6, 500)) < 0.4
    classes = Classes.of(500, queries)
    assert np.array_equal(queries, classes.holds[classes.labels].T)
    assert len({tuple(row) for row in classes.holds.tolist()}) == len(classes.holds) == len(classes.sizes)
    assert sum(classes.sizes) == 500
    assert min(classes.sizes) > 0


def test_weighted_laws_are_exact_at_any_weights():
    copies = [1, 2**200, 3]
    found = WeightedLaw([0, 700, 1000], "1/5", copies).probabilities()
    with ctx.workprec(2000):
        each = [arb(number) * (-arb(gap) / 5).exp() for number, gap in zip(copies, (0, 700, 1000), strict=True)]
        known = [float(one / sum(each)) for one in each]
    assert found == pytest.approx(known, rel=1e-15, abs=2.0**-120)
    assert known[0] > 0.4
    assert known[1] > 0.01


@pytest.mark.parametrize("bits", [64, 128])
def test_a_word_on_a_cut_point_of_a_weighted_law_is_settled_by_more_words(bits):
    law = WeightedLaw([0, 3], 1, [2, 5])
    cut = leading_bits(lambda: 2 / (2 + 5 * (-arb(3)).exp()), bits)
    words = split(cut, bits // 64)
    assert law.draw(Scripted([*words[:-1], words[-1] - 1])) == 0
    assert law.draw(Scripted([*words[:-1], words[-1] + 1])) == 1


def misses(law):
    """By how much each float of a cut point misses it, and the error that is told."""
    points, error = law.near()
    pairs = zip(points.tolist(), law.cuts(512), strict=True)
    return [max(abs(Fraction(point) - Fraction(end, 2**512)) for end in cut) for point, cut in pairs], error


@pytest.mark.parametrize("copies", [[1, 1, 1], [2, 5, 1], [1, 2**300, 3**200], [3**40, 1, 2**61 - 1]])
@pytest.mark.parametrize("outcomes", [1, 3, 300])
def test_cut_points_are_within_the_error_that_is_told(copies, outcomes):
    law = WeightedLaw([place * place for place in range(outcomes)], "1/7000", (copies * outcomes)[:outcomes])
    off, error = misses(law)
    assert len(off) == outcomes - 1
    assert max(off, default=0) <= Fraction(error)


def test_cut_points_are_not_exact():
    off, error = misses(WeightedLaw(range(300), "1/7000", [1, 2, 3] * 100))
    assert max(off) > Fraction(error) / 3


@pytest.mark.parametrize("copies", [[1], [1, 0], [1, 2, 3]])
def test_weights_that_do_not_fit_are_refused(copies):
    with pytest.raises(InvalidParameter):
        WeightedLaw([0, 1], 1, copies)


@pytest.mark.parametrize("upper", [1, 2, 3, 2**63 + 1, 2**64, 2**130 - 1])
def test_even_draws_are_below_their_bound_and_reach_both_ends(upper):
    words = -(-(upper - 1).bit_length() // 64)
    assert evenly(Scripted([0] * words), upper) == 0
    shift = -(upper - 1).bit_length() % 64
    assert evenly(Scripted(split((upper - 1) << shift, words)), upper) == upper - 1
    if upper & (upper - 1):
        assert evenly(Scripted([*split(upper << shift, words), *[0] * words]), upper) == 0, "drawn again"


@pytest.mark.parametrize(("kinds", "size"), [(1, 3), (3, 2), (2, 4), (4, 3)])
def test_multisets_are_all_equally_likely(monkeypatch, kinds, size):
    """All ways that the even draws can come out, which are equally likely."""
    uppers = range(kinds, kinds + size)
    found = Counter()
    for drawn in product(*(range(upper) for upper in uppers)):
        scripted = iter(zip(drawn, uppers, strict=True))

        def scripted_draw(source, upper, scripted=scripted):
            value, expected = next(scripted)
            assert upper == expected
            return value

        monkeypatch.setattr(small_database_classes, "evenly", scripted_draw)
        found[tuple(multiset(None, kinds, size))] += 1
    assert set(found) == set(combinations_with_replacement(range(kinds), size))
    assert len(set(found.values())) == 1
