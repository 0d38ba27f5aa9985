"""What a run remembers, and the losses it is charged: as they grow, as they are cached, as they are stored."""

import json
from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import gaussian_selection
from chary.calls import GaussianAboveThreshold
from chary.calls.gaussian_runs import ReportingProgress, RunState
from chary.calls.growing_tests import GrowingRoundState
from chary.mechanisms import Held, HiddenThreshold
from chary.mechanisms.additive import padded
from chary.noise import Deviate, Seeded, deviate


def terms(threshold, threshold_noise, query_noise, low, high, sensitivity=None):
    """What the steps of a run with these terms are priced by."""
    noises = {"threshold_noise": threshold_noise, "query_noise": query_noise}
    return GaussianAboveThreshold(threshold=threshold, **noises, low=low, high=high, sensitivity=sensitivity).terms


RUN = {"threshold": "1/3", "threshold_noise": 2, "low": 0, "high": 1}
TERMS = terms("0.5", "0.2", None, 0, 1)


@pytest.mark.parametrize("threshold", ["-0.5", "0", "0.4", "1", "1.6"])
@pytest.mark.parametrize("noises", [("0.1", None), ("0.5", "0.1"), ("0.1", "2"), ("3", None)])
def test_halting_never_costs_less_than_the_steps_before(threshold, noises):
    """h(t) >= r(t-1), and r rises: what is charged for a step is never negative."""
    losses = terms(threshold, *noises, 0, 1).losses(Fraction(1, 20), 200)
    assert (losses.halted[1:] >= losses.running[:-1] * (1 - 1e-12)).all()
    assert (np.diff(losses.running) >= -1e-12 * losses.running[1:]).all()
    assert losses.halted.min() > 0


def test_the_worst_of_some_steps_is_that_of_any_outcome_in_them():
    losses = TERMS.losses(Fraction(1, 10), 64)
    for first, last in ((1, 1), (1, 5), (3, 40), (64, 64)):
        each = [losses.of(step, halted=halted) for step in range(first, last + 1) for halted in (True, False)]
        assert losses.worst(first, last) == max(each)


def test_losses_of_a_growing_run_are_computed_seldom_and_agree(monkeypatch):
    asked = []
    computed = gaussian_selection.above_threshold_epsilons_up

    def counted(most, **terms):
        asked.append(most)
        return computed(most, **terms)

    monkeypatch.setattr(gaussian_selection, "above_threshold_epsilons_up", counted)
    wide = terms("0.5", "0.2", None, 0, "1.001")
    found = [wide.losses(Fraction(1, 10), step).of(step, halted=False) for step in range(1, 301)]
    assert asked == [64, 128, 256, 512]
    assert found == pytest.approx(wide.losses(Fraction(1, 10), 300).running[:300], rel=1e-9)


def test_terms_are_stored_and_read():
    for given in (RUN, RUN | {"query_noise": 7, "low": "-1/7", "high": Fraction(22, 7), "sensitivity": "0.25"}):
        opening = GaussianAboveThreshold(**given)
        again = GaussianAboveThreshold(**json.loads(opening.text()))
        assert again.question_body() == opening.question_body()
        assert again.terms == opening.terms


def test_a_state_is_stored_and_read_bit_by_bit():
    source = Seeded(1)
    for held in (deviate(source), deviate(source).refined(source), Deviate(-5, 0)):
        state = RunState(held, 7, 0.1 + 0.2, Fraction(1, 3))
        again = RunState.load(state.dump())
        assert again == state
        more = again.held.refined(source)
        assert more.floor >> 64 == held.floor
    halted = RunState.load(RunState(held, 7, 0.1, Fraction(1), halted=True).dump())
    assert (halted.halted, halted.held) == (True, Deviate(0, 0))


@pytest.mark.parametrize(
    ("state", "kept", "room"),
    [
        (HiddenThreshold(-7, 12), b"[-7, 12]", 1024),
        (Held(4.25, 16, 170), b"[4.25, 16, 170]", 1027),
        (GrowingRoundState(3, 120, Fraction(1, 5), -9), b'[3, 120, "1/5", -9]', 1039),
        (GrowingRoundState(), b'[0, 0, "0", null]', 1035),
        (RunState(Deviate(-5, 2), 7, 0.5, Fraction(1, 3)), b'[[-5, 2], 7, 0.5, "1/3", false]', 1046),
        (
            ReportingProgress(Deviate(-5, 2), Fraction(1, 4), 3, 7, 9, 5, Fraction(2, 3)),
            b'[[-5, 2], "1/4", 3, 7, 9, 5, "2/3"]',
            1050,
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_states_of_each_kind_are_stored_as_ever(state, kept, room):
    assert state.dump() == padded(kept, room)
    assert type(state).load(state.dump()) == type(state).load(kept) == state
    assert all(str(secret) not in repr(state) for secret in (-7, 4.25, -9, -5))


def test_what_was_charged_is_charged_once():
    state = RunState(Deviate(0, 0), charged=0.25)
    assert state.increment(0.25) == 0 == state.increment(0.2)
    assert state.increment(0.3) == Fraction(0.3) - Fraction(1, 4)
