"""Sessions charged by the better of two accounts: no analyst makes more of them than of the main account alone.

Every adaptive strategy of so many calls is tried, by the value of what may still follow at each likelihood ratio. Calls
are randomized response, of one or two units of epsilon, whose hits the main account charges, and releases that only the
basic one can pay for. What an analyst can reach with the main account alone, however long, is the promise.
"""

import math
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import pytest

from chary.amounts import LIMIT, Accounts, Amount, Basic

UNIT, EPSILON, TOKENS, CALLS = 0.25, 4, 2, 14


class Call(NamedTuple):
    """So many units of epsilon; what a hit and a miss cost in tokens."""

    units: int
    hit: int
    miss: int


TEST, LARGE = Call(1, 1, 0), Call(2, TOKENS + 1, 0)
RELEASES = Call(1, LIMIT, LIMIT), Call(2, LIMIT, LIMIT)
ALL = (TEST, LARGE, *RELEASES)


class Spent(NamedTuple):
    """What is charged to the main account and to the basic one; whether the main one has ended."""

    main: int = 0
    basic: int = 0
    alone: bool = False


def both(spent, call):
    """What remains charged after a hit and after a miss by the rule of the ledger; None for a call that is refused."""
    accounts = Accounts(Amount(TOKENS), Amount(spent.main), Basic(EPSILON, spent.basic, spent.alone))
    worst = Amount(min(call.hit, LIMIT - spent.main))
    added = accounts.basic.counted(call.units)
    if not accounts.fits(worst, added):
        return None
    alone = spent.alone or accounts.ended_by(worst)
    # Once it has ended, what is counted in it does not matter.
    return [Spent(TOKENS + 1 if alone else spent.main + cost, spent.basic + added, alone) for cost in call[1:]]


def main_alone(spent, call):
    """The rule without a basic account."""
    return None if spent.main + call.hit > TOKENS else [Spent(spent.main + cost) for cost in call[1:]]


def basic_alone(spent, call):
    """Epsilons that add up."""
    basic = spent.basic + call.units
    return None if basic > EPSILON else [Spent(0, basic)] * 2


def either_pays(spent, call):
    """Broken: each call is charged to whichever account has room, as if their shares did not add up."""
    return (main_alone(spent, call) and [after._replace(basic=spent.basic) for after in main_alone(spent, call)]) or (
        basic_alone(spent, call) and [Spent(spent.main, spent.basic + call.units)] * 2
    )


def never_ends(spent, call):
    """Broken: a call that only the epsilons have room for may miss, and the tokens go on as if it had not been."""
    main, basic = spent.main + call.hit, min(spent.basic + call.units, EPSILON + 1)
    if main > TOKENS and basic > EPSILON:
        return None
    return [Spent(min(spent.main + cost, TOKENS + 1), basic) for cost in call[1:]]


def reached(rule, calls=CALLS):
    """The delta at the promised epsilon that the best analyst of so many calls reaches."""

    @cache
    def value(spent, ratio, left):
        """For one that starts at likelihoods 1 and e^(ratio units)."""
        found = max(0.0, 1 - math.exp((EPSILON + ratio) * UNIT))
        for call in ALL if left else ():
            after = rule(spent, call)
            if after is None:
                continue
            likely = 1 / (1 + math.exp(-call.units * UNIT))
            for hit in (False, True):
                # The likelier outcome under the first neighbour hits, or the other one does.
                outcomes = ((likely, -call.units, after[not hit]), (1 - likely, call.units, after[hit]))
                found = max(found, sum(p * value(then, ratio + step, left - 1) for p, step, then in outcomes))
        return found

    return value(Spent(), 0, calls)


@pytest.fixture(scope="module")
def promised():
    longer = [reached(main_alone, calls) for calls in (CALLS, 4 * CALLS, 8 * CALLS)]
    assert all(less <= more for less, more in pairwise(longer))
    return longer[-1]


def test_two_accounts_keep_the_promise_of_one(promised):
    found = reached(both)
    assert reached(main_alone) <= found + 1e-12
    assert reached(basic_alone) == pytest.approx(0, abs=1e-12)
    assert found <= promised + 1e-12


def test_the_better_account_admits_what_the_other_cannot():
    assert both(Spent(), RELEASES[1]) == [Spent(TOKENS + 1, 2, True)] * 2
    assert main_alone(Spent(), RELEASES[1]) is None
    many = Spent(0, EPSILON + 1)
    assert both(many, TEST) == [Spent(1, EPSILON + 1), Spent(0, EPSILON + 1)]
    assert basic_alone(many, TEST) is None


@pytest.mark.parametrize("broken", [either_pays, never_ends])
def test_rules_that_are_broken_are_found_out(promised, broken):
    assert reached(broken) > 1.05 * promised
