"""Sums of values and noise are exact, however large."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chary.errors import InvalidParameter
from chary.noise import Seeded, add, discrete_laplace

HUGE = [0, 1, -1, 2**53 + 1, 2**60 + 1, 2**63 - 1, -(2**63), 2**63, 2**80, -(2**200)]
INTEGERS = st.one_of(st.integers(-(2**64), 2**64), st.sampled_from(HUGE))
NOISE = st.integers(-(2**63), 2**63 - 1)


def array(values: list[int]) -> np.typing.NDArray[Any]:
    fits = all(-(2**63) <= value < 2**63 for value in values)
    return np.array(values, dtype=np.int64 if fits else object)


@given(st.lists(st.tuples(INTEGERS, NOISE), max_size=8))
def test_arrays_are_added_like_python_integers(pairs: list[tuple[int, int]]) -> None:
    values, noise = [value for value, _ in pairs], [term for _, term in pairs]
    total = add(array(values), np.array(noise, dtype=np.int64))
    expected = [value + term for value, term in pairs]
    assert total.tolist() == expected
    assert total.dtype == array(expected).dtype


@given(value=INTEGERS, noise=NOISE)
def test_an_integer_gives_an_integer(value: int, noise: int) -> None:
    terms: list[Any] = [noise, np.int64(noise), np.array([noise]), np.array(noise)]
    for term in terms:
        total = add(value, term)
        assert type(total) is int
        assert total == value + noise


@pytest.mark.parametrize("value", HUGE)
def test_a_huge_value_is_noised_like_zero(value: int) -> None:
    noise = discrete_laplace(Seeded(3), Fraction(10), 500)
    moved = add(array([value] * 500), noise)
    assert [total - value for total in moved.tolist()] == noise.tolist()
    assert noise.max() > 0 > noise.min()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.uint64, object])
def test_every_integer_type_is_added_exactly(dtype: type) -> None:
    largest = 2**80 if dtype is object else int(np.iinfo(dtype).max)
    values: np.typing.NDArray[Any] = np.array([[largest, 0]], dtype=dtype)
    total = add(values, np.array([[1, 2]], dtype=np.int64))
    assert total.tolist() == [[largest + 1, 2]]
    assert values.tolist() == [[largest, 0]]


def test_one_noise_term_is_added_to_every_value() -> None:
    assert add(np.array([1, 2]), 2**70).tolist() == [1 + 2**70, 2 + 2**70]
    assert add(np.array([2**70, 1], dtype=object), -1).tolist() == [2**70 - 1, 0]
    assert add(np.array([2**63], dtype=object), -1).dtype == np.int64


def test_empty_arrays_and_arrays_without_axes_keep_their_shape() -> None:
    assert add(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)).shape == (0,)
    assert add(np.array(5), np.array(6)).shape == ()
    assert add(np.array(2**63 - 1), np.array(6)).shape == ()


@pytest.mark.parametrize(
    ("values", "noise"),
    [
        (1.0, 1),
        (True, 1),
        (1, True),
        ("1", 1),
        (np.array([1.0]), 1),
        (np.array([True]), 1),
        (np.array([True], dtype=object), 1),
        (np.array([1.5], dtype=object), 1),
        (np.array(["1"]), 1),
        (np.array([1, 2]), np.array([1])),
        (np.array([[1, 2]]), np.array([1, 2])),
        (7, np.array([1, 2])),
        ([1, 2], np.array([1, 2])),
    ],
    ids=repr,
)
def test_what_is_not_an_integer_or_does_not_match_is_refused(values: Any, noise: Any) -> None:
    with pytest.raises(InvalidParameter):
        add(values, noise)


def test_no_message_shows_a_value() -> None:
    with pytest.raises(InvalidParameter) as caught:
        add(np.array([123456, 2.5], dtype=object), 1)
    assert "123456" not in str(caught.value)
    assert "2.5" not in str(caught.value)
