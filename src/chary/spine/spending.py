"""What is charged of a budget, and what is left of it, as an answer tells it."""

from chary.amounts import Amount
from chary.answer import Spending
from chary.filters import Filter
from chary.ledger import Ledger


def spending(filter_: Filter, amount: Amount) -> Spending:
    """A charge of the filter's unit, with the share of the budget that it takes."""
    return Spending(filter_.shares.taken(amount), filter_.charged(amount), filter_.unit, amount)


def remaining(filter_: Filter, left: Amount) -> Spending:
    """What is left, likewise."""
    return Spending(filter_.shares.left(left), filter_.charged(left), filter_.unit, left)


def left_of(ledger: Ledger, dataset: str, analyst: str) -> Amount:
    """What an analyst could still spend: the smaller of the dataset's room and the analyst's."""
    whole = ledger.balance(dataset).left or Amount(0)
    own = ledger.analyst_balance(dataset, analyst).left
    return whole if own is None else whole.cut_to(own)
