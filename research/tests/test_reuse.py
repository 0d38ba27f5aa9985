"""Nobody overfits to a holdout that is reusable, and everybody to one that is not."""

import math

import pytest

from chary import Budget
from chary_research.reuse import random_labels


@pytest.fixture(scope="module")
def overfitted():
    return random_labels(rows=1500, variables=150, chosen=[5, 75], budget=Budget(4, "1e-6"), tolerance="0.1")


def test_a_reused_holdout_overfits_and_a_reusable_one_does_not(overfitted):
    naive, kept = overfitted.naive[-1], overfitted.reusable[-1]
    assert naive.holdout > 0.5 + 4 * 0.5 / math.sqrt(1500)
    assert kept.training > 0.57
    assert abs(kept.holdout - 0.5) < 0.06
    for each in (*overfitted.naive, *overfitted.reusable):
        assert abs(each.fresh - 0.5) < 5 * 0.5 / math.sqrt(15000)
    assert overfitted.asked == 152
    assert 1 <= overfitted.disagreements <= 4
    assert 0 < overfitted.share < 1


def test_variables_that_predict_are_found():
    found = random_labels(
        rows=1500,
        variables=100,
        chosen=[10],
        budget=Budget(4, "1e-6"),
        tolerance="0.1",
        informative=10,
        agreement="0.6",
    )
    for each in (found.naive[0], found.reusable[0]):
        assert each.fresh > 0.65
        assert abs(each.holdout - each.fresh) < 0.1
