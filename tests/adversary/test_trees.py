"""Trees of histograms over two blocks against the best analyst, who opens, warms and asks nodes in any order."""

from fractions import Fraction

import pytest

from chary import Budget
from chary.filters import RenyiFilter
from chary.mechanisms.weights import Change
from tests.adversary.kit import Best, Delta, Moment
from tests.adversary.trees import ROWS, Tree

FILTER = RenyiFilter(Budget(epsilon=30, delta="0.01"), order=Fraction(2))


@pytest.mark.parametrize(("price", "calls"), [("0.02", 3), ("0.2", 4)])
def test_a_unit_of_a_block_is_charged_what_nodes_over_it_tell(price, calls):
    assert 1 - 1e-9 <= Best(Tree(FILTER, price), Moment(2)).value(calls) <= 1 + 1e-9


@pytest.mark.parametrize("charged", [("a",), ("a and b",)])
def test_a_node_that_is_not_charged_in_one_of_its_blocks_is_found_out(charged):
    assert Best(Tree(FILTER, "0.2", charged), Moment(2)).value(2) > 1.01


def test_a_node_of_other_blocks_may_be_charged_there_alone():
    """Asked of block b alone, and warmed by what was published of a, nothing is charged in block a."""
    game = Tree(FILTER, "0.2", ())
    game.asks = lambda seen: [ask for ask in Tree.asks(game, seen) if _changed(ask, seen) == 1]
    assert Best(game, Moment(2)).value(3) == pytest.approx(1, abs=1e-12)


def test_a_warm_start_from_the_rows_themselves_is_found_out():
    def from_rows(name, changes, side):
        return [Change("age >= 1", ROWS, 1.0, 0.0, 1.0 + side, hard=False)]

    assert Best(Tree(FILTER, "0.02", copied=from_rows), Delta(1)).value(1) == pytest.approx(1)
    assert Best(Tree(FILTER, "0.02"), Delta(1)).value(2) < 0.01


def _changed(ask, seen):
    """Which node it concerns."""
    after = next(iter(ask.play(0, None))).seen
    return next((place for place in range(3) if after[place] != seen[place]), 1)
