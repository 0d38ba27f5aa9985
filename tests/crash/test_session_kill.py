"""kill -9 at every step of reserve - run - settle, and races of real processes, through the whole stack."""

import signal

import pytest

import chary
from chary.accounting import Extendable
from chary.amounts import Amount
from chary.calls import Widen
from chary.ledger import open_ledger
from chary.session import STEPS
from tests.children import Python
from tests.crash.session_child import FREE_MISSES, ask, open_session
from tests.session.kit import spent

PRICE = 0.1 / 50


@pytest.fixture
def folder(tmp_path):
    rows = "\n".join(f"{unit},{unit % 90}" for unit in range(200))
    (tmp_path / "rows.csv").write_text(f"unit,age\n{rows}\n")
    return tmp_path


def start(folder, mode, *arguments):
    return Python("-m", "tests.crash.session_child", folder, mode, *arguments)


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
    ledger = open_ledger(folder / "rows.ledger")
    assert ledger.verify().ok
    ledger.close()


@pytest.mark.parametrize(
    ("requests", "epsilon", "most"), [(30, "0.5", 100), pytest.param(200, "0.1", 500, marks=pytest.mark.soak)]
)
def test_eight_processes_of_two_analysts_never_pass_the_cap(folder, requests, epsilon, most):
    children = [start(folder, "many", analyst, requests, epsilon) for analyst in ("alice", "bob") * 4]
    results = [child.communicate(timeout=300) for child in children]
    assert [child.returncode for child in children] == [0] * 8, results
    answered, refused = (sum(int(out.split()[part]) for out, _err in results) for part in (0, 1))
    assert answered == most
    assert answered + refused == 8 * requests
    with open_session(folder) as session:
        assert session.spent.share == 1.0
        assert sum(entry.hits for entry in session.history) == most
        with pytest.raises(chary.BudgetExceeded):
            session.test(chary.count(), above=0, epsilon="0.1")
    ledger = open_ledger(folder / "rows.ledger")
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
        "import os, signal, sys; from chary.calls import Widen;"
        "from tests.crash.session_child import FREE_MISSES, open_session;"
        "kill = lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == 'ran' else None;"
        f"open_session(sys.argv[1], kill, budget=FREE_MISSES).ask(Widen({held.call}, above=-10**6))"
    )
    child = Python("-c", script, folder)
    _out, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err
    with open_session(folder, budget=FREE_MISSES) as session:
        assert spent(session) == hit
        assert session.ask(Widen(held.call, above=-(10**6))).published
        assert spent(session) == Amount(2 * hit.main, 2 * hit.delta)
