"""Whole sessions on parts of a partition, enumerated: no analyst learns more of a unit than the budget promises.

Calls are randomized response of one unit of epsilon about the rows of one part, of several or of all. A call that reads
none of the parts in which a unit is has the same law with and without that unit. Every adaptive strategy of so many
calls is tried, against every set of parts that a unit can be in: what it reaches is the largest delta at the promised
epsilon. Releases are paid whatever comes out, and tests if they hit. The ledger in memory says what is admitted.
"""

import math
from functools import cache
from itertools import combinations

import pytest

from chary.amounts import Amount
from chary.ledger import Parts
from chary.ledger.accounts import Partition, Purse

UNIT, CAP, CALLS, NAMES = 0.25, 2, 10, ("a", "b", "c")
WHERE = (None, *(names for size in (1, 2) for names in combinations(NAMES, size)))


def purse_of(common, held, most):
    """A purse after so much was charged to all rows and to each part."""
    purse = Purse(Amount(CAP), partitions={"region": Partition(most)})
    purse.move((common, 0, 0, 0))
    for name, amount in zip(NAMES, held, strict=True):
        purse.move((amount, 0, 0, 0), Parts("region", most, (name,)))
    return purse


def reached(most, *, tests, counted=None, charged_to=lambda names: names):
    """The delta at the promised epsilon that the best analyst reaches of a unit that is in `most` parts.

    `counted` is in how many parts the ledger believes a unit to be, and `charged_to` which parts of a call are charged:
    what they are by default is right.
    """

    @cache
    def admitted(common, held, names):
        parts = None if names is None else Parts("region", counted or most, charged_to(names))
        return purse_of(common, held, counted or most).fits(Amount(1), 0, parts)

    def after(common, held, names, cost):
        if names is None:
            return common + cost, held
        paid = charged_to(names)
        return common, tuple(amount + cost * (name in paid) for name, amount in zip(NAMES, held, strict=True))

    @cache
    def value(unit, common, held, ratio, left):
        """For one that starts at likelihoods 1 and e^(ratio units) of a unit in these parts."""
        found = max(0.0, 1 - math.exp((CAP + ratio) * UNIT))
        for names in WHERE if left else ():
            if not admitted(common, held, names):
                continue
            charges = [after(common, held, names, 1), after(common, held, names, 0 if tests else 1)]
            seen = names is None or bool(set(names) & unit)
            likely = 1 / (1 + math.exp(-UNIT)) if seen else 0.5
            for hit in (False, True):
                # The likelier outcome under the first neighbour hits, or the other one does.
                outcomes = ((likely, -1 * seen, charges[not hit]), (1 - likely, 1 * seen, charges[hit]))
                found = max(found, sum(p * value(unit, *then, ratio + step, left - 1) for p, step, then in outcomes))
        return found

    sets = [frozenset(names) for size in range(most + 1) for names in combinations(NAMES, size)]
    return max(value(unit, 0, (0,) * len(NAMES), 0, CALLS) for unit in sets)


@cache
def reached_of_all_rows():
    """The same of tests in ordinary sessions: the promise of tests whose misses are free."""

    @cache
    def value(spent, ratio, left):
        found = max(0.0, 1 - math.exp((CAP + ratio) * UNIT))
        likely = 1 / (1 + math.exp(-UNIT))
        for hit in (False, True) if left and spent < CAP else ():
            outcomes = ((likely, -1, spent + (not hit)), (1 - likely, 1, spent + hit))
            found = max(found, sum(p * value(then, ratio + step, left - 1) for p, step, then in outcomes))
        return found

    return value(0, 0, CALLS)


@pytest.mark.parametrize("most", [1, 2])
def test_releases_keep_the_budget_whatever_is_asked_where(most):
    assert reached(most, tests=False) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("most", [1, 2])
def test_tests_whose_misses_are_free_reach_as_much_as_those_of_all_rows(most):
    assert reached(most, tests=True) == pytest.approx(reached_of_all_rows(), rel=1e-12)


@pytest.mark.parametrize("tests", [False, True])
def test_a_unit_in_two_parts_where_one_counts_is_found_out(tests):
    """The dearest part alone is counted, and the unit is in two."""
    assert reached(2, tests=tests, counted=1) > 1.2 * (reached_of_all_rows() if tests else 0.01)


@pytest.mark.parametrize("tests", [False, True])
def test_a_call_that_reads_a_part_that_it_does_not_name_is_found_out(tests):
    found = reached(1, tests=tests, charged_to=lambda names: names[:1])
    assert found > 1.2 * (reached_of_all_rows() if tests else 0.01)


def test_parts_let_more_calls_fit_than_a_session_of_all_rows():
    purse = purse_of(0, (2, 1, 2), 1)
    fits = [purse.fits(Amount(1), 0, Parts("region", 1, (name,))) for name in NAMES]
    assert fits == [False, True, False]
    assert not purse.fits(Amount(1), 0, None)
