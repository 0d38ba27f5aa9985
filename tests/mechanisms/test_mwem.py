"""MWEM: the exact law of a round and its loss, totals, what is told apart, accuracy."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import Joint, ZeroConcentrated
from chary.accounting.synthesis import mwem_error_up, mwem_law, mwem_margins_up
from chary.errors import InvalidParameter
from chary.mechanisms import Exponential, PermuteAndFlip
from chary.mechanisms.weights import MwemRounds, best_round, missed, weighted
from chary.noise import OperatingSystem, Seeded
from tests.mechanisms.matrix_cells import Sets, people_of

SOURCE = OperatingSystem()
ORDERS = [1.5, 2, 4, 16, 64]


class Recorder:
    """Picks what it is told, and keeps what it was shown."""

    def __init__(self, pick):
        self.pick, self.seen = pick, None

    def step(self, utilities, source):
        self.seen = utilities
        return self.pick


class Fixed:
    """Noise that is what it is said to be."""

    def __init__(self, drawn):
        self.drawn = drawn

    def apply_one(self, value, source):
        return value + self.drawn


def masses(noise, far):
    """The logarithms of the law of a noise on -far ... far, by its closed form."""
    k = np.arange(-far, far + 1)
    logs = -abs(k) / float(noise.scale) if hasattr(noise, "scale") else -(k**2) / (2 * float(noise.sigma_squared))
    return dict(zip(k.tolist(), (logs - math.log(np.exp(logs).sum())).tolist(), strict=True))


def law(sizes, exact, shares, size, far):
    """The logarithms of the exact law of one round, every pick and every noise put through `step` itself."""
    given_, found = MwemRounds(**sizes), {}
    for query in range(len(exact)):
        for drawn, chance in masses(given_.noise, far).items():
            made = MwemRounds(**sizes)
            made.__dict__.update(chooser=Recorder(query), noise=Fixed(drawn))
            told = made.step(np.array(exact), np.array(shares), size, SOURCE)
            picked = _chances(given_, tuple(made.chooser.seen.tolist()))[query]
            assert (told.query, told.share) == (query, shares[query])
            found[told.query, told.measured] = math.log(picked) + chance
    return found


def _chances(made, utilities, kept={}):  # noqa: B006
    key = (made, utilities)
    if key not in kept:
        kept[key] = made.chooser.law(list(utilities)).probabilities()
    return kept[key]


CHANGES = [(1, 1, -1), (1, -1, 0), (-1, -1, -1), (0, 1, 1)]


@pytest.mark.parametrize("epsilon", ["0.8", "3"])
@pytest.mark.parametrize("exact", [[7, 12, 3], [10, 10, 10], [0, 20, 5]])
def test_the_law_of_a_round_is_epsilon_over_t_dp_and_nearly_attained(epsilon, exact):
    sizes, shares, worst = {"rounds": 2, "epsilon": epsilon}, [0.5, 0.31, 0.24], 0.0
    one = law(sizes, exact, shares, 20, 40)
    assert math.fsum(map(math.exp, one.values())) == pytest.approx(1, abs=1e-9)
    for change in CHANGES:
        other = law(sizes, [count + more for count, more in zip(exact, change, strict=True)], shares, 20, 40)
        inner = one.keys() & other.keys()
        worst = max(worst, *(abs(one[key] - other[key]) for key in inner))
    each = float(epsilon) / 2
    assert worst <= each * (1 + 1e-6)
    assert worst > 0.7 * each


@pytest.mark.parametrize("rho", ["0.1", "2"])
@pytest.mark.parametrize("exact", [[7, 12, 3], [10, 10, 10]])
def test_the_law_of_a_round_by_rho_is_rho_over_t_zcdp(rho, exact):
    sizes, shares, tightest = {"rounds": 2, "rho": rho}, [0.5, 0.31, 0.24], 0.0
    one = law(sizes, exact, shares, 20, 90)
    for change in CHANGES:
        other = law(sizes, [count + more for count, more in zip(exact, change, strict=True)], shares, 20, 90)
        for order in ORDERS:
            both = one.keys() & other.keys()
            moments = [order * one[k] + (1 - order) * other[k] for k in both]
            divergence = float(np.logaddexp.reduce(moments)) / (order - 1)
            assert divergence <= order * float(rho) / 2 * (1 + 1e-6) + 1e-9
            tightest = max(tightest, divergence / (order * float(rho) / 2))
    assert tightest > 0.5


@pytest.mark.parametrize("rounds", [1, 3, 40])
def test_totals_are_what_was_asked_for(rounds):
    pure, concentrated = MwemRounds(rounds, epsilon="0.7"), MwemRounds(rounds, rho="0.03")
    assert isinstance(pure.event, Joint)
    assert pure.event.epsilon == Fraction(7, 10)
    assert sum(rounds * part for part in (pure.chooser.epsilon, 1 / pure.noise.scale)) == Fraction(7, 10)
    assert type(pure.chooser) is PermuteAndFlip
    assert concentrated.event == ZeroConcentrated("0.03")
    picks = rounds * Fraction(concentrated.chooser.epsilon) ** 2 / 8
    noises = rounds / (2 * concentrated.noise.sigma_squared)
    assert 0 < Fraction(3, 100) - picks - noises < Fraction(1, 10**15)
    assert type(concentrated.chooser) is Exponential
    assert pure.event.log_moment_up(Fraction(8)) < 7 * Fraction(7, 10)


@pytest.mark.parametrize("sizes", [{"epsilon": 10**6}, {"rho": 10**9}])
def test_errors_are_told_apart_by_parts_of_a_row(sizes):
    """0.25 rows off is worse than 0.24 and no query is favoured for where it stands."""
    for worst in range(3):
        shares = np.full(3, 0.9976)
        shares[worst] = 0.9975
        assert MwemRounds(2, **sizes).step(np.full(3, 100), shares, 100, SOURCE).query == worst


@pytest.mark.parametrize("sizes", [{"epsilon": 3}, {"rho": 2}])
def test_picks_have_the_law_of_errors_in_rows(sizes):
    """By the definitions, for errors that change by one row between neighbours."""
    made, off = MwemRounds(2, **sizes), [5.0, 3.0, 1.5]
    found = made.chooser.law([round(1024 * error) for error in off]).probabilities()
    each = 3 / 4 if "epsilon" in sizes else math.sqrt(4 * 2 / 2)
    up = [math.exp(each * (error - 5) / 2) for error in off]
    expected = np.array(up) / sum(up)
    if "epsilon" in sizes:
        expected = np.zeros(3)
        for order in itertools.permutations(range(3)):
            tried = np.cumprod([1.0, *(1 - up[j] for j in order[:2])])
            expected[list(order)] += tried * np.array(up)[list(order)] / 6
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("sizes", [{"epsilon": 2}, {"rho": "0.05"}])
def test_errors_are_within_what_is_promised(sizes):
    """Of 100 runs at confidence 4/5 a fifth may err; the law is for the worst data, so here far fewer do."""
    queries, people, rounds, runs, size = Sets(12, 9), people_of(9, 5000), 6, 100, 5000
    exact, source, mechanism = queries.counts(people), Seeded(17), MwemRounds(rounds, **sizes)
    promised = mwem_margins_up(queries=12, rounds=rounds, confidence="0.8", **sizes)
    least = mwem_error_up(cells=24, queries=12, rounds=rounds, size=size, confidence="0.8", **sizes)
    wrong = farther = 0
    for _ in range(runs):
        found, exponents = mechanism.run(exact, size, queries, source)
        off = np.abs(queries.shares(weighted(queries, exponents).weights) - exact / size).max()
        best = found[best_round(found, size)]
        wrong += off > missed(best, size) + promised.tested / size
        farther += off > least
    slack = 4.9 * math.sqrt(runs * 0.16)
    assert wrong <= runs * 0.2 + slack
    assert farther <= runs * 0.2 + slack


class Bits(Sets):
    """Does a cell's number have this bit? Each halves the cells, and no other tells anything of it."""

    def __init__(self, bits):
        self.shape, numbers = (1, 2**bits), np.arange(2**bits)
        self.flags = np.array([(numbers[None] >> bit) & 1 == 1 for bit in range(bits)])


@pytest.mark.parametrize("sizes", [{"epsilon": 1}, {"rho": "0.02"}])
@pytest.mark.parametrize("bits", [2, 7])
def test_on_the_worst_data_the_promise_is_nearly_all_lost(sizes, bits):
    """All rows in one cell: after as many rounds as bits the histogram kept is off by a half, 0.59 is promised."""
    queries, size, source = Bits(bits), 10**6, Seeded(5)
    found, exponents = MwemRounds(bits, **sizes).run(np.full(bits, size), size, queries, source)
    off = np.abs(queries.shares(weighted(queries, exponents).weights) - 1).max()
    told = {"cells": 2**bits, "queries": bits, "rounds": bits}
    law = mwem_law(**told, gaussian="rho" in sizes)
    epsilon = 1 if "epsilon" in sizes else 0.2
    assert off <= mwem_error_up(**told, size=size, **sizes) <= law.error(size=size, epsilon=epsilon, beta="0.05") < 0.6
    assert off > 0.8 * law.error(size=size, epsilon=epsilon, beta="0.05")
    assert len(found) == bits


@pytest.mark.statistical
@pytest.mark.parametrize("sizes", [{"epsilon": 1}, {"rho": "0.01"}])
def test_measured_counts_have_the_declared_noise_and_no_other(sizes):
    """A single query, so that all is noise: within its median as often as it should be, and not within 2/3 or 3/2."""
    made, runs, source = MwemRounds(4, **sizes), 6000, Seeded(23)
    drawn = [made.step(np.array([40]), np.array([0.1]), 100, source).measured - 40 for _ in range(runs)]
    bar = made.noise.error_bar(0.5)
    expected, slack = 2 * made.noise.at_least(bar + 1), 4.9 * 0.5 / math.sqrt(runs)
    found = {part: (np.abs(drawn) > bar * part).mean() for part in (2 / 3, 1, 3 / 2)}
    assert abs(found[1] - expected) < slack
    assert found[2 / 3] > expected + slack
    assert found[3 / 2] < expected - slack


@pytest.mark.parametrize(
    "bad",
    [
        lambda: MwemRounds(0, epsilon=1),
        lambda: MwemRounds(1001, epsilon=1),
        lambda: MwemRounds(2.5, epsilon=1),
        lambda: MwemRounds(3),
        lambda: MwemRounds(3, epsilon=1, rho=1),
        lambda: MwemRounds(3, epsilon=0),
        lambda: MwemRounds(3, rho=-1),
        lambda: MwemRounds(3, epsilon="nan"),
        lambda: MwemRounds(3, epsilon=1e-14),
    ],
)
def test_bad_parameters_are_refused(bad):
    with pytest.raises(InvalidParameter):
        bad()
