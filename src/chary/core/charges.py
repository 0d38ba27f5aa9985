"""What is charged and what is left, and refusals that say what would fit."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from chary.accounting.numerics import largest, least
from chary.amounts import DELTA_STEPS, LIMIT, Accounts, Amount
from chary.answers import Spending
from chary.core.plan import Plan
from chary.data import Blocks
from chary.errors import BudgetExceeded, CharyError
from chary.filters import Budget, Filter, RenyiFilter
from chary.ledger import CallRecord, Ledger, Parts, together
from chary.numbers import EVERY_CHARGED, MISSES_ENDED, percent, plain

# What is charged of a budget, and what is left of it, as an answer tells it.


def spending(filter_: Filter, amount: Amount) -> Spending:
    """A charge of the filter's unit, with the fraction of the budget that it takes."""
    return Spending(filter_.shares.taken(amount), filter_.charged(amount), filter_.unit, amount)


def accounts_of(ledger: Ledger, dataset: str, analyst: str | None = None, parts: Parts | None = None) -> Accounts:
    """What may still be charged to a dataset, or to parts of it, by an analyst: of a cap no more than it leaves."""
    found = ledger.balance(dataset, parts).accounts or Accounts(Amount(0), Amount(0))
    return found if analyst is None else replace(found, own=ledger.analyst_balance(dataset, analyst, parts).left)


def spent_of(ledger: Ledger, dataset: str, filter_: Filter, parts: Parts | None = None) -> Spending:
    """What all calls were charged, open ones included, as a fraction of the account in use. With `parts`, what counts
    for these parts.
    """
    accounts = accounts_of(ledger, dataset, parts=parts)
    basic = 0 if accounts.basic is None else accounts.basic.spent
    share = accounts.taken(accounts.spent, basic)
    return Spending(share, filter_.charged(accounts.spent), filter_.unit, accounts.spent)


def spent_by_block(ledger: Ledger, dataset: str, filter_: Filter, blocks: Blocks | None) -> dict[str, float]:
    """What each block from the first to today's holds, as a fraction of its budget; empty where rows are in none."""
    if blocks is None:
        return {}
    held = held_by_part(ledger, dataset, blocks.text)
    return {name: filter_.shares.taken(held.get(name, Amount(0))) for name in blocks.all()}


def held_by_part(ledger: Ledger, dataset: str, partition: str) -> Mapping[str, Amount]:
    """What the parts of a partition hold that hold anything, by their names."""
    return next((held.parts for held in ledger.partitions(dataset) if held.partition == partition), {})


def charged_of(ledger: Ledger, dataset: str, filter_: Filter, calls: list[CallRecord]) -> Spending:
    """What these calls were charged together, as a fraction of the account in use."""
    total = together((call.parts, call.charged) for call in calls)
    return charged_in(ledger, dataset, filter_, total, sum(call.basic for call in calls))


def charged_in(ledger: Ledger, dataset: str, filter_: Filter, total: Amount, basic: int) -> Spending:
    """The same for charges that add up to `total`, and to `basic` steps of the basic account."""
    return Spending(accounts_of(ledger, dataset).taken(total, basic), filter_.charged(total), filter_.unit, total)


def remaining(filter_: Filter, accounts: Accounts) -> Spending:
    """What may still be charged, as an answer reports it."""
    return Spending(accounts.share_left(), filter_.charged(accounts.left), filter_.unit, accounts.left)


# Refusals that say what was asked, what is left and what would fit.

# Below a four-billionth of what was asked nothing is worth proposing. After the halvings eight more steps place what
# fits to 1/256 of itself, more than the two digits that are told.
SMALLEST_SHARE = Fraction(1, 2**32)
REFINEMENTS = 8
# Halvings of an epsilon in the search for one whose misses are free.
_HALVINGS = 20
# Whether misses are free does not depend on how large a delta is.
_SOME_DELTA = Fraction(1, 10**6)
# The budget of a dataset is fixed by its first charge; what the old ledger spent is not counted by a new one.
NEW_LEDGER = (
    "that takes a new ledger, which does not count what the old one spent: what both promise adds up to the sum of "
    "their budgets"
)


def needed(plan: Plan[Any], filter_: Filter) -> tuple[Amount, int]:
    """The least amount with which a plan can start, and what it adds to the basic account.

    That is the cost of one hit for a plan that can halt, otherwise the worst cost.
    """
    price = plan.price(filter_)
    least = plan.worst(price, 1 if plan.may_halt(price) else None)
    return least, plan.epsilons(price)


def ends_free_misses(plan: Plan[Any], filter_: Filter, accounts: Accounts) -> bool:
    """Whether the plan fits into the basic account alone, so that free misses end for good."""
    least, basic = needed(plan, filter_)
    return accounts.fits(least, basic) and not accounts.alone and accounts.ended_by(least)


def freed_by_a_delta(plan: Plan[Any], filter_: Filter) -> str | None:
    """How charged misses would be free: in a budget of the same epsilon with a delta, for a call of this epsilon or of
    a smaller one. None where misses are free already, or would not be free in any such budget."""
    if filter_.budget.exact[1] or plan.price(filter_).free_miss:
        return None
    found = free_epsilon(plan, RenyiFilter.best(Budget(filter_.budget.epsilon, _SOME_DELTA)))
    if found is None:
        return None
    smaller = plan.size is not None and found < plan.size.epsilon
    return "in a budget with a delta" + (f", with epsilon={plain(found)}" if smaller else "")


def free_epsilon(plan: Plan[Any], filter_: Filter) -> Fraction | None:
    """The largest of epsilon, epsilon/2, epsilon/4, ... at which misses are free; None if there is none."""
    if plan.size is None:
        return None
    for halvings in range(_HALVINGS):
        epsilon: Fraction = plan.size.epsilon / 2**halvings
        try:
            if plan.size.at(epsilon).price(filter_).free_miss:
                return epsilon
        except CharyError:
            return None
    return None


def refused(plan: Plan[Any], filter_: Filter, accounts: Accounts, block: str | None = None) -> BudgetExceeded:
    """The error for a plan that does not fit into what is left, in a block where each has a budget of its own."""
    (least, basic), left = needed(plan, filter_), accounts.left
    asked, room = accounts.taken(least, basic), accounts.share_left()
    epsilon = plan.event.epsilon
    size = "" if epsilon is None else f" at epsilon {plain(epsilon)}"
    told = f"the call does not fit: it can cost {percent(asked)} of the budget ({filter_.budget}){size}, and "
    told += f"{percent(room)} is left" + ("" if block is None else f" in {block}")
    if plan.price(filter_).free_miss and not accounts.alone:
        told += "; a miss is free, but a test must be able to pay for a hit"
    if least.delta > left.delta:
        failing, aside = (plain(Fraction(amount.delta, DELTA_STEPS)) for amount in (least, left))
        told += f"; it also takes a delta of {failing}, and {aside} is left of delta_reserve="
    told += _ended(basic, accounts)
    fitting = _largest_that_fits(plan, filter_, accounts)
    if fitting is not None and plan.size is not None:
        ending = ends_free_misses(plan.size.at(fitting), filter_, accounts)
        told += f"; epsilon={plain(fitting)} would fit" + (", and end free misses for everybody" if ending else "")
    if (freed := freed_by_a_delta(plan, filter_)) is not None:
        told += f"; misses are charged here, and would be free {freed}: {NEW_LEDGER}"
    error = BudgetExceeded(told)
    error.figures = {"asked": asked, "left": room}
    if fitting is not None:
        error.figures["epsilon"] = float(fitting)
    return error


def _ended(basic: int, accounts: Accounts) -> str:
    """The part of a refusal that explains why what is left cannot be used once the main account has ended."""
    if not accounts.alone:
        return ""
    told = f"; {MISSES_ENDED}: {EVERY_CHARGED}"
    if accounts.own is not None:
        return f"{told}, and nothing more is charged to an analyst under a cap, which does not count that"
    return told if basic < LIMIT else f"{told}, and this call has no epsilon to be charged"


def _largest_that_fits(plan: Plan[Any], filter_: Filter, accounts: Accounts) -> Fraction | None:
    """The largest epsilon (two digits, rounded down) with which the same question fits; None if there is none."""
    if plan.size is None:
        return None
    size, at = plan.size

    def fits(epsilon: Fraction) -> bool:
        try:
            return accounts.fits(*needed(at(epsilon), filter_))
        except CharyError:
            return False

    if not fits(size * SMALLEST_SHARE):
        return None
    halvings = least(lambda halvings: fits(size / 2**halvings), 0, 32)
    low = largest(fits, size / 2**halvings, 2 * size / 2**halvings, times=REFINEMENTS)
    digits = 1
    while low * 10**digits < 10:
        digits += 1
    return Fraction(int(low * 10**digits), 10**digits)
