"""Two draws of a label: the exact law by enumeration, depths of any size."""

from fractions import Fraction
from itertools import product

import pytest
from scipy import stats

from chary.accounting import SharpTest
from chary.accounting.sharp_tests import ONE, SharpTable
from chary.accounting.sharp_widths import draw_table
from chary.mechanisms.boundaries import LabelDraws
from chary.noise import OperatingSystem, Seeded
from tests.noise.helpers import ALPHA, Scripted

TEST = SharpTest(18, "0.19295")
QUARTERS = SharpTable(TEST, 1, (0, ONE // 4, ONE // 2), 0)


def outcomes(draws, own, depth):
    """Every outcome with its chance, by all words that matter: two leading bits a draw, a byte for a label."""
    found = {}
    for words in product(range(4), (0, 1), repeat=2):
        script = []
        for lead, label in (words[:2], words[2:]):
            word = (lead << 62) + 1
            script += [word] if word < draws.table.chances[min(depth, 2)] >> 128 else [word, label]
        told = draws.step(own, depth, Scripted(script))
        found[told] = found.get(told, 0) + Fraction(1, 64)
    return found


@pytest.mark.parametrize("depth", [1, 2, 3, 10**30])
@pytest.mark.parametrize("own", [0, 1])
def test_the_law_by_all_words_that_matter(own, depth):
    draws = LabelDraws(QUARTERS, 2)
    found = outcomes(draws, own, depth)
    assert found[own] == draws.clear_chance(depth)
    assert found[1 - own] == draws.other_chance(depth)
    assert sum(found.values()) == 1


@pytest.mark.statistical
@pytest.mark.parametrize("labels", [2, 5])
def test_answers_follow_the_law_and_not_one_a_tenth_steeper(labels):
    draws, steeper = (
        LabelDraws(draw_table(SharpTest(18, Fraction("0.19295") * more), labels, 2), labels)
        for more in (1, Fraction("1.44"))
    )
    source, times = Seeded(4), 2000
    figures = {True: 0.0, False: 0.0}
    depths = range(15, 105, 15)
    for depth in depths:
        told = sum(draws.step(1, depth, source) == 1 for _ in range(times))
        for right, law in ((True, draws), (False, steeper)):
            chance = float(law.clear_chance(depth))
            figures[right] += (told - times * chance) ** 2 / (times * chance * (1 - chance))
    assert stats.chi2.sf(figures[True], len(depths)) > ALPHA
    assert stats.chi2.sf(figures[False], len(depths)) < ALPHA


def test_what_is_deep_is_told():
    draws = LabelDraws(draw_table(TEST, 7, 10**15), 7)
    assert draws.step(5, 10**30, OperatingSystem()) == 5
    assert draws.event() == TEST
