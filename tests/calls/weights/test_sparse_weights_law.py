"""The law of a round of two-sided queries, by enumeration: pure and zCDP, what is compared, how often it is hard."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from chary import Bins, Universe
from chary.accounting import SparseNoise
from chary.calls import PMW
from chary.calls.public_histograms import HistogramMemory, HistogramRound
from chary.calls.weights import PrepaidPMWRun
from chary.core.plan import Data
from chary.data import NeighborRelation
from chary.mechanisms.weights import Change, Transcript
from chary.noise import Seeded

ROW = NeighborRelation("replace", None)
AGES = {"age": Bins([0, 1, 2])}


def opened(universe, size=40, **options):
    """The law of a histogram by the published rule."""
    rule = {"alpha": "0.3", "update": "published", "mixing": 1}
    return PMW(prepaid=True, universe=universe, **rule, **options).prepaid_law(ROW, size)


def question(law, size):
    """The plan of one about half of the cells, or a third."""
    run = PrepaidPMWRun(None, 1, {})
    run.law, run.memory = law, HistogramMemory(law, {"age": "int64"})
    return run.planned(run.memory.asked("age >= 1", size))


class Recorded:
    """Stands for the sparse vector of a round and tells what it was asked; never a hit."""

    def __init__(self, machine, calls):
        self._machine, self.calls, self.answers = machine, calls, machine.answers

    def start(self, source):
        return self._machine.start(source)

    def step(self, state, values, threshold, source):
        self.calls.append((state.shift, values.tolist(), threshold))
        return state, self._machine.step(state, values - 10**9, threshold, source)[1]


def recorded(counts, opening, sizes):
    """What the sparse vector of a round is asked for queries with these counts at these sizes."""
    calls, machine = [], opening.machine
    object.__setattr__(opening, "machine", lambda number, size: Recorded(machine(number, size), calls))
    factors = (Change("age >= 1", 40, 1.0, 0.0, 3.0),)
    secret = HistogramRound(Transcript(factors), 1, 40, None).dump()
    for counted, size in zip(counts, sizes, strict=True):
        ran = question(opening, size).run(Data([counted], Seeded(1), secret, None, None))
        secret = ran.secrets.get(1, secret)
    object.__delattr__(opening, "machine")
    return calls


def round_law(calls, noise):
    """The chance of "easy" so many times and then a hit on either side, from what was asked; values are apart."""
    near = np.arange(-int(40 * noise.threshold), int(40 * noise.threshold) + 1)
    ratio = math.exp(-1 / noise.threshold)
    shifts = ratio ** np.abs(near) * (1 - ratio) / (1 + ratio)
    step = math.exp(-1 / noise.test)

    def below(distance):
        """The chance that a test's noise is below this."""
        tail = step ** np.abs(np.where(distance > 0, distance, 1 - distance)) / (1 + step)
        return np.where(distance > 0, 1 - tail, tail)

    law, easy = {}, shifts
    for position, (_, (high, low), threshold) in enumerate(calls):
        misses = [below(threshold + near - value) for value in (high, low)]
        law[position, "above"] = float((easy * (1 - misses[0])).sum())
        law[position, "below"] = float((easy * misses[0] * (1 - misses[1])).sum())
        easy = easy * misses[0] * misses[1]
    return law | {"easy": float(easy.sum())}


@pytest.mark.parametrize("constants", ["exact", "published"])
def test_the_law_of_a_round_of_two_sided_queries_is_as_private_as_the_round_says(constants):
    """Each of three queries may move by 1 up or down between neighbours, while the table grows inside the round."""
    epsilon, rounds = (15, 5) if constants == "exact" else (5000, None)
    opening = opened(AGES, epsilon=epsilon, constants=constants, rounds=rounds)
    sizes, counts = (40, 44, 90), (26, 24, 70)
    noise = opening.rounds.noise(2, 40)
    one = recorded(counts, opening, sizes)
    assert len({shift for shift, *_ in one}) == 1
    law, worst = round_law(one, noise), 0.0
    assert sum(law.values()) == pytest.approx(1, abs=1e-9)
    for moves in product((-1, 0, 1), repeat=3):
        other = recorded([known + move for known, move in zip(counts, moves, strict=True)], opening, sizes)
        for move, (_, before, _), (_, after, bar) in zip(moves, one, other, strict=True):
            assert ([after[0] - before[0], after[1] - before[1]], bar) == ([move, -move], 0)
        ratios = round_law(other, noise)
        worst = max(worst, *(abs(math.log(law[key] / ratios[key])) for key in law))
    tests = 1 / noise.threshold + 2 / noise.test
    assert 0.55 * tests < worst <= tests + Fraction(1, 10**9)
    assert tests + 1 / noise.answer == opening.rounds.epsilon_down(2, 40)


def test_queries_are_compared_with_two_thirds_of_alpha_on_both_sides():
    opening = opened(AGES, epsilon=15, rounds=5)
    sizes, counts = (41, 44, 90), (26, 24, 70)
    for (_, (above, below), bar), size, counted in zip(recorded(counts, opening, sizes), sizes, counts, strict=True):
        kept = Fraction(40, size)
        share = kept * 3 / 5 + (1 - kept) / 3
        assert bar == 0
        assert above == counted - math.floor(size * (share + Fraction(1, 5))) - 1
        assert below == math.ceil(size * (share - Fraction(1, 5))) - 1 - counted


def test_how_often_a_query_is_hard_is_what_the_noise_says():
    """First queries of a round; noise half as large again or smaller by a third would be seen."""
    opening, runs = opened(Universe(AGES, missing=False), epsilon=15, rounds=5), 2000
    asked, source = question(opening, 40), Seeded(8)
    secret, noise = HistogramRound().dump(), opening.rounds.noise(1, 40)
    ran = [asked.run(Data([17], source, secret, None, None)) for _ in range(runs)]
    for side, values in (("above", (17 - 29, 11 - 17)), ("below", (17 - 29, 11 - 17))):
        hard = sum(one.answer["hard"] and one.answer["above"] == (side == "above") for one in ran)

        def apart(part, side=side, values=values, hard=hard):
            """How far off the number is, in standard deviations, for noise of that part of the scale."""
            scaled = SparseNoise(1, noise.threshold * part, noise.test * part, noise.answer, False)
            expected = round_law([(0, values, 0)], scaled)[0, side]
            return abs(hard - runs * expected) / math.sqrt(runs * expected * (1 - expected))

        assert apart(1) < 4.9
        assert min(apart(Fraction(3, 2)), apart(Fraction(2, 3))) > 4.9


def tail(scale, distances):
    """The chance that discrete Laplace noise is at least each distance."""
    ratio = math.exp(-1 / float(scale))
    near = ratio ** np.where(distances > 0, distances, 1 - distances) / (1 + ratio)
    return np.where(distances > 0, near, 1 - near)


def masses(scale, places):
    ratio = math.exp(-1 / float(scale))
    return (1 - ratio) / (1 + ratio) * ratio ** np.abs(places)


def whole_law(noise, easy, counts):
    """The chance of every output of a round: on which query it ended, on which side, with which noisy count."""
    near, seen = (np.arange(-reach, reach + 1) for reach in (int(30 * noise.threshold), int(30 * noise.answer) + 40))
    still, law = masses(noise.threshold, near), []
    for counted in counts:
        above = tail(noise.test, near - (counted - easy.high - 1))
        below = tail(noise.test, near - (easy.low - 1 - counted))
        hits = float(still @ above), float(still @ ((1 - above) * below))
        law += [hit * masses(noise.answer, seen - counted) for hit in hits]
        still = still * (1 - above) * (1 - below)
    return np.concatenate([*law, [still.sum()]])


def renyi(one, other, order):
    logs = order * np.log(one) - (order - 1) * np.log(other)
    return (logs.max() + math.log(np.exp(logs - logs.max()).sum())) / (order - 1)


@pytest.mark.parametrize("rho", ["0.05", "2", "20"])
def test_a_round_with_its_value_costs_what_zcdp_says_at_every_order(rho):
    """A count that moves by 1 either way in each of two queries; the tests and the value are two parts."""
    opening = opened(AGES, size=30, rho=rho, rounds=1)
    noise, easy = opening.rounds.noise(1, 30), opening.rule.easy(0.5, 30)
    parts = 1 / noise.threshold + 2 / noise.test, 1 / noise.answer
    paid, worst = float(sum(part**2 for part in parts) / 2), 0.0
    assert paid <= float(rho)
    for counts in product((5, 15, easy.high + 1), repeat=2):
        one = whole_law(noise, easy, counts)
        assert one.sum() == pytest.approx(1, abs=1e-6)
        for moves in product((-1, 0, 1), repeat=2):
            other = whole_law(noise, easy, np.add(counts, moves))
            kept = (one > 1e-200) & (other > 1e-200)
            for order in (1.01, 1.5, 2, 4, 16, 64):
                worst = max(worst, renyi(one[kept], other[kept], order) / order)
    assert 1.5 * float(parts[1] ** 2 / 2) < worst <= paid  # more than the value alone
