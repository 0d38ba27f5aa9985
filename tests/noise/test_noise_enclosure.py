"""Enclosures are ordered, nested, tight, and hold the true value."""

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from flint import arb
from hypothesis import example, given
from hypothesis import strategies as st

from chary.errors import InvalidParameter
from chary.noise import Enclosure

from .helpers import ball, leading_bits

PRECISIONS = st.integers(min_value=0, max_value=700)
EXPONENTS = st.one_of(
    st.fractions(min_value=0, max_value=500).filter(bool),
    st.builds(Fraction, st.integers(1, 2**80), st.integers(1, 2**80)),
    st.builds(lambda power: Fraction(1, 10**power), st.integers(0, 300)),
)


@given(exponent=EXPONENTS, bits=PRECISIONS)
@example(exponent=Fraction(1024), bits=2000)
@example(exponent=Fraction(1, 10**300), bits=64)
@example(exponent=Fraction(10**40), bits=64)
def test_transcendental_probabilities_lie_between_neighbouring_integers(exponent: Fraction, bits: int) -> None:
    small = exponent > 2 * bits
    power = 0 if small else leading_bits(lambda: (-ball(exponent)).exp(), bits)
    logistic = 0 if small else leading_bits(lambda: 1 / (1 + ball(exponent).exp()), bits)
    assert Enclosure.exponential(exponent).bounds(bits) == (power, power + 1)
    assert Enclosure.logistic(exponent).bounds(bits) == (logistic, logistic + 1)


@given(probability=st.fractions(min_value=0, max_value=1), bits=PRECISIONS)
def test_rational_probabilities_are_enclosed_exactly(probability: Fraction, bits: int) -> None:
    lower, upper = Enclosure.rational(probability).bounds(bits)
    scaled = probability * 2**bits
    assert lower <= scaled <= upper
    assert upper - lower == (scaled.denominator != 1)


@given(
    exponent=EXPONENTS,
    kind=st.sampled_from([Enclosure.exponential, Enclosure.logistic, lambda x: Enclosure.rational(1 / (1 + x))]),
    coarse=PRECISIONS,
    more=PRECISIONS,
)
def test_bounds_are_ordered_and_nested(exponent: Fraction, kind: object, coarse: int, more: int) -> None:
    assert callable(kind)
    enclosure = kind(exponent)
    lower, upper = enclosure.bounds(coarse)
    finer_lower, finer_upper = enclosure.bounds(coarse + more)
    assert 0 <= lower << more <= finer_lower <= finer_upper <= upper << more <= 1 << (coarse + more)


def test_the_zero_exponent_gives_exact_probabilities() -> None:
    assert Enclosure.exponential(0) == Enclosure.rational(1)
    assert Enclosure.logistic(0) == Enclosure.rational("1/2")
    assert Enclosure.rational(0).bounds(64) == (0, 0)


def test_the_reference_would_notice_an_error_of_one_unit() -> None:
    lower, _ = Enclosure.exponential(1).bounds(300)
    assert leading_bits(lambda: (-arb(1)).exp(), 300) == lower
    assert leading_bits(lambda: (-arb(1)).exp() + arb(2) ** -299, 300) != lower


def test_the_decimal_context_of_the_caller_does_not_matter() -> None:
    expected = Enclosure.exponential("12.345").bounds(200)
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 3, 5, -5
        context.traps = dict.fromkeys(context.traps, True)
        assert Enclosure.exponential("12.345").bounds(200) == expected


def test_enclosures_made_alike_are_equal_and_hash_alike() -> None:
    same = {Enclosure.exponential("0.5"), Enclosure.exponential(Fraction(1, 2)), Enclosure.exponential(Decimal("0.5"))}
    assert len(same) == 1
    assert Enclosure.logistic("0.5") not in same


@pytest.mark.parametrize("make", [Enclosure.rational, Enclosure.exponential, Enclosure.logistic])
@pytest.mark.parametrize("value", [-1, "-1/10", float("nan"), float("inf"), True, None])
def test_values_outside_the_domain_are_refused(make: object, value: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidParameter):
        make(value)


def test_probabilities_above_one_and_negative_precisions_are_refused() -> None:
    with pytest.raises(InvalidParameter):
        Enclosure.rational("1.1")
    with pytest.raises(InvalidParameter):
        Enclosure.rational("0.5").bounds(-1)
