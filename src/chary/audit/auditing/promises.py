"""The epsilon and delta that a filter's charge stands for."""

from fractions import Fraction

from chary.accounting.composition import epsilon_up
from chary.amounts import DELTA_STEPS
from chary.filters import Filter, PureFilter, RenyiFilter


def claimed(filter_: Filter, main: int, failure: int) -> tuple[float, float]:
    """What is promised by a charge of so many steps; never more than the whole budget.

    Under the pure filter that is its epsilon, under a Renyi filter what its log-moment gives at the budget's delta.
    Tokens of an exact filter say nothing by themselves: the whole budget is promised.

    >>> from chary import Budget
    >>> claimed(PureFilter(Budget(3)), 10**15, 0)
    (1.0, 0.0)
    """
    epsilon, delta = filter_.budget.exact
    spent = Fraction(main, filter_.steps)
    if isinstance(filter_, PureFilter):
        return float(spent), failure / DELTA_STEPS
    if isinstance(filter_, RenyiFilter):
        spare = delta - filter_.approximate_delta
        return float(epsilon_up(spent, filter_.order, spare)), float(spare) + failure / DELTA_STEPS
    return float(epsilon), float(delta)
