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
