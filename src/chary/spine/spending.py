"""What is charged of a budget, and what is left of it, as shares."""

from chary.amounts import Amount
from chary.answer import Spending
from chary.filters import Filter
from chary.ledger import Ledger


def spending(filter_: Filter, amount: Amount) -> Spending:
    """An amount of the filter's unit, as a share of its capacity: the larger share, where some delta was set aside."""
    return Spending(max(_shares(filter_, amount), default=0.0), filter_.charged(amount), filter_.unit, amount)


def remaining(filter_: Filter, left: Amount) -> Spending:
    """What is left, likewise: the smaller share, where some delta was set aside."""
    return Spending(min(_shares(filter_, left), default=0.0), filter_.charged(left), filter_.unit, left)


def _shares(filter_: Filter, amount: Amount) -> list[float]:
    capacity = filter_.capacity
    return [part / whole for part, whole in ((amount.main, capacity.main), (amount.delta, capacity.delta)) if whole]


def left_of(ledger: Ledger, dataset: str, analyst: str) -> Amount:
    """What an analyst could still spend: the smaller of the dataset's room and the analyst's."""
    whole = ledger.balance(dataset).left or Amount(0)
    own = ledger.analyst_balance(dataset, analyst).left
    return whole if own is None else Amount(min(whole.main, own.main), min(whole.delta, own.delta))
