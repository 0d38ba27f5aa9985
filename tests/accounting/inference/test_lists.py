"""Lists of hits to act on: false discovery rates by exact enumeration over analysts who choose by what they saw."""

from fractions import Fraction
from itertools import pairwise

import pytest

from chary import noise
from chary.accounting import (
    Publication,
    Support,
    benjamini_hochberg_list,
    e_value_list,
    fdr,
    online_list,
    spending_list,
)
from chary.errors import InvalidParameter
from chary.mechanisms import Laplace

HITS, LEVEL = 3, Fraction(1, 2)
# A hit of noise with r = 1/2 has p = 2^-k with probability 2^-(k+1); the last takes what is beyond.
FALSE = {Fraction(1, 2**k): Fraction(1, 2 ** min(k + 1, 6)) for k in range(7)}
TRUE = {Fraction(1, 64): Fraction(1, 2), Fraction(1, 2): Fraction(1, 2)}


def all_false(history, chosen):
    return FALSE


def one_true(history, chosen):
    return FALSE if history else TRUE


def false_after_a_find(history, chosen):
    return FALSE if chosen else TRUE


def until_a_find(history, chosen):
    return None if chosen else FALSE


def true_until_weak(history, chosen):
    return TRUE if not history or history[-1][1] < Fraction(1, 4) else FALSE


ADAPTIVE = [all_false, one_true, false_after_a_find, until_a_find, true_until_weak]


def exactly(analyst, rule, measure, history=()):
    """The expectation of `measure(false members, members)` over all transcripts of this analyst."""
    chosen = rule([p for _, p in history], LEVEL)
    law = analyst(history, chosen) if len(history) < HITS else None
    if law is None:
        return measure(sum(history[place][0] for place in chosen), len(chosen))
    return sum(weight * exactly(analyst, rule, measure, (*history, (law is FALSE, p))) for p, weight in law.items())


def share(false, members):
    return Fraction(false, members) if members else Fraction(0)


def agreed(p_values, level):
    return e_value_list(p_values, level, most=HITS)


def test_the_enumeration_is_one_of_laws():
    assert sum(FALSE.values()) == sum(TRUE.values()) == 1
    assert all(sum(weight for q, weight in FALSE.items() if q <= p) <= p for p in FALSE)


@pytest.mark.parametrize("analyst", ADAPTIVE)
@pytest.mark.parametrize("rule", [online_list, spending_list, e_value_list, agreed])
def test_false_discovery_rate_for_analysts_who_choose_by_what_they_saw(analyst, rule):
    assert exactly(analyst, rule, share) <= LEVEL


@pytest.mark.parametrize("analyst", ADAPTIVE)
def test_spending_has_no_false_member_at_all(analyst):
    assert exactly(analyst, spending_list, lambda false, members: Fraction(false > 0)) <= LEVEL
    if analyst is false_after_a_find:
        assert exactly(analyst, online_list, lambda false, members: Fraction(false > 0)) > exactly(
            analyst, spending_list, lambda false, members: Fraction(false > 0)
        )


@pytest.mark.parametrize("analyst", [all_false, one_true])
def test_benjamini_hochberg_for_questions_that_were_fixed(analyst):
    rate = exactly(analyst, benjamini_hochberg_list, share)
    assert rate <= LEVEL * Fraction(HITS - (analyst is one_true), HITS)
    assert analyst is one_true or rate > LEVEL * Fraction(4, 5)


def test_benjamini_hochberg_fails_for_one_who_stops_at_a_find():
    assert exactly(until_a_find, benjamini_hochberg_list, share) > LEVEL * Fraction(5, 4)


def test_lists_by_hand():
    p_values = [0.04, 0.5, 0.01, 0.02]
    assert benjamini_hochberg_list(p_values, "0.1") == [0, 2, 3]
    assert benjamini_hochberg_list(p_values, "0.02") == []
    assert online_list([0.06, 0.01, 0.02], "0.1") == [0, 1, 2]
    assert online_list([0.07, 0.01, 0.02], "0.1") == [1]
    assert spending_list([0.06, 0.01, 0.02], "0.1") == [0, 1]
    # 1/(2 sqrt(p)) is 50, 5 and 1; with two of three, 15 is needed at level 0.1 and 5 at 0.3.
    strong = ["0.0001", "0.01", "0.25"]
    assert e_value_list(strong, "0.1", most=3) == [0]
    assert e_value_list(strong, "0.3", most=3) == [0, 1]
    assert e_value_list(strong, "0.299", most=3) == [0]


@pytest.mark.parametrize("rule", [online_list, spending_list, benjamini_hochberg_list, e_value_list])
def test_edges(rule):
    assert rule([], "0.1") == []
    assert rule([1, 1.0, "1"], "0.9") == []
    assert fdr([1e-300] * 4, level="0.1", rule=rule) == [0, 1, 2, 3]
    for level in (0, 1, "nan"):
        with pytest.raises(InvalidParameter):
            rule([0.5], level)
    for p_value in (0, -0.1, 1.1, "nan", None):
        with pytest.raises(InvalidParameter):
            rule([0.5, p_value], "0.1")


@pytest.mark.parametrize("rule", [online_list, spending_list, benjamini_hochberg_list, e_value_list])
def test_lists_grow_with_the_level_and_with_smaller_p_values(rule):
    p_values = [Fraction(k * k % 17 + 1, 400) for k in range(12)]
    lists = [set(rule(p_values, Fraction(level, 20))) for level in range(1, 20)]
    assert all(small <= large for small, large in pairwise(lists))
    assert set(rule(p_values, "0.3")) <= set(rule([p / 3 for p in p_values], "0.3"))


def test_more_hits_than_agreed_are_refused():
    with pytest.raises(InvalidParameter, match="agreed"):
        e_value_list([0.5, 0.5], "0.1", most=1)


def test_a_watch_with_real_noise():
    """4,000 tests, one in ten above the bar in truth: acting on every hit is wrong in more than a third of cases."""
    additive, bar, source = Laplace.for_epsilon("0.05", sensitivity=1), 100, noise.Seeded(3)
    truths = [200 if k % 10 == 0 else 60 for k in range(4000)]
    watch = Publication(additive.law(), Support.at_least(bar))
    noisy = [additive.apply_one(truth, source) for truth in truths]
    hits = [k for k, value in enumerate(noisy) if value >= bar]
    found = {value: watch.p_value(value) for value in {noisy[k] for k in hits}}
    p_values = [found[noisy[k]] for k in hits]
    assert sum(truths[k] < bar for k in hits) > len(hits) / 3
    for rule in (online_list, benjamini_hochberg_list):
        chosen = [hits[place] for place in fdr(p_values, level="0.1", rule=rule)]
        false = sum(truths[k] < bar for k in chosen)
        assert false <= 0.1 * len(chosen)
        assert len(chosen) > (200 if rule is benjamini_hochberg_list else 1)
