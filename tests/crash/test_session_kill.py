"""kill -9 at every step of reserve - run - settle, and races of real processes, through the whole stack."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import chary
from chary.accounting import Extendable
from chary.amounts import Amount
from chary.ledger import SqlLedger
from chary.session import STEPS
from tests.crash.session_child import FREE_MISSES, ask, open_session
from tests.session.kit import spent

CHILD = Path(__file__).with_name("session_child.py")
PRICE = 0.1 / 50


@pytest.fixture
def folder(tmp_path):
    rows = "\n".join(f"{unit},{unit % 90}" for unit in range(200))
    (tmp_path / "rows.csv").write_text(f"unit,age\n{rows}\n")
    return tmp_path


def start(folder, mode, argument):
    return subprocess.Popen(
        [sys.executable, str(CHILD), str(folder), mode, argument],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_at(folder, step):
    child = start(folder, "kill", step)
    out, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err
    return out


@pytest.mark.parametrize("step", [*STEPS, "published"])
def test_kill_never_loses_a_charge_nor_leaks_an_answer(folder, step):
    out = kill_at(folder, step)
    charged = {"asked": 0.0}.get(step, PRICE)
    stored = step in ("settled", "published")
    assert out.startswith("answer") == (step == "published")
    with open_session(folder) as session:
        assert session.spent.share == pytest.approx(charged)
        again = ask(session)
        fresh = 0.0 if stored else PRICE
        assert session.spent.share == pytest.approx(charged + fresh)
        if step == "published":
            assert out == f"answer {again.value}\n"
        assert ask(session) == again
        assert session.spent.share == pytest.approx(charged + fresh)
        states = [entry.state for entry in session.history]
    assert states == (["settled"] if stored or step == "asked" else ["reserved", "settled"])
    ledger = SqlLedger(folder / "rows.ledger")
    assert ledger.verify().ok
    ledger.close()


def test_eight_processes_of_two_analysts_never_pass_the_cap(folder):
    children = [start(folder, "many", analyst) for analyst in ("alice", "bob") * 4]
    results = [child.communicate(timeout=300) for child in children]
    assert [child.returncode for child in children] == [0] * 8, results
    answered, refused = (sum(int(out.split()[part]) for out, _err in results) for part in (0, 1))
    assert answered == 500
    assert answered + refused == 8 * 200
    with open_session(folder) as session:
        assert session.spent.share == 1.0
        assert sum(entry.hits for entry in session.history) == 500
        with pytest.raises(chary.BudgetRefused):
            session.test(chary.count(), above=0, epsilon="0.1")
    ledger = SqlLedger(folder / "rows.ledger")
    verdict = ledger.verify()
    assert verdict.ok
    assert ledger.balance("rows").spent.main == 500 * 10**14 == ledger.balance("rows").capacity.main
    ledger.close()


def test_a_killed_revision_is_charged_and_the_outcome_survives(folder):
    with open_session(folder, budget=FREE_MISSES) as session:
        held = session.release_if(chary.count(), above=10**6, epsilon="0.02")
        assert not held.published
        assert session.spent.share == 0
        hit = session.spine.filter.price(Extendable("0.02")).hit

    script = (
        "import os, signal, sys; from tests.crash.session_child import FREE_MISSES, open_session;"
        "kill = lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == 'ran' else None;"
        f"open_session(sys.argv[1], kill, budget=FREE_MISSES).revise({held.call}, above=-10**6)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], cwd=root, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    with open_session(folder, budget=FREE_MISSES) as session:
        assert spent(session) == hit
        assert session.revise(held.call, above=-(10**6)).published
        assert spent(session) == Amount(2 * hit.main, 2 * hit.delta)
