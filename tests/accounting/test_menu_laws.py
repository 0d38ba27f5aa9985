"""Menus of laws: no pair of neighbours of any call, and no race, adds more than the curve of its menu allows."""

import math
from fractions import Fraction
from functools import cache
from itertools import islice, product

import numpy as np
import pytest

from chary.accounting import (
    Asymmetric,
    BestOf,
    BoundaryCall,
    Extendable,
    MenuCall,
    NarrowChoice,
    Pure,
    StatedLaws,
    Targeted,
    TwiceCall,
    UnanimousCall,
    boundary_price_up,
    lattice_curves,
    narrow_price_up,
    twice_price_up,
    unanimous_price_up,
)
from chary.accounting.composition import convex_upper
from chary.accounting.menu_curve import LatticeLaw, on_lattice
from chary.errors import InvalidParameter
from tests.accounting.pairs import grid, sampled, wrapped

E = Fraction(6, 5)
SIZE = Fraction(18232155679396, 10**14)
GRAIN = float(SIZE) / 4
TOKENS, TOP = 3, 120


def known(event):
    """Its menu, with a part in 10^13 more than ln(6/5)."""
    curves = lattice_curves(GRAIN, on_lattice(event.menu_laws(), GRAIN, 1), TOP)
    return [np.maximum(0.0, np.zeros(TOP + 1)), *islice(curves, TOKENS)]


def worth(curves, tokens, law):
    """What a pair of laws adds up to at every point of the lattice, ratios in between told as both neighbours."""

    def around(curve, steps):
        places = np.arange(TOP // 2) - steps
        below = np.abs(np.minimum(places, 0))
        mirrored = -np.expm1(-GRAIN * below) + np.exp(-GRAIN * below) * curve[below]
        return np.where(places < 0, mirrored, curve[np.maximum(places, 0)])

    total = np.zeros(TOP // 2)
    for one, other, hit in law:
        curve = curves[tokens - hit]
        low = math.floor(math.log(one / other) / GRAIN)
        near, far = (math.exp(place * GRAIN) for place in (low, low + 1))
        upper = (float(one) - float(other) * near) / (far - near)
        total += (float(other) - upper) * near * around(curve, low) + upper * far * around(curve, low + 1)
    return total


def beaten(curves, laws):
    """By how much the dearest of the laws exceeds a curve, as a part of it."""
    both = [law for pair in laws for law in (pair, [(b, a, hit) for a, b, hit in pair])]
    tokens = range(1, TOKENS + 1)
    return max(float((worth(curves, t, law) / curves[t][: TOP // 2]).max()) - 1 for t in tokens for law in both)


def positive(pairs, count):
    return [pair for pair in pairs if all(min(law) > 0 for law in pair)][:count]


def mechanisms(outcomes, seed=3):
    """Pairs of laws of ln(6/5)-DP computations: mixed from coarse ones, nearly certain ones, and random ones."""
    known_pairs = grid(outcomes, E) if outcomes < 4 else []
    chosen = known_pairs[:: max(1, len(known_pairs) // 60)] + sampled(outcomes, E, 120, seed)
    return positive(chosen, 120)


def boundaries(outcomes):
    return [
        list(zip(wrapped(p), wrapped(q), [True] + [False] * outcomes, strict=True)) for p, q in mechanisms(outcomes)
    ]


def not_priors():
    return [[(a, b, place > 0) for place, (a, b) in enumerate(zip(p, q, strict=True))] for p, q in mechanisms(3)]


def twos():
    return [[(p[i] * p[j], q[i] * q[j], i != j) for i, j in product(range(len(p)), repeat=2)] for p, q in mechanisms(3)]


def unanimous(runs):
    def laws():
        found = []
        for p, q in mechanisms(2) + mechanisms(3):
            agreed = [(a**runs, b**runs, False) for a, b in zip(p, q, strict=True)]
            rest = [1 - sum(law[side] for law in agreed) for side in (0, 1)]
            found.append([*agreed, (*rest, True)])
        return found

    return laws


def narrow():
    """Exponential mechanisms of three outcomes."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(150):
        base = [Fraction(int(mass)) for mass in np.exp(rng.normal(12, rng.choice([0.5, 4]), 3)) + 1]
        raised = [mass * E if rng.integers(2) else mass for mass in base]
        laws = [[mass / sum(masses) for mass in masses] for masses in (base, raised)]
        found.append([(a, b, place > 0) for place, (a, b) in enumerate(zip(*laws, strict=True))])
    return found


CALLS = {
    "not prior": (lambda size: Targeted(size), not_priors),
    "extended": (lambda size: Extendable(size), not_priors),
    "twice": (lambda size: TwiceCall(size), twos),
    "unanimous of 3": (lambda size: UnanimousCall(size, 3), unanimous(3)),
    "unanimous of 5": (lambda size: UnanimousCall(size, 5), unanimous(5)),
    "a test in the wrapper": (lambda size: BoundaryCall(size, 2), lambda: boundaries(2)),
    "three outcomes in the wrapper": (lambda size: BoundaryCall(size), lambda: boundaries(3)),
    "four outcomes in the wrapper": (lambda size: BoundaryCall(size), lambda: boundaries(4)),
    "narrow": (lambda size: NarrowChoice(size), narrow),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_pair_of_neighbours_adds_more_than_the_curve(name):
    event, laws = CALLS[name]
    assert beaten(known(event(SIZE)), laws()) <= 1e-9


@pytest.mark.parametrize(("name", "part"), [(name, "0.5" if "outcomes" in name else "0.75") for name in CALLS])
def test_the_curve_of_smaller_calls_is_beaten(name, part):
    """The trial can fail: so it does against a menu of calls that are too small."""
    event, laws = CALLS[name]
    assert beaten(known(event(SIZE * Fraction(part))), laws()) > 1e-4


def test_two_runs_are_sold_for_two_on_a_diagonal_too_which_is_dearer_than_randomized_response():
    """No neighbours are known with this law: the price is safe, 1.3 % too high in docs/theory/charging.md."""

    def total(laws):
        curves = lattice_curves(0.002, on_lattice(laws, 0.002, 1), 700)
        return convex_upper(next(islice(curves, 19, None)), 0.002, 1e-6)

    laws = TwiceCall("0.02").menu_laws()
    (same,) = [law for law in laws if [told.hit for told in law] == [False, True, True, False]]
    (diagonal,) = [law for law in laws if [told.hit for told in law] == [True, False, False, True]]
    assert total([same]) == pytest.approx(0.8296, abs=1e-4)
    assert total([same, diagonal]) == pytest.approx(0.8404, abs=1e-4)
    assert total(laws) == pytest.approx(total([same, diagonal]), rel=1e-9)


@pytest.mark.parametrize("q", ["0.1", "0.3", "0.7"])
def test_a_q_target_is_the_same_off_the_lattice_and_on_it(q):
    by_laws = on_lattice(Targeted(SIZE, q).menu_laws(), GRAIN, 1)
    whole = on_lattice(Targeted(Fraction(4 * GRAIN), q).menu_laws(), GRAIN, 1)
    curves = [list(islice(lattice_curves(GRAIN, menu, TOP), TOKENS))[-1] for menu in (by_laws, whole)]
    usual = list(islice(lattice_curves(GRAIN, [MenuCall(4, 1, float(q))], TOP), TOKENS))[-1]
    assert curves[1][:60] == pytest.approx(usual[:60], rel=1e-9)
    assert curves[0][:60] == pytest.approx(usual[:60], rel=1e-6)


def test_calls_by_their_own_laws_are_far_below_their_q_targets():
    for event in (TwiceCall(SIZE), BoundaryCall(SIZE), BoundaryCall(SIZE, 2), UnanimousCall(SIZE, 3)):
        own, target = known(event)[-1], known(Targeted(*event.listed))[-1]
        assert convex_upper(own, GRAIN, 1e-3) < 0.85 * convex_upper(target, GRAIN, 1e-3)


def test_an_uneven_release_is_below_that_of_its_epsilon():
    uneven, even = known(Asymmetric(SIZE, SIZE / 2))[-1], known(Pure(SIZE))[-1]
    assert (uneven[:12] < even[:12] * 0.95).all()
    assert (uneven <= even * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("event", "price", "close"),
    [
        (TwiceCall(SIZE), twice_price_up(SIZE, Fraction(2)), 1e-9),
        (UnanimousCall(SIZE, 3), unanimous_price_up(SIZE, 3, Fraction(2)), 0.1),
        (BoundaryCall(SIZE), boundary_price_up(SIZE, Fraction(2)), 0.1),
        (NarrowChoice(SIZE), narrow_price_up(SIZE, Fraction(2)), 0.15),
    ],
)
def test_laws_of_a_call_have_its_price_at_a_renyi_order_or_a_little_more(event, price, close):
    found = 0.0
    for law in event.menu_laws():
        for sides in ((0, 1), (1, 0)):
            moments = {True: 0.0, False: 0.0}
            for told in law:
                moments[told.hit] += float(told[sides[0]]) ** 2 / float(told[sides[1]])
            found = max(found, math.log(moments[True] / (1 - moments[False])))
    assert float(price) * (1 - 1e-4) <= found <= float(price) * (1 + close)


@pytest.mark.parametrize("event", [event(SIZE) for event, _ in CALLS.values()], ids=CALLS)
def test_every_law_is_one(event):
    for law in event.menu_laws():
        for side in (0, 1):
            assert abs(sum(Fraction(told[side]) for told in law) - 1) < Fraction(1, 10**50)
        assert all(told.first > 0 < told.second for told in law)


@pytest.mark.parametrize("event", [event(SIZE) for event, _ in CALLS.values()], ids=CALLS)
def test_a_coarser_lattice_and_a_larger_call_are_never_cheaper(event):
    fine, coarse = (
        list(islice(lattice_curves(step, on_lattice(event.menu_laws(), step, 1), round(6 / step)), 2))[-1]
        for step in (GRAIN, 2 * GRAIN)
    )
    assert (coarse[:30] >= fine[0:60:2] * (1 - 1e-9)).all()
    larger = known(type(event)(SIZE * 2, *([event.runs] if isinstance(event, UnanimousCall) else [])))
    assert (larger[-1][:60] >= known(event)[-1][:60] * (1 - 1e-9)).all()


def race_curves(targets, tokens):
    """Calls of four grains, and a race for so many tokens."""
    step = float(SIZE)
    menu = [*on_lattice(Targeted(SIZE).menu_laws(), step, 1), *on_lattice(BestOf(targets).menu_laws(), step, tokens)]
    return step, [np.zeros(81), *islice(lattice_curves(step, menu, 80), 4)]


def best_racer(step, place, tokens, price, targets=2, calls=12):
    """The most that an adaptive analyst gets who may open a race at any time, by randomized response."""
    p = 1 / (1 + math.exp(-step))

    @cache
    def value(place, left, counters, calls):
        best = max(0.0, -math.expm1(place * step))
        if not calls or left <= 0:
            return best
        if counters is None and left >= price:
            best = max(best, value(place, left - price, (0,) * targets, calls))
        for priors in product((0, 1), repeat=1 if counters is None else targets):
            total = 0.0
            for outcome, chance in ((0, p), (1, 1 - p)):
                moved = place - 1 if outcome == 0 else place + 1
                if counters is None:
                    total += chance * value(moved, left - (priors[0] != outcome), None, calls - 1)
                else:
                    after = tuple(n + (prior != outcome) for n, prior in zip(counters, priors, strict=True))
                    paid = min(after) - min(counters)
                    lowest = min(after)
                    kept = tuple(n - lowest for n in after)
                    total += chance * value(moved, left - paid, kept, calls - 1)
            best = max(best, total)
        return best

    return value(place, tokens, None, calls)


@pytest.mark.parametrize("price", [1, 2])
def test_no_adaptive_racer_exceeds_the_curve_of_a_menu_with_a_race(price):
    step, curves = race_curves(2, price)
    for tokens, place in product((1, 2, 3), (0, 1, 2, 4)):
        assert best_racer(step, place, tokens, price) <= curves[tokens][place] * (1 + 1e-9)


def test_without_a_price_the_race_would_be_too_cheap():
    step, _ = race_curves(2, 1)
    alone = list(islice(lattice_curves(step, on_lattice(Targeted(SIZE).menu_laws(), step, 1), 80), 3))
    assert best_racer(step, 2, 3, 0) > alone[2][2] * 1.02


def test_a_race_of_one_target_for_a_token_adds_nothing():
    step, curves = race_curves(1, 1)
    alone = list(islice(lattice_curves(step, on_lattice(Targeted(SIZE).menu_laws(), step, 1), 80), 4))
    assert curves[4] == pytest.approx(alone[3], rel=1e-9)


def test_stated_laws_have_the_price_of_the_call_that_they_are():
    p = E / (1 + E)
    response = StatedLaws.of([((p, 1 - p), (1 - p, p))], [False, True])
    assert response.epsilon == pytest.approx(float(SIZE))
    for order in (Fraction(3, 2), Fraction(3)):
        assert float(response.hit_price_up(order)) == pytest.approx(float(Targeted(SIZE).hit_price_up(order)))
        assert float(response.log_moment_up(order)) == pytest.approx(float(Pure(SIZE).log_moment_up(order)))
    assert known(response)[-1][:60] == pytest.approx(known(Targeted(SIZE))[-1][:60], rel=1e-6)
    gentle = StatedLaws.of([((p, 1 - p, 0), (p, 1 - p, 0)), ((Fraction(1, 2),) * 2 + (0,),) * 2], [False, True, True])
    assert (gentle.hit_price_up(Fraction(3)), gentle.listed[1]) == (pytest.approx(0, abs=1e-20), None)


def test_stated_laws_of_a_release_have_no_free_misses():
    whole = StatedLaws.of([((Fraction(1, 2),) * 2, (Fraction(1, 4), Fraction(3, 4)))], [True, True])
    assert whole.hit_price_up(Fraction(2)) is None
    assert whole.listed == (whole.epsilon, 1)
    half = float(Fraction(1, 4) ** 2 * 2 + Fraction(9, 16) * 2)
    assert float(whole.log_moment_up(Fraction(2))) == pytest.approx(max(math.log(half), math.log(4 / 3)), rel=1e-9)


@pytest.mark.parametrize(
    ("laws", "hits"),
    [
        ([((1, 0), (0, 1))], [True, True]),
        ([(("0.5", "0.4"), ("0.5", "0.5"))], [True, False]),
        ([(("0.5", "0.5"), ("0.5", "0.5"))], [False, False]),
        ([((2, -1), (2, -1))], [True, False]),
        ([(("0.5", "0.5"),)], [True, False]),
        ([], [True]),
    ],
)
def test_what_is_no_law_is_refused(laws, hits):
    with pytest.raises(InvalidParameter):
        StatedLaws.of(laws, hits)


def test_ratios_beyond_the_lattice_are_refused():
    with pytest.raises(InvalidParameter, match="grain"):
        on_lattice(Targeted(5).menu_laws(), 0.01, 1)
    assert on_lattice(Targeted(1).menu_laws(), 1.0, 2)[0] == LatticeLaw(
        2, ((-1, pytest.approx(1 / (1 + math.e))),), ((1, pytest.approx(math.e / (1 + math.e))),)
    )
