"""Runs of several hits against one threshold: exact laws of whole transcripts, by quadrature and on the integers."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp

from chary.accounting import composition
from chary.accounting.gaussian_runs import RunHit, RunNoise, RunOpening, capped_moment_up, run_moments_up
from chary.errors import InvalidParameter

Z = np.linspace(-11, 11, 601)
WEIGHTS = -Z * Z / 2 + math.log((Z[1] - Z[0]) / math.sqrt(2 * math.pi))
OWN, OTHER, BAR = 0.5, 0.8, 0.6


def moments_of(order, moved, hits, monotone, wide=1):
    noises = {"threshold_noise": OWN * wide, "query_noise": OTHER * wide}
    return run_moments_up(order, sensitivity=moved, **noises, threshold=BAR, hits=hits, monotone=monotone)


def transcripts(length, hits):
    """Every series of answers that ends at its last hit, or when the questions end."""
    for answers in itertools.product([False, True], repeat=length):
        ends = [place for place, above in enumerate(answers) if above][hits - 1 : hits]
        if not ends or not any(answers[ends[0] + 1 :]):
            yield answers[: ends[0] + 1] if ends else answers


def log_law(values, hits):
    """ln P of each transcript: given the noise of the threshold the answers are independent."""
    above = [log_ndtr((value - BAR - OWN * Z) / OTHER) for value in values]
    below = [log_ndtr((BAR + OWN * Z - value) / OTHER) for value in values]
    found = {}
    for answers in transcripts(len(values), hits):
        parts = [above[place] if hit else below[place] for place, hit in enumerate(answers)]
        found[answers] = logsumexp(WEIGHTS + sum(parts))
    return np.array(list(found.values())), np.array([sum(answers) for answers in found])


def moment(order, one, two, hits, hit=0.0, opening=0.0):
    """ln of the moment, each transcript discounted by what it is charged; the worse order of neighbours."""
    (p, came), (q, _) = log_law(one, hits), log_law(two, hits)
    charges = opening + hit * came
    return max(logsumexp(order * a + (1 - order) * b - charges) for a, b in ((p, q), (q, p)))


def neighbours(moved, monotone, length=4):
    moves = [-moved, 0, moved]
    for values in itertools.product([0.0, 0.9], repeat=length):
        for kind in itertools.product(moves, repeat=length):
            other = [value + move for value, move in zip(values, kind, strict=True)]
            together = not monotone or min(kind) >= 0 or max(kind) <= 0
            if min(other) >= 0 and together:
                yield list(values), other


@pytest.mark.parametrize("hits", [2, 3])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize(("moved", "order"), [(0.3, 2), (0.1, 12)])
def test_no_transcript_is_undercharged_whole_or_by_parts(hits, monotone, moved, order):
    price = moments_of(order, moved, hits, monotone)
    assert price.opening < price.whole <= price.opening + hits * price.hit
    pairs = list(neighbours(moved, monotone))
    assert len(pairs) > 300
    whole = max(moment(order, one, two, hits) for one, two in pairs)
    assert whole <= price.whole
    assert max(moment(order, one, two, hits, price.hit, price.opening) for one, two in pairs) <= 1e-12
    # Noise that is taken for four times as wide is found out by these few questions.
    assert whole > moments_of(order, moved, hits, monotone, wide=4).whole


def test_what_hits_cost_cannot_be_left_out():
    """A negative control: the loss of the threshold alone, and that of a run to its first hit."""
    order, moved, hits = 6, 0.3, 3
    early, values = 8, [2.0] * 8 + [0.0] * hits
    other = [value - moved for value in values[:early]] + [moved] * hits

    def log_chance(values):
        below = [log_ndtr((BAR + OWN * Z - value) / OTHER) for value in values[:early]]
        above = [log_ndtr((value - BAR - OWN * Z) / OTHER) for value in values[early:]]
        return logsumexp(WEIGHTS + sum(below) + sum(above))

    # One transcript is enough: all early ones are below, all late ones above.
    p, q = log_chance(values), log_chance(other)
    found = max(order * p + (1 - order) * q, order * q + (1 - order) * p)
    assert order * (order - 1) * moved**2 / (2 * OWN**2) < found <= moments_of(order, moved, hits, False).whole
    assert found > moments_of(order, moved, 1, monotone=True).whole


def test_hits_cost_more_the_more_they_are_and_one_is_as_ever():
    found = [moments_of(8, 0.05, hits, monotone=False) for hits in range(1, 8)]
    assert found[0] == run_moments_up(8, sensitivity=0.05, threshold_noise=OWN, query_noise=OTHER, threshold=BAR)
    assert all(few.whole < many.whole and few.hit < many.hit for few, many in itertools.pairwise(found))
    assert all(few.opening < many.opening for few, many in itertools.pairwise(found))
    assert moments_of(8, 0.05, 3, monotone=True).whole < found[2].whole / 2


@pytest.mark.parametrize("hits", [10, 1000, 10**9])
def test_any_number_of_hits_has_a_price_or_none(hits):
    noise = {"threshold_noise": "0.1", "query_noise": "0.1733", "threshold": "0.5"}
    for moved in ("1e-9", "1e-5", "0.001"):
        found = run_moments_up(18, sensitivity=moved, **noise, hits=hits, monotone=True)
        assert found is None or 0 < found.opening < found.whole <= found.opening + hits * found.hit < 1000


# On the integers: discrete Gaussian noise, where a run ends after so many tests. All laws are sums.


@cache
def discrete(scale):
    """ln P of each integer from -60 on; what lies beyond is below 1e-150 for these scales."""
    places = np.arange(-60, 61)
    found = -(places.astype(float) ** 2) / (2 * scale**2)
    return found - logsumexp(found)


@cache
def reaching(scale, least):
    """P(noise >= least)."""
    return math.exp(logsumexp(discrete(scale)[least + 60 :]))


def integer_law(values, hits, own, other):
    """P of each transcript, summed over the hidden noise of the threshold, which is at 1."""
    found = []
    for answers in transcripts(len(values), hits):
        chance = 0.0
        for hidden in range(-25, 26):
            parts = [
                reaching(other, 1 + hidden - value) if hit else 1 - reaching(other, 1 + hidden - value)
                for hit, value in zip(answers, values, strict=False)
            ]
            chance += math.exp(discrete(own)[hidden + 60]) * math.prod(parts)
        found.append(chance)
    return np.array(found)


def worst_integers(order, tests, hits, own, other, monotone):
    worst = -math.inf
    for values in itertools.product([0, 2], repeat=tests):
        for moves in itertools.product([-1, 1], repeat=tests):
            if monotone and len(set(moves)) > 1:
                continue
            moved = tuple(map(sum, zip(values, moves, strict=True)))
            p, q = (integer_law(each, hits, own, other) for each in (values, moved))
            assert sum(p) == pytest.approx(1, abs=1e-12)
            worst = max(worst, *(math.log(np.sum(a**order * b ** (1 - order))) for a, b in ((p, q), (q, p))))
    return worst


@pytest.mark.parametrize(("tests", "hits"), [(1, 1), (3, 1), (3, 2), (4, 2)])
@pytest.mark.parametrize("monotone", [False, True])
def test_the_capped_price_holds_for_discrete_noise_and_not_for_a_quarter_of_it(tests, hits, monotone):
    order, own, other = 3, 2, 3
    noise = {"sensitivity": 1, "threshold_noise": own, "query_noise": other, "monotone": monotone}
    price = capped_moment_up(order, tests=tests, hits=hits, **noise)
    assert worst_integers(order, tests, hits, own, other, monotone) <= price
    assert worst_integers(order, tests, hits, own / 4, other / 4, monotone) > price


@pytest.mark.parametrize("shift", [0.05, 0.5])
def test_the_capped_sum_is_the_worst_of_all_series_of_tests(shift):
    """The recursion itself, each test as bad as two bounds on it allow: a miss at most 1, both at most M."""
    order, tests, hits = 5, 7, 3
    most = math.exp(order * (order - 1) * shift**2 / 2)
    value = {(0, left): 1.0 for left in range(hits + 1)} | {(test, 0): 1.0 for test in range(tests + 1)}
    for test in range(1, tests + 1):
        for left in range(1, hits + 1):
            options = [
                miss * value[test - 1, left] + (most - miss) * value[test - 1, left - 1]
                for miss in np.linspace(0, 1, 11)
            ]
            value[test, left] = max(options)
    found = capped_moment_up(
        order, tests=tests, hits=hits, sensitivity=1, threshold_noise=1e9, query_noise=1 / shift, monotone=True
    )
    assert found == pytest.approx(math.log(value[tests, hits]), rel=1e-6)


def test_a_cap_never_costs_more_than_releases_of_all_tests():
    order, noise = 18, {"sensitivity": 1, "threshold_noise": 300, "query_noise": 520}
    for tests, hits in ((1, 1), (10, 10), (1000, 1000), (10**6, 20)):
        all_tests = order * (order - 1) * (1 / 300**2 + tests * 4 / 520**2) / 2
        assert capped_moment_up(order, tests=tests, hits=hits, **noise) <= all_tests * (1 + 1e-8)
    few, many = (capped_moment_up(order, tests=10**6, hits=hits, **noise) for hits in (2, 20))
    assert few < many
    assert capped_moment_up(order, tests=5, hits=9, **noise) == capped_moment_up(order, tests=5, hits=5, **noise)


@pytest.mark.parametrize("moved", ["1e-300", "1e-9", 1, "1e200"])
@pytest.mark.parametrize("tests", [1, 10**6])
def test_a_cap_of_any_size_has_a_price(moved, tests):
    found = capped_moment_up("1.5", tests=tests, hits=50, sensitivity=moved, threshold_noise=10, query_noise=20)
    assert found >= 0
    assert not math.isnan(found)


@pytest.mark.parametrize(
    "wrong", [{"hits": 0}, {"hits": 1.5}, {"tests": 0}, {"monotone": 1}, {"query_noise": 0}, {"sensitivity": -1}]
)
def test_what_is_no_run_has_no_price(wrong):
    given = {"hits": 2, "sensitivity": 1, "threshold_noise": 9, "query_noise": 9, "monotone": True} | wrong
    with pytest.raises(InvalidParameter):
        capped_moment_up(3, **({"tests": 5} | given))
    given.pop("tests", None)
    if "tests" not in wrong:
        with pytest.raises(InvalidParameter):
            run_moments_up(3, threshold=5, **given)
        with pytest.raises(InvalidParameter):
            RunNoise(**(given | {"above_low": 5}))


def test_the_events_of_a_run_of_several_hits_charge_its_parts():
    noise, order = RunNoise("0.001", "0.1", "0.1733", "0.5", hits=5, monotone=True), composition.choose_order(1, 1e-6)
    found = noise.moments_up(order)
    assert float(RunOpening(noise).log_moment_up(order)) == found.opening
    assert float(RunHit(noise).hit_price_up(order)) == found.hit
    assert RunHit(noise).miss_price_up(order) == 0
