"""Many processes on one ledger: the cap holds and nothing is lost."""

import pytest

from chary.ledger import Amount, Terms, open_ledger
from tests.children import Python
from tests.ledger.kit import KEPT, place

PROCESSES = 8
CHILD = """
import sys
from chary.errors import BudgetExceeded
from chary.ledger import Amount, open_ledger

path, name, rounds = sys.argv[1:]
ledger, settled, refused = open_ledger(path, timeout=120), 0, 0
for number in range(int(rounds)):
    try:
        call = ledger.reserve("visits", name, "count", "{}", Amount(3, 1))
    except BudgetExceeded:
        refused += 1
        continue
    ledger.settle(call, Amount(1), 1, 1, str(number))
    settled += 1
print(settled, refused)
"""


SIZES = [("sql", 40, 200), ("postgresql", 15, 75)]
LONG = [pytest.param(kind, 200, 1000, marks=pytest.mark.soak) for kind in KEPT]


@pytest.mark.parametrize(("kind", "rounds", "cap"), SIZES + LONG)
def test_eight_processes_never_pass_the_cap(tmp_path, request, kind, rounds, cap):
    path = place(kind, tmp_path, request)
    ledger = open_ledger(path)
    ledger.open(Terms("visits", "ab12", "{}", Amount(cap, cap)))
    children = [Python("-c", CHILD, path, f"analyst-{number}", rounds) for number in range(PROCESSES)]
    counts = [tuple(map(int, child.communicate()[0].split())) for child in children]
    assert [child.returncode for child in children] == [0] * PROCESSES
    assert all(settled + refused == rounds for settled, refused in counts)
    total = sum(settled for settled, _ in counts)
    # A reservation of 3 fits until 3 are left; with others open at that moment some are refused before.
    assert cap - 3 * PROCESSES < total <= cap
    assert ledger.balance("visits").spent == Amount(total)
    assert ledger.balance("visits").open == Amount(0)
    for number, (settled, _) in enumerate(counts):
        assert ledger.analyst_balance("visits", f"analyst-{number}").spent == Amount(settled)
    assert len(list(ledger.calls("visits"))) == total
    assert ledger.verify().problems == []
    ledger.close()


OF_PARTS = """
import sys
from chary.errors import BudgetExceeded
from chary.ledger import Amount, Parts, open_ledger

path, name, rounds, *parts = sys.argv[1:]
ledger, settled = open_ledger(path, timeout=120), {part: 0 for part in parts}
for number in range(int(rounds)):
    part = parts[number % len(parts)]
    named = None if part == "all" else Parts("region", 1, (part,))
    try:
        call = ledger.reserve("visits", name, "count", "{}", Amount(3, 1), parts=named)
    except BudgetExceeded:
        continue
    ledger.settle(call, Amount(2), 1, 1, str(number))
    settled[part] += 2
print(*settled.values())
"""
WHERE = [("north", "south"), ("south", "west"), ("north", "all"), ("west", "south")]


@pytest.mark.parametrize("kind", KEPT)
def test_processes_that_charge_different_parts_never_pass_the_cap_together(tmp_path, request, kind):
    path, cap = place(kind, tmp_path, request), 40
    ledger = open_ledger(path)
    ledger.open(Terms("visits", "ab12", "{}", Amount(cap, cap)))
    children = [Python("-c", OF_PARTS, path, f"analyst-{number}", 30, *parts) for number, parts in enumerate(WHERE)]
    held = dict.fromkeys(("north", "south", "west", "all"), 0)
    for child, parts in zip(children, WHERE, strict=True):
        for part, amount in zip(parts, map(int, child.communicate()[0].split()), strict=True):
            held[part] += amount
    common = held.pop("all")
    assert common + max(held.values()) <= cap < common + sum(held.values())
    assert ledger.balance("visits").spent == Amount(common + max(held.values()))
    assert {part: amount.main for part, amount in ledger.partitions("visits")[0].parts.items()} == held
    assert ledger.verify().problems == []
    ledger.close()


@pytest.mark.parametrize("kind", KEPT)
def test_many_processes_may_make_the_same_ledger(tmp_path, request, kind):
    path = place(kind, tmp_path, request)
    script = (
        "import sys; from chary.ledger import *; l = open_ledger(sys.argv[1], timeout=60);"
        "l.open(Terms('visits', 'ab12', '{}', Amount(10))); l.close()"
    )
    children = [Python("-c", script, path) for _ in range(6)]
    outputs = [child.communicate() for child in children]
    assert [child.returncode for child in children] == [0] * 6, outputs
    ledger = open_ledger(path)
    assert ledger.verify().entries == 1
    ledger.close()
