"""Races on the exact curve: what is sold is never passed by any session: proof in docs/theory/charging.md."""

from itertools import islice

import numpy as np
import pytest

from chary.accounting import BestOf, MenuCall, lattice_curves
from chary.accounting.menu_curve import on_lattice
from tests.accounting.race_sessions import MultiTarget, OfOne

# Grain, calls of (grains, tokens, whether a miss is free), targets, tokens left to each after the opening.
ONE_TOKEN = [
    (0.1, [(1, 1, True)], 2, 3),
    (0.1, [(1, 1, True)], 3, 2),
    (0.4, [(1, 1, True), (2, 1, True)], 2, 3),
    (0.1, [(1, 1, True), (2, 3, False), (5, 2, False)], 2, 4),
]
MIXED = [
    (0.2, [(1, 1, True), (2, 2, True)], 2, 3),
    (0.2, [(1, 1, True), (4, 3, True)], 2, 4),
    (0.1, [(1, 1, True), (6, 2, True)], 3, 2),
    (0.2, [(1, 2, True), (3, 3, True), (2, 1, False)], 2, 4),
]


def dearest(calls):
    return max(tokens for _, tokens, free in calls if free)


@pytest.mark.parametrize(("grain", "calls", "targets", "left"), ONE_TOKEN + MIXED)
def test_no_session_passes_what_a_race_is_sold_for(grain, calls, targets, left):
    """Both against so many single sessions with as many tokens more, and against the curve of a menu with the race."""
    sessions, opening = MultiTarget(grain, calls), 2
    raced = sessions.value((left,) * targets)
    alone = sessions.value((left + dearest(calls) - 1,))
    assert (raced <= np.minimum(1, targets * alone) + 1e-12).all()
    menu = [MenuCall(steps, tokens, None if free else 1.0) for steps, tokens, free in calls]
    race = on_lattice(BestOf(targets).menu_laws(), grain, opening)
    tokens = left + opening + dearest(calls) - 1
    curve = list(islice(lattice_curves(grain, [*menu, *race], 100), tokens))[-1]
    assert (raced[160:261] <= curve * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize(("grain", "calls", "targets", "left"), ONE_TOKEN)
def test_a_race_is_worth_more_than_one_session(grain, calls, targets, left):
    """The trial can fail: a race that were opened for nothing and counted as one analyst would pass his curve."""
    sessions = MultiTarget(grain, calls)
    assert (sessions.value((left,) * targets) > 1.01 * sessions.value((left,)))[170:175].all()


@pytest.mark.parametrize(("steps", "tokens"), [(1, 1), (2, 3), (3, 6), (4, 11)])
@pytest.mark.parametrize("grain", [0.02, 0.1])
def test_a_release_for_so_many_tokens_changes_no_curve_and_for_one_less_it_does(grain, steps, tokens):
    """Where F_t >= F_(t-c)(up) + F_(t-c)(down) everywhere, F is the curve of the menu with the release as well."""

    def known(*more):
        return np.array(list(islice(lattice_curves(grain, [MenuCall(1, 1), *more], 200), 24)))

    alone = known()
    np.testing.assert_allclose(known(MenuCall(steps, tokens, 1.0)), alone, rtol=1e-9)
    if tokens > 1:
        assert (known(MenuCall(steps, tokens - 1, 1.0)) > alone * (1 + 1e-4)).any()


def test_what_follows_for_one_target_may_be_worth_more_than_its_own_session():
    """So a race is not bounded class by class: after a target's tokens are gone the session goes on for another."""
    calls, total = [(1, 1, True)], 10
    of_one, alone = OfOne(0.1, calls).at((1, 1), total), MultiTarget(0.1, calls).at((1,), total)
    assert of_one == pytest.approx(1.322e-4, rel=1e-3)
    assert alone == pytest.approx(1.058e-4, rel=1e-3)
    assert MultiTarget(0.1, calls).at((1, 1), total) <= 2 * alone
