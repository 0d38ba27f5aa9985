"""Exact reading of numbers, and amounts that cannot overflow."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from chary.amounts import LIMIT, Amount, steps_down, steps_up
from chary.errors import InvalidParameter
from chary.filters import Budget
from chary.numbers import exact, plain, positive, probability, whole


@pytest.mark.parametrize("written", [0.1, "0.1", Decimal("0.1"), Fraction(1, 10), "1/10", "1e-1", np.float64(0.1)])
def test_a_tenth_is_a_tenth_however_it_is_written(written):
    assert exact(written, "epsilon") == Fraction(1, 10)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "-inf", "", "ten", "1/0", None, True, [1], 1j])
def test_what_is_no_number_is_refused_by_name(bad):
    with pytest.raises(InvalidParameter, match="epsilon"):
        exact(bad, "epsilon")


@pytest.mark.parametrize(
    "bad",
    [
        "1e400",
        "-1e308",
        "1e-400",
        10**400,
        -(10**400),
        "1e999999999",
        Decimal("1e-999999999"),
        f"1/{10**400}",
        "9" * 5000,
    ],
)
def test_numbers_beyond_all_measure_are_refused_at_once(bad):
    with pytest.raises(InvalidParameter, match="epsilon must be a finite number below 1e308") as refused:
        exact(bad, "epsilon")
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize(
    "bad", [Fraction(1, 10**400), -Fraction(10**400), Fraction(10**9000, 3), np.longdouble("1e4000"), f"0.{'0' * 400}1"]
)
def test_numbers_out_of_range_are_refused_in_every_spelling(bad):
    for check in (exact, positive, probability):
        with pytest.raises(InvalidParameter, match="no nearer to 0 than 1e-308") as refused:
            check(bad, "epsilon")
        assert len(str(refused.value)) < 120
    with pytest.raises(InvalidParameter):
        Budget(epsilon=1, delta=bad)


class Itself:
    """Reduces to itself, as a long double does."""

    def item(self):
        return self


@pytest.mark.parametrize(
    "bad", [np.array([1, 2]), np.array([]), np.array([[0.5, 0.5]]), Itself(), np.datetime64("now")]
)
@pytest.mark.parametrize("check", [exact, positive, probability, whole])
def test_what_holds_no_one_number_is_refused_by_name(check, bad):
    with pytest.raises(InvalidParameter, match="epsilon must be a"):
        check(bad, "epsilon")


@pytest.mark.parametrize("half", [np.float32("0.5"), np.array(0.5), np.array(["0.5"]), np.longdouble("0.5")])
def test_a_half_is_a_half_whatever_holds_it(half):
    assert exact(half, "epsilon") == Fraction(1, 2)


def test_a_long_float_is_read_by_its_own_shortest_form():
    assert exact(np.longdouble("0.1"), "epsilon") == Fraction(1, 10)
    with pytest.raises(InvalidParameter, match="got 'nan'"):
        exact(np.longdouble("nan"), "epsilon")


@pytest.mark.parametrize("bad", [-(10**5000), 10**5000], ids=["below", "above"])
def test_whole_numbers_of_thousands_of_digits_can_be_refused(bad):
    with pytest.raises(InvalidParameter, match="got one of 16610 bits"):
        whole(bad if bad < 0 else -bad, "hits")
    with pytest.raises(InvalidParameter, match="got one of 16610 bits"):
        exact(bad, "hits")


def test_the_largest_and_the_smallest_numbers_can_be_written_and_shown():
    for written in ("9.99e307", "1.01e-308", 10**300):
        assert plain(exact(written, "epsilon"))[0] in "19"


@pytest.mark.parametrize(
    ("check", "bad"), [(positive, 0), (positive, -1), (probability, 0), (probability, 1), (whole, 0)]
)
def test_domains(check, bad):
    with pytest.raises(InvalidParameter):
        check(bad, "it")


@pytest.mark.parametrize("bad", [1.0, True, "3", None])
def test_whole_numbers_are_integers(bad):
    with pytest.raises(InvalidParameter):
        whole(bad, "hits")


def test_small_numbers_are_never_shown_as_zero():
    assert plain(1e-300) == "1e-300"
    assert plain(Fraction(1, 10**9)) == "1e-09"


def test_amounts_are_strict_and_multiples_are_cut_off_where_nothing_fits():
    assert Amount(LIMIT // 2).times(10) == Amount(LIMIT)
    assert not Amount(steps_up(Fraction(10**40), 10)).fits_into(Amount(steps_down(Fraction(10**40), 10)))
    for bad in (-1, LIMIT + 1, 1.0, True):
        with pytest.raises(InvalidParameter):
            Amount(bad)
    with pytest.raises(InvalidParameter):
        Amount(1) - Amount(2)


@pytest.mark.parametrize("long", ["0." + "3" * 1300, "1/" + "7" * 300 + "1" * 1000, "0." + "1" * 900_000, "1" * 2700])
def test_numbers_of_too_many_digits_are_refused(long):
    with pytest.raises(InvalidParameter, match="in 1,233 digits"):
        exact(long, "epsilon")
    with pytest.raises(InvalidParameter):
        exact(Fraction(2**5000 + 1, 2**5000), "epsilon")


def test_counts_are_as_large_as_numbers_at_most():
    assert whole(10**308 - 1, "hits") == 10**308 - 1
    for many in (10**308, 10**3000):
        with pytest.raises(InvalidParameter, match="hits must be an integer below 1e308"):
            whole(many, "hits")
