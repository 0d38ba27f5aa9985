"""Refusals that say what was asked, what is left and what would fit."""

from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

from chary.amounts import Amount
from chary.errors import BudgetRefused, CharyError
from chary.filters import Filter
from chary.numbers import plain
from chary.session.interaction import Interaction

HALVINGS = 40
REFINEMENTS = 12


def needed(interaction: Interaction, filter_: Filter) -> Amount:
    """The least room in which the interaction can start: one hit if it can halt, otherwise its worst price."""
    price = filter_.price(interaction.event)
    return price.hit.times(1 if interaction.halts and price.free_miss else interaction.parallel)


def refused(interaction: Interaction, filter_: Filter, left: Amount) -> BudgetRefused:
    """The error for an interaction that does not fit into what is left."""
    whole = max(1, filter_.capacity.main)
    asked, room = (plain(100 * amount.main / whole) for amount in (needed(interaction, filter_), left))
    epsilon = interaction.event.epsilon
    size = "" if epsilon is None else f" of epsilon {plain(epsilon)}"
    told = f"this {interaction.kind}{size} can cost {asked} % of the budget ({filter_.budget}) and {room} % is left"
    fitting = _largest_that_fits(interaction, filter_, left)
    return BudgetRefused(told if fitting is None else f"{told}; epsilon={plain(fitting)} would fit")


def _largest_that_fits(interaction: Any, filter_: Filter, left: Amount) -> Fraction | None:
    """The largest epsilon (two digits, rounded down) with which the same question fits; None if there is none."""
    if "epsilon" not in {field.name for field in fields(interaction)} or interaction.epsilon is None:
        return None

    def fits(epsilon: Fraction) -> bool:
        try:
            return needed(replace(interaction, epsilon=epsilon), filter_).fits_into(left)
        except CharyError:
            return False

    low = Fraction(interaction.epsilon)
    for _ in range(HALVINGS):
        low /= 2
        if fits(low):
            return _refined(low, 2 * low, fits)
    return None


def _refined(low: Fraction, high: Fraction, fits: Any) -> Fraction:
    for _ in range(REFINEMENTS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    digits = 1
    while low * 10**digits < 10:
        digits += 1
    return Fraction(int(low * 10**digits), 10**digits)
