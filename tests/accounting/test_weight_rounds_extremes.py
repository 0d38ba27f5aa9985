"""Rounds of sparse vector at extreme parameters and sizes, worked out again with more digits."""

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import tuned_shares
from chary.accounting.weights import weight_rounds
from chary.errors import InvalidParameter

SIZES, START = 10**6, 200
ANSWERS = tuned_shares(1, monotone=False, values=True)[2]
EXTREMES = {
    "alpha": ["1e-4", "1/2", Fraction(1) - Fraction(1, 10**40)],
    "cells": [2, 10**9],
    "start": [1, 2, 10**9],
    "mixing": ["1e-30", "0.01", 1],
    "exponent": ["1e-30", "0.99", *(1 - Fraction(1, 10**digits) for digits in (15, 45, 70))],
    "epsilon": ["1e-3", 1, 1000],
}


def exactly(number):
    return Decimal(Fraction(number).numerator) / Decimal(Fraction(number).denominator)


def total_at_200_digits(allowed, power):
    step, before = exactly(power / allowed.growth), math.floor(allowed.first)
    return before + (-(before + 1 - exactly(allowed.first)) * step).exp() / (1 - (-step).exp())


@pytest.mark.parametrize("update", ["projected", "published"])
@pytest.mark.parametrize("form", ["pure", "joint", "0", "1e-300", "1/2"])
def test_no_parameters_are_too_extreme_for_the_promise(form, update):
    """Worked out again with 200 digits: the losses of all rounds, from what the first one may spend."""
    random, kept = np.random.default_rng(7), 0
    for _ in range(60):
        chosen = {name: values[random.integers(len(values))] for name, values in EXTREMES.items()}
        most = chosen["epsilon"]
        terms = {"pure": {}, "joint": {"epsilon": None, "rho": most}}.get(
            form, {"delta": form, "constants": "published"}
        )
        try:
            rounds = weight_rounds(**(chosen | terms), update=update)
        except InvalidParameter:
            assert "constants" in terms
            continue
        kept += 1
        with localcontext(Context(prec=200, Emax=MAX_EMAX, Emin=MIN_EMIN)):
            first = exactly(rounds.epsilon_down(1, chosen["start"]))
            spent = first * total_at_200_digits(rounds.allowance, rounds.kept)
            if form not in ("pure", "0"):
                parts = exactly(ANSWERS**2 + (1 - ANSWERS) ** 2) if form == "joint" else Decimal(5) / 9
                spent = first**2 * parts / 2 * total_at_200_digits(rounds.allowance, 2 * rounds.kept)
            if form in ("1e-300", "1/2"):
                spent += 2 * (spent * -exactly(Fraction(form)).ln()).sqrt()
            assert spent <= exactly(Fraction(most))
    assert kept > 10


@pytest.mark.parametrize(
    "allowed",
    [
        weight_rounds(alpha=Fraction(1) - Fraction(1, 10**9), cells=2, start=1, epsilon=1, mixing="0.01").allowance,
        weight_rounds(alpha="0.6", cells=10**6, start=START, epsilon=1, rounds=7, mixing="0.1").allowance,
    ],
)
def test_an_allowance_is_exact_at_all_of_a_million_sizes(allowed):
    """It can change at the openings alone, so both sides of each are looked at, with 100 digits."""
    with localcontext(Context(prec=100)):

        def begun(size):
            grown = (Decimal(size) / allowed.start).ln()
            return math.floor(exactly(allowed.first) + exactly(allowed.growth) * grown)

        number, size = 1, allowed.start
        while size <= allowed.start + SIZES:
            assert allowed.most(size) == begun(size) >= number
            assert size == allowed.start or allowed.most(size - 1) == begun(size - 1) < number
            number, size = number + 1, allowed.opens(number + 1)
    assert number > 30
