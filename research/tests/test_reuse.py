"""Nobody overfits to a holdout that is reusable, and everybody to one that is not."""

import math

import pytest

from chary import Budget, InvalidParameter
from chary_research.reuse import Overfitting, Reused, draw_reuse, random_labels


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


def test_the_picture(overfitted, tmp_path):
    for ending in ("png", "svg"):
        draw_reuse(overfitted, tmp_path / f"reuse.{ending}")
    assert "reusable holdout" in (tmp_path / "reuse.svg").read_text()
    assert isinstance(overfitted, Overfitting)
    assert isinstance(overfitted.naive[0], Reused)
    for wrong in (lambda: draw_reuse([], tmp_path / "a.png"), lambda: draw_reuse(overfitted, tmp_path / "a.txt")):
        with pytest.raises(InvalidParameter):
            wrong()
