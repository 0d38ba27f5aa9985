"""Parameters at and beyond the ends of their domain, and the extreme scales."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.noise import (
    Enclosure,
    OperatingSystem,
    Seeded,
    bernoulli,
    discrete_gaussian,
    discrete_laplace,
    geometric,
    uniform_integers,
)
from chary.noise.laplace import Ladder

from .helpers import Scripted

SMALLEST, LARGEST = Fraction(1, 2**10), Fraction(2**40)
DRAWS: list[Callable[[Any], NDArray[Any]]] = [
    lambda size: geometric(OperatingSystem(), Fraction(3), size),
    lambda size: discrete_laplace(OperatingSystem(), Fraction(3), size),
    lambda size: discrete_gaussian(OperatingSystem(), Fraction(3), size),
    lambda size: uniform_integers(OperatingSystem(), 3, size),
    lambda size: bernoulli(OperatingSystem(), Enclosure.rational("1/3"), size),
]


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("size", [0, 1, 2, 64, 65, 40_000, np.int64(3)])
def test_draws_have_the_asked_size_and_type(draw: Callable[[Any], NDArray[Any]], size: int) -> None:
    drawn = draw(size)
    assert drawn.shape == (size,)
    assert drawn.dtype in (np.int64, np.bool_)
    assert drawn.flags.writeable


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("size", [-1, 1.0, True, None, (2, 2)])
def test_other_sizes_are_refused(draw: Callable[[Any], NDArray[Any]], size: object) -> None:
    with pytest.raises(InvalidParameter):
        draw(size)


OUTSIDE = [0, -1, SMALLEST - Fraction(1, 2**60), LARGEST + Fraction(1, 3), float("nan"), float("inf"), True, "ten"]


@pytest.mark.parametrize("sampler", [geometric, discrete_laplace])
@pytest.mark.parametrize("scale", OUTSIDE)
def test_scales_outside_the_domain_are_refused(sampler: Callable[..., Any], scale: object) -> None:
    with pytest.raises(InvalidParameter):
        sampler(OperatingSystem(), scale, 1)


@pytest.mark.parametrize("variance", [0, -1, SMALLEST**2 / 2, LARGEST**2 + 1, float("nan"), True])
def test_variances_outside_the_domain_are_refused(variance: Any) -> None:
    with pytest.raises(InvalidParameter):
        discrete_gaussian(OperatingSystem(), variance, 1)


@pytest.mark.parametrize("upper", [0, -1, 2**62 + 1, 2.0, True])
def test_uppers_outside_the_domain_are_refused(upper: Any) -> None:
    with pytest.raises(InvalidParameter):
        uniform_integers(OperatingSystem(), upper, 1)


@pytest.mark.parametrize("size", [50, 100_000])
def test_the_smallest_scale_gives_zeros(size: int) -> None:
    for samples in (
        geometric(Seeded(1), SMALLEST, size),
        discrete_laplace(Seeded(1), SMALLEST, size),
        discrete_gaussian(Seeded(1), SMALLEST**2, size),
    ):
        assert not samples.any()


def test_a_probability_of_exp_minus_1024_is_reached_by_its_own_words_only() -> None:
    """`1 - exp(-1024)` begins with 1,477 ones; 23 words of ones leave a tie, which the 24th settles."""
    ones = 2**64 - 1
    assert geometric(Scripted([ones] * 24), SMALLEST, 1).tolist() == [1]
    assert geometric(Scripted([ones] * 23 + [0]), SMALLEST, 1).tolist() == [0]


@pytest.mark.parametrize("size", [60, 100_000])
def test_the_largest_scale_reaches_far_and_to_both_sides(size: int) -> None:
    scale = int(LARGEST)
    for samples in (
        discrete_laplace(Seeded(1), LARGEST, size),
        discrete_gaussian(Seeded(1), LARGEST**2, size),
    ):
        assert samples.min() < -scale < scale < samples.max()
        assert np.abs(samples).max() < 40 * scale
        assert np.unique(samples).size == size


def test_the_top_starts_afresh_from_where_it_is_cut_off() -> None:
    """At scale 1 the top is cut off at 11, which the largest word reaches; the next words say how far it goes on."""
    ones = 2**64 - 1
    assert geometric(Scripted([ones, 0]), Fraction(1), 1).tolist() == [11]
    assert geometric(Scripted([ones, ones, ones, 2**63 + 2**62]), Fraction(1), 1).tolist() == [34]
    cells = Scripted([2**16 - 2] + [0] * 79 + [ones, ones, 0])
    assert geometric(cells, Fraction(1), 80).tolist() == [22] + [0] * 79


def test_no_value_leaves_64_bits_short_of_more_than_two_to_the_22_nats() -> None:
    ladder = Ladder(2 * LARGEST, signed=True)
    assert Fraction(2**63) / (2 * LARGEST) >= 2**22
    assert ladder.draw(Seeded(1), 1000).dtype == np.int64
