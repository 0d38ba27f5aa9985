"""The privacy of the sketch, by enumeration of the laws of one register."""

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import pytest

from chary.accounting import Pure
from chary.errors import InvalidParameter
from chary.mechanisms import Distinct
from tests.mechanisms.sketch_laws import below, register, trajectories, within, worst

SIZES = [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2)]
CAP = 61


def sketch(epsilon):
    return Distinct(epsilon, registers=16)


@pytest.mark.parametrize("epsilon", SIZES)
def test_one_more_element_changes_the_law_by_at_most_epsilon(epsilon):
    distinct = sketch(epsilon)
    laws = [register(n, distinct.least, CAP) for n in range(distinct.phantoms, 52)]
    assert all(within(worst(*pair), epsilon) for pair in itertools.pairwise(laws))


@pytest.mark.parametrize("epsilon", SIZES)
def test_one_phantom_less_would_break_the_bound(epsilon):
    distinct = sketch(epsilon)
    fewer = [register(distinct.phantoms - 1 + more, distinct.least, CAP) for more in (0, 1)]
    assert not within(worst(*fewer), epsilon)
    assert worst(*(register(more, 0, CAP) for more in (0, 1))) is None


@pytest.mark.parametrize("epsilon", SIZES[:2])
def test_a_lower_floor_would_break_the_bound(epsilon):
    """From ln 2 on the floor is 1, below which no value lies."""
    distinct = sketch(epsilon)
    lower = [register(distinct.phantoms + more, distinct.least - 1, CAP) for more in (0, 1)]
    assert not within(worst(*lower), epsilon)


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_the_ratio_has_the_form_of_the_proof(n):
    one, more = register(n, 1, CAP), register(n + 1, 1, CAP)
    for k in range(2, CAP):
        a, b = below(k), below(k - 1)
        ratio = a + b**n * (a - b) / (a**n - b**n)
        assert more[k] / one[k] == ratio
        assert a <= ratio <= a + b / n <= 1 + Fraction(1, n)


@pytest.mark.parametrize("epsilon", [Fraction("1e-9"), Fraction("0.001"), *SIZES, Fraction(7), Fraction(1000)])
def test_phantoms_and_floor_are_the_least_that_do(epsilon):
    distinct = sketch(epsilon)
    assert distinct.phantoms == max(1, math.ceil(1 / math.expm1(epsilon))) if epsilon < 700 else 1
    assert distinct.least == max(1, math.ceil(-math.log2(-math.expm1(-epsilon))))


def test_an_epsilon_that_meets_a_bound_is_not_rounded_over_it():
    """ln(11/10) would do with 10 phantoms; the rational just below needs 11."""
    near = Fraction(math.log(1.1))
    assert sketch(near - Fraction(1, 2**70)).phantoms == 10 + (not within(Fraction(11, 10), near - Fraction(1, 2**70)))
    assert {sketch(near + Fraction(shift, 2**50)).phantoms for shift in (-1, 1)} == {10, 11}


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(2)])
def test_what_came_before_the_first_outcome_costs_epsilon_once(epsilon):
    """All later outcomes come from the first one and from arrivals that do not know about the element."""
    distinct = sketch(epsilon)
    for later in itertools.product(range(3), repeat=2):
        laws = [trajectories((x, *later), distinct.least, distinct.least + 3, distinct.phantoms) for x in (0, 1)]
        assert within(worst(*laws), epsilon)


def steps(distinct, others, when, veil):
    """The law of three outcomes; the element comes in batch `when`, or never, and each batch may be veiled."""
    arrivals = [count + (step == when) + veil * distinct.phantoms for step, count in enumerate(others)]
    return trajectories(arrivals, distinct.least, distinct.least + 3, 0 if veil else distinct.phantoms)


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(2)])
@pytest.mark.parametrize("when", [0, 1, 2])
def test_a_veil_in_each_batch_keeps_the_whole_trajectory_private(epsilon, when):
    distinct = sketch(epsilon)
    for others in itertools.product(range(2), repeat=3):
        assert within(worst(*(steps(distinct, others, x, True) for x in (None, when))), epsilon)
        moved = worst(*(steps(distinct, others, x, True) for x in (0, when)))
        assert within(moved, 2 * epsilon)


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_without_a_veil_a_register_that_rises_betrays_an_arrival(epsilon):
    distinct = sketch(epsilon)
    assert worst(*(steps(distinct, (0, 0, 0), x, False) for x in (None, 1))) is None
    busy = worst(*(steps(distinct, (0, 1, 0), x, False) for x in (None, 1)))
    assert not within(busy, Fraction(1, 2))


def shared(distinct, element, least, most):
    """Two sketches of the same key and one common element, or none: the law of both registers."""
    law = defaultdict(Fraction)
    own, common = register(distinct.phantoms, least, most), register(element, least, most)
    for (a, p), (b, q), (x, r) in itertools.product(own.items(), own.items(), common.items()):
        law[max(a, x), max(b, x)] += p * q * r
    return {pair: mass for pair, mass in law.items() if mass}


def test_sketches_of_one_key_have_no_joint_guarantee_but_their_merge_has():
    distinct = sketch(Fraction(1, 2))
    joint = [shared(distinct, x, distinct.least, 20) for x in (0, 1)]
    assert not within(worst(*joint), 10 * Fraction(1, 2))
    merged = [defaultdict(Fraction) for _ in joint]
    for law, pairs in zip(merged, joint, strict=True):
        for pair, mass in pairs.items():
            law[max(pair)] += mass
    assert within(worst(*merged), Fraction(1, 2))


def test_parts_with_the_same_phantoms_have_no_joint_guarantee():
    """The element is in one part only, but the other part shows what the phantoms alone would be."""
    distinct = sketch(Fraction(1, 2))
    assert worst(*(steps(distinct, (0, x), None, False) for x in (0, 1))) is None


def test_the_event_is_pure():
    assert Distinct("0.1", 1024).event() == Pure("0.1")


@pytest.mark.parametrize("epsilon", [0, -1, "nan", float("inf"), True, None, Fraction(1, 2**60)])
def test_sizes_out_of_range_are_refused(epsilon):
    with pytest.raises(InvalidParameter):
        Distinct(epsilon, registers=1024)


@pytest.mark.parametrize("registers", [0, 8, 15, 1000, 2**17, 64.5, True, "16", None])
def test_registers_are_a_power_of_two(registers):
    with pytest.raises(InvalidParameter):
        Distinct(1, registers=registers)
