"""Exactness by scripted words: each cut point of each law is where interval arithmetic says, to 128 bits and beyond."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from flint import arb
from hypothesis import example, given
from hypothesis import strategies as st

from chary.noise import Enclosure, bernoulli, discrete_gaussian, discrete_laplace, geometric, uniform_integers
from chary.noise.gaussian import LARGEST_EXPONENT, MARGIN, Proposal
from chary.noise.partition import SCALAR_SIZE

from .helpers import Scripted, ball, leading_bits, split

SCALES = [
    Fraction(1, 3),
    Fraction(10),
    Fraction("17.3"),
    Fraction(50),
    Fraction(1000),
    Fraction(2**20),
    Fraction(2**40),
]


class ByWidth:
    """Zeros, but for the `index`-th request of 16-bit words and the 64-bit words of its only open nonzero cell."""

    def __init__(self, index: int, cells: list[int], opened: list[int]) -> None:
        self._index, self._cells, self._opened = index, cells, opened
        self._requests = -1

    def words(self, count: int, bits: int) -> np.typing.NDArray[np.unsignedinteger]:
        if bits == 16:
            self._requests += 1
            return np.array(self._cells if self._requests == self._index else [0] * count, dtype=np.uint16)
        words = np.zeros(count, dtype=np.uint64)
        if self._requests == self._index and self._opened and count:
            words[self._place(count)] = self._opened.pop(0)
        return words

    def _place(self, count: int) -> int:
        """Either zeros are closed and the cell is alone, or every cell is open."""
        return 7 if count == len(self._cells) else 0


def groups_of(scale: Fraction, signed: bool) -> list[tuple[int, int]]:
    """The documented layout: (offset, digits) of each group, sevens from the bottom, a sign in place of one digit."""
    total = 0
    while scale / 2**total > 16:
        total += 1
    groups = [(0, min(total, 6 if signed else 7))]
    while sum(groups[-1]) < total:
        groups.append((sum(groups[-1]), min(7, total - sum(groups[-1]))))
    return groups if groups[0][1] or signed else groups[1:]


def share(scale: Fraction, offset: int, digits: int, outcome: int, both_signs: bool) -> arb:
    """The probability that the group's outcome is less than the given one, the negative sign coming second."""
    count = 1 << digits
    exponent = ball(Fraction(2**offset) / scale)

    def below(k: int) -> arb:
        return (1 - (-exponent * k).exp()) / (1 - (-exponent * count).exp())

    if not both_signs:
        return below(outcome)
    positive = 1 / (1 + (-exponent).exp())
    return positive * below(min(outcome, count)) + (1 - positive) * below(max(outcome - count, 0))


def group_cuts(scale: Fraction, signed: bool) -> Iterator[tuple[int, int, int, Callable[[], arb]]]:
    """(index of the group, its offset, outcome, probability of a lower outcome) of a sample of all cut points."""
    for index, (offset, digits) in enumerate(groups_of(scale, signed)):
        both_signs = signed and index == 0
        last = 2 ** (digits + both_signs)
        for outcome in {1, 2, last // 3, last // 2, last // 2 + 1, last - 1} & set(range(1, last)):
            yield (
                index,
                offset,
                outcome,
                partial(share, scale, offset, digits, outcome, both_signs),
            )


def value_of(outcome: int, offset: int, digits: int, both_signs: bool) -> int:
    negative, low = divmod(outcome, 2**digits) if both_signs else (0, outcome)
    return -1 - low if negative else low << offset


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("scale", SCALES, ids=float)
@pytest.mark.parametrize("words", [1, 2, 4])
def test_ties_of_every_group_of_digits_are_settled_where_the_cut_point_lies(
    scale: Fraction, signed: bool, words: int
) -> None:
    """The words of one group are those of a cut point, next to it at the last of `words` words; all others are 0."""
    sampler = discrete_laplace if signed else geometric
    groups = groups_of(scale, signed)
    for index, offset, outcome, cut in group_cuts(scale, signed):
        first = leading_bits(cut, 64 * words)
        for shift, expected in ((-1, outcome - 1), (1, outcome)):
            head, *tail = split(first + shift, words)
            source = Scripted([0] * index + [head] + [0] * (len(groups) - index) + tail)
            value = value_of(expected, offset, groups[index][1], signed and index == 0)
            assert sampler(source, scale, 1).tolist() == [value]
            # A cut point within 2**-18 of a word boundary ties with both neighbours.
            assert len(source.asked) - len(groups) - words in (0, 1)


def top_share(exponent: Fraction, outcome: int) -> arb:
    return 1 - (-ball(exponent) * outcome).exp()


@pytest.mark.parametrize("scale", SCALES, ids=float)
def test_ties_of_the_top_are_settled_where_the_cut_point_lies(scale: Fraction) -> None:
    groups = groups_of(scale, False)
    digits = sum(groups[-1]) if groups else 0
    exponent = Fraction(2**digits) / scale
    for outcome in {1, 2, 3}:
        first = leading_bits(partial(top_share, exponent, outcome), 128)
        for shift, expected in ((-1, outcome - 1), (1, outcome)):
            head, tail = split(first + shift, 2)
            values = geometric(Scripted([0] * len(groups) + [head, tail]), scale, 1)
            assert values.tolist() == [expected << digits]


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("scale", SCALES, ids=float)
def test_a_large_draw_settles_the_same_ties(scale: Fraction, signed: bool) -> None:
    """16 bits of the cut point, then its next 48, then 64 more; the sample in question is one among zeros."""
    sampler = discrete_laplace if signed else geometric
    size, position = SCALAR_SIZE + 20, 7
    groups = groups_of(scale, signed)
    for index, offset, outcome, cut in group_cuts(scale, signed):
        first = leading_bits(cut, 128)
        for shift, expected in ((-1, outcome - 1), (1, outcome)):
            head, tail = split(first + shift, 2)
            cells = [0] * size
            cells[position] = head >> 48
            opened = [(head & (1 << 48) - 1) << 16 | 0xABCD, tail]
            # A cell of zeros may be open too: its 64 bits are then all zero and lie below every cut point.
            source = ByWidth(index, cells, opened)
            value = value_of(expected, offset, groups[index][1], signed and index == 0)
            samples = sampler(source, scale, size)
            assert samples[position] == value
            assert np.count_nonzero(samples) == (value != 0)


@pytest.mark.parametrize("exponent", [Fraction(1, 10**6), Fraction(1, 2), Fraction(3), Fraction(40)])
@pytest.mark.parametrize("kind", ["exponential", "logistic"])
def test_bernoulli_settles_ties(kind: str, exponent: Fraction) -> None:
    probability = getattr(Enclosure, kind)(exponent)

    def true() -> arb:
        power = (-ball(exponent)).exp()
        return power if kind == "exponential" else power / (1 + power)

    for words in (1, 2, 3):
        first = leading_bits(true, 64 * words)
        below, above = split(first - 1, words), split(first + 1, words)
        assert bernoulli(Scripted(below), probability, 1).tolist() == [True]
        assert bernoulli(Scripted(above), probability, 1).tolist() == [False]


def test_bernoulli_of_a_binary_fraction_is_exact_over_all_cells() -> None:
    size = 1 << 16
    for numerator in (0, 1, 12345, 65535, 65536):
        source = Scripted(range(size))
        hits = bernoulli(source, Enclosure.rational(Fraction(numerator, size)), size)
        assert int(hits.sum()) == numerator
        assert len(source.asked) == size


def test_bernoulli_of_a_quotient_opens_only_the_cell_of_the_probability() -> None:
    size = 1 << 16
    source = Scripted(range(size))
    hits = bernoulli(source, Enclosure.rational("1/3"), size)
    assert source.asked.count(64) == 1
    assert int(hits.sum()) == size // 3 + 1


@pytest.mark.parametrize("upper", [1, 2, 3, 7, 8])
def test_uniform_integers_take_every_value_equally_often(upper: int) -> None:
    values = uniform_integers(Scripted(range(256)), upper, 256)
    kept = 256 // upper * upper
    counts = np.bincount(values, minlength=upper)
    counts[0] -= 256 - kept
    assert set(counts.tolist()) == {256 // upper}


def test_uniform_integers_draw_rejected_words_again() -> None:
    source = Scripted([255, 252, 251, 255, 13])
    assert uniform_integers(source, 7, 3).tolist() == [0, 13 % 7, 251 % 7]
    assert source.asked == [8] * 6


VARIANCES = [Fraction(1, 2**20), Fraction(1, 3), Fraction(1), Fraction("55.5"), Fraction(10**6), Fraction(2**80)]


@pytest.mark.parametrize("variance", VARIANCES, ids=float)
@pytest.mark.parametrize("deviations", [Fraction(1, 2), Fraction(1), Fraction(3)])
def test_the_gaussian_acceptance_is_decided_where_the_probability_lies(
    variance: Fraction, deviations: Fraction
) -> None:
    value = math.floor(deviations * math.isqrt(math.floor(variance)))
    exponent = acceptance_exponent(variance, value)
    first = leading_bits(lambda: (-ball(exponent)).exp(), 96)
    word, rest = divmod(first, 2**64)
    cases = [([word, rest - 1], True), ([word, rest + 1], False), ([word - 1], True)]
    cases += [([word + 1], False)] if word + 1 < 2**32 else []
    for words, expected in cases:
        for signed in (value, -value):
            source = Scripted(words)
            assert Proposal(variance).accept(source, np.array([signed])).tolist() == [expected]
            assert len(source.asked) == len(words)


def test_the_gaussian_acceptance_of_a_probability_below_any_float_is_settled_by_exact_bounds() -> None:
    proposal = Proposal(Fraction(1, 2**20))
    source = Scripted([1, 0, 0, 5])
    assert proposal.accept(source, np.array([2, 2])).tolist() == [False, False]
    assert source.asked == [32, 32, 64, 64]


def acceptance_exponent(variance: Fraction, value: int) -> Fraction:
    center = variance / (math.isqrt(math.floor(variance)) + 1)
    return (abs(value) - center) ** 2 / (2 * variance)


@given(
    variance=st.fractions(min_value=Fraction(1, 2**20), max_value=2**80, max_denominator=2**20),
    deviations=st.floats(min_value=-11, max_value=11),
)
@example(variance=Fraction(2**80), deviations=11.3)
@example(variance=Fraction(2**80 - 1), deviations=1e-9)
def test_the_float_margin_of_the_acceptance_is_at_least_eight_times_the_error(
    variance: Fraction, deviations: float
) -> None:
    value = round(deviations * float(variance) ** 0.5)
    exponent = acceptance_exponent(variance, value)
    lower, upper = Proposal(variance)._float_bounds(np.array([value]))
    true = Fraction(leading_bits(lambda: (-ball(exponent)).exp(), 160), 2**128) if exponent else Fraction(2**32)
    slack = Fraction(7, 8) * Fraction(MARGIN) * true
    assert Fraction(float(upper[0])) >= true + slack
    if exponent < LARGEST_EXPONENT - 1:
        assert Fraction(float(lower[0])) <= true - slack
    else:
        assert float(lower[0]) < 1


def test_a_gaussian_draw_takes_the_first_accepted_proposals() -> None:
    """Two words a proposal, sign and top; zeros propose 0, all ones in the sign propose -1."""
    ones = 2**64 - 1
    reject_first = [0, 0, ones, 0, 0, 0, 2**32 - 1, 0, 0]
    assert discrete_gaussian(Scripted(reject_first), Fraction(1, 3), 1).tolist() == [-1]
    assert discrete_gaussian(Scripted([0] * 9), Fraction(1, 3), 1).tolist() == [0]
