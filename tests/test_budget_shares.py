"""Fractions of a budget are worked out in one place, from the larger part of an amount."""

import ast
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chary.amounts import Amount, Shares
from tests.paths import ROOT

PART = st.integers(0, 10**6)
AMOUNT = st.builds(Amount, PART, PART)


@given(capacity=AMOUNT, first=AMOUNT, second=AMOUNT)
def test_the_larger_share_of_what_is_taken_is_the_smaller_of_what_is_left(capacity, first, second):
    shares, spent = Shares(capacity), first.cut_to(capacity)
    assert shares.taken(first) == float(shares.exactly(first))
    if first.fits_into(second):
        assert shares.taken(first) <= shares.taken(second)
    if capacity.main and capacity.delta:
        assert shares.left(capacity - spent) == pytest.approx(1 - shares.taken(spent), abs=1e-12)
        assert shares.left(capacity, first) == pytest.approx(1 - shares.taken(first), rel=1e-9, abs=1e-9)


@given(capacity=AMOUNT, share=st.fractions(0, 1))
def test_a_cap_takes_at_most_its_share(capacity, share):
    assert Shares(capacity).exactly(Shares(capacity).cap(share)) <= share
    assert Shares(capacity).cap(Fraction(1)) == capacity


def test_what_no_capacity_holds_is_more_than_all_of_it():
    assert Shares(Amount(10)).taken(Amount(0, 3)) == 3
    assert Shares(Amount(10)).left(Amount(4)) == 0.4
    assert Shares(Amount(0)).left(Amount(0)) == 0


def test_no_other_module_divides_by_a_capacity():
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "src" / "chary").rglob("*.py"))
        if path != ROOT / "src" / "chary" / "amounts.py"
        for line in divisions(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "share = call.charged.main / max(1, filter_.capacity.main)",
        "whole = max(1, filter_.capacity.main)\nshare = spent / whole",
        "Fraction(left, room.filter.capacity.main)",
        "def f():\n    whole = f.capacity\n    return lambda: g() / whole.main",
        "price.hit.main / whole",
    ],
)
def test_a_division_by_a_capacity_is_found(source):
    assert divisions(source)


def test_a_conversion_to_the_unit_is_none():
    assert divisions("amount.main / self.steps; low / high; Fraction(other.capacity.main, other.steps)") == []


def divisions(source):
    """The lines that divide by a capacity, or an amount by anything but the steps of its unit."""
    tree = ast.parse(source)
    named = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and "capacity" in attributes(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [node.lineno for node in ast.walk(tree) if is_share(divided(node), named)]


def divided(node):
    """What is divided by what; None for another node."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return node.left, node.right
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Fraction" and len(node.args) == 2:
        return tuple(node.args)
    return None


def is_share(parts, named):
    if parts is None:
        return False
    names = {node.id for node in ast.walk(parts[1]) if isinstance(node, ast.Name)}
    if "capacity" in attributes(parts[1]) or names & named:
        return True
    return "main" in attributes(parts[0]) and "steps" not in attributes(parts[1])


def attributes(node):
    return {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
