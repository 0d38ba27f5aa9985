"""How many hits charging takes, by exact sums; the floor of one-shot selection, by enumerating what it publishes."""

import itertools
import math
from fractions import Fraction

import pytest

from chary.accounting import exact_total
from chary.accounting.charging_curve import hits_needed, one_shot_floor_down
from chary.errors import InvalidParameter


def missed(hits, calls, q):
    """The chance that so many calls bring fewer hits, exactly."""
    return sum(math.comb(calls, k) * q**k * (1 - q) ** (calls - k) for k in range(hits))


@pytest.mark.parametrize("overhead", ["0.5", "1", "2.5"])
@pytest.mark.parametrize("q", ["1/2", "0.3", "0.45"])
@pytest.mark.parametrize("delta", ["0.05", "1e-4"])
def test_the_exact_number_is_the_least(overhead, q, delta):
    found = hits_needed(overhead=overhead, delta=delta, q=q)

    def kept(hits):
        calls = math.floor((1 + Fraction(overhead)) * hits / Fraction(q))
        return missed(hits, calls, Fraction(q)) <= Fraction(delta)

    assert kept(found.exact)
    assert not any(kept(hits) for hits in range(1, found.exact))


@pytest.mark.parametrize("overhead", [0.1, 0.5, 1, 3])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_chernoff_is_what_its_inequalities_ask_for(overhead, delta):
    found = hits_needed(overhead=overhead, delta=delta, q="0.5")
    assert found.exact <= found.chernoff <= found.simple

    def raw(hits):
        mean, eta = (1 + overhead) * hits, overhead / (1 + overhead)
        return mean * (-eta - (1 - eta) * math.log(1 - eta))

    def simple(hits):
        return -(overhead**2) * hits / (2 * (1 + overhead))

    for number, exponent in ((found.chernoff, raw), (found.simple, simple)):
        assert exponent(number) <= math.log(delta) < exponent(number - 1) + 1e-9


def test_rarer_hits_take_more():
    found = [hits_needed(overhead="0.5", delta="1e-6", q=q).exact for q in ("0.5", "0.25", "0.01")]
    assert found == sorted(found)
    assert found[0] < found[-1]


@pytest.mark.parametrize("bad", [{"overhead": 0}, {"overhead": "1e-5"}, {"delta": 0}, {"q": 0}, {"q": "1.1"}])
def test_bad_numbers_are_refused(bad):
    with pytest.raises(InvalidParameter):
        hits_needed(**({"overhead": "0.5", "delta": "1e-6", "q": "0.5"} | bad))


def published(outcomes):
    """Who is published of candidates whose scores all differ, whether high or low: the largest, and its score."""
    scores = [len(outcomes) - place if high else -place for place, high in enumerate(outcomes)]
    return scores.index(max(scores)), max(scores)


def top_delta(epsilon, likely, total):
    """The exact delta of top-1 where candidate i scores high with p under one dataset (likely) or under the other."""
    p, laws = 1 / (1 + math.exp(-epsilon)), ({}, {})
    for outcomes in itertools.product([True, False], repeat=len(likely)):
        for law, first in zip(laws, (True, False), strict=True):
            chance = math.prod(
                p if high == (more == first) else 1 - p for high, more in zip(outcomes, likely, strict=True)
            )
            told = published(outcomes)
            law[told] = law.get(told, 0) + chance
    return sum(max(laws[0][told] - math.exp(total) * laws[1][told], 0) for told in laws[0])


@pytest.mark.parametrize("candidates", [1, 2, 3, 5])
@pytest.mark.parametrize("epsilon", [0.2, 1])
@pytest.mark.parametrize("delta", [1e-3, 0.05])
def test_some_top_one_loses_as_much_and_none_of_its_kind_more(candidates, epsilon, delta):
    floor = one_shot_floor_down(epsilon_per_call=epsilon, candidates=candidates, delta=delta)
    series = list(itertools.product([True, False], repeat=candidates))
    assert max(top_delta(epsilon, likely, floor) for likely in series) >= delta * (1 - 1e-12)
    assert max(top_delta(epsilon, likely, floor * (1 + 1e-6)) for likely in series) < delta


def test_many_candidates_come_to_one_hit_and_never_beyond():
    asked = {"epsilon_per_call": "0.1", "delta": "1e-6"}
    one = exact_total(hits=1, **asked)
    floors = [one_shot_floor_down(candidates=many, **asked) for many in (1, 5, 20, 1000)]
    assert floors == sorted(floors)
    assert floors[-1] <= one
    assert floors[-1] == pytest.approx(one, rel=1e-6)


def test_without_a_delta_all_may_miss():
    floor = one_shot_floor_down(epsilon_per_call="0.5", candidates=6, delta="1e-12")
    assert floor == pytest.approx(3, rel=1e-6)


def test_too_many_candidates_are_refused():
    with pytest.raises(InvalidParameter, match="at most"):
        one_shot_floor_down(epsilon_per_call=1, candidates=10**6, delta="1e-6")
