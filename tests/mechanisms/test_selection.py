"""Exact laws of one-shot selection on tiny domains: what is published never costs more than its hits."""

import math
from collections import defaultdict
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import chisquare

from chary.errors import InvalidParameter
from chary.mechanisms import Laplace, OneShotTopK
from chary.mechanisms.choices import Ranked
from chary.noise import Seeded
from tests.mechanisms.laws import Given, epsilon_of, moment, price_of, transcripts, worst_ratio

RATIO = Fraction(9, 10)
EPSILON = epsilon_of(RATIO)
RULES = [
    *(OneShotTopK(k) for k in (1, 2, 3)),
    *(OneShotTopK(k, gap=gap) for k in (2, 3) for gap in (0, 1)),
    OneShotTopK(2, above=1),
    OneShotTopK(3, gap=0, above=0),
]
NEIGHBOURS = [((0, 0, 0), (1, 1, 1)), ((1, 0, 1), (0, 1, 0)), ((0, 1, 0), (1, 1, 0)), ((1, 0, 0), (0, 0, 1))]


def shown(rule):
    """The published positions with their noisy values."""
    return lambda *noisy: tuple((position, noisy[position]) for position in rule.choose(noisy))


def charged(price, differing):
    """What the hits of a transcript cost if neighbours differ in so many candidates."""
    return lambda transcript: price * min(len(transcript), differing)


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_moment_never_exceeds_the_price_of_what_was_published(rule, order):
    price = price_of(EPSILON, order)
    for pair in NEIGHBOURS:
        differing = sum(a != b for a, b in zip(*pair, strict=True))
        laws = [transcripts(values, RATIO, -1, 2, shown(rule)) for values in pair]
        for first, second in permutations(laws):
            assert moment(first, second, order, charged(price, differing)) <= 1 + 1e-12
        assert worst_ratio(*laws) <= RATIO**-differing


def response(share, high, low):
    """The law of one score that is `high` with this chance."""
    return {high: share, low: 1 - share}


def law_of(candidates, rule):
    """The exact law of what is published of independent candidates."""
    law = defaultdict(Fraction)
    for outcome in product(*candidates):
        chance = math.prod(candidate[score] for candidate, score in zip(candidates, outcome, strict=True))
        law[shown(rule)(*outcome)] += chance
    return law


P = 1 / (1 + RATIO)


def enumerated(k, order, price, candidates):
    """The moment for candidates that answer by randomized response: hits are likelier under the second law."""
    laws = [law_of([response(share, 1, 0)] * candidates, OneShotTopK(k)) for share in (1 - P, P)]
    return moment(*laws, order, lambda transcript: price * len(transcript))


def extremal(k, order, price, candidates):
    """The same, candidate by candidate: each ends a list of misses or goes on; in the end k low ones are published."""
    hit, miss = (float(a**order * b ** (1 - order)) for a, b in ((1 - P, P), (P, 1 - P)))
    left = [math.exp(-price * open_) for open_ in range(k + 1)]
    for _ in range(candidates):
        left = [1.0] + [hit * math.exp(-price) * left[n - 1] + miss * left[n] for n in range(1, k + 1)]
    return left[k]


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("order", [2, 4, 6])
def test_randomized_response_attains_the_price(k, order):
    price = price_of(EPSILON, order)
    assert enumerated(k, order, price, 8) == pytest.approx(extremal(k, order, price, 8), rel=1e-12)
    reached = [extremal(k, order, price, candidates) for candidates in (3, 10, 30, 100, 300)]
    assert reached == sorted(reached)
    assert 1 - 1e-6 < reached[-1] <= 1 + 1e-12
    assert extremal(k, order, 0.99 * price, 300) > 1


def test_publishing_the_runner_up_free_of_charge_is_caught():
    price = price_of(EPSILON, 4)
    laws = [law_of([response(share, 1, 0)] * 9, OneShotTopK(2)) for share in (1 - P, P)]
    assert moment(*laws, 4, lambda transcript: price * (len(transcript) - 1)) > 1


@pytest.mark.parametrize("order", [2, 6])
def test_solutions_ride_along(order):
    """Outcomes are scores with solutions; neighbours differ in the solutions, too."""
    price = price_of(EPSILON, order)
    half = Fraction(1, 2)
    likelier, rarer = {(1, "a"): P / 2, (1, "b"): (1 - P) / 2}, {(1, "a"): (1 - P) / 2, (1, "b"): P / 2}
    laws = []
    for law in (likelier | {(0, "a"): half}, rarer | {(0, "a"): half}):
        published = defaultdict(Fraction)
        for outcome in product(law, repeat=5):
            best = OneShotTopK(2, gap=0).choose([score for score, _ in outcome])
            published[tuple((j, *outcome[j]) for j in best)] += math.prod(law[part] for part in outcome)
        laws.append(published)
    for one, other in permutations(laws):
        assert moment(one, other, order, lambda transcript: price * len(transcript)) <= 1 + 1e-12


def by_hand(scores, k, gap, above):
    """Sort everything, then walk down."""
    ranked = sorted(enumerate(scores), key=lambda pair: (pair[1] is None, -(pair[1] or 0), pair[0]))
    kept = []
    for position, score in ranked[:k]:
        if above is not None and (score is None or score < above):
            break
        if gap is not None and kept and (score is None or scores[kept[-1]] - score > gap):
            break
        kept.append(position)
    return kept


def test_against_sorting():
    generator = np.random.default_rng(1)
    for _ in range(500):
        size = int(generator.integers(1, 12))
        scores = [int(score) for score in generator.integers(-5, 6, size)]
        k = int(generator.integers(1, size + 1))
        gap, above = ([None, 0, 1, 3][int(generator.integers(4))], [None, -1, 0, 4][int(generator.integers(4))])
        rule = OneShotTopK(k, gap, above)
        expected = by_hand(scores, k, gap, above)
        assert rule.choose(scores) == expected
        still = Given((0,) * size)
        for values in (np.array(scores), np.array(scores, dtype=object) + 2**70 - 2**70):
            found = rule.step(values, still, Seeded(0))
            assert found == Ranked(expected, [scores[position] for position in expected])


def test_failed_candidates_rank_last():
    assert OneShotTopK(3).choose([None, 2, None, 3]) == [3, 1, 0]
    assert OneShotTopK(4, above=0).choose([None, 2, None, 3]) == [3, 1]
    assert OneShotTopK(4, gap=5).choose([None, 2, None, 3]) == [3, 1]
    assert OneShotTopK(2).choose([None, None]) == [0, 1]


def test_scores_of_all_kinds_are_compared_exactly():
    assert OneShotTopK(3).choose([2**60, 2**60 + 1, float(2**60)]) == [1, 0, 2]
    assert OneShotTopK(2, gap="0.1").choose([0.3, 0.4]) == [1]
    assert OneShotTopK(2, gap=Fraction(0.4) - Fraction(0.3)).choose([0.3, 0.4]) == [1, 0]
    assert OneShotTopK(2).choose([-(10**400), 10**400]) == [1, 0]


def test_values_at_the_ends_of_64_bits():
    edges = np.array([-(2**63), 2**63 - 1, 0, -(2**63) + 1])
    assert OneShotTopK(4).step(edges, Given((0, 0, 0, 0)), Seeded(0)).positions == [1, 2, 3, 0]


@pytest.mark.parametrize("rule", [OneShotTopK(1), OneShotTopK(2), OneShotTopK(3, gap=1)], ids=str)
def test_permuted_candidates_have_the_same_scores_in_law(rule):
    values = (0, 2, 1)

    def scores(*noisy):
        return tuple(noisy[position] for position in rule.choose(noisy))

    laws = [transcripts(order, Fraction(1, 2), -1, 3, scores) for order in permutations(values)]
    assert all(law == laws[0] for law in laws)


def test_only_the_order_among_equals_depends_on_the_position():
    law = transcripts((1, 1), Fraction(1, 2), 0, 2, shown(OneShotTopK(1)))
    assert all(law[((0, score),)] > law[((1, score),)] > 0 for score in (0, 1, 2) if score)
    assert ((1, 0),) not in law


@pytest.mark.statistical
def test_the_noise_is_the_one_asked_for():
    alpha, runs, ratio = 1e-6, 3000, Fraction(4, 5)
    law = transcripts((0, 1), ratio, -8, 12, lambda *noisy: max(noisy))
    scale, source = Fraction(1 / -math.log(ratio)), Seeded(7)

    def fit(actual):
        made = [OneShotTopK(1).step(np.array([0, 1]), Laplace(actual, 1), source).noisy[0] for _ in range(runs)]
        counts = np.bincount(np.clip(made, -8, 12) + 8, minlength=21)
        expected = [float(law[score]) * runs for score in range(-8, 13)]
        return chisquare(counts, expected).pvalue

    assert fit(scale) > alpha
    assert fit(scale * Fraction(2, 3)) < alpha
    assert fit(scale * Fraction(3, 2)) < alpha


@pytest.mark.parametrize(
    "arguments", [(0,), (-1,), (1.5,), (True,), ("2",), (None,), (1, -1), (1, "x"), (1, None, math.nan)]
)
def test_bad_rules(arguments):
    with pytest.raises(InvalidParameter):
        OneShotTopK(*arguments)
