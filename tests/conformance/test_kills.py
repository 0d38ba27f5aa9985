"""kill -9 within a question to each form of run, and processes that ask one run at once: see samples.py.

The processes are forked from one that has imported everything and opened nothing: importing takes each a second.
"""

import pickle
import signal

import pandas as pd
import pytest

import chary
from chary import BudgetExceeded, LedgerLocked, NotWithheld
from chary.amounts import Amount
from chary.calls import growing_tests
from chary.ledger import SecretMoved
from tests.children import FORKED, ended, killing, started
from tests.conformance.sample import NEIGHBORS
from tests.conformance.samples import RUNS
from tests.conformance.test_runs import ROOM, check_accounts, resumed, secret, stored
from tests.session.kit import spent, visits

FORKED.set_forkserver_preload([__name__])
PROCESSES, ASKS, PATIENCE = 2, 4, 120
# Enough for the next run of a schedule, and for no other after it.
ARRIVED = visits().head(14)
GROWN = pd.concat([visits(), ARRIVED])

pytestmark = pytest.mark.usefixtures("any_threshold")


def opened(folder, form, on_step=None, rows=GROWN):
    given = {"ledger": folder / "visits.ledger", "dataset": "data"} | ROOM | NEIGHBORS[form.rows]
    return chary.open(rows, on_step=on_step, **given)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("step", ["ran", "settled", "published"])
def test_a_kill_leaves_answer_state_and_charge_together(name, step, tmp_path):
    """Not in the first question: a round may be open then."""
    form = RUNS[name]
    with opened(tmp_path, form, rows=visits()) as session:
        run = session.start(form.opening())
        first = form.question.ask(run, request="first")
        session.append(ARRIVED)
        kept, paid, asked = secret(run), spent(session), len(stored(session))
    assert ended(started(ask_and_die, tmp_path, name, run.call, step)) == -signal.SIGKILL
    assert (tmp_path / "told").exists() == (step == "published")
    with opened(tmp_path, form) as session:
        again, new = resumed(session, form, run.call), stored(session)[asked:]
        assert spent(session) == paid + sum((call.charged for call in new), Amount(0))
        assert str(new[-1].state) == ("reserved" if step == "ran" else "settled")
        if step == "ran":
            assert (new[-1].charged, secret(again)) == (new[-1].worst, kept)
        before, charged = secret(again), spent(session)
        answer = form.question.ask(again, request="second")
        # A round that began is settled before its question is reserved.
        assert (spent(session) == charged) or step == "ran"
        if step == "published":
            assert (secret(again), (tmp_path / "told").read_text()) == (before, repr(answer))
        assert repr(form.question.ask(again, request="second")) == repr(answer)
        assert repr(form.question.ask(again, request="first")) == repr(first)
        assert form.used(again) == form.took([first, answer])
        assert again.spent.amount == sum((each.charged for each in stored(session)), Amount(0))
        assert session.spine.ledger.verify().ok


@pytest.mark.parametrize("name", RUNS)
def test_processes_that_ask_at_once_share_what_is_there(name, tmp_path):
    """Each answer uses up its own part, and a run that ends gives no more than it has."""
    form = RUNS[name]
    ends = form.end is not None and form.end.answers
    with opened(tmp_path, form) as session:
        call = session.start(form.end.opening() if ends else form.opening()).call
    together = FORKED.Barrier(PROCESSES)
    children = [started(ask_all, tmp_path, name, call, number, together) for number in range(PROCESSES)]
    assert [ended(child) for child in children] == [0] * PROCESSES
    answers = [each for number in range(PROCESSES) for each in pickle.loads((tmp_path / f"{number}").read_bytes())]
    assert len(answers) == (ends or PROCESSES * ASKS)
    with opened(tmp_path, form) as session:
        check_accounts(session, form, resumed(session, form, call), answers)


def brought_up(folder, name, call, on_step=None):
    """The run in a process of its own, where any threshold may be asked about."""
    growing_tests.check_average = lambda *_asked: None
    return resumed(opened(folder, RUNS[name], on_step), RUNS[name], call)


def ask_and_die(folder, name, call, step):
    kill = killing(step)
    answer = RUNS[name].question.ask(brought_up(folder, name, call, kill), request="second")
    (folder / "told").write_text(repr(answer))
    kill("published")


def ask_all(folder, name, call, number, together):
    run, answers = brought_up(folder, name, call), []
    together.wait(PATIENCE)
    while len(answers) < ASKS:
        try:
            answers.append(RUNS[name].question.ask(run))
        except (LedgerLocked, SecretMoved):
            continue
        except (BudgetExceeded, NotWithheld):
            break
    (folder / f"{number}").write_bytes(pickle.dumps(answers))
