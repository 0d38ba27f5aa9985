"""Decimals of astronomical size: told as what they are below or above, or refused; never made a rational."""

from decimal import Decimal
from fractions import Fraction

import pytest

from chary.accounting.numerics import GUARD, precise, rounded_down, rounded_up, upper
from chary.calls import SparseVector
from chary.errors import InvalidParameter
from tests.session.kit import sessions, visits

TINY, HUGE = Decimal("1e-999999999"), Decimal("1e999999999")


def test_tiny_results_are_rounded_up_to_a_short_number():
    with precise():
        assert rounded_up(TINY) == Fraction(1, 10**1000)
        assert GUARD < upper(TINY) < 2 * GUARD
        assert rounded_up(Decimal(0)) == rounded_down(Decimal(0)) == 0


@pytest.mark.parametrize(("round_", "value"), [(rounded_up, HUGE), (rounded_down, HUGE), (rounded_down, TINY)])
def test_what_no_short_number_bounds_is_refused(round_, value):
    with precise(), pytest.raises(InvalidParameter, match="too far apart"):
        round_(value)


@pytest.mark.parametrize("wrong", [lambda: Decimal("1e999999") ** 10**17, lambda: 1 / Decimal(0)])
def test_what_leaves_the_range_of_decimals_is_refused(wrong):
    with pytest.raises(InvalidParameter, match="too large or too small"), precise():
        wrong()


@pytest.mark.parametrize("said", [{"above": 10**18, "epsilon": "1/100"}, {"above": 51, "epsilon": 1e9}])
def test_a_sparse_vector_far_from_its_threshold_is_quoted(said):
    with sessions(privacy_unit="patient") as opened:
        quoted = opened(visits()).quote(SparseVector(**said, hits=2, monotone=True, values=True))
    assert quoted.outlook is not None
