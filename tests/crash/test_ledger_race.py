"""Many processes on one file: the cap holds and nothing is lost."""

import subprocess
import sys

from chary.ledger import Amount, SqlLedger, Terms

PROCESSES, ROUNDS, CAP = 8, 200, 1000

CHILD = """
import sys
from chary.errors import BudgetRefused
from chary.ledger import Amount, SqlLedger

path, name = sys.argv[1:]
ledger, settled, refused = SqlLedger(path, timeout=120), 0, 0
for number in range(200):
    try:
        call = ledger.reserve("visits", name, "count", "{}", Amount(3, 1))
    except BudgetRefused:
        refused += 1
        continue
    ledger.settle(call, Amount(1), 1, 1, str(number))
    settled += 1
print(settled, refused)
"""


def test_eight_processes_never_pass_the_cap(tmp_path):
    path = tmp_path / "test.ledger"
    ledger = SqlLedger(path)
    ledger.open(Terms("visits", "ab12", "{}", Amount(CAP, CAP)))
    commands = [[sys.executable, "-c", CHILD, str(path), f"analyst-{number}"] for number in range(PROCESSES)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    counts = [tuple(map(int, child.communicate()[0].split())) for child in children]
    assert [child.returncode for child in children] == [0] * PROCESSES
    assert all(settled + refused == ROUNDS for settled, refused in counts)
    total = sum(settled for settled, _ in counts)
    # A reservation of 3 fits until 997 are spent; with others open at that moment some are refused before.
    assert CAP - 3 * PROCESSES < total <= CAP
    assert ledger.balance("visits").spent == Amount(total)
    assert ledger.balance("visits").open == Amount(0)
    for number, (settled, _) in enumerate(counts):
        assert ledger.analyst_balance("visits", f"analyst-{number}").spent == Amount(settled)
    assert len(list(ledger.calls("visits"))) == total
    assert ledger.verify().problems == []
    ledger.close()


def test_many_processes_may_make_the_same_ledger(tmp_path):
    path = tmp_path / "test.ledger"
    script = (
        "import sys; from chary.ledger import *; l = SqlLedger(sys.argv[1], timeout=60);"
        "l.open(Terms('visits', 'ab12', '{}', Amount(10))); l.close()"
    )
    children = [subprocess.Popen([sys.executable, "-c", script, str(path)]) for _ in range(6)]
    assert [child.wait() for child in children] == [0] * 6
    ledger = SqlLedger(path)
    assert ledger.verify().entries == 1
    ledger.close()
