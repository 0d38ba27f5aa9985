"""What is charged of a budget, and what is left of it, as an answer tells it."""

from dataclasses import replace

from chary.amounts import Accounts, Amount
from chary.answer import Spending
from chary.filters import Filter
from chary.ledger import CallRecord, Ledger


def spending(filter_: Filter, amount: Amount) -> Spending:
    """A charge of the filter's unit, with the share of the budget that it takes."""
    return Spending(filter_.shares.taken(amount), filter_.charged(amount), filter_.unit, amount)


def accounts_of(ledger: Ledger, dataset: str, analyst: str | None = None) -> Accounts:
    """What may still be charged to a dataset, by an analyst: under a cap, no more than that leaves."""
    found = ledger.balance(dataset).accounts or Accounts(Amount(0), Amount(0))
    return found if analyst is None else replace(found, own=ledger.analyst_balance(dataset, analyst).left)


def spent_of(ledger: Ledger, dataset: str, filter_: Filter) -> Spending:
    """What all calls were charged, open ones included: a share of the account that lives."""
    accounts = accounts_of(ledger, dataset)
    basic = 0 if accounts.basic is None else accounts.basic.spent
    share = accounts.taken(accounts.spent, basic)
    return Spending(share, filter_.charged(accounts.spent), filter_.unit, accounts.spent)


def charged_of(ledger: Ledger, dataset: str, filter_: Filter, calls: list[CallRecord]) -> Spending:
    """What these calls were charged together, likewise."""
    total = sum((call.charged for call in calls), Amount(0))
    return charged_in(ledger, dataset, filter_, total, sum(call.basic for call in calls))


def charged_in(ledger: Ledger, dataset: str, filter_: Filter, total: Amount, basic: int) -> Spending:
    """Charges of a dataset that add up to this, and to so much of its basic account, likewise."""
    return Spending(accounts_of(ledger, dataset).taken(total, basic), filter_.charged(total), filter_.unit, total)


def remaining(filter_: Filter, accounts: Accounts) -> Spending:
    """What is left."""
    return Spending(accounts.share_left(), filter_.charged(accounts.left), filter_.unit, accounts.left)
