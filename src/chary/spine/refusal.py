"""Refusals that say what was asked, what is left and what would fit."""

from collections.abc import Callable
from fractions import Fraction

from chary.amounts import DELTA_STEPS, Accounts, Amount
from chary.errors import BudgetRefused, CharyError
from chary.filters import Filter
from chary.numbers import plain
from chary.spine.interaction import Interaction

# Below a four-billionth of what was asked nothing is worth proposing. After the halvings eight more steps place what
# fits to 1/256 of itself, more than the two digits that are told.
SMALLEST_SHARE = Fraction(1, 2**32)
REFINEMENTS = 8


def needed(interaction: Interaction, filter_: Filter) -> tuple[Amount, int]:
    """The least room in which the interaction can start: one hit if it can halt, otherwise its worst price; and what it
    adds to the basic account."""
    price = interaction.price(filter_)
    least = interaction.worst(price, 1 if interaction.may_halt(price) else None)
    return least, interaction.epsilons(price)


def refused(interaction: Interaction, filter_: Filter, accounts: Accounts) -> BudgetRefused:
    """The error for an interaction that does not fit into what is left."""
    (least, basic), left = needed(interaction, filter_), accounts.left
    asked, room = accounts.taken(least, basic), accounts.share_left()
    epsilon = interaction.event.epsilon
    size = "" if epsilon is None else f" of epsilon {plain(epsilon)}"
    told = f"this {interaction.kind}{size} can cost {plain(100 * asked)} % of the budget ({filter_.budget}) and "
    told += f"{plain(100 * room)} % is left"
    if least.delta > left.delta:
        failing, aside = (plain(Fraction(amount.delta, DELTA_STEPS)) for amount in (least, left))
        told += f"; it also takes a delta of {failing} and {aside} is left of what was set aside (approximate_delta=)"
    fitting = _largest_that_fits(interaction, filter_, accounts)
    error = BudgetRefused(told if fitting is None else f"{told}; epsilon={plain(fitting)} would fit")
    error.figures = {"asked": asked, "left": room}
    if fitting is not None:
        error.figures["epsilon"] = float(fitting)
    return error


def _largest_that_fits(interaction: Interaction, filter_: Filter, accounts: Accounts) -> Fraction | None:
    """The largest epsilon (two digits, rounded down) with which the same question fits; None if there is none."""
    size = interaction.said_epsilon

    def fits(epsilon: Fraction) -> bool:
        try:
            return accounts.fits(*needed(interaction.at_epsilon(epsilon), filter_))
        except CharyError:
            return False

    if size is None or not fits(size * SMALLEST_SHARE):
        return None
    halvings, kept = 0, 32
    while kept - halvings > 1:
        middle = (halvings + kept) // 2
        halvings, kept = (halvings, middle) if fits(size / 2**middle) else (middle, kept)
    return _refined(size / 2**kept, size / 2**halvings, fits)


def _refined(low: Fraction, high: Fraction, fits: Callable[[Fraction], bool]) -> Fraction:
    for _ in range(REFINEMENTS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    digits = 1
    while low * 10**digits < 10:
        digits += 1
    return Fraction(int(low * 10**digits), 10**digits)
